/* SPDX-License-Identifier: MIT */
/*
 * standing.h - the rule of standing delay: whether a queue ever drains.
 *
 * As in controlled delay: what matters is not how long the queue is but whether it ever
 * drains, and that shows in the least delay of an interval.  The least is taken over the
 * tasks that started during the interval; if none did, the one that has waited longest
 * stands for them.  With nobody waiting there is no delay.
 *
 * The caller's lock guards it, and the caller knows who waits.
 */
#ifndef SPN__STANDING_H
#define SPN__STANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define SPN__STANDING_INTERVALS 20 /* the proportion of 5 ms to 100 ms is well tried */

struct spn__standing {
    int64_t target_ns, interval_ns; /* fixed */
    int64_t end_ns;                 /* of the interval */
    int64_t least_ns;   /* of those who started since it began; INT64_MAX: nobody did */
    int64_t delay_ns;   /* of the interval before */
    bool is_overloaded; /* that was above the target */
};

/* interval_ns: 0: 20 times the target. */
static inline void spn__standing_init(struct spn__standing *s, int64_t target_ns,
                                      int64_t interval_ns)
{
    *s = (struct spn__standing){ .target_ns = target_ns,
                                 .interval_ns = interval_ns,
                                 .least_ns = INT64_MAX };
    if (interval_ns == 0 &&
        __builtin_mul_overflow(target_ns, SPN__STANDING_INTERVALS, &s->interval_ns))
        s->interval_ns = SPN_FOREVER;
}

/* Whether the interval is over: turn follows, before anything else. */
static inline bool spn__standing_is_due(const struct spn__standing *s, int64_t now_ns)
{
    return now_ns >= s->end_ns;
}

/* Ends the interval; oldest_ns: how long the one that waits has, so far, 0: nobody waits. */
static inline void spn__standing_turn(struct spn__standing *s, int64_t now_ns,
                                      int64_t oldest_ns)
{
    s->delay_ns = s->least_ns != INT64_MAX ? s->least_ns : oldest_ns;
    s->is_overloaded = s->delay_ns > s->target_ns;
    s->least_ns = INT64_MAX;
    s->end_ns = spn__time_add(now_ns, s->interval_ns);
}

/* A task starts that has waited so long. */
static inline void spn__standing_sample(struct spn__standing *s, int64_t delay_ns)
{
    if (delay_ns < s->least_ns)
        s->least_ns = delay_ns;
}

/* Whether a new task is refused. */
static inline bool spn__standing_refuses(struct spn__standing *s, bool nobody_waits)
{
    if (nobody_waits)
        s->is_overloaded = false;
    return s->is_overloaded;
}

#endif /* SPN__STANDING_H */
