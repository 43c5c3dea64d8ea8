/* SPDX-License-Identifier: MIT */
/*
 * http.h - the status page, the metrics and the admin command of `spindle serve`, on a
 * port, or a Unix socket, of their own.
 *
 * One thread of its own answers, never a worker of the server: the page is there for the
 * moment in which every worker hangs.
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "guard.h"
#include "status.h"

/* Called on the thread that answers, one at a time. */
struct http_source {
    void (*take)(void *context, struct status *status);
    /* Prometheus text; nonzero: a status, and nothing useful was written. */
    int (*metrics)(void *context, FILE *to);
    /* Changes the sizes of the pools to those of a URL's query; a problem as text. */
    int (*reset)(void *context, const char *query, char *problem, size_t capacity);
    void *context;
};

/* Where it listens, and who may change something.  Borrowed while the server lives. */
struct http_opts {
    const char *host;    /* an address                                            */
    int port;            /* 0: any free one                                       */
    const char *socket;  /* the path of a Unix socket in their place, or NULL     */
    struct guard *guard; /* without a token: http_start makes one, off the loopback */
};

struct http_server;

/* Whether the program has the page: it was built with libmicrohttpd. */
bool http_is_built_in(void);

/* Listens.  Returns NULL and says on standard error why. */
struct http_server *http_start(const struct http_opts *opts,
                               const struct http_source *source);
int http_port(const struct http_server *server);
/* Whether http_start made the token, which somebody must be told then. */
bool http_made_token(const struct http_server *server);
void http_stop(struct http_server *server); /* NULL is a no-op */

#endif /* HTTP_H */
