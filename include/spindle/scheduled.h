/* SPDX-License-Identifier: MIT */
#ifndef SPN_SCHEDULED_H
#define SPN_SCHEDULED_H

#include <spindle/clock.h>
#include <spindle/future.h>
#include <spindle/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The scheduled executor: a thread pool whose tasks wait until they are due, once or
 * again and again.
 *
 * Lifecycle   create -> schedule... -> shutdown -> await -> destroy.  It is a pool: all
 *             of pool.h and executor.h works on spn_scheduled_pool and
 *             spn_scheduled_executor, shutdown, shutdown_now, await, statistics, hooks
 *             and reconfigure among them.  Its queue is unbounded, so it never has more
 *             threads than core_threads, or one if that is 0.
 * Order       by due time; tasks that are due at the same nanosecond run in the order
 *             in which they came.  Never early.  execute, call and submit are tasks due
 *             now.
 * A delay     of 0 or less means now.  One that reaches beyond the clock's end
 *             (INT64_MAX) is never due, and keeps nothing else from running.
 * Threads     every call is safe from any thread, tasks included.  Idle threads wait
 *             without a tick: one for the task that is due next, one more for a moment
 *             (0.2 ms) later, in case the first is busy then, the others for these.
 * Cancelling  a future, or completing it by hand, takes a waiting task out of the queue
 *             at once, in amortized O(log n).  (Java leaves it there until it is due, unless told
 *             otherwise: see remove_on_cancel.)
 * Shutdown    by default delayed tasks still run, and periodic ones are cancelled; one
 *             that is running finishes its run first.  The policies change that.
 * Counters    each run of a periodic task counts as a task.
 * Memory      one block per future or call, none for spn_scheduled_execute; the queue
 *             itself grows by doubling (SPN_ENOMEM if it cannot), without a bound; when more
 *             than 100000 wait it logs one warning in its life.  Re-arming, cancelling
 *             and shutdown allocate nothing; shutdown_now a block for each function that
 *             spn_scheduled_call left waiting, to return it, and without memory for that
 *             counts it as dropped.
 */
typedef struct spn_scheduled spn_scheduled;

/* What becomes of a periodic task whose function fails.  Either way the failure is
 * counted, and reported to `failed`, or logged as a warning. */
typedef enum spn_on_failure {
    SPN_FAILURE_STOP = 0, /* it does not run again; its future keeps the cause       */
    SPN_FAILURE_GO_ON = 1 /* it goes on as if it had succeeded                       */
} spn_on_failure;

typedef enum spn_repeat {
    SPN_REPEAT_NONE = 0,
    SPN_REPEAT_RATE = 1, /* due at first + k * period, whatever a run takes          */
    SPN_REPEAT_DELAY = 2 /* due a period after the end of the run before             */
} spn_repeat;

/* A task, in full.  Zero means default.  Append only. */
typedef struct spn_schedule {
    size_t size;       /* sizeof(spn_schedule), set by _INIT                         */
    spn_call_fn call;  /* the function; or                                           */
    spn_run_fn run;    /* one without a result.  A repeated task has this one        */
    void *arg;         /* borrowed until the future is done and the function returned */
    int64_t delay_ns;  /* until the (first) run                                      */
    int64_t at_ns;     /* not 0: instead of delay_ns, on the executor's clock        */
    int64_t period_ns; /* more than 0 if repeated                                    */
    uint32_t repeat;   /* spn_repeat                                                 */
    uint32_t on_failure; /* spn_on_failure, if repeated                               */
    /* SPN_REPEAT_RATE: runs that are late follow one another at once until they have
     * caught up.  1: they are left out, and the next one is in phase. */
    uint32_t skip_missed;
    uint32_t reserved; /* 0                                               */
    const spn_future_opts
        *future; /* of its future; borrowed for the call.  May be NULL */
} spn_schedule;

#define SPN_SCHEDULE_INIT                                                 \
    {                                                                     \
        sizeof(spn_schedule), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL \
    }

/* Zero means default; where 0 is a value, SPN_DEFAULT does.  Append only. */
typedef struct spn_scheduled_opts {
    size_t size;          /* sizeof(spn_scheduled_opts), set by _INIT                 */
    const char *name;     /* as in spn_pool_opts; copied                              */
    int32_t core_threads; /* SPN_DEFAULT: the CPUs this process may use.  0: a thread is
                             there only while tasks wait or run                       */
    uint32_t fixed;       /* 1: spn_pool_reconfigure gives SPN_ESTATE                 */
    int64_t
        keep_alive_ns; /* for core_threads 0 and core_timeout.  SPN_DEFAULT: 10 ms */
    uint32_t core_timeout; /* as in spn_pool_opts                                    */
    /* Policies: SPN_DEFAULT, 1 (on) or 0 (off). */
    int32_t remove_on_cancel; /* cancelled tasks leave the queue at once; else when they
                                 are due, or by spn_pool_purge.  Default: on           */
    int32_t delayed_after_shutdown;  /* tasks that are not due yet still run; off: they
                                 are cancelled, those that are due run.  Default: on   */
    int32_t periodic_after_shutdown; /* periodic tasks go on, until they fail or are
                                 cancelled.  Default: off                              */
    const spn_reject_policy
        *reject; /* asked after shutdown.  NULL: spn_reject_abort() */
    const spn_thread_factory *factory; /* as in spn_pool_opts                         */
    const spn_thread_opts *thread;     /* as in spn_pool_opts                         */
    spn_clock *clock;     /* borrowed for the executor's life and that of its futures.
                             NULL: spn_clock_monotonic().  Keep-alive is always on that */
    spn_pool_hooks hooks; /* as in spn_pool_opts                                      */
    /*
     * Called once for every future that is scheduled or submitted here, before it is
     * made, on the thread that does so: may change *what (wrap the function, change the
     * times of what is scheduled: what is submitted is due at once), and what it leaves
     * there is what is queued, returned and run.  Non-zero
     * refuses the task with that status; positive: SPN_EREJECTED.  With no lock held.
     */
    int (*decorate)(spn_scheduled *scheduled, spn_schedule *what, void *ctx);
    /* A run of a periodic task has failed with `code`; on the thread that ran it, after
     * the function, with no lock held.  NULL: it is logged as a warning. */
    void (*failed)(spn_scheduled *scheduled, spn_future *future, int code, void *ctx);
    void *ctx; /* for decorate and failed */
} spn_scheduled_opts;

#define SPN_SCHEDULED_OPTS_INIT                                                        \
    {                                                                                  \
        sizeof(spn_scheduled_opts), NULL, SPN_DEFAULT, 0, SPN_DEFAULT, 0, SPN_DEFAULT, \
            SPN_DEFAULT, SPN_DEFAULT, NULL, NULL, NULL, NULL, SPN_POOL_HOOKS_INIT,     \
            NULL, NULL, NULL                                                           \
    }

/* ---- making ------------------------------------------------------------------- */

/*
 * Creates one in *out; on failure *out is NULL and nothing needs undoing.  opts may be
 * NULL for all defaults.  Starts no thread.
 *
 * Returns  SPN_OK; SPN_EINVAL (core < 0, a policy that is neither 0 nor 1, and what
 *          spn_pool_create says); SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_scheduled_create(spn_scheduled **out, const spn_scheduled_opts *opts);

/*
 * Frees a terminated one; NULL is a no-op.  No other call on it may be under way.  Its
 * futures may outlive it.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing while it lives or has stages: see
 *          spn_pool_destroy.
 * Since    0.1
 */
SPN_API int spn_scheduled_destroy(spn_scheduled *scheduled);

/* The executor and the pool it is, borrowed: valid as long as it is.  NULL for NULL.
 * The pool must not be destroyed by itself.  Since 0.1 */
SPN_API spn_executor *spn_scheduled_executor(spn_scheduled *scheduled);
SPN_API spn_pool *spn_scheduled_pool(spn_scheduled *scheduled);

/* Options for so many threads; change what you like, then create.  With one thread tasks
 * run one after another; `fixed` keeps it so.  Since 0.1 */
SPN_API spn_scheduled_opts spn_scheduled_opts_pool(int32_t threads);

/* ---- scheduling --------------------------------------------------------------- */

/*
 * Each has a function called at or after its time, and stores its future in *out.
 *
 * schedule          call(arg, &result) once, delay_ns from now.
 * at_fixed_rate     run(arg) first_ns from now, and then every period_ns from there.
 * with_fixed_delay  run(arg) first_ns from now, and then delay_ns after each end.
 * schedule_with     as `what` says, which is borrowed for the call.
 *
 * The future of a periodic task is not done between runs: get waits until it is
 * cancelled or a run has failed.  One task never runs on two threads at once.  All
 * that spn_executor_submit says holds, too.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL but arg; period_ns or delay_ns of a periodic task
 *          <= 0; a bad `what`); SPN_ENOMEM; SPN_EAGAIN: no thread lives and none can be
 *          made; after shutdown what the policy says, SPN_EREJECTED by default; what
 *          decorate said.  On failure *out is NULL and the function will not run.
 * Orders   what precedes happens-before the first run, and each run before the next.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_scheduled_schedule(spn_scheduled *scheduled, spn_call_fn call, void *arg,
                           int64_t delay_ns, spn_future **out);
SPN_API SPN_NODISCARD
int spn_scheduled_at_fixed_rate(spn_scheduled *scheduled, spn_run_fn run, void *arg,
                                int64_t first_ns, int64_t period_ns, spn_future **out);
SPN_API SPN_NODISCARD
int spn_scheduled_with_fixed_delay(spn_scheduled *scheduled, spn_run_fn run, void *arg,
                                   int64_t first_ns, int64_t delay_ns,
                                   spn_future **out);
SPN_API SPN_NODISCARD
int spn_scheduled_schedule_with(spn_scheduled *scheduled, const spn_schedule *what,
                                spn_future **out);

/*
 * Without a future.
 * call     run(arg) once, delay_ns from now; a failure goes to the pool's uncaught hook.
 * execute  a task of the caller's, as spn_executor_execute, delay_ns from now.
 *          spn_executor_remove takes it back in amortized O(log n).
 *
 * Returns  as schedule; execute also SPN_EBUSY.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_scheduled_call(spn_scheduled *scheduled, spn_run_fn run, void *arg,
                       int64_t delay_ns);
SPN_API SPN_NODISCARD
int spn_scheduled_execute(spn_scheduled *scheduled, spn_task *task, int64_t delay_ns);

/* ---- asking and taking back ------------------------------------------------------ */

/*
 * How long until the (next) run of a future that was scheduled or submitted here, in
 * *remaining_ns: 0 or less when it is due.  Of one that is done, since it was due last.
 * Does not block.
 * Returns  SPN_OK; SPN_EINVAL (NULL, or a future of something else).
 * Since    0.1
 */
SPN_API int spn_scheduled_remaining(const spn_future *future, int64_t *remaining_ns);

/*
 * remove: takes a waiting future out of the queue; it stays without an outcome, and
 *         will not run.
 * drain:  takes out up to `capacity` tasks that are due, in their order, as
 *         spn_executor_remove would: spn_future_of_task tells whose they are.  It ends at
 *         the first that is due and no task, but a function of spn_scheduled_call.
 * Returns  remove: 1, or 0 if it does not wait here; drain: how many; SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_scheduled_remove(spn_scheduled *scheduled, spn_future *future);
SPN_API int64_t spn_scheduled_drain(spn_scheduled *scheduled, spn_task **tasks,
                                    size_t capacity);

/* How many runs of periodic tasks have failed, or SPN_EINVAL for NULL.  Since 0.1 */
SPN_API int64_t spn_scheduled_failed_runs(spn_scheduled *scheduled);

#ifdef __cplusplus
}
#endif
#endif /* SPN_SCHEDULED_H */
