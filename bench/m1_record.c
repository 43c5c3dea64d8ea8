/* SPDX-License-Identifier: MIT */
/*
 * M1 - recording: what a counter and a histogram cost those who use them, alone and with a
 * second thread that records as well.
 */
#include <stdatomic.h>

#include <spindle.h>

#include "bench.h"
#include "pair.h"

#define RECORDS 20000000

struct recorder {
    void (*record)(void *object, uint64_t i);
    void *object;
    uint64_t rounds;
};

static void record_all(void *arg)
{
    const struct recorder *r = arg;

    for (uint64_t i = 0; i < r->rounds; i++)
        r->record(r->object, i);
}

static void run(struct bench *b, struct recorder *r)
{
    const uint64_t rounds = bench_count(b, RECORDS);
    struct bench_thread *second = NULL;

    r->rounds = 1000;
    record_all(r);
    r->rounds = rounds;
    bench_start(b);
    if (!bench_variant_is(b, "alone"))
        second = bench_thread_start(b, record_all, r);
    record_all(r);
    if (second != NULL)
        bench_thread_join(second);
    bench_stop(b, rounds); /* of each thread */
}

static void record_counter(void *object, uint64_t i)
{
    (void)i;
    spn_counter_add(object, 1);
}

static void record_histogram(void *object, uint64_t i)
{
    spn_histogram_record(object, (int64_t)(i & 0xfffff));
}

static void run_counter(struct bench *b)
{
    struct recorder r = { .record = record_counter };
    spn_counter *counter;

    BENCH_CHECK(b, spn_counter_create(&counter) == SPN_OK);
    r.object = counter;
    run(b, &r);
    BENCH_CHECK(b, spn_counter_value(counter) > 0);
    spn_counter_destroy(counter);
}

static void run_histogram(struct bench *b)
{
    struct recorder r = { .record = record_histogram };
    spn_histogram *histogram;

    BENCH_CHECK(b, spn_histogram_create(&histogram) == SPN_OK);
    r.object = histogram;
    run(b, &r);
    spn_histogram_destroy(histogram);
}

/* What one writes by hand. */
static void record_atomic(void *object, uint64_t i)
{
    (void)i;
    atomic_fetch_add_explicit((_Atomic uint64_t *)object, 1, memory_order_relaxed);
}

static void run_atomic(struct bench *b)
{
    static _Alignas(64) _Atomic uint64_t word;
    struct recorder r = { record_atomic, &word, 0 };

    run(b, &r);
}

static _Thread_local uint64_t own;

static void record_own(void *object, uint64_t i)
{
    (void)object;
    (void)i;
    own++;
    BENCH_KEEP(&own);
}

static void run_floor(struct bench *b)
{
    struct recorder r = { record_own, NULL, 0 };

    run(b, &r);
}

BENCH_WORKLOAD(m1) = {
    .name = "M1",
    .question = "What does it cost to count, and to record a time?",
    .metric = "ns_per_record",
    .variants = { { .name = "alone" },
                  { .name = "two-free" },
                  { .name = "two-cpus", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle counter", .run = run_counter },
                  { .name = "spindle histogram", .run = run_histogram },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "a thread-local word" },
                  { .name = "atomic add",
                    .run = run_atomic,
                    .version = bench_glibc_version } },
};
