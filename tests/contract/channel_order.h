/* SPDX-License-Identifier: MIT */
/* channel_order.h - a handler that notes in which order channels come and go; see
 * channel_bed.h. */
#ifndef CHANNEL_ORDER_H
#define CHANNEL_ORDER_H

#include "channel_bed.h"

enum { LINES = 20 };

struct order {
    spn_handler handler;
    spn_latch *gate;
    struct line lines[LINES];
    atomic_int told; /* of `seen` */
    struct {
        int line;
        bool is_end;
    } seen[2 * LINES];
    atomic_int running, most;
    char name[64];
};

static inline void order_note(spn_handler *self, spn_channel *channel, bool is_end)
{
    struct order *o = (struct order *)self;
    const struct line *line = spn_channel_data(channel);
    const int running = atomic_fetch_add(&o->running, 1) + 1;
    int at;

    if (running > atomic_load(&o->most))
        atomic_store(&o->most, running);
    (void)spn_thread_name(spn_thread_current(), o->name, sizeof o->name);
    while (spn_latch_await(o->gate, T_LONG_NS) == SPN_EINTR)
        ;
    at = atomic_load(&o->told);
    o->seen[at].line = (int)(line - o->lines);
    o->seen[at].is_end = is_end;
    atomic_fetch_sub(&o->running, 1);
    atomic_store(&o->told, at + 1);
}

static inline void order_connected(spn_handler *self, spn_channel *channel)
{
    order_note(self, channel, false);
}

static inline void order_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    (void)why;
    order_note(self, channel, true);
}

static const spn_handler_ops order_ops = { order_connected, order_disconnected, NULL,
                                           NULL, NULL };

static inline void order_open(struct order *o, spn_dispatch **dispatch, const char *url)
{
    memset(o, 0, sizeof *o);
    o->handler.ops = &order_ops;
    REQUIRE_OK(spn_latch_create(&o->gate, 1));
    REQUIRE_OK(spn_dispatch_create(dispatch, url, &o->handler, NULL, NULL));
    for (int i = 0; i < LINES; i++)
        line_open(&o->lines[i]);
}

static inline void order_close(struct order *o, spn_dispatch *dispatch)
{
    CHECK_OK(spn_dispatch_stop(dispatch, T_LONG_NS));
    CHECK_OK(spn_dispatch_destroy(dispatch));
    for (int i = 0; i < LINES; i++)
        line_end(&o->lines[i]);
    CHECK_OK(spn_latch_destroy(o->gate));
}

#endif /* CHANNEL_ORDER_H */
