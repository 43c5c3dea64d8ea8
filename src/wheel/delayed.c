/* SPDX-License-Identifier: MIT */
/*
 * delayed.c - futures that time out, and the executor that waits first.
 *
 * OVERVIEW
 *   An entry is a timeout in a timer and an edge from a future, in one block: whichever
 *   comes first ends it.  When the time has come, the timer's side completes the future
 *   or hands the task on.  When the future is done, its completer fires the edge, which
 *   takes the timeout out of the timer.  A task that belongs to no future we know has no
 *   edge.
 *
 * STATE  `word`: LIVE --the first of time, stop and completion--> ENDED
 *
 * GUESTS
 *   Whoever completes a future makes a call on the timer, to take the entry out, and knows
 *   nothing of the timer's life.  So each entry is a guest of its shard from schedule until
 *   whoever ended it will not touch the timer any more, and stop waits for the guests.
 *
 * REFERENCES
 *   An entry has two, the timer's side and the future's, and a third while it is being
 *   armed, when both may be over before we look again; it goes with the last.  For a
 *   timeout it refers to the future from arm until then; the task of a delayed executor
 *   has a reference of its own.
 *
 * ORDERING
 *   [guests] each leaves with a release, which pairs with the acquire in stop: all calls
 *           on the timer lie before its end.
 *   [refs]  each drop is a release and the last an acquire: all use lies before free.
 *   [edge]  (stage.c) arm adds the edge and then looks at `word`; the timer's side
 *           changes `word` and then looks for the edge; seq_cst, so that one of them takes
 *           off the edge of a future that stays.
 *   [waiting] the release with which a task leaves the delayed executor pairs with the
 *           acquire in destroy: we do not touch it afterwards.
 *
 * LOCKS  none is held here, and none while anything of the program's is called.
 *
 * WHY NOT a default timer, as Java's Delayer?  It would be a thread nobody asked for,
 * with callbacks of strangers on it: docs/design/wheel.md.
 */
#include <spindle/delayed.h>

#include "base/list.h"
#include "base/options.h"
#include "future/core.h"
#include "future/executor.h"
#include "sync/blocks.h"
#include "wheel/timer.h"

#define TIME_IS_UP "the time is up"

enum { LIVE, ENDED };

enum kind { FAIL, FAIL_AND_INTERRUPT, COMPLETE, HAND_ON };

struct spn_delayed_executor {
    spn_executor
        executor; /* first: they are the same object; fixed, as the next three */
    spn_timer *timer;
    spn_executor *next;
    int64_t delay_ns;
    SPN__ATOMIC(int64_t) waiting; /* tasks [waiting] */
};

/* All fixed by arm, but `word` and `refs`. */
struct entry {
    struct spn__owned owned; /* first: the timer gives us this */
    struct spn__edge edge;
    spn_timer *timer;
    struct spn_future *future; /* referenced; HAND_ON: NULL */
    void *value;               /* COMPLETE */
    spn_task *task;            /* HAND_ON, as the next: ours until the entry ends */
    struct spn_delayed_executor *delayed;
    enum kind kind;
    SPN__ATOMIC(uint32_t) word;
    SPN__ATOMIC(uint32_t) refs;
};

static void unref(struct entry *e, struct spn__work *work)
{
    if (spn__fetch_sub(&e->refs, 1, acq_rel) != 1) /* [refs] */
        return;
    if (e->future != NULL)
        spn__future_unref(e->future, work);
    spn__block_put(e);
}

/* The task is not ours any more. */
static void let_go(struct spn_delayed_executor *delayed)
{
    (void)spn__fetch_sub(&delayed->waiting, 1, release); /* [waiting] */
}

static void drop(struct entry *e, int reason)
{
    spn_task *task = e->task;

    let_go(e->delayed);
    spn_task_release(task);
    spn__task_drop_guarded(task, reason);
}

/* ---- the timer's side ----------------------------------------------------------- */

static void handed_on(void *delayed)
{
    let_go(delayed);
}

/* What is called may run the task here, and that may end the thread. */
static void hand_on(struct entry *e)
{
    struct spn_delayed_executor *delayed = e->delayed;
    spn_task *task = e->task;
    int rc;

    spn_task_release(task);
    /* Last: until then the executor it goes to must be there. */
    SPN__CLEANUP_PUSH(handed_on, delayed);
    rc = spn_executor_execute(delayed->next, task);
    /* BUSY: somebody has submitted it again, and that has an end of its own. */
    if (rc != SPN_OK)
        spn__task_drop_guarded(task, rc);
    SPN__CLEANUP_POP();
}

static void time_is_up(struct spn_future *future, enum kind kind)
{
    if (kind == FAIL_AND_INTERRUPT)
        (void)spn__future_fail_and_interrupt(future, SPN_ETIMEDOUT, TIME_IS_UP);
    else
        (void)spn_future_complete_error(future, SPN_ETIMEDOUT, TIME_IS_UP);
}

/* The time has come (SPN_OK), or will not. */
static void act(struct entry *e, int status, struct spn__work *work)
{
    switch (e->kind) {
    case HAND_ON:
        /* [edge] the future stays: nothing of us must. */
        if (spn__edge_remove(&e->edge))
            unref(e, work);
        if (status == SPN_OK)
            hand_on(e);
        else
            drop(e, status);
        return;
    case COMPLETE:
        if (status != SPN_OK || spn_future_complete(e->future, e->value) != 1)
            spn__future_drop_late(e->future, e->value);
        break;
    case FAIL:
    case FAIL_AND_INTERRUPT:
        if (status == SPN_OK)
            time_is_up(e->future, e->kind);
        break;
    }
    if (status != SPN_OK)
        (void)spn_future_complete_error(e->future, status, "the timer was stopped");
}

/* We will not touch the timer any more. */
static void leave(struct entry *e)
{
    spn__shard_guest_leaves(spn__home_get(&e->owned.timeout));
}

/* The end of an entry by the timer, as its cleanup sees it. */
struct ending {
    struct entry *entry; /* NULL: let go of */
    int status;
    struct spn__work work;
};

static void end(void *arg)
{
    struct ending *ending = arg;
    struct entry *e = ending->entry;
    uint32_t found = LIVE;

    /* [edge] mutant: half of a pair */
    if (spn__cas(&e->word, &found, ENDED, seq_cst, relaxed)) {
        leave(e); /* we are inside: the timer waits for callbacks, and stop for us */
        act(e, ending->status, &ending->work);
    }
}

/* Also when what end called has ended the thread; and once more, if what follows does. */
static void after_end(void *arg)
{
    struct ending *ending = arg;
    struct entry *e = ending->entry;

    ending->entry = NULL;
    if (e != NULL)
        unref(e, &ending->work);
    spn__work_drain(&ending->work);
}

static void end_by_timer(struct entry *e, int status)
{
    struct ending ending = { e, status, SPN__WORK_INIT };

    spn__outlive(end, after_end, &ending);
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
    else if (e->kind == HAND_ON)
        drop(e, SPN_ECANCELED);
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

static struct entry *create(enum kind kind, spn_timer *timer)
{
    struct entry *e = spn__block_get(sizeof *e);

    if (e == NULL)
        return NULL;
    e->owned.timeout = (spn_timeout)SPN_TIMEOUT_INIT;
    spn__init(spn__state_of(&e->owned.timeout), SPN__TIMEOUT_NEW);
    e->owned.returned = on_returned;
    spn__list_node_init(&e->edge.link);
    spn__init(&e->edge.source, NULL);
    e->edge.fire = fire;
    e->edge.owner = e;
    e->timer = timer;
    e->future = NULL;
    e->value = NULL;
    e->task = NULL;
    e->delayed = NULL;
    e->kind = kind;
    spn__init(&e->word, LIVE);
    spn__init(&e->refs, 3);
    return e;
}

/* Starts the time and then connects the future, for which the caller has a reference and
 * which may be NULL.  On error the entry is as it was. */
static int arm(struct entry *e, struct spn_future *future, int64_t delay_ns)
{
    struct spn__work work = SPN__WORK_INIT;
    const int rc = spn__timer_schedule_owned(e->timer, &e->owned, on_time, delay_ns);

    if (rc != SPN_OK)
        return rc;
    if (future == NULL)
        unref(e, &work); /* there is no future's side */
    else if (!spn__edge_add(&e->edge, future))
        fire(&e->edge, future, &work);
    /* [edge] has the time come meanwhile?  mutant: half of a pair */
    else if (spn__load(&e->word, seq_cst) == ENDED && spn__edge_remove(&e->edge))
        unref(e, &work);
    unref(e, &work); /* ours */
    spn__work_drain(&work);
    return SPN_OK;
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

static int time_out(spn_future *future, spn_timer *timer, enum kind kind, void *value,
                    int64_t timeout_ns)
{
    struct entry *e = create(kind, timer);
    int rc;

    if (e == NULL)
        return SPN_ENOMEM;
    e->future = spn__future_ref(future);
    e->value = value;
    rc = arm(e, future, timeout_ns);
    if (rc != SPN_OK) {
        spn_future_unref(future); /* never the last: the caller has one */
        spn__block_put(e);
    }
    return rc;
}

static int or_timeout(spn_future *future, spn_timer *timer, enum kind kind,
                      int64_t timeout_ns)
{
    const int rc = begin(future, timer, timeout_ns);

    if (rc == 1)
        return timeout_ns == SPN_FOREVER
                   ? SPN_OK
                   : time_out(future, timer, kind, NULL, timeout_ns);
    if (rc == SPN_OK)
        time_is_up(future, kind);
    return rc;
}

int spn_future_or_timeout(spn_future *future, spn_timer *timer, int64_t timeout_ns)
{
    return or_timeout(future, timer, FAIL, timeout_ns);
}

int spn_future_or_timeout_with(spn_future *future, spn_timer *timer, int64_t timeout_ns,
                               const spn_or_timeout_opts *opts)
{
    spn_or_timeout_opts o = SPN_OR_TIMEOUT_OPTS_INIT;

    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (o.reserved != 0)
        return SPN_EINVAL;
    return or_timeout(future, timer, o.interrupt != 0 ? FAIL_AND_INTERRUPT : FAIL,
                      timeout_ns);
}

int spn_future_complete_on_timeout(spn_future *future, spn_timer *timer, void *value,
                                   int64_t timeout_ns)
{
    const int rc = begin(future, timer, timeout_ns);

    /* One for ever, too: somebody has to drop the value. */
    if (rc == 1)
        return time_out(future, timer, COMPLETE, value, timeout_ns);
    if (rc == SPN_OK && spn_future_complete(future, value) != 1)
        spn__future_drop_late(future, value);
    return rc;
}

/* ---- the delayed executor ------------------------------------------------------------ */

static int execute(spn_executor *executor, spn_task *task)
{
    struct spn_delayed_executor *d = (struct spn_delayed_executor *)(void *)executor;
    struct spn_future *target;
    struct entry *e;
    int rc;

    if (d->delay_ns <= 0)
        return spn_executor_execute(d->next, task);
    rc = spn_task_claim(task);
    if (rc != SPN_OK)
        return rc;
    e = create(HAND_ON, d->timer);
    if (e == NULL) {
        spn_task_release(task);
        return SPN_ENOMEM;
    }
    e->task = task;
    e->delayed = d;
    /* Ours: the task may have run, and let go of its future, before the edge is there. */
    target = spn_future_ref(spn__task_target(task));
    (void)spn__fetch_add(&d->waiting, 1, relaxed); /* a number, for destroy */
    rc = arm(e, target, d->delay_ns);
    if (rc != SPN_OK) {
        let_go(d);
        spn_task_release(task);
        spn__block_put(e);
    }
    spn_future_unref(target);
    return rc;
}

static const spn_executor_ops delayed_ops = { .size = sizeof(spn_executor_ops),
                                              .execute = execute };

int spn_delayed_executor_create(spn_delayed_executor **out, spn_timer *timer,
                                spn_executor *next, int64_t delay_ns)
{
    struct spn_delayed_executor *d;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (timer == NULL || next == NULL || next->ops == NULL)
        return SPN_EINVAL;
    d = spn__alloc(sizeof *d);
    if (d == NULL)
        return SPN_ENOMEM;
    d->executor.ops = &delayed_ops;
    d->timer = timer;
    d->next = next;
    d->delay_ns = delay_ns;
    spn__init(&d->waiting, 0);
    *out = d;
    return SPN_OK;
}

int spn_delayed_executor_destroy(spn_delayed_executor *d)
{
    if (d == NULL)
        return SPN_OK;
    if (spn__load(&d->waiting, acquire) != 0) /* [waiting] */
        return SPN_EBUSY;
    spn__free(d);
    return SPN_OK;
}

spn_executor *spn_delayed_executor_executor(spn_delayed_executor *d)
{
    return d != NULL ? &d->executor : NULL;
}

int64_t spn_delayed_executor_pending(const spn_delayed_executor *d)
{
    return d != NULL ? spn__load(&d->waiting, relaxed) : 0; /* a number */
}
