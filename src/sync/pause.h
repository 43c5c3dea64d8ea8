/* SPDX-License-Identifier: MIT */
/* pause.h - a sleep between two looks at something that tells nobody when it ends. */
#ifndef SPN__PAUSE_H
#define SPN__PAUSE_H

#include "base/time.h"
#include "sync/seam.h"

/* Sleeps that long; no interrupt ends it. */
static inline void spn__pause(int64_t ns)
{
    spn__futex_word word;

    spn__init(&word, 0);
    (void)spn__futex_wait(&word, 0, spn__time_add(spn__now(), ns));
}

/* The same until the next look, which is twice as far away each time, from 100 us up to
 * 5 ms, and not behind `left_ns`.  *pause_ns is 0 at first. */
static inline void spn__pause_longer(int64_t *pause_ns, int64_t left_ns)
{
    *pause_ns = *pause_ns == 0 ? SPN_US(100) : *pause_ns;
    spn__pause(left_ns < *pause_ns ? left_ns : *pause_ns);
    if (*pause_ns < SPN_MS(5))
        *pause_ns *= 2;
}

#endif /* SPN__PAUSE_H */
