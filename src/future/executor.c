/* SPDX-License-Identifier: MIT */
/*
 * executor.c - the executor interface, and the two executors without threads.
 *
 * TASKS
 *   `queued` tells whether an executor has a task.  The field is a plain number in
 *   the public struct, because C++ programs embed it; here it is an atomic, so that
 *   two threads that submit one task get one SPN_EBUSY and not a torn list.
 *
 * ORDERING
 *   [queued] the release store before fn pairs with the acquire of the next claim:
 *            a task that submits itself again sees its links left alone.
 *
 * LOCKS  the manual executor's lock guards its list and flags; a leaf, and not held
 *        while a task runs.
 */
#include "future/executor.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "future/core.h"
#include "future/ambient.h"
#include "sync/blocks.h"
#include "sync/lock.h"
#include "sync/seam.h"
#include "sync/waitq.h"

_Static_assert(sizeof(spn_task) <= 40, "embedded in users' structs: part of the ABI");
_Static_assert(sizeof(spn_task) == 4 * sizeof(void *) + 8, "no padding");

_Static_assert(sizeof(spn__queued_word) == sizeof(uint32_t), "the same word");

int spn_task_claim(spn_task *task)
{
    uint32_t none = 0;

    if (task == NULL || task->fn == NULL)
        return SPN_EINVAL;
    /* [queued] acquire: the links are ours.
     * mutant: they are plain; tests/stress shows it to ThreadSanitizer */
    return spn__cas(spn__task_queued(task), &none, 1, acquire, relaxed) ? SPN_OK
                                                                        : SPN_EBUSY;
}

void spn_task_release(spn_task *task)
{
    if (task == NULL)
        return;
    /* [queued] mutant: as in claim */
    spn__store(spn__task_queued(task), 0, release);
}

static bool is_queued(spn_task *task)
{
    /* relaxed: a mistake told where it can be, not a lock. */
    return spn__load(spn__task_queued(task), relaxed) != 0;
}

int spn_task_run(spn_task *task)
{
    if (task == NULL || task->fn == NULL || is_queued(task))
        return SPN_EINVAL;
    return spn__task_run_here(task);
}

/* A task's drop, from which no exception comes. */
struct drop_call {
    spn_task *task;
    int reason;
};

static void call_task_drop(void *p)
{
    struct drop_call *c = p;

    c->task->drop(c->task, c->reason);
}

void spn__task_drop_guarded(spn_task *task, int reason)
{
    struct drop_call c = { task, reason };

    if (task->drop != NULL)
        spn__guarded(call_task_drop, &c);
}

void spn__task_discard(spn_task *task, int reason)
{
    spn__job_forget(task);
    spn_task_release(task);
    spn__task_drop_guarded(task, reason);
}

void spn__task_give_back(spn_task *task, spn_unrun_fn unrun, void *ctx)
{
    spn__job_forget(task);
    spn__task_given_back(task);
    spn_task_release(task);
    spn__task_hand_out(task, unrun, ctx);
}

void spn__task_hand_out(spn_task *task, spn_unrun_fn unrun, void *ctx)
{
    const struct spn__call_head *call = (const struct spn__call_head *)(void *)task;
    spn_run_fn fn;
    void *arg;

    if ((task->flags & SPN__TASK_CALL) == 0) {
        unrun(ctx, task, NULL, NULL);
        return;
    }
    fn = call->fn;
    arg = call->arg;
    task->drop(task, SPN_ESHUTDOWN); /* frees it */
    unrun(ctx, NULL, fn, arg);
}

int spn_task_drop(spn_task *task, int reason)
{
    if (task == NULL || task->fn == NULL || reason >= 0 || is_queued(task))
        return SPN_EINVAL;
    spn__task_drop_guarded(task, reason);
    return SPN_OK;
}

/* ---- the interface ---------------------------------------------------------- */

int spn_executor_execute(spn_executor *executor, spn_task *task)
{
    int rc;

    if (executor == NULL || task == NULL || task->fn == NULL)
        return SPN_EINVAL;
    if (executor->ops == NULL || executor->ops->execute == NULL)
        return SPN_EINVAL;
    rc = executor->ops->execute(executor, task);
    if (rc == SPN_EBUSY)
        spn__misuse("task %p is submitted while it is queued", (void *)task);
    return rc;
}

/* A function and its argument, where the executor knows only tasks. */
struct call_task {
    spn_task task; /* the first three are a spn__call_head */
    spn_run_fn fn;
    void *arg;
    struct spn_context *context; /* a reference, or NULL */
};

_Static_assert(offsetof(struct call_task, fn) == offsetof(struct spn__call_head, fn) &&
                   offsetof(struct call_task, arg) ==
                       offsetof(struct spn__call_head, arg),
               "hand_out knows only the head");

/* The call has ended its thread. */
static void carried_call_ended(void *of, void *context)
{
    (void)of;
    spn_context_unref(context);
}

static int call_with(struct spn_context *context, spn_run_fn fn, void *arg)
{
    struct spn_thread *self = spn__thread_self();
    struct spn__context_frame frame;
    int rc;

    spn__context_enter(&frame, self, context);
    spn__task_entered(self, carried_call_ended, NULL, context);
    rc = fn(arg);
    spn__task_left(self);
    spn__context_leave(&frame, self);
    return rc;
}

static int call_run(spn_task *task)
{
    struct call_task *c = spn__list_entry(task, struct call_task, task);
    struct spn_context *context = c->context;
    const spn_run_fn fn = c->fn;
    void *const arg = c->arg;

    spn__block_put(c);
    return context == NULL ? fn(arg) : call_with(context, fn, arg);
}

static void call_drop(spn_task *task, int reason)
{
    struct call_task *c = spn__list_entry(task, struct call_task, task);

    (void)reason;
    spn_context_unref(c->context);
    spn__block_put(c);
}

spn_task *spn__call_task_create(spn_run_fn fn, void *arg)
{
    struct call_task *c = spn__block_get(sizeof *c);

    if (c == NULL)
        return NULL;
    c->task = (spn_task)SPN_TASK_INIT(call_run, call_drop);
    c->task.flags = SPN__TASK_CALL;
    c->fn = fn;
    c->arg = arg;
    c->context = spn__context_capture();
    return &c->task;
}

/* Apart, so that the other way is short. */
static __attribute__((noinline)) int call_with_node(spn_executor *executor,
                                                    spn_run_fn fn, void *arg)
{
    spn_task *task = spn__call_task_create(fn, arg);
    int rc;

    if (task == NULL)
        return SPN_ENOMEM;
    rc = spn_executor_execute(executor, task);
    if (rc != SPN_OK)
        call_drop(task, rc);
    return rc;
}

int spn_executor_call(spn_executor *executor, spn_run_fn fn, void *arg)
{
    const struct spn_thread *self = spn__self_get();

    if (executor == NULL || executor->ops == NULL || fn == NULL)
        return SPN_EINVAL;
    /* Without a node there is no place for a context. */
    if (__builtin_expect(spn__executor_has(executor, call) &&
                             (self == NULL || self->ambient.context == NULL),
                         1))
        return executor->ops->call(executor, fn, arg);
    return call_with_node(executor, fn, arg);
}

int spn_executor_shutdown(spn_executor *executor)
{
    if (executor == NULL || executor->ops == NULL)
        return SPN_EINVAL;
    return spn__executor_has(executor, shutdown) ? executor->ops->shutdown(executor)
                                                 : SPN_ENOTSUP;
}

/* The caller's unrun, behind what the library has to do first. */
struct give_back {
    spn_unrun_fn unrun;
    void *ctx;
};

static void give_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    const struct give_back *g = ctx;

    if (task == NULL) {
        g->unrun(g->ctx, NULL, fn, arg);
        return;
    }
    spn__task_given_back(task);
    spn__task_hand_out(task, g->unrun, g->ctx);
}

void spn__unrun_unwrap(spn_unrun_fn *unrun, void **ctx)
{
    if (*unrun == give_back) {
        const struct give_back *g = *ctx;

        *unrun = g->unrun;
        *ctx = g->ctx;
    }
}

int spn_executor_shutdown_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                              int64_t *count)
{
    struct give_back g = { unrun, ctx };

    if (count != NULL)
        *count = 0;
    if (executor == NULL || executor->ops == NULL)
        return SPN_EINVAL;
    if (!spn__executor_has(executor, shutdown_now))
        return SPN_ENOTSUP;
    return unrun != NULL ? executor->ops->shutdown_now(executor, give_back, &g, count)
                         : executor->ops->shutdown_now(executor, NULL, NULL, count);
}

int spn_executor_await(spn_executor *executor, int64_t timeout_ns)
{
    if (executor == NULL || executor->ops == NULL)
        return SPN_EINVAL;
    return spn__executor_has(executor, await)
               ? executor->ops->await(executor, timeout_ns)
               : SPN_ENOTSUP;
}

int spn_executor_get_state(spn_executor *executor)
{
    if (executor == NULL || executor->ops == NULL)
        return SPN_EINVAL;
    return spn__executor_has(executor, state) ? executor->ops->state(executor)
                                              : SPN_ENOTSUP;
}

int spn_executor_is_shutdown(spn_executor *executor)
{
    const int state = spn_executor_get_state(executor);

    return state < 0 ? state : state >= SPN_EXECUTOR_SHUTDOWN;
}

int spn_executor_is_terminated(spn_executor *executor)
{
    const int state = spn_executor_get_state(executor);

    return state < 0 ? state : state == SPN_EXECUTOR_TERMINATED;
}

int spn_executor_remove(spn_executor *executor, spn_task *task)
{
    int rc;

    if (executor == NULL || executor->ops == NULL || task == NULL)
        return SPN_EINVAL;
    if (!spn__executor_has(executor, remove))
        return SPN_ENOTSUP;
    rc = executor->ops->remove(executor, task);
    if (rc == 1)
        spn__task_given_back(task);
    return rc == SPN__GIVEN_BACK ? 1 : rc;
}

/* ---- whose thread this is --------------------------------------------------- */

int spn_executor_enter(spn_executor *executor, spn_executor_frame *frame)
{
    struct spn_thread *self;

    if (executor == NULL || frame == NULL)
        return SPN_EINVAL;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    frame->executor = executor;
    frame->outer = self->executing;
    self->executing = frame;
    return SPN_OK;
}

int spn_executor_leave(spn_executor_frame *frame)
{
    struct spn_thread *self;

    if (frame == NULL)
        return SPN_EINVAL;
    self = spn__self_get();
    if (self == NULL || self->executing != frame)
        return SPN_ESTATE;
    self->executing = frame->outer;
    return SPN_OK;
}

int spn_executor_is_inside(spn_executor *executor)
{
    const struct spn_thread *self = spn__self_get();

    if (executor == NULL)
        return SPN_EINVAL;
    return self != NULL && spn__thread_is_inside(self, executor);
}

/* ---- in the caller ---------------------------------------------------------- */

static int direct_execute(spn_executor *executor, spn_task *task)
{
    int rc = spn_task_claim(task);

    (void)executor;
    if (rc != SPN_OK)
        return rc;
    spn__job_capture(task);
    rc = spn__task_run_claimed(task); /* the node may be gone now */
    if (rc != 0)
        spn__log(SPN_LOG_WARN, "direct executor: a task failed with %d (%s)", rc,
                 spn_status_name(rc));
    return SPN_OK;
}

spn_executor *spn_executor_direct(void)
{
    static const spn_executor_ops ops = { .size = sizeof ops,
                                          .execute = direct_execute };
    static const spn_executor direct = { &ops };

    return (spn_executor *)&direct; /* nobody writes to an executor */
}

/* ---- by hand ---------------------------------------------------------------- */

struct spn_manual_executor {
    struct spn_executor executor; /* first: they are the same object */
    struct spn__lock lock;        /* guards the rest */
    struct spn__list tasks;       /* each by its `link` */
    size_t pending;
    size_t running;             /* inside fn or drop */
    uint32_t state;             /* spn_executor_state */
    struct spn__waitq awaiting; /* its end */
};

_Static_assert(sizeof(struct spn__list_node) == sizeof(((spn_task *)0)->link),
               "a task's links are a list node");

/* A task's links, as the node they are while this executor has it. */
static struct spn__list_node *node_of(spn_task *task)
{
    return (struct spn__list_node *)(void *)task->link;
}

static spn_task *task_of(struct spn__list_node *node)
{
    return (spn_task *)(void *)((char *)node - offsetof(spn_task, link));
}

static struct spn_manual_executor *manual_of(spn_executor *executor)
{
    return (struct spn_manual_executor *)(void *)executor;
}

static int manual_execute(spn_executor *executor, spn_task *task)
{
    struct spn_manual_executor *m = manual_of(executor);
    int rc = SPN_EREJECTED;

    spn__lock(&m->lock);
    if (m->state == SPN_EXECUTOR_RUNNING)
        rc = spn_task_claim(task);
    if (rc == SPN_OK) {
        spn__job_capture(task);
        spn__list_push_back(&m->tasks, node_of(task));
        m->pending++;
    }
    spn__unlock(&m->lock);
    return rc;
}

/* With the lock held: the end, if it was asked for and nothing is left. */
static void try_end(struct spn_manual_executor *m, struct spn__chosen *chosen)
{
    if (m->state == SPN_EXECUTOR_RUNNING || m->pending != 0 || m->running != 0)
        return;
    m->state = SPN_EXECUTOR_TERMINATED;
    spn__waitq_choose_all(&m->awaiting, chosen);
}

static void close_manual(struct spn_manual_executor *m, uint32_t state)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&m->lock);
    if (m->state < state)
        m->state = state;
    try_end(m, &chosen);
    spn__unlock(&m->lock);
    spn__chosen_grant(&chosen);
}

static int manual_shutdown(spn_executor *executor)
{
    close_manual(manual_of(executor), SPN_EXECUTOR_SHUTDOWN);
    return SPN_OK;
}

/* The next task, off the list, counted as running, and still claimed; NULL: none waits. */
static spn_task *take(struct spn_manual_executor *m)
{
    struct spn__list_node *node;

    spn__lock(&m->lock);
    node = spn__list_pop_front(&m->tasks);
    if (node != NULL) {
        m->pending--;
        m->running++;
    }
    spn__unlock(&m->lock);
    return node != NULL ? task_of(node) : NULL;
}

static void let_end(struct spn_manual_executor *m)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&m->lock);
    m->running--;
    try_end(m, &chosen);
    spn__unlock(&m->lock);
    spn__chosen_grant(&chosen);
}

static int manual_shutdown_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                               int64_t *count)
{
    struct spn_manual_executor *m = manual_of(executor);
    int64_t returned = 0;
    spn_task *task;

    spn__unrun_unwrap(&unrun, &ctx);
    /* First the state: what a callback submits is refused. */
    close_manual(m, SPN_EXECUTOR_STOP);
    for (; (task = take(m)) != NULL; returned++) {
        if (unrun != NULL)
            spn__task_give_back(task, unrun, ctx);
        else
            spn__task_discard(task, SPN_ESHUTDOWN);
        let_end(m);
    }
    if (count != NULL)
        *count = returned;
    return SPN_OK;
}

static int manual_await(spn_executor *executor, int64_t timeout_ns)
{
    struct spn_manual_executor *m = manual_of(executor);
    struct spn_thread *self;
    struct spn__waiter w;
    int rc = SPN_OK;

    if (spn_executor_is_inside(executor) == 1)
        return SPN_EDEADLK;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    spn__lock(&m->lock);
    if (m->state != SPN_EXECUTOR_TERMINATED && timeout_ns <= 0)
        rc = SPN_ETIMEDOUT;
    else if (m->state != SPN_EXECUTOR_TERMINATED) {
        spn__waitq_add(&m->awaiting, &w, self);
        spn__unlock(&m->lock);
        rc = spn__waitq_wait(&w, &m->lock, spn__deadline(spn__now(), timeout_ns));
        if (rc == SPN_OK)
            return SPN_OK; /* it may be gone */
    }
    spn__unlock(&m->lock);
    return rc;
}

static int manual_state(spn_executor *executor)
{
    struct spn_manual_executor *m = manual_of(executor);
    uint32_t state;

    spn__lock(&m->lock);
    state = m->state;
    spn__unlock(&m->lock);
    return (int)state;
}

static int manual_remove(spn_executor *executor, spn_task *task)
{
    struct spn_manual_executor *m = manual_of(executor);
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__list_node *node;
    bool found = false;

    spn__lock(&m->lock);
    spn__list_each (node, &m->tasks)
        if (task_of(node) == task) {
            found = true;
            break;
        }
    if (found) {
        spn__list_remove(node);
        m->pending--;
        try_end(m, &chosen);
    }
    spn__unlock(&m->lock);
    spn__chosen_grant(&chosen);
    if (!found)
        return 0;
    spn__job_forget(task);
    spn__task_given_back(task);
    spn_task_release(task);
    return SPN__GIVEN_BACK;
}

int spn_manual_executor_create(spn_manual_executor **out)
{
    static const spn_executor_ops ops = { .size = sizeof ops,
                                          .execute = manual_execute,
                                          .shutdown = manual_shutdown,
                                          .shutdown_now = manual_shutdown_now,
                                          .await = manual_await,
                                          .state = manual_state,
                                          .remove = manual_remove };
    struct spn_manual_executor *m;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    m = spn__alloc(sizeof *m);
    if (m == NULL)
        return SPN_ENOMEM;
    m->executor.ops = &ops;
    spn__lock_init(&m->lock);
    spn__list_init(&m->tasks);
    m->pending = m->running = 0;
    m->state = SPN_EXECUTOR_RUNNING;
    spn__waitq_init(&m->awaiting);
    *out = m;
    return SPN_OK;
}

int spn_manual_executor_destroy(spn_manual_executor *m)
{
    bool busy;

    if (m == NULL)
        return SPN_OK;
    spn__lock(&m->lock);
    busy = m->pending != 0 || m->running != 0 || !spn__waitq_empty(&m->awaiting);
    spn__unlock(&m->lock);
    if (busy)
        return SPN_EBUSY;
    spn__free(m);
    return SPN_OK;
}

spn_executor *spn_manual_executor_executor(spn_manual_executor *m)
{
    return m != NULL ? &m->executor : NULL;
}

static void run_task(struct spn_manual_executor *m, spn_task *task)
{
    spn_executor_frame frame;
    bool entered;

    /* Without memory for the thread's record only SPN_EDEADLK is lost. */
    entered = spn_executor_enter(&m->executor, &frame) == SPN_OK;
    (void)spn__task_run_claimed(task);
    if (entered)
        (void)spn_executor_leave(&frame);
    let_end(m);
}

int64_t spn_manual_executor_run(spn_manual_executor *m, int64_t at_most)
{
    int64_t ran = 0;
    spn_task *task;

    if (m == NULL || at_most < 0)
        return SPN_EINVAL;
    for (; ran < at_most && (task = take(m)) != NULL; ran++)
        run_task(m, task);
    return ran;
}

int spn_manual_executor_drop_all(spn_manual_executor *m, int reason, size_t *count)
{
    size_t dropped = 0;
    spn_task *task;

    if (m == NULL || reason >= 0)
        return SPN_EINVAL;
    for (; (task = take(m)) != NULL; dropped++) {
        spn__task_discard(task, reason);
        let_end(m);
    }
    if (count != NULL)
        *count = dropped;
    return SPN_OK;
}

size_t spn_manual_executor_pending(spn_manual_executor *m)
{
    size_t pending;

    if (m == NULL)
        return 0;
    spn__lock(&m->lock);
    pending = m->pending;
    spn__unlock(&m->lock);
    return pending;
}
