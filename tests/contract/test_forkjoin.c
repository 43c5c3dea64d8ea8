/* SPDX-License-Identifier: MIT */
/* test_forkjoin.c - the fork/join pool: making, submitting, quiescence, the end; and
 * trees of records on it. */
#include "forkjoin.h"

#include <pthread.h>
#include <string.h>

#include "peer.h"

static void body_of(spn_fj_pool *pool, spn_fj_call_fn fn, void *arg)
{
    CHECK_OK(spn_fj_run(pool, fn, arg));
}

/* ---- records ----------------------------------------------------------------------- */

SPN_FJ_TASK_LEAF(int, fib, n < 2, n, int, n)
{
    int b;

    fib_fork(&fj, n - 1);
    b = fib(fj, n - 2);
    return fib_join(&fj) + b;
}

static void swap(int *a, int *b)
{
    const int t = *a;

    *a = *b;
    *b = t;
}

SPN_FJ_ACTION(quicksort, int *, a, size_t, n)
{
    size_t at = 0;

    if (n < 2)
        return;
    for (size_t i = 0; i + 1 < n; i++)
        if (a[i] < a[n - 1])
            swap(&a[i], &a[at++]);
    swap(&a[at], &a[n - 1]);
    quicksort_fork(&fj, a, at);
    quicksort(fj, a + at + 1, n - at - 1);
    quicksort_join(&fj);
}

/* Trees give the same on one worker, two and the default; a sort sorts. */
TEST(forkjoin__records__same_on_any_number_of_workers, "FJT-28", "FJT-27", "S-7")
{
    for (int32_t p = 0; p <= 4; p++) {
        spn_fj_pool *pool = fj_pool(p == 0 ? SPN_DEFAULT : p);
        uint64_t seed = 7;
        int values[1007], result = 0;

        CHECK_EQ(fj_stats(pool).parallelism, p == 0 ? spn_cpu_count() : p);
        CHECK_OK(fib_invoke(pool, &result, 8));
        CHECK_EQ(result, 21);
        CHECK_OK(fib_invoke(pool, &result, 20));
        CHECK_EQ(result, 6765);
        for (int i = 0; i < 1007; i++)
            values[i] = (int)(t_random(&seed) % 1000);
        CHECK_OK(quicksort_invoke(pool, values, 1007));
        for (int i = 1; i < 1007; i++)
            CHECK(values[i - 1] <= values[i]);
        fj_end(pool);
    }
}

/* Every record of many trees is run once, also when thieves are hungry all the time. */
static atomic_llong leaves;

SPN_FJ_ACTION(count_leaves, int, depth)
{
    if (depth == 0) {
        atomic_fetch_add(&leaves, 1);
        return;
    }
    count_leaves_fork(&fj, depth - 1);
    count_leaves_fork(&fj, depth - 1);
    count_leaves(fj, depth - 1);
    count_leaves_join(&fj);
    count_leaves_join(&fj);
}

TEST(forkjoin__many_trees__each_record_once, "FJT-28")
{
    spn_fj_pool *pool = fj_pool(4);
    const int rounds = t_rounds(40);

    for (int i = 0; i < rounds; i++) {
        atomic_store(&leaves, 0);
        CHECK_OK(count_leaves_invoke(pool, 8));
        CHECK_EQ(atomic_load(&leaves), 6561);
    }
    fj_end(pool);
}

struct plain {
    int n, result;
};

static int plain_fib(spn_fj fj, void *arg)
{
    struct plain *p = arg, a, b;

    p->result = p->n;
    if (p->n < 2)
        return 0;
    a.n = p->n - 1;
    b.n = p->n - 2;
    spn_fj_fork(&fj, plain_fib, &a);
    CHECK_OK(spn_fj_call(fj, plain_fib, &b));
    CHECK_OK(spn_fj_join(&fj));
    p->result = a.result + b.result;
    return 0;
}

/* The plain form needs no macro. */
TEST(forkjoin__plain_functions__same_tree, "FJT-28")
{
    spn_fj_pool *pool = fj_pool(2);
    struct plain p = { .n = 15 };

    CHECK_OK(spn_fj_run(pool, plain_fib, &p));
    CHECK_EQ(p.result, 610);
    fj_end(pool);
}

static int give_seven(spn_fj fj, void *arg)
{
    (void)fj;
    (void)arg;
    return 7;
}

SPN_FJ_TASK(int, fails_at, int, n, int, bad)
{
    if (n == bad)
        spn_fj_fail(fj, -77);
    if (n < 2)
        return n;
    fails_at_fork(&fj, n - 1, bad);
    (void)fails_at(fj, n - 2, bad);
    return fails_at_join(&fj);
}

/* A failure anywhere in the tree comes out at its root, as it is; the next tree is not
 * touched by it. */
TEST(forkjoin__record_fails__root_reports_it, "FJT-18", "FJT-7", "FJP-7")
{
    spn_fj_pool *pool = fj_pool(2);
    int result = 5;

    CHECK_EQ(fails_at_invoke(pool, &result, 12, 1), -77);
    CHECK_EQ(result, 5);
    CHECK_OK(fails_at_invoke(pool, &result, 12, 99));
    CHECK_EQ(spn_fj_run(pool, give_seven, NULL), 7);
    fj_end(pool);
}

SPN_FJ_TASK(int, deep, int, n)
{
    volatile int below[16]; /* so that it is no loop to the compiler */

    if (n == 0)
        return 0;
    deep_fork(&fj, n - 1);
    below[n % 16] = deep_join(&fj);
    return below[n % 16] + 1;
}

/* A million levels on a small stack fail with an error, and the pool lives on. */
TEST(forkjoin__recursion_beyond_the_stack__fails, "FJT-27", "P8")
{
    spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;
    int result = 0;

    thread.stack_size = 256 * 1024;
    opts.thread = &thread;
    opts.parallelism = 2;
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    CHECK_STATUS(deep_invoke(pool, &result, 1000000), SPN_ENOMEM);
    CHECK_OK(deep_invoke(pool, &result, 100));
    CHECK_EQ(result, 100);
    fj_end(pool);
}

SPN_FJ_ACTION(wide, int, n)
{
    int i;

    for (i = 0; i < n; i++)
        count_leaves_fork(&fj, 0);
    for (i = 0; i < n; i++)
        count_leaves_join(&fj);
}

/* More records in one body than a piece of memory holds: the deque grows. */
TEST(forkjoin__more_records_than_a_piece_holds__grows, "FJT-28")
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;

    opts.parallelism = 2;
    opts.records = 3;
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    atomic_store(&leaves, 0);
    CHECK_OK(wide_invoke(pool, 1000));
    CHECK_EQ(atomic_load(&leaves), 1000);
    CHECK_OK(wide_invoke(pool, 1000));
    CHECK_EQ(atomic_load(&leaves), 2000);
    fj_end(pool);
}

/* ---- joins with a lock held (pitfall P7) ------------------------------------------------ */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int takes_lock(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    return 0;
}

static int joins_with_lock(spn_fj fj, void *arg)
{
    spn_fj_task tasks[20], *wanted = arg;
    struct fib_object f;

    (void)fj;
    (void)wanted;
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    for (int i = 0; i < 20; i++) {
        spn_fj_task_init(&tasks[i], takes_lock);
        CHECK_OK(spn_fj_task_fork(&tasks[i]));
    }
    fib_object_init(&f, 12);
    CHECK_OK(spn_fj_task_fork(&f.task));
    CHECK_OK(spn_fj_task_join(&f.task)); /* runs it, and none of those */
    CHECK_EQ(f.value, 144);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < 20; i++)
        CHECK_OK(spn_fj_task_join(&tasks[i]));
    return 0;
}

TEST(forkjoin__join_with_a_lock_held__runs_nothing_else, "FJT-27", "P7")
{
    for (int32_t p = 1; p <= 2; p++) {
        spn_fj_pool *pool = fj_pool(p);

        for (int i = 0; i < t_rounds(50); i++)
            body_of(pool, joins_with_lock, NULL);
        fj_end(pool);
    }
}

/* ---- two pools ---------------------------------------------------------------------------- */

struct two {
    spn_fj_pool *other;
    int result;
};

static int calls_other(spn_fj fj, void *arg)
{
    struct two *t = arg;

    (void)fj;
    return fib_invoke(t->other, &t->result, 15);
}

/* A task may call into another pool, and into its own, without its place. */
TEST(forkjoin__run_from_another_pool_and_from_itself__safe, "FJT-27")
{
    spn_fj_pool *a = fj_pool(1), *b = fj_pool(2);
    struct two to_b = { b, 0 }, to_a = { a, 0 };

    CHECK_OK(spn_fj_run(a, calls_other, &to_b));
    CHECK_EQ(to_b.result, 610);
    CHECK_OK(spn_fj_run(a, calls_other, &to_a));
    CHECK_EQ(to_a.result, 610);
    fj_end(a);
    fj_end(b);
}

/* ---- the pool ------------------------------------------------------------------------------ */

TEST(forkjoin__parallelism_out_of_range__refused, "FJP-1", "FJP-3", "EXE-14")
{
    const int32_t bad[] = { 0, -1, SPN_FJ_PARALLELISM_MAX + 1 };
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool = fj_pool(2), *none;

    for (int i = 0; i < 3; i++) {
        opts.parallelism = bad[i];
        CHECK_STATUS(spn_fj_pool_create(&none, &opts), SPN_EINVAL);
        CHECK(none == NULL);
        CHECK_STATUS(spn_fj_pool_set_parallelism(pool, bad[i]), SPN_EINVAL);
        CHECK_EQ(fj_stats(pool).parallelism, 2);
    }
    CHECK_EQ(spn_fj_pool_set_parallelism(pool, 5), 2);
    CHECK_EQ(fj_stats(pool).parallelism, 5);
    fj_end(pool);
}

TEST(forkjoin__fresh_pool__at_rest, "FJP-2", "FJP-31")
{
    for (int async = 0; async < 2; async++) {
        spn_fj_pool *pool = async ? fj_pool_async(2) : fj_pool(2);
        spn_fj_stats s = fj_stats(pool);

        CHECK_EQ(s.async, async);
        CHECK_EQ(s.active + s.threads + s.blocked, 0);
        CHECK_EQ(s.steals + s.queued_tasks + s.queued_submissions, 0);
        CHECK_EQ(s.state, SPN_EXECUTOR_RUNNING);
        CHECK_EQ(s.pending, 0);
        CHECK_OK(spn_fj_pool_await_quiescence(pool, 0));
        CHECK(spn_fj_pool_current() == NULL);
        CHECK_EQ(spn_fj_worker_index(), -1);
        fj_end(pool);
    }
}

struct look {
    spn_fj_task task;
    spn_fj_pool *pool;
    spn_fj_stats seen;
    int index;
    bool inside;
};

static int look_around(spn_fj fj, spn_fj_task *task)
{
    struct look *l = (struct look *)(void *)task;

    (void)fj;
    l->seen = fj_stats(l->pool);
    l->inside = spn_fj_pool_current() == l->pool;
    l->index = spn_fj_worker_index();
    return 0;
}

TEST(forkjoin__task_looks_at_its_pool__one_thread_active, "FJP-4", "FJP-8", "FJP-31",
     "FJT-24")
{
    spn_fj_pool *pool = fj_pool(1);
    struct look l = { .pool = pool };

    spn_fj_task_init(&l.task, look_around);
    CHECK_OK(fj_invoke(pool, &l.task));
    CHECK_EQ(l.seen.threads, 1);
    CHECK_EQ(l.seen.active, 1);
    CHECK_EQ(l.seen.pending, 1);
    CHECK(l.inside);
    CHECK_EQ(l.index, 0);
    CHECK_EQ(fj_stats(pool).threads, 1);
    CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
    CHECK_EQ(fj_stats(pool).pending, 0);
    CHECK_EQ(fj_stats(pool).queued_tasks + fj_stats(pool).queued_submissions, 0);
    CHECK_OK(spn_fj_pool_close(pool));
    CHECK_EQ(fj_stats(pool).threads + fj_stats(pool).active, 0);
    CHECK_OK(spn_fj_pool_destroy(pool));
}

static int value_of(void *arg, void **result)
{
    *result = arg;
    return arg == NULL ? -5 : 0;
}

/* Futures over the pool. */
TEST(forkjoin__futures__values_and_failures, "FJP-6", "FJP-7", "FJP-26", "FJP-28",
     "EXE-14")
{
    spn_fj_pool *pool = fj_pool_async(2);
    spn_executor *ex = spn_fj_pool_executor(pool);
    spn_future *f;
    void *value = NULL;
    int x;

    CHECK_OK(spn_executor_submit(ex, value_of, &x, &f));
    CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
    CHECK(value == &x);
    spn_future_unref(f);
    CHECK_OK(spn_executor_submit(ex, value_of, NULL, &f));
    CHECK_STATUS(spn_future_get(f, &value, SPN_FOREVER), SPN_EFAILED);
    spn_future_unref(f);
    CHECK_STATUS(spn_executor_submit(ex, NULL, NULL, &f), SPN_EINVAL);
    CHECK_STATUS(spn_executor_invoke_all(ex, NULL, 1, SPN_FOREVER, NULL, &f),
                 SPN_EINVAL);
    CHECK_STATUS(spn_executor_invoke_any(ex, NULL, 1, SPN_FOREVER, NULL, &value, NULL),
                 SPN_EINVAL);
    CHECK_STATUS(spn_executor_invoke_any(ex, NULL, 0, SPN_FOREVER, NULL, &value, NULL),
                 SPN_EINVAL);
    fj_end(pool);
}

/* A worker that waits for a future of its own pool runs it. */
static int waits_for_future(void *arg, void **result)
{
    spn_future *f;
    int rc;

    *result = NULL;
    CHECK_OK(spn_executor_submit(arg, value_of, arg, &f));
    rc = spn_future_get(f, result, SPN_FOREVER);
    spn_future_unref(f);
    return rc;
}

TEST(forkjoin__future_waits_for_future__one_worker_is_enough, "FJT-27", "FJP-18")
{
    spn_fj_pool *pool = fj_pool_async(1);
    spn_future *f;
    void *value = NULL;

    CHECK_OK(spn_executor_submit(spn_fj_pool_executor(pool), waits_for_future,
                                 spn_fj_pool_executor(pool), &f));
    CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
    CHECK(value == spn_fj_pool_executor(pool));
    spn_future_unref(f);
    fj_end(pool);
}

/* ---- submissions ----------------------------------------------------------------------------- */

struct submitter {
    spn_fj_task task;
    spn_fj_pool *pool;
    struct gated own[3];
    spn_fj_stats after;
};

static int submits(spn_fj fj, spn_fj_task *task)
{
    struct submitter *s = (struct submitter *)(void *)task;

    (void)fj;
    for (int i = 0; i < 3; i++) {
        gated_init(&s->own[i], NULL);
        CHECK_OK(spn_fj_pool_submit(s->pool, &s->own[i].task));
    }
    s->after = fj_stats(s->pool);
    return 0;
}

/* From outside into the submission queue, from a worker into its own. */
TEST(forkjoin__submissions__where_they_go, "FJP-17", "FJP-18", "FJP-19", "FJP-30",
     "FJP-33")
{
    spn_fj_pool *pool = fj_pool(1);
    atomic_int gate = 0;
    struct gated holder, waiting[3];
    struct submitter s = { .pool = pool };

    gated_init(&holder, &gate);
    CHECK_OK(spn_fj_pool_submit(pool, &holder.task));
    T_AWAIT(atomic_load(&holder.ran) == 1);
    for (int i = 0; i < 3; i++) {
        gated_init(&waiting[i], NULL);
        CHECK_OK(spn_fj_pool_submit(pool, &waiting[i].task));
        CHECK_EQ(fj_stats(pool).queued_submissions, i + 1);
        CHECK_EQ(fj_stats(pool).queued_tasks, 0);
    }
    CHECK_STATUS(spn_fj_pool_submit(pool, &waiting[0].task), SPN_EBUSY);
    CHECK_EQ(spn_executor_remove(spn_fj_pool_executor(pool), &waiting[0].task.task), 1);
    CHECK_STATUS(spn_fj_task_get(&waiting[0].task, NULL, 0), SPN_ETIMEDOUT);
    CHECK_EQ(fj_stats(pool).queued_submissions, 2);
    atomic_store(&gate, 1);
    CHECK_OK(spn_fj_task_join(&waiting[2].task));
    CHECK_EQ(atomic_load(&waiting[0].ran), 0);
    CHECK_EQ(fj_stats(pool).queued_submissions, 0);
    CHECK_OK(fj_invoke(pool, &waiting[0].task)); /* as new */
    CHECK_EQ(atomic_load(&waiting[0].ran), 1);
    spn_fj_task_init(&s.task, submits);
    CHECK_OK(fj_invoke(pool, &s.task));
    CHECK_EQ(s.after.queued_tasks, 3);
    CHECK_EQ(s.after.queued_submissions, 0);
    CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(atomic_load(&s.own[i].ran), 1);
    fj_end(pool);
}

/* ---- a submission is never left lying --------------------------------------------------------- */

TEST(forkjoin__single_submissions__each_picked_up, "FJP-24")
{
    spn_fj_pool *pool = fj_pool(1);
    const int rounds = t_rounds(4000);
    struct gated g;

    for (int i = 0; i < rounds; i++) {
        gated_init(&g, NULL);
        CHECK_OK(spn_fj_pool_submit(pool, &g.task));
        CHECK_OK(spn_fj_task_join(&g.task));
    }
    fj_end(pool);
}

TEST(forkjoin__one_worker_spins__the_other_takes_the_next, "FJP-25")
{
    spn_fj_pool *pool = fj_pool(2);
    const int rounds = t_rounds(500);

    for (int i = 0; i < rounds; i++) {
        atomic_int gate = 0;
        struct gated spins, second;

        gated_init(&spins, &gate);
        gated_init(&second, NULL);
        CHECK_OK(spn_fj_pool_submit(pool, &spins.task));
        CHECK_OK(spn_fj_pool_submit(pool, &second.task));
        CHECK_OK(spn_fj_task_join(&second.task));
        atomic_store(&gate, 1);
        CHECK_OK(spn_fj_task_join(&spins.task));
    }
    fj_end(pool);
}

/* ---- quiescence ---------------------------------------------------------------------------------- */

TEST(forkjoin__await_quiescence__waits_or_times_out, "FJP-9", "FJP-12")
{
    spn_fj_pool *pool = fj_pool(2);
    atomic_int gate = 0;
    struct gated g;

    gated_init(&g, &gate);
    CHECK_OK(spn_fj_pool_submit(pool, &g.task));
    CHECK_STATUS(spn_fj_pool_await_quiescence(pool, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_fj_pool_await_quiescence(pool, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_executor_await(spn_fj_pool_executor(pool), T_PROBE_NS),
                 SPN_ETIMEDOUT);
    CHECK_EQ(fj_stats(pool).pending, 1);
    atomic_store(&gate, 1);
    CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
    CHECK_EQ(atomic_load(&g.ran), 1);
    fj_end(pool);
}

/* Of the pool whose task the caller is. */
static int await_rest_here(void)
{
    return spn_fj_pool_await_quiescence(spn_fj_pool_current(), SPN_FOREVER);
}

static atomic_int spread;

static int spreads(spn_fj fj, spn_fj_task *task)
{
    static struct gated children[64];
    (void)fj;
    (void)task;
    for (int i = 0; i < 64; i++) {
        gated_init(&children[i], NULL);
        CHECK_OK(spn_fj_task_fork(&children[i].task));
    }
    atomic_fetch_add(&spread, 1);
    if (task->result != NULL) {
        CHECK_OK(await_rest_here());
        for (int i = 0; i < 64; i++)
            CHECK(spn_fj_task_get(&children[i].task, NULL, 0) != SPN_ETIMEDOUT);
        CHECK_EQ(fj_stats(spn_fj_pool_current()).queued_tasks, 0);
    }
    return 0;
}

TEST(forkjoin__await_quiescence_inside__runs_all_that_was_forked, "FJP-9")
{
    for (int32_t p = 1; p <= 2; p++) {
        spn_fj_pool *pool = fj_pool(p);
        spn_fj_task t;

        spn_fj_task_init(&t, spreads);
        spn_fj_task_set_result(&t, &t);
        CHECK_OK(fj_invoke(pool, &t));
        fj_end(pool);
    }
}

/* ---- the end ------------------------------------------------------------------------------------- */

static int helps(spn_fj fj, void *arg)
{
    (void)fj;
    (void)arg;
    return await_rest_here();
}

static int runs_helper(void *arg)
{
    CHECK_OK(spn_fj_run(arg, helps, NULL));
    return 0;
}

/* A plain task stands below the tree that helps: it is not waited for. */
TEST(forkjoin__await_quiescence_in_a_tree_of_a_plain_task__returns, "FJP-9")
{
    spn_fj_pool *pool = fj_pool(2);

    CHECK_OK(spn_executor_call(spn_fj_pool_executor(pool), runs_helper, pool));
    CHECK_OK(spn_fj_pool_await_quiescence(pool, T_LONG_NS));
    fj_end(pool);
}

static atomic_int nested_gate;

static int helps_nested(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    /* The other worker's task has not ended. */
    CHECK_STATUS(spn_fj_pool_await_quiescence(spn_fj_pool_current(), 0), SPN_ETIMEDOUT);
    atomic_store(&nested_gate, 1);
    return 0;
}

static int helps_around(spn_fj fj, void *arg)
{
    (void)fj;
    CHECK_OK(spn_fj_task_fork(arg));
    return await_rest_here();
}

/* One that helps runs another that does: the outer tasks count once. */
TEST(forkjoin__await_quiescence_in_itself__waits_for_what_runs, "FJP-9")
{
    spn_fj_pool *pool = fj_pool(2);
    struct gated other;
    spn_fj_task inner;

    atomic_store(&nested_gate, 0);
    gated_init(&other, &nested_gate);
    CHECK_OK(spn_fj_pool_submit(pool, &other.task));
    T_AWAIT(atomic_load(&other.ran) != 0);
    spn_fj_task_init(&inner, helps_nested);
    body_of(pool, helps_around, &inner);
    CHECK_OK(spn_fj_task_join(&inner));
    CHECK_OK(spn_fj_task_join(&other.task));
    fj_end(pool);
}

TEST(forkjoin__shutdown__submitted_work_completes, "FJP-11", "FJP-13", "FJP-32")
{
    spn_fj_pool *pool = fj_pool(2);
    atomic_int gate = 0;
    struct gated holder, waiting[8], late;

    gated_init(&holder, &gate);
    CHECK_OK(spn_fj_pool_submit(pool, &holder.task));
    for (int i = 0; i < 8; i++) {
        gated_init(&waiting[i], NULL);
        CHECK_OK(spn_fj_pool_submit(pool, &waiting[i].task));
    }
    CHECK_OK(spn_executor_shutdown(spn_fj_pool_executor(pool)));
    gated_init(&late, NULL);
    CHECK_STATUS(spn_fj_pool_submit(pool, &late.task), SPN_EREJECTED);
    CHECK_STATUS(fib_invoke(pool, NULL, 5), SPN_EREJECTED);
    CHECK_STATUS(spn_fj_pool_destroy(pool), SPN_EBUSY);
    atomic_store(&gate, 1);
    CHECK_OK(spn_executor_await(spn_fj_pool_executor(pool), SPN_FOREVER));
    for (int i = 0; i < 8; i++)
        CHECK_EQ(atomic_load(&waiting[i].ran), 1);
    fj_end(pool);
}

static int forks_late(spn_fj fj, void *arg)
{
    int rc = 0;

    T_AWAIT(atomic_load((atomic_int *)arg) != 0);
    for (int i = 0; i < 100; i++) {
        count_leaves_fork(&fj, 2);
        count_leaves(fj, 1);
        count_leaves_join(&fj);
    }
    return rc;
}

struct late_run {
    spn_fj_pool *pool;
    atomic_int gate;
};

static int run_late(void *arg)
{
    struct late_run *l = arg;

    return spn_fj_run(l->pool, forks_late, &l->gate);
}

/* What a running tree forks after the shutdown is run as well. */
TEST(forkjoin__shutdown_under_a_tree__the_tree_completes, "FJP-13")
{
    spn_fj_pool *pool = fj_pool(2);
    struct late_run l = { .pool = pool };
    struct peer peer;

    atomic_store(&leaves, 0);
    peer_start(&peer, run_late, &l);
    T_AWAIT(fj_stats(pool).active == 1);
    CHECK_OK(spn_executor_shutdown(spn_fj_pool_executor(pool)));
    atomic_store(&l.gate, 1);
    CHECK_OK(peer_finish(&peer));
    CHECK_EQ(atomic_load(&leaves), 100 * (9 + 3));
    fj_end(pool);
}

static int until_interrupted(spn_fj fj, spn_fj_task *task)
{
    (void)task;
    T_AWAIT(spn_thread_is_interrupted(spn_thread_current()) == 1);
    return spn_fj_status(fj) == SPN_ESHUTDOWN ? -9 : 0;
}

TEST(forkjoin__shutdown_now__queued_cancelled_running_interrupted, "FJP-13", "FJP-14")
{
    for (int32_t p = 1; p <= 2; p++) {
        spn_fj_pool *pool = fj_pool(p);
        spn_fj_task running[2];
        struct gated queued;

        for (int i = 0; i < p; i++) {
            spn_fj_task_init(&running[i], until_interrupted);
            CHECK_OK(spn_fj_pool_submit(pool, &running[i]));
        }
        T_AWAIT(fj_stats(pool).active == p);
        gated_init(&queued, NULL);
        CHECK_OK(spn_fj_pool_submit(pool, &queued.task));
        CHECK_OK(
            spn_executor_shutdown_now(spn_fj_pool_executor(pool), NULL, NULL, NULL));
        CHECK_STATUS(spn_fj_task_join(&queued.task), SPN_ECANCELED);
        CHECK_STATUS(spn_fj_task_get(&queued.task, NULL, T_LONG_NS), SPN_ECANCELED);
        CHECK_EQ(atomic_load(&queued.ran), 0);
        for (int i = 0; i < p; i++)
            CHECK_EQ(spn_fj_task_join(&running[i]), -9);
        fj_end(pool);
    }
}

struct forks_late {
    spn_fj_task task;
    atomic_int begun, stopped;
    spn_fj_task child;
};

static int fork_when_stopped(spn_fj fj, spn_fj_task *task)
{
    struct forks_late *f = (struct forks_late *)(void *)task;

    (void)fj;
    atomic_store(&f->begun, 1);
    T_AWAIT(atomic_load(&f->stopped) != 0);
    CHECK_OK(spn_fj_task_fork(&f->child));
    return 0;
}

/* What a body forks after shutdown_now, and does not join, ends too. */
TEST(forkjoin__forked_after_shutdown_now__cancelled, "FJP-14", "FJP-15")
{
    for (int32_t p = 1; p <= 2; p++) {
        spn_fj_pool *pool = fj_pool(p);
        struct forks_late f = { .begun = 0 };

        spn_fj_task_init(&f.task, fork_when_stopped);
        spn_fj_task_init(&f.child, until_interrupted);
        CHECK_OK(spn_fj_pool_submit(pool, &f.task));
        T_AWAIT(atomic_load(&f.begun) != 0);
        CHECK_OK(
            spn_executor_shutdown_now(spn_fj_pool_executor(pool), NULL, NULL, NULL));
        atomic_store(&f.stopped, 1);
        CHECK_OK(spn_fj_task_join(&f.task));
        CHECK_STATUS(spn_fj_task_get(&f.child, NULL, T_LONG_NS), SPN_ECANCELED);
        fj_end(pool);
    }
}

static int rest(void *arg)
{
    return spn_fj_pool_await_quiescence(arg, SPN_FOREVER);
}

/* The last task of a stopped pool ends: whoever waits for rest is told. */
TEST(forkjoin__stopped_while_somebody_waits_for_rest__told, "FJP-9", "FJP-14")
{
    for (int32_t p = 1; p <= 2; p++) {
        spn_fj_pool *pool = fj_pool(p);
        struct forks_late f = { .begun = 0 };
        struct peer peer;

        spn_fj_task_init(&f.task, fork_when_stopped);
        spn_fj_task_init(&f.child, until_interrupted);
        CHECK_OK(spn_fj_pool_submit(pool, &f.task));
        T_AWAIT(atomic_load(&f.begun) != 0);
        peer_start(&peer, rest, pool);
        peer_await_blocked(&peer);
        CHECK_OK(
            spn_executor_shutdown_now(spn_fj_pool_executor(pool), NULL, NULL, NULL));
        atomic_store(&f.stopped, 1);
        CHECK_OK(peer_finish(&peer));
        CHECK(spn_fj_task_get(&f.task, NULL, 0) != SPN_ETIMEDOUT);
        CHECK_STATUS(spn_fj_task_get(&f.child, NULL, 0), SPN_ECANCELED);
        fj_end(pool);
    }
}

/* ---- threads ------------------------------------------------------------------------------------- */

struct few {
    spn_thread_factory factory;
    atomic_int left;
};

static int create_few(const spn_thread_factory *factory, spn_thread **out,
                      spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    struct few *f = (struct few *)(void *)(uintptr_t)factory;

    if (atomic_fetch_sub(&f->left, 1) <= 0)
        return SPN_EAGAIN;
    return spn_thread_create(out, opts, fn, arg);
}

/* With a factory that fails the pool runs with the workers it has, or refuses. */
TEST(forkjoin__factory_fails__works_with_what_it_has, "FJP-22")
{
    for (int have = 0; have < 3; have++) {
        struct few few = { .factory = { sizeof(spn_thread_factory), create_few } };
        spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
        spn_fj_pool *pool;
        int result = 0;

        atomic_init(&few.left, have);
        opts.factory = &few.factory;
        opts.parallelism = 4;
        REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
        if (have == 0) {
            CHECK_STATUS(fib_invoke(pool, &result, 15), SPN_EAGAIN);
        } else {
            CHECK_OK(fib_invoke(pool, &result, 15));
            CHECK_EQ(result, 610);
        }
        fj_end(pool);
    }
}

/* Idle workers end; the pool grows again. */
TEST(forkjoin__idle_workers__end_and_come_back, "FJP-29")
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;
    int result;

    opts.parallelism = 2;
    opts.keep_alive_ns = SPN_MS(1);
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(fib_invoke(pool, &result, 12));
        T_AWAIT(fj_stats(pool).threads == 0);
    }
    fj_end(pool);
}

/* More and fewer threads while trees run. */
TEST(forkjoin__parallelism_changed_under_load__nothing_lost, "FJP-3")
{
    spn_fj_pool *pool = fj_pool(1);

    for (int i = 0; i < t_rounds(30); i++) {
        atomic_store(&leaves, 0);
        CHECK(spn_fj_pool_set_parallelism(pool, 1 + i % 4) > 0);
        CHECK_OK(count_leaves_invoke(pool, 6));
        CHECK_EQ(atomic_load(&leaves), 729);
    }
    fj_end(pool);
}

static int counts_uncaught;

static void note_uncaught(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    CHECK_EQ(info->status, -3);
    CHECK(ctx == &counts_uncaught);
    counts_uncaught++;
}

static int fails_uncaught(void *arg)
{
    (void)arg;
    return -3;
}

static int executes_and_helps(spn_fj fj, void *arg)
{
    (void)fj;
    CHECK_OK(spn_executor_call(spn_fj_pool_executor(arg), fails_uncaught, NULL));
    return await_rest_here();
}

TEST(forkjoin__executed_task_fails__uncaught_hook, "FJP-21")
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;

    opts.parallelism = 1;
    opts.hooks.uncaught = note_uncaught;
    opts.hooks.ctx = &counts_uncaught;
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    CHECK_OK(spn_executor_call(spn_fj_pool_executor(pool), fails_uncaught, NULL));
    body_of(pool, executes_and_helps, pool); /* out of its turn */
    CHECK_OK(spn_fj_pool_close(pool));
    CHECK_EQ(counts_uncaught, 2);
    CHECK_EQ(fj_stats(pool).failed, 2);
    CHECK_OK(spn_fj_pool_destroy(pool));
}

/* ---- blocking ------------------------------------------------------------------------------------- */

static int locked_fib(spn_fj fj, spn_fj_task *task)
{
    struct fib_object *f = (struct fib_object *)(void *)task;
    struct fib_object a, b;

    (void)fj;
    spn_fj_block_begin();
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    spn_fj_block_end();
    f->value = f->n;
    if (f->n < 2)
        return 0;
    spn_fj_task_init(&a.task, locked_fib);
    spn_fj_task_init(&b.task, locked_fib);
    a.n = f->n - 1;
    b.n = f->n - 2;
    CHECK_OK(spn_fj_task_fork(&a.task));
    CHECK_OK(spn_fj_task_invoke(&b.task));
    CHECK_OK(spn_fj_task_join(&a.task));
    f->value = a.value + b.value;
    return 0;
}

TEST(forkjoin__managed_blocking__lock_heavy_tree_finishes, "FJP-23")
{
    spn_fj_pool *pool = fj_pool(4);
    struct fib_object f;

    spn_fj_task_init(&f.task, locked_fib);
    f.n = 12;
    CHECK_OK(fj_invoke(pool, &f.task));
    CHECK_EQ(f.value, 144);
    fj_end(pool);
}

static int waits_for_gate(spn_fj fj, spn_fj_task *task)
{
    struct gated *g = (struct gated *)(void *)task;

    (void)fj;
    atomic_fetch_add(&g->ran, 1);
    spn_fj_block_begin();
    T_AWAIT(atomic_load(g->gate) != 0);
    spn_fj_block_end();
    return 0;
}

/* A blocked worker has another stand in for it, as many as there may be. */
TEST(forkjoin__worker_blocks__another_stands_in, "FJP-23", "P38")
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;
    atomic_int gate = 0;
    struct gated blocks, runs;

    opts.parallelism = 1;
    opts.spare_threads = 1;
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    gated_init(&blocks, &gate);
    blocks.task.fn = waits_for_gate;
    gated_init(&runs, NULL);
    CHECK_OK(spn_fj_pool_submit(pool, &blocks.task));
    T_AWAIT(atomic_load(&blocks.ran) == 1);
    CHECK_OK(spn_fj_pool_submit(pool, &runs.task));
    CHECK_OK(spn_fj_task_join(&runs.task));
    CHECK(fj_stats(pool).threads <= 2);
    atomic_store(&gate, 1);
    fj_end(pool);
}

static int ends_too_often(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    spn_fj_block_end();
    spn_fj_block_begin();
    spn_fj_block_begin(); /* pairs nest */
    spn_fj_block_end();
    spn_fj_block_begin(); /* never ended by hand */
    return 0;
}

/* Outside of fork/join the hint does nothing, an end too many is harmless, and what was not
 * ended ends with its task. */
TEST(forkjoin__block_hint_out_of_place__harmless, "FJP-23")
{
    spn_fj_pool *pool = fj_pool(1);
    spn_fj_task task;

    spn_fj_block_begin();
    spn_fj_block_end();
    spn_fj_block_end();
    for (int i = 0; i < 3; i++) {
        spn_fj_task_init(&task, ends_too_often);
        CHECK_OK(spn_fj_pool_submit(pool, &task));
        CHECK_OK(spn_fj_task_join(&task));
        T_AWAIT(fj_stats(pool).blocked == 0);
    }
    fj_end(pool);
}

/* ---- the work-stealing executor ---------------------------------------------------------------------- */

static atomic_int executed;

static int count_one(void *arg)
{
    spn_executor *ex = arg;

    if (ex != NULL)
        for (int i = 0; i < 10; i++)
            CHECK_OK(spn_executor_call(ex, count_one, NULL));
    atomic_fetch_add(&executed, 1);
    return 0;
}

static void submit_many(int index, void *arg)
{
    (void)index;
    for (int i = 0; i < 200; i++)
        CHECK_OK(spn_executor_call(arg, count_one, arg));
}

/* Every task of many submitters, and what they submit in turn, runs once. */
TEST(forkjoin__stealing_executor__each_task_once, "EXE-14", "FJP-33", "FJP-30")
{
    spn_fj_pool *pool = fj_pool_async(4);

    atomic_store(&executed, 0);
    t_parallel(4, submit_many, spn_fj_pool_executor(pool));
    CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
    CHECK_EQ(atomic_load(&executed), 4 * 200 * 11);
    CHECK_EQ(fj_stats(pool).completed, 4 * 200 * 11);
    fj_end(pool);
}
