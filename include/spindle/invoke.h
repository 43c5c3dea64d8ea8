/* SPDX-License-Identifier: MIT */
#ifndef SPN_INVOKE_H
#define SPN_INVOKE_H

#include <spindle/future.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Several functions at once on an executor, and the wait for all of them or for the
 * first that succeeds.
 *
 * Ownership   the array of calls is read before anything starts and not afterwards;
 *             each arg is borrowed until its function has returned, which may be
 *             after the call.  With opts->release_arg every arg is given back once,
 *             whatever the call returns but SPN_EINVAL.
 * Blocking    both calls wait, interruptibly.  A thread of the executor itself
 *             may make them where it may wait for one future: see
 *             spn_future_get about SPN_EDEADLK.
 * The end     spn_executor_shutdown_now releases whoever waits here: what had not
 *             started is cancelled as well as given back.
 */
typedef struct spn_call {
    spn_call_fn fn;
    void *arg;
} spn_call;

/*
 * Has all calls run and waits until each has an outcome; futures[i] then gets a
 * reference to the future of calls[i], which is done.  A failure is in its future
 * and does not end the wait.  With a timeout, what is not done by then is
 * cancelled, its thread interrupted, and the call still succeeds; a timeout of 0 or
 * less starts nothing, and all are cancelled.  opts, which may be NULL, are those of
 * every future.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL, also among the functions; count may be 0);
 *          SPN_ENOMEM; SPN_EREJECTED (the executor is shut down, or what else it
 *          refuses a task with); SPN_EINTR; SPN_EDEADLK.  On failure what had
 *          started is cancelled, its threads interrupted, and every futures[i] is
 *          NULL.
 * Orders   what precedes happens-before each function, and they before the return,
 *          but for those that were cancelled.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_executor_invoke_all(spn_executor *executor, const spn_call *calls, size_t count,
                            int64_t timeout_ns, const spn_future_opts *opts,
                            spn_future **futures);

/*
 * Has the calls run, one after another until one has succeeded, each started while
 * none has, and waits for the first success: its value goes to *value and a reference
 * to its future to *decider (both may be NULL).  All others are cancelled then, their
 * threads interrupted; what had not started never does.  If every one fails, *decider
 * is the last that did.
 *
 * Returns  SPN_OK; SPN_EFAILED (all of them did: spn_future_result of *decider tells
 *          why); SPN_ETIMEDOUT (none succeeded in time, or a timeout of 0 or less, which
 *          starts nothing); SPN_EINTR; SPN_EDEADLK; SPN_EINVAL (a NULL, also among
 *          the functions; no calls); SPN_ENOMEM; SPN_EREJECTED, as above.  *value and
 *          *decider are NULL but for SPN_OK, and *decider for SPN_EFAILED.
 * Orders   what precedes happens-before each function, and the successful one before
 *          the return.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_executor_invoke_any(spn_executor *executor, const spn_call *calls, size_t count,
                            int64_t timeout_ns, const spn_future_opts *opts,
                            void **value, spn_future **decider);

#ifdef __cplusplus
}
#endif
#endif /* SPN_INVOKE_H */
