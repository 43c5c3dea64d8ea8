/* SPDX-License-Identifier: MIT */
/*
 * group.c - tasks that belong together.
 *
 * OVERVIEW
 *   A task of a group is a task future (future/task.c) with a few fields behind it, in
 *   one allocation: the future knows how a function is called, cancelled and
 *   failed; the group is its keeper and counts.  A future may be done long before its
 *   function returns, so the group does not look at futures: a task is live until
 *   whoever has its node, the executor as a rule, is through with it.
 *
 *   Being cancelled is the token's business: the group has a callback on it that
 *   cancels the futures.  A group in a group has a token in the parent's token, so the
 *   token finds the groups, and counting goes up the other way, task by task.
 *
 * TAKING BACK  `phase` of a task
 *   When a future is done before its task was started, the task is taken back from the
 *   executor.  That may race with the executor starting it, and then with the end of
 *   the group and of the executor: so whoever takes back says so first (REMOVER), and
 *   a task that ends meanwhile is left to it to settle.  While REMOVER is set the task
 *   is live, and the group and the executor are there.
 *
 *   0 -> SUBMITTED                             the executor has it, or had it
 *     -> SUBMITTED|REMOVER -> settled          taken back
 *     -> SUBMITTED|REMOVER -> SUBMITTED        it was gone: it is about to start
 *   any -> with STARTED, then with ENDED       run, dropped or refused: whoever adds ENDED
 *                                              settles it, unless there is a REMOVER
 *
 * INTERRUPTING
 *   `runner` is the thread that runs the task, under the lock, from before the
 *   function until after it: an interrupt is sent with the lock held and so is never
 *   late.  The future's own way to interrupt is not used by the group, because it has
 *   one chance only, and a group can be asked first gently and then again.
 *
 * ORDERING
 *   [phase] who ends and who takes back add and clear their bits with acq_rel: who
 *           settles has all that the other did before, its use of the executor too.
 *   [submitted] a future may be done while its task is still on the way to the
 *           executor, when there is nothing to take back yet.  Submit says SUBMITTED and
 *           then looks at the future's state; who completes the future changes the state
 *           and then looks for SUBMITTED.  All seq_cst: one of them takes it back.
 *           C11 wants all four so: a weaker one has no place in their one order, and
 *           both looks may miss.  The explorer takes a seq_cst access for a fence and
 *           the access (future/core.c), and one of the two on a side is enough for it:
 *           each survives alone, while with both of a side weaker a task is left over
 *           in group__submit_races_cancel__nothing_is_left, within some schedules.
 *
 * LOCKS  one lock for a whole tree of groups, in its root, which outlives the others:
 *   a task counts in each group above it, and a waiter on any of them must not see a
 *   moment between.  It guards what the structs say; the parkers of interrupted threads
 *   lie below it; nothing of the user's is called with it held.
 */
#include <spindle/group.h>

#include <string.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/options.h"
#include "base/time.h"
#include "future/executor.h"
#include "future/task.h"
#include "sync/blocks.h"
#include "sync/interrupt.h"

struct spn_group {
    /* Fixed. */
    struct spn_group *root, *parent;
    spn_cancel_token *token; /* a reference */
    bool cancel_on_error, interrupt;
    spn_cancel_callback callback; /* on token */

    struct spn__lock lock; /* the root's guards the rest in all */
    struct spn__list members;
    struct spn__list children;
    struct spn__list_node sibling; /* in the parent's children */
    struct spn__waitq waiters;
    int64_t live, succeeded, failed, cancelled;
    bool erred; /* error and message are set; final */
    int error;
    char message[SPN_FUTURE_MESSAGE_MAX];
};

enum { SUBMITTED = 1, REMOVER = 2, STARTED = 4, ENDED = 8 };

/* A task of a group that a thread is running; the innermost is in its record. */
struct spn__group_frame {
    struct spn_group *group;
    struct spn__group_frame *outer;
};

struct member {
    struct spn__task_future t; /* first: it is freed as a future */
    /* Fixed. */
    struct spn_group *group;
    spn_executor *executor;

    SPN__ATOMIC(uint32_t) phase; /* see above */
    bool refused;                /* published by [phase] */
    /* The runner's. */
    struct spn_thread *self; /* NULL: a thread without a record */
    struct spn__group_frame frame;
    /* Guarded by the lock. */
    struct spn__list_node link; /* in group->members while live */
    struct spn_thread *runner;
    bool swept; /* somebody is going to cancel it */
    /* The sweeper's. */
    struct member *next_swept;
};

static struct member *member_of(struct spn__task_future *t)
{
    return (struct member *)(void *)t;
}

/* ---- the end of a task ------------------------------------------------------------- */

/* The first failure, in each group above; the task is still live. */
static void keep_error(struct member *m)
{
    spn_outcome outcome;

    spn__future_outcome(&m->t.future, &outcome);
    for (struct spn_group *g = m->group; g != NULL; g = g->parent) {
        bool first;

        spn__lock(&g->root->lock);
        first = !g->erred;
        if (first) {
            g->erred = true;
            g->error = outcome.code;
            spn__message_copy(g->message, sizeof g->message, outcome.message);
        }
        spn__unlock(&g->root->lock);
        if (first && g->cancel_on_error)
            (void)spn_cancel_token_cancel(g->token, SPN_EFAILED);
    }
}

/* The task is not live any more.  Its group may be gone when this returns. */
static void settle(struct member *m, int state)
{
    struct spn__chosen chosen = { NULL, NULL };
    struct spn_group *root = m->group->root;

    spn__lock(&root->lock);
    spn__list_remove(&m->link);
    for (struct spn_group *g = m->group; g != NULL; g = g->parent) {
        g->live--;
        if (!m->refused) {
            g->succeeded += state == SPN_FUTURE_SUCCEEDED;
            g->failed += state == SPN_FUTURE_FAILED;
            g->cancelled += state == SPN_FUTURE_CANCELED;
        }
        if (g->live == 0)
            spn__waitq_choose_all(&g->waiters, &chosen);
    }
    spn__unlock(&root->lock);
    spn__chosen_grant(&chosen);
}

static void finish(struct member *m)
{
    const int state = spn_future_get_state(&m->t.future);

    spn__debug_assert(m->refused || state != SPN_FUTURE_PENDING);
    if (state == SPN_FUTURE_FAILED && !m->refused)
        keep_error(m);
    settle(m, state);
    if (!m->refused)
        spn_future_unref(&m->t.future); /* the executor's */
}

/* Whoever has the node is through with it. */
static void end(struct member *m)
{
    /* [phase] */
    if ((spn__fetch_or(&m->phase, STARTED | ENDED, acq_rel) & REMOVER) == 0)
        finish(m);
}

/* The future is done: if the task has not started, nobody needs it any more. */
static void take_back(struct member *m)
{
    uint32_t found = SUBMITTED;

    /* [phase]; [submitted] the look, where it fails; it misses nothing where it does not,
     * but C11 wants success no weaker.  mutant: half of a pair, see [submitted] */
    if (!spn__cas(&m->phase, &found, SUBMITTED | REMOVER, seq_cst, seq_cst))
        return;
    if (spn_executor_remove(m->executor, &m->t.task) == 1 ||
        /* [phase] acquire: what the other did since it had the lock */
        (spn__fetch_and(&m->phase, ~(uint32_t)REMOVER, acq_rel) & ENDED) != 0)
        finish(m);
}

/* Hook of the future, on whichever thread completed it. */
static void on_done(spn_future *future, void *arg)
{
    (void)future;
    take_back(arg);
}

/* ---- as keeper of the future ----------------------------------------------------------- */

static void set_runner(struct member *m, struct spn_thread *runner)
{
    spn__lock(&m->group->root->lock);
    m->runner = runner;
    spn__unlock(&m->group->root->lock);
}

static void member_begin(struct spn__task_future *t, bool runs)
{
    struct member *m = member_of(t);

    /* relaxed: keeps others from taking it back; ENDED does the ordering. */
    (void)spn__fetch_or(&m->phase, STARTED, relaxed);
    /* The canceller may not have come to this one yet. */
    if (spn_cancel_token_is_cancelled(m->group->token))
        (void)spn_future_cancel(&t->future, 0);
    m->self = runs ? spn__thread_self() : NULL;
    if (m->self != NULL) {
        m->frame.group = m->group;
        m->frame.outer = m->self->groups;
        m->self->groups = &m->frame;
        set_runner(m, m->self);
    }
}

static void member_end(struct spn__task_future *t)
{
    struct member *m = member_of(t);

    if (m->self != NULL) {
        set_runner(m, NULL);
        m->self->groups = m->frame.outer;
    }
    end(m);
}

static const struct spn__task_keeper keeper = { .begin = member_begin,
                                                .end = member_end };

/* ---- submitting ------------------------------------------------------------------------ */

static struct member *make(struct spn_group *g, spn_executor *executor, spn_call_fn fn,
                           void *arg)
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    struct member *m = spn__block_get(sizeof *m);

    if (m == NULL)
        return NULL;
    opts.done = on_done;
    opts.done_arg = m;
    spn__task_future_init(&m->t, fn, arg, &opts, &keeper);
    m->group = g;
    m->executor = executor;
    spn__init(&m->phase, 0);
    m->refused = false;
    m->self = NULL;
    spn__list_node_init(&m->link);
    m->runner = NULL;
    m->swept = false;
    m->next_swept = NULL;
    return m;
}

/* Counts it in, unless the group is cancelled: a canceller that we do not see here
 * comes to the lock after us and sees the task. */
static bool join(struct spn_group *group, struct member *m)
{
    bool joined;

    spn__lock(&group->root->lock);
    joined = !spn_cancel_token_is_cancelled(group->token);
    if (joined) {
        spn__list_push_back(&group->members, &m->link);
        for (struct spn_group *g = group; g != NULL; g = g->parent)
            g->live++;
    }
    spn__unlock(&group->root->lock);
    return joined;
}

int spn_group_submit(spn_group *g, spn_executor *executor, spn_call_fn fn, void *arg,
                     spn_future **out)
{
    struct member *m;
    int rc;

    if (out != NULL)
        *out = NULL;
    if (g == NULL || executor == NULL || fn == NULL)
        return SPN_EINVAL;
    m = make(g, executor, fn, arg);
    if (m == NULL)
        return SPN_ENOMEM;
    if (!join(g, m)) {
        spn__audit_gone(&m->t.future);
        spn__block_put(m); /* nobody has seen it: its hook is not wanted */
        return SPN_ECANCELED;
    }
    rc = spn_future_submit(&m->t.future, executor);
    if (rc != SPN_OK) {
        m->refused = true;
        end(m);
    } else {
        /* [submitted] the change.  mutant: half of a pair, see there */
        (void)spn__fetch_or(&m->phase, SUBMITTED, seq_cst);
        /* [submitted] the look.  mutant: half of a pair, see there */
        if (spn__phase_done(spn__load(&m->t.future.state, seq_cst)))
            take_back(m);
    }
    if (rc == SPN_OK && out != NULL)
        *out = &m->t.future;
    else
        spn_future_unref(&m->t.future);
    return rc;
}

/* ---- cancelling -------------------------------------------------------------------------- */

/* Cancels the futures of a group's tasks. */
static void sweep(struct spn_group *g)
{
    struct member *first = NULL, **last = &first, *m;
    struct spn__list_node *node;

    spn__lock(&g->root->lock);
    spn__list_each (node, &g->members) {
        m = spn__list_entry(node, struct member, link);
        if (m->swept)
            continue;
        m->swept = true;
        (void)spn__future_ref(&m->t.future);
        m->next_swept = NULL;
        *last = m;
        last = &m->next_swept;
    }
    spn__unlock(&g->root->lock);
    while ((m = first) != NULL) {
        first = m->next_swept;
        (void)spn_future_cancel(&m->t.future, 0);
        spn_future_unref(&m->t.future);
    }
}

static void interrupt_members(struct spn_group *g)
{
    struct spn_thread *self = spn__self_get();
    struct spn__list_node *node;

    spn__list_each (node, &g->members) {
        struct member *m = spn__list_entry(node, struct member, link);

        if (m->runner != NULL && m->runner != self)
            spn__interrupt_set(m->runner);
    }
}

static struct spn_group *group_of(struct spn__list_node *sibling)
{
    return spn__list_entry(sibling, struct spn_group, sibling);
}

/* The group after `g` in the tree below `top`, each before those in it; NULL: none. */
static struct spn_group *next_below(struct spn_group *g, struct spn_group *top)
{
    if (!spn__list_empty(&g->children))
        return group_of(spn__list_first(&g->children));
    for (; g != top; g = g->parent)
        if (g->sibling.next != &g->parent->children.head)
            return group_of(g->sibling.next);
    return NULL;
}

/* Interrupts what runs in a group and in those in it. */
static void interrupt_all(struct spn_group *top)
{
    spn__lock(&top->root->lock);
    for (struct spn_group *g = top; g != NULL; g = next_below(g, top))
        interrupt_members(g);
    spn__unlock(&top->root->lock);
}

/* The group's token is cancelled. */
static void on_cancel(spn_cancel_callback *callback, int reason)
{
    struct spn_group *g = spn__list_entry(callback, struct spn_group, callback);

    (void)reason;
    sweep(g);
    if (g->interrupt)
        interrupt_all(g);
}

int spn_group_cancel(spn_group *g, int reason, int may_interrupt)
{
    int rc;

    if (g == NULL || reason >= 0)
        return SPN_EINVAL;
    rc = spn_cancel_token_cancel(g->token, reason);
    if (may_interrupt != 0)
        interrupt_all(g);
    return rc;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* Whether the thread runs a task that is live in the group. */
static bool waits_for_itself(const struct spn_group *group,
                             const struct spn_thread *self)
{
    const struct spn__group_frame *frame;

    for (frame = self->groups; frame != NULL; frame = frame->outer)
        for (const struct spn_group *g = frame->group; g != NULL; g = g->parent)
            if (g == group)
                return true;
    return false;
}

/* A future, referenced, of a task in the group that has not come to its end and whose
 * executor the thread is inside of; NULL: there is none. */
static spn_future *find_own(struct spn_group *top, struct spn_thread *self)
{
    struct spn_future *found = NULL;
    struct spn__list_node *node;

    spn__lock(&top->root->lock);
    for (struct spn_group *g = top; g != NULL && found == NULL; g = next_below(g, top))
        spn__list_each (node, &g->members) {
            struct member *m = spn__list_entry(node, struct member, link);

            if (!spn__future_done(&m->t.future) &&
                spn__thread_is_inside(self, m->executor)) {
                found = spn__future_ref(&m->t.future);
                break;
            }
        }
    spn__unlock(&top->root->lock);
    return found;
}

/* A thread of an executor waits for tasks of its own executor by their futures, one by
 * one: that tells the executor, which may grow, have the task run here, or refuse. */
static int wait_for_own(struct spn_group *g, struct spn_thread *self,
                        int64_t deadline_ns)
{
    struct spn_future *f;

    while ((f = find_own(g, self)) != NULL) {
        const int64_t left_ns =
            deadline_ns == SPN_FOREVER ? SPN_FOREVER : deadline_ns - spn__now();
        const int rc = spn_future_get(f, NULL, left_ns);

        spn_future_unref(f);
        if (rc != SPN_OK && rc != SPN_EFAILED && rc != SPN_ECANCELED)
            return rc;
    }
    return SPN_OK;
}

int spn_group_wait(spn_group *g, int64_t timeout_ns)
{
    struct spn_thread *self;
    struct spn__lock *lock;
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc = SPN_OK;

    if (g == NULL)
        return SPN_EINVAL;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    if (waits_for_itself(g, self))
        return SPN_EDEADLK;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);
    if (self->executing != NULL && timeout_ns > 0) {
        rc = wait_for_own(g, self, deadline_ns);
        if (rc != SPN_OK)
            return rc;
    }
    lock = &g->root->lock;
    spn__lock(lock);
    if (g->live != 0) {
        spn__waitq_add(&g->waiters, &w, self);
        spn__unlock(lock);
        rc = spn__waitq_wait(&w, lock, deadline_ns);
        if (rc == SPN_OK)
            return SPN_OK; /* the group may be gone */
    }
    spn__unlock(lock);
    return rc;
}

/* ---- making and asking ------------------------------------------------------------------------ */

int spn_group_create(spn_group **out, const spn_group_opts *opts)
{
    spn_group_opts o = SPN_GROUP_OPTS_INIT;
    struct spn_group *g;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if ((o.parent != NULL && o.token != NULL) || o.cancel_on_error > 1 ||
        o.interrupt > 1)
        return SPN_EINVAL;
    g = spn__alloc(sizeof *g);
    if (g == NULL)
        return SPN_ENOMEM;
    memset(g, 0, sizeof *g);
    rc = spn_cancel_token_create(&g->token,
                                 o.parent != NULL ? o.parent->token : o.token);
    if (rc != SPN_OK) {
        spn__free(g);
        return rc;
    }
    g->parent = o.parent;
    g->root = o.parent != NULL ? o.parent->root : g;
    g->cancel_on_error = o.cancel_on_error != 0;
    g->interrupt = o.interrupt != 0;
    g->callback = (spn_cancel_callback)SPN_CANCEL_CALLBACK_INIT(on_cancel);
    spn__lock_init(&g->lock);
    spn__list_init(&g->members);
    spn__list_init(&g->children);
    spn__waitq_init(&g->waiters);
    if (g->parent != NULL) {
        spn__lock(&g->root->lock);
        spn__list_push_back(&g->parent->children, &g->sibling);
        spn__unlock(&g->root->lock);
    }
    /* If it is cancelled already there is nothing to cancel yet. */
    rc = spn_cancel_token_register(g->token, &g->callback);
    spn__assert(rc == SPN_OK || rc == SPN_ECANCELED);
    *out = g;
    return SPN_OK;
}

int spn_group_destroy(spn_group *g)
{
    bool busy;

    if (g == NULL)
        return SPN_OK;
    spn__lock(&g->root->lock); /* waits for the end that released the waiters */
    busy = g->live != 0 || !spn__list_empty(&g->children) ||
           !spn__waitq_empty(&g->waiters);
    spn__unlock(&g->root->lock);
    if (busy || spn_cancel_token_deregister(g->token, &g->callback) < 0)
        return SPN_EBUSY;
    if (g->parent != NULL) {
        spn__lock(&g->root->lock);
        spn__list_remove(&g->sibling);
        spn__unlock(&g->root->lock);
    }
    spn_cancel_token_unref(g->token);
    spn__free(g);
    return SPN_OK;
}

spn_cancel_token *spn_group_token(spn_group *g)
{
    return g != NULL ? g->token : NULL;
}

spn_group *spn_group_current(void)
{
    struct spn_thread *self = spn__self_get();

    return self != NULL && self->groups != NULL ? self->groups->group : NULL;
}

int spn_group_error(spn_group *g, int *code, char *buf, size_t capacity)
{
    bool erred;

    if (g == NULL || (buf == NULL && capacity != 0))
        return SPN_EINVAL;
    spn__lock(&g->root->lock);
    erred = g->erred;
    spn__unlock(&g->root->lock);
    if (!erred)
        return SPN_ESTATE;
    if (code != NULL)
        *code = g->error;
    spn__message_copy(buf, capacity, g->message);
    return SPN_OK;
}

int spn_group_stats_get(spn_group *g, spn_group_stats *stats)
{
    spn_group_stats s = SPN_GROUP_STATS_INIT;

    if (g == NULL || stats == NULL)
        return SPN_EINVAL;
    spn__lock(&g->root->lock);
    s.live = g->live;
    s.succeeded = g->succeeded;
    s.failed = g->failed;
    s.cancelled = g->cancelled;
    spn__unlock(&g->root->lock);
    s.submitted = s.live + s.succeeded + s.failed + s.cancelled;
    return spn__output_copy(stats, &s, sizeof s);
}
