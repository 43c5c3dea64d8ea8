/* SPDX-License-Identifier: MIT */
/* deque.h - a worker's forked records, and who else takes them; see deque.c. */
#ifndef SPN__DEQUE_H
#define SPN__DEQUE_H

#include "sync/seam.h"

/* The words that public inline functions read are atomic in disguise: the header names
 * no atomics of C, which C++ does not know.  The explorer shall see the reads. */
typedef SPN__ATOMIC(uintptr_t) spn__trap;
static inline spn__trap *spn__trap_of(uintptr_t *word)
{
    return (spn__trap *)(void *)word;
}
#ifdef SPN_SIM
#define SPN__FJ_READ(word) spn__load(spn__trap_of(&(word)), relaxed)
#endif
typedef SPN__ATOMIC(uint32_t) spn__base_word;

#include <spindle/forkjoin.h>

#include "sync/parker.h"

/*
 * The word that owner and thieves agree by:
 *
 *   bits 0..23   tail: number of the oldest record that nobody has stolen
 *   bits 24..47  split: number of the first record that is private
 *   bits 48..63  how many stolen records the owner has finished, modulo 2^16
 */
#define SPN__DEQUE_NUMBER_BITS 24
#define SPN__DEQUE_NUMBER_MAX  ((UINT32_C(1) << SPN__DEQUE_NUMBER_BITS) - 1)
#define SPN__DEQUE_SPLIT_ONE   (UINT64_C(1) << SPN__DEQUE_NUMBER_BITS)
#define SPN__DEQUE_EPOCH_ONE   (UINT64_C(1) << (2 * SPN__DEQUE_NUMBER_BITS))

static inline uint32_t spn__word_tail(uint64_t word)
{
    return (uint32_t)word & SPN__DEQUE_NUMBER_MAX;
}
static inline uint32_t spn__word_split(uint64_t word)
{
    return (uint32_t)(word >> SPN__DEQUE_NUMBER_BITS) & SPN__DEQUE_NUMBER_MAX;
}
static inline uint64_t spn__word_make(uint64_t epoch_of, uint32_t tail, uint32_t split)
{
    return (epoch_of & ~(SPN__DEQUE_EPOCH_ONE - 1)) |
           (uint64_t)split << SPN__DEQUE_NUMBER_BITS | tail;
}

_Static_assert(sizeof(spn_fj_record) == 64, "a record is a cache line");
_Static_assert(sizeof(spn_fj_piece) == sizeof(spn_fj_record),
               "a piece begins with one slot for itself");

/* Records that a piece can hold. */
#define SPN__PIECE_RECORDS ((uint32_t)(SPN_FJ_PIECE / sizeof(spn_fj_record) - 1))

struct spn__deque;

/* What a deque needs of whoever runs it; every one may be NULL. */
struct spn__deque_ops {
    /* Records were shared: somebody may want to know. */
    void (*shared)(struct spn__deque *deque);
    /* Whether somebody sleeps who would rather have work; after a light fence. */
    bool (*hungry)(struct spn__deque *deque);
    /* Around a join that sleeps; before it does, others may be asked for work. */
    void (*block)(struct spn__deque *deque);
    void (*unblock)(struct spn__deque *deque);
};

/* Whose records these are: the root that fails when one of them does.  Records with
 * numbers from `base` on belong to it, up to those of an inner frame. */
struct spn__frame {
    void *job;   /* an spn_fj_task, or NULL                                     */
    void *stand; /* what the root is run in, see quiet.c; thieves get it, too   */
    uint32_t base;
    struct spn__frame *outer;
};

struct spn__deque {
    /* [share] [steal]; alone, for thieves hammer on it. */
    _Alignas(2 * SPN__CACHE_LINE) SPN__ATOMIC(uint64_t) word;

    /* Where the traps are that others may spring [piece]. */
    _Alignas(2 * SPN__CACHE_LINE) SPN__ATOMIC(spn_fj_piece *) piece;
    SPN__ATOMIC(int64_t) steals; /* by this worker; written by it only */

    /* The owner's. */
    uint32_t split; /* what `word` says */
    uint32_t limit; /* records a piece may hold */
    uint32_t sunk;  /* forked into the sink and not joined yet */
    uintptr_t stack_low;
    struct spn__frame *frame;
    spn_fj_piece *first;
    spn_fj_piece *sink; /* one record that is thrown away: there is no memory */
    const struct spn__deque_ops *ops;
    struct spn__parker parker; /* where the owner sleeps in a join */
};

/* SPN_OK; SPN_ENOMEM.  `records` in a piece, 1 .. SPN__PIECE_RECORDS. */
int spn__deque_init(struct spn__deque *d, uint32_t records,
                    const struct spn__deque_ops *ops);
/* Nobody uses it any more. */
void spn__deque_fini(struct spn__deque *d);

/* The owner is another thread now, with that much stack; nothing is in it. */
void spn__deque_adopt(struct spn__deque *d, uintptr_t stack_low);

/* The deque that a place lies in. */
static inline struct spn__deque *spn__deque_of(const spn_fj_record *record)
{
    return spn__fj_piece(record)->worker;
}

/*
 * A tree of its own begins, and ends, on the owner's thread: what lies below is left
 * alone meanwhile.  `job` is what fails with it.  enter: the place for its body; NULL:
 * no memory.  leave: all that was forked has been joined.
 */
struct spn__nested {
    struct spn__frame frame;
    spn_fj_piece *piece; /* where the owner was */
    uint32_t split;
};
spn_fj spn__deque_enter(struct spn__deque *d, struct spn__nested *n, void *job);
void spn__deque_leave(struct spn__deque *d, struct spn__nested *n);

/*
 * Steals the oldest shared record of the victim's and runs it at `at`, a place of the
 * thief's deque, where it is the innermost; true if there was one.  If there is none
 * but the victim may have private ones, asks for them.
 */
bool spn__deque_steal(struct spn__deque *thief, spn_fj at, struct spn__deque *victim);
/* Where a thief that does nothing else runs what it steals. */
spn_fj spn__deque_bottom(struct spn__deque *d);

/* Whether there is something to steal, about; and asks for it, about. */
bool spn__deque_any(struct spn__deque *d);
void spn__deque_ask(struct spn__deque *d);

/* The next fork of the owner's shares, and tells: for the first of a tree. */
void spn__deque_ask_self(struct spn__deque *d);

#endif /* SPN__DEQUE_H */
