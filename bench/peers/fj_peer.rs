// SPDX-License-Identifier: MIT

//! rayon doing the work fj_load.h tells of, with the C kernel of fj_kernel.h.
//!
//!     fj_peer_rayon W4|W5|W7|W8 join|merge WORKERS COUNT
//!
//! COUNT is the n of fib, the numbers to sort, the roots of the tree, or milliseconds.
//! `merge` sorts with merges cut in two that run side by side.  Prints what bench_exec
//! expects.

use rayon_core::join;
use std::thread;
use std::time::{Duration, Instant};

const SORT_CUTOFF: usize = 2048;
const MERGE_CUTOFF: usize = 65536;
const FIB_WARM_UP: u64 = 4;
const WARM_UP_PART: usize = 5;
const WARM_UP: Duration = Duration::from_millis(200);
const ROOTS_FULL: u64 = 2000;
const ROOTS_WARM_UP: u64 = 41;
const TREE_SEED: u64 = 40;

extern "C" {
    fn fj_sort(a: *mut u32, n: usize, t: *mut u32, into_t: bool);
    fn fj_merge(to: *mut u32, x: *const u32, nx: usize, y: *const u32, ny: usize);
    fn fj_merge_cut(
        x: *const u32,
        nx: usize,
        y: *const u32,
        ny: usize,
        ix: *mut usize,
    ) -> usize;
    fn fj_fill(a: *mut u32, n: usize);
    fn fj_child(node: u64, index: u64) -> u64;
    fn fj_children(node: u64) -> u32;
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

// The standard library does not have it; the C library it links with does.
extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

fn cpu_ns() -> i64 {
    const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    let status = unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0);
    time.seconds * 1_000_000_000 + time.nanoseconds
}

fn warm_up(mut work: impl FnMut()) {
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP {
        work();
    }
}

fn timed<R>(metric: &str, work: impl FnOnce() -> R, operations: impl FnOnce(&R) -> f64) -> R {
    let cpu = cpu_ns();
    let begin = Instant::now();
    let result = work();
    let wall = begin.elapsed().as_nanos() as f64;
    let cpu = (cpu_ns() - cpu) as f64;
    let operations = operations(&result);
    println!("value {} {:.6}", metric, wall / operations);
    println!("value cpu_{} {:.6}", metric, cpu / operations);
    result
}

// ---- W4 ----------------------------------------------------------------------

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (x, y) = join(|| fib(n - 1), || fib(n - 2));
    x + y
}

fn fib_number(n: u64) -> u64 {
    let (mut a, mut b) = (0, 1);
    for _ in 0..n {
        let sum = a + b;
        a = b;
        b = sum;
    }
    a
}

fn w4(pool: &rayon_core::ThreadPool, n: u64) {
    let spawns = (fib_number(n + 1) - 1) as f64;
    warm_up(|| {
        assert_eq!(pool.install(|| fib(n - FIB_WARM_UP)), fib_number(n - FIB_WARM_UP));
    });
    let result = timed("ns_per_spawn", || pool.install(|| fib(n)), |_| spawns);
    assert_eq!(result, fib_number(n));
}

// ---- W5 ----------------------------------------------------------------------

// Slices that are halves of one another's places are safe but awkward with the two
// arrays in turn; the pointers say what the C of the other peers says.
#[derive(Clone, Copy)]
struct Part {
    a: *mut u32,
    t: *mut u32,
    n: usize,
}
unsafe impl Send for Part {}

#[derive(Clone, Copy)]
struct Merge {
    to: *mut u32,
    x: *const u32,
    nx: usize,
    y: *const u32,
    ny: usize,
}
unsafe impl Send for Merge {}

fn merge(m: Merge, parallel: bool) {
    if !parallel || m.nx + m.ny <= MERGE_CUTOFF {
        unsafe { fj_merge(m.to, m.x, m.nx, m.y, m.ny) };
        return;
    }
    let mut ix = 0;
    let (low, high) = unsafe {
        let iy = fj_merge_cut(m.x, m.nx, m.y, m.ny, &mut ix);
        let high = Merge {
            to: m.to.add(ix + iy),
            x: m.x.add(ix),
            nx: m.nx - ix,
            y: m.y.add(iy),
            ny: m.ny - iy,
        };
        (Merge { nx: ix, ny: iy, ..m }, high)
    };
    join(
        move || {
            let low = low;
            merge(low, true)
        },
        move || {
            let high = high;
            merge(high, true)
        },
    );
}

fn sort(part: Part, into_t: bool, parallel_merge: bool) {
    let Part { a, t, n } = part;
    if n <= SORT_CUTOFF {
        unsafe { fj_sort(a, n, t, into_t) };
        return;
    }
    let half = n / 2;
    let (low, high) = unsafe {
        (Part { a, t, n: half }, Part { a: a.add(half), t: t.add(half), n: n - half })
    };
    join(
        move || {
            let low = low;
            sort(low, !into_t, parallel_merge)
        },
        move || {
            let high = high;
            sort(high, !into_t, parallel_merge)
        },
    );
    let (from, to) = if into_t { (a, t) } else { (t, a) };
    let y = unsafe { from.add(half) };
    merge(Merge { to, x: from, nx: half, y, ny: n - half }, parallel_merge);
}

fn sum_of(a: &[u32]) -> u64 {
    a.iter().map(|&x| u64::from(x)).sum()
}

fn w5(pool: &rayon_core::ThreadPool, count: usize, parallel_merge: bool) {
    let mut a = vec![1u32; count];
    let mut t = vec![1u32; count];
    let whole = Part { a: a.as_mut_ptr(), t: t.as_mut_ptr(), n: count };
    let warm_up = Part { n: count / WARM_UP_PART, ..whole };
    unsafe { fj_fill(a.as_mut_ptr(), count) };
    pool.install(move || {
        let warm_up = warm_up;
        sort(warm_up, false, parallel_merge)
    });
    unsafe { fj_fill(a.as_mut_ptr(), count) };
    let sum = sum_of(&a);
    timed(
        "ms",
        move || {
            pool.install(move || {
                let whole = whole;
                sort(whole, false, parallel_merge)
            })
        },
        |_| 1e6,
    );
    assert!(a.windows(2).all(|w| w[0] <= w[1]));
    assert_eq!(sum_of(&a), sum);
}

// ---- W7 ----------------------------------------------------------------------

fn visit(parent: u64, index: u64) -> u64 {
    let node = unsafe { fj_child(parent, index) };
    match unsafe { fj_children(node) } {
        0 => 1,
        children => 1 + visit_range(node, 0, u64::from(children)),
    }
}

fn visit_range(node: u64, from: u64, to: u64) -> u64 {
    if to - from == 1 {
        return visit(node, from);
    }
    let middle = from + (to - from) / 2;
    let (x, y) = join(|| visit_range(node, from, middle), || visit_range(node, middle, to));
    x + y
}

fn search(pool: &rayon_core::ThreadPool, roots: u64) -> u64 {
    let nodes = pool.install(|| visit_range(TREE_SEED, 0, roots));
    match roots {
        ROOTS_FULL => assert_eq!(nodes, 2_038_992),
        ROOTS_WARM_UP => assert_eq!(nodes, 3953),
        _ => (),
    }
    nodes
}

fn w7(pool: &rayon_core::ThreadPool, roots: u64) {
    warm_up(|| {
        search(pool, ROOTS_WARM_UP);
    });
    timed("ns_per_node", || search(pool, roots), |&nodes| nodes as f64);
}

fn w8(pool: &rayon_core::ThreadPool, ms: u64) {
    search(pool, ROOTS_FULL);
    thread::sleep(Duration::from_millis(1));
    let cpu = cpu_ns();
    thread::sleep(Duration::from_millis(ms));
    println!("value cpu_ms_per_s {:.6}", (cpu_ns() - cpu) as f64 / 1e3 / ms as f64);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<u64>().unwrap();
    let (workers, count) = (number(3) as usize, number(4));
    let builder = rayon_core::ThreadPoolBuilder::new().num_threads(workers);
    let pool = builder.build().unwrap();

    match args[1].as_str() {
        "W4" => w4(&pool, count),
        "W5" => w5(&pool, count as usize, args[2] == "merge"),
        "W7" => w7(&pool, count),
        "W8" => w8(&pool, count),
        _ => panic!("no such workload"),
    }
}
