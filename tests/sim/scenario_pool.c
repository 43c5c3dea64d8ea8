/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool.c - the thread pool's races: coming in against going away.
 *
 * Each task counts how it ended; at the end of every schedule each must have ended
 * exactly once, in one of the ways it was told, and the pool's books must balance.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"

enum { TASKS = 4 };

/* What became of a task: bits, and how often. */
struct fate {
    spn_job job;
    SPN__ATOMIC(int) ran, dropped, returned;
    int accepted; /* by the thread that submitted it */
    int payload;  /* plain: what the submitter wrote before */
};

static spn_pool *pool;
static spn_executor *ex;
static struct fate fates[TASKS];
static SPN__ATOMIC(int) running, most;
static SPN__ATOMIC(int) terminations;

static struct fate *fate_of(spn_task *task)
{
    return (struct fate *)(void *)task;
}

static int run(spn_task *task)
{
    struct fate *f = fate_of(task);
    const int now = spn__fetch_add(&running, 1, relaxed) + 1;
    int seen = spn__load(&most, relaxed);

    while (now > seen && !spn__cas_weak(&most, &seen, now, relaxed, relaxed))
        ;
    sim_assert(f->payload == 1);
    f->payload = 2;
    (void)spn__fetch_add(&f->ran, 1, relaxed);
    (void)spn__fetch_sub(&running, 1, relaxed);
    return 0;
}

static void drop(spn_task *task, int reason)
{
    sim_assert(reason < 0);
    (void)spn__fetch_add(&fate_of(task)->dropped, 1, relaxed);
}

static void unrun(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    (void)ctx;
    (void)spn__fetch_add(&fate_of(task)->returned, 1, relaxed);
}

static void on_terminated(spn_pool *p, void *ctx)
{
    (void)ctx;
    sim_assert(pool_is_terminated(p) == 0);
    (void)spn__fetch_add(&terminations, 1, relaxed);
}

static spn_pool_opts small(int32_t core, int32_t max, int32_t capacity)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    o.name = "p";
    o.core_threads = core;
    o.max_threads = max;
    o.queue_capacity = capacity;
    o.keep_alive_ns = SPN_MS(1);
    o.hooks.terminated = on_terminated;
    return o;
}

static bool open_pool(const spn_pool_opts *o)
{
    for (int i = 0; i < TASKS; i++) {
        fates[i] = (struct fate){ .job = SPN_JOB_INIT(run, drop) };
        spn__init(&fates[i].ran, 0);
        spn__init(&fates[i].dropped, 0);
        spn__init(&fates[i].returned, 0);
    }
    spn__init(&running, 0);
    spn__init(&most, 0);
    spn__init(&terminations, 0);
    if (spn_pool_create(&pool, o) != SPN_OK)
        return false;
    ex = spn_pool_executor(pool);
    return true;
}

static int submit(int i)
{
    int rc;

    fates[i].payload = 1;
    rc = spn_executor_execute(ex, &fates[i].job.task);
    fates[i].accepted = rc == SPN_OK;
    return rc;
}

static void check_books(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.accepted == s.completed + s.failed + s.cancelled + s.returned +
                                 s.dropped + s.pending);
    sim_assert(s.pending >= 0 && s.queued >= 0 && s.active >= 0);
}

/* Ends the pool and looks at every task. */
static void close_pool(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int64_t accepted = 0, ran = 0, dropped = 0, returned = 0;

    if (pool_is_shutdown(pool) == 0) /* a second one would hide a stranded task */
        (void)pool_shutdown(pool);
    while (pool_await(pool, SPN_FOREVER) == SPN_ENOMEM)
        ;
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    for (int i = 0; i < TASKS; i++) {
        const int r = spn__load(&fates[i].ran, relaxed);
        const int d = spn__load(&fates[i].dropped, relaxed);
        const int b = spn__load(&fates[i].returned, relaxed);

        sim_assert(r + d + b == fates[i].accepted);
        sim_assert(fates[i].job.task.queued == 0);
        accepted += fates[i].accepted;
        ran += r;
        dropped += d;
        returned += b;
    }
    sim_assert(s.pending == 0 && s.queued == 0 && s.threads == 0 && s.active == 0);
    sim_assert(s.accepted == accepted);
    sim_assert(s.completed == ran && s.failed == 0);
    sim_assert(s.returned == returned && s.dropped + s.cancelled == dropped);
    sim_assert(s.submitted == 0);
    sim_assert(spn__load(&pool->idle_count, relaxed) == 0);
    sim_assert(spn__load(&pool->searching, relaxed) == 0);
    sim_assert(spn__load(&terminations, relaxed) == 1);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

static void submit_one(void *arg)
{
    (void)submit((int)(intptr_t)arg);
}

static void submit_two(void *arg)
{
    const int i = (int)(intptr_t)arg;

    (void)submit(i);
    (void)submit(i + 1);
}

/* ---- submit against the end ---------------------------------------------------- */

/* A task that is accepted while the pool is shut down runs; one that is not does
 * not. */
SCENARIO(pool__execute_races_shutdown__runs_or_is_refused, "TPE-13 TPE-50 TPE-61 P3")
{
    spn_pool_opts o = small(1, 1, 4);

    if (!open_pool(&o))
        return;
    sim_thread(submit_two, (void *)0);
    sim_thread(submit_one, (void *)2);
    (void)pool_shutdown(pool);
    sim_join_all();
    check_books();
    for (int i = 0; i < TASKS; i++)
        sim_assert(spn__load(&fates[i].returned, relaxed) == 0);
    close_pool();
}
SCENARIO_OPTS(pool__execute_races_shutdown__runs_or_is_refused, .faults = true)

/* With shutdown_now each task ran, was handed back, or was refused: one of them. */
SCENARIO(pool__execute_races_shutdown_now__one_fate_each, "TPE-52 TPE-62 P3")
{
    spn_pool_opts o = small(1, 2, 4);
    int64_t count = 0;

    if (!open_pool(&o))
        return;
    sim_thread(submit_two, (void *)0);
    (void)submit(2);
    (void)pool_shutdown_now(pool, unrun, NULL, &count);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool__execute_races_shutdown_now__one_fate_each, .faults = true)

static void shut_down(void *arg)
{
    (void)arg;
    (void)pool_shutdown(pool);
}

/* Two shutdowns, one of them now, end the pool once. */
SCENARIO(pool__shutdown_races_shutdown_now__ends_once, "TPE-47 TPE-55 TPE-56 P44")
{
    spn_pool_opts o = small(1, 1, 4);

    if (!open_pool(&o))
        return;
    (void)submit(0);
    (void)submit(1);
    sim_thread(shut_down, NULL);
    (void)pool_shutdown_now(pool, unrun, NULL, NULL);
    sim_join_all();
    close_pool();
}

/* Until the first so many that were accepted have ended, without the help of a shutdown. */
static void await_ends(int count)
{
    for (int i = 0; i < count; i++)
        if (fates[i].accepted)
            while (spn__load(&fates[i].ran, acquire) +
                       spn__load(&fates[i].dropped, acquire) ==
                   0)
                sim_sleep(SPN_US(100));
}

/* ---- submit against a worker that leaves ----------------------------------------- */

/* The last worker's keep-alive ends as a task comes: it runs all the same. */
SCENARIO(pool__execute_races_keep_alive__runs, "TPE-30 TPE-35 P1")
{
    spn_pool_opts o = small(0, 1, 4);

    if (!open_pool(&o))
        return;
    sim_thread(submit_one, (void *)0);
    (void)submit(1);
    sim_sleep(sim_choose(2) ? SPN_MS(1) : 1);
    (void)submit(2);
    sim_join_all();
    /* Nobody has to come for it: it runs without the shutdown. */
    await_ends(3);
    close_pool();
}
SCENARIO_OPTS(pool__execute_races_keep_alive__runs, .early = 8, .faults = true)

/* The same with no keep-alive at all, and core threads that end. */
SCENARIO(pool__execute_races_core_timeout__runs, "TPE-30 TPE-35 P1 P37")
{
    spn_pool_opts o = small(2, 2, 4);

    o.core_timeout = 1;
    o.keep_alive_ns = 1;
    if (!open_pool(&o))
        return;
    sim_thread(submit_two, (void *)0);
    (void)submit(2);
    sim_join_all();
    await_ends(3);
    close_pool();
}
SCENARIO_OPTS(pool__execute_races_core_timeout__runs, .early = 8, .faults = true)

/* ---- hand-off ----------------------------------------------------------------------- */

/* A task that is handed over has a worker; what none is free for is refused. */
SCENARIO(pool__handoff__each_has_a_worker, "TPE-15 EXE-4 P32")
{
    spn_pool_opts o = small(0, 2, SPN_HANDOFF);

    if (!open_pool(&o))
        return;
    sim_thread(submit_two, (void *)0);
    (void)submit(2);
    sim_join_all();
    for (int i = 0; i < 3; i++)
        if (fates[i].accepted)
            while (spn__load(&fates[i].ran, acquire) == 0)
                sim_sleep(SPN_US(100));
    close_pool();
}
SCENARIO_OPTS(pool__handoff__each_has_a_worker, .early = 8)

/* ---- eager -------------------------------------------------------------------------- */

/* An eager pool of two and a queue of one takes three at once, whatever the race for
 * the last thread; and the tasks on their way come down to none. */
SCENARIO(pool__eager_race__retries_the_queue, "S-1 X-10 X-11")
{
    spn_pool_opts o = small(0, 2, 1);

    o.eager = 1;
    if (!open_pool(&o))
        return;
    sim_thread(submit_one, (void *)0);
    sim_thread(submit_one, (void *)1);
    (void)submit(2);
    sim_join_all();
    sim_assert(fates[0].accepted && fates[1].accepted && fates[2].accepted);
    close_pool();
}

/* ---- changes ------------------------------------------------------------------------ */

static void resize(void *arg)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    (void)arg;
    c.core_threads = 2;
    c.max_threads = 2;
    sim_assert(spn_pool_reconfigure(pool, &c) == SPN_OK);
    c.core_threads = 0;
    c.max_threads = 1;
    c.keep_alive_ns = 0;
    sim_assert(spn_pool_reconfigure(pool, &c) == SPN_OK);
}

/* Grown and shrunk while tasks come: all run, and never more at once than the largest
 * maximum. */
SCENARIO(pool__resize_while_busy__loses_nothing, "TPE-32 TPE-33 P36")
{
    spn_pool_opts o = small(1, 1, 4);

    if (!open_pool(&o))
        return;
    sim_thread(resize, NULL);
    (void)submit(0);
    (void)submit(1);
    (void)submit(2);
    sim_join_all();
    for (int i = 0; i < 3; i++)
        if (fates[i].accepted)
            while (spn__load(&fates[i].ran, acquire) == 0)
                sim_sleep(SPN_US(100));
    sim_assert(spn__load(&most, relaxed) <= 2);
    close_pool();
}
SCENARIO_OPTS(pool__resize_while_busy__loses_nothing, .faults = true)

static void pause_resume(void *arg)
{
    (void)arg;
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_assert(spn_pool_resume(pool) == SPN_OK);
}

/* Tasks that come around a pause run after it. */
SCENARIO(pool__execute_races_pause__runs_after_resume, "P15 P44")
{
    spn_pool_opts o = small(0, 1, 4);

    if (!open_pool(&o))
        return;
    sim_thread(pause_resume, NULL);
    (void)submit(0);
    (void)submit(1);
    sim_join_all();
    await_ends(2);
    close_pool();
}
SCENARIO_OPTS(pool__execute_races_pause__runs_after_resume, .early = 8, .faults = true)

/* ---- wake-ups ------------------------------------------------------------------------ */

/* Two tasks for two parked workers: each is run although no other task ever ends, so
 * the second is not left to the first one's worker. */
static spn_latch *both;

static int meet(spn_task *task)
{
    (void)spn_latch_count_down(both);
    while (spn_latch_await(both, SPN_FOREVER) != SPN_OK)
        ;
    return run(task);
}

SCENARIO(pool__two_tasks__two_workers_wake, "TPE-15 P4 P39")
{
    spn_pool_opts o = small(2, 2, 4);

    if (!open_pool(&o))
        return;
    sim_assert(spn_latch_create(&both, 2) == SPN_OK);
    fates[0].job.task.fn = fates[1].job.task.fn = meet;
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 2);
    if (sim_choose(2))
        sim_settle();
    sim_thread(submit_one, (void *)0);
    (void)submit(1);
    sim_join_all();
    close_pool();
    sim_assert(spn_latch_destroy(both) == SPN_OK);
}

/* ---- taking back ------------------------------------------------------------------------ */

static void remove_first(void *arg)
{
    (void)arg;
    if (pool_remove(pool, &fates[1].job.task) == 1)
        (void)spn__fetch_add(&fates[1].returned, 1, relaxed);
}

/* A task is run or taken back, never both, never neither. */
SCENARIO(pool__remove_races_take__one_wins, "TPE-43 TPE-46")
{
    spn_pool_opts o = small(1, 1, 4);

    if (!open_pool(&o))
        return;
    (void)submit(0);
    (void)submit(1);
    sim_thread(remove_first, NULL);
    if (sim_choose(2))
        (void)pool_shutdown(pool);
    sim_join_all();
    close_pool();
}

/* The same by priority. */
SCENARIO(pool__remove_races_take_priority__one_wins, "TPE-43 P43")
{
    spn_pool_opts o = small(1, 1, 4);

    o.queue_kind = SPN_POOL_PRIORITY;
    if (!open_pool(&o))
        return;
    fates[2].job.priority = 1;
    (void)submit(0);
    (void)submit(1);
    (void)submit(2);
    sim_thread(remove_first, NULL);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool__remove_races_take_priority__one_wins, .faults = true)

/* ---- interrupts ---------------------------------------------------------------------------- */

static int wait_for_interrupt(spn_task *task)
{
    spn_semaphore *s;

    sim_assert(spn_semaphore_create(&s, NULL) == SPN_OK);
    sim_assert(spn_semaphore_acquire(s, 1, SPN_FOREVER) == SPN_EINTR);
    sim_assert(spn_semaphore_destroy(s) == SPN_OK);
    return run(task);
}

static void stop_now(void *arg)
{
    (void)arg;
    (void)pool_shutdown_now(pool, unrun, NULL, NULL);
}

/* A task that starts, however close to the stop, is interrupted. */
SCENARIO(pool__stop_races_start__interrupt_arrives, "TPE-63 AES-6")
{
    spn_pool_opts o = small(1, 1, 4);

    if (!open_pool(&o))
        return;
    fates[0].job.task.fn = wait_for_interrupt;
    fates[1].job.task.fn = wait_for_interrupt;
    (void)submit(0);
    (void)submit(1);
    sim_thread(stop_now, NULL);
    sim_join_all();
    close_pool();
}

static int interrupt_itself(spn_task *task)
{
    (void)spn_thread_interrupt(spn_thread_current());
    return run(task);
}

static int expect_clear(spn_task *task)
{
    sim_assert(spn_thread_is_interrupted(spn_thread_current()) == 0);
    return run(task);
}

/* A stray interrupt neither kills a worker nor reaches the next task. */
SCENARIO(pool__stray_interrupt__next_task_starts_clear, "TPE-64 TPE-65")
{
    spn_pool_opts o = small(1, 1, 4);

    if (!open_pool(&o))
        return;
    fates[0].job.task.fn = interrupt_itself;
    fates[1].job.task.fn = expect_clear;
    (void)submit(0);
    (void)submit(1);
    close_pool();
}

/* ---- death ------------------------------------------------------------------------------------ */

static int die(spn_task *task)
{
    (void)run(task);
    (void)spn__fetch_sub(&fate_of(task)->ran, 1, relaxed); /* counted as failed */
    sim_exit();
}

/* A task that ends its thread takes nobody with it, also when no other thread can be
 * made. */
SCENARIO(pool__worker_dies__is_replaced, "TPE-72 EXE-6 P2")
{
    spn_pool_opts o = small(1, 1, 4);
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    if (!open_pool(&o))
        return;
    fates[0].job.task.fn = die;
    if (submit(0) == SPN_OK)
        fates[0].accepted = 0; /* seen to below */
    (void)submit(1);
    (void)submit(2);
    (void)pool_shutdown(pool);
    while (pool_await(pool, SPN_FOREVER) == SPN_ENOMEM)
        ;
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.pending == 0 && s.threads == 0 && s.failed == s.threads_died);
    for (int i = 1; i < 3; i++)
        sim_assert(spn__load(&fates[i].ran, relaxed) +
                       spn__load(&fates[i].dropped, relaxed) ==
                   fates[i].accepted);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}
SCENARIO_OPTS(pool__worker_dies__is_replaced, .faults = true)

/* ---- waiting inside ------------------------------------------------------------------------------ */

static int leaf(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static int branch(void *arg, void **result)
{
    spn_future *f;
    int rc = spn_executor_submit(ex, leaf, arg, &f);

    if (rc != SPN_OK)
        return rc;
    rc = spn_future_get(f, result, SPN_FOREVER);
    sim_assert(rc == SPN_OK || rc == SPN_EDEADLK || rc == SPN_EFAILED ||
               rc == SPN_ENOMEM);
    spn_future_unref(f);
    return rc;
}

static spn_future *trees[2];

/* Ends a pool whose tasks are futures. */
static void end_pool(void)
{
    (void)pool_shutdown(pool);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    check_books();
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

static void await_trees(int count)
{
    for (int i = 0; i < count; i++) {
        void *value = NULL;
        int rc;

        do
            rc = spn_future_get(trees[i], &value, SPN_FOREVER);
        while (rc == SPN_ENOMEM);
        sim_assert(rc == SPN_OK || rc == SPN_EFAILED);
        if (rc == SPN_OK)
            sim_assert(value == &trees);
        else
            sim_assert(spn_future_get_state(trees[i]) == SPN_FUTURE_FAILED);
        spn_future_unref(trees[i]);
    }
}

/* Tasks that wait for tasks of a full pool are told so, and never hang. */
SCENARIO(pool__nested_waits__never_hang, "P6 TPE-84")
{
    spn_pool_opts o = small(1, 2, 8);

    if (!open_pool(&o))
        return;
    for (int i = 0; i < 2; i++)
        sim_assert(spn_executor_submit(ex, branch, &trees, &trees[i]) == SPN_OK);
    await_trees(2);
    end_pool();
}

static SPN__ATOMIC(int) cancel_won;

static void cancel_it(void *arg)
{
    (void)arg;
    if (spn_future_cancel(trees[0], 1) == 1)
        spn__store(&cancel_won, 1, relaxed);
}

/* Completed, cancelled or timed out: the waiter gets one of them, and all agree. */
SCENARIO(pool__cancel_races_completion_races_timeout__agree,
         "TPE-84 TPE-85 EXE-10 AES-6")
{
    spn_pool_opts o = small(1, 1, 4);
    void *value = NULL;
    int rc;

    if (!open_pool(&o))
        return;
    spn__init(&cancel_won, 0);
    sim_assert(spn_executor_submit(ex, leaf, &trees, &trees[0]) == SPN_OK);
    sim_thread(cancel_it, NULL);
    rc = spn_future_get(trees[0], &value, SPN_US(100));
    sim_assert(rc == SPN_OK || rc == SPN_ECANCELED || rc == SPN_ETIMEDOUT);
    sim_join_all();
    if (spn__load(&cancel_won, relaxed))
        sim_assert(rc != SPN_OK &&
                   spn_future_get_state(trees[0]) == SPN_FUTURE_CANCELED);
    spn_future_unref(trees[0]);
    fates[0].job.task.fn = expect_clear; /* the worker is fit for the next */
    sim_assert(submit(0) == SPN_OK);
    (void)pool_shutdown(pool);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&fates[0].ran, relaxed) == 1);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}
SCENARIO_OPTS(pool__cancel_races_completion_races_timeout__agree, .early = 8)

/* ---- a queue of the user's ------------------------------------------------------- */

static spn_queue *own;

static bool open_own(int32_t core, int32_t max)
{
    spn_pool_opts o = small(core, max, 4);
    spn_queue_opts q = SPN_QUEUE_OPTS_INIT;

    q.capacity = 4;
    if (spn_queue_create(&own, SPN_QUEUE_ARRAY, &q) != SPN_OK)
        return false;
    o.queue = own;
    o.queue_capacity = SPN_DEFAULT;
    if (open_pool(&o))
        return true;
    sim_assert(spn_queue_destroy(own) == SPN_OK);
    return false;
}

static void close_own(void)
{
    close_pool();
    sim_assert(spn_queue_destroy(own) == SPN_OK);
}

/* The queue has no door: a task that comes in around the shutdown still runs, or is
 * taken out again and refused. */
SCENARIO(pool__own_queue_execute_races_shutdown__runs_or_is_refused, "TPE-12 TPE-61 P3")
{
    if (!open_own(1, 1))
        return;
    sim_thread(submit_one, (void *)2);
    sim_thread(submit_two, (void *)0);
    (void)pool_shutdown(pool);
    sim_join_all();
    close_own();
}

/* The same against shutdown_now. */
SCENARIO(pool__own_queue_execute_races_stop__one_fate_each, "TPE-12 TPE-62 P3")
{
    if (!open_own(1, 1))
        return;
    (void)submit(2);
    sim_thread(submit_two, (void *)0);
    (void)pool_shutdown_now(pool, unrun, NULL, NULL);
    sim_join_all();
    close_own();
}

/* And against the keep-alive of the last worker. */
SCENARIO(pool__own_queue_execute_races_keep_alive__runs, "TPE-12 TPE-35 P1")
{
    if (!open_own(0, 1))
        return;
    sim_thread(submit_one, (void *)0);
    sim_sleep(sim_choose(2) ? SPN_MS(1) : 1);
    (void)submit(1);
    sim_join_all();
    await_ends(2);
    close_own();
}
SCENARIO_OPTS(pool__own_queue_execute_races_keep_alive__runs, .early = 8)
