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
 *
 * THE LATE INTERRUPT
 *   cancel goes to INTERRUPTING, reads `runner`, interrupts it and goes to
 *   INTERRUPTED.  A runner that finds INTERRUPTING when its function has returned
 *   waits for INTERRUPTED before it leaves; so the interrupt reaches it inside
 *   run, and the record it is sent to is still this thread's.
 *
 * ORDERING
 *   [runner] Two changes and two looks, all seq_cst, of which one must see the
 *            other: the runner claims or frees `runner` and then looks at the
 *            state; whoever completes changes the state and then looks at `runner`.
 *            So a function does not start unseen by a cancel that is to interrupt
 *            it; a runner that leaves without seeing INTERRUPTING is not seen by
 *            cancel; and arg is given back by one of the two.
 *   [done]   see core.c.
 */
#include "future/core.h"
#include "future/wait.h"

#include "base/assert.h"
#include "base/options.h"
#include "sync/interrupt.h"

#define FREE    ((uintptr_t)0)
#define UNKNOWN ((uintptr_t)1)
#define CLOSED  ((uintptr_t)2)

struct task_future {
    struct spn_future future; /* first: they are the same object */
    spn_call_fn fn;           /* fixed */
    void *arg;                /* fixed */
    void (*release_arg)(void *arg);
    SPN__ATOMIC(uintptr_t) runner; /* see above */
    spn_task task;                 /* the executor's while submitted */
};

static struct task_future *task_of(struct spn_future *f)
{
    spn__debug_assert(f->kind == SPN__TASK);
    return (struct task_future *)(void *)f;
}

static int run_task(spn_task *task);
static void drop_task(spn_task *task, int reason);

int spn_future_create_task(spn_future **out, spn_call_fn fn, void *arg,
                           const spn_future_opts *opts)
{
    spn_future_opts o = SPN_FUTURE_OPTS_INIT;
    struct task_future *t;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (fn == NULL)
        return SPN_EINVAL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    t = spn__block_get(sizeof *t);
    if (t == NULL)
        return SPN_ENOMEM;
    spn__future_init(&t->future, SPN__TASK, &o);
    t->fn = fn;
    t->arg = arg;
    t->release_arg = o.release_arg;
    spn__init(&t->runner, FREE);
    t->task = (spn_task)SPN_TASK_INIT(run_task, drop_task);
    *out = &t->future;
    return SPN_OK;
}

/* ---- those who complete it -------------------------------------------------- */

void spn__task_interrupt(struct spn_future *f)
{
    /* [runner] after INTERRUPTING.  mutant: half of a pair */
    const uintptr_t runner = spn__load(&task_of(f)->runner, seq_cst);

    if (runner != FREE && runner != UNKNOWN && runner != CLOSED)
        spn__interrupt_set((struct spn_thread *)runner);
}

/* The future is done: gives arg back, unless somebody runs it and will. */
void spn__task_done(struct spn_future *f)
{
    struct task_future *t = task_of(f);
    uintptr_t found = FREE;

    if (t->release_arg == NULL)
        return;
    /* [runner] after the change of the state.  mutant: half of a pair */
    if (spn__cas(&t->runner, &found, CLOSED, seq_cst, relaxed))
        spn__call_pointer(t->release_arg, t->arg);
}

/* ---- the runner ----------------------------------------------------------- */

/* One call of the function, as its cleanup sees it. */
struct running {
    struct task_future *t;
    struct spn__call call;
    bool reset; /* success leaves the future as it is */
    bool kept;  /* it did */
};

/* Completes the future with what the function returned, if nobody was faster. */
static void keep_outcome(struct running *r, struct spn__work *work)
{
    struct spn_future *f = &r->t->future;

    if (r->call.code == 0 && r->reset) {
        r->kept = true;
        spn__future_drop_late(f, r->call.result);
    } else if (!spn__future_claim(f)) {
        spn__future_drop_late(f, r->call.result);
    } else if (r->call.code == 0) {
        f->value = r->call.result;
        spn__future_finish(f, SPN__NORMAL, work);
    } else {
        spn__future_write_error(f, r->call.code, spn__call_message(&r->call), false);
        spn__future_finish(f, SPN__EXCEPTIONAL, work);
    }
}

/* The runner leaves; true if the future can be run again. */
static bool leave(struct task_future *t, struct spn_thread *self)
{
    uint32_t state;

    /* [runner] leave, then look.  mutant: half of a pair */
    (void)spn__exchange(&t->runner, FREE, seq_cst);
    state = spn__load(&t->future.state, seq_cst); /* mutant: half of a pair */
    if (spn__phase(state) == SPN__NEW)
        return true;
    if (spn__phase(state) == SPN__INTERRUPTING && self != NULL)
        spn__future_await_phase(&t->future, SPN__INTERRUPTED, self);
    if (spn__phase(state) != SPN__COMPLETING)
        spn__task_done(&t->future);
    return false;
}

/* Follows the function, also when it ended its thread. */
static void after_call(void *p)
{
    struct running *r = p;
    struct spn__work work = SPN__WORK_INIT;

    spn__call_leave(&r->call);
    keep_outcome(r, &work);
    r->kept = leave(r->t, r->call.self) && r->kept;
    spn__work_drain(&work);
}

static void call_fn(void *p)
{
    struct running *r = p;

    r->call.code = r->t->fn(r->t->arg, &r->call.result);
}

static int run(struct spn_future *f, bool reset)
{
    struct running r = { .reset = reset };
    struct spn_thread *self;
    uintptr_t found = FREE, me;
    bool called = false;

    if (f == NULL || f->kind != SPN__TASK)
        return SPN_EINVAL;
    r.t = task_of(f);
    if (spn__phase(spn__load(&f->state, relaxed)) != SPN__NEW) /* a hint */
        return 0;
    self = spn__thread_self();
    me = self != NULL ? (uintptr_t)self : UNKNOWN;
    /* [runner] claim, then look.  mutant: half of a pair */
    if (!spn__cas(&r.t->runner, &found, me, seq_cst, relaxed))
        return 0;
    /* [runner] mutant: half of a pair */
    if (spn__phase(spn__load(&f->state, seq_cst)) == SPN__NEW) {
        called = true;
        spn__call_enter(&r.call);
        SPN__CLEANUP_PUSH(after_call, &r);
        spn__guarded(call_fn, &r);
        r.call.returned = true;
        SPN__CLEANUP_POP();
    } else {
        (void)leave(r.t, self);
    }
    return reset ? r.kept : called;
}

int spn_future_run(spn_future *f)
{
    return run(f, false);
}

int spn_future_run_and_reset(spn_future *f)
{
    return run(f, true);
}

/* ---- by an executor --------------------------------------------------------- */

static void drop_reference(void *f)
{
    spn_future_unref(f);
}

static int run_task(spn_task *task)
{
    struct task_future *t = spn__list_entry(task, struct task_future, task);

    SPN__CLEANUP_PUSH(drop_reference, &t->future);
    (void)run(&t->future, false);
    SPN__CLEANUP_POP();
    return 0; /* the future keeps a failure */
}

static void drop_task(spn_task *task, int reason)
{
    struct task_future *t = spn__list_entry(task, struct task_future, task);

    if (reason == SPN_ECANCELED || reason == 0)
        (void)spn_future_cancel(&t->future, 0);
    else
        (void)spn_future_complete_error(&t->future, reason, "dropped by the executor");
    spn_future_unref(&t->future);
}

int spn_future_submit(spn_future *f, spn_executor *executor)
{
    int rc;

    if (f == NULL || executor == NULL || f->kind != SPN__TASK)
        return SPN_EINVAL;
    spn__future_ref(f); /* the executor's */
    rc = spn_executor_execute(executor, &task_of(f)->task);
    if (rc != SPN_OK)
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
    rc = spn_future_create_task(&f, fn, arg, NULL);
    if (rc != SPN_OK)
        return rc;
    rc = spn_future_submit(f, executor);
    if (rc == SPN_OK)
        *out = f;
    else
        spn_future_unref(f);
    return rc;
}
