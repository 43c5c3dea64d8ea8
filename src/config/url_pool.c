/* SPDX-License-Identifier: MIT */
/*
 * url_pool.c - a pool and what belongs to it, made of a URL; and a living pool changed by
 * one.
 *
 * MAKING  three extensions have a say, in this order: the thread pool shapes the options,
 *   the queue says where tasks wait, the rejection policy is made.  Then the pool itself
 *   refuses what does not go together.
 *
 * CHANGING  update is Dubbo's rule, with its asymmetry: which of core and max follow the
 *   new number depends on where it lies and on whether they were equal.  Dubbo reads both,
 *   then sets one and then the other; here the rule is applied and the change made under
 *   the pool's own lock, so that two at once end as one after the other, and nobody sees
 *   core above max.
 */
#include "config/url_pool.h"

#include <spindle/cpu.h>

#include "base/assert.h"
#include "base/options.h"
#include "config/ext.h"
#include "config/problem.h"
#include "exec/pool.h"

_Static_assert(sizeof(spn_url_pool_opts) == 9 * sizeof(void *),
               "append only, no holes");

enum { IO_THREADS_MAX = 32 };

struct spn_url_pool {
    spn_pool *pool;
    spn_extensions *extensions; /* held; may be NULL */
    const spn_rejection *rejection;
    const spn_reject_policy *policy; /* made by it */
};

/* ---- making ------------------------------------------------------------------------------- */

/* An extension whose struct is too small, or without its function, is a mistake. */
static int check_instance(const void *instance, size_t size, const char *kind,
                          spn_problem *problem)
{
    if (*(const size_t *)instance >= size)
        return SPN_OK;
    return spn__refuse(problem, SPN_EINVAL, 0, "this %s has a wrong size", kind);
}

static int shape(const spn_url *url, const spn_url_pool_opts *o, spn_pool_opts *opts,
                 spn_problem *problem)
{
    const spn_threadpool *threadpool;
    const void *instance;
    int rc;

    rc = spn_extensions_get(o->extensions, SPN_KIND_THREADPOOL,
                            spn_url_get_string(url, NULL, "threadpool", o->threadpool),
                            &instance, problem);
    if (rc == SPN_OK)
        rc = check_instance(instance, sizeof *threadpool, SPN_KIND_THREADPOOL, problem);
    if (rc != SPN_OK)
        return rc;
    threadpool = instance;
    return threadpool->shape(threadpool, url, opts, problem);
}

static int apply_queue(const spn_url *url, const spn_url_pool_opts *o,
                       spn_pool_opts *opts, spn_problem *problem)
{
    const spn_work_queue *queue;
    const void *instance;
    int rc =
        spn_extensions_choose(o->extensions, SPN_KIND_QUEUE, url, &instance, problem);

    if (rc == SPN_OK)
        rc = check_instance(instance, sizeof *queue, SPN_KIND_QUEUE, problem);
    if (rc != SPN_OK)
        return rc;
    queue = instance;
    return queue->apply(queue, url, opts, problem);
}

static int make_policy(struct spn_url_pool *up, const spn_url *url,
                       const spn_url_pool_opts *o, spn_problem *problem)
{
    int rc = spn__rejection_find(o->extensions,
                                 spn_url_get_string(url, NULL, "reject", NULL),
                                 &up->rejection, problem);

    if (rc != SPN_OK)
        return rc;
    return up->rejection->create(up->rejection, url, o, &up->policy, problem);
}

static int make_pool(struct spn_url_pool *up, const spn_url *url,
                     const spn_url_pool_opts *o, spn_problem *problem)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    int rc;

    opts.name = spn_url_get_string(url, NULL, "threadname",
                                   o->name != NULL ? o->name : "Dubbo");
    if (o->hooks != NULL)
        opts.hooks = *o->hooks;
    opts.factory = o->factory;
    opts.thread = o->thread;
    rc = shape(url, o, &opts, problem);
    if (rc == SPN_OK)
        rc = apply_queue(url, o, &opts, problem);
    if (rc == SPN_OK)
        rc = make_policy(up, url, o, problem);
    if (rc != SPN_OK)
        return rc;
    opts.reject = up->policy;
    rc = spn_pool_create(&up->pool, &opts);
    if (rc == SPN_EINVAL)
        return spn__refuse(problem, rc, 0, "these settings do not go together");
    return rc;
}

static void free_parts(struct spn_url_pool *up)
{
    if (up->policy != NULL && up->rejection->destroy != NULL)
        up->rejection->destroy(up->rejection, up->policy);
    spn__extensions_release(up->extensions);
    spn__free(up);
}

int spn_url_pool_create(spn_url_pool **out, const spn_url *url,
                        const spn_url_pool_opts *opts, spn_problem *problem)
{
    spn_url_pool_opts o = SPN_URL_POOL_OPTS_INIT;
    struct spn_url_pool *up;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (url == NULL ||
        (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK))
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no URL, or wrong options");
    up = spn__alloc(sizeof *up);
    if (up == NULL)
        return SPN_ENOMEM;
    *up = (struct spn_url_pool){ NULL, o.extensions, NULL, NULL };
    spn__extensions_hold(o.extensions);
    rc = make_pool(up, url, &o, problem);
    if (rc != SPN_OK) {
        free_parts(up);
        return rc;
    }
    *out = up;
    return SPN_OK;
}

int spn_url_pool_destroy(spn_url_pool *up)
{
    int rc;

    if (up == NULL)
        return SPN_OK;
    rc = spn_pool_destroy(up->pool);
    if (rc == SPN_OK)
        free_parts(up);
    return rc;
}

spn_pool *spn_url_pool_pool(spn_url_pool *up)
{
    return up != NULL ? up->pool : NULL;
}

spn_executor *spn_url_pool_executor(spn_url_pool *up)
{
    return up != NULL ? spn_pool_executor(up->pool) : NULL;
}

int spn_url_io_threads(const spn_url *url, int32_t *threads)
{
    const int32_t cpus = spn_cpu_count();

    return spn_url_get_positive(url, NULL, "iothreads",
                                cpus < IO_THREADS_MAX ? cpus + 1 : IO_THREADS_MAX,
                                threads);
}

/* ---- changing ------------------------------------------------------------------------------ */

/* Dubbo's rule; ctx is the new number. */
static void follow_rule(int32_t core, int32_t max, spn_pool_change *change,
                        const void *ctx)
{
    const int32_t t = *(const int32_t *)ctx;

    if (t < core || core == max)
        change->core_threads = t;
    if (t >= core || core == max)
        change->max_threads = t;
}

static int32_t capped(int64_t threads)
{
    return threads < SPN_POOL_THREADS_MAX ? (int32_t)threads : SPN_POOL_THREADS_MAX;
}

int spn_url_pool_update(spn_pool *pool, const spn_url *url, spn_problem *problem)
{
    spn_pool_change change = SPN_POOL_CHANGE_INIT;
    int64_t threads = 0;
    int32_t t;
    int rc;

    if (pool == NULL || url == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no pool or no URL");
    rc = spn__url_number(url, "threads", INT32_MIN, INT32_MAX, 0, &threads, problem);
    if (rc != SPN_OK || threads <= 0 || spn__pool_state(pool) != SPN_EXECUTOR_RUNNING)
        return rc;
    t = capped(threads);
    rc = spn__pool_change_by(pool, &change, follow_rule, &t);
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "threads=%d: %s", (int)t,
                           spn_status_text(rc));
    return SPN_OK;
}

/* One key into one knob, if it is there. */
static int take_knob(const spn_url *url, const char *key, int64_t low, int64_t *value,
                     bool *there, spn_problem *problem)
{
    *there = spn_url_get_string(url, NULL, key, NULL) != NULL;
    if (!*there)
        return SPN_OK;
    return spn__url_number(url, key, low, INT32_MAX, 0, value, problem);
}

/* What the URL asks for, as far as it does not depend on the pool. */
struct wanted {
    int64_t core, max, queues, alive_ms;
    bool has_core, has_max, has_queues, has_alive;
};

static int read_wanted(const spn_url *url, struct wanted *w, spn_problem *problem)
{
    int rc = take_knob(url, "corethreads", 0, &w->core, &w->has_core, problem);

    if (rc == SPN_OK)
        rc = take_knob(url, "threads", 1, &w->max, &w->has_max, problem);
    if (rc == SPN_OK)
        rc = take_knob(url, "queues", INT32_MIN, &w->queues, &w->has_queues, problem);
    if (rc == SPN_OK)
        rc = take_knob(url, "alive", 0, &w->alive_ms, &w->has_alive, problem);
    return rc;
}

/* ctx is what is wanted: a pool whose core is its max stays so. */
static void keep_fixed(int32_t core, int32_t max, spn_pool_change *change,
                       const void *ctx)
{
    const struct wanted *w = ctx;

    if (w->has_max && !w->has_core && core == max)
        change->core_threads = change->max_threads;
}

static void fill_change(spn_pool_change *change, const struct wanted *w)
{
    if (w->has_core)
        change->core_threads = capped(w->core);
    if (w->has_max)
        change->max_threads = capped(w->max);
    if (w->has_queues)
        change->queue_capacity = w->queues < 0 ? SPN_UNBOUNDED : (int32_t)w->queues;
    if (w->has_alive)
        change->keep_alive_ns = SPN_MS(w->alive_ms);
}

/* Names the key that the pool refused. */
static int refuse_change(spn_pool *pool, const struct wanted *w, int rc,
                         const spn_pool_change *change, spn_problem *problem)
{
    const char *capacity =
        w->has_queues ? spn__pool_capacity_problem(pool, change->queue_capacity) : NULL;
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    if (rc != SPN_EINVAL)
        return spn__refuse(problem, rc, 0, "this pool cannot be changed: %s",
                           spn_status_text(rc));
    if (capacity != NULL)
        return spn__refuse(problem, rc, 0, "queues=%lld: %s", (long long)w->queues,
                           capacity);
    (void)spn_pool_stats_get(pool, &s);
    if (w->has_alive && w->alive_ms == 0 && s.core_timeout != 0)
        return spn__refuse(
            problem, rc, 0,
            "alive=0: this pool ends idle core threads, so alive must be more than 0");
    return spn__refuse(problem, rc, 0,
                       "corethreads=%lld is more than threads, which is %lld",
                       (long long)(w->has_core ? w->core : s.core_threads),
                       (long long)(w->has_max ? w->max : s.max_threads));
}

int spn_url_pool_reconfigure(spn_pool *pool, const spn_url *url, spn_problem *problem)
{
    spn_pool_change change = SPN_POOL_CHANGE_INIT;
    struct wanted w;
    int rc;

    if (pool == NULL || url == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no pool or no URL");
    rc = read_wanted(url, &w, problem);
    if (rc != SPN_OK || !(w.has_core || w.has_max || w.has_queues || w.has_alive))
        return rc;
    fill_change(&change, &w);
    rc = spn__pool_change_by(pool, &change, keep_fixed, &w);
    return rc != SPN_OK ? refuse_change(pool, &w, rc, &change, problem) : SPN_OK;
}
