/* SPDX-License-Identifier: MIT */
/* forkjoin.h - pools and trees for the fork/join suites. */
#ifndef TEST_FORKJOIN_H
#define TEST_FORKJOIN_H

#include <stdatomic.h>

#include <spindle.h>

#include "fj_pools.h"
#include "test.h"

static inline spn_fj_pool *fj_pool(int32_t parallelism)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool = NULL;

    opts.parallelism = parallelism;
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    return pool;
}

static inline spn_fj_pool *fj_pool_async(int32_t parallelism)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool = NULL;

    opts.parallelism = parallelism;
    opts.async = 1;
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    return pool;
}

static inline spn_fj_stats fj_stats(spn_fj_pool *pool)
{
    spn_fj_stats s = SPN_FJ_STATS_INIT;

    CHECK_OK(spn_fj_pool_stats_get(pool, &s));
    CHECK_EQ(s.accepted,
             s.completed + s.failed + s.cancelled + s.returned + s.dropped + s.pending);
    return s;
}

/* The law of accounting holds to the end. */
static inline void fj_end(spn_fj_pool *pool)
{
    CHECK_OK(spn_fj_pool_close(pool));
    CHECK_EQ(fj_stats(pool).pending, 0);
    CHECK_EQ(fj_stats(pool).threads, 0);
    CHECK_OK(spn_fj_pool_destroy(pool));
}

/* An object that waits for a gate. */
struct gated {
    spn_fj_task task;
    atomic_int *gate;
    atomic_int ran;
};

static inline int gated_run(spn_fj fj, spn_fj_task *task)
{
    struct gated *g = (struct gated *)(void *)task;

    (void)fj;
    atomic_fetch_add(&g->ran, 1);
    if (g->gate != NULL)
        T_AWAIT(atomic_load(g->gate) != 0);
    return 0;
}

static inline void gated_init(struct gated *g, atomic_int *gate)
{
    spn_fj_task_init(&g->task, gated_run);
    g->gate = gate;
    atomic_init(&g->ran, 0);
}

/* Fibonacci by objects. */
struct fib_object {
    spn_fj_task task;
    int n, value;
};

static int fib_object_run(spn_fj fj, spn_fj_task *task)
{
    struct fib_object *f = (struct fib_object *)(void *)task;
    struct fib_object a, b;
    int rc;

    (void)fj;
    f->value = f->n;
    spn_fj_task_set_result(task, &f->value);
    if (f->n < 2)
        return 0;
    spn_fj_task_init(&a.task, fib_object_run);
    spn_fj_task_init(&b.task, fib_object_run);
    a.n = f->n - 1;
    b.n = f->n - 2;
    rc = spn_fj_task_fork(&a.task);
    if (rc != SPN_OK) /* outside of a pool forks are calls */
        rc = spn_fj_task_invoke(&a.task);
    if (spn_fj_task_invoke(&b.task) != SPN_OK || rc != SPN_OK)
        return SPN_EFAILED;
    rc = spn_fj_task_join(&a.task);
    f->value = a.value + b.value;
    return rc;
}

static inline void fib_object_init(struct fib_object *f, int n)
{
    spn_fj_task_init(&f->task, fib_object_run);
    f->n = n;
    f->value = -1;
}

#endif /* TEST_FORKJOIN_H */
