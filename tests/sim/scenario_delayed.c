/* SPDX-License-Identifier: MIT */
/*
 * scenario_delayed.c - futures that time out: time, completion, cancel and the end of the
 * timer at once.  One outcome, nothing left in the timer, and nobody in the timer when it
 * goes.
 */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

#define TICK SPN_TIMER_TICK_MIN
#define FAR  SPN_SEC(3600)

static spn_timer *timer;
static SPN__ATOMIC(int) won;     /* calls that say they completed it */
static SPN__ATOMIC(int) dropped; /* values */
static int value;

static bool create(spn_executor *executor)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = TICK;
    opts.slots = 4;
    opts.shards = 1;
    opts.executor = executor;
    opts.parallel = 2;
    spn__init(&won, 0);
    spn__init(&dropped, 0);
    if (spn_thread_current() == NULL) /* waits need our record */
        return false;
    return spn_timer_create(&timer, &opts) == SPN_OK;
}

/* Nothing is left, and the timer goes at once. */
static void end(void)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;
    spn_timeout *left;

    sim_assert(spn_timer_stop(timer, &left) == SPN_OK);
    sim_assert(left == NULL);
    sim_assert(spn_timer_get_stats(timer, &s) == SPN_OK);
    sim_assert(s.pending == 0);
    sim_assert(s.armed == s.fired + s.cancelled + s.replaced + s.returned);
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
}

static void drop_value(void *v)
{
    sim_assert(v == &value);
    spn__fetch_add(&dropped, 1, relaxed);
}

static spn_future *promise(void)
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *f;

    opts.drop_value = drop_value;
    return spn_future_create(&f, &opts) == SPN_OK ? f : NULL;
}

static void complete(void *future)
{
    if (spn_future_complete_error(future, -77, "done") == 1)
        spn__fetch_add(&won, 1, relaxed);
    sim_assert(spn_future_is_done(future) == 1);
    spn_future_unref(future);
}

static void cancel(void *future)
{
    const int was = spn_future_is_cancelled(future);

    /* A promise says 1 again to a second cancel; there is only one here. */
    if (spn_future_cancel(future, 0) == 1 && was == 0)
        spn__fetch_add(&won, 1, relaxed);
    spn_future_unref(future);
}

/* Complete against cancel against the time: one of them; and once it is done the timer
 * has no trace of it. */
SCENARIO(delayed__complete_cancel_timeout__one_outcome, "CF-33", "CF-34", "CF-35")
{
    const bool with_value = sim_choose(2) == 1;
    spn_future *f;
    int rc, code = 0;

    if (!create(NULL))
        return;
    f = promise();
    if (f != NULL) {
        rc = with_value ? spn_future_complete_on_timeout(f, timer, &value, TICK)
                        : spn_future_or_timeout(f, timer, TICK);
        if (rc == SPN_OK) {
            sim_thread(complete, spn_future_ref(f));
            sim_thread(cancel, spn_future_ref(f));
            sim_join_all();
            sim_settle();
            sim_assert(spn_timer_pending(timer) == 0);
            sim_assert(spn_future_is_done(f) == 1);
            if (spn__load(&won, relaxed) == 0 && with_value)
                sim_assert(spn_future_get_state(f) == SPN_FUTURE_SUCCEEDED);
            else if (spn__load(&won, relaxed) == 0)
                sim_assert(spn_future_error(f, &code, NULL, 0) == SPN_OK &&
                           code == SPN_ETIMEDOUT);
            sim_assert(spn__load(&won, relaxed) <= 1);
        } else {
            sim_assert(spn_future_is_done(f) == 0);
            sim_assert(spn_timer_pending(timer) == 0);
            with_value ? drop_value(&value) : (void)0;
        }
        spn_future_unref(f);
    }
    end();
    if (f != NULL)
        sim_assert(spn__load(&dropped, relaxed) == with_value); /* read by nobody */
}
SCENARIO_OPTS(delayed__complete_cancel_timeout__one_outcome, .faults = true)

/* The future is completed while the time comes and while the timer is stopped and
 * destroyed: the completer is not in the timer any more when that goes. */
SCENARIO(delayed__completed_while_timer_ends__never_touches_it_after, "CF-33", "CF-35",
         "P28")
{
    const int64_t time_ns = sim_choose(2) == 1 ? TICK : FAR;
    spn_future *f;

    if (!create(NULL))
        return;
    f = promise();
    sim_assert(f != NULL);
    sim_assert(spn_future_or_timeout(f, timer, time_ns) == SPN_OK);
    sim_thread(complete, spn_future_ref(f));
    if (sim_choose(2) == 1)
        sim_sleep(TICK);
    end();
    sim_assert(spn_future_is_done(f) == 1); /* by whoever */
    sim_join_all();
    spn_future_unref(f);
}
SCENARIO_OPTS(delayed__completed_while_timer_ends__never_touches_it_after, .dfs = 1,
              .dfs_models = SIM_SC)

static spn_future *armed_by_other;

static void arm(void *future)
{
    const int rc = spn_future_or_timeout(future, timer, TICK);

    sim_assert(rc == SPN_OK);
    spn_future_unref(future);
}

/* The timeout is set while another thread completes the future, and drops it. */
SCENARIO(delayed__armed_while_completed__nothing_left, "CF-33", "CF-35")
{
    if (!create(NULL))
        return;
    armed_by_other = promise();
    sim_assert(armed_by_other != NULL);
    sim_thread(arm, spn_future_ref(armed_by_other));
    complete(armed_by_other);
    sim_join_all();
    sim_settle();
    sim_assert(spn_timer_pending(timer) == 0);
    end();
}

/* ---- the delayed executor ------------------------------------------------------------- */

static SPN__ATOMIC(int) ran;

static int run(void *arg, void **result)
{
    (void)arg;
    *result = NULL;
    spn__fetch_add(&ran, 1, relaxed);
    return 0;
}

/* A delayed task is cancelled about when its time comes, or the timer stops: it runs once
 * or not at all, its future is done either way, and nothing of it stays. */
SCENARIO(delayed__task_cancelled_any_time__runs_once_or_never, "CF-36")
{
    spn_delayed_executor *d = NULL;
    spn_future *f = NULL;
    const bool wait = sim_choose(2) == 1;

    spn__init(&ran, 0);
    if (!create(NULL))
        return;
    if (spn_delayed_executor_create(&d, timer, spn_executor_direct(), TICK) == SPN_OK &&
        spn_executor_submit(spn_delayed_executor_executor(d), run, NULL, &f) ==
            SPN_OK) {
        sim_thread(cancel, spn_future_ref(f));
        if (wait)
            sim_sleep(2 * TICK);
    }
    end();
    if (f != NULL) {
        sim_assert(spn_future_is_done(f) == 1);
        sim_join_all();
        sim_assert(spn__load(&ran, relaxed) <= 1);
        if (spn_future_get_state(f) == SPN_FUTURE_SUCCEEDED)
            sim_assert(spn__load(&ran, relaxed) == 1);
    }
    sim_assert(spn_delayed_executor_destroy(d) == SPN_OK);
    spn_future_unref(f);
}
SCENARIO_OPTS(delayed__task_cancelled_any_time__runs_once_or_never, .faults = true)

/* A stage on a delayed executor, whose source is completed and which is cancelled: the
 * timer's entry goes with it. */
SCENARIO(delayed__stage_cancelled_any_time__no_entry_stays, "CF-36")
{
    spn_delayed_executor *d;
    spn_future *stage;

    spn__init(&ran, 0);
    if (!create(NULL))
        return;
    sim_assert(spn_delayed_executor_create(&d, timer, spn_executor_direct(), FAR) ==
               SPN_OK);
    sim_assert(spn_future_supply_async(spn_delayed_executor_executor(d), run, NULL,
                                       &stage) == SPN_OK);
    sim_thread(cancel, spn_future_ref(stage));
    if (sim_choose(2) == 1) {
        sim_join_all();
        sim_assert(spn_timer_pending(timer) == 0);
        sim_assert(spn_delayed_executor_pending(d) == 0);
    }
    end();
    sim_join_all();
    sim_assert(spn__load(&ran, relaxed) == 0);
    sim_assert(spn_future_is_done(stage) == 1);
    sim_assert(spn_delayed_executor_destroy(d) == SPN_OK);
    spn_future_unref(stage);
}

/* Destroyed as soon as it says that no task waits: whoever took the task out does not touch
 * it any more. */
SCENARIO(delayed__destroyed_while_a_task_leaves__not_touched_after, "CF-36")
{
    spn_delayed_executor *d;
    spn_future *f;
    const int64_t delay_ns = sim_choose(2) == 1 ? TICK : FAR;

    spn__init(&ran, 0);
    if (!create(NULL))
        return;
    sim_assert(spn_delayed_executor_create(&d, timer, spn_executor_direct(),
                                           delay_ns) == SPN_OK);
    sim_assert(spn_executor_submit(spn_delayed_executor_executor(d), run, NULL, &f) ==
               SPN_OK);
    if (delay_ns == FAR)
        sim_thread(cancel, spn_future_ref(f));
    while (spn_delayed_executor_destroy(d) == SPN_EBUSY)
        sim_sleep(TICK);
    sim_join_all();
    end();
    sim_assert(spn_future_is_done(f) == 1);
    spn_future_unref(f);
}

/* The executor that tasks go to is destroyed as soon as the delayed one is. */
SCENARIO(delayed__next_destroyed_after_it__not_touched_after, "CF-36")
{
    spn_manual_executor *next;
    spn_delayed_executor *d;
    spn_future *f;

    spn__init(&ran, 0);
    if (!create(NULL))
        return;
    sim_assert(spn_manual_executor_create(&next) == SPN_OK);
    sim_assert(spn_delayed_executor_create(&d, timer,
                                           spn_manual_executor_executor(next),
                                           TICK) == SPN_OK);
    sim_assert(spn_executor_submit(spn_delayed_executor_executor(d), run, NULL, &f) ==
               SPN_OK);
    while (spn_delayed_executor_destroy(d) == SPN_EBUSY)
        sim_sleep(TICK);
    sim_assert(spn_manual_executor_run_all(next, NULL) == SPN_OK);
    sim_assert(spn_manual_executor_destroy(next) == SPN_OK);
    end();
    sim_assert(spn_future_is_done(f) == 1);
    spn_future_unref(f);
}

static SPN__ATOMIC(int) accepted, ended;
static spn_task common;

static int end_by_run(spn_task *task)
{
    sim_assert(task == &common);
    spn__fetch_add(&ended, 1, relaxed);
    return 0;
}

static void end_by_drop(spn_task *task, int reason)
{
    sim_assert(reason < 0);
    (void)end_by_run(task);
}

static void submit_common(void *executor)
{
    if (spn_executor_execute(executor, &common) == SPN_OK)
        spn__fetch_add(&accepted, 1, relaxed);
}

static void submit_later(void *executor)
{
    sim_sleep(TICK);
    submit_common(executor);
}

/* A task is submitted elsewhere when its time has come, before it is handed on: each time it
 * was accepted has its end. */
SCENARIO(delayed__submitted_again_at_its_time__each_acceptance_ends, "CF-36")
{
    spn_manual_executor *other;
    spn_delayed_executor *d;

    spn__init(&accepted, 0);
    spn__init(&ended, 0);
    common = (spn_task)SPN_TASK_INIT(end_by_run, end_by_drop);
    if (!create(NULL))
        return;
    sim_assert(spn_manual_executor_create(&other) == SPN_OK);
    sim_assert(spn_delayed_executor_create(&d, timer, spn_executor_direct(), TICK) ==
               SPN_OK);
    submit_common(spn_delayed_executor_executor(d));
    sim_thread(submit_later, spn_manual_executor_executor(other));
    sim_join_all();
    while (spn_delayed_executor_destroy(d) == SPN_EBUSY)
        sim_sleep(TICK);
    sim_assert(spn_manual_executor_run_all(other, NULL) == SPN_OK);
    sim_assert(spn_manual_executor_destroy(other) == SPN_OK);
    end();
    sim_assert(spn__load(&ended, relaxed) == spn__load(&accepted, relaxed));
}

static int nothing_then(void *arg, void *given, void **result)
{
    (void)arg;
    (void)given;
    *result = NULL;
    return 0;
}

static void complete_and_leave(void *future)
{
    (void)spn_future_complete(future, NULL);
    spn_future_unref(future);
}

/* The stage of a future waits in the timer, for whoever completes the future has put it
 * there, and is done: all of it may go, though that thread is still on its way out. */
SCENARIO(delayed__stage_is_done__timer_not_touched_after, "CF-36")
{
    spn_delayed_executor *d;
    spn_future *f, *g;

    if (!create(NULL))
        return;
    sim_assert(spn_delayed_executor_create(&d, timer, spn_executor_direct(), TICK) ==
               SPN_OK);
    sim_assert(spn_future_create(&f, NULL) == SPN_OK);
    sim_assert(spn_timer_start(timer) == SPN_OK);
    sim_assert(spn_future_then_async(f, spn_delayed_executor_executor(d), nothing_then,
                                     NULL, &g) == SPN_OK);
    sim_thread(complete_and_leave, spn_future_ref(f));
    if (sim_choose(2) == 1)
        sim_sleep(TICK);
    sim_assert(spn_timer_stop(timer, NULL) == SPN_OK);
    (void)!spn_future_get(g, NULL, SPN_FOREVER);
    while (spn_delayed_executor_destroy(d) == SPN_EBUSY)
        sim_sleep(TICK);
    end();
    sim_join_all();
    spn_future_unref(f);
    spn_future_unref(g);
}
SCENARIO_OPTS(delayed__stage_is_done__timer_not_touched_after,
              .no_faults = "asserts that all succeeds")
