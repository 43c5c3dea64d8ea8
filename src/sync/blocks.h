/* SPDX-License-Identifier: MIT */
/*
 * blocks.h - small blocks that are made and let go of all the time (futures), from
 * a cache that each thread has in its record; see blocks.c.
 */
#ifndef SPN__BLOCKS_H
#define SPN__BLOCKS_H

#include "sync/seam.h"

/* Sizes are rounded up to a multiple of GRAIN, the header included; larger blocks
 * than the last class are the allocator's.  At most KEPT blocks of a class wait for
 * their thread, and RETURNED that other threads let go of: 336 KiB in all, if a thread
 * ever had so many of every size.  The largest is one KiB: a request at a server. */
enum {
    SPN__BLOCK_HEADER = 2 * sizeof(void *), /* in front of what the user has */
    SPN__BLOCK_SMALL = 80, /* the least: a call's node, and its header */
    SPN__BLOCK_GRAIN = 64, /* the others are so many bytes apart */
    SPN__BLOCK_CLASSES = 16,
    SPN__BLOCK_KEPT = 32,
    SPN__BLOCK_RETURNED = 64
};

struct spn__block;

/* A thread's cache, in its record. */
struct spn__blocks {
    struct spn__block *kept[SPN__BLOCK_CLASSES]; /* owner only, as the next two */
    uint8_t kept_count[SPN__BLOCK_CLASSES];
    bool always; /* also where every block is watched: for tests */

    SPN__ATOMIC(struct spn__block *) returned; /* see blocks.c [return] */
    SPN__ATOMIC(uint32_t) returned_count;
};

/* A block of so many bytes, aligned for anything; NULL: no memory. */
SPN__SHARED void *spn__block_get(size_t bytes);
/* The same, by who hands it to another thread and will want the next one soon. */
void *spn__block_get_ahead(size_t bytes);
/* Gives back what spn__block_get gave, on any thread; NULL is a no-op. */
SPN__SHARED void spn__block_put(void *memory);

/* For the record: new, used again, and at the end of its thread, on that thread. */
void spn__blocks_init(struct spn__blocks *blocks);
void spn__blocks_open(struct spn__blocks *blocks);
void spn__blocks_close(struct spn__blocks *blocks);

#endif /* SPN__BLOCKS_H */
