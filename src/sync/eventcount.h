/* SPDX-License-Identifier: MIT */
/*
 * eventcount.h - "sleep unless something changed", for conditions that live in
 * lock-free data; see eventcount.c.
 *
 *     // a waiter                                  // whoever changes the data
 *     while (!take(data)) {                        put(data);
 *         if (spn__eventcount_prepare(&ec, &w))    spn__eventcount_notify(&ec);
 *             return SPN_ENOMEM;
 *         if (take(data)) {
 *             spn__eventcount_cancel(&ec, &w);
 *             break;
 *         }
 *         rc = spn__eventcount_wait(&ec, &w, deadline_ns);
 *         if (rc != SPN_OK)
 *             return rc;
 *     }
 */
#ifndef SPN__EVENTCOUNT_H
#define SPN__EVENTCOUNT_H

#include "sync/waitq.h"

struct spn__eventcount {
    SPN__ATOMIC(uint32_t) waiting; /* waiters listed; written under lock [ec] */
    bool light;                    /* notify pays nothing, prepare a lot; fixed */
    struct spn__lock lock;         /* guards q; a leaf */
    struct spn__waitq q;
};

/*
 * light: notify with nobody waiting costs a load, because prepare makes the
 * heavy fence of seam.h; right where notify is hot and sleeping is rare.
 */
void spn__eventcount_init(struct spn__eventcount *ec, bool light);

/*
 * Announces that the calling thread is about to sleep; look at the condition
 * again after it, then wait or cancel.  SPN_OK or SPN_ENOMEM.
 */
int spn__eventcount_prepare(struct spn__eventcount *ec, struct spn__waiter *w);

/* The condition held after all.  A notification that had chosen this waiter is
 * passed on to another. */
void spn__eventcount_cancel(struct spn__eventcount *ec, struct spn__waiter *w);

/*
 * Sleeps until a notify that came after prepare chooses this waiter.
 * SPN_OK, SPN_ETIMEDOUT or SPN_EINTR; after SPN_OK look at the condition again.
 */
int spn__eventcount_wait(struct spn__eventcount *ec, struct spn__waiter *w,
                         int64_t deadline_ns);

void spn__eventcount_notify_slow(struct spn__eventcount *ec, bool all);

static inline bool spn__eventcount_has_waiters(struct spn__eventcount *ec)
{
    if (ec->light)
        spn__fence_light(); /* [ec] */
    else
        spn__fence(seq_cst);                      /* [ec] */
    return spn__load(&ec->waiting, relaxed) != 0; /* ordered by the fence [ec] */
}

/* Call after the change.  Wakes one waiter, or all. */
static inline void spn__eventcount_notify(struct spn__eventcount *ec)
{
    if (spn__eventcount_has_waiters(ec))
        spn__eventcount_notify_slow(ec, false);
}

/* Call after `changes` changes, each of which may be for another waiter. */
static inline void spn__eventcount_notify_many(struct spn__eventcount *ec,
                                               size_t changes)
{
    for (size_t i = 0; i < changes && spn__eventcount_has_waiters(ec); i++)
        spn__eventcount_notify_slow(ec, false);
}

static inline void spn__eventcount_notify_all(struct spn__eventcount *ec)
{
    if (spn__eventcount_has_waiters(ec))
        spn__eventcount_notify_slow(ec, true);
}

#endif /* SPN__EVENTCOUNT_H */
