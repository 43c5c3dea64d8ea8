/* SPDX-License-Identifier: MIT */
/*
 * W5 - merge sort of 10,000,000 numbers; fj_load.h tells the work.
 *
 * Whoever merges the last two halves on one thread cannot be faster with two than 0.52
 * of one; with merges that are cut in two it can be 0.5, or what two CPUs that work side
 * by side make of it: "by hand" tells.
 */
#include "bench.h"
#include "fj_peers.h"

BENCH_WORKLOAD(w5) = {
    .name = "W5",
    .question = "How long does a merge sort of 10,000,000 numbers take?",
    .metric = "ms",
    .variants = { { .name = "1w" }, { .name = "2w" } },
    .subjects = { { .name = "spindle",
                    .run = fj_run_sort,
                    .object = &fj_spindle,
                    .detail = "typed tasks, with merges cut in two" },
                  { .name = "spindle-plain-merge",
                    .run = fj_run_sort,
                    .object = &fj_spindle_plain_merge,
                    .detail = "each merge by one task, as all peers but one do" },
                  { .name = "floor",
                    .run = fj_run_sort,
                    .object = &fj_sequential,
                    .detail = "the same sort, sequential" },
                  { .name = "by hand",
                    .run = fj_run_sort,
                    .object = &fj_hand,
                    .detail = "two threads with a half each, the last merge cut once" },
                  { .name = "rayon cut merge",
                    FJ_RAYON(fj_run_sort, fj_rayon_merge),
                    .detail = "rayon_core::join with merges cut in two" },
                  FJ_PEERS(fj_run_sort) },
};
