/* SPDX-License-Identifier: MIT */
/*
 * queue.c - the public calls of all queues that bring items in and out at the
 * ends, one and several.  What looks inside, or reaches there, is in walk.c.
 *
 * INTERRUPT  Where the contract says that a flag set beforehand wins even if the
 *            call could go ahead, it is looked at here, before the kind
 *            is asked; everywhere else only a wait looks at it.
 */
#include "queue/queue.h"

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
    left = spn__queue_empty(q);
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

/* ---- one item ---------------------------------------------------------- */

/* Whether a call that may wait looks at the flag before all else. */
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

/* Whether the flag ends a call that may wait. */
static inline bool interrupted_first(const spn_queue *q, bool inserts)
{
    /* A thread without a record was never interrupted. */
    struct spn_thread *self = spn__self_get();

    return self != NULL && flag_comes_first(q, inserts) && spn__interrupt_take(self);
}

static struct spn__patience wait_for(int64_t timeout_ns)
{
    if (timeout_ns <= 0)
        return SPN__NO_PATIENCE;
    if (timeout_ns == SPN_FOREVER) /* needs no clock */
        return SPN__ALL_PATIENCE;
    return (struct spn__patience){ false, spn__deadline(spn__now(), timeout_ns) };
}

/* The calls with one item are written out into their callers, those without a limit
 * apart: shared, an item costs half as many instructions again (scripts/cost). */
#define HOT static inline __attribute__((always_inline))

static int insert_within(spn_queue *q, void *item, enum spn__end end,
                         int64_t timeout_ns)
{
    if (timeout_ns > 0 && interrupted_first(q, true))
        return SPN_EINTR;
    return q->ops->insert(q, item, end, wait_for(timeout_ns));
}

HOT int insert(spn_queue *q, void *item, enum spn__end end, int64_t timeout_ns)
{
    if (q == NULL || item == NULL)
        return SPN_EINVAL;
    if (end == SPN__FIRST && !spn__queue_is_deque(q))
        return SPN_ENOTSUP;
    if (timeout_ns != SPN_FOREVER)
        return insert_within(q, item, end, timeout_ns);
    if (interrupted_first(q, true))
        return SPN_EINTR;
    return q->ops->insert(q, item, end, SPN__ALL_PATIENCE);
}

int spn_queue_put(spn_queue *q, void *item, int64_t timeout_ns)
{
    return insert(q, item, SPN__LAST, timeout_ns);
}

int spn_queue_put_first(spn_queue *q, void *item, int64_t timeout_ns)
{
    return insert(q, item, SPN__FIRST, timeout_ns);
}

/* The checks of a call that gives out an item from one end. */
HOT int check_out(spn_queue *q, void **item, enum spn__end end)
{
    if (item == NULL)
        return SPN_EINVAL;
    *item = NULL;
    if (q == NULL)
        return SPN_EINVAL;
    return end == SPN__LAST && !spn__queue_is_deque(q) ? SPN_ENOTSUP : SPN_OK;
}

static int remove_within(spn_queue *q, void **item, enum spn__end end,
                         int64_t timeout_ns)
{
    if (timeout_ns > 0 && interrupted_first(q, false))
        return SPN_EINTR;
    return q->ops->remove(q, item, end, wait_for(timeout_ns));
}

HOT int remove_from(spn_queue *q, void **item, enum spn__end end, int64_t timeout_ns)
{
    const int rc = check_out(q, item, end);

    if (rc != SPN_OK)
        return rc;
    if (timeout_ns != SPN_FOREVER)
        return remove_within(q, item, end, timeout_ns);
    if (interrupted_first(q, false))
        return SPN_EINTR;
    return q->ops->remove(q, item, end, SPN__ALL_PATIENCE);
}

int spn_queue_take(spn_queue *q, void **item, int64_t timeout_ns)
{
    return remove_from(q, item, SPN__FIRST, timeout_ns);
}

int spn_queue_take_last(spn_queue *q, void **item, int64_t timeout_ns)
{
    return remove_from(q, item, SPN__LAST, timeout_ns);
}

static int peek(spn_queue *q, void **item, enum spn__end end)
{
    const int rc = check_out(q, item, end);

    if (rc != SPN_OK)
        return rc;
    *item = q->ops->peek(q, end);
    return *item != NULL ? SPN_OK : SPN_EEMPTY;
}

int spn_queue_peek(spn_queue *q, void **item)
{
    return peek(q, item, SPN__FIRST);
}

int spn_queue_peek_last(spn_queue *q, void **item)
{
    return peek(q, item, SPN__LAST);
}

int spn_queue_transfer(spn_queue *q, void *item, int64_t timeout_ns)
{
    if (q == NULL || item == NULL)
        return SPN_EINVAL;
    if (q->kind != SPN_QUEUE_TRANSFER)
        return SPN_ENOTSUP;
    return q->ops->transfer(q, item, wait_for(timeout_ns));
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
    if (timeout_ns > 0 && interrupted_first(q, true))
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
    if (timeout_ns > 0 && interrupted_first(q, false))
        return SPN_EINTR;
    return q->ops->remove_many(q, items, capacity, wait_for(timeout_ns), count);
}
