/* SPDX-License-Identifier: MIT */
/*
 * test_object_pool.c - every allocation of a script that makes and uses an object pool
 * fails, once and from then on; and make fails at each of its calls in turn.  No block
 * and no object is left.
 */
#include "faults.h"
#include "test.h"

#include <spindle.h>

static int makes, fail_make, objects;

static int make(void *ctx, void **object)
{
    (void)ctx;
    if (++makes == fail_make)
        return -7;
    *object = malloc(1);
    objects += *object != NULL;
    return *object != NULL ? 0 : -1;
}

static void destroy(void *ctx, void *object)
{
    (void)ctx;
    objects--;
    free(object);
}

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || (fail_make != 0 && rc == SPN_EFAILED));
    return rc == SPN_OK;
}

static void use(spn_object_pool *pool)
{
    void *a, *b;

    (void)ok(spn_object_pool_maintain(pool));
    if (ok(spn_object_pool_borrow(pool, &a, SPN_MS(1)))) {
        if (ok(spn_object_pool_borrow(pool, &b, 0)))
            CHECK_OK(spn_object_pool_invalidate(pool, b));
        CHECK_OK(spn_object_pool_return(pool, a));
    }
    (void)ok(spn_object_pool_maintain(pool));
    CHECK_OK(spn_object_pool_shutdown(pool));
    if (!ok(spn_object_pool_await(pool, SPN_MS(1))))
        CHECK_EQ(objects, 0);
    CHECK_OK(spn_object_pool_destroy(pool));
}

static void script(void)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;
    spn_timer_opts timer_opts = SPN_TIMER_OPTS_INIT;
    spn_object_pool *pool;
    spn_timer *timer;

    timer_opts.drive = SPN_TIMER_DRIVEN;
    if (!ok(spn_timer_create(&timer, &timer_opts)))
        return;
    opts.max = 3;
    opts.min_idle = 2;
    opts.trace_frames = 2;
    opts.timer = timer;
    opts.factory = (spn_object_factory){ make, NULL, NULL, destroy, NULL };
    if (ok(spn_object_pool_create(&pool, &opts)))
        use(pool);
    else
        CHECK(pool == NULL);
    CHECK_EQ(objects, 0);
    (void)ok(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}

/* Without memory nothing is half made. */
TEST(fault_object_pool__each_allocation_refused__nothing_left, "G-22", "OBJ-10")
{
    CHECK(spn_thread_current() != NULL); /* the thread's record stays */
    script();
    fault_sweep(script, false, 3);
    fault_sweep(script, true, 3);
}

/* Whichever make fails, what was made is destroyed. */
TEST(fault_object_pool__each_make_fails__nothing_left, "OBJ-10", "OBJ-12")
{
    for (fail_make = 1; fail_make < 8; fail_make++) {
        makes = 0;
        script();
    }
    fail_make = 0;
}
