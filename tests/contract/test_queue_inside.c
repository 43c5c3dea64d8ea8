/* SPDX-License-Identifier: MIT */
/*
 * test_queue_inside.c - looking inside: to_array, iteration, removal from inside, and
 * long random sequences of everything compared with a plain list.
 */
#include "counting.h"
#include "queue_kinds.h"

/* ---- to_array ------------------------------------------------------------------------- */

/* to_array stores what fits, a NULL behind the last if there is room, and leaves the
 * rest of the buffer alone; it says how many there are. */
TEST_EACH(queue__to_array__buffers_of_every_size, "Q-21", "SQ-1")
{
    spn_queue *q;
    const int n = room_of(k);

    if (!is(k, INSIDE))
        return;
    q = open_full(k);
    for (int capacity = 0; capacity <= n + 3; capacity++) {
        void *got[16];
        int sum = 0;

        for (int i = 0; i < 16; i++)
            got[i] = item(999);
        CHECK_EQ(spn_queue_to_array(q, got, (size_t)capacity), n);
        for (int i = 0; i < 16; i++) {
            if (i < capacity && i < n) {
                if (is(k, FIFO))
                    CHECK_EQ(index_of(got[i]), i);
                CHECK(index_of(got[i]) >= 0 && index_of(got[i]) < n);
                sum += index_of(got[i]);
            } else if (i == n && i < capacity) {
                CHECK(got[i] == NULL);
            } else {
                CHECK(got[i] == item(999));
            }
        }
        if (capacity >= n)
            CHECK_EQ(sum, n * (n - 1) / 2);
    }
    CHECK_EQ(spn_queue_to_array(q, NULL, 0), n);
    CHECK_STATUS((int)spn_queue_to_array(q, NULL, 1), SPN_EINVAL);
    CHECK_EQ(spn_queue_size(q), n);
    expect_range(q, 0, n);
    shut(q);
}

/* The same after every number of items has gone through: at every offset of a queue
 * that wraps, with every number of items, with and without one taken out. */
TEST_EACH(queue__to_array_at_every_offset__queue_order, "ABQ-2", "Q-21", "Q-22")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (int offset = 0; offset < 2 * n + 140; offset++) {
        for (int count = 0; count <= n; count++) {
            spn_queue *q = open_kind(k);
            void *got[16];
            const int out = count > 0 ? offset % count : -1;

            for (int i = 0; i < offset; i++) {
                CHECK_OK(spn_queue_add(q, item(500)));
                CHECK(spn_queue_poll(q) == item(500));
            }
            add_range(q, 0, count);
            CHECK_EQ(spn_queue_to_array(q, got, 16), count);
            if (is(k, FIFO))
                for (int i = 0; i < count; i++)
                    CHECK_EQ(index_of(got[i]), i);
            if (out >= 0) {
                CHECK_EQ(spn_queue_remove_item(q, item(out)), 1);
                CHECK_EQ(spn_queue_to_array(q, got, 16), count - 1);
                if (is(k, FIFO))
                    for (int i = 0; i < count - 1; i++)
                        CHECK_EQ(index_of(got[i]), i < out ? i : i + 1);
                CHECK_OK(spn_queue_add(q, item(count)));
            }
            for (int i = 0; i <= count; i++)
                if (i != out && !(out < 0 && i == count))
                    CHECK_EQ(index_of(spn_queue_poll(q)), i);
            expect_empty(q);
            shut(q);
        }
    }
}

/* ---- iteration -------------------------------------------------------------------------- */

/* An iterator shows each item once, in queue order where there is one; at the end it
 * says so again and again. */
TEST_EACH(queue__iteration__each_once, "Q-22", "Q-23", "G-26", "PBQ-5", "DQ-4", "SQ-1",
          "SQ-16")
{
    spn_queue *q;
    const int n = room_of(k);

    if (!is(k, INSIDE))
        return;
    q = open_full(k);
    for (int round = 0; round < 2; round++) { /* full, then empty */
        const int there = round == 0 ? n : 0;
        spn_queue_iter *iter;
        bool seen[16] = { false };
        void *got = item(9);

        REQUIRE_OK(spn_queue_iter_begin(&iter, q));
        CHECK_STATUS(spn_queue_iter_remove(iter), SPN_ESTATE);
        for (int i = 0; i < there; i++) {
            CHECK_OK(spn_queue_iter_next(iter, &got));
            if (is(k, FIFO))
                CHECK_EQ(index_of(got), i);
            CHECK(!seen[index_of(got)]);
            seen[index_of(got)] = true;
        }
        for (int i = 0; i < 3; i++) {
            got = item(9);
            CHECK_STATUS(spn_queue_iter_next(iter, &got), SPN_EEMPTY);
            CHECK(got == NULL);
        }
        CHECK_STATUS(spn_queue_iter_next(iter, NULL), SPN_EINVAL);
        spn_queue_iter_end(iter);
        CHECK_EQ(spn_queue_size(q), there);
        (void)spn_queue_clear(q);
    }
    CHECK_STATUS(spn_queue_iter_next(NULL, &(void *){ NULL }), SPN_EINVAL);
    CHECK_STATUS(spn_queue_iter_remove(NULL), SPN_EINVAL);
    spn_queue_iter_end(NULL);
    shut(q);
}

/* The iterator's remove takes out the item shown last, once. */
TEST_EACH(queue__iterator_remove__the_one_shown_last, "Q-22", "PBQ-10", "ABQ-2")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (unsigned mask = 0; mask < (1U << n); mask++) { /* which to take out */
        spn_queue *q = open_full(k);
        spn_queue_iter *iter;

        REQUIRE_OK(spn_queue_iter_begin(&iter, q));
        for (int i = 0; i < n; i++) {
            void *got;

            CHECK_OK(spn_queue_iter_next(iter, &got));
            if ((mask >> index_of(got) & 1) != 0) {
                CHECK_OK(spn_queue_iter_remove(iter));
                CHECK_EQ(spn_queue_contains(q, got), 0);
                CHECK_STATUS(spn_queue_iter_remove(iter), SPN_ESTATE);
            }
        }
        spn_queue_iter_end(iter);
        for (int i = 0; i < n; i++)
            if ((mask >> i & 1) == 0)
                CHECK_EQ(index_of(spn_queue_poll(q)), i);
        expect_empty(q);
        shut(q);
    }
}

/* The same pointer several times: the very occurrence goes. */
TEST_EACH(queue__iterator_remove_of_equal_pointers__exact_one, "Q-22", "PBQ-10", "G-26")
{
    if (!is(k, INSIDE | KEEPS | FIFO) || (is(k, BOUNDED) && k->capacity < 5))
        return;
    for (int which = 0; which < 3; which++) {
        static const int pattern[5] = { 7, 0, 7, 1, 7 };
        spn_queue *q = open_kind(k);
        spn_queue_iter *iter;
        void *got, *all[8];
        int at = 0;

        for (int i = 0; i < 5; i++)
            CHECK_OK(spn_queue_add(q, item(pattern[i])));
        REQUIRE_OK(spn_queue_iter_begin(&iter, q));
        for (int i = 0; i <= 2 * which; i++)
            CHECK_OK(spn_queue_iter_next(iter, &got));
        CHECK_OK(spn_queue_iter_remove(iter));
        CHECK_EQ(spn_queue_to_array(q, all, 8), 4);
        for (int i = 0; i < 5; i++)
            if (i != 2 * which)
                CHECK_EQ(index_of(all[at++]), pattern[i]);
        spn_queue_iter_end(iter);
        shut(q);
    }
}

/* An item that was taken and put in again is another one: an old iterator does not
 * take it out, also after the queue has gone round. */
TEST_EACH(queue__iterator_overtaken__takes_out_nothing_else, "ABQ-6", "G-26")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (int turns = 1; turns <= 3 * n; turns++) {
        spn_queue *q = open_full(k);
        spn_queue_iter *iter;
        bool seen[16] = { false };
        void *got;

        REQUIRE_OK(spn_queue_iter_begin(&iter, q));
        CHECK_OK(spn_queue_iter_next(iter, &got));
        seen[index_of(got)] = true;
        for (int i = 0; i < turns; i++) { /* the same pointers go round */
            void *p = spn_queue_poll(q);
            CHECK_OK(spn_queue_add(q, p));
        }
        if (turns >= n || is(k, FIFO)) {
            /* The first was taken and came back. */
            CHECK_STATUS(spn_queue_iter_remove(iter), SPN_EEMPTY);
            CHECK_EQ(spn_queue_size(q), n);
        }
        while (spn_queue_iter_next(iter, &got) == SPN_OK) {
            CHECK(!seen[index_of(got)]);
            seen[index_of(got)] = true;
        }
        spn_queue_iter_end(iter);
        shut(q);
    }
}

/* The item an iterator showed was taken out by somebody else, and the queue has filled
 * up again since: the iterator's remove finds it gone, and no other goes in its place. */
TEST_EACH(queue__iterators_item_gone_and_refilled__nothing_else_goes, "Q-22", "ABQ-6",
          "G-26")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (int shown = 0; shown < n; shown++)
        for (int gone = 1; gone <= n; gone++) { /* this one and those behind it */
            spn_queue *q = open_full(k);
            spn_queue_iter *iter;
            bool out[16] = { false };
            void *got = NULL;

            REQUIRE_OK(spn_queue_iter_begin(&iter, q));
            for (int i = 0; i <= shown; i++)
                CHECK_OK(spn_queue_iter_next(iter, &got));
            for (int i = 0; i < gone; i++) {
                const int index = (index_of(got) + i) % n;

                CHECK_EQ(spn_queue_remove_item(q, item(index)), 1);
                out[index] = true;
            }
            add_range(q, n, n + gone); /* full again */
            CHECK_STATUS(spn_queue_iter_remove(iter), SPN_EEMPTY);
            CHECK_EQ(spn_queue_size(q), n);
            spn_queue_iter_end(iter);
            for (int i = 0; i < n + gone; i++)
                if (i >= n || !out[i])
                    CHECK_EQ(index_of(spn_queue_poll(q)), i);
            expect_empty(q);
            shut(q);
        }
}

/* An item the iterator showed is still there, but others before it have gone and new
 * ones come: it is the one that goes, also among equal pointers. */
TEST_EACH(queue__iterators_item_among_changes__goes, "Q-22", "ABQ-6", "G-26")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS | FIFO))
        return;
    for (int equal = 0; equal < 2; equal++)
        for (int shown = 1; shown < n; shown++)
            for (int gone = 1; gone <= shown; gone++) {
                spn_queue *q = open_kind(k);
                spn_queue_iter *iter;
                void *got = NULL, *all[16];
                int at = 0;

                /* 0 1 2 3 4, or 0 100 2 100 4: odd places are the same pointer */
                for (int i = 0; i < n; i++)
                    CHECK_OK(spn_queue_add(q, item(equal && i % 2 == 1 ? 100 : i)));
                REQUIRE_OK(spn_queue_iter_begin(&iter, q));
                for (int i = 0; i <= shown; i++)
                    CHECK_OK(spn_queue_iter_next(iter, &got));
                for (int i = 0; i < gone; i++)
                    CHECK(spn_queue_remove_item(q, item(equal && i % 2 == 1 ? 100
                                                                            : i)) == 1);
                add_range(q, 200, 200 + gone);
                CHECK_OK(spn_queue_iter_remove(iter));
                spn_queue_iter_end(iter);
                CHECK_EQ(spn_queue_to_array(q, all, 16), n - 1);
                for (int i = gone; i < n; i++)
                    if (i != shown)
                        CHECK_EQ(index_of(all[at++]), equal && i % 2 == 1 ? 100 : i);
                for (int i = 0; i < gone; i++)
                    CHECK_EQ(index_of(all[at++]), 200 + i);
                shut(q);
            }
}

/* A long queue, most of it taken out by one iterator, with inserts in between. */
TEST_EACH(queue__most_removed_by_iterator__exactly_those, "Q-22", "G-26", "ABQ-2")
{
    enum { N = 1000 };
    struct kind row = *k;

    if (!is(k, INSIDE | KEEPS))
        return;
    if (is(k, BOUNDED))
        row.capacity = N;
    for (int inserts = 0; inserts < 2; inserts++) {
        spn_queue *q = open_kind(&row);
        spn_queue_iter *iter;
        void *got;
        int added = 0;

        add_range(q, 0, N);
        REQUIRE_OK(spn_queue_iter_begin(&iter, q));
        while (spn_queue_iter_next(iter, &got) == SPN_OK) {
            if (index_of(got) % 10 == 3)
                continue;
            CHECK_OK(spn_queue_iter_remove(iter));
            CHECK_EQ(spn_queue_contains(q, got), 0);
            if (inserts && index_of(got) % 2 == 0)
                CHECK_OK(spn_queue_add(q, item(N + added++)));
        }
        spn_queue_iter_end(iter);
        CHECK_EQ(spn_queue_size(q), N / 10 + added);
        for (int i = 3; i < N; i += 10)
            CHECK_EQ(index_of(spn_queue_poll(q)), i);
        expect_range(q, N, N + added);
        expect_empty(q);
        shut(q);
    }
}

/* Iteration while every item is removed ends, and the queue is empty. */
TEST_EACH(queue__iteration_amid_removal__ends, "Q-24", "G-26", "LBD-14", "ABQ-6")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (int when = 0; when <= n; when++) {
        spn_queue *q = open_full(k);
        spn_queue_iter *iter;
        void *got;
        int shown = 0;

        REQUIRE_OK(spn_queue_iter_begin(&iter, q));
        for (int i = 0; i < when; i++)
            shown += spn_queue_iter_next(iter, &got) == SPN_OK;
        while (spn_queue_poll(q) != NULL) {
        }
        while (spn_queue_iter_next(iter, &got) == SPN_OK)
            shown++;
        CHECK(shown >= when && shown <= n);
        if (n > 0 && shown > 0)
            CHECK_STATUS(spn_queue_iter_remove(iter),
                         SPN_EEMPTY); /* it has gone already */
        spn_queue_iter_end(iter);
        expect_empty(q);
        add_range(q, 0, n);
        expect_range(q, 0, n);
        shut(q);
    }
}

/* Several iterators, to_array, contains and remove_item amid puts and takes: no item
 * twice in one iteration, none out of order, none lost. */
enum { AMID = 3000 };

struct amid {
    const struct kind *k;
    spn_queue *q;
    int count;
    atomic_int out[AMID];
    atomic_int left;
};

static void look_amid(struct amid *a)
{
    spn_queue_iter *iter;
    void *got, *all[64];
    int last = -1;
    int64_t n;

    REQUIRE_OK(spn_queue_iter_begin(&iter, a->q));
    while (spn_queue_iter_next(iter, &got) == SPN_OK) {
        if (is(a->k, FIFO))
            CHECK(index_of(got) > last);
        last = index_of(got);
    }
    /* The last one shown, out of order: whether it is still there is not known. */
    spn_queue_iter_end(iter);
    n = spn_queue_to_array(a->q, all, 64);
    for (int64_t i = 1; i < n && i < 64 && is(a->k, FIFO); i++)
        CHECK(index_of(all[i]) > index_of(all[i - 1]));
    if (n > 1 && n <= 64) {
        void *victim = all[n / 2];

        if (spn_queue_remove_item(a->q, victim) == 1) {
            CHECK_EQ(atomic_fetch_add(&a->out[index_of(victim)], 1), 0);
            atomic_fetch_sub(&a->left, 1);
        }
        CHECK_EQ(spn_queue_contains(a->q, victim), 0);
    }
}

static void put_take_look(int index, void *arg)
{
    struct amid *a = arg;
    void *got;

    if (index == 0) {
        for (int i = 0; i < a->count; i++)
            CHECK_OK(spn_queue_put(a->q, item(i)));
        return;
    }
    while (atomic_load(&a->left) > 0) {
        if (index == 1) {
            if (spn_queue_poll_timed(a->q, &got, SPN_US(100)) == SPN_OK) {
                CHECK_EQ(atomic_fetch_add(&a->out[index_of(got)], 1), 0);
                atomic_fetch_sub(&a->left, 1);
            }
        } else {
            look_amid(a);
        }
    }
}

TEST_EACH(queue__looking_inside_amid_puts_and_takes__consistent, "LBQ-6", "G-26",
          "Q-24")
{
    static struct amid a;

    if (!is(k, INSIDE | KEEPS))
        return;
    memset(&a, 0, sizeof a);
    a.k = k;
    a.q = open_kind(k);
    a.count = t_rounds(AMID);
    atomic_store(&a.left, a.count);
    t_parallel(3, put_take_look, &a);
    for (int i = 0; i < a.count; i++)
        CHECK_EQ(atomic_load(&a.out[i]), 1);
    expect_empty(a.q);
    shut(a.q);
}

/* ---- a long random walk beside a plain list --------------------------------------------- */

/* The model: a list in removal order.  FIFO kinds append; priority and delay insert
 * behind what is not greater. */
struct model {
    int at[512];
    int count;
};

static void model_remove(struct model *m, int place)
{
    memmove(&m->at[place], &m->at[place + 1],
            (size_t)(m->count - place - 1) * sizeof m->at[0]);
    m->count--;
}

static void model_insert(struct model *m, const struct kind *k, int index, bool first)
{
    int place = m->count;

    if (first)
        place = 0;
    else if (!is(k, FIFO))
        while (place > 0 && m->at[place - 1] > index)
            place--;
    memmove(&m->at[place + 1], &m->at[place],
            (size_t)(m->count - place) * sizeof m->at[0]);
    m->at[place] = index;
    m->count++;
}

/* The whole content, in iteration order where it is promised. */
static bool same_content(const struct kind *k, spn_queue *q, const struct model *m)
{
    void *all[512];
    int left[512];
    const int64_t n = spn_queue_to_array(q, all, 512);
    int count = m->count;

    if (n != m->count || spn_queue_size(q) != m->count)
        return false;
    memcpy(left, m->at, sizeof left);
    for (int i = 0; i < n; i++) {
        int place = 0;

        while (place < count && left[place] != index_of(all[i]))
            place++;
        if (place == count || (is(k, FIFO) && place != 0))
            return false;
        memmove(&left[place], &left[place + 1],
                (size_t)(count - place - 1) * sizeof left[0]);
        count--;
    }
    return count == 0;
}

static void random_walk(const struct kind *k, int32_t capacity, uint64_t *seed,
                        int steps)
{
    struct kind row = *k;
    struct model m = { .count = 0 };
    const int most = is(k, BOUNDED) ? capacity : 300;
    spn_queue *q;
    bool ok = true;

    row.capacity = is(k, BOUNDED) ? capacity : SPN_DEFAULT;
    q = open_kind(&row);
    for (int step = 0; step < steps && ok; step++) {
        const int index = (int)(t_random(seed) % 40); /* many equal ones */
        const int what = (int)(t_random(seed) % 16);
        void *some[8];
        size_t done = 0;

        if (what < 5) { /* one in */
            const bool first = is(k, TRAIT_DEQUE) && what == 0;
            const int rc = first ? spn_queue_offer_first(q, item(index))
                                 : spn_queue_offer(q, item(index));

            ok = CHECK_EQ(rc, m.count < most || !is(k, BOUNDED));
            if (rc == 1 && m.count < 400)
                model_insert(&m, k, index, first);
        } else if (what < 7) { /* one out */
            ok = CHECK_EQ(index_of(spn_queue_poll(q)), m.count > 0 ? m.at[0] : -1);
            if (m.count > 0)
                model_remove(&m, 0);
        } else if (what == 7 && is(k, TRAIT_DEQUE)) {
            ok = CHECK_EQ(index_of(spn_queue_poll_last(q)),
                          m.count > 0 ? m.at[m.count - 1] : -1);
            if (m.count > 0)
                model_remove(&m, m.count - 1);
        } else if (what < 10) { /* one from inside, the first of its kind */
            int place = 0;

            while (place < m.count && m.at[place] != index)
                place++;
            ok = CHECK_EQ(spn_queue_contains(q, item(index)), place < m.count);
            ok = CHECK_EQ(spn_queue_remove_item(q, item(index)), place < m.count) && ok;
            if (place < m.count)
                model_remove(&m, place);
        } else if (what == 10) { /* all of two */
            bool any = false;

            some[0] = item(index);
            some[1] = item((index + 7) % 40);
            for (int i = m.count - 1; i >= 0; i--)
                if (m.at[i] == index || m.at[i] == (index + 7) % 40) {
                    model_remove(&m, i);
                    any = true;
                }
            ok = CHECK_EQ(spn_queue_remove_all(q, some, 2), any);
        } else if (what == 11) { /* several in */
            for (int i = 0; i < 8; i++)
                some[i] = item((int)(t_random(seed) % 40));
            ok =
                CHECK(spn_queue_add_all(q, some, 8, &done) == SPN_OK || is(k, BOUNDED));
            ok = CHECK_EQ(done, !is(k, BOUNDED)      ? 8
                                : most - m.count < 8 ? most - m.count
                                                     : 8) &&
                 ok;
            for (size_t i = 0; i < done; i++)
                model_insert(&m, k, index_of(some[i]), false);
        } else if (what == 12) { /* several out */
            const int64_t n = spn_queue_drain(q, some, 8);

            ok = CHECK_EQ(n, m.count < 8 ? m.count : 8);
            for (int64_t i = 0; i < n; i++) {
                ok = CHECK_EQ(index_of(some[i]), m.at[0]) && ok;
                model_remove(&m, 0);
            }
        } else if (what == 13 && index < 8) {
            ok = CHECK_EQ(spn_queue_clear(q), m.count);
            m.count = 0;
        } else if (what == 14 && is(k, FIFO) && m.count > 0) { /* by iterator */
            spn_queue_iter *iter;
            const int place = (int)(t_random(seed) % (uint64_t)m.count);
            void *got;

            REQUIRE_OK(spn_queue_iter_begin(&iter, q));
            for (int i = 0; i <= place; i++)
                ok = CHECK_OK(spn_queue_iter_next(iter, &got)) && ok;
            ok = CHECK_OK(spn_queue_iter_remove(iter)) && ok;
            spn_queue_iter_end(iter);
            model_remove(&m, place);
        } else {
            ok = CHECK_EQ(index_of(spn_queue_peek(q)), m.count > 0 ? m.at[0] : -1);
        }
        ok = CHECK(same_content(k, q, &m)) && ok;
        if (is(k, BOUNDED))
            ok = CHECK_EQ(spn_queue_remaining(q), capacity - m.count) && ok;
        if (m.count > 390) /* the model's own limit */
            while (m.count > 100) {
                ok = CHECK_EQ(index_of(spn_queue_poll(q)), m.at[0]) && ok;
                model_remove(&m, 0);
            }
        if (!ok)
            fprintf(stderr, "  step %d of a walk, capacity %d, action %d\n", step,
                    (int)capacity, what);
    }
    shut(q);
}

TEST_EACH(queue__random_walk__as_a_plain_list, "Q-7", "Q-17", "Q-22", "Q-27", "ABQ-2",
          "PBQ-6", "PBQ-8", "G-15")
{
    static const int32_t capacities[] = { 1, 2, 3, 5, 17, 64, 130 };
    uint64_t seed = t_seed();

    if (!is(k, INSIDE | KEEPS))
        return;
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++)
        random_walk(k, capacities[i], &seed, t_rounds(1500));
}
