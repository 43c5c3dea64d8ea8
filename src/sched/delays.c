/* SPDX-License-Identifier: MIT */
/*
 * delays.c - tasks that wait until they are due: where a scheduled executor's pool
 * takes its tasks from.
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
 *   What waits has a slot, which is taken when it comes and stays the same; a task knows
 *   its slot (link[0]), and the slot its place in a heap: so one is taken out in
 *   O(log n).  A call, a function with its argument, needs nothing but the slot.  Heaps
 *   have four children to a node and entries with the due time and a sequence number, so
 *   that comparing touches neither slot nor task.
 *
 *   Nothing waits here.  Who sleeps until the first is due, the leader, and who is
 *   woken when an earlier one comes, is the pool's affair (exec/idle.c); this file tells
 *   when to look: when the first of `near` is due, or when the first bucket's tick
 *   begins, which is a millisecond early at most and then told exactly.
 *
 * THE DEAD  A bucket is a list in one direction, so that coming touches nothing cold.  A
 *   task that leaves one leaves its slot there, dead, until the bucket is emptied, or
 *   until there are more dead than living (sweep).
 *
 * ROOM  Slots and heaps grow together, by doubling, when a task comes; moving between
 *   them never allocates.  Slots are in parts, each twice as large as the one before, and
 *   stay where they are: to copy a million of them, into pages that are new and under the
 *   lock, cost every task a tenth more.  The large parts are asked for in large pages
 *   (spn__expect_use): a million slots in pages of the usual size are ten thousand
 *   faults, which were a fifth of what it cost to schedule a task.  Not so the heaps, of
 *   which little is ever touched.  A periodic task that is away, running, keeps its room:
 *   coming back cannot fail.
 *
 * CLOCK  On a manual clock the pool's leader cannot sleep until a time: the clock tells
 *   when it has moved, and the leader is woken if the first is due.
 *
 *   The clock is looked at when nothing is due by the last look: of all that have become
 *   due while the leader slept, only the first costs one.  A manual clock, which may be
 *   set back, is always looked at.
 *
 * ORDERING
 *   [next]  `next` is written under the lock and read without it.  A worker that goes to
 *           sleep reads it after the full fence of exec/idle.c [wake], and whoever makes
 *           it earlier makes one, too: nobody sleeps past it.  Else it is a hint.
 *   [size]  as in exec/work_fifo.c.
 *
 * LOCKS  `lock` is a leaf; below pool->lock.  Growing copies the heaps under it, once per
 *   doubling.
 */
#include "sched/delays.h"

#include <string.h>

#include "base/time.h"
#include "exec/pool.h"
#include "future/executor.h"

enum { CHILDREN = 4, FIRST_ROOM = 64, TICK_BITS = 20, DEAD_MIN = 64 };
#define NONE UINT32_MAX
/* What `at` says: where a slot's task is, and its place there. */
#define NEAR_TAG  (UINT32_C(0) << 30)
#define FAR_TAG   (UINT32_C(1) << 30)
#define IN_BUCKET (UINT32_C(2) << 30)
#define GONE      (UINT32_C(3) << 30) /* dead, or free */
#define TAG_MASK  (UINT32_C(3) << 30)
/* What `queued` says of a task that was taken out: see exec/work_kinds.h. */
#define TAKEN 1u
_Static_assert(FIRST_ROOM *((UINT64_C(1) << SPN__DELAY_PARTS) - 1) < FAR_TAG,
               "a place fits beside its tag");

static struct spn__delays *delays_of(struct spn__work_source *source)
{
    return (struct spn__delays *)(void *)source;
}

/* The task in a slot; NULL: it is a call. */
static spn_task *task_in(const struct spn__entry *entry)
{
    return entry->fn == spn__entry_task ? entry->arg : NULL;
}

/* relaxed, both: written and believed only under the lock. */
static void mark(spn_task *task, uint32_t as)
{
    spn__store(spn__task_queued(task), as, relaxed);
}

static bool waits_here(struct spn__delays *d, spn_task *task)
{
    return spn__load(spn__task_queued(task), relaxed) == d->source.pool->id;
}

static bool is_tied(const spn_task *task)
{
    return task != NULL && (task->flags & SPN__TASK_TIED) != 0;
}

static bool is_periodic(const spn_task *task)
{
    return task != NULL && (task->flags & SPN__TASK_PERIODIC) != 0;
}

/* How many slots there are in the parts before one: each has twice as many as the last. */
static uint32_t room_before(uint32_t part)
{
    return FIRST_ROOM * ((UINT32_C(1) << part) - 1);
}

static uint32_t slot_of(const spn_task *task)
{
    return (uint32_t)(uintptr_t)task->link[0];
}

static int64_t tick_of(int64_t due_ns)
{
    return due_ns >> TICK_BITS;
}

static struct spn__delay *slot_at(const struct spn__delays *d, uint32_t slot)
{
    const uint32_t part = 31 - (uint32_t)__builtin_clz(slot / FIRST_ROOM + 1);

    return &d->parts[part][slot - room_before(part)];
}

static bool lives(const struct spn__delay *s)
{
    return (s->at & TAG_MASK) != GONE;
}

/* ---- the heaps; the lock is held ---------------------------------------------------- */

static bool before(const struct spn__due *a, const struct spn__due *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

static void place(struct spn__delays *d, struct spn__due_heap *h, uint32_t at,
                  struct spn__due e)
{
    h->entries[at] = e;
    slot_at(d, e.slot)->at = h->tag | at;
}

static void up(struct spn__delays *d, struct spn__due_heap *h, uint32_t at,
               struct spn__due e)
{
    while (at > 0) {
        const uint32_t parent = (at - 1) / CHILDREN;

        if (!before(&e, &h->entries[parent]))
            break;
        place(d, h, at, h->entries[parent]);
        at = parent;
    }
    place(d, h, at, e);
}

static void down(struct spn__delays *d, struct spn__due_heap *h, uint32_t at,
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
        place(d, h, at, h->entries[least]);
        at = least;
    }
    place(d, h, at, e);
}

static struct spn__due due_of(const struct spn__delays *d, uint32_t slot)
{
    const struct spn__delay *s = slot_at(d, slot);

    return (struct spn__due){ s->due_ns, s->sequence, slot };
}

static void heap_add(struct spn__delays *d, struct spn__due_heap *h, uint32_t slot)
{
    up(d, h, h->used++, due_of(d, slot));
}

static void heap_cut(struct spn__delays *d, struct spn__due_heap *h, uint32_t at)
{
    const struct spn__due last = h->entries[--h->used];

    if (at >= h->used)
        return;
    if (at > 0 && before(&last, &h->entries[(at - 1) / CHILDREN]))
        up(d, h, at, last);
    else
        down(d, h, at, last);
}

/* In due order, which is a heap, too. */
static void sort(struct spn__delays *d, struct spn__due_heap *h)
{
    const uint32_t count = h->used;

    /* Heap sort, which leaves the first in order last... */
    while (h->used > 1) {
        const struct spn__due first = h->entries[0];
        const struct spn__due last = h->entries[--h->used];

        down(d, h, 0, last);
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
        place(d, h, i, h->entries[i]);
}

/* ---- slots and buckets; the lock is held --------------------------------------------- */

static uint32_t get_slot(struct spn__delays *d)
{
    const uint32_t slot = d->free;

    d->used++;
    if (slot == NONE)
        return d->made++;
    d->free = slot_at(d, slot)->next;
    return slot;
}

static void put_slot(struct spn__delays *d, uint32_t slot)
{
    slot_at(d, slot)->at = GONE;
    slot_at(d, slot)->next = d->free;
    d->free = slot;
    d->used--;
}

static uint32_t bucket_of(int64_t tick)
{
    return (uint32_t)((uint64_t)tick % SPN__BUCKETS);
}

static void set_filled(struct spn__delays *d, uint32_t bucket, bool filled)
{
    const uint64_t bit = UINT64_C(1) << (bucket % 64);

    if (filled)
        d->filled[bucket / 64] |= bit;
    else
        d->filled[bucket / 64] &= ~bit;
}

static bool is_filled(const struct spn__delays *d, uint32_t bucket)
{
    return (d->filled[bucket / 64] >> (bucket % 64) & 1) != 0;
}

/* Puts a slot where its time says. */
static void file(struct spn__delays *d, uint32_t slot)
{
    struct spn__delay *s = slot_at(d, slot);
    const int64_t tick = tick_of(s->due_ns);
    uint32_t bucket;

    if (tick <= d->tick) {
        heap_add(d, &d->near, slot);
    } else if (tick - d->tick >= SPN__BUCKETS) {
        heap_add(d, &d->far, slot);
    } else {
        bucket = bucket_of(tick);
        s->at = IN_BUCKET;
        s->next = is_filled(d, bucket) ? d->buckets[bucket] : NONE;
        d->buckets[bucket] = slot;
        set_filled(d, bucket, true);
        if (tick < d->first_tick)
            d->first_tick = tick;
    }
}

/* Empties a bucket into `near`; the dead are let go of. */
static void empty_bucket(struct spn__delays *d, uint32_t bucket)
{
    uint32_t slot = is_filled(d, bucket) ? d->buckets[bucket] : NONE;

    while (slot != NONE) {
        const uint32_t next = slot_at(d, slot)->next;

        if (next != NONE)
            __builtin_prefetch(slot_at(d, next));
        if (lives(slot_at(d, slot))) {
            heap_add(d, &d->near, slot);
        } else {
            d->dead--;
            put_slot(d, slot);
        }
        slot = next;
    }
    set_filled(d, bucket, false);
}

/* The tick of the first bucket that is not empty; INT64_MAX: all are. */
static int64_t find_first(const struct spn__delays *d)
{
    for (int64_t i = 1; i < SPN__BUCKETS; i++) {
        const uint32_t bucket = bucket_of(d->tick + i);

        if (bucket % 64 == 0 && d->filled[bucket / 64] == 0)
            i += 63; /* none of these */
        else if (is_filled(d, bucket))
            return d->tick + i;
    }
    return INT64_MAX;
}

/* Brings all that is due in the tick of now_ns or before into `near`. */
static void advance(struct spn__delays *d, int64_t now_ns)
{
    const int64_t tick = tick_of(now_ns);

    if (tick <= d->tick)
        return;
    for (int64_t t = d->first_tick; t <= tick && t - d->tick < SPN__BUCKETS; t++)
        empty_bucket(d, bucket_of(t));
    d->tick = tick;
    while (d->far.used > 0 && tick_of(d->far.entries[0].due_ns) - tick < SPN__BUCKETS) {
        const uint32_t slot = d->far.entries[0].slot;

        heap_cut(d, &d->far, 0);
        file(d, slot);
    }
    d->first_tick = find_first(d);
}

/* Lets go of all the dead. */
static void sweep(struct spn__delays *d)
{
    for (uint32_t b = 0; b < SPN__BUCKETS; b++) {
        uint32_t slot = is_filled(d, b) ? d->buckets[b] : NONE, kept = NONE;

        while (slot != NONE) {
            const uint32_t next = slot_at(d, slot)->next;

            if (lives(slot_at(d, slot))) {
                slot_at(d, slot)->next = kept;
                kept = slot;
            } else {
                put_slot(d, slot);
            }
            slot = next;
        }
        d->buckets[b] = kept;
        set_filled(d, b, kept != NONE);
    }
    d->dead = 0;
    d->first_tick = find_first(d);
}

/* Says when to look next; true if that is earlier than before. */
static bool publish(struct spn__delays *d)
{
    const int64_t was = spn__load(&d->next, relaxed); /* only written under the lock */
    int64_t next = SPN_FOREVER;

    if (d->far.used > 0)
        next = d->far.entries[0].due_ns;
    if (d->first_tick != INT64_MAX && d->first_tick << TICK_BITS < next)
        next = d->first_tick << TICK_BITS;
    if (d->near.used > 0 && d->near.entries[0].due_ns < next)
        next = d->near.entries[0].due_ns;
    if (next != was)
        spn__store(&d->next, next, relaxed); /* [next] */
    return next < was;
}

/* ---- in and out; the lock is held -------------------------------------------------------- */

/* relaxed reads: ours. */
static void count_pushed(struct spn__delays *d, int64_t by)
{
    /* [size] relaxed: the lock orders it. */
    spn__store(&d->source.pushed, spn__load(&d->source.pushed, relaxed) + by, relaxed);
}

static void count_popped(struct spn__delays *d, int64_t by)
{
    spn__store(&d->source.popped, spn__load(&d->source.popped, relaxed) + by,
               release); /* [size] */
}

static uint32_t waiting(const struct spn__delays *d)
{
    return d->used - d->dead;
}

/* There is room; true if somebody must look earlier. */
static bool put_in(struct spn__delays *d, struct spn__entry entry, int64_t due_ns)
{
    const uint32_t slot = get_slot(d);
    spn_task *task = task_in(&entry);

    slot_at(d, slot)->due_ns = due_ns;
    slot_at(d, slot)->sequence = d->sequence++;
    slot_at(d, slot)->entry = entry;
    if (task != NULL) {
        task->link[0] = (void *)(uintptr_t)slot;
        mark(task, d->source.pool->id);
        if (is_tied(task))
            spn__scheduled_entered(task, due_ns);
    }
    file(d, slot);
    count_pushed(d, 1);
    return publish(d);
}

/* Takes what is in a slot out. */
static struct spn__entry extract(struct spn__delays *d, uint32_t slot)
{
    struct spn__delay *s = slot_at(d, slot);
    const struct spn__entry entry = s->entry;
    spn_task *task = task_in(&entry);

    if ((s->at & TAG_MASK) == IN_BUCKET) {
        s->at = GONE;
        d->dead++;
        if (d->dead > DEAD_MIN && d->dead > waiting(d))
            sweep(d);
    } else {
        heap_cut(d, (s->at & TAG_MASK) == NEAR_TAG ? &d->near : &d->far,
                 s->at & ~TAG_MASK);
        put_slot(d, slot);
    }
    if (task != NULL)
        mark(task, TAKEN);
    (void)publish(d);
    return entry;
}

/* The same, and it is counted as gone. */
static struct spn__entry take_out(struct spn__delays *d, uint32_t slot)
{
    count_popped(d, 1);
    return extract(d, slot);
}

/* Whether the first is due; then it is in `near`. */
static bool first_is_due(struct spn__delays *d, int64_t now_ns)
{
    advance(d, now_ns);
    return d->near.used > 0 && d->near.entries[0].due_ns != SPN_FOREVER &&
           d->near.entries[0].due_ns <= now_ns;
}

/* ---- coming ------------------------------------------------------------------------------ */

/* Moves the heaps over into a larger block. */
static void move_to(struct spn__delays *d, struct spn__due *block, uint32_t room)
{
    if (d->near.used > 0)
        memcpy(block, d->near.entries, d->near.used * sizeof *block);
    if (d->far.used > 0)
        memcpy(block + room, d->far.entries, d->far.used * sizeof *block);
    d->near.entries = block;
    d->far.entries = block + room;
}

/* The lock is held before and after, but not meanwhile. */
static int grow(struct spn__delays *d)
{
    const uint32_t part = d->part_count;
    const uint32_t room = part < SPN__DELAY_PARTS ? room_before(part + 1) : 0;
    struct spn__delay *slots;
    struct spn__due *heaps;
    int rc = SPN_ENOMEM;

    if (room == 0)
        return SPN_ENOMEM;
    spn__unlock(&d->lock);
    slots = spn__alloc((room - room_before(part)) * sizeof *slots);
    if (slots != NULL)
        spn__expect_use(slots, (room - room_before(part)) * sizeof *slots);
    heaps = slots != NULL ? spn__alloc(2 * (size_t)room * sizeof *heaps) : NULL;
    spn__lock(&d->lock);
    if (heaps != NULL)
        rc = SPN_OK;
    if (heaps != NULL && part == d->part_count) { /* nobody else was faster */
        struct spn__due *old = d->near.entries;

        d->parts[d->part_count++] = slots;
        move_to(d, heaps, room);
        d->room = room;
        slots = NULL;
        heaps = old;
    }
    spn__unlock(&d->lock);
    spn__free(slots);
    spn__free(heaps);
    spn__lock(&d->lock);
    return rc;
}

static int push(struct spn__work_source *source, struct spn__entry entry,
                int64_t due_ns, uint64_t *sequence, bool *first)
{
    struct spn__delays *d = delays_of(source);
    int rc = SPN_OK;

    spn__lock(&d->lock);
    if (d->dead > 0 && d->used + d->away >= d->room)
        sweep(d);
    while (!d->closed && d->used + d->away >= d->room && rc == SPN_OK)
        rc = grow(d);
    if (d->closed)
        rc = SPN_ESHUTDOWN;
    if (rc == SPN_OK) {
        /* Time may have passed since the last one was due. */
        if (due_ns != SPN_FOREVER && tick_of(due_ns) - d->tick >= SPN__BUCKETS)
            advance(d, spn__delays_now(d));
        *sequence = d->sequence;
        *first = put_in(d, entry, due_ns);
    }
    spn__unlock(&d->lock);
    return rc;
}

/* Whether a task that comes back may; the lock is held. */
static bool may_come_back(struct spn__delays *d, spn_task *task, int64_t due_ns)
{
    /* relaxed: who stops the pool does so before it looks in here, with the lock. */
    if (spn__ctl_state(spn__load(&d->source.pool->ctl, relaxed)) >= SPN_EXECUTOR_STOP)
        return false;
    return !d->closed || d->allowed(d, task, due_ns);
}

bool spn__delays_come_back(struct spn__delays *d, spn_task *task, int64_t due_ns)
{
    bool back, first = false;

    spn__lock(&d->lock);
    d->away--;
    back = may_come_back(d, task, due_ns);
    if (back) {
        first = put_in(d, (struct spn__entry){ spn__entry_task, task }, due_ns);
        /* Cancelled while it was neither here nor seen to run: see future.c [tie]. */
        if (spn__scheduled_is_over(task)) {
            (void)extract(d, slot_of(task));
            mark(task, 0);
            count_pushed(d, -1);
            back = false;
        }
    }
    spn__unlock(&d->lock);
    if (back && first)
        spn__idle_notify_first(d->source.pool);
    return back;
}

void spn__delays_stay_away(struct spn__delays *d)
{
    spn__lock(&d->lock);
    d->away--;
    spn__unlock(&d->lock);
}

/* ---- going ------------------------------------------------------------------------------- */

/* The time, or one that was before it if something was due then: INT64_MIN if nothing
 * is due now. */
static int64_t due_by(struct spn__delays *d)
{
    const int64_t next = spn__load(&d->next, relaxed); /* [next] a hint */
    int64_t now_ns;

    if (next == SPN_FOREVER)
        return INT64_MIN;
    now_ns = spn__load(&d->seen_ns, relaxed); /* any time that has been will do */
    if (next <= now_ns)
        return now_ns;
    now_ns = spn__delays_now(d);
    if (next > now_ns)
        return INT64_MIN;
    if (d->monotonic)
        spn__store(&d->seen_ns, now_ns, relaxed); /* as above */
    return now_ns;
}

static bool take(struct spn__work_source *source, struct spn__entry *entry, bool *last)
{
    struct spn__delays *d = delays_of(source);
    bool taken = false;
    int64_t now_ns;

    /* Again if `next` was only a bucket's tick: it is exact then, and is looked for by the
     * clock. */
    while (!taken && (now_ns = due_by(d)) != INT64_MIN) {
        spn__lock(&d->lock);
        taken = first_is_due(d, now_ns);
        if (taken) {
            *entry = take_out(d, d->near.entries[0].slot);
            d->away += is_periodic(task_in(entry));
            *last = waiting(d) == 0;
        } else {
            (void)publish(d); /* exactly, now */
        }
        spn__unlock(&d->lock);
    }
    if (taken && is_tied(task_in(entry)))
        spn__scheduled_left(task_in(entry), is_periodic(task_in(entry)));
    return taken;
}

bool spn__delays_cut(struct spn__delays *d, spn_task *task, bool hold)
{
    bool found;

    spn__lock(&d->lock);
    found = waits_here(d, task);
    if (found && hold)
        spn__pool_hold(d->source.pool);
    if (found)
        (void)take_out(d, slot_of(task));
    spn__unlock(&d->lock);
    return found;
}

static bool remove_task(struct spn__work_source *source, spn_task *task)
{
    const bool found = spn__delays_cut(delays_of(source), task, false);

    if (found && is_tied(task))
        spn__scheduled_left(task, false);
    return found;
}

static bool withdraw(struct spn__work_source *source, uint64_t sequence)
{
    struct spn__delays *d = delays_of(source);
    struct spn__entry entry = { NULL, NULL };
    bool found = false;

    spn__lock(&d->lock);
    for (uint32_t i = 0; i < d->made && !found; i++)
        if (lives(slot_at(d, i)) && slot_at(d, i)->sequence == sequence) {
            entry = extract(d, i);
            count_pushed(d, -1);
            found = true;
        }
    spn__unlock(&d->lock);
    if (found && is_tied(task_in(&entry)))
        spn__scheduled_left(task_in(&entry), false);
    return found;
}

/* Brings all that waits into `near`, in order; the lock is held. */
static void line_up(struct spn__delays *d)
{
    for (uint32_t b = 0; b < SPN__BUCKETS; b++)
        empty_bucket(d, b);
    while (d->far.used > 0)
        heap_add(d, &d->near, d->far.entries[--d->far.used].slot);
    d->first_tick = INT64_MAX;
    sort(d, &d->near);
}

/* Takes out those that `wanted` says, or all, in order.  Calls are given nodes if that is
 * what the caller wants (`dropped` counts those without), and else just go. */
static int64_t collect_if(struct spn__delays *d,
                          bool (*wanted)(struct spn__delays *, const spn_task *,
                                         int64_t, const void *),
                          const void *ctx, struct spn__list *out, int64_t *dropped)
{
    struct spn__list_node *node;
    struct spn__list found;
    int64_t count = 0, lost = 0;
    uint32_t kept = 0;

    spn__list_init(&found);
    spn__lock(&d->lock);
    line_up(d);
    for (uint32_t i = 0; i < d->near.used; i++) {
        const struct spn__due e = d->near.entries[i];
        const struct spn__entry entry = slot_at(d, e.slot)->entry;
        spn_task *task = task_in(&entry);

        if (wanted != NULL && !wanted(d, task, e.due_ns, ctx)) {
            place(d, &d->near, kept++, e);
            continue;
        }
        put_slot(d, e.slot);
        count++;
        if (task != NULL)
            mark(task, TAKEN);
        else if (dropped != NULL) {
            task = spn__call_task_create_bare(entry.fn, entry.arg);
            if (task != NULL) /* as if it had been one */
                mark(task, TAKEN);
            else
                lost++;
        }
        if (task != NULL)
            spn__list_push_back(&found, spn__task_node(task));
    }
    d->near.used = kept; /* what is left is in order */
    (void)publish(d);
    count_popped(d, count);
    spn__unlock(&d->lock);
    spn__list_each (node, &found)
        if (is_tied(spn__node_task(node)))
            spn__scheduled_left(spn__node_task(node), false);
    spn__list_splice(out, &found);
    if (dropped != NULL)
        *dropped += lost;
    return count - lost;
}

struct filter {
    bool (*wanted)(spn_task *task, const void *ctx);
    const void *ctx;
};

static bool passes(struct spn__delays *d, const spn_task *task, int64_t due_ns,
                   const void *ctx)
{
    const struct filter *f = ctx;

    (void)d;
    (void)due_ns;
    return task != NULL && f->wanted((spn_task *)(uintptr_t)task, f->ctx);
}

static int64_t collect(struct spn__work_source *source,
                       bool (*wanted)(spn_task *, const void *), const void *ctx,
                       struct spn__list *out, int64_t *dropped)
{
    const struct filter f = { wanted, ctx };

    return collect_if(delays_of(source), wanted != NULL ? passes : NULL, &f, out,
                      dropped);
}

static bool not_allowed(struct spn__delays *d, const spn_task *task, int64_t due_ns,
                        const void *ctx)
{
    (void)ctx;
    return !d->allowed(d, task, due_ns);
}

static int64_t forbidden(struct spn__work_source *source, struct spn__list *out)
{
    return collect_if(delays_of(source), not_allowed, NULL, out, NULL);
}

size_t spn__delays_take_due(struct spn__delays *d, spn_task **tasks, size_t capacity)
{
    size_t count = 0;
    int64_t now_ns;
    bool earlier;

    spn__lock(&d->lock);
    now_ns = spn__delays_now(d);
    /* Calls have no task: they, and what is behind them, stay. */
    while (count < capacity && first_is_due(d, now_ns)) {
        const uint32_t slot = d->near.entries[0].slot;

        if (task_in(&slot_at(d, slot)->entry) == NULL)
            break;
        tasks[count++] = take_out(d, slot).arg;
    }
    earlier = publish(d);
    spn__unlock(&d->lock);
    if (earlier)
        spn__idle_notify_first(d->source.pool);
    for (size_t i = 0; i < count; i++)
        if (is_tied(tasks[i]))
            spn__scheduled_left(tasks[i], false);
    return count;
}

static int64_t snapshot(struct spn__work_source *source, spn_task **tasks,
                        size_t capacity)
{
    struct spn__delays *d = delays_of(source);
    uint32_t count;
    size_t shown = 0;

    spn__lock(&d->lock);
    line_up(d);
    count = d->near.used;
    for (uint32_t i = 0; i < count && shown < capacity; i++) {
        spn_task *task = task_in(&slot_at(d, d->near.entries[i].slot)->entry);

        if (task != NULL)
            tasks[shown++] = task;
    }
    (void)publish(d);
    spn__unlock(&d->lock);
    return (int64_t)count;
}

/* ---- time ---------------------------------------------------------------------------- */

static int64_t now(struct spn__work_source *source)
{
    return spn__delays_now(delays_of(source));
}

static int64_t next_ns(struct spn__work_source *source)
{
    struct spn__delays *d = delays_of(source);
    const int64_t next = spn__load(&d->next, relaxed); /* [next] */

    if (next == SPN_FOREVER)
        return SPN_FOREVER;
    /* relaxed: as in due_by. */
    if (next <= spn__load(&d->seen_ns, relaxed) || next <= spn__delays_now(d))
        return INT64_MIN;
    return d->monotonic ? next : SPN_FOREVER;
}

static void clock_moved(void *ctx)
{
    struct spn__delays *d = ctx;

    /* [next] after the move, which is as good as an earlier task.
     * mutant: the clock's locks lie between, full fences where the explorer models them */
    spn__fence(seq_cst);
    if (next_ns(&d->source) == INT64_MIN)
        spn__idle_notify_first(d->source.pool);
}

/* ---- the whole ------------------------------------------------------------------------ */

static void lock(struct spn__work_source *source)
{
    spn__lock(&delays_of(source)->lock);
}

static void unlock(struct spn__work_source *source)
{
    spn__unlock(&delays_of(source)->lock);
}

static void close_door(struct spn__work_source *source)
{
    delays_of(source)->closed = true;
}

static const struct spn__work_source_ops ops = { .push = push,
                                                 .now = now,
                                                 .take = take,
                                                 .next_ns = next_ns,
                                                 .remove = remove_task,
                                                 .withdraw = withdraw,
                                                 .collect = collect,
                                                 .forbidden = forbidden,
                                                 .snapshot = snapshot,
                                                 .lock = lock,
                                                 .unlock = unlock,
                                                 .close = close_door,
                                                 .new_task = spn__scheduled_new_task };

void spn__delays_init(struct spn__delays *d, spn_clock *clock,
                      bool (*allowed)(struct spn__delays *, const spn_task *, int64_t))
{
    d->source.ops = &ops;
    d->source.pool = NULL;
    spn__init(&d->source.pushed, 0);
    spn__init(&d->source.popped, 0);
    d->clock = clock;
    d->monotonic = clock == spn_clock_monotonic();
    d->allowed = allowed;
    spn__lock_init(&d->lock);
    d->closed = false;
    d->part_count = 0;
    d->room = d->made = d->used = d->dead = d->away = 0;
    d->free = NONE;
    d->tick = tick_of(spn__delays_now(d));
    d->first_tick = INT64_MAX;
    d->sequence = 1; /* 0 is none's */
    d->near = (struct spn__due_heap){ .tag = NEAR_TAG };
    d->far = (struct spn__due_heap){ .tag = FAR_TAG };
    spn__init(&d->next, SPN_FOREVER);
    spn__init(&d->seen_ns, INT64_MIN);
    memset(d->filled, 0, sizeof d->filled);
}

void spn__delays_listen(struct spn__delays *d)
{
    spn__clock_listen(d->clock, &d->listener, clock_moved, d);
}

void spn__delays_unlisten(struct spn__delays *d)
{
    spn__clock_unlisten(d->clock, &d->listener);
}

void spn__delays_fini(struct spn__delays *d)
{
    for (uint32_t part = 0; part < d->part_count; part++)
        spn__free(d->parts[part]);
    spn__free(d->near.entries);
}
