/* SPDX-License-Identifier: MIT */
/*
 * listen.c - see listen.h.
 */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 128 };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un path;
};

static int open_listener(const union address *address, socklen_t size)
{
    const int on = 1;
    const int fd =
        socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool is_path = address->any.sa_family == AF_UNIX;
    int error;

    if (fd < 0)
        return -1;
    if (!is_path)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    /* bind gives a file the mode of the socket, less the umask: it is right at once. */
    if ((!is_path || fchmod(fd, S_IRUSR | S_IWUSR) == 0) &&
        bind(fd, &address->any, size) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

int listen_address(const char *host, int port, bool *is_loopback)
{
    union address at;
    const char *const text = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    int fd;

    memset(&at, 0, sizeof(at));
    if (inet_pton(AF_INET6, text, &at.v6.sin6_addr) == 1) {
        at.v6.sin6_family = AF_INET6;
        at.v6.sin6_port = htons((uint16_t)port);
        *is_loopback = IN6_IS_ADDR_LOOPBACK(&at.v6.sin6_addr) != 0;
    } else if (inet_pton(AF_INET, text, &at.v4.sin_addr) == 1) {
        at.v4.sin_family = AF_INET;
        at.v4.sin_port = htons((uint16_t)port);
        *is_loopback = ntohl(at.v4.sin_addr.s_addr) >> 24 == 127;
    } else {
        fprintf(stderr, "spindle serve: the status page wants an address, not '%s'\n",
                host);
        return -1;
    }
    fd = open_listener(&at,
                       at.any.sa_family == AF_INET6 ? sizeof(at.v6) : sizeof(at.v4));
    if (fd < 0)
        fprintf(stderr,
                "spindle serve: the status page cannot listen on %s port %d: %s\n"
                "Choose another port with --status-port=N (0: any free one).\n",
                host, port, strerror(errno));
    return fd;
}

int listen_port(int listener)
{
    union address at;
    socklen_t size = sizeof(at);

    memset(&at, 0, sizeof(at));
    if (getsockname(listener, &at.any, &size) != 0)
        return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

/* Removes a socket that nobody listens on; false: a sentence was said. */
static bool remove_stale(const union address *address, socklen_t size)
{
    const char *const path = address->path.sun_path;
    struct stat file;
    int fd, error = 0;

    if (lstat(path, &file) != 0)
        return true; /* there is none, or bind says what is wrong */
    if (!S_ISSOCK(file.st_mode)) {
        fprintf(stderr,
                "spindle serve: %s is there and no socket; choose another path for "
                "--status-socket\n",
                path);
        return false;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, &address->any, size) != 0)
        error = errno;
    if (fd < 0)
        error = errno;
    else
        (void)close(fd);
    if (error == ECONNREFUSED && unlink(path) == 0)
        return true;
    /* EAGAIN: the backlog of one that listens is full. */
    fprintf(stderr, "spindle serve: %s: %s; choose another path for --status-socket\n",
            path,
            error == 0 || error == EAGAIN ? "another process listens there"
                                          : strerror(errno));
    return false;
}

int listen_path(const char *path)
{
    union address at;
    int fd;

    memset(&at, 0, sizeof(at));
    at.path.sun_family = AF_UNIX;
    if (*path == '\0' || strlen(path) >= sizeof(at.path.sun_path)) {
        fprintf(
            stderr,
            "spindle serve: --status-socket=%s: expected a path of 1 to %zu bytes\n",
            path, sizeof(at.path.sun_path) - 1);
        return -1;
    }
    memcpy(at.path.sun_path, path, strlen(path) + 1);
    if (!remove_stale(&at, sizeof(at.path)))
        return -1;
    fd = open_listener(&at, sizeof(at.path));
    if (fd < 0)
        fprintf(stderr, "spindle serve: cannot listen on %s: %s\n", path,
                strerror(errno));
    return fd;
}

void listen_path_remove(int listener, const char *path)
{
    union address at;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_live;

    /* Once nobody listens on ours a connection is refused; another's takes it. */
    (void)close(listener);
    memset(&at, 0, sizeof(at));
    at.path.sun_family = AF_UNIX;
    memcpy(at.path.sun_path, path, strlen(path) + 1);
    is_live = fd < 0 || connect(fd, &at.any, sizeof(at.path)) == 0 || errno == EAGAIN;
    if (fd >= 0)
        (void)close(fd);
    if (!is_live)
        (void)unlink(path);
}
