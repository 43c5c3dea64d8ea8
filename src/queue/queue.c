/* SPDX-License-Identifier: MIT */
/*
 * queue.c - the public calls of all queues: arguments, styles of waiting, and
 * what can be built from a few operations of each kind.
 *
 * INTERRUPT  Where the contract says that a flag set beforehand wins even if the
 *            call could go ahead, it is looked at here, before the kind
 *            is asked; everywhere else only a wait looks at it.
 */
#include "queue/queue.h"

#include <string.h>

#include "base/options.h"
#include "base/time.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

/* ---- life -------------------------------------------------------------- */

void spn__queue_init(spn_queue *q, spn_queue_kind kind,
                     const struct spn__queue_ops *ops, const spn_queue_opts *o)
{
    q->ops = ops;
    q->kind = kind;
    q->capacity = o->capacity == SPN_DEFAULT ? INT32_MAX : o->capacity;
    q->fair = o->fair == 1;
    q->compare = o->compare;
    q->due = o->due;
    q->equal = o->equal;
    q->drop = o->drop;
    q->ctx = o->ctx;
    q->clock = o->clock;
    spn__lock_init(&q->iters_lock);
    spn__list_init(&q->iters);
}

/* The largest ring: 2^30 cells of 16 bytes. */
enum { RING_MAX = 1 << 30 };

static bool valid_opts(spn_queue_kind kind, const spn_queue_opts *o)
{
    const bool given = o->capacity != SPN_DEFAULT;

    if ((given && o->capacity < 1) || o->fair > 1)
        return false;
    if (o->fair == 1 && kind != SPN_QUEUE_ARRAY && kind != SPN_QUEUE_SYNCHRONOUS)
        return false;
    if (kind != SPN_QUEUE_PRIORITY && o->compare != NULL)
        return false;
    if (kind != SPN_QUEUE_DELAY && (o->due != NULL || o->clock != NULL))
        return false;
    if (o->spins_timed < -1 || o->spins_untimed < -1)
        return false;
    if ((o->spins_timed != 0 || o->spins_untimed != 0) &&
        kind != SPN_QUEUE_SYNCHRONOUS && kind != SPN_QUEUE_TRANSFER)
        return false;
    switch (kind) {
    case SPN_QUEUE_LINKED:
    case SPN_QUEUE_DEQUE:
        return true;
    case SPN_QUEUE_ARRAY:
        return given;
    case SPN_QUEUE_RING:
        return given && o->capacity <= RING_MAX && o->equal == NULL;
    case SPN_QUEUE_PRIORITY:
        return o->compare != NULL; /* a capacity is only a hint (PBQ-1) */
    case SPN_QUEUE_DELAY:
        return !given && o->due != NULL;
    case SPN_QUEUE_SYNCHRONOUS:
    case SPN_QUEUE_TRANSFER:
        return !given;
    }
    return false;
}

#ifdef SPN_AUDIT
static const char *const kind_names[] = {
    [SPN_QUEUE_LINKED] = "linked",     [SPN_QUEUE_ARRAY] = "array",
    [SPN_QUEUE_RING] = "ring",         [SPN_QUEUE_PRIORITY] = "priority",
    [SPN_QUEUE_DELAY] = "delay",       [SPN_QUEUE_SYNCHRONOUS] = "synchronous",
    [SPN_QUEUE_TRANSFER] = "transfer", [SPN_QUEUE_DEQUE] = "deque",
};
#endif

int spn_queue_create(spn_queue **out, spn_queue_kind kind, const spn_queue_opts *opts)
{
    spn_queue_opts o = SPN_QUEUE_OPTS_INIT;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (!valid_opts(kind, &o))
        return SPN_EINVAL;
    switch (kind) {
    case SPN_QUEUE_LINKED:
        *out = spn__queue_create_fifo(kind, &o);
        break;
    case SPN_QUEUE_ARRAY:
        /* Nobody is overtaken in a monitor; two locks are faster. */
        *out = o.fair == 1 ? spn__queue_create_monitor(kind, &o)
                           : spn__queue_create_fifo(kind, &o);
        break;
    case SPN_QUEUE_RING:
        *out = spn__queue_create_ring(&o);
        break;
    case SPN_QUEUE_DELAY:
        *out = spn__queue_create_delay(&o);
        break;
    case SPN_QUEUE_PRIORITY:
    case SPN_QUEUE_SYNCHRONOUS:
    case SPN_QUEUE_TRANSFER:
    case SPN_QUEUE_DEQUE:
        *out = spn__queue_create_monitor(kind, &o);
        break;
    }
    if (*out == NULL)
        return SPN_ENOMEM;
    spn__audit_made(*out, "queue", kind_names[kind], "");
    return SPN_OK;
}

int spn_queue_destroy(spn_queue *q)
{
    int64_t left;

    if (q == NULL)
        return SPN_OK;
    if (q->ops->busy(q))
        return SPN_EBUSY;
    left = spn_queue_clear(q);
    if (left > 0 && q->drop == NULL)
        spn__misuse("queue %p is destroyed with %lld items, and nobody drops them",
                    (void *)q, (long long)left);
    spn__audit_gone(q);
    q->ops->release(q);
    return SPN_OK;
}

int spn_queue_close(spn_queue *q)
{
    if (q == NULL)
        return SPN_EINVAL;
    q->ops->close(q);
    return SPN_OK;
}

int spn_queue_is_closed(const spn_queue *q)
{
    return q == NULL ? SPN_EINVAL : q->ops->is_closed(q);
}

/* ---- one item ---------------------------------------------------------- */

/* Whether a blocking call looks at the flag before all else. */
static bool flag_comes_first(const spn_queue *q, bool inserts)
{
    switch (q->kind) {
    case SPN_QUEUE_LINKED:
    case SPN_QUEUE_ARRAY:
    case SPN_QUEUE_RING:
    case SPN_QUEUE_DEQUE:
        return true;
    case SPN_QUEUE_PRIORITY:
    case SPN_QUEUE_DELAY:
        return !inserts; /* their inserts never wait */
    case SPN_QUEUE_SYNCHRONOUS:
    case SPN_QUEUE_TRANSFER:
        break;
    }
    return false;
}

static bool interrupted_first(const spn_queue *q, bool inserts)
{
    /* A thread without a record was never interrupted. */
    struct spn_thread *self = spn__self_get();

    return self != NULL && flag_comes_first(q, inserts) && spn__interrupt_take(self);
}

static struct spn__patience wait_for(int64_t timeout_ns)
{
    /* For ever needs no clock. */
    const int64_t deadline_ns =
        timeout_ns == SPN_FOREVER ? SPN_FOREVER : spn__deadline(spn__now(), timeout_ns);

    return (struct spn__patience){ false, deadline_ns };
}

static bool is_deque(const spn_queue *q)
{
    return q->kind == SPN_QUEUE_DEQUE;
}

static int insert_now(spn_queue *q, void *item, enum spn__end end)
{
    if (q == NULL || item == NULL)
        return SPN_EINVAL;
    if (end == SPN__FIRST && !is_deque(q))
        return SPN_ENOTSUP;
    return q->ops->insert(q, item, end, SPN__NO_PATIENCE);
}

static int insert_timed(spn_queue *q, void *item, enum spn__end end, int64_t timeout_ns)
{
    if (q == NULL || item == NULL)
        return SPN_EINVAL;
    if (end == SPN__FIRST && !is_deque(q))
        return SPN_ENOTSUP;
    if (interrupted_first(q, true))
        return SPN_EINTR;
    return q->ops->insert(q, item, end, wait_for(timeout_ns));
}

/* 1, 0 or an error, from a status. */
static int answer(int status, int no)
{
    return status == SPN_OK ? 1 : status == no ? 0 : status;
}

int spn_queue_add(spn_queue *q, void *item)
{
    return insert_now(q, item, SPN__LAST);
}

int spn_queue_offer(spn_queue *q, void *item)
{
    return answer(insert_now(q, item, SPN__LAST), SPN_EFULL);
}

int spn_queue_put(spn_queue *q, void *item)
{
    return insert_timed(q, item, SPN__LAST, SPN_FOREVER);
}

int spn_queue_offer_timed(spn_queue *q, void *item, int64_t timeout_ns)
{
    return insert_timed(q, item, SPN__LAST, timeout_ns);
}

int spn_queue_add_first(spn_queue *q, void *item)
{
    return insert_now(q, item, SPN__FIRST);
}

int spn_queue_offer_first(spn_queue *q, void *item)
{
    return answer(insert_now(q, item, SPN__FIRST), SPN_EFULL);
}

int spn_queue_put_first(spn_queue *q, void *item)
{
    return insert_timed(q, item, SPN__FIRST, SPN_FOREVER);
}

int spn_queue_offer_first_timed(spn_queue *q, void *item, int64_t timeout_ns)
{
    return insert_timed(q, item, SPN__FIRST, timeout_ns);
}

static int remove_now(spn_queue *q, void **item, enum spn__end end)
{
    if (item == NULL)
        return SPN_EINVAL;
    *item = NULL;
    if (q == NULL)
        return SPN_EINVAL;
    if (end == SPN__LAST && !is_deque(q))
        return SPN_ENOTSUP;
    return q->ops->remove(q, item, end, SPN__NO_PATIENCE);
}

static int remove_timed(spn_queue *q, void **item, enum spn__end end,
                        int64_t timeout_ns)
{
    if (item == NULL)
        return SPN_EINVAL;
    *item = NULL;
    if (q == NULL)
        return SPN_EINVAL;
    if (end == SPN__LAST && !is_deque(q))
        return SPN_ENOTSUP;
    if (interrupted_first(q, false))
        return SPN_EINTR;
    return q->ops->remove(q, item, end, wait_for(timeout_ns));
}

static int examine(spn_queue *q, void **item, enum spn__end end)
{
    if (item == NULL)
        return SPN_EINVAL;
    *item = NULL;
    if (q == NULL)
        return SPN_EINVAL;
    if (end == SPN__LAST && !is_deque(q))
        return SPN_ENOTSUP;
    *item = q->ops->peek(q, end);
    return *item != NULL ? SPN_OK : SPN_EEMPTY;
}

int spn_queue_remove(spn_queue *q, void **item)
{
    return remove_now(q, item, SPN__FIRST);
}

void *spn_queue_poll(spn_queue *q)
{
    void *item;

    (void)remove_now(q, &item, SPN__FIRST);
    return item;
}

int spn_queue_take(spn_queue *q, void **item)
{
    return remove_timed(q, item, SPN__FIRST, SPN_FOREVER);
}

int spn_queue_poll_timed(spn_queue *q, void **item, int64_t timeout_ns)
{
    return remove_timed(q, item, SPN__FIRST, timeout_ns);
}

int spn_queue_element(spn_queue *q, void **item)
{
    return examine(q, item, SPN__FIRST);
}

void *spn_queue_peek(spn_queue *q)
{
    void *item;

    (void)examine(q, &item, SPN__FIRST);
    return item;
}

int spn_queue_remove_last(spn_queue *q, void **item)
{
    return remove_now(q, item, SPN__LAST);
}

void *spn_queue_poll_last(spn_queue *q)
{
    void *item;

    (void)remove_now(q, &item, SPN__LAST);
    return item;
}

int spn_queue_take_last(spn_queue *q, void **item)
{
    return remove_timed(q, item, SPN__LAST, SPN_FOREVER);
}

int spn_queue_poll_last_timed(spn_queue *q, void **item, int64_t timeout_ns)
{
    return remove_timed(q, item, SPN__LAST, timeout_ns);
}

int spn_queue_element_last(spn_queue *q, void **item)
{
    return examine(q, item, SPN__LAST);
}

void *spn_queue_peek_last(spn_queue *q)
{
    void *item;

    (void)examine(q, &item, SPN__LAST);
    return item;
}

/* ---- transfer ---------------------------------------------------------- */

static int transfer(spn_queue *q, void *item, struct spn__patience p)
{
    if (q == NULL || item == NULL)
        return SPN_EINVAL;
    if (q->kind != SPN_QUEUE_TRANSFER)
        return SPN_ENOTSUP;
    return q->ops->transfer(q, item, p);
}

int spn_queue_transfer(spn_queue *q, void *item)
{
    return transfer(q, item, wait_for(SPN_FOREVER));
}

int spn_queue_try_transfer(spn_queue *q, void *item)
{
    return transfer(q, item, SPN__NO_PATIENCE);
}

int spn_queue_try_transfer_timed(spn_queue *q, void *item, int64_t timeout_ns)
{
    return transfer(q, item, wait_for(timeout_ns));
}

int32_t spn_queue_waiting_consumers(const spn_queue *q)
{
    /* The kinds lock to count, which a reader of a const queue need not know. */
    return q == NULL ? SPN_EINVAL
                     : q->ops->waiting_consumers((spn_queue *)(uintptr_t)q);
}

/* ---- several items ----------------------------------------------------- */

static bool any_null(void *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i] == NULL)
            return true;
    return false;
}

int spn__queue_insert_each(spn_queue *q, void *const *items, size_t count,
                           struct spn__patience p, size_t *done)
{
    for (*done = 0; *done < count; (*done)++) {
        const int rc = q->ops->insert(q, items[*done], SPN__LAST, p);

        if (rc != SPN_OK)
            return rc;
    }
    return SPN_OK;
}

int spn__queue_remove_each(spn_queue *q, void **items, size_t capacity,
                           struct spn__patience p, size_t *count)
{
    int rc = SPN_OK;

    for (*count = 0; *count < capacity; (*count)++) {
        rc = q->ops->remove(q, &items[*count], SPN__FIRST,
                            *count == 0 ? p : SPN__NO_PATIENCE);
        if (rc != SPN_OK)
            break;
    }
    return *count > 0 ? SPN_OK : rc;
}

int spn_queue_put_many(spn_queue *q, void *const *items, size_t count,
                       int64_t timeout_ns, size_t *done)
{
    size_t inserted = 0;
    int rc;

    if (done != NULL)
        *done = 0;
    if (q == NULL || items == NULL || any_null(items, count))
        return SPN_EINVAL;
    if (count == 0)
        return SPN_OK;
    if (interrupted_first(q, true))
        return SPN_EINTR;
    rc = q->ops->insert_many(q, items, count, wait_for(timeout_ns), &inserted);
    if (done != NULL)
        *done = inserted;
    return rc;
}

int spn_queue_take_many(spn_queue *q, void **items, size_t capacity, int64_t timeout_ns,
                        size_t *count)
{
    if (count == NULL)
        return SPN_EINVAL;
    *count = 0;
    if (q == NULL || items == NULL || capacity == 0)
        return SPN_EINVAL;
    if (interrupted_first(q, false))
        return SPN_EINTR;
    return q->ops->remove_many(q, items, capacity, wait_for(timeout_ns), count);
}

int spn_queue_add_all(spn_queue *q, void *const *items, size_t count, size_t *done)
{
    size_t inserted = 0;
    int rc;

    if (done != NULL)
        *done = 0;
    if (q == NULL || items == NULL || any_null(items, count))
        return SPN_EINVAL;
    if (count == 0)
        return SPN_OK;
    rc = q->ops->insert_many(q, items, count, SPN__NO_PATIENCE, &inserted);
    if (done != NULL)
        *done = inserted;
    return rc;
}

int64_t spn_queue_drain(spn_queue *q, void **items, size_t capacity)
{
    size_t count = 0;

    if (q == NULL || items == NULL)
        return SPN_EINVAL;
    if (capacity != 0)
        (void)q->ops->remove_many(q, items, capacity, SPN__NO_PATIENCE, &count);
    return (int64_t)count;
}

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
    if (q != NULL && !is_deque(q))
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
    if (q->ops->walk == NULL || (end == SPN__LAST && !is_deque(q)))
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
