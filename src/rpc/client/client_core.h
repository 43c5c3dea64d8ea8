/* SPDX-License-Identifier: MIT */
/*
 * client_core.h - the inside of a client; see client.c, client_link.c, client_call.c and
 * client_reply.c.
 */
#ifndef SPN__CLIENT_CORE_H
#define SPN__CLIENT_CORE_H

#include <spindle/client.h>

#include "channel/dispatch.h"
#include "rpc/frames.h"
#include "rpc/client/calls.h"

enum { SPN__LINKS_MAX = 64 };

/* A connection that is kept; see client_link.c. */
enum spn__link_state {
    SPN__LINK_DOWN,       /* none, and nobody makes one   */
    SPN__LINK_CONNECTING, /* one is being made            */
    SPN__LINK_UP          /* `channel` stands             */
};

struct spn__link {
    struct spn_client *client;
    struct spn__lock lock; /* guards the rest */
    enum spn__link_state state;
    struct spn__stream *stream; /* while UP, held */
    struct spn__list waiting;   /* calls, by their `link`, while CONNECTING */
    size_t waiting_bytes;       /* of their frames */
    int64_t backoff_ns;         /* until the next try in the background */
    bool again_busy;            /* `again` or its task is under way */
    spn_timeout again;
    spn_task again_task;
};

/* How a call ended. */
enum spn__call_end {
    SPN__END_REPLY,
    SPN__END_TIMEOUT,
    SPN__END_LOST,
    SPN__END_CANCELLED,
    SPN__ENDS
};

struct spn_client {
    struct spn__endpoint endpoint;
    spn_handler pin;               /* outside of the dispatch: client.c */
    spn_handler decode, innermost; /* inside of it, in that order */
    spn_dispatch dispatch;
    struct spn__transport *transport;
    spn_timer *timer;
    spn_url *url;
    spn_extensions *extensions;
    spn_repository *repository;
    spn_extensions *own_extensions; /* NULL: the program's */
    spn_repository *own_repository; /* the same */
    spn_channel_event_fn event;     /* NULL: nobody is told */
    void *ctx;                      /* its argument */
    bool owns_transport;
    bool reconnects;
    int64_t timeout_ns, connect_timeout_ns;
    spn_future *first; /* done when the first connection stands, or cannot be had */
    SPN__ATOMIC(int64_t) next_id;
    SPN__ATOMIC(uint32_t) next_link;
    SPN__ATOMIC(uint32_t) closing; /* 1: no new calls [closing] */
    SPN__ATOMIC(int64_t) pending;  /* calls without an end [closing] [ended] */
    spn_executor ending;           /* runs nothing: marks threads that end a call */
    SPN__ATOMIC(uint32_t) closer;  /* 1: a thread is in close [closer] */
    bool closed;                   /* close has come to its end; the closer's */
    int32_t process;               /* that has the threads; fixed */
    SPN__ATOMIC(uint64_t) calls, ends[SPN__ENDS], one_way, late, failures;
    struct spn__call_table table;
    int link_count;
    struct spn__link links[SPN__LINKS_MAX];
};

/* client.c: a client on a transport that is not its own, and is kept; for tests. */
int spn__client_create_on(spn_client **out, const char *url,
                          const spn_client_opts *opts, struct spn__transport *transport,
                          spn_problem *problem);

/* ---- client_link.c ---- */
void spn__link_init(struct spn__link *link, struct spn_client *client);
/* Gives the call to the link's connection, or has it wait for one that is being made. */
int spn__link_send(struct spn__link *link, struct spn__call *call,
                   const unsigned char *frame, size_t size);
/* Begins to make a connection, unless there is one. */
void spn__link_connect(struct spn__link *link);
/* A connection stands; is gone, or wants no more; could not be made.  The I/O thread. */
void spn__links_opened(struct spn_client *client, struct spn__stream *stream);
void spn__links_closed(struct spn_client *client, struct spn__stream *stream);
void spn__links_failed(struct spn_client *client, int why);
/* The timer is stopped: what it still had of a link.  False: it is no link's. */
bool spn__links_forget(struct spn_client *client, spn_timeout *timeout);
/* Whether a try of a link is under way. */
bool spn__links_busy(struct spn_client *client);

/* ---- client_call.c ---- */
/* Ends a call that was taken out of the table: gives up the table's reference. */
void spn__call_fail(struct spn__call *call, enum spn__call_end end, int code,
                    const char *message);
void spn__call_reply(struct spn__call *call, spn_reply *reply);
/* The same for one that may be over already, and stays the caller's. */
void spn__call_fail_if_listed(struct spn__call *call, enum spn__call_end end, int code,
                              const char *message);
/* The timer is stopped: what it still had of a call. */
void spn__call_forget(spn_timeout *timeout);
/* All calls of a channel, or with NULL all there are; how many these were. */
size_t spn__calls_fail(struct spn_client *client, const struct spn__stream *stream,
                       enum spn__call_end end, int code, const char *message);

/* ---- client_reply.c ---- */
/* A response on its way: a message, its call, what was decoded. */
struct spn__response {
    struct spn__message message; /* first */
    struct spn__call *call;      /* a reference; NULL: nobody waits any more */
    spn_reply *reply;            /* decoded; NULL: not, and: */
    int failure;                 /* why it could not be */
    bool settled;                /* the call has ended, by this or otherwise */
};

/* Makes the message of a frame, for the protocol of clients. */
struct spn__message *spn__response_create(struct spn__stream *stream,
                                          const struct spn__frame *frame,
                                          const unsigned char *body);

#endif /* SPN__CLIENT_CORE_H */
