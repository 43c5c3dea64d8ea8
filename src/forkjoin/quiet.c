/* SPDX-License-Identifier: MIT */
/*
 * quiet.c - when the fork/join pool has come to rest, and waiting for it.
 *
 * QUIESCENCE
 *   The pool has a moment of rest when as many tasks and objects have met their fate as
 *   were accepted.  The fates are added up first and the accepted last; neither ever
 *   falls.  If the two sums are equal then both were so at the moment between, and
 *   nothing was queued or ran, or was on its way from the one to the other.  Records
 *   need not be counted: the object that forked them has not met its fate before they
 *   have.
 *   [quiet] Who waits for that says so, makes a heavy fence and adds up.  A worker that
 *           got nothing to do (and has counted what it did) makes a light fence and
 *           looks whether somebody waits; then it adds up.  So does one that did not
 *           even look for work, because it is one too many or the pool was stopped; and
 *           whoever drops or takes back tasks.
 *
 * FROM INSIDE  a task that waits for rest would wait for itself.  It runs what there is
 *   until nothing is pending but what it is in, and what others are in that do the same.
 *   A worker is in the task that it runs, and in those that this one was taken out in; who
 *   has stolen a record is in what the root of the record is in: none of these ends
 *   before it.  They are linked upwards (spn__fj_stand), across workers, and each counts
 *   in `quiescing` once however many helpers are in it.  Records that others run of the
 *   same trees are not waited for.
 *
 * LOCKS  quiet_lock is a leaf.  help_lock guards the stands and `quiescing`; the thread
 *   pool's locks are taken inside it.
 */
#include "forkjoin/pool.h"

#include "base/time.h"

static int64_t pending(struct spn_fj_pool *fj)
{
    spn_pool_stats p = SPN_POOL_STATS_INIT;

    (void)spn_pool_stats_get(fj->pool, &p);
    return p.pending;
}

void spn__fj_settled(struct spn_fj_pool *fj)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__fence_light(); /* [quiet] */
    /* relaxed: after the fence. */
    if (spn__load(&fj->quiet_waiters, relaxed) == 0 || pending(fj) != 0)
        return;
    spn__lock(&fj->quiet_lock);
    spn__waitq_choose_all(&fj->quiet, &chosen);
    spn__unlock(&fj->quiet_lock);
    spn__chosen_grant(&chosen);
}

/* From outside: no helping, so nothing that its tasks fork leaves the pool (FJP-34). */
static int await_outside(struct spn_fj_pool *fj, int64_t timeout_ns)
{
    struct spn_thread *self = spn__thread_self();
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc = SPN_OK;

    if (pending(fj) == 0)
        return SPN_OK;
    if (timeout_ns <= 0)
        return SPN_ETIMEDOUT;
    if (self == NULL)
        return SPN_ENOMEM;
    deadline_ns =
        timeout_ns == SPN_FOREVER ? SPN_FOREVER : spn__deadline(spn__now(), timeout_ns);
    spn__lock(&fj->quiet_lock);
    spn__waitq_add(&fj->quiet, &w, self);
    (void)spn__fetch_add(&fj->quiet_waiters, 1, relaxed); /* [quiet] */
    spn__unlock(&fj->quiet_lock);
    spn__fence_heavy(); /* [quiet] */
    if (pending(fj) != 0) {
        rc = spn__waitq_wait(&w, &fj->quiet_lock, deadline_ns);
        if (rc != SPN_OK)
            spn__unlock(&fj->quiet_lock);
    } else if (spn__waitq_cancel(&w, &fj->quiet_lock)) {
        spn__unlock(&fj->quiet_lock);
    }
    (void)spn__fetch_sub(&fj->quiet_waiters, 1, relaxed); /* a hint */
    return rc;
}

/* One task of the pool's, of its own or another's or a submission, taken out. */
static spn_task *take_any(struct spn__fj_place *place)
{
    struct spn_fj_pool *fj = place->pool;
    spn_task *task = spn__fj_queue_take(place, !fj->async);

    for (struct spn__fj_place *p = spn__fj_first_place(fj); task == NULL && p != NULL;
         p = spn__fj_next_place(p))
        task = spn__fj_queue_take(p, false);
    return task != NULL ? task : spn__work_pop_oldest(fj->pool);
}

struct spn__fj_stand *spn__fj_stand_of(struct spn__fj_place *place)
{
    if (place->stand != NULL)
        return place->stand;
    if (place->worker == NULL)
        return NULL; /* of no pool */
    if (!place->worker->stealing)
        return &place->bottom;
    return place->deque.frame != NULL ? place->deque.frame->stand : NULL;
}

struct help {
    struct spn_fj_pool *fj;
    struct spn__fj_stand *stand;
};

static void help_begins(struct help *h)
{
    int64_t more = 0;

    spn__lock(&h->fj->help_lock);
    for (struct spn__fj_stand *s = h->stand; s != NULL; s = s->outer)
        more += s->helpers++ == 0;
    (void)spn__fetch_add(&h->fj->quiescing, more, relaxed); /* the lock is held */
    spn__unlock(&h->fj->help_lock);
}

static void help_ends(struct help *h)
{
    int64_t fewer = 0;

    spn__lock(&h->fj->help_lock);
    for (struct spn__fj_stand *s = h->stand; s != NULL; s = s->outer)
        fewer += --s->helpers == 0;
    (void)spn__fetch_sub(&h->fj->quiescing, fewer, relaxed); /* the lock is held */
    spn__unlock(&h->fj->help_lock);
}

/* Whether nothing is pending but what helpers are in.  With the lock none of them comes or
 * goes while it is added up, and what they forked before they came is in the sum. */
static bool at_rest(struct spn_fj_pool *fj)
{
    bool rest;

    /* relaxed, twice: a hint; the lock is held. */
    if (pending(fj) > spn__load(&fj->quiescing, relaxed))
        return false;
    spn__lock(&fj->help_lock);
    rest = pending(fj) <= spn__load(&fj->quiescing, relaxed);
    spn__unlock(&fj->help_lock);
    return rest;
}

/* Runs what there is until only tasks are left that do the same. */
static int help_until_rest(struct spn__fj_place *place, int64_t deadline_ns)
{
    for (;;) {
        spn_task *task = take_any(place);

        if (task != NULL) {
            spn__fj_run_queued(place, task);
            continue;
        }
        if (at_rest(place->pool))
            return SPN_OK;
        if (deadline_ns != SPN_FOREVER && spn__now() >= deadline_ns)
            return SPN_ETIMEDOUT;
        spn__os_yield();
    }
}

static int await_inside(struct spn__fj_place *place, int64_t deadline_ns)
{
    struct help h = { place->pool, spn__fj_stand_of(place) };
    int rc;

    help_begins(&h);
    rc = help_until_rest(place, deadline_ns);
    help_ends(&h);
    return rc;
}

int spn_fj_pool_await_quiescence(spn_fj_pool *fj, int64_t timeout_ns)
{
    struct spn__fj_place *place;

    if (fj == NULL)
        return SPN_EINVAL;
    place = spn__fj_place_in(fj);
    if (place == NULL)
        return await_outside(fj, timeout_ns);
    return await_inside(place, timeout_ns == SPN_FOREVER
                                   ? SPN_FOREVER
                                   : spn__deadline(spn__now(),
                                                   timeout_ns > 0 ? timeout_ns : 0));
}
