/* SPDX-License-Identifier: MIT */
/*
 * endpoint.c - a program's endpoint: listens or connects, and ends in order.
 *
 * STOPPING   listener, connections (drain.c), loops, timer.  Each step leaves nothing that a
 *   later one needs.  A handler that holds an I/O thread up holds stop up only until the
 *   deadline: then stop says so and leaves the loops as they are, since such a thread cannot
 *   be joined.
 *
 * A CLIENT   is an endpoint with one connection.  The first handler of its chain, in front of
 *   the program's, tells connect that it stands.
 *
 * LOCKS      `lock` guards the state and the listener; it is a leaf, and not held while
 *   anything is waited for.
 */
#include "endpoint/endpoint.h"

#include <string.h>

#include "base/cpu.h"
#include "base/options.h"
#include "base/time.h"
#include "config/problem.h"
#include "endpoint/drain.h"
#include "sync/thread_record.h"

enum {
    MAX_FRAME = 8 << 20,
    MAX_UNWRITTEN = 16 << 20,
    IN_FLIGHT = 1024,
    IO_MOST = 1024
};
#define LINGER_NS  SPN_SEC(1)
#define FRAME_NS   SPN_SEC(30)
#define CONNECT_NS SPN_SEC(3)

/* ---- options -------------------------------------------------------------------------- */

#define has_op(codec, op)                                                 \
    ((codec)->size >= offsetof(spn_codec, op) + sizeof(void (*)(void)) && \
     (codec)->op != NULL)

static int check_codec(const spn_codec *codec, spn_problem *problem)
{
    if (codec == NULL || codec->size > SPN__OPTIONS_MAX ||
        codec->size % sizeof codec->size != 0 || !has_op(codec, length) ||
        !has_op(codec, decode) || !has_op(codec, encode))
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "the codec lacks its size, length, decode or encode");
    if (codec->size > sizeof *codec &&
        !spn__options_tail_is_zero(codec, sizeof *codec, codec->size))
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "the codec is of a newer library than this one");
    return SPN_OK;
}

static int check_number(const char *name, int64_t value, int64_t most,
                        spn_problem *problem)
{
    if (value >= 0 && value <= most)
        return SPN_OK;
    return spn__refuse(problem, SPN_EINVAL, 0,
                       "%s=%lld: out of range (1..%lld; 0: the default)", name,
                       (long long)value, (long long)most);
}

/* Copies the options and checks them. */
static int read_opts(spn_endpoint_opts *opts, const spn_endpoint_opts *given,
                     spn_problem *problem)
{
    int rc = SPN_OK;

    *opts = (spn_endpoint_opts)SPN_ENDPOINT_OPTS_INIT;
    if (given != NULL &&
        (spn__options_copy(opts, sizeof *opts, given) != SPN_OK || opts->reserved != 0))
        return spn__refuse(problem, SPN_EINVAL, 0, "the options are wrong");
    if ((rc = check_number("io_threads", opts->io_threads, IO_MOST, problem)) !=
            SPN_OK ||
        (rc = check_number("max_channels", opts->max_channels, INT32_MAX, problem)) !=
            SPN_OK ||
        (rc = check_number("max_in_flight", opts->max_in_flight, INT32_MAX, problem)) !=
            SPN_OK ||
        (rc = check_number("idle_ns", opts->idle_ns, INT64_MAX, problem)) != SPN_OK ||
        (rc = check_number("heartbeat_ns", opts->heartbeat_ns, INT64_MAX, problem)) !=
            SPN_OK ||
        (rc = check_number("frame_timeout_ns", opts->frame_timeout_ns, INT64_MAX,
                           problem)) != SPN_OK ||
        (rc = check_number("connect_timeout_ns", opts->connect_timeout_ns, INT64_MAX,
                           problem)) != SPN_OK)
        return rc;
    if (opts->max_frame > INT32_MAX || opts->max_unwritten > SIZE_MAX / 2)
        return spn__refuse(problem, SPN_EINVAL, 0,
                           "max_frame or max_unwritten: more than 2 GiB");
    if (opts->heartbeat_ns > 0 && opts->heartbeat == NULL)
        return spn__refuse(
            problem, SPN_EINVAL, 0,
            "heartbeat_ns is set, and `heartbeat` has no message to send");
    return SPN_OK;
}

/* ---- making one ---------------------------------------------------------------------- */

static void free_endpoint(spn_endpoint *endpoint)
{
    (void)!spn_timer_stop(endpoint->timer, NULL,
                          NULL); /* NULL, or again: nothing happens */
    (void)spn_timer_destroy(endpoint->timer);
    spn_future_unref(endpoint->stands);
    spn__endpoint_fini(&endpoint->base);
    spn__free(endpoint);
}

static void settle(spn_endpoint *endpoint, const spn_endpoint_opts *opts)
{
    struct spn__endpoint *base = &endpoint->base;
    const int64_t frame_ns =
        opts->frame_timeout_ns != 0 ? opts->frame_timeout_ns : FRAME_NS;

    endpoint->max_frame = opts->max_frame > 0 ? (size_t)opts->max_frame : MAX_FRAME;
    endpoint->heartbeat = opts->heartbeat;
    base->payload = (int32_t)endpoint->max_frame;
    base->max_unwritten =
        opts->max_unwritten > 0 ? (size_t)opts->max_unwritten : MAX_UNWRITTEN;
    base->max_in_flight =
        opts->max_in_flight > 0 ? (uint64_t)opts->max_in_flight : IN_FLIGHT;
    base->frame_ns = frame_ns == SPN_FOREVER ? 0 : frame_ns;
    spn__budget_init(&base->budget,
                     opts->memory > 0 ? opts->memory : spn__memory_limit() / 4);
    spn__store(&base->heartbeat_ns, base->is_client ? opts->heartbeat_ns : 0, relaxed);
    spn__store(&base->close_ns, opts->idle_ns, relaxed);
}

/* All but the connections; what fails leaves the endpoint for free_endpoint. */
static int assemble(spn_endpoint *endpoint, const spn_endpoint_opts *opts)
{
    struct spn__endpoint *base = &endpoint->base;
    const struct spn__transport_opts how = {
        .loops = opts->io_threads > 0 ? opts->io_threads
                 : base->is_client    ? 1
                                      : 0,
        .thread_name = opts->name != NULL ? opts->name : "spn-io",
        .max_unwritten = base->max_unwritten,
        .linger_ns = LINGER_NS,
        .budget = &base->budget,
    };
    int rc = spn__idle_timer_create(base, "channel-idle", &endpoint->timer);

    /* Its thread is there from now on, so that no connection goes without it. */
    if (rc == SPN_OK)
        rc = spn_timer_start(endpoint->timer);
    if (rc != SPN_OK)
        return rc;
    base->timer = endpoint->timer;
    return endpoint->owns_transport ? spn__transport_create(&how, &endpoint->transport)
                                    : SPN_OK;
}

/* Before any connection. */
static int make(spn_endpoint **out, const spn_codec *codec, spn_handler *handler,
                const spn_endpoint_opts *opts, bool is_client,
                struct spn__transport *transport, spn_problem *problem)
{
    spn_endpoint *endpoint;
    int rc;

    /* What ends threads needs the caller's record: it is made before there are any. */
    if (spn__thread_self() == NULL)
        return SPN_ENOMEM;
    endpoint = spn__alloc(sizeof *endpoint);
    if (endpoint == NULL)
        return SPN_ENOMEM;
    memset(endpoint, 0, sizeof *endpoint);
    spn__endpoint_init(&endpoint->base);
    spn__lock_init(&endpoint->lock);
    endpoint->base.protocol = &spn__codec_protocol;
    endpoint->base.chain = handler;
    endpoint->base.tells_sent = spn__handler_has_sent(handler);
    endpoint->base.is_client = is_client;
    endpoint->codec = codec;
    endpoint->process = spn__os_process();
    endpoint->transport = transport;
    endpoint->owns_transport = transport == NULL;
    settle(endpoint, opts);
    rc = assemble(endpoint, opts);
    if (rc != SPN_OK) {
        free_endpoint(endpoint);
        return spn__refuse(problem, rc, 0, "no I/O threads: %s", spn_status_text(rc));
    }
    *out = endpoint;
    return SPN_OK;
}

static int check(spn_endpoint **out, const spn_codec *codec, const spn_handler *handler,
                 int port, spn_endpoint_opts *opts, const spn_endpoint_opts *given,
                 spn_problem *problem)
{
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (handler == NULL || handler->ops == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no handler");
    if (port < 0 || port > 65535)
        return spn__refuse(problem, SPN_EINVAL, 0, "port %d: out of range (0..65535)",
                           port);
    rc = check_codec(codec, problem);
    return rc == SPN_OK ? read_opts(opts, given, problem) : rc;
}

static void discard(spn_endpoint *endpoint)
{
    if (endpoint->owns_transport) {
        (void)spn__transport_stop(endpoint->transport);
        (void)spn__transport_destroy(endpoint->transport);
    }
    free_endpoint(endpoint);
}

/* ---- listening ------------------------------------------------------------------------- */

int spn__endpoint_listen_on(spn_endpoint **out, const char *host, int port,
                            const spn_codec *codec, spn_handler *handler,
                            const spn_endpoint_opts *given, spn_problem *problem,
                            struct spn__transport *transport)
{
    const struct spn__listen_opts where = { .host = host, .port = port };
    struct spn__listener *listener;
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    spn_endpoint *endpoint = NULL;
    int32_t room;
    int rc = check(out, codec, handler, port, &opts, given, problem);

    if (rc == SPN_OK && opts.heartbeat_ns > 0)
        rc = spn__refuse(
            problem, SPN_EINVAL, 0,
            "heartbeat_ns is set, and only a client sends heartbeats; idle_ns "
            "closes connections of silent peers");
    if (rc != SPN_OK)
        return rc;
    rc = make(&endpoint, codec, handler, &opts, false, transport, problem);
    if (endpoint == NULL)
        return rc;
    room = spn__transport_room(endpoint->transport);
    spn__store(&endpoint->base.accepts,
               opts.max_channels > 0 ? opts.max_channels : room,
               relaxed); /* a setting, before the first connection */
    rc = spn__transport_listen(endpoint->transport, &where, &spn__stream_events,
                               &endpoint->base, &listener);
    if (rc != SPN_OK) {
        discard(endpoint);
        return spn__refuse(
            problem, rc, 0, "cannot listen on %s port %d: %s",
            host != NULL ? host : "any address", port,
            rc == SPN_EINVAL
                ? "it is no address of this machine; 127.0.0.1 is this machine alone, "
                  "0.0.0.0 all of its addresses"
                : spn_status_text(rc));
    }
    /* Connections that have come do not look at these two. */
    endpoint->listener = listener;
    endpoint->port = spn__listener_port(listener);
    *out = endpoint;
    return SPN_OK;
}

int spn_endpoint_listen(spn_endpoint **out, const char *host, int port,
                        const spn_codec *codec, spn_handler *handler,
                        const spn_endpoint_opts *opts, spn_problem *problem)
{
    return spn__endpoint_listen_on(out, host, port, codec, handler, opts, problem,
                                   NULL);
}

/* ---- connecting ------------------------------------------------------------------------ */

static void front_connected(spn_handler *handler, spn_channel *channel)
{
    spn_endpoint *endpoint =
        (spn_endpoint *)(void *)((char *)handler - offsetof(spn_endpoint, front));

    endpoint->channel = spn_channel_ref(channel);
    spn__handler_connected(handler->inner, channel);
    (void)spn_future_complete(endpoint->stands, NULL);
}

static const spn_handler_ops front_ops = { .connected = front_connected };

/* Waits until the connection stands.  The transport has a deadline and always tells, so that no
 * interrupt has to end this. */
static int await_connection(spn_endpoint *endpoint)
{
    spn_outcome outcome;
    bool interrupted = false;
    int rc;

    while ((rc = spn_future_get(endpoint->stands, NULL, SPN_FOREVER)) == SPN_EINTR)
        interrupted = true;
    if (interrupted)
        (void)spn_thread_interrupt(spn_thread_current()); /* it is the caller's */
    if (rc == SPN_EFAILED && spn_future_result(endpoint->stands, &outcome) == rc)
        rc = outcome.code;
    return rc;
}

/* Always fails, with rc. */
static int refuse_connection(spn_problem *problem, int rc, const char *host, int port,
                             bool is_unknown)
{
    if (!is_unknown)
        return spn__refuse(problem, rc, 0, "no connection to %s port %d: %s", host,
                           port, spn_status_text(rc));
    return spn__refuse(
        problem, rc, 0,
        "no connection to %s port %d: there is no host %s, or no name server answers",
        host, port, host);
}

int spn__endpoint_connect_on(spn_endpoint **out, const char *host, int port,
                             const spn_codec *codec, spn_handler *handler,
                             const spn_endpoint_opts *given, spn_problem *problem,
                             struct spn__transport *transport)
{
    struct spn__conn *conn;
    spn_endpoint_opts opts = SPN_ENDPOINT_OPTS_INIT;
    spn_endpoint *endpoint = NULL;
    bool is_unknown = false;
    int rc = check(out, codec, handler, port, &opts, given, problem);

    if (rc == SPN_OK && (host == NULL || port == 0))
        rc = spn__refuse(problem, SPN_EINVAL, 0, "connect needs a host and a port");
    if (rc != SPN_OK)
        return rc;
    rc = make(&endpoint, codec, handler, &opts, true, transport, problem);
    if (endpoint == NULL)
        return rc;
    endpoint->front = (spn_handler){ &front_ops, handler };
    endpoint->base.chain = &endpoint->front;
    rc = spn_future_create(&endpoint->stands, NULL);
    if (rc == SPN_OK)
        rc =
            spn__transport_connect(endpoint->transport, host, port,
                                   opts.connect_timeout_ns > 0 ? opts.connect_timeout_ns
                                                               : CONNECT_NS,
                                   &spn__stream_events, &endpoint->base, NULL, &conn);
    if (rc == SPN_OK) {
        spn__conn_unref(conn);
        rc = await_connection(endpoint);
    } else {
        is_unknown = rc == SPN_EUNREACHABLE; /* at once: the name was not found */
        rc = spn__connect_status(rc);
    }
    if (rc != SPN_OK) {
        discard(endpoint);
        return refuse_connection(problem, rc, host, port, is_unknown);
    }
    *out = endpoint;
    return SPN_OK;
}

int spn_endpoint_connect(spn_endpoint **out, const char *host, int port,
                         const spn_codec *codec, spn_handler *handler,
                         const spn_endpoint_opts *opts, spn_problem *problem)
{
    return spn__endpoint_connect_on(out, host, port, codec, handler, opts, problem,
                                    NULL);
}

int spn_endpoint_port(const spn_endpoint *endpoint)
{
    return endpoint != NULL ? endpoint->port : 0;
}

spn_channel *spn_endpoint_channel(spn_endpoint *endpoint)
{
    return endpoint != NULL ? endpoint->channel : NULL;
}

/* ---- the end ---------------------------------------------------------------------------- */

static void close_to_new(spn_endpoint *endpoint)
{
    /* relaxed: the list's lock orders it, which every look at the list takes; see CLOSING in
     * stream.c. */
    spn__store(&endpoint->base.closing, 1, relaxed);
}

static int stop(spn_endpoint *endpoint, int64_t deadline_ns)
{
    struct spn__endpoint *base = &endpoint->base;
    const uint64_t cut_before = spn__counts_sum(&base->counts, SPN__COUNT_CUT_OFF);
    bool is_quiet;
    int rc;

    if (endpoint->listener != NULL) {
        rc = spn__listener_close(endpoint->listener);
        if (rc != SPN_OK)
            return rc; /* on one of its I/O threads */
        endpoint->listener = NULL;
    }
    close_to_new(endpoint);
    is_quiet = spn__drain_streams(base, deadline_ns, SPN__DRAIN_TAKES_NONE);
    if (!is_quiet && !spn__drain_await_deaf(base, deadline_ns))
        return SPN_ETIMEDOUT; /* a handler has the I/O thread: it cannot be stopped */
    if (!is_quiet)
        spn__drain_cut_off(base);
    if (!spn__drain_close(base, deadline_ns))
        return SPN_ETIMEDOUT; /* the same, in `disconnected` */
    if (endpoint->owns_transport) {
        rc = spn__transport_stop(endpoint->transport);
        if (rc != SPN_OK)
            return rc;
    }
    rc = spn_timer_stop(endpoint->timer, NULL, NULL);
    if (rc == SPN_OK &&
        (!spn__drain_await_handlers(base, deadline_ns) || !is_quiet ||
         spn__counts_sum(&base->counts, SPN__COUNT_CUT_OFF) > cut_before))
        rc = SPN_ETIMEDOUT;
    return rc;
}

int spn_endpoint_stop(spn_endpoint *endpoint, int64_t timeout_ns)
{
    bool is_stopped, is_busy;
    int rc;

    if (endpoint == NULL)
        return SPN_EINVAL;
    if (endpoint->process != spn__os_process())
        return SPN_ESTATE; /* in the child of a fork: the threads are the parent's */
    if (spn__drain_is_inside(&endpoint->base))
        return SPN_EDEADLK;
    spn__lock(&endpoint->lock);
    is_stopped = endpoint->is_stopped;
    is_busy = endpoint->is_being_stopped;
    endpoint->is_being_stopped = true;
    spn__unlock(&endpoint->lock);
    if (is_busy)
        return SPN_EBUSY;
    rc = is_stopped ? SPN_OK : stop(endpoint, spn__deadline(spn__now(), timeout_ns));
    spn__lock(&endpoint->lock);
    endpoint->is_being_stopped = false;
    endpoint->is_stopped = rc == SPN_OK;
    spn__unlock(&endpoint->lock);
    return rc;
}

/* Whether nobody but the endpoint itself holds a channel. */
static bool is_unused(spn_endpoint *endpoint)
{
    struct spn__endpoint *base = &endpoint->base;
    spn_channel *own = endpoint->channel;

    if (own == NULL)
        return !spn__endpoint_has_streams(base);
    /* acquire: what others did with it before they let go [hold]; no stream comes any more,
     * so it is the only one. */
    return spn__load(&own->holds, acquire) == 1;
}

int spn_endpoint_destroy(spn_endpoint *endpoint)
{
    bool is_busy;
    int rc;

    if (endpoint == NULL)
        return SPN_OK;
    spn__lock(&endpoint->lock);
    is_busy = !endpoint->is_stopped || endpoint->is_being_stopped;
    spn__unlock(&endpoint->lock);
    if (is_busy || !is_unused(endpoint))
        return SPN_EBUSY;
    spn_channel_unref(endpoint->channel);
    endpoint->channel = NULL;
    if (endpoint->owns_transport) {
        rc = spn__transport_destroy(endpoint->transport);
        if (rc != SPN_OK)
            return rc;
    }
    free_endpoint(endpoint);
    return SPN_OK;
}

/* ---- figures ------------------------------------------------------------------------------ */

int spn_endpoint_stats_get(spn_endpoint *endpoint, spn_endpoint_stats *stats)
{
    struct spn__counts *counts;
    spn_endpoint_stats s;
    int32_t open;

    if (endpoint == NULL || stats == NULL)
        return SPN_EINVAL;
    counts = &endpoint->base.counts;
    memset(&s, 0, sizeof s);
    open = spn__load(&endpoint->base.open, relaxed); /* only a number */
    s.channels = open > 0 ? (uint64_t)open : 0;
    s.accepted = spn__counts_sum(counts, SPN__COUNT_ACCEPTED);
    s.refused = spn__counts_sum(counts, SPN__COUNT_REFUSED);
    s.idle_closed = spn__counts_sum(counts, SPN__COUNT_IDLE_CLOSED);
    s.frames_late = spn__counts_sum(counts, SPN__COUNT_FRAMES_LATE);
    s.bad_frames = spn__counts_sum(counts, SPN__COUNT_BAD_FRAMES);
    s.cut_off = spn__counts_sum(counts, SPN__COUNT_CUT_OFF);
    s.messages = spn__counts_sum(counts, SPN__COUNT_REQUESTS);
    s.in_flight = spn__endpoint_in_flight(&endpoint->base);
    s.bytes_in = spn__counts_sum(counts, SPN__COUNT_BYTES_IN);
    s.bytes_out = spn__counts_sum(counts, SPN__COUNT_BYTES_OUT);
    s.memory_used = spn__budget_used(&endpoint->base.budget);
    s.memory_limit = endpoint->base.budget.limit;
    s.memory_refused = spn__counts_sum(counts, SPN__COUNT_MEMORY);
    return spn__output_copy(stats, &s, sizeof s);
}
