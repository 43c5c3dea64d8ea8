/* SPDX-License-Identifier: MIT */
#ifndef SPN_LIMITER_H
#define SPN_LIMITER_H

#include <spindle/clock.h>
#include <spindle/executor.h>
#include <spindle/pool.h>
#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A concurrency limiter: an executor in front of another one that lets a bounded number
 * of tasks through and refuses the rest at once, so that a server that cannot keep up
 * says so instead of letting everybody wait.
 *
 * Two limits  by number: at most max_in_flight tasks are with the executor behind, queued
 *             there or running, and at most max_waiting wait here for their turn, first
 *             come first served.
 *             by time, with target_ns: when every task that started during an interval
 *             had waited longer than the target since it was accepted, a queue stands
 *             that does not drain.  New tasks are then refused until a task starts in
 *             time, for an interval, or none waits any more.  A short burst, after which
 *             somebody starts in time, is not refused.
 * Refusal     SPN_EREJECTED, before anything is allocated or waited for; the reason is
 *             told to the `refused` hook and counted.
 * Lifecycle   create -> execute... -> shutdown -> await -> destroy.  The executor behind
 *             is the user's and must last as long; it may be shared.
 * Threads     every call is safe from any thread, tasks included.  A task that waits here
 *             is handed over by the thread that ends another one.  If that one is being
 *             taken back (remove) at this moment, the thread that removes it does.
 * Memory      follows the number of tasks the limiter has, not its limits.  Of many that
 *             wait, each takes at most 32 bytes, in chunks that grow with their number
 *             and are given back.  A task in flight takes about 180; what 32 of them need
 *             is kept for the next ones.  execute allocates before it accepts a task, and
 *             gives SPN_ENOMEM if it cannot: that is not counted as a refusal, nor told
 *             to the hook.  Handing over and taking back allocate nothing.
 * Jobs        an spn_job keeps deadline, priority, label, owner and context.  Whoever
 *             waits is not asked for its deadline before it reaches the executor behind.
 * Waiting for a task of the same limiter from inside another can wait for ever, as with
 *             a pool of max_in_flight threads.
 */
typedef struct spn_limiter spn_limiter;

typedef enum spn_limiter_reason {
    SPN_LIMITER_FULL = 1,    /* max_in_flight and max_waiting are reached        */
    SPN_LIMITER_DELAY = 2,   /* tasks wait longer than target_ns                 */
    SPN_LIMITER_SHUTDOWN = 3 /* shut down; execute gives SPN_ESHUTDOWN           */
} spn_limiter_reason;

/*
 * A picture of a limiter; all of it was true in one moment:
 * accepted = completed + failed + dropped + returned + in_flight + waiting.
 * The library fills it: set size before (SPN_LIMITER_STATS_INIT).
 */
typedef struct spn_limiter_stats {
    size_t size;
    int32_t max_in_flight;
    int32_t max_waiting; /* INT32_MAX: unbounded                                  */
    int32_t in_flight;   /* with the executor behind                              */
    int32_t waiting;     /* here                                                  */
    uint32_t overloaded; /* 1: refuses because of the time tasks wait             */
    uint32_t reserved;
    int64_t delay_ns; /* the least time a task that started during the last whole
                           interval had waited; 0 without target_ns             */
    int64_t accepted;
    int64_t completed; /* fn returned 0                                         */
    int64_t failed;    /* fn returned another number or ended a pool's thread   */
    int64_t dropped;   /* by the executor behind, or refused by it after a wait */
    int64_t returned;  /* by remove and shutdown_now                            */
    int64_t refused_full;
    int64_t refused_delay;
    int64_t refused_shutdown;
    int64_t refused_behind; /* by the executor behind, at once                   */
    int32_t peak_in_flight; /* most at any time                                  */
    int32_t peak_waiting;
} spn_limiter_stats;

#define SPN_LIMITER_STATS_INIT                                                        \
    {                                                                                 \
        sizeof(spn_limiter_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0                                                                         \
    }

/* Most tasks a limiter can have, in flight and waiting together; in flight, if max_waiting
 * is SPN_UNBOUNDED. */
#define SPN_LIMITER_TASKS_MAX (1 << 20)

/* Zero means default.  Append only. */
typedef struct spn_limiter_opts {
    size_t size;            /* sizeof(spn_limiter_opts), set by _INIT               */
    spn_executor *executor; /* behind; borrowed for the limiter's life.  Required   */
    int32_t max_in_flight;  /* 0: 1024                                              */
    int32_t max_waiting;    /* 0: none waits here.  SPN_UNBOUNDED: any number       */
    int64_t target_ns;      /* 0: no limit by time                                  */
    int64_t interval_ns;    /* 0: 20 times target_ns                                */
    spn_clock *clock;       /* what time is measured with; borrowed for the limiter's
                               life.  NULL: the monotonic one                       */
    /* Told of every refusal of the limiter's own, on the thread that wanted to submit,
     * with no lock held; stats are valid during the call.  NULL: nothing is called. */
    void (*refused)(void *ctx, spn_limiter_reason reason,
                    const spn_limiter_stats *stats);
    void *ctx;
} spn_limiter_opts;

#define SPN_LIMITER_OPTS_INIT                                         \
    {                                                                 \
        sizeof(spn_limiter_opts), NULL, 0, 0, 0, 0, NULL, NULL, NULL, \
    }

/*
 * create:  stores a limiter in *out; on failure *out is NULL.
 * destroy: frees it; NULL is a no-op.  No other call on it may be under way.
 * Returns  create: SPN_OK; SPN_EINVAL (no executor; a negative number; more than
 *          SPN_LIMITER_TASKS_MAX tasks); SPN_ENOMEM.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing while it has a task, a
 *          stage of a future waits to run in it, or a thread awaits its end.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_limiter_create(spn_limiter **out, const spn_limiter_opts *opts);
SPN_API int spn_limiter_destroy(spn_limiter *limiter);

/*
 * Its executor, borrowed: valid as long as it is.  NULL for NULL.
 *
 * execute       SPN_OK; SPN_EREJECTED; SPN_ESHUTDOWN; SPN_EBUSY; SPN_ENOMEM; what the
 *               executor behind refuses with, if it was the task's turn.  Whether it may
 *               block or run the task is the executor behind's to say.
 * shutdown      those that wait will still have their turn.
 * shutdown_now  gives back what waits here and, where that is supported, what is queued
 *               behind; tasks that run are not interrupted: their threads are another's.
 * await         SPN_EDEADLK from a task of the limiter.
 * remove        O(1) here, and then what it costs behind.
 * A task that waited and is then refused by the executor behind is dropped with what
 * that said.
 * Since    0.1
 */
SPN_API spn_executor *spn_limiter_executor(spn_limiter *limiter);

/* Returns  SPN_OK, SPN_EINVAL.  Never blocks.  Since 0.1 */
SPN_API int spn_limiter_stats_get(spn_limiter *limiter, spn_limiter_stats *stats);

/* "full", "delay", "shutdown"; "unknown" for another number.  Since 0.1 */
SPN_API const char *spn_limiter_reason_name(int reason);

#ifdef __cplusplus
}
#endif
#endif /* SPN_LIMITER_H */
