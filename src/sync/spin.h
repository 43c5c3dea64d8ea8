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
 * THE FIRST LOOK
 *   takes the cache line from whoever is about to write to it, who then waits for it.  So a
 *   thread that is usually answered after some time does not look before most of that is
 *   over: it pauses longer if it had to look again, and less if what it waits for was
 *   there, so that this is so somewhat more often than not.  At most FIRST_MAX pauses.
 *
 * All of it is one thread's own.
 */
#ifndef SPN__SPIN_H
#define SPN__SPIN_H

#include "sync/seam.h"

struct spn__spin {
    uint32_t span_ns; /* the next look */
    uint32_t waits;   /* so far */
    uint32_t first;   /* pauses before the first look, in sixteenths */
};

/* Less than that is not worth a look at the clock. */
enum { SPN__SPIN_LEAST_NS = SPN__WAKE_GUESS_NS / 32 };

static inline void spn__spin_init(struct spn__spin *p)
{
    p->span_ns = SPN__WAKE_GUESS_NS;
    p->waits = 0;
    p->first = 0;
}

/* How long to look this time; 0: not at all. */
static inline uint32_t spn__spin_span(struct spn__spin *p, uint32_t whole_ns,
                                      uint32_t probe)
{
    if (p->waits++ % (SPN__LOOKS_MAX > 1 ? probe : 2) == 0) /* often in the explorer */
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

enum { SPN__SPIN_FIRST_MAX = 32, SPN__SPIN_FIRST_STEP = 2 };

/* Before the first of several looks. */
static inline void spn__spin_hold_back(const struct spn__spin *p)
{
    for (uint32_t i = 0; i < p->first / 16; i++)
        spn__cpu_relax();
}

/* After a look that was rewarded. */
static inline void spn__spin_held_back(struct spn__spin *p, bool at_first)
{
    if (at_first)
        p->first -= p->first / 16;
    else if (p->first <= 16 * (SPN__SPIN_FIRST_MAX - SPN__SPIN_FIRST_STEP) &&
             SPN__LOOKS_MAX > 1)
        p->first += 16 * SPN__SPIN_FIRST_STEP;
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
