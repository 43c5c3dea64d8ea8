/* SPDX-License-Identifier: MIT */
/*
 * task_wait.c - waiting for an object, and whom the waiter may help meanwhile.
 *
 * HELPING
 *   A worker that waits for an object runs it itself if it has not started.  If another
 *   worker runs it, it takes what was forked there since: the objects in that one's
 *   queue with a sequence from where that stood when the object began, as long as the
 *   object is not done.  For a worker runs nothing between but what descends from it.
 *   Nothing else is ever run: it might want a lock that the waiter holds.  When there is
 *   nothing to help with it blocks, and the pool has another thread stand in for it.
 *
 * ORDERING
 *   [runner] Who runs the object writes where its queue stands, then with release who it
 *            is; who helps reads it with acquire.  With the old number it would take
 *            what was there before.
 *   [outcome] [leave]  see task.c.
 */
#include "forkjoin/task.h"

#include "base/time.h"
#include "sync/interrupt.h"

/* Blocks until it is done: SPN_OK, SPN_ETIMEDOUT, SPN_EINTR, SPN_ENOMEM. */
static int sleep_for(spn_fj_task *t, int64_t deadline_ns, bool interruptible)
{
    struct spn_thread *self = spn__thread_self();
    bool interrupted = false;
    int rc = SPN_OK;

    if (self == NULL && interruptible)
        return SPN_ENOMEM;
    if (self == NULL) { /* whoever joins must not come back early: it looks */
        /* relaxed: [outcome] is read again by await. */
        while ((spn__load(spn__fj_state_of(t), relaxed) & OUTCOME) == 0)
            spn__os_yield();
        return SPN_OK;
    }
    for (;;) {
        struct spn__waiter w;

        spn__lock(spn__fj_lock_of(t));
        /* relaxed: with the lock held; [outcome] is read again by await. */
        if ((spn__fetch_or(spn__fj_state_of(t), WAITERS, relaxed) & OUTCOME) != 0) {
            spn__unlock(spn__fj_lock_of(t));
            rc = SPN_OK;
            break;
        }
        spn__waitq_add(spn__fj_waiters_of(t), &w, self);
        spn__unlock(spn__fj_lock_of(t));
        rc = spn__waitq_wait(&w, spn__fj_lock_of(t), deadline_ns);
        if (rc == SPN_OK)
            break;
        spn__unlock(spn__fj_lock_of(t));
        if (rc != SPN_EINTR || interruptible)
            break;
        interrupted = true;
    }
    if (interrupted)
        spn__interrupt_set(self);
    return rc;
}

struct descent {
    spn_fj_task *root;
    uint64_t from;
};

static bool was_forked_since(spn_task *task, void *ctx)
{
    const struct descent *d = ctx;
    spn_fj_task *t = spn__fj_task_of(task);

    /* Both under the lock, which the runner had to push t: if the root had ended there
     * by then, that is seen.  relaxed: as is the number. */
    return t != NULL && !spn__fj_task_done(d->root) &&
           spn__load(spn__fj_sequence_of(t), relaxed) >= d->from;
}

/* Runs the task itself, or one that descends from it; false: there is none. */
static bool help(struct spn__fj_place *place, spn_fj_task *t)
{
    struct spn_fj_pool *fj = place->pool;
    struct spn__fj_place *runner;
    struct descent d = { t, 0 };
    spn_task *task = NULL;

    if (spn__work_has(fj->pool, &t->task)) {
        if (spn__work_remove(fj->pool, &t->task))
            task = &t->task;
    } else {
        runner = spn__load(spn__fj_runner_of(t), acquire);   /* [runner] */
        d.from = spn__load(spn__fj_sequence_of(t), relaxed); /* came with it */
        if (runner != NULL && runner != place && runner->pool == fj)
            task = spn__fj_queue_take_if(runner, was_forked_since, &d);
    }
    if (task == NULL)
        return false;
    spn__fj_run_queued(place, task);
    return true;
}

#ifdef SPN_SIM
enum { LOOKS = 1 };
#else
enum { LOOKS = SPN__SPIN_LIMIT };
#endif

static int await(spn_fj_task *t, int64_t timeout_ns, bool interruptible)
{
    struct spn__fj_place *place = spn__fj_place_current();
    int64_t deadline_ns = SPN_FOREVER;
    int rc;

    if (spn__fj_outcome_of(t) != 0)
        return SPN_OK;
    if (timeout_ns <= 0)
        return SPN_ETIMEDOUT;
    if (timeout_ns != SPN_FOREVER)
        deadline_ns = spn__deadline(spn__now(), timeout_ns);
    if (place == NULL || place->pool == NULL) {
        rc = sleep_for(t, deadline_ns, interruptible);
    } else {
        for (int looks = 0; looks < LOOKS && spn__fj_outcome_of(t) == 0;) {
            if (deadline_ns == SPN_FOREVER && help(place, t)) {
                looks = 0;
                continue;
            }
            looks++;
            spn__cpu_relax();
        }
        rc = SPN_OK;
        if (spn__fj_outcome_of(t) == 0) {
            place->deque.ops->block(&place->deque);
            rc = sleep_for(t, deadline_ns, interruptible);
            place->deque.ops->unblock(&place->deque);
        }
    }
    if (rc == SPN_OK)
        (void)spn__fj_outcome_of(t); /* [outcome] [leave] */
    return rc;
}

int spn_fj_task_join(spn_fj_task *t)
{
    int rc;

    if (t == NULL)
        return SPN_EINVAL;
    rc = await(t, SPN_FOREVER, false);
    return rc != SPN_OK ? rc : spn_fj_task_error(t);
}

int spn_fj_task_get(spn_fj_task *t, void **result, int64_t timeout_ns)
{
    int rc;

    if (t == NULL)
        return SPN_EINVAL;
    rc = await(t, timeout_ns, true);
    if (rc != SPN_OK)
        return rc;
    switch (spn__fj_outcome_of(t)) {
    case NORMAL:
        if (result != NULL)
            *result =
                spn__load(spn__fj_result_of(t), relaxed); /* see spn__fj_result_of */
        return SPN_OK;
    case CANCELLED:
        return SPN_ECANCELED;
    default:
        return SPN_EFAILED;
    }
}
