/* SPDX-License-Identifier: MIT */
/*
 * timer_load.h - the work of the timer workloads, for spindle and for every peer in C
 * and C++, which bring only add and cancel:
 *
 *   churn   of `count` pending timers: add one with a random delay of 1 .. 60 s, cancel
 *           a random pending one
 *   fire    a million one-shots with random delays of 100 ms .. 2 s, whole milliseconds;
 *           each notes how late it was, against the time of its add plus its delay
 *   insert  a million tasks with random delays of 0 .. 1 s, from one thread, for an
 *           executor with two; each is counted
 */
#ifndef TIMER_LOAD_H
#define TIMER_LOAD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static inline int64_t load_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline double load_cpu_s(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Times any thread of the process went to sleep by itself. */
static inline long load_switches(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return u.ru_nvcsw;
}

/* Bytes of memory the process has. */
static inline double load_resident(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f == NULL || fscanf(f, "%lu %lu", &pages, &resident) != 2)
        abort();
    fclose(f);
    return (double)resident * 4096.0;
}

static inline uint64_t load_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* 1 .. 60 s in whole milliseconds, without a division; peers in other languages reckon
 * the same. */
static inline int64_t load_delay(uint64_t *seed)
{
    const uint64_t r = load_random(seed) >> 32;

    return 1000000000 + (int64_t)((r * 59000) >> 32) * 1000000;
}

typedef void (*load_add_fn)(size_t index, int64_t delay_ns);
typedef void (*load_cancel_fn)(size_t index);

/* One thread's share: timers first .. first + count, of which the last is free. */
struct churn {
    size_t first, count;
    uint64_t seed;
    uint32_t *at; /* the pending ones, in no order */
    uint32_t free;
};

static inline void churn_fill(struct churn *c, size_t first, size_t count,
                              load_add_fn add)
{
    c->first = first;
    c->count = count;
    c->seed = 88172645463325252u + first;
    c->at = (uint32_t *)malloc(count * sizeof *c->at);
    if (c->at == NULL)
        abort();
    for (size_t i = 0; i < count; i++) {
        c->at[i] = (uint32_t)(first + i);
        add(first + i, load_delay(&c->seed));
    }
    c->free = (uint32_t)(first + count);
}

__attribute__((always_inline)) static inline void
churn_run(struct churn *c, uint64_t pairs, load_add_fn add, load_cancel_fn cancel)
{
    uint64_t seed = c->seed;
    uint32_t free_one = c->free;

    for (uint64_t i = 0; i < pairs; i++) {
        const size_t r = (size_t)(((load_random(&seed) >> 32) * c->count) >> 32);
        const uint32_t victim = c->at[r];

        add(free_one, load_delay(&seed));
        c->at[r] = free_one;
        cancel(victim);
        free_one = victim;
    }
    c->seed = seed;
    c->free = free_one;
}

/* ---- fire -------------------------------------------------------------------- */

/* When one is due, and how late it was. */
struct shot {
    int64_t late_ns, due_ns;
};

struct fire {
    size_t count;
    struct shot *shots;
};

static inline void fire_init(struct fire *f, size_t count)
{
    f->count = count;
    f->shots = (struct shot *)malloc(count * sizeof *f->shots);
    if (f->shots == NULL)
        abort();
    memset(f->shots, 1, count * sizeof *f->shots);
}

/* 100 ms .. 2 s */
static inline int64_t fire_delay_ms(uint64_t *seed)
{
    return 100 + (int64_t)(((load_random(seed) >> 32) * 1901) >> 32);
}

/* 0 .. 1 s */
static inline int64_t insert_delay(uint64_t *seed)
{
    return (int64_t)(((load_random(seed) >> 32) * UINT64_C(1000000000)) >> 32);
}

static inline void fire_note(struct fire *f, size_t index)
{
    f->shots[index].late_ns = load_now() - f->shots[index].due_ns;
}

static inline int fire_order(const void *a, const void *b)
{
    const int64_t x = ((const struct shot *)a)->late_ns;
    const int64_t y = ((const struct shot *)b)->late_ns;

    return (x > y) - (x < y);
}

/* Gives each figure to `report`. */
static inline void fire_figures(struct fire *f, double cpu_s,
                                void (*report)(void *ctx, const char *metric, double),
                                void *ctx)
{
    double early = 0;

    qsort(f->shots, f->count, sizeof *f->shots, fire_order);
    for (size_t i = 0; i < f->count && f->shots[i].late_ns < 0; i++)
        early++;
    report(ctx, "p99_us", (double)f->shots[f->count * 99 / 100].late_ns / 1e3);
    report(ctx, "p50_us", (double)f->shots[f->count / 2].late_ns / 1e3);
    report(ctx, "p999_us", (double)f->shots[f->count * 999 / 1000].late_ns / 1e3);
    report(ctx, "max_us", (double)f->shots[f->count - 1].late_ns / 1e3);
    report(ctx, "early", early);
    report(ctx, "cpu_s", cpu_s);
}

#endif /* TIMER_LOAD_H */
