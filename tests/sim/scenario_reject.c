/* SPDX-License-Identifier: MIT */
/*
 * scenario_reject.c - tasks that do not fit: waiting for room, the policies against
 * shutdown and workers, and the report's once per interval.
 */
#include "pool_calls.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include <spindle/log.h>
#include <spindle/report.h>

#include "exec/pool.h"
#include "sync/thread_record.h"

static SPN__ATOMIC(int) lines,
    not_logged; /* of refusals that got a line and no report */

static void note_line(void *ctx, spn_log_level level, const char *message)
{
    const char *rest = strstr(message, "not logged: ");

    (void)ctx;
    (void)level;
    if (rest != NULL) {
        (void)spn__fetch_add(&lines, 1, relaxed);
        (void)spn__fetch_add(&not_logged, atoi(rest + strlen("not logged: ")), relaxed);
    }
}

/* Once in the process: what the report says in thousands of schedules is not read, but in
 * one scenario. */
__attribute__((constructor)) static void be_quiet(void)
{
    if (spn_log_set_hook(note_line, NULL) != SPN_OK)
        abort();
    (void)spn_log_set_level(SPN_LOG_OFF);
}

struct item {
    spn_task task;
    SPN__ATOMIC(int) runs, drops;
    bool refused; /* of whoever submitted it, and then of the body */
};

static int run_item(spn_task *task)
{
    struct item *item = (struct item *)(void *)task;

    (void)spn__fetch_add(&item->runs, 1, relaxed);
    return 0;
}

static void drop_item(spn_task *task, int reason)
{
    struct item *item = (struct item *)(void *)task;

    sim_assert(reason < 0);
    (void)spn__fetch_add(&item->drops, 1, relaxed);
}

enum { ITEMS = 4 };
static struct item items[ITEMS];
static spn_pool *pool;

/* A pool of one thread and `capacity` places; false: no memory. */
static bool try_start(const spn_reject_policy *policy, int32_t capacity)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;

    for (int i = 0; i < ITEMS; i++) {
        items[i].task = (spn_task)SPN_TASK_INIT(run_item, drop_item);
        items[i].refused = false;
        spn__init(&items[i].runs, 0);
        spn__init(&items[i].drops, 0);
    }
    opts.name = "sim";
    opts.core_threads = opts.max_threads = 1;
    opts.queue_capacity = capacity;
    opts.reject = policy;
    return spn_thread_current() != NULL && spn_pool_create(&pool, &opts) == SPN_OK;
}

static void start(const spn_reject_policy *policy, int32_t capacity)
{
    sim_assert(try_start(policy, capacity));
}

/* Pauses the pool while its worker sleeps, so that tasks are queued. */
static void pause_pool(void)
{
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    sim_settle(); /* the worker sleeps */
    sim_assert(spn_pool_pause(pool) == SPN_OK);
}

static int give(int i)
{
    return spn_executor_execute(spn_pool_executor(pool), &items[i].task);
}

/* Ends the pool; then each item had the one end its submitter was told of. */
static void stop(void)
{
    spn_pool_stats stats = SPN_POOL_STATS_INIT;

    sim_assert(spn_pool_close(pool) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &stats) == SPN_OK);
    sim_assert(stats.pending == 0);
    sim_assert(stats.accepted == stats.completed + stats.failed + stats.cancelled +
                                     stats.returned + stats.dropped);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

static int runs(int i)
{
    return spn__load(&items[i].runs, relaxed);
}

static int drops(int i)
{
    return spn__load(&items[i].drops, relaxed);
}

/* ---- block ------------------------------------------------------------------------- */

static const spn_reject_block patient = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
static const spn_reject_block hour = SPN_REJECT_BLOCK_INIT(SPN_SEC(3600));

static void give_patiently(void *arg)
{
    sim_assert(give((int)(intptr_t)arg) == SPN_OK);
}

/* Two submitters and one place: whoever has to wait is woken when there is room. */
SCENARIO(reject__block_races_worker__everybody_gets_in, "S-6", "P9")
{
    start(&patient.policy, 1);
    sim_thread(give_patiently, (void *)(intptr_t)1);
    sim_assert(give(0) == SPN_OK);
    sim_assert(give(2) == SPN_OK);
    sim_join_all();
    stop();
    for (int i = 0; i < 3; i++)
        sim_assert(runs(i) == 1 && drops(i) == 0);
}

/* The same with a hand-off: room is a thread that has nothing to do. */
SCENARIO(reject__block_on_handoff__everybody_gets_in, "S-6", "P9")
{
    start(&patient.policy, SPN_HANDOFF);
    sim_thread(give_patiently, (void *)(intptr_t)1);
    sim_assert(give(0) == SPN_OK);
    sim_join_all();
    stop();
    sim_assert(runs(0) == 1 && runs(1) == 1);
}

/* A wake-up that a time-out would rescue shows as time. */
SCENARIO(reject__block_timed__woken_promptly, "S-6")
{
    int64_t began_ns;

    start(&hour.policy, 1);
    began_ns = spn__now();
    sim_thread(give_patiently, (void *)(intptr_t)1);
    sim_assert(give(0) == SPN_OK);
    sim_assert(give(2) == SPN_OK);
    sim_join_all();
    sim_assert(spn__now() - began_ns < SPN_SEC(60));
    stop();
}
SCENARIO_OPTS(reject__block_timed__woken_promptly, .early = SIM_NEVER)

static void shut_down(void *arg)
{
    (void)arg;
    sim_assert(pool_shutdown(pool) == SPN_OK);
}

static void give_or_be_refused(void *arg)
{
    const int i = (int)(intptr_t)arg;
    const int rc = give(i);

    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED);
    items[i].refused = rc != SPN_OK;
}

/* Shutdown while a submitter waits: it is accepted and runs, or refused; never stuck. */
SCENARIO(reject__block_races_shutdown__ends, "TPE-82")
{
    start(&patient.policy, 1);
    sim_assert(give(0) == SPN_OK);
    sim_thread(give_or_be_refused, (void *)(intptr_t)1);
    sim_thread(give_or_be_refused, (void *)(intptr_t)2);
    shut_down(NULL);
    sim_join_all();
    stop();
    for (int i = 1; i < 3; i++)
        sim_assert(runs(i) == (!items[i].refused) && drops(i) == 0);
}

static void stop_now(void *arg)
{
    (void)arg;
    sim_assert(pool_shutdown_now(pool, NULL, NULL, NULL) == SPN_OK);
}

/* Stopped while paused, no worker ever takes a task: only the stop itself can tell the
 * one that waits. */
SCENARIO(reject__block_races_stop_while_paused__refused, "TPE-82")
{
    start(&patient.policy, 1);
    pause_pool();
    sim_assert(give(0) == SPN_OK);
    sim_thread(stop_now, NULL);
    sim_assert(give(1) == SPN_EREJECTED);
    sim_join_all();
    stop();
    sim_assert(runs(0) == 0 && drops(0) == 1);
    sim_assert(runs(1) == 0 && drops(1) == 0);
}
SCENARIO_OPTS(reject__block_races_stop_while_paused__refused, .dfs = 1,
              .dfs_models = SIM_SC)

/* So it is with a queue of the program's own. */
SCENARIO(reject__block_on_own_queue__everybody_gets_in, "P9")
{
    spn_queue_opts queue_opts = SPN_QUEUE_OPTS_INIT;
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_queue *queue;

    start(&patient.policy, 1); /* for the items */
    stop();
    queue_opts.capacity = 1;
    sim_assert(spn_queue_create(&queue, SPN_QUEUE_LINKED, &queue_opts) == SPN_OK);
    opts.core_threads = opts.max_threads = 1;
    opts.queue = queue;
    opts.reject = &patient.policy;
    sim_assert(spn_pool_create(&pool, &opts) == SPN_OK);
    sim_thread(give_patiently, (void *)(intptr_t)1);
    sim_assert(give(0) == SPN_OK);
    sim_assert(give(2) == SPN_OK);
    sim_join_all();
    stop();
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
    for (int i = 0; i < 3; i++)
        sim_assert(runs(i) == 1 && drops(i) == 0);
}

static void raise_capacity(void *arg)
{
    (void)arg;
    sim_assert(pool_set_capacity(pool, 2) == SPN_OK);
}

/* A paused pool starts nothing: only the new place can let the waiter in. */
SCENARIO(reject__block_races_reconfigure__gets_in, "TPE-83")
{
    start(&patient.policy, 1);
    pause_pool();
    sim_assert(give(0) == SPN_OK);
    sim_thread(raise_capacity, NULL);
    sim_assert(give(1) == SPN_OK);
    sim_join_all();
    sim_assert(pool_stats(pool).queued == 2);
    stop();
    sim_assert(runs(0) == 1 && runs(1) == 1);
}
SCENARIO_OPTS(reject__block_races_reconfigure__gets_in, .dfs = 1, .dfs_models = SIM_SC)

static void take_back(void *arg)
{
    (void)arg;
    sim_assert(pool_remove(pool, &items[0].task) == 1);
}

/* The same with a task that is taken back. */
SCENARIO(reject__block_races_remove__gets_in, "TPE-83")
{
    start(&patient.policy, 1);
    pause_pool();
    sim_assert(give(0) == SPN_OK);
    sim_thread(take_back, NULL);
    sim_assert(give(1) == SPN_OK);
    sim_join_all();
    stop();
    sim_assert(runs(0) == 0 && runs(1) == 1);
}
SCENARIO_OPTS(reject__block_races_remove__gets_in, .dfs = 1, .dfs_models = SIM_SC)

static void interrupt_thread(void *thread)
{
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
}

/* An interrupt and a place at once: one outcome, and the other is still there. */
SCENARIO(reject__block_races_interrupt__one_outcome, "G-11", "G-12")
{
    int rc;

    start(&patient.policy, 1);
    pause_pool();
    sim_assert(give(0) == SPN_OK);
    sim_thread(interrupt_thread, spn_thread_current());
    sim_thread(take_back, NULL);
    rc = give(1);
    sim_join_all();
    sim_assert(rc == SPN_OK || rc == SPN_EINTR);
    sim_assert(spn_thread_interrupted() == (rc == SPN_OK));
    stop();
    sim_assert(runs(1) == (rc == SPN_OK) && drops(1) == 0);
}

/* By default it waits a minute, no less, and not much more. */
SCENARIO(reject__block_by_default__a_minute, "S-6")
{
    static const spn_reject_block block = SPN_REJECT_BLOCK_INIT(0);
    int64_t began_ns;

    start(&block.policy, 1);
    pause_pool();
    sim_assert(give(0) == SPN_OK);
    began_ns = spn__now();
    sim_assert(give(1) == SPN_ETIMEDOUT);
    sim_assert(spn__now() - began_ns >= SPN_SEC(60));
    sim_assert(spn__now() - began_ns < SPN_SEC(61));
    stop();
    sim_assert(runs(1) == 0 && drops(1) == 0);
}

/* ---- the others ---------------------------------------------------------------------- */

static void give_and_shut_down(void *arg)
{
    sim_assert(give((int)(intptr_t)arg) == SPN_OK);
    shut_down(NULL);
}

/* Discard-oldest against a worker, another submitter and shutdown: every task has one
 * end, and the sums are right. */
SCENARIO(reject__discard_oldest_races_all__one_end_each, "TPE-78", "TPE-79")
{
    start(spn_reject_discard_oldest(), 1);
    sim_thread(give_and_shut_down, (void *)(intptr_t)1);
    for (int i = 2; i < 4; i++) {
        const int rc = give(i);

        sim_assert(rc == SPN_OK || rc == SPN_EREJECTED);
        if (rc != SPN_OK)
            sim_assert(drops(i) == 0), items[i].refused = true;
    }
    sim_join_all();
    stop();
    for (int i = 1; i < 4; i++)
        sim_assert(runs(i) + drops(i) == (!items[i].refused));
}

/* Caller-runs and discard against shutdown. */
SCENARIO(reject__caller_runs_races_shutdown__one_end_each, "TPE-77", "TPE-76")
{
    start(sim_choose(2) ? spn_reject_caller_runs() : spn_reject_discard(), SPN_HANDOFF);
    sim_thread(shut_down, NULL);
    for (int i = 0; i < 3; i++)
        sim_assert(give(i) == SPN_OK);
    sim_join_all();
    stop();
    for (int i = 0; i < 3; i++)
        sim_assert(runs(i) + drops(i) == 1);
}

/* Without memory or threads a submitter is refused rather than left waiting. */
SCENARIO(reject__block_without_means__never_stuck, "P9")
{
    int rc[3];

    if (!try_start(&patient.policy, 1))
        return;
    for (int i = 0; i < 3; i++) {
        rc[i] = give(i);
        sim_assert(rc[i] == SPN_OK || rc[i] == SPN_EAGAIN || rc[i] == SPN_ENOMEM);
    }
    stop();
    for (int i = 0; i < 3; i++)
        sim_assert(runs(i) + drops(i) == (rc[i] == SPN_OK));
}
SCENARIO_OPTS(reject__block_without_means__never_stuck, .faults = true)

/* A thread of its own may outlive the pool; without one the task is refused, and
 * nothing is left. */
SCENARIO(reject__new_thread__runs_or_is_refused, "S-6")
{
    int rc[3];

    if (!try_start(spn_reject_new_thread(), SPN_HANDOFF))
        return;
    for (int i = 0; i < 3; i++) {
        rc[i] = give(i);
        sim_assert(rc[i] == SPN_OK || rc[i] == SPN_EREJECTED || rc[i] == SPN_EAGAIN ||
                   rc[i] == SPN_ENOMEM);
    }
    stop();
    sim_settle(); /* those on their own */
    for (int i = 0; i < 3; i++)
        sim_assert(runs(i) == (rc[i] == SPN_OK) && drops(i) == 0);
}
SCENARIO_OPTS(reject__new_thread__runs_or_is_refused, .faults = true)

/* ---- the report -------------------------------------------------------------------------- */

static SPN__ATOMIC(int) reports, seen;
static spn_reject_report *report;

static void count_report(void *ctx, const spn_exhaustion *what)
{
    (void)ctx;
    sim_assert(
        strncmp(what->message, "Thread pool is EXHAUSTED! Thread Name: sim", 42) == 0);
    sim_assert(what->refusal->reason == SPN_REFUSED_FULL);
    sim_assert(what->file == NULL);
    (void)spn__fetch_add(&seen, (int)what->suppressed + 1, relaxed);
    (void)spn__fetch_add(&reports, 1, relaxed);
}

static int start_report(int64_t interval_ns)
{
    spn_reject_report_opts opts = SPN_REJECT_REPORT_OPTS_INIT;

    opts.interval_ns = interval_ns;
    opts.exhausted = count_report;
    opts.no_stacks = 1;
    spn__init(&reports, 0);
    spn__init(&seen, 0);
    return spn_reject_report_create(&report, &opts);
}

static void be_refused(void *arg)
{
    (void)arg;
    sim_assert(give(3) == SPN_EREJECTED);
}

static void refused_elsewhere(void *arg)
{
    (void)arg;
    sim_assert(give(2) == SPN_EREJECTED);
}

/* However many are refused at once, one report per interval; the next interval has its
 * own, and each refusal is in one of the two or counted for the next. */
SCENARIO(report__many_refused_at_once__one_report_per_interval, "X-14", "P33")
{
    sim_assert(start_report(SPN_SEC(600)) == SPN_OK);
    start(spn_reject_report_policy(report), 1);
    pause_pool();
    sim_assert(give(0) == SPN_OK);
    sim_thread(be_refused, NULL);
    sim_thread(refused_elsewhere, NULL);
    sim_assert(give(1) == SPN_EREJECTED);
    sim_join_all();
    sim_settle(); /* the report is made by its own thread */
    sim_assert(spn__load(&reports, relaxed) == 1);
    sim_sleep(SPN_SEC(600));
    sim_assert(give(1) == SPN_EREJECTED);
    sim_settle();
    sim_assert(spn__load(&reports, relaxed) == 2);
    sim_assert(spn__load(&seen, relaxed) == 4);
    stop();
    sim_assert(spn_reject_report_destroy(report) == SPN_OK);
}

/* The policy alone, as the pool would call it. */
static void call_policy(void *arg)
{
    const spn_reject_policy *policy = spn_reject_report_policy(report);
    const spn_refusal why = { .reason = SPN_REFUSED_FULL,
                              .refused_at_ns = *(const int64_t *)arg };

    sim_assert(policy->refused(policy, pool, &items[0].task, &why) == SPN_EREJECTED);
}

/* One that found a report due, and comes to it after another has made it, makes no
 * second one, and does not stand in the way of the next. */
SCENARIO(report__late_refusal__not_reported_twice, "X-14", "P33")
{
    int64_t at_ns;

    sim_assert(start_report(SPN_SEC(600)) == SPN_OK);
    start(spn_reject_report_policy(report), 1);
    at_ns = spn__now();
    sim_thread(call_policy, &at_ns);
    call_policy(&at_ns);
    sim_join_all();
    sim_settle();
    sim_assert(spn__load(&reports, relaxed) == 1);
    at_ns += SPN_SEC(601);
    sim_sleep(SPN_SEC(601));
    call_policy(&at_ns);
    stop();
    sim_assert(spn_reject_report_destroy(report) == SPN_OK);
    sim_assert(spn__load(&reports, relaxed) == 2);
    sim_assert(spn__load(&seen, relaxed) == 3);
}
SCENARIO_OPTS(report__late_refusal__not_reported_twice, .dfs = 2, .dfs_models = SIM_SC)

/* With three of them the last may learn that a report was made from the one that came in
 * vain, and from nobody else. */
SCENARIO(report__two_late_refusals__not_reported_twice, "X-14", "P33")
{
    int64_t at_ns;

    sim_assert(start_report(SPN_SEC(600)) == SPN_OK);
    start(spn_reject_report_policy(report), 1);
    at_ns = spn__now();
    sim_thread(call_policy, &at_ns);
    sim_thread(call_policy, &at_ns);
    call_policy(&at_ns);
    sim_join_all();
    sim_settle();
    sim_assert(spn__load(&reports, relaxed) == 1);
    stop();
    sim_assert(spn_reject_report_destroy(report) == SPN_OK);
    sim_assert(spn__load(&reports, relaxed) == 1);
}

/* Beside the report there is a line a second, which says how many refusals had none. */
SCENARIO(report__refused_after_the_report__a_line_a_second, "X-14", "REP-5")
{
    const int64_t any_ns = 0; /* now */

    sim_assert(spn_log_set_level(SPN_LOG_WARN) == SPN_OK);
    spn__init(&lines, 0);
    spn__init(&not_logged, 0);
    sim_assert(start_report(SPN_SEC(600)) == SPN_OK);
    start(spn_reject_report_policy(report), 1);
    call_policy((void *)(uintptr_t)&any_ns);
    sim_settle();
    for (int i = 0; i < 3; i++)
        call_policy((void *)(uintptr_t)&any_ns);
    sim_settle();
    sim_assert(spn__load(&lines, relaxed) == 0);
    sim_sleep(SPN_SEC(1));
    sim_thread(call_policy, (void *)(uintptr_t)&any_ns);
    call_policy((void *)(uintptr_t)&any_ns);
    sim_join_all();
    sim_settle();
    sim_assert(spn__load(&lines, relaxed) == 1); /* of one of the two */
    sim_sleep(SPN_SEC(1));
    call_policy((void *)(uintptr_t)&any_ns);
    sim_settle();
    sim_assert(spn__load(&lines, relaxed) == 2);
    sim_assert(spn__load(&not_logged, relaxed) == 4);
    sim_assert(spn__load(&reports, relaxed) == 1);
    sim_sleep(SPN_SEC(598)); /* all of them are in the next report */
    call_policy((void *)(uintptr_t)&any_ns);
    sim_settle();
    sim_assert(spn__load(&lines, relaxed) == 2);
    sim_assert(spn__load(&reports, relaxed) == 2);
    sim_assert(spn__load(&seen, relaxed) == 8);
    stop();
    sim_assert(spn_reject_report_destroy(report) == SPN_OK);
    sim_assert(spn_log_set_level(SPN_LOG_OFF) == SPN_OK);
}

/* A report that is due when destroy comes is made. */
SCENARIO(report__posted_then_destroyed__made, "X-14")
{
    sim_assert(start_report(SPN_SEC(600)) == SPN_OK);
    start(spn_reject_report_policy(report), 1);
    pause_pool();
    sim_assert(give(0) == SPN_OK);
    sim_assert(give(1) == SPN_EREJECTED);
    stop();
    sim_assert(spn_reject_report_destroy(report) == SPN_OK);
    sim_assert(spn__load(&reports, relaxed) == 1);
}
SCENARIO_OPTS(report__posted_then_destroyed__made, .dfs = 1, .dfs_models = SIM_SC)

/* Without memory or a thread there is no report, and nothing is left of it. */
SCENARIO(report__create_without_means__refused, "G-2")
{
    int rc;

    if (spn_thread_current() == NULL)
        return; /* destroy would want a record */
    rc = start_report(0);
    sim_assert(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    sim_assert((rc == SPN_OK) == (report != NULL));
    sim_assert(spn_reject_report_destroy(report) == SPN_OK);
}
SCENARIO_OPTS(report__create_without_means__refused, .faults = true)
