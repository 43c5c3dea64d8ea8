/* SPDX-License-Identifier: MIT */
/* places.h - how much of the pool one connection, and one address, may have; see places.c. */
#ifndef SPN__PLACES_H
#define SPN__PLACES_H

#include <spindle/pool.h>
#include <spindle/problem.h>
#include <spindle/url.h>

#include "base/list.h"
#include "channel/channel.h"
#include "sync/lock.h"

/* Why the dispatch refused a request itself: what its `refused` is told in place of a
 * status, which is never positive. */
enum spn__refused {
    SPN__REFUSED_CONNECTION = 1, /* its connection has all that one may have */
    SPN__REFUSED_ADDRESS,        /* its address has */
    SPN__REFUSED_DELAY           /* those before it wait too long */
};

struct spn__addresses;

/* All channels from one address. */
struct spn__address {
    struct spn__list_node
        link; /* in its bucket; guarded by the table's lock, as refs */
    struct spn__addresses *table;
    uint32_t refs;              /* channels that have it */
    SPN__ATOMIC(int32_t) taken; /* places; relaxed: only a number */
    char text[48];              /* "10.0.0.1"; "": any that no memory was found for */
};

struct spn__places {
    bool is_on;            /* fixed, as all; false: nothing is counted */
    bool is_share;         /* of_connection is a share of the pool's places */
    int32_t of_connection; /* 0: any number */
    int32_t of_address;    /* 0: any number */
    spn_pool *pool;        /* whose places they are; NULL: another executor's */
    struct spn__addresses *addresses; /* NULL: of_address is 0 */
};

/* Reads inflight and inflight.address.  is_queued: requests leave the I/O thread; pool: for
 * that one, or NULL. */
int spn__places_init(struct spn__places *places, const spn_url *url, bool is_queued,
                     spn_pool *pool, spn_problem *problem);
void spn__places_fini(struct spn__places *places);

/* A connection has come; the I/O thread, before its first request.  The channel gives its
 * address back when it is freed. */
void spn__places_join(struct spn__places *places, spn_channel *channel);
void spn__address_drop(struct spn__address *address);

/* Takes a place for a request that goes to the pool; the I/O thread.  0, or an spn__refused:
 * it has too many.  Either way spn__message_leave follows. */
int spn__places_take(struct spn__places *places, spn_message *message);
/* What is wrong and what to do, for the reply. */
SPN__SHARED void spn__places_text(const struct spn__places *places,
                                  const spn_message *message, int why, char *text,
                                  size_t size);

#endif /* SPN__PLACES_H */
