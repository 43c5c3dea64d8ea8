/* SPDX-License-Identifier: MIT */
/*
 * queue.c - the public calls of all queues that bring items in and out at the
 * ends: arguments, styles of waiting, one item and several.  What looks inside, or
 * reaches there, is in inside.c.
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

static int insert_now(spn_queue *q, void *item, enum spn__end end)
{
    if (q == NULL || item == NULL)
        return SPN_EINVAL;
    if (end == SPN__FIRST && !spn__queue_is_deque(q))
        return SPN_ENOTSUP;
    return q->ops->insert(q, item, end, SPN__NO_PATIENCE);
}

static int insert_timed(spn_queue *q, void *item, enum spn__end end, int64_t timeout_ns)
{
    if (q == NULL || item == NULL)
        return SPN_EINVAL;
    if (end == SPN__FIRST && !spn__queue_is_deque(q))
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
    if (end == SPN__LAST && !spn__queue_is_deque(q))
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
    if (end == SPN__LAST && !spn__queue_is_deque(q))
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
    if (end == SPN__LAST && !spn__queue_is_deque(q))
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
