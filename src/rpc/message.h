/* SPDX-License-Identifier: MIT */
/*
 * message.h - a frame that came, on its way through the chain.
 *
 * One block of memory has all of it: this head, what server or client add to it, the body,
 * and room for what is decoded.  Whoever handles it last frees it with `release`.
 */
#ifndef SPN__MESSAGE_H
#define SPN__MESSAGE_H

#include <stdbool.h>

#include <spindle/executor.h>

#include "rpc/frame.h"

struct spn__channel;
struct spn__handler;
struct spn__waits;

struct spn__message {
    spn_task task; /* its run elsewhere: the dispatcher's */
    struct spn__handler *handler;
    struct spn__channel *channel; /* held */
    struct spn__frame frame;
    bool has_place;           /* of the pool's, see places.c */
    struct spn__waits *waits; /* it is one of those that wait; NULL: it is not */
    unsigned char *body;      /* frame.length bytes, the message's own */
    int64_t arrived_ns;       /* monotonic */
    /* Reads the body; NULL: there is nothing to decode. */
    void (*decode)(struct spn__message *message);
    /* The pool refused it, or dropped it: answers for it, and releases it. */
    void (*refused)(struct spn__message *message, int why);
    void (*release)(struct spn__message *message);
};

#endif /* SPN__MESSAGE_H */
