/* SPDX-License-Identifier: MIT */
/*
 * own_loop.c - the thread model on an event loop that the program has already.
 *
 * The loop (own_loop.h) tells the dispatch what happens on its connections; the dispatch has
 * `on_received` run where the URL says, and that answers from there.  Here are the handler
 * and, so that the program can be seen to work, its clients: once for each dispatcher.
 */
#include <ctype.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <spindle.h>

#include "own_loop.h"

enum { CLIENTS = 8, LINES = 500, AHEAD = 40 };

/* ---- the handler ----------------------------------------------------------------------- */

static atomic_int connected, disconnected, sent;

static void line_release(spn_message *message)
{
    free(message);
}

int line_read(struct line **out, const char *text, size_t size)
{
    static const spn_message_ops ops = { line_release, NULL };
    const char *const end = memchr(text, '\n', size);

    if (end == NULL)
        return size < LINE_BYTES ? 0 : SPN_EINVAL;
    *out = malloc(sizeof **out);
    if (*out == NULL)
        return SPN_ENOMEM;
    (*out)->head = (spn_message)SPN_MESSAGE_INIT(&ops, SPN_MESSAGE_REQUEST);
    (*out)->size = (size_t)(end + 1 - text);
    memcpy((*out)->text, text, (*out)->size);
    return (int)(*out)->size;
}

static int on_received(spn_handler *self, spn_channel *channel, spn_message *message)
{
    struct line *const line = (struct line *)message;
    int rc;

    (void)self;
    for (size_t i = 0; i < line->size; i++)
        line->text[i] = (char)toupper((unsigned char)line->text[i]);
    rc = spn_channel_send(channel, line);
    if (rc != SPN_OK && rc != SPN_ECLOSED) /* closed: the client did not wait */
        return rc;                         /* the message is the caller's */
    if (strncmp(line->text, "QUIT\n", line->size) == 0)
        spn_channel_close(channel, SPN_OK); /* behind the reply */
    spn_message_release(message);
    return SPN_OK;
}

static void on_connected(spn_handler *self, spn_channel *channel)
{
    (void)self;
    (void)channel;
    atomic_fetch_add(&connected, 1);
}

static void on_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    (void)self;
    (void)channel;
    (void)why;
    atomic_fetch_add(&disconnected, 1);
}

/* On the loop's thread, whatever the dispatcher: the kernel has all of a reply. */
static void on_sent(spn_handler *self, spn_channel *channel, uint64_t position)
{
    (void)self;
    (void)channel;
    (void)position;
    atomic_fetch_add(&sent, 1);
}

static void on_refused(void *ctx, spn_channel *channel, spn_message *message, int why)
{
    struct line busy = { .size = 5, .text = "busy\n" };

    (void)ctx;
    (void)why;
    (void)spn_channel_send(channel, &busy);
    spn_message_release(message);
}

/* ---- clients --------------------------------------------------------------------------- */

struct client {
    int fd, number;
    FILE *in;  /* the same */
    int lines; /* that came back as they had to */
    spn_latch *reads;
};

static int client_connect(int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int small = 4096; /* so that the loop cannot write all of a reply at once */

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        perror("connect");
        exit(1);
    }
    return fd;
}

static void client_say(int fd, const char *text)
{
    for (size_t size = strlen(text); size > 0;) {
        const ssize_t n = send(fd, text, size, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        text += n;
        size -= (size_t)n;
    }
}

/* Reads until the server ends the connection; from when some lines have been sent. */
static int client_listen(void *arg)
{
    struct client *const client = arg;
    char line[LINE_BYTES + 1], wanted[LINE_BYTES + 1];

    if (spn_latch_await(client->reads, SPN_SEC(60)) != SPN_OK)
        return -1;
    while (fgets(line, sizeof line, client->in) != NULL) {
        snprintf(wanted, sizeof wanted, "LINE %d OF %d%0400d\n", client->lines,
                 client->number, 0);
        if (strcmp(line, wanted) != 0)
            break;
        client->lines++;
    }
    return SPN_OK;
}

/* How many lines come until the server ends the connection. */
static int client_count(int fd)
{
    int lines = 0;
    char byte;

    while (recv(fd, &byte, 1, 0) > 0)
        lines += byte == '\n';
    close(fd);
    return lines;
}

/* Connections with many lines under way; one that is reset while its lines are; and one
 * that the server closes. */
static int clients_run(int port)
{
    const struct linger reset = { 1, 0 };
    struct client clients[CLIENTS];
    spn_thread *threads[CLIENTS];
    char line[LINE_BYTES];
    spn_latch *reads;
    int rude, quits, right = 0;

    if (spn_latch_create(&reads, 1) != SPN_OK)
        return -1;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){ client_connect(port), i, NULL, 0, reads };
        clients[i].in = fdopen(clients[i].fd, "r");
        if (spn_thread_create(&threads[i], NULL, client_listen, &clients[i]) != SPN_OK)
            return -1;
    }
    rude = client_connect(port);
    quits = client_connect(port);
    client_say(quits, "quit\n");
    for (int n = 0; n < LINES; n++) {
        for (int i = 0; i < CLIENTS; i++) {
            snprintf(line, sizeof line, "line %d of %d%0400d\n", n, i, 0);
            client_say(clients[i].fd, line);
        }
        client_say(rude, "never read\n");
        if (n == AHEAD)
            (void)spn_latch_count_down(reads);
    }
    (void)setsockopt(rude, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(rude);
    for (int i = 0; i < CLIENTS; i++) {
        shutdown(clients[i].fd, SHUT_WR);
        if (spn_thread_join(threads[i], SPN_SEC(60), NULL) != SPN_OK)
            return -1;
        spn_thread_unref(threads[i]);
        fclose(clients[i].in);
        right += clients[i].lines;
    }
    right += client_count(quits);
    return spn_latch_destroy(reads) == SPN_OK ? right : -1;
}

/* What was handled where, and by how many threads. */
static void tell_stats(spn_dispatch *dispatch)
{
    spn_dispatch_stats stats = SPN_DISPATCH_STATS_INIT;
    spn_pool_stats threads = SPN_POOL_STATS_INIT;

    if (spn_dispatch_stats_get(dispatch, &stats) != SPN_OK ||
        spn_pool_stats_get(spn_dispatch_pool(dispatch), &threads) != SPN_OK)
        return;
    for (int event = 0; event < SPN_CHANNEL_EVENTS; event++)
        for (int place = 0; place < SPN_PLACES; place++)
            if (stats.dispatched[event][place] > 0)
                printf("    %s: %llu, %s\n", spn_channel_event_name(event),
                       (unsigned long long)stats.dispatched[event][place],
                       spn_place_name(place));
    printf("    the pool had up to %d threads\n", (int)threads.largest);
}

/* ---- the program ----------------------------------------------------------------------- */

static int run(const char *dispatcher)
{
    static const spn_handler_ops ops = { .connected = on_connected,
                                         .disconnected = on_disconnected,
                                         .received = on_received,
                                         .sent = on_sent };
    spn_handler handler = { &ops, NULL };
    spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_dispatch *dispatch;
    spn_thread *thread;
    struct loop *loop;
    char url[128];
    int port, lines, stays;

    snprintf(url, sizeof url, "lines://localhost?dispatcher=%s&threads=4&queues=100",
             dispatcher);
    opts.refused = on_refused;
    atomic_store(&connected, 0);
    atomic_store(&disconnected, 0);
    atomic_store(&sent, 0);
    if (spn_dispatch_create(&dispatch, url, &handler, &opts, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return -1;
    }
    if (loop_create(&loop, spn_dispatch_handler(dispatch), &port) != SPN_OK ||
        spn_thread_create(&thread, NULL, loop_run, loop) != SPN_OK)
        return -1;
    stays = client_connect(port);
    client_say(stays, "x\n");
    lines = clients_run(port);

    /* The end: the loop tells nothing any more, then nothing is handled any more. */
    loop_stop(loop);
    if (spn_thread_join(thread, SPN_SEC(60), NULL) != SPN_OK ||
        spn_dispatch_stop(dispatch, SPN_SEC(60)) != SPN_OK)
        return -1;
    lines += client_count(stays);
    printf("%s: %d lines in order, %d connections came and %d went\n", dispatcher,
           lines, atomic_load(&connected), atomic_load(&disconnected));
    tell_stats(dispatch);
    spn_thread_unref(thread);
    loop_destroy(loop);
    if (spn_dispatch_destroy(dispatch) != SPN_OK)
        return -1;
    return lines == CLIENTS * LINES + 2 && atomic_load(&sent) >= lines &&
                   atomic_load(&connected) == CLIENTS + 3 &&
                   atomic_load(&disconnected) == CLIENTS + 3
               ? 0
               : -1;
}

int main(void)
{
    static const char *const dispatchers[] = { "all", "direct", "message", "execution",
                                               "connection" };

    for (int i = 0; i < 5; i++)
        if (run(dispatchers[i]) != 0)
            return 1;
    return 0;
}
