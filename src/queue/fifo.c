/* SPDX-License-Identifier: MIT */
/*
 * fifo.c - FIFO with a lock at each end: linked queues, and array queues that
 * were not asked to be fair.
 *
 * OVERVIEW
 *   Producers write at the tail under one lock and consumers read at the head
 *   under another, so the two sides run at the same time.  Positions count up;
 *   `put_pos` is written by producers only and `take_pos` by consumers only,
 *   and each side keeps a copy of the other's and looks again only when the
 *   copy says full or empty: in steady use neither side touches what the other
 *   writes, but for the slots themselves.
 *
 *   Slots lie in chunks.  A linked queue is a list of them, each for many
 *   items; one that has been emptied is kept for the next.  An array queue is a
 *   single chunk that is its own successor.
 *
 *   Whoever finds no room or no item spins for a moment and then sleeps on an
 *   event count; whoever makes room or brings an item notifies one.  A woken
 *   thread tries again: it may be overtaken.
 *
 * HOLES
 *   Removal from inside takes both locks and leaves a NULL in the slot;
 *   consumers pass over it.  A hole is not an item, so it must not count as
 *   one: a producer that finds the queue full of holes closes the gaps, and so
 *   does a removal that leaves more holes than items (tidy).  Whoever is about to
 *   sleep may have seen half of the change: it is woken.
 *
 * ORDERING
 *   [put]    a producer's release store of put_pos follows its writes of the
 *            slots and pairs with the acquire load of consumers.
 *   [take]   a consumer's release store of take_pos follows its reads of the
 *            slots and pairs with the acquire load of producers: the slots may
 *            be written again.
 *   [spare]  a chunk passes from consumers to producers through the exchanges of
 *            `spare`: release there, acquire here.
 *   [closed] close stores the flag with put_lock held, so after it no insert
 *            comes; a consumer that sees it (acquire) and then finds nothing has
 *            seen the end.
 *
 * LOCKS  put_lock before take_lock, where both are held.
 *
 * LIFE   `inside` counts threads in a wait; destroy is refused while there are
 *   any, woken ones included, because those touch the queue again.
 */
#include "queue/queue.h"

#include "sync/eventcount.h"

enum {
#ifdef SPN_SIM
    CHUNK = 2, /* the explorer's scenarios are short, and shall cross chunks */
#else
    CHUNK = 63, /* of a linked queue; with `next` 512 bytes */
#endif
    HOLES_MAX = 2 * CHUNK /* more than that, and more than items: tidy */
};

struct chunk {
    struct chunk *next; /* written by producers before [put] says so */
    void *slot[];
};

/*
 * One end: guarded by its lock, but for `pos`, which the other end reads.  It
 * has a line of its own: a reader that took the lock's line away would make the
 * next locking wait for it, while a store to `pos` waits for nobody.
 */
struct end {
    _Alignas(SPN__CACHE_LINE) struct spn__lock lock;
    uint32_t at;                /* index in chunk of the next slot to write or read */
    struct chunk *chunk;        /* may be used up: at == chunk_size */
    uint64_t seen;              /* the other end's pos when last looked at */
    spn__first_look first_look; /* of those who wait at this end */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint64_t) pos;
};

struct fifo {
    struct spn_queue q;
    uint32_t chunk_size;
    SPN__ATOMIC(uint32_t) closed;
    SPN__ATOMIC(int32_t) inside;
    SPN__ATOMIC(int64_t) holes;        /* between take_pos and put_pos */
    SPN__ATOMIC(struct chunk *) spare; /* an empty chunk for reuse, or NULL */
    struct end put, take;
    _Alignas(SPN__CACHE_LINE) struct spn__eventcount not_empty;
    _Alignas(SPN__CACHE_LINE) struct spn__eventcount not_full;
};

static struct fifo *fifo_of(spn_queue *q)
{
    return (struct fifo *)(void *)q;
}

static bool circular(const struct fifo *f)
{
    return f->q.kind == SPN_QUEUE_ARRAY;
}

static bool is_closed(const struct fifo *f)
{
    return spn__load(&f->closed, acquire) != 0; /* [closed] */
}

/* Items in the queue, as far as one can see without the locks. */
static int64_t items_seen(const struct fifo *f)
{
    /* relaxed: take first, so that the difference is not negative by much. */
    const uint64_t taken = spn__load(&f->take.pos, relaxed);
    const int64_t holes = spn__load(&f->holes, relaxed);
    const int64_t count = (int64_t)(spn__load(&f->put.pos, relaxed) - taken) - holes;

    return count < 0 ? 0 : count;
}

/* What those wait for who wait at the tail, and at the head. */
static int64_t room_seen(const struct fifo *f)
{
    return f->q.capacity - items_seen(f);
}

/* ---- the tail: put.lock is held ------------------------------------------- */

static struct chunk *new_chunk(const struct fifo *f)
{
    return spn__alloc(sizeof(struct chunk) + f->chunk_size * sizeof(void *));
}

/* Goes on to a fresh chunk.  False: no memory. */
static bool extend(struct fifo *f)
{
    struct chunk *chunk = f->put.chunk->next; /* circular: the same one again */

    if (!circular(f)) {
        chunk = NULL;
        if (spn__load(&f->spare, relaxed) != NULL) /* a look before the exchange */
            /* [spare] mutant: it orders plain memory, which ThreadSanitizer watches */
            chunk = spn__exchange(&f->spare, NULL, acquire);
        if (chunk == NULL)
            chunk = new_chunk(f);
        if (chunk == NULL)
            return false;
        chunk->next = NULL;
        f->put.chunk->next = chunk;
    }
    f->put.chunk = chunk;
    f->put.at = 0;
    return true;
}

/* Free slots, up to `wanted`. */
static size_t room(struct fifo *f, uint64_t pos, size_t wanted)
{
    const uint64_t capacity = (uint64_t)f->q.capacity;

    if (f->q.capacity == INT32_MAX)
        return wanted;
    if (pos - f->put.seen + wanted > capacity)
        /* [take] mutant: it orders plain memory, which ThreadSanitizer watches */
        f->put.seen = spn__load(&f->take.pos, acquire);
    if (pos - f->put.seen >= capacity)
        return 0;
    return capacity - (pos - f->put.seen) < wanted ? capacity - (pos - f->put.seen)
                                                   : wanted;
}

/* Writes what fits of `count` items; SPN_OK only if all of them. */
static int write_items(struct fifo *f, void *const *items, size_t count, size_t *done)
{
    const uint64_t pos = spn__load(&f->put.pos, relaxed); /* our own */
    const size_t free_slots = room(f, pos, count);
    int rc = SPN_OK;

    for (*done = 0; *done < free_slots; (*done)++) {
        if (f->put.at == f->chunk_size && !extend(f)) {
            rc = SPN_ENOMEM;
            break;
        }
        f->put.chunk->slot[f->put.at++] = items[*done];
    }
    if (*done != 0)
        spn__store(&f->put.pos, pos + *done, release); /* [put] */
    return rc != SPN_OK ? rc : *done < count ? SPN_EFULL : SPN_OK;
}

/* ---- the head: take.lock is held ------------------------------------------- */

/* Leaves a chunk that has been read to its end. */
static void advance_head(struct fifo *f)
{
    struct chunk *done = f->take.chunk;

    f->take.chunk = done->next;
    f->take.at = 0;
    if (!circular(f))
        /* [spare] No acquire: what was there came from an earlier holder of the
         * lock.  mutant: as in extend */
        spn__free(spn__exchange(&f->spare, done, release));
}

/* Reads up to `capacity` items, passing over holes. */
static size_t read_items(struct fifo *f, void **items, size_t capacity)
{
    uint64_t pos = spn__load(&f->take.pos, relaxed); /* our own */
    const uint64_t began = pos;
    size_t done = 0;

    while (done < capacity) {
        void **slot;

        if (pos == f->take.seen) {
            f->take.seen = spn__load(&f->put.pos, acquire); /* [put] */
            if (pos == f->take.seen)
                break;
        }
        if (f->take.at == f->chunk_size)
            advance_head(f);
        slot = &f->take.chunk->slot[f->take.at++];
        pos++;
        if (*slot != NULL) {
            items[done++] = *slot;
            *slot = NULL; /* no reference stays behind */
        } else {
            (void)spn__fetch_sub(&f->holes, 1, relaxed); /* a number */
        }
    }
    if (pos != began)
        /* [take] mutant: as in room */
        spn__store(&f->take.pos, pos, release);
    return done;
}

/* ---- inside: both locks are held -------------------------------------------- */

/* A place between head and tail. */
struct cursor {
    struct chunk *chunk;
    uint32_t at;
    uint64_t pos;
};

static void **slot_of(const struct fifo *f, struct cursor *c)
{
    if (c->at == f->chunk_size) {
        c->chunk = c->chunk->next;
        c->at = 0;
    }
    return &c->chunk->slot[c->at];
}

static void step(struct cursor *c)
{
    c->at++;
    c->pos++;
}

static struct cursor head_of(const struct fifo *f)
{
    return (struct cursor){ f->take.chunk, f->take.at,
                            spn__load(&f->take.pos, relaxed) }; /* under the lock */
}

/* Moves the items together at the head; the holes are gone then.  The caller
 * wakes everybody (`wake_all`) when it has let go of the locks. */
static void tidy(struct fifo *f)
{
    const uint64_t end = spn__load(&f->put.pos, relaxed); /* under the lock */
    struct cursor from = head_of(f), to = from;
    struct chunk *surplus;

    for (; from.pos != end; step(&from)) {
        void **slot = slot_of(f, &from);
        void *item = *slot;

        if (item == NULL)
            continue;
        *slot = NULL;
        *slot_of(f, &to) = item;
        step(&to);
    }
    surplus = circular(f) ? NULL : to.chunk->next;
    if (!circular(f))
        to.chunk->next = NULL;
    f->put.chunk = to.chunk;
    f->put.at = to.at;
    f->put.seen = spn__load(&f->take.pos, relaxed); /* under the lock */
    f->take.seen = to.pos;
    spn__store(&f->put.pos, to.pos, relaxed); /* who reads slots takes a lock of ours */
    spn__store(&f->holes, 0, relaxed);        /* a number */
    while (surplus != NULL) {
        struct chunk *next = surplus->next;

        spn__free(surplus);
        surplus = next;
    }
}

/* After a tidy: see HOLES. */
static void wake_all(struct fifo *f)
{
    spn__eventcount_notify_all(&f->not_empty);
    spn__eventcount_notify_all(&f->not_full);
}

static void lock_both(struct fifo *f)
{
    spn__lock(&f->put.lock);
    spn__lock(&f->take.lock);
}

static void unlock_both(struct fifo *f)
{
    spn__unlock(&f->take.lock);
    spn__unlock(&f->put.lock);
}

/* ---- insert and remove ---------------------------------------------------- */

/* Waits at one end until the other side may have changed what `seen` counts. */
static int await_change(struct fifo *f, struct end *end, struct spn__eventcount *ec,
                        int64_t (*seen)(const struct fifo *), int64_t deadline_ns)
{
    const uint32_t first = spn__load(&end->first_look, relaxed); /* a hint */
    struct spn__waiter w;
    int rc;

    /* Longer and longer between two looks: each look takes the line from the
     * side that is at work, and a few more items by then cost less than one. */
    for (uint32_t pauses = first; pauses <= SPN__SPIN_LIMIT; pauses *= 2) {
        int64_t count;

        for (uint32_t i = 0; i < pauses; i++)
            spn__cpu_relax();
        count = seen(f);
        if (count > 0) {
            spn__first_look_learn(&end->first_look, count >= SPN__STREAM);
            return SPN_OK;
        }
    }
    spn__first_look_learn(&end->first_look, false);
    rc = spn__eventcount_prepare(ec, &w);
    if (rc != SPN_OK)
        return rc;
    if (seen(f) <= 0 && !is_closed(f))
        return spn__eventcount_wait(ec, &w, deadline_ns);
    spn__eventcount_cancel(ec, &w);
    return SPN_OK;
}

static void enter(struct fifo *f, bool *waited)
{
    if (!*waited)
        (void)spn__fetch_add(&f->inside, 1, relaxed); /* counted before it sleeps */
    *waited = true;
}

static void leave(struct fifo *f, bool waited)
{
    if (waited)
        (void)spn__fetch_sub(&f->inside, 1, release); /* our last touch of it */
}

/* What can be done now, closing gaps if that is what room there is. */
static int insert_now(struct fifo *f, void *const *items, size_t count, size_t *done)
{
    bool tidied;
    int rc;

    *done = 0;
    spn__lock(&f->put.lock);
    /* [closed] put.lock orders it. */
    rc = is_closed(f) ? SPN_ECLOSED : write_items(f, items, count, done);
    tidied = rc == SPN_EFULL && spn__load(&f->holes, relaxed) > 0; /* a hint */
    if (tidied) {
        size_t more;

        spn__lock(&f->take.lock);
        tidy(f);
        spn__unlock(&f->take.lock);
        rc = write_items(f, items + *done, count - *done, &more);
        *done += more;
    }
    spn__unlock(&f->put.lock);
    if (tidied)
        wake_all(f);
    else
        spn__eventcount_notify_many(&f->not_empty, *done);
    return rc;
}

static int fifo_insert_many(spn_queue *q, void *const *items, size_t count,
                            struct spn__patience p, size_t *done)
{
    struct fifo *f = fifo_of(q);
    bool waited = false;
    int rc;

    for (*done = 0;;) {
        size_t written;

        rc = insert_now(f, items + *done, count - *done, &written);
        *done += written;
        if (rc != SPN_EFULL || p.now)
            break;
        enter(f, &waited);
        rc = await_change(f, &f->put, &f->not_full, room_seen, p.deadline_ns);
        if (rc != SPN_OK)
            break;
    }
    leave(f, waited);
    return rc;
}

static int fifo_remove_many(spn_queue *q, void **items, size_t capacity,
                            struct spn__patience p, size_t *count)
{
    struct fifo *f = fifo_of(q);
    bool waited = false;
    int rc = SPN_OK;

    for (;;) {
        const bool closed = is_closed(f); /* before the look at the items */

        spn__lock(&f->take.lock);
        *count = read_items(f, items, capacity);
        spn__unlock(&f->take.lock);
        if (f->q.capacity != INT32_MAX)
            spn__eventcount_notify_many(&f->not_full, *count);
        if (*count != 0)
            break;
        rc = closed ? SPN_ECLOSED : p.now ? SPN_EEMPTY : SPN_OK;
        if (rc != SPN_OK)
            break;
        enter(f, &waited);
        rc = await_change(f, &f->take, &f->not_empty, items_seen, p.deadline_ns);
        if (rc != SPN_OK)
            break;
    }
    leave(f, waited);
    return *count != 0 ? SPN_OK : rc;
}

/*
 * One item, where there is room and no chunk to change: the common case, written
 * out.  Anything else goes the long way.
 */
static int fifo_insert(spn_queue *q, void *item, enum spn__end end,
                       struct spn__patience p)
{
    struct fifo *f = fifo_of(q);
    uint64_t pos;
    size_t done;

    (void)end;
    spn__lock(&f->put.lock);
    pos = spn__load(&f->put.pos, relaxed); /* our own */
    if (f->put.at == f->chunk_size || is_closed(f) || room(f, pos, 1) == 0) {
        spn__unlock(&f->put.lock);
        return fifo_insert_many(q, &item, 1, p, &done);
    }
    f->put.chunk->slot[f->put.at++] = item;
    spn__store(&f->put.pos, pos + 1, release); /* [put] */
    spn__unlock(&f->put.lock);
    spn__eventcount_notify(&f->not_empty);
    return SPN_OK;
}

static int fifo_remove(spn_queue *q, void **item, enum spn__end end,
                       struct spn__patience p)
{
    struct fifo *f = fifo_of(q);
    void **slot;
    uint64_t pos;
    size_t count;
    int rc;

    (void)end;
    spn__lock(&f->take.lock);
    pos = spn__load(&f->take.pos, relaxed); /* our own */
    if (pos == f->take.seen || f->take.at == f->chunk_size ||
        *(slot = &f->take.chunk->slot[f->take.at]) == NULL) {
        spn__unlock(&f->take.lock);
        rc = fifo_remove_many(q, item, 1, p, &count);
        if (rc != SPN_OK)
            *item = NULL;
        return rc;
    }
    *item = *slot;
    *slot = NULL; /* no reference stays behind */
    f->take.at++;
    /* [take] mutant: as in room */
    spn__store(&f->take.pos, pos + 1, release);
    spn__unlock(&f->take.lock);
    if (f->q.capacity != INT32_MAX)
        spn__eventcount_notify(&f->not_full);
    return SPN_OK;
}

/* ---- looking inside --------------------------------------------------------- */

static void *fifo_peek(spn_queue *q, enum spn__end end)
{
    struct fifo *f = fifo_of(q);
    void *item = NULL;

    (void)end;
    spn__lock(&f->take.lock);
    f->take.seen = spn__load(&f->put.pos, acquire); /* [put] */
    for (struct cursor c = head_of(f); item == NULL && c.pos != f->take.seen; step(&c))
        item = *slot_of(f, &c);
    spn__unlock(&f->take.lock);
    return item;
}

static void fifo_walk(spn_queue *q, enum spn__end end, spn_queue_visit_fn visit,
                      void *ctx)
{
    struct fifo *f = fifo_of(q);
    int verdict = SPN_QUEUE_KEEP;
    bool tidied = false;
    int64_t taken = 0;
    uint64_t stop;

    (void)end;
    lock_both(f);
    stop = spn__load(&f->put.pos, relaxed); /* under the lock */
    for (struct cursor c = head_of(f); c.pos != stop && (verdict & SPN_QUEUE_STOP) == 0;
         step(&c)) {
        void **slot = slot_of(f, &c);

        if (*slot == NULL)
            continue;
        verdict = visit(*slot, ctx);
        if ((verdict & SPN_QUEUE_TAKE) != 0) {
            *slot = NULL;
            taken++;
        }
    }
    if (taken != 0) {
        const int64_t holes = spn__fetch_add(&f->holes, taken, relaxed) + taken;

        /* Not for a few, and not often: the work is paid for by the removals. */
        tidied = holes > HOLES_MAX && holes > items_seen(f);
        if (tidied)
            tidy(f);
    }
    unlock_both(f);
    if (tidied)
        wake_all(f);
    else if (f->q.capacity != INT32_MAX)
        spn__eventcount_notify_many(&f->not_full, (size_t)taken);
}

static int64_t fifo_size(const spn_queue *q)
{
    return items_seen((const struct fifo *)(const void *)q);
}

static int32_t fifo_waiting_consumers(spn_queue *q)
{
    return (int32_t)spn__load(&fifo_of(q)->not_empty.waiting, relaxed); /* a number */
}

/* ---- life ------------------------------------------------------------------ */

static void fifo_close(spn_queue *q)
{
    struct fifo *f = fifo_of(q);

    spn__lock(&f->put.lock);
    spn__store(&f->closed, 1, release); /* [closed] */
    spn__unlock(&f->put.lock);
    spn__eventcount_notify_all(&f->not_empty);
    spn__eventcount_notify_all(&f->not_full);
}

static bool fifo_busy(spn_queue *q)
{
    return spn__load(&fifo_of(q)->inside, acquire) != 0; /* with leave's release */
}

static void fifo_release(spn_queue *q)
{
    struct fifo *f = fifo_of(q);
    struct chunk *chunk = f->take.chunk;

    if (circular(f))
        chunk->next = NULL;
    while (chunk != NULL) {
        struct chunk *next = chunk->next;

        spn__free(chunk);
        chunk = next;
    }
    spn__free(spn__load(&f->spare, relaxed)); /* nobody else is here */
    spn__free(f);
}

static const struct spn__queue_ops fifo_ops = {
    .insert = fifo_insert,
    .remove = fifo_remove,
    .insert_many = fifo_insert_many,
    .remove_many = fifo_remove_many,
    .peek = fifo_peek,
    .walk = fifo_walk,
    .size = fifo_size,
    .waiting_consumers = fifo_waiting_consumers,
    .close = fifo_close,
    .busy = fifo_busy,
    .release = fifo_release,
};

static void init_end(struct end *end, struct chunk *chunk)
{
    spn__lock_init(&end->lock);
    end->at = 0;
    end->chunk = chunk;
    end->seen = 0;
    spn__init(&end->first_look, 1);
    spn__init(&end->pos, 0);
}

spn_queue *spn__queue_create_fifo(spn_queue_kind kind, const spn_queue_opts *o)
{
    struct fifo *f = spn__alloc_aligned(sizeof *f, SPN__CACHE_LINE);
    struct chunk *chunk;

    if (f == NULL)
        return NULL;
    spn__queue_init(&f->q, kind, &fifo_ops, o);
    f->chunk_size = kind == SPN_QUEUE_ARRAY ? (uint32_t)o->capacity : CHUNK;
    chunk = new_chunk(f);
    if (chunk == NULL) {
        spn__free(f);
        return NULL;
    }
    chunk->next = kind == SPN_QUEUE_ARRAY ? chunk : NULL;
    spn__init(&f->closed, 0);
    spn__init(&f->inside, 0);
    spn__init(&f->holes, 0);
    spn__init(&f->spare, NULL);
    init_end(&f->put, chunk);
    init_end(&f->take, chunk);
    spn__eventcount_init(&f->not_empty, true);
    spn__eventcount_init(&f->not_full, true);
    return &f->q;
}
