/* SPDX-License-Identifier: MIT */
/*
 * http.h - the status page, the metrics and the admin command of `spindle serve`, on a
 * port of their own.
 *
 * One thread of its own answers, never a worker of the server: the page is there for the
 * moment in which every worker hangs.
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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

struct http_server;

/* Whether the program has the page: it was built with libmicrohttpd. */
bool http_is_built_in(void);

/* Listens on a loopback or other address; port 0 is any free one.  Returns NULL and says
 * on standard error why. */
struct http_server *http_start(const char *host, int port,
                               const struct http_source *source);
int http_port(const struct http_server *server);
void http_stop(struct http_server *server); /* NULL is a no-op */

#endif /* HTTP_H */
