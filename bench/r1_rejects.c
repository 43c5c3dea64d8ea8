/* SPDX-License-Identifier: MIT */
/*
 * R1 - what a storm of refusals does to those who submit: one thread submits and looks at
 * the clock around each call; another, in the variant `storm`, has 100,000 tasks a second
 * refused by a pool that is full, with a report of it every second.
 *
 * `elsewhere` submits to another pool, which takes the tasks and is paused, so that no
 * worker disturbs; `refused` to the full pool itself.  The floor is the clock alone.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <spindle.h>

#include "bench.h"
#include "pair.h"

enum { SUBMITS = 200000, STORM_PER_S = 100000, STORM_BURST = 10 };

static int64_t times[SUBMITS];
static atomic_int stop;

struct scene {
    spn_reject_report *report;
    spn_pool *full, *other;
    struct bench_thread *storm;
    int64_t storm_ns; /* how long it blew */
    uint64_t refused; /* by the storm */
};

static int do_nothing(spn_task *task)
{
    (void)task;
    return 0;
}

static void blow(void *arg)
{
    struct scene *s = arg;
    const struct timespec nap = { 0, 20000 };
    spn_task task = SPN_TASK_INIT(do_nothing, NULL);
    const int64_t from_ns = spn_now();
    int64_t next_ns = from_ns;

    while (atomic_load_explicit(&stop, memory_order_relaxed) == 0) {
        for (int i = 0; i < STORM_BURST; i++)
            s->refused +=
                spn_executor_execute(spn_pool_executor(s->full), &task) != SPN_OK;
        next_ns += SPN_SEC(1) / STORM_PER_S * STORM_BURST;
        while (spn_now() < next_ns)
            nanosleep(&nap, NULL);
    }
    s->storm_ns = spn_now() - from_ns;
}

static spn_pool *make_pool(struct bench *b, const spn_reject_policy *reject,
                           int32_t capacity)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, capacity);
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    spn_pool *pool;

    opts.reject = reject;
    BENCH_CHECK(b, spn_pool_create(&pool, &opts) == SPN_OK);
    BENCH_CHECK(b, spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    do /* until the worker sleeps, and takes no task as the pause begins */
        BENCH_CHECK(b, spn_pool_stats_get(pool, &stats) == SPN_OK);
    while (stats.parked == 0);
    BENCH_CHECK(b, spn_pool_pause(pool) == SPN_OK);
    return pool;
}

static void open_scene(struct bench *b, struct scene *s)
{
    static spn_task filler = SPN_TASK_INIT(do_nothing, NULL);
    spn_reject_report_opts opts = SPN_REJECT_REPORT_OPTS_INIT;

    opts.interval_ns = SPN_SEC(1);
    opts.no_stacks = 1; /* the worker is asleep, and no file is to be left behind */
    (void)spn_log_set_level(SPN_LOG_OFF); /* the line itself is not for the table */
    *s = (struct scene){ .storm = NULL };
    BENCH_CHECK(b, spn_reject_report_create(&s->report, &opts) == SPN_OK);
    s->full = make_pool(b, spn_reject_report_policy(s->report), 1);
    s->other = make_pool(b, NULL, SPN_UNBOUNDED);
    BENCH_CHECK(b, spn_executor_execute(spn_pool_executor(s->full), &filler) == SPN_OK);
    atomic_store(&stop, 0);
    if (bench_variant_is(b, "storm"))
        s->storm = bench_thread_start(b, blow, s);
}

static void close_scene(struct bench *b, struct scene *s)
{
    atomic_store(&stop, 1);
    if (s->storm != NULL) {
        bench_thread_join(s->storm);
        bench_report(b, "storm_per_s", (double)s->refused * 1e9 / (double)s->storm_ns);
    }
    BENCH_CHECK(b, spn_pool_close(s->full) == SPN_OK);
    BENCH_CHECK(b, spn_pool_close(s->other) == SPN_OK);
    BENCH_CHECK(b, spn_pool_destroy(s->full) == SPN_OK);
    BENCH_CHECK(b, spn_pool_destroy(s->other) == SPN_OK);
    BENCH_CHECK(b, spn_reject_report_destroy(s->report) == SPN_OK);
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* A storm needs time to be one: pauses between the calls make a second of them. */
static void measure(struct bench *b, spn_pool *pool, spn_task *tasks, int expected)
{
    const uint64_t count = bench_count(b, SUBMITS);
    int spins = 0;

    for (uint64_t i = 0; i < count; i++) {
        const int64_t before_ns = spn_now();

        if (pool != NULL)
            BENCH_CHECK(b, spn_executor_execute(spn_pool_executor(pool), &tasks[i]) ==
                               expected);
        times[i] = spn_now() - before_ns;
        while (spn_now() - before_ns < SPN_US(5))
            spin_pause(&spins);
    }
    qsort(times, count, sizeof times[0], compare);
    bench_report(b, "p99_ns", (double)times[count * 99 / 100]);
    bench_report(b, "p50_ns", (double)times[count / 2]);
    bench_report(b, "p999_ns", (double)times[count * 999 / 1000]);
}

static spn_task *make_tasks(struct bench *b)
{
    spn_task *tasks = malloc(SUBMITS * sizeof *tasks);

    BENCH_CHECK(b, tasks != NULL);
    for (int i = 0; i < SUBMITS; i++)
        tasks[i] = (spn_task)SPN_TASK_INIT(do_nothing, NULL);
    return tasks;
}

static void run_elsewhere(struct bench *b)
{
    spn_task *tasks = make_tasks(b);
    struct scene s;

    open_scene(b, &s);
    measure(b, s.other, tasks, SPN_OK);
    close_scene(b, &s);
    free(tasks);
}

static void run_refused(struct bench *b)
{
    spn_task *tasks = make_tasks(b);
    struct scene s;

    open_scene(b, &s);
    measure(b, s.full, tasks, SPN_EREJECTED);
    close_scene(b, &s);
    free(tasks);
}

static void run_floor(struct bench *b)
{
    struct scene s;

    open_scene(b, &s);
    measure(b, NULL, NULL, SPN_OK);
    close_scene(b, &s);
}

BENCH_WORKLOAD(r1) = {
    .name = "R1",
    .question = "What does a storm of refusals cost those who submit?",
    .metric = "p99_ns",
    .variants = { { .name = "quiet", .pinned = true, .cpus = 2 },
                  { .name = "storm", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle-elsewhere",
                    .run = run_elsewhere,
                    .detail = "to another pool" },
                  { .name = "spindle-refused",
                    .run = run_refused,
                    .detail = "to the full pool" },
                  { .name = "floor", .run = run_floor, .detail = "the clock alone" } },
};
