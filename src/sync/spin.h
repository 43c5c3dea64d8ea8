/* SPDX-License-Identifier: MIT */
/*
 * spin.h - how long a thread looks for what it waits for before it sleeps.
 *
 * IDEA
 *   A thread that looks finds what it waits for in a tenth of a microsecond, and keeps a
 *   CPU busy; one that sleeps keeps none, and is as late as its wake-up takes.  Who looks
 *   as long as a wake-up takes, and then sleeps, is never worse than twice what somebody
 *   with foresight would pay.  That span is measured where it runs (parker.c): a number
 *   of pauses that is right on one machine is a tenth of it on another, and of two threads
 *   there that hand to and fro and have both begun to sleep, neither looks long enough to
 *   see the other come: they sleep at each turn for ever.
 *
 * LEARNING
 *   Looking in vain is a waste all the same.  So a look that was in vain halves the next
 *   one, down to none, one that was not makes it whole, and every `probe`-th is tried
 *   whole again.
 *
 * All of it is one thread's own.
 */
#ifndef SPN__SPIN_H
#define SPN__SPIN_H

#include "sync/seam.h"

struct spn__spin {
    uint32_t span_ns; /* the next look */
    uint32_t waits;   /* so far */
};

/* Less than that is not worth a look at the clock. */
enum { SPN__SPIN_LEAST_NS = SPN__WAKE_GUESS_NS / 32 };

static inline void spn__spin_init(struct spn__spin *p)
{
    p->span_ns = SPN__WAKE_GUESS_NS;
    p->waits = 0;
}

/* How long to look this time; 0: not at all. */
static inline uint32_t spn__spin_span(struct spn__spin *p, uint32_t whole_ns,
                                      uint32_t probe)
{
    if (p->waits++ % probe == 0)
        return whole_ns;
    return p->span_ns < whole_ns ? p->span_ns : whole_ns;
}

static inline void spn__spin_rewarded(struct spn__spin *p, uint32_t whole_ns)
{
    p->span_ns = whole_ns;
}

static inline void spn__spin_in_vain(struct spn__spin *p)
{
    p->span_ns = p->span_ns / 2 > SPN__SPIN_LEAST_NS ? p->span_ns / 2 : 0;
}

/* A look that is under way. */
struct spn__look {
    uint32_t span_ns, turns;
    int64_t until_ns;
};

static inline struct spn__look spn__look_begin(uint32_t span_ns)
{
    return (struct spn__look){ .span_ns = span_ns };
}

/* Pauses; false: the time is over, after one more look.  The clock is read every so many
 * turns only, and not at all by a look that is rewarded at once. */
static inline bool spn__look_on(struct spn__look *look)
{
    enum { READ = 16 };

    spn__cpu_relax();
    if (++look->turns >= SPN__LOOKS_MAX)
        return false;
    if (look->turns % READ != 0)
        return true;
    if (look->turns == READ)
        look->until_ns = spn__now() + look->span_ns;
    return spn__now() < look->until_ns;
}

#endif /* SPN__SPIN_H */
