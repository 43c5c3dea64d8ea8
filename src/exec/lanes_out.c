/* SPDX-License-Identifier: MIT */
/*
 * lanes_out.c - taking entries out of the lanes without starting them: remove, collect,
 * drain; and the picture of all that wait.  lanes.c tells how; the labels and locks are its.
 */
#include "exec/lanes.h"

/* ---- taking out ------------------------------------------------------------------------------- */

static void count_removed(struct spn__lanes *lanes, int64_t by)
{
    /* relaxed read: written under the lock.  [hold] release: see size. */
    spn__store(&lanes->removed, spn__load(&lanes->removed, relaxed) + by, release);
}

/* Lets a lane begin with an entry, as far as it was seen; it is locked. */
static void trim_lane(struct spn__lanes *lanes, struct lane *l, uint64_t tail)
{
    uint64_t head = spn__load(&l->head, relaxed); /* ours, by the lock */

    while (head != tail) {
        struct chunk *c = chunk_at(l, head);
        const uint32_t index = (uint32_t)(head % CHUNK);

        if (c->slots[index].fn != NULL)
            break;
        l->head_chunk = c;
        l->head_index = index + 1;
        head++;
        /* relaxed: nothing went to a batch. */
        spn__store(&l->head, head, relaxed);
        spn__lanes_done(lanes, c, 1);
    }
}

/* Lets a batch end with an entry; it is locked, and shut from `from` on. */
static void trim_batch(struct spn__lanes *lanes, struct spn__batch *b, uint32_t from)
{
    const uint32_t end = spn__load(&b->end, relaxed); /* ours, by the lock */
    uint32_t to = end;

    while (to > from && b->chunk->slots[to - 1].fn == NULL)
        to--;
    b->held -= end - to;
    spn__store(&b->end, to, relaxed); /* seen by waiting, which only hints */
    spn__lanes_done(lanes, b->chunk, end - to);
}

/* The entry is not to be started; its slot is the caller's by some lock. */
static bool bury(struct spn__entry *slot, const spn_task *task)
{
    if (slot->fn != spn__entry_task || slot->arg != task)
        return false;
    slot->fn = NULL;
    return true;
}

static bool remove_from_batch(struct spn__lanes *lanes, struct spn__batch *b,
                              struct lane *l, uint64_t position, const spn_task *task)
{
    bool removed = false;

    spn__lock(&b->lock);
    if (waiting(b) != 0 && b->lane == l && position >= b->base &&
        position - b->base < spn__load(&b->end, relaxed)) { /* ours, by the lock */
        const uint32_t index = (uint32_t)(position - b->base);
        const uint32_t from = shut(b, index);

        if (from == index) {
            removed = bury(&b->chunk->slots[index], task);
            trim_batch(lanes, b, from);
        }
        reopen(b);
    }
    spn__unlock(&b->lock);
    return removed;
}

/* lanes->lock is held. */
static bool remove_from(struct spn__lanes *lanes, struct lane *l, uintptr_t link,
                        const spn_task *task)
{
    bool removed = false, claimed;
    uint64_t tail, position;

    spn__lock(&l->lock);
    tail = spn__load(&l->tail, acquire);                   /* [tail] */
    position = tail - (uintptr_t)((uintptr_t)tail - link); /* all of it, where a pointer
                                                              holds only a part */
    claimed = position < spn__load(&l->head, relaxed);     /* ours, by the lock */
    if (!claimed && position < tail) {
        removed = bury(&chunk_at(l, position)->slots[position % CHUNK], task);
        trim_lane(lanes, l, tail);
    }
    spn__unlock(&l->lock);
    /* What is claimed stays in the batch it is in. */
    if (claimed)
        for (struct spn__batch *b = first_batch(lanes); b != NULL && !removed;
             b = next_batch(b))
            if (waiting(b) != 0)
                removed = remove_from_batch(lanes, b, l, position, task);
    return removed;
}

bool spn__lanes_remove(struct spn__lanes *lanes, spn_task *task)
{
    bool removed = false;
    void *lane, *position;

    /* relaxed, all: see link_of. */
    if (spn__load(spn__task_queued(task), relaxed) != lanes->mark)
        return false;
    spn__lock(&lanes->lock);
    lane = spn__load(link_of(task, 0), relaxed);
    position = spn__load(link_of(task, 1), relaxed);
    for (struct lane *l = first_lane(lanes); l != NULL; l = next_lane(l))
        if (l == lane)
            removed = remove_from(lanes, l, (uintptr_t)position, task);
    if (removed) {
        mark_taken(task);
        count_removed(lanes, 1);
    }
    spn__unlock(&lanes->lock);
    return removed;
}

/* ---- looking at all of them ------------------------------------------------------------------ */

/* Locks everything, so that no entry moves; with `shut_all` none starts either. */
static void lock_all(struct spn__lanes *lanes, bool shut_all)
{
    spn__lock(&lanes->lock);
    for (struct lane *l = first_lane(lanes); l != NULL; l = next_lane(l)) {
        spn__lock(&l->lock);
        /* [tail] mutant: a picture reads plain slots, and collect makes a fence */
        l->seen = spn__load(&l->tail, acquire);
    }
    for (struct spn__batch *b = first_batch(lanes); b != NULL; b = next_batch(b)) {
        spn__lock(&b->lock);
        if (shut_all)
            spn__store(&b->gate, 0, relaxed); /* before the fence [gate] */
    }
    if (shut_all)
        spn__fence_heavy(); /* [gate] */
    for (struct spn__batch *b = first_batch(lanes); b != NULL; b = next_batch(b)) {
        /* relaxed: after the fence [gate], or only a look; end is ours. */
        const uint32_t next = spn__load(&b->next, relaxed);
        const uint32_t end = spn__load(&b->end, relaxed);

        b->from = next < end ? next : end;
    }
}

static void unlock_all(struct spn__lanes *lanes, bool shut_all)
{
    for (struct spn__batch *b = first_batch(lanes); b != NULL; b = next_batch(b)) {
        if (shut_all)
            reopen(b);
        spn__unlock(&b->lock);
    }
    for (struct lane *l = first_lane(lanes); l != NULL; l = next_lane(l))
        spn__unlock(&l->lock);
    spn__unlock(&lanes->lock);
}

/* Sorts the batches that have something to the lanes they come from. */
static void sort_batches(struct spn__lanes *lanes)
{
    for (struct lane *l = first_lane(lanes); l != NULL; l = next_lane(l))
        l->claimed = NULL;
    for (struct spn__batch *b = first_batch(lanes); b != NULL; b = next_batch(b)) {
        struct spn__batch **at;

        if (b->from == spn__load(&b->end, relaxed)) /* ours, by the lock */
            continue;
        at = &b->lane->claimed;
        while (*at != NULL && (*at)->base + (*at)->from < b->base + b->from)
            at = &(*at)->next_claimed;
        b->next_claimed = *at;
        *at = b;
    }
}

/* Calls look(slot, ctx) for all that wait, lane by lane, in order, until it says false;
 * all is locked. */
static void visit(struct spn__lanes *lanes, bool (*look)(struct spn__entry *, void *),
                  void *ctx)
{
    sort_batches(lanes);
    for (struct lane *l = first_lane(lanes); l != NULL; l = next_lane(l)) {
        const uint64_t head = spn__load(&l->head, relaxed); /* ours, by the lock */

        for (struct spn__batch *b = l->claimed; b != NULL; b = b->next_claimed)
            /* relaxed: ours, by the lock. */
            for (uint32_t i = b->from; i < spn__load(&b->end, relaxed); i++)
                if (!look(&b->chunk->slots[i], ctx))
                    return;
        for (uint64_t p = head; p < l->seen; p++)
            if (!look(&chunk_at(l, p)->slots[p % CHUNK], ctx))
                return;
    }
}

/* What was taken out, `count` entries, has no place any more; all is locked and shut. */
static void trim_all(struct spn__lanes *lanes, int64_t count)
{
    for (struct lane *l = first_lane(lanes); l != NULL; l = next_lane(l))
        trim_lane(lanes, l, l->seen);
    for (struct spn__batch *b = first_batch(lanes); b != NULL; b = next_batch(b))
        if (b->from != spn__load(&b->end, relaxed)) /* ours, by the lock */
            trim_batch(lanes, b, b->from);
    count_removed(lanes, count);
}

struct collecting {
    bool (*wanted)(spn_task *, const void *);
    const void *ctx;
    struct spn__list *out;
    int64_t count;
};

static bool collect_slot(struct spn__entry *slot, void *p)
{
    struct collecting *k = p;
    spn_task *task = slot->arg;

    if (slot->fn != spn__entry_task || (k->wanted != NULL && !k->wanted(task, k->ctx)))
        return true;
    slot->fn = NULL;
    mark_taken(task);
    spn__list_push_back(k->out, spn__task_node(task));
    k->count++;
    return true;
}

int64_t spn__lanes_collect(struct spn__lanes *lanes,
                           bool (*wanted)(spn_task *, const void *), const void *ctx,
                           struct spn__list *out)
{
    struct collecting k = { wanted, ctx, out, 0 };

    lock_all(lanes, true);
    visit(lanes, collect_slot, &k);
    trim_all(lanes, k.count);
    unlock_all(lanes, true);
    return k.count;
}

struct draining {
    struct spn__entry *entries;
    size_t capacity, count;
};

static bool drain_slot(struct spn__entry *slot, void *p)
{
    struct draining *d = p;

    if (slot->fn == NULL)
        return true;
    if (d->count == d->capacity)
        return false;
    if (slot->fn == spn__entry_task)
        mark_taken(slot->arg);
    d->entries[d->count++] = *slot;
    slot->fn = NULL;
    return true;
}

size_t spn__lanes_drain(struct spn__lanes *lanes, struct spn__entry *entries,
                        size_t capacity)
{
    struct draining d = { entries, capacity, 0 };

    lock_all(lanes, true);
    visit(lanes, drain_slot, &d);
    trim_all(lanes, (int64_t)d.count);
    unlock_all(lanes, true);
    return d.count;
}

struct picture {
    spn_task **tasks;
    size_t capacity, count;
};

static bool picture_slot(struct spn__entry *slot, void *p)
{
    struct picture *picture = p;

    if (slot->fn != spn__entry_task)
        return true;
    if (picture->count < picture->capacity)
        picture->tasks[picture->count] = slot->arg;
    picture->count++;
    return true;
}

int64_t spn__lanes_snapshot(struct spn__lanes *lanes, spn_task **tasks, size_t capacity)
{
    struct picture picture = { tasks, capacity, 0 };

    lock_all(lanes, false);
    visit(lanes, picture_slot, &picture);
    unlock_all(lanes, false);
    return (int64_t)picture.count;
}
