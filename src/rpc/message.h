/* SPDX-License-Identifier: MIT */
/*
 * message.h - a frame that came, on its way through the chain.
 *
 * One block of memory has all of it: this head, what server or client add to it, the body,
 * and room for what is decoded.  It has a hold of its channel, which its release gives up.
 */
#ifndef SPN__MESSAGE_H
#define SPN__MESSAGE_H

#include "endpoint/stream.h"
#include "rpc/wire/frame.h"

struct spn__message {
    spn_message head; /* first */
    struct spn__frame frame;
    unsigned char *body; /* frame.length bytes, the message's own */
    /* Reads the body; NULL: there is nothing to decode. */
    void (*decode)(struct spn__message *message);
};

static inline struct spn__message *spn__message_of(spn_message *message)
{
    return (struct spn__message *)(void *)message; /* its first member */
}

static inline struct spn__stream *
spn__message_stream(const struct spn__message *message)
{
    return spn__stream_of(message->head.channel);
}

/* A message of a frame: what is behind it in the struct is the caller's to set. */
static inline void spn__message_init(struct spn__message *message,
                                     const spn_message_ops *ops,
                                     struct spn__stream *stream,
                                     const struct spn__frame *frame,
                                     unsigned char *body)
{
    message->head = (spn_message)SPN_MESSAGE_INIT(ops, spn__frame_is_request(frame)
                                                           ? SPN_MESSAGE_REQUEST
                                                           : SPN_MESSAGE_RESPONSE);
    message->head.channel = &stream->channel;
    message->frame = *frame;
    message->body = body;
    message->decode = NULL;
}

/* decode.c: decodes bodies, inside of the dispatch. */
extern const spn_handler_ops spn__decode_ops;

#endif /* SPN__MESSAGE_H */
