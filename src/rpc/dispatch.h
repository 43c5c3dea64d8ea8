/* SPDX-License-Identifier: MIT */
/* dispatch.h - the handler that moves events to other threads; see dispatch.c. */
#ifndef SPN__DISPATCH_H
#define SPN__DISPATCH_H

#include <spindle/dispatcher.h>
#include <spindle/pool.h>
#include <spindle/repository.h>

#include "rpc/channel.h"
#include "rpc/handler.h"
#include "rpc/places.h"
#include "rpc/waits.h"

/* What the URL says; the five: dispatch_*.c. */
extern const spn_dispatcher spn__dispatcher_all;
extern const spn_dispatcher spn__dispatcher_direct;
extern const spn_dispatcher spn__dispatcher_message;
extern const spn_dispatcher spn__dispatcher_execution;
extern const spn_dispatcher spn__dispatcher_connection;

struct spn__dispatch {
    struct spn__handler handler;
    struct spn__endpoint *endpoint;
    const spn_dispatcher *dispatcher;
    uint8_t place[SPN_CHANNEL_EVENTS];     /* spn_place; fixed, as all below */
    spn_executor *own[SPN_CHANNEL_EVENTS]; /* of SPN_PLACE_OWN */
    spn_repository *repository;            /* has the executor all share */
    spn_pool *pool;                        /* the URL's */
    spn_executor *executor;                /* the same */
    spn_pool *ordered;                     /* of SPN_PLACE_ORDERED; NULL: not needed */
    int64_t ordered_warning;               /* warns with more than so many waiting */
    struct spn__places places;             /* a server's: of the pool, by connection */
    struct spn__waits waits;               /* a server's */
    /* Optional, a client's: the executor that waits for a response, and whether that is a
     * thread which lent itself; NULL: nobody in particular. */
    spn_executor *(*waiting)(struct spn__dispatch *dispatch,
                             const struct spn__message *response, bool *is_threadless);
};

/* Makes the handler of a URL: chooses the dispatcher, makes what it needs.  The pool is
 * taken from the repository.  `inner` is the rest of the chain. */
int spn__dispatch_init(struct spn__dispatch *dispatch, struct spn__endpoint *endpoint,
                       struct spn__handler *inner, spn_extensions *extensions,
                       spn_repository *repository, const spn_url *url,
                       spn_problem *problem);
/* Ends the thread of its own, waiting up to the deadline for what it has; gives the pool
 * back.  SPN_OK, SPN_ETIMEDOUT, SPN_EINTR. */
int spn__dispatch_stop(struct spn__dispatch *dispatch, int64_t timeout_ns);
void spn__dispatch_fini(struct spn__dispatch *dispatch);

/* "Thread pool is EXHAUSTED! ..." with the state of the pool, for the URL's address. */
void spn__exhausted_text(spn_pool *pool, const spn_url *url, char *text, size_t size);

#endif /* SPN__DISPATCH_H */
