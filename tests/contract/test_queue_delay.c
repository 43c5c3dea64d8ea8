/* SPDX-License-Identifier: MIT */
/*
 * test_queue_delay.c - items that can be taken when they are due.  The clock is a
 * manual one and moves when a test says so; the few tests on the monotonic clock
 * prove that the queue sleeps by itself, too.
 */
#include "counting.h"
#include "queue_kinds.h"

/* item(i) is due at due_at[i]. */
static int64_t due_at[ITEMS];

static int64_t due_by_table(const void *p, void *ctx)
{
    (void)ctx;
    return due_at[index_of(p)];
}

static spn_clock *manual; /* shows 1000 when a test begins */

static spn_queue *open_delay(bool by_hand)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;

    opts.due = due_by_table;
    if (by_hand) {
        REQUIRE_OK(spn_clock_create_manual(&manual, 1000));
        opts.clock = manual;
    }
    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_DELAY, &opts));
    return q;
}

static void shut_delay(spn_queue *q)
{
    shut(q);
    CHECK_OK(spn_clock_destroy(manual));
    manual = NULL;
}

static void add_due(spn_queue *q, int index, int64_t at)
{
    due_at[index] = at;
    CHECK_OK(spn_queue_put(q, item(index), 0));
}

static void advance_to(int64_t at)
{
    CHECK_OK(spn_clock_advance(manual, at - spn_clock_now(manual)));
}

/* Unbounded: inserts never block, however far away the items are. */
TEST(queue_delay__inserts__never_block, "DQ-1", "G-25")
{
    spn_queue *q = open_delay(true);

    for (int i = 0; i < 500; i += 4) {
        due_at[i] = due_at[i + 1] = due_at[i + 2] = due_at[i + 3] = INT64_MAX - i;
        CHECK_OK(spn_queue_put(q, item(i), SPN_FOREVER));
        CHECK_OK(spn_queue_put(q, item(i + 1), 0));
        CHECK_OK(spn_queue_put(q, item(i + 2), 0));
        CHECK_OK(spn_queue_put(q, item(i + 3), 0));
        CHECK_EQ(room_left(q), INT32_MAX);
        CHECK_EQ(spn_queue_capacity(q), INT32_MAX);
    }
    CHECK_EQ(spn_queue_size(q), 500);
    CHECK_EQ(take_all(q), 500);
    shut_delay(q);
}

/* Only what is due can be taken, earliest first; what is not due is there all the
 * same, and peek shows the head. */
TEST(queue_delay__not_due__there_but_not_to_be_had, "DQ-2", "DQ-3", "DQ-4", "DQ-8")
{
    spn_queue *q = open_delay(true);
    void *got = item(9), *some[4];

    add_due(q, 3, 1030);
    add_due(q, 1, 1010);
    add_due(q, 2, 1020);
    CHECK_EQ(index_of(first_of(q)), 1);
    CHECK_OK(spn_queue_peek(q, &got));
    CHECK_EQ(index_of(got), 1);
    CHECK(take_now(q) == NULL);
    CHECK_STATUS(spn_queue_take(q, &got, 0), SPN_EEMPTY);
    CHECK(got == NULL);
    CHECK_STATUS(spn_queue_take(q, &got, 0), SPN_EEMPTY);
    CHECK_EQ(take_some(q, some, 4), 0);
    CHECK_EQ(spn_queue_size(q), 3);
    for (int i = 1; i <= 3; i++) {
        CHECK_OK(spn_queue_contains(q, item(i)));
        CHECK_STATUS(spn_queue_contains(q, item(i + 10)), SPN_EEMPTY);
    }
    CHECK_EQ(content(q, some, 4), 3);

    advance_to(1009);
    CHECK(take_now(q) == NULL);
    advance_to(1010);
    CHECK_EQ(index_of(take_now(q)), 1);
    CHECK(take_now(q) == NULL);
    CHECK_EQ(index_of(first_of(q)), 2);
    advance_to(1030);
    CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
    CHECK_EQ(index_of(got), 2);
    CHECK_OK(spn_queue_take(q, &got, 0));
    CHECK_EQ(index_of(got), 3);
    CHECK_STATUS(spn_queue_peek(q, &got), SPN_EEMPTY);
    expect_empty(q);
    shut_delay(q);
}

/* The head of a hundred random due times comes out right at every step. */
TEST(queue_delay__random_times__in_order_of_due_time, "DQ-2", "DQ-17")
{
    uint64_t seed = t_seed();
    spn_queue *q = open_delay(true);
    int64_t last = 0;
    int taken = 0;

    for (int i = 0; i < 1000; i++)
        add_due(q, i, (int64_t)(1000 + t_random(&seed) % 300)); /* many equal ones */
    while (taken < 1000) {
        void *got = take_now(q);

        if (got == NULL) {
            CHECK_OK(spn_clock_advance(manual, (int64_t)(t_random(&seed) % 5)));
            continue;
        }
        CHECK(due_at[index_of(got)] >= last);
        CHECK(due_at[index_of(got)] <= spn_clock_now(manual));
        last = due_at[index_of(got)];
        due_at[index_of(got)] = -1; /* a second time would be out of order */
        taken++;
    }
    expect_empty(q);
    shut_delay(q);
}

/* Due times at the ends of the range neither overflow nor overtake. */
TEST(queue_delay__extreme_due_times__no_overflow, "DQ-11", "G-8", "P20")
{
    static const int64_t times[] = { INT64_MAX,     INT64_MIN, 0,   -1,  INT64_MAX - 1,
                                     INT64_MIN + 1, 1000,      999, 1001 };
    static const int order[] = { 1, 5, 3, 2, 7, 6 }; /* due at 1000 */
    spn_queue *q = open_delay(true);
    void *got;

    for (int i = 0; i < 9; i++)
        add_due(q, i, times[i]);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(index_of(take_now(q)), order[i]);
    CHECK(take_now(q) == NULL);
    CHECK_STATUS(spn_queue_take(q, &got, INT64_MIN), SPN_EEMPTY);
    advance_to(INT64_MAX - 2);
    CHECK_EQ(index_of(take_now(q)), 8);
    CHECK(take_now(q) == NULL);
    advance_to(INT64_MAX - 1);
    CHECK_EQ(index_of(take_now(q)), 4);
    CHECK(take_now(q) == NULL); /* SPN_FOREVER never comes */
    CHECK_EQ(spn_queue_size(q), 1);
    CHECK_EQ(take_all(q), 1);
    shut_delay(q);
}

/* A taker sleeps until the clock shows the head's time, not before. */
TEST(queue_delay__take__until_due, "DQ-2", "DQ-7")
{
    spn_queue *q = open_delay(true);
    struct call c;
    struct peer p;

    add_due(q, 1, 2000);
    block_take(&p, &c, q);
    CHECK_EQ(spn_queue_waiting_consumers(q), 1);
    advance_to(1999);
    CHECK(peer_still_waits(&p));
    CHECK_STATUS(spn_queue_destroy(q), SPN_EBUSY);
    advance_to(2000);
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(index_of(c.item), 1);
    CHECK_EQ(spn_queue_waiting_consumers(q), 0);
    shut_delay(q);
}

/* An item that is due earlier, inserted while a taker sleeps, wakes it in time. */
TEST(queue_delay__earlier_item_inserted__taker_wakes_for_it, "DQ-13", "P4")
{
    spn_queue *q = open_delay(true);
    struct call c[2];
    struct peer p[2];

    add_due(q, 1, 5000);
    block_take(&p[0], &c[0], q);
    block_take(&p[1], &c[1], q);
    add_due(q, 2, 3000);
    add_due(q, 3, 4000);
    advance_to(3000);
    T_AWAIT(atomic_load(&p[0].done) + atomic_load(&p[1].done) == 1);
    advance_to(4000);
    CHECK_OK(peer_finish(&p[0]));
    CHECK_OK(peer_finish(&p[1]));
    CHECK_EQ(index_of(c[0].item) + index_of(c[1].item), 2 + 3);
    CHECK_EQ(index_of(first_of(q)), 1);
    CHECK_EQ(take_all(q), 1);
    shut_delay(q);
}

/* An item that is due at once goes to a taker that waits for a later one. */
TEST(queue_delay__due_item_inserted__taken_at_once, "DQ-13")
{
    for (int with_later = 0; with_later < 2; with_later++) {
        spn_queue *q = open_delay(true);
        struct call c;
        struct peer p;

        if (with_later)
            add_due(q, 1, 5000);
        block_take(&p, &c, q);
        add_due(q, 2, 10);
        CHECK_OK(peer_finish(&p));
        CHECK_EQ(index_of(c.item), 2);
        CHECK_EQ(take_all(q), with_later);
        shut_delay(q);
    }
}

/* When the leader leaves, by interrupt or time-out, another takes its place. */
TEST(queue_delay__leader_leaves__another_leads, "DQ-14")
{
    for (int by_timeout = 0; by_timeout < 2; by_timeout++) {
        spn_queue *q = open_delay(true);
        struct call c[3];
        struct peer p[3];

        add_due(q, 1, 2000);
        start_call(&p[0], &c[0], form_named("take"), q, 0,
                   by_timeout ? T_SHORT_NS : SPN_FOREVER);
        peer_await_blocked(&p[0]);
        block_take(&p[1], &c[1], q);
        block_take(&p[2], &c[2], q);
        if (!by_timeout)
            CHECK_OK(spn_thread_interrupt(p[0].thread));
        CHECK_STATUS(peer_finish(&p[0]), by_timeout ? SPN_ETIMEDOUT : SPN_EINTR);
        CHECK(c[0].item == NULL);
        advance_to(2000);
        T_AWAIT(atomic_load(&p[1].done) + atomic_load(&p[2].done) == 1);
        add_due(q, 2, 2000);
        CHECK_OK(peer_finish(&p[1]));
        CHECK_OK(peer_finish(&p[2]));
        CHECK_EQ(index_of(c[1].item) + index_of(c[2].item), 1 + 2);
        expect_empty(q);
        shut_delay(q);
    }
}

static int ended(struct peer *p, int count)
{
    int sum = 0;

    for (int i = 0; i < count; i++)
        sum += atomic_load(&p[i].done);
    return sum;
}

/* On the monotonic clock a follower takes over from a leader that was interrupted
 * and from one that took, and sleeps no longer than until the head is due. */
TEST(queue_delay__leader_leaves_on_real_clock__another_leads, "DQ-14", "DQ-6")
{
    spn_queue *q = open_delay(false);
    struct call c[3];
    struct peer p[3];
    const int64_t start = spn_now();

    add_due(q, 1, start + 2 * T_PROBE_NS);
    add_due(q, 2, start + 3 * T_PROBE_NS);
    for (int i = 0; i < 3; i++) {
        start_call(&p[i], &c[i], form_named("take"), q, 0, SPN_FOREVER);
        T_AWAIT(spn_queue_waiting_consumers(q) + ended(p, i + 1) == i + 1);
    }
    CHECK_OK(spn_thread_interrupt(p[0].thread));
    for (int i = 0; i < 3; i++) {
        const int rc = peer_finish(&p[i]);

        CHECK(rc == SPN_OK || (i == 0 && rc == SPN_EINTR));
        if (i == 0 && rc == SPN_OK)
            add_due(q, 3, 0); /* it was late: one more, for the others */
    }
    CHECK(spn_now() - start >= 2 * T_PROBE_NS);
    (void)take_all(q);
    shut(q);
}

/* n items due at once release n takers. */
TEST(queue_delay__several_due_at_once__as_many_released, "DQ-15")
{
    enum { N = 5 };
    spn_queue *q = open_delay(true);
    struct call c[N + 1];
    struct peer p[N + 1];
    int sum = 0, done;

    for (int i = 0; i < N + 1; i++)
        block_take(&p[i], &c[i], q);
    for (int i = 0; i < N; i++)
        add_due(q, i, 2000);
    CHECK_EQ(spn_queue_size(q), N);
    advance_to(2000);
    do {
        done = 0;
        for (int i = 0; i < N + 1; i++)
            done += atomic_load(&p[i].done);
        t_pause();
    } while (done < N);
    CHECK_EQ(done, N);
    T_AWAIT(spn_queue_waiting_consumers(q) == 1); /* it may be having a look */
    add_due(q, 100, 0);
    for (int i = 0; i < N + 1; i++) {
        CHECK_OK(peer_finish(&p[i]));
        sum += index_of(c[i].item);
    }
    CHECK_EQ(sum, 0 + 1 + 2 + 3 + 4 + 100);
    shut_delay(q);
}

/* Taking out the head a leader waits for neither ends its wait nor gives it the
 * item; it goes on to wait for the next. */
TEST(queue_delay__head_removed_under_leader__waits_on, "DQ-16", "DQ-9")
{
    for (int how = 0; how < 3; how++) {
        spn_queue *q = open_delay(true);
        void *first[1] = { item(1) };
        struct call c;
        struct peer p;

        add_due(q, 1, 2000);
        add_due(q, 2, 3000);
        block_take(&p, &c, q);
        if (how == 0)
            CHECK_OK(spn_queue_remove_item(q, item(1)));
        else if (how == 1)
            CHECK_EQ(remove_all(q, first, 1), 1);
        else
            CHECK_EQ(take_all(q), 2);
        advance_to(2500);
        CHECK(peer_still_waits(&p));
        if (how == 2)
            add_due(q, 2, 3000);
        advance_to(3000);
        CHECK_OK(peer_finish(&p));
        CHECK_EQ(index_of(c.item), 2);
        shut_delay(q);
    }
}

/* A timed take ends when the head is due or its time is up, whichever is first. */
TEST(queue_delay__timed_take__due_or_time_up, "DQ-5", "G-7")
{
    spn_queue *q = open_delay(true);
    struct call c;
    struct peer p;
    void *got;
    int64_t start;

    add_due(q, 1, 2000);
    start = spn_now();
    CHECK_STATUS(spn_queue_take(q, &got, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK(spn_now() - start >= T_PROBE_NS);
    CHECK(got == NULL);
    CHECK_EQ(spn_queue_size(q), 1);
    start_call(&p, &c, form_named("take"), q, 0, SPN_FOREVER);
    peer_await_blocked(&p);
    advance_to(2000);
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(index_of(c.item), 1);
    shut_delay(q);

    q = open_delay(false);
    add_due(q, 1, spn_now() + T_PROBE_NS);
    CHECK_OK(spn_queue_take(q, &got, T_LONG_NS));
    CHECK_EQ(index_of(got), 1);
    CHECK(spn_now() >= due_at[1]);
    add_due(q, 2, spn_now() + T_LONG_NS);
    start = spn_now();
    CHECK_STATUS(spn_queue_take(q, &got, SPN_US(999)), SPN_ETIMEDOUT);
    CHECK(spn_now() - start >= SPN_US(999));
    CHECK(spn_now() - start < T_LONG_NS);
    CHECK_EQ(take_all(q), 1);
    shut(q);
}

/* Twenty items with delays 20 .. 1 ms come in order and never early. */
TEST(queue_delay__twenty_real_delays__in_order_never_early, "DQ-6")
{
    spn_queue *q = open_delay(false);
    const int64_t start = spn_now();
    int64_t last = 0;

    for (int i = 0; i < 20; i++)
        add_due(q, i, start + SPN_MS(20 - i));
    for (int i = 0; i < 20; i++) {
        void *got;

        CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
        CHECK(spn_now() >= due_at[index_of(got)]);
        CHECK(due_at[index_of(got)] >= last);
        last = due_at[index_of(got)];
    }
    expect_empty(q);
    shut(q);
}

static int visit_due(void *p, void *sink)
{
    if (due_at[index_of(p)] > spn_clock_now(manual))
        return SPN_QUEUE_KEEP;
    return CHECK_OK(spn_queue_put(sink, p, 0)) ? SPN_QUEUE_TAKE : SPN_QUEUE_STOP;
}

/* take_many takes what is due, in order, and no more than asked for; into another queue
 * a walk moves it if the visitor looks at the time. */
TEST(queue_delay__take_many__due_items_only, "DQ-10", "Q-27")
{
    spn_queue *q = open_delay(true), *sink;
    void *some[10];

    REQUIRE_OK(spn_queue_create(&sink, SPN_QUEUE_LINKED, NULL));
    for (int i = 0; i < 10; i++)
        add_due(q, 9 - i, 1009 - i); /* item(i) is due at 1000 + i */
    advance_to(1003);
    CHECK_EQ(take_some(q, some, 2), 2);
    CHECK_EQ(index_of(some[0]), 0);
    CHECK_EQ(index_of(some[1]), 1);
    CHECK_EQ(take_some(q, some, 10), 2);
    CHECK_EQ(index_of(some[0]), 2);
    CHECK_EQ(index_of(some[1]), 3);
    CHECK_EQ(take_some(q, some, 10), 0);
    CHECK_EQ(spn_queue_size(q), 6);
    CHECK_OK(spn_queue_walk(q, visit_due, sink));
    expect_empty(sink);
    advance_to(1007);
    CHECK_EQ(take_some(q, some, 1), 1);
    CHECK_EQ(index_of(some[0]), 4);
    CHECK_OK(spn_queue_walk(q, visit_due, sink));
    CHECK_EQ(spn_queue_size(sink), 3);
    for (int i = 5; i < 8; i++)
        CHECK_OK(spn_queue_remove_item(sink, item(i))); /* in no particular order */
    CHECK_EQ(spn_queue_size(q), 2);
    advance_to(1010);
    CHECK_EQ(take_some(q, some, 10), 2);
    CHECK_EQ(index_of(some[1]), 9);
    shut(sink);
    shut_delay(q);
}

/* Bulk removals see items that are not due. */
TEST(queue_delay__bulk_on_items_not_due__work, "DQ-9", "DQ-18", "DQ-12")
{
    spn_queue *q = open_delay(true);
    void *some[6];

    for (int i = 0; i < 6; i++) {
        some[i] = item(i);
        due_at[i] = 2000 + i;
    }
    CHECK_OK(spn_queue_put_many(q, some, 6, 0, NULL));
    CHECK_EQ(contains_all(q, some, 6), 1);
    CHECK_EQ(remove_all(q, some, 2), 1);
    CHECK_EQ(retain_all(q, some, 4), 1);
    CHECK_EQ(spn_queue_size(q), 2);
    CHECK_OK(spn_queue_remove_item(q, item(3)));
    CHECK_EQ(index_of(first_of(q)), 2);
    CHECK_EQ(take_all(q), 1);
    expect_empty(q);
    shut_delay(q);
}

/* A closed queue keeps its items until they are due; each waiting taker gets one or
 * learns that there will be no more, however the last one went. */
TEST(queue_delay__closed_with_items_not_due__takers_end, "DQ-14", "G-20")
{
    enum { TAKERS = 4 };

    for (int how = 0; how < 4; how++) {
        spn_queue *q = open_delay(true);
        struct call c[TAKERS];
        struct peer p[TAKERS];
        int ok = 0, closed = 0;

        add_due(q, 1, 2000);
        add_due(q, 2, 3000);
        for (int i = 0; i < TAKERS; i++)
            block_take(&p[i], &c[i], q);
        CHECK_OK(spn_queue_close(q));
        T_AWAIT(spn_queue_waiting_consumers(q) == TAKERS); /* they looked, and wait */
        advance_to(2000);
        T_AWAIT(spn_queue_size(q) == 1);
        if (how == 0)
            advance_to(3000);
        else if (how == 1)
            CHECK_OK(spn_queue_remove_item(q, item(2)));
        else if (how == 2)
            CHECK_EQ(take_all(q), 1);
        else {
            void *some[1];

            advance_to(3000);
            (void)take_some(q, some, 1);
        }
        for (int i = 0; i < TAKERS; i++) {
            const int rc = peer_finish(&p[i]);

            ok += rc == SPN_OK;
            closed += rc == SPN_ECLOSED;
        }
        CHECK_EQ(ok + closed, TAKERS);
        CHECK(ok == (how == 0 ? 2 : how == 3 ? ok : 1));
        expect_empty(q);
        shut_delay(q);
    }
}

/* A clock that a queue listens to is not destroyed under it. */
TEST(queue_delay__clock_in_use__ebusy, "G-17")
{
    spn_queue *q = open_delay(true);

    CHECK_STATUS(spn_clock_destroy(manual), SPN_EBUSY);
    shut_delay(q);
}

/* The due function is asked once per insert. */
static int asked;

static int64_t count_due(const void *p, void *ctx)
{
    (void)p;
    (void)ctx;
    asked++;
    return 0;
}

TEST(queue_delay__due_function__asked_once, "DQ-2")
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q;

    opts.due = count_due;
    asked = 0;
    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_DELAY, &opts));
    for (int i = 0; i < 100; i++)
        CHECK_OK(spn_queue_put(q, item(i), 0)); /* grows several times */
    for (int i = 0; i < 100; i++)
        CHECK(take_now(q) != NULL);
    CHECK_EQ(asked, 100);
    shut(q);
}

/* Waiters that gave up leave nothing behind: neither memory nor a count. */
TEST(queue_delay__many_polls_time_out__nothing_stays, "SQ-13", "DQ-5")
{
    spn_queue *q = open_delay(true);
    struct call c;
    struct peer p;
    void *got;
    long live;

    add_due(q, 1, 5000);
    block_take(&p, &c, q); /* the long-lived one before them */
    live = atomic_load(&counting_live);
    for (int i = 0; i < t_rounds(5000); i++)
        CHECK_STATUS(spn_queue_take(q, &got, i % 2 == 0 ? 0 : 1000),
                     i % 2 == 0 ? SPN_EEMPTY : SPN_ETIMEDOUT);
    CHECK_EQ(atomic_load(&counting_live), live);
    CHECK_EQ(spn_queue_waiting_consumers(q), 1);
    advance_to(5000);
    CHECK_OK(peer_finish(&p));
    shut_delay(q);
}
