/* SPDX-License-Identifier: MIT */
/*
 * invoke.c - several calls at once: all of them, or the first that succeeds.
 *
 * OVERVIEW
 *   Every future is made before the first is submitted: the caller's array is read
 *   once, and a call that fails for want of memory has started nothing.
 *
 *   invoke_all waits for one future after the other, each as get would, so that all
 *   that makes a wait inside an executor safe holds here too.
 *
 *   invoke_any is told by its futures when they are done (spn__task_tell) and keeps
 *   them in the order in which they were.  It may return while others still run or
 *   are on their way to tell it, so what they meet is on the heap and belongs to
 *   all: whoever is last frees it.
 *
 * ORDERING
 *   [refs] each drop is a release and the last an acquire: all use of the group lies
 *          before its end.
 *
 * LOCKS  a group's lock guards its list; a leaf.
 *
 * WHY not stages (any_of)?  They cannot interrupt, and the first that is done is
 * not the first that succeeds.
 */
#include <spindle/invoke.h>

#include <string.h>

#include "base/options.h"
#include "base/time.h"
#include "future/core.h"
#include "future/wait.h"
#include "sync/interrupt.h"

/* More calls than memory could hold, or a group count. */
#define CALLS_MAX ((size_t)INT32_MAX)

/* ---- what both need --------------------------------------------------------- */

/* Whether the call can begin: arguments, memory for options, the executor's state. */
static int check(spn_executor *executor, const spn_call *calls, size_t count,
                 const spn_future_opts *opts, spn_future_opts *copy)
{
    if (executor == NULL || executor->ops == NULL || (calls == NULL && count > 0))
        return SPN_EINVAL;
    for (size_t i = 0; i < count; i++)
        if (calls[i].fn == NULL)
            return SPN_EINVAL;
    *copy = (spn_future_opts)SPN_FUTURE_OPTS_INIT;
    if (opts != NULL && spn__options_copy(copy, sizeof *copy, opts) != SPN_OK)
        return SPN_EINVAL;
    copy->size = sizeof *copy;
    /* Also where nothing would be submitted. */
    return spn_executor_is_shutdown(executor) == 1 ? SPN_EREJECTED : SPN_OK;
}

/* The interrupt that was there already.  SPN_OK, SPN_EINTR or SPN_ENOMEM. */
static int take_interrupt(struct spn_thread **self)
{
    *self = spn__thread_self();
    if (*self == NULL)
        return SPN_ENOMEM;
    return spn__interrupt_take(*self) ? SPN_EINTR : SPN_OK;
}

/* Cancels what is not done, with interrupts; a future that is done stays. */
static void cancel_from(spn_future **futures, size_t first, size_t count)
{
    for (size_t i = first; i < count; i++)
        (void)spn_future_cancel(futures[i], 1);
}

static void unref_all(spn_future **futures, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        spn_future_unref(futures[i]);
        futures[i] = NULL;
    }
}

/* Gives the arguments back that no future will. */
static void release_from(const spn_call *calls, size_t first, size_t count,
                         const spn_future_opts *opts)
{
    if (opts->release_arg != NULL)
        for (size_t i = first; i < count; i++)
            opts->release_arg(calls[i].arg);
}

/* Makes the future of each call, or none. */
static int make_all(spn_executor *executor, const spn_call *calls, size_t count,
                    const spn_future_opts *opts, spn_future **futures)
{
    for (size_t i = 0; i < count; i++) {
        const int rc =
            spn__task_create(executor, &futures[i], calls[i].fn, calls[i].arg, opts);

        if (rc != SPN_OK) {
            cancel_from(futures, 0, i);
            unref_all(futures, i);
            release_from(calls, i, count, opts);
            return rc;
        }
        spn__task_mark_awaited(futures[i]);
    }
    return SPN_OK;
}

/* What is left of a timeout. */
static int64_t remaining(int64_t deadline_ns)
{
    return deadline_ns == SPN_FOREVER ? SPN_FOREVER
                                      : spn__time_sub(deadline_ns, spn__now());
}

/* ---- all of them -------------------------------------------------------------- */

static int submit_and_await(spn_executor *executor, spn_future **futures, size_t count,
                            int64_t deadline_ns)
{
    int rc;

    for (size_t i = 0; i < count; i++) {
        /* The first in any case: the timeout was looked at. */
        if (i > 0 && remaining(deadline_ns) <= 0)
            return SPN_ETIMEDOUT;
        rc = spn_future_submit(futures[i], executor);
        if (rc != SPN_OK)
            return rc;
    }
    for (size_t i = 0; i < count; i++) {
        rc = spn__future_await(futures[i], remaining(deadline_ns));
        if (rc != SPN_OK)
            return rc;
    }
    return SPN_OK;
}

int spn_executor_invoke_all(spn_executor *executor, const spn_call *calls, size_t count,
                            int64_t timeout_ns, const spn_future_opts *opts,
                            spn_future **futures)
{
    const int64_t deadline_ns = spn__deadline(spn__now(), timeout_ns);
    struct spn_thread *self;
    spn_future_opts o;
    int rc;

    if ((futures == NULL && count > 0) || count > CALLS_MAX)
        return SPN_EINVAL;
    for (size_t i = 0; i < count; i++)
        futures[i] = NULL;
    rc = check(executor, calls, count, opts, &o);
    if (rc == SPN_EINVAL)
        return rc;
    if (rc == SPN_OK && timeout_ns > 0 && count > 0)
        rc = take_interrupt(&self);
    if (rc != SPN_OK) {
        release_from(calls, 0, count, &o);
        return rc;
    }
    rc = make_all(executor, calls, count, &o, futures);
    if (rc != SPN_OK)
        return rc;
    rc = timeout_ns > 0 ? submit_and_await(executor, futures, count, deadline_ns)
                        : SPN_ETIMEDOUT;
    if (rc == SPN_OK)
        return SPN_OK;
    cancel_from(futures, 0, count);
    if (rc == SPN_ETIMEDOUT)
        return SPN_OK; /* the futures tell */
    unref_all(futures, count);
    return rc;
}

/* ---- the first that succeeds --------------------------------------------------- */

struct group {
    SPN__ATOMIC(uint32_t) refs; /* the invoker and each future that has not told */
    struct spn__lock lock;      /* guards the rest */
    struct spn__list done;      /* told and not yet looked at, by their told links */
    struct spn__waitq waiter;   /* the invoker */
    bool closed;                /* it has left */
    spn_future *futures[];      /* fixed; the invoker's references */
};

static void group_unref(struct group *g)
{
    if (spn__fetch_sub(&g->refs, 1, acq_rel) == 1) /* [refs] */
        spn__free(g);
}

static void told(struct spn_future *f, void *owner)
{
    struct spn__chosen chosen = { NULL, NULL };
    struct group *g = owner;

    spn__lock(&g->lock);
    if (!g->closed) {
        spn__list_push_back(&g->done, spn__task_told_link(f));
        (void)spn__waitq_choose_first(&g->waiter, &chosen);
    }
    spn__unlock(&g->lock);
    spn__chosen_grant(&chosen);
    group_unref(g);
}

static struct spn_future *next_done(struct group *g)
{
    struct spn__list_node *link;

    spn__lock(&g->lock);
    link = spn__list_pop_front(&g->done);
    spn__unlock(&g->lock);
    return link != NULL ? spn__task_told_future(link) : NULL;
}

/* Waits until something is done.  `waited` is one that may not be, for the executor
 * to hear of the wait. */
static int await_done(struct group *g, struct spn_future *waited,
                      struct spn_thread *self, int64_t deadline_ns)
{
    spn_executor *entered = NULL;
    struct spn__waiter w;
    int rc = SPN_OK;

    if (!spn__future_done(waited)) {
        rc = spn__task_wait_begin(waited, self, deadline_ns != SPN_FOREVER, &entered);
        if (rc != SPN_OK)
            return spn__future_done(waited) ? SPN_OK : rc;
    }
    spn__lock(&g->lock);
    if (spn__list_empty(&g->done)) {
        spn__waitq_add(&g->waiter, &w, self);
        spn__unlock(&g->lock);
        rc = spn__waitq_wait(&w, &g->lock, deadline_ns);
        if (rc != SPN_OK)
            spn__unlock(&g->lock);
    } else {
        spn__unlock(&g->lock);
    }
    if (entered != NULL)
        spn__task_wait_end(entered);
    return rc;
}

/* One of those that were submitted and have no outcome yet; there is one. */
static struct spn_future *first_running(const struct group *g, size_t submitted)
{
    for (size_t i = 0; i < submitted; i++)
        if (!spn__future_done(g->futures[i]))
            return g->futures[i];
    return g->futures[submitted - 1]; /* all on their way here */
}

/* Submits and waits until one has succeeded, or all have failed: which decided. */
static int first_success(spn_executor *executor, struct group *g, size_t count,
                         struct spn_thread *self, int64_t deadline_ns,
                         struct spn_future **decider)
{
    size_t submitted = 0, seen = 0;
    struct spn_future *f;
    int rc;

    for (;;) {
        f = next_done(g);
        if (f != NULL) {
            seen++;
            *decider = f;
            if (spn__future_status(f) == SPN_OK)
                return SPN_OK;
        } else if (submitted < count) {
            if (submitted > 0 && remaining(deadline_ns) <= 0)
                return SPN_ETIMEDOUT;
            rc = spn_future_submit(g->futures[submitted], executor);
            if (rc != SPN_OK)
                return rc;
            submitted++;
        } else if (seen == count) {
            return SPN_EFAILED;
        } else {
            rc = await_done(g, first_running(g, submitted), self, deadline_ns);
            if (rc != SPN_OK)
                return rc;
        }
    }
}

static int make_group(spn_executor *executor, const spn_call *calls, size_t count,
                      const spn_future_opts *opts, struct group **out)
{
    struct group *g;
    int rc;

    g = spn__alloc(sizeof *g + count * sizeof(struct spn_future *));
    if (g == NULL) {
        release_from(calls, 0, count, opts);
        return SPN_ENOMEM;
    }
    rc = make_all(executor, calls, count, opts, g->futures);
    if (rc != SPN_OK) {
        spn__free(g);
        return rc;
    }
    spn__init(&g->refs, (uint32_t)count + 1);
    spn__lock_init(&g->lock);
    spn__list_init(&g->done);
    spn__waitq_init(&g->waiter);
    g->closed = false;
    for (size_t i = 0; i < count; i++)
        spn__task_tell(g->futures[i], told, g);
    *out = g;
    return SPN_OK;
}

int spn_executor_invoke_any(spn_executor *executor, const spn_call *calls, size_t count,
                            int64_t timeout_ns, const spn_future_opts *opts,
                            void **value, spn_future **decider)
{
    const int64_t deadline_ns = spn__deadline(spn__now(), timeout_ns);
    struct spn_future *decided = NULL;
    struct spn_thread *self;
    spn_future_opts o;
    struct group *g = NULL;
    int rc;

    if (value != NULL)
        *value = NULL;
    if (decider != NULL)
        *decider = NULL;
    if (count == 0 || count > CALLS_MAX)
        return SPN_EINVAL;
    rc = check(executor, calls, count, opts, &o);
    if (rc == SPN_EINVAL)
        return rc;
    if (rc == SPN_OK && timeout_ns <= 0)
        rc = SPN_ETIMEDOUT;
    if (rc == SPN_OK)
        rc = take_interrupt(&self);
    if (rc != SPN_OK) {
        release_from(calls, 0, count, &o);
        return rc;
    }
    rc = make_group(executor, calls, count, &o, &g);
    if (rc != SPN_OK)
        return rc;
    rc = first_success(executor, g, count, self, deadline_ns, &decided);
    if (rc == SPN_OK && value != NULL)
        *value = spn__future_read_value(decided);
    if ((rc == SPN_OK || rc == SPN_EFAILED) && decider != NULL)
        *decider = spn__future_ref(decided);
    spn__lock(&g->lock);
    g->closed = true;
    spn__unlock(&g->lock);
    cancel_from(g->futures, 0, count);
    unref_all(g->futures, count);
    group_unref(g);
    return rc;
}
