/* SPDX-License-Identifier: MIT */
/*
 * reckon.c - the time by a CPU counter: how it is measured, and found out when wrong.
 *
 * OVERVIEW
 *   Reading the clock costs more than all the rest of an addition.  With fast_clock a
 *   shard looks at it once a millisecond and reckons from the CPU's counter in between.
 *   Only due times are reckoned; when something is due is decided by the clock.
 *
 * NEVER EARLY
 *   What is reckoned must not be less than the clock would show.  So the length of a cycle
 *   is measured over up to a second and taken a thousandth longer (the system may bend its
 *   clock by half of that, either way), and RECKON_EXTRA_NS covers a counter that was read
 *   a little ahead.  That is enough for a steady counter.  Of one that is not we find out
 *   too late for what has been filed already; but not too late for what has not run:
 *
 *   Every look compares what would be reckoned with the clock, and every pass of the timer
 *   looks at the clock before it takes out what is due.  If the counter has fallen behind,
 *   then whatever was reckoned since the last look was wrong by at most as much, and the
 *   timer files all that may be meant so much later (`postpone` in timeout.c).  So a timeout
 *   may be late then, as may be others of the shard, and none is early.
 *
 *   The rate is then forgotten, and the clock is read until there is a new one.  A counter
 *   that was wrong WRONG_MAX times is not used again.
 *
 *   What is not found out is a counter that falls behind and has caught up again at the
 *   next look, or leaps back by less than a thousandth of the time until then.  Where the
 *   system itself keeps time by the counter, which is the only place where we use it, the
 *   clock would do the same.
 *
 * MEASURING
 *   A look is the clock between two readings of the counter, close together; if there are
 *   none, because reading the clock takes long, there is no rate, and what was reckoned
 *   is compared with the reading before: that errs towards late.
 */
#include "wheel/reckon.h"

/* Spans over which the rate is measured: the shortest that counts, the first time and
 * later, and the longest. */
#define MEASURE_FIRST_NS SPN_MS(2)
#define MEASURE_MIN_NS   SPN_MS(50)
#define MEASURE_MAX_NS   SPN_SEC(1)
/* Cycles around a look at the clock, at most, if it is to be part of a measure; and how
 * often to try.  Less than RECKON_EXTRA_NS. */
#define CLOSE_CYCLES 1000
#define CLOSE_TRIES  8
#define WRONG_MAX    8

/* The clock showed now_ns at `cycles`, or less: measures the rate since `from`. */
static void measure(struct spn__reckoning *r, uint64_t cycles, int64_t now_ns)
{
    const int64_t span_ns = now_ns - r->from_ns;
    const bool fresh = r->from_ns == 0 || cycles <= r->from_cycles;

    if (!fresh && span_ns <= 2 * MEASURE_MAX_NS &&
        span_ns >= (r->scale == 0 ? MEASURE_FIRST_NS : MEASURE_MIN_NS)) {
        const uint64_t rate = ((uint64_t)span_ns << 28) / (cycles - r->from_cycles)
                              << 4;

        r->scale = rate + (rate >> 10) + 16;
    }
    if (fresh || span_ns >= MEASURE_MAX_NS) {
        r->from_ns = now_ns;
        r->from_cycles = cycles;
    }
}

/* The clock was now_ns at `cycles`, or a little later: if that is more than was reckoned,
 * how much more it may have been at any time since the last look. */
static int64_t behind(const struct spn__reckoning *r, uint64_t cycles, int64_t now_ns)
{
    __extension__ typedef unsigned __int128 wide;
    const uint64_t passed = cycles - r->cycles;
    const int64_t shown_ns = now_ns - r->base_ns;
    wide ns = 0; /* less cannot have been reckoned */

    if (r->scale == 0)
        return 0;
    if (passed <= INT64_MAX)
        ns = ((wide)passed * r->scale) >> 32;
    if (shown_ns <= SPN__RECKON_EXTRA_NS ||
        (wide)(shown_ns - SPN__RECKON_EXTRA_NS) <= ns)
        return 0;
    /* What we reckon too much each time may have made up for some of it since. */
    return shown_ns - (int64_t)(ns - (ns >> 9));
}

int64_t spn__reckoning_look(struct spn__reckoning *r, int64_t *behind_ns)
{
    uint64_t before, after;
    int64_t now_ns;
    int tries = CLOSE_TRIES;
    bool close;

    *behind_ns = 0;
    do {
        before = spn__cycles();
        now_ns = spn__now();
        after = spn__cycles();
        if (r->scale == 0 && now_ns - r->base_ns < SPN__RECKON_NS / 2)
            return now_ns; /* too soon for a measure */
        close = after - before < CLOSE_CYCLES;
    } while (!close && --tries > 0);
    *behind_ns = behind(r, before, now_ns);
    if (*behind_ns != 0) {
        r->scale = 0;
        r->from_ns = 0;
        r->wrong += close;
    }
    if (close && r->wrong < WRONG_MAX)
        measure(r, before, now_ns);
    r->cycles = before; /* the clock did not show more then */
    r->base_ns = now_ns;
    return now_ns;
}
