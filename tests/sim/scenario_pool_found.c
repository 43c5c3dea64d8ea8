/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool_found.c - combinations that nobody had thought of until the pool was read,
 * or run (scenario_pool_mix.c), with them in mind: each as small as it fails.
 *
 * What they have in common: a thread relies on another, and that one goes.  Nothing waits
 * with a time-out, so a task that is left behind is a deadlock.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

enum { TASKS = 4 };

struct fate {
    spn_job job;                /* first */
    spn_latch *started, *ended; /* opened then; ended also if it is refused */
};

static spn_pool *pool;
static spn_executor *ex;
static spn_queue *queue; /* the user's, or NULL */
static struct fate fates[TASKS];
static spn_latch *gate;

static struct fate *fate_of(spn_task *task)
{
    return (struct fate *)(void *)task;
}

static void until_open(spn_latch *latch)
{
    sim_assert(spn_latch_await(latch, SPN_FOREVER) == SPN_OK);
}

static int run(spn_task *task)
{
    (void)spn_latch_count_down(fate_of(task)->started);
    (void)spn_latch_count_down(fate_of(task)->ended);
    return 0;
}

static void drop(spn_task *task, int reason)
{
    sim_assert(reason < 0);
    (void)spn_latch_count_down(fate_of(task)->ended);
}

static spn_pool_opts small(int32_t core, int32_t max, int32_t capacity)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    queue = NULL;
    o.name = "p";
    o.core_threads = core;
    o.max_threads = max;
    o.queue_capacity = capacity;
    o.keep_alive_ns = 0;
    return o;
}

static spn_pool_opts with_lanes(int32_t core, int32_t max)
{
    spn_pool_opts o = small(core, max, SPN_DEFAULT);

    o.queue_kind = SPN_POOL_LANES;
    return o;
}

static void open_pool(const spn_pool_opts *o)
{
    for (int i = 0; i < TASKS; i++) {
        fates[i] = (struct fate){ .job = SPN_JOB_INIT(run, drop) };
        sim_assert(spn_latch_create(&fates[i].started, 1) == SPN_OK);
        sim_assert(spn_latch_create(&fates[i].ended, 1) == SPN_OK);
    }
    sim_assert(spn_latch_create(&gate, 1) == SPN_OK);
    sim_assert(spn_pool_create(&pool, o) == SPN_OK);
    ex = spn_pool_executor(pool);
}

static void submit(int i)
{
    if (spn_executor_execute(ex, &fates[i].job.task) != SPN_OK)
        (void)spn_latch_count_down(fates[i].ended); /* nobody need wait for it */
}

static void submit_as(int i, int (*fn)(spn_task *))
{
    fates[i].job.task.fn = fn;
    submit(i);
}

static void until_ended(int i)
{
    until_open(fates[i].ended);
}

static void destroy_latches(void)
{
    for (int i = 0; i < TASKS; i++) {
        sim_assert(spn_latch_destroy(fates[i].started) == SPN_OK);
        sim_assert(spn_latch_destroy(fates[i].ended) == SPN_OK);
    }
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
}

static void close_pool(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    (void)spn_latch_count_down(gate);
    if (pool_is_shutdown(pool) == 0)
        (void)pool_shutdown(pool);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.pending == 0);
    sim_assert(s.accepted ==
               s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    destroy_latches();
    if (queue != NULL)
        sim_assert(spn_queue_destroy(queue) == SPN_OK);
    queue = NULL;
}
/* ---- a thread above max leaves ---------------------------------------------------- */
static spn_pool_opts with_own_queue(int32_t core, int32_t max)
{
    spn_pool_opts o = small(core, max, SPN_DEFAULT);

    sim_assert(spn_queue_create(&queue, SPN_QUEUE_LINKED, NULL) == SPN_OK);
    o.queue = queue;
    return o;
}

static int answer(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 0;
}

/* Waits for another task of the pool, or is told that it cannot. */
static int wait_for(int (*fn)(void *, void **), void *arg)
{
    spn_future *future;
    int rc = spn_executor_submit(ex, fn, arg, &future);

    if (rc != SPN_OK)
        return rc;
    rc = spn_future_get(future, NULL, SPN_FOREVER);
    spn_future_unref(future);
    return rc;
}

static int wait_for_answer(spn_task *task)
{
    const int rc = wait_for(answer, NULL);

    sim_assert(rc == SPN_OK || rc == SPN_EDEADLK || rc == SPN_EREJECTED);
    return run(task);
}

/* Of two threads one is too many from now on. */
static void lower_max(void)
{
    sim_assert(pool_set_core(pool, 1) == SPN_OK);
    sim_assert(pool_set_max(pool, 1) == SPN_OK);
}

/* One waits for a task that is queued, and the thread above max is the only one that could
 * run it: it runs it before it leaves, if the other was not told SPN_EDEADLK. */
static void waits_as_one_leaves(const spn_pool_opts *o)
{
    open_pool(o);
    submit_as(0, wait_for_answer);
    submit(1);
    lower_max();
    until_ended(0);
    close_pool();
}

SCENARIO(pool_found__waits_as_one_above_max_leaves__not_for_ever, "P6 TPE-32 G-20")
{
    const spn_pool_opts o = small(2, 2, 4);

    waits_as_one_leaves(&o);
}

SCENARIO(pool_found__waits_as_one_above_max_leaves__lanes, "P6 TPE-32 G-20")
{
    const spn_pool_opts o = with_lanes(2, 2);

    waits_as_one_leaves(&o);
}

SCENARIO(pool_found__waits_as_one_above_max_leaves__own_queue, "P6 TPE-32 G-20")
{
    const spn_pool_opts o = with_own_queue(2, 2);

    waits_as_one_leaves(&o);
}

/* ---- the end of a pause ------------------------------------------------------------ */

SCENARIO(pool_found__waiting_and_paused_and_shut_down__goes_on, "P6 P44")
{
    const spn_pool_opts o = small(1, 2, 4);

    open_pool(&o);
    submit_as(0, wait_for_answer);
    (void)spn_pool_pause(pool);
    sim_sleep(1); /* whoever has nothing to do goes, or not */
    (void)pool_shutdown(pool);
    until_ended(0);
    close_pool();
}
/* ---- a user's queue is emptied for a moment ------------------------------------------ */

static void purge(void *arg)
{
    (void)arg;
    sim_assert(spn_pool_purge(pool) == 0);
}

SCENARIO(pool_found__waiting_as_its_queue_is_purged__goes_on, "P6 TPE-45")
{
    const spn_pool_opts o = with_own_queue(1, 2);

    open_pool(&o);
    submit_as(0, wait_for_answer);
    sim_thread(purge, NULL);
    until_ended(0);
    sim_join_all();
    close_pool();
}

/* ---- a thread above max stays ------------------------------------------------------------ */

/* In a paused pool one that stays for what was handed over to it sleeps until that ends,
 * also if its keep-alive is over. */
SCENARIO(pool_found__stays_in_a_paused_pool__sleeps, "P44 TPE-35")
{
    const spn_pool_opts o = small(1, 1, SPN_HANDOFF);

    open_pool(&o);
    submit(0);
    until_ended(0);
    sim_settle(); /* its thread is free */
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_settle();
    sim_assert(spn_executor_execute(ex, &fates[1].job.task) == SPN_OK);
    sim_assert(pool_set_core(pool, 0) == SPN_OK);
    sim_settle();
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    until_ended(1);
    close_pool();
}
/* ---- a thread leaves a paused pool --------------------------------------------------- */

/* One waits for a task because there is a thread that can run it: that stays also while
 * it may not, for above max no other could be made afterwards. */
SCENARIO(pool_found__waits_as_the_pool_is_paused__goes_on, "P6 P44")
{
    const spn_pool_opts o = small(2, 2, 4);

    open_pool(&o);
    submit_as(0, wait_for_answer);
    submit(1);
    lower_max();
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    until_ended(0);
    close_pool();
}
SCENARIO_OPTS(pool_found__waits_as_the_pool_is_paused__goes_on, .schedules = 3000)

/* The same as a queue of the user's is emptied for a moment. */
SCENARIO(pool_found__waits_above_max_as_its_queue_is_purged__goes_on, "P6 TPE-45")
{
    const spn_pool_opts o = with_own_queue(2, 2);

    open_pool(&o);
    submit_as(0, wait_for_answer);
    sim_thread(purge, NULL);
    submit(1);
    lower_max();
    until_ended(0);
    sim_join_all();
    close_pool();
}
/* One that stays for what another then takes goes when its keep-alive is over. */
SCENARIO(pool_found__stays_for_what_another_takes__goes_after_all, "TPE-35 P1")
{
    spn_pool_opts o = with_own_queue(2, 2);

    o.keep_alive_ns = SPN_MS(1);
    open_pool(&o);
    submit(0);
    submit(1);
    submit(2);
    sim_assert(pool_set_core(pool, 0) == SPN_OK);
    for (int i = 0; i < 3; i++)
        until_ended(i);
    for (int i = 0; i < 8 && pool_stats(pool).threads > 0; i++) {
        sim_sleep(SPN_SEC(1));
        sim_settle();
    }
    sim_assert(pool_stats(pool).threads == 0);
    close_pool();
}

/* ---- how many schedules: some times those in which it failed --------------------- */

SCENARIO_OPTS(pool_found__waits_as_one_above_max_leaves__not_for_ever, .schedules = 200)
SCENARIO_OPTS(pool_found__waits_as_one_above_max_leaves__lanes, .schedules = 200)
SCENARIO_OPTS(pool_found__waits_as_one_above_max_leaves__own_queue, .schedules = 200)
SCENARIO_OPTS(pool_found__waiting_and_paused_and_shut_down__goes_on, .schedules = 1000)
SCENARIO_OPTS(pool_found__waiting_as_its_queue_is_purged__goes_on, .schedules = 600)
SCENARIO_OPTS(pool_found__stays_in_a_paused_pool__sleeps, .schedules = 100)
SCENARIO_OPTS(pool_found__waits_above_max_as_its_queue_is_purged__goes_on,
              .schedules = 600)
SCENARIO_OPTS(pool_found__stays_for_what_another_takes__goes_after_all,
              .schedules = 800)
/* ---- the end ---------------------------------------------------------------------- */

/* One is about to leave a pool that is shut down, and stays for a task that another then
 * takes: it leaves after all. */
SCENARIO(pool_found__stays_in_a_pool_that_ends_for_what_another_takes__ends,
         "TPE-58 TPE-61 G-20")
{
    const spn_pool_opts o = small(3, 3, 4);

    open_pool(&o);
    for (int i = 0; i < 4; i++)
        submit(i);
    /* There are three: each thinks it is to go. */
    sim_assert(pool_set_core(pool, 2) == SPN_OK);
    sim_assert(pool_set_max(pool, 2) == SPN_OK);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    close_pool();
}
SCENARIO_OPTS(pool_found__stays_in_a_pool_that_ends_for_what_another_takes__ends,
              .schedules = 5000)

static int nothing_then(void *arg, void *given, void **result)
{
    (void)arg;
    (void)given;
    *result = NULL;
    return 0;
}

static int only_inside(void *arg, void *given, void **result)
{
    sim_assert(spn_executor_is_inside(spn_pool_executor(pool)) == 1);
    return nothing_then(arg, given, result);
}

static void complete_and_leave(void *future)
{
    sim_assert(spn_future_complete(future, NULL) == 1);
    spn_future_unref(future);
}

/* A stage that ran in a pool is done, and the pool is destroyed, while whoever completed its
 * source is still on the way out of handing it over: the pool waits for that. */
SCENARIO(pool_found__destroyed_as_its_stage_is_done__not_touched_after, "TPE-61")
{
    const spn_pool_opts o = small(1, 1, 4);
    spn_future *f, *g;
    void *result;

    open_pool(&o);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    sim_assert(spn_future_create(&f, NULL) == SPN_OK);
    sim_assert(spn_future_then(f, spn_pool_executor(pool), nothing_then, NULL, &g) ==
               SPN_OK);
    sim_thread(complete_and_leave, spn_future_ref(f));
    sim_assert(spn_future_get(g, &result, SPN_FOREVER) == SPN_OK);
    close_pool();
    sim_join_all();
    spn_future_unref(f);
    spn_future_unref(g);
}

static void time_out(void *future)
{
    sim_assert(spn_future_complete_error(future, SPN_ETIMEDOUT, "") == 1);
    spn_future_unref(future);
}

static void time_out_or_not(void *future)
{
    sim_outcome((unsigned)spn_future_complete_error(future, SPN_ETIMEDOUT, ""));
    spn_future_unref(future);
}

static int never_called(void *arg, void **result)
{
    (void)arg;
    (void)result;
    sim_assert(false);
    return 0;
}

/* A paused pool whose only place has a task, the future of which is returned. */
static spn_future *fill_pool(const spn_pool_opts *o)
{
    spn_future *f;

    open_pool(o);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    sim_settle(); /* the worker sleeps */
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_assert(spn_executor_submit(ex, never_called, NULL, &f) == SPN_OK);
    return f;
}

static void empty_pool(spn_future *f)
{
    sim_join_all();
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    until_ended(0);
    close_pool();
    spn_future_unref(f);
}

/* A queued future times out: who has seen that finds its place free. */
SCENARIO(pool_found__future_timed_out_in_a_full_queue__place_is_free, "TPE-93")
{
    const spn_pool_opts o = small(1, 1, 1);
    spn_future *f = fill_pool(&o);

    sim_thread(time_out, spn_future_ref(f));
    sim_assert(spn_future_get(f, NULL, SPN_FOREVER) == SPN_EFAILED);
    sim_assert(spn_executor_execute(ex, &fates[0].job.task) == SPN_OK);
    empty_pool(f);
}
SCENARIO_OPTS(pool_found__future_timed_out_in_a_full_queue__place_is_free, .dfs = 2,
              .dfs_models = SIM_SC)

/* The same for who waits for room already. */
SCENARIO(pool_found__future_timed_out_while_one_waits_for_room__goes_in, "TPE-93")
{
    static const spn_reject_block for_ever = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    spn_pool_opts o = small(1, 1, 1);
    spn_future *f;

    o.reject = &for_ever.policy;
    f = fill_pool(&o);
    sim_thread(time_out, spn_future_ref(f));
    sim_assert(spn_executor_execute(ex, &fates[0].job.task) == SPN_OK);
    empty_pool(f);
}

/* It times out while the pool drops it, ends and is destroyed: nobody touches it after. */
SCENARIO(pool_found__future_timed_out_as_it_is_dropped__not_touched_after, "TPE-93")
{
    const spn_pool_opts o = small(1, 1, 1);
    spn_future *f = fill_pool(&o);
    int64_t count;

    sim_thread(time_out_or_not, spn_future_ref(f));
    sim_assert(pool_shutdown_now(pool, NULL, NULL, &count) == SPN_OK);
    (void)spn_latch_count_down(fates[0].ended);
    close_pool();
    sim_join_all();
    sim_assert(count == 1 && spn_future_get_state(f) != SPN_FUTURE_PENDING);
    spn_future_unref(f);
}

/* A pool is closed and destroyed while its stage's source is completed: it is busy until the
 * stage is done with it. */
SCENARIO(pool_found__destroyed_as_its_stage_is_handed_over__busy_until_then, "CF-49")
{
    const spn_pool_opts o = small(1, 1, 4);
    spn_future *f, *g;
    unsigned busy = 0;

    open_pool(&o);
    sim_assert(spn_future_create(&f, NULL) == SPN_OK);
    sim_assert(spn_future_then(f, spn_pool_executor(pool), nothing_then, NULL, &g) ==
               SPN_OK);
    sim_thread(complete_and_leave, spn_future_ref(f));
    sim_assert(spn_pool_close(pool) == SPN_OK);
    while (spn_pool_destroy(pool) == SPN_EBUSY) {
        busy = 1;
        spn__cpu_relax();
    }
    sim_join_all();
    sim_outcome(busy + 2 * (unsigned)spn_future_get_state(g));
    sim_assert(spn_future_get_state(g) != SPN_FUTURE_PENDING);
    destroy_latches();
    spn_future_unref(f);
    spn_future_unref(g);
}
SCENARIO_OPTS(pool_found__destroyed_as_its_stage_is_handed_over__busy_until_then,
              .dfs = 1, .dfs_models = SIM_SC)

static void end_stage(void *stage)
{
    if (sim_choose(2) == 0)
        sim_assert(spn_future_cancel(stage, 0) == 1);
    else
        sim_assert(spn_future_complete(stage, NULL) == 1);
    spn_future_unref(stage);
}

static void fail_and_leave(void *future)
{
    sim_assert(spn_future_complete_error(future, -7, NULL) == 1);
    spn_future_unref(future);
}

/* Whoever sees that the last stage of a pool is done may destroy the pool. */
SCENARIO(pool_found__destroyed_as_its_stage_is_done_by_hand__not_busy, "CF-49")
{
    const spn_pool_opts o = small(1, 1, 4);
    spn_future *f, *g;

    open_pool(&o);
    sim_assert(spn_future_create(&f, NULL) == SPN_OK);
    sim_assert(spn_future_then(f, spn_pool_executor(pool), nothing_then, NULL, &g) ==
               SPN_OK);
    if (sim_choose(2) == 0)
        sim_thread(end_stage, spn_future_ref(g));
    else
        sim_thread(fail_and_leave, spn_future_ref(f));
    sim_assert(spn_future_get(g, NULL, SPN_FOREVER) != SPN_EINTR);
    close_pool();
    sim_join_all();
    spn_future_unref(f);
    spn_future_unref(g);
}

/* A stage that is completed by hand while it is handed over runs nowhere else. */
SCENARIO(pool_found__stage_done_by_hand_as_it_is_handed_over__one_of_two, "CF-49 CF-31")
{
    const spn_pool_opts o = small(1, 1, 4);
    spn_future *f, *g;

    open_pool(&o);
    sim_assert(spn_future_create(&f, NULL) == SPN_OK);
    sim_assert(spn_future_then(f, spn_pool_executor(pool), only_inside, NULL, &g) ==
               SPN_OK);
    sim_thread(complete_and_leave, spn_future_ref(f));
    sim_outcome((unsigned)spn_future_cancel(g, 0));
    sim_assert(spn_future_get_state(g) != SPN_FUTURE_PENDING);
    sim_join_all();
    close_pool();
    spn_future_unref(f);
    spn_future_unref(g);
}

/* The same for an executor in front of a pool; of a serial one perhaps a key's. */
static void end_as_its_stage_is_done(spn_executor *front, spn_serial *serial,
                                     spn_executor *whole)
{
    spn_future *f, *g;
    void *result;

    sim_assert(spn_future_create(&f, NULL) == SPN_OK);
    sim_assert(spn_future_then(f, front, nothing_then, NULL, &g) == SPN_OK);
    sim_thread(complete_and_leave, spn_future_ref(f));
    sim_assert(spn_future_get(g, &result, SPN_FOREVER) == SPN_OK);
    if (whole != front)
        sim_assert(spn_serial_close(serial, front) == SPN_OK);
    sim_assert(spn_executor_shutdown(whole) == SPN_OK);
    sim_assert(spn_executor_await(whole, SPN_FOREVER) == SPN_OK);
    spn_future_unref(f);
    spn_future_unref(g);
}

static void end_serial(bool of_a_key)
{
    const spn_pool_opts o = small(1, 1, 4);
    spn_executor *front;
    spn_serial *s;

    open_pool(&o);
    sim_assert(spn_serial_create(&s, spn_pool_executor(pool), NULL) == SPN_OK);
    front = spn_serial_executor(s);
    if (of_a_key)
        sim_assert(spn_serial_open(s, 7, &front) == SPN_OK);
    end_as_its_stage_is_done(front, s, spn_serial_executor(s));
    sim_assert(spn_serial_destroy(s) == SPN_OK);
    close_pool();
    sim_join_all();
}

SCENARIO(pool_found__serial_ends_as_its_stage_is_done__not_touched_after, "X-15")
{
    end_serial(false);
}

SCENARIO(pool_found__key_ends_as_its_stage_is_done__not_touched_after, "X-15")
{
    end_serial(true);
}

SCENARIO(pool_found__limiter_ends_as_its_stage_is_done__not_touched_after)
{
    const spn_pool_opts o = small(1, 1, 4);
    spn_limiter_opts lo = SPN_LIMITER_OPTS_INIT;
    spn_limiter *l;

    open_pool(&o);
    lo.executor = spn_pool_executor(pool);
    lo.max_in_flight = 1;
    sim_assert(spn_limiter_create(&l, &lo) == SPN_OK);
    end_as_its_stage_is_done(spn_limiter_executor(l), NULL, spn_limiter_executor(l));
    sim_assert(spn_limiter_destroy(l) == SPN_OK);
    close_pool();
    sim_join_all();
}

/* Who waits has its answer and goes, and with it the executor. */
SCENARIO(pool_found__threadless_goes_with_its_answer__not_touched_after, "X-16")
{
    spn_threadless *t;
    spn_future *f, *g;

    sim_assert(spn_threadless_create(&t, NULL) == SPN_OK);
    sim_assert(spn_future_create(&f, NULL) == SPN_OK);
    sim_assert(spn_future_then(f, spn_threadless_executor(t), nothing_then, NULL, &g) ==
               SPN_OK);
    sim_thread(complete_and_leave, spn_future_ref(f));
    sim_assert(spn_threadless_wait_and_drain(t, SPN_SEC(60)) == SPN_OK);
    sim_assert(spn_future_get_state(g) != SPN_FUTURE_PENDING);
    sim_assert(spn_threadless_destroy(t) == SPN_OK);
    sim_join_all();
    spn_future_unref(f);
    spn_future_unref(g);
}
SCENARIO_OPTS(pool_found__threadless_goes_with_its_answer__not_touched_after,
              .early = SIM_NEVER)

/* ---- no thread to be had -------------------------------------------------------- */

static SPN__ATOMIC(int) threads_asked;

static int make_only_one(const spn_thread_factory *factory, spn_thread **out,
                         spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    if (spn__fetch_add(&threads_asked, 1, relaxed) > 0)
        return SPN_EAGAIN;
    return spn_thread_create(out, opts, fn, arg);
}

static int nap(spn_task *task)
{
    (void)task;
    sim_sleep(SPN_MS(5));
    return 0;
}

static const spn_thread_factory one_thread = { sizeof one_thread, make_only_one };
static const spn_reject_block a_moment = SPN_REJECT_BLOCK_INIT(SPN_MS(1));
static spn_task naps[4];

static void wait_for_room(void *task)
{
    const int rc = spn_executor_execute(spn_pool_executor(pool), task);

    /* EAGAIN: the worker has left, as one more than core was in the making. */
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_EAGAIN);
}

/* Two wait for room where there may be another thread, but none can be made: they sleep, do
 * not wake themselves or each other all the time, and give up when their time is over. */
SCENARIO(pool_found__wait_for_room_where_no_thread_can_be_made__sleep, "TPE-84")
{
    spn_pool_opts o = small(1, 2, 1);
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    spn__init(&threads_asked, 0);
    for (int i = 0; i < 4; i++)
        naps[i] = (spn_task)SPN_TASK_INIT(nap, NULL);
    o.reject = &a_moment.policy;
    o.factory = &one_thread;
    open_pool(&o);
    sim_assert(spn_executor_execute(spn_pool_executor(pool), &naps[0]) == SPN_OK);
    sim_assert(spn_executor_execute(spn_pool_executor(pool), &naps[1]) == SPN_OK);
    sim_thread(wait_for_room, &naps[2]);
    wait_for_room(&naps[3]);
    sim_join_all();
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.threads_failed < 20);
    close_pool();
}
SCENARIO_OPTS(pool_found__wait_for_room_where_no_thread_can_be_made__sleep,
              .max_steps = 60000)
