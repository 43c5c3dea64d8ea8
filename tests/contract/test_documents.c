/* SPDX-License-Identifier: MIT */
/*
 * What docs/from-the-documents.md says and no other test shows: where the library differs from
 * the documents that people come from, and what it says in its log where they have a message.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <spindle.h>

#include "test.h"

/* ---- messages --------------------------------------------------------------------------- */

enum { CODE = 7 };

static int fail(void *arg)
{
    (void)arg;
    return CODE;
}

static int fail_timeout(spn_timeout *timeout)
{
    (void)timeout;
    return CODE;
}

/* execute: a task that fails, and nobody who would ask. */
static void pool_task_fails(void *arg)
{
    spn_pool *pool;

    (void)arg;
    REQUIRE_OK(spn_pool_create(&pool, NULL));
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), fail, NULL));
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

static void timer_task_fails(void *arg)
{
    spn_timeout timeout = SPN_TIMEOUT_INIT;
    spn_timer_stats stats = SPN_TIMER_STATS_INIT;
    spn_repository *repository;
    spn_timer *timer;

    (void)arg;
    REQUIRE_OK(spn_repository_create(&repository, NULL));
    REQUIRE_OK(spn_repository_shared_timer(repository, &timer));
    CHECK_OK(spn_timer_schedule(timer, &timeout, fail_timeout, 0));
    T_AWAIT(spn_timer_get_stats(timer, &stats) == SPN_OK && stats.failed == 1);
    CHECK_OK(spn_repository_destroy_all(repository, T_LONG_NS));
    CHECK_OK(spn_repository_destroy(repository));
}

static void many_timers(void *arg)
{
    spn_timer *timers[66];

    (void)arg;
    for (size_t i = 0; i < 66; i++)
        REQUIRE_OK(spn_timer_create(&timers[i], NULL));
    for (size_t i = 0; i < 66; i++)
        CHECK_OK(spn_timer_destroy(timers[i]));
}

static void periodic_task_fails(void *arg)
{
    spn_scheduled *scheduled;
    spn_future *future;

    (void)arg;
    REQUIRE_OK(spn_scheduled_create(&scheduled, NULL));
    REQUIRE_OK(
        spn_scheduled_at_fixed_rate(scheduled, fail, NULL, 0, SPN_MS(1), &future));
    CHECK_STATUS(spn_future_get(future, NULL, SPN_FOREVER), SPN_EFAILED);
    spn_future_unref(future);
    CHECK_OK(spn_pool_close(spn_scheduled_pool(scheduled)));
    CHECK_OK(spn_scheduled_destroy(scheduled));
}

static void threadless_task_fails(void *arg)
{
    spn_threadless *threadless;

    (void)arg;
    REQUIRE_OK(spn_threadless_create(&threadless, NULL));
    CHECK_OK(spn_executor_call(spn_threadless_executor(threadless), fail, NULL));
    CHECK_OK(spn_threadless_wait_and_drain(threadless, T_LONG_NS));
    CHECK_OK(spn_threadless_destroy(threadless));
}

static void no_pool_made(void *arg)
{
    spn_repository *repository;
    spn_pool *pool;
    spn_url *url;

    (void)arg;
    REQUIRE_OK(spn_repository_create(&repository, NULL));
    REQUIRE_OK(spn_url_parse(&url, "dubbo://10.0.0.1:20880?side=Consumer", NULL));
    CHECK_STATUS(spn_repository_get(repository, url, &pool, NULL), SPN_EEMPTY);
    spn_url_unref(url);
    CHECK_OK(spn_repository_destroy(repository));
}

/* Where the documents have a message, standard error has one line.  First of all, because it
 * forks. */
TEST(documents__what_they_log__is_logged, "TPE-73", "HWT-27", "HWT-6", "STPE-15",
     "S-11")
{
    static const struct {
        void (*provoke)(void *arg);
        const char *line;
    } cases[] = {
        { pool_task_fails, "spindle: warn: pool pool-1: a task failed with 7 (" },
        { timer_task_fails, ": a callback failed with 7 (" },
        { many_timers,
          " timers at a time: each may have a thread; share one instead\n" },
        { periodic_task_fails, ": a periodic task failed with 7 (" },
        { threadless_task_fails, "spindle: warn: threadless executor: a task failed "
                                 "with 7 (" },
        { no_pool_made, "spindle: warn: repository: no pool of a consumer was made, " },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char output[1000] = "";

        CHECK_EQ(t_child(cases[i].provoke, NULL, output, sizeof output), 0);
        if (strstr(output, cases[i].line) == NULL)
            printf("  no \"%s\" in \"%s\"\n", cases[i].line, output);
        CHECK(strstr(output, cases[i].line) != NULL);
    }
}

/* ---- deviations -------------------------------------------------------------------------- */

/* In Java a task that throws ends its worker, which is replaced: here it keeps it. */
TEST(documents__failing_tasks__keep_their_thread, "TPE-72")
{
    enum { TASKS = 5 };
    spn_pool_opts opts = spn_pool_opts_fixed(1, SPN_UNBOUNDED);
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    spn_pool *pool;

    REQUIRE_OK(spn_log_set_level(SPN_LOG_OFF));
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    for (int i = 0; i < TASKS; i++)
        CHECK_OK(spn_executor_call(spn_pool_executor(pool), fail, NULL));
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_stats_get(pool, &stats));
    CHECK_EQ(stats.failed, TASKS);
    CHECK_EQ(stats.threads_started, 1);
    CHECK_EQ(stats.threads_died, 0);
    CHECK_OK(spn_pool_destroy(pool));
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* How often a wheel asks to be advanced until a node an hour away is due. */
static int advances_in_an_hour(uint32_t layout)
{
    spn_wheel_opts opts = SPN_WHEEL_OPTS_INIT;
    spn_wheel_node node = SPN_WHEEL_NODE_INIT;
    spn_wheel *wheel;
    int64_t now_ns = 0;
    int advances = 0;

    opts.tick_ns = SPN_MS(100);
    opts.layout = layout;
    REQUIRE_OK(spn_wheel_create(&wheel, &opts));
    CHECK_OK(spn_wheel_add(wheel, &node, SPN_SEC(3600)));
    for (; spn_wheel_take_due(wheel) == NULL && advances < 1000; advances++) {
        now_ns = spn_wheel_next_expiry(wheel);
        CHECK_OK(spn_wheel_advance_to(wheel, now_ns));
    }
    CHECK_EQ(now_ns, SPN_SEC(3600));
    CHECK_OK(spn_wheel_destroy(wheel));
    return advances;
}

/* Timers have levels unless they are told to be hashed: such a wheel is looked at a few times
 * in an hour, not once a turn; and neither at every tick. */
TEST(documents__timer_by_default__has_levels, "HWT-1", "HWT-21", "HWT-44")
{
    const spn_timer_opts defaults = SPN_TIMER_OPTS_INIT;
    const int turns = (int)(SPN_SEC(3600) / (512 * SPN_MS(100)));

    CHECK_EQ(defaults.layout, SPN_WHEEL_HIERARCHICAL);
    CHECK(advances_in_an_hour(defaults.layout) < 8);
    CHECK(advances_in_an_hour(SPN_WHEEL_HASHED) >= turns);
    CHECK(advances_in_an_hour(SPN_WHEEL_HASHED) <= turns + 1);
}

static int wait_for(void *gate)
{
    return spn_latch_await(gate, T_LONG_NS);
}

static void count_report(void *ctx, const spn_exhaustion *what)
{
    (void)what;
    atomic_fetch_add((atomic_int *)ctx, 1);
}

/* An eager pool reports a task that it refuses, and none that it takes: threads first, then
 * the queue.  (Dubbo reports before it tries the queue again.) */
TEST(documents__eager_pool_takes_all__nothing_reported, "X-10", "X-14")
{
    spn_url_pool_opts opts = SPN_URL_POOL_OPTS_INIT;
    atomic_int reports = 0;
    spn_url_pool *made;
    spn_latch *gate;
    spn_url *url;

    REQUIRE_OK(spn_latch_create(&gate, 1));
    REQUIRE_OK(
        spn_url_parse(&url,
                      "dubbo://10.0.0.1:20880?threadpool=eager&threads=2&queues=2&"
                      "dump.enable=false",
                      NULL));
    opts.exhausted = count_report;
    opts.ctx = &reports;
    REQUIRE_OK(spn_log_set_level(SPN_LOG_OFF));
    REQUIRE_OK(spn_url_pool_create(&made, url, &opts, NULL));
    for (int i = 0; i < 4; i++)
        CHECK_OK(spn_executor_call(spn_url_pool_executor(made), wait_for, gate));
    CHECK_EQ(atomic_load(&reports), 0);
    CHECK_STATUS(spn_executor_call(spn_url_pool_executor(made), wait_for, gate),
                 SPN_EREJECTED);
    T_AWAIT(atomic_load(&reports) == 1);
    CHECK_OK(spn_latch_count_down(gate));
    CHECK_OK(spn_pool_close(spn_url_pool_pool(made)));
    CHECK_OK(spn_url_pool_destroy(made));
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
    spn_url_unref(url);
    CHECK_OK(spn_latch_destroy(gate));
}

/* ---- fork/join -------------------------------------------------------------------------- */

struct forked {
    atomic_int *first; /* the number of the first that another worker ran */
    int32_t owner;
    int number;
};

static int note_thief(spn_fj fj, void *arg)
{
    const struct forked *f = arg;
    int none = 0;

    (void)fj;
    if (spn_fj_worker_index() != f->owner)
        (void)atomic_compare_exchange_strong(f->first, &none, f->number);
    return 0;
}

static int do_nothing(spn_fj fj, void *arg)
{
    (void)fj;
    (void)arg;
    return 0;
}

static int fork_three(spn_fj fj, void *arg)
{
    struct forked f[3];
    atomic_int *first = arg;
    const int64_t until_ns = spn_now() + T_LONG_NS;

    for (int i = 0; i < 3; i++) {
        f[i] = (struct forked){ first, spn_fj_worker_index(), i + 1 };
        spn_fj_fork(&fj, note_thief, &f[i]);
    }
    while (atomic_load(first) == 0 && spn_now() < until_ns) {
        spn_fj_fork(&fj, do_nothing, NULL); /* each fork looks whether somebody asks */
        (void)spn_fj_join(&fj);
    }
    for (int i = 0; i < 3; i++)
        (void)spn_fj_join(&fj);
    return 0;
}

/* A worker takes its own last task first, and a thief takes the oldest: the largest part of
 * the work, as a rule, and far from where the owner works. */
TEST(documents__thief__takes_the_oldest, "FJP-33")
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;

    opts.parallelism = 2;
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    for (int i = 0; i < 20; i++) {
        atomic_int first = 0;

        CHECK_OK(spn_fj_run(pool, fork_three, &first));
        CHECK_EQ(atomic_load(&first), 1);
    }
    CHECK_OK(spn_fj_pool_close(pool));
    CHECK_OK(spn_fj_pool_destroy(pool));
}
