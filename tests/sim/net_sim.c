/* SPDX-License-Identifier: MIT */
/*
 * net_sim.c - the network of the explorer.
 *
 * One lock guards all of it: connections, directions, loops, the script.  There are no
 * atomics here, so nothing in this file is explored but the order in which threads come
 * by; that is what the layer above is to be tried with.  Events are called with no lock
 * held, on the loop's thread, as transport.h says.
 *
 * A DIRECTION is the memory of the receiving end: `pipe`, with the bytes that are on
 * their way and when the last of them arrives.  A sender moves bytes from `out` there as
 * far as the capacity goes; what does not fit waits in `out` and goes when the receiver
 * has taken some.  So `written` and the bound behave as over a socket.
 *
 * THE LOOP looks for something to do, in the order of its connections, does it, and
 * looks again; it sleeps on its parker until somebody unparks it or something is due.
 */
#include "net_sim.h"

#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/time.h"
#include "net/bytes.h"
#include "net/gate.h"
#include "net/transport.h"
#include "sim.h"
#include "sync/lock.h"
#include "sync/parker.h"
#include "sync/seam.h"

enum phase { CONNECTING, ARRIVED, OPEN, ENDING, CLOSING, CLOSED };

struct loop {
    struct spn__transport *transport;
    struct spn__parker parker;
    spn__os_thread thread;
    int id; /* its thread's number; -1 before it runs */
    struct spn__net_job *jobs, **jobs_end;
    struct spn__list conns;
    bool stopping, open;
};

struct spn__conn {
    struct spn__list_node link;
    struct loop *loop;
    struct spn__conn *peer;
    const struct spn__conn_events *events;
    void *context, *data;
    struct sim_net_script script;
    struct sim_net_way way; /* of what this end sends */
    int refs, pauses, pause_calls, why, port;
    enum phase phase;
    bool accepted, opened, eof, reset, shut, held, begun;
    struct spn__bytes out;  /* taken, not yet on its way */
    struct spn__bytes pipe; /* on its way to this end */
    uint64_t received;
    int64_t arrives_ns;   /* when all of pipe is here */
    bool pipe_ends;       /* and then the end */
    struct spn__bytes in; /* the loop's: offered and not used */
    size_t want;
    uint64_t position, written, told;
    int tells;           /* so many ask for `written` */
    int64_t deadline_ns; /* of connecting, and of ending */
    int64_t end_by_ns;   /* of spn__conn_end_by; 0: linger_ns */
    bool resets;
    int64_t last_read_ns, last_write_ns;
    struct spn__net_job begin;
    char local[24], remote[24];
};

struct spn__listener {
    struct spn__list_node link;
    struct spn__transport *transport;
    const struct spn__conn_events *events;
    void *context;
    int port;
};

struct spn__transport {
    struct spn__transport_opts opts;
    struct spn__gate stopped;
    bool stopping, has_stopped;
    int conns, accepted_now, listeners;
    unsigned next;
    struct spn__transport_stats stats;
    int loop_count;
    struct loop loops[];
};

static struct {
    struct spn__lock lock;
    struct spn__list listeners;
    struct sim_net_script script;
    int next_port;
} net;

void sim_net_reset(void)
{
    memset(&net, 0, sizeof net);
    spn__list_init(&net.listeners);
    net.next_port = 1000;
}

void sim_net_set(const struct sim_net_script *script)
{
    spn__lock(&net.lock);
    net.script = *script;
    spn__unlock(&net.lock);
}

/* ---- with the lock held ---------------------------------------------------- */

/* A loop that has something to look at.  Unparked with the lock held: there is no one
 * the parker would call. */
static void nudge(struct spn__conn *conn)
{
    if (conn != NULL)
        spn__parker_unpark(&conn->loop->parker);
}

static bool on_loop(const struct loop *loop)
{
    return loop->id == sim_self();
}

static void begin_closing(struct spn__conn *conn, int why)
{
    if (conn->phase >= CLOSING)
        return;
    conn->phase = CLOSING;
    conn->why = why;
    nudge(conn);
}

/* The connection breaks at both ends; what is on its way is lost. */
static void break_both(struct spn__conn *conn)
{
    struct spn__conn *const both[] = { conn, conn->peer };

    for (int i = 0; i < 2; i++)
        if (both[i] != NULL) {
            both[i]->reset = true;
            nudge(both[i]);
        }
}

/* Puts bytes on their way: all that the capacity and the script let. */
static void transmit(struct spn__conn *conn)
{
    struct spn__conn *const peer = conn->peer;
    const size_t capacity = conn->script.capacity;
    struct spn__piece piece;
    size_t n = conn->out.size, passes;

    if (n == 0 || conn->phase == CONNECTING || conn->phase >= CLOSING)
        return;
    if (peer == NULL) { /* gone: the answer will be a reset */
        conn->written += n;
        spn__bytes_take(&conn->out, n);
        conn->reset = true;
        nudge(conn);
        return;
    }
    if (capacity != 0 && n > capacity - peer->pipe.size)
        n = capacity - peer->pipe.size;
    passes = n;
    if (conn->way.cut != SIM_CUT_NONE && passes > conn->way.after)
        passes = (size_t)conn->way.after;
    if (n == 0)
        return;
    piece = (struct spn__piece){ spn__bytes_first(&conn->out), passes };
    if (passes != 0 && !peer->pipe_ends) {
        if (!spn__bytes_append(&peer->pipe, &piece, 1,
                               SPN__SHARE_ALWAYS)) { /* as if it broke */
            break_both(conn);
            return;
        }
        peer->arrives_ns = spn__time_add(spn__now(), conn->way.delay_ns);
        nudge(peer);
    }
    spn__bytes_take(&conn->out, n);
    conn->written += n;
    conn->last_write_ns = spn__now();
    if (conn->way.cut == SIM_CUT_NONE)
        return;
    conn->way.after -= passes;
    if (passes == n && conn->way.after != 0)
        return;
    if (conn->way.cut == SIM_CUT_RESET)
        break_both(conn);
    if (conn->way.cut == SIM_CUT_END) {
        peer->pipe_ends = true;
        nudge(peer);
    }
    conn->way.cut = SIM_CUT_HOLE; /* from here on nothing arrives */
    conn->way.after = 0;
}

static void end_sending(struct spn__conn *conn)
{
    conn->shut = true;
    if (conn->peer != NULL && conn->way.cut != SIM_CUT_HOLE) {
        conn->peer->pipe_ends = true;
        nudge(conn->peer);
    }
}

static void unref_locked(struct spn__conn *conn, struct spn__conn **dead)
{
    if (--conn->refs == 0) {
        conn->loop->transport->conns--;
        *dead = conn;
    }
}

static void free_conn(struct spn__conn *conn)
{
    if (conn == NULL)
        return;
    spn__bytes_fini(&conn->out);
    spn__bytes_fini(&conn->pipe);
    spn__bytes_fini(&conn->in);
    spn__free(conn);
}

static struct spn__conn *make_conn(struct spn__transport *transport,
                                   const struct spn__conn_events *events, void *context,
                                   void *data)
{
    struct spn__conn *const conn = spn__alloc(sizeof *conn);

    if (conn == NULL)
        return NULL;
    memset(conn, 0, sizeof *conn);
    conn->events = events;
    conn->context = context;
    conn->data = data;
    conn->refs = 1;
    conn->deadline_ns = SPN_FOREVER;
    conn->in.budget = conn->out.budget = transport->opts.budget;
    conn->loop = &transport->loops[transport->next++ % (unsigned)transport->loop_count];
    return conn;
}

/* The two ends find each other; false: nobody there. */
static bool meet(struct spn__conn *conn)
{
    struct spn__listener *listener = NULL;
    struct spn__list_node *node;
    struct spn__conn *other;
    struct spn__transport *to;

    spn__list_each (node, &net.listeners) {
        listener = spn__list_entry(node, struct spn__listener, link);
        if (listener->port == conn->port)
            break;
        listener = NULL;
    }
    if (listener == NULL || listener->transport->stopping)
        return false;
    to = listener->transport;
    if (to->opts.max_connections != 0 && to->accepted_now >= to->opts.max_connections) {
        to->stats.refused++;
        return false;
    }
    other = make_conn(to, listener->events, listener->context, NULL);
    if (other == NULL) {
        to->stats.refused++;
        return false;
    }
    to->conns++;
    to->accepted_now++;
    to->stats.accepted++;
    conn->loop->transport->stats.connected++;
    other->accepted = true;
    other->phase = ARRIVED;
    other->script = conn->script;
    other->way = conn->script.to_client;
    conn->way = conn->script.to_server;
    other->peer = conn;
    conn->peer = other;
    conn->phase = ARRIVED;
    snprintf(conn->remote, sizeof conn->remote, "sim:%d", conn->port);
    snprintf(conn->local, sizeof conn->local, "sim:%d", net.next_port);
    snprintf(other->local, sizeof other->local, "sim:%d", conn->port);
    snprintf(other->remote, sizeof other->remote, "sim:%d", net.next_port++);
    spn__list_push_back(&other->loop->conns, &other->link);
    nudge(other);
    return true;
}

/* ---- what a loop does; each is entered with the lock and leaves without it -------- */

static void open_it(struct spn__conn *conn)
{
    int rc;

    conn->phase = OPEN;
    conn->opened = true;
    conn->deadline_ns = SPN_FOREVER;
    conn->loop->transport->stats.open++;
    conn->last_read_ns = conn->last_write_ns = spn__now();
    spn__unlock(&net.lock);
    rc = conn->events->opened(conn->context, conn);
    spn__lock(&net.lock);
    if (rc != 0)
        begin_closing(conn, rc < 0 ? rc : SPN_EFAILED);
    transmit(conn);
    spn__unlock(&net.lock);
}

static void close_it(struct spn__conn *conn)
{
    struct spn__transport *const transport = conn->loop->transport;
    struct spn__conn *dead = NULL;

    conn->phase = CLOSED;
    spn__list_remove(&conn->link);
    if (conn->peer != NULL) {
        if (conn->pipe.size != 0 || /* unread bytes are answered with a reset */
            conn->resets || (conn->end_by_ns != 0 && conn->out.size != 0))
            break_both(conn);
        else if (!conn->shut)
            end_sending(conn);
        conn->peer->peer = NULL;
        conn->peer = NULL;
    }
    if (conn->accepted)
        transport->accepted_now--;
    if (conn->opened)
        transport->stats.open--;
    spn__unlock(&net.lock);
    conn->events->closed(conn->context, conn, conn->why);
    spn__lock(&net.lock);
    unref_locked(conn, &dead);
    spn__unlock(&net.lock);
    free_conn(dead);
}

/* Offers what is in `in`, if it is enough. */
static void offer(struct spn__conn *conn)
{
    const int before = conn->pause_calls;
    int64_t used = 0;

    conn->held = false;
    if (conn->in.size >= conn->want) {
        conn->want = 0;
        spn__unlock(&net.lock);
        used = conn->events->bytes(conn->context, conn, spn__bytes_first(&conn->in),
                                   conn->in.size);
        spn__lock(&net.lock);
    }
    if (used < 0) {
        begin_closing(conn, (int)used);
    } else {
        spn__bytes_take(&conn->in, (size_t)used);
        conn->held =
            conn->in.size != 0 && ((conn->want != 0 && conn->in.size >= conn->want) ||
                                   conn->pauses != 0 || conn->pause_calls != before);
    }
    spn__unlock(&net.lock);
}

/* There is no memory for the first so many bytes of the pipe behind what is kept: as over a
 * socket, what is kept is given up, and these are offered alone. */
static void crowd_out(struct spn__conn *conn, const struct spn__piece *more)
{
    unsigned char few[4096];
    const size_t size = more->size < sizeof few ? more->size : sizeof few;
    struct spn__piece kept = { NULL, conn->in.size };
    int64_t used = SPN_ENOMEM;

    if (kept.size > 0)
        kept.data = spn__bytes_first(&conn->in);
    memcpy(few, more->data, size);
    spn__bytes_take(&conn->pipe, size);
    conn->received += size;
    conn->want = 0;
    spn__unlock(&net.lock);
    if (kept.size > 0 && conn->events->crowded != NULL)
        used = conn->events->crowded(conn->context, conn, kept.data, kept.size);
    if (used >= 0)
        used = conn->events->bytes(conn->context, conn, few, size);
    if (used >= 0 && (size_t)used < size)
        used =
            conn->events->crowded(conn->context, conn, few + used, size - (size_t)used);
    spn__lock(&net.lock);
    spn__bytes_fini(&conn->in);
    if (used < 0)
        begin_closing(conn, (int)used);
    if (conn->peer != NULL) {
        transmit(conn->peer);
        nudge(conn->peer);
    }
    spn__unlock(&net.lock);
}

static void receive(struct spn__conn *conn)
{
    struct spn__piece piece = { spn__bytes_first(&conn->pipe), conn->pipe.size };

    if (conn->script.split && piece.size > 1) {
        const unsigned how = sim_choose(3);

        piece.size = how == 0 ? piece.size : how == 1 ? 1 : (piece.size + 1) / 2;
    }
    if (conn->phase == OPEN &&
        !spn__bytes_append(&conn->in, &piece, 1, SPN__SHARE_FRAMES)) {
        crowd_out(conn, &piece);
        return;
    }
    spn__bytes_take(&conn->pipe, piece.size);
    conn->last_read_ns = spn__now();
    conn->loop->transport->stats.bytes_read += piece.size;
    conn->received += piece.size;
    if (conn->peer != NULL) { /* room for more */
        transmit(conn->peer);
        nudge(conn->peer);
    }
    if (conn->phase == OPEN)
        offer(conn);
    else
        spn__unlock(&net.lock);
}

static void tell_written(struct spn__conn *conn)
{
    const uint64_t written = conn->told = conn->written;

    spn__unlock(&net.lock);
    conn->events->written(conn->context, conn, written);
}

/* Does one thing for the connection and returns true without the lock; or there is
 * nothing to do before *due_ns, and it is still held. */
static bool attend(struct spn__conn *conn, int64_t *due_ns)
{
    const int64_t now = spn__now();
    const bool arrived = now >= conn->arrives_ns;

    if (conn->phase < CLOSING && conn->reset)
        begin_closing(conn, SPN_EIO);
    if (conn->phase < CLOSING && conn->deadline_ns != SPN_FOREVER &&
        now >= conn->deadline_ns)
        begin_closing(conn,
                      conn->phase == ENDING && conn->out.size == 0 ? 0 : SPN_ETIMEDOUT);
    if (conn->phase == CLOSING) {
        close_it(conn);
        return true;
    }
    if (conn->phase == ARRIVED) {
        open_it(conn);
        return true;
    }
    if (conn->phase == CONNECTING || conn->phase == CLOSED)
        goto later;
    if (conn->tells > 0 && conn->events->written != NULL &&
        conn->written != conn->told) {
        tell_written(conn);
        return true;
    }
    if (conn->phase == ENDING) {
        if (conn->out.size == 0 && !conn->shut) {
            end_sending(conn);
            if (conn->end_by_ns != 0) /* from now on the peer has linger_ns */
                conn->deadline_ns = SPN_FOREVER;
        }
        if (conn->end_by_ns != 0 && !conn->shut)
            conn->deadline_ns = conn->end_by_ns;
        else if (conn->deadline_ns == SPN_FOREVER)
            conn->deadline_ns =
                spn__deadline(now, conn->loop->transport->opts.linger_ns);
        if (conn->end_by_ns != 0 && conn->end_by_ns < conn->deadline_ns)
            conn->deadline_ns = conn->end_by_ns;
        if (conn->shut && conn->eof) {
            begin_closing(conn, 0);
            close_it(conn);
            return true;
        }
    }
    if (conn->phase == OPEN && conn->pauses != 0)
        goto later;
    if (conn->held) {
        offer(conn);
        return true;
    }
    if (conn->pipe.size != 0 && arrived) {
        receive(conn);
        return true;
    }
    if (conn->pipe_ends && conn->pipe.size == 0 && arrived && !conn->eof) {
        bool stays;

        conn->eof = true;
        spn__unlock(&net.lock);
        stays = conn->events->peer_ended != NULL &&
                conn->events->peer_ended(conn->context, conn);
        spn__lock(&net.lock);
        if (!stays && conn->phase == OPEN)
            conn->phase = ENDING;
        spn__unlock(&net.lock);
        return true;
    }
    if (!arrived && conn->arrives_ns < *due_ns)
        *due_ns = conn->arrives_ns;
later:
    if (conn->deadline_ns < *due_ns)
        *due_ns = conn->deadline_ns;
    return false;
}

/* One thing; false: the loop has ended. */
static bool turn(struct loop *loop)
{
    int64_t due_ns = SPN_FOREVER;
    struct spn__net_job *job;
    struct spn__list_node *node;

    spn__lock(&net.lock);
    job = loop->jobs;
    if (job != NULL) {
        loop->jobs = job->next;
        if (loop->jobs == NULL)
            loop->jobs_end = &loop->jobs;
        spn__unlock(&net.lock);
        job->fn(job);
        return true;
    }
    if (loop->stopping)
        spn__list_each (node, &loop->conns)
            begin_closing(spn__list_entry(node, struct spn__conn, link), SPN_ECLOSED);
    spn__list_each (node, &loop->conns)
        if (attend(spn__list_entry(node, struct spn__conn, link), &due_ns))
            return true; /* the list may have changed: from the start */
    if (loop->stopping && spn__list_empty(&loop->conns)) {
        loop->open = false;
        spn__unlock(&net.lock);
        return false;
    }
    spn__unlock(&net.lock);
    (void)spn__parker_park(&loop->parker, due_ns);
    return true;
}

static void *run(void *arg)
{
    struct loop *const loop = arg;

    spn__lock(&net.lock);
    loop->id = sim_self();
    spn__unlock(&net.lock);
    while (turn(loop))
        ;
    return NULL;
}

/* ---- transports -------------------------------------------------------------------- */

int spn__transport_create(const struct spn__transport_opts *opts,
                          struct spn__transport **out)
{
    const int loops = opts != NULL && opts->loops > 0 ? opts->loops : 1;
    const struct spn__os_thread_attr attr = { .block_signals = true };
    struct spn__transport *t;
    int rc = SPN_OK, running = 0;

    *out = NULL;
    if (opts != NULL && (opts->loops < 0 || opts->max_connections < 0))
        return SPN_EINVAL;
    t = spn__alloc(sizeof *t + (size_t)loops * sizeof t->loops[0]);
    if (t == NULL)
        return SPN_ENOMEM;
    memset(t, 0, sizeof *t + (size_t)loops * sizeof t->loops[0]);
    if (opts != NULL)
        t->opts = *opts;
    if (t->opts.max_unwritten == 0)
        t->opts.max_unwritten = 16 << 20;
    if (t->opts.linger_ns == 0)
        t->opts.linger_ns = SPN_SEC(3);
    spn__gate_init(&t->stopped);
    t->loop_count = loops;
    for (int i = 0; i < loops; i++) {
        t->loops[i].transport = t;
        t->loops[i].id = -1;
        t->loops[i].open = true;
        t->loops[i].jobs_end = &t->loops[i].jobs;
        spn__parker_init(&t->loops[i].parker);
        spn__list_init(&t->loops[i].conns);
    }
    for (; rc == SPN_OK && running < loops; running++) {
        rc = spn__os_thread_create(&t->loops[running].thread, &attr, run,
                                   &t->loops[running]);
        if (rc != SPN_OK)
            break;
    }
    if (rc == SPN_OK) {
        *out = t;
        return SPN_OK;
    }
    t->loop_count = running;
    (void)spn__transport_stop(t);
    spn__free(t);
    return rc;
}

static bool is_mine(const struct spn__transport *t)
{
    bool mine = false;

    spn__lock(&net.lock);
    for (int i = 0; i < t->loop_count; i++)
        mine = mine || on_loop(&t->loops[i]);
    spn__unlock(&net.lock);
    return mine;
}

int spn__transport_stop(struct spn__transport *t)
{
    bool first;

    if (is_mine(t))
        return SPN_EDEADLK;
    spn__lock(&net.lock);
    first = !t->stopping;
    t->stopping = true;
    for (int i = 0; i < t->loop_count; i++) {
        t->loops[i].stopping = true;
        spn__parker_unpark(&t->loops[i].parker);
    }
    spn__unlock(&net.lock);
    if (!first) {
        spn__gate_wait(&t->stopped);
        return SPN_OK;
    }
    for (int i = 0; i < t->loop_count; i++)
        spn__os_thread_join(t->loops[i].thread);
    spn__lock(&net.lock);
    t->has_stopped = true;
    spn__unlock(&net.lock);
    spn__gate_open(&t->stopped);
    return SPN_OK;
}

int spn__transport_destroy(struct spn__transport *t)
{
    bool busy;

    if (t == NULL)
        return SPN_OK;
    spn__lock(&net.lock);
    busy = !t->has_stopped || t->conns != 0 || t->listeners != 0;
    spn__unlock(&net.lock);
    if (busy)
        return SPN_EBUSY;
    spn__free(t);
    return SPN_OK;
}

int spn__transport_room(const struct spn__transport *t)
{
    (void)t;
    return 0;
}

void spn__transport_get_stats(struct spn__transport *t,
                              struct spn__transport_stats *stats)
{
    spn__lock(&net.lock);
    *stats = t->stats;
    spn__unlock(&net.lock);
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

int spn__transport_listen(struct spn__transport *t, const struct spn__listen_opts *opts,
                          const struct spn__conn_events *events, void *context,
                          struct spn__listener **out)
{
    struct spn__listener *const listener = spn__alloc(sizeof *listener);
    struct spn__list_node *node;
    int rc = SPN_OK;

    *out = NULL;
    if (listener == NULL)
        return SPN_ENOMEM;
    *listener = (struct spn__listener){
        .transport = t, .events = events, .context = context, .port = opts->port
    };
    spn__lock(&net.lock);
    if (listener->port == 0)
        listener->port = net.next_port++;
    spn__list_each (node, &net.listeners)
        if (spn__list_entry(node, struct spn__listener, link)->port == listener->port)
            rc = SPN_EADDRINUSE;
    if (t->stopping)
        rc = SPN_ESHUTDOWN;
    if (rc == SPN_OK) {
        spn__list_push_back(&net.listeners, &listener->link);
        t->listeners++;
    }
    spn__unlock(&net.lock);
    if (rc != SPN_OK) {
        spn__free(listener);
        return rc;
    }
    *out = listener;
    return SPN_OK;
}

int spn__listener_port(const struct spn__listener *listener)
{
    return listener->port;
}

int spn__listener_close(struct spn__listener *listener)
{
    if (is_mine(listener->transport))
        return SPN_EDEADLK;
    spn__lock(&net.lock);
    spn__list_remove(&listener->link);
    listener->transport->listeners--;
    spn__unlock(&net.lock);
    spn__free(listener);
    return SPN_OK;
}

static void begin_connect(struct spn__net_job *job)
{
    struct spn__conn *const conn =
        (struct spn__conn *)((char *)job - offsetof(struct spn__conn, begin));

    spn__lock(&net.lock);
    spn__list_push_back(&conn->loop->conns, &conn->link);
    if (conn->phase == CONNECTING && !conn->script.hang && !meet(conn))
        begin_closing(conn, SPN_EUNREACHABLE);
    spn__unlock(&net.lock);
}

int spn__transport_connect(struct spn__transport *t, const char *host, int port,
                           int64_t timeout_ns, const struct spn__conn_events *events,
                           void *context, void *data, struct spn__conn **out)
{
    struct spn__conn *conn;
    bool open;

    *out = NULL;
    if (host == NULL || port <= 0 || port > 65535)
        return SPN_EINVAL;
    spn__lock(&net.lock);
    conn = make_conn(t, events, context, data);
    if (conn == NULL) {
        spn__unlock(&net.lock);
        return SPN_ENOMEM;
    }
    conn->script = net.script;
    conn->port = port;
    conn->refs = 2; /* the caller's */
    conn->deadline_ns = spn__deadline(spn__now(), timeout_ns);
    conn->begin.fn = begin_connect;
    open = conn->loop->open;
    if (open) {
        t->conns++;
        conn->begin.next = NULL;
        *conn->loop->jobs_end = &conn->begin;
        conn->loop->jobs_end = &conn->begin.next;
        nudge(conn);
        *out = conn;
    }
    spn__unlock(&net.lock);
    if (open)
        return SPN_OK;
    free_conn(conn);
    return SPN_ESHUTDOWN;
}

void sim_net_break_all(void)
{
    struct spn__list_node *node, *inner;

    spn__lock(&net.lock);
    spn__list_each (node, &net.listeners) {
        struct spn__transport *const t =
            spn__list_entry(node, struct spn__listener, link)->transport;

        for (int i = 0; i < t->loop_count; i++)
            spn__list_each (inner, &t->loops[i].conns)
                break_both(spn__list_entry(inner, struct spn__conn, link));
    }
    spn__unlock(&net.lock);
}

/* ---- connections ---------------------------------------------------------------------- */

int spn__conn_send(struct spn__conn *conn, const struct spn__piece *pieces,
                   size_t count, unsigned flags, uint64_t *position)
{
    const size_t most = conn->loop->transport->opts.max_unwritten;
    size_t total = 0, waiting;
    int rc = SPN_OK;

    for (size_t i = 0; i < count; i++)
        total += pieces[i].size;
    spn__lock(&net.lock);
    waiting = conn->out.size;
    if (conn->phase > OPEN)
        rc = SPN_ECLOSED;
    else if ((flags & SPN__SEND_URGENT) == 0 && waiting != 0 &&
             (waiting > most || total > most - waiting))
        rc = SPN_EFULL;
    else if (total != 0 &&
             !spn__bytes_append(&conn->out, pieces, count,
                                (flags & SPN__SEND_URGENT) != 0 ? SPN__SHARE_ALWAYS
                                                                : SPN__SHARE_REPLIES))
        rc = SPN_ENOMEM;
    if (rc == SPN_OK) {
        conn->position += total;
        if (position != NULL)
            *position = conn->position;
        conn->loop->transport->stats.bytes_written += total;
        transmit(conn);
        if (conn->tells > 0)
            nudge(conn);
    }
    spn__unlock(&net.lock);
    return rc;
}

void spn__conn_tell_written(struct spn__conn *conn, bool wanted)
{
    spn__lock(&net.lock);
    conn->tells += wanted ? 1 : -1;
    spn__unlock(&net.lock);
}

#define GET(type, name, expression)                  \
    type spn__conn_##name(const struct spn__conn *c) \
    {                                                \
        type value;                                  \
                                                     \
        spn__lock(&net.lock);                        \
        value = (expression);                        \
        spn__unlock(&net.lock);                      \
        return value;                                \
    }

GET(uint64_t, written, c->written)
GET(size_t, unwritten, c->out.size)
GET(size_t, lost, c->out.size)
GET(void *, data, c->data)
GET(bool, is_open, c->phase == OPEN)
GET(const char *, local, c->local)
GET(const char *, remote, c->remote)
GET(int64_t, last_read_ns, c->last_read_ns)
GET(int64_t, last_write_ns, c->last_write_ns)
GET(uint64_t, received, c->received)
GET(bool, on_loop, on_loop(c->loop))

void spn__conn_set_data(struct spn__conn *conn, void *data)
{
    spn__lock(&net.lock);
    conn->data = data;
    spn__unlock(&net.lock);
}

void spn__conn_want(struct spn__conn *conn, size_t bytes)
{
    conn->want = bytes; /* inside `bytes`: the loop's */
}

void spn__conn_pause(struct spn__conn *conn)
{
    spn__lock(&net.lock);
    conn->pauses++;
    conn->pause_calls++;
    spn__unlock(&net.lock);
}

void spn__conn_resume(struct spn__conn *conn)
{
    spn__lock(&net.lock);
    sim_assert(conn->pauses > 0);
    conn->pauses--;
    nudge(conn);
    spn__unlock(&net.lock);
}

void spn__conn_close(struct spn__conn *conn, int why)
{
    spn__lock(&net.lock);
    begin_closing(conn, why);
    spn__unlock(&net.lock);
}

void spn__conn_reset(struct spn__conn *conn, int why)
{
    spn__lock(&net.lock);
    if (conn->phase < CLOSING)
        conn->resets = true;
    begin_closing(conn, why);
    spn__unlock(&net.lock);
}

void spn__conn_end(struct spn__conn *conn)
{
    spn__lock(&net.lock);
    if (conn->phase < OPEN) {
        begin_closing(conn, SPN_ECLOSED);
    } else if (conn->phase == OPEN) {
        conn->phase = ENDING;
        nudge(conn);
    }
    spn__unlock(&net.lock);
}

void spn__conn_end_by(struct spn__conn *conn, int64_t deadline_ns)
{
    spn__conn_end(conn);
    spn__lock(&net.lock);
    if (conn->phase == ENDING) {
        conn->end_by_ns = deadline_ns != 0 ? deadline_ns : 1;
        nudge(conn);
    }
    spn__unlock(&net.lock);
}

void spn__conn_ref(struct spn__conn *conn)
{
    spn__lock(&net.lock);
    sim_assert(conn->refs > 0);
    conn->refs++;
    spn__unlock(&net.lock);
}

void spn__conn_unref(struct spn__conn *conn)
{
    struct spn__conn *dead = NULL;

    spn__lock(&net.lock);
    unref_locked(conn, &dead);
    spn__unlock(&net.lock);
    free_conn(dead);
}

int spn__conn_post(struct spn__conn *conn, struct spn__net_job *job)
{
    struct loop *const loop = conn->loop;
    bool open;

    spn__lock(&net.lock);
    open = loop->open;
    if (open) {
        job->next = NULL;
        *loop->jobs_end = job;
        loop->jobs_end = &job->next;
        nudge(conn);
    }
    spn__unlock(&net.lock);
    return open ? SPN_OK : SPN_ESHUTDOWN;
}
