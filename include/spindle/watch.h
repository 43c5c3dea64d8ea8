/* SPDX-License-Identifier: MIT */
#ifndef SPN_WATCH_H
#define SPN_WATCH_H

#include <spindle/metrics.h>
#include <spindle/status.h>
#include <spindle/timer.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A watch over the pools of a registry: looks at them every period, and says when a
 * threshold is passed, or a task runs too long.
 *
 * Lifecycle   create -> (looks) -> destroy, before the registry and the timer
 * Once        per threshold, pool and interval: while it lasts, the next interval tells
 *             again.  A slow task is told once per run.
 * Threads     looks are made where the timer's callbacks run, or by check; `alarm` is
 *             called there, with no lock held, and may do anything but destroy the watch.
 */
typedef struct spn_watch spn_watch;

typedef enum spn_alarm_kind {
    SPN_ALARM_QUEUED =
        1, /* value: tasks that wait                                    */
    SPN_ALARM_ACTIVE =
        2, /* value: threads that run a task                            */
    SPN_ALARM_REJECTED =
        3,              /* value: tasks refused since the last look                  */
    SPN_ALARM_WAIT = 4, /* value: nanoseconds the oldest timed task has waited       */
    SPN_ALARM_SLOW = 5  /* value: nanoseconds a task has run, at least               */
} spn_alarm_kind;

/* What happened; valid during the call. */
typedef struct spn_alarm {
    uint32_t kind; /* spn_alarm_kind                                                  */
    uint32_t reserved;
    const char *pool; /* its name                                                    */
    const char
        *label; /* SPN_ALARM_SLOW: of the task; else NULL, as for tasks without */
    int64_t value;
    int64_t threshold;
    int64_t suppressed; /* times it was passed without being told, since the last     */
} spn_alarm;

typedef void (*spn_alarm_fn)(void *ctx, const spn_alarm *alarm);

/* Zero means default; a threshold of 0 is none.  Append only. */
typedef struct spn_watch_opts {
    size_t size; /* sizeof(spn_watch_opts), set by _INIT                        */
    spn_metrics
        *metrics;      /* whose pools                                                */
    spn_timer *timer;  /* has check called; NULL: the program does                    */
    spn_clock *clock;  /* for intervals; NULL: the monotonic one                      */
    int64_t period_ns; /* from look to look; 0: 1 s                                   */
    int64_t
        interval_ns; /* between two alarms of a kind; 0: 1 minute                   */
    int64_t queued;  /* tasks that wait: this many, or more                         */
    int64_t
        active_percent; /* of max_threads: 1 to 100                                 */
    int64_t rejected; /* between two looks                                           */
    int64_t wait_ns;  /* of pools with task times                                    */
    int64_t slow_ns;  /* the same: a task that runs longer                           */
    spn_alarm_fn
        alarm; /* NULL: a warning is logged                                   */
    void *ctx; /* its argument                                                */
} spn_watch_opts;

#define SPN_WATCH_OPTS_INIT                                                       \
    {                                                                             \
        sizeof(spn_watch_opts), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL \
    }

/*
 * create:  starts a watch in *out, NULL on failure.
 * destroy: ends it; NULL is a no-op.
 *
 * Returns  create: SPN_OK; SPN_EINVAL (no registry, a negative number, more than 100
 *          percent); SPN_ENOMEM; what spn_timer_schedule refuses with.
 *          destroy: SPN_OK, or SPN_EBUSY while a look is under way.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_watch_create(spn_watch **out, const spn_watch_opts *opts);
SPN_API int spn_watch_destroy(spn_watch *watch);

/*
 * Makes a look now.
 * Returns  how many alarms it gave; SPN_EBUSY (a look is under way); SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_watch_check(spn_watch *watch);

#ifdef __cplusplus
}
#endif
#endif /* SPN_WATCH_H */
