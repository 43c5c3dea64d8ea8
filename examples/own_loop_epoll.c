/* SPDX-License-Identifier: MIT */
/*
 * own_loop_epoll.c - channels of a program's own event loop: epoll, and nothing else.
 *
 * The loop's thread reads and writes the sockets and tells the handler.  A reply comes from
 * whatever thread the dispatcher chose: `connection_send` leaves it with the connection, has
 * the loop look at that, and wakes it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "own_loop.h"

struct connection {
    struct loop *loop;
    spn_channel *channel;
    struct connection *next, **link; /* of all that stand */
    char in[LINE_BYTES];
    size_t in_size;
    uint64_t written; /* bytes of the stream so far */
    bool ended;       /* the peer sends no more */
    bool handling;    /* a line is with the handler */
    /* the handler's while it has the line, else the loop's */
    char out[LINE_BYTES];
    size_t out_size;
    /* guarded by the loop's lock */
    int fd;                       /* -1: the connection has gone */
    bool called, replied;         /* the loop is to look at it; there is a reply */
    bool closing;                 /* it is to be closed */
    int why;                      /* at once, unless that is SPN_OK */
    struct connection *next_call; /* of those the loop is to look at */
};

struct loop {
    int epoll, listening, wake;
    spn_handler *handler;
    struct connection *all;
    pthread_mutex_t lock;
    struct connection *calls; /* guarded by lock, as is stopping */
    bool stopping;
};

/* ---- from any thread ------------------------------------------------------------------- */

static void loop_wake(struct loop *loop)
{
    const uint64_t one = 1;

    (void)!write(loop->wake, &one, sizeof one);
}

/* Has the loop look at a connection, which is kept until then.  With the lock held. */
static void connection_call(struct connection *c)
{
    if (c->called)
        return;
    c->called = true;
    c->next_call = c->loop->calls;
    c->loop->calls = c;
    (void)spn_channel_ref(c->channel);
    loop_wake(c->loop);
}

static int connection_send(void *ctx, spn_channel *channel, const void *message)
{
    const struct line *const line = message;
    struct connection *const c = ctx;
    int rc = SPN_ECLOSED;

    (void)channel;
    pthread_mutex_lock(&c->loop->lock);
    if (c->fd >= 0 && !c->replied && !c->closing) {
        memcpy(c->out, line->text, line->size);
        c->out_size = line->size;
        c->replied = true;
        connection_call(c);
        rc = SPN_OK;
    }
    pthread_mutex_unlock(&c->loop->lock);
    return rc;
}

static void connection_close(void *ctx, spn_channel *channel, int why)
{
    struct connection *const c = ctx;

    (void)channel;
    pthread_mutex_lock(&c->loop->lock);
    if (c->fd >= 0 && (!c->closing || c->why == SPN_OK)) {
        c->closing = true;
        c->why = why;
        connection_call(c);
    }
    pthread_mutex_unlock(&c->loop->lock);
}

void loop_stop(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->stopping = true;
    pthread_mutex_unlock(&loop->lock);
    loop_wake(loop);
}

/* ---- on the loop's thread --------------------------------------------------------------- */

static void connection_end(struct connection *c, int why)
{
    pthread_mutex_lock(&c->loop->lock);
    close(c->fd); /* which takes it out of the epoll set */
    c->fd = -1;
    pthread_mutex_unlock(&c->loop->lock);
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    spn_handler_disconnected(c->loop->handler, c->channel, why);
    spn_channel_unref(c->channel);
}

static int connection_read(struct connection *c)
{
    while (!c->ended && c->in_size < sizeof c->in) {
        const ssize_t n = recv(c->fd, c->in + c->in_size, sizeof c->in - c->in_size, 0);

        if (n < 0)
            return errno == EAGAIN ? SPN_OK : SPN_EIO;
        c->in_size += (size_t)n;
        c->ended = n == 0;
    }
    return SPN_OK;
}

static int connection_write(struct connection *c)
{
    while (c->out_size > 0) {
        const ssize_t n = send(c->fd, c->out, c->out_size, MSG_NOSIGNAL);

        if (n < 0)
            return errno == EAGAIN ? SPN_OK : SPN_EIO;
        c->out_size -= (size_t)n;
        memmove(c->out, c->out + n, c->out_size);
        c->written += (uint64_t)n;
        if (c->out_size == 0)
            spn_handler_sent(c->loop->handler, c->channel, c->written);
    }
    return SPN_OK;
}

/* Tells the handler of the next line.  Its length; 0: there is none; negative. */
static int connection_receive(struct connection *c)
{
    struct line *line;
    const int size = line_read(&line, c->in, c->in_size);
    int rc;

    if (size <= 0)
        return size;
    c->in_size -= (size_t)size;
    memmove(c->in, c->in + size, c->in_size);
    c->handling = true; /* until the reply */
    rc = spn_handler_received(c->loop->handler, c->channel, &line->head);
    if (rc != SPN_OK) { /* the message is still here */
        spn_handler_caught(c->loop->handler, c->channel, rc);
        spn_message_release(&line->head);
    }
    return size;
}

/* Does what can be done now. */
static void connection_go_on(struct connection *c, bool stopping)
{
    struct epoll_event event = { .data = { .ptr = c } };
    int rc;

    if (c->fd < 0)
        return; /* it ended before its reply came */
    if (stopping)
        c->ended = true;
    if ((rc = connection_read(c)) != SPN_OK ||
        (!c->handling && (rc = connection_write(c)) != SPN_OK)) {
        connection_end(c, rc);
        return;
    }
    if (!c->handling && c->out_size == 0) {
        rc = connection_receive(c);
        if (rc < 0 || (rc == 0 && c->ended)) {
            connection_end(c, rc);
            return;
        }
    }
    if (!c->ended && c->in_size < sizeof c->in)
        event.events |= EPOLLIN;
    if (!c->handling && c->out_size > 0)
        event.events |= EPOLLOUT;
    (void)epoll_ctl(c->loop->epoll, EPOLL_CTL_MOD, c->fd, &event);
}

static void connection_gone(void *ctx)
{
    free(ctx);
}

static void loop_accept(struct loop *loop)
{
    static const spn_channel_ops ops = { sizeof(spn_channel_ops), connection_send,
                                         connection_close, connection_gone };
    struct connection *const c = calloc(1, sizeof *c);
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = c } };
    const int fd = accept4(loop->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0 || c == NULL ||
        spn_channel_create(&c->channel, &ops, c, NULL) != SPN_OK) {
        if (fd >= 0)
            close(fd);
        free(c);
        return;
    }
    c->loop = loop;
    c->fd = fd;
    c->link = &loop->all;
    c->next = loop->all;
    if (c->next != NULL)
        c->next->link = &c->next;
    loop->all = c;
    spn_handler_connected(loop->handler, c->channel);
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        connection_end(c, SPN_EIO);
}

/* The connections that other threads have called the loop to. */
static void loop_answer_calls(struct loop *loop, bool stopping)
{
    struct connection *c;

    pthread_mutex_lock(&loop->lock);
    while ((c = loop->calls) != NULL) {
        const bool closing = c->closing;
        const int why = c->why;

        loop->calls = c->next_call;
        c->called = false;
        if (c->replied || closing)
            c->handling = false;
        c->replied = false;
        pthread_mutex_unlock(&loop->lock);
        if (closing) { /* in order: behind the reply that is there */
            c->ended = true;
            c->in_size = 0;
        }
        if (why != SPN_OK && c->fd >= 0)
            connection_end(c, why);
        else
            connection_go_on(c, stopping);
        spn_channel_unref(c->channel);
        pthread_mutex_lock(&loop->lock);
    }
    pthread_mutex_unlock(&loop->lock);
}

/* Accepts no more, and ends the connections that wait for nothing. */
static void loop_begin_to_stop(struct loop *loop)
{
    struct connection *next;

    close(loop->listening);
    loop->listening = -1;
    for (struct connection *c = loop->all; c != NULL; c = next) {
        next = c->next;
        connection_go_on(c, true);
    }
}

int loop_run(void *arg)
{
    struct loop *const loop = arg;
    struct epoll_event events[64];
    bool stopping = false, done = false;
    uint64_t wakes;

    while (!done) {
        const int count = epoll_wait(loop->epoll, events, 64, -1);

        for (int i = 0; i < count; i++) {
            struct connection *const c = events[i].data.ptr;

            if (events[i].data.ptr == loop)
                loop_accept(loop);
            else if (c == NULL)
                (void)!read(loop->wake, &wakes, sizeof wakes);
            else if (events[i].events & (EPOLLERR | EPOLLHUP))
                connection_end(c, SPN_ECLOSED);
            else
                connection_go_on(c, stopping);
        }
        pthread_mutex_lock(&loop->lock);
        stopping = loop->stopping;
        pthread_mutex_unlock(&loop->lock);
        if (stopping && loop->listening >= 0)
            loop_begin_to_stop(loop);
        loop_answer_calls(loop, stopping);
        pthread_mutex_lock(&loop->lock);
        done = stopping && loop->all == NULL && loop->calls == NULL;
        pthread_mutex_unlock(&loop->lock);
    }
    return SPN_OK;
}

void loop_destroy(struct loop *loop)
{
    if (loop->listening >= 0)
        close(loop->listening);
    if (loop->wake >= 0)
        close(loop->wake);
    if (loop->epoll >= 0)
        close(loop->epoll);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

int loop_create(struct loop **out, spn_handler *handler, int *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct epoll_event wake = { .events = EPOLLIN, .data = { .ptr = NULL } };
    struct loop *const loop = *out = calloc(1, sizeof *loop);
    struct epoll_event accept = { .events = EPOLLIN, .data = { .ptr = loop } };
    const int buffer = SEND_BUFFER;
    socklen_t size = sizeof at;

    if (loop == NULL)
        return SPN_ENOMEM;
    pthread_mutex_init(&loop->lock, NULL);
    loop->handler = handler;
    loop->listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (setsockopt(loop->listening, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) !=
            0 ||
        bind(loop->listening, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(loop->listening, 128) != 0 ||
        getsockname(loop->listening, (struct sockaddr *)&at, &size) != 0 ||
        epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->listening, &accept) != 0 ||
        epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wake, &wake) != 0) {
        loop_destroy(loop);
        *out = NULL;
        return SPN_EIO;
    }
    *port = ntohs(at.sin_port);
    return SPN_OK;
}
