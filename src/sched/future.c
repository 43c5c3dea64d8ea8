/* SPDX-License-Identifier: MIT */
/*
 * future.c - a future that is due at some time, once or again and again.
 *
 * OVERVIEW
 *   It is a task future (src/future/task.c) with a keeper: a periodic one is run and
 *   reset instead of run, and when the executor is through with it, it goes back into
 *   the queue with its next time, and the executor's reference with it.
 *
 * THE TIE
 *   Whoever completes a future that waits (cancel, as a rule) is to take it out of the
 *   queue; but an executor may end as soon as nothing waits there, and a canceller has
 *   no hold on it.  So `tie` says whether there is a queue to go to:
 *
 *     LOOSE -> TIED     it has come into the queue, whose lock is held
 *     TIED -> CUTTING   a canceller will look into the queue; until it is through,
 *                       nobody who takes the task out goes on
 *     CUTTING -> LOOSE  it is: it has the task, or somebody else had taken it
 *     TIED -> LOOSE     somebody has taken it out
 *
 *   Whoever takes a task out, be it to run it or to give it back, waits while it is
 *   CUTTING (spn__scheduled_left), before anything that may end the pool.
 *
 * ORDERING
 *   [tie]  Coming back sets TIED, makes a full fence, and looks at the future; who
 *          completes that changes its state and then looks at the tie, both seq_cst.
 *          So a future that is cancelled while it is on its way back is taken out by one
 *          of the two, and by one only: the compare-and-swap from TIED.  The release of
 *          TIED pairs with that, too: with it comes which executor has the future.
 *   [cut]  The release of LOOSE pairs with the acquire in left: the canceller is no
 *          longer in the queue or the pool.
 */
#include "sched/scheduled.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/options.h"
#include "base/time.h"
#include "exec/pool.h"
#include "sync/blocks.h"

enum { LOOSE, TIED, CUTTING };

static struct spn__scheduled_future *future_of(struct spn__task_future *t)
{
    return (struct spn__scheduled_future *)(void *)t;
}

static struct spn__scheduled_future *future_of_task(spn_task *task)
{
    return future_of(spn__list_entry(task, struct spn__task_future, task));
}

static bool is_periodic(const struct spn__scheduled_future *f)
{
    return f->repeat != SPN_REPEAT_NONE;
}

static int64_t now_of(const struct spn__scheduled_future *f)
{
    return spn_clock_now(f->clock);
}

/* ---- the tie ---------------------------------------------------------------------- */

void spn__scheduled_entered(spn_task *task, int64_t due_ns)
{
    struct spn__scheduled_future *f = future_of_task(task);

    spn__store(&f->due_ns, due_ns, relaxed); /* published by the lock */
    /* [tie] release: a canceller who has not the lock reads where it is.
     * mutant: publishes plain fields; ThreadSanitizer sees it */
    spn__store(&f->tie, TIED, release);
}

bool spn__scheduled_is_over(spn_task *task)
{
    struct spn__scheduled_future *f = future_of_task(task);
    uint32_t found = TIED;

    spn__fence(seq_cst); /* [tie] */
    /* relaxed: after the fence, and the lock is held: who is cutting wants it next. */
    return spn__phase_done(spn__load(&f->t.future.state, relaxed)) &&
           spn__cas(&f->tie, &found, LOOSE, relaxed, relaxed);
}

void spn__scheduled_left(spn_task *task, bool away)
{
    struct spn__scheduled_future *f = future_of_task(task);
    uint32_t found = TIED;

    f->away = away;
    /* [cut] acquire, both: a canceller may have been there.
     * mutant: orders plain memory, the end of the pool; ThreadSanitizer sees it */
    while (!spn__cas(&f->tie, &found, LOOSE, acquire, acquire)) {
        if (found == LOOSE)
            return;
        (void)spn__futex_wait(&f->tie, CUTTING, SPN_FOREVER);
        found = TIED;
    }
}

/* The future has an outcome: takes it out of the queue, if that is where it is. */
static void finished(struct spn__task_future *t)
{
    struct spn__scheduled_future *f = future_of(t);
    struct spn_scheduled *s;
    uint32_t found = TIED;
    bool removes;

    /* [tie] Mostly the one who completes it runs it, and a look is cheaper.
     * mutant: half of a pair; the exchange of the state is the other half */
    if (spn__load(&f->tie, seq_cst) != TIED)
        return;
    /* [tie] acquire: which executor.  mutant: a plain field; ThreadSanitizer sees it */
    if (!spn__cas(&f->tie, &found, CUTTING, acquire, relaxed))
        return;
    s = f->scheduled; /* it is in the queue, or whoever takes it out will wait */
    removes = s->removes_cancelled;
    if (removes && spn__delays_cut(&s->delays, &t->task, true)) {
        spn__store(&f->tie, LOOSE, relaxed); /* nobody waits for it: it is ours */
        spn_task_release(&t->task);
        spn__pool_cancel_end(s->pool);
        spn_future_unref(&t->future); /* the executor's */
        return;
    }
    /* [cut] mutant: as in left */
    spn__store(&f->tie, removes ? LOOSE : TIED, release);
    spn__futex_wake(&f->tie, INT32_MAX);
}

void spn__scheduled_future_check(struct spn__scheduled_future *f)
{
    spn__fence(seq_cst); /* [tie] after it came in */
    if (spn__phase_done(spn__load(&f->t.future.state, relaxed))) /* after the fence */
        finished(&f->t);
}

/* ---- running ---------------------------------------------------------------------- */

/* A failure is never silent, whatever the policy says. */
static void report(struct spn__scheduled_future *f, int code)
{
    struct spn_scheduled *s = f->scheduled;

    if (s != NULL)
        (void)spn__fetch_add(&s->failed_runs, 1, relaxed); /* only counts */
    if (s != NULL && s->failed != NULL)
        s->failed(s, &f->t.future, code, s->ctx);
    else
        spn__log(SPN_LOG_WARN, "%s: a periodic task failed with %d (%s)%s",
                 s != NULL ? s->pool->name : "scheduled", code, spn_status_name(code),
                 f->goes_on ? "" : ", and stops");
}

/* The function of a periodic future. */
static int call_periodic(void *arg, void **result)
{
    struct spn__scheduled_future *f = arg;
    int code;

    (void)result;
    f->inside = true;
    code = f->call.run(f->call.arg);
    f->inside = false;
    if (code == 0)
        return 0;
    report(f, code);
    return f->goes_on ? 0 : code;
}

/* That of one that runs once, and has no result. */
static int call_once(void *arg, void **result)
{
    const struct spn__scheduled_future *f = arg;

    (void)result;
    return f->call.run(f->call.arg);
}

static void release_ours(void *arg)
{
    struct spn__scheduled_future *f = arg;

    f->release_arg(f->call.arg);
}

static void begin(struct spn__task_future *t, bool runs)
{
    (void)t;
    (void)runs;
}

static bool run(struct spn__task_future *t)
{
    struct spn__scheduled_future *f = future_of(t);

    /* One that was given back is run by hand, for the last time. */
    if (!f->away)
        return spn__task_future_run(t);
    f->started_ns = now_of(f);
    f->again = spn__task_future_run_again(t);
    return true;
}

static int64_t next_due(const struct spn__scheduled_future *f)
{
    const int64_t due_ns = spn__load(&f->due_ns, relaxed); /* its own */
    int64_t now_ns, next_ns;

    switch (f->repeat) {
    case SPN_REPEAT_DELAY:
        return spn__time_add(now_of(f), f->period_ns);
    case SPN__REPEAT_START:
        return spn__time_add(f->started_ns, f->period_ns);
    default:
        break;
    }
    next_ns = spn__time_add(due_ns, f->period_ns);
    now_ns = now_of(f);
    if (f->skips && next_ns <= now_ns) {
        /* Unsigned: the two may be further apart than int64_t reaches. */
        const uint64_t period = (uint64_t)f->period_ns;

        next_ns = (int64_t)((uint64_t)next_ns +
                            ((uint64_t)now_ns - (uint64_t)next_ns) / period * period);
    }
    if (f->skips && next_ns < now_ns)
        next_ns = spn__time_add(next_ns, f->period_ns);
    return next_ns;
}

/* The executor is through with it, for this time; also when it was dropped, or its
 * function ended the thread. */
static void end(struct spn__task_future *t)
{
    struct spn__scheduled_future *f = future_of(t);
    struct spn_scheduled *s = f->scheduled;

    if (f->inside) {
        f->inside = false;
        report(f, SPN_EFAILED);
    }
    if (f->away) {
        f->away = false;
        if (f->again) {
            f->again = false;
            if (spn__delays_come_back(&s->delays, &t->task, next_due(f)))
                return; /* and the reference with it */
            (void)spn_future_cancel(&t->future, 0);
        } else {
            spn__delays_stay_away(&s->delays);
        }
    }
    spn_future_unref(&t->future);
}

/* From here on its task is like any other, and may go to another executor. */
static void given_back(struct spn__task_future *t)
{
    t->task.flags &= ~(SPN__TASK_TIED | SPN__TASK_PERIODIC);
    future_of(t)->scheduled = NULL;
}

static const struct spn__task_keeper keeper = { .begin = begin,
                                                .end = end,
                                                .run = run,
                                                .finished = finished,
                                                .given_back = given_back };

/* ---- making ------------------------------------------------------------------------- */

struct spn__scheduled_future *spn__scheduled_future_of(const struct spn_future *f)
{
    struct spn__task_future *t = (struct spn__task_future *)(void *)(uintptr_t)f;

    return f != NULL && f->kind == SPN__TASK && t->keeper == &keeper ? future_of(t)
                                                                     : NULL;
}

void spn__scheduled_future_init(struct spn__scheduled_future *f,
                                struct spn_scheduled *s, const spn_schedule *what,
                                const spn_future_opts *opts)
{
    spn_future_opts o = *opts;
    spn_call_fn fn = what->call;
    void *arg = what->arg;

    f->scheduled = s;
    f->clock = s != NULL ? s->delays.clock : NULL;
    spn__init(&f->due_ns, 0);
    spn__init(&f->tie, LOOSE);
    f->repeat = (uint8_t)what->repeat;
    f->goes_on = what->on_failure == SPN_FAILURE_GO_ON;
    f->skips = what->skip_missed != 0;
    f->away = f->again = f->inside = false;
    f->period_ns = what->period_ns;
    f->started_ns = 0;
    f->call.run = what->run;
    f->call.arg = what->arg;
    f->release_arg = o.release_arg;
    if (what->run != NULL) {
        fn = is_periodic(f) ? call_periodic : call_once;
        arg = f;
        o.release_arg = o.release_arg != NULL ? release_ours : NULL;
    }
    spn__task_future_init(&f->t, fn, arg, &o, &keeper);
    f->t.task.flags |= SPN__TASK_TIED | (is_periodic(f) ? SPN__TASK_PERIODIC : 0);
}

int spn__scheduled_future_create(struct spn__scheduled_future **out,
                                 struct spn_scheduled *s, const spn_schedule *what,
                                 const spn_future_opts *opts)
{
    struct spn__scheduled_future *f = spn__block_get(sizeof *f);

    *out = f;
    if (f == NULL)
        return SPN_ENOMEM;
    spn__scheduled_future_init(f, s, what, opts);
    return SPN_OK;
}

int spn__scheduled_future_start(struct spn__scheduled_future *f,
                                struct spn_scheduled *s, int64_t due_ns)
{
    struct spn_context *context;
    int rc;

    f->scheduled = s;
    f->clock = s->delays.clock;
    spn__task_future_belongs(&f->t, spn_pool_executor(s->pool));
    spn__future_ref(&f->t.future); /* the executor's */
    context = spn__task_future_capture(&f->t);
    rc = spn__pool_execute_at(s->pool, &f->t.task, due_ns);
    if (rc != SPN_OK) {
        spn__task_future_uncapture(&f->t, context);
        spn_future_unref(&f->t.future);
    }
    return rc;
}
