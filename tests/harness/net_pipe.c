/* SPDX-License-Identifier: MIT */
/*
 * net_pipe.c - see net_pipe.h.
 *
 * All of a connection is guarded by its mutex, which is not held during events.  What is
 * sent may come from any thread; events come on the thread that feeds.
 */
#include "net_pipe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <spindle/status.h>

enum { SENT_MAX = 32 << 20 };

struct spn__listener {
    struct spn__transport *transport;
    const struct spn__conn_events *events;
    void *context;
};

struct spn__transport {
    struct spn__listener *listener;
    int connections; /* not freed */
};

struct spn__conn {
    pthread_mutex_t lock;
    struct spn__transport *transport;
    const struct spn__conn_events *events;
    void *context, *data;
    int references;
    int is_open, wants_close, why, is_told;
    unsigned char *in, *out;
    size_t in_size, out_size, wanted;
    uint64_t position, received;
    int64_t opened_ns;
};

static int64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- for the test -------------------------------------------------------------------- */

static void tell_closed(struct spn__conn *conn)
{
    conn->is_open = 0;
    if (!conn->is_told) {
        conn->is_told = 1;
        conn->events->closed(conn->context, conn, conn->why);
        spn__conn_unref(conn);
    }
}

struct spn__conn *pipe_open(struct spn__transport *transport)
{
    struct spn__conn *conn = calloc(1, sizeof *conn);
    int rc;

    if (conn == NULL)
        abort();
    pthread_mutex_init(&conn->lock, NULL);
    conn->transport = transport;
    conn->events = transport->listener->events;
    conn->context = transport->listener->context;
    conn->references = 2; /* the transport's and the test's */
    conn->is_open = 1;
    conn->opened_ns = now();
    transport->connections++;
    rc = conn->events->opened(conn->context, conn);
    if (rc != 0) {
        conn->why = rc;
        tell_closed(conn);
    }
    return conn;
}

bool pipe_feed(struct spn__conn *conn, const void *data, size_t size)
{
    int64_t used = 0;

    if (conn->is_told)
        return false;
    if (size > 0) {
        conn->in = realloc(conn->in, conn->in_size + size);
        memcpy(conn->in + conn->in_size, data, size);
        conn->in_size += size;
        conn->received += size;
        if (conn->in_size >= conn->wanted && !conn->wants_close) {
            /* A copy of the exact size: a read beyond its end is seen. */
            unsigned char *copy = malloc(conn->in_size);

            memcpy(copy, conn->in, conn->in_size);
            conn->wanted = 0;
            used = conn->events->bytes(conn->context, conn, copy, conn->in_size);
            free(copy);
        }
    }
    if (used < 0) {
        conn->wants_close = 1;
        conn->why = (int)used;
    } else if (used > 0) {
        memmove(conn->in, conn->in + used, conn->in_size - (size_t)used);
        conn->in_size -= (size_t)used;
    }
    if (!conn->wants_close)
        return true;
    tell_closed(conn);
    return false;
}

void pipe_close(struct spn__conn *conn)
{
    tell_closed(conn);
    spn__conn_unref(conn);
}

size_t pipe_take(struct spn__conn *conn, void *data, size_t capacity)
{
    size_t size;

    pthread_mutex_lock(&conn->lock);
    size = conn->out_size < capacity ? conn->out_size : capacity;
    if (size > 0) {
        memcpy(data, conn->out, size);
        memmove(conn->out, conn->out + size, conn->out_size - size);
        conn->out_size -= size;
    }
    pthread_mutex_unlock(&conn->lock);
    return size;
}

size_t pipe_waiting(const struct spn__conn *conn)
{
    return conn->in_size;
}

/* ---- for the library ------------------------------------------------------------------- */

int spn__conn_send(struct spn__conn *conn, const struct spn__piece *pieces,
                   size_t count, unsigned flags, uint64_t *position)
{
    int rc = 0;

    (void)flags;
    pthread_mutex_lock(&conn->lock);
    if (!conn->is_open || conn->wants_close)
        rc = SPN_ECLOSED;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (pieces[i].size > SENT_MAX - conn->out_size) {
            rc = SPN_EFULL;
            break;
        }
        conn->out = realloc(conn->out, conn->out_size + pieces[i].size);
        memcpy(conn->out + conn->out_size, pieces[i].data, pieces[i].size);
        conn->out_size += pieces[i].size;
        conn->position += pieces[i].size;
    }
    if (rc == 0 && position != NULL)
        *position = conn->position;
    pthread_mutex_unlock(&conn->lock);
    return rc;
}

uint64_t spn__conn_written(const struct spn__conn *conn)
{
    return conn->position;
}

size_t spn__conn_unwritten(const struct spn__conn *conn)
{
    (void)conn;
    return 0;
}

/* Nothing waits to be written here, so nothing is told. */
void spn__conn_tell_written(struct spn__conn *conn, bool wanted)
{
    (void)conn;
    (void)wanted;
}

void spn__conn_want(struct spn__conn *conn, size_t bytes)
{
    conn->wanted = bytes;
}

void spn__conn_pause(struct spn__conn *conn)
{
    (void)conn;
}

void spn__conn_resume(struct spn__conn *conn)
{
    (void)conn;
}

void spn__conn_close(struct spn__conn *conn, int why)
{
    pthread_mutex_lock(&conn->lock);
    if (!conn->wants_close)
        conn->why = why;
    conn->wants_close = 1;
    pthread_mutex_unlock(&conn->lock);
}

void spn__conn_reset(struct spn__conn *conn, int why)
{
    spn__conn_close(conn, why);
}

void spn__conn_end(struct spn__conn *conn)
{
    spn__conn_close(conn, 0);
}

void spn__conn_end_by(struct spn__conn *conn, int64_t deadline_ns)
{
    (void)deadline_ns;
    spn__conn_close(conn, 0);
}

size_t spn__conn_lost(const struct spn__conn *conn)
{
    (void)conn;
    return 0;
}

/* There is no loop: events come on the thread that feeds. */
int spn__conn_post(struct spn__conn *conn, struct spn__net_job *job)
{
    (void)conn;
    (void)job;
    return SPN_ESHUTDOWN;
}

void spn__conn_ref(struct spn__conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    conn->references++;
    pthread_mutex_unlock(&conn->lock);
}

void spn__conn_unref(struct spn__conn *conn)
{
    int left;

    pthread_mutex_lock(&conn->lock);
    left = --conn->references;
    pthread_mutex_unlock(&conn->lock);
    if (left > 0)
        return;
    conn->transport->connections--;
    pthread_mutex_destroy(&conn->lock);
    free(conn->in);
    free(conn->out);
    free(conn);
}

void *spn__conn_data(const struct spn__conn *conn)
{
    return conn->data;
}

void spn__conn_set_data(struct spn__conn *conn, void *data)
{
    conn->data = data;
}

bool spn__conn_is_open(const struct spn__conn *conn)
{
    return conn->is_open && !conn->wants_close;
}

const char *spn__conn_local(const struct spn__conn *conn)
{
    (void)conn;
    return "127.0.0.1:20880";
}

const char *spn__conn_remote(const struct spn__conn *conn)
{
    (void)conn;
    return "127.0.0.1:40000";
}

int64_t spn__conn_last_read_ns(const struct spn__conn *conn)
{
    return conn->opened_ns;
}

int64_t spn__conn_last_write_ns(const struct spn__conn *conn)
{
    return conn->opened_ns;
}

uint64_t spn__conn_received(const struct spn__conn *conn)
{
    return conn->received;
}

bool spn__conn_on_loop(const struct spn__conn *conn)
{
    (void)conn;
    return true;
}

int spn__transport_create(const struct spn__transport_opts *opts,
                          struct spn__transport **transport)
{
    (void)opts;
    *transport = calloc(1, sizeof **transport);
    return *transport != NULL ? 0 : SPN_ENOMEM;
}

int spn__net_reserve(const struct spn__listen_opts *opts, int *fd, int *port)
{
    (void)opts;
    (void)fd;
    (void)port;
    return SPN_ENOTSUP;
}

void spn__net_release(int fd)
{
    (void)fd;
}

/* There is nobody to connect to. */
int spn__transport_connect(struct spn__transport *transport, const char *host, int port,
                           int64_t timeout_ns, const struct spn__conn_events *events,
                           void *context, void *data, struct spn__conn **conn)
{
    (void)transport;
    (void)host;
    (void)port;
    (void)timeout_ns;
    (void)events;
    (void)context;
    (void)data;
    (void)conn;
    return SPN_ENOTSUP;
}

int spn__transport_listen(struct spn__transport *transport,
                          const struct spn__listen_opts *opts,
                          const struct spn__conn_events *events, void *context,
                          struct spn__listener **listener)
{
    (void)opts;
    *listener = calloc(1, sizeof **listener);
    if (*listener == NULL)
        return SPN_ENOMEM;
    (*listener)->transport = transport;
    (*listener)->events = events;
    (*listener)->context = context;
    transport->listener = *listener;
    return 0;
}

int spn__listener_port(const struct spn__listener *listener)
{
    (void)listener;
    return 20880;
}

int spn__listener_close(struct spn__listener *listener)
{
    listener->transport->listener = NULL;
    free(listener);
    return 0;
}

int spn__transport_room(const struct spn__transport *transport)
{
    (void)transport;
    return 0;
}

int spn__transport_stop(struct spn__transport *transport)
{
    (void)transport;
    return 0;
}

int spn__transport_destroy(struct spn__transport *transport)
{
    if (transport->connections > 0)
        return SPN_EBUSY;
    free(transport);
    return 0;
}
