/* SPDX-License-Identifier: MIT */
/*
 * S4 - change something and tell whoever waits for it, when nobody does: what
 * every submit to a busy pool pays for the sleepers it does not have.
 */
#include <pthread.h>

#include "bench.h"
#include "pair.h"
#include "sync/eventcount.h"

#define NOTIFIES 10000000

static alignas(64) _Atomic(uint64_t) data;

/* The change; relaxed, because ordering is what the subjects pay for. */
#define CHANGE() atomic_store_explicit(&data, i_, memory_order_relaxed)

#define NOTIFY_LOOP(b, notify)                              \
    do {                                                    \
        const uint64_t count_ = bench_count((b), NOTIFIES); \
        for (uint64_t i_ = 0; i_ < 1000; i_++) {            \
            CHANGE();                                       \
            notify;                                         \
        }                                                   \
        bench_start(b);                                     \
        for (uint64_t i_ = 0; i_ < count_; i_++) {          \
            CHANGE();                                       \
            notify;                                         \
        }                                                   \
        bench_stop((b), count_);                            \
    } while (0)

static void run_eventcount(struct bench *b)
{
    static alignas(64) struct spn__eventcount ec;

    spn__eventcount_init(&ec, false);
    NOTIFY_LOOP(b, spn__eventcount_notify(&ec));
}

static void run_eventcount_light(struct bench *b)
{
    static alignas(64) struct spn__eventcount ec;

    if (!spn__fence_is_asymmetric())
        bench_skip(b, "membarrier does not work here");
    spn__eventcount_init(&ec, true);
    spn__fence_heavy(); /* as the first sleeper would */
    NOTIFY_LOOP(b, spn__eventcount_notify(&ec));
}

static void run_floor(struct bench *b)
{
    static alignas(64) _Atomic(uint32_t) waiting;
    static uint64_t never;

    NOTIFY_LOOP(b, {
        if (atomic_load_explicit(&waiting, memory_order_relaxed) != 0)
            never++;
        BENCH_KEEP(&never);
    });
}

static void run_cond(struct bench *b)
{
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

    NOTIFY_LOOP(b, pthread_cond_signal(&cond));
}

/* With the lock that makes the change visible to a waiter that has looked. */
static void run_cond_locked(struct bench *b)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

    NOTIFY_LOOP(b, {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        pthread_cond_signal(&cond);
    });
}

#ifdef BENCH_HAVE_GLIB
static void run_gcond(struct bench *b)
{
    static GCond cond;

    NOTIFY_LOOP(b, g_cond_signal(&cond));
}
#endif

BENCH_WORKLOAD(s4) = {
    .name = "S4",
    .question = "What does a notification cost when nobody waits?",
    .metric = "ns_per_notify",
    .variants = { { .name = "nobody" } },
    .subjects = { { .name = "spindle",
                    .run = run_eventcount,
                    .detail = "an event count with a full fence" },
                  { .name = "spindle-light",
                    .run = run_eventcount_light,
                    .detail = "one whose fence is paid by the sleeper" },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "a relaxed load, which may miss a sleeper" },
                  { .name = "glibc cond",
                    .run = run_cond,
                    .detail = "pthread_cond_signal alone, which may miss one too",
                    .version = bench_glibc_version },
                  { .name = "glibc mutex+cond",
                    .run = run_cond_locked,
                    .version = bench_glibc_version },
                  GLIB_SUBJECT("GLib GCond", run_gcond) },
};
