/* SPDX-License-Identifier: MIT */
/*
 * timer_libuv.c - timeouts run by a libuv loop, scheduled from any thread.
 *
 * The timer has no thread of its own: its descriptor becomes readable when it is time,
 * and the loop calls run.  Another thread schedules without touching the loop; libuv's
 * own timers could not do that.
 */
#include <stdio.h>
#include <uv.h>

#include <spindle.h>

static spn_timer *timer;
static uv_poll_t watcher;
static int fired;

static int on_time(spn_timeout *timeout)
{
    (void)timeout;
    fired++;
    printf("%d, on the loop's thread\n", fired);
    if (fired == 3)
        uv_close((uv_handle_t *)&watcher, NULL); /* and the loop ends */
    return 0;
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)handle;
    (void)status;
    (void)events;
    (void)spn_timer_run(timer);
}

static int schedule_from_elsewhere(void *timeouts)
{
    spn_timeout *t = timeouts;
    int rc = SPN_OK;

    for (int i = 0; i < 3 && rc == SPN_OK; i++) /* each earlier than the one before */
        rc = spn_timer_schedule(timer, &t[i], on_time, SPN_MS(30 - 10 * i));
    return rc;
}

int main(void)
{
    spn_timeout timeouts[3] = { SPN_TIMEOUT_INIT, SPN_TIMEOUT_INIT, SPN_TIMEOUT_INIT };
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_thread *thread;
    uv_loop_t loop;
    int result = 1;

    opts.tick_ns = SPN_MS(1);
    opts.drive = SPN_TIMER_FD;
    if (spn_timer_create(&timer, &opts) != SPN_OK || uv_loop_init(&loop) != 0)
        return 1;
    if (uv_poll_init(&loop, &watcher, spn_timer_fd(timer)) != 0 ||
        uv_poll_start(&watcher, UV_READABLE, on_readable) != 0)
        return 1;
    if (spn_thread_create(&thread, NULL, schedule_from_elsewhere, timeouts) != SPN_OK)
        return 1;
    uv_run(&loop, UV_RUN_DEFAULT);
    if (spn_thread_join(thread, SPN_FOREVER, &result) != SPN_OK)
        return 1;
    spn_thread_unref(thread);
    if (uv_loop_close(&loop) != 0 || spn_timer_stop(timer, NULL, NULL) != SPN_OK)
        return 1;
    return spn_timer_destroy(timer) == SPN_OK && result == SPN_OK && fired == 3 ? 0 : 1;
}
