/* SPDX-License-Identifier: MIT */
/*
 * serial_timer.c - one thread that runs tasks at their times, one after another: no
 * lock is needed between them.
 */
#include <spindle.h>

#include <stdio.h>

static int ticks; /* only tasks of the timer touch it */
static spn_serial_timer *timer;

static int tick(void *arg)
{
    (void)arg;
    ticks++;
    return 0;
}

static int stop(void *arg)
{
    (void)arg;
    printf("ticked %s\n", ticks >= 3 ? "often enough" : "too seldom");
    return spn_serial_timer_cancel(timer); /* this task is the last */
}

int main(void)
{
    spn_serial_task *ticking, *stopping;

    if (spn_serial_timer_create(&timer, NULL) != SPN_OK ||
        spn_serial_task_create(&ticking, tick, NULL) != SPN_OK ||
        spn_serial_task_create(&stopping, stop, NULL) != SPN_OK)
        return 1;
    if (spn_serial_timer_repeat(timer, ticking, SPN_REPEAT_RATE, 0, SPN_MS(2)) !=
            SPN_OK ||
        spn_serial_timer_schedule(timer, stopping, SPN_MS(30)) != SPN_OK)
        return 1;
    if (spn_serial_timer_await(timer, SPN_SEC(60)) != SPN_OK)
        return 1;
    spn_serial_task_unref(ticking);
    spn_serial_task_unref(stopping);
    return spn_serial_timer_destroy(timer) == SPN_OK && ticks >= 3 ? 0 : 1;
}
