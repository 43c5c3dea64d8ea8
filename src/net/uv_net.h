/* SPDX-License-Identifier: MIT */
/*
 * uv_net.h - the transport on libuv: what its files share.
 *
 *   uv_transport.c  made, stopped, destroyed
 *   uv_loop.c       a loop: its thread, its inbox, sleeping and waking
 *   uv_conn.c       a connection's life on its loop: opened, read, closed
 *   uv_write.c      the outgoing stream, which any thread may write
 *   uv_spread.c     which loop a connection is on: dealt, handed over
 *   uv_listen.c     the acceptor
 *   uv_connect.c    addresses, connecting
 *
 * Of libuv we use the loop, polling, timers and the async handle, and read and
 * write the sockets ourselves: a worker that answers a request writes without the
 * loop, and a stream of libuv's belongs to its loop alone.
 *
 * WHO MAY TOUCH WHAT
 *   uv_* and the fields marked "loop": the loop's own thread, but for
 *   uv_async_send, which is what it is there for.
 *   Fields marked "lock": holding the connection's (or the loop's) lock.  A
 *   connection's lock is taken first, a loop's inside or alone; nothing is called
 *   with either held, and neither is held over a system call.
 *
 * LIFE OF A CONNECTION    (phase, guarded by its lock; it only goes forward)
 *   CONNECTING -> OPEN -> ENDING -> CLOSING -> CLOSED
 *   ENDING  write what was taken, shut the sending side, wait for the peer's end
 *   CLOSING nobody begins to write; the loop closes the descriptor as soon as the
 *           one who is writing has come back, so a number is never written to that
 *           the system has given to somebody else meanwhile
 *   CLOSED  `closed` has been or is being called
 *
 * ITS LOOP   An accepted connection may be handed over to another loop while it is OPEN
 *   (uv_spread.c).  Its own loop's thread does that, under the lock, only while it is not
 *   `listed`, and lists it: so whoever has listed a connection asks the loop it is on.
 */
#ifndef SPN__NET_UV_NET_H
#define SPN__NET_UV_NET_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/list.h"
#include "net/bytes.h"
#include "net/gate.h"
#include "net/transport.h"
#include "sync/lock.h"
#include "sync/seam.h"
#include "sync/seam_stacks.h"

enum {
    SPN__LOOP_IN = 65536,  /* bytes read at once */
    SPN__LOOP_OUT = 65536, /* bytes gathered in an event before they are written */
    SPN__ADDRESS_TEXT = 56,
    SPN__ADDRESSES = 8, /* of a name, tried one after the other */
};

enum spn__conn_phase {
    SPN__CONNECTING,
    SPN__OPEN,
    SPN__ENDING,
    SPN__CLOSING,
    SPN__CLOSED,
};

/* What is sent to a loop is listed in its inbox, which never refuses for want of
 * memory: everything brings its own link. */
struct spn__loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_prepare_t before;
    uv_check_t after;
    struct spn__transport *transport;
    char name[16];
    spn__os_thread thread;
    struct spn__os_note note; /* its thread's */
    struct spn__gate started;
    bool has_record;          /* published by started */
    SPN__ATOMIC(void *) self; /* the record of its thread; see spn__loop_is_mine */

    struct spn__lock lock;
    struct spn__net_job *jobs, **jobs_end; /* lock */
    struct spn__conn *asked, **asked_end;  /* lock: connections to look after */
    bool asleep;                           /* lock: must be woken */
    bool open;                             /* lock: takes jobs */
    SPN__ATOMIC(uint32_t) senders;         /* threads inside uv_async_send */
    struct spn__net_job stop;

    struct spn__list conns;     /* loop: those that have not been closed */
    size_t live;                /* loop: those whose `closed` is still to come */
    bool stopping;              /* loop */
    bool ended;                 /* loop: its handles are being closed */
    struct spn__list listeners; /* loop, of the acceptor */

    struct spn__conn *gathers; /* loop: the one whose `bytes` is running */
    bool gathering;            /* loop: it writes, and `out` has its bytes */
    size_t gathered;
    unsigned char *in, *out; /* loop */

    /* uv_spread.c. */
    SPN__ATOMIC(int32_t) share;  /* accepted connections dealt or handed to it */
    unsigned visits;             /* loop: connections that were ready in this turn */
    unsigned until_look;         /* loop: turns that pass before one is timed */
    int64_t began_ns;            /* loop: of the turn that is being timed; else 0 */
    int strain;                  /* loop: long turns of late, less the short ones */
    unsigned give;               /* loop: connections to hand over in this turn */
    struct spn__loop *give_to;   /* loop */
    SPN__ATOMIC(uint32_t) begun; /* connections that have come from the acceptor */
    uint32_t dealt,
        begun_seen;         /* the acceptor's: it has dealt, it knows to have begun */
    int64_t waits_since_ns; /* the acceptor's */

    /* relaxed, all of them: numbers to look at. */
    SPN__ATOMIC(uint64_t) bytes_read;
    SPN__ATOMIC(uint64_t) wakeups;
    SPN__ATOMIC(uint64_t) moved; /* connections handed over */
};

struct spn__address {
    socklen_t size;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } at;
};

struct spn__addresses {
    size_t count;
    struct spn__address list[SPN__ADDRESSES];
};

/* A message that is written in pieces: where in the stream. */
struct spn__split {
    struct spn__split *next; /* in the order of the stream */
    uint64_t start, end;
    size_t bytes; /* of a write at most */
};

struct spn__conn {
    SPN__ATOMIC(uint32_t) refs;
    struct spn__transport *transport;
    SPN__ATOMIC(struct spn__loop *) loop; /* see spn__conn_loop */
    const struct spn__conn_events *events;
    void *context;
    SPN__ATOMIC(void *) data;
    SPN__ATOMIC(uint32_t) is_open;
    SPN__ATOMIC(int32_t) pauses;
    SPN__ATOMIC(uint32_t) pause_calls;
    int fd; /* written by the loop while nobody writes, -1 before and after */

    struct spn__lock lock;
    enum spn__conn_phase phase;     /* lock */
    int why;                        /* lock */
    bool listed;                    /* lock: is or will be in the loop's inbox */
    bool writing;                   /* lock: somebody writes, `front` is his */
    bool blocked;                   /* lock: the socket is full, the loop polls it */
    bool pinned;                    /* lock: jobs were posted, it stays where it is */
    bool resets;                    /* lock: the peer is to see it */
    int32_t tells;                  /* lock: so many ask for `written` [tell] */
    int64_t end_by_ns;              /* lock: of spn__conn_end_by; 0: linger_ns */
    struct spn__bytes back;         /* lock: what was taken and comes behind front */
    struct spn__bytes front;        /* the writer's, and without one the lock's */
    SPN__ATOMIC(uint64_t) position; /* end of what was taken; changed with the lock */
    SPN__ATOMIC(uint64_t) written;  /* changed by the writer */
    SPN__ATOMIC(uint64_t) received; /* changed by the loop */
    SPN__ATOMIC(int64_t) last_read_ns;
    SPN__ATOMIC(int64_t) last_write_ns;
    SPN__ATOMIC(struct spn__split *) splits; /* lock to change [split]; NULL: none */

    struct spn__conn *next_asked; /* the inbox's */
    struct spn__net_job begin;    /* its first job on a loop */

    struct spn__list_node link; /* loop, and all that follows */
    uv_poll_t poll;
    uv_timer_t timer;
    bool has_poll, has_timer, accepted, opened, eof, shut, held, lingers;
    int handles;       /* that libuv has not given back yet */
    unsigned interest; /* what poll waits for */
    struct spn__bytes in;
    size_t want;
    uint64_t told; /* what `written` has said */
    int64_t deadline_ns;
    int64_t timed_by_ns;              /* the end_by_ns that the timer knows */
    size_t unacknowledged;            /* when its time was up */
    struct spn__addresses *addresses; /* while connecting */
    size_t attempt;
    int failure; /* of the last attempt */
    char local[SPN__ADDRESS_TEXT], remote[SPN__ADDRESS_TEXT];
};

struct spn__listener {
    struct spn__transport *transport;
    struct spn__list_node link; /* in the transport's list; its lock */
    const struct spn__conn_events *events;
    void *context;
    int port;
    int fd;
    struct spn__net_job job; /* begin, then end */
    struct spn__gate begun, ended;
    int result;

    struct spn__list_node on_loop; /* the acceptor's, and all that follows */
    uv_poll_t poll;
    uv_timer_t timer; /* goes on accepting when descriptors may be there again */
    int handles;
};

struct spn__transport {
    struct spn__transport_opts opts;
    char name[16];
    struct spn__lock lock;
    struct spn__list listeners; /* lock */
    bool stopping;              /* lock */
    bool has_acceptor;          /* lock; its thread runs */
    struct spn__gate stopped;
    SPN__ATOMIC(uint32_t) next;        /* loop for one that is made from here */
    SPN__ATOMIC(uint32_t) used;        /* loops that accepted ones are dealt to */
    SPN__ATOMIC(int64_t) conns;        /* that have not been freed */
    SPN__ATOMIC(int64_t) accepted_now; /* against max_connections */
    SPN__ATOMIC(int64_t) open;
    SPN__ATOMIC(uint64_t) accepted;
    SPN__ATOMIC(uint64_t) refused;
    SPN__ATOMIC(uint64_t) accept_failures;
    SPN__ATOMIC(uint64_t) connected;
    SPN__ATOMIC(uint64_t) bytes_written;
    struct spn__loop acceptor;
    int loop_count;
    struct spn__loop loops[];
};

/* uv_loop.c */
int spn__loop_init(struct spn__loop *loop, struct spn__transport *transport,
                   bool for_conns);
int spn__loop_start(struct spn__loop *loop);
/* Of one that was not started, or has been joined. */
void spn__loop_fini(struct spn__loop *loop);
/* Has it close everything and end; once. */
void spn__loop_stop(struct spn__loop *loop);
void spn__loop_join(struct spn__loop *loop);
bool spn__loop_is_mine(const struct spn__loop *loop);
/* false: the loop has ended, and nothing was taken. */
bool spn__loop_post(struct spn__loop *loop, struct spn__net_job *job);
/* Has spn__conn_attend(conn) called; the connection is marked `listed` already. */
void spn__loop_ask(struct spn__loop *loop, struct spn__conn *conn);
int64_t spn__loop_now(struct spn__loop *loop);

/* The loop a connection is on.  relaxed: only that loop's thread changes it, and lists the
 * connection as it does (see above).  So for that thread, and for one who has listed the
 * connection, it is the loop; for others it is one that was a moment ago, which is not
 * theirs, or is theirs from now on. */
static inline struct spn__loop *spn__conn_loop(const struct spn__conn *conn)
{
    return spn__load(&conn->loop, relaxed);
}

/* uv_conn.c */
struct spn__conn *spn__conn_create(struct spn__transport *transport,
                                   struct spn__loop *loop,
                                   const struct spn__conn_events *events, void *context,
                                   void *data);
/* Frees one that nobody knows but the caller. */
void spn__conn_drop(struct spn__conn *conn);
/* On the loop: the connection's first moments there. */
void spn__conn_enlist(struct spn__conn *conn);
/* On the loop: it has left the inbox. */
void spn__conn_unlist(struct spn__conn *conn);
/* On the loop: it stands. */
void spn__conn_established(struct spn__conn *conn);
/* On the loop: looks after everything that may have changed. */
void spn__conn_attend(struct spn__conn *conn);
int spn__conn_poll(struct spn__conn *conn, unsigned events, uv_poll_cb callback);
void spn__conn_start_timer(struct spn__conn *conn, int64_t deadline_ns);
/* On the loop: an attempt's handle came back after the connection was closed. */
void spn__conn_closed_meanwhile(struct spn__conn *conn);
/* With the lock held; true: the caller asks the loop when he has released it. */
bool spn__conn_close_locked(struct spn__conn *conn, int why);
bool spn__conn_list_locked(struct spn__conn *conn);

/* uv_write.c */
/* Of a connection that nobody writes any more. */
void spn__splits_fini(struct spn__conn *conn);
/* Begins to be the one who writes, if there is something to write and nobody does. */
bool spn__conn_claim_locked(struct spn__conn *conn);
/* By the one who writes: until nothing is left, or the socket is full. */
void spn__conn_drain(struct spn__conn *conn, bool on_loop);
/* On the loop, around `bytes`. */
void spn__conn_gather_begin(struct spn__conn *conn);
void spn__conn_gather_end(struct spn__conn *conn);
bool spn__conn_all_written_locked(const struct spn__conn *conn);

/* uv_spread.c */
/* The acceptor: the loop for one more connection. */
struct spn__loop *spn__spread_deal(struct spn__transport *transport);
/* On the loop: a connection is ready. */
static inline void spn__spread_visit(struct spn__loop *loop)
{
    if (loop->visits++ == 0 && loop->until_look == 0)
        loop->began_ns = spn__now();
}
/* On the loop: the turn is over. */
void spn__spread_turn(struct spn__loop *loop);
/* On the loop, when everything that was due has been done: maybe hands the connection over;
 * then it is another's.  Only while loop->give. */
void spn__spread_give(struct spn__conn *conn);

/* uv_connect.c */
int spn__net_status(int error);
int spn__net_resolve(const char *host, int port, bool passive,
                     struct spn__addresses *out);
void spn__net_text(const struct spn__address *address, char text[SPN__ADDRESS_TEXT]);
void spn__net_socket_ready(int fd); /* no delay, keep-alive */
void spn__net_name_ends(struct spn__conn *conn);

/* uv_transport.c */
bool spn__transport_is_mine(const struct spn__transport *transport);

/* uv_listen.c */
void spn__listener_stop_on_loop(struct spn__listener *listener);

#endif /* SPN__NET_UV_NET_H */
