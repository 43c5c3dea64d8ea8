/* SPDX-License-Identifier: MIT */
/*
 * dispatch_connection.c - requests and responses go to the pool; connections come and go one after the
 * other, on a thread of their own.
 */
#include "channel/dispatch.h"

static spn_place place(const spn_dispatcher *self, spn_channel_event event)
{
    (void)self;
    switch (event) {
    case SPN_CHANNEL_CONNECTED:
    case SPN_CHANNEL_DISCONNECTED:
        return SPN_PLACE_ORDERED;
    case SPN_CHANNEL_SENT:
        return SPN_PLACE_IO;
    case SPN_CHANNEL_CAUGHT:
        return SPN_PLACE_POOL;
    default:
        return SPN_PLACE_PREFERRED;
    }
}

const spn_dispatcher spn__dispatcher_connection = {
    .size = sizeof(spn_dispatcher),
    .place = place,
};
