/* SPDX-License-Identifier: MIT */
/*
 * time_mix.h - what the mixes about time draw alike: the clock, delays that are now, soon,
 * nearly the same or far away, and how long they wait for what is due.
 */
#ifndef SIM_TIME_MIX_H
#define SIM_TIME_MIX_H

#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"

#define NEAR_ SPN_MS(1)
#define FAR   SPN_SEC(3600)
/* How long something that is due may take when nobody is in its way: the deputy's time,
 * and what the steps of a schedule take. */
enum { PATIENCE = 1000 };
#define SOON (SPN__STAND_BY + SPN_US(250))

static inline bool draw(void)
{
    return sim_choose(2) == 0;
}

static spn_clock *clock_; /* NULL: the monotonic one */

static inline int64_t now(void)
{
    return clock_ != NULL ? spn_clock_now(clock_) : sim_now();
}

static inline int64_t draw_delay(void)
{
    switch (sim_choose(5)) {
    case 0:
        return 0;
    case 1:
        return NEAR_;
    case 2:
        return NEAR_ / 2;
    case 3:
        return NEAR_ + 40;
    default:
        return FAR;
    }
}

#endif /* SIM_TIME_MIX_H */
