/* SPDX-License-Identifier: MIT */
/*
 * cost_pool.c - a backlog goes into a pool of one worker, and comes out.
 *
 * The first task holds the worker in read() while the first thread submits n tasks.  The
 * last task tells the first thread and stays in read() for ever, so that the worker never
 * looks for more work, spins or parks.
 */
#include <spindle.h>

#include <unistd.h>

#include "cost.h"

enum { FULL_QUEUE = 16 };

static int held[2], may_go[2], done[2], never[2]; /* pipes */

static void tell(const int pipe[2])
{
    COST_CHECK(write(pipe[1], "", 1) == 1);
}

static void await(const int pipe[2])
{
    char byte;

    COST_CHECK(read(pipe[0], &byte, 1) == 1);
}

static int hold_worker(void *arg)
{
    (void)arg;
    tell(held);
    await(may_go);
    cost_count_from_here();
    return 0;
}

static int end_worker(void *arg)
{
    (void)arg;
    cost_count_to_here();
    tell(done);
    await(never);
    return 0;
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int run_nothing(spn_task *task)
{
    (void)task;
    return 0;
}

static int give_arg(void *arg, void **value)
{
    *value = arg;
    return 0;
}

/* A pool of one worker, which is in hold_worker when this returns. */
static spn_executor *pool_held(spn_pool_queue_kind kind, int32_t capacity)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_pool *pool;

    COST_CHECK(pipe(held) == 0 && pipe(may_go) == 0 && pipe(done) == 0 &&
               pipe(never) == 0);
    opts.core_threads = opts.max_threads = 1;
    opts.queue_capacity = capacity;
    opts.queue_kind = kind;
    COST_CHECK(spn_pool_create(&pool, &opts) == SPN_OK);
    COST_CHECK(spn_executor_call(spn_pool_executor(pool), hold_worker, NULL) == SPN_OK);
    await(held);
    cost_count_from_here();
    return spn_pool_executor(pool);
}

/* Has the worker run all that waits. */
static void run_backlog(spn_executor *executor)
{
    COST_CHECK(spn_executor_call(executor, end_worker, NULL) == SPN_OK);
    tell(may_go);
    await(done);
}

static void call_all(spn_executor *executor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        COST_CHECK(spn_executor_call(executor, do_nothing, NULL) == SPN_OK);
    run_backlog(executor);
}

static void execute_all(spn_executor *executor, size_t n)
{
    spn_task *tasks = cost_records(n, sizeof *tasks);

    for (size_t i = 0; i < n; i++) {
        tasks[i] = (spn_task)SPN_TASK_INIT(run_nothing, NULL);
        COST_CHECK(spn_executor_execute(executor, &tasks[i]) == SPN_OK);
    }
    run_backlog(executor);
}

void cost_pool_call(size_t n)
{
    call_all(pool_held(SPN_POOL_FIFO, SPN_UNBOUNDED), n);
}

void cost_pool_execute(size_t n)
{
    execute_all(pool_held(SPN_POOL_FIFO, SPN_UNBOUNDED), n);
}

void cost_lanes_call(size_t n)
{
    call_all(pool_held(SPN_POOL_LANES, SPN_UNBOUNDED), n);
}

void cost_lanes_execute(size_t n)
{
    execute_all(pool_held(SPN_POOL_LANES, SPN_UNBOUNDED), n);
}

void cost_pool_submit(size_t n)
{
    spn_executor *executor = pool_held(SPN_POOL_FIFO, SPN_UNBOUNDED);
    spn_future **futures = cost_records(n, sizeof(spn_future *));
    void *value;

    for (size_t i = 0; i < n; i++)
        COST_CHECK(spn_executor_submit(executor, give_arg, &futures[i], &futures[i]) ==
                   SPN_OK);
    run_backlog(executor);
    for (size_t i = 0; i < n; i++) {
        COST_CHECK(spn_future_get(futures[i], &value, SPN_FOREVER) == SPN_OK);
        COST_CHECK(value == &futures[i]);
        spn_future_unref(futures[i]);
    }
}

void cost_pool_refuse(size_t n)
{
    spn_executor *executor = pool_held(SPN_POOL_FIFO, FULL_QUEUE);

    for (int i = 0; i < FULL_QUEUE; i++)
        COST_CHECK(spn_executor_call(executor, do_nothing, NULL) == SPN_OK);
    for (size_t i = 0; i < n; i++)
        COST_CHECK(spn_executor_call(executor, do_nothing, NULL) == SPN_EREJECTED);
}
