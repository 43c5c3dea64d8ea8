/* SPDX-License-Identifier: MIT */
/*
 * pool_backpressure.c - a bounded pool that slows its producers down.
 *
 * The tasks compute, so there are as many threads as keep the CPUs busy, and room for
 * eight tasks.  One more is not an error here: its submitter runs it, and while it does so
 * it submits nothing, which gives the pool the time it needs.  At the end the books must balance: what was accepted has run, and so has
 * what the submitter ran itself.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>

enum { TASKS = 1000 };

static atomic_int done;

static int work(void *arg)
{
    volatile unsigned sum = 0;

    (void)arg;
    for (unsigned i = 0; i < 20000; i++)
        sum = sum + i;
    atomic_fetch_add(&done, 1);
    return 0;
}

int main(void)
{
    spn_pool_opts opts = spn_pool_opts_fixed(spn_pool_size_for_cpu(), 8);
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    spn_pool *pool;

    opts.name = "work";
    opts.reject = spn_reject_caller_runs();
    if (spn_pool_create(&pool, &opts) != SPN_OK)
        return 1;
    for (int i = 0; i < TASKS; i++)
        if (spn_executor_call(spn_pool_executor(pool), work, NULL) != SPN_OK)
            return 1;
    if (spn_pool_close(pool) != SPN_OK || spn_pool_stats_get(pool, &stats) != SPN_OK)
        return 1;
    printf("%d tasks: %lld run by the pool, %lld by their submitter\n",
           atomic_load(&done), (long long)stats.completed, (long long)stats.caller_ran);
    if (spn_pool_destroy(pool) != SPN_OK)
        return 1;
    return stats.completed + stats.caller_ran != TASKS || stats.pending != 0;
}
