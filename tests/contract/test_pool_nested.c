/* SPDX-License-Identifier: MIT */
/* test_pool_nested.c - futures of a pool, tasks that wait for tasks of their own pool,
 * and waiters that help. */
#include "pools.h"

#include <spindle/context.h>

static int give_back(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static int wait_at_gate(void *arg, void **result)
{
    (void)result;
    return spn_latch_await(arg, SPN_FOREVER);
}

/* ---- futures of a pool --------------------------------------------------------------- */

struct get_call {
    spn_future *future;
    int64_t timeout_ns;
    int rc; /* what get said */
};

static int get(void *arg)
{
    struct get_call *g = arg;

    return spn_future_get(g->future, NULL, g->timeout_ns);
}

/* A getter can be interrupted, and the task goes on. */
TEST_EACH(pool__getter_interrupted__task_goes_on, "TPE-84", "EXE-10")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct get_call g = { .timeout_ns = SPN_FOREVER };
    struct peer peer;

    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(b.pool), wait_at_gate, gate, &g.future));
    T_AWAIT(pool_stats(b.pool).active == 1);
    peer_start(&peer, get, &g);
    peer_await_blocked(&peer);
    CHECK_OK(spn_thread_interrupt(peer.thread));
    CHECK_STATUS(peer_finish(&peer), SPN_EINTR);
    CHECK_EQ(peer.flag_after, 0);
    CHECK_STATUS(spn_future_get(g.future, NULL, 0), SPN_ETIMEDOUT);
    CHECK_EQ(pool_stats(b.pool).active, 1);
    gate_open(gate);
    CHECK_OK(spn_future_get(g.future, NULL, SPN_FOREVER));
    spn_future_unref(g.future);
    bed_close(&b);
    gate_free(gate);
}

/* cancel without interrupt, of one that runs and one that waits: both read cancelled at
 * once, and the one that waited never runs. */
TEST_EACH(pool__futures_cancelled__read_cancelled_and_never_start, "TPE-85", "X-9")
{
    struct bed b = bed_open(k, 1, 1);
    spn_executor *ex = spn_pool_executor(b.pool);
    spn_latch *gate = gate_new();
    spn_future *runs, *waits, *after;
    spn_future *both[2];
    void *value = NULL;

    REQUIRE_OK(spn_executor_submit(ex, wait_at_gate, gate, &runs));
    T_AWAIT(pool_stats(b.pool).active == 1);
    REQUIRE_OK(spn_executor_submit(ex, wait_at_gate, gate, &waits));
    REQUIRE_OK(spn_executor_submit(ex, give_back, &after, &after));
    both[0] = runs;
    both[1] = waits;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(spn_future_cancel(both[i], 0), 1);
        CHECK_EQ(spn_future_get_state(both[i]), SPN_FUTURE_CANCELED);
        CHECK(spn_future_get_state(both[i]) != SPN_FUTURE_PENDING);
        CHECK_STATUS(spn_future_get(both[i], NULL, SPN_FOREVER), SPN_ECANCELED);
        CHECK_STATUS(spn_future_get(both[i], NULL, 0), SPN_ECANCELED);
    }
    CHECK_EQ(pool_stats(b.pool).active, 1); /* not interrupted */
    gate_open(gate);
    CHECK_OK(spn_future_get(after, &value, SPN_FOREVER));
    CHECK(value == &after);
    spn_future_unref(runs);
    spn_future_unref(waits);
    spn_future_unref(after);
    bed_close(&b);
    gate_free(gate);
}

static atomic_int told;

static int wait_to_be_told(void *arg, void **result)
{
    const int rc = spn_latch_await(arg, SPN_FOREVER);

    (void)result;
    atomic_fetch_add(&told, rc == SPN_EINTR);
    return 0;
}

/* cancel with interrupt reaches the task that runs, and not the next one. */
TEST_EACH(pool__future_cancelled_with_interrupt__only_its_task_hears, "TPE-85",
          "TPE-64")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p;
    spn_future *f;

    atomic_store(&told, 0);
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(b.pool), wait_to_be_told, gate, &f));
    piece_init(&p, NULL);
    CHECK_OK(execute(b.pool, &p));
    T_AWAIT(pool_stats(b.pool).active == 1);
    CHECK_EQ(spn_future_cancel(f, 1), 1);
    T_AWAIT(ended(&p) == 1);
    CHECK_EQ(p.flag, 0);
    CHECK(atomic_load(&told) <= 1); /* it may not have begun */
    spn_future_unref(f);
    bed_close(&b);
    gate_free(gate);
}

/* Futures made by hand, with options of their own, go through the pool like those of
 * submit: the custom task. */
static atomic_int made_done;

static void count_done(spn_future *future, void *arg)
{
    (void)future;
    (void)arg;
    atomic_fetch_add(&made_done, 1);
}

TEST_EACH(pool__custom_futures__submitted_removed_purged, "TPE-86", "TPE-44", "TPE-45")
{
    struct bed b = bed_open(k, 1, 1);
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_latch *gate = gate_new();
    struct piece hold;
    spn_future *f[3];
    spn_task *seen[3];
    void *value = NULL;

    atomic_store(&made_done, 0);
    opts.done = count_done;
    piece_init(&hold, gate);
    start(b.pool, &hold);
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(spn_future_create_task(&f[i], give_back, &f[i], &opts));
        CHECK_OK(spn_future_submit(f[i], spn_pool_executor(b.pool)));
        CHECK_STATUS(spn_future_submit(f[i], spn_pool_executor(b.pool)), SPN_EBUSY);
    }
    REQUIRE(spn_pool_snapshot(b.pool, seen, 3) == 3);
    CHECK(spn_future_of_task(seen[0]) == f[0]);
    CHECK_EQ(pool_remove(b.pool, seen[0]), 1);
    CHECK_OK(spn_task_drop(seen[0], SPN_ECANCELED));
    CHECK_EQ(spn_future_get_state(f[0]), SPN_FUTURE_CANCELED);
    CHECK_EQ(spn_future_cancel(f[1], 0), 1);
    CHECK_EQ(spn_pool_purge(b.pool), 1);
    CHECK_EQ(pool_stats(b.pool).queued, 1);
    gate_open(gate);
    CHECK_OK(spn_future_get(f[2], &value, SPN_FOREVER));
    CHECK(value == &f[2]);
    bed_close(&b);
    CHECK_EQ(atomic_load(&made_done), 3);
    for (int i = 0; i < 3; i++)
        spn_future_unref(f[i]);
    gate_free(gate);
}

/* A future outlives its pool. */
TEST_EACH(pool__future_kept_longer_than_the_pool__still_readable, "TPE-67", "G-16")
{
    struct bed b = bed_open(k, 1, 1);
    spn_future *f;
    void *value = NULL;

    REQUIRE_OK(spn_executor_submit(spn_pool_executor(b.pool), give_back, &f, &f));
    bed_close(&b);
    CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
    CHECK(value == &f);
    CHECK_EQ(spn_future_cancel(f, 1), 0);
    spn_future_unref(f);
}

/* ---- tasks that wait for their own pool -------------------------------------------------- */

/* One per depth, because one that waits in vain returns before what it waited for. */
enum { DEPTH_MAX = 8 };

struct nest {
    spn_pool *pool;
    int depth;
    atomic_int rc; /* of the innermost wait that was not SPN_OK */
};

static struct nest nests[DEPTH_MAX];

static struct nest *nest_of(spn_pool *pool, int depth)
{
    struct nest *n = &nests[depth];

    n->pool = pool;
    n->depth = depth;
    atomic_store(&n->rc, SPN_OK);
    return n;
}

static int go_deeper(void *arg, void **result)
{
    struct nest *n = arg, *inner;
    spn_future *f;
    int rc;

    (void)result;
    if (n->depth == 0)
        return 0;
    inner = nest_of(n->pool, n->depth - 1);
    rc = spn_executor_submit(spn_pool_executor(n->pool), go_deeper, inner, &f);
    if (rc == SPN_OK) {
        rc = spn_future_get(f, NULL, SPN_FOREVER);
        spn_future_unref(f); /* it goes on, or is run later */
    }
    atomic_store(&n->rc, rc != SPN_OK ? rc : atomic_load(&inner->rc));
    return 0;
}

/* What the waits of a nesting of that depth came to, when all of it is over. */
static int nest_in(spn_pool *pool, int depth)
{
    struct nest *n = nest_of(pool, depth);
    spn_future *f;

    REQUIRE_OK(spn_executor_submit(spn_pool_executor(pool), go_deeper, n, &f));
    CHECK_OK(spn_future_get(f, NULL, SPN_FOREVER));
    spn_future_unref(f);
    pool_rest(pool);
    return atomic_load(&n->rc);
}

/* Pools of one and more, deeper than they have threads: a wait that could never end
 * is refused with EDEADLK, and all goes on. */
TEST(nested__deeper_than_the_pool__edeadlk_not_a_hang, "P6")
{
    for (int32_t threads = 1; threads <= 3; threads++) {
        spn_pool *pool = pool_of(threads, threads, SPN_UNBOUNDED);

        CHECK_STATUS(nest_in(pool, threads + 2), SPN_EDEADLK);
        pool_close(pool);
    }
}

/* The same as deep as there are threads: it just works. */
TEST(nested__as_deep_as_the_pool__completes, "P6")
{
    for (int32_t threads = 1; threads <= 4; threads++) {
        spn_pool *pool = pool_of(threads, threads, SPN_UNBOUNDED);

        CHECK_OK(nest_in(pool, threads - 1));
        pool_close(pool);
    }
}

/* Before it refuses, the pool grows to its maximum. */
TEST(nested__room_for_threads__the_pool_grows, "P6")
{
    spn_pool *pool = pool_of(1, 4, SPN_UNBOUNDED);

    CHECK_OK(nest_in(pool, 3));
    CHECK_EQ(pool_stats(pool).largest, 4);
    pool_close(pool);
}

static int wait_for_each_other(void *arg, void **result)
{
    struct get_call *g = arg;

    (void)result;
    g->rc = spn_future_get(g->future, NULL, g->timeout_ns);
    return 0;
}

/* The only worker waits with a time limit for what it would have to run itself: that is no
 * deadlock, since it gives up by itself. */
TEST(nested__timed_wait_of_the_last_worker__times_out, "G-7", "P6")
{
    spn_pool *pool = pool_of(1, 1, SPN_UNBOUNDED);
    spn_latch *gate = gate_new();
    struct get_call g = { .timeout_ns = SPN_MS(1) };
    struct piece hold;
    spn_future *waiter;

    piece_init(&hold, gate);
    start(pool, &hold);
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(pool), wait_for_each_other, &g, &waiter));
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(pool), give_back, NULL, &g.future));
    gate_open(gate);
    CHECK_OK(spn_future_get(waiter, NULL, SPN_FOREVER));
    CHECK_STATUS(g.rc, SPN_ETIMEDOUT);
    CHECK_OK(spn_future_get(g.future, NULL, SPN_FOREVER));
    spn_future_unref(waiter);
    spn_future_unref(g.future);
    pool_close(pool);
    gate_free(gate);
}

/* One worker waits without a limit, then the last one with a limit, or the other way round:
 * neither is refused, and when the limit has passed both tasks are run. */
static void wait_in_turn(int64_t first_ns, int64_t second_ns)
{
    spn_pool *pool = pool_of(2, 2, SPN_UNBOUNDED);
    spn_executor *executor = spn_pool_executor(pool);
    spn_latch *gate = gate_new();
    struct get_call g[2] = { { .timeout_ns = first_ns }, { .timeout_ns = second_ns } };
    struct piece hold[2];
    spn_future *waiter[2];

    for (int i = 0; i < 2; i++) {
        piece_init(&hold[i], gate);
        start(pool, &hold[i]);
    }
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(
            spn_executor_submit(executor, wait_for_each_other, &g[i], &waiter[i]));
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(spn_executor_submit(executor, give_back, NULL, &g[i].future));
    gate_open(gate);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(spn_future_get(waiter[i], NULL, SPN_FOREVER));
        CHECK(g[i].rc == SPN_OK || g[i].rc == SPN_ETIMEDOUT);
        CHECK(g[i].rc == SPN_OK || g[i].timeout_ns != SPN_FOREVER);
        CHECK_OK(spn_future_get(g[i].future, NULL, SPN_FOREVER));
        spn_future_unref(waiter[i]);
        spn_future_unref(g[i].future);
    }
    pool_close(pool);
    gate_free(gate);
}

TEST(nested__one_of_two_waits_with_a_limit__none_refused, "G-7", "P6")
{
    wait_in_turn(SPN_FOREVER, SPN_MS(1));
    wait_in_turn(SPN_MS(1), SPN_FOREVER);
}

/* ---- the context goes with the task ------------------------------------------------------------ */

static spn_context *context_of(const char *trace)
{
    spn_context_opts opts = SPN_CONTEXT_OPTS_INIT;
    spn_context *context;

    opts.trace = trace;
    opts.trace_size = strlen(trace);
    REQUIRE_OK(spn_context_create(&context, &opts));
    return context;
}

static int tell_trace(void *arg, void **result)
{
    size_t size;

    (void)arg;
    *result = (void *)(uintptr_t)spn_context_trace(spn_context_current(), &size);
    return 0;
}

static void keep_trace(struct piece *p)
{
    p->arg = (void *)(uintptr_t)spn_context_trace(spn_context_current(), NULL);
}

/* Each task runs with the context of its submitter and nobody else's: on a worker, in
 * the submitter, in who helps. */
TEST_EACH(context__on_a_pool__that_of_the_submitter, "P40")
{
    struct bed b = bed_open(k, 1, 1);
    spn_context *c = context_of("trace-1");
    spn_context_scope scope = SPN_CONTEXT_SCOPE_INIT;
    struct piece job, plain;
    spn_future *f, *g;
    void *trace = NULL;

    job_init(&job, NULL);
    job.act = keep_trace;
    piece_init(&plain, NULL);
    plain.act = keep_trace;
    CHECK_OK(spn_context_enter(&scope, c));
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(b.pool), tell_trace, NULL, &f));
    CHECK_OK(execute(b.pool, &job));
    CHECK_OK(execute(b.pool, &plain));
    CHECK_OK(spn_context_leave(&scope));
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(b.pool), tell_trace, NULL, &g));
    CHECK_OK(spn_future_get(f, &trace, SPN_FOREVER));
    CHECK_STR(trace, "trace-1");
    CHECK_OK(spn_future_get(g, &trace, SPN_FOREVER));
    CHECK(trace == NULL); /* not that of the task before */
    bed_close(&b);
    CHECK_STR(job.arg, "trace-1");
    CHECK(plain.arg == NULL); /* a plain task has no room for one */
    spn_future_unref(f);
    spn_future_unref(g);
    spn_context_unref(c);
}

static atomic_int values_released;

static void release_value(void *value)
{
    (void)value;
    atomic_fetch_add(&values_released, 1);
}

/* A context is let go on every way out: run, removed, dropped, cancelled, returned,
 * refused. */
TEST_EACH(context__every_way_out__let_go, "P40")
{
    static const int key;
    struct bed b = bed_open(k, 1, 1);
    spn_context_value value = { &key, &value, release_value };
    spn_context_opts opts = SPN_CONTEXT_OPTS_INIT;
    spn_context_scope scope = SPN_CONTEXT_SCOPE_INIT;
    struct left left = { .count = 0 };
    spn_latch *gate = gate_new();
    struct piece hold, ways[5];
    spn_future *cancelled, *purged;
    spn_context *c;

    atomic_store(&values_released, 0);
    opts.values = &value;
    opts.value_count = 1;
    REQUIRE_OK(spn_context_create(&c, &opts));
    piece_init(&hold, gate);
    start(b.pool, &hold);
    CHECK_OK(spn_context_enter(&scope, c));
    for (int i = 0; i < 4; i++) {
        job_init(&ways[i], NULL);
        ways[i].job.owner = i == 1 ? &ways[1] : NULL;
        ways[i].job.deadline_ns = i == 2 ? 1 : 0;
        CHECK_OK(execute(b.pool, &ways[i]));
    }
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(b.pool), give_back, NULL, &cancelled));
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(b.pool), give_back, NULL, &purged));
    CHECK_OK(spn_context_leave(&scope));
    spn_context_unref(c);
    CHECK_EQ(atomic_load(&values_released), 0);
    CHECK_EQ(pool_remove(b.pool, &ways[0].task), 1);
    (void)spn_pool_cancel_owner(b.pool, &ways[1]);
    CHECK_EQ(spn_future_cancel(cancelled, 0), 1);
    CHECK_EQ(spn_future_cancel(purged, 0), 1);
    (void)spn_pool_purge(b.pool);
    CHECK_OK(pool_shutdown_now(b.pool, left_add, &left, NULL));
    for (int i = 0; i < left.count; i++)
        CHECK_OK(spn_task_drop(left.tasks[i], SPN_ESHUTDOWN));
    gate_open(gate);
    bed_close(&b);
    spn_future_unref(cancelled);
    spn_future_unref(purged);
    CHECK_EQ(atomic_load(&values_released), 1); /* nobody keeps it */
    gate_free(gate);
}

/* Refused, or run by the submitter. */
TEST(context__refused_or_run_by_the_submitter__isolated_and_let_go, "P40")
{
    spn_pool_opts opts = opts_of(1, 1, SPN_HANDOFF);
    spn_context *inner = context_of("inner"), *outer = context_of("outer");
    spn_context_scope scope = SPN_CONTEXT_SCOPE_INIT, nested = SPN_CONTEXT_SCOPE_INIT;
    spn_latch *gate = gate_new();
    struct piece hold, job, plain;
    spn_pool *pool;

    pool = pool_with(&opts);
    piece_init(&hold, gate);
    start(pool, &hold);
    CHECK_OK(spn_context_enter(&scope, outer));
    CHECK_OK(spn_context_enter(&nested, inner));
    job_init(&job, NULL);
    job.act = keep_trace;
    CHECK_STATUS(execute(pool, &job), SPN_EREJECTED);
    CHECK_OK(pool_set_reject(pool, spn_reject_caller_runs()));
    CHECK_OK(execute(pool, &job));
    CHECK(ran(&job));
    CHECK_STR(job.arg, "inner");
    piece_init(&plain, NULL);
    plain.act = keep_trace;
    CHECK_OK(execute(pool, &plain));
    CHECK(plain.arg == NULL); /* as it would have been on a worker */
    CHECK(spn_context_current() == inner);
    CHECK_OK(spn_context_leave(&nested));
    CHECK(spn_context_current() == outer);
    CHECK_OK(spn_context_leave(&scope));
    gate_open(gate);
    pool_close(pool);
    spn_context_unref(inner);
    spn_context_unref(outer);
    gate_free(gate);
}
