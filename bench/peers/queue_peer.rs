// SPDX-License-Identifier: MIT

//! Rust's crossbeam-channel doing the work queue_pass.h tells of.
//!
//!     queue_peer_rust METRIC CAPACITY SIDE ITEMS WARM_UP CPU CPU
//!
//! SIDE producers, on the first CPU, and as many consumers, on the second; -1 is
//! any.  A pass of WARM_UP items comes first.  Prints what bench_exec expects.

use crossbeam_channel::{bounded, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

const SLOTS: usize = 2048;

struct Item {
    slot: usize,
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

// The standard library has neither; both are in the C library it links with.
extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn sched_setaffinity(thread: i32, size: usize, mask: *const u64) -> i32;
}

const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;

fn cpu_time_ns() -> i64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    let status = unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0);
    time.seconds * 1_000_000_000 + time.nanoseconds
}

fn place(cpu: i32) {
    if cpu >= 0 {
        let mut mask = [0u64; 128];
        mask[cpu as usize / 64] = 1 << (cpu as usize % 64);
        let size = std::mem::size_of_val(&mask);
        let status = unsafe { sched_setaffinity(0, size, mask.as_ptr()) };
        assert_eq!(status, 0);
    }
}

fn produce(queue: &Sender<&'static Item>, items: &'static [Item], count: u64, first: usize,
           stride: usize) {
    let mut slot = first;
    for _ in 0..count {
        queue.send(&items[slot]).unwrap();
        slot = (slot + stride) % SLOTS;
    }
}

fn consume(queue: &Receiver<&'static Item>, count: u64, seen: &mut [u32]) {
    for _ in 0..count {
        seen[queue.recv().unwrap().slot] += 1;
    }
}

fn pass(sender: &Sender<&'static Item>, receiver: &Receiver<&'static Item>,
        items: &'static [Item], side: usize, count: u64, cpus: [i32; 2]) -> (Duration, i64) {
    let ready = Arc::new(Barrier::new(2 * side + 1));
    let share = count / side as u64;
    let mut producers = Vec::new();
    let mut consumers = Vec::new();

    for i in 0..side {
        let (queue, gate) = (sender.clone(), ready.clone());
        producers.push(thread::spawn(move || {
            place(cpus[0]);
            gate.wait();
            let begin = Instant::now();
            produce(&queue, items, share, i, side);
            begin
        }));
    }
    for _ in 0..side {
        let (queue, gate) = (receiver.clone(), ready.clone());
        consumers.push(thread::spawn(move || {
            let mut seen = vec![0u32; SLOTS];
            place(cpus[1]);
            gate.wait();
            consume(&queue, share, &mut seen);
            (Instant::now(), seen)
        }));
    }
    let cpu_ns = cpu_time_ns();
    ready.wait();
    let begins: Vec<Instant> = producers.into_iter().map(|t| t.join().unwrap()).collect();
    let ends: Vec<(Instant, Vec<u32>)> =
        consumers.into_iter().map(|t| t.join().unwrap()).collect();
    let cpu_ns = cpu_time_ns() - cpu_ns;

    for slot in 0..SLOTS {
        let rest = (slot as u64) < count % SLOTS as u64;
        let sent = count / SLOTS as u64 + u64::from(rest);
        let arrived: u64 = ends.iter().map(|(_, seen)| u64::from(seen[slot])).sum();
        if arrived != sent {
            println!("fail {} items came of {}", arrived, sent);
            std::process::exit(1);
        }
    }
    let first = begins.into_iter().min().unwrap();
    let last = ends.into_iter().map(|(end, _)| end).max().unwrap();
    (last - first, cpu_ns)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let side: usize = args[3].parse().unwrap();
    let count: u64 = args[4].parse().unwrap();
    let warm_up: u64 = args[5].parse().unwrap();
    let cpus = [args[6].parse().unwrap(), args[7].parse().unwrap()];
    let (sender, receiver) = bounded(args[2].parse().unwrap());
    let items: &'static [Item] =
        Box::leak((0..SLOTS).map(|slot| Item { slot }).collect::<Vec<_>>().into_boxed_slice());

    pass(&sender, &receiver, items, side, warm_up, cpus);
    let (wall, cpu_ns) = pass(&sender, &receiver, items, side, count, cpus);
    println!("value {} {:.3}", args[1], wall.as_nanos() as f64 / count as f64);
    println!("value cpu_{} {:.3}", args[1], cpu_ns as f64 / count as f64);
}
