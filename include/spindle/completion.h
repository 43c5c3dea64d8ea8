/* SPDX-License-Identifier: MIT */
#ifndef SPN_COMPLETION_H
#define SPN_COMPLETION_H

#include <spindle/future.h>
#include <spindle/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A completion service: submits functions to an executor and gives their futures out
 * in the order in which they are done.
 *
 * Lifecycle   create -> submit... and take... -> destroy
 * Threads     every call is safe from any thread.
 * Every future that was submitted here is given out once, when it has an outcome:
 *             a value, a failure, or cancelled.  It is done by then, and its done
 *             hook has run.
 * Memory      delivering allocates nothing and cannot fail, but with a queue of
 *             your own: see create_with.
 * A thread of the executor that waits in take may wait for itself: nobody checks.
 */
typedef struct spn_completion spn_completion;

/*
 * create:      a service in *out over an executor, which is borrowed until destroy.
 * create_with: the same, with a queue of your own for the futures that are done, of
 *              any kind, borrowed until destroy; its items are references, which
 *              take passes on.  A future that the queue refuses at that
 *              moment (full, closed, no memory) is not given out; it is unharmed.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL); SPN_ENOMEM.  On failure *out is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_completion_create(spn_completion **out, spn_executor *executor);
SPN_API SPN_NODISCARD
int spn_completion_create_with(spn_completion **out, spn_executor *executor,
                               spn_queue *queue);

/*
 * Frees the service; NULL is a no-op.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing while a future of its is not done
 *          or not taken, or a thread waits.  With a queue of your own it need not be
 *          taken, but for a moment more it may be under way there.
 * Since    0.1
 */
SPN_API int spn_completion_destroy(spn_completion *completion);

/*
 * As spn_executor_submit_with; the future will be given out by take.  *out, if out is not
 * NULL, gets a reference of its own.  opts may be NULL.
 * Returns  SPN_OK; SPN_EINVAL; SPN_ENOMEM; what the executor refuses with: then
 *          *out is NULL, and nothing will be given out.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_completion_submit(spn_completion *completion, spn_call_fn fn, void *arg,
                          const spn_future_opts *opts, spn_future **out);

/*
 * The future that was done first of those not given out yet, in *future, with a
 * reference that is the caller's: it is the one that submit gave out, and done.
 * Waits up to timeout_ns until there is one, and with 0 not at all; interruptible.  The
 * thread that waits longest is served first.
 *
 * Returns  SPN_OK; SPN_ETIMEDOUT; SPN_EINTR; SPN_ENOMEM (no memory for the calling
 *          thread's record); SPN_EINVAL (a NULL); what a queue of your own says, as
 *          SPN_ECLOSED.  On failure *future is NULL and nothing was taken.
 * Orders   what precedes the future's completion happens-before.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_completion_take(spn_completion *completion, spn_future **future,
                        int64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif /* SPN_COMPLETION_H */
