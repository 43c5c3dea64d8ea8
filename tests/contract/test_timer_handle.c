/* SPDX-License-Identifier: MIT */
/*
 * test_timer_handle.c - timeouts that the library owns, on a manual clock: what is called
 * for each, when and how often, and who has which reference.
 */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <limits.h>

#include <spindle.h>

#include "wheel/timer.h"

#define TICK SPN_MS(10)

static spn_clock *clock_;
static spn_timer *timer;

/* What a handle's functions have been told; the argument of both. */
struct told {
    atomic_int runs, gones, reason;
    int again; /* how often fn schedules the handle once more */
    int64_t delay_ns;
    spn_timeout_handle *handle;
};

static void on_time(spn_timeout_handle *handle, void *arg)
{
    struct told *t = arg;

    CHECK(t->handle == NULL || t->handle == handle);
    CHECK(spn_timeout_handle_arg(handle) == arg);
    CHECK_EQ(spn_timeout_handle_state(handle), SPN_TIMEOUT_EXPIRED);
    CHECK(spn_timeout_handle_state(handle) != SPN_TIMEOUT_CANCELLED);
    CHECK_EQ(spn_timeout_handle_cancel(handle), SPN_TIMEOUT_GONE);
    atomic_fetch_add(&t->runs, 1);
    if (t->again > 0) {
        t->again--;
        CHECK_OK(spn_timeout_handle_again(handle, t->delay_ns));
    }
}

static void on_gone(void *arg, int reason)
{
    struct told *t = arg;

    if (t->handle != NULL) {
        CHECK(spn_timeout_handle_state(t->handle) != SPN_TIMEOUT_EXPIRED);
        CHECK_EQ(spn_timeout_handle_state(t->handle), SPN_TIMEOUT_CANCELLED);
        CHECK(spn_timeout_handle_again(t->handle, 0) ==
              (spn_timer_start(timer) == SPN_ESTATE ? SPN_ESHUTDOWN : SPN_ECANCELED));
    }
    atomic_store(&t->reason, reason);
    atomic_fetch_add(&t->gones, 1);
}

static void never(spn_timeout_handle *handle, void *arg)
{
    (void)handle;
    (void)arg;
    CHECK(false); /* its time has not come */
}

static void expect_told(const struct told *t, int runs, int gones)
{
    CHECK_EQ(atomic_load(&t->runs), runs);
    CHECK_EQ(atomic_load(&t->gones), gones);
}

static spn_timer_opts defaults(void)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = TICK;
    opts.slots = 8;
    opts.drive = SPN_TIMER_DRIVEN;
    return opts;
}

static void open_with(spn_timer_opts opts)
{
    REQUIRE_OK(spn_clock_create_manual(&clock_, SPN_SEC(1)));
    opts.clock = clock_;
    REQUIRE_OK(spn_timer_create(&timer, &opts));
}

static void open_driven(void)
{
    open_with(defaults());
}

static spn_timer_stats stats_now(void)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;

    CHECK_OK(spn_timer_get_stats(timer, &s));
    return s;
}

static void expect_even(void)
{
    const spn_timer_stats s = stats_now();

    CHECK_EQ(s.armed, s.fired + s.cancelled + s.replaced + s.returned + s.pending);
    CHECK_EQ(s.pending, spn_timer_pending(timer));
    CHECK_OK(spn__timer_check(timer));
}

static void destroy(void)
{
    CHECK_EQ(spn_timer_pending(timer), 0);
    expect_even();
    CHECK_OK(spn_timer_destroy(timer));
    CHECK_OK(spn_clock_destroy(clock_));
}

static void shut(void)
{
    spn_timeout *left;

    REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
    CHECK(left == NULL); /* handles are not in it */
    destroy();
}

static int step(int64_t by_ns)
{
    CHECK_OK(spn_clock_advance(clock_, by_ns));
    return spn_timer_run(timer);
}

static void make(struct told *t, spn_timeout_handle_fn fn, spn_timeout_gone_fn gone,
                 int64_t delay_ns)
{
    REQUIRE_OK(spn_timer_new_timeout(timer, fn, gone, t, delay_ns, &t->handle));
}

/* ---- time and cancel ------------------------------------------------------------- */

/* Each handle has one call: fn at its time, gone after a cancel, by the timer, or gone by
 * a stop without a list.  It can be asked after all that, and after the timer is gone. */
TEST(timer_handle__time_cancel_or_stop__one_call_each, "HWT-30", "HWT-31", "HWT-33",
     "HWT-35", "HWT-36", "HWT-37")
{
    enum { EXPIRES, CANCELLED, LEFT, UNSEEN, COUNT };
    struct told told[COUNT] = { { .again = 0 } };
    long live;

    open_driven();
    live = atomic_load(&counting_live);
    make(&told[EXPIRES], on_time, on_gone, TICK);
    make(&told[CANCELLED], never, on_gone, 2 * TICK);
    make(&told[LEFT], never, on_gone, 3 * TICK);
    REQUIRE_OK(
        spn_timer_new_timeout(timer, on_time, on_gone, &told[UNSEEN], TICK, NULL));
    CHECK_EQ(spn_timer_pending(timer), 4);
    CHECK(spn_timeout_handle_timer(told[EXPIRES].handle) == timer);
    CHECK_EQ(step(TICK), 2);
    expect_told(&told[EXPIRES], 1, 0);
    expect_told(&told[UNSEEN], 1, 0);
    CHECK_EQ(spn_timeout_handle_cancel(told[EXPIRES].handle), SPN_TIMEOUT_GONE);
    CHECK_EQ(spn_timeout_handle_cancel(told[CANCELLED].handle), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timeout_handle_cancel(told[CANCELLED].handle), SPN_TIMEOUT_GONE);
    expect_told(&told[CANCELLED], 0, 0); /* not here */
    CHECK_EQ(spn_timer_pending(timer), 2);
    CHECK_EQ(spn_timer_run(timer), 1); /* but where callbacks run */
    expect_told(&told[CANCELLED], 0, 1);
    CHECK_STATUS(atomic_load(&told[CANCELLED].reason), SPN_ECANCELED);
    CHECK_EQ(spn_timer_pending(timer), 1);
    shut();
    expect_told(&told[LEFT], 0, 1);
    CHECK_STATUS(atomic_load(&told[LEFT].reason), SPN_ESHUTDOWN);
    for (int i = 0; i < UNSEEN; i++) {
        expect_told(&told[i], i == EXPIRES, i != EXPIRES);
        CHECK_EQ((spn_timeout_handle_state(told[i].handle) == SPN_TIMEOUT_EXPIRED),
                 i == EXPIRES);
        CHECK_EQ((spn_timeout_handle_state(told[i].handle) == SPN_TIMEOUT_CANCELLED),
                 i != EXPIRES);
        CHECK_EQ(spn_timeout_handle_cancel(told[i].handle), SPN_TIMEOUT_GONE);
        spn_timeout_handle_unref(spn_timeout_handle_ref(told[i].handle));
        spn_timeout_handle_unref(told[i].handle);
    }
    CHECK(atomic_load(&counting_live) < live); /* the timer is gone, too */
}

/* Without a gone, cancel takes the handle out at once, and its place is free; fn does not
 * run, also where its time has come meanwhile. */
TEST(timer_handle__cancelled_without_gone__out_at_once, "HWT-30", "HWT-34", "HWT-38",
     "HWT-39")
{
    spn_timer_opts opts = defaults();
    struct told told[2] = { { .again = 0 } };

    opts.max_pending = 1;
    open_with(opts);
    make(&told[0], never, NULL, TICK);
    CHECK_STATUS(spn_timer_new_timeout(timer, never, NULL, &told[1], TICK,
                                       &told[1].handle),
                 SPN_EREJECTED);
    CHECK(told[1].handle == NULL);
    CHECK_OK(spn_clock_advance(clock_, TICK)); /* due, but not run */
    CHECK_EQ(spn_timeout_handle_cancel(told[0].handle), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(stats_now().cancelled, 1);
    make(&told[1], on_time, NULL, TICK);
    CHECK_EQ(spn_timer_run(timer), 0);
    CHECK_EQ(step(TICK), 1);
    expect_told(&told[1], 1, 0);
    shut();
    spn_timeout_handle_unref(told[0].handle);
    spn_timeout_handle_unref(told[1].handle);
}

/* One that is cancelled keeps its place until its gone was called, by the timer. */
TEST(timer_handle__cancelled_with_gone__keeps_its_place_until_told, "HWT-33", "HWT-39")
{
    spn_timer_opts opts = defaults();
    struct told told = { .again = 0 };
    spn_timeout_handle *other;

    opts.max_pending = 1;
    open_with(opts);
    make(&told, never, on_gone, TICK);
    CHECK_EQ(spn_timeout_handle_cancel(told.handle), SPN_TIMEOUT_REMOVED);
    CHECK_STATUS(spn_timer_new_timeout(timer, never, NULL, NULL, TICK, &other),
                 SPN_EREJECTED);
    CHECK_EQ(spn_timer_run(timer), 1);
    expect_told(&told, 0, 1);
    REQUIRE_OK(spn_timer_new_timeout(timer, never, NULL, NULL, TICK, &other));
    CHECK_EQ(spn_timeout_handle_cancel(other), SPN_TIMEOUT_REMOVED);
    shut();
    spn_timeout_handle_unref(told.handle);
    spn_timeout_handle_unref(other);
}

/* An executor runs gone, as it runs fn. */
TEST(timer_handle__cancelled__gone_runs_where_callbacks_run, "HWT-28", "HWT-33")
{
    spn_timer_opts opts = defaults();
    struct told told = { .again = 0 };
    spn_manual_executor *manual;

    REQUIRE_OK(spn_manual_executor_create(&manual));
    opts.executor = spn_manual_executor_executor(manual);
    open_with(opts);
    make(&told, never, on_gone, SPN_SEC(9));
    CHECK_EQ(spn_timeout_handle_cancel(told.handle), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_run(timer), 1);
    expect_told(&told, 0, 0);
    CHECK(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    expect_told(&told, 0, 1);
    shut();
    spn_timeout_handle_unref(told.handle);
    CHECK_OK(spn_manual_executor_destroy(manual));
}

static int never_embedded(spn_timeout *timeout)
{
    (void)timeout;
    CHECK(false); /* its time has not come */
    return 0;
}

/* ---- stop ------------------------------------------------------------------------ */

/* Stop gives back the callers' timeouts and the handles, each in its list and each once;
 * for neither is anything called, and the reference from the list is the taker's. */
TEST(timer_handle__stop_with_a_list__gives_handles_back, "HWT-10", "HWT-11", "HWT-12",
     "HWT-33", "HWT-36")
{
    enum { COUNT = 200 }; /* more than a block */
    static struct told told[COUNT];
    const long before = atomic_load(&counting_live);
    spn_timeout embedded = SPN_TIMEOUT_INIT, *left;
    spn_timeout_handle_list handles;
    spn_timeout_handle *h;
    int taken = 0;

    open_driven();
    memset(told, 0, sizeof told);
    for (int i = 0; i < COUNT; i++)
        make(&told[i], i % 4 == 0 ? on_time : never, on_gone,
             i % 4 == 0 ? TICK : SPN_SEC(9));
    REQUIRE_OK(spn_timer_schedule(timer, &embedded, never_embedded, SPN_SEC(9)));
    CHECK_EQ(step(TICK), COUNT / 4);
    for (int i = 1; i < COUNT; i += 4)
        CHECK_EQ(spn_timeout_handle_cancel(told[i].handle), SPN_TIMEOUT_REMOVED);
    for (int i = 2; i < COUNT; i += 4)
        spn_timeout_handle_unref(told[i].handle); /* the timer has the only one */
    REQUIRE_OK(spn_timer_stop(timer, &left, &handles));
    CHECK(spn_timeout_pop(&left) == &embedded);
    CHECK(spn_timeout_pop(&left) == NULL);
    for (int i = 0; i < COUNT; i++) /* those that were cancelled before were told */
        expect_told(&told[i], i % 4 == 0, i % 4 == 1);
    destroy();
    while ((h = spn_timeout_handle_take(&handles)) != NULL) {
        struct told *t = spn_timeout_handle_arg(h);

        CHECK(t->handle == h && (t - told) % 4 >= 2);
        CHECK_EQ(spn_timeout_handle_state(h), SPN_TIMEOUT_CANCELLED);
        CHECK_EQ(spn_timeout_handle_cancel(h), SPN_TIMEOUT_GONE);
        CHECK_STATUS(spn_timeout_handle_again(h, 0), SPN_ESHUTDOWN);
        CHECK_EQ(atomic_fetch_add(&t->reason, 1), 0); /* once */
        spn_timeout_handle_unref(h);
        taken++;
    }
    CHECK_EQ(taken, COUNT / 2);
    CHECK(spn_timeout_handle_take(&handles) == NULL);
    for (int i = 0; i < COUNT; i++) {
        expect_told(&told[i], i % 4 == 0, i % 4 == 1);
        if (i % 4 != 2)
            spn_timeout_handle_unref(told[i].handle);
    }
    CHECK_EQ(atomic_load(&counting_live), before);
}

/* Without a list stop tells each, with a reason of its own, and drops the reference. */
TEST(timer_handle__stop_without_a_list__gone_is_told, "HWT-10", "HWT-33")
{
    struct told told[3] = { { .again = 0 } };
    spn_timeout_handle_list handles;

    open_driven();
    make(&told[0], never, on_gone, TICK);
    make(&told[1], never, NULL, TICK);
    make(&told[2], never, on_gone, TICK);
    CHECK_EQ(spn_timeout_handle_cancel(told[2].handle), SPN_TIMEOUT_REMOVED);
    REQUIRE_OK(spn_timer_stop(timer, NULL, NULL));
    expect_told(&told[0], 0, 1);
    CHECK_STATUS(atomic_load(&told[0].reason), SPN_ESHUTDOWN);
    CHECK_EQ(spn_timeout_handle_state(told[1].handle), SPN_TIMEOUT_CANCELLED);
    expect_told(&told[2], 0, 1);
    CHECK_STATUS(atomic_load(&told[2].reason), SPN_ECANCELED);
    REQUIRE_OK(spn_timer_stop(timer, NULL, &handles)); /* nothing is left for it */
    CHECK(spn_timeout_handle_take(&handles) == NULL);
    shut();
    for (int i = 0; i < 3; i++)
        spn_timeout_handle_unref(told[i].handle);
}

static spn_timeout_handle_list refused;

static void stop_inside(spn_timeout_handle *handle, void *arg)
{
    struct told *t = arg;

    refused.first = handle;
    CHECK_STATUS(spn_timer_stop(timer, NULL, &refused), SPN_ESTATE);
    CHECK(spn_timeout_handle_take(&refused) == NULL);
    atomic_fetch_add(&t->runs, 1);
}

/* A stop that is refused gives an empty list. */
TEST(timer_handle__stop_refused__empty_list, "HWT-9")
{
    struct told told = { .again = 0 };

    open_driven();
    make(&told, stop_inside, NULL, 0);
    CHECK_EQ(spn_timer_run(timer), 1);
    expect_told(&told, 1, 0);
    shut();
    spn_timeout_handle_unref(told.handle);
}

/* ---- again ----------------------------------------------------------------------- */

/* The same handle in its own function and after it: the interval counts from the call, and
 * nothing is allocated. */
TEST(timer_handle__again__runs_again_without_memory, "HWT-22", "HWT-26", "HWT-48")
{
    struct told told = { .again = 3, .delay_ns = 2 * TICK };
    long allocs;

    open_driven();
    make(&told, on_time, on_gone, TICK);
    allocs = atomic_load(&counting_allocs);
    CHECK_EQ(step(TICK), 1);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(spn_timer_pending(timer), 1);
        CHECK(spn_timeout_handle_state(told.handle) != SPN_TIMEOUT_EXPIRED);
        CHECK_EQ(step(TICK), 0);
        CHECK_EQ(step(TICK), 1);
        expect_told(&told, 1 + i, 0);
    }
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(spn_timeout_handle_state(told.handle), SPN_TIMEOUT_EXPIRED);
    CHECK_OK(spn_timeout_handle_again(told.handle, TICK));
    CHECK_EQ(step(TICK), 1);
    CHECK_OK(spn_timeout_handle_again(told.handle, 0)); /* at once, or overdue */
    CHECK_EQ(spn_timer_run(timer), 1);
    CHECK_OK(spn_timeout_handle_again(told.handle, INT64_MIN));
    CHECK_EQ(spn_timer_run(timer), 1);
    expect_told(&told, 7, 0);
    CHECK_OK(spn_timeout_handle_again(told.handle, SPN_FOREVER));
    CHECK_EQ(step(SPN_SEC(1000000)), 0);
    CHECK_EQ(atomic_load(&counting_allocs), allocs);
    CHECK_EQ(stats_now().armed, 8);
    CHECK_EQ(spn_timeout_handle_cancel(told.handle), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_run(timer), 1);
    expect_told(&told, 7, 1); /* gone once, whatever there was before */
    shut();
    expect_told(&told, 7, 1);
    spn_timeout_handle_unref(told.handle);
}

/* Refused, and nothing is changed: while pending, after cancel for good, where there is no
 * place, after stop, and when the timer is gone. */
TEST(timer_handle__again_in_the_wrong_state__says_which, "HWT-38", "HWT-42", "HWT-48")
{
    spn_timer_opts opts = defaults();
    struct told told[4] = { { .again = 0 } };
    spn_timeout_handle_list handles;
    spn_timeout_handle *given;

    opts.max_pending = 2;
    open_with(opts);
    make(&told[0], on_time, on_gone, TICK);
    CHECK_STATUS(spn_timeout_handle_again(told[0].handle, 0), SPN_EBUSY);
    CHECK_EQ(step(0), 0); /* it was not moved */
    make(&told[1], never, on_gone, TICK);
    CHECK_EQ(spn_timeout_handle_cancel(told[1].handle), SPN_TIMEOUT_REMOVED);
    CHECK_STATUS(spn_timeout_handle_again(told[1].handle, 0), SPN_ECANCELED);
    CHECK_EQ(spn_timer_run(timer), 1);
    CHECK_STATUS(spn_timeout_handle_again(told[1].handle, 0), SPN_ECANCELED);
    CHECK_EQ(step(TICK), 1);
    make(&told[2], never, on_gone, SPN_SEC(9));
    make(&told[3], never, NULL, SPN_SEC(9));
    CHECK_STATUS(spn_timeout_handle_again(told[0].handle, 0), SPN_EREJECTED);
    CHECK_EQ(spn_timeout_handle_state(told[0].handle), SPN_TIMEOUT_EXPIRED);
    CHECK_EQ(spn_timer_pending(timer), 2);
    CHECK_EQ(stats_now().rejected, 1);
    CHECK_EQ(spn_timeout_handle_cancel(told[3].handle), SPN_TIMEOUT_REMOVED);
    CHECK_OK(spn_timeout_handle_again(told[0].handle, 0)); /* there is a place */
    CHECK_EQ(spn_timer_run(timer), 1);
    expect_told(&told[0], 2, 0);
    REQUIRE_OK(spn_timer_stop(timer, NULL, &handles));
    given = spn_timeout_handle_take(&handles);
    CHECK(given == told[2].handle);
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(spn_timeout_handle_again(told[i].handle, 0), SPN_ESHUTDOWN);
    destroy();
    for (int i = 0; i < 4; i++) {
        CHECK_STATUS(spn_timeout_handle_again(told[i].handle, 0), SPN_ESHUTDOWN);
        spn_timeout_handle_unref(told[i].handle);
    }
    spn_timeout_handle_unref(given);
    expect_told(&told[0], 2, 0);
    expect_told(&told[1], 0, 1);
    expect_told(&told[2], 0, 0);
}

static void again_and_cancel(spn_timeout_handle *handle, void *arg)
{
    struct told *t = arg;

    atomic_fetch_add(&t->runs, 1);
    CHECK_OK(spn_timeout_handle_again(handle, 0));
    CHECK_STATUS(spn_timeout_handle_again(handle, 0), SPN_EBUSY);
    CHECK_EQ(spn_timeout_handle_cancel(handle), SPN_TIMEOUT_REMOVED);
    CHECK_STATUS(spn_timeout_handle_again(handle, 0), SPN_ECANCELED);
    CHECK_EQ(spn_timeout_handle_state(handle), SPN_TIMEOUT_CANCELLED);
}

/* A handle that only its function sees: it may be scheduled again there, and cancelled,
 * and nothing of it stays. */
TEST(timer_handle__again_and_cancel_in_fn__gone_follows, "HWT-22", "HWT-33", "HWT-48")
{
    const long before = atomic_load(&counting_live);
    struct told told[2] = { { .again = 0 } };

    open_driven();
    REQUIRE_OK(
        spn_timer_new_timeout(timer, again_and_cancel, on_gone, &told[0], 0, NULL));
    REQUIRE_OK(spn_timer_new_timeout(timer, again_and_cancel, NULL, &told[1], 0, NULL));
    CHECK_EQ(spn_timer_run(timer), 2);
    expect_told(&told[0], 1, 0);
    CHECK_EQ(spn_timer_pending(timer), 1);
    CHECK_EQ(spn_timer_run(timer), 1);
    CHECK_EQ(spn_timer_run(timer), 0);
    shut();
    expect_told(&told[0], 1, 1);
    expect_told(&told[1], 1, 0);
    CHECK_EQ(atomic_load(&counting_live), before);
}

/* Stop may come between the run and again. */
static void on_beat(spn_timeout_handle *handle, void *arg)
{
    struct told *t = arg;
    const int rc = spn_timeout_handle_again(handle, t->delay_ns);

    CHECK(rc == SPN_OK || rc == SPN_ESHUTDOWN);
    atomic_fetch_add(&t->runs, 1);
}

/* A heart-beat on the timer's own thread, stopped while it beats. */
TEST(timer_handle__again_on_the_timers_thread__beats_until_stop, "HWT-22", "HWT-48")
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    struct told told = { .again = INT_MAX, .delay_ns = SPN_US(100) };
    spn_timeout_handle_list handles;
    spn_timeout_handle *given;
    int runs;

    opts.tick_ns = SPN_US(100);
    REQUIRE_OK(spn_timer_create(&timer, &opts));
    make(&told, on_beat, on_gone, 0);
    T_AWAIT(atomic_load(&told.runs) >= 10);
    REQUIRE_OK(spn_timer_stop(timer, NULL, &handles));
    runs = atomic_load(&told.runs);
    given = spn_timeout_handle_take(&handles);
    CHECK(given == told.handle ||
          spn_timeout_handle_state(told.handle) == SPN_TIMEOUT_EXPIRED);
    CHECK_EQ(atomic_load(&told.runs), runs);
    CHECK_EQ(atomic_load(&told.gones), 0);
    expect_even();
    CHECK_OK(spn_timer_destroy(timer));
    spn_timeout_handle_unref(given);
    spn_timeout_handle_unref(told.handle);
}

/* ---- memory ---------------------------------------------------------------------- */

/* Many handles, dropped in any order, the last of them when the timer is gone: each keeps
 * its own argument, few allocations serve them all, and nothing stays. */
TEST(timer__many_handles_dropped_in_any_order__few_blocks, "HWT-33", "HWT-35")
{
    enum { MANY = 1000 };
    static spn_timeout_handle *handles[MANY];
    static struct told told[MANY];
    const long before = atomic_load(&counting_live);
    uint64_t seed = t_seed();
    spn_timer *name;
    long live;

    open_driven();
    name = timer;
    live = atomic_load(&counting_live);
    memset(told, 0, sizeof told);
    for (int i = 0; i < MANY; i++)
        REQUIRE_OK(spn_timer_new_timeout(timer, on_time, on_gone, &told[i],
                                         i % 2 == 0 ? TICK : SPN_SEC(3600),
                                         &handles[i]));
    CHECK(atomic_load(&counting_live) - live <= MANY / 100);
    for (int i = MANY - 1; i > 0; i--) { /* shuffled */
        const int j = (int)(t_random(&seed) % (uint64_t)(i + 1));
        spn_timeout_handle *h = handles[i];

        handles[i] = handles[j];
        handles[j] = h;
    }
    for (int i = 0; i < MANY / 4; i++) {
        (void)spn_timeout_handle_cancel(handles[i]);
        spn_timeout_handle_unref(handles[i]);
    }
    (void)step(TICK);
    for (int i = MANY / 4; i < MANY / 2; i++)
        spn_timeout_handle_unref(handles[i]);
    CHECK_OK(spn__timer_check(timer));
    shut();
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(atomic_load(&told[i].runs) + atomic_load(&told[i].gones), 1);
    for (int i = MANY / 2; i < MANY; i++) {
        struct told *t = spn_timeout_handle_arg(handles[i]);

        CHECK(spn_timeout_handle_timer(handles[i]) == name);
        CHECK_EQ((spn_timeout_handle_state(handles[i]) == SPN_TIMEOUT_EXPIRED),
                 atomic_load(&t->runs));
        CHECK_EQ((spn_timeout_handle_state(handles[i]) == SPN_TIMEOUT_CANCELLED),
                 atomic_load(&t->gones));
        spn_timeout_handle_unref(handles[i]);
    }
    CHECK_EQ(atomic_load(&counting_live), before);
}

/* One handle after the other: the memory of the first serves for all. */
TEST(timer__handles_one_after_the_other__no_allocation_each, "HWT-34", "P17")
{
    struct told told = { .again = 0 };
    spn_timeout_handle *handle;
    long allocs = 0;

    open_driven();
    for (int i = 0; i < 1000; i++) {
        REQUIRE_OK(spn_timer_new_timeout(timer, never, on_gone, &told, TICK, &handle));
        CHECK_EQ(spn_timeout_handle_cancel(handle), SPN_TIMEOUT_REMOVED);
        spn_timeout_handle_unref(handle);
        CHECK_EQ(spn_timer_run(timer), 1);
        REQUIRE_OK(spn_timer_new_timeout(timer, never, NULL, &told, TICK, &handle));
        CHECK_EQ(spn_timeout_handle_cancel(handle), SPN_TIMEOUT_REMOVED);
        spn_timeout_handle_unref(handle);
        if (i == 0)
            allocs = atomic_load(&counting_allocs);
    }
    CHECK_EQ(spn_timer_run(timer), 0);
    expect_told(&told, 0, 1000);
    CHECK_EQ(atomic_load(&counting_allocs), allocs);
    shut();
}
