/* SPDX-License-Identifier: MIT */
/* test_crowd.c - a pool without a bound says once that too many tasks wait, or threads run. */
#include "pool_calls.h"
#include "test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <spindle.h>

#include "exec/pool.h"

enum { MANY = 100000 };

static _Atomic(spn_pool *)
    heard_of; /* what the hook asks, as it may: no lock is held */
static atomic_int lines;
static char line[512]; /* the last one; its writer is alone */

static void hear(void *ctx, spn_log_level level, const char *message)
{
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    spn_pool *pool = atomic_load(&heard_of);

    (void)ctx;
    CHECK_EQ(level, SPN_LOG_WARN);
    if (pool != NULL)
        CHECK_OK(spn_pool_stats_get(pool, &stats));
    (void)snprintf(line, sizeof line, "%s", message);
    atomic_fetch_add(&lines, 1);
}

/* The hook can be set once in a process. */
static void listen(void)
{
    static bool is_set;

    if (!is_set)
        REQUIRE_OK(spn_log_set_hook(hear, NULL));
    is_set = true;
    atomic_store(&lines, 0);
}

static spn_latch *gate;
static atomic_int runs;

static int wait_at_gate(void *arg)
{
    (void)arg;
    return spn_latch_await(gate, SPN_FOREVER);
}

static int count_run(void *arg)
{
    (void)arg;
    atomic_fetch_add(&runs, 1);
    return 0;
}

static int count_and(void *arg, void **result)
{
    *result = NULL;
    return count_run(arg);
}

/* A pool whose only thread waits at the gate. */
static spn_pool *held_pool(const spn_pool_opts *opts)
{
    spn_pool *pool;

    listen();
    atomic_store(&runs, 0);
    REQUIRE_OK(spn_latch_create(&gate, 1));
    REQUIRE_OK(spn_pool_create(&pool, opts));
    REQUIRE_OK(spn_executor_call(spn_pool_executor(pool), wait_at_gate, NULL));
    T_AWAIT(pool_stats(pool).active == 1);
    atomic_store(&heard_of, pool);
    return pool;
}

static void push_calls(spn_pool *pool, int count)
{
    int taken = 0;

    while (taken < count &&
           spn_executor_call(spn_pool_executor(pool), count_run, NULL) == SPN_OK)
        taken++;
    REQUIRE(taken == count);
}

/* All that was taken has run. */
static void end_held(spn_pool *pool, int wanted)
{
    atomic_store(&heard_of, NULL);
    spn_latch_count_down(gate);
    CHECK_OK(spn_pool_close(pool));
    CHECK_EQ(atomic_load(&runs), wanted);
    CHECK_OK(spn_pool_destroy(pool));
    CHECK_OK(spn_latch_destroy(gate));
}

/* An unbounded queue is told of at 100,000, with the pool's name, and not again; nothing is
 * refused, no thread is made for it, and all of it runs. */
TEST(crowd__unbounded_fifo__told_once, "X-21")
{
    spn_pool_opts opts = spn_pool_opts_limited(1, 3, -1);
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    spn_pool *pool;

    opts.name = "crowded";
    pool = held_pool(&opts);
    push_calls(pool, MANY);
    CHECK_EQ(atomic_load(&lines), 0);
    push_calls(pool, 1);
    CHECK_EQ(atomic_load(&lines), 1);
    CHECK_EQ(strncmp(line,
                     "pool crowded: 100000 tasks wait, and its queue has no bound", 59),
             0);
    CHECK(strstr(line, "queues=N") != NULL);
    push_calls(pool, 2 * MANY);
    CHECK_EQ(atomic_load(&lines), 1);
    CHECK_OK(spn_pool_stats_get(pool, &stats));
    CHECK_EQ(stats.threads, 1);
    CHECK_EQ(stats.queued, 3 * MANY + 1);
    CHECK_EQ(stats.capacity, INT64_MAX);
    CHECK_EQ(stats.rejected, 0);
    end_held(pool, 3 * MANY + 1);
}

/* A queue that never gets that long is not told of, however many go through. */
TEST(crowd__many_in_all_few_at_once__silent, "X-21")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
    spn_pool *pool;

    listen();
    atomic_store(&runs, 0);
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    for (int i = 0; i < 4; i++) {
        push_calls(pool, MANY / 2);
        T_AWAIT(atomic_load(&runs) == (i + 1) * (MANY / 2));
    }
    CHECK_EQ(atomic_load(&lines), 0);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

/* Who gave a bound has said how many may wait. */
TEST(crowd__bound_above__silent, "X-21")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, 2 * MANY);
    spn_pool *pool = held_pool(&opts);

    push_calls(pool, 2 * MANY);
    CHECK_STATUS(spn_executor_call(spn_pool_executor(pool), count_run, NULL),
                 SPN_EREJECTED);
    CHECK_EQ(atomic_load(&lines), 0);
    end_held(pool, 2 * MANY);
}

/* Lanes look when the place of a producer's entries doubles: at the latest when twice as many
 * wait. */
TEST(crowd__lanes__told_once, "X-21")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
    spn_pool *pool;

    opts.queue_kind = SPN_POOL_LANES;
    pool = held_pool(&opts);
    push_calls(pool, MANY);
    CHECK_EQ(atomic_load(&lines), 0);
    push_calls(pool, MANY);
    CHECK_EQ(atomic_load(&lines), 1);
    push_calls(pool, MANY);
    CHECK_EQ(atomic_load(&lines), 1);
    end_held(pool, 3 * MANY);
}

/* Scheduled tasks do the same; here none is due. */
TEST(crowd__scheduled__told_once, "X-21")
{
    spn_scheduled_opts opts = spn_scheduled_opts_pool(1);
    spn_scheduled *scheduled;

    listen();
    REQUIRE_OK(spn_scheduled_create(&scheduled, &opts));
    for (int i = 0; i < 3 * MANY; i++) {
        const int rc = spn_scheduled_call(scheduled, count_run, NULL, SPN_SEC(3600));

        REQUIRE(rc == SPN_OK);
        if (i < MANY)
            CHECK_EQ(atomic_load(&lines), 0);
    }
    CHECK_EQ(atomic_load(&lines), 1);
    CHECK(strstr(line, "tasks wait") != NULL);
    CHECK_OK(pool_shutdown_now(spn_scheduled_pool(scheduled), NULL, NULL, NULL));
    CHECK_OK(pool_await(spn_scheduled_pool(scheduled), SPN_FOREVER));
    CHECK_OK(spn_scheduled_destroy(scheduled));
}

/* ---- with a lower mark ----------------------------------------------------------------- */

static void set_mark(spn_pool *pool, int64_t many)
{
    spn__lock(&pool->lock);
    pool->work.many = many;
    spn__work_set_capacity(pool, spn__load(&pool->work.capacity, relaxed));
    spn__unlock(&pool->lock);
}

/* Tasks and calls, by priority and in order. */
TEST(crowd__each_kind_of_entry__told_once, "X-21")
{
    enum { TASKS = 20 };
    static const uint32_t kinds[] = { SPN_POOL_FIFO, SPN_POOL_PRIORITY };

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
        spn_pool *pool;

        opts.queue_kind = kinds[k];
        pool = held_pool(&opts);
        set_mark(pool, 10);
        for (int i = 0; i < TASKS; i++) {
            spn_future *future;

            REQUIRE_OK(
                spn_executor_submit(spn_pool_executor(pool), count_and, NULL, &future));
            spn_future_unref(future);
            CHECK_EQ(atomic_load(&lines), i >= 10);
        }
        CHECK(strstr(line, ": 10 tasks wait") != NULL);
        end_held(pool, TASKS);
    }
}

/* A bound that is set on a watched queue holds; taken away, the queue is watched as before,
 * and once it was told, never again. */
TEST(crowd__reconfigured__bounds_hold, "X-21", "TPE-5")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
    spn_pool *pool = held_pool(&opts);

    set_mark(pool, 10);
    push_calls(pool, 9);
    CHECK_OK(pool_set_capacity(pool, 9));
    CHECK_STATUS(spn_executor_call(spn_pool_executor(pool), count_run, NULL),
                 SPN_EREJECTED);
    CHECK_OK(pool_set_capacity(pool, -1));
    push_calls(pool, 1);
    CHECK_EQ(atomic_load(&lines), 0);
    push_calls(pool, 1);
    CHECK_EQ(atomic_load(&lines), 1);
    CHECK_OK(pool_set_capacity(pool, 11));
    CHECK_STATUS(spn_executor_call(spn_pool_executor(pool), count_run, NULL),
                 SPN_EREJECTED);
    CHECK_OK(pool_set_capacity(pool, -1));
    push_calls(pool, 100);
    CHECK_EQ(atomic_load(&lines), 1);
    end_held(pool, 111);
}

static void push_some(int index, void *arg)
{
    (void)index;
    push_calls(arg, 1000);
}

/* Many that come to the mark at once: one tells, and none is refused. */
TEST(crowd__many_at_the_mark__one_tells, "X-21")
{
    for (int round = 0; round < t_rounds(50); round++) {
        spn_pool_opts opts = spn_pool_opts_limited(1, 2, -1);
        spn_pool *pool = held_pool(&opts);

        set_mark(pool, 1 + round * 7);
        t_parallel(T_THREADS, push_some, pool);
        CHECK_EQ(atomic_load(&lines), 1);
        CHECK_EQ(pool_stats(pool).threads, 1);
        end_held(pool, T_THREADS * 1000);
    }
}

/* ---- threads --------------------------------------------------------------------------- */

/* A pool without a limit is told of at so many threads, once; one with a limit never. */
TEST(crowd__threads_without_limit__told_once, "X-21")
{
    static const int32_t limits[] = { SPN_POOL_THREADS_MAX, SPN_POOL_THREADS_MAX - 1 };

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        spn_pool_opts opts = spn_pool_opts_cached(0, limits[i], 0, SPN_SEC(60));
        spn_pool *pool;

        listen();
        opts.name = "cached";
        REQUIRE_OK(spn_latch_create(&gate, 1));
        REQUIRE_OK(spn_pool_create(&pool, &opts));
        CHECK_EQ(pool->many_threads, 1000);
        pool->many_threads = 3;
        for (int t = 1; t <= 6; t++) {
            REQUIRE_OK(spn_executor_call(spn_pool_executor(pool), wait_at_gate, NULL));
            CHECK_EQ(pool_stats(pool).threads, t);
            CHECK_EQ(atomic_load(&lines), i == 0 && t >= 3);
        }
        if (i == 0) {
            CHECK_EQ(strncmp(line, "pool cached: it has 3 threads and no limit", 42),
                     0);
            CHECK(strstr(line, "threads=N") != NULL);
        }
        spn_latch_count_down(gate);
        CHECK_OK(spn_pool_close(pool));
        CHECK_OK(spn_pool_destroy(pool));
        CHECK_OK(spn_latch_destroy(gate));
    }
}
