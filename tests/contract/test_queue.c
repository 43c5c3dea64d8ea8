/* SPDX-License-Identifier: MIT */
/* test_queue.c - what every kind of queue does, one test per property and kind. */
#include "counting.h"
#include "queue_kinds.h"

/* ---- create -------------------------------------------------------------------- */

/* A new queue is empty and has the capacity it was given. */
TEST_EACH(queue__new__empty, "LBQ-1", "G-25", "Q-7")
{
    spn_queue *q = open_kind(k);
    const int32_t capacity = !is(k, KEEPS)    ? 0
                             : is(k, BOUNDED) ? k->capacity
                                              : INT32_MAX;

    expect_empty(q);
    CHECK_EQ(spn_queue_capacity(q), capacity);
    CHECK_EQ(room_left(q), capacity);
    CHECK_EQ(spn_queue_waiting_consumers(q), 0);
    shut(q);
}

/* A capacity below one is refused whatever the kind, and nothing is made. */
TEST_EACH(queue__capacity_below_one__einval, "LBQ-1", "ABQ-1", "PBQ-1", "LBD-1", "G-3")
{
    static const int32_t bad[] = { 0, -1, -5, INT32_MIN + 1 };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        spn_queue_opts opts = opts_of(k);
        spn_queue *q = (spn_queue *)(void *)numbers;

        opts.capacity = bad[i];
        CHECK_STATUS(spn_queue_create(&q, k->kind, &opts), SPN_EINVAL);
        CHECK(q == NULL);
    }
}

/* Options of another kind are refused, not ignored. */
TEST_EACH(queue__options_of_another_kind__einval, "G-3", "PBQ-3")
{
    spn_queue_opts opts;
    spn_queue *q;

    opts = opts_of(k);
    opts.fair = 2;
    CHECK_STATUS(spn_queue_create(&q, k->kind, &opts), SPN_EINVAL);
    opts.fair = 1;
    if (k->kind != SPN_QUEUE_ARRAY && k->kind != SPN_QUEUE_SYNCHRONOUS)
        CHECK_STATUS(spn_queue_create(&q, k->kind, &opts), SPN_EINVAL);
    opts = opts_of(k);
    if (k->kind != SPN_QUEUE_PRIORITY)
        opts.compare = by_index;
    else
        opts.compare = NULL;
    CHECK_STATUS(spn_queue_create(&q, k->kind, &opts), SPN_EINVAL);
    opts = opts_of(k);
    if (k->kind != SPN_QUEUE_DELAY)
        opts.due = due_long_ago;
    else
        opts.due = NULL;
    CHECK_STATUS(spn_queue_create(&q, k->kind, &opts), SPN_EINVAL);
    opts = opts_of(k);
    if (k->kind != SPN_QUEUE_DELAY) {
        opts.clock = spn_clock_monotonic();
        CHECK_STATUS(spn_queue_create(&q, k->kind, &opts), SPN_EINVAL);
    }
    CHECK_STATUS(spn_queue_create(&q, (spn_queue_kind)0, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_queue_create(&q, (spn_queue_kind)9, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_queue_create(&q, (spn_queue_kind)-1, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_queue_create(NULL, k->kind, NULL), SPN_EINVAL);
}

/* Without options there are queues where nothing is required. */
TEST(queue__no_options__where_nothing_is_required, "LBQ-1", "LBD-1", "G-25")
{
    static const struct {
        spn_queue_kind kind;
        int status;
    } rows[] = {
        { SPN_QUEUE_LINKED, SPN_OK },    { SPN_QUEUE_ARRAY, SPN_EINVAL },
        { SPN_QUEUE_RING, SPN_EINVAL },  { SPN_QUEUE_PRIORITY, SPN_EINVAL },
        { SPN_QUEUE_DELAY, SPN_EINVAL }, { SPN_QUEUE_SYNCHRONOUS, SPN_OK },
        { SPN_QUEUE_TRANSFER, SPN_OK },  { SPN_QUEUE_DEQUE, SPN_OK },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        spn_queue *q = NULL;

        CHECK_STATUS(spn_queue_create(&q, rows[i].kind, NULL), rows[i].status);
        CHECK_EQ(q != NULL, rows[i].status == SPN_OK);
        shut(q);
    }
}

/* ---- NULL ----------------------------------------------------------------------- */

/* NULL is refused at once by every insert, on a full queue too, and for however
 * long the call would have waited. */
TEST_EACH(queue__insert_null__einval, "Q-1", "Q-2", "Q-3", "G-2", "G-4", "LBD-11",
          "LTQ-7")
{
    spn_queue *q = open_full(k);
    void *const with_null[] = { item(1), NULL, item(2) };
    void *one_null[] = { NULL };
    size_t done = 9;

    CHECK_STATUS(spn_queue_put(q, NULL, 0), SPN_EINVAL);
    CHECK_STATUS(spn_queue_put(q, NULL, SPN_FOREVER), SPN_EINVAL);
    CHECK_STATUS(spn_queue_put_many(q, one_null, 1, SPN_FOREVER, &done), SPN_EINVAL);
    CHECK_EQ(done, 0);
    done = 9;
    CHECK_STATUS(spn_queue_put_many(q, NULL, 1, SPN_FOREVER, &done), SPN_EINVAL);
    CHECK_EQ(done, 0);
    done = 9;
    CHECK_STATUS(spn_queue_put_many(q, with_null, 3, 0, &done), SPN_EINVAL);
    CHECK_EQ(done, 0);
    CHECK_STATUS(spn_queue_put_many(q, NULL, 0, 0, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_queue_put_first(q, NULL, 0), SPN_EINVAL);
    CHECK_STATUS(spn_queue_put_first(q, NULL, SPN_FOREVER), SPN_EINVAL);
    CHECK_STATUS(spn_queue_transfer(q, NULL, 0), SPN_EINVAL);
    CHECK_STATUS(spn_queue_transfer(q, NULL, SPN_FOREVER), SPN_EINVAL);
    CHECK_EQ(spn_queue_size(q), room_of(k));
    expect_range(q, 0, room_of(k));
    expect_empty(q);
    shut(q);
}

/* ---- one item -------------------------------------------------------------------- */

/* A queue takes items until it is full and gives them out in order. */
TEST_EACH(queue__filled_and_emptied__in_order, "Q-5", "Q-6", "Q-7", "Q-11", "Q-12",
          "LBQ-3", "ABQ-8", "LBQ-2", "PBQ-12", "LBD-12", "LTQ-1", "DQ-1", "PBQ-1")
{
    spn_queue *q = open_kind(k);
    const int n = room_of(k);
    const int32_t capacity = spn_queue_capacity(q);
    static const int64_t in[] = { 0, SPN_FOREVER, 1, INT64_MIN };

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++) {
            CHECK_EQ(spn_queue_size(q), i);
            CHECK_EQ(room_left(q), capacity == INT32_MAX ? INT32_MAX : capacity - i);
            CHECK_OK(spn_queue_put(q, item(i), in[i % 4]));
        }
        if (is(k, BOUNDED)) {
            CHECK_EQ(room_left(q), 0);
            CHECK_STATUS(spn_queue_put(q, item(n), 0), SPN_EFULL);
            CHECK_STATUS(spn_queue_put(q, item(n), -1), SPN_EFULL);
            CHECK_STATUS(spn_queue_put(q, item(n), INT64_MIN), SPN_EFULL);
            CHECK_STATUS(spn_queue_put(q, item(n), 1), SPN_ETIMEDOUT);
        }
        CHECK_EQ(spn_queue_size(q), n);
        for (int i = 0; i < n; i++) {
            void *got = NULL;

            CHECK_EQ(index_of(first_of(q)), i);
            CHECK_OK(spn_queue_take(q, &got, in[i % 4]));
            CHECK_EQ(index_of(got), i);
        }
        expect_empty(q);
    }
    shut(q);
}

/* Removals from an empty queue say so, and store NULL. */
TEST_EACH(queue__empty__says_so, "Q-12", "Q-13", "Q-15", "G-6", "LBD-3", "SQ-3")
{
    static const int64_t none[] = { 0, -1, INT64_MIN, 1 };
    spn_queue *q = open_kind(k);
    void *got = item(1);

    CHECK_STATUS(spn_queue_peek(q, &got), SPN_EEMPTY);
    CHECK(got == NULL);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        const int expected = none[i] > 0 ? SPN_ETIMEDOUT : SPN_EEMPTY;
        void *two[2] = { item(1), item(1) };
        size_t count = 9;

        got = item(1);
        CHECK_STATUS(spn_queue_take(q, &got, none[i]), expected);
        CHECK(got == NULL);
        CHECK_STATUS(spn_queue_take_many(q, two, 2, none[i], &count), expected);
        CHECK_EQ(count, 0);
        if (is(k, TRAIT_DEQUE)) {
            got = item(1);
            CHECK_STATUS(spn_queue_take_last(q, &got, none[i]), expected);
            CHECK(got == NULL);
        }
    }
    shut(q);
}

static int visit_none(void *p, void *ctx)
{
    (void)p;
    *(int *)ctx += 1;
    return SPN_QUEUE_TAKE;
}

/* Calls of the other end and of transfer queues are refused elsewhere, and a call
 * that would block for ever does not. */
TEST_EACH(queue__calls_of_another_kind__enotsup, "G-1")
{
    spn_queue *q = open_full(k);
    void *got = item(1);
    int shown = 0;

    if (!is(k, TRAIT_DEQUE)) {
        CHECK_STATUS(spn_queue_put_first(q, item(9), 0), SPN_ENOTSUP);
        CHECK_STATUS(spn_queue_put_first(q, item(9), SPN_FOREVER), SPN_ENOTSUP);
        CHECK_STATUS(spn_queue_take_last(q, &got, 0), SPN_ENOTSUP);
        CHECK(got == NULL);
        got = item(1);
        CHECK_STATUS(spn_queue_take_last(q, &got, SPN_FOREVER), SPN_ENOTSUP);
        CHECK(got == NULL);
        got = item(1);
        CHECK_STATUS(spn_queue_peek_last(q, &got), SPN_ENOTSUP);
        CHECK(got == NULL);
        CHECK_STATUS(spn_queue_walk_last(q, visit_none, &shown), SPN_ENOTSUP);
    }
    if (!is(k, TRAIT_TRANSFER)) {
        CHECK_STATUS(spn_queue_transfer(q, item(9), 0), SPN_ENOTSUP);
        CHECK_STATUS(spn_queue_transfer(q, item(9), SPN_FOREVER), SPN_ENOTSUP);
    }
    if (!is(k, INSIDE)) {
        CHECK_STATUS(spn_queue_contains(q, item(0)), SPN_ENOTSUP);
        CHECK_STATUS(spn_queue_remove_item(q, item(0)), SPN_ENOTSUP);
        CHECK_STATUS(spn_queue_walk(q, visit_none, &shown), SPN_ENOTSUP);
    }
    CHECK_EQ(shown, 0);
    CHECK_EQ(spn_queue_size(q), room_of(k));
    expect_range(q, 0, room_of(k));
    shut(q);
}

/* ---- several items without waiting -------------------------------------------------------- */

/* put_many keeps the order, fills what there is and says how much. */
TEST_EACH(queue__put_many_at_once__what_fits, "Q-4", "Q-5", "ABQ-4", "Q-30", "ABQ-3",
          "DQ-12", "LTQ-16", "SQ-2")
{
    const int n = room_of(k);
    void *some[16];
    size_t done;

    for (int i = 0; i < 16; i++)
        some[i] = item(i);
    for (int before = 0; before <= n; before++) { /* how many are in it already */
        for (int extra = -1; extra <= 2; extra++) {
            spn_queue *q = open_kind(k);
            const int count = n - before + extra;
            const bool fits = !is(k, BOUNDED) || extra <= 0;

            if (count < 0) {
                shut(q);
                continue;
            }
            add_range(q, 0, before);
            done = 99;
            CHECK_STATUS(spn_queue_put_many(q, some + before, (size_t)count, 0, &done),
                         fits ? SPN_OK : SPN_EFULL);
            CHECK_EQ(done, fits ? count : n - before);
            CHECK_EQ(spn_queue_size(q), fits ? before + count : n);
            expect_range(q, 0, before + (int)done);
            expect_empty(q);
            shut(q);
        }
    }
}

/* ---- looking inside ----------------------------------------------------------------- */

/* An item is in the queue from its insert to its removal, and NULL never is. */
TEST_EACH(queue__contains__between_insert_and_removal, "Q-16", "LTQ-16", "DQ-4", "SQ-1")
{
    spn_queue *q = open_kind(k);
    const int n = room_of(k);

    if (!is(k, INSIDE)) {
        shut(q);
        return;
    }
    for (int i = 0; i < n; i++) {
        CHECK_STATUS(spn_queue_contains(q, item(i)), SPN_EEMPTY);
        CHECK_OK(spn_queue_put(q, item(i), 0));
        for (int j = 0; j < n + 2; j++)
            CHECK_EQ(spn_queue_contains(q, item(j)) == SPN_OK, j <= i);
        CHECK_STATUS(spn_queue_contains(q, NULL), SPN_EEMPTY);
        CHECK_STATUS(spn_queue_remove_item(q, NULL), SPN_EEMPTY);
    }
    for (int i = 0; i < n; i++) {
        CHECK_EQ(index_of(take_now(q)), i);
        for (int j = 0; j < n; j++)
            CHECK_EQ(spn_queue_contains(q, item(j)) == SPN_OK, j > i);
    }
    shut(q);
}

/* remove_item takes out one from any place; the order of the rest stays, and there
 * is room again. */
TEST_EACH(queue__remove_item__order_of_the_rest_stays, "Q-17", "ABQ-2", "PBQ-6", "DQ-9")
{
    const int n = room_of(k);

    if (!is(k, INSIDE))
        return;
    for (int out = 0; out < n; out++) {
        spn_queue *q = open_full(k);

        CHECK_OK(spn_queue_remove_item(q, item(out)));
        CHECK_STATUS(spn_queue_remove_item(q, item(out)), SPN_EEMPTY);
        CHECK_STATUS(spn_queue_contains(q, item(out)), SPN_EEMPTY);
        CHECK_EQ(spn_queue_size(q), n - 1);
        CHECK_OK(spn_queue_put(q, item(n), 0));
        for (int i = 0; i <= n; i++)
            if (i != out)
                CHECK_EQ(index_of(take_now(q)), i);
        expect_empty(q);
        shut(q);
    }
}

/* Of several equal items one goes at a time. */
TEST_EACH(queue__remove_item_there_twice__one_goes, "Q-17", "G-15")
{
    spn_queue *q = open_kind(k);

    if (is(k, INSIDE | KEEPS) && (!is(k, BOUNDED) || k->capacity >= 3)) {
        CHECK_OK(spn_queue_put(q, item(1), 0));
        CHECK_OK(spn_queue_put(q, item(1), 0));
        CHECK_OK(spn_queue_put(q, item(1), 0));
        for (int left = 2; left >= 0; left--) {
            CHECK_OK(spn_queue_contains(q, item(1)));
            CHECK_OK(spn_queue_remove_item(q, item(1)));
            CHECK_EQ(spn_queue_size(q), left);
        }
        CHECK_STATUS(spn_queue_contains(q, item(1)), SPN_EEMPTY);
        CHECK_STATUS(spn_queue_remove_item(q, item(1)), SPN_EEMPTY);
    }
    shut(q);
}

/* Whatever takes out the last item, the queue is empty then, and works. */
TEST_EACH(queue__last_item_removed__empty_and_usable, "Q-18")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (int how = 0; how < 7; how++) {
        spn_queue *q = open_kind(k);
        void *got;
        void *one[1] = { item(3) };

        CHECK_OK(spn_queue_put(q, item(3), 0));
        switch (how) {
        case 0:
            CHECK_OK(spn_queue_remove_item(q, item(3)));
            break;
        case 1:
            CHECK(remove_at(q, 0));
            break;
        case 2:
            CHECK_OK(spn_queue_take(q, &got, SPN_FOREVER));
            break;
        case 3:
            CHECK_EQ(index_of(take_now(q)), 3);
            break;
        case 4:
            CHECK_EQ(remove_all(q, one, 1), 1);
            break;
        case 5:
            CHECK_EQ(retain_all(q, one, 0), 1);
            break;
        default:
            CHECK_EQ(take_all(q), 1);
            break;
        }
        CHECK_STATUS(spn_queue_contains(q, item(3)), SPN_EEMPTY);
        expect_empty(q);
        add_range(q, 0, n);
        CHECK_EQ(spn_queue_size(q), n);
        expect_range(q, 0, n);
        expect_empty(q);
        shut(q);
    }
}

/* What a search and a walk make of several items: all of them there, all of them out, all
 * others out. */
TEST_EACH(queue__walk_over_named_items__changed_or_not, "Q-20", "DQ-18", "SQ-8", "DQ-9")
{
    const int n = room_of(k);
    void *all[16], *none[2] = { item(100), item(101) };

    if (!is(k, INSIDE))
        return;
    for (int i = 0; i < 16; i++)
        all[i] = item(i);
    for (int p = 0; p <= n; p++) { /* the first p items are named */
        spn_queue *q = open_full(k);

        CHECK_EQ(contains_all(q, all, (size_t)p), 1);
        CHECK_EQ(contains_all(q, all, (size_t)n + 1), 0);
        CHECK_EQ(contains_all(q, none, 1), 0);
        CHECK_EQ(remove_all(q, none, 2), 0);
        CHECK_EQ(remove_all(q, all, 0), 0);
        CHECK_EQ(retain_all(q, all, 16), 0);
        CHECK_EQ(retain_all(q, all, (size_t)p), p < n);
        CHECK_EQ(retain_all(q, all, (size_t)p), 0);
        CHECK_EQ(spn_queue_size(q), p);
        expect_range(q, 0, p);
        shut(q);

        q = open_full(k);
        CHECK_EQ(remove_all(q, all, (size_t)p), p > 0);
        CHECK_EQ(remove_all(q, all, (size_t)p), 0);
        CHECK_EQ(spn_queue_size(q), n - p);
        expect_range(q, p, n);
        if (n > 0)
            CHECK_OK(spn_queue_put(q, item(0), 0));
        CHECK_EQ(take_all(q), n > 0);
        shut(q);
    }
}

/* A visitor that takes all empties the queue, and the room is back. */
TEST_EACH(queue__all_taken__empty, "Q-19", "DQ-9", "SQ-8")
{
    spn_queue *q = open_full(k);

    CHECK_EQ(take_all(q), room_of(k));
    CHECK_EQ(take_all(q), 0);
    expect_empty(q);
    CHECK_EQ(room_left(q), spn_queue_capacity(q));
    add_range(q, 0, room_of(k));
    expect_range(q, 0, room_of(k));
    shut(q);
}

/* ---- equality, drop ------------------------------------------------------------------ */

struct callbacks {
    int dropped[300];
    int drops;
    spn_queue *q;
};

static void count_drop(void *p, void *ctx)
{
    struct callbacks *c = ctx;

    c->dropped[index_of(p)]++;
    c->drops++;
    (void)spn_queue_contains(c->q, p); /* no lock is held */
}

/* Items with the same rest are the same; NULL is never asked about. */
static int same_mod_ten(const void *a, const void *b, void *ctx)
{
    (void)ctx;
    if (!CHECK(a != NULL && b != NULL))
        return 0;
    return index_of(a) % 10 == index_of(b) % 10;
}

/* An equality function decides what contains and the removals look for; without
 * one only the same pointer will do. */
TEST_EACH(queue__equality_function__used, "G-18", "G-15")
{
    spn_queue_opts opts = opts_of(k);
    spn_queue *q;
    int n = room_of(k);

    opts.equal = same_mod_ten;
    if (!is(k, INSIDE)) {
        CHECK_STATUS(spn_queue_create(&q, k->kind, &opts), SPN_EINVAL);
        return;
    }
    if (!is(k, KEEPS) || n < 2)
        return;
    n = n < 5 ? n : 5;
    REQUIRE_OK(spn_queue_create(&q, k->kind, &opts));
    add_range(q, 0, n);
    CHECK_OK(spn_queue_contains(q, item(41)));
    CHECK_STATUS(spn_queue_contains(q, item(49)), SPN_EEMPTY);
    CHECK_STATUS(spn_queue_contains(q, NULL), SPN_EEMPTY);
    CHECK_OK(spn_queue_remove_item(q, item(51))); /* takes out item(1) */
    CHECK_STATUS(spn_queue_contains(q, item(1)), SPN_EEMPTY);
    CHECK_OK(spn_queue_remove_item(q, item(30))); /* and item(0) */
    CHECK_STATUS(spn_queue_remove_item(q, item(30)), SPN_EEMPTY);
    CHECK_EQ(take_all(q), n - 2);
    shut(q);
}

/* destroy drops what is left, each item once and with no lock held, and not what was
 * taken; also when the queue was not closed. */
TEST_EACH(queue__destroyed_with_items__dropped, "Q-37", "G-15", "G-17", "G-23")
{
    const int n = !is(k, KEEPS) ? 0 : is(k, BOUNDED) ? k->capacity : 200;
    struct callbacks c = { .drops = 0 };
    spn_queue_opts opts = opts_of(k);

    opts.drop = count_drop;
    opts.ctx = &c;
    for (int taken = 0; taken < 2; taken++) {
        c.drops = 0;
        memset(c.dropped, 0, sizeof c.dropped);
        REQUIRE_OK(spn_queue_create(&c.q, k->kind, &opts));
        add_range(c.q, 0, n);
        if (n > 0 && taken == 1)
            CHECK_EQ(index_of(take_now(c.q)), 0);
        CHECK_OK(spn_queue_destroy(c.q));
        for (int i = 0; i < n; i++) /* more than one batch of the unbounded ones */
            CHECK_EQ(c.dropped[i], i >= taken);
        CHECK_EQ(c.drops, n > 0 ? n - taken : 0);
    }
    CHECK_OK(spn_queue_destroy(NULL));
}

/* ---- close ----------------------------------------------------------------------------- */

/* A closed queue takes nothing in and gives out what it has; then it says so, also to
 * those who do not wait. */
TEST_EACH(queue__closed__gives_out_what_it_has, "G-20")
{
    static const int64_t times[] = { 0, -1, 1, SPN_FOREVER };
    spn_queue *q = open_full(k);
    void *some[2] = { item(8), item(9) }, *got;
    size_t done = 9;
    const int n = room_of(k);

    CHECK_OK(spn_queue_close(q));
    CHECK_OK(spn_queue_close(q));
    CHECK_STATUS(spn_queue_put(q, item(8), 0), SPN_ECLOSED);
    CHECK_STATUS(spn_queue_put(q, item(8), SPN_FOREVER), SPN_ECLOSED);
    CHECK_STATUS(spn_queue_put_many(q, some, 2, SPN_FOREVER, &done), SPN_ECLOSED);
    CHECK_EQ(done, 0);
    done = 9;
    CHECK_STATUS(spn_queue_put_many(q, some, 2, 0, &done), SPN_ECLOSED);
    CHECK_EQ(done, 0);
    if (is(k, TRAIT_DEQUE)) {
        CHECK_STATUS(spn_queue_put_first(q, item(8), 0), SPN_ECLOSED);
        CHECK_STATUS(spn_queue_put_first(q, item(8), SPN_FOREVER), SPN_ECLOSED);
    }
    if (is(k, TRAIT_TRANSFER)) {
        CHECK_STATUS(spn_queue_transfer(q, item(8), 0), SPN_ECLOSED);
        CHECK_STATUS(spn_queue_transfer(q, item(8), SPN_MS(1)), SPN_ECLOSED);
        CHECK_STATUS(spn_queue_transfer(q, item(8), SPN_FOREVER), SPN_ECLOSED);
    }
    CHECK_EQ(spn_queue_size(q), n);
    for (int i = 0; i < n; i++) {
        CHECK_OK(spn_queue_take(q, &got, i % 2 == 0 ? SPN_FOREVER : 0));
        CHECK_EQ(index_of(got), i);
    }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        got = item(1);
        CHECK_STATUS(spn_queue_take(q, &got, times[i]), SPN_ECLOSED);
        CHECK(got == NULL);
        done = 9;
        CHECK_STATUS(spn_queue_take_many(q, some, 2, times[i], &done), SPN_ECLOSED);
        CHECK_EQ(done, 0);
        if (is(k, TRAIT_DEQUE))
            CHECK_STATUS(spn_queue_take_last(q, &got, times[i]), SPN_ECLOSED);
    }
    CHECK_STATUS(spn_queue_peek(q, &got), SPN_EEMPTY);
    expect_empty(q);
    shut(q);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* A queue that goes up and down does not grow, and destroy frees it all. */
TEST_EACH(queue__used_for_long__memory_does_not_grow, "Q-18", "SQ-14", "LTQ-14")
{
    const int n = !is(k, KEEPS) ? 0 : is(k, BOUNDED) ? k->capacity : 1000;
    const long before = atomic_load(&counting_live);
    spn_queue *q = open_kind(k);
    long after_first = 0;

    for (int round = 0; round < 5; round++) {
        add_range(q, 0, n);
        if (is(k, INSIDE))
            for (int i = 1; i < n; i += 97)
                CHECK_OK(spn_queue_remove_item(q, item(i)));
        while (take_now(q) != NULL) {
        }
        if (round == 0)
            after_first = atomic_load(&counting_live);
        CHECK(atomic_load(&counting_live) <= after_first);
    }
    /* Steady use allocates nothing. */
    if (n > 0) {
        const long allocs = atomic_load(&counting_allocs);

        for (int i = 0; i < 10000; i++) {
            CHECK_OK(spn_queue_put(q, item(1), SPN_FOREVER));
            CHECK(take_now(q) == item(1));
        }
        CHECK(atomic_load(&counting_allocs) - allocs <= 2);
    }
    shut(q);
    CHECK_EQ(atomic_load(&counting_live), before);
}
