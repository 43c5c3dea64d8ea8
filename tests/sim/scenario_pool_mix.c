/* SPDX-License-Identifier: MIT */
/*
 * scenario_pool_mix.c - the pool as nobody planned it: each schedule draws a pool (which
 * queue, how many threads, how long they stay, how many more there may be) and a few
 * operations for two threads, as it draws everything else.
 *
 * A scenario that somebody thought of tries one combination in many orders.  These try
 * many, so as to meet the one that nobody thought of; what they find gets a scenario of
 * its own, with the combination written down, at the end of this file.
 *
 * WHAT IS PROMISED, and therefore asked
 *   waiting  a task that waits for a future of its pool gets it, or is told SPN_EDEADLK.
 *   ended    whatever goes on as the pool is shut down, each accepted task ends once.
 *   In all, what was accepted ends without anybody's help; then the threads that are too
 *   many go when their keep-alive is over; and the books balance.
 *
 * LOOKING
 *   Of the pools of the first scenarios one in six has a tray (tray.c), and one schedule in
 *   thirty lays a task on it.  So there are as many again about such pools only, with few
 *   threads, which are there and have run a task before all begins.
 *
 * Nothing waits with a time-out, so what is forgotten shows as a deadlock; and where the
 * keep-alive is long, and no timer expires early, a thread that only comes by because it
 * was idle for too long shows as time that has passed.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"

enum { PER_THREAD = 6, TASKS = 2 * PER_THREAD + 1 };
#define LONG SPN_SEC(100)

struct fate {
    spn_job job; /* first */
    SPN__ATOMIC(int) ends, accepted;
    SPN__ATOMIC(int) written; /* relaxed: nothing but the task's way orders it */
    spn_latch *ended;         /* opened by its end, or when it is refused */
    struct fate *partner;
    SPN__ATOMIC(int) used; /* relaxed: known before the end of who submits it */
};

/* What a thread may do. */
enum op {
    QUICK,
    LATE,
    DIE,
    NEST,
    REMOVE,
    PURGE,
    PAUSE,
    CORE,
    MAX,
    KEEP_ALIVE,
    PRESTART,
    WAIT,
    CALL,
    SPAWN,
    TAKE,
    DESERT,
    LOOK,
    OPS
};

static spn_pool *pool;
static spn_executor *ex;
static spn_queue *queue; /* the user's, or NULL */
static struct fate fates[TASKS];
static SPN__ATOMIC(int) others; /* accepted, beside the fates */
static bool waits;              /* whether submitters wait for room */
static bool refuses;            /* whether there is not always a thread */

/* ---- tasks --------------------------------------------------------------------------- */

static void end_of(struct fate *f)
{
    (void)spn__fetch_add(&f->ends, 1, relaxed);
    (void)spn_latch_count_down(f->ended);
}

static struct fate *fate_of(spn_task *task)
{
    const uintptr_t at = (uintptr_t)task;

    return at >= (uintptr_t)&fates[0] && at < (uintptr_t)&fates[TASKS]
               ? (struct fate *)(void *)task
               : NULL;
}

static int run(spn_task *task)
{
    sim_assert(spn__load(&fate_of(task)->written, relaxed) == 1);
    end_of(fate_of(task));
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
    end_of(fate_of(task));
}

static void take_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)ctx;
    (void)arg;
    if (task == NULL)
        sim_assert(fn != NULL); /* a call */
    else if (fate_of(task) != NULL)
        end_of(fate_of(task));
    else
        sim_assert(spn_task_drop(task, SPN_ESHUTDOWN) == SPN_OK);
}

static int answer(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 0;
}

static int give(void *arg)
{
    return answer(arg, NULL);
}

/* A future of the pool's, or NULL. */
static spn_future *ask(void)
{
    spn_future *future;

    if (spn_executor_submit(ex, answer, NULL, &future) != SPN_OK)
        return NULL;
    (void)spn__fetch_add(&others, 1, relaxed);
    return future;
}

static void wait_for_answer(void)
{
    spn_future *future = ask();
    int rc;

    if (future == NULL)
        return;
    rc = spn_future_get(future, NULL, SPN_FOREVER);
    sim_assert(rc != SPN_ETIMEDOUT);
    spn_future_unref(future);
}

static int nest(spn_task *task)
{
    wait_for_answer();
    return run(task);
}

static bool submit(struct fate *f)
{
    int rc;

    spn__store(&f->written, 1, relaxed);
    rc = spn_executor_execute(ex, &f->job.task);
    spn__store(&f->used, 1, relaxed);
    if (rc == SPN_OK)
        (void)spn__fetch_add(&f->accepted, 1, relaxed);
    else
        (void)spn_latch_count_down(f->ended); /* who waits for it need not */
    return rc == SPN_OK;
}

/* Submits its partner, from inside the pool. */
static int spawn(spn_task *task)
{
    (void)submit(fate_of(task)->partner);
    return run(task);
}

/* ---- operations ------------------------------------------------------------------------ */

static void cancel_and_purge(void)
{
    spn_future *future = ask();

    if (future != NULL) {
        (void)spn_future_cancel(future, 0);
        sim_assert(spn_pool_purge(pool) >= 0);
        spn_future_unref(future);
    }
}

/* Waits for a moment only. */
static void desert(void)
{
    spn_future *future = ask();

    if (future == NULL)
        return;
    (void)!spn_future_get(future, NULL, (int64_t)sim_choose(2));
    (void)spn_future_cancel(future, (int)sim_choose(2));
    spn_future_unref(future);
}

/* What a thread has submitted is accepted, and what was accepted stays so. */
static void look(const struct fate *f, const struct fate *first)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int64_t accepted = 0;

    while (f-- > first)
        if (f == first || f[-1].job.task.fn != spawn)
            accepted += spn__load(&f->accepted, relaxed);
    for (int i = 0; i < 2; i++) {
        sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
        sim_assert(s.accepted >= accepted && s.pending >= 0 && s.queued >= 0);
        sim_assert(s.accepted == s.completed + s.failed + s.cancelled + s.returned +
                                     s.dropped + s.pending);
        /* Else one may be taken back that came late, or for which there is no thread. */
        if (pool->kind == SPN__WORK_FIFO && !refuses)
            accepted = s.accepted;
    }
}

static void change(enum op op)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    if (op == CORE)
        c.core_threads = (int32_t)sim_choose(3);
    if (op == MAX)
        c.max_threads = 1 + (int32_t)sim_choose(2);
    if (op == KEEP_ALIVE)
        c.keep_alive_ns = sim_choose(2) == 0 ? 0 : LONG;
    (void)spn_pool_reconfigure(pool, &c); /* core above max is refused */
}

/* Anybody's, wherever it is. */
static void take_any(void)
{
    struct fate *f = &fates[sim_choose(TASKS)];

    if (pool_remove(pool, &f->job.task) == 1)
        end_of(f);
}

/* One operation, with the tasks from f on: how many it used. */
static int operate(enum op op, struct fate *f, const struct fate *first)
{
    switch (op) {
    case QUICK:
        if (sim_choose(2) == 0)
            f->job.task.flags = 0; /* a plain task */
        (void)submit(f);
        return 1;
    case LATE:
        f->job.deadline_ns = sim_now() + 1;
        (void)submit(f);
        return 1;
    case DIE:
        f->job.task.fn = run_and_die;
        (void)submit(f);
        return 1;
    case NEST:
        f->job.task.fn = nest;
        (void)submit(f);
        return 1;
    case REMOVE:
        if (f > first && pool_remove(pool, &f[-1].job.task) == 1)
            end_of(f - 1);
        return 0;
    case PURGE:
        cancel_and_purge();
        return 0;
    case PAUSE:
        (void)spn_pool_pause(pool);
        if (!waits) /* for ever, while nobody else resumes it */
            (void)submit(f);
        (void)spn_pool_resume(pool);
        return waits ? 0 : 1;
    case PRESTART:
        (void)spn_pool_prestart(pool, 1);
        return 0;
    case WAIT:
        wait_for_answer();
        return 0;
    case CALL:
        if (spn_executor_call(ex, give, NULL) == SPN_OK)
            (void)spn__fetch_add(&others, 1, relaxed);
        return 0;
    case SPAWN:
        f->job.task.fn = spawn;
        f->partner = f + 1;
        (void)submit(f);
        return 2;
    case TAKE:
        take_any();
        return 0;
    case DESERT:
        desert();
        return 0;
    case LOOK:
        look(f, first);
        return 0;
    default:
        change(op);
        return 0;
    }
}

static void perform(void *arg)
{
    struct fate *first = arg, *f = first;

    for (int i = 0; i < 3; i++) {
        enum op op = (enum op)sim_choose(OPS);

        f += operate(op, f, first);
    }
}

/* ---- pools ------------------------------------------------------------------------------ */

static void own_queue(spn_pool_opts *o, uint32_t kind)
{
    spn_queue_opts q = SPN_QUEUE_OPTS_INIT;

    if (kind == SPN_QUEUE_ARRAY)
        q.capacity = 2;
    q.spins_timed = q.spins_untimed = kind == SPN_QUEUE_TRANSFER ? -1 : 0;
    sim_assert(spn_queue_create(&queue, kind, &q) == SPN_OK);
    o->queue = queue;
}

static void draw_queue(spn_pool_opts *o)
{
    static const uint32_t own[] = { SPN_QUEUE_LINKED, SPN_QUEUE_ARRAY,
                                    SPN_QUEUE_TRANSFER, SPN_QUEUE_DEQUE };
    const unsigned kind = sim_choose(9);

    if (kind < 4) {
        own_queue(o, own[kind]);
    } else if (kind == 4) {
        o->queue_kind = SPN_POOL_LANES;
    } else if (kind == 5) {
        o->queue_kind = SPN_POOL_PRIORITY;
    } else {
        o->queue_capacity = kind == 6 ? SPN_HANDOFF : 2;
        o->eager = kind == 8;
    }
}

static void quiet(spn_pool *p, const spn_task_info *info, void *ctx)
{
    (void)p;
    (void)info;
    (void)ctx;
}

static spn_pool_opts draw_pool(bool patient)
{
    static const int64_t keep_alives[] = { LONG, 0, SPN_MS(1) };
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    queue = NULL;
    o.name = "p";
    draw_queue(&o);
    o.core_threads = (int32_t)sim_choose(3);
    o.max_threads = o.core_threads == 2 ? 2 : 1 + (int32_t)sim_choose(2);
    o.keep_alive_ns = keep_alives[sim_choose(patient ? 2 : 3)];
    o.core_timeout = o.keep_alive_ns > 0 && sim_choose(3) == 0;
    o.reject = sim_choose(4) == 0 ? spn_reject_discard_oldest() : NULL;
    o.hooks.uncaught = quiet;
    waits = false;
    return o;
}

/* Now and then the hook objects. */
static int object(spn_pool *p, const spn_task_info *info, void *ctx)
{
    (void)p;
    (void)info;
    (void)ctx;
    return sim_choose(4) == 0 ? SPN_ECANCELED : 0;
}

/* A pool with a tray; `full`: whoever finds it full may wait. */
static spn_pool_opts draw_looking(bool patient, bool full)
{
    static const int64_t keep_alives[] = { LONG, 0, SPN_MS(1) };
    static const int32_t capacities[] = { SPN_UNBOUNDED, 1, 2 };
    static const spn_reject_block block_policy = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    const unsigned policy = sim_choose(full ? 4 : 3);
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    queue = NULL;
    o.name = "p";
    o.queue_capacity = capacities[sim_choose(3)];
    o.eager = sim_choose(6) == 0;
    o.core_threads = (int32_t)sim_choose(3);
    o.max_threads = o.core_threads == 2 ? 2 : 1 + (int32_t)sim_choose(2);
    o.keep_alive_ns = keep_alives[sim_choose(patient ? 2 : 3)];
    o.core_timeout = o.keep_alive_ns > 0 && sim_choose(3) == 0;
    waits = policy == 3;
    if (policy > 1)
        o.reject = waits ? &block_policy.policy : spn_reject_discard_oldest();
    o.hooks.uncaught = quiet;
    if (sim_choose(4) == 0)
        o.hooks.before = object;
    return o;
}

static void open_pool(const spn_pool_opts *o)
{
    for (int i = 0; i < TASKS; i++) {
        fates[i] = (struct fate){ .job = SPN_JOB_INIT(run, drop) };
        spn__init(&fates[i].ends, 0);
        spn__init(&fates[i].accepted, 0);
        spn__init(&fates[i].written, 0);
        spn__init(&fates[i].used, 0);
        sim_assert(spn_latch_create(&fates[i].ended, 1) == SPN_OK);
    }
    spn__init(&others, 0);
    sim_assert(spn_pool_create(&pool, o) == SPN_OK);
    ex = spn_pool_executor(pool);
}

/* Until those that were submitted have ended. */
static void await_ends(void)
{
    for (int i = 0; i < TASKS; i++)
        if (spn__load(&fates[i].used, relaxed) != 0)
            sim_assert(spn_latch_await(fates[i].ended, SPN_FOREVER) == SPN_OK);
}

/* Nothing is left to do: those that are too many go. */
static void await_leaving(void)
{
    const spn_pool_stats s = pool_stats(pool);
    const int32_t stay = s.core_timeout == 1 ? 0 : s.core_threads;
    int rounds = 0;

    do { /* at first calls may be left, and a worker may be counted out and in again */
        sim_sleep(3 * LONG); /* or less: it may expire early */
        sim_settle();
    } while (pool_stats(pool).threads > stay && ++rounds < 100);
    sim_assert(pool_stats(pool).threads <= stay);
}

static void close_pool(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    int accepted = spn__load(&others, relaxed);

    if (pool_is_shutdown(pool) == 0)
        (void)pool_shutdown(pool);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    for (int i = 0; i < TASKS; i++) {
        const int a = spn__load(&fates[i].accepted, relaxed);

        sim_assert(spn__load(&fates[i].ends, relaxed) == a);
        sim_assert(fates[i].job.task.queued == 0);
        accepted += a;
        sim_assert(spn_latch_destroy(fates[i].ended) == SPN_OK);
    }
    sim_assert(s.pending == 0 && s.queued == 0 && s.threads == 0 && s.active == 0);
    sim_assert(s.accepted == accepted && s.submitted == 0);
    sim_assert(s.accepted ==
               s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    if (queue != NULL)
        sim_assert(spn_queue_destroy(queue) == SPN_OK);
    queue = NULL;
}

static void perform_two(void)
{
    sim_thread(perform, &fates[0]);
    sim_thread(perform, &fates[PER_THREAD]);
}

static int perhaps(const spn_thread_factory *factory, spn_thread **out,
                   spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    return sim_choose(3) == 0 ? SPN_EAGAIN : spn_thread_create(out, opts, fn, arg);
}

/* Everything; in half of the schedules there is not always a thread: what waits for one in
 * vain is dropped. */
static void open_any(const spn_pool_opts *opts)
{
    static const spn_thread_factory perhaps_a_thread = { sizeof(spn_thread_factory),
                                                         perhaps };
    spn_pool_opts o = *opts;

    refuses = sim_choose(4) == 0;
    if (refuses)
        o.factory = &perhaps_a_thread;
    open_pool(&o);
}

/* ---- waiting ------------------------------------------------------------------------------ */

static void waiting(const spn_pool_opts *o, bool patient)
{
    open_any(o);
    perform_two();
    sim_join_all();
    await_ends();
    sim_assert(!patient || sim_now() < LONG);
    await_leaving();
    close_pool();
}

SCENARIO(pool_mix__tasks_wait__the_others_run, "P6 G-20 TPE-58")
{
    const spn_pool_opts o = draw_pool(false);

    waiting(&o, false);
}
SCENARIO_OPTS(pool_mix__tasks_wait__the_others_run, .max_steps = 60000,
              .schedules = 1000, .no_faults = "it counts on its threads")

SCENARIO(pool_mix__tasks_wait__the_others_run_at_once, "P6 G-20")
{
    const spn_pool_opts o = draw_pool(true);

    waiting(&o, true);
}
SCENARIO_OPTS(pool_mix__tasks_wait__the_others_run_at_once, .early = SIM_NEVER,
              .max_steps = 60000, .schedules = 1000,
              .no_faults = "it counts on its threads")

/* ---- ended -------------------------------------------------------------------------------- */

static void ended(const spn_pool_opts *o)
{
    const unsigned how = sim_choose(3);

    open_any(o);
    perform_two();
    (void)submit(&fates[2 * PER_THREAD]);
    if (sim_choose(2) == 0)
        (void)spn_pool_pause(pool);
    if (how == 0)
        (void)pool_shutdown(pool);
    else if (how == 1)
        (void)pool_shutdown_now(pool, take_back, NULL, NULL);
    else
        (void)spn_pool_drain(pool, SPN_MS(1), take_back, NULL, NULL);
    sim_join_all();
    await_ends();
    close_pool();
}

SCENARIO(pool_mix__shut_down_amid_all__each_task_ends_once, "TPE-61 TPE-62 TPE-58 G-20")
{
    const spn_pool_opts o = draw_pool(false);

    ended(&o);
}
SCENARIO_OPTS(pool_mix__shut_down_amid_all__each_task_ends_once, .max_steps = 60000,
              .schedules = 1000)

/* ---- looking ------------------------------------------------------------------------------ */

SCENARIO(pool_mix__a_thread_looks__the_others_run, "P6 G-20 TPE-13 TPE-58")
{
    const spn_pool_opts o = draw_looking(false, true);

    waiting(&o, false);
}
SCENARIO_OPTS(pool_mix__a_thread_looks__the_others_run, .max_steps = 60000,
              .schedules = 1000, .no_faults = "it counts on its threads")

SCENARIO(pool_mix__a_thread_looks__the_others_run_at_once, "P6 G-20 TPE-13")
{
    const spn_pool_opts o = draw_looking(true, true);

    waiting(&o, true);
}
SCENARIO_OPTS(pool_mix__a_thread_looks__the_others_run_at_once, .early = SIM_NEVER,
              .max_steps = 60000, .schedules = 1000)

SCENARIO(pool_mix__a_thread_looks__each_task_ends_once, "TPE-61 TPE-62 TPE-13 G-20")
{
    const spn_pool_opts o = draw_looking(false, true);

    ended(&o);
}
SCENARIO_OPTS(pool_mix__a_thread_looks__each_task_ends_once, .max_steps = 60000,
              .schedules = 1000)

/* ---- what the drawn ones have found --------------------------------------------------------- */

/* Goes on when the other one has begun. */
static int meet(spn_task *task)
{
    struct fate *f = fate_of(task);

    (void)run(task);
    return spn_latch_await(f->partner->ended, SPN_FOREVER);
}

static void two_meet(const spn_pool_opts *o)
{
    struct fate *a = &fates[2], *b = &fates[3];

    open_pool(o);
    a->job.task.fn = b->job.task.fn = meet;
    a->partner = b;
    b->partner = a;
    for (int i = 0; i < 4; i++)
        sim_assert(submit(&fates[i]));
    await_ends();
    close_pool();
}

/* Two come while one thread sleeps and the other, which both of them rely on, lies down as
 * well and gets up again: it takes one, and wakes the other thread for the second. */
SCENARIO(pool_mix__two_come_as_a_thread_lies_down__both_start, "TPE-13 P4 P39")
{
    static const uint32_t kinds[] = { SPN_POOL_FIFO, SPN_POOL_LANES,
                                      SPN_POOL_PRIORITY };
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    queue = NULL;
    o.name = "p";
    o.queue_kind = kinds[sim_choose(3)];
    o.core_threads = o.max_threads = 2;
    two_meet(&o);
}

/* The same where a task may go past the queue. */
SCENARIO(pool_mix__two_come_beside_the_tray__both_start, "TPE-13 P4 P39")
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    queue = NULL;
    o.name = "p";
    o.core_threads = o.max_threads = 2;
    two_meet(&o);
}
