/* SPDX-License-Identifier: MIT */
/*
 * toy_peer.h - an endpoint that speaks the toy protocol, and raw sockets to be the other end
 * of its connections.
 */
#ifndef TOY_PEER_H
#define TOY_PEER_H

#include <poll.h>
#include <unistd.h>

#include <spindle/clock.h>
#include <spindle/endpoint.h>
#include <spindle/log.h>

#include "net_bed.h"
#include "toy.h"

struct toy_end {
    spn_endpoint *endpoint;
    struct toy_site site;
    spn_handler *handler; /* the outermost; the site's at first */
    int port;
};

static inline void toy_end_init(struct toy_end *end)
{
    toy_site_init(&end->site);
    end->endpoint = NULL;
    end->handler = &end->site.handler;
    end->port = 0;
}

/* opts may be NULL: two I/O threads. */
static inline void toy_listen(struct toy_end *end, const spn_endpoint_opts *opts)
{
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_endpoint_opts two = SPN_ENDPOINT_OPTS_INIT;
    int rc;

    two.io_threads = 2;
    rc = spn_endpoint_listen(&end->endpoint, "127.0.0.1", 0, &toy_codec, end->handler,
                             opts != NULL ? opts : &two, &problem);
    if (rc != SPN_OK)
        printf("  %s\n", problem.text);
    REQUIRE_OK(rc);
    end->port = spn_endpoint_port(end->endpoint);
    REQUIRE(end->port > 0);
}

static inline void toy_open(struct toy_end *end, const spn_endpoint_opts *opts)
{
    toy_end_init(end);
    toy_listen(end, opts);
}

/* A client of a port of this machine. */
static inline int toy_connect(struct toy_end *end, int port,
                              const spn_endpoint_opts *opts, spn_problem *problem)
{
    toy_end_init(end);
    return spn_endpoint_connect(&end->endpoint, "127.0.0.1", port, &toy_codec,
                                end->handler, opts, problem);
}

static inline spn_endpoint_stats toy_stats(struct toy_end *end)
{
    spn_endpoint_stats stats = SPN_ENDPOINT_STATS_INIT;

    CHECK_OK(spn_endpoint_stats_get(end->endpoint, &stats));
    return stats;
}

static inline void toy_destroy(struct toy_end *end)
{
    CHECK_EQ(atomic_load(&end->site.connected), atomic_load(&end->site.disconnected));
    CHECK_OK(spn_endpoint_destroy(end->endpoint));
    end->endpoint = NULL;
    CHECK_EQ(atomic_load(&toy_counts.made), atomic_load(&toy_counts.freed));
}

/* Everything is read and released by now: it stops in order. */
static inline void toy_close(struct toy_end *end)
{
    CHECK_OK(spn_endpoint_stop(end->endpoint, T_LONG_NS));
    CHECK_EQ(toy_stats(end).channels, 0);
    CHECK_EQ(toy_stats(end).in_flight, 0);
    CHECK_EQ(toy_stats(end).memory_used, 0);
    toy_destroy(end);
}

/* The other end has gone, or does not read. */
static inline void toy_close_badly(struct toy_end *end)
{
    int rc = spn_endpoint_stop(end->endpoint, SPN_MS(1));

    CHECK(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    while (rc == SPN_ETIMEDOUT)
        rc = spn_endpoint_stop(end->endpoint, T_LONG_NS);
    CHECK_OK(rc);
    toy_destroy(end);
}

/* The first connection's record; `n`: in the order of connected. */
static inline struct toy_line *toy_line(struct toy_end *end, int n)
{
    T_AWAIT(atomic_load(&end->site.connected) > n);
    return &end->site.line[n];
}

/* The channel of the n-th connection, with a reference. */
static inline spn_channel *toy_channel(struct toy_end *end, int n)
{
    return spn_channel_ref((spn_channel *)atomic_load(&toy_line(end, n)->channel));
}

#define AWAIT_DISCONNECTED(line_at, status)                  \
    do {                                                     \
        T_AWAIT(atomic_load(&(line_at)->disconnected) == 1); \
        CHECK_STATUS(atomic_load(&(line_at)->why), status);  \
    } while (0)

/* ---- the raw end ---------------------------------------------------------------------- */

static inline void raw_frame(int fd, char letter, const void *body, size_t size)
{
    unsigned char head[TOY_HEAD];

    toy_head(head, letter, size);
    raw_send(fd, head, sizeof head);
    if (size > 0)
        raw_send(fd, body, size);
}

/* A whole frame with that letter comes next; its body, up to capacity; its size. */
static inline size_t raw_expect(int fd, char letter, void *body, size_t capacity)
{
    unsigned char head[TOY_HEAD], rest[4096];
    size_t size, got = 0;

    raw_read(fd, head, sizeof head);
    REQUIRE(toy_number(head) >= 1);
    size = toy_number(head) - 1;
    CHECK_EQ(head[4], letter);
    if (size <= capacity) {
        raw_read(fd, body, size);
        return size;
    }
    while (got < size) {
        const size_t part = size - got < sizeof rest ? size - got : sizeof rest;

        raw_read(fd, rest, part);
        got += part;
    }
    return size;
}

/* Asks, and has the same back. */
static inline void raw_ask(int fd, const char *text)
{
    char back[256];

    raw_frame(fd, 'Q', text, strlen(text));
    CHECK_EQ(raw_expect(fd, 'R', back, sizeof back), strlen(text));
    CHECK(memcmp(back, text, strlen(text)) == 0);
}

/* The connection has ended, in order or by a reset. */
static inline bool raw_is_over(int fd)
{
    char rest[4096];
    ssize_t n;

    do
        n = raw_receive(fd, rest, sizeof rest);
    while (n > 0);
    return n == 0 || errno == ECONNRESET;
}

#endif /* TOY_PEER_H */
