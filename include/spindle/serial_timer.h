/* SPDX-License-Identifier: MIT */
#ifndef SPN_SERIAL_TIMER_H
#define SPN_SERIAL_TIMER_H

#include <spindle/scheduled.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The serial timer, after java.util.Timer: one thread of its own runs tasks at their
 * times, one after another.  It is a scheduled executor (scheduled.h) with one thread;
 * take that one if tasks should not wait for each other, or the wheel (timer.h) for
 * very many.
 *
 * Lifecycle   create -> schedule... -> cancel -> await -> destroy.  The thread is
 *             started by the first task and stays until cancel.
 * A task      is made once and scheduled once, on one timer.  The timer holds a reference
 *             of its own while the task waits or runs.
 * A failure   of a task is reported and the timer goes on; so does the task, if it is
 *             repeated.  (In Java one failure ends the timer.)
 * Threads     every call is safe from any thread, tasks included.
 */
typedef struct spn_serial_timer spn_serial_timer;
typedef struct spn_serial_task spn_serial_task;

/* Zero means default.  Append only. */
typedef struct spn_serial_timer_opts {
    size_t size;      /* sizeof(spn_serial_timer_opts), set by _INIT                 */
    const char *name; /* its thread is "name-thread-1"; copied.  NULL: "pool-N"      */
    spn_clock *clock; /* borrowed for the timer's life.  NULL: the monotonic one     */
    const spn_thread_factory *factory; /* as in spn_pool_opts                        */
    const spn_thread_opts *thread;     /* as in spn_pool_opts                        */
    /* A task has failed with `code`; on the timer's thread, with no lock held.  NULL: it
     * is logged as a warning. */
    void (*failed)(spn_serial_timer *timer, spn_serial_task *task, int code, void *ctx);
    void *ctx;
} spn_serial_timer_opts;

#define SPN_SERIAL_TIMER_OPTS_INIT                                        \
    {                                                                     \
        sizeof(spn_serial_timer_opts), NULL, NULL, NULL, NULL, NULL, NULL \
    }

/*
 * Creates a timer in *out; opts may be NULL.  Starts no thread.
 * Returns  SPN_OK; SPN_EINVAL; SPN_ENOMEM.  On failure *out is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_serial_timer_create(spn_serial_timer **out, const spn_serial_timer_opts *opts);

/*
 * Frees a timer that was cancelled and has ended; NULL is a no-op.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing.
 * Since    0.1
 */
SPN_API int spn_serial_timer_destroy(spn_serial_timer *timer);

/*
 * cancel: no task starts from now on; the one that runs finishes, also if it is the one
 *         that calls this.  Those that wait are cancelled.  A second call changes nothing.
 * await:  waits until a cancelled timer has ended; as spn_executor_await.
 * Returns  SPN_OK; SPN_EINVAL; await: SPN_ETIMEDOUT, SPN_EINTR, SPN_EDEADLK (from one of
 *          its tasks).
 * Since    0.1
 */
SPN_API int spn_serial_timer_cancel(spn_serial_timer *timer);
SPN_API SPN_NODISCARD
int spn_serial_timer_await(spn_serial_timer *timer, int64_t timeout_ns);

/* How many tasks wait, or SPN_EINVAL for NULL.  Since 0.1 */
SPN_API int64_t spn_serial_timer_pending(spn_serial_timer *timer);

/*
 * create: makes a task that will call run(arg), in *out, with one reference.  arg is
 *         borrowed as long as the task may run.
 * unref:  drops the reference; NULL is a no-op.
 * Returns  create: SPN_OK, SPN_EINVAL, SPN_ENOMEM; on failure *out is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_serial_task_create(spn_serial_task **out, spn_run_fn run, void *arg);
SPN_API void spn_serial_task_unref(spn_serial_task *task);

/*
 * Cancels a task; a run that is going on finishes.
 * Returns  1 if this prevents at least one run: it waits, or is repeated and not
 *          cancelled; 0 if it was never scheduled, is or was running for the only time,
 *          or was cancelled before.  It cannot be scheduled afterwards.  SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_serial_task_cancel(spn_serial_task *task);

/*
 * When the most recent run was due, or the one that goes on, on the timer's clock, in
 * *due_ns: a task compares it with the clock to learn how late it is.
 * Returns  SPN_OK; SPN_ESTATE (it never ran); SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_serial_task_scheduled_time(spn_serial_task *task, int64_t *due_ns);

/*
 * Has the task run delay_ns from now; schedule_at: at a time on the timer's clock, which may
 * have passed: then at once.
 * SPN_REPEAT_NONE   once; period_ns is 0.
 * SPN_REPEAT_DELAY  and then again a period after the start of the run before: one that
 *                   comes late moves those after it.
 * SPN_REPEAT_RATE   and then again every period from the first time on: those that were
 *                   missed follow at once.
 *
 * Returns  SPN_OK; SPN_EINVAL (NULL; a delay or a time below 0, or beyond the clock's
 *          end; a period of 0 or less for one that repeats; another repeat); SPN_ESTATE:
 *          the task was scheduled or cancelled before, or the timer was cancelled;
 *          SPN_ENOMEM; SPN_EAGAIN (no thread).  After SPN_ENOMEM and SPN_EAGAIN it may be
 *          tried again.
 * Orders   what precedes happens-before the first run, and each task before the next.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_serial_timer_schedule(spn_serial_timer *timer, spn_serial_task *task,
                              int64_t delay_ns, int repeat, int64_t period_ns);
SPN_API SPN_NODISCARD
int spn_serial_timer_schedule_at(spn_serial_timer *timer, spn_serial_task *task,
                                 int64_t at_ns, int repeat, int64_t period_ns);

#ifdef __cplusplus
}
#endif
#endif /* SPN_SERIAL_TIMER_H */
