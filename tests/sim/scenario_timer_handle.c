/* SPDX-License-Identifier: MIT */
/*
 * scenario_timer_handle.c - timeouts that the library owns: time, cancel, again and stop at
 * once.  Each scheduling has one end, gone is called once or never, and each reference is
 * dropped once: one too few is a leak of the block, one too many frees it under somebody.
 */
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "wheel/timer.h"

#include "sync/seam.h"

#define TICK SPN_TIMER_TICK_MIN
#define FAR  SPN_SEC(3600)

typedef SPN__ATOMIC(int) counter;

static spn_timer *timer;
static bool listed; /* stop is given a list for handles */

/* What has become of a handle; the argument of its functions. */
struct fate {
    counter armed;        /* accepted */
    counter runs;         /* fn */
    counter gones, downs; /* gone, after a cancel and by stop */
    counter removed;      /* by cancel */
    counter given;        /* by stop */
    counter busy;         /* refused: it was pending */
    counter payload;      /* published by scheduling */
    int again;            /* how often fn schedules it once more */
    bool mute;            /* without a gone */
};
static struct fate fate, other;

static void prepare(struct fate *f)
{
    counter *all[] = { &f->armed,   &f->runs,  &f->gones, &f->downs,
                       &f->removed, &f->given, &f->busy,  &f->payload };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        spn__init(all[i], 0);
    f->again = 0;
    f->mute = false;
}

static int count(counter *c)
{
    return spn__load(c, relaxed);
}

static void add(counter *c)
{
    (void)spn__fetch_add(c, 1, relaxed);
}

static bool create(uint32_t drive, int64_t max_pending)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = TICK;
    opts.slots = 4;
    opts.shards = 1;
    opts.drive = drive;
    opts.max_pending = max_pending;
    prepare(&fate);
    prepare(&other);
    listed = sim_choose(2) == 1;
    return spn_thread_current() != NULL && spn_timer_create(&timer, &opts) == SPN_OK;
}

static void again(spn_timeout_handle *handle, int64_t delay_ns)
{
    struct fate *f = spn_timeout_handle_arg(handle);
    int rc;

    spn__store(&f->payload, count(&f->payload) + 1, relaxed);
    rc = spn_timeout_handle_again(handle, delay_ns);
    sim_assert(rc == SPN_OK || rc == SPN_EBUSY || rc == SPN_ECANCELED ||
               rc == SPN_ESHUTDOWN || rc == SPN_EREJECTED);
    if (rc == SPN_OK)
        add(&f->armed);
    if (rc == SPN_EBUSY)
        add(&f->busy);
}

static void on_time(spn_timeout_handle *handle, void *arg)
{
    struct fate *f = arg;
    const int before = spn__fetch_add(&f->runs, 1, relaxed);

    sim_assert(spn_timer_stop(timer, NULL, NULL) == SPN_ESTATE); /* it waits for us */
    sim_assert(count(&f->payload) > before); /* what preceded scheduling */
    sim_assert(count(&f->downs) + count(&f->given) == 0);
    if (f->again > 0) {
        f->again--;
        again(handle, TICK);
    }
}

static void on_gone(void *arg, int reason)
{
    struct fate *f = arg;

    sim_assert(spn_timer_stop(timer, NULL, NULL) == SPN_ESTATE);
    sim_assert(count(&f->payload) != 0);
    sim_assert(reason == SPN_ECANCELED || reason == SPN_ESHUTDOWN);
    add(reason == SPN_ECANCELED ? &f->gones : &f->downs);
}

static spn_timeout_handle *make(struct fate *f, int64_t delay_ns)
{
    spn_timeout_handle *h;
    int rc;

    spn__store(&f->payload, 1, relaxed);
    rc = spn_timer_new_timeout(timer, on_time, f->mute ? NULL : on_gone, f, delay_ns,
                               &h);
    if (rc == SPN_OK)
        add(&f->armed);
    return h;
}

static void cancel(void *handle)
{
    struct fate *f = spn_timeout_handle_arg(handle);

    if (spn_timeout_handle_cancel(handle) == SPN_TIMEOUT_REMOVED)
        add(&f->removed);
}

static void cancel_and_drop(void *handle)
{
    cancel(handle);
    spn_timeout_handle_unref(handle);
}

static void drop(void *handle)
{
    spn_timeout_handle_unref(handle);
}

/* Stops; what is in the list is the taker's, and is dropped. */
static void stop(void)
{
    spn_timeout_handle_list handles = { NULL };
    spn_timeout_handle *h;

    sim_assert(spn_timer_stop(timer, NULL, listed ? &handles : NULL) == SPN_OK);
    while ((h = spn_timeout_handle_take(&handles)) != NULL) {
        struct fate *f = spn_timeout_handle_arg(h);

        sim_assert(spn_timeout_handle_state(h) == SPN_TIMEOUT_CANCELLED);
        sim_assert(spn_timeout_handle_again(h, 0) == SPN_ESHUTDOWN);
        add(&f->given);
        spn_timeout_handle_unref(h);
    }
}

static void destroy(void)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;

    sim_assert(spn_timer_get_stats(timer, &s) == SPN_OK);
    sim_assert(s.armed == s.fired + s.cancelled + s.replaced + s.returned);
    sim_assert(s.pending == 0 && spn_timer_pending(timer) == 0);
    sim_assert(spn__timer_check(timer) == SPN_OK);
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
}

/* After stop, and when all cancels have returned: each scheduling has had its one end. */
static void expect_one_end(struct fate *f)
{
    const int told =
        count(&f->runs) + count(&f->given) + count(&f->gones) + count(&f->downs);

    sim_assert(count(&f->removed) + count(&f->given) + count(&f->downs) <= 1);
    if (!f->mute) {
        sim_assert(told == count(&f->armed));
        sim_assert(count(&f->gones) == count(&f->removed));
    } else {
        sim_assert(count(&f->gones) + count(&f->downs) == 0);
        sim_assert(told + count(&f->removed) == count(&f->armed) ||
                   (!listed && told + count(&f->removed) == count(&f->armed) - 1));
    }
}

/* ---- time, cancel and stop ------------------------------------------------------- */

/* Time, two cancels and perhaps stop at once, with a gone or without. */
SCENARIO(timer_handle__cancelled_any_time__one_end, "HWT-30", "HWT-33", "HWT-36")
{
    spn_timeout_handle *h;

    if (!create(SPN_TIMER_THREAD, 0))
        return;
    fate.mute = sim_choose(2) == 1;
    h = make(&fate, TICK);
    if (h != NULL) {
        sim_thread(cancel_and_drop, spn_timeout_handle_ref(h));
        cancel_and_drop(h);
        sim_join_all();
        if (sim_choose(2) == 1)
            sim_settle();
    }
    stop();
    expect_one_end(&fate);
    destroy();
}
SCENARIO_OPTS(timer_handle__cancelled_any_time__one_end, .faults = true)

/* Two handles of one block are dropped while the timer is stopped and destroyed: the block
 * goes with the last of the three, and each has its end. */
SCENARIO(timer_handle__dropped_around_destroy__freed_once, "HWT-33", "HWT-35")
{
    spn_timeout_handle *first, *second;

    if (!create(SPN_TIMER_THREAD, 0))
        return;
    first = make(&fate, TICK);
    second = make(&other, FAR);
    if (first != NULL)
        sim_thread(drop, first);
    if (second != NULL)
        sim_thread(drop, second);
    stop();
    expect_one_end(&fate);
    expect_one_end(&other);
    destroy();
    sim_join_all();
}
SCENARIO_OPTS(timer_handle__dropped_around_destroy__freed_once, .faults = true)

/* Of two handles one is cancelled while its time comes and while the timer is stopped and
 * destroyed: whoever cancels is not in the timer any more when that goes, and gone has been
 * called when stop returns, on whatever thread. */
SCENARIO(timer_handle__cancelled_while_timer_ends__never_touches_it_after, "HWT-33",
         "HWT-35", "HWT-36", "P28")
{
    const int64_t delay_ns = sim_choose(2) == 1 ? TICK : FAR;

    if (!create(SPN_TIMER_THREAD, 0))
        return;
    fate.mute = sim_choose(2) == 1;
    sim_thread(cancel_and_drop, make(&fate, delay_ns));
    spn_timeout_handle_unref(make(&other, FAR));
    if (sim_choose(2) == 1)
        sim_sleep(TICK);
    stop();
    /* Not when cancel has returned: a gone belongs to a cancel that may not have yet. */
    sim_assert(fate.mute || count(&fate.runs) + count(&fate.gones) +
                                    count(&fate.downs) + count(&fate.given) ==
                                1);
    expect_one_end(&other);
    destroy();
    sim_join_all();
    expect_one_end(&fate);
}
SCENARIO_OPTS(timer_handle__cancelled_while_timer_ends__never_touches_it_after,
              .dfs = 1, .dfs_models = SIM_SC)

/* A handle is cancelled beside stop, on a timer that nobody drives: whichever thread calls
 * gone, its effects are there when stop has returned. */
SCENARIO(timer_handle__cancelled_beside_stop__gone_before_stop_returns, "HWT-33")
{
    if (!create(SPN_TIMER_DRIVEN, 0))
        return;
    sim_thread(cancel_and_drop, make(&fate, FAR));
    stop();
    sim_assert(count(&fate.gones) + count(&fate.downs) + count(&fate.given) == 1);
    destroy();
    sim_join_all();
    expect_one_end(&fate);
}
SCENARIO_OPTS(timer_handle__cancelled_beside_stop__gone_before_stop_returns, .dfs = 1,
              .dfs_models = SIM_SC)

static void stop_and_look(void *arg)
{
    (void)arg;
    stop();
    /* Before any stop returned; the other one may not have looked at its list yet. */
    sim_assert(listed || count(&fate.downs) == 1);
    sim_assert(listed || count(&other.downs) + count(&other.gones) == 1);
}

/* Two stops, and two handles that one of them tells or gives back, if the second is not
 * cancelled: once, and both stops come after gone. */
SCENARIO(timer_handle__two_stops__one_end_before_both, "HWT-10", "HWT-12", "HWT-33")
{
    if (!create(SPN_TIMER_DRIVEN, 0))
        return;
    spn_timeout_handle_unref(make(&fate, FAR));
    sim_thread(sim_choose(2) == 1 ? cancel_and_drop : drop, make(&other, FAR));
    sim_thread(stop_and_look, NULL);
    stop_and_look(NULL);
    sim_join_all();
    expect_one_end(&fate);
    expect_one_end(&other);
    destroy();
}
SCENARIO_OPTS(timer_handle__two_stops__one_end_before_both, .dfs = 1,
              .dfs_models = SIM_SC)

/* ---- again ----------------------------------------------------------------------- */

/* fn schedules its handle again while another thread cancels it and the timer is stopped and
 * destroyed: what was accepted has one end, and nothing runs after stop. */
SCENARIO(timer_handle__again_in_fn_races_cancel_and_stop__one_end, "HWT-15", "HWT-22",
         "HWT-33", "HWT-48")
{
    int runs;

    if (!create(SPN_TIMER_THREAD, 0))
        return;
    fate.again = 2;
    fate.mute = sim_choose(2) == 1;
    sim_thread(cancel_and_drop, make(&fate, TICK));
    if (sim_choose(2) == 1)
        sim_sleep(2 * TICK);
    stop();
    runs = count(&fate.runs);
    destroy();
    sim_join_all();
    sim_assert(count(&fate.runs) == runs);
    expect_one_end(&fate);
}

static void again_and_drop(void *handle)
{
    again(handle, TICK);
    spn_timeout_handle_unref(handle);
}

/* A driven timer whose first handle has expired; the caller has `references`. */
static spn_timeout_handle *make_expired(int references)
{
    spn_timeout_handle *h = make(&fate, 0);

    sim_assert(h != NULL && spn_timer_run(timer) == 1);
    sim_assert(spn_timeout_handle_state(h) == SPN_TIMEOUT_EXPIRED);
    while (references-- > 1)
        (void)spn_timeout_handle_ref(h);
    return h;
}

/* A handle that has expired is scheduled again by somebody who does not know whether the
 * timer is still there: it is, and stop accounts for it, or the timer is not touched. */
SCENARIO(timer_handle__again_races_stop_and_destroy__never_touches_it_after, "HWT-15",
         "HWT-36", "HWT-42", "HWT-48", "P28")
{
    if (!create(SPN_TIMER_DRIVEN, 0))
        return;
    sim_thread(again_and_drop, make_expired(1));
    stop();
    destroy();
    sim_join_all();
    expect_one_end(&fate);
    sim_assert(count(&fate.runs) == 1);
}
SCENARIO_OPTS(timer_handle__again_races_stop_and_destroy__never_touches_it_after,
              .dfs = 3, .dfs_models = SIM_SC)

/* Two threads schedule an expired handle again, and one cancels it: one of the two is told
 * that it is pending, unless the cancel came first, and there is one more end. */
SCENARIO(timer_handle__two_again_and_a_cancel__one_scheduling, "HWT-30", "HWT-48")
{
    spn_timeout_handle *h;

    if (!create(SPN_TIMER_DRIVEN, 0))
        return;
    h = make_expired(3);
    sim_thread(again_and_drop, h);
    sim_thread(again_and_drop, h);
    cancel_and_drop(h);
    sim_join_all();
    sim_assert(count(&fate.armed) == 2);
    sim_assert(count(&fate.busy) + count(&fate.removed) >= 1);
    stop();
    expect_one_end(&fate);
    destroy();
}
SCENARIO_OPTS(timer_handle__two_again_and_a_cancel__one_scheduling, .dfs = 1,
              .dfs_models = SIM_SC)

static void make_other(void *arg)
{
    (void)arg;
    spn_timeout_handle_unref(make(&other, FAR));
}

/* One place, which an expired handle and a new one want: one gets it, and the other has
 * changed nothing. */
SCENARIO(timer_handle__again_at_the_limit__one_has_the_place, "HWT-38", "HWT-48")
{
    spn_timeout_handle *h;

    if (!create(SPN_TIMER_DRIVEN, 1))
        return;
    h = make_expired(2);
    sim_thread(make_other, NULL);
    again_and_drop(h);
    sim_join_all();
    sim_assert(count(&fate.armed) + count(&other.armed) == 2);
    sim_assert(spn_timer_pending(timer) == 1);
    sim_assert((spn_timeout_handle_state(h) == SPN_TIMEOUT_EXPIRED) ==
               (count(&fate.armed) == 1));
    spn_timeout_handle_unref(h);
    stop();
    expect_one_end(&fate);
    expect_one_end(&other);
    destroy();
}
SCENARIO_OPTS(timer_handle__again_at_the_limit__one_has_the_place, .dfs = 1,
              .dfs_models = SIM_SC)
