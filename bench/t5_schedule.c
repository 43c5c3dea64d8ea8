/* SPDX-License-Identifier: MIT */
/*
 * T5 - a million tasks that are due within a second, for an executor with two threads:
 * what does it cost to schedule one, and what all of it?
 */
#include <stdatomic.h>

#include <spindle.h>

#include "bench.h"
#include "timer_load.h"
#include "timer_peers.h"

#define TASKS 1000000

static _Alignas(64) _Atomic(uint64_t) ran;

static int count_one(void)
{
    /* relaxed: only counted. */
    (void)atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
    return 0;
}

static int run_task(void *arg)
{
    (void)arg;
    return count_one();
}

static int call_task(void *arg, void **result)
{
    (void)result;
    return run_task(arg);
}

static int run_node(spn_task *task)
{
    (void)task;
    return count_one();
}

static int run_timeout(spn_timeout *timeout)
{
    (void)timeout;
    return count_one();
}

static spn_scheduled *scheduled;
static spn_timer *timer;
static spn_task *nodes;
static spn_timeout *timeouts;

static bool add_call(size_t i, int64_t delay_ns)
{
    (void)i;
    return spn_scheduled_call(scheduled, run_task, NULL, delay_ns) == SPN_OK;
}

static bool add_future(size_t i, int64_t delay_ns)
{
    spn_future *future;

    (void)i;
    if (spn_scheduled_schedule(scheduled, call_task, NULL, delay_ns, &future) != SPN_OK)
        return false;
    spn_future_unref(future);
    return true;
}

static bool add_node(size_t i, int64_t delay_ns)
{
    return spn_scheduled_execute(scheduled, &nodes[i], delay_ns) == SPN_OK;
}

static bool add_timeout(size_t i, int64_t delay_ns)
{
    return spn_timer_schedule(timer, &timeouts[i], run_timeout, delay_ns) == SPN_OK;
}

/* Adds all, and waits until all have run. */
static void insert(struct bench *b, bool (*add)(size_t i, int64_t delay_ns),
                   size_t count)
{
    uint64_t seed = 88172645463325252u;
    double cpu_s = load_cpu_s();
    int64_t begun = load_now();

    for (size_t i = 0; i < count; i++)
        BENCH_CHECK(b, add(i, insert_delay(&seed)));
    bench_report(b, "insert_ns", (double)(load_now() - begun) / (double)count);
    while (atomic_load_explicit(&ran, memory_order_acquire) < count) {
        const struct timespec nap = { 0, 20000000 };

        nanosleep(&nap, NULL);
    }
    bench_report(b, "cpu_s", load_cpu_s() - cpu_s);
}

static void run_scheduled(struct bench *b)
{
    const spn_scheduled_opts opts = spn_scheduled_opts_pool(2);
    const size_t count = bench_count(b, TASKS);
    const char *const how = bench_object(b);

    BENCH_CHECK(b, spn_scheduled_create(&scheduled, &opts) == SPN_OK);
    BENCH_CHECK(b, spn_pool_prestart(spn_scheduled_pool(scheduled), SPN_DEFAULT) == 2);
    if (*how == 'n') {
        nodes = calloc(count, sizeof *nodes);
        BENCH_CHECK(b, nodes != NULL);
        for (size_t i = 0; i < count; i++)
            nodes[i] = (spn_task)SPN_TASK_INIT(run_node, NULL);
    }
    insert(b, *how == 'n' ? add_node : *how == 'f' ? add_future : add_call, count);
    BENCH_CHECK(b, spn_pool_close(spn_scheduled_pool(scheduled)) == SPN_OK);
    BENCH_CHECK(b, spn_scheduled_destroy(scheduled) == SPN_OK);
}

/* The wheel, whose own thread runs the callbacks. */
static void run_timer(struct bench *b)
{
    const size_t count = bench_count(b, TASKS);
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = SPN_MS(1);
    BENCH_CHECK(b, spn_timer_create(&timer, &opts) == SPN_OK);
    timeouts = aligned_alloc(64, count * sizeof *timeouts);
    BENCH_CHECK(b, timeouts != NULL);
    memset(timeouts, 0, count * sizeof *timeouts);
    insert(b, add_timeout, count);
    BENCH_CHECK(b, spn_timer_stop(timer, NULL, NULL) == SPN_OK);
    BENCH_CHECK(b, spn_timer_destroy(timer) == SPN_OK);
}

static void numbers(const struct bench *b, uint64_t n[3])
{
    n[0] = bench_count(b, TASKS);
}

static const struct timer_work work = { "T5", numbers };

BENCH_WORKLOAD(t5) = {
    .name = "T5",
    .question = "What does it cost to schedule a task?",
    .metric = "insert_ns",
    .variants = { { .name = "2w" } },
    .subjects = { { .name = "spindle", .run = run_scheduled, .object = "call" },
                  { .name = "spindle-task",
                    .run = run_scheduled,
                    .object = "node",
                    .detail = "the caller's node" },
                  { .name = "spindle-future",
                    .run = run_scheduled,
                    .object = "future",
                    .detail = "with a future" },
                  { .name = "spindle-timer", .run = run_timer, .detail = "the wheel" },
                  TIMER_SHARED_PEERS(work) },
};
