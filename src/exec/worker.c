/* SPDX-License-Identifier: MIT */
/*
 * worker.c - a worker's life: it takes one task after another (run.c), waits for the
 * next (idle.c), and leaves (staff.c) when the pool is too large, idle or at its end.
 *
 * THE FIRST TASK
 *   A worker that was made for a task keeps it in `first` until it starts it.  In a paused
 *   pool the worker sleeps before that (await_resumed).  The task counts as active, and
 *   remove, purge and cancel_owner do not find it.  shutdown_now takes it out and gives
 *   it back; after resume or shutdown the worker starts it.
 *
 * DEATH
 *   A task may end its thread (pthread_exit).  worker_ended, the thread's root frame and
 *   the only one that catches it, counts the task as failed, ends the library's own tasks
 *   that it was in (spn__task_entered), and has another worker take this one's place.  If
 *   no thread can be made and this was the last, it goes on serving from the root: a queue
 *   is never left without anybody.  A hook or a drop that ends the thread is not told from
 *   a task: that is undefined.
 *
 * ORDERING
 *   [ctl]   The end is published with release; who learns of it without the lock
 *           acquires, and sees all that the tasks did.  All else about the control word
 *           is relaxed: it says who has a place, and what hangs on that is decided
 *           under the lock, behind the door, or by a hint.
 *   [block] STEAL: a task that blocks is counted, then makes a heavy fence and looks for
 *           work and for workers; whoever pushes, and a worker that goes although there is
 *           work, because it is above max, and has counted itself out, makes a light fence
 *           and looks for blocked ones.
 *   [pause] What precedes resume happens before the tasks that it lets start: a worker
 *           may find one in the outbox without ever taking the submitters' lock.
 *   [stay]  A worker that stays for what is in a user's queue, perhaps not due, or for a
 *           worker that waits for a task, is counted in `staying`, makes a heavy fence and
 *           looks whether that is still so.  A worker that takes the last task out, or
 *           stops waiting, makes a light fence, looks at `staying` and wakes them.
 *   [stop], [count]  see run.c; [user], [epoch], [wake]  see idle.c; [door]  see work.c;
 *   [free]  see work_fifo.c.
 */
#include "exec/worker.h"

#include "base/assert.h"
#include "base/time.h"
#include "future/ambient.h"
#include "future/executor.h"
#include "sync/thread_record.h"

struct spn__worker *spn__worker_current(void)
{
    struct spn_thread *self = spn__self_get();

    return self != NULL ? self->worker : NULL;
}

/* ---- the next task ------------------------------------------------------------------- */

/* Waits in a queue of the user's. */
static bool wait_user(struct spn__worker *w, struct spn__entry *entry, uint32_t epoch,
                      int64_t timeout_ns)
{
    struct spn_pool *pool = w->pool;
    void *item = NULL;
    int rc = SPN_EINTR;

    spn__os_cancel_disable();            /* as in spn__idle_wait */
    spn__store(&w->waiting, 1, release); /* [user] with it comes `self` */
    spn__fence_light();                  /* [user] */
    /* relaxed: after the fence. */
    if (spn__load(&pool->epoch, relaxed) == epoch)
        rc = spn_queue_take(pool->work.queue, &item, timeout_ns);
    if (spn__exchange(&w->waiting, 0, relaxed) == 2) { /* [user] the lock orders it */
        /* Whoever said so holds the lock until the interrupt is there: so that it is
         * cleared before the next task, and does not come into it. */
        spn__lock(&pool->lock);
        spn__unlock(&pool->lock);
    }
    if (rc == SPN_OK) {
        spn__work_taken_from_user(pool, item);
        *entry = (struct spn__entry){ spn__entry_task, item };
        spn__room_notify(&pool->room);
        return true;
    }
    w->timed_out = rc == SPN_ETIMEDOUT || rc == SPN_EEMPTY;
    if (rc == SPN_ECLOSED) /* nothing will come from there any more */
        spn__idle_wait(w, epoch,
                       timeout_ns == SPN_FOREVER
                           ? SPN_FOREVER
                           : spn__deadline(spn__now(), timeout_ns));
    return false;
}

/* The same for one that stayed for what is there: until that comes, and not again and
 * again for its keep-alive. */
static bool wait_user_on(struct spn__worker *w, struct spn__entry *entry,
                         uint32_t epoch, int64_t keep_alive_ns)
{
    struct spn_pool *pool = w->pool;
    bool found;

    (void)spn__fetch_add(&pool->staying, 1, relaxed); /* [stay] before the fence */
    spn__fence_heavy();                               /* [stay] */
    /* relaxed: after the fence. */
    if ((w->counted_on && spn__load(&pool->waiting, relaxed) > 0) ||
        spn_queue_size(pool->work.queue) > 0)
        keep_alive_ns = SPN_FOREVER;
    found = wait_user(w, entry, epoch, keep_alive_ns);
    (void)spn__fetch_sub(&pool->staying, 1, relaxed); /* a hint */
    return found;
}

void spn__worker_let_go(struct spn_pool *pool)
{
    /* [stay] mutant: spn__room_notify, which follows every take there, makes one too */
    spn__fence_light();
    if (spn__load(&pool->staying, relaxed) == 0) /* after the fence */
        return;
    spn__lock(&pool->lock);
    spn__idle_look_around(pool);
    spn__unlock(&pool->lock);
}

/* Says that it is free for a task that is handed over. */
static void be_free(struct spn__worker *w)
{
    if (!w->pool->handoff || w->free)
        return;
    w->free = true;
    (void)spn__fetch_add(&w->pool->work.free, 1, relaxed); /* [free] one more */
    spn__room_notify(&w->pool->room);
}

static bool take(struct spn__worker *w, struct spn__entry *entry)
{
    struct spn_pool *pool = w->pool;
    /* [pause] Before the state: if shutdown_now has ended the pause, take sees STOP. */
    const bool paused = spn__load(&pool->paused, acquire) != 0;
    /* relaxed: a change comes with the epoch [ctl]. */
    const uint32_t ctl = spn__load(&pool->ctl, relaxed);

    if (spn__ctl_state(ctl) >= SPN_EXECUTOR_STOP || paused)
        return false;
    be_free(w);
    if (spn__ctl_count(ctl) > spn__load(&pool->max, relaxed) && /* a knob */
        spn__ctl_count(ctl) > spn__pool_bound(pool, SPN__TO_SPARE) && !w->needed)
        return false; /* it is one too many, and goes */
    return spn__work_take(pool, w, entry);
}

/* Whether one that stays is woken when it may go: by what is due, by whoever leaves while
 * something runs that may fork, or by the end of a pause. */
static bool is_woken(struct spn_pool *pool, uint32_t ctl)
{
    return pool->kind == SPN__WORK_TIMED ||
           (pool->kind == SPN__WORK_STEAL &&
            spn__ctl_state(ctl) == SPN_EXECUTOR_SHUTDOWN) ||
           spn__load(&pool->paused, relaxed) != 0; /* [epoch] */
}

/* Sleeps until the pool is no longer paused. */
static void await_resumed(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;

    spn__lock(&pool->lock);
    while (spn__load(&pool->paused, relaxed) != 0) { /* written under the lock */
        struct spn__waiter waiter;

        spn__waitq_add(&pool->resumed, &waiter,
                       spn__load(&w->self, relaxed)); /* its own */
        spn__unlock(&pool->lock);
        spn__waitq_sleep(&waiter);
        spn__lock(&pool->lock);
    }
    spn__unlock(&pool->lock);
}

/* The worker's first task in *entry, after any pause; false: it was given back. */
static bool take_first(struct spn__worker *w, struct spn__entry *entry)
{
    if (spn__load(&w->pool->paused, acquire) != 0) /* [pause] */
        await_resumed(w);
    /* relaxed: of this exchange and shutdown_now's, the first gets the task. */
    *entry =
        (struct spn__entry){ spn__entry_task, spn__exchange(&w->first, NULL, relaxed) };
    return entry->arg != NULL;
}

/* The next task in *entry; false: the worker has left, and is gone. */
static bool next_task(struct spn__worker *w, struct spn__entry *entry)
{
    struct spn_pool *pool = w->pool;

    be_free(w);
    for (;;) {
        const uint32_t epoch = spn__load(&pool->epoch, acquire); /* [epoch] */
        int64_t keep_alive_ns = SPN_FOREVER;
        uint32_t ctl;
        bool timed;

        if (take(w, entry))
            break;
        if (pool->kind == SPN__WORK_STEAL) /* while it is counted: see leave */
            pool->work.stealing->settled(pool->work.stealing);
        /* relaxed, all: [epoch], and leave looks again under the lock. */
        ctl = spn__load(&pool->ctl, relaxed);
        timed = spn__load(&pool->core_timeout, relaxed) != 0 ||
                spn__ctl_count(ctl) > spn__load(&pool->core, relaxed);
        if (timed)
            keep_alive_ns = spn__load(&pool->keep_alive_ns, relaxed);
        if (keep_alive_ns == 0)
            w->timed_out = true;
        if (spn__ctl_state(ctl) >= SPN_EXECUTOR_SHUTDOWN || (timed && w->timed_out) ||
            spn__ctl_count(ctl) > spn__pool_bound(pool, SPN__TO_SPARE)) {
            if (spn__worker_leave(w))
                return false;
            w->timed_out = false;
            /* Not needed: it need not go any more. */
            if (!w->needed ||
                ((pool->kind != SPN__WORK_USER || spn__work_any_kept(pool)) &&
                 spn__idle_work_waits(pool)))
                continue; /* it stayed for that */
            /* Another took it, and at the end of a pool nobody comes to say so. */
            if (spn__ctl_state(ctl) >= SPN_EXECUTOR_SHUTDOWN && !w->counted_on &&
                pool->kind != SPN__WORK_STEAL && !spn__work_any(pool))
                continue;
        }
        w->timed_out = false;
        if (pool->kind == SPN__WORK_USER && spn__load(&pool->paused, relaxed) == 0) {
            if (w->needed ? wait_user_on(w, entry, epoch, keep_alive_ns)
                          : wait_user(w, entry, epoch, keep_alive_ns))
                break;
            w->needed = false;
        } else {
            if (w->needed && is_woken(pool, ctl))
                keep_alive_ns = SPN_FOREVER; /* as in wait_user_on */
            spn__idle_wait(w, epoch,
                           keep_alive_ns == SPN_FOREVER
                               ? SPN_FOREVER
                               : spn__deadline(spn__now(), keep_alive_ns));
            if (pool->kind == SPN__WORK_TIMED)
                w->needed = false;
            if (w->given != NULL) {
                *entry = (struct spn__entry){ spn__entry_task, w->given };
                w->given = NULL;
                spn__room_notify(&pool->room); /* see tray.c, ROOM */
                break;
            }
        }
    }
    w->timed_out = w->needed = false;
    spn__idle_found(w);
    if (pool->kind == SPN__WORK_USER && spn_queue_size(pool->work.queue) == 0)
        spn__worker_let_go(pool);
    return true;
}

/* Serves until the worker has left. */
static void serve(struct spn__worker *w)
{
    struct spn__entry entry;

    /* relaxed: take_first decides. */
    if (spn__load(&w->first, relaxed) != NULL && take_first(w, &entry))
        spn__worker_run(w, entry);
    while (next_task(w, &entry)) {
        if (w->batch != NULL)
            spn__worker_run_batch(w, entry);
        else
            spn__worker_run(w, entry);
    }
}

/* ---- a worker's thread ------------------------------------------------------------------ */

static void serve_here(void *frame)
{
    (void)frame; /* for worker_ended */
    serve(spn__worker_current());
}

/* The root: follows serve, also when a task ended the thread; and once more then, if the
 * thread went on and another ended it. */
static void worker_ended(void *arg)
{
    struct spn_thread *self = spn__self_get();
    struct spn__worker *w = self->worker;

    if (w == NULL) { /* it has left */
        (void)spn_executor_leave(arg);
        return;
    }
    spn__worker_cut_short(w, arg);
    if (spn__worker_replace(w)) {
        self->worker = NULL;
        spn__free(w); /* the pool may be gone */
    } else {
        /* To the end, or until others can do without it; a task may end the thread
         * again. */
        spn__outlive(serve_here, worker_ended, arg);
        return;
    }
    (void)spn_executor_leave(arg);
}

int spn__worker_main(void *arg)
{
    struct spn__worker *w = arg;
    struct spn_thread *self = spn__thread_self();
    spn_executor_frame frame;
    int entered;

    self->worker = w;
    spn__ambient_worker(self);
    spn__store(&w->self, self, relaxed); /* read by others after [stop] or [user] */
    entered = spn_executor_enter(&w->pool->executor, &frame);
    spn__assert(entered == SPN_OK); /* a thread of the library has a record */
    if (w->pool->kind == SPN__WORK_STEAL) {
        self->stays = true; /* records that others join are on its stack */
        serve(w);
        (void)spn_executor_leave(&frame);
    } else {
        spn__outlive(serve_here, worker_ended, &frame);
    }
    return 0;
}

/* ---- tasks of fork/join that block --------------------------------------------------- */

void spn__pool_compensate(struct spn_pool *pool)
{
    const int32_t core = spn__load(&pool->core, relaxed); /* a knob */
    const int32_t count = spn__ctl_count(spn__load(&pool->ctl, relaxed));

    /* relaxed, all: hints, or after the fence of whoever calls [block]. */
    if (spn__pool_serving(pool, count) >= (core > 1 ? core : 1) ||
        spn__load(&pool->idle_count, relaxed) > 0 || !spn__work_any(pool))
        return;
    (void)spn__pool_add_worker(pool, NULL, SPN__TO_SPARE);
}

void spn__worker_block(struct spn__worker *w)
{
    if (w->block_depth++ > 0)
        return;
    (void)spn__fetch_add(&w->pool->blocked, 1, relaxed); /* [block] before the fence */
    spn__fence_heavy();                                  /* [block] */
    spn__pool_compensate(w->pool);
}

void spn__worker_unblock(struct spn__worker *w)
{
    if (--w->block_depth > 0)
        return;
    (void)spn__fetch_sub(&w->pool->blocked, 1, relaxed); /* a hint */
}

spn_pool *spn_pool_current(void)
{
    struct spn__worker *w = spn__worker_current();

    return w != NULL && w->in_task ? w->pool : NULL;
}
