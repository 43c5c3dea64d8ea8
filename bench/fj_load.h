/* SPDX-License-Identifier: MIT */
/*
 * fj_load.h - divide and conquer, the same way for every fork/join runtime.
 *
 * THE WORKLOADS
 *   W4  fib(35) by its definition: one half of the sum is spawned, the other called,
 *       and nothing is left to a sequential version.  14,930,351 spawns that do nothing
 *       else; a runtime that takes tens of nanoseconds for one gets a smaller number.
 *   W5  Merge sort of 10,000,000 random numbers, with tasks down to parts of 2048.
 *   W7  Unbalanced tree search: how many nodes a tree has that nobody can foresee; a
 *       task for each child.
 *   W8  The CPU time of a second in which there is nothing to do, from a millisecond
 *       after the end of some work.
 *
 * THE SAME WORK
 *   fj_kernel.h has what is computed.  Workers are what a runtime calls so; where the
 *   caller works too (TBB, OpenMP) it is one of them.  The program's first thread asks
 *   from outside and waits.  Smaller pieces of the same work warm up, for a fifth of a
 *   second, to give the workers time to start and to find a CPU each; and every result
 *   is checked.
 *
 * A runtime is a struct fj_kind.  One in another language is a program of bench/peers,
 * which measures itself and does the same.  For C and C++.
 */
#ifndef FJ_LOAD_H
#define FJ_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "fj_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bench;

enum {
    FJ_FIB = 35,
    FJ_FIB_SLOW = 29, /* for a kind that takes tens of nanoseconds */
    FJ_SORTED = 10000000,
    FJ_ROOTS = 2000,
    FJ_IDLE_MS = 1000
};

struct fj_kind {
    void *(*create)(int workers); /* NULL: failed */
    void (*destroy)(void *pool);

    uint64_t (*fib)(void *pool, int n);
    void (*sort)(void *pool, uint32_t *a, size_t n, uint32_t *t); /* into a */
    uint64_t (*search)(void *pool, uint64_t roots); /* nodes below the root */

    int fib_max; /* 0: FJ_FIB */

    /* For a program of bench/peers instead: what starts it, up to a NULL, and what the
     * runtime is called there. */
    const char *const *command;
    const char *program_kind;
};

/* The workloads: bench_object(b) is the runtime's kind. */
void fj_run_fib(struct bench *b);
void fj_run_sort(struct bench *b);
void fj_run_search(struct bench *b);
void fj_run_idle(struct bench *b);

/* The sequential twin of each: no runtime at all. */
extern const struct fj_kind fj_sequential;

/* The n-th Fibonacci number, in no time: to check by, and to count spawns. */
uint64_t fj_fib_number(int n);

#ifdef __cplusplus
}
#endif
#endif /* FJ_LOAD_H */
