/* SPDX-License-Identifier: MIT */
/*
 * wheel.h - the wheel as the timer service sees it: link and unlink without
 * arguments checked and nodes counted, and advancing in small steps; see wheel.c.
 */
#ifndef SPN__WHEEL_H
#define SPN__WHEEL_H

#include <stdbool.h>

#include <spindle/wheel.h>

/* place: 0 in no wheel, 1 + level, or DUE; see spn__wheel_unlink. */
#define SPN__WHEEL_IDLE UINT32_C(0)
#define SPN__WHEEL_DUE  UINT32_C(255)

/* Levels for 63 bits of ticks when each adds one. */
#define SPN__WHEEL_LEVELS_MAX 63

/* The nodes of a slot are a ring through `head`, which is written when the slot is first
 * used: until then its memory is untouched.  See wheel.c, MARKS. */
struct spn__wheel_level {
    uint64_t cursor; /* no node is in a slot before this one                       */
    uint64_t limit;  /* nor at or after this one: cursor of the next level, in our
                        slots; all ones at the top                                 */
    spn_wheel_link *slots;
    uint64_t *used;      /* a bit per slot: marked, so perhaps occupied               */
    uint64_t *summary;   /* a bit per word of `used` that is not zero                 */
    uint64_t used_slots; /* how many are marked                                     */
};

struct spn_wheel {
    int64_t origin_ns, now_ns;
    uint64_t tick_ns, reciprocal; /* of tick_ns: see spn__wheel_ticks              */
    uint32_t tick_bits;           /* likewise                                       */
    uint64_t mask;                /* slots - 1                                      */
    uint32_t step_bits;           /* log2 of how much wider each level's slots are  */
    uint32_t top;                 /* number of the last level                       */
    bool hashed;
    spn_wheel_link due; /* ring of nodes that are due                               */
    size_t count;       /* of nodes, by the public calls only                       */
    struct spn__wheel_level levels[];
};

/*
 * Whole ticks in ns, which is less than 2^63, without a division.  With 2^bits the first
 * power of two that is not less than a tick, and reciprocal = 2^(63 + bits) / tick rounded
 * up, ns * reciprocal / 2^(63 + bits) exceeds ns / tick by less than 1 / tick: the whole
 * part is the same.
 */
static inline uint64_t spn__wheel_ticks(const struct spn_wheel *w, uint64_t ns)
{
    __extension__ typedef unsigned __int128 wide;

    return (uint64_t)(((wide)(ns << 1) * w->reciprocal) >> 64) >> w->tick_bits;
}

/* The tick at which due_ns has come: rounded up, 0 for what is not after origin. */
static inline uint64_t spn__wheel_tick_of(const struct spn_wheel *w, int64_t due_ns)
{
    if (due_ns <= w->origin_ns)
        return 0;
    return spn__wheel_ticks(w, (uint64_t)due_ns - (uint64_t)w->origin_ns - 1) + 1;
}

static inline spn_wheel_node *spn__wheel_node_of(spn_wheel_link *link)
{
    return (spn_wheel_node *)(void *)link; /* its first member */
}

/* Puts a link at the end of a ring. */
static inline void spn__wheel_push(spn_wheel_link *ring, spn_wheel_link *link)
{
    link->next = ring;
    link->prev = ring->prev;
    ring->prev->next = link;
    ring->prev = link;
}

static inline void spn__wheel_put(struct spn_wheel *w, spn_wheel_node *node,
                                  struct spn__wheel_level *l, uint32_t level,
                                  uint64_t number)
{
    const uint64_t slot = number & w->mask, bit = UINT64_C(1) << (slot & 63);
    spn_wheel_link *head = &l->slots[slot];
    uint64_t *word = &l->used[slot >> 6];

    node->place = level + 1;
    if ((*word & bit) != 0) {
        spn__wheel_push(head, &node->link);
        return;
    }
    head->next = head->prev = &node->link;
    node->link.next = node->link.prev = head;
    *word |= bit;
    l->summary[slot >> 12] |= UINT64_C(1) << (slot >> 6 & 63);
    l->used_slots++;
}

/* When a tick begins; tick 0 has passed. */
static inline int64_t spn__wheel_time_of(const struct spn_wheel *w, uint64_t tick)
{
    uint64_t ns;

    if (__builtin_mul_overflow(tick, w->tick_ns, &ns) ||
        ns > (uint64_t)(INT64_MAX - w->origin_ns))
        return SPN_FOREVER;
    return w->origin_ns + (int64_t)ns;
}

/* Files a node by its due_ns: among the due ones, or in the lowest level that
 * reaches so far.  Returns its tick; 0: it is due. */
static inline uint64_t spn__wheel_link(struct spn_wheel *w, spn_wheel_node *node)
{
    struct spn__wheel_level *l = w->levels;
    const uint64_t tick = spn__wheel_tick_of(w, node->due_ns);
    uint64_t number = tick;
    uint32_t level = 0;

    if (node->due_ns <= w->now_ns || number < l->cursor) {
        node->place = SPN__WHEEL_DUE;
        spn__wheel_push(&w->due, &node->link);
        return 0;
    }
    for (; number >= l->limit; l++, level++)
        number >>= w->step_bits;
    spn__wheel_put(w, node, l, level, number);
    return tick;
}

/* Takes a node out of whatever ring it is in; the mark of its slot stays. */
static inline void spn__wheel_unlink(spn_wheel_node *node)
{
    spn_wheel_link *const next = node->link.next, *const prev = node->link.prev;

    next->prev = prev;
    prev->next = next;
    node->place = SPN__WHEEL_IDLE;
}

/* Appends all that is due to another ring. */
static inline void spn__wheel_splice_due(struct spn_wheel *w, spn_wheel_link *ring)
{
    if (w->due.next == &w->due)
        return;
    w->due.next->prev = ring->prev;
    ring->prev->next = w->due.next;
    w->due.prev->next = ring;
    ring->prev = w->due.prev;
    w->due.next = w->due.prev = &w->due;
}

/*
 * Moves the time towards now_ns, handling at most about `budget` nodes; what has
 * become due is appended to w->due.  False: there is more to do before now_ns is
 * reached, call again.
 */
bool spn__wheel_step(struct spn_wheel *w, int64_t now_ns, size_t budget);

/* The tick at which to call step next: 0 if something is due, all ones if there is no
 * node. */
uint64_t spn__wheel_next_tick(struct spn_wheel *w);

/* What is wrong with a wheel that should have `count` nodes; NULL: nothing. */
const char *spn__wheel_wrong(const struct spn_wheel *w, size_t count);
/* The same for all its nodes; SPN_ESTATE if something is wrong, which is logged. */
int spn__wheel_check(const struct spn_wheel *w);

/* Whether the time stands so far behind that new nodes would be filed poorly. */
static inline bool spn__wheel_is_stale(const struct spn_wheel *w, int64_t now_ns)
{
    return now_ns > w->now_ns &&
           (uint64_t)(now_ns - w->now_ns) > (w->mask >> 6) * w->tick_ns;
}

#endif /* SPN__WHEEL_H */
