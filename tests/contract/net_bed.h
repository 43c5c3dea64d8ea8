/* SPDX-License-Identifier: MIT */
/*
 * net_bed.h - a transport with a listener on a free port, connections that keep a
 * record of what befell them, and raw sockets to be the other end.
 *
 * A line is what a test sees of one connection.  Its events check on every call that
 * they come on its loop's thread, one at a time, in order, and none after `closed`.  That
 * thread is another one only when the connection was handed over.
 */
#ifndef NET_BED_H
#define NET_BED_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "net/transport.h"
#include "test.h"

enum { LINES = 64, LINE_HEAD = 512 };

struct bed;

struct line {
    struct bed *bed;
    struct spn__conn *conn; /* referenced from opened (or connect) to bed_close */
    atomic_int opened, closed, why, inside, offers;
    atomic_size_t got; /* bytes used up */
    unsigned char head[LINE_HEAD];
    atomic_ullong written;     /* as the event said */
    _Atomic(pthread_t) thread; /* its loop's, at the last event */
    atomic_int moves;          /* times that was another one than before */
    void *mine;                /* the test's */
};

struct bed {
    struct spn__transport *transport;
    struct spn__listener *listener;
    int port;
    atomic_int lines;    /* accepted */
    atomic_int taken;    /* of `line`; two loops may open at once */
    atomic_int unopened; /* `closed` of those that never opened */
    struct line line[LINES];
    /* What the server does; by default it takes all bytes and keeps the first. */
    int64_t (*use)(struct line *line, const unsigned char *data, size_t size);
    int (*open)(struct line *line);
};

static inline void line_see_thread(struct line *line)
{
    if (pthread_equal(line->thread, pthread_self()))
        return;
    line->thread = pthread_self();
    atomic_fetch_add(&line->moves, 1);
}

static inline void line_enter(struct line *line)
{
    CHECK_EQ(atomic_exchange(&line->inside, 1), 0);
    CHECK_EQ(atomic_load(&line->closed), 0);
    CHECK(spn__conn_on_loop(line->conn));
    line_see_thread(line);
}

static inline int line_opened(void *context, struct spn__conn *conn)
{
    struct line *line = spn__conn_data(conn);
    struct bed *const bed = context;
    int rc = 0;

    if (line == NULL) { /* accepted */
        const int n = atomic_fetch_add(&bed->taken, 1);

        REQUIRE(n < LINES);
        line = &bed->line[n];
        line->bed = bed;
        line->conn = conn;
        spn__conn_ref(conn);
        spn__conn_set_data(conn, line);
    }
    line->thread = pthread_self();
    CHECK_EQ(atomic_load(&line->opened), 0);
    CHECK_EQ(atomic_load(&line->closed), 0);
    CHECK(spn__conn_is_open(conn));
    if (bed->open != NULL)
        rc = bed->open(line);
    atomic_store(&line->opened, 1);
    if (line >= bed->line && line < bed->line + LINES)
        atomic_fetch_add(&bed->lines, 1);
    return rc;
}

static inline void line_keep(struct line *line, const unsigned char *data, size_t size)
{
    const size_t at = atomic_load(&line->got);

    for (size_t i = 0; i < size && at + i < LINE_HEAD; i++)
        line->head[at + i] = data[i];
    atomic_store(&line->got, at + size);
}

static inline int64_t line_bytes(void *context, struct spn__conn *conn,
                                 const unsigned char *data, size_t size)
{
    struct line *const line = spn__conn_data(conn);
    struct bed *const bed = context;
    int64_t used = (int64_t)size;

    line_enter(line);
    CHECK_EQ(atomic_load(&line->opened), 1);
    atomic_fetch_add(&line->offers, 1);
    if (bed->use != NULL)
        used = bed->use(line, data, size);
    else
        line_keep(line, data, size);
    atomic_store(&line->inside, 0);
    return used;
}

static inline void line_written(void *context, struct spn__conn *conn,
                                uint64_t position)
{
    struct line *const line = spn__conn_data(conn);

    (void)context;
    line_enter(line);
    CHECK(position > atomic_load(&line->written));
    atomic_store(&line->written, position);
    atomic_store(&line->inside, 0);
}

static inline void line_closed(void *context, struct spn__conn *conn, int why)
{
    struct line *const line = spn__conn_data(conn);
    struct bed *const bed = context;

    CHECK(!spn__conn_is_open(conn));
    if (line == NULL) {
        atomic_fetch_add(&bed->unopened, 1);
        return;
    }
    CHECK_EQ(atomic_load(&line->inside), 0);
    CHECK(spn__conn_on_loop(conn));
    if (atomic_load(&line->opened))
        line_see_thread(line);
    atomic_store(&line->why, why);
    CHECK_EQ(atomic_exchange(&line->closed, 1), 0);
}

static const struct spn__conn_events line_events = { .opened = line_opened,
                                                     .bytes = line_bytes,
                                                     .closed = line_closed };
static const struct spn__conn_events line_events_written = { .opened = line_opened,
                                                             .bytes = line_bytes,
                                                             .written = line_written,
                                                             .closed = line_closed };

static inline void bed_listen(struct bed *bed, const char *host,
                              const struct spn__conn_events *events)
{
    const struct spn__listen_opts opts = { .host = host };

    REQUIRE_OK(
        spn__transport_listen(bed->transport, &opts, events, bed, &bed->listener));
    bed->port = spn__listener_port(bed->listener);
    REQUIRE(bed->port > 0);
}

/* opts may be NULL: two loops. */
static inline void bed_open(struct bed *bed, const struct spn__transport_opts *opts)
{
    const struct spn__transport_opts two = { .loops = 2 };

    memset(bed, 0, sizeof *bed);
    REQUIRE_OK(spn__transport_create(opts != NULL ? opts : &two, &bed->transport));
    bed_listen(bed, "127.0.0.1", &line_events);
}

static inline void line_close(struct line *line)
{
    if (line->conn != NULL)
        spn__conn_unref(line->conn);
    line->conn = NULL;
}

static inline void bed_close(struct bed *bed)
{
    struct spn__transport_stats stats;
    uint64_t moves = 0;

    REQUIRE_OK(spn__transport_stop(bed->transport));
    spn__transport_get_stats(bed->transport, &stats);
    for (int i = 0; i < LINES; i++)
        moves += (uint64_t)atomic_load(&bed->line[i].moves);
    CHECK(moves <= stats.moved); /* one may be moved twice between events */
    if (bed->listener != NULL)
        CHECK_OK(spn__listener_close(bed->listener));
    for (int i = 0; i < LINES; i++) {
        CHECK_EQ(atomic_load(&bed->line[i].opened), atomic_load(&bed->line[i].closed));
        line_close(&bed->line[i]);
    }
    REQUIRE_OK(spn__transport_destroy(bed->transport));
}

/* A connection of the transport to a port of this machine. */
static inline int bed_connect(struct bed *bed, struct line *line, int port,
                              int64_t timeout_ns)
{
    memset(line, 0, sizeof *line);
    line->bed = bed;
    return spn__transport_connect(bed->transport, "127.0.0.1", port, timeout_ns,
                                  &line_events, bed, line, &line->conn);
}

static inline int line_send(struct line *line, const void *data, size_t size)
{
    const struct spn__piece piece = { data, size };

    return spn__conn_send(line->conn, &piece, 1, 0, NULL);
}

#define AWAIT_LINES(bed, n)   T_AWAIT(atomic_load(&(bed)->lines) >= (n))
#define AWAIT_CLOSED(line_at) T_AWAIT(atomic_load(&(line_at)->closed))
#define AWAIT_GOT(line_at, n) T_AWAIT(atomic_load(&(line_at)->got) >= (size_t)(n))
#define CHECK_WHY(line_at, status)                          \
    do {                                                    \
        AWAIT_CLOSED(line_at);                              \
        CHECK_STATUS(atomic_load(&(line_at)->why), status); \
    } while (0)

/* ---- raw sockets ------------------------------------------------------------ */

static inline struct sockaddr_in raw_address(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

/* Reads give up in the end, so that a test fails and does not hang. */
static inline void raw_patient(int fd)
{
    const struct timeval limit = { .tv_sec = 30 };

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static inline int raw_connect(int port)
{
    const struct sockaddr_in to = raw_address(port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    REQUIRE(fd >= 0);
    raw_patient(fd);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    REQUIRE(connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

/* A port that is taken, and nobody listens there. */
static inline int raw_reserve(int *port)
{
    struct sockaddr_in at = raw_address(0);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof at;

    REQUIRE(fd >= 0);
    REQUIRE(bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    REQUIRE(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static inline int raw_listen(int *port, int backlog)
{
    const int fd = raw_reserve(port);

    REQUIRE(listen(fd, backlog) == 0);
    return fd;
}

/* Fills the queue of a listener without a backlog: every later connect hangs.  The first is in
 * it before another tries: on a busy machine the system takes its time, and answers meanwhile
 * whoever comes. */
static inline void raw_fill(int listening, int port, int *fds, int count)
{
    struct pollfd queued = { .fd = listening, .events = POLLIN };
    const struct sockaddr_in to = raw_address(port);

    for (int i = 0; i < count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        REQUIRE(fds[i] >= 0);
        (void)connect(fds[i], (const struct sockaddr *)&to, sizeof to);
        REQUIRE(i > 0 || poll(&queued, 1, 30 * 1000) == 1);
    }
}

static inline int raw_accept(int listening)
{
    const int fd = accept(listening, NULL, NULL);

    REQUIRE(fd >= 0);
    raw_patient(fd);
    return fd;
}

static inline void raw_send(int fd, const void *data, size_t size)
{
    REQUIRE(send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

/* A process that was stopped for a while is interrupted in a call that has a limit. */
static inline ssize_t raw_receive(int fd, void *data, size_t size)
{
    ssize_t n;

    do
        n = recv(fd, data, size, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Reads exactly so much. */
static inline void raw_read(int fd, void *data, size_t size)
{
    for (size_t got = 0; got < size;) {
        const ssize_t n = raw_receive(fd, (char *)data + got, size - got);

        REQUIRE(n > 0);
        got += (size_t)n;
    }
}

/* The peer has ended: no more bytes, no reset. */
static inline void raw_check_end(int fd)
{
    char byte;

    CHECK_EQ(raw_receive(fd, &byte, 1), 0);
}

static inline void raw_reset(int fd)
{
    const struct linger now = { 1, 0 };

    REQUIRE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    close(fd);
}

#endif /* NET_BED_H */
