/* SPDX-License-Identifier: MIT */
/*
 * test_future_timeout.c - every allocation of futures that time out fails once and from then on: what is refused has changed nothing, and nothing stays.
 */
#include "faults.h"
#include "test.h"

#include <spindle.h>

/* SPN_OK, or a refusal that an allocation explains. */
static int try_(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    return rc;
}

static void live_once(void)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_future *f[2] = { NULL, NULL };
    spn_timer *timer;
    int64_t expected = 0;

    opts.shards = 1;
    opts.drive = SPN_TIMER_DRIVEN;
    if (try_(spn_timer_create(&timer, &opts)) != SPN_OK)
        return;
    for (int i = 0; i < 2; i++)
        if (try_(spn_future_create(&f[i], NULL)) == SPN_OK) {
            const int rc =
                i == 0 ? spn_future_or_timeout(f[i], timer, SPN_SEC(99), NULL)
                       : spn_future_complete_on_timeout(f[i], timer, NULL, SPN_SEC(99));

            expected += try_(rc) == SPN_OK;
            CHECK_EQ(spn_future_get_state(f[i]), SPN_FUTURE_PENDING);
        }
    CHECK_EQ(spn_timer_pending(timer), expected);
    if (f[0] != NULL)
        CHECK_EQ(spn_future_cancel(f[0], 0), 1); /* cannot fail */
    CHECK(spn_timer_pending(timer) <= 1);
    while (spn_timer_stop(timer, NULL, NULL) == SPN_ENOMEM)
        atomic_store(&fail_at, 0);
    CHECK_OK(spn_timer_destroy(timer));
    spn_future_unref(f[0]);
    spn_future_unref(f[1]);
}

TEST(future_timeout__each_allocation_fails__nothing_left, "G-22", "CF-35")
{
    long before;
    int points;

    live_once(); /* records of threads are made, and stay */
    before = atomic_load(&live);
    atomic_store(&point, 0);
    live_once();
    points = atomic_load(&point);
    CHECK(points >= 8);
    for (int at = 1; at <= points; at++)
        for (int more = 0; more < 2; more++) {
            atomic_store(&point, 0);
            atomic_store(&fail_more, more);
            atomic_store(&fail_at, at);
            live_once();
            atomic_store(&fail_at, 0);
            CHECK_EQ(atomic_load(&live), before);
        }
    CHECK(atomic_load(&refused) > points);
}
