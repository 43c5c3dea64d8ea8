/* SPDX-License-Identifier: MIT */
/*
 * completion.c - futures in the order in which they are done.
 *
 * OVERVIEW
 *   A future submitted here tells the service when it has an outcome, after its done
 *   hook (spn__task_tell).  It brings its own list node, so that delivering it
 *   allocates nothing; or it goes to a queue of the user's.
 *
 * DELIVERY
 *   Under the lock a future either goes to the thread that has waited longest, which
 *   then owns it, or to the list; so the list is empty while somebody waits, nobody
 *   overtakes a waiter, and one that leaves for another reason has been given none.
 *
 * REFERENCES
 *   The service has one to each future from submit until it is given out.
 *
 * LOCKS  `lock` guards all but what is fixed; a leaf.
 */
#include <spindle/completion.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/options.h"
#include "base/time.h"
#include "future/core.h"
#include "sync/waitq.h"

struct spn_completion {
    spn_executor *executor; /* fixed */
    spn_queue *queue;       /* fixed: the user's, or NULL */
    struct spn__lock lock;
    struct spn__list done; /* by their told links */
    struct spn__waitq takers;
    int64_t pending, ready;
};

/* A thread that waits, and what it was given. */
struct taker {
    struct spn__waiter waiter;
    struct spn_future *given; /* by whoever chose it */
};

static int create(spn_completion **out, spn_executor *executor, spn_queue *queue)
{
    struct spn_completion *c;

    if (executor == NULL || executor->ops == NULL)
        return SPN_EINVAL;
    c = spn__alloc(sizeof *c);
    if (c == NULL)
        return SPN_ENOMEM;
    c->executor = executor;
    c->queue = queue;
    spn__lock_init(&c->lock);
    spn__list_init(&c->done);
    spn__waitq_init(&c->takers);
    c->pending = c->ready = 0;
    *out = c;
    return SPN_OK;
}

int spn_completion_create(spn_completion **out, spn_executor *executor)
{
    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    return create(out, executor, NULL);
}

int spn_completion_create_with(spn_completion **out, spn_executor *executor,
                               spn_queue *queue)
{
    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    return queue != NULL ? create(out, executor, queue) : SPN_EINVAL;
}

int spn_completion_destroy(spn_completion *c)
{
    bool busy;

    if (c == NULL)
        return SPN_OK;
    spn__lock(&c->lock);
    busy = c->pending != 0 || c->ready != 0 || !spn__waitq_empty(&c->takers);
    spn__unlock(&c->lock);
    if (busy)
        return SPN_EBUSY;
    spn__free(c);
    return SPN_OK;
}

/* ---- in ------------------------------------------------------------------------- */

/* A future has its outcome.  The service is not ours after the unlock. */
static void told(struct spn_future *f, void *owner)
{
    struct spn__chosen chosen = { NULL, NULL };
    struct spn_completion *c = owner;
    const bool refused = c->queue != NULL && spn_queue_put(c->queue, f, 0) != SPN_OK;

    spn__lock(&c->lock);
    c->pending--;
    if (c->queue != NULL) {
        ; /* it is there, or refused */
    } else if (spn__waitq_choose_first(&c->takers, &chosen)) {
        spn__list_entry(chosen.first, struct taker, waiter)->given = f;
    } else {
        spn__list_push_back(&c->done, spn__task_told_link(f));
        c->ready++;
    }
    spn__unlock(&c->lock);
    spn__chosen_grant(&chosen);
    if (refused)
        spn_future_unref(f);
}

static void count_pending(struct spn_completion *c, int by)
{
    spn__lock(&c->lock);
    c->pending += by;
    spn__unlock(&c->lock);
}

/* Hands a new future over; takes the caller's reference. */
static int submit(struct spn_completion *c, struct spn_future *f, spn_future **out)
{
    spn_future *submitted;
    int rc;

    spn__task_tell(f, told, c);
    count_pending(c, 1);
    (void)spn__future_ref(f); /* for whoever takes it */
    rc = spn__task_submit(f, c->executor, &submitted);
    if (rc != SPN_OK) {
        /* submit has seen to it that it does not tell. */
        spn_future_unref(f);
        count_pending(c, -1);
        return rc;
    }
    if (out != NULL)
        *out = submitted;
    else
        spn_future_unref(submitted);
    return SPN_OK;
}

int spn_completion_submit(spn_completion *c, spn_call_fn fn, void *arg,
                          const spn_future_opts *opts, spn_future **out)
{
    spn_future_opts o = SPN_FUTURE_OPTS_INIT;
    struct spn_future *f;
    int rc;

    if (out != NULL)
        *out = NULL;
    if (c == NULL || fn == NULL)
        return SPN_EINVAL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    o.size = sizeof o;
    rc = spn__task_create(c->executor, &f, fn, arg, &o);
    return rc == SPN_OK ? submit(c, f, out) : rc;
}

/* ---- out ------------------------------------------------------------------------- */

/* With the lock held: the first that is done, or NULL. */
static struct spn_future *pop(struct spn_completion *c)
{
    struct spn__list_node *link = spn__list_pop_front(&c->done);

    if (link == NULL)
        return NULL;
    c->ready--;
    return spn__task_told_future(link);
}

static int take(struct spn_completion *c, spn_future **future, int64_t timeout_ns)
{
    struct taker t = { .given = NULL };
    struct spn_thread *self;
    int64_t deadline_ns;
    int rc;

    /* Before the thread's record: what does not wait needs no memory. */
    spn__lock(&c->lock);
    *future = pop(c);
    spn__unlock(&c->lock);
    if (*future != NULL)
        return SPN_OK;
    if (timeout_ns <= 0)
        return SPN_ETIMEDOUT;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    spn__lock(&c->lock);
    *future = pop(c); /* one may have come meanwhile */
    if (*future != NULL) {
        spn__unlock(&c->lock);
        return SPN_OK;
    }
    spn__waitq_add(&c->takers, &t.waiter, self);
    spn__unlock(&c->lock);
    rc = spn__waitq_wait(&t.waiter, &c->lock, deadline_ns);
    if (rc != SPN_OK) {
        spn__unlock(&c->lock);
        return rc;
    }
    spn__assert(t.given != NULL);
    *future = t.given;
    return SPN_OK;
}

int spn_completion_take(spn_completion *c, spn_future **future, int64_t timeout_ns)
{
    void *item = NULL;
    int rc;

    if (future == NULL)
        return SPN_EINVAL;
    *future = NULL;
    if (c == NULL)
        return SPN_EINVAL;
    if (c->queue == NULL)
        return take(c, future, timeout_ns);
    rc = spn_queue_take(c->queue, &item, timeout_ns);
    *future = rc == SPN_OK ? item : NULL;
    return rc == SPN_EEMPTY ? SPN_ETIMEDOUT : rc;
}
