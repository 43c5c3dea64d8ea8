/* SPDX-License-Identifier: MIT */
/*
 * W7 - unbalanced tree search; fj_load.h tells the work.
 */
#include "bench.h"
#include "fj_peers.h"

BENCH_WORKLOAD(w7) = {
    .name = "W7",
    .question = "What does a node of a tree cost that divides badly?",
    .metric = "ns_per_node",
    .variants = { { .name = "1w" }, { .name = "2w" } },
    .subjects = { { .name = "spindle",
                    .run = fj_run_search,
                    .object = &fj_spindle,
                    .detail = "typed tasks, one for each child" },
                  { .name = "floor",
                    .run = fj_run_search,
                    .object = &fj_sequential,
                    .detail = "the same search, sequential" },
                  FJ_PEERS(fj_run_search) },
};
