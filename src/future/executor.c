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
#include <spindle/executor.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "sync/lock.h"
#include "sync/seam.h"

_Static_assert(sizeof(spn_task) <= 40, "embedded in users' structs: part of the ABI");
_Static_assert(sizeof(spn_task) == 4 * sizeof(void *) + 8, "no padding");

typedef SPN__ATOMIC(uint32_t) queued_word;
_Static_assert(sizeof(queued_word) == sizeof(uint32_t), "the same word");

static queued_word *queued_of(spn_task *task)
{
    return (queued_word *)(void *)&task->queued;
}

int spn_task_claim(spn_task *task)
{
    if (task == NULL || task->fn == NULL)
        return SPN_EINVAL;
    /* [queued] acquire: the links are ours.
     * mutant: they are plain; tests/stress shows it to ThreadSanitizer */
    return spn__exchange(queued_of(task), 1, acquire) == 0 ? SPN_OK : SPN_EBUSY;
}

void spn_task_release(spn_task *task)
{
    if (task == NULL)
        return;
    /* [queued] mutant: as in claim */
    spn__store(queued_of(task), 0, release);
}

int spn_executor_execute(spn_executor *executor, spn_task *task)
{
    if (executor == NULL || task == NULL || task->fn == NULL)
        return SPN_EINVAL;
    if (executor->ops == NULL || executor->ops->execute == NULL)
        return SPN_EINVAL;
    return executor->ops->execute(executor, task);
}

/* A task's own functions, from which no exception comes. */
struct task_call {
    spn_task *task;
    int status;
};

static void call_fn(void *p)
{
    struct task_call *c = p;

    c->status = c->task->fn(c->task); /* the node may be gone now */
}

static void call_drop(void *p)
{
    struct task_call *c = p;

    c->task->drop(c->task, c->status);
}

static int run_task(spn_task *task)
{
    struct task_call c = { task, 0 };

    spn__guarded(call_fn, &c);
    return c.status;
}

static void drop_task(spn_task *task, int reason)
{
    struct task_call c = { task, reason };

    if (task->drop != NULL)
        spn__guarded(call_drop, &c);
}

/* ---- in the caller ---------------------------------------------------------- */

static int direct_execute(spn_executor *executor, spn_task *task)
{
    int rc = spn_task_claim(task);

    (void)executor;
    if (rc != SPN_OK)
        return rc;
    spn_task_release(task);
    rc = run_task(task);
    if (rc != 0)
        spn__log(SPN_LOG_WARN, "direct executor: a task failed with %d (%s)", rc,
                 spn_status_name(rc));
    return SPN_OK;
}

spn_executor *spn_executor_direct(void)
{
    static const spn_executor_ops ops = { sizeof ops, direct_execute };
    static const spn_executor direct = { &ops };

    return (spn_executor *)&direct; /* nobody writes to an executor */
}

/* ---- by hand ---------------------------------------------------------------- */

struct spn_manual_executor {
    struct spn_executor executor; /* first: they are the same object */
    struct spn__lock lock;        /* guards the rest */
    struct spn__list tasks;       /* each by its `link` */
    size_t pending;
    bool closed;
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

static int manual_execute(spn_executor *executor, spn_task *task)
{
    struct spn_manual_executor *m = (struct spn_manual_executor *)(void *)executor;
    int rc = SPN_EREJECTED;

    spn__lock(&m->lock);
    if (!m->closed)
        rc = spn_task_claim(task);
    if (rc == SPN_OK) {
        spn__list_push_back(&m->tasks, node_of(task));
        m->pending++;
    }
    spn__unlock(&m->lock);
    return rc;
}

int spn_manual_executor_create(spn_manual_executor **out)
{
    static const spn_executor_ops ops = { sizeof ops, manual_execute };
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
    m->pending = 0;
    m->closed = false;
    *out = m;
    return SPN_OK;
}

int spn_manual_executor_destroy(spn_manual_executor *m)
{
    if (m == NULL)
        return SPN_OK;
    if (spn_manual_executor_pending(m) != 0)
        return SPN_EBUSY;
    spn__free(m);
    return SPN_OK;
}

spn_executor *spn_manual_executor_executor(spn_manual_executor *m)
{
    return m != NULL ? &m->executor : NULL;
}

static spn_task *take(struct spn_manual_executor *m)
{
    struct spn__list_node *node;

    spn__lock(&m->lock);
    node = spn__list_pop_front(&m->tasks);
    if (node != NULL)
        m->pending--;
    spn__unlock(&m->lock);
    if (node == NULL)
        return NULL;
    spn_task_release(task_of(node));
    return task_of(node);
}

int spn_manual_executor_run_one(spn_manual_executor *m, int *status)
{
    spn_task *task;
    int rc;

    if (m == NULL)
        return SPN_EINVAL;
    task = take(m);
    if (task == NULL)
        return SPN_EEMPTY;
    rc = run_task(task);
    if (status != NULL)
        *status = rc;
    return SPN_OK;
}

int spn_manual_executor_run_all(spn_manual_executor *m, size_t *count)
{
    size_t ran = 0;
    spn_task *task;

    if (m == NULL)
        return SPN_EINVAL;
    for (; (task = take(m)) != NULL; ran++)
        (void)run_task(task);
    if (count != NULL)
        *count = ran;
    return SPN_OK;
}

int spn_manual_executor_drop_all(spn_manual_executor *m, int reason, size_t *count)
{
    size_t dropped = 0;
    spn_task *task;

    if (m == NULL || reason >= 0)
        return SPN_EINVAL;
    for (; (task = take(m)) != NULL; dropped++)
        drop_task(task, reason);
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

int spn_manual_executor_close(spn_manual_executor *m)
{
    if (m == NULL)
        return SPN_EINVAL;
    spn__lock(&m->lock);
    m->closed = true;
    spn__unlock(&m->lock);
    return SPN_OK;
}
