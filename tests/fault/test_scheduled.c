/* SPDX-License-Identifier: MIT */
/*
 * test_scheduled.c - every allocation and every thread creation of a script that uses
 * the scheduled executor and the serial timer fails, once and from then on.  Each call
 * gives SPN_OK or says so; what was accepted comes to an end, and no block is left.
 */
#include "faults.h"
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
        CHECK(spn_future_cancel(far, 0) == 1 || spn_future_is_done(far) == 1);
    if (once != NULL)
        (void)!spn_future_join(once, NULL);
    CHECK_OK(spn_pool_shutdown(pool));
    CHECK_OK(spn_pool_await(pool, SPN_FOREVER));
    CHECK_OK(spn_pool_stats_get(pool, &s));
    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.accepted, s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    CHECK(once == NULL || spn_future_is_done(once) == 1);
    CHECK(again == NULL || spn_future_is_done(again) == 1);
    CHECK(now == NULL || spn_future_is_done(now) == 1);
    spn_future_unref(once);
    spn_future_unref(again);
    spn_future_unref(far);
    spn_future_unref(now);
    CHECK_OK(spn_scheduled_destroy(sched));
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
        const int rc = spn_serial_timer_schedule(timer, task, 0);

        if (!ok(rc)) /* it may be tried again */
            (void)ok(spn_serial_timer_schedule(timer, task, 0));
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

/* Runs it with the n-th refused until none is; blocks come back to where they were. */
static void sweep(atomic_int *counter, atomic_int *at, atomic_int *more)
{
    for (int from_then_on = 0; from_then_on < 2; from_then_on++)
        for (int n = 1;; n++) {
            atomic_store(counter, 0);
            atomic_store(&refused, 0);
            atomic_store(more, from_then_on);
            atomic_store(at, n);
            script();
            atomic_store(at, 0);
            if (atomic_load(&refused) == 0)
                break;
            REQUIRE(n < 10000);
        }
}

TEST(scheduled__each_allocation_refused__nothing_is_lost, "STPE-39")
{
    REQUIRE(spn_thread_current() != NULL); /* waits need our record */
    script();
    sweep(&point, &fail_at, &fail_more);
}

TEST(scheduled__each_thread_refused__nothing_is_lost, "STPE-39", "STPE-30", "P2")
{
    sweep(&threads_tried, &thread_fail_at, &thread_fail_more);
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
