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
 * NO THREAD TO BE HAD
 *   Where the queue is full and threads are fewer than they may be, a try makes one.  If
 *   that fails, the place for it is there again, and whoever else waits is told (staff.c,
 *   undo), for it may have been refused on account of the thread in the making.  That
 *   must not have those who failed wake themselves or each other all the time.  So
 *   who failed so tries only the queue for a while, some milliseconds and each time
 *   longer, and then to make a thread again.  What it is woken for meanwhile and does not
 *   use, a place for a thread, it uses then, or passes on if it leaves before.
 *
 * WHY NOT reserve the place for the waiter?  It would make every take hand over under a
 * lock; barging submitters are what bounded queues have everywhere, and the time-out
 * bounds what an unlucky one waits.
 */
#include "exec/room.h"

#include "base/time.h"
#include "exec/pool.h"

void spn__room_init(struct spn__room *room)
{
    spn__eventcount_init(&room->waiters, true);
}

/* How long not to make a thread after that has failed: at first, and at most. */
#define RETRY_NS     SPN_MS(1)
#define RETRY_MAX_NS SPN_MS(64)

int spn__room_execute(struct spn_pool *pool, spn_task *task, int64_t deadline_ns)
{
    struct spn__eventcount *ec = &pool->room.waiters;
    int64_t retry_ns = RETRY_NS, make_ns = INT64_MIN; /* not before this time */
    bool woken = false, late = false;
    bool owed =
        false; /* woken, perhaps for a place for a thread, and did not try for one */
    int rc;

    for (;;) {
        const bool queue_only = make_ns != INT64_MIN && spn__now() < make_ns;
        struct spn__waiter w;
        bool no_thread;

        rc = spn__eventcount_prepare(ec, &w);
        if (rc != SPN_OK)
            break;
        rc = spn__pool_try_again(pool, task, queue_only, &no_thread);
        if (rc == SPN_EAGAIN && queue_only) { /* nobody is there: it has to be made */
            make_ns = INT64_MIN;
            spn__eventcount_cancel(ec, &w);
            continue;
        }
        owed = queue_only && (owed || woken);
        if (rc == SPN_EFULL && late)
            rc = SPN_ETIMEDOUT;
        if (rc != SPN_EFULL) {
            spn__eventcount_cancel(ec, &w);
            break;
        }
        if (no_thread) { /* and we may have woken ourselves by that */
            make_ns = spn__time_add(spn__now(), retry_ns);
            retry_ns = retry_ns < RETRY_MAX_NS ? 2 * retry_ns : RETRY_MAX_NS;
            spn__eventcount_cancel(ec, &w);
            continue;
        }
        rc = spn__eventcount_wait(ec, &w,
                                  queue_only && make_ns < deadline_ns ? make_ns
                                                                      : deadline_ns);
        woken = rc == SPN_OK;
        /* However often it is woken in vain. */
        late = deadline_ns != SPN_FOREVER && spn__now() >= deadline_ns;
        if (rc != SPN_OK && (rc != SPN_ETIMEDOUT || late))
            break; /* not chosen: nothing to pass on of this time */
    }
    if ((rc != SPN_OK && woken) || owed)
        spn__eventcount_notify(ec); /* what it was woken for is still there */
    return rc;
}
