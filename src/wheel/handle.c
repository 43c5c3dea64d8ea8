/* SPDX-License-Identifier: MIT */
/*
 * handle.c - timeouts that the library owns: a thin layer over the embedded ones.
 *
 * OVERVIEW
 *   A handle is a timeout with two functions, their argument and a count of references,
 *   and still no larger: `fn` is the function for its time, `period_ns` the one for a time
 *   that will not come (`gone`), `home` the argument, and `reserved` the count.  `policy`
 *   says that it is so (SPN__POLICY_HANDLE), and where in its slab the handle is (slab.c).
 *   The slab knows the timer and the shard.
 *
 *   The timer holds one reference from each scheduling until fn or gone has returned, or
 *   until stop gives it away with the handle.
 *
 *   gone is called where callbacks run.  To get there after a cancel, the timeout is
 *   brought forward, to now, and keeps its place: with max_pending another might take
 *   that.  Only when the timer is stopped does the caller of cancel call gone.  Without a
 *   gone, cancel takes the timeout out at once.
 *
 * GUESTS
 *   Whoever cancels knows nothing of the timer's life, so a handle is a guest of its
 *   shard (future_timeout.c) from each scheduling until whoever decided its outcome will not
 *   touch the timer any more, and stop waits for the guests.  A gone that cancel calls
 *   itself is called before that: when stop returns, all have been called.
 *   An expired handle is no guest, so `again` makes its caller one first, if the timer is
 *   not stopped (spn__slab_enter).
 *
 * STATE  the top bits of `word`, the rest of which counts references
 *   PENDING --the first of time and cancel, or stop--> EXPIRED or CANCELLED
 *   EXPIRED --again--> PENDING, under the shard's lock: there EXPIRED does not change
 *   It is the handle's own, because the timeout's follows what happens inside.
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
_Static_assert(sizeof(spn_timeout_gone_fn) <= sizeof(int64_t), "fits period_ns");

typedef void (*any_fn)(void);
typedef SPN__ATOMIC(uint32_t) handle_word;

static handle_word *word_of(const spn_timeout_handle *h)
{
    return (handle_word *)(uintptr_t)&h->timeout.reserved;
}

static spn_timeout_handle *handle_of(const spn_timeout *t)
{
    return (spn_timeout_handle *)(uintptr_t)t;
}

static spn_timeout_handle_fn fn_of(const spn_timeout_handle *h)
{
    return (spn_timeout_handle_fn)(any_fn)h->timeout.fn;
}

static spn_timeout_gone_fn gone_of(const spn_timeout_handle *h)
{
    return (spn_timeout_gone_fn)(uintptr_t)h->timeout.period_ns;
}

static void *arg_of(const spn_timeout_handle *h)
{
    return h->timeout.home;
}

static struct spn__shard *shard_of(const spn_timeout_handle *h)
{
    return spn__slab_shard(&h->timeout);
}

static uint32_t outcome_of(const spn_timeout_handle *h)
{
    return spn__load(word_of(h), relaxed) & OUTCOME; /* relaxed: a word */
}

/* True for the first to decide; relaxed: only a word, the shard's lock orders the rest. */
static bool handle_decide(spn_timeout_handle *h, uint32_t outcome)
{
    uint32_t found = spn__load(word_of(h), relaxed);

    while ((found & OUTCOME) == PENDING)
        if (spn__cas_weak(word_of(h), &found, found | outcome, relaxed, relaxed))
            return true;
    return false;
}

/* Whoever decided will not touch the timer any more. */
static void handle_leave(const spn_timeout_handle *h)
{
    spn__shard_guest_leaves(shard_of(h));
}

/* ---- calling ------------------------------------------------------------------- */

/* Both call a function and drop the timer's reference. */
static int handle_call_fn(spn_timeout_handle *h)
{
    fn_of(h)(h, arg_of(h));
    spn_timeout_handle_unref(h);
    return 0;
}

static int handle_call_gone(spn_timeout_handle *h, int reason)
{
    if (gone_of(h) != NULL)
        gone_of(h)(arg_of(h), reason);
    spn_timeout_handle_unref(h);
    return 0;
}

/* As callbacks, these are waited for by stop, or are part of it, after they have left. */
int spn__handle_expired(spn_timeout *t)
{
    spn_timeout_handle *h = handle_of(t);

    if (!handle_decide(h, EXPIRED))
        return handle_call_gone(h, SPN_ECANCELED);
    handle_leave(h);
    return handle_call_fn(h);
}

bool spn__handle_give_back(spn_timeout *t)
{
    if (!handle_decide(handle_of(t), CANCELLED))
        return false;
    handle_leave(handle_of(t));
    return true;
}

int spn__handle_returned(spn_timeout *t)
{
    return handle_call_gone(handle_of(t),
                            spn__handle_give_back(t) ? SPN_ESHUTDOWN : SPN_ECANCELED);
}

/* ---- scheduling ---------------------------------------------------------------- */

int spn_timer_new_timeout(spn_timer *timer, spn_timeout_handle_fn fn,
                          spn_timeout_gone_fn gone, void *arg, int64_t delay_ns,
                          spn_timeout_handle **out)
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
    spn__init(spn__state_of(t), SPN_TIMEOUT_NEW);
    t->fn = (spn_timeout_fn)(any_fn)fn;
    t->period_ns = (int64_t)(uintptr_t)gone;
    t->home = arg;
    spn__init(word_of(h), out != NULL ? 2 * ONE : ONE);
    /* Stored first: the callback may have run, and want it, before schedule returns. */
    if (out != NULL)
        *out = h;
    rc = spn__timer_schedule_handle(shard_of(h), t, delay_ns);
    if (rc != SPN_OK) {
        spn__slab_put(t);
        if (out != NULL)
            *out = NULL;
    }
    return rc;
}

int spn__handle_check(const spn_timeout *t)
{
    switch (outcome_of(handle_of(t))) {
    case PENDING:
        return SPN_EBUSY;
    case CANCELLED:
        return SPN_ECANCELED;
    default:
        return SPN_OK;
    }
}

void spn__handle_rearm(spn_timeout *t)
{
    /* relaxed: the shard's lock orders it.  PENDING, and the timer's reference. */
    (void)spn__fetch_add(word_of(handle_of(t)), ONE - EXPIRED, relaxed);
}

int spn_timeout_handle_again(spn_timeout_handle *h, int64_t delay_ns)
{
    struct spn__shard *s;
    int rc;

    if (h == NULL)
        return SPN_EINVAL;
    if (!spn__slab_enter(&h->timeout))
        return SPN_ESHUTDOWN; /* and the timer may be gone */
    s = shard_of(h);
    rc = spn__timer_schedule_again(s, &h->timeout, delay_ns);
    spn__shard_guest_leaves(s);
    return rc;
}

/* ---- cancelling ---------------------------------------------------------------- */

static int tell_cancelled(spn_timeout *t)
{
    return handle_call_gone(handle_of(t), SPN_ECANCELED);
}

/* Has gone called where callbacks run.  If the timeout does not wait any more, its run, or
 * stop, is about to find the outcome, and calls it. */
static void cancel_and_tell(spn_timeout_handle *h)
{
    if (!spn__timer_bring_forward(shard_of(h), &h->timeout))
        spn__timer_call(shard_of(h), &h->timeout, tell_cancelled);
    handle_leave(h); /* the timer may be gone now */
}

/* There is nobody to tell. */
static void cancel_at_once(spn_timeout_handle *h)
{
    const bool out = spn__timer_take_out(shard_of(h), &h->timeout);

    handle_leave(h);
    if (out)
        spn_timeout_handle_unref(h); /* the timer's */
}

int spn_timeout_handle_cancel(spn_timeout_handle *h)
{
    if (h == NULL)
        return SPN_EINVAL;
    if (!handle_decide(h, CANCELLED))
        return SPN_TIMEOUT_GONE; /* and the timer may be, too */
    if (gone_of(h) != NULL)
        cancel_and_tell(h);
    else
        cancel_at_once(h);
    return SPN_TIMEOUT_REMOVED;
}

/* ---- asking -------------------------------------------------------------------- */

int spn_timeout_handle_state(const spn_timeout_handle *h)
{
    if (h == NULL)
        return SPN_EINVAL;
    switch (outcome_of(h)) {
    case EXPIRED:
        return SPN_TIMEOUT_EXPIRED;
    case CANCELLED:
        return SPN_TIMEOUT_CANCELLED;
    default:
        return SPN_TIMEOUT_PENDING;
    }
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
