/* SPDX-License-Identifier: MIT */
/* bad_channel.h - what bad_input.h has of channels and dispatches: see there. */
#ifndef BAD_CHANNEL_H
#define BAD_CHANNEL_H

#include <spindle/channel.h>

#include "test.h"

struct channel_fixture {
    spn_channel *channel;        /* one reference */
    spn_handler handler;         /* the innermost, without functions */
    spn_dispatch *dispatch;      /* in front of that one */
    spn_dispatch *ended;         /* stopped */
    spn_message message;         /* for a call; released by it */
    int released;                /* messages */
    int gone;                    /* channels */
    int closed;                  /* spn_channel_close, its last reason */
    spn_channel *made;           /* by a call */
    spn_dispatch *made_dispatch; /* the same */
    spn_extensions *extensions;  /* with the dispatchers */
    spn_dispatch_stats stats;
};

static struct channel_fixture chan;

static inline int chan_send(void *ctx, spn_channel *channel, const void *message)
{
    (void)ctx;
    (void)channel;
    (void)message;
    return SPN_OK;
}

static inline void chan_close(void *ctx, spn_channel *channel, int why)
{
    (void)ctx;
    (void)channel;
    chan.closed = why;
}

static inline void chan_gone(void *ctx)
{
    (void)ctx;
    chan.gone++;
}

static inline void chan_release(spn_message *message)
{
    (void)message;
    chan.released++;
}

#define CHANNEL_OPS_INIT                                          \
    {                                                             \
        sizeof(spn_channel_ops), chan_send, chan_close, chan_gone \
    }
static const spn_channel_ops chan_ops = CHANNEL_OPS_INIT;
static const spn_message_ops chan_message_ops = { chan_release, NULL };
static const spn_handler_ops chan_handler_ops = { NULL, NULL, NULL, NULL, NULL };
#define CHAN_URL "bad://127.0.0.1:1?dispatcher=direct&dump.enable=false"

/* A message as a call wants it: new. */
static inline spn_message *chan_message(void)
{
    chan.message =
        (spn_message)SPN_MESSAGE_INIT(&chan_message_ops, SPN_MESSAGE_REQUEST);
    return &chan.message;
}

static inline void open_channels(void)
{
    memset(&chan, 0, sizeof chan);
    chan.handler.ops = &chan_handler_ops;
    chan.stats.size = sizeof chan.stats;
    REQUIRE_OK(spn_extensions_create(&chan.extensions, NULL));
    REQUIRE_OK(spn_dispatchers_register(chan.extensions, NULL));
    REQUIRE_OK(spn_channel_create(&chan.channel, &chan_ops, NULL, "10.0.0.1:7"));
    REQUIRE_OK(
        spn_dispatch_create(&chan.dispatch, CHAN_URL, &chan.handler, NULL, NULL));
    REQUIRE_OK(spn_dispatch_create(&chan.ended, CHAN_URL, &chan.handler, NULL, NULL));
    REQUIRE_OK(spn_dispatch_stop(chan.ended, 0));
}

static inline void end_made_dispatch(void)
{
    CHECK_OK(spn_dispatch_stop(chan.made_dispatch, SPN_FOREVER));
    CHECK_OK(spn_dispatch_destroy(chan.made_dispatch));
}

static inline void close_channels(void)
{
    spn_channel_unref(chan.channel);
    CHECK_OK(spn_dispatch_stop(chan.dispatch, SPN_FOREVER));
    CHECK_OK(spn_dispatch_destroy(chan.dispatch));
    CHECK_OK(spn_dispatch_destroy(chan.ended));
    CHECK_OK(spn_extensions_destroy(chan.extensions));
}

#endif /* BAD_CHANNEL_H */
