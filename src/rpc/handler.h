/* SPDX-License-Identifier: MIT */
/*
 * handler.h - what happens on a channel goes through a chain of handlers, from the
 * transport inwards:
 *
 *     multi_message -> heartbeat -> dispatch -> decode -> exchange (server or client)
 *
 * Each is a decorator: it does its part and calls the one inside.  All that is outside of
 * dispatch runs on the I/O thread; what is inside, where the dispatcher says.  Servers and
 * clients have the same chain but for the innermost.
 *
 * A function that a handler does not have is that of the next one inside.
 */
#ifndef SPN__HANDLER_H
#define SPN__HANDLER_H

#include <stddef.h>
#include <stdint.h>

struct spn__channel;
struct spn__message;
struct spn__handler;

struct spn__handler_ops {
    void (*connected)(struct spn__handler *handler, struct spn__channel *channel);
    /* why: as the transport tells it */
    void (*disconnected)(struct spn__handler *handler, struct spn__channel *channel,
                         int why);
    /* Handed to the kernel up to that position of the outgoing stream. */
    void (*sent)(struct spn__handler *handler, struct spn__channel *channel,
                 uint64_t position);
    /* Takes the message, whatever it returns: 0, or a failure for `caught`. */
    int (*received)(struct spn__handler *handler, struct spn__channel *channel,
                    struct spn__message *message);
    void (*caught)(struct spn__handler *handler, struct spn__channel *channel, int why);
};

struct spn__handler {
    const struct spn__handler_ops *ops;
    struct spn__handler *inner; /* NULL: the innermost, which has all five */
};

static inline void spn__handler_connected(struct spn__handler *h,
                                          struct spn__channel *channel)
{
    while (h->ops->connected == NULL)
        h = h->inner;
    h->ops->connected(h, channel);
}

static inline void spn__handler_disconnected(struct spn__handler *h,
                                             struct spn__channel *channel, int why)
{
    while (h->ops->disconnected == NULL)
        h = h->inner;
    h->ops->disconnected(h, channel, why);
}

static inline void spn__handler_sent(struct spn__handler *h,
                                     struct spn__channel *channel, uint64_t position)
{
    while (h->ops->sent == NULL)
        h = h->inner;
    h->ops->sent(h, channel, position);
}

static inline int spn__handler_received(struct spn__handler *h,
                                        struct spn__channel *channel,
                                        struct spn__message *message)
{
    while (h->ops->received == NULL)
        h = h->inner;
    return h->ops->received(h, channel, message);
}

static inline void spn__handler_caught(struct spn__handler *h,
                                       struct spn__channel *channel, int why)
{
    while (h->ops->caught == NULL)
        h = h->inner;
    h->ops->caught(h, channel, why);
}

/* The outer ones have no state of their own. */
extern const struct spn__handler_ops spn__multi_message_ops;
extern const struct spn__handler_ops spn__heartbeat_ops;
extern const struct spn__handler_ops spn__decode_ops;

#endif /* SPN__HANDLER_H */
