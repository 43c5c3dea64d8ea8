/* SPDX-License-Identifier: MIT */
/*
 * scenario_forkjoin_deque.c - the deque without the pool around it: fork, join, steal and
 * ask against each other; pieces, leapfrogging, nesting, and bodies that do not return.
 *
 * `data` is written relaxed before a fork and read relaxed by the record's body; `out`
 * is written there and read after the join: only the deque orders them.  `ran` counts
 * how often each body ran, and by whom.
 */
#include "sim.h"

#include <string.h>

#include "forkjoin/deque.h"

enum { RECORDS = 8, DEQUES = 3, OWNER = 0 };

static struct spn__deque deque[DEQUES];
static SPN__ATOMIC(int) data[RECORDS], out[RECORDS], ran[RECORDS], by[RECORDS];
static SPN__ATOMIC(int) over;

static const struct spn__deque_ops no_ops;

static bool set_up(int count, uint32_t records)
{
    memset(deque, 0, sizeof deque);
    for (int i = 0; i < RECORDS; i++) {
        spn__init(&data[i], 0);
        spn__init(&out[i], 0);
        spn__init(&ran[i], 0);
        spn__init(&by[i], -1);
    }
    spn__init(&over, 0);
    for (int i = 0; i < count; i++)
        if (spn__deque_init(&deque[i], records, &no_ops) != SPN_OK) {
            while (i-- > 0)
                spn__deque_fini(&deque[i]);
            return false;
        }
    return true;
}

static void tear_down(int count)
{
    for (int i = 0; i < count; i++) {
        sim_assert(!spn__deque_any(&deque[i]));
        sim_assert(deque[i].split == 0 && deque[i].frame == NULL);
        spn__deque_fini(&deque[i]);
    }
}

static int deque_number(spn_fj fj)
{
    return (int)(spn__deque_of(fj) - deque);
}

static void came_out(spn_fj fj, int i)
{
    sim_assert(spn__load(&data[i], relaxed) == i + 1);
    sim_assert(spn__fetch_add(&ran[i], 1, relaxed) == 0);
    spn__store(&by[i], deque_number(fj), relaxed);
    spn__store(&out[i], i + 100, relaxed);
}

SPN_FJ_TASK(int, leaf, int, i)
{
    came_out(fj, i);
    return i + 10;
}

static void give(spn_fj *fj, int i)
{
    spn__store(&data[i], i + 1, relaxed);
    leaf_fork(fj, i);
}

static void get(spn_fj *fj, int i)
{
    sim_assert(leaf_join(fj) == i + 10);
    sim_assert(spn__load(&out[i], relaxed) == i + 100);
    sim_assert(spn__load(&ran[i], relaxed) == 1);
}

static spn_fj begin(int d, struct spn__nested *n)
{
    spn_fj fj = spn__deque_enter(&deque[d], n, NULL);

    sim_assert(fj != NULL);
    return fj;
}

/* Forks `count` and joins them. */
static void fork_all(int d, int first, int count)
{
    struct spn__nested n;
    spn_fj fj = begin(d, &n);

    for (int i = 0; i < count; i++)
        give(&fj, first + i);
    for (int i = count; i-- > 0;)
        get(&fj, first + i);
    spn__deque_leave(&deque[d], &n);
}

/* Steals from the owner until it is through. */
static void thief(void *arg)
{
    struct spn__deque *d = &deque[*(int *)arg];

    while (spn__load(&over, relaxed) == 0)
        if (!spn__deque_steal(d, spn__deque_bottom(d), &deque[OWNER]))
            spn__cpu_relax();
}

static void steal_some(void *arg)
{
    struct spn__deque *d = &deque[*(int *)arg];

    for (int i = 0; i < 3; i++)
        if (!spn__deque_steal(d, spn__deque_bottom(d), &deque[OWNER]))
            spn__cpu_relax();
}

static int numbers[DEQUES] = { 0, 1, 2 };

/* The last record: owner or thief, and whoever it is runs it once; its result and what
 * it wrote come with the join. */
SCENARIO(deque__last_record_wanted_by_two__run_once, "FJT-28")
{
    if (!set_up(2, 4))
        return;
    sim_thread(steal_some, &numbers[1]);
    spn__deque_ask_self(&deque[OWNER]);
    {
        struct spn__nested n;
        spn_fj fj = begin(OWNER, &n);

        spn__deque_ask_self(&deque[OWNER]); /* so that it is shared */
        give(&fj, 0);
        get(&fj, 0);
        spn__deque_leave(&deque[OWNER], &n);
    }
    sim_join_all();
    tear_down(2);
}
SCENARIO_OPTS(deque__last_record_wanted_by_two__run_once, .dfs = 2,
              .dfs_models = SIM_SC, .faults = true)

/* A thief that asks while the owner forks and joins. */
SCENARIO(deque__asked_while_it_joins__each_run_once, "FJT-28")
{
    if (!set_up(2, 8))
        return;
    sim_thread(steal_some, &numbers[1]);
    fork_all(OWNER, 0, 3);
    sim_join_all();
    tear_down(2);
}

SCENARIO_OPTS(deque__asked_while_it_joins__each_run_once, .faults = true)

/* Two thieves. */
SCENARIO(deque__two_thieves__each_run_once, "FJT-28")
{
    if (!set_up(3, 8))
        return;
    sim_thread(thief, &numbers[1]);
    sim_thread(thief, &numbers[2]);
    fork_all(OWNER, 0, 4);
    spn__store(&over, 1, relaxed);
    sim_join_all();
    tear_down(3);
}

/* A thief that sleeps when there is nothing, and says so first. */
static SPN__ATOMIC(int) asleep;
static struct spn__parker bed;

static bool is_hungry(struct spn__deque *d)
{
    (void)d;
    return spn__load(&asleep, relaxed) != 0;
}

static void on_shared(struct spn__deque *d)
{
    (void)d;
    spn__fence_light(); /* with the sleeper's: it looks once more */
    if (spn__load(&asleep, relaxed) != 0)
        spn__parker_unpark(&bed);
}

static const struct spn__deque_ops hungry_ops = { .shared = on_shared,
                                                  .hungry = is_hungry };

static void sleepy_thief(void *arg)
{
    struct spn__deque *d = &deque[1];

    (void)arg;
    spn__store(&asleep, 1, relaxed);
    spn__fence_heavy();
    spn__deque_ask(&deque[OWNER]);
    while (!spn__deque_steal(d, spn__deque_bottom(d), &deque[OWNER]))
        (void)spn__parker_park(&bed, SPN_FOREVER);
    spn__store(&asleep, 0, relaxed);
}

/* The owner forks in private, and a thief goes to sleep: however that falls together the
 * owner sees that it sleeps, or the question. */
SCENARIO(deque__thief_goes_to_sleep__is_given_work, "FJP-25")
{
    struct spn__nested n;
    spn_fj fj;

    if (!set_up(2, 4))
        return;
    spn__init(&asleep, 0);
    spn__parker_init(&bed);
    deque[OWNER].ops = &hungry_ops;
    sim_thread(sleepy_thief, NULL);
    fj = begin(OWNER, &n);
    give(&fj, 0);
    while (spn__load(&by[0], relaxed) < 0) { /* until the thief has it */
        spn__store(&data[1], 2, relaxed);
        spn__store(&ran[1], 0, relaxed);
        leaf_fork(&fj, 1);
        (void)leaf_join(&fj);
        spn__cpu_relax();
    }
    get(&fj, 0);
    spn__deque_leave(&deque[OWNER], &n);
    sim_join_all();
    tear_down(2);
}

/* Pieces of one record: each fork needs another, while records of those before are being
 * stolen; and numbers are used again, from the bottom, with other records. */
SCENARIO(deque__grows_while_stolen_from__nothing_moves, "FJT-28")
{
    if (!set_up(2, 1))
        return;
    sim_thread(thief, &numbers[1]);
    fork_all(OWNER, 0, 3);
    fork_all(OWNER, 3, 3);
    spn__store(&over, 1, relaxed);
    sim_join_all();
    tear_down(2);
}
SCENARIO_OPTS(deque__grows_while_stolen_from__nothing_moves,
              .no_faults = "wants every record run, and memory for each")

/* The third part of the word comes around: numbers that were used return. */
SCENARIO(deque__word_wraps__each_run_once, "FJT-28")
{
    if (!set_up(2, 2))
        return;
    spn__init(&deque[OWNER].word, UINT64_MAX & ~(SPN__DEQUE_EPOCH_ONE - 1));
    spn__init(&deque[1].word, UINT64_MAX & ~(SPN__DEQUE_EPOCH_ONE - 1));
    sim_thread(thief, &numbers[1]);
    fork_all(OWNER, 0, 2);
    fork_all(OWNER, 2, 2);
    spn__store(&over, 1, relaxed);
    sim_join_all();
    tear_down(2);
}

/* ---- leapfrogging ------------------------------------------------------------------ */

/* Record 0 forks 1 and 2 where it runs. */
SPN_FJ_ACTION(branch, int, i)
{
    came_out(fj, i);
    give(&fj, 1);
    give(&fj, 2);
    get(&fj, 2);
    get(&fj, 1);
}

/* The thief has a record of its own, 5, that wants what the owner holds. */
static void busy_thief(void *arg)
{
    struct spn__nested n;
    spn_fj fj = begin(1, &n);

    (void)arg;
    spn__deque_ask_self(&deque[1]);
    give(&fj, 5);
    for (int i = 0; i < 4; i++)
        if (!spn__deque_steal(&deque[1], fj, &deque[OWNER]))
            spn__cpu_relax();
    get(&fj, 5);
    spn__deque_leave(&deque[1], &n);
}

/* A join runs what descends from its record, and nothing else of the thief's: with a
 * lock held it is safe.  (Pitfall P7.) */
SCENARIO(deque__join_of_stolen_record__helps_only_with_it, "FJT-27", "P7")
{
    struct spn__nested n;
    spn_fj fj;

    if (!set_up(2, 8))
        return;
    sim_thread(busy_thief, NULL);
    fj = begin(OWNER, &n);
    spn__deque_ask_self(&deque[OWNER]);
    spn__store(&data[0], 1, relaxed);
    branch_fork(&fj, 0);
    branch_join(&fj);
    sim_assert(spn__load(&ran[1], relaxed) == 1 && spn__load(&ran[2], relaxed) == 1);
    spn__deque_leave(&deque[OWNER], &n);
    sim_join_all();
    sim_assert(spn__load(&by[5], relaxed) == 1);
    if (spn__load(&by[0], relaxed) == 1)
        sim_outcome(spn__load(&by[1], relaxed) == OWNER ||
                    spn__load(&by[2], relaxed) == OWNER);
    tear_down(2);
}

/* Record 0 forks and shares 1 where it runs. */
SPN_FJ_ACTION(open_branch, int, i)
{
    came_out(fj, i);
    spn__deque_ask_self(&deque[deque_number(fj)]);
    give(&fj, 1);
    get(&fj, 1);
}

/* The same, and the thief goes on with something else at once when it is through: its word
 * then says what it said before. */
static void restless_thief(void *arg)
{
    struct spn__nested n;
    spn_fj fj;

    (void)arg;
    for (int i = 0; i < 3; i++) {
        if (spn__deque_steal(&deque[1], spn__deque_bottom(&deque[1]), &deque[OWNER]))
            break;
        spn__cpu_relax();
    }
    fj = begin(1, &n);
    spn__deque_ask_self(&deque[1]);
    give(&fj, 5);
    spn__cpu_relax(); /* the owner looks */
    get(&fj, 5);
    spn__deque_leave(&deque[1], &n);
}

SCENARIO(deque__thief_goes_on__its_next_records_are_not_taken, "FJT-27")
{
    struct spn__nested n;
    spn_fj fj;

    if (!set_up(2, 8))
        return;
    sim_thread(restless_thief, NULL);
    fj = begin(OWNER, &n);
    spn__deque_ask_self(&deque[OWNER]);
    spn__store(&data[0], 1, relaxed);
    open_branch_fork(&fj, 0);
    spn__cpu_relax(); /* the thief takes it */
    open_branch_join(&fj);
    spn__deque_leave(&deque[OWNER], &n);
    sim_join_all();
    sim_assert(spn__load(&by[5], relaxed) == 1);
    tear_down(2);
}

SCENARIO_OPTS(deque__thief_goes_on__its_next_records_are_not_taken, .dfs = 2,
              .dfs_models = SIM_SC, .faults = true)

/* ---- nesting ------------------------------------------------------------------------- */

/* A tree within a tree, begun without a place: what lies below is left alone and comes
 * back. */
SCENARIO(deque__tree_within_a_tree__both_whole, "FJT-28")
{
    struct spn__nested n;
    spn_fj fj;

    if (!set_up(2, 2))
        return;
    sim_thread(thief, &numbers[1]);
    fj = begin(OWNER, &n);
    give(&fj, 0);
    give(&fj, 1);
    fork_all(OWNER, 2, 2);
    get(&fj, 1);
    get(&fj, 0);
    spn__deque_leave(&deque[OWNER], &n);
    spn__store(&over, 1, relaxed);
    sim_join_all();
    tear_down(2);
}

SCENARIO_OPTS(deque__tree_within_a_tree__both_whole,
              .no_faults = "wants every record run, and memory for each")

/* No memory for a piece: what was forked beyond is not run, and the rest is. */
SCENARIO(deque__no_memory_for_a_piece__the_rest_is_whole, "FJT-28")
{
    struct spn__nested n;
    spn_fj fj;
    int ran_all = 0;

    if (!set_up(1, 2))
        return;
    fj = begin(OWNER, &n);
    for (int i = 0; i < 6; i++)
        give(&fj, i);
    for (int i = 6; i-- > 0;) {
        const int got = leaf_join(&fj);

        sim_assert(got == 0 || got == i + 10);
        sim_assert((got != 0) == (spn__load(&ran[i], relaxed) == 1));
        ran_all += got != 0;
    }
    sim_assert(ran_all >= 2);
    spn__deque_leave(&deque[OWNER], &n);
    tear_down(1);
}
SCENARIO_OPTS(deque__no_memory_for_a_piece__the_rest_is_whole, .faults = true)
