/* SPDX-License-Identifier: MIT */
/*
 * measure.h - the floors: what the smallest steps of a thread pool cost on this
 * machine, below which no pool can go.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdbool.h>
#include <stdint.h>

enum floor_id {
    FLOOR_CLOCK_READ,
    FLOOR_ATOMIC_ADD,
    FLOOR_STORE_FENCE,
    FLOOR_FENCE_LIGHT,
    FLOOR_FENCE_HEAVY,
    FLOOR_FENCE_HEAVY_BUSY,
    FLOOR_MALLOC_FREE,
    FLOOR_NULL_SYSCALL,
    FLOOR_WAKE_NOBODY,
    FLOOR_LINE_ROUND_TRIP,
    FLOOR_WAKE_SAME_CPU,
    FLOOR_WAKE_OTHER_CPU,
    FLOOR_WAKE_IDLE_CPU,
    FLOOR_FUTEX_FREE,
    FLOOR_FUTEX_SAME_CPU,
    FLOOR_FUTEX_OTHER_CPU,
    FLOOR_PARK_FREE,
    FLOOR_PARK_OTHER_CPU,
    FLOOR_THREAD,
    FLOOR_COUNT
};

struct floor {
    const char *key;     /* for programs: "atomic_add"                       */
    const char *what;    /* for people: "atomic add, uncontended"            */
    const char *unknown; /* why there is no figure, or NULL when there is    */
    double median_ns;    /* over the repeats, per operation                  */
    double min_ns;
    double max_ns;
    int repeats;
};

struct floors {
    struct floor of[FLOOR_COUNT];
    uint32_t cpu_a;    /* the CPUs pinned threads ran on; equal when there  */
    uint32_t cpu_b;    /* is but one                                        */
    bool pinning;      /* threads could be pinned                           */
    bool shared_core;  /* cpu_a and cpu_b are hyperthreads of one core      */
    bool thread_works; /* a thread could be started at all                  */
};

/* Called before each floor is measured: number `index` of `count`. */
typedef void (*measure_progress_fn)(void *ctx, int index, int count, const char *what);

/*
 * Measures all of them; about 3 s, under half a second when quick.  Runs on the
 * calling thread and one other, and leaves the caller's affinity as it was.
 */
void measure_floors(struct floors *floors, bool quick, measure_progress_fn progress,
                    void *ctx);

#endif /* MEASURE_H */
