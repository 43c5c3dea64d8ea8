/* SPDX-License-Identifier: MIT */
/*
 * test_scheduled.c - every allocation and every thread creation of a script that uses
 * the scheduled executor and the serial timer fails, once and from then on.  Each call
 * gives SPN_OK or says so; what was accepted comes to an end, and no block is left.
 */
#include "faults.h"
#include "own_threads.h"
#include "pool_calls.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include <spindle.h>

/* ---- threads ------------------------------------------------------------------------- */

static atomic_int threads_tried, thread_fail_at, thread_fail_more;

static int refuse_some(const spn_thread_factory *factory, spn_thread **out,
                       spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    const int n = atomic_fetch_add(&threads_tried, 1) + 1;
    const int at = atomic_load(&thread_fail_at);

    (void)factory;
    if (at != 0 && (n == at || (n > at && atomic_load(&thread_fail_more) != 0))) {
        atomic_fetch_add(&refused, 1);
        return SPN_EAGAIN;
    }
    return spn_thread_create(out, opts, fn, arg);
}

static const spn_thread_factory factory = { sizeof factory, refuse_some };

/* ---- the script ---------------------------------------------------------------------- */

static atomic_int runs;

static int run(void *arg)
{
    (void)arg;
    atomic_fetch_add(&runs, 1);
    return 0;
}

static int call(void *arg, void **result)
{
    *result = arg;
    return run(arg);
}

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    return rc == SPN_OK;
}

static void use_scheduled(int32_t threads)
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(threads);
    spn_future *once = NULL, *again = NULL, *far = NULL, *now = NULL;
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    spn_scheduled *sched;
    spn_pool *pool;

    o.factory = &factory;
    if (!ok(spn_scheduled_create(&sched, &o)))
        return;
    pool = spn_scheduled_pool(sched);
    (void)ok(spn_scheduled_schedule(sched, call, NULL, SPN_US(100), &once));
    (void)ok(spn_scheduled_with_fixed_delay(sched, run, NULL, 0, SPN_US(50), &again));
    (void)ok(spn_scheduled_schedule(sched, call, NULL, SPN_SEC(3600), &far));
    (void)ok(spn_scheduled_call(sched, run, NULL, 0));
    (void)ok(spn_executor_submit(spn_scheduled_executor(sched), call, NULL, &now));
    if (far != NULL) /* dropped with SPN_EAGAIN if the only thread could not be made */
        CHECK(spn_future_cancel(far, 0) == 1 ||
              spn_future_get_state(far) != SPN_FUTURE_PENDING);
    if (once != NULL)
        (void)!spn_future_get(once, NULL, SPN_FOREVER);
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(pool_await(pool, SPN_FOREVER));
    CHECK_OK(spn_pool_stats_get(pool, &s));
    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.accepted, s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    CHECK(once == NULL || spn_future_get_state(once) != SPN_FUTURE_PENDING);
    CHECK(again == NULL || spn_future_get_state(again) != SPN_FUTURE_PENDING);
    CHECK(now == NULL || spn_future_get_state(now) != SPN_FUTURE_PENDING);
    spn_future_unref(once);
    spn_future_unref(again);
    spn_future_unref(far);
    spn_future_unref(now);
    CHECK_OK(spn_scheduled_destroy(sched));
}

/* Many that wait, on a clock that stands still: tables grow several times.  What was
 * accepted is due when the clock moves, and has run; the books say the same. */
static void use_many(void)
{
    enum { MANY = 300 };
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    static spn_future *f[MANY];
    int accepted = 0, poor = 0;
    spn_scheduled *sched;
    spn_clock *clock;

    if (!ok(spn_clock_create_manual(&clock, 0)))
        return;
    o.factory = &factory;
    o.clock = clock;
    if (!ok(spn_scheduled_create(&sched, &o))) {
        CHECK_OK(spn_clock_destroy(clock));
        return;
    }
    atomic_store(&runs, 0);
    for (int i = 0; i < MANY; i++) {
        /* Near, in a bucket, and far. */
        const int64_t delay = i % 3 == 0   ? i
                              : i % 3 == 1 ? SPN_MS(i)
                                           : SPN_SEC(60 * (int64_t)i);
        int rc;

        f[i] = NULL;
        rc = i % 2 == 0 ? spn_scheduled_call(sched, run, NULL, 1 + delay)
                        : spn_scheduled_schedule(sched, call, NULL, 1 + delay, &f[i]);
        CHECK((i % 2 == 1 && rc == SPN_OK) == (f[i] != NULL));
        accepted += ok(rc);
        poor += rc == SPN_ENOMEM;
    }
    CHECK_EQ(atomic_load(&runs), 0);
    CHECK_OK(spn_pool_stats_get(spn_scheduled_pool(sched), &s));
    CHECK_EQ(s.accepted, accepted);
    CHECK_EQ(s.rejected_no_memory, poor);
    CHECK_OK(spn_clock_advance(clock, SPN_SEC(3600) * 24));
    CHECK_OK(pool_shutdown(spn_scheduled_pool(sched)));
    CHECK_OK(pool_await(spn_scheduled_pool(sched), SPN_FOREVER));
    CHECK_OK(spn_pool_stats_get(spn_scheduled_pool(sched), &s));
    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.accepted, s.completed + s.cancelled + s.dropped);
    CHECK_EQ(s.completed, atomic_load(&runs));
    CHECK(s.dropped + s.cancelled == 0 || s.threads_failed > 0);
    for (int i = 0; i < MANY; i++) {
        CHECK(f[i] == NULL || spn_future_get_state(f[i]) != SPN_FUTURE_PENDING);
        spn_future_unref(f[i]);
    }
    CHECK_OK(spn_scheduled_destroy(sched));
    CHECK_OK(spn_clock_destroy(clock));
}

static void use_timer(void)
{
    spn_serial_timer_opts o = SPN_SERIAL_TIMER_OPTS_INIT;
    spn_serial_task *task = NULL;
    spn_serial_timer *timer;

    o.factory = &factory;
    if (!ok(spn_serial_timer_create(&timer, &o)))
        return;
    if (ok(spn_serial_task_create(&task, run, NULL))) {
        const int rc = spn_serial_timer_schedule(timer, task, 0, SPN_REPEAT_NONE, 0);

        if (!ok(rc)) /* it may be tried again */
            (void)ok(spn_serial_timer_schedule(timer, task, 0, SPN_REPEAT_NONE, 0));
    }
    CHECK_OK(spn_serial_timer_cancel(timer));
    CHECK_OK(spn_serial_timer_await(timer, SPN_FOREVER));
    spn_serial_task_unref(task);
    CHECK_OK(spn_serial_timer_destroy(timer));
}

static void script(void)
{
    use_scheduled(0);
    use_scheduled(1);
    use_scheduled(2);
    use_timer();
}

/* ---- each in turn ---------------------------------------------------------------------- */

/* Runs a script with the n-th refused until none is.  Returns how many that were. */
static int sweep(void (*play)(void), atomic_int *counter, atomic_int *at,
                 atomic_int *more)
{
    int points = 0;

    for (int from_then_on = 0; from_then_on < 2; from_then_on++)
        for (int n = 1;; n++) {
            atomic_store(counter, 0);
            atomic_store(&refused, 0);
            atomic_store(more, from_then_on);
            atomic_store(at, n);
            play();
            atomic_store(at, 0);
            if (atomic_load(&refused) == 0)
                break;
            points++;
            REQUIRE(n < 10000);
        }
    return points;
}

TEST(scheduled__each_allocation_refused__nothing_is_lost, "STPE-39")
{
    REQUIRE(spn_thread_current() != NULL); /* waits need our record */
    script();
    (void)sweep(script, &point, &fail_at, &fail_more);
}

TEST(scheduled__each_thread_refused__nothing_is_lost, "STPE-39", "STPE-30", "P2")
{
    (void)sweep(script, &threads_tried, &thread_fail_at, &thread_fail_more);
}

static long many_before; /* blocks */

static void script_many(void)
{
    use_many();
    await_threads_gone();
    CHECK_EQ(atomic_load(&live), many_before);
}

/* The same with hundreds that wait: whatever grows for them, and no block is left. */
TEST(scheduled__growth_of_a_long_queue_refused__nothing_is_lost, "STPE-39", "G-22")
{
    (void)spn_thread_current();
    count_own_threads();
    for (int i = 0; i < 3; i++) { /* records of threads are kept */
        use_many();
        await_threads_gone();
    }
    many_before = atomic_load(&live);
    CHECK(sweep(script_many, &point, &fail_at, &fail_more) > 300);
    CHECK(sweep(script_many, &threads_tried, &thread_fail_at, &thread_fail_more) >= 2);
}

enum { GIVEN = 500 };

/* Calls with the number of their turn. */
static int turns[GIVEN];
static int given_count;

static void given_add(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)ctx;
    CHECK(task == NULL && fn == run);
    if (given_count < GIVEN)
        CHECK(arg == &turns[given_count]);
    given_count++;
}

/* Without memory shutdown_now gives each call back as a function and its argument, once,
 * those that are due first before the others. */
TEST(scheduled__calls_at_shutdown_now_without_memory__each_given_back_once, "G-22",
     "STPE-31")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    spn_scheduled *sched;
    spn_clock *clock;
    int64_t count;

    REQUIRE(spn_thread_current() != NULL);
    given_count = 0;
    REQUIRE_OK(spn_clock_create_manual(&clock, 0));
    o.clock = clock;
    REQUIRE_OK(spn_scheduled_create(&sched, &o));
    for (int i = 0; i < GIVEN; i++) {
        const int turn = (i * 7) % GIVEN; /* each once, out of order */

        CHECK_OK(spn_scheduled_call(sched, run, &turns[turn],
                                    (turn < GIVEN / 2 ? SPN_MS(1) : SPN_SEC(1)) *
                                        (turn + 1)));
    }
    atomic_store(&point, 0);
    atomic_store(&refused, 0);
    atomic_store(&fail_more, 1);
    atomic_store(&fail_at, 1);
    CHECK_OK(pool_shutdown_now(spn_scheduled_pool(sched), given_add, NULL, &count));
    CHECK_EQ(atomic_load(&refused), 0);
    atomic_store(&fail_at, 0);
    CHECK_EQ(count, GIVEN);
    CHECK_EQ(given_count, GIVEN);
    CHECK_OK(pool_await(spn_scheduled_pool(sched), SPN_FOREVER));
    CHECK_OK(spn_pool_stats_get(spn_scheduled_pool(sched), &s));
    CHECK_EQ(s.returned, GIVEN);
    CHECK_EQ(s.accepted, GIVEN);
    CHECK_EQ(s.pending, 0);
    CHECK_OK(spn_scheduled_destroy(sched));
    CHECK_OK(spn_clock_destroy(clock));
}

/* After all that a clean run leaves as much as the one before. */
TEST(scheduled__repeated__leaves_nothing, "STPE-21")
{
    long before;

    for (int i = 0; i < 20; i++)
        script();
    before = atomic_load(&live);
    for (int i = 0; i < 20; i++)
        script();
    /* Records of threads and a few blocks in them are kept. */
    CHECK(atomic_load(&live) <= before + 64);
}
