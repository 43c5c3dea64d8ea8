/* SPDX-License-Identifier: MIT */
/*
 * OpenMP's tasks, as the compiler's own runtime has them: libgomp with gcc, libomp with
 * clang.  The caller is one of the workers.
 *
 * No task has an `if` or `final` clause: those would be a cut-off.
 */
#include <omp.h>
#include <stdlib.h>

#include "fj_peers.h"

static int team; /* threads of a parallel region */

static void *omp_create(int workers)
{
    team = workers;
    omp_set_dynamic(0);
    return &team;
}

static void omp_destroy(void *pool)
{
    (void)pool;
}

static uint64_t fib(int n)
{
    uint64_t x, y;

    if (n < 2)
        return (uint64_t)n;
#pragma omp task shared(x) firstprivate(n)
    x = fib(n - 1);
    y = fib(n - 2);
#pragma omp taskwait
    return x + y;
}

static uint64_t omp_fib(void *pool, int n)
{
    uint64_t result = 0;

    (void)pool;
#pragma omp parallel num_threads(team)
#pragma omp single
    result = fib(n);
    return result;
}

static void sort(uint32_t *a, size_t n, uint32_t *t, bool into_t)
{
    const size_t half = n / 2;

    if (n <= FJ_SORT_CUTOFF) {
        fj_sort(a, n, t, into_t);
        return;
    }
#pragma omp task firstprivate(a, half, t, into_t)
    sort(a, half, t, !into_t);
    sort(a + half, n - half, t + half, !into_t);
#pragma omp taskwait
    if (into_t)
        fj_merge(t, a, half, a + half, n - half);
    else
        fj_merge(a, t, half, t + half, n - half);
}

static void omp_sort(void *pool, uint32_t *a, size_t n, uint32_t *t)
{
    (void)pool;
#pragma omp parallel num_threads(team)
#pragma omp single
    sort(a, n, t, false);
}

static uint64_t visit(uint64_t parent, uint64_t index)
{
    const uint64_t node = fj_child(parent, index);
    const unsigned children = fj_children(node);
    uint64_t counts[FJ_TREE_FAN] = { 0 }, nodes = 1;

    if (children == 0)
        return 1;
    for (unsigned i = 1; i < children; i++) {
#pragma omp task shared(counts) firstprivate(node, i)
        counts[i] = visit(node, i);
    }
    counts[0] = visit(node, 0);
#pragma omp taskwait
    for (unsigned i = 0; i < children; i++)
        nodes += counts[i];
    return nodes;
}

static uint64_t omp_search(void *pool, uint64_t roots)
{
    uint64_t *counts = malloc(roots * sizeof(*counts)), nodes = 0;

    (void)pool;
    if (counts == NULL)
        return 0; /* a wrong result, which is reported */
#pragma omp parallel num_threads(team)
#pragma omp single
    {
        for (uint64_t i = 0; i < roots; i++) {
#pragma omp task firstprivate(i)
            counts[i] = visit(FJ_TREE_SEED, i);
        }
    }
    for (uint64_t i = 0; i < roots; i++)
        nodes += counts[i];
    free(counts);
    return nodes;
}

const char *fj_omp_version(void)
{
#ifdef __clang__
    return "libomp " __clang_version__;
#else
    return "libgomp " __VERSION__;
#endif
}

const struct fj_kind fj_omp = { .create = omp_create,
                                .destroy = omp_destroy,
                                .fib = omp_fib,
                                .sort = omp_sort,
                                .search = omp_search,
                                .fib_max = FJ_FIB_SLOW };
