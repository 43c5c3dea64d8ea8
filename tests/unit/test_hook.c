/* SPDX-License-Identifier: MIT */
/* The set-once hook, step by step: every order in which a set and a first use can
 * cut into each other.  The races are in test_alloc.c and test_log.c. */
#include "test.h"

#include "base/hook.h"

#define OPEN_HOOK                                 \
    {                                             \
        .state = SPN__ATOMIC_INIT(SPN__HOOK_OPEN) \
    }

/* Set, then use: the custom one, for good. */
TEST(hook__set_before_use__custom)
{
    struct spn__hook hook = OPEN_HOOK;

    CHECK(spn__hook_claim(&hook));
    CHECK(spn__hook_publish(&hook));
    CHECK(spn__hook_use(&hook));
    CHECK(spn__hook_is_custom(&hook));
    CHECK(!spn__hook_claim(&hook));
    CHECK(spn__hook_use(&hook));
}

/* Use, then set: refused, the standard one stays. */
TEST(hook__use_before_set__standard)
{
    struct spn__hook hook = OPEN_HOOK;

    CHECK(!spn__hook_use(&hook));
    CHECK(!spn__hook_claim(&hook));
    CHECK(!spn__hook_is_custom(&hook));
    CHECK(!spn__hook_use(&hook));
}

/* A use in the middle of a set does not wait: the set fails at its end. */
TEST(hook__use_within_set__standard_and_set_fails)
{
    struct spn__hook hook = OPEN_HOOK;

    CHECK(spn__hook_claim(&hook));
    CHECK(!spn__hook_use(&hook));
    CHECK(!spn__hook_publish(&hook));
    CHECK(!spn__hook_use(&hook));
    CHECK(!spn__hook_is_custom(&hook));
    CHECK(!spn__hook_claim(&hook));
}

/* Two sets at once: one may store, the other is refused at once and does not
 * disturb it. */
TEST(hook__set_within_set__one_wins)
{
    struct spn__hook hook = OPEN_HOOK;

    CHECK(spn__hook_claim(&hook));
    CHECK(!spn__hook_claim(&hook));
    CHECK(spn__hook_publish(&hook));
    CHECK(spn__hook_use(&hook));
}

/* A hook in static memory starts open. */
TEST(hook__static__open)
{
    static struct spn__hook hook;

    CHECK_EQ(spn__load(&hook.state, relaxed), SPN__HOOK_OPEN);
    CHECK(!spn__hook_is_custom(&hook));
    CHECK(spn__hook_claim(&hook));
}
