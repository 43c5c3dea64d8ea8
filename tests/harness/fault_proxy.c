/* SPDX-License-Identifier: MIT */
/*
 * fault_proxy.c - one thread with poll(2).
 *
 * A link is a pair of sockets and two ways.  A way reads into a small buffer and writes
 * from it under its fault; that a fault has begun is decided before each read and write, so
 * `after` is exact to the byte: a write never goes past it.  The lock guards the settings
 * and the counts; sockets and buffers are the thread's alone.
 */
#include "fault_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

enum { LINKS = 256, ROOM = 65536 };

struct way {
    struct fault fault;
    uint64_t passed;   /* bytes written, garbage not counted */
    size_t size, sent; /* of buffer: held, and of these written */
    size_t garbage;    /* nonsense still to come */
    bool begun;        /* the garbage has */
    bool eof, shut;    /* the sender has ended; the receiver has been told */
    int64_t next_ns;   /* FAULT_SLOW: not before */
    unsigned char buffer[ROOM];
};

struct link {
    bool used, connecting;
    int fd[2];         /* client, server */
    struct way way[2]; /* to the server, to the client: reads fd[i], writes fd[1 - i] */
};

struct fault_proxy {
    int listening, wake[2], port, server_port;
    pthread_t thread;
    pthread_mutex_t lock;
    struct fault fault[2];     /* lock */
    bool stopping, reset;      /* lock */
    int taken, standing;       /* lock */
    struct link *links[LINKS]; /* the thread's */
};

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct sockaddr_in address(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

/* ---- a way ------------------------------------------------------------------- */

/* How many bytes may pass before the fault begins. */
static uint64_t before_fault(const struct way *way)
{
    if (way->fault.kind == FAULT_NONE)
        return UINT64_MAX;
    return way->fault.after > way->passed ? way->fault.after - way->passed : 0;
}

static bool has_begun(const struct way *way)
{
    return before_fault(way) == 0;
}

static bool wants_read(const struct way *way)
{
    return !way->eof && way->size < ROOM &&
           !(has_begun(way) && way->fault.kind == FAULT_STUCK);
}

/* How many bytes to write now; 0: none yet. */
static size_t portion(const struct way *way)
{
    const size_t held = way->size - way->sent;
    const size_t bytes = way->fault.bytes != 0 ? way->fault.bytes : 1;
    const uint64_t before = before_fault(way);

    if (held == 0)
        return 0;
    if (before != 0)
        return before < held ? (size_t)before : held;
    switch (way->fault.kind) {
    case FAULT_CHUNKS:
        return bytes < held ? bytes : held;
    case FAULT_COALESCE:
        return way->eof || held >= bytes || way->size == ROOM ? held : 0;
    case FAULT_SLOW:
        if (now_ns() < way->next_ns)
            return 0;
        return bytes < held ? bytes : held;
    default:
        return held;
    }
}

/* false: the link must be reset. */
static bool move(struct link *link, int i)
{
    struct way *const way = &link->way[i];
    const int to = link->fd[1 - i];
    size_t n;
    ssize_t out;

    if (has_begun(way) && (way->size != 0 || way->eof || way->fault.after == 0)) {
        if (way->fault.kind == FAULT_RESET)
            return false;
        if (way->fault.kind == FAULT_BLACK_HOLE) {
            way->size = way->sent = 0;
            return true;
        }
        if (way->fault.kind == FAULT_HALF_CLOSE) {
            way->size = way->sent = 0;
            if (!way->shut)
                (void)shutdown(to, SHUT_WR);
            way->shut = true;
            return true;
        }
        if (way->fault.kind == FAULT_GARBAGE && !way->begun) {
            way->begun = true;
            way->garbage = way->fault.bytes != 0 ? way->fault.bytes : 1;
        }
    }
    while (way->garbage != 0) {
        const unsigned char nonsense = (unsigned char)(way->garbage * 167 + 13);

        if (send(to, &nonsense, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        way->garbage--;
    }
    while ((n = portion(way)) != 0) {
        out = send(to, way->buffer + way->sent, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (out < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        way->sent += (size_t)out;
        way->passed += (uint64_t)out;
        if (way->fault.kind == FAULT_SLOW)
            way->next_ns = now_ns() + 1000000;
        if (way->sent == way->size)
            way->sent = way->size = 0;
        if (has_begun(way) && way->size != 0 && way->fault.kind != FAULT_CHUNKS &&
            way->fault.kind != FAULT_SLOW && way->fault.kind != FAULT_COALESCE)
            return move(link, i); /* the fault begins in the middle of what we hold */
    }
    if (way->eof && way->size == 0 && !way->shut) {
        (void)shutdown(to, SHUT_WR);
        way->shut = true;
    }
    return true;
}

/* false: the link must be reset. */
static bool fill(struct link *link, int i)
{
    struct way *const way = &link->way[i];
    ssize_t n;

    if (way->sent != 0) {
        memmove(way->buffer, way->buffer + way->sent, way->size - way->sent);
        way->size -= way->sent;
        way->sent = 0;
    }
    n = recv(link->fd[i], way->buffer + way->size, ROOM - way->size, MSG_DONTWAIT);
    if (n == 0)
        way->eof = true;
    else if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK;
    else
        way->size += (size_t)n;
    return true;
}

/* ---- links -------------------------------------------------------------------- */

static void drop(struct fault_proxy *proxy, int at, bool hard)
{
    struct link *const link = proxy->links[at];
    const struct linger now = { 1, 0 };

    for (int i = 0; i < 2; i++) {
        if (hard)
            (void)setsockopt(link->fd[i], SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(link->fd[i]);
    }
    free(link);
    proxy->links[at] = NULL;
    pthread_mutex_lock(&proxy->lock);
    proxy->standing--;
    pthread_mutex_unlock(&proxy->lock);
}

static void take(struct fault_proxy *proxy)
{
    const struct sockaddr_in to = address(proxy->server_port);
    const int on = 1, fd = accept4(proxy->listening, NULL, NULL, SOCK_CLOEXEC);
    struct link *link;
    int at = 0;

    if (fd < 0)
        return;
    while (at < LINKS && proxy->links[at] != NULL)
        at++;
    REQUIRE(at < LINKS);
    link = calloc(1, sizeof *link);
    REQUIRE(link != NULL);
    link->fd[0] = fd;
    link->fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(link->fd[1] >= 0);
    proxy->links[at] = link;
    pthread_mutex_lock(&proxy->lock);
    proxy->taken++;
    proxy->standing++;
    for (int i = 0; i < 2; i++)
        link->way[i].fault = proxy->fault[i];
    pthread_mutex_unlock(&proxy->lock);
    for (int i = 0; i < 2; i++)
        (void)setsockopt(link->fd[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(link->fd[1], (const struct sockaddr *)&to, sizeof to) != 0)
        drop(proxy, at, true); /* nobody there: as if he had refused */
}

/* false: the link has been dropped. */
static bool serve(struct fault_proxy *proxy, int at, const short ready[2])
{
    struct link *const link = proxy->links[at];

    for (int i = 0; i < 2; i++) {
        if ((ready[i] & (POLLIN | POLLHUP | POLLERR)) != 0 &&
            wants_read(&link->way[i]) && !fill(link, i)) {
            drop(proxy, at, true);
            return false;
        }
        if (!move(link, i)) {
            drop(proxy, at, true);
            return false;
        }
    }
    if (link->way[0].shut && link->way[1].shut) {
        drop(proxy, at, false);
        return false;
    }
    return true;
}

static bool look_at_orders(struct fault_proxy *proxy, bool *reset)
{
    char byte;
    bool stop;

    while (recv(proxy->wake[0], &byte, 1, MSG_DONTWAIT) == 1)
        ;
    pthread_mutex_lock(&proxy->lock);
    stop = proxy->stopping;
    *reset = proxy->reset;
    proxy->reset = false;
    pthread_mutex_unlock(&proxy->lock);
    return stop;
}

static void *run(void *arg)
{
    static const short no_events[2];
    struct fault_proxy *const proxy = arg;
    struct pollfd polled[2 + 2 * LINKS];
    int owner[2 + 2 * LINKS];
    bool reset;

    for (;;) {
        nfds_t count = 2;
        int wait_ms = -1;

        polled[0] = (struct pollfd){ proxy->wake[0], POLLIN, 0 };
        polled[1] = (struct pollfd){ proxy->listening, POLLIN, 0 };
        for (int at = 0; at < LINKS; at++) {
            const struct link *const link = proxy->links[at];

            if (link == NULL)
                continue;
            for (int i = 0; i < 2; i++) {
                const struct way *const back = &link->way[1 - i]; /* writes fd[i] */
                short events = 0;

                if (wants_read(&link->way[i]))
                    events |= POLLIN;
                if (portion(back) != 0 || back->garbage != 0)
                    events |= POLLOUT;
                if (back->fault.kind == FAULT_SLOW && back->size != 0)
                    wait_ms = 1;
                owner[count] = at;
                polled[count++] =
                    (struct pollfd){ events != 0 ? link->fd[i] : -1, events, 0 };
            }
        }
        (void)poll(polled, count, wait_ms);
        if (look_at_orders(proxy, &reset))
            break;
        if (reset)
            for (int at = 0; at < LINKS; at++)
                if (proxy->links[at] != NULL)
                    drop(proxy, at, true);
        for (nfds_t i = 2; i < count && !reset; i += 2) {
            const short ready[2] = { polled[i].revents, polled[i + 1].revents };

            (void)serve(proxy, owner[i], ready);
        }
        if ((polled[1].revents & POLLIN) != 0)
            take(proxy);
        for (int at = 0; at < LINKS; at++) /* faults that begin at once */
            if (proxy->links[at] != NULL)
                (void)serve(proxy, at, no_events);
    }
    for (int at = 0; at < LINKS; at++)
        if (proxy->links[at] != NULL)
            drop(proxy, at, false);
    return NULL;
}

/* ---- calls ---------------------------------------------------------------------- */

struct fault_proxy *fault_proxy_start(int server_port)
{
    struct fault_proxy *const proxy = calloc(1, sizeof *proxy);
    struct sockaddr_in at = address(0);
    socklen_t size = sizeof at;

    REQUIRE(proxy != NULL);
    proxy->server_port = server_port;
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, proxy->wake) == 0);
    proxy->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    REQUIRE(proxy->listening >= 0);
    REQUIRE(bind(proxy->listening, (struct sockaddr *)&at, sizeof at) == 0);
    REQUIRE(listen(proxy->listening, 128) == 0);
    REQUIRE(getsockname(proxy->listening, (struct sockaddr *)&at, &size) == 0);
    proxy->port = ntohs(at.sin_port);
    pthread_mutex_init(&proxy->lock, NULL);
    REQUIRE(pthread_create(&proxy->thread, NULL, run, proxy) == 0);
    return proxy;
}

int fault_proxy_port(const struct fault_proxy *proxy)
{
    return proxy->port;
}

void fault_proxy_set(struct fault_proxy *proxy, enum fault_way way, struct fault fault)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->fault[way] = fault;
    pthread_mutex_unlock(&proxy->lock);
}

static void order(struct fault_proxy *proxy, bool *what)
{
    pthread_mutex_lock(&proxy->lock);
    *what = true;
    pthread_mutex_unlock(&proxy->lock);
    REQUIRE(send(proxy->wake[1], "", 1, MSG_NOSIGNAL) == 1);
}

void fault_proxy_reset_all(struct fault_proxy *proxy)
{
    order(proxy, &proxy->reset);
}

static int read_locked(struct fault_proxy *proxy, const int *number)
{
    int value;

    pthread_mutex_lock(&proxy->lock);
    value = *number;
    pthread_mutex_unlock(&proxy->lock);
    return value;
}

int fault_proxy_taken(struct fault_proxy *proxy)
{
    return read_locked(proxy, &proxy->taken);
}

int fault_proxy_standing(struct fault_proxy *proxy)
{
    return read_locked(proxy, &proxy->standing);
}

void fault_proxy_stop(struct fault_proxy *proxy)
{
    order(proxy, &proxy->stopping);
    pthread_join(proxy->thread, NULL);
    pthread_mutex_destroy(&proxy->lock);
    close(proxy->wake[0]);
    close(proxy->wake[1]);
    close(proxy->listening);
    free(proxy);
}
