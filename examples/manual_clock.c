/* SPDX-License-Identifier: MIT */
/*
 * manual_clock.c - testing a program's own timer: a day passes at once.
 *
 * The heartbeat is ordinary code that takes its clock as an argument.  A server
 * gives it spn_clock_monotonic(); this test gives it a clock that stands still, and
 * moves it from deadline to deadline.  Nothing here sleeps in real time, and the
 * number of beats is exact on the slowest machine.
 */
#include <spindle.h>

#include <stdio.h>

struct heartbeat {
    spn_clock *clock;
    int64_t period_ns;
    int beats;
};

/* Beats once per period until interrupted. */
static int heartbeat_run(void *arg)
{
    struct heartbeat *heart = arg;
    int64_t next_ns = spn_clock_now(heart->clock);

    for (;;) {
        next_ns += heart->period_ns;
        if (spn_clock_sleep_until(heart->clock, next_ns) != SPN_OK)
            return 0;
        heart->beats++;
    }
}

int main(void)
{
    const int64_t day_ns = SPN_SEC(24 * 60 * 60);
    struct heartbeat heart = { NULL, SPN_SEC(60), 0 };
    spn_thread *thread;
    int64_t now_ns = 0;

    if (spn_clock_create_manual(&heart.clock, 0) != SPN_OK ||
        spn_thread_create(&thread, NULL, heartbeat_run, &heart) != SPN_OK)
        return 1;

    while (now_ns < day_ns) {
        /* It has done what was due and sleeps again: the next minute may come. */
        if (spn_clock_await_sleepers(heart.clock, 1, SPN_SEC(10)) != SPN_OK ||
            spn_clock_advance_to_next(heart.clock, &now_ns) != SPN_OK)
            return 1;
    }
    if (spn_clock_await_sleepers(heart.clock, 1, SPN_SEC(10)) != SPN_OK)
        return 1;

    spn_thread_interrupt(thread);
    if (spn_thread_join(thread, SPN_SEC(10), NULL) != SPN_OK)
        return 1;
    spn_thread_unref(thread);
    spn_clock_destroy(heart.clock);
    printf("%d beats in a day of %d minutes\n", heart.beats, 24 * 60);
    return heart.beats == 24 * 60 ? 0 : 1;
}
