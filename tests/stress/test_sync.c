/* SPDX-License-Identifier: MIT */
/*
 * test_sync.c - the synchronisation calls under many threads.  Each test counts
 * every item it handed over and wants exactly one of each; what is plain memory
 * here is ordered by nothing but the calls under test.
 */
#include "counting.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <spindle/clock.h>
#include <spindle/latch.h>
#include <spindle/park.h>
#include <spindle/semaphore.h>
#include <spindle/thread.h>

#include "sync/lock.h"

static spn_semaphore *make_semaphore(int32_t permits, uint32_t fair)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;
    spn_semaphore *semaphore;

    opts.permits = permits;
    opts.fair = fair;
    REQUIRE_OK(spn_semaphore_create(&semaphore, &opts));
    return semaphore;
}

/* ---- a bounded buffer made of semaphores ---------------------------------------- */

enum { PRODUCERS = 3, CONSUMERS = 3, SLOTS = 7, ITEMS_MAX = 20000 };

struct buffer {
    spn_semaphore *free, *full, *mutex;
    int items;                /* per producer */
    int slots[SLOTS];         /* plain: producer * items + sequence number */
    int head, tail;           /* plain, under mutex */
    int last_seen[PRODUCERS]; /* plain, under mutex */
    unsigned char seen[PRODUCERS * ITEMS_MAX];
    atomic_int consumed;
};

static void produce(struct buffer *b, int producer)
{
    for (int i = 0; i < b->items; i++) {
        CHECK_OK(spn_semaphore_acquire(b->free, 1, SPN_FOREVER));
        CHECK_OK(spn_semaphore_acquire(b->mutex, 1, SPN_FOREVER));
        b->slots[b->tail] = producer * b->items + i;
        b->tail = (b->tail + 1) % SLOTS;
        CHECK_OK(spn_semaphore_release(b->mutex, 1));
        CHECK_OK(spn_semaphore_release(b->full, 1));
    }
}

static void consume(struct buffer *b, uint64_t state)
{
    while (atomic_fetch_add(&b->consumed, 1) < PRODUCERS * b->items) {
        /* A timeout may end the wait; it must not eat a permit. */
        int rc, item;

        do
            rc =
                spn_semaphore_acquire(b->full, 1, (int64_t)(t_random(&state) % 200000));
        while (rc == SPN_ETIMEDOUT);
        CHECK_OK(rc);
        CHECK_OK(spn_semaphore_acquire(b->mutex, 1, SPN_FOREVER));
        item = b->slots[b->head];
        b->head = (b->head + 1) % SLOTS;
        b->seen[item]++;
        CHECK(item % b->items == b->last_seen[item / b->items] + 1); /* in order */
        b->last_seen[item / b->items] = item % b->items;
        CHECK_OK(spn_semaphore_release(b->mutex, 1));
        CHECK_OK(spn_semaphore_release(b->free, 1));
    }
}

static void buffer_role(int index, void *arg)
{
    if (index < PRODUCERS)
        produce(arg, index);
    else
        consume(arg, t_seed() + (uint64_t)index);
}

/* Every item passes a buffer made of semaphores exactly once, each producer's in
 * order. */
TEST(stress__semaphores_as_a_bounded_buffer__each_item_once, "G-15", "G-19", "G-20",
     "P5")
{
    static struct buffer b;

    for (uint32_t fair = 0; fair < 2; fair++) {
        memset(&b, 0, sizeof b);
        b.items = t_rounds(fair ? ITEMS_MAX / 4 : ITEMS_MAX);
        b.free = make_semaphore(SLOTS, fair);
        b.full = make_semaphore(0, fair);
        b.mutex = make_semaphore(1, fair);
        for (int i = 0; i < PRODUCERS; i++)
            b.last_seen[i] = -1;
        t_parallel(PRODUCERS + CONSUMERS, buffer_role, &b);
        for (int i = 0; i < PRODUCERS * b.items; i++)
            if (!CHECK_EQ(b.seen[i], 1))
                break;
        CHECK_EQ(spn_semaphore_available(b.free), SLOTS);
        CHECK_EQ(spn_semaphore_available(b.full), 0);
        CHECK_EQ(spn_semaphore_available(b.mutex), 1);
        CHECK_OK(spn_semaphore_destroy(b.free));
        CHECK_OK(spn_semaphore_destroy(b.full));
        CHECK_OK(spn_semaphore_destroy(b.mutex));
    }
}

/* ---- fan-in ------------------------------------------------------------------------ */

struct fan_in {
    _Atomic(spn_latch *) latch; /* this round's */
    atomic_int round;
    atomic_int out; /* workers done with the round's latch */
    int rounds;
    int parts[T_THREADS]; /* plain: the latch is what orders */
};

static void fan_in_role(int index, void *arg)
{
    struct fan_in *f = arg;

    for (int r = 1; r <= f->rounds; r++) {
        if (index > 0) {
            T_AWAIT(atomic_load(&f->round) == r);
            f->parts[index - 1] = r * index;
            CHECK_OK(spn_latch_count_down(atomic_load(&f->latch)));
            atomic_fetch_add(&f->out, 1);
        } else {
            spn_latch *latch;
            int sum = 0;

            REQUIRE_OK(spn_latch_create(&latch, T_THREADS));
            atomic_store(&f->latch, latch);
            atomic_store(&f->round, r);
            CHECK_OK(spn_latch_await(latch, SPN_FOREVER));
            for (int i = 0; i < T_THREADS; i++)
                sum += f->parts[i];
            CHECK_EQ(sum, r * T_THREADS * (T_THREADS + 1) / 2);
            CHECK_OK(spn_latch_destroy(latch)); /* the last count_down may be in it */
            T_AWAIT(atomic_load(&f->out) == r * T_THREADS);
        }
    }
}

/* The one who waits sees all parts as soon as the latch opens, and may free it. */
TEST(stress__latch_fan_in__all_parts_seen, "G-17", "G-19", "G-20")
{
    struct fan_in f = { .rounds = t_rounds(10000) };
    t_parallel(T_THREADS + 1, fan_in_role, &f);
}

/* ---- park -------------------------------------------------------------------------- */

struct ring {
    _Atomic(spn_thread *) threads[T_THREADS];
    atomic_long token; /* whose turn: token % T_THREADS */
    long passes;
    long total; /* plain: only the holder of the token touches it */
};

static void pass_token(int index, void *arg)
{
    struct ring *r = arg;
    spn_thread *next;
    long t;

    atomic_store(&r->threads[index], spn_thread_current());
    T_AWAIT((next = atomic_load(&r->threads[(index + 1) % T_THREADS])) != NULL);
    next = spn_thread_ref(next);
    for (;;) {
        while ((t = atomic_load(&r->token)) % T_THREADS != index && t < r->passes)
            spn_park(r);
        if (t >= r->passes)
            break;
        r->total++;
        atomic_store(&r->token, t + 1);
        spn_unpark(next);
    }
    spn_unpark(next); /* let it see the end */
    spn_thread_unref(next);
}

/* A token goes round a ring of parked threads; it is never lost or doubled. */
TEST(stress__token_round_a_ring_of_parked_threads__never_lost, "LS-2", "LS-9", "G-20",
     "P5")
{
    struct ring r = { .passes = t_rounds(60000) };

    t_parallel(T_THREADS, pass_token, &r);
    CHECK_EQ(r.total, r.passes);
}

/* ---- interrupts against acquires ---------------------------------------------------- */

enum { ACQUIRERS = 4, STORM_PERMITS = 5 };

struct storm {
    spn_semaphore *semaphore;
    spn_thread *threads[ACQUIRERS];
    atomic_int ready, stop;
    int rounds;
    atomic_long served, timed_out, interrupted, sent;
    atomic_int held; /* permits taken by those who say SPN_OK */
};

struct storm_arg {
    struct storm *storm;
    int index;
};

static int acquire_in_storm(void *arg)
{
    const struct storm_arg *a = arg;
    struct storm *s = a->storm;
    uint64_t state = t_seed() + (uint64_t)a->index;

    atomic_fetch_add(&s->ready, 1);
    for (int i = 0; i < s->rounds; i++) {
        const int32_t count = (int32_t)(1 + t_random(&state) % 3);
        const int64_t timeout = t_random(&state) % 3 == 0
                                    ? SPN_FOREVER
                                    : (int64_t)(t_random(&state) % 30000);
        const int rc = spn_semaphore_acquire(s->semaphore, count, timeout);

        if (rc == SPN_OK) {
            CHECK(atomic_fetch_add(&s->held, count) + count <= STORM_PERMITS);
            atomic_fetch_add(&s->served, 1);
            if (t_random(&state) % 4 == 0)
                t_pause();
            atomic_fetch_sub(&s->held, count);
            CHECK_OK(spn_semaphore_release(s->semaphore, count));
        } else if (rc == SPN_EINTR) {
            atomic_fetch_add(&s->interrupted, 1);
        } else {
            CHECK_STATUS(rc, SPN_ETIMEDOUT);
            CHECK(timeout != SPN_FOREVER);
            atomic_fetch_add(&s->timed_out, 1);
        }
    }
    return 0;
}

static int interrupt_at_random(void *arg)
{
    struct storm *s = arg;
    uint64_t state = t_seed();

    while (atomic_load(&s->stop) == 0) {
        CHECK_OK(spn_thread_interrupt(s->threads[t_random(&state) % ACQUIRERS]));
        atomic_fetch_add(&s->sent, 1);
        if (t_random(&state) % 2 == 0)
            t_pause();
    }
    return 0;
}

/* Whatever interrupts and timeouts do to the waits, no permit is lost or made. */
TEST(stress__interrupt_storm_on_a_semaphore__permits_exact, "G-11", "G-12", "G-20")
{
    for (uint32_t fair = 0; fair < 2; fair++) {
        struct storm s = { .semaphore = make_semaphore(STORM_PERMITS, fair),
                           .rounds = t_rounds(15000) };
        struct storm_arg args[ACQUIRERS];
        spn_thread *interrupter;

        for (int i = 0; i < ACQUIRERS; i++) {
            args[i] = (struct storm_arg){ &s, i };
            REQUIRE_OK(
                spn_thread_create(&s.threads[i], NULL, acquire_in_storm, &args[i]));
        }
        REQUIRE_OK(spn_thread_create(&interrupter, NULL, interrupt_at_random, &s));
        for (int i = 0; i < ACQUIRERS; i++)
            CHECK_OK(spn_thread_join(s.threads[i], SPN_FOREVER, NULL));
        atomic_store(&s.stop, 1);
        CHECK_OK(spn_thread_join(interrupter, SPN_FOREVER, NULL));
        spn_thread_unref(interrupter);
        for (int i = 0; i < ACQUIRERS; i++)
            spn_thread_unref(s.threads[i]);
        CHECK_EQ(atomic_load(&s.served) + atomic_load(&s.timed_out) +
                     atomic_load(&s.interrupted),
                 (long)ACQUIRERS * s.rounds);
        CHECK(atomic_load(&s.interrupted) <= atomic_load(&s.sent));
        CHECK_EQ(atomic_load(&s.held), 0);
        CHECK_EQ(spn_semaphore_available(s.semaphore), STORM_PERMITS);
        CHECK_OK(spn_semaphore_destroy(s.semaphore));
    }
}

/* ---- foreign threads that come and go ------------------------------------------------- */

struct churn {
    spn_semaphore *semaphore;
    int threads; /* per spawner */
    atomic_int worked;
};

struct visitor {
    struct churn *churn;
    spn_thread *handle; /* its own, given to the spawner */
    int acquired;
};

static void *visit(void *arg)
{
    struct visitor *v = arg;

    v->handle = spn_thread_ref(spn_thread_current());
    v->acquired =
        spn_semaphore_acquire(v->churn->semaphore, 1, SPN_FOREVER) == SPN_OK &&
        spn_semaphore_release(v->churn->semaphore, 1) == SPN_OK;
    return NULL;
}

static void spawn_visitors(int index, void *arg)
{
    struct churn *c = arg;

    (void)index;
    for (int i = 0; i < c->threads; i++) {
        struct visitor v = { .churn = c };
        pthread_t id;

        REQUIRE(pthread_create(&id, NULL, visit, &v) == 0);
        REQUIRE(pthread_join(id, NULL) == 0);
        atomic_fetch_add(&c->worked, v.acquired);
        /* Its record may be another thread's by now only if nobody had a handle. */
        spn_unpark(v.handle);
        CHECK_OK(spn_thread_interrupt(v.handle));
        CHECK_EQ(spn_thread_is_interrupted(v.handle), 0);
        spn_thread_unref(v.handle);
    }
}

/* Handles of threads that have gone disturb nobody, and their records are used
 * again. */
TEST(stress__foreign_threads_come_and_go__records_reused, "G-14", "G-16")
{
    struct churn c = { .semaphore = make_semaphore(2, 0), .threads = t_rounds(1500) };
    const long before = atomic_load(&counting_live);

    t_parallel(T_THREADS, spawn_visitors, &c);
    CHECK_EQ(atomic_load(&c.worked), T_THREADS * c.threads);
    CHECK(atomic_load(&counting_live) <= before + 4 * T_THREADS);
    CHECK_EQ(spn_semaphore_available(c.semaphore), 2);
    CHECK_OK(spn_semaphore_destroy(c.semaphore));
}

/* ---- the lock ---------------------------------------------------------------------------- */

struct guarded {
    struct spn__lock lock;
    long count; /* plain: the lock is what orders */
    int rounds;
};

static void count_under_lock(int index, void *arg)
{
    struct guarded *g = arg;
    uint64_t state = t_seed() + (uint64_t)index;

    for (int i = 0; i < g->rounds; i++) {
        if (t_random(&state) % 8 == 0)
            T_AWAIT(spn__lock_try(&g->lock));
        else
            spn__lock(&g->lock);
        g->count++;
        if (t_random(&state) % 64 == 0)
            t_pause(); /* a holder that loses its CPU */
        spn__unlock(&g->lock);
    }
}

/* The lock lets one thread in at a time and wakes who waits. */
TEST(stress__lock_and_counter__every_step_counted, "G-19", "G-20")
{
    struct guarded g = { .lock = SPN__LOCK_INIT, .rounds = t_rounds(100000) };

    t_parallel(T_THREADS, count_under_lock, &g);
    CHECK_EQ(g.count, (long)T_THREADS * g.rounds);
}

/* ---- a manual clock ------------------------------------------------------------------------ */

struct sleepers {
    spn_clock *clock;
    int rounds;
    atomic_int left; /* sleepers that have not finished */
    atomic_long slept;
};

static void sleep_at_random(int index, void *arg)
{
    struct sleepers *s = arg;
    uint64_t state = t_seed() + (uint64_t)index;

    if (index == T_THREADS) { /* the one who drives */
        while (atomic_load(&s->left) > 0) {
            const int rc = spn_clock_advance_to_next(s->clock, NULL);

            CHECK(rc == SPN_OK || rc == SPN_EEMPTY);
            if (rc == SPN_EEMPTY)
                t_pause();
        }
        return;
    }
    for (int i = 0; i < s->rounds; i++) {
        const int64_t deadline =
            spn_clock_now(s->clock) + (int64_t)(t_random(&state) % 1000);

        CHECK_OK(spn_clock_sleep_until(s->clock, deadline));
        CHECK(spn_clock_now(s->clock) >= deadline);
        atomic_fetch_add(&s->slept, 1);
    }
    atomic_fetch_sub(&s->left, 1);
}

/* Sleepers with random deadlines are all woken, none before its time. */
TEST(stress__random_sleepers_on_a_manual_clock__all_woken, "G-7", "G-20")
{
    struct sleepers s = { .rounds = t_rounds(15000), .left = T_THREADS };

    REQUIRE_OK(spn_clock_create_manual(&s.clock, 0));
    t_parallel(T_THREADS + 1, sleep_at_random, &s);
    CHECK_EQ(atomic_load(&s.slept), (long)T_THREADS * s.rounds);
    CHECK_OK(spn_clock_destroy(s.clock));
}
