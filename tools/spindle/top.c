/* SPDX-License-Identifier: MIT */
/*
 * top.c - `spindle top`: the status page in a terminal, and the admin command.
 *
 * The server draws the text (/status.txt); here it is fetched and shown, once a second.
 * SIGPIPE is ignored: a server that goes away while it is asked, and a reader that has
 * seen enough, are told in words.
 */
#include "command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "options.h"
#include "wire.h"

/* Whom to ask. */
struct target {
    struct wire_address address;
    const char *socket; /* the path of a Unix socket in place of the address, or NULL */
    char token[GUARD_TOKEN_MAX + 1]; /* or 1 */
};

enum { WAIT_MS = 3000, ANSWER_MAX = 4 * 1024 * 1024 };

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* Waits until the descriptor can be read or written; false: too long. */
static bool await(int fd, short what)
{
    struct pollfd ready = { .fd = fd, .events = what };
    int found;

    do
        found = poll(&ready, 1, WAIT_MS);
    while (found < 0 && errno == EINTR && !interrupted);
    return found > 0;
}

static bool write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t wrote = write(fd, text, size);

        if (wrote > 0) {
            text += wrote;
            size -= (size_t)wrote;
        } else if (errno != EAGAIN || !await(fd, POLLOUT)) {
            return false;
        }
    }
    return true;
}

/* All that comes until the other side closes; NULL: nothing, or too much. */
static char *read_all(int fd)
{
    size_t size = 0, capacity = 16384;
    char *text = malloc(capacity);

    while (text != NULL) {
        ssize_t got;

        if (size + 1 == capacity) {
            char *larger = capacity < ANSWER_MAX ? realloc(text, capacity * 2) : NULL;

            if (larger == NULL)
                break;
            text = larger;
            capacity *= 2;
        }
        got = read(fd, text + size, capacity - size - 1);
        if (got > 0) {
            size += (size_t)got;
        } else if (got == 0) {
            text[size] = '\0';
            return text;
        } else if (errno != EINTR && (errno != EAGAIN || !await(fd, POLLIN))) {
            break;
        }
    }
    free(text);
    return NULL;
}

/* As the user named it. */
static void target_print(const struct target *target, char *text, size_t capacity)
{
    if (target->socket != NULL)
        snprintf(text, capacity, "%s", target->socket);
    else
        snprintf(text, capacity, "%s port %d", target->address.host,
                 target->address.port);
}

static int target_connect(const struct target *target, char *why, size_t capacity)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd, error;

    if (target->socket == NULL)
        return wire_connect(&target->address, WAIT_MS, why, capacity);
    if (strlen(target->socket) >= sizeof(at.sun_path)) {
        snprintf(why, capacity, "%s: longer than %zu bytes", target->socket,
                 sizeof(at.sun_path) - 1);
        return -1;
    }
    memcpy(at.sun_path, target->socket, strlen(target->socket) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    error = errno;
    if (fd >= 0)
        (void)close(fd);
    snprintf(why, capacity, "%s: %s", target->socket, strerror(error));
    return -1;
}

/* Asks; the answer's body, malloc'ed, and its status; NULL: a sentence is in `why`. */
static char *ask(const struct target *target, const char *method, const char *path,
                 int *status, char *why, size_t capacity)
{
    const bool v6 = strchr(target->address.host, ':') != NULL;
    char request[2048], host[300] = "localhost", *answer, *body;
    const int fd = target_connect(target, why, capacity);

    if (fd < 0)
        return NULL;
    if (target->socket == NULL)
        snprintf(host, sizeof(host), "%s%s%s:%d", v6 ? "[" : "", target->address.host,
                 v6 ? "]" : "", target->address.port);
    snprintf(request, sizeof(request),
             "%s %s HTTP/1.0\r\nHost: %s\r\nX-Spindle-Admin: %s\r\n"
             "Content-Length: 0\r\n\r\n",
             method, path, host, target->token);
    answer = write_all(fd, request, strlen(request)) ? read_all(fd) : NULL;
    (void)close(fd);
    if (answer == NULL || sscanf(answer, "HTTP/%*d.%*d %d", status) != 1 ||
        (body = strstr(answer, "\r\n\r\n")) == NULL) {
        char name[300];

        target_print(target, name, sizeof(name));
        snprintf(why, capacity, "%s is no status page of spindle", name);
        free(answer);
        return NULL;
    }
    memmove(answer, body + 4, strlen(body + 4) + 1);
    return answer;
}

static int columns(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : 100;
}

static int show(const struct target *target, bool once)
{
    const struct sigaction stop = { .sa_handler = on_signal };
    const struct timespec second = { 1, 0 };
    const bool terminal = isatty(STDOUT_FILENO) != 0;

    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    do {
        char path[64], why[400] = "";
        int status = 0;
        char *text;

        snprintf(path, sizeof(path), "/status.txt?columns=%d&colour=%d", columns(),
                 terminal);
        text = ask(target, "GET", path, &status, why, sizeof(why));
        if (text != NULL && status != 200) { /* the page of somebody else */
            char name[300];

            target_print(target, name, sizeof(name));
            snprintf(why, sizeof(why),
                     "%s answers with HTTP status %d: name the status port of "
                     "spindle serve",
                     name, status);
            free(text);
            text = NULL;
        }
        if (text == NULL && (once || !terminal)) {
            fprintf(stderr, "spindle top: %s\n", why);
            return EXIT_BAD;
        }
        printf("%s%s%s", terminal && !once ? "\033[H\033[J" : "",
               text != NULL ? text : why, text != NULL ? "" : "\n");
        free(text);
        if (fflush(stdout) != 0)
            return EXIT_BAD; /* main says so */
        if (!once && !interrupted)
            (void)nanosleep(&second, NULL);
    } while (!once && !interrupted);
    return EXIT_GOOD;
}

static int change(const struct target *target, const char *wishes)
{
    char path[900], why[300] = "";
    int status = 0;
    char *text;

    if ((size_t)snprintf(path, sizeof(path), "/admin/pools?%s", wishes) >= sizeof(path))
        return misused("top", "--set is too long."); /* and half of it a wrong one */
    text = ask(target, "POST", path, &status, why, sizeof(why));
    if (text == NULL) {
        fprintf(stderr, "spindle top: %s\n", why);
        return EXIT_BAD;
    }
    fprintf(status == 200 ? stdout : stderr, "%s", text);
    free(text);
    return status == 200 ? EXIT_GOOD : EXIT_BAD;
}

static int run(int argc, char **argv)
{
    struct target target = { .address = { "127.0.0.1", 20881 }, .token = "1" };
    const char *wishes = NULL, *token_file = NULL;
    bool once = false, has_address = false;
    char why[500];

    for (int i = 1; i < argc; i++) {
        const char *value;

        if (option_is(argv[i], "once", &value) && value == NULL)
            once = true;
        else if (option_is(argv[i], "set", &value) && value != NULL)
            wishes = value;
        else if (option_is(argv[i], "status-socket", &value) && value != NULL)
            target.socket = value;
        else if (option_is(argv[i], "admin-token-file", &value) && value != NULL)
            token_file = value;
        else if (argv[i][0] == '-')
            return misused("top", "there is no option '%s'.", argv[i]);
        else if (has_address || !wire_address(argv[i], &target.address))
            return misused("top", "'%s' is no HOST:PORT.", argv[i]);
        else
            has_address = true;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (has_address && target.socket != NULL)
        return misused("top", "HOST:PORT, or --status-socket, not both.");
    if (wishes != NULL && strpbrk(wishes, " \r\n#?") != NULL)
        return misused("top", "--set wants key=value&key=value.");
    if (token_file != NULL &&
        !guard_token_read(token_file, target.token, why, sizeof(why))) {
        fprintf(stderr, "spindle top: --admin-token-file: %s\n", why);
        return EXIT_BAD;
    }
    return wishes != NULL ? change(&target, wishes) : show(&target, once);
}

const struct command top_command = {
    .name = "top",
    .summary = "watch a server from a terminal",
    .help =
        "Usage: spindle top [OPTION...] [HOST:PORT]\n"
        "\n"
        "Shows what the status page of `spindle serve` shows, once a second, until\n"
        "Ctrl-C.  HOST:PORT is the status port (127.0.0.1:20881).\n"
        "\n"
        "  --status-socket=PATH  asks the Unix socket of spindle serve "
        "--status-socket\n"
        "  --once            shows it once\n"
        "  --set=threads=N   changes the size of the server's pool, and shows "
        "nothing;\n"
        "                    several wishes are joined by &\n"
        "  --admin-token-file=FILE  the token that --set needs, in FILE's first line\n",
    .run = run,
};
