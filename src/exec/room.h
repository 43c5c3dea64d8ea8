/* SPDX-License-Identifier: MIT */
/*
 * room.h - submitters that wait until a pool can take one more task; see room.c.
 *
 * Who makes room calls one of the notify functions after it has; pool->lock may be held,
 * the event counts' locks are leaves.  With nobody waiting they cost a load.
 */
#ifndef SPN__ROOM_H
#define SPN__ROOM_H

#include <spindle/executor.h>

#include "sync/eventcount.h"

struct spn_pool;

struct spn__room {
    struct spn__eventcount waiters; /* light: see room.c */
};

void spn__room_init(struct spn__room *room);

/*
 * Hands the task to the pool as spn__pool_try_execute does, and waits while that
 * says SPN_EFULL.  SPN_OK, what try_execute said, SPN_ETIMEDOUT, SPN_EINTR, SPN_ENOMEM.
 */
int spn__room_execute(struct spn_pool *pool, spn_task *task, int64_t deadline_ns);

/* A task has left the queue, a worker has left, or (hand-off) has nothing to do. */
static inline void spn__room_notify(struct spn__room *room)
{
    spn__eventcount_notify(&room->waiters);
}

/* A limit has changed, many tasks have left, or the pool takes no more. */
static inline void spn__room_notify_all(struct spn__room *room)
{
    spn__eventcount_notify_all(&room->waiters);
}

#endif /* SPN__ROOM_H */
