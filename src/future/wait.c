/* SPDX-License-Identifier: MIT */
/*
 * wait.c - waiting for a future.
 *
 * OVERVIEW
 *   A future that is done costs a load.  Otherwise the waiter looks for a moment,
 *   because a completion that is under way is faster than a system call, and then
 *   lies down in the future's wait queue like any other waiter (sync/waitq.c).
 *
 * LOST WAKE-UPS
 *   There are none: the waiter sets ATTENDED in the state word and lists itself
 *   under the lock.  A completion that comes before finds the future done there;
 *   one that comes after sees ATTENDED and takes the lock, after the waiter.
 *
 * ORDERING  [done] see core.c.
 */
#include "future/core.h"
#include "future/wait.h"

#include "base/time.h"
#include "sync/interrupt.h"

bool spn__future_attend(struct spn_future *f, uint32_t limit)
{
    /* relaxed, all: it asks the completer to take the lock, which orders; who finds
     * the future done here looks again before it reads the outcome [done]. */
    uint32_t found = spn__load(&f->state, relaxed);

    while ((found & SPN__ATTENDED) == 0 && spn__phase(found) < limit)
        if (spn__cas_weak(&f->state, &found, found | SPN__ATTENDED, relaxed, relaxed))
            return true;
    return spn__phase(found) < limit;
}

/*
 * Looks for a while.  Whether that pays depends on what the thread waits for, and
 * on whether there is another CPU for it to happen on: see spin.h.  The whole span
 * is longer than a thread takes to wake up: of two threads that hand to and fro and have
 * both begun to sleep, one that looks as long as that sees the other come, and both are
 * awake again.
 */
static bool spin(const struct spn_future *f, struct spn_thread *self,
                 int64_t timeout_ns)
{
    enum { PROBE = 128 };
    const uint32_t wake_ns = spn__parker_wake_ns(&self->parker);
    const uint32_t whole_ns = wake_ns + wake_ns / 2;
    const uint32_t span_ns = spn__spin_span(&self->spin, whole_ns, PROBE);
    struct spn__look look = spn__look_begin(span_ns);
    bool on;

    /* Not where it would outlast the timeout, by more than a few looks. */
    if (span_ns == 0 || span_ns > timeout_ns)
        return false;
    spn__spin_hold_back(&self->spin);
    do {
        on = spn__look_on(&look);
        if (spn__future_done(f)) {
            spn__spin_held_back(&self->spin, look.turns == 1);
            spn__spin_rewarded(&self->spin, whole_ns);
            return true;
        }
    } while (on);
    spn__spin_in_vain(&self->spin);
    return false;
}

/* Lies down until there is an outcome. */
static int sleep_on(struct spn_future *f, struct spn_thread *self, int64_t deadline_ns)
{
    struct spn__waiter w;
    int rc;

    spn__lock(&f->lock);
    if (!spn__future_attend(f, SPN__NORMAL)) {
        spn__unlock(&f->lock);
        return SPN_OK;
    }
    spn__waitq_add(&f->waiters, &w, self);
    spn__unlock(&f->lock);
    rc = spn__waitq_wait(&w, &f->lock, deadline_ns);
    if (rc != SPN_OK)
        spn__unlock(&f->lock);
    return rc;
}

static int await(struct spn_future *f, int64_t timeout_ns)
{
    spn_executor *entered = NULL;
    struct spn_thread *self;
    int64_t deadline_ns;
    int rc;

    deadline_ns =
        timeout_ns == SPN_FOREVER ? SPN_FOREVER : spn__deadline(spn__now(), timeout_ns);
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    /* Neither a look nor an interrupt that is there already makes it wait. */
    if (timeout_ns <= 0 || spn__interrupt_pending(self))
        return sleep_on(f, self, deadline_ns);
    if (f->kind == SPN__TASK) {
        rc = spn__task_wait_begin(f, self, timeout_ns != SPN_FOREVER, &entered);
        if (rc != SPN_OK)
            return spn__future_done(f) ? SPN_OK : rc;
    }
    if (spn__future_done(f) || spin(f, self, timeout_ns))
        rc = SPN_OK;
    else
        rc = sleep_on(f, self, deadline_ns);
    if (entered != NULL)
        spn__task_wait_end(entered);
    return rc;
}

int spn__future_await(struct spn_future *f, int64_t timeout_ns)
{
    return spn__future_done(f) ? SPN_OK : await(f, timeout_ns);
}

/* Out of line to keep the fast path small. */
static __attribute__((noinline)) int get_waiting(struct spn_future *f, void **value,
                                                 int64_t timeout_ns)
{
    int rc;

    if (f == NULL)
        return SPN_EINVAL;
    rc = spn__future_await(f, timeout_ns);
    if (rc != SPN_OK)
        return rc;
    rc = spn__future_status(f);
    if (rc == SPN_OK && value != NULL)
        *value = spn__future_read_value(f);
    return rc;
}

int spn_future_get(spn_future *f, void **value, int64_t timeout_ns)
{
    /* The common case first: there is a value.  [done] */
    if (f != NULL && value != NULL &&
        spn__phase(spn__load(&f->state, acquire)) == SPN__NORMAL) {
        *value = spn__future_read_value(f);
        return SPN_OK;
    }
    return get_waiting(f, value, timeout_ns);
}

void spn__future_await_phase(struct spn_future *f, uint32_t limit,
                             struct spn_thread *self)
{
    struct spn__waiter w;
    bool waits;

    spn__lock(&f->lock);
    waits = spn__future_attend(f, limit);
    if (waits)
        spn__waitq_add(&f->waiters, &w, self);
    spn__unlock(&f->lock);
    if (waits)
        spn__waitq_sleep(&w);
    else
        /* [done] acquire: with INTERRUPTED comes the interrupt.
         * mutant: to the explorer the looks that follow in leave are fences */
        (void)spn__load(&f->state, acquire);
}

void spn__future_await_winner(struct spn_future *f)
{
    struct spn_thread *self;

    for (int i = 0; i < SPN__SPIN_LIMIT; i++) {
        if (spn__phase(spn__load(&f->state, relaxed)) != SPN__COMPLETING)
            return; /* relaxed: whoever wants the outcome looks for itself */
        spn__cpu_relax();
    }
    self = spn__thread_self();
    if (self != NULL) {
        spn__future_await_phase(f, SPN__NORMAL, self);
        return;
    }
    while (spn__phase(spn__load(&f->state, relaxed)) == SPN__COMPLETING)
        spn__os_yield();
}
