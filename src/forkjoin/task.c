/* SPDX-License-Identifier: MIT */
/*
 * task.c - objects: tasks that are waited for, cancelled and completed by whoever knows
 * them.
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
 *
 * HELPING
 *   A worker that waits for an object runs it itself if it has not started.  If another
 *   worker runs it, it takes what was forked there since: the objects in that one's
 *   queue with a sequence from where that stood when the object began, as long as the
 *   object is not done.  For a worker runs nothing between but what descends from it.
 *   For completers it takes what has the awaited one above it.  Nothing else is ever
 *   run: it might want a lock that the waiter holds.  When there is nothing to help
 *   with it blocks, and the pool has another thread stand in for it.
 *
 * FAILURE  `error` is the first failure of a tree; a body's own comes last.
 *
 * ORDERING
 *   [outcome] Its release comes after result and error; who reads it, with acquire, sees
 *             them and all that was done before.
 *   [defer]   acquire-release, both: error and result come with DEFERRED, and who comes
 *             second is after all that the other did with the task.
 *   [claim]   relaxed: it decides only who writes.
 *   [start]   acquire-release: who runs it sees what was done before it was handed over
 *             (the queues order that as well).
 *   [leave]   the lock's.
 *
 * LOCKS  a task's lock guards its waiters, `running` and `interrupt`; a leaf.
 */
#include "forkjoin/pool.h"

#include "base/time.h"
#include "future/ambient.h"
#include "future/executor.h"
#include "sync/interrupt.h"

enum {
    NORMAL = 1,
    FAILED = 2,
    CANCELLED = 3,
    OUTCOME = 3,
    WAITERS = 4,
    STARTED = 8,
    CLAIMED = 16,
    HANDED = 32,   /* a queue has it, or who took it out                      */
    DEFERRED = 64, /* whoever has it is to set the outcome when it puts it down */
    HANDING = 128  /* somebody is about to hand it over                       */
};

enum { OUTCOME_SHIFT = 8 };

/* The words of the public struct, as what they are. */
typedef SPN__ATOMIC(uint32_t) state_word;
typedef SPN__ATOMIC(int32_t) error_word;
typedef SPN__ATOMIC(void *) result_word;
typedef SPN__ATOMIC(void *) runner_word;

_Static_assert(sizeof(struct spn__lock) == sizeof(uint32_t), "a task has room for it");
_Static_assert(sizeof(struct spn__waitq) == 2 * sizeof(void *), "and for its waiters");
_Static_assert(offsetof(spn_fj_task, task) == 0, "they are the same address");
_Static_assert(sizeof(spn_fj_task) <= 128, "two cache lines");

static state_word *state_of(spn_fj_task *t)
{
    return (state_word *)(void *)&t->state;
}
static error_word *error_of(spn_fj_task *t)
{
    return (error_word *)(void *)&t->error;
}
/* A body may set it while somebody else ends the task: atomic, and nothing comes with it
 * but the pointer.  relaxed everywhere: [outcome] comes after it. */
static result_word *result_of(spn_fj_task *t)
{
    return (result_word *)(void *)&t->result;
}
static runner_word *runner_of(spn_fj_task *t)
{
    return (runner_word *)(void *)&t->runner;
}
static spn__fj_sequence *sequence_of(spn_fj_task *t)
{
    return (spn__fj_sequence *)(void *)&t->sequence;
}
static struct spn__lock *lock_of(spn_fj_task *t)
{
    return (struct spn__lock *)(void *)&t->lock;
}
static struct spn__waitq *waiters_of(spn_fj_task *t)
{
    return (struct spn__waitq *)(void *)t->waiters;
}

/* ---- new --------------------------------------------------------------------------- */

static int run_by_executor(spn_task *task);
static void dropped(spn_task *task, int reason);

static void be_new(spn_fj_task *t)
{
    spn__init(result_of(t), NULL);
    spn__init(runner_of(t), NULL);
    spn__init(sequence_of(t), 0);
    spn__init(state_of(t), 0);
    spn__init(error_of(t), 0);
    spn__lock_init(lock_of(t));
    spn__waitq_init(waiters_of(t));
    t->interrupt = 0;
}

void spn_fj_task_init(spn_fj_task *t, spn_fj_task_fn fn)
{
    if (t == NULL)
        return;
    *t = (spn_fj_task){ .task = SPN_TASK_INIT(run_by_executor, dropped), .fn = fn };
    be_new(t);
}

spn_fj_task *spn__fj_task_of(spn_task *task)
{
    return task->fn == run_by_executor ? (spn_fj_task *)(void *)task : NULL;
}

int spn_fj_task_reinit(spn_fj_task *t)
{
    if (t == NULL)
        return SPN_EINVAL;
    if (spn__load(spn__task_queued(&t->task), relaxed) != 0) /* as good as any moment */
        return SPN_EBUSY;
    be_new(t);
    return SPN_OK;
}

/* ---- the end ------------------------------------------------------------------------- */

/* 0, or the outcome; the task may be freed then [leave]. */
static uint32_t outcome_of(spn_fj_task *t)
{
    const uint32_t state = spn__load(state_of(t), acquire); /* [outcome] */

    if ((state & OUTCOME) != 0 && (state & WAITERS) != 0) {
        spn__lock(lock_of(t)); /* [leave] */
        spn__unlock(lock_of(t));
    }
    return state & OUTCOME;
}

bool spn__fj_task_done(spn_fj_task *t)
{
    return (spn__load(state_of(t), acquire) & OUTCOME) != 0; /* [outcome] */
}

/* True for the one that is to end the task. */
static bool claim(spn_fj_task *t)
{
    return (spn__fetch_or(state_of(t), CLAIMED, relaxed) & CLAIMED) == 0; /* [claim] */
}

/* Sets the outcome; the task may be gone afterwards. */
static void publish(spn_fj_task *t, uint32_t outcome)
{
    struct spn__chosen chosen = { NULL, NULL };
    uint32_t state = spn__load(state_of(t), relaxed); /* the swap tells */

    while ((state & WAITERS) == 0)
        if (spn__cas_weak(state_of(t), &state, state | outcome, release,
                          relaxed)) /* [outcome] */
            return;
    spn__lock(lock_of(t));                              /* [leave] */
    (void)spn__fetch_or(state_of(t), outcome, release); /* [outcome] */
    spn__waitq_choose_all(waiters_of(t), &chosen);
    spn__unlock(lock_of(t));
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

/* If the calling thread is in the task's body: it does not touch the task from here on,
 * for that may be freed when it is done. */
static void let_go(spn_fj_task *t);

/* The one that has claimed it, and written what is to be written, ends it. */
static void end(spn_fj_task *t, uint32_t outcome)
{
    uint32_t state = spn__load(state_of(t), acquire); /* [start] its home */

    let_go(t);
    if ((state & HANDED) != 0 && withdraw(t)) {
        /* relaxed: out of the queue it is nobody else's. */
        (void)spn__fetch_and(state_of(t), ~(uint32_t)HANDED, relaxed);
        publish(t, outcome);
        return;
    }
    if ((state & HANDED) != 0) {
        /* The outcome waits in the upper bits. */
        state = spn__fetch_or(state_of(t), DEFERRED | outcome << OUTCOME_SHIFT,
                              acq_rel); /* [defer] */
        if ((state & HANDED) != 0)
            return;
    }
    publish(t, outcome);
}

/* The task has left the queues, to be run or not: false, it is not to be run. */
static bool put_down(spn_fj_task *t)
{
    const uint32_t state =
        spn__fetch_and(state_of(t), ~(uint32_t)HANDED, acq_rel); /* [defer] */

    if ((state & DEFERRED) != 0)
        publish(t, state >> OUTCOME_SHIFT & OUTCOME);
    return (state & CLAIMED) == 0;
}

/* Before it is handed to a pool; false: somebody else does, or has. */
static bool hand(spn_fj_task *t, struct spn_fj_pool *fj)
{
    /* acquire: who had it before is done with its home [defer]. */
    const uint32_t state = spn__fetch_or(state_of(t), HANDING, acquire);

    if ((state & HANDING) != 0)
        return false;
    if ((state & HANDED) != 0) {
        (void)spn__fetch_and(state_of(t), ~(uint32_t)HANDING, relaxed); /* untouched */
        return false;
    }
    t->home = fj;
    /* The one bit for the other.  [start] with its home */
    (void)spn__fetch_sub(state_of(t), HANDING - HANDED, release);
    return true;
}

/* It was refused, or given back. */
static void unhand(spn_fj_task *t)
{
    (void)put_down(t);
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
    spn__store(result_of(t), NULL, relaxed); /* see result_of */
    spn__store(error_of(t), error != 0 ? error : SPN_EFAILED, relaxed); /* [outcome] */
    end(t, FAILED);
    return true;
}

int spn__fj_task_failure(spn_fj_task *t)
{
    /* relaxed, both: the tree's joins, or a pending count, come before; who ends it
     * meanwhile wins, or loses to the caller's claim. */
    const int error = spn__load(error_of(t), relaxed);

    return (spn__load(state_of(t), relaxed) & CLAIMED) != 0 ? 0 : error;
}

int spn_fj_task_complete(spn_fj_task *t, void *result)
{
    if (t == NULL)
        return SPN_EINVAL;
    if (!claim(t))
        return 0;
    spn__store(result_of(t), result, relaxed); /* see result_of */
    end(t, NORMAL);
    return 1;
}

int spn_fj_task_complete_error(spn_fj_task *t, int error)
{
    return t == NULL ? SPN_EINVAL : spn__fj_task_end_failed(t, error);
}

int spn_fj_task_quietly_complete(spn_fj_task *t)
{
    return t == NULL ? SPN_EINVAL : spn__fj_task_end_normal(t);
}

/* Interrupts whoever runs it, while it does. */
static void interrupt_runner(spn_fj_task *t)
{
    const struct spn__fj_place *place;

    spn__lock(lock_of(t));
    if (t->running != 0) {
        place = spn__load(runner_of(t), relaxed); /* written under the lock */
        if (place->pool != NULL)
            spn__interrupt_set(spn__load(&place->worker->self, relaxed)); /* its end
                                                  waits for the lock */
        t->interrupt = 1;
    }
    spn__unlock(lock_of(t));
}

int spn_fj_task_cancel(spn_fj_task *t, int interrupt)
{
    if (t == NULL)
        return SPN_EINVAL;
    if (!claim(t)) {
        /* It may be cancelled and wait for who has it [defer]. */
        const uint32_t state = spn__load(state_of(t), acquire);

        return outcome_of(t) == CANCELLED ||
               ((state & DEFERRED) != 0 &&
                (state >> OUTCOME_SHIFT & OUTCOME) == CANCELLED);
    }
    spn__store(result_of(t), NULL, relaxed);         /* see result_of */
    spn__store(error_of(t), SPN_ECANCELED, relaxed); /* [outcome] */
    if (interrupt != 0)
        interrupt_runner(t);
    end(t, CANCELLED);
    return 1;
}

static void dropped(spn_task *task, int reason)
{
    spn_fj_task *t = (spn_fj_task *)(void *)task;

    (void)reason;
    if (!put_down(t) || !claim(t)) /* it has ended, and may be gone */
        return;
    spn__store(result_of(t), NULL, relaxed);         /* see result_of */
    spn__store(error_of(t), SPN_ECANCELED, relaxed); /* [outcome] */
    /* Those above count on it.  First them: who knows that all children are done may
     * free the parent. */
    if ((t->flags & SPN__FJ_COMPLETER) != 0)
        spn_fj_completer_complete_error(((spn_fj_completer *)(void *)t)->parent,
                                        SPN_ECANCELED);
    end(t, CANCELLED);
}

/* ---- looking --------------------------------------------------------------------------- */

int spn_fj_task_is_done(spn_fj_task *t)
{
    return t == NULL ? SPN_EINVAL : outcome_of(t) != 0;
}

int spn_fj_task_is_normal(spn_fj_task *t)
{
    return t == NULL ? SPN_EINVAL : outcome_of(t) == NORMAL;
}

int spn_fj_task_is_abnormal(spn_fj_task *t)
{
    return t == NULL ? SPN_EINVAL : outcome_of(t) > NORMAL;
}

int spn_fj_task_is_cancelled(spn_fj_task *t)
{
    return t == NULL ? SPN_EINVAL : outcome_of(t) == CANCELLED;
}

int spn_fj_task_error(spn_fj_task *t)
{
    if (t == NULL)
        return SPN_EINVAL;
    /* relaxed: [outcome] comes before it. */
    return outcome_of(t) > NORMAL ? spn__load(error_of(t), relaxed) : SPN_OK;
}

void *spn_fj_task_result(spn_fj_task *t)
{
    /* relaxed: see result_of. */
    return t == NULL || outcome_of(t) > NORMAL ? NULL
                                               : spn__load(result_of(t), relaxed);
}

void spn_fj_task_set_result(spn_fj_task *t, void *result)
{
    if (t != NULL)
        spn__store(result_of(t), result, relaxed); /* see result_of */
}

/* ---- failing --------------------------------------------------------------------------- */

void spn__fj_job_fail(spn_fj_task *job, int status)
{
    int32_t none = 0;

    /* relaxed: only which comes first; the tree's joins order it before its end. */
    if (job != NULL && status != 0)
        (void)spn__cas(error_of(job), &none, status, relaxed, relaxed);
}

int spn__fj_job_status(spn_fj_task *job)
{
    if (job == NULL)
        return SPN_OK;
    if ((spn__load(state_of(job), relaxed) & OUTCOME) == CANCELLED) /* a hint */
        return SPN_ECANCELED;
    return spn__load(error_of(job), relaxed); /* a hint */
}

void spn_fj_fail(spn_fj fj, int status)
{
    if (fj != NULL)
        spn__fj_job_fail(spn__deque_of(fj)->frame->job, status);
}

void spn_fj_too_deep(spn_fj fj)
{
    if (fj != NULL)
        spn__fj_job_fail(spn__deque_of(fj)->frame->job, SPN_ENOMEM);
}

int spn_fj_status(spn_fj fj)
{
    const struct spn__fj_place *place;
    int status;

    if (fj == NULL)
        return SPN_EINVAL;
    place = (const struct spn__fj_place *)(void *)spn__deque_of(fj);
    status = spn__fj_job_status(place->deque.frame->job);
    /* relaxed: a hint. */
    if (status == SPN_OK && place->pool != NULL &&
        spn__ctl_state(spn__load(&place->pool->pool->ctl, relaxed)) >=
            SPN_EXECUTOR_STOP)
        status = SPN_ESHUTDOWN;
    return status;
}

void spn_fj_plain_run(spn_fj fj, spn_fj_record *self)
{
    struct spn__fj_plain *plain;

    if (fj == NULL || self == NULL)
        return;
    plain = (struct spn__fj_plain *)(void *)self->args.bytes;
    plain->status = spn_fj_call(fj, plain->fn, plain->arg);
}

/* ---- running ----------------------------------------------------------------------------- */

struct run {
    struct spn__fj_place *place;
    spn_fj_task *task;
    struct spn__nested nested;
    struct run *outer; /* what the same thread runs it in */
    bool entered, returned;
    bool gone;      /* its body has ended it: it is not touched any more */
    bool completer; /* gone, perhaps, once its body has returned 0 */
};

/* It no longer runs: no interrupt is meant for it from here on. */
static void stop_running(struct run *r)
{
    spn_fj_task *t = r->task;
    bool interrupted;

    spn__lock(lock_of(t));
    t->running = 0;
    interrupted = t->interrupt != 0;
    t->interrupt = 0;
    spn__unlock(lock_of(t));
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
    if (!r->completer && !r->gone)
        stop_running(r);
}

/* Follows the body also when it ended its thread. */
static void run_ended(void *arg)
{
    struct run *r = arg;

    if (r->returned)
        return;
    if (r->entered)
        spn__deque_abandon(&r->place->deque, &r->nested);
    leave(r);
    if (r->gone)
        return;
    if (r->completer)
        spn_fj_completer_complete_error((spn_fj_completer *)(void *)r->task,
                                        SPN_ECANCELED);
    else
        (void)spn__fj_task_end_failed(r->task, SPN_ECANCELED);
}

/* What the body said, and what became of its tree. */
static void conclude(spn_fj_task *t, int status, bool completer)
{
    int error = status == SPN_FJ_PENDING ? 0 : status;

    if (completer) {
        if (error != 0)
            spn_fj_completer_complete_error((spn_fj_completer *)(void *)t, error);
        return;
    }
    if (error == 0)
        error = spn__load(error_of(t), relaxed); /* its tree has ended */
    if (error != 0) {
        (void)spn__fj_task_end_failed(t, error);
    } else if (status != SPN_FJ_PENDING) {
        (void)spn__fj_task_end_normal(t);
    }
}

static void let_go(spn_fj_task *t)
{
    /* relaxed: if it is the caller's own place the caller wrote it, and `running`. */
    struct spn__fj_place *place = spn__load(runner_of(t), relaxed);
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
    uint32_t state = spn__load(state_of(t), relaxed); /* the swap tells */

    do {
        if ((state & (CLAIMED | STARTED)) != 0)
            return false;
    } while (!spn__cas_weak(state_of(t), &state, state | STARTED, acq_rel, /* [start] */
                            relaxed));
    return true;
}

void spn__fj_task_run(struct spn__fj_place *place, spn_fj_task *t)
{
    struct run r = { .place = place,
                     .task = t,
                     .completer = (t->flags & SPN__FJ_COMPLETER) != 0 };
    int status = SPN_ENOMEM;
    spn_fj fj;

    if (t->fn == NULL || !start(t))
        return;
    spn__lock(lock_of(t));
    spn__store(runner_of(t), place, relaxed); /* under the lock, or read as a hint */
    t->running = !r.completer;
    spn__unlock(lock_of(t));
    /* relaxed: read by who sees STARTED and the runner, and checked again. */
    spn__lock(&place->queue.lock);
    spn__store(sequence_of(t), place->queue.sequence, relaxed);
    spn__unlock(&place->queue.lock);
    arrive(&r);
    fj = spn__deque_enter(&place->deque, &r.nested, t);
    if (fj != NULL && spn__fj_deep(fj)) { /* a body needs room, as a record's does */
        spn__deque_leave(&place->deque, &r.nested);
        fj = NULL;
    }
    if (fj != NULL) {
        r.entered = true;
        SPN__CLEANUP_PUSH(run_ended, &r);
        status = t->fn(fj, t);
        r.returned = true;
        SPN__CLEANUP_POP();
        spn__deque_leave(&place->deque, &r.nested);
    }
    leave(&r);
    if (!r.gone)
        conclude(t, status, r.completer);
}

static int run_by_executor(spn_task *task)
{
    spn_fj_task *t = (spn_fj_task *)(void *)task;
    struct spn__fj_place *place = spn__fj_place_current();

    if (!put_down(t))
        return 0; /* it has ended, and may be gone */
    if (place != NULL)
        spn__fj_task_run(place, t);
    else
        (void)spn_fj_task_invoke(t); /* somebody got it back and runs it by hand */
    return 0;
}

void spn__fj_run_queued(struct spn__fj_place *place, spn_task *task)
{
    int status;

    place->held++;
    spn_task_release(task);
    status = spn__task_run_here(task); /* the node may be gone now */
    place->held--;
    spn__worker_count(place->worker, status);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Blocks until it is done: SPN_OK, SPN_ETIMEDOUT, SPN_EINTR, SPN_ENOMEM. */
static int sleep_for(spn_fj_task *t, int64_t deadline_ns, bool interruptible)
{
    struct spn_thread *self = spn__thread_self();
    bool interrupted = false;
    int rc = SPN_OK;

    if (self == NULL && interruptible)
        return SPN_ENOMEM;
    if (self == NULL) { /* whoever joins must not come back early: it looks */
        while ((spn__load(state_of(t), acquire) & OUTCOME) == 0) { /* [outcome] */
            if (deadline_ns != SPN_FOREVER && spn__now() >= deadline_ns)
                return SPN_ETIMEDOUT;
            spn__os_yield();
        }
        return SPN_OK;
    }
    for (;;) {
        struct spn__waiter w;

        spn__lock(lock_of(t));
        /* relaxed: with the lock held; [outcome] is read again below. */
        if ((spn__fetch_or(state_of(t), WAITERS, relaxed) & OUTCOME) != 0) {
            spn__unlock(lock_of(t));
            rc = SPN_OK;
            break;
        }
        spn__waitq_add(waiters_of(t), &w, self);
        spn__unlock(lock_of(t));
        rc = spn__waitq_wait(&w, lock_of(t), deadline_ns);
        if (rc == SPN_OK)
            break;
        spn__unlock(lock_of(t));
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

    return t != NULL && !spn__fj_task_done(d->root) &&
           spn__load(sequence_of(t), relaxed) >= d->from; /* under the lock */
}

static bool has_above(spn_task *task, void *ctx)
{
    spn_fj_task *t = spn__fj_task_of(task);

    return t != NULL && spn__fj_descends(t, ctx);
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
    } else if ((t->flags & SPN__FJ_COMPLETER) != 0) {
        task = spn__fj_queue_take_if(place, has_above, t);
        /* [places] acquire */
        for (struct spn__fj_place *p = spn__load(&fj->places, acquire);
             p != NULL && task == NULL; p = spn__load(&p->next, acquire))
            task = spn__fj_queue_take_if(p, has_above, t);
    } else if ((spn__load(state_of(t), acquire) & STARTED) != 0) { /* [start] */
        runner = spn__load(runner_of(t), relaxed);                 /* hints, for: */
        d.from = spn__load(sequence_of(t), relaxed);
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

    if (outcome_of(t) != 0)
        return SPN_OK;
    if (timeout_ns <= 0)
        return SPN_ETIMEDOUT;
    if (timeout_ns != SPN_FOREVER)
        deadline_ns = spn__deadline(spn__now(), timeout_ns);
    if (place == NULL || place->pool == NULL) {
        spn_pool_block_begin(); /* a worker of another pool, perhaps */
        rc = sleep_for(t, deadline_ns, interruptible);
        spn_pool_block_end();
    } else {
        for (int looks = 0; looks < LOOKS && outcome_of(t) == 0;) {
            if (deadline_ns == SPN_FOREVER && help(place, t)) {
                looks = 0;
                continue;
            }
            looks++;
            spn__cpu_relax();
        }
        rc = SPN_OK;
        if (outcome_of(t) == 0) {
            place->deque.ops->block(&place->deque);
            rc = sleep_for(t, deadline_ns, interruptible);
            place->deque.ops->unblock(&place->deque);
        }
    }
    if (rc == SPN_OK)
        (void)outcome_of(t); /* [outcome] [leave] */
    return rc;
}

int spn_fj_task_wait(spn_fj_task *t, int64_t timeout_ns)
{
    return t == NULL ? SPN_EINVAL : await(t, timeout_ns, true);
}

int spn_fj_task_wait_uninterruptible(spn_fj_task *t, int64_t timeout_ns)
{
    return t == NULL ? SPN_EINVAL : await(t, timeout_ns, false);
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
    switch (outcome_of(t)) {
    case NORMAL:
        if (result != NULL)
            *result = spn__load(result_of(t), relaxed); /* see result_of */
        return SPN_OK;
    case CANCELLED:
        return SPN_ECANCELED;
    default:
        return SPN_EFAILED;
    }
}

/* ---- handing over ----------------------------------------------------------------------------- */

/* Through one of the thread pool's doors; on failure it is as before. */
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
        unhand(t);
    return rc;
}

static int push_outside(struct spn_fj_pool *fj, spn_task *task)
{
    return spn__pool_execute(fj->pool, task);
}

static int push_anywhere(struct spn_fj_pool *fj, spn_task *task)
{
    return spn_executor_execute(&fj->pool->executor, task);
}

static int submit(struct spn_fj_pool *fj, spn_fj_task *t)
{
    return submit_by(fj, t, push_outside);
}

int spn_fj_pool_submit_external(spn_fj_pool *fj, spn_fj_task *t)
{
    return fj == NULL || t == NULL ? SPN_EINVAL : submit(fj, t);
}

int spn_fj_pool_submit(spn_fj_pool *fj, spn_fj_task *t)
{
    if (fj == NULL || t == NULL)
        return SPN_EINVAL;
    return submit_by(fj, t, push_anywhere);
}

static int push_lazily(struct spn_fj_pool *fj, spn_task *task)
{
    int rc = spn_task_claim(task);

    if (rc != SPN_OK)
        return rc;
    rc = spn__work_push(fj->pool, task);
    if (rc == SPN_OK)
        return SPN_OK;
    spn_task_release(task);
    /* Without a worker nobody would come by: as any other. */
    return rc == SPN_EAGAIN ? push_outside(fj, task) : SPN_EREJECTED;
}

int spn_fj_pool_submit_lazily(spn_fj_pool *fj, spn_fj_task *t)
{
    return fj == NULL || t == NULL ? SPN_EINVAL : submit_by(fj, t, push_lazily);
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

bool spn__fj_task_given_back(spn_fj_task *t)
{
    return put_down(t);
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
                conclude(t, SPN_ENOMEM, (t->flags & SPN__FJ_COMPLETER) != 0);
            return;
        }
    }
    spn__fj_task_run(place, t);
    if (alone != NULL)
        spn__fj_place_free(alone);
}

int spn_fj_task_invoke(spn_fj_task *t)
{
    if (t == NULL)
        return SPN_EINVAL;
    if (outcome_of(t) == 0 && spn__load(spn__task_queued(&t->task), relaxed) == 0)
        run_here(t); /* relaxed: where it is queued is found out by join */
    return spn_fj_task_join(t);
}

int spn_fj_pool_invoke(spn_fj_pool *fj, spn_fj_task *t)
{
    struct spn__fj_place *place = spn__fj_place_current();
    int rc;

    if (fj == NULL || t == NULL)
        return SPN_EINVAL;
    if (place != NULL && place->pool == fj)
        return spn_fj_task_invoke(t);
    rc = submit(fj, t);
    return rc != SPN_OK ? rc : spn_fj_task_join(t);
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

        if (rc != SPN_OK)
            (void)spn_fj_task_cancel(tasks[i], 0);
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
    struct root r = { .fn = fn, .arg = arg };
    int rc;

    if (fj == NULL || fn == NULL)
        return SPN_EINVAL;
    spn_fj_task_init(&r.task, run_root);
    rc = spn_fj_pool_invoke(fj, &r.task);
    if (rc != SPN_OK)
        (void)spn_fj_task_cancel(&r.task, 0); /* if it was refused: nobody has it */
    return rc != SPN_OK ? rc : r.status;
}
