/* SPDX-License-Identifier: MIT */
#ifndef SPN_THREADLESS_H
#define SPN_THREADLESS_H

#include <spindle/future.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The threadless executor: a thread that waits for an answer lends itself to run what
 * brings it, so that a synchronous call costs no hop to another thread.
 *
 * Lifecycle   create -> hand it out as an executor -> wait_and_drain, once -> destroy
 * Before and while that thread waits
 *             tasks are queued for it.  The first one ends the wait; it then runs all
 *             that were queued.
 * Once the wait is over
 *             for whatever reason, later tasks go to the shared executor.
 * Threads     every call is safe from any thread; one at a time waits.
 * The wait    is always finite: it ends with a task, with the outcome of the waiting
 *             future, with notify_return, shutdown, an interrupt or its timeout,
 *             which must not be SPN_FOREVER.
 */
typedef struct spn_threadless spn_threadless;

/*
 * Creates one in *out.  shared is the executor for what comes when the wait is over,
 * borrowed until destroy; with NULL such tasks are refused with SPN_EREJECTED.
 * Returns  SPN_OK; SPN_EINVAL (out is NULL); SPN_ENOMEM.  On failure *out is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_threadless_create(spn_threadless **out, spn_executor *shared);

/*
 * Frees it; NULL is a no-op.  What the shared executor has it has.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing while tasks wait or run, or a
 *          thread waits.
 * Since    0.1
 */
SPN_API int spn_threadless_destroy(spn_threadless *threadless);

/* As an executor, borrowed: valid as long as it is.  NULL for NULL.  shutdown and
 * shutdown_now end the wait and fail the waiting future with SPN_ESHUTDOWN, unless a
 * task that is queued gives it another outcome; await waits until nothing is
 * queued and nothing runs.  The thread that drains is its own and is not interrupted.
 * Since 0.1 */
SPN_API spn_executor *spn_threadless_executor(spn_threadless *threadless);

/*
 * Says which future the thread waits for; a reference is kept until it is done or
 * destroy.  A promise as well as a task future; its outcome ends the wait.
 * Returns  SPN_OK; SPN_EINVAL (a NULL); SPN_ESTATE (there is one already).
 * Since    0.1
 */
SPN_API int spn_threadless_set_future(spn_threadless *threadless, spn_future *future);

/*
 * Waits for a task, up to timeout_ns, and runs it and all that are queued by then, on
 * this thread; interruptible while it waits.  Then the wait is over.  A task that
 * fails is logged as a warning and does not stop the rest.  If the wait was over
 * already, returns at once.
 *
 * Returns  SPN_OK (tasks have run, or the future is done, or notify_return was called,
 *          or the wait was over before); SPN_ETIMEDOUT; SPN_EINTR; SPN_ESHUTDOWN
 *          (nothing ran and nothing will); SPN_EBUSY (another thread waits here);
 *          SPN_EDEADLK (from a task it runs); SPN_EINVAL (NULL, or SPN_FOREVER);
 *          SPN_ENOMEM (no memory for the calling thread's record).
 * Orders   what precedes execute happens-before the task, and the task before the
 *          return.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_threadless_wait_and_drain(spn_threadless *threadless, int64_t timeout_ns);

/*
 * Fails the waiting future with this cause, if it is not done, and ends the wait: for
 * whoever knows that the answer will not come.  Never blocks; code is not 0, message
 * may be NULL.
 * Returns  1 if the future failed by this; 0 if it was done or there is none;
 *          SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_threadless_notify_return(spn_threadless *threadless, int code,
                                         const char *message);

#ifdef __cplusplus
}
#endif
#endif /* SPN_THREADLESS_H */
