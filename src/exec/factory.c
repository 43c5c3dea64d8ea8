/* SPDX-License-Identifier: MIT */
/*
 * factory.c - the pools everybody wants, as options, and how large to make them.
 *
 * They are options and not pools, so that a hook, a name or another policy needs no
 * second set of functions.
 */
#include <spindle/cpu.h>
#include <spindle/pool.h>

static spn_pool_opts shape(int32_t core, int32_t max, int64_t keep_alive_ns,
                           int32_t queues)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    o.core_threads = core;
    o.max_threads = max;
    o.keep_alive_ns = keep_alive_ns;
    o.queue_capacity = queues < 0 ? SPN_UNBOUNDED : queues;
    return o;
}

spn_pool_opts spn_pool_opts_fixed(int32_t threads, int32_t queues)
{
    return shape(threads, threads, 0, queues);
}

spn_pool_opts spn_pool_opts_cached(int32_t core_threads, int32_t max_threads,
                                   int32_t queues, int64_t keep_alive_ns)
{
    return shape(core_threads, max_threads, keep_alive_ns, queues);
}

spn_pool_opts spn_pool_opts_limited(int32_t core_threads, int32_t max_threads,
                                    int32_t queues)
{
    return shape(core_threads, max_threads, SPN_FOREVER, queues);
}

spn_pool_opts spn_pool_opts_eager(int32_t core_threads, int32_t max_threads,
                                  int32_t queues, int64_t keep_alive_ns)
{
    spn_pool_opts o =
        shape(core_threads, max_threads, keep_alive_ns, queues <= 0 ? 1 : queues);

    o.eager = 1;
    return o;
}

spn_pool_opts spn_pool_opts_single(void)
{
    spn_pool_opts o = shape(1, 1, 0, SPN_UNBOUNDED);

    o.fixed = 1;
    return o;
}

int32_t spn_pool_size_for_cpu(void)
{
    return spn_cpu_count() + 1;
}

int32_t spn_pool_size_for_io(double blocking)
{
    double size;

    if (!(blocking >= 0.0 && blocking < 1.0)) /* not a number: no */
        return SPN_EINVAL;
    size = (double)spn_cpu_count() / (1.0 - blocking);
    if (size >= (double)SPN_POOL_THREADS_MAX)
        return SPN_POOL_THREADS_MAX;
    /* Up, but not for what is only the rounding of the division. */
    return (int32_t)size + (size - (double)(int32_t)size > 1e-9 ? 1 : 0);
}
