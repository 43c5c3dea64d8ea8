/* SPDX-License-Identifier: MIT */
/* http_none.c - http.h in a program that was built without libmicrohttpd: no page. */
#include "http.h"

#include <stddef.h>
#include <stdio.h>

bool http_is_built_in(void)
{
    return false;
}

struct http_server *http_start(const char *host, int port,
                               const struct http_source *source)
{
    (void)host;
    (void)port;
    (void)source;
    fputs("spindle serve: this program has no status page, because libmicrohttpd was "
          "missing when it was built; leave out --status-port\n",
          stderr);
    return NULL;
}

int http_port(const struct http_server *server)
{
    (void)server;
    return 0;
}

void http_stop(struct http_server *server)
{
    (void)server;
}
