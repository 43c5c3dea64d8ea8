// SPDX-License-Identifier: MIT

// Go doing the work pool_load.h tells of: a goroutine for each task, or goroutines
// that take tasks from a channel.
//
//	pool_peer_go WORKLOAD goroutine|channel PRODUCERS WORKERS COUNT LIMIT_MS CPU CPU
//
// Prints what bench_exec expects.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	answer        = 42
	askChunk      = 50
	warmUpPart    = 5
	wakeWarmUp    = 50
	channelLength = 1024
	// A goroutine that waits takes kilobytes: a tenth of the tasks is enough.
	memoryPart = 10
)

// ---- the pools ----

type pool interface {
	submit(task func())
	ask(count int) int
}

type goroutines struct{}

func (goroutines) submit(task func()) {
	go task()
}

func (goroutines) ask(count int) int {
	reply := make(chan int, 1)
	sum := 0
	for i := 0; i < count; i++ {
		go func() { reply <- answer }()
		sum += <-reply
	}
	return sum
}

type channel struct {
	tasks chan func()
}

func newChannel(workers int) *channel {
	c := &channel{make(chan func(), channelLength)}
	var met, left sync.WaitGroup

	met.Add(workers)
	left.Add(workers)
	for i := 0; i < workers; i++ {
		go func() {
			for task := range c.tasks {
				task()
			}
		}()
		c.tasks <- func() {
			met.Done()
			met.Wait()
			left.Done()
		}
	}
	left.Wait()
	return c
}

func (c *channel) submit(task func()) {
	c.tasks <- task
}

func (c *channel) ask(count int) int {
	reply := make(chan int, 1)
	task := func() { reply <- answer }
	sum := 0
	for i := 0; i < count; i++ {
		c.tasks <- task
		sum += <-reply
	}
	return sum
}

// ---- what tasks do ----

type tally struct {
	_      [128]byte
	done   int64
	_      [120]byte
	target int64
	end    chan time.Time
	_      [112]byte
}

func newTally(target int) *tally {
	return &tally{target: int64(target), end: make(chan time.Time, 1)}
}

func (t *tally) countOne() {
	if atomic.AddInt64(&t.done, 1) == t.target {
		t.end <- time.Now()
	}
}

func spray(p pool, t *tally, count int) {
	task := t.countOne
	switch p := p.(type) {
	case goroutines:
		for i := 0; i < count; i++ {
			go t.countOne()
		}
	case *channel:
		for i := 0; i < count; i++ {
			p.tasks <- task
		}
	}
}

// ---- the workloads ----

func cpuTime() time.Duration {
	var usage syscall.Rusage

	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func sprayPass(p pool, producers, count int) (wall, cpu time.Duration) {
	share := count / producers
	t := newTally(share * producers)
	start := make(chan struct{})
	begin := make([]time.Time, producers)
	var ready, sent sync.WaitGroup

	ready.Add(producers)
	sent.Add(producers)
	for i := 0; i < producers; i++ {
		go func(i int) {
			ready.Done()
			<-start
			begin[i] = time.Now()
			spray(p, t, share)
			sent.Done()
		}(i)
	}
	ready.Wait()
	cpu = cpuTime()
	close(start)
	sent.Wait()
	end := <-t.end
	cpu = cpuTime() - cpu
	first := begin[0]
	for _, b := range begin {
		if b.Before(first) {
			first = b
		}
	}
	return end.Sub(first), cpu
}

func w1(p pool, producers, count int) {
	sprayPass(p, producers, count)
	wall, cpu := sprayPass(p, producers, count)
	fmt.Printf("value ns_per_task %.3f\n", float64(wall)/float64(count))
	fmt.Printf("value cpu_ns_per_task %.3f\n", float64(cpu)/float64(count))
}

func w2(p pool, count int, limit time.Duration) {
	for begin := time.Now(); time.Since(begin) < limit/warmUpPart; {
		p.ask(askChunk)
	}
	asked, sum := 0, 0
	cpu := cpuTime()
	begin := time.Now()
	for asked < count && time.Since(begin) < limit {
		sum += p.ask(askChunk)
		asked += askChunk
	}
	wall := time.Since(begin)
	cpu = cpuTime() - cpu
	if sum != asked*answer {
		panic("a wrong answer")
	}
	fmt.Printf("value ns_per_round_trip %.3f\n", float64(wall)/float64(asked))
	fmt.Printf("value cpu_ns_per_round_trip %.3f\n", float64(cpu)/float64(asked))
}

func w3(p pool, count int) {
	epoch := time.Now()
	times := make([]int64, 0, count)
	var started int64
	var cpu time.Duration

	stamp := func() { atomic.StoreInt64(&started, int64(time.Since(epoch))) }
	for i := 0; i < wakeWarmUp+count; i++ {
		if i == wakeWarmUp {
			cpu = cpuTime()
		}
		atomic.StoreInt64(&started, 0)
		time.Sleep(time.Millisecond)
		sent := int64(time.Since(epoch))
		p.submit(stamp)
		for atomic.LoadInt64(&started) == 0 {
			time.Sleep(50 * time.Microsecond)
		}
		if i >= wakeWarmUp {
			times = append(times, started-sent)
		}
	}
	cpu = cpuTime() - cpu
	sort.Slice(times, func(a, b int) bool { return times[a] < times[b] })
	fmt.Printf("value p50_ns %d\n", times[len(times)/2])
	fmt.Printf("value p99_ns %d\n", times[len(times)*99/100])
	fmt.Printf("value cpu_p50_ns %.3f\n", float64(cpu)/float64(count))
}

func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "Rss:") {
			return int64(number(strings.Fields(line)[1])) * 1024
		}
	}
	panic("no Rss")
}

func w6(p pool, count int) {
	if _, bounded := p.(*channel); bounded {
		fmt.Println("skip it has a bound")
		return
	}
	count /= memoryPart
	gate := make(chan struct{})
	var waiting, done sync.WaitGroup

	waiting.Add(count)
	done.Add(count)
	before := residentBytes()
	for i := 0; i < count; i++ {
		go func() {
			waiting.Done()
			<-gate
			done.Done()
		}()
	}
	waiting.Wait()
	bytes := residentBytes() - before
	close(gate)
	done.Wait()
	fmt.Printf("value bytes_per_task %.3f\n", float64(bytes)/float64(count))
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	producers, workers, count := number(os.Args[3]), number(os.Args[4]), number(os.Args[5])
	var p pool = goroutines{}

	if os.Args[2] == "channel" {
		p = newChannel(workers)
	}
	switch os.Args[1] {
	case "W1":
		w1(p, producers, count)
	case "W2":
		w2(p, count, time.Duration(number(os.Args[6]))*time.Millisecond)
	case "W3":
		// A sleep returns on a thread of the runtime; the main goroutine keeps its own.
		runtime.LockOSThread()
		w3(p, count)
	case "W6":
		w6(p, count)
	}
}
