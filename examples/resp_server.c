/* SPDX-License-Identifier: MIT */
/*
 * resp_server.c - a server that redis-cli can talk to, on threads that a URL names.
 *
 *   resp_server [HOST [PORT [QUERY]]]
 *
 * A client sends many requests before it reads a reply, and wants the replies in that order.
 * channel.order has the pool handle, or refuse, the requests of a connection one after the
 * other.  The protocol is in resp.h.
 */
#include <spindle/endpoint.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp.h"

struct request {
    spn_message head;
    struct resp_request command;
    char frame[];
};

static int64_t request_length(void *ctx, const void *data, size_t size)
{
    struct resp_request scratch;

    (void)ctx;
    return resp_parse(&scratch, data, size);
}

static void request_release(spn_message *message)
{
    free(message);
}

static int request_decode(void *ctx, spn_channel *channel, const void *frame,
                          size_t size, spn_message **out)
{
    static const spn_message_ops ops = { request_release, NULL };
    struct request *const r = malloc(sizeof *r + size);

    (void)ctx;
    (void)channel;
    *out = NULL;
    if (r == NULL)
        return SPN_ENOMEM;
    r->head = (spn_message)SPN_MESSAGE_INIT(&ops, SPN_MESSAGE_REQUEST);
    (void)resp_parse(&r->command, memcpy(r->frame, frame, size), size);
    *out = &r->head;
    return SPN_OK;
}

static int64_t reply_encode(void *ctx, const void *message, void *room, size_t size)
{
    const struct resp_text *const reply = message;

    (void)ctx;
    if (reply->size <= size)
        memcpy(room, reply->data, reply->size);
    return (int64_t)reply->size;
}

static void answer(spn_channel *channel, spn_message *message, const char *data,
                   size_t size)
{
    const struct resp_text reply = { data, size };
    const int rc = spn_channel_send(channel, &reply);

    if (rc != SPN_OK) /* without this reply the client would take the next for it */
        spn_channel_close(channel, rc);
    spn_message_release(message);
}

/* In the pool, or where else the dispatcher wants it. */
static int on_received(spn_handler *self, spn_channel *channel, spn_message *message)
{
    size_t size = 0;
    char *const reply = resp_answer(&((struct request *)message)->command, &size);

    (void)self;
    if (reply == NULL)
        answer(channel, message, "-OOM no memory\r\n", 16);
    else
        answer(channel, message, reply, size);
    free(reply);
    return SPN_OK;
}

/* The pool has no room for it. */
static void on_refused(void *ctx, spn_channel *channel, spn_message *message, int why)
{
    (void)ctx;
    (void)why;
    answer(channel, message, "-BUSY try again later\r\n", 23);
}

int main(int argc, char **argv)
{
    static const spn_handler_ops ops = { .received = on_received };
    static const spn_codec codec = { sizeof codec, NULL, request_length, request_decode,
                                     reply_encode };
    const char *const host = argc > 1 ? argv[1] : "127.0.0.1";
    const int port = argc > 2 ? atoi(argv[2]) : 6379;
    const spn_dispatch_opts opts = { .size = sizeof opts, .refused = on_refused };
    /* Who sends more than so many before they are answered is read from later. */
    const spn_endpoint_opts limits = { .size = sizeof limits, .max_in_flight = 256 };
    spn_problem problem = SPN_PROBLEM_INIT;
    spn_handler handler = { &ops, NULL };
    spn_endpoint *endpoint;
    spn_dispatch *dispatch;
    sigset_t ends;
    char url[512];
    int number;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* before there are threads */

    snprintf(url, sizeof url, "resp://%s:%d?channel.order=true&%s", host, port,
             argc > 3 ? argv[3] : "dispatcher=message&threads=4&queues=1000");
    if (spn_dispatch_create(&dispatch, url, &handler, &opts, &problem) != SPN_OK ||
        spn_endpoint_listen(&endpoint, host, port, &codec,
                            spn_dispatch_handler(dispatch), &limits,
                            &problem) != SPN_OK) {
        fprintf(stderr, "resp_server: %s\n", problem.text);
        return 1;
    }
    printf("listening on port %d\n", spn_endpoint_port(endpoint));
    fflush(stdout);
    sigwait(&ends, &number);
    /* What was asked is answered, for up to five seconds. */
    if (spn_endpoint_stop(endpoint, SPN_SEC(5)) != SPN_OK)
        fprintf(stderr, "resp_server: some replies were cut off\n");
    if (spn_dispatch_stop(dispatch, SPN_SEC(5)) != SPN_OK ||
        spn_endpoint_destroy(endpoint) != SPN_OK)
        return 1;
    return spn_dispatch_destroy(dispatch) == SPN_OK ? 0 : 1;
}
