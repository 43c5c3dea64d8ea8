/* SPDX-License-Identifier: MIT */
/*
 * timer_poll.c - timeouts in a loop that polls: the timer says how long poll() may sleep.
 *
 * The timer has no thread.  The loop asks next_expiry when to come back, and calls run
 * then.  A thread that schedules something earlier wakes the loop, because `wake` writes to
 * a pipe, which the loop polls beside its sockets.  (Where the loop can only watch
 * descriptors, the timer has one: timer_libuv.c.)
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <spindle.h>

enum { TIMEOUTS = 3 };

static spn_timer *timer;
static int pipe_ends[2];
static int fired;

static int on_time(spn_timeout *timeout)
{
    (void)timeout;
    fired++;
    printf("%d, in the loop\n", fired);
    return 0;
}

/* On the thread that scheduled something earlier.  A full pipe wakes the loop as well. */
static void wake(void *ctx)
{
    (void)ctx;
    if (write(pipe_ends[1], "", 1) < 0)
        return;
}

static int schedule_from_elsewhere(void *timeouts)
{
    spn_timeout *t = timeouts;
    int rc = SPN_OK;

    for (int i = 0; i < TIMEOUTS && rc == SPN_OK; i++) /* each earlier than the last */
        rc = spn_timer_schedule(timer, &t[i], on_time, SPN_MS(30 - 10 * i));
    return rc;
}

/* How long poll() may sleep, rounded up, so that it does not come back too early. */
static int poll_ms(void)
{
    const int64_t due_ns = spn_timer_next_expiry(timer), now_ns = spn_now();

    if (due_ns <= now_ns)
        return 0;
    if (due_ns - now_ns > SPN_SEC(60))
        return 60000; /* or for ever: then there is nothing to come back for */
    return (int)((due_ns - now_ns + SPN_MS(1) - 1) / SPN_MS(1));
}

int main(void)
{
    spn_timeout timeouts[TIMEOUTS] = { SPN_TIMEOUT_INIT };
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_thread *thread;
    int result = 1;

    opts.tick_ns = SPN_MS(1);
    opts.drive = SPN_TIMER_DRIVEN;
    opts.wake = wake;
    if (pipe(pipe_ends) != 0 || fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK) != 0 ||
        spn_timer_create(&timer, &opts) != SPN_OK ||
        spn_thread_create(&thread, NULL, schedule_from_elsewhere, timeouts) != SPN_OK)
        return 1;
    while (fired < TIMEOUTS) {
        struct pollfd polled = { .fd = pipe_ends[0], .events = POLLIN };
        char bytes[64];

        if (poll(&polled, 1, poll_ms()) < 0)
            return 1;
        while (read(pipe_ends[0], bytes, sizeof bytes) > 0) {
        }
        if (spn_timer_run(timer) < 0)
            return 1;
    }
    if (spn_thread_join(thread, SPN_FOREVER, &result) != SPN_OK)
        return 1;
    spn_thread_unref(thread);
    if (spn_timer_stop(timer, NULL, NULL) != SPN_OK ||
        spn_timer_destroy(timer) != SPN_OK)
        return 1;
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return result == SPN_OK ? 0 : 1;
}
