/* SPDX-License-Identifier: MIT */
/*
 * lock.c - the contended half of the lock.
 *
 * STATE
 *   FREE -> HELD -> FREE                     nobody waits: no system call
 *   HELD -> CONTENDED                        a waiter announces itself
 *   CONTENDED -> FREE, and one is woken      the unlock of a contended lock
 *
 *   A woken waiter does not know whether there are others, so it takes the lock
 *   as CONTENDED; the price is at most one wake-up with nobody to wake.
 *
 * ORDERING
 *   [lock] the release exchange in unlock pairs with the acquire operations
 *          that take the lock.
 *
 * No wake-up is lost: a waiter sleeps only while the word is CONTENDED, and
 * only unlock changes it from CONTENDED, after which it wakes.
 *
 * WHY spin first?  A critical section here is tens of nanoseconds and a sleep
 * tens of microseconds.  The spin reads only, and gives up when somebody sleeps
 * already (CONTENDED): then the queue is long enough.
 */
#include "sync/lock.h"

void spn__lock_wait(struct spn__lock *lock)
{
    for (int i = 0; i < SPN__SPIN_LIMIT; i++) {
        /* relaxed: a hint; taking the lock is what orders. */
        const uint32_t seen = spn__load(&lock->state, relaxed);

        if (seen == SPN__LOCK_FREE && spn__lock_try(lock))
            return;
        if (seen == SPN__LOCK_CONTENDED)
            break;
        spn__cpu_relax();
    }
    /* [lock] acquire: FREE says we hold it now, marked as contended. */
    while (spn__exchange(&lock->state, SPN__LOCK_CONTENDED, acquire) != SPN__LOCK_FREE)
        (void)spn__futex_wait(&lock->state, SPN__LOCK_CONTENDED, SPN_FOREVER);
}

void spn__lock_wake(struct spn__lock *lock)
{
    spn__futex_wake(&lock->state, 1);
}
