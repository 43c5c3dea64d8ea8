/* SPDX-License-Identifier: MIT */
/*
 * latch.c - a count that opens a gate when it reaches zero.
 *
 * STATE  count: n -> n-1 -> ... -> 1 -> 0 (open, final)
 *   Steps down to 1 are lock-free.  The last one is made with the lock held, so
 *   that it and a waiter that is just lying down see each other; destroy takes
 *   the lock too and so comes after it.
 *
 * ORDERING
 *   [open] every step down is acq_rel, so the last one has what all before it
 *          did; its release pairs with the acquire load in await.
 *
 * LOCKS  `lock` guards the waiters and the step to zero; a leaf.
 */
#include <spindle/latch.h>

#include "base/time.h"
#include "sync/thread_record.h"
#include "sync/waitq.h"

struct spn_latch {
    SPN__ATOMIC(int32_t) count;
    struct spn__lock lock;
    struct spn__waitq waiters; /* guarded by lock */
};

int spn_latch_create(spn_latch **out, int32_t count)
{
    struct spn_latch *latch;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (count < 0)
        return SPN_EINVAL;
    latch = spn__alloc(sizeof *latch);
    if (latch == NULL)
        return SPN_ENOMEM;
    spn__init(&latch->count, count);
    spn__lock_init(&latch->lock);
    spn__waitq_init(&latch->waiters);
    *out = latch;
    return SPN_OK;
}

int spn_latch_destroy(spn_latch *latch)
{
    bool busy;

    if (latch == NULL)
        return SPN_OK;
    spn__lock(&latch->lock); /* waits for the count_down that opened it */
    busy = !spn__waitq_empty(&latch->waiters);
    spn__unlock(&latch->lock);
    if (busy)
        return SPN_EBUSY;
    spn__free(latch);
    return SPN_OK;
}

/* Takes one from a count above `floor`; false, with what was found, if not. */
static bool step_down(struct spn_latch *latch, int32_t floor, int32_t *found)
{
    *found = spn__load(&latch->count, relaxed); /* checked by the exchange */
    while (*found > floor)
        /* [open] */
        if (spn__cas_weak(&latch->count, found, *found - 1, acq_rel, relaxed))
            return true;
    return false;
}

int spn_latch_count_down(spn_latch *latch)
{
    struct spn__chosen chosen = { NULL, NULL };
    int32_t found;

    if (latch == NULL)
        return SPN_EINVAL;
    if (step_down(latch, 1, &found) || found == 0)
        return SPN_OK;

    spn__lock(&latch->lock);
    if (step_down(latch, 0, &found) && found == 1)
        spn__waitq_choose_all(&latch->waiters, &chosen);
    spn__unlock(&latch->lock);
    spn__chosen_grant(&chosen);
    return SPN_OK;
}

int32_t spn_latch_count(const spn_latch *latch)
{
    if (latch == NULL)
        return SPN_EINVAL;
    return spn__load(&latch->count, acquire); /* [open] 0 is as good as await */
}

int spn_latch_await(spn_latch *latch, int64_t timeout_ns)
{
    struct spn_thread *self;
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc = SPN_OK;

    if (latch == NULL)
        return SPN_EINVAL;
    if (spn__load(&latch->count, acquire) == 0) /* [open] */
        return SPN_OK;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);

    spn__lock(&latch->lock);
    /* relaxed: the last step down was made under the lock. */
    if (spn__load(&latch->count, relaxed) != 0) {
        spn__waitq_add(&latch->waiters, &w, self);
        spn__unlock(&latch->lock);
        rc = spn__waitq_wait(&w, &latch->lock, deadline_ns);
        if (rc == SPN_OK)
            return SPN_OK; /* the latch may be gone */
    }
    spn__unlock(&latch->lock);
    return rc;
}
