/* SPDX-License-Identifier: MIT */
/*
 * test_scheduled.c - the scheduled executor under load on the real clock.  Every task
 * is counted: it ends in exactly one run or one cancel that says so; periodic ones are
 * cancelled at any moment; and the books of the executor agree.
 */
#include "pool_calls.h"
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <spindle.h>

static spn_scheduled *sched;
static atomic_long accepted, ran, cancelled, early, periodic_runs;

struct request {
    int64_t due_ns;
    atomic_int runs;
    atomic_int ended;    /* runs and cancels: both may win, if it runs meanwhile */
    atomic_int released; /* its argument came back: nobody uses it any more */
    atomic_int inside;
    spn_future *future;
};

static int run(void *arg, void **result)
{
    struct request *r = arg;

    (void)result;
    if (spn_now() < r->due_ns)
        atomic_fetch_add(&early, 1);
    CHECK_EQ(atomic_fetch_add(&r->runs, 1), 0);
    atomic_fetch_add(&r->ended, 1);
    atomic_fetch_add(&ran, 1);
    return 0;
}

static int run_again(void *arg)
{
    struct request *r = arg;

    CHECK_EQ(atomic_fetch_add(&r->inside, 1), 0); /* never twice at once */
    CHECK_EQ(atomic_load(&r->released), 0);
    atomic_fetch_add(&periodic_runs, 1);
    atomic_fetch_sub(&r->inside, 1);
    return 0;
}

static void release(void *arg)
{
    CHECK_EQ(atomic_fetch_add(&((struct request *)arg)->released, 1), 0);
}

static struct request *begin(int64_t delay_ns, bool again)
{
    struct request *r = calloc(1, sizeof *r);
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_schedule what = SPN_SCHEDULE_INIT;

    REQUIRE(r != NULL);
    opts.release_arg = release;
    what.future = &opts;
    what.arg = r;
    what.delay_ns = delay_ns;
    r->due_ns = spn_now() + delay_ns;
    if (again) {
        what.run = run_again;
        what.repeat = delay_ns % 2 == 0 ? SPN_REPEAT_RATE : SPN_REPEAT_DELAY;
        what.period_ns = 1 + delay_ns % 50000;
        what.skip_missed = what.repeat == SPN_REPEAT_RATE;
    } else {
        what.call = run;
    }
    REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &r->future));
    if (!again)
        atomic_fetch_add(&accepted, 1);
    return r;
}

/* Cancels, and waits until nobody uses it. */
static void end(struct request *r, bool again, int interrupt)
{
    if (spn_future_cancel(r->future, interrupt) == 1 && !again &&
        atomic_fetch_add(&r->ended, 1) == 0)
        atomic_fetch_add(&cancelled, 1);
    T_AWAIT(atomic_load(&r->released) == 1);
    CHECK(again || atomic_load(&r->ended) >= 1);
    spn_future_unref(r->future);
    free(r);
}

static void come_and_go(int index, void *arg)
{
    uint64_t seed = *(const uint64_t *)arg + (uint64_t)index;
    struct {
        struct request *r;
        bool again;
    } open_[32] = { { NULL, false } };
    const int rounds = t_rounds(40000);

    for (int i = 0; i < rounds; i++) {
        const size_t at = (size_t)(t_random(&seed) % 32);

        if (open_[at].r != NULL) {
            /* An interrupt may come into whatever runs; nothing here waits. */
            end(open_[at].r, open_[at].again, (int)(t_random(&seed) % 2));
            open_[at].r = NULL;
        } else {
            open_[at].again = t_random(&seed) % 8 == 0;
            open_[at].r = begin((int64_t)(t_random(&seed) % 300000), open_[at].again);
        }
    }
    for (size_t i = 0; i < 32; i++)
        if (open_[i].r != NULL)
            end(open_[i].r, open_[i].again, 0);
}

static void open_sched(int32_t threads)
{
    const spn_scheduled_opts opts = spn_scheduled_opts_pool(threads);

    atomic_store(&accepted, 0);
    atomic_store(&ran, 0);
    atomic_store(&cancelled, 0);
    atomic_store(&early, 0);
    atomic_store(&periodic_runs, 0);
    REQUIRE_OK(spn_scheduled_create(&sched, &opts));
}

static void close_sched(void)
{
    spn_pool *pool = spn_scheduled_pool(sched);
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_stats_get(pool, &s));
    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.queued, 0);
    CHECK_EQ(s.accepted, s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    CHECK_OK(spn_scheduled_destroy(sched));
}

/* Busy threads may have cancelled all periodic ones before a worker had a CPU: one more,
 * which has the time, runs again and again. */
static void run_on_after_all(void)
{
    struct request *r = begin(1000, true);
    const long before = atomic_load(&periodic_runs);

    T_AWAIT(atomic_load(&periodic_runs) > before + 2);
    end(r, true, 0);
}

/* Four threads schedule and cancel, two run: nothing is lost, early or run twice. */
TEST(scheduled__come_and_go__each_ends_once, "STPE-17", "STPE-7", "STPE-2", "STPE-39")
{
    uint64_t seed = t_seed();

    for (int32_t threads = 0; threads < 3; threads++) {
        open_sched(threads);
        t_parallel(T_THREADS, come_and_go, &seed);
        /* A cancel that comes while it runs wins, and so does the run. */
        CHECK(atomic_load(&ran) + atomic_load(&cancelled) >= atomic_load(&accepted));
        CHECK_EQ(atomic_load(&early), 0);
        run_on_after_all();
        close_sched();
    }
}

struct storm {
    uint64_t seed;
    atomic_long scheduled, refused, counted;
};

static int count(void *arg)
{
    atomic_fetch_add((atomic_long *)arg, 1);
    return 0;
}

static void schedule_until_shut(int index, void *arg)
{
    struct storm *storm = arg;
    uint64_t seed = storm->seed + (uint64_t)index;
    const int rounds = t_rounds(20000);

    for (int i = 0; i < rounds; i++) {
        const int rc = spn_scheduled_call(sched, count, &storm->counted,
                                          (int64_t)(t_random(&seed) % 2000000));

        if (index == 0 && i == rounds / 2)
            CHECK_OK(pool_shutdown(spn_scheduled_pool(sched)));
        if (rc == SPN_OK)
            atomic_fetch_add(&storm->scheduled, 1);
        else {
            CHECK_STATUS(rc, SPN_EREJECTED);
            atomic_fetch_add(&storm->refused, 1);
        }
    }
}

/* A shutdown in the middle: what was accepted runs, what was not is refused. */
TEST(scheduled__shutdown_in_a_storm__accepted_run, "STPE-39", "STPE-33", "P3")
{
    for (int32_t threads = 0; threads < 3; threads++) {
        struct storm storm = { .seed = t_seed() };

        open_sched(threads);
        t_parallel(T_THREADS, schedule_until_shut, &storm);
        close_sched();
        CHECK_EQ(atomic_load(&storm.counted), atomic_load(&storm.scheduled));
        CHECK(atomic_load(&storm.refused) > 0);
    }
}

/* Executors come to their end while others cancel what they have. */
struct ending {
    spn_future *futures[16];
    atomic_int begun;
};

static void cancel_all(int index, void *arg)
{
    struct ending *e = arg;

    if (index == 0) {
        T_AWAIT(atomic_load(&e->begun) == 1);
        CHECK_OK(pool_shutdown_now(spn_scheduled_pool(sched), NULL, NULL, NULL));
        CHECK_OK(pool_await(spn_scheduled_pool(sched), SPN_FOREVER));
        CHECK_OK(spn_scheduled_destroy(sched));
        return;
    }
    atomic_store(&e->begun, 1);
    for (int i = 0; i < 16; i++)
        (void)spn_future_cancel(e->futures[(i + index * 5) % 16], index % 2);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

TEST(scheduled__cancelled_at_its_end__is_safe, "STPE-39", "STPE-31")
{
    const int rounds = t_rounds(300);

    for (int round = 0; round < rounds; round++) {
        struct ending e = { .begun = 0 };

        open_sched(1 + round % 2);
        for (int i = 0; i < 16; i++)
            REQUIRE_OK(spn_scheduled_at_fixed_rate(sched, nothing, NULL, i * 1000,
                                                   1 + i % 3 * 5000, &e.futures[i]));
        t_parallel(3, cancel_all, &e);
        for (int i = 0; i < 16; i++) {
            CHECK(spn_future_get_state(e.futures[i]) != SPN_FUTURE_PENDING);
            spn_future_unref(e.futures[i]);
        }
    }
}

/* make test-long: ten million scheduled for an hour from now and cancelled (STPE-21).  None
 * is pending, and they take no memory: after the first ones it is the same to a few pages. */
TEST_WHEN_NAMED(scheduled__ten_million_cancelled__memory_is_flat)
{
    const int rounds = t_rounds(10000000);
    long before_kb = 0;

    open_sched(1);
    for (int i = 0; i < rounds; i++) {
        spn_future *f;

        REQUIRE_OK(spn_scheduled_at_fixed_rate(sched, nothing, NULL, SPN_SEC(3600),
                                               SPN_SEC(1), &f));
        CHECK_EQ(spn_future_cancel(f, 0), 1);
        spn_future_unref(f);
        if (i == rounds / 100)
            before_kb = t_resident_kb();
        else if (i > rounds / 100 && i % 10000 == 0 && !T_ASAN && !T_TSAN)
            REQUIRE(t_resident_kb() - before_kb < 1024); /* before it takes gigabytes */
    }
    CHECK_EQ(pool_stats(spn_scheduled_pool(sched)).queued, 0);
    close_sched();
}
