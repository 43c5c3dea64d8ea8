/* SPDX-License-Identifier: MIT */
/*
 * endpoint.h - the inside of a program's endpoint:
 *
 *   endpoint.c  listens or connects, and ends
 *   codec.c     the protocol of its streams: the program's codec
 */
#ifndef SPN__ENDPOINT_H
#define SPN__ENDPOINT_H

#include <spindle/endpoint.h>
#include <spindle/future.h>

#include "endpoint/stream.h"

struct spn_endpoint {
    struct spn__endpoint base; /* first */
    const spn_codec *codec;    /* borrowed; fixed, as all up to `lock` */
    size_t max_frame;
    const void *heartbeat;
    struct spn__transport *transport;
    bool owns_transport;
    spn_timer *timer;
    int32_t process; /* that has the threads */
    int port;
    /* A client's: */
    spn_handler front;     /* in front of the program's: tells connect */
    spn_future *stands;    /* done when the connection stands, or cannot be had */
    spn_channel *channel;  /* a reference, from then on */
    struct spn__lock lock; /* guards what follows; a leaf */
    bool is_stopped;
    bool is_being_stopped; /* a thread is inside stop */
    struct spn__listener *listener;
};

/* codec.c */
extern const struct spn__protocol spn__codec_protocol;

/* As the public ones, on a transport that is the caller's, and is kept: for tests. */
int spn__endpoint_listen_on(spn_endpoint **out, const char *host, int port,
                            const spn_codec *codec, spn_handler *handler,
                            const spn_endpoint_opts *opts, spn_problem *problem,
                            struct spn__transport *transport);
int spn__endpoint_connect_on(spn_endpoint **out, const char *host, int port,
                             const spn_codec *codec, spn_handler *handler,
                             const spn_endpoint_opts *opts, spn_problem *problem,
                             struct spn__transport *transport);

#endif /* SPN__ENDPOINT_H */
