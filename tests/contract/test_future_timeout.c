/* SPDX-License-Identifier: MIT */
/*
 * test_future_timeout.c - futures that time out: the contract's CF-33 to CF-37 and CF-50.
 * On a manual clock and a timer driven by hand, but for the last ones, where
 * threads complete what times out.
 */
#include "cause.h"
#include "counting.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

#include <spindle.h>

#include "wheel/timer.h"

#define TICK SPN_MS(10)
#define DAY  SPN_SEC(86400)

static spn_clock *clock_;
static spn_timer *timer;
static long live;

static void open_with(int64_t max_pending)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    (void)spn_thread_current(); /* its record stays */
    live = atomic_load(&counting_live);
    REQUIRE_OK(spn_clock_create_manual(&clock_, SPN_SEC(1)));
    opts.tick_ns = TICK;
    opts.slots = 8;
    opts.drive = SPN_TIMER_DRIVEN;
    opts.clock = clock_;
    opts.max_pending = max_pending;
    REQUIRE_OK(spn_timer_create(&timer, &opts));
}

static void open_timer(void)
{
    open_with(0);
}

/* Nothing may be left, of the timer or of futures. */
static void shut(void)
{
    spn_timeout *left;

    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_OK(spn__timer_check(timer));
    REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
    CHECK(left == NULL);
    CHECK_OK(spn_timer_destroy(timer));
    CHECK_OK(spn_clock_destroy(clock_));
    CHECK_EQ(atomic_load(&counting_live), live);
}

static int step(int64_t by_ns)
{
    CHECK_OK(spn_clock_advance(clock_, by_ns));
    return spn_timer_run(timer);
}

static spn_future *promise(void)
{
    spn_future *f;

    REQUIRE_OK(spn_future_create(&f, NULL));
    return f;
}

static void expect_cause(spn_future *f, int code)
{
    char message[SPN_FUTURE_MESSAGE_MAX];
    int found = 0;

    CHECK_OK(t_cause(f, &found, message, sizeof message));
    CHECK_STATUS(found, code);
    CHECK(message[0] != '\0');
}

static int values[8];

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* ---- timeouts ------------------------------------------------------------------------- */

/* Incomplete when the time has come: it fails with SPN_ETIMEDOUT as its own cause, and
 * not a tick before. */
TEST(future_timeout__or_timeout_incomplete__fails_at_the_time, "CF-33")
{
    spn_outcome outcome;
    spn_future *f;

    open_timer();
    f = promise();
    CHECK_OK(spn_future_or_timeout(f, timer, 3 * TICK, NULL));
    CHECK_EQ(spn_timer_pending(timer), 1);
    CHECK_EQ(step(3 * TICK - 1), 0);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_EQ(step(1), 1);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_FAILED);
    (void)spn_future_result(f, &outcome);
    CHECK_EQ(outcome.derived, 0); /* the direct cause */
    expect_cause(f, SPN_ETIMEDOUT);
    CHECK_EQ(spn_future_complete(f, NULL), 0);
    spn_future_unref(f);
    shut();
}

/* The three ways to be done first: none is affected, and the timer has nothing left at
 * once. */
TEST(future_timeout__done_before_the_time__unaffected_and_out_of_the_timer, "CF-33",
     "CF-34", "CF-35")
{
    void *value = NULL;

    for (int way = 0; way < 3; way++)
        for (int with_value = 0; with_value < 2; with_value++) {
            spn_future *f;

            open_timer();
            f = promise();
            CHECK_OK(with_value
                         ? spn_future_complete_on_timeout(f, timer, &values[1],
                                                          SPN_SEC(12 * 3600))
                         : spn_future_or_timeout(f, timer, SPN_SEC(12 * 3600), NULL));
            CHECK_EQ(spn_timer_pending(timer), 1);
            if (way == 0)
                CHECK_EQ(spn_future_complete(f, &values[0]), 1);
            else if (way == 1)
                CHECK_EQ(spn_future_complete_error(f, -77, "own"), 1);
            else
                CHECK_EQ(spn_future_cancel(f, 0), 1);
            CHECK_EQ(spn_timer_pending(timer), 0);
            CHECK_EQ(step(DAY), 0);
            CHECK_EQ(spn_future_get(f, &value, 0), way == 0   ? SPN_OK
                                                   : way == 1 ? SPN_EFAILED
                                                              : SPN_ECANCELED);
            if (way == 0)
                CHECK(value == &values[0]);
            else if (way == 1)
                expect_cause(f, -77);
            spn_future_unref(f);
            shut();
        }
}

/* The value at the time, NULL too; a later complete is refused. */
TEST(future_timeout__complete_on_timeout__gives_the_value, "CF-34")
{
    for (int i = 0; i < 2; i++) {
        void *given = i == 0 ? &values[3] : NULL, *value = &values[0];
        spn_future *f;

        open_timer();
        f = promise();
        CHECK_OK(spn_future_complete_on_timeout(f, timer, given, 2 * TICK));
        CHECK_EQ(step(2 * TICK - 1), 0);
        CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
        CHECK_EQ(step(1), 1);
        CHECK_OK(spn_future_get(f, &value, 0));
        CHECK(value == given);
        CHECK_EQ(spn_future_complete(f, &values[5]), 0);
        CHECK_OK(spn_future_get(f, &value, 0));
        CHECK(value == given);
        spn_future_unref(f);
        shut();
    }
}

/* Done already: nothing is armed. */
TEST(future_timeout__done_already__nothing_armed, "CF-33", "CF-34")
{
    spn_future *f;
    void *value = NULL;

    open_timer();
    REQUIRE_OK(spn_future_create_completed(&f, &values[0]));
    CHECK_OK(spn_future_or_timeout(f, timer, TICK, NULL));
    CHECK_OK(spn_future_complete_on_timeout(f, timer, &values[1], TICK));
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(step(DAY), 0);
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK(value == &values[0]);
    spn_future_unref(f);
    shut();
}

/* Zero and negative act at once; for ever never comes, and takes no place. */
TEST(future_timeout__no_time_and_all_time__at_once_and_never, "CF-37")
{
    static const int64_t times[] = { 0, -1, INT64_MIN };
    spn_future *f;
    void *value;

    open_timer();
    for (size_t i = 0; i < 3; i++) {
        f = promise();
        CHECK_OK(spn_future_or_timeout(f, timer, times[i], NULL));
        expect_cause(f, SPN_ETIMEDOUT);
        spn_future_unref(f);
        f = promise();
        CHECK_OK(spn_future_complete_on_timeout(f, timer, &values[1], times[i]));
        CHECK_OK(spn_future_get(f, &value, 0));
        CHECK(value == &values[1]);
        spn_future_unref(f);
    }
    f = promise();
    CHECK_OK(spn_future_or_timeout(f, timer, SPN_FOREVER, NULL));
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(step(SPN_SEC(INT64_C(3000000000))), 0); /* most of a century */
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    spn_future_unref(f);
    shut();
}

static atomic_int dropped;

static void drop_value(void *value)
{
    CHECK(value == &values[1]);
    atomic_fetch_add(&dropped, 1);
}

/* A value that does not become the outcome is freed, once; one that nobody reads, too; one
 * that was read is the reader's. */
TEST(future_timeout__value_with_a_destructor__freed_once, "CF-34")
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *f;
    void *value;

    opts.drop_value = drop_value;
    atomic_store(&dropped, 0);
    open_timer();
    for (int way = 0; way < 4; way++) {
        REQUIRE_OK(spn_future_create(&f, &opts));
        CHECK_OK(spn_future_complete_on_timeout(f, timer, &values[1],
                                                way == 3 ? SPN_FOREVER : TICK));
        if (way == 0)
            CHECK_EQ(step(TICK), 1); /* unread */
        if (way == 1) {
            CHECK_EQ(step(TICK), 1);
            CHECK_OK(spn_future_get(f, &value, 0));
        }
        if (way >= 2)
            CHECK_EQ(spn_future_cancel(f, 0), 1);
        spn_future_unref(f);
        CHECK_EQ(atomic_load(&dropped), way == 0 || way == 1 ? 1 : way);
    }
    REQUIRE_OK(spn_future_create(&f, &opts));
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    CHECK_OK(spn_future_complete_on_timeout(f, timer, &values[1], TICK));
    CHECK_EQ(atomic_load(&dropped), 4);
    spn_future_unref(f);
    shut();
}

static int take_value(void *arg, void *value, void **result)
{
    *(void **)arg = value;
    *result = value;
    return 0;
}

/* The timer keeps the future that everybody else has dropped: its stages run in time. */
TEST(future_timeout__dropped_by_all_others__still_comes, "CF-34")
{
    void *seen = NULL;
    spn_future *f, *then;

    open_timer();
    f = promise();
    CHECK_OK(spn_future_complete_on_timeout(f, timer, &values[4], TICK));
    REQUIRE_OK(spn_future_then(f, NULL, take_value, &seen, &then));
    spn_future_unref(f);
    CHECK_EQ(spn_future_get_state(then), SPN_FUTURE_PENDING);
    CHECK_EQ(step(TICK), 1);
    CHECK(seen == &values[4]);
    CHECK_EQ(spn_future_get_state(then), SPN_FUTURE_SUCCEEDED);
    spn_future_unref(then);
    shut();
}

/* Several on one future: the first that comes decides, the others go. */
TEST(future_timeout__several_timeouts__the_first_decides, "CF-33", "CF-34", "CF-35")
{
    spn_future *f;
    void *value;

    open_timer();
    f = promise();
    CHECK_OK(spn_future_or_timeout(f, timer, 3 * TICK, NULL));
    CHECK_OK(spn_future_complete_on_timeout(f, timer, &values[2], 2 * TICK));
    CHECK_OK(spn_future_or_timeout(f, timer, DAY, NULL));
    CHECK_EQ(spn_timer_pending(timer), 3);
    CHECK_EQ(step(2 * TICK), 1);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK(value == &values[2]);
    spn_future_unref(f);
    shut();
}

/* A stage, and a task that runs, time out like any future. */
TEST(future_timeout__stage_and_task__time_out, "CF-33")
{
    spn_manual_executor *manual;
    spn_future *f, *stage, *task;

    open_timer();
    f = promise();
    REQUIRE_OK(spn_manual_executor_create(&manual));
    REQUIRE_OK(spn_future_any_of(&f, 1, &stage));
    REQUIRE_OK(spn_executor_submit_run(spn_manual_executor_executor(manual), do_nothing,
                                       NULL, NULL, &task));
    CHECK_OK(spn_future_or_timeout(stage, timer, TICK, NULL));
    CHECK_OK(spn_future_or_timeout(task, timer, TICK, NULL));
    CHECK_EQ(step(TICK), 2);
    expect_cause(stage, SPN_ETIMEDOUT);
    expect_cause(task, SPN_ETIMEDOUT);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_dependents(f), 0);
    CHECK(spn_manual_executor_run(manual, INT64_MAX) >= 0); /* finds it done */
    spn_future_unref(stage);
    spn_future_unref(task);
    spn_future_unref(f);
    CHECK_OK(spn_manual_executor_destroy(manual));
    shut();
}

/* Its time comes while it runs. */
static int overrun(void *arg, void **result)
{
    *(int *)arg = step(TICK) == 1 && spn_thread_interrupted() == 1;
    *result = arg;
    return 0;
}

/* The thread that runs a function whose time is up is interrupted if that was asked for. */
TEST(future_timeout__function_still_runs__interrupted_if_asked, "CF-50", "CF-33")
{
    spn_or_timeout_opts opts = SPN_OR_TIMEOUT_OPTS_INIT;

    open_timer();
    for (int asked = 0; asked < 2; asked++)
        for (int waits = 0; waits < 2; waits++) {
            spn_future *f;
            int interrupted = -1;

            opts.interrupt = (uint32_t)asked;
            REQUIRE_OK(spn_future_create_task(&f, overrun, &interrupted, NULL));
            CHECK_OK(spn_future_or_timeout(f, timer, TICK, &opts));
            if (waits != 0)
                CHECK_EQ(step(TICK), 1); /* before it runs: nobody to interrupt */
            CHECK_EQ(spn_future_run(f), waits == 0);
            CHECK_EQ(interrupted, waits != 0 ? -1 : asked);
            CHECK_EQ(spn_thread_interrupted(), 0);
            expect_cause(f, SPN_ETIMEDOUT);
            spn_future_unref(f);
        }
    shut();
}

/* Two million futures with a timeout of twelve hours, each done at once: none is left in
 * the timer, and memory does not grow. */
TEST(future_timeout__many_completed_before__nothing_accumulates, "CF-35", "P17")
{
    const int many = t_rounds(2000000);
    long highest = 0;

    open_timer();
    for (int i = 0; i < many; i++) {
        spn_future *f = promise();

        CHECK_OK(spn_future_or_timeout(f, timer, SPN_SEC(12 * 3600), NULL));
        if (i % 3 == 0)
            CHECK_EQ(spn_future_complete(f, NULL), 1);
        else if (i % 3 == 1)
            CHECK_EQ(spn_future_complete_error(f, -1, NULL), 1);
        else
            CHECK_EQ(spn_future_cancel(f, 0), 1);
        CHECK_EQ(spn_timer_pending(timer), 0);
        spn_future_unref(f);
        if (atomic_load(&counting_live) > highest && i > 0)
            highest = atomic_load(&counting_live);
    }
    CHECK(highest - live < 32);
    shut();
}

/* What cannot be armed changes nothing. */
TEST(future_timeout__refused__future_unchanged, "CF-33", "CF-34", "P30")
{
    spn_future *f, *other;
    long before;

    open_with(1);
    f = promise();
    other = promise();
    CHECK_OK(spn_future_or_timeout(other, timer, TICK, NULL));
    before = atomic_load(&counting_live);
    CHECK_STATUS(spn_future_or_timeout(f, timer, TICK, NULL), SPN_EREJECTED);
    CHECK_STATUS(spn_future_complete_on_timeout(f, timer, &values[0], TICK),
                 SPN_EREJECTED);
    atomic_store(&counting_refuse, 1);
    CHECK_STATUS(spn_future_or_timeout(f, timer, TICK, NULL), SPN_ENOMEM);
    atomic_store(&counting_refuse, 0);
    CHECK_EQ(atomic_load(&counting_live), before);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_dependents(f), 0);
    CHECK_EQ(spn_future_cancel(other, 0), 1); /* its place is free again */
    CHECK_OK(spn_future_or_timeout(f, timer, TICK, NULL));
    CHECK_EQ(step(TICK), 1);
    expect_cause(f, SPN_ETIMEDOUT);
    spn_future_unref(f);
    spn_future_unref(other);
    shut();
}

/* A timer that stops lets nobody wait for what cannot come. */
TEST(future_timeout__timer_stopped__future_fails_and_says_why, "CF-33", "CF-34")
{
    spn_future *f[2];

    open_timer();
    f[0] = promise();
    f[1] = promise();
    CHECK_OK(spn_future_or_timeout(f[0], timer, SPN_SEC(1), NULL));
    CHECK_OK(spn_future_complete_on_timeout(f[1], timer, &values[0], SPN_SEC(1)));
    REQUIRE_OK(spn_timer_stop(timer, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        expect_cause(f[i], SPN_ESHUTDOWN);
        spn_future_unref(f[i]);
    }
    f[0] = promise();
    CHECK_STATUS(spn_future_or_timeout(f[0], timer, TICK, NULL), SPN_ESTATE);
    CHECK_EQ(spn_future_get_state(f[0]), SPN_FUTURE_PENDING);
    spn_future_unref(f[0]);
    shut();
}

/* ---- with threads -------------------------------------------------------------------------- */

static atomic_int outcomes[2];

static void note_outcome(spn_future *f, void *arg)
{
    (void)arg;
    atomic_fetch_add(&outcomes[spn_future_get_state(f) == SPN_FUTURE_SUCCEEDED], 1);
}

/* On the real clock, futures are completed about when they time out: each has one outcome,
 * and the timer is empty when all are done. */
TEST(future_timeout__completed_about_the_time__one_outcome_each, "CF-33", "CF-35")
{
    const int many = t_rounds(20000);
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_future_opts future_opts = SPN_FUTURE_OPTS_INIT;
    uint64_t seed = t_seed();
    spn_timer *real;

    opts.tick_ns = SPN_US(10);
    REQUIRE_OK(spn_timer_create(&real, &opts));
    future_opts.done = note_outcome;
    atomic_store(&outcomes[0], 0);
    atomic_store(&outcomes[1], 0);
    for (int i = 0; i < many; i++) {
        spn_future *f;

        REQUIRE_OK(spn_future_create(&f, &future_opts));
        CHECK_OK(spn_future_or_timeout(f, real, SPN_US(1 + (int)(t_random(&seed) % 40)),
                                       NULL));
        for (uint64_t spin = t_random(&seed) % 4000; spin > 0; spin--)
            atomic_signal_fence(memory_order_seq_cst);
        (void)spn_future_complete(f, NULL);
        CHECK(spn_future_get_state(f) != SPN_FUTURE_PENDING);
        spn_future_unref(f);
    }
    T_AWAIT(atomic_load(&outcomes[0]) + atomic_load(&outcomes[1]) == many);
    T_AWAIT(spn_timer_pending(real) == 0);
    REQUIRE_OK(spn_timer_stop(real, NULL, NULL));
    CHECK_OK(spn_timer_destroy(real));
}
