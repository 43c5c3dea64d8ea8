/* SPDX-License-Identifier: MIT */
/*
 * T3 - what a timer costs that has nothing to do: wake-ups of all threads of the process
 * and CPU time, with no timeout and with one an hour away.
 * T6 - the same with a million timeouts pending, none of them due.
 * T4 - and how much memory those take.
 */
#include <spindle.h>

#include "bench.h"
#include "timer_load.h"
#include "timer_peers.h"

#define SECONDS    10
#define PENDING_MS 5000
#define TIMERS     1000000

static int nothing(spn_timeout *t)
{
    (void)t;
    return 0;
}

static void nap(uint64_t ms)
{
    const struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

    nanosleep(&t, NULL);
}

static spn_timer *open_timer(struct bench *b)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timer *timer;

    opts.tick_ns = SPN_MS(1);
    opts.slots = 2048;
    BENCH_CHECK(b, spn_timer_create(&timer, &opts) == SPN_OK);
    BENCH_CHECK(b, spn_timer_start(timer) == SPN_OK);
    return timer;
}

static void shut(struct bench *b, spn_timer *timer)
{
    BENCH_CHECK(b, spn_timer_stop(timer, NULL, NULL) == SPN_OK);
    BENCH_CHECK(b, spn_timer_destroy(timer) == SPN_OK);
}

static void run_idle(struct bench *b)
{
    const uint64_t ms = bench_count(b, SECONDS * 1000);
    spn_timer *timer = open_timer(b);
    spn_timeout far = SPN_TIMEOUT_INIT;
    double cpu_s;
    long switches;

    if (bench_variant_is(b, "one"))
        BENCH_CHECK(b,
                    spn_timer_schedule(timer, &far, nothing, SPN_SEC(3600)) == SPN_OK);
    nap(100);
    switches = load_switches();
    cpu_s = load_cpu_s();
    nap(ms);
    /* Less our own nap. */
    bench_report(b, "wakeups_per_s",
                 (double)(load_switches() - switches - 1) * 1000 / (double)ms);
    bench_report(b, "cpu_ms", (load_cpu_s() - cpu_s) * 1e3);
    shut(b, timer);
}

static spn_timeout *fill(struct bench *b, spn_timer *timer, size_t count)
{
    spn_timeout *all = aligned_alloc(64, count * sizeof *all);

    BENCH_CHECK(b, all != NULL);
    memset(all, 0, count * sizeof *all);
    for (size_t i = 0; i < count; i++)
        BENCH_CHECK(b, spn_timer_schedule(timer, &all[i], nothing,
                                          SPN_SEC(600) + (int64_t)i * 1000) == SPN_OK);
    return all;
}

static void run_pending(struct bench *b)
{
    const size_t count = bench_count(b, TIMERS);
    const uint64_t ms = bench_count(b, PENDING_MS);
    spn_timer *timer = open_timer(b);
    double cpu_s;

    (void)fill(b, timer, count);
    nap(200);
    cpu_s = load_cpu_s();
    nap(ms);
    bench_report(b, "cpu_ms_per_s", (load_cpu_s() - cpu_s) * 1e6 / (double)ms);
    shut(b, timer);
}

static void run_memory(struct bench *b)
{
    const size_t count = bench_count(b, TIMERS);
    spn_timer *timer = open_timer(b);
    double before = load_resident();

    (void)fill(b, timer, count);
    bench_report(b, "bytes_per_timer", (load_resident() - before) / (double)count);
    shut(b, timer);
}

static void ignore(spn_timeout_handle *handle, void *arg)
{
    (void)handle;
    (void)arg;
}

/* The same of timeouts that the library owns, each with a handle somebody has. */
static void run_memory_owned(struct bench *b)
{
    const size_t count = bench_count(b, TIMERS);
    spn_timeout_handle **handles = malloc(count * sizeof *handles);
    spn_timer *timer = open_timer(b);
    double before;

    BENCH_CHECK(b, handles != NULL);
    memset(handles, 1, count * sizeof *handles); /* the caller's: not counted */
    before = load_resident();
    for (size_t i = 0; i < count; i++)
        BENCH_CHECK(b, spn_timer_new_timeout(timer, ignore, NULL, NULL,
                                             SPN_SEC(600) + (int64_t)i * 1000,
                                             &handles[i]) == SPN_OK);
    bench_report(b, "bytes_per_timer", (load_resident() - before) / (double)count);
    for (size_t i = 0; i < count; i++)
        spn_timeout_handle_unref(handles[i]);
    shut(b, timer);
    free(handles);
}

/* ---- what the peers are told -------------------------------------------------- */

static void idle_numbers(const struct bench *b, uint64_t n[3])
{
    n[0] = bench_variant_is(b, "one") ? 1 : 0;
    n[1] = bench_count(b, SECONDS * 1000);
}

static void memory_numbers(const struct bench *b, uint64_t n[3])
{
    n[0] = bench_count(b, TIMERS);
}

static void pending_numbers(const struct bench *b, uint64_t n[3])
{
    n[0] = bench_count(b, TIMERS);
    n[1] = bench_count(b, PENDING_MS);
}

static const struct timer_work idle_work = { "T3", idle_numbers },
                               memory_work = { "T4", memory_numbers },
                               pending_work = { "T6", pending_numbers };

BENCH_WORKLOAD(t3) = {
    .name = "T3",
    .question = "How often does a timer wake up that has nothing to do?",
    .metric = "wakeups_per_s",
    .variants = { { .name = "empty" }, { .name = "one" } },
    .subjects = { { .name = "spindle", .run = run_idle },
                  TIMER_LOOP_PEERS(idle_work),
                  TIMER_SHARED_PEERS(idle_work) },
};

BENCH_WORKLOAD(t4) = {
    .name = "T4",
    .question = "How much memory does a pending timeout take?",
    .metric = "bytes_per_timer",
    .variants = { { .name = "1M" } },
    .subjects = { { .name = "spindle", .run = run_memory },
                  { .name = "spindle-handle",
                    .run = run_memory_owned,
                    .detail = "timeouts the library owns" },
                  TIMER_LOOP_PEERS(memory_work),
                  TIMER_SHARED_PEERS(memory_work) },
};
BENCH_WORKLOAD(t6) = {
    .name = "T6",
    .question = "What do a million timeouts cost that are not due?",
    .metric = "cpu_ms_per_s",
    .variants = { { .name = "1M" } },
    .subjects = { { .name = "spindle", .run = run_pending },
                  TIMER_LOOP_PEERS(pending_work),
                  TIMER_SHARED_PEERS(pending_work) },
};
