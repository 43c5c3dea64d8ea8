/* SPDX-License-Identifier: MIT */
/*
 * test_queue.c - many threads, every operation, interrupts, and a close at the end.
 *
 * Each item has an id and a counter of its own.  An insert that says SPN_OK gives the
 * item away; it must come out once, through a removal, a drain, remove_item, or at the
 * very end.  An insert that fails leaves it with the thread, which tries again, so at
 * the end every counter is exactly one.
 */
#include "counting.h"
#include "queue_kinds.h"

#include <sched.h>

enum { PRODUCERS = 3, CONSUMERS = 3, PER_PRODUCER = 1200 };

struct load {
    const struct kind *k;
    spn_queue *q, *side; /* side: where drain_to goes */
    uint64_t seed;
    int per_producer;
    atomic_int delivered[ITEMS];
    atomic_int order[PRODUCERS]; /* inserted so far: an id is known when it is lower */
    atomic_int producing;
    atomic_int eintr, expired;
    atomic_int stop; /* the interrupter may end */
    spn_thread *_Atomic threads[PRODUCERS + CONSUMERS];
};

static void deliver(struct load *l, void *p)
{
    CHECK_EQ(atomic_fetch_add(&l->delivered[index_of(p)], 1), 0);
}

/* Inserts one item in one of the ways there are; false: not this time. */
static bool insert_somehow(struct load *l, uint64_t *seed, void *p)
{
    const int64_t timeout_ns = (int64_t)(t_random(seed) % 100000);
    void *const one[1] = { p };
    size_t done = 0;
    int rc;

    switch (t_random(seed) % 9) {
    case 0:
        rc = spn_queue_put(l->q, p, 0);
        break;
    case 1:
        rc = spn_queue_put(l->q, p, 0);
        break;
    case 2:
        rc = spn_queue_put_many(l->q, one, 1, timeout_ns, &done);
        CHECK_EQ(done, rc == SPN_OK);
        break;
    case 3:
        rc = spn_queue_put(l->q, p, timeout_ns);
        break;
    case 4:
        rc = is(l->k, TRAIT_DEQUE)      ? spn_queue_put_first(l->q, p, SPN_FOREVER)
             : is(l->k, TRAIT_TRANSFER) ? spn_queue_transfer(l->q, p, SPN_FOREVER)
                                        : spn_queue_put(l->q, p, SPN_FOREVER);
        break;
    case 5:
        rc = is(l->k, TRAIT_DEQUE)      ? spn_queue_put_first(l->q, p, timeout_ns)
             : is(l->k, TRAIT_TRANSFER) ? spn_queue_transfer(l->q, p, timeout_ns)
                                        : spn_queue_put(l->q, p, SPN_FOREVER);
        break;
    case 6:
        rc = is(l->k, TRAIT_TRANSFER) ? spn_queue_transfer(l->q, p, 0)
                                      : spn_queue_put_many(l->q, one, 1, 0, NULL);
        break;
    default:
        rc = spn_queue_put(l->q, p, SPN_FOREVER);
        break;
    }
    if (rc == SPN_EINTR)
        atomic_fetch_add(&l->eintr, 1);
    if (rc == SPN_ETIMEDOUT)
        atomic_fetch_add(&l->expired, 1);
    CHECK(rc == SPN_OK || rc == SPN_EINTR || rc == SPN_ETIMEDOUT || rc == SPN_EFULL ||
          rc == SPN_EEMPTY);
    return rc == SPN_OK;
}

static void produce(struct load *l, int index, uint64_t *seed)
{
    for (int i = 0; i < l->per_producer; i++) {
        void *p = item(PRODUCERS * i + index);

        while (!insert_somehow(l, seed, p)) {
        }
        atomic_store(&l->order[index], i + 1);
        while (!is(l->k, BOUNDED) && spn_queue_size(l->q) > 200)
            sched_yield(); /* let the consumers catch up */
    }
}

static int visit_some(void *p, void *ctx)
{
    int *steps = ctx;

    (void)p;
    return --*steps <= 0 ? SPN_QUEUE_STOP : SPN_QUEUE_KEEP;
}

/* Takes in one of the ways; false: closed and empty. */
static bool remove_somehow(struct load *l, uint64_t *seed)
{
    const int64_t timeout_ns = (int64_t)(t_random(seed) % 100000);
    void *got = NULL, *some[7];
    size_t count = 0;
    int64_t n;
    int rc = SPN_OK;

    switch (t_random(seed) % 11) {
    case 0:
        got = take_now(l->q);
        break;
    case 1:
        (void)!spn_queue_take(l->q, &got, 0);
        break;
    case 2:
        rc = spn_queue_take(l->q, &got, timeout_ns);
        break;
    case 3:
        rc = spn_queue_take_many(l->q, some, 7, timeout_ns, &count);
        for (size_t i = 0; i < count; i++)
            deliver(l, some[i]);
        break;
    case 4:
        n = take_some(l->q, some, 3);
        for (int64_t i = 0; i < n; i++)
            deliver(l, some[i]);
        break;
    case 5:
        if (is(l->k, INSIDE)) {
            int64_t moved;

            CHECK_OK(move_to(l->q, l->side, 4, &moved));
            while ((got = take_now(l->side)) != NULL)
                deliver(l, got);
        }
        break;
    case 6:
        if (is(l->k, INSIDE)) { /* one that may be in it */
            const int from = (int)(t_random(seed) % PRODUCERS);
            const int known = atomic_load(&l->order[from]);
            const int back = (int)(t_random(seed) % 8);
            void *p = item(PRODUCERS * (known > back ? known - back : 0) + from);

            if (spn_queue_remove_item(l->q, p) == SPN_OK)
                deliver(l, p);
        }
        break;
    case 7:
        if (is(l->k, TRAIT_DEQUE))
            rc = spn_queue_take_last(l->q, &got, timeout_ns);
        break;
    case 8:
        if (is(l->k, INSIDE)) {
            int steps = (int)(t_random(seed) % 4);

            CHECK_OK(spn_queue_walk(l->q, visit_some, &steps));
            (void)spn_queue_contains(l->q, item(1));
        }
        (void)first_of(l->q);
        break;
    default:
        rc = spn_queue_take(l->q, &got, SPN_FOREVER);
        break;
    }
    if (got != NULL)
        deliver(l, got);
    CHECK((rc == SPN_OK) || got == NULL);
    if (rc == SPN_EINTR)
        atomic_fetch_add(&l->eintr, 1);
    if (rc == SPN_ETIMEDOUT)
        atomic_fetch_add(&l->expired, 1);
    return rc != SPN_ECLOSED;
}

static void work(int index, void *arg)
{
    struct load *l = arg;
    uint64_t seed = l->seed + (uint64_t)index * 0x9E3779B97F4A7C15U;

    if (index == PRODUCERS + CONSUMERS) { /* the interrupter */
        while (atomic_load(&l->stop) < PRODUCERS + CONSUMERS) {
            spn_thread *victim =
                atomic_load(&l->threads[t_random(&seed) % (PRODUCERS + CONSUMERS)]);

            if (victim != NULL)
                CHECK_OK(spn_thread_interrupt(victim));
            for (uint64_t i = t_random(&seed) % 20; i > 0; i--)
                sched_yield();
        }
        return;
    }
    atomic_store(&l->threads[index], spn_thread_ref(spn_thread_current()));
    if (index < PRODUCERS) {
        produce(l, index, &seed);
        if (atomic_fetch_sub(&l->producing, 1) == 1)
            CHECK_OK(spn_queue_close(l->q)); /* the last one */
    } else {
        while (remove_somehow(l, &seed)) {
        }
    }
    atomic_fetch_add(&l->stop, 1);
}

static void run_load(const struct kind *k, int per_producer)
{
    static struct load l;
    void *got;

    memset(&l, 0, sizeof l);
    l.k = k;
    l.q = open_kind(k);
    REQUIRE_OK(spn_queue_create(&l.side, SPN_QUEUE_LINKED, NULL));
    l.seed = t_seed();
    l.per_producer = per_producer;
    atomic_store(&l.producing, PRODUCERS);
    t_parallel(PRODUCERS + CONSUMERS + 1, work, &l);
    while ((got = take_now(l.q)) != NULL || (got = take_now(l.side)) != NULL)
        deliver(&l, got);
    for (int i = 0; i < PRODUCERS * l.per_producer; i++)
        CHECK_EQ(atomic_load(&l.delivered[i]), 1);
    CHECK_EQ(spn_queue_size(l.q), 0);
    CHECK_EQ(spn_queue_waiting_consumers(l.q), 0);
    shut(l.q);
    shut(l.side);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        spn_thread_unref(atomic_load(&l.threads[i]));
}

/* Everything at once: each item comes out exactly once. */
TEST_EACH(stress_queue__everything_at_once__each_item_once, "Q-32", "Q-35", "G-11",
          "G-12", "G-15", "G-20", "SQ-11", "SQ-12", "LTQ-13", "LBD-13", "DQ-14",
          "PBQ-9", "LBQ-5", "LBQ-6")
{
    run_load(k, t_rounds(PER_PRODUCER));
}

/* The same on one CPU, where a thread is preempted between any two steps and spinning
 * is of no use. */
TEST_EACH(stress_queue__on_one_cpu__each_item_once, "Q-32", "G-20", "S-3", "P14")
{
    cpu_set_t all, one;
    size_t cpu = 0;

    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0); /* threads inherit it */
    run_load(k, t_rounds(PER_PRODUCER / 4));
    REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
}

/* ---- Q-33 --------------------------------------------------------------------------------- */

/* Four threads that offer, peek and poll: between its own offer and its own poll no
 * thread finds the queue empty. */
struct own {
    spn_queue *q;
    int rounds;
};

static void offer_peek_poll(int index, void *arg)
{
    struct own *o = arg;

    for (int i = 0; i < o->rounds; i++) {
        CHECK_OK(spn_queue_put(o->q, item(index), 0));
        CHECK(first_of(o->q) != NULL);
        CHECK(take_now(o->q) != NULL);
    }
}

TEST_EACH(stress_queue__offer_peek_poll__never_nothing, "Q-33", "LTQ-15")
{
    struct own o = { .rounds = t_rounds(10000) };

    if (!is(k, KEEPS | INSIDE) || (is(k, BOUNDED) && k->capacity < 4))
        return;
    o.q = open_kind(k);
    t_parallel(4, offer_peek_poll, &o);
    expect_empty(o.q);
    shut(o.q);
}

/* ---- fairness, order -------------------------------------------------------------------------- */

/* With one consumer the items of each producer come in that producer's order. */
struct lanes {
    spn_queue *q;
    int count;
};

static void in_lanes(int index, void *arg)
{
    struct lanes *l = arg;
    int last[3] = { -1, -1, -1 };
    void *got;

    if (index < 3) {
        for (int i = 0; i < l->count; i++)
            CHECK_OK(spn_queue_put(l->q, item(3 * i + index), SPN_FOREVER));
        return;
    }
    for (int i = 0; i < 3 * l->count; i++) {
        CHECK_OK(spn_queue_take(l->q, &got, SPN_FOREVER));
        CHECK(index_of(got) / 3 > last[index_of(got) % 3]);
        last[index_of(got) % 3] = index_of(got) / 3;
    }
}

TEST_EACH(stress_queue__one_consumer__each_producer_in_order, "Q-11", "Q-22", "G-19")
{
    struct lanes l = { open_kind(k), t_rounds(1300) };

    if (is(k, FIFO) || !is(k, KEEPS)) /* a producer waits until its item is taken */
        t_parallel(4, in_lanes, &l);
    shut(l.q);
}

/* ---- interrupt against success ------------------------------------------------------------------ */

/* A taker is served and interrupted at the same time: the item and the flag, or
 * neither, never the item without the flag nor the flag with SPN_EINTR. */
struct collision {
    const struct form *form;
    spn_queue *q;
    spn_thread *_Atomic victim;
    atomic_int round, finished, outcome;
    int rounds;
    atomic_int intr, ok;
};

static void collide(int index, void *arg)
{
    struct collision *c = arg;

    if (index == 0)
        atomic_store(&c->victim, spn_thread_ref(spn_thread_current()));
    T_AWAIT(atomic_load(&c->victim) != NULL);
    for (int i = 1; i <= c->rounds; i++) {
        if (index == 0) {
            struct call call = { c->form, c->q, item(5), SPN_FOREVER };
            int rc, flag;

            atomic_store(&c->round, i);
            rc = c->form->run(&call);
            /* The interrupt of this round is on its way, if it did not end it. */
            if (rc == SPN_OK)
                T_AWAIT(spn_thread_is_interrupted(atomic_load(&c->victim)) == 1);
            flag = spn_thread_interrupted();
            CHECK(rc == SPN_OK || rc == SPN_EINTR);
            CHECK_EQ(flag, rc == SPN_OK);
            atomic_fetch_add(rc == SPN_OK ? &c->ok : &c->intr, 1);
            atomic_store(&c->outcome, rc == SPN_OK ? 1 : 2);
            T_AWAIT(atomic_load(&c->finished) == i);
        } else {
            T_AWAIT(atomic_load(&c->round) == i);
            for (int spin = 0; spin < i % 50; spin++)
                atomic_load(&c->round);
            atomic_store(&c->outcome, 0);
            if (index == 1)
                CHECK_OK(spn_thread_interrupt(atomic_load(&c->victim)));
        }
        if (index == 1) {
            /* Serve it now, as well. */
            bool served;

            if (c->form->insert)
                served = take_now(c->q) != NULL;
            else
                served = spn_queue_put(c->q, item(6), 0) == SPN_OK;
            T_AWAIT(atomic_load(&c->outcome) != 0);
            /* What nobody took is there, and only that. */
            if (!c->form->insert && served)
                CHECK_EQ(take_now(c->q) != NULL, atomic_load(&c->outcome) == 2);
            if (c->form->insert && !c->form->always && spn_queue_capacity(c->q) > 0) {
                /* One out; one in if it succeeded: full again, or not. */
                CHECK_EQ(room_left(c->q), atomic_load(&c->outcome) == 2);
                if (atomic_load(&c->outcome) == 2)
                    CHECK_OK(spn_queue_put(c->q, item(7), 0));
            }
            if (c->form->always || spn_queue_capacity(c->q) == 0)
                CHECK(take_now(c->q) == NULL);
            atomic_store(&c->finished, i);
        }
    }
}

TEST_EACH(stress_queue__served_and_interrupted__one_outcome, "G-12", "SQ-17", "Q-32",
          "DQ-14")
{
    for (int f = 0; f < FORMS; f++) {
        struct collision c = { .form = &forms[f], .rounds = t_rounds(150) };

        if (!can_block(k, &forms[f]))
            continue;
        c.q = open_blocking(k, &forms[f]);
        t_parallel(2, collide, &c);
        CHECK_EQ(atomic_load(&c.ok) + atomic_load(&c.intr), c.rounds);
        spn_thread_unref(atomic_load(&c.victim));
        (void)take_all(c.q);
        shut(c.q);
    }
}

/* Two takers, one item, and one of the two is interrupted: it has the item and the flag,
 * or SPN_EINTR and no flag, and then the item goes to the other. */
struct rivals {
    spn_queue *q;
    spn_thread *_Atomic victim;
    atomic_int waiting, finished;
    int rounds;
    uint64_t seed;
};

static void rival(int index, void *arg)
{
    struct rivals *r = arg;
    uint64_t seed = r->seed;

    if (index == 1)
        atomic_store(&r->victim, spn_thread_ref(spn_thread_current()));
    T_AWAIT(atomic_load(&r->victim) != NULL);
    for (int i = 1; i <= r->rounds; i++) {
        if (index < 2) {
            void *got = NULL;
            int rc;

            /* Now the one comes first, now the other. */
            if (index == i / 4 % 2)
                T_AWAIT(spn_queue_waiting_consumers(r->q) == 1);
            atomic_fetch_add(&r->waiting, 1);
            rc = spn_queue_take(r->q, &got, SPN_FOREVER);
            if (index == 1) {
                if (rc == SPN_OK)
                    T_AWAIT(spn_thread_is_interrupted(atomic_load(&r->victim)) == 1);
                CHECK_EQ(spn_thread_interrupted(), rc == SPN_OK);
                CHECK(rc == SPN_OK || rc == SPN_EINTR);
                if (rc == SPN_OK) /* then the other has got nothing yet */
                    CHECK_OK(spn_queue_put(r->q, item(2), SPN_FOREVER));
            } else {
                CHECK_OK(rc);
            }
            CHECK_EQ(got != NULL, rc == SPN_OK);
            atomic_fetch_add(&r->finished, 1);
        } else {
            const uint64_t apart = t_random(&seed) % 4000; /* up to some microseconds */

            T_AWAIT(atomic_load(&r->waiting) == 2 * i);
            while (i % 4 != 0 && spn_queue_waiting_consumers(r->q) < 2)
                sched_yield(); /* mostly while both sleep */
            if (i % 2 == 0)
                CHECK_OK(spn_queue_put(r->q, item(1), SPN_FOREVER));
            else
                CHECK_OK(spn_thread_interrupt(atomic_load(&r->victim)));
            for (uint64_t spin = 0; spin < apart; spin++)
                atomic_signal_fence(memory_order_seq_cst);
            if (i % 2 == 0)
                CHECK_OK(spn_thread_interrupt(atomic_load(&r->victim)));
            else
                CHECK_OK(spn_queue_put(r->q, item(1), SPN_FOREVER));
        }
        T_AWAIT(atomic_load(&r->finished) == 2 * i);
    }
}

TEST_EACH(stress_queue__one_of_two_takers_interrupted__one_outcome, "G-12", "Q-32",
          "DQ-14", "SQ-11")
{
    struct rivals r = { .q = open_kind(k), .rounds = t_rounds(1000), .seed = t_seed() };

    t_parallel(3, rival, &r);
    expect_empty(r.q);
    spn_thread_unref(atomic_load(&r.victim));
    shut(r.q);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

/* Waiters that time out or are interrupted by the thousand leave no memory. */
struct leavers {
    spn_queue *q;
    const struct kind *k;
    int rounds;
    uint64_t seed;
};

static void wait_and_leave(int index, void *arg)
{
    struct leavers *l = arg;
    uint64_t seed = l->seed + (uint64_t)index;

    for (int i = 0; i < l->rounds; i++) {
        const struct form *f = &forms[t_random(&seed) % FORMS];
        struct call c = { f, l->q, item(9), (int64_t)(t_random(&seed) % 3000) };

        if (!can_block(l->k, f))
            continue;
        if (t_random(&seed) % 4 == 0)
            CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        (void)f->run(&c);
        (void)spn_thread_interrupted();
    }
}

TEST_EACH(stress_queue__many_waiters_leave__no_memory, "SQ-13", "SQ-14", "LTQ-14")
{
    struct leavers l = { open_full(k), k, t_rounds(1500), t_seed() };
    long live = 0;

    for (int round = 0; round < 3; round++) {
        t_parallel(4, wait_and_leave, &l);
        while (spn_queue_size(l.q) < room_of(k)) /* as full as before */
            CHECK_OK(spn_queue_put(l.q, item(1), 0));
        while (spn_queue_size(l.q) > room_of(k))
            CHECK(take_now(l.q) != NULL);
        CHECK_EQ(spn_queue_waiting_consumers(l.q), 0);
        if (round == 0)
            live = atomic_load(&counting_live);
    }
    CHECK(atomic_load(&counting_live) <= live + 8); /* a few records of threads */
    shut(l.q);
}
