/* SPDX-License-Identifier: MIT */
/*
 * rpc_peer.h - a client made of a socket: frames are written by hand, byte by byte as the
 * protocol has them, and read back the same way.  It shares no code with the library's.
 */
#ifndef RPC_PEER_H
#define RPC_PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <spindle-rpc.h>

#include "test.h"

/* ---- bytes ------------------------------------------------------------------------ */

struct bytes {
    unsigned char data[8192];
    size_t size;
};

static inline void put(struct bytes *b, const void *data, size_t size)
{
    REQUIRE(size <= sizeof b->data - b->size);
    if (size > 0)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

static inline void put_byte(struct bytes *b, int byte)
{
    const unsigned char one = (unsigned char)byte;

    put(b, &one, 1);
}

/* A string as Hessian has it; NULL: null. */
static inline void put_text(struct bytes *b, const char *text)
{
    const size_t length = text != NULL ? strlen(text) : 0;

    if (text == NULL) {
        put_byte(b, 'N');
        return;
    }
    if (length < 32) {
        put_byte(b, (int)length);
    } else {
        REQUIRE(length < 1024);
        put_byte(b, 0x30 + (int)(length >> 8));
        put_byte(b, (int)(length & 0xff));
    }
    put(b, text, length);
}

static inline void put_header(struct bytes *b, int flags, int status, uint64_t id,
                              uint32_t length)
{
    put(b, "\xda\xbb", 2);
    put_byte(b, flags);
    put_byte(b, status);
    for (int i = 56; i >= 0; i -= 8)
        put_byte(b, (int)(id >> i & 0xff));
    for (int i = 24; i >= 0; i -= 8)
        put_byte(b, (int)(length >> i & 0xff));
}

/* ---- requests ----------------------------------------------------------------------- */

enum { TWO_WAY = 0xc2, ONE_WAY = 0x82 };

/* What a request says; NULL and 0 are the defaults below. */
struct asked {
    int flags; /* 0: TWO_WAY */
    uint64_t id;
    const char *dubbo;      /* "2.0.2" */
    const char *path;       /* DEMO */
    const char *version;    /* "1.0.0"; "-": null */
    const char *method;     /* must be */
    const char *parameters; /* "" */
    const void *arguments;  /* as they are on the wire */
    size_t arguments_size;
    const char *attached[8]; /* key, value...; path and group are there anyway */
    const char *group;       /* "g1"; "-": none */
};

#define DEMO "org.apache.dubbo.demo.DemoService"
/* Arguments of a literal: ARGS("\x03" "bob") */
#define ARGS(literal) .arguments = (literal), .arguments_size = sizeof(literal) - 1

static inline void put_body(struct bytes *b, const struct asked *asked)
{
    const char *group = asked->group != NULL ? asked->group : "g1";

    put_text(b, asked->dubbo != NULL ? asked->dubbo : "2.0.2");
    put_text(b, asked->path != NULL ? asked->path : DEMO);
    if (asked->version != NULL && strcmp(asked->version, "-") == 0)
        put_text(b, NULL);
    else
        put_text(b, asked->version != NULL ? asked->version : "1.0.0");
    put_text(b, asked->method);
    put_text(b, asked->parameters != NULL ? asked->parameters : "");
    put(b, asked->arguments, asked->arguments_size);
    put_byte(b, 'H');
    if (strcmp(group, "-") != 0) {
        put_text(b, "group");
        put_text(b, group);
    }
    for (int i = 0; i + 1 < 8 && asked->attached[i] != NULL; i += 2) {
        put_text(b, asked->attached[i]);
        put_text(b, asked->attached[i + 1]);
    }
    put_byte(b, 'Z');
}

static inline void put_request(struct bytes *b, const struct asked *asked)
{
    struct bytes body = { .size = 0 };

    put_body(&body, asked);
    put_header(b, asked->flags != 0 ? asked->flags : TWO_WAY, 0, asked->id,
               (uint32_t)body.size);
    put(b, body.data, body.size);
}

/* ---- the socket ------------------------------------------------------------------------ */

static inline int peer_open(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    const int64_t limit = T_LONG_NS;
    const struct timeval patience = { .tv_sec = limit / SPN_SEC(1),
                                      .tv_usec = limit % SPN_SEC(1) / 1000 };
    const int one = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    REQUIRE(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    return fd;
}

static inline void peer_write(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        const ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

        if (n <= 0)
            return; /* closed: who reads will see */
        at += n;
        size -= (size_t)n;
    }
}

/* Reads exactly so many bytes; false: the other side closed, or nothing came. */
static inline bool peer_read(int fd, void *data, size_t size)
{
    char *at = data;

    while (size > 0) {
        const ssize_t n = recv(fd, at, size, 0);

        if (n < 0 && errno == EINTR) /* the process was stopped for a while */
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* Whether the other side has closed, and nothing came before. */
static inline bool peer_is_closed(int fd)
{
    char byte;

    return !peer_read(fd, &byte, 1);
}

/* ---- replies ------------------------------------------------------------------------------ */

struct told {
    unsigned flags, status;
    uint64_t id;
    uint32_t length;
    unsigned char body[65536];
};

static inline bool peer_told(int fd, struct told *told)
{
    unsigned char h[16];

    memset(told, 0, offsetof(struct told, body));
    if (!peer_read(fd, h, sizeof h))
        return false;
    CHECK(h[0] == 0xda && h[1] == 0xbb);
    told->flags = h[2];
    told->status = h[3];
    for (int i = 4; i < 12; i++)
        told->id = told->id << 8 | h[i];
    for (int i = 12; i < 16; i++)
        told->length = told->length << 8 | h[i];
    REQUIRE(told->length < sizeof told->body);
    told->body[told->length] = '\0';
    return peer_read(fd, told->body, told->length);
}

/* The text of a reply with another status than 20, in a static room. */
static inline const char *told_text(const struct told *told)
{
    static char text[4096];
    size_t at = 1, length = told->body[0];

    if (told->body[0] >= 0x30 && told->body[0] <= 0x33) {
        length = (size_t)(told->body[0] - 0x30) << 8 | told->body[1];
        at = 2;
    } else if (told->body[0] == 'S') {
        length = (size_t)told->body[1] << 8 | told->body[2];
        at = 3;
    } else if (told->body[0] >= 0x20) {
        return "(no text)";
    }
    if (at + length > told->length)
        return "(cut)";
    memcpy(text, told->body + at, length);
    text[length] = '\0';
    return text;
}

/* One request, and what comes back. */
static inline bool peer_ask(int fd, const struct asked *asked, struct told *told)
{
    struct bytes b = { .size = 0 };

    put_request(&b, asked);
    peer_write(fd, b.data, b.size);
    return peer_told(fd, told);
}

#define CHECK_BODY(told, literal)                         \
    do {                                                  \
        CHECK_EQ((told)->length, sizeof(literal) - 1);    \
        CHECK(memcmp((told)->body, literal,               \
                     (told)->length < sizeof(literal) - 1 \
                         ? (told)->length                 \
                         : sizeof(literal) - 1) == 0);    \
    } while (0)
#define CHECK_HAS(text, part) CHECK(strstr((text), (part)) != NULL)

#endif /* RPC_PEER_H */
