/* SPDX-License-Identifier: MIT */
#ifndef SPN_GROUP_H
#define SPN_GROUP_H

#include <spindle/cancel.h>
#include <spindle/executor.h>
#include <spindle/future.h>
#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A group of tasks that belong together: they are submitted to any executors, waited
 * for together and cancelled together, so that none outlives the call that began them.
 *
 * Lifecycle   create -> submit... -> wait -> destroy
 * Live        a task from submit until its function has returned or it is certain that
 *             it will not run: a task whose future was cancelled while it runs is live.
 * Groups in groups   a group with a parent: what is live in it is live in the parent, its
 *             first error is the parent's too if that has none, and it is cancelled with
 *             the parent.
 * Threads     every call is safe from any thread, tasks of the group included, except
 *             wait (SPN_EDEADLK from a task of the group) and destroy: no other call on
 *             the group may be under way then.
 * Ownership   arguments are borrowed until the task is not live any more.  Executors are
 *             borrowed for as long as a task of theirs is live.
 */
typedef struct spn_group spn_group;

/* Zero means default.  Append only. */
typedef struct spn_group_opts {
    size_t size;              /* sizeof(spn_group_opts), set by _INIT                */
    spn_group *parent;        /* borrowed until destroy; NULL: none                  */
    spn_cancel_token *token;  /* cancels the group; it takes a reference.  Not with a
                                 parent.  NULL: none                                 */
    uint32_t cancel_on_error; /* 1: the first task that fails cancels the others     */
    uint32_t interrupt;       /* 1: being cancelled by a token or an error interrupts
                                 the tasks that run                                  */
} spn_group_opts;

#define SPN_GROUP_OPTS_INIT                       \
    {                                             \
        sizeof(spn_group_opts), NULL, NULL, 0, 0, \
    }

/*
 * create:  stores a group in *out; on failure *out is NULL.  opts may be NULL.
 * destroy: frees it; NULL is a no-op.
 * Returns  create: SPN_OK; SPN_EINVAL (parent and token both given; a flag
 *          that is neither 0 nor 1); SPN_ENOMEM.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing: a task is live, a thread
 *          waits, a group in it exists, or it is called from inside its cancelling.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_group_create(spn_group **out, const spn_group_opts *opts);
SPN_API int spn_group_destroy(spn_group *group);

/*
 * Has the executor run fn(arg, &result) as a task of the group: one allocation.  The
 * future goes to *out, with a reference; out may be NULL, then the result is lost.
 * Cancelling the future takes the task back from the executor where that is supported
 * (spn_executor_remove), so that nothing waits there in vain.  Captures the context.
 *
 * Returns  SPN_OK; SPN_EINVAL; SPN_ENOMEM; SPN_ECANCELED: the group is cancelled; what
 *          the executor refuses with.  On failure *out is NULL and fn will not run.
 * Orders   what precedes happens-before fn(arg).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_group_submit(spn_group *group, spn_executor *executor, spn_call_fn fn,
                     void *arg, spn_future **out);

/*
 * Waits until no task of the group or of a group in it is live, up to timeout_ns (0 or
 * less: only looks).  Interruptible.  How the tasks ended is for spn_group_error and
 * spn_group_stats_get to tell.
 *
 * Returns  SPN_OK; SPN_ETIMEDOUT; SPN_EINTR; SPN_EDEADLK: the caller runs a task of the
 *          group, or of one in it; SPN_EINVAL (NULL); SPN_ENOMEM (no memory for the
 *          calling thread's record).
 * Orders   all that the tasks did happens-before.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_group_wait(spn_group *group, int64_t timeout_ns);

/*
 * Cancels the group's token with the reason (negative), the groups in it, and the futures
 * of all tasks: those that have not started never will, those that run can see it by the
 * token, and with may_interrupt not 0 their threads are interrupted, but not the calling
 * one.  Later submits are refused.  May be called again, to interrupt what did not end by
 * itself.  Runs callbacks and hooks of futures, and those of tokens, on this thread; does
 * not wait for tasks.  Executors of live tasks must not be destroyed meanwhile.
 *
 * Returns  1 if this call cancelled it; 0 if it was; SPN_EINVAL (NULL; a reason that is
 *          not negative).
 * Since    0.1
 */
SPN_API int spn_group_cancel(spn_group *group, int reason, int may_interrupt);

/* The group's own token, borrowed as long as the group is; NULL for NULL.  Cancelling
 * it cancels the group.  Since 0.1 */
SPN_API spn_cancel_token *spn_group_token(spn_group *group);

/* The group whose task the calling thread is running, the innermost; NULL: none.
 * Since 0.1 */
SPN_API spn_group *spn_group_current(void);

/*
 * The failure that came first: its code in *code (may be NULL), its message in buf, cut
 * to capacity with a final NUL (buf may be NULL if capacity is 0).  Cancelled tasks have
 * not failed.
 * Returns  SPN_OK; SPN_ESTATE: none has failed; SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_group_error(spn_group *group, int *code, char *buf, size_t capacity);

/* How the tasks fared, groups in it included: submitted is the sum of the others, at
 * every moment.  Set size before (SPN_GROUP_STATS_INIT). */
typedef struct spn_group_stats {
    size_t size;
    int64_t submitted; /* accepted by an executor, or on the way there      */
    int64_t live;
    int64_t succeeded;
    int64_t failed;
    int64_t cancelled; /* before they started or while they ran             */
} spn_group_stats;

#define SPN_GROUP_STATS_INIT                    \
    {                                           \
        sizeof(spn_group_stats), 0, 0, 0, 0, 0, \
    }

/*
 * All of it in one moment.
 * Returns  SPN_OK, SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_group_stats_get(spn_group *group, spn_group_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* SPN_GROUP_H */
