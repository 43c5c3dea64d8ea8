/* SPDX-License-Identifier: MIT */
/*
 * eventcount.c - waiting for a change in data that has no lock.
 *
 * OVERVIEW
 *   A waiter lists itself first and looks at the condition afterwards; whoever
 *   changes the data looks for waiters afterwards.  One of the two sees the
 *   other.  Notify with nobody listed takes no lock and makes no system call.
 *
 * ORDERING
 *   [ec] waiter:   waiting = n (store)   fence   load the condition
 *        notifier: store the condition   fence   load waiting
 *        With a seq_cst fence on both sides (or heavy here and light there) it
 *        cannot be that both load the old value: no wake-up is lost.
 *
 * PASSING ON
 *   A notification chooses one waiter.  If that one leaves without looking at
 *   the data again (cancel), another must hear of it, or an item stays while a
 *   thread sleeps.  A wait that timed out or was interrupted after it had been
 *   chosen returns SPN_OK instead (waitq.c), so its caller looks again.
 *
 * WHY NOT the usual epoch in one futex word?  Its sleepers cannot be
 * interrupted: an interrupt does not know the word.  Nodes on the thread's own
 * parker can, and are woken one by one, first come first.
 */
#include "sync/eventcount.h"

#include "sync/thread_record.h"

void spn__eventcount_init(struct spn__eventcount *ec, bool light)
{
    spn__init(&ec->waiting, 0);
    ec->light = light;
    spn__lock_init(&ec->lock);
    spn__waitq_init(&ec->q);
}

/* The lock is held: a load and a store are enough. */
static void add_waiting(struct spn__eventcount *ec, uint32_t change)
{
    /* relaxed: written under the lock; the fences order it for notify [ec]. */
    const uint32_t waiting = spn__load(&ec->waiting, relaxed);

    spn__store(&ec->waiting, waiting + change, relaxed);
}

int spn__eventcount_prepare(struct spn__eventcount *ec, struct spn__waiter *w)
{
    struct spn_thread *self = spn__thread_self();

    if (self == NULL)
        return SPN_ENOMEM;
    spn__lock(&ec->lock);
    spn__waitq_add(&ec->q, w, self);
    add_waiting(ec, 1);
    spn__unlock(&ec->lock);
    if (ec->light)
        spn__fence_heavy(); /* [ec] */
    else
        spn__fence(seq_cst); /* [ec] */
    return SPN_OK;
}

void spn__eventcount_cancel(struct spn__eventcount *ec, struct spn__waiter *w)
{
    if (spn__waitq_cancel(w, &ec->lock)) {
        add_waiting(ec, UINT32_MAX);
        spn__unlock(&ec->lock);
    } else {
        spn__eventcount_notify(ec);
    }
}

int spn__eventcount_wait(struct spn__eventcount *ec, struct spn__waiter *w,
                         int64_t deadline_ns)
{
    const int rc = spn__waitq_wait(w, &ec->lock, deadline_ns);

    if (rc != SPN_OK) {
        add_waiting(ec, UINT32_MAX);
        spn__unlock(&ec->lock);
    }
    return rc;
}

void spn__eventcount_notify_slow(struct spn__eventcount *ec, bool all)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&ec->lock);
    while (spn__waitq_choose_first(&ec->q, &chosen)) {
        add_waiting(ec, UINT32_MAX);
        if (!all)
            break;
    }
    spn__unlock(&ec->lock);
    spn__chosen_grant(&chosen);
}
