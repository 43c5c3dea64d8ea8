/* SPDX-License-Identifier: MIT */
/* test_queue_synchronous.c - the queue without room: from hand to hand. */
#include "counting.h"
#include "queue_kinds.h"

#include <sys/resource.h>

static spn_queue *open_synchronous(uint32_t fair)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;

    opts.fair = fair;
    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_SYNCHRONOUS, &opts));
    return q;
}

#define EACH_FAIRNESS(fair) for (uint32_t fair = 0; fair < 2; fair++)

/* Always empty and always full, also with threads that wait on either side. */
TEST(queue_synchronous__at_any_time__empty_and_full, "SQ-1", "SQ-2", "SQ-3", "SQ-8",
     "SQ-16")
{
    EACH_FAIRNESS(fair)
    for (int waiter = 0; waiter < 3; waiter++) { /* none, a put, a take */
        spn_queue *q = open_synchronous(fair);
        struct call c;
        struct peer p;
        void *got, *some[2] = { item(1), item(2) };
        size_t done = 9;

        if (waiter == 1)
            block_put(&p, &c, q, 1);
        else if (waiter == 2)
            block_take(&p, &c, q);
        CHECK_EQ(spn_queue_size(q), 0);
        CHECK_EQ(spn_queue_capacity(q), 0);
        CHECK_EQ(room_left(q), 0);
        CHECK(first_of(q) == NULL);
        CHECK_STATUS(spn_queue_peek(q, &got), SPN_EEMPTY);
        CHECK_STATUS(spn_queue_contains(q, item(1)), SPN_EEMPTY);
        CHECK_STATUS(spn_queue_remove_item(q, item(1)), SPN_EEMPTY);
        CHECK_EQ(contains_all(q, some, 0), 1);
        CHECK_EQ(contains_all(q, some, 1), 0);
        CHECK_EQ(remove_all(q, some, 2), 0);
        CHECK_EQ(retain_all(q, some, 0), 0);
        CHECK_EQ(take_all(q), 0);
        some[0] = item(7);
        CHECK_EQ(content(q, some, 2), 0);
        CHECK(some[0] == NULL && some[1] == item(2));
        CHECK(!remove_at(q, 0)); /* a walk has nothing to show, or to take out */
        if (waiter != 2) {
            some[0] = item(7);
            CHECK_STATUS(spn_queue_put(q, item(7), 0), SPN_EFULL);
            CHECK_STATUS(spn_queue_put_many(q, some, 1, 0, &done), SPN_EFULL);
            CHECK_EQ(done, 0);
        }
        if (waiter != 1) {
            CHECK(take_now(q) == NULL);
            CHECK_STATUS(spn_queue_take(q, &got, 0), SPN_EEMPTY);
        }
        if (waiter == 1) {
            CHECK(take_now(q) == item(1));
            CHECK_OK(peer_finish(&p));
        } else if (waiter == 2) {
            CHECK_OK(spn_queue_put(q, item(2), 0));
            CHECK_OK(peer_finish(&p));
            CHECK_EQ(index_of(c.item), 2);
        }
        shut(q);
    }
}

/* put returns when a taker has the item, and the taker has that very pointer. */
TEST(queue_synchronous__put__returns_once_taken, "SQ-4", "SQ-5")
{
    EACH_FAIRNESS(fair)
    {
        spn_queue *q = open_synchronous(fair);
        struct call c;
        struct peer p;
        void *got;

        block_put(&p, &c, q, 5);
        CHECK(peer_still_waits(&p));
        CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
        CHECK_EQ(index_of(got), 5);
        CHECK_OK(peer_finish(&p));

        block_put(&p, &c, q, 6);
        CHECK_OK(spn_thread_interrupt(p.thread));
        CHECK_STATUS(peer_finish(&p), SPN_EINTR);
        CHECK(take_now(q) == NULL); /* its item went with it */
        shut(q);
    }
}

/* A put that does not wait, as of a pool: it succeeds exactly when a worker waits. */
TEST(queue_synchronous__put_at_once__iff_somebody_waits, "SQ-15")
{
    EACH_FAIRNESS(fair)
    {
        spn_queue *q = open_synchronous(fair);
        struct call c[3];
        struct peer p[3];

        CHECK_STATUS(spn_queue_put(q, item(0), 0), SPN_EFULL);
        for (int i = 0; i < 3; i++)
            block_call(&p[i], &c[i], form_named(i == 1 ? "take_many" : "take"), q, 0);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(spn_queue_waiting_consumers(q), 3 - i);
            CHECK_OK(spn_queue_put(q, item(i), 0));
        }
        CHECK_STATUS(spn_queue_put(q, item(3), 0), SPN_EFULL);
        for (int i = 0; i < 3; i++)
            CHECK_OK(peer_finish(&p[i]));
        shut(q);
    }
}

/* take_many without waiting: nothing on an idle queue; with producers, their items, one
 * per item asked for, and the others wait on. */
TEST(queue_synchronous__take_many__from_the_producers_hands, "SQ-7")
{
    EACH_FAIRNESS(fair)
    {
        spn_queue *q = open_synchronous(fair);
        struct call c[4];
        struct peer p[4];
        void *some[6];
        int sum, done;

        CHECK_EQ(take_some(q, some, 4), 0);
        for (int i = 0; i < 4; i++)
            block_put(&p[i], &c[i], q, 1 + i);
        CHECK_EQ(take_some(q, some, 1), 1);
        CHECK_EQ(index_of(some[0]), fair ? 1 : 4);
        CHECK_EQ(take_some(q, some + 1, 1), 1);
        do {
            done = 0;
            for (int i = 0; i < 4; i++)
                done += atomic_load(&p[i].done);
            t_pause();
        } while (done < 2);
        CHECK_EQ(done, 2);
        CHECK_EQ(take_some(q, some + 2, 4), 2);
        for (int i = 0; i < 4; i++)
            CHECK_OK(peer_finish(&p[i]));
        sum = index_of(some[0]) + index_of(some[1]) + index_of(some[2]) +
              index_of(some[3]);
        CHECK_EQ(sum, 1 + 2 + 3 + 4);
        shut(q);
    }
}

/* Ten of either side: fair serves the first first, unfair the last. */
TEST(queue_synchronous__ten_waiters__fifo_or_lifo, "SQ-9", "SQ-10")
{
    enum { N = 10 };

    EACH_FAIRNESS(fair)
    {
        spn_queue *q = open_synchronous(fair);
        struct call c[N];
        struct peer p[N];

        for (int i = 0; i < N; i++)
            block_put(&p[i], &c[i], q, i);
        for (int i = 0; i < N; i++)
            CHECK_EQ(index_of(take_now(q)), fair ? i : N - 1 - i);
        for (int i = 0; i < N; i++)
            CHECK_OK(peer_finish(&p[i]));

        for (int i = 0; i < N; i++)
            block_take(&p[i], &c[i], q);
        for (int i = 0; i < N; i++)
            CHECK_OK(spn_queue_put(q, item(i), 0));
        for (int i = 0; i < N; i++) {
            CHECK_OK(peer_finish(&p[i]));
            CHECK_EQ(index_of(c[i].item), fair ? i : N - 1 - i);
        }
        shut(q);
    }
}

/* Match against time-out: both sides succeed or neither; nothing is handed over by or
 * to one who has left. */
struct contest {
    spn_queue *q;
    int rounds;
    atomic_int put, taken;
    atomic_int got[ITEMS];
    atomic_int running;
};

static void offer_or_poll_briefly(int index, void *arg)
{
    struct contest *c = arg;
    uint64_t seed = (uint64_t)index + 1;

    for (int i = 0; i < c->rounds; i++) {
        const int64_t timeout_ns = (int64_t)(t_random(&seed) % 20000);
        void *got;

        if (index % 2 == 0) {
            const int mine = 2 * i + index / 2;

            if (spn_queue_put(c->q, item(mine), timeout_ns) == SPN_OK)
                atomic_fetch_add(&c->put, 1);
            else
                CHECK_EQ(atomic_fetch_add(&c->got[mine], 1), 0); /* ours still */
        } else if (spn_queue_take(c->q, &got, timeout_ns) == SPN_OK) {
            atomic_fetch_add(&c->taken, 1);
            CHECK_EQ(atomic_fetch_add(&c->got[index_of(got)], 1), 0);
        }
    }
}

TEST(queue_synchronous__match_against_time_out__both_or_neither, "SQ-11", "SQ-12",
     "SQ-6")
{
    EACH_FAIRNESS(fair)
    {
        static struct contest c;

        memset(&c, 0, sizeof c);
        c.q = open_synchronous(fair);
        c.rounds = t_rounds(2000);
        t_parallel(4, offer_or_poll_briefly, &c);
        CHECK_EQ(atomic_load(&c.put), atomic_load(&c.taken));
        for (int i = 0; i < 2 * c.rounds; i++)
            CHECK_EQ(atomic_load(&c.got[i]), 1);
        CHECK(take_now(c.q) == NULL);
        shut(c.q);
    }
}

/* A hundred pairs, then nothing of them is left in the queue: no memory, no waiter. */
static void pair_up(int index, void *arg)
{
    spn_queue *q = arg;

    for (int i = 0; i < 25; i++) {
        void *got;

        if (index % 2 == 0)
            CHECK_OK(spn_queue_put(q, item(i), SPN_FOREVER));
        else
            CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
    }
}

TEST(queue_synchronous__all_pairs_matched__nothing_stays, "SQ-14", "SQ-13", "SQ-5")
{
    EACH_FAIRNESS(fair)
    {
        spn_queue *q = open_synchronous(fair);
        long live = 0;

        for (int round = 0; round < 5; round++) {
            t_parallel(20, pair_up, q); /* 250 producers' puts, 250 takes */
            CHECK_EQ(spn_queue_waiting_consumers(q), 0);
            if (round == 0)
                live = atomic_load(&counting_live);
        }
        /* Records of threads are kept, as many as there were at once: 20. */
        CHECK(atomic_load(&counting_live) <= live + 20);
        shut(q);
    }
}

/* A flag set before, with the other side there already: one outcome or the other. */
TEST(queue_synchronous__flag_set_with_counterpart__one_outcome, "SQ-17", "G-12")
{
    EACH_FAIRNESS(fair)
    for (int put = 0; put < 2; put++) {
        spn_queue *q = open_synchronous(fair);
        struct call c;
        struct peer p;
        void *got = NULL;
        int rc;

        if (put)
            block_take(&p, &c, q);
        else
            block_put(&p, &c, q, 3);
        CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        rc = put ? spn_queue_put(q, item(4), SPN_FOREVER)
                 : spn_queue_take(q, &got, SPN_FOREVER);
        CHECK(rc == SPN_OK || rc == SPN_EINTR);
        CHECK_EQ(spn_thread_interrupted(), rc == SPN_OK);
        if (rc != SPN_OK) { /* then the other still waits */
            CHECK_EQ(atomic_load(&p.done), 0);
            if (put)
                CHECK_OK(spn_queue_put(q, item(4), 0));
            else
                got = take_now(q);
        }
        CHECK_OK(peer_finish(&p));
        CHECK_EQ(index_of(put ? c.item : got), put ? 4 : 3);
        shut(q);
    }
}

/* How often a waiter looks is the caller's to say, from not at all to for ever; how
 * often it then does, the explorer counts. */
TEST(queue_synchronous__spins__minus_one_and_more, "S-3")
{
    static const struct {
        int32_t spins;
        int rc;
    } cases[] = { { INT32_MIN, SPN_EINVAL },
                  { -2, SPN_EINVAL },
                  { -1, SPN_OK },
                  { 0, SPN_OK },
                  { 1, SPN_OK },
                  { 512, SPN_OK },
                  { INT32_MAX, SPN_OK },
                  { -1000, SPN_EINVAL } };
    static const spn_queue_kind meeting[] = { SPN_QUEUE_SYNCHRONOUS,
                                              SPN_QUEUE_TRANSFER };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int which = 0; which < 4; which++) {
            spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
            spn_queue *q;

            if (which % 2 == 0)
                opts.spins_timed = cases[i].spins;
            else
                opts.spins_untimed = cases[i].spins;
            CHECK_STATUS(spn_queue_create(&q, meeting[which / 2], &opts), cases[i].rc);
            if (q != NULL)
                shut(q);
        }
}

/* A waiter spins a little before it sleeps, and not for long: it gives up its CPU. */
static int64_t cpu_time_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return SPN_SEC(ts.tv_sec) + ts.tv_nsec;
}

static int measure_wait(void *arg)
{
    struct call *c = arg;
    const int64_t start = cpu_time_ns();
    const int rc = spn_queue_take(c->q, &c->item, T_SHORT_NS);

    c->timeout_ns = cpu_time_ns() - start;
    return rc;
}

TEST(queue_synchronous__long_wait__sleeps, "S-3", "SQ-6")
{
    EACH_FAIRNESS(fair)
    {
        struct call c = { .q = open_synchronous(fair) };
        struct peer p;

        peer_start(&p, measure_wait, &c);
        CHECK_STATUS(peer_finish(&p), SPN_ETIMEDOUT);
        CHECK(c.timeout_ns < T_SHORT_NS / 2); /* CPU used in the wait */
        shut(c.q);
    }
}
