/* SPDX-License-Identifier: MIT */
/*
 * stage.c - how stages get ready, run and let go of their sources.
 *
 * OVERVIEW
 *   A stage is one allocation: the promise, its function, the task it is for an
 *   executor and the edges from its sources.  An edge is on its source's list.  When
 *   the source is done its completer takes the whole list and fires each edge; a
 *   stage that is ready goes to the completer's work list.  Running a stage completes
 *   it, which fires its own edges into the same list: a chain of any length is a
 *   loop, and nothing is allocated.
 *
 *   The work list is on the stack of the outermost call.  A user's function that
 *   completes a future by hand has a list of its own: when its call returns, the
 *   stages have run, as the function may expect.
 *
 *   An executor may run the task right inside execute (the direct one; a pool whose
 *   caller runs what does not fit).  The chain would then be a recursion, so the
 *   thread notes which task it is handing over, and that task, found running in the
 *   same thread, goes back to the work list.
 *
 * REFERENCES
 *   An edge refers to its stage from connect until it has fired and the stage has
 *   run, or until it is taken off; so a stage runs though nobody else wants it.  It
 *   holds its source (core.c) as long as `source` is not NULL.
 *
 * TAKING OFF
 *   A stage that is done before a source (completed by hand, cancelled, or the
 *   other side of an either) leaves that source's list, so that a source that lives
 *   long does not collect them.
 *   [edge] `source` is set when the edge is on the list and exchanged for NULL by
 *          whoever lets go of it: the stage, or the source's completer.  The stage
 *          then takes the source's lock and finds its edge on the list or taken.
 *          A stage may be done while edges are still being connected: connect sets
 *          `source` and then looks at the stage's state, the completer changes the
 *          state and then looks at `source`; seq_cst, so that one sees the other.
 *   [ready] the sources count `waiting` down, acq_rel: the last one sees the inputs
 *          of all.  For either and any_of the first one takes it from 1 to 0.
 *   [context] as in task.c: who is to call the function takes the context and then
 *          looks at the state; who completes the stage otherwise changes the state and
 *          takes it then, with a release.  So the function is not called without it.
 *   [executor] who takes the executor detaches from it, once.  Whoever completes the stage
 *          takes it before the step to a final phase, so that an executor can be destroyed as
 *          soon as the stages that wait for it are seen to be done.  Who is to hand the task
 *          over and finds it taken leaves the stage to the one that completes it.
 *   [done] see core.c.
 */
#include "future/stage.h"
#include "future/wait.h"

#include "base/assert.h"
#include "future/executor.h"

/* A task this thread is just giving to an executor. */
struct spn__hand_over {
    struct spn__hand_over *outer;
    struct spn__work *work;
    spn_task *task;
};

static struct spn__stage *stage_of(struct spn_future *f)
{
    spn__debug_assert(f->kind == SPN__STAGE);
    return (struct spn__stage *)(void *)f;
}

/* ---- edges ---------------------------------------------------------------- */

bool spn__edge_add(struct spn__edge *edge, struct spn_future *source)
{
    bool added;

    if (spn__future_done(source))
        return false;
    spn__lock(&source->lock);
    added = spn__future_attend(source, SPN__NORMAL);
    if (added) {
        /* relaxed: the caller has a reference, so there is a hold. */
        (void)spn__fetch_add(&source->holds, 1, relaxed);
        spn__list_push_back(&source->edges, &edge->link);
        source->edge_count++;
        /* [edge] mutant: half of a pair */
        spn__store(&edge->source, source, seq_cst);
    }
    spn__unlock(&source->lock);
    return added;
}

bool spn__edge_remove(struct spn__edge *edge)
{
    struct spn_future *source;
    bool removed;

    /* [edge] after the change of the stage's state.  Mostly there is none, and a
     * look is cheaper than an exchange.  mutant: half of a pair */
    if (spn__load(&edge->source, seq_cst) == NULL)
        return false;
    /* relaxed: decides who lets go; the look has seen the source's making. */
    source = spn__exchange(&edge->source, NULL, relaxed);
    if (source == NULL)
        return false;
    spn__lock(&source->lock);
    removed = !source->taken;
    if (removed) {
        spn__list_remove(&edge->link);
        source->edge_count--;
    }
    spn__unlock(&source->lock);
    spn__future_release_hold(source);
    return removed;
}

/* [context] acquire: that the stage is done, if another took it. */
static struct spn_context *take_context(struct spn__stage *s)
{
    if (spn__load(&s->context, acquire) == NULL) /* [context] */
        return NULL;
    return spn__exchange(&s->context, NULL, acq_rel); /* [context] */
}

/* [executor] NULL: another has taken it, or it never had one. */
static spn_executor *take_executor(struct spn__stage *s)
{
    /* relaxed, both: the executor was there before the stage, and [attached] in its
     * destroy orders the rest. */
    if (spn__load(&s->executor, relaxed) == NULL)
        return NULL;
    return spn__exchange(&s->executor, NULL, relaxed);
}

static void detach_from(spn_executor *executor)
{
    if (executor != NULL && executor->ops != NULL &&
        spn__executor_has(executor, detach))
        executor->ops->detach(executor);
}

void spn__stage_leave_executor(struct spn_future *f)
{
    detach_from(take_executor(stage_of(f)));
}

void spn__stage_detach(struct spn_future *f, struct spn__work *work)
{
    struct spn__stage *s = stage_of(f);

    spn_context_unref(take_context(s));
    for (size_t i = 0; i < s->edge_count; i++)
        if (spn__edge_remove(&s->edges[i]))
            spn__future_unref(f, work); /* the edge's; the caller has one */
}

struct spn_future *spn__stage_take_input(struct spn_future *f)
{
    struct spn__stage *s = stage_of(f);

    /* relaxed: as its last user. */
    for (int i = 0; i < 2; i++) {
        struct spn_future *source = spn__load(&s->inputs[i], relaxed);

        if (source != NULL)
            return source;
    }
    return NULL;
}

/* ---- getting ready ---------------------------------------------------------- */

static void push(struct spn__work *work, struct spn__stage *s)
{
    s->next = NULL;
    if (work->last != NULL)
        work->last->next = s;
    else
        work->first = s;
    work->last = s;
}

static struct spn__stage *pop(struct spn__work *work)
{
    struct spn__stage *s = work->first;

    if (s != NULL) {
        work->first = s->next;
        if (work->first == NULL)
            work->last = NULL;
    }
    return s;
}

static void keep_input(struct spn__stage *s, int index, struct spn_future *source)
{
    /* relaxed: published by [ready], by the work list's owner or the executor. */
    spn__store(&s->inputs[index], spn__future_ref(source), relaxed);
}

static bool fails(const struct spn_future *f)
{
    return spn__future_status(f) != SPN_OK;
}

/* One source of one stage is done.  The edge's reference goes to the work list, or
 * is dropped if the stage is not ready by this. */
static void fire(struct spn__edge *edge, struct spn_future *source,
                 struct spn__work *work)
{
    struct spn__stage *s = edge->owner;
    struct spn_future *none = NULL;
    uint32_t one = 1;
    bool ready;

    switch (s->op) {
    case SPN__EITHER:
    case SPN__ANY_OF:
        /* [ready] relaxed: the first source decides alone. */
        ready = spn__cas(&s->waiting, &one, 0, relaxed, relaxed);
        if (ready)
            keep_input(s, 0, source);
        break;
    case SPN__ALL_OF:
        /* relaxed: [ready] publishes it. */
        if (fails(source) && spn__cas(&s->inputs[0], &none, source, relaxed, relaxed))
            (void)spn__future_ref(source);
        ready = spn__fetch_sub(&s->waiting, 1, acq_rel) == 1; /* [ready] */
        break;
    case SPN__COMBINE:
        keep_input(s, edge == &s->edges[1], source);
        ready = spn__fetch_sub(&s->waiting, 1, acq_rel) == 1; /* [ready] */
        break;
    default:
        keep_input(s, 0, source);
        ready = true;
        break;
    }
    if (ready)
        push(work, s);
    else
        spn__future_unref(&s->future, work);
}

void spn__stage_connect(struct spn__stage *s, size_t index, struct spn_future *source,
                        struct spn__work *work)
{
    struct spn__edge *edge = &s->edges[index];

    (void)spn__future_ref(&s->future); /* the edge's */
    if (!spn__edge_add(edge, source))
        edge->fire(edge, source, work);
}

/* ---- running ---------------------------------------------------------------- */

static struct spn_future *input(const struct spn__stage *s, int index)
{
    return spn__load(&s->inputs[index], relaxed); /* as keep_input */
}

/* Whether the function is to be called, or the outcome just passes through. */
static bool wants_call(const struct spn__stage *s)
{
    if (s->refused != 0 || s->mirroring)
        return false;
    switch (s->op) {
    case SPN__HANDLE:
        return true;
    case SPN__COMBINE:
        return !fails(input(s, 0)) && !fails(input(s, 1));
    case SPN__THEN:
    case SPN__COMPOSE:
    case SPN__EITHER:
        return !fails(input(s, 0));
    default:
        return false;
    }
}

/* One stage as it runs. */
struct running {
    struct spn__stage *s;
    struct spn__call call;
    spn_future *next; /* what compose's function returned */
};

static int with_inputs(struct running *r)
{
    struct spn__stage *s = r->s;
    struct spn_future *source = input(s, 0);
    spn_outcome outcome;

    switch (s->op) {
    case SPN__THEN:
    case SPN__EITHER:
        return s->fn.then(s->arg, spn__future_read_value(source), &r->call.result);
    case SPN__COMBINE:
        return s->fn.combine(s->arg, spn__future_read_value(source),
                             spn__future_read_value(input(s, 1)), &r->call.result);
    case SPN__COMPOSE:
        return s->fn.compose(s->arg, spn__future_read_value(source), &r->next);
    default:
        spn__future_outcome(source, &outcome);
        return s->fn.handle(s->arg, &outcome, &r->call.result);
    }
}

static void call_function(void *p)
{
    struct running *r = p;

    r->call.code = with_inputs(r);
}

static void complete_error(struct spn__stage *s, int code, const char *message,
                           struct spn__work *work)
{
    if (!spn__future_claim(&s->future))
        return;
    spn__future_write_error(&s->future, code, message, true);
    spn__future_finish(&s->future, SPN__EXCEPTIONAL, work);
}

static void complete_value(struct spn__stage *s, void *value, struct spn__work *work)
{
    if (!spn__future_claim(&s->future)) {
        spn__future_drop_late(&s->future, value);
        return;
    }
    s->future.value = value;
    spn__future_finish(&s->future, SPN__NORMAL, work);
}

static void complete_mirror(struct spn__stage *s, struct spn_future *source,
                            struct spn__work *work)
{
    if (spn__future_claim(&s->future))
        spn__future_finish(&s->future, spn__future_write_mirror(&s->future, source),
                           work);
}

static void drop_inputs(struct spn__stage *s, struct spn__work *work)
{
    for (int i = 0; i < 2; i++) {
        struct spn_future *source = input(s, i);

        /* relaxed: the stage is only ours now. */
        spn__store(&s->inputs[i], NULL, relaxed);
        if (source != NULL)
            spn__future_unref(source, work);
    }
}

/* The function of a compose returned `next`: the stage waits for it.  True if so;
 * then another thread may run it already. */
static bool follow(struct spn__stage *s, spn_future *next, struct spn__work *work)
{
    const bool itself = next == &s->future;

    if (next == NULL) {
        complete_error(s, SPN_EINVAL, "compose: no future was returned", work);
        return false;
    }
    if (itself) {
        complete_error(s, SPN_EDEADLK, "compose: the stage would wait for itself",
                       work);
    } else {
        drop_inputs(s, work);
        s->mirroring = true;
        spn__stage_connect(s, 1, next, work);
        /* [edge] completed by hand, meanwhile?  mutant: half of a pair */
        if (spn__phase_done(spn__load(&s->future.state, seq_cst)))
            spn__stage_detach(&s->future, work);
    }
    spn__future_unref(next, work);
    return !itself;
}

/* What a stage becomes without its function. */
static void pass_through(struct spn__stage *s, struct spn__work *work)
{
    struct spn_future *source = input(s, 0);

    if (s->refused != 0)
        complete_error(s, s->refused, "refused by the executor", work);
    else if (s->op == SPN__COMBINE && !fails(source))
        complete_mirror(s, input(s, 1), work);
    else if (s->op == SPN__ALL_OF && source == NULL)
        complete_value(s, NULL, work);
    else
        complete_mirror(s, source, work);
}

/* The function has ended its thread, a worker's, which had the stage as a task. */
static void call_ended(void *of, void *context)
{
    struct spn__work work = SPN__WORK_INIT;
    struct spn__stage *s = of;
    struct spn__call call;

    spn_context_unref(context);
    spn__call_ended(&call);
    complete_error(s, call.code, spn__call_message(&call), &work);
    drop_inputs(s, &work);
    spn__future_unref(&s->future, &work);
    spn__work_drain(&work);
}

/* Calls the function and completes the stage; false if it waits for more. */
static bool call(struct spn__stage *s, struct spn_context *context,
                 struct spn__work *work)
{
    struct running r = { .s = s };
    struct spn__context_frame frame;

    spn__call_enter(&r.call);
    spn__context_enter(&frame, r.call.self, context);
    spn__task_entered(r.call.self, call_ended, s, context);
    spn__guarded(call_function, &r);
    spn__task_left(r.call.self);
    spn__call_leave(&r.call);
    spn__context_leave(&frame, r.call.self);
    if (r.call.code != 0)
        complete_error(s, r.call.code, spn__call_message(&r.call), work);
    else if (s->op == SPN__COMPOSE)
        return !follow(s, r.next, work);
    else
        complete_value(s, r.call.result, work);
    return true;
}

/* Runs a stage that is ready, and drops the reference it came with. */
static void perform(struct spn__stage *s, struct spn__work *work)
{
    struct spn_context *context = take_context(s); /* [context] take, then look */
    bool through = true;

    if (!spn__future_done(&s->future) && wants_call(s)) {
        through = call(s, context, work);
    } else {
        if (!spn__future_done(&s->future))
            pass_through(s, work);
        spn_context_unref(context);
    }
    if (through)
        drop_inputs(s, work);
    spn__future_unref(&s->future, work);
}

/* ---- executors -------------------------------------------------------------- */

/* Back to the work list if this very task is being handed over by this thread. */
static void run_here(struct spn__stage *s)
{
    struct spn__work work = SPN__WORK_INIT;
    struct spn_thread *self = spn__self_get();

    if (self != NULL && self->hand_over != NULL && self->hand_over->task == &s->task) {
        push(self->hand_over->work, s);
        return;
    }
    perform(s, &work);
    spn__work_drain(&work);
}

static int run_task(spn_task *task)
{
    run_here(spn__list_entry(task, struct spn__stage, task));
    return 0; /* the stage keeps a failure */
}

static void drop_task(spn_task *task, int reason)
{
    struct spn__stage *s = spn__list_entry(task, struct spn__stage, task);

    s->refused = reason != 0 ? reason : SPN_ECANCELED;
    run_here(s);
}

/* The stage is not ours after this, unless it was refused.  It may run, and whoever waits
 * for it destroy the executor, before execute has returned: so that is held. */
static int hand_over(struct spn__stage *s, spn_executor *executor,
                     struct spn__work *work)
{
    struct spn__hand_over mine = { NULL, work, &s->task };
    struct spn_thread *self = spn__thread_self();
    bool held = false;
    int rc;

    if (self != NULL) {
        mine.outer = self->hand_over;
        self->hand_over = &mine;
    }
    if (executor->ops != NULL && spn__executor_has(executor, release) &&
        (self == NULL || !spn__thread_is_inside(self, executor))) {
        held = true;
        executor->ops->hold(executor);
    }
    detach_from(executor);
    rc = spn_executor_execute(executor, &s->task);
    if (self != NULL)
        self->hand_over = mine.outer;
    if (held)
        executor->ops->release(executor);
    return rc;
}

void spn__work_run(struct spn__work *work)
{
    struct spn__stage *s;

    while ((s = pop(work)) != NULL) {
        if (s->async && wants_call(s)) {
            spn_executor *executor = take_executor(s);
            int rc;

            s->async = false;
            if (executor == NULL) { /* [executor] done, or about to be */
                drop_inputs(s, work);
                spn__future_unref(&s->future, work);
                continue;
            }
            rc = hand_over(s, executor, work);
            if (rc == SPN_OK)
                continue;
            s->refused = rc;
        }
        perform(s, work);
    }
}

/* ---- making ----------------------------------------------------------------- */

struct spn__stage *spn__stage_create(enum spn__stage_op op, size_t edges,
                                     spn_executor *executor, union spn__stage_fn fn,
                                     void *arg)
{
    struct spn__stage *s;

    spn__assert(edges <= SPN__STAGE_EDGES_MAX);
    s = spn__block_get(sizeof *s + edges * sizeof s->edges[0]);
    if (s == NULL)
        return NULL;
    spn__future_init(&s->future, SPN__STAGE, NULL);
    s->op = (uint8_t)op;
    s->mirroring = false;
    s->refused = 0;
    spn__init(&s->waiting, 1);
    s->async = executor != NULL;
    spn__init(&s->executor, executor);
    if (executor != NULL && executor->ops != NULL &&
        spn__executor_has(executor, detach))
        executor->ops->attach(executor);
    s->fn = fn;
    s->arg = arg;
    spn__init(&s->context, spn__context_capture());
    spn__init(&s->inputs[0], NULL);
    spn__init(&s->inputs[1], NULL);
    s->next = NULL;
    s->task = (spn_task)SPN_TASK_INIT(run_task, drop_task);
    s->edge_count = edges;
    for (size_t i = 0; i < edges; i++) {
        spn__list_node_init(&s->edges[i].link);
        spn__init(&s->edges[i].source, NULL);
        s->edges[i].fire = fire;
        s->edges[i].owner = s;
    }
    return s;
}
