/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool_order.c - what the pool's memory orders are for: each scenario is
 * about one label, and fails when one end of it is weaker.
 *
 * What a task did is a relaxed store here, read relaxed by whoever has learned that
 * the task has run; nothing else orders the two.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"

enum { TASKS = 4 };

static spn_pool *pool;
static spn_job jobs[TASKS];
static SPN__ATOMIC(int) done[TASKS];
static spn_latch *gate;

static int number_of(const spn_task *task)
{
    return (int)((const spn_job *)(const void *)task - jobs);
}

static int run(spn_task *task)
{
    spn__store(&done[number_of(task)], 1, relaxed); /* see above */
    return 0;
}

static int run_and_fail(spn_task *task)
{
    (void)run(task);
    return -1;
}

static int await_gate(spn_task *task)
{
    sim_assert(spn_latch_await(gate, SPN_FOREVER) == SPN_OK);
    return run(task);
}

static int open_gate(spn_task *task)
{
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    return run(task);
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

    o.name = "p";
    o.core_threads = core;
    o.max_threads = max;
    o.queue_capacity = capacity;
    o.keep_alive_ns = SPN_SEC(60);
    o.hooks.uncaught = quiet;
    return o;
}

static void open_pool(const spn_pool_opts *o)
{
    for (int i = 0; i < TASKS; i++) {
        jobs[i] = (spn_job)SPN_JOB_INIT(run, NULL);
        spn__init(&done[i], 0);
    }
    sim_assert(spn_latch_create(&gate, 1) == SPN_OK);
    sim_assert(spn_pool_create(&pool, o) == SPN_OK);
}

static int submit(int i)
{
    return spn_executor_execute(spn_pool_executor(pool), &jobs[i].task);
}

static void submit_one(void *arg)
{
    (void)submit((int)(intptr_t)arg);
}

static bool seen(int i)
{
    return spn__load(&done[i], relaxed) == 1; /* see above */
}

static void close_pool(void)
{
    sim_join_all();
    if (pool_is_shutdown(pool) == 0)
        sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
}

/* ---- [search] ------------------------------------------------------------------------ */

/* Two sleep; the first task wakes one and then waits for the second: the submitter that
 * relies on the one that searches, and the searcher that looks for more, see each
 * other. */
static void relies_on_the_searcher(const spn_pool_opts *o)
{
    open_pool(o);
    jobs[0].task.fn = await_gate;
    jobs[1].task.fn = open_gate;
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 2);
    sim_settle(); /* both sleep */
    sim_assert(submit(0) == SPN_OK);
    sim_assert(submit(1) == SPN_OK);
    sim_assert(spn_latch_await(gate, SPN_FOREVER) == SPN_OK);
    close_pool();
}

SCENARIO(pool_order__submitter_relies_on_the_searcher__second_is_woken, "TPE-13")
{
    const spn_pool_opts o = small(2, 2, 4);

    relies_on_the_searcher(&o);
}

/* Here the fence that makes sure that no sleeper is overlooked is a light one. */
SCENARIO(pool_order__submitter_relies_on_the_searcher__lanes, "TPE-13")
{
    spn_pool_opts o = small(2, 2, SPN_UNBOUNDED);

    o.queue_kind = SPN_POOL_LANES;
    relies_on_the_searcher(&o);
}

/* The same behind a task that one was woken for: it lets others run instead of another nap
 * (idle.c), and what came while it was relied on is not left to it alone. */
SCENARIO(pool_order__submitter_relies_on_one_that_napped__second_is_woken, "TPE-13")
{
    const spn_pool_opts o = small(2, 2, 4);

    open_pool(&o);
    jobs[0].task.fn = await_gate;
    jobs[1].task.fn = open_gate;
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 2);
    sim_settle(); /* both sleep */
    sim_assert(submit(2) == SPN_OK);
    sim_settle(); /* and again */
    sim_assert(submit(3) == SPN_OK);
    sim_assert(submit(0) == SPN_OK);
    sim_assert(submit(1) == SPN_OK);
    sim_assert(spn_latch_await(gate, SPN_FOREVER) == SPN_OK);
    close_pool();
}

/* ---- [ctl] ----------------------------------------------------------------------------- */

static void shut_down(void *arg)
{
    (void)arg;
    sim_assert(pool_shutdown(pool) == SPN_OK);
}

/* Whoever learns that the pool has ended sees what its tasks did, without waiting. */
SCENARIO(pool_order__state_is_terminated__tasks_are_seen, "TPE-59")
{
    spn_pool_opts o = small(1, 1, 4);

    open_pool(&o);
    sim_assert(submit(0) == SPN_OK);
    sim_thread(shut_down, NULL);
    for (int i = 0; i < 4; i++) {
        if (pool_is_terminated(pool) == 1) {
            sim_assert(seen(0));
            break;
        }
        spn__cpu_relax();
    }
    close_pool();
}

/* ---- [count] --------------------------------------------------------------------------- */

/* A task that the books show as ended is seen to have run. */
SCENARIO(pool_order__counted_as_ended__task_is_seen, "TPE-40")
{
    spn_pool_opts o = small(1, 1, 4);
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    open_pool(&o);
    jobs[1].task.fn = run_and_fail;
    sim_assert(submit(0) == SPN_OK && submit(1) == SPN_OK);
    for (int i = 0; i < 4; i++) {
        sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
        sim_assert(s.completed == 0 || seen(0));
        sim_assert(s.failed == 0 || seen(1));
        spn__cpu_relax();
    }
    close_pool();
}

static int run_call(void *arg)
{
    spn__store((SPN__ATOMIC(int) *)arg, 1, relaxed); /* see above */
    return 0;
}

/* The same of calls that a worker runs one after another without looking up. */
SCENARIO(pool_order__call_of_a_batch_counted__is_seen, "TPE-40")
{
    spn_pool_opts o = small(1, 1, SPN_UNBOUNDED);
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    o.queue_kind = SPN_POOL_LANES;
    open_pool(&o);
    sim_assert(spn_pool_prestart(pool, 1) == 1);
    for (int i = 0; i < 3; i++)
        sim_assert(spn_executor_call(spn_pool_executor(pool), run_call, &done[i]) ==
                   SPN_OK);
    for (int i = 0; i < 4; i++) {
        sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
        for (int c = 0; c < s.completed; c++)
            sim_assert(seen(c)); /* one lane: in order */
        spn__cpu_relax();
    }
    close_pool();
}
SCENARIO_OPTS(pool_order__call_of_a_batch_counted__is_seen, .max_steps = 60000)

/* ---- [size] ---------------------------------------------------------------------------- */

static void cancel_owned(void *arg)
{
    (void)spn_pool_cancel_owner(pool, arg);
}

static void size_is_never_negative(uint32_t queue, bool cancel)
{
    spn_pool_opts o = small(1, 1, 4);

    o.queue_kind = queue;
    open_pool(&o);
    jobs[1].owner = &pool;
    if (cancel)
        sim_thread(cancel_owned, &pool);
    sim_thread(submit_one, (void *)1);
    sim_thread(submit_one, (void *)2);
    for (int i = 0; i < 4; i++)
        sim_assert(pool_stats(pool).queued >= 0);
    close_pool();
}

/* The size that others see is never negative, whoever takes out. */
SCENARIO(pool_order__size_while_tasks_come_and_go__not_negative, "TPE-40")
{
    size_is_never_negative(SPN_POOL_FIFO, false);
}

SCENARIO(pool_order__size_of_a_heap__not_negative, "TPE-40")
{
    size_is_never_negative(SPN_POOL_PRIORITY, false);
}

SCENARIO(pool_order__size_while_some_are_cancelled__not_negative, "TPE-40 TPE-45")
{
    size_is_never_negative(SPN_POOL_PRIORITY, true);
}

/* ---- [free] ---------------------------------------------------------------------------- */

/* A hand-over counts on a worker that is free: not on the one that has just taken the
 * last task, and waits in it for this one. */
SCENARIO(pool_order__hand_off_to_who_has_just_taken_one__another_thread, "EXE-4")
{
    spn_pool_opts o = small(0, 2, SPN_HANDOFF);

    open_pool(&o);
    jobs[1].task.fn = await_gate;
    jobs[2].task.fn = open_gate;
    sim_assert(submit(0) == SPN_OK);
    sim_settle(); /* its worker sleeps, and is free */
    sim_assert(submit(1) == SPN_OK);
    sim_assert(submit(2) == SPN_OK);
    sim_assert(spn_latch_await(gate, SPN_FOREVER) == SPN_OK);
    close_pool();
}

/* ---- [knob] ---------------------------------------------------------------------------- */

static SPN__ATOMIC(int) prepared;

static int refuse(const spn_reject_policy *policy, spn_pool *p, spn_task *task,
                  const spn_refusal *why)
{
    (void)policy;
    (void)p;
    (void)task;
    (void)why;
    sim_assert(spn__load(&prepared, relaxed) == 1); /* came with the policy */
    return SPN_EREJECTED;
}

static int make(const spn_thread_factory *factory, spn_thread **out,
                spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    sim_assert(spn__load(&prepared, relaxed) == 1); /* came with the factory */
    return spn_thread_create(out, opts, fn, arg);
}

static const spn_reject_policy own_policy = { .size = sizeof own_policy,
                                              .refused = refuse };
static const spn_thread_factory own_factory = { sizeof own_factory, make };

static void publish_policy(void *arg)
{
    (void)arg;
    spn__store(&prepared, 1, relaxed); /* the contents */
    sim_assert(pool_set_reject(pool, &own_policy) == SPN_OK);
}

static void publish_factory(void *arg)
{
    (void)arg;
    spn__store(&prepared, 1, relaxed); /* the contents */
    sim_assert(pool_set_factory(pool, &own_factory) == SPN_OK);
}

static void submit_three(void *arg)
{
    (void)arg;
    for (int i = 1; i < 4; i++)
        (void)submit(i);
}

/* One waits, one has a thread made, one is refused, while something is set. */
static void set_meanwhile(void (*publish)(void *))
{
    spn_pool_opts o = small(1, 2, 1);

    spn__init(&prepared, 0);
    open_pool(&o);
    jobs[0].task.fn = await_gate;
    sim_assert(submit(0) == SPN_OK); /* it holds the first thread */
    sim_thread(publish, NULL);
    sim_thread(submit_three, NULL);
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    close_pool();
}

/* Whoever uses a policy or a factory meets it with
 * what was made before it was set. */
SCENARIO(pool_order__policy_set__used_with_its_contents, "TPE-79")
{
    set_meanwhile(publish_policy);
}

SCENARIO(pool_order__factory_set__used_with_its_contents, "TPE-20")
{
    set_meanwhile(publish_factory);
}

/* ---- [door], [user], [help] ---------------------------------------------------------------- */

/* The last worker of a pool over a queue with one lock leaves, and a task comes: one of
 * the two sees the other. */
SCENARIO(pool_order__last_leaves_a_queue_of_the_users__task_runs, "TPE-35 P1")
{
    spn_pool_opts o = small(0, 1, 0);
    spn_queue *queue;

    sim_assert(spn_queue_create(&queue, SPN_QUEUE_TRANSFER, NULL) == SPN_OK);
    o.queue = queue;
    o.queue_capacity = SPN_DEFAULT;
    o.keep_alive_ns = 0;
    open_pool(&o);
    jobs[1].task.fn = open_gate;
    sim_assert(submit(0) == SPN_OK);
    sim_assert(submit(1) == SPN_OK);
    sim_assert(spn_latch_await(gate, SPN_FOREVER) == SPN_OK);
    close_pool();
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void prestart(void *arg)
{
    (void)arg;
    (void)spn_pool_prestart(pool, 1);
}

/* A worker that has just begun to wait in the user's queue is woken as who it is, and
 * the wake-up does not reach its task. */
SCENARIO(pool_order__look_around_as_a_worker_begins_to_wait__woken_or_sees_it,
         "TPE-34 TPE-50")
{
    spn_pool_opts o = small(1, 1, 0);
    spn_queue *queue;

    sim_assert(spn_queue_create(&queue, SPN_QUEUE_LINKED, NULL) == SPN_OK);
    o.queue = queue;
    o.queue_capacity = SPN_DEFAULT;
    open_pool(&o);
    sim_thread(prestart, NULL);
    sim_assert(pool_set_core(pool, 1) == SPN_OK);
    sim_assert(pool_set_keep_alive(pool, SPN_SEC(30)) == SPN_OK);
    close_pool();
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void remove_second(void *arg)
{
    (void)arg;
    (void)pool_remove(pool, &jobs[1].task);
}

/* Who takes a task back has it out of its lane before it is counted: the pool does not end
 * in between. */
SCENARIO(pool_order__removed_from_a_lane_races_the_end__counted_before, "TPE-49 P28")
{
    spn_pool_opts o = small(1, 1, SPN_UNBOUNDED);
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    o.queue_kind = SPN_POOL_LANES;
    open_pool(&o);
    sim_assert(submit(0) == SPN_OK);
    sim_assert(submit(1) == SPN_OK);
    sim_thread(remove_second, NULL);
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.pending == 0 && s.completed + s.returned == 2);
    sim_join_all();
    close_pool();
}

/* ---- [door] when a thread cannot be made ------------------------------------------------- */

static SPN__ATOMIC(int) asked;

static int make_second(const spn_thread_factory *factory, spn_thread **out,
                       spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    if (spn__fetch_add(&asked, 1, relaxed) == 0) {
        *out = NULL;
        return SPN_EAGAIN;
    }
    return spn_thread_create(out, opts, fn, arg);
}

static void drop_and_open(spn_task *task, int reason)
{
    sim_assert(reason < 0);
    (void)open_gate(task);
}

static void submit_or_open(void *arg)
{
    const int i = (int)(intptr_t)arg;

    if (submit(i) != SPN_OK)
        (void)open_gate(&jobs[i].task);
}

static void thread_cannot_be_made(spn_pool_opts *o)
{
    static const spn_thread_factory factory = { sizeof factory, make_second };

    spn__init(&asked, 0);
    o->factory = &factory;
    open_pool(o);
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
    sim_assert(spn_latch_create(&gate, 2) == SPN_OK);
    for (int i = 0; i < 2; i++) {
        jobs[i].task.fn = open_gate;
        jobs[i].task.drop = drop_and_open;
    }
    sim_thread(submit_or_open, (void *)0);
    sim_thread(submit_or_open, (void *)1);
    sim_assert(spn_latch_await(gate, SPN_FOREVER) == SPN_OK); /* before any shutdown */
    close_pool();
}

/* One relies on the worker that another is about to start, and that one cannot be made:
 * the task runs, is dropped or refused, and does not lie there. */
SCENARIO(pool_order__thread_fails_behind_a_push_to_lanes__told, "TPE-22 TPE-24")
{
    spn_pool_opts o = small(0, 1, SPN_UNBOUNDED);

    o.queue_kind = SPN_POOL_LANES;
    thread_cannot_be_made(&o);
}
SCENARIO_OPTS(pool_order__thread_fails_behind_a_push_to_lanes__told, .max_steps = 60000)

SCENARIO(pool_order__thread_fails_behind_a_queue_of_the_users__told, "TPE-22 TPE-24")
{
    spn_pool_opts o = small(0, 1, 0);
    spn_queue *queue;

    sim_assert(spn_queue_create(&queue, SPN_QUEUE_TRANSFER, NULL) == SPN_OK);
    o.queue = queue;
    o.queue_capacity = SPN_DEFAULT;
    thread_cannot_be_made(&o);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* ---- [pause] ------------------------------------------------------------------------------- */

static SPN__ATOMIC(int) stage, written;

static void await_stage(int n)
{
    while (spn__load(&stage, relaxed) < n)
        spn__cpu_relax();
}

/* The first of the three: the others come meanwhile, and are moved over together. */
static int await_the_others(spn_task *task)
{
    await_stage(1);
    return run(task);
}

/* The pool is paused and resumed meanwhile. */
static int await_the_pause(spn_task *task)
{
    spn__store(&stage, 2, relaxed);
    await_stage(3);
    return run(task);
}

static int read_after_resume(spn_task *task)
{
    sim_assert(spn__load(&written, relaxed) == 1);
    return run(task);
}

/* What precedes resume happens before what it lets start: also if that waits where it is
 * found without the lock of those who submit, or resume. */
SCENARIO(pool_order__resumed_before_a_worker_looks__task_sees_what_was_before, "P44")
{
    const spn_pool_opts o = small(1, 1, SPN_UNBOUNDED);

    open_pool(&o);
    spn__init(&stage, 0);
    spn__init(&written, 0);
    jobs[0].task.fn = await_the_others;
    jobs[1].task.fn = await_the_pause;
    jobs[2].task.fn = read_after_resume;
    for (int i = 0; i < 3; i++)
        sim_assert(submit(i) == SPN_OK);
    spn__store(&stage, 1, relaxed);
    await_stage(2);
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    spn__store(&stage, 3, relaxed);
    spn__store(&written, 1, relaxed);
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    close_pool();
}
/* Elsewhere a light fence is a full one, and orders it, too. */
SCENARIO_OPTS(pool_order__resumed_before_a_worker_looks__task_sees_what_was_before,
              .fences = SIM_FENCES_ASYMMETRIC)
