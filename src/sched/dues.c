/* SPDX-License-Identifier: MIT */
/*
 * dues.c - what waits, in the order in which it is due: slots, heaps and buckets.
 *
 * OVERVIEW
 *   Exact order matters only among those that are due next.  So there are three places:
 *
 *     near     a heap of what is due in the current tick or before, and only that one is
 *              taken from: small, and in the cache
 *     buckets  one for each of the next SPN__BUCKETS ticks of a millisecond, a list each:
 *              coming costs a store
 *     far      a heap of what is due after that
 *
 *   When the time comes a bucket is emptied into `near`, and `far` into the buckets
 *   (advance).  A single heap was tried first: with a million tasks each level of it is a
 *   cache miss, twice, and a task cost 500 ns to schedule and 2 us of CPU in all.
 *
 *   What waits has a slot, which is taken when it comes and stays the same; whoever has
 *   the slot's number takes it out in O(log n), for the slot knows its place in a heap.
 *   Heaps have four children to a node and entries with the due time and a sequence
 *   number, so that comparing touches neither slot nor task.
 *
 *   When to look is told by the first of `near`, or by the first bucket's tick, which is
 *   a millisecond early at most and then told exactly.
 *
 * THE DEAD  A bucket is a list in one direction, so that coming touches nothing cold.
 *   What leaves one leaves its slot there, dead, until the bucket is emptied, or until
 *   there are more dead than living (sweep).
 *
 * ROOM  Slots and heaps grow together, by doubling, before something comes; moving
 *   between them never allocates.  Slots are in parts, each twice as large as the one
 *   before, and stay where they are: to copy a million of them, into pages that are new
 *   and under the lock, cost every task a tenth more.  The large parts are asked for in
 *   large pages (spn__expect_use): a million slots in pages of the usual size are ten
 *   thousand faults, which were a fifth of what it cost to schedule a task.  Not so the
 *   heaps, of which little is ever touched.
 */
#include "sched/dues.h"

#include <string.h>

#include "base/time.h"

enum { CHILDREN = 4, TICK_BITS = 20, DEAD_MIN = 64 };
/* What `at` says: where what is in a slot is, and its place there. */
#define NEAR_TAG  (UINT32_C(0) << 30)
#define FAR_TAG   (UINT32_C(1) << 30)
#define IN_BUCKET (UINT32_C(2) << 30)
#define GONE      (UINT32_C(3) << 30) /* dead, or free */
#define TAG_MASK  (UINT32_C(3) << 30)
_Static_assert(SPN__DUES_FIRST_ROOM *((UINT64_C(1) << SPN__DUES_PARTS) - 1) < FAR_TAG,
               "a place fits beside its tag");

static int64_t tick_of(int64_t due_ns)
{
    return due_ns >> TICK_BITS;
}

static bool lives(const struct spn__delay *s)
{
    return (s->at & TAG_MASK) != GONE;
}

/* ---- the heaps ---------------------------------------------------- */

static bool before(const struct spn__due *a, const struct spn__due *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

static void place(struct spn__dues *q, struct spn__due_heap *h, uint32_t at,
                  struct spn__due e)
{
    h->entries[at] = e;
    spn__dues_slot(q, e.slot)->at = h->tag | at;
}

static void up(struct spn__dues *q, struct spn__due_heap *h, uint32_t at,
               struct spn__due e)
{
    while (at > 0) {
        const uint32_t parent = (at - 1) / CHILDREN;

        if (!before(&e, &h->entries[parent]))
            break;
        place(q, h, at, h->entries[parent]);
        at = parent;
    }
    place(q, h, at, e);
}

static void down(struct spn__dues *q, struct spn__due_heap *h, uint32_t at,
                 struct spn__due e)
{
    for (;;) {
        const uint32_t first = CHILDREN * at + 1;
        const uint32_t end = first + CHILDREN < h->used ? first + CHILDREN : h->used;
        uint32_t least = first;

        if (first >= h->used)
            break;
        for (uint32_t i = first + 1; i < end; i++)
            if (before(&h->entries[i], &h->entries[least]))
                least = i;
        if (!before(&h->entries[least], &e))
            break;
        place(q, h, at, h->entries[least]);
        at = least;
    }
    place(q, h, at, e);
}

static struct spn__due due_of(const struct spn__dues *q, uint32_t slot)
{
    const struct spn__delay *s = spn__dues_slot(q, slot);

    return (struct spn__due){ s->due_ns, s->sequence, slot };
}

static void heap_add(struct spn__dues *q, struct spn__due_heap *h, uint32_t slot)
{
    up(q, h, h->used++, due_of(q, slot));
}

static void heap_cut(struct spn__dues *q, struct spn__due_heap *h, uint32_t at)
{
    const struct spn__due last = h->entries[--h->used];

    if (at >= h->used)
        return;
    if (at > 0 && before(&last, &h->entries[(at - 1) / CHILDREN]))
        up(q, h, at, last);
    else
        down(q, h, at, last);
}

/* In due order, which is a heap, too. */
static void sort(struct spn__dues *q, struct spn__due_heap *h)
{
    const uint32_t count = h->used;

    /* Heap sort, which leaves the first in order last... */
    while (h->used > 1) {
        const struct spn__due first = h->entries[0];
        const struct spn__due last = h->entries[--h->used];

        down(q, h, 0, last);
        h->entries[h->used] = first;
    }
    h->used = count;
    /* ...so turn it round. */
    for (uint32_t i = 0; i < count / 2; i++) {
        const struct spn__due e = h->entries[i];

        h->entries[i] = h->entries[count - 1 - i];
        h->entries[count - 1 - i] = e;
    }
    for (uint32_t i = 0; i < count; i++)
        place(q, h, i, h->entries[i]);
}

/* ---- slots and buckets --------------------------------------------- */

static uint32_t get_slot(struct spn__dues *q)
{
    const uint32_t slot = q->free;

    q->used++;
    if (slot == SPN__NO_SLOT)
        return q->made++;
    q->free = spn__dues_slot(q, slot)->next;
    return slot;
}

static void put_slot(struct spn__dues *q, uint32_t slot)
{
    spn__dues_slot(q, slot)->at = GONE;
    spn__dues_slot(q, slot)->next = q->free;
    q->free = slot;
    q->used--;
}

static uint32_t bucket_of(int64_t tick)
{
    return (uint32_t)((uint64_t)tick % SPN__BUCKETS);
}

static void set_filled(struct spn__dues *q, uint32_t bucket, bool filled)
{
    const uint64_t bit = UINT64_C(1) << (bucket % 64);

    if (filled)
        q->filled[bucket / 64] |= bit;
    else
        q->filled[bucket / 64] &= ~bit;
}

static bool is_filled(const struct spn__dues *q, uint32_t bucket)
{
    return (q->filled[bucket / 64] >> (bucket % 64) & 1) != 0;
}

/* Puts a slot where its time says. */
static void file(struct spn__dues *q, uint32_t slot)
{
    struct spn__delay *s = spn__dues_slot(q, slot);
    const int64_t tick = tick_of(s->due_ns);
    uint32_t bucket;

    if (tick <= q->tick) {
        heap_add(q, &q->near, slot);
    } else if (tick - q->tick >= SPN__BUCKETS) {
        heap_add(q, &q->far, slot);
    } else {
        bucket = bucket_of(tick);
        s->at = IN_BUCKET;
        s->next = is_filled(q, bucket) ? q->buckets[bucket] : SPN__NO_SLOT;
        q->buckets[bucket] = slot;
        set_filled(q, bucket, true);
        if (tick < q->first_tick)
            q->first_tick = tick;
    }
}

/* Empties a bucket into `near`; the dead are let go of. */
static void empty_bucket(struct spn__dues *q, uint32_t bucket)
{
    uint32_t slot = is_filled(q, bucket) ? q->buckets[bucket] : SPN__NO_SLOT;

    while (slot != SPN__NO_SLOT) {
        const uint32_t next = spn__dues_slot(q, slot)->next;

        if (next != SPN__NO_SLOT)
            __builtin_prefetch(spn__dues_slot(q, next));
        if (lives(spn__dues_slot(q, slot))) {
            heap_add(q, &q->near, slot);
        } else {
            q->dead--;
            put_slot(q, slot);
        }
        slot = next;
    }
    set_filled(q, bucket, false);
}

/* The tick of the first bucket that is not empty; INT64_MAX: all are. */
static int64_t find_first(const struct spn__dues *q)
{
    for (int64_t i = 1; i < SPN__BUCKETS; i++) {
        const uint32_t bucket = bucket_of(q->tick + i);

        if (bucket % 64 == 0 && q->filled[bucket / 64] == 0)
            i += 63; /* none of these */
        else if (is_filled(q, bucket))
            return q->tick + i;
    }
    return INT64_MAX;
}

/* Brings all that is due in the tick of now_ns or before into `near`. */
void spn__dues_advance(struct spn__dues *q, int64_t now_ns)
{
    const int64_t tick = tick_of(now_ns);

    if (tick <= q->tick)
        return;
    for (int64_t t = q->first_tick; t <= tick && t - q->tick < SPN__BUCKETS; t++)
        empty_bucket(q, bucket_of(t));
    q->tick = tick;
    while (q->far.used > 0 && tick_of(q->far.entries[0].due_ns) - tick < SPN__BUCKETS) {
        const uint32_t slot = q->far.entries[0].slot;

        heap_cut(q, &q->far, 0);
        file(q, slot);
    }
    q->first_tick = find_first(q);
}

void spn__dues_sweep(struct spn__dues *q)
{
    for (uint32_t b = 0; b < SPN__BUCKETS; b++) {
        uint32_t slot = is_filled(q, b) ? q->buckets[b] : SPN__NO_SLOT,
                 kept = SPN__NO_SLOT;

        while (slot != SPN__NO_SLOT) {
            const uint32_t next = spn__dues_slot(q, slot)->next;

            if (lives(spn__dues_slot(q, slot))) {
                spn__dues_slot(q, slot)->next = kept;
                kept = slot;
            } else {
                put_slot(q, slot);
            }
            slot = next;
        }
        q->buckets[b] = kept;
        set_filled(q, b, kept != SPN__NO_SLOT);
    }
    q->dead = 0;
    q->first_tick = find_first(q);
}

/* ---- in and out ------------------------------------------------------------------ */

uint32_t spn__dues_add(struct spn__dues *q, struct spn__entry entry, int64_t due_ns)
{
    const uint32_t slot = get_slot(q);
    struct spn__delay *s = spn__dues_slot(q, slot);

    s->due_ns = due_ns;
    s->sequence = q->sequence++;
    s->entry = entry;
    file(q, slot);
    return slot;
}

struct spn__entry spn__dues_remove(struct spn__dues *q, uint32_t slot)
{
    struct spn__delay *s = spn__dues_slot(q, slot);
    const struct spn__entry entry = s->entry;

    if ((s->at & TAG_MASK) == IN_BUCKET) {
        s->at = GONE;
        q->dead++;
        if (q->dead > DEAD_MIN && q->dead > spn__dues_waiting(q))
            spn__dues_sweep(q);
    } else {
        heap_cut(q, (s->at & TAG_MASK) == NEAR_TAG ? &q->near : &q->far,
                 s->at & ~TAG_MASK);
        put_slot(q, slot);
    }
    return entry;
}

uint32_t spn__dues_first(struct spn__dues *q, int64_t now_ns)
{
    spn__dues_advance(q, now_ns);
    if (q->near.used == 0 || q->near.entries[0].due_ns == SPN_FOREVER ||
        q->near.entries[0].due_ns > now_ns)
        return SPN__NO_SLOT;
    return q->near.entries[0].slot;
}

int64_t spn__dues_next(const struct spn__dues *q)
{
    int64_t next = SPN_FOREVER;

    if (q->far.used > 0)
        next = q->far.entries[0].due_ns;
    if (q->first_tick != INT64_MAX && q->first_tick << TICK_BITS < next)
        next = q->first_tick << TICK_BITS;
    if (q->near.used > 0 && q->near.entries[0].due_ns < next)
        next = q->near.entries[0].due_ns;
    return next;
}

bool spn__dues_is_far(const struct spn__dues *q, int64_t due_ns)
{
    return due_ns != SPN_FOREVER && tick_of(due_ns) - q->tick >= SPN__BUCKETS;
}

uint32_t spn__dues_find(const struct spn__dues *q, uint64_t sequence)
{
    for (uint32_t i = 0; i < q->made; i++)
        if (lives(spn__dues_slot(q, i)) && spn__dues_slot(q, i)->sequence == sequence)
            return i;
    return SPN__NO_SLOT;
}

void spn__dues_line_up(struct spn__dues *q)
{
    for (uint32_t b = 0; b < SPN__BUCKETS; b++)
        empty_bucket(q, b);
    while (q->far.used > 0)
        heap_add(q, &q->near, q->far.entries[--q->far.used].slot);
    q->first_tick = INT64_MAX;
    sort(q, &q->near);
}

void spn__dues_keep(struct spn__dues *q, uint32_t kept, struct spn__due due)
{
    place(q, &q->near, kept, due);
}

void spn__dues_drop(struct spn__dues *q, uint32_t slot)
{
    put_slot(q, slot);
}

/* ---- room ------------------------------------------------------------------------- */

int spn__dues_room_get(struct spn__dues_room *room, uint32_t part_count)
{
    const uint32_t before = spn__dues_room_before(part_count);
    const uint32_t all = 2 * before + SPN__DUES_FIRST_ROOM;
    const size_t size = (all - before) * sizeof *room->slots;

    *room = (struct spn__dues_room){ part_count, NULL, NULL };
    if (part_count == SPN__DUES_PARTS)
        return SPN_ENOMEM;
    room->slots = spn__alloc(size);
    if (room->slots == NULL)
        return SPN_ENOMEM;
    spn__expect_use(room->slots, size);
    room->heaps = spn__alloc(2 * (size_t)all * sizeof *room->heaps);
    return room->heaps != NULL ? SPN_OK : SPN_ENOMEM;
}

/* Moves the heaps over into a larger block. */
static void move_to(struct spn__dues *q, struct spn__due *block, uint32_t room)
{
    if (q->near.used > 0)
        memcpy(block, q->near.entries, q->near.used * sizeof *block);
    if (q->far.used > 0)
        memcpy(block + room, q->far.entries, q->far.used * sizeof *block);
    q->near.entries = block;
    q->far.entries = block + room;
}

bool spn__dues_room_add(struct spn__dues *q, struct spn__dues_room *room)
{
    struct spn__due *old = q->near.entries;

    if (room->part != q->part_count) /* somebody else was faster */
        return false;
    q->parts[q->part_count++] = room->slots;
    q->room = spn__dues_room_before(q->part_count);
    move_to(q, room->heaps, q->room);
    room->slots = NULL;
    room->heaps = old;
    return true;
}

void spn__dues_room_free(struct spn__dues_room *room)
{
    spn__free(room->slots);
    spn__free(room->heaps);
}

/* ---- the whole --------------------------------------------------------------------- */

void spn__dues_init(struct spn__dues *q, int64_t now_ns)
{
    q->part_count = 0;
    q->room = q->made = q->used = q->dead = 0;
    q->free = SPN__NO_SLOT;
    q->tick = tick_of(now_ns);
    q->first_tick = INT64_MAX;
    q->sequence = 1; /* 0 is none's */
    q->near = (struct spn__due_heap){ .tag = NEAR_TAG };
    q->far = (struct spn__due_heap){ .tag = FAR_TAG };
    memset(q->filled, 0, sizeof q->filled);
}

void spn__dues_fini(struct spn__dues *q)
{
    for (uint32_t part = 0; part < q->part_count; part++)
        spn__free(q->parts[part]);
    spn__free(q->near.entries);
}
