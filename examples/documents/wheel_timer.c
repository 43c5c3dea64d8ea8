/* SPDX-License-Identifier: MIT */
/*
 * wheel_timer.c - after "如何使用" of the notes on HashedWheelTimer (document 003) and its
 * first section: a timeout runs once; for a period the task adds itself again.  Also the
 * Timer of documents 000 (16.3) and 001: newTimeout, cancel, and stop, which returns what has
 * not run.
 *
 *     new HashedWheelTimer(threadFactory, 100, MILLISECONDS, 512, true, -1);
 *     timer.newTimeout(task, delay, unit);
 *
 * The clock is a manual one, so that times are exact.
 */
#include <spindle.h>

#include <stdio.h>

struct beat {
    const char *name;
    int64_t delay_ns;
    int runs_left;
};

static spn_clock *clock_;
static spn_timer *timer;
static spn_semaphore *told;

/* TimerTask.run(Timeout): the time has come, and at no other time. */
static void run(spn_timeout_handle *timeout, void *arg)
{
    struct beat *b = arg;

    printf("%s runs at %lld ms, %lld waiting\n", b->name,
           (long long)(spn_clock_now(clock_) / SPN_MS(1)),
           (long long)spn_timer_pending(spn_timeout_handle_timer(timeout)));
    if (--b->runs_left > 0 && /* the task adds itself again: so long from now */
        spn_timeout_handle_again(timeout, b->delay_ns) != SPN_OK)
        printf("%s cannot be added again\n", b->name);
    spn_semaphore_release(told, 1);
}

/* In place of run, for a timeout whose time will not come. */
static void gone(void *arg, int reason)
{
    printf("%s is gone: %s\n", ((struct beat *)arg)->name, spn_status_name(reason));
    spn_semaphore_release(told, 1);
}

static int until_told(void)
{
    return spn_semaphore_acquire(told, 1, SPN_SEC(30));
}

int main(void)
{
    struct beat often = { "often", SPN_MS(250), 3 }, never = { "never", SPN_SEC(1), 1 };
    struct beat later = { "later", SPN_SEC(60), 1 };
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timeout_handle_list left;
    spn_timeout_handle *cancelled, *one;

    if (spn_clock_create_manual(&clock_, 0) != SPN_OK ||
        spn_semaphore_create(&told, NULL) != SPN_OK)
        return 1;
    opts.clock = clock_;
    opts.tick_ns = SPN_MS(100); /* these are the defaults */
    opts.slots = 512;
    opts.max_pending = -1;
    opts.layout = SPN_WHEEL_HASHED; /* the document's; the default has several levels */
    if (spn_timer_create(&timer, &opts) != SPN_OK ||
        spn_timer_new_timeout(timer, run, gone, &often, often.delay_ns, NULL) !=
            SPN_OK ||
        spn_timer_new_timeout(timer, run, gone, &later, later.delay_ns, NULL) !=
            SPN_OK ||
        spn_timer_new_timeout(timer, run, gone, &never, never.delay_ns, &cancelled) !=
            SPN_OK)
        return 1;

    if (spn_timeout_handle_cancel(cancelled) != SPN_TIMEOUT_REMOVED ||
        until_told() != SPN_OK)
        return 1;
    spn_timeout_handle_unref(cancelled);
    for (int tick = 1; tick <= 9; tick++) /* 250 ms end with the third tick */
        if (spn_clock_advance(clock_, SPN_MS(100)) != SPN_OK ||
            (tick % 3 == 0 && until_told() != SPN_OK))
            return 1;

    if (spn_timer_stop(timer, NULL, &left) != SPN_OK)
        return 1;
    while ((one = spn_timeout_handle_take(&left)) != NULL) {
        printf("stop returns %s\n", ((struct beat *)spn_timeout_handle_arg(one))->name);
        spn_timeout_handle_unref(one);
    }
    if (spn_timer_destroy(timer) != SPN_OK)
        return 1;
    spn_semaphore_destroy(told);
    return spn_clock_destroy(clock_) == SPN_OK ? 0 : 1;
}
