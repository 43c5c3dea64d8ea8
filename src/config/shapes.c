/* SPDX-License-Identifier: MIT */
/*
 * shapes.c - the well-known pools and queues as extensions: from the keys of a URL to the
 * options of a pool, with Dubbo's defaults.
 *
 * Numbers of threads above what a pool can count (2^29 - 1) are taken for that: Dubbo's
 * default is "no limit" and people write it out.
 */
#include "config/url_pool.h"

#include "base/time.h"
#include "config/problem.h"

enum { DEFAULT_THREADS = 200, DEFAULT_ALIVE_MS = 60000 };

int spn__url_number(const spn_url *url, const char *key, int64_t low, int64_t high,
                    int64_t otherwise, int64_t *value, spn_problem *problem)
{
    const char *text = spn_url_get_string(url, NULL, key, "");
    int64_t found;
    int rc = spn_url_get_long(url, NULL, key, otherwise, &found);

    if (rc == SPN_EINVAL)
        return spn__refuse(problem, rc, 0, "%s=%.80s is no number", key, text);
    if (rc == SPN_OK && (found < low || found > high))
        rc = SPN_ERANGE;
    if (rc == SPN_ERANGE)
        return spn__refuse(problem, rc, 0, "%s=%.80s is not from %lld to %lld", key,
                           text, (long long)low, (long long)high);
    if (rc == SPN_OK)
        *value = found;
    return rc;
}

/* What all four have. */
struct keys {
    int64_t core, max, queues, alive_ms;
};

static int read_keys(const spn_url *url, int64_t default_max, struct keys *k,
                     spn_problem *problem)
{
    int rc = spn__url_number(url, "corethreads", 0, INT32_MAX, 0, &k->core, problem);

    if (rc == SPN_OK)
        rc = spn__url_number(url, "threads", 1, INT32_MAX, default_max, &k->max,
                             problem);
    if (rc == SPN_OK)
        rc = spn__url_number(url, "queues", INT32_MIN, INT32_MAX, 0, &k->queues,
                             problem);
    if (rc == SPN_OK)
        rc = spn__url_number(url, "alive", 0, INT32_MAX, DEFAULT_ALIVE_MS, &k->alive_ms,
                             problem);
    if (rc != SPN_OK)
        return rc;
    if (k->core > SPN_POOL_THREADS_MAX)
        k->core = SPN_POOL_THREADS_MAX;
    if (k->max > SPN_POOL_THREADS_MAX)
        k->max = SPN_POOL_THREADS_MAX;
    return SPN_OK;
}

static int check_core(const struct keys *k, spn_problem *problem)
{
    if (k->core <= k->max)
        return SPN_OK;
    return spn__refuse(problem, SPN_EINVAL, 0,
                       "corethreads=%lld is more than threads, which is %lld",
                       (long long)k->core, (long long)k->max);
}

/* Takes over what a shape says, and leaves the rest of the options. */
static void take(spn_pool_opts *opts, const spn_pool_opts *shape)
{
    opts->core_threads = shape->core_threads;
    opts->max_threads = shape->max_threads;
    opts->keep_alive_ns = shape->keep_alive_ns;
    opts->queue_capacity = shape->queue_capacity;
    opts->eager = shape->eager;
}

static int fixed(const spn_threadpool *self, const spn_url *url, spn_pool_opts *opts,
                 spn_problem *problem)
{
    struct keys k = { 0, 0, 0, 0 };
    int rc = read_keys(url, DEFAULT_THREADS, &k, problem);
    spn_pool_opts shape;

    (void)self;
    if (rc != SPN_OK)
        return rc;
    shape = spn_pool_opts_fixed((int32_t)k.max, (int32_t)k.queues);
    take(opts, &shape);
    return SPN_OK;
}

static int cached(const spn_threadpool *self, const spn_url *url, spn_pool_opts *opts,
                  spn_problem *problem)
{
    const bool eager = self == &spn__threadpool_eager;
    struct keys k = { 0, 0, 0, 0 };
    int rc = read_keys(url, INT32_MAX, &k, problem);
    spn_pool_opts shape;

    if (rc == SPN_OK)
        rc = check_core(&k, problem);
    if (rc != SPN_OK)
        return rc;
    shape = eager ? spn_pool_opts_eager((int32_t)k.core, (int32_t)k.max,
                                        (int32_t)k.queues, SPN_MS(k.alive_ms))
                  : spn_pool_opts_cached((int32_t)k.core, (int32_t)k.max,
                                         (int32_t)k.queues, SPN_MS(k.alive_ms));
    take(opts, &shape);
    return SPN_OK;
}

static int limited(const spn_threadpool *self, const spn_url *url, spn_pool_opts *opts,
                   spn_problem *problem)
{
    struct keys k = { 0, 0, 0, 0 };
    int rc = read_keys(url, DEFAULT_THREADS, &k, problem);
    spn_pool_opts shape;

    (void)self;
    if (rc == SPN_OK)
        rc = check_core(&k, problem);
    if (rc != SPN_OK)
        return rc;
    shape = spn_pool_opts_limited((int32_t)k.core, (int32_t)k.max, (int32_t)k.queues);
    take(opts, &shape);
    return SPN_OK;
}

const spn_threadpool spn__threadpool_fixed = { sizeof(spn_threadpool), fixed };
const spn_threadpool spn__threadpool_cached = { sizeof(spn_threadpool), cached };
const spn_threadpool spn__threadpool_limited = { sizeof(spn_threadpool), limited };
const spn_threadpool spn__threadpool_eager = { sizeof(spn_threadpool), cached };

/* ---- queues ---------------------------------------------------------------------------------- */

static int fifo(const spn_work_queue *self, const spn_url *url, spn_pool_opts *opts,
                spn_problem *problem)
{
    (void)self;
    (void)url;
    (void)problem;
    opts->queue_kind = SPN_POOL_FIFO;
    return SPN_OK;
}

static int lanes(const spn_work_queue *self, const spn_url *url, spn_pool_opts *opts,
                 spn_problem *problem)
{
    (void)self;
    (void)url;
    if (opts->queue_capacity >= 0)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "queue=lanes has no bound: say queues=-1");
    if (opts->eager != 0)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "queue=lanes cannot be with threadpool=eager");
    opts->queue_kind = SPN_POOL_LANES;
    return SPN_OK;
}

static int priority(const spn_work_queue *self, const spn_url *url, spn_pool_opts *opts,
                    spn_problem *problem)
{
    (void)self;
    (void)url;
    if (opts->queue_capacity == SPN_HANDOFF)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "queue=priority needs a queue: say queues=-1 or a number");
    opts->queue_kind = SPN_POOL_PRIORITY;
    return SPN_OK;
}

const spn_work_queue spn__work_queue_fifo = { sizeof(spn_work_queue), fifo };
const spn_work_queue spn__work_queue_lanes = { sizeof(spn_work_queue), lanes };
const spn_work_queue spn__work_queue_priority = { sizeof(spn_work_queue), priority };
