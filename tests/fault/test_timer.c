/* SPDX-License-Identifier: MIT */
/*
 * test_timer.c - every allocation of a timer's life fails, once and from then on.  A
 * step that is refused has taken and started nothing, and nothing is left at the end.
 */
#include "test.h"

#include <spindle.h>

#include "faults.h"

static atomic_int runs;

static int run(spn_timeout *t)
{
    (void)t;
    atomic_fetch_add(&runs, 1);
    return 0;
}

static void tell(void *arg, int reason)
{
    CHECK_STATUS(reason, SPN_ECANCELED);
    ++*(int *)arg;
}

/* The whole life; every status that is not SPN_OK is ENOMEM, and leaves no trace. */
static void live_once(spn_executor *executor, uint32_t drive)
{
    static const uint32_t cpus[] = { 0 };
    spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timeout now = SPN_TIMEOUT_INIT, far = SPN_TIMEOUT_INIT;
    const spn_timer_entry entries[] = { { &now, run, 0 }, { &far, run, SPN_SEC(99) } };
    spn_timer *timer = (spn_timer *)(void *)&opts;
    const long refusals = atomic_load(&refused);
    spn_timeout_handle *handle = NULL;
    int rc, handle_rc, told = 0;

    atomic_store(&runs, 0);
    thread.name = "frail";
    thread.cpus = cpus;
    thread.cpu_count = 1;
    opts.thread = &thread;
    opts.executor = executor;
    opts.drive = drive;
    opts.shards = 2;
    opts.tick_ns = SPN_MS(1);
    rc = spn_timer_create(&timer, &opts);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    if (rc != SPN_OK) {
        CHECK(timer == NULL);
        CHECK(atomic_load(&refused) > refusals);
        return;
    }
    rc = spn_timer_schedule_many(timer, entries, 2);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    CHECK_EQ(spn_timer_pending(timer) != 0 || atomic_load(&runs) != 0, rc == SPN_OK);
    CHECK_EQ(spn_timeout_is_pending(&far), rc == SPN_OK);
    handle_rc = spn_timer_new_timeout(timer, tell, &told, SPN_SEC(99), &handle);
    CHECK(handle_rc == SPN_OK || handle_rc == SPN_ENOMEM);
    CHECK_EQ(handle != NULL, handle_rc == SPN_OK);
    if (rc == SPN_OK && drive == SPN_TIMER_THREAD) {
        T_AWAIT(atomic_load(&runs) == 1);
    } else if (rc == SPN_OK) {
        while (spn_timer_run(timer) == SPN_ENOMEM) /* until there is memory again */
            atomic_store(&fail_at, 0);
        CHECK_EQ(atomic_load(&runs), 1);
    }
    while ((rc = spn_timer_stop(timer, NULL)) == SPN_ENOMEM) {
        CHECK_EQ(spn_timer_is_stopped(timer), 0); /* nothing was stopped */
        atomic_store(&fail_at, 0);
    }
    CHECK_OK(rc);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(told, handle_rc == SPN_OK);
    CHECK_OK(spn_timer_check(timer));
    CHECK_OK(spn_timer_destroy(timer));
    spn_timeout_handle_unref(handle);
}

static void sweep(spn_executor *executor, uint32_t drive)
{
    long before;
    int points;

    atomic_store(&fail_at, 0);
    live_once(executor, drive); /* records of threads are made, and stay */
    before = atomic_load(&live);
    atomic_store(&point, 0);
    live_once(executor, drive);
    points = atomic_load(&point);
    CHECK(points >= 4);
    for (int at = 1; at <= points; at++)
        for (int after = 0; after < 2; after++) {
            atomic_store(&point, 0);
            atomic_store(&fail_more, after == 1);
            atomic_store(&fail_at, at);
            live_once(executor, drive);
            atomic_store(&fail_at, 0);
            CHECK_EQ(atomic_load(&live), before);
        }
}

TEST(timer__each_allocation_fails__nothing_left, "G-22")
{
    sweep(NULL, SPN_TIMER_THREAD);
    sweep(spn_executor_direct(), SPN_TIMER_THREAD);
    sweep(NULL, SPN_TIMER_DRIVEN);
    sweep(NULL, SPN_TIMER_FD);
    CHECK(atomic_load(&refused) > 10);
}
