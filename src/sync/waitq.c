/* SPDX-License-Identifier: MIT */
/*
 * waitq.c - the one way a thread waits on an object and can be interrupted.
 *
 * OVERVIEW
 *   A waiter is a node on its own stack and sleeps on its own thread's parker,
 *   so that an interrupt finds it without knowing the object.
 *
 * STATE of a node
 *   LISTED --waker, lock held--> CHOSEN --waker, lock free--> GRANTED
 *   LISTED --waiter----------> LEAVING, then it takes the lock and unlinks
 *   LISTED --waker, lock held--> HELD --waker--> CHOSEN, or LISTED again
 *                                HELD --waiter that wants to leave--> ASKED, the
 *                                same, but to be woken when it is LISTED again
 *
 *   The step out of LISTED is a compare-and-swap: it decides the race between
 *   a waker and a time-out or an interrupt, once.  A waiter that finds itself
 *   CHOSEN has been given something: it waits for the grant, which is on its
 *   way, and returns SPN_OK.  So a time-out never eats a wake-up, and an
 *   interrupt that loses stays set for the next wait (contract G-12).
 *
 * LIFETIME
 *   A waiter that was chosen does not touch the object again, and the waker
 *   grants after it has let go of the object's lock: a thread whose wait
 *   succeeded may free the object at once.  A waiter that is LEAVING is still
 *   on the list, and an object with a listed waiter is not destroyed.  After
 *   the grant the waker touches the thread's record, which is never freed
 *   (thread_record.h).
 *
 * ORDERING
 *   [grant] the release store of GRANTED pairs with the acquire loads in the
 *           waiter: it sees what the waker did, and the waker's last touch of
 *           the node lies before the waiter's return.
 *   The other transitions decide who acts and publish nothing: relaxed.
 */
#include "sync/waitq.h"

#include "base/time.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

enum { LISTED, CHOSEN, GRANTED, LEAVING, HELD, ASKED };

static struct spn__waiter *waiter_of(struct spn__list_node *node)
{
    return spn__list_entry(node, struct spn__waiter, link);
}

static void prepare(struct spn__waiter *w, struct spn_thread *self)
{
    w->thread = self;
    w->next_chosen = NULL;
    spn__init(&w->state, LISTED);
}

void spn__waitq_add(struct spn__waitq *q, struct spn__waiter *w,
                    struct spn_thread *self)
{
    prepare(w, self);
    spn__list_push_back(&q->waiters, &w->link);
}

void spn__waitq_add_sorted(struct spn__waitq *q, struct spn__waiter *w,
                           struct spn_thread *self)
{
    struct spn__list_node *node;

    prepare(w, self);
    spn__list_each (node, &q->waiters) {
        if (waiter_of(node)->wants > w->wants)
            break;
    }
    spn__list_insert_before(node, &w->link);
}

void spn__waitq_add_first(struct spn__waitq *q, struct spn__waiter *w,
                          struct spn_thread *self)
{
    prepare(w, self);
    spn__list_push_front(&q->waiters, &w->link);
}

static void move_to_chosen(struct spn__waiter *w, struct spn__chosen *chosen)
{
    spn__list_remove(&w->link);
    if (chosen->last != NULL)
        chosen->last->next_chosen = w;
    else
        chosen->first = w;
    chosen->last = w;
}

bool spn__waitq_choose(struct spn__waiter *w, struct spn__chosen *chosen)
{
    uint32_t found = LISTED;

    /* relaxed: decides between us and the waiter; [grant] does the rest. */
    if (!spn__cas(&w->state, &found, CHOSEN, relaxed, relaxed))
        return false;
    move_to_chosen(w, chosen);
    return true;
}

bool spn__waitq_hold(struct spn__waiter *w)
{
    uint32_t found = LISTED;

    return spn__cas(&w->state, &found, HELD, relaxed, relaxed); /* as in choose */
}

void spn__waitq_commit(struct spn__waiter *w, struct spn__chosen *chosen)
{
    spn__store(&w->state, CHOSEN, relaxed); /* held: it is ours to change */
    move_to_chosen(w, chosen);
}

void spn__waitq_release(struct spn__waiter *w)
{
    struct spn_thread *thread = w->thread; /* before it can leave */

    /* relaxed: the waiter goes on to take the lock we hold. */
    if (spn__exchange(&w->state, LISTED, relaxed) == ASKED)
        spn__parker_unpark(&thread->parker);
}

bool spn__waitq_choose_first(struct spn__waitq *q, struct spn__chosen *chosen)
{
    struct spn__list_node *node, *following;

    spn__list_each_safe (node, following, &q->waiters) {
        if (spn__waitq_choose(waiter_of(node), chosen))
            return true;
    }
    return false;
}

void spn__waitq_choose_all(struct spn__waitq *q, struct spn__chosen *chosen)
{
    struct spn__list_node *node, *following;

    spn__list_each_safe (node, following, &q->waiters) {
        (void)spn__waitq_choose(waiter_of(node), chosen);
    }
}

void spn__chosen_grant(struct spn__chosen *chosen)
{
    struct spn__waiter *w = chosen->first;

    while (w != NULL) {
        /* Both before the store: the node is gone right after it. */
        struct spn__waiter *next = w->next_chosen;
        struct spn_thread *thread = w->thread;

        spn__store(&w->state, GRANTED, release); /* [grant] */
        spn__parker_unpark(&thread->parker);
        w = next;
    }
    chosen->first = chosen->last = NULL;
}

static bool granted(const struct spn__waiter *w)
{
    return spn__load(&w->state, acquire) == GRANTED; /* [grant] */
}

void spn__waitq_sleep(struct spn__waiter *w)
{
    while (!granted(w))
        (void)spn__parker_park(&w->thread->parker, SPN_FOREVER);
}

/* The waiter wants to go: true if it may, with the lock held and the node off;
 * false if a waker was faster, after its grant. */
static bool leave(struct spn__waiter *w, struct spn__lock *lock)
{
    uint32_t found = LISTED;

    /* relaxed: these decide between us and a waker. */
    while (!spn__cas(&w->state, &found, LEAVING, relaxed, relaxed)) {
        if (granted(w))
            return false;
        if (found == HELD)
            (void)spn__cas(&w->state, &found, ASKED, relaxed, relaxed);
        else
            (void)spn__parker_park(&w->thread->parker, SPN_FOREVER);
        found = LISTED;
    }
    spn__lock(lock);
    spn__list_remove(&w->link);
    return true;
}

/* What a wait comes to that ends with `rc`, unless a waker is faster. */
static int give_up(struct spn__waiter *w, struct spn__lock *lock, int rc)
{
    if (!leave(w, lock))
        return SPN_OK;
    if (rc == SPN_EINTR)
        (void)spn__interrupt_take(w->thread);
    return rc;
}

int spn__waitq_wait(struct spn__waiter *w, struct spn__lock *lock, int64_t deadline_ns)
{
    int rc = SPN_OK;

    while (rc == SPN_OK) {
        if (granted(w))
            return SPN_OK;
        if (spn__interrupt_pending(w->thread))
            rc = SPN_EINTR;
        else if (!spn__parker_park(&w->thread->parker, deadline_ns))
            rc = SPN_ETIMEDOUT;
    }
    return give_up(w, lock, rc);
}

int spn__waitq_wait_spinning(struct spn__waiter *w, struct spn__lock *lock,
                             int64_t deadline_ns, int32_t rounds)
{
    int rc = SPN_OK;

    while (rc == SPN_OK) {
        int64_t left_ns = INT64_MAX;

        if (granted(w))
            return SPN_OK;
        if (deadline_ns != SPN_FOREVER)
            left_ns = spn__time_sub(deadline_ns, spn__now());
        if (spn__interrupt_pending(w->thread)) {
            rc = SPN_EINTR;
        } else if (left_ns <= 0) {
            rc = SPN_ETIMEDOUT;
        } else if (rounds > 0) {
            rounds--;
            spn__cpu_relax();
        } else if (left_ns <= SPN__WAIT_NOT_SLEPT_NS) {
            spn__cpu_relax();
        } else if (!spn__parker_park(&w->thread->parker, deadline_ns)) {
            rc = SPN_ETIMEDOUT;
        }
    }
    return give_up(w, lock, rc);
}

bool spn__waitq_cancel(struct spn__waiter *w, struct spn__lock *lock)
{
    return leave(w, lock);
}
