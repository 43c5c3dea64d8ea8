/* SPDX-License-Identifier: MIT */
/*
 * slab.h - where handles live: side by side in blocks, a cache line each; see slab.c.
 */
#ifndef SPN__SLAB_H
#define SPN__SLAB_H

#include <spindle/timer.h>

#include "sync/seam.h"

struct spn__slabs;

/* For a timer with so many shards; NULL: no memory. */
struct spn__slabs *spn__slabs_create(struct spn_timer *timer, uint32_t shards);
/* The timer stops: spn__slab_enter fails from now on. */
void spn__slabs_close(struct spn__slabs *slabs);
/* The timer goes; handles that are still referred to stay until they are put back.
 * NULL is a no-op. */
void spn__slabs_leave(struct spn__slabs *slabs);

/* A timeout for that shard, all zero but `policy`, which tells where it is and stays
 * untouched; NULL: no memory. */
spn_timeout *spn__slab_get(struct spn__slabs *slabs, uint32_t shard);
void spn__slab_put(spn_timeout *t);

/* The timer and the shard it was made for, which may be gone. */
struct spn_timer *spn__slab_timer(const spn_timeout *t);
struct spn__shard *spn__slab_shard(const spn_timeout *t);

/* Makes the caller a guest of the shard, so that the timer stays until the caller leaves;
 * false: the timer was stopped, and may be gone. */
bool spn__slab_enter(const spn_timeout *t);

#endif /* SPN__SLAB_H */
