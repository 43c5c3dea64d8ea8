/* SPDX-License-Identifier: MIT */
/*
 * handle.c - timeouts that the library owns: a thin layer over the embedded ones.
 *
 * OVERVIEW
 *   A handle is a timeout with a function, its argument and a count of references, and
 *   still no larger: what an embedded timeout has for its function and its period holds
 *   the two, and `reserved` the count.  `policy` says that it is so (SPN__POLICY_HANDLE),
 *   and where in its slab the handle is (slab.c), which knows the timer.
 *
 *   The timer holds a reference from new_timeout until the function has been called,
 *   which happens exactly once: when the time has come, or with SPN_ECANCELED after
 *   cancel, on whatever thread runs callbacks.  To be called there after a cancel, the
 *   timeout is brought forward, to now, and keeps its place: with max_pending another
 *   might take that.  Only a timer that is stopped lets the caller of cancel do it.  What
 *   is left when the timer stops is told by stop.
 *
 * GUESTS
 *   Whoever cancels knows nothing of the timer's life, so a handle is a guest of its
 *   shard (delayed.c) from schedule until whoever decided its outcome will not touch the
 *   timer any more, and stop waits for the guests.  A function that cancel calls itself
 *   is called before that: when stop returns, all have been called.
 *
 * STATE  the top bits of `word`: PENDING --the first of time and cancel--> EXPIRED or
 *   CANCELLED.  It is the handle's own, because the timeout's follows what happens
 *   inside.  The rest of the word counts references.
 *
 * ORDERING
 *   [ref] each drop is a release and the last one an acquire: all use lies before free.
 */
#include "wheel/slab.h"
#include "wheel/timer.h"

/* OUTCOME of the word, and one reference. */
#define PENDING   UINT32_C(0)
#define EXPIRED   (UINT32_C(1) << 30)
#define CANCELLED (UINT32_C(2) << 30)
#define OUTCOME   (UINT32_C(3) << 30)
#define ONE       UINT32_C(1)

struct spn_timeout_handle {
    spn_timeout timeout; /* and nothing else */
};

_Static_assert(sizeof(spn_timeout_handle) == sizeof(spn_timeout), "a line");

typedef void (*any_fn)(void);
typedef SPN__ATOMIC(uint32_t) handle_word;

static handle_word *word_of(const spn_timeout_handle *h)
{
    return (handle_word *)(uintptr_t)&h->timeout.reserved;
}

static spn_timeout_handle *handle_of(spn_timeout *t)
{
    return (spn_timeout_handle *)(void *)t;
}

static void *arg_of(const spn_timeout_handle *h)
{
    return (void *)(uintptr_t)h->timeout.period_ns;
}

/* The first to decide; relaxed: only a word, the shard's lock orders the rest. */
static bool decide(spn_timeout_handle *h, uint32_t outcome)
{
    uint32_t found = spn__load(word_of(h), relaxed);

    while ((found & OUTCOME) == PENDING)
        if (spn__cas_weak(word_of(h), &found, found | outcome, relaxed, relaxed))
            return true;
    return false;
}

static void told(void *h)
{
    spn_timeout_handle_unref(h);
}

/* Calls the function and drops the timer's reference, also if that ends the thread. */
static int tell(spn_timeout_handle *h, int reason)
{
    SPN__CLEANUP_PUSH(told, h);
    ((spn_timeout_handle_fn)(any_fn)h->timeout.fn)(arg_of(h), reason);
    SPN__CLEANUP_POP();
    return 0;
}

/* We will not touch the timer any more. */
static void leave(const spn_timeout *t)
{
    spn__shard_guest_leaves(spn__home_get(t));
}

/* As callbacks, these are waited for by stop, or are part of it, after they have left. */
int spn__handle_expired(spn_timeout *t)
{
    if (!decide(handle_of(t), EXPIRED))
        return tell(handle_of(t), SPN_ECANCELED);
    leave(t);
    return tell(handle_of(t), SPN_OK);
}

int spn__handle_returned(spn_timeout *t)
{
    if (decide(handle_of(t), CANCELLED))
        leave(t);
    return tell(handle_of(t), SPN_ECANCELED);
}

static void leave_by_end(void *t)
{
    leave(t);
}

static int tell_cancelled(spn_timeout *t)
{
    return tell(handle_of(t), SPN_ECANCELED);
}

int spn_timer_new_timeout(spn_timer *timer, spn_timeout_handle_fn fn, void *arg,
                          int64_t delay_ns, spn_timeout_handle **out)
{
    spn_timeout_handle *h;
    spn_timeout *t;
    int rc;

    if (out != NULL)
        *out = NULL;
    if (timer == NULL || fn == NULL)
        return SPN_EINVAL;
    rc = spn__timer_ensure_started(timer);
    if (rc != SPN_OK)
        return rc;
    t = spn__slab_get(timer->slabs, spn__timer_own_shard(timer));
    if (t == NULL)
        return SPN_ENOMEM;
    h = handle_of(t);
    spn__init(spn__state_of(t), SPN__TIMEOUT_NEW);
    t->fn = (spn_timeout_fn)(any_fn)fn;
    t->period_ns = (int64_t)(uintptr_t)arg;
    spn__init(word_of(h), out != NULL ? 2 * ONE : ONE);
    /* Stored first: the callback may have run, and want it, before schedule returns. */
    if (out != NULL)
        *out = h;
    rc = spn__timer_schedule_handle(timer, t, delay_ns);
    if (rc != SPN_OK) {
        spn__slab_put(t);
        if (out != NULL)
            *out = NULL;
    }
    return rc;
}

int spn_timeout_handle_cancel(spn_timeout_handle *h)
{
    spn_timer *timer;

    if (h == NULL)
        return SPN_EINVAL;
    if (!decide(h, CANCELLED))
        return SPN_TIMEOUT_GONE; /* and the timer may be, too */
    timer = spn__slab_timer(&h->timeout);
    SPN__CLEANUP_PUSH(leave_by_end, &h->timeout); /* the timer may be gone then */
    /* If it does not wait any more, its callback or stop is about to find the outcome. */
    if (!spn__timer_bring_forward(timer, &h->timeout))
        spn__timer_call(&h->timeout, tell_cancelled);
    SPN__CLEANUP_POP();
    return SPN_TIMEOUT_REMOVED;
}

static int has_outcome(const spn_timeout_handle *h, uint32_t outcome)
{
    /* relaxed: a word. */
    return h != NULL && (spn__load(word_of(h), relaxed) & OUTCOME) == outcome;
}

int spn_timeout_handle_is_expired(const spn_timeout_handle *h)
{
    return has_outcome(h, EXPIRED);
}

int spn_timeout_handle_is_cancelled(const spn_timeout_handle *h)
{
    return has_outcome(h, CANCELLED);
}

spn_timer *spn_timeout_handle_timer(const spn_timeout_handle *h)
{
    return h != NULL ? spn__slab_timer(&h->timeout) : NULL;
}

void *spn_timeout_handle_arg(const spn_timeout_handle *h)
{
    return h != NULL ? arg_of(h) : NULL;
}

spn_timeout_handle *spn_timeout_handle_ref(spn_timeout_handle *h)
{
    if (h != NULL)
        (void)spn__fetch_add(word_of(h), ONE, relaxed); /* the caller has one */
    return h;
}

void spn_timeout_handle_unref(spn_timeout_handle *h)
{
    /* [ref] */
    if (h != NULL && (spn__fetch_sub(word_of(h), ONE, acq_rel) & ~OUTCOME) == ONE)
        spn__slab_put(&h->timeout);
}
