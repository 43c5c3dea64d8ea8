/* SPDX-License-Identifier: MIT */
/*
 * test_queue_waits.c - every blocking form of every kind: how its wait ends.
 *
 * The forms are a table, as the kinds are (queue_kinds.h); a test goes through the
 * forms that can block on its kind.
 */
#include "counting.h"
#include "queue_kinds.h"

/* What a form inserts where: the index is above all others, so that it is last. */
enum { MINE = 1000 };

#define EACH_FORM(f) for (const struct form *f = forms; f < forms + FORMS; f++)

/* The queue is as open_blocking made it. */
static bool unchanged(const struct kind *k, const struct form *f, spn_queue *q)
{
    const int n = filled(k, f);
    bool ok = spn_queue_size(q) == n;

    for (int i = 0; i < n; i++)
        ok = index_of(take_now(q)) == i && ok;
    return ok && take_now(q) == NULL && spn_queue_waiting_consumers(q) == 0;
}

/* Does what the form waits for, once: takes an item, or brings item(MINE). */
static int release(const struct kind *k, const struct form *f, spn_queue *q)
{
    (void)k;
    if (f->insert)
        return index_of(take_now(q));
    return spn_queue_put(q, item(MINE), 0) == SPN_OK ? MINE : -1;
}

/* ---- success ------------------------------------------------------------------------- */

/* A call that has to wait goes on when the other side comes, and not before. */
TEST_EACH(queue__blocked_call__released_by_other_side, "Q-8", "Q-10", "Q-13", "Q-11",
          "LBD-5", "LBD-6", "LBD-7", "LTQ-3", "SQ-4", "SQ-5", "SQ-6", "SQ-15", "PBQ-7",
          "DQ-7", "LTQ-9", "LTQ-10", "G-20")
{
    EACH_FORM(f)
    {
        spn_queue *q;
        struct call c;
        struct peer p;
        int got;
        bool ok;

        if (!can_block(k, f))
            continue;
        q = open_blocking(k, f);
        block_call(&p, &c, f, q, MINE);
        ok = CHECK_EQ(spn_queue_waiting_consumers(q), !f->insert);
        if (!f->insert)
            ok = CHECK_EQ(spn_queue_size(q), 0) && ok;
        ok = CHECK_STATUS(spn_queue_destroy(q), SPN_EBUSY) && ok;
        got = release(k, f, q);
        ok = CHECK_EQ(got, filled(k, f) > 0 ? 0 : MINE) && ok;
        ok = CHECK_OK(peer_finish(&p)) && ok;
        ok = CHECK_EQ(p.flag_after, 0) && ok;
        if (!f->insert)
            ok = CHECK_EQ(index_of(c.item), MINE) && ok;
        ok = CHECK_EQ(spn_queue_waiting_consumers(q), 0) && ok;
        ok = CHECK_EQ(spn_queue_size(q), filled(k, f)) && ok;
        if (f->insert && filled(k, f) > 0) {
            ok = CHECK_STATUS(spn_queue_put(q, item(1), 0), SPN_EFULL) &&
                 ok; /* full again */
            if (is(k, INSIDE))
                ok = CHECK_OK(spn_queue_contains(q, item(MINE))) && ok;
        }
        (void)take_all(q);
        shut(q);
        name_form(k, f, ok);
    }
}

/* The same on threads the library did not make. */
TEST_EACH(queue__foreign_thread_blocked__released, "G-14")
{
    EACH_FORM(f)
    {
        spn_queue *q;
        struct call c;
        struct peer p;
        bool ok;

        if (!can_block(k, f))
            continue;
        q = open_blocking(k, f);
        c = (struct call){ f, q, f->insert ? item(MINE) : NULL, SPN_FOREVER };
        peer_start_foreign(&p, run_call, &c);
        peer_await_blocked(&p);
        ok = CHECK(release(k, f, q) >= 0);
        ok = CHECK_OK(peer_finish(&p)) && ok;
        (void)take_all(q);
        shut(q);
        name_form(k, f, ok);
    }
}

/* Several wait; each release lets one go on. */
TEST_EACH(queue__several_blocked__as_many_released_as_served, "G-20", "LBQ-5", "Q-36")
{
    enum { N = 4 };

    EACH_FORM(f)
    {
        spn_queue *q;
        struct call c[N];
        struct peer p[N];
        bool ok = true;
        int sum = 0;

        if (!can_block(k, f))
            continue;
        q = open_blocking(k, f);
        for (int i = 0; i < N; i++)
            block_call(&p[i], &c[i], f, q, MINE + i);
        if (!f->insert)
            ok = CHECK_EQ(spn_queue_waiting_consumers(q), N) && ok;
        for (int n = 1; n <= N; n++) {
            int done;

            if (f->insert)
                ok = CHECK(take_now(q) != NULL) && ok;
            else
                ok = CHECK_OK(spn_queue_put(q, item(MINE + n), 0)) && ok;
            do {
                done = 0;
                for (int i = 0; i < N; i++)
                    done += atomic_load(&p[i].done);
                t_pause();
            } while (done < n);
            ok = CHECK_EQ(done, n) && ok;
        }
        for (int i = 0; i < N; i++) {
            ok = CHECK_OK(peer_finish(&p[i])) && ok;
            sum += index_of(c[i].item) - MINE;
        }
        if (!f->insert)
            ok = CHECK_EQ(sum, 1 + 2 + 3 + 4) && ok;
        ok = CHECK_EQ(spn_queue_size(q), filled(k, f)) && ok;
        (void)take_all(q);
        shut(q);
        name_form(k, f, ok);
    }
}

/* Walks, remove_item and take_many make room for a put that waits. */
TEST_EACH(queue__room_made_from_inside__put_goes_on, "Q-19", "Q-28", "Q-17", "Q-22")
{
    if (!is(k, BOUNDED | KEEPS))
        return;
    for (int how = 0; how < 6; how++) {
        spn_queue *q = open_full(k);
        const int n = room_of(k);
        void *some[16], *named[1] = { item(n - 1) };
        struct call c;
        struct peer p;
        int left = n; /* with the new one */

        if (!is(k, INSIDE) && how > 1) {
            shut(q);
            continue;
        }
        block_put(&p, &c, q, MINE);
        switch (how) {
        case 0:
            CHECK_EQ(take_all(q), n);
            left = 1;
            break;
        case 1:
            CHECK_EQ(take_some(q, some, 16) >= n, 1);
            left = -1; /* it may have come along */
            break;
        case 2:
            CHECK_OK(spn_queue_remove_item(q, item(n / 2)));
            break;
        case 3:
            CHECK_EQ(remove_all(q, named, 1), 1);
            break;
        case 4:
            CHECK_EQ(retain_all(q, named, 0), 1);
            left = 1;
            break;
        default:
            CHECK(remove_at(q, n - 1));
            break;
        }
        CHECK_OK(peer_finish(&p));
        if (left >= 0)
            CHECK_EQ(spn_queue_size(q), left);
        if (is(k, INSIDE) && left >= 0)
            CHECK_OK(spn_queue_contains(q, item(MINE)));
        (void)take_all(q);
        shut(q);
    }
}

/* A queue that was emptied from inside is empty: a take waits, and the next insert, which
 * finds the room that the removals left, serves it. */
TEST_EACH(queue__emptied_from_inside__waiting_take_served, "Q-17", "Q-18", "G-20")
{
    const int n = room_of(k);

    if (!is(k, INSIDE | KEEPS))
        return;
    for (int many = 0; many < 2; many++) {
        spn_queue *q = open_full(k);
        void *const one[1] = { item(MINE) };
        struct call c;
        struct peer p;

        for (int i = 0; i < n; i++)
            CHECK_OK(spn_queue_remove_item(q, item(i)));
        block_take(&p, &c, q);
        if (many)
            CHECK_OK(spn_queue_put_many(q, one, 1, 0, NULL));
        else
            CHECK_OK(spn_queue_put(q, item(MINE), 0));
        CHECK_OK(peer_finish(&p));
        CHECK_EQ(index_of(c.item), MINE);
        expect_empty(q);
        shut(q);
    }
}

/* A pool of two: one hands to the other, with and without waiting. */
struct pair {
    spn_queue *q;
    int rounds;
    int64_t sum;
};

static void hand_over(int index, void *arg)
{
    struct pair *pair = arg;

    for (int i = 0; i < pair->rounds; i++) {
        void *got = NULL;

        if (index == 0 && i % 2 == 0) {
            while (spn_queue_put(pair->q, item(i), 0) != SPN_OK)
                t_pause();
        } else if (index == 0) {
            CHECK_OK(spn_queue_put(pair->q, item(i), SPN_FOREVER));
        } else if (i % 2 == 0) {
            CHECK_OK(spn_queue_take(pair->q, &got, SPN_FOREVER));
            pair->sum += index_of(got);
        } else {
            CHECK_OK(spn_queue_take(pair->q, &got, T_LONG_NS));
            pair->sum += index_of(got);
        }
    }
}

TEST_EACH(queue__two_threads__hand_over, "Q-29", "G-19", "LBQ-4")
{
    struct pair pair = { open_kind(k), t_rounds(1000), 0 };

    t_parallel(2, hand_over, &pair);
    CHECK_EQ(pair.sum, (int64_t)pair.rounds * (pair.rounds - 1) / 2);
    expect_empty(pair.q);
    shut(pair.q);
}

/* ---- time ------------------------------------------------------------------------------ */

/* A call waits its time and not less; with none or a negative one it does not wait,
 * and says that it is full or empty; nothing has changed afterwards. */
TEST_EACH(queue__timed_call__waits_its_time, "Q-10", "Q-13", "G-6", "G-7", "LBD-6",
          "LBD-7", "LTQ-6", "SQ-6", "DQ-7", "PBQ-7")
{
    static const int64_t times[] = { 0, -1, INT64_MIN, 999999, 1, 2500000 };

    EACH_FORM(f)
    {
        if (!can_block(k, f))
            continue;
        for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
            spn_queue *q = open_blocking(k, f);
            struct call c = { f, q, f->insert ? item(MINE) : NULL, times[i] };
            const int64_t start = spn_now();
            bool ok = CHECK_STATUS(f->run(&c), times[i] > 0 ? SPN_ETIMEDOUT
                                               : f->insert  ? SPN_EFULL
                                                            : SPN_EEMPTY);

            ok = CHECK(times[i] <= 0 || spn_now() - start >= times[i]) && ok;
            if (!f->insert)
                ok = CHECK(c.item == NULL) && ok;
            ok = CHECK(unchanged(k, f, q)) && ok;
            shut(q);
            name_form(k, f, ok);
        }
    }
}

/* A call that need not wait succeeds whatever the time. */
TEST_EACH(queue__timed_call_that_need_not_wait__succeeds, "G-6", "G-8", "Q-12")
{
    static const int64_t times[] = { 0, -1, INT64_MIN, INT64_MAX, INT64_MAX - 1, 1 };

    EACH_FORM(f)
    {
        if (!is(k, f->needs) || f->always || !is(k, KEEPS))
            continue;
        for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
            spn_queue *q = open_kind(k);
            struct call c = { f, q, f->insert ? item(3) : NULL, times[i] };
            bool ok;

            if (!f->insert)
                add_range(q, 3, 4);
            ok = CHECK_OK(f->run(&c));
            ok = CHECK_EQ(index_of(c.item), 3) && ok;
            ok = CHECK_EQ(spn_queue_size(q), f->insert) && ok;
            (void)take_all(q);
            shut(q);
            name_form(k, f, ok);
        }
    }
}

/* INT64_MAX and what lies so near that the sum would overflow are for ever. */
TEST_EACH(queue__very_long_timeout__for_ever, "G-8")
{
    EACH_FORM(f)
    {
        spn_queue *q;
        struct call c;
        struct peer p;
        bool ok;

        if (!can_block(k, f))
            continue;
        q = open_blocking(k, f);
        start_call(&p, &c, f, q, MINE, INT64_MAX - 1);
        peer_await_blocked(&p);
        ok = CHECK_EQ(atomic_load(&p.done), 0);
        ok = CHECK(release(k, f, q) >= 0) && ok;
        ok = CHECK_OK(peer_finish(&p)) && ok;
        (void)take_all(q);
        shut(q);
        name_form(k, f, ok);
    }
}

/* A long run of time-outs behind one waiter that stays leaves no memory behind, and
 * neither the waiter nor the counts are disturbed. */
TEST_EACH(queue__many_time_outs_behind_a_waiter__no_memory, "SQ-13", "LTQ-14", "Q-32")
{
    EACH_FORM(f)
    {
        spn_queue *q;
        struct call c, mine;
        struct peer p;
        long live;
        bool ok = true;

        if (!can_block(k, f))
            continue;
        q = open_blocking(k, f);
        block_call(&p, &c, f, q, MINE);
        mine = (struct call){ f, q, item(MINE + 1), 1 };
        (void)f->run(&mine); /* this thread's record, a node: now or never */
        live = atomic_load(&counting_live);
        for (int i = 0; i < t_rounds(300); i++) {
            mine = (struct call){ f, q, f->insert ? item(MINE + 1) : NULL,
                                  i % 8 == 0 ? 2000 : 0 };
            ok = CHECK_STATUS(f->run(&mine), i % 8 == 0  ? SPN_ETIMEDOUT
                                             : f->insert ? SPN_EFULL
                                                         : SPN_EEMPTY) &&
                 ok;
        }
        ok = CHECK_EQ(atomic_load(&counting_live), live) && ok;
        ok = CHECK_EQ(spn_queue_waiting_consumers(q), !f->insert) && ok;
        ok = CHECK_EQ(atomic_load(&p.done), 0) && ok;
        ok = CHECK(release(k, f, q) >= 0) && ok;
        ok = CHECK_OK(peer_finish(&p)) && ok;
        (void)take_all(q);
        shut(q);
        name_form(k, f, ok);
    }
}

/* ---- interrupt --------------------------------------------------------------------------- */

/* A call that has to wait, with the flag set before: SPN_EINTR at once, the flag is
 * clear, nothing has changed. */
TEST_EACH(queue__flag_set_before_a_wait__eintr, "Q-9", "Q-10", "Q-11", "Q-14", "G-10",
          "LBD-5", "LBD-6", "LBD-7", "LTQ-6", "LTQ-8", "SQ-4", "SQ-6", "PBQ-7", "DQ-7")
{
    EACH_FORM(f)
    {
        spn_queue *q;
        struct call c;
        bool ok;

        if (!can_block(k, f))
            continue;
        q = open_blocking(k, f);
        c = (struct call){ f, q, f->insert ? item(MINE) : NULL, SPN_FOREVER };
        ok = CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        ok = CHECK_STATUS(f->run(&c), SPN_EINTR) && ok;
        ok = CHECK_EQ(spn_thread_interrupted(), 0) && ok;
        if (!f->insert)
            ok = CHECK(c.item == NULL) && ok;
        ok = CHECK(unchanged(k, f, q)) && ok;
        shut(q);
        name_form(k, f, ok);
    }
}

/* An interrupt while the call waits: the same. */
TEST_EACH(queue__interrupted_in_a_wait__eintr, "Q-9", "Q-10", "Q-11", "Q-14", "G-11",
          "LBD-5", "LBD-6", "LBD-7", "LTQ-5", "LTQ-6", "SQ-4", "SQ-6", "PBQ-7", "DQ-7")
{
    EACH_FORM(f)
    {
        spn_queue *q;
        struct call c;
        struct peer p;
        bool ok;

        if (!can_block(k, f))
            continue;
        q = open_blocking(k, f);
        block_call(&p, &c, f, q, MINE);
        if (f->always)
            CHECK_EQ(spn_queue_size(q), 1);
        ok = CHECK_OK(spn_thread_interrupt(p.thread));
        ok = CHECK_STATUS(peer_finish(&p), SPN_EINTR) && ok;
        ok = CHECK_EQ(p.flag_after, 0) && ok;
        if (!f->insert)
            ok = CHECK(c.item == NULL) && ok;
        ok = CHECK(unchanged(k, f, q)) && ok;
        shut(q);
        name_form(k, f, ok);
    }
}

/* One of three is interrupted; the others are served as if it had not been there. */
TEST_EACH(queue__one_of_three_interrupted__others_served, "Q-32", "G-11")
{
    EACH_FORM(f)
    {
        if (!can_block(k, f))
            continue;
        for (int out = 0; out < 3; out++) {
            spn_queue *q = open_blocking(k, f);
            struct call c[3];
            struct peer p[3];
            bool ok = true;

            for (int i = 0; i < 3; i++)
                block_call(&p[i], &c[i], f, q, MINE + i);
            ok = CHECK_OK(spn_thread_interrupt(p[out].thread)) && ok;
            ok = CHECK_STATUS(peer_finish(&p[out]), SPN_EINTR) && ok;
            for (int i = 0; i < 2; i++) {
                if (f->insert) {
                    void *got;

                    /* A queue of one is empty until the first has come in. */
                    T_AWAIT((got = take_now(q)) != NULL);
                    ok = CHECK(got != item(MINE + out)) && ok;
                } else {
                    ok = CHECK_OK(spn_queue_put(q, item(MINE + i), SPN_FOREVER)) && ok;
                }
            }
            for (int i = 0; i < 3; i++)
                if (i != out)
                    ok = CHECK_OK(peer_finish(&p[i])) && ok;
            if (f->insert && is(k, INSIDE))
                ok =
                    CHECK_STATUS(spn_queue_contains(q, item(MINE + out)), SPN_EEMPTY) &&
                    ok;
            ok = CHECK_EQ(spn_queue_size(q), filled(k, f)) && ok;
            (void)take_all(q);
            shut(q);
            name_form(k, f, ok);
        }
    }
}

/* A flag set before a call that could go on at once: SPN_EINTR where the contract
 * says so; elsewhere the call succeeds and the flag stays. */
TEST_EACH(queue__flag_set_and_no_need_to_wait__as_the_kind_says, "Q-31", "LTQ-8",
          "G-13", "SQ-17")
{
    EACH_FORM(f)
    {
        spn_queue *q;
        struct call c;
        bool ok, eintr;

        if (!is(k, f->needs) || f->always || !is(k, KEEPS))
            continue;
        eintr = is(k, f->insert ? INSERT_EINTR : REMOVE_EINTR);
        q = open_kind(k);
        if (!f->insert)
            add_range(q, 3, 4);
        c = (struct call){ f, q, f->insert ? item(3) : NULL, SPN_FOREVER };
        ok = CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        ok = CHECK_STATUS(f->run(&c), eintr ? SPN_EINTR : SPN_OK) && ok;
        ok = CHECK_EQ(spn_thread_interrupted(), !eintr) && ok;
        ok = CHECK_EQ(spn_queue_size(q), (f->insert ? 0 : 1) ^ !eintr) && ok;
        (void)take_all(q);
        shut(q);
        name_form(k, f, ok);
    }
}

/* Calls that do not wait neither look at the flag nor clear it. */
TEST_EACH(queue__flag_set__ignored_where_nothing_waits, "Q-31", "G-13")
{
    spn_queue *q = open_kind(k);
    void *got, *some[2] = { item(1), item(2) };

    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK(take_now(q) == NULL);
    CHECK_STATUS(spn_queue_take(q, &got, 0), SPN_EEMPTY);
    if (is(k, KEEPS)) {
        CHECK_OK(spn_queue_put(q, item(1), 0));
        CHECK(take_now(q) == item(1));
        CHECK_OK(spn_queue_put(q, item(1), 0));
        CHECK(first_of(q) == item(1));
        CHECK_OK(spn_queue_take(q, &got, 0));
        CHECK_OK(spn_queue_put_many(q, some, 1, 0, NULL));
        CHECK_EQ(take_some(q, some, 2), 1);
    }
    (void)take_all(q);
    CHECK_OK(spn_queue_close(q));
    CHECK_EQ(spn_thread_interrupted(), 1);
    shut(q);
}

/* ---- close ---------------------------------------------------------------------------------- */

/* close releases however many wait, on either side, and what they had is theirs. */
TEST_EACH(queue__closed_with_waiters__all_released, "G-20", "G-11")
{
    EACH_FORM(f)
    {
        if (!can_block(k, f))
            continue;
        for (int n = 1; n <= 5; n += 2) {
            spn_queue *q = open_blocking(k, f);
            struct call c[5];
            struct peer p[5];
            bool ok = true;

            for (int i = 0; i < n; i++)
                block_call(&p[i], &c[i], f, q, MINE + i);
            ok = CHECK_OK(spn_queue_close(q)) && ok;
            for (int i = 0; i < n; i++) {
                ok = CHECK_STATUS(peer_finish(&p[i]), SPN_ECLOSED) && ok;
                if (!f->insert)
                    ok = CHECK(c[i].item == NULL) && ok;
            }
            ok = CHECK(unchanged(k, f, q)) && ok;
            shut(q);
            name_form(k, f, ok);
        }
    }
}

/* Closed amid inserts: what was accepted comes out, and every consumer learns of the
 * end, though the last item goes to one of them only. */
struct ending {
    spn_queue *q;
    atomic_int accepted, taken;
};

static void insert_until_closed(int index, void *arg)
{
    struct ending *e = arg;
    void *got;
    int rc;

    switch (index) {
    case 0:
    case 1:
        while ((rc = spn_queue_put(e->q, item(1), SPN_FOREVER)) == SPN_OK) {
            atomic_fetch_add(&e->accepted, 1);
            if (spn_queue_size(e->q) > 50)
                t_pause(); /* an unbounded one would hold the consumers up */
        }
        CHECK_STATUS(rc, SPN_ECLOSED);
        break;
    case 2:
    case 3:
    case 4:
        while ((rc = spn_queue_take(e->q, &got, SPN_FOREVER)) == SPN_OK)
            atomic_fetch_add(&e->taken, 1);
        CHECK_STATUS(rc, SPN_ECLOSED);
        break;
    default:
        T_AWAIT(atomic_load(&e->taken) >= 3);
        CHECK_OK(spn_queue_close(e->q));
        break;
    }
}

TEST_EACH(queue__closed_amid_traffic__accepted_comes_out, "G-15", "G-20")
{
    for (int round = 0; round < t_rounds(100); round++) {
        struct ending e = { .q = open_kind(k) };

        t_parallel(6, insert_until_closed, &e);
        CHECK_EQ(atomic_load(&e.taken), atomic_load(&e.accepted));
        expect_empty(e.q);
        shut(e.q);
    }
}

/* ---- destroy ---------------------------------------------------------------------------------- */

/* destroy with a waiter is refused and changes nothing; after it has gone it works. */
TEST_EACH(queue__destroyed_with_a_waiter__ebusy, "Q-37", "G-17")
{
    EACH_FORM(f)
    {
        spn_queue *q;
        struct call c;
        struct peer p;
        bool ok;

        if (!can_block(k, f))
            continue;
        q = open_blocking(k, f);
        block_call(&p, &c, f, q, MINE);
        for (int i = 0; i < 3; i++)
            ok = CHECK_STATUS(spn_queue_destroy(q), SPN_EBUSY);
        ok = CHECK_EQ(atomic_load(&p.done), 0) && ok;
        ok = CHECK_EQ(spn_queue_size(q), f->always ? 1 : filled(k, f)) && ok;
        ok = CHECK_OK(spn_thread_interrupt(p.thread)) && ok;
        ok = CHECK_STATUS(peer_finish(&p), SPN_EINTR) && ok;
        ok = CHECK_OK(spn_queue_destroy(q)) && ok;
        name_form(k, f, ok);
    }
}
