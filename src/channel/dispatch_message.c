/* SPDX-License-Identifier: MIT */
/*
 * dispatch_message.c - requests and responses go to the pool, the rest stays on the I/O thread.
 */
#include "channel/dispatch.h"

static spn_place place(const spn_dispatcher *self, spn_channel_event event)
{
    (void)self;
    return event == SPN_CHANNEL_REQUEST || event == SPN_CHANNEL_RESPONSE
               ? SPN_PLACE_PREFERRED
               : SPN_PLACE_IO;
}

const spn_dispatcher spn__dispatcher_message = {
    .size = sizeof(spn_dispatcher),
    .place = place,
};
