/* SPDX-License-Identifier: MIT */
#ifndef SPN_DELAYED_H
#define SPN_DELAYED_H

#include <spindle/future.h>
#include <spindle/timer.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Futures and executors that know the time, on a timer of the program's.
 *
 *     rc = spn_future_or_timeout(answer, timer, SPN_SEC(3));
 *     ...
 *     rc = spn_future_get(answer, &value, SPN_FOREVER);  // SPN_EFAILED after 3 s
 *
 * The timer   every call names one: there is none that starts by itself.  What is
 *             pending here counts as pending there, and is subject to its max_pending.
 *             The timer must not be destroyed before it was stopped; a stop ends all
 *             that is pending here, see below.
 * Time        as the timer has it: never early.  0 and less: at once, in the calling
 *             thread.  SPN_FOREVER never comes.
 * Threads     every call is safe from any thread.  When the time has come, futures are
 *             completed and tasks handed on where the timer's callbacks run: stages
 *             without an executor run there, too.
 * Memory      one allocation each, freed when the future is done or the time has come,
 *             whichever is first: nothing is left in the timer of a future that is done.
 */

/* Zero means default.  Append only. */
typedef struct spn_or_timeout_opts {
    size_t size; /* sizeof(spn_or_timeout_opts), set by _INIT */
    /* 1: when the time has come, the thread that is running the future's function is
     * interrupted, as by spn_future_cancel: before run returns and never later. */
    uint32_t interrupt;
    uint32_t reserved; /* 0 */
} spn_or_timeout_opts;

#define SPN_OR_TIMEOUT_OPTS_INIT           \
    {                                      \
        sizeof(spn_or_timeout_opts), 0, 0, \
    }

/*
 * or_timeout: if the future is not done timeout_ns from now, it fails, with the cause
 *             SPN_ETIMEDOUT.  A function that runs goes on, and its result is dropped;
 *             a task that waits in a pool's queue does not run, and keeps its place until
 *             the pool needs it or spn_pool_purge.
 * or_timeout_with: the same with options; opts may be NULL.
 * complete_on_timeout: it succeeds with `value` then.  A value that does not become the
 *             outcome is freed by the future's drop_value, if it has one.
 * A future that is done before is not affected, and its entry is taken out of the timer
 * at once.  The timer has a reference until then: dropping all others does not abandon
 * the future.  If the timer is stopped first, the future fails, with the cause
 * SPN_ESHUTDOWN: nobody waits for a timeout that cannot come.  A future may have several.
 *
 * Returns  SPN_OK; SPN_EINVAL (future or timer NULL, bad opts); SPN_ENOMEM; SPN_EREJECTED
 *          (max_pending); SPN_ESTATE (the timer is stopped); what spn_timer_start refuses
 *          with.  On error nothing has changed, and the value is the caller's.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_future_or_timeout(spn_future *future, spn_timer *timer, int64_t timeout_ns);
SPN_API SPN_NODISCARD
int spn_future_or_timeout_with(spn_future *future, spn_timer *timer, int64_t timeout_ns,
                               const spn_or_timeout_opts *opts);
SPN_API SPN_NODISCARD
int spn_future_complete_on_timeout(spn_future *future, spn_timer *timer, void *value,
                                   int64_t timeout_ns);

/*
 * An executor that hands each task to another one, delay_ns after it came.
 *
 * execute     never blocks; refuses as or_timeout does.  A task whose future is cancelled
 *             or completed before leaves the timer at once: it is dropped, on the thread
 *             that did it, with SPN_ECANCELED.  (A future that was submitted, and a stage
 *             made with this executor; not what is behind another executor in front.)
 *             What the other executor refuses is dropped with what it said; what is
 *             pending when the timer stops, with SPN_ESHUTDOWN.
 * The end     it has no shutdown: stop the timer.
 * Ownership   timer and executor must outlive it.
 */
typedef struct spn_delayed_executor spn_delayed_executor;

/*
 * create: makes one and stores it in *out; on failure *out is NULL.
 * destroy: frees it; NULL is a no-op.
 * Returns  create: SPN_OK, SPN_EINVAL (a NULL), SPN_ENOMEM.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing while tasks wait for their
 *          time.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_delayed_executor_create(spn_delayed_executor **out, spn_timer *timer,
                                spn_executor *next, int64_t delay_ns);
SPN_API int spn_delayed_executor_destroy(spn_delayed_executor *delayed);

/* Its executor, borrowed: valid as long as it is.  NULL for NULL.  Since 0.1 */
SPN_API spn_executor *spn_delayed_executor_executor(spn_delayed_executor *delayed);

/* How many tasks wait for their time, or 0 for NULL.  Never blocks.  Since 0.1 */
SPN_API int64_t spn_delayed_executor_pending(const spn_delayed_executor *delayed);

#ifdef __cplusplus
}
#endif
#endif /* SPN_DELAYED_H */
