/* SPDX-License-Identifier: MIT */
/* scenario_future_task.c - a function that runs, and those who cancel it. */
#include "sim.h"

#include <spindle.h>

#include "future/core.h"
#include "future/task.h"
#include "sync/seam.h"

static spn_future *f;
static SPN__ATOMIC(int) payload;
static int runs, released, hooked, interrupts; /* ordered by the calls under test */
static SPN__ATOMIC(int) cancels;

static int work(void *arg, void **result)
{
    runs++;
    sim_assert(released == 0); /* the argument is still there */
    spn__store(&payload, 7, relaxed);
    *result = arg;
    return 0;
}

static int fail(void *arg, void **result)
{
    (void)work(arg, result);
    return spn_future_fail(5, "five");
}

static void release(void *arg)
{
    sim_assert(arg == &f);
    released++;
}

static void done(spn_future *future, void *arg)
{
    (void)arg;
    sim_assert(spn_future_get_state(future) != SPN_FUTURE_PENDING);
    hooked++;
}

static bool create(spn_call_fn fn)
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;

    spn__init(&payload, 0);
    runs = released = hooked = interrupts = 0;
    spn__init(&cancels, 0);
    opts.release_arg = release;
    opts.done = done;
    return spn_future_create_task(&f, fn, &f, &opts) == SPN_OK;
}

static int cancelled(void)
{
    return spn__load(&cancels, relaxed);
}

/* What must hold when all is over. */
static void check_end(void)
{
    sim_assert(spn_future_get_state(f) != SPN_FUTURE_PENDING);
    sim_assert(hooked == 1);
    sim_assert(released == 1);
    sim_assert(runs <= 1);
    spn_future_unref(f);
    sim_assert(released == 1);
}

static void run(void *arg)
{
    (void)arg;
    (void)spn_future_run(f);
    /* Whatever the cancel sent is here by now: what comes later is a leak. */
    interrupts = spn_thread_interrupted();
    sim_sleep(SPN_MS(1));
    sim_assert(spn_thread_interrupted() == 0);
}

static void cancel(void *may_interrupt)
{
    (void)spn__fetch_add(&cancels, spn_future_cancel(f, may_interrupt != NULL),
                         relaxed);
}

static void complete(void *arg)
{
    (void)arg;
    (void)spn_future_complete(f, NULL);
}

/* run and cancel: one of them decides, and an interrupt is never late. */
SCENARIO(task__cancel_races_run__interrupt_is_never_late, "FUT-24", "FUT-16", "FUT-36")
{
    void *value = NULL;
    int rc;

    if (!create(work))
        return;
    sim_thread(run, NULL);
    cancel(&f);
    rc = spn_future_get(f, &value, 0);
    if (cancelled() != 0) {
        sim_assert(rc == SPN_ECANCELED);
    } else if (rc == SPN_OK) {
        sim_assert(value == &f && spn__load(&payload, relaxed) == 7);
    } else {
        sim_assert(rc == SPN_ETIMEDOUT); /* completing this moment */
    }
    sim_join_all();
    sim_assert(interrupts == 0 || cancelled() == 1);
    sim_outcome((unsigned)(cancelled() + 2 * runs + 4 * interrupts));
    check_end();
}
SCENARIO_OPTS(task__cancel_races_run__interrupt_is_never_late, .dfs = 3,
              .dfs_models = SIM_SC)

/* The same for a time-out that interrupts. */
SCENARIO(task__time_out_races_run__interrupt_is_never_late, "CF-50", "FUT-24")
{
    void *value = NULL;
    int won, rc;

    if (!create(work))
        return;
    sim_thread(run, NULL);
    won = spn__future_fail_and_interrupt(f, SPN_ETIMEDOUT, "");
    rc = spn_future_get(f, &value, 0);
    sim_assert(rc == (won != 0 ? SPN_EFAILED : SPN_OK));
    sim_join_all();
    sim_assert(interrupts == 0 || won == 1);
    sim_outcome((unsigned)(won + 2 * runs + 4 * interrupts));
    check_end();
}
SCENARIO_OPTS(task__time_out_races_run__interrupt_is_never_late, .dfs = 3,
              .dfs_models = SIM_SC)

/* The same with two who cancel and one who completes by hand. */
SCENARIO(task__two_cancels_and_a_value__one_wins, "FUT-8", "FUT-18", "FUT-23")
{
    if (!create(fail))
        return;
    sim_thread(run, NULL);
    sim_thread(cancel, &f);
    sim_thread(complete, NULL);
    cancel(NULL);
    sim_join_all();
    sim_assert(cancelled() <= 1);
    sim_assert(cancelled() == (spn_future_get_state(f) == SPN_FUTURE_CANCELED));
    check_end();
}

/* A function that waits is interrupted, or does not start: it cannot miss both. */
static int wait_for_interrupt(void *arg, void **result)
{
    (void)arg;
    (void)result;
    runs++;
    sim_assert(spn_clock_sleep_until(spn_clock_monotonic(), SPN_FOREVER) == SPN_EINTR);
    return 0;
}

SCENARIO(task__cancelled_while_starting__does_not_sleep_through, "FUT-19", "FUT-24")
{
    if (!create(wait_for_interrupt))
        return;
    sim_thread(run, NULL);
    cancel(&f);
    sim_assert(cancelled() == 1);
    sim_join_all();
    check_end();
}
SCENARIO_OPTS(task__cancelled_while_starting__does_not_sleep_through, .dfs = 2,
              .dfs_models = SIM_SC,
              .no_faults = "a thread without a record cannot be interrupted")

static void run_twice(void *arg)
{
    int first, second;

    (void)arg;
    first = spn_future_run_and_reset(f);
    interrupts = spn_thread_interrupted();
    second = spn_future_run_and_reset(f);
    sim_assert(first == 1 || second == 0);
    interrupts += spn_thread_interrupted();
    sim_sleep(SPN_MS(1));
    sim_assert(spn_thread_interrupted() == 0);
    sim_outcome((unsigned)(first + second));
}

static int again(void *arg, void **result)
{
    (void)arg;
    (void)result;
    runs++;
    sim_assert(released == 0);
    return 0;
}

/* run_and_reset and cancel: after a cancel nothing starts, and no interrupt comes
 * after the run it was meant for. */
SCENARIO(task__cancel_races_run_and_reset__ends_it, "FUT-12", "FUT-15", "FUT-24")
{
    if (!create(again))
        return;
    sim_thread(run_twice, NULL);
    cancel(&f);
    sim_assert(cancelled() == 1);
    sim_join_all();
    sim_assert(runs <= 2);
    sim_assert(interrupts <= 1);
    sim_assert(hooked == 1 && released == 1);
    spn_future_unref(f);
}
SCENARIO_OPTS(task__cancel_races_run_and_reset__ends_it, .dfs = 2, .dfs_models = SIM_SC)

static void try_run(void *arg)
{
    (void)arg;
    (void)spn_future_run(f);
}

/* Two who run it: the function is called once, and both see the end. */
SCENARIO(task__run_by_two__runs_once, "FUT-4", "FUT-3", "G-19")
{
    void *value = NULL;

    if (!create(work))
        return;
    sim_thread(try_run, NULL);
    sim_thread(try_run, NULL);
    if (spn_future_get(f, &value, SPN_FOREVER) == SPN_OK)
        sim_assert(value == &f && spn__load(&payload, relaxed) == 7);
    sim_join_all();
    sim_assert(runs == 1);
    check_end();
}
SCENARIO_OPTS(task__run_by_two__runs_once, .dfs = 2, .dfs_models = SIM_SC)

/* ---- by an executor ---------------------------------------------------------- */

static spn_manual_executor *manual;

static void run_one(void *arg)
{
    (void)arg;
    (void)spn_manual_executor_run(manual, 1);
}

static void drop_all(void *arg)
{
    (void)arg;
    (void)spn_manual_executor_drop_all(manual, SPN_ESHUTDOWN, NULL);
}

/* Submitted, then run or dropped by two threads while its owner lets go of it: one
 * of the two happens, and nothing is left. */
SCENARIO(task__submitted__run_or_dropped_once, "G-16", "FUT-35")
{
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    if (create(work)) {
        (void)spn_future_ref(f);
        if (spn_future_submit(f, spn_manual_executor_executor(manual)) == SPN_OK) {
            sim_thread(run_one, NULL);
            sim_thread(drop_all, NULL);
            spn_future_unref(f);
            sim_join_all();
            sim_assert(spn_future_get_state(f) ==
                       (runs != 0 ? SPN_FUTURE_SUCCEEDED : SPN_FUTURE_FAILED));
            sim_outcome((unsigned)runs);
            check_end();
        }
    }
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(task__submitted__run_or_dropped_once, .dfs = 2, .dfs_models = SIM_SC,
              .faults = true)

static SPN__ATOMIC(int) drops;

static void drop_value(void *value)
{
    sim_assert(value == &f);
    sim_assert(spn__load(&payload, relaxed) == 7);
    (void)spn__fetch_add(&drops, 1, relaxed);
}

/* Nobody attends to it, so the outcome and the executor's reference go in one step.
 * Who sees that it is done sees all of it; and a destructor that was set just before
 * the owner let go is seen by whoever is last. */
SCENARIO(task__looked_at_and_let_go__published_and_freed_once, "G-19", "G-16", "FUT-35")
{
    const bool looks = sim_choose(2) == 1;
    void *value = NULL;
    int read = 0;

    spn__init(&payload, 0);
    spn__init(&drops, 0);
    runs = released = 0;
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    if (spn_executor_submit(spn_manual_executor_executor(manual), work, &f, &f) ==
        SPN_OK) {
        sim_thread(run_one, NULL);
        if (looks && spn_future_get(f, &value, 0) == SPN_OK) {
            sim_assert(value == &f && spn__load(&payload, relaxed) == 7);
            read = 1;
        }
        sim_assert(spn_future_set_drop_value(f, drop_value) == SPN_OK);
        spn_future_unref(f);
        sim_join_all();
        sim_assert(runs == 1);
        sim_assert(spn__load(&drops, relaxed) + read == 1);
        sim_outcome((unsigned)(read + 2 * looks));
    }
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(task__looked_at_and_let_go__published_and_freed_once, .dfs = 2,
              .dfs_models = SIM_SC | SIM_C11, .faults = true)

static void run_again(void *arg)
{
    (void)spn__task_future_run_again(arg);
}

/* A periodic task puts its context back for the next run while it is cancelled: one of
 * the two lets go of it. */
SCENARIO(task__cancelled_while_run_again__context_is_let_go, "STPE-16", "P40")
{
    struct spn__task_future *t;
    spn_context_scope scope;
    spn_context *context;

    if (spn_context_create(&context, NULL) != SPN_OK)
        return;
    if (create(work)) {
        t = (struct spn__task_future *)(void *)f;
        sim_assert(spn_context_enter(&scope, context) == SPN_OK);
        sim_assert(spn__task_future_capture(t) == context);
        sim_assert(spn_context_leave(&scope) == SPN_OK);
        sim_thread(run_again, t);
        cancel(NULL);
        sim_join_all();
        check_end();
    }
    spn_context_unref(context);
}
SCENARIO_OPTS(task__cancelled_while_run_again__context_is_let_go, .dfs = 2)

static int count_run(spn_task *task)
{
    (void)task;
    runs++;
    return 0;
}

static spn_task node = SPN_TASK_INIT(count_run, NULL);
static SPN__ATOMIC(int) accepted;

static void execute(void *arg)
{
    const int rc = spn_executor_execute(spn_manual_executor_executor(manual), &node);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_EBUSY);
    if (rc == SPN_OK)
        (void)spn__fetch_add(&accepted, 1, relaxed);
}

/* One task submitted by two threads while a third runs what is there: it runs once
 * for each time it was accepted. */
SCENARIO(executor__task_submitted_twice__runs_as_often_as_accepted, "G-15")
{
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    node = (spn_task)SPN_TASK_INIT(count_run, NULL);
    spn__init((SPN__ATOMIC(uint32_t) *)(void *)&node.queued, 0);
    spn__init(&accepted, 0);
    runs = 0;
    sim_thread(execute, NULL);
    sim_thread(execute, NULL);
    (void)spn_manual_executor_run(manual, 1);
    sim_join_all();
    (void)spn_manual_executor_run(manual, INT64_MAX);
    sim_assert(runs == spn__load(&accepted, relaxed) && runs >= 1);
    sim_outcome((unsigned)runs);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(executor__task_submitted_twice__runs_as_often_as_accepted, .dfs = 2,
              .dfs_models = SIM_SC)

/* ---- told of an outcome -------------------------------------------------------- */

/* An executor with room for one task, which may be gone as soon as it has seen to
 * it.  `alive` is what a real one's memory is. */
struct small {
    spn_executor executor;
    struct spn__lock lock; /* guards the rest */
    spn_task *task;
    bool alive;
};

static struct small small;

static spn_task *small_take(void)
{
    spn_task *task;

    spn__lock(&small.lock);
    sim_assert(small.alive);
    task = small.task;
    small.task = NULL;
    spn__unlock(&small.lock);
    if (task != NULL)
        spn_task_release(task);
    return task;
}

static int small_execute(spn_executor *executor, spn_task *task)
{
    (void)executor;
    sim_assert(spn_task_claim(task) == SPN_OK);
    spn__lock(&small.lock);
    small.task = task;
    spn__unlock(&small.lock);
    return SPN_OK;
}

static int small_remove(spn_executor *executor, spn_task *task)
{
    (void)executor;
    return small_take() == task;
}

static void small_lapsed(spn_executor *executor)
{
    (void)executor;
    spn__lock(&small.lock);
    sim_assert(small.alive);
    spn__unlock(&small.lock);
}

static const spn_executor_ops small_ops = { .size = sizeof small_ops,
                                            .execute = small_execute,
                                            .remove = small_remove,
                                            .lapsed = small_lapsed };

/* All tasks are seen to: the end. */
static void small_end(void)
{
    spn__lock(&small.lock);
    if (small.task == NULL)
        small.alive = false;
    spn__unlock(&small.lock);
}

static void serve(void *arg)
{
    spn_task *task = small_take();

    (void)arg;
    if (task != NULL)
        (void)spn_task_run(task);
    small_end();
}

static void serve_drop(void *arg)
{
    spn_task *task = small_take();

    (void)arg;
    if (task != NULL)
        (void)spn_task_drop(task, SPN_ESHUTDOWN);
    small_end();
}

static spn_task *given; /* back, by its executor */

static void remove_one(void *arg)
{
    spn_task *task = arg;

    if (spn_executor_remove(&small.executor, task) == 1)
        given = task;
    small_end();
}

static void fail_it(void *arg)
{
    (void)arg;
    (void)spn_future_complete_error(f, SPN_ETIMEDOUT, "");
}

static bool submit_small(void)
{
    small = (struct small){ .executor = { &small_ops }, .alive = true };
    spn__lock_init(&small.lock);
    given = NULL;
    if (!create(work))
        return false;
    sim_assert(spn_future_submit(f, &small.executor) == SPN_OK);
    return true;
}

/* A future gets an outcome while its executor ends, as soon as the task is seen to: nobody
 * tells an executor that is gone. */
SCENARIO(task__outcome_while_executor_ends__not_told_after)
{
    if (!submit_small())
        return;
    sim_thread(serve, NULL);
    fail_it(NULL);
    sim_join_all();
    sim_assert(runs <= 1);
    sim_outcome((unsigned)runs);
    check_end();
}
SCENARIO_OPTS(task__outcome_while_executor_ends__not_told_after, .dfs = 2,
              .dfs_models = SIM_SC)

/* The same with two of them and one who cancels. */
SCENARIO(task__two_outcomes_and_cancelled__ends_once)
{
    if (!submit_small())
        return;
    sim_thread(serve, NULL);
    sim_thread(fail_it, NULL);
    sim_thread(cancel, NULL);
    fail_it(NULL);
    sim_join_all();
    sim_assert(runs <= 1);
    check_end();
}

/* Dropped by an executor that ends. */
SCENARIO(task__outcome_while_dropped__ends_once)
{
    if (!submit_small())
        return;
    sim_thread(serve_drop, NULL);
    fail_it(NULL);
    sim_join_all();
    sim_assert(runs == 0);
    check_end();
}
SCENARIO_OPTS(task__outcome_while_dropped__ends_once, .dfs = 2, .dfs_models = SIM_SC)

/* Given back by an executor that ends. */
SCENARIO(task__outcome_while_given_back__runs_once_at_most)
{
    if (!submit_small())
        return;
    sim_thread(remove_one, small.task);
    sim_thread(fail_it, NULL);
    sim_join(1);
    if (given != NULL)
        sim_assert(spn_task_run(given) == 0);
    sim_join_all();
    sim_assert(runs <= 1);
    sim_outcome(given != NULL);
    check_end();
}
SCENARIO_OPTS(task__outcome_while_given_back__runs_once_at_most, .dfs = 2,
              .dfs_models = SIM_SC)
