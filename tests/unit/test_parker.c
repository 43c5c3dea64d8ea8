/* SPDX-License-Identifier: MIT */
/* How long a parker says that its owner has slept; what it promises otherwise is shown in
 * the explorer (scenario_parker.c). */
#include "test.h"

#include "peer.h"

#include "base/time.h"
#include "sync/parker.h"

TEST(parker__permit_was_there__has_not_slept)
{
    struct spn__parker parker;

    spn__parker_init(&parker);
    CHECK_EQ(spn__parker_slept_ns(&parker), UINT32_MAX);
    spn__parker_unpark(&parker);
    CHECK(spn__parker_park(&parker, SPN_FOREVER));
    CHECK_EQ(spn__parker_slept_ns(&parker), 0);
}

TEST(parker__time_is_over__nobody_woke_it)
{
    for (int asleep = 0; asleep < 2; asleep++) {
        struct spn__parker parker;

        spn__parker_init(&parker);
        spn__parker_unpark(&parker);
        CHECK(spn__parker_park(&parker, SPN_FOREVER));
        CHECK(!spn__parker_park(&parker, asleep ? spn__now() + SPN_MS(1) : INT64_MIN));
        CHECK_EQ(spn__parker_slept_ns(&parker), UINT32_MAX);
    }
}

static int sleep_until_woken(void *arg)
{
    CHECK(spn__parker_park(arg, SPN_FOREVER));
    return 0;
}

/* From before it was seen asleep until the permit: not shorter than what lies between, and
 * not longer than all of it. */
TEST(parker__woken__tells_how_long_it_slept)
{
    struct spn__parker parker;
    struct peer p;
    int64_t begin_ns, asleep_ns, woken_ns;

    spn__parker_init(&parker);
    begin_ns = spn__now();
    peer_start(&p, sleep_until_woken, &parker);
    peer_await_blocked(&p);
    asleep_ns = spn__now();
    T_AWAIT(spn__now() - asleep_ns > SPN_MS(1));
    spn__parker_unpark(&parker);
    woken_ns = spn__now();
    CHECK_OK(peer_finish(&p));
    if (woken_ns - begin_ns < SPN_SEC(4)) { /* else it does not fit */
        CHECK(spn__parker_slept_ns(&parker) >= SPN_MS(1));
        CHECK(spn__parker_slept_ns(&parker) <= woken_ns - begin_ns);
    }
}
