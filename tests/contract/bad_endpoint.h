/* SPDX-License-Identifier: MIT */
/* bad_endpoint.h - what bad_input_rpc.h has of endpoints: see there. */
#ifndef BAD_ENDPOINT_H
#define BAD_ENDPOINT_H

#include <spindle/endpoint.h>

#include "bad_channel.h"

struct endpoint_fixture {
    spn_endpoint *server; /* listens, and stays */
    spn_endpoint *ended;  /* stopped */
    spn_endpoint *made;   /* by a call */
    spn_endpoint_stats stats;
};

static struct endpoint_fixture ep;

static inline int64_t ep_length(void *ctx, const void *data, size_t size)
{
    (void)ctx;
    (void)data;
    (void)size;
    return 1;
}

static inline int ep_decode(void *ctx, spn_channel *channel, const void *frame,
                            size_t size, spn_message **out)
{
    (void)ctx;
    (void)channel;
    (void)frame;
    (void)size;
    *out = NULL;
    return SPN_OK;
}

static inline int64_t ep_encode(void *ctx, const void *message, void *room, size_t size)
{
    (void)ctx;
    (void)message;
    (void)room;
    (void)size;
    return 0;
}

#define CODEC_INIT                                               \
    {                                                            \
        sizeof(spn_codec), NULL, ep_length, ep_decode, ep_encode \
    }
static const spn_codec ep_codec = CODEC_INIT;

static inline void ep_end(spn_endpoint *endpoint)
{
    CHECK_OK(spn_endpoint_stop(endpoint, SPN_FOREVER));
    CHECK_OK(spn_endpoint_destroy(endpoint));
}

static inline void ep_end_made(void)
{
    ep_end(ep.made);
}

static inline void ep_open(void)
{
    memset(&ep, 0, sizeof ep);
    ep.stats.size = sizeof ep.stats;
    REQUIRE_OK(spn_endpoint_listen(&ep.server, "127.0.0.1", 0, &ep_codec, &chan.handler,
                                   NULL, NULL));
    REQUIRE_OK(spn_endpoint_listen(&ep.ended, "127.0.0.1", 0, &ep_codec, &chan.handler,
                                   NULL, NULL));
    REQUIRE_OK(spn_endpoint_stop(ep.ended, SPN_FOREVER));
    /* Records of threads stay for the next ones: as many as a call needs are made now. */
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(spn_endpoint_connect(&ep.made, "127.0.0.1",
                                        spn_endpoint_port(ep.server), &ep_codec,
                                        &chan.handler, NULL, NULL));
        ep_end_made();
        REQUIRE_OK(spn_endpoint_listen(&ep.made, "127.0.0.1", 0, &ep_codec,
                                       &chan.handler, NULL, NULL));
        ep_end_made();
    }
}

static inline void ep_close(void)
{
    ep_end(ep.server);
    CHECK_OK(spn_endpoint_destroy(ep.ended));
}

#endif /* BAD_ENDPOINT_H */
