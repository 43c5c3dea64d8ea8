/* SPDX-License-Identifier: MIT */
/*
 * work_fifo.c - tasks that wait in the order in which they came.
 *
 * TWO LISTS
 *   each with its lock.  Those who push append to the inbox; those who take pop from
 *   the outbox and, when that is empty, move the whole inbox over in one step.  So a
 *   producer and a worker meet once per batch that piled up, and not once per task.
 *   Order is that of the inbox lock.  A task is unlinked from wherever it is in O(1),
 *   with both locks held.
 *
 *   Road not taken: workers that claim several tasks at once.  A short task behind a
 *   long one in one worker's batch would wait while others pass it: no FIFO any more.
 *   lanes.c does that, and more, for those who choose it.
 *
 * HAND-OFF  is a FIFO whose capacity is the number of workers that run no task: each
 *   task in it has a worker that is on its way to it.
 *
 * ORDERING
 *   [size] `pushed` and `popped` only grow.  Who wants the size reads popped first,
 *          with acquire, and then pushed: never negative, because the release of a
 *          pop comes after its push, by the locks that the task went through.
 *   [free] take lowers `free` before it raises popped (release); push reads popped
 *          (acquire) before `free`: it may find one free worker too few, never one
 *          too many.
 *
 * LOCKS  out_lock, then in_lock, which is the door (work.c); leaves below pool->lock.
 */
#include "exec/work_kinds.h"

#include "future/task.h"

void spn__work_fifo_init(struct spn__fifo *f)
{
    spn__lock_init(&f->in_lock);
    spn__list_init(&f->inbox);
    spn__init(&f->pushed, 0);
    spn__init(&f->newest, NULL);
    f->closed = false;
    f->seen_popped = 0;
    spn__lock_init(&f->out_lock);
    spn__list_init(&f->outbox);
    spn__init(&f->popped, 0);
}

/* Whether there is room; in_lock is held. */
static bool fifo_has_room(struct spn_pool *pool, struct spn__fifo *f, int64_t pushed,
                          int64_t capacity)
{
    if (pushed - f->seen_popped < capacity)
        return true;
    f->seen_popped = spn__load(&f->popped, acquire); /* [size] [free] */
    if (pool->handoff && f == &pool->work.fifo)
        capacity = spn__load(&pool->work.free, relaxed); /* [free] */
    return pushed - f->seen_popped < capacity;
}

int spn__work_fifo_push(struct spn_pool *pool, struct spn__fifo *f, spn_task *task,
                        uint32_t as, int64_t capacity)
{
    int64_t pushed;
    int rc = SPN_OK;

    spn__lock(&f->in_lock);
    pushed = spn__load(&f->pushed, relaxed); /* ours: the lock is held */
    if (f->closed)
        rc = SPN_ESHUTDOWN;
    else if (spn__pool_deserted(pool))
        rc = SPN_EAGAIN;
    else if (!fifo_has_room(pool, f, pushed, capacity))
        rc = SPN_EFULL;
    if (rc == SPN_OK) {
        spn__task_mark(task, as);
        spn__list_push_back(&f->inbox, spn__task_node(task));
        /* relaxed: see fifo_fetch. */
        spn__store(&f->newest, task->fn == spn__task_future_fn ? task : NULL, relaxed);
        spn__store(&f->pushed, pushed + 1, relaxed); /* [size] the lock orders it */
    }
    spn__unlock(&f->in_lock);
    return rc;
}

/* Moves the inbox over; out_lock is held. */
static void fifo_fetch(struct spn__fifo *f)
{
    /* relaxed: a hint.  Where one task came at a time, its lines are on their way while
     * that of the lock is. */
    const spn_task *newest = spn__load(&f->newest, relaxed);

    if (newest != NULL)
        spn__task_fetch(newest);
    spn__lock(&f->in_lock);
    spn__list_splice(&f->outbox, &f->inbox);
    spn__unlock(&f->in_lock);
}

static void fifo_popped(struct spn__fifo *f, int64_t by)
{
    /* relaxed: ours, the lock is held.  [size] [free] release: after the push, and
     * after the worker is no longer free. */
    spn__store(&f->popped, spn__load(&f->popped, relaxed) + by, release);
}

spn_task *spn__work_fifo_take(struct spn__fifo *f, spn__free_count *free_workers)
{
    struct spn__list_node *node;
    spn_task *task = NULL;

    if (!spn__work_fifo_any(f))
        return NULL;
    spn__lock(&f->out_lock);
    if (spn__list_empty(&f->outbox))
        fifo_fetch(f);
    node = spn__list_pop_front(&f->outbox);
    if (node != NULL) {
        task = spn__node_task(node);
        spn__task_mark(task, SPN__TASK_TAKEN);
        if (free_workers != NULL)
            (void)spn__fetch_sub(free_workers, 1, relaxed); /* [free] */
        fifo_popped(f, 1);
    }
    spn__unlock(&f->out_lock);
    return task;
}

bool spn__work_fifo_remove(struct spn__fifo *f, spn_task *task, uint32_t as)
{
    bool removed;

    spn__lock(&f->out_lock);
    spn__lock(&f->in_lock);
    removed = spn__task_marked(task, as);
    if (removed) {
        spn__list_remove(spn__task_node(task));
        spn__task_mark(task, SPN__TASK_TAKEN);
        fifo_popped(f, 1);
    }
    spn__unlock(&f->in_lock);
    spn__unlock(&f->out_lock);
    return removed;
}

int64_t spn__work_fifo_collect(struct spn__fifo *f,
                               bool (*wanted)(spn_task *, const void *),
                               const void *ctx, struct spn__list *out)
{
    struct spn__list_node *node, *following;
    int64_t count = 0;

    spn__lock(&f->out_lock);
    fifo_fetch(f);
    spn__list_each_safe (node, following, &f->outbox) {
        if (wanted != NULL && !wanted(spn__node_task(node), ctx))
            continue;
        spn__list_remove(node);
        spn__task_mark(spn__node_task(node), SPN__TASK_TAKEN);
        spn__list_push_back(out, node);
        count++;
    }
    fifo_popped(f, count);
    spn__unlock(&f->out_lock);
    return count;
}

int64_t spn__work_fifo_snapshot(struct spn__fifo *f, spn_task **tasks, size_t capacity,
                                int64_t from)
{
    struct spn__list_node *node;

    spn__lock(&f->out_lock);
    fifo_fetch(f);
    spn__list_each (node, &f->outbox) {
        if ((size_t)from < capacity)
            tasks[from] = spn__node_task(node);
        from++;
    }
    spn__unlock(&f->out_lock);
    return from;
}
