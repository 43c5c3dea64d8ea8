/* SPDX-License-Identifier: MIT */
/* timer_peer_uv.c - libuv's timers; whole milliseconds, rounded up. */
#include <stdlib.h>
#include <uv.h>

#include "timer_load.h"
#include "timer_peer.h"

const int peer_threads_max = 1;
static uv_loop_t loop;
static uv_timer_t **timers;

void peer_open(size_t count)
{
    timers = malloc(count * sizeof *timers);
    if (timers == NULL || uv_loop_init(&loop) != 0)
        abort();
    for (size_t i = 0; i < count; i++) { /* one by one, as a program has them */
        timers[i] = malloc(sizeof **timers);
        if (timers[i] == NULL)
            abort();
        uv_timer_init(&loop, timers[i]);
        timers[i]->data = (void *)i;
    }
}

static void on_timer(uv_timer_t *timer)
{
    peer_fired((size_t)timer->data);
    if (peer_enough())
        uv_stop(&loop);
}

void peer_add(size_t index, int64_t delay_ns)
{
    /* With many at once the loop's time is old: they would fire early. */
    if (!peer_loop_time)
        uv_update_time(&loop);
    uv_timer_start(timers[index], on_timer, (uint64_t)(delay_ns + 999999) / 1000000, 0);
}

void peer_cancel(size_t index)
{
    uv_timer_stop(timers[index]);
}

static void on_end(uv_timer_t *timer)
{
    (void)timer;
    uv_stop(&loop);
}

void peer_loop(int64_t deadline_ns)
{
    static uv_timer_t end;

    if (deadline_ns != INT64_MAX) {
        uv_timer_init(&loop, &end);
        uv_update_time(&loop);
        uv_timer_start(&end, on_end, (uint64_t)(deadline_ns - load_now()) / 1000000, 0);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    if (deadline_ns != INT64_MAX)
        uv_timer_stop(&end);
}
