/* SPDX-License-Identifier: MIT */
/*
 * walk.c - the public calls that look inside a queue or take items out of its middle:
 * all that is built from a kind's walk.
 *
 * A walk shows the items with the queue locked, and its visitor says of each what becomes
 * of it.  A user's visitor may put into another queue, so this is the one place where
 * the locks of two queues are held.
 */
#include "queue/queue.h"

int64_t spn_queue_size(const spn_queue *q)
{
    return q == NULL ? SPN_EINVAL : q->ops->size(q);
}

int32_t spn_queue_capacity(const spn_queue *q)
{
    if (q == NULL)
        return SPN_EINVAL;
    return q->kind == SPN_QUEUE_SYNCHRONOUS ? 0 : q->capacity;
}

int32_t spn_queue_waiting_consumers(const spn_queue *q)
{
    /* The kinds lock to count, which a reader of a const queue need not know. */
    return q == NULL ? SPN_EINVAL
                     : q->ops->waiting_consumers((spn_queue *)(uintptr_t)q);
}

static int walk(spn_queue *q, enum spn__end end, spn_queue_visit_fn visit, void *ctx)
{
    if (q == NULL || visit == NULL)
        return SPN_EINVAL;
    if (q->ops->walk == NULL || (end == SPN__LAST && !spn__queue_is_deque(q)))
        return SPN_ENOTSUP;
    q->ops->walk(q, end, visit, ctx);
    return SPN_OK;
}

int spn_queue_walk(spn_queue *q, spn_queue_visit_fn visit, void *ctx)
{
    return walk(q, SPN__FIRST, visit, ctx);
}

int spn_queue_walk_last(spn_queue *q, spn_queue_visit_fn visit, void *ctx)
{
    return walk(q, SPN__LAST, visit, ctx);
}

/* ---- one item ------------------------------------------------------------- */

struct search {
    const spn_queue *queue;
    const void *item;
    int found_verdict; /* what to do with the one that is found */
    bool found;
};

static int visit_search(void *item, void *ctx)
{
    struct search *s = ctx;
    const spn_queue *q = s->queue;

    s->found =
        q->equal != NULL ? q->equal(item, s->item, q->ctx) != 0 : item == s->item;
    return s->found ? s->found_verdict : SPN_QUEUE_KEEP;
}

static int search(spn_queue *q, const void *item, int verdict)
{
    struct search s = { q, item, verdict, false };

    if (q == NULL)
        return SPN_EINVAL;
    if (q->ops->walk == NULL)
        return SPN_ENOTSUP;
    if (item != NULL)
        q->ops->walk(q, SPN__FIRST, visit_search, &s);
    return s.found ? SPN_OK : SPN_EEMPTY;
}

int spn_queue_contains(const spn_queue *q, const void *item)
{
    /* The walk locks the queue; it changes nothing if nothing is taken. */
    return search((spn_queue *)(uintptr_t)q, item, SPN_QUEUE_STOP);
}

int spn_queue_remove_item(spn_queue *q, const void *item)
{
    return search(q, item, SPN_QUEUE_TAKE | SPN_QUEUE_STOP);
}

/* ---- the end --------------------------------------------------------------- */

/* So many are taken out under the lock, and dropped without it. */
enum { BATCH = 64 };

struct batch {
    void *items[BATCH];
    size_t count;
};

static int visit_batch(void *item, void *ctx)
{
    struct batch *b = ctx;

    b->items[b->count++] = item;
    return b->count == BATCH ? SPN_QUEUE_TAKE | SPN_QUEUE_STOP : SPN_QUEUE_TAKE;
}

int64_t spn__queue_empty(spn_queue *q)
{
    struct batch b;
    int64_t total = 0;

    do {
        b.count = 0;
        if (q->ops->walk != NULL) /* also what is not due */
            q->ops->walk(q, SPN__FIRST, visit_batch, &b);
        else
            (void)q->ops->remove_many(q, b.items, BATCH, SPN__NO_PATIENCE, &b.count);
        for (size_t i = 0; i < b.count && q->drop != NULL; i++)
            q->drop(b.items[i], q->ctx);
        total += (int64_t)b.count;
    } while (b.count == BATCH);
    return total;
}
