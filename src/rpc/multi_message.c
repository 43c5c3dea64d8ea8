/* SPDX-License-Identifier: MIT */
/*
 * multi_message.c - the messages of one read are each other's neighbours and nothing more:
 * one that fails is told as `caught`, and those behind it are handled all the same.
 *
 * The channel hands over one message after the other instead of a list of them: a message
 * that is handled on the spot leaves its memory, still warm, to the next.
 */
#include "rpc/handler.h"

static int received(struct spn__handler *handler, struct spn__channel *channel,
                    struct spn__message *message)
{
    const int rc = spn__handler_received(handler->inner, channel, message);

    if (rc != 0)
        spn__handler_caught(handler->inner, channel, rc);
    return 0;
}

const struct spn__handler_ops spn__multi_message_ops = { .received = received };
