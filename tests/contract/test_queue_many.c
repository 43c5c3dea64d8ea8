/* SPDX-License-Identifier: MIT */
/* test_queue_many.c - several items at once: put_many, take_many, from queue to queue. */
#include "counting.h"
#include "queue_kinds.h"

static void *row[ITEMS]; /* item(0), item(1), ... */

__attribute__((constructor)) static void fill_row(void)
{
    for (int i = 0; i < ITEMS; i++)
        row[i] = item(i);
}

/* ---- put_many, take_many ------------------------------------------------------------- */

/* put_many inserts in order what fits and says how many; the rest is the caller's. */
TEST_EACH(queue__put_many__what_fits_in_order, "Q-5", "Q-10", "G-6")
{
    const int n = room_of(k);

    for (int count = 0; count <= n + 3; count++) {
        spn_queue *q = open_kind(k);
        const bool fits = !is(k, BOUNDED) || count <= n;
        size_t done = 99;

        CHECK_STATUS(spn_queue_put_many(q, row, (size_t)count, 0, &done),
                     fits ? SPN_OK : SPN_EFULL);
        CHECK_EQ(done, fits ? count : n);
        CHECK_EQ(spn_queue_size(q), done);
        CHECK_STATUS(spn_queue_put_many(q, row + n, (size_t)!fits, SPN_US(10), NULL),
                     fits ? SPN_OK : SPN_ETIMEDOUT);
        expect_range(q, 0, (int)done);
        expect_empty(q);
        shut(q);
    }
}

/* take_many takes what is there, at most what there is room for. */
TEST_EACH(queue__take_many__what_is_there, "Q-27")
{
    const int n = room_of(k);

    for (int capacity = 1; capacity <= n + 2; capacity++) {
        spn_queue *q = open_full(k);
        void *got[16];
        size_t count = 99;
        int taken = 0;

        while (taken < n) {
            memset(got, 0x55, sizeof got);
            CHECK_OK(spn_queue_take_many(q, got, (size_t)capacity, 0, &count));
            if (!CHECK(count >= 1 && count <= (size_t)capacity))
                break;
            CHECK(count == (size_t)capacity || taken + (int)count == n);
            for (size_t i = 0; i < count; i++)
                CHECK_EQ(index_of(got[i]), taken++);
        }
        CHECK_STATUS(spn_queue_take_many(q, got, (size_t)capacity, 0, &count),
                     SPN_EEMPTY);
        CHECK_EQ(count, 0);
        shut(q);
    }
}

/* More items than fit, in one call, through a small queue to a slow taker. */
struct stream {
    spn_queue *q;
    int count;
    size_t done;
};

static int put_stream(void *arg)
{
    struct stream *s = arg;
    return spn_queue_put_many(s->q, row, (size_t)s->count, SPN_FOREVER, &s->done);
}

TEST_EACH(queue__put_many_of_more_than_fits__waits_for_room, "Q-8", "Q-10")
{
    for (int batch = 1; batch <= 7; batch += 3) {
        struct stream s = { open_kind(k), 500, 0 };
        struct peer p;
        void *got[7];
        size_t count;
        int taken = 0;

        peer_start(&p, put_stream, &s);
        while (taken < s.count) {
            REQUIRE_OK(
                spn_queue_take_many(s.q, got, (size_t)batch, SPN_FOREVER, &count));
            for (size_t i = 0; i < count; i++)
                CHECK_EQ(index_of(got[i]), taken++);
        }
        CHECK_OK(peer_finish(&p));
        CHECK_EQ(s.done, s.count);
        expect_empty(s.q);
        shut(s.q);
    }
}

/* Interrupted or closed in the middle, put_many says how many went in. */
TEST_EACH(queue__put_many_stopped_in_the_middle__counts, "Q-9", "G-11")
{
    if (!is(k, BOUNDED))
        return;
    for (int how = 0; how < 2; how++) {
        struct stream s = { open_kind(k), 50, 99 };
        const int n = room_of(k);
        struct peer p;

        peer_start(&p, put_stream, &s);
        peer_await_blocked(&p);
        CHECK_EQ(spn_queue_size(s.q), n);
        if (how == 0)
            CHECK_OK(spn_thread_interrupt(p.thread));
        else
            CHECK_OK(spn_queue_close(s.q));
        CHECK_STATUS(peer_finish(&p), how == 0 ? SPN_EINTR : SPN_ECLOSED);
        CHECK_EQ(s.done, n);
        expect_range(s.q, 0, n);
        expect_empty(s.q);
        shut(s.q);
    }
}

/* put_many hands items to takers that wait already. */
TEST_EACH(queue__put_many_to_waiting_takers__each_gets_one, "G-20", "SQ-15")
{
    enum { N = 3 };
    spn_queue *q = open_kind(k);
    struct call c[N];
    struct peer p[N];
    int sum = 0;
    size_t done;

    for (int i = 0; i < N; i++)
        block_take(&p[i], &c[i], q);
    CHECK_OK(spn_queue_put_many(q, row + 1, N, T_LONG_NS, &done));
    CHECK_EQ(done, N);
    for (int i = 0; i < N; i++) {
        CHECK_OK(peer_finish(&p[i]));
        sum += index_of(c[i].item);
    }
    CHECK_EQ(sum, 1 + 2 + 3);
    expect_empty(q);
    shut(q);
}

/* take_many lets several waiting producers in. */
TEST_EACH(queue__take_many_under_waiting_producers__let_in, "Q-28", "G-20")
{
    enum { N = 3 };
    spn_queue *q;
    struct call c[N];
    struct peer p[N];
    void *got[16];
    int taken = 0;

    if (!is(k, BOUNDED))
        return;
    q = open_full(k);
    for (int i = 0; i < N; i++)
        block_put(&p[i], &c[i], q, 100 + i);
    while (taken < room_of(k) + N) {
        size_t count;

        REQUIRE_OK(spn_queue_take_many(q, got, 16, T_LONG_NS, &count));
        taken += (int)count;
    }
    for (int i = 0; i < N; i++)
        CHECK_OK(peer_finish(&p[i]));
    expect_empty(q);
    shut(q);
}

/* Bad arguments, also for a call that would wait for ever. */
TEST_EACH(queue__many_with_bad_arguments__einval, "G-2", "Q-2")
{
    spn_queue *q = open_kind(k);
    void *got[2];
    size_t count = 9;

    CHECK_STATUS(spn_queue_take_many(q, NULL, 1, SPN_FOREVER, &count), SPN_EINVAL);
    CHECK_EQ(count, 0);
    CHECK_STATUS(spn_queue_take_many(q, got, 0, SPN_FOREVER, &count), SPN_EINVAL);
    CHECK_STATUS(spn_queue_take_many(q, got, 2, SPN_FOREVER, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_queue_take_many(NULL, got, 2, SPN_FOREVER, &count), SPN_EINVAL);
    CHECK_STATUS(spn_queue_put_many(NULL, row, 1, SPN_FOREVER, &count), SPN_EINVAL);
    CHECK_STATUS(spn_queue_take_many(q, NULL, 1, 0, &count), SPN_EINVAL);
    CHECK_STATUS(spn_queue_take_many(NULL, got, 1, 0, &count), SPN_EINVAL);
    CHECK_STATUS(spn_queue_take_many(q, got, 0, 0, &count), SPN_EINVAL);
    expect_empty(q);
    shut(q);
}

/* take_many without waiting takes in order, at most what there is room for, and leaves
 * the rest. */
TEST_EACH(queue__take_many_at_once__in_order, "Q-27", "PBQ-5")
{
    const int n = room_of(k);

    for (int capacity = 0; capacity <= n + 1; capacity++) {
        spn_queue *q = open_full(k);
        void *got[16];
        const int wanted = capacity < n ? capacity : n;

        CHECK_EQ(take_some(q, got, (size_t)capacity), wanted);
        for (int i = 0; i < wanted; i++)
            CHECK_EQ(index_of(got[i]), i);
        CHECK_EQ(spn_queue_size(q), n - wanted);
        expect_range(q, wanted, n);
        expect_empty(q);
        shut(q);
    }
}

/* ---- from queue to queue ---------------------------------------------------------------- */

/* From every kind to every kind by a walk: in order; what the sink refuses stays in
 * order. */
TEST_EACH(queue__walked_into_every_kind__none_lost, "Q-27", "Q-34", "LTQ-11", "PBQ-5")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (int s = 0; s < KINDS; s++) {
        for (int64_t max = 1; max <= n + 1; max++) {
            const int room = is(&kinds[s], BOUNDED) ? room_of(&kinds[s]) : INT32_MAX;
            const int wanted = max < n ? (int)max : n;
            const int fit = wanted < room ? wanted : room;
            spn_queue *q = open_full(k), *sink = open_kind(&kinds[s]);
            int64_t moved = -1;
            bool ok;

            ok = CHECK_STATUS(move_to(q, sink, max, &moved),
                              fit < wanted ? SPN_EFULL : SPN_OK);
            ok = CHECK_EQ(moved, fit) && ok;
            ok = CHECK_EQ(spn_queue_size(sink), fit) && ok;
            ok = CHECK_EQ(spn_queue_size(q), n - fit) && ok;
            expect_range(sink, 0, fit);
            expect_range(q, fit, n);
            expect_empty(q);
            expect_empty(sink);
            shut(q);
            shut(sink);
            if (!ok)
                fprintf(stderr, "  from %s to %s, %d\n", k->name, kinds[s].name,
                        (int)max);
        }
    }
}

/* A closed sink takes nothing, and nothing is lost; a closed source is emptied. */
TEST_EACH(queue__walked_into_a_closed_queue__stays, "Q-34")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (int s = 0; s < KINDS; s++) {
        spn_queue *q = open_full(k), *sink = open_kind(&kinds[s]), *open;
        int64_t moved = -1;

        CHECK_OK(spn_queue_close(sink));
        CHECK_STATUS(move_to(q, sink, 100, &moved), SPN_ECLOSED);
        CHECK_EQ(moved, 0);
        CHECK_EQ(spn_queue_size(q), n);
        CHECK_OK(spn_queue_close(q));
        REQUIRE_OK(spn_queue_create(&open, SPN_QUEUE_LINKED, NULL));
        CHECK_OK(move_to(q, open, 100, &moved));
        CHECK_EQ(moved, n);
        expect_range(open, 0, n);
        shut(q);
        shut(sink);
        shut(open);
    }
}

/* A walk that moves a few into a queue with takers gives them the items, and lets
 * waiting producers of its own in. */
TEST_EACH(queue__walked_into_a_waiting_taker__handed_over, "Q-28", "Q-34", "LTQ-11")
{
    if (!is(k, INSIDE | KEEPS))
        return;
    for (int s = 0; s < KINDS; s++) {
        const bool blocks = is(k, BOUNDED);
        spn_queue *q = open_full(k), *sink = open_kind(&kinds[s]);
        struct call put, take;
        struct peer putter, taker;
        int64_t moved = -1;

        if (blocks)
            block_put(&putter, &put, q, 100);
        block_take(&taker, &take, sink);
        CHECK_OK(move_to(q, sink, 1, &moved));
        CHECK_EQ(moved, 1);
        CHECK_OK(peer_finish(&taker));
        CHECK_EQ(index_of(take.item), 0);
        if (blocks)
            CHECK_OK(peer_finish(&putter));
        CHECK_EQ(spn_queue_size(q), blocks ? room_of(k) : room_of(k) - 1);
        expect_empty(sink);
        (void)take_all(q);
        shut(q);
        shut(sink);
    }
}

/* Puts, takes and walks at once: each item comes out once, by one of them. */
enum { OFFERED = 2000 };

struct race {
    spn_queue *q, *sink;
    atomic_int got[OFFERED];
    int offered;
    atomic_int total;
    bool walks;
};

static void count_item(struct race *r, void *p)
{
    CHECK_EQ(atomic_fetch_add(&r->got[index_of(p)], 1), 0);
    atomic_fetch_add(&r->total, 1);
}

static void put_take_walk(int index, void *arg)
{
    struct race *r = arg;
    void *got[8];

    if (index < 2) {
        for (int i = index; i < r->offered; i += 2)
            CHECK_OK(spn_queue_put(r->q, item(i), SPN_FOREVER));
        return;
    }
    while (atomic_load(&r->total) < r->offered) {
        if (index == 2) {
            void *p;

            if (spn_queue_take(r->q, &p, SPN_US(50)) == SPN_OK)
                count_item(r, p);
        } else if (!r->walks) {
            const int64_t n = take_some(r->q, got, 8);

            for (int64_t i = 0; i < n; i++)
                count_item(r, got[i]);
        } else {
            int64_t moved;
            void *p;

            (void)move_to(r->q, r->sink, 5, &moved);
            while ((p = take_now(r->sink)) != NULL)
                count_item(r, p);
        }
    }
}

TEST_EACH(queue__puts_takes_and_walks_at_once__each_item_once, "Q-35", "G-15")
{
    for (int walks = 0; walks <= is(k, INSIDE | KEEPS); walks++) {
        static struct race r;

        memset(&r, 0, sizeof r);
        r.q = open_kind(k);
        REQUIRE_OK(spn_queue_create(&r.sink, SPN_QUEUE_LINKED, NULL));
        r.offered = t_rounds(OFFERED);
        r.walks = walks;
        t_parallel(4, put_take_walk, &r);
        for (int i = 0; i < r.offered; i++)
            CHECK_EQ(atomic_load(&r.got[i]), 1);
        expect_empty(r.q);
        expect_empty(r.sink);
        shut(r.q);
        shut(r.sink);
    }
}
