/* SPDX-License-Identifier: MIT */
/* fj_pools.h - fork/join pools for a test, and the way into one. */
#ifndef FJ_POOLS_H
#define FJ_POOLS_H

#include <spindle.h>

#include "test.h"

/* What every rule is tried with. */
static const int32_t fj_parallelisms[] = { 1, 2, 4 };

#define FJ_EACH_PARALLELISM(p)              \
    for (size_t p##_ = 0; p##_ < 3; p##_++) \
        for (int32_t p = fj_parallelisms[p##_], p##_once = 1; p##_once; p##_once = 0)

static inline spn_fj_pool *fj_open(int32_t parallelism)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;

    opts.parallelism = parallelism;
    REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
    return pool;
}

/* Whether nothing is queued and nothing runs. */
static inline bool fj_rests(spn_fj_pool *pool)
{
    spn_fj_stats stats = SPN_FJ_STATS_INIT;

    CHECK_OK(spn_fj_pool_stats_get(pool, &stats));
    return stats.pending == 0;
}

/* Submits an object and joins it. */
static inline int fj_invoke(spn_fj_pool *pool, spn_fj_task *task)
{
    const int rc = spn_fj_pool_submit(pool, task);

    return rc != SPN_OK ? rc : spn_fj_task_join(task);
}

static inline void fj_shut(spn_fj_pool *pool)
{
    CHECK_OK(spn_executor_shutdown(spn_fj_pool_executor(pool)));
    CHECK_OK(spn_executor_await(spn_fj_pool_executor(pool), SPN_FOREVER));
    CHECK_OK(spn_fj_pool_destroy(pool));
}

struct fj_entry {
    void (*fn)(void *arg);
    void *arg;
};

static inline int fj_enter(spn_fj fj, void *arg)
{
    const struct fj_entry *entry = arg;

    (void)fj;
    entry->fn(entry->arg);
    return 0;
}

/* Runs fn(arg) as a task of the pool. */
static inline void fj_inside(spn_fj_pool *pool, void (*fn)(void *arg), void *arg)
{
    struct fj_entry entry = { fn, arg };

    CHECK_OK(spn_fj_run(pool, fj_enter, &entry));
}

/* The same on a new pool of that size. */
static inline void fj_inside_new(int32_t parallelism, void (*fn)(void *arg), void *arg)
{
    spn_fj_pool *pool = fj_open(parallelism);

    fj_inside(pool, fn, arg);
    fj_shut(pool);
}

#endif /* FJ_POOLS_H */
