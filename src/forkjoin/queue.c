/* SPDX-License-Identifier: MIT */
/*
 * queue.c - objects and tasks that workers forked: a list and a small lock each.
 *
 * WHY A LOCK  An object can be taken out from the middle (joined, cancelled), and asked
 *   for its age; a lock that is hardly ever contended does all that at the price of two
 *   atomic instructions.  What needs to be faster than that is a record (deque.c).
 *
 * ORDERING  the lock's; sizes are read without it, as in exec/work_fifo.c [size]: popped
 *   first, with acquire, so that a size is never negative.
 */
#include "forkjoin/pool.h"

#include "future/executor.h"

void spn__fj_queue_init(struct spn__fj_queue *q)
{
    spn__lock_init(&q->lock);
    spn__list_init(&q->tasks);
    q->sequence = 0;
    spn__init(&q->pushed, 0);
    spn__init(&q->popped, 0);
}

int64_t spn__fj_queue_size(struct spn__fj_queue *q)
{
    /* [size] mutant: a size may be less than nothing for a moment without it. */
    const int64_t popped = spn__load(&q->popped, acquire);

    return spn__load(&q->pushed, relaxed) - popped;
}

static void mark(spn_task *task, uint32_t as)
{
    spn__store(spn__task_queued(task), as, relaxed); /* believed under the lock only */
}

void spn__fj_queue_push(struct spn__fj_place *place, spn_task *task)
{
    struct spn__fj_queue *q = &place->queue;
    spn_fj_task *object = spn__fj_task_of(task);

    spn__lock(&q->lock);
    if (object != NULL) {
        /* relaxed: read under this lock, or once it has started. */
        spn__store((spn__fj_sequence *)(void *)&object->sequence, q->sequence, relaxed);
        q->sequence++;
    }
    mark(task, place->pool->pool->id + 2);
    spn__list_push_back(&q->tasks, spn__task_node(task));
    /* relaxed read: ours.  [size] mutant: who runs it, and counts, is after the push. */
    spn__store(&q->pushed, spn__load(&q->pushed, relaxed) + 1, release);
    spn__unlock(&q->lock);
}

/* Off the list; the lock is held. */
static spn_task *take_out(struct spn__fj_queue *q, struct spn__list_node *node)
{
    spn_task *task = spn__node_task(node);

    spn__list_remove(node);
    mark(task, 1);
    /* relaxed read: ours.  [size] mutant: as in spn__fj_queue_size. */
    spn__store(&q->popped, spn__load(&q->popped, relaxed) + 1, release);
    return task;
}

static struct spn__list_node *at_end(struct spn__fj_queue *q, bool newest)
{
    if (spn__list_empty(&q->tasks))
        return NULL;
    return newest ? q->tasks.head.prev : q->tasks.head.next;
}

/* relaxed, both: a hint, or looked at after a fence [wake]. */
static bool is_empty(struct spn__fj_queue *q)
{
    return spn__load(&q->pushed, relaxed) == spn__load(&q->popped, relaxed);
}

spn_task *spn__fj_queue_take(struct spn__fj_place *place, bool newest)
{
    struct spn__fj_queue *q = &place->queue;
    struct spn__list_node *node;
    spn_task *task = NULL;

    if (is_empty(q))
        return NULL;
    spn__lock(&q->lock);
    node = at_end(q, newest);
    if (node != NULL)
        task = take_out(q, node);
    spn__unlock(&q->lock);
    return task;
}

bool spn__fj_queue_remove(struct spn__fj_place *place, spn_task *task)
{
    struct spn__fj_queue *q = &place->queue;
    struct spn__list_node *node;
    bool found;

    if (is_empty(q))
        return false;
    spn__lock(&q->lock);
    node = q->tasks.head.prev; /* most likely a new one */
    while (node != &q->tasks.head && spn__node_task(node) != task)
        node = node->prev;
    found = node != &q->tasks.head;
    if (found)
        (void)take_out(q, node);
    spn__unlock(&q->lock);
    return found;
}

spn_task *spn__fj_queue_take_if(struct spn__fj_place *place,
                                bool (*wanted)(spn_task *, void *), void *ctx)
{
    struct spn__fj_queue *q = &place->queue;
    struct spn__list_node *first, *last;
    spn_task *task = NULL;

    if (is_empty(q))
        return NULL;
    spn__lock(&q->lock);
    first = at_end(q, false);
    last = at_end(q, true);
    if (first != NULL && wanted(spn__node_task(first), ctx))
        task = take_out(q, first);
    else if (last != NULL && last != first && wanted(spn__node_task(last), ctx))
        task = take_out(q, last);
    spn__unlock(&q->lock);
    return task;
}

int64_t spn__fj_queue_collect(struct spn__fj_place *place,
                              bool (*wanted)(spn_task *, const void *), const void *ctx,
                              struct spn__list *out)
{
    struct spn__fj_queue *q = &place->queue;
    struct spn__list_node *node, *following;
    int64_t count = 0;

    spn__lock(&q->lock);
    spn__list_each_safe (node, following, &q->tasks)
        if (wanted == NULL || wanted(spn__node_task(node), ctx)) {
            (void)take_out(q, node);
            spn__list_push_back(out, node);
            count++;
        }
    spn__unlock(&q->lock);
    return count;
}

int64_t spn__fj_queue_snapshot(struct spn__fj_place *place, spn_task **tasks,
                               size_t capacity)
{
    struct spn__fj_queue *q = &place->queue;
    struct spn__list_node *node;
    int64_t count = 0;

    spn__lock(&q->lock);
    spn__list_each (node, &q->tasks) {
        if ((size_t)count < capacity)
            tasks[count] = spn__node_task(node);
        count++;
    }
    spn__unlock(&q->lock);
    return count;
}
