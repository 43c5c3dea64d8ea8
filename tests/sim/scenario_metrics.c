/* SPDX-License-Identifier: MIT */
/* scenario_metrics.c - parts of threads, times of tasks, and reports in virtual time. */
#include "pool_calls.h"
#include "sim.h"

#include <spindle/log.h>
#include <spindle/metrics.h>
#include <spindle/report.h>
#include <spindle/thread.h>

#include "metrics/metrics_core_times.h"
#include "metrics/task_times.h"
#include "sync/seam.h"

static spn_counter *counter;
static spn_histogram *histogram;

static void count_two(void *arg)
{
    (void)arg;
    spn_counter_add(counter, 1);
    spn_counter_add(counter, 1);
}

/* What threads count is there when they have ended; a sum never goes back. */
SCENARIO(metrics__counted_by_threads__adds_up, "MET-1")
{
    int64_t first, second;

    if (spn_counter_create(&counter) != SPN_OK)
        return;
    sim_thread(count_two, NULL);
    sim_thread(count_two, NULL);
    first = spn_counter_value(counter);
    second = spn_counter_value(counter);
    sim_assert(second >= first);
    count_two(NULL);
    sim_join_all();
    sim_assert(spn_counter_value(counter) == 6);
    spn_counter_destroy(counter);
}
SCENARIO_OPTS(metrics__counted_by_threads__adds_up, .faults = true)

static int count_and_end(void *arg)
{
    count_two(arg);
    return 0;
}

/* A part is passed from a thread that ends to one that begins, with what is in it. */
SCENARIO(metrics__part_passed_on__nothing_lost, "MET-1")
{
    spn_thread *a, *b;

    sim_assert(spn_counter_create(&counter) == SPN_OK);
    sim_assert(spn_thread_create(&a, NULL, count_and_end, NULL) == SPN_OK);
    sim_assert(spn_thread_create(&b, NULL, count_and_end, NULL) == SPN_OK);
    sim_assert(spn_thread_join(a, SPN_FOREVER, NULL) == SPN_OK);
    spn_thread_unref(a);
    sim_assert(spn_thread_join(b, SPN_FOREVER, NULL) == SPN_OK);
    spn_thread_unref(b);
    sim_assert(spn_thread_create(&a, NULL, count_and_end, NULL) == SPN_OK);
    sim_assert(spn_thread_join(a, SPN_FOREVER, NULL) == SPN_OK);
    spn_thread_unref(a);
    sim_assert(spn_counter_value(counter) == 6);
    spn_counter_destroy(counter);
}

static SPN__ATOMIC(int) has_counted;

static void count_and_tell(void *arg)
{
    (void)arg;
    spn_counter_add(counter, 1);
    spn__store(&has_counted, 1, release); /* it does not count any more */
}

/* The last that a thread does with its part is to leave it, when it ends: a counter that is
 * destroyed just then is freed after that. */
SCENARIO(metrics__destroyed_as_its_thread_ends__is_freed_afterwards, "MET-1")
{
    sim_assert(spn_counter_create(&counter) == SPN_OK);
    spn__init(&has_counted, 0);
    sim_thread(count_and_tell, NULL);
    while (spn__load(&has_counted, acquire) == 0)
        spn__cpu_relax();
    spn_counter_destroy(counter);
    sim_join_all();
}

static void record_one(void *arg)
{
    (void)arg;
    spn_histogram_record(histogram, 5);
}

/* A snapshot beside a thread that records for the first time has it or has it not. */
SCENARIO(metrics__snapshot_beside_first_record__whole, "MET-3", "P48")
{
    static spn_histogram_snapshot s;

    s = (spn_histogram_snapshot)SPN_HISTOGRAM_SNAPSHOT_INIT;
    if (spn_histogram_create(&histogram) != SPN_OK)
        return;
    sim_thread(record_one, NULL);
    sim_assert(spn_histogram_snapshot_get(histogram, &s) == SPN_OK);
    sim_assert(s.count <= 1 && s.buckets[5] == s.count && s.sum <= 5);
    sim_outcome((unsigned)s.count);
    sim_join_all();
    sim_assert(spn_histogram_snapshot_get(histogram, &s) == SPN_OK);
    sim_assert(s.count == 1 && s.sum == 5);
    spn_histogram_destroy(histogram);
}
SCENARIO_OPTS(metrics__snapshot_beside_first_record__whole, .models = SIM_SC | SIM_C11)

/* ---- times of tasks ----------------------------------------------------------------------- */

static spn_task_times *times;
static spn_task task;

/* What a worker calls, for two runs with labels of their own. */
static void run_two(void *arg)
{
    static const char *const labels[2] = { "aaaaaaaaaaaaaaaaaaaaaaaa",
                                           "bbbbbbbbbbbbbbbbbbbbbbbb" };

    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct spn__times_part *part = spn__times_mine(times);

        spn__times_start(times, part, "pool", NULL, labels[i]);
        spn__times_end(part, "pool", labels[i], 0);
    }
}

static void see_run(void *ctx, const spn_running *running)
{
    (void)ctx;
    sim_assert(running->label != NULL);
    for (int i = 1; i < 24; i++)
        sim_assert(running->label[i] == running->label[0]);
    sim_assert(running->label[0] == (running->run == 1 ? 'a' : 'b'));
}

static bool open_times(void)
{
    spn_task_times_opts opts = SPN_TASK_TIMES_OPTS_INIT;

    opts.every = 1;
    return spn_task_times_create(&times, &opts) == SPN_OK;
}

/* What is seen to run has the label of that run. */
SCENARIO(metrics__looked_at_while_running__label_is_the_runs, "MET-13")
{
    if (!open_times())
        return;
    sim_thread(run_two, NULL);
    (void)spn_task_times_running(times, see_run, NULL);
    sim_assert(spn__task_times_longest(times) == 0 || sim_now() != 0);
    sim_join_all();
    sim_assert(spn_task_times_running(times, see_run, NULL) == 0);
    spn_task_times_destroy(times);
}
SCENARIO_OPTS(metrics__looked_at_while_running__label_is_the_runs,
              .models = SIM_SC | SIM_C11)

static void run_task(void *arg)
{
    struct spn__times_part *part = spn__times_mine(times);

    (void)arg;
    spn__times_start(times, part, "pool", &task, NULL);
    spn__times_end(part, "pool", NULL, 0);
}

static void look_for_oldest(void *arg)
{
    (void)arg;
    sim_assert(spn__task_times_oldest(times) < 1000000);
}

/* A wait that is found is the one that was noted: never from before the submit. */
SCENARIO(metrics__submitted_and_run__wait_is_its_own, "MET-9")
{
    static spn_histogram_snapshot s;

    s = (spn_histogram_snapshot)SPN_HISTOGRAM_SNAPSHOT_INIT;
    if (!open_times())
        return;
    sim_sleep(1000000);
    sim_thread(sim_choose(2) == 0 ? run_task : look_for_oldest, NULL);
    spn__times_submitted(times, &task, true);
    sim_join_all();
    sim_assert(spn_task_times_get(times, &s, NULL) == SPN_OK);
    sim_assert(s.count <= 1 && s.max < 1000000);
    sim_outcome((unsigned)s.count);
    run_task(NULL); /* takes the note, if it is still there */
    spn_task_times_destroy(times);
}
SCENARIO_OPTS(metrics__submitted_and_run__wait_is_its_own, .models = SIM_SC | SIM_C11)

/* ---- a storm of reports, in virtual time ------------------------------------------------------ */

static SPN__ATOMIC(uint32_t) reports;
static spn_reject_report *report;
static spn_pool *pool;

static void told(void *ctx, const spn_exhaustion *what)
{
    (void)ctx;
    (void)what;
    (void)spn__fetch_add(&reports, 1, relaxed);
}

static void ask_twice(void *arg)
{
    (void)arg;
    (void)spn_report_pool(report, pool);
    (void)spn_report_pool(report, pool);
}

/* Many ask at once: one report, and another in the next interval. */
SCENARIO(metrics__storm__one_report_per_interval, "MET-15", "X-14")
{
    spn_reject_report_opts opts = SPN_REJECT_REPORT_OPTS_INIT;

    (void)spn_log_set_level(SPN_LOG_OFF); /* a line per schedule */
    opts.no_stacks = 1;
    opts.interval_ns = SPN_SEC(600);
    opts.exhausted = told;
    spn__init(&reports, 0);
    sim_assert(spn_pool_create(&pool, NULL) == SPN_OK);
    sim_assert(spn_reject_report_create(&report, &opts) == SPN_OK);
    for (uint32_t interval = 1; interval <= 2; interval++) {
        const int id = sim_thread(ask_twice, NULL);

        ask_twice(NULL);
        sim_join(id);
        sim_settle();
        sim_assert(spn__load(&reports, relaxed) == interval);
        sim_sleep(SPN_SEC(600));
    }
    sim_assert(spn_reject_report_destroy(report) == SPN_OK);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}
SCENARIO_OPTS(metrics__storm__one_report_per_interval, .models = SIM_SC | SIM_TSO)
