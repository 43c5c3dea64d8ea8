/* SPDX-License-Identifier: MIT */
/* test_metrics.c - counters, histograms, times of tasks, and what is written of them. */
#include <spindle/metrics.h>

#include <spindle/clock.h>
#include <spindle/future.h>
#include <spindle/invoke.h>
#include <spindle/thread.h>

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fj_pools.h"
#include "metrics_add.h"
#include "metrics_text.h"
#include "pool_calls.h"
#include "test.h"

/* ---- counters and histograms ---------------------------------------------------------- */

/* The largest value of a bucket: 0 to 7 have one each, then each power of two has eight. */
static int64_t bucket_max(int b)
{
    const int power = b / 8 + 2;

    return b < 8 ? b
                 : (int64_t)((((uint64_t)8 + (unsigned)b % 8 + 1) << (power - 3)) - 1);
}

enum { ADDS = 20000 };
static spn_counter *counter;
static spn_histogram *histogram;
static atomic_int done;

static void add_often(int index, void *arg)
{
    (void)arg;
    for (int i = 0; i < ADDS; i++) {
        spn_counter_add(counter, 1);
        spn_histogram_record(histogram, i);
    }
    (void)index;
    atomic_fetch_add(&done, 1);
}

static void add_or_look(int index, void *arg)
{
    int64_t last = 0;

    if (index < T_THREADS) {
        add_often(index, arg);
        return;
    }
    while (atomic_load(&done) < T_THREADS) {
        static spn_histogram_snapshot s;
        const int64_t value = spn_counter_value(counter);
        uint64_t sum = 0;

        CHECK(value >= last);
        last = value;
        s = (spn_histogram_snapshot)SPN_HISTOGRAM_SNAPSHOT_INIT;
        CHECK_OK(spn_histogram_snapshot_get(histogram, &s));
        for (int i = 0; i < SPN_HISTOGRAM_BUCKETS; i++)
            sum += s.buckets[i];
        CHECK_EQ(sum, s.count);
    }
}

/* What many threads count adds up, twice: parts are used again when threads end. */
TEST(metrics__many_threads_count__adds_up, "MET-1", "MET-3", "P48")
{
    spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;

    REQUIRE_OK(spn_counter_create(&counter));
    REQUIRE_OK(spn_histogram_create(&histogram));
    for (int round = 1; round <= 2; round++) {
        atomic_store(&done, 0);
        t_parallel(T_THREADS + 1, add_or_look, NULL);
        CHECK_EQ(spn_counter_value(counter), round * T_THREADS * ADDS);
        CHECK_OK(spn_histogram_snapshot_get(histogram, &s));
        CHECK_EQ(s.count, round * T_THREADS * ADDS);
        CHECK_EQ(s.sum, (int64_t)round * T_THREADS * ((int64_t)ADDS * (ADDS - 1) / 2));
        CHECK_EQ(s.max, ADDS - 1);
    }
    spn_counter_add(counter, -5);
    CHECK_EQ(spn_counter_value(counter), 2 * T_THREADS * ADDS - 5);
    spn_counter_destroy(counter);
    spn_histogram_destroy(histogram);
}

/* Every value is in the bucket that holds it, and that is no wider than an eighth. */
TEST(metrics__values_of_all_sizes__within_an_eighth, "MET-2", "MET-4")
{
    uint64_t random = t_seed();
    int64_t lowest = -1;

    for (int32_t b = 0; b < SPN_HISTOGRAM_BUCKETS; b++) {
        const int64_t most = bucket_max(b);

        CHECK(most > lowest);
        CHECK(most - lowest <= 1 || (most - lowest) <= (lowest + 1) / 8 + 1);
        lowest = most;
    }
    CHECK(lowest == INT64_MAX);
    for (int i = 0; i < 2000; i++) {
        spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;
        const int64_t value = i == 0   ? 0
                              : i == 1 ? INT64_MAX
                                       : (int64_t)(t_random(&random) >> (1 + i % 63));

        REQUIRE_OK(spn_histogram_create(&histogram));
        spn_histogram_record(histogram, value);
        CHECK_OK(spn_histogram_snapshot_get(histogram, &s));
        CHECK_EQ(s.count, 1);
        CHECK_EQ(s.sum, value);
        CHECK_EQ(s.max, value);
        CHECK_EQ(spn_histogram_quantile(&s, 0.5), value); /* never above the largest */
        for (int32_t b = 0; b < SPN_HISTOGRAM_BUCKETS; b++)
            if (s.buckets[b] != 0)
                CHECK(bucket_max(b) >= value && (b == 0 || bucket_max(b - 1) < value));
        spn_histogram_destroy(histogram);
    }
}

/* Quantiles against the true ones of a sorted list. */
TEST(metrics__quantiles__never_below_and_an_eighth_above, "MET-2", "MET-4")
{
    static const double parts[] = { 0, 0.5, 0.9, 0.99, 0.999, 1 };
    spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;

    REQUIRE_OK(spn_histogram_create(&histogram));
    CHECK_OK(spn_histogram_snapshot_get(histogram, &s));
    CHECK_EQ(spn_histogram_quantile(&s, 0.5), 0);
    for (int i = 1; i <= 1000; i++)
        spn_histogram_record(histogram, i * 1000);
    spn_histogram_record(histogram, -7); /* as 0 */
    spn_histogram_record(histogram, INT64_MIN);
    CHECK_OK(spn_histogram_snapshot_get(histogram, &s));
    CHECK_EQ(s.buckets[0], 2);
    CHECK_EQ(s.sum, 1000LL * 1000 * 1001 / 2);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        /* Of 1002 values the two first are 0, then one thousand after the other. */
        double rank = (double)s.count * parts[i];
        int64_t whole = (int64_t)rank, truth;

        whole += (double)whole < rank || whole == 0;
        truth = whole <= 2 ? 0 : (whole - 2) * 1000;
        CHECK(spn_histogram_quantile(&s, parts[i]) >= truth);
        CHECK(spn_histogram_quantile(&s, parts[i]) <= truth + truth / 8 + 1);
    }
    spn_histogram_destroy(histogram);
}

/* ---- times of tasks --------------------------------------------------------------------- */

static atomic_int gate, running, befores, afters;

static int run(void *arg)
{
    (void)arg;
    atomic_fetch_add(&running, 1);
    while (atomic_load(&gate) == 0)
        t_pause();
    return 0;
}

static int quick(void *arg)
{
    (void)arg;
    return 0;
}

static int own_before(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    (void)info;
    CHECK(ctx == &gate);
    atomic_fetch_add(&befores, 1);
    return 0;
}

static void own_after(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    (void)info;
    CHECK(ctx == &gate);
    atomic_fetch_add(&afters, 1);
}

static spn_pool *pool_with(spn_task_times *times, spn_pool_opts opts)
{
    spn_pool *pool;

    if (times != NULL)
        REQUIRE_OK(spn_task_times_install(times, &opts.hooks));
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    return pool;
}

static void end_pool(spn_pool *pool)
{
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

/* With every task timed, both histograms have them all; the pool's own hooks are called. */
TEST(metrics__every_task_timed__all_counted, "MET-9", "MET-10")
{
    spn_task_times_opts opts = SPN_TASK_TIMES_OPTS_INIT;
    spn_pool_opts pool_opts = SPN_POOL_OPTS_INIT;
    spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn_task_times *times;
    spn_pool *pool;

    opts.every = 1;
    atomic_store(&gate, 1);
    atomic_store(&befores, 0);
    atomic_store(&afters, 0);
    pool_opts.core_threads = pool_opts.max_threads = 1;
    pool_opts.queue_capacity = SPN_UNBOUNDED;
    pool_opts.hooks.before = own_before;
    pool_opts.hooks.after = own_after;
    pool_opts.hooks.ctx = &gate;
    REQUIRE_OK(spn_task_times_create(&times, &opts));
    pool = pool_with(times, pool_opts);
    CHECK_STATUS(spn_task_times_install(times, &pool_opts.hooks), SPN_ESTATE);
    for (int i = 0; i < 30; i++)
        CHECK_OK(spn_executor_call(spn_pool_executor(pool), quick, NULL));
    end_pool(pool);
    CHECK_OK(spn_task_times_get(times, NULL, &s));
    CHECK_EQ(s.count, 30);
    CHECK_OK(spn_task_times_get(times, &s, NULL));
    CHECK(s.count >= 1 && s.count <= 30); /* places in the table may be shared */
    CHECK_EQ(atomic_load(&befores), 30);
    CHECK_EQ(atomic_load(&afters), 30);
    spn_task_times_destroy(times);
}

/* One of n is timed, the first first. */
TEST(metrics__one_of_ten_timed__a_tenth_counted, "MET-10")
{
    spn_task_times_opts opts = SPN_TASK_TIMES_OPTS_INIT;
    spn_pool_opts pool_opts = spn_pool_opts_single();
    spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn_task_times *times;
    spn_pool *pool;

    opts.every = 10;
    REQUIRE_OK(spn_task_times_create(&times, &opts));
    pool = pool_with(times, pool_opts);
    for (int i = 0; i < 95; i++)
        CHECK_OK(spn_executor_call(spn_pool_executor(pool), quick, NULL));
    end_pool(pool);
    CHECK_OK(spn_task_times_get(times, NULL, &s));
    CHECK_EQ(s.count, 10);
    spn_task_times_destroy(times);
}

static int quick_task(spn_task *task)
{
    (void)task;
    return 0;
}

static int run_job(spn_task *task)
{
    (void)task;
    return run(NULL);
}

/* A task that is submitted while it waits is refused, and the note of when it came stays. */
TEST(metrics__submitted_twice__timed_once, "MET-9", "MET-10")
{
    spn_task_times_opts opts = SPN_TASK_TIMES_OPTS_INIT;
    spn_pool_opts pool_opts = SPN_POOL_OPTS_INIT;
    spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn_task hold = SPN_TASK_INIT(run_job, NULL);
    spn_task task = SPN_TASK_INIT(quick_task, NULL);
    spn_task_times *times;
    spn_executor *ex;
    spn_pool *pool;

    opts.every = 2;
    atomic_store(&gate, 0);
    atomic_store(&running, 0);
    pool_opts.core_threads = pool_opts.max_threads = 1;
    pool_opts.queue_capacity = SPN_UNBOUNDED;
    REQUIRE_OK(spn_task_times_create(&times, &opts));
    pool = pool_with(times, pool_opts);
    ex = spn_pool_executor(pool);
    CHECK_OK(spn_executor_execute(ex, &hold)); /* timed, and found by its worker */
    T_AWAIT(atomic_load(&running) == 1);
    CHECK_OK(spn_executor_call(ex, quick, NULL)); /* not timed */
    CHECK_OK(spn_executor_execute(ex, &task));    /* timed */
    CHECK_STATUS(spn_executor_execute(ex, &task), SPN_EBUSY);
    atomic_store(&gate, 1);
    end_pool(pool);
    CHECK_OK(spn_task_times_get(times, &s, NULL));
    CHECK_EQ(s.count, 2);
    spn_task_times_destroy(times);
}

struct for_room {
    spn_executor *executor;
    spn_task task;
};

static void submit_for_room(int i, void *arg)
{
    struct for_room *r = arg;

    if (i == 0) {
        CHECK_OK(spn_executor_execute(r->executor, &r->task));
    } else {
        const int64_t from = spn_now();

        T_AWAIT(pool_stats(spn_executor_pool(r->executor)).threads == 1 &&
                spn_now() - from >= SPN_MS(3));
        atomic_store(&gate, 1);
    }
}

/* The time for which a policy lets a task wait for room is part of its wait. */
TEST(metrics__waits_for_room__that_is_part_of_the_wait, "MET-9")
{
    spn_task_times_opts opts = SPN_TASK_TIMES_OPTS_INIT;
    spn_pool_opts pool_opts = spn_pool_opts_fixed(1, SPN_HANDOFF);
    spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    struct for_room r = { .task = SPN_TASK_INIT(quick_task, NULL) };
    spn_task_times *times;
    spn_pool *pool;

    opts.every = 1;
    atomic_store(&gate, 0);
    atomic_store(&running, 0);
    pool_opts.reject = &block.policy;
    REQUIRE_OK(spn_task_times_create(&times, &opts));
    pool = pool_with(times, pool_opts);
    r.executor = spn_pool_executor(pool);
    CHECK_OK(spn_executor_call(r.executor, run, NULL));
    T_AWAIT(atomic_load(&running) == 1);
    t_parallel(2, submit_for_room, &r);
    end_pool(pool);
    CHECK_OK(spn_task_times_get(times, &s, NULL));
    CHECK_EQ(s.count, 2);
    CHECK(s.max >= SPN_MS(2)); /* the other thread may have begun a little earlier */
    spn_task_times_destroy(times);
}

/* Functions without a node run through the queue as ever; those that are to be timed get
 * one, of each kind of queue. */
TEST(metrics__calls_one_of_four_timed__a_quarter_waits, "MET-10")
{
    for (uint32_t kind = SPN_POOL_FIFO; kind <= SPN_POOL_LANES; kind++) {
        spn_task_times_opts opts = SPN_TASK_TIMES_OPTS_INIT;
        spn_pool_opts pool_opts = spn_pool_opts_fixed(1, SPN_UNBOUNDED);
        spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;
        spn_task_times *times;
        spn_pool *pool;

        opts.every = 4;
        pool_opts.queue_kind = kind;
        REQUIRE_OK(spn_task_times_create(&times, &opts));
        pool = pool_with(times, pool_opts);
        for (int i = 0; i < 40; i++)
            CHECK_OK(spn_executor_call(spn_pool_executor(pool), quick, NULL));
        CHECK_OK(spn_pool_close(pool));
        CHECK_OK(spn_task_times_get(times, NULL, &s));
        CHECK_EQ(s.count, 10);
        CHECK_OK(spn_task_times_get(times, &s, NULL));
        CHECK(s.count >= 1 && s.count <= 10); /* places in the table may be shared */
        CHECK_EQ(pool_stats(pool).completed, 40);
        CHECK_OK(spn_pool_destroy(pool));
        spn_task_times_destroy(times);
    }
}

static struct {
    int calls;
    char label[64];
    int64_t running_ns;
} seen;

static void see(void *ctx, const spn_running *what)
{
    (void)ctx;
    seen.calls++;
    seen.running_ns = what->running_ns;
    snprintf(seen.label, sizeof seen.label, "%s",
             what->label != NULL ? what->label : "-");
}

/* Stops this process for a moment; a child sees to it. */
static void stand_still(void)
{
    const pid_t self = getpid();
    const pid_t other = fork();
    int status = -1;

    REQUIRE(other >= 0);
    if (other == 0) {
        if (kill(self, SIGSTOP) == 0)
            (void)poll(NULL, 0, 20);
        _exit(kill(self, SIGCONT) != 0);
    }
    REQUIRE(waitpid(other, &status, 0) == other);
    CHECK_EQ(status, 0);
}

/* Threads that wait for work run nothing, however long; and a run that stood still together
 * with the process counts from the look that first saw it. */
TEST(metrics__idle_or_stopped__not_told_as_running, "P49")
{
    spn_job job = SPN_JOB_INIT(run_job, NULL);
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    spn_task_times *times;
    spn_pool *pool;

    memset(&seen, 0, sizeof seen);
    atomic_store(&gate, 0);
    atomic_store(&running, 0);
    REQUIRE_OK(spn_task_times_create(&times, NULL));
    pool = pool_with(times, spn_pool_opts_single());
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), quick, NULL));
    T_AWAIT(spn_pool_stats_get(pool, &stats) == SPN_OK && stats.completed == 1 &&
            stats.active == 0);
    stand_still();
    CHECK_EQ(spn_task_times_running(times, see, NULL), 0);
    CHECK_OK(spn_executor_execute(spn_pool_executor(pool), &job.task));
    T_AWAIT(atomic_load(&running) == 1);
    stand_still();
    CHECK_EQ(spn_task_times_running(times, see, NULL), 1);
    CHECK(seen.running_ns < SPN_MS(2));
    atomic_store(&gate, 1);
    end_pool(pool);
    spn_task_times_destroy(times);
}

/* What waits and what runs is known while it does; the wait is as long as it was. */
TEST(metrics__task_runs__seen_with_label_and_time, "MET-9")
{
    spn_task_times_opts opts = SPN_TASK_TIMES_OPTS_INIT;
    spn_job job = SPN_JOB_INIT(run_job, NULL);
    spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn_task_times *times;
    spn_pool *pool;
    int64_t from;

    memset(&seen, 0, sizeof seen);
    opts.every = 1;
    atomic_store(&gate, 0);
    atomic_store(&running, 0);
    REQUIRE_OK(spn_task_times_create(&times, &opts));
    pool = pool_with(times, spn_pool_opts_single());
    CHECK_EQ(spn_task_times_running(times, see, NULL), 0);
    job.label = "a job with a label that is longer than the library cares to keep";
    CHECK_OK(spn_executor_execute(spn_pool_executor(pool), &job.task));
    T_AWAIT(atomic_load(&running) == 1);
    CHECK_EQ(spn_task_times_running(times, see, NULL), 1);
    CHECK_EQ(strncmp(seen.label, "a job with a label", 18), 0);
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), quick, NULL)); /* waits */
    from = spn_now(); /* not before: the wait is counted from the call on */
    T_AWAIT(spn_now() - from >= SPN_MS(2));
    CHECK_EQ(spn_task_times_running(times, see, NULL), 1);
    CHECK(seen.running_ns >= SPN_MS(2));
    atomic_store(&gate, 1);
    end_pool(pool);
    CHECK_EQ(spn_task_times_running(times, see, NULL), 0);
    CHECK_OK(spn_task_times_get(times, &s, NULL));
    CHECK(s.max >= SPN_MS(2));
    CHECK_OK(spn_task_times_get(times, NULL, &s));
    CHECK(s.max >= SPN_MS(2));
    spn_task_times_destroy(times);
}

/* ---- text --------------------------------------------------------------------------------- */

static char text[400000];
static size_t text_length;

static int keep(void *ctx, const char *piece, size_t length)
{
    (void)ctx;
    REQUIRE(text_length + length < sizeof text);
    memcpy(text + text_length, piece, length);
    text_length += length;
    text[text_length] = '\0';
    return 0;
}

static void write_as(spn_metrics *metrics, spn_metrics_format format)
{
    text_length = 0;
    text[0] = '\0';
    CHECK_OK(spn_metrics_write(metrics, format, keep, NULL));
}

static int make_nothing(void *ctx, void **object)
{
    (void)ctx;
    *object = text;
    return 0;
}

/* One of everything, with names that need care. */
struct zoo {
    spn_metrics *metrics;
    spn_pool *pool, *plain;
    spn_task_times *times;
    spn_timer *timer;
    spn_object_pool *objects;
};

static void open_zoo(struct zoo *z)
{
    spn_task_times_opts times_opts = SPN_TASK_TIMES_OPTS_INIT;
    spn_timer_opts timer_opts = SPN_TIMER_OPTS_INIT;
    spn_object_pool_opts object_opts = SPN_OBJECT_POOL_OPTS_INIT;
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;

    times_opts.every = 1;
    REQUIRE_OK(spn_metrics_create(&z->metrics));
    REQUIRE_OK(spn_task_times_create(&z->times, &times_opts));
    opts.core_threads = opts.max_threads = 1;
    opts.name = "we\"ird\\na\nme \xff\xc3\xa9";
    opts.queue_capacity = SPN_UNBOUNDED;
    z->pool = pool_with(z->times, opts);
    opts.name = "plain";
    opts.queue_capacity = 7;
    z->plain = pool_with(NULL, opts);
    timer_opts.drive = SPN_TIMER_DRIVEN;
    REQUIRE_OK(spn_timer_create(&z->timer, &timer_opts));
    object_opts.factory.make = make_nothing;
    REQUIRE_OK(spn_object_pool_create(&z->objects, &object_opts));
    REQUIRE_OK(spn_counter_create(&counter));
    REQUIRE_OK(spn_histogram_create(&histogram));
    REQUIRE_OK(METRICS_ADD(z->metrics, .pool = z->pool, .times = z->times));
    REQUIRE_OK(METRICS_ADD(z->metrics, .pool = z->plain));
    REQUIRE_OK(METRICS_ADD(z->metrics, .name = "wheel", .timer = z->timer));
    REQUIRE_OK(METRICS_ADD(z->metrics, .object_pool = z->objects));
    REQUIRE_OK(METRICS_ADD(z->metrics, .name = "app_requests",
                           .help = "All\nof \\ them", .counter = counter));
    REQUIRE_OK(METRICS_ADD(z->metrics, .name = "app_latency", .help = "How long.",
                           .histogram = histogram));
}

static int ignore_timeout(spn_timeout *timeout)
{
    (void)timeout;
    return 0;
}

static void use_zoo(struct zoo *z)
{
    static spn_timeout timeout = SPN_TIMEOUT_INIT;
    spn_future *f;

    for (int i = 0; i < 5; i++) {
        REQUIRE_OK(
            spn_executor_submit_run(spn_pool_executor(z->pool), quick, NULL, NULL, &f));
        CHECK_OK(spn_future_get(f, NULL, SPN_FOREVER));
        spn_future_unref(f);
    }
    T_AWAIT(pool_stats(z->pool).active == 0);
    REQUIRE_OK(spn_timer_schedule(z->timer, &timeout, ignore_timeout, 0));
    T_AWAIT(spn_timer_run(z->timer) == 1);
    spn_counter_add(counter, 41);
    spn_histogram_record(histogram, SPN_MS(3));
    spn_histogram_record(histogram, SPN_SEC(100));
}

static void close_zoo(struct zoo *z)
{
    spn_metrics_destroy(z->metrics);
    end_pool(z->pool);
    end_pool(z->plain);
    spn_task_times_destroy(z->times);
    CHECK_OK(spn_timer_stop(z->timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(z->timer));
    CHECK_OK(spn_object_pool_shutdown(z->objects));
    CHECK_OK(spn_object_pool_destroy(z->objects));
    spn_counter_destroy(counter);
    spn_histogram_destroy(histogram);
}

static bool has(const char *line)
{
    const char *at = strstr(text, line);
    const size_t length = strlen(line);

    if (at != NULL && (at == text || at[-1] == '\n') && at[length] == '\n')
        return true;
    fprintf(stderr, "  no line %s\n", line);
    return false;
}

/* All that is registered is there, in text that a strict reader takes. */
TEST(metrics__prometheus__read_strictly, "MET-6", "MET-9")
{
    struct prometheus p;
    struct zoo z;

    open_zoo(&z);
    use_zoo(&z);
    write_as(z.metrics, SPN_METRICS_PROMETHEUS);
    p = prometheus_read(text);
    CHECK_STR(p.error != NULL ? p.error : "none", "none");
    CHECK(p.families >= 40);
    CHECK(p.samples >= 60);
    CHECK(has("app_requests_total 41"));
    CHECK(has("# HELP app_requests_total All\\nof \\\\ them"));
    CHECK(has("app_latency_seconds_count 2"));
    CHECK(has("app_latency_seconds_sum 100.003000000"));
    CHECK(has("app_latency_seconds_bucket{le=\"+Inf\"} 2"));
    CHECK(has("app_latency_seconds_bucket{le=\"0.002097151\"} 0"));
    CHECK(has("app_latency_seconds_bucket{le=\"0.004194303\"} 1"));
    CHECK(has("spindle_pool_threads{pool=\"plain\",state=\"idle\"} 0"));
    CHECK(has("spindle_pool_queue_capacity{pool=\"plain\"} 7"));
    CHECK(has("spindle_pool_tasks_completed_total{pool=\"we\\\"ird\\\\na\\nme "
              "\xef\xbf\xbd\xc3\xa9\"} 5"));
    CHECK(has("spindle_pool_queue_capacity{pool=\"we\\\"ird\\\\na\\nme "
              "\xef\xbf\xbd\xc3\xa9\"} +Inf"));
    CHECK(has("spindle_pool_run_seconds_count{pool=\"we\\\"ird\\\\na\\nme "
              "\xef\xbf\xbd\xc3\xa9\"} 5"));
    CHECK(has("spindle_timer_fired_total{timer=\"wheel\"} 1"));
    CHECK(has("spindle_timer_lateness_seconds_count{timer=\"wheel\"} 1"));
    CHECK(has("spindle_objects_max{objects=\"objects\"} 8"));
    close_zoo(&z);
}

/* The reader itself finds what is wrong. */
TEST(metrics__strict_reader__finds_what_is_wrong, "MET-6")
{
    static const char *const bad[] = {
        "a 1\n",
        "# HELP a b\n# TYPE a gauge\na 1",
        "# TYPE a gauge\na 1\n",
        "# HELP a b\n# TYPE a counter\na 1\n",
        "# HELP a b\n# TYPE a gauge\na x\n",
        "# HELP a b\n# TYPE a gauge\nb 1\n",
        "# HELP a b\n# TYPE a gauge\na{x=\"\\q\"} 1\n",
        "# HELP a b\n# TYPE a gauge\na{x=1} 1\n",
        "# HELP a b\n# TYPE a gauge\na 1\n# HELP a b\n# TYPE a gauge\na 1\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"2\"} 1\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"2\"} 1\na_bucket{le=\"1\"} 1\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_count 2\n",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(prometheus_read(bad[i]).error != NULL);
    CHECK(prometheus_read("# HELP a b\n# TYPE a gauge\na{x=\"\\\"\"} 1\n").error ==
          NULL);
    CHECK(json_value("{\"a\":01}") == NULL);
    CHECK(json_value("{\"a\":1,}") == NULL);
    CHECK(json_value("{\"a\":\"\n\"}") == NULL);
    CHECK(json_value("{\"a\":[1,null,\"x\"]}") != NULL);
}

/* And so does Prometheus' own, where it is installed. */
TEST(metrics__prometheus__taken_by_promtool, "MET-6")
{
    struct zoo z;
    FILE *tool;

    if (system("command -v promtool >/dev/null 2>&1") != 0) {
        t_skip("no promtool");
        return;
    }
    open_zoo(&z);
    use_zoo(&z);
    write_as(z.metrics, SPN_METRICS_PROMETHEUS);
    tool = popen("promtool check metrics >/dev/null", "w");
    REQUIRE(tool != NULL);
    CHECK_EQ(fwrite(text, 1, text_length, tool), text_length);
    CHECK_EQ(pclose(tool), 0);
    close_zoo(&z);
}

/* A line for each thing, each a JSON object. */
TEST(metrics__json__a_line_for_each, "MET-7")
{
    struct zoo z;
    const char *at;
    int lines = 0;

    open_zoo(&z);
    use_zoo(&z);
    write_as(z.metrics, SPN_METRICS_JSON);
    for (at = text; *at != '\0'; at++, lines++) {
        at = json_value(at);
        REQUIRE(at != NULL && *at == '\n');
    }
    CHECK_EQ(lines, 6);
    CHECK(strstr(text, "\"name\":\"we\\\"ird\\\\na\\u000ame \xef\xbf\xbd\xc3\xa9\"") !=
          NULL);
    CHECK(strstr(text, "\"kind\":\"counter\",\"name\":\"app_requests\",\"value\":41") !=
          NULL);
    CHECK(strstr(text, "\"tasks_completed_total\":5") != NULL);
    CHECK(strstr(text, "\"queue_capacity\":null") != NULL);
    close_zoo(&z);
}

/* ---- what a pool tells ------------------------------------------------------------------- */

/* Started with the one that runs; refused by reason; submitted is all of it. */
TEST(metrics__tasks_run_wait_and_are_refused__each_counted, "MET-16", "MET-17")
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_metrics *metrics;
    spn_executor *ex;
    spn_pool *pool;

    atomic_store(&gate, 0);
    atomic_store(&running, 0);
    opts.name = "small";
    opts.core_threads = opts.max_threads = 1;
    opts.queue_capacity = 1;
    REQUIRE_OK(spn_metrics_create(&metrics));
    pool = pool_with(NULL, opts);
    ex = spn_pool_executor(pool);
    REQUIRE_OK(METRICS_ADD(metrics, .pool = pool));
    CHECK_OK(spn_executor_call(ex, run, NULL));
    T_AWAIT(atomic_load(&running) == 1);
    CHECK_OK(spn_executor_call(ex, quick, NULL));
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(spn_executor_call(ex, quick, NULL), SPN_EREJECTED);
    write_as(metrics, SPN_METRICS_PROMETHEUS);
    CHECK(has("spindle_pool_tasks_submitted_total{pool=\"small\"} 5"));
    CHECK(has("spindle_pool_tasks_accepted_total{pool=\"small\"} 2"));
    CHECK(has("spindle_pool_tasks_started_total{pool=\"small\"} 1"));
    CHECK(has("spindle_pool_threads{pool=\"small\",state=\"busy\"} 1"));
    CHECK(has("spindle_pool_tasks_rejected_total{pool=\"small\",reason=\"full\"} 3"));
    atomic_store(&gate, 1);
    CHECK_OK(spn_pool_close(pool));
    CHECK_STATUS(spn_executor_call(ex, quick, NULL), SPN_EREJECTED);
    write_as(metrics, SPN_METRICS_PROMETHEUS);
    CHECK(prometheus_read(text).error == NULL);
    CHECK(has("spindle_pool_tasks_submitted_total{pool=\"small\"} 6"));
    CHECK(has("spindle_pool_tasks_started_total{pool=\"small\"} 2"));
    CHECK(has("spindle_pool_tasks_rejected_total{pool=\"small\",reason=\"full\"} 3"));
    CHECK(
        has("spindle_pool_tasks_rejected_total{pool=\"small\",reason=\"shutdown\"} 1"));
    write_as(metrics, SPN_METRICS_JSON);
    CHECK(strstr(text, "\"tasks_rejected_full_total\":3") != NULL);
    CHECK(strstr(text, "\"tasks_rejected_total\":4") != NULL);
    spn_metrics_destroy(metrics);
    CHECK_OK(spn_pool_destroy(pool));
}

static int no_thread(const spn_thread_factory *factory, spn_thread **out,
                     spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    (void)out;
    (void)opts;
    (void)fn;
    (void)arg;
    return SPN_EAGAIN;
}

/* A pool that gets no thread says that this is why. */
TEST(metrics__no_thread_to_be_had__that_reason, "MET-17")
{
    static const spn_thread_factory none = { sizeof none, no_thread };
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_pool *pool;

    opts.factory = &none;
    pool = pool_with(NULL, opts);
    CHECK_STATUS(spn_executor_call(spn_pool_executor(pool), quick, NULL), SPN_EAGAIN);
    CHECK_EQ(pool_stats(pool).rejected_no_thread, 1);
    CHECK_EQ(pool_stats(pool).rejected, 1);
    CHECK_EQ(pool_stats(pool).started, 0);
    end_pool(pool);
}

/* A worker that sleeps is counted as such, and so is each time it is woken. */
TEST(metrics__worker_sleeps_and_is_woken__both_counted, "MET-18")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
    spn_pool *pool = pool_with(NULL, opts);

    REQUIRE(spn_pool_prestart(pool, 1) == 1);
    for (int i = 1; i <= 3; i++) {
        T_AWAIT(pool_stats(pool).parked == 1);
        CHECK_EQ(pool_stats(pool).wakeups, i - 1);
        CHECK_OK(spn_executor_call(spn_pool_executor(pool), quick, NULL));
        T_AWAIT(pool_stats(pool).completed == i);
        CHECK_EQ(pool_stats(pool).wakeups, i);
    }
    end_pool(pool);
}

/* ---- a task that leaves is not waiting ------------------------------------------------------ */

/* A pool whose one thread is busy, a task that came first and one that came later. */
struct leaving {
    spn_metrics *metrics;
    spn_task_times *times;
    spn_pool *pool;
    spn_job first, later;
    int64_t later_ns; /* not after `later` was submitted */
};

static void drop_nothing(spn_task *task, int reason)
{
    (void)task;
    (void)reason;
}

static void open_leaving(struct leaving *l, const spn_reject_policy *reject,
                         int32_t capacity)
{
    spn_task_times_opts times_opts = SPN_TASK_TIMES_OPTS_INIT;
    spn_pool_opts opts = spn_pool_opts_fixed(1, capacity);

    memset(l, 0, sizeof *l);
    l->first = (spn_job)SPN_JOB_INIT(run_job, drop_nothing);
    l->later = (spn_job)SPN_JOB_INIT(run_job, drop_nothing);
    atomic_store(&gate, 0);
    atomic_store(&running, 0);
    times_opts.every = 1;
    opts.name = "leaving";
    opts.reject = reject;
    REQUIRE_OK(spn_metrics_create(&l->metrics));
    REQUIRE_OK(spn_task_times_create(&l->times, &times_opts));
    l->pool = pool_with(l->times, opts);
    REQUIRE_OK(METRICS_ADD(l->metrics, .pool = l->pool, .times = l->times));
    CHECK_OK(spn_executor_call(spn_pool_executor(l->pool), run, NULL));
    T_AWAIT(atomic_load(&running) == 1);
}

static atomic_int second_gate;

static int run_between(void *arg)
{
    (void)arg;
    atomic_fetch_add(&running, 1);
    while (atomic_load(&second_gate) == 0)
        t_pause();
    return 0;
}

static void submit_later(struct leaving *l)
{
    const int64_t from = spn_now();

    T_AWAIT(spn_now() - from >= SPN_MS(2));
    l->later_ns = spn_now();
    CHECK_OK(spn_executor_execute(spn_pool_executor(l->pool), &l->later.task));
}

/* What waits longest is what came later. */
static void close_leaving(struct leaving *l)
{
    const char *at;
    double seconds;

    write_as(l->metrics, SPN_METRICS_PROMETHEUS);
    at = strstr(text, "spindle_pool_oldest_queued_seconds{pool=\"leaving\"} ");
    REQUIRE(at != NULL);
    seconds = atof(strchr(at, ' '));
    CHECK(seconds * 1e9 <= (double)(spn_now() - l->later_ns));
    atomic_store(&gate, 1);
    atomic_store(&second_gate, 1);
    spn_metrics_destroy(l->metrics);
    end_pool(l->pool);
    spn_task_times_destroy(l->times);
}

/* Refused, while the queue is never seen empty. */
TEST(metrics__timed_task_refused__does_not_wait, "MET-9")
{
    struct leaving l;
    spn_job second = SPN_JOB_INIT(run_job, NULL);

    open_leaving(&l, NULL, 1);
    CHECK_OK(spn_executor_execute(spn_pool_executor(l.pool), &second.task));
    CHECK_STATUS(spn_executor_execute(spn_pool_executor(l.pool), &l.first.task),
                 SPN_EREJECTED);
    CHECK_EQ(pool_remove(l.pool, &second.task), 1);
    submit_later(&l);
    close_leaving(&l);
}

/* Taken back, cancelled, and dropped for another. */
TEST(metrics__timed_task_taken_out__does_not_wait, "MET-9")
{
    static int owner;

    for (int way = 0; way < 3; way++) {
        struct leaving l;
        spn_job another = SPN_JOB_INIT(run_job, NULL);

        open_leaving(&l, spn_reject_discard_oldest(), 2);
        l.first.owner = &owner;
        CHECK_OK(spn_executor_execute(spn_pool_executor(l.pool), &l.first.task));
        submit_later(&l);
        if (way == 0)
            CHECK_EQ(pool_remove(l.pool, &l.first.task), 1);
        else if (way == 1)
            CHECK_EQ(spn_pool_cancel_owner(l.pool, &owner), 1);
        else
            CHECK_OK(spn_executor_execute(spn_pool_executor(l.pool), &another.task));
        close_leaving(&l);
    }
}

/* Cancelled by its future's owner, and swept out. */
TEST(metrics__timed_task_purged__does_not_wait, "MET-9")
{
    struct leaving l;
    spn_future *f;

    open_leaving(&l, NULL, 2);
    REQUIRE_OK(
        spn_executor_submit_run(spn_pool_executor(l.pool), quick, NULL, NULL, &f));
    submit_later(&l);
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    CHECK_EQ(spn_pool_purge(l.pool), 1);
    spn_future_unref(f);
    close_leaving(&l);
}

/* Past its deadline when a thread comes to it, which then has another to run. */
TEST(metrics__timed_task_expires__does_not_wait, "MET-9")
{
    struct leaving l;

    open_leaving(&l, NULL, 3);
    atomic_store(&second_gate, 0);
    l.first.deadline_ns = spn_now() + 1;
    CHECK_OK(spn_executor_execute(spn_pool_executor(l.pool), &l.first.task));
    CHECK_OK(spn_executor_call(spn_pool_executor(l.pool), run_between, NULL));
    submit_later(&l);
    atomic_store(&gate, 1);
    T_AWAIT(atomic_load(&running) == 2);
    CHECK_EQ(pool_stats(l.pool).expired, 1);
    close_leaving(&l);
}

/* ---- what a limiter tells ------------------------------------------------------------------ */

static int run_nothing(spn_task *task)
{
    (void)task;
    return 0;
}

static void expect_limiter(const char *what, int64_t number)
{
    char line[128];

    (void)snprintf(line, sizeof line, "spindle_limiter_%s %lld", what,
                   (long long)number);
    CHECK(has(line));
}

static void look_at_limiter(spn_metrics *metrics)
{
    write_as(metrics, SPN_METRICS_PROMETHEUS);
    CHECK(prometheus_read(text).error == NULL);
}

/* In flight, waiting, refused: each number is there, and refusals by their reason. */
TEST(metrics__limiter_refuses__counted_by_reason, "MET-21")
{
    spn_limiter_opts opts = SPN_LIMITER_OPTS_INIT;
    spn_task tasks[3] = { SPN_TASK_INIT(run_nothing, NULL),
                          SPN_TASK_INIT(run_nothing, NULL),
                          SPN_TASK_INIT(run_nothing, NULL) };
    spn_metrics *metrics;
    spn_limiter *limiter, *other;
    spn_manual_executor *manual;
    spn_executor *ex;

    REQUIRE_OK(spn_metrics_create(&metrics));
    REQUIRE_OK(spn_manual_executor_create(&manual));
    opts.executor = spn_manual_executor_executor(manual);
    opts.max_in_flight = opts.max_waiting = 1;
    REQUIRE_OK(spn_limiter_create(&limiter, &opts));
    REQUIRE_OK(spn_limiter_create(&other, &opts));
    REQUIRE_OK(METRICS_ADD(metrics, .name = "door", .limiter = limiter));
    CHECK_STATUS(METRICS_ADD(metrics, .name = "door", .limiter = other), SPN_EBUSY);
    REQUIRE_OK(METRICS_ADD(metrics, .name = "other", .limiter = other));
    ex = spn_limiter_executor(limiter);
    CHECK_OK(spn_executor_execute(ex, &tasks[0]));
    CHECK_OK(spn_executor_execute(ex, &tasks[1]));
    CHECK_STATUS(spn_executor_execute(ex, &tasks[2]), SPN_EREJECTED);
    look_at_limiter(metrics);
    expect_limiter("in_flight_max{limiter=\"door\"}", 1);
    expect_limiter("waiting_max{limiter=\"door\"}", 1);
    expect_limiter("in_flight{limiter=\"door\"}", 1);
    expect_limiter("waiting{limiter=\"door\"}", 1);
    expect_limiter("overloaded{limiter=\"door\"}", 0);
    CHECK(has("spindle_limiter_delay_seconds{limiter=\"door\"} 0.000000000"));
    expect_limiter("accepted_total{limiter=\"door\"}", 2);
    expect_limiter("refused_total{limiter=\"door\",reason=\"full\"}", 1);
    expect_limiter("refused_total{limiter=\"door\",reason=\"delay\"}", 0);
    expect_limiter("refused_total{limiter=\"other\",reason=\"full\"}", 0);

    CHECK_OK(spn_executor_shutdown(ex));
    CHECK_STATUS(spn_executor_execute(ex, &tasks[2]), SPN_ESHUTDOWN);
    CHECK(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    CHECK_OK(spn_executor_shutdown(spn_manual_executor_executor(manual)));
    CHECK(spn_executor_execute(spn_limiter_executor(other), &tasks[2]) != SPN_OK);
    look_at_limiter(metrics);
    expect_limiter("completed_total{limiter=\"door\"}", 2);
    expect_limiter("in_flight{limiter=\"door\"}", 0);
    expect_limiter("refused_total{limiter=\"door\",reason=\"shutdown\"}", 1);
    expect_limiter("refused_total{limiter=\"other\",reason=\"behind\"}", 1);
    write_as(metrics, SPN_METRICS_JSON);
    CHECK(strstr(text, "\"kind\":\"limiter\",\"name\":\"door\",") != NULL);
    CHECK(strstr(text, "\"refused_full_total\":1,") != NULL);

    CHECK_OK(spn_metrics_remove(metrics, limiter));
    spn_metrics_destroy(metrics);
    CHECK_OK(spn_executor_shutdown(spn_limiter_executor(other)));
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_limiter_destroy(other));
    CHECK_OK(spn_manual_executor_destroy(manual));
}

static spn_pool *watched;
static atomic_int enough;

static void submit_or_look(int index, void *arg)
{
    spn_pool_stats s;
    int64_t last = 0;

    if (index > 0) {
        for (int i = 0; i < *(int *)arg; i++)
            CHECK_OK(spn_executor_call(spn_pool_executor(watched), quick, NULL));
        atomic_fetch_add(&enough, 1);
        return;
    }
    while (atomic_load(&enough) < 2) {
        s = pool_stats(watched);
        CHECK(s.started >= last);
        CHECK(s.started >= s.completed + s.failed && s.started <= s.accepted);
        last = s.started;
    }
}

/* However tasks are taken, one by one or in batches, each start is counted once. */
TEST(metrics__many_tasks__starts_never_go_back, "MET-16", "P48")
{
    static const uint32_t kinds[] = { SPN_POOL_FIFO, SPN_POOL_LANES };
    int tasks = 3000;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        spn_pool_opts opts = SPN_POOL_OPTS_INIT;

        atomic_store(&enough, 0);
        opts.core_threads = opts.max_threads = 2;
        opts.queue_capacity = SPN_UNBOUNDED;
        opts.queue_kind = kinds[i];
        watched = pool_with(NULL, opts);
        t_parallel(3, submit_or_look, &tasks);
        CHECK_OK(spn_pool_close(watched));
        CHECK_EQ(pool_stats(watched).started, 2 * tasks);
        CHECK_OK(spn_pool_destroy(watched));
    }
}

static atomic_int child_ran;

static int child_body(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    atomic_store(&child_ran, 1);
    return 0;
}

/* Waits until another worker has run what it forked. */
static int parent_body(spn_fj fj, spn_fj_task *task)
{
    static spn_fj_task child;

    (void)fj;
    (void)task;
    spn_fj_task_init(&child, child_body);
    CHECK_OK(spn_fj_task_fork(&child));
    while (atomic_load(&child_ran) == 0)
        t_pause();
    return spn_fj_task_join(&child);
}

/* A fork/join pool is a pool that steals. */
TEST(metrics__forkjoin_pool__as_a_pool_and_steals, "MET-18")
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_task parent;
    spn_metrics *metrics;
    spn_fj_pool *pool;

    atomic_store(&child_ran, 0);
    opts.name = "divide";
    opts.parallelism = 2;
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    REQUIRE_OK(spn_metrics_create(&metrics));
    REQUIRE_OK(METRICS_ADD(metrics, .fj_pool = pool));
    CHECK_STATUS(METRICS_ADD(metrics, .fj_pool = pool), SPN_EBUSY);
    spn_fj_task_init(&parent, parent_body);
    CHECK_OK(fj_invoke(pool, &parent));
    CHECK_OK(spn_fj_pool_close(pool));
    write_as(metrics, SPN_METRICS_PROMETHEUS);
    CHECK(prometheus_read(text).error == NULL);
    CHECK(has("spindle_pool_steals_total{pool=\"divide\"} 1"));
    CHECK(has("spindle_pool_tasks_completed_total{pool=\"divide\"} 2"));
    CHECK(has("spindle_pool_tasks_started_total{pool=\"divide\"} 2"));
    CHECK_OK(spn_metrics_remove(metrics, pool));
    write_as(metrics, SPN_METRICS_PROMETHEUS);
    CHECK_EQ(text_length, 0);
    spn_metrics_destroy(metrics);
    CHECK_OK(spn_fj_pool_destroy(pool));
}

static int refuse_second(void *ctx, const char *piece, size_t length)
{
    int *calls = ctx;

    (void)piece;
    (void)length;
    return ++*calls == 2 ? -99 : 0;
}

/* A function that refuses ends the call; many things make many pieces. */
TEST(metrics__writer_refuses__told_so, "MET-8")
{
    spn_metrics *metrics;
    char name[32];
    int calls = 0;

    REQUIRE_OK(spn_metrics_create(&metrics));
    CHECK_OK(spn_metrics_write(metrics, SPN_METRICS_JSON, refuse_second, &calls));
    CHECK_EQ(calls, 0); /* nothing to say */
    REQUIRE_OK(spn_histogram_create(&histogram));
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "h%d", i);
        REQUIRE_OK(METRICS_ADD(metrics, .name = name, .histogram = histogram));
    }
    CHECK_EQ(spn_metrics_write(metrics, SPN_METRICS_PROMETHEUS, refuse_second, &calls),
             -99);
    CHECK_EQ(calls, 2);
    write_as(metrics, SPN_METRICS_PROMETHEUS);
    CHECK(prometheus_read(text).error == NULL);
    spn_metrics_destroy(metrics);
    spn_histogram_destroy(histogram);
}

/* Names are taken once per kind; what was removed is not looked at any more. */
TEST(metrics__registered_twice__refused, "MET-5")
{
    static const char *const illegal[] = { "",    "1a",        "a-b",
                                           "a b", "spindle_x", "\xc3\xa9" };
    spn_metrics *metrics;

    REQUIRE_OK(spn_metrics_create(&metrics));
    REQUIRE_OK(spn_counter_create(&counter));
    REQUIRE_OK(spn_histogram_create(&histogram));
    CHECK_OK(METRICS_ADD(metrics, .name = "x", .counter = counter));
    CHECK_STATUS(METRICS_ADD(metrics, .name = "x", .counter = counter), SPN_EBUSY);
    CHECK_OK(METRICS_ADD(metrics, .name = "x", .histogram = histogram));
    for (size_t i = 0; i < sizeof illegal / sizeof illegal[0]; i++)
        CHECK_STATUS(METRICS_ADD(metrics, .name = illegal[i], .counter = counter),
                     SPN_EINVAL);
    CHECK_OK(spn_metrics_remove(metrics, counter));
    CHECK_STATUS(spn_metrics_remove(metrics, counter), SPN_EEMPTY);
    spn_counter_destroy(counter);
    write_as(metrics, SPN_METRICS_JSON);
    CHECK(strstr(text, "counter") == NULL);
    CHECK_OK(spn_metrics_remove(metrics, histogram));
    spn_histogram_destroy(histogram);
    spn_metrics_destroy(metrics);
}

/* A thing under two names is gone under both. */
TEST(metrics__removed__gone_under_all_its_names, "MET-5")
{
    spn_counter *other;
    spn_metrics *metrics;

    REQUIRE_OK(spn_metrics_create(&metrics));
    REQUIRE_OK(spn_counter_create(&counter));
    REQUIRE_OK(spn_counter_create(&other));
    CHECK_OK(METRICS_ADD(metrics, .name = "a", .counter = counter));
    CHECK_OK(METRICS_ADD(metrics, .name = "other", .counter = other));
    CHECK_OK(METRICS_ADD(metrics, .name = "b", .counter = counter));
    CHECK_OK(spn_metrics_remove(metrics, counter));
    CHECK_STATUS(spn_metrics_remove(metrics, counter), SPN_EEMPTY);
    spn_counter_destroy(counter);
    write_as(metrics, SPN_METRICS_JSON);
    CHECK(strstr(text, "\"name\":\"a\"") == NULL);
    CHECK(strstr(text, "\"name\":\"b\"") == NULL);
    CHECK(strstr(text, "\"name\":\"other\"") != NULL);
    spn_metrics_destroy(metrics);
    spn_counter_destroy(other);
}
