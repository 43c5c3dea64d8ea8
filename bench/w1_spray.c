/* SPDX-License-Identifier: MIT */
/*
 * W1 - as many small tasks as producers can submit; pool_load.h tells the work.
 *
 * With two CPUs 1p2w and 2p2w have more threads than CPUs: a pool that makes
 * producer and worker meet at every task pays for it here.
 */
#include "bench.h"
#include "pool_peers.h"

/* The floor: the producer does it itself, through a pointer as a task would be. */

static void *direct_create(int workers)
{
    static char nothing;

    (void)workers;
    return &nothing;
}

static void direct_destroy(void *pool)
{
    (void)pool;
}

static void direct_spray(struct pool_lane *lane)
{
    pool_body body = pool_count_one;

    for (uint64_t i = 0; i < lane->count; i++) {
        __asm__ __volatile__("" : "+r"(body)); /* as if it came from elsewhere */
        body();
    }
}

static const struct pool_kind direct = { .create = direct_create,
                                         .destroy = direct_destroy,
                                         .spray = direct_spray,
                                         .no_workers = true };

BENCH_WORKLOAD(w1) = {
    .name = "W1",
    .question = "What does a small task cost from submit to its end?",
    .metric = "ns_per_task",
    .variants = { { .name = "1p2w" }, { .name = "1p1w" }, { .name = "2p2w" } },
    .subjects = { { .name = "spindle",
                    .run = pool_spray,
                    .object = &pool_spindle,
                    .detail = "the default queue, with tasks the caller brings" },
                  { .name = "spindle-call",
                    .run = pool_spray,
                    .object = &pool_spindle_call,
                    .detail = "the default queue, with fn and arg" },
                  { .name = "spindle-lanes",
                    .run = pool_spray,
                    .object = &pool_spindle_lanes,
                    .detail = "SPN_POOL_LANES, with fn and arg" },
                  { .name = "spindle-lanes-execute",
                    .run = pool_spray,
                    .object = &pool_spindle_lanes_execute,
                    .detail = "SPN_POOL_LANES, with tasks the caller brings" },
                  { .name = "floor",
                    .run = pool_spray,
                    .object = &direct,
                    .detail = "a call of the task by its producer" },
                  POOL_PEERS(pool_spray) },
};
