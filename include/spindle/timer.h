/* SPDX-License-Identifier: MIT */
#ifndef SPN_TIMER_H
#define SPN_TIMER_H

#include <spindle/clock.h>
#include <spindle/executor.h>
#include <spindle/future.h>
#include <spindle/status.h>
#include <spindle/thread.h>
#include <spindle/wheel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A timer runs callbacks when their time has come: timeouts of requests, heart-beats,
 * retries.  It is made for millions of timeouts of which nearly all are cancelled, and
 * costs nothing while none is due.
 *
 *     rc = spn_timer_schedule(timer, &request->timeout, on_timeout, SPN_SEC(3));
 *     ...
 *     if (spn_timer_cancel(timer, &request->timeout) == SPN_TIMEOUT_REMOVED)
 *         answer(request);          // on_timeout has not run and never will
 *
 * Lifecycle   create -> schedule... -> stop -> destroy.  The thread is started by the
 *             first schedule, or by start.
 * Time        a callback runs at the first tick boundary at or after its time, to the
 *             nanosecond never before it.  Only the monotonic clock counts: setting the
 *             system's time changes nothing.
 * Order       callbacks of one tick, scheduled by one thread, start in the order of
 *             scheduling; no order is promised between threads.
 * Callbacks   run on the timer's own thread one after the other, or, if the timer was
 *             given an executor, on its threads, several at once; always with no lock
 *             held.  On the timer's thread a slow one delays all others.  A callback may
 *             schedule and cancel any timeout, itself included, and free its own, if
 *             no other thread may be about to cancel that: see cancel.
 * Threads     every call is safe from any thread, except that a timeout is scheduled for
 *             the first time, or in another timer, by one thread at a time.
 * Ownership   timeouts are the caller's, embedded in its own structs; a timeout must
 *             stay where it is from schedule until it is cancelled, returned by stop, or
 *             its callback has been entered.
 * Bounds      any number may be pending, and nothing warns, unless max_pending says how many;
 *             a timeout takes no memory of the timer's, a handle does.
 */
typedef struct spn_timer spn_timer;
typedef struct spn_timeout spn_timeout;
typedef struct spn_timeout_handle spn_timeout_handle; /* a timeout the library owns */

/* Handles that stop gave back.  The field is the library's. */
typedef struct spn_timeout_handle_list {
    spn_timeout_handle *first;
} spn_timeout_handle_list;

/* 0, or a failure, which the timer counts and reports: see on_failure.  A callback that ends
 * its thread (pthread_exit) ends the process with a line, on whatever thread it runs; so does
 * a C++ exception that leaves it. */
typedef int (*spn_timeout_fn)(spn_timeout *timeout);

/* One cache line.  All zero: never scheduled.  The fields are the timer's. */
struct spn_timeout {
    spn_wheel_node node;
    spn_timeout_fn fn;
    void *home;
    int64_t period_ns;
    uint32_t policy;
    uint32_t reserved;
};

#define SPN_TIMEOUT_INIT                          \
    {                                             \
        SPN_WHEEL_NODE_INIT, NULL, NULL, 0, 0, 0, \
    }

typedef enum spn_timer_drive {
    SPN_TIMER_THREAD = 0, /* a thread of its own                                     */
    SPN_TIMER_DRIVEN = 1, /* none: an event loop calls run; see next_expiry and wake */
    SPN_TIMER_FD = 2      /* the same, and fd becomes readable when it is time       */
} spn_timer_drive;

/* Zero means default.  Append only. */
typedef struct spn_timer_opts {
    size_t size;         /* sizeof(spn_timer_opts), set by _INIT                     */
    int64_t tick_ns;     /* at least SPN_TIMER_TICK_MIN; 0: 100 ms                   */
    int64_t max_pending; /* timeouts at most; 0 or less: no limit                    */
    uint32_t slots;      /* of a level, as in spn_wheel_opts; 0: 512                 */
    uint32_t layout;     /* spn_wheel_layout                                         */
    uint32_t shards;     /* wheels, each with its lock, chosen by the adding thread;
                             rounded up to a power of two, at most 64; 0: by CPUs     */
    uint32_t drive;      /* spn_timer_drive                                          */
    uint32_t parallel;   /* with an executor: callbacks at a time at most, 1 .. 1024;
                             0: 16                                                    */
    uint32_t unreported; /* 1: say nothing about it if it is forgotten: otherwise one
                            line of the log, at exit, names a timer that was started
                            and never stopped, and says how many more there are       */
    spn_executor *executor; /* runs the callbacks; NULL: the timer's thread.  Must
                               outlive the timer                                      */
    spn_clock *clock;       /* NULL: the monotonic one.  A manual one is for tests    */
    const spn_thread_opts *thread; /* for the thread; copied.  NULL: all defaults, and
                                      the name "timer"                                */
    void (*on_failure)(void *ctx, int status); /* told when a callback failed, on its
                                      thread; NULL: logged as a warning               */
    void (*wake)(void *ctx); /* driven: next_expiry has become earlier.  On the thread
                                that did it; may be called when it has not.  To tell the
                                loop, not to call the timer; stop waits for it, so not
                                with a lock held that it takes.  Not called any more once
                                stop has returned, but by a schedule of the program's own,
                                or an advance of its manual clock, that is still under way.
                                An advance keeps others from moving the clock, and from
                                making and destroying timers with it, until it returns  */
    void *ctx;
    uint32_t fast_clock; /* 1: schedule reckons the time from a CPU counter between two
                            looks at the clock a millisecond apart, where the system
                            keeps time by that counter; rounded up by two microseconds,
                            so that nothing is early.  Where the counter turns out to
                            be wrong, timeouts are late by as much, and the clock is
                            used */
    uint32_t reserved;   /* 0 */
    const spn_thread_factory *factory; /* makes the thread, when the timer starts and in
                            place of one that a callback has ended, on that; its create
                            must not use this timer.  NULL: spn_thread_create */
} spn_timer_opts;

#define SPN_TIMER_OPTS_INIT                                                           \
    {                                                                                 \
        sizeof(spn_timer_opts), 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, \
            NULL, 0, 0, NULL                                                          \
    }

/* The finest tick. */
#define SPN_TIMER_TICK_MIN SPN_US(1)

/*
 * create: makes a timer and stores it in *out; on failure *out is NULL and nothing was
 *         started.  opts may be NULL for all defaults.  More than 64 timers at a time
 *         are logged as a warning, once: a program hardly needs more than one.
 * destroy: frees a timer that was stopped, or never used; NULL is a no-op.
 * Returns  create: SPN_OK; SPN_EINVAL (NULL out, bad opts, slots * tick_ns, with slots
 *          rounded up, beyond int64_t); SPN_ENOMEM; SPN_EAGAIN or SPN_ENOTSUP (no
 *          descriptor for SPN_TIMER_FD).
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing while it runs, has
 *          timeouts, or somebody waits on it.  In the child of a fork it also frees a
 *          timer of the parent's that has no timeouts and nobody was inside.  A task of
 *          its own that the executor still has is harmless: it finds nothing to do.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_create(spn_timer **out, const spn_timer_opts *opts);
SPN_API int spn_timer_destroy(spn_timer *timer);

/*
 * Starts the timer's thread, unless it runs already.  schedule does the same.
 *
 * Returns  SPN_OK; SPN_ESTATE (stopped); what spn_thread_create refuses with, or with a
 *          factory SPN_EAGAIN or SPN_ENOMEM; SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_start(spn_timer *timer);

/*
 * Stops the timer for good.  The thread's sleep ends at once; callbacks that run are
 * waited for, and the one on the timer's own thread is interrupted.  What was neither run
 * nor cancelled comes back, and reads as cancelled: the callers' timeouts, periodic ones
 * included, in *left, a list for spn_timeout_pop, and handles in *handles, a list for
 * spn_timeout_handle_take.  Both may be NULL.  Without `handles`, stop itself calls each
 * handle's gone with SPN_ESHUTDOWN; the gone of one that was cancelled just before has
 * been called when stop returns, in any case.  Both lists are stored before any function
 * is called.  A second stop finds nothing left.  Blocks; an interrupt does not end it but
 * stays set.
 *
 * Returns  SPN_OK; SPN_ESTATE in a callback of this timer, and in the child of a fork
 *          if the timer's thread or its executor's is the parent's: nothing is stopped;
 *          SPN_ENOMEM (no memory for the calling thread's record: nothing is stopped);
 *          SPN_EINVAL (NULL timer).  Both lists are empty unless SPN_OK.
 * Orders   all callbacks did happens-before stop returns.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_stop(spn_timer *timer, spn_timeout **left,
                   spn_timeout_handle_list *handles);

/* Takes the first timeout off a list that stop made; NULL: it is empty.  The timeout
 * is the caller's alone then.  Since 0.1 */
SPN_API spn_timeout *spn_timeout_pop(spn_timeout **list);

/*
 * Takes the first handle off a list that stop made, and gives the caller its reference;
 * NULL: the list is empty.  The list owns a reference to each handle in it, so take them
 * all; this works also once the timer is destroyed.
 *
 *     while ((handle = spn_timeout_handle_take(&handles)) != NULL) {
 *         give_up(spn_timeout_handle_arg(handle)); // nobody was told of it
 *         spn_timeout_handle_unref(handle);
 *     }
 *
 * Since 0.1
 */
SPN_API spn_timeout_handle *spn_timeout_handle_take(spn_timeout_handle_list *handles);

/*
 * Has fn(timeout) called once, delay_ns from now; 0 and less: as soon as possible.
 * SPN_FOREVER, and what adds up to it, never comes.
 * A timeout that is pending already is moved: the old function and time are forgotten.
 * One whose callback runs right now is scheduled anew, periodic ones too; in another timer
 * a periodic one only after it was cancelled in its own.  Does not block,
 * except for starting the thread and for the moment another thread has the same shard.
 *
 * Returns  SPN_OK; SPN_EREJECTED: max_pending is reached; SPN_ESTATE: stopped;
 *          SPN_EBUSY: it is pending, or repeats, in another timer; SPN_EINVAL (a NULL);
 *          what start refuses with.  On error nothing has changed.
 * Orders   what precedes schedule happens-before fn(timeout).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_schedule(spn_timer *timer, spn_timeout *timeout, spn_timeout_fn fn,
                       int64_t delay_ns);
/* What a periodic timeout does about periods that passed without it: because a
 * callback was slow, or the process was stopped. */
typedef enum spn_missed {
    SPN_MISSED_SKIP = 0,  /* runs once, then goes on in phase with the first time   */
    SPN_MISSED_BURST = 1, /* makes up for them one after the other, burst_max at
                             most, then goes on in phase                            */
    SPN_MISSED_DELAY = 2  /* always a whole period from the end of a run            */
} spn_missed;

/* Zero means default, except period_ns.  Append only. */
typedef struct spn_period {
    size_t size;        /* sizeof(spn_period), set by _INIT                          */
    int64_t period_ns;  /* more than 0                                               */
    uint32_t missed;    /* spn_missed                                                */
    uint32_t burst_max; /* SPN_MISSED_BURST: runs to make up for, at most 65535;
                            0: 65535                                                  */
    uint32_t stop_on_failure; /* 1: a failing callback is the last one                */
    uint32_t reserved;        /* 0                                                    */
} spn_period;

#define SPN_PERIOD_INIT                   \
    {                                     \
        sizeof(spn_period), 0, 0, 0, 0, 0 \
    }

/*
 * Has fn(timeout) called first_ns from now and then every period->period_ns: times are
 * counted from the first one, so they do not drift.  A run starts when the one before
 * has ended.  A callback that wants to free its timeout cancels it first.
 *
 * Returns  as schedule; SPN_EINVAL also for a bad period.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_schedule_periodic(spn_timer *timer, spn_timeout *timeout,
                                spn_timeout_fn fn, int64_t first_ns,
                                const spn_period *period);

/*
 * again: starts the interval of a periodic timeout anew, a period from now, with the
 *        function it had; does nothing with one that is not periodic.
 * set_period: changes the period from the next arming on: the one pending stays, in a
 *        callback it counts for what follows.  0 ends the repetition.
 *
 * Returns  SPN_OK; SPN_EINVAL: a NULL, never scheduled in this timer, a negative
 *          period; again also as schedule.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_again(spn_timer *timer, spn_timeout *timeout);
SPN_API SPN_NODISCARD
int spn_timer_set_period(spn_timer *timer, spn_timeout *timeout, int64_t period_ns);

/* What cancel found. */
enum {
    SPN_TIMEOUT_GONE = 0,    /* never scheduled, has run, or was cancelled before     */
    SPN_TIMEOUT_REMOVED = 1, /* it was pending: the callback will not be called       */
    SPN_TIMEOUT_RUNNING = 2  /* the callback runs right now; there will be no further
                                run                                                   */
};

/*
 * cancel: takes the timeout out, if it is pending, and ends its repetition, if it is
 *         periodic.  Complete when it returns: after REMOVED and GONE the timer does
 *         not know the timeout any more, and its memory may be used for anything.
 * cancel_sync: the same, and waits for a callback that runs, up to timeout_ns: also
 *         after RUNNING the memory is free for anything.  Interruptible.
 * Both read the timeout, so its memory must stay until they have returned.  Where the
 * callback frees it and another thread may cancel it, count references: one is the
 * timer's, which the callback drops, and one is that thread's.  (Handles, below, count by
 * themselves; examples/timer_references.c and timer_handles.c are whole programs.)
 *
 *     if (spn_timer_cancel(timer, &c->idle) == SPN_TIMEOUT_REMOVED)
 *         connection_unref(c, 2); // the timer's as well: on_idle will not be called
 *     else
 *         connection_unref(c, 1); // on_idle drops the timer's
 *
 * Returns  one of the above; SPN_EINVAL: a NULL, or pending or repeating in another timer;
 *          cancel_sync also SPN_EDEADLK in the very callback, which changes nothing;
 *          SPN_ETIMEDOUT, SPN_EINTR: what cancel does was done, but the callback runs
 *          on; SPN_ENOMEM (no memory for the calling thread's record: nothing was done).
 * Orders   cancel_sync: all the callback did happens-before it returns.
 * Since    0.1
 */
SPN_API int spn_timer_cancel(spn_timer *timer, spn_timeout *timeout);
SPN_API SPN_NODISCARD
int spn_timer_cancel_sync(spn_timer *timer, spn_timeout *timeout, int64_t timeout_ns);

/* What has become of a timeout, or of a handle. */
enum {
    SPN_TIMEOUT_NEW = 0,      /* never scheduled                                      */
    SPN_TIMEOUT_PENDING = 1,  /* it waits for its time                                */
    SPN_TIMEOUT_EXPIRED = 2,  /* its time has come, also while its callback runs      */
    SPN_TIMEOUT_CANCELLED = 3 /* it was cancelled, or stop took it out                */
};

/*
 * What has become of it since it was scheduled last: one of the above, or SPN_EINVAL for
 * NULL.  Never blocks; with other threads at work the answer may be out of date.
 * Since    0.1
 */
SPN_API int spn_timeout_state(const spn_timeout *timeout);

/*
 * How long until a pending timeout is due, at least 1 ns and SPN_FOREVER if never; 0 if
 * it is due or not pending, or for a NULL.  Since 0.1
 */
SPN_API int64_t spn_timer_remaining(spn_timer *timer, spn_timeout *timeout);

/* How many timeouts are pending, or 0 for NULL.  Never blocks.  Since 0.1 */
SPN_API int64_t spn_timer_pending(const spn_timer *timer);

/* ---- timeouts the library owns ---------------------------------------------------- */

/*
 * For those who have no struct to put a timeout in: a cache line each, from blocks of
 * many.
 *
 *     rc = spn_timer_new_timeout(timer, on_time, on_gone, request, SPN_SEC(3), &handle);
 *     ...
 *     spn_timeout_handle_cancel(handle);   // on_gone(request, SPN_ECANCELED), soon
 *     spn_timeout_handle_unref(handle);
 *
 * Ownership   reference counted; new_timeout gives the caller one, to be dropped.  A
 *             handle may be asked about after its time, after cancel, and after the
 *             timer is gone.  The timer borrows arg until fn or gone has been called,
 *             stop has given the handle back, or, without a gone, cancel has returned
 *             SPN_TIMEOUT_REMOVED; again lends it once more.
 */

/* Called each time the handle's time has come, where the timer's callbacks run, and at no
 * other time.  The handle stays while fn runs; take a reference to keep it longer. */
typedef void (*spn_timeout_handle_fn)(spn_timeout_handle *handle, void *arg);

/*
 * Called exactly once, in place of the next fn, for a handle whose time will not come:
 * with SPN_ECANCELED after a cancel that returned SPN_TIMEOUT_REMOVED, where the timer's
 * callbacks run; with SPN_ESHUTDOWN by a stop that was given no list for handles.  Not
 * called for a handle that expired and was not scheduled again, nor for one that stop
 * gave back.
 */
typedef void (*spn_timeout_gone_fn)(void *arg, int reason);

/*
 * Has fn(handle, arg) called delay_ns from now, and stores the handle in *out, which is
 * NULL on failure.  gone may be NULL: nobody is told then.  out may be NULL: then only fn
 * gets to see the handle.
 *
 * Returns  as spn_timer_schedule; SPN_ENOMEM.  On error neither fn nor gone is called.
 * Orders   what precedes new_timeout happens-before fn(handle, arg) and gone(arg, reason).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_new_timeout(spn_timer *timer, spn_timeout_handle_fn fn,
                          spn_timeout_gone_fn gone, void *arg, int64_t delay_ns,
                          spn_timeout_handle **out);

/*
 * Has the same handle call fn once more, delay_ns from now; allocates nothing.  For use in
 * fn, or after it.  The handle reads as neither expired nor cancelled then.  With an
 * executor the next fn may begin while this one still runs.  Safe while the timer is
 * stopped, and after it was destroyed.
 *
 * Returns  SPN_OK; SPN_EBUSY: it is pending; SPN_ECANCELED: it was cancelled, which is for
 *          good; SPN_ESHUTDOWN: the timer was stopped, whatever the handle is;
 *          SPN_EREJECTED: max_pending is reached; SPN_EINVAL (NULL).  On error nothing has
 *          changed, and gone is not called.
 * Orders   what precedes again happens-before the next fn(handle, arg).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timeout_handle_again(spn_timeout_handle *handle, int64_t delay_ns);

/*
 * Cancels a handle for good: fn will not be called for the time it waits for, nor later.
 * Without a gone the handle is out of the timer when this returns.  With one it counts as
 * pending until gone has been called, soon, by the timer; if the timer stops meanwhile,
 * gone may be called in here, and stop waits for it.  In fn, or while fn runs, there is
 * nothing to cancel, unless the handle was scheduled again; then a run for the time before
 * goes on, and cancel does not wait for it.  Safe while the timer is stopped, and after it
 * was destroyed.
 *
 * Returns  SPN_TIMEOUT_REMOVED, once; else SPN_TIMEOUT_GONE: its time has come, or it was
 *          cancelled before, or stop gave it back; SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_timeout_handle_cancel(spn_timeout_handle *handle);

/* What has become of it, as spn_timeout_state: never SPN_TIMEOUT_NEW.  Since 0.1 */
SPN_API int spn_timeout_handle_state(const spn_timeout_handle *handle);

/* Its timer, which may be gone, and its argument; NULL for NULL.  Since 0.1 */
SPN_API spn_timer *spn_timeout_handle_timer(const spn_timeout_handle *handle);
SPN_API void *spn_timeout_handle_arg(const spn_timeout_handle *handle);

/* Adds a reference and returns its argument; drops one.  NULL is a no-op.  Never block.
 * Since 0.1 */
SPN_API spn_timeout_handle *spn_timeout_handle_ref(spn_timeout_handle *handle);
SPN_API void spn_timeout_handle_unref(spn_timeout_handle *handle);

/* ---- futures that time out -------------------------------------------------------- */

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
 *             the pool needs it or spn_pool_purge.  opts may be NULL for all defaults.
 * complete_on_timeout: it succeeds with `value` then.  A value that does not become the
 *             outcome is freed by the future's drop_value, if it has one.
 *
 *     rc = spn_future_or_timeout(answer, timer, SPN_SEC(3), NULL);
 *     ...
 *     rc = spn_future_get(answer, &value, SPN_FOREVER);  // SPN_EFAILED after 3 s
 *
 * 0 and less: at once, in the calling thread.  SPN_FOREVER never comes.  A future that is
 * done before is not affected, and its entry, one allocation, is taken out of the timer at
 * once.  The timer has a reference until then: dropping all others does not abandon the
 * future.  If the timer is stopped first, the future fails, with the cause SPN_ESHUTDOWN.
 * A future may have several timeouts: the first one decides.  When the time has come, the
 * future is completed where the timer's callbacks run; its stages without an executor run
 * there, too.
 *
 * Returns  SPN_OK; SPN_EINVAL (future or timer NULL, bad opts); SPN_ENOMEM; SPN_EREJECTED
 *          (max_pending); SPN_ESTATE (the timer is stopped); what spn_timer_start refuses
 *          with.  On error nothing has changed, and the value is the caller's.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_future_or_timeout(spn_future *future, spn_timer *timer, int64_t timeout_ns,
                          const spn_or_timeout_opts *opts);
SPN_API SPN_NODISCARD
int spn_future_complete_on_timeout(spn_future *future, spn_timer *timer, void *value,
                                   int64_t timeout_ns);

/* ---- driven by an event loop --------------------------------------------------- */

/*
 * Runs what is due, in the calling thread (or hands it to the timer's executor).  What
 * is scheduled meanwhile for at once waits for the next call.
 *
 * Returns  the number of callbacks run or handed over; SPN_EBUSY: another thread, or a
 *          callback, is in run already; SPN_ESTATE: stopped, or not a driven timer;
 *          SPN_ENOMEM (no memory for the calling thread's record); SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_timer_run(spn_timer *timer);

/* When to call run next, on the timer's clock: perhaps earlier than something is due,
 * never later; SPN_FOREVER: nothing is pending, or NULL.  Never blocks.  Since 0.1 */
SPN_API int64_t spn_timer_next_expiry(const spn_timer *timer);

/* The descriptor of an SPN_TIMER_FD timer, readable from next_expiry on until run has
 * been called or stop has returned: to be polled, not read.  SPN_EINVAL for others.
 * Since 0.1 */
SPN_API int spn_timer_fd(const spn_timer *timer);

/* ---- what it has done ------------------------------------------------------------ */

/* armed = fired + cancelled + replaced + returned + pending, when nothing is going on. */
typedef struct spn_timer_stats {
    size_t size;        /* sizeof(spn_timer_stats), set by _INIT                     */
    uint64_t armed;     /* schedules, and each next time of a periodic timeout       */
    uint64_t fired;     /* callbacks started                                         */
    uint64_t cancelled; /* removed by cancel                                         */
    uint64_t replaced;  /* scheduled again while pending                             */
    uint64_t returned;  /* by stop                                                   */
    uint64_t pending;
    uint64_t rejected;   /* schedules refused: max_pending                            */
    uint64_t failed;     /* callbacks that returned something else than 0, or ended
                             their thread                                              */
    uint64_t missed;     /* periods left out                                          */
    uint64_t refused;    /* times the executor did not take what was handed over; the
                             timer tries again                                         */
    uint64_t passes;     /* times the timer woke up to look                           */
    int64_t late_max_ns; /* from due time to start of the callback: the longest,      */
    int64_t late_p50_ns; /* and quantiles, exact to an eighth, rounded up             */
    int64_t late_p99_ns;
    int64_t late_p999_ns;
} spn_timer_stats;

#define SPN_TIMER_STATS_INIT                                                 \
    {                                                                        \
        sizeof(spn_timer_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/*
 * Fills in *stats.
 * Returns  SPN_OK, SPN_EINVAL (a NULL, a wrong size).
 * Since    0.1
 */
SPN_API int spn_timer_get_stats(spn_timer *timer, spn_timer_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* SPN_TIMER_H */
