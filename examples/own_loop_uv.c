/* SPDX-License-Identifier: MIT */
/*
 * own_loop_uv.c - channels of a program's own event loop: libuv.
 *
 * Beside own_loop_epoll.c it shows that a loop differs in how it reads, writes and is woken,
 * and in nothing else.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "own_loop.h"

struct connection {
    uv_tcp_t tcp; /* first: its handle is the connection */
    uv_write_t write;
    struct loop *loop;
    spn_channel *channel;
    struct connection *next, **link; /* of all that stand */
    char in[LINE_BYTES];
    size_t in_size;
    uint64_t written; /* bytes of the stream so far */
    bool ended;       /* the peer sends no more */
    bool handling;    /* a line is with the handler */
    bool writing;
    /* the handler's while it has the line, else the loop's */
    char out[LINE_BYTES];
    size_t out_size;
    /* guarded by the loop's lock */
    bool open;
    bool called, replied;         /* the loop is to look at it; there is a reply */
    bool closing;                 /* it is to be closed */
    int why;                      /* at once, unless that is SPN_OK */
    struct connection *next_call; /* of those the loop is to look at */
};

struct loop {
    uv_loop_t uv;
    uv_tcp_t listening;
    uv_async_t wake;
    spn_handler *handler;
    struct connection *all;
    pthread_mutex_t lock;
    struct connection *calls; /* guarded by lock, as is stopping */
    bool stopping;
};

/* ---- from any thread ------------------------------------------------------------------- */

/* Has the loop look at a connection, which is kept until then.  With the lock held. */
static void connection_call(struct connection *c)
{
    if (c->called)
        return;
    c->called = true;
    c->next_call = c->loop->calls;
    c->loop->calls = c;
    (void)spn_channel_ref(c->channel);
    (void)uv_async_send(&c->loop->wake);
}

static int connection_send(void *ctx, spn_channel *channel, const void *message)
{
    const struct line *const line = message;
    struct connection *const c = ctx;
    int rc = SPN_ECLOSED;

    (void)channel;
    pthread_mutex_lock(&c->loop->lock);
    if (c->open && !c->replied && !c->closing) {
        memcpy(c->out, line->text, line->size);
        c->out_size = line->size;
        c->replied = true;
        connection_call(c);
        rc = SPN_OK;
    }
    pthread_mutex_unlock(&c->loop->lock);
    return rc;
}

static void connection_close(void *ctx, spn_channel *channel, int why)
{
    struct connection *const c = ctx;

    (void)channel;
    pthread_mutex_lock(&c->loop->lock);
    if (c->open && (!c->closing || c->why == SPN_OK)) {
        c->closing = true;
        c->why = why;
        connection_call(c);
    }
    pthread_mutex_unlock(&c->loop->lock);
}

void loop_stop(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->stopping = true;
    pthread_mutex_unlock(&loop->lock);
    (void)uv_async_send(&loop->wake);
}

/* ---- on the loop's thread --------------------------------------------------------------- */

static void connection_closed(uv_handle_t *handle)
{
    spn_channel_unref(((struct connection *)handle)->channel);
}

static void connection_end(struct connection *c, int why)
{
    if (!c->open)
        return;
    pthread_mutex_lock(&c->loop->lock);
    c->open = false;
    pthread_mutex_unlock(&c->loop->lock);
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    spn_handler_disconnected(c->loop->handler, c->channel, why);
    uv_close((uv_handle_t *)&c->tcp, connection_closed);
}

static void connection_go_on(struct connection *c);

static void on_written(uv_write_t *write, int status)
{
    struct connection *const c = (struct connection *)write->handle;

    c->writing = false;
    c->written += c->out_size;
    c->out_size = 0;
    if (status != 0)
        connection_end(c, SPN_EIO);
    else if (c->open)
        spn_handler_sent(c->loop->handler, c->channel, c->written);
    connection_go_on(c);
}

static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *room)
{
    struct connection *const c = (struct connection *)handle;

    (void)size;
    *room = uv_buf_init(c->in + c->in_size, (unsigned)(sizeof c->in - c->in_size));
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *room)
{
    struct connection *const c = (struct connection *)stream;

    (void)room;
    if (size > 0)
        c->in_size += (size_t)size;
    else if (size == UV_EOF)
        c->ended = true;
    else if (size < 0)
        connection_end(c, SPN_EIO);
    connection_go_on(c);
}

/* Tells the handler of the next line.  Its length; 0: there is none; negative. */
static int connection_receive(struct connection *c)
{
    struct line *line;
    const int size = line_read(&line, c->in, c->in_size);
    int rc;

    if (size <= 0)
        return size;
    c->in_size -= (size_t)size;
    memmove(c->in, c->in + size, c->in_size);
    c->handling = true; /* until the reply */
    rc = spn_handler_received(c->loop->handler, c->channel, &line->head);
    if (rc != SPN_OK) { /* the message is still here */
        spn_handler_caught(c->loop->handler, c->channel, rc);
        spn_message_release(&line->head);
    }
    return size;
}

/* Does what can be done now. */
static void connection_go_on(struct connection *c)
{
    uv_buf_t out = uv_buf_init(c->out, (unsigned)c->out_size);
    int rc;

    if (!c->open)
        return; /* it ended before its reply came */
    if (c->handling || c->writing) {
        /* its reply comes first */
    } else if (c->out_size > 0) {
        c->writing = true;
        if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &out, 1, on_written) != 0)
            connection_end(c, SPN_EIO);
    } else {
        rc = connection_receive(c);
        if (rc < 0 || (rc == 0 && c->ended))
            connection_end(c, rc);
    }
    if (!c->open)
        return;
    if (c->ended || c->in_size == sizeof c->in)
        uv_read_stop((uv_stream_t *)&c->tcp);
    else
        (void)uv_read_start((uv_stream_t *)&c->tcp, on_room, on_read);
}

static void connection_gone(void *ctx)
{
    free(ctx);
}

static void on_connection(uv_stream_t *listening, int status)
{
    static const spn_channel_ops ops = { sizeof(spn_channel_ops), connection_send,
                                         connection_close, connection_gone };
    struct loop *const loop = listening->loop->data;
    struct connection *const c = status == 0 ? calloc(1, sizeof *c) : NULL;

    if (c == NULL || spn_channel_create(&c->channel, &ops, c, NULL) != SPN_OK) {
        free(c);
        return;
    }
    c->loop = loop;
    c->open = true;
    c->link = &loop->all;
    c->next = loop->all;
    if (c->next != NULL)
        c->next->link = &c->next;
    loop->all = c;
    (void)uv_tcp_init(&loop->uv, &c->tcp);
    spn_handler_connected(loop->handler, c->channel);
    if (uv_accept(listening, (uv_stream_t *)&c->tcp) != 0)
        connection_end(c, SPN_EIO);
    connection_go_on(c);
}

/* Accepts no more, and ends the connections that wait for nothing. */
static void loop_begin_to_stop(struct loop *loop)
{
    struct connection *next;

    if (uv_is_closing((uv_handle_t *)&loop->listening))
        return;
    uv_close((uv_handle_t *)&loop->listening, NULL);
    uv_unref((uv_handle_t *)&loop->wake); /* uv_run ends with the last connection */
    for (struct connection *c = loop->all; c != NULL; c = next) {
        next = c->next;
        c->ended = true;
        connection_go_on(c);
    }
}

/* Looks at the connections that other threads have called it to. */
static void on_wake(uv_async_t *wake)
{
    struct loop *const loop = wake->loop->data;
    struct connection *c;
    bool stopping;

    pthread_mutex_lock(&loop->lock);
    while ((c = loop->calls) != NULL) {
        const bool closing = c->closing;
        const int why = c->why;

        loop->calls = c->next_call;
        c->called = false;
        if (c->replied || closing)
            c->handling = false;
        c->replied = false;
        pthread_mutex_unlock(&loop->lock);
        if (closing) { /* in order: behind the reply that is there */
            c->ended = true;
            c->in_size = 0;
        }
        if (why != SPN_OK)
            connection_end(c, why);
        connection_go_on(c);
        spn_channel_unref(c->channel);
        pthread_mutex_lock(&loop->lock);
    }
    stopping = loop->stopping;
    pthread_mutex_unlock(&loop->lock);
    if (stopping)
        loop_begin_to_stop(loop);
}

int loop_run(void *arg)
{
    struct loop *const loop = arg;

    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    on_wake(&loop->wake); /* for replies that came when their connection had gone */
    return SPN_OK;
}

void loop_destroy(struct loop *loop)
{
    uv_close((uv_handle_t *)&loop->wake, NULL);
    if (!uv_is_closing((uv_handle_t *)&loop->listening))
        uv_close((uv_handle_t *)&loop->listening, NULL);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop->uv);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

int loop_create(struct loop **out, spn_handler *handler, int *port)
{
    struct loop *const loop = *out = calloc(1, sizeof *loop);
    struct sockaddr_in at;
    int buffer = SEND_BUFFER, size = sizeof at;

    if (loop == NULL)
        return SPN_ENOMEM;
    pthread_mutex_init(&loop->lock, NULL);
    loop->handler = handler;
    if (uv_ip4_addr("127.0.0.1", 0, &at) != 0 || uv_loop_init(&loop->uv) != 0 ||
        uv_async_init(&loop->uv, &loop->wake, on_wake) != 0 ||
        uv_tcp_init(&loop->uv, &loop->listening) != 0)
        abort(); /* no descriptors or no memory for the loop itself */
    loop->uv.data = loop;
    if (uv_tcp_bind(&loop->listening, (struct sockaddr *)&at, 0) != 0 ||
        uv_send_buffer_size((uv_handle_t *)&loop->listening, &buffer) != 0 ||
        uv_listen((uv_stream_t *)&loop->listening, 128, on_connection) != 0 ||
        uv_tcp_getsockname(&loop->listening, (struct sockaddr *)&at, &size) != 0) {
        loop_destroy(loop);
        *out = NULL;
        return SPN_EIO;
    }
    *port = ntohs(at.sin_port);
    return SPN_OK;
}
