/* SPDX-License-Identifier: MIT */
/*
 * S5 - a latch used once, as for "wait until this one thing is done": create,
 * count down, await, destroy.  Alone, it has been opened when it is awaited;
 * with two threads the other one opens it, as soon as it sees it.
 */
#include <pthread.h>
#include <stdlib.h>

#include <spindle.h>

#include "bench.h"
#include "pair.h"

#define LATCHES_ALONE 2000000
#define LATCHES_PAIR  20000
#define WARM_UP       200

struct latch_kind {
    void *(*create)(void);
    void (*count_down)(void *latch);
    void (*await_and_destroy)(void *latch);
};

/* The other thread spins for the next latch: what is measured is the latch. */
struct giving {
    alignas(64) _Atomic(void *) next;
    alignas(64) const struct latch_kind *kind;
    uint64_t rounds;
};

static void open_each(void *arg)
{
    struct giving *g = arg;
    int spins = 0;

    for (uint64_t i = 0; i < g->rounds; i++) {
        void *latch;

        while ((latch = atomic_exchange_explicit(&g->next, NULL,
                                                 memory_order_acq_rel)) == NULL)
            while (atomic_load_explicit(&g->next, memory_order_relaxed) == NULL)
                spin_pause(&spins);
        g->kind->count_down(latch);
    }
}

static void run_latch(struct bench *b, const struct latch_kind *kind)
{
    static struct giving g;
    const bool alone = bench_variant_is(b, "alone");
    const uint64_t count = bench_count(b, alone ? LATCHES_ALONE : LATCHES_PAIR);
    struct bench_thread *thread = NULL;

    g.kind = kind;
    g.rounds = WARM_UP + count;
    if (!alone)
        thread = bench_thread_start(b, open_each, &g);
    for (uint64_t i = 0; i < g.rounds; i++) {
        void *latch;

        if (i == WARM_UP)
            bench_start(b);
        latch = kind->create();
        BENCH_CHECK(b, latch != NULL);
        if (alone)
            kind->count_down(latch);
        else
            atomic_store_explicit(&g.next, latch, memory_order_release);
        kind->await_and_destroy(latch);
    }
    bench_stop(b, count);
    if (thread != NULL)
        bench_thread_join(thread);
}

/* ---- spindle ------------------------------------------------------------ */

static void *spindle_create(void)
{
    spn_latch *latch;

    return spn_latch_create(&latch, 1) == SPN_OK ? latch : NULL;
}
static void spindle_count_down(void *latch)
{
    (void)spn_latch_count_down(latch);
}
static void spindle_await(void *latch)
{
    if (spn_latch_await(latch, SPN_FOREVER) != SPN_OK ||
        spn_latch_destroy(latch) != SPN_OK)
        _exit(1);
}

static void run_spindle(struct bench *b)
{
    static const struct latch_kind kind = { spindle_create, spindle_count_down,
                                            spindle_await };
    run_latch(b, &kind);
}

/* ---- made by hand of a mutex and a condition variable ---------------------- */

struct hand_made {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int count; /* guarded by the mutex */
};

static void *hand_made_create(void)
{
    struct hand_made *latch = malloc(sizeof(*latch));

    if (latch == NULL)
        return NULL;
    pthread_mutex_init(&latch->mutex, NULL);
    pthread_cond_init(&latch->cond, NULL);
    latch->count = 1;
    return latch;
}

/* Signals under the lock: the waiter may free the latch once it has it. */
static void hand_made_count_down(void *arg)
{
    struct hand_made *latch = arg;

    pthread_mutex_lock(&latch->mutex);
    if (--latch->count == 0)
        pthread_cond_broadcast(&latch->cond);
    pthread_mutex_unlock(&latch->mutex);
}

static void hand_made_await(void *arg)
{
    struct hand_made *latch = arg;

    pthread_mutex_lock(&latch->mutex);
    while (latch->count > 0)
        pthread_cond_wait(&latch->cond, &latch->mutex);
    pthread_mutex_unlock(&latch->mutex);
    pthread_cond_destroy(&latch->cond);
    pthread_mutex_destroy(&latch->mutex);
    free(latch);
}

static void run_hand_made(struct bench *b)
{
    static const struct latch_kind kind = { hand_made_create, hand_made_count_down,
                                            hand_made_await };
    run_latch(b, &kind);
}

/* ---- floor: one word and the bare futex ------------------------------------ */

static void *floor_create(void)
{
    _Atomic(uint32_t) *word = malloc(sizeof(*word));

    if (word != NULL)
        atomic_init(word, 1);
    return word;
}

/* The wake names an address that may be free by now, which is harmless. */
static void floor_count_down(void *latch)
{
    _Atomic(uint32_t) *word = latch;

    if (atomic_exchange_explicit(word, 0, memory_order_release) == 2)
        (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void floor_await(void *latch)
{
    _Atomic(uint32_t) *word = latch;
    uint32_t closed = 1;

    if (atomic_load_explicit(word, memory_order_acquire) != 0 &&
        (atomic_compare_exchange_strong(word, &closed, 2) || closed == 2))
        futex_wait_while(word, 2);
    free(latch);
}

static void run_floor(struct bench *b)
{
    static const struct latch_kind kind = { floor_create, floor_count_down,
                                            floor_await };

    run_latch(b, &kind);
}

BENCH_WORKLOAD(s5) = {
    .name = "S5",
    .question = "What does a latch cost that is made, opened, awaited and destroyed?",
    .metric = "ns_per_latch",
    .variants = { { .name = "alone" },
                  { .name = "2t-two-cpus", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle", .run = run_spindle },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "malloc, one word, the bare futex" },
                  { .name = "glibc mutex+cond",
                    .run = run_hand_made,
                    .version = bench_glibc_version } },
};
