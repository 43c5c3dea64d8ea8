/* SPDX-License-Identifier: MIT */
/*
 * W8 - what a fork/join runtime costs that has nothing to do; fj_load.h tells the work.
 */
#include "bench.h"
#include "fj_peers.h"

BENCH_WORKLOAD(w8) = {
    .name = "W8",
    .question = "How much CPU does a fork/join pool take that has nothing to do?",
    .metric = "cpu_ms_per_s",
    .variants = { { .name = "2w" } },
    .subjects = { { .name = "spindle", .run = fj_run_idle, .object = &fj_spindle },
                  { .name = "floor",
                    .run = fj_run_idle,
                    .object = &fj_sequential,
                    .detail = "a process without a pool" },
                  FJ_PEERS(fj_run_idle) },
};
