/* SPDX-License-Identifier: MIT */
/*
 * reckon.h - the time by a CPU counter, between two looks at the clock; see reckon.c.
 */
#ifndef SPN__RECKON_H
#define SPN__RECKON_H

#include <spindle/clock.h>

#include "sync/seam.h"

/* What the clock showed at `cycles`, and how long a cycle is at most.  All zero at first;
 * guarded by the shard's lock. */
struct spn__reckoning {
    int64_t base_ns;
    uint64_t cycles;
    uint64_t scale;  /* nanoseconds a cycle at most, times 2^32; 0: not known */
    int64_t from_ns; /* where the present measure began; 0: nowhere */
    uint64_t from_cycles;
    uint32_t wrong; /* how often the counter was */
};

#define SPN__RECKON_NS       SPN_MS(1) /* between two looks at the clock */
#define SPN__RECKON_EXTRA_NS SPN_US(1)
#define SPN__RECKON_CYCLES   (UINT64_C(1) << 24) /* more than RECKON_NS at any rate */

/* Whether what is reckoned at `cycles` may be used, and what that is; else look. */
static inline bool spn__reckon(const struct spn__reckoning *r, uint64_t cycles,
                               int64_t *now_ns)
{
    const uint64_t passed = cycles - r->cycles; /* a lot, if others have looked since */
    uint64_t ns;

    if (r->scale == 0 || passed >= SPN__RECKON_CYCLES)
        return false;
    ns = (passed * r->scale) >> 32;
    *now_ns = r->base_ns + (int64_t)ns + SPN__RECKON_EXTRA_NS;
    return ns < (uint64_t)SPN__RECKON_NS;
}

/* Looks at the clock, and whether we have been right: *behind_ns, if not 0, is by how much
 * what was reckoned since the last look was less than the clock, at most. */
int64_t spn__reckoning_look(struct spn__reckoning *r, int64_t *behind_ns);

#endif /* SPN__RECKON_H */
