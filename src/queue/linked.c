/* SPDX-License-Identifier: MIT */
/*
 * linked.c - FIFO with a lock at each end, bounded or not.
 *
 * OVERVIEW
 *   Items lie in chunks of CHUNK slots, linked from head to tail; producers
 *   write at the tail under one lock and consumers read at the head under
 *   another, so the two sides run at the same time and an allocation serves
 *   many items.  A chunk that has been emptied is kept for the next one.
 *
 *   `count` is the only thing both sides change.  Whoever finds no room or no
 *   item sleeps on an event count; whoever makes room or brings an item
 *   notifies one.  A woken thread tries again: it may be overtaken.
 *
 *   Removal from inside takes both locks and leaves a NULL in the slot; readers
 *   pass over it.
 *
 * ORDERING
 *   [count] a producer's release increment follows its write of the slot and
 *           pairs with the acquire load of consumers: count > 0 says that so
 *           many slots from the head on are written.  A consumer's release
 *           decrement follows its read of the slot and pairs with the acquire
 *           load of producers; it gives back room, and through `spare` a chunk.
 *   [spare] a chunk passes from consumers to producers through the exchanges of
 *           `spare`: release there, acquire here.
 *   [closed] close stores the flag with put_lock held, so after it no insert
 *           comes; a consumer that sees it (acquire) and then finds count zero
 *           has seen the end.
 *
 * LOCKS  put_lock before take_lock, where both are held.
 *
 * LIFE   `inside` counts threads in a wait; destroy is refused while there are
 *   any, woken ones included, because those touch the queue again.
 */
#include "queue/queue.h"

#include "sync/eventcount.h"

enum { CHUNK = 62 }; /* with next and base: 512 bytes */

struct chunk {
    struct chunk *next; /* written by producers before the count says so */
    uint64_t base;      /* serial of slot[0] */
    void *slot[CHUNK];
};

struct linked {
    struct spn_queue q;
    SPN__ATOMIC(uint32_t) closed;
    SPN__ATOMIC(int32_t) inside;
    SPN__ATOMIC(struct chunk *) spare; /* an empty chunk for reuse, or NULL */

    _Alignas(SPN__CACHE_LINE) struct spn__lock put_lock; /* guards tail, written */
    struct chunk *tail;
    uint32_t written; /* slots of tail in use */

    _Alignas(SPN__CACHE_LINE) struct spn__lock take_lock; /* guards head, read */
    struct chunk *head;
    uint32_t read; /* slots of head done with */

    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(int64_t) count;
    _Alignas(SPN__CACHE_LINE) struct spn__eventcount not_empty;
    _Alignas(SPN__CACHE_LINE) struct spn__eventcount not_full;
};

static struct linked *linked_of(spn_queue *q)
{
    return (struct linked *)(void *)q;
}

static bool is_closed(const struct linked *l)
{
    return spn__load(&l->closed, acquire) != 0; /* [closed] */
}

static bool has_room(const struct linked *l)
{
    return spn__load(&l->count, acquire) < l->q.capacity; /* [count] */
}

static bool has_items(const struct linked *l)
{
    return spn__load(&l->count, acquire) > 0; /* [count] */
}

/* ---- the two ends -------------------------------------------------------- */

/* A chunk to write into; put_lock is held.  False: no memory. */
static bool extend(struct linked *l)
{
    struct chunk *chunk = NULL;

    if (spn__load(&l->spare, relaxed) != NULL) /* a look before the exchange */
        chunk = spn__exchange(&l->spare, NULL, acquire); /* [spare] */
    if (chunk == NULL)
        chunk = spn__alloc(sizeof *chunk);
    if (chunk == NULL)
        return false;
    chunk->next = NULL;
    chunk->base = l->tail->base + CHUNK;
    l->tail->next = chunk;
    l->tail = chunk;
    l->written = 0;
    return true;
}

/* Writes up to `count` items; put_lock is held.  *done says how many; SPN_OK
 * only if all. */
static int write_items(struct linked *l, void *const *items, size_t count, size_t *done)
{
    int rc = SPN_OK;

    /* [closed] put_lock orders it; relaxed would do. */
    if (is_closed(l))
        return SPN_ECLOSED;
    for (*done = 0; *done < count; (*done)++) {
        /* Only we raise the count: what is free stays free. */
        if (l->q.capacity != INT32_MAX &&
            spn__load(&l->count, acquire) + (int64_t)*done >=
                l->q.capacity) { /* [count] */
            rc = SPN_EFULL;
            break;
        }
        if (l->written == CHUNK && !extend(l)) {
            rc = SPN_ENOMEM;
            break;
        }
        l->tail->slot[l->written++] = items[*done];
    }
    if (*done != 0)
        (void)spn__fetch_add(&l->count, (int64_t)*done, release); /* [count] */
    return rc;
}

/* Goes past a chunk that is done with; take_lock is held. */
static void retire_head(struct linked *l)
{
    struct chunk *done = l->head;

    l->head = done->next;
    l->read = 0;
    done = spn__exchange(&l->spare, done, acq_rel); /* [spare] */
    spn__free(done);
}

/* Reads up to `capacity` items; take_lock is held. */
static size_t read_items(struct linked *l, void **items, size_t capacity)
{
    const int64_t there = spn__load(&l->count, acquire); /* [count] */
    size_t wanted = there < 0 ? 0 : (size_t)there, done = 0;

    if (wanted > capacity)
        wanted = capacity;
    while (done < wanted) {
        void **slot;

        if (l->read == CHUNK)
            retire_head(l);
        slot = &l->head->slot[l->read++];
        if (*slot != NULL) /* else taken out from inside */
            items[done++] = *slot;
        *slot = NULL;
    }
    if (done != 0)
        (void)spn__fetch_sub(&l->count, (int64_t)done, release); /* [count] */
    return done;
}

/* ---- insert and remove ---------------------------------------------------- */

/* Sleeps until the other side may have changed what `ready` looks at. */
static int await_change(struct linked *l, struct spn__eventcount *ec,
                        bool (*ready)(const struct linked *), int64_t deadline_ns)
{
    struct spn__waiter w;
    int rc = spn__eventcount_prepare(ec, &w);

    if (rc != SPN_OK)
        return rc;
    if (!ready(l) && !is_closed(l))
        return spn__eventcount_wait(ec, &w, deadline_ns);
    spn__eventcount_cancel(ec, &w);
    return SPN_OK;
}

static int linked_insert_many(spn_queue *q, void *const *items, size_t count,
                              struct spn__patience p, size_t *done)
{
    struct linked *l = linked_of(q);
    bool waited = false;
    int rc;

    *done = 0;
    for (;;) {
        size_t written = 0;

        spn__lock(&l->put_lock);
        rc = write_items(l, items + *done, count - *done, &written);
        spn__unlock(&l->put_lock);
        *done += written;
        spn__eventcount_notify_many(&l->not_empty, written);
        if (rc != SPN_EFULL || p.now)
            break;
        if (!waited) {
            waited = true;
            (void)spn__fetch_add(&l->inside, 1, relaxed); /* counted before it sleeps */
        }
        rc = await_change(l, &l->not_full, has_room, p.deadline_ns);
        if (rc != SPN_OK)
            break;
    }
    if (waited)
        (void)spn__fetch_sub(&l->inside, 1, release); /* our last touch of it */
    return rc;
}

static int linked_remove_many(spn_queue *q, void **items, size_t capacity,
                              struct spn__patience p, size_t *count)
{
    struct linked *l = linked_of(q);
    bool waited = false;
    int rc = SPN_OK;

    for (;;) {
        const bool closed = is_closed(l); /* before the look at the count */

        spn__lock(&l->take_lock);
        *count = read_items(l, items, capacity);
        spn__unlock(&l->take_lock);
        if (l->q.capacity != INT32_MAX)
            spn__eventcount_notify_many(&l->not_full, *count);
        if (*count != 0)
            break;
        rc = p.now ? SPN_EEMPTY : closed ? SPN_ECLOSED : SPN_OK;
        if (rc != SPN_OK)
            break;
        if (!waited) {
            waited = true;
            (void)spn__fetch_add(&l->inside, 1, relaxed); /* counted before it sleeps */
        }
        rc = await_change(l, &l->not_empty, has_items, p.deadline_ns);
        if (rc != SPN_OK)
            break;
    }
    if (waited)
        (void)spn__fetch_sub(&l->inside, 1, release); /* our last touch of it */
    return *count != 0 ? SPN_OK : rc;
}

static int linked_insert(spn_queue *q, void *item, enum spn__end end,
                         struct spn__patience p)
{
    size_t done;

    (void)end;
    return linked_insert_many(q, &item, 1, p, &done);
}

static int linked_remove(spn_queue *q, void **item, enum spn__end end,
                         struct spn__patience p)
{
    size_t count;
    int rc;

    (void)end;
    rc = linked_remove_many(q, item, 1, p, &count);
    if (rc != SPN_OK)
        *item = NULL;
    return rc;
}

/* ---- looking inside --------------------------------------------------------- */

static void *linked_peek(spn_queue *q, enum spn__end end)
{
    struct linked *l = linked_of(q);
    void *item = NULL;

    (void)end;
    spn__lock(&l->take_lock);
    if (has_items(l)) {
        const struct chunk *chunk = l->head;
        uint32_t at = l->read;

        while (item == NULL) {
            if (at == CHUNK) {
                chunk = chunk->next;
                at = 0;
            }
            item = chunk->slot[at++];
        }
    }
    spn__unlock(&l->take_lock);
    return item;
}

/* Both locks, so that nothing moves; each slot from the head to the tail. */
static void linked_walk(spn_queue *q, enum spn__end end, spn__walk_fn visit, void *ctx)
{
    struct linked *l = linked_of(q);
    struct chunk *chunk;
    uint32_t at;
    size_t taken = 0;
    int verdict = SPN__KEEP;

    (void)end;
    spn__lock(&l->put_lock);
    spn__lock(&l->take_lock);
    for (chunk = l->head, at = l->read; (verdict & SPN__STOP) == 0; at++) {
        if (chunk == l->tail && at == l->written)
            break;
        if (at == CHUNK) {
            chunk = chunk->next;
            at = 0;
            if (chunk == l->tail && l->written == 0)
                break;
        }
        if (chunk->slot[at] == NULL)
            continue;
        verdict = visit(chunk->slot[at], chunk->base + at, ctx);
        if ((verdict & SPN__TAKE) != 0) {
            chunk->slot[at] = NULL;
            taken++;
        }
    }
    if (taken != 0)
        (void)spn__fetch_sub(&l->count, (int64_t)taken, release); /* [count] */
    spn__unlock(&l->take_lock);
    spn__unlock(&l->put_lock);
    if (l->q.capacity != INT32_MAX)
        spn__eventcount_notify_many(&l->not_full, taken);
}

static void linked_drain(spn_queue *q, spn__walk_fn visit, void *ctx)
{
    linked_walk(q, SPN__FIRST, visit, ctx);
}

static int64_t linked_size(const spn_queue *q)
{
    const struct linked *l = (const struct linked *)(const void *)q;

    return spn__load(&l->count, relaxed); /* a number, out of date already */
}

static int32_t linked_waiting_consumers(spn_queue *q)
{
    struct linked *l = linked_of(q);

    return (int32_t)spn__load(&l->not_empty.waiting, relaxed); /* a number */
}

/* ---- life ------------------------------------------------------------------ */

static void linked_close(spn_queue *q)
{
    struct linked *l = linked_of(q);

    spn__lock(&l->put_lock);
    spn__store(&l->closed, 1, release); /* [closed] */
    spn__unlock(&l->put_lock);
    spn__eventcount_notify_all(&l->not_empty);
    spn__eventcount_notify_all(&l->not_full);
}

static bool linked_is_closed(const spn_queue *q)
{
    return is_closed((const struct linked *)(const void *)q);
}

static bool linked_busy(spn_queue *q)
{
    /* acquire: with the release of those who left, their last touch. */
    return spn__load(&linked_of(q)->inside, acquire) != 0;
}

static void linked_free(spn_queue *q)
{
    struct linked *l = linked_of(q);
    struct chunk *chunk = l->head;

    while (chunk != NULL) {
        struct chunk *next = chunk->next;

        spn__free(chunk);
        chunk = next;
    }
    spn__free(spn__load(&l->spare, relaxed)); /* nobody else is here */
    spn__free(l);
}

static const struct spn__queue_ops linked_ops = {
    .insert = linked_insert,
    .remove = linked_remove,
    .insert_many = linked_insert_many,
    .remove_many = linked_remove_many,
    .peek = linked_peek,
    .walk = linked_walk,
    .drain = linked_drain,
    .size = linked_size,
    .waiting_consumers = linked_waiting_consumers,
    .close = linked_close,
    .is_closed = linked_is_closed,
    .busy = linked_busy,
    .free = linked_free,
};

spn_queue *spn__queue_create_linked(const spn_queue_opts *o)
{
    struct linked *l = spn__alloc_aligned(sizeof *l, SPN__CACHE_LINE);
    struct chunk *chunk;

    if (l == NULL)
        return NULL;
    chunk = spn__alloc(sizeof *chunk);
    if (chunk == NULL) {
        spn__free(l);
        return NULL;
    }
    chunk->next = NULL;
    chunk->base = 0;
    spn__queue_init(&l->q, SPN_QUEUE_LINKED, &linked_ops, o);
    spn__init(&l->closed, 0);
    spn__init(&l->inside, 0);
    spn__init(&l->spare, NULL);
    spn__lock_init(&l->put_lock);
    l->tail = l->head = chunk;
    l->written = l->read = 0;
    spn__lock_init(&l->take_lock);
    spn__init(&l->count, 0);
    spn__eventcount_init(&l->not_empty, true);
    spn__eventcount_init(&l->not_full, true);
    return &l->q;
}
