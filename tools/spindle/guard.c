/* SPDX-License-Identifier: MIT */
/*
 * guard.c - see guard.h.
 */
#include "guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>

enum { TOKEN_RANDOM_BYTES = 16, HTTP_PORT_DEFAULT = 80, PORT_ANY = 0 };

/* ---- the token --------------------------------------------------------------------- */

bool guard_token_make(char token[GUARD_TOKEN_MAX + 1])
{
    unsigned char random[TOKEN_RANDOM_BYTES];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
    return true;
}

bool guard_token_read(const char *path, char token[GUARD_TOKEN_MAX + 1], char *why,
                      size_t capacity)
{
    char line[GUARD_TOKEN_MAX + 3] = ""; /* a blank, a newline, and a zero byte */
    FILE *file = fopen(path, "r");
    const char *from;
    size_t length;
    bool failed;

    if (file == NULL) {
        snprintf(why, capacity, "%s: %s", path, strerror(errno));
        return false;
    }
    errno = 0;
    failed = fgets(line, sizeof(line), file) == NULL && ferror(file) != 0;
    if (failed)
        snprintf(why, capacity, "%s: %s", path, strerror(errno));
    (void)fclose(file);
    if (failed)
        return false;
    from = line + strspn(line, " \t");
    length = strcspn(from, " \t\r\n");
    for (size_t i = 0; i < length; i++)
        if (from[i] <= ' ' || from[i] > '~')
            length = 0; /* what a header cannot carry */
    if (length < GUARD_TOKEN_MIN || length > GUARD_TOKEN_MAX ||
        from[length + strspn(from + length, " \t\r\n")] != '\0') {
        snprintf(why, capacity,
                 "%s: no token in its first line; expected %d to %d printable "
                 "characters without blanks (openssl rand -hex 16)",
                 path, GUARD_TOKEN_MIN, GUARD_TOKEN_MAX);
        return false;
    }
    memcpy(token, from, length);
    token[length] = '\0';
    return true;
}

bool guard_token_is(const char *token, const char *given)
{
    const size_t length = strlen(token);
    const size_t given_length = given != NULL ? strlen(given) : 0;
    unsigned char difference = given_length != length || length == 0;

    /* As many steps as the stranger sent characters, whatever the token is. */
    for (size_t i = 0; i < given_length && length > 0; i++)
        difference |= (unsigned char)(given[i] ^ token[i % length]);
    return difference == 0;
}

/* ---- Host and Origin --------------------------------------------------------------- */

/* Whether `host` is NAME or NAME:PORT; without a port it is HTTP's. */
static bool is_host(const char *host, const char *name, int port)
{
    const size_t length = strlen(name);
    long given = 0;

    if (length == 0 || strncasecmp(host, name, length) != 0)
        return false;
    host += length;
    if (*host == '\0')
        return port == PORT_ANY || port == HTTP_PORT_DEFAULT;
    if (*host++ != ':' || *host == '\0')
        return false;
    for (; *host >= '0' && *host <= '9' && given <= UINT16_MAX; host++)
        given = given * 10 + (*host - '0');
    return *host == '\0' && given <= UINT16_MAX && (port == PORT_ANY || given == port);
}

/* The address a connection came to, as a Host header writes it.  "": a Unix socket. */
struct own_address {
    char text[INET6_ADDRSTRLEN + 2];
    int port;
    bool is_local; /* the loopback, or a Unix socket */
};

static bool own_address_read(struct own_address *own, int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } at = { .room = { 0 } };
    socklen_t size = sizeof(at);
    char text[INET6_ADDRSTRLEN] = "";

    *own = (struct own_address){ .is_local = false };
    if (getsockname(fd, &at.any, &size) != 0)
        return false;
    switch (at.any.sa_family) {
    case AF_UNIX:
        own->is_local = true;
        return true;
    case AF_INET:
        (void)inet_ntop(AF_INET, &at.v4.sin_addr, text, sizeof(text));
        snprintf(own->text, sizeof(own->text), "%s", text);
        own->port = ntohs(at.v4.sin_port);
        own->is_local = ntohl(at.v4.sin_addr.s_addr) >> 24 == 127;
        return true;
    case AF_INET6:
        (void)inet_ntop(AF_INET6, &at.v6.sin6_addr, text, sizeof(text));
        snprintf(own->text, sizeof(own->text), "[%s]", text);
        own->port = ntohs(at.v6.sin6_port);
        own->is_local = IN6_IS_ADDR_LOOPBACK(&at.v6.sin6_addr) != 0;
        return true;
    default:
        return false;
    }
}

bool guard_host_is_ours(const struct guard *guard, int fd, const char *host)
{
    static const char *const local[] = { "localhost", "127.0.0.1", "[::1]" };
    struct own_address own;

    if (host == NULL || !own_address_read(&own, fd))
        return false;
    for (int i = 0; i < guard->name_count; i++)
        if (is_host(host, guard->names[i], PORT_ANY))
            return true;
    for (size_t i = 0; own.is_local && i < sizeof(local) / sizeof(local[0]); i++)
        if (is_host(host, local[i], PORT_ANY))
            return true;
    return is_host(host, own.text, own.is_local ? PORT_ANY : own.port);
}

bool guard_origin_is_ours(const char *origin, const char *host)
{
    if (origin == NULL)
        return true;
    if (strncasecmp(origin, "http://", 7) == 0)
        origin += 7;
    else if (strncasecmp(origin, "https://", 8) == 0) /* of a proxy before us */
        origin += 8;
    else
        return false; /* "null" among them */
    return host != NULL && strcasecmp(origin, host) == 0;
}
