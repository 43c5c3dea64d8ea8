/* SPDX-License-Identifier: MIT */
/*
 * channel.h - channels and handlers, as the library sees them; see channel.c.
 *
 * A handler is a decorator: it does its part and calls the one inside.  All that is outside
 * of the dispatch runs on the I/O thread; what is inside, where the dispatcher says.
 */
#ifndef SPN__CHANNEL_H
#define SPN__CHANNEL_H

#include <spindle/channel.h>

#include "base/shared.h"
#include "sync/seam.h"

struct spn__address;

/* What becomes of a channel: it is a program's, or the first member of a stream. */
struct spn__channel_kind {
    void (*destroy)(spn_channel *channel); /* its last holder has dropped it */
    /* A message in flight has been released, which counted so many bytes. */
    void (*end)(spn_channel *channel, size_t counted);
};

/* A connection event on its way to another thread; it holds its channel. */
struct spn__event_task {
    spn_task task;
    spn_dispatch *dispatch;
    spn_channel *channel;
    spn_channel_event event;
    int why;
    bool is_counted; /* the dispatch waits for it */
};

struct spn_channel {
    const struct spn__channel_kind *kind;
    const spn_channel_ops *ops;
    void *ctx;
    const char *remote;
    void *data;
    spn_data_gone_fn data_gone;  /* NULL: nobody wants to know */
    SPN__ATOMIC(uint64_t) holds; /* [hold] */
    SPN__ATOMIC(uint32_t) refs;  /* of these holders, the program's references */
    /* Messages that were handed to the pool, and of these who have left it: places.c. */
    uint32_t entered; /* I/O thread only */
    SPN__ATOMIC(uint32_t) left;
    struct spn__address *address; /* a reference; NULL: not counted */
    struct spn__event_task connected, disconnected;
};

/* Holders are counted in the lower half of the word, messages in flight in the upper. */
#define SPN__IN_FLIGHT (UINT64_C(1) << 32)

/* Makes one with one holder; what embeds it is zero. */
SPN__SHARED void spn__channel_init(spn_channel *channel,
                                   const struct spn__channel_kind *kind,
                                   const spn_channel_ops *ops, void *ctx,
                                   const char *remote);
/* It is being freed. */
SPN__SHARED void spn__channel_fini(spn_channel *channel);

/* relaxed, both: who has a hold may pass another on, and nothing is published by it. */
static inline void spn__channel_hold(spn_channel *channel)
{
    (void)spn__fetch_add(&channel->holds, 1, relaxed);
}

/* A message is in flight; how many are, with this one. */
static inline uint64_t spn__channel_begin(spn_channel *channel)
{
    return spn__fetch_add(&channel->holds, SPN__IN_FLIGHT, relaxed) / SPN__IN_FLIGHT +
           1;
}

/* Gives up so many holds. */
static inline void spn__channel_drop_of(spn_channel *channel, uint64_t holds)
{
    if (spn__fetch_sub(&channel->holds, holds, acq_rel) == holds) /* [hold] */
        channel->kind->destroy(channel);
}

static inline void spn__channel_drop(spn_channel *channel)
{
    spn__channel_drop_of(channel, 1);
}

static inline uint64_t spn__channel_in_flight(const spn_channel *channel)
{
    /* acquire: what a message did happens before it is seen to have ended [hold].
     * mutant: the I/O thread drops its hold later, and stop waits for that thread */
    return spn__load(&((spn_channel *)(uintptr_t)channel)->holds, acquire) /
           SPN__IN_FLIGHT;
}

/* ---- messages -------------------------------------------------------------------- */

/* Bits of message->flags.  One thread has a message at a time. */
enum {
    SPN__MESSAGE_KEEPS = 1,     /* it is in flight until it is released */
    SPN__MESSAGE_HAS_PLACE = 2, /* of the pool's, see places.c */
    SPN__MESSAGE_WAITS = 4,     /* it is one of those that wait, see waits.c */
    SPN__MESSAGE_COUNTED = 8, /* its dispatch waits for it, see [tasks] in dispatch.c */
    SPN__MESSAGE_WHY = 256    /* times an spn__refused: it is refused in its turn */
};

/* The message's reply is about to be sent, or its handler has left it to another: its
 * thread is as good as free.  Again: nothing happens. */
SPN__SHARED void spn__message_leave_place(spn_message *message);

static inline void spn__message_leave(spn_message *message)
{
    if ((message->flags & SPN__MESSAGE_HAS_PLACE) != 0)
        spn__message_leave_place(message);
}

/* ---- telling handlers ---------------------------------------------------------------- */

static inline void spn__handler_connected(spn_handler *handler, spn_channel *channel)
{
    for (; handler != NULL; handler = handler->inner)
        if (handler->ops->connected != NULL) {
            handler->ops->connected(handler, channel);
            return;
        }
}

static inline void spn__handler_disconnected(spn_handler *handler, spn_channel *channel,
                                             int why)
{
    for (; handler != NULL; handler = handler->inner)
        if (handler->ops->disconnected != NULL) {
            handler->ops->disconnected(handler, channel, why);
            return;
        }
}

static inline void spn__handler_sent(spn_handler *handler, spn_channel *channel,
                                     uint64_t position)
{
    for (; handler != NULL; handler = handler->inner)
        if (handler->ops->sent != NULL) {
            handler->ops->sent(handler, channel, position);
            return;
        }
}

static inline int spn__handler_received(spn_handler *handler, spn_channel *channel,
                                        spn_message *message)
{
    for (; handler != NULL; handler = handler->inner)
        if (handler->ops->received != NULL)
            return handler->ops->received(handler, channel, message);
    spn_message_release(message);
    return SPN_OK;
}

static inline void spn__handler_caught(spn_handler *handler, spn_channel *channel,
                                       int why)
{
    for (; handler != NULL; handler = handler->inner)
        if (handler->ops->caught != NULL) {
            handler->ops->caught(handler, channel, why);
            return;
        }
}

/* Whether anybody listens to `sent`; a dispatch only passes it on. */
SPN__SHARED bool spn__handler_has_sent(const spn_handler *handler);

#endif /* SPN__CHANNEL_H */
