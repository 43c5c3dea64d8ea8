/* SPDX-License-Identifier: MIT */
/*
 * faults.h - an allocator that refuses one allocation, or all from one on, and counts
 * what is live.  It is set before main, as an allocator must be; one per program.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdatomic.h>
#include <stdlib.h>

#include <spindle/alloc.h>
#include <spindle/status.h>

static atomic_int point;     /* allocations counted */
static atomic_int fail_at;   /* the one to refuse; 0: none */
static atomic_int fail_more; /* 1: and all that follow */
static atomic_int refused;
static atomic_long live;

static void *faulty_alloc(void *ctx, size_t bytes, size_t alignment)
{
    const int n = atomic_fetch_add(&point, 1) + 1;
    const int at = atomic_load(&fail_at);
    void *memory = NULL;

    (void)ctx;
    if (at != 0 && (n == at || (n > at && atomic_load(&fail_more) != 0))) {
        atomic_fetch_add(&refused, 1);
        return NULL;
    }
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    atomic_fetch_add(&live, 1);
    return memory;
}

static void faulty_release(void *ctx, void *memory)
{
    (void)ctx;
    atomic_fetch_sub(&live, 1);
    free(memory);
}

__attribute__((constructor)) static void set_faulty(void)
{
    const spn_allocator allocator = { sizeof allocator, faulty_alloc, faulty_release,
                                      NULL };

    if (spn_allocator_set(&allocator) != SPN_OK)
        abort();
}

#endif /* FAULTS_H */
