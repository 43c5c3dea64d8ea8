/* SPDX-License-Identifier: MIT */
/*
 * scheds.h - a scheduled executor under test, and jobs that remember their runs.
 *
 * Most tests run on a manual clock: what is due when is exact, and nothing sleeps.  That
 * something has not run is shown by something later that has.
 */
#ifndef SCHEDS_H
#define SCHEDS_H

#include <stdatomic.h>
#include <string.h>

#include <spindle.h>

#include "peer.h"
#include "pool_calls.h"
#include "test.h"

enum { JOBS = 32, TIMES = 64 };

struct job {
    atomic_int runs, ended, inside, drops;
    atomic_int fails;       /* what it returns */
    atomic_int order;       /* of its first start, from 1 */
    int64_t at[TIMES];      /* on the test's clock, of each run */
    spn_latch *gate;        /* it waits there; an interrupt ends the wait */
    atomic_int interrupted; /* it did */
    void (*act)(struct job *job);
    spn_future *future;
    int64_t remaining; /* as an action saw it */
};

static spn_clock *clock_;
static spn_scheduled *sched;
static spn_executor *ex;
static spn_pool *pool;
static spn_latch *gate;
static struct job jobs[JOBS];
static atomic_int places;

static inline int job_run(void *arg)
{
    struct job *j = arg;
    const int run = atomic_load(&j->runs);
    int none = 0;

    CHECK_EQ(atomic_fetch_add(&j->inside, 1), 0); /* never twice at once */
    (void)atomic_compare_exchange_strong(&j->order, &none,
                                         atomic_fetch_add(&places, 1) + 1);
    if (run < TIMES)
        j->at[run] = spn_clock_now(clock_);
    atomic_fetch_add(&j->runs, 1);
    if (j->gate != NULL && spn_latch_await(j->gate, SPN_FOREVER) == SPN_EINTR)
        atomic_fetch_add(&j->interrupted, 1);
    if (j->act != NULL)
        j->act(j);
    atomic_fetch_sub(&j->inside, 1);
    atomic_fetch_add(&j->ended, 1);
    return atomic_load(&j->fails);
}

static inline int job_call(void *arg, void **result)
{
    *result = arg;
    return job_run(arg);
}

static inline void open_clocked(spn_scheduled_opts opts, int manual)
{
    memset(jobs, 0, sizeof jobs);
    atomic_store(&places, 0);
    clock_ = spn_clock_monotonic();
    if (manual)
        REQUIRE_OK(spn_clock_create_manual(&clock_, SPN_SEC(1000)));
    opts.clock = clock_;
    REQUIRE_OK(spn_scheduled_create(&sched, &opts));
    ex = spn_scheduled_executor(sched);
    pool = spn_scheduled_pool(sched);
    REQUIRE_OK(spn_latch_create(&gate, 1));
}

static inline void open_with(spn_scheduled_opts opts)
{
    open_clocked(opts, 1);
}

static inline void open_pool(int32_t threads)
{
    open_with(spn_scheduled_opts_pool(threads));
}

/* The books of an executor at its end. */
static inline spn_pool_stats expect_even(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    CHECK_OK(spn_pool_stats_get(pool, &s));
    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.queued, 0);
    CHECK_EQ(s.active, 0);
    CHECK_EQ(s.accepted, s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    return s;
}

static inline void await_end(void)
{
    CHECK_OK(spn_executor_await(ex, T_LONG_NS));
    CHECK_EQ(spn_executor_is_terminated(ex), 1);
    (void)expect_even();
    CHECK_EQ(pool_stats(pool).threads, 0);
}

static inline void destroy(void)
{
    for (int i = 0; i < JOBS; i++)
        spn_future_unref(jobs[i].future);
    CHECK_OK(spn_scheduled_destroy(sched));
    CHECK_OK(spn_latch_destroy(gate));
    if (clock_ != spn_clock_monotonic())
        CHECK_OK(spn_clock_destroy(clock_));
}

static inline void close_pool(void)
{
    CHECK_OK(spn_executor_shutdown(ex));
    await_end();
    destroy();
}

/* What waits is cancelled. */
static inline void cut_pool(void)
{
    CHECK_OK(spn_executor_shutdown_now(ex, NULL, NULL, NULL));
    await_end();
    destroy();
}

static inline void schedule(int i, int64_t delay_ns)
{
    REQUIRE_OK(
        spn_scheduled_schedule(sched, job_call, &jobs[i], delay_ns, &jobs[i].future));
}

static inline void at_rate(int i, int64_t first_ns, int64_t period_ns)
{
    REQUIRE_OK(spn_scheduled_at_fixed_rate(sched, job_run, &jobs[i], first_ns,
                                           period_ns, &jobs[i].future));
}

static inline void with_delay(int i, int64_t first_ns, int64_t delay_ns)
{
    REQUIRE_OK(spn_scheduled_with_fixed_delay(sched, job_run, &jobs[i], first_ns,
                                              delay_ns, &jobs[i].future));
}

static inline void advance(int64_t by_ns)
{
    CHECK_OK(spn_clock_advance(clock_, by_ns));
}

static inline int runs(int i)
{
    return atomic_load(&jobs[i].runs);
}

static inline void await_runs(int i, int count)
{
    T_AWAIT(atomic_load(&jobs[i].ended) >= count);
}

/* A periodic one is back in the queue. */
static inline void await_queued(int64_t count)
{
    T_AWAIT(pool_stats(pool).queued == count && pool_stats(pool).active == 0);
}

static inline int64_t remaining(int i)
{
    int64_t ns = INT64_MIN;

    CHECK_OK(spn_scheduled_remaining(jobs[i].future, &ns));
    return ns;
}

#endif /* SCHEDS_H */
