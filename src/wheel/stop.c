/* SPDX-License-Identifier: MIT */
/*
 * stop.c - the end of a timer: stop closes it, waits for the threads inside, and gives
 * back what is left.
 *
 * OVERVIEW
 *   Stop closes the shards first, then waits for the threads that run callbacks, and
 *   collects what is left only then.  So a periodic timeout whose callback was running
 *   is among it, and what was cancelled until then is not.  Several stops may run at
 *   once; one of them collects.
 *
 * ORDERING
 *   [told]  the stop that collects tells the owners of the library's own timeouts; the
 *           release of its last step pairs with the acquire of the other stops, which
 *           wait for that.
 *   [guests] stop then waits for the threads that take out the library's own timeouts
 *           without knowing of the timer's life: see future_timeout.c and handle.c.
 *
 * LOCKS  as in timer.c; no lock is held while an owner is told.
 */
#include "wheel/timer.h"

#include "base/time.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"
#include "wheel/slab.h"

/* Whether the thread runs a callback of this timer. */
static bool in_callback(struct spn_timer *timer, const struct spn_thread *thread)
{
    bool found = false;

    for (uint32_t i = 0; i <= timer->shard_mask && !found; i++) {
        struct spn__shard *s = &timer->shards[i];
        struct spn__list_node *node;

        spn__quick_lock(&s->lock);
        spn__list_each (node, &s->running)
            found =
                found ||
                spn__run_is_own(spn__list_entry(node, struct spn__run, link), thread);
        spn__quick_unlock(&s->lock);
    }
    return found;
}

/* Waits until no callback of the shard runs: whatever comes, or interruptibly until a
 * deadline. */
static int await_idle(struct spn__shard *s, struct spn_thread *self,
                      const int64_t *deadline_ns)
{
    int rc = SPN_OK;

    spn__quick_lock(&s->lock);
    while (rc == SPN_OK && !spn__list_empty(&s->running)) {
        struct spn__waiter w;

        spn__shard_enlist(s, &w, self);
        spn__quick_unlock(&s->lock);
        if (deadline_ns == NULL)
            spn__waitq_sleep(&w);
        else
            rc = spn__waitq_wait(&w, &s->idle_lock, *deadline_ns);
        if (rc != SPN_OK)
            spn__unlock(&s->idle_lock);
        spn__quick_lock(&s->lock);
        s->waiting--;
    }
    spn__quick_unlock(&s->lock);
    return rc;
}

/* Timeouts in the order they were taken out. */
struct chain {
    spn_timeout *first, **end;
};

static void chain_add(struct chain *c, spn_timeout *t)
{
    t->node.link.next = NULL;
    if (c->end != NULL)
        *c->end = t;
    else
        c->first = t;
    c->end = (spn_timeout **)(void *)&t->node.link.next; /* so itself */
}

/* What stop has taken out: the callers' timeouts, and the library's. */
struct collected {
    struct spn__shard *shard;
    struct chain callers, library;
};

static void collect_one(spn_wheel_node *node, void *ctx)
{
    struct collected *c = ctx;
    spn_timeout *t = spn__timeout_of(node);

    spn__wheel_unlink(node);
    spn__state_set(t, SPN_TIMEOUT_CANCELLED);
    spn__shard_count(c->shard, -1);
    spn__timer_release(c->shard->timer);
    c->shard->returned++;
    if ((t->policy & (SPN__POLICY_OWNED | SPN__POLICY_HANDLE)) != 0) {
        chain_add(&c->library, t);
    } else {
        spn__home_set(t, NULL); /* which may be gone soon; not before a guest */
        chain_add(&c->callers, t);
    }
}

/* Moves the handles that nobody has cancelled from the library's own to another chain. */
static void give_handles_back(struct chain *library, struct chain *handles)
{
    spn_timeout *t, *rest = library->first;

    *library = (struct chain){ NULL, NULL };
    while ((t = spn_timeout_pop(&rest)) != NULL)
        if ((t->policy & SPN__POLICY_HANDLE) != 0 && spn__handle_give_back(t))
            chain_add(handles, t);
        else
            chain_add(library, t);
}

static int tell_owner(spn_timeout *t)
{
    struct spn__owned *owned = (struct spn__owned *)(void *)t;

    if ((t->policy & SPN__POLICY_HANDLE) != 0)
        return spn__handle_returned(t);
    owned->returned(owned);
    return 0;
}

/* Tells the owners of our own.  As callbacks, because a stop in one of them would wait for
 * the rest. */
static void tell_owners(spn_timeout *list)
{
    spn_timeout *t;

    while ((t = spn_timeout_pop(&list)) != NULL) {
        const bool handle = (t->policy & SPN__POLICY_HANDLE) != 0;

        spn__timer_call(handle ? spn__slab_shard(t) : spn__home_get(t), t, tell_owner);
    }
}

/* Takes out all there is, stores the lists that were asked for, and tells the owners of
 * the rest. */
static void collect(struct spn_timer *timer, spn_timeout **left,
                    spn_timeout_handle_list *handles)
{
    struct collected c = { .shard = NULL };
    struct chain given = { NULL, NULL };

    for (uint32_t i = 0; i <= timer->shard_mask; i++) {
        struct spn__shard *s = &timer->shards[i];

        c.shard = s;
        spn__quick_lock(&s->lock);
        while (s->firing.next != &s->firing)
            collect_one(spn__wheel_node_of(s->firing.next), &c);
        (void)spn_wheel_each(s->wheel, collect_one, &c);
        spn__quick_unlock(&s->lock);
    }
    if (left != NULL)
        *left = c.callers.first;
    if (handles != NULL) {
        give_handles_back(&c.library, &given);
        handles->first = (spn_timeout_handle *)(void *)given.first;
    }
    tell_owners(c.library.first);
}

/* Waits until nobody who ends a guest is inside, whatever comes. */
static void await_guests(struct spn__shard *s)
{
    uint32_t found = spn__load(&s->guests, acquire); /* [guests] */

    while ((found & ~SPN__GUESTS_AWAITED) != 0) {
        /* relaxed: has whoever makes it none wake us; the number is read again. */
        found = spn__fetch_or(&s->guests, SPN__GUESTS_AWAITED, relaxed) |
                SPN__GUESTS_AWAITED;
        if (found != SPN__GUESTS_AWAITED)
            (void)spn__futex_wait(&s->guests, found, SPN_FOREVER);
        found = spn__load(&s->guests, acquire); /* [guests] */
    }
}

/* Closes the shards, as every stop does: the one that collects need not be the first.  True
 * for the first. */
static bool begin_stop(struct spn_timer *timer)
{
    bool first;

    spn__lock(&timer->life_lock);
    /* relaxed: changes under the lock; the thread is unparked after it. */
    first = spn__load(&timer->state, relaxed) != SPN__TIMER_STOPPED;
    spn__store(&timer->state, SPN__TIMER_STOPPED, relaxed);
    timer->stopping++;
    spn__unlock(&timer->life_lock);
    for (uint32_t i = 0; i <= timer->shard_mask; i++) {
        spn__quick_lock(&timer->shards[i].lock);
        timer->shards[i].stopped = true;
        spn__quick_unlock(&timer->shards[i].lock);
    }
    spn__slabs_close(timer->slabs);
    return first;
}

/* Waits for the thread; true if the caller was interrupted meanwhile. */
static bool join_thread(struct spn_thread *thread)
{
    bool interrupted = false;

    if (thread == NULL)
        return false;
    while (spn_thread_join(thread, SPN_FOREVER, NULL) == SPN_EINTR)
        interrupted = true;
    return interrupted;
}

/* True for the one who is to collect. */
static bool begin_collect(struct spn_timer *timer)
{
    bool first;

    spn__lock(&timer->life_lock);
    first = !timer->collected;
    timer->collected = true;
    if (first)
        /* relaxed: who comes later has the lock after us. */
        spn__store(&timer->telling, 1, relaxed);
    spn__unlock(&timer->life_lock);
    return first;
}

/* Another stop has collected: waits until it has told the owners of our own. */
static int await_told(struct spn_timer *timer, const int64_t *deadline_ns)
{
    while (spn__load(&timer->telling, acquire) != 0) { /* [told] */
        if (deadline_ns != NULL && spn__deadline_passed(*deadline_ns, spn__now()))
            return SPN_ETIMEDOUT;
        (void)spn__futex_wait(&timer->telling, 1,
                              deadline_ns != NULL ? *deadline_ns : SPN_FOREVER);
    }
    return SPN_OK;
}

static int stop(spn_timer *timer, spn_timeout **left, spn_timeout_handle_list *handles,
                const int64_t *deadline_ns)
{
    struct spn_thread *self, *thread;
    bool first, interrupted;
    int rc = SPN_OK;

    if (left != NULL)
        *left = NULL;
    if (handles != NULL)
        handles->first = NULL;
    if (timer == NULL)
        return SPN_EINVAL;
    if (spn__timer_is_orphan(timer))
        return SPN_ESTATE;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    if (in_callback(timer, self))
        return SPN_ESTATE;
    first = begin_stop(timer);
    /* relaxed: written under life_lock, which begin_stop had, and not any more. */
    thread = spn__load(&timer->thread, relaxed);
    if (first && thread != NULL) {
        spn__parker_unpark(&timer->parker);
        (void)spn_thread_interrupt(thread); /* its callback */
    }
    spn__audit_state(timer, "stopped");
    interrupted = join_thread(thread);
    for (uint32_t i = 0; i <= timer->shard_mask && rc == SPN_OK; i++)
        rc = await_idle(&timer->shards[i], self, deadline_ns);
    if (rc == SPN_OK && begin_collect(timer)) {
        collect(timer, left, handles);
        spn__store(&timer->telling, 0, release); /* [told] to the other stops */
        spn__futex_wake(&timer->telling, INT32_MAX);
    } else if (rc == SPN_OK) {
        rc = await_told(timer, deadline_ns);
    }
    for (uint32_t i = 0; i <= timer->shard_mask && rc == SPN_OK; i++)
        await_guests(&timer->shards[i]);
    spn__timer_set_alarm(timer);
    if (interrupted)
        spn__interrupt_set(self);
    spn__lock(&timer->life_lock);
    timer->stopping--;
    spn__unlock(&timer->life_lock);
    return rc;
}

int spn_timer_stop(spn_timer *timer, spn_timeout **left,
                   spn_timeout_handle_list *handles)
{
    return stop(timer, left, handles, NULL);
}

int spn__timer_stop_until(spn_timer *timer, spn_timeout **left, int64_t deadline_ns)
{
    return stop(timer, left, NULL, &deadline_ns);
}

spn_timeout *spn_timeout_pop(spn_timeout **list)
{
    spn_timeout *t;

    if (list == NULL || *list == NULL)
        return NULL;
    t = *list;
    *list = (spn_timeout *)(void *)t->node.link.next;
    t->node.link.next = t->node.link.prev = NULL;
    return t;
}

spn_timeout_handle *spn_timeout_handle_take(spn_timeout_handle_list *handles)
{
    spn_timeout *list, *t;

    if (handles == NULL)
        return NULL;
    list = (spn_timeout *)(void *)handles->first;
    t = spn_timeout_pop(&list);
    handles->first = (spn_timeout_handle *)(void *)list;
    return (spn_timeout_handle *)(void *)t;
}
