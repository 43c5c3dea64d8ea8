/* SPDX-License-Identifier: MIT */
/* test_latch.c - a latch opens once, for everybody, and stays open. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>

#include <spindle/clock.h>
#include <spindle/latch.h>

static int await_forever(void *latch)
{
    return spn_latch_await(latch, SPN_FOREVER);
}

/* A latch created with zero is open. */
TEST(latch__created_with_zero__is_open, "G-6")
{
    spn_latch *latch;

    REQUIRE_OK(spn_latch_create(&latch, 0));
    CHECK_EQ(spn_latch_count(latch), 0);
    CHECK_OK(spn_latch_await(latch, SPN_FOREVER));
    CHECK_OK(spn_latch_await(latch, 0));
    CHECK_OK(spn_latch_await(latch, INT64_MIN));
    CHECK_OK(spn_latch_destroy(latch));
}

/* Each count_down takes one; at zero it takes nothing more. */
TEST(latch__counted_down__stops_at_zero, "G-3")
{
    spn_latch *latch;

    REQUIRE_OK(spn_latch_create(&latch, 3));
    for (int left = 2; left >= -3; left--) {
        CHECK_OK(spn_latch_count_down(latch));
        CHECK_EQ(spn_latch_count(latch), left > 0 ? left : 0);
        CHECK_STATUS(spn_latch_await(latch, 0), left > 0 ? SPN_ETIMEDOUT : SPN_OK);
    }
    CHECK_OK(spn_latch_destroy(latch));
}

/* The largest count is a count like any other. */
TEST(latch__largest_count__counts_down, "G-3")
{
    spn_latch *latch;

    REQUIRE_OK(spn_latch_create(&latch, INT32_MAX));
    CHECK_EQ(spn_latch_count(latch), INT32_MAX);
    CHECK_OK(spn_latch_count_down(latch));
    CHECK_EQ(spn_latch_count(latch), INT32_MAX - 1);
    CHECK_STATUS(spn_latch_await(latch, 0), SPN_ETIMEDOUT);
    CHECK_OK(spn_latch_destroy(latch));
}

/* Nobody passes before the last count_down, and then everybody does. */
TEST(latch__reaches_zero__releases_every_waiter, "G-20")
{
    enum { WAITERS = 8 };
    struct peer p[WAITERS];
    spn_latch *latch;

    REQUIRE_OK(spn_latch_create(&latch, 2));
    for (int i = 0; i < WAITERS; i++) {
        if (i % 2 == 0)
            peer_start(&p[i], await_forever, latch);
        else
            peer_start_foreign(&p[i], await_forever, latch);
        peer_await_blocked(&p[i]);
    }
    CHECK_OK(spn_latch_count_down(latch));
    CHECK(peer_still_waits(&p[0]));
    for (int i = 0; i < WAITERS; i++)
        CHECK_EQ(atomic_load(&p[i].done), 0);
    CHECK_OK(spn_latch_count_down(latch));
    for (int i = 0; i < WAITERS; i++)
        CHECK_OK(peer_finish(&p[i]));
    CHECK_OK(spn_latch_await(latch, 0)); /* and stays open */
    CHECK_OK(spn_latch_destroy(latch));
}

/* An open latch lets pass whatever the interrupt flag, and leaves it set. */
TEST(latch__open__ignores_the_flag, "G-10", "G-13")
{
    spn_latch *latch;

    REQUIRE_OK(spn_latch_create(&latch, 0));
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_OK(spn_latch_await(latch, SPN_FOREVER));
    CHECK_OK(spn_latch_await(latch, -1));
    CHECK_EQ(spn_thread_interrupted(), 1);
    CHECK_OK(spn_latch_destroy(latch));
}

/* A latch somebody waits on cannot be destroyed, and goes on working. */
TEST(latch__destroyed_with_a_waiter__busy_and_unchanged, "G-17")
{
    struct peer p;
    spn_latch *latch;

    REQUIRE_OK(spn_latch_create(&latch, 1));
    peer_start(&p, await_forever, latch);
    peer_await_blocked(&p);
    CHECK_STATUS(spn_latch_destroy(latch), SPN_EBUSY);
    CHECK_EQ(spn_latch_count(latch), 1);
    CHECK_EQ(atomic_load(&p.done), 0);
    CHECK_OK(spn_latch_count_down(latch));
    CHECK_OK(peer_finish(&p));
    CHECK_OK(spn_latch_destroy(latch));
    CHECK_OK(spn_latch_destroy(NULL));
}

struct publish {
    spn_latch *start, *done;
    int wrote[T_THREADS]; /* plain: the latch is what orders */
    int sums[T_THREADS];
};

static void write_meet_read(int index, void *arg)
{
    struct publish *x = arg;

    x->wrote[index] = index + 1;
    CHECK_OK(spn_latch_count_down(x->start));
    CHECK_OK(spn_latch_await(x->start, SPN_FOREVER));
    x->sums[index] = 0;
    for (int i = 0; i < T_THREADS; i++)
        x->sums[index] += x->wrote[i];
}

/* What precedes each count_down is visible after await. */
TEST(latch__count_down__publishes_what_preceded, "G-19")
{
    for (int round = 0; round < t_rounds(200); round++) {
        struct publish x = { .start = NULL };

        REQUIRE_OK(spn_latch_create(&x.start, T_THREADS));
        t_parallel(T_THREADS, write_meet_read, &x);
        for (int i = 0; i < T_THREADS; i++)
            CHECK_EQ(x.sums[i], T_THREADS * (T_THREADS + 1) / 2);
        CHECK_OK(spn_latch_destroy(x.start));
    }
}

/* One thread makes latches and frees each as soon as its await has returned,
 * while the other is still inside the count_down that opened it. */
struct hasty {
    _Atomic(spn_latch *) latch;
    int rounds;
};

static void count_down_each(struct hasty *x)
{
    for (int i = 0; i < x->rounds; i++) {
        spn_latch *latch;

        T_AWAIT((latch = atomic_exchange(&x->latch, NULL)) != NULL);
        CHECK_OK(spn_latch_count_down(latch));
    }
}

static void hasty_role(int index, void *arg)
{
    struct hasty *x = arg;

    if (index == 0) {
        count_down_each(x);
        return;
    }
    for (int i = 0; i < x->rounds; i++) {
        spn_latch *latch;

        REQUIRE_OK(spn_latch_create(&latch, 1));
        atomic_store(&x->latch, latch);
        CHECK_OK(spn_latch_await(latch, SPN_FOREVER));
        CHECK_OK(spn_latch_destroy(latch));
    }
}

TEST(latch__destroyed_right_after_await__count_down_still_safe, "G-17", "G-20")
{
    struct hasty x = { .rounds = t_rounds(20000) };
    long before;

    hasty_role(1, &(struct hasty){ .rounds = 0 });
    before = atomic_load(&counting_live);
    t_parallel(2, hasty_role, &x);
    CHECK(atomic_load(&counting_live) <= before + 2); /* two threads' records */
}

/* A timeout that comes as the latch opens gives one answer or the other, never
 * a hang and never a lost waiter. */
static void time_out_at_opening(int index, void *arg)
{
    struct hasty *x = arg;
    uint64_t state = t_seed();

    if (index == 0) {
        count_down_each(x);
        return;
    }
    for (int i = 0; i < x->rounds; i++) {
        spn_latch *latch;
        int rc;

        REQUIRE_OK(spn_latch_create(&latch, 1));
        atomic_store(&x->latch, latch);
        rc = spn_latch_await(latch, (int64_t)(t_random(&state) % 60000));
        CHECK(rc == SPN_OK || rc == SPN_ETIMEDOUT);
        CHECK_OK(spn_latch_await(latch, SPN_FOREVER));
        CHECK_OK(spn_latch_destroy(latch));
    }
}

TEST(latch__opens_as_a_wait_times_out__one_answer, "G-7", "G-20")
{
    struct hasty x = { .rounds = t_rounds(5000) };
    t_parallel(2, time_out_at_opening, &x);
}
