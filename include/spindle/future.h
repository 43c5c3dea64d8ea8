/* SPDX-License-Identifier: MIT */
#ifndef SPN_FUTURE_H
#define SPN_FUTURE_H

#include <spindle/executor.h>
#include <spindle/status.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A future: an outcome that will be there once, and those who want it.
 *
 * Two kinds   a task future has a function that run calls (spn_future_create_task,
 *             spn_executor_submit); a promise is completed by hand or is a stage
 *             made from other futures.  All calls work on both but for what needs
 *             the function; the one other difference is cancel.
 * Outcome     a value (any pointer, NULL too), a failure (a cause: a code and a
 *             message) or cancelled.  The first one stays; all later tries to
 *             complete it change nothing.
 * Ownership   reference counted.  Whoever got a reference drops it, and whoever
 *             makes a call on a future holds one for as long as the call lasts; an
 *             executor and a blocked getter hold their own.  Dropping a reference
 *             does not cancel.  When the last one goes and there is no outcome,
 *             nobody could ever give it one: stages made from it fail then, with
 *             the cause SPN_ECANCELED and the message "abandoned".
 * Threads     every call is safe from any thread.
 * Callbacks   run with no lock held and may use any future, this one too.  Each
 *             comment says on which thread.  A C++ exception that leaves one ends
 *             the process.
 * Memory      completing and cancelling allocate nothing and cannot fail.
 */
typedef struct spn_future spn_future;

typedef enum spn_future_state {
    SPN_FUTURE_PENDING = 0,
    SPN_FUTURE_SUCCEEDED = 1,
    SPN_FUTURE_FAILED = 2,
    SPN_FUTURE_CANCELED = 3
} spn_future_state;

/* What a task future calls: returns 0 and may set *result (NULL before), or
 * another number, the code of the failure.  See spn_future_fail for a message. */
typedef int (*spn_call_fn)(void *arg, void **result);

/* Frees the value of a future. */
typedef void (*spn_drop_value_fn)(void *value);

/* Zero means default.  Append only. */
typedef struct spn_future_opts {
    size_t size; /* sizeof(spn_future_opts), set by _INIT */
    /*
     * Frees a value, other than NULL, that nobody else will.  Called once, by whoever drops the last
     * reference, if the future succeeded and its value was never read; or by run,
     * at once, for a result that came after the future was cancelled or completed
     * by hand.  A value is read when get or result gave it out
     * or a stage's function was called with it, also through a stage that passes
     * the value on; after that it is the readers'.  A value that complete refused
     * stays its caller's.  For a stage see spn_future_set_drop_value.
     */
    spn_drop_value_fn drop_value;
    /* Called once when the future is done, on the thread that completed it, after
     * those who wait have been released. */
    void (*done)(spn_future *future, void *done_arg);
    void *done_arg;
    /* Task futures: gives arg back as soon as the future is done and fn is not
     * running, once, on the thread where that became so. */
    void (*release_arg)(void *arg);
} spn_future_opts;

#define SPN_FUTURE_OPTS_INIT                             \
    {                                                    \
        sizeof(spn_future_opts), NULL, NULL, NULL, NULL, \
    }

/* A failure's message is copied and cut to this many bytes, its NUL included. */
#define SPN_FUTURE_MESSAGE_MAX 96

/* ---- making and keeping ------------------------------------------------- */

/*
 * create: a promise without an outcome.
 * create_completed, create_failed: a promise that has one already; code is not 0,
 * message may be NULL.
 * create_task: a task future that will call fn(arg).  arg is borrowed until
 * release_arg, or without that until the future is done and fn has returned.
 * opts may be NULL.  On failure *out is NULL.
 *
 * Returns  SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_future_create(spn_future **out, const spn_future_opts *opts);
SPN_API SPN_NODISCARD
int spn_future_create_completed(spn_future **out, void *value);
SPN_API SPN_NODISCARD
int spn_future_create_failed(spn_future **out, int code, const char *message);
SPN_API SPN_NODISCARD
int spn_future_create_task(spn_future **out, spn_call_fn fn, void *arg,
                           const spn_future_opts *opts);

/* Adds a reference and returns its argument; drops one.  NULL is a no-op.  unref
 * may run drop_value and, for a future without an outcome, stages.  Since 0.1 */
SPN_API spn_future *spn_future_ref(spn_future *future);
SPN_API void spn_future_unref(spn_future *future);

/*
 * Sets drop_value, as in the options, of a future that has none or another one: a
 * stage, above all, whose value its function makes.  NULL: nobody frees the value.
 * It counts from now on, also if there is a value already that nobody has read; a
 * value that was read, or that a stage has passed on, is the readers' as before.  A
 * stage that passes on the value of a future with a drop_value leaves it to that
 * one.  Set it before another thread may complete or cancel the stage: a value that
 * comes later than that is dropped at once, if it is set by then.
 *
 * Returns  SPN_OK, SPN_EINVAL (future NULL).
 * Since    0.1
 */
SPN_API int spn_future_set_drop_value(spn_future *future, spn_drop_value_fn drop_value);

/* ---- asking ------------------------------------------------------------- */

/*
 * None of these blocks or touches the interrupt flag.
 *
 * get_state:  an spn_future_state.  Once it is not SPN_FUTURE_PENDING, get returns at
 *             once, and what precedes the completion happens-before.  A stage of a
 *             cancelled future has failed.
 * dependents: how many stages and poll sets wait for it, about.
 * Returns  what was asked for, or SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_future_get_state(const spn_future *future);
SPN_API int32_t spn_future_dependents(spn_future *future);

/* "pending", "succeeded", "failed", "cancelled"; "unknown" for another number. */
SPN_API const char *spn_future_state_name(int state);

/* How a future ended.  Its size is fixed: what is added takes `reserved`, which is 0. */
typedef struct spn_outcome {
    int32_t status;      /* SPN_OK, SPN_EFAILED or SPN_ECANCELED, as from get    */
    int32_t code;        /* 0, the code of the cause, or SPN_ECANCELED           */
    void *value;         /* NULL unless SPN_OK                                   */
    const char *message; /* of the cause; "" if it has none                 */
    uint32_t derived;    /* 1: the failure came from a future this one is made of,
                            or from the function of a stage */
    uint32_t reserved;
} spn_outcome;

/*
 * Stores how the future ended in *outcome, without waiting.  A stage that failed because
 * of another future has that one's code and message, however many stages lie between.
 * The message is valid as long as the caller's reference to the future.
 *
 * Returns  the status in *outcome: SPN_OK, SPN_EFAILED, SPN_ECANCELED; SPN_ESTATE while
 *          there is no outcome, and then *outcome has neither value nor code.
 *          SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_future_result(spn_future *future, spn_outcome *outcome);

/* ---- waiting ------------------------------------------------------------ */

/*
 * Waits up to timeout_ns for the outcome and stores the value in *value (may be NULL),
 * which stays as it is unless the future succeeded.  A timeout of 0 only looks.
 * Interruptible, but a future that is done answers at once, whatever the timeout and the
 * interrupt flag.  Inside an executor whose wait_begin runs tasks (executor.h), get may
 * call the function if it has not started: then get takes at least as long as that.
 *
 * Returns  SPN_OK; SPN_EFAILED (spn_future_result tells why); SPN_ECANCELED;
 *          SPN_ETIMEDOUT; SPN_EINTR; SPN_EINVAL (NULL); SPN_ENOMEM (no memory for the
 *          calling thread's record); SPN_EDEADLK (a thread of the executor that was to
 *          run it would wait for itself; the executor decides: a pool refuses no wait
 *          that ends at a deadline).
 * Orders   what precedes the completion, and all that fn did, happens-before.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_future_get(spn_future *future, void **value, int64_t timeout_ns);

/* ---- completing --------------------------------------------------------- */

/*
 * Gives the future its outcome, if it has none, on behalf of whatever it is.  The
 * thread that does so releases those who wait and runs the stages that were made
 * without an executor, before the call returns.  code is not 0; message may be
 * NULL and is copied.  Never blocks, but for the moment in which another thread is
 * just writing the outcome.
 *
 * Returns  1 if this call completed it, 0 if it is done; SPN_EINVAL.
 * Orders   what precedes happens-before every get that sees the outcome and every
 *          stage's function.
 * Since    0.1
 */
SPN_API int spn_future_complete(spn_future *future, void *value);
SPN_API int spn_future_complete_error(spn_future *future, int code,
                                      const char *message);

/*
 * Cancels: waiters get SPN_ECANCELED at once.  With may_interrupt not 0, the thread
 * that is running a task future's function is interrupted; the interrupt comes
 * before run returns and never later, but may still be pending then.  A promise
 * has nobody to interrupt.
 *
 * Returns  1 if the future is cancelled by this call; 0 if it was done; for a
 *          promise that was cancelled before, 1 again.  SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_future_cancel(spn_future *future, int may_interrupt);

/* ---- task futures ------------------------------------------------------- */

/*
 * run: calls the function on this thread and completes the future with what it
 *      returns, if nobody has run it or is running it and it is not done.
 * run_and_reset: the same, but success leaves the future as it was, for the next
 *      time; only a failure completes it.  The result is dropped (drop_value).
 * A function that ends a pool's thread has failed, with the code SPN_EFAILED; one that ends
 * another thread, and a stage that runs inline: see pthread_exit in thread.h.
 *
 * Returns  run: 1 if the function was called, else 0.  run_and_reset: 1 if the
 *          function succeeded and the future can run again, else 0.  SPN_EINVAL
 *          (NULL, or a promise).
 * Since    0.1
 */
SPN_API int spn_future_run(spn_future *future);
SPN_API int spn_future_run_and_reset(spn_future *future);

/*
 * Has an executor run a task future, once; the executor holds a reference until
 * it has.  If the executor drops it instead, the future is cancelled (reason
 * SPN_ECANCELED) or fails with the reason as its code.  A future cancelled while
 * it waits is not run.
 *
 * Returns  SPN_OK; SPN_EINVAL (NULL, a promise); SPN_EBUSY (an executor has it
 *          already); what else the executor refuses with.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_future_submit(spn_future *future, spn_executor *executor);

/*
 * The future whose task this is, for whoever gets tasks back from an executor
 * (remove, shutdown_now): borrowed, as the task's own reference keeps it until
 * spn_task_run or spn_task_drop has been entered.  Never blocks.
 * Returns  NULL if the task is no submitted future's, or NULL.
 * Since    0.1
 */
SPN_API spn_future *spn_future_of_task(spn_task *task);

/*
 * Makes a task future and has the executor run it: one allocation.
 * submit:      fn(arg, &result).
 * submit_with: the same with options for the future; opts may be NULL.
 * submit_run:  run(arg), and the future's value is `value`, from when it has run.
 * Returns  SPN_OK; SPN_EINVAL; SPN_ENOMEM; what the executor refuses with.  On
 *          failure *out is NULL and fn will not run; release_arg is not called.
 * Orders   what precedes happens-before fn(arg).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_executor_submit(spn_executor *executor, spn_call_fn fn, void *arg,
                        spn_future **out);
SPN_API SPN_NODISCARD
int spn_executor_submit_with(spn_executor *executor, spn_call_fn fn, void *arg,
                             const spn_future_opts *opts, spn_future **out);
SPN_API SPN_NODISCARD
int spn_executor_submit_run(spn_executor *executor, spn_run_fn run, void *arg,
                            void *value, spn_future **out);

/*
 * Inside a function that a future called: records the message for the failure the
 * function is about to report, and returns code:
 *     return spn_future_fail(-5, "the disk is gone");
 * Elsewhere, and on a thread without a record, only the code counts.
 * Since    0.1
 */
SPN_API int spn_future_fail(int code, const char *message);

/* ---- stages ------------------------------------------------------------- */

/* Functions of stages: 0 is success, another number the code of a failure.  An outcome
 * is valid during the call. */
typedef int (*spn_then_fn)(void *arg, void *value, void **result);
typedef int (*spn_handle_fn)(void *arg, const spn_outcome *outcome, void **result);
typedef int (*spn_compose_fn)(void *arg, void *value, spn_future **next);
typedef int (*spn_combine_fn)(void *arg, void *first, void *second, void **result);

/*
 * A stage is a promise that completes by itself when the futures it is made of
 * do.  Its function is called once, or not at all if the stage was completed or
 * cancelled before.
 *
 * executor      runs the function.  If it refuses or drops the task, the stage fails
 *               with that status as its cause.  The executor must stay until then: a
 *               pool, fork/join pool, limiter, scheduled or serial executor may end
 *               before, but its destroy says SPN_EBUSY while the stage waits.
 *               NULL: inline.  The function runs in the thread that completes the
 *               source, inside its complete, cancel, run or unref; or in the thread that
 *               makes the stage, before the call returns, if the source is done already.
 * Failure       a source that failed or was cancelled fails the stage with the same
 *               cause and without calling the function, except in handle.  A function
 *               that returns non-zero fails the stage with that code.  Both are marked
 *               as derived.
 * Many          chains and fans of any length complete without recursion, as long
 *               as functions do not complete futures by hand.  The order in which
 *               the stages of one future run is not specified.
 * Ownership     *out gets a reference to the new stage.  A stage does not need it
 *               to run.  Sources are borrowed for the call.  arg is borrowed until
 *               the stage is done.
 *
 * then           fn(arg, value, &result) after success; the result is the stage's
 *                value.
 * handle         fn(arg, outcome, &result) after every outcome; the result replaces it.
 *                A function that wants the outcome to pass through ends with
 *                    *result = outcome->value;
 *                    return spn_future_fail(outcome->code, outcome->message);
 * compose        fn(arg, value, &next) after success; the stage then mirrors the
 *                future `next`, taking over the reference.  NULL is a failure with
 *                the code SPN_EINVAL, and the stage itself one with SPN_EDEADLK.
 *                Longer circles are not found: stages that wait for each other keep
 *                each other, and leak until one is completed or cancelled by hand.
 * combine        fn(arg, first's value, second's value, &result) when both have
 *                succeeded; waits for both also if one failed.  They may be the
 *                same future.
 * either         fn(arg, value, &result) with the one that is done first; if that
 *                one failed, so does the stage.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL but executor and arg); SPN_ENOMEM.  On failure
 *          *out is NULL, and no executor was asked.
 * Orders   what precedes the source's completion happens-before fn.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_future_then(spn_future *future, spn_executor *executor, spn_then_fn fn,
                    void *arg, spn_future **out);
SPN_API SPN_NODISCARD
int spn_future_handle(spn_future *future, spn_executor *executor, spn_handle_fn fn,
                      void *arg, spn_future **out);
SPN_API SPN_NODISCARD
int spn_future_compose(spn_future *future, spn_executor *executor, spn_compose_fn fn,
                       void *arg, spn_future **out);
SPN_API SPN_NODISCARD
int spn_future_combine(spn_future *first, spn_future *second, spn_executor *executor,
                       spn_combine_fn fn, void *arg, spn_future **out);
SPN_API SPN_NODISCARD
int spn_future_either(spn_future *first, spn_future *second, spn_executor *executor,
                      spn_then_fn fn, void *arg, spn_future **out);

/*
 * Stages without a function.
 * all_of: done when all are, with the value NULL, or failed if one of them did;
 *         no futures at all are all done.
 * any_of: the outcome of the first one that is done; of none, never done by itself.  Of
 *         one it is a copy: completing that leaves the future alone.
 * The array is borrowed for the call and may name a future twice.
 *
 * Returns  SPN_OK; SPN_EINVAL (NULL, also as an entry); SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_future_all_of(spn_future *const *futures, size_t count, spn_future **out);
SPN_API SPN_NODISCARD
int spn_future_any_of(spn_future *const *futures, size_t count, spn_future **out);

#ifdef __cplusplus
}
#endif
#endif /* SPN_FUTURE_H */
