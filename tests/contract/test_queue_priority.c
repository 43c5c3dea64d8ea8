/* SPDX-License-Identifier: MIT */
/* test_queue_priority.c - the least item first. */
#include "counting.h"
#include "queue_kinds.h"

static int reversed(const void *a, const void *b, void *ctx)
{
    return -by_index(a, b, ctx);
}

/* All items of one decade are equal. */
static int by_decade(const void *a, const void *b, void *ctx)
{
    (void)ctx;
    return index_of(a) / 10 - index_of(b) / 10;
}

static spn_queue *open_priority(spn_queue_compare_fn compare, int32_t capacity)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;

    opts.compare = compare;
    opts.capacity = capacity;
    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_PRIORITY, &opts));
    return q;
}

/* A capacity is a hint; less than one is refused. */
TEST(queue_priority__capacity__a_hint, "PBQ-1", "PBQ-12", "G-25")
{
    static const int32_t hints[] = { 1, 2, 11, 1000, SPN_DEFAULT };
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *bad;

    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        spn_queue *q = open_priority(by_index, hints[i]);

        for (int n = 0; n < 50; n++) {
            CHECK_EQ(room_left(q), INT32_MAX);
            CHECK_EQ(spn_queue_capacity(q), INT32_MAX);
            CHECK_OK(spn_queue_put(q, item(n), 0));
        }
        expect_range(q, 0, 50);
        shut(q);
    }
    opts.compare = by_index;
    opts.capacity = 0;
    CHECK_STATUS(spn_queue_create(&bad, SPN_QUEUE_PRIORITY, &opts), SPN_EINVAL);
    opts.capacity = -1;
    CHECK_STATUS(spn_queue_create(&bad, SPN_QUEUE_PRIORITY, &opts), SPN_EINVAL);
    opts.capacity = SPN_DEFAULT;
    opts.compare = NULL;
    CHECK_STATUS(spn_queue_create(&bad, SPN_QUEUE_PRIORITY, &opts), SPN_EINVAL);
}

/* Every way out gives the least; a reversed comparator the greatest. */
TEST(queue_priority__any_order_in__least_first_out, "PBQ-2", "PBQ-5", "PBQ-3")
{
    uint64_t seed = t_seed();

    for (int reverse = 0; reverse < 2; reverse++) {
        spn_queue *q = open_priority(reverse ? reversed : by_index, SPN_DEFAULT), *sink;
        int order[100];
        void *got, *some[20];

        for (int i = 0; i < 100; i++)
            order[i] = i;
        for (int i = 99; i > 0; i--) { /* shuffled */
            const int j = (int)(t_random(&seed) % (uint64_t)(i + 1));
            const int t = order[i];

            order[i] = order[j];
            order[j] = t;
        }
        for (int i = 0; i < 100; i++)
            CHECK_OK(spn_queue_put(q, item(order[i]), SPN_FOREVER));
#define NTH(i) (reverse ? 99 - (i) : (i))
        CHECK_EQ(index_of(first_of(q)), NTH(0));
        CHECK_OK(spn_queue_peek(q, &got));
        CHECK_EQ(index_of(got), NTH(0));
        CHECK_EQ(index_of(take_now(q)), NTH(0));
        CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
        CHECK_EQ(index_of(got), NTH(1));
        CHECK_OK(spn_queue_take(q, &got, 0));
        CHECK_EQ(index_of(got), NTH(2));
        CHECK_OK(spn_queue_take(q, &got, 0));
        CHECK_EQ(index_of(got), NTH(3));
        CHECK_EQ(take_some(q, some, 20), 20);
        for (int i = 0; i < 20; i++)
            CHECK_EQ(index_of(some[i]), NTH(4 + i));
        REQUIRE_OK(spn_queue_create(&sink, SPN_QUEUE_LINKED, NULL));
        for (void *one; (one = take_now(q)) != NULL;)
            CHECK_OK(spn_queue_put(sink, one, 0));
        CHECK_EQ(spn_queue_size(sink), 76);
        for (int i = 24; i < 100; i++)
            CHECK_EQ(index_of(take_now(sink)), NTH(i));
        expect_empty(q);
        shut(q);
        shut(sink);
    }
}

/* Out of any place of the heap; all later polls are in order. */
TEST(queue_priority__removed_from_inside__heap_stays, "PBQ-6")
{
    enum { N = 40 };

    for (int out = 0; out < N; out++)
        for (int order = 0; order < 3; order++) {
            spn_queue *q = open_priority(by_index, SPN_DEFAULT);

            for (int i = 0; i < N; i++)
                CHECK_OK(spn_queue_put(q,
                                       item(order == 0   ? i
                                            : order == 1 ? N - 1 - i
                                                         : i * 17 % N),
                                       0));
            CHECK_OK(spn_queue_remove_item(q, item(out)));
            for (int i = 0; i < N; i++)
                if (i != out)
                    CHECK_EQ(index_of(take_now(q)), i);
            expect_empty(q);
            shut(q);
        }
}

static int visit_one(void *p, void *wanted)
{
    return p == wanted ? SPN_QUEUE_TAKE : SPN_QUEUE_KEEP;
}

/* Equal items: none lost, none twice; a walk takes out the very one it showed. */
TEST(queue_priority__equal_items__kept_apart, "PBQ-8", "PBQ-10")
{
    for (int out = 0; out < 30; out++) {
        spn_queue *q = open_priority(by_decade, SPN_DEFAULT);
        bool seen[30] = { false };
        void *got;
        int last = 0;

        for (int i = 0; i < 30; i++)
            CHECK_OK(spn_queue_put(q, item((i * 7) % 30), 0));
        CHECK_OK(spn_queue_walk(q, visit_one, item(out)));
        CHECK_EQ(spn_queue_size(q), 29);
        while ((got = take_now(q)) != NULL) {
            CHECK(!seen[index_of(got)]);
            seen[index_of(got)] = true;
            CHECK(index_of(got) / 10 >= last);
            last = index_of(got) / 10;
        }
        for (int i = 0; i < 30; i++)
            CHECK_EQ(seen[i], i != out);
        shut(q);
    }
}

/* The comparator gets the ctx and is called with the lock held: it sees a queue that
 * nobody else can use at the same time. */
struct guard {
    atomic_int inside;
    atomic_int calls;
};

static int compare_alone(const void *a, const void *b, void *ctx)
{
    struct guard *g = ctx;

    CHECK_EQ(atomic_fetch_add(&g->inside, 1), 0);
    atomic_fetch_add(&g->calls, 1);
    atomic_fetch_sub(&g->inside, 1);
    return by_index(a, b, NULL);
}

static void add_and_poll(int index, void *arg)
{
    spn_queue *q = arg;

    for (int i = 0; i < t_rounds(1000); i++) {
        CHECK_OK(spn_queue_put(q, item(4 * i + index), 0));
        if (i % 2 == 1)
            CHECK(take_now(q) != NULL);
    }
}

TEST(queue_priority__comparator__under_the_lock, "PBQ-11", "PBQ-9")
{
    struct guard g = { 0 };
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;
    int last = -1;

    opts.compare = compare_alone;
    opts.ctx = &g;
    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_PRIORITY, &opts));
    t_parallel(4, add_and_poll, q);
    CHECK(atomic_load(&g.calls) > 0);
    CHECK_EQ(spn_queue_size(q), 4 * (t_rounds(1000) - t_rounds(1000) / 2));
    for (void *got; (got = take_now(q)) != NULL; last = index_of(got))
        CHECK(index_of(got) > last);
    shut(q);
}

/* An insert that is refused changes nothing: no room for the heap to grow. */
TEST(queue_priority__insert_refused__unchanged, "PBQ-4", "G-22")
{
    spn_queue *q = open_priority(by_index, SPN_DEFAULT);
    int n = 0, rc;

    atomic_store(&counting_refuse, 1);
    while ((rc = spn_queue_put(q, item(n), 0)) == SPN_OK)
        n++;
    CHECK_STATUS(rc, SPN_ENOMEM);
    CHECK_STATUS(spn_queue_put(q, item(n), SPN_FOREVER), SPN_ENOMEM);
    CHECK_STATUS(spn_queue_put(q, item(n), 0), SPN_ENOMEM);
    atomic_store(&counting_refuse, 0);
    CHECK_EQ(spn_queue_size(q), n);
    CHECK_OK(spn_queue_put(q, item(n), 0));
    for (int i = n + 1; i < 100; i++) {
        atomic_store(&counting_refuse, i % 2);
        rc = spn_queue_put(q, item(i), 0);
        atomic_store(&counting_refuse, 0);
        if (rc != SPN_OK) {
            CHECK_STATUS(rc, SPN_ENOMEM);
            CHECK_EQ(spn_queue_size(q), i);
            CHECK_OK(spn_queue_put(q, item(i), 0));
        }
    }
    expect_range(q, 0, 100);
    shut(q);
}
