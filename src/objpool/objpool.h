/* SPDX-License-Identifier: MIT */
/*
 * objpool.h - the inside of an object pool: slots, and the words that hold their states.
 *
 * STATE of a slot, two bits of a word
 *     ABSENT --borrow, pass--> BUSY --made--> OUT or IDLE
 *     IDLE --borrow--> OUT (BUSY first, if it is validated)
 *     OUT --return--> IDLE (BUSY first, if it is reset or somebody waits)
 *     IDLE --pass, shutdown--> BUSY --destroyed--> ABSENT
 *     OUT --invalidate, return after shutdown--> BUSY --destroyed--> ABSENT
 *   Whoever made a slot BUSY, or has its object out, owns it: all its other fields are
 *   written by the owner only, before the step that gives it away.
 *
 * A WORD holds 31 slots, and two bits about the pool:
 *     bits 0..61   states, slot i in bits 2i and 2i + 1
 *     bit  62      WAITED: somebody waits, room must be told of
 *     bit  63      CLOSED: nothing is lent any more, nothing may become IDLE
 *   Both stand in the very word that a return changes, so the step that makes room also
 *   learns who must hear of it, and no fence is needed: see lend.c.
 *
 * ORDERING
 *   [slot]  each step that gives a slot away is a release, each that takes one an
 *           acquire; all are read-modify-writes of one word, so who takes a slot has all
 *           that its owners before did, to the object too.
 *   [trace] see upkeep.c.
 */
#ifndef SPN__OBJPOOL_H
#define SPN__OBJPOOL_H

#include <spindle/object_pool.h>

#include "sync/audit.h"
#include "sync/clock.h"
#include "sync/lock.h"
#include "sync/waitq.h"

enum spn__slot_state { SLOT_ABSENT, SLOT_IDLE, SLOT_OUT, SLOT_BUSY };

#define SPN__SLOTS_PER_WORD 31u
#define SPN__SLOTS_WAITED   (UINT64_C(1) << 62)
#define SPN__SLOTS_CLOSED   (UINT64_C(1) << 63)
#define SPN__SLOTS_LOW_BITS (UINT64_C(0x5555555555555555) >> 2)
#define SPN__NO_SLOT        UINT32_MAX

_Static_assert(2 * SPN__SLOTS_PER_WORD == 62, "states end below the two bits");
_Static_assert((SPN__SLOTS_LOW_BITS & (SPN__SLOTS_WAITED | SPN__SLOTS_CLOSED)) == 0,
               "and never touch them");

typedef SPN__ATOMIC(uint32_t) spn__slot_index;
typedef SPN__ATOMIC(uintptr_t) spn__slot_frame;

struct spn__slot {
    /* Read and written in every borrow and return. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(void *) object; /* owner; NULL: none */
    SPN__ATOMIC(uint64_t) uses;                           /* borrows so far; owner */
    spn__slot_index chain;        /* next slot of the hash chain; under the lock */
    SPN__ATOMIC(uint32_t) stamp;  /* when it was returned: see choose; owner */
    SPN__ATOMIC(int64_t) made_ns; /* owner */
    SPN__ATOMIC(int64_t) retire; /* the made_ns of one that was found too old; passes */

    /* Now and then. */
    _Alignas(SPN__CACHE_LINE)
        SPN__ATOMIC(int64_t) borrowed_ns; /* owner, if leaks are looked for [trace] */
    SPN__ATOMIC(uint64_t) traced;         /* `uses` of the trace; 0: none [trace] */
    uint64_t seen_uses;                   /* the passes' own, from here on: */
    int64_t seen_made_ns;
    int64_t seen_ns;        /* since when it is known to be idle */
    uint64_t reported_uses; /* the last borrow reported as a leak */
};

struct spn__slot_word {
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint64_t) states; /* [slot] */
};

struct spn_object_pool {
    /* Fixed. */
    spn_object_factory factory;
    char *name;
    uint32_t max, min_idle, words, bucket_mask;
    uint32_t trace_frames;
    bool fair, timed; /* timed: borrow notes when */
    bool quick;       /* one word, LIFO, nothing but the step to do: see lend.c */
    int64_t idle_ns, max_age_ns, leak_ns;
    spn_clock *clock; /* NULL: the monotonic one */
    spn_timer *timer; /* NULL: none */
    spn_object_lease_fn leaked;
    void *ctx;
    struct spn__slot_word *word;
    struct spn__slot *slot;
    spn__slot_index *bucket; /* object -> slot; under the lock */
    spn__slot_frame *frames; /* trace_frames for each slot, 0 ends them [trace] */
    struct spn__clock_listener clock_holder; /* keeps the clock from being destroyed */
    spn_timeout timeout;

    /* The slot returned last, and how many returns there were: a hint. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint64_t) recent;

    /* What is counted where time does not matter. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(int64_t) made;
    SPN__ATOMIC(int64_t)
    make_failures, destroyed, invalidated, evicted_idle, evicted_age, refused, waited,
        timeouts, leaks;
    SPN__ATOMIC(int32_t) last_failure;

    struct spn__lock lock;        /* guards what follows, and the hash; a leaf */
    struct spn__waitq borrowers;  /* in order; w->wants says what they got */
    struct spn__waitq awaiting;   /* for the end */
    SPN__ATOMIC(int64_t) waiting; /* length of borrowers; written under the lock */
    bool closed, passing;         /* passing: a pass is under way */
    uint32_t inside; /* passes and shutdowns that will touch the pool again */
    SPN__AUDIT_FIELD
};

/* ---- states -------------------------------------------------------------------------- */

static inline struct spn__slot_word *spn__word_of(struct spn_object_pool *pool,
                                                  uint32_t i)
{
    return &pool->word[i / SPN__SLOTS_PER_WORD];
}

static inline unsigned spn__slot_shift(uint32_t i)
{
    return 2 * (i % SPN__SLOTS_PER_WORD);
}

static inline enum spn__slot_state spn__slot_state(uint64_t states, uint32_t i)
{
    return (enum spn__slot_state)(states >> spn__slot_shift(i) & 3);
}

static inline uint64_t spn__slot_with(uint64_t states, uint32_t i,
                                      enum spn__slot_state state)
{
    return (states & ~(UINT64_C(3) << spn__slot_shift(i))) | (uint64_t)state
                                                                 << spn__slot_shift(i);
}

/* The slots of a word in a state, each as the lower of its two bits. */
static inline uint64_t spn__slots_in(uint64_t states, enum spn__slot_state state)
{
    const uint64_t low = state & 1 ? states : ~states;
    const uint64_t high = state & 2 ? states : ~states;

    return low & high >> 1 & SPN__SLOTS_LOW_BITS;
}

/* The same of the slots there really are: those of the last word's end are not. */
static inline uint64_t spn__slots_real(const struct spn_object_pool *pool,
                                       uint32_t word)
{
    const uint32_t left = pool->max - word * SPN__SLOTS_PER_WORD;

    return left >= SPN__SLOTS_PER_WORD
               ? SPN__SLOTS_LOW_BITS
               : SPN__SLOTS_LOW_BITS & ((UINT64_C(1) << 2 * left) - 1);
}

/* Takes a slot from one state to another, in an instant at which it has the first and
 * the word none of the bits `unless`; else false.  The caller says what it owns. */
static inline bool spn__slot_move(struct spn_object_pool *pool, uint32_t i,
                                  enum spn__slot_state from, enum spn__slot_state to,
                                  uint64_t unless)
{
    struct spn__slot_word *word = spn__word_of(pool, i);
    uint64_t states = spn__load(&word->states, relaxed); /* checked by the exchange */

    do {
        if ((states & unless) != 0 || spn__slot_state(states, i) != from)
            return false;
        /* [slot] */
    } while (!spn__cas_weak(&word->states, &states, spn__slot_with(states, i, to),
                            acq_rel, relaxed));
    return true;
}

static inline int64_t spn__pool_time(const struct spn_object_pool *pool)
{
    return pool->clock == NULL ? spn__now() : spn_clock_now(pool->clock);
}

/* ---- between the files ------------------------------------------------------------------ */

static inline uint32_t spn__bucket_of(const struct spn_object_pool *pool,
                                      const void *object)
{
    /* Fibonacci hashing: the upper bits of the product are well mixed. */
    return (uint32_t)((uint64_t)(uintptr_t)object * UINT64_C(0x9e3779b97f4a7c15) >>
                      32) &
           pool->bucket_mask;
}

/* objpool.c.  find: the slot of an object, SPN__NO_SLOT if it is not the pool's. */
uint32_t spn__objpool_find(struct spn_object_pool *pool, const void *object);
/* Enters the object of a slot; SPN_OK, or SPN_EINVAL: the pool has it already. */
int spn__objpool_enter(struct spn_object_pool *pool, uint32_t i, void *object);
/* Destroys the object of a BUSY slot. */
void spn__objpool_unmake(struct spn_object_pool *pool, uint32_t i);
/* The same, and the slot becomes ABSENT.  The pool may be gone
 * afterwards, unless the caller is `inside`. */
void spn__objpool_discard(struct spn_object_pool *pool, uint32_t i);
/* Makes the object of a BUSY slot; on failure the slot becomes ABSENT. */
int spn__objpool_make(struct spn_object_pool *pool, uint32_t i);
/* Ends a stay inside, and wakes who awaits the pool's end. */
void spn__objpool_leave(struct spn_object_pool *pool);
/* The lock is held: chooses who awaits the end, if it has come. */
void spn__objpool_check_end(struct spn_object_pool *pool, struct spn__chosen *chosen);

/* lend.c.  Gives a BUSY slot away, as IDLE or ABSENT, and serves who waits for it; false
 * if it cannot become IDLE because the pool is closed. */
bool spn__objpool_put(struct spn_object_pool *pool, uint32_t i,
                      enum spn__slot_state to);
/* Makes an ABSENT slot BUSY, if there is one; SPN__NO_SLOT: none, or closed. */
uint32_t spn__objpool_take_absent(struct spn_object_pool *pool);

/* upkeep.c: notes who borrowed slot i, whose owner the caller is. */
void spn__objpool_trace(struct spn_object_pool *pool, uint32_t i, const void *frame);

#endif /* SPN__OBJPOOL_H */
