/* SPDX-License-Identifier: MIT */
/*
 * pool.c - the thread pool: making, asking, freeing.
 *
 * THE WHOLE
 *   submit.c decides what becomes of a task; work.c and lanes.c keep it; worker.c takes
 *   and runs it; idle.c puts workers to sleep and wakes them; shutdown.c ends it all.
 *   The control word (pool.h) holds state and number of workers.  One lock, `lock`,
 *   guards the list of workers, changes of the state and what is counted rarely; tasks
 *   come and go without it.
 *
 * THE ACCOUNTING LAW
 *   accepted = completed + failed + cancelled + returned + dropped + pending.
 *   accepted is what was pushed, ever, and what started a worker; the fates are counted
 *   each where it happens; pending is the difference.  To keep it from being negative
 *   the fates are read first and accepted last [count].
 *
 * ORDERING
 *   [attached] a stage detaches with a release after its hold, if it has one; the acquire
 *   in destroy sees that hold, or its end, and all that was done with the pool before.
 */
#include "exec/pool.h"

#include <stdio.h>
#include <string.h>

#include <spindle/cpu.h>

#include "base/options.h"
#include "base/time.h"
#include "future/core.h"
#include "future/executor.h"
#include "queue/queue.h"
#include "sync/thread_record.h"

#define DEFAULT_CAPACITY 1024

static const spn_executor_ops pool_ops, timed_ops;

/* Pools are numbered, for their names and to mark their tasks: see work_kinds.h. */
static SPN__ATOMIC(uint32_t) last_number = SPN__ATOMIC_INIT(0);

void spn__pool_reset_numbers(void)
{
    spn__store(&last_number, 0, relaxed); /* tests only, when nobody else is there */
}

static bool is_default(int64_t value)
{
    return value == SPN_DEFAULT;
}

/* Puts the defaults where they were asked for, and checks the whole. */
static int settle_options(spn_pool_opts *o, int64_t *capacity)
{
    if (o->name != NULL && strlen(o->name) > SPN_THREAD_NAME_MAX - 20)
        return SPN_EINVAL;
    if (is_default(o->core_threads)) {
        o->core_threads = spn_cpu_count();
        if (!is_default(o->max_threads) && o->max_threads < o->core_threads)
            o->core_threads = o->max_threads;
    }
    if (is_default(o->max_threads))
        o->max_threads = o->core_threads > 0 ? o->core_threads : 1;
    if (is_default(o->keep_alive_ns))
        o->keep_alive_ns = SPN_SEC(60);
    if (is_default(o->queue_capacity))
        o->queue_capacity =
            o->queue_kind == SPN_POOL_LANES ? SPN_UNBOUNDED : DEFAULT_CAPACITY;
    *capacity = o->queue_capacity < 0 ? INT64_MAX : o->queue_capacity;
    if (o->core_threads < 0 || o->max_threads <= 0 ||
        o->core_threads > o->max_threads || o->max_threads > SPN_POOL_THREADS_MAX ||
        o->keep_alive_ns < 0 || (o->core_timeout != 0 && o->keep_alive_ns == 0))
        return SPN_EINVAL;
    if (o->age_ns < 0 || o->reserved != 0 || o->queue_kind > SPN_POOL_PRIORITY ||
        o->core_timeout > 1 || o->eager > 1 || o->fixed > 1)
        return SPN_EINVAL;
    if (o->reject != NULL && !spn__reject_is_whole(o->reject))
        return SPN_EINVAL;
    if (o->factory != NULL && !spn__factory_is_whole(o->factory))
        return SPN_EINVAL;
    return SPN_OK;
}

/* A worker needs to look for tasks without waiting, and to take out some of them. */
static bool may_be_a_pools(const spn_queue *queue)
{
    switch (queue->kind) {
    case SPN_QUEUE_RING:
    case SPN_QUEUE_DELAY:       /* spn_scheduled */
    case SPN_QUEUE_SYNCHRONOUS: /* SPN_HANDOFF */
        return false;
    default:
        return true;
    }
}

/* Combinations that are not there. */
static int check_combination(const spn_pool_opts *o)
{
    const bool own = o->queue != NULL;
    const bool handoff = o->queue_capacity == SPN_HANDOFF;
    /* Tasks are taken out of it by who they are, and not by what they equal. */
    const bool equals = own && o->queue->equal != NULL;

    if (own && (o->queue_kind != SPN_POOL_FIFO || o->eager != 0 || equals ||
                !may_be_a_pools(o->queue)))
        return SPN_EINVAL;
    if (o->queue_kind == SPN_POOL_LANES && (o->queue_capacity >= 0 || o->eager != 0))
        return SPN_EINVAL;
    if (o->queue_kind == SPN_POOL_PRIORITY && handoff)
        return SPN_EINVAL;
    if (o->age_ns != 0 && o->queue_kind != SPN_POOL_PRIORITY)
        return SPN_EINVAL;
    if (o->eager != 0 && handoff)
        return SPN_EINVAL;
    return SPN_OK;
}

/* Its number and the name made of it; both stay. */
static int give_name(struct spn_pool *pool, const char *name)
{
    char made[32];
    /* relaxed: any order of numbers will do. */
    const uint32_t number = spn__fetch_add(&last_number, 1, relaxed) + 1;
    size_t length;

    pool->id = number * 4;
    if (pool->id < 4) /* 0 and 1 have a meaning: see work_kinds.h */
        pool->id = 4;
    if (name == NULL) {
        (void)snprintf(made, sizeof made, "pool-%u", (unsigned)number);
        name = made;
    }
    length = strlen(name) + 1;
    pool->name = spn__alloc(length);
    if (pool->name == NULL)
        return SPN_ENOMEM;
    memcpy(pool->name, name, length);
    return SPN_OK;
}

static enum spn__work_kind kind_of(const spn_pool_opts *o)
{
    if (o->queue != NULL)
        return SPN__WORK_USER;
    switch (o->queue_kind) {
    case SPN_POOL_LANES:
        return SPN__WORK_LANES;
    case SPN_POOL_PRIORITY:
        return SPN__WORK_PRIORITY;
    default:
        return SPN__WORK_FIFO;
    }
}

static void init_knobs(struct spn_pool *pool, const spn_pool_opts *o)
{
    pool->kind = (uint8_t)kind_of(o);
    pool->handoff = o->queue_capacity == SPN_HANDOFF && o->queue == NULL;
    pool->eager = o->eager != 0;
    pool->fixed = o->fixed != 0;
    pool->hooks = o->hooks;
    pool->plain_lanes = pool->kind == SPN__WORK_LANES && o->hooks.times == NULL;
    spn__init(&pool->core, o->core_threads);
    spn__init(&pool->max, o->max_threads);
    spn__init(&pool->keep_alive_ns, o->keep_alive_ns);
    spn__init(&pool->core_timeout, o->core_timeout);
    spn__init(&pool->paused, 0);
    spn__init(&pool->reject, o->reject != NULL ? o->reject : spn_reject_abort());
    spn__init(&pool->factory,
              o->factory != NULL ? o->factory : spn_thread_factory_default());
}

static void init_state(struct spn_pool *pool)
{
    spn__init(&pool->ctl, spn__ctl_make(SPN_EXECUTOR_RUNNING, 0));
    spn__init(&pool->blocked, 0);
    spn__init(&pool->waiting, 0);
    spn__init(&pool->staying, 0);
    spn__init(&pool->submitted, 0);
    spn__room_init(&pool->room);
    spn__idle_init(pool);
    spn__tray_init(pool);
    spn__lock_init(&pool->lock);
    spn__list_init(&pool->workers);
    spn__waitq_init(&pool->awaiting);
    spn__waitq_init(&pool->made);
    spn__waitq_init(&pool->resumed);
    spn__init(&pool->holds, 0);
    spn__init(&pool->attached, 0);
    spn__init(&pool->lapsed, 0);
    spn__init(&pool->swept, 0);
    pool->many_threads = SPN__MANY_THREADS;
    for (int i = 0; i <= SPN_REFUSED_NO_THREAD; i++)
        spn__init(&pool->rejected[i], 0);
    spn__init(&pool->no_memory, 0);
    spn__init(&pool->caller_ran, 0);
    spn__init(&pool->process, spn__os_process());
}

/* With `kind` and what belongs to it, if that is not for the options to say. */
struct special {
    enum spn__work_kind kind;
    const spn_executor_ops *ops;
    struct spn__work_source *source;
    struct spn__source *stealing;
};

static int create(spn_pool **out, const spn_pool_opts *opts,
                  const struct special *special)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;
    struct spn_pool *pool;
    int64_t capacity;
    int rc;

    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (settle_options(&o, &capacity) != SPN_OK || check_combination(&o) != SPN_OK)
        return SPN_EINVAL;
    pool = spn__alloc_aligned(sizeof *pool, SPN__CACHE_LINE);
    if (pool == NULL)
        return SPN_ENOMEM;
    memset(pool, 0, sizeof *pool);
    pool->executor.ops = &pool_ops;
    pool->thread_opts = (spn_thread_opts)SPN_THREAD_OPTS_INIT;
    if (o.thread != NULL &&
        spn__options_copy(&pool->thread_opts, sizeof pool->thread_opts, o.thread) !=
            SPN_OK) {
        spn__free(pool);
        return SPN_EINVAL;
    }
    init_knobs(pool, &o);
    if (special != NULL) {
        pool->executor.ops = special->ops;
        pool->kind = (uint8_t)special->kind;
        pool->work.source = special->source;
        pool->work.stealing = special->stealing;
    }
    init_state(pool);
    rc = give_name(pool, o.name);
    if (rc == SPN_OK) {
        rc = spn__work_init(pool, &o, capacity);
        if (rc != SPN_OK)
            spn__free(pool->name);
    }
    if (rc != SPN_OK) {
        spn__free(pool);
        return rc;
    }
    /* The first heavy fence of a process asks the kernel for more of them, and once there
     * are several threads that takes some milliseconds: better here than in a worker that
     * was about to sleep, while a task comes in. */
    (void)spn__fence_is_asymmetric();
    spn__audit_made(pool, "pool", pool->name, "never shut down");
    *out = pool;
    return SPN_OK;
}

int spn_pool_create(spn_pool **out, const spn_pool_opts *opts)
{
    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    return create(out, opts, NULL);
}

int spn__pool_create_timed(struct spn_pool **out, const spn_pool_opts *opts,
                           struct spn__work_source *source)
{
    const struct special timed = { SPN__WORK_TIMED, &timed_ops, source, NULL };

    *out = NULL;
    return create(out, opts, &timed);
}

int spn__pool_create(spn_pool **out, const spn_pool_opts *opts,
                     const spn_executor_ops *ops, struct spn__source *source)
{
    const struct special steal = { SPN__WORK_STEAL, ops, NULL, source };

    *out = NULL;
    return create(out, opts, &steal);
}

static void free_pool(struct spn_pool *pool)
{
    spn__audit_gone(pool);
    spn__work_fini(pool);
    spn__free(pool->name);
    spn__free(pool);
}

static int32_t count_parked(struct spn_pool *pool);

static bool is_free(struct spn__lock *lock)
{
    /* relaxed: the child of a fork has only the thread that called fork. */
    return spn__load(&lock->state, relaxed) == SPN__LOCK_FREE;
}

/* Frees the workers of an orphan.  False: at the fork one of them did not sleep, a task was
 * queued, or another thread was inside. */
static bool orphan_free_workers(struct spn_pool *pool)
{
    /* relaxed, here and below: nobody else is here. */
    const int32_t count = spn__ctl_count(spn__load(&pool->ctl, relaxed));
    struct spn__list_node *node;

    if (!is_free(&pool->lock) || !is_free(&pool->idle_lock) ||
        !is_free(&pool->work.fifo.in_lock) || !is_free(&pool->work.fifo.out_lock) ||
        !is_free(&pool->work.heap.lock) || spn__load(&pool->holds, relaxed) != 0 ||
        pool->live != count || count_parked(pool) != count || spn__work_size(pool) != 0)
        return false;
    while ((node = spn__list_pop_front(&pool->workers)) != NULL)
        spn__free(spn__list_entry(node, struct spn__worker, link));
    return true;
}

int spn_pool_destroy(spn_pool *pool)
{
    bool over;

    if (pool == NULL)
        return SPN_OK;
    if (spn__load(&pool->attached, acquire) != 0) /* [attached] */
        return SPN_EBUSY;
    if (spn__pool_is_orphan(pool)) {
        if (!orphan_free_workers(pool))
            return SPN_EBUSY;
        free_pool(pool);
        return SPN_OK;
    }
    spn__lock(&pool->lock); /* and thereby waits for whoever has just ended it */
    /* relaxed, both: change under the lock; a hold is seen with [attached]. */
    over = spn__load(&pool->holds, relaxed) == 0 &&
           spn__ctl_state(spn__load(&pool->ctl, relaxed)) == SPN_EXECUTOR_TERMINATED &&
           spn__waitq_empty(&pool->awaiting);
    spn__unlock(&pool->lock);
    if (!over)
        return SPN_EBUSY;
    free_pool(pool);
    return SPN_OK;
}

/* ---- as an executor --------------------------------------------------------------- */

static struct spn_pool *pool_of(spn_executor *executor)
{
    return (struct spn_pool *)(void *)executor;
}

spn_executor *spn_pool_executor(spn_pool *pool)
{
    return pool != NULL ? &pool->executor : NULL;
}

spn_pool *spn_executor_pool(spn_executor *executor)
{
    if (executor == NULL || (executor->ops != &pool_ops && executor->ops != &timed_ops))
        return NULL;
    return pool_of(executor);
}

static int op_execute(spn_executor *executor, spn_task *task)
{
    return spn__pool_execute(pool_of(executor), task);
}

static int op_call(spn_executor *executor, spn_run_fn fn, void *arg)
{
    return spn__pool_call(pool_of(executor), fn, arg);
}

static int op_shutdown(spn_executor *executor)
{
    return spn__pool_shutdown(pool_of(executor));
}

static int op_shutdown_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                           int64_t *count)
{
    spn__unrun_unwrap(&unrun, &ctx); /* it parts from its tasks by itself */
    return spn__pool_shutdown_now(pool_of(executor), unrun, ctx, count);
}

static int op_await(spn_executor *executor, int64_t timeout_ns)
{
    return spn__pool_await(pool_of(executor), timeout_ns);
}

static int op_state(spn_executor *executor)
{
    return (int)spn__pool_state(pool_of(executor));
}

static int op_remove(spn_executor *executor, spn_task *task)
{
    const int removed = spn__pool_remove(pool_of(executor), task);

    return removed == 1 ? SPN__GIVEN_BACK : removed;
}

static int op_new_task(spn_executor *executor, struct spn_future **out,
                       int (*fn)(void *arg, void **result), void *arg,
                       const struct spn_future_opts *opts)
{
    struct spn__work_source *source = pool_of(executor)->work.source;

    return source->ops->new_task(source, out, fn, arg, opts);
}

static void op_hold(spn_executor *executor)
{
    spn__pool_hold(pool_of(executor));
}

static void op_release(spn_executor *executor)
{
    spn__pool_release(pool_of(executor));
}

void spn__pool_attach(struct spn_pool *pool)
{
    (void)spn__fetch_add(&pool->attached, 1, relaxed); /* by a user of the pool */
}

void spn__pool_detach(struct spn_pool *pool)
{
    (void)spn__fetch_sub(&pool->attached, 1, release); /* [attached] */
}

static void op_attach(spn_executor *executor)
{
    spn__pool_attach(pool_of(executor));
}

static void op_detach(spn_executor *executor)
{
    spn__pool_detach(pool_of(executor));
}

static void op_lapsed(spn_executor *executor)
{
    struct spn_pool *pool = pool_of(executor);

    (void)spn__fetch_add(&pool->lapsed, 1, release); /* [lapsed] */
    spn__room_notify(&pool->room);
}

#define POOL_OPS                                                                 \
    .size = sizeof(spn_executor_ops), .execute = op_execute, .call = op_call,    \
    .shutdown = op_shutdown, .shutdown_now = op_shutdown_now, .await = op_await, \
    .state = op_state, .remove = op_remove, .wait_begin = spn__pool_wait_begin,  \
    .wait_end = spn__pool_wait_end, .hold = op_hold, .release = op_release,      \
    .attach = op_attach, .detach = op_detach

static const spn_executor_ops pool_ops = { POOL_OPS, .lapsed = op_lapsed };
static const spn_executor_ops timed_ops = { POOL_OPS, .new_task = op_new_task };

/* ---- asking ---------------------------------------------------------------------------- */

static int32_t count_active(struct spn_pool *pool)
{
    /* relaxed, all: a picture. */
    const bool paused = spn__load(&pool->paused, relaxed) != 0;
    struct spn__list_node *node;
    int32_t active = 0;

    spn__list_each (node, &pool->workers) {
        struct spn__worker *w = spn__list_entry(node, struct spn__worker, link);

        active += spn__load(&w->running, relaxed) != 0 ||
                  (paused && spn__load(&w->first, relaxed) != NULL);
    }
    return active;
}

/* The fates first, and accepted last: see above.  pool->lock is held. */
static void add_up(struct spn_pool *pool, spn_pool_stats *s)
{
    struct spn__list_node *node;
    int64_t ended;

    s->completed = pool->completed;
    s->failed = pool->failed;
    s->started = s->completed + s->failed;
    s->expired = pool->expired;
    spn__list_each (node, &pool->workers) {
        struct spn__worker *w = spn__list_entry(node, struct spn__worker, link);
        const int64_t completed =
            spn__load(&w->counts.completed, acquire);                 /* [count] */
        const int64_t failed = spn__load(&w->counts.failed, acquire); /* [count] */
        const int64_t started =
            spn__load(&w->counts.started, relaxed); /* only counts */

        s->completed += completed;
        s->failed += failed;
        s->started += started > completed + failed ? started : completed + failed;
        /* relaxed: such a task did nothing, and is dropped afterwards. */
        s->expired += spn__load(&w->counts.expired, relaxed);
    }
    s->cancelled = pool->cancelled;
    s->returned = pool->returned;
    s->dropped = pool->discarded + s->expired;
    ended = s->completed + s->failed + s->cancelled + s->returned + s->dropped;
    s->accepted = pool->direct + spn__work_pushed(pool); /* [count] after the fates */
    if (s->accepted < ended)
        s->accepted = ended; /* a user's queue: its submitter is about to */
    s->pending = s->accepted - ended;
}

/* Workers that sleep; pool->lock is held. */
static int32_t count_parked(struct spn_pool *pool)
{
    int32_t parked = spn__load(&pool->idle_count, relaxed); /* a picture, all of it */
    struct spn__list_node *node;

    spn__list_each (node, &pool->workers)
        parked += spn__load(&spn__list_entry(node, struct spn__worker, link)->waiting,
                            relaxed) != 0;
    return parked;
}

static void fill_rejected(struct spn_pool *pool, spn_pool_stats *s)
{
    /* relaxed, all: only counts. */
    s->rejected_full = spn__load(&pool->rejected[SPN_REFUSED_FULL], relaxed);
    s->rejected_shutdown = spn__load(&pool->rejected[SPN_REFUSED_SHUTDOWN], relaxed);
    s->rejected_no_thread = spn__load(&pool->rejected[SPN_REFUSED_NO_THREAD], relaxed);
    s->rejected_no_memory = spn__load(&pool->no_memory, relaxed);
    s->rejected = s->rejected_full + s->rejected_shutdown + s->rejected_no_thread +
                  s->rejected_no_memory;
}

void spn__pool_stats_fill(struct spn_pool *pool, spn_pool_stats *s)
{
    /* relaxed where nothing is said: knobs and counts of their own. */
    uint32_t ctl;

    spn__lock(&pool->lock);
    add_up(pool, s);
    ctl = spn__load(&pool->ctl, relaxed); /* the state changes under the lock */
    s->name = pool->name;
    s->state = spn__ctl_state(ctl);
    s->threads = spn__ctl_count(ctl);
    s->paused = spn__load(&pool->paused, relaxed);
    s->core_threads = spn__load(&pool->core, relaxed);
    s->max_threads = spn__load(&pool->max, relaxed);
    s->keep_alive_ns = spn__load(&pool->keep_alive_ns, relaxed);
    s->core_timeout = spn__load(&pool->core_timeout, relaxed);
    s->largest = pool->largest > s->threads ? pool->largest : s->threads;
    s->active = count_active(pool);
    s->queued = spn__work_size(pool);
    s->capacity = pool->kind == SPN__WORK_USER
                      ? spn_queue_capacity(pool->work.queue)
                      : spn__load(&pool->work.capacity, relaxed);
    s->threads_started = pool->threads_started;
    s->threads_failed = pool->threads_failed;
    s->threads_died = pool->threads_died;
    s->parked = count_parked(pool);
    spn__lock(&pool->idle_lock);
    s->wakeups = pool->wakeups;
    spn__unlock(&pool->idle_lock);
    spn__unlock(&pool->lock);
    fill_rejected(pool, s);
    s->caller_ran = spn__load(&pool->caller_ran, relaxed);
    s->submitted = spn__load(&pool->submitted, relaxed);
}

int64_t spn__pool_places(spn_pool *pool)
{
    /* relaxed, both: knobs. */
    const int32_t threads = spn__load(&pool->max, relaxed);
    int64_t waiting = spn__load(&pool->work.capacity, relaxed);

    if (pool->kind == SPN__WORK_USER)
        waiting = spn_queue_capacity(pool->work.queue);
    if (threads >= SPN_POOL_THREADS_MAX || waiting >= INT32_MAX)
        return INT64_MAX;
    return threads + waiting;
}

int spn_pool_stats_get(spn_pool *pool, spn_pool_stats *stats)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    if (pool == NULL || stats == NULL)
        return SPN_EINVAL;
    spn__pool_stats_fill(pool, &s);
    return spn__output_copy(stats, &s, sizeof s);
}

int64_t spn_pool_snapshot(spn_pool *pool, spn_task **tasks, size_t capacity)
{
    if (pool == NULL || (tasks == NULL && capacity > 0))
        return SPN_EINVAL;
    return spn__work_snapshot(pool, tasks, capacity);
}

/* ---- starting threads ahead of work -------------------------------------------------------- */

int spn_pool_prestart(spn_pool *pool, int32_t how_many)
{
    int started = 0, rc = SPN_OK;

    if (pool == NULL || (how_many < 0 && !is_default(how_many)))
        return SPN_EINVAL;
    for (; is_default(how_many) || started < how_many; started++) {
        rc = spn__pool_add_worker(pool, NULL, SPN__TO_CORE);
        if (rc != SPN_OK)
            break;
    }
    if (started > 0 || rc == SPN_OK || rc == SPN_EFULL || rc == SPN_ESHUTDOWN)
        return started;
    return SPN_EAGAIN;
}
