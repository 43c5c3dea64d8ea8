/* SPDX-License-Identifier: MIT */
/* parker.h - one permit and the thread that waits for it; see parker.c. */
#ifndef SPN__PARKER_H
#define SPN__PARKER_H

#include "sync/seam.h"

struct spn__parker {
    spn__futex_word state; /* EMPTY, PERMIT or PARKED */
    /* The clock, its low bits, when the owner was last woken from sleep. */
    SPN__ATOMIC(uint32_t) woken_ns;
    uint32_t wake_ns;  /* how long that takes; the owner's, as is the next */
    uint32_t slept_ns; /* how long it had slept */
};

SPN__SHARED void spn__parker_init(struct spn__parker *parker);

/* Takes a permit away while late unparks may still come; nobody is parked. */
SPN__SHARED void spn__parker_reset(struct spn__parker *parker);

/*
 * Takes the permit, or sleeps until there is one or deadline_ns has come
 * (SPN_FOREVER: no limit).  Returns true if it took the permit; false if the
 * deadline came first, and then no permit was lost.  Does not return without
 * one of the two.  Only ever called by one thread at a time: the parker's owner.
 */
SPN__SHARED bool spn__parker_park(struct spn__parker *parker, int64_t deadline_ns);

/* How long it takes the owner to wake up, by what it has seen; the owner's to ask. */
static inline uint32_t spn__parker_wake_ns(const struct spn__parker *parker)
{
    return parker->wake_ns;
}

/* How long the owner had slept when the permit came that it took last, or UINT32_MAX if
 * none came; 0 in the explorer.  The owner's to ask. */
static inline uint32_t spn__parker_slept_ns(const struct spn__parker *parker)
{
    return parker->slept_ns;
}

/* Makes the permit available and wakes the owner if it sleeps.  Any thread. */
SPN__SHARED void spn__parker_unpark(struct spn__parker *parker);

#endif /* SPN__PARKER_H */
