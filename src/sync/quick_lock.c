/* SPDX-License-Identifier: MIT */
/* quick_lock.c - the contended half; see quick_lock.h. */
#include "sync/quick_lock.h"

void spn__quick_lock_wait(struct spn__quick_lock *lock)
{
    for (int i = 0; i < SPN__SPIN_LIMIT; i++) {
        /* relaxed: only a look whether trying is worth while. */
        if (spn__load(&lock->state, relaxed) == SPN__QUICK_FREE &&
            spn__quick_lock_try(lock))
            return;
        spn__cpu_relax();
    }
    /* relaxed: ordered by the fence [asym]. */
    (void)spn__fetch_add(&lock->waiting, 1, relaxed);
    spn__fence_heavy(); /* [asym] */
    while (!spn__quick_lock_try(lock))
        (void)spn__futex_wait(&lock->state, SPN__QUICK_HELD, SPN_FOREVER);
    /* relaxed: a wake-up too many does no harm. */
    (void)spn__fetch_sub(&lock->waiting, 1, relaxed);
}
