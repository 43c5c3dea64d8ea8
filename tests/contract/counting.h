/* SPDX-License-Identifier: MIT */
/*
 * counting.h - an allocator that counts, set before main: a test that includes
 * this file can say how many blocks of the library's memory are alive.
 *
 * Records of threads stay with the library when a thread ends (type-stable
 * memory), so the number does not come back to zero; it must not grow from one
 * pass of the same work to the next.
 */
#ifndef COUNTING_H
#define COUNTING_H

#include <stdatomic.h>
#include <stdlib.h>

#include <spindle/alloc.h>

static atomic_long counting_live;   /* blocks alive */
static atomic_long counting_allocs; /* calls that gave memory */
static atomic_int counting_refuse;  /* 1: there is no memory */

static void *counting_alloc(void *ctx, size_t bytes, size_t alignment)
{
    void *memory = NULL;

    (void)ctx;
    if (atomic_load(&counting_refuse) != 0 ||
        posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    atomic_fetch_add(&counting_live, 1);
    atomic_fetch_add(&counting_allocs, 1);
    return memory;
}

static void counting_release(void *ctx, void *memory)
{
    (void)ctx;
    atomic_fetch_sub(&counting_live, 1);
    free(memory);
}

__attribute__((constructor)) static void counting_set(void)
{
    const spn_allocator allocator = { sizeof allocator, counting_alloc,
                                      counting_release, NULL };

    if (spn_allocator_set(&allocator) != SPN_OK)
        abort(); /* nothing can have used the library before main */
}

#endif /* COUNTING_H */
