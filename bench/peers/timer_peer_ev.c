/* SPDX-License-Identifier: MIT */
/* timer_peer_ev.c - libev's timers. */
#include <ev.h>
#include <stdlib.h>

#include "timer_load.h"
#include "timer_peer.h"

const int peer_threads_max = 1;
static struct ev_loop *loop;
static ev_timer **timers;

void peer_open(size_t count)
{
    loop = ev_loop_new(EVFLAG_AUTO);
    timers = malloc(count * sizeof *timers);
    if (loop == NULL || timers == NULL)
        abort();
    for (size_t i = 0; i < count; i++) {
        timers[i] = calloc(1, sizeof **timers);
        if (timers[i] == NULL)
            abort();
        timers[i]->data = (void *)i;
    }
}

static void on_timer(struct ev_loop *l, ev_timer *timer, int events)
{
    (void)events;
    peer_fired((size_t)timer->data);
    if (peer_enough())
        ev_break(l, EVBREAK_ALL);
}

void peer_add(size_t index, int64_t delay_ns)
{
    ev_timer *timer = timers[index];

    if (!peer_loop_time)
        ev_now_update(loop); /* with the loop's old time they would fire early */
    ev_init(timer, on_timer);
    timer->data = (void *)index;
    ev_timer_set(timer, (double)delay_ns * 1e-9, 0.);
    ev_timer_start(loop, timer);
}

void peer_cancel(size_t index)
{
    ev_timer_stop(loop, timers[index]);
}

static void on_end(struct ev_loop *l, ev_timer *timer, int events)
{
    (void)timer;
    (void)events;
    ev_break(l, EVBREAK_ALL);
}

void peer_loop(int64_t deadline_ns)
{
    static ev_timer end;

    if (deadline_ns != INT64_MAX) {
        ev_now_update(loop);
        ev_init(&end, on_end);
        ev_timer_set(&end, (double)(deadline_ns - load_now()) * 1e-9, 0.);
        ev_timer_start(loop, &end);
    }
    ev_run(loop, 0);
    if (deadline_ns != INT64_MAX)
        ev_timer_stop(loop, &end);
}
