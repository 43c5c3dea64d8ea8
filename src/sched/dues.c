/* SPDX-License-Identifier: MIT */
/*
 * dues.c - what waits, in the order in which it is due: slots, heaps and buckets.
 *
 * OVERVIEW
 *   Exact order matters only among those that are due next.  So there are four places:
 *
 *     run      what is due in the current tick or before, sorted: what is first is taken
 *              from its front
 *     near     a heap of what came too late for that and is due as soon; mostly empty
 *     buckets  one for each of the next SPN__BUCKETS ticks of a millisecond, a list each:
 *              coming costs a store
 *     far      a heap of what is due after that
 *
 *   When the time comes a bucket is emptied, sorted, and put behind the run, and `far`
 *   goes to the buckets (advance).  The first is that of the run or that of `near`.
 *
 *   A single heap was tried first: with a million tasks each level of it is a cache miss,
 *   twice, and a task cost 500 ns to schedule and 2 us of CPU in all.  Then buckets were
 *   emptied into a heap: that, and taking from it, was a third of all.  In a bucket all
 *   times differ in TICK_BITS only, so they are sorted digit by digit, for some 10 ns.
 *
 *   What waits has a slot, which is taken when it comes and stays the same; whoever has
 *   the slot's number takes it out in O(log n), for the slot knows its place in a heap.
 *   Heaps have four children to a node and entries with the due time and a sequence
 *   number, so that comparing touches neither slot nor task.  What is taken out of the
 *   run from between others leaves a hole.
 *
 *   The links of a bucket are apart from the slots, four bytes each, so that a bucket's
 *   slots are known, and asked for, long before they are looked at: one after another
 *   they were a seventh of the samples, each a cache miss.  And each link names not the
 *   one that came before but the fourth before (strands), so that the CPU has several of
 *   them under way: one behind the other they were that again, with the lock held.
 *
 *   When to look is told by the first, or by the first bucket's tick, which is a
 *   millisecond early at most and then told exactly.
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
/* Of sorting: fewer are put in order one by one; else by two digits of their time. */
enum { FEW = 48, DIGIT_BITS = TICK_BITS / 2, DIGITS = 1 << DIGIT_BITS };
/* So many entries are asked for before they are taken. */
enum { AHEAD = 4 };
/* What `at` says: where what is in a slot is, and its place there. */
#define NEAR_TAG  (UINT32_C(0) << 29)
#define FAR_TAG   (UINT32_C(1) << 29)
#define RUN_TAG   (UINT32_C(2) << 29)
#define IN_BUCKET (UINT32_C(3) << 29)
#define GONE      (UINT32_C(4) << 29) /* dead, or free */
#define TAG_MASK  (UINT32_C(7) << 29)
_Static_assert(SPN__DUES_FIRST_ROOM *((UINT64_C(1) << SPN__DUES_PARTS) - 1) < FAR_TAG,
               "a place fits beside its tag");

static int64_t tick_of(int64_t due_ns)
{
    return due_ns >> TICK_BITS;
}

/* The link of a slot. */
static uint32_t *link_of(const struct spn__dues *q, uint32_t slot)
{
    const uint32_t part = 31 - (uint32_t)__builtin_clz(slot / SPN__DUES_FIRST_ROOM + 1);

    return &q->links[part][slot - spn__dues_room_before(part)];
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

/* ---- slots ------------------------------------------------------------------------ */

static uint32_t get_slot(struct spn__dues *q)
{
    const uint32_t slot = q->free;

    q->used++;
    if (slot == SPN__NO_SLOT)
        return q->made++;
    q->free = *link_of(q, slot);
    return slot;
}

static void put_slot(struct spn__dues *q, uint32_t slot)
{
    spn__dues_slot(q, slot)->at = GONE;
    *link_of(q, slot) = q->free;
    q->free = slot;
    q->used--;
}

/* ---- the run ---------------------------------------------------------------------- */

static bool run_is_empty(const struct spn__due_run *r)
{
    return r->first == r->end;
}

/* Its first is somebody's, or there is none. */
static void skip_holes(struct spn__due_run *r)
{
    while (r->first < r->end && r->entries[r->first].slot == SPN__NO_SLOT)
        r->first++;
    if (run_is_empty(r))
        r->first = r->end = 0;
}

static void run_cut(struct spn__dues *q, uint32_t at)
{
    q->run.entries[at].slot = SPN__NO_SLOT;
    if (at == q->run.first)
        skip_holes(&q->run);
}

/* Makes room behind the run, which begins at 0 then and has no holes.  From `fresh` on
 * its entries are none of its own yet; returns where these are then. */
static uint32_t close_up(struct spn__dues *q, uint32_t fresh)
{
    struct spn__due_run *r = &q->run;
    uint32_t to = 0, fresh_to;

    for (uint32_t i = r->first; i < fresh; i++) {
        const struct spn__due e = r->entries[i];

        if (e.slot == SPN__NO_SLOT)
            continue;
        spn__dues_slot(q, e.slot)->at = RUN_TAG | to;
        r->entries[to++] = e;
    }
    fresh_to = to;
    memmove(&r->entries[to], &r->entries[fresh], (r->end - fresh) * sizeof *r->entries);
    r->first = 0;
    r->end = fresh_to + (r->end - fresh);
    return fresh_to;
}

static void sort_few(struct spn__due *entries, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const struct spn__due e = entries[i];
        uint32_t to = i;

        for (; to > 0 && before(&e, &entries[to - 1]); to--)
            entries[to] = entries[to - 1];
        entries[to] = e;
    }
}

static uint32_t digit_of(const struct spn__due *e, uint32_t shift)
{
    return (uint32_t)((uint64_t)e->due_ns >> shift) % DIGITS;
}

static void by_digit(struct spn__due *to, const struct spn__due *from, uint32_t count,
                     uint32_t shift, uint32_t *places)
{
    uint32_t lower = 0;

    for (uint32_t d = 0; d < DIGITS; d++) {
        const uint32_t with = places[d];

        places[d] = lower;
        lower += with;
    }
    for (uint32_t i = 0; i < count; i++)
        to[places[digit_of(&from[i], shift)]++] = from[i];
}

/* Entries of one tick, in the order in which they came. */
static void sort(struct spn__dues *q, struct spn__due *entries, uint32_t count)
{
    uint32_t low[DIGITS], high[DIGITS];

    if (count >= FEW) {
        memset(low, 0, sizeof low);
        memset(high, 0, sizeof high);
        for (uint32_t i = 0; i < count; i++) {
            low[digit_of(&entries[i], 0)]++;
            high[digit_of(&entries[i], DIGIT_BITS)]++;
        }
        by_digit(q->spare, entries, count, 0, low);
        by_digit(entries, q->spare, count, DIGIT_BITS, high);
    }
    /* What came first was filed first, so this finds those that are due at the same time
     * in order, and has nothing to do; but it is what decides. */
    sort_few(entries, count);
}

/* ---- buckets ---------------------------------------------------------------------- */

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

static void bucket_add(struct spn__dues *q, uint32_t bucket, uint32_t slot)
{
    const uint32_t n = is_filled(q, bucket) ? q->counts[bucket] : 0;
    uint32_t *last = &q->strands[bucket][n % SPN__STRANDS];

    *link_of(q, slot) = n < SPN__STRANDS ? SPN__NO_SLOT : *last;
    *last = slot;
    q->counts[bucket] = n + 1;
    set_filled(q, bucket, true);
}

/* Takes the last that came out of a bucket that has `left`, and that many less. */
static uint32_t bucket_cut(struct spn__dues *q, uint32_t bucket, uint32_t left)
{
    uint32_t *last = &q->strands[bucket][(left - 1) % SPN__STRANDS];
    const uint32_t slot = *last;

    *last = *link_of(q, slot);
    return slot;
}

/* Puts a slot where its time says. */
static void file(struct spn__dues *q, uint32_t slot)
{
    struct spn__delay *s = spn__dues_slot(q, slot);
    const int64_t tick = tick_of(s->due_ns);

    if (tick <= q->tick) {
        heap_add(q, &q->near, slot);
    } else if (tick - q->tick >= SPN__BUCKETS) {
        heap_add(q, &q->far, slot);
    } else {
        s->at = IN_BUCKET;
        bucket_add(q, bucket_of(tick), slot);
        if (tick < q->first_tick)
            q->first_tick = tick;
    }
}

/* Puts the slots of a bucket behind the run, unordered and not yet marked; returns where
 * they are. */
static uint32_t gather(struct spn__dues *q, uint32_t bucket)
{
    struct spn__due_run *r = &q->run;
    uint32_t fresh = r->end;

    for (uint32_t left = q->counts[bucket]; left > 0; left--) {
        const uint32_t slot = bucket_cut(q, bucket, left);

        __builtin_prefetch(spn__dues_slot(q, slot), 1);
        if (r->end == q->room) /* there are holes, or what was taken */
            fresh = close_up(q, fresh);
        r->entries[r->end++].slot = slot;
    }
    return fresh;
}

/* Fills the gathered ones in, the first that came first; the dead are let go of. */
static void fill_in(struct spn__dues *q, uint32_t fresh)
{
    struct spn__due_run *r = &q->run;
    uint32_t kept = fresh;

    for (uint32_t i = fresh; i < r->end; i++) {
        const uint32_t slot = r->entries[i].slot;

        if (lives(spn__dues_slot(q, slot))) {
            r->entries[kept++] = due_of(q, slot);
        } else {
            q->dead--;
            put_slot(q, slot);
        }
    }
    r->end = kept;
    for (uint32_t i = fresh, j = kept; i + 1 < j; i++) {
        const struct spn__due e = r->entries[i];

        r->entries[i] = r->entries[--j];
        r->entries[j] = e;
    }
}

/* Empties a bucket into the run or, if that has something later, into `near`. */
static void empty_bucket(struct spn__dues *q, uint32_t bucket)
{
    struct spn__due_run *r = &q->run;
    uint32_t fresh;

    if (!is_filled(q, bucket))
        return;
    set_filled(q, bucket, false);
    fresh = gather(q, bucket);
    fill_in(q, fresh);
    sort(q, &r->entries[fresh], r->end - fresh);
    if (fresh > r->first && fresh < r->end &&
        before(&r->entries[fresh], &r->entries[fresh - 1])) {
        for (uint32_t i = fresh; i < r->end; i++)
            heap_add(q, &q->near, r->entries[i].slot);
        r->end = fresh;
    }
    for (uint32_t i = fresh; i < r->end; i++)
        spn__dues_slot(q, r->entries[i].slot)->at = RUN_TAG | i;
    skip_holes(r);
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

/* Brings all that is due in the tick of now_ns or before into the run. */
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

/* Lets go of the dead in a bucket; the others stay in order. */
static void sweep_bucket(struct spn__dues *q, uint32_t bucket)
{
    uint32_t kept = SPN__NO_SLOT; /* the first that came of those that were looked at */

    for (uint32_t left = q->counts[bucket]; left > 0; left--) {
        const uint32_t slot = bucket_cut(q, bucket, left);

        if (lives(spn__dues_slot(q, slot))) {
            *link_of(q, slot) = kept;
            kept = slot;
        } else {
            put_slot(q, slot);
        }
    }
    set_filled(q, bucket, false);
    while (kept != SPN__NO_SLOT) {
        const uint32_t next = *link_of(q, kept);

        bucket_add(q, bucket, kept);
        kept = next;
    }
}

void spn__dues_sweep(struct spn__dues *q)
{
    for (uint32_t b = 0; b < SPN__BUCKETS; b++)
        if (is_filled(q, b))
            sweep_bucket(q, b);
    q->dead = 0;
    q->first_tick = find_first(q);
}

/* ---- in and out ------------------------------------------------------------------ */

uint32_t spn__dues_add(struct spn__dues *q, struct spn__entry entry, int64_t due_ns,
                       uint64_t sequence)
{
    const uint32_t slot = get_slot(q);
    struct spn__delay *s = spn__dues_slot(q, slot);

    s->due_ns = due_ns;
    s->sequence = sequence;
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
    } else if ((s->at & TAG_MASK) == RUN_TAG) {
        run_cut(q, s->at & ~TAG_MASK);
        put_slot(q, slot);
    } else {
        heap_cut(q, (s->at & TAG_MASK) == NEAR_TAG ? &q->near : &q->far,
                 s->at & ~TAG_MASK);
        put_slot(q, slot);
    }
    return entry;
}

/* The first of the run and of `near`; NULL: both are empty. */
static const struct spn__due *first_of(const struct spn__dues *q)
{
    const struct spn__due *near = q->near.entries, *run = NULL;

    if (!run_is_empty(&q->run))
        run = &q->run.entries[q->run.first];
    if (q->near.used == 0 || (run != NULL && before(run, near)))
        return run;
    return near;
}

uint32_t spn__dues_first(struct spn__dues *q, int64_t now_ns)
{
    const struct spn__due *first;

    spn__dues_advance(q, now_ns);
    first = first_of(q);
    if (first == NULL || first->due_ns == SPN_FOREVER || first->due_ns > now_ns)
        return SPN__NO_SLOT;
    if (q->run.end - q->run.first > AHEAD) {
        const uint32_t ahead = q->run.entries[q->run.first + AHEAD].slot;

        if (ahead != SPN__NO_SLOT) /* a task, or whatever a call gets */
            __builtin_prefetch(spn__dues_slot(q, ahead)->entry.arg, 1);
    }
    return first->slot;
}

int64_t spn__dues_next(const struct spn__dues *q)
{
    const struct spn__due *first = first_of(q);
    int64_t next = SPN_FOREVER;

    if (q->far.used > 0)
        next = q->far.entries[0].due_ns;
    if (q->first_tick != INT64_MAX && q->first_tick << TICK_BITS < next)
        next = q->first_tick << TICK_BITS;
    if (first != NULL && first->due_ns < next)
        next = first->due_ns;
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
    struct spn__due_run *r = &q->run;

    for (uint32_t b = 0; b < SPN__BUCKETS; b++)
        empty_bucket(q, b);
    while (q->far.used > 0)
        heap_add(q, &q->near, q->far.entries[--q->far.used].slot);
    q->first_tick = INT64_MAX;
    for (uint32_t i = r->first; i < r->end; i++)
        if (r->entries[i].slot != SPN__NO_SLOT)
            heap_add(q, &q->near, r->entries[i].slot);
    for (r->first = r->end = 0; q->near.used > 0;) {
        const struct spn__due e = q->near.entries[0];

        heap_cut(q, &q->near, 0);
        spn__dues_keep(q, r->end++, e);
    }
}

uint32_t spn__dues_first_of_all(struct spn__dues *q)
{
    /* The run has all after the first time, unless something came. */
    if (q->near.used > 0 || q->far.used > 0 || q->first_tick != INT64_MAX)
        spn__dues_line_up(q);
    return run_is_empty(&q->run) ? SPN__NO_SLOT : q->run.entries[q->run.first].slot;
}

void spn__dues_keep(struct spn__dues *q, uint32_t kept, struct spn__due due)
{
    q->run.entries[kept] = due;
    spn__dues_slot(q, due.slot)->at = RUN_TAG | kept;
}

void spn__dues_drop(struct spn__dues *q, uint32_t slot)
{
    put_slot(q, slot);
}

void spn__dues_kept(struct spn__dues *q, uint32_t kept)
{
    q->run.end = kept;
}

/* ---- room ------------------------------------------------------------------------- */

int spn__dues_room_get(struct spn__dues_room *room, uint32_t part_count)
{
    const uint32_t before = spn__dues_room_before(part_count);
    const uint32_t all = 2 * before + SPN__DUES_FIRST_ROOM;
    const size_t size = (all - before) * (sizeof *room->slots + sizeof(uint32_t));

    *room = (struct spn__dues_room){ part_count, NULL, NULL };
    if (part_count == SPN__DUES_PARTS)
        return SPN_ENOMEM;
    room->slots = spn__alloc(size);
    if (room->slots == NULL)
        return SPN_ENOMEM;
    spn__expect_use(room->slots, size);
    room->heaps = spn__alloc(4 * (size_t)all * sizeof *room->heaps);
    return room->heaps != NULL ? SPN_OK : SPN_ENOMEM;
}

/* Moves the heaps and the run over into a larger block. */
static void move_to(struct spn__dues *q, struct spn__due *block, uint32_t room)
{
    if (q->near.used > 0)
        memcpy(block, q->near.entries, q->near.used * sizeof *block);
    if (q->far.used > 0)
        memcpy(block + room, q->far.entries, q->far.used * sizeof *block);
    if (q->run.end > 0)
        memcpy(block + 2 * (size_t)room, q->run.entries, q->run.end * sizeof *block);
    q->near.entries = block;
    q->far.entries = block + room;
    q->run.entries = block + 2 * (size_t)room;
    q->spare = block + 3 * (size_t)room;
}

bool spn__dues_room_add(struct spn__dues *q, struct spn__dues_room *room)
{
    struct spn__due *old = q->near.entries;
    const uint32_t part = q->part_count;

    if (room->part != part) /* somebody else was faster */
        return false;
    q->parts[part] = room->slots;
    q->links[part] = (uint32_t *)(void *)(room->slots + (SPN__DUES_FIRST_ROOM << part));
    q->part_count++;
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
    q->near = (struct spn__due_heap){ .tag = NEAR_TAG };
    q->far = (struct spn__due_heap){ .tag = FAR_TAG };
    q->run = (struct spn__due_run){ .entries = NULL };
    q->spare = NULL;
    memset(q->filled, 0, sizeof q->filled);
}

void spn__dues_fini(struct spn__dues *q)
{
    for (uint32_t part = 0; part < q->part_count; part++)
        spn__free(q->parts[part]);
    spn__free(q->near.entries);
}
