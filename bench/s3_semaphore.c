/* SPDX-License-Identifier: MIT */
/*
 * S3 - a semaphore: take and give back a permit that is there, and hand permits
 * from one thread to another, which sleeps for each.
 */
#include <semaphore.h>

#include <spindle.h>

#include "bench.h"
#include "pair.h"

#define PAIRS_ALONE 5000000
#define HAND_OFFS   10000
#define WARM_UP     200

/* A hand-off and the one back; a and b are semaphores of the subject. */
struct handing {
    void (*acquire)(void *semaphore);
    void (*release)(void *semaphore);
    void *a, *b;
    uint64_t rounds;
};

static void answer(void *arg)
{
    struct handing *h = arg;

    for (uint64_t i = 0; i < h->rounds; i++) {
        h->acquire(h->a);
        h->release(h->b);
    }
}

static void hand_over(struct bench *b, struct handing *h)
{
    const uint64_t rounds = bench_count(b, HAND_OFFS);
    struct bench_thread *thread;

    h->rounds = WARM_UP + rounds;
    thread = bench_thread_start(b, answer, h);
    for (uint64_t i = 0; i < h->rounds; i++) {
        if (i == WARM_UP)
            bench_start(b);
        h->release(h->a);
        h->acquire(h->b);
    }
    bench_stop(b, 2 * rounds); /* there and back are two */
    bench_thread_join(thread);
}

/* The loop is the subject's own, so that what is inline stays inline. */
#define ALONE(b, acquire_one, release_one)                     \
    do {                                                       \
        const uint64_t count_ = bench_count((b), PAIRS_ALONE); \
        for (int i_ = 0; i_ < 1000; i_++) {                    \
            acquire_one;                                       \
            release_one;                                       \
        }                                                      \
        bench_start(b);                                        \
        for (uint64_t i_ = 0; i_ < count_; i_++) {             \
            acquire_one;                                       \
            release_one;                                       \
        }                                                      \
        bench_stop((b), count_);                               \
    } while (0)

/* ---- spindle ------------------------------------------------------------ */

static void spindle_acquire(void *semaphore)
{
    if (spn_semaphore_acquire(semaphore, 1, SPN_FOREVER) != SPN_OK)
        _exit(1);
}
static void spindle_release(void *semaphore)
{
    (void)spn_semaphore_release(semaphore, 1);
}

static void run_spindle_with(struct bench *b, uint32_t fair)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;
    struct handing h = { .acquire = spindle_acquire, .release = spindle_release };
    spn_semaphore *here, *there;

    opts.fair = fair;
    opts.permits = bench_variant_is(b, "alone") ? 1 : 0;
    BENCH_CHECK(b, spn_semaphore_create(&here, &opts) == SPN_OK);
    BENCH_CHECK(b, spn_semaphore_create(&there, &opts) == SPN_OK);
    if (bench_variant_is(b, "alone")) {
        ALONE(b, spindle_acquire(here), spindle_release(here));
    } else {
        h.a = here;
        h.b = there;
        hand_over(b, &h);
    }
    BENCH_CHECK(b, spn_semaphore_destroy(here) == SPN_OK);
    BENCH_CHECK(b, spn_semaphore_destroy(there) == SPN_OK);
}

static void run_spindle(struct bench *b)
{
    run_spindle_with(b, 0);
}
static void run_spindle_fair(struct bench *b)
{
    run_spindle_with(b, 1);
}

/* ---- glibc ---------------------------------------------------------------- */

static void sem_acquire(void *semaphore)
{
    while (sem_wait(semaphore) != 0) {
    }
}
static void sem_release(void *semaphore)
{
    sem_post(semaphore);
}

static void run_sem(struct bench *b)
{
    static struct {
        alignas(64) sem_t sem;
    } two[2];
    struct handing h = { sem_acquire, sem_release, &two[0].sem, &two[1].sem, 0 };
    const bool alone = bench_variant_is(b, "alone");

    for (int i = 0; i < 2; i++)
        BENCH_CHECK(b, sem_init(&two[i].sem, 0, alone) == 0);
    if (alone)
        ALONE(b, sem_acquire(&two[0].sem), sem_release(&two[0].sem));
    else
        hand_over(b, &h);
}

/* ---- floor ---------------------------------------------------------------- */

static void floor_acquire(void *semaphore)
{
    struct word *word = semaphore;

    futex_wait_while(&word->value, 0);
    atomic_store_explicit(&word->value, 0, memory_order_relaxed);
}
static void floor_release(void *semaphore)
{
    struct word *word = semaphore;

    futex_set(&word->value, 1);
}

static void run_floor(struct bench *b)
{
    static struct word two[2];
    struct handing h = { floor_acquire, floor_release, &two[0], &two[1], 0 };

    if (bench_variant_is(b, "alone"))
        ALONE(b, atomic_fetch_sub_explicit(&two[0].value, 1, memory_order_acquire),
              atomic_fetch_add_explicit(&two[0].value, 1, memory_order_release));
    else
        hand_over(b, &h);
}

BENCH_WORKLOAD(s3) = {
    .name = "S3",
    .question =
        "What does a semaphore cost: acquire and release alone, and a hand-off?",
    .metric = "ns_per_op",
    .variants = { { .name = "alone" },
                  { .name = "handoff-free" },
                  { .name = "handoff-one-cpu", .pinned = true, .cpus = 1 },
                  { .name = "handoff-two-cpus", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle", .run = run_spindle },
                  { .name = "spindle-fair", .run = run_spindle_fair },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "two atomic adds; in a hand-off, the bare futex" },
                  { .name = "glibc sem_t",
                    .run = run_sem,
                    .version = bench_glibc_version } },
};
