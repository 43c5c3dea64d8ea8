/* SPDX-License-Identifier: MIT */
/*
 * F1 - a promise is completed by one side and got by the other.
 *
 *   alone     nobody waits: complete, then get, on one thread
 *   spinning  two threads on two CPUs hand a value back and forth as fast as they
 *             can: the getter comes first and looks while the completer is on its
 *             way.  One hand-over, half a round trip.
 *   parked    the completer waits until the getter must be asleep, on two CPUs and
 *             on one; counted from right before complete to right after get.
 *
 * The futures are used again and again, by putting their state back while nobody
 * has them, so that what is measured is completing and getting and not memory; what
 * making one costs too is reported beside it (lifetime).  The floor is one word: a
 * compare-and-swap to claim and an exchange to publish, and the bare futex.
 */
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <spindle.h>

#include "bench.h"
#include "future/core.h"
#include "pair.h"

#define BLOCK         64 /* futures that fit the first cache together */
#define ALONE         20000000
#define ROUND_TRIPS   500000
#define PARKED_ROUNDS 4000
#define WARM_UP       200
#define UNTIL_ASLEEP  50000 /* ns: far longer than anybody looks before sleeping */

struct cell {
    alignas(64) _Atomic(uint32_t) state; /* 0 new, 1 completing, 2 done, 8 asleep */
    void *value;
};

/* What a subject can do. */
struct kind {
    void *(*create)(void);
    void (*destroy)(void *future);
    void (*reset)(void *future);
    void (*complete)(void *future, void *value);
    void *(*get)(void *future);
};

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- nobody waits ----------------------------------------------------------- */

static void run_alone(struct bench *b, const struct kind *kind)
{
    const uint64_t rounds = bench_count(b, ALONE) / BLOCK;
    uint64_t lifetimes;
    void *futures[BLOCK];
    int64_t start;

    for (int i = 0; i < BLOCK; i++)
        futures[i] = kind->create();
    for (uint64_t r = 0; r <= rounds; r++) {
        if (r == 1)
            bench_start(b);
        for (int i = 0; i < BLOCK; i++)
            kind->reset(futures[i]);
        for (int i = 0; i < BLOCK; i++) {
            kind->complete(futures[i], &futures[i]);
            BENCH_CHECK(b, kind->get(futures[i]) == &futures[i]);
        }
    }
    bench_stop(b, rounds * BLOCK);
    for (int i = 0; i < BLOCK; i++)
        kind->destroy(futures[i]);

    lifetimes = bench_count(b, ALONE / 10);
    start = now_ns();
    for (uint64_t i = 0; i < lifetimes; i++) {
        void *f = kind->create();

        kind->complete(f, &start);
        BENCH_CHECK(b, kind->get(f) == &start);
        kind->destroy(f);
    }
    bench_report(b, "ns_per_lifetime", (double)(now_ns() - start) / (double)lifetimes);
}

/* ---- two threads -------------------------------------------------------------- */

enum { RING = 4 }; /* a future is put back when both have left it behind */

struct hand_over {
    const struct kind *kind;
    void *there[RING], *back[RING];
    uint64_t rounds;
    bool parked;
    alignas(64) int64_t sent_ns; /* by the last complete, ordered by the future */
    alignas(64) int64_t total_ns;
};

/* Lets the other side fall asleep. */
static void pause_until_asleep(const struct hand_over *h)
{
    const int64_t start = now_ns();
    const struct timespec nap = { 0, UNTIL_ASLEEP };

    if (!h->parked)
        return;
    while (now_ns() - start < UNTIL_ASLEEP)
        nanosleep(&nap, NULL); /* gives the CPU away, where there is only one */
}

static void send_one(struct hand_over *h, void **ring, uint64_t round)
{
    h->kind->reset(ring[(round + 1) % RING]);
    pause_until_asleep(h);
    if (h->parked)
        h->sent_ns = now_ns();
    h->kind->complete(ring[round % RING], h);
}

static void receive_one(struct bench *b, struct hand_over *h, void **ring,
                        uint64_t round, bool count)
{
    BENCH_CHECK(b, h->kind->get(ring[round % RING]) == h);
    if (h->parked && count)
        h->total_ns += now_ns() - h->sent_ns;
}

struct partner {
    struct bench *b;
    struct hand_over *h;
};

static void answer(void *arg)
{
    struct partner *p = arg;

    for (uint64_t i = 0; i < p->h->rounds; i++) {
        receive_one(p->b, p->h, p->h->there, i, i >= WARM_UP);
        send_one(p->h, p->h->back, i);
    }
}

static void run_pair(struct bench *b, const struct kind *kind)
{
    static struct hand_over h;
    static struct partner partner;
    struct bench_thread *thread;
    uint64_t count;

    h.kind = kind;
    h.parked = !bench_variant_is(b, "spinning");
    count = bench_count(b, h.parked ? PARKED_ROUNDS : ROUND_TRIPS);
    h.rounds = WARM_UP + count;
    for (int i = 0; i < RING; i++) {
        h.there[i] = kind->create();
        h.back[i] = kind->create();
    }
    partner = (struct partner){ b, &h };
    thread = bench_thread_start(b, answer, &partner);
    for (uint64_t i = 0; i < h.rounds; i++) {
        if (i == WARM_UP)
            bench_start(b);
        send_one(&h, h.there, i);
        receive_one(b, &h, h.back, i, i >= WARM_UP);
    }
    if (h.parked)
        bench_report(b, "ns_per_handover", (double)h.total_ns / (double)(2 * count));
    else
        bench_stop(b, 2 * count);
    bench_thread_join(thread);
    for (int i = 0; i < RING; i++) {
        kind->destroy(h.there[i]);
        kind->destroy(h.back[i]);
    }
}

static void run(struct bench *b, const struct kind *kind)
{
    if (bench_variant_is(b, "alone"))
        run_alone(b, kind);
    else
        run_pair(b, kind);
}

/* ---- spindle ------------------------------------------------------------------ */

static void *spindle_create(void)
{
    spn_future *f;

    if (spn_future_create(&f, NULL) != SPN_OK)
        abort();
    return f;
}
static void spindle_destroy(void *f)
{
    spn_future_unref(f);
}
/* Nobody has it: as good as new. */
static void spindle_reset(void *p)
{
    struct spn_future *f = p;

    spn__store(&f->state, SPN__NEW, relaxed);
    f->taken = false;
}
static void spindle_complete(void *f, void *value)
{
    (void)spn_future_complete(f, value);
}
static void *spindle_get(void *f)
{
    void *value = NULL;

    return spn_future_get(f, &value, SPN_FOREVER) == SPN_OK ? value : NULL;
}
static void run_spindle(struct bench *b)
{
    static const struct kind kind = { spindle_create, spindle_destroy, spindle_reset,
                                      spindle_complete, spindle_get };
    run(b, &kind);
}

/* ---- the floor ------------------------------------------------------------------ */

static void *floor_create(void)
{
    struct cell *c = aligned_alloc(alignof(struct cell), sizeof *c);

    if (c == NULL)
        abort();
    atomic_init(&c->state, 0);
    return c;
}
static void floor_reset(void *p)
{
    struct cell *c = p;

    atomic_store_explicit(&c->state, 0, memory_order_relaxed);
}
static void floor_complete(void *p, void *value)
{
    struct cell *c = p;
    uint32_t found = atomic_load_explicit(&c->state, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(&c->state, &found, found | 1,
                                                  memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
    c->value = value;
    if (atomic_exchange_explicit(&c->state, 2, memory_order_acq_rel) & 8)
        (void)syscall(SYS_futex, &c->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
static void *floor_get_spinning(void *p)
{
    struct cell *c = p;
    int spins = 0;

    while (atomic_load_explicit(&c->state, memory_order_acquire) != 2)
        spin_pause(&spins);
    return c->value;
}
static void *floor_get_parked(void *p)
{
    struct cell *c = p;
    uint32_t found;

    while ((found = atomic_load_explicit(&c->state, memory_order_acquire)) != 2)
        if ((found & 8) != 0 ||
            atomic_compare_exchange_strong(&c->state, &found, found | 8))
            (void)syscall(SYS_futex, &c->state, FUTEX_WAIT_PRIVATE, found | 8, NULL,
                          NULL, 0);
    return c->value;
}
static void run_floor(struct bench *b)
{
    static const struct kind spinning = { floor_create, free, floor_reset,
                                          floor_complete, floor_get_spinning };
    static const struct kind parked = { floor_create, free, floor_reset, floor_complete,
                                        floor_get_parked };

    run(b, bench_variant_is(b, "spinning") ? &spinning : &parked);
}

/* ---- made by hand of a mutex and a condition variable ------------------------------ */

struct hand_made {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool done; /* guarded by the mutex */
    void *value;
};

static void *hand_made_create(void)
{
    struct hand_made *f = malloc(sizeof *f);

    if (f == NULL)
        abort();
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->cond, NULL);
    f->done = false;
    return f;
}
static void hand_made_destroy(void *p)
{
    struct hand_made *f = p;

    pthread_cond_destroy(&f->cond);
    pthread_mutex_destroy(&f->mutex);
    free(f);
}
static void hand_made_reset(void *p)
{
    ((struct hand_made *)p)->done = false;
}
static void hand_made_complete(void *p, void *value)
{
    struct hand_made *f = p;

    pthread_mutex_lock(&f->mutex);
    f->value = value;
    f->done = true;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->mutex);
}
static void *hand_made_get(void *p)
{
    struct hand_made *f = p;
    void *value;

    pthread_mutex_lock(&f->mutex);
    while (!f->done)
        pthread_cond_wait(&f->cond, &f->mutex);
    value = f->value;
    pthread_mutex_unlock(&f->mutex);
    return value;
}
static void run_hand_made(struct bench *b)
{
    static const struct kind kind = { hand_made_create, hand_made_destroy,
                                      hand_made_reset, hand_made_complete,
                                      hand_made_get };
    run(b, &kind);
}

BENCH_WORKLOAD(f1) = {
    .name = "F1",
    .question = "What does it cost to complete a future and to get its value?",
    .metric = "ns_per_handover",
    .variants = { { .name = "alone" },
                  { .name = "spinning", .pinned = true, .cpus = 2 },
                  { .name = "parked-two-cpus", .pinned = true, .cpus = 2 },
                  { .name = "parked-one-cpu", .pinned = true, .cpus = 1 } },
    .subjects = { { .name = "spindle", .run = run_spindle },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "one word and the bare futex" },
                  { .name = "glibc mutex+cond",
                    .run = run_hand_made,
                    .version = bench_glibc_version } },
};
