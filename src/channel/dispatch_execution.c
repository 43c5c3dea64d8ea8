/* SPDX-License-Identifier: MIT */
/*
 * dispatch_execution.c - only requests go to the pool: a response is handled where it was read.
 */
#include "channel/dispatch.h"

static spn_place place(const spn_dispatcher *self, spn_channel_event event)
{
    (void)self;
    return event == SPN_CHANNEL_REQUEST ? SPN_PLACE_PREFERRED : SPN_PLACE_IO;
}

const spn_dispatcher spn__dispatcher_execution = {
    .size = sizeof(spn_dispatcher),
    .place = place,
};
