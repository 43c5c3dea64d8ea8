/* SPDX-License-Identifier: MIT */
/*
 * pool_calls.h - short forms for tests: the statistics as a value, what is asked of the
 * pool's executor, and a change of one knob.
 */
#ifndef POOL_CALLS_H
#define POOL_CALLS_H

#include <stdbool.h>

#include <spindle/pool.h>

static inline spn_pool_stats pool_stats(spn_pool *pool)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    (void)spn_pool_stats_get(pool, &s);
    return s;
}

/* Tasks that fn was called for, and that have ended. */
static inline int64_t pool_ended(spn_pool *pool)
{
    const spn_pool_stats s = pool_stats(pool);

    return s.completed + s.failed;
}

/* Those, and the tasks that wait or run. */
static inline int64_t pool_tasks(spn_pool *pool)
{
    const spn_pool_stats s = pool_stats(pool);

    return s.completed + s.failed + s.pending;
}

static inline int pool_shutdown(spn_pool *pool)
{
    return spn_executor_shutdown(spn_pool_executor(pool));
}

static inline int pool_shutdown_now(spn_pool *pool, spn_unrun_fn unrun, void *ctx,
                                    int64_t *count)
{
    return spn_executor_shutdown_now(spn_pool_executor(pool), unrun, ctx, count);
}

static inline int pool_await(spn_pool *pool, int64_t timeout_ns)
{
    return spn_executor_await(spn_pool_executor(pool), timeout_ns);
}

static inline int pool_remove(spn_pool *pool, spn_task *task)
{
    return spn_executor_remove(spn_pool_executor(pool), task);
}

static inline int pool_is_shutdown(spn_pool *pool)
{
    return spn_executor_is_shutdown(spn_pool_executor(pool));
}

static inline int pool_is_terminated(spn_pool *pool)
{
    return spn_executor_is_terminated(spn_pool_executor(pool));
}

/* Shut down, and not yet terminated. */
static inline bool pool_is_terminating(spn_pool *pool)
{
    const int state = spn_executor_get_state(spn_pool_executor(pool));

    return state > SPN_EXECUTOR_RUNNING && state < SPN_EXECUTOR_TERMINATED;
}

static inline int pool_set_core(spn_pool *pool, int32_t threads)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    c.core_threads = threads;
    return spn_pool_reconfigure(pool, &c);
}

static inline int pool_set_max(spn_pool *pool, int32_t threads)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    c.max_threads = threads;
    return spn_pool_reconfigure(pool, &c);
}

static inline int pool_set_keep_alive(spn_pool *pool, int64_t keep_alive_ns)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    c.keep_alive_ns = keep_alive_ns;
    return spn_pool_reconfigure(pool, &c);
}

static inline int pool_set_capacity(spn_pool *pool, int32_t capacity)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    c.queue_capacity = capacity;
    return spn_pool_reconfigure(pool, &c);
}

static inline int pool_set_core_timeout(spn_pool *pool, int on)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    c.core_timeout = on;
    return spn_pool_reconfigure(pool, &c);
}

static inline int pool_set_reject(spn_pool *pool, const spn_reject_policy *policy)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    c.reject = policy;
    return spn_pool_reconfigure(pool, &c);
}

static inline int pool_set_factory(spn_pool *pool, const spn_thread_factory *factory)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    c.factory = factory;
    return spn_pool_reconfigure(pool, &c);
}

#endif /* POOL_CALLS_H */
