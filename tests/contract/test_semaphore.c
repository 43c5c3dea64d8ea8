/* SPDX-License-Identifier: MIT */
/* test_semaphore.c - permits: none lost, none made up, and in which order. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>

#include <spindle/clock.h>
#include <spindle/semaphore.h>

static spn_semaphore *make(int32_t permits, uint32_t fair)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;
    spn_semaphore *semaphore;

    opts.permits = permits;
    opts.fair = fair;
    REQUIRE_OK(spn_semaphore_create(&semaphore, &opts));
    return semaphore;
}

/* An acquire as a peer's call. */
struct acquire {
    spn_semaphore *semaphore;
    int32_t count;
    int64_t timeout_ns;
    atomic_int *served; /* counts who was served; NULL: nobody asks */
    int place;          /* what it was before */
};

static int run_acquire(void *arg)
{
    struct acquire *a = arg;
    const int rc = spn_semaphore_acquire(a->semaphore, a->count, a->timeout_ns);

    if (a->served != NULL) {
        /* The place first: whoever sees the count may read it. */
        a->place = atomic_load(a->served);
        atomic_fetch_add(a->served, 1);
    }
    return rc;
}

static void start_waiter(struct peer *p, struct acquire *a, spn_semaphore *semaphore,
                         int32_t count)
{
    *a = (struct acquire){ .semaphore = semaphore,
                           .count = count,
                           .timeout_ns = SPN_FOREVER };
    peer_start(p, run_acquire, a);
    peer_await_blocked(p);
}

/* ---- counting ----------------------------------------------------------------- */

/* No options: no permits.  A program of an older header is understood. */
TEST(semaphore__default_options__no_permits, "G-3")
{
    spn_semaphore_opts old = SPN_SEMAPHORE_OPTS_INIT;
    spn_semaphore *semaphore;

    REQUIRE_OK(spn_semaphore_create(&semaphore, NULL));
    CHECK_EQ(spn_semaphore_available(semaphore), 0);
    CHECK_STATUS(spn_semaphore_acquire(semaphore, 1, 0), SPN_ETIMEDOUT);
    CHECK_OK(spn_semaphore_destroy(semaphore));

    old.size = sizeof old.size;
    old.permits = 77; /* beyond what it says it has */
    REQUIRE_OK(spn_semaphore_create(&semaphore, &old));
    CHECK_EQ(spn_semaphore_available(semaphore), 0);
    CHECK_OK(spn_semaphore_destroy(semaphore));
}

/* Acquire takes all it asked for or nothing. */
TEST(semaphore__acquire__all_or_nothing, "G-6")
{
    for (uint32_t fair = 0; fair < 2; fair++) {
        spn_semaphore *semaphore = make(5, fair);

        CHECK_OK(spn_semaphore_acquire(semaphore, 2, SPN_FOREVER));
        CHECK_EQ(spn_semaphore_available(semaphore), 3);
        CHECK_STATUS(spn_semaphore_acquire(semaphore, 4, 0), SPN_ETIMEDOUT);
        CHECK_STATUS(spn_semaphore_acquire(semaphore, 4, SPN_MS(1)), SPN_ETIMEDOUT);
        CHECK_EQ(spn_semaphore_available(semaphore), 3);
        CHECK_OK(spn_semaphore_acquire(semaphore, 3, 0));
        CHECK_EQ(spn_semaphore_available(semaphore), 0);
        CHECK_OK(spn_semaphore_release(semaphore, 9));
        CHECK_EQ(spn_semaphore_available(semaphore), 9);
        CHECK_OK(spn_semaphore_destroy(semaphore));
    }
}

/* A count below one is refused and changes nothing, by every call. */
TEST(semaphore__count_below_one__refused, "G-3")
{
    static const int32_t bad[] = { 0, -1, INT32_MIN };
    spn_semaphore *semaphore = make(3, 0);

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_STATUS(spn_semaphore_acquire(semaphore, bad[i], SPN_FOREVER), SPN_EINVAL);
        CHECK_STATUS(spn_semaphore_release(semaphore, bad[i]), SPN_EINVAL);
        CHECK_EQ(spn_semaphore_available(semaphore), 3);
    }
    CHECK_OK(spn_semaphore_destroy(semaphore));
}

/* More than the largest number of permits cannot be free: nothing is added. */
TEST(semaphore__too_many_permits__erange, "G-3")
{
    spn_semaphore *semaphore = make(SPN_SEMAPHORE_MAX, 0);

    CHECK_STATUS(spn_semaphore_release(semaphore, 1), SPN_ERANGE);
    CHECK_STATUS(spn_semaphore_release(semaphore, SPN_SEMAPHORE_MAX), SPN_ERANGE);
    CHECK_EQ(spn_semaphore_available(semaphore), SPN_SEMAPHORE_MAX);
    CHECK_OK(spn_semaphore_acquire(semaphore, 10, 0));
    CHECK_STATUS(spn_semaphore_release(semaphore, 11), SPN_ERANGE);
    CHECK_EQ(spn_semaphore_available(semaphore), SPN_SEMAPHORE_MAX - 10);
    CHECK_OK(spn_semaphore_release(semaphore, 10));
    CHECK_EQ(spn_semaphore_available(semaphore), SPN_SEMAPHORE_MAX);
    CHECK_OK(spn_semaphore_acquire(semaphore, SPN_SEMAPHORE_MAX, 0));
    CHECK_EQ(spn_semaphore_available(semaphore), 0);
    CHECK_OK(spn_semaphore_release(semaphore, SPN_SEMAPHORE_MAX));
    CHECK_EQ(spn_semaphore_available(semaphore), SPN_SEMAPHORE_MAX);
    CHECK_OK(spn_semaphore_destroy(semaphore));
}

/* ---- order -------------------------------------------------------------------- */

/* Waiters are served in the order they came, fair or not. */
TEST(semaphore__several_waiters__served_in_order, "G-20")
{
    enum { WAITERS = 5 };

    for (uint32_t fair = 0; fair < 2; fair++) {
        spn_semaphore *semaphore = make(0, fair);
        struct acquire a[WAITERS];
        struct peer p[WAITERS];
        atomic_int served = 0;

        for (int i = 0; i < WAITERS; i++) {
            start_waiter(&p[i], &a[i], semaphore, 1);
            a[i].served = &served;
        }
        for (int i = 0; i < WAITERS; i++) {
            CHECK_OK(spn_semaphore_release(semaphore, 1));
            T_AWAIT(atomic_load(&served) == i + 1);
            CHECK_EQ(a[i].place, i);
        }
        for (int i = 0; i < WAITERS; i++)
            CHECK_OK(peer_finish(&p[i]));
        CHECK_EQ(spn_semaphore_available(semaphore), 0);
        CHECK_OK(spn_semaphore_destroy(semaphore));
    }
}

/* One release serves as many waiters as it suffices for, and keeps the rest. */
TEST(semaphore__one_large_release__serves_all_it_can, "G-20")
{
    spn_semaphore *semaphore = make(0, 0);
    struct acquire a[4];
    struct peer p[4];

    start_waiter(&p[0], &a[0], semaphore, 1);
    start_waiter(&p[1], &a[1], semaphore, 2);
    start_waiter(&p[2], &a[2], semaphore, 3);
    start_waiter(&p[3], &a[3], semaphore, 4);
    CHECK_OK(spn_semaphore_release(semaphore, 8)); /* 1 + 2 + 3, and 2 are left */
    for (int i = 0; i < 3; i++)
        CHECK_OK(peer_finish(&p[i]));
    CHECK_EQ(spn_semaphore_available(semaphore), 2);
    CHECK_EQ(atomic_load(&p[3].done), 0);
    CHECK_OK(spn_semaphore_release(semaphore, 2));
    CHECK_OK(peer_finish(&p[3]));
    CHECK_EQ(spn_semaphore_available(semaphore), 0);
    CHECK_OK(spn_semaphore_destroy(semaphore));
}

/* Nobody overtakes a waiter of a fair semaphore, except by try_acquire. */
TEST(semaphore__fair_with_a_waiter__nobody_overtakes, "G-20")
{
    spn_semaphore *semaphore = make(0, 1);
    struct acquire a;
    struct peer p;

    start_waiter(&p, &a, semaphore, 3);
    CHECK_OK(spn_semaphore_release(semaphore, 2)); /* too few for the waiter */
    CHECK_STATUS(spn_semaphore_acquire(semaphore, 1, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_semaphore_acquire(semaphore, 1, SPN_MS(2)), SPN_ETIMEDOUT);
    CHECK_EQ(spn_semaphore_available(semaphore), 2);
    CHECK_OK(spn_semaphore_release(semaphore, 1));
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(spn_semaphore_available(semaphore), 0);
    CHECK_OK(spn_semaphore_destroy(semaphore));
}

/* An unfair one lets a thread that finds enough permits take them. */
TEST(semaphore__unfair_with_a_waiter__may_be_overtaken, "G-20")
{
    spn_semaphore *semaphore = make(0, 0);
    struct acquire a;
    struct peer p;

    start_waiter(&p, &a, semaphore, 3);
    CHECK_OK(spn_semaphore_release(semaphore, 2));
    CHECK_OK(spn_semaphore_acquire(semaphore, 1, 0));
    CHECK_EQ(spn_semaphore_available(semaphore), 1);
    CHECK_EQ(atomic_load(&p.done), 0);
    CHECK_OK(spn_semaphore_release(semaphore, 2));
    CHECK_OK(peer_finish(&p));
    CHECK_OK(spn_semaphore_destroy(semaphore));
}

/* When the waiter at the head leaves, those behind it are served by the permits
 * that were too few for it: for an interrupt and for a timeout. */
TEST(semaphore__head_waiter_leaves__next_ones_are_served, "G-11", "G-20")
{
    for (int by_timeout = 0; by_timeout < 2; by_timeout++)
        for (uint32_t fair = 0; fair < 2; fair++) {
            spn_semaphore *semaphore = make(0, fair);
            struct acquire a[3];
            struct peer p[3];

            a[0] =
                (struct acquire){ .semaphore = semaphore,
                                  .count = 5,
                                  .timeout_ns = by_timeout ? T_SHORT_NS : SPN_FOREVER };
            peer_start(&p[0], run_acquire, &a[0]);
            peer_await_blocked(&p[0]);
            start_waiter(&p[1], &a[1], semaphore, 1);
            start_waiter(&p[2], &a[2], semaphore, 2);
            CHECK_OK(spn_semaphore_release(semaphore, 3));
            if (!by_timeout)
                CHECK_OK(spn_thread_interrupt(p[0].thread));
            CHECK_STATUS(peer_finish(&p[0]), by_timeout ? SPN_ETIMEDOUT : SPN_EINTR);
            CHECK_OK(peer_finish(&p[1]));
            CHECK_OK(peer_finish(&p[2]));
            CHECK_EQ(spn_semaphore_available(semaphore), 0);
            CHECK_OK(spn_semaphore_destroy(semaphore));
        }
}

struct crowd {
    spn_semaphore *semaphore;
    atomic_int stop;
};

static int come_and_go(void *arg)
{
    struct crowd *c = arg;

    while (atomic_load(&c->stop) == 0) {
        const int rc = spn_semaphore_acquire(c->semaphore, 1, SPN_FOREVER);
        if (rc != SPN_OK || spn_semaphore_release(c->semaphore, 1) != SPN_OK)
            return 1;
    }
    return 0;
}

/* In a fair semaphore one that wants all permits gets them though others never
 * stop taking single ones. */
TEST(semaphore__fair_bulk_acquire_in_a_crowd__not_starved, "G-20")
{
    struct crowd c = { .semaphore = make(3, 1) };
    spn_thread *threads[3];

    for (int i = 0; i < 3; i++)
        REQUIRE_OK(spn_thread_create(&threads[i], NULL, come_and_go, &c));
    for (int i = 0; i < t_rounds(200); i++) {
        CHECK_OK(spn_semaphore_acquire(c.semaphore, 3, SPN_FOREVER));
        CHECK_EQ(spn_semaphore_available(c.semaphore), 0);
        CHECK_OK(spn_semaphore_release(c.semaphore, 3));
    }
    atomic_store(&c.stop, 1);
    for (int i = 0; i < 3; i++) {
        int result = -1;

        CHECK_OK(spn_thread_join(threads[i], SPN_FOREVER, &result));
        CHECK_EQ(result, 0);
        spn_thread_unref(threads[i]);
    }
    CHECK_EQ(spn_semaphore_available(c.semaphore), 3);
    CHECK_OK(spn_semaphore_destroy(c.semaphore));
}

/* ---- lifetime ------------------------------------------------------------------ */

/* A semaphore somebody waits on cannot be destroyed, and goes on working. */
TEST(semaphore__destroyed_with_a_waiter__busy_and_unchanged, "G-17")
{
    spn_semaphore *semaphore = make(0, 0);
    struct acquire a;
    struct peer p;

    start_waiter(&p, &a, semaphore, 2);
    CHECK_OK(spn_semaphore_release(semaphore, 1));
    CHECK_STATUS(spn_semaphore_destroy(semaphore), SPN_EBUSY);
    CHECK_EQ(spn_semaphore_available(semaphore), 1);
    CHECK_EQ(atomic_load(&p.done), 0);
    CHECK_OK(spn_semaphore_release(semaphore, 1));
    CHECK_OK(peer_finish(&p));
    CHECK_OK(spn_semaphore_destroy(semaphore));
    CHECK_OK(spn_semaphore_destroy(NULL));
}

/* The hand-over of one semaphore after the other: each is destroyed as soon as
 * its acquire has returned, while the release may still be on its way out. */
struct hasty {
    _Atomic(spn_semaphore *) semaphore;
    int rounds;
    uint32_t fair;
};

static void hasty_role(int index, void *arg)
{
    struct hasty *x = arg;
    uint64_t state = t_seed();

    for (int i = 0; i < x->rounds; i++) {
        spn_semaphore *semaphore;

        if (index == 0) {
            T_AWAIT((semaphore = atomic_exchange(&x->semaphore, NULL)) != NULL);
            for (volatile unsigned n = (unsigned)(t_random(&state) % 400); n > 0; n--) {
            }
            CHECK_OK(spn_semaphore_release(semaphore, 2));
        } else {
            semaphore = make(0, x->fair);
            atomic_store(&x->semaphore, semaphore);
            CHECK_OK(spn_semaphore_acquire(semaphore, 2, SPN_FOREVER));
            CHECK_OK(spn_semaphore_destroy(semaphore));
        }
    }
}

TEST(semaphore__destroyed_right_after_acquire__release_still_safe, "G-17", "G-20")
{
    const long before = atomic_load(&counting_live);

    for (uint32_t fair = 0; fair < 2; fair++) {
        struct hasty x = { .rounds = t_rounds(15000), .fair = fair };
        t_parallel(2, hasty_role, &x);
    }
    CHECK(atomic_load(&counting_live) <= before + 2); /* two threads' records */
}

/* ---- order of memory ------------------------------------------------------------- */

struct hand_over {
    spn_semaphore *full, *empty;
    int value; /* plain: the permits are what order it */
    int rounds;
    long sum;
};

static void hand_over_role(int index, void *arg)
{
    struct hand_over *x = arg;

    for (int i = 1; i <= x->rounds; i++)
        if (index == 0) {
            CHECK_OK(spn_semaphore_acquire(x->empty, 1, SPN_FOREVER));
            x->value = i;
            CHECK_OK(spn_semaphore_release(x->full, 1));
        } else {
            CHECK_OK(spn_semaphore_acquire(x->full, 1, SPN_FOREVER));
            x->sum += x->value;
            CHECK_OK(spn_semaphore_release(x->empty, 1));
        }
}

/* What precedes release is visible after the acquire that took the permit. */
TEST(semaphore__release__publishes_what_preceded, "G-19")
{
    for (uint32_t fair = 0; fair < 2; fair++) {
        struct hand_over x = { make(0, fair), make(1, fair), 0, t_rounds(5000), 0 };

        t_parallel(2, hand_over_role, &x);
        CHECK_EQ(x.sum, (long)x.rounds * (x.rounds + 1) / 2);
        CHECK_OK(spn_semaphore_destroy(x.full));
        CHECK_OK(spn_semaphore_destroy(x.empty));
    }
}
