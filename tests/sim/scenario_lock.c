/* SPDX-License-Identifier: MIT */
/*
 * scenario_lock.c - mutual exclusion, hand-over and the life of a lock's
 * memory.  `inside` and `sum` are relaxed: the lock alone orders them.
 */
#include "sim.h"

#include "sync/lock.h"

static struct spn__lock lock;
static SPN__ATOMIC(int) inside, sum;

static void reset(void)
{
    spn__lock_init(&lock);
    spn__init(&inside, 0);
    spn__init(&sum, 0);
}

static void critical_section(void)
{
    const int before = spn__load(&sum, relaxed);

    sim_assert(spn__load(&inside, relaxed) == 0);
    spn__store(&inside, 1, relaxed);
    spn__store(&sum, before + 1, relaxed);
    spn__store(&inside, 0, relaxed);
}

static void enter(void *times)
{
    for (intptr_t i = 0; i < (intptr_t)times; i++) {
        spn__lock(&lock);
        critical_section();
        spn__unlock(&lock);
    }
}

/* Two threads: never both inside, and each sees what the other did. */
SCENARIO(lock__two_threads__exclude_each_other, "G-19")
{
    reset();
    sim_thread(enter, (void *)1);
    enter((void *)1);
    sim_join_all();
    sim_assert(spn__load(&sum, relaxed) == 2);
}
SCENARIO_OPTS(lock__two_threads__exclude_each_other, .dfs = 2)

/* Three threads, so that one wakes while another still waits: nobody is
 * forgotten. */
SCENARIO(lock__three_threads__nobody_forgotten, "G-20")
{
    reset();
    sim_thread(enter, (void *)2);
    sim_thread(enter, (void *)1);
    enter((void *)1);
    sim_join_all();
    sim_assert(spn__load(&sum, relaxed) == 4);
}
SCENARIO_OPTS(lock__three_threads__nobody_forgotten, .dfs = 2,
              .dfs_models = SIM_SC | SIM_C11)

static void try_enter(void *arg)
{
    (void)arg;
    if (spn__lock_try(&lock)) {
        critical_section();
        spn__unlock(&lock);
    }
}

/* try takes a free lock or leaves it alone, and never waits. */
SCENARIO(lock__try_races_lock__excludes)
{
    reset();
    sim_thread(try_enter, NULL);
    enter((void *)1);
    sim_join_all();
    sim_assert(spn__load(&sum, relaxed) >= 1);
}
SCENARIO_OPTS(lock__try_races_lock__excludes, .dfs = 2)

struct mortal {
    struct spn__lock lock;
    SPN__ATOMIC(int) users;
};

static void leave_mortal(void *p)
{
    struct mortal *m = p;
    bool last;

    spn__lock(&m->lock);
    last = spn__load(&m->users, relaxed) == 1;
    spn__store(&m->users, spn__load(&m->users, relaxed) - 1, relaxed);
    spn__unlock(&m->lock);
    if (last)
        spn__free(m);
}

/* Whoever gets the lock last may free it: the unlock before has let go. */
SCENARIO(lock__freed_by_the_last_holder__unlock_touches_nothing)
{
    struct mortal *m = spn__alloc(sizeof *m);

    if (m == NULL)
        return;
    spn__lock_init(&m->lock);
    spn__init(&m->users, 3);
    sim_thread(leave_mortal, m);
    sim_thread(leave_mortal, m);
    leave_mortal(m);
    sim_join_all();
}
SCENARIO_OPTS(lock__freed_by_the_last_holder__unlock_touches_nothing, .dfs = 2,
              .dfs_models = SIM_SC)
