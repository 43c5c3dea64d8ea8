/* SPDX-License-Identifier: MIT */
/*
 * Connections: what the RPC layer asks of a transport.
 *
 * Bytes come up, bytes go down, and a connection ends exactly once.  Frames,
 * requests and timeouts are the business of the layer above.  Two transports
 * are behind this interface: libuv on real sockets (uv_*.c), and one in the
 * explorer that delays, cuts, and loses (tests/sim), so that everything above
 * runs in both.
 *
 * Threads.  A connection belongs to one I/O loop at a time; every event of
 * spn__conn_events is called on that loop's thread, one at a time for a
 * connection, and must not block.  Between two events an accepted connection may
 * be handed over to another loop, if its own has too much to do: what happened
 * in an event happens before the next one, on whichever thread that is.  One that
 * was made by connect, or that a job was posted to, stays where it is.  The
 * functions here may be called from any thread, from inside an event too.
 *
 * Writing.  spn__conn_send copies, so nothing of the caller's is kept.  What is
 * sent from inside an event of the same loop is written once, at the end of
 * the loop's turn.  From another thread the sender writes the socket itself
 * when nothing is queued and nobody else writes (the worker that finished a
 * request need not wake the loop); otherwise the bytes join the queue and the
 * loop is woken at most once for any number of senders.
 *
 * Positions.  send tells the position of the message's last byte in the
 * connection's outgoing stream; spn__conn_written tells how far the stream has
 * been handed to the kernel.  That is how a call that timed out knows whether
 * it was ever sent, without a callback for each message.
 *
 * References.  A connection is counted; the transport holds one until `closed`
 * has been called.  A pointer kept beyond an event needs its own reference.
 * After `closed` only unref, the getters and failing calls are left.
 */
#ifndef SPN_NET_TRANSPORT_H
#define SPN_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spn__budget;
struct spn__conn;
struct spn__listener;
struct spn__transport;
struct spn__net_job;

/* What the layer above does with a connection's events. */
struct spn__conn_events {
    /* The connection stands; the first event.  Nonzero refuses it: it is closed
     * with that status, and `closed` follows. */
    int (*opened)(void *context, struct spn__conn *conn);

    /* All bytes that came and were not yet used.  Returns how many are used up
     * now; the rest is offered again with what comes behind it, not before
     * spn__conn_want is satisfied.  Negative: the connection is closed with
     * that status. */
    int64_t (*bytes)(void *context, struct spn__conn *conn, const unsigned char *data,
                     size_t size);

    /* Optional.  As `bytes`, of what was not used and cannot be kept, for want of memory or
     * because the budget has none for it: all of it is used, or the connection is closed.
     * Without this it is closed with SPN_ENOMEM. */
    int64_t (*crowded)(void *context, struct spn__conn *conn, const unsigned char *data,
                       size_t size);

    /* Optional.  The outgoing stream has been handed to the kernel up to here.  Told only
     * while somebody asks for it with spn__conn_tell_written. */
    void (*written)(void *context, struct spn__conn *conn, uint64_t position);

    /* Optional.  The peer has ended its side, and no `bytes` follow.  True: the connection
     * stays open for sending, and spn__conn_end is called later; it has no deadline until
     * then.  False, and without this: it is ended now. */
    bool (*peer_ended)(void *context, struct spn__conn *conn);

    /* The last event, exactly once for each connection whose connect or accept
     * began: also for one that never opened.  `why` is 0 when the peer closed
     * in order, else a negative status (SPN_ECLOSED: closed from here;
     * SPN_ETIMEDOUT: connect took too long; SPN_EIO and others). */
    void (*closed)(void *context, struct spn__conn *conn, int why);
};

/* One piece of a message; a message is sent whole or not at all. */
struct spn__piece {
    const void *data;
    size_t size;
};

/* More messages follow at once: do not write yet.  The last one of them, or the
 * end of the loop's turn, writes. */
#define SPN__SEND_MORE 1u
/* Not counted against the bound: replies that tell of overload, heartbeats. */
#define SPN__SEND_URGENT 2u
/* From another thread: more will follow from other threads soon.  The loop writes it, with
 * what has come by then, instead of the sender: fewer and larger writes. */
#define SPN__SEND_SOON 4u

/* This message only, for tests of peers: no write has more than so many bytes of it, nor bytes
 * of others beside them.  Up to 16777215; more is not split. */
#define SPN__SEND_SPLIT(bytes) \
    ((bytes) <= SPN__SPLIT_MAX ? (unsigned)(bytes) << SPN__SPLIT_SHIFT : 0u)
#define SPN__SPLIT_SHIFT 8
#define SPN__SPLIT_MAX   0xffffffu

/* Takes a message.  `position`, when not NULL, is where it ends in the outgoing
 * stream.  Returns 0, SPN_ECLOSED, SPN_EFULL (more than the bound is waiting to
 * be written: nothing was taken), SPN_ENOMEM (the budget has no room for it either). */
int spn__conn_send(struct spn__conn *conn, const struct spn__piece *pieces,
                   size_t count, unsigned flags, uint64_t *position);
/* How far the outgoing stream has been handed to the kernel. */
uint64_t spn__conn_written(const struct spn__conn *conn);
/* How many bytes wait to be written. */
size_t spn__conn_unwritten(const struct spn__conn *conn);

/* Asks for `written` from here on, or takes that back.  Counted, so that two may ask.  What
 * was written before is not told; who must not miss it looks at spn__conn_unwritten
 * afterwards. */
void spn__conn_tell_written(struct spn__conn *conn, bool wanted);

/* Inside `bytes`: do not offer again before so many bytes are there in all.  No more than
 * there are: as soon as reading goes on, for who stops because it is paused. */
void spn__conn_want(struct spn__conn *conn, size_t bytes);
/* Stops and resumes reading: back-pressure.  Counted, so that two may ask. */
void spn__conn_pause(struct spn__conn *conn);
void spn__conn_resume(struct spn__conn *conn);

/* Closes at once; unwritten bytes are dropped.  The first reason counts. */
void spn__conn_close(struct spn__conn *conn, int why);
/* The same, and the peer sees a reset in place of an end: something that it waits for will
 * not come.  So does the peer of a connection that spn__conn_end_by gave too little time. */
void spn__conn_reset(struct spn__conn *conn, int why);
/* Writes what was taken, tells the peer that no more will come, and closes when the
 * peer has closed too or linger_ns have passed; `closed` comes with 0, or
 * SPN_ETIMEDOUT when not all could be written.  No `bytes` from here on, and nothing
 * more can be sent.  When the peer ends its side, this happens by itself, unless
 * `peer_ended` wants to send more. */
void spn__conn_end(struct spn__conn *conn);
/* The same with a deadline in place of linger_ns: until then the bytes may take as long as
 * the peer takes to read them.  linger_ns is left for the peer to end its side when it has
 * received all.  After spn__conn_end too, and again: the last deadline counts. */
void spn__conn_end_by(struct spn__conn *conn, int64_t deadline_ns);
/* Inside `closed`: bytes that were taken and not written, or, when the time of an ended
 * connection was up, that the peer had not acknowledged. */
size_t spn__conn_lost(const struct spn__conn *conn);

void spn__conn_ref(struct spn__conn *conn);
void spn__conn_unref(struct spn__conn *conn);

/* The word of the layer above; NULL until it is set in `opened` (or given to connect). */
void *spn__conn_data(const struct spn__conn *conn);
void spn__conn_set_data(struct spn__conn *conn, void *data);
bool spn__conn_is_open(const struct spn__conn *conn);
/* host:port, with brackets around an IPv6 address; "" before it is known. */
const char *spn__conn_local(const struct spn__conn *conn);
const char *spn__conn_remote(const struct spn__conn *conn);
/* Monotonic time of the last byte read and written; the time of opening at first. */
int64_t spn__conn_last_read_ns(const struct spn__conn *conn);
int64_t spn__conn_last_write_ns(const struct spn__conn *conn);
/* Bytes read in all. */
uint64_t spn__conn_received(const struct spn__conn *conn);
/* Whether the caller is the connection's I/O thread. */
bool spn__conn_on_loop(const struct spn__conn *conn);

/* Runs fn once on the connection's loop, soon; in order for one caller.  The job
 * is the caller's memory until fn is called.  The connection is not handed over to
 * another loop any more.  After the transport has stopped: SPN_ESHUTDOWN, and fn is
 * not called. */
struct spn__net_job {
    struct spn__net_job *next;
    void (*fn)(struct spn__net_job *job);
};
int spn__conn_post(struct spn__conn *conn, struct spn__net_job *job);

struct spn__transport_opts {
    int loops;               /* I/O threads; 0: min(cpus + 1, 32) */
    const char *thread_name; /* prefix; NULL: "spn-io" */
    size_t max_unwritten;    /* bytes a connection may have waiting; 0: 16 MiB */
    int max_connections;     /* accepted at one time; 0: no limit */
    int64_t linger_ns;       /* how long an ended connection may take; 0: 3 s */
    /* For unfinished frames and unwritten bytes; there as long as the transport.  NULL: they
     * are not counted. */
    struct spn__budget *budget;
};

struct spn__listen_opts {
    const char *host; /* an address, or "localhost"; NULL: all, v6 and v4 */
    int port;         /* 0: any free one; see spn__listener_port */
    int backlog;      /* 0: 1024 */
    const int *bound; /* a socket from spn__net_reserve: it is the listener's if listen
                         succeeds.  NULL: listen makes one */
};

/* Takes the port, or any free one for 0, without listening there: a socket, and its port.
 * Returns 0 or what listen does. */
int spn__net_reserve(const struct spn__listen_opts *opts, int *fd, int *port);
/* Gives it up, if nobody listens on it. */
void spn__net_release(int fd);

/* Starts listening.  Returns 0, SPN_EADDRINUSE, SPN_EINVAL (host is no address, or none of this
 * machine), SPN_ENOMEM, ... */
int spn__transport_listen(struct spn__transport *transport,
                          const struct spn__listen_opts *opts,
                          const struct spn__conn_events *events, void *context,
                          struct spn__listener **listener);
int spn__listener_port(const struct spn__listener *listener);
/* Accepts no more; waits until no accept is under way.  Connections live on.
 * Not from an I/O thread (SPN_EDEADLK).  Frees the listener. */
int spn__listener_close(struct spn__listener *listener);

/* Begins to connect; `opened` or `closed` tells how it went, maybe before this returns;
 * *conn is stored before either.  The caller gets a reference.  Names are looked up in the calling thread and may block. */
int spn__transport_connect(struct spn__transport *transport, const char *host, int port,
                           int64_t timeout_ns, const struct spn__conn_events *events,
                           void *context, void *data, struct spn__conn **conn);

/* Closes every listener and connection, waits until each `closed` has been
 * called and the loops have ended.  Not from an I/O thread (SPN_EDEADLK). */
int spn__transport_stop(struct spn__transport *transport);
/* SPN_EBUSY before stop, or while references to connections are held. */
int spn__transport_destroy(struct spn__transport *transport);

/* Returns 0, SPN_EINVAL, SPN_ENOMEM, SPN_EAGAIN (no thread, no descriptor).  opts may
 * be NULL.  The library has real sockets behind this name, the explorer its own
 * network. */
int spn__transport_create(const struct spn__transport_opts *opts,
                          struct spn__transport **transport);

/* How many connections this process has descriptors for, less a few that are kept for its
 * other files (KEPT in uv_transport.c); 0: there is no limit. */
int spn__transport_room(const struct spn__transport *transport);

/* What went on so far. */
struct spn__transport_stats {
    uint64_t accepted;        /* connections taken in */
    uint64_t refused;         /* closed at once: max_connections, no memory */
    uint64_t accept_failures; /* accepts put off: no descriptors to be had */
    uint64_t connected;       /* connections made */
    uint64_t open;            /* connections that stand now, both kinds */
    uint64_t bytes_read, bytes_written;
    uint64_t wakeups; /* times a loop was woken by another thread */
    uint64_t moved;   /* connections handed over from loop to loop */
};
void spn__transport_get_stats(struct spn__transport *transport,
                              struct spn__transport_stats *stats);

#endif
