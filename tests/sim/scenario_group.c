/* SPDX-License-Identifier: MIT */
/*
 * scenario_group.c - groups: the last task against wait, cancel, destroy and the taking
 * back of tasks.
 */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

static spn_manual_executor *manual;
static spn_group *group, *inner;
static spn_future *f;
static SPN__ATOMIC(int) payload, runs, gone, interrupts, removes[2];

/* In front of the manual executor, to see that nobody uses it when it may be gone. */
static int front_execute(spn_executor *executor, spn_task *task)
{
    (void)executor;
    return spn_executor_execute(spn_manual_executor_executor(manual), task);
}

static int front_remove(spn_executor *executor, spn_task *task)
{
    int rc;

    (void)executor;
    (void)spn__fetch_add(&removes[0], 1, relaxed);
    sim_assert(spn__load(&gone, relaxed) == 0);
    rc = spn_executor_remove(spn_manual_executor_executor(manual), task);
    sim_assert(spn__load(&gone, relaxed) == 0);
    (void)spn__fetch_add(&removes[1], 1, relaxed);
    return rc;
}

static const spn_executor_ops front_ops = { .size = sizeof front_ops,
                                            .execute = front_execute,
                                            .remove = front_remove };
static spn_executor front = { &front_ops };

static bool create(const spn_group_opts *opts)
{
    spn__init(&payload, 0);
    spn__init(&runs, 0);
    spn__init(&gone, 0);
    spn__init(&removes[0], 0);
    spn__init(&removes[1], 0);
    spn__init(&interrupts, 0);
    f = NULL;
    inner = NULL;
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return false;
    if (spn_group_create(&group, opts) == SPN_OK)
        return true;
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
    return false;
}

static void destroy(void)
{
    sim_assert(spn_group_destroy(group) == SPN_OK);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}

static int work(void *arg, void **result)
{
    (void)arg;
    (void)result;
    (void)spn__fetch_add(&runs, 1, relaxed);
    spn__store(&payload, 7, relaxed);
    return 0;
}

static int fail(void *arg, void **result)
{
    (void)work(arg, result);
    return spn_future_fail(-99, "no");
}

static bool submit(spn_group *g, spn_call_fn fn, spn_future **out)
{
    return spn_group_submit(g, &front, fn, NULL, out) == SPN_OK;
}

static void run_all(void *arg)
{
    (void)arg;
    (void)spn_manual_executor_run(manual, INT64_MAX);
}

static void cancel_future(void *arg)
{
    (void)arg;
    (void)spn_future_cancel(f, 0);
    spn_future_unref(f);
}

static void cancel_group(void *may_interrupt)
{
    sim_assert(spn_group_cancel(group, SPN_ECANCELED, may_interrupt != NULL) == 1);
}

static spn_group_stats stats_of(spn_group *g)
{
    spn_group_stats s = SPN_GROUP_STATS_INIT;

    sim_assert(spn_group_stats_get(g, &s) == SPN_OK);
    sim_assert(s.submitted == s.live + s.succeeded + s.failed + s.cancelled);
    return s;
}

/* Whoever waits may destroy the group at once, while the last task is on its way out. */
SCENARIO(group__last_task_ends__waiter_may_destroy, "G-19", "G-20")
{
    if (!create(NULL))
        return;
    if (submit(group, work, NULL)) {
        int rc;

        sim_thread(run_all, NULL);
        rc = spn_group_wait(group, SPN_FOREVER);
        if (rc == SPN_OK) {
            sim_assert(spn__load(&payload, relaxed) == 7);
            sim_assert(spn_group_destroy(group) == SPN_OK);
            group = NULL;
        } else {
            sim_assert(rc == SPN_ENOMEM);
        }
        sim_join_all();
    }
    destroy();
}
SCENARIO_OPTS(group__last_task_ends__waiter_may_destroy, .dfs = 2, .dfs_models = SIM_SC,
              .faults = true)

/* A future cancelled while its task starts: the task is taken back or runs into the
 * void, and group and executor are not touched when the wait is over. */
SCENARIO(group__future_cancelled_as_it_starts__settled_once, "FUT-35", "G-17")
{
    if (!create(NULL))
        return;
    if (submit(group, work, &f)) {
        int rc;

        sim_thread(run_all, NULL);
        sim_thread(cancel_future, NULL);
        rc = spn_group_wait(group, SPN_FOREVER);
        sim_assert(rc == SPN_OK);
        sim_assert(stats_of(group).submitted == 1 && stats_of(group).live == 0);
        /* Whoever used the executor is through with it, and we know. */
        sim_assert(spn__fetch_add(&removes[0], 0, relaxed) ==
                   spn__load(&removes[1], relaxed));
        if (spn__load(&runs, relaxed) == 1) /* all it did is here */
            sim_assert(spn__load(&payload, relaxed) == 7);
        sim_outcome((unsigned)stats_of(group).cancelled +
                    2 * (unsigned)spn__load(&runs, relaxed));
        spn__store(&gone, 1, relaxed);
        sim_assert(spn_group_destroy(group) == SPN_OK);
        group = NULL;
        sim_join_all();
    }
    destroy();
}
SCENARIO_OPTS(group__future_cancelled_as_it_starts__settled_once, .dfs = 2,
              .dfs_models = SIM_SC)

/* Cancelled while one task runs and one waits: the wait ends, all are counted once, and
 * nothing is left in the executor. */
SCENARIO(group__cancelled_while_running__all_settled_and_taken_back, "FUT-24", "G-20")
{
    if (!create(NULL))
        return;
    if (submit(group, work, NULL) && submit(group, work, NULL)) {
        spn_group_stats s;

        sim_thread(run_all, NULL);
        sim_thread(cancel_group, NULL);
        sim_assert(spn_group_wait(group, SPN_FOREVER) == SPN_OK);
        s = stats_of(group);
        sim_assert(s.submitted == 2 && s.live == 0 && s.failed == 0);
        sim_join_all();
        sim_assert(spn_manual_executor_pending(manual) == 0);
        sim_assert(spn_group_submit(group, &front, work, NULL, NULL) == SPN_ECANCELED);
        sim_outcome((unsigned)s.cancelled);
    } else {
        (void)spn_manual_executor_drop_all(manual, SPN_ECANCELED, NULL);
    }
    destroy();
}

static void submit_one(void *arg)
{
    (void)arg;
    (void)submit(group, work, &f);
}

/* Submitted while the group is cancelled: refused, or cancelled; never left over. */
SCENARIO(group__submit_races_cancel__nothing_is_left, "G-20", "FUT-24")
{
    if (!create(NULL))
        return;
    sim_thread(submit_one, NULL);
    cancel_group(NULL);
    sim_join_all();
    sim_assert(stats_of(group).live == 0);
    sim_assert(spn_manual_executor_pending(manual) == 0);
    if (f != NULL) {
        sim_assert(spn_future_get_state(f) == SPN_FUTURE_CANCELED);
        sim_assert(stats_of(group).cancelled == 1);
        spn_future_unref(f);
    }
    sim_outcome((unsigned)stats_of(group).cancelled);
    destroy();
}
SCENARIO_OPTS(group__submit_races_cancel__nothing_is_left, .dfs = 3,
              .dfs_models = SIM_SC, .faults = true)

static void close_manual(void *arg)
{
    (void)arg;
    (void)spn_executor_shutdown(spn_manual_executor_executor(manual));
    (void)spn_manual_executor_drop_all(manual, SPN_ESHUTDOWN, NULL);
}

/* Refused or dropped by the executor: not counted, or failed with what it said; the wait
 * ends. */
SCENARIO(group__executor_closes__wait_ends, "G-20", "FUT-35")
{
    int rc;

    if (!create(NULL))
        return;
    sim_thread(close_manual, NULL);
    rc = spn_group_submit(group, &front, work, NULL, NULL);
    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED);
    sim_join_all();
    (void)spn_manual_executor_drop_all(manual, SPN_ESHUTDOWN, NULL);
    sim_assert(spn_group_wait(group, SPN_FOREVER) == SPN_OK);
    sim_assert(stats_of(group).failed == (rc == SPN_OK));
    if (rc == SPN_OK) {
        int code = 0;

        sim_assert(spn_group_error(group, &code, NULL, 0) == SPN_OK);
        sim_assert(code == SPN_ESHUTDOWN);
    }
    sim_outcome((unsigned)(rc == SPN_OK));
    destroy();
}
SCENARIO_OPTS(group__executor_closes__wait_ends, .dfs = 2, .dfs_models = SIM_SC)

/* One fails and cancels the rest, which may be anywhere. */
SCENARIO(group__cancel_on_error__first_error_kept, "G-21", "FUT-24")
{
    spn_group_opts opts = SPN_GROUP_OPTS_INIT;

    opts.cancel_on_error = 1;
    if (!create(&opts))
        return;
    if (submit(group, fail, NULL)) {
        int code = 0;
        char text[8];

        (void)submit(group, work, NULL);
        sim_thread(run_all, NULL);
        run_all(NULL);
        sim_assert(spn_group_wait(group, SPN_FOREVER) == SPN_OK);
        sim_join_all();
        sim_assert(stats_of(group).failed == 1);
        sim_assert(spn_group_error(group, &code, text, sizeof text) == SPN_OK);
        sim_assert(code == -99 && text[0] == 'n');
        sim_assert(spn_cancel_token_reason(spn_group_token(group)) == SPN_EFAILED);
        sim_outcome((unsigned)stats_of(group).cancelled);
    }
    destroy();
}

static void run_and_look(void *arg)
{
    run_all(arg);
    spn__store(&interrupts, spn_thread_interrupted(), relaxed);
    sim_sleep(SPN_MS(1));
    sim_assert(spn_thread_interrupted() == 0); /* never late */
}

static int sleep_long(void *arg, void **result)
{
    (void)work(arg, result);
    return spn_clock_sleep_until(spn_clock_monotonic(), SPN_FOREVER);
}

/* Cancelled with an interrupt while the task may be starting, sleeping or ending: it ends,
 * and the interrupt does not come after it. */
SCENARIO(group__cancelled_with_interrupt__never_late, "FUT-24", "FUT-16")
{
    if (!create(NULL))
        return;
    if (submit(group, sleep_long, NULL)) {
        sim_thread(run_and_look, NULL);
        cancel_group(&f);
        sim_assert(spn_group_wait(group, SPN_FOREVER) == SPN_OK);
        sim_join_all();
        sim_outcome((unsigned)(spn__load(&interrupts, relaxed) +
                               2 * spn__load(&runs, relaxed)));
    }
    destroy();
}
SCENARIO_OPTS(group__cancelled_with_interrupt__never_late, .dfs = 2,
              .dfs_models = SIM_SC)

static int tries_to_wait(void *arg, void **result)
{
    (void)work(arg, result);
    sim_assert(spn_group_current() == inner);
    sim_assert(spn_group_wait(group, SPN_FOREVER) == SPN_EDEADLK);
    sim_assert(spn_group_wait(inner, SPN_FOREVER) == SPN_EDEADLK);
    return 0;
}

static void cancel_outer(void *arg)
{
    (void)arg;
    (void)spn_group_cancel(group, SPN_ETIMEDOUT, 0);
}

/* A group in a group: the outer one waits for its tasks and cancels them, and a task does
 * not wait for itself. */
SCENARIO(group__inner_group__counts_in_the_outer, "G-20", "G-17")
{
    spn_group_opts opts = SPN_GROUP_OPTS_INIT;

    if (!create(NULL))
        return;
    opts.parent = group;
    if (spn_group_create(&inner, &opts) == SPN_OK) {
        sim_assert(spn_group_destroy(group) == SPN_EBUSY);
        if (submit(inner, tries_to_wait, NULL)) {
            sim_thread(run_all, NULL);
            sim_thread(cancel_outer, NULL);
            sim_assert(spn_group_wait(group, SPN_FOREVER) == SPN_OK);
            sim_assert(stats_of(group).submitted == 1 && stats_of(inner).live == 0);
            sim_join_all();
            sim_assert(spn_cancel_token_reason(spn_group_token(inner)) ==
                       SPN_ETIMEDOUT);
            sim_outcome((unsigned)stats_of(group).cancelled);
        }
        sim_assert(spn_group_destroy(inner) == SPN_OK);
    }
    destroy();
}
