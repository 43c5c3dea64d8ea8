/* SPDX-License-Identifier: MIT */
/*
 * test_eventcount.c - the event count, which no public call shows yet, through
 * its internal header: both kinds, with the real fences and a real kernel.
 */
#include "peer.h"
#include "test.h"

#include <stdatomic.h>

#include <spindle/clock.h>

#include "sync/eventcount.h"

/* A number of items without a lock, and the event count beside it. */
struct pile {
    struct spn__eventcount ec;
    atomic_int items;
    int64_t timeout_ns;
};

static void pile_init(struct pile *p, bool light)
{
    spn__eventcount_init(&p->ec, light);
    atomic_store(&p->items, 0);
    p->timeout_ns = SPN_FOREVER;
}

static bool pile_take(struct pile *p)
{
    /* relaxed: the event count's fences are what must make this safe. */
    int items = atomic_load_explicit(&p->items, memory_order_relaxed);

    while (items > 0)
        if (atomic_compare_exchange_weak_explicit(&p->items, &items, items - 1,
                                                  memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void pile_put(struct pile *p)
{
    (void)atomic_fetch_add_explicit(&p->items, 1, memory_order_relaxed);
    spn__eventcount_notify(&p->ec);
}

static int pile_wait(void *arg)
{
    struct pile *p = arg;
    const int64_t deadline =
        p->timeout_ns == SPN_FOREVER ? SPN_FOREVER : spn_now() + p->timeout_ns;

    while (!pile_take(p)) {
        struct spn__waiter w;
        int rc = spn__eventcount_prepare(&p->ec, &w);

        if (rc != SPN_OK)
            return rc;
        if (pile_take(p)) {
            spn__eventcount_cancel(&p->ec, &w);
            break;
        }
        rc = spn__eventcount_wait(&p->ec, &w, deadline);
        if (rc != SPN_OK)
            return rc;
    }
    return SPN_OK;
}

/* A notification releases the one who waits; without waiters it is remembered by
 * the data alone. */
TEST(eventcount__notified__waiter_goes_on, "G-20")
{
    for (int light = 0; light < 2; light++) {
        struct pile pile;
        struct peer p;

        pile_init(&pile, light != 0);
        pile_put(&pile);
        CHECK_OK(pile_wait(&pile));
        peer_start(&p, pile_wait, &pile);
        peer_await_blocked(&p);
        CHECK(spn__eventcount_has_waiters(&pile.ec));
        pile_put(&pile);
        CHECK_OK(peer_finish(&p));
        CHECK(!spn__eventcount_has_waiters(&pile.ec));
        CHECK_EQ(atomic_load(&pile.items), 0);
    }
}

/* notify wakes one at a time, notify_all everybody. */
TEST(eventcount__notify_all__releases_everybody, "G-20")
{
    for (int light = 0; light < 2; light++) {
        struct pile pile;
        struct peer p[3];

        pile_init(&pile, light != 0);
        for (int i = 0; i < 3; i++) {
            peer_start(&p[i], pile_wait, &pile);
            peer_await_blocked(&p[i]);
        }
        atomic_store(&pile.items, 3);
        spn__eventcount_notify_all(&pile.ec);
        for (int i = 0; i < 3; i++)
            CHECK_OK(peer_finish(&p[i]));
        CHECK(!spn__eventcount_has_waiters(&pile.ec));
    }
}

/* Timeouts and interrupts end the wait and leave no waiter behind. */
TEST(eventcount__timed_out_or_interrupted__leaves, "G-7", "G-10", "G-11")
{
    for (int light = 0; light < 2; light++) {
        struct pile pile;
        struct peer p;
        int64_t began;

        pile_init(&pile, light != 0);
        pile.timeout_ns = 999999;
        began = spn_now();
        CHECK_STATUS(pile_wait(&pile), SPN_ETIMEDOUT);
        CHECK(spn_now() - began >= 999999);
        pile.timeout_ns = SPN_FOREVER;
        CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        CHECK_STATUS(pile_wait(&pile), SPN_EINTR);
        CHECK_EQ(spn_thread_interrupted(), 0);
        peer_start(&p, pile_wait, &pile);
        peer_await_blocked(&p);
        CHECK_OK(spn_thread_interrupt(p.thread));
        CHECK_STATUS(peer_finish(&p), SPN_EINTR);
        CHECK_EQ(p.flag_after, 0);
        CHECK(!spn__eventcount_has_waiters(&pile.ec));
    }
}

/* A waiter that was chosen and then cancels passes the notification on. */
TEST(eventcount__chosen_one_cancels__next_is_woken, "G-20")
{
    for (int light = 0; light < 2; light++) {
        struct pile pile;
        struct spn__waiter w;
        struct peer p;

        pile_init(&pile, light != 0);
        REQUIRE_OK(spn__eventcount_prepare(&pile.ec, &w)); /* we come first */
        peer_start(&p, pile_wait, &pile);
        peer_await_blocked(&p);
        pile_put(&pile);                      /* chooses us */
        spn__eventcount_cancel(&pile.ec, &w); /* and we do not want it */
        CHECK_OK(peer_finish(&p));
        CHECK(!spn__eventcount_has_waiters(&pile.ec));
    }
}

struct traffic {
    struct pile pile;
    int rounds;
    atomic_long taken;
};

static void traffic_role(int index, void *arg)
{
    struct traffic *t = arg;
    uint64_t state = t_seed() + (uint64_t)index;

    for (int i = 0; i < t->rounds; i++) {
        if (index < T_THREADS) {
            CHECK_OK(pile_wait(&t->pile));
            atomic_fetch_add(&t->taken, 1);
        } else {
            for (volatile unsigned n = (unsigned)(t_random(&state) % 200); n > 0; n--) {
            }
            pile_put(&t->pile);
        }
    }
}

/* Four who put and four who take, through nothing but relaxed atomics and the
 * event count: nobody sleeps through an item. */
TEST(eventcount__many_put_and_take__no_wakeup_lost, "G-20", "P5")
{
    for (int light = 0; light < 2; light++) {
        struct traffic t = { .rounds = t_rounds(20000) };

        pile_init(&t.pile, light != 0);
        t_parallel(2 * T_THREADS, traffic_role, &t);
        CHECK_EQ(atomic_load(&t.taken), (long)T_THREADS * t.rounds);
        CHECK_EQ(atomic_load(&t.pile.items), 0);
        CHECK(!spn__eventcount_has_waiters(&t.pile.ec));
    }
}
