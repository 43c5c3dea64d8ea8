/* SPDX-License-Identifier: MIT */
/*
 * cost.h - what the cases of the cost program share; cost.c has the list.
 */
#ifndef COST_H
#define COST_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program: a case that does not do what it says has no figure. */
#define COST_CHECK(condition)                                                     \
    do {                                                                          \
        if (!(condition)) {                                                       \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

/*
 * One case does its operation n times.  scripts/cost runs it at two sizes; what does
 * not grow with n cancels out.  `small` and `large` are those sizes.
 */
struct cost_case {
    const char *name;
    const char *about; /* the operation, for --list */
    void (*run)(size_t n);
    size_t small, large;
};

/* What is taken for many operations at once, memory above all, has its share in a figure.
 * For LANES the sizes are whole chunks, of 511 tasks. */
#define COST_SIZES       2048, 8192
#define COST_SIZES_LANES 511 * 4, 511 * 16

/*
 * The calling thread's instructions between the two are counted: scripts/cost has callgrind
 * forget what it has when the first is entered, and write it down when the second is.
 * What a thread does while it starts and ends is left out, for there it depends on other
 * threads.
 */
void cost_count_from_here(void);
void cost_count_to_here(void);

/* cost_pool.c: a pool's backlog.  The first thread submits, the worker runs. */
void cost_pool_call(size_t n);
void cost_pool_execute(size_t n);
void cost_pool_submit(size_t n);
void cost_pool_refuse(size_t n);
void cost_lanes_call(size_t n);
void cost_lanes_execute(size_t n);

/* cost_alone.c: what one thread does by itself. */
void cost_direct_execute(size_t n);
void cost_manual_execute(size_t n);
void cost_future_complete(size_t n);
void cost_timer_cancel(size_t n);
void cost_timer_fire(size_t n);
void cost_wheel_cancel(size_t n);
void cost_wheel_fire(size_t n);
void cost_queue_array(size_t n);
void cost_queue_linked(size_t n);
void cost_queue_ring(size_t n);
void cost_semaphore(size_t n);
void cost_histogram_record(size_t n);
void cost_object_pool(size_t n);

/* cost_codec.c: the bytes of a remote call. */
void cost_hessian_write(size_t n);
void cost_hessian_read(size_t n);
void cost_frame_write(size_t n);
void cost_frame_read(size_t n);

/* Memory for n records, all zero: once a run, and at no cost, unlike calloc, which clears
 * small blocks and not large ones. */
void *cost_records(size_t n, size_t size);

#endif /* COST_H */
