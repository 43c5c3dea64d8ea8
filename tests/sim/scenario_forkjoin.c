/* SPDX-License-Identifier: MIT */
/*
 * scenario_forkjoin.c - the fork/join pool: who sleeps and who wakes, quiescence, helping,
 * the end.  The pool's threads are fibers like all others.
 */
#include "sim.h"

#include <string.h>

#include "forkjoin/pool.h"
#include "future/executor.h"

static spn_fj_pool *pool;
static SPN__ATOMIC(int) ran[4], data[4], stolen;

static bool set_up_spare(int32_t parallelism, int32_t spare)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;

    for (int i = 0; i < 4; i++) {
        spn__init(&ran[i], 0);
        spn__init(&data[i], 0);
    }
    spn__init(&stolen, 0);
    opts.parallelism = parallelism;
    opts.spare_threads = spare;
    opts.records = 4;
    return spn_fj_pool_create(&pool, &opts) == SPN_OK;
}

static bool set_up(int32_t parallelism)
{
    return set_up_spare(parallelism, SPN_DEFAULT);
}

static void tear_down(void)
{
    sim_assert(spn_executor_shutdown(spn_fj_pool_executor(pool)) == SPN_OK);
    while (spn_executor_await(spn_fj_pool_executor(pool), SPN_FOREVER) != SPN_OK)
        spn__cpu_relax(); /* no memory for this thread's record */
    sim_assert(spn_fj_pool_destroy(pool) == SPN_OK);
}

/* Taken, or refused for want of memory or a thread. */
static bool taken(int rc)
{
    sim_assert(rc == SPN_OK || rc == SPN_EAGAIN || rc == SPN_ENOMEM ||
               rc == SPN_EREJECTED);
    return rc == SPN_OK;
}

/* Ended as it should, or for want of memory for its records. */
static bool ended_well(int rc)
{
    sim_assert(rc == SPN_OK || rc == SPN_ENOMEM);
    return rc == SPN_OK;
}

static bool is_done(spn_fj_task *task)
{
    return spn_fj_task_get(task, NULL, 0) != SPN_ETIMEDOUT;
}

static bool is_at_rest(void)
{
    spn_fj_stats stats = SPN_FJ_STATS_INIT;

    sim_assert(spn_fj_pool_stats_get(pool, &stats) == SPN_OK);
    return stats.pending == 0;
}

static void await_quiescence(void)
{
    int rc;

    while ((rc = spn_fj_pool_await_quiescence(pool, SPN_FOREVER)) == SPN_ENOMEM)
        spn__cpu_relax(); /* as in tear_down */
    sim_assert(rc == SPN_OK);
}

SPN_FJ_TASK(int, leaf, int, i)
{
    sim_assert(spn__load(&data[i], relaxed) == i + 1);
    (void)spn__fetch_add(&ran[i], 1, relaxed);
    return i;
}

static void give(spn_fj *fj, int i)
{
    spn__store(&data[i], i + 1, relaxed);
    leaf_fork(fj, i);
}

/* ---- records ----------------------------------------------------------------------- */

SPN_FJ_TASK(int, three, int, unused)
{
    int sum = unused;

    give(&fj, 1);
    give(&fj, 2);
    spn__store(&data[3], 4, relaxed);
    sum += leaf(fj, 3);
    sum += leaf_join(&fj);
    return sum + leaf_join(&fj);
}

/* A tree from outside: each record is run once, whoever runs it, and the pool ends. */
SCENARIO(forkjoin__tree_from_outside__whole, "FJT-28", "FJP-5", "FJP-13")
{
    int sum = 0, rc;

    if (!set_up(2))
        return;
    rc = three_invoke(pool, &sum, 0);
    if (taken(rc)) {
        sim_assert(sum == 6);
        for (int i = 1; i < 4; i++)
            sim_assert(spn__load(&ran[i], relaxed) == 1);
    }
    tear_down();
}
SCENARIO_OPTS(forkjoin__tree_from_outside__whole, .faults = true)

SPN_FJ_TASK(int, other, int, i)
{
    spn__store(&stolen, 1, relaxed);
    return i;
}

/* Forks and joins small ones until somebody has taken the large one. */
SPN_FJ_TASK(int, until_stolen, int, i)
{
    other_fork(&fj, 1);
    while (spn__load(&stolen, relaxed) == 0) {
        spn__store(&data[0], 1, relaxed);
        leaf_fork(&fj, 0);
        (void)leaf_join(&fj);
        spn__cpu_relax();
    }
    return other_join(&fj) + i;
}

/* What a worker forks in private is had by another that sleeps, however the fork and the
 * falling asleep fall together: the question is never lost. */
SCENARIO(forkjoin__private_work_while_others_go_to_sleep__is_shared, "FJP-25")
{
    int got = 0;

    if (!set_up(2))
        return;
    spn__store(&data[0], 1, relaxed);
    sim_assert(leaf_invoke(pool, NULL, 0) == SPN_OK); /* a worker that goes to sleep */
    sim_assert(until_stolen_invoke(pool, &got, 2) == SPN_OK);
    sim_assert(got == 3);
    tear_down();
}
SCENARIO_OPTS(forkjoin__private_work_while_others_go_to_sleep__is_shared,
              .max_steps = 60000, .no_faults = "waits for a second worker")

/* Stands in the way of one worker until the large one was taken. */
static int until_taken(spn_task *task)
{
    (void)task;
    while (spn__load(&stolen, relaxed) == 0)
        spn__cpu_relax();
    return 0;
}

static SPN__ATOMIC(int) met;

static int meet(spn_task *task)
{
    (void)task;
    (void)spn__fetch_add(&met, 1, relaxed);
    while (spn__load(&met, relaxed) < 3)
        spn__cpu_relax();
    return 0;
}

/* The owner of private work sees that somebody searches, and that one finds something
 * else: there is a third who sleeps, and gets the work. */
SCENARIO(forkjoin__searcher_finds_something_else__private_work_is_shared, "FJP-25")
{
    spn_task meets[3], blocks = SPN_TASK_INIT(until_taken, NULL);
    int got = 0;

    if (!set_up(3))
        return;
    spn__init(&met, 0);
    for (int i = 0; i < 3; i++) { /* all three workers are there, and go to sleep */
        meets[i] = (spn_task)SPN_TASK_INIT(meet, NULL);
        sim_assert(spn_executor_execute(spn_fj_pool_executor(pool), &meets[i]) ==
                   SPN_OK);
    }
    while (spn__load(&met, relaxed) < 3)
        spn__cpu_relax();
    if (sim_choose(2) == 0)
        sim_settle();
    sim_assert(spn_executor_execute(spn_fj_pool_executor(pool), &blocks) == SPN_OK);
    sim_assert(until_stolen_invoke(pool, &got, 2) == SPN_OK);
    sim_assert(got == 3);
    tear_down();
}
SCENARIO_OPTS(forkjoin__searcher_finds_something_else__private_work_is_shared,
              .max_steps = 60000, .schedules = 500,
              .no_faults = "waits for a third worker")

/* ---- objects ------------------------------------------------------------------------- */

static spn_fj_task object[3];

static int run_leaf(spn_fj fj, spn_fj_task *task)
{
    const int i = (int)(task - object);

    (void)fj;
    sim_assert(spn__load(&data[i], relaxed) == i + 1);
    sim_assert(spn__fetch_add(&ran[i], 1, relaxed) == 0);
    spn_fj_task_set_result(task, &ran[i]);
    return 0;
}

static int run_parent(spn_fj fj, spn_fj_task *task)
{
    int outcomes = 0;

    (void)fj;
    (void)task;
    for (int i = 1; i < 3; i++) {
        spn_fj_task_init(&object[i], run_leaf);
        spn__store(&data[i], i + 1, relaxed);
        sim_assert(spn_fj_task_fork(&object[i]) == SPN_OK);
    }
    for (int i = 1; i < 3; i++) {
        const int rc = spn_fj_task_join(&object[i]);

        sim_assert(rc == SPN_OK || rc == SPN_ENOMEM); /* for its records */
        sim_assert(spn__load(&ran[i], relaxed) == (rc == SPN_OK));
        outcomes += rc;
    }
    sim_outcome(outcomes != 0);
    (void)spn__fetch_add(&ran[0], 1, relaxed);
    return 0;
}

/* Objects are joined in any order, with one worker or two. */
static void joined(int32_t parallelism)
{
    int rc;

    if (!set_up(parallelism))
        return;
    spn_fj_task_init(&object[0], run_parent);
    rc = spn_fj_pool_submit(pool, &object[0]);
    if (rc == SPN_OK)
        rc = spn_fj_task_join(&object[0]);
    sim_assert(!taken(rc) || spn__load(&ran[0], relaxed) == 1);
    tear_down();
}

SCENARIO(forkjoin__objects_joined_in_any_order__one_worker, "FJT-27", "FJT-4")
{
    joined(1);
}
SCENARIO_OPTS(forkjoin__objects_joined_in_any_order__one_worker, .faults = true)

SCENARIO(forkjoin__objects_joined_in_any_order__two_workers, "FJT-27", "FJT-4")
{
    joined(2);
}
SCENARIO_OPTS(forkjoin__objects_joined_in_any_order__two_workers, .faults = true)

static int run_nothing(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    return 0;
}

static int run_middle(spn_fj fj, spn_fj_task *task)
{
    int rc;

    (void)fj;
    (void)task;
    spn__store(&data[2], 3, relaxed);
    sim_assert(spn_fj_task_fork(&object[2]) == SPN_OK);
    rc = spn_fj_task_join(&object[2]);
    sim_assert(spn__load(&ran[2], relaxed) == ended_well(rc));
    return rc;
}

static int run_top(spn_fj fj, spn_fj_task *task)
{
    int rc;

    (void)fj;
    (void)task;
    sim_assert(spn_fj_task_fork(&object[1]) == SPN_OK);
    if (sim_choose(2) == 0)
        spn__cpu_relax(); /* somebody takes it */
    rc = spn_fj_task_join(&object[1]);
    return ended_well(rc) ? 0 : rc;
}

/* The joiner of an object that another runs takes what that one has forked since, once. */
SCENARIO(forkjoin__join_of_a_stolen_object__helps_with_what_it_forked, "FJT-27",
         "FJT-4")
{
    if (!set_up(2))
        return;
    spn_fj_task_init(&object[0], run_top);
    spn_fj_task_init(&object[1], run_middle);
    spn_fj_task_init(&object[2], run_leaf);
    if (taken(spn_fj_pool_submit(pool, &object[0])))
        (void)taken(spn_fj_task_join(&object[0]));
    tear_down();
}
SCENARIO_OPTS(forkjoin__join_of_a_stolen_object__helps_with_what_it_forked,
              .faults = true, .schedules = 500)

static SPN__ATOMIC(int) joiner; /* 1 + the worker that joins, and runs nothing else */

static int run_sibling(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    sim_assert(spn__load(&joiner, relaxed) != 1 + spn_fj_worker_index());
    return 0;
}

static int run_pair(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    sim_assert(spn_fj_task_fork(&object[1]) == SPN_OK);
    sim_assert(spn_fj_task_fork(&object[2]) == SPN_OK);
    spn__store(&ran[3], 1, relaxed);
    (void)spn_fj_task_join(&object[1]);
    (void)spn_fj_task_join(&object[2]);
    return 0;
}

static int run_joiner(spn_task *task)
{
    (void)task;
    while (spn__load(&ran[3], relaxed) == 0)
        spn__cpu_relax();
    spn__store(&joiner, 1 + spn_fj_worker_index(), relaxed);
    (void)spn_fj_task_join(&object[1]);
    spn__store(&joiner, 0, relaxed);
    return 0;
}

/* Two join an object, and one of them runs it, out of its turn: the other does not take
 * what was forked beside it.  (Pitfall P7.) */
SCENARIO(forkjoin__joined_by_two__neither_takes_a_sibling, "FJT-27", "P7")
{
    spn_task joins = SPN_TASK_INIT(run_joiner, NULL);

    if (!set_up_spare(2, 0))
        return;
    spn__init(&joiner, 0);
    spn_fj_task_init(&object[0], run_pair);
    spn_fj_task_init(&object[1], run_nothing);
    spn_fj_task_init(&object[2], run_sibling);
    sim_assert(spn_fj_pool_submit(pool, &object[0]) == SPN_OK);
    sim_assert(spn_executor_execute(spn_fj_pool_executor(pool), &joins) == SPN_OK);
    await_quiescence();
    tear_down();
}
SCENARIO_OPTS(forkjoin__joined_by_two__neither_takes_a_sibling, .max_steps = 60000,
              .schedules = 1000, .no_faults = "waits for a second worker")

/* Who sees by its state that the pool has ended sees what its tasks did. */
SCENARIO(forkjoin__seen_to_have_ended__so_is_what_it_did, "FJP-13")
{
    if (!set_up(1))
        return;
    spn__store(&data[0], 1, relaxed);
    spn_fj_task_init(&object[0], run_leaf);
    if (taken(spn_fj_pool_submit(pool, &object[0]))) {
        sim_assert(spn_executor_shutdown(spn_fj_pool_executor(pool)) == SPN_OK);
        while (spn_executor_is_terminated(spn_fj_pool_executor(pool)) == 0)
            spn__cpu_relax();
        sim_assert(spn__load(&ran[0], relaxed) ==
                   ended_well(spn_fj_task_error(&object[0])));
    }
    tear_down();
}
SCENARIO_OPTS(forkjoin__seen_to_have_ended__so_is_what_it_did, .faults = true,
              .schedules = 500)

/* A parent that does not wait for its child. */
static int run_careless(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    spn_fj_task_init(&object[1], run_leaf);
    spn__store(&data[1], 2, relaxed);
    sim_assert(spn_fj_task_fork(&object[1]) == SPN_OK);
    return 0;
}

/* Quiescence is not seen while a task is between being taken and being run, nor while
 * what it forked is: neither by asking nor by waiting. */
SCENARIO(forkjoin__quiescence__never_lies, "FJP-10", "FJP-34", "FJP-9", "FJP-8")
{
    if (!set_up(2))
        return;
    spn_fj_task_init(&object[0], run_careless);
    if (!taken(spn_fj_pool_submit(pool, &object[0]))) {
        tear_down();
        return;
    }
    if (sim_choose(2) == 0) {
        await_quiescence();
    } else {
        while (!is_at_rest())
            spn__cpu_relax();
    }
    sim_assert(is_done(&object[0]));
    if (ended_well(spn_fj_task_error(&object[0]))) {
        sim_assert(is_done(&object[1]));
        sim_assert(spn__load(&ran[1], relaxed) ==
                   ended_well(spn_fj_task_error(&object[1])));
    }
    tear_down();
}
SCENARIO_OPTS(forkjoin__quiescence__never_lies, .max_steps = 60000, .faults = true)

/* Blocks until the other has come, for which somebody must stand in. */
static int run_blocked(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    spn_fj_block_begin();
    while (spn__load(&ran[3], relaxed) == 0)
        spn__cpu_relax();
    spn_fj_block_end();
    return 0;
}

static int run_stand_in(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    spn__store(&ran[3], 1, relaxed);
    for (int i = 0; i < 3; i++)
        spn__cpu_relax(); /* the other goes on, and there is one thread too many */
    return 0;
}

/* The last task ends on a thread that is one too many and looks for nothing more: who
 * waits for rest is told by it. */
SCENARIO(forkjoin__one_too_many_ends_last__who_waits_for_rest_is_told, "FJP-9",
         "FJP-23")
{
    const int64_t begun = sim_now();

    if (!set_up_spare(1, 1))
        return;
    spn_fj_task_init(&object[0], run_blocked);
    spn_fj_task_init(&object[1], run_stand_in);
    sim_assert(spn_fj_pool_submit(pool, &object[0]) == SPN_OK);
    sim_assert(spn_fj_pool_submit(pool, &object[1]) == SPN_OK);
    await_quiescence();
    sim_assert(is_done(&object[0]));
    sim_assert(is_done(&object[1]));
    sim_assert(sim_now() - begun <
               SPN_MS(1000)); /* not by the keep-alive of a worker */
    tear_down();
}
SCENARIO_OPTS(forkjoin__one_too_many_ends_last__who_waits_for_rest_is_told,
              .max_steps = 60000, .early = SIM_NEVER, .schedules = 1000,
              .no_faults = "waits for a second thread")

static void cancels(void *arg)
{
    (void)arg;
    (void)spn_fj_task_cancel(&object[0], 0);
}

/* An object is ended while its pool is shut down and comes to its end: who waits for that,
 * or for rest, is told, and the object has one end.  (To end it is a call on the pool,
 * which is destroyed afterwards.) */
SCENARIO(forkjoin__cancelled_while_the_pool_ends__all_are_told, "FJP-14", "FJP-9")
{
    int cancelling = -1, rc;

    if (!set_up(1))
        return;
    spn__store(&data[0], 1, relaxed);
    spn_fj_task_init(&object[0], run_leaf);
    if (taken(spn_fj_pool_submit(pool, &object[0]))) {
        cancelling = sim_thread(cancels, NULL);
        if (sim_choose(2) == 0)
            await_quiescence();
    }
    sim_assert(spn_executor_shutdown(spn_fj_pool_executor(pool)) == SPN_OK);
    while ((rc = spn_executor_await(spn_fj_pool_executor(pool), SPN_FOREVER)) != SPN_OK)
        spn__cpu_relax(); /* as in tear_down */
    if (cancelling >= 0) {
        sim_join(cancelling);
        rc = spn_fj_task_join(&object[0]);
        sim_assert(rc == SPN_ECANCELED || ended_well(rc));
        sim_assert(rc == SPN_ECANCELED ||
                   spn__load(&ran[0], relaxed) == (rc == SPN_OK));
    }
    sim_assert(spn_fj_pool_destroy(pool) == SPN_OK);
}
SCENARIO_OPTS(forkjoin__cancelled_while_the_pool_ends__all_are_told, .faults = true,
              .schedules = 500)

/* Forks one that nobody joins. */
static void fork_orphan(void)
{
    spn__store(&data[1], 2, relaxed);
    sim_assert(spn_fj_task_fork(&object[1]) == SPN_OK);
}

static void help_to_rest(void)
{
    sim_assert(spn_fj_pool_await_quiescence(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(is_done(&object[1]));
}

static int run_forking_helper(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    fork_orphan();
    help_to_rest();
    return 0;
}

static int run_helper(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    help_to_rest();
    return 0;
}

/* Two tasks help the pool to rest, and do not count on each other too soon: what the one
 * forked before it began to help the other waits for. */
SCENARIO(forkjoin__two_help_to_rest__neither_returns_early, "FJP-34", "FJP-9")
{
    if (!set_up(2))
        return;
    spn_fj_task_init(&object[0], run_forking_helper);
    spn_fj_task_init(&object[1], run_leaf);
    spn_fj_task_init(&object[2], run_helper);
    sim_assert(spn_fj_pool_submit(pool, &object[0]) == SPN_OK);
    sim_assert(spn_fj_pool_submit(pool, &object[2]) == SPN_OK);
    sim_assert(spn_fj_task_join(&object[0]) == SPN_OK);
    sim_assert(spn_fj_task_join(&object[2]) == SPN_OK);
    tear_down();
}
SCENARIO_OPTS(forkjoin__two_help_to_rest__neither_returns_early, .max_steps = 60000,
              .no_faults = "one asserts that the other has forked", .schedules = 1000)

SPN_FJ_ACTION(helps, int, unused)
{
    (void)unused;
    (void)fj;
    help_to_rest();
}

SPN_FJ_TASK(int, tree_that_helps, int, too)
{
    fork_orphan();
    helps_fork(&fj, 0);
    if (too)
        help_to_rest();
    helps_join(&fj);
    return 1;
}

static int run_tree(spn_task *task)
{
    int got = 0;

    (void)task;
    if (taken(tree_that_helps_invoke(pool, &got, (int)sim_choose(2))))
        sim_assert(got == 1);
    return 0;
}

/* A record helps the pool to rest, stolen or not: it does not wait for its own root, nor
 * for what that stands in, and counts them once if they help as well. */
SCENARIO(forkjoin__stolen_record_helps_to_rest__not_waiting_for_its_root, "FJP-34",
         "FJP-9")
{
    spn_task plain = SPN_TASK_INIT(run_tree, NULL);

    if (!set_up(2))
        return;
    spn_fj_task_init(&object[1], run_leaf);
    if (sim_choose(2) == 0) {
        (void)run_tree(NULL);
    } else {
        (void)taken(spn_executor_execute(spn_fj_pool_executor(pool), &plain));
        await_quiescence();
    }
    tear_down();
}
SCENARIO_OPTS(forkjoin__stolen_record_helps_to_rest__not_waiting_for_its_root,
              .max_steps = 60000, .faults = true, .schedules = 1000)

static void completes(void *arg)
{
    (void)arg;
    spn__store(&data[1], 9, relaxed);
    sim_outcome((unsigned)spn_fj_task_complete(&object[0], &data[1]));
}

/* Two that race to end a task: one wins, and whoever waits, with a timeout or without,
 * is released and sees what came before; then the task is gone. */
SCENARIO(forkjoin__ended_by_two__one_wins_and_all_are_released, "FJT-29")
{
    void *result = NULL;
    int rc;

    spn__init(&data[1], 0);
    spn_fj_task_init(&object[0], NULL);
    sim_thread(completes, NULL);
    sim_thread(cancels, NULL);
    rc = sim_choose(2) == 0 ? spn_fj_task_get(&object[0], &result, SPN_FOREVER)
                            : spn_fj_task_get(&object[0], &result, SPN_MS(1));
    if (rc == SPN_OK)
        sim_assert(result == &data[1] && spn__load(&data[1], relaxed) == 9);
    else /* the last: no memory for this thread's record */
        sim_assert(rc == SPN_ECANCELED || rc == SPN_ETIMEDOUT || rc == SPN_ENOMEM);
    sim_join_all();
    sim_assert(is_done(&object[0]));
}
SCENARIO_OPTS(forkjoin__ended_by_two__one_wins_and_all_are_released, .dfs = 1,
              .dfs_models = SIM_SC, .faults = true)

/* An object is completed while a worker takes it out, whoever comes second says that it is
 * done: the result, and what came before it, is there then. */
SCENARIO(forkjoin__completed_while_it_is_taken_out__result_comes_with_it, "FJT-12",
         "FJT-29")
{
    void *result = NULL;
    int rc;

    if (!set_up(1))
        return;
    spn__store(&data[0], 1, relaxed);
    spn_fj_task_init(&object[0], run_leaf);
    if (taken(spn_fj_pool_submit(pool, &object[0]))) {
        sim_thread(completes, NULL);
        rc = spn_fj_task_get(&object[0], &result, SPN_FOREVER);
        if (rc == SPN_OK && result == &data[1])
            sim_assert(spn__load(&data[1], relaxed) == 9);
        sim_join_all();
    }
    tear_down();
}
SCENARIO_OPTS(forkjoin__completed_while_it_is_taken_out__result_comes_with_it,
              .faults = true, .schedules = 1000)

static int run_failing(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    return -77;
}

static int run_all_and_free(spn_fj fj, spn_fj_task *task)
{
    spn_fj_task *tasks[2] = { spn__alloc(sizeof(spn_fj_task)),
                              spn__alloc(sizeof(spn_fj_task)) };

    (void)fj;
    (void)task;
    if (tasks[0] != NULL && tasks[1] != NULL) {
        spn_fj_task_init(tasks[0], run_failing);
        spn_fj_task_init(tasks[1], run_nothing);
        sim_assert(spn_fj_invoke_all(tasks, 2) != SPN_OK);
    }
    spn__free(tasks[0]);
    spn__free(tasks[1]);
    return 0;
}

/* One of several fails: who called may free them all, though another worker has just taken
 * one out of the queue, or runs it. */
SCENARIO(forkjoin__invoke_all_fails__all_may_be_freed, "FJT-18", "FJT-29")
{
    if (!set_up(2))
        return;
    spn_fj_task_init(&object[0], run_all_and_free);
    if (taken(spn_fj_pool_submit(pool, &object[0])))
        (void)spn_fj_task_join(&object[0]);
    tear_down();
}
SCENARIO_OPTS(forkjoin__invoke_all_fails__all_may_be_freed, .faults = true,
              .schedules = 1000)

/* What is submitted while the pool is stopped ends: run, cancelled or refused. */
static void stops(void *arg)
{
    (void)arg;
    sim_assert(spn_executor_shutdown_now(spn_fj_pool_executor(pool), NULL, NULL,
                                         NULL) == SPN_OK);
}

SCENARIO(forkjoin__stopped_while_submitted_to__every_object_ends, "FJP-15", "FJP-14")
{
    int rc;

    if (!set_up(1))
        return;
    spn__store(&data[0], 1, relaxed);
    spn_fj_task_init(&object[0], run_leaf);
    sim_thread(stops, NULL);
    if (taken(spn_fj_pool_submit(pool, &object[0]))) {
        rc = spn_fj_task_join(&object[0]);
        sim_assert(rc == SPN_ECANCELED || taken(rc));
        sim_assert((rc == SPN_OK) == (spn__load(&ran[0], relaxed) == 1));
    }
    sim_join_all();
    tear_down();
}
SCENARIO_OPTS(forkjoin__stopped_while_submitted_to__every_object_ends, .faults = true)

/* What a body forks while the pool is stopped, and does not join, ends as well; and the
 * pool comes to rest. */
SCENARIO(forkjoin__stopped_while_a_body_forks__every_object_ends, "FJP-15", "FJP-9")
{
    int rc;

    if (!set_up(1))
        return;
    spn__store(&data[1], 2, relaxed);
    spn_fj_task_init(&object[0], run_careless);
    spn_fj_task_init(&object[1], run_leaf);
    if (!taken(spn_fj_pool_submit(pool, &object[0]))) {
        tear_down();
        return;
    }
    sim_thread(stops, NULL);
    await_quiescence();
    rc = spn_fj_task_join(&object[0]);
    sim_assert(rc == SPN_ECANCELED || taken(rc));
    if (rc == SPN_OK) {
        rc = spn_fj_task_join(&object[1]);
        sim_assert(rc == SPN_ECANCELED || taken(rc));
    }
    sim_join_all();
    tear_down();
}
SCENARIO_OPTS(forkjoin__stopped_while_a_body_forks__every_object_ends, .faults = true)

static void submits(void *arg)
{
    const int rc = spn_fj_pool_submit(pool, &object[0]);

    (void)arg;
    sim_assert(rc == SPN_EBUSY || taken(rc) || rc != SPN_EREJECTED);
    (void)spn__fetch_add(&ran[1], rc == SPN_OK, relaxed);
}

/* Two that submit the same object: one is refused, and that changes nothing; ended
 * then it is in no queue. */
SCENARIO(forkjoin__submitted_by_two__one_is_refused, "FJT-29", "FJP-15")
{
    if (!set_up(1))
        return;
    spn__store(&data[0], 1, relaxed);
    spn_fj_task_init(&object[0], run_leaf);
    sim_thread(submits, NULL);
    submits(NULL);
    sim_join_all();
    (void)spn_fj_task_cancel(&object[0], 0);
    (void)spn_fj_task_join(&object[0]);
    if (spn__load(&ran[1], relaxed) == 1) /* else it was taken again when it had run */
        sim_assert(spn__load(spn__task_queued(&object[0].task), relaxed) == 0);
    await_quiescence();
    tear_down();
}
SCENARIO_OPTS(forkjoin__submitted_by_two__one_is_refused, .faults = true)

static void removes(void *arg)
{
    (void)arg;
    sim_outcome(
        (unsigned)spn_executor_remove(spn_fj_pool_executor(pool), &object[0].task));
}

/* An object is taken back and cancelled at once: it is in no queue then, and has an end. */
SCENARIO(forkjoin__removed_while_cancelled__has_an_end, "FJP-17", "FJT-29")
{
    int rc;

    if (!set_up(1))
        return;
    for (int i = 0; i < 2; i++) {
        spn__store(&data[i], i + 1, relaxed);
        spn_fj_task_init(&object[i], run_leaf);
    }
    /* The first has the worker, so that the other waits. */
    if (taken(spn_fj_pool_submit(pool, &object[1])) &&
        taken(spn_fj_pool_submit(pool, &object[0]))) {
        sim_thread(removes, NULL);
        sim_thread(cancels, NULL);
        sim_join_all();
        rc = spn_fj_task_join(&object[0]);
        sim_assert(rc == SPN_ECANCELED || ended_well(rc));
    }
    tear_down();
}
SCENARIO_OPTS(forkjoin__removed_while_cancelled__has_an_end, .faults = true,
              .schedules = 500)

/* ---- no keep-alive ------------------------------------------------------------------- */

static spn__futex_word gate;
static spn_task holding, passing;

static int hold_at_gate(spn_task *task)
{
    (void)task;
    while (spn__load(&gate, acquire) == 0)
        (void)spn__futex_wait(&gate, 0, SPN_FOREVER);
    return 0;
}

static int pass(spn_task *task)
{
    (void)task;
    (void)spn__fetch_add(&ran[0], 1, relaxed);
    return 0;
}

/* Shut down while a task runs long, whose forks are to find somebody: who stays for them
 * sleeps, however short its keep-alive is. */
SCENARIO(forkjoin__shut_down_without_keep_alive__who_stays_sleeps, "FJP-13")
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;

    spn__init(&gate, 0);
    spn__init(&ran[0], 0);
    opts.parallelism = 2;
    opts.keep_alive_ns = 0;
    opts.records = 4;
    sim_assert(spn_fj_pool_create(&pool, &opts) == SPN_OK);
    holding = (spn_task)SPN_TASK_INIT(hold_at_gate, NULL);
    passing = (spn_task)SPN_TASK_INIT(pass, NULL);
    spn__init((SPN__ATOMIC(uint32_t) *)(void *)&holding.queued, 0);
    spn__init((SPN__ATOMIC(uint32_t) *)(void *)&passing.queued, 0);
    sim_assert(spn_executor_execute(spn_fj_pool_executor(pool), &holding) == SPN_OK);
    sim_assert(spn_executor_execute(spn_fj_pool_executor(pool), &passing) == SPN_OK);
    sim_assert(spn_executor_shutdown(spn_fj_pool_executor(pool)) == SPN_OK);
    sim_settle(); /* it never came to that */
    sim_assert(spn__load(&ran[0], relaxed) == 1);
    spn__store(&gate, 1, release);
    spn__futex_wake(&gate, 1);
    sim_assert(spn_executor_await(spn_fj_pool_executor(pool), SPN_FOREVER) == SPN_OK);
    sim_assert(spn_fj_pool_destroy(pool) == SPN_OK);
}
SCENARIO_OPTS(forkjoin__shut_down_without_keep_alive__who_stays_sleeps,
              .no_faults = "it counts on its threads")
