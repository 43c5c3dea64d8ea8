/* SPDX-License-Identifier: MIT */
/*
 * S2 - a lock around a few instructions, alone and with two threads that want
 * it all the time.
 *
 * Contended, a lock that lets its holder take it again at once looks fast and
 * one that hands over looks slow; both do the same number of sections here, and
 * the section is as short as those the library has.
 */
#include <pthread.h>

#include "bench.h"
#include "pair.h"
#include "sync/lock.h"

#define SECTIONS_ALONE     5000000
#define SECTIONS_CONTENDED 2000000

/* What a section changes: one line that travels with the lock. */
static struct {
    alignas(64) uint64_t counter;
    uint64_t other;
} guarded;

static inline void section(void)
{
    guarded.counter++;
    guarded.other += guarded.counter;
    BENCH_KEEP(&guarded);
}

static alignas(64) struct spn__lock spn_lock;
static alignas(64) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static alignas(64) _Atomic(uint32_t) bare;

static void spindle_sections(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        spn__lock(&spn_lock);
        section();
        spn__unlock(&spn_lock);
    }
}

static void mutex_sections(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        pthread_mutex_lock(&mutex);
        section();
        pthread_mutex_unlock(&mutex);
    }
}

static void bare_sections(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int spins = 0;

        while (atomic_exchange_explicit(&bare, 1, memory_order_acquire) != 0)
            while (atomic_load_explicit(&bare, memory_order_relaxed) != 0)
                spin_pause(&spins);
        section();
        atomic_store_explicit(&bare, 0, memory_order_release);
    }
}

#ifdef BENCH_HAVE_GLIB
static alignas(64) GMutex g_mutex;

static void gmutex_sections(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        g_mutex_lock(&g_mutex);
        section();
        g_mutex_unlock(&g_mutex);
    }
}
#endif

struct side {
    void (*sections)(uint64_t count);
    uint64_t count;
    struct word ready, go;
};

static void other_side(void *arg)
{
    struct side *s = arg;
    int spins = 0;

    atomic_store(&s->ready.value, 1);
    while (atomic_load(&s->go.value) == 0)
        spin_pause(&spins);
    s->sections(s->count);
}

static void run_lock(struct bench *b, void (*sections)(uint64_t count))
{
    static struct side s;
    struct bench_thread *thread;
    uint64_t count;
    int spins = 0;

    sections(1000);
    if (bench_variant_is(b, "alone")) {
        count = bench_count(b, SECTIONS_ALONE);
        bench_start(b);
        sections(count);
        bench_stop(b, count);
        BENCH_CHECK(b, guarded.counter == count + 1000);
        return;
    }
    s.sections = sections;
    s.count = bench_count(b, SECTIONS_CONTENDED / 2);
    thread = bench_thread_start(b, other_side, &s);
    while (atomic_load(&s.ready.value) == 0)
        spin_pause(&spins);
    bench_start(b);
    atomic_store(&s.go.value, 1);
    sections(s.count);
    bench_thread_join(thread);
    bench_stop(b, 2 * s.count);
    BENCH_CHECK(b, guarded.counter == 2 * s.count + 1000);
}

static void run_spindle(struct bench *b)
{
    spn__lock_init(&spn_lock);
    run_lock(b, spindle_sections);
}
static void run_mutex(struct bench *b)
{
    run_lock(b, mutex_sections);
}
static void run_floor(struct bench *b)
{
    run_lock(b, bare_sections);
}
#ifdef BENCH_HAVE_GLIB
static void run_gmutex(struct bench *b)
{
    run_lock(b, gmutex_sections);
}
#endif

BENCH_WORKLOAD(s2) = {
    .name = "S2",
    .question = "What does a lock around a few instructions cost?",
    .metric = "ns_per_section",
    .variants = { { .name = "alone" },
                  { .name = "2t-free", .cpus = 2 },
                  { .name = "2t-two-cpus", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle",
                    .run = run_spindle,
                    .detail = "the library's internal lock" },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "a bare test-and-set that spins" },
                  { .name = "glibc mutex",
                    .run = run_mutex,
                    .version = bench_glibc_version },
                  GLIB_SUBJECT("GLib GMutex", run_gmutex) },
};
