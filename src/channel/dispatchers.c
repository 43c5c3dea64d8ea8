/* SPDX-License-Identifier: MIT */
/* dispatchers.c - the five as extensions, and the names of events and places. */
#include "channel/dispatch.h"

#define DISPATCHER(called, what)                                                      \
    {                                                                                 \
        .size = sizeof(spn_extension), .kind = SPN_KIND_DISPATCHER, .name = (called), \
        .instance = (what)                                                            \
    }

static const spn_extension dispatchers[] = {
    DISPATCHER("all", &spn__dispatcher_all),
    DISPATCHER("connection", &spn__dispatcher_connection),
    DISPATCHER("direct", &spn__dispatcher_direct),
    DISPATCHER("execution", &spn__dispatcher_execution),
    DISPATCHER("message", &spn__dispatcher_message),
};

int spn_dispatchers_register(spn_extensions *extensions, spn_problem *problem)
{
    if (extensions == NULL)
        return SPN_EINVAL;
    for (size_t i = 0; i < sizeof dispatchers / sizeof *dispatchers; i++) {
        const int rc = spn_extensions_register(extensions, &dispatchers[i], problem);

        /* Taken: it was registered before, or the program has one it likes better. */
        if (rc != SPN_OK && rc != SPN_EBUSY)
            return rc;
    }
    return SPN_OK;
}

const char *spn_channel_event_name(int event)
{
    static const char *const names[] = { "connected", "disconnected", "request",
                                         "response",  "sent",         "caught" };

    return event >= 0 && event < SPN_CHANNEL_EVENTS ? names[event] : "unknown";
}

const char *spn_place_name(int place)
{
    static const char *const names[] = { "io", "pool", "preferred", "ordered", "own" };

    return place >= 0 && place < SPN_PLACES ? names[place] : "unknown";
}
