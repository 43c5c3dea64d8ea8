/* SPDX-License-Identifier: MIT */
/*
 * pool.c - the fork/join pool: a thread pool whose workers find work with each other.
 *
 * Threads, their number, sleep and end, the submission queue and the accounting are
 * those of a thread pool (src/exec), of which this is a kind: SPN__WORK_STEAL, with a
 * source of work beside its queue (source.c).  Here is what makes the one of the other:
 * the executor's operations, options, the life of a pool, and what may be asked.
 *
 * ORDERING  [ctl]  see src/exec.
 */
#include "forkjoin/task.h"

#include <string.h>

#include <spindle/cpu.h>

#include "base/options.h"
#include "forkjoin/threads.h"
#include "future/ambient.h"
#include "future/executor.h"

#define DEFAULT_STACK   ((size_t)8 * 1024 * 1024)
#define DEFAULT_RECORDS SPN__PIECE_RECORDS
enum { DEFAULT_SPARE_THREADS = 256 };

/* ---- as an executor ------------------------------------------------------------------ */

static struct spn_fj_pool *pool_of(spn_executor *executor)
{
    return spn__fj_pool_of_source(((struct spn_pool *)(void *)executor)->work.stealing);
}

static int op_execute(spn_executor *executor, spn_task *task)
{
    struct spn_fj_pool *fj = pool_of(executor);
    struct spn__fj_place *place = spn__fj_place_in(fj);
    int rc;

    if (place == NULL ||
        /* relaxed: once more than must be does no harm. */
        spn__ctl_state(spn__load(&fj->pool->ctl, relaxed)) >= SPN_EXECUTOR_SHUTDOWN)
        return spn__pool_execute(fj->pool, task);
    rc = spn_task_claim(task);
    if (rc != SPN_OK)
        return rc;
    spn__job_capture(task);
    spn__fj_queue_push(place, task);
    spn__fj_signal(fj);
    return SPN_OK;
}

static int op_shutdown(spn_executor *executor)
{
    return spn__pool_shutdown(pool_of(executor)->pool);
}

static int op_shutdown_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                           int64_t *count)
{
    /* Who leaves, or ends the pool, tells who waits for rest [quiet]; afterwards it may
     * be gone. */
    return spn__pool_shutdown_now(pool_of(executor)->pool, unrun, ctx, count);
}

static int op_await(spn_executor *executor, int64_t timeout_ns)
{
    return spn__pool_await(pool_of(executor)->pool, timeout_ns);
}

static uint32_t state_of(struct spn_fj_pool *fj)
{
    return spn__pool_state(fj->pool);
}

static int op_state(spn_executor *executor)
{
    return (int)state_of(pool_of(executor));
}

static int op_remove(spn_executor *executor, spn_task *task)
{
    struct spn_fj_pool *fj = pool_of(executor);
    int rc;

    spn__pool_hold(fj->pool);
    rc = spn__pool_remove(fj->pool, task);
    if (rc == 1) {
        spn_fj_task *object = spn__fj_task_of(task);

        rc = SPN__GIVEN_BACK;
        if (object != NULL && !spn__fj_put_down(object))
            rc = 0; /* it was ended meanwhile, and may be gone */
        spn__fj_settled(fj);
    }
    spn__pool_left_queue(fj->pool, NULL, 0); /* it may end, and be gone, from here on */
    return rc;
}

/* A worker that waits for a future of the pool: runs it if it has not started, else is
 * blocked, so that another thread stands in for it. */
static int op_wait_begin(spn_executor *executor, spn_task *task)
{
    struct spn_fj_pool *fj = pool_of(executor);
    struct spn__fj_place *place = spn__fj_place_in(fj);

    if (place == NULL)
        return SPN_OK;
    if (spn__work_has(fj->pool, task) && spn__work_remove(fj->pool, task))
        spn__fj_run_queued(place, task);
    spn__fj_block(place);
    return SPN_OK;
}

static void op_wait_end(spn_executor *executor)
{
    struct spn__fj_place *place = spn__fj_place_in(pool_of(executor));

    if (place != NULL)
        spn__worker_unblock(place->worker);
}

static void op_hold(spn_executor *executor)
{
    spn__pool_hold(pool_of(executor)->pool);
}

static void op_release(spn_executor *executor)
{
    spn__pool_release(pool_of(executor)->pool);
}

static void op_attach(spn_executor *executor)
{
    spn__pool_attach(pool_of(executor)->pool);
}

static void op_detach(spn_executor *executor)
{
    spn__pool_detach(pool_of(executor)->pool);
}

static const spn_executor_ops fj_ops = { .size = sizeof fj_ops,
                                         .execute = op_execute,
                                         .shutdown = op_shutdown,
                                         .shutdown_now = op_shutdown_now,
                                         .await = op_await,
                                         .state = op_state,
                                         .remove = op_remove,
                                         .wait_begin = op_wait_begin,
                                         .wait_end = op_wait_end,
                                         .hold = op_hold,
                                         .release = op_release,
                                         .attach = op_attach,
                                         .detach = op_detach };

spn_executor *spn_fj_pool_executor(spn_fj_pool *fj)
{
    return fj != NULL ? &fj->pool->executor : NULL;
}

/* ---- making ---------------------------------------------------------------------------- */

static bool is_default(int64_t value)
{
    return value == SPN_DEFAULT;
}

static bool is_parallelism(int32_t parallelism)
{
    return parallelism >= 1 && parallelism <= SPN_FJ_PARALLELISM_MAX;
}

/* What the thread pool is made of. */
static int settle_options(spn_fj_pool_opts *o, spn_pool_opts *p, spn_thread_opts *t)
{
    if (is_default(o->parallelism))
        o->parallelism = spn_cpu_count();
    if (!is_parallelism(o->parallelism) || o->async > 1 ||
        o->records > SPN__PIECE_RECORDS ||
        (!is_default(o->spare_threads) && o->spare_threads < 0))
        return SPN_EINVAL;
    if (o->records == 0)
        o->records = DEFAULT_RECORDS;
    if (o->thread != NULL && spn__options_copy(t, sizeof *t, o->thread) != SPN_OK)
        return SPN_EINVAL;
    if (t->stack_size == 0)
        t->stack_size = DEFAULT_STACK;
    p->name = o->name;
    p->core_threads = p->max_threads = o->parallelism;
    p->keep_alive_ns = o->keep_alive_ns == 0 ? 1 : o->keep_alive_ns;
    p->core_timeout = 1;
    p->queue_capacity = SPN_UNBOUNDED;
    p->factory = o->factory;
    p->thread = t;
    p->hooks = o->hooks;
    return SPN_OK;
}

int spn_fj_pool_create(spn_fj_pool **out, const spn_fj_pool_opts *opts)
{
    spn_fj_pool_opts o = SPN_FJ_POOL_OPTS_INIT;
    spn_pool_opts p = SPN_POOL_OPTS_INIT;
    spn_thread_opts t = SPN_THREAD_OPTS_INIT;
    struct spn_fj_pool *fj;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (settle_options(&o, &p, &t) != SPN_OK)
        return SPN_EINVAL;
    fj = spn__alloc(sizeof *fj);
    if (fj == NULL)
        return SPN_ENOMEM;
    memset(fj, 0, sizeof *fj);
    fj->source = spn__fj_source;
    fj->source.spare_threads =
        is_default(o.spare_threads) ? DEFAULT_SPARE_THREADS : o.spare_threads;
    fj->async = o.async != 0;
    fj->records = o.records;
    fj->stack_reserve = o.stack_reserve;
    spn__init(&fj->places, NULL);
    spn__lock_init(&fj->lock);
    spn__init(&fj->staff_failed, 0);
    spn__lock_init(&fj->help_lock);
    spn__init(&fj->quiescing, 0);
    spn__lock_init(&fj->quiet_lock);
    spn__waitq_init(&fj->quiet);
    spn__init(&fj->quiet_waiters, 0);
    rc = spn__pool_create(&fj->pool, &p, &fj_ops, &fj->source);
    if (rc != SPN_OK) {
        spn__free(fj);
        return rc;
    }
    *out = fj;
    return SPN_OK;
}

int spn_fj_pool_destroy(spn_fj_pool *fj)
{
    struct spn__fj_place *place, *next;
    bool waited;

    if (fj == NULL)
        return SPN_OK;
    spn__lock(&fj->quiet_lock);
    waited = !spn__waitq_empty(&fj->quiet);
    spn__unlock(&fj->quiet_lock);
    if (waited || spn_pool_destroy(fj->pool) != SPN_OK)
        return SPN_EBUSY;
    for (place = spn__fj_first_place(fj); place != NULL; place = next) {
        next = spn__fj_next_place(place);
        spn__fj_place_free(place);
    }
    spn__free(fj);
    return SPN_OK;
}

int spn_fj_pool_close(spn_fj_pool *fj)
{
    return fj == NULL ? SPN_EINVAL : spn_pool_close(fj->pool);
}

int32_t spn_fj_pool_set_parallelism(spn_fj_pool *fj, int32_t parallelism)
{
    spn_pool_change change = SPN_POOL_CHANGE_INIT;
    int32_t before;
    int rc;

    if (fj == NULL || !is_parallelism(parallelism))
        return SPN_EINVAL;
    change.core_threads = change.max_threads = parallelism;
    before = spn__load(&fj->pool->core, relaxed); /* a knob */
    rc = spn_pool_reconfigure(fj->pool, &change);
    return rc != SPN_OK ? rc : before;
}

/* ---- asking ------------------------------------------------------------------------------ */

spn_fj_pool *spn_fj_pool_current(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place != NULL ? place->pool : NULL;
}

int32_t spn_fj_worker_index(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place != NULL ? place->index : -1;
}

spn_pool *spn__fj_pool_threads(spn_fj_pool *fj)
{
    return fj->pool;
}

int spn_fj_pool_stats_get(spn_fj_pool *fj, spn_fj_stats *stats)
{
    spn_fj_stats s = SPN_FJ_STATS_INIT;
    spn_pool_stats p = SPN_POOL_STATS_INIT;

    if (fj == NULL || stats == NULL)
        return SPN_EINVAL;
    (void)spn_pool_stats_get(fj->pool, &p);
    s.state = p.state;
    s.async = fj->async;
    s.parallelism = p.core_threads;
    s.threads = p.threads;
    s.active = p.active;
    s.blocked = spn__load(&fj->pool->blocked, relaxed); /* a count */
    s.queued_tasks = fj->source.size(&fj->source);
    s.queued_submissions = p.queued > s.queued_tasks ? p.queued - s.queued_tasks : 0;
    for (struct spn__fj_place *q = spn__fj_first_place(fj); q != NULL;
         q = spn__fj_next_place(q))
        s.steals += spn__load(&q->deque.steals, relaxed); /* a count */
    s.accepted = p.accepted;
    s.completed = p.completed;
    s.failed = p.failed;
    s.cancelled = p.cancelled;
    s.returned = p.returned;
    s.dropped = p.dropped;
    s.pending = p.pending;
    return spn__output_copy(stats, &s, sizeof s);
}
