// SPDX-License-Identifier: MIT

// Go's channel doing the work queue_pass.h tells of.
//
//	queue_peer_go METRIC CAPACITY SIDE ITEMS WARM_UP
//
// SIDE producers and as many consumers; a pass of WARM_UP items comes first.
// Prints what bench_exec expects.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const slots = 2048

type item struct {
	slot uint64
}

var items [slots]item

func produce(queue chan *item, count uint64, slot, stride uint32) {
	for left := count; left > 0; left-- {
		queue <- &items[slot]
		slot = (slot + stride) % slots
	}
}

func consume(queue chan *item, count uint64, seen *[slots]uint32) {
	for left := count; left > 0; left-- {
		seen[(<-queue).slot]++
	}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage

	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func pass(queue chan *item, side int, count uint64) (wall, cpu time.Duration) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	begin := make([]time.Time, side)
	end := make([]time.Time, side)
	seen := make([]*[slots]uint32, side)

	ready.Add(2 * side)
	done.Add(2 * side)
	for i := 0; i < side; i++ {
		seen[i] = new([slots]uint32)
		go func(i int) {
			ready.Done()
			<-start
			begin[i] = time.Now()
			produce(queue, count/uint64(side), uint32(i), uint32(side))
			done.Done()
		}(i)
		go func(i int) {
			ready.Done()
			<-start
			consume(queue, count/uint64(side), seen[i])
			end[i] = time.Now()
			done.Done()
		}(i)
	}
	ready.Wait()
	cpu = cpuTime()
	close(start)
	done.Wait()
	cpu = cpuTime() - cpu
	first, last := begin[0], end[0]
	for i := 1; i < side; i++ {
		if begin[i].Before(first) {
			first = begin[i]
		}
		if end[i].After(last) {
			last = end[i]
		}
	}
	for slot := uint64(0); slot < slots; slot++ {
		sent, arrived := count/slots, uint64(0)
		if slot < count%slots {
			sent++
		}
		for i := range seen {
			arrived += uint64(seen[i][slot])
		}
		if arrived != sent {
			fmt.Printf("fail %d items came of %d\n", arrived, sent)
			os.Exit(1)
		}
	}
	return last.Sub(first), cpu
}

func number(text string) uint64 {
	value, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	queue := make(chan *item, number(os.Args[2]))
	side := int(number(os.Args[3]))
	count := number(os.Args[4])

	for slot := range items {
		items[slot].slot = uint64(slot)
	}
	pass(queue, side, number(os.Args[5]))
	wall, cpu := pass(queue, side, count)
	fmt.Printf("value %s %.3f\n", os.Args[1], float64(wall)/float64(count))
	fmt.Printf("value cpu_%s %.3f\n", os.Args[1], float64(cpu)/float64(count))
}
