/* SPDX-License-Identifier: MIT */
/*
 * S1 - two threads wake each other in turn.
 *
 * A round trip is two wakes and two sleeps.  Where both threads share a CPU the
 * kernel switches between them; on two, each wake is an interrupt to the other
 * CPU and the way out of its idle state.  The scheduler chooses when it is free
 * to, and changes its mind, so "free" has a wide spread.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include <spindle.h>

#include "bench.h"
#include "pair.h"

#define ROUND_TRIPS 10000
#define WARM_UP     200

struct pair {
    struct word call, answer; /* the rounds called and answered */
    uint32_t rounds;
    _Atomic(spn_thread *) caller, partner;
    sem_t sem[2];
    pthread_mutex_t mutex;
    pthread_cond_t cond[2];
    uint32_t called, answered; /* guarded by the mutex */
};

/* Runs call(p, i) for each round; `partner` answers as many. */
static void ping_pong(struct bench *b, struct pair *p, void (*partner)(void *),
                      void (*call)(struct pair *p, uint32_t round))
{
    const uint32_t rounds = (uint32_t)bench_count(b, ROUND_TRIPS);
    struct bench_thread *thread;

    p->rounds = WARM_UP + rounds;
    thread = bench_thread_start(b, partner, p);
    for (uint32_t i = 1; i <= WARM_UP; i++)
        call(p, i);
    bench_start(b);
    for (uint32_t i = WARM_UP + 1; i <= WARM_UP + rounds; i++)
        call(p, i);
    bench_stop(b, rounds);
    bench_thread_join(thread);
}

/* ---- spindle ------------------------------------------------------------ */

static void park_while(_Atomic(uint32_t) *word, uint32_t old)
{
    while (atomic_load_explicit(word, memory_order_acquire) == old)
        spn_park(word);
}

static void park_partner(void *arg)
{
    struct pair *p = arg;
    spn_thread *caller = atomic_load(&p->caller);

    atomic_store(&p->partner, spn_thread_current());
    for (uint32_t i = 1; i <= p->rounds; i++) {
        park_while(&p->call.value, i - 1);
        atomic_store_explicit(&p->answer.value, i, memory_order_release);
        spn_unpark(caller);
    }
}

static void park_call(struct pair *p, uint32_t round)
{
    spn_thread *partner;

    /* NULL only in the first round, until the partner is there. */
    while ((partner = atomic_load_explicit(&p->partner, memory_order_acquire)) == NULL)
        sched_yield();
    atomic_store_explicit(&p->call.value, round, memory_order_release);
    spn_unpark(partner);
    park_while(&p->answer.value, round - 1);
}

static void run_spindle(struct bench *b)
{
    static struct pair p;

    atomic_store(&p.caller, spn_thread_current());
    ping_pong(b, &p, park_partner, park_call);
}

/* ---- floor: the bare futex ------------------------------------------------ */

static void futex_partner(void *arg)
{
    struct pair *p = arg;

    for (uint32_t i = 1; i <= p->rounds; i++) {
        futex_wait_while(&p->call.value, i - 1);
        futex_set(&p->answer.value, i);
    }
}

static void futex_call(struct pair *p, uint32_t round)
{
    futex_set(&p->call.value, round);
    futex_wait_while(&p->answer.value, round - 1);
}

static void run_floor(struct bench *b)
{
    static struct pair p;

    ping_pong(b, &p, futex_partner, futex_call);
}

/* ---- peers -------------------------------------------------------------- */

static void sem_partner(void *arg)
{
    struct pair *p = arg;

    for (uint32_t i = 1; i <= p->rounds; i++) {
        while (sem_wait(&p->sem[0]) != 0) {
        }
        sem_post(&p->sem[1]);
    }
}

static void sem_call(struct pair *p, uint32_t round)
{
    (void)round;
    sem_post(&p->sem[0]);
    while (sem_wait(&p->sem[1]) != 0) {
    }
}

static void run_sem(struct bench *b)
{
    static struct pair p;

    BENCH_CHECK(b, sem_init(&p.sem[0], 0, 0) == 0 && sem_init(&p.sem[1], 0, 0) == 0);
    ping_pong(b, &p, sem_partner, sem_call);
}

static void cond_partner(void *arg)
{
    struct pair *p = arg;

    pthread_mutex_lock(&p->mutex);
    for (uint32_t i = 1; i <= p->rounds; i++) {
        while (p->called != i)
            pthread_cond_wait(&p->cond[0], &p->mutex);
        p->answered = i;
        pthread_cond_signal(&p->cond[1]);
    }
    pthread_mutex_unlock(&p->mutex);
}

static void cond_call(struct pair *p, uint32_t round)
{
    pthread_mutex_lock(&p->mutex);
    p->called = round;
    pthread_cond_signal(&p->cond[0]);
    while (p->answered != round)
        pthread_cond_wait(&p->cond[1], &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

static void run_cond(struct bench *b)
{
    static struct pair p = { .mutex = PTHREAD_MUTEX_INITIALIZER,
                             .cond = { PTHREAD_COND_INITIALIZER,
                                       PTHREAD_COND_INITIALIZER } };

    ping_pong(b, &p, cond_partner, cond_call);
}

#ifdef BENCH_HAVE_GLIB
static GMutex g_mutex;
static GCond g_conds[2];

static void gcond_partner(void *arg)
{
    struct pair *p = arg;

    g_mutex_lock(&g_mutex);
    for (uint32_t i = 1; i <= p->rounds; i++) {
        while (p->called != i)
            g_cond_wait(&g_conds[0], &g_mutex);
        p->answered = i;
        g_cond_signal(&g_conds[1]);
    }
    g_mutex_unlock(&g_mutex);
}

static void gcond_call(struct pair *p, uint32_t round)
{
    g_mutex_lock(&g_mutex);
    p->called = round;
    g_cond_signal(&g_conds[0]);
    while (p->answered != round)
        g_cond_wait(&g_conds[1], &g_mutex);
    g_mutex_unlock(&g_mutex);
}

static void run_gcond(struct bench *b)
{
    static struct pair p;

    ping_pong(b, &p, gcond_partner, gcond_call);
}
#endif

BENCH_WORKLOAD(s1) = {
    .name = "S1",
    .question = "What does it cost two threads to wake each other in turn?",
    .metric = "ns_per_round_trip",
    .variants = { { .name = "free" },
                  { .name = "one-cpu", .pinned = true, .cpus = 1 },
                  { .name = "two-cpus", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle",
                    .run = run_spindle,
                    .detail = "spn_park and spn_unpark" },
                  { .name = "floor", .run = run_floor, .detail = "the bare futex" },
                  { .name = "glibc sem_t",
                    .run = run_sem,
                    .version = bench_glibc_version },
                  { .name = "glibc cond",
                    .run = run_cond,
                    .version = bench_glibc_version },
                  GLIB_SUBJECT("GLib GCond", run_gcond) },
};
