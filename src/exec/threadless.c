/* SPDX-License-Identifier: MIT */
/*
 * threadless.c - a thread that waits for an answer runs what brings it.
 *
 * OVERVIEW
 *   `waiting` says where a task goes: to the queue, or to the shared executor.  It is
 *   true from the beginning, so that tasks that come before the thread waits are its
 *   too, and ends once, under the lock, together with what is then in the queue: the
 *   thread that ends it takes the whole queue along.  So a task is never left in a
 *   queue that nobody will look at again.
 *
 * STATES of the wait
 *   waiting, nobody inside  ->  a thread inside   wait_and_drain
 *   -> over, and tasks run                        the queue was not empty
 *   -> over                                       future done, notify_return,
 *                                                 shutdown, timeout, interrupt
 *   `finished` is over and drained: a later call returns at once.
 *
 * THE FUTURE
 *   An edge leads here from the waiting future, and ends the wait when it has an
 *   outcome.  The completer may still be on its way when destroy is called: it has
 *   a reference of its own to the object.
 *
 * ORDERING
 *   [refs] each drop is a release and the last an acquire: all use of the object lies
 *          before its end.
 *
 * LOCKS  `lock` guards all but what is fixed; a leaf.  Neither tasks nor the shared
 *   executor nor futures are called with it held.
 *
 * WHY NOT the first task under the lock, which makes later ones wait for the hand-over
 *   (as Dubbo did)?  It runs a stranger's code in a lock for nothing: what counts is
 *   the moment in which `waiting` ends.
 */
#include <spindle/threadless.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "future/ambient.h"
#include "future/core.h"
#include "exec/work.h"
#include "future/executor.h"
#include "sync/interrupt.h"
#include "sync/waitq.h"

struct spn_threadless {
    struct spn_executor executor; /* first: they are the same object */
    spn_executor *shared;         /* fixed; may be NULL */
    SPN__ATOMIC(uint32_t) refs;   /* the owner, and the edge while it is on */
    struct spn__lock lock;        /* guards the rest */
    struct spn__list tasks;       /* each by its `link` */
    struct spn__waitq waiter;     /* the thread that waits, asleep */
    struct spn__waitq awaiting;   /* the end */
    uint32_t state;               /* spn_executor_state */
    bool waiting;                 /* see above; ends once */
    bool inside;                  /* a thread is in wait_and_drain */
    bool notified;                /* the wait is to end */
    uint32_t busy;                /* tasks being run or given away by us */
    uint32_t handing;             /* calls of the shared executor under way */
    struct spn_future *future;    /* a reference, or NULL; set once */
    struct spn__edge edge;
};

static struct spn_threadless *threadless_of(spn_executor *executor)
{
    return (struct spn_threadless *)(void *)executor;
}

static void unref(struct spn_threadless *t)
{
    if (spn__fetch_sub(&t->refs, 1, acq_rel) == 1) /* [refs] */
        spn__free(t);
}

/* ---- the end ----------------------------------------------------------------------- */

/* With the lock held: terminated, if asked for and nothing is left. */
static void try_end(struct spn_threadless *t, struct spn__chosen *chosen)
{
    if (t->state == SPN_EXECUTOR_RUNNING || !spn__list_empty(&t->tasks) ||
        t->busy != 0 || t->handing != 0)
        return;
    t->state = SPN_EXECUTOR_TERMINATED;
    spn__waitq_choose_all(&t->awaiting, chosen);
}

/* One less is busy. */
static void let_end(struct spn_threadless *t, uint32_t *counter)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&t->lock);
    (*counter)--;
    try_end(t, &chosen);
    spn__unlock(&t->lock);
    spn__chosen_grant(&chosen);
}

/* Ends the wait, if there is one. */
static void wake(struct spn_threadless *t)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&t->lock);
    t->notified = true;
    spn__waitq_choose_all(&t->waiter, &chosen);
    spn__unlock(&t->lock);
    spn__chosen_grant(&chosen);
}

/* The reference to the future, to be dropped; NULL if there is none. */
static struct spn_future *borrow_future(struct spn_threadless *t)
{
    struct spn_future *f;

    spn__lock(&t->lock);
    f = t->future != NULL ? spn__future_ref(t->future) : NULL;
    spn__unlock(&t->lock);
    return f;
}

static int fail_future(struct spn_threadless *t, int code, const char *message)
{
    struct spn_future *f = borrow_future(t);
    int rc = 0;

    if (f != NULL) {
        rc = spn_future_complete_error(f, code, message);
        spn_future_unref(f);
    }
    return rc;
}

/* ---- tasks -------------------------------------------------------------------------- */

static int execute(spn_executor *executor, spn_task *task)
{
    struct spn_threadless *t = threadless_of(executor);
    struct spn__chosen chosen = { NULL, NULL };
    bool shared = false;
    int rc = SPN_EREJECTED;

    spn__lock(&t->lock);
    if (t->state == SPN_EXECUTOR_RUNNING && t->waiting) {
        rc = spn_task_claim(task);
        if (rc == SPN_OK) {
            spn__job_capture(task);
            spn__list_push_back(&t->tasks, spn__task_node(task));
            spn__waitq_choose_all(&t->waiter, &chosen);
        }
    } else if (t->state == SPN_EXECUTOR_RUNNING && t->shared != NULL) {
        shared = true;
        t->handing++; /* it must not end under us */
    }
    spn__unlock(&t->lock);
    spn__chosen_grant(&chosen);
    if (shared) {
        rc = spn_executor_execute(t->shared, task);
        let_end(t, &t->handing);
    }
    return rc;
}

/* The next task, to be run or given away: counted as busy, and still claimed.  NULL: none
 * is left. */
static spn_task *take(struct spn_threadless *t)
{
    struct spn__list_node *node;

    spn__lock(&t->lock);
    node = spn__list_pop_front(&t->tasks);
    if (node != NULL)
        t->busy++;
    spn__unlock(&t->lock);
    return node != NULL ? spn__node_task(node) : NULL;
}

/* Takes a task off that waits here; false: it does not. */
static bool take_off(spn_executor *executor, spn_task *task)
{
    struct spn_threadless *t = threadless_of(executor);
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__list_node *node;
    bool found = false;

    spn__lock(&t->lock);
    spn__list_each (node, &t->tasks) {
        found = spn__node_task(node) == task;
        if (found)
            break;
    }
    if (found) {
        spn__list_remove(node);
        try_end(t, &chosen);
    }
    spn__unlock(&t->lock);
    spn__chosen_grant(&chosen);
    return found;
}

static int remove_task(spn_executor *executor, spn_task *task)
{
    if (!take_off(executor, task))
        return 0;
    spn__job_forget(task);
    spn__task_given_back(task);
    spn_task_release(task);
    return SPN__GIVEN_BACK;
}

/* ---- the wait ------------------------------------------------------------------------ */

static void run_one(struct spn_threadless *t, spn_task *task)
{
    const int rc = spn__task_run_claimed(task);

    let_end(t, &t->busy);
    if (rc != 0)
        spn__log(SPN_LOG_WARN, "threadless executor: a task failed with %d (%s)", rc,
                 spn_status_name(rc));
}

static void drain(struct spn_threadless *t)
{
    spn_executor_frame frame;
    const bool entered = spn_executor_enter(&t->executor, &frame) == SPN_OK;
    spn_task *task;
    bool stopped;

    while ((task = take(t)) != NULL)
        run_one(t, task);
    if (entered)
        (void)spn_executor_leave(&frame);
    spn__lock(&t->lock);
    stopped = t->state != SPN_EXECUTOR_RUNNING;
    spn__unlock(&t->lock);
    /* None of the tasks has done it. */
    if (stopped)
        (void)fail_future(t, SPN_ESHUTDOWN, "the executor is shut down");
    spn__lock(&t->lock);
    t->inside = false;
    spn__unlock(&t->lock);
}

/* With the lock held: whether a thread that waits has something to return for. */
static bool wait_is_over(const struct spn_threadless *t)
{
    return !spn__list_empty(&t->tasks) || t->notified ||
           t->state != SPN_EXECUTOR_RUNNING;
}

int spn_threadless_wait_and_drain(spn_threadless *t, int64_t timeout_ns)
{
    const int64_t deadline_ns = spn__deadline(spn__now(), timeout_ns);
    struct spn_thread *self;
    struct spn__waiter w;
    bool stopped, tasks;
    int rc = SPN_OK;

    if (t == NULL || timeout_ns == SPN_FOREVER)
        return SPN_EINVAL;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    if (spn__thread_is_inside(self, &t->executor))
        return SPN_EDEADLK;
    spn__lock(&t->lock);
    if (t->inside || !t->waiting) {
        rc = t->inside ? SPN_EBUSY : SPN_OK; /* finished */
        spn__unlock(&t->lock);
        return rc;
    }
    t->inside = true;
    if (!wait_is_over(t) && timeout_ns <= 0) {
        rc = SPN_ETIMEDOUT;
    } else if (!wait_is_over(t)) {
        spn__waitq_add(&t->waiter, &w, self);
        spn__unlock(&t->lock);
        rc = spn__waitq_wait(&w, &t->lock, deadline_ns);
        if (rc == SPN_OK)
            spn__lock(&t->lock);
    }
    /* From here on later tasks go to the shared executor; what is queued is ours. */
    t->waiting = false;
    tasks = !spn__list_empty(&t->tasks);
    stopped = t->state != SPN_EXECUTOR_RUNNING;
    if (!tasks)
        t->inside = false;
    spn__unlock(&t->lock);
    if (!tasks)
        return rc == SPN_OK && stopped ? SPN_ESHUTDOWN : rc;
    if (rc == SPN_EINTR)
        spn__interrupt_set(self); /* there is something to do first */
    drain(t);
    return SPN_OK;
}

int spn_threadless_notify_return(spn_threadless *t, int code, const char *message)
{
    int rc;

    if (t == NULL || code == 0)
        return SPN_EINVAL;
    rc = fail_future(t, code, message);
    wake(t);
    return rc;
}

/* ---- the future ---------------------------------------------------------------------- */

/* It is done; or it was when the edge should have been added. */
static void fire(struct spn__edge *edge, struct spn_future *source,
                 struct spn__work *work)
{
    struct spn_threadless *t = edge->owner;

    (void)source;
    (void)work;
    wake(t);
    unref(t);
}

int spn_threadless_set_future(spn_threadless *t, spn_future *future)
{
    bool first;

    if (t == NULL || future == NULL)
        return SPN_EINVAL;
    spn__lock(&t->lock);
    first = t->future == NULL;
    if (first)
        t->future = spn__future_ref(future);
    spn__unlock(&t->lock);
    if (!first)
        return SPN_ESTATE;
    (void)spn__fetch_add(&t->refs, 1, relaxed); /* the edge's: the owner has one */
    if (!spn__edge_add(&t->edge, future))
        fire(&t->edge, future, NULL);
    return SPN_OK;
}

/* ---- shutdown ------------------------------------------------------------------------- */

/* Refuses tasks from now on and ends the wait.  The future fails at once if no task can
 * bring its outcome any more, else after the drain. */
static void stop(struct spn_threadless *t, uint32_t state)
{
    struct spn__chosen chosen = { NULL, NULL };
    bool idle;

    spn__lock(&t->lock);
    if (t->state < state)
        t->state = state;
    spn__waitq_choose_all(&t->waiter, &chosen);
    idle = spn__list_empty(&t->tasks) && t->busy == 0;
    try_end(t, &chosen);
    spn__unlock(&t->lock);
    spn__chosen_grant(&chosen);
    if (idle)
        (void)fail_future(t, SPN_ESHUTDOWN, "the executor is shut down");
}

static int shut_down(spn_executor *executor)
{
    stop(threadless_of(executor), SPN_EXECUTOR_SHUTDOWN);
    return SPN_OK;
}

static int shut_down_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                         int64_t *count)
{
    struct spn_threadless *t = threadless_of(executor);
    int64_t returned = 0;
    spn_task *task;

    spn__unrun_unwrap(&unrun, &ctx);
    stop(t, SPN_EXECUTOR_STOP);
    for (; (task = take(t)) != NULL; returned++) {
        if (unrun != NULL)
            spn__task_give_back(task, unrun, ctx);
        else
            spn__task_discard(task, SPN_ESHUTDOWN);
        let_end(t, &t->busy);
    }
    if (returned > 0)
        (void)fail_future(t, SPN_ESHUTDOWN, "the executor is shut down");
    if (count != NULL)
        *count = returned;
    return SPN_OK;
}

static int await_end(spn_executor *executor, int64_t timeout_ns)
{
    struct spn_threadless *t = threadless_of(executor);
    struct spn_thread *self = spn__thread_self();
    struct spn__waiter w;
    int rc = SPN_OK;

    if (self == NULL)
        return SPN_ENOMEM;
    if (spn__thread_is_inside(self, executor))
        return SPN_EDEADLK;
    spn__lock(&t->lock);
    if (t->state != SPN_EXECUTOR_TERMINATED && timeout_ns <= 0) {
        rc = SPN_ETIMEDOUT;
    } else if (t->state != SPN_EXECUTOR_TERMINATED) {
        spn__waitq_add(&t->awaiting, &w, self);
        spn__unlock(&t->lock);
        rc = spn__waitq_wait(&w, &t->lock, spn__deadline(spn__now(), timeout_ns));
        if (rc == SPN_OK)
            return SPN_OK; /* it may be gone */
    }
    spn__unlock(&t->lock);
    return rc;
}

static int get_state(spn_executor *executor)
{
    struct spn_threadless *t = threadless_of(executor);
    uint32_t state;

    spn__lock(&t->lock);
    state = t->state;
    spn__unlock(&t->lock);
    return (int)state;
}

/* A task that is being drained waits for one behind it in the queue: nobody else will
 * run that, so it is run now.  One that is gone elsewhere is waited for. */
static int wait_begin(spn_executor *executor, spn_task *task)
{
    if (take_off(executor, task))
        (void)spn__task_run_claimed(task);
    return SPN_OK;
}

/* ---- making ---------------------------------------------------------------------------- */

int spn_threadless_create(spn_threadless **out, spn_executor *shared)
{
    static const spn_executor_ops ops = { .size = sizeof ops,
                                          .execute = execute,
                                          .shutdown = shut_down,
                                          .shutdown_now = shut_down_now,
                                          .await = await_end,
                                          .state = get_state,
                                          .remove = remove_task,
                                          .wait_begin = wait_begin };
    struct spn_threadless *t;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    t = spn__alloc(sizeof *t);
    if (t == NULL)
        return SPN_ENOMEM;
    t->executor.ops = &ops;
    t->shared = shared;
    spn__init(&t->refs, 1);
    spn__lock_init(&t->lock);
    spn__list_init(&t->tasks);
    spn__waitq_init(&t->waiter);
    spn__waitq_init(&t->awaiting);
    t->state = SPN_EXECUTOR_RUNNING;
    t->waiting = true;
    t->inside = t->notified = false;
    t->busy = t->handing = 0;
    t->future = NULL;
    spn__list_node_init(&t->edge.link);
    spn__init(&t->edge.source, NULL);
    t->edge.fire = fire;
    t->edge.owner = t;
    *out = t;
    return SPN_OK;
}

int spn_threadless_destroy(spn_threadless *t)
{
    bool busy;

    if (t == NULL)
        return SPN_OK;
    spn__lock(&t->lock);
    busy = !spn__list_empty(&t->tasks) || t->busy != 0 || t->handing != 0 ||
           t->inside || !spn__waitq_empty(&t->awaiting);
    spn__unlock(&t->lock);
    if (busy)
        return SPN_EBUSY;
    if (t->future != NULL) {
        if (spn__edge_remove(&t->edge))
            unref(t);
        spn_future_unref(t->future);
    }
    unref(t);
    return SPN_OK;
}

spn_executor *spn_threadless_executor(spn_threadless *t)
{
    return t != NULL ? &t->executor : NULL;
}
