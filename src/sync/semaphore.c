/* SPDX-License-Identifier: MIT */
/*
 * semaphore.c - counted permits, first come first served.
 *
 * OVERVIEW
 *   Without waiters everything is one compare-and-swap on one word.  With
 *   waiters, permits are added and handed out under the lock: `serve` takes
 *   permits in the name of the first waiters and chooses them, so a woken
 *   thread already has what it waited for.
 *
 * STATE  one 64-bit word
 *   bits 0..31    free permits, 0 .. SPN_SEMAPHORE_MAX
 *   bits 32..63   waiters listed
 *   Both in one word, so that a release knows in the same step that adds its
 *   permits whether anybody waits.  If not, that step is its last touch of the
 *   semaphore, and the thread that takes the permit may destroy it.  If so, it
 *   adds under the lock, and destroy, which takes the lock, comes after it.
 *
 * ORDERING
 *   [permit] each change of the word that adds permits is a release, each that
 *            takes them an acquire; as all are read-modify-writes, a taker has
 *            what every releaser before it did.
 *   Waiters list themselves under the lock and then look for permits (serve);
 *   a release that saw no waiter has added its permits before that, and one
 *   that saw a waiter takes the lock: no wake-up is lost.
 *
 * LOCKS  `lock` guards the waiters and their number; a leaf.
 */
#include <spindle/semaphore.h>

#include "base/assert.h"
#include "base/options.h"
#include "base/time.h"
#include "sync/thread_record.h"
#include "sync/waitq.h"

_Static_assert(sizeof(spn_semaphore_opts) == sizeof(size_t) + 2 * sizeof(int32_t),
               "append only, no holes");

#define ONE_WAITER (UINT64_C(1) << 32)

struct spn_semaphore {
    SPN__ATOMIC(uint64_t) word;
    bool fair; /* fixed */
    struct spn__lock lock;
    struct spn__waitq waiters; /* guarded by lock; w->wants is the permits */
};

static int32_t permits_of(uint64_t word)
{
    return (int32_t)(uint32_t)word;
}

static bool has_waiters(uint64_t word)
{
    return word >= ONE_WAITER;
}

int spn_semaphore_create(spn_semaphore **out, const spn_semaphore_opts *opts)
{
    spn_semaphore_opts o = SPN_SEMAPHORE_OPTS_INIT;
    struct spn_semaphore *s;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (o.permits < 0 || o.fair > 1)
        return SPN_EINVAL;
    s = spn__alloc(sizeof *s);
    if (s == NULL)
        return SPN_ENOMEM;
    spn__init(&s->word, (uint64_t)o.permits);
    s->fair = o.fair == 1;
    spn__lock_init(&s->lock);
    spn__waitq_init(&s->waiters);
    *out = s;
    return SPN_OK;
}

int spn_semaphore_destroy(spn_semaphore *s)
{
    bool busy;

    if (s == NULL)
        return SPN_OK;
    spn__lock(&s->lock); /* waits for a release that served a waiter */
    busy = !spn__waitq_empty(&s->waiters);
    spn__unlock(&s->lock);
    if (busy)
        return SPN_EBUSY;
    spn__free(s);
    return SPN_OK;
}

/* Takes `count` permits if there are so many, else nothing. */
static bool take(struct spn_semaphore *s, int32_t count, bool overtake)
{
    uint64_t word = spn__load(&s->word, relaxed); /* checked by the exchange */

    while (permits_of(word) >= count && (overtake || !has_waiters(word)))
        /* [permit] */
        if (spn__cas_weak(&s->word, &word, word - (uint64_t)count, acquire, relaxed))
            return true;
    return false;
}

/*
 * Hands permits to waiters, in order, as far as they go; the lock is held.  A
 * waiter is held before its permits are taken, so that none are taken for one
 * that leaves, and nobody misses permits that come back.
 */
static void serve(struct spn_semaphore *s, struct spn__chosen *chosen)
{
    struct spn__list_node *node, *following;

    spn__list_each_safe (node, following, &s->waiters.waiters) {
        struct spn__waiter *w = spn__list_entry(node, struct spn__waiter, link);

        if (!spn__waitq_hold(w))
            continue;
        if (!take(s, (int32_t)w->wants, true)) {
            spn__waitq_release(w);
            return;
        }
        spn__waitq_commit(w, chosen);
        /* relaxed: the lock orders the number of waiters. */
        (void)spn__fetch_sub(&s->word, ONE_WAITER, relaxed);
    }
}

int spn_semaphore_acquire(spn_semaphore *s, int32_t count, int64_t timeout_ns)
{
    struct spn__chosen chosen = { NULL, NULL };
    struct spn_thread *self;
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc;

    if (s == NULL || count < 1)
        return SPN_EINVAL;
    if (take(s, count, !s->fair))
        return SPN_OK;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);

    spn__lock(&s->lock);
    w.wants = count;
    spn__waitq_add(&s->waiters, &w, self);
    /* relaxed: the lock orders it for serve, and a release that adds permits
     * without the lock must see this word, whatever its order. */
    (void)spn__fetch_add(&s->word, ONE_WAITER, relaxed);
    serve(s, &chosen); /* perhaps permits came in between, perhaps for us */
    spn__unlock(&s->lock);
    spn__chosen_grant(&chosen);

    rc = spn__waitq_wait(&w, &s->lock, deadline_ns);
    if (rc == SPN_OK)
        return SPN_OK; /* the semaphore may be gone */

    /* We left: those behind us may want less than we did. */
    (void)spn__fetch_sub(&s->word, ONE_WAITER, relaxed); /* as above */
    serve(s, &chosen);
    spn__unlock(&s->lock);
    spn__chosen_grant(&chosen);
    return rc;
}

/* Adds permits: SPN_OK, SPN_ERANGE, or 1 if somebody waits and it must not. */
static int add(struct spn_semaphore *s, int32_t count, bool with_waiters)
{
    uint64_t word = spn__load(&s->word, relaxed); /* checked by the exchange */

    do {
        if (has_waiters(word) && !with_waiters)
            return 1;
        if (permits_of(word) > SPN_SEMAPHORE_MAX - count)
            return SPN_ERANGE;
        /* [permit] */
    } while (!spn__cas_weak(&s->word, &word, word + (uint64_t)count, release, relaxed));
    return SPN_OK;
}

int spn_semaphore_release(spn_semaphore *s, int32_t count)
{
    struct spn__chosen chosen = { NULL, NULL };
    int rc;

    if (s == NULL || count < 1)
        return SPN_EINVAL;
    rc = add(s, count, false);
    if (rc <= SPN_OK)
        return rc; /* do not touch *s: its next owner may have freed it */

    spn__lock(&s->lock);
    rc = add(s, count, true);
    if (rc == SPN_OK)
        serve(s, &chosen);
    spn__unlock(&s->lock);
    spn__chosen_grant(&chosen);
    return rc;
}

int32_t spn_semaphore_available(const spn_semaphore *s)
{
    if (s == NULL)
        return SPN_EINVAL;
    return permits_of(spn__load(&s->word, relaxed)); /* a number, no permission */
}
