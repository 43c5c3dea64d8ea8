/* SPDX-License-Identifier: MIT */
/*
 * future_timeout.c - futures that time out.
 *
 * OVERVIEW
 *   An entry is a timeout in a timer and an edge from a future, in one block: whichever
 *   comes first ends it.  When the time has come, the timer's side completes the future.
 *   When the future is done, its completer fires the edge, which takes the timeout out of
 *   the timer.
 *
 * STATE  `word`: LIVE --the first of time, stop and completion--> ENDED
 *
 * GUESTS
 *   The completer of a future calls the timer to take the entry out, and knows nothing of
 *   the timer's life.  So each entry is a guest of its shard from schedule until the thread
 *   that ended it will not touch the timer any more, and stop waits for the guests.
 *
 * REFERENCES
 *   An entry has two, the timer's side and the future's; it goes with the last.  The
 *   future's is dropped when the edge fires.  It always fires, because the timer's side
 *   leaves the future done.  The entry refers to the future until it goes.
 *
 * ORDERING
 *   [guests] each leaves with a release, which pairs with the acquire in stop: all calls
 *           on the timer lie before its end.
 *   [refs]  each drop is a release and the last an acquire: all use lies before free.
 *
 * LOCKS  none is held here, and none while anything of the program's is called.
 *
 * WHY NOT a default timer, as Java's Delayer?  It would be a thread nobody asked for,
 * with callbacks of strangers on it: docs/design/wheel.md.
 */
#include "base/options.h"
#include "future/core.h"
#include "future/executor.h"
#include "sync/blocks.h"
#include "wheel/timer.h"

#define TIME_IS_UP "the time is up"

enum { LIVE, ENDED };

enum kind { FAIL, FAIL_AND_INTERRUPT, COMPLETE };

/* All fixed by arm, but `word` and `refs`. */
struct entry {
    struct spn__owned owned; /* first: the timer gives us this */
    struct spn__edge edge;
    spn_timer *timer;
    struct spn_future *future; /* referenced */
    void *value;               /* COMPLETE */
    enum kind kind;
    SPN__ATOMIC(uint32_t) word;
    SPN__ATOMIC(uint32_t) refs;
};

static void unref(struct entry *e, struct spn__work *work)
{
    if (spn__fetch_sub(&e->refs, 1, acq_rel) != 1) /* [refs] */
        return;
    spn__future_unref(e->future, work);
    spn__block_put(e);
}

/* ---- the timer's side ----------------------------------------------------------- */

static void time_is_up(struct spn_future *future, enum kind kind)
{
    if (kind == FAIL_AND_INTERRUPT)
        (void)spn__future_fail_and_interrupt(future, SPN_ETIMEDOUT, TIME_IS_UP);
    else
        (void)spn_future_complete_error(future, SPN_ETIMEDOUT, TIME_IS_UP);
}

/* The time has come (SPN_OK), or will not. */
static void act(struct entry *e, int status)
{
    if (e->kind != COMPLETE) {
        if (status == SPN_OK)
            time_is_up(e->future, e->kind);
    } else if (status != SPN_OK || spn_future_complete(e->future, e->value) != 1) {
        spn__future_drop_late(e->future, e->value);
    }
    if (status != SPN_OK)
        (void)spn_future_complete_error(e->future, status, "the timer was stopped");
}

/* We will not touch the timer any more. */
static void leave(struct entry *e)
{
    spn__shard_guest_leaves(spn__home_get(&e->owned.timeout));
}

static void end_by_timer(struct entry *e, int status)
{
    struct spn__work work = SPN__WORK_INIT;
    uint32_t found = LIVE;

    /* relaxed: decides who ends it; the timer's locks have published the rest. */
    if (spn__cas(&e->word, &found, ENDED, relaxed, relaxed)) {
        leave(e); /* we are inside: the timer waits for callbacks, and stop for us */
        act(e, status);
    }
    unref(e, &work);
    spn__work_drain(&work);
}

static int on_time(spn_timeout *t)
{
    end_by_timer((struct entry *)(void *)t, SPN_OK);
    return 0;
}

static void on_returned(struct spn__owned *owned)
{
    end_by_timer((struct entry *)(void *)owned, SPN_ESHUTDOWN);
}

/* ---- the future's side ------------------------------------------------------------ */

/* The future is done, and the entry is ours to end. */
static void take_out(struct entry *e, struct spn_future *source, struct spn__work *work)
{
    const bool removed =
        spn_timer_cancel(e->timer, &e->owned.timeout) == SPN_TIMEOUT_REMOVED;

    leave(e); /* the timer may be gone now */
    if (removed)
        unref(e, work); /* the timer's */
    if (e->kind == COMPLETE)
        spn__future_drop_late(source, e->value);
}

static void fire(struct spn__edge *edge, struct spn_future *source,
                 struct spn__work *work)
{
    struct entry *e = edge->owner;
    uint32_t found = LIVE;

    /* relaxed: decides who ends it; the edge's lock has published the rest. */
    if (spn__cas(&e->word, &found, ENDED, relaxed, relaxed))
        take_out(e, source, work);
    unref(e, work);
}

/* ---- making ------------------------------------------------------------------------ */

static struct entry *create(spn_future *future, spn_timer *timer, enum kind kind,
                            void *value)
{
    struct entry *e = spn__block_get(sizeof *e);

    if (e == NULL)
        return NULL;
    e->owned.timeout = (spn_timeout)SPN_TIMEOUT_INIT;
    spn__init(spn__state_of(&e->owned.timeout), SPN_TIMEOUT_NEW);
    e->owned.returned = on_returned;
    spn__list_node_init(&e->edge.link);
    spn__init(&e->edge.source, NULL);
    e->edge.fire = fire;
    e->edge.owner = e;
    e->timer = timer;
    e->future = spn__future_ref(future);
    e->value = value;
    e->kind = kind;
    spn__init(&e->word, LIVE);
    spn__init(&e->refs, 2);
    return e;
}

/* Checks, and what needs no timer; 1: it does. */
static int begin(const spn_future *future, const spn_timer *timer, int64_t timeout_ns)
{
    if (future == NULL || timer == NULL)
        return SPN_EINVAL;
    if (timeout_ns <= 0 || spn__future_done(future))
        return SPN_OK;
    return 1;
}

/* Starts the time and then connects the future, for which the caller has a reference. */
static int arm(spn_future *future, spn_timer *timer, enum kind kind, void *value,
               int64_t timeout_ns)
{
    struct spn__work work = SPN__WORK_INIT;
    struct entry *e = create(future, timer, kind, value);
    int rc;

    if (e == NULL)
        return SPN_ENOMEM;
    rc = spn__timer_schedule_owned(timer, &e->owned, on_time, timeout_ns);
    if (rc != SPN_OK) {
        spn_future_unref(future); /* never the last: the caller has one */
        spn__block_put(e);
        return rc;
    }
    /* The edge keeps the entry until it fires: the entry may go as soon as it is added. */
    if (!spn__edge_add(&e->edge, future))
        fire(&e->edge, future, &work);
    spn__work_drain(&work);
    return SPN_OK;
}

int spn_future_or_timeout(spn_future *future, spn_timer *timer, int64_t timeout_ns,
                          const spn_or_timeout_opts *opts)
{
    spn_or_timeout_opts o = SPN_OR_TIMEOUT_OPTS_INIT;
    enum kind kind;
    int rc;

    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (o.reserved != 0)
        return SPN_EINVAL;
    kind = o.interrupt != 0 ? FAIL_AND_INTERRUPT : FAIL;
    rc = begin(future, timer, timeout_ns);
    if (rc == 1)
        return timeout_ns == SPN_FOREVER ? SPN_OK
                                         : arm(future, timer, kind, NULL, timeout_ns);
    if (rc == SPN_OK)
        time_is_up(future, kind);
    return rc;
}

int spn_future_complete_on_timeout(spn_future *future, spn_timer *timer, void *value,
                                   int64_t timeout_ns)
{
    const int rc = begin(future, timer, timeout_ns);

    /* One for ever, too: somebody has to drop the value. */
    if (rc == 1)
        return arm(future, timer, COMPLETE, value, timeout_ns);
    if (rc == SPN_OK && spn_future_complete(future, value) != 1)
        spn__future_drop_late(future, value);
    return rc;
}
