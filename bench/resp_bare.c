/* SPDX-License-Identifier: MIT */
/*
 * resp_bare.c - what examples/resp_server.c is measured against: the same requests and
 * replies (examples/resp.c) in a bare epoll loop of one thread.  It has no limits, no
 * timeouts and no end but a signal.   resp_bare [HOST [PORT]]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../examples/resp.h"

struct bytes {
    char *data;
    size_t size, room;
};

struct connection {
    int fd;
    struct bytes in, out;
};

static void bytes_need(struct bytes *b, size_t more)
{
    if (b->room - b->size >= more)
        return;
    b->room = 2 * (b->size + more);
    b->data = realloc(b->data, b->room);
    if (b->data == NULL)
        abort();
}

static void bytes_drop(struct bytes *b, size_t size)
{
    b->size -= size;
    memmove(b->data, b->data + size, b->size);
}

/* Answers every request that has come.  False: that is none. */
static bool connection_answer(struct connection *c)
{
    struct resp_request request;
    size_t used = 0, size;
    int64_t length;

    while (used < c->in.size &&
           (length = resp_parse(&request, c->in.data + used, c->in.size - used)) != 0) {
        char *reply;

        if (length < 0)
            return false;
        used += (size_t)length;
        reply = resp_answer(&request, &size);
        if (reply == NULL)
            return false;
        bytes_need(&c->out, size);
        memcpy(c->out.data + c->out.size, reply, size);
        c->out.size += size;
        free(reply);
    }
    bytes_drop(&c->in, used);
    return true;
}

/* Reads, answers and writes.  False: the end. */
static bool connection_serve(struct connection *c, int epoll)
{
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = c } };
    ssize_t n;

    if (c->out.size == 0) {
        bytes_need(&c->in, 65536);
        n = recv(c->fd, c->in.data + c->in.size, c->in.room - c->in.size, 0);
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        c->in.size += (size_t)n;
        if (!connection_answer(c))
            return false;
    }
    while (c->out.size > 0) {
        n = send(c->fd, c->out.data, c->out.size, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0)
            break;
        bytes_drop(&c->out, (size_t)n);
    }
    if (c->out.size > 0)
        event.events = EPOLLOUT;
    return epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event) == 0;
}

static void connection_accept(int listening, int epoll)
{
    struct connection *const c = calloc(1, sizeof *c);
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = c } };
    const int on = 1;

    if (c == NULL)
        abort();
    c->fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
        free(c);
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    struct epoll_event events[64], event = { .events = EPOLLIN };
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    socklen_t size = sizeof at;

    at.sin_port = htons((uint16_t)(argc > 2 ? atoi(argv[2]) : 6379));
    if (inet_pton(AF_INET, argc > 1 ? argv[1] : "127.0.0.1", &at.sin_addr) != 1 ||
        bind(listening, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(listening, 1024) != 0 ||
        getsockname(listening, (struct sockaddr *)&at, &size) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &event) != 0) {
        perror("resp_bare");
        return 1;
    }
    printf("listening on port %d\n", ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        const int count = epoll_wait(epoll, events, 64, -1);

        for (int i = 0; i < count; i++) {
            struct connection *const c = events[i].data.ptr;

            if (c == NULL) {
                connection_accept(listening, epoll);
            } else if (!connection_serve(c, epoll)) {
                close(c->fd);
                free(c->in.data);
                free(c->out.data);
                free(c);
            }
        }
    }
}
