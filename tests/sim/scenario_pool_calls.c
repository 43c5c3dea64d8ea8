/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool_calls.c - functions and arguments in the default queue: their places are
 * used again, and lent where a call leaves the queue without a worker.
 *
 * Each call counts how it ended; at the end each that was accepted has ended once.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"

enum { CALLS = 6, TURNS = 5 };

static spn_pool *pool;
static spn_executor *ex;
static int payload[CALLS]; /* plain: 1 by the submitter, 2 by who runs it */
static SPN__ATOMIC(int) ran[CALLS];
static SPN__ATOMIC(int) accepted, gone; /* gone: left the queue in some other way */
static struct kept {
    spn_task *task; /* that remove has given back; NULL: shutdown_now, */
    spn_run_fn fn;  /* which gives back these */
    void *arg;
} kept[CALLS];
static int kept_count;

static int count_call(void *arg)
{
    const intptr_t i = (intptr_t)arg;

    sim_assert(payload[i] == 1);
    payload[i] = 2;
    (void)spn__fetch_add(&ran[i], 1, relaxed);
    return 0;
}

static bool open_pool(int32_t core, int32_t max, int32_t capacity)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    for (int i = 0; i < CALLS; i++) {
        payload[i] = 0;
        spn__init(&ran[i], 0);
    }
    spn__init(&accepted, 0);
    spn__init(&gone, 0);
    kept_count = 0;
    o.name = "p";
    o.core_threads = core;
    o.max_threads = max;
    o.queue_capacity = capacity;
    o.keep_alive_ns = SPN_MS(1);
    if (spn_pool_create(&pool, &o) != SPN_OK)
        return false;
    ex = spn_pool_executor(pool);
    return true;
}

static void call(int i)
{
    payload[i] = 1;
    if (spn_executor_call(ex, count_call, (void *)(intptr_t)i) == SPN_OK)
        (void)spn__fetch_add(&accepted, 1, relaxed);
}

static void call_two(void *first)
{
    call((int)(intptr_t)first);
    call((int)(intptr_t)first + 1);
}

static void check_fates(void)
{
    int sum = 0;

    for (int i = 0; i < CALLS; i++) {
        sim_assert(spn__load(&ran[i], relaxed) <= 1);
        sum += spn__load(&ran[i], relaxed);
    }
    sim_assert(sum + spn__load(&gone, relaxed) == spn__load(&accepted, relaxed));
}

/* Runs or drops what somebody got back. */
static void end_kept(void *unused)
{
    (void)unused;
    for (int i = 0; i < kept_count; i++) {
        const struct kept *k = &kept[i];

        if (i % 2 == 0) {
            sim_assert((k->task != NULL ? spn_task_run(k->task) : k->fn(k->arg)) == 0);
        } else {
            sim_assert(k->task == NULL ||
                       spn_task_drop(k->task, SPN_ECANCELED) == SPN_OK);
            (void)spn__fetch_add(&gone, 1, relaxed);
        }
    }
    kept_count = 0;
}

/* Ends the pool; what was kept is run or dropped after it is gone. */
static void close_pool(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    if (pool_is_shutdown(pool) == 0)
        (void)pool_shutdown(pool);
    while (pool_await(pool, SPN_FOREVER) == SPN_ENOMEM)
        ;
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.pending == 0);
    sim_assert(s.accepted == spn__load(&accepted, relaxed));
    sim_assert(s.accepted ==
               s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    (void)spn__fetch_add(&gone, (int)s.dropped, relaxed);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    end_kept(NULL);
    check_fates();
}

/* Two submitters and a worker: each call runs once, and sees what was written before. */
SCENARIO(pool_calls__two_submitters__each_runs_once, "TPE-19")
{
    if (!open_pool(1, 1, SPN_UNBOUNDED))
        return;
    call(0);
    sim_thread(call_two, (void *)1);
    call_two((void *)3);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_calls__two_submitters__each_runs_once, .max_steps = 60000,
              .faults = true)

/* One after another, each when the last has run: places are used again. */
SCENARIO(pool_calls__one_after_another__places_used_again)
{
    if (!open_pool(2, 2, SPN_UNBOUNDED))
        return;
    for (int i = 0; i < TURNS; i++) {
        const int before = spn__load(&accepted, relaxed);

        call(i);
        while (spn__load(&accepted, relaxed) > before &&
               spn__load(&ran[i], relaxed) == 0)
            spn__cpu_relax();
    }
    close_pool();
}
SCENARIO_OPTS(pool_calls__one_after_another__places_used_again, .max_steps = 60000)

static void keep(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)ctx;
    kept[kept_count++] = (struct kept){ task, fn, arg };
}

/* What shutdown_now gives back outlives the pool. */
SCENARIO(pool_calls__race_shutdown_now__run_or_kept, "TPE-52", "TPE-54")
{
    if (!open_pool(1, 1, SPN_UNBOUNDED))
        return;
    call(0);
    call_two((void *)1);
    sim_thread(call_two, (void *)3);
    (void)pool_shutdown_now(pool, keep, NULL, NULL);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_calls__race_shutdown_now__run_or_kept, .max_steps = 60000,
              .faults = true)

/* What a full queue's oldest is dropped for, while a worker takes them too. */
SCENARIO(pool_calls__discard_oldest_races_worker__one_fate_each)
{
    if (!open_pool(1, 1, 2))
        return;
    sim_assert(pool_set_reject(pool, spn_reject_discard_oldest()) == SPN_OK);
    sim_thread(call_two, (void *)1);
    call(0);
    call_two((void *)3);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_calls__discard_oldest_races_worker__one_fate_each,
              .max_steps = 60000)

static SPN__ATOMIC(int) gate_open;

static int wait_at_gate(void *unused)
{
    (void)unused;
    while (spn__load(&gate_open, relaxed) == 0)
        spn__cpu_relax();
    return 0;
}

/* Calls that were removed, by the addresses that a snapshot showed, are the caller's; it
 * ends them while a worker runs the others, which lie beside them. */
SCENARIO(pool_calls__removed__end_while_others_run)
{
    spn_task *seen[CALLS];
    int64_t count;

    if (!open_pool(1, 1, SPN_UNBOUNDED))
        return;
    spn__init(&gate_open, 0);
    sim_assert(spn_executor_call(ex, wait_at_gate, NULL) == SPN_OK);
    (void)spn__fetch_add(&accepted, 1, relaxed);
    (void)spn__fetch_add(&gone, 1, relaxed);
    call_two((void *)0);
    call(2);
    count = spn_pool_snapshot(pool, seen, CALLS);
    sim_assert(count == 3);
    for (int64_t i = 0; i < count; i += 2)
        if (pool_remove(pool, seen[i]) == 1)
            kept[kept_count++].task = seen[i];
    sim_assert(kept_count == 2);
    spn__store(&gate_open, 1, relaxed);
    spn__fence(seq_cst); /* the model's stores do not come with a new thread */
    sim_thread(end_kept, NULL);
    call_two((void *)3);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_calls__removed__end_while_others_run, .max_steps = 60000)

static int nothing(spn_task *task)
{
    (void)task;
    return 0;
}

/* The worker is through with the block that a lent call lies in while somebody else ends
 * that call.  Two blocks are kept for later by then, so that this one is freed, by
 * whichever of the two comes last. */
SCENARIO(pool_calls__lent_ends_with_its_block__freed_once)
{
    spn_task between[2] = { SPN_TASK_INIT(nothing, NULL),
                            SPN_TASK_INIT(nothing, NULL) };
    spn_task *seen[CALLS + 2];

    if (!open_pool(1, 1, SPN_UNBOUNDED))
        return;
    spn__init(&gate_open, 0);
    sim_assert(spn_executor_call(ex, wait_at_gate, NULL) == SPN_OK);
    for (int i = 0; i < 3; i++) {
        call_two((void *)(intptr_t)(2 * i)); /* a block, as this build has them */
        if (i < 2)
            sim_assert(spn_executor_execute(ex, &between[i]) == SPN_OK);
    }
    (void)spn__fetch_add(&accepted, 3, relaxed);
    (void)spn__fetch_add(&gone, 3, relaxed);
    sim_assert(spn_pool_snapshot(pool, seen, CALLS + 2) == CALLS + 2);
    sim_assert(pool_remove(pool, seen[CALLS]) == 1);
    kept[kept_count++].task = seen[CALLS];
    spn__fence(seq_cst); /* as above */
    sim_thread(end_kept, NULL);
    spn__store(&gate_open, 1, relaxed);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_calls__lent_ends_with_its_block__freed_once, .max_steps = 60000)
