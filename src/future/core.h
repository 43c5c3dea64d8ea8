/* SPDX-License-Identifier: MIT */
/*
 * core.h - what the files of src/future share: the future itself, the edges
 * between futures, and the list of stages that are ready.  core.c tells the
 * state machine, stage.c the edges.
 */
#ifndef SPN__FUTURE_CORE_H
#define SPN__FUTURE_CORE_H

#include <spindle/future.h>

#include "base/list.h"
#include "sync/audit.h"
#include "sync/lock.h"
#include "sync/seam.h"
#include "sync/thread_record.h"
#include "sync/waitq.h"

/* The state word: three bits of phase, one that asks for the slow path, and above them
 * the references, so that an executor can publish an outcome and let go in one step. */
enum {
    SPN__NEW = 0,
    SPN__COMPLETING = 1, /* the winner is writing the outcome          */
    SPN__NORMAL = 2,     /* from here on the future is done            */
    SPN__EXCEPTIONAL = 3,
    SPN__CANCELLED = 4,
    SPN__INTERRUPTING = 5, /* done, but the runner is not yet interrupted */
    SPN__INTERRUPTED = 6,

    SPN__PHASE = 7,
    SPN__ATTENDED = 8, /* there may be waiters or edges in the lists  */
    SPN__REF = 16      /* one reference: those who can use it         */
};

enum spn__future_kind { SPN__PROMISE, SPN__STAGE, SPN__TASK };

struct spn__work;
struct spn__edge;

/* In an order that leaves all that a quick get looks at on the cache line of the state,
 * behind the header that a block has (sync/blocks.c). */
struct spn_future {
    SPN__ATOMIC(uint32_t) state; /* see core.c */
    SPN__ATOMIC(uint32_t)
    holds;                 /* those who need the memory: all references count
                                    as one, each edge that leads here as one */
    struct spn__lock lock; /* guards waiters, edges, edge_count, taken */
    uint8_t kind;          /* spn__future_kind; fixed */
    bool plain;            /* fixed: a promise without a done hook, which has
                              nothing to do when nobody attends to it */
    bool taken;            /* the edges were taken off by the completer; final */

    /* The outcome: the winner's while COMPLETING, then fixed [done]. */
    bool derived;
    void *value;
    struct spn_future *origin; /* referenced: the future whose outcome this is, if
                                  that is another one; never has one itself */
    int32_t code;              /* of a failure of its own */

    SPN__ATOMIC(uint32_t) read;                /* 1: somebody has the value */
    SPN__ATOMIC(spn_drop_value_fn) drop_value; /* see core.c, A VALUE NOBODY READ */

    char message[SPN_FUTURE_MESSAGE_MAX]; /* as code */

    struct spn__waitq waiters;
    struct spn__list edges; /* to the stages that wait for this future */
    uint32_t edge_count;

    /* Fixed. */
    void (*done)(spn_future *future, void *done_arg);
    void *done_arg;
#ifdef SPN_AUDIT
    SPN__ATOMIC(uint32_t) heard; /* 1: somebody has asked how it ended */
#endif
    SPN__AUDIT_FIELD
};

/* Somebody knows, or will know, how it ends; relaxed: as `read`. */
#ifdef SPN_AUDIT
#define spn__future_heard(f) \
    spn__store(&((struct spn_future *)(uintptr_t)(f))->heard, 1, relaxed)
#else
#define spn__future_heard(f) ((void)0)
#endif

static inline uint32_t spn__phase(uint32_t state)
{
    return state & SPN__PHASE;
}

static inline uint32_t spn__refs(uint32_t state)
{
    return state / SPN__REF;
}

static inline bool spn__phase_done(uint32_t state)
{
    return spn__phase(state) >= SPN__NORMAL;
}

/* Whether there is an outcome; then the caller may read it. */
static inline bool spn__future_done(const struct spn_future *f)
{
    return spn__phase_done(spn__load(&f->state, acquire)); /* [done] */
}

void spn__future_init(struct spn_future *f, enum spn__future_kind kind,
                      const spn_future_opts *opts);

/* The right to write the outcome, for one caller, who must then finish it. */
bool spn__future_claim(struct spn_future *f);
void spn__future_finish(struct spn_future *f, uint32_t phase, struct spn__work *work);
/* The same, and drops a reference of the caller's, in one step: for a future that has
 * nobody to tell.  False, and nothing happens, if somebody attends to it. */
bool spn__future_finish_and_unref(struct spn_future *f, uint32_t phase);
/* As spn_future_complete_error, and interrupts the thread that runs a task future's
 * function, as cancel does. */
int spn__future_fail_and_interrupt(struct spn_future *f, int code, const char *message);
/* All that follows the final change of the state, which found `old`. */
void spn__future_finished(struct spn_future *f, uint32_t old, struct spn__work *work);

/* Outcomes, by the winner. */
void spn__future_write_error(struct spn_future *f, int code, const char *message,
                             bool derived);
/* Copies the outcome of a future that is done; returns the phase to finish with. */
uint32_t spn__future_write_mirror(struct spn_future *f, struct spn_future *source);

/* Whose outcome it really is, of a future that is done. */
static inline struct spn_future *spn__future_root(struct spn_future *f)
{
    return f->origin != NULL ? f->origin : f;
}
/* The value goes to somebody. */
static inline void *spn__future_read_value(struct spn_future *f)
{
    struct spn_future *root = spn__future_root(f);

    /* relaxed, both: read by whoever drops the last reference, after [refs].  Not
     * written again, so that many readers share the line. */
    if (spn__load(&root->read, relaxed) == 0)
        spn__store(&root->read, 1, relaxed);
    return f->value;
}
/* A value that came when the future was done already: frees it, if told how. */
void spn__future_drop_late(struct spn_future *f, void *value);
/* The status get returns, of a future that is done. */
int spn__future_status(const struct spn_future *f);
void spn__future_outcome(struct spn_future *f, spn_outcome *out);

static inline struct spn_future *spn__future_ref(struct spn_future *f)
{
    /* relaxed: who makes a new reference has one, and gives it away in order. */
    (void)spn__fetch_add(&f->state, SPN__REF, relaxed);
    return f;
}
/* The stages of a future that is abandoned by this go to `work`. */
void spn__future_unref(struct spn_future *f, struct spn__work *work);
void spn__future_release_hold(struct spn_future *f);

/* ---- edges: from a future to what waits for it ---------------------------- */

struct spn__edge {
    struct spn__list_node link; /* guarded by the source's lock; once taken, the
                                   completer's */
    SPN__ATOMIC(struct spn_future *) source; /* holds it; see stage.c [edge] */
    /* The source is done.  Called once, by whoever completed it or tried to add
     * the edge, with no lock held. */
    void (*fire)(struct spn__edge *edge, struct spn_future *source,
                 struct spn__work *work);
    void *owner;
};

/* Adds an edge; false, and nothing happens, if the source is done. */
bool spn__edge_add(struct spn__edge *edge, struct spn_future *source);
/* Takes it off; false if it was never added, taken off, fired, or is about to
 * be. */
bool spn__edge_remove(struct spn__edge *edge);

/* ---- stages that are ready ------------------------------------------------ */

struct spn__stage;

/* First in, first out; on the stack of whoever completes something. */
struct spn__work {
    struct spn__stage *first, *last;
};

#define SPN__WORK_INIT \
    {                  \
        NULL, NULL     \
    }

void spn__work_run(struct spn__work *work);

static inline void spn__work_drain(struct spn__work *work)
{
    if (work->first != NULL)
        spn__work_run(work);
}

/* The stage is about to be done, by whoever calls this or was faster: its executor may be
 * destroyed. */
void spn__stage_leave_executor(struct spn_future *f);
/* The stage is done: takes off the edges that lead to it. */
void spn__stage_detach(struct spn_future *f, struct spn__work *work);
/* The stage is at its end: the reference it still has to a source, or NULL.  Only a
 * stage that was completed by hand has one, from the source that was done first. */
struct spn_future *spn__stage_take_input(struct spn_future *f);

/* ---- task futures --------------------------------------------------------- */

/* The task future is done, by somebody who may not be its runner: follows the done
 * hook, once. */
void spn__task_finished(struct spn_future *f);
/* Makes the future of a submission: by the executor, if it likes to.  As
 * spn_future_create_task. */
int spn__task_create(spn_executor *executor, struct spn_future **out, spn_call_fn fn,
                     void *arg, const spn_future_opts *opts);
/* The same for run(arg) and a value. */
int spn__task_create_run(spn_executor *executor, struct spn_future **out,
                         spn_run_fn run, void *arg, void *value);
/* As spn_future_submit for a future made for this: takes the caller's reference, which
 * goes to *out, or the future has never been. */
int spn__task_submit(struct spn_future *f, spn_executor *executor, spn_future **out);
/* Has `told` called with the future and the owner once it has an outcome, after
 * the done hook, also when it is abandoned.  Before it is submitted. */
void spn__task_tell(struct spn_future *f,
                    void (*told)(struct spn_future *f, void *owner), void *owner);
/* A list node for whoever is told, free until then; and back. */
struct spn__list_node *spn__task_told_link(struct spn_future *f);
struct spn_future *spn__task_told_future(struct spn__list_node *link);
/* Somebody waits for it: see SPN_TASK_AWAITED.  Before it is submitted. */
void spn__task_mark_awaited(struct spn_future *f);
/*
 * Around the step that gives a task future its outcome: tells the executor where its task
 * waits (lapsed).  NULL: there is none.  `won`: the outcome is the caller's, which calls
 * spn__task_finished after end.
 */
spn_executor *spn__task_lapse_begin(struct spn_future *f);
void spn__task_lapse_end(struct spn_future *f, spn_executor *executor, bool won);
/* Interrupts the runner, if there is one. */
void spn__task_interrupt(struct spn_future *f);
/* The task future that a task is part of, borrowed; NULL if it is none's. */
struct spn_future *spn__task_future(spn_task *task);
/* The task of a task future; who runs it now, as a hint: NULL if nobody, or a thread
 * without a record. */
spn_task *spn__future_task(struct spn_future *f);
const struct spn_thread *spn__future_runner(struct spn_future *f);
/* The executor has given the task back, unrun: it has no say in the future now. */
void spn__task_given_back(spn_task *task);
/*
 * Before a thread waits for it: tells the executor, which may run it now or refuse the
 * wait.  SPN_OK, or the refusal.  If *entered is not NULL, spn__task_wait_end
 * must follow the wait.  timed: it ends at some time by itself.
 */
int spn__task_wait_begin(struct spn_future *f, struct spn_thread *self, bool timed,
                         spn_executor **entered);
void spn__task_wait_end(spn_executor *entered);

/* Copies a message, cut to capacity between two characters of UTF-8. */
void spn__message_copy(char *to, size_t capacity, const char *from);

/* ---- calls of users' functions -------------------------------------------- */

/* One call in progress, on the stack; the innermost is in the thread's record. */
struct spn__call {
    struct spn_thread *self; /* NULL: no memory for a record */
    struct spn__call *outer;
    bool explained; /* spn_future_fail was called */
    int code;       /* what the function returned */
    void *result;   /* what it stored */
    char message[SPN_FUTURE_MESSAGE_MAX];
};

/* fn(pointer), of the program's: no exception comes out of it. */
void spn__call_pointer(void (*fn)(void *), void *pointer);

void spn__call_enter(struct spn__call *call);
/* After the function; code and message then tell. */
static inline void spn__call_leave(struct spn__call *call)
{
    if (call->self != NULL)
        call->self->call = call->outer;
}
/* Makes the outcome of a call whose function has ended its thread, which the caller is on:
 * a pool's worker. */
void spn__call_ended(struct spn__call *call);
const char *spn__call_message(const struct spn__call *call);

#endif /* SPN__FUTURE_CORE_H */
