/* SPDX-License-Identifier: MIT */
/* timer_peer_event.c - libevent's timers, with the precise clock. */
#include <event2/event.h>
#include <stdlib.h>

#include "timer_load.h"
#include "timer_peer.h"

const int peer_threads_max = 1;
static struct event_base *base;
static struct event **timers;

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    peer_fired((size_t)arg);
    if (peer_enough())
        event_base_loopbreak(base);
}

void peer_open(size_t count)
{
    struct event_config *config = event_config_new();

    if (config == NULL ||
        event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER) != 0)
        abort();
    base = event_base_new_with_config(config);
    timers = malloc(count * sizeof *timers);
    if (base == NULL || timers == NULL)
        abort();
    for (size_t i = 0; i < count; i++) {
        timers[i] = event_new(base, -1, 0, on_timer, (void *)i);
        if (timers[i] == NULL)
            abort();
    }
}

void peer_add(size_t index, int64_t delay_ns)
{
    const struct timeval delay = { (time_t)(delay_ns / 1000000000),
                                   (suseconds_t)(delay_ns % 1000000000 / 1000) };

    event_add(timers[index], &delay);
}

void peer_cancel(size_t index)
{
    event_del(timers[index]);
}

void peer_loop(int64_t deadline_ns)
{
    if (deadline_ns != INT64_MAX) {
        const int64_t left = deadline_ns - load_now();
        const struct timeval delay = { (time_t)(left / 1000000000),
                                       (suseconds_t)(left % 1000000000 / 1000) };

        event_base_loopexit(base, &delay);
    }
    event_base_dispatch(base);
}
