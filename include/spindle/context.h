/* SPDX-License-Identifier: MIT */
#ifndef SPN_CONTEXT_H
#define SPN_CONTEXT_H

#include <stddef.h>

#include <spindle/status.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a request carries with it: a trace id, a deadline, and values of the
 * program's own.
 *
 * A context never changes.  A thread has at most one that is current; what it submits
 * captures it, and runs with it being current again, on whatever thread that is:
 *
 *   captured by   spn_executor_submit, spn_future_submit and spn_executor_call, when
 *                 they are called; an spn_job, when it is handed to execute; a task of
 *                 an spn_group; a stage of a future, when it is attached, with an executor
 *                 and without.  A plain spn_task has no room and carries none.
 *   restored      on a worker, in a submitter that runs the task itself, in a thread
 *                 that helps while it waits: around the function and nothing else.  What
 *                 was current there before is current again afterwards.
 *   let go        as soon as the function has returned, or it is certain that it will
 *                 not be called.
 *
 * A task that captured nothing runs without a context, not with that of the thread it
 * happens to run on.
 *
 * Threads     every call is safe from any thread.  None blocks.
 * Ownership   reference counted; see each call.
 */
typedef struct spn_context spn_context;

/* The longest trace id, in bytes. */
#define SPN_CONTEXT_TRACE_MAX 64
/* The most values one create may add. */
#define SPN_CONTEXT_VALUES_MAX 64

/*
 * A value.  The key is an address, that of a variable of yours, say: two parts of a
 * program never clash.  The value is the context's from a successful create on;
 * release(value), unless NULL, is called when the context ends, on whichever thread
 * drops its last reference.
 */
typedef struct spn_context_value {
    const void *key; /* not NULL */
    void *value;
    void (*release)(void *value);
} spn_context_value;

/* Zero means default.  Append only. */
typedef struct spn_context_opts {
    size_t size;         /* sizeof(spn_context_opts), set by _INIT                */
    spn_context *parent; /* its trace id, deadline and values are this one's too,
                              unless given here; it takes a reference.  NULL: none  */
    const void *trace;   /* copied: bytes or text, as you like.  NULL: the parent's */
    size_t trace_size;   /* of trace; at most SPN_CONTEXT_TRACE_MAX               */
    int64_t deadline_ns; /* on spn_now's clock; the earlier of this and the parent's
                              counts.  0: the parent's                              */
    const spn_context_value *values; /* copied; of equal keys the last counts       */
    size_t value_count;
} spn_context_opts;

#define SPN_CONTEXT_OPTS_INIT                                \
    {                                                        \
        sizeof(spn_context_opts), NULL, NULL, 0, 0, NULL, 0, \
    }

/*
 * create: stores a context with one reference, the caller's, in *out; on failure *out
 *         is NULL and the values are still the caller's.  opts may be NULL: empty.
 * ref:    one reference more; returns the context.  NULL gives NULL.
 * unref:  one less; the last one ends it.  NULL is a no-op.
 * Returns  create: SPN_OK; SPN_EINVAL (trace too long or NULL with a size, a negative
 *          deadline, too many values, a NULL key); SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_context_create(spn_context **out, const spn_context_opts *opts);
SPN_API spn_context *spn_context_ref(spn_context *context);
SPN_API void spn_context_unref(spn_context *context);

/*
 * What it carries.  NULL asks an empty context.
 *
 * trace:     the trace id, borrowed from the context; NULL, and 0 in *trace_size, if it
 *            has none.  trace_size may be NULL.  A NUL follows the bytes, which is not
 *            counted.
 * remaining: nanoseconds until the deadline, 0 if it has passed, SPN_FOREVER if there is none:
 *            a timeout to wait with.
 * get:       the value of a key, its own or an ancestor's; NULL if there is none.
 * Since    0.1
 */
SPN_API const void *spn_context_trace(const spn_context *context, size_t *trace_size);
SPN_API int64_t spn_context_remaining(const spn_context *context);
SPN_API void *spn_context_get(const spn_context *context, const void *key);

/* The calling thread's current context, borrowed as long as it is current; NULL:
 * none.  Since 0.1 */
SPN_API spn_context *spn_context_current(void);

/* A stretch of code with a context; on the stack, say.  The library's to fill. */
typedef struct spn_context_scope {
    spn_context *outer;   /* was current before    */
    spn_context *context; /* is current inside     */
    void *thread;         /* who entered           */
    void *spare;
} spn_context_scope;

#define SPN_CONTEXT_SCOPE_INIT  \
    {                           \
        NULL, NULL, NULL, NULL, \
    }

/*
 * enter: makes `context` current on the calling thread until leave; NULL: none is.
 *        Scopes nest.  Takes no reference: keep yours until you have left.
 * leave: puts back what was current before.  On the thread that entered, the scope
 *        entered last first.
 * A scope that is still open when its task ends is closed with it: it does not reach
 * the next task, and must not be left any more.
 *
 * Returns  enter: SPN_OK; SPN_EINVAL (scope is NULL); SPN_ENOMEM (no memory for the
 *          calling thread's record).
 *          leave: SPN_OK; SPN_EINVAL (NULL); SPN_ESTATE, and nothing changes: it was
 *          not entered, was left, is another thread's, or is not the innermost.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_context_enter(spn_context_scope *scope, spn_context *context);
SPN_API int spn_context_leave(spn_context_scope *scope);

#ifdef __cplusplus
}
#endif
#endif /* SPN_CONTEXT_H */
