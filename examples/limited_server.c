/* SPDX-License-Identifier: MIT */
/*
 * limited_server.c - a server that says no at once when it cannot keep up.
 *
 * A limiter stands in front of the pool: four requests at a time, eight more may wait,
 * and if requests keep waiting longer than 20 ms none is accepted until that is over.
 * Whoever is refused knows why, before the request has cost anything.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>

enum { REQUESTS = 100, AT_ONCE = 4, MAY_WAIT = 8 };

static atomic_int served;
static spn_latch *open_gate;

static int serve(void *arg)
{
    (void)arg;
    if (spn_latch_await(open_gate, SPN_SEC(10)) != SPN_OK)
        return -1;
    atomic_fetch_add(&served, 1);
    return 0;
}

static void refused(void *ctx, spn_limiter_reason reason,
                    const spn_limiter_stats *stats)
{
    int *count = ctx;

    if (++*count == 1)
        printf("refused (%s): %d in flight, %d wait\n",
               spn_limiter_reason_name((int)reason), (int)stats->in_flight,
               (int)stats->waiting);
}

int main(void)
{
    spn_pool_opts threads = spn_pool_opts_fixed(AT_ONCE + 4, SPN_UNBOUNDED);
    spn_limiter_opts opts = SPN_LIMITER_OPTS_INIT;
    spn_limiter *limiter;
    spn_executor *executor;
    spn_pool *pool;
    int accepted = 0, count = 0;

    if (spn_latch_create(&open_gate, 1) != SPN_OK ||
        spn_pool_create(&pool, &threads) != SPN_OK)
        return 1;
    opts.executor = spn_pool_executor(pool);
    opts.max_in_flight = AT_ONCE;
    opts.max_waiting = MAY_WAIT;
    opts.target_ns = SPN_MS(20);
    opts.refused = refused;
    opts.ctx = &count;
    if (spn_limiter_create(&limiter, &opts) != SPN_OK)
        return 1;
    executor = spn_limiter_executor(limiter);
    for (int i = 0; i < REQUESTS; i++)
        accepted += spn_executor_call(executor, serve, NULL) == SPN_OK;
    (void)spn_latch_count_down(open_gate); /* from here on they are served */

    if (spn_executor_shutdown(executor) != SPN_OK ||
        spn_executor_await(executor, SPN_SEC(10)) != SPN_OK ||
        spn_limiter_destroy(limiter) != SPN_OK)
        return 1;
    printf("%d accepted, %d served, %d refused\n", accepted, atomic_load(&served),
           count);
    if (spn_pool_close(pool) != SPN_OK || spn_pool_destroy(pool) != SPN_OK ||
        spn_latch_destroy(open_gate) != SPN_OK)
        return 1;
    return accepted <= AT_ONCE + MAY_WAIT && accepted == atomic_load(&served) &&
                   accepted + count == REQUESTS
               ? 0
               : 1;
}
