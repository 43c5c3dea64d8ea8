/* SPDX-License-Identifier: MIT */
/*
 * slab.c - memory for handles: a cache line each and nothing around it.
 *
 * OVERVIEW
 *   An allocator spends 16 bytes and more on each block, and a handle needs one line; so
 *   handles come from slabs of SLAB_HANDLES lines behind one of their own.  A handle
 *   knows its number in the slab (in `policy`), and so its slab, and that the rest: which
 *   makes room in the handle for nothing else than itself.  Handles that were never used
 *   are not written: the pages of a new slab come into being one by one.
 *
 *   Each shard of a timer has a lane: the slabs that have room.  A handle goes back to
 *   the lane it came from.  A slab that becomes empty is freed unless it is the lane's
 *   only one with room, so that one handle made and dropped again and again does not
 *   cost an allocation each time.
 *
 * LIFETIME
 *   Handles may be asked about when their timer is gone.  `refs` counts the timer and
 *   every slab; who takes the last one frees the lanes.
 *
 *   `closed` tells the holder of an expired handle, who knows nothing of the timer's
 *   life, whether the timer is still there.  Stop sets it under each lane's lock before
 *   it waits for the guests, and spn__slab_enter adds a guest under the same lock: stop
 *   either waits for that guest or has turned it away.
 *   [slabs] each drop is a release and the last an acquire: all use lies before the end.
 *
 * LOCKS  a lane's lock is a leaf; nothing is allocated or freed while it is held.
 *
 * WHY NOT blocks.h?  Its blocks have a header and are made by the allocator one by one:
 *   112 bytes for what takes 65 here.
 */
#include "wheel/slab.h"

#include <string.h>

#include "base/list.h"
#include "sync/lock.h"
#include "wheel/timer.h"

/* 8 KiB and a line. */
#define SLAB_HANDLES 128

struct lane {
    _Alignas(SPN__CACHE_LINE) struct spn__lock lock; /* guards the rest */
    struct spn__list room;                           /* slabs that are not full */
    struct spn__slabs *all;                          /* fixed, as the next */
    struct spn__shard *shard;                        /* may be gone */
    bool closed; /* the timer was stopped, or is gone */
};

struct spn__slabs {
    SPN__ATOMIC(uint32_t) refs; /* [slabs] */
    uint32_t lane_count;        /* fixed, as the next */
    struct spn_timer *timer;    /* a name */
    struct lane lanes[];
};

/* All guarded by the lane's lock, but `lane`, which is fixed. */
struct slab {
    _Alignas(SPN__CACHE_LINE) struct spn__list_node link;
    struct lane *lane;
    spn_wheel_link *free; /* put back, by their `next` */
    uint32_t used;        /* that somebody has */
    uint32_t fresh;       /* the first that was never used, and all behind it */
    _Alignas(SPN__CACHE_LINE) spn_timeout handles[SLAB_HANDLES];
};

_Static_assert(offsetof(struct slab, handles) == SPN__CACHE_LINE, "one for the head");
_Static_assert(SLAB_HANDLES <= UINT32_MAX >> SPN__POLICY_INDEX_SHIFT, "fits policy");

static struct slab *slab_of(const spn_timeout *t)
{
    const uintptr_t first =
        (uintptr_t)t - (t->policy >> SPN__POLICY_INDEX_SHIFT) * sizeof *t;

    return (struct slab *)(first - offsetof(struct slab, handles));
}

struct spn__slabs *spn__slabs_create(struct spn_timer *timer, uint32_t shards)
{
    struct spn__slabs *s =
        spn__alloc_aligned(sizeof *s + shards * sizeof s->lanes[0], SPN__CACHE_LINE);

    if (s == NULL)
        return NULL;
    spn__init(&s->refs, 1);
    s->lane_count = shards;
    s->timer = timer;
    for (uint32_t i = 0; i < shards; i++) {
        spn__lock_init(&s->lanes[i].lock);
        spn__list_init(&s->lanes[i].room);
        s->lanes[i].all = s;
        s->lanes[i].shard = &timer->shards[i];
        s->lanes[i].closed = false;
    }
    return s;
}

static void unref(struct spn__slabs *s)
{
    if (spn__fetch_sub(&s->refs, 1, acq_rel) == 1) /* [slabs] */
        spn__free(s);
}

static void free_slab(struct slab *slab)
{
    struct spn__slabs *all = slab->lane->all;

    spn__free(slab);
    unref(all);
}

/* Takes the first slab that nobody uses off the lane; the lock is held. */
static struct slab *take_empty(struct lane *lane)
{
    struct spn__list_node *node;

    spn__list_each (node, &lane->room) {
        struct slab *slab = spn__list_entry(node, struct slab, link);

        if (slab->used == 0) {
            spn__list_remove(node);
            return slab;
        }
    }
    return NULL;
}

void spn__slabs_close(struct spn__slabs *s)
{
    for (uint32_t i = 0; i < s->lane_count; i++) {
        spn__lock(&s->lanes[i].lock);
        s->lanes[i].closed = true;
        spn__unlock(&s->lanes[i].lock);
    }
}

void spn__slabs_leave(struct spn__slabs *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->lane_count; i++) {
        struct lane *lane = &s->lanes[i];
        struct slab *slab;

        do { /* one at most: see OVERVIEW */
            spn__lock(&lane->lock);
            lane->closed = true; /* it may never have been started */
            slab = take_empty(lane);
            spn__unlock(&lane->lock);
            if (slab != NULL)
                free_slab(slab);
        } while (slab != NULL);
    }
    unref(s);
}

/* One of a slab with room; the lane's lock is held. */
static spn_timeout *take(struct slab *slab)
{
    spn_timeout *t;

    if (slab->free != NULL) {
        t = spn__timeout_of(spn__wheel_node_of(slab->free));
        slab->free = slab->free->next;
    } else {
        t = &slab->handles[slab->fresh];
        t->policy = SPN__POLICY_HANDLE | slab->fresh++ << SPN__POLICY_INDEX_SHIFT;
    }
    if (++slab->used == SLAB_HANDLES)
        spn__list_remove(&slab->link);
    return t;
}

static struct slab *make_slab(struct lane *lane)
{
    struct slab *slab = spn__alloc_aligned(sizeof *slab, SPN__CACHE_LINE);

    if (slab == NULL)
        return NULL;
    slab->lane = lane;
    slab->free = NULL;
    slab->used = slab->fresh = 0;
    /* relaxed: the timer's is there. */
    (void)spn__fetch_add(&lane->all->refs, 1, relaxed);
    return slab;
}

spn_timeout *spn__slab_get(struct spn__slabs *s, uint32_t shard)
{
    struct lane *lane = &s->lanes[shard];
    struct slab *slab = NULL;
    spn_timeout *t = NULL;
    uint32_t policy;

    spn__lock(&lane->lock);
    if (spn__list_empty(&lane->room)) {
        spn__unlock(&lane->lock);
        slab = make_slab(lane);
        if (slab == NULL)
            return NULL;
        spn__lock(&lane->lock);
        spn__list_push_front(&lane->room, &slab->link);
    }
    t = take(spn__list_entry(spn__list_first(&lane->room), struct slab, link));
    spn__unlock(&lane->lock);
    policy = t->policy;
    *t = (spn_timeout)SPN_TIMEOUT_INIT;
    t->policy = policy;
    return t;
}

void spn__slab_put(spn_timeout *t)
{
    struct slab *slab = slab_of(t);
    struct lane *lane = slab->lane;
    bool empty;

    spn__lock(&lane->lock);
    t->node.link.next = slab->free;
    slab->free = &t->node.link;
    if (slab->used-- == SLAB_HANDLES)
        spn__list_push_front(&lane->room, &slab->link);
    empty = slab->used == 0 &&
            (lane->closed || lane->room.head.next != lane->room.head.prev);
    if (empty)
        spn__list_remove(&slab->link);
    spn__unlock(&lane->lock);
    if (empty)
        free_slab(slab);
}

struct spn_timer *spn__slab_timer(const spn_timeout *t)
{
    return slab_of(t)->lane->all->timer;
}

struct spn__shard *spn__slab_shard(const spn_timeout *t)
{
    return slab_of(t)->lane->shard;
}

bool spn__slab_enter(const spn_timeout *t)
{
    struct lane *lane = slab_of(t)->lane;
    bool open;

    spn__lock(&lane->lock);
    open = !lane->closed;
    if (open)
        /* relaxed: stop has the lane's lock after us. */
        (void)spn__fetch_add(&lane->shard->guests, 1, relaxed);
    spn__unlock(&lane->lock);
    return open;
}
