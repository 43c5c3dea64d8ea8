/* SPDX-License-Identifier: MIT */
/*
 * budget.h - the memory that strangers can make a server take, counted against one limit.
 *
 * OVERVIEW
 *   `used` is the sum of what connections, requests, arenas and replies have taken.  It is
 *   changed where memory comes and goes in large pieces: small ones are not counted one by
 *   one (see docs/design/rpc.md, Memory), so that a small request does not write to a word
 *   that all threads share.
 *
 *   Nobody waits for the budget.  A take that would pass the limit fails, and the caller
 *   refuses what needed the memory; so a full budget can hold nobody up for ever.
 *
 * SHARES   What a peer can keep for as long as it likes, by sending or reading slowly, may
 *   not take all: memory for unfinished frames is given while not more than half of the
 *   limit is in use, by whatever, and for unwritten replies up to three quarters.  The last
 *   quarter is left to requests, which end by themselves.
 *
 * ORDERING  relaxed, all: a number.  It publishes nothing, and a take that reads an older
 *   value fails its swap.
 */
#ifndef SPN__NET_BUDGET_H
#define SPN__NET_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "sync/seam.h"

struct spn__budget {
    SPN__ATOMIC(uint64_t) used;
    uint64_t limit; /* bytes; 0: none, and all is only counted.  Fixed. */
};

/* For what the memory is: how many quarters of the limit may be in use afterwards. */
enum spn__share {
    SPN__SHARE_FRAMES = 2,
    SPN__SHARE_REPLIES = 3,
    SPN__SHARE_REQUESTS = 4,
    SPN__SHARE_ALWAYS = 0 /* taken whatever the limit: there is no way back */
};

static inline void spn__budget_init(struct spn__budget *budget, uint64_t limit)
{
    spn__init(&budget->used, (uint64_t)0);
    budget->limit = limit;
}

static inline uint64_t spn__budget_used(struct spn__budget *budget)
{
    return spn__load(&budget->used, relaxed);
}

/* Bytes that may be in use after a take for that share; 0: any number. */
static inline uint64_t spn__budget_most(const struct spn__budget *budget,
                                        enum spn__share share)
{
    return budget->limit - budget->limit / 4 * (4 - (uint64_t)share);
}

/* False: that would be too much, and nothing was taken.  budget may be NULL here and in give:
 * nothing is counted. */
static inline bool spn__budget_take(struct spn__budget *budget, uint64_t bytes,
                                    enum spn__share share)
{
    uint64_t used, most;

    if (budget == NULL || bytes == 0)
        return true;
    if (share == SPN__SHARE_ALWAYS || budget->limit == 0) {
        (void)spn__fetch_add(&budget->used, bytes, relaxed);
        return true;
    }
    most = spn__budget_most(budget, share);
    used = spn__load(&budget->used, relaxed); /* the swap decides */
    do {
        if (bytes > most || used > most - bytes)
            return false;
    } while (!spn__cas_weak(&budget->used, &used, used + bytes, relaxed, relaxed));
    return true;
}

static inline void spn__budget_give(struct spn__budget *budget, uint64_t bytes)
{
    uint64_t before;

    if (budget == NULL || bytes == 0)
        return;
    before = spn__fetch_sub(&budget->used, bytes, relaxed);
    spn__assert(before >= bytes);
}

/* Half of it is in use: who has memory to spare waits with taking more. */
static inline bool spn__budget_is_pressed(struct spn__budget *budget)
{
    return budget != NULL && budget->limit != 0 &&
           spn__budget_used(budget) > budget->limit / 2;
}

/* ---- large pieces ---------------------------------------------------------------- */

/* From here on memory is mapped, and unmapped when it is given back.  malloc would keep it:
 * once a program has freed a block of that size, the next ones come from the heap.  Watched
 * memory is the watcher's. */
#define SPN__MAPPED_FROM ((size_t)128 << 10)

/* NULL: no memory. */
static inline void *spn__large_get(size_t bytes)
{
    return bytes >= SPN__MAPPED_FROM && !spn__mem_watched() ? spn__os_map(bytes)
                                                            : spn__alloc(bytes);
}

/* With the size it was got with; NULL is a no-op. */
static inline void spn__large_put(void *memory, size_t bytes)
{
    if (memory != NULL && bytes >= SPN__MAPPED_FROM && !spn__mem_watched())
        spn__os_unmap(memory, bytes);
    else
        spn__free(memory);
}

/* A piece of `more` bytes with the first `size` bytes of this one, which is given back; NULL:
 * no memory, and this one stays.  A mapped piece grows where it is or moves by its pages, so
 * that the old and the new one never stand side by side. */
static inline void *spn__large_grow(void *memory, size_t bytes, size_t size,
                                    size_t more)
{
    void *larger;

    if (memory != NULL && bytes >= SPN__MAPPED_FROM && !spn__mem_watched())
        return spn__os_remap(memory, bytes, more);
    larger = spn__large_get(more);
    if (larger == NULL)
        return NULL;
    if (memory != NULL)
        memcpy(larger, memory, size);
    spn__large_put(memory, bytes);
    return larger;
}

#endif /* SPN__NET_BUDGET_H */
