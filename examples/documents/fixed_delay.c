/* SPDX-License-Identifier: MIT */
/*
 * fixed_delay.c - after "scheduleWithFixedDelay" of the notes on thread pools (document 002):
 * the delay of 1 s counts from the end of a run that takes 2 s.
 *
 *     pool.scheduleWithFixedDelay(() -> { running; Thread.sleep(2000); }, 1, 1, SECONDS);
 *     // start 18:11:41, running 18:11:42, 18:11:45, 18:11:48
 *
 * The clock is a manual one: the seconds are exact and take no time.
 */
#include <spindle.h>

#include <sched.h>
#include <stdio.h>

static spn_clock *clock_;

static int running(void *arg)
{
    const int64_t now_ns = spn_clock_now(clock_);

    (void)arg;
    printf("running... %lld s\n", (long long)(now_ns / SPN_SEC(1)));
    return spn_clock_sleep_until(clock_, now_ns + SPN_SEC(2)); /* Thread.sleep(2000) */
}

int main(void)
{
    spn_scheduled_opts opts = spn_scheduled_opts_pool(3);
    spn_scheduled *pool;
    spn_future *task;
    int64_t wait_ns = 0;

    if (spn_clock_create_manual(&clock_, 0) != SPN_OK)
        return 1;
    opts.clock = clock_;
    if (spn_scheduled_create(&pool, &opts) != SPN_OK)
        return 1;
    printf("start... 0 s\n");
    if (spn_scheduled_with_fixed_delay(pool, running, NULL, SPN_SEC(1), SPN_SEC(1),
                                       &task) != SPN_OK)
        return 1;
    for (int run = 0; run < 3; run++) {
        do /* until the run before has ended, and the next one has its time */
            sched_yield();
        while (spn_scheduled_remaining(task, &wait_ns) == SPN_OK && wait_ns <= 0);
        if (spn_clock_advance(clock_, wait_ns) != SPN_OK || /* it is due */
            spn_clock_await_sleepers(clock_, 1, SPN_SEC(30)) != SPN_OK ||
            spn_clock_advance_to_next(clock_, NULL) != SPN_OK) /* it has slept */
            return 1;
    }

    if (spn_future_cancel(task, 1) != 1)
        return 1;
    spn_future_unref(task);
    if (spn_executor_shutdown(spn_scheduled_executor(pool)) != SPN_OK ||
        spn_executor_await(spn_scheduled_executor(pool), SPN_SEC(30)) != SPN_OK ||
        spn_scheduled_destroy(pool) != SPN_OK)
        return 1;
    return spn_clock_destroy(clock_) == SPN_OK ? 0 : 1;
}
