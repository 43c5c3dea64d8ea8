/* SPDX-License-Identifier: MIT */
/* test_context.c - the context that goes with a task, over every way a task can run. */
#include "counting.h"
#include "peer.h"
#include "pool_calls.h"
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <spindle.h>

static int key, other_key;
static atomic_int ended; /* contexts made by make() that have ended */

static void end_value(void *value)
{
    CHECK(value == &key);
    atomic_fetch_add(&ended, 1);
}

/* A context that counts its end. */
static spn_context *make(const char *trace)
{
    const spn_context_value value = { &key, &key, end_value };
    spn_context_opts opts = SPN_CONTEXT_OPTS_INIT;
    spn_context *context = NULL;

    opts.trace = trace;
    opts.trace_size = strlen(trace);
    opts.values = &value;
    opts.value_count = 1;
    REQUIRE_OK(spn_context_create(&context, &opts));
    return context;
}

static const char *trace_now(void)
{
    const char *trace = spn_context_trace(spn_context_current(), NULL);

    return trace != NULL ? trace : "-";
}

/* What a task saw. */
struct seen {
    char trace[8];
    atomic_int runs;
};

static void look(struct seen *s)
{
    snprintf(s->trace, sizeof s->trace, "%s", trace_now());
    atomic_fetch_add(&s->runs, 1);
}

static int look_call(void *arg, void **result)
{
    (void)result;
    look(arg);
    return 0;
}

static int look_run(void *arg)
{
    look(arg);
    return 0;
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

/* ---- the context itself ----------------------------------------------------------------- */

/* A child has what its parent has, unless it has its own; the earlier deadline counts. */
TEST(context__child__inherits_and_overrides, "G-19")
{
    const spn_context_value values[] = { { &other_key, &key, NULL },
                                         { &other_key, &ended, NULL } };
    spn_context *parent = make("abc"), *child = NULL, *grandchild = NULL;
    spn_context_opts opts = SPN_CONTEXT_OPTS_INIT;
    size_t size = 99;

    opts.parent = parent;
    opts.deadline_ns = 1000;
    opts.values = values;
    opts.value_count = 2;
    REQUIRE_OK(spn_context_create(&child, &opts));
    CHECK_STR(spn_context_trace(child, &size), "abc");
    CHECK_EQ(size, 3);
    CHECK(spn_context_get(child, &key) == &key);
    CHECK(spn_context_get(child, &other_key) == &ended); /* the last one */
    CHECK(spn_context_get(parent, &other_key) == NULL);
    CHECK_EQ(spn_context_remaining(parent), SPN_FOREVER);
    CHECK_EQ(spn_context_remaining(child), 0); /* long ago */

    opts = (spn_context_opts)SPN_CONTEXT_OPTS_INIT;
    opts.parent = child;
    opts.deadline_ns = spn_now() + SPN_SEC(1000);
    opts.trace = "a\0b";
    opts.trace_size = 3;
    REQUIRE_OK(spn_context_create(&grandchild, &opts));
    CHECK_EQ(spn_context_remaining(grandchild), 0); /* the earlier */
    CHECK(memcmp(spn_context_trace(grandchild, &size), "a\0b", 4) == 0);
    CHECK_EQ(size, 3);

    atomic_store(&ended, 0);
    spn_context_unref(parent);
    spn_context_unref(child);
    CHECK_EQ(atomic_load(&ended), 0); /* the grandchild keeps them */
    CHECK(spn_context_get(grandchild, &key) == &key);
    spn_context_unref(grandchild);
    CHECK_EQ(atomic_load(&ended), 1);
}

/* No context is an empty one. */
TEST(context__none__is_empty, "G-13")
{
    spn_context *empty = NULL;
    size_t size = 9;

    CHECK(spn_context_current() == NULL);
    CHECK(spn_context_trace(NULL, &size) == NULL && size == 0);
    CHECK_EQ(spn_context_remaining(NULL), SPN_FOREVER);
    CHECK(spn_context_get(NULL, &key) == NULL);
    REQUIRE_OK(spn_context_create(&empty, NULL));
    CHECK(spn_context_trace(empty, &size) == NULL && size == 0);
    CHECK_EQ(spn_context_remaining(empty), SPN_FOREVER);
    spn_context_unref(empty);
}

/* A deadline in the future leaves what is left of it. */
TEST(context__deadline_ahead__remaining_is_a_timeout, "G-19")
{
    spn_context_opts opts = SPN_CONTEXT_OPTS_INIT;
    spn_context *context;
    int64_t left_ns;

    opts.deadline_ns = spn_now() + SPN_SEC(100);
    REQUIRE_OK(spn_context_create(&context, &opts));
    left_ns = spn_context_remaining(context);
    CHECK(left_ns > 0 && left_ns <= SPN_SEC(100));
    spn_context_unref(context);
}

/* Scopes nest; what is left in another order, twice or by another thread is refused. */
static int leave_it(void *scope)
{
    return spn_context_leave(scope);
}

TEST(context__scopes__nest_and_tell_mistakes, "G-13")
{
    spn_context *a = make("a"), *b = make("b");
    spn_context_scope outer = SPN_CONTEXT_SCOPE_INIT, inner = SPN_CONTEXT_SCOPE_INIT;
    spn_context_scope none = SPN_CONTEXT_SCOPE_INIT;
    struct peer p;

    CHECK_STATUS(spn_context_leave(&none), SPN_ESTATE);
    CHECK_OK(spn_context_enter(&outer, a));
    CHECK_STR(trace_now(), "a");
    CHECK_OK(spn_context_enter(&inner, b));
    CHECK_STR(trace_now(), "b");
    CHECK_STATUS(spn_context_leave(&outer), SPN_ESTATE);
    peer_start(&p, leave_it, &inner);
    CHECK_STATUS(peer_finish(&p), SPN_ESTATE);
    CHECK_OK(spn_context_enter(&none, NULL));
    CHECK_STR(trace_now(), "-");
    CHECK_OK(spn_context_leave(&none));
    CHECK_OK(spn_context_leave(&inner));
    CHECK_STATUS(spn_context_leave(&inner), SPN_ESTATE);
    CHECK_STR(trace_now(), "a");
    CHECK_OK(spn_context_leave(&outer));
    CHECK(spn_context_current() == NULL);
    spn_context_unref(a);
    spn_context_unref(b);
}

/* ---- on its way ------------------------------------------------------------------------ */

/* Ways to hand look() to an executor with the context that is current. */
typedef int (*submit_fn)(spn_executor *executor, struct seen *seen, spn_future **out);

static int by_submit(spn_executor *executor, struct seen *seen, spn_future **out)
{
    return spn_executor_submit(executor, look_call, seen, out);
}

static int by_call(spn_executor *executor, struct seen *seen, spn_future **out)
{
    *out = NULL;
    return spn_executor_call(executor, look_run, seen);
}

static int look_then(void *arg, void *value, void **result)
{
    (void)value;
    return look_call(arg, result);
}

static int by_stage(spn_executor *executor, struct seen *seen, spn_future **out)
{
    spn_future *source;
    int rc;

    REQUIRE_OK(spn_future_create_completed(&source, NULL));
    rc = spn_future_then(source, executor, look_then, seen, out);
    spn_future_unref(source);
    return rc;
}

static int by_supply(spn_executor *executor, struct seen *seen, spn_future **out)
{
    return spn_executor_submit(executor, look_call, seen, out);
}

struct looking_job {
    spn_job job; /* first */
    struct seen *seen;
};

static int run_job(spn_task *task)
{
    struct looking_job *j = (struct looking_job *)(void *)task;
    struct seen *seen = j->seen;

    free(j);
    look(seen);
    return 0;
}

static void drop_job(spn_task *task, int reason)
{
    (void)reason;
    free(task);
}

static int by_job(spn_executor *executor, struct seen *seen, spn_future **out)
{
    struct looking_job *j = malloc(sizeof *j);
    int rc;

    REQUIRE(j != NULL);
    *out = NULL;
    j->job = (spn_job)SPN_JOB_INIT(run_job, drop_job);
    j->seen = seen;
    rc = spn_executor_execute(executor, &j->job.task);
    if (rc != SPN_OK)
        free(j);
    return rc;
}

static int by_group(spn_executor *executor, struct seen *seen, spn_future **out)
{
    static spn_group *group;

    if (group == NULL)
        REQUIRE_OK(spn_group_create(&group, NULL));
    return spn_group_submit(group, executor, look_call, seen, out);
}

static const struct {
    const char *name;
    submit_fn submit;
} ways[] = { { "submit", by_submit }, { "call", by_call }, { "stage", by_stage },
             { "supply", by_supply }, { "job", by_job },   { "group", by_group } };
#define WAYS (sizeof ways / sizeof ways[0])

/* Hands look() over with the context `trace`, or without (NULL), and drops all that the
 * submitter has of it. */
static spn_future *submit_with(const char *trace, submit_fn submit,
                               spn_executor *executor, struct seen *seen)
{
    spn_context *context = trace != NULL ? make(trace) : NULL;
    spn_context_scope scope;
    spn_future *f = NULL;

    REQUIRE_OK(spn_context_enter(&scope, context));
    CHECK_OK(submit(executor, seen, &f));
    CHECK_OK(spn_context_leave(&scope));
    spn_context_unref(context);
    return f;
}

/* Runs a task with a context and one without, in that order on the same thread, and
 * checks what they saw and that the context is gone though the future is kept. */
static void check_ways(spn_executor *executor, void (*run)(void *arg), void *arg)
{
    for (size_t i = 0; i < WAYS; i++) {
        struct seen with = { .runs = 0 }, without = { .runs = 0 };
        spn_future *a, *b;

        atomic_store(&ended, 0);
        a = submit_with("one", ways[i].submit, executor, &with);
        b = submit_with(NULL, ways[i].submit, executor, &without);
        run(arg);
        T_AWAIT(atomic_load(&with.runs) == 1 && atomic_load(&without.runs) == 1);
        T_AWAIT(atomic_load(&ended) == 1);
        CHECK_STR(with.trace, "one");
        CHECK_STR(without.trace, "-");
        CHECK(spn_context_current() == NULL);
        spn_future_unref(a);
        spn_future_unref(b);
    }
}

static void do_nothing(void *arg)
{
    (void)arg;
}

static void run_manual(void *manual)
{
    spn_context *mine = make("mine");
    spn_context_scope scope;

    REQUIRE_OK(spn_context_enter(&scope, mine)); /* none of theirs */
    CHECK(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    CHECK_STR(trace_now(), "mine");
    CHECK_OK(spn_context_leave(&scope));
    atomic_fetch_sub(&ended, 1);
    spn_context_unref(mine);
}

/* Run by another thread, or later, with a context of its own: the task sees the
 * submitter's, and the runner its own again. */
TEST(context__manual_executor__submitters_only, "G-19")
{
    spn_manual_executor *manual;

    REQUIRE_OK(spn_manual_executor_create(&manual));
    check_ways(spn_manual_executor_executor(manual), run_manual, manual);
    CHECK_OK(spn_manual_executor_destroy(manual));
}

TEST(context__direct_executor__submitters_only, "G-19")
{
    check_ways(spn_executor_direct(), do_nothing, NULL);
}

/* The one worker of a pool runs both: the second does not see the first's. */
TEST(context__pool_worker__isolated_from_the_next_task, "G-19", "S-9", "P40")
{
    spn_pool *pool = pool_of(1, -1);

    check_ways(spn_pool_executor(pool), do_nothing, NULL);
    end_pool(pool);
}

/* The same where a call needs no node, and through a limiter that hands over later. */
TEST(context__lanes_and_limiter__isolated_from_the_next_task, "G-19")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
    spn_limiter_opts limits = SPN_LIMITER_OPTS_INIT;
    spn_limiter *limiter;
    spn_pool *pool;

    opts.queue_kind = SPN_POOL_LANES;
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    check_ways(spn_pool_executor(pool), do_nothing, NULL);
    limits.executor = spn_pool_executor(pool);
    limits.max_in_flight = 1;
    limits.max_waiting = 1;
    REQUIRE_OK(spn_limiter_create(&limiter, &limits));
    for (int i = 0; i < 20; i++) {
        struct seen with = { .runs = 0 }, without = { .runs = 0 };

        atomic_store(&ended, 0);
        (void)submit_with("one", by_job, spn_limiter_executor(limiter), &with);
        (void)submit_with(NULL, by_job, spn_limiter_executor(limiter), &without);
        T_AWAIT(atomic_load(&with.runs) == 1 && atomic_load(&without.runs) == 1);
        T_AWAIT(atomic_load(&ended) == 1);
        CHECK_STR(with.trace, "one");
        CHECK_STR(without.trace, "-");
        T_AWAIT(spn_limiter_destroy(limiter) != SPN_EBUSY);
        REQUIRE_OK(spn_limiter_create(&limiter, &limits));
    }
    CHECK_OK(spn_limiter_destroy(limiter));
    end_pool(pool);
}

/* A pool whose caller runs what does not fit: the task has the submitter's, and the
 * submitter its own afterwards. */
static int wait_for_gate(void *gate)
{
    T_AWAIT(atomic_load((atomic_int *)gate) != 0);
    return 0;
}

TEST(context__caller_runs__same_and_put_back, "TPE-76", "G-19", "P40")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, 1);
    struct seen fills = { .runs = 0 };
    atomic_int gate = 0;
    spn_pool *pool;

    opts.reject = spn_reject_caller_runs();
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), wait_for_gate, &gate));
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), look_run, &fills));
    for (size_t i = 0; i < WAYS; i++) {
        spn_context *mine = make("mine");
        spn_context_scope scope;
        struct seen seen = { .runs = 0 };
        spn_future *f = NULL;

        atomic_store(&ended, 0);
        REQUIRE_OK(spn_context_enter(&scope, mine));
        CHECK_OK(ways[i].submit(spn_pool_executor(pool), &seen, &f));
        CHECK_EQ(atomic_load(&seen.runs), 1); /* here and now */
        CHECK_STR(seen.trace, "mine");
        CHECK_STR(trace_now(), "mine");
        CHECK_OK(spn_context_leave(&scope));
        spn_context_unref(mine);
        CHECK_EQ(atomic_load(&ended), 1);
        spn_future_unref(f);
    }
    atomic_store(&gate, 1);
    end_pool(pool);
}

/* A stage without an executor belongs to who attached it, whoever completes the source. */
TEST(context__stage__attachers_on_the_completers_thread, "CF-45", "G-19")
{
    spn_context *a = make("a"), *b = make("b");
    spn_context_scope scope;
    struct seen with = { .runs = 0 }, without = { .runs = 0 };
    spn_future *source, *first, *second;

    atomic_store(&ended, 0);
    REQUIRE_OK(spn_future_create(&source, NULL));
    REQUIRE_OK(spn_context_enter(&scope, a));
    REQUIRE_OK(spn_future_then(source, NULL, look_then, &with, &first));
    CHECK_OK(spn_context_leave(&scope));
    REQUIRE_OK(spn_future_then(source, NULL, look_then, &without, &second));
    spn_context_unref(a);
    REQUIRE_OK(spn_context_enter(&scope, b));
    CHECK_EQ(spn_future_complete(source, NULL), 1);
    CHECK_STR(trace_now(), "b");
    CHECK_OK(spn_context_leave(&scope));
    CHECK_STR(with.trace, "a");
    CHECK_STR(without.trace, "-");
    CHECK_EQ(atomic_load(&ended), 1);
    spn_context_unref(b);
    spn_future_unref(first);
    spn_future_unref(second);
    spn_future_unref(source);
}

/* ---- let go ---------------------------------------------------------------------------- */

/* What will not run keeps no context: cancelled, dropped, taken back, refused. */
TEST(context__task_that_does_not_run__lets_go_at_once, "FUT-16", "G-16")
{
    for (size_t i = 0; i < WAYS; i++) {
        struct seen seen = { .runs = 0 };
        spn_manual_executor *manual;
        spn_future *f;

        REQUIRE_OK(spn_manual_executor_create(&manual));
        atomic_store(&ended, 0);
        f = submit_with("x", ways[i].submit, spn_manual_executor_executor(manual),
                        &seen);
        CHECK_EQ(atomic_load(&ended), 0);
        if (f != NULL) {
            CHECK_EQ(spn_future_cancel(f, 0), 1);
            CHECK_EQ(atomic_load(&ended), 1);
            spn_future_unref(f);
        }
        CHECK_OK(spn_manual_executor_drop_all(manual, SPN_ECANCELED, NULL));
        CHECK_EQ(atomic_load(&ended), 1);
        CHECK_OK(spn_executor_shutdown(spn_manual_executor_executor(manual)));

        /* Refused. */
        {
            spn_context *context = make("y");
            spn_context_scope scope;

            REQUIRE_OK(spn_context_enter(&scope, context));
            if (ways[i].submit != by_stage)
                CHECK_STATUS(ways[i].submit(spn_manual_executor_executor(manual), &seen,
                                            &f),
                             SPN_EREJECTED);
            CHECK_OK(spn_context_leave(&scope));
            spn_context_unref(context);
            CHECK_EQ(atomic_load(&ended), 2);
        }
        CHECK_EQ(atomic_load(&seen.runs), 0);
        CHECK_OK(spn_manual_executor_destroy(manual));
    }
}

static void run_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    (void)ctx;
    CHECK_OK(spn_task_drop(task, SPN_ECANCELED));
}

/* Given back by a pool, a job has no context any more. */
TEST(context__given_back_by_a_pool__let_go, "TPE-52", "G-16")
{
    struct seen seen = { .runs = 0 };
    spn_pool *pool = pool_of(1, -1);
    atomic_int gate = 0;
    int64_t count = 0;

    CHECK_OK(spn_executor_call(spn_pool_executor(pool), wait_for_gate, &gate));
    atomic_store(&ended, 0);
    (void)submit_with("x", by_job, spn_pool_executor(pool), &seen);
    CHECK_OK(pool_shutdown_now(pool, run_back, NULL, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(atomic_load(&ended), 1);
    atomic_store(&gate, 1);
    CHECK_OK(pool_await(pool, SPN_FOREVER));
    CHECK_OK(spn_pool_destroy(pool));
    CHECK_EQ(atomic_load(&seen.runs), 0);
}

static int end_thread_call(void *arg, void **result)
{
    (void)look_call(arg, result);
    pthread_exit(NULL);
}

/* A task that ends its thread lets go as well, and its successor has none. */
TEST(context__task_ends_its_thread__let_go, "G-21")
{
    struct seen seen = { .runs = 0 }, next = { .runs = 0 };
    spn_pool *pool = pool_of(1, -1);
    spn_context *context = make("x");
    spn_context_scope scope;
    spn_future *f;

    atomic_store(&ended, 0);
    REQUIRE_OK(spn_context_enter(&scope, context));
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(pool), end_thread_call, &seen, &f));
    CHECK_OK(spn_context_leave(&scope));
    spn_context_unref(context);
    CHECK_STATUS(spn_future_get(f, NULL, SPN_FOREVER), SPN_EFAILED);
    T_AWAIT(atomic_load(&ended) == 1);
    CHECK_STR(seen.trace, "x");
    spn_future_unref(f);
    f = submit_with(NULL, by_submit, spn_pool_executor(pool), &next);
    CHECK_OK(spn_future_get(f, NULL, SPN_FOREVER));
    CHECK_STR(next.trace, "-");
    spn_future_unref(f);
    end_pool(pool);
}

static int end_thread_run(void *arg)
{
    (void)arg;
    pthread_exit(NULL);
}

/* So does a call, whose context is nobody's but its own. */
TEST(context__call_ends_its_thread__let_go, "G-21")
{
    spn_pool *pool = pool_of(1, -1);
    spn_context *context = make("x");
    spn_context_scope scope;

    atomic_store(&ended, 0);
    REQUIRE_OK(spn_context_enter(&scope, context));
    REQUIRE_OK(spn_executor_call(spn_pool_executor(pool), end_thread_run, NULL));
    CHECK_OK(spn_context_leave(&scope));
    spn_context_unref(context);
    T_AWAIT(atomic_load(&ended) == 1);
    end_pool(pool);
}

static spn_context *left_open;

static int forget_to_leave(void *arg)
{
    static spn_context_scope scope;

    look(arg);
    CHECK_OK(spn_context_enter(&scope, left_open));
    return 0;
}

/* A scope that a task has forgotten to leave does not reach the next one. */
TEST(context__scope_left_open__closed_with_the_task, "S-9")
{
    spn_pool *pool = pool_of(1, -1);

    left_open = make("open");
    for (int i = 0; i < 3; i++) {
        struct seen seen = { .runs = 0 };

        CHECK_OK(spn_executor_call(spn_pool_executor(pool), forget_to_leave, &seen));
        T_AWAIT(atomic_load(&seen.runs) == 1);
        CHECK_STR(seen.trace, "-");
    }
    end_pool(pool);
    CHECK_OK(spn_executor_call(spn_executor_direct(), forget_to_leave,
                               &(struct seen){ .runs = 0 }));
    CHECK(spn_context_current() == NULL);
    atomic_store(&ended, 0);
    spn_context_unref(left_open);
    CHECK_EQ(atomic_load(&ended), 1);
}
