/* SPDX-License-Identifier: MIT */
/*
 * guard.h - who may ask the status port, and who may change something there.
 *
 * Host and Origin keep the pages of other sites, open in a browser that reaches this port,
 * from reading or changing anything: also when their name resolves to our address.  The
 * token keeps out people who reach the port.
 */
#ifndef GUARD_H
#define GUARD_H

#include <stdbool.h>
#include <stddef.h>

enum {
    GUARD_TOKEN_MIN = 16, /* characters of a token from a file */
    GUARD_TOKEN_MAX = 256,
    GUARD_NAMES_MAX = 16
};

struct guard {
    char token[GUARD_TOKEN_MAX + 1];
    const char *names[GUARD_NAMES_MAX]; /* accepted as Host beside our address */
    int name_count;
};

/* Makes a token of 128 random bits; false: the system has no random bits. */
bool guard_token_make(char token[GUARD_TOKEN_MAX + 1]);
/* Reads a token: the first line of a file, without blanks around it.  false: a sentence
 * that names the file, and nothing of what is in it, is in `why`. */
bool guard_token_read(const char *path, char token[GUARD_TOKEN_MAX + 1], char *why,
                      size_t capacity);
/* Compares in a time that tells nothing of the token; `given` may be NULL. */
bool guard_token_is(const char *token, const char *given);

/*
 * Whether a Host header names us.  `fd` is the connection: on a Unix socket and on the
 * loopback that are `localhost`, 127.0.0.1, [::1] and the address the connection came to,
 * with any port (of a tunnel); elsewhere the address and the port it came to.  A name of
 * guard->names is accepted with any port.
 */
bool guard_host_is_ours(const struct guard *guard, int fd, const char *host);
/* Whether an Origin header, NULL if there is none, is that of our own page. */
bool guard_origin_is_ours(const char *origin, const char *host);

#endif /* GUARD_H */
