// SPDX-License-Identifier: MIT

//! Rust's pools doing the work pool_load.h tells of: threads that take boxed closures
//! from a crossbeam-channel, or with --cfg rayon the ThreadPool of rayon-core.
//!
//!     pool_peer_… WORKLOAD KIND PRODUCERS WORKERS COUNT LIMIT_MS CPU CPU
//!
//! The caller is on the first CPU and the workers on the second; -1 is any.  Prints
//! what bench_exec expects.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

const ANSWER: u64 = 42;
const ASK_CHUNK: u64 = 50;
const WARM_UP_PART: u64 = 5;
const WAKE_WARM_UP: u64 = 50;

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

const CLOCK_MONOTONIC: i32 = 1;
const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;

fn clock_ns(clock: i32) -> i64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    let status = unsafe { clock_gettime(clock, &mut time) };
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

// ---- the pools ---------------------------------------------------------------

#[cfg(not(rayon))]
mod pool {
    use crossbeam_channel::{bounded, unbounded, Receiver, Sender};
    use std::thread;

    type Task = Box<dyn FnOnce() + Send>;

    pub struct Pool {
        queue: Sender<Task>,
        answer: (Sender<u64>, Receiver<u64>), // used again, not made each time
    }

    impl Pool {
        pub fn new(workers: usize) -> Pool {
            let (queue, tasks) = unbounded::<Task>();
            for _ in 0..workers {
                let tasks = tasks.clone();
                thread::spawn(move || {
                    for task in tasks {
                        task();
                    }
                });
            }
            Pool { queue, answer: bounded(1) }
        }

        pub fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
            self.queue.send(Box::new(task)).unwrap();
        }

        pub fn ask(&self) -> u64 {
            let reply = self.answer.0.clone();
            self.submit(move || reply.send(super::ANSWER).unwrap());
            self.answer.1.recv().unwrap()
        }
    }
}

#[cfg(rayon)]
mod pool {
    pub struct Pool {
        threads: rayon_core::ThreadPool,
    }

    impl Pool {
        pub fn new(workers: usize) -> Pool {
            let builder = rayon_core::ThreadPoolBuilder::new().num_threads(workers);
            Pool { threads: builder.build().unwrap() }
        }

        pub fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
            self.threads.spawn(task);
        }

        pub fn ask(&self) -> u64 {
            self.threads.install(|| super::ANSWER)
        }
    }
}

use pool::Pool;

/// Every worker is there, and where it belongs.
fn create(workers: usize, cpu: i32) -> &'static Pool {
    let pool: &'static Pool = Box::leak(Box::new(Pool::new(workers)));
    let met = Arc::new(Barrier::new(workers + 1));
    for _ in 0..workers {
        let met = met.clone();
        pool.submit(move || {
            place(cpu);
            met.wait();
        });
    }
    met.wait();
    pool
}

// ---- what tasks do -------------------------------------------------------------

#[repr(align(128))]
struct Padded<T>(T);

struct Tally {
    done: Padded<AtomicU64>,
    target: Padded<u64>,
    end: mpsc::SyncSender<i64>,
}

impl Tally {
    fn count_one(&self) {
        if self.done.0.fetch_add(1, Ordering::Relaxed) + 1 == self.target.0 {
            self.end.send(clock_ns(CLOCK_MONOTONIC)).unwrap();
        }
    }
}

fn tally(target: u64) -> (&'static Tally, mpsc::Receiver<i64>) {
    let (end, ended) = mpsc::sync_channel(1);
    let tally = Tally { done: Padded(AtomicU64::new(0)), target: Padded(target), end };
    (Box::leak(Box::new(tally)), ended)
}

fn spray(pool: &Pool, tally: &'static Tally, count: u64) {
    for _ in 0..count {
        pool.submit(move || tally.count_one());
    }
}

// ---- the workloads ----------------------------------------------------------------

fn spray_pass(pool: &'static Pool, producers: u64, count: u64) -> (i64, i64) {
    let share = count / producers;
    let (tally, ended) = tally(share * producers);
    let ready = Arc::new(Barrier::new(producers as usize + 1));
    let threads: Vec<_> = (0..producers)
        .map(|_| {
            let ready = ready.clone();
            thread::spawn(move || {
                ready.wait();
                let begin_ns = clock_ns(CLOCK_MONOTONIC);
                spray(pool, tally, share);
                begin_ns
            })
        })
        .collect();
    let cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    ready.wait();
    let begin_ns = threads.into_iter().map(|t| t.join().unwrap()).min().unwrap();
    let end_ns = ended.recv().unwrap();
    let cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    (end_ns - begin_ns, cpu_ns)
}

fn w1(pool: &'static Pool, producers: u64, count: u64) {
    spray_pass(pool, producers, count);
    let (wall_ns, cpu_ns) = spray_pass(pool, producers, count);
    println!("value ns_per_task {:.3}", wall_ns as f64 / count as f64);
    println!("value cpu_ns_per_task {:.3}", cpu_ns as f64 / count as f64);
}

fn ask(pool: &Pool, count: u64) -> u64 {
    (0..count).map(|_| pool.ask()).sum()
}

fn w2(pool: &'static Pool, count: u64, limit: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < limit / WARM_UP_PART as u32 {
        ask(pool, ASK_CHUNK);
    }
    let (mut asked, mut sum) = (0, 0);
    let cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    let begin = Instant::now();
    while asked < count && begin.elapsed() < limit {
        sum += ask(pool, ASK_CHUNK);
        asked += ASK_CHUNK;
    }
    let wall_ns = begin.elapsed().as_nanos();
    let cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    assert_eq!(sum, asked * ANSWER);
    println!("value ns_per_round_trip {:.3}", wall_ns as f64 / asked as f64);
    println!("value cpu_ns_per_round_trip {:.3}", cpu_ns as f64 / asked as f64);
}

static STARTED_NS: AtomicI64 = AtomicI64::new(0);

fn w3(pool: &'static Pool, count: u64) {
    let mut times = Vec::with_capacity(count as usize);
    let mut cpu_ns = 0;
    for i in 0..WAKE_WARM_UP + count {
        if i == WAKE_WARM_UP {
            cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        }
        STARTED_NS.store(0, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(1));
        let sent_ns = clock_ns(CLOCK_MONOTONIC);
        pool.submit(|| STARTED_NS.store(clock_ns(CLOCK_MONOTONIC), Ordering::Release));
        while STARTED_NS.load(Ordering::Acquire) == 0 {
            thread::sleep(Duration::from_micros(50));
        }
        if i >= WAKE_WARM_UP {
            times.push(STARTED_NS.load(Ordering::Relaxed) - sent_ns);
        }
    }
    let cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    times.sort_unstable();
    println!("value p50_ns {}", times[times.len() / 2]);
    println!("value p99_ns {}", times[times.len() * 99 / 100]);
    println!("value cpu_p50_ns {:.3}", cpu_ns as f64 / count as f64);
}

fn resident_bytes() -> i64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find(|line| line.starts_with("Rss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap() * 1024
}

static HELD: AtomicUsize = AtomicUsize::new(0);

fn memory_pass(pool: &'static Pool, count: u64) -> i64 {
    let (tally, ended) = tally(count);
    let gate = Arc::new(Barrier::new(2));
    let held = gate.clone();
    HELD.store(0, Ordering::SeqCst);
    pool.submit(move || {
        HELD.store(1, Ordering::SeqCst);
        held.wait();
    });
    while HELD.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_micros(50));
    }
    let before = resident_bytes();
    spray(pool, tally, count);
    let bytes = resident_bytes() - before;
    gate.wait();
    ended.recv().unwrap();
    bytes
}

fn w6(pool: &'static Pool, count: u64) {
    memory_pass(pool, 1000);
    let bytes = memory_pass(pool, count);
    println!("value bytes_per_task {:.3}", bytes as f64 / count as f64);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<i64>().unwrap();
    let (producers, workers) = (number(3) as u64, number(4) as usize);
    let count = number(5) as u64;
    let pool = create(workers, number(8) as i32);

    place(number(7) as i32);
    match args[1].as_str() {
        "W1" => w1(pool, producers, count),
        "W2" => w2(pool, count, Duration::from_millis(number(6) as u64)),
        "W3" => w3(pool, count),
        "W6" => w6(pool, count),
        _ => panic!("no such workload"),
    }
}
