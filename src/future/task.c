/* SPDX-License-Identifier: MIT */
/*
 * task.c - futures with a function: run, run_and_reset, and the interrupt that
 * never comes late.
 *
 * STATE  `runner`, who may call the function or give its argument back
 *   FREE -> a thread's record, or UNKNOWN   run has claimed it
 *        -> FREE                            run_and_reset is through
 *        -> CLOSED (final)                  the future is done and nobody runs it:
 *                                           whoever closes it gives arg back, once
 *   UNKNOWN is a thread without a record: there was no memory.  It cannot be
 *   interrupted; cancel goes on as if not asked to.
 *   FREE -> a record with PINNED -> FREE    whoever completes it tells the executor
 *
 * PINNING
 *   A thread that completes a queued future tells the executor so (`lapsed`); but an
 *   executor may end as soon as it has seen to all its tasks, and that thread has no hold
 *   on it.  So it pins the future first: the future cannot start meanwhile, and an executor
 *   that comes to run it, drops it or gives it back waits until the thread lets go.  What a
 *   pin costs those who run tasks is nothing: they find it where they claim the runner.
 *   The pin ends at once; an executor that must sleep till then says WANTED.
 *
 * THE LATE INTERRUPT
 *   cancel goes to INTERRUPTING, reads `runner`, interrupts it and goes to
 *   INTERRUPTED.  A runner that finds INTERRUPTING when its function has returned
 *   waits for INTERRUPTED before it leaves; so the interrupt reaches it inside
 *   run, and the record it is sent to is still this thread's.  A time-out that interrupts
 *   does so while COMPLETING, for its outcome is a failure: the runner waits for the end of
 *   that as well.
 *
 * ORDERING
 *   [runner] Two changes and two looks, all seq_cst, of which one must see the
 *            other: the runner claims or frees `runner` and then looks at the
 *            state; whoever completes changes the state and then looks at `runner`.
 *            So a function does not start unseen by a cancel that is to interrupt
 *            it; a runner that leaves without seeing INTERRUPTING is not seen by
 *            cancel; and arg is given back by one of the two.
 *   [pin]    The same between a thread that pins the runner and then looks at
 *            `executor`, and the executor's side, which changes one of
 *            the two and then looks at the runner: an executor is not asked when it
 *            may be gone, and not gone while it is asked.
 *   [unpin]  Who wants to be told reads `unpins` before it says WANTED (release);
 *            who lets go sees that (acquire) and then counts: the sleeper is
 *            told, or does not sleep.
 *   [executor] the release of submit pairs with the acquire of a waiter: the
 *            executor is there.
 *   [context] the release store of a captured context pairs with the acquire of who
 *            takes it, and may end it: an executor that is about to run the future,
 *            or whoever completes it before that.  The executor takes it first and
 *            then looks at the state; the other changes the state and takes it then,
 *            with a release: so a function is not called without its context.  A
 *            periodic one puts it back for the next run, and then looks: two changes
 *            and two looks, all seq_cst, of which one sees the other, so that it goes.
 *   [done]   see core.c.
 */
#include "future/task.h"
#include "future/wait.h"

#include "base/assert.h"
#include "base/options.h"
#include "future/executor.h"
#include "sync/interrupt.h"

#define FREE    ((uintptr_t)0)
#define UNKNOWN ((uintptr_t)1)
#define CLOSED  ((uintptr_t)2)
/* Beside the address of a record. */
#define PINNED ((uintptr_t)1)
#define WANTED ((uintptr_t)2)

/* A function without a result, and the value of its future. */
struct run_call {
    spn_run_fn run;
    void *arg;
    void *value;
};

/* One that was made of such a function. */
struct run_future {
    struct spn__task_future task; /* first: they are the same object */
    struct run_call call;
};

static bool is_pinned(uintptr_t runner)
{
    return runner > CLOSED && (runner & PINNED) != 0;
}

static struct spn__task_future *task_of(struct spn_future *f)
{
    spn__debug_assert(f->kind == SPN__TASK);
    return (struct spn__task_future *)(void *)f;
}

static void drop_task(spn_task *task, int reason);

void spn__task_future_init(struct spn__task_future *t, spn_call_fn fn, void *arg,
                           const spn_future_opts *opts,
                           const struct spn__task_keeper *keeper)
{
    spn__future_init(&t->future, SPN__TASK, opts);
    t->fn = fn;
    t->arg = arg;
    t->release_arg = opts->release_arg;
    spn__init(&t->runner, FREE);
    spn__init(&t->context, NULL);
    spn__init(&t->executor, NULL);
    spn__init(&t->unpins, 0);
    t->bare = opts->done == NULL && opts->release_arg == NULL && keeper == NULL;
    t->told = NULL;
    spn__init(&t->told_owner, NULL);
    spn__list_node_init(&t->told_link);
    t->keeper = keeper;
    if (keeper != NULL)
        spn__future_heard(&t->future); /* that is told */
    t->task = (spn_task)SPN_TASK_INIT(spn__task_future_fn, drop_task);
}

int spn_future_create_task(spn_future **out, spn_call_fn fn, void *arg,
                           const spn_future_opts *opts)
{
    spn_future_opts o = SPN_FUTURE_OPTS_INIT;
    struct spn__task_future *t;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (fn == NULL)
        return SPN_EINVAL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    t = spn__block_get_ahead(sizeof *t);
    if (t == NULL)
        return SPN_ENOMEM;
    spn__task_future_init(t, fn, arg, &o, NULL);
    *out = &t->future;
    return SPN_OK;
}

int spn__task_create(spn_executor *executor, struct spn_future **out, spn_call_fn fn,
                     void *arg, const spn_future_opts *opts)
{
    int rc;

    if (executor->ops == NULL || !spn__executor_has(executor, new_task))
        return spn_future_create_task(out, fn, arg, opts);
    *out = NULL;
    if (fn == NULL)
        return SPN_EINVAL;
    rc = executor->ops->new_task(executor, out, fn, arg, opts);
    if (rc != SPN_OK) {
        *out = NULL;
        return rc;
    }
    if (*out != NULL && (*out)->kind == SPN__TASK)
        return SPN_OK;
    spn_future_unref(*out); /* not what was asked for */
    *out = NULL;
    return SPN_EINVAL;
}

static void free_call(void *call)
{
    spn__free(call);
}

static int call_run(void *arg, void **result)
{
    const struct run_call call = *(const struct run_call *)arg;
    const int rc = call.run(call.arg);

    if (rc == 0)
        *result = call.value;
    return rc;
}

int spn__task_create_run(spn_executor *executor, struct spn_future **out,
                         spn_run_fn run, void *arg, void *value)
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    struct run_future *r;
    struct run_call *call;
    int rc;

    *out = NULL;
    if (run == NULL)
        return SPN_EINVAL;
    if (executor->ops == NULL || !spn__executor_has(executor, new_task)) {
        r = spn__block_get_ahead(sizeof *r);
        if (r == NULL)
            return SPN_ENOMEM;
        r->call = (struct run_call){ run, arg, value };
        spn__task_future_init(&r->task, call_run, &r->call, &opts, NULL);
        *out = &r->task.future;
        return SPN_OK;
    }
    call = spn__alloc(sizeof *call);
    if (call == NULL)
        return SPN_ENOMEM;
    *call = (struct run_call){ run, arg, value };
    opts.release_arg = free_call;
    rc = spn__task_create(executor, out, call_run, call, &opts);
    if (rc != SPN_OK)
        spn__free(call);
    return rc;
}

void spn__task_tell(struct spn_future *f,
                    void (*told)(struct spn_future *f, void *owner), void *owner)
{
    task_of(f)->told = told;
    task_of(f)->bare = false;
    spn__store(&task_of(f)->told_owner, owner, relaxed); /* published by submit */
}

struct spn__list_node *spn__task_told_link(struct spn_future *f)
{
    return &task_of(f)->told_link;
}

struct spn_future *spn__task_told_future(struct spn__list_node *link)
{
    return &spn__list_entry(link, struct spn__task_future, told_link)->future;
}

void spn__task_mark_awaited(struct spn_future *f)
{
    task_of(f)->task.flags |= SPN_TASK_AWAITED;
}

/* ---- the context ------------------------------------------------------------ */

struct spn_context *spn__task_future_capture(struct spn__task_future *t)
{
    struct spn_context *captured = spn__context_capture(), *none = NULL;

    /* [context] If there is one, an executor has the task, and will say so. */
    if (captured != NULL && !spn__cas(&t->context, &none, captured, release, relaxed)) {
        spn_context_unref(captured);
        return NULL;
    }
    return captured;
}

void spn__task_future_uncapture(struct spn__task_future *t,
                                struct spn_context *captured)
{
    struct spn_context *found = captured;

    /* relaxed: it is what we put there ourselves. */
    if (captured != NULL && spn__cas(&t->context, &found, NULL, relaxed, relaxed))
        spn_context_unref(captured);
}

/* [context] acquire: the context, and that the future is done if another took it. */
static struct spn_context *take_context(struct spn__task_future *t)
{
    /* Mostly there is none, and a look is cheaper than an exchange.  seq_cst: after the
     * change of the state, as run_again looks at that after putting one back.
     * mutant: half of a pair */
    if (spn__load(&t->context, seq_cst) == NULL)
        return NULL;
    /* [context] mutant: the release, as above */
    return spn__exchange(&t->context, NULL, acq_rel);
}

void spn__task_future_forget(struct spn__task_future *t)
{
    spn_context_unref(take_context(t));
}

/* ---- those who complete it -------------------------------------------------- */

void spn__task_interrupt(struct spn_future *f)
{
    /* [runner] after INTERRUPTING or COMPLETING.  mutant: half of a pair */
    const uintptr_t runner = spn__load(&task_of(f)->runner, seq_cst);

    if (runner > CLOSED && !is_pinned(runner))
        spn__interrupt_set((struct spn_thread *)runner);
}

/* The future is done: gives arg back, unless somebody runs it and will. */
static void give_arg_back(struct spn__task_future *t)
{
    uintptr_t found = FREE;

    spn__task_future_forget(t);
    if (t->release_arg == NULL)
        return;
    /* [runner] after the change of the state; seq_cst also where it fails, for that is
     * the look that leaves arg to the runner.  mutant: half of a pair */
    if (spn__cas(&t->runner, &found, CLOSED, seq_cst, seq_cst))
        spn__call_pointer(t->release_arg, t->arg);
}

void spn__task_finished(struct spn_future *f)
{
    struct spn__task_future *t = task_of(f);
    void *owner;

    if (t->keeper != NULL && t->keeper->finished != NULL)
        t->keeper->finished(t);
    if (t->told != NULL) {
        /* relaxed: decides who has it; what the owner is came with the future. */
        owner = spn__exchange(&t->told_owner, NULL, relaxed);
        if (owner != NULL)
            t->told(f, owner);
    }
    give_arg_back(t);
}

/* ---- pins ------------------------------------------------------------------- */

/* Ends a pin of this thread's, and the sleep of those who want it to. */
static void let_go(struct spn__task_future *t)
{
    /* [runner] [pin] [unpin] seq_cst: a look at the state follows, here and in run.
     * mutant: half of a pair */
    const uintptr_t old = spn__exchange(&t->runner, FREE, seq_cst);

    if ((old & WANTED) != 0) {
        (void)spn__fetch_add(&t->unpins, 1, relaxed); /* [unpin] the futex compares */
        spn__futex_wake(&t->unpins, INT32_MAX);
    }
}

/* Sleeps until another thread's pin is gone, or for less: look again. */
static void await_unpinned(struct spn__task_future *t, uintptr_t found)
{
    const uint32_t seen = spn__load(&t->unpins, relaxed); /* [unpin] before WANTED */

    /* [unpin] Only the load above taking place after this would show it.
     * mutant: the explorer has no load buffering (its README, Limits) */
    if (spn__cas(&t->runner, &found, found | WANTED, release, relaxed))
        (void)spn__futex_wait(&t->unpins, seen, SPN_FOREVER);
}

static uintptr_t pin_of(const struct spn_thread *self)
{
    return (uintptr_t)self | PINNED;
}

/* The executor is through with it: from here on it may end. */
static void part(struct spn__task_future *t)
{
    uintptr_t found;

    spn__store(&t->executor, NULL, seq_cst); /* [pin] change, then look */
    for (;;) {
        found = spn__load(&t->runner, seq_cst); /* [pin] mutant: half of a pair */
        if (!is_pinned(found))
            return;
        await_unpinned(t, found);
    }
}

/* Ends a pin of a thread that does not complete the future. */
static void unpin(struct spn__task_future *t)
{
    let_go(t);
    /* [runner] who completed it has left arg to us.  mutant: half of a pair */
    if (spn__phase_done(spn__load(&t->future.state, seq_cst)))
        give_arg_back(t);
}

/*
 * The executor is told before the step, so that who has seen the outcome is not refused on
 * account of the task, and after it, as it may have looked in between.  Without memory for
 * the thread's record it is not told.
 */
spn_executor *spn__task_lapse_begin(struct spn_future *f)
{
    struct spn__task_future *t = task_of(f);
    struct spn_thread *self;
    spn_executor *executor;
    uintptr_t found = FREE;

    /* relaxed, both: mostly its runner completes it, or it is with no executor. */
    if (spn__load(&t->runner, relaxed) != FREE ||
        spn__load(&t->executor, relaxed) == NULL)
        return NULL;
    /* Such a keeper's future does not part from its executor, which may be gone; the keeper
     * takes the task out itself. */
    if (t->keeper != NULL && t->keeper->run != NULL)
        return NULL;
    self = spn__thread_self();
    /* [pin] mutant: half of a pair */
    if (self == NULL || !spn__cas(&t->runner, &found, pin_of(self), seq_cst, relaxed))
        return NULL;
    /* [pin] mutant: half of a pair */
    executor = spn__load(&t->executor, seq_cst);
    /* A task that is not queued there has left, and the executor may be gone: whoever takes
     * it out says so before the pin can hold him.  acquire: of that. */
    if (executor == NULL || !spn__executor_has(executor, lapsed) ||
        spn__load(spn__task_queued(&t->task), acquire) == 0) {
        unpin(t);
        return NULL;
    }
    executor->ops->lapsed(executor);
    return executor;
}

void spn__task_lapse_end(struct spn_future *f, spn_executor *executor, bool won)
{
    if (executor == NULL)
        return;
    executor->ops->lapsed(executor);
    if (won)
        let_go(task_of(f));
    else
        unpin(task_of(f));
}

int spn__task_wait_begin(struct spn_future *f, struct spn_thread *self, bool timed,
                         spn_executor **entered)
{
    /* [executor] mutant: what comes with it is plain, and who is inside knows it */
    spn_executor *executor = spn__load(&task_of(f)->executor, acquire);
    int rc = SPN_OK;

    if (executor == NULL || !spn__thread_is_inside(self, executor))
        return SPN_OK;
    self->waits_timed = timed;
    if (spn__executor_has(executor, wait_begin))
        rc = executor->ops->wait_begin(executor, &task_of(f)->task);
    if (rc >= 0 && spn__executor_has(executor, wait_end))
        *entered = executor;
    return rc < 0 ? rc : SPN_OK;
}

void spn__task_wait_end(spn_executor *entered)
{
    entered->ops->wait_end(entered);
}

/* ---- the runner ----------------------------------------------------------- */

/* One call of the function. */
struct running {
    struct spn__task_future *t;
    struct spn__call call;
    bool by_executor; /* with the context it was submitted with, and no other */
    bool reset;       /* success leaves the future as it is */
    bool kept;        /* it did */
    bool won;         /* the outcome is this call's */
    bool parted;      /* and the executor's reference went with it */
};

static void leave_executor(struct spn__task_future *t);

/* Completes the future with what the function returned, if nobody was faster. */
static void keep_outcome(struct running *r, struct spn__work *work)
{
    struct spn_future *f = &r->t->future;

    if (r->call.code == 0 && r->reset) {
        r->kept = true;
        spn__future_drop_late(f, r->call.result);
        return;
    }
    if (!spn__future_claim(f)) {
        spn__future_drop_late(f, r->call.result);
        return;
    }
    r->won = true;
    if (r->call.code == 0) {
        f->value = r->call.result;
        /* [runner] It stays this thread's: nobody looks at it any more. */
        r->parted = r->by_executor && r->t->bare &&
                    spn__future_finish_and_unref(f, SPN__NORMAL);
        if (!r->parted)
            spn__future_finish(f, SPN__NORMAL, work);
    } else {
        spn__future_write_error(f, r->call.code, spn__call_message(&r->call), false);
        spn__future_finish(f, SPN__EXCEPTIONAL, work);
    }
}

/* The runner leaves; true if the future can be run again. */
static bool leave(struct spn__task_future *t, struct spn_thread *self)
{
    uint32_t state;

    /* [runner] leave, then look.  mutant: half of a pair */
    (void)spn__exchange(&t->runner, FREE, seq_cst);
    state = spn__load(&t->future.state, seq_cst); /* mutant: half of a pair */
    if (spn__phase(state) == SPN__NEW)
        return true;
    if (spn__phase(state) == SPN__INTERRUPTING && self != NULL)
        spn__future_await_phase(&t->future, SPN__INTERRUPTED, self);
    else if (spn__phase(state) == SPN__COMPLETING) {
        spn__future_await_winner(&t->future);
        /* [done] acquire: with the outcome comes the interrupt. */
        (void)spn__load(&t->future.state, acquire);
    }
    if (spn__phase(state) != SPN__COMPLETING)
        give_arg_back(t);
    return false;
}

/* The same for one whose outcome it is: no interrupt is under way, and arg was left to
 * it.  The state needs no look, and its line belongs to who waits. */
static void leave_done(struct spn__task_future *t)
{
    /* [runner] release: who pins or claims it now sees that it is done.  In C11 their
     * seq_cst look at the state could else find it as it was, for this word would tell
     * them nothing of what came before.
     * mutant: to the explorer a seq_cst look sees every seq_cst change before it */
    spn__store(&t->runner, FREE, release);
    give_arg_back(t);
}

/* Follows the function. */
static void after_call(struct running *r)
{
    struct spn__work work = SPN__WORK_INIT;

    keep_outcome(r, &work);
    if (r->parted)
        return; /* the future may be gone */
    if (r->won)
        leave_done(r->t);
    else
        r->kept = leave(r->t, r->call.self) && r->kept;
    spn__work_drain(&work);
}

static void call_fn(void *p)
{
    struct running *r = p;

    r->call.code = r->t->fn(r->t->arg, &r->call.result);
}

/* The function has ended its thread. */
static void run_ended(void *of, void *context)
{
    struct running r = { .t = of };

    spn_context_unref(context);
    spn__call_ended(&r.call);
    after_call(&r);
}

static void submitted_run_ended(void *of, void *context)
{
    run_ended(of, context);
    leave_executor(of);
}

/* Calls the function, in the context it was submitted with if an executor does. */
static void call_in(struct running *r, struct spn_context *context)
{
    struct spn__context_frame frame = { NULL, NULL };

    spn__call_enter(&r->call);
    if (r->by_executor)
        spn__context_enter(&frame, r->call.self, context);
    spn__task_entered(r->call.self, r->by_executor ? submitted_run_ended : run_ended,
                      r->t, context);
    spn__guarded(call_fn, r);
    spn__task_left(r->call.self);
    spn__call_leave(&r->call);
    if (r->by_executor)
        spn__context_leave(&frame, r->call.self);
}

static bool claim(struct spn__task_future *t, uintptr_t me)
{
    uintptr_t found = FREE;

    /* [runner] claim, then look.  mutant: half of a pair */
    while (!spn__cas(&t->runner, &found, me, seq_cst, relaxed)) {
        if (!is_pinned(found))
            return false;
        await_unpinned(t, found);
        found = FREE;
    }
    return true;
}

enum ran { NOT_RUN, RAN, RAN_AND_PARTED };

/* Takes the context over if it calls the function, which *ran says. */
static int run(struct spn_future *f, bool reset, bool by_executor,
               struct spn_context *context, enum ran *ran)
{
    struct spn_thread *self;
    struct running r; /* not all of it: it has room for a message */

    *ran = NOT_RUN;
    if (f == NULL || f->kind != SPN__TASK)
        return SPN_EINVAL;
    r.t = task_of(f);
    r.by_executor = by_executor;
    r.reset = reset;
    r.kept = r.won = r.parted = false;
    if (spn__phase(spn__load(&f->state, relaxed)) != SPN__NEW) /* a hint */
        return 0;
    self = spn__thread_self();
    if (!claim(r.t, self != NULL ? (uintptr_t)self : UNKNOWN))
        return 0;
    /* [runner] mutant: half of a pair */
    if (spn__phase(spn__load(&f->state, seq_cst)) == SPN__NEW) {
        call_in(&r, context);
        after_call(&r);
        *ran = r.parted ? RAN_AND_PARTED : RAN;
    } else {
        (void)leave(r.t, self);
    }
    return reset ? r.kept : *ran != NOT_RUN;
}

int spn_future_run(spn_future *f)
{
    enum ran ran;

    return run(f, false, false, NULL, &ran);
}

int spn_future_run_and_reset(spn_future *f)
{
    enum ran ran;

    return run(f, true, false, NULL, &ran);
}

/* ---- by an executor --------------------------------------------------------- */

/* The executor is through with it. */
static void leave_executor(struct spn__task_future *t)
{
    if (t->keeper != NULL)
        t->keeper->end(t);
    else
        spn_future_unref(&t->future);
}

static enum ran run_submitted(struct spn__task_future *t)
{
    struct spn_context *context = take_context(t); /* [context] */
    enum ran ran;

    (void)run(&t->future, false, true, context, &ran);
    if (ran == NOT_RUN)
        spn_context_unref(context);
    return ran;
}

bool spn__task_future_run(struct spn__task_future *t)
{
    return run_submitted(t) != NOT_RUN;
}

bool spn__task_future_run_again(struct spn__task_future *t)
{
    struct spn_context *context = take_context(t); /* [context] */
    enum ran ran;
    bool again;

    if (context != NULL) { /* this run's reference, and one for the next */
        (void)spn_context_ref(context);
        /* [context] Back, then look: who completed it meanwhile found none. */
        spn__store(&t->context, context, seq_cst);
        /* [context] mutant: half of a pair */
        if (spn__phase_done(spn__load(&t->future.state, seq_cst)))
            spn__task_future_forget(t);
    }
    again = run(&t->future, true, true, context, &ran) == 1;
    if (ran == NOT_RUN)
        spn_context_unref(context);
    return again;
}

static enum ran run_kept(struct spn__task_future *t)
{
    if (t->bare || t->keeper == NULL || t->keeper->run == NULL)
        return run_submitted(t);
    return t->keeper->run(t) ? RAN : NOT_RUN;
}

int spn__task_future_fn(spn_task *task)
{
    struct spn__task_future *t = spn__list_entry(task, struct spn__task_future, task);
    enum ran ran;

    if (!t->bare && t->keeper != NULL)
        t->keeper->begin(t, true);
    ran = run_kept(t);
    if (ran == NOT_RUN)
        part(t);
    if (ran != RAN_AND_PARTED) /* else the reference is gone */
        leave_executor(t);
    return 0; /* the future keeps a failure */
}

static void drop_task(spn_task *task, int reason)
{
    struct spn__task_future *t = spn__list_entry(task, struct spn__task_future, task);

    if (t->keeper != NULL)
        t->keeper->begin(t, false);
    part(t); /* first: the executor may be gone, and is not told of the outcome */
    if (reason == SPN_ECANCELED || reason == 0)
        (void)spn_future_cancel(&t->future, 0);
    else
        (void)spn_future_complete_error(&t->future, reason, "dropped by the executor");
    spn__task_future_forget(t);
    leave_executor(t);
}

struct spn_future *spn__task_future(spn_task *task)
{
    /* The function says what the task is part of. */
    return task != NULL && task->fn == spn__task_future_fn
               ? &spn__list_entry(task, struct spn__task_future, task)->future
               : NULL;
}

spn_task *spn__future_task(struct spn_future *f)
{
    return &task_of(f)->task;
}

const struct spn_thread *spn__future_runner(struct spn_future *f)
{
    /* relaxed: a hint. */
    const uintptr_t runner = spn__load(&task_of(f)->runner, relaxed);

    return runner > CLOSED && (runner & (PINNED | WANTED)) == 0
               ? (const struct spn_thread *)runner
               : NULL;
}

spn_future *spn_future_of_task(spn_task *task)
{
    return spn__task_future(task);
}

void spn__task_given_back(spn_task *task)
{
    struct spn_future *f = spn__task_future(task);

    if (f == NULL)
        return;
    part(task_of(f));
    if (task_of(f)->keeper != NULL && task_of(f)->keeper->given_back != NULL)
        task_of(f)->keeper->given_back(task_of(f));
    if ((task->flags & SPN_TASK_AWAITED) != 0)
        (void)spn_future_cancel(f, 0);
}

void spn__task_future_belongs(struct spn__task_future *t, spn_executor *executor)
{
    /* relaxed: published with the task. */
    spn__store(&t->executor, executor, relaxed);
}

/* Before it can run there: which executor it is with.  *first: it was with none.
 * False: it waits in one. */
static bool say_where(struct spn__task_future *t, spn_executor *executor, bool *first)
{
    for (;;) {
        spn_executor *found = NULL;

        /* [executor] mutant: as in wait_begin */
        *first = spn__cas(&t->executor, &found, executor, release, relaxed);
        if (*first)
            return true;
        if (t->keeper != NULL && t->keeper->run != NULL)
            return false; /* it comes back to where it is, run after run */
        /* [queued] Who gives it back parts from it first, so if it is not queued any
         * more it is either with nobody now, or running. */
        if (spn__load(spn__task_queued(&t->task), acquire) != 0)
            return false;
        if (spn__load(&t->executor, relaxed) != NULL) /* after it */
            return true;
    }
}

int spn_future_submit(spn_future *f, spn_executor *executor)
{
    struct spn_context *context;
    bool first = false;
    int rc;

    if (f == NULL || executor == NULL || f->kind != SPN__TASK || executor->ops == NULL)
        return SPN_EINVAL;
    if (!say_where(task_of(f), executor, &first))
        return SPN_EBUSY;
    spn__future_ref(f); /* the executor's */
    context = spn__task_future_capture(task_of(f));
    rc = spn_executor_execute(executor, &task_of(f)->task);
    if (rc != SPN_OK) {
        spn__task_future_uncapture(task_of(f), context);
        if (first)
            part(task_of(f));
        spn_future_unref(f);
    }
    return rc;
}

int spn__task_submit(struct spn_future *f, spn_executor *executor, spn_future **out)
{
    struct spn__task_future *t = task_of(f);
    struct spn_context *context;
    bool made_elsewhere = false;
    int rc;

    if (executor->ops == NULL) {
        rc = SPN_EINVAL;
    } else if (spn__executor_has(executor, new_task)) {
        made_elsewhere = true;
        rc = spn_future_submit(f, executor); /* others may know it */
    } else {
        /* relaxed, all: nobody else knows it, and they are published with it. */
        spn__store(&t->executor, executor, relaxed);
        spn__store(&f->state, spn__load(&f->state, relaxed) + SPN__REF, relaxed);
        context = spn__task_future_capture(t);
        rc = spn_executor_execute(executor, &t->task);
        if (rc != SPN_OK) {
            spn__task_future_uncapture(t, context);
            spn_future_unref(f);
        }
    }
    /* One that the executor made may have been cancelled meanwhile, by those who know
     * it: then its owner is told, and it has been. */
    if (rc == SPN_OK ||
        (t->told != NULL && spn__exchange(&t->told_owner, NULL, relaxed) == NULL)) {
        *out = f;
        return SPN_OK;
    }
    if (t->release_arg != free_call)
        t->release_arg = NULL; /* the caller has it still */
    if (!made_elsewhere)
        f->done = NULL; /* nobody has heard of it */
    spn_future_unref(f);
    return rc;
}

int spn_executor_submit(spn_executor *executor, spn_call_fn fn, void *arg,
                        spn_future **out)
{
    spn_future *f;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (executor == NULL)
        return SPN_EINVAL;
    rc = spn__task_create(executor, &f, fn, arg, NULL);
    return rc == SPN_OK ? spn__task_submit(f, executor, out) : rc;
}

int spn_executor_submit_with(spn_executor *executor, spn_call_fn fn, void *arg,
                             const spn_future_opts *opts, spn_future **out)
{
    spn_future_opts o = SPN_FUTURE_OPTS_INIT;
    spn_future *f;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (executor == NULL)
        return SPN_EINVAL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    o.size = sizeof o;
    rc = spn__task_create(executor, &f, fn, arg, &o);
    return rc == SPN_OK ? spn__task_submit(f, executor, out) : rc;
}

int spn_executor_submit_run(spn_executor *executor, spn_run_fn fn, void *arg,
                            void *value, spn_future **out)
{
    spn_future *f;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (executor == NULL)
        return SPN_EINVAL;
    rc = spn__task_create_run(executor, &f, fn, arg, value);
    return rc == SPN_OK ? spn__task_submit(f, executor, out) : rc;
}
