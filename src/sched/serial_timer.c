/* SPDX-License-Identifier: MIT */
/*
 * serial_timer.c - one thread that runs tasks at their times, with the face of
 * java.util.Timer.
 *
 * OVERVIEW
 *   A scheduled executor with one thread; a task is a scheduled future that nobody sees.
 *   What is added is what a task of such a timer has been through, which says whether it
 *   can be scheduled, and whether a cancel prevents anything:
 *
 *     FRESH -> SCHEDULED -> OVER        it runs, for the only time
 *                        -> CANCELLED   also from FRESH; final, as OVER is
 *
 *   The one compare-and-swap from SCHEDULED decides between a run that starts and a
 *   cancel.
 *
 * ORDERING  `state` and `last_due` are relaxed: the former decides who wins and carries
 *   nothing, what happens before a run comes with the queue; the latter is one number.
 */
#include <spindle/serial_timer.h>

#include "base/options.h"
#include "base/time.h"
#include "exec/pool.h"
#include "sched/scheduled.h"
#include "sync/blocks.h"

enum { FRESH, SCHEDULED, OVER, CANCELLED };

struct spn_serial_timer {
    struct spn_scheduled *scheduled; /* fixed, as all of it */
    void (*failed)(spn_serial_timer *timer, spn_serial_task *task, int code, void *ctx);
    void *ctx;
};

struct spn_serial_task {
    struct spn__scheduled_future f; /* first: they are the same object */
    spn_run_fn run;                 /* fixed, as arg */
    void *arg;
    SPN__ATOMIC(uint32_t) state;
    SPN__ATOMIC(int64_t) last_due; /* NEVER: it has not run */
};
#define NEVER INT64_MIN

static bool pass(struct spn_serial_task *task, uint32_t from, uint32_t to)
{
    return spn__cas(&task->state, &from, to, relaxed, relaxed);
}

/* ---- tasks -------------------------------------------------------------------------- */

/* What the future calls. */
static int run(void *arg)
{
    struct spn_serial_task *task = arg;

    if (task->f.repeat == SPN_REPEAT_NONE
            ? !pass(task, SCHEDULED, OVER)
            : spn__load(&task->state, relaxed) != SCHEDULED)
        return 0; /* it was cancelled */
    /* relaxed: changes only while it does not run. */
    spn__store(&task->last_due, spn__load(&task->f.due_ns, relaxed), relaxed);
    return task->run(task->arg);
}

int spn_serial_task_create(spn_serial_task **out, spn_run_fn fn, void *arg)
{
    const spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_schedule what = SPN_SCHEDULE_INIT;
    struct spn_serial_task *task;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (fn == NULL)
        return SPN_EINVAL;
    task = spn__block_get(sizeof *task);
    if (task == NULL)
        return SPN_ENOMEM;
    what.run = run;
    what.arg = task;
    what.repeat = SPN__REPEAT_START; /* or not: see start */
    what.on_failure = SPN_FAILURE_GO_ON;
    spn__scheduled_future_init(&task->f, NULL, &what, &opts);
    task->run = fn;
    task->arg = arg;
    spn__init(&task->state, FRESH);
    spn__init(&task->last_due, NEVER);
    *out = task;
    return SPN_OK;
}

void spn_serial_task_unref(spn_serial_task *task)
{
    if (task != NULL)
        spn_future_unref(&task->f.t.future);
}

int spn_serial_task_cancel(spn_serial_task *task)
{
    if (task == NULL)
        return SPN_EINVAL;
    if (pass(task, FRESH, CANCELLED) || !pass(task, SCHEDULED, CANCELLED))
        return 0;
    (void)spn_future_cancel(&task->f.t.future, 0);
    return 1;
}

int spn_serial_task_scheduled_time(spn_serial_task *task, int64_t *due_ns)
{
    int64_t due;

    if (task == NULL || due_ns == NULL)
        return SPN_EINVAL;
    due = spn__load(&task->last_due, relaxed);
    if (due == NEVER)
        return SPN_ESTATE;
    *due_ns = due;
    return SPN_OK;
}

/* ---- the timer ------------------------------------------------------------------------ */

static void failed(spn_scheduled *scheduled, spn_future *future, int code, void *ctx)
{
    struct spn_serial_timer *timer = ctx;

    (void)scheduled;
    timer->failed(timer, (struct spn_serial_task *)(void *)future, code, timer->ctx);
}

int spn_serial_timer_create(spn_serial_timer **out, const spn_serial_timer_opts *opts)
{
    spn_serial_timer_opts o = SPN_SERIAL_TIMER_OPTS_INIT;
    spn_scheduled_opts so = spn_scheduled_opts_pool(1);
    struct spn_serial_timer *timer;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    timer = spn__alloc(sizeof *timer);
    if (timer == NULL)
        return SPN_ENOMEM;
    timer->failed = o.failed;
    timer->ctx = o.ctx;
    so.fixed = 1;
    so.name = o.name;
    so.clock = o.clock;
    so.factory = o.factory;
    so.thread = o.thread;
    so.failed = o.failed != NULL ? failed : NULL;
    so.ctx = timer;
    rc = spn_scheduled_create(&timer->scheduled, &so);
    if (rc != SPN_OK) {
        spn__free(timer);
        return rc;
    }
    *out = timer;
    return SPN_OK;
}

int spn_serial_timer_destroy(spn_serial_timer *timer)
{
    int rc;

    if (timer == NULL)
        return SPN_OK;
    rc = spn_scheduled_destroy(timer->scheduled);
    if (rc == SPN_OK)
        spn__free(timer);
    return rc;
}

int spn_serial_timer_cancel(spn_serial_timer *timer)
{
    if (timer == NULL)
        return SPN_EINVAL;
    /* relaxed: asked under the lock of the queue, once that is closed. */
    spn__store(&timer->scheduled->stops_all, 1, relaxed);
    return spn__pool_shutdown(timer->scheduled->pool);
}

int spn_serial_timer_await(spn_serial_timer *timer, int64_t timeout_ns)
{
    return timer == NULL ? SPN_EINVAL
                         : spn__pool_await(timer->scheduled->pool, timeout_ns);
}

int64_t spn_serial_timer_pending(spn_serial_timer *timer)
{
    return timer == NULL ? SPN_EINVAL : spn__work_size(timer->scheduled->pool);
}

/* ---- scheduling ------------------------------------------------------------------------- */

/* How the future repeats. */
static uint8_t inner_repeat(int repeat)
{
    return repeat == SPN_REPEAT_DELAY ? (uint8_t)SPN__REPEAT_START : (uint8_t)repeat;
}

/* Has the task run at due_ns. */
static int start(struct spn_serial_timer *timer, struct spn_serial_task *task,
                 int64_t due_ns, int repeat, int64_t period_ns)
{
    int rc;

    if (due_ns == SPN_FOREVER)
        return SPN_EINVAL;
    if (spn__pool_state(timer->scheduled->pool) != SPN_EXECUTOR_RUNNING ||
        !pass(task, FRESH, SCHEDULED))
        return SPN_ESTATE;
    task->f.repeat = inner_repeat(repeat);
    task->f.period_ns = period_ns;
    task->f.t.task.flags |= SPN__TASK_TIED | SPN__TASK_PERIODIC;
    if (repeat == SPN_REPEAT_NONE)
        task->f.t.task.flags &= ~SPN__TASK_PERIODIC;
    rc = spn__scheduled_future_start(&task->f, timer->scheduled, due_ns);
    if (rc == SPN_OK) {
        spn__scheduled_future_check(&task->f); /* cancelled on its way in */
        return SPN_OK;
    }
    (void)pass(task, SCHEDULED, FRESH);
    return rc == SPN_EREJECTED ? SPN_ESTATE : rc;
}

static bool is_repeat(int repeat, int64_t period_ns)
{
    if (repeat == SPN_REPEAT_NONE)
        return period_ns == 0;
    return (repeat == SPN_REPEAT_RATE || repeat == SPN_REPEAT_DELAY) && period_ns > 0;
}

int spn_serial_timer_schedule(spn_serial_timer *timer, spn_serial_task *task,
                              int64_t delay_ns, int repeat, int64_t period_ns)
{
    if (timer == NULL || task == NULL || delay_ns < 0 || !is_repeat(repeat, period_ns))
        return SPN_EINVAL;
    return start(timer, task,
                 spn__time_add(spn__delays_now(&timer->scheduled->delays), delay_ns),
                 repeat, period_ns);
}

int spn_serial_timer_schedule_at(spn_serial_timer *timer, spn_serial_task *task,
                                 int64_t at_ns, int repeat, int64_t period_ns)
{
    if (timer == NULL || task == NULL || at_ns < 0 || !is_repeat(repeat, period_ns))
        return SPN_EINVAL;
    return start(timer, task, at_ns, repeat, period_ns);
}
