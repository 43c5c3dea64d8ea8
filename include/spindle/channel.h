/* SPDX-License-Identifier: MIT */
#ifndef SPN_CHANNEL_H
#define SPN_CHANNEL_H

#include <spindle/dispatcher.h>
#include <spindle/executor.h>
#include <spindle/pool.h>
#include <spindle/repository.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The thread model for any protocol.
 *
 *   channel   a connection: the peer's address, a word of the program's, send, close
 *   message   what came on it; the library knows its head and nothing else of it
 *   handler   five functions, one for each event of a channel; a handler that calls the
 *             one inside it decorates that
 *   dispatch  a handler that runs the one inside it on the thread that the URL names
 *
 * On a program's own event loop the program creates a channel for each connection and
 * calls spn_handler_connected, _received, ... from its I/O thread.  endpoint.h does both
 * on I/O threads of the library.
 *
 * Lifecycle   spn_dispatch_create -> events -> spn_dispatch_stop -> spn_dispatch_destroy.
 *             A program tells connected first and disconnected last, once, for each
 *             channel; it may leave `sent` out.  The event loop ends before stop, and what
 *             send needs is there until stop has returned.
 * Lost        an event, not a message, that the pool refuses is lost with a warning: what
 *             belongs to a channel is freed by its data's function (spn_channel_set_data)
 *             rather than in disconnected.
 * Threads     the events of one channel are told one at a time, by one thread at a time,
 *             as a rule its I/O thread.  Everything else here is safe from any thread;
 *             send and close may be called inside an event.
 * Order       events that a dispatch hands to a pool run in any order and at the same time,
 *             connected and disconnected too, unless its URL says channel.order=true.
 *             Without that there is no order with one thread either: a message that is
 *             refused is told at once, before those that wait.
 * Ownership   a channel is counted.  A message belongs to the handler that took it until
 *             spn_message_release, and keeps its channel until then.
 */
typedef struct spn_channel spn_channel;
typedef struct spn_message spn_message;
typedef struct spn_handler spn_handler;
typedef struct spn_dispatch spn_dispatch;

/* ---- channels ---------------------------------------------------------------------- */

/* How a program's own transport sends and closes.  Each gets the ctx of create and may be
 * called by any thread that has a reference.  Append only. */
typedef struct spn_channel_ops {
    size_t size; /* sizeof(spn_channel_ops) */
    /* Sends what the protocol calls a message; borrows it.  0, or a negative status. */
    int (*send)(void *ctx, spn_channel *channel, const void *message);
    /* Optional: begins to close the connection; disconnected follows. */
    void (*close)(void *ctx, spn_channel *channel, int why);
    /* Optional: the last reference has gone.  The channel may not be used here. */
    void (*gone)(void *ctx);
} spn_channel_ops;

/*
 * create:  makes a channel of the program's own transport, with one reference.  ops is
 *          borrowed until `gone` has returned; ctx is in use as long, so that a message,
 *          which keeps its channel, may point to it.  remote, the peer's address for people,
 *          is copied and may be NULL.  *out is NULL on failure.
 * ref:     one reference more; returns the channel.  unref: one less; NULL is a no-op.
 *
 * Returns  create: SPN_OK; SPN_EINVAL (out or ops NULL, no send, a wrong size); SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_channel_create(spn_channel **out, const spn_channel_ops *ops, void *ctx,
                       const char *remote);
SPN_API spn_channel *spn_channel_ref(spn_channel *channel);
SPN_API void spn_channel_unref(spn_channel *channel);

/*
 * send:    hands a message of the protocol to the transport: ops->send, or the codec of an
 *          endpoint, which copies it.  Does not block with an endpoint.
 * close:   has the connection closed: for SPN_OK after what was sent has been written, for
 *          a negative status at once.  `disconnected` tells when it is.  Again, or where
 *          ops has no close: nothing, or what ops->close does.  NULL is a no-op.
 *
 * A message that could not be sent is lost: a protocol whose replies have no numbers closes
 * the channel then.
 *
 * Returns  send: SPN_OK; SPN_EINVAL (a NULL); what the transport says: with an endpoint
 *          SPN_ECLOSED (the connection has gone), SPN_EFULL (the peer does not read),
 *          SPN_ENOMEM, or what encode returned.
 * Since    0.1
 */
SPN_API int spn_channel_send(spn_channel *channel, const void *message);
SPN_API void spn_channel_close(spn_channel *channel, int why);

/* The peer's address, "10.0.0.1:40000"; "" where it is unknown.  Valid while the caller has
 * a reference.  NULL for NULL.  Since 0.1 */
SPN_API const char *spn_channel_remote(spn_channel *channel);

/* Told that a channel lets go of the program's word.  No channel is locked meanwhile. */
typedef void (*spn_data_gone_fn)(void *data);

/* A word of the program's for this connection; NULL at first.  Set it before other threads
 * know the channel: before the first event, in decode of an endpoint, or in `connected` of a
 * handler in front of the dispatch.  `gone`, which may be NULL, is called with it once: when
 * the last reference has gone, or another word is set.  Since 0.1 */
SPN_API void *spn_channel_data(spn_channel *channel);
SPN_API void spn_channel_set_data(spn_channel *channel, void *data,
                                  spn_data_gone_fn gone);

/* ---- messages ---------------------------------------------------------------------- */

typedef enum spn_message_kind {
    SPN_MESSAGE_OTHER = 0,   /* neither; a dispatcher treats it as a request */
    SPN_MESSAGE_REQUEST = 1, /* the peer waits for an answer, or might       */
    SPN_MESSAGE_RESPONSE = 2 /* a caller here waits for it, see `waiting`    */
} spn_message_kind;

typedef struct spn_message_ops {
    /* Frees the message; called by spn_message_release.  message->channel still is there. */
    void (*release)(spn_message *message);
    /* Optional: what it is, in a few words, for warnings: "GET user:7".  Any thread. */
    void (*describe)(const spn_message *message, char *text, size_t size);
} spn_message_ops;

/* The head of a message.  A program puts it first in a struct of its own and sets it with
 * SPN_MESSAGE_INIT. */
struct spn_message {
    const spn_message_ops *ops; /* borrowed */
    uint32_t kind;              /* spn_message_kind */
    uint32_t flags;             /* the library's; 0 at first */
    spn_executor *waiting;      /* of a response: the executor that waits for it, as a
                                   threadless one, which then handles it whatever the
                                   dispatcher says.  It lives until `received` of the
                                   dispatch has returned: a handler in front of that can
                                   hold it.  NULL: no executor waits */
    int64_t arrived_ns;         /* when it came, monotonic; 0: set by the dispatch if a
                                   key of the URL needs it */
    size_t counted;             /* the library's, as all below; 0 at first */
    spn_channel *channel;       /* from spn_handler_received on; NULL at first */
    spn_dispatch *dispatch;
    spn_task task;
};

#define SPN_MESSAGE_INIT(operations, what)                         \
    {                                                              \
        (operations), (uint32_t)(what), 0, NULL, 0, 0, NULL, NULL, \
            SPN_TASK_INIT(NULL, NULL),                             \
    }

/* Ends a message: ops->release frees it, and it gives up its channel.  Exactly once for each
 * message.  NULL is a no-op.  Since 0.1 */
SPN_API void spn_message_release(spn_message *message);

/* ---- handlers ---------------------------------------------------------------------- */

/* What a handler does with an event.  Where a function is NULL, the event goes to the next
 * handler inside; behind the last one nothing happens, and a message is released. */
typedef struct spn_handler_ops {
    void (*connected)(spn_handler *self, spn_channel *channel);
    /* why: SPN_OK, the peer closed in order; or a negative status */
    void (*disconnected)(spn_handler *self, spn_channel *channel, int why);
    /* All that was sent has been handed to the kernel up to that byte of the stream. */
    void (*sent)(spn_handler *self, spn_channel *channel, uint64_t position);
    /* 0: the message is the handler's, which releases it, now or later.  A failure: it is
     * still the caller's, who tells `caught` and releases it: the event loop, or the task of
     * a dispatch, which logs the failure too. */
    int (*received)(spn_handler *self, spn_channel *channel, spn_message *message);
    void (*caught)(spn_handler *self, spn_channel *channel, int why);
} spn_handler_ops;

/* A handler, the first member of a program's own struct. */
struct spn_handler {
    const spn_handler_ops *ops; /* borrowed */
    spn_handler *inner;         /* NULL: the innermost */
};

/*
 * Tell a handler of an event: a decorator calls the one inside, a program's event loop the
 * outermost.  NULL for a handler: behind the last one.  `received` has the message keep its
 * channel until it is released.  A loop that pauses reading while a channel has many messages
 * counts them up before it calls spn_handler_received, and down in release of the message:
 * the message may be released before the call returns.
 *
 * Returns  received: what the handler returned if it ran on this thread, and 0 if the
 *          message was handed over.  After a failure, SPN_EINVAL (a NULL) among them, the
 *          message is still the caller's: the event loop tells `caught`, and releases it.
 * Since    0.1
 */
SPN_API void spn_handler_connected(spn_handler *handler, spn_channel *channel);
SPN_API void spn_handler_disconnected(spn_handler *handler, spn_channel *channel,
                                      int why);
SPN_API void spn_handler_sent(spn_handler *handler, spn_channel *channel,
                              uint64_t position);
SPN_API int spn_handler_received(spn_handler *handler, spn_channel *channel,
                                 spn_message *message);
SPN_API void spn_handler_caught(spn_handler *handler, spn_channel *channel, int why);

/* ---- dispatch ---------------------------------------------------------------------- */

/* Zero means default.  Append only. */
typedef struct spn_dispatch_opts {
    size_t size;                /* sizeof(spn_dispatch_opts), set by _INIT */
    spn_extensions *extensions; /* in use until destroy; NULL: what is built in */
    /* Where the pool is, in use until destroy; NULL: one of its own. */
    spn_repository *repository;
    /* The message will not be handled: the pool has no room for it, or its channel has
     * all that one may have of it (SPN_EREJECTED), or the pool is being ended
     * (SPN_ESHUTDOWN), or there is no memory (SPN_ENOMEM).  Answers it if the peer waits,
     * and releases it.  Runs inside spn_handler_received, which returns 0, or on a thread
     * that ends the pool; with channel.order on one of the pool.  NULL: the message is
     * released.  Either way it is counted.
     * When the pool is full its policy (`reject` of the URL) is asked first: a message that
     * it discards is told here; one that caller-runs runs, or with which block waits, holds
     * up the I/O thread, which serves nobody else meanwhile. */
    void (*refused)(void *ctx, spn_channel *channel, spn_message *message, int why);
    void *ctx; /* of refused */
} spn_dispatch_opts;

#define SPN_DISPATCH_OPTS_INIT                             \
    {                                                      \
        sizeof(spn_dispatch_opts), NULL, NULL, NULL, NULL, \
    }

/*
 * create:  makes a dispatch of a URL, in front of `inner`, which is borrowed until destroy.
 *          The URL's keys:
 *            dispatcher, threadpool, threads, queues, ...   as of a server, url_pool.h
 *            reject                      what a full pool does, see `refused`; report, which
 *                                        writes stacks to the home directory at the first
 *                                        refusals unless dump.enable=false
 *            threadname                  of the pool's threads; the URL's protocol
 *            channel.order               true: what the pool handles of one channel is
 *                                        handled one after the other, in the order it
 *                                        came, refusals among it; then `inflight` bounds
 *                                        what waits, and `queues` the channels; false
 *            connect.queue.capacity      of the ordered thread; unbounded
 *            connect.queue.warning.size  a warning above so many waiting; 1000
 *            inflight, inflight.address  messages of one channel, one address, that may
 *                                        be with the pool; seven eighths of it, no limit
 *            queue.target                refuses while messages wait longer, in ms; never
 *          Keys that it does not know are ignored, so that a program may have its own in
 *          the URL; a prefix, as in "echo.idle", keeps them apart.
 *          *out is NULL on failure.  opts may be NULL.
 * handler: the handler to tell events to; it lives until destroy.
 * pool:    the URL's pool, borrowed.
 * stop:    ends what it made, after what was handed over: the ordered thread and a pool of
 *          its own; what still runs at the deadline is interrupted.  Blocks.  The caller
 *          tells no event from here on.
 * destroy: frees it after stop; NULL is a no-op.
 *
 * A pool that was shut down hands its events to the executor that the repository shares,
 * and so does a response for which the pool has no room.
 *
 * Returns  create: SPN_OK; SPN_EINVAL (a NULL, another dispatch inside), SPN_ERANGE: a value
 *          is wrong, and *problem (may be NULL) says of which key; SPN_EEMPTY: there is no
 *          such dispatcher or thread pool, and *problem lists those there are; SPN_ENOMEM;
 *          SPN_EAGAIN (no thread); what an extension said.
 *          stop: SPN_OK; SPN_ETIMEDOUT: something still runs, call again; SPN_EINTR;
 *          SPN_EBUSY: another thread is in stop; SPN_EDEADLK: from a thread of its pool;
 *          SPN_ESTATE: in the child of a fork; SPN_EINVAL (NULL).
 *          destroy: SPN_OK; SPN_EBUSY and changes nothing before stop has said SPN_OK.
 *          handler, pool: NULL for NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_dispatch_create(spn_dispatch **out, const char *url, spn_handler *inner,
                        const spn_dispatch_opts *opts, spn_problem *problem);
SPN_API spn_handler *spn_dispatch_handler(spn_dispatch *dispatch);
SPN_API spn_pool *spn_dispatch_pool(spn_dispatch *dispatch);
SPN_API SPN_NODISCARD
int spn_dispatch_stop(spn_dispatch *dispatch, int64_t timeout_ns);
SPN_API int spn_dispatch_destroy(spn_dispatch *dispatch);

/* Set size before (SPN_DISPATCH_STATS_INIT).  Counts are since create; an event counts where
 * the dispatcher sends it, also if it is refused there then. */
typedef struct spn_dispatch_stats {
    size_t size;
    uint64_t dispatched[SPN_CHANNEL_EVENTS][SPN_PLACES]; /* by event and place */
    uint64_t shared;  /* of these by the shared executor                      */
    uint64_t refused; /* messages that were not handled                       */
} spn_dispatch_stats;

#define SPN_DISPATCH_STATS_INIT            \
    {                                      \
        .size = sizeof(spn_dispatch_stats) \
    }

/* Fills *stats as far as stats->size goes.  SPN_OK; SPN_EINVAL (a NULL, a wrong size).
 * Since 0.1 */
SPN_API int spn_dispatch_stats_get(spn_dispatch *dispatch, spn_dispatch_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* SPN_CHANNEL_H */
