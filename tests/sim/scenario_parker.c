/* SPDX-License-Identifier: MIT */
/*
 * scenario_parker.c - one permit, one owner, wakers that come before, after and
 * while it lies down.  `payload` is relaxed on both sides: it is visible only
 * if park and unpark order it.
 */
#include "sim.h"

#include "sync/parker.h"

static struct spn__parker parker, other;
static SPN__ATOMIC(int) payload, payload2;

static void unpark_with_payload(void *arg)
{
    (void)arg;
    spn__store(&payload, 7, relaxed);
    spn__parker_unpark(&parker);
}

static void unpark_with_payload2(void *arg)
{
    (void)arg;
    spn__store(&payload2, 7, relaxed);
    spn__parker_unpark(&parker);
}

static void reset(void)
{
    spn__parker_init(&parker);
    spn__parker_init(&other);
    spn__init(&payload, 0);
    spn__init(&payload2, 0);
}

/* A park that meets an unpark in any order returns, and sees what the waker
 * did before. */
SCENARIO(parker__unpark_races_park__returns_with_payload, "LS-1", "LS-2", "G-19",
         "G-20")
{
    reset();
    sim_thread(unpark_with_payload, NULL);
    sim_assert(spn__parker_park(&parker, SPN_FOREVER));
    sim_assert(spn__load(&payload, relaxed) == 7);
    sim_join_all();
}
SCENARIO_OPTS(parker__unpark_races_park__returns_with_payload, .dfs = 2)

/* Two unparks make one permit: the second park would sleep. */
SCENARIO(parker__two_unparks__one_permit, "LS-3")
{
    reset();
    spn__parker_unpark(&parker);
    spn__parker_unpark(&parker);
    sim_assert(spn__parker_park(&parker, SPN_FOREVER));
    sim_assert(!spn__parker_park(&parker, spn__now() + 50));
}
SCENARIO_OPTS(parker__two_unparks__one_permit, .dfs = 2)

/* When two unparks melt into one permit the owner sees what both did; if it
 * saw only the second one's, it would sleep for ever. */
SCENARIO(parker__two_wakers_one_permit__sees_both, "LS-3", "G-19")
{
    reset();
    sim_thread(unpark_with_payload, NULL);
    sim_thread(unpark_with_payload2, NULL);
    while (spn__load(&payload, relaxed) == 0 || spn__load(&payload2, relaxed) == 0)
        sim_assert(spn__parker_park(&parker, SPN_FOREVER));
    sim_join_all();
}
SCENARIO_OPTS(parker__two_wakers_one_permit__sees_both, .dfs = 2)

/* A timed park that gives up leaves the permit that comes too late; one that
 * reports the permit has taken it.  Never neither, never both. */
SCENARIO(parker__timeout_races_unpark__permit_not_lost, "LS-5", "G-11")
{
    bool took;

    reset();
    sim_thread(unpark_with_payload, NULL);
    took = spn__parker_park(&parker, spn__now() + 100);
    if (took)
        sim_assert(spn__load(&payload, relaxed) == 7);
    sim_join_all();
    sim_assert(spn__parker_park(&parker, spn__now()) == !took);
}
SCENARIO_OPTS(parker__timeout_races_unpark__permit_not_lost, .dfs = 2)

/* Without a waker a timed park waits at least its time, spurious wake-ups of
 * the kernel or not. */
SCENARIO(parker__nobody_unparks__waits_at_least_the_time, "LS-5", "G-7")
{
    const int64_t deadline_ns = spn__now() + SPN_SEC(365 * 86400);

    reset();
    sim_assert(!spn__parker_park(&parker, deadline_ns));
    sim_assert(spn__now() >= deadline_ns);
}
SCENARIO_OPTS(parker__nobody_unparks__waits_at_least_the_time, .dfs = 2)

/* A deadline that has passed returns at once, with the permit if there is one. */
SCENARIO(parker__past_deadline__returns_at_once, "LS-6", "G-6")
{
    reset();
    sim_assert(!spn__parker_park(&parker, INT64_MIN));
    sim_assert(!spn__parker_park(&parker, 0));
    spn__parker_unpark(&parker);
    sim_assert(spn__parker_park(&parker, INT64_MIN));
}
SCENARIO_OPTS(parker__past_deadline__returns_at_once, .dfs = 2)

static void answer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        sim_assert(spn__parker_park(&other, SPN_FOREVER));
        spn__store(&payload, spn__load(&payload, relaxed) + 1, relaxed);
        spn__parker_unpark(&parker);
    }
}

/* Ping-pong: every permit arrives, and carries the writes of each turn. */
SCENARIO(parker__ping_pong__every_turn_arrives, "LS-9", "G-20")
{
    reset();
    sim_thread(answer, NULL);
    for (int i = 0; i < 2; i++) {
        spn__store(&payload, spn__load(&payload, relaxed) + 1, relaxed);
        spn__parker_unpark(&other);
        sim_assert(spn__parker_park(&parker, SPN_FOREVER));
        sim_assert(spn__load(&payload, relaxed) == 2 * (i + 1));
    }
    sim_join_all();
}

/* A wake-up that is lost but rescued by a time-out shows as time: the owner's
 * hour must not pass while the waker is runnable. */
SCENARIO(parker__timed_park__wakes_promptly, "LS-2")
{
    int64_t began_ns;

    reset();
    began_ns = spn__now();
    sim_thread(unpark_with_payload, NULL);
    sim_assert(spn__parker_park(&parker, began_ns + SPN_SEC(3600)));
    sim_assert(spn__now() - began_ns < SPN_SEC(1));
    sim_join_all();
}
SCENARIO_OPTS(parker__timed_park__wakes_promptly, .early = SIM_NEVER)

static void late_unpark(void *arg)
{
    (void)arg;
    spn__parker_unpark(&parker);
}

/* Reset under a late unpark: the permit is there or not, and the parker works. */
SCENARIO(parker__reset_races_late_unpark__still_works)
{
    reset();
    sim_thread(late_unpark, NULL);
    spn__parker_reset(&parker);
    (void)spn__parker_park(&parker, spn__now() + 10);
    sim_join_all();
    (void)spn__parker_park(&parker, spn__now());
    spn__parker_unpark(&parker);
    sim_assert(spn__parker_park(&parker, SPN_FOREVER));
}
