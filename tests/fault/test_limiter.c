/* SPDX-License-Identifier: MIT */
/*
 * test_limiter.c - every allocation of a limiter that many tasks wait in fails, once and
 * from then on.  A task that there is no memory for stays the caller's; all others run
 * once, in order, and no block may be left.
 */
#include "faults.h"
#include "test.h"

#include <spindle.h>

enum { TASKS = 120 }; /* seven chunks of entries, and two slots */

struct numbered {
    spn_task task; /* first */
    int number, runs;
};

static struct numbered tasks[TASKS];
static int last_ran, drops;

static int run(spn_task *task)
{
    struct numbered *t = (struct numbered *)(void *)task;

    CHECK(t->number > last_ran);
    last_ran = t->number;
    t->runs++;
    return 0;
}

static void drop(spn_task *task, int reason)
{
    (void)task;
    (void)reason;
    drops++;
}

static void submit_all(spn_limiter *limiter)
{
    spn_limiter_stats s = SPN_LIMITER_STATS_INIT;
    int accepted = 0;

    for (int i = 0; i < TASKS; i++) {
        const int rc =
            spn_executor_execute(spn_limiter_executor(limiter), &tasks[i].task);

        CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
        CHECK_EQ(tasks[i].task.queued != 0, rc == SPN_OK);
        if (rc == SPN_OK)
            accepted++;
        else
            tasks[i].number = 0;
    }
    CHECK_OK(spn_limiter_stats_get(limiter, &s));
    CHECK_EQ(s.accepted, accepted);
    CHECK_EQ(s.in_flight + s.waiting, accepted);
    CHECK_EQ(s.in_flight, accepted < 2 ? accepted : 2);
    CHECK_EQ(s.refused_full + s.refused_behind, 0);
}

static void script(void)
{
    spn_limiter_opts opts = SPN_LIMITER_OPTS_INIT;
    spn_manual_executor *m;
    spn_limiter *limiter;
    int rc = spn_manual_executor_create(&m);

    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    if (rc != SPN_OK)
        return;
    opts.executor = spn_manual_executor_executor(m);
    opts.max_in_flight = 2;
    opts.max_waiting = SPN_UNBOUNDED;
    rc = spn_limiter_create(&limiter, &opts);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    if (rc == SPN_OK) {
        for (int i = 0; i < TASKS; i++)
            tasks[i] = (struct numbered){ SPN_TASK_INIT(run, drop), i + 1, 0 };
        last_ran = drops = 0;
        submit_all(limiter);
        CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
        for (int i = 0; i < TASKS; i++)
            CHECK_EQ(tasks[i].runs, tasks[i].number != 0);
        CHECK_EQ(drops, 0);
    }
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* One allocation fails. */
TEST(limiter__each_allocation_fails__nothing_is_lost, "G-22", "LIM-2", "LIM-3")
{
    (void)spn_thread_current();
    fault_sweep(script, false, 10);
}

/* All fail from one on. */
TEST(limiter__all_allocations_fail_from_one_on__nothing_is_lost, "G-22", "LIM-2",
     "LIM-3")
{
    (void)spn_thread_current();
    fault_sweep(script, true, 10);
}
