/* SPDX-License-Identifier: MIT */
/* test_completion.c - futures in the order in which they are done. */
#include "counting.h"
#include "executor_kinds.h"
#include "peer.h"
#include "test.h"

#include <stdlib.h>

static int give(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static int fail(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 42;
}

static int give_later(void *arg, void **result)
{
    *result = arg;
    return spn_latch_await(arg, SPN_FOREVER);
}

static spn_completion *service(spn_executor *executor)
{
    spn_completion *c;

    REQUIRE_OK(spn_completion_create(&c, executor));
    return c;
}

static spn_manual_executor *manual(void)
{
    spn_manual_executor *m;

    REQUIRE_OK(spn_manual_executor_create(&m));
    return m;
}

static int take_one(void *arg)
{
    spn_future *f = NULL;
    const int rc = spn_completion_take(arg, &f, SPN_FOREVER);

    CHECK((rc == SPN_OK) == (f != NULL));
    spn_future_unref(f);
    return rc;
}

/* No executor, no queue, no function: refused. */
TEST(completion__nothing_to_work_with__invalid, "ECS-1", "ECS-2")
{
    spn_completion *c = NULL;
    spn_future *f = NULL;

    CHECK_STATUS(spn_completion_create(&c, NULL), SPN_EINVAL);
    CHECK(c == NULL);
    CHECK_STATUS(spn_completion_create_with(&c, spn_executor_direct(), NULL),
                 SPN_EINVAL);
    CHECK(c == NULL);
    c = service(spn_executor_direct());
    CHECK_STATUS(spn_completion_submit(c, NULL, NULL, NULL, &f), SPN_EINVAL);
    CHECK_STATUS(spn_completion_submit(c, NULL, NULL, NULL, NULL), SPN_EINVAL);
    CHECK(f == NULL);
    CHECK_OK(spn_completion_destroy(c)); /* nothing is under way */
}

/* take gives the very future that submit gave, done. */
TEST(completion__take__gives_the_same_future, "ECS-3", "ECS-8")
{
    struct kind k;

    EACH_KIND(k)
    {
        spn_completion *c = service(k.executor);
        spn_future *f, *taken;
        void *value = NULL;

        REQUIRE_OK(spn_completion_submit(c, give, &k, NULL, &f));
        CHECK_OK(spn_completion_take(c, &taken, SPN_FOREVER));
        CHECK(taken == f);
        CHECK(spn_future_get_state(taken) != SPN_FUTURE_PENDING);
        CHECK_OK(spn_future_get(taken, &value, 0));
        CHECK(value == &k);
        spn_future_unref(taken);
        spn_future_unref(f);
        REQUIRE_OK(spn_completion_submit(c, give, c, NULL, NULL));
        CHECK_OK(spn_completion_take(c, &taken, SPN_FOREVER));
        CHECK_OK(spn_future_get(taken, &value, 0));
        CHECK(value == c);
        spn_future_unref(taken);
        CHECK_OK(spn_completion_destroy(c));
    }
}

/* Before completion there is nothing, however long one waits. */
TEST(completion__poll_before_done__nothing_then_the_future, "ECS-4", "G-6", "G-7")
{
    struct kind k;

    EACH_KIND(k)
    {
        static const int64_t none[] = { 0, -1, INT64_MIN };
        spn_completion *c = service(k.executor);
        spn_future *f, *taken = NULL;
        spn_latch *gate;
        int64_t from;

        for (int timed = 0; timed <= 1; timed++) {
            REQUIRE_OK(spn_latch_create(&gate, 1));
            REQUIRE_OK(spn_completion_submit(c, give_later, gate, NULL, &f));
            for (int i = 0; i < 3; i++)
                CHECK_STATUS(spn_completion_take(c, &taken, none[i]), SPN_ETIMEDOUT);
            from = spn_now();
            CHECK_STATUS(spn_completion_take(c, &taken, T_PROBE_NS), SPN_ETIMEDOUT);
            CHECK(spn_now() - from >= T_PROBE_NS);
            CHECK(taken == NULL);
            CHECK_STATUS(spn_completion_destroy(c), SPN_EBUSY);
            CHECK_OK(spn_latch_count_down(gate));
            if (timed != 0)
                CHECK_OK(spn_completion_take(c, &taken, SPN_FOREVER));
            else
                T_AWAIT(spn_completion_take(c, &taken, 0) == SPN_OK);
            CHECK(taken == f);
            spn_future_unref(taken);
            spn_future_unref(f);
            taken = NULL;
            CHECK_OK(spn_latch_destroy(gate));
        }
        CHECK_OK(spn_completion_destroy(c));
    }
}

/* Successes and failures are both given out. */
TEST(completion__good_and_failing__all_are_given_out, "ECS-5", "ECS-6")
{
    struct kind k;

    EACH_KIND(k)
    {
        spn_completion *c = service(k.executor);
        int values = 0, failures = 0;
        spn_future *f;

        for (int round = 0; round < 2; round++) {
            REQUIRE_OK(spn_completion_submit(c, give, &k, NULL, NULL));
            REQUIRE_OK(spn_completion_submit(c, fail, NULL, NULL, NULL));
            REQUIRE_OK(spn_completion_submit(c, fail, NULL, NULL, NULL));
        }
        for (int i = 0; i < 6; i++) {
            REQUIRE_OK(spn_completion_take(c, &f, SPN_FOREVER));
            values += spn_future_get(f, NULL, 0) == SPN_OK;
            failures += spn_future_get(f, NULL, 0) == SPN_EFAILED;
            spn_future_unref(f);
        }
        CHECK_EQ(values, 2);
        CHECK_EQ(failures, 4);
        CHECK_STATUS(spn_completion_take(c, &f, 0), SPN_ETIMEDOUT);
        CHECK_OK(spn_completion_destroy(c));
    }
}

/* In the order of completion, whatever that of submission. */
TEST(completion__done_in_another_order__given_out_in_that, "ECS-6", "ECS-7")
{
    spn_manual_executor *m = manual();
    spn_completion *c = service(spn_manual_executor_executor(m));
    spn_future *f[3], *taken;

    for (int i = 0; i < 3; i++)
        REQUIRE_OK(spn_completion_submit(c, give, NULL, NULL, &f[i]));
    CHECK_STATUS(spn_completion_destroy(c), SPN_EBUSY);
    CHECK_EQ(spn_future_cancel(f[2], 1), 1); /* done first */
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_EQ(spn_future_complete(f[1], NULL), 1);      /* by hand */
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0); /* nothing is left to do */
    for (int i = 0; i < 3; i++) {
        static const int order[] = { 2, 0, 1 };

        CHECK_OK(spn_completion_take(c, &taken, 0));
        CHECK(taken == f[order[i]]);
        spn_future_unref(taken);
    }
    CHECK_STATUS(spn_completion_take(c, &taken, 0), SPN_ETIMEDOUT);
    for (int i = 0; i < 3; i++)
        spn_future_unref(f[i]);
    CHECK_OK(spn_completion_destroy(c));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* Dropped by its executor: given out too, as a failure. */
TEST(completion__dropped_by_the_executor__is_given_out, "ECS-7")
{
    spn_manual_executor *m = manual();
    spn_completion *c = service(spn_manual_executor_executor(m));
    spn_future *taken;

    REQUIRE_OK(spn_completion_submit(c, give, NULL, NULL, NULL));
    CHECK_OK(
        spn_executor_shutdown_now(spn_manual_executor_executor(m), NULL, NULL, NULL));
    REQUIRE_OK(spn_completion_take(c, &taken, 0));
    CHECK_STATUS(spn_future_get(taken, NULL, 0), SPN_EFAILED);
    spn_future_unref(taken);
    CHECK_STATUS(spn_completion_submit(c, give, NULL, NULL, &taken), SPN_EREJECTED);
    CHECK(taken == NULL);
    CHECK_STATUS(spn_completion_take(c, &taken, 0), SPN_ETIMEDOUT);
    CHECK_OK(spn_completion_destroy(c));
    CHECK_OK(spn_manual_executor_destroy(m));
}

struct own {
    spn_executor executor;
    spn_future *made; /* the last */
    atomic_int hooked;
    atomic_int given; /* 1: taken */
};

static void hook(spn_future *future, void *arg)
{
    struct own *own = arg;

    CHECK(spn_future_get_state(future) != SPN_FUTURE_PENDING);
    CHECK_EQ(atomic_load(&own->given), 0);
    atomic_fetch_add(&own->hooked, 1);
}

static int own_execute(spn_executor *executor, spn_task *task)
{
    (void)executor;
    return spn_executor_execute(spn_executor_direct(), task);
}

static int own_task(spn_executor *executor, spn_future **out, spn_call_fn fn, void *arg,
                    const spn_future_opts *opts)
{
    struct own *own = (struct own *)(void *)executor;
    spn_future_opts mine = SPN_FUTURE_OPTS_INIT;
    int rc;

    (void)opts;
    mine.done = hook;
    mine.done_arg = own;
    rc = spn_future_create_task(out, fn, arg, &mine);
    own->made = *out;
    return rc;
}

/* The executor's own kind of future: submit and take give it out, its hook has run. */
TEST(completion__executor_makes_futures__gives_those_out, "ECS-9", "TPE-86")
{
    static const spn_executor_ops ops = { .size = sizeof ops,
                                          .execute = own_execute,
                                          .new_task = own_task };
    struct own own = { .executor = { &ops } };
    spn_completion *c = service(&own.executor);
    spn_future *f, *taken;

    REQUIRE_OK(spn_completion_submit(c, give, NULL, NULL, &f));
    CHECK(f == own.made);
    CHECK_OK(spn_completion_take(c, &taken, SPN_FOREVER));
    atomic_store(&own.given, 1);
    CHECK(taken == f);
    CHECK_EQ(atomic_load(&own.hooked), 1);
    spn_future_unref(taken);
    spn_future_unref(f);
    CHECK_OK(spn_completion_destroy(c));
}

static int poll_long(void *arg)
{
    spn_future *f = NULL;
    const int rc = spn_completion_take(arg, &f, T_LONG_NS);

    spn_future_unref(f);
    return rc;
}

/* Interrupted: nothing is consumed. */
TEST(completion__taker_interrupted__consumes_nothing, "ECS-10", "G-10", "G-11")
{
    int (*const calls[])(void *) = { take_one, poll_long };
    spn_manual_executor *m = manual();
    spn_completion *c = service(spn_manual_executor_executor(m));

    for (int i = 0; i < 2; i++) {
        struct peer p;
        spn_future *f = NULL;

        peer_start(&p, calls[i], c);
        peer_await_blocked(&p);
        CHECK_STATUS(spn_completion_destroy(c), SPN_EBUSY);
        CHECK_OK(spn_thread_interrupt(p.thread));
        CHECK_STATUS(peer_finish(&p), SPN_EINTR);
        CHECK_EQ(p.flag_after, 0);
        CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        CHECK_STATUS(spn_completion_take(c, &f, SPN_FOREVER), SPN_EINTR);
        CHECK_EQ(spn_thread_interrupted(), 0);
        CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        REQUIRE_OK(spn_completion_submit(c, give, NULL, NULL, NULL));
        CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
        CHECK_OK(spn_completion_take(c, &f,
                                     SPN_FOREVER)); /* need not wait: the flag stays */
        CHECK_EQ(spn_thread_interrupted(), 1);
        spn_future_unref(f);
    }
    CHECK_OK(spn_completion_destroy(c));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* A queue of one's own that is full: the completion is not given out; nothing else
 * happens to it. */
TEST(completion__own_queue_full__drops_the_completion, "ECS-11")
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_completion *c;
    spn_queue *queue;
    spn_future *f[3], *taken = NULL;

    opts.capacity = 2;
    REQUIRE_OK(spn_queue_create(&queue, SPN_QUEUE_ARRAY, &opts));
    REQUIRE_OK(spn_completion_create_with(&c, spn_executor_direct(), queue));
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(spn_completion_submit(c, give, &f[i], NULL, &f[i]));
    for (int i = 0; i < 3; i++) {
        void *value = NULL;

        CHECK_OK(spn_future_get(f[i], &value, 0));
        CHECK(value == &f[i]);
    }
    CHECK_OK(spn_completion_take(c, &taken, SPN_FOREVER));
    CHECK(taken == f[0]);
    spn_future_unref(taken);
    CHECK_OK(spn_completion_take(c, &taken, 0));
    CHECK(taken == f[1]);
    spn_future_unref(taken);
    CHECK_STATUS(spn_completion_take(c, &taken, 0), SPN_ETIMEDOUT);
    for (int i = 0; i < 3; i++)
        spn_future_unref(f[i]);
    CHECK_OK(spn_completion_destroy(c));
    CHECK_OK(spn_queue_destroy(queue));
}

/* ---- many ----------------------------------------------------------------------------- */

enum { PRODUCERS = 2, CONSUMERS = 2, EACH = 200 };

struct crowd {
    spn_completion *c;
    spn_manual_executor *m;
    atomic_int seen[PRODUCERS * EACH];
    atomic_int left, submitted;
};

static int mark(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static void produce_or_consume(int index, void *arg)
{
    struct crowd *w = arg;

    if (index < PRODUCERS) {
        for (int i = 0; i < EACH; i++)
            CHECK_OK(spn_completion_submit(w->c, mark, &w->seen[index * EACH + i], NULL,
                                           NULL));
        return;
    }
    if (index == PRODUCERS) { /* the executor's thread */
        for (int64_t ran = 0; ran < PRODUCERS * EACH;)
            ran += spn_manual_executor_run(w->m, INT64_MAX);
        return;
    }
    while (atomic_fetch_sub(&w->left, 1) > 0) {
        spn_future *f;
        void *value = NULL;

        REQUIRE_OK(spn_completion_take(w->c, &f, SPN_FOREVER));
        CHECK(spn_future_get_state(f) != SPN_FUTURE_PENDING);
        CHECK_OK(spn_future_get(f, &value, 0));
        atomic_fetch_add((atomic_int *)value, 1);
        spn_future_unref(f);
    }
}

/* Many who submit and many who take: each future goes to one. */
TEST(completion__many_producers_and_consumers__each_future_once, "ECS-12", "G-15")
{
    static struct crowd w;
    const int rounds = t_rounds(20);
    long before = 0;

    for (int r = 0; r < rounds; r++) {
        w.m = manual();
        w.c = service(spn_manual_executor_executor(w.m));
        atomic_store(&w.left, PRODUCERS * EACH);
        for (int i = 0; i < PRODUCERS * EACH; i++)
            atomic_store(&w.seen[i], 0);
        t_parallel(PRODUCERS + 1 + CONSUMERS, produce_or_consume, &w);
        for (int i = 0; i < PRODUCERS * EACH; i++)
            CHECK_EQ(atomic_load(&w.seen[i]), 1);
        CHECK_OK(spn_completion_destroy(w.c));
        CHECK_OK(spn_manual_executor_destroy(w.m));
        if (r == 0)
            before = atomic_load(&counting_live);
    }
    CHECK(atomic_load(&counting_live) <= before + PRODUCERS + 1 + CONSUMERS);
}
