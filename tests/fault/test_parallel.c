/* SPDX-License-Identifier: MIT */
/*
 * test_parallel.c - every allocation of a script that makes a fork/join pool and uses it
 * for loops, reductions and sorts fails, once and from then on.  Each call must succeed
 * or say what there was none of; a call that failed has done nothing, and no block
 * may be left.
 */
#include "faults.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <spindle.h>

enum { NUMBERS = 300 };

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    return rc == SPN_OK;
}

static atomic_int visited;

static int visit(void *arg, size_t begin, size_t end)
{
    (void)arg;
    atomic_fetch_add(&visited, (int)(end - begin));
    return 0;
}

/* Too large for a frame. */
struct sum {
    uint64_t total, padding[20];
};

static int fold(void *arg, size_t begin, size_t end, void *value)
{
    (void)arg;
    for (size_t i = begin; i < end; i++)
        ((struct sum *)value)->total += i;
    return 0;
}

static int join(void *arg, void *left, void *right)
{
    (void)arg;
    ((struct sum *)left)->total += ((const struct sum *)right)->total;
    return 0;
}

static int compare(void *arg, const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;

    (void)arg;
    return (x > y) - (x < y);
}

static int succeeded;

static void use(spn_fj_pool *pool)
{
    spn_parallel_opts opts = SPN_PARALLEL_OPTS_INIT;
    struct sum sum = { .total = 0 };
    int numbers[NUMBERS], before[NUMBERS];

    opts.grain = 10;
    atomic_store(&visited, 0);
    if (ok(spn_parallel_for(pool, 0, NUMBERS, visit, NULL, &opts))) {
        CHECK_EQ(atomic_load(&visited), NUMBERS);
        succeeded++;
    } else {
        CHECK_EQ(atomic_load(&visited), 0);
    }
    if (ok(spn_parallel_reduce(pool, 0, NUMBERS, &sum, sizeof sum, fold, join, NULL,
                               &opts))) {
        CHECK_EQ(sum.total, NUMBERS * (NUMBERS - 1) / 2);
        succeeded++;
    } else {
        CHECK_EQ(sum.total, 0);
    }
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i * 7 % NUMBERS;
    memcpy(before, numbers, sizeof numbers);
    if (ok(spn_parallel_sort(pool, numbers, NUMBERS, sizeof(int), compare, NULL,
                             &opts))) {
        for (int i = 0; i < NUMBERS; i++)
            CHECK_EQ(numbers[i], i);
        succeeded++;
    } else {
        CHECK(memcmp(before, numbers, sizeof numbers) == 0);
    }
}

static void script(void)
{
    spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
    spn_fj_pool *pool;

    succeeded = 0;
    opts.parallelism = 2;
    if (!ok(spn_fj_pool_create(&pool, &opts))) {
        CHECK(pool == NULL);
        return;
    }
    use(pool);
    CHECK_OK(spn_fj_pool_close(pool));
    CHECK_OK(spn_fj_pool_destroy(pool));
}

/* Records of threads stay with the library: as many as there will ever be at once, with
 * those of threads that have not quite ended. */
enum { RECORDS = 24 };

static void make_record(int index, void *arg)
{
    pthread_barrier_t *all = arg;

    (void)index;
    (void)spn_thread_current();
    (void)pthread_barrier_wait(all);
}

/* Workers take memory too, at times that differ from run to run: what a sweep meets is
 * not always the same, and so it is repeated. */
static void sweep(bool more)
{
    pthread_barrier_t all;

    (void)spn_thread_current();
    REQUIRE(pthread_barrier_init(&all, NULL, RECORDS) == 0);
    t_parallel(RECORDS, make_record, &all);
    (void)pthread_barrier_destroy(&all);
    for (int round = 0; round < 3; round++) {
        int at = 0;
        long before;

        atomic_store(&fail_at, 0);
        script();
        CHECK_EQ(succeeded, 3);
        before = atomic_load(&live);
        atomic_store(&fail_more, more);
        do {
            atomic_store(&fail_at, ++at);
            atomic_store(&point, 0);
            atomic_store(&refused, 0);
            script();
        } while (atomic_load(&refused) != 0);
        atomic_store(&fail_at, 0);
        CHECK(at > 3);
        script();
        CHECK_EQ(succeeded, 3);
        CHECK_EQ(atomic_load(&live), before);
    }
}

TEST(parallel__each_allocation_fails__nothing_is_lost, "G-22")
{
    sweep(false);
}

TEST(parallel__all_allocations_fail_from_one_on__nothing_is_lost, "G-22")
{
    sweep(true);
}
