/* SPDX-License-Identifier: MIT */
/*
 * quick_lock.h - a lock whose release is a plain store.
 *
 * OVERVIEW
 *   spn__unlock has to be a read-modify-write, because the one word tells it whether
 *   somebody sleeps; and on most machines that waits until every store before it has
 *   reached the cache.  Where the critical section writes to cold memory, as unlinking a
 *   random node does, that wait is most of the cost.  Here sleepers are counted in a
 *   second word, and the release is a store and a look at it.
 *
 * ORDERING
 *   [quick] the release store of FREE pairs with the acquire of the next holder.
 *   [asym]  (seam.h) the releaser stores FREE, makes the light fence and looks at
 *           `waiting`; who goes to sleep raises `waiting`, makes the heavy fence and
 *           looks at the state.  One of them sees the other.  The fence is made once per
 *           wait: `waiting` stays up until the lock is had.
 *
 * LIMITS  after the release the lock's memory is read once more: it must outlast every
 *   unlock, which spn__lock does not ask for.  No fairness, not recursive.  The heavy
 *   fence is dear, so this is for locks that are seldom contended.
 */
#ifndef SPN__QUICK_LOCK_H
#define SPN__QUICK_LOCK_H

#include "sync/seam.h"

enum { SPN__QUICK_FREE, SPN__QUICK_HELD };

struct spn__quick_lock {
    spn__futex_word state;
    SPN__ATOMIC(uint32_t) waiting; /* threads that sleep, or are about to [asym] */
};

SPN__SHARED void spn__quick_lock_wait(struct spn__quick_lock *lock);

static inline void spn__quick_lock_init(struct spn__quick_lock *lock)
{
    spn__init(&lock->state, SPN__QUICK_FREE);
    spn__init(&lock->waiting, 0);
}

static inline bool spn__quick_lock_try(struct spn__quick_lock *lock)
{
    uint32_t found = SPN__QUICK_FREE;

    /* [quick] acquire: all the previous holder did. */
    return spn__cas(&lock->state, &found, SPN__QUICK_HELD, acquire, relaxed);
}

static inline void spn__quick_lock(struct spn__quick_lock *lock)
{
    if (!spn__quick_lock_try(lock))
        spn__quick_lock_wait(lock);
}

static inline void spn__quick_unlock(struct spn__quick_lock *lock)
{
    spn__store(&lock->state, SPN__QUICK_FREE, release); /* [quick] */
    spn__fence_light();                                 /* [asym] */
    if (spn__load(&lock->waiting, relaxed) != 0) /* ordered by the fence [asym] */
        spn__futex_wake(&lock->state, 1);
}

#endif /* SPN__QUICK_LOCK_H */
