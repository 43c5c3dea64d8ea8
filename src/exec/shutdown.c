/* SPDX-License-Identifier: MIT */
/*
 * shutdown.c - the end of a pool, and tasks that leave it without having run.
 *
 * STATE  RUNNING -> SHUTDOWN -> STOP -> TIDYING -> TERMINATED, or past those between.
 *   All changes are made under the pool's lock.  TIDYING is entered by whoever finds
 *   no worker left and nothing queued (or STOP): a worker that leaves, shutdown itself
 *   on an idle pool, or whoever takes the last queued task back.  That one runs the
 *   hook, with no lock held, and then ends it.
 *
 * AFTER TERMINATED nobody who is inside touches the pool: a thread that waits for it
 *   may free it at once.  The waiters are chosen under the lock, and granted
 *   afterwards from nodes of their own.  Who leaves the lock and means to come back
 *   without being counted as a worker holds the pool: that work waits is no hold, for
 *   its submitter may take it back and end the pool.
 *
 * ORDERING  [ctl]  see worker.c; [stop], [count]  run.c; [door]  work.c.
 *   [hold] Who takes tasks out of the queue to give them back counts itself before, until
 *   they are counted.  Who finds that the pool has nothing left to do reads the size of the
 *   queue, or has emptied it under its locks: it then sees the hold, and does not end the
 *   pool.
 *   [lapsed] who gives a queued task's future its outcome counts up `lapsed` afterwards
 *   (release); a sweep reads it (acquire), looks, and notes the number in `swept`.  So it
 *   sees the outcome, or the numbers differ.  Several may sweep: each finds room for its
 *   task if there is any.
 */
#include "exec/pool.h"

#include "base/time.h"
#include "future/ambient.h"
#include "future/core.h"
#include "future/executor.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

#ifdef SPN_SIM /* several rounds in short scenarios */
enum { AT_ONCE = 2 };
#else
enum { AT_ONCE = 64 };
#endif

void spn__pool_count(struct spn_pool *pool, int64_t *counter, int64_t by)
{
    spn__lock(&pool->lock);
    *counter += by;
    spn__unlock(&pool->lock);
}

/* ---- the end ---------------------------------------------------------------------- */

/* Moves the state forward; pool->lock is held. */
static void advance(struct spn_pool *pool, uint32_t state)
{
    uint32_t ctl = spn__load(&pool->ctl, relaxed); /* the loop tells */

    while (spn__ctl_state(ctl) < state)
        if (spn__cas_weak(&pool->ctl, &ctl, spn__ctl_make(state, spn__ctl_count(ctl)),
                          release, relaxed)) /* [ctl] who sees the end sees all tasks */
            return;
}

bool spn__pool_try_terminate(struct spn_pool *pool)
{
    /* relaxed: all but a worker's coming changes under the lock. */
    const uint32_t ctl = spn__load(&pool->ctl, relaxed);
    const uint32_t state = spn__ctl_state(ctl);

    if (spn__ctl_count(ctl) != 0 || state == SPN_EXECUTOR_RUNNING ||
        state >= SPN_EXECUTOR_TIDYING ||
        /* The size, and not just whether any: [hold] is in it. */
        (state == SPN_EXECUTOR_SHUTDOWN && spn__work_size(pool) != 0) ||
        spn__load(&pool->holds, relaxed) != 0) /* [hold] */
        return false;
    advance(pool, SPN_EXECUTOR_TIDYING);
    return true;
}

static void give_back(struct spn__list *tasks, spn_unrun_fn unrun, void *ctx,
                      int reason);

/* STEAL: what a worker brought after shutdown_now had looked; it needs no door.  Now no
 * worker is left to bring more. */
static void drop_late(struct spn_pool *pool)
{
    struct spn__list late;
    int64_t taken;

    if (pool->kind != SPN__WORK_STEAL)
        return;
    spn__list_init(&late);
    spn__lock(&pool->lock);
    taken = spn__work_collect(pool, NULL, NULL, &late);
    pool->returned += taken;
    spn__pool_settle(pool, taken);
    spn__unlock(&pool->lock);
    give_back(&late, NULL, NULL, SPN_ESHUTDOWN);
    pool->work.stealing->settled(pool->work.stealing);
}

void spn__pool_terminate(struct spn_pool *pool)
{
    struct spn__chosen chosen = { NULL, NULL };

    drop_late(pool);
    if (pool->hooks.terminated != NULL) {
        struct spn_thread *self = spn__thread_self();

        spn__lock(&pool->lock);
        pool->terminator = self; /* so that it does not wait for itself in the hook */
        spn__unlock(&pool->lock);
        pool->hooks.terminated(pool, pool->hooks.ctx);
    }
    spn__lock(&pool->lock);
    pool->terminator = NULL;
    advance(pool, SPN_EXECUTOR_TERMINATED);
    spn__waitq_choose_all(&pool->awaiting, &chosen);
    spn__unlock(&pool->lock);
    spn__chosen_grant(&chosen);
}

/* Takes the first tasks out of the workers of a paused pool; pool->lock is held. */
static int64_t take_firsts(struct spn_pool *pool, struct spn__list *out)
{
    struct spn__list_node *node;
    int64_t taken = 0;

    spn__list_each (node, &pool->workers) {
        struct spn__worker *w = spn__list_entry(node, struct spn__worker, link);
        spn_task *task = spn__exchange(&w->first, NULL, relaxed); /* as in take_first */

        if (task != NULL) {
            spn__list_push_back(out, spn__task_node(task));
            taken++;
        }
    }
    return taken;
}

/* No new tasks; then, with STOP, no new starts.  `firsts`, if not NULL, gets the first tasks of
 * workers before these can see the end of the pause.  Leaves the lock held; the caller grants
 * `resumed` when it has released it.  Returns how many tasks went to `firsts`. */
static int64_t begin_shutdown(struct spn_pool *pool, uint32_t state,
                              struct spn__list *firsts, struct spn__chosen *resumed)
{
    int64_t taken = 0;

    spn__lock(&pool->lock);
    spn__work_close(pool);
    advance(pool, state);
    spn__audit_state(pool, "shut down");
    if (firsts != NULL && spn__load(&pool->paused, relaxed) != 0) /* the lock is held */
        taken = take_firsts(pool, firsts);
    spn__store(&pool->paused, 0, release); /* [pause] after the state */
    spn__idle_look_around(pool);           /* makes the heavy fence [stop] */
    spn__waitq_choose_all(&pool->resumed, resumed);
    return taken;
}

static void finish_shutdown(struct spn_pool *pool)
{
    const bool end = spn__pool_try_terminate(pool);

    spn__room_notify_all(&pool->room);
    spn__unlock(&pool->lock);
    if (end)
        spn__pool_terminate(pool);
}

void spn__pool_hold(struct spn_pool *pool)
{
    (void)spn__fetch_add(&pool->holds, 1, relaxed); /* [hold], or under the lock */
}

void spn__pool_release(struct spn_pool *pool)
{
    bool end;

    spn__lock(&pool->lock);
    (void)spn__fetch_sub(&pool->holds, 1, relaxed); /* under the lock */
    end = spn__pool_try_terminate(pool);
    spn__unlock(&pool->lock);
    if (end)
        spn__pool_terminate(pool);
}

void spn__pool_staff_held(struct spn_pool *pool)
{
    spn__pool_staff(pool);
    spn__lock(&pool->lock);
    (void)spn__fetch_sub(&pool->holds, 1, relaxed); /* under the lock */
    finish_shutdown(pool);                          /* unlocks */
}

/* A user may have put tasks into his queue while there was no worker. */
static bool needs_worker(struct spn_pool *pool)
{
    const uint32_t ctl = spn__load(&pool->ctl, relaxed); /* changes under the lock */

    return spn__ctl_count(ctl) == 0 && spn__ctl_state(ctl) == SPN_EXECUTOR_SHUTDOWN &&
           spn__work_any(pool);
}

/* TIMED: takes out what may not run any more; pool->lock is held, and the queue is
 * closed. */
static void forbid(struct spn_pool *pool, struct spn__list *out)
{
    struct spn__work_source *source = pool->work.source;

    spn__list_init(out);
    if (pool->kind == SPN__WORK_TIMED)
        pool->cancelled += source->ops->forbidden(source, out);
}

int spn__pool_shutdown(struct spn_pool *pool)
{
    struct spn__chosen resumed = { NULL, NULL };
    struct spn__list tasks;
    bool needed;

    if (spn__pool_is_orphan(pool))
        return SPN_ESTATE;
    (void)begin_shutdown(pool, SPN_EXECUTOR_SHUTDOWN, NULL, &resumed);
    forbid(pool, &tasks);
    needed = needs_worker(pool);
    if (needed)
        spn__pool_hold(pool);
    finish_shutdown(pool);
    spn__chosen_grant(&resumed);
    give_back(&tasks, NULL, NULL, SPN_ECANCELED);
    if (needed)
        spn__pool_staff_held(pool);
    return SPN_OK;
}

static void interrupt_running(struct spn_pool *pool)
{
    struct spn__list_node *node;

    spn__list_each (node, &pool->workers) {
        struct spn__worker *w = spn__list_entry(node, struct spn__worker, link);

        /* [stop] after the fence; acquire: `self` comes with it. */
        if (spn__load(&w->running, acquire) != 0)
            spn__interrupt_set(spn__load(&w->self, relaxed)); /* written before it */
    }
}

static void give_back_task(spn_task *task, spn_unrun_fn unrun, void *ctx, int reason)
{
    if (unrun == NULL)
        spn__task_discard(task, reason);
    else
        spn__task_give_back(task, unrun, ctx);
}

static void give_back_entry(struct spn__entry entry, spn_unrun_fn unrun, void *ctx,
                            int reason)
{
    if (entry.fn == spn__entry_task)
        give_back_task(entry.arg, unrun, ctx, reason);
    else if (unrun != NULL)
        unrun(ctx, NULL, entry.fn, entry.arg);
}

/* Tasks that were taken out go to the caller, or are dropped. */
static void give_back(struct spn__list *tasks, spn_unrun_fn unrun, void *ctx,
                      int reason)
{
    struct spn__list_node *node;

    while ((node = spn__list_pop_front(tasks)) != NULL)
        give_back_task(spn__node_task(node), unrun, ctx, reason);
}

/* Only as long as the pool has no worker, or in any case. */
enum until { UNTIL_STAFFED, TO_THE_END };

/*
 * Takes out all that waits and gives it back, after what is in `tasks` already.  What it
 * takes is counted in *counter, and returned.  pool->lock is held, and released here.
 *
 * The calls of LANES and TIMED have no node, and none is made for them, because there may
 * be no memory when a pool ends.  So they are copied out AT_ONCE at a time, and unrun is
 * called without the lock.  Meanwhile the pool is held [hold]: the rest is in its queue.
 */
static int64_t give_back_all(struct spn_pool *pool, struct spn__list *tasks,
                             int64_t *counter, enum until until, spn_unrun_fn unrun,
                             void *ctx, int reason)
{
    struct spn__entry entries[AT_ONCE];
    int64_t all = 0;

    for (;;) {
        const size_t count = spn__work_take_out(pool, entries, AT_ONCE);
        const bool more = count == AT_ONCE;
        int64_t taken = (int64_t)count;

        if (pool->kind != SPN__WORK_LANES && pool->kind != SPN__WORK_TIMED)
            taken = spn__work_collect(pool, NULL, NULL, tasks);
        all += taken;
        *counter += taken;
        spn__pool_settle(pool, taken);
        if (more)
            spn__pool_hold(pool);
        finish_shutdown(pool); /* unlocks; without a hold the pool may be gone now */
        give_back(tasks, unrun, ctx, reason);
        for (size_t i = 0; i < count; i++)
            give_back_entry(entries[i], unrun, ctx, reason);
        if (!more)
            return all;
        spn__lock(&pool->lock);
        (void)spn__fetch_sub(&pool->holds, 1, relaxed); /* under the lock, as is ctl */
        if (until == UNTIL_STAFFED &&
            spn__ctl_count(spn__load(&pool->ctl, relaxed)) != 0) {
            finish_shutdown(pool); /* unlocks */
            return all;
        }
    }
}

int spn__pool_shutdown_now(struct spn_pool *pool, spn_unrun_fn unrun, void *ctx,
                           int64_t *count)
{
    struct spn__chosen resumed = { NULL, NULL };
    struct spn__list tasks;
    int64_t firsts, rest;

    if (count != NULL)
        *count = 0;
    if (spn__pool_is_orphan(pool))
        return SPN_ESTATE;
    spn__list_init(&tasks);
    firsts = begin_shutdown(pool, SPN_EXECUTOR_STOP, &tasks, &resumed);
    interrupt_running(pool);
    pool->returned += firsts;
    spn__pool_settle(pool, firsts);
    spn__chosen_grant(&resumed); /* before unrun, which may take its time */
    rest = give_back_all(pool, &tasks, &pool->returned, TO_THE_END, unrun, ctx,
                         SPN_ESHUTDOWN); /* unlocks */
    if (count != NULL)
        *count = firsts + rest;
    return SPN_OK;
}

/* ---- waiting for it ------------------------------------------------------------------ */

static bool waits_for_itself(struct spn_pool *pool)
{
    return spn_executor_is_inside(&pool->executor) == 1;
}

static bool is_terminated(struct spn_pool *pool)
{
    return spn__pool_state(pool) == SPN_EXECUTOR_TERMINATED;
}

static int await(struct spn_pool *pool, int64_t timeout_ns, bool interruptible)
{
    struct spn_thread *self;
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc;

    if (is_terminated(pool))
        return SPN_OK;
    if (spn__pool_is_orphan(pool))
        return SPN_ESTATE;
    if (timeout_ns <= 0)
        return SPN_ETIMEDOUT;
    if (waits_for_itself(pool))
        return SPN_EDEADLK;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    deadline_ns =
        timeout_ns == SPN_FOREVER ? SPN_FOREVER : spn__deadline(spn__now(), timeout_ns);
    spn__lock(&pool->lock);
    if (is_terminated(pool) || pool->terminator == self) {
        rc = pool->terminator == self ? SPN_EDEADLK : SPN_OK;
        spn__unlock(&pool->lock);
        return rc;
    }
    spn__waitq_add(&pool->awaiting, &w, self);
    spn__unlock(&pool->lock);
    if (!interruptible) {
        spn__waitq_sleep(&w);
        return SPN_OK;
    }
    rc = spn__waitq_wait(&w, &pool->lock, deadline_ns);
    if (rc != SPN_OK)
        spn__unlock(&pool->lock);
    return rc;
}

int spn__pool_await(struct spn_pool *pool, int64_t timeout_ns)
{
    return await(pool, timeout_ns, true);
}

int spn_pool_close(spn_pool *pool)
{
    int rc;

    if (pool == NULL)
        return SPN_EINVAL;
    if (waits_for_itself(pool))
        return SPN_EDEADLK;
    (void)spn__pool_shutdown(pool);
    rc = await(pool, SPN_FOREVER, true);
    if (rc != SPN_EINTR)
        return rc;
    (void)spn__pool_shutdown_now(pool, NULL, NULL, NULL);
    rc = await(pool, SPN_FOREVER, false);
    (void)spn_thread_interrupt(spn_thread_current());
    return rc;
}

int spn_pool_drain(spn_pool *pool, int64_t timeout_ns, spn_unrun_fn unrun, void *ctx,
                   int64_t *count)
{
    int rc;

    if (count != NULL)
        *count = 0;
    if (pool == NULL)
        return SPN_EINVAL;
    if (waits_for_itself(pool))
        return SPN_EDEADLK;
    (void)spn__pool_shutdown(pool);
    rc = await(pool, timeout_ns, true);
    if (rc == SPN_OK)
        return SPN_OK;
    (void)spn__pool_shutdown_now(pool, unrun, ctx, count);
    return rc;
}

bool spn__pool_may_shrink(struct spn_pool *pool)
{
    /* relaxed, all: knobs, and whoever changes the rest tells the workers. */
    const uint32_t ctl = spn__load(&pool->ctl, relaxed);

    return spn__ctl_state(ctl) != SPN_EXECUTOR_RUNNING ||
           spn__load(&pool->core_timeout, relaxed) != 0 ||
           spn__ctl_count(ctl) > spn__load(&pool->core, relaxed);
}

/* ---- taking tasks back ------------------------------------------------------------------ */

/* TIMED: the last task is gone, and a worker may have stayed for it. */
static bool stays_for_nothing(struct spn_pool *pool)
{
    return pool->kind == SPN__WORK_TIMED && !spn__work_any(pool) &&
           spn__pool_may_shrink(pool);
}

void spn__pool_left_queue(struct spn_pool *pool, int64_t *counter, int64_t taken)
{
    spn__lock(&pool->lock);
    (void)spn__fetch_sub(&pool->holds, 1, relaxed); /* under the lock */
    if (taken == 0) {
        finish_shutdown(pool); /* unlocks */
        return;
    }
    *counter += taken;
    spn__pool_settle(pool, taken);
    /* Workers that wait for a shut-down pool's last tasks look again. */
    if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) != SPN_EXECUTOR_RUNNING ||
        pool->kind == SPN__WORK_USER || stays_for_nothing(pool))
        spn__idle_look_around(pool);
    finish_shutdown(pool); /* unlocks */
}

void spn__pool_cancel_end(struct spn_pool *pool)
{
    spn__lock(&pool->lock);
    (void)spn__fetch_sub(&pool->holds, 1, relaxed); /* under the lock */
    pool->cancelled++;
    /* As in left_queue.  relaxed: changes under the lock. */
    if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) != SPN_EXECUTOR_RUNNING ||
        stays_for_nothing(pool))
        spn__idle_look_around(pool);
    finish_shutdown(pool); /* unlocks */
}

int spn__pool_remove(struct spn_pool *pool, spn_task *task)
{
    bool removed;

    spn__pool_hold(pool);
    removed = spn__work_remove(pool, task);
    if (removed)
        spn__pool_left(pool, task);
    spn__pool_left_queue(pool, &pool->returned, removed);
    if (!removed)
        return 0;
    spn__job_forget(task);
    spn__task_given_back(task);
    spn_task_release(task);
    return 1;
}

/* After all tasks were taken out of a user's queue and some put back: who waits in it
 * does not see what is kept beside it, and who found it empty may have left. */
static void put_back(struct spn_pool *pool)
{
    struct spn__list late;
    int64_t taken = 0;
    bool needed;

    spn__list_init(&late);
    spn__lock(&pool->lock);
    (void)spn__fetch_sub(&pool->holds, 1, relaxed); /* under the lock */
    spn__idle_look_around(pool);
    /* relaxed: changes under the lock. */
    if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) >= SPN_EXECUTOR_STOP) {
        /* shutdown_now came meanwhile, and could not find them. */
        taken = spn__work_collect(pool, NULL, NULL, &late);
        pool->discarded += taken;
    }
    /* Also if there are workers: they may wait for tasks that a worker did not find and left. */
    needed = spn__work_any(pool);
    if (needed)
        spn__pool_hold(pool);
    finish_shutdown(pool); /* unlocks */
    give_back(&late, NULL, NULL, SPN_ESHUTDOWN);
    if (needed)
        spn__pool_staff_held(pool);
}

static int64_t cancel_some(struct spn_pool *pool,
                           bool (*wanted)(spn_task *, const void *), const void *ctx)
{
    struct spn__list_node *node;
    struct spn__list tasks;
    int64_t taken;

    spn__list_init(&tasks);
    if (pool->kind == SPN__WORK_USER) /* it holds all tasks for a while: put_back */
        spn__pool_hold(pool);
    spn__pool_hold(pool);
    taken = spn__work_collect(pool, wanted, ctx, &tasks);
    spn__list_each (node, &tasks)
        spn__pool_left(pool, spn__node_task(node));
    spn__pool_left_queue(pool, &pool->cancelled, taken);
    if (pool->kind == SPN__WORK_USER)
        put_back(pool);
    give_back(&tasks, NULL, NULL, SPN_ECANCELED);
    return taken;
}

static bool is_done(spn_task *task, const void *ctx)
{
    struct spn_future *f = spn__task_future(task);

    (void)ctx;
    return f != NULL && spn__future_done(f);
}

int64_t spn_pool_purge(spn_pool *pool)
{
    return pool == NULL ? SPN_EINVAL : cancel_some(pool, is_done, NULL);
}

bool spn__pool_sweep(struct spn_pool *pool)
{
    const uint32_t lapsed = spn__load(&pool->lapsed, acquire); /* [lapsed] */

    /* relaxed, both: a sweep too many does no harm. */
    if (spn__load(&pool->swept, relaxed) == lapsed)
        return false;
    (void)cancel_some(pool, is_done, NULL);
    spn__store(&pool->swept, lapsed, relaxed);
    return true;
}

static bool is_owned(spn_task *task, const void *owner)
{
    return (task->flags & SPN_TASK_JOB) != 0 &&
           ((const spn_job *)(const void *)task)->owner == owner;
}

int64_t spn_pool_cancel_owner(spn_pool *pool, const void *owner)
{
    if (pool == NULL || owner == NULL)
        return SPN_EINVAL;
    return cancel_some(pool, is_owned, owner);
}

void spn__pool_give_up(struct spn_pool *pool)
{
    struct spn__list tasks;

    spn__list_init(&tasks);
    spn__lock(&pool->lock);
    /* A worker may have come meanwhile.  relaxed: changes under the lock. */
    if (spn__ctl_count(spn__load(&pool->ctl, relaxed)) != 0) {
        spn__unlock(&pool->lock);
        return;
    }
    (void)give_back_all(pool, &tasks, &pool->discarded, UNTIL_STAFFED, NULL, NULL,
                        SPN_EAGAIN); /* unlocks */
}
