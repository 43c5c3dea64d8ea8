/* SPDX-License-Identifier: MIT */
#ifndef SPN_ENDPOINT_H
#define SPN_ENDPOINT_H

#include <spindle/channel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Channels of a program's own protocol on I/O threads of the library (in libspindle-rpc).
 *
 * A codec says where a frame ends, makes messages of frames, and frames of messages.  What
 * happens on the connections goes to a handler, as a rule that of an spn_dispatch.
 *
 * Lifecycle   listen or connect -> stop -> destroy.  The handler outlives destroy.  With a
 *             dispatch: spn_endpoint_stop, spn_dispatch_stop, spn_endpoint_destroy,
 *             spn_dispatch_destroy.  If spn_endpoint_stop says SPN_ETIMEDOUT because handlers
 *             hold messages, spn_dispatch_stop interrupts them at its deadline; when that has
 *             said SPN_OK, spn_endpoint_stop is called again.
 * Threads     the codec and the outermost handler run on I/O threads and must not block.
 *             A channel may move to another I/O thread between two events.
 * Events      each channel is told connected, then all else, then disconnected: SPN_OK where
 *             both sides ended in order, also after stop or spn_channel_close with SPN_OK;
 *             else what spn_channel_close was given, what a bad frame was refused with,
 *             SPN_EPROTO (the peer ended inside a frame), SPN_ETIMEDOUT (silent, late, not
 *             read until the deadline), SPN_EIO, ...
 *             A message whose handler fails is told as `caught`, on the thread on which the
 *             handler ran.
 *             An event that closes the channel is the last but `disconnected`.
 * Limits      every frame, buffer and wait is bounded, see spn_endpoint_opts: what a peer
 *             sends can make the endpoint close its connection, and nothing else.
 * Half-closed a peer that ends its sending side behind its requests has their replies;
 *             then the connection is closed.  A server ends a connection with a bad frame in
 *             the same way: it reads nothing more, and answers the messages before that frame.
 * Closing     after spn_channel_close with SPN_OK, and after a bad frame, a peer has three
 *             minutes to read what was sent before, but no longer than stop waits.
 */
typedef struct spn_endpoint spn_endpoint;

/* Borrowed until destroy.  Each function gets `ctx`.  Append only. */
typedef struct spn_codec {
    size_t size; /* sizeof(spn_codec) */
    void *ctx;
    /* How many bytes the frame has that `data` begins with, of which `size`, 1 or more, are
     * here.  0: these are too few to tell, and it is asked again with more.  The answer may
     * be more than size.  Negative: this is no frame; `caught` tells of that status, nothing
     * more is read, and the connection ends when the messages before are released and what
     * was sent is written.  A frame above max_frame ends it too, with SPN_ETOOBIG.  A
     * handler may answer in `caught` where that runs on the I/O thread; with the dispatchers
     * `all` and `connection` it runs in the pool, as a rule too late for an answer. */
    int64_t (*length)(void *ctx, const void *data, size_t size);
    /* Makes the message of a whole frame: exactly that many bytes, borrowed, not aligned.
     * *out is NULL before.  If it stays so there is nothing to handle, as of a heartbeat,
     * which is answered here with spn_channel_send.  A negative status, with *out NULL: as
     * of length; what is wrong may be answered here before.  A message goes to the handler
     * at once, or is released if there is no memory for it. */
    int (*decode)(void *ctx, spn_channel *channel, const void *frame, size_t size,
                  spn_message **out);
    /* Writes the frame of what spn_channel_send was given, and returns its length.  If that
     * is more than `size` it is called once more with enough room.  Negative: send returns
     * that status.  Runs on the sender's thread. */
    int64_t (*encode)(void *ctx, const void *message, void *room, size_t size);
} spn_codec;

/* Zero means default.  Append only. */
typedef struct spn_endpoint_opts {
    size_t size; /* sizeof(spn_endpoint_opts), set by _INIT                 */
    /* 0: as many as CPUs and one more, at most 32; a client: 1.  For `iothreads` of a URL:
     * spn_url_io_threads (url_pool.h) */
    int32_t io_threads;
    int32_t max_channels; /* connections at a time; 0: what the descriptors allow    */
    /* Messages of one channel that were received and are not released; reading pauses
     * when there are so many.  A dispatch refuses what a channel has above `inflight` of its
     * URL: with a max_in_flight of `inflight` or less a peer that pipelines is read later,
     * and not refused.  With the defaults of both it is refused.  0: 1024 */
    int32_t max_in_flight;
    uint32_t reserved;  /* 0           */
    uint64_t max_frame; /* bytes; 0: 8 MiB */
    /* Bytes that wait for one peer to read; more are refused by send, and from half of it on
     * reading pauses.  0: 16 MiB */
    uint64_t max_unwritten;
    /* Bytes of unfinished frames, of frames above 2 KiB whose messages are not released,
     * and of unwritten replies, of all peers.  0: a quarter of what the machine or the
     * control group allows */
    uint64_t memory;
    /* For a frame to come, and longer at more than 4 KiB a second.  0: 30 s; SPN_FOREVER:
     * no limit */
    int64_t frame_timeout_ns;
    /* Closes after so long without a byte.  While messages of the peer are not released the
     * connection is not idle; the time begins when the last is.  A peer that takes none of
     * the bytes that wait for it is idle.  A client whose heartbeats are answered finds a
     * dead server with an idle_ns of about three heartbeat_ns.  0: never */
    int64_t idle_ns;
    /* A client sends `heartbeat`, a message for encode, borrowed until destroy, after so long
     * without a byte from the peer; an answer to it is such a byte.  listen refuses this
     * option.  0: never */
    int64_t heartbeat_ns;
    const void *heartbeat;
    int64_t connect_timeout_ns; /* 0: 3 s */
    const char *name;           /* prefix of the I/O threads' names; NULL: "spn-io" */
} spn_endpoint_opts;

#define SPN_ENDPOINT_OPTS_INIT                                                  \
    {                                                                           \
        sizeof(spn_endpoint_opts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, \
    }

/*
 * listen:  makes an endpoint that accepts connections at an address of this machine (host:
 *          an address or "localhost"; NULL: all) and a port (0: any free one).
 * connect: makes an endpoint with one connection, and waits until that stands: it looks up
 *          the name, and blocks, so not on an I/O thread.  Events, `connected` the first of
 *          them, may be told before it returns.  When the connection is lost, `disconnected`
 *          tells, and the endpoint makes no other.
 * port:    where it listens; 0 for a client and for NULL.
 * channel: a client's channel, borrowed until destroy; once it is lost, sending says
 *          SPN_ECLOSED.  NULL for a server and for NULL.
 * stop:    takes no more connections and messages: what peers send from then on is thrown
 *          away; ends each connection when its messages have been released and its peer has
 *          read what was sent; closes the others when timeout_ns have passed, and counts them
 *          (cut_off); ends the I/O threads.  It does not know of replies that a client waits
 *          for.  Blocks.  When it has said SPN_OK no event follows.
 * destroy: frees it after stop; NULL is a no-op.
 *
 * Returns  listen, connect: SPN_OK; SPN_EINVAL: a NULL, a codec without its three functions,
 *          an option that is out of range, no such address to listen on, *problem (may be
 *          NULL) says which; SPN_EADDRINUSE; SPN_EPERM; SPN_ETIMEDOUT, SPN_EUNREACHABLE: no
 *          connection, or no such name; SPN_ENOMEM; SPN_EAGAIN (no thread, no descriptor);
 *          SPN_EIO.
 *          stop: SPN_OK; SPN_ETIMEDOUT: connections had to be closed, messages were not
 *          released, or an I/O thread is held up: call again before destroy; SPN_EBUSY:
 *          another thread is in stop; SPN_EDEADLK: on one of its I/O threads; SPN_ESTATE: in
 *          the child of a fork; SPN_EINVAL (NULL).
 *          destroy: SPN_OK; SPN_EBUSY and changes nothing while it runs or a channel of it
 *          is referenced.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_endpoint_listen(spn_endpoint **out, const char *host, int port,
                        const spn_codec *codec, spn_handler *handler,
                        const spn_endpoint_opts *opts, spn_problem *problem);
SPN_API SPN_NODISCARD
int spn_endpoint_connect(spn_endpoint **out, const char *host, int port,
                         const spn_codec *codec, spn_handler *handler,
                         const spn_endpoint_opts *opts, spn_problem *problem);
SPN_API int spn_endpoint_port(const spn_endpoint *endpoint);
SPN_API spn_channel *spn_endpoint_channel(spn_endpoint *endpoint);
SPN_API SPN_NODISCARD
int spn_endpoint_stop(spn_endpoint *endpoint, int64_t timeout_ns);
SPN_API int spn_endpoint_destroy(spn_endpoint *endpoint);

/* Set size before (SPN_ENDPOINT_STATS_INIT).  Counts are since it was made. */
typedef struct spn_endpoint_stats {
    size_t size;
    uint64_t channels;    /* that stand now                                       */
    uint64_t accepted;    /* in all                                               */
    uint64_t refused;     /* over max_channels, or while stopping                 */
    uint64_t idle_closed; /* silent for longer than idle_ns                       */
    uint64_t frames_late; /* closed by frame_timeout_ns                           */
    uint64_t bad_frames;  /* closed: no frame, half a frame, one above max_frame  */
    uint64_t cut_off;     /* closed before the peer had all replies               */
    uint64_t messages;    /* that came                                            */
    uint64_t in_flight;   /* of these not released                                */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t memory_used; /* bytes counted against `memory` now                   */
    uint64_t memory_limit;
    uint64_t
        memory_refused; /* messages, replies and connections refused for want of it */
} spn_endpoint_stats;

#define SPN_ENDPOINT_STATS_INIT            \
    {                                      \
        .size = sizeof(spn_endpoint_stats) \
    }

/* Fills *stats as far as stats->size goes.  SPN_OK; SPN_EINVAL (a NULL, a wrong size).
 * Since 0.1 */
SPN_API int spn_endpoint_stats_get(spn_endpoint *endpoint, spn_endpoint_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* SPN_ENDPOINT_H */
