/* SPDX-License-Identifier: MIT */
/*
 * stream.h - a channel on a connection of the library's own loops, and what all of one
 * endpoint have in common; see stream.c.
 */
#ifndef SPN__STREAM_H
#define SPN__STREAM_H

#include <spindle/cancel.h>
#include <spindle/timer.h>

#include "base/list.h"
#include "channel/channel.h"
#include "channel/counts.h"
#include "net/budget.h"
#include "net/transport.h"
#include "sync/lock.h"

struct spn__endpoint;
struct spn__stream;

/* What a protocol does with the bytes of a stream: all of it on the I/O thread. */
struct spn__protocol {
    /* Takes the frame that `data` begins with, and returns how many bytes it has.  0: it is
     * not whole, and *needed bytes are wanted in all.  Negative: this is no frame; `caught`
     * tells of it, and the connection is closed.  What sets stream->ended or stream->skip
     * has used all `size` bytes, whatever it returns. */
    int64_t (*frame)(struct spn__stream *stream, const unsigned char *data, size_t size,
                     int64_t now_ns, size_t *needed);
    /* Optional: as `crowded` of a connection.  Refuses the unfinished frame, and sets
     * stream->skip to what has not come of it. */
    int64_t (*crowded)(struct spn__stream *stream, const unsigned char *data,
                       size_t size);
    /* Optional: the peer has ended its side inside a frame. */
    void (*cut_short)(struct spn__stream *stream);
    /* Optional: asks a silent peer for a sign of life.  The timer's thread. */
    void (*ask)(struct spn__stream *stream);
    /* Optional: a connection that never stood has ended.  Until it stands, its word in the
     * transport is NULL; then it is the stream. */
    void (*unopened)(struct spn__endpoint *endpoint, struct spn__conn *conn, int why);
    const spn_channel_ops *ops; /* of its channels */
    /* What a program calls `frame_ns` and `accepts`, for warnings: a key, or an option. */
    const char *frame_name, *accepts_name;
    /* close_ns passes while messages are not released, too; see BUSY in idle.c. */
    bool busy_is_idle;
};

/* One end: a server, or a client.  Fixed before the first stream, but where it says. */
struct spn__endpoint {
    const struct spn__protocol *protocol;
    spn_handler *chain; /* the outermost */
    bool is_client;
    bool tells_sent;           /* a handler of the chain wants to hear of `sent` */
    int32_t payload;           /* bytes of a message at most, without its header */
    size_t max_unwritten;      /* the transport's bound; 0: nobody is paused */
    uint64_t max_in_flight;    /* of one stream, by spn__stream_begin_counted */
    struct spn__budget budget; /* a server's, see MEMORY in stream.c */
    spn_timer *timer;          /* for idle streams; NULL: none are looked at */
    SPN__ATOMIC(int64_t) heartbeat_ns; /* client: asks after so long; 0: never */
    SPN__ATOMIC(int64_t) close_ns;     /* closes after so long; 0: never */
    int64_t frame_ns;                  /* for a frame to come, see idle.c; 0: any */
    SPN__ATOMIC(int32_t) accepts;      /* streams at a time; 0: no limit */
    SPN__ATOMIC(uint32_t) closing;     /* 1: no new streams */
    SPN__ATOMIC(int32_t) open;         /* streams that stand */
    struct spn__counts counts;
    struct spn__lock lock;    /* guards the list; a leaf */
    struct spn__list streams; /* until they are freed */
};

/* How far stop has come with a stream: its own, but for `deaf`; see drain.c. */
struct spn__drain {
    struct spn__net_job job;
    SPN__ATOMIC(uint32_t) deaf; /* 1: messages are taken no more; [deaf] in stream.c */
    bool begun, asked, ended;
    uint64_t requests; /* that had come when stop last looked */
    int64_t since_ns;  /* when it last saw a new one */
    int64_t end_by_ns; /* what the connection was told */
};

struct spn__stream {
    spn_channel channel; /* first */
    struct spn__endpoint *endpoint;
    struct spn__conn *conn;         /* a reference */
    struct spn__list_node link;     /* guarded by the endpoint's lock */
    SPN__ATOMIC(uint32_t) state;    /* SPN__STREAM_... */
    SPN__ATOMIC(uint32_t) paused;   /* SPN__PAUSED_... [pause] [flight] */
    SPN__ATOMIC(uint64_t) requests; /* that came; written by the I/O thread */
    SPN__ATOMIC(uint32_t) credit;   /* small requests that are paid for, see MEMORY */
    int64_t opened_ns;
    /* Of silence, see BUSY in idle.c; the first two are the timer's. */
    int64_t behind_ns; /* the last write while bytes waited for the peer */
    bool is_behind;    /* they did when it last looked */
    SPN__ATOMIC(int64_t) released_ns; /* a message was last released */
    /* Of the frame of which a part has come [frame]. */
    SPN__ATOMIC(int64_t) frame_since_ns; /* its first byte; 0: there is none */
    SPN__ATOMIC(uint64_t) frame_from;    /* bytes that were read before it */
    int64_t unpaused_ns; /* the timer's: when reading was last seen paused */
    bool in_frame;       /* I/O thread only: frame_since_ns is not 0 */
    bool ended;          /* I/O thread only: what comes is not looked at any more */
    int why;             /* I/O thread only: a bad frame's status; 0: there was none */
    bool is_over;        /* I/O thread only: the budget had no room for the message */
    size_t skip; /* I/O thread only: bytes to come of a frame that was refused */
    uint32_t until_timed; /* I/O thread only: a server's requests until one is timed */
    SPN__ATOMIC(uintptr_t) token; /* [token], see stream_token.c */
    spn_timeout idle;             /* holds the stream while it is scheduled */
    struct spn__drain drain;
};

/* Bits of state. */
enum {
    SPN__STREAM_CLOSED = 1,    /* the connection is gone          */
    SPN__STREAM_READ_ONLY = 2, /* the peer wants no more requests */
    SPN__STREAM_HALF = 4,      /* no message comes; the peer waits for replies */
    SPN__STREAM_TOLD = 8,      /* `disconnected` has returned */
};

/* Why nothing is read. */
enum {
    SPN__PAUSED_UNREAD = 1, /* the peer does not read                      */
    SPN__PAUSED_FLIGHT = 2  /* too many of its messages are not released   */
};

static inline struct spn__stream *spn__stream_of(spn_channel *channel)
{
    return (struct spn__stream *)(void *)channel; /* its first member */
}

/* What a caller is told of an attempt to connect that ended with `why`. */
int spn__connect_status(int why);

void spn__endpoint_init(struct spn__endpoint *endpoint);
void spn__endpoint_fini(struct spn__endpoint *endpoint);
/* What the transport calls; its context is the endpoint. */
extern const struct spn__conn_events spn__stream_events;

/* Another holder of a stream: it stays until all have dropped it. */
static inline void spn__stream_hold(struct spn__stream *stream)
{
    spn__channel_hold(&stream->channel);
}

static inline void spn__stream_drop(struct spn__stream *stream)
{
    spn__channel_drop(&stream->channel);
}

/* The same as long as a message is in flight.  Returns how many are, with this one. */
static inline uint64_t spn__stream_begin(struct spn__stream *stream)
{
    return spn__channel_begin(&stream->channel);
}

void spn__stream_end(struct spn__stream *stream);

/* Begins a message of a program's protocol, whose frame had so many bytes; it is over when it
 * is released.  Pauses reading when these are enough.  False: the budget has no room for it.
 * The I/O thread. */
bool spn__stream_begin_counted(struct spn__stream *stream, spn_message *message,
                               size_t bytes);

static inline uint64_t spn__stream_in_flight(const struct spn__stream *stream)
{
    return spn__channel_in_flight(&stream->channel);
}

/* stream_token.c: a new token, cancelled when the connection ends; NULL: no memory.  For a
 * request in flight. */
spn_cancel_token *spn__stream_child_token(struct spn__stream *stream);
/* Cancels those tokens, and all that are asked for later.  Again: nothing happens. */
void spn__stream_cancel(struct spn__stream *stream, int reason);
/* The stream is being freed. */
void spn__stream_free_token(struct spn__stream *stream);

/* The largest message that the budget has room for when nothing else is in use: as long as
 * it is unfinished, and then as a request beside that. */
uint64_t spn__endpoint_message_most(const struct spn__endpoint *endpoint);
/* Memory for a request that has begun; the I/O thread.  As many bytes are given to `put`,
 * before spn__stream_end.  NULL: no memory, and stream->is_over says whether for want of
 * room in the budget. */
void *spn__stream_get(struct spn__stream *stream, size_t bytes, uint64_t in_flight);
void spn__stream_put(struct spn__stream *stream, void *memory, size_t bytes);
/* Something was refused for want of memory, of the budget (is_over) or of the system: counts
 * it, and says so in the log. */
void spn__stream_lacks_memory(struct spn__stream *stream, const char *what,
                              bool is_over);

/* A request of a server's, or a message of a program's protocol, has come; the I/O thread. */
static inline void spn__stream_count_request(struct spn__stream *stream)
{
    spn__store(&stream->requests, spn__load(&stream->requests, relaxed) + 1,
               relaxed); /* only a number, which this thread alone writes */
    spn__count(&stream->endpoint->counts, SPN__COUNT_REQUESTS, 1);
}

/* Gives a message to the chain; the I/O thread.  If a handler fails here, `caught` tells of
 * it, and the message is released. */
void spn__stream_received(struct spn__stream *stream, spn_message *message);

/* What follows is not taken: a server's connection ends when the messages in flight are over.
 * In `frame`, once; the caller has set stream->why. */
void spn__stream_refuse_rest(struct spn__stream *stream);

/* Sends a whole frame, its header included.  As spn__conn_send. */
int spn__stream_send(struct spn__stream *stream, const void *frame, size_t size,
                     unsigned flags);

/* Has the I/O thread throw away what comes from now on; once.  When it does, `drain.deaf` is
 * set, and all requests that were taken are in flight or over. */
void spn__stream_deafen(struct spn__stream *stream);
bool spn__stream_is_deaf(const struct spn__stream *stream);

/* Calls fn with each stream, held, and no lock. */
void spn__endpoint_each(struct spn__endpoint *endpoint,
                        void (*fn)(void *ctx, struct spn__stream *stream), void *ctx);
/* Messages that are in flight now, of all streams. */
uint64_t spn__endpoint_in_flight(struct spn__endpoint *endpoint);
/* Whether somebody still holds a stream. */
bool spn__endpoint_has_streams(struct spn__endpoint *endpoint);

/* idle.c: begins, and ends, to look after a silent peer; the I/O thread. */
void spn__idle_start(struct spn__stream *stream);
void spn__idle_stop(struct spn__stream *stream);
/* How long a connection may be silent; 0: for ever. */
int64_t spn__stream_close_after(struct spn__stream *stream);
/* How long the peer of a half-closed connection has for the last replies. */
int64_t spn__stream_read_within(struct spn__stream *stream);
/* A timer that is fine enough for the shortest of the endpoint's times. */
int spn__idle_timer_create(struct spn__endpoint *endpoint, const char *name,
                           spn_timer **timer);

#endif /* SPN__STREAM_H */
