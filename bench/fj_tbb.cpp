/* SPDX-License-Identifier: MIT */
/*
 * TBB, both ways: parallel_invoke, and task_group.  The caller is one of the workers.
 */
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include "fj_peers.h"

namespace
{
struct tbb_pool {
    tbb::global_control threads;
    tbb::task_arena arena;

    explicit tbb_pool(int workers)
        : threads(tbb::global_control::max_allowed_parallelism,
                  static_cast<std::size_t>(workers)),
          arena(workers)
    {
    }
};

tbb::task_arena &arena_of(void *pool)
{
    return static_cast<tbb_pool *>(pool)->arena;
}

void *create(int workers)
{
    return new tbb_pool(workers);
}

void destroy(void *pool)
{
    delete static_cast<tbb_pool *>(pool);
}

/* ---- parallel_invoke, where there are two --------------------------------------- */

uint64_t invoke_fib(int n)
{
    uint64_t x, y;

    if (n < 2)
        return static_cast<uint64_t>(n);
    tbb::parallel_invoke([&] { x = invoke_fib(n - 1); },
                         [&] { y = invoke_fib(n - 2); });
    return x + y;
}

void invoke_sort(uint32_t *a, size_t n, uint32_t *t, bool into_t)
{
    const size_t half = n / 2;

    if (n <= FJ_SORT_CUTOFF) {
        fj_sort(a, n, t, into_t);
        return;
    }
    tbb::parallel_invoke([=] { invoke_sort(a, half, t, !into_t); },
                         [=] { invoke_sort(a + half, n - half, t + half, !into_t); });
    if (into_t)
        fj_merge(t, a, half, a + half, n - half);
    else
        fj_merge(a, t, half, t + half, n - half);
}

uint64_t visit(uint64_t parent, uint64_t index);

/* The subtrees of children [from, to), cut in half until one is left. */
uint64_t visit_range(uint64_t node, uint64_t from, uint64_t to)
{
    const uint64_t middle = from + (to - from) / 2;
    uint64_t x, y;

    if (to - from == 1)
        return visit(node, from);
    tbb::parallel_invoke([&] { x = visit_range(node, from, middle); },
                         [&] { y = visit_range(node, middle, to); });
    return x + y;
}

uint64_t visit(uint64_t parent, uint64_t index)
{
    const uint64_t node = fj_child(parent, index);
    const unsigned children = fj_children(node);

    return children == 0 ? 1 : 1 + visit_range(node, 0, children);
}

/* ---- task_group --------------------------------------------------------------------- */

uint64_t group_fib(int n)
{
    tbb::task_group group;
    uint64_t x, y;

    if (n < 2)
        return static_cast<uint64_t>(n);
    group.run([&] { x = group_fib(n - 1); });
    y = group_fib(n - 2);
    group.wait();
    return x + y;
}

void group_sort(uint32_t *a, size_t n, uint32_t *t, bool into_t)
{
    const size_t half = n / 2;

    if (n <= FJ_SORT_CUTOFF) {
        fj_sort(a, n, t, into_t);
        return;
    }
    tbb::task_group group;
    group.run([=] { group_sort(a, half, t, !into_t); });
    group_sort(a + half, n - half, t + half, !into_t);
    group.wait();
    if (into_t)
        fj_merge(t, a, half, a + half, n - half);
    else
        fj_merge(a, t, half, t + half, n - half);
}

uint64_t group_visit(uint64_t parent, uint64_t index)
{
    const uint64_t node = fj_child(parent, index);
    const unsigned children = fj_children(node);
    uint64_t counts[FJ_TREE_FAN] = {}, nodes = 1;

    if (children == 0)
        return 1;
    tbb::task_group group;
    for (unsigned i = 1; i < children; i++)
        group.run([&counts, node, i] { counts[i] = group_visit(node, i); });
    counts[0] = group_visit(node, 0);
    group.wait();
    for (const uint64_t count : counts)
        nodes += count;
    return nodes;
}

/* ---- as kinds ------------------------------------------------------------------------ */

fj_kind make_invoke()
{
    fj_kind kind = {};

    kind.create = create;
    kind.destroy = destroy;
    kind.fib = [](void *pool, int n) {
        return arena_of(pool).execute([=] { return invoke_fib(n); });
    };
    kind.sort = [](void *pool, uint32_t *a, size_t n, uint32_t *t) {
        arena_of(pool).execute([=] { invoke_sort(a, n, t, false); });
    };
    kind.search = [](void *pool, uint64_t roots) {
        return arena_of(pool).execute(
            [=] { return visit_range(FJ_TREE_SEED, 0, roots); });
    };
    kind.fib_max = FJ_FIB_SLOW;
    return kind;
}

fj_kind make_group()
{
    fj_kind kind = make_invoke();

    kind.fib = [](void *pool, int n) {
        return arena_of(pool).execute([=] { return group_fib(n); });
    };
    kind.sort = [](void *pool, uint32_t *a, size_t n, uint32_t *t) {
        arena_of(pool).execute([=] { group_sort(a, n, t, false); });
    };
    kind.search = [](void *pool, uint64_t roots) {
        return arena_of(pool).execute([=] {
            uint64_t *counts = new uint64_t[roots], nodes = 0;
            tbb::task_group group;

            for (uint64_t i = 0; i < roots; i++)
                group.run([=] { counts[i] = group_visit(FJ_TREE_SEED, i); });
            group.wait();
            for (uint64_t i = 0; i < roots; i++)
                nodes += counts[i];
            delete[] counts;
            return nodes;
        });
    };
    return kind;
}
} // namespace

const char *fj_tbb_version(void)
{
    return TBB_runtime_version();
}

const struct fj_kind fj_tbb_invoke = make_invoke();
const struct fj_kind fj_tbb_group = make_group();
