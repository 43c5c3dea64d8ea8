/* SPDX-License-Identifier: MIT */
/*
 * waits.c - refuses requests while those before them wait too long for a thread.
 *
 * OVERVIEW
 *   When more requests come than a pool can run, a queue stands that never drains: every
 *   request is answered, each one too late.  With queue.target the dispatcher applies the
 *   rule of standing delay (exec/standing.h) before the pool: requests wait from their
 *   arrival until their task begins, on whatever executor that is.
 *
 *   If no request began during an interval, the rule asks how long the oldest has waited.
 *   There is no list of those that wait.  `since_ns` is the time at which the last one
 *   began, or at which one came and nobody waited before: the oldest was there already in
 *   the first case, and is the one that came in the second.  So it has waited that long at
 *   least, and in the first case that is the whole interval, more than the target.
 *
 * WHY NOT a limiter in front of the pool?  It has a slot for each task that it handed
 *   over, and the queue of a server may be unbounded.  The rule is the limiter's.
 *
 * LOCKS      `lock`, a leaf, twice for each request; without queue.target it is not taken.
 */
#include "channel/waits.h"

#include <stdio.h>
#include <string.h>

#include <spindle/clock.h>

#include "config/problem.h"
#include "config/setting.h"
#include "sync/seam.h"

int spn__waits_init(struct spn__waits *waits, const spn_url *url, bool is_queued,
                    spn_problem *problem)
{
    int32_t target_ms;
    int rc;

    memset(waits, 0, sizeof *waits);
    spn__lock_init(&waits->lock);
    rc = spn__setting(url, "queue.target", 0, &target_ms, problem);
    if (rc != SPN_OK)
        return rc;
    if (target_ms < 0)
        return spn__refuse(
            problem, SPN_EINVAL, 0,
            "queue.target=%d: not a time in ms (1 to 2147483647; 0: none)",
            (int)target_ms);
    waits->is_on = is_queued && target_ms > 0;
    spn__standing_init(&waits->standing, SPN_MS((int64_t)target_ms), 0);
    return SPN_OK;
}

/* Ends an interval whose time is over.  The lock is held. */
static void turn_interval(struct spn__waits *waits, int64_t now_ns)
{
    if (spn__standing_is_due(&waits->standing, now_ns))
        spn__standing_turn(&waits->standing, now_ns,
                           waits->waiting > 0 ? now_ns - waits->since_ns : 0);
}

bool spn__waits_enter(struct spn__waits *waits, spn_message *message)
{
    int64_t now_ns;
    bool is_refused;

    if (!waits->is_on)
        return true;
    if (message->arrived_ns == 0)
        message->arrived_ns = spn__now();
    now_ns = message->arrived_ns; /* just now */
    spn__lock(&waits->lock);
    turn_interval(waits, now_ns);
    is_refused = spn__standing_refuses(&waits->standing, waits->waiting == 0);
    if (!is_refused) {
        message->flags |= SPN__MESSAGE_WAITS;
        if (waits->waiting++ == 0)
            waits->since_ns = now_ns;
    }
    spn__unlock(&waits->lock);
    return !is_refused;
}

void spn__waits_begun(struct spn__waits *waits, spn_message *message)
{
    int64_t now_ns;

    if ((message->flags & SPN__MESSAGE_WAITS) == 0)
        return;
    message->flags &= ~(uint32_t)SPN__MESSAGE_WAITS;
    now_ns = spn__now();
    spn__lock(&waits->lock);
    waits->waiting--;
    turn_interval(waits, now_ns);
    spn__standing_sample(&waits->standing, now_ns - message->arrived_ns);
    waits->since_ns = now_ns;
    spn__unlock(&waits->lock);
}

void spn__waits_dropped(struct spn__waits *waits, spn_message *message)
{
    if ((message->flags & SPN__MESSAGE_WAITS) == 0)
        return;
    message->flags &= ~(uint32_t)SPN__MESSAGE_WAITS;
    spn__lock(&waits->lock);
    waits->waiting--;
    spn__unlock(&waits->lock);
}

void spn__waits_text(struct spn__waits *waits, char *text, size_t size)
{
    int64_t delay_ns;

    spn__lock(&waits->lock);
    delay_ns = waits->standing.delay_ns;
    spn__unlock(&waits->lock);
    (void)snprintf(
        text, size,
        "requests wait too long for a thread: at least %lld ms during the last "
        "%lld ms, above queue.target=%lld ms; send fewer at a time, "
        "raise threads, or raise queue.target",
        (long long)(delay_ns / SPN_MS(1)),
        (long long)(waits->standing.interval_ns / SPN_MS(1)),
        (long long)(waits->standing.target_ns / SPN_MS(1)));
}
