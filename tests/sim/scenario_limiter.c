/* SPDX-License-Identifier: MIT */
/*
 * scenario_limiter.c - the limit is never exceeded and no permit is lost, whatever ends,
 * leaves, is taken back or refused at the same time.
 */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

#define TASKS 3

static spn_limiter *limiter;
static spn_manual_executor *manual;
static SPN__ATOMIC(int) running, most, runs, drops, refused, taken_back;
static spn_task tasks[TASKS];

static int run(spn_task *task)
{
    const int now = spn__fetch_add(&running, 1, relaxed) + 1;

    (void)task;
    if (now > spn__load(&most, relaxed))
        spn__store(&most, now, relaxed);
    (void)spn__fetch_add(&runs, 1, relaxed);
    (void)spn__fetch_sub(&running, 1, relaxed);
    return 0;
}

static bool second_has_run;

static int run_second(spn_task *task)
{
    second_has_run = true;
    return run(task);
}

static int run_third(spn_task *task)
{
    sim_assert(second_has_run);
    return run(task);
}

static void drop(spn_task *task, int reason)
{
    (void)task;
    sim_assert(reason < 0);
    (void)spn__fetch_add(&drops, 1, relaxed);
}

static bool create(spn_executor *behind, int32_t max_in_flight, int32_t max_waiting)
{
    spn_limiter_opts opts = SPN_LIMITER_OPTS_INIT;

    spn__init(&running, 0);
    spn__init(&most, 0);
    spn__init(&runs, 0);
    spn__init(&drops, 0);
    spn__init(&refused, 0);
    spn__init(&taken_back, 0);
    second_has_run = false;
    for (int i = 0; i < TASKS; i++)
        tasks[i] = (spn_task)SPN_TASK_INIT(run, drop);
    opts.executor = behind;
    opts.max_in_flight = max_in_flight;
    opts.max_waiting = max_waiting;
    return spn_limiter_create(&limiter, &opts) == SPN_OK;
}

static bool create_over_manual(int32_t max_in_flight, int32_t max_waiting)
{
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return false;
    if (create(spn_manual_executor_executor(manual), max_in_flight, max_waiting))
        return true;
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
    return false;
}

static void submit(void *task)
{
    const int rc = spn_executor_execute(spn_limiter_executor(limiter), task);

    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED || rc == SPN_ESHUTDOWN ||
               rc == SPN_ENOMEM);
    (void)spn__fetch_add(&refused, rc != SPN_OK, relaxed);
}

static void take_back(void *task)
{
    (void)spn__fetch_add(&taken_back,
                         spn_executor_remove(spn_limiter_executor(limiter), task),
                         relaxed);
}

static void run_all(void *arg)
{
    (void)arg;
    (void)spn_manual_executor_run(manual, INT64_MAX);
}

/* Everything is accounted for and every permit is back. */
static void check_end(int submitted)
{
    spn_limiter_stats s = SPN_LIMITER_STATS_INIT;

    sim_assert(spn_limiter_stats_get(limiter, &s) == SPN_OK);
    sim_assert(s.in_flight == 0 && s.waiting == 0);
    sim_assert(s.accepted == s.completed + s.failed + s.dropped + s.returned);
    sim_assert(s.completed == spn__load(&runs, relaxed));
    sim_assert(s.dropped == spn__load(&drops, relaxed));
    sim_assert(s.returned == spn__load(&taken_back, relaxed));
    sim_assert(submitted == s.accepted + spn__load(&refused, relaxed));
    sim_assert(s.peak_in_flight <= s.max_in_flight && s.peak_waiting <= s.max_waiting);
    sim_assert(spn__load(&most, relaxed) <= s.max_in_flight);
    sim_assert(spn_limiter_destroy(limiter) == SPN_OK);
}

/* Three who submit at a limit of one: never two at once, and no permit is lost. */
SCENARIO(limiter__submitters_at_the_limit__never_exceeded, "G-20", "G-19")
{
    if (!create(spn_executor_direct(), 1, 1))
        return;
    sim_thread(submit, &tasks[0]);
    sim_thread(submit, &tasks[1]);
    submit(&tasks[2]);
    sim_join_all();
    sim_outcome((unsigned)spn__load(&runs, relaxed));
    check_end(3);
}

SCENARIO_OPTS(limiter__submitters_at_the_limit__never_exceeded, .faults = true)

/* Without a queue, two submitters: one runs or both, one after the other. */
SCENARIO(limiter__no_queue__runs_or_refuses, "G-20")
{
    if (!create(spn_executor_direct(), 1, 0))
        return;
    sim_thread(submit, &tasks[0]);
    submit(&tasks[1]);
    sim_join_all();
    sim_outcome((unsigned)spn__load(&runs, relaxed));
    check_end(2);
}
SCENARIO_OPTS(limiter__no_queue__runs_or_refuses, .dfs = 3, .dfs_models = SIM_SC,
              .faults = true)

/* One that waits and one that is behind are taken back while they get their turn. */
SCENARIO(limiter__taken_back_as_it_starts__settled_once, "G-20")
{
    if (!create_over_manual(1, 1))
        return;
    submit(&tasks[0]);
    submit(&tasks[1]);
    sim_thread(run_all, NULL);
    sim_thread(take_back, &tasks[0]);
    take_back(&tasks[1]);
    sim_join_all();
    run_all(NULL); /* what was handed over after run_all had looked */
    sim_outcome(
        (unsigned)(spn__load(&runs, relaxed) + 4 * spn__load(&taken_back, relaxed)));
    sim_assert(spn__load(&runs, relaxed) + spn__load(&taken_back, relaxed) == 2);
    check_end(2);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(limiter__taken_back_as_it_starts__settled_once, .dfs = 2,
              .dfs_models = SIM_SC)

/* One is being taken back as it ends, and another waits: the only slot is still asked
 * about, and the other has its turn all the same. */
SCENARIO(limiter__taken_back_as_it_ends__next_has_its_turn, "G-20", "LIM-3")
{
    if (!create_over_manual(1, 1))
        return;
    submit(&tasks[0]);
    submit(&tasks[1]);
    sim_thread(run_all, NULL);
    take_back(&tasks[0]);
    sim_join_all();
    run_all(NULL);
    sim_outcome((unsigned)spn__load(&taken_back, relaxed));
    sim_assert(spn__load(&runs, relaxed) + spn__load(&taken_back, relaxed) +
                   spn__load(&refused, relaxed) ==
               2);
    check_end(2);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(limiter__taken_back_as_it_ends__next_has_its_turn, .dfs = 3,
              .dfs_models = SIM_SC, .faults = true)

/* The same while a third comes: it does not pass the one that waits. */
SCENARIO(limiter__submitted_as_a_slot_is_asked_about__waits_behind, "LIM-3")
{
    if (!create_over_manual(1, 2))
        return;
    tasks[1].fn = run_second;
    tasks[2].fn = run_third;
    submit(&tasks[0]);
    submit(&tasks[1]);
    sim_thread(run_all, NULL);
    sim_thread(submit, &tasks[2]);
    take_back(&tasks[0]);
    sim_join_all();
    run_all(NULL);
    sim_assert(spn__load(&runs, relaxed) + spn__load(&taken_back, relaxed) == 3);
    check_end(3);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(limiter__submitted_as_a_slot_is_asked_about__waits_behind, .dfs = 2,
              .dfs_models = SIM_SC)

/* Two who take the same one back, while its slot may be wanted by another. */
SCENARIO(limiter__taken_back_twice__slot_is_not_mixed_up)
{
    if (!create_over_manual(1, 0))
        return;
    submit(&tasks[0]);
    sim_thread(take_back, &tasks[0]);
    sim_thread(submit, &tasks[1]);
    run_all(NULL);
    sim_join_all();
    run_all(NULL);
    check_end(2);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(limiter__taken_back_twice__slot_is_not_mixed_up, .dfs = 2,
              .dfs_models = SIM_SC)

static void close_manual(void *arg)
{
    (void)arg;
    (void)spn_executor_shutdown(spn_manual_executor_executor(manual));
    (void)spn_manual_executor_drop_all(manual, SPN_ESHUTDOWN, NULL);
}

/* The executor behind stops taking tasks: those that wait are dropped, not forgotten. */
SCENARIO(limiter__executor_behind_closes__waiting_are_dropped, "G-20")
{
    if (!create_over_manual(1, 2))
        return;
    submit(&tasks[0]);
    submit(&tasks[1]);
    sim_thread(close_manual, NULL);
    submit(&tasks[2]);
    sim_join_all();
    close_manual(NULL);
    sim_assert(spn__load(&runs, relaxed) == 0);
    check_end(3);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(limiter__executor_behind_closes__waiting_are_dropped, .dfs = 2,
              .dfs_models = SIM_SC)

static void shut_down(void *arg)
{
    (void)arg;
    sim_assert(spn_executor_shutdown(spn_limiter_executor(limiter)) == SPN_OK);
}

/* Shut down while tasks come: who awaits the end may destroy it at once. */
SCENARIO(limiter__shutdown_races_submit__await_sees_the_end, "G-17", "G-20")
{
    if (!create(spn_executor_direct(), 1, 1))
        return;
    sim_thread(submit, &tasks[0]);
    sim_thread(shut_down, NULL);
    sim_assert(spn_executor_await(spn_limiter_executor(limiter), SPN_FOREVER) ==
               SPN_OK);
    sim_assert(spn_executor_get_state(spn_limiter_executor(limiter)) ==
               SPN_EXECUTOR_TERMINATED);
    sim_join_all();
    check_end(1);
}
SCENARIO_OPTS(limiter__shutdown_races_submit__await_sees_the_end, .dfs = 2,
              .dfs_models = SIM_SC)

static void count_unrun(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    (void)ctx;
    (void)task;
    (void)spn__fetch_add(&taken_back, 1, relaxed);
}

static void stop(void *arg)
{
    int64_t count = 0;

    (void)arg;
    sim_assert(spn_executor_shutdown_now(spn_limiter_executor(limiter), count_unrun,
                                         NULL, &count) == SPN_OK);
    sim_assert(count <= 2);
}

/* shutdown_now while one is being run: each runs or is given back. */
SCENARIO(limiter__shutdown_now_races_run__each_run_or_returned, "G-20")
{
    if (!create_over_manual(1, 1))
        return;
    submit(&tasks[0]);
    submit(&tasks[1]);
    sim_thread(run_all, NULL);
    stop(NULL);
    sim_join_all();
    run_all(NULL);
    sim_assert(spn__load(&runs, relaxed) + spn__load(&taken_back, relaxed) == 2);
    sim_assert(spn_executor_is_terminated(spn_limiter_executor(limiter)) == 1);
    check_end(2);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(limiter__shutdown_now_races_run__each_run_or_returned, .dfs = 2,
              .dfs_models = SIM_SC)
