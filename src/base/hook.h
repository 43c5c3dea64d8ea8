/* SPDX-License-Identifier: MIT */
/*
 * hook.h - a process-wide hook that is set once, before first use.
 *
 * STATE      OPEN --set--> SETTING --publish--> CUSTOM (final)
 *            OPEN or SETTING --first use--> STANDARD (final)
 *
 *   The first use freezes what is there.  It never waits for a set that is half
 *   done: it takes the standard behaviour, and that set then fails, as if it
 *   had come later.  So every use in the life of a process sees one and the
 *   same hook, whatever races with what, and neither side blocks.
 *
 * ORDERING
 *   [hook] the release in spn__hook_publish pairs with the acquires in
 *          spn__hook_use; it publishes the functions the setter stored between
 *          claim and publish.  Only the winner of claim stores them, and nobody
 *          reads them before CUSTOM, so they are plain.
 */
#ifndef SPN__HOOK_H
#define SPN__HOOK_H

#include "sync/seam.h"

enum { SPN__HOOK_OPEN, SPN__HOOK_SETTING, SPN__HOOK_CUSTOM, SPN__HOOK_STANDARD };

struct spn__hook {
    SPN__ATOMIC(uint32_t) state;
};

/* Whether the caller may store its functions; at most one caller ever may, and
 * it must go on to publish. */
static inline bool spn__hook_claim(struct spn__hook *hook)
{
    uint32_t expected = SPN__HOOK_OPEN;

    /* relaxed: decides only who sets; [hook] does the publishing. */
    return spn__cas(&hook->state, &expected, SPN__HOOK_SETTING, relaxed, relaxed);
}

/* False when a first use has come in between: the functions stay unused. */
static inline bool spn__hook_publish(struct spn__hook *hook)
{
    uint32_t expected = SPN__HOOK_SETTING;

    return spn__cas(&hook->state, &expected, SPN__HOOK_CUSTOM, release,
                    relaxed); /* [hook] */
}

/*
 * Settles the hook for good and tells whether it is the custom one.  The load
 * is an acquire and not relaxed because a thread may use the hook without ever
 * having met the one that set it; where the hook is frozen it is the only cost.
 */
static inline bool spn__hook_use(struct spn__hook *hook)
{
    uint32_t state = spn__load(&hook->state, acquire); /* [hook] */

    while (state == SPN__HOOK_OPEN || state == SPN__HOOK_SETTING)
        /* acquire for [hook]: a failure may have found CUSTOM.
         * mutant: success reads nothing, but C11 wants it no weaker than failure */
        if (spn__cas(&hook->state, &state, SPN__HOOK_STANDARD, acquire, acquire))
            return false;
    return state == SPN__HOOK_CUSTOM;
}

/* As spn__hook_use, for a caller that holds something only a use can have made.
 * relaxed: the state is final since that use, and what handed the thing over
 * carried [hook] along. */
static inline bool spn__hook_is_custom(struct spn__hook *hook)
{
    return spn__load(&hook->state, relaxed) == SPN__HOOK_CUSTOM;
}

#endif /* SPN__HOOK_H */
