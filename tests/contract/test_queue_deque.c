/* SPDX-License-Identifier: MIT */
/* test_queue_deque.c - the queue with two ends. */
#include "counting.h"
#include "queue_kinds.h"

static spn_queue *open_deque(int32_t capacity)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;

    opts.capacity = capacity;
    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_DEQUE, &opts));
    return q;
}

/* Plain inserts go to the last, plain removals come from the first. */
TEST(queue_deque__plain_calls__last_in_first_out_of_the_front, "LBD-1", "LBD-4")
{
    spn_queue *q = open_deque(SPN_DEFAULT);

    add_range(q, 0, 5);
    CHECK_EQ(index_of(first_of(q)), 0);
    CHECK_EQ(index_of(last_of(q)), 4);
    expect_range(q, 0, 5);
    shut(q);
}

/* Each insert acts at the end it names. */
TEST(queue_deque__inserts__at_the_named_end, "LBD-2")
{
    spn_queue *q = open_deque(8);
    void *all[9];
    static const int order[] = { 7, 5, 3, 1, 0, 2, 4, 6 };

    CHECK_OK(spn_queue_put(q, item(0), 0));
    CHECK_OK(spn_queue_put_first(q, item(1), 0));
    CHECK_OK(spn_queue_put(q, item(2), 0));
    CHECK_OK(spn_queue_put_first(q, item(3), 0));
    CHECK_OK(spn_queue_put(q, item(4), SPN_FOREVER));
    CHECK_OK(spn_queue_put_first(q, item(5), SPN_FOREVER));
    CHECK_OK(spn_queue_put(q, item(6), 0));
    CHECK_OK(spn_queue_put_first(q, item(7), 0));
    CHECK_EQ(room_left(q), 0);
    CHECK_STATUS(spn_queue_put(q, item(8), 0), SPN_EFULL);
    CHECK_STATUS(spn_queue_put_first(q, item(8), 0), SPN_EFULL);
    CHECK_STATUS(spn_queue_put_first(q, item(8), 0), SPN_EFULL);
    CHECK_STATUS(spn_queue_put_first(q, item(8), 0), SPN_EFULL);
    CHECK_STATUS(spn_queue_put_first(q, item(8), INT64_MIN), SPN_EFULL);
    CHECK_EQ(content(q, all, 9), 8);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(index_of(all[i]), order[i]);
    CHECK(all[8] == NULL);
    shut(q);
}

/* Each removal and each look acts at the end it names. */
TEST(queue_deque__removals__at_the_named_end, "LBD-3", "LBD-7")
{
    spn_queue *q = open_deque(SPN_DEFAULT);
    void *got;

    add_range(q, 0, 10);
    CHECK_EQ(index_of(last_of(q)), 9);
    CHECK_OK(spn_queue_peek_last(q, &got));
    CHECK_EQ(index_of(got), 9);
    CHECK_OK(spn_queue_take_last(q, &got, 0));
    CHECK_EQ(index_of(got), 9);
    CHECK_EQ(index_of(take_last_now(q)), 8);
    CHECK_OK(spn_queue_take_last(q, &got, SPN_FOREVER));
    CHECK_EQ(index_of(got), 7);
    CHECK_OK(spn_queue_take_last(q, &got, 0));
    CHECK_EQ(index_of(got), 6);
    CHECK_OK(spn_queue_take_last(q, &got, SPN_FOREVER));
    CHECK_EQ(index_of(got), 5);
    CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
    CHECK_EQ(index_of(got), 0);
    CHECK_EQ(take_all(q), 4);

    CHECK_STATUS(spn_queue_take_last(q, &got, 0), SPN_EEMPTY);
    CHECK(got == NULL);
    got = item(1);
    CHECK_STATUS(spn_queue_peek_last(q, &got), SPN_EEMPTY);
    CHECK(got == NULL);
    CHECK(take_last_now(q) == NULL);
    CHECK(last_of(q) == NULL);
    got = item(1);
    CHECK_STATUS(spn_queue_take_last(q, &got, 0), SPN_EEMPTY);
    CHECK(got == NULL);
    CHECK_STATUS(spn_queue_take_last(q, &got, INT64_MIN), SPN_EEMPTY);
    shut(q);
}

/* take_last gives the reverse of the insertions; at the first it is a stack. */
TEST(queue_deque__stack_and_reverse__orders, "LBD-4")
{
    spn_queue *q = open_deque(SPN_DEFAULT);
    void *got;

    add_range(q, 0, 6);
    for (int i = 5; i >= 0; i--) {
        CHECK_OK(spn_queue_take_last(q, &got, SPN_FOREVER));
        CHECK_EQ(index_of(got), i);
    }
    for (int i = 0; i < 6; i++)
        CHECK_OK(spn_queue_put_first(q, item(i), 0));
    for (int i = 5; i >= 0; i--) {
        CHECK_OK(spn_queue_take(q, &got, 0));
        CHECK_EQ(index_of(got), i);
    }
    shut(q);
}

/* A put_first that waits for room: the take that makes it gets what was first, and
 * the waiting item becomes the first; a put becomes the last. */
TEST(queue_deque__put_at_either_end_waits__goes_to_its_end, "LBD-5", "LBD-8")
{
    spn_queue *q = open_deque(3);
    struct call c[2];
    struct peer p[2];

    add_range(q, 0, 3);
    block_call(&p[0], &c[0], form_named("put_first"), q, 10);
    block_put(&p[1], &c[1], q, 11);
    CHECK_EQ(index_of(take_now(q)), 0);
    CHECK_OK(peer_finish(&p[0]));
    CHECK_EQ(atomic_load(&p[1].done), 0);
    CHECK_EQ(index_of(first_of(q)), 10);
    CHECK_EQ(index_of(take_last_now(q)), 2);
    CHECK_OK(peer_finish(&p[1]));
    CHECK_EQ(index_of(take_now(q)), 10);
    CHECK_EQ(index_of(take_now(q)), 1);
    CHECK_EQ(index_of(take_now(q)), 11);
    expect_empty(q);
    shut(q);
}

/* Takers of both ends wait together: inserts at either end serve them all. */
TEST(queue_deque__takers_of_both_ends__all_served, "LBD-13", "LBD-7")
{
    spn_queue *q = open_deque(2);
    struct call c[4];
    struct peer p[4];
    int sum = 0;

    for (int i = 0; i < 4; i++)
        block_call(&p[i], &c[i], form_named(i % 2 ? "take_last" : "take"), q, 0);
    CHECK_EQ(spn_queue_waiting_consumers(q), 4);
    CHECK_OK(spn_queue_put_first(q, item(1), 0));
    CHECK_OK(spn_queue_put(q, item(2), 0));
    CHECK_OK(spn_queue_put_first(q, item(3), SPN_FOREVER));
    CHECK_OK(spn_queue_put(q, item(4), SPN_FOREVER));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(peer_finish(&p[i]));
        sum += index_of(c[i].item);
    }
    CHECK_EQ(sum, 10);
    expect_empty(q);
    shut(q);
}

static int visit_same(void *p, void *ctx)
{
    void **wanted = ctx;

    if (p != *wanted)
        return SPN_QUEUE_KEEP;
    *wanted = NULL;
    return SPN_QUEUE_TAKE | SPN_QUEUE_STOP;
}

static bool remove_last(spn_queue *q, void *p)
{
    void *wanted = p;

    CHECK_OK(spn_queue_walk_last(q, visit_same, &wanted));
    return wanted != p;
}

/* The first or, by a walk, the last of equal items is taken out. */
TEST(queue_deque__remove_occurrence__first_or_last, "LBD-9")
{
    spn_queue *q = open_deque(SPN_DEFAULT);

    add_range(q, 0, 3);
    add_range(q, 0, 3); /* 0 1 2 0 1 2 */
    CHECK(remove_last(q, item(1)));
    CHECK_OK(spn_queue_remove_item(q, item(0))); /* 1 2 0 2 */
    CHECK(!remove_last(q, NULL));
    CHECK(!remove_last(q, item(7)));
    CHECK_EQ(spn_queue_size(q), 4);
    CHECK_EQ(index_of(take_now(q)), 1);
    CHECK_EQ(index_of(take_now(q)), 2);
    CHECK_EQ(index_of(take_now(q)), 0);
    CHECK_EQ(index_of(take_now(q)), 2);
    CHECK(!remove_last(q, item(2)));
    shut(q);
}

/* Takes out what is shown after `skip` others. */
struct backwards {
    int shown[8], count, skip;
};

static int visit_backwards(void *p, void *ctx)
{
    struct backwards *b = ctx;

    b->shown[b->count++] = index_of(p);
    return b->count - 1 == b->skip ? SPN_QUEUE_TAKE : SPN_QUEUE_KEEP;
}

/* A walk from the last shows the reverse, and takes out what it showed. */
TEST(queue_deque__walk_from_the_last__reverse, "LBD-10")
{
    for (int out = -1; out < 6; out++) {
        struct backwards b = { .skip = out >= 0 ? 5 - out : -1 };
        spn_queue *q = open_deque(6);

        add_range(q, 0, 6);
        CHECK_OK(spn_queue_walk_last(q, visit_backwards, &b));
        CHECK_EQ(b.count, 6);
        for (int i = 0; i < 6; i++)
            CHECK_EQ(b.shown[i], 5 - i);
        for (int i = 0; i < 6; i++)
            if (i != out)
                CHECK_EQ(index_of(take_now(q)), i);
        expect_empty(q);
        shut(q);
    }
}

/* With equal pointers the occurrence that was shown goes, from either direction. */
TEST(queue_deque__walk_over_equal_items__exact_one, "LBD-10", "Q-22")
{
    for (int which = 0; which < 3; which++) {
        struct backwards b = { .skip = 2 * (3 - which) - 1 };
        spn_queue *q = open_deque(SPN_DEFAULT);
        void *all[6];

        for (int i = 0; i < 3; i++) {
            CHECK_OK(spn_queue_put(q, item(7), 0));
            CHECK_OK(spn_queue_put(q, item(i), 0));
        } /* 7 0 7 1 7 2 */
        CHECK_OK(spn_queue_walk_last(q, visit_backwards, &b));
        CHECK_EQ(b.shown[b.skip], 7);
        CHECK_EQ(content(q, all, 6), 5);
        /* The marks 0 1 2 tell which 7 is missing. */
        for (int i = 0, at = 0; i < 3; i++) {
            if (i != which)
                CHECK_EQ(index_of(all[at++]), 7);
            CHECK_EQ(index_of(all[at++]), i);
        }
        shut(q);
    }
}

/* A walk that takes many items lets many waiting producers in at once. */
TEST(queue_deque__walked_out_under_many_producers__all_let_in, "Q-28", "Q-34", "LBD-12")
{
    enum { CAPACITY = 100, PUTTERS = 90 };
    static struct call c[PUTTERS];
    static struct peer p[PUTTERS];
    spn_queue *q = open_deque(CAPACITY), *sink = open_deque(SPN_DEFAULT);
    int64_t moved = -1;
    int first = 0;

    add_range(q, 0, CAPACITY);
    for (int i = 0; i < PUTTERS; i++)
        start_call(&p[i], &c[i], form_named(i % 2 ? "put_first" : "put"), q,
                   CAPACITY + i, SPN_FOREVER);
    for (int i = 0; i < PUTTERS; i++)
        peer_await_blocked(&p[i]);
    CHECK_OK(move_to(q, sink, INT64_MAX, &moved));
    CHECK_EQ(moved, CAPACITY);
    for (int i = 0; i < PUTTERS; i++)
        CHECK_OK(peer_finish(&p[i]));
    expect_range(sink, 0, CAPACITY);
    expect_empty(sink);
    CHECK_EQ(spn_queue_size(q), PUTTERS);
    CHECK_EQ(room_left(q), CAPACITY - PUTTERS);
    for (void *got; (got = take_now(q)) != NULL;) {
        numbers[index_of(got)]++;
        first += (index_of(got) - CAPACITY) % 2;
        if (first < PUTTERS / 2) /* those at the first come first */
            CHECK_EQ((index_of(got) - CAPACITY) % 2, 1);
    }
    for (int i = CAPACITY; i < CAPACITY + PUTTERS; i++)
        CHECK_EQ(numbers[i], 1);
    shut(q);
    shut(sink);
}

/* The same where the visitor keeps them for itself. */
TEST(queue_deque__cleared_under_many_producers__all_let_in, "Q-19", "LBD-12")
{
    enum { CAPACITY = 100, PUTTERS = 90 };
    static struct call c[PUTTERS];
    static struct peer p[PUTTERS];
    spn_queue *q = open_deque(CAPACITY);

    add_range(q, 0, CAPACITY);
    for (int i = 0; i < PUTTERS; i++)
        start_call(&p[i], &c[i], form_named("put"), q, CAPACITY + i, SPN_FOREVER);
    for (int i = 0; i < PUTTERS; i++)
        peer_await_blocked(&p[i]);
    CHECK_EQ(take_all(q), CAPACITY);
    for (int i = 0; i < PUTTERS; i++)
        CHECK_OK(peer_finish(&p[i]));
    CHECK_EQ(spn_queue_size(q), PUTTERS);
    CHECK_EQ(take_all(q), PUTTERS);
    shut(q);
}
