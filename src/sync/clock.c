/* SPDX-License-Identifier: MIT */
/*
 * clock.c - the monotonic clock, and manual clocks for tests.
 *
 * A manual clock is a number, and the threads that sleep until it is large
 * enough, sorted by deadline.  Moving the clock chooses those whose time has
 * come; it does not wait for them to run, because it cannot know what they do
 * next.  A test that must know waits with await_sleepers until they sleep again.
 *
 * ORDERING
 *   [now] the release store of the time pairs with the acquire load in now:
 *         what a test did before it moved the clock is visible to those who see
 *         the new time.
 *
 * LOCKS  `lock` guards all of a manual clock but the listeners, its time for
 *   writing; a leaf.  `listen_lock` is held while listeners are called, so that
 *   one that was taken off is not called any more; theirs come after it.
 */
#include "sync/clock.h"

#include "base/time.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"
#include "sync/waitq.h"

struct spn_clock {
    bool manual; /* fixed; false for the monotonic clock, which uses no field */
    SPN__ATOMIC(int64_t) now_ns;
    struct spn__lock lock;
    struct spn__waitq sleepers; /* w->wants is the deadline; sorted */
    struct spn__waitq watchers; /* w->wants is a number of sleepers; sorted */
    int32_t sleeping;           /* sleepers listed */
    struct spn__lock listen_lock;
    struct spn__list listeners; /* guarded by listen_lock */
};

static struct spn_clock monotonic_clock = { .manual = false };

int64_t spn_now(void)
{
    return spn__now();
}

spn_clock *spn_clock_monotonic(void)
{
    return &monotonic_clock;
}

int spn_clock_create_manual(spn_clock **out, int64_t start_ns)
{
    struct spn_clock *clock;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (start_ns < 0 || start_ns == SPN_FOREVER)
        return SPN_EINVAL;
    clock = spn__alloc(sizeof *clock);
    if (clock == NULL)
        return SPN_ENOMEM;
    clock->manual = true;
    spn__init(&clock->now_ns, start_ns);
    spn__lock_init(&clock->lock);
    spn__waitq_init(&clock->sleepers);
    spn__waitq_init(&clock->watchers);
    clock->sleeping = 0;
    spn__lock_init(&clock->listen_lock);
    spn__list_init(&clock->listeners);
    *out = clock;
    return SPN_OK;
}

int spn_clock_destroy(spn_clock *clock)
{
    bool busy;

    if (clock == NULL)
        return SPN_OK;
    if (!clock->manual)
        return SPN_EINVAL;
    spn__lock(&clock->lock);
    busy = !spn__waitq_empty(&clock->sleepers) || !spn__waitq_empty(&clock->watchers);
    spn__unlock(&clock->lock);
    spn__lock(&clock->listen_lock);
    busy = busy || !spn__list_empty(&clock->listeners);
    spn__unlock(&clock->listen_lock);
    if (busy)
        return SPN_EBUSY;
    spn__free(clock);
    return SPN_OK;
}

int64_t spn_clock_now(const spn_clock *clock)
{
    if (clock == NULL)
        return SPN_EINVAL;
    return clock->manual ? spn__load(&clock->now_ns, acquire) : spn__now(); /* [now] */
}

/* Chooses the waiters at the front of a sorted queue that want at most `limit`;
 * the lock is held.  Returns how many. */
static int32_t choose_up_to(struct spn__waitq *q, int64_t limit,
                            struct spn__chosen *chosen)
{
    struct spn__list_node *node, *following;
    int32_t count = 0;

    spn__list_each_safe (node, following, &q->waiters) {
        struct spn__waiter *w = spn__list_entry(node, struct spn__waiter, link);

        if (w->wants > limit)
            break;
        if (spn__waitq_choose(w, chosen))
            count++;
    }
    return count;
}

/* ---- sleeping ---------------------------------------------------------- */

static int sleep_monotonic(struct spn_thread *self, int64_t deadline_ns)
{
    while (!spn__deadline_passed(deadline_ns, spn__now())) {
        if (spn__interrupt_take(self))
            return SPN_EINTR;
        (void)spn__parker_park(&self->parker, deadline_ns);
    }
    return SPN_OK;
}

static int sleep_manual(struct spn_clock *clock, struct spn_thread *self,
                        int64_t deadline_ns)
{
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__waiter w;
    int rc;

    spn__lock(&clock->lock);
    /* relaxed: written under the lock. */
    if (spn__deadline_passed(deadline_ns, spn__load(&clock->now_ns, relaxed))) {
        spn__unlock(&clock->lock);
        return SPN_OK;
    }
    w.wants = deadline_ns;
    spn__waitq_add_sorted(&clock->sleepers, &w, self);
    clock->sleeping++;
    (void)choose_up_to(&clock->watchers, clock->sleeping, &chosen);
    spn__unlock(&clock->lock);
    spn__chosen_grant(&chosen);

    rc = spn__waitq_wait(&w, &clock->lock, SPN_FOREVER);
    if (rc == SPN_OK)
        return SPN_OK; /* the clock may be gone */
    clock->sleeping--;
    spn__unlock(&clock->lock);
    return rc;
}

int spn_clock_sleep_until(spn_clock *clock, int64_t deadline_ns)
{
    struct spn_thread *self;

    if (clock == NULL)
        return SPN_EINVAL;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    return clock->manual ? sleep_manual(clock, self, deadline_ns)
                         : sleep_monotonic(self, deadline_ns);
}

/* ---- moving ------------------------------------------------------------ */

/* Sets the time and wakes whom it is for; enters with the lock, leaves without. */
static void move_to(struct spn_clock *clock, int64_t now_ns)
{
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__list_node *node;

    spn__store(&clock->now_ns, now_ns, release); /* [now] */
    clock->sleeping -= choose_up_to(&clock->sleepers, now_ns, &chosen);
    spn__unlock(&clock->lock);
    spn__chosen_grant(&chosen);

    spn__lock(&clock->listen_lock);
    spn__list_each (node, &clock->listeners) {
        struct spn__clock_listener *l =
            spn__list_entry(node, struct spn__clock_listener, link);
        l->moved(l->ctx);
    }
    spn__unlock(&clock->listen_lock);
}

void spn__clock_listen(spn_clock *clock, struct spn__clock_listener *listener,
                       void (*moved)(void *ctx), void *ctx)
{
    spn__list_node_init(&listener->link);
    listener->moved = moved;
    listener->ctx = ctx;
    if (!clock->manual)
        return;
    spn__lock(&clock->listen_lock);
    spn__list_push_back(&clock->listeners, &listener->link);
    spn__unlock(&clock->listen_lock);
}

void spn__clock_unlisten(spn_clock *clock, struct spn__clock_listener *listener)
{
    if (!clock->manual)
        return;
    spn__lock(&clock->listen_lock);
    spn__list_remove(&listener->link);
    spn__unlock(&clock->listen_lock);
}

int spn_clock_advance(spn_clock *clock, int64_t by_ns)
{
    int64_t now_ns;

    if (clock == NULL || !clock->manual || by_ns < 0)
        return SPN_EINVAL;
    spn__lock(&clock->lock);
    now_ns = spn__time_add(spn__load(&clock->now_ns, relaxed), by_ns); /* our lock */
    if (now_ns == SPN_FOREVER) {
        spn__unlock(&clock->lock);
        return SPN_ERANGE;
    }
    move_to(clock, now_ns);
    return SPN_OK;
}

int spn_clock_advance_to_next(spn_clock *clock, int64_t *now_ns)
{
    const struct spn__list_node *first;
    int64_t next_ns = SPN_FOREVER;

    if (clock == NULL || !clock->manual)
        return SPN_EINVAL;
    spn__lock(&clock->lock);
    first = spn__list_first(&clock->sleepers.waiters);
    if (first != NULL)
        next_ns = spn__list_entry(first, const struct spn__waiter, link)->wants;
    if (next_ns == SPN_FOREVER) {
        spn__unlock(&clock->lock);
        return SPN_EEMPTY;
    }
    move_to(clock, next_ns);
    if (now_ns != NULL)
        *now_ns = next_ns;
    return SPN_OK;
}

int spn_clock_await_sleepers(spn_clock *clock, int32_t count, int64_t timeout_ns)
{
    struct spn_thread *self;
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc = SPN_OK;

    if (clock == NULL || !clock->manual || count < 0)
        return SPN_EINVAL;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);

    spn__lock(&clock->lock);
    if (clock->sleeping < count) {
        w.wants = count;
        spn__waitq_add_sorted(&clock->watchers, &w, self);
        spn__unlock(&clock->lock);
        rc = spn__waitq_wait(&w, &clock->lock, deadline_ns);
        if (rc == SPN_OK)
            return SPN_OK;
    }
    spn__unlock(&clock->lock);
    return rc;
}
