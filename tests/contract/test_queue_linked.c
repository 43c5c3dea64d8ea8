/* SPDX-License-Identifier: MIT */
/* test_queue_linked.c - linked queues: two ends at once, cascades of wake-ups. */
#include "counting.h"
#include "queue_kinds.h"

static spn_queue *open_linked(int32_t capacity)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;

    opts.capacity = capacity;
    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_LINKED, &opts));
    return q;
}

/* Two slots: empty, one, full. */
TEST(queue_linked__of_two__empty_one_full, "LBQ-3", "LBQ-1")
{
    spn_queue *q = open_linked(2);

    CHECK_EQ(room_left(q), 2);
    CHECK_OK(spn_queue_put(q, item(1), 0));
    CHECK_EQ(room_left(q), 1);
    CHECK_OK(spn_queue_put(q, item(2), 0));
    CHECK_EQ(room_left(q), 0);
    CHECK_STATUS(spn_queue_put(q, item(3), 0), SPN_EFULL);
    expect_range(q, 1, 3);
    shut(q);
    q = open_linked(INT32_MAX);
    CHECK_EQ(room_left(q), INT32_MAX);
    shut(q);
}

/* One put_many into a queue with many takers wakes as many as there are items, and
 * one drain as many producers as it made room for; the rest sleep on. */
TEST(queue_linked__one_call_for_many_waiters__wakes_as_many, "LBQ-5", "G-20")
{
    enum { N = 8 };
    spn_queue *q = open_linked(N);
    struct call c[N];
    struct peer p[N];
    void *some[N], *got[N];
    int done;

    for (int i = 0; i < N; i++)
        some[i] = item(i);
    for (int i = 0; i < N; i++)
        block_take(&p[i], &c[i], q);
    CHECK_OK(spn_queue_put_many(q, some, 5, 0, NULL));
    do {
        done = 0;
        for (int i = 0; i < N; i++)
            done += atomic_load(&p[i].done);
        t_pause();
    } while (done < 5);
    CHECK_EQ(done, 5);
    CHECK_EQ(spn_queue_waiting_consumers(q), 3);
    CHECK_OK(spn_queue_put_many(q, some, 3, 0, NULL));
    for (int i = 0; i < N; i++)
        CHECK_OK(peer_finish(&p[i]));
    expect_empty(q);

    add_range(q, 0, N);
    for (int i = 0; i < N; i++)
        block_put(&p[i], &c[i], q, 100 + i);
    CHECK_EQ(take_some(q, got, 5), 5);
    do {
        done = 0;
        for (int i = 0; i < N; i++)
            done += atomic_load(&p[i].done);
        t_pause();
    } while (done < 5);
    CHECK_EQ(take_some(q, got, 3), 3);
    for (int i = 0; i < N; i++)
        CHECK_OK(peer_finish(&p[i]));
    CHECK_EQ(take_all(q), N);
    shut(q);
}

/* Many items, so that storage is linked and let go of again and again; the order and
 * the count are exact when nothing moves. */
struct flow {
    spn_queue *q;
    int count;
};

static void put_and_take(int index, void *arg)
{
    struct flow *f = arg;

    for (int i = 0; i < f->count; i++) {
        void *got;

        if (index == 0) {
            CHECK_OK(spn_queue_put(f->q, item(i % ITEMS), SPN_FOREVER));
        } else {
            CHECK_OK(spn_queue_take(f->q, &got, SPN_FOREVER));
            CHECK_EQ(index_of(got), i % ITEMS);
        }
    }
}

TEST(queue_linked__put_and_take_at_once__in_order, "LBQ-4", "LBQ-2", "G-19")
{
    static const int32_t capacities[] = { 1, 62, 63, 64, 1000, SPN_DEFAULT };

    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        struct flow f = { open_linked(capacities[i]), t_rounds(20000) };

        t_parallel(2, put_and_take, &f);
        CHECK_EQ(spn_queue_size(f.q), 0);
        add_range(f.q, 0, 1);
        CHECK_EQ(spn_queue_size(f.q), 1);
        shut(f.q);
    }
}

/* Memory goes back when a long queue has been emptied. */
TEST(queue_linked__long_queue_emptied__memory_goes_back, "Q-18", "LBQ-2")
{
    spn_queue *q = open_linked(SPN_DEFAULT);
    const long before = atomic_load(&counting_live);

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20 * ITEMS; i++)
            CHECK_OK(spn_queue_put(q, item(i % ITEMS), 0));
        CHECK(atomic_load(&counting_live) > before + 100);
        for (int i = 0; i < 20 * ITEMS; i++)
            CHECK_EQ(index_of(take_now(q)), i % ITEMS);
        CHECK(atomic_load(&counting_live) <= before + 1); /* one chunk to spare */
    }
    shut(q);
}

/* A queue with many holes: all but a few taken out of a long one, from the middle, and
 * the few still come out in order and find room for more. */
TEST(queue_linked__mostly_taken_from_inside__rest_in_order, "Q-17", "LBQ-6", "Q-7")
{
    for (int bounded = 0; bounded < 2; bounded++) {
        enum { N = 400 };
        spn_queue *q = open_linked(bounded ? N : SPN_DEFAULT);

        add_range(q, 0, N);
        for (int i = 0; i < N; i++)
            if (i % 50 != 49)
                CHECK_OK(spn_queue_remove_item(q, item(i)));
        CHECK_EQ(spn_queue_size(q), 8);
        CHECK_EQ(index_of(first_of(q)), 49);
        add_range(q, N, 2 * N - 8); /* full again, had it the room */
        CHECK_EQ(spn_queue_size(q), N);
        CHECK_STATUS(spn_queue_put(q, item(1), 0), bounded ? SPN_EFULL : SPN_OK);
        for (int i = 0; i < 8; i++)
            CHECK_EQ(index_of(take_now(q)), 50 * i + 49);
        expect_range(q, N, 2 * N - 8);
        CHECK_EQ(take_all(q), bounded ? 0 : 1);
        shut(q);
    }
}

/* A put that waits for room comes in when the room is made inside, also where the hole
 * is far from the head and nobody takes. */
TEST(queue_linked__holes_far_from_the_head__let_waiting_puts_in, "Q-17", "Q-32")
{
    spn_queue *q = open_linked(6);
    struct call c[3];
    struct peer p[3];

    add_range(q, 0, 6);
    for (int i = 0; i < 3; i++)
        block_put(&p[i], &c[i], q, 100 + i);
    CHECK_OK(spn_queue_remove_item(q, item(4)));
    CHECK_OK(spn_queue_remove_item(q, item(2)));
    CHECK_OK(spn_queue_remove_item(q, item(5)));
    for (int i = 0; i < 3; i++)
        CHECK_OK(peer_finish(&p[i]));
    CHECK_EQ(spn_queue_size(q), 6);
    CHECK_STATUS(spn_queue_put(q, item(7), 0), SPN_EFULL);
    CHECK_EQ(index_of(take_now(q)), 0);
    CHECK_EQ(index_of(take_now(q)), 1);
    CHECK_EQ(index_of(take_now(q)), 3);
    CHECK_EQ(take_all(q), 3);
    shut(q);
}

/* Items that come and go inside, behind one that stays, leave no holes behind: the
 * memory is bounded. */
TEST(queue_linked__inserts_and_removals_inside_for_long__memory_bounded, "Q-18",
     "LBQ-2")
{
    for (int bounded = 0; bounded < 2; bounded++) {
        spn_queue *q = open_linked(bounded ? 1000 : SPN_DEFAULT);
        const long before = atomic_load(&counting_live);

        add_range(q, 0, 1); /* stays at the head */
        for (int i = 0; i < 100000; i++) {
            CHECK_OK(spn_queue_put(q, item(1 + i % 7), 0));
            CHECK_OK(spn_queue_remove_item(q, item(1 + i % 7)));
        }
        CHECK(atomic_load(&counting_live) <= before + 20);
        CHECK_EQ(spn_queue_size(q), 1);
        expect_range(q, 0, 1);
        shut(q);
    }
}
