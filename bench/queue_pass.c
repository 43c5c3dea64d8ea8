/* SPDX-License-Identifier: MIT */
/*
 * queue_pass.c - starts the threads of a pass, times it and counts what arrived.
 */
#include "queue_pass.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum { SIDE_MAX = 2, COMMAND_MAX = 8, WARM_UP_PART = 5 };

struct pass_item pass_items[PASS_SLOTS];

struct worker {
    alignas(128) struct pass_lane lane;
    pthread_t id;
    struct bench *bench;
    pthread_barrier_t *ready;
    void (*loop)(struct pass_lane *lane);
    int cpu; /* for bench_place */
    int64_t begin_ns, end_ns;
    alignas(128) uint32_t seen[PASS_SLOTS];
};

static struct worker workers[2 * SIDE_MAX]; /* producers, then consumers */

struct pass_times {
    int64_t wall_ns, cpu_ns;
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int threads_a_side(const struct bench *b)
{
    return bench_variant_is(b, "2x2") || bench_variant_is(b, "2x2-batch16") ? 2 : 1;
}

static bool in_batches(const struct bench *b)
{
    return bench_variant_is(b, "1x1-batch16") || bench_variant_is(b, "2x2-batch16");
}

/* Shares and batches are whole. */
static uint64_t whole(uint64_t items)
{
    const uint64_t unit = SIDE_MAX * PASS_BATCH;

    return (items + unit - 1) / unit * unit;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    bench_place(w->bench, w->cpu);
    (void)pthread_barrier_wait(w->ready);
    w->begin_ns = clock_ns(CLOCK_MONOTONIC);
    w->loop(&w->lane);
    w->end_ns = clock_ns(CLOCK_MONOTONIC);
    return NULL;
}

/* Each entry came as often as it was sent: the first ones once more often than
 * the others, when the last round of the table was not a whole one. */
static void check_arrivals(struct bench *b, int side, uint64_t items)
{
    for (uint64_t slot = 0; slot < PASS_SLOTS; slot++) {
        const uint64_t sent = items / PASS_SLOTS + (slot < items % PASS_SLOTS);
        uint64_t arrived = 0;

        for (int i = side; i < 2 * side; i++)
            arrived += workers[i].seen[slot];
        BENCH_CHECK(b, arrived == sent);
    }
}

static struct pass_times pass(struct bench *b, const struct pass_queue *q, void *queue,
                              uint64_t items)
{
    const int side = threads_a_side(b);
    const bool batches = in_batches(b);
    struct pass_times times;
    pthread_barrier_t ready;
    int64_t first_ns, last_ns;

    BENCH_CHECK(b, pthread_barrier_init(&ready, NULL, (unsigned)(2 * side + 1)) == 0);
    for (int i = 0; i < 2 * side; i++) {
        struct worker *w = &workers[i];
        const bool produces = i < side;

        *w = (struct worker){ .bench = b, .ready = &ready, .cpu = produces ? 0 : 1 };
        w->lane = (struct pass_lane){ .queue = queue,
                                      .count = items / (uint64_t)side,
                                      .slot = (uint32_t)i,
                                      .stride = (uint32_t)side,
                                      .seen = w->seen };
        if (produces)
            w->loop = batches ? q->produce_many : q->produce;
        else
            w->loop = batches ? q->consume_many : q->consume;
        BENCH_CHECK(b, pthread_create(&w->id, NULL, work, w) == 0);
    }
    times.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    (void)pthread_barrier_wait(&ready);
    for (int i = 0; i < 2 * side; i++)
        BENCH_CHECK(b, pthread_join(workers[i].id, NULL) == 0);
    times.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - times.cpu_ns;
    (void)pthread_barrier_destroy(&ready);

    first_ns = workers[0].begin_ns;
    last_ns = workers[side].end_ns;
    for (int i = 1; i < side; i++) {
        if (workers[i].begin_ns < first_ns)
            first_ns = workers[i].begin_ns;
        if (workers[side + i].end_ns > last_ns)
            last_ns = workers[side + i].end_ns;
    }
    times.wall_ns = last_ns - first_ns;
    check_arrivals(b, side, items);
    return times;
}

void pass_run(struct bench *b, const struct pass_queue *queue,
              const struct pass_work *work_to_do)
{
    const uint64_t items = whole(bench_count(b, work_to_do->items));
    struct pass_times times;
    char cpu_metric[64];
    void *object;

    if (in_batches(b) && queue->produce_many == NULL)
        bench_skip(b, "it has no call for several items");
    for (uint32_t slot = 0; slot < PASS_SLOTS; slot++)
        pass_items[slot].slot = slot;
    object = queue->create();
    BENCH_CHECK(b, object != NULL);
    (void)pass(b, queue, object, whole(items / WARM_UP_PART));
    times = pass(b, queue, object, items);
    if (queue->destroy != NULL)
        queue->destroy(object);
    snprintf(cpu_metric, sizeof(cpu_metric), "cpu_%s", work_to_do->metric);
    bench_report(b, work_to_do->metric, (double)times.wall_ns / (double)items);
    bench_report(b, cpu_metric, (double)times.cpu_ns / (double)items);
}

void pass_exec(struct bench *b, const char *const command[], const char *kind,
               const struct pass_work *work_to_do, int places)
{
    const uint64_t items = whole(bench_count(b, work_to_do->items));
    char side[16], count[32], warm_up[32], cpus[2][16];
    const char *argv[COMMAND_MAX + 9];
    int n = 0;

    if (in_batches(b))
        bench_skip(b, "it has no call for several items");
    if (bench_cpu(b, 0) >= 0 && !places)
        bench_skip(b, "its runtime places the threads");
    while (n < COMMAND_MAX && command[n] != NULL) {
        argv[n] = command[n];
        n++;
    }
    snprintf(side, sizeof(side), "%d", threads_a_side(b));
    snprintf(count, sizeof(count), "%ju", (uintmax_t)items);
    snprintf(warm_up, sizeof(warm_up), "%ju", (uintmax_t)whole(items / WARM_UP_PART));
    argv[n++] = work_to_do->metric;
    argv[n++] = kind;
    argv[n++] = side;
    argv[n++] = count;
    argv[n++] = warm_up;
    for (int i = 0; i < 2 && places; i++) {
        snprintf(cpus[i], sizeof(cpus[i]), "%d", bench_cpu(b, i));
        argv[n++] = cpus[i];
    }
    argv[n] = NULL;
    bench_exec(b, argv);
}
