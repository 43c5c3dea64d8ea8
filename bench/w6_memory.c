/* SPDX-License-Identifier: MIT */
/*
 * W6 - what a queued task takes; pool_load.h tells the work.
 *
 * What the caller brings for a task counts, what fn and arg point to does not.  In
 * Java it is what the heap holds after a collection.  Go cannot queue a goroutine
 * without starting it: there it is one that has started and waits.
 */
#include <stdlib.h>

#include "bench.h"
#include "pool_peers.h"

/* The floor: fn and arg, one pair after the other. */
static void run_floor(struct bench *b)
{
    struct pair {
        void (*fn)(void *arg);
        void *arg;
    };
    const uint64_t count = bench_count(b, POOL_QUEUED);
    const int64_t before = pool_resident_bytes(b);
    struct pair *pairs = malloc(count * sizeof *pairs);

    BENCH_CHECK(b, pairs != NULL);
    for (uint64_t i = 0; i < count; i++)
        pairs[i] = (struct pair){ free, &pairs[i] };
    BENCH_KEEP(pairs);
    bench_report(b, "bytes_per_task",
                 (double)(pool_resident_bytes(b) - before) / (double)count);
    free(pairs);
}

BENCH_WORKLOAD(w6) = {
    .name = "W6",
    .question = "How much memory does a queued task take?",
    .metric = "bytes_per_task",
    .variants = { { .name = "1w" } },
    .subjects = { { .name = "spindle",
                    .run = pool_memory,
                    .object = &pool_spindle,
                    .detail = "the default queue, with tasks the caller brings" },
                  { .name = "spindle-call",
                    .run = pool_memory,
                    .object = &pool_spindle_call,
                    .detail = "the default queue, with fn and arg" },
                  { .name = "spindle-lanes",
                    .run = pool_memory,
                    .object = &pool_spindle_lanes,
                    .detail = "SPN_POOL_LANES, with fn and arg" },
                  { .name = "spindle-lanes-execute",
                    .run = pool_memory,
                    .object = &pool_spindle_lanes_execute,
                    .detail = "SPN_POOL_LANES, with tasks the caller brings" },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "an array of fn and arg" },
                  POOL_PEERS(pool_memory) },
};
