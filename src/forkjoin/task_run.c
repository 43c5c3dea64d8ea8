/* SPDX-License-Identifier: MIT */
/*
 * task_run.c - objects are handed over, and run.
 *
 * HANDING OVER  HANDED says that a pool's queue has the object, or who took it out there.
 *   Before it is set, one bit more (HANDING) keeps a second submitter out while `home`
 *   is written.
 *
 * RUNNING  STARTED decides who runs it.  While the body runs, `running` and `runner` say
 *   where, so that a canceller can interrupt it.  A body may end its own task, and whoever
 *   waits may free it then: so the runner keeps a list of what it stands in (place->run),
 *   and lets go of the one that is ended.
 *
 * ORDERING  [start] [defer]  see task.c; [runner]  see task_wait.c.
 */
#include "forkjoin/task.h"

#include "future/ambient.h"
#include "future/executor.h"
#include "sync/interrupt.h"

struct run {
    struct spn__fj_place *place;
    spn_fj_task *task;
    struct spn__nested nested;
    struct run *outer; /* what the same thread runs it in */
    bool gone;         /* its body has ended it: it is not touched any more */
};

/* It no longer runs: no interrupt is meant for it from here on. */
static void stop_running(struct run *r)
{
    spn_fj_task *t = r->task;
    bool interrupted;

    spn__lock(spn__fj_lock_of(t));
    t->running = 0;
    interrupted = t->interrupt != 0;
    t->interrupt = 0;
    spn__unlock(spn__fj_lock_of(t));
    if (interrupted && r->place->pool != NULL &&
        spn__ctl_state(spn__load(&r->place->pool->pool->ctl, relaxed)) <
            SPN_EXECUTOR_STOP) /* a later one means all */
        (void)spn__interrupt_take(spn__self_get());
}

static void arrive(struct run *r)
{
    struct spn__fj_place *place = r->place;

    r->outer = place->run;
    place->run = r;
    if (place->depth++ > 0)
        return;
    spn__store(&place->active, 1, relaxed); /* its own; see ask_all */
    if (place->pool != NULL)
        spn__store(&place->pool->staff_failed, 0, relaxed); /* a hint */
}

static void leave(struct run *r)
{
    struct spn__fj_place *place = r->place;

    place->run = r->outer;
    if (--place->depth == 0)
        spn__store(&place->active, 0, relaxed); /* its own; see ask_all */
    if (!r->gone)
        stop_running(r);
}

/* What the body said, and what became of its tree. */
static void conclude(spn_fj_task *t, int status)
{
    int error = status == SPN_FJ_PENDING ? 0 : status;

    if (error == 0)
        error = spn__load(spn__fj_error_of(t), relaxed); /* its tree has ended */
    if (error != 0) {
        (void)spn__fj_task_end_failed(t, error);
    } else if (status != SPN_FJ_PENDING) {
        (void)spn__fj_task_end_normal(t);
    }
}

void spn__fj_let_go(spn_fj_task *t)
{
    /* relaxed: if it is the caller's own place the caller wrote it, and `running`. */
    struct spn__fj_place *place = spn__load(spn__fj_runner_of(t), relaxed);
    struct run *r;

    if (place == NULL || place != spn__fj_place_current() || t->running == 0)
        return;
    r = place->run;
    while (r != NULL && r->task != t)
        r = r->outer;
    if (r == NULL)
        return;
    stop_running(r);
    r->gone = true;
    r->nested.frame.job = NULL;
}

/* Whether the caller is to run it. */
static bool start(spn_fj_task *t)
{
    uint32_t state = spn__load(spn__fj_state_of(t), relaxed); /* the swap tells */

    do {
        if ((state & (CLAIMED | STARTED)) != 0)
            return false;
        /* mutant: the queues order as much; this is for one that is run by hand. */
    } while (!spn__cas_weak(spn__fj_state_of(t), &state, state | STARTED,
                            acq_rel, /* [start] */
                            relaxed));
    return true;
}

/* STARTED is the caller's. */
static void run_started(struct spn__fj_place *place, spn_fj_task *t)
{
    struct run r = { .place = place, .task = t };
    int status = SPN_ENOMEM;
    spn_fj fj;

    /* First where the queue stands: what is in it already is no descendant, and who
     * sees the runner helps with what is not [runner]. */
    spn__lock(&place->queue.lock);
    spn__store(spn__fj_sequence_of(t), place->queue.sequence, relaxed);
    spn__unlock(&place->queue.lock);
    spn__lock(spn__fj_lock_of(t));
    spn__store(spn__fj_runner_of(t), place, release); /* [runner] */
    t->running = 1;
    spn__unlock(spn__fj_lock_of(t));
    arrive(&r);
    fj = spn__deque_enter(&place->deque, &r.nested, t);
    if (fj != NULL && spn__fj_deep(fj)) { /* a body needs room, as a record's does */
        spn__deque_leave(&place->deque, &r.nested);
        fj = NULL;
    }
    if (fj != NULL) {
        r.nested.frame.stand = spn__fj_stand_of(place); /* nothing is forked yet */
        status = t->fn(fj, t);
        spn__deque_leave(&place->deque, &r.nested);
    }
    leave(&r);
    if (!r.gone)
        conclude(t, status);
}

int spn__fj_run_by_executor(spn_task *task)
{
    spn_fj_task *t = (spn_fj_task *)(void *)task;
    struct spn__fj_place *place = spn__fj_place_current();

    if (t->fn == NULL)
        (void)spn__fj_put_down(t); /* only ever completed by hand */
    else if (place != NULL && spn__fj_take_up(t, STARTED))
        run_started(place, t); /* else it has ended, and may be gone */
    else if (place == NULL && spn__fj_put_down(t))
        (void)spn_fj_task_invoke(t); /* somebody got it back and runs it by hand */
    return 0;
}

void spn__fj_run_queued(struct spn__fj_place *place, spn_task *task)
{
    struct spn__fj_stand *before = place->stand;
    struct spn__fj_stand stand = { spn__fj_stand_of(place), 0 };
    int status;

    place->stand = &stand;
    status = spn__task_run_claimed(task); /* the node may be gone now */
    place->stand = before;
    spn__worker_count(place->worker, status);
}

/* ---- handing over ----------------------------------------------------------------------------- */

/* Before it is handed to a pool; false: somebody else does, or has. */
static bool hand(spn_fj_task *t, struct spn_fj_pool *fj)
{
    /* [defer] mutant: who had it before is done with its home, which is plain. */
    const uint32_t state = spn__fetch_or(spn__fj_state_of(t), HANDING, acquire);

    if ((state & HANDING) != 0)
        return false;
    if ((state & HANDED) != 0) {
        (void)spn__fetch_and(spn__fj_state_of(t), ~(uint32_t)HANDING,
                             relaxed); /* untouched */
        return false;
    }
    t->home = fj;
    /* The one bit for the other.  [start] mutant: its home comes with it, plain. */
    (void)spn__fetch_sub(spn__fj_state_of(t), HANDING - HANDED, release);
    return true;
}

/* Through one of the pool's doors; on failure it is as before. */
static int submit_by(struct spn_fj_pool *fj, spn_fj_task *t,
                     int (*push)(struct spn_fj_pool *fj, spn_task *task))
{
    int rc;

    /* relaxed: as good as any moment. */
    if (spn__load(spn__task_queued(&t->task), relaxed) != 0)
        return SPN_EBUSY;
    if (!hand(t, fj))
        return SPN_EBUSY;
    rc = push(fj, &t->task);
    if (rc != SPN_OK)
        (void)spn__fj_put_down(t);
    return rc;
}

static int push_anywhere(struct spn_fj_pool *fj, spn_task *task)
{
    return spn_executor_execute(&fj->pool->executor, task);
}

int spn_fj_pool_submit(spn_fj_pool *fj, spn_fj_task *t)
{
    if (fj == NULL || t == NULL)
        return SPN_EINVAL;
    return submit_by(fj, t, push_anywhere);
}

static int push_own(struct spn_fj_pool *fj, spn_task *task)
{
    const int rc = spn_task_claim(task);

    if (rc == SPN_OK) {
        spn__fj_queue_push(spn__fj_place_current(), task);
        spn__fj_signal(fj);
    }
    return rc;
}

int spn_fj_task_fork(spn_fj_task *t)
{
    struct spn__fj_place *place = spn__fj_place_current();

    if (t == NULL)
        return SPN_EINVAL;
    return place == NULL ? SPN_ESTATE : submit_by(place->pool, t, push_own);
}

/* Runs a task that is in no queue, here. */
static void run_here(spn_fj_task *t)
{
    struct spn__fj_place *place = spn__fj_place_current();
    struct spn__fj_place *alone = NULL;

    if (place == NULL) {
        place = alone = spn__fj_place_alone();
        if (alone == NULL) {
            if (start(t))
                conclude(t, SPN_ENOMEM);
            return;
        }
    }
    if (t->fn != NULL && start(t))
        run_started(place, t);
    if (alone != NULL)
        spn__fj_place_free(alone);
}

int spn_fj_task_invoke(spn_fj_task *t)
{
    if (t == NULL)
        return SPN_EINVAL;
    if (spn__fj_outcome_of(t) == 0 &&
        spn__load(spn__task_queued(&t->task), relaxed) == 0)
        run_here(t); /* relaxed: where it is queued is found out by join */
    return spn_fj_task_join(t);
}

int spn_fj_invoke_all(spn_fj_task *const *tasks, size_t count)
{
    struct spn__fj_place *place = spn__fj_place_current();
    int rc = SPN_OK;

    if (tasks == NULL && count > 0)
        return SPN_EINVAL;
    for (size_t i = 0; i < count; i++)
        if (tasks[i] == NULL)
            return SPN_EINVAL;
    for (size_t i = count; place != NULL && i-- > 1;) {
        const int forked = spn_fj_task_fork(tasks[i]);

        if (forked != SPN_OK && rc == SPN_OK)
            rc = forked;
    }
    for (size_t i = 0; i < count; i++) {
        int outcome;

        /* One that runs is waited for: whoever called may free it afterwards. */
        if (rc != SPN_OK)
            spn__fj_task_cancel_unstarted(tasks[i]);
        outcome = spn_fj_task_invoke(tasks[i]);
        if (rc == SPN_OK)
            rc = outcome;
    }
    return rc;
}

/* ---- calls --------------------------------------------------------------------------------- */

struct root {
    spn_fj_task task; /* first */
    spn_fj_call_fn fn;
    void *arg;
    int status;
};

static int run_root(spn_fj fj, spn_fj_task *t)
{
    struct root *r = (struct root *)(void *)t;

    r->status = r->fn(fj, r->arg);
    return 0;
}

int spn_fj_run(spn_fj_pool *fj, spn_fj_call_fn fn, void *arg)
{
    struct spn__fj_place *place = spn__fj_place_current();
    struct root r = { .fn = fn, .arg = arg };
    int rc;

    if (fj == NULL || fn == NULL)
        return SPN_EINVAL;
    spn_fj_task_init(&r.task, run_root);
    if (place != NULL && place->pool == fj)
        rc = spn_fj_task_invoke(&r.task);
    else if ((rc = spn_fj_pool_submit(fj, &r.task)) == SPN_OK)
        rc = spn_fj_task_join(&r.task);
    if (rc != SPN_OK)
        (void)spn_fj_task_cancel(&r.task, 0); /* if it was refused: nobody has it */
    return rc != SPN_OK ? rc : r.status;
}
