/* SPDX-License-Identifier: MIT */
/*
 * net_pipe.h - a transport without a network: bytes are fed in by hand, on the caller's
 * thread, which so becomes the I/O thread; what is sent is kept for the test to read.
 *
 * Linked in place of the library's transport: for every prefix and every flipped bit of a
 * frame, and for fuzzing, where a socket for each would take hours.
 */
#ifndef NET_PIPE_H
#define NET_PIPE_H

#include "net/transport.h"

/* A connection to whoever listens. */
struct spn__conn *pipe_open(struct spn__transport *transport);
/* Feeds bytes, as one read, together with those that were not used up before; then tells
 * of what was closed meanwhile.  False: the connection is gone. */
bool pipe_feed(struct spn__conn *conn, const void *data, size_t size);
/* The peer closes.  The connection is gone. */
void pipe_close(struct spn__conn *conn);
/* What was sent so far, and forgets it: up to capacity bytes. */
size_t pipe_take(struct spn__conn *conn, void *data, size_t capacity);
/* Bytes offered and not used up: waiting for more. */
size_t pipe_waiting(const struct spn__conn *conn);

#endif /* NET_PIPE_H */
