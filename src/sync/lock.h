/* SPDX-License-Identifier: MIT */
/*
 * lock.h - the library's small mutual-exclusion lock: four bytes, no fairness,
 * not recursive, not interruptible; see lock.c.
 *
 * For short critical sections without user code in them.
 */
#ifndef SPN__LOCK_H
#define SPN__LOCK_H

#include "sync/seam.h"

/* The uncontended path is inline: it is one instruction. */
enum { SPN__LOCK_FREE, SPN__LOCK_HELD, SPN__LOCK_CONTENDED };

struct spn__lock {
    spn__futex_word state; /* see lock.c */
};

#define SPN__LOCK_INIT                   \
    {                                    \
        SPN__ATOMIC_INIT(SPN__LOCK_FREE) \
    }

SPN__SHARED void spn__lock_wait(struct spn__lock *lock);
SPN__SHARED void spn__lock_wake(struct spn__lock *lock);

static inline void spn__lock_init(struct spn__lock *lock)
{
    spn__init(&lock->state, SPN__LOCK_FREE);
}

static inline bool spn__lock_try(struct spn__lock *lock)
{
    uint32_t found = SPN__LOCK_FREE;

    /* [lock] acquire: all the previous holder did. */
    return spn__cas(&lock->state, &found, SPN__LOCK_HELD, acquire, relaxed);
}

static inline void spn__lock(struct spn__lock *lock)
{
    if (!spn__lock_try(lock))
        spn__lock_wait(lock);
}

/* After the exchange another thread may hold, release and even free the lock;
 * the wake that may follow uses the address only as a name. */
static inline void spn__unlock(struct spn__lock *lock)
{
    /* [lock] release: to the next holder. */
    if (spn__exchange(&lock->state, SPN__LOCK_FREE, release) == SPN__LOCK_CONTENDED)
        spn__lock_wake(lock);
}

#endif /* SPN__LOCK_H */
