/* SPDX-License-Identifier: MIT */
/*
 * scenario_timer_end.c - callbacks that end the thread they run on, beside additions, stop,
 * other drivers and a clock that moves: somebody goes on, nothing is lost, and nobody
 * touches a timer that is gone.
 */
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "sync/seam.h"
#include "wheel/timer.h"

#define TICK SPN_TIMER_TICK_MIN
#define FAR  SPN_SEC(3600)

static spn_timer *timer;
static spn_clock *by_hand;
static spn_timeout ending, other;
typedef SPN__ATOMIC(int) counter;
static counter ended, ran, told, over;

static void count_failure(void *ctx, int status)
{
    (void)ctx;
    sim_assert(status == SPN_ECANCELED);
    sim_assert(spn__fetch_add(&over, 0, relaxed) == 0); /* stop has not returned */
    spn__fetch_add(&told, 1, relaxed);
}

static void not_when_over(void *ctx)
{
    (void)ctx;
    sim_assert(spn__fetch_add(&over, 0, relaxed) == 0);
}

static int run(spn_timeout *t)
{
    (void)t;
    spn__fetch_add(&ran, 1, relaxed);
    return 0;
}

static int run_and_end(spn_timeout *t)
{
    (void)t;
    spn__fetch_add(&ended, 1, relaxed);
    sim_exit();
}

static void prepare(spn_timeout *t)
{
    memset(t, 0, sizeof *t);
    spn__init(spn__state_of(t), 0);
}

static bool create(uint32_t drive, spn_executor *executor, spn_clock *clock)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = TICK;
    opts.slots = 4;
    opts.shards = 1;
    opts.drive = drive;
    opts.executor = executor;
    opts.parallel = 2;
    opts.clock = clock;
    opts.on_failure = count_failure;
    opts.wake = not_when_over;
    prepare(&ending);
    prepare(&other);
    spn__init(&ended, 0);
    spn__init(&ran, 0);
    spn__init(&told, 0);
    spn__init(&over, 0);
    return spn_thread_current() != NULL && spn_timer_create(&timer, &opts) == SPN_OK;
}

static int schedule(spn_timeout *t, spn_timeout_fn fn, int64_t delay_ns)
{
    return spn_timer_schedule(timer, t, fn, delay_ns);
}

/* Stops and destroys; returns how many were left. */
static int shut(void)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;
    spn_timeout *left;
    int count = 0;

    sim_assert(spn_timer_stop(timer, &left, NULL) == SPN_OK);
    spn__fetch_add(&over, 1, relaxed);
    while (spn_timeout_pop(&left) != NULL)
        count++;
    sim_assert(spn_timer_get_stats(timer, &s) == SPN_OK);
    sim_assert(s.armed == s.fired + s.cancelled + s.replaced + s.returned);
    sim_assert(s.pending == 0 && (int)s.failed == spn__load(&ended, relaxed));
    sim_assert(spn__load(&told, relaxed) == spn__load(&ended, relaxed));
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
    return count;
}

static void await(counter *count, int least)
{
    while (spn__load(count, relaxed) < least)
        sim_sleep(TICK);
    sim_assert(sim_now() < FAR);
}

/* An addition while the thread is ended, is being replaced, or goes on because there is no
 * other: it runs, in time. */
SCENARIO(timer__thread_ended_beside_an_addition__runs, "G-21", "HWT-17", "HWT-27")
{
    if (!create(SPN_TIMER_THREAD, NULL, NULL))
        return;
    if (schedule(&ending, run_and_end, TICK) == SPN_OK) {
        if (sim_choose(2) == 1)
            sim_sleep(TICK);
        sim_assert(schedule(&other, run, TICK) == SPN_OK);
        await(&ran, 1);
        await(&ended, 1);
    }
    sim_assert(shut() == 0);
}
SCENARIO_OPTS(timer__thread_ended_beside_an_addition__runs, .faults = true,
              .max_steps = 60000)

/* A periodic timeout ends its thread each time, until it is cancelled. */
SCENARIO(timer__thread_ended_by_each_period__goes_on, "G-21", "HWT-27")
{
    spn_period period = SPN_PERIOD_INIT;
    int rc;

    if (!create(SPN_TIMER_THREAD, NULL, NULL))
        return;
    period.period_ns = TICK;
    rc = spn_timer_schedule_periodic(timer, &ending, run_and_end, TICK, &period);
    if (rc == SPN_OK) {
        await(&ended, 2);
        rc = spn_timer_cancel_sync(timer, &ending, SPN_FOREVER);
        sim_assert(rc == SPN_TIMEOUT_REMOVED || rc == SPN_TIMEOUT_RUNNING);
    }
    sim_assert(shut() == 0);
}
SCENARIO_OPTS(timer__thread_ended_by_each_period__goes_on, .faults = true,
              .max_steps = 60000)

/* The thread is ended while the timer is stopped and goes: it is replaced in time, or not
 * at all, and the one that was ended does not touch the timer any more. */
SCENARIO(timer__thread_ended_beside_stop__accounted, "G-21", "HWT-10", "HWT-27")
{
    int left;

    if (!create(SPN_TIMER_THREAD, NULL, NULL))
        return;
    sim_assert(schedule(&ending, run_and_end, TICK) == SPN_OK);
    sim_assert(schedule(&other, run, TICK) == SPN_OK);
    if (sim_choose(2) == 1)
        sim_sleep(TICK);
    left = shut();
    sim_assert(left + spn__load(&ran, relaxed) + spn__load(&ended, relaxed) == 2);
}
SCENARIO_OPTS(timer__thread_ended_beside_stop__accounted, .dfs = 1,
              .dfs_models = SIM_SC)

static void advance(void *arg)
{
    (void)arg;
    sim_assert(spn_clock_advance(by_hand, TICK) == SPN_OK);
}

/* A manual clock moves while the thread is ended: the one in its place looks. */
SCENARIO(timer__thread_ended_while_the_clock_moves__noticed, "G-21", "HWT-17")
{
    sim_assert(spn_clock_create_manual(&by_hand, 0) == SPN_OK);
    sim_assert(create(SPN_TIMER_THREAD, NULL, by_hand));
    sim_assert(schedule(&ending, run_and_end, 0) == SPN_OK);
    sim_assert(schedule(&other, run, TICK) == SPN_OK);
    sim_thread(advance, NULL);
    await(&ran, 1);
    sim_join_all();
    sim_assert(shut() == 0);
    sim_assert(spn_clock_destroy(by_hand) == SPN_OK);
}

static void drive(void *arg)
{
    (void)arg;
    while (spn__load(&ran, relaxed) < 1 && spn_timer_run(timer) != SPN_ESTATE)
        sim_sleep(TICK);
}

/* A driver is ended, and another is there or comes: it goes on with what is due. */
SCENARIO(timer__driver_ended__another_goes_on, "G-21", "HWT-26", "HWT-44")
{
    if (!create(sim_choose(2) == 1 ? SPN_TIMER_FD : SPN_TIMER_DRIVEN, NULL, NULL))
        return;
    sim_assert(schedule(&ending, run_and_end, 0) == SPN_OK);
    sim_assert(schedule(&other, run, 0) == SPN_OK);
    sim_thread(drive, NULL);
    sim_thread(drive, NULL);
    sim_join_all();
    sim_assert(spn__load(&ended, relaxed) == 1 && spn__load(&ran, relaxed) == 1);
    sim_assert(shut() == 0);
}
SCENARIO_OPTS(timer__driver_ended__another_goes_on, .max_steps = 60000,
              .no_faults = "its threads need records to drive")

static void drive_once(void *arg)
{
    (void)arg;
    (void)spn_timer_run(timer);
}

/* The driver is ended while the timer is stopped and goes. */
SCENARIO(timer__driver_ended_beside_stop__hooks_are_not_called_after, "G-21", "HWT-10")
{
    int left = 0;
    spn_timeout *list;

    if (!create(SPN_TIMER_DRIVEN, NULL, NULL))
        return;
    sim_assert(schedule(&ending, run_and_end, 0) == SPN_OK);
    sim_thread(drive_once, NULL);
    sim_assert(spn_timer_stop(timer, &list, NULL) == SPN_OK);
    spn__fetch_add(&over, 1, relaxed);
    while (spn_timeout_pop(&list) != NULL)
        left++;
    sim_join_all();
    sim_assert(left + spn__load(&ended, relaxed) == 1);
    sim_assert(spn__load(&told, relaxed) == spn__load(&ended, relaxed));
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
}

/* ---- executors ------------------------------------------------------------------------- */

static spn_manual_executor *manual;

static void work(void *arg)
{
    (void)arg;
    while (spn__load(&ran, relaxed) + spn__load(&ended, relaxed) < 2)
        if (spn_manual_executor_run(manual, 1) == 0)
            sim_sleep(TICK);
}

/* A runner's thread is ended: the rest is run by another, and the timer may go while the
 * runner is on its way out. */
SCENARIO(timer__runner_ended__another_goes_on, "G-21", "HWT-27", "HWT-28")
{
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    sim_assert(create(SPN_TIMER_THREAD, spn_manual_executor_executor(manual), NULL));
    sim_assert(schedule(&ending, run_and_end, TICK) == SPN_OK);
    sim_assert(schedule(&other, run, TICK) == SPN_OK);
    sim_thread(work, NULL);
    sim_thread(work, NULL);
    await(&ran, 1);
    await(&ended, 1);
    sim_assert(shut() == 0);
    sim_join_all();
    sim_assert(spn_manual_executor_run(manual, INT64_MAX) >= 0); /* late runners */
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(timer__runner_ended__another_goes_on, .max_steps = 200000,
              .no_faults = "its threads need records to run a task")

/* ---- handles --------------------------------------------------------------------------- */

static void end_at_its_time(spn_timeout_handle *handle, void *arg)
{
    (void)arg;
    spn__fetch_add(&ran, 1, relaxed);
    if (sim_choose(2) == 1) {
        const int rc = spn_timeout_handle_again(handle, FAR);

        sim_assert(rc == SPN_OK || rc == SPN_ESHUTDOWN);
        if (rc == SPN_OK)
            spn__fetch_add(&ran, -1, relaxed); /* gone is to follow */
    }
    sim_exit();
}

static void end_when_gone(void *arg, int reason)
{
    (void)arg;
    (void)reason;
    spn__fetch_add(&ran, 1, relaxed);
    sim_exit();
}

static void cancel_handle(void *handle)
{
    (void)spn_timeout_handle_cancel(handle);
}

static void stop_timer(void *arg)
{
    (void)arg;
    sim_assert(spn_timer_stop(timer, NULL, NULL) == SPN_OK);
}

/* A handle's functions end whichever thread calls them, at the time, in cancel or in stop:
 * one is called for each scheduling, and the timer comes to its end. */
SCENARIO(timer__handle_ends_whoever_tells_it__told_once, "G-21", "HWT-33")
{
    spn_timeout_handle *handle;

    if (!create(SPN_TIMER_THREAD, NULL, NULL))
        return;
    sim_assert(spn_timer_new_timeout(timer, end_at_its_time, end_when_gone, NULL,
                                     sim_choose(2) == 1 ? TICK : FAR,
                                     &handle) == SPN_OK);
    sim_thread(stop_timer, NULL);
    sim_thread(cancel_handle, handle);
    sim_join_all();
    sim_assert(spn_timer_stop(timer, NULL, NULL) == SPN_OK);
    sim_assert(spn__load(&ran, relaxed) == 1);
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
    spn_timeout_handle_unref(handle);
}
