/* SPDX-License-Identifier: MIT */
/*
 * wheel.c - timing wheels: hashed, and hierarchical with overlapping levels.
 *
 * OVERVIEW
 *   Time is counted in ticks from the origin.  A slot of level l is 2^(step * l)
 *   ticks wide and holds the nodes of those ticks, in the order they were added; a
 *   level is a ring of W slots.  `cursor` of level 0 is the first tick that has not
 *   passed.  `cursor` of level l > 0 is its first slot whose nodes have not been
 *   moved down: level l - 1 takes the ticks before it, its `limit`.
 *
 *   Levels overlap: one reaches W slots ahead, while the next one's slots are only
 *   2^step of them wide.  So a slot can be moved down long before its first tick,
 *   a few nodes at a time; only after a long sleep or jump is it moved as a whole.
 *   There are as many levels as it takes to reach the end of time, so no node is
 *   ever filed in a slot that is not its own.
 *
 *   The hashed layout is level 0 alone.  A node's remaining rounds are not stored:
 *   they follow from its time, so that a turn the owner slept through costs nothing.
 *
 * INVARIANTS  (spn__wheel_check)
 *   cursor(l) <= limit(l) = cursor(l + 1) << step <= cursor(l) + W, so that slots in
 *   use are told apart by their number modulo W;
 *   a node of level l has cursor(l) <= its slot number < limit(l).
 *   It follows that what is in level l is earlier than what is in level l + 1, and
 *   that nodes of one tick stay in the order they were added: while a slot of level
 *   l + 1 is being moved down, new nodes for it still join its end.
 *
 * MARKS
 *   Adding to a slot marks it in the level's bitmap; removing a node leaves the mark, and
 *   whoever looks for the first occupied slot takes away those of empty ones on the way:
 *   one for one that was made, so it costs no more than to take it away at once.  So
 *   removing is two stores and does not ask which slot the node was in, and adding finds
 *   nearly every slot marked before, where it would find about half of them with as many
 *   nodes as slots: a branch that no processor foretells.
 *
 * SLEEPING
 *   next_expiry finds the first occupied slot of each level by its bitmap.  For a
 *   slot of a level above 0 it asks for a call half a level ahead of its start: early
 *   enough to move it down bit by bit, and at most once per level for a lone node.
 *
 * WHY NOT a heap?  It sorts, which nobody asks of a timer with ticks, and pays with a
 * chain of cache misses per operation.  WHY NOT more, smaller levels (6 x 64)?  They
 * move a whole slot down in one go, and the nodes at its front are late by as much.
 */
#include "wheel/wheel.h"

#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/options.h"
#include "sync/seam.h"

_Static_assert(sizeof(spn_wheel_node) == 2 * sizeof(void *) + 16,
               "embedded in users' structs: part of the ABI");
_Static_assert(offsetof(spn_wheel_node, link) == 0, "spn__wheel_node_of");
_Static_assert(sizeof(spn_wheel_opts) == sizeof(size_t) + 24, "append only, no holes");

#define NONE UINT64_MAX

/* Nodes moved down ahead of need by one call of advance_to. */
#define AHEAD_NODES 1024

#define DEFAULT_TICK_NS SPN_MS(1)
#define DEFAULT_SLOTS   512

/* ---- bitmaps ------------------------------------------------------------------ */

/* The first bit at or after `from` in an array of words, or NONE. */
static uint64_t next_bit(const uint64_t *words, uint64_t from, uint64_t bits)
{
    uint64_t index = from >> 6, word;

    if (from >= bits)
        return NONE;
    word = words[index] & (UINT64_MAX << (from & 63));
    while (word == 0) {
        if (++index >= (bits + 63) >> 6)
            return NONE;
        word = words[index];
    }
    return index << 6 | (uint64_t)__builtin_ctzll(word);
}

/* The first marked slot at or after `from`, which is less than W, or NONE. */
static uint64_t next_slot(const struct spn_wheel *w, const struct spn__wheel_level *l,
                          uint64_t from)
{
    const uint64_t words = (w->mask >> 6) + 1;
    uint64_t index = from >> 6, word = l->used[index] & (UINT64_MAX << (from & 63));

    if (word == 0) {
        index = next_bit(l->summary, index + 1, words);
        if (index == NONE)
            return NONE;
        word = l->used[index];
    }
    return index << 6 | (uint64_t)__builtin_ctzll(word);
}

static void unmark(struct spn__wheel_level *l, uint64_t slot)
{
    l->used[slot >> 6] &= ~(UINT64_C(1) << (slot & 63));
    if (l->used[slot >> 6] == 0)
        l->summary[slot >> 12] &= ~(UINT64_C(1) << (slot >> 6 & 63));
    l->used_slots--;
}

static bool is_empty(const spn_wheel_link *ring)
{
    return ring->next == ring;
}

/* The number of the first occupied slot of a level from its cursor on, or NONE; marks
 * before it go. */
static uint64_t next_used(const struct spn_wheel *w, struct spn__wheel_level *l)
{
    const uint64_t start = l->cursor & w->mask;

    while (l->used_slots != 0) {
        uint64_t slot = next_slot(w, l, start), before = 0;

        if (slot == NONE) { /* round the corner */
            slot = next_slot(w, l, 0);
            before = w->mask + 1;
        }
        if (!is_empty(&l->slots[slot]))
            return l->cursor + (slot + before - start);
        unmark(l, slot);
    }
    return NONE;
}

/* ---- moving ------------------------------------------------------------------- */

static uint32_t shift_of(const struct spn_wheel *w, uint32_t level)
{
    return w->step_bits * level;
}

static void set_cursor(struct spn_wheel *w, uint32_t level, uint64_t cursor)
{
    w->levels[level].cursor = cursor;
    if (level > 0)
        w->levels[level - 1].limit = cursor << w->step_bits;
}

/* Moves a whole slot of level 0 to the due ones, without touching its nodes but the
 * outer two. */
static void expire_slot(struct spn_wheel *w, uint64_t number)
{
    struct spn__wheel_level *l = &w->levels[0];
    spn_wheel_link *head = &l->slots[number & w->mask];

    head->next->prev = w->due.prev;
    w->due.prev->next = head->next;
    head->prev->next = &w->due;
    w->due.prev = head->prev;
    unmark(l, number & w->mask);
}

/*
 * Moves up to *budget nodes from the front of a slot of `level` > 0 to lower ones.
 * True: the slot is empty, and the cursor has passed it.
 */
static bool move_down(struct spn_wheel *w, uint32_t level, uint64_t slot_number,
                      size_t *budget)
{
    struct spn__wheel_level *l = &w->levels[level];
    spn_wheel_link *head = &l->slots[slot_number & w->mask], *link = head->next;

    set_cursor(w, level, slot_number);
    for (; link != head && *budget > 0; --*budget) {
        spn_wheel_node *node = spn__wheel_node_of(link);
        uint64_t number = spn__wheel_tick_of(w, node->due_ns);
        uint32_t to = 0;

        link = link->next;
        __builtin_prefetch(link->next);
        /* Its own level's limit does not cover this slot yet: stop below it. */
        for (; to + 1 < level && number >= w->levels[to].limit; to++)
            number >>= w->step_bits;
        spn__wheel_put(w, node, &w->levels[to], to, number);
    }
    if (link != head) {
        head->next = link;
        link->prev = head;
        return false;
    }
    unmark(l, slot_number & w->mask);
    set_cursor(w, level, slot_number + 1);
    return true;
}

/*
 * Lets each level reach as far ahead as it can, moving down what stands in the way
 * while the budget lasts.
 */
static void reach_ahead(struct spn_wheel *w, size_t budget)
{
    const uint64_t ahead = w->mask + 1 - (UINT64_C(1) << w->step_bits);

    for (uint32_t level = 1; level <= w->top; level++) {
        struct spn__wheel_level *l = &w->levels[level];
        uint64_t target = (w->levels[level - 1].cursor + ahead) >> w->step_bits;

        if (target > l->limit)
            target = l->limit;
        while (l->cursor < target) {
            const uint64_t used = next_used(w, l);

            if (used >= target)
                set_cursor(w, level, target);
            else if (budget == 0 || !move_down(w, level, used, &budget))
                break;
        }
    }
}

/* Nothing is filed before `tick`: moves every cursor there. */
static void pass(struct spn_wheel *w, uint64_t tick)
{
    for (uint32_t level = 0; level <= w->top; level++) {
        const uint32_t shift = shift_of(w, level);
        const uint64_t number = (tick >> shift) + ((tick >> shift << shift) != tick);

        if (w->levels[level].cursor >= number)
            break; /* and so do the levels above */
        set_cursor(w, level, number);
    }
}

/*
 * The level above 0 whose first occupied slot starts earliest, the highest of equals,
 * because one that is being moved down may still hold the earliest nodes; and when it
 * starts.  0: there is none.
 */
static uint32_t first_upper(struct spn_wheel *w, uint64_t *slot, uint64_t *start)
{
    uint32_t found = 0;

    *slot = *start = NONE;
    for (uint32_t level = 1; level <= w->top; level++) {
        const uint64_t number = next_used(w, &w->levels[level]);
        const uint64_t at = number << shift_of(w, level);

        if (number == NONE)
            continue;
        if (at <= *start) {
            found = level;
            *slot = number;
            *start = at;
        }
    }
    return found;
}

static bool step_hierarchical(struct spn_wheel *w, uint64_t now, size_t *budget)
{
    while (w->levels[0].cursor <= now) {
        const uint64_t tick = next_used(w, &w->levels[0]);
        uint64_t slot, start;
        const uint32_t level = first_upper(w, &slot, &start);

        if (level != 0 && start <= now && start <= tick) {
            if (start > w->levels[0].cursor)
                pass(w, start);
            if (!move_down(w, level, slot, budget))
                return false;
            if (level > 1)
                reach_ahead(w, 0); /* what comes next may go further down at once */
            continue;
        }
        if (tick > now)
            break;
        expire_slot(w, tick);
        pass(w, tick + 1);
        if (*budget == 0)
            return false;
        --*budget;
    }
    if (w->levels[0].cursor <= now)
        pass(w, now + 1);
    reach_ahead(w, *budget);
    return true;
}

/* Looks at each occupied slot that the time passes, once. */
static void step_hashed(struct spn_wheel *w, uint64_t now, int64_t now_ns)
{
    struct spn__wheel_level *l = &w->levels[0];
    const uint64_t turn = w->mask + 1;
    uint64_t end = now + 1; /* of the slots to look at */

    if (end - l->cursor > turn)
        end = l->cursor + turn;
    for (uint64_t number = l->cursor; number < end; number++) {
        const uint64_t start = number & w->mask;
        uint64_t slot = l->used_slots != 0 ? next_slot(w, l, start) : NONE;
        spn_wheel_link *head, *link, *next;

        if (slot == NONE) { /* none up to the corner */
            number += w->mask - start;
            continue;
        }
        number += slot - start;
        if (number >= end)
            break;
        head = &l->slots[slot];
        for (link = head->next; link != head; link = next) {
            spn_wheel_node *node = spn__wheel_node_of(link);

            next = link->next;
            __builtin_prefetch(next->next);
            if (now_ns == SPN_FOREVER || spn__wheel_tick_of(w, node->due_ns) <= now) {
                spn__wheel_unlink(node);
                node->place = SPN__WHEEL_DUE;
                spn__wheel_push(&w->due, &node->link);
            }
        }
        if (is_empty(head))
            unmark(l, slot);
    }
    l->cursor = now + 1;
}

bool spn__wheel_step(struct spn_wheel *w, int64_t now_ns, size_t budget)
{
    uint64_t now;

    if (now_ns <= w->now_ns)
        return true;
    now = spn__wheel_ticks(w, (uint64_t)now_ns - (uint64_t)w->origin_ns);
    if (now_ns == SPN_FOREVER)
        now = spn__wheel_tick_of(w, SPN_FOREVER); /* rounded up: there is no later */
    if (now >= w->levels[0].cursor) {
        if (w->hashed)
            step_hashed(w, now, now_ns);
        else if (!step_hierarchical(w, now, &budget))
            return false;
    }
    w->now_ns = now_ns;
    return true;
}

/* ---- life --------------------------------------------------------------------- */

static uint32_t bits_of(uint64_t value)
{
    return value == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(value);
}

/* See spn__wheel_ticks. */
static uint64_t reciprocal_of(uint64_t tick_ns, uint32_t tick_bits)
{
    __extension__ typedef unsigned __int128 wide;

    return (uint64_t)((((wide)1 << (63 + tick_bits)) + tick_ns - 1) / tick_ns);
}

/* The steps between levels: wide enough that few levels do, narrow enough that a
 * level reaches several slots of the next one ahead. */
static uint32_t step_bits_for(uint32_t slot_bits)
{
    const uint32_t bits = (slot_bits - 1) / 2;

    return bits < 1 ? 1 : bits > 5 ? 5 : bits;
}

static int check_opts(spn_wheel_opts *o)
{
    if (o->tick_ns == 0)
        o->tick_ns = DEFAULT_TICK_NS;
    if (o->slots == 0)
        o->slots = DEFAULT_SLOTS;
    if (o->tick_ns < 0 || o->origin_ns < 0 || o->slots > SPN_WHEEL_SLOTS_MAX ||
        o->layout > SPN_WHEEL_HASHED)
        return SPN_EINVAL;
    if (o->layout == SPN_WHEEL_HIERARCHICAL && o->slots < 4)
        o->slots = 4;
    if (o->slots > 1)
        o->slots = UINT32_C(1) << bits_of(o->slots - 1);
    /* A turn of the slots there are, not only of those asked for, must fit. */
    return o->tick_ns < INT64_MAX / o->slots ? SPN_OK : SPN_EINVAL;
}

int spn_wheel_create(spn_wheel **out, const spn_wheel_opts *opts)
{
    spn_wheel_opts o = SPN_WHEEL_OPTS_INIT;
    struct spn_wheel *w;
    uint32_t slot_bits, top = 0, step_bits = 0;
    size_t words, summary_words, header, maps, bytes;
    uint64_t *map;
    spn_wheel_link *slots;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (check_opts(&o) != SPN_OK)
        return SPN_EINVAL;

    slot_bits = bits_of(o.slots - 1);
    if (o.layout == SPN_WHEEL_HIERARCHICAL) {
        const uint32_t tick_bits = bits_of((uint64_t)(INT64_MAX / o.tick_ns) + 1);

        step_bits = step_bits_for(slot_bits);
        if (tick_bits > slot_bits)
            top = (tick_bits - slot_bits + step_bits - 1) / step_bits;
        spn__assert(top < SPN__WHEEL_LEVELS_MAX);
    }
    words = ((size_t)o.slots + 63) / 64;
    summary_words = (words + 63) / 64;
    header = sizeof *w + (top + 1) * sizeof w->levels[0];
    header = (header + 63) & ~(size_t)63;
    maps = (top + 1) * (words + summary_words) * sizeof *map;
    maps = (maps + 63) & ~(size_t)63;
    bytes = header + maps + (size_t)(top + 1) * o.slots * sizeof *slots;

    w = spn__alloc_aligned(bytes, SPN__CACHE_LINE);
    if (w == NULL)
        return SPN_ENOMEM;
    memset(w, 0, header + maps); /* not the slots: see spn__wheel_put */
    w->origin_ns = w->now_ns = o.origin_ns;
    w->tick_ns = (uint64_t)o.tick_ns;
    w->tick_bits = bits_of(w->tick_ns - 1);
    w->reciprocal = reciprocal_of(w->tick_ns, w->tick_bits);
    w->mask = o.slots - 1;
    w->step_bits = step_bits;
    w->top = top;
    w->hashed = o.layout == SPN_WHEEL_HASHED;
    w->due.next = w->due.prev = &w->due;
    map = (uint64_t *)(void *)((char *)w + header);
    slots = (spn_wheel_link *)(void *)((char *)w + header + maps);
    for (uint32_t i = 0; i <= top; i++) {
        w->levels[i].used = map + i * (words + summary_words);
        w->levels[i].summary = w->levels[i].used + words;
        w->levels[i].slots = slots + (size_t)i * o.slots;
    }
    w->levels[top].limit = UINT64_MAX;
    for (uint32_t i = 0; i <= top; i++)
        set_cursor(w, i, 1); /* tick 0 is the origin, which is now */
    for (uint32_t i = 0; i <= top; i++)
        reach_ahead(w, 0); /* each level only as far as the next one did before */
    *out = w;
    return SPN_OK;
}

int spn_wheel_destroy(spn_wheel *w)
{
    if (w == NULL)
        return SPN_OK;
    if (w->count != 0)
        return SPN_EBUSY;
    spn__free(w);
    return SPN_OK;
}

/* ---- nodes -------------------------------------------------------------------- */

int spn_wheel_add(spn_wheel *w, spn_wheel_node *node, int64_t due_ns)
{
    if (w == NULL || node == NULL)
        return SPN_EINVAL;
    if (node->place != SPN__WHEEL_IDLE)
        return SPN_EBUSY;
    node->due_ns = due_ns;
    spn__wheel_link(w, node);
    w->count++;
    return SPN_OK;
}

int spn_wheel_remove(spn_wheel *w, spn_wheel_node *node)
{
    if (w == NULL || node == NULL)
        return SPN_EINVAL;
    if (node->place == SPN__WHEEL_IDLE)
        return 0;
    spn__wheel_unlink(node);
    w->count--;
    return 1;
}

int spn_wheel_advance_to(spn_wheel *w, int64_t now_ns)
{
    if (w == NULL)
        return SPN_EINVAL;
    while (!spn__wheel_step(w, now_ns, AHEAD_NODES)) {
    }
    /* The new ones at the end, for spn_wheel_node_state. */
    for (spn_wheel_link *link = w->due.prev; link != &w->due; link = link->prev) {
        if (spn__wheel_node_of(link)->place == SPN__WHEEL_DUE)
            break;
        spn__wheel_node_of(link)->place = SPN__WHEEL_DUE;
    }
    return SPN_OK;
}

spn_wheel_node *spn_wheel_take_due(spn_wheel *w)
{
    spn_wheel_node *node;

    if (w == NULL || w->due.next == &w->due)
        return NULL;
    node = spn__wheel_node_of(w->due.next);
    spn__wheel_unlink(node);
    w->count--;
    return node;
}

/* How many slots of the level below to be early by; see SLEEPING. */
static uint64_t lead_of(const struct spn_wheel *w)
{
    const uint64_t slots = w->mask + 1;

    return slots >= UINT64_C(4) << w->step_bits ? slots / 2 : 0;
}

uint64_t spn__wheel_next_tick(struct spn_wheel *w)
{
    uint64_t tick;

    if (w->due.next != &w->due)
        return 0;
    tick = next_used(w, &w->levels[0]);
    for (uint32_t level = 1; level <= w->top; level++) {
        const uint64_t number = next_used(w, &w->levels[level]);
        uint64_t start, lead;

        if (number == NONE)
            continue;
        start = number << shift_of(w, level);
        lead = lead_of(w) << shift_of(w, level - 1);
        start = start > lead ? start - lead : 0;
        if (start < w->levels[0].cursor)
            start = w->levels[0].cursor;
        if (start < tick)
            tick = start;
    }
    return tick;
}

int64_t spn_wheel_next_expiry(const spn_wheel *w)
{
    uint64_t tick;

    if (w == NULL)
        return SPN_FOREVER;
    /* Marks are nothing that a caller can see. */
    tick = spn__wheel_next_tick((spn_wheel *)(uintptr_t)w);
    return tick == 0 ? w->now_ns : spn__wheel_time_of(w, tick);
}

size_t spn_wheel_count(const spn_wheel *w)
{
    return w != NULL ? w->count : 0;
}

int spn_wheel_node_state(const spn_wheel_node *node)
{
    if (node == NULL)
        return SPN_EINVAL;
    if (node->place == SPN__WHEEL_IDLE)
        return SPN_WHEEL_NODE_OUT;
    return node->place == SPN__WHEEL_DUE ? SPN_WHEEL_NODE_DUE : SPN_WHEEL_NODE_PENDING;
}

static void each_in_ring(spn_wheel_link *head, spn_wheel_visit_fn visit, void *ctx)
{
    for (spn_wheel_link *link = head->next, *next; link != head; link = next) {
        next = link->next;
        visit(spn__wheel_node_of(link), ctx);
    }
}

int spn_wheel_each(spn_wheel *w, spn_wheel_visit_fn visit, void *ctx)
{
    if (w == NULL || visit == NULL)
        return SPN_EINVAL;
    each_in_ring(&w->due, visit, ctx);
    for (uint32_t level = 0; level <= w->top; level++) {
        struct spn__wheel_level *l = &w->levels[level];

        for (uint64_t slot = 0; slot <= w->mask; slot++) {
            if (l->used_slots == 0 || (slot = next_slot(w, l, slot)) == NONE)
                break;
            each_in_ring(&l->slots[slot], visit, ctx);
        }
    }
    return SPN_OK;
}

/* ---- the check ---------------------------------------------------------------- */

/* What is wrong, for the log; NULL: nothing. */
struct check {
    const struct spn_wheel *w;
    const char *wrong;
    size_t nodes;
};

static void expect(struct check *c, bool holds, const char *wrong)
{
    if (!holds && c->wrong == NULL)
        c->wrong = wrong;
}

static bool is_used(const struct spn_wheel *w, uint32_t level, uint64_t number)
{
    const uint64_t slot = number & w->mask;

    return (w->levels[level].used[slot >> 6] >> (slot & 63) & 1) != 0;
}

/* Whether the ring is one, and each of its nodes where it belongs. */
static void check_ring(struct check *c, const spn_wheel_link *head, uint32_t level,
                       uint64_t slot)
{
    const struct spn_wheel *w = c->w;
    const spn_wheel_link *link = head;
    uint64_t reach = level <= w->top ? w->levels[level].limit : 0;

    /* The slot at the next level's cursor may be on its way down to us; or it was, and the
     * rest of it has been removed since, and its mark. */
    if (level < w->top)
        reach += UINT64_C(1) << w->step_bits;
    do {
        const spn_wheel_node *node = (const spn_wheel_node *)(const void *)link->next;
        uint64_t tick, number;

        expect(c, link->next != NULL && link->next->prev == link, "a broken ring");
        if (c->wrong != NULL)
            return;
        link = link->next;
        if (link == head)
            return;
        c->nodes++;
        tick = spn__wheel_tick_of(w, node->due_ns);
        if (level == SPN__WHEEL_DUE) {
            expect(c, node->place == SPN__WHEEL_DUE || node->place - 1 <= w->top,
                   "a due node with no mark");
            expect(c, tick < w->levels[0].cursor || node->due_ns <= w->now_ns,
                   "a due node that is not due");
            continue;
        }
        number = tick >> shift_of(w, level);
        expect(c, node->place == level + 1, "a node with the mark of another level");
        expect(c, (number & w->mask) == slot, "a node in the wrong slot");
        expect(c, number >= w->levels[level].cursor, "a node that was passed");
        expect(c, number < reach, "a node too far away");
    } while (c->wrong == NULL);
}

static void check_level(struct check *c, uint32_t level)
{
    const struct spn_wheel *w = c->w;
    const struct spn__wheel_level *l = &w->levels[level];
    uint64_t used = 0;

    if (level < w->top) {
        expect(c, l->limit == w->levels[level + 1].cursor << w->step_bits,
               "a limit that is not the next cursor");
        expect(c, l->cursor <= l->limit, "a cursor beyond its limit");
        expect(c, l->limit <= l->cursor + w->mask + 1, "a level reaching too far");
    }
    for (uint64_t slot = 0; slot <= w->mask && c->wrong == NULL; slot++) {
        const bool in_summary = (l->summary[slot >> 12] >> (slot >> 6 & 63) & 1) != 0;

        expect(c, in_summary == (l->used[slot >> 6] != 0), "a wrong summary");
        if (!is_used(w, level, slot))
            continue;
        used++;
        check_ring(c, &l->slots[slot], level, slot);
    }
    expect(c, used == l->used_slots, "a wrong number of marked slots");
}

const char *spn__wheel_wrong(const struct spn_wheel *w, size_t count)
{
    struct check c = { w, NULL, 0 };

    check_ring(&c, &w->due, SPN__WHEEL_DUE, 0);
    for (uint32_t level = 0; level <= w->top; level++)
        check_level(&c, level);
    expect(&c, c.nodes == count, "a wrong count");
    return c.wrong;
}

int spn__wheel_check(const struct spn_wheel *w)
{
    const char *wrong = spn__wheel_wrong(w, w->count);

    if (wrong == NULL)
        return SPN_OK;
    spn__log(SPN_LOG_ERROR, "wheel: the check found %s", wrong);
    return SPN_ESTATE;
}
