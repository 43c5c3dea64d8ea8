/* SPDX-License-Identifier: MIT */
/*
 * scenario_future_timeout.c - futures that time out: time, completion, cancel and the end of the
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

static bool create(void)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = TICK;
    opts.slots = 4;
    opts.shards = 1;
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

    sim_assert(spn_timer_stop(timer, &left, NULL) == SPN_OK);
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
    sim_assert(spn_future_get_state(future) != SPN_FUTURE_PENDING);
    spn_future_unref(future);
}

static void cancel(void *future)
{
    const int was = spn_future_get_state(future) == SPN_FUTURE_CANCELED;

    /* A promise says 1 again to a second cancel; there is only one here. */
    if (spn_future_cancel(future, 0) == 1 && was == 0)
        spn__fetch_add(&won, 1, relaxed);
    spn_future_unref(future);
}

/* Complete against cancel against the time: one of them; and once it is done the timer
 * has no trace of it. */
SCENARIO(future_timeout__complete_cancel_timeout__one_outcome, "CF-33", "CF-34",
         "CF-35")
{
    const bool with_value = sim_choose(2) == 1;
    spn_outcome outcome;
    spn_future *f;
    int rc;

    if (!create())
        return;
    f = promise();
    if (f != NULL) {
        rc = with_value ? spn_future_complete_on_timeout(f, timer, &value, TICK)
                        : spn_future_or_timeout(f, timer, TICK, NULL);
        if (rc == SPN_OK) {
            sim_thread(complete, spn_future_ref(f));
            sim_thread(cancel, spn_future_ref(f));
            sim_join_all();
            sim_settle();
            sim_assert(spn_timer_pending(timer) == 0);
            sim_assert(spn_future_get_state(f) != SPN_FUTURE_PENDING);
            if (spn__load(&won, relaxed) == 0 && with_value)
                sim_assert(spn_future_get_state(f) == SPN_FUTURE_SUCCEEDED);
            else if (spn__load(&won, relaxed) == 0)
                sim_assert(spn_future_result(f, &outcome) == SPN_EFAILED &&
                           outcome.code == SPN_ETIMEDOUT);
            sim_assert(spn__load(&won, relaxed) <= 1);
        } else {
            sim_assert(spn_future_get_state(f) == SPN_FUTURE_PENDING);
            sim_assert(spn_timer_pending(timer) == 0);
            with_value ? drop_value(&value) : (void)0;
        }
        spn_future_unref(f);
    }
    end();
    if (f != NULL)
        sim_assert(spn__load(&dropped, relaxed) == with_value); /* read by nobody */
}
SCENARIO_OPTS(future_timeout__complete_cancel_timeout__one_outcome, .faults = true)

/* The future is completed while the time comes and while the timer is stopped and
 * destroyed: the completer is not in the timer any more when that goes. */
SCENARIO(future_timeout__completed_while_timer_ends__never_touches_it_after, "CF-33",
         "CF-35", "P28")
{
    const int64_t time_ns = sim_choose(2) == 1 ? TICK : FAR;
    spn_future *f;

    if (!create())
        return;
    f = promise();
    sim_assert(f != NULL);
    sim_assert(spn_future_or_timeout(f, timer, time_ns, NULL) == SPN_OK);
    sim_thread(complete, spn_future_ref(f));
    if (sim_choose(2) == 1)
        sim_sleep(TICK);
    end();
    sim_assert(spn_future_get_state(f) != SPN_FUTURE_PENDING); /* by whoever */
    sim_join_all();
    spn_future_unref(f);
}
SCENARIO_OPTS(future_timeout__completed_while_timer_ends__never_touches_it_after,
              .dfs = 1, .dfs_models = SIM_SC)

static spn_future *armed_by_other;

static void arm(void *future)
{
    const int rc = spn_future_or_timeout(future, timer, TICK, NULL);

    sim_assert(rc == SPN_OK);
    spn_future_unref(future);
}

/* The timeout is set while another thread completes the future, and drops it. */
SCENARIO(future_timeout__armed_while_completed__nothing_left, "CF-33", "CF-35")
{
    if (!create())
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
