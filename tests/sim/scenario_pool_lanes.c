/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool_lanes.c - the pool over lanes: calls without a node and plain tasks,
 * workers that run a batch in one go, against sleeping, leaving and the end.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"

enum { CALLS = 4 };

static spn_pool *pool;
static spn_executor *ex;
static SPN__ATOMIC(int) ran[CALLS], refused, accepted, returned;

static int count_call(void *arg)
{
    (void)spn__fetch_add(&ran[(intptr_t)arg], 1, relaxed);
    return 0;
}

static bool open_pool(int32_t core, int32_t max)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    for (int i = 0; i < CALLS; i++)
        spn__init(&ran[i], 0);
    spn__init(&refused, 0);
    spn__init(&accepted, 0);
    spn__init(&returned, 0);
    o.name = "p";
    o.core_threads = core;
    o.max_threads = max;
    o.queue_kind = SPN_POOL_LANES;
    o.queue_capacity = SPN_UNBOUNDED;
    o.keep_alive_ns = SPN_MS(1);
    if (spn_pool_create(&pool, &o) != SPN_OK)
        return false;
    ex = spn_pool_executor(pool);
    return true;
}

static void call(int i)
{
    if (spn_executor_call(ex, count_call, (void *)(intptr_t)i) == SPN_OK)
        (void)spn__fetch_add(&accepted, 1, relaxed);
    else
        (void)spn__fetch_add(&refused, 1, relaxed);
}

/* Ends the pool: what was accepted has run or was given back, each once. */
static void close_pool(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int sum = 0;

    if (pool_is_shutdown(pool) == 0)
        (void)pool_shutdown(pool);
    while (pool_await(pool, SPN_FOREVER) == SPN_ENOMEM)
        ;
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    for (int i = 0; i < CALLS; i++) {
        sim_assert(spn__load(&ran[i], relaxed) <= 1);
        sum += spn__load(&ran[i], relaxed);
    }
    sim_assert(s.pending == 0);
    sim_assert(s.completed == sum);
    sim_assert(s.accepted == spn__load(&accepted, relaxed));
    sim_assert(s.accepted ==
               s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    sim_assert(sum + spn__load(&returned, relaxed) + s.dropped ==
               spn__load(&accepted, relaxed));
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

static void call_two(void *first)
{
    call((int)(intptr_t)first);
    call((int)(intptr_t)first + 1);
}

/* A worker that goes to sleep hears of what comes. */
SCENARIO(pool_lanes__call_races_sleep__runs, "TPE-4")
{
    if (!open_pool(1, 1))
        return;
    call(0);
    sim_thread(call_two, (void *)1);
    while (spn__load(&ran[1], relaxed) + spn__load(&ran[2], relaxed) < 2)
        spn__cpu_relax();
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_lanes__call_races_sleep__runs, .max_steps = 60000,
              .no_faults = "waits for calls that may be refused")

/* A call that was accepted runs, though the pool is shut down meanwhile; one that was
 * not leaves nothing that keeps the pool from its end. */
SCENARIO(pool_lanes__call_races_shutdown__runs_or_refused, "TPE-16")
{
    if (!open_pool(1, 1))
        return;
    call(0);
    sim_thread(call_two, (void *)1);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_lanes__call_races_shutdown__runs_or_refused, .max_steps = 60000)

static void unrun(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)ctx;
    (void)arg;
    sim_assert(task == NULL && fn == count_call);
    (void)spn__fetch_add(&returned, 1, relaxed);
}

/* A call that was accepted runs or is given back, each once. */
SCENARIO(pool_lanes__call_races_shutdown_now__runs_or_returned, "TPE-19")
{
    if (!open_pool(1, 1))
        return;
    call(0);
    call(3);
    sim_thread(call_two, (void *)1);
    sim_assert(pool_shutdown_now(pool, unrun, NULL, NULL) == SPN_OK);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_lanes__call_races_shutdown_now__runs_or_returned, .max_steps = 60000)

static void await_and_destroy(void *p)
{
    (void)p;
    while (pool_await(pool, SPN_FOREVER) == SPN_ENOMEM)
        ;
    while (spn_pool_destroy(pool) == SPN_EBUSY)
        spn__cpu_relax();
}

/* shutdown_now takes calls out a few at a time and gives them back without the lock: the
 * pool does not end while some of them are in it. */
SCENARIO(pool_lanes__await_races_shutdown_now__ends_after_the_last_call, "TPE-52")
{
    int64_t count;
    int sum = 0;

    if (!open_pool(1, 1))
        return;
    for (int i = 0; i < CALLS; i++)
        call(i);
    sim_thread(await_and_destroy, NULL);
    sim_assert(pool_shutdown_now(pool, unrun, NULL, &count) == SPN_OK);
    sim_assert(count == spn__load(&returned, relaxed));
    sim_join_all();
    for (int i = 0; i < CALLS; i++)
        sum += spn__load(&ran[i], relaxed);
    sim_assert(sum + spn__load(&returned, relaxed) == spn__load(&accepted, relaxed));
}
SCENARIO_OPTS(pool_lanes__await_races_shutdown_now__ends_after_the_last_call,
              .max_steps = 60000, .faults = true)

/* A call that comes as the last worker leaves is run by it or by another. */
SCENARIO(pool_lanes__call_races_keep_alive__runs, "TPE-9")
{
    if (!open_pool(0, 1))
        return;
    call(0);
    sim_sleep(SPN_MS(1));
    sim_thread(call_two, (void *)1);
    sim_join_all();
    close_pool();
    sim_assert(spn__load(&ran[1], relaxed) == 1 && spn__load(&ran[2], relaxed) == 1);
}
SCENARIO_OPTS(pool_lanes__call_races_keep_alive__runs, .max_steps = 60000)

/* Waits until the calls behind it have run. */
static int long_call(void *arg)
{
    (void)arg;
    while (spn__load(&ran[1], relaxed) + spn__load(&ran[2], relaxed) < 2)
        spn__cpu_relax();
    (void)spn__fetch_add(&ran[3], 1, relaxed);
    return 0;
}

/* What waits behind a long task, in its worker's batch too, is done by a worker that
 * has nothing else to do. */
SCENARIO(pool_lanes__long_task_first__others_run_meanwhile)
{
    if (!open_pool(2, 2))
        return;
    if (spn_pool_prestart(pool, SPN_DEFAULT) == 2) {
        if (spn_executor_call(ex, long_call, NULL) == SPN_OK)
            (void)spn__fetch_add(&accepted, 1, relaxed);
        call(1);
        call(2);
    }
    close_pool();
}
SCENARIO_OPTS(pool_lanes__long_task_first__others_run_meanwhile, .max_steps = 200000)

static SPN__ATOMIC(int) is_paused, resumed;

static void pause_it(void *arg)
{
    (void)arg;
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    spn__store(&is_paused, 1, release);
}

/* Returns when the pool is paused: what follows it in its batch is not to start. */
static int last_call(void *arg)
{
    while (spn__load(&is_paused, acquire) == 0)
        spn__cpu_relax();
    return count_call(arg);
}

static int later_call(void *arg)
{
    sim_assert(spn__load(&is_paused, acquire) == 0 ||
               spn__load(&resumed, acquire) == 1);
    return count_call(arg);
}

/* The worker asks once for all of a batch whether it may go on; a pause that comes around
 * that moment stops it all the same. */
static void pause_races_batch(void)
{
    if (!open_pool(1, 1))
        return;
    spn__init(&is_paused, 0);
    spn__init(&resumed, 0);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    sim_settle(); /* the worker sleeps */
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    for (int i = 0; i < 2; i++) {
        if (spn_executor_call(ex, i == 0 ? last_call : later_call,
                              (void *)(intptr_t)i) != SPN_OK)
            sim_assert(false);
        (void)spn__fetch_add(&accepted, 1, relaxed);
    }
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    sim_thread(pause_it, NULL);
    sim_join_all();
    spn__store(&resumed, 1, release);
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    close_pool();
}

SCENARIO(pool_lanes__pause_races_batch__rest_waits_for_resume, "P44")
{
    pause_races_batch();
}
SCENARIO_OPTS(pool_lanes__pause_races_batch__rest_waits_for_resume, .max_steps = 200000)

/* Where no membarrier tells the worker of the pause, its own look must. */
SCENARIO(pool_lanes__pause_races_batch__without_membarrier, "P44")
{
    pause_races_batch();
}
SCENARIO_OPTS(pool_lanes__pause_races_batch__without_membarrier, .max_steps = 200000,
              .fences = SIM_FENCES_SYMMETRIC)

static int exit_call(void *arg)
{
    (void)spn__fetch_add(&ran[(intptr_t)arg], 1, relaxed);
    sim_exit();
}

/* A call that ends its thread: what was in the batch is run by the next. */
SCENARIO(pool_lanes__worker_dies__its_batch_is_run)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    if (!open_pool(1, 1))
        return;
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    sim_settle(); /* the worker sleeps */
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    for (int i = 0; i < 3; i++)
        if (spn_executor_call(ex, i == 0 ? exit_call : count_call,
                              (void *)(intptr_t)i) != SPN_OK)
            sim_assert(false);
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    (void)pool_shutdown(pool);
    while (pool_await(pool, SPN_FOREVER) == SPN_ENOMEM)
        ;
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.completed == 2 && s.failed == 1 && s.pending == 0);
    for (int i = 0; i < 3; i++)
        sim_assert(spn__load(&ran[i], relaxed) == 1);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}
