/* SPDX-License-Identifier: MIT */
/*
 * queue.h - what a kind of queue provides, and what the kinds share.
 *
 * The public calls (queue.c, walk.c) check their arguments and go through the table
 * below.
 */
#ifndef SPN__QUEUE_H
#define SPN__QUEUE_H

#include <spindle/queue.h>

#include "base/list.h"
#include "sync/audit.h"
#include "sync/lock.h"
#include "sync/seam.h"

enum spn__end { SPN__LAST, SPN__FIRST };

/* How long a call may wait.  NOW ignores the interrupt flag and needs no thread
 * record. */
struct spn__patience {
    bool now;
    int64_t deadline_ns;
};

#define SPN__NO_PATIENCE  ((struct spn__patience){ true, 0 })
#define SPN__ALL_PATIENCE ((struct spn__patience){ false, SPN_FOREVER })

struct spn__queue_ops {
    /* SPN_OK, SPN_ECLOSED, SPN_ENOMEM; NOW: SPN_EFULL; else SPN_ETIMEDOUT and
     * SPN_EINTR. */
    int (*insert)(spn_queue *q, void *item, enum spn__end end, struct spn__patience p);
    /* SPN_OK, SPN_ECLOSED; NOW: SPN_EEMPTY; else SPN_ETIMEDOUT, SPN_EINTR. */
    int (*remove)(spn_queue *q, void **item, enum spn__end end, struct spn__patience p);
    /* Several at once, at least one or the status of insert and remove. */
    int (*insert_many)(spn_queue *q, void *const *items, size_t count,
                       struct spn__patience p, size_t *done);
    int (*remove_many)(spn_queue *q, void **items, size_t capacity,
                       struct spn__patience p, size_t *count);
    void *(*peek)(spn_queue *q, enum spn__end end);
    /* Shows the items from `end` on, with the queue locked.  NULL: the kind cannot
     * look inside. */
    void (*walk)(spn_queue *q, enum spn__end end, spn_queue_visit_fn visit, void *ctx);
    int64_t (*size)(const spn_queue *q);
    int32_t (*waiting_consumers)(spn_queue *q);
    void (*close)(spn_queue *q);
    bool (*busy)(spn_queue *q);    /* somebody waits: it must not be destroyed */
    void (*release)(spn_queue *q); /* empty, and nobody waits */
    /* As insert, but until a consumer has it; NOW hands over or answers
     * SPN_EFULL.  Asked of transfer queues only. */
    int (*transfer)(spn_queue *q, void *item, struct spn__patience p);
};

/* The head of every kind's struct; all fixed after create. */
struct spn_queue {
    const struct spn__queue_ops *ops;
    spn_queue_kind kind;
    int32_t capacity; /* INT32_MAX: no limit */
    bool fair;
    spn_queue_compare_fn compare;
    spn_queue_due_fn due;
    spn_queue_equal_fn equal;
    spn_queue_drop_fn drop;
    void *ctx;
    spn_clock *clock;
    SPN__AUDIT_FIELD
};

/* Constructors, one per family; options are checked.  NULL: no memory. */
spn_queue *spn__queue_create_fifo(spn_queue_kind kind, const spn_queue_opts *o);
spn_queue *spn__queue_create_ring(const spn_queue_opts *o);
spn_queue *spn__queue_create_monitor(spn_queue_kind kind, const spn_queue_opts *o);
spn_queue *spn__queue_create_delay(const spn_queue_opts *o);

/*
 * How many pauses a waiter of fifo.c and ring.c makes before its first look, learnt.
 * One that comes back to many items (or much room) is close behind a stream, and
 * looks later the next time: each look takes the line from the side at work, and
 * then pays for more items.  One that comes back to a few is in a conversation, or
 * alone, and looks sooner.  A hint: relaxed everywhere.
 */
typedef SPN__ATOMIC(uint32_t) spn__first_look;
enum {
    SPN__FIRST_LOOK_MAX = SPN__SPIN_LIMIT >= 32 ? 32 : 1,
    SPN__STREAM = 4 /* so many at once are a stream */
};

static inline void spn__first_look_learn(spn__first_look *first, bool stream)
{
    const uint32_t old = spn__load(first, relaxed);
    const uint32_t next = stream ? old * 2 : old / 2;

    if (next >= 1 && next <= SPN__FIRST_LOOK_MAX)
        spn__store(first, next, relaxed);
}

static inline bool spn__queue_is_deque(const spn_queue *q)
{
    return q->kind == SPN_QUEUE_DEQUE;
}

/* Drops all that is in it; nobody else uses the queue.  Returns how many. */
int64_t spn__queue_empty(spn_queue *q);

/* Fills in the head. */
void spn__queue_init(spn_queue *q, spn_queue_kind kind,
                     const struct spn__queue_ops *ops, const spn_queue_opts *o);

/* For kinds without a better way: one after the other. */
int spn__queue_insert_each(spn_queue *q, void *const *items, size_t count,
                           struct spn__patience p, size_t *done);
int spn__queue_remove_each(spn_queue *q, void **items, size_t capacity,
                           struct spn__patience p, size_t *count);

#endif /* SPN__QUEUE_H */
