/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - the library's memory: the system's, or a program's own allocator.
 *
 * What is promised, also to a program that sets the allocator in one thread
 * while another makes its first call: every block of the process comes from
 * one allocator and goes back to it.  spn_allocator_set either returned SPN_OK,
 * and then it serves every allocation, or SPN_ESTATE, and then none.  The first
 * allocation decides, even if it fails.  How: base/hook.h.
 *
 * ORDERING   [hook], explained in base/hook.h.
 *
 * In simulation builds the seam counts and fails allocations itself, and the
 * two functions at the end have no callers.
 */
#include <spindle/alloc.h>

#include "base/assert.h"
#include "base/hook.h"
#include "base/options.h"
#include "sync/seam.h"

_Static_assert(sizeof(spn_allocator) == 4 * sizeof(void *), "append only, no holes");

#ifdef SPN_SIM
void *spn__mem_alloc(size_t bytes, size_t alignment);
void spn__mem_free(void *memory);
#endif

static struct spn__hook hook;
static spn_allocator custom; /* published by [hook] */

int spn_allocator_set(const spn_allocator *allocator)
{
    spn_allocator copy;
    int rc;

    if (allocator == NULL)
        return SPN_EINVAL;
    rc = spn__options_copy(&copy, sizeof copy, allocator);
    if (rc != SPN_OK)
        return rc;
    if (copy.alloc == NULL || copy.release == NULL)
        return SPN_EINVAL;
    if (!spn__hook_claim(&hook))
        return SPN_ESTATE;
    custom = copy;
    return spn__hook_publish(&hook) ? SPN_OK : SPN_ESTATE;
}

void *spn__mem_alloc(size_t bytes, size_t alignment)
{
    void *memory;

    spn__debug_assert(alignment >= sizeof(void *) &&
                      (alignment & (alignment - 1)) == 0);
    if (!spn__hook_use(&hook))
        return spn__os_alloc(bytes, alignment);
    memory = custom.alloc(custom.ctx, bytes, alignment);
    spn__debug_assert(((uintptr_t)memory & (alignment - 1)) == 0);
    return memory;
}

#ifndef SPN_SIM
bool spn__mem_watched(void)
{
    return SPN__ASAN || spn__hook_use(&hook);
}
#endif

void spn__mem_free(void *memory)
{
    if (memory == NULL)
        return;
    if (spn__hook_is_custom(&hook))
        custom.release(custom.ctx, memory);
    else
        spn__os_free(memory);
}
