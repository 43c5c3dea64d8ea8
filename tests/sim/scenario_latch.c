/* SPDX-License-Identifier: MIT */
/* scenario_latch.c - opening, waiting and destroying a latch at once. */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

static spn_latch *latch;
static SPN__ATOMIC(int) payload[2];

static void count_down(void *index)
{
    spn__store(&payload[(intptr_t)index], 7, relaxed);
    sim_assert(spn_latch_count_down(latch) == SPN_OK);
}

static void await_and_look(void *arg)
{
    (void)arg;
    sim_assert(spn_latch_await(latch, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&payload[0], relaxed) == 7);
    sim_assert(spn__load(&payload[1], relaxed) == 7);
}

static bool create(int32_t count)
{
    spn__init(&payload[0], 0);
    spn__init(&payload[1], 0);
    return spn_latch_create(&latch, count) == SPN_OK;
}

/* Everybody who waits is released, and sees what everybody did who counted. */
SCENARIO(latch__two_count_down__waiters_see_both, "G-19", "G-20")
{
    if (!create(2))
        return;
    sim_thread(count_down, (void *)0);
    sim_thread(count_down, (void *)1);
    sim_thread(await_and_look, NULL);
    await_and_look(NULL);
    sim_join_all();
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
}

/* The thread that got through destroys the latch while the opener is still on
 * its way out. */
SCENARIO(latch__destroyed_by_the_released__opener_touches_nothing, "G-17")
{
    if (!create(1))
        return;
    sim_thread(count_down, (void *)0);
    sim_assert(spn_latch_await(latch, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
    sim_join_all();
}
SCENARIO_OPTS(latch__destroyed_by_the_released__opener_touches_nothing, .dfs = 2,
              .dfs_models = SIM_SC)

/* A time-out that races the opening: SPN_OK or SPN_ETIMEDOUT, and the latch
 * can be destroyed after both. */
SCENARIO(latch__timeout_races_opening__clean, "G-7", "G-11")
{
    int64_t deadline_ns;
    int rc;

    if (!create(1))
        return;
    sim_thread(count_down, (void *)0);
    deadline_ns = spn__now() + 300;
    rc = spn_latch_await(latch, 300);
    sim_assert(rc == SPN_OK || (rc == SPN_ETIMEDOUT && spn__now() >= deadline_ns));
    sim_join_all();
    sim_assert(spn_latch_await(latch, SPN_NOWAIT) == SPN_OK);
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
}
SCENARIO_OPTS(latch__timeout_races_opening__clean, .dfs = 1, .dfs_models = SIM_SC)

static void await_nobody(void *arg)
{
    (void)arg;
    sim_assert(spn_latch_await(latch, SPN_FOREVER) == SPN_OK);
}

/* A latch with a waiter is not destroyed. */
SCENARIO(latch__destroy_with_waiter__busy, "G-17")
{
    if (!create(1))
        return;
    sim_thread(await_nobody, NULL);
    sim_settle();
    sim_assert(spn_latch_destroy(latch) == SPN_EBUSY);
    count_down((void *)0);
    sim_join_all();
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
}

/* More count_downs than the count: it opens once and stays at zero. */
SCENARIO(latch__counted_down_too_often__stays_open)
{
    if (!create(1))
        return;
    sim_thread(count_down, (void *)0);
    sim_thread(count_down, (void *)1);
    count_down((void *)0);
    sim_assert(spn_latch_count(latch) == 0);
    sim_join_all();
    sim_assert(spn_latch_count(latch) == 0);
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
}
SCENARIO_OPTS(latch__counted_down_too_often__stays_open, .dfs = 2, .dfs_models = SIM_SC)

/* Out of memory anywhere: the documented status, nothing left behind. */
SCENARIO(latch__allocation_fails__clean, "G-22")
{
    int rc;

    if (!create(1))
        return;
    rc = spn_latch_await(latch, 10);
    sim_assert(rc == SPN_ETIMEDOUT || rc == SPN_ENOMEM);
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
}
SCENARIO_OPTS(latch__allocation_fails__clean, .faults = true)

/* Who reads zero sees what was done before it, as if it had waited. */
SCENARIO(latch__count_read_as_zero__work_seen, "G-19")
{
    if (!create(1))
        return;
    sim_thread(count_down, (void *)0);
    if (spn_latch_count(latch) == 0)
        sim_assert(spn__load(&payload[0], relaxed) == 7);
    sim_join_all();
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
}
SCENARIO_OPTS(latch__count_read_as_zero__work_seen, .dfs = 2)
