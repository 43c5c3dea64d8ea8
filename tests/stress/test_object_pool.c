/* SPDX-License-Identifier: MIT */
/*
 * test_object_pool.c - many threads borrow and return; every object and every borrow is
 * counted, and the pool's own numbers must be the same.
 */
#include <spindle/object_pool.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

struct thing {
    atomic_int holders; /* never above 1 */
    int64_t used;       /* plain: the pool orders its borrowers */
};

struct load {
    spn_object_pool *pool;
    int64_t borrows; /* of each thread */
    uint64_t seed;
    atomic_llong borrowed, returned, invalidated, refused;
    atomic_llong made, destroyed, alive, used;
    atomic_int running;
    long long max;
};

static int make(void *ctx, void **object)
{
    struct load *l = ctx;
    struct thing *thing = calloc(1, sizeof *thing);

    if (thing == NULL)
        return -1;
    CHECK(atomic_fetch_add(&l->alive, 1) < l->max);
    atomic_fetch_add(&l->made, 1);
    *object = thing;
    return 0;
}

static void destroy(void *ctx, void *object)
{
    struct load *l = ctx;
    struct thing *thing = object;

    CHECK_EQ(atomic_load(&thing->holders), 0);
    atomic_fetch_add(&l->used, thing->used);
    free(thing); /* twice, and the sanitizer or the C library tells */
    atomic_fetch_sub(&l->alive, 1);
    atomic_fetch_add(&l->destroyed, 1);
}

static void borrow_often(int index, void *arg)
{
    struct load *l = arg;
    uint64_t random = l->seed + (uint64_t)index;
    long long returned = 0, invalidated = 0, refused = 0;

    for (int64_t i = 0; i < l->borrows; i++) {
        const uint64_t dice = t_random(&random);
        struct thing *thing;
        void *object;
        const int rc = spn_object_pool_borrow(l->pool, &object,
                                              dice % 4 == 0   ? 0
                                              : dice % 4 == 1 ? SPN_US(20)
                                                              : SPN_FOREVER);

        if (rc != SPN_OK) {
            t_require(rc == SPN_ETIMEDOUT, "a reason", __FILE__, __LINE__);
            refused++;
            continue;
        }
        thing = object;
        REQUIRE(atomic_fetch_add_explicit(&thing->holders, 1, memory_order_relaxed) ==
                0);
        thing->used++;
        atomic_fetch_sub_explicit(&thing->holders, 1, memory_order_relaxed);
        if ((dice >> 32) % 512 == 0) {
            REQUIRE(spn_object_pool_invalidate(l->pool, thing) == SPN_OK);
            invalidated++;
        } else {
            REQUIRE(spn_object_pool_return(l->pool, thing) == SPN_OK);
            returned++;
        }
    }
    atomic_fetch_add(&l->returned, returned);
    atomic_fetch_add(&l->invalidated, invalidated);
    atomic_fetch_add(&l->refused, refused);
    atomic_fetch_sub(&l->running, 1);
}

/* The last thread makes passes as long as the others borrow. */
static void borrow_or_maintain(int index, void *arg)
{
    struct load *l = arg;

    if (index < T_THREADS) {
        borrow_often(index, l);
        return;
    }
    while (atomic_load(&l->running) != 0) {
        CHECK_OK(spn_object_pool_maintain(l->pool));
        t_pause();
    }
}

static void run(int64_t borrows, uint32_t max, uint32_t fair)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;
    spn_object_pool_stats stats = SPN_OBJECT_POOL_STATS_INIT;
    struct load l;
    long long total;

    memset(&l, 0, sizeof l);
    l.borrows = borrows / T_THREADS;
    l.seed = t_seed();
    l.max = max;
    atomic_store(&l.running, T_THREADS);
    opts.max = max;
    opts.fair = fair;
    opts.min_idle = 1;
    opts.idle_ns = SPN_US(50);
    opts.max_age_ns = SPN_MS(20);
    opts.leak_ns = SPN_SEC(100);
    opts.trace_frames = fair ? 4 : 0;
    opts.factory = (spn_object_factory){ make, NULL, NULL, destroy, &l };
    REQUIRE_OK(spn_object_pool_create(&l.pool, &opts));
    t_parallel(T_THREADS + 1, borrow_or_maintain, &l);

    CHECK_OK(spn_object_pool_stats_get(l.pool, &stats));
    total = atomic_load(&l.returned) + atomic_load(&l.invalidated);
    CHECK_EQ(total + atomic_load(&l.refused), l.borrows * T_THREADS);
    CHECK_EQ(stats.borrowed, total);
    CHECK_EQ(stats.returned, atomic_load(&l.returned));
    CHECK_EQ(stats.invalidated, atomic_load(&l.invalidated));
    CHECK_EQ(stats.out, 0);
    CHECK_EQ(stats.busy, 0);
    CHECK_EQ(stats.waiting, 0);
    CHECK_EQ(stats.made, atomic_load(&l.made));
    CHECK_EQ(stats.idle, atomic_load(&l.alive));
    CHECK_OK(spn_object_pool_shutdown(l.pool));
    CHECK_OK(spn_object_pool_await(l.pool, T_LONG_NS));
    CHECK_OK(spn_object_pool_destroy(l.pool));
    CHECK_EQ(atomic_load(&l.alive), 0);
    CHECK_EQ(atomic_load(&l.destroyed), atomic_load(&l.made));
    CHECK_EQ(atomic_load(&l.used), total);
}

/* Fewer objects than threads: they wait for each other. */
TEST(stress_object_pool__few_objects__every_borrow_counted, "OBJ-2", "OBJ-12", "OBJ-21")
{
    run(t_rounds(100000), 2, 0);
    run(t_rounds(100000), 1, 1);
}

/* As many as threads, and more than a word of states. */
TEST(stress_object_pool__million_borrows__every_borrow_counted, "OBJ-21", "OBJ-22")
{
    run(t_rounds(1000000), T_THREADS, 0);
    run(t_rounds(100000), 40, 1);
}

/* make test-long: ten million. */
TEST_WHEN_NAMED(stress_object_pool__ten_million_borrows__every_borrow_counted)
{
    run(10000000, 3, 0);
}
