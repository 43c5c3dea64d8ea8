/* SPDX-License-Identifier: MIT */
/* scenario_future_stage.c - stages that are made, fired, completed by hand and
 * dropped while their sources end. */
#include "sim.h"

#include <spindle.h>

#include "future/core.h"
#include "sync/seam.h"

static spn_future *f, *g, *s, *inner;
static SPN__ATOMIC(int) payload[2];
static SPN__ATOMIC(int) calls;

static int then(void *arg, void *value, void **result)
{
    (void)arg;
    sim_assert(value == &f);
    sim_assert(spn__load(&payload[0], relaxed) == 7);
    (void)spn__fetch_add(&calls, 1, relaxed);
    *result = &g;
    return 0;
}

static int combine(void *arg, void *first, void *second, void **result)
{
    (void)arg;
    sim_assert(first == &f && second == &g);
    sim_assert(spn__load(&payload[0], relaxed) == 7);
    sim_assert(spn__load(&payload[1], relaxed) == 7);
    (void)spn__fetch_add(&calls, 1, relaxed);
    *result = &s;
    return 0;
}

static int take_first(void *arg, void *value, void **result)
{
    (void)arg;
    sim_assert(value == &f || value == &g);
    sim_assert(spn__load(&payload[value == &g], relaxed) == 7);
    (void)spn__fetch_add(&calls, 1, relaxed);
    *result = value;
    return 0;
}

static int compose(void *arg, void *value, spn_future **next)
{
    (void)arg;
    (void)value;
    (void)spn__fetch_add(&calls, 1, relaxed);
    *next = inner;
    return 0;
}

static bool create_two(void)
{
    spn__init(&payload[0], 0);
    spn__init(&payload[1], 0);
    spn__init(&calls, 0);
    s = NULL;
    if (spn_future_create(&f, NULL) != SPN_OK)
        return false;
    if (spn_future_create(&g, NULL) == SPN_OK)
        return true;
    spn_future_unref(f);
    return false;
}

static void complete_f(void *arg)
{
    (void)arg;
    spn__store(&payload[0], 7, relaxed);
    sim_assert(spn_future_complete(f, &f) == 1);
}

static void complete_g(void *arg)
{
    (void)arg;
    spn__store(&payload[1], 7, relaxed);
    sim_assert(spn_future_complete(g, &g) == 1);
}

static void drop_f(void *arg)
{
    (void)arg;
    spn_future_unref(f);
}

static void drop_two(void)
{
    spn_future_unref(f);
    spn_future_unref(g);
}

/* Attached while the source completes, the function is called once. */
SCENARIO(stage__attached_while_completing__runs_once, "CF-45", "CF-9", "G-19")
{
    void *value = NULL;

    if (!create_two())
        return;
    sim_thread(complete_f, NULL);
    if (spn_future_then(f, NULL, then, NULL, &s) == SPN_OK &&
        spn_future_get(s, &value, SPN_FOREVER) == SPN_OK) {
        sim_assert(value == &g);
        sim_assert(spn__load(&calls, relaxed) == 1);
    }
    sim_join_all();
    spn_future_unref(s);
    drop_two();
}
SCENARIO_OPTS(stage__attached_while_completing__runs_once, .dfs = 2,
              .dfs_models = SIM_SC, .faults = true)

/* A stage completed by hand while its source completes: one of the two, and the edge
 * is let go of once. */
SCENARIO(stage__completed_by_hand_while_fired__one_wins, "CF-31", "CF-41")
{
    void *value = NULL;
    int won;

    if (!create_two())
        return;
    if (spn_future_then(f, NULL, then, NULL, &s) == SPN_OK) {
        sim_thread(complete_f, NULL);
        won = spn_future_complete(s, &s);
        sim_join_all();
        sim_assert(spn_future_get(s, &value, 0) == SPN_OK);
        sim_assert(value == (won != 0 ? (void *)&s : (void *)&g));
        sim_assert(spn_future_dependents(f) == 0);
        sim_outcome((unsigned)(won + 2 * spn__load(&calls, relaxed)));
        spn_future_unref(s);
    } else {
        complete_f(NULL);
    }
    drop_two();
}
SCENARIO_OPTS(stage__completed_by_hand_while_fired__one_wins, .dfs = 2,
              .dfs_models = SIM_SC, .faults = true)

/* A stage cancelled while the last reference to its source goes. */
SCENARIO(stage__cancelled_while_source_is_abandoned__ends_once, "CF-41")
{
    int won;

    if (!create_two())
        return;
    if (spn_future_then(f, NULL, then, NULL, &s) == SPN_OK) {
        sim_thread(drop_f, NULL);
        won = spn_future_cancel(s, 0);
        sim_join_all();
        sim_assert(spn_future_get_state(s) ==
                   (won != 0 ? SPN_FUTURE_CANCELED : SPN_FUTURE_FAILED));
        sim_assert(spn__load(&calls, relaxed) == 0);
        sim_outcome((unsigned)won);
        spn_future_unref(s);
    } else {
        spn_future_unref(f);
    }
    spn_future_unref(g);
}
SCENARIO_OPTS(stage__cancelled_while_source_is_abandoned__ends_once, .dfs = 2)

/* A copy made while the source completes carries what came before, too. */
SCENARIO(stage__copied_while_completing__is_published, "CF-38", "G-19")
{
    void *value = NULL;

    if (!create_two())
        return;
    sim_thread(complete_f, NULL);
    if (spn_future_any_of(&f, 1, &s) == SPN_OK &&
        spn_future_get(s, &value, SPN_FOREVER) == SPN_OK) {
        sim_assert(value == &f);
        sim_assert(spn__load(&payload[0], relaxed) == 7);
    }
    sim_join_all();
    spn_future_unref(s);
    drop_two();
}
SCENARIO_OPTS(stage__copied_while_completing__is_published, .dfs = 3,
              .dfs_models = SIM_SC, .dfs_less = SIM_C11, .faults = true)

/* Abandoned by one thread and read through a stage by another: whoever is last
 * frees it. */
SCENARIO(stage__source_abandoned_while_read__freed_by_the_last, "CF-41", "G-16")
{
    spn_outcome outcome;

    if (!create_two())
        return;
    if (spn_future_any_of(&f, 1, &s) == SPN_OK) {
        sim_thread(drop_f, NULL);
        if (spn_future_get(s, NULL, SPN_FOREVER) == SPN_EFAILED) {
            sim_assert(spn_future_result(s, &outcome) == SPN_EFAILED);
            sim_assert(outcome.code == SPN_ECANCELED && outcome.message[0] == 'a');
        }
        spn_future_unref(s);
        sim_join_all();
    } else {
        spn_future_unref(f);
    }
    spn_future_unref(g);
}
SCENARIO_OPTS(stage__source_abandoned_while_read__freed_by_the_last, .dfs = 2,
              .dfs_long = SIM_TSO | SIM_PSO, .faults = true)

/* combine of two that complete at once runs once, and sees both. */
SCENARIO(stage__both_sources_complete_at_once__runs_once, "CF-22", "G-19")
{
    void *value = NULL;

    if (!create_two())
        return;
    sim_thread(complete_f, NULL);
    sim_thread(complete_g, NULL);
    if (spn_future_combine(f, g, NULL, combine, NULL, &s) == SPN_OK &&
        spn_future_get(s, &value, SPN_FOREVER) == SPN_OK) {
        sim_assert(value == &s);
        sim_assert(spn__load(&calls, relaxed) == 1);
    }
    sim_join_all();
    spn_future_unref(s);
    drop_two();
}
SCENARIO_OPTS(stage__both_sources_complete_at_once__runs_once, .faults = true)

/* either of two that complete while it is made: one is taken, and no edge stays. */
SCENARIO(stage__either_made_while_both_complete__takes_one, "CF-23", "CF-41")
{
    void *value = NULL;

    if (!create_two())
        return;
    sim_thread(complete_f, NULL);
    if (spn_future_either(f, g, NULL, take_first, NULL, &s) == SPN_OK) {
        if (spn_future_get(s, &value, SPN_FOREVER) == SPN_OK)
            sim_assert(value == &f);
        sim_join_all();
        sim_assert(spn_future_dependents(g) == 0);
    }
    sim_join_all();
    complete_g(NULL);
    if (s != NULL)
        sim_assert(spn__load(&calls, relaxed) == 1);
    spn_future_unref(s);
    drop_two();
}
SCENARIO_OPTS(stage__either_made_while_both_complete__takes_one, .dfs = 2,
              .dfs_models = SIM_SC, .faults = true)

/* any_of of two that both complete: the first. */
SCENARIO(stage__any_of_two_at_once__takes_one, "CF-26", "CF-27")
{
    spn_future *both[2];
    void *value = NULL;

    if (!create_two())
        return;
    both[0] = f;
    both[1] = g;
    sim_thread(complete_f, NULL);
    sim_thread(complete_g, NULL);
    if (spn_future_any_of(both, 2, &s) == SPN_OK &&
        spn_future_get(s, &value, SPN_FOREVER) == SPN_OK)
        sim_assert(value == &f || value == &g);
    sim_join_all();
    sim_assert(spn_future_dependents(f) == 0 && spn_future_dependents(g) == 0);
    spn_future_unref(s);
    drop_two();
}

static void fail_f(void *arg)
{
    (void)arg;
    sim_assert(spn_future_complete_error(f, 9, "nine") == 1);
}

/* A stage made of a stage that takes its failure from the source meanwhile: the cause is
 * the source's.  ThreadSanitizer watches what the two hand on in plain fields. */
SCENARIO(stage__any_of_a_stage_that_fails__has_its_cause, "CF-27", "CF-38", "G-19")
{
    spn_future *first = NULL;
    spn_outcome outcome;

    if (!create_two())
        return;
    if (spn_future_any_of(&f, 1, &first) == SPN_OK) {
        sim_thread(fail_f, NULL);
        if (spn_future_any_of(&first, 1, &s) == SPN_OK &&
            spn_future_get(s, NULL, SPN_FOREVER) == SPN_EFAILED) {
            sim_assert(spn_future_result(s, &outcome) == SPN_EFAILED);
            sim_assert(outcome.code == 9 && outcome.message[0] == 'n');
        }
        sim_join_all();
    }
    spn_future_unref(first);
    spn_future_unref(s);
    drop_two();
}
SCENARIO_OPTS(stage__any_of_a_stage_that_fails__has_its_cause, .dfs = 2,
              .dfs_models = SIM_SC, .faults = true)

/* all_of, one by one source done and one abandoned. */
SCENARIO(stage__all_of_with_one_abandoned__fails_after_all, "CF-24", "CF-25")
{
    spn_future *both[2];
    spn_outcome outcome;
    int rc;

    if (!create_two())
        return;
    both[0] = f;
    both[1] = g;
    if (spn_future_all_of(both, 2, &s) == SPN_OK) {
        sim_thread(drop_f, NULL);
        sim_thread(complete_g, NULL);
        rc = spn_future_get(s, NULL, SPN_FOREVER);
        sim_assert(rc == SPN_EFAILED || rc == SPN_ENOMEM); /* never a success */
        if (rc == SPN_EFAILED) {
            sim_assert(spn_future_get_state(g) != SPN_FUTURE_PENDING);
            sim_assert(spn__load(&payload[1], relaxed) == 7);
            sim_assert(spn_future_result(s, &outcome) == SPN_EFAILED);
            sim_assert(outcome.code == SPN_ECANCELED);
        }
        sim_join_all();
        spn_future_unref(s);
    } else {
        spn_future_unref(f);
    }
    spn_future_unref(g);
}
SCENARIO_OPTS(stage__all_of_with_one_abandoned__fails_after_all, .faults = true)

static void complete_inner(void *arg)
{
    (void)arg;
    (void)spn_future_complete(inner, &inner);
    spn_future_unref(inner);
}

/* compose: the source and the future its function returns complete at once, and the
 * stage by hand as well. */
SCENARIO(stage__compose_fired_mirrored_and_cancelled_at_once__ends_once, "CF-19",
         "CF-31", "CF-41")
{
    void *value = NULL;
    int won, rc;

    if (!create_two())
        return;
    if (spn_future_create(&inner, NULL) == SPN_OK) {
        if (spn_future_compose(f, NULL, compose, NULL, &s) == SPN_OK) {
            /* Two references: the function's and complete_inner's. */
            (void)spn_future_ref(inner);
            sim_thread(complete_f, NULL);
            sim_thread(complete_inner, NULL);
            won = spn_future_cancel(s, 0);
            sim_join_all();
            rc = spn_future_get(s, &value, 0);
            sim_assert(rc == (won != 0 ? SPN_ECANCELED : SPN_OK));
            sim_assert(won != 0 || value == &inner);
            sim_outcome((unsigned)(won + 2 * spn__load(&calls, relaxed)));
            if (spn__load(&calls, relaxed) == 0)
                spn_future_unref(inner); /* nobody took it */
            spn_future_unref(s);
        } else {
            complete_f(NULL);
            spn_future_unref(inner);
        }
    }
    drop_two();
}

/* ---- with an executor ------------------------------------------------------------ */

static spn_manual_executor *manual;

static void run_some(void *arg)
{
    (void)arg;
    (void)spn_manual_executor_run(manual, INT64_MAX);
}

/* An async stage runs on the executor's thread, and once; what is not run is
 * dropped, and fails the stage. */
SCENARIO(stage__async_run_or_dropped__ends_once, "CF-10", "CF-30", "G-19")
{
    void *value = NULL;
    int rc;

    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    if (create_two()) {
        sim_thread(complete_f, NULL);
        sim_thread(run_some, NULL);
        if (spn_future_then(f, spn_manual_executor_executor(manual), then, NULL, &s) ==
            SPN_OK) {
            sim_join_all();
            (void)spn_manual_executor_drop_all(manual, SPN_ESHUTDOWN, NULL);
            rc = spn_future_get(s, &value, 0);
            sim_assert(rc == (spn__load(&calls, relaxed) == 1 ? SPN_OK : SPN_EFAILED));
            sim_outcome((unsigned)spn__load(&calls, relaxed));
            spn_future_unref(s);
        }
        sim_join_all();
        drop_two();
    }
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(stage__async_run_or_dropped__ends_once, .faults = true)

/* A chain by way of the direct executor, completed while it is made. */
SCENARIO(stage__chain_on_the_direct_executor__runs_in_order, "CF-40", "CF-45")
{
    void *value = NULL;
    spn_future *first = NULL;

    if (!create_two())
        return;
    sim_thread(complete_f, NULL);
    if (spn_future_then(f, spn_executor_direct(), then, NULL, &first) == SPN_OK &&
        spn_future_any_of(&first, 1, &s) == SPN_OK &&
        spn_future_get(s, &value, SPN_FOREVER) == SPN_OK)
        sim_assert(value == &g && spn__load(&calls, relaxed) == 1);
    sim_join_all();
    spn_future_unref(first);
    spn_future_unref(s);
    drop_two();
}
SCENARIO_OPTS(stage__chain_on_the_direct_executor__runs_in_order, .faults = true)

/* ---- a destructor for what a stage makes ------------------------------------------ */

static SPN__ATOMIC(int) drops;
static SPN__ATOMIC(int) reads;

static int make(void *arg, void *value, void **result)
{
    (void)arg;
    (void)value;
    (void)spn__fetch_add(&calls, 1, relaxed);
    spn__store(&payload[1], 7, relaxed);
    *result = &drops;
    return 0;
}

static void drop(void *value)
{
    sim_assert(value == &drops);
    sim_assert(spn__load(&payload[1], relaxed) == 7); /* all its maker did */
    (void)spn__fetch_add(&drops, 1, relaxed);
}

static void complete_source(void *arg)
{
    (void)arg;
    (void)spn_future_complete(f, &f);
    spn_future_unref(f);
}

static void read_stage(void *arg)
{
    void *value = NULL;

    if (arg == NULL) {
        if (spn_future_get(s, &value, 0) == SPN_OK && value == &drops)
            (void)spn__fetch_add(&reads, 1, relaxed);
    } else {
        (void)spn_future_cancel(s, 0); /* with the function's result on its way */
    }
    spn_future_unref(s);
}

/* While the source ends, the stage is read or cancelled, and references go, the
 * destructor is set: a value the function made is read or freed, once. */
SCENARIO(stage__drop_set_while_completing_and_dropping__freed_once_unless_read, "G-16")
{
    const bool early = sim_choose(2) == 1, cancels = sim_choose(2) == 1;
    int made, freed, read;

    spn__init(&payload[1], 0);
    spn__init(&calls, 0);
    spn__init(&drops, 0);
    spn__init(&reads, 0);
    sim_assert(spn_future_create(&f, NULL) == SPN_OK);
    sim_assert(spn_future_then(f, NULL, make, NULL, &s) == SPN_OK);
    if (early)
        sim_assert(spn_future_set_drop_value(s, drop) == SPN_OK);
    (void)spn_future_ref(s);
    sim_thread(complete_source, NULL);
    sim_thread(read_stage, cancels ? s : NULL);
    if (!early)
        sim_assert(spn_future_set_drop_value(s, drop) == SPN_OK);
    spn_future_unref(s);
    sim_join_all();
    made = spn__load(&calls, relaxed);
    freed = spn__load(&drops, relaxed);
    read = spn__load(&reads, relaxed);
    sim_assert(freed + read <= made);
    /* Only what comes after a cancel and before the set is nobody's. */
    sim_assert(freed + read == made || (cancels && !early));
    sim_outcome((unsigned)(made + 2 * freed + 4 * read));
}
