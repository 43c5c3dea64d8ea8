/* SPDX-License-Identifier: MIT */
/*
 * dispatch_direct.c - everything is handled on the I/O thread: the fastest, for methods that never wait.
 */
#include "channel/dispatch.h"

static spn_place place(const spn_dispatcher *self, spn_channel_event event)
{
    (void)self;
    (void)event;
    return SPN_PLACE_IO;
}

const spn_dispatcher spn__dispatcher_direct = {
    .size = sizeof(spn_dispatcher),
    .place = place,
};
