/* SPDX-License-Identifier: MIT */
/*
 * scenario_quick_lock.c - the lock that is released by a store: exclusion, hand-over,
 * and no sleeper forgotten.  `inside` and `sum` are relaxed: the lock alone orders them.
 */
#include "sim.h"

#include "sync/quick_lock.h"

static struct spn__quick_lock lock;
static SPN__ATOMIC(int) inside, sum;

static void reset(void)
{
    spn__quick_lock_init(&lock);
    spn__init(&inside, 0);
    spn__init(&sum, 0);
}

static void enter(void *times)
{
    for (intptr_t i = 0; i < (intptr_t)times; i++) {
        int before;

        spn__quick_lock(&lock);
        before = spn__load(&sum, relaxed);
        sim_assert(spn__load(&inside, relaxed) == 0);
        spn__store(&inside, 1, relaxed);
        spn__store(&sum, before + 1, relaxed);
        spn__store(&inside, 0, relaxed);
        spn__quick_unlock(&lock);
    }
}

/* Two threads: never both inside, and each sees what the other did. */
SCENARIO(quick_lock__two_threads__exclude_each_other, "G-19")
{
    reset();
    sim_thread(enter, (void *)2);
    enter((void *)1);
    sim_join_all();
    sim_assert(spn__load(&sum, relaxed) == 3);
}
SCENARIO_OPTS(quick_lock__two_threads__exclude_each_other, .dfs = 2,
              .dfs_models = SIM_SC)

/* Three threads, so that one wakes while another still waits: nobody is forgotten,
 * with either kind of fence. */
SCENARIO(quick_lock__three_threads__nobody_forgotten, "G-20")
{
    reset();
    sim_thread(enter, (void *)2);
    sim_thread(enter, (void *)1);
    enter((void *)1);
    sim_join_all();
    sim_assert(spn__load(&sum, relaxed) == 4);
}

/* A holder that takes its time: the other sleeps, and is woken by the release. */
static void hold_long(void *arg)
{
    (void)arg;
    spn__quick_lock(&lock);
    sim_sleep(1000);
    spn__store(&sum, 1, relaxed);
    spn__quick_unlock(&lock);
}

SCENARIO(quick_lock__slept_for__released_with_what_was_done, "G-19", "G-20")
{
    reset();
    sim_thread(hold_long, NULL);
    sim_thread(hold_long, NULL);
    enter((void *)1);
    sim_join_all();
    sim_assert(spn__load(&sum, relaxed) >= 1);
}
