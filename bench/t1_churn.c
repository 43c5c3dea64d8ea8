/* SPDX-License-Identifier: MIT */
/*
 * T1 - timers that come and go: nearly every timeout of a server is cancelled.
 *
 * T1 is for timers that may be used from any thread; T1-wheel for structures that only
 * their own thread may use.
 */
#include <stdalign.h>
#include <stdatomic.h>

#include <spindle.h>

#include "wheel/timer.h"

#include "bench.h"
#include "timer_load.h"
#include "timer_peers.h"

#define PAIRS 2000000

static struct {
    const char *name;
    uint64_t threads, pending;
} const shapes[] = { { "1t_1k", 1, 1000 },        { "1t_100k", 1, 100000 },
                     { "1t_1M", 1, 1000000 },     { "1t_10M", 1, 10000000 },
                     { "2t_1k", 2, 1000 },        { "2t_100k", 2, 100000 },
                     { "2t_1M", 2, 1000000 },     { "wheel_1k", 1, 1000 },
                     { "wheel_100k", 1, 100000 }, { "wheel_1M", 1, 1000000 },
                     { "wheel_10M", 1, 10000000 } };

static void shape_of(const struct bench *b, uint64_t *threads, uint64_t *pending)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (bench_variant_is(b, shapes[i].name)) {
            *threads = shapes[i].threads;
            *pending = shapes[i].pending;
        }
}

/* With --quick the crowd is smaller too. */
static uint64_t crowd(const struct bench *b, uint64_t pending)
{
    return bench_count(b, 50) == 50 || pending <= 1000 ? pending : pending / 50;
}

/* ---- the service ------------------------------------------------------------------- */

static spn_timer *timer;
static spn_timeout *timeouts;

static int nothing(spn_timeout *t)
{
    (void)t;
    return 0;
}

static inline void service_add(size_t i, int64_t delay_ns)
{
    if (spn_timer_schedule(timer, &timeouts[i], nothing, delay_ns) != SPN_OK)
        abort();
}

static inline void service_cancel(size_t i)
{
    (void)spn_timer_cancel(timer, &timeouts[i]);
}

struct half {
    struct churn churn;
    uint64_t first, count, pairs, warm_up;
    struct bench *b;
};

static _Alignas(64) _Atomic(int) ready, go;

static void second_half(void *arg)
{
    struct half *h = arg;

    churn_fill(&h->churn, h->first, h->count, service_add);
    churn_run(&h->churn, h->warm_up, service_add, service_cancel);
    atomic_store(&ready, 1);
    while (atomic_load(&go) == 0) {
    }
    churn_run(&h->churn, h->pairs, service_add, service_cancel);
}

static void run_with(struct bench *b, uint32_t fast_clock)
{
    const uint64_t pairs = bench_count(b, PAIRS);
    uint64_t threads = 1, pending = 1000, each;
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    struct half halves[2] = { { .b = b }, { .b = b } };
    struct bench_thread *second = NULL;

    shape_of(b, &threads, &pending);
    pending = crowd(b, pending);
    each = pending / threads;
    opts.tick_ns = SPN_MS(1);
    opts.slots = 2048;
    opts.fast_clock = fast_clock;
    BENCH_CHECK(b, spn_timer_create(&timer, &opts) == SPN_OK);
    timeouts = aligned_alloc(64, (pending + threads) * sizeof *timeouts);
    BENCH_CHECK(b, timeouts != NULL);
    memset(timeouts, 0, (pending + threads) * sizeof *timeouts);
    for (uint64_t i = 0; i < threads; i++) {
        halves[i].first = i * (each + 1);
        halves[i].count = each;
        halves[i].pairs = pairs / threads;
        halves[i].warm_up = pairs / 20;
    }
    if (threads == 2)
        second = bench_thread_start(b, second_half, &halves[1]);
    churn_fill(&halves[0].churn, halves[0].first, each, service_add);
    churn_run(&halves[0].churn, halves[0].warm_up, service_add, service_cancel);
    while (threads == 2 && atomic_load(&ready) == 0) {
    }
    bench_start(b);
    atomic_store(&go, 1);
    churn_run(&halves[0].churn, halves[0].pairs, service_add, service_cancel);
    if (second != NULL)
        bench_thread_join(second);
    bench_stop(b, pairs);
    BENCH_CHECK(b, spn__timer_check(timer) == SPN_OK);
    BENCH_CHECK(b, spn_timer_stop(timer, NULL, NULL) == SPN_OK);
    BENCH_CHECK(b, spn_timer_destroy(timer) == SPN_OK);
}

static void run_service(struct bench *b)
{
    run_with(b, 0);
}

static void run_fast(struct bench *b)
{
    run_with(b, 1);
}

/* ---- the wheel alone ------------------------------------------------------------------ */

struct line {
    alignas(64) spn_wheel_node node;
};
static spn_wheel *wheel;
static struct line *lines;

/* Without a clock: the loop's time, as its rivals have it. */
static inline void wheel_add(size_t i, int64_t delay_ns)
{
    if (spn_wheel_add(wheel, &lines[i].node, delay_ns) != SPN_OK)
        abort();
}

static inline void wheel_cancel(size_t i)
{
    (void)spn_wheel_remove(wheel, &lines[i].node);
}

static void run_wheel(struct bench *b)
{
    const uint64_t pairs = bench_count(b, PAIRS);
    uint64_t threads, pending = 1000;
    spn_wheel_opts opts = SPN_WHEEL_OPTS_INIT;
    struct churn churn;

    shape_of(b, &threads, &pending);
    pending = crowd(b, pending);
    opts.slots = 2048;
    BENCH_CHECK(b, spn_wheel_create(&wheel, &opts) == SPN_OK);
    lines = aligned_alloc(64, (pending + 1) * sizeof *lines);
    BENCH_CHECK(b, lines != NULL);
    memset(lines, 0, (pending + 1) * sizeof *lines);
    churn_fill(&churn, 0, pending, wheel_add);
    churn_run(&churn, pairs / 20, wheel_add, wheel_cancel);
    bench_start(b);
    churn_run(&churn, pairs, wheel_add, wheel_cancel);
    bench_stop(b, pairs);
    BENCH_CHECK(b, spn__wheel_check(wheel) == SPN_OK);
}

/* ---- floor: a list per slot, linked and unlinked ----------------------------------------- */

static spn_wheel_link slots[2048];

static inline void floor_add(size_t i, int64_t delay_ns)
{
    spn_wheel_link *head = &slots[(uint64_t)delay_ns >> 26 & 2047],
                   *l = &lines[i].node.link;

    l->next = head;
    l->prev = head->prev;
    head->prev->next = l;
    head->prev = l;
}

static inline void floor_cancel(size_t i)
{
    spn_wheel_link *l = &lines[i].node.link;

    l->next->prev = l->prev;
    l->prev->next = l->next;
}

/* What a timer that may be used from any thread cannot do without: a clock, and a lock for
 * each of the two, which nobody else wants. */
static _Alignas(64) _Atomic(int) floor_lock;
static _Alignas(64) int64_t floor_now;

static inline void floor_enter(void)
{
    while (atomic_exchange_explicit(&floor_lock, 1, memory_order_acquire) != 0) {
    }
}

static inline void floor_leave(void)
{
    atomic_store_explicit(&floor_lock, 0, memory_order_release);
}

static inline void locked_add(size_t i, int64_t delay_ns)
{
    const int64_t now_ns = load_now();

    floor_enter();
    floor_now = now_ns;
    floor_add(i, delay_ns);
    floor_leave();
}

static inline void locked_cancel(size_t i)
{
    floor_enter();
    floor_cancel(i);
    floor_leave();
}

__attribute__((always_inline)) static inline void
run_lists(struct bench *b, load_add_fn add, load_cancel_fn cancel)
{
    const uint64_t pairs = bench_count(b, PAIRS);
    uint64_t threads, pending = 1000;
    struct churn churn;

    shape_of(b, &threads, &pending);
    pending = crowd(b, pending);
    lines = aligned_alloc(64, (pending + 1) * sizeof *lines);
    BENCH_CHECK(b, lines != NULL);
    memset(lines, 0, (pending + 1) * sizeof *lines);
    for (int i = 0; i < 2048; i++)
        slots[i].next = slots[i].prev = &slots[i];
    churn_fill(&churn, 0, pending, add);
    churn_run(&churn, pairs / 20, add, cancel);
    bench_start(b);
    churn_run(&churn, pairs, add, cancel);
    bench_stop(b, pairs);
}

static void run_floor(struct bench *b)
{
    run_lists(b, floor_add, floor_cancel);
}

static void run_floor_locked(struct bench *b)
{
    run_lists(b, locked_add, locked_cancel);
}

/* ---- peers -------------------------------------------------------------------------------- */

static void numbers(const struct bench *b, uint64_t n[3])
{
    n[0] = 1;
    n[1] = 1000;
    shape_of(b, &n[0], &n[1]);
    n[1] = crowd(b, n[1]);
    n[2] = bench_count(b, PAIRS);
}

static const struct timer_work work = { "T1", numbers };

BENCH_WORKLOAD(t1) = {
    .name = "T1",
    .question = "What does it cost to schedule a timeout and cancel another, from any "
                "thread?",
    .metric = "ns_per_pair",
    .variants = { { .name = "1t_1k" },
                  { .name = "1t_100k" },
                  { .name = "1t_1M" },
                  { .name = "1t_10M" },
                  { .name = "2t_1k", .cpus = 2 },
                  { .name = "2t_100k", .cpus = 2 },
                  { .name = "2t_1M", .cpus = 2 } },
    .subjects = { { .name = "spindle", .run = run_service },
                  { .name = "spindle-fast-clock", .run = run_fast },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "lists linked and unlinked by one thread" },
                  { .name = "floor-locked",
                    .run = run_floor_locked,
                    .detail = "the same, the clock read and a lock taken each time" },
                  TIMER_SHARED_PEERS(work) },
};

BENCH_WORKLOAD(t1_wheel) = {
    .name = "T1-wheel",
    .question = "The same without threads: on a loop of one's own?",
    .metric = "ns_per_pair",
    .variants = { { .name = "wheel_1k" },
                  { .name = "wheel_100k" },
                  { .name = "wheel_1M" },
                  { .name = "wheel_10M" } },
    .subjects = { { .name = "spindle", .run = run_wheel },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "lists linked and unlinked" },
                  TIMER_LOOP_PEERS(work) },
};
