/* SPDX-License-Identifier: MIT */
/*
 * decode.c - bodies are decoded here, inside of the dispatch: on the thread that will
 * handle the message, so that I/O threads never read a large body.
 *
 * A body that cannot be decoded is no failure: the message is marked, and the exchange
 * answers for it.
 */
#include "rpc/message.h"

static int received(spn_handler *handler, spn_channel *channel, spn_message *message)
{
    struct spn__message *own = spn__message_of(message);

    if (own->decode != NULL)
        own->decode(own);
    return spn__handler_received(handler->inner, channel, message);
}

const spn_handler_ops spn__decode_ops = { .received = received };
