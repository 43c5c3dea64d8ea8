/* SPDX-License-Identifier: MIT */
/*
 * uv_listen.c - the acceptor: one thread that takes connections and deals them to
 * the loops (uv_spread.c).
 *
 * A loop of its own, started with the first listener, so that handlers which run on
 * I/O threads never keep a connection from being taken.
 *
 * WITHOUT DESCRIPTORS (EMFILE and the like) the listening socket stays readable and
 * polling it would spin.  It is left alone for a moment, and what waits in the backlog
 * is taken when descriptors are to be had again; each such time is counted, and the
 * log is told once a minute.
 *
 * Beyond max_connections a connection is taken and closed at once: the peer learns of
 * it, where one that is left in the backlog would wait for nothing.
 */
#include "net/uv_net.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"

enum {
    ACCEPT_TURNS = 64, /* connections in a row before other listeners have their turn */
    BACK_OFF_MS = 20,
    BACKLOG = 1024,
};

/* ---- on the acceptor's thread ------------------------------------------------------- */

static void begin_conn(struct spn__net_job *job)
{
    struct spn__conn *const conn =
        (struct spn__conn *)((char *)job - offsetof(struct spn__conn, begin));

    spn__conn_enlist(conn);
    spn__fetch_add(&spn__conn_loop(conn)->begun, 1u, relaxed); /* a number */
    if (spn__conn_loop(conn)->stopping) {
        spn__conn_attend(conn);
        return;
    }
    spn__conn_established(conn);
}

/* Takes the descriptor, whatever becomes of it. */
static void take(struct spn__listener *listener, int fd)
{
    struct spn__transport *const transport = listener->transport;
    const int limit = transport->opts.max_connections;
    struct spn__conn *conn = NULL;

    /* relaxed, all: numbers; only this thread adds. */
    if (limit == 0 || spn__load(&transport->accepted_now, relaxed) < limit)
        conn = spn__conn_create(transport, spn__spread_deal(transport),
                                listener->events, listener->context, NULL);
    if (conn == NULL) {
        spn__fetch_add(&transport->refused, (uint64_t)1, relaxed);
        (void)close(fd);
        return;
    }
    spn__net_socket_ready(fd);
    spn__fetch_add(&transport->accepted, (uint64_t)1, relaxed);
    spn__fetch_add(&transport->accepted_now, (int64_t)1, relaxed);
    spn__fetch_add(&spn__conn_loop(conn)->share, 1, relaxed);
    spn__conn_loop(conn)->dealt++;
    conn->fd = fd;
    conn->accepted = true;
    conn->begin.fn = begin_conn;
    if (!spn__loop_post(spn__conn_loop(conn), &conn->begin))
        spn__assert(false); /* the acceptor ends before the loops do */
}

static void on_ready(uv_poll_t *handle, int status, int events);

static void go_on(uv_timer_t *handle)
{
    struct spn__listener *const listener = handle->data;
    const int rc = uv_poll_start(&listener->poll, UV_READABLE, on_ready);

    spn__assert(rc == 0);
}

static void on_ready(uv_poll_t *handle, int status, int events)
{
    struct spn__listener *const listener = handle->data;
    int fd = -1;

    (void)events;
    for (int i = 0; i < ACCEPT_TURNS; i++) {
        fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take(listener, fd);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (status < 0)
                break;
            return;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            break;
        /* EINTR, ECONNABORTED and what else befell one connection: to the next. */
    }
    if (fd >= 0)
        return;
    /* relaxed: a number. */
    spn__fetch_add(&listener->transport->accept_failures, (uint64_t)1, relaxed);
    spn__log_limited(SPN_LOG_WARN, SPN_SEC(60),
                     "no descriptor for a connection to port %d: it waits",
                     listener->port);
    (void)uv_poll_stop(&listener->poll);
    (void)uv_timer_start(&listener->timer, go_on, BACK_OFF_MS, 0);
}

static void handle_closed(uv_handle_t *handle)
{
    struct spn__listener *const listener = handle->data;

    if (--listener->handles != 0)
        return;
    (void)close(listener->fd);
    listener->fd = -1;
    spn__gate_open(&listener->ended); /* it may be freed from here on */
}

void spn__listener_stop_on_loop(struct spn__listener *listener)
{
    spn__list_remove(&listener->on_loop);
    uv_close((uv_handle_t *)&listener->poll, handle_closed);
    uv_close((uv_handle_t *)&listener->timer, handle_closed);
}

static void begin_listening(struct spn__net_job *job)
{
    struct spn__listener *const listener =
        (struct spn__listener *)((char *)job - offsetof(struct spn__listener, job));
    struct spn__loop *const loop = &listener->transport->acceptor;
    int rc;

    if (loop->stopping) {
        listener->result = SPN_ESHUTDOWN;
        goto out;
    }
    rc = uv_poll_init_socket(&loop->uv, &listener->poll, listener->fd);
    if (rc != 0) {
        listener->result = rc == UV_ENOMEM ? SPN_ENOMEM : SPN_EIO;
        goto out;
    }
    (void)uv_timer_init(&loop->uv, &listener->timer); /* cannot fail */
    listener->poll.data = listener;
    listener->timer.data = listener;
    listener->handles = 2;
    spn__list_push_back(&loop->listeners, &listener->on_loop);
    go_on(&listener->timer);
out:
    spn__gate_open(&listener->begun);
}

static void end_listening(struct spn__net_job *job)
{
    struct spn__listener *const listener =
        (struct spn__listener *)((char *)job - offsetof(struct spn__listener, job));

    if (spn__list_linked(&listener->on_loop)) /* else the transport is being stopped */
        spn__listener_stop_on_loop(listener);
}

/* ---- the socket --------------------------------------------------------------------------- */

static int bind_one(const struct spn__address *address)
{
    const int on = 1, off = 0;
    int fd, error;

    fd = socket(address->at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                0);
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->at.any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, &address->at.any, address->size) == 0)
        return fd;
    error = errno;
    (void)close(fd);
    return -error;
}

/* Why the kernel does not bind an address.  One that this machine does not have is the caller's
 * mistake, and not one that somebody else listens on. */
static int bind_status(int error)
{
    return error == EADDRNOTAVAIL ? SPN_EINVAL : spn__net_status(error);
}

static int bind_socket(const struct spn__listen_opts *opts, int *out)
{
    const char *host = opts->host;
    struct spn__addresses all;
    int rc;

    if (host != NULL && strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (host == NULL) { /* both families on one socket, where there are both */
        rc = spn__net_resolve("::", opts->port, true, &all);
        *out = rc == SPN_OK ? bind_one(&all.list[0]) : -EAFNOSUPPORT;
        if (*out >= 0 || rc == SPN_ENOMEM)
            return rc;
        if (*out != -EAFNOSUPPORT && *out != -EADDRNOTAVAIL)
            return bind_status(-*out);
        host = "0.0.0.0";
    }
    rc = spn__net_resolve(host, opts->port, true, &all);
    if (rc != SPN_OK)
        return rc;
    *out = bind_one(&all.list[0]);
    return *out >= 0 ? SPN_OK : bind_status(-*out);
}

/* Unless it is the caller's. */
static void socket_close(const struct spn__listen_opts *opts, int fd)
{
    if (opts->bound == NULL)
        (void)close(fd);
}

static int open_socket(const struct spn__listen_opts *opts, int *out)
{
    int rc = SPN_OK;

    if (opts->backlog < 0)
        return SPN_EINVAL;
    if (opts->bound != NULL)
        *out = *opts->bound;
    else
        rc = bind_socket(opts, out);
    if (rc == SPN_OK &&
        listen(*out, opts->backlog > 0 ? opts->backlog : BACKLOG) != 0) {
        rc = spn__net_status(errno);
        socket_close(opts, *out);
    }
    return rc;
}

static int port_of(int fd)
{
    struct spn__address address;

    address.size = sizeof address.at;
    if (getsockname(fd, &address.at.any, &address.size) != 0)
        return 0;
    return ntohs(address.at.any.sa_family == AF_INET6 ? address.at.v6.sin6_port
                                                      : address.at.v4.sin_port);
}

int spn__net_reserve(const struct spn__listen_opts *opts, int *fd, int *port)
{
    const int rc = bind_socket(opts, fd);

    if (rc == SPN_OK)
        *port = port_of(*fd);
    return rc;
}

void spn__net_release(int fd)
{
    (void)close(fd);
}

/* ---- calls -------------------------------------------------------------------------------- */

/* Starts the acceptor with the first listener, and lists this one. */
static int join_transport(struct spn__transport *transport,
                          struct spn__listener *listener)
{
    int rc = SPN_OK;

    spn__lock(&transport->lock);
    if (transport->stopping) {
        rc = SPN_ESHUTDOWN;
    } else if (!transport->has_acceptor) {
        rc = spn__loop_start(&transport->acceptor);
        transport->has_acceptor = rc == SPN_OK;
    }
    if (rc == SPN_OK && !spn__loop_post(&transport->acceptor, &listener->job))
        rc = SPN_ESHUTDOWN;
    if (rc == SPN_OK)
        spn__list_push_back(&transport->listeners, &listener->link);
    spn__unlock(&transport->lock);
    return rc;
}

static void leave_transport(struct spn__listener *listener)
{
    spn__lock(&listener->transport->lock);
    spn__list_remove(&listener->link);
    spn__unlock(&listener->transport->lock);
}

int spn__transport_listen(struct spn__transport *transport,
                          const struct spn__listen_opts *opts,
                          const struct spn__conn_events *events, void *context,
                          struct spn__listener **out)
{
    struct spn__listener *listener;
    int rc;

    *out = NULL;
    listener = spn__alloc(sizeof *listener);
    if (listener == NULL)
        return SPN_ENOMEM;
    memset(listener, 0, sizeof *listener);
    listener->transport = transport;
    listener->events = events;
    listener->context = context;
    listener->job.fn = begin_listening;
    spn__gate_init(&listener->begun);
    spn__gate_init(&listener->ended);
    rc = open_socket(opts, &listener->fd);
    if (rc != SPN_OK) {
        spn__free(listener);
        return rc;
    }
    listener->port = port_of(listener->fd);
    rc = join_transport(transport, listener);
    if (rc == SPN_OK) {
        spn__gate_wait(&listener->begun);
        rc = listener->result;
        if (rc != SPN_OK)
            leave_transport(listener);
    }
    if (rc != SPN_OK) {
        socket_close(opts, listener->fd);
        spn__free(listener);
        return rc;
    }
    *out = listener;
    return SPN_OK;
}

int spn__listener_port(const struct spn__listener *listener)
{
    return listener->port;
}

int spn__listener_close(struct spn__listener *listener)
{
    struct spn__transport *const transport = listener->transport;

    if (spn__transport_is_mine(transport))
        return SPN_EDEADLK;
    listener->job.fn = end_listening;
    (void)spn__loop_post(&transport->acceptor, &listener->job); /* or it has ended */
    spn__gate_wait(&listener->ended);
    leave_transport(listener);
    spn__free(listener);
    return SPN_OK;
}
