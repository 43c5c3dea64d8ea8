/* SPDX-License-Identifier: MIT */
/*
 * test_queue_inside.c - looking inside: walks, removal from inside, and long random
 * sequences of everything compared with a plain list.
 */
#include "counting.h"
#include "queue_kinds.h"

/* ---- walk ------------------------------------------------------------------------- */

/* A walk that copies what fits, and a NULL behind the last if there is room, shows all
 * there are, however many it stores. */
TEST_EACH(queue__copied_by_a_walk__buffers_of_every_size, "Q-21", "SQ-1")
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
        CHECK_EQ(content(q, got, (size_t)capacity), n);
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
    CHECK_EQ(content(q, NULL, 0), n);
    CHECK_STATUS(spn_queue_walk(q, NULL, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_queue_walk(NULL, visit_copy, NULL), SPN_EINVAL);
    CHECK_EQ(spn_queue_size(q), n);
    expect_range(q, 0, n);
    shut(q);
}

/* The same after every number of items has gone through: at every offset of a queue
 * that wraps, with every number of items, with and without one taken out. */
TEST_EACH(queue__walk_at_every_offset__queue_order, "ABQ-2", "Q-21", "Q-22")
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
                CHECK_OK(spn_queue_put(q, item(500), 0));
                CHECK(take_now(q) == item(500));
            }
            add_range(q, 0, count);
            CHECK_EQ(content(q, got, 16), count);
            if (is(k, FIFO))
                for (int i = 0; i < count; i++)
                    CHECK_EQ(index_of(got[i]), i);
            if (out >= 0) {
                CHECK_OK(spn_queue_remove_item(q, item(out)));
                CHECK_EQ(content(q, got, 16), count - 1);
                if (is(k, FIFO))
                    for (int i = 0; i < count - 1; i++)
                        CHECK_EQ(index_of(got[i]), i < out ? i : i + 1);
                CHECK_OK(spn_queue_put(q, item(count), 0));
            }
            for (int i = 0; i <= count; i++)
                if (i != out && !(out < 0 && i == count))
                    CHECK_EQ(index_of(take_now(q)), i);
            expect_empty(q);
            shut(q);
        }
    }
}

/* A walk shows each item once, in queue order where there is one, and nothing of an empty
 * queue. */
TEST_EACH(queue__walk__each_once, "Q-22", "Q-23", "PBQ-5", "DQ-4", "SQ-1")
{
    spn_queue *q;
    const int n = room_of(k);

    if (!is(k, INSIDE))
        return;
    q = open_full(k);
    for (int round = 0; round < 2; round++) { /* full, then empty */
        const int there = round == 0 ? n : 0;
        bool seen[16] = { false };
        void *got[16];

        CHECK_EQ(content(q, got, 16), there);
        for (int i = 0; i < there; i++) {
            if (is(k, FIFO))
                CHECK_EQ(index_of(got[i]), i);
            CHECK(!seen[index_of(got[i])]);
            seen[index_of(got[i])] = true;
        }
        CHECK_EQ(spn_queue_size(q), there);
        (void)take_all(q);
    }
    shut(q);
}

/* Stops after some, and takes out those whose bit is set; remembers what it was shown. */
struct chooser {
    unsigned mask;
    int stop_after, shown;
    bool seen[16];
};

static int visit_choose(void *p, void *ctx)
{
    struct chooser *c = ctx;
    int verdict = (c->mask >> index_of(p) & 1) != 0 ? SPN_QUEUE_TAKE : SPN_QUEUE_KEEP;

    c->seen[index_of(p)] = true;
    if (++c->shown == c->stop_after)
        verdict |= SPN_QUEUE_STOP;
    return verdict;
}

/* What the visitor says is done: of every set of items, and wherever it stops. */
TEST_EACH(queue__walk__keeps_takes_and_stops, "Q-22", "PBQ-10", "ABQ-2")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (unsigned mask = 0; mask < (1U << n); mask++) /* which to take out */
        for (int stop = 1; stop <= n + 1; stop++) {
            struct chooser c = { .mask = mask, .stop_after = stop };
            spn_queue *q = open_full(k);
            int left = 0;

            CHECK_OK(spn_queue_walk(q, visit_choose, &c));
            CHECK_EQ(c.shown, stop < n ? stop : n);
            for (int i = 0; i < n; i++) {
                const bool gone = c.seen[i] && (mask >> i & 1) != 0;

                CHECK_EQ(spn_queue_contains(q, item(i)) == SPN_OK, !gone);
                left += !gone;
            }
            CHECK_EQ(spn_queue_size(q), left);
            for (int i = 0; i < n; i++)
                if (!c.seen[i] || (mask >> i & 1) == 0)
                    CHECK_EQ(index_of(take_now(q)), i);
            expect_empty(q);
            shut(q);
        }
}

/* The same pointer several times: the very occurrence goes. */
TEST_EACH(queue__walk_over_equal_pointers__exact_one, "Q-22", "PBQ-10")
{
    if (!is(k, INSIDE | KEEPS | FIFO) || (is(k, BOUNDED) && k->capacity < 5))
        return;
    for (int which = 0; which < 3; which++) {
        static const int pattern[5] = { 7, 0, 7, 1, 7 };
        spn_queue *q = open_kind(k);
        void *all[8];
        int at = 0;

        for (int i = 0; i < 5; i++)
            CHECK_OK(spn_queue_put(q, item(pattern[i]), 0));
        CHECK(remove_at(q, 2 * which));
        CHECK_EQ(content(q, all, 8), 4);
        for (int i = 0; i < 5; i++)
            if (i != 2 * which)
                CHECK_EQ(index_of(all[at++]), pattern[i]);
        shut(q);
    }
}

static int visit_sparse(void *p, void *ctx)
{
    (void)ctx;
    return index_of(p) < ITEMS / 2 && index_of(p) % 10 != 3 ? SPN_QUEUE_TAKE
                                                            : SPN_QUEUE_KEEP;
}

/* A long queue, most of it taken out by one walk: the rest in order, and there is room for
 * as many again. */
TEST_EACH(queue__most_taken_by_a_walk__rest_in_order, "Q-22", "ABQ-2")
{
    enum { N = 1000 };
    struct kind row = *k;
    spn_queue *q;

    if (!is(k, INSIDE | KEEPS))
        return;
    if (is(k, BOUNDED))
        row.capacity = N;
    q = open_kind(&row);
    add_range(q, 0, N);
    CHECK_OK(spn_queue_walk(q, visit_sparse, NULL));
    CHECK_EQ(spn_queue_size(q), N / 10);
    add_range(q, N, 2 * N - N / 10);
    for (int i = 3; i < N; i += 10)
        CHECK_EQ(index_of(take_now(q)), i);
    expect_range(q, N, 2 * N - N / 10);
    expect_empty(q);
    shut(q);
}

/* Walks, contains and remove_item amid puts and takes: no item twice in one walk, none out
 * of order, none lost. */
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
    void *all[64];
    int64_t n;

    n = content(a->q, all, 64);
    for (int64_t i = 1; i < n && i < 64 && is(a->k, FIFO); i++)
        CHECK(index_of(all[i]) > index_of(all[i - 1]));
    if (n > 1 && n <= 64) {
        void *victim = all[n / 2];

        if (spn_queue_remove_item(a->q, victim) == SPN_OK) {
            CHECK_EQ(atomic_fetch_add(&a->out[index_of(victim)], 1), 0);
            atomic_fetch_sub(&a->left, 1);
        }
        CHECK_STATUS(spn_queue_contains(a->q, victim), SPN_EEMPTY);
    }
}

static void put_take_look(int index, void *arg)
{
    struct amid *a = arg;
    void *got;

    if (index == 0) {
        for (int i = 0; i < a->count; i++)
            CHECK_OK(spn_queue_put(a->q, item(i), SPN_FOREVER));
        return;
    }
    while (atomic_load(&a->left) > 0) {
        if (index == 1) {
            if (spn_queue_take(a->q, &got, SPN_US(100)) == SPN_OK) {
                CHECK_EQ(atomic_fetch_add(&a->out[index_of(got)], 1), 0);
                atomic_fetch_sub(&a->left, 1);
            }
        } else {
            look_amid(a);
        }
    }
}

TEST_EACH(queue__looking_inside_amid_puts_and_takes__consistent, "LBQ-6")
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
    const int64_t n = content(q, all, 512);
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
            const int rc = first ? spn_queue_put_first(q, item(index), 0)
                                 : spn_queue_put(q, item(index), 0);

            ok = CHECK_STATUS(rc,
                              m.count < most || !is(k, BOUNDED) ? SPN_OK : SPN_EFULL);
            if (rc == SPN_OK && m.count < 400)
                model_insert(&m, k, index, first);
        } else if (what < 7) { /* one out */
            ok = CHECK_EQ(index_of(take_now(q)), m.count > 0 ? m.at[0] : -1);
            if (m.count > 0)
                model_remove(&m, 0);
        } else if (what == 7 && is(k, TRAIT_DEQUE)) {
            ok = CHECK_EQ(index_of(take_last_now(q)),
                          m.count > 0 ? m.at[m.count - 1] : -1);
            if (m.count > 0)
                model_remove(&m, m.count - 1);
        } else if (what < 10) { /* one from inside, the first of its kind */
            int place = 0;

            while (place < m.count && m.at[place] != index)
                place++;
            ok =
                CHECK_EQ(spn_queue_contains(q, item(index)) == SPN_OK, place < m.count);
            ok = CHECK_EQ(spn_queue_remove_item(q, item(index)) == SPN_OK,
                          place < m.count) &&
                 ok;
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
            ok = CHECK_EQ(remove_all(q, some, 2), any);
        } else if (what == 11) { /* several in */
            for (int i = 0; i < 8; i++)
                some[i] = item((int)(t_random(seed) % 40));
            ok = CHECK(spn_queue_put_many(q, some, 8, 0, &done) == SPN_OK ||
                       is(k, BOUNDED));
            ok = CHECK_EQ(done, !is(k, BOUNDED)      ? 8
                                : most - m.count < 8 ? most - m.count
                                                     : 8) &&
                 ok;
            for (size_t i = 0; i < done; i++)
                model_insert(&m, k, index_of(some[i]), false);
        } else if (what == 12) { /* several out */
            const int64_t n = take_some(q, some, 8);

            ok = CHECK_EQ(n, m.count < 8 ? m.count : 8);
            for (int64_t i = 0; i < n; i++) {
                ok = CHECK_EQ(index_of(some[i]), m.at[0]) && ok;
                model_remove(&m, 0);
            }
        } else if (what == 13 && index < 8) {
            ok = CHECK_EQ(take_all(q), m.count);
            m.count = 0;
        } else if (what == 14 && is(k, FIFO) && m.count > 0) { /* at a place */
            const int place = (int)(t_random(seed) % (uint64_t)m.count);

            ok = CHECK(remove_at(q, place)) && ok;
            model_remove(&m, place);
        } else {
            ok = CHECK_EQ(index_of(first_of(q)), m.count > 0 ? m.at[0] : -1);
        }
        ok = CHECK(same_content(k, q, &m)) && ok;
        if (is(k, BOUNDED))
            ok = CHECK_EQ(room_left(q), capacity - m.count) && ok;
        if (m.count > 390) /* the model's own limit */
            while (m.count > 100) {
                ok = CHECK_EQ(index_of(take_now(q)), m.at[0]) && ok;
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
