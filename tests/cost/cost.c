/* SPDX-License-Identifier: MIT */
/*
 * cost.c - the work whose instructions scripts/cost counts.
 *
 *     cost --list           one case a line: name, sizes, what the operation is
 *     cost CASE N           does the operation of CASE N times
 *
 * OVERVIEW
 *   Every case is gated: no thread's instructions depend on when another thread runs.
 *   A thread either works alone, or waits in a system call for a byte in a pipe; it never
 *   spins and never parks.  The count of each thread is therefore the same in every run.
 *
 *   The program ends with _exit, because the worker of a pool stays in its last task.
 */
#include "cost.h"

#include <string.h>
#include <unistd.h>

static const struct cost_case cases[] = {
    { "pool-call", "fn and arg through the default FIFO queue", cost_pool_call,
      COST_SIZES },
    { "pool-execute", "a task through the default FIFO queue", cost_pool_execute,
      COST_SIZES },
    { "pool-submit", "a function with a future through the default FIFO queue",
      cost_pool_submit, COST_SIZES },
    { "pool-refuse", "a refusal by the abort policy, the queue being full",
      cost_pool_refuse, COST_SIZES },
    { "lanes-call", "fn and arg through LANES", cost_lanes_call, COST_SIZES_LANES },
    { "lanes-execute", "a task through LANES", cost_lanes_execute, COST_SIZES_LANES },
    { "direct-execute", "a task through the direct executor", cost_direct_execute,
      COST_SIZES },
    { "manual-execute", "a task into the manual executor, and run", cost_manual_execute,
      COST_SIZES },
    { "future-complete", "a future made, completed, read and dropped",
      cost_future_complete, COST_SIZES },
    { "timer-cancel", "a timeout scheduled in a driven timer, and cancelled",
      cost_timer_cancel, COST_SIZES },
    { "timer-fire", "a timeout scheduled in a driven timer, and run", cost_timer_fire,
      COST_SIZES },
    { "wheel-cancel", "a node added to a wheel, and removed", cost_wheel_cancel,
      COST_SIZES },
    { "wheel-fire", "a node added to a wheel, and taken when due", cost_wheel_fire,
      COST_SIZES },
    { "queue-array", "an item put into an array queue, and taken", cost_queue_array,
      COST_SIZES },
    { "queue-linked", "an item put into a linked queue, and taken", cost_queue_linked,
      COST_SIZES },
    { "queue-ring", "an item put into a ring, and taken", cost_queue_ring, COST_SIZES },
    { "semaphore", "a permit acquired, and released", cost_semaphore, COST_SIZES },
    { "histogram-record", "a value recorded", cost_histogram_record, COST_SIZES },
    { "object-pool", "an object borrowed, and returned", cost_object_pool, COST_SIZES },
    { "hessian-write", "the body of a call written", cost_hessian_write, COST_SIZES },
    { "hessian-read", "the body of a call read", cost_hessian_read, COST_SIZES },
    { "frame-write", "a frame's header written", cost_frame_write, COST_SIZES },
    { "frame-read", "a frame's header read", cost_frame_read, COST_SIZES },
};

enum { RECORD_BYTES = 1 << 20 }; /* 8192 records of 128 bytes */
enum { CASES = sizeof cases / sizeof *cases };

/* Not inlined, and not the same so that they are not merged: callgrind finds the two by
 * their names. */
__attribute__((noinline)) void cost_count_from_here(void)
{
    __asm__ volatile("# from");
}

__attribute__((noinline)) void cost_count_to_here(void)
{
    __asm__ volatile("# to");
}

void *cost_records(size_t n, size_t size)
{
    static _Alignas(64) unsigned char records[RECORD_BYTES];

    COST_CHECK(n <= sizeof records / size);
    return records;
}

int main(int argc, char **argv)
{
    char *end;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < CASES; i++)
            (void)printf("%s\t%zu\t%zu\t%s\n", cases[i].name, cases[i].small,
                         cases[i].large, cases[i].about);
        return 0;
    }
    for (size_t i = 0; argc == 3 && i < CASES; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        const unsigned long n = strtoul(argv[2], &end, 10);
        COST_CHECK(*end == '\0' && n > 0);
        cost_count_from_here();
        cases[i].run(n);
        cost_count_to_here();
        _exit(0);
    }
    (void)fprintf(stderr, "usage: cost --list | cost CASE N\n");
    return 2;
}
