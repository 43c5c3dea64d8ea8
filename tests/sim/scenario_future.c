/* SPDX-License-Identifier: MIT */
/* scenario_future.c - one promise and those who complete it, cancel it, wait for it,
 * poll for it and drop it, all at once. */
#include "sim.h"

#include <spindle.h>

#include "future/core.h"
#include "sync/seam.h"

static spn_future *f;
static SPN__ATOMIC(int) payload;
static SPN__ATOMIC(int) wins_word;

static void win(int count)
{
    (void)spn__fetch_add(&wins_word, count, relaxed);
}

static int wins(void)
{
    return spn__load(&wins_word, relaxed);
}

static bool create(void)
{
    spn__init(&payload, 0);
    spn__init(&wins_word, 0);
    return spn_future_create(&f, NULL) == SPN_OK;
}

static void complete(void *value)
{
    spn__store(&payload, 7, relaxed);
    win(spn_future_complete(f, value));
}

static void complete_error(void *arg)
{
    (void)arg;
    win(spn_future_complete_error(f, 5, "five"));
}

static void cancel(void *arg)
{
    (void)arg;
    win(spn_future_cancel(f, 1));
}

/* Looks at the outcome, whichever it is, and at what must come with it. */
static void check(int rc, void *value)
{
    spn_outcome outcome;

    switch (rc) {
    case SPN_OK:
        sim_assert(value == &f);
        sim_assert(spn__load(&payload, relaxed) == 7);
        break;
    case SPN_EFAILED:
        sim_assert(spn_future_result(f, &outcome) == SPN_EFAILED);
        sim_assert(outcome.code == 5 && outcome.message[3] == 'e');
        break;
    default:
        sim_assert(rc == SPN_ECANCELED);
        break;
    }
    sim_outcome(rc == SPN_OK ? 0 : rc == SPN_EFAILED ? 1 : 2);
}

static void get(void *arg)
{
    void *value = NULL;
    int rc;

    (void)arg;
    rc = spn_future_get(f, &value, SPN_FOREVER);
    if (rc != SPN_ENOMEM)
        check(rc, value);
}

/* A waiter that comes at any time is released, and sees what came before. */
SCENARIO(future__completed_while_waited_for__releases, "CF-2", "G-19", "G-20")
{
    if (!create())
        return;
    sim_thread(complete, &f);
    get(NULL);
    sim_join_all();
    spn_future_unref(f);
}
SCENARIO_OPTS(future__completed_while_waited_for__releases, .dfs = 3, .faults = true)

/* Two waiters, one completion: none is left behind. */
SCENARIO(future__two_waiters__both_released, "FUT-11", "G-20")
{
    if (!create())
        return;
    sim_thread(get, NULL);
    sim_thread(get, NULL);
    complete(&f);
    sim_join_all();
    spn_future_unref(f);
}
SCENARIO_OPTS(future__two_waiters__both_released, .dfs = 2, .dfs_models = SIM_SC)

/* Of three ways to end it one wins, and a waiter sees that one, whole. */
SCENARIO(future__three_ends_at_once__one_wins, "CF-44", "FUT-8")
{
    if (!create())
        return;
    sim_thread(complete, &f);
    sim_thread(complete_error, NULL);
    sim_thread(cancel, NULL);
    get(NULL);
    sim_join_all();
    sim_assert(wins() == 1);
    get(NULL);
    spn_future_unref(f);
}

/* Two polls in a row: once it was seen done, get has the outcome at once. */
SCENARIO(future__seen_done__get_never_times_out, "FUT-30")
{
    void *value = NULL;
    int rc;

    if (!create())
        return;
    sim_thread(complete_error, NULL);
    sim_thread(complete, &f);
    while (spn_future_get_state(f) == SPN_FUTURE_PENDING)
        spn__cpu_relax();
    rc = spn_future_get(f, &value, 0);
    sim_assert(rc != SPN_ETIMEDOUT);
    check(rc, value);
    sim_join_all();
    spn_future_unref(f);
}
SCENARIO_OPTS(future__seen_done__get_never_times_out, .dfs = 2, .dfs_models = SIM_SC)

/* Whoever sees it done sees what came before, without asking for the outcome. */
SCENARIO(future__seen_done__is_published, "G-19")
{
    if (!create())
        return;
    sim_thread(complete, &f);
    while (spn_future_get_state(f) == SPN_FUTURE_PENDING)
        spn__cpu_relax();
    sim_assert(spn__load(&payload, relaxed) == 7);
    sim_join_all();
    spn_future_unref(f);
}
SCENARIO_OPTS(future__seen_done__is_published, .dfs = 2)

/* A time-out that races the completion: the value or the time-out, never late. */
SCENARIO(future__timeout_races_completion__one_of_two, "FUT-27", "G-7")
{
    const int64_t start = sim_now();
    void *value = NULL;
    int rc;

    if (!create())
        return;
    sim_thread(complete, &f);
    rc = spn_future_get(f, &value, SPN_US(3));
    if (rc == SPN_ETIMEDOUT) {
        sim_assert(sim_now() - start >= SPN_US(3));
        sim_outcome(3);
    } else {
        check(rc, value);
    }
    sim_join_all();
    sim_assert(spn__waitq_empty(&f->waiters));
    spn_future_unref(f);
}
SCENARIO_OPTS(future__timeout_races_completion__one_of_two, .dfs = 2,
              .dfs_models = SIM_SC)

static spn_thread *victim;

static void interrupt(void *arg)
{
    (void)arg;
    sim_assert(spn_thread_interrupt(victim) == SPN_OK);
}

/* Completion, interrupt and time-out at once: the value with the flag set, or the
 * interrupt with the flag clear. */
SCENARIO(future__interrupt_races_completion__one_of_two, "CF-42", "G-12", "FUT-28")
{
    void *value = NULL;
    int rc, flag;

    if (!create())
        return;
    victim = spn_thread_current();
    if (victim == NULL) {
        spn_future_unref(f);
        return;
    }
    sim_thread(complete, &f);
    sim_thread(interrupt, NULL);
    rc = spn_future_get(f, &value, SPN_FOREVER);
    if (rc == SPN_OK)
        check(rc, value);
    sim_join_all();
    flag = spn_thread_interrupted();
    sim_assert(rc == SPN_OK || rc == SPN_EINTR);
    sim_assert(flag == (rc == SPN_OK));
    sim_outcome(rc == SPN_OK ? 0 : 4);
    sim_assert(spn__waitq_empty(&f->waiters));
    spn_future_unref(f);
}
SCENARIO_OPTS(future__interrupt_races_completion__one_of_two, .dfs = 2,
              .dfs_models = SIM_SC)

/* ---- lifetime ---------------------------------------------------------------- */

static void complete_and_drop(void *arg)
{
    complete(arg);
    spn_future_unref(f);
}

/* The getter's reference goes while the completer is still at it. */
SCENARIO(future__dropped_by_the_getter__completer_is_safe, "G-16")
{
    spn_future *mine;

    if (!create())
        return;
    mine = spn_future_ref(f);
    sim_thread(complete_and_drop, &f);
    get(NULL);
    spn_future_unref(mine);
    sim_join_all();
}
SCENARIO_OPTS(future__dropped_by_the_getter__completer_is_safe, .dfs = 2,
              .faults = true)

static SPN__ATOMIC(spn_future *) kept;

static void keep(spn_future *future, void *arg)
{
    (void)arg;
    spn__store(&kept, spn_future_ref(future), release);
}

static void drop_kept(void *arg)
{
    spn_future *mine;

    (void)arg;
    while ((mine = spn__load(&kept, acquire)) == NULL)
        spn__cpu_relax();
    sim_assert(spn_future_get_state(mine) == SPN_FUTURE_FAILED);
    spn_future_unref(mine);
}

/* The done hook of an abandoned future takes a reference: the future lives on, and
 * ends with that one. */
SCENARIO(future__abandoned_and_kept_by_its_hook__lives_on, "G-16", "CF-41")
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;

    opts.done = keep;
    spn__init(&kept, NULL);
    if (spn_future_create(&f, &opts) != SPN_OK)
        return;
    sim_thread(drop_kept, NULL);
    spn_future_unref(f);
    sim_join_all();
}
SCENARIO_OPTS(future__abandoned_and_kept_by_its_hook__lives_on, .dfs = 3)

static int dropped;

static void count_drop(void *value)
{
    sim_assert(value == &f);
    sim_assert(spn__load(&payload, relaxed) == 7);
    dropped++;
}

static void read_and_drop(void *arg)
{
    void *value = NULL;

    (void)arg;
    if (spn_future_get(f, &value, 0) == SPN_OK && value != NULL)
        win(10);
    spn_future_unref(f);
}

/* The value is read, or freed with the last reference, and never both. */
SCENARIO(future__last_references_race__value_freed_once_unless_read, "G-16")
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;

    spn__init(&payload, 0);
    spn__init(&wins_word, 0);
    dropped = 0;
    opts.drop_value = count_drop;
    if (spn_future_create(&f, &opts) != SPN_OK)
        return;
    (void)spn_future_ref(f);
    sim_thread(complete_and_drop, &f);
    sim_thread(read_and_drop, NULL);
    sim_join_all();
    sim_assert(wins() == (dropped != 0 ? 1 : 11));
    sim_assert(dropped <= 1);
    sim_outcome((unsigned)dropped);
}
SCENARIO_OPTS(future__last_references_race__value_freed_once_unless_read, .dfs = 2)

/* ---- the poll set -------------------------------------------------------------- */

static spn_poll_set *set;

static void drain(int *taken)
{
    spn_future *ready;
    void *tag, *value = NULL;
    int rc;

    while (spn_poll_set_next(set, &ready, &tag) == SPN_OK) {
        sim_assert(ready == f && tag == &payload);
        rc = spn_future_get(ready, &value, 0);
        check(rc, value);
        spn_future_unref(ready);
        (*taken)++;
    }
}

/* The descriptor is readable exactly while something is ready; what was put in comes
 * out once, and then the set can go though the completer is still at it. */
SCENARIO(poll_set__completed_while_added_and_taken__comes_out_once, "G-16", "G-17")
{
    spn_future *mine;
    int taken = 0;

    if (spn_poll_set_create(&set) != SPN_OK)
        return;
    if (!create()) {
        sim_assert(spn_poll_set_destroy(set) == SPN_OK);
        return;
    }
    mine = spn_future_ref(f);
    sim_thread(complete_and_drop, &f);
    if (spn_poll_set_add(set, f, &payload) == SPN_OK) {
        while (taken == 0) {
            if (sim_event_readable(spn_poll_set_fd(set)))
                drain(&taken);
            spn__cpu_relax();
        }
        sim_assert(taken == 1);
        sim_assert(!sim_event_readable(spn_poll_set_fd(set)));
    }
    sim_assert(spn_poll_set_destroy(set) == SPN_OK);
    spn_future_unref(mine);
    sim_join_all();
}
SCENARIO_OPTS(poll_set__completed_while_added_and_taken__comes_out_once, .dfs = 2,
              .dfs_models = SIM_SC, .faults = true)

/* ---- short histories ------------------------------------------------------------- */

/*
 * Two threads do three things each, of which the explorer chooses; what they saw must
 * be what some order of the six would give that agrees with who was through before
 * whom, on a future that knows only "the first one wins".
 */
enum { WHO = 2, EACH = 3, ALL = WHO * EACH };
enum what { COMPLETE, FAIL, CANCEL, GET, ASK, WHATS };

struct event {
    enum what what;
    int began, ended; /* on one clock for both */
    int rc;           /* what the call returned */
    intptr_t value;   /* and gave, a code for a failure */
};

static struct event history[ALL];
static SPN__ATOMIC(int) history_clock;
static bool is_task;

static int nothing(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 0;
}

static void act(struct event *e, int id)
{
    void *value = NULL;
    spn_outcome outcome;

    e->what = (enum what)sim_choose(WHATS);
    e->began = spn__fetch_add(&history_clock, 1, relaxed);
    switch (e->what) {
    case COMPLETE:
        e->rc = spn_future_complete(f, (void *)(intptr_t)(id + 1));
        break;
    case FAIL:
        e->rc = spn_future_complete_error(f, id + 1, NULL);
        break;
    case CANCEL:
        e->rc = spn_future_cancel(f, id % 2);
        break;
    case GET:
        e->rc = spn_future_get(f, &value, 0);
        if (e->rc == SPN_EFAILED)
            sim_assert(spn_future_result(f, &outcome) == SPN_EFAILED);
        e->value = e->rc == SPN_EFAILED ? outcome.code : (intptr_t)value;
        break;
    default:
        e->rc = spn_future_get_state(f) != SPN_FUTURE_PENDING;
        break;
    }
    e->ended = spn__fetch_add(&history_clock, 1, relaxed);
}

static void act_thrice(void *who)
{
    const int first = (int)(intptr_t)who * EACH;

    for (int i = first; i < first + EACH; i++)
        act(&history[i], i);
}

/* The model: what the outcome is, 0 while there is none. */
struct model {
    int status; /* 1: there is one */
    int rc;     /* what get returns */
    intptr_t value;
};

/* Whether the model may answer so, and what it is then. */
static bool agrees(struct model *m, const struct event *e, int id)
{
    const bool decides = m->status == 0;

    switch (e->what) {
    case COMPLETE:
    case FAIL:
        if (decides)
            *m = (struct model){ 1, e->what == FAIL ? SPN_EFAILED : SPN_OK, id + 1 };
        return e->rc == decides;
    case CANCEL:
        if (decides)
            *m = (struct model){ 1, SPN_ECANCELED, 0 };
        return e->rc == (decides || (!is_task && m->rc == SPN_ECANCELED));
    case GET:
        return m->status == 0 ? e->rc == SPN_ETIMEDOUT
                              : e->rc == m->rc && e->value == m->value;
    default:
        return e->rc == m->status;
    }
}

/* Whether the events not yet `used` have an order, after those that are. */
static bool has_order(struct model m, unsigned used)
{
    if (used == (1u << ALL) - 1)
        return true;
    for (int i = 0; i < ALL; i++) {
        struct model next = m;
        bool first = (used & 1u << i) == 0;

        for (int k = 0; first && k < ALL; k++)
            if ((used & 1u << k) == 0 && history[k].ended < history[i].began)
                first = false; /* that one was through before */
        if (first && agrees(&next, &history[i], i) && has_order(next, used | 1u << i))
            return true;
    }
    return false;
}

/* Every history has an order.  (C11 lets a thread read an old state of a future that
 * nothing has told it about; the other models have one time for all.) */
SCENARIO(future__short_histories__are_linearizable, "CF-44", "FUT-8", "CF-5", "FUT-18")
{
    const struct model empty = { 0, 0, 0 };

    spn__init(&history_clock, 0);
    is_task = sim_choose(2) == 1;
    if ((is_task ? spn_future_create_task(&f, nothing, NULL, NULL)
                 : spn_future_create(&f, NULL)) != SPN_OK)
        return;
    if (spn_thread_current() != NULL) {
        for (int i = 0; i < ALL; i++)
            history[i] = (struct event){ 0 };
        sim_thread(act_thrice, (void *)0);
        act_thrice((void *)1);
        sim_join_all();
        sim_assert(has_order(empty, 0));
    }
    spn_future_unref(f);
}
SCENARIO_OPTS(future__short_histories__are_linearizable,
              .models = SIM_SC | SIM_TSO | SIM_PSO)
