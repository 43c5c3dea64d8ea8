/* SPDX-License-Identifier: MIT */
/*
 * room.c - waiting for room in a pool.
 *
 * OVERVIEW
 *   "Room" is whatever makes spn__pool_try_execute succeed: a place in the queue, a
 *   thread fewer than there may be, a free thread, a raised limit.  No word says so;
 *   the waiter lists itself in an event count and then simply tries.  Whoever makes
 *   room looks for waiters afterwards, so one of the two sees the other (eventcount.c,
 *   [ec]).  The event counts are light: making room is a worker's every step, waiting
 *   for it is rare and about to sleep anyway.
 *
 * NOTHING IS LOST
 *   One change, one waiter.  A waiter that was woken tries once; if another submitter
 *   was faster it waits again, at the end of the list, and the place is used, so nobody
 *   sleeps beside room.  If it leaves without having used what it was woken for (no
 *   memory, no thread, shut down) it wakes the next in its stead.
 *
 * WHY NOT reserve the place for the waiter?  It would make every take hand over under a
 * lock; barging submitters are what bounded queues have everywhere, and the time-out
 * bounds what an unlucky one waits.
 */
#include "exec/room.h"

#include "exec/pool.h"

void spn__room_init(struct spn__room *room)
{
    spn__eventcount_init(&room->ordinary, true);
    spn__eventcount_init(&room->urgent, true);
}

static bool is_urgent(const spn_task *task)
{
    return (task->flags & SPN_TASK_JOB) != 0 &&
           ((const spn_job *)(const void *)task)->urgent != 0;
}

int spn__room_execute(struct spn_pool *pool, spn_task *task, int64_t deadline_ns)
{
    struct spn__eventcount *ec =
        is_urgent(task) ? &pool->room.urgent : &pool->room.ordinary;
    bool woken = false;
    int rc;

    for (;;) {
        struct spn__waiter w;

        rc = spn__eventcount_prepare(ec, &w);
        if (rc != SPN_OK)
            break;
        rc = spn__pool_try_execute(pool, task);
        if (rc != SPN_EFULL) {
            spn__eventcount_cancel(ec, &w);
            break;
        }
        rc = spn__eventcount_wait(ec, &w, deadline_ns);
        if (rc != SPN_OK)
            return rc; /* not chosen: nothing to pass on */
        woken = true;
    }
    if (rc != SPN_OK && woken)
        spn__eventcount_notify(ec); /* what it was woken for is still there */
    return rc;
}
