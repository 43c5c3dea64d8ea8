/* SPDX-License-Identifier: MIT */
/*
 * dispatch_all.c - everything but what was sent goes to the pool, so that I/O threads only read and
 * write.  A storm of connections takes threads of the pool, too.
 */
#include "channel/dispatch.h"

static spn_place place(const spn_dispatcher *self, spn_channel_event event)
{
    (void)self;
    switch (event) {
    case SPN_CHANNEL_SENT:
        return SPN_PLACE_IO;
    case SPN_CHANNEL_REQUEST:
    case SPN_CHANNEL_RESPONSE:
        return SPN_PLACE_PREFERRED;
    default:
        return SPN_PLACE_POOL;
    }
}

const spn_dispatcher spn__dispatcher_all = {
    .size = sizeof(spn_dispatcher),
    .place = place,
};
