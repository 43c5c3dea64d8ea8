/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool_tray.c - a task that goes past the queue to the worker that looks for one
 * (tray.c), against all that could come in between.
 *
 * The worker is there and has run a task before each scenario begins, so that it looks, and
 * lies down, while the others act.  What a submitter wrote before it submitted is a relaxed
 * store, read relaxed by the task: nothing but the way of the task orders the two.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"

enum { TASKS = 5, SUBMITTERS = 2, LOOKS = 2 };

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

static void take_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
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

    if (pool_is_shutdown(pool) == 0)
        (void)pool_shutdown(pool);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
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
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(submit(2) == SPN_EREJECTED);
    sim_join_all();
    close_pool();
}

SCENARIO(pool_tray__shutdown_now_meets_it__one_fate, "TPE-52 TPE-62 P3")
{
    open_pool(1, 1);
    sim_thread(try_one, (void *)0);
    sim_thread(try_one, (void *)1);
    sim_assert(pool_shutdown_now(pool, take_back, NULL, NULL) >= 0);
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
    sim_assert(pool_set_max(pool, 1) == SPN_OK);
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
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
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

/* ---- the tray alone ------------------------------------------------------------- */

/* A pool without a thread: who looks is one of ours, which neither pauses nor makes a fence.
 * Behind those it would see all that there is. */
static void open_tray(void)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    o.core_threads = 0;
    o.max_threads = 1;
    for (int n = 0; n < TASKS; n++) {
        items[n].job = (spn_job)SPN_JOB_INIT(run, drop);
        spn__init(&items[n].written, 0);
        spn__init(&items[n].ran, 0);
        spn__init(&items[n].turn, 0);
    }
    spn__init(&turns, 0);
    sim_assert(spn_pool_create(&pool, &o) == SPN_OK);
}

static void close_tray(void)
{
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

static void look(void *arg)
{
    struct spn__worker w = { .pool = pool };

    (void)arg;
    for (int n = 0; n < LOOKS; n++)
        if (spn__tray_put_out(&w) && spn__tray_take_in(&w))
            (void)run(w.given);
}

/* Whoever has it, each task on it is as it was given, is taken once, and is in the number:
 * once, from the moment it lies there. */
SCENARIO(pool_tray__two_look_one_gives__number_is_exact, "TPE-13")
{
    int64_t laid = 0;

    open_tray();
    sim_thread(look, NULL);
    sim_thread(look, NULL);
    for (int n = 0; n < TASKS; n++) {
        spn__store(&items[n].written, 1, relaxed);
        if (!spn__tray_give(pool, &items[n].job.task))
            continue;
        laid++;
        sim_assert(spn__tray_given(pool) == laid);
    }
    sim_join_all();
    sim_assert(spn__tray_given(pool) == laid && spn__load(&turns, relaxed) == laid);
    close_tray();
}

static SPN__ATOMIC(int) served, first_lies;

/* Its own submitter; the second comes when the first is through. */
static void serve_itself(void *arg)
{
    struct spn__worker w = { .pool = pool };
    const int n = (int)(intptr_t)arg;

    while (spn__load(&served, acquire) != n)
        spn__cpu_relax();
    sim_assert(spn__tray_put_out(&w));
    spn__store(&items[n].written, 1, relaxed);
    sim_assert(spn__tray_give(pool, &items[n].job.task));
    if (n == 0)
        spn__store(&first_lies, 1, release);
    sim_assert(spn__tray_take_in(&w));
    (void)run(w.given);
    spn__store(&served, n + 1, release);
}

/* The number that one has left is seen by who finds the next one counting: what it knows to
 * have been given is in it. */
SCENARIO(pool_tray__number_read_as_the_second_counts__has_the_first, "TPE-13")
{
    int known;

    open_tray();
    spn__init(&served, 0);
    spn__init(&first_lies, 0);
    sim_thread(serve_itself, (void *)0);
    sim_thread(serve_itself, (void *)1);
    known = spn__load(&first_lies, acquire);
    sim_assert(spn__tray_given(pool) >= known);
    sim_join_all();
    sim_assert(spn__tray_given(pool) == 2);
    close_tray();
}

static SPN__ATOMIC(int) before_resume;

static void resume(void *arg)
{
    (void)arg;
    spn__store(&before_resume, 1, relaxed);
    sim_assert(spn_pool_resume(pool) == SPN_OK);
}

/* A pause comes and goes while it is out: a task that is laid there comes after resume. */
SCENARIO(pool_tray__out_during_a_pause__task_sees_what_preceded_resume, "P44")
{
    struct spn__worker w = { .pool = NULL };

    open_tray();
    w.pool = pool;
    spn__init(&before_resume, 0);
    sim_assert(spn__tray_put_out(&w));
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_thread(resume, NULL);
    sim_assert(submit(0) == SPN_OK);
    if (spn__tray_take_in(&w)) {
        sim_assert(spn__load(&before_resume, relaxed) == 1);
        (void)run(w.given);
        spn_task_release(w.given);
    }
    sim_join_all();
    close_tray();
    sim_assert(has_run(0));
}

/* Who knows of a pause puts it out only when that is over, and sees what preceded resume. */
SCENARIO(pool_tray__put_out_after_a_pause__sees_what_preceded_resume, "P44")
{
    struct spn__worker w = { .pool = NULL };

    open_tray();
    w.pool = pool;
    spn__init(&before_resume, 0);
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_thread(resume, NULL);
    if (spn__tray_put_out(&w)) {
        sim_assert(spn__load(&before_resume, relaxed) == 1);
        sim_assert(!spn__tray_take_in(&w));
    }
    sim_join_all();
    close_tray();
}
