/* SPDX-License-Identifier: MIT */
/*
 * uv_connect.c - addresses, and how a connection is made.
 *
 * A name may have several addresses; they are tried one after the other, within one
 * limit for all of them, and the status of the last one counts.  Names are looked up
 * by the caller's thread: libuv would do it in a pool of its own, which is one per
 * process and nobody's.
 *
 * Each attempt has a socket of its own, and libuv wants the handle of the one before
 * back first; the next attempt begins when it has it.
 */
#include "net/uv_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#include "base/time.h"

int spn__net_status(int error)
{
    switch (error) {
    case EADDRINUSE:
    case EADDRNOTAVAIL:
        return SPN_EADDRINUSE;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EAFNOSUPPORT:
        return SPN_EUNREACHABLE;
    case EACCES:
    case EPERM:
        return SPN_EPERM;
    case EMFILE:
    case ENFILE:
        return SPN_EAGAIN;
    case ENOMEM:
    case ENOBUFS:
        return SPN_ENOMEM;
    default:
        return SPN_EIO;
    }
}

/* ---- addresses -------------------------------------------------------------------- */

int spn__net_resolve(const char *host, int port, bool passive,
                     struct spn__addresses *out)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC };
    struct addrinfo *found, *one;
    char text[8];
    int rc;

    out->count = 0;
    if (port < 0 || port > 65535)
        return SPN_EINVAL;
    snprintf(text, sizeof text, "%d", port);
    hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE | AI_NUMERICHOST : 0);
    rc = getaddrinfo(host, text, &hints, &found);
    if (rc == EAI_MEMORY)
        return SPN_ENOMEM;
    if (rc != 0)
        return passive ? SPN_EINVAL : SPN_EUNREACHABLE;
    for (one = found; one != NULL && out->count < SPN__ADDRESSES; one = one->ai_next) {
        struct spn__address *const address = &out->list[out->count];

        if (one->ai_family != AF_INET && one->ai_family != AF_INET6)
            continue;
        memcpy(&address->at, one->ai_addr, one->ai_addrlen);
        address->size = one->ai_addrlen;
        out->count++;
    }
    freeaddrinfo(found);
    return out->count != 0 ? SPN_OK : SPN_EUNREACHABLE;
}

void spn__net_text(const struct spn__address *address, char text[SPN__ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN];

    text[0] = '\0';
    if (address->at.any.sa_family == AF_INET &&
        inet_ntop(AF_INET, &address->at.v4.sin_addr, host, sizeof host) != NULL)
        snprintf(text, SPN__ADDRESS_TEXT, "%s:%d", host,
                 ntohs(address->at.v4.sin_port));
    else if (address->at.any.sa_family == AF_INET6 &&
             IN6_IS_ADDR_V4MAPPED(&address->at.v6.sin6_addr) &&
             inet_ntop(AF_INET, &address->at.v6.sin6_addr.s6_addr[12], host,
                       sizeof host) != NULL)
        snprintf(text, SPN__ADDRESS_TEXT, "%s:%d", host,
                 ntohs(address->at.v6.sin6_port));
    else if (address->at.any.sa_family == AF_INET6 &&
             inet_ntop(AF_INET6, &address->at.v6.sin6_addr, host, sizeof host) != NULL)
        snprintf(text, SPN__ADDRESS_TEXT, "[%s]:%d", host,
                 ntohs(address->at.v6.sin6_port));
}

void spn__net_name_ends(struct spn__conn *conn)
{
    struct spn__address address;

    address.size = sizeof address.at;
    if (getsockname(conn->fd, &address.at.any, &address.size) == 0)
        spn__net_text(&address, conn->local);
    address.size = sizeof address.at;
    if (getpeername(conn->fd, &address.at.any, &address.size) == 0)
        spn__net_text(&address, conn->remote);
}

void spn__net_socket_ready(int fd)
{
    const int on = 1, idle_s = 60, interval_s = 15, probes = 4;

    /* A socket that refuses one of these is still good. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* ---- attempts ------------------------------------------------------------------------ */

static void attempt(struct spn__conn *conn);

static bool is_connecting(struct spn__conn *conn)
{
    bool connecting;

    spn__lock(&conn->lock);
    connecting = conn->phase == SPN__CONNECTING;
    spn__unlock(&conn->lock);
    return connecting;
}

static void stands(struct spn__conn *conn)
{
    spn__free(conn->addresses);
    conn->addresses = NULL;
    /* relaxed: a number. */
    spn__fetch_add(&conn->transport->connected, (uint64_t)1, relaxed);
    spn__conn_established(conn);
}

static void attempt_closed(uv_handle_t *handle)
{
    struct spn__conn *const conn = handle->data;

    conn->handles--;
    if (is_connecting(conn))
        attempt(conn);
    else
        spn__conn_closed_meanwhile(conn);
}

/* This address is none; the next one when libuv has let go of the handle. */
static void give_up_attempt(struct spn__conn *conn, int error)
{
    conn->failure = spn__net_status(error);
    conn->attempt++;
    if (conn->has_poll) {
        conn->has_poll = false;
        uv_close((uv_handle_t *)&conn->poll, attempt_closed);
    }
    (void)close(conn->fd);
    conn->fd = -1;
}

static void on_connect(uv_poll_t *handle, int status, int events)
{
    struct spn__conn *const conn = handle->data;
    socklen_t size = sizeof(int);
    int error = 0;

    (void)events;
    if (status < 0) /* libuv has stopped polling */
        conn->interest = 0;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (!is_connecting(conn)) {
        spn__conn_attend(conn);
    } else if (error != 0) {
        give_up_attempt(conn, error);
    } else {
        (void)spn__conn_poll(conn, 0, NULL); /* the callback is another one now */
        stands(conn);
    }
}

/* Begins with the next address that lets itself be begun with. */
static void attempt(struct spn__conn *conn)
{
    int rc;

    while (conn->attempt < conn->addresses->count) {
        const struct spn__address *const to = &conn->addresses->list[conn->attempt];

        conn->fd =
            socket(to->at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (conn->fd < 0) {
            conn->failure = spn__net_status(errno);
            conn->attempt++;
            continue;
        }
        spn__net_socket_ready(conn->fd);
        do
            rc = connect(conn->fd, &to->at.any, to->size);
        while (rc != 0 && errno == EINTR);
        if (rc != 0 && errno != EINPROGRESS) {
            give_up_attempt(conn, errno); /* no handle yet: on with the next */
            continue;
        }
        if (rc == 0) {
            stands(conn);
            return;
        }
        rc = spn__conn_poll(conn, UV_WRITABLE, on_connect);
        if (rc == SPN_OK)
            return;
        give_up_attempt(conn, rc == SPN_ENOMEM ? ENOMEM : EIO);
    }
    spn__conn_close(conn, conn->failure);
}

static void begin(struct spn__net_job *job)
{
    struct spn__conn *const conn =
        (struct spn__conn *)((char *)job - offsetof(struct spn__conn, begin));

    spn__conn_enlist(conn);
    if (!is_connecting(conn))
        return; /* closed before it began; its attendance is on its way */
    if (conn->deadline_ns != SPN_FOREVER)
        spn__conn_start_timer(conn, conn->deadline_ns);
    attempt(conn);
}

int spn__transport_connect(struct spn__transport *transport, const char *host, int port,
                           int64_t timeout_ns, const struct spn__conn_events *events,
                           void *context, void *data, struct spn__conn **out)
{
    struct spn__addresses *addresses;
    struct spn__conn *conn;
    uint32_t turn;
    int rc;

    *out = NULL;
    if (host == NULL || port <= 0)
        return SPN_EINVAL;
    addresses = spn__alloc(sizeof *addresses);
    if (addresses == NULL)
        return SPN_ENOMEM;
    rc = spn__net_resolve(host, port, false, addresses);
    if (rc != SPN_OK) {
        spn__free(addresses);
        return rc;
    }
    /* In turn.  relaxed: any loop will do. */
    turn = spn__fetch_add(&transport->next, 1u, relaxed);
    conn = spn__conn_create(transport,
                            &transport->loops[turn % (uint32_t)transport->loop_count],
                            events, context, data);
    if (conn == NULL) {
        spn__free(addresses);
        return SPN_ENOMEM;
    }
    conn->addresses = addresses;
    conn->failure = SPN_EUNREACHABLE;
    conn->deadline_ns = spn__deadline(spn__now(), timeout_ns);
    spn__net_text(&addresses->list[0], conn->remote);
    conn->begin.fn = begin;
    spn__conn_ref(conn); /* the caller's */
    *out = conn;         /* first: `opened` may come before we return */
    if (!spn__loop_post(spn__conn_loop(conn), &conn->begin)) {
        *out = NULL;
        spn__conn_drop(conn);
        return SPN_ESHUTDOWN;
    }
    return SPN_OK;
}
