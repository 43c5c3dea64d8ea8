/* SPDX-License-Identifier: MIT */
/* test_queue_ring.c - the fast bounded queue without an inside. */
#include "counting.h"
#include "queue_kinds.h"

static spn_queue *open_ring(int32_t capacity)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;

    opts.capacity = capacity;
    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_RING, &opts));
    return q;
}

/* The capacity is the next power of two, and all of it can be used. */
TEST(queue_ring__capacity__rounded_up, "Q-5", "Q-7")
{
    static const int32_t rows[][2] = { { 1, 2 },      { 2, 2 },    { 3, 4 },
                                       { 4, 4 },      { 5, 8 },    { 63, 64 },
                                       { 64, 64 },    { 65, 128 }, { 1000, 1024 },
                                       { 1024, 1024 } };
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        q = open_ring(rows[i][0]);
        CHECK_EQ(spn_queue_capacity(q), rows[i][1]);
        add_range(q, 0, rows[i][1]);
        CHECK_STATUS(spn_queue_put(q, item(9), 0), SPN_EFULL);
        CHECK_EQ(room_left(q), 0);
        expect_range(q, 0, rows[i][1]);
        shut(q);
    }
    opts.capacity = INT32_MAX; /* no power of two that fits */
    CHECK_STATUS(spn_queue_create(&q, SPN_QUEUE_RING, &opts), SPN_EINVAL);
    CHECK(q == NULL);
}

/* Random single and batched inserts and removals, beside plain counters. */
TEST(queue_ring__random_walk__first_in_first_out, "Q-7", "Q-27", "G-15")
{
    uint64_t seed = t_seed();

    for (int32_t capacity = 2; capacity <= 128; capacity *= 4) {
        spn_queue *q = open_ring(capacity);
        int in = 0, out = 0;

        for (int step = 0; step < t_rounds(20000); step++) {
            const int batch = (int)(t_random(&seed) % 9);
            void *some[8];
            size_t done = 0;

            switch (t_random(&seed) % 4) {
            case 0:
                if (spn_queue_put(q, item(in % ITEMS), 0) == SPN_OK)
                    in++;
                else
                    CHECK_EQ(in - out, capacity);
                break;
            case 1:
                if (in > out)
                    CHECK_EQ(index_of(take_now(q)), out++ % ITEMS);
                else
                    CHECK(take_now(q) == NULL);
                break;
            case 2:
                for (int i = 0; i < batch && i < 8; i++)
                    some[i] = item((in + i) % ITEMS);
                (void)!spn_queue_put_many(q, some, (size_t)(batch < 8 ? batch : 8), 0,
                                          &done);
                CHECK_EQ(done, capacity - (in - out) < (batch < 8 ? batch : 8)
                                   ? capacity - (in - out)
                                   : (batch < 8 ? batch : 8));
                in += (int)done;
                break;
            default:
                done = (size_t)take_some(q, some, (size_t)(batch < 8 ? batch : 8));
                for (size_t i = 0; i < done; i++)
                    CHECK_EQ(index_of(some[i]), out++ % ITEMS);
                break;
            }
            CHECK_EQ(spn_queue_size(q), in - out);
            CHECK_EQ(room_left(q), capacity - (in - out));
            CHECK_EQ(index_of(first_of(q)), in > out ? out % ITEMS : -1);
        }
        (void)take_all(q);
        shut(q);
    }
}

/* Items of one producer arrive in its order, whatever the batches; everybody ends when
 * the ring is closed. */
enum { PER_PRODUCER = 2000 };

struct lanes {
    spn_queue *q;
    atomic_int next[2]; /* of each producer, what any consumer saw last */
    atomic_int taken;
    int count;
};

static void lane(int index, void *arg)
{
    struct lanes *l = arg;
    void *some[5];

    if (index < 2) {
        for (int i = 0; i < l->count;) {
            const int n = l->count - i < 5 ? l->count - i : 5;
            size_t done;

            for (int j = 0; j < n; j++)
                some[j] = item(2 * (i + j) + index);
            CHECK_OK(spn_queue_put_many(l->q, some, (size_t)n, SPN_FOREVER, &done));
            i += (int)done;
        }
    } else {
        int last[2] = { -1, -1 };
        size_t n;

        while (spn_queue_take_many(l->q, some, 5, SPN_FOREVER, &n) == SPN_OK) {
            for (size_t i = 0; i < n; i++) {
                const int from = index_of(some[i]) % 2;

                CHECK(index_of(some[i]) > last[from]);
                last[from] = index_of(some[i]);
            }
            if (atomic_fetch_add(&l->taken, (int)n) + (int)n == 2 * l->count)
                CHECK_OK(spn_queue_close(l->q));
        }
    }
}

TEST(queue_ring__several_of_each__in_order_per_producer, "Q-29", "G-15", "G-20")
{
    for (int32_t capacity = 2; capacity <= 128; capacity *= 8) {
        struct lanes l = { .q = open_ring(capacity), .count = t_rounds(PER_PRODUCER) };

        t_parallel(4, lane, &l);
        CHECK_EQ(atomic_load(&l.taken), 2 * l.count);
        expect_empty(l.q);
        shut(l.q);
    }
}
