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
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "wire.h"

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

/* Asks; the answer's body, malloc'ed, and its status; NULL: a sentence is in `why`. */
static char *ask(const struct wire_address *address, const char *method,
                 const char *path, int *status, char *why, size_t capacity)
{
    char request[1024], *answer, *body;
    const int fd = wire_connect(address, WAIT_MS, why, capacity);

    if (fd < 0)
        return NULL;
    snprintf(request, sizeof(request),
             "%s %s HTTP/1.0\r\nHost: %s%s%s:%d\r\nX-Spindle-Admin: 1\r\n"
             "Content-Length: 0\r\n\r\n",
             method, path, strchr(address->host, ':') ? "[" : "", address->host,
             strchr(address->host, ':') ? "]" : "", address->port);
    answer = write_all(fd, request, strlen(request)) ? read_all(fd) : NULL;
    (void)close(fd);
    if (answer == NULL || sscanf(answer, "HTTP/%*d.%*d %d", status) != 1 ||
        (body = strstr(answer, "\r\n\r\n")) == NULL) {
        snprintf(why, capacity, "%s port %d is no status page of spindle",
                 address->host, address->port);
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

static int show(const struct wire_address *address, bool once)
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
        text = ask(address, "GET", path, &status, why, sizeof(why));
        if (text != NULL && status != 200) { /* the page of somebody else */
            snprintf(why, sizeof(why),
                     "%s port %d answers with HTTP status %d: name the status port of "
                     "spindle serve",
                     address->host, address->port, status);
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

static int change(const struct wire_address *address, const char *wishes)
{
    char path[900], why[300] = "";
    int status = 0;
    char *text;

    if ((size_t)snprintf(path, sizeof(path), "/admin/pools?%s", wishes) >= sizeof(path))
        return misused("top", "--set is too long."); /* and half of it a wrong one */
    text = ask(address, "POST", path, &status, why, sizeof(why));
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
    struct wire_address address = { "127.0.0.1", 20881 };
    const char *wishes = NULL;
    bool once = false, has_address = false;

    for (int i = 1; i < argc; i++) {
        const char *value;

        if (option_is(argv[i], "once", &value) && value == NULL)
            once = true;
        else if (option_is(argv[i], "set", &value) && value != NULL)
            wishes = value;
        else if (argv[i][0] == '-')
            return misused("top", "there is no option '%s'.", argv[i]);
        else if (has_address || !wire_address(argv[i], &address))
            return misused("top", "'%s' is no HOST:PORT.", argv[i]);
        else
            has_address = true;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (wishes != NULL && strpbrk(wishes, " \r\n#?") != NULL)
        return misused("top", "--set wants key=value&key=value.");
    return wishes != NULL ? change(&address, wishes) : show(&address, once);
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
        "  --once            shows it once\n"
        "  --set=threads=N   changes the size of the server's pool, and shows "
        "nothing;\n"
        "                    several wishes are joined by &\n",
    .run = run,
};
