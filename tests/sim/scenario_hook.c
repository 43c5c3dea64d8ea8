/* SPDX-License-Identifier: MIT */
/*
 * scenario_hook.c - setting a process-wide hook against its first use.
 *
 * The hooks of alloc.c and log.c are static, and the explorer has an allocator
 * of its own: the scenarios have a hook of theirs.  What a hook publishes is
 * plain data in the library; here it is an atomic accessed relaxed, so that a
 * model may show the old value.
 */
#include "sim.h"

#include "base/hook.h"

enum { STANDARD = 1, CUSTOM = 7 };

static struct spn__hook hook;
static SPN__ATOMIC(int) function; /* what the setter stores; one of its fields */
static SPN__ATOMIC(int) set_came; /* 1: the set succeeded; 2: it failed */
static SPN__ATOMIC(int) sets;     /* that succeeded */

static void begin(void)
{
    spn__init(&hook.state, SPN__HOOK_OPEN);
    spn__init(&function, 0);
    spn__init(&set_came, 0);
    spn__init(&sets, 0);
}

/* As spn_allocator_set does it. */
static bool set(int value)
{
    if (!spn__hook_claim(&hook))
        return false;
    spn__store(&function, value, relaxed);
    return spn__hook_publish(&hook);
}

/* As spn__mem_alloc does it: what the hook gives, or the standard. */
static int use(void)
{
    if (!spn__hook_use(&hook))
        return STANDARD;
    return spn__load(&function, relaxed);
}

static void set_custom(void *arg)
{
    (void)arg;
    spn__store(&set_came, set(CUSTOM) ? 1 : 2, relaxed);
}

/* The use finds the hook whole or not at all, and the setter is told which. */
SCENARIO(hook__set_races_first_use__whole_or_standard)
{
    int used;

    begin();
    sim_thread(set_custom, NULL);
    used = use();
    sim_assert(used == CUSTOM || used == STANDARD);
    sim_outcome(used == CUSTOM);
    sim_assert(use() == used); /* for good */
    sim_join_all();
    sim_assert(spn__load(&set_came, relaxed) == (used == CUSTOM ? 1 : 2));
    sim_assert(use() == used);
    sim_assert(spn__hook_is_custom(&hook) == (used == CUSTOM));
}
SCENARIO_OPTS(hook__set_races_first_use__whole_or_standard, .dfs = SIM_UNBOUNDED)

static void use_and_keep(void *result)
{
    spn__store((SPN__ATOMIC(int) *)result, use(), relaxed);
}

/* Two first uses and a set: both uses are of the same hook. */
SCENARIO(hook__two_first_uses_and_set__one_hook)
{
    static SPN__ATOMIC(int) other;
    int used;

    begin();
    spn__init(&other, 0);
    sim_thread(set_custom, NULL);
    sim_thread(use_and_keep, &other);
    used = use();
    sim_assert(used == CUSTOM || used == STANDARD);
    sim_join_all();
    sim_assert(spn__load(&other, relaxed) == used);
    sim_assert(spn__load(&set_came, relaxed) == (used == CUSTOM ? 1 : 2));
}
SCENARIO_OPTS(hook__two_first_uses_and_set__one_hook, .dfs = 2)

static void set_numbered(void *value)
{
    if (set((int)(intptr_t)value))
        (void)spn__fetch_add(&sets, (int)(intptr_t)value, relaxed);
}

/* Of two sets at most one succeeds, and it is the one that is used. */
SCENARIO(hook__two_sets__one_wins)
{
    int used;

    begin();
    sim_thread(set_numbered, (void *)(intptr_t)2);
    sim_thread(set_numbered, (void *)(intptr_t)4);
    used = use();
    sim_join_all();
    sim_assert(used == STANDARD || used == 2 || used == 4);
    sim_assert(spn__load(&sets, relaxed) == (used == STANDARD ? 0 : used));
}
SCENARIO_OPTS(hook__two_sets__one_wins, .dfs = 2)

/* A set before any use succeeds and is used; after a use it fails. */
SCENARIO(hook__set_first_or_used_first__first_decides)
{
    const bool set_first = sim_choose(2) == 1;

    begin();
    if (!set_first)
        sim_assert(use() == STANDARD);
    sim_thread(set_custom, NULL);
    sim_join_all();
    sim_assert(spn__load(&set_came, relaxed) == (set_first ? 1 : 2));
    sim_assert(use() == (set_first ? CUSTOM : STANDARD));
    sim_assert(!set(CUSTOM)); /* once and for all */
}
SCENARIO_OPTS(hook__set_first_or_used_first__first_decides, .dfs = SIM_UNBOUNDED)
