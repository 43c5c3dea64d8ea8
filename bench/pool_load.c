/* SPDX-License-Identifier: MIT */
/*
 * pool_load.c - starts producers, times them, and sees that every task has run.
 */
#include "pool_load.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum {
    PRODUCERS_MAX = 2,
    COMMAND_MAX = 8,
    WARM_UP_PART = 5,
    ASK_CHUNK = 50,    /* round trips between two looks at the clock */
    WAKE_WARM_UP = 50, /* wakes that do not count                    */
    MEMORY_WARM_UP = 1000
};

struct pool_tally pool_tally;

static sem_t all_done;
static int64_t done_ns; /* published by all_done */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0) {
    }
}

void pool_all_done(void)
{
    done_ns = clock_ns(CLOCK_MONOTONIC);
    sem_post(&all_done);
}

static void expect(uint64_t tasks)
{
    pool_tally.done = 0;
    pool_tally.target = tasks;
}

/* ---- every worker is there, and where it belongs ---------------------------- */

static struct bench *meeting_of;
static _Atomic(int) met, left, expected;

static void meet(void)
{
    bench_place(meeting_of, 1);
    atomic_fetch_add(&met, 1);
    while (atomic_load(&met) < atomic_load(&expected))
        sched_yield();
    atomic_fetch_add(&left, 1);
}

static void *create(struct bench *b, const struct pool_kind *kind, int workers)
{
    const struct timespec nap = { 0, 100000 };
    void *pool;

    BENCH_CHECK(b, sem_init(&all_done, 0, 0) == 0);
    pool = kind->create(workers);
    BENCH_CHECK(b, pool != NULL);
    if (kind->no_workers)
        return pool;
    meeting_of = b;
    atomic_store(&expected, workers);
    for (int i = 0; i < workers; i++)
        kind->submit(pool, meet);
    while (atomic_load(&left) < workers)
        nanosleep(&nap, NULL);
    if (kind->drain != NULL)
        kind->drain(pool);
    return pool;
}

/* ---- a program instead --------------------------------------------------------- */

static void run_program(struct bench *b, const struct pool_kind *kind,
                        const char *workload, int producers, int workers,
                        uint64_t count)
{
    char numbers[6][24];
    const char *argv[COMMAND_MAX + 9];
    int n = 0;

    if (bench_cpu(b, 0) >= 0 && !kind->places)
        bench_skip(b, "its runtime places the threads");
    while (n < COMMAND_MAX && kind->command[n] != NULL) {
        argv[n] = kind->command[n];
        n++;
    }
    snprintf(numbers[0], sizeof(numbers[0]), "%d", producers);
    snprintf(numbers[1], sizeof(numbers[1]), "%d", workers);
    snprintf(numbers[2], sizeof(numbers[2]), "%ju", (uintmax_t)count);
    snprintf(numbers[3], sizeof(numbers[3]), "%d", POOL_ROUND_TRIP_MS);
    snprintf(numbers[4], sizeof(numbers[4]), "%d", bench_cpu(b, 0));
    snprintf(numbers[5], sizeof(numbers[5]), "%d", bench_cpu(b, 1));
    argv[n++] = workload;
    argv[n++] = kind->program_kind;
    for (int i = 0; i < 6; i++)
        argv[n++] = numbers[i];
    argv[n] = NULL;
    bench_exec(b, argv);
}

static uint64_t limited(const struct pool_kind *kind, uint64_t count)
{
    return kind->tasks_max != 0 && count > kind->tasks_max ? kind->tasks_max : count;
}

/* ---- W1 -------------------------------------------------------------------------- */

struct producer {
    alignas(128) struct pool_lane lane;
    const struct pool_kind *kind;
    pthread_t id;
    pthread_barrier_t *ready;
    int64_t begin_ns, end_ns;
};

struct pass_times {
    int64_t wall_ns, cpu_ns;
};

static void *produce(void *arg)
{
    struct producer *p = arg;

    (void)pthread_barrier_wait(p->ready);
    p->begin_ns = clock_ns(CLOCK_MONOTONIC);
    p->kind->spray(&p->lane);
    if (p->kind->finish != NULL)
        p->kind->finish(&p->lane);
    p->end_ns = clock_ns(CLOCK_MONOTONIC);
    return NULL;
}

static struct pass_times spray_pass(struct bench *b, const struct pool_kind *kind,
                                    void *pool, char *nodes, int producers,
                                    uint64_t tasks)
{
    static struct producer all[PRODUCERS_MAX];
    const uint64_t share = tasks / (uint64_t)producers;
    struct pass_times times;
    pthread_barrier_t ready;
    int64_t first_ns = INT64_MAX, last_ns;

    BENCH_CHECK(b, pthread_barrier_init(&ready, NULL, (unsigned)producers + 1) == 0);
    for (int i = 0; i < producers; i++) {
        all[i] = (struct producer){ .kind = kind, .ready = &ready };
        all[i].lane = (struct pool_lane){ .pool = pool, .count = share };
        if (nodes != NULL)
            all[i].lane.nodes = nodes + (size_t)i * share * kind->node_size;
        BENCH_CHECK(b, pthread_create(&all[i].id, NULL, produce, &all[i]) == 0);
    }
    expect(share * (uint64_t)producers);
    times.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    (void)pthread_barrier_wait(&ready);
    for (int i = 0; i < producers; i++)
        BENCH_CHECK(b, pthread_join(all[i].id, NULL) == 0);
    wait_for(&all_done);
    times.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - times.cpu_ns;
    (void)pthread_barrier_destroy(&ready);

    last_ns = done_ns;
    for (int i = 0; i < producers; i++) {
        if (all[i].begin_ns < first_ns)
            first_ns = all[i].begin_ns;
        if (all[i].end_ns > last_ns)
            last_ns = all[i].end_ns;
    }
    times.wall_ns = last_ns - first_ns;
    return times;
}

void pool_spray(struct bench *b)
{
    const struct pool_kind *kind = bench_object(b);
    const int producers = bench_variant_is(b, "2p2w") ? 2 : 1;
    const int workers = bench_variant_is(b, "1p1w") ? 1 : 2;
    const uint64_t tasks = limited(kind, bench_count(b, POOL_TASKS)) / 2 * 2;
    struct pass_times times;
    char *nodes = NULL;
    void *pool;

    if (kind->command != NULL)
        run_program(b, kind, "W1", producers, workers, tasks);
    if (kind->node_size != 0) {
        nodes = malloc(tasks * kind->node_size);
        BENCH_CHECK(b, nodes != NULL);
        memset(nodes, 0xff, tasks * kind->node_size);
    }
    pool = create(b, kind, workers);
    (void)spray_pass(b, kind, pool, nodes, producers, tasks);
    times = spray_pass(b, kind, pool, nodes, producers, tasks);
    kind->destroy(pool);
    BENCH_CHECK(b, pool_tally.done == tasks); /* and none twice */
    free(nodes);
    bench_report(b, "ns_per_task", (double)times.wall_ns / (double)tasks);
    bench_report(b, "cpu_ns_per_task", (double)times.cpu_ns / (double)tasks);
}

/* ---- W2 -------------------------------------------------------------------------- */

void pool_ask_loop(struct bench *b, uint64_t (*ask)(void *pool, uint64_t count),
                   void *pool)
{
    const uint64_t wanted = bench_count(b, POOL_ROUND_TRIPS);
    const int64_t limit_ns = (int64_t)bench_count(b, POOL_ROUND_TRIP_MS) * 1000000;
    uint64_t asked = 0, sum = 0;
    int64_t start_ns;

    (void)ask(pool, ASK_CHUNK);
    start_ns = clock_ns(CLOCK_MONOTONIC);
    while (clock_ns(CLOCK_MONOTONIC) - start_ns < limit_ns / WARM_UP_PART)
        (void)ask(pool, ASK_CHUNK);

    start_ns = clock_ns(CLOCK_MONOTONIC);
    bench_start(b);
    do {
        sum += ask(pool, ASK_CHUNK);
        asked += ASK_CHUNK;
    } while (asked < wanted && clock_ns(CLOCK_MONOTONIC) - start_ns < limit_ns);
    bench_stop(b, asked);
    BENCH_CHECK(b, sum == asked * POOL_ANSWER);
}

void pool_round_trip(struct bench *b)
{
    const struct pool_kind *kind = bench_object(b);
    void *pool;

    if (kind->command != NULL)
        run_program(b, kind, "W2", 1, 1, bench_count(b, POOL_ROUND_TRIPS));
    pool = create(b, kind, 1);
    pool_ask_loop(b, kind->ask, pool);
    kind->destroy(pool);
}

/* ---- W3 -------------------------------------------------------------------------- */

static _Atomic(int64_t) started_ns; /* 0: not yet */

static void stamp(void)
{
    atomic_store_explicit(&started_ns, clock_ns(CLOCK_MONOTONIC), memory_order_release);
}

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

void pool_wake_loop(struct bench *b, void (*submit)(void *pool, pool_body body),
                    void (*drain)(void *pool), void *pool)
{
    static int64_t times[POOL_WAKES];
    const struct timespec idle = { 0, 1000000 }, nap = { 0, 50000 };
    const int wakes = (int)bench_count(b, POOL_WAKES);
    int64_t cpu_ns = 0;

    for (int i = -WAKE_WARM_UP; i < wakes; i++) {
        int64_t sent_ns, started;

        if (i == 0)
            cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        atomic_store_explicit(&started_ns, 0, memory_order_relaxed);
        nanosleep(&idle, NULL);
        sent_ns = clock_ns(CLOCK_MONOTONIC);
        submit(pool, stamp);
        while ((started = atomic_load_explicit(&started_ns, memory_order_acquire)) == 0)
            nanosleep(&nap, NULL);
        if (drain != NULL)
            drain(pool);
        if (i >= 0)
            times[i] = started - sent_ns;
    }
    cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    qsort(times, (size_t)wakes, sizeof(times[0]), compare_times);
    bench_report(b, "p50_ns", (double)times[wakes / 2]);
    bench_report(b, "p99_ns", (double)times[wakes * 99 / 100]);
    /* The CPU column of the table: what one wake costs all threads together. */
    bench_report(b, "cpu_p50_ns", (double)cpu_ns / wakes);
}

void pool_wake(struct bench *b)
{
    const struct pool_kind *kind = bench_object(b);
    void *pool;

    if (kind->command != NULL)
        run_program(b, kind, "W3", 1, 1, bench_count(b, POOL_WAKES));
    pool = create(b, kind, 1);
    pool_wake_loop(b, kind->submit, kind->drain, pool);
    kind->destroy(pool);
}

/* ---- W6 -------------------------------------------------------------------------- */

/* Exact, other than statm, which lags by what each CPU has not yet added up. */
int64_t pool_resident_bytes(struct bench *b)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[256];
    long long kib = -1;

    BENCH_CHECK(b, file != NULL);
    while (kib < 0 && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "Rss: %lld kB", &kib) != 1)
            kib = -1;
    fclose(file);
    BENCH_CHECK(b, kib >= 0);
    return (int64_t)kib * 1024;
}

static sem_t held, gate;

static void hold(void)
{
    sem_post(&held);
    wait_for(&gate);
}

static void memory_pass(struct bench *b, const struct pool_kind *kind, void *pool,
                        uint64_t tasks, int64_t *bytes)
{
    struct pool_lane lane = { .pool = pool, .count = tasks };
    int64_t before;

    expect(tasks);
    kind->submit(pool, hold);
    wait_for(&held);
    before = pool_resident_bytes(b);
    if (kind->node_size != 0) {
        lane.nodes = malloc(tasks * kind->node_size);
        BENCH_CHECK(b, lane.nodes != NULL);
    }
    kind->spray(&lane);
    *bytes = pool_resident_bytes(b) - before;
    BENCH_CHECK(b, pool_tally.done == 0);
    sem_post(&gate);
    if (kind->finish != NULL)
        kind->finish(&lane);
    wait_for(&all_done);
    if (kind->drain != NULL)
        kind->drain(pool);
    free(lane.nodes);
}

void pool_memory(struct bench *b)
{
    const struct pool_kind *kind = bench_object(b);
    const uint64_t tasks = limited(kind, bench_count(b, POOL_QUEUED));
    int64_t bytes;
    void *pool;

    if (kind->command != NULL)
        run_program(b, kind, "W6", 1, 1, tasks);
    BENCH_CHECK(b, sem_init(&held, 0, 0) == 0 && sem_init(&gate, 0, 0) == 0);
    pool = create(b, kind, 1);
    memory_pass(b, kind, pool, MEMORY_WARM_UP, &bytes);
    memory_pass(b, kind, pool, tasks, &bytes);
    kind->destroy(pool);
    bench_report(b, "bytes_per_task", (double)bytes / (double)tasks);
}
