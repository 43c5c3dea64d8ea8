/* SPDX-License-Identifier: MIT */
/*
 * calls.h - calls that wait for their reply, by id; see calls.c.
 */
#ifndef SPN__CALLS_H
#define SPN__CALLS_H

#include <spindle/future.h>
#include <spindle/threadless.h>
#include <spindle/timer.h>

#include "base/list.h"
#include "endpoint/stream.h"
#include "sync/lock.h"
#include "sync/seam.h"

struct spn_client;

/* A call that was taken.  Fixed before it is added, but where it says. */
struct spn__call {
    int64_t id;
    struct spn_client *client;
    SPN__ATOMIC(uint32_t) refs;  /* [refs] */
    SPN__ATOMIC(uint32_t) parts; /* who will yet use the client [parts] */
    struct spn__call *next;      /* in its bucket, or the list of those being ended */
    bool one_way;                /* no reply is wanted: never in the table */
    bool listed;                 /* in the table; guarded by its shard, as are: */
    bool answered;               /* its reply has come, and is under way */
    struct spn__stream *stream;  /* the one it was given to, held; NULL: none yet */
    spn_future *future;          /* a reference */
    spn_threadless *threadless;  /* of the thread that waits; NULL: nobody does */
    spn_timeout timeout;         /* holds the call while it is scheduled */
    SPN__ATOMIC(uint64_t)
    position; /* where it ends in the outgoing stream; 0: not sent */
    int64_t started_ns;
    int64_t timeout_ns;
    struct spn__list_node
        link;             /* while it waits for a connection: guarded by that link */
    unsigned char *frame; /* the bytes to send then, its own; NULL: sent */
    size_t frame_size;
};

enum {
    SPN__CALL_SHARDS = 16,
    SPN__CALL_BUCKETS = 16 /* of a shard, to begin with */
};

struct spn__call_shard {
    struct spn__lock lock;
    size_t count;
    size_t mask;                /* buckets - 1 */
    struct spn__call **buckets; /* `first`, or memory of its own */
    struct spn__call *first[SPN__CALL_BUCKETS];
};

struct spn__call_table {
    struct spn__call_shard shards[SPN__CALL_SHARDS];
};

void spn__table_init(struct spn__call_table *table);
void spn__table_fini(struct spn__call_table *table);

/* Lists a call, with a reference of the table's own. */
void spn__table_add(struct spn__call_table *table, struct spn__call *call);
/* Takes it out: true for one of all who try, who then has the table's reference and the
 * duty to end the call. */
bool spn__table_remove(struct spn__call_table *table, struct spn__call *call);
/* The call with that id, with a reference of the caller's; NULL: it is over. */
struct spn__call *spn__table_find(struct spn__call_table *table, int64_t id);
/* The same for whoever has its reply, and sees to it that the call ends. */
struct spn__call *spn__table_answer(struct spn__call_table *table, int64_t id);
/* Says to which channel it is given; holds that.  False: the call is over. */
bool spn__table_bind(struct spn__call_table *table, struct spn__call *call,
                     struct spn__stream *stream);
/* Takes out all calls of a channel that have no reply yet, or with NULL all there are: as
 * remove, each; linked by `next`. */
struct spn__call *spn__table_remove_all(struct spn__call_table *table,
                                        const struct spn__stream *stream);

void spn__call_ref(struct spn__call *call);
void spn__call_unref(struct spn__call *call);

#endif /* SPN__CALLS_H */
