/* SPDX-License-Identifier: MIT */
/*
 * T2 - a million one-shots within two seconds: how late are they, what does it cost, and
 * is any early?
 */
#include <stdatomic.h>

#include <spindle.h>

#include "bench.h"
#include "timer_load.h"
#include "timer_peers.h"

#define TIMERS 1000000

static struct fire fire;
static spn_timeout *timeouts;
static _Atomic(size_t) fired;

static int on_fire(spn_timeout *t)
{
    fire_note(&fire, (size_t)(t - timeouts));
    /* relaxed: one thread writes, the other waits for the sum. */
    atomic_store_explicit(&fired,
                          atomic_load_explicit(&fired, memory_order_relaxed) + 1,
                          memory_order_release);
    return 0;
}

static void report(void *b, const char *metric, double value)
{
    bench_report(b, metric, value);
}

static void run_service(struct bench *b)
{
    const size_t count = bench_count(b, TIMERS);
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timer *timer;
    uint64_t seed = 88172645463325252u;
    double cpu_s;
    int64_t begun;

    opts.tick_ns = bench_variant_is(b, "65us") ? SPN_NS(65536) : SPN_MS(1);
    opts.slots = 2048;
    BENCH_CHECK(b, spn_timer_create(&timer, &opts) == SPN_OK);
    fire_init(&fire, count);
    timeouts = aligned_alloc(64, count * sizeof *timeouts);
    BENCH_CHECK(b, timeouts != NULL);
    memset(timeouts, 0, count * sizeof *timeouts);
    cpu_s = load_cpu_s();
    begun = load_now();
    for (size_t i = 0; i < count; i++) {
        const int64_t delay_ns = SPN_MS(fire_delay_ms(&seed));

        fire.shots[i].due_ns = load_now() + delay_ns;
        BENCH_CHECK(b, spn_timer_schedule(timer, &timeouts[i], on_fire, delay_ns) ==
                           SPN_OK);
    }
    bench_report(b, "insert_ns", (double)(load_now() - begun) / (double)count);
    while (atomic_load_explicit(&fired, memory_order_acquire) < count) {
        const struct timespec nap = { 0, 20000000 };

        nanosleep(&nap, NULL);
    }
    fire_figures(&fire, load_cpu_s() - cpu_s, report, b);
    BENCH_CHECK(b, spn_timer_stop(timer, NULL, NULL) == SPN_OK);
    BENCH_CHECK(b, spn_timer_destroy(timer) == SPN_OK);
}

static void numbers(const struct bench *b, uint64_t n[3])
{
    n[0] = bench_count(b, TIMERS);
}

static const struct timer_work work = { "T2", numbers };

BENCH_WORKLOAD(t2) = {
    .name = "T2",
    .question = "A million timeouts in two seconds: how late are they?",
    .metric = "p99_us",
    .variants = { { .name = "1ms" }, { .name = "65us" } },
    .subjects = { { .name = "spindle", .run = run_service },
                  TIMER_LOOP_PEERS(work),
                  TIMER_SHARED_PEERS(work) },
};
