/* SPDX-License-Identifier: MIT */
/*
 * framed_echo.c - a protocol of one's own: both sides of it, from the codec up.
 *
 * A frame is its length and a number, 4 bytes each in network order, and bytes.  The server
 * sends each frame back, from a pool; so replies come in any order, and a client knows them
 * by their number.  In front of the pool a handler counts what each connection sent.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spindle.h>
#include <spindle/endpoint.h>

enum { HEAD = 8, CALLERS = 4, CALLS = 500 };

struct frame {
    spn_message head; /* of one that came */
    uint32_t number;
    size_t size;
    const void *bytes;
};

/* ---- the codec, the same on both sides ------------------------------------------------- */

static int64_t frame_length(void *ctx, const void *data, size_t size)
{
    uint32_t length;

    (void)ctx;
    if (size < sizeof length)
        return 0;
    memcpy(&length, data, sizeof length);
    length = ntohl(length);
    return length >= HEAD ? (int64_t)length : SPN_EINVAL;
}

static void frame_release(spn_message *message)
{
    free(message);
}

static int frame_decode(void *ctx, spn_channel *channel, const void *data, size_t size,
                        spn_message **out)
{
    static const spn_message_ops ops = { frame_release, NULL };
    struct frame *const frame = malloc(sizeof *frame + size);

    (void)ctx;
    (void)channel;
    *out = NULL;
    if (frame == NULL)
        return SPN_ENOMEM;
    *frame = (struct frame){ .head = SPN_MESSAGE_INIT(&ops, SPN_MESSAGE_OTHER),
                             .size = size - HEAD,
                             .bytes = memcpy(frame + 1, data, size) };
    frame->bytes = (const char *)frame->bytes + HEAD;
    memcpy(&frame->number, (const char *)data + 4, 4);
    frame->number = ntohl(frame->number);
    *out = &frame->head;
    return SPN_OK;
}

static int64_t frame_encode(void *ctx, const void *message, void *room, size_t size)
{
    const struct frame *const frame = message;
    const uint32_t head[] = { htonl((uint32_t)(HEAD + frame->size)),
                              htonl(frame->number) };

    (void)ctx;
    if (size >= HEAD + frame->size) {
        memcpy(room, head, HEAD);
        memcpy((char *)room + HEAD, frame->bytes, frame->size);
    }
    return (int64_t)(HEAD + frame->size);
}

static const spn_codec codec = { sizeof codec, NULL, frame_length, frame_decode,
                                 frame_encode };

/* ---- the server ------------------------------------------------------------------------ */

static int server_received(spn_handler *self, spn_channel *channel,
                           spn_message *message)
{
    (void)self;
    (void)spn_channel_send(channel,
                           (struct frame *)message); /* its client may have gone */
    spn_message_release(message);
    return SPN_OK;
}

/* In front of the dispatch, on the I/O thread: a connection's events come one by one. */
struct tally {
    spn_handler handler;
    uint64_t frames; /* of the connection that has gone */
};

static void tally_connected(spn_handler *self, spn_channel *channel)
{
    uint64_t *const frames = calloc(1, sizeof *frames);

    if (frames == NULL)
        spn_channel_close(channel, SPN_ENOMEM);
    spn_channel_set_data(channel, frames, free); /* when the channel ends */
    spn_handler_connected(self->inner, channel);
}

static int tally_received(spn_handler *self, spn_channel *channel, spn_message *message)
{
    uint64_t *const frames = spn_channel_data(channel);

    if (frames != NULL)
        (*frames)++;
    return spn_handler_received(self->inner, channel, message);
}

static void tally_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    const uint64_t *const frames = spn_channel_data(channel);

    if (frames != NULL) {
        printf("%s sent %llu frames\n", spn_channel_remote(channel),
               (unsigned long long)*frames);
        ((struct tally *)self)->frames = *frames;
    }
    spn_handler_disconnected(self->inner, channel, why);
}

/* ---- the client ------------------------------------------------------------------------ */

struct call {
    struct call *next;
    uint32_t number;
    spn_future *reply;
};

struct client {
    spn_handler handler;
    spn_endpoint *endpoint;
    pthread_mutex_t lock;
    struct call *calls; /* that wait for their reply */
    uint32_t numbers;
    bool gone;
};

/* On the I/O thread: no pool is needed to wake a caller. */
static int client_received(spn_handler *self, spn_channel *channel,
                           spn_message *message)
{
    struct client *const client = (struct client *)self;
    const uint32_t number = ((struct frame *)message)->number;
    struct call *call;

    (void)channel;
    pthread_mutex_lock(&client->lock);
    for (call = client->calls; call != NULL && call->number != number;)
        call = call->next;
    if (call == NULL || spn_future_complete(call->reply, message) != 1)
        spn_message_release(message); /* nobody waits any more */
    pthread_mutex_unlock(&client->lock);
    return SPN_OK;
}

static void client_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    struct client *const client = (struct client *)self;

    (void)channel;
    (void)why;
    pthread_mutex_lock(&client->lock);
    client->gone = true;
    for (struct call *call = client->calls; call != NULL; call = call->next)
        (void)spn_future_complete_error(call->reply, SPN_ECLOSED, "connection lost");
    pthread_mutex_unlock(&client->lock);
}

static void reply_drop(void *reply)
{
    spn_message_release(reply);
}

/* Sends text, and waits for what comes back, which the caller releases. */
static int client_call(struct client *client, struct call *call, const char *text,
                       struct frame **reply)
{
    struct frame frame = { .size = strlen(text) + 1, .bytes = text };
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    struct call **at;
    void *value = NULL;
    int rc;

    opts.drop_value = reply_drop; /* of a reply that comes when this has timed out */
    rc = spn_future_create(&call->reply, &opts);
    if (rc != SPN_OK)
        return rc;
    pthread_mutex_lock(&client->lock);
    rc = client->gone ? SPN_ECLOSED : SPN_OK;
    frame.number = call->number = client->numbers++;
    call->next = client->calls;
    client->calls = call;
    pthread_mutex_unlock(&client->lock);

    if (rc == SPN_OK)
        rc = spn_channel_send(spn_endpoint_channel(client->endpoint), &frame);
    if (rc == SPN_OK)
        rc = spn_future_get(call->reply, &value, SPN_SEC(10));
    *reply = value;

    pthread_mutex_lock(&client->lock);
    for (at = &client->calls; *at != call;)
        at = &(*at)->next;
    *at = call->next;
    pthread_mutex_unlock(&client->lock);
    spn_future_unref(call->reply);
    return rc;
}

/* ---- both ------------------------------------------------------------------------------ */

static atomic_int right;

struct caller {
    struct client *client;
    struct call call;
    int number;
};

static int caller_run(void *arg)
{
    struct caller *const caller = arg;
    char text[64];

    for (int i = 0; i < CALLS; i++) {
        struct frame *reply;

        snprintf(text, sizeof text, "call %d of %d", i, caller->number);
        if (client_call(caller->client, &caller->call, text, &reply) != SPN_OK)
            return -1;
        if (reply->size == strlen(text) + 1 && strcmp(reply->bytes, text) == 0)
            atomic_fetch_add(&right, 1);
        spn_message_release(&reply->head);
    }
    return 0;
}

int main(void)
{
    static const spn_handler_ops server_ops = { .received = server_received };
    static const spn_handler_ops client_ops = { .disconnected = client_disconnected,
                                                .received = client_received };
    static const spn_handler_ops tally_ops = { .connected = tally_connected,
                                               .disconnected = tally_disconnected,
                                               .received = tally_received };
    struct client client = { .handler = { &client_ops, NULL },
                             .lock = PTHREAD_MUTEX_INITIALIZER };
    spn_handler handler = { &server_ops, NULL };
    struct tally tally = { .handler = { &tally_ops, NULL } };
    spn_endpoint_stats stats = SPN_ENDPOINT_STATS_INIT;
    spn_problem problem = SPN_PROBLEM_INIT;
    struct caller callers[CALLERS];
    spn_thread *threads[CALLERS];
    spn_dispatch *dispatch;
    spn_endpoint *server;

    if (spn_dispatch_create(&dispatch,
                            "echo://?dispatcher=message&threads=4&queues=100", &handler,
                            NULL, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    tally.handler.inner = spn_dispatch_handler(dispatch);
    if (spn_endpoint_listen(&server, "127.0.0.1", 0, &codec, &tally.handler, NULL,
                            &problem) != SPN_OK ||
        spn_endpoint_connect(&client.endpoint, "127.0.0.1", spn_endpoint_port(server),
                             &codec, &client.handler, NULL, &problem) != SPN_OK) {
        fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){ .client = &client, .number = i };
        if (spn_thread_create(&threads[i], NULL, caller_run, &callers[i]) != SPN_OK)
            return 1;
    }
    for (int i = 0; i < CALLERS; i++) {
        if (spn_thread_join(threads[i], SPN_SEC(60), NULL) != SPN_OK)
            return 1;
        spn_thread_unref(threads[i]);
    }
    printf("%d of %d replies were right\n", atomic_load(&right), CALLERS * CALLS);

    if (spn_endpoint_stop(client.endpoint, SPN_SEC(5)) != SPN_OK ||
        spn_endpoint_destroy(client.endpoint) != SPN_OK)
        return 1;
    /* The server: first what makes events, then what handles them. */
    if (spn_endpoint_stop(server, SPN_SEC(5)) != SPN_OK ||
        spn_dispatch_stop(dispatch, SPN_SEC(5)) != SPN_OK ||
        spn_endpoint_stats_get(server, &stats) != SPN_OK ||
        spn_endpoint_destroy(server) != SPN_OK ||
        spn_dispatch_destroy(dispatch) != SPN_OK)
        return 1;
    printf("%llu messages in %llu bytes\n", (unsigned long long)stats.messages,
           (unsigned long long)stats.bytes_in);
    return atomic_load(&right) != CALLERS * CALLS || stats.messages != tally.frames;
}
