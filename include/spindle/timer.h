/* SPDX-License-Identifier: MIT */
#ifndef SPN_TIMER_H
#define SPN_TIMER_H

#include <spindle/clock.h>
#include <spindle/executor.h>
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
 */
typedef struct spn_timer spn_timer;
typedef struct spn_timeout spn_timeout;

/* 0, or a failure, which the timer counts and reports: see on_failure.  One that ends its
 * thread (pthread_exit) has failed with SPN_ECANCELED and stops nothing: a periodic timeout
 * goes on, the timer's thread is replaced, and in run whoever calls run next goes on with
 * what is due.  A C++ exception that leaves it ends the process. */
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
 * waited for, and the one on the timer's own thread is interrupted.  What was neither
 * run nor cancelled, periodic timeouts included, is stored in *left as a list for
 * spn_timeout_pop; each reads as cancelled.  Timeouts with a handle are not in it: their
 * functions are called here, with SPN_ECANCELED.  left may be NULL.  A second stop finds
 * nothing left.  Blocks; an interrupt does not end it but stays set.
 *
 * Returns  SPN_OK; SPN_ESTATE in a callback of this timer, and in the child of a fork
 *          if the timer's thread or its executor's is the parent's: nothing is stopped;
 *          SPN_ENOMEM (no memory for the calling thread's record: nothing is stopped);
 *          SPN_EINVAL (NULL timer).  *left is NULL unless SPN_OK.
 * Orders   all callbacks did happens-before stop returns.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_stop(spn_timer *timer, spn_timeout **left);

/* Takes the first timeout off a list that stop made; NULL: it is empty.  The timeout
 * is the caller's alone then.  Since 0.1 */
SPN_API spn_timeout *spn_timeout_pop(spn_timeout **list);

/* Whether stop was called: 1 or 0, or SPN_EINVAL for NULL.  Since 0.1 */
SPN_API int spn_timer_is_stopped(const spn_timer *timer);

/*
 * schedule: has fn(timeout) called once, delay_ns from now; 0 and less: as soon as
 *           possible.  SPN_FOREVER, and what adds up to it, never comes.
 * schedule_at: the same at due_ns on the timer's clock, without reading the clock.
 * A timeout that is pending already is moved: the old function and time are forgotten.
 * One whose callback runs right now is scheduled anew, periodic ones too; in another timer
 * a periodic one only after it was cancelled in its own.  Do not block,
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
SPN_API SPN_NODISCARD
int spn_timer_schedule_at(spn_timer *timer, spn_timeout *timeout, spn_timeout_fn fn,
                          int64_t due_ns);

/* What to schedule in a batch. */
typedef struct spn_timer_entry {
    spn_timeout *timeout;
    spn_timeout_fn fn;
    int64_t delay_ns;
} spn_timer_entry;

/*
 * Schedules many timeouts with one reading of the clock and under one lock: all of
 * them, or none.  Their shard is closed to others meanwhile: some thousands at a time
 * are fine.
 *
 * Returns  as schedule; also SPN_EBUSY when one is pending already or is named twice.
 *          A count of 0 is SPN_OK.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_schedule_many(spn_timer *timer, const spn_timer_entry *entries,
                            size_t count);

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
 * themselves; examples/timer_references.c is a whole program.)
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

/*
 * Whether a timeout waits for its time; whether its last scheduling has led to a run,
 * also while that runs; whether it was cancelled, or returned by stop.  1 or 0; 0 for
 * NULL.  Never block; with other threads at work the answer may be out of date.
 * Since    0.1
 */
SPN_API int spn_timeout_is_pending(const spn_timeout *timeout);
SPN_API int spn_timeout_is_expired(const spn_timeout *timeout);
SPN_API int spn_timeout_is_cancelled(const spn_timeout *timeout);

/* The timer it was last scheduled in; NULL if in none, if stop returned it, or once that
 * timer was destroyed.  A timer made later may get the memory of one that was destroyed,
 * and is told in its place then.  Takes a lock of the process for a moment.  Since 0.1 */
SPN_API spn_timer *spn_timeout_timer(const spn_timeout *timeout);

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
 * Ownership   reference counted; new_timeout gives the caller one, to be dropped.  A
 *             handle may be asked about after its time, after cancel, and after the
 *             timer is gone.
 */
typedef struct spn_timeout_handle spn_timeout_handle;

/* Called exactly once for each handle, where the timer's callbacks run: with SPN_OK when
 * the time has come, with SPN_ECANCELED after a cancel, or, by stop, when it never came. */
typedef void (*spn_timeout_handle_fn)(void *arg, int reason);

/*
 * Has fn(arg, SPN_OK) called delay_ns from now, and stores a handle in *out, which is
 * NULL on failure.  out may be NULL: then nobody can cancel it.
 *
 * Returns  as spn_timer_schedule; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_timer_new_timeout(spn_timer *timer, spn_timeout_handle_fn fn, void *arg,
                          int64_t delay_ns, spn_timeout_handle **out);

/*
 * Sees to it that fn is called with SPN_ECANCELED, soon, and not with SPN_OK.  It counts
 * as pending until then.  If the timer stops meanwhile, fn may be called in here, and
 * stop waits for it.  Safe while the timer is stopped and destroyed.
 *
 * Returns  SPN_TIMEOUT_REMOVED, once; else SPN_TIMEOUT_GONE: its time has come, or it was
 *          cancelled before; SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_timeout_handle_cancel(spn_timeout_handle *handle);

/* Whether its time has come; whether it was cancelled, or returned by stop.  1 or 0; 0
 * for NULL.  Never block.  Since 0.1 */
SPN_API int spn_timeout_handle_is_expired(const spn_timeout_handle *handle);
SPN_API int spn_timeout_handle_is_cancelled(const spn_timeout_handle *handle);

/* Its timer, which may be gone, and its argument; NULL for NULL.  Since 0.1 */
SPN_API spn_timer *spn_timeout_handle_timer(const spn_timeout_handle *handle);
SPN_API void *spn_timeout_handle_arg(const spn_timeout_handle *handle);

/* Adds a reference and returns its argument; drops one.  NULL is a no-op.  Never block.
 * Since 0.1 */
SPN_API spn_timeout_handle *spn_timeout_handle_ref(spn_timeout_handle *handle);
SPN_API void spn_timeout_handle_unref(spn_timeout_handle *handle);

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

/*
 * Compares the inside of the timer with what it should be; closes one shard after the
 * other meanwhile.
 * Returns  SPN_OK; SPN_ESTATE: a timeout was moved, freed or written while it was
 *          pending, and what is wrong was logged; SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_timer_check(spn_timer *timer);

#ifdef __cplusplus
}
#endif
#endif /* SPN_TIMER_H */
