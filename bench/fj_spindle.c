/* SPDX-License-Identifier: MIT */
/*
 * spindle's fork/join pool, with typed tasks.
 */
#include <spindle.h>

#include "fj_peers.h"

/* Merges of more are cut in two.  A search takes a third of a microsecond: with parts of
 * 8192, as small as they were, the 20,481 of a sort took 6 ms of its 800, and the 1,793
 * with these take 1.  The last parts still end within a quarter of a millisecond. */
#define MERGE_CUTOFF 65536

static void *create(int workers)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;

    opts.parallelism = workers;
    return spn_fj_pool_create(&pool, &opts) == SPN_OK ? pool : NULL;
}

static void destroy(void *pool)
{
    (void)spn_fj_pool_close(pool);
    (void)spn_fj_pool_destroy(pool);
}

/* ---- W4 ----------------------------------------------------------------------------- */

/* What has no children is seen where it is called... */
SPN_FJ_TASK_LEAF(uint64_t, fib, n < 2, (uint64_t)n, int, n)
{
    uint64_t x, y;

    fib_fork(&fj, n - 1);
    y = fib(fj, n - 2);
    x = fib_join(&fj);
    return x + y;
}

/* ...or in the body, as everybody else does. */
SPN_FJ_TASK(uint64_t, body_fib, int, n)
{
    uint64_t x, y;

    if (n < 2)
        return (uint64_t)n;
    body_fib_fork(&fj, n - 1);
    y = body_fib(fj, n - 2);
    x = body_fib_join(&fj);
    return x + y;
}

static uint64_t spindle_fib(void *pool, int n)
{
    uint64_t result = UINT64_MAX;

    (void)fib_invoke(pool, &result, n); /* a wrong result is reported */
    return result;
}

static uint64_t spindle_body_fib(void *pool, int n)
{
    uint64_t result = UINT64_MAX;

    (void)body_fib_invoke(pool, &result, n);
    return result;
}

/* ---- W5 ----------------------------------------------------------------------------- */

struct merge {
    uint32_t *to;
    const uint32_t *x, *y;
    size_t nx, ny;
};

SPN_FJ_ACTION(merge, const struct merge *, m)
{
    struct merge low = *m, high = *m;

    if (m->nx + m->ny <= MERGE_CUTOFF) {
        fj_merge(m->to, m->x, m->nx, m->y, m->ny);
        return;
    }
    low.ny = fj_merge_cut(m->x, m->nx, m->y, m->ny, &low.nx);
    high.to += low.nx + low.ny;
    high.x += low.nx;
    high.nx -= low.nx;
    high.y += low.ny;
    high.ny -= low.ny;
    merge_fork(&fj, &high);
    merge(fj, &low);
    merge_join(&fj);
}

SPN_FJ_ACTION(sort, uint32_t *, a, size_t, n, uint32_t *, t, int, into_t)
{
    const size_t half = n / 2;
    const uint32_t *from = into_t ? a : t;

    if (n <= FJ_SORT_CUTOFF) {
        fj_sort(a, n, t, into_t);
        return;
    }
    sort_fork(&fj, a, half, t, !into_t);
    sort(fj, a + half, n - half, t + half, !into_t);
    sort_join(&fj);
    merge(fj, &(struct merge){ into_t ? t : a, from, from + half, half, n - half });
}

static void spindle_sort(void *pool, uint32_t *a, size_t n, uint32_t *t)
{
    (void)sort_invoke(pool, a, n, t, 0);
}

SPN_FJ_ACTION(plain_sort, uint32_t *, a, size_t, n, uint32_t *, t, int, into_t)
{
    const size_t half = n / 2;
    const uint32_t *from = into_t ? a : t;

    if (n <= FJ_SORT_CUTOFF) {
        fj_sort(a, n, t, into_t);
        return;
    }
    plain_sort_fork(&fj, a, half, t, !into_t);
    plain_sort(fj, a + half, n - half, t + half, !into_t);
    plain_sort_join(&fj);
    fj_merge(into_t ? t : a, from, half, from + half, n - half);
}

static void spindle_plain_sort(void *pool, uint32_t *a, size_t n, uint32_t *t)
{
    (void)plain_sort_invoke(pool, a, n, t, 0);
}

/* ---- W7 ----------------------------------------------------------------------------- */

SPN_FJ_TASK_DECLARE(uint64_t, visit, uint64_t, parent, uint64_t, index);

static uint64_t visit_children(spn_fj fj, uint64_t node, uint64_t children)
{
    uint64_t nodes;

    for (uint64_t i = 1; i < children; i++)
        visit_fork(&fj, node, i);
    nodes = visit(fj, node, 0);
    for (uint64_t i = 1; i < children; i++)
        nodes += visit_join(&fj);
    return nodes;
}

SPN_FJ_TASK_DEFINE(uint64_t, visit, 0, 0, uint64_t, parent, uint64_t, index)
{
    const uint64_t node = fj_child(parent, index);
    const unsigned children = fj_children(node);

    return children == 0 ? 1 : 1 + visit_children(fj, node, children);
}

SPN_FJ_TASK(uint64_t, visit_roots, uint64_t, roots)
{
    return visit_children(fj, FJ_TREE_SEED, roots);
}

static uint64_t spindle_search(void *pool, uint64_t roots)
{
    uint64_t nodes = 0;

    (void)visit_roots_invoke(pool, &nodes, roots);
    return nodes;
}

const struct fj_kind fj_spindle = { .create = create,
                                    .destroy = destroy,
                                    .fib = spindle_fib,
                                    .sort = spindle_sort,
                                    .search = spindle_search };
const struct fj_kind fj_spindle_body = { .create = create,
                                         .destroy = destroy,
                                         .fib = spindle_body_fib };
const struct fj_kind fj_spindle_plain_merge = { .create = create,
                                                .destroy = destroy,
                                                .sort = spindle_plain_sort };
