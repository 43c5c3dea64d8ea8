/* SPDX-License-Identifier: MIT */
/*
 * parker.c - one-permit park and unpark on one futex word.
 *
 * STATE
 *   EMPTY   no permit, nobody sleeps
 *   PERMIT  the next park returns at once
 *   PARKED  the owner sleeps or is about to
 *
 *   park:    PERMIT -> EMPTY           took it
 *            EMPTY  -> PARKED          goes to sleep; comes back by
 *            PERMIT -> EMPTY           (unpark)   took it
 *            PARKED -> EMPTY           (deadline) gave up
 *   unpark:  any    -> PERMIT          and a wake-up if it was PARKED
 *
 * ORDERING
 *   [permit] unpark's release exchange pairs with the acquire operations by
 *            which park takes the permit: what the waker did is visible to the
 *            woken.  Of two unparks in a row the second replaces the first one's
 *            PERMIT, but as a read-modify-write it continues the first one's
 *            release sequence: park sees what both did.
 *
 * No wake-up is lost: unpark changes the word before it calls wake, and the
 * kernel compares the word with PARKED in the same step as it puts the thread
 * to sleep.  No permit is lost on a time-out: giving up is an exchange, and if
 * it finds PERMIT the park has succeeded after all.
 *
 * HOW LONG A WAKE-UP TAKES  is for whoever weighs a sleep against a longer look
 *   (spin.h): some three microseconds on a CPU of its own, fifty on a virtual one
 *   that was idle.  Unpark leaves the time, and the owner that wakes moves its estimate
 *   by an eighth towards what it finds: near the median of its wake-ups, whatever the
 *   longest are.  A time that is not of this wake-up, by a race, moves it no further.
 *   With the same times the owner knows how long it had slept, in the low bits that a
 *   sleep of more than four seconds does not fit: who asks looks for short ones.
 *
 * PROGRESS  unpark is wait-free and makes a system call only for a sleeper.
 */
#include "sync/parker.h"

#include "base/assert.h"

enum { EMPTY, PERMIT, PARKED };

enum { WAKE_LEAST_NS = 2000, WAKE_MOST_NS = 64000 };

void spn__parker_init(struct spn__parker *parker)
{
    spn__init(&parker->state, EMPTY);
    spn__init(&parker->woken_ns, 0);
    parker->wake_ns = SPN__WAKE_GUESS_NS;
    parker->slept_ns = UINT32_MAX;
}

void spn__parker_reset(struct spn__parker *parker)
{
    /* relaxed: a permit too many is harmless, and nothing comes with it. */
    spn__store(&parker->state, EMPTY, relaxed);
}

/* The owner was woken from a sleep that began at that time. */
static void learn(struct spn__parker *parker, uint32_t began_ns)
{
    const uint32_t now = (uint32_t)spn__now();
    /* relaxed: written before the permit that was taken, or by whoever brings the next. */
    const uint32_t woken_ns = spn__load(&parker->woken_ns, relaxed);
    uint32_t wake_ns = parker->wake_ns;

    /* Woken before it began, or by one whose time is an old one: at once. */
    parker->slept_ns = woken_ns - began_ns;
    if (parker->slept_ns > now - began_ns)
        parker->slept_ns = 0;
    if (now - woken_ns > wake_ns)
        wake_ns += wake_ns / 8;
    else
        wake_ns -= wake_ns / 8;
    if (wake_ns >= WAKE_LEAST_NS && wake_ns <= WAKE_MOST_NS)
        parker->wake_ns = wake_ns;
}

bool spn__parker_park(struct spn__parker *parker, int64_t deadline_ns)
{
    uint32_t found = PERMIT, began_ns = 0;

    parker->slept_ns = 0;
    /* [permit] acquire: takes a permit that was there already. */
    if (spn__cas(&parker->state, &found, EMPTY, acquire, relaxed))
        return true;
    spn__assert(found == EMPTY); /* PARKED would be a second thread in here */
    if (deadline_ns != SPN_FOREVER && deadline_ns <= spn__now()) {
        parker->slept_ns = UINT32_MAX;
        return false;
    }

    /* relaxed: PARKED asks unpark for a wake-up and carries nothing else. */
    if (!spn__cas(&parker->state, &found, PARKED, relaxed, relaxed)) {
        spn__assert(found == PERMIT);
        /* [permit] acquire: it came in between; only we take it away. */
        (void)spn__exchange(&parker->state, EMPTY, acquire);
        return true;
    }

    if (SPN__WAKES_ARE_TIMED)
        began_ns = (uint32_t)spn__now();
    for (;;) {
        const enum spn__futex_result result =
            spn__futex_wait(&parker->state, PARKED, deadline_ns);

        /* [permit] acquire: the permit we slept for. */
        found = PERMIT;
        if (spn__cas(&parker->state, &found, EMPTY, acquire, relaxed)) {
            if (SPN__WAKES_ARE_TIMED)
                learn(parker, began_ns);
            return true;
        }
        if (result == SPN__EXPIRED) {
            parker->slept_ns = UINT32_MAX;
            /* [permit] acquire: it may have come at the last moment. */
            return spn__exchange(&parker->state, EMPTY, acquire) == PERMIT;
        }
    }
}

void spn__parker_unpark(struct spn__parker *parker)
{
    /* relaxed, both: only for the estimate.  Before the permit: with it the parker may
     * go. */
    if (SPN__WAKES_ARE_TIMED && spn__load(&parker->state, relaxed) == PARKED)
        spn__store(&parker->woken_ns, (uint32_t)spn__now(), relaxed);
    /* [permit] release: to the owner. */
    if (spn__exchange(&parker->state, PERMIT, release) == PARKED)
        spn__futex_wake(&parker->state, 1);
}
