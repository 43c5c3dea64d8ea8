/* SPDX-License-Identifier: MIT */
/*
 * scheduled.h - the scheduled executor from inside:
 *
 *   dues.c          what waits, in the order in which it is due
 *   delays.c        where tasks wait: the lock around that, behind the pool's door
 *   future.c        a future that is due at some time, once or again and again
 *   scheduled.c     making, scheduling, policies
 *   serial_timer.c  one thread of it, with the face of java.util.Timer
 */
#ifndef SPN__SCHEDULED_H
#define SPN__SCHEDULED_H

#include <spindle/scheduled.h>

#include "future/task.h"
#include "sched/delays.h"

/* spn_repeat, and one more: a period from the start of the run before. */
enum { SPN__REPEAT_START = 3 };

struct spn_scheduled {
    struct spn__delays delays; /* first: they are the same object */
    struct spn_pool *pool;     /* fixed, as all but the last two */
    /* Policies. */
    bool removes_cancelled, delayed_after_shutdown, periodic_after_shutdown;
    int (*decorate)(spn_scheduled *scheduled, spn_schedule *what, void *ctx);
    void (*failed)(spn_scheduled *scheduled, spn_future *future, int code, void *ctx);
    void *ctx;
    SPN__ATOMIC(uint32_t)
    stops_all; /* after shutdown nothing runs, whatever they say */
    SPN__ATOMIC(int64_t) failed_runs; /* relaxed: only counts */
};

struct spn__scheduled_future {
    struct spn__task_future t;       /* first: they are the same object */
    struct spn_scheduled *scheduled; /* whose; NULL: it was given back */
    spn_clock *clock;                /* fixed */
    SPN__ATOMIC(int64_t) due_ns;     /* relaxed: changed by whoever has it */
    spn__futex_word tie;             /* see future.c */

    /* Fixed from its scheduling on. */
    uint8_t repeat; /* spn_repeat, or SPN__REPEAT_START */
    bool goes_on;   /* also after a failure */
    bool skips;     /* the runs it missed */
    /* The runner's. */
    bool away;   /* it keeps room in the queue */
    bool again;  /* its last run says so */
    bool inside; /* its function has not returned */
    int64_t period_ns;
    int64_t started_ns;
    struct {
        spn_run_fn run;
        void *arg;
    } call; /* what has no result, and is called by a function of ours */
    void (*release_arg)(void *arg);
};

/* What a future is to be; `what` is whole and checked.  SPN_OK or SPN_ENOMEM. */
int spn__scheduled_future_create(struct spn__scheduled_future **out,
                                 struct spn_scheduled *s, const spn_schedule *what,
                                 const spn_future_opts *opts);
/* For one that is the first part of something larger, from spn__block_get. */
void spn__scheduled_future_init(struct spn__scheduled_future *f,
                                struct spn_scheduled *s, const spn_schedule *what,
                                const spn_future_opts *opts);
/* Hands it over, to be due at due_ns; the executor takes a reference of its own if it
 * accepts it. */
int spn__scheduled_future_start(struct spn__scheduled_future *f,
                                struct spn_scheduled *s, int64_t due_ns);

/* After that, for one that others may have cancelled before: it does not stay. */
void spn__scheduled_future_check(struct spn__scheduled_future *f);

/* The scheduled future that a future is, or NULL. */
struct spn__scheduled_future *spn__scheduled_future_of(const struct spn_future *f);

#endif /* SPN__SCHEDULED_H */
