/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool_more.c - more of the pool's races: helpers that outlive it, policies
 * against workers, taking back against taking, queues of the user's.
 *
 * As in scenario_pool.c each task counts how it ended, and must have ended once.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"

enum { TASKS = 5 };

struct fate {
    spn_job job; /* first */
    SPN__ATOMIC(int) ran, dropped, returned;
    SPN__ATOMIC(int) accepted;
};

static spn_pool *pool;
static spn_executor *ex;
static spn_queue *queue; /* the user's, or NULL */
static struct fate fates[TASKS];
static SPN__ATOMIC(int) terminations;

static struct fate *fate_of(spn_task *task)
{
    return (struct fate *)(void *)task;
}

static int run(spn_task *task)
{
    (void)spn__fetch_add(&fate_of(task)->ran, 1, relaxed);
    return 0;
}

static int run_and_die(spn_task *task)
{
    (void)run(task);
    sim_exit();
}

static void drop(spn_task *task, int reason)
{
    sim_assert(reason < 0);
    (void)spn__fetch_add(&fate_of(task)->dropped, 1, relaxed);
}

static void take_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    (void)ctx;
    (void)spn__fetch_add(&fate_of(task)->returned, 1, relaxed);
}

static void on_terminated(spn_pool *p, void *ctx)
{
    (void)p;
    (void)ctx;
    (void)spn__fetch_add(&terminations, 1, relaxed);
}

static void quiet(spn_pool *p, const spn_task_info *info, void *ctx)
{
    (void)p;
    (void)info;
    (void)ctx;
}

static spn_pool_opts small(int32_t core, int32_t max, int32_t capacity)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    queue = NULL;
    o.name = "p";
    o.core_threads = core;
    o.max_threads = max;
    o.queue_capacity = capacity;
    o.keep_alive_ns = SPN_MS(1);
    o.hooks.terminated = on_terminated;
    o.hooks.uncaught = quiet;
    return o;
}

static void own_queue(spn_pool_opts *o)
{
    sim_assert(spn_queue_create(&queue, SPN_QUEUE_LINKED, NULL) == SPN_OK);
    o->queue = queue;
    o->queue_capacity = SPN_DEFAULT;
}

static void open_pool(const spn_pool_opts *o)
{
    for (int i = 0; i < TASKS; i++) {
        fates[i] = (struct fate){ .job = SPN_JOB_INIT(run, drop) };
        spn__init(&fates[i].ran, 0);
        spn__init(&fates[i].dropped, 0);
        spn__init(&fates[i].returned, 0);
        spn__init(&fates[i].accepted, 0);
    }
    spn__init(&terminations, 0);
    sim_assert(spn_pool_create(&pool, o) == SPN_OK);
    ex = spn_pool_executor(pool);
}

static int submit(int i)
{
    const int rc = spn_executor_execute(ex, &fates[i].job.task);

    if (rc == SPN_OK)
        (void)spn__fetch_add(&fates[i].accepted, 1, relaxed);
    return rc;
}

static void submit_one(void *arg)
{
    (void)submit((int)(intptr_t)arg);
}

/* Whether it has run or was dropped, or was never accepted. */
static bool is_over(int i)
{
    return spn__load(&fates[i].ran, acquire) + spn__load(&fates[i].dropped, relaxed) >=
           spn__load(&fates[i].accepted, relaxed);
}

/* Ends the pool, unless somebody has, for a second shutdown might come to the rescue of
 * the first; and looks at every task. */
static void close_pool(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int64_t accepted = 0, ran = 0;

    if (pool_is_shutdown(pool) == 0)
        (void)pool_shutdown(pool);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    for (int i = 0; i < TASKS; i++) {
        const int r = spn__load(&fates[i].ran, relaxed);

        sim_assert(r + spn__load(&fates[i].dropped, relaxed) +
                       spn__load(&fates[i].returned, relaxed) ==
                   spn__load(&fates[i].accepted, relaxed));
        sim_assert(fates[i].job.task.queued == 0);
        accepted += spn__load(&fates[i].accepted, relaxed);
        ran += r;
    }
    sim_assert(s.pending == 0 && s.queued == 0 && s.threads == 0 && s.active == 0);
    sim_assert(s.accepted + s.caller_ran == accepted);
    sim_assert(s.completed + s.failed + s.caller_ran == ran);
    sim_assert(s.accepted ==
               s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    sim_assert(s.submitted == 0);
    sim_assert(spn__load(&terminations, relaxed) == 1);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    if (queue != NULL)
        sim_assert(spn_queue_destroy(queue) == SPN_OK);
    queue = NULL;
}

/* ---- helpers ---------------------------------------------------------------------- */

static spn_future *future;
static SPN__ATOMIC(int) calls;
static int outcome;

static int count_call(void *arg, void **result)
{
    (void)spn__fetch_add(&calls, 1, relaxed);
    *result = arg;
    return 0;
}

static void get_future(void *arg)
{
    (void)arg;
    outcome = spn_future_get(future, NULL, SPN_FOREVER);
}

static void open_with_future(void)
{
    spn_pool_opts o = small(1, 1, 4);

    o.hooks.terminated = NULL;
    open_pool(&o);
    spn__init(&calls, 0);
    outcome = 1;
    sim_assert(spn_executor_submit(ex, count_call, &calls, &future) == SPN_OK);
}

/* A foreign thread waits for a future while the pool is ended and freed, and does not touch
 * the pool afterwards. */
SCENARIO(pool_more__get_races_the_end__not_touched_after, "TPE-49 G-16 P28")
{
    open_with_future();
    sim_thread(get_future, NULL);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&calls, relaxed) == 1); /* it has run when the pool is over */
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    sim_join_all();
    sim_assert(outcome == SPN_OK);
    spn_future_unref(future);
}

static void drop_it(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    (void)ctx;
    sim_assert(spn_task_drop(task, SPN_ESHUTDOWN) == SPN_OK);
}

/* The same with shutdown_now, which gives the task back. */
SCENARIO(pool_more__get_races_shutdown_now__run_or_returned, "TPE-62 G-16 P28")
{
    int64_t count = -1;

    open_with_future();
    sim_thread(get_future, NULL);
    sim_assert(pool_shutdown_now(pool, drop_it, NULL, &count) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&calls, relaxed) + count == 1);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    sim_join_all();
    sim_assert(outcome == (count == 0 ? SPN_OK : SPN_EFAILED));
    spn_future_unref(future);
}

/* And with a third who takes the task back. */
SCENARIO(pool_more__get_races_remove__one_gets_it, "TPE-43 TPE-44 P28")
{
    spn_task *seen[1] = { NULL };
    int removed = 0;

    open_with_future();
    sim_thread(get_future, NULL);
    if (spn_pool_snapshot(pool, seen, 1) == 1)
        removed = pool_remove(pool, seen[0]);
    if (removed == 1)
        sim_assert(spn_task_drop(seen[0], SPN_ECANCELED) == SPN_OK);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    sim_join_all();
    sim_assert(spn__load(&calls, relaxed) + removed == 1);
    sim_assert(outcome == (removed == 1 ? SPN_ECANCELED : SPN_OK));
    spn_future_unref(future);
}

/* ---- waits of workers ---------------------------------------------------------------- */

static int rcs[2];

static int wait_for_inner(void *arg, void **result)
{
    const int i = (int)(intptr_t)arg;
    spn_future *inner;

    (void)result;
    sim_assert(spn_executor_submit(ex, count_call, NULL, &inner) == SPN_OK);
    rcs[i] = spn_future_get(inner, NULL, i == 0 ? SPN_MS(1) : SPN_FOREVER);
    spn_future_unref(inner);
    return 0;
}

/* Both workers wait, one of them until a deadline: the other is not refused, for the
 * first goes on and runs what it waits for. */
SCENARIO(pool_more__one_waits_until_a_deadline__other_is_not_refused, "P6")
{
    spn_pool_opts o = small(2, 2, 4);
    spn_future *outer[2];

    open_pool(&o);
    spn__init(&calls, 0);
    for (intptr_t i = 0; i < 2; i++)
        sim_assert(spn_executor_submit(ex, wait_for_inner, (void *)i, &outer[i]) ==
                   SPN_OK);
    for (int i = 0; i < 2; i++) {
        sim_assert(spn_future_get(outer[i], NULL, SPN_FOREVER) == SPN_OK);
        spn_future_unref(outer[i]);
    }
    sim_assert(rcs[1] == SPN_OK);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&calls, relaxed) == 2);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

static spn_task *waiting;
static SPN__ATOMIC(int) nested_rc;

static void remove_by_executor(void *arg)
{
    (void)arg;
    sim_assert(spn_executor_remove(ex, waiting) == 1);
    spn_future_unref(future); /* the executor's, which came with the task */
}

static void submit_again(void *arg)
{
    (void)arg;
    while (spn_future_submit(future, ex) == SPN_EBUSY)
        spn__cpu_relax();
}

static int get_inside(spn_task *task)
{
    spn__store(&nested_rc, spn_future_get(future, NULL, SPN_FOREVER), relaxed);
    return run(task);
}

/* A future is taken back and, as soon as that is possible, submitted again: the pool
 * still knows it, and refuses a wait that would last for ever. */
SCENARIO(pool_more__taken_back_and_submitted_again__still_the_pools, "TPE-43 P6")
{
    spn_pool_opts o = small(1, 1, 4);
    spn_task *seen[2];

    open_pool(&o);
    spn__init(&calls, 0);
    spn__init(&nested_rc, 1);
    fates[0].job.task.fn = get_inside;
    sim_assert(spn_pool_prestart(pool, 1) == 1);
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_settle(); /* nobody has taken anything yet, or will */
    sim_assert(spn_future_create_task(&future, count_call, NULL, NULL) == SPN_OK);
    sim_assert(submit(0) == SPN_OK);
    sim_assert(spn_future_submit(future, ex) == SPN_OK);
    sim_assert(spn_pool_snapshot(pool, seen, 2) == 2);
    waiting = seen[1];
    sim_thread(remove_by_executor, NULL);
    sim_thread(submit_again, NULL);
    sim_join_all();
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&nested_rc, relaxed) == SPN_EDEADLK);
    sim_assert(spn__load(&calls, relaxed) == 1);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    spn_future_unref(future);
}

static void remove_first(void *arg)
{
    (void)arg;
    if (pool_remove(pool, &fates[1].job.task) == 1)
        (void)spn__fetch_add(&fates[1].returned, 1, relaxed);
}

static void purge_owned(void *arg)
{
    (void)spn_pool_cancel_owner(pool, arg);
}

/* Whoever has seen the end of the pool sees all its tasks counted, also one that was
 * taken back at the last moment. */
static void taken_back_at_the_end(void (*taker)(void *))
{
    spn_pool_opts o = small(1, 1, 4);
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    open_pool(&o);
    fates[1].job.owner = &pool;
    (void)submit(0);
    (void)submit(1);
    sim_thread(taker, &pool);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.pending == 0 && s.completed + s.returned + s.cancelled == s.accepted);
    sim_join_all();
    close_pool();
}

SCENARIO(pool_more__remove_races_the_end__counted_before_it, "TPE-58 TPE-43")
{
    taken_back_at_the_end(remove_first);
}

SCENARIO(pool_more__cancel_owner_races_the_end__counted_before_it, "TPE-58")
{
    taken_back_at_the_end(purge_owned);
}

/* ---- policies against workers --------------------------------------------------------- */

/* Discard oldest on a queue of one, with a worker that takes and a second submitter:
 * each task has one end, and the newest is never lost silently. */
SCENARIO(pool_more__discard_oldest_races_the_worker__one_end_each, "TPE-78 TPE-80 P19")
{
    spn_pool_opts o = small(1, 1, 1);

    o.reject = spn_reject_discard_oldest();
    open_pool(&o);
    (void)submit(0);
    sim_thread(submit_one, (void *)1);
    (void)submit(2);
    (void)submit(3);
    sim_join_all();
    close_pool();
}

/* Caller runs, with shutdown between. */
static void shut_down(void *arg)
{
    (void)arg;
    sim_assert(pool_shutdown(pool) == SPN_OK);
}

SCENARIO(pool_more__caller_runs_races_shutdown__run_or_dropped, "TPE-76 TPE-77 P3")
{
    spn_pool_opts o = small(1, 1, SPN_HANDOFF);

    o.reject = spn_reject_caller_runs();
    open_pool(&o);
    (void)submit(0);
    sim_thread(shut_down, NULL);
    sim_assert(submit(1) == SPN_OK);
    sim_assert(submit(2) == SPN_OK);
    sim_join_all();
    close_pool();
}

/* New threads of the policy are not the pool's: its end does not wait for them, and
 * they do not need it. */
SCENARIO(pool_more__new_thread_races_the_end__task_runs, "S-6 P3")
{
    spn_pool_opts o = small(1, 1, SPN_HANDOFF);

    o.reject = spn_reject_new_thread();
    open_pool(&o);
    (void)submit(0);
    (void)submit(1);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    sim_settle();
    for (int i = 0; i < 2; i++)
        sim_assert(spn__load(&fates[i].ran, relaxed) ==
                   spn__load(&fates[i].accepted, relaxed));
}

static const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_SEC(100));

static SPN__ATOMIC(int) waited;

static void submit_blocking(void *arg)
{
    const int rc = submit((int)(intptr_t)arg);

    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED || rc == SPN_ESHUTDOWN);
    (void)spn__fetch_add(&waited, 1, relaxed);
}

/* Two wait for room in a paused pool: each place that appears lets one in, whatever
 * makes it: a larger queue, a task taken back, the pool going on. */
SCENARIO(pool_more__room_appears__each_waiter_hears, "S-6 G-20")
{
    spn_pool_opts o = small(1, 1, 1);

    o.reject = &block.policy;
    open_pool(&o);
    spn__init(&waited, 0);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    sim_settle(); /* the worker sleeps */
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_assert(submit(0) == SPN_OK);
    sim_thread(submit_blocking, (void *)1);
    sim_thread(submit_blocking, (void *)2);
    if (sim_choose(2) == 0) {
        sim_assert(pool_set_capacity(pool, 2) == SPN_OK);
        if (pool_remove(pool, &fates[0].job.task) == 1)
            take_back(NULL, &fates[0].job.task, NULL, NULL);
        sim_join_all();
        sim_assert(spn_pool_resume(pool) == SPN_OK);
    } else {
        sim_assert(spn_pool_resume(pool) == SPN_OK);
        sim_join_all();
    }
    sim_assert(sim_now() < SPN_SEC(50)); /* nobody was rescued by his time-out */
    for (int i = 1; i < 3; i++)
        sim_assert(spn__load(&fates[i].accepted, relaxed) == 1);
    close_pool();
}
SCENARIO_OPTS(pool_more__room_appears__each_waiter_hears, .early = SIM_NEVER)

/* Who waits for room is released by the end. */
SCENARIO(pool_more__blocked_submitter_and_shutdown__released, "S-6 TPE-66 G-20")
{
    spn_pool_opts o = small(1, 1, 1);

    o.reject = &block.policy;
    open_pool(&o);
    spn__init(&waited, 0);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    sim_settle(); /* the worker sleeps */
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_assert(submit(0) == SPN_OK);
    sim_thread(submit_blocking, (void *)1);
    if (sim_choose(2) == 0)
        sim_assert(pool_shutdown(pool) == SPN_OK);
    else
        sim_assert(pool_shutdown_now(pool, take_back, NULL, NULL) == SPN_OK);
    sim_join_all();
    sim_assert(sim_now() < SPN_SEC(50));
    close_pool();
}
SCENARIO_OPTS(pool_more__blocked_submitter_and_shutdown__released, .early = SIM_NEVER)

/* ---- taking back against taking --------------------------------------------------------- */

static int64_t cancelled;

static void cancel_owner(void *arg)
{
    cancelled += spn_pool_cancel_owner(pool, arg);
}

/* cancel_owner, remove and a worker want the same tasks. */
SCENARIO(pool_more__three_want_the_same_task__one_gets_it, "TPE-43 P19 P27")
{
    spn_pool_opts o = small(1, 1, 4);

    cancelled = 0;
    open_pool(&o);
    for (int i = 1; i < 3; i++)
        fates[i].job.owner = &cancelled;
    (void)submit(0);
    (void)submit(1);
    (void)submit(2);
    sim_thread(cancel_owner, &cancelled);
    if (pool_remove(pool, &fates[1].job.task) == 1)
        take_back(NULL, &fates[1].job.task, NULL, NULL);
    sim_join_all();
    close_pool();
}

/* A task is dropped, and submitted again before its drop was called: it has both ends. */
SCENARIO(pool_more__submitted_again_amid_its_drop__dropped_and_run, "TPE-43 P19")
{
    spn_pool_opts o = small(1, 1, 4);

    cancelled = 0;
    open_pool(&o);
    fates[0].job.owner = &cancelled;
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    sim_settle(); /* the worker sleeps */
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    (void)submit(0);
    sim_thread(cancel_owner, &cancelled);
    sim_thread(submit_one, (void *)0); /* refused while it is queued */
    sim_join_all();
    sim_assert(cancelled > 0);
    sim_assert(spn__load(&fates[0].dropped, relaxed) == (int)cancelled);
    close_pool();
}

static void purge(void *arg)
{
    (void)arg;
    sim_assert(spn_pool_purge(pool) >= 0);
}

/* purge against the worker and the cancel: the future is cancelled once, its books are
 * closed once. */
SCENARIO(pool_more__purge_races_the_worker__one_end, "TPE-45 TPE-46 P19 X-9")
{
    spn_pool_opts o = small(1, 1, 4);
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int won;

    open_pool(&o);
    spn__init(&calls, 0);
    (void)submit(0);
    sim_assert(spn_executor_submit(ex, count_call, NULL, &future) == SPN_OK);
    sim_thread(purge, NULL);
    won = spn_future_cancel(future, 0);
    sim_assert(spn_pool_purge(pool) >= 0);
    sim_join_all();
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.accepted == 2 && s.completed + s.cancelled == 2 && s.cancelled <= 1);
    sim_assert((spn_future_get_state(future) == SPN_FUTURE_CANCELED) == won);
    sim_assert(won == 1 || spn__load(&calls, relaxed) == 1);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    spn_future_unref(future);
}

static void shut_down_now(void *arg)
{
    (void)arg;
    sim_assert(pool_shutdown_now(pool, take_back, NULL, NULL) == SPN_OK);
}

/* The last task is taken back while the pool is shut down: it ends, whoever comes
 * last. */
SCENARIO(pool_more__remove_races_shutdown_now__ends, "TPE-46 TPE-52 TPE-62")
{
    spn_pool_opts o = small(1, 1, 4);

    open_pool(&o);
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    (void)submit(0);
    (void)submit(1);
    sim_thread(shut_down_now, NULL);
    for (int i = 0; i < 2; i++)
        if (pool_remove(pool, &fates[i].job.task) == 1)
            take_back(NULL, &fates[i].job.task, NULL, NULL);
    sim_join_all();
    close_pool();
}

/* ---- two come in as the pool goes ------------------------------------------------------ */

static void submit_two(void *arg)
{
    const int i = (int)(intptr_t)arg;

    if (submit(i) == SPN_OK)
        (void)submit(i + 1);
}

/* One starts the first worker, another relies on it and queues, and the pool is shut
 * down: if the first comes too late for its worker, somebody must come for what the
 * other queued. */
SCENARIO(pool_more__two_submit_races_shutdown__all_accepted_run, "TPE-61 TPE-24 P3")
{
    spn_pool_opts o = small(1, 1, 4);

    open_pool(&o);
    sim_thread(submit_one, (void *)0);
    sim_thread(submit_two, (void *)1);
    (void)pool_shutdown(pool);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(pool_more__two_submit_races_shutdown__all_accepted_run, .dfs = 2,
              .dfs_models = SIM_SC)

/* ---- queues of the user's ------------------------------------------------------------------ */

/* Submit against shutdown, through the user's queue. */
SCENARIO(pool_more__own_queue_execute_races_shutdown__run_or_refused, "TPE-61 P3")
{
    spn_pool_opts o = small(1, 1, 0);

    own_queue(&o);
    open_pool(&o);
    sim_thread(submit_one, (void *)0);
    sim_thread(submit_one, (void *)1);
    (void)pool_shutdown(pool);
    sim_join_all();
    close_pool();
}

/* A worker leaves behind something that its submitter then takes back, and ends the
 * pool: whoever is still to see to it must have kept the pool. */
SCENARIO(pool_more__own_queue_worker_leaves_what_is_taken_back__pool_is_kept,
         "TPE-61 TPE-49 P3")
{
    spn_pool_opts o = small(1, 1, 0);

    own_queue(&o);
    o.hooks.terminated = NULL;
    open_pool(&o);
    spn__init(&terminations, 1);
    (void)submit(0);
    sim_thread(submit_one, (void *)1);
    (void)pool_shutdown(pool);
    sim_join_all();
    close_pool();
}

SCENARIO_OPTS(pool_more__own_queue_worker_leaves_what_is_taken_back__pool_is_kept,
              .schedules = 5000)

SCENARIO(pool_more__own_queue_execute_races_shutdown_now__one_end, "TPE-62 P3")
{
    spn_pool_opts o = small(1, 1, 0);

    own_queue(&o);
    open_pool(&o);
    (void)submit(0);
    sim_thread(submit_one, (void *)1);
    (void)pool_shutdown_now(pool, take_back, NULL, NULL);
    sim_join_all();
    close_pool();
}

/* Submit against the keep-alive of the last worker. */
SCENARIO(pool_more__own_queue_execute_races_keep_alive__runs, "TPE-35 P1")
{
    spn_pool_opts o = small(0, 1, 0);

    own_queue(&o);
    open_pool(&o);
    (void)submit(0);
    sim_sleep(sim_choose(2) ? SPN_MS(1) : 1);
    (void)submit(1);
    for (int i = 0; i < 2; i++)
        while (!is_over(i))
            sim_sleep(SPN_US(100));
    close_pool();
}
SCENARIO_OPTS(pool_more__own_queue_execute_races_keep_alive__runs, .early = 8)

static void put_directly(void *arg)
{
    struct fate *f = &fates[(intptr_t)arg];

    sim_assert(spn_task_claim(&f->job.task) == SPN_OK);
    (void)spn__fetch_add(&f->accepted, 1, relaxed);
    sim_assert(spn_queue_put(queue, &f->job.task, SPN_FOREVER) == SPN_OK);
}

/* A task put into the queue by hand, while a thread lives, runs like the others. */
SCENARIO(pool_more__put_into_the_queue_directly__runs, "TPE-83 TPE-12")
{
    spn_pool_opts o = small(1, 1, 0);

    own_queue(&o);
    open_pool(&o);
    sim_assert(spn_pool_prestart(pool, 1) == 1);
    sim_thread(put_directly, (void *)1);
    (void)submit(0);
    sim_join_all();
    for (int i = 0; i < 2; i++)
        while (!is_over(i))
            sim_sleep(SPN_US(100));
    close_pool();
}

/* ---- threads -------------------------------------------------------------------------------- */

static void prestart(void *arg)
{
    (void)arg;
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) >= 0);
}

/* Threads made ahead while the pool ends: it ends, and none is left behind. */
SCENARIO(pool_more__prestart_races_shutdown__no_ghost, "TPE-24 TPE-26 TPE-51")
{
    spn_pool_opts o = small(2, 2, 4);

    open_pool(&o);
    sim_thread(prestart, NULL);
    if (sim_choose(2) == 0)
        (void)pool_shutdown(pool);
    else
        (void)pool_shutdown_now(pool, take_back, NULL, NULL);
    sim_join_all();
    close_pool();
}

/* A task that ends its thread as the pool stops. */
SCENARIO(pool_more__worker_dies_as_the_pool_stops__ends, "EXE-6 TPE-49 P44")
{
    spn_pool_opts o = small(1, 1, 4);

    open_pool(&o);
    fates[0].job.task.fn = run_and_die;
    fates[1].job.task.fn = run_and_die;
    (void)submit(0);
    (void)submit(1);
    sim_thread(sim_choose(2) == 0 ? shut_down : shut_down_now, NULL);
    (void)submit(2);
    sim_join_all();
    close_pool();
}

static void resume(void *arg)
{
    (void)arg;
    (void)spn_pool_resume(pool);
}

/* Pause, resume and the keep-alive: what came while it was paused runs. */
SCENARIO(pool_more__pause_races_keep_alive__runs_after_resume, "P1 P44 P15")
{
    spn_pool_opts o = small(0, 1, 4);

    open_pool(&o);
    (void)submit(0);
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    (void)submit(1);
    sim_sleep(sim_choose(2) ? SPN_MS(1) : 1); /* its worker leaves, or not */
    sim_thread(resume, NULL);
    (void)submit(2);
    sim_join_all();
    for (int i = 0; i < 3; i++)
        while (!is_over(i))
            sim_sleep(SPN_US(100));
    close_pool();
}
SCENARIO_OPTS(pool_more__pause_races_keep_alive__runs_after_resume, .early = 8)

static int perhaps_a_thread(const spn_thread_factory *factory, spn_thread **out,
                            spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    return sim_choose(3) == 0 ? SPN_EAGAIN : spn_thread_create(out, opts, fn, arg);
}

static const spn_thread_factory perhaps = { sizeof perhaps, perhaps_a_thread };

/* A task starts a thread, if one can be made, in a paused pool, while that is resumed, shut
 * down or stopped.  The task runs once, or is given back, or was refused. */
SCENARIO(pool_more__first_task_in_a_pause__started_or_given_back, "P15 TPE-52 TPE-62")
{
    const unsigned how = sim_choose(3);
    spn_pool_opts o = small(1, 2, 1);
    int64_t count = 0;

    o.factory = &perhaps;
    open_pool(&o);
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_thread(submit_one, (void *)0);
    if (sim_choose(2) == 0)
        sim_thread(submit_one, (void *)1);
    if (how == 0)
        (void)spn_pool_resume(pool);
    else if (how == 1)
        (void)pool_shutdown(pool);
    else
        sim_assert(pool_shutdown_now(pool, take_back, NULL, &count) == SPN_OK);
    sim_join_all();
    if (how == 0)
        (void)pool_shutdown(pool);
    /* shutdown_now ended the pause, so no task has started. */
    sim_assert(how != 2 || spn__load(&fates[0].ran, relaxed) == 0);
    sim_outcome((unsigned)count);
    close_pool();
}

/* The first task waits in its worker until the pool is resumed: it counts as active, and
 * remove does not find it. */
SCENARIO(pool_more__first_task_waits__is_active_and_not_removed, "P15 TPE-37 TPE-43")
{
    spn_pool_opts o = small(1, 1, 4);
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    open_pool(&o);
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_assert(submit(0) == SPN_OK);
    sim_assert(pool_remove(pool, &fates[0].job.task) == 0);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.active == 1 && s.queued == 0 && s.pending == 1);
    sim_settle();
    sim_assert(spn__load(&fates[0].ran, relaxed) == 0);
    sim_thread(resume, NULL);
    while (!is_over(0))
        sim_sleep(1);
    sim_join_all();
    close_pool();
}

static SPN__ATOMIC(int) told;

static int pause_it(spn_task *task)
{
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    (void)spn__fetch_add(&fate_of(task)->ran, 1, release);
    return 0;
}

static int be_told(spn_task *task)
{
    sim_assert(spn__load(&told, relaxed) == 1);
    return run(task);
}

/* What precedes resume is seen by a task that its worker had taken with others before
 * the pause, and so takes no lock for. */
SCENARIO(pool_more__resumed_with_a_batch_taken__sees_what_came_before, "P44 TPE-13")
{
    spn_pool_opts o = small(1, 1, 4);

    open_pool(&o);
    spn__init(&told, 0);
    fates[0].job.task.fn = pause_it;
    fates[1].job.task.fn = fates[2].job.task.fn = be_told;
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    sim_settle();                               /* the worker sleeps */
    sim_assert(spn_pool_pause(pool) == SPN_OK); /* so that they come together */
    for (int i = 0; i < 3; i++)
        (void)submit(i);
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    while (!is_over(0))
        sim_sleep(1);
    spn__store(&told, 1, relaxed);
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    close_pool();
}

SCENARIO_OPTS(pool_more__resumed_with_a_batch_taken__sees_what_came_before,
              .schedules = 3000)

/* One is destroyed while another works: they never meet. */
SCENARIO(pool_more__two_pools__one_ends_the_other_works, "P15")
{
    spn_pool_opts o = small(1, 1, 4);
    spn_pool *other;

    o.hooks.terminated = NULL;
    sim_assert(spn_pool_create(&other, &o) == SPN_OK);
    o.hooks.terminated = on_terminated;
    open_pool(&o);
    sim_assert(spn_pool_prestart(other, 1) == 1);
    sim_thread(submit_one, (void *)0);
    sim_assert(spn_pool_pause(other) == SPN_OK);
    sim_assert(pool_shutdown(other) == SPN_OK);
    sim_assert(pool_await(other, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_destroy(other) == SPN_OK);
    sim_join_all();
    while (spn__load(&fates[0].ran, acquire) == 0)
        sim_sleep(SPN_US(100));
    close_pool();
}

/* ---- the mark of a queue without a bound ------------------------------------------------ */

static void submit_to_unbounded(void *arg)
{
    sim_assert(submit((int)(intptr_t)arg) == SPN_OK);
}

/* A pool with a queue without a bound, of which many wait when it is one. */
static void open_watched(void)
{
    spn_pool_opts o = small(1, 2, SPN_UNBOUNDED);

    (void)spn_log_set_level(SPN_LOG_OFF); /* a line per schedule */
    open_pool(&o);
    spn__lock(&pool->lock);
    pool->work.many = 1;
    spn__work_set_capacity(pool, INT64_MAX);
    spn__unlock(&pool->lock);
}

/* Several find at once that many wait, and one tells: none is refused, and no thread is made
 * as for a queue that is full. */
SCENARIO(pool_more__several_at_the_mark__none_is_refused, "X-21 P6")
{
    open_watched();
    submit_to_unbounded((void *)0);
    sim_thread(submit_to_unbounded, (void *)1);
    sim_thread(submit_to_unbounded, (void *)2);
    submit_to_unbounded((void *)3);
    sim_join_all();
    sim_assert(pool_stats(pool).largest == 1);
    close_pool();
    (void)spn_log_set_level(SPN_LOG_WARN);
}

/* A bound that is set while somebody tells is not lost. */
SCENARIO(pool_more__bound_set_at_the_mark__it_holds, "X-21 TPE-5")
{
    open_watched();
    submit_to_unbounded((void *)0);
    sim_thread(submit_one, (void *)1);
    sim_thread(submit_one, (void *)2);
    sim_assert(pool_set_capacity(pool, 1) == SPN_OK);
    sim_join_all();
    sim_assert(spn__load(&pool->work.limit, relaxed) == 1);
    close_pool();
    (void)spn_log_set_level(SPN_LOG_WARN);
}
