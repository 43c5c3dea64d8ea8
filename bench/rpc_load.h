/* SPDX-License-Identifier: MIT */
/*
 * rpc_load.h - a closed loop of remote calls: connections, each with so many requests under
 * way; every reply is followed by the next request.  The same for every server.
 *
 * One thread and raw sockets.  Replies that came with one read are followed by their
 * requests in one write, as an asynchronous client does it.
 */
#ifndef RPC_LOAD_H
#define RPC_LOAD_H

#include <stddef.h>

#include "bench.h"

enum { RPC_HEAD = 16 };

/* The variant's connections and depth against a port of this machine; starts and stops the
 * time, reports p50 and p99 of a request. */
void rpc_load_run(struct bench *b, int port);

/* A request of Dubbo's protocol, and the reply that a method which returns "pang" gives;
 * both with the id 0. */
size_t rpc_request(unsigned char frame[512]);
size_t rpc_reply(unsigned char frame[64]);

/* Length of the frame that begins here; 0: not yet known. */
static inline size_t rpc_frame_size(const unsigned char *data, size_t size)
{
    if (size < RPC_HEAD)
        return 0;
    return RPC_HEAD + ((size_t)data[12] << 24 | (size_t)data[13] << 16 |
                       (size_t)data[14] << 8 | data[15]);
}

#define RPC_INTERFACE "org.apache.dubbo.demo.DemoService"

#endif /* RPC_LOAD_H */
