/* SPDX-License-Identifier: MIT */
/*
 * test_metrics.c - every allocation of a script that counts, times, writes and watches
 * fails, once and from then on.  What was counted is counted, with or without memory, and
 * no block is left.
 */
#include "faults.h"
#include "metrics_add.h"
#include "pool_calls.h"
#include "test.h"

#include <spindle.h>

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    return rc == SPN_OK;
}

static size_t written;

static int count_text(void *ctx, const char *text, size_t length)
{
    (void)ctx;
    (void)text;
    written += length;
    return 0;
}

static void use_registry(spn_metrics *metrics, spn_counter *counter,
                         spn_histogram *histogram, spn_task_times *times)
{
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;
    spn_watch *watch;
    spn_pool *pool;

    (void)ok(METRICS_ADD(metrics, .name = "c", .help = "help", .counter = counter));
    (void)ok(METRICS_ADD(metrics, .name = "h", .help = "help", .histogram = histogram));
    (void)ok(spn_metrics_write(metrics, SPN_METRICS_PROMETHEUS, count_text, NULL));
    if (ok(spn_pool_create(&pool, NULL))) {
        opts.metrics = metrics;
        opts.queued = 1;
        if (ok(METRICS_ADD(metrics, .pool = pool, .times = times))) {
            if (ok(spn_watch_create(&watch, &opts))) {
                CHECK_EQ(spn_watch_check(watch), 0);
                CHECK_OK(spn_watch_destroy(watch));
            }
            (void)ok(spn_metrics_write(metrics, SPN_METRICS_JSON, count_text, NULL));
            CHECK_OK(spn_metrics_remove(metrics, pool));
        }
        CHECK_OK(pool_shutdown(pool));
        CHECK_OK(spn_pool_destroy(pool));
    }
}

static void script(void)
{
    spn_histogram_snapshot s = SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn_metrics *metrics = NULL;
    spn_counter *counter = NULL;
    spn_histogram *histogram = NULL;
    spn_task_times *times = NULL;

    if (ok(spn_counter_create(&counter)) && ok(spn_histogram_create(&histogram)) &&
        ok(spn_task_times_create(&times, NULL)) && ok(spn_metrics_create(&metrics))) {
        for (int i = 0; i < 3; i++) {
            spn_counter_add(counter, 2);
            spn_histogram_record(histogram, 100);
        }
        CHECK_EQ(spn_counter_value(counter), 6); /* in the shared part, if need be */
        CHECK_OK(spn_histogram_snapshot_get(histogram, &s));
        CHECK_EQ(s.count, 3);
        CHECK_EQ(s.sum, 300);
        CHECK_EQ(s.max, 100);
        use_registry(metrics, counter, histogram, times);
    }
    spn_metrics_destroy(metrics);
    spn_task_times_destroy(times);
    spn_histogram_destroy(histogram);
    spn_counter_destroy(counter);
}

/* Without memory nothing is half made, and nothing that was counted is lost. */
TEST(fault_metrics__each_allocation_refused__counts_right, "G-22", "MET-4")
{
    CHECK(spn_thread_current() != NULL); /* the thread's record stays */
    script();
    CHECK(written > 1000);
    fault_sweep(script, false, 3);
    fault_sweep(script, true, 3);
}

static int nothing(spn_task *task)
{
    (void)task;
    return 0;
}

static int no_call(void *arg)
{
    (void)arg;
    return 0;
}

/* A submission that finds no memory is counted as refused for that. */
TEST(fault_metrics__no_memory_to_submit__that_reason, "MET-17")
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_task task = SPN_TASK_INIT(nothing, NULL);
    spn_executor *ex;
    spn_pool *pool;

    REQUIRE_OK(spn_pool_create(&pool, &opts));
    ex = spn_pool_executor(pool);
    atomic_store(&point, 0);
    atomic_store(&fail_more, 1);
    atomic_store(&fail_at, 1);
    CHECK_STATUS(spn_executor_call(ex, no_call, NULL), SPN_ENOMEM);
    CHECK_STATUS(spn_executor_execute(ex, &task), SPN_ENOMEM);
    atomic_store(&fail_at, 0);
    CHECK_OK(spn_pool_stats_get(pool, &s));
    CHECK_EQ(s.rejected_no_memory, 2);
    CHECK_EQ(s.rejected, 2);
    CHECK_EQ(s.accepted, 0);
    CHECK_OK(spn_executor_execute(ex, &task));
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_stats_get(pool, &s));
    CHECK_EQ(s.completed, 1);
    CHECK_EQ(s.rejected, 2);
    CHECK_OK(spn_pool_destroy(pool));
}
