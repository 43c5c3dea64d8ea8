/* SPDX-License-Identifier: MIT */
#ifndef SPN_SERVER_H
#define SPN_SERVER_H

#include <spindle/dispatcher.h>
#include <spindle/extension.h>
#include <spindle/metrics.h>
#include <spindle/problem.h>
#include <spindle/repository.h>
#include <spindle/rpc.h>
#include <spindle/service.h>
#include <spindle/timer.h>
#include <spindle/url.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A server that unmodified Dubbo clients call; one URL says where it listens and which
 * thread does what:
 *
 *     dubbo://127.0.0.1:20880?dispatcher=all&threadpool=fixed&threads=200
 *
 * host, port             where; port 0 or none: any free one, which create takes and start
 *                        listens on; 0.0.0.0: all addresses
 * dispatcher             all, direct, message, execution, connection, or one of the
 *                        program's; also written dispather, channel.handler         all
 * threadpool, threads... the pool, see spn_url_pool and spn_repository
 * iothreads              I/O threads                                  min(CPUs + 1, 32)
 * payload                bytes of a request's or reply's body at most; 0 and less:
 *                        2147483647                                            8388608
 * accepts                connections at a time; 0: no limit       what RLIMIT_NOFILE leaves
 *                        at start, less a quarter of it, at most 128, for other files
 * transporter, server    uv; another value is refused                               uv
 * serialization          hessian2; another value is refused                   hessian2
 * codec                  dubbo; another value is refused                         dubbo
 * heartbeat              ms after which a client says it is there; 0: nobody asks 60000
 * heartbeat.timeout      ms without a sign of life                       heartbeat * 3
 * close.timeout          ms after which a silent connection is closed   the one before
 * inflight               requests that one connection may have in the pool, waiting or
 *                        running; 0: no limit.  By default an eighth of the pool's threads
 *                        and queue is left to others, one at least; no limit where the pool
 *                        has none.  It follows changes of the pool
 * inflight.address       the same for all connections of one address; 0: no limit         0
 * queue.target           ms that requests may wait for a thread of the pool: when all that
 *                        began during 20 times that had waited longer, new ones are refused
 *                        until one begins in time, for as long again, or none waits.
 *                        0: they may wait for ever                                      0
 * frame.timeout          ms for a frame to come, from its first byte on, and a second more
 *                        for each 4096 bytes that came of it; then the connection is
 *                        closed.  0: for ever                                     30000
 * memory                 bytes (or with k, m, g) that unfinished frames, requests with what
 *                        their methods take, and unread replies may have, of all
 *                        connections; 0: no limit     a quarter of what the machine or its
 *                                                     control group allows
 * channel.order          true: requests of one connection are handled one after the other, in
 *                        the order they came                                      false
 * connect.queue.capacity of the dispatcher `connection`: events that wait    2147483647
 * connect.queue.warning.size  the same: with more than so many, a warning          1000
 * channel.readonly.send  whether stop tells clients first                          true
 *
 * Lifecycle   create -> export... -> start -> stop -> destroy.  Services come and go while
 *             it runs.
 * Threads     every call but destroy is safe from any thread; stop not from a method.
 *             Connections begin on one I/O thread; one that has too much to do hands
 *             some over to others, between two events, so what runs on I/O threads
 *             must not take a connection to have the same one for ever.
 * Overload    a request the pool refuses is answered at once from the I/O thread: status
 *             100.  Heartbeats are answered there too, whatever the pool does.
 *             Status 100 is also the answer to a request whose connection or address has as
 *             many in the pool as `inflight` or `inflight.address` allows, and to one that
 *             comes while others wait longer than `queue.target`.  A deferred request
 *             counts until its method has returned.  With `direct` nothing counts.
 * Memory      what the values of a request's body take is limited by its size: 64 KiB and
 *             36 bytes for each byte of it, more than Java writes in masses; then it is
 *             answered with status 40.  A method that is not there is answered with 70
 *             before its arguments take any.
 *             What finds no room in `memory` is refused: a request is answered with status
 *             100, and the rest of its frame is passed over; with status 40 if it has more
 *             than a quarter of `memory`; a reply becomes a status 100.  From half of it on,
 *             reading pauses from clients that leave 64 KiB unread.  A log line tells of
 *             it, once in 10 s, and memory_refused counts.
 * Half-closed a client that ends its sending side behind its requests has their replies;
 *             then the connection is closed, at the latest after close.timeout (180 s
 *             where there is none, unless frame.timeout is 0, too).
 * Deviations  a request above `payload` is answered with status 40 before its body is
 *             read, and the connection closed; what is no frame (telnet) closes the
 *             connection without an answer; a request whose client has stopped waiting is
 *             answered with status 31 and not run.
 */
typedef struct spn_server spn_server;

typedef void (*spn_channel_fn)(void *ctx, const spn_channel_info *channel);

/* Zero means default.  Append only. */
typedef struct spn_server_opts {
    size_t size;                /* sizeof(spn_server_opts), set by _INIT              */
    spn_extensions *extensions; /* in use until destroy; NULL: what is built in       */
    spn_repository *repository; /* where its pool is, in use until destroy; NULL: one of
                                   its own                                            */
    spn_channel_event_fn event; /* NULL: nobody                                       */
    void *ctx;                  /* its argument                                       */
    size_t max_unwritten;       /* bytes of replies that wait for a client to read; more
                                   are dropped and counted.  0: 16 MiB                */
    uint32_t run_expired; /* 1: also requests whose client has stopped waiting   */
    uint32_t
        latency_every; /* one of so many requests of a connection is timed; 0: 16 */
} spn_server_opts;

#define SPN_SERVER_OPTS_INIT                                      \
    {                                                             \
        sizeof(spn_server_opts), NULL, NULL, NULL, NULL, 0, 0, 0, \
    }

/*
 * create:  makes a server of a URL; it does not listen yet.  *out is NULL on failure.
 *          opts may be NULL.
 * destroy: frees it, after stop, or if it was never started; NULL is a no-op.
 *
 * Returns  create: SPN_OK; SPN_EINVAL, SPN_ERANGE: a value is wrong, *problem (may be NULL)
 *          says of which key; SPN_EEMPTY: there is no such dispatcher, thread pool,
 *          transporter, serialization or codec, and *problem lists those there are;
 *          SPN_ENOMEM; SPN_EAGAIN (no thread); what an extension of the program's said
 *          when it was made.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing while it runs or a request
 *          is not finished, and in the child of a fork if the parent started it.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_server_create(spn_server **out, const char *url, const spn_server_opts *opts,
                      spn_problem *problem);
SPN_API int spn_server_destroy(spn_server *server);

/*
 * export:    has the methods of a service called.  The service stays the caller's and must
 *            not change until it is unexported.
 * unexport:  requests that come from now on find it no more; those whose method runs, or
 *            that were deferred, go on, and are waited for.  One of its own methods is
 *            refused, since it would wait for itself; who is to finish a deferred request
 *            of it cannot be told from others, and must not call it.
 *
 * Returns  SPN_OK; SPN_EINVAL: a NULL, no name, parameters that are none, a method twice;
 *          SPN_EBUSY: its interface, version and group are exported; SPN_EEMPTY: unexport
 *          found none; SPN_EDEADLK: unexport from one of its methods, which changes
 *          nothing; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_server_export(spn_server *server, const spn_service *service,
                      spn_problem *problem);
SPN_API int spn_server_unexport(spn_server *server, const spn_service *service);

/*
 * start:  listens and serves.
 * port:   where; 0 before start, and for NULL.
 * stop:   in order: no new connections; every client is told to send no more; each
 *         connection, when its requests in flight are answered and no more come, is read no
 *         more and ends once its client has received all replies; those that are not that
 *         far when timeout_ns have passed have the tokens of their requests cancelled, are
 *         cut off with a reset, and counted (dropped, cut_off); a pool of its own is ended,
 *         what still runs there interrupted.  So a client that sees the stream end in order
 *         has been answered all that the server took; what else it sent was not taken.
 *         Events that the dispatcher has handed over are waited for, up to a second beyond
 *         timeout_ns.  Blocks.
 *
 * Returns  start: SPN_OK; SPN_ESTATE: it runs, or was stopped; SPN_EADDRINUSE: somebody has
 *          the address; SPN_EPERM; SPN_EINVAL: it is no address of this machine;
 *          SPN_EAGAIN (no thread, no descriptor); SPN_EIO; SPN_ENOMEM; *problem (may be
 *          NULL) says what and where.
 *          stop: SPN_OK: every request that was taken is over, and its reply sent or
 *          dropped by its method or client; destroy succeeds.  SPN_ETIMEDOUT: requests or
 *          replies had to be cut off, and methods may still run: call again before
 *          destroy; SPN_EBUSY: another thread starts or stops it;
 *          SPN_EDEADLK: from a method of it, or an I/O thread; SPN_ESTATE at once in
 *          the child of a fork, if the parent started it; SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_server_start(spn_server *server, spn_problem *problem);
SPN_API int spn_server_port(const spn_server *server);
SPN_API SPN_NODISCARD
int spn_server_stop(spn_server *server, int64_t timeout_ns);

/*
 * reset: the pool becomes what another URL's `threads` say, as spn_url_pool_update has it;
 *        accepts, and the times of heartbeats too, if they are there.  All else stays.
 * url:   the one it has now, a reference to give back with spn_url_unref; NULL for NULL.
 *
 * Returns  SPN_OK; SPN_EINVAL, SPN_ERANGE: a value is wrong, *problem (may be NULL) says of
 *          which key, and nothing has changed; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API int spn_server_reset(spn_server *server, const char *url, spn_problem *problem);
SPN_API spn_url *spn_server_url(spn_server *server);

/* Its pool, and the timer that looks after silent connections, borrowed; NULL for NULL.
 * Since 0.1 */
SPN_API spn_pool *spn_server_pool(spn_server *server);
SPN_API spn_timer *spn_server_timer(spn_server *server);

/* ---- what goes on ------------------------------------------------------------ */

/* Set size before (SPN_SERVER_STATS_INIT).  Counts are since create.  When nothing moves,
 * requests = replies + dropped + one_way + in_flight, bad ones among them. */
typedef struct spn_server_stats {
    size_t size;
    uint64_t connections; /* that stand now                                         */
    uint64_t accepted;    /* in all                                                 */
    uint64_t refused;     /* over `accepts`, or while stopping                      */
    uint64_t idle_closed; /* silent for too long                                    */
    uint64_t requests;    /* that came, heartbeats and events not among them        */
    uint64_t one_way;     /* of these without a reply                               */
    uint64_t in_flight;   /* not finished                                           */
    uint64_t replies;     /* sent, of any status                                    */
    uint64_t exceptions;  /* of these with a Java exception                         */
    uint64_t dropped;     /* two-way, and no reply could or should be sent          */
    uint64_t expired;     /* not run: the client had stopped waiting                */
    uint64_t rejected;    /* two-way requests that the pool refused                 */
    uint64_t
        rejected_one_way; /* the same without anybody to tell                      */
    uint64_t heartbeats;  /* answered                                               */
    uint64_t events;      /* others that came                                       */
    uint64_t responses;   /* that nobody waited for                                 */
    uint64_t bad_frames;  /* no magic, a length that cannot be, unknown serialization */
    uint64_t bad_bodies;  /* requests that could not be decoded                     */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t statuses[16]; /* replies by status: see spn_server_slot_status          */
    uint64_t dispatched[SPN_CHANNEL_EVENTS]
                       [SPN_PLACES]; /* by event, and where handled */
    uint64_t shared;      /* of these by the shared executor, the pool being shut    */
    uint64_t frames_late; /* connections closed: a frame did not come in time, see
                             frame.timeout                                       */
    uint64_t cut_off;     /* connections closed before their client had all replies */
    uint64_t cut_off_bytes; /* of replies that these did not get                    */
    uint64_t rejected_connection; /* requests refused by inflight, one-way ones too */
    uint64_t rejected_address;    /* the same by inflight.address                   */
    uint64_t rejected_delay;      /* the same by queue.target                       */
    uint64_t memory_used;    /* bytes counted against `memory` now                   */
    uint64_t memory_limit;   /* what `memory` says; 0: no limit                      */
    uint64_t memory_refused; /* requests, replies and connections refused for want of
                                memory, of that or of the system's               */
} spn_server_stats;

#define SPN_SERVER_STATS_INIT            \
    {                                    \
        .size = sizeof(spn_server_stats) \
    }

/*
 * stats_get:    fills *stats as far as stats->size goes.
 * latency:      ns from a request's arrival to its reply, of those that were timed.
 * slot_status:  the status that a slot of statuses[] counts; SPN_EINVAL: none; the last slot is
 *               for all statuses that have none.
 * each_channel: calls fn for each connection, with no lock held.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL, a wrong size).
 * Since    0.1
 */
SPN_API int spn_server_stats_get(spn_server *server, spn_server_stats *stats);
SPN_API int spn_server_latency(spn_server *server, spn_histogram_snapshot *snapshot);
SPN_API int spn_server_slot_status(int slot);
SPN_API int spn_server_each_channel(spn_server *server, spn_channel_fn fn, void *ctx);

/* Told of a service: how often its methods were called.  */
typedef void (*spn_service_fn)(void *ctx, const spn_service *service, uint64_t calls);
/* Calls fn for each exported service, with no lock held; a service that is unexported
 * meanwhile stays until fn has returned, so fn must not unexport the one it is told of.
 * SPN_OK; SPN_EINVAL.  Since 0.1 */
SPN_API int spn_server_each_service(spn_server *server, spn_service_fn fn, void *ctx);

/*
 * Registers the counters and the latency with a registry of metrics, as
 * spindle_rpc_requests_total and the like; one server for a registry.  remove before
 * destroy.
 * Returns  as spn_metrics_add; SPN_EINVAL (a NULL).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_server_add_metrics(spn_server *server, spn_metrics *metrics);
SPN_API int spn_server_remove_metrics(spn_server *server, spn_metrics *metrics);

#ifdef __cplusplus
}
#endif
#endif /* SPN_SERVER_H */
