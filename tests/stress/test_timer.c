/* SPDX-License-Identifier: MIT */
/*
 * test_timer.c - timers under load on the real clock.  Every scheduling is counted:
 * it ends in exactly one run, one cancel that says so, or one return by stop; and what
 * was cancelled is freed at once, so that a late touch is seen by AddressSanitizer.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <spindle.h>

#include "wheel/timer.h"

static spn_timer *timer;
static atomic_long armed, fired, removed, early;

struct request {
    spn_timeout timeout;
    int64_t due_ns;
    atomic_int ended; /* runs and removals since it was scheduled */
};

static int on_timeout(spn_timeout *t)
{
    struct request *r = (struct request *)(void *)t;

    if (spn_now() < r->due_ns)
        atomic_fetch_add(&early, 1);
    CHECK_EQ(atomic_fetch_add(&r->ended, 1), 0);
    atomic_fetch_add(&fired, 1);
    return 0;
}

static void schedule(struct request *r, int64_t delay_ns)
{
    atomic_store(&r->ended, 0);
    r->due_ns = spn_now() + delay_ns;
    CHECK_OK(spn_timer_schedule(timer, &r->timeout, on_timeout, delay_ns));
    atomic_fetch_add(&armed, 1);
}

/* Schedules short timeouts and cancels most; frees each right after. */
static void come_and_go(int index, void *arg)
{
    uint64_t seed = *(const uint64_t *)arg + (uint64_t)index;
    struct request *open_[64] = { NULL };
    const int rounds = t_rounds(200000);

    for (int i = 0; i < rounds; i++) {
        struct request **slot = &open_[t_random(&seed) % 64];

        if (*slot != NULL) {
            struct request *r = *slot;
            int rc = spn_timer_cancel_sync(timer, &r->timeout, SPN_FOREVER);

            if (rc == SPN_TIMEOUT_REMOVED) {
                CHECK_EQ(atomic_fetch_add(&r->ended, 1), 0);
                atomic_fetch_add(&removed, 1);
            }
            CHECK(rc >= 0);
            CHECK_EQ(atomic_load(&r->ended), 1);
            if (t_random(&seed) % 2 == 0) { /* used again, or freed */
                schedule(r, (int64_t)(t_random(&seed) % 3000000));
                continue;
            }
            free(r);
            *slot = NULL;
            continue;
        }
        *slot = calloc(1, sizeof **slot);
        REQUIRE(*slot != NULL);
        schedule(*slot, (int64_t)(t_random(&seed) % 3000000));
    }
    for (int i = 0; i < 64; i++)
        if (open_[i] != NULL) {
            if (spn_timer_cancel_sync(timer, &open_[i]->timeout, SPN_FOREVER) ==
                SPN_TIMEOUT_REMOVED)
                atomic_fetch_add(&removed, 1);
            free(open_[i]);
        }
}

static void expect_even(void)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;

    CHECK_OK(spn__timer_check(timer));
    CHECK_OK(spn_timer_get_stats(timer, &s));
    CHECK_EQ(s.armed, atomic_load(&armed));
    CHECK_EQ(s.fired, atomic_load(&fired));
    CHECK_EQ(s.cancelled, atomic_load(&removed));
    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.armed, s.fired + s.cancelled + s.returned + s.replaced);
    CHECK_EQ(atomic_load(&early), 0);
}

static uint32_t fast_clock;

static void open_timer(spn_executor *executor, int64_t tick_ns)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.fast_clock = fast_clock;

    atomic_store(&armed, 0);
    atomic_store(&fired, 0);
    atomic_store(&removed, 0);
    atomic_store(&early, 0);
    opts.tick_ns = tick_ns;
    opts.executor = executor;
    opts.shards = 2; /* so that four threads meet */
    REQUIRE_OK(spn_timer_create(&timer, &opts));
}

static void shut(void)
{
    spn_timeout *left;

    REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
    CHECK(left == NULL);
    expect_even();
    CHECK_OK(spn_timer_destroy(timer));
}

/* Four threads, and callbacks on the timer's own. */
TEST(timer__churn__each_ends_once, "HWT-17", "HWT-26", "HWT-30", "HWT-34", "HWT-37",
     "P19", "P28")
{
    uint64_t seed = t_seed();

    open_timer(NULL, SPN_US(100));
    t_parallel(T_THREADS, come_and_go, &seed);
    shut();
}

/* The same with times reckoned by a CPU counter: none is early, against the clock. */
TEST(timer__churn_by_reckoning__each_ends_once_none_early, "HWT-17", "HWT-26", "P22")
{
    uint64_t seed = t_seed();

    fast_clock = 1;
    open_timer(NULL, SPN_US(1)); /* the finest tick hides nothing */
    fast_clock = 0;
    t_parallel(T_THREADS, come_and_go, &seed);
    shut();
}

/* ---- the same with an executor ------------------------------------------------------- */

static spn_manual_executor *manual;
static atomic_int working;

static int work(void *arg)
{
    (void)arg;
    while (atomic_load(&working) != 0)
        if (spn_manual_executor_run(manual, 1) == 0)
            t_pause();
    return 0;
}

TEST(timer__churn_with_an_executor__each_ends_once, "HWT-26", "HWT-28", "HWT-30",
     "HWT-34")
{
    uint64_t seed = t_seed();
    spn_thread *workers[2];

    REQUIRE_OK(spn_manual_executor_create(&manual));
    atomic_store(&working, 1);
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(spn_thread_create(&workers[i], NULL, work, NULL));
    open_timer(spn_manual_executor_executor(manual), SPN_US(100));
    t_parallel(2, come_and_go, &seed);
    {
        spn_timeout *left;

        REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
        CHECK(left == NULL);
        expect_even();
    }
    atomic_store(&working, 0);
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(spn_thread_join(workers[i], SPN_FOREVER, NULL));
        spn_thread_unref(workers[i]);
    }
    CHECK(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    CHECK_OK(spn_timer_destroy(timer));
    CHECK_OK(spn_manual_executor_destroy(manual));
}

/* ---- stop in the middle ------------------------------------------------------------------ */

enum { BATCH = 200 };
struct adder {
    struct request requests[BATCH];
    int taken;
};
static struct adder adders[T_THREADS];
static atomic_int go;

static void add_until_stopped(int index, void *arg)
{
    struct adder *a = &adders[index];

    (void)arg;
    if (index == 0) { /* the one who stops */
        spn_timeout *left;

        T_AWAIT(atomic_load(&go) >= BATCH);
        REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
        for (spn_timeout *t; (t = spn_timeout_pop(&left)) != NULL;) {
            struct request *r = (struct request *)(void *)t;

            CHECK_EQ(atomic_fetch_add(&r->ended, 1), 0);
            atomic_fetch_add(&removed, 1);
        }
        return;
    }
    for (int i = 0; i < BATCH; i++) {
        struct request *r = &a->requests[i];
        int rc = spn_timer_schedule(timer, &r->timeout, on_timeout, i * SPN_US(10));

        atomic_fetch_add(&go, 1);
        CHECK(rc == SPN_OK || rc == SPN_ESTATE);
        if (rc != SPN_OK)
            break;
        a->taken++;
    }
}

/* stop while three threads add: what was taken ran or is returned, once. */
TEST(timer__stop_while_adding__run_or_returned, "HWT-10", "HWT-15", "HWT-42")
{
    for (int round = 0; round < t_rounds(300); round++) {
        long taken = 0;

        memset(adders, 0, sizeof adders);
        atomic_store(&go, 0);
        open_timer(NULL, SPN_US(50));
        t_parallel(T_THREADS, add_until_stopped, NULL);
        for (int i = 0; i < T_THREADS; i++) {
            taken += adders[i].taken;
            for (int k = 0; k < BATCH; k++)
                CHECK_EQ(atomic_load(&adders[i].requests[k].ended),
                         k < adders[i].taken);
        }
        CHECK_EQ(taken, atomic_load(&fired) + atomic_load(&removed));
        CHECK_EQ(spn_timer_pending(timer), 0);
        CHECK_OK(spn__timer_check(timer));
        CHECK_OK(spn_timer_destroy(timer));
    }
}

/* ---- earlier deadlines ------------------------------------------------------------------- */

static atomic_int hits;

static int hit(spn_timeout *t)
{
    (void)t;
    atomic_fetch_add(&hits, 1);
    return 0;
}

/* Each is earlier than all before it, while the timer falls asleep and wakes up: none is
 * forgotten until the far one. */
TEST(timer__ever_earlier__none_overslept, "HWT-18", "P4")
{
    spn_timeout far = SPN_TIMEOUT_INIT;
    uint64_t seed = t_seed();

    open_timer(NULL, SPN_US(10));
    CHECK_OK(spn_timer_schedule(timer, &far, hit, SPN_SEC(3600)));
    for (int round = 0; round < t_rounds(2000); round++) {
        spn_timeout t = SPN_TIMEOUT_INIT;
        const int before = atomic_load(&hits);

        CHECK_OK(
            spn_timer_schedule(timer, &t, hit, (int64_t)(t_random(&seed) % 50000)));
        T_AWAIT(atomic_load(&hits) == before + 1);
        CHECK(spn_timer_cancel_sync(timer, &t, SPN_FOREVER) >= 0); /* its frame ends */
    }
    CHECK_EQ(spn_timer_cancel(timer, &far), SPN_TIMEOUT_REMOVED);
    REQUIRE_OK(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}
