/* SPDX-License-Identifier: MIT */
/*
 * listen.h - the socket of the status port.
 */
#ifndef LISTEN_H
#define LISTEN_H

#include <stdbool.h>

/* Both return a listening descriptor that does not block, or -1 and a sentence on standard
 * error.  host is an address or `localhost`; *is_loopback says what it is. */
int listen_address(const char *host, int port, bool *is_loopback);
int listen_port(int listener);
/*
 * The socket's file is for its owner alone (mode 0600).  A socket that is there already is
 * replaced if nobody listens on it; any other file is left alone.  Two that start at the
 * same moment may both find the old one dead: the later has the path then.
 */
int listen_path(const char *path);
/* Removes the file of a listener of listen_path, unless it is another's by now. */
void listen_path_remove(int listener, const char *path);

#endif /* LISTEN_H */
