/* SPDX-License-Identifier: MIT */
/*
 * fault_proxy.h - stands between a client and a server on this machine and does to the
 * bytes what networks do.
 *
 *     struct fault_proxy *proxy = fault_proxy_start(server_port);
 *     fault_proxy_set(proxy, FAULT_TO_CLIENT, (struct fault){ FAULT_CHUNKS, .bytes = 1 });
 *     connect_to(fault_proxy_port(proxy));
 *     ...
 *     fault_proxy_stop(proxy);
 *
 * A fault is of one direction, counts for connections that are made afterwards, and begins
 * when `after` bytes have passed in that direction; until then bytes pass as they come.
 * One thread, plain poll(2), no part of the library under test.
 */
#ifndef FAULT_PROXY_H
#define FAULT_PROXY_H

#include <stddef.h>
#include <stdint.h>

enum fault_kind {
    FAULT_NONE,
    FAULT_CHUNKS,   /* pieces of `bytes` bytes, each a write of its own   */
    FAULT_COALESCE, /* nothing until `bytes` have come, or the end; then all at once */
    FAULT_RESET,    /* both sides are reset                                */
    FAULT_HALF_CLOSE, /* the receiver sees an end; the other direction lives */
    FAULT_BLACK_HOLE, /* bytes are read and never arrive                      */
    FAULT_SLOW,       /* `bytes` bytes a millisecond                          */
    FAULT_STUCK,      /* the proxy stops reading: the sender's socket fills   */
    FAULT_GARBAGE,    /* `bytes` bytes of nonsense, then the rest             */
};

enum fault_way { FAULT_TO_SERVER, FAULT_TO_CLIENT };

struct fault {
    enum fault_kind kind;
    size_t bytes; /* 0: 1 */
    uint64_t after;
};

struct fault_proxy;

/* To a port of 127.0.0.1.  Fails the test when it cannot. */
struct fault_proxy *fault_proxy_start(int server_port);
int fault_proxy_port(const struct fault_proxy *proxy);
void fault_proxy_set(struct fault_proxy *proxy, enum fault_way way, struct fault fault);
/* Resets every connection that stands now. */
void fault_proxy_reset_all(struct fault_proxy *proxy);
/* How many connections it has taken, and how many stand. */
int fault_proxy_taken(struct fault_proxy *proxy);
int fault_proxy_standing(struct fault_proxy *proxy);
/* Closes everything and waits for its thread. */
void fault_proxy_stop(struct fault_proxy *proxy);

#endif /* FAULT_PROXY_H */
