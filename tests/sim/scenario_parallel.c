/* SPDX-License-Identifier: MIT */
/* scenario_parallel.c - loops, reductions and sorts, with every way their parts can be
 * shared between two workers: what a part did is seen after the call, a failure leaves
 * the rest out, and no element is lost. */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

static spn_fj_pool *pool;
static SPN__ATOMIC(int) seen[4];
static int plain[4]; /* ordered by the call under test */

static bool begin(int32_t parallelism)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;

    opts.parallelism = parallelism;
    for (int i = 0; i < 4; i++) {
        plain[i] = 0;
        spn__init(&seen[i], 0);
    }
    /* Without a record the end could not be waited for. */
    return spn_thread_current() != NULL && spn_fj_pool_create(&pool, &opts) == SPN_OK;
}

static void end(void)
{
    sim_assert(spn_fj_pool_close(pool) == SPN_OK);
    sim_assert(spn_fj_pool_destroy(pool) == SPN_OK);
}

/* It came off, or there was no memory, or no thread. */
static bool came_off(int rc)
{
    sim_assert(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    return rc == SPN_OK;
}

static spn_parallel_opts one_each(void)
{
    spn_parallel_opts opts = SPN_PARALLEL_OPTS_INIT;

    opts.grain = 1;
    return opts;
}

static int mark(void *arg, size_t first, size_t last)
{
    (void)arg;
    sim_assert(last == first + 1);
    plain[first]++;
    spn__store(&seen[first], 1, relaxed);
    return 0;
}

/* What each part stored, relaxed, is what the caller reads, relaxed. */
SCENARIO(parallel_for__two_workers__each_part_once_and_seen, "FJT-28")
{
    const spn_parallel_opts opts = one_each();

    if (!begin(2))
        return;
    if (came_off(spn_parallel_for(pool, 0, 3, mark, NULL, &opts)))
        for (int i = 0; i < 3; i++) {
            sim_assert(spn__load(&seen[i], relaxed) == 1);
            sim_assert(plain[i] == 1);
        }
    end();
}
SCENARIO_OPTS(parallel_for__two_workers__each_part_once_and_seen, .faults = true)

static int fail_at_one(void *arg, size_t first, size_t last)
{
    (void)mark(arg, first, last);
    return first == 1 ? -7 : 0;
}

/* A failure is returned whoever met it, and no part runs twice. */
SCENARIO(parallel_for__a_part_fails__is_told)
{
    const spn_parallel_opts opts = one_each();
    int rc;

    if (!begin(2))
        return;
    rc = spn_parallel_for(pool, 0, 3, fail_at_one, NULL, &opts);
    sim_assert(rc == -7 || !came_off(rc));
    sim_assert(rc != -7 || plain[1] == 1);
    sim_assert(plain[0] <= 1 && plain[1] <= 1 && plain[2] <= 1);
    end();
}
SCENARIO_OPTS(parallel_for__a_part_fails__is_told, .faults = true)

static int fold(void *arg, size_t first, size_t last, void *value)
{
    int *digits = value;

    (void)arg;
    for (size_t i = first; i < last; i++)
        *digits = *digits * 10 + (int)i;
    return 0;
}

static int join(void *arg, void *left, void *right)
{
    int *digits = left;
    const int more = *(const int *)right;

    (void)arg;
    *digits = *digits * (more > 9 ? 100 : 10) + more;
    return 0;
}

/* The order of a reduction is that of the indices, whoever does what. */
SCENARIO(parallel_reduce__two_workers__keeps_the_order)
{
    const spn_parallel_opts opts = one_each();
    int digits = 0;

    if (!begin(2))
        return;
    if (came_off(spn_parallel_reduce(pool, 1, 5, &digits, sizeof digits, fold, join,
                                     NULL, &opts)))
        sim_assert(digits == 1234);
    end();
}
SCENARIO_OPTS(parallel_reduce__two_workers__keeps_the_order, .faults = true)

static int compare(void *arg, const void *a, const void *b)
{
    (void)arg;
    return *(const int *)a / 10 - *(const int *)b / 10; /* the last digit is no key */
}

/* Sorted and stable, with the last merge cut in two. */
SCENARIO(parallel_sort__two_workers__sorted_and_stable)
{
    const spn_parallel_opts opts = one_each();
    int numbers[5] = { 31, 20, 10, 21, 11 };
    static const int sorted[5] = { 10, 11, 20, 21, 31 };

    if (!begin(2))
        return;
    if (came_off(
            spn_parallel_sort(pool, numbers, 5, sizeof(int), compare, NULL, &opts)))
        for (int i = 0; i < 5; i++)
            sim_assert(numbers[i] == sorted[i]);
    for (int i = 0; i < 5; i++) { /* all are there, in whatever order */
        int found = 0;

        for (int j = 0; j < 5; j++)
            found += numbers[j] == sorted[i];
        sim_assert(found == 1);
    }
    end();
}
SCENARIO_OPTS(parallel_sort__two_workers__sorted_and_stable, .faults = true)
