/* SPDX-License-Identifier: MIT */
/* test_queue_transfer.c - the queue whose producers may wait for their takers. */
#include "counting.h"
#include "queue_kinds.h"

static spn_queue *open_transfer(void)
{
    spn_queue *q;

    REQUIRE_OK(spn_queue_create(&q, SPN_QUEUE_TRANSFER, NULL));
    return q;
}

static void block_transfer(struct peer *p, struct call *c, spn_queue *q, int index)
{
    block_call(p, c, form_named("transfer"), q, index);
}

/* Unbounded: plain inserts never wait. */
TEST(queue_transfer__plain_inserts__never_wait, "LTQ-1", "G-25")
{
    spn_queue *q = open_transfer();

    for (int i = 0; i < 1000; i += 4) {
        CHECK_OK(spn_queue_put(q, item(i), SPN_FOREVER));
        CHECK_OK(spn_queue_put(q, item(i + 1), 0));
        CHECK_OK(spn_queue_put(q, item(i + 2), 0));
        CHECK_OK(spn_queue_put(q, item(i + 3), 0));
        CHECK_EQ(room_left(q), INT32_MAX);
    }
    expect_range(q, 0, 1000);
    shut(q);
}

/* transfer that does not wait: to one who waits in take or take_many, or not at all. */
TEST(queue_transfer__transfer_at_once__only_to_one_who_waits, "LTQ-2", "LTQ-9",
     "LTQ-10")
{
    spn_queue *q = open_transfer();

    CHECK_STATUS(spn_queue_transfer(q, item(1), 0), SPN_EFULL);
    expect_empty(q);
    for (int many = 0; many < 2; many++) {
        struct call c;
        struct peer p;

        CHECK_EQ(spn_queue_waiting_consumers(q), 0);
        block_call(&p, &c, form_named(many ? "take_many" : "take"), q, 0);
        CHECK_EQ(spn_queue_waiting_consumers(q), 1);
        CHECK_EQ(spn_queue_size(q), 0);
        CHECK(first_of(q) == NULL);
        CHECK_OK(spn_queue_transfer(q, item(2), 0));
        CHECK_EQ(spn_queue_waiting_consumers(q), 0); /* at once */
        CHECK_OK(peer_finish(&p));
        CHECK_EQ(index_of(c.item), 2);
        CHECK_STATUS(spn_queue_transfer(q, item(1), 0), SPN_EFULL);
        expect_empty(q);
    }
    /* Items that lie there do not make it succeed. */
    add_range(q, 0, 2);
    CHECK_STATUS(spn_queue_transfer(q, item(5), 0), SPN_EFULL);
    expect_range(q, 0, 2);
    expect_empty(q);
    shut(q);
}

/* transfer returns when its item has been taken; until then it is in the queue. */
TEST(queue_transfer__transfer__in_the_queue_until_taken, "LTQ-3", "LTQ-11")
{
    spn_queue *q = open_transfer();

    for (int how = 0; how < 7; how++) {
        struct call c;
        struct peer p;
        void *got = NULL, *some[2] = { item(4), NULL };
        size_t count;

        block_transfer(&p, &c, q, 4);
        CHECK_EQ(spn_queue_size(q), 1);
        CHECK_OK(spn_queue_contains(q, item(4)));
        CHECK_EQ(index_of(first_of(q)), 4);
        CHECK_EQ(content(q, some, 1), 1);
        CHECK(some[0] == item(4));
        CHECK(peer_still_waits(&p));
        switch (how) {
        case 0:
            CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
            break;
        case 1:
            got = take_now(q);
            break;
        case 2:
            CHECK_EQ(take_some(q, &got, 1), 1);
            break;
        case 3:
            CHECK_OK(spn_queue_take_many(q, &got, 1, SPN_FOREVER, &count));
            break;
        case 4:
            CHECK_OK(spn_queue_remove_item(q, item(4)));
            got = item(4);
            break;
        case 5:
            CHECK(remove_at(q, 0));
            got = item(4);
            break;
        default:
            CHECK_EQ(take_all(q), 1);
            got = item(4);
            break;
        }
        CHECK_EQ(index_of(got), 4);
        CHECK_OK(peer_finish(&p));
        expect_empty(q);
    }
    shut(q);
}

/* A transfer stands in line with the other items. */
TEST(queue_transfer__transfer_among_others__first_in_first_out, "LTQ-4", "LTQ-11")
{
    spn_queue *q = open_transfer(), *sink;
    struct call c[2];
    struct peer p[2];
    int64_t moved;

    add_range(q, 0, 1);
    block_transfer(&p[0], &c[0], q, 1);
    CHECK_OK(spn_queue_put(q, item(2), 0));
    block_transfer(&p[1], &c[1], q, 3);
    add_range(q, 4, 5);
    CHECK_EQ(spn_queue_size(q), 5);
    CHECK_EQ(index_of(take_now(q)), 0);
    CHECK_EQ(atomic_load(&p[0].done), 0);
    CHECK_EQ(index_of(take_now(q)), 1);
    CHECK_OK(peer_finish(&p[0]));
    /* A walk takes from blocked transfers, too, and releases them. */
    REQUIRE_OK(spn_queue_create(&sink, SPN_QUEUE_LINKED, NULL));
    CHECK_OK(move_to(q, sink, INT64_MAX, &moved));
    CHECK_EQ(moved, 3);
    CHECK_OK(peer_finish(&p[1]));
    expect_range(sink, 2, 5);
    expect_empty(q);
    shut(q);
    shut(sink);
}

/* A sink that refuses leaves a transfer where it was, and its producer waiting. */
TEST(queue_transfer__walked_into_a_full_queue__waits_on, "LTQ-11", "Q-34")
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *q = open_transfer(), *sink;
    struct call c[2];
    struct peer p[2];
    int64_t moved;

    opts.capacity = 1;
    REQUIRE_OK(spn_queue_create(&sink, SPN_QUEUE_ARRAY, &opts));
    block_transfer(&p[0], &c[0], q, 0);
    block_transfer(&p[1], &c[1], q, 1);
    CHECK_STATUS(move_to(q, sink, 9, &moved), SPN_EFULL);
    CHECK_EQ(moved, 1);
    CHECK_OK(peer_finish(&p[0]));
    CHECK(peer_still_waits(&p[1]));
    CHECK_EQ(spn_queue_size(q), 1);
    CHECK_OK(spn_thread_interrupt(p[1].thread)); /* it can still leave */
    CHECK_STATUS(peer_finish(&p[1]), SPN_EINTR);
    expect_empty(q);
    expect_range(sink, 0, 1);
    shut(q);
    shut(sink);
}

/* Interrupted or out of time, a transfer takes its item back from the middle; the
 * others stay in order. */
TEST(queue_transfer__gives_up__withdraws_its_item, "LTQ-5", "LTQ-6", "LTQ-14")
{
    for (int by_timeout = 0; by_timeout < 2; by_timeout++)
        for (int out = 0; out < 3; out++) {
            spn_queue *q = open_transfer();
            struct call c[3];
            struct peer p[3];

            for (int i = 0; i < 3; i++) {
                add_range(q, 2 * i, 2 * i + 1);
                if (by_timeout && i == out) {
                    start_call(&p[i], &c[i], form_named("transfer"), q, 2 * i + 1,
                               T_SHORT_NS);
                    T_AWAIT(spn_queue_size(q) == 2 * i + 2 || atomic_load(&p[i].done));
                } else {
                    block_transfer(&p[i], &c[i], q, 2 * i + 1);
                }
            }
            if (!by_timeout)
                CHECK_OK(spn_thread_interrupt(p[out].thread));
            CHECK_STATUS(peer_finish(&p[out]), by_timeout ? SPN_ETIMEDOUT : SPN_EINTR);
            CHECK_EQ(spn_queue_size(q), 5);
            CHECK_STATUS(spn_queue_contains(q, item(2 * out + 1)), SPN_EEMPTY);
            for (int i = 0; i < 6; i++)
                if (i != 2 * out + 1)
                    CHECK_EQ(index_of(take_now(q)), i);
            for (int i = 0; i < 3; i++)
                if (i != out)
                    CHECK_OK(peer_finish(&p[i]));
            expect_empty(q);
            shut(q);
        }
}

/* A timed transfer waits at least its time, and succeeds in time only after what lay
 * before it has been taken. */
TEST(queue_transfer__timed__at_least_its_time, "LTQ-6", "G-7")
{
    static const int64_t times[] = { 0, -1, INT64_MIN, 1, 999999 };
    spn_queue *q = open_transfer();
    struct call c;
    struct peer p;

    add_range(q, 0, 2);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        const int64_t start = spn_now();

        CHECK_STATUS(spn_queue_transfer(q, item(9), times[i]),
                     times[i] > 0 ? SPN_ETIMEDOUT : SPN_EFULL);
        CHECK(times[i] <= 0 || spn_now() - start >= times[i]);
        CHECK_EQ(spn_queue_size(q), 2);
        CHECK_STATUS(spn_queue_contains(q, item(9)), SPN_EEMPTY);
    }
    start_call(&p, &c, form_named("transfer"), q, 2, T_LONG_NS);
    peer_await_blocked(&p);
    CHECK_EQ(index_of(take_now(q)), 0);
    CHECK_EQ(index_of(take_now(q)), 1);
    CHECK(peer_still_waits(&p));
    CHECK_EQ(index_of(take_now(q)), 2);
    CHECK_OK(peer_finish(&p));
    shut(q);
}

/* With the flag set take gives what is there; only on an empty queue it is SPN_EINTR. */
TEST(queue_transfer__flag_set__take_gives_what_is_there, "LTQ-8", "Q-31")
{
    spn_queue *q = open_transfer();
    void *got;

    add_range(q, 0, 2);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
    CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
    CHECK_EQ(spn_thread_is_interrupted(spn_thread_current()), 1);
    CHECK_STATUS(spn_queue_take(q, &got, SPN_FOREVER), SPN_EINTR);
    CHECK_EQ(spn_thread_interrupted(), 0);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(spn_queue_transfer(q, item(1), SPN_FOREVER), SPN_EINTR);
    CHECK_EQ(spn_thread_interrupted(), 0);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(spn_queue_transfer(q, item(1), T_LONG_NS), SPN_EINTR);
    expect_empty(q);
    shut(q);
}

/* Consumers that wait are served first come first, each straight from the hand. */
TEST(queue_transfer__waiting_consumers__served_in_order, "LTQ-12", "LTQ-9")
{
    enum { N = 6 };
    spn_queue *q = open_transfer();
    struct call c[N];
    struct peer p[N];

    for (int i = 0; i < N; i++)
        block_take(&p[i], &c[i], q);
    for (int i = 0; i < N; i++) {
        switch (i % 3) {
        case 0:
            CHECK_OK(spn_queue_put(q, item(i), 0));
            break;
        case 1:
            CHECK_OK(spn_queue_transfer(q, item(i), SPN_FOREVER)); /* need not wait */
            break;
        default:
            CHECK_OK(spn_queue_transfer(q, item(i), 0));
            break;
        }
        CHECK_EQ(spn_queue_size(q), 0);
        CHECK_EQ(spn_queue_waiting_consumers(q), N - 1 - i);
        CHECK_OK(peer_finish(&p[i]));
        CHECK_EQ(index_of(c[i].item), i);
    }
    shut(q);
}

/* try_transfer against consumers that are timing out: delivered once, or SPN_EEMPTY. */
struct contest {
    spn_queue *q;
    int rounds;
    atomic_int got[ITEMS];
    atomic_int stop;
};

static void transfer_or_poll(int index, void *arg)
{
    struct contest *c = arg;
    uint64_t seed = (uint64_t)index + 7;
    void *got;

    if (index < 2) {
        for (int i = 0; i < c->rounds; i++) {
            const int mine = 2 * i + index;
            int rc;

            do
                rc = i % 2 == 0
                         ? spn_queue_transfer(c->q, item(mine), 0)
                         : spn_queue_transfer(c->q, item(mine),
                                              (int64_t)(t_random(&seed) % 20000));
            while (rc == SPN_EFULL || rc == SPN_ETIMEDOUT);
            CHECK_OK(rc);
        }
        atomic_fetch_add(&c->stop, 1);
    } else {
        while (atomic_load(&c->stop) < 2)
            if (spn_queue_take(c->q, &got, (int64_t)(t_random(&seed) % 20000)) ==
                SPN_OK)
                CHECK_EQ(atomic_fetch_add(&c->got[index_of(got)], 1), 0);
    }
}

TEST(queue_transfer__transfers_against_time_outs__each_once, "LTQ-13", "LTQ-6")
{
    static struct contest c;

    memset(&c, 0, sizeof c);
    c.q = open_transfer();
    c.rounds = t_rounds(1000);
    t_parallel(4, transfer_or_poll, &c);
    for (int i = 0; i < 2 * c.rounds; i++)
        CHECK_EQ(atomic_load(&c.got[i]), 1);
    expect_empty(c.q);
    shut(c.q);
}

/* Items that were withdrawn or removed leave no nodes: the memory is bounded. */
TEST(queue_transfer__many_withdrawn__no_nodes_left, "LTQ-14")
{
    spn_queue *q = open_transfer();
    long live;

    add_range(q, 0, 1);
    CHECK_STATUS(spn_queue_transfer(q, item(5), 0), SPN_EFULL);
    live = atomic_load(&counting_live);
    for (int i = 0; i < t_rounds(5000); i++)
        CHECK_STATUS(spn_queue_transfer(q, item(5), 0), SPN_EFULL);
    CHECK_EQ(atomic_load(&counting_live), live);
    add_range(q, 1, 2000);
    for (int i = 1; i < 2000; i++)
        CHECK_OK(spn_queue_remove_item(q, item(i)));
    CHECK(atomic_load(&counting_live) <= live + 65); /* a bounded stock */
    expect_range(q, 0, 1);
    expect_empty(q);
    shut(q);
}

/* close gives the items of blocked transfers back; plain ones can still be taken. */
TEST(queue_transfer__closed__transfers_get_items_back, "LTQ-5", "G-20")
{
    spn_queue *q = open_transfer();
    struct call c[2];
    struct peer p[2];

    add_range(q, 0, 1);
    block_transfer(&p[0], &c[0], q, 7);
    add_range(q, 1, 2);
    block_transfer(&p[1], &c[1], q, 8);
    CHECK_OK(spn_queue_close(q));
    CHECK_STATUS(peer_finish(&p[0]), SPN_ECLOSED);
    CHECK_STATUS(peer_finish(&p[1]), SPN_ECLOSED);
    CHECK_EQ(spn_queue_size(q), 2);
    expect_range(q, 0, 2);
    shut(q);
}

/* No memory: the documented status, and the item is the caller's. */
TEST(queue_transfer__no_memory__nothing_changes, "G-22")
{
    spn_queue *q = open_transfer();

    CHECK(spn_thread_current() != NULL);
    atomic_store(&counting_refuse, 1);
    CHECK_STATUS(spn_queue_transfer(q, item(1), SPN_FOREVER), SPN_ENOMEM);
    CHECK_STATUS(spn_queue_transfer(q, item(1), 1), SPN_ENOMEM);
    CHECK_STATUS(spn_queue_transfer(q, item(1), 0), SPN_EFULL);
    CHECK_STATUS(spn_queue_put(q, item(1), SPN_FOREVER), SPN_ENOMEM);
    atomic_store(&counting_refuse, 0);
    expect_empty(q);
    add_range(q, 0, 3);
    expect_range(q, 0, 3);
    shut(q);
}
