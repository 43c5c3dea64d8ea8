/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool_tray.c - a task that goes past the queue to the worker that looks for one
 * (tray.c), against all that could come in between.
 *
 * The worker is there and has run a task before each scenario begins, so that it looks, and
 * lies down, while the others act.  What a submitter wrote before it submitted is a relaxed
 * store, read relaxed by the task: nothing but the way of the task orders the two.
 */
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"

enum { TASKS = 5, SUBMITTERS = 2 };

struct item {
    spn_job job; /* first */
    SPN__ATOMIC(int) written, ran, dropped, returned, accepted;
    SPN__ATOMIC(int) turn; /* the how-many-th to run */
};

static spn_pool *pool;
static struct item items[TASKS];
static SPN__ATOMIC(int) turns;

static int run(spn_task *task)
{
    struct item *i = (struct item *)(void *)task;

    sim_assert(spn__load(&i->written, relaxed) == 1);
    spn__store(&i->turn, spn__fetch_add(&turns, 1, relaxed) + 1, relaxed);
    (void)spn__fetch_add(&i->ran, 1, relaxed);
    return 0;
}

static void drop(spn_task *task, int reason)
{
    sim_assert(reason < 0);
    (void)spn__fetch_add(&((struct item *)(void *)task)->dropped, 1, relaxed);
}

static void take_back(void *ctx, spn_task *task)
{
    (void)ctx;
    (void)spn__fetch_add(&((struct item *)(void *)task)->returned, 1, relaxed);
}

static int submit(int n)
{
    struct item *i = &items[n];
    int rc;

    spn__store(&i->written, 1, relaxed);
    rc = spn_executor_execute(spn_pool_executor(pool), &i->job.task);
    if (rc == SPN_OK)
        (void)spn__fetch_add(&i->accepted, 1, relaxed);
    return rc;
}

static bool has_run(int n)
{
    return spn__load(&items[n].ran, relaxed) != 0;
}

/* A pool whose worker has run the last of the tasks. */
static void open_pool(int32_t core, int32_t max)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    o.core_threads = core;
    o.max_threads = max;
    o.queue_capacity = SPN_UNBOUNDED;
    o.keep_alive_ns = SPN_MS(1);
    spn__init(&turns, 0);
    for (int n = 0; n < TASKS; n++) {
        struct item *i = &items[n];

        i->job = (spn_job)SPN_JOB_INIT(run, drop);
        spn__init(&i->written, 0);
        spn__init(&i->ran, 0);
        spn__init(&i->dropped, 0);
        spn__init(&i->returned, 0);
        spn__init(&i->accepted, 0);
        spn__init(&i->turn, 0);
    }
    sim_assert(spn_pool_create(&pool, &o) == SPN_OK);
    sim_assert(pool->has_tray);
    sim_assert(submit(TASKS - 1) == SPN_OK);
    while (!has_run(TASKS - 1))
        spn__cpu_relax();
}

/* Whatever was accepted has met one fate, once, and is counted. */
static void close_pool(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int64_t accepted = 0;

    if (spn_pool_is_shutdown(pool) == 0)
        (void)spn_pool_shutdown(pool);
    sim_assert(spn_pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    for (int n = 0; n < TASKS; n++) {
        const int a = spn__load(&items[n].accepted, relaxed);

        sim_assert(spn__load(&items[n].ran, relaxed) +
                       spn__load(&items[n].dropped, relaxed) +
                       spn__load(&items[n].returned, relaxed) ==
                   a);
        sim_assert(items[n].job.task.queued == 0);
        accepted += a;
    }
    sim_assert(s.accepted == accepted && s.pending == 0 && s.queued == 0);
    sim_assert(spn__load(&pool->tray, relaxed) == 0);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

/* Its two, in order. */
static void submit_two(void *arg)
{
    const int first = 2 * (int)(intptr_t)arg;

    sim_assert(submit(first) == SPN_OK);
    sim_assert(submit(first + 1) == SPN_OK);
}

static int turn_of(int n)
{
    return spn__load(&items[n].turn, relaxed);
}

/* With one worker they start in the order in which a thread submitted them, whichever way
 * each of them went. */
SCENARIO(pool_tray__two_submitters__in_order_and_once, "TPE-13 TPE-18")
{
    open_pool(1, 1);
    for (intptr_t s = 0; s < SUBMITTERS; s++)
        sim_thread(submit_two, (void *)s);
    while (!has_run(1) || !has_run(3))
        spn__cpu_relax();
    sim_join_all();
    close_pool();
    sim_assert(turn_of(0) < turn_of(1) && turn_of(2) < turn_of(3));
}
SCENARIO_OPTS(pool_tray__two_submitters__in_order_and_once, .max_steps = 60000)

/* With two workers, of which one looks, none is forgotten. */
SCENARIO(pool_tray__two_workers__none_is_forgotten, "TPE-13 P4 P39")
{
    open_pool(2, 2);
    for (intptr_t s = 0; s < SUBMITTERS; s++)
        sim_thread(submit_two, (void *)s);
    while (!has_run(0) || !has_run(1) || !has_run(2) || !has_run(3))
        spn__cpu_relax();
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_tray__two_workers__none_is_forgotten, .max_steps = 60000)

static void try_one(void *arg)
{
    const int rc = submit((int)(intptr_t)arg);

    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED);
}

/* Against the end: accepted and run, given back, or refused. */
SCENARIO(pool_tray__shutdown_meets_it__runs_or_is_refused, "TPE-13 TPE-50 TPE-61 P3")
{
    open_pool(1, 1);
    sim_thread(try_one, (void *)0);
    sim_thread(try_one, (void *)1);
    sim_assert(spn_pool_shutdown(pool) == SPN_OK);
    sim_assert(submit(2) == SPN_EREJECTED);
    sim_join_all();
    close_pool();
}

SCENARIO(pool_tray__shutdown_now_meets_it__one_fate, "TPE-52 TPE-62 P3")
{
    open_pool(1, 1);
    sim_thread(try_one, (void *)0);
    sim_thread(try_one, (void *)1);
    sim_assert(spn_pool_shutdown_now(pool, take_back, NULL, NULL) >= 0);
    sim_assert(submit(2) == SPN_EREJECTED);
    sim_join_all();
    close_pool();
}

/* The worker goes when its keep-alive is over, or when there is one too many. */
SCENARIO(pool_tray__worker_leaves__none_is_lost, "TPE-30 TPE-35 P1")
{
    open_pool(0, 2);
    sim_thread(submit_two, (void *)0);
    sim_thread(submit_two, (void *)1);
    sim_assert(spn_pool_set_max_threads(pool, 1) == SPN_OK);
    while (!has_run(0) || !has_run(1) || !has_run(2) || !has_run(3))
        spn__cpu_relax();
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_tray__worker_leaves__none_is_lost, .max_steps = 60000)

/* Of what is submitted to a pool that is paused one may start, which a worker has just
 * taken, and no second one; all do when it goes on. */
SCENARIO(pool_tray__after_a_pause__one_at_most, "P15 P44")
{
    open_pool(1, 1);
    sim_thread(try_one, (void *)0);
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_assert(submit(1) == SPN_OK);
    sim_assert(submit(2) == SPN_OK);
    for (int i = 0; i < 3; i++) {
        sim_assert(!has_run(1) || !has_run(2));
        spn__cpu_relax();
    }
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    while (!has_run(0) || !has_run(1) || !has_run(2))
        spn__cpu_relax();
    sim_join_all();
    close_pool();
}

/* Counted as soon as it is accepted. */
SCENARIO(pool_tray__asked_meanwhile__is_accepted, "TPE-13")
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    open_pool(1, 1);
    sim_thread(try_one, (void *)1);
    sim_assert(submit(0) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.accepted >= 2 && s.completed <= s.accepted);
    sim_assert(s.pending + s.completed == s.accepted);
    sim_join_all();
    close_pool();
}

static SPN__ATOMIC(int) let_go;

static int hold(spn_task *task)
{
    while (spn__load(&let_go, relaxed) == 0)
        spn__cpu_relax();
    return run(task);
}

/* The submitter of one that has run is on its way out; another one runs: that is pending. */
SCENARIO(pool_tray__asked_while_one_is_held__is_pending, "TPE-13")
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    open_pool(1, 1);
    spn__init(&let_go, 0);
    items[1].job.task.fn = hold;
    sim_thread(try_one, (void *)0);
    while (!has_run(0))
        spn__cpu_relax();
    sim_assert(submit(1) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    spn__store(&let_go, 1, relaxed);
    sim_assert(s.pending >= 1);
    sim_join_all();
    close_pool();
}

/* A picture as the task is taken off: it is one task. */
SCENARIO(pool_tray__asked_as_it_is_taken__counted_once, "TPE-13")
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int64_t before;

    open_pool(1, 1);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    before = s.accepted;
    sim_thread(try_one, (void *)0);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.accepted >= before && s.accepted <= before + 1);
    sim_join_all();
    close_pool();
}

/* One worker after the other has the tray, and counts on. */
SCENARIO(pool_tray__of_two_workers_in_turn__each_is_counted, "TPE-13")
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int64_t before;

    open_pool(2, 2);
    sim_assert(spn_pool_prestart_all(pool) == 1);
    spn__init(&let_go, 0);
    items[0].job.task.fn = hold;
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    before = s.accepted;
    for (int n = 0; n < 3; n++) {
        sim_assert(submit(n) == SPN_OK);
        while (n > 0 && !has_run(n))
            spn__cpu_relax();
    }
    spn__store(&let_go, 1, relaxed);
    while (!has_run(0))
        spn__cpu_relax();
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.accepted == before + 3);
    close_pool();
}

static void submit_held(void *arg)
{
    (void)arg;
    sim_assert(submit(0) == SPN_OK);
}

/* The number that one worker has left is seen by who finds the next one counting: what it
 * submitted itself is in the picture. */
SCENARIO(pool_tray__asked_while_a_second_worker_counts__has_its_own, "TPE-13")
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int64_t before;

    open_pool(2, 2);
    spn__init(&let_go, 0);
    items[0].job.task.fn = hold;
    items[1].job.task.fn = hold;
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    before = s.accepted;
    sim_thread(submit_held, NULL);
    (void)spn_pool_prestart_all(pool);
    sim_assert(submit(1) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.accepted >= before + 1);
    spn__store(&let_go, 1, relaxed);
    sim_join_all();
    while (!has_run(0) || !has_run(1))
        spn__cpu_relax();
    close_pool();
}
SCENARIO_OPTS(pool_tray__asked_while_a_second_worker_counts__has_its_own,
              .models = SIM_C11, .schedules = 12000)
