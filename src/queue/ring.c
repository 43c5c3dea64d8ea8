/* SPDX-License-Identifier: MIT */
/*
 * ring.c - the fast bounded FIFO: cells in a circle, each with a number that
 * says whose turn it is.  No lock; many producers, many consumers.
 *
 * OVERVIEW
 *   Positions count up for ever; position p lives in cell p mod size.  A cell's
 *   `turn` is p when it is free for the producer of position p, and p + 1 when
 *   it holds that producer's item; its consumer sets it to p + size, free for
 *   the next round.  A producer claims positions by moving `tail`, a consumer by
 *   moving `head`; both look at the turns first, so a claim never has to wait
 *   for another thread.  After Vyukov's bounded queue.
 *
 *   A thread that was preempted between its claim and its turn holds up those
 *   behind it: they find the ring empty (or full) and sleep, and it wakes them
 *   when it goes on.
 *
 * WAKING
 *   Each publication of a turn is followed by a notification of the other side:
 *   one per item, none when nobody waits.  Notifying less often, say only when
 *   the ring has run half empty, is faster on paper and can leave everybody
 *   asleep: a consumer that takes the last items and sleeps has woken nobody.
 *
 *   One per item is not enough by itself.  A consumer that is woken for the
 *   second item while the first one's producer is still between claim and turn
 *   finds nothing and sleeps again, and its notification is used up.  When the
 *   first item comes one consumer wakes, and nobody knows of the second.  So a
 *   thread that has slept, and then got what it wanted, looks whether there is
 *   more, and wakes the next (`pass_on`); that one has slept too.
 *
 * ORDERING
 *   [turn] the release store of a turn pairs with the acquire load by the other
 *          side: with p + 1 goes the item, with p + size the room.
 *   [peek] a peek may find the item of a later round in the cell.  The release
 *          store of the item pairs with its acquire load, so it has the item
 *          whole, and sees that head has moved on.
 *   head and tail are relaxed: they decide who has a position; the turn is what
 *   is synchronised on.
 *   [closed] is a bit of `tail`, so that closing stops the claims themselves:
 *          after it no position is claimed, and a consumer that finds head equal
 *          to tail then has seen the end.  Its release pairs with the acquire
 *          loads of those who answer SPN_ECLOSED.
 *
 * LIFE  as in fifo.c: `inside` counts threads in a wait.
 */
#include "queue/queue.h"

#include "sync/eventcount.h"

#define CLOSED (UINT64_C(1) << 63)

struct cell {
    SPN__ATOMIC(uint64_t) turn;
    SPN__ATOMIC(void *) item; /* atomic for peek alone; see [peek] */
};

struct ring {
    struct spn_queue q;
    uint64_t mask; /* size - 1 */
    struct cell *cells;
    SPN__ATOMIC(int32_t) inside;
    spn__first_look first_empty, first_full; /* of who waits for items, for room */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint64_t) tail; /* with CLOSED */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint64_t) head;
    _Alignas(SPN__CACHE_LINE) struct spn__eventcount not_empty;
    _Alignas(SPN__CACHE_LINE) struct spn__eventcount not_full;
};

static struct ring *ring_of(spn_queue *q)
{
    return (struct ring *)(void *)q;
}

static struct cell *cell_at(const struct ring *r, uint64_t position)
{
    return &r->cells[position & r->mask];
}

/* How many cells from `position` on have the turns turn, turn + 1, ...; at most
 * `wanted`. */
static size_t ready(const struct ring *r, uint64_t position, uint64_t turn,
                    size_t wanted)
{
    size_t count = 0;

    /* [turn] */
    while (count < wanted &&
           spn__load(&cell_at(r, position + count)->turn, acquire) == turn + count)
        count++;
    return count;
}

/* ---- without waiting -------------------------------------------------------- */

/* Inserts up to `count`; returns how many, or SPN_ECLOSED. */
static int64_t try_insert(struct ring *r, void *const *items, size_t count)
{
    uint64_t tail = spn__load(&r->tail, relaxed); /* checked by the exchange */
    size_t claimed;

    for (;;) {
        if ((tail & CLOSED) != 0) {
            (void)spn__load(&r->tail, acquire); /* [closed] the bit stays */
            return SPN_ECLOSED;
        }
        claimed = ready(r, tail, tail, count);
        if (claimed == 0) {
            /* Full, unless somebody else has moved on meanwhile. */
            const uint64_t again = spn__load(&r->tail, relaxed); /* as above */

            if (again == tail)
                return 0;
            tail = again;
        } else if (spn__cas_weak(&r->tail, &tail, tail + claimed, relaxed, relaxed)) {
            break; /* relaxed: see ORDERING */
        }
    }
    for (size_t i = 0; i < claimed; i++) {
        struct cell *cell = cell_at(r, tail + i);

        spn__store(&cell->item, items[i], release);     /* [peek] */
        spn__store(&cell->turn, tail + i + 1, release); /* [turn] */
    }
    return (int64_t)claimed;
}

/* Removes up to `capacity`; returns how many. */
static size_t try_remove(struct ring *r, void **items, size_t capacity)
{
    uint64_t head = spn__load(&r->head, relaxed); /* checked by the exchange */
    size_t claimed;

    for (;;) {
        claimed = ready(r, head, head + 1, capacity);
        if (claimed == 0) {
            const uint64_t again = spn__load(&r->head, relaxed); /* as above */

            if (again == head)
                return 0;
            head = again;
        } else if (spn__cas_weak(&r->head, &head, head + claimed, relaxed, relaxed)) {
            break; /* relaxed: see ORDERING */
        }
    }
    for (size_t i = 0; i < claimed; i++) {
        struct cell *cell = cell_at(r, head + i);

        items[i] = spn__load(&cell->item, relaxed);               /* with the turn */
        spn__store(&cell->turn, head + i + r->mask + 1, release); /* [turn] */
    }
    return claimed;
}

/* Whether nothing is in the ring and nothing will be. */
static bool at_end(const struct ring *r)
{
    const uint64_t tail = spn__load(&r->tail, acquire); /* [closed] */

    return (tail & CLOSED) != 0 && spn__load(&r->head, relaxed) == (tail & ~CLOSED);
}

/* ---- with waiting ------------------------------------------------------------- */

/* Called by a thread that has slept and then took position - 1: see WAKING. */
static void pass_on(struct ring *r, struct spn__eventcount *ec, uint64_t position,
                    uint64_t turn)
{
    if (spn__eventcount_has_waiters(ec) && ready(r, position, turn, 1) == 1)
        spn__eventcount_notify_slow(ec, false);
}

/* Called after a removal.  A consumer that came after close may sleep because the
 * last item was claimed and not yet there; whoever takes that item tells it that
 * there will be no more. */
static void announce_end(struct ring *r)
{
    if (spn__eventcount_has_waiters(&r->not_empty) && at_end(r))
        spn__eventcount_notify_all(&r->not_empty);
}

/* Looks again, longer and longer after, whether the cell for `turn` is ready:
 * each look takes the line from the side that is at work. */
static bool spin(const struct ring *r, uint64_t position, uint64_t turn,
                 spn__first_look *first)
{
    for (uint32_t pauses = spn__load(first, relaxed); pauses <= SPN__SPIN_LIMIT;
         pauses *= 2) {
        size_t count;

        for (uint32_t i = 0; i < pauses; i++)
            spn__cpu_relax();
        count = ready(r, position, turn, SPN__STREAM);
        if (count != 0) {
            spn__first_look_learn(first, count == SPN__STREAM);
            return true;
        }
    }
    spn__first_look_learn(first, false);
    return false;
}

static void enter(struct ring *r, bool *waited)
{
    if (!*waited)
        (void)spn__fetch_add(&r->inside, 1, relaxed); /* counted before it sleeps */
    *waited = true;
}

static void leave(struct ring *r, bool waited)
{
    if (waited)
        (void)spn__fetch_sub(&r->inside, 1, release); /* our last touch of it */
}

static int ring_insert_many(spn_queue *q, void *const *items, size_t count,
                            struct spn__patience p, size_t *done)
{
    struct ring *r = ring_of(q);
    struct spn__waiter w;
    bool waited = false, listed = false, spun = false;
    int rc = SPN_OK;

    for (*done = 0; *done < count;) {
        const int64_t inserted = try_insert(r, items + *done, count - *done);

        if (inserted != 0 && listed) {
            spn__eventcount_cancel(&r->not_full, &w);
            listed = false;
        }
        if (inserted > 0) {
            *done += (size_t)inserted;
            spn__eventcount_notify_many(&r->not_empty, (size_t)inserted);
            continue;
        }
        rc = inserted < 0 ? (int)inserted : p.now ? SPN_EFULL : SPN_OK;
        if (rc != SPN_OK)
            break;
        if (!spun) {
            const uint64_t tail = spn__load(&r->tail, relaxed) & ~CLOSED; /* a hint */

            spun = !spin(r, tail, tail, &r->first_full);
        } else if (!listed) {
            enter(r, &waited);
            rc = spn__eventcount_prepare(&r->not_full, &w);
            listed = rc == SPN_OK;
        } else {
            rc = spn__eventcount_wait(&r->not_full, &w, p.deadline_ns);
            listed = spun = false;
        }
        if (rc != SPN_OK)
            break;
    }
    if (waited && *done != 0) {
        const uint64_t tail = spn__load(&r->tail, relaxed) & ~CLOSED; /* a hint */

        pass_on(r, &r->not_full, tail, tail);
    }
    leave(r, waited);
    return rc;
}

static int ring_remove_many(spn_queue *q, void **items, size_t capacity,
                            struct spn__patience p, size_t *count)
{
    struct ring *r = ring_of(q);
    struct spn__waiter w;
    bool waited = false, listed = false, spun = false;
    int rc = SPN_OK;

    for (;;) {
        const bool end = at_end(r); /* before the look at the cells */

        *count = try_remove(r, items, capacity);
        if ((*count != 0 || end) && listed) {
            spn__eventcount_cancel(&r->not_empty, &w);
            listed = false;
        }
        if (*count != 0)
            break;
        rc = end ? SPN_ECLOSED : p.now ? SPN_EEMPTY : SPN_OK;
        if (rc != SPN_OK)
            break;
        if (!spun) {
            const uint64_t head = spn__load(&r->head, relaxed); /* a hint */

            spun = !spin(r, head, head + 1, &r->first_empty);
        } else if (!listed) {
            enter(r, &waited);
            rc = spn__eventcount_prepare(&r->not_empty, &w);
            listed = rc == SPN_OK;
        } else {
            rc = spn__eventcount_wait(&r->not_empty, &w, p.deadline_ns);
            listed = spun = false;
        }
        if (rc != SPN_OK)
            break;
    }
    spn__eventcount_notify_many(&r->not_full, *count);
    if (waited && *count != 0) {
        const uint64_t head = spn__load(&r->head, relaxed); /* a hint */

        pass_on(r, &r->not_empty, head, head + 1);
    }
    if (*count != 0)
        announce_end(r);
    leave(r, waited);
    return *count != 0 ? SPN_OK : rc;
}

static int ring_insert(spn_queue *q, void *item, enum spn__end end,
                       struct spn__patience p)
{
    struct ring *r = ring_of(q);
    size_t done;

    (void)end;
    if (try_insert(r, &item, 1) == 1) {
        spn__eventcount_notify(&r->not_empty);
        return SPN_OK;
    }
    return ring_insert_many(q, &item, 1, p, &done);
}

static int ring_remove(spn_queue *q, void **item, enum spn__end end,
                       struct spn__patience p)
{
    struct ring *r = ring_of(q);
    size_t count;
    int rc;

    (void)end;
    if (try_remove(r, item, 1) == 1) {
        spn__eventcount_notify(&r->not_full);
        announce_end(r);
        return SPN_OK;
    }
    rc = ring_remove_many(q, item, 1, p, &count);
    if (rc != SPN_OK)
        *item = NULL;
    return rc;
}

/* ---- looking inside, life --------------------------------------------------------- */

static void *ring_peek(spn_queue *q, enum spn__end end)
{
    struct ring *r = ring_of(q);
    uint64_t head = spn__load(&r->head, relaxed), again; /* checked below */
    void *item;

    (void)end;
    for (;;) {
        item = NULL;
        if (ready(r, head, head + 1, 1) == 1)
            /* [peek] perhaps of a later round; then head has moved. */
            item = spn__load(&cell_at(r, head)->item, acquire);
        again = spn__load(&r->head, relaxed); /* ours if head has not moved */
        if (again == head)
            return item;
        head = again;
    }
}

static int64_t ring_size(const spn_queue *q)
{
    const struct ring *r = (const struct ring *)(const void *)q;
    /* relaxed: numbers, out of date already. */
    const uint64_t head = spn__load(&r->head, relaxed);
    const uint64_t tail = spn__load(&r->tail, relaxed) & ~CLOSED;

    return tail < head                 ? 0
           : tail - head > r->mask + 1 ? (int64_t)r->mask + 1
                                       : (int64_t)(tail - head);
}

static int32_t ring_waiting_consumers(spn_queue *q)
{
    return (int32_t)spn__load(&ring_of(q)->not_empty.waiting, relaxed); /* a number */
}

static void ring_close(spn_queue *q)
{
    struct ring *r = ring_of(q);

    (void)spn__fetch_or(&r->tail, CLOSED, release); /* [closed] */
    spn__eventcount_notify_all(&r->not_empty);
    spn__eventcount_notify_all(&r->not_full);
}

static bool ring_busy(spn_queue *q)
{
    return spn__load(&ring_of(q)->inside, acquire) != 0; /* with leave's release */
}

static void ring_release(spn_queue *q)
{
    struct ring *r = ring_of(q);

    spn__free(r->cells);
    spn__free(r);
}

static const struct spn__queue_ops ring_ops = {
    .insert = ring_insert,
    .remove = ring_remove,
    .insert_many = ring_insert_many,
    .remove_many = ring_remove_many,
    .peek = ring_peek,
    .size = ring_size,
    .waiting_consumers = ring_waiting_consumers,
    .close = ring_close,
    .busy = ring_busy,
    .release = ring_release,
};

spn_queue *spn__queue_create_ring(const spn_queue_opts *o)
{
    struct ring *r = spn__alloc_aligned(sizeof *r, SPN__CACHE_LINE);
    uint64_t size = 2; /* with one cell "full" and "free again" look the same */

    if (r == NULL)
        return NULL;
    while (size < (uint64_t)o->capacity)
        size *= 2;
    r->cells = spn__alloc_aligned(size * sizeof *r->cells, SPN__CACHE_LINE);
    if (r->cells == NULL) {
        spn__free(r);
        return NULL;
    }
    spn__queue_init(&r->q, SPN_QUEUE_RING, &ring_ops, o);
    r->q.capacity = (int32_t)size;
    r->mask = size - 1;
    for (uint64_t i = 0; i < size; i++) {
        spn__init(&r->cells[i].turn, i);
        spn__init(&r->cells[i].item, NULL);
    }
    spn__init(&r->inside, 0);
    spn__init(&r->first_empty, 1);
    spn__init(&r->first_full, 1);
    spn__init(&r->tail, 0);
    spn__init(&r->head, 0);
    spn__eventcount_init(&r->not_empty, true);
    spn__eventcount_init(&r->not_full, true);
    return &r->q;
}
