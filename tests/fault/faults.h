/* SPDX-License-Identifier: MIT */
/*
 * faults.h - an allocator that refuses one allocation, or all from one on, and counts
 * what is live.  It is set before main, as an allocator must be; one per program.
 *
 * A program that has other calls refused too, which the linker leads to it, asks refuse()
 * there: all are counted in one sequence.  With FAULTS_ARMED 0 nothing counts until it
 * says so.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdlib.h>

#include <spindle/alloc.h>
#include <spindle/status.h>
#include <spindle/thread.h>

#include "test.h"

#ifndef FAULTS_ARMED
#define FAULTS_ARMED 1
#endif

#define REFUSE_ARMED FAULTS_ARMED
#include "refuse.h"

static atomic_long live;

static void *faulty_alloc(void *ctx, size_t bytes, size_t alignment)
{
    void *memory = NULL;

    (void)ctx;
    if (refuse() || posix_memalign(&memory, alignment, bytes) != 0)
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

/*
 * Runs a script again and again, each time with the next call refused, and all that follow
 * if `more`, until it reaches no refusal: it leaves as much as it found each time, and has
 * more than `least` such calls.  What is kept for good must be there before.
 */
static inline void fault_sweep(void (*script)(void), bool more, int least)
{
    const long before = atomic_load(&live);
    int at = 0;

    atomic_store(&fail_more, more);
    do {
        atomic_store(&fail_at, ++at);
        atomic_store(&point, 0);
        atomic_store(&refused, 0);
        script();
        if (atomic_load(&live) != before)
            CHECK_EQ(atomic_load(&live), before + 1000000 * at); /* tells which */
        REQUIRE(at < 10000);
    } while (atomic_load(&refused) != 0);
    atomic_store(&fail_at, 0);
    CHECK(at > least);
    script();
    CHECK_EQ(atomic_load(&live), before);
}

#endif /* FAULTS_H */
