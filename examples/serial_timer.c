/* SPDX-License-Identifier: MIT */
/*
 * serial_timer.c - one thread that runs tasks at their times, one after another: no
 * lock is needed between them.
 */
#include <spindle.h>

#include <stdio.h>

#define PERIOD SPN_MS(2)

static int ticks, late; /* only tasks of the timer touch them */
static spn_serial_timer *timer;
static spn_serial_task *ticking;

static int tick(void *arg)
{
    int64_t due_ns;

    (void)arg;
    if (spn_serial_task_scheduled_time(ticking, &due_ns) == SPN_OK &&
        spn_now() - due_ns > PERIOD)
        late++; /* the next one follows at once */
    ticks++;
    return 0;
}

static int stop(void *arg)
{
    (void)arg;
    if (spn_serial_task_cancel(ticking) != 1)
        return SPN_ESTATE;
    printf("ticked %s, %s late, %d left\n", ticks >= 3 ? "often enough" : "too seldom",
           late < ticks ? "not always" : "always",
           (int)spn_serial_timer_pending(timer));
    return spn_serial_timer_cancel(timer); /* this task is the last */
}

int main(void)
{
    spn_serial_task *stopping;
    int64_t first_ns;

    if (spn_serial_timer_create(&timer, NULL) != SPN_OK ||
        spn_serial_task_create(&ticking, tick, NULL) != SPN_OK ||
        spn_serial_task_create(&stopping, stop, NULL) != SPN_OK)
        return 1;
    first_ns = spn_now() / PERIOD * PERIOD + PERIOD; /* in phase with the clock */
    if (spn_serial_timer_schedule_at(timer, ticking, first_ns, SPN_REPEAT_RATE,
                                     PERIOD) != SPN_OK ||
        spn_serial_timer_schedule(timer, stopping, SPN_MS(30), SPN_REPEAT_NONE, 0) !=
            SPN_OK)
        return 1;
    if (spn_serial_timer_await(timer, SPN_SEC(60)) != SPN_OK)
        return 1;
    spn_serial_task_unref(ticking);
    spn_serial_task_unref(stopping);
    return spn_serial_timer_destroy(timer) == SPN_OK && ticks >= 3 ? 0 : 1;
}
