/* SPDX-License-Identifier: MIT */
/*
 * waitq.h - threads that wait on an object: a list of nodes on the waiters' own
 * stacks, under the object's lock; see waitq.c.
 *
 *     // a waiter                             // a waker
 *     spn__lock(&x->lock);                    struct spn__chosen chosen = { 0 };
 *     if (!ready(x)) {                        spn__lock(&x->lock);
 *         spn__waitq_add(&x->q, &w, self);    make_ready(x);
 *         spn__unlock(&x->lock);              spn__waitq_choose_all(&x->q, &chosen);
 *         rc = spn__waitq_wait(&w, &x->lock,  spn__unlock(&x->lock);
 *                              deadline_ns);  spn__chosen_grant(&chosen);
 *         if (rc == SPN_OK)
 *             return SPN_OK;  // x is not ours to touch any more
 *     }
 *     spn__unlock(&x->lock);
 *
 * SPN_OK says that a waker chose this waiter: what it was chosen for (a permit,
 * an item) is its own, and the object may be gone already.
 */
#ifndef SPN__WAITQ_H
#define SPN__WAITQ_H

#include "base/list.h"
#include "sync/lock.h"
#include "sync/seam.h"

struct spn_thread;

struct spn__waiter {
    struct spn__list_node link;      /* guarded by the object's lock */
    struct spn_thread *thread;       /* fixed while it waits */
    struct spn__waiter *next_chosen; /* the waker's, from choose to grant */
    SPN__ATOMIC(uint32_t) state;     /* see waitq.c */
    int64_t wants;                   /* the object's own: permits, a deadline */
};

struct spn__waitq {
    struct spn__list waiters; /* in the order of service; guarded by the lock */
};

/* Waiters taken off a queue, on their way to be granted in the same order. */
struct spn__chosen {
    struct spn__waiter *first, *last;
};

static inline void spn__waitq_init(struct spn__waitq *q)
{
    spn__list_init(&q->waiters);
}

static inline bool spn__waitq_empty(const struct spn__waitq *q)
{
    return spn__list_empty(&q->waiters);
}

/* Adds the calling thread, whose record is `self`, as the last; sorted, behind
 * those that want as much or less; or as the first.  The lock is held. */
SPN__SHARED void spn__waitq_add(struct spn__waitq *q, struct spn__waiter *w,
                                struct spn_thread *self);
void spn__waitq_add_sorted(struct spn__waitq *q, struct spn__waiter *w,
                           struct spn_thread *self);
void spn__waitq_add_first(struct spn__waitq *q, struct spn__waiter *w,
                          struct spn_thread *self);

/*
 * Takes a waiter off its queue and puts it on `chosen`; false, and nothing
 * changes, if it is just leaving by itself.  The lock is held; whoever chooses
 * must grant, after unlocking.
 */
bool spn__waitq_choose(struct spn__waiter *w, struct spn__chosen *chosen);

/*
 * Choosing in two steps, for a waker that must know first whether it can use
 * what the waiter offers.  hold: keeps the waiter from leaving; false if it is
 * leaving already.  Then, before the lock is released, commit chooses it, or
 * release lets it wait on.
 */
bool spn__waitq_hold(struct spn__waiter *w);
void spn__waitq_commit(struct spn__waiter *w, struct spn__chosen *chosen);
void spn__waitq_release(struct spn__waiter *w);

/* Chooses the first that is not leaving (false: there is none), or them all. */
SPN__SHARED bool spn__waitq_choose_first(struct spn__waitq *q,
                                         struct spn__chosen *chosen);
SPN__SHARED void spn__waitq_choose_all(struct spn__waitq *q,
                                       struct spn__chosen *chosen);

/* Releases the chosen, with no lock held.  Their nodes are gone afterwards. */
SPN__SHARED void spn__chosen_grant(struct spn__chosen *chosen);

/*
 * Sleeps until granted, until deadline_ns, or until the thread is interrupted.
 * Entered without the lock.  Returns
 *   SPN_OK         chosen and granted.  The lock is not held.  An interrupt that
 *                  came as well stays set.
 *   SPN_ETIMEDOUT  the deadline came first.  `w` is off; THE LOCK IS HELD, so
 *                  that the object can settle what the leaving changes.
 *   SPN_EINTR      the same for an interrupt; the flag is cleared.
 */
SPN__SHARED int spn__waitq_wait(struct spn__waiter *w, struct spn__lock *lock,
                                int64_t deadline_ns);

/*
 * The same where the other side is likely to be on its way: looks `rounds` times
 * before it sleeps, and does not sleep when all that is left of the wait is
 * SPN__WAIT_NOT_SLEPT_NS or less.  A round is one pause of the CPU and, with a
 * deadline, one look at the clock.
 */
#define SPN__WAIT_NOT_SLEPT_NS INT64_C(1000)
int spn__waitq_wait_spinning(struct spn__waiter *w, struct spn__lock *lock,
                             int64_t deadline_ns, int32_t rounds);

/* Sleeps until granted, whatever comes: for waits that are not interruptible.
 * Entered without the lock, which is not held afterwards either. */
void spn__waitq_sleep(struct spn__waiter *w);

/*
 * Takes off a waiter that has not slept.  True: it was still listed, and the
 * lock is held now.  False: it had been chosen; the grant has been awaited, the
 * lock is not held, and what it was chosen for is the caller's to pass on.
 */
bool spn__waitq_cancel(struct spn__waiter *w, struct spn__lock *lock);

#endif /* SPN__WAITQ_H */
