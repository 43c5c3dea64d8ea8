/* SPDX-License-Identifier: MIT */
/*
 * delayed_tasks.c - after "Scheduled", "延迟任务" of the notes on thread pools (document 002):
 * two tasks are due at the same time on two threads, so the one that sleeps delays nobody;
 * and one that fails harms nobody.
 *
 *     ScheduledExecutorService executor = Executors.newScheduledThreadPool(2);
 *     executor.schedule(task1, 1000, TimeUnit.MILLISECONDS);    // sleeps for 2 s
 *     executor.schedule(task2, 1000, TimeUnit.MILLISECONDS);
 */
#include <spindle.h>

#include <stdio.h>

static spn_clock *clock_;

struct times {
    long long start, end;
};

static long long seconds(void)
{
    return (long long)(spn_clock_now(clock_) / SPN_SEC(1));
}

static int task1(void *arg, void **result)
{
    struct times *t = arg;

    (void)result;
    t->start = seconds();
    if (spn_clock_sleep_until(clock_, spn_clock_now(clock_) + SPN_SEC(2)) != SPN_OK)
        return SPN_EINTR;
    t->end = seconds();
    return spn_future_fail(1, "/ by zero"); /* int i = 1 / 0: only its future knows */
}

static int task2(void *arg, void **result)
{
    struct times *t = arg;

    (void)result;
    t->start = t->end = seconds();
    return 0;
}

int main(void)
{
    spn_scheduled_opts opts = spn_scheduled_opts_pool(2);
    spn_scheduled *executor;
    spn_future *first, *second;
    struct times t1, t2;
    spn_outcome outcome;

    if (spn_clock_create_manual(&clock_, 0) != SPN_OK)
        return 1;
    opts.clock = clock_;
    if (spn_scheduled_create(&executor, &opts) != SPN_OK ||
        spn_scheduled_schedule(executor, task1, &t1, SPN_SEC(1), &first) != SPN_OK ||
        spn_scheduled_schedule(executor, task2, &t2, SPN_SEC(1), &second) != SPN_OK)
        return 1;

    if (spn_clock_advance(clock_, SPN_SEC(1)) != SPN_OK || /* both are due */
        spn_future_get(second, NULL, SPN_SEC(30)) != SPN_OK)
        return 1;
    printf("task 2 ran at %lld s\n", t2.start);
    if (spn_clock_await_sleepers(clock_, 1, SPN_SEC(30)) != SPN_OK ||
        spn_clock_advance_to_next(clock_, NULL) != SPN_OK ||
        spn_future_get(first, NULL, SPN_SEC(30)) != SPN_EFAILED ||
        spn_future_result(first, &outcome) != SPN_EFAILED)
        return 1;
    printf("task 1 ran from %lld s to %lld s and failed: %s\n", t1.start, t1.end,
           outcome.message);

    spn_future_unref(first);
    spn_future_unref(second);
    if (spn_executor_shutdown(spn_scheduled_executor(executor)) != SPN_OK ||
        spn_executor_await(spn_scheduled_executor(executor), SPN_SEC(30)) != SPN_OK ||
        spn_scheduled_destroy(executor) != SPN_OK)
        return 1;
    return spn_clock_destroy(clock_) == SPN_OK ? 0 : 1;
}
