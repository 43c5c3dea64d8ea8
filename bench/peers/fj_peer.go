// SPDX-License-Identifier: MIT

// Go doing the work fj_load.h tells of, with a goroutine for each task and a WaitGroup
// where tasks are joined.  What is computed is that of fj_kernel.h, in Go.
//
//	fj_peer_go W4|W5|W7|W8 goroutine WORKERS COUNT
//
// Prints what bench_exec expects.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	sortCutoff   = 2048
	insertionMax = 32
	fibWarmUp    = 4
	warmUpPart   = 5
	warmUp       = 200 * time.Millisecond
	rootsFull    = 2000
	rootsWarmUp  = 41
	treeSeed     = 40
	treeFan      = 8
	hashRounds   = 32
	gamma        = 0x9e3779b97f4a7c15
	fertile      = 2302153660398951936
)

func cpuTime() time.Duration {
	var usage syscall.Rusage

	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Times work, which returns how many operations it did.
func timed(metric string, work func() float64) {
	cpu := cpuTime()
	begin := time.Now()
	operations := work()
	wall := time.Since(begin)
	cpu = cpuTime() - cpu
	fmt.Printf("value %s %.6f\n", metric, float64(wall)/operations)
	fmt.Printf("value cpu_%s %.6f\n", metric, float64(cpu)/operations)
}

func check(ok bool) {
	if !ok {
		panic("a wrong result")
	}
}

// ---- W4 ----

func fib(n int) uint64 {
	if n < 2 {
		return uint64(n)
	}
	var x uint64
	var group sync.WaitGroup

	group.Add(1)
	go func() {
		x = fib(n - 1)
		group.Done()
	}()
	y := fib(n - 2)
	group.Wait()
	return x + y
}

func fibNumber(n int) uint64 {
	a, b := uint64(0), uint64(1)
	for ; n > 0; n-- {
		a, b = b, a+b
	}
	return a
}

func w4(n int) {
	for begin := time.Now(); time.Since(begin) < warmUp; {
		check(fib(n-fibWarmUp) == fibNumber(n-fibWarmUp))
	}
	timed("ns_per_spawn", func() float64 {
		check(fib(n) == fibNumber(n))
		return float64(fibNumber(n+1) - 1)
	})
}

// ---- W5 ----

func mix(x uint64) uint64 {
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

func fill(a []uint32) {
	for i := range a {
		a[i] = uint32(mix(uint64(i)*gamma) >> 32)
	}
}

func insertionSort(a []uint32) {
	for i := 1; i < len(a); i++ {
		x, j := a[i], i
		for ; j > 0 && a[j-1] > x; j-- {
			a[j] = a[j-1]
		}
		a[j] = x
	}
}

func merge(to, x, y []uint32) {
	i, j, k := 0, 0, 0
	for i < len(x) && j < len(y) {
		if y[j] < x[i] {
			to[k] = y[j]
			j++
		} else {
			to[k] = x[i]
			i++
		}
		k++
	}
	k += copy(to[k:], x[i:])
	copy(to[k:], y[j:])
}

func mergeHalves(a, t []uint32, intoT bool) {
	half := len(a) / 2
	if intoT {
		merge(t, a[:half], a[half:])
	} else {
		merge(a, t[:half], t[half:])
	}
}

func sequentialSort(a, t []uint32, intoT bool) {
	if len(a) <= insertionMax {
		insertionSort(a)
		if intoT {
			copy(t, a)
		}
		return
	}
	half := len(a) / 2
	sequentialSort(a[:half], t[:half], !intoT)
	sequentialSort(a[half:], t[half:], !intoT)
	mergeHalves(a, t, intoT)
}

func parallelSort(a, t []uint32, intoT bool) {
	if len(a) <= sortCutoff {
		sequentialSort(a, t, intoT)
		return
	}
	half := len(a) / 2
	var group sync.WaitGroup

	group.Add(1)
	go func() {
		parallelSort(a[:half], t[:half], !intoT)
		group.Done()
	}()
	parallelSort(a[half:], t[half:], !intoT)
	group.Wait()
	mergeHalves(a, t, intoT)
}

func sumOf(a []uint32) uint64 {
	sum := uint64(0)
	for _, x := range a {
		sum += uint64(x)
	}
	return sum
}

func w5(count int) {
	a, t := make([]uint32, count), make([]uint32, count)

	fill(t)
	fill(a)
	parallelSort(a[:count/warmUpPart], t[:count/warmUpPart], false)
	fill(a)
	sum := sumOf(a)
	runtime.GC()
	timed("ms", func() float64 {
		parallelSort(a, t, false)
		return 1e6
	})
	for i := 1; i < count; i++ {
		check(a[i-1] <= a[i])
	}
	check(sumOf(a) == sum)
}

// ---- W7 ----

func child(node, index uint64) uint64 {
	x := node + (index+1)*gamma
	for i := 0; i < hashRounds; i++ {
		x = mix(x + gamma)
	}
	return x
}

func visit(parent, index uint64) uint64 {
	node := child(parent, index)
	if node >= fertile {
		return 1
	}
	return 1 + visitAll(node, treeFan)
}

func visitAll(node uint64, children int) uint64 {
	counts := make([]uint64, children)
	var group sync.WaitGroup

	group.Add(children - 1)
	for i := 1; i < children; i++ {
		go func(i int) {
			counts[i] = visit(node, uint64(i))
			group.Done()
		}(i)
	}
	nodes := visit(node, 0)
	group.Wait()
	for i := 1; i < children; i++ {
		nodes += counts[i]
	}
	return nodes
}

func search(roots int) uint64 {
	nodes := visitAll(treeSeed, roots)
	check(roots != rootsFull || nodes == 2038992)
	check(roots != rootsWarmUp || nodes == 3953)
	return nodes
}

func w7(roots int) {
	for begin := time.Now(); time.Since(begin) < warmUp; {
		search(rootsWarmUp)
	}
	timed("ns_per_node", func() float64 { return float64(search(roots)) })
}

func w8(ms int) {
	search(rootsFull)
	time.Sleep(time.Millisecond)
	cpu := cpuTime()
	time.Sleep(time.Duration(ms) * time.Millisecond)
	fmt.Printf("value cpu_ms_per_s %.6f\n", (cpuTime()-cpu).Seconds()*1e6/float64(ms))
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	count := number(os.Args[4])

	runtime.GOMAXPROCS(number(os.Args[3]))
	switch os.Args[1] {
	case "W4":
		w4(count)
	case "W5":
		w5(count)
	case "W7":
		w7(count)
	case "W8":
		w8(count)
	}
}
