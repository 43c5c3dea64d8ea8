/* SPDX-License-Identifier: MIT */
/*
 * W4 - what a spawn costs; fj_load.h tells the work.
 *
 * The floor is not a bound in 1w: the compiler makes a loop of one of its two calls.
 */
#include "bench.h"
#include "fj_peers.h"

BENCH_WORKLOAD(w4) = {
    .name = "W4",
    .question = "What does a spawn cost?",
    .metric = "ns_per_spawn",
    .variants = { { .name = "1w" }, { .name = "2w" } },
    .subjects = { { .name = "spindle",
                    .run = fj_run_fib,
                    .object = &fj_spindle,
                    .detail =
                        "SPN_FJ_TASK_LEAF: leaves are seen where they are called" },
                  { .name = "spindle-body",
                    .run = fj_run_fib,
                    .object = &fj_spindle_body,
                    .detail = "SPN_FJ_TASK: leaves are seen in the body" },
                  { .name = "floor",
                    .run = fj_run_fib,
                    .object = &fj_sequential,
                    .detail = "the plain call, sequential" },
                  FJ_PEERS(fj_run_fib) },
};
