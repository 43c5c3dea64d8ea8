/* SPDX-License-Identifier: MIT */
/*
 * handle.c - timeouts that the library owns: a thin layer over the embedded ones.
 *
 * OVERVIEW
 *   A handle is a timeout with a function, its argument and a count of references.  The
 *   timer holds one from new_timeout until the function has been called, which happens
 *   exactly once: when the time has come, or with SPN_ECANCELED after cancel, on
 *   whatever thread runs callbacks.  To be called there after a cancel, the timeout is
 *   scheduled once more, for at once; only a timer that no longer takes it lets the
 *   caller of cancel do it.  What is left when the timer stops is told by stop.
 *
 * STATE  `outcome`: PENDING --the first of time and cancel--> EXPIRED or CANCELLED
 *   It is the handle's own, because the timeout's follows what happens inside.
 *
 * ORDERING
 *   [ref] each drop is a release and the last one an acquire: all use lies before free.
 */
#include "wheel/timer.h"

enum { PENDING, EXPIRED, CANCELLED };

struct spn_timeout_handle {
    spn_timeout timeout; /* first: the callback is given this */
    spn_timeout_handle_fn fn;
    void *arg;
    spn_timer *timer;
    SPN__ATOMIC(uint32_t) refs;
    SPN__ATOMIC(uint32_t) outcome;
};

static spn_timeout_handle *handle_of(spn_timeout *t)
{
    return (spn_timeout_handle *)(void *)t;
}

/* The first to decide; relaxed: only a word, the shard's lock orders the rest. */
static bool decide(spn_timeout_handle *h, uint32_t outcome)
{
    uint32_t found = PENDING;

    return spn__cas(&h->outcome, &found, outcome, relaxed, relaxed);
}

/* Calls the function and drops the timer's reference. */
static void tell(spn_timeout_handle *h, int reason)
{
    h->fn(h->arg, reason);
    spn_timeout_handle_unref(h);
}

static int on_time(spn_timeout *t)
{
    spn_timeout_handle *h = handle_of(t);

    tell(h, decide(h, EXPIRED) ? SPN_OK : SPN_ECANCELED);
    return 0;
}

static int on_cancel(spn_timeout *t)
{
    tell(handle_of(t), SPN_ECANCELED);
    return 0;
}

bool spn__timeout_is_handle(const spn_timeout *t)
{
    return t->fn == on_time || t->fn == on_cancel;
}

void spn__handle_returned(spn_timeout *t)
{
    (void)decide(handle_of(t), CANCELLED);
    tell(handle_of(t), SPN_ECANCELED);
}

int spn_timer_new_timeout(spn_timer *timer, spn_timeout_handle_fn fn, void *arg,
                          int64_t delay_ns, spn_timeout_handle **out)
{
    spn_timeout_handle *h;
    int rc;

    if (out != NULL)
        *out = NULL;
    if (timer == NULL || fn == NULL)
        return SPN_EINVAL;
    h = spn__alloc(sizeof *h);
    if (h == NULL)
        return SPN_ENOMEM;
    h->timeout = (spn_timeout)SPN_TIMEOUT_INIT;
    spn__init(spn__state_of(&h->timeout), SPN__TIMEOUT_NEW);
    h->fn = fn;
    h->arg = arg;
    h->timer = timer;
    spn__init(&h->refs, out != NULL ? 2 : 1);
    spn__init(&h->outcome, PENDING);
    /* Stored first: the callback may have run, and want it, before schedule returns. */
    if (out != NULL)
        *out = h;
    rc = spn_timer_schedule(timer, &h->timeout, on_time, delay_ns);
    if (rc != SPN_OK) {
        spn__free(h);
        if (out != NULL)
            *out = NULL;
    }
    return rc;
}

int spn_timeout_handle_cancel(spn_timeout_handle *h)
{
    if (h == NULL)
        return SPN_EINVAL;
    if (!decide(h, CANCELLED))
        return SPN_TIMEOUT_GONE; /* and the timer may be, too */
    /* If it was not to be removed, on_time or stop is about to find the outcome. */
    if (spn_timer_cancel(h->timer, &h->timeout) == SPN_TIMEOUT_REMOVED &&
        spn_timer_schedule(h->timer, &h->timeout, on_cancel, 0) != SPN_OK)
        tell(h, SPN_ECANCELED);
    return SPN_TIMEOUT_REMOVED;
}

int spn_timeout_handle_is_expired(const spn_timeout_handle *h)
{
    return h != NULL && spn__load(&h->outcome, relaxed) == EXPIRED; /* a word */
}

int spn_timeout_handle_is_cancelled(const spn_timeout_handle *h)
{
    return h != NULL && spn__load(&h->outcome, relaxed) == CANCELLED; /* a word */
}

spn_timer *spn_timeout_handle_timer(const spn_timeout_handle *h)
{
    return h != NULL ? h->timer : NULL;
}

void *spn_timeout_handle_arg(const spn_timeout_handle *h)
{
    return h != NULL ? h->arg : NULL;
}

spn_timeout_handle *spn_timeout_handle_ref(spn_timeout_handle *h)
{
    if (h != NULL)
        (void)spn__fetch_add(&h->refs, 1, relaxed); /* the caller has one */
    return h;
}

void spn_timeout_handle_unref(spn_timeout_handle *h)
{
    if (h != NULL && spn__fetch_sub(&h->refs, 1, acq_rel) == 1) /* [ref] */
        spn__free(h);
}
