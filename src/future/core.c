/* SPDX-License-Identifier: MIT */
/*
 * core.c - the future's state machine, its outcome and its lifetime.
 *
 * STATE  one 32-bit word: the phase, ATTENDED, and the references
 *   NEW -> COMPLETING -> NORMAL             complete, run
 *   NEW -> COMPLETING -> EXCEPTIONAL        complete_error, run, abandoned
 *   NEW -> CANCELLED                        cancel
 *   NEW -> INTERRUPTING -> INTERRUPTED      cancel of a task future, with interrupt
 *
 *   The step out of NEW decides who wins.  COMPLETING exists so that the outcome
 *   can be plain fields: only the winner writes them and nobody reads them before
 *   the phase is done.  It lasts for a few stores; a call that lost waits for its end
 *   before it says so, so that "was done" is true when it is said.  INTERRUPTING is done for everybody but the runner, who
 *   must not leave run before the interrupt has reached it (task.c).
 *
 *   ATTENDED says that somebody may be in the lists.  It is set in the same word
 *   that completion changes, under the lock, before the list changes; so the
 *   last step of a completion tells whether anybody has to be looked after, and
 *   without it completion takes no lock and makes no system call.  It is never
 *   cleared: a waiter that leaves makes the completer look in vain.
 *
 * LIFETIME
 *   The references, in the same word, are those who can use the future.  So an executor
 *   whose task nobody attends to publishes the outcome and drops its reference in one
 *   step: whoever waits for it finds itself alone with the future, on a cache line that
 *   nobody comes back for.  An edge must be able to find the
 *   source's lock to take itself off, but must not keep the source usable, or a
 *   future nobody can complete would live for ever with its stages: so an edge
 *   only `holds` the memory.  When no reference is left and there is no outcome, the future is
 *   abandoned: it fails, and with it the stages that wait for it.
 *
 * A VALUE NOBODY READ
 *   `read` is set by whoever gets the value, and by a mirror that passes it on
 *   without keeping its origin, whether there is a destructor or not; each has a
 *   reference, so that the last one to go knows.  The destructor may therefore be set
 *   at any time by anybody with a reference: it counts at the very end only.  A
 *   mirror keeps its origin, which then frees the value, if there is a destructor by
 *   then.
 *
 * ORDERING
 *   [done]  the step to a final phase (and the step to CANCELLED and
 *           INTERRUPTING) is a release; it pairs with the acquire loads of the
 *           state: whoever sees a done phase sees the outcome.
 *   [refs]  each drop is a release and the last an acquire: all use of the future
 *           lies before its end.
 *   [holds] the same for the memory.
 *   [runner] and [edge] need the changes of the state to be seq_cst; see task.c
 *           and stage.c.  Both are a change and then a look on either side, and C11
 *           wants all four to be seq_cst.  The explorer takes a seq_cst access for
 *           a fence followed by the access, so that to it one of the two would do:
 *           that is what "mutant: half of a pair" says at these places.
 *
 * LOCKS  `lock` is a leaf.  Nothing of the user's is called with it held.
 */
#include "future/core.h"
#include "future/wait.h"

#include <string.h>

#include "base/assert.h"
#include "base/options.h"

void spn__message_copy(char *to, size_t capacity, const char *from)
{
    size_t length = from != NULL ? strlen(from) : 0;

    if (capacity == 0)
        return;
    if (length >= capacity) {
        length = capacity - 1;
        while (length > 0 && ((unsigned char)from[length] & 0xc0) == 0x80)
            length--;
    }
    if (length > 0)
        memcpy(to, from, length);
    to[length] = '\0';
}

/* ---- making ------------------------------------------------------------- */

#ifdef SPN_AUDIT
static const char *const kind_names[] = { "promise", "stage", "task" };
#endif

void spn__future_init(struct spn_future *f, enum spn__future_kind kind,
                      const spn_future_opts *opts)
{
    spn__init(&f->state, SPN__NEW + SPN__REF);
    spn__init(&f->holds, 1);
    spn__lock_init(&f->lock);
    f->value = NULL;
    f->origin = NULL;
    f->code = 0;
    f->derived = f->taken = false;
    f->kind = (uint8_t)kind;
    f->edge_count = 0;
    spn__init(&f->read, 0);
    spn__waitq_init(&f->waiters);
    spn__list_init(&f->edges);
    spn__init(&f->drop_value, opts != NULL ? opts->drop_value : NULL);
    f->done = opts != NULL ? opts->done : NULL;
    f->done_arg = opts != NULL ? opts->done_arg : NULL;
    f->plain = kind == SPN__PROMISE && f->done == NULL;
    f->message[0] = '\0';
#ifdef SPN_AUDIT
    spn__init(&f->heard, f->done != NULL);
#endif
    spn__audit_made(f, "future", kind_names[kind], "");
}

int spn_future_create(spn_future **out, const spn_future_opts *opts)
{
    spn_future_opts o = SPN_FUTURE_OPTS_INIT;
    struct spn_future *f;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (o.release_arg != NULL)
        return SPN_EINVAL; /* a promise has no argument */
    f = spn__block_get(sizeof *f);
    if (f == NULL)
        return SPN_ENOMEM;
    spn__future_init(f, SPN__PROMISE, &o);
    *out = f;
    return SPN_OK;
}

int spn_future_create_completed(spn_future **out, void *value)
{
    const int rc = spn_future_create(out, NULL);

    if (rc == SPN_OK)
        (void)spn_future_complete(*out, value);
    return rc;
}

int spn_future_create_failed(spn_future **out, int code, const char *message)
{
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (code == 0)
        return SPN_EINVAL;
    rc = spn_future_create(out, NULL);
    if (rc == SPN_OK)
        (void)spn_future_complete_error(*out, code, message);
    return rc;
}

/* ---- the outcome ---------------------------------------------------------- */

void spn__future_write_error(struct spn_future *f, int code, const char *message,
                             bool derived)
{
    f->code = code;
    f->derived = derived;
    spn__message_copy(f->message, sizeof f->message, message);
}

uint32_t spn__future_write_mirror(struct spn_future *f, struct spn_future *source)
{
    /* [done] first: `origin` is part of the outcome.
     * mutant: in the explorer the step in finish is a fence, too */
    const uint32_t phase = spn__phase(spn__load(&source->state, acquire));
    struct spn_future *root = spn__future_root(source);

    if (phase == SPN__NORMAL) {
        f->value = source->value;
        /* relaxed, both: see A VALUE NOBODY READ */
        if (spn__load(&root->drop_value, relaxed) != NULL)
            f->origin = spn__future_ref(root); /* it frees the value, if unread */
        else
            spn__store(&root->read, 1, relaxed);
        return SPN__NORMAL;
    }
    f->origin = spn__future_ref(root);
    f->derived = true;
    return SPN__EXCEPTIONAL;
}

int spn__future_status(const struct spn_future *f)
{
    spn__future_heard(f);
    switch (spn__phase(spn__load(&f->state, acquire))) { /* [done] */
    case SPN__NORMAL:
        return SPN_OK;
    case SPN__EXCEPTIONAL:
        return SPN_EFAILED;
    default:
        return SPN_ECANCELED;
    }
}

/* The cause of one that did not succeed. */
static int cause_of(const struct spn_future *f, const char **message)
{
    const struct spn_future *root = f->origin != NULL ? f->origin : f;

    if (spn__future_status(root) == SPN_EFAILED) {
        *message = root->message;
        return root->code;
    }
    *message = "";
    return SPN_ECANCELED;
}

void spn__future_outcome(struct spn_future *f, spn_outcome *out)
{
    memset(out, 0, sizeof *out);
    out->message = "";
    out->status = spn__future_status(f);
    if (out->status == SPN_OK)
        out->value = spn__future_read_value(f);
    else
        out->code = cause_of(f, &out->message);
    out->derived = f->derived;
}

/* ---- completing ----------------------------------------------------------- */

/* The two halves of completing, here inline and below for the other files. */
static inline bool claim(struct spn_future *f)
{
    uint32_t found = spn__load(&f->state, relaxed); /* checked by the exchange */

    while (spn__phase(found) == SPN__NEW)
        /* relaxed: decides who wins; [done] does the publishing. */
        if (spn__cas_weak(&f->state, &found, found | SPN__COMPLETING, relaxed, relaxed))
            return true;
    return false;
}

bool spn__future_claim(struct spn_future *f)
{
    return claim(f);
}

/* Releases the waiters and fires the edges. */
static void look_after(struct spn_future *f, struct spn__work *work)
{
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__list_node *node;
    struct spn__list edges;

    spn__list_init(&edges);
    spn__lock(&f->lock);
    spn__waitq_choose_all(&f->waiters, &chosen);
    spn__list_splice(&edges, &f->edges);
    f->taken = true;
    f->edge_count = 0;
    spn__unlock(&f->lock);

    spn__chosen_grant(&chosen);
    while ((node = spn__list_pop_front(&edges)) != NULL) {
        struct spn__edge *edge = spn__list_entry(node, struct spn__edge, link);

        /* [edge] relaxed: decides who lets go, we or the stage; f is ours. */
        if (spn__exchange(&edge->source, NULL, relaxed) != NULL)
            spn__future_release_hold(f); /* never the last: the caller has a ref */
        edge->fire(edge, f, work);
    }
}

static void call_done(void *p)
{
    struct spn_future *f = p;

    f->done(f, f->done_arg);
}

void spn__future_finished(struct spn_future *f, uint32_t old, struct spn__work *work)
{
    if ((old & SPN__ATTENDED) != 0)
        look_after(f, work);
    if (f->kind == SPN__STAGE)
        spn__stage_detach(f, work);
    if (f->done != NULL)
        spn__guarded(call_done, f);
    if (f->kind == SPN__TASK)
        spn__task_finished(f);
}

/* How far a final phase is from the one before it, which leaves the rest as it is. */
static inline uint32_t last_step(uint32_t phase)
{
    return phase - (phase == SPN__INTERRUPTED ? SPN__INTERRUPTING : SPN__COMPLETING);
}

static inline uint32_t take_last_step(struct spn_future *f, uint32_t phase)
{
    /* [done] release: the outcome.  seq_cst for [runner] and [edge].
     * mutant: the step to acq_rel is half of a pair */
    const uint32_t old = spn__fetch_add(&f->state, last_step(phase), seq_cst);

    spn__debug_assert(spn__phase(old) + last_step(phase) == phase);
    return old;
}

/* Out of line to keep the way of a plain promise short. */
static __attribute__((noinline)) void finish_other(struct spn_future *f, uint32_t phase,
                                                   struct spn__work *work)
{
    spn_executor *lapsing = NULL;
    uint32_t old;

    if (f->kind == SPN__STAGE)
        spn__stage_leave_executor(f);
    else if (f->kind == SPN__TASK && phase != SPN__INTERRUPTED)
        lapsing = spn__task_lapse_begin(f);
    old = take_last_step(f, phase);
    spn__task_lapse_end(f, lapsing, true);
    spn__future_finished(f, old, work);
}

static inline void finish(struct spn_future *f, uint32_t phase, struct spn__work *work)
{
    uint32_t old;

    if (!f->plain) {
        finish_other(f, phase, work);
        return;
    }
    old = take_last_step(f, phase);
    if ((old & SPN__ATTENDED) != 0)
        spn__future_finished(f, old, work);
}

void spn__future_finish(struct spn_future *f, uint32_t phase, struct spn__work *work)
{
    finish(f, phase, work);
}

/* What a call that did not win answers, when that is so. */
static int lost(struct spn_future *f)
{
    spn__future_await_winner(f);
    return 0;
}

int spn_future_complete(spn_future *f, void *value)
{
    struct spn__work work = SPN__WORK_INIT;

    if (f == NULL)
        return SPN_EINVAL;
    if (!claim(f))
        return lost(f);
    f->value = value;
    finish(f, SPN__NORMAL, &work);
    spn__work_drain(&work);
    return 1;
}

int spn_future_complete_error(spn_future *f, int code, const char *message)
{
    struct spn__work work = SPN__WORK_INIT;

    if (f == NULL || code == 0)
        return SPN_EINVAL;
    if (!claim(f))
        return lost(f);
    spn__future_write_error(f, code, message, false);
    spn__future_finish(f, SPN__EXCEPTIONAL, &work);
    spn__work_drain(&work);
    return 1;
}

int spn_future_cancel(spn_future *f, int may_interrupt)
{
    struct spn__work work = SPN__WORK_INIT;
    spn_executor *lapsing = NULL;
    uint32_t found, target, next;

    if (f == NULL)
        return SPN_EINVAL;
    target =
        may_interrupt != 0 && f->kind == SPN__TASK ? SPN__INTERRUPTING : SPN__CANCELLED;
    found = spn__load(&f->state, relaxed); /* checked by the exchange */
    if (f->kind == SPN__TASK && spn__phase(found) == SPN__NEW)
        lapsing = spn__task_lapse_begin(f);
    do {
        if (spn__phase(found) == SPN__CANCELLED && f->kind != SPN__TASK)
            return 1;
        if (spn__phase(found) != SPN__NEW) {
            spn__task_lapse_end(f, lapsing, false);
            return lost(f);
        }
        if (f->kind == SPN__STAGE)
            spn__stage_leave_executor(f);
        /* [done] release: what the canceller did before.  INTERRUPTING keeps
         * ATTENDED for the step to come.  seq_cst for [runner], [edge]. */
        next = found | target;
        /* mutant: half of a pair */
    } while (!spn__cas_weak(&f->state, &found, next, seq_cst, relaxed));
    spn__task_lapse_end(f, lapsing, true);
    if (target == SPN__INTERRUPTING) {
        spn__task_interrupt(f);
        spn__future_finish(f, SPN__INTERRUPTED, &work);
    } else {
        spn__future_finished(f, found, &work);
    }
    spn__work_drain(&work);
    return 1;
}

int spn__future_fail_and_interrupt(struct spn_future *f, int code, const char *message)
{
    struct spn__work work = SPN__WORK_INIT;
    uint32_t found;

    if (f->kind != SPN__TASK)
        return spn_future_complete_error(f, code, message);
    found = spn__load(&f->state, relaxed); /* checked by the exchange */
    do {
        if (spn__phase(found) != SPN__NEW)
            return lost(f);
        /* seq_cst for [runner]: a runner that leaves waits for the end of COMPLETING.
         * mutant: half of a pair */
    } while (
        !spn__cas_weak(&f->state, &found, found | SPN__COMPLETING, seq_cst, relaxed));
    spn__future_write_error(f, code, message, false);
    spn__task_interrupt(f);
    spn__future_finish(f, SPN__EXCEPTIONAL, &work);
    spn__work_drain(&work);
    return 1;
}

/* ---- lifetime ------------------------------------------------------------- */

void spn__future_release_hold(struct spn_future *f)
{
    /* [holds] 1 is ours, and nobody can add another: no exchange is needed. */
    if (spn__load(&f->holds, acquire) == 1 ||
        spn__fetch_sub(&f->holds, 1, acq_rel) == 1) {
        spn__audit_gone(f);
        spn__block_put(f);
    }
}

/* The last reference is going: a failure that nobody has heard of is told. */
static void check_heard(const struct spn_future *f)
{
#ifdef SPN_AUDIT
    const uint32_t state = spn__load(&f->state, relaxed); /* [refs] has it all */

    if (spn__phase(state) == SPN__EXCEPTIONAL && (state & SPN__ATTENDED) == 0 &&
        f->origin == NULL && f->code != SPN_ECANCELED &&
        spn__load(&f->heard, relaxed) == 0)
        spn__misuse("future %p failed with %d (%s)%s%s, and nobody looked at it",
                    (const void *)f, (int)f->code, spn_status_name(f->code),
                    f->message[0] != '\0' ? ": " : "", f->message);
#else
    (void)f;
#endif
}

/* Drops a reference; true: it was the last.  Then the word says one or none. */
static bool drop_ref(struct spn_future *f, uint32_t *state)
{
    /* [refs] One is ours, and nobody can make another of it: no exchange is needed. */
    *state = spn__load(&f->state, acquire);
    if (spn__refs(*state) == 1)
        return true;
    *state = spn__fetch_sub(&f->state, SPN__REF, acq_rel); /* [refs] */
    return spn__refs(*state) == 1;
}

static void abandon(struct spn_future *f, uint32_t state, struct spn__work *work)
{
    /* relaxed: nobody else can use it, and an edge only holds it. */
    spn__store(&f->state, state % SPN__REF + SPN__REF, relaxed);
    if (spn__future_claim(f)) {
        spn__future_write_error(f, SPN_ECANCELED, "abandoned", false);
        spn__future_finish(f, SPN__EXCEPTIONAL, work);
    }
}

/* The last reference went.  Returns what the future still refers to, at most one:
 * who has its outcome from an origin has let go of its inputs. */
static struct spn_future *end(struct spn_future *f)
{
    struct spn_future *next = f->origin;
    const spn_drop_value_fn drop = spn__load(&f->drop_value, relaxed); /* as below */

    if (next == NULL && f->kind == SPN__STAGE)
        next = spn__stage_take_input(f);
    /* relaxed: [refs] has it all. */
    if (f->origin == NULL && drop != NULL && f->value != NULL &&
        spn__phase(spn__load(&f->state, relaxed)) == SPN__NORMAL &&
        spn__load(&f->read, relaxed) == 0)
        spn__call_pointer(drop, f->value);
    check_heard(f);
    spn__future_release_hold(f);
    return next;
}

void spn__future_unref(struct spn_future *f, struct spn__work *work)
{
    uint32_t state;

    /* A loop, because what a future refers to may end with it. */
    while (f != NULL) {
        if (!drop_ref(f, &state))
            return;
        if (spn__phase(state) == SPN__NEW) {
            abandon(f, state, work);
            if (!drop_ref(f, &state))
                return; /* its stages or its done hook use it now */
        }
        f = end(f);
    }
}

bool spn__future_finish_and_unref(struct spn_future *f, uint32_t phase)
{
    struct spn__work none = SPN__WORK_INIT; /* a future that is done has no stages */
    uint32_t found = spn__load(&f->state, relaxed); /* checked by the exchange */

    do {
        if ((found & SPN__ATTENDED) != 0)
            return false;
        /* [done] [refs] as finish and drop_ref.  Not seq_cst: the runner is not looked
         * at, and who attends is in this word. */
    } while (!spn__cas_weak(&f->state, &found, found + last_step(phase) - SPN__REF,
                            acq_rel, relaxed));
    if (spn__refs(found) == 1)
        spn__future_unref(end(f), &none);
    return true;
}

int spn_future_set_drop_value(spn_future *f, spn_drop_value_fn drop_value)
{
    if (f == NULL)
        return SPN_EINVAL;
    /* relaxed: read by whoever drops the last reference, after [refs], or by who has
     * a late value and finds this one or the one before. */
    spn__store(&f->drop_value, drop_value, relaxed);
    return SPN_OK;
}

void spn__future_drop_late(struct spn_future *f, void *value)
{
    const spn_drop_value_fn drop = spn__load(&f->drop_value, relaxed); /* as above */

    if (drop != NULL && value != NULL)
        spn__call_pointer(drop, value);
}

spn_future *spn_future_ref(spn_future *f)
{
    return f != NULL ? spn__future_ref(f) : NULL;
}

void spn_future_unref(spn_future *f)
{
    struct spn__work work = SPN__WORK_INIT;

    if (f == NULL)
        return;
    spn__future_unref(f, &work);
    spn__work_drain(&work);
}

/* ---- asking --------------------------------------------------------------- */

int spn_future_get_state(const spn_future *f)
{
    if (f == NULL)
        return SPN_EINVAL;
    if (!spn__future_done(f))
        return SPN_FUTURE_PENDING;
    switch (spn__future_status(f)) {
    case SPN_OK:
        return SPN_FUTURE_SUCCEEDED;
    case SPN_EFAILED:
        return SPN_FUTURE_FAILED;
    default:
        return SPN_FUTURE_CANCELED;
    }
}

const char *spn_future_state_name(int state)
{
    switch (state) {
    case SPN_FUTURE_PENDING:
        return "pending";
    case SPN_FUTURE_SUCCEEDED:
        return "succeeded";
    case SPN_FUTURE_FAILED:
        return "failed";
    case SPN_FUTURE_CANCELED:
        return "cancelled";
    default:
        return "unknown";
    }
}

int32_t spn_future_dependents(spn_future *f)
{
    uint32_t count;

    if (f == NULL)
        return SPN_EINVAL;
    spn__lock(&f->lock);
    count = f->edge_count;
    spn__unlock(&f->lock);
    return count > INT32_MAX ? INT32_MAX : (int32_t)count;
}

int spn_future_result(spn_future *f, spn_outcome *outcome)
{
    if (f == NULL || outcome == NULL)
        return SPN_EINVAL;
    if (spn__future_done(f))
        spn__future_outcome(f, outcome);
    else
        *outcome = (spn_outcome){ .status = SPN_ESTATE, .message = "" };
    return outcome->status;
}

/* ---- calls of users' functions -------------------------------------------- */

struct pointer_call {
    void (*fn)(void *);
    void *pointer;
};

static void call_pointer(void *p)
{
    const struct pointer_call *c = p;

    c->fn(c->pointer);
}

void spn__call_pointer(void (*fn)(void *), void *pointer)
{
    struct pointer_call c = { fn, pointer };

    spn__guarded(call_pointer, &c);
}

void spn__call_enter(struct spn__call *call)
{
    call->self = spn__thread_self();
    call->outer = NULL;
    call->explained = false;
    call->code = 0;
    call->result = NULL;
    call->message[0] = '\0';
    if (call->self != NULL) {
        call->outer = call->self->call;
        call->self->call = call;
    }
}

void spn__call_ended(struct spn__call *call)
{
    call->self = spn__self_get();
    call->code = SPN_EFAILED;
    call->explained = true;
    spn__message_copy(call->message, sizeof call->message,
                      "the function ended its thread");
}

const char *spn__call_message(const struct spn__call *call)
{
    return call->explained ? call->message : NULL;
}

int spn_future_fail(int code, const char *message)
{
    struct spn_thread *self = spn__self_get();

    if (self != NULL && self->call != NULL) {
        self->call->explained = true;
        spn__message_copy(self->call->message, sizeof self->call->message, message);
    }
    return code;
}
