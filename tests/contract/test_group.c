/* SPDX-License-Identifier: MIT */
/* test_group.c - groups of tasks, over executors without threads and over pools. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

#include <spindle.h>

static spn_group *group_with(const spn_group_opts *opts)
{
    spn_group *group = NULL;

    REQUIRE_OK(spn_group_create(&group, opts));
    return group;
}

static spn_group *group_in(spn_group *parent)
{
    spn_group_opts opts = SPN_GROUP_OPTS_INIT;

    opts.parent = parent;
    return group_with(&opts);
}

static spn_manual_executor *manual(void)
{
    spn_manual_executor *m = NULL;

    REQUIRE_OK(spn_manual_executor_create(&m));
    return m;
}

static spn_pool *pool_of(int threads, int queue)
{
    spn_pool_opts opts = spn_pool_opts_fixed(threads, queue);
    spn_pool *pool = NULL;

    REQUIRE_OK(spn_pool_create(&pool, &opts));
    return pool;
}

static void end_pool(spn_pool *pool)
{
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

static spn_group_stats stats_of(spn_group *group)
{
    spn_group_stats s = SPN_GROUP_STATS_INIT;

    CHECK_OK(spn_group_stats_get(group, &s));
    CHECK_EQ(s.submitted, s.live + s.succeeded + s.failed + s.cancelled);
    return s;
}

static atomic_int runs;

static int work(void *arg, void **result)
{
    atomic_fetch_add(&runs, 1);
    *result = arg;
    return 0;
}

static int fail(void *code, void **result)
{
    (void)result;
    atomic_fetch_add(&runs, 1);
    return spn_future_fail(*(int *)code, "it failed");
}

static int submit(spn_group *group, spn_executor *executor, spn_call_fn fn, void *arg)
{
    return spn_group_submit(group, executor, fn, arg, NULL);
}

/* ---- counting and waiting ------------------------------------------------------------------ */

/* Live until run; the future has the result; the counts tell. */
TEST(group__tasks_run__counted_once, "G-19")
{
    spn_manual_executor *m = manual();
    spn_group *group = group_with(NULL);
    void *value = NULL;
    spn_future *f;

    CHECK_OK(spn_group_wait(group, 0)); /* nothing is live */
    CHECK_OK(spn_group_submit(group, spn_manual_executor_executor(m), work, &runs, &f));
    CHECK_OK(submit(group, spn_executor_direct(), work, NULL));
    CHECK_EQ(stats_of(group).live, 1);
    CHECK_STATUS(spn_group_wait(group, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_group_wait(group, SPN_MS(1)), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_group_destroy(group), SPN_EBUSY);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_OK(spn_group_wait(group, SPN_FOREVER));
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK(value == &runs);
    CHECK_EQ(stats_of(group).succeeded, 2);
    CHECK_EQ(stats_of(group).live, 0);
    CHECK_STATUS(spn_group_error(group, NULL, NULL, 0), SPN_ESTATE);
    spn_future_unref(f);
    CHECK_OK(spn_group_destroy(group));
    CHECK_OK(spn_manual_executor_destroy(m));
}

static int reuse_call(void *arg)
{
    struct {
        spn_group *group;
    } *p = arg;
    const int rc = spn_group_wait(p->group, SPN_FOREVER);

    return rc == SPN_OK ? spn_group_destroy(p->group) : rc;
}

/* A waiter sleeps until the last is through, and may destroy the group at once. */
TEST(group__waiter__released_by_the_last, "G-20", "G-17")
{
    struct {
        spn_group *group;
    } p = { group_with(NULL) };
    spn_manual_executor *m = manual();
    struct peer peer;

    CHECK_OK(submit(p.group, spn_manual_executor_executor(m), work, NULL));
    CHECK_OK(submit(p.group, spn_manual_executor_executor(m), work, NULL));
    peer_start(&peer, reuse_call, &p);
    peer_await_blocked(&peer);
    CHECK_STATUS(spn_group_destroy(p.group), SPN_EBUSY);
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK(peer_still_waits(&peer));
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_OK(peer_finish(&peer));
    CHECK_OK(spn_manual_executor_destroy(m));
}

static atomic_int gate, started;

static int at_gate(void *arg, void **result)
{
    (void)arg;
    (void)result;
    atomic_fetch_add(&started, 1);
    T_AWAIT(atomic_load(&gate) != 0);
    return 0;
}

/* A task whose future was cancelled while it runs is live until it has returned. */
TEST(group__future_cancelled_while_running__live_until_it_returns, "FUT-18")
{
    spn_pool *pool = pool_of(1, -1);
    spn_group *group = group_with(NULL);
    spn_future *f;

    atomic_store(&gate, 0);
    atomic_store(&started, 0);
    CHECK_OK(spn_group_submit(group, spn_pool_executor(pool), at_gate, NULL, &f));
    T_AWAIT(atomic_load(&started) == 1);
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    CHECK(spn_future_get_state(f) != SPN_FUTURE_PENDING);
    CHECK_EQ(stats_of(group).live, 1);
    CHECK_STATUS(spn_group_wait(group, SPN_MS(1)), SPN_ETIMEDOUT);
    atomic_store(&gate, 1);
    CHECK_OK(spn_group_wait(group, SPN_FOREVER));
    CHECK_EQ(stats_of(group).cancelled, 1);
    spn_future_unref(f);
    CHECK_OK(spn_group_destroy(group));
    end_pool(pool);
}

/* A future cancelled in the queue is taken back from the executor: nothing waits there. */
TEST(group__future_cancelled_in_the_queue__taken_back, "FUT-35", "TPE-43")
{
    spn_manual_executor *m = manual();
    spn_group *group = group_with(NULL);
    const long before = atomic_load(&counting_live);
    spn_future *f;

    atomic_store(&runs, 0);
    for (int i = 0; i < 100; i++) {
        CHECK_OK(
            spn_group_submit(group, spn_manual_executor_executor(m), work, NULL, &f));
        CHECK_EQ(spn_future_cancel(f, 1), 1);
        CHECK_EQ(spn_manual_executor_pending(m), 0);
        spn_future_unref(f);
    }
    CHECK_EQ(atomic_load(&counting_live), before);
    CHECK_EQ(stats_of(group).cancelled, 100);
    CHECK_OK(spn_group_wait(group, 0));
    CHECK_EQ(atomic_load(&runs), 0);
    CHECK_OK(spn_group_destroy(group));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* ---- errors --------------------------------------------------------------------------------- */

/* The failure that came first is kept, with its message. */
TEST(group__two_fail__first_error_kept, "G-21")
{
    int one = -101, two = 102, code = 0;
    spn_group *group = group_with(NULL);
    char text[16];

    CHECK_OK(submit(group, spn_executor_direct(), work, NULL));
    CHECK_OK(submit(group, spn_executor_direct(), fail, &one));
    CHECK_OK(submit(group, spn_executor_direct(), fail, &two));
    CHECK_EQ(stats_of(group).failed, 2);
    CHECK_OK(spn_group_error(group, &code, text, sizeof text));
    CHECK_EQ(code, -101);
    CHECK_STR(text, "it failed");
    CHECK_OK(spn_group_error(group, NULL, text, 3));
    CHECK_STR(text, "it");
    CHECK_OK(spn_group_error(group, NULL, NULL, 0));
    CHECK_EQ(spn_cancel_token_is_cancelled(spn_group_token(group)), 0);
    CHECK_OK(spn_group_destroy(group));
}

/* With cancel_on_error the rest is cancelled, and new ones are refused. */
TEST(group__cancel_on_error__the_rest_is_cancelled, "G-21", "FUT-16")
{
    spn_group_opts opts = SPN_GROUP_OPTS_INIT;
    spn_manual_executor *m = manual();
    spn_group *group;
    spn_future *f;
    int code = -7;

    opts.cancel_on_error = 1;
    group = group_with(&opts);
    atomic_store(&runs, 0);
    CHECK_OK(submit(group, spn_manual_executor_executor(m), fail, &code));
    CHECK_OK(spn_group_submit(group, spn_manual_executor_executor(m), work, NULL, &f));
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_EQ(spn_manual_executor_pending(m), 0);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_CANCELED);
    CHECK_EQ(spn_cancel_token_reason(spn_group_token(group)), SPN_EFAILED);
    CHECK_STATUS(submit(group, spn_manual_executor_executor(m), work, NULL),
                 SPN_ECANCELED);
    CHECK_OK(spn_group_wait(group, 0));
    CHECK_EQ(atomic_load(&runs), 1);
    CHECK_EQ(stats_of(group).submitted, 2);
    spn_future_unref(f);
    CHECK_OK(spn_group_destroy(group));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* What an executor refuses never was in the group; what it drops has failed. */
TEST(group__executor_refuses_or_drops__told, "FUT-35", "G-22", "P30")
{
    spn_manual_executor *m = manual();
    spn_group *group = group_with(NULL);
    spn_future *f = (spn_future *)(void *)&f;
    const long before = atomic_load(&counting_live);
    int code = 0;

    CHECK_OK(submit(group, spn_manual_executor_executor(m), work, NULL));
    CHECK_OK(spn_executor_shutdown(spn_manual_executor_executor(m)));
    CHECK_STATUS(spn_group_submit(group, spn_manual_executor_executor(m), work, NULL,
                                  &f),
                 SPN_EREJECTED);
    CHECK(f == NULL);
    CHECK_EQ(stats_of(group).submitted, 1);
    CHECK_OK(spn_manual_executor_drop_all(m, SPN_ESHUTDOWN, NULL));
    CHECK_OK(spn_group_wait(group, 0));
    CHECK_OK(spn_group_error(group, &code, NULL, 0));
    CHECK_EQ(code, SPN_ESHUTDOWN);
    atomic_store(&counting_refuse, 1);
    CHECK_STATUS(submit(group, spn_executor_direct(), work, NULL), SPN_ENOMEM);
    atomic_store(&counting_refuse, 0);
    CHECK_EQ(stats_of(group).submitted, 1);
    CHECK_EQ(atomic_load(&counting_live), before);
    CHECK_OK(spn_group_destroy(group));
    CHECK_OK(spn_manual_executor_destroy(m));
}

static int end_thread(void *arg, void **result)
{
    (void)arg;
    (void)result;
    pthread_exit(NULL);
}

/* A task that ends its thread has failed, and is not live any more. */
TEST(group__task_ends_its_thread__failed, "G-21")
{
    spn_pool *pool = pool_of(1, -1);
    spn_group *group = group_with(NULL);
    int code = 0;

    CHECK_OK(submit(group, spn_pool_executor(pool), end_thread, NULL));
    CHECK_OK(spn_group_wait(group, SPN_FOREVER));
    CHECK_OK(spn_group_error(group, &code, NULL, 0));
    CHECK_EQ(code, SPN_EFAILED);
    CHECK_OK(spn_group_destroy(group));
    end_pool(pool);
}

/* ---- cancelling -------------------------------------------------------------------------------- */

static int until_cancelled(void *token, void **result)
{
    (void)result;
    atomic_fetch_add(&started, 1);
    return spn_cancel_token_wait(token, SPN_FOREVER);
}

/* Queued ones are taken back, running ones see the token; the wait then ends. */
TEST(group__cancelled__queued_taken_back_running_told, "FUT-16", "FUT-18")
{
    spn_pool *pool = pool_of(2, -1);
    spn_group *group = group_with(NULL);
    spn_pool_stats stats = SPN_POOL_STATS_INIT;

    atomic_store(&started, 0);
    for (int i = 0; i < 10; i++)
        CHECK_OK(submit(group, spn_pool_executor(pool), until_cancelled,
                        spn_group_token(group)));
    T_AWAIT(atomic_load(&started) == 2);
    CHECK_EQ(spn_group_cancel(group, SPN_ETIMEDOUT, 0), 1);
    CHECK_EQ(spn_group_cancel(group, SPN_ECANCELED, 0), 0);
    CHECK_OK(spn_pool_stats_get(pool, &stats));
    CHECK_EQ(stats.queued, 0);
    CHECK_OK(spn_group_wait(group, SPN_FOREVER));
    CHECK_EQ(atomic_load(&started), 2);
    CHECK(stats_of(group).cancelled >= 8); /* the two may have been faster */
    CHECK_EQ(spn_cancel_token_reason(spn_group_token(group)), SPN_ETIMEDOUT);
    CHECK_OK(spn_group_destroy(group));
    end_pool(pool);
}

static int sleep_for_ever(void *arg, void **result)
{
    (void)arg;
    (void)result;
    atomic_fetch_add(&started, 1);
    return spn_clock_sleep_until(spn_clock_monotonic(), SPN_FOREVER) == SPN_EINTR ? 0
                                                                                  : -1;
}

/* First gently, then with an interrupt: what did not end by itself does then. */
TEST(group__cancelled_again_with_interrupt__ends, "FUT-24", "AES-6")
{
    spn_pool *pool = pool_of(2, -1);
    spn_group *group = group_with(NULL);

    atomic_store(&started, 0);
    CHECK_OK(submit(group, spn_pool_executor(pool), sleep_for_ever, NULL));
    CHECK_OK(submit(group, spn_pool_executor(pool), sleep_for_ever, NULL));
    T_AWAIT(atomic_load(&started) == 2);
    CHECK_EQ(spn_group_cancel(group, SPN_ECANCELED, 0), 1);
    CHECK_STATUS(spn_group_wait(group, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK_EQ(spn_group_cancel(group, SPN_ECANCELED, 1), 0);
    CHECK_OK(spn_group_wait(group, SPN_FOREVER));
    CHECK_OK(spn_group_destroy(group));
    end_pool(pool);
}

/* Cancelled by a token from outside, with the interrupt asked for beforehand. */
TEST(group__token_cancelled__group_is, "FUT-24")
{
    spn_group_opts opts = SPN_GROUP_OPTS_INIT;
    spn_pool *pool = pool_of(1, -1);
    spn_cancel_token *token;
    spn_group *group, *late;

    REQUIRE_OK(spn_cancel_token_create(&token, NULL));
    opts.token = token;
    opts.interrupt = 1;
    group = group_with(&opts);
    atomic_store(&started, 0);
    CHECK_OK(submit(group, spn_pool_executor(pool), sleep_for_ever, NULL));
    CHECK_OK(submit(group, spn_pool_executor(pool), work, NULL));
    T_AWAIT(atomic_load(&started) == 1);
    CHECK_EQ(spn_cancel_token_cancel(token, -42), 1);
    CHECK_OK(spn_group_wait(group, SPN_FOREVER));
    CHECK_EQ(spn_cancel_token_reason(spn_group_token(group)), -42);
    CHECK_EQ(stats_of(group).cancelled, 2);
    late = group_with(&opts); /* cancelled from the start */
    CHECK_STATUS(submit(late, spn_pool_executor(pool), work, NULL), SPN_ECANCELED);
    CHECK_OK(spn_group_destroy(late));
    CHECK_OK(spn_group_destroy(group));
    spn_cancel_token_unref(token);
    end_pool(pool);
}

static int cancel_own(void *group, void **result)
{
    (void)result;
    CHECK_EQ(spn_group_cancel(group, SPN_ECANCELED, 1), 1);
    CHECK_EQ(spn_thread_is_interrupted(spn_thread_current()), 0); /* not itself */
    CHECK(spn_group_current() == group);
    CHECK_STATUS(spn_group_wait(group, SPN_FOREVER), SPN_EDEADLK);
    CHECK_STATUS(spn_group_destroy(group), SPN_EBUSY);
    return 0;
}

/* A task may cancel its own group, and is not interrupted by that; it cannot wait for
 * it. */
TEST(group__task_uses_its_group__told, "G-23")
{
    spn_group *group = group_with(NULL);

    CHECK(spn_group_current() == NULL);
    CHECK_OK(submit(group, spn_executor_direct(), cancel_own, group));
    CHECK(spn_group_current() == NULL);
    CHECK_OK(spn_group_wait(group, 0));
    CHECK_EQ(stats_of(group).cancelled, 1);
    CHECK_OK(spn_group_destroy(group));
}

/* ---- groups in groups ------------------------------------------------------------------------- */

static int wait_for_outer(void *outer, void **result)
{
    (void)result;
    CHECK_STATUS(spn_group_wait(outer, SPN_FOREVER), SPN_EDEADLK);
    return 0;
}

/* What is in the inner one is in the outer one, but not the other way round. */
TEST(group__nested__counts_errors_and_cancels_go_up_and_down, "G-17", "G-21")
{
    spn_manual_executor *m = manual();
    spn_executor *executor = spn_manual_executor_executor(m);
    spn_group *outer = group_with(NULL), *inner = group_in(outer),
              *other = group_in(outer);
    spn_group *deep = group_in(inner);
    int code = -8, got = 0;

    CHECK_OK(submit(outer, executor, work, NULL));
    CHECK_OK(submit(inner, executor, fail, &code));
    CHECK_OK(submit(deep, executor, wait_for_outer, outer));
    CHECK_OK(submit(other, executor, work, NULL));
    CHECK_EQ(stats_of(outer).live, 4);
    CHECK_EQ(stats_of(inner).live, 2);
    CHECK_EQ(stats_of(deep).live, 1);
    CHECK_STATUS(spn_group_destroy(outer), SPN_EBUSY);
    CHECK_EQ(spn_group_cancel(other, -2, 0), 1);
    CHECK_EQ(spn_cancel_token_is_cancelled(spn_group_token(outer)), 0);
    CHECK_EQ(stats_of(outer).live, 3);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_OK(spn_group_wait(outer, 0));
    CHECK_OK(spn_group_error(outer, &got, NULL, 0));
    CHECK_EQ(got, -8);
    CHECK_STATUS(spn_group_error(deep, &got, NULL, 0), SPN_ESTATE);
    CHECK_OK(submit(deep, executor, work, NULL));
    CHECK_EQ(spn_group_cancel(outer, -3, 0), 1);
    CHECK_EQ(spn_manual_executor_pending(m), 0);
    CHECK_EQ(spn_cancel_token_reason(spn_group_token(deep)), -3);
    CHECK_STATUS(submit(inner, executor, work, NULL), SPN_ECANCELED);
    CHECK_EQ(stats_of(outer).submitted, 5);
    CHECK_EQ(stats_of(outer).cancelled, 2);
    CHECK_STATUS(spn_group_destroy(inner), SPN_EBUSY); /* deep is in it */
    CHECK_OK(spn_group_destroy(deep));
    CHECK_OK(spn_group_destroy(inner));
    CHECK_OK(spn_group_destroy(other));
    CHECK_OK(spn_group_destroy(outer));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* Interrupting the outer one reaches what runs in the inner one. */
TEST(group__nested__interrupt_goes_down, "AES-6")
{
    spn_pool *pool = pool_of(2, -1);
    spn_group *outer = group_with(NULL), *inner = group_in(outer),
              *deep = group_in(inner);
    spn_group *other = group_in(outer);

    atomic_store(&started, 0);
    CHECK_OK(submit(deep, spn_pool_executor(pool), sleep_for_ever, NULL));
    CHECK_OK(submit(other, spn_pool_executor(pool), sleep_for_ever, NULL));
    T_AWAIT(atomic_load(&started) == 2);
    CHECK_EQ(spn_group_cancel(outer, SPN_ECANCELED, 1), 1);
    CHECK_OK(spn_group_wait(outer, SPN_FOREVER));
    CHECK_OK(spn_group_destroy(other));
    CHECK_OK(spn_group_destroy(deep));
    CHECK_OK(spn_group_destroy(inner));
    CHECK_OK(spn_group_destroy(outer));
    end_pool(pool);
}

/* ---- in pools ------------------------------------------------------------------------------------ */

struct nested {
    spn_pool *pool;
    int rc;
};

static int waits_for_a_group(void *arg, void **result)
{
    struct nested *n = arg;
    spn_group *group = group_with(NULL);

    (void)result;
    for (int i = 0; i < 3; i++)
        CHECK_OK(submit(group, spn_pool_executor(n->pool), work, NULL));
    n->rc = spn_group_wait(group, SPN_FOREVER);
    if (n->rc != SPN_OK)
        CHECK_EQ(spn_group_cancel(group, SPN_ECANCELED, 0), 1);
    CHECK_OK(spn_group_wait(group, 0));
    CHECK_OK(spn_group_destroy(group));
    return 0;
}

/* The only worker of a pool waits for a group in its own queue: it is told, and never
 * hangs. */
TEST(group__worker_waits_for_its_own_pool__never_hangs, "G-20")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
    struct nested n = { .rc = 1 };
    spn_future *f;

    REQUIRE_OK(spn_pool_create(&n.pool, &opts));
    atomic_store(&runs, 0);
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(n.pool), waits_for_a_group, &n, &f));
    CHECK_OK(spn_future_get(f, NULL, SPN_FOREVER));
    spn_future_unref(f);
    CHECK_STATUS(n.rc, SPN_EDEADLK);
    CHECK_EQ(atomic_load(&runs), 0);
    end_pool(n.pool);
}

struct storm {
    spn_group *group;
    spn_pool *pool;
    atomic_int accepted, refused;
};

static void storm_thread(int index, void *arg)
{
    struct storm *s = arg;
    uint64_t seed = t_seed() + (uint64_t)index;

    for (int i = 0; i < 40; i++) {
        spn_future *f;
        const int rc =
            spn_group_submit(s->group, spn_pool_executor(s->pool), work, NULL, &f);

        CHECK(rc == SPN_OK || rc == SPN_ECANCELED || rc == SPN_EREJECTED);
        atomic_fetch_add(rc == SPN_OK ? &s->accepted : &s->refused, 1);
        if (rc == SPN_OK && t_random(&seed) % 4 == 0)
            (void)spn_future_cancel(f, 1);
        spn_future_unref(f);
    }
    if (index == 0)
        CHECK_EQ(spn_group_cancel(s->group, -1, 1), 1);
}

/* Many submit, cancel futures and cancel the group, over a pool with a small queue: at
 * the end all is counted and nothing is left anywhere. */
TEST(group__storm__all_accounted_for, "G-20", "FUT-35")
{
    spn_pool *pool = pool_of(2, 8);

    for (int round = 0; round < t_rounds(50); round++) {
        struct storm s = { .group = group_with(NULL), .pool = pool };
        spn_group_stats stats;

        atomic_store(&runs, 0);
        t_parallel(T_THREADS, storm_thread, &s);
        CHECK_OK(spn_group_wait(s.group, SPN_FOREVER));
        stats = stats_of(s.group);
        CHECK_EQ(stats.live, 0);
        CHECK_EQ(stats.failed, 0);
        CHECK_EQ(stats.submitted, atomic_load(&s.accepted));
        CHECK(stats.succeeded <= atomic_load(&runs));
        CHECK_OK(spn_group_destroy(s.group));
    }
    end_pool(pool);
}
