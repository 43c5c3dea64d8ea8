/* SPDX-License-Identifier: MIT */
/*
 * timer_two_tasks.c - after "Timer" of the notes on thread pools (document 002): a Timer has
 * one thread, so a task that sleeps delays the next one.
 *
 *     timer.schedule(task1, 1000);    // prints, sleeps for 2 s
 *     timer.schedule(task2, 1000);    // prints, 2 s late
 *
 * In Java an exception of task 1 ends the timer, and task 2 never runs.  Here it is reported,
 * and the timer goes on.  The clock is a manual one: the seconds are exact and take no time.
 */
#include <spindle.h>

#include <stdio.h>

enum { BROKEN = 7 };

static spn_clock *clock_;
static spn_latch *second_ran;

static long long seconds(void)
{
    return (long long)(spn_clock_now(clock_) / SPN_SEC(1));
}

static int task1(void *arg)
{
    (void)arg;
    printf("at %lld s: task 1\n", seconds());
    if (spn_clock_sleep_until(clock_, spn_clock_now(clock_) + SPN_SEC(2)) != SPN_OK)
        return SPN_EINTR;
    return BROKEN; /* int i = 1 / 0 */
}

static int task2(void *arg)
{
    (void)arg;
    printf("at %lld s: task 2\n", seconds());
    spn_latch_count_down(second_ran);
    return 0;
}

static void failed(spn_serial_timer *timer, spn_serial_task *task, int code, void *ctx)
{
    (void)timer;
    (void)task;
    (void)ctx;
    printf("at %lld s: a task has failed with %d\n", seconds(), code);
}

int main(void)
{
    spn_serial_timer_opts opts = SPN_SERIAL_TIMER_OPTS_INIT;
    spn_serial_timer *timer;
    spn_serial_task *first, *second;

    if (spn_clock_create_manual(&clock_, 0) != SPN_OK ||
        spn_latch_create(&second_ran, 1) != SPN_OK)
        return 1;
    opts.clock = clock_;
    opts.failed = failed;
    if (spn_serial_timer_create(&timer, &opts) != SPN_OK ||
        spn_serial_task_create(&first, task1, NULL) != SPN_OK ||
        spn_serial_task_create(&second, task2, NULL) != SPN_OK ||
        spn_serial_timer_schedule(timer, first, SPN_SEC(1), SPN_REPEAT_NONE, 0) !=
            SPN_OK ||
        spn_serial_timer_schedule(timer, second, SPN_SEC(1), SPN_REPEAT_NONE, 0) !=
            SPN_OK)
        return 1;

    if (spn_clock_advance(clock_, SPN_SEC(1)) != SPN_OK || /* both are due */
        spn_clock_await_sleepers(clock_, 1, SPN_SEC(30)) !=
            SPN_OK || /* task 1 sleeps */
        spn_clock_advance_to_next(clock_, NULL) != SPN_OK ||
        spn_latch_await(second_ran, SPN_SEC(30)) != SPN_OK)
        return 1;

    spn_serial_task_unref(first);
    spn_serial_task_unref(second);
    if (spn_serial_timer_cancel(timer) != SPN_OK ||
        spn_serial_timer_await(timer, SPN_SEC(30)) != SPN_OK ||
        spn_serial_timer_destroy(timer) != SPN_OK)
        return 1;
    spn_latch_destroy(second_ran);
    return spn_clock_destroy(clock_) == SPN_OK ? 0 : 1;
}
