/* SPDX-License-Identifier: MIT */
/* dispatch.h - the handler that moves events to other threads; see dispatch.c. */
#ifndef SPN__DISPATCH_H
#define SPN__DISPATCH_H

#include <spindle/dispatcher.h>
#include <spindle/pool.h>
#include <spindle/repository.h>
#include <spindle/serial.h>

#include "channel/channel.h"
#include "channel/counts.h"
#include "channel/places.h"
#include "channel/waits.h"

/* What the URL says; the five: dispatch_*.c. */
extern const spn_dispatcher spn__dispatcher_all;
extern const spn_dispatcher spn__dispatcher_direct;
extern const spn_dispatcher spn__dispatcher_message;
extern const spn_dispatcher spn__dispatcher_execution;
extern const spn_dispatcher spn__dispatcher_connection;

struct spn_dispatch {
    spn_handler handler; /* first */
    /* Set before spn__dispatch_init, and fixed: */
    struct spn__counts *counts;
    spn_repository *repository; /* where the pool is, and what all share */
    bool has_limits;   /* places and waits: nobody sends requests to a client */
    bool awaits_tasks; /* a program's: stop waits for what other executors have of it */
    bool tells_caught; /* a program's: of a failure in a task; Dubbo only logs it */
    bool counts_tasks; /* the pool is one of these: all tasks are counted */
    /* The message is not handled, for a negative status or an spn__refused: answers for
     * it, and releases it. */
    void (*refused)(void *ctx, spn_channel *channel, spn_message *message, int why);
    void *ctx;
    /* Set by spn__dispatch_init, and fixed: */
    const spn_dispatcher *dispatcher;
    uint8_t place[SPN_CHANNEL_EVENTS];     /* spn_place */
    spn_executor *own[SPN_CHANNEL_EVENTS]; /* of SPN_PLACE_OWN */
    spn_pool *pool;                        /* the URL's */
    spn_executor *executor;                /* the same */
    spn_executor in_order; /* what `serial` stands on: the pool, then the shared one */
    spn_serial *serial;    /* with channel.order: a key is a channel; NULL: without */
    spn_pool *ordered;     /* of SPN_PLACE_ORDERED; NULL: not needed */
    int64_t ordered_warning;   /* warns with more than so many waiting */
    struct spn__places places; /* of the pool, by channel */
    struct spn__waits waits;
    SPN__ATOMIC(int64_t) tasks; /* that are counted and not over [tasks] */
};

/* Makes the handler of a URL: chooses the dispatcher, makes what it needs.  The pool is
 * taken from the repository. */
SPN__SHARED int spn__dispatch_init(struct spn_dispatch *dispatch, spn_handler *inner,
                                   spn_extensions *extensions, const spn_url *url,
                                   spn_problem *problem);
/* Ends the thread of its own, waiting up to the deadline for what it has; gives the pool
 * back.  SPN_OK, SPN_ETIMEDOUT, SPN_EINTR. */
SPN__SHARED int spn__dispatch_stop(struct spn_dispatch *dispatch, int64_t timeout_ns);
SPN__SHARED void spn__dispatch_fini(struct spn_dispatch *dispatch);

bool spn__handler_is_dispatch(const spn_handler *handler);

#endif /* SPN__DISPATCH_H */
