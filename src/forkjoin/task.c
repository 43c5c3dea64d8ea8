/* SPDX-License-Identifier: MIT */
/*
 * task.c - objects: tasks that are waited for, cancelled and completed by whoever knows
 * them.  Here are their states and ends; task_run.c runs them, task_wait.c waits.
 *
 * STATE  one word.  CLAIMED is set by the one that ends the task, who then writes result
 *   and error and at last sets the outcome.  STARTED is set by the one that runs it.
 *   WAITERS says that somebody waits, or did.
 *
 *   Whoever sees an outcome may free the task.  The one that ends it does not touch it
 *   after setting the outcome, unless there are waiters; then it holds the lock, and
 *   whoever sees an outcome beside WAITERS takes the lock once before it goes on
 *   [leave].
 *
 *   A task that is ended while it is queued is taken out, so that its memory is free.  If
 *   a worker has just taken it out itself, that one sets the outcome: both add a bit
 *   (DEFERRED, and HANDED is taken away), and who comes second does it [defer].
 *   A worker that is to run it, or drops it, sets STARTED or CLAIMED in the same step in
 *   which it takes HANDED away: in between the task would be nobody's, and whoever ended
 *   it could free it.
 *
 * FAILURE  `error` is the first failure of a tree; a body's own comes last.
 *
 * ORDERING
 *   [outcome] Its release comes after result and error; who reads it, with acquire, sees
 *             them and all that was done before.
 *   [defer]   error and result come with DEFERRED, whose release heads what follows in
 *             this word, the outcome too: the worker that sets it reads none of them.  The
 *             one that ends the task acquires what the worker did with it, and released.
 *   [claim]   relaxed: it decides only who writes.
 *   [start]   acquire-release: who runs it sees what was done before it was handed over
 *             (the queues order that as well).
 *   [leave]   the lock's.
 *
 * LOCKS  a task's lock guards its waiters, `running` and `interrupt`; a leaf.
 */
#include "forkjoin/pool.h"
#include "forkjoin/task.h"

#include "future/executor.h"
#include "sync/interrupt.h"

/* ---- new --------------------------------------------------------------------------- */

static void dropped(spn_task *task, int reason);

void spn_fj_task_init(spn_fj_task *t, spn_fj_task_fn fn)
{
    if (t == NULL)
        return;
    *t = (spn_fj_task){ .task = SPN_TASK_INIT(spn__fj_run_by_executor, dropped),
                        .fn = fn };
    spn__init(spn__fj_result_of(t), NULL);
    spn__init(spn__fj_runner_of(t), NULL);
    spn__init(spn__fj_sequence_of(t), 0);
    spn__init(spn__fj_state_of(t), 0);
    spn__init(spn__fj_error_of(t), 0);
    spn__lock_init(spn__fj_lock_of(t));
    spn__waitq_init(spn__fj_waiters_of(t));
}

spn_fj_task *spn__fj_task_of(spn_task *task)
{
    return task->fn == spn__fj_run_by_executor ? (spn_fj_task *)(void *)task : NULL;
}

/* ---- the end ------------------------------------------------------------------------- */

uint32_t spn__fj_outcome_of(spn_fj_task *t)
{
    const uint32_t state = spn__load(spn__fj_state_of(t), acquire); /* [outcome] */

    if ((state & OUTCOME) != 0 && (state & WAITERS) != 0) {
        spn__lock(spn__fj_lock_of(t)); /* [leave] */
        spn__unlock(spn__fj_lock_of(t));
    }
    return state & OUTCOME;
}

bool spn__fj_task_done(spn_fj_task *t)
{
    /* relaxed: only whether; who looks reads nothing of it afterwards. */
    return (spn__load(spn__fj_state_of(t), relaxed) & OUTCOME) != 0;
}

/* True for the one that is to end the task. */
static bool claim(spn_fj_task *t)
{
    return (spn__fetch_or(spn__fj_state_of(t), CLAIMED, relaxed) & CLAIMED) ==
           0; /* [claim] */
}

/* Sets the outcome; the task may be gone afterwards. */
static void publish(spn_fj_task *t, uint32_t outcome)
{
    struct spn__chosen chosen = { NULL, NULL };
    uint32_t state = spn__load(spn__fj_state_of(t), relaxed); /* the swap tells */

    while ((state & WAITERS) == 0)
        if (spn__cas_weak(spn__fj_state_of(t), &state, state | outcome, release,
                          relaxed)) /* [outcome] */
            return;
    spn__lock(spn__fj_lock_of(t)); /* [leave] */
    /* [outcome] mutant: who sees it beside WAITERS takes the lock, as strong. */
    (void)spn__fetch_or(spn__fj_state_of(t), outcome, release);
    spn__waitq_choose_all(spn__fj_waiters_of(t), &chosen);
    spn__unlock(spn__fj_lock_of(t));
    spn__chosen_grant(&chosen);
}

/* Takes a task that is not wanted any more out of the pool's queues. */
static bool withdraw(spn_fj_task *t)
{
    struct spn_fj_pool *fj = t->home;
    bool removed;

    spn__pool_hold(fj->pool);
    spn__pool_hold(fj->pool);
    removed = spn__work_has(fj->pool, &t->task) && spn__work_remove(fj->pool, &t->task);
    if (removed)
        spn_task_release(&t->task);
    spn__pool_left_queue(fj->pool, &fj->pool->cancelled, removed);
    if (removed)
        spn__fj_settled(fj);
    spn__pool_left_queue(fj->pool, NULL, 0); /* it may end, and be gone, from here on */
    return removed;
}

/* The one that has claimed it, and written what is to be written, ends it. */
static void end(spn_fj_task *t, uint32_t outcome)
{
    /* [start] mutant: its home is plain, and only sanitizers see that. */
    uint32_t state = spn__load(spn__fj_state_of(t), acquire);

    spn__fj_let_go(t);
    if ((state & HANDED) != 0 && withdraw(t)) {
        /* relaxed: out of the queue it is nobody else's. */
        (void)spn__fetch_and(spn__fj_state_of(t), ~(uint32_t)HANDED, relaxed);
        publish(t, outcome);
        return;
    }
    if ((state & HANDED) != 0) {
        /* The outcome waits in the upper bits.
         * mutant: acquire: what the other did with the task is plain. */
        state = spn__fetch_or(spn__fj_state_of(t), DEFERRED | outcome << OUTCOME_SHIFT,
                              acq_rel); /* [defer] */
        if ((state & HANDED) != 0)
            return;
    }
    publish(t, outcome);
}

bool spn__fj_put_down(spn_fj_task *t)
{
    const uint32_t state =
        spn__fetch_and(spn__fj_state_of(t), ~(uint32_t)HANDED, release); /* [defer] */

    if ((state & DEFERRED) != 0)
        publish(t, state >> OUTCOME_SHIFT & OUTCOME);
    return (state & CLAIMED) == 0;
}

bool spn__fj_take_up(spn_fj_task *t, uint32_t as)
{
    uint32_t state = spn__load(spn__fj_state_of(t), relaxed), next; /* the swap tells */

    do {
        next = state & ~(uint32_t)HANDED;
        if ((state & (CLAIMED | STARTED)) == 0)
            next |= as;
    } while (!spn__cas_weak(spn__fj_state_of(t), &state, next, acq_rel, /* [defer] */
                            relaxed));                                  /* [start] */
    if ((state & DEFERRED) != 0)
        publish(t, state >> OUTCOME_SHIFT & OUTCOME);
    return (state & (CLAIMED | STARTED)) == 0;
}

bool spn__fj_task_end_normal(spn_fj_task *t)
{
    if (!claim(t))
        return false;
    end(t, NORMAL);
    return true;
}

bool spn__fj_task_end_failed(spn_fj_task *t, int error)
{
    if (!claim(t))
        return false;
    spn__store(spn__fj_result_of(t), NULL, relaxed); /* see spn__fj_result_of */
    spn__store(spn__fj_error_of(t), error != 0 ? error : SPN_EFAILED,
               relaxed); /* [outcome] */
    end(t, FAILED);
    return true;
}

int spn_fj_task_complete(spn_fj_task *t, void *result)
{
    if (t == NULL)
        return SPN_EINVAL;
    if (!claim(t))
        return 0;
    spn__store(spn__fj_result_of(t), result, relaxed); /* see spn__fj_result_of */
    end(t, NORMAL);
    return 1;
}

int spn_fj_task_complete_error(spn_fj_task *t, int error)
{
    return t == NULL ? SPN_EINVAL : spn__fj_task_end_failed(t, error);
}

/* Interrupts whoever runs it, while it does. */
static void interrupt_runner(spn_fj_task *t)
{
    const struct spn__fj_place *place;

    spn__lock(spn__fj_lock_of(t));
    if (t->running != 0) {
        place = spn__load(spn__fj_runner_of(t), relaxed); /* written under the lock */
        if (place->pool != NULL)
            spn__interrupt_set(spn__load(&place->worker->self, relaxed)); /* its end
                                                  waits for the lock */
        t->interrupt = 1;
    }
    spn__unlock(spn__fj_lock_of(t));
}

static void cancel_claimed(spn_fj_task *t, int interrupt)
{
    spn__store(spn__fj_result_of(t), NULL, relaxed);         /* see spn__fj_result_of */
    spn__store(spn__fj_error_of(t), SPN_ECANCELED, relaxed); /* [outcome] */
    if (interrupt != 0)
        interrupt_runner(t);
    end(t, CANCELLED);
}

int spn_fj_task_cancel(spn_fj_task *t, int interrupt)
{
    if (t == NULL)
        return SPN_EINVAL;
    if (!claim(t)) {
        /* It may be cancelled and wait for who has it [defer]. */
        const uint32_t state = spn__load(spn__fj_state_of(t), relaxed); /* its bits */

        return spn__fj_outcome_of(t) == CANCELLED ||
               ((state & DEFERRED) != 0 &&
                (state >> OUTCOME_SHIFT & OUTCOME) == CANCELLED);
    }
    cancel_claimed(t, interrupt);
    return 1;
}

void spn__fj_task_cancel_unstarted(spn_fj_task *t)
{
    uint32_t state = spn__load(spn__fj_state_of(t), relaxed); /* the swap tells */

    do {
        if ((state & (CLAIMED | STARTED)) != 0)
            return;
    } while (!spn__cas_weak(spn__fj_state_of(t), &state, state | CLAIMED, relaxed,
                            relaxed)); /* [claim] */
    cancel_claimed(t, 0);
}

static void dropped(spn_task *task, int reason)
{
    spn_fj_task *t = (spn_fj_task *)(void *)task;

    (void)reason;
    if (!spn__fj_take_up(t, CLAIMED)) /* it has ended, and may be gone */
        return;
    spn__store(spn__fj_result_of(t), NULL, relaxed);         /* see spn__fj_result_of */
    spn__store(spn__fj_error_of(t), SPN_ECANCELED, relaxed); /* [outcome] */
    end(t, CANCELLED);
}

/* ---- looking --------------------------------------------------------------------------- */

int spn_fj_task_error(spn_fj_task *t)
{
    if (t == NULL)
        return SPN_EINVAL;
    /* relaxed: [outcome] comes before it. */
    return spn__fj_outcome_of(t) > NORMAL ? spn__load(spn__fj_error_of(t), relaxed)
                                          : SPN_OK;
}

void *spn_fj_task_result(spn_fj_task *t)
{
    /* relaxed: see spn__fj_result_of. */
    return t == NULL || spn__fj_outcome_of(t) > NORMAL
               ? NULL
               : spn__load(spn__fj_result_of(t), relaxed);
}

void spn_fj_task_set_result(spn_fj_task *t, void *result)
{
    if (t != NULL)
        spn__store(spn__fj_result_of(t), result, relaxed); /* see spn__fj_result_of */
}

/* ---- failing --------------------------------------------------------------------------- */

static int job_status(spn_fj_task *job)
{
    if (job == NULL)
        return SPN_OK;
    if ((spn__load(spn__fj_state_of(job), relaxed) & OUTCOME) == CANCELLED) /* a hint */
        return SPN_ECANCELED;
    return spn__load(spn__fj_error_of(job), relaxed); /* a hint */
}

void spn_fj_fail(spn_fj fj, int status)
{
    spn_fj_task *job = fj != NULL ? spn__deque_of(fj)->frame->job : NULL;
    int32_t none = 0;

    /* relaxed: only which comes first; the tree's joins order it before its end. */
    if (job != NULL && status != 0)
        (void)spn__cas(spn__fj_error_of(job), &none, status, relaxed, relaxed);
}

int spn_fj_status(spn_fj fj)
{
    const struct spn__fj_place *place;
    int status;

    if (fj == NULL)
        return SPN_EINVAL;
    place = (const struct spn__fj_place *)(void *)spn__deque_of(fj);
    status = job_status(place->deque.frame->job);
    /* relaxed: a hint. */
    if (status == SPN_OK && place->pool != NULL &&
        spn__ctl_state(spn__load(&place->pool->pool->ctl, relaxed)) >=
            SPN_EXECUTOR_STOP)
        status = SPN_ESHUTDOWN;
    return status;
}
