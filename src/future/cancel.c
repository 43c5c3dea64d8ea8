/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - tokens: a reason, those who wait for it, callbacks, children.
 *
 * OVERVIEW
 *   A token is a number that leaves 0 once.  Whoever makes that step, under the lock,
 *   owns the rest: it releases the waiters, marks the descendants, and then runs the
 *   callbacks, one token after another.  Descendants are collected in a list that goes
 *   through the tokens themselves, so that cancelling allocates nothing and a chain of
 *   any length is a loop.  All are marked before the first callback runs: what is slow
 *   in one does not keep the others from seeing it.
 *
 * CALLBACKS
 *   A callback's last link is the token it is on, or NULL; an atomic in disguise,
 *   because the struct is public and C++ programs embed it.  It is NULL again before fn
 *   is entered, and then the node is the user's: fn may free it.  What is being run is
 *   noted in the token (`running`), so that deregister can tell and wait.
 *
 * LIFETIME
 *   A child refers to its parent, to be able to leave its list.  A parent finds its
 *   children by that list only: one whose references have just gone to 0 is about to take
 *   the parent's lock to leave, and is passed over.
 *
 * ORDERING
 *   [reason] the release store of the reason pairs with the acquire loads of those who
 *            look without the lock.
 *   [on]     a callback's token is stored with a release when fn is about to be called
 *            or it was taken off, and acquired by the next register: the links are left
 *            alone.
 *   [refs]   each drop is a release and the last an acquire: all use of the token lies
 *            before its end.
 *
 * LOCKS  a token's lock guards what its struct says; a leaf.  Callbacks run with none.
 */
#include <spindle/cancel.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/time.h"
#include "sync/thread_record.h"
#include "sync/waitq.h"

struct spn_cancel_token {
    SPN__ATOMIC(uint32_t) refs;
    SPN__ATOMIC(int32_t) reason; /* 0 until cancelled; written under lock [reason] */
    struct spn_cancel_token *parent; /* fixed; a reference, or NULL */
    struct spn_cancel_token *next;   /* the canceller's */
    struct spn__list_node sibling;   /* in parent's children; guarded by its lock */

    struct spn__lock lock;        /* guards the rest */
    struct spn__list callbacks;   /* the one registered last first */
    struct spn__list children;    /* those not cancelled by this token yet */
    struct spn__waitq waiters;    /* for the reason */
    struct spn__waitq leaving;    /* for the end of `running` */
    spn_cancel_callback *running; /* its fn has been entered; only compared */
    struct spn_thread *runner;    /* by whom; NULL: a thread without a record */
};

typedef SPN__ATOMIC(struct spn_cancel_token *) token_word;
_Static_assert(sizeof(token_word) == sizeof(void *), "the same word");
_Static_assert(sizeof(struct spn__list_node) == 2 * sizeof(void *),
               "the first two links");
_Static_assert(sizeof(spn_cancel_callback) == 4 * sizeof(void *), "part of the ABI");

static token_word *token_of(spn_cancel_callback *callback)
{
    return (token_word *)(void *)&callback->link[2];
}

static struct spn__list_node *node_of(spn_cancel_callback *callback)
{
    return (struct spn__list_node *)(void *)callback->link;
}

static spn_cancel_callback *callback_of(struct spn__list_node *node)
{
    return (spn_cancel_callback *)(void *)((char *)node -
                                           offsetof(spn_cancel_callback, link));
}

/* ---- making and keeping ------------------------------------------------------------ */

int spn_cancel_token_create(spn_cancel_token **out, spn_cancel_token *parent)
{
    struct spn_cancel_token *t;
    int32_t reason = 0;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    t = spn__alloc(sizeof *t);
    if (t == NULL)
        return SPN_ENOMEM;
    spn__init(&t->refs, 1);
    t->parent = spn_cancel_token_ref(parent);
    t->next = NULL;
    spn__list_node_init(&t->sibling);
    spn__lock_init(&t->lock);
    spn__list_init(&t->callbacks);
    spn__list_init(&t->children);
    spn__waitq_init(&t->waiters);
    spn__waitq_init(&t->leaving);
    t->running = NULL;
    t->runner = NULL;
    spn__init(&t->reason, 0);
    if (parent != NULL) {
        spn__lock(&parent->lock);
        reason = spn__load(&parent->reason, relaxed); /* written under the lock */
        if (reason == 0)
            spn__list_push_back(&parent->children, &t->sibling);
        spn__unlock(&parent->lock);
        if (reason != 0)
            spn__store(&t->reason, reason, relaxed); /* nobody else has it yet */
    }
    *out = t;
    return SPN_OK;
}

spn_cancel_token *spn_cancel_token_ref(spn_cancel_token *t)
{
    /* relaxed: who makes a new reference has one, and gives it away in order. */
    if (t != NULL)
        (void)spn__fetch_add(&t->refs, 1, relaxed);
    return t;
}

/* A reference to a token that may just be ending: false if it is. */
static bool try_ref(struct spn_cancel_token *t)
{
    uint32_t refs = spn__load(&t->refs, relaxed);

    while (refs != 0)
        /* relaxed: the token cannot go while its parent's lock is held. */
        if (spn__cas_weak(&t->refs, &refs, refs + 1, relaxed, relaxed))
            return true;
    return false;
}

/* Nobody can cancel it any more. */
static void forget_callbacks(struct spn_cancel_token *t)
{
    struct spn__list_node *node;

    spn__debug_assert(spn__list_empty(&t->children)); /* they would keep it */
    while ((node = spn__list_pop_front(&t->callbacks)) != NULL)
        /* [on] mutant: as in register */
        spn__store(token_of(callback_of(node)), NULL, release);
}

void spn_cancel_token_unref(spn_cancel_token *t)
{
    /* A loop, because a parent may end with its child. */
    while (t != NULL && spn__fetch_sub(&t->refs, 1, acq_rel) == 1) { /* [refs] */
        struct spn_cancel_token *parent = t->parent;

        if (parent != NULL) {
            spn__lock(&parent->lock);
            if (spn__list_linked(&t->sibling))
                spn__list_remove(&t->sibling);
            spn__unlock(&parent->lock);
        }
        forget_callbacks(t);
        spn__free(t);
        t = parent;
    }
}

/* ---- cancelling ---------------------------------------------------------------------- */

/* The one step out of 0: true for whoever makes it. */
static bool mark(struct spn_cancel_token *t, int32_t reason)
{
    struct spn__chosen chosen = { NULL, NULL };
    bool first;

    spn__lock(&t->lock);
    first = spn__load(&t->reason, relaxed) == 0; /* written under the lock */
    if (first) {
        spn__store(&t->reason, reason, release); /* [reason] */
        spn__waitq_choose_all(&t->waiters, &chosen);
    }
    spn__unlock(&t->lock);
    spn__chosen_grant(&chosen);
    return first;
}

/* A child that lives, off the list, with a reference; NULL: there is none left. */
static struct spn_cancel_token *take_child(struct spn_cancel_token *t)
{
    struct spn_cancel_token *child = NULL;
    struct spn__list_node *node;

    spn__lock(&t->lock);
    while (child == NULL && (node = spn__list_pop_front(&t->children)) != NULL) {
        child = spn__list_entry(node, struct spn_cancel_token, sibling);
        if (!try_ref(child))
            child = NULL;
    }
    spn__unlock(&t->lock);
    return child;
}

/* Marks every descendant, and puts those it was the first to mark behind `t`. */
static void mark_descendants(struct spn_cancel_token *t, int32_t reason)
{
    struct spn_cancel_token *last = t, *child;

    for (t->next = NULL; t != NULL; t = t->next)
        while ((child = take_child(t)) != NULL) {
            if (mark(child, reason)) {
                child->next = NULL;
                last->next = child;
                last = child;
            } else {
                spn_cancel_token_unref(child);
            }
        }
}

struct callback_call {
    spn_cancel_callback *callback;
    int reason;
};

static void call_callback(void *p)
{
    const struct callback_call *c = p;

    c->callback->fn(c->callback, c->reason);
}

/* Guarded, for it is on a thread of the program's, and who deregisters waits for it. */
static void call_guarded(spn_cancel_callback *callback, int reason)
{
    struct callback_call c = { callback, reason };

    spn__guarded(call_callback, &c);
}

static void run_callbacks(struct spn_cancel_token *t, int32_t reason)
{
    struct spn_thread *self = NULL;
    struct spn__list_node *node;

    for (;;) {
        struct spn__chosen chosen = { NULL, NULL };
        spn_cancel_callback *callback;

        spn__lock(&t->lock);
        t->running = NULL;
        spn__waitq_choose_all(&t->leaving, &chosen);
        node = spn__list_pop_front(&t->callbacks);
        if (node != NULL) {
            if (self == NULL)
                self = spn__self_get();
            t->running = callback_of(node);
            t->runner = self;
        }
        spn__unlock(&t->lock);
        spn__chosen_grant(&chosen);
        if (node == NULL)
            return;
        callback = callback_of(node);
        spn__store(token_of(callback), NULL, release); /* [on] mutant: as in register */
        call_guarded(callback, reason);
    }
}

int spn_cancel_token_cancel(spn_cancel_token *t, int reason)
{
    struct spn_cancel_token *next;

    if (t == NULL || reason >= 0)
        return SPN_EINVAL;
    if (!mark(t, reason))
        return 0;
    (void)spn__thread_self(); /* for `runner`; without one, deregister says so */
    (void)spn_cancel_token_ref(t);
    mark_descendants(t, reason);
    for (; t != NULL; t = next) {
        run_callbacks(t, reason);
        next = t->next;
        spn_cancel_token_unref(t);
    }
    return 1;
}

/* ---- asking and waiting ---------------------------------------------------------------- */

int spn_cancel_token_reason(const spn_cancel_token *t)
{
    return t != NULL ? spn__load(&t->reason, acquire) : 0; /* [reason] */
}

int spn_cancel_token_is_cancelled(const spn_cancel_token *t)
{
    return spn_cancel_token_reason(t) != 0;
}

int spn_cancel_token_wait(spn_cancel_token *t, int64_t timeout_ns)
{
    struct spn_thread *self;
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc = SPN_OK;

    if (t == NULL)
        return SPN_EINVAL;
    if (spn_cancel_token_is_cancelled(t))
        return SPN_OK;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);

    spn__lock(&t->lock);
    if (spn__load(&t->reason, relaxed) == 0) { /* written under the lock */
        spn__waitq_add(&t->waiters, &w, self);
        spn__unlock(&t->lock);
        rc = spn__waitq_wait(&w, &t->lock, deadline_ns);
        if (rc == SPN_OK)
            return SPN_OK;
    }
    spn__unlock(&t->lock);
    return rc;
}

/* ---- callbacks --------------------------------------------------------------------------- */

int spn_cancel_token_register(spn_cancel_token *t, spn_cancel_callback *callback)
{
    struct spn_cancel_token *none = NULL;
    int32_t reason;

    if (t == NULL || callback == NULL || callback->fn == NULL)
        return SPN_EINVAL;
    /* [on] acquire: the links are ours.
     * mutant: they are plain; ThreadSanitizer looks after them */
    if (!spn__cas(token_of(callback), &none, t, acquire, relaxed))
        return SPN_EBUSY;
    spn__lock(&t->lock);
    reason = spn__load(&t->reason, relaxed); /* written under the lock */
    if (reason == 0)
        spn__list_push_front(&t->callbacks, node_of(callback));
    spn__unlock(&t->lock);
    if (reason == 0)
        return SPN_OK;
    spn__store(token_of(callback), NULL, release); /* [on] mutant: as in register */
    call_guarded(callback, reason);
    return SPN_ECANCELED;
}

int spn_cancel_token_deregister(spn_cancel_token *t, spn_cancel_callback *callback)
{
    struct spn_thread *self = spn__thread_self();
    struct spn__waiter w;
    bool sleeps = false;
    int rc = 0;

    if (t == NULL || callback == NULL)
        return SPN_EINVAL;
    spn__lock(&t->lock);
    if (t->running == callback) {
        /* Who is not known to be another is not waited for. */
        sleeps = self != NULL && t->runner != NULL && t->runner != self;
        if (sleeps)
            spn__waitq_add(&t->leaving, &w, self);
        else
            rc = SPN_EBUSY;
    } else if (spn__load(token_of(callback), relaxed) == t && /* under the lock */
               spn__list_linked(node_of(callback))) {
        spn__list_remove(node_of(callback));
        spn__store(token_of(callback), NULL, release); /* [on] mutant: as in register */
        rc = 1;
    }
    spn__unlock(&t->lock);
    if (sleeps)
        spn__waitq_sleep(&w);
    return rc;
}
