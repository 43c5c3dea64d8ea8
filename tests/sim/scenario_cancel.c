/* SPDX-License-Identifier: MIT */
/* scenario_cancel.c - tokens: cancel against register, deregister, wait and children. */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

static spn_cancel_token *token, *child;
static SPN__ATOMIC(int) payload, calls, wins, inside;

struct heard {
    spn_cancel_callback callback; /* first */
    int reason;
};

static void hear(spn_cancel_callback *callback, int reason)
{
    (void)spn__fetch_add(&calls, 1, relaxed);
    sim_assert(spn__load(&payload, relaxed) == 7); /* what the canceller did before */
    ((struct heard *)callback)->reason = reason;
    spn__store(&inside, 1, relaxed);
}

/* From the heap, so that a touch after the free is seen. */
static struct heard *make_heard(void)
{
    struct heard *h = spn__alloc(sizeof *h);

    if (h != NULL) {
        h->callback = (spn_cancel_callback)SPN_CANCEL_CALLBACK_INIT(hear);
        h->reason = 0;
    }
    return h;
}

static bool create(void)
{
    spn__init(&payload, 0);
    spn__init(&calls, 0);
    spn__init(&wins, 0);
    spn__init(&inside, 0);
    child = NULL;
    return spn_cancel_token_create(&token, NULL) == SPN_OK;
}

static void cancel(void *arg)
{
    (void)arg;
    spn__store(&payload, 7, relaxed);
    (void)spn__fetch_add(&wins, spn_cancel_token_cancel(token, SPN_ETIMEDOUT), relaxed);
}

static int count(void)
{
    return spn__load(&calls, relaxed);
}

/* Registered while somebody cancels: called once, whoever calls it. */
SCENARIO(cancel__registered_meanwhile__called_once, "G-23", "G-19")
{
    struct heard *h;
    int rc;

    if (!create())
        return;
    h = make_heard();
    if (h != NULL) {
        sim_thread(cancel, NULL);
        rc = spn_cancel_token_register(token, &h->callback);
        sim_assert(rc == SPN_OK || rc == SPN_ECANCELED);
        if (rc == SPN_ECANCELED)
            sim_assert(count() == 1 && h->reason == SPN_ETIMEDOUT);
        sim_join_all();
        sim_assert(count() == 1);
        sim_assert(spn_cancel_token_deregister(token, &h->callback) == 0);
        sim_outcome((unsigned)(rc == SPN_OK));
        spn__free(h);
    }
    spn_cancel_token_unref(token);
}
SCENARIO_OPTS(cancel__registered_meanwhile__called_once, .dfs = 3, .dfs_models = SIM_SC,
              .faults = true)

/* Deregistered while somebody cancels: it is either never called, or has returned. */
SCENARIO(cancel__deregistered_meanwhile__not_touched_any_more, "G-23", "G-19")
{
    struct heard *h;
    int rc;

    if (!create())
        return;
    h = make_heard();
    if (h != NULL && spn_cancel_token_register(token, &h->callback) == SPN_OK) {
        sim_thread(cancel, NULL);
        rc = spn_cancel_token_deregister(token, &h->callback);
        sim_assert(rc == 0 || rc == 1 || rc == SPN_EBUSY);
        if (rc == 0)
            sim_assert(spn__load(&inside, relaxed) == 1 && h->reason == SPN_ETIMEDOUT);
        if (rc != SPN_EBUSY) /* a thread without a record */
            spn__free(h);
        sim_join_all();
        sim_assert(count() == (rc != 1));
        if (rc == SPN_EBUSY)
            spn__free(h);
        sim_outcome((unsigned)(rc + 4));
    } else {
        spn__free(h);
    }
    spn_cancel_token_unref(token);
}
SCENARIO_OPTS(cancel__deregistered_meanwhile__not_touched_any_more, .dfs = 3,
              .dfs_models = SIM_SC, .faults = true)

static void deregister_both(void *p)
{
    struct heard *const *h = p;

    for (int i = 0; i < 2; i++) {
        const int rc = spn_cancel_token_deregister(token, &h[i]->callback);

        sim_assert(rc == 0 || rc == 1);
        spn__free(h[i]);
    }
}

/* Two who cancel and one who takes two callbacks off: one cancels, each callback is
 * called once or not at all. */
SCENARIO(cancel__two_cancels_and_a_deregister__each_once, "G-23")
{
    struct heard *h[2];

    if (!create())
        return;
    h[0] = make_heard();
    h[1] = make_heard();
    sim_assert(h[0] != NULL && h[1] != NULL);
    sim_assert(spn_cancel_token_register(token, &h[0]->callback) == SPN_OK);
    sim_assert(spn_cancel_token_register(token, &h[1]->callback) == SPN_OK);
    sim_assert(spn_cancel_token_register(token, &h[1]->callback) == SPN_EBUSY);
    sim_thread(cancel, NULL);
    sim_thread(deregister_both, h);
    cancel(NULL);
    sim_join_all();
    sim_assert(spn__load(&wins, relaxed) == 1);
    sim_assert(count() <= 2);
    sim_outcome((unsigned)count());
    spn_cancel_token_unref(token);
}

static int wait_rc;

static void waits(void *timeout)
{
    wait_rc = spn_cancel_token_wait(token, *(int64_t *)timeout);
    if (wait_rc == SPN_OK)
        sim_assert(spn__load(&payload, relaxed) == 7);
}

/* A waiter that comes at any time is released; one whose time is over as well is not
 * lost. */
SCENARIO(cancel__waited_for__releases, "G-20", "G-12", "G-19")
{
    static int64_t for_ever = SPN_FOREVER, short_time = SPN_MS(1);
    int64_t *timeout = sim_choose(2) == 0 ? &for_ever : &short_time;

    if (!create())
        return;
    sim_thread(waits, timeout);
    cancel(NULL);
    sim_join_all();
    sim_assert(wait_rc == SPN_OK || wait_rc == SPN_ENOMEM ||
               (timeout == &short_time && wait_rc == SPN_ETIMEDOUT));
    sim_outcome((unsigned)-wait_rc);
    spn_cancel_token_unref(token);
}
SCENARIO_OPTS(cancel__waited_for__releases, .dfs = 2, .dfs_models = SIM_SC,
              .faults = true)

/* Seen by polling, it brings what was done before. */
SCENARIO(cancel__polled__brings_what_precedes, "G-19")
{
    if (!create())
        return;
    sim_thread(cancel, NULL);
    if (spn_cancel_token_is_cancelled(token) == 1)
        sim_assert(spn__load(&payload, relaxed) == 7 &&
                   spn_cancel_token_reason(token) == SPN_ETIMEDOUT);
    sim_join_all();
    sim_assert(spn_cancel_token_reason(token) == SPN_ETIMEDOUT);
    spn_cancel_token_unref(token);
}
SCENARIO_OPTS(cancel__polled__brings_what_precedes, .dfs = 2, .dfs_models = SIM_SC)

static void grow(void *arg)
{
    spn_cancel_token *grandchild;

    (void)arg;
    if (spn_cancel_token_create(&child, token) != SPN_OK)
        return;
    if (spn_cancel_token_create(&grandchild, child) != SPN_OK)
        return;
    spn_cancel_token_unref(grandchild); /* it may just be being cancelled */
}

/* A child made while the parent is cancelled is cancelled; one that goes is let go. */
SCENARIO(cancel__children_come_and_go__none_is_missed, "G-16", "G-20")
{
    if (!create())
        return;
    sim_thread(grow, NULL);
    cancel(NULL);
    sim_join_all();
    if (child != NULL)
        sim_assert(spn_cancel_token_reason(child) == SPN_ETIMEDOUT);
    spn_cancel_token_unref(token); /* the child keeps it */
    spn_cancel_token_unref(child);
}
SCENARIO_OPTS(cancel__children_come_and_go__none_is_missed, .dfs = 3,
              .dfs_models = SIM_SC, .faults = true)

static void cancel_child(void *arg)
{
    (void)arg;
    spn__store(&payload, 7, relaxed);
    (void)spn__fetch_add(&wins, spn_cancel_token_cancel(child, SPN_ECANCELED), relaxed);
    spn_cancel_token_unref(child);
}

/* Parent and child cancelled at once: the child has one reason, and its callback is
 * called once, by one of the two. */
SCENARIO(cancel__parent_and_child_at_once__one_reason, "G-23", "G-16")
{
    struct heard *h;

    if (!create())
        return;
    if (spn_cancel_token_create(&child, token) == SPN_OK) {
        h = make_heard();
        if (h != NULL && spn_cancel_token_register(child, &h->callback) == SPN_OK) {
            sim_thread(cancel_child, NULL);
            cancel(NULL);
            sim_join_all();
            sim_assert(count() == 1);
            sim_assert(h->reason == SPN_ETIMEDOUT || h->reason == SPN_ECANCELED);
            sim_assert((spn__load(&wins, relaxed) == 2) ==
                       (h->reason == SPN_ECANCELED));
            sim_outcome((unsigned)-h->reason);
        } else {
            spn_cancel_token_unref(child);
        }
        spn__free(h);
    }
    spn_cancel_token_unref(token);
}
SCENARIO_OPTS(cancel__parent_and_child_at_once__one_reason, .dfs = 2,
              .dfs_models = SIM_SC, .faults = true)
