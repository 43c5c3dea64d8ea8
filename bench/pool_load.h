/* SPDX-License-Identifier: MIT */
/*
 * pool_load.h - tasks for a thread pool, the same way for every pool.
 *
 * THE WORKLOADS
 *   W1  Producers submit tasks to a pool whose queue has no bound; a task adds one
 *       to a counter that all share and that has its cache lines to itself.  From
 *       the first submit to the end of the last task, or of the last producer where
 *       that has to see to completions (libuv) or may work too (TBB's groups).
 *   W2  One task that returns a number is submitted and waited for, over and over,
 *       with one worker: 200,000 times, or as often as half a second allows.
 *   W3  One worker, idle for a millisecond: from right before a submit to the first
 *       line of the task.  Median and 99th percentile of 1,000.
 *   W6  One worker is held up while 1,000,000 tasks are queued behind it: how much
 *       larger the resident memory is then, for each.
 *
 * THE SAME WORK
 *   Memory for a task that the caller has to bring (an intrusive task of spindle,
 *   libuv's request) is an array that was written to before the time starts; in W6
 *   it is part of what is counted.  Memory that the pool brings is the pool's
 *   business.  Before anything else as many tasks as there are workers wait for
 *   each other, so a pool that is smaller than it says does not get further.
 *   In W1 a whole pass warms up, so that the memory in which tasks wait has been touched
 *   for all; elsewhere a fifth of one.  Programs that compile while they run warm up
 *   until they have compiled.
 *
 * A pool is an struct pool_kind.  One in another language is a program of
 * bench/peers, which measures itself and does the same.  For C and C++.
 */
#ifndef POOL_LOAD_H
#define POOL_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench;

enum { POOL_ANSWER = 42 }; /* what the task of W2 returns */

/* What a task does. */
typedef void (*pool_body)(void);

/* One producer and its share of the tasks. */
struct pool_lane {
    void *pool;
    uint64_t count; /* how many it submits                               */
    char *nodes;    /* node_size bytes for each, or NULL                 */
    void *own;      /* the pool's, from spray to finish; NULL before     */
};

struct pool_kind {
    void *(*create)(int workers); /* NULL: failed */
    void (*destroy)(void *pool);  /* no task is left */

    /* Submits lane->count tasks that call pool_count_one. */
    void (*spray)(struct pool_lane *lane);
    /* By the same thread: waits until those are done.  NULL: nothing to do. */
    void (*finish)(struct pool_lane *lane);
    /* Submits a task that returns POOL_ANSWER and waits for it, count times; the
     * sum of what came back. */
    uint64_t (*ask)(void *pool, uint64_t count);
    /* Submits a task that calls body; always by the same thread, up to 16 before
     * the first is done.  drain follows when they are; NULL: nothing to do. */
    void (*submit)(void *pool, pool_body body);
    void (*drain)(void *pool);

    size_t node_size;   /* bytes the caller brings for each task       */
    uint64_t tasks_max; /* no more at once; 0: any number              */
    bool no_workers;    /* the caller does the work                    */

    /* For a program of bench/peers instead: what starts it, up to a NULL, what the
     * pool is called there, and whether it can bind its threads to CPUs. */
    const char *const *command;
    const char *program_kind;
    bool places;
};

/* The workloads: bench_object(b) is the pool's kind. */
void pool_spray(struct bench *b);
void pool_round_trip(struct bench *b);
void pool_wake(struct bench *b);
void pool_memory(struct bench *b);

/* For floors that are no pools: what the workloads are made of. */
enum {
    POOL_TASKS = 2000000,
    POOL_ROUND_TRIPS = 200000,
    POOL_ROUND_TRIP_MS = 500,
    POOL_WAKES = 1000,
    POOL_QUEUED = 1000000
};
void pool_ask_loop(struct bench *b, uint64_t (*ask)(void *pool, uint64_t count),
                   void *pool);
void pool_wake_loop(struct bench *b, void (*submit)(void *pool, pool_body body),
                    void (*drain)(void *pool), void *pool);
int64_t pool_resident_bytes(struct bench *b);

/* ---- inside a task -------------------------------------------------------- */

struct pool_tally {
    uint64_t done __attribute__((aligned(128)));
    uint64_t target __attribute__((aligned(128))); /* set before the first submit */
};
extern struct pool_tally pool_tally;
void pool_all_done(void);

/* relaxed: it only counts; who waits is woken through a semaphore. */
static inline void pool_count_one(void)
{
    if (__atomic_add_fetch(&pool_tally.done, 1, __ATOMIC_RELAXED) == pool_tally.target)
        pool_all_done();
}

#ifdef __cplusplus
}
#endif
#endif /* POOL_LOAD_H */
