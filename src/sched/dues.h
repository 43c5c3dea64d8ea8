/* SPDX-License-Identifier: MIT */
/* dues.h - what waits, in the order in which it is due; see dues.c.  It has no lock and
 * no clock: time is an argument, and the caller excludes others. */
#ifndef SPN__DUES_H
#define SPN__DUES_H

#include "exec/work.h"

/* What waits, or room for it: a slot is taken when it comes and let go of when it goes. */
struct spn__delay {
    int64_t due_ns;
    uint64_t sequence;       /* of equals the lower one comes first */
    struct spn__entry entry; /* of a task: its link[0] is the slot's number */
    uint32_t at;             /* where it is: see dues.c */
};

/* An entry of a heap or the run, which has all that comparing needs. */
struct spn__due {
    int64_t due_ns;
    uint64_t sequence;
    uint32_t slot;
};
struct spn__due_heap {
    struct spn__due *entries; /* four children each, from 4 * i + 1 on */
    uint32_t used;
    uint32_t tag; /* fixed: what `at` says of those in it */
};
struct spn__due_run {
    struct spn__due *entries;
    uint32_t first,
        end; /* in order; the first of them is somebody's, while there are any */
};

enum {
    SPN__BUCKETS = 1024,
    SPN__STRANDS = 4,
    SPN__DUES_PARTS = 23,
    SPN__DUES_FIRST_ROOM = 64
};
#define SPN__NO_SLOT UINT32_MAX

struct spn__dues {
    uint32_t room;      /* of the slots, of each heap and of the run */
    uint32_t made;      /* slots that were ever taken */
    uint32_t free;      /* the first free one of those */
    uint32_t used;      /* slots that are taken: what waits, and the dead */
    uint32_t dead;      /* in a bucket, and no longer waiting */
    int64_t tick;       /* all that is due in it or before is in `run` or `near` */
    int64_t first_tick; /* of the first bucket that is not empty, at the latest */
    struct spn__due_heap near, far; /* in one block, with the next two */
    struct spn__due_run run;
    struct spn__due *spare; /* for sorting */
    uint32_t part_count;
    struct spn__delay *parts[SPN__DUES_PARTS]; /* the slots: see dues.c, ROOM */
    uint32_t *links[SPN__DUES_PARTS]; /* of each slot: the next in its strand, or of the
                                         free ones; in one block with the slots */
    uint64_t filled[SPN__BUCKETS / 64];
    /* By tick modulo their number, those that are filled: how many are in it, and the last
     * that came, the one with number n in strand n modulo theirs. */
    uint32_t counts[SPN__BUCKETS];
    uint32_t strands[SPN__BUCKETS][SPN__STRANDS];
};

void spn__dues_init(struct spn__dues *q, int64_t now_ns);
void spn__dues_fini(struct spn__dues *q);

/* There is room.  Returns its slot.  Of those that are due at the same time the one with the
 * lower sequence number comes first; 0 is none's. */
uint32_t spn__dues_add(struct spn__dues *q, struct spn__entry entry, int64_t due_ns,
                       uint64_t sequence);
/* Takes what is in a slot out, wherever it is. */
struct spn__entry spn__dues_remove(struct spn__dues *q, uint32_t slot);
/* The slot of the first, if it is due; else SPN__NO_SLOT.  It will be taken out soon. */
uint32_t spn__dues_first(struct spn__dues *q, int64_t now_ns);
/* The slot of the first of all, due or not, to be taken out next; SPN__NO_SLOT: nothing
 * waits.  The first call lines all up, the next ones are O(1) unless something comes. */
uint32_t spn__dues_first_of_all(struct spn__dues *q);
/* When to look for the first: never later than it is due.  SPN_FOREVER: nothing waits. */
int64_t spn__dues_next(const struct spn__dues *q);
/* Time has passed: what is added now is put where its time says from then on. */
void spn__dues_advance(struct spn__dues *q, int64_t now_ns);
/* Whether it is so late that this matters. */
bool spn__dues_is_far(const struct spn__dues *q, int64_t due_ns);
/* The slot of what has that sequence number; SPN__NO_SLOT: nothing. */
uint32_t spn__dues_find(const struct spn__dues *q, uint64_t sequence);

/*
 * All that waits, in order: run.entries[0] to run.entries[run.end - 1].  Whoever takes
 * some of them out calls for each in turn either keep, with how many it has kept so far,
 * or drop, and at the end `kept`.
 */
void spn__dues_line_up(struct spn__dues *q);
void spn__dues_keep(struct spn__dues *q, uint32_t kept, struct spn__due due);
void spn__dues_drop(struct spn__dues *q, uint32_t slot);
void spn__dues_kept(struct spn__dues *q, uint32_t kept);

/* Room for twice as many.  It is asked for without the caller's lock, for a number of
 * parts that was read with it; add takes it (true) if that is still the number, and what
 * is left in it is freed without the lock again. */
struct spn__dues_room {
    uint32_t part;
    struct spn__delay *slots;
    struct spn__due *heaps;
};
int spn__dues_room_get(struct spn__dues_room *room, uint32_t part_count);
bool spn__dues_room_add(struct spn__dues *q, struct spn__dues_room *room);
void spn__dues_room_free(struct spn__dues_room *room);
/* Lets go of what nobody waits for any more. */
void spn__dues_sweep(struct spn__dues *q);

static inline uint32_t spn__dues_waiting(const struct spn__dues *q)
{
    return q->used - q->dead;
}

/* How many slots there are in the parts before one: each has twice as many as the last. */
static inline uint32_t spn__dues_room_before(uint32_t part)
{
    return SPN__DUES_FIRST_ROOM * ((UINT32_C(1) << part) - 1);
}

static inline struct spn__delay *spn__dues_slot(const struct spn__dues *q,
                                                uint32_t slot)
{
    const uint32_t part = 31 - (uint32_t)__builtin_clz(slot / SPN__DUES_FIRST_ROOM + 1);

    return &q->parts[part][slot - spn__dues_room_before(part)];
}

#endif /* SPN__DUES_H */
