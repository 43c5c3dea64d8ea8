/* SPDX-License-Identifier: MIT */
/*
 * test_forkjoin.c - every allocation and every thread creation of a script that makes
 * and uses a fork/join pool fails, once and from then on.  What was accepted ends, the
 * pool ends, and no block is left.
 */
#include "faults.h"
#include "own_threads.h"
#include "test.h"

#include <spindle.h>

static atomic_int threads, fail_thread, fail_threads_on;
static int most_threads; /* that a script has made */

static int create(const spn_thread_factory *factory, spn_thread **out,
                  spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    const int n = atomic_fetch_add(&threads, 1) + 1;
    const int at = atomic_load(&fail_thread);

    (void)factory;
    if (at != 0 && (n == at || (n > at && atomic_load(&fail_threads_on) != 0))) {
        atomic_fetch_add(&refused, 1);
        return SPN_EAGAIN;
    }
    return spn_thread_create(out, opts, fn, arg);
}

static const spn_thread_factory factory = { sizeof factory, create };

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN || rc == SPN_EREJECTED);
    return rc == SPN_OK;
}

SPN_FJ_TASK(int, wide, int, n)
{
    int sum = 1;

    if (n == 0)
        return 1;
    for (int i = 0; i < 3; i++)
        wide_fork(&fj, n - 1);
    for (int i = 0; i < 3; i++)
        sum += wide_join(&fj);
    return sum;
}

static int run_object(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    spn_fj_task_set_result(task, task);
    return 0;
}

static int run_parent(spn_fj fj, spn_fj_task *task)
{
    spn_fj_task child;

    (void)fj;
    (void)task;
    spn_fj_task_init(&child, run_object);
    CHECK_OK(spn_fj_task_fork(&child));
    return spn_fj_task_join(&child);
}

static void use(spn_fj_pool *pool)
{
    spn_fj_task parent;
    int result = 0;

    if (ok(wide_invoke(pool, &result, 3)))
        CHECK_EQ(result, 40);
    spn_fj_task_init(&parent, run_parent);
    if (ok(spn_fj_pool_submit(pool, &parent)))
        (void)ok(spn_fj_task_join(&parent));
    CHECK_OK(spn_executor_shutdown(spn_fj_pool_executor(pool)));
    while (spn_executor_await(spn_fj_pool_executor(pool), SPN_FOREVER) != SPN_OK)
        ; /* no memory for this thread's record */
    CHECK_OK(spn_fj_pool_destroy(pool));
}

static void script(void)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;

    opts.parallelism = 2;
    opts.records = 2;
    opts.factory = &factory;
    if (ok(spn_fj_pool_create(&pool, &opts)))
        use(pool);
    else
        CHECK(pool == NULL);
    await_threads_gone();
    if (atomic_load(&threads) > most_threads)
        most_threads = atomic_load(&threads);
    atomic_store(&threads, 0);
}

/* With the n-th of one kind failing, until a run reaches none. */
static void sweep(atomic_int *at, atomic_int *on, int more)
{
    for (int n = 1;; n++) {
        atomic_store(&point, 0);
        atomic_store(&refused, 0);
        atomic_store(on, more);
        atomic_store(at, n);
        script();
        atomic_store(at, 0);
        if (atomic_load(&refused) == 0)
            break;
    }
}

TEST(forkjoin__no_memory_anywhere__ends_and_leaves_nothing, "FJP-22")
{
    long before;

    CHECK(spn_thread_current() != NULL); /* this thread's record stays */
    before = atomic_load(&live);
    count_own_threads();
    for (int more = 0; more < 2; more++)
        sweep(&fail_at, &fail_more, more);
    for (int i = 0; i < 20; i++) /* what a run left behind would show */
        script();
    /* The records of threads that have ended are kept for others, and nothing else is.
     * Each script begins with none in use but this thread's, so there are as many as the
     * workers that one script had, those that stand in included: two and more, by chance. */
    CHECK(atomic_load(&live) - before <= most_threads);
    CHECK(most_threads >= 1);
}

TEST(forkjoin__no_thread_anywhere__ends_and_leaves_nothing, "FJP-22")
{
    count_own_threads();
    for (int more = 0; more < 2; more++)
        sweep(&fail_thread, &fail_threads_on, more);
}
