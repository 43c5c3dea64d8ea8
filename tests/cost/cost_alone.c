/* SPDX-License-Identifier: MIT */
/*
 * cost_alone.c - what one thread does by itself: executors without threads, futures,
 * timers on a manual clock, wheels, queues and small things.
 */
#include <spindle.h>

#include <stdint.h>

#include "cost.h"

enum { OBJECTS = 1, QUEUED = 256 };

static int run_nothing(spn_task *task)
{
    (void)task;
    return 0;
}

static void execute_all(spn_executor *executor, size_t n)
{
    spn_task *tasks = cost_records(n, sizeof *tasks);

    for (size_t i = 0; i < n; i++) {
        tasks[i] = (spn_task)SPN_TASK_INIT(run_nothing, NULL);
        COST_CHECK(spn_executor_execute(executor, &tasks[i]) == SPN_OK);
    }
}

void cost_direct_execute(size_t n)
{
    execute_all(spn_executor_direct(), n);
}

void cost_manual_execute(size_t n)
{
    spn_manual_executor *manual;

    COST_CHECK(spn_manual_executor_create(&manual) == SPN_OK);
    execute_all(spn_manual_executor_executor(manual), n);
    COST_CHECK(spn_manual_executor_run(manual, INT64_MAX) == (int64_t)n);
}

void cost_future_complete(size_t n)
{
    spn_future *future;
    void *value;

    for (size_t i = 0; i < n; i++) {
        COST_CHECK(spn_future_create(&future, NULL) == SPN_OK);
        COST_CHECK(spn_future_complete(future, &future) == 1);
        COST_CHECK(spn_future_get(future, &value, SPN_FOREVER) == SPN_OK);
        spn_future_unref(future);
    }
}

/* ---- timers ----------------------------------------------------------------- */

/* 1 ms .. 4 s in whole milliseconds, the same sequence in every run. */
static int64_t delay_ns(size_t i)
{
    return SPN_MS(1 + (int64_t)(i * 2654435761u >> 8 & 4095));
}

static size_t fired;

static int note_fired(spn_timeout *timeout)
{
    (void)timeout;
    fired++;
    return 0;
}

static spn_timer *timer_driven(spn_clock **clock)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timer *timer;

    COST_CHECK(spn_clock_create_manual(clock, SPN_SEC(1)) == SPN_OK);
    opts.tick_ns = SPN_MS(1);
    opts.drive = SPN_TIMER_DRIVEN;
    opts.shards = 1;
    opts.clock = *clock;
    COST_CHECK(spn_timer_create(&timer, &opts) == SPN_OK);
    return timer;
}

static spn_timeout *schedule_all(spn_timer *timer, size_t n)
{
    spn_timeout *timeouts = cost_records(n, sizeof *timeouts);

    for (size_t i = 0; i < n; i++)
        COST_CHECK(spn_timer_schedule(timer, &timeouts[i], note_fired, delay_ns(i)) ==
                   SPN_OK);
    return timeouts;
}

void cost_timer_cancel(size_t n)
{
    spn_clock *clock;
    spn_timer *timer = timer_driven(&clock);
    spn_timeout *timeouts = schedule_all(timer, n);

    for (size_t i = 0; i < n; i++)
        COST_CHECK(spn_timer_cancel(timer, &timeouts[i]) == SPN_TIMEOUT_REMOVED);
}

void cost_timer_fire(size_t n)
{
    spn_clock *clock;
    spn_timer *timer = timer_driven(&clock);

    (void)schedule_all(timer, n);
    COST_CHECK(spn_clock_advance(clock, SPN_SEC(5)) == SPN_OK);
    COST_CHECK(spn_timer_run(timer) == (int)n && fired == n);
}

static spn_wheel *wheel_filled(size_t n, spn_wheel_node **nodes)
{
    spn_wheel *wheel;

    COST_CHECK(spn_wheel_create(&wheel, NULL) == SPN_OK);
    *nodes = cost_records(n, sizeof **nodes);
    for (size_t i = 0; i < n; i++)
        COST_CHECK(spn_wheel_add(wheel, &(*nodes)[i], delay_ns(i)) == SPN_OK);
    return wheel;
}

void cost_wheel_cancel(size_t n)
{
    spn_wheel_node *nodes;
    spn_wheel *wheel = wheel_filled(n, &nodes);

    for (size_t i = 0; i < n; i++)
        COST_CHECK(spn_wheel_remove(wheel, &nodes[i]) == 1);
}

void cost_wheel_fire(size_t n)
{
    spn_wheel_node *nodes;
    spn_wheel *wheel = wheel_filled(n, &nodes);

    COST_CHECK(spn_wheel_advance_to(wheel, SPN_SEC(5)) == SPN_OK);
    for (size_t i = 0; i < n; i++)
        COST_CHECK(spn_wheel_take_due(wheel) != NULL);
}

/* ---- queues: filled and emptied, a batch after the other ----------------------- */

static void pass_items(spn_queue_kind kind, size_t n)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *queue;
    void *item;

    opts.capacity = QUEUED;
    COST_CHECK(spn_queue_create(&queue, kind, &opts) == SPN_OK);
    for (size_t i = 0; i < n; i += QUEUED) {
        for (size_t k = 0; k < QUEUED; k++)
            COST_CHECK(spn_queue_put(queue, &opts, SPN_FOREVER) == SPN_OK);
        for (size_t k = 0; k < QUEUED; k++)
            COST_CHECK(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK &&
                       item == &opts);
    }
}

void cost_queue_array(size_t n)
{
    pass_items(SPN_QUEUE_ARRAY, n);
}

void cost_queue_linked(size_t n)
{
    pass_items(SPN_QUEUE_LINKED, n);
}

void cost_queue_ring(size_t n)
{
    pass_items(SPN_QUEUE_RING, n);
}

/* ---- small things ---------------------------------------------------------------- */

void cost_semaphore(size_t n)
{
    spn_semaphore *semaphore;

    COST_CHECK(spn_semaphore_create(&semaphore, NULL) == SPN_OK);
    COST_CHECK(spn_semaphore_release(semaphore, 1) == SPN_OK);
    for (size_t i = 0; i < n; i++) {
        COST_CHECK(spn_semaphore_acquire(semaphore, 1, SPN_FOREVER) == SPN_OK);
        COST_CHECK(spn_semaphore_release(semaphore, 1) == SPN_OK);
    }
}

void cost_histogram_record(size_t n)
{
    spn_histogram *histogram;

    COST_CHECK(spn_histogram_create(&histogram) == SPN_OK);
    for (size_t i = 0; i < n; i++)
        spn_histogram_record(histogram, delay_ns(i));
}

/* Objects are looked up by their addresses: these are the same in every program, and nobody
 * follows them. */
static int make_object(void *ctx, void **object)
{
    static uintptr_t made;

    (void)ctx;
    *object = (void *)(++made * 64);
    return 0;
}

void cost_object_pool(size_t n)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;
    spn_object_pool *pool;
    void *object;

    opts.max = opts.min_idle = OBJECTS;
    opts.factory.make = make_object;
    COST_CHECK(spn_object_pool_create(&pool, &opts) == SPN_OK);
    COST_CHECK(spn_object_pool_maintain(pool) == SPN_OK);
    for (size_t i = 0; i < n; i++) {
        COST_CHECK(spn_object_pool_borrow(pool, &object, SPN_FOREVER) == SPN_OK);
        COST_CHECK(spn_object_pool_return(pool, object) == SPN_OK);
    }
}
