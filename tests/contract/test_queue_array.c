/* SPDX-License-Identifier: MIT */
/* test_queue_array.c - array queues: a fixed room, and fairness. */
#include "queue_kinds.h"

static spn_queue *open_array(int32_t capacity, uint32_t fair)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;

    opts.capacity = capacity;
    opts.fair = fair;
    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_ARRAY, &opts));
    return q;
}

/* A capacity is required and must be at least one, fair or not. */
TEST(queue_array__bad_capacity__einval, "ABQ-1")
{
    static const int32_t bad[] = { 0, -1, INT32_MIN /* none given */ };

    for (uint32_t fair = 0; fair < 2; fair++)
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
            spn_queue *q;

            opts.capacity = bad[i];
            opts.fair = fair;
            CHECK_STATUS(spn_queue_create(&q, SPN_QUEUE_ARRAY, &opts), SPN_EINVAL);
            CHECK(q == NULL);
        }
}

/* put_many of more than there is room for fills it; of exactly as much succeeds. */
TEST(queue_array__put_many__room_exactly_used, "ABQ-4", "ABQ-3")
{
    for (uint32_t fair = 0; fair < 2; fair++) {
        spn_queue *q = open_array(4, fair);
        void *some[5] = { item(1), item(2), item(3), item(4), item(5) };
        size_t done;

        CHECK_OK(spn_queue_put_many(q, some, 4, 0, &done));
        CHECK_EQ(done, 4);
        CHECK_EQ(room_left(q), 0);
        CHECK_EQ(take_all(q), 4);
        CHECK_STATUS(spn_queue_put_many(q, some, 5, 0, &done), SPN_EFULL);
        CHECK_EQ(done, 4);
        expect_range(q, 1, 5);
        shut(q);
    }
}

/* First in, first out across the wrap, at every offset and with every number of
 * items, one of them taken out from every place. */
TEST(queue_array__wrap_around__order_stays, "ABQ-2")
{
    enum { CAPACITY = 7 };

    for (uint32_t fair = 0; fair < 2; fair++)
        for (int offset = 0; offset < CAPACITY; offset++)
            for (int count = 1; count <= CAPACITY; count++)
                for (int out = 0; out < count; out++) {
                    spn_queue *q = open_array(CAPACITY, fair);

                    for (int i = 0; i < offset; i++) {
                        CHECK_OK(spn_queue_put(q, item(99), 0));
                        CHECK(take_now(q) == item(99));
                    }
                    add_range(q, 0, count);
                    CHECK_OK(spn_queue_remove_item(q, item(out)));
                    CHECK_EQ(spn_queue_size(q), count - 1);
                    CHECK_EQ(room_left(q), CAPACITY - count + 1);
                    add_range(q, count, CAPACITY + 1); /* full now */
                    CHECK_STATUS(spn_queue_put(q, item(99), 0), SPN_EFULL);
                    for (int i = 0; i <= CAPACITY; i++)
                        if (i != out)
                            CHECK_EQ(index_of(take_now(q)), i);
                    expect_empty(q);
                    shut(q);
                }
}

/* Fair: producers that wait come in, and consumers are served, in order of arrival,
 * and one who comes now does not overtake them. */
TEST(queue_array__fair__order_of_arrival, "ABQ-5")
{
    enum { N = 6 };
    spn_queue *q = open_array(1, 1);
    struct call c[N];
    struct peer p[N];

    add_range(q, 0, 1);
    for (int i = 0; i < N; i++)
        block_put(&p[i], &c[i], q, 10 + i);
    CHECK_EQ(index_of(take_now(q)), 0);
    for (int i = 0; i < N; i++) {
        CHECK_STATUS(spn_queue_put(q, item(99), 0),
                     SPN_EFULL); /* the room was given away */
        CHECK_EQ(index_of(take_now(q)), 10 + i);
        CHECK_OK(peer_finish(&p[i]));
    }
    expect_empty(q);

    for (int i = 0; i < N; i++)
        block_take(&p[i], &c[i], q);
    for (int i = 0; i < N; i++) {
        CHECK_OK(spn_queue_put(q, item(20 + i), 0));
        CHECK(take_now(q) == NULL); /* the item was given away */
        CHECK_OK(peer_finish(&p[i]));
        CHECK_EQ(index_of(c[i].item), 20 + i);
    }
    expect_empty(q);
    shut(q);
}

/* What was removed is not kept: the same queue, looked at through its own calls, never
 * shows it again.  (tests/unit/test_queue_store.c looks at the slots.) */
TEST(queue_array__removed_items__never_seen_again, "ABQ-7")
{
    for (uint32_t fair = 0; fair < 2; fair++) {
        spn_queue *q = open_array(4, fair);

        for (int i = 0; i < 40; i++) {
            void *all[5];

            CHECK_OK(spn_queue_put(q, item(i), 0));
            if (i % 3 == 2)
                CHECK_OK(spn_queue_remove_item(q, item(i)));
            else if (i % 2 == 1)
                CHECK(take_now(q) != NULL);
            if (spn_queue_size(q) == 4)
                CHECK(take_now(q) != NULL);
            for (int64_t n = content(q, all, 5); n > 0; n--)
                CHECK(index_of(all[n - 1]) > i - 12);
        }
        (void)take_all(q);
        for (int i = 0; i < 40; i++)
            CHECK_STATUS(spn_queue_contains(q, item(i)), SPN_EEMPTY);
        shut(q);
    }
}
