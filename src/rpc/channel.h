/* SPDX-License-Identifier: MIT */
/*
 * channel.h - a connection that speaks frames, and what all channels of a server or client
 * have in common; see channel.c.
 */
#ifndef SPN__CHANNEL_H
#define SPN__CHANNEL_H

#include <spindle/cancel.h>
#include <spindle/server.h>
#include <spindle/timer.h>

#include "base/list.h"
#include "net/budget.h"
#include "net/transport.h"
#include "rpc/counts.h"
#include "rpc/frame.h"
#include "rpc/handler.h"
#include "rpc/message.h"
#include "sync/lock.h"

/* One end: a server, or a client.  Fixed before the first channel, but where it says. */
struct spn__endpoint {
    struct spn__handler *chain; /* the outermost */
    /* Makes the message of a frame that is no event, with a copy of its body; takes a
     * hold of the channel.  NULL: no memory.  Responses only come here if is_client. */
    struct spn__message *(*message)(struct spn__channel *channel,
                                    const struct spn__frame *frame,
                                    const unsigned char *body);
    /* Optional: a connection that never stood has ended.  Until it stands, its word in the
     * transport is NULL; then it is the channel. */
    void (*unopened)(struct spn__endpoint *endpoint, struct spn__conn *conn, int why);
    bool is_client;
    int32_t payload;                   /* bytes of a body at most */
    size_t max_unwritten;              /* the transport's bound; 0: nobody is paused */
    struct spn__budget budget;         /* a server's, see MEMORY in channel.c */
    spn_timer *timer;                  /* for idle channels; NULL: none are looked at */
    SPN__ATOMIC(int64_t) heartbeat_ns; /* client: asks after so long; 0: never */
    SPN__ATOMIC(int64_t) close_ns;     /* closes after so long; 0: never */
    int64_t frame_ns;              /* for a frame to come, see heartbeat.c; 0: any */
    SPN__ATOMIC(int32_t) accepts;  /* channels at a time; 0: no limit */
    SPN__ATOMIC(uint32_t) closing; /* 1: no new channels */
    SPN__ATOMIC(int32_t) open;     /* channels that stand */
    struct spn__counts counts;
    struct spn__lock lock;     /* guards the list; a leaf */
    struct spn__list channels; /* until they are freed */
};

/* What an event that runs elsewhere needs. */
struct spn__event_task {
    spn_task task;
    struct spn__handler *handler;
    struct spn__channel *channel;
    int why;
};

struct spn__address;

/* How far stop has come with a channel: its own, but for `deaf`; see STOPPING in server.c. */
struct spn__drain {
    struct spn__net_job job;
    SPN__ATOMIC(uint32_t) deaf; /* 1: requests are taken no more; [deaf] in channel.c */
    bool begun, asked, ended;
    uint64_t requests; /* that had come when stop last looked */
    int64_t since_ns;  /* when it last saw a new one */
    int64_t end_by_ns; /* what the connection was told */
};

struct spn__channel {
    struct spn__endpoint *endpoint;
    struct spn__conn *conn;         /* a reference */
    struct spn__list_node link;     /* guarded by the endpoint's lock */
    SPN__ATOMIC(uint64_t) holds;    /* [hold], see channel.c */
    SPN__ATOMIC(uint32_t) left;     /* requests that left the pool: places.c */
    uint32_t entered;               /* I/O thread only: that were handed to it */
    SPN__ATOMIC(uint32_t) state;    /* CHANNEL_... */
    SPN__ATOMIC(uint32_t) paused;   /* [pause] */
    SPN__ATOMIC(uint64_t) requests; /* that came; written by the I/O thread */
    SPN__ATOMIC(uint32_t) credit;   /* small requests that are paid for, see MEMORY */
    int64_t opened_ns;
    /* Of the frame of which a part has come [frame]. */
    SPN__ATOMIC(int64_t) frame_since_ns; /* its first byte; 0: there is none */
    SPN__ATOMIC(uint64_t) frame_from;    /* bytes that were read before it */
    int64_t unpaused_ns; /* the timer's: when reading was last seen paused */
    bool in_frame;       /* I/O thread only: frame_since_ns is not 0 */
    bool ended;          /* I/O thread only: what comes is not looked at any more */
    bool is_over;        /* I/O thread only: the budget had no room for the message */
    size_t skip; /* I/O thread only: bytes to come of a frame that was refused */
    uint32_t until_timed;         /* I/O thread only: requests until one is timed */
    void *data;                   /* the client's */
    SPN__ATOMIC(uintptr_t) token; /* [token], see channel_token.c */
    struct spn__address *address; /* a reference, see places.c; NULL: not counted */
    spn_timeout idle;             /* holds the channel while it is scheduled */
    struct spn__event_task connected, disconnected;
    struct spn__drain drain;
};

/* Bits of state. */
enum {
    SPN__CHANNEL_CLOSED = 1,    /* the connection is gone          */
    SPN__CHANNEL_READ_ONLY = 2, /* the peer wants no more requests */
    SPN__CHANNEL_HALF = 4,      /* the peer has ended its side, and waits for replies */
};

void spn__endpoint_init(struct spn__endpoint *endpoint);
void spn__endpoint_fini(struct spn__endpoint *endpoint);
/* What the transport calls; its context is the endpoint. */
extern const struct spn__conn_events spn__channel_events;

/* Another holder of a channel: it stays until all have dropped it. */
void spn__channel_hold(struct spn__channel *channel);
void spn__channel_drop(struct spn__channel *channel);
/* The same as long as a request is in flight.  Returns how many are, with this one. */
uint64_t spn__channel_begin(struct spn__channel *channel);
void spn__channel_end(struct spn__channel *channel);
uint64_t spn__channel_in_flight(const struct spn__channel *channel);

/* channel_token.c: a new token, cancelled when the connection ends; NULL: no memory.  For a
 * request in flight. */
spn_cancel_token *spn__channel_child_token(struct spn__channel *channel);
/* Cancels those tokens, and all that are asked for later.  Again: nothing happens. */
void spn__channel_cancel(struct spn__channel *channel, int reason);
/* The channel is being freed. */
void spn__channel_free_token(struct spn__channel *channel);
/* Memory for a request that has begun; the I/O thread.  As many bytes are given to `put`,
 * before spn__channel_end.  NULL: no memory, and channel->is_over says whether for want of
 * room in the budget. */
void *spn__channel_get(struct spn__channel *channel, size_t bytes, uint64_t in_flight);
void spn__channel_put(struct spn__channel *channel, void *memory, size_t bytes);
/* Something was refused for want of memory, of the budget (is_over) or of the system: counts
 * it, and says so in the log. */
void spn__channel_lacks_memory(struct spn__channel *channel, const char *what,
                               bool is_over);
/* A text for the peer, of the same. */
void spn__channel_memory_text(const struct spn__channel *channel, char *text,
                              size_t size);

/* A request of a server's has come; the I/O thread. */
void spn__channel_count_request(struct spn__channel *channel,
                                const struct spn__frame *frame);

/* Sends a whole frame, its header included.  As spn__conn_send. */
int spn__channel_send(struct spn__channel *channel, const void *frame, size_t size,
                      unsigned flags);
/* Sends a response to a request, with another status than 20 and a text; counted. */
int spn__channel_answer(struct spn__channel *channel, const struct spn__frame *request,
                        int status, const char *text, unsigned flags);
/* Sends an event, or the answer to one: body NULL is a heartbeat. */
int spn__channel_send_event(struct spn__channel *channel, uint8_t flags, uint8_t status,
                            int64_t id, const char *body);

/* Has the I/O thread throw away what comes from now on; once.  When it does, `drain.deaf` is
 * set, and all requests that were taken are in flight or over. */
void spn__channel_deafen(struct spn__channel *channel);
bool spn__channel_is_deaf(const struct spn__channel *channel);

/* Calls fn with each channel, held, and no lock. */
void spn__endpoint_each(struct spn__endpoint *endpoint,
                        void (*fn)(void *ctx, struct spn__channel *channel), void *ctx);

void spn__channel_info(struct spn__channel *channel, int error, spn_channel_info *info);

/* heartbeat.c: begins, and ends, to look after a silent peer; the I/O thread. */
void spn__idle_start(struct spn__channel *channel);
void spn__idle_stop(struct spn__channel *channel);
/* How long a connection may be silent; 0: for ever. */
int64_t spn__channel_close_after(struct spn__channel *channel);
/* Whether a body is what heartbeats have: `N`, or nothing. */
bool spn__is_heartbeat(const struct spn__frame *frame, const unsigned char *body);

/* Which of the 16 counts a status has: counts.c of the server. */
int spn__status_slot(int status);

#endif /* SPN__CHANNEL_H */
