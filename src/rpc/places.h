/* SPDX-License-Identifier: MIT */
/* places.h - how much of the pool one connection, and one address, may have; see places.c. */
#ifndef SPN__PLACES_H
#define SPN__PLACES_H

#include <spindle/pool.h>
#include <spindle/problem.h>
#include <spindle/url.h>

#include "rpc/channel.h"

/* Why the dispatcher refused a request itself: what message->refused is told in place of a
 * status, which is never positive. */
enum spn__refused {
    SPN__REFUSED_CONNECTION = 1, /* its connection has all that one may have */
    SPN__REFUSED_ADDRESS,        /* its address has */
    SPN__REFUSED_DELAY           /* those before it wait too long */
};

/* All connections from one address. */
struct spn__address {
    struct spn__list_node link; /* in its bucket; guarded by places->lock, as refs */
    struct spn__places *places;
    uint32_t refs;              /* channels that have it */
    SPN__ATOMIC(int32_t) taken; /* places; relaxed: only a number */
    char text[48];              /* "10.0.0.1"; "": any that no memory was found for */
};

struct spn__places {
    bool is_on;    /* fixed, as all but the addresses; false: nothing is counted */
    bool is_share; /* of_connection is a share of the pool's places */
    int32_t of_connection;     /* 0: any number */
    int32_t of_address;        /* 0: any number */
    spn_pool *pool;            /* whose places they are; NULL: another executor's */
    struct spn__lock lock;     /* guards the buckets; a leaf */
    struct spn__list *buckets; /* of addresses; NULL: of_address is 0 */
    uint64_t seed;
    struct spn__address unknown;
};

/* Reads inflight and inflight.address.  is_queued: requests leave the I/O thread; pool: for
 * that one, or NULL. */
int spn__places_init(struct spn__places *places, const spn_url *url, bool is_queued,
                     spn_pool *pool, spn_problem *problem);
void spn__places_fini(struct spn__places *places);

/* A connection has come; the I/O thread, before its first request.  The channel gives its
 * address back when it is freed. */
void spn__places_join(struct spn__places *places, struct spn__channel *channel);
void spn__address_drop(struct spn__address *address);

/* Takes a place for a request that goes to the pool; the I/O thread.  0, or an spn__refused:
 * it has too many.  Either way spn__message_leave follows. */
int spn__places_take(struct spn__places *places, struct spn__message *message);
/* What is wrong and what to do, for the reply. */
void spn__places_text(const struct spn__places *places,
                      const struct spn__message *message, int why, char *text,
                      size_t size);

/* The request's reply is about to be sent, or its method has returned and left it to
 * another: its thread is as good as free.  Again: nothing happens. */
static inline void spn__message_leave(struct spn__message *message)
{
    struct spn__channel *channel = message->channel;

    if (!message->has_place)
        return;
    message->has_place = false;
    /* relaxed, both: only numbers. */
    (void)spn__fetch_add(&channel->left, 1, relaxed);
    if (channel->address != NULL)
        (void)spn__fetch_sub(&channel->address->taken, 1, relaxed);
}

#endif /* SPN__PLACES_H */
