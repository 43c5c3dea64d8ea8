// SPDX-License-Identifier: MIT

// Go's time.AfterFunc doing the work timer_load.h tells of; arguments as timer_peer.c.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type random uint64

func (r *random) next() uint64 {
	x := uint64(*r)
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*r = random(x)
	return x
}

func (r *random) delay() time.Duration {
	return time.Second + time.Duration(((r.next()>>32)*59000)>>32)*time.Millisecond
}

func usage() (cpu time.Duration, switches int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw
}

func nothing() {}

func churn(threads, pending, pairs int) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(threads)
	done.Add(threads)
	for t := 0; t < threads; t++ {
		go func(t int) {
			seed := random(88172645463325252 + uint64(t))
			count := pending / threads
			timers := make([]*time.Timer, count)
			for i := range timers {
				timers[i] = time.AfterFunc(seed.delay(), nothing)
			}
			run := func(pairs int) {
				for i := 0; i < pairs; i++ {
					fresh := time.AfterFunc(seed.delay(), nothing)
					r := ((seed.next() >> 32) * uint64(count)) >> 32
					timers[r].Stop()
					timers[r] = fresh
				}
			}
			run(pairs / 20)
			ready.Done()
			<-start
			run(pairs / threads)
			done.Done()
		}(t)
	}
	ready.Wait()
	cpu, _ := usage()
	begun := time.Now()
	close(start)
	done.Wait()
	wall := time.Since(begun)
	after, _ := usage()
	fmt.Printf("value ns_per_pair %f\n", float64(wall.Nanoseconds())/float64(pairs))
	fmt.Printf("value cpu_ns_per_pair %f\n", float64((after-cpu).Nanoseconds())/float64(pairs))
}

func shoot(count int) {
	late := make([]int64, count)
	seed := random(88172645463325252)
	var left int64 = int64(count)
	done := make(chan struct{})
	cpu, _ := usage()
	begun := time.Now()
	for i := 0; i < count; i++ {
		i := i
		delay := time.Duration(100+((seed.next()>>32)*1901)>>32) * time.Millisecond
		due := time.Now().Add(delay)
		time.AfterFunc(delay, func() {
			late[i] = time.Since(due).Nanoseconds()
			if atomic.AddInt64(&left, -1) == 0 {
				close(done)
			}
		})
	}
	insert := time.Since(begun)
	<-done
	after, _ := usage()
	sort.Slice(late, func(a, b int) bool { return late[a] < late[b] })
	early := sort.Search(count, func(i int) bool { return late[i] >= 0 })
	fmt.Printf("value insert_ns %f\n", float64(insert.Nanoseconds())/float64(count))
	fmt.Printf("value p99_us %f\n", float64(late[count*99/100])/1e3)
	fmt.Printf("value p50_us %f\n", float64(late[count/2])/1e3)
	fmt.Printf("value p999_us %f\n", float64(late[count*999/1000])/1e3)
	fmt.Printf("value max_us %f\n", float64(late[count-1])/1e3)
	fmt.Printf("value early %d\n", early)
	fmt.Printf("value cpu_s %f\n", (after - cpu).Seconds())
}

func insert(count int) {
	seed := random(88172645463325252)
	var left int64 = int64(count)
	done := make(chan struct{})
	task := func() {
		if atomic.AddInt64(&left, -1) == 0 {
			close(done)
		}
	}
	cpu, _ := usage()
	begun := time.Now()
	for i := 0; i < count; i++ {
		time.AfterFunc(time.Duration(((seed.next()>>32)*1000000000)>>32), task)
	}
	fmt.Printf("value insert_ns %f\n", float64(time.Since(begun).Nanoseconds())/float64(count))
	<-done
	after, _ := usage()
	fmt.Printf("value cpu_s %f\n", (after - cpu).Seconds())
}

func fill(count int, far time.Duration) []*time.Timer {
	timers := make([]*time.Timer, count)
	for i := range timers {
		timers[i] = time.AfterFunc(far+time.Duration(i)*time.Microsecond, nothing)
	}
	return timers
}

func wait(count, ms int, t6 bool) {
	timers := fill(count, time.Hour)
	time.Sleep(100 * time.Millisecond)
	cpu, switches := usage()
	time.Sleep(time.Duration(ms) * time.Millisecond)
	cpuAfter, switchesAfter := usage()
	if t6 {
		fmt.Printf("value cpu_ms_per_s %f\n", (cpuAfter-cpu).Seconds()*1e6/float64(ms))
	} else {
		fmt.Printf("value wakeups_per_s %f\n", float64(switchesAfter-switches)*1000/float64(ms))
		fmt.Printf("value cpu_ms %f\n", (cpuAfter-cpu).Seconds()*1e3)
	}
	runtime.KeepAlive(timers)
}

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func main() {
	var n [3]int
	for i := 0; i < 3 && i+2 < len(os.Args); i++ {
		n[i], _ = strconv.Atoi(os.Args[i+2])
	}
	switch os.Args[1] {
	case "T1":
		churn(n[0], n[1], n[2])
	case "T2":
		shoot(n[0])
	case "T3":
		wait(n[0], n[1], false)
	case "T4":
		before := heap()
		timers := fill(n[0], 10*time.Minute)
		fmt.Printf("value bytes_per_timer %f\n", (heap()-before)/float64(n[0]))
		runtime.KeepAlive(timers)
	case "T5":
		insert(n[0])
	case "T6":
		wait(n[0], n[1], true)
	}
}
