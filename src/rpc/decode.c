/* SPDX-License-Identifier: MIT */
/*
 * decode.c - bodies are decoded here, inside of the dispatcher: on the thread that will
 * handle the message, so that I/O threads never read a large body.
 *
 * A body that cannot be decoded is no failure: the message is marked, and the exchange
 * answers for it.
 */
#include "rpc/handler.h"
#include "rpc/message.h"

static int received(struct spn__handler *handler, struct spn__channel *channel,
                    struct spn__message *message)
{
    if (message->decode != NULL)
        message->decode(message);
    return spn__handler_received(handler->inner, channel, message);
}

const struct spn__handler_ops spn__decode_ops = { .received = received };
