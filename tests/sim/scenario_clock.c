/* SPDX-License-Identifier: MIT */
/* scenario_clock.c - sleepers on a manual clock while it moves. */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

static spn_clock *manual;
static SPN__ATOMIC(int) payload;
static int woken; /* plain: guarded by the order the clock gives */

static void sleep_until_100(void *arg)
{
    (void)arg;
    sim_assert(spn_clock_sleep_until(manual, 100) == SPN_OK);
    sim_assert(spn_clock_now(manual) >= 100);
    sim_assert(spn__load(&payload, relaxed) == 7);
}

static void create(void)
{
    spn__init(&payload, 0);
    woken = 0;
    sim_assert(spn_clock_create_manual(&manual, 0) == SPN_OK);
}

/* Moving the clock past a deadline releases the sleeper, wherever it is on its
 * way down, and it sees what the mover did; half the way does not. */
SCENARIO(clock__advance_races_sleep__wakes_at_the_deadline, "G-19", "G-20")
{
    create();
    sim_thread(sleep_until_100, NULL);
    sim_assert(spn_clock_advance(manual, 99) == SPN_OK);
    spn__store(&payload, 7, relaxed);
    sim_assert(spn_clock_advance(manual, 1) == SPN_OK);
    sim_join_all();
    sim_assert(spn_clock_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(clock__advance_races_sleep__wakes_at_the_deadline, .dfs = 2,
              .dfs_models = SIM_SC)

/* await_sleepers returns when the sleeper lies down, and then the clock can be
 * moved from deadline to deadline. */
SCENARIO(clock__await_sleepers__then_to_next, "G-20")
{
    int64_t now_ns = 0;

    create();
    spn__store(&payload, 7, relaxed);
    sim_thread(sleep_until_100, NULL);
    sim_assert(spn_clock_await_sleepers(manual, 1, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_clock_destroy(manual) == SPN_EBUSY);
    sim_assert(spn_clock_advance_to_next(manual, &now_ns) == SPN_OK);
    sim_assert(now_ns == 100);
    sim_join_all();
    sim_assert(spn_clock_advance_to_next(manual, &now_ns) == SPN_EEMPTY);
    sim_assert(spn_clock_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(clock__await_sleepers__then_to_next, .dfs = 1, .dfs_models = SIM_SC)

static void interrupt_it(void *thread)
{
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
}

/* A sleeper interrupted while the clock moves: one of two outcomes. */
SCENARIO(clock__interrupt_races_advance__one_outcome, "G-11", "G-12")
{
    int rc;

    create();
    sim_thread(interrupt_it, spn_thread_current());
    sim_thread(sleep_until_100, NULL);
    sim_settle();
    spn__store(&payload, 7, relaxed);
    sim_assert(spn_clock_advance(manual, 100) == SPN_OK);
    rc = spn_clock_sleep_until(manual, 50); /* passed already: not a wait */
    sim_assert(rc == SPN_OK);
    rc = spn_clock_await_sleepers(manual, 5, SPN_FOREVER);
    sim_assert(rc == SPN_EINTR);
    sim_join_all();
    sim_assert(spn_thread_interrupted() == 0);
    sim_assert(spn_clock_destroy(manual) == SPN_OK);
}

static void advance_with_payload(void *arg)
{
    (void)arg;
    spn__store(&payload, 7, relaxed);
    sim_assert(spn_clock_advance(manual, 100) == SPN_OK);
}

/* Who sees the new time sees what was done before the clock was moved. */
SCENARIO(clock__new_time_seen__work_before_it_seen, "G-19")
{
    create();
    sim_thread(advance_with_payload, NULL);
    if (spn_clock_now(manual) == 100)
        sim_assert(spn__load(&payload, relaxed) == 7);
    sim_join_all();
    sim_assert(spn_clock_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(clock__new_time_seen__work_before_it_seen, .dfs = 2)
