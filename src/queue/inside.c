/* SPDX-License-Identifier: MIT */
/*
 * inside.c - the public calls that look inside a queue, take items out of its middle,
 * move them from queue to queue, and iterators: all that is built from a kind's walk.
 *
 * A walk shows the items with the queue locked, and its visitor says of each what becomes
 * of it.  Visitors call nothing of the user's but `equal`; what a sweep takes out is
 * dropped after the lock was given back, a batch at a time.
 *
 * LOCKS  spn__queue_drain_lock before the locks of two queues; see there.
 */
#include "queue/queue.h"

/* ---- looking inside ---------------------------------------------------- */

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

int32_t spn_queue_remaining(const spn_queue *q)
{
    int64_t left;

    if (q == NULL)
        return SPN_EINVAL;
    if (q->kind == SPN_QUEUE_SYNCHRONOUS)
        return 0;
    if (q->capacity == INT32_MAX)
        return INT32_MAX;
    left = q->capacity - q->ops->size(q);
    return left < 0 ? 0 : (int32_t)left;
}

int spn_queue_kind_of(const spn_queue *q)
{
    return q == NULL ? SPN_EINVAL : (int)q->kind;
}

static bool same(const spn_queue *q, const void *a, const void *b)
{
    return q->equal != NULL ? q->equal(a, b, q->ctx) != 0 : a == b;
}

/* The walks below lock the queue; that they do not change a const one is what
 * their visitors see to. */
static void walk(const spn_queue *q, enum spn__end end, spn__walk_fn visit, void *ctx)
{
    q->ops->walk((spn_queue *)(uintptr_t)q, end, visit, ctx);
}

struct search {
    const spn_queue *queue;
    const void *item;
    int found_verdict; /* what to do with the one that is found */
    bool found;
};

static int visit_search(void *item, uint64_t serial, void *ctx)
{
    struct search *s = ctx;

    (void)serial;
    if (!same(s->queue, item, s->item))
        return SPN__KEEP;
    s->found = true;
    return s->found_verdict;
}

static int search(const spn_queue *q, const void *item, enum spn__end end, int verdict)
{
    struct search s = { q, item, verdict, false };

    if (q == NULL)
        return SPN_EINVAL;
    if (q->ops->walk == NULL)
        return SPN_ENOTSUP;
    if (item != NULL)
        walk(q, end, visit_search, &s);
    return s.found;
}

int spn_queue_contains(const spn_queue *q, const void *item)
{
    return search(q, item, SPN__FIRST, SPN__STOP);
}

int spn_queue_remove_item(spn_queue *q, const void *item)
{
    return search(q, item, SPN__FIRST, SPN__TAKE | SPN__STOP);
}

int spn_queue_remove_last_item(spn_queue *q, const void *item)
{
    if (q != NULL && !spn__queue_is_deque(q))
        return SPN_ENOTSUP;
    return search(q, item, SPN__LAST, SPN__TAKE | SPN__STOP);
}

int spn_queue_contains_all(const spn_queue *q, void *const *items, size_t count)
{
    if (q == NULL || items == NULL)
        return SPN_EINVAL;
    if (q->ops->walk == NULL)
        return SPN_ENOTSUP;
    for (size_t i = 0; i < count; i++)
        if (spn_queue_contains(q, items[i]) != 1)
            return 0;
    return 1;
}

/*
 * Takes out what a test chooses and drops it, a batch under the lock at a time,
 * so that `drop` runs without it.  A batch ends the walk; the next one begins
 * again, so each looks only at items that were there when the call began: those
 * with a smaller serial than `limit`.
 */
enum { BATCH = 64 };

struct sweep {
    const spn_queue *queue;
    void *const *items; /* NULL: everything goes */
    size_t item_count;
    bool among; /* take those among the items, or those that are not */
    uint64_t limit;
    int taken;
    void *batch[BATCH];
};

static int visit_sweep(void *item, uint64_t serial, void *ctx)
{
    struct sweep *s = ctx;
    bool found = s->items == NULL;

    if (serial >= s->limit)
        return SPN__KEEP;
    for (size_t i = 0; i < s->item_count && !found; i++)
        found = s->items[i] != NULL && same(s->queue, item, s->items[i]);
    if (found != s->among)
        return SPN__KEEP;
    s->batch[s->taken++] = item;
    return s->taken == BATCH ? SPN__TAKE | SPN__STOP : SPN__TAKE;
}

static int visit_limit(void *item, uint64_t serial, void *ctx)
{
    uint64_t *limit = ctx;

    (void)item;
    if (serial >= *limit)
        *limit = serial + 1;
    return SPN__KEEP;
}

static int64_t sweep(spn_queue *q, void *const *items, size_t count, bool among)
{
    struct sweep s = { q, items, count, among, 0, 0, { NULL } };
    int64_t total = 0;

    walk(q, SPN__FIRST, visit_limit, &s.limit);
    do {
        s.taken = 0;
        walk(q, SPN__FIRST, visit_sweep, &s);
        for (int i = 0; i < s.taken; i++)
            if (q->drop != NULL)
                q->drop(s.batch[i], q->ctx);
        total += s.taken;
    } while (s.taken == BATCH);
    return total;
}

int spn_queue_remove_all(spn_queue *q, void *const *items, size_t count)
{
    if (q == NULL || items == NULL)
        return SPN_EINVAL;
    if (q->ops->walk == NULL)
        return SPN_ENOTSUP;
    return count != 0 && sweep(q, items, count, true) != 0;
}

int spn_queue_retain_all(spn_queue *q, void *const *items, size_t count)
{
    if (q == NULL || items == NULL)
        return SPN_EINVAL;
    if (q->ops->walk == NULL)
        return SPN_ENOTSUP;
    return sweep(q, items, count, false) != 0;
}

int64_t spn_queue_clear(spn_queue *q)
{
    void *batch[BATCH];
    int64_t total = 0, left, count;

    if (q == NULL)
        return SPN_EINVAL;
    if (q->ops->walk != NULL)
        return sweep(q, NULL, 0, true);
    for (left = q->ops->size(q); left > 0; left -= count) {
        count = spn_queue_drain(q, batch, left < BATCH ? (size_t)left : BATCH);
        if (count == 0)
            break;
        for (int64_t i = 0; i < count; i++)
            if (q->drop != NULL)
                q->drop(batch[i], q->ctx);
        total += count;
    }
    return total;
}

struct copy {
    void **items;
    size_t capacity;
    uint64_t count;
};

static int visit_copy(void *item, uint64_t serial, void *ctx)
{
    struct copy *c = ctx;

    (void)serial;
    if (c->count < c->capacity)
        c->items[c->count] = item;
    c->count++;
    return SPN__KEEP;
}

int64_t spn_queue_to_array(const spn_queue *q, void **items, size_t capacity)
{
    struct copy c = { items, capacity, 0 };

    if (q == NULL || (items == NULL && capacity != 0))
        return SPN_EINVAL;
    if (q->ops->walk == NULL)
        return SPN_ENOTSUP;
    walk(q, SPN__FIRST, visit_copy, &c);
    if (c.count < capacity)
        items[c.count] = NULL;
    return (int64_t)c.count;
}

/* ---- from queue to queue ------------------------------------------------ */

/*
 * An item is offered to the sink while the source is locked, and the source
 * lets go of it only if the sink took it: an item that is refused was never
 * away.  This is the one place where two queues are locked at once, so drains
 * go one at a time: two in opposite directions would wait for each other.
 */
struct spn__lock spn__queue_drain_lock = SPN__LOCK_INIT;

struct drain {
    spn_queue *sink;
    int64_t left, moved;
    int status;
};

static int visit_drain(void *item, uint64_t serial, void *ctx)
{
    struct drain *d = ctx;

    (void)serial;
    d->status = d->sink->ops->insert(d->sink, item, SPN__LAST, SPN__NO_PATIENCE);
    if (d->status != SPN_OK)
        return SPN__STOP;
    d->moved++;
    return --d->left == 0 ? SPN__TAKE | SPN__STOP : SPN__TAKE;
}

int spn_queue_drain_to(spn_queue *q, spn_queue *sink, int64_t max, int64_t *moved)
{
    struct drain d = { sink, max, 0, SPN_OK };

    if (moved != NULL)
        *moved = 0;
    if (q == NULL || sink == NULL || q == sink)
        return SPN_EINVAL;
    if (q->ops->drain == NULL)
        return SPN_ENOTSUP;
    if (max > 0) {
        spn__lock(&spn__queue_drain_lock);
        q->ops->drain(q, visit_drain, &d);
        spn__unlock(&spn__queue_drain_lock);
    }
    if (moved != NULL)
        *moved = d.moved;
    return d.status;
}

/* ---- iteration ----------------------------------------------------------- */

static int visit_snapshot(void *item, uint64_t serial, void *ctx)
{
    struct spn_queue_iter *iter = ctx;

    if (iter->count < iter->capacity)
        iter->seen[iter->count] = (struct spn__seen){ item, serial };
    iter->count++;
    return SPN__KEEP;
}

/* Listed before it looks, so that it hears of all that changes what it has seen. */
static void list_iter(struct spn_queue_iter *iter)
{
    spn__lock(&iter->queue->iters_lock);
    spn__list_push_back(&iter->queue->iters, &iter->link);
    spn__unlock(&iter->queue->iters_lock);
}

void spn_queue_iter_end(spn_queue_iter *iter)
{
    if (iter == NULL)
        return;
    spn__lock(&iter->queue->iters_lock);
    spn__list_remove(&iter->link);
    spn__unlock(&iter->queue->iters_lock);
    spn__free(iter);
}

static int begin(spn_queue_iter **out, spn_queue *q, enum spn__end end)
{
    size_t capacity;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (q == NULL)
        return SPN_EINVAL;
    if (q->ops->walk == NULL || (end == SPN__LAST && !spn__queue_is_deque(q)))
        return SPN_ENOTSUP;
    capacity = (size_t)q->ops->size(q);
    for (;;) {
        struct spn_queue_iter *iter;

        if (capacity > (SIZE_MAX - sizeof *iter) / sizeof iter->seen[0])
            return SPN_ENOMEM;
        iter = spn__alloc(sizeof *iter + capacity * sizeof iter->seen[0]);
        if (iter == NULL)
            return SPN_ENOMEM;
        *iter = (struct spn_queue_iter){ .queue = q, .capacity = capacity };
        list_iter(iter);
        walk(q, end, visit_snapshot, iter);
        if (iter->count <= capacity) {
            *out = iter;
            return SPN_OK;
        }
        capacity = iter->count + iter->count / 2; /* it grew meanwhile */
        spn_queue_iter_end(iter);
    }
}

int spn_queue_iter_begin(spn_queue_iter **out, spn_queue *q)
{
    return begin(out, q, SPN__FIRST);
}

int spn_queue_iter_begin_descending(spn_queue_iter **out, spn_queue *q)
{
    return begin(out, q, SPN__LAST);
}

int spn_queue_iter_next(spn_queue_iter *iter, void **item)
{
    if (item == NULL)
        return SPN_EINVAL;
    *item = NULL;
    if (iter == NULL)
        return SPN_EINVAL;
    if (iter->next == iter->count)
        return SPN_EEMPTY;
    *item = iter->seen[iter->next++].item;
    iter->removable = true;
    return SPN_OK;
}

struct removal {
    const struct spn__seen *seen; /* its serial may change until the queue is locked */
    bool found;
};

static int visit_removal(void *item, uint64_t serial, void *ctx)
{
    struct removal *r = ctx;

    (void)item;
    if (serial != r->seen->serial)
        return SPN__KEEP;
    r->found = true;
    return SPN__TAKE | SPN__STOP;
}

int spn_queue_iter_remove(spn_queue_iter *iter)
{
    struct removal r;

    if (iter == NULL)
        return SPN_EINVAL;
    if (!iter->removable)
        return SPN_ESTATE;
    iter->removable = false;
    r = (struct removal){ &iter->seen[iter->next - 1], false };
    walk(iter->queue, SPN__FIRST, visit_removal, &r);
    return r.found ? SPN_OK : SPN_EEMPTY;
}
