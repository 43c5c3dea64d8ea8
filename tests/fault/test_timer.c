/* SPDX-License-Identifier: MIT */
/*
 * test_timer.c - every allocation of a timer's life fails, once and from then on.  A
 * step that is refused has taken and started nothing, and nothing is left at the end.
 */
#include "test.h"

#include <spindle.h>

#include "wheel/timer.h"

#include "faults.h"

static atomic_int runs;

static int run(spn_timeout *t)
{
    (void)t;
    atomic_fetch_add(&runs, 1);
    return 0;
}

struct told {
    int runs, gones, left;
};

static void beat(spn_timeout_handle *handle, void *arg)
{
    struct told *told = arg;
    const long refusals = atomic_load(&refused);

    if (++told->runs == 1)
        CHECK_OK(spn_timeout_handle_again(handle, 0));
    CHECK_EQ(atomic_load(&refused), refusals); /* again needs no memory */
}

static void tell(void *arg, int reason)
{
    CHECK_STATUS(reason, SPN_ESHUTDOWN);
    ((struct told *)arg)->gones++;
}

/* A handle that expires twice, one that is left, which a list gives back or its gone is
 * told.  A driven timer is run until both runs of the first are over. */
static void live_handles(spn_timer *timer, struct told *told, bool with_list)
{
    spn_timeout_handle_list handles = { NULL };
    spn_timeout_handle *twice, *far, *given;
    const int twice_rc = spn_timer_new_timeout(timer, beat, tell, told, 0, &twice);
    const int far_rc =
        spn_timer_new_timeout(timer, beat, tell, told, SPN_SEC(99), &far);
    int rc;

    CHECK(twice_rc == SPN_OK || twice_rc == SPN_ENOMEM);
    CHECK(far_rc == SPN_OK || far_rc == SPN_ENOMEM);
    CHECK_EQ(twice != NULL, twice_rc == SPN_OK);
    CHECK_EQ(far != NULL, far_rc == SPN_OK);
    while (told->runs < 2 && twice_rc == SPN_OK)
        if (spn_timer_run(timer) == SPN_ENOMEM) /* until there is memory again */
            atomic_store(&fail_at, 0);
    while ((rc = spn_timer_stop(timer, NULL, with_list ? &handles : NULL)) ==
           SPN_ENOMEM) {
        CHECK(spn_timeout_handle_take(&handles) == NULL); /* nothing was stopped */
        CHECK(spn_timer_start(timer) != SPN_ESTATE);
        atomic_store(&fail_at, 0);
    }
    CHECK_OK(rc);
    for (; (given = spn_timeout_handle_take(&handles)) != NULL; told->left++) {
        CHECK(given == far);
        spn_timeout_handle_unref(given);
    }
    CHECK_EQ(told->runs, twice_rc == SPN_OK ? 2 : 0);
    CHECK_EQ(told->left, far_rc == SPN_OK && with_list);
    CHECK_EQ(told->gones, far_rc == SPN_OK && !with_list);
    CHECK_OK(spn__timer_check(timer));
    CHECK_OK(spn_timer_destroy(timer));
    spn_timeout_handle_unref(twice);
    spn_timeout_handle_unref(far);
}

static void live_with_handles(bool with_list)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    struct told told = { 0, 0, 0 };
    spn_timer *timer;
    int rc;

    opts.drive = SPN_TIMER_DRIVEN;
    rc = spn_timer_create(&timer, &opts);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    if (rc == SPN_OK)
        live_handles(timer, &told, with_list);
}

/* The whole life; every status that is not SPN_OK is ENOMEM, and leaves no trace. */
static void live_once(spn_executor *executor, uint32_t drive)
{
    static const uint32_t cpus[] = { 0 };
    spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timeout now = SPN_TIMEOUT_INIT, far = SPN_TIMEOUT_INIT;
    spn_timer *timer = (spn_timer *)(void *)&opts;
    const long refusals = atomic_load(&refused);
    spn_timeout_handle *handle = NULL;
    struct told told = { 0, 0, 0 };
    int rc, handle_rc;

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
    rc = spn_timer_schedule(timer, &now, run, 0);
    if (rc == SPN_OK)
        rc = spn_timer_schedule(timer, &far, run, SPN_SEC(99));
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    CHECK_EQ(spn_timer_pending(timer) != 0 || atomic_load(&runs) != 0, rc == SPN_OK);
    CHECK_EQ((spn_timeout_state(&far) == SPN_TIMEOUT_PENDING), rc == SPN_OK);
    handle_rc = spn_timer_new_timeout(timer, beat, tell, &told, SPN_SEC(99), &handle);
    CHECK(handle_rc == SPN_OK || handle_rc == SPN_ENOMEM);
    CHECK_EQ(handle != NULL, handle_rc == SPN_OK);
    if (rc == SPN_OK && drive == SPN_TIMER_THREAD) {
        T_AWAIT(atomic_load(&runs) == 1);
    } else if (rc == SPN_OK) {
        while (spn_timer_run(timer) == SPN_ENOMEM) /* until there is memory again */
            atomic_store(&fail_at, 0);
        CHECK_EQ(atomic_load(&runs), 1);
    }
    while ((rc = spn_timer_stop(timer, NULL, NULL)) == SPN_ENOMEM) {
        CHECK(spn_timer_start(timer) != SPN_ESTATE); /* nothing was stopped */
        atomic_store(&fail_at, 0);
    }
    CHECK_OK(rc);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(told.gones, handle_rc == SPN_OK);
    CHECK_EQ(told.runs, 0);
    CHECK_OK(spn__timer_check(timer));
    CHECK_OK(spn_timer_destroy(timer));
    spn_timeout_handle_unref(handle);
}

/* What is swept: a timer's life, or if `lists` that of handles, with a list or without. */
struct life {
    spn_executor *executor;
    uint32_t drive, lists; /* 0: no handles but one; 1: a list; 2: no list */
};

static void live_life(const struct life *l)
{
    if (l->lists == 0)
        live_once(l->executor, l->drive);
    else
        live_with_handles(l->lists == 1);
}

static void sweep(struct life l)
{
    long before;
    int points;

    atomic_store(&fail_at, 0);
    live_life(&l); /* records of threads are made, and stay */
    before = atomic_load(&live);
    atomic_store(&point, 0);
    live_life(&l);
    points = atomic_load(&point);
    CHECK(points >= 4);
    for (int at = 1; at <= points; at++)
        for (int after = 0; after < 2; after++) {
            atomic_store(&point, 0);
            atomic_store(&fail_more, after == 1);
            atomic_store(&fail_at, at);
            live_life(&l);
            atomic_store(&fail_at, 0);
            CHECK_EQ(atomic_load(&live), before);
        }
}

TEST(timer__each_allocation_fails__nothing_left, "G-22")
{
    sweep((struct life){ NULL, SPN_TIMER_THREAD, 0 });
    sweep((struct life){ spn_executor_direct(), SPN_TIMER_THREAD, 0 });
    sweep((struct life){ NULL, SPN_TIMER_DRIVEN, 0 });
    sweep((struct life){ NULL, SPN_TIMER_FD, 0 });
    CHECK(atomic_load(&refused) > 10);
}

/* The same of handles: one that runs twice, and one that stop gives back or tells. */
TEST(timer__each_allocation_fails_beside_handles__each_ends_once, "G-22", "HWT-33",
     "HWT-48")
{
    const long before = atomic_load(&refused);

    sweep((struct life){ .lists = 1 });
    sweep((struct life){ .lists = 2 });
    CHECK(atomic_load(&refused) > before + 8);
}
