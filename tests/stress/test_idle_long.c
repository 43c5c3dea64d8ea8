/* SPDX-License-Identifier: MIT */
/*
 * test_idle_long.c - P16: who has nothing to do uses no CPU.  Seconds of idleness, which a
 * tick, however slow, or a spin now and then would show in.  Run by `make test-long`.
 */
#include "pool_calls.h"
#include "test.h"

#include <stdatomic.h>

#include <spindle.h>

static atomic_int runs;

static int count(void *arg)
{
    (void)arg;
    atomic_fetch_add(&runs, 1);
    return 0;
}

static int count_timeout(spn_timeout *t)
{
    (void)t;
    atomic_fetch_add(&runs, 1);
    return 0;
}

/* The CPU that all other threads use in five seconds. */
static int64_t used_in_five_seconds(void)
{
    const int64_t before_ns = t_cpu_of_others_ns();

    CHECK_OK(spn_clock_sleep_until(spn_clock_monotonic(), spn_now() + SPN_SEC(5)));
    return t_cpu_of_others_ns() - before_ns;
}

/* A thousandth of one CPU would be 5 ms.  A busy machine may put off what there was to do
 * before, and a neighbour of a virtual one may take time that is then counted as ours: one of
 * three looks must find all quiet. */
static void expect_idle(void)
{
    int64_t used_ns = SPN_FOREVER;

    for (int looks = 0; looks < 3 && used_ns >= t_scaled(SPN_MS(5)); looks++)
        used_ns = used_in_five_seconds();
    CHECK(used_ns < t_scaled(SPN_MS(5)));
}

static void use_pool(uint32_t kind, int32_t capacity)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_pool *pool;

    opts.core_threads = opts.max_threads = 4;
    opts.queue_kind = kind;
    opts.queue_capacity = capacity;
    atomic_store(&runs, 0);
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    CHECK_EQ(spn_pool_prestart(pool, SPN_DEFAULT), 4);
    for (int i = 0; i < 100; i++)
        REQUIRE_OK(spn_executor_call(spn_pool_executor(pool), count, NULL));
    T_AWAIT(atomic_load(&runs) == 100 && pool_stats(pool).active == 0);
    expect_idle();
    CHECK_EQ(pool_stats(pool).threads, 4);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

/* A pool that has had something to do, and has nothing now. */
TEST(idle__pool__uses_no_cpu, "P16")
{
    use_pool(SPN_POOL_FIFO, SPN_UNBOUNDED);
    use_pool(SPN_POOL_LANES, SPN_DEFAULT);
}

/* A scheduled executor with a task that is far away, its only one or with threads that
 * have none at all. */
TEST(idle__scheduled_with_a_far_task__uses_no_cpu, "P16", "STPE-37")
{
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        const spn_scheduled_opts opts = spn_scheduled_opts_pool(threads);
        spn_scheduled *sched;

        atomic_store(&runs, 0);
        REQUIRE_OK(spn_scheduled_create(&sched, &opts));
        (void)spn_pool_prestart(spn_scheduled_pool(sched), SPN_DEFAULT);
        REQUIRE_OK(spn_scheduled_call(sched, count, NULL, SPN_SEC(3600)));
        REQUIRE_OK(spn_scheduled_call(sched, count, NULL, 0));
        T_AWAIT(atomic_load(&runs) == 1);
        expect_idle();
        CHECK_EQ(atomic_load(&runs), 1);
        CHECK_EQ(pool_stats(spn_scheduled_pool(sched)).queued, 1);
        CHECK_OK(pool_shutdown_now(spn_scheduled_pool(sched), NULL, NULL, NULL));
        CHECK_OK(pool_await(spn_scheduled_pool(sched), SPN_FOREVER));
        CHECK_OK(spn_scheduled_destroy(sched));
    }
}

/* A timer with its own thread and a timeout that is far away. */
TEST(idle__timer_with_a_far_timeout__uses_no_cpu, "P16")
{
    spn_timeout near = SPN_TIMEOUT_INIT, far = SPN_TIMEOUT_INIT;
    spn_timer *timer;

    atomic_store(&runs, 0);
    REQUIRE_OK(spn_timer_create(&timer, NULL));
    REQUIRE_OK(spn_timer_schedule(timer, &far, count_timeout, SPN_SEC(3600)));
    REQUIRE_OK(spn_timer_schedule(timer, &near, count_timeout, 0));
    T_AWAIT(atomic_load(&runs) == 1);
    expect_idle();
    CHECK_EQ(atomic_load(&runs), 1);
    CHECK_EQ(spn_timer_pending(timer), 1);
    CHECK_EQ(spn_timer_cancel(timer, &far), SPN_TIMEOUT_REMOVED);
    CHECK_OK(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}
