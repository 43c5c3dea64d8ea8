/* SPDX-License-Identifier: MIT */
/*
 * server.c - a server, put together from its URL, and taken apart in order.
 *
 * OVERVIEW
 *   The chain of handlers is part of the server; channels go through it.  What a URL may
 *   have wrong is found by create; start only listens.
 *
 * STATE      NEW -> STARTING -> RUNNING -> STOPPING -> STOPPED
 *   STARTING goes back to NEW when there is nobody to listen; STOPPING stays when something
 *   did not end in time, and stop may be called again.
 *
 * STOPPING   listener, then clients are told ("R"), then requests in flight are waited for,
 *   then connections end, then the loops, the timer, the dispatcher's thread, and the
 *   pools.  Each step leaves nothing that a later one needs: whoever sends a reply finds a
 *   closed connection at worst.
 *
 *   Requests in flight are looked at now and then: a request that told us when it ends
 *   would pay for that every time.
 *
 * LOCKS      `lock` guards state, URL and listener; it is a leaf, and not held while anything
 *   is waited for.
 */
#include <stdio.h>
#include <string.h>

#include <spindle/url_pool.h>

#include "base/options.h"
#include "base/time.h"
#include "config/problem.h"
#include "rpc/request.h"
#include "rpc/serving.h"
#include "rpc/settings.h"

enum { LATENCY_EVERY = 16, UNWRITTEN_MIB = 16 };
#define LINGER_NS SPN_SEC(1)

/* ---- what the URL says ------------------------------------------------------------ */

/* All of it that is not the pool's or the dispatcher's. */
static int read_settings(spn_server *server, const spn_url *url, spn_problem *problem)
{
    struct spn__endpoint *endpoint = &server->endpoint;
    struct spn__silence silence;
    int32_t payload, accepts, frame;
    int rc;

    if ((rc = spn__setting(url, "payload", SPN__PAYLOAD, &payload, problem)) !=
            SPN_OK ||
        (rc = spn__setting(url, "accepts", 0, &accepts, problem)) != SPN_OK ||
        (rc = spn__setting(url, "frame.timeout", SPN__FRAME_MS, &frame, problem)) !=
            SPN_OK ||
        (rc = spn__silence_read(url, &silence, problem)) != SPN_OK)
        return rc;
    rc = spn_url_io_threads(url, &server->io_threads);
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "iothreads=%s is no number that fits",
                           spn_url_get(url, "iothreads"));
    endpoint->payload = payload > 0 ? payload : INT32_MAX;
    endpoint->frame_ns = frame > 0 ? SPN_MS((int64_t)frame) : 0;
    spn__init(&endpoint->accepts, accepts);
    spn__init(&endpoint->heartbeat_ns, silence.heartbeat_ns);
    spn__init(&endpoint->close_ns, silence.close_ns);
    server->send_read_only = spn_url_get_bool(url, "channel.readonly.send", 1) != 0;
    return SPN_OK;
}

/* Threads of the pool are called after the address, unless the URL has a name for them. */
static int name_threads(const spn_url *url, spn_url **out)
{
    char name[160];

    (void)snprintf(name, sizeof name, "DubboServerHandler-%s:%d",
                   spn_url_host(url) != NULL ? spn_url_host(url) : "127.0.0.1",
                   (int)spn_url_port(url));
    return spn_url_set_absent(url, "threadname", name, out);
}

/* ---- making one ---------------------------------------------------------------------- */

static void chain(spn_server *server)
{
    server->multi_message =
        (struct spn__handler){ &spn__multi_message_ops, &server->heartbeat };
    server->heartbeat =
        (struct spn__handler){ &spn__heartbeat_ops, &server->dispatch.handler };
    server->decode = (struct spn__handler){ &spn__decode_ops, &server->exchange };
    server->exchange = (struct spn__handler){ &spn__serve_ops, NULL };
    server->endpoint.chain = &server->multi_message;
    server->endpoint.message = spn__request_create;
}

/* The timer's tick: fine enough for the shortest of its times, and no finer than that
 * needs. */
static int make_timer(spn_server *server)
{
    const int64_t frame_ns = server->endpoint.frame_ns;
    int64_t shortest_ns =
        spn__load(&server->endpoint.close_ns, relaxed); /* nobody else is there yet */
    spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    thread.name = "rpc-idle";
    opts.thread = &thread;
    if (shortest_ns <= 0 || (frame_ns > 0 && frame_ns < shortest_ns))
        shortest_ns = frame_ns;
    opts.tick_ns = shortest_ns / 32;
    if (opts.tick_ns < SPN_MS(2))
        opts.tick_ns = SPN_MS(2);
    if (opts.tick_ns > SPN_SEC(1))
        opts.tick_ns = SPN_SEC(1);
    opts.shards = 1;
    return spn_timer_create(&server->timer, &opts);
}

static int make_owned(spn_server *server, const spn_server_opts *opts,
                      spn_problem *problem)
{
    spn_repository_opts repository = SPN_REPOSITORY_OPTS_INIT;
    int rc = SPN_OK;

    server->extensions = opts->extensions;
    server->repository = opts->repository;
    if (server->extensions == NULL) {
        rc = spn_extensions_create(&server->own_extensions, NULL);
        server->extensions = server->own_extensions;
    }
    if (rc == SPN_OK)
        rc = spn_dispatchers_register(server->extensions, problem);
    if (rc == SPN_OK && server->repository == NULL) {
        repository.extensions = server->extensions;
        rc = spn_repository_create(&server->own_repository, &repository);
        server->repository = server->own_repository;
    }
    return rc;
}

static void free_server(spn_server *server)
{
    spn__dispatch_fini(&server->dispatch);
    if (server->own_repository != NULL) {
        if (spn_repository_destroy_all(server->own_repository, 0) == SPN_OK)
            (void)spn_repository_destroy(server->own_repository);
    }
    (void)spn_extensions_destroy(server->own_extensions);
    (void)spn_timer_destroy(server->timer);
    spn_histogram_destroy(server->latency);
    spn__services_fini(&server->services);
    spn__endpoint_fini(&server->endpoint);
    spn_url_unref(server->url);
    spn__free(server);
}

int spn__server_create_on(spn_server **out, const char *text,
                          const spn_server_opts *given,
                          struct spn__transport *transport, spn_problem *problem)
{
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;
    spn_server *server;
    spn_url *url;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (text == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no URL");
    if (given != NULL && spn__options_copy(&opts, sizeof opts, given) != SPN_OK)
        return spn__refuse(problem, SPN_EINVAL, 0, "the options are wrong");
    rc = spn_url_parse(&url, text, problem);
    if (rc != SPN_OK)
        return rc;
    server = spn__alloc(sizeof *server);
    if (server == NULL) {
        spn_url_unref(url);
        return SPN_ENOMEM;
    }
    memset(server, 0, sizeof *server);
    spn__endpoint_init(&server->endpoint);
    spn__lock_init(&server->lock);
    spn__init(&server->port, 0);
    server->transport = transport;
    server->owns_transport = transport == NULL;
    server->event = opts.event;
    server->ctx = opts.ctx;
    server->run_expired = opts.run_expired != 0;
    server->latency_every = opts.latency_every > 0 ? opts.latency_every : LATENCY_EVERY;
    server->endpoint.max_unwritten =
        opts.max_unwritten > 0 ? opts.max_unwritten : (size_t)UNWRITTEN_MIB << 20;
    chain(server);
    rc = name_threads(url, &server->url);
    spn_url_unref(url);
    if (rc == SPN_OK)
        rc = spn__services_init(&server->services);
    if (rc == SPN_OK)
        rc = spn_histogram_create(&server->latency);
    if (rc == SPN_OK)
        rc = read_settings(server, server->url, problem);
    if (rc == SPN_OK)
        rc = make_timer(server);
    if (rc == SPN_OK)
        rc = make_owned(server, &opts, problem);
    if (rc == SPN_OK)
        rc = spn__dispatch_init(&server->dispatch, &server->endpoint, &server->decode,
                                server->extensions, server->repository, server->url,
                                problem);
    if (rc != SPN_OK) {
        free_server(server);
        return rc;
    }
    server->endpoint.timer = server->timer;
    *out = server;
    return SPN_OK;
}

int spn_server_create(spn_server **out, const char *url, const spn_server_opts *opts,
                      spn_problem *problem)
{
    return spn__server_create_on(out, url, opts, NULL, problem);
}

/* ---- listening --------------------------------------------------------------------------- */

static void set_state(spn_server *server, enum spn__server_state state)
{
    spn__lock(&server->lock);
    server->state = state;
    spn__unlock(&server->lock);
}

/* The host without the brackets of an IPv6 address; NULL: all addresses. */
static const char *host_of(const spn_url *url, char *room, size_t size)
{
    if (spn_url_get_bool(url, "anyhost", 0))
        return NULL;
    if (spn_url_host(url) == NULL)
        return "127.0.0.1"; /* nobody asked for more */
    return spn__host_of(url, room, size);
}

/* The URL gets the port that was found. */
static int note_port(spn_server *server, int port)
{
    spn_url_parts parts = SPN_URL_PARTS_INIT;
    spn_url *url, *old;
    int rc;

    parts.base = server->url;
    parts.port = port;
    rc = spn_url_create(&url, &parts, NULL);
    if (rc != SPN_OK)
        return rc;
    spn__lock(&server->lock);
    old = server->url;
    server->url = url;
    spn__unlock(&server->lock);
    spn_url_unref(old);
    spn__store(&server->port, port, relaxed); /* only a number */
    return SPN_OK;
}

static int listen_on(spn_server *server, spn_problem *problem)
{
    struct spn__transport_opts opts = {
        .loops = server->io_threads,
        .thread_name = "spn-io",
        .max_unwritten = server->endpoint.max_unwritten,
        .linger_ns = LINGER_NS,
    };
    char room[256];
    struct spn__listen_opts where = {
        .host = host_of(server->url, room, sizeof room),
        .port = spn_url_port(server->url),
    };
    int rc;

    if (server->owns_transport) {
        rc = spn__transport_create(&opts, &server->transport);
        if (rc != SPN_OK)
            return spn__refuse(problem, rc, 0, "iothreads=%d: %s",
                               (int)server->io_threads,
                               rc == SPN_EINVAL ? "so many cannot be had"
                                                : spn_status_text(rc));
    }
    rc = spn__transport_listen(server->transport, &where, &spn__channel_events,
                               &server->endpoint, &server->listener);
    if (rc != SPN_OK)
        (void)spn__refuse(problem, rc, 0, "cannot listen on %s port %d: %s",
                          where.host != NULL ? where.host : "any address", where.port,
                          rc == SPN_EINVAL
                              ? "it is no address; 127.0.0.1 is this machine alone, "
                                "0.0.0.0 all of its addresses"
                              : spn_status_text(rc));
    else
        rc = note_port(server, spn__listener_port(server->listener));
    if (rc == SPN_OK)
        return rc;
    if (server->listener != NULL)
        (void)spn__listener_close(server->listener);
    server->listener = NULL;
    if (server->owns_transport) {
        (void)spn__transport_stop(server->transport);
        (void)spn__transport_destroy(server->transport);
        server->transport = NULL;
    }
    return rc;
}

int spn_server_start(spn_server *server, spn_problem *problem)
{
    bool is_new;
    int rc;

    if (server == NULL)
        return SPN_EINVAL;
    spn__lock(&server->lock);
    is_new = server->state == SPN__SERVER_NEW;
    if (is_new)
        server->state = SPN__SERVER_STARTING;
    spn__unlock(&server->lock);
    if (!is_new)
        return spn__refuse(problem, SPN_ESTATE, 0, "the server was started before");
    rc = listen_on(server, problem);
    set_state(server, rc == SPN_OK ? SPN__SERVER_RUNNING : SPN__SERVER_NEW);
    return rc;
}

int spn_server_port(const spn_server *server)
{
    /* relaxed: only a number */
    return server != NULL ? spn__load(&((spn_server *)(uintptr_t)server)->port, relaxed)
                          : 0;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void send_read_only(void *ctx, struct spn__channel *channel)
{
    (void)ctx;
    (void)spn__channel_send_event(channel, SPN__FRAME_REQUEST, 0,
                                  (int64_t)spn__random(), "R");
}

static void add_in_flight(void *ctx, struct spn__channel *channel)
{
    *(uint64_t *)ctx += spn__channel_in_flight(channel);
}

static uint64_t in_flight(spn_server *server)
{
    uint64_t sum = 0;

    spn__endpoint_each(&server->endpoint, add_in_flight, &sum);
    return sum;
}

/* Waits until no request is in flight; false: the deadline came first. */
static bool await_quiet(spn_server *server, int64_t deadline_ns)
{
    int64_t pause = SPN_US(100);

    while (in_flight(server) > 0) {
        const int64_t left = deadline_ns - spn__now();

        if (left <= 0)
            return false;
        spn__pause(left < pause ? left : pause);
        if (pause < SPN_MS(5))
            pause *= 2;
    }
    return true;
}

static void cancel_channel(void *ctx, struct spn__channel *channel)
{
    (void)ctx;
    spn__channel_cancel(channel, SPN_ESHUTDOWN);
}

static void end_channel(void *ctx, struct spn__channel *channel)
{
    (void)ctx;
    spn__conn_end(channel->conn);
}

/* Connections end after what was written; those that do not are closed by the transport. */
static void end_channels(spn_server *server, int64_t deadline_ns)
{
    const int64_t linger = spn__time_add(spn__now(), LINGER_NS);
    int64_t pause = SPN_US(100);

    if (linger < deadline_ns)
        deadline_ns = linger;
    spn__endpoint_each(&server->endpoint, end_channel, NULL);
    while (spn__load(&server->endpoint.open, relaxed) > 0 && /* only a number */
           spn__now() < deadline_ns) {
        spn__pause(pause);
        if (pause < SPN_MS(5))
            pause *= 2;
    }
}

static int64_t left_until(int64_t deadline_ns)
{
    const int64_t left = deadline_ns - spn__now();

    return left > 0 ? left : 0;
}

/* What is behind the connections. */
static int stop_threads(spn_server *server, int64_t deadline_ns)
{
    int rc = SPN_OK, end;

    if (server->owns_transport && server->transport != NULL)
        rc = spn__transport_stop(server->transport);
    if (rc != SPN_OK)
        return rc;
    rc = spn_timer_stop(server->timer, NULL);
    if (rc != SPN_OK)
        return rc;
    rc = spn__dispatch_stop(&server->dispatch, left_until(deadline_ns));
    if (server->own_repository != NULL) {
        end =
            spn_repository_destroy_all(server->own_repository, left_until(deadline_ns));
        if (rc == SPN_OK)
            rc = end;
    }
    return rc;
}

static int stop(spn_server *server, int64_t deadline_ns)
{
    bool is_quiet;
    int rc;

    if (server->listener != NULL) {
        rc = spn__listener_close(server->listener);
        if (rc != SPN_OK)
            return rc; /* on one of its I/O threads */
        server->listener = NULL;
        /* relaxed: the list's lock orders it, which every look at the list takes; see
         * CLOSING in channel.c. */
        spn__store(&server->endpoint.closing, 1, relaxed);
        if (server->send_read_only)
            spn__endpoint_each(&server->endpoint, send_read_only, NULL);
    }
    is_quiet = await_quiet(server, deadline_ns);
    if (!is_quiet) /* methods that ask for their token end soon */
        spn__endpoint_each(&server->endpoint, cancel_channel, NULL);
    if (!is_quiet && server->dispatch.place[SPN_CHANNEL_REQUEST] == SPN_PLACE_IO)
        return SPN_ETIMEDOUT; /* a method has the I/O thread: it cannot be stopped */
    if (is_quiet)
        end_channels(server, deadline_ns);
    rc = stop_threads(server, deadline_ns);
    if (rc == SPN_OK && !is_quiet)
        rc = in_flight(server) > 0 ? SPN_ETIMEDOUT : SPN_OK;
    return rc;
}

int spn_server_stop(spn_server *server, int64_t timeout_ns)
{
    enum spn__server_state state;
    int rc;

    if (server == NULL)
        return SPN_EINVAL;
    if (spn_executor_is_inside(server->dispatch.executor) == 1)
        return SPN_EDEADLK;
    spn__lock(&server->lock);
    state = server->state;
    if (server->is_being_stopped)
        state = SPN__SERVER_STARTING; /* as busy as that */
    else if (state != SPN__SERVER_STARTING && state != SPN__SERVER_STOPPED) {
        server->is_being_stopped = true;
        server->state = SPN__SERVER_STOPPING;
    }
    spn__unlock(&server->lock);
    if (state == SPN__SERVER_STOPPED)
        return SPN_OK;
    if (state == SPN__SERVER_STARTING)
        return SPN_EBUSY;
    rc = stop(server, spn__deadline(spn__now(), timeout_ns));
    spn__lock(&server->lock);
    server->is_being_stopped = false;
    if (rc == SPN_OK)
        server->state = SPN__SERVER_STOPPED;
    else if (rc == SPN_EDEADLK)
        server->state = state;
    spn__unlock(&server->lock);
    return rc;
}

int spn_server_destroy(spn_server *server)
{
    bool is_busy;

    if (server == NULL)
        return SPN_OK;
    spn__lock(&server->lock);
    is_busy = server->state != SPN__SERVER_STOPPED && server->state != SPN__SERVER_NEW;
    spn__unlock(&server->lock);
    spn__lock(&server->endpoint.lock);
    is_busy = is_busy || !spn__list_empty(&server->endpoint.channels);
    spn__unlock(&server->endpoint.lock);
    if (is_busy)
        return SPN_EBUSY;
    if (server->owns_transport && server->transport != NULL) {
        const int rc = spn__transport_destroy(server->transport);

        if (rc != SPN_OK)
            return rc;
        server->transport = NULL;
    }
    free_server(server);
    return SPN_OK;
}

/* ---- services, and what may change ----------------------------------------------------------- */

int spn_server_export(spn_server *server, const spn_service *service,
                      spn_problem *problem)
{
    if (server == NULL || service == NULL)
        return SPN_EINVAL;
    return spn__services_export(&server->services, service, problem);
}

int spn_server_unexport(spn_server *server, const spn_service *service)
{
    if (server == NULL || service == NULL)
        return SPN_EINVAL;
    return spn__services_unexport(&server->services, service);
}

int spn_server_each_service(spn_server *server, spn_service_fn fn, void *ctx)
{
    if (server == NULL || fn == NULL)
        return SPN_EINVAL;
    spn__services_each(&server->services, fn, ctx);
    return SPN_OK;
}

/* Has the keys of `changes` in place of its own. */
static int merge(const spn_url *base, const spn_url *changes, spn_url **out)
{
    static const char *const keys[] = { "threads", "accepts", "heartbeat",
                                        "heartbeat.timeout", "close.timeout" };
    spn_url *url = spn_url_ref(base);
    int rc = SPN_OK;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && rc == SPN_OK; i++) {
        const char *value = spn_url_get(changes, keys[i]);
        spn_url *next;

        if (value == NULL)
            continue;
        rc = spn_url_set(url, keys[i], value, &next);
        if (rc == SPN_OK) {
            spn_url_unref(url);
            url = next;
        }
    }
    if (rc != SPN_OK) {
        spn_url_unref(url);
        url = NULL;
    }
    *out = url;
    return rc;
}

int spn_server_reset(spn_server *server, const char *text, spn_problem *problem)
{
    spn_url *changes, *old, *url = NULL;
    struct spn__silence silence;
    int32_t accepts;
    int rc;

    if (server == NULL || text == NULL)
        return SPN_EINVAL;
    rc = spn_url_parse(&changes, text, problem);
    if (rc != SPN_OK)
        return rc;
    old = spn_server_url(server);
    rc = merge(old, changes, &url);
    spn_url_unref(old);
    if (rc == SPN_OK)
        rc = spn__silence_read(url, &silence, problem);
    if (rc == SPN_OK)
        rc = spn__setting(url, "accepts", 0, &accepts, problem);
    if (rc == SPN_OK)
        rc = spn_url_pool_update(server->dispatch.pool, changes, problem);
    spn_url_unref(changes);
    if (rc != SPN_OK) {
        spn_url_unref(url);
        return rc;
    }
    /* relaxed, all: settings, each of which counts from its next use on. */
    spn__store(&server->endpoint.accepts, accepts, relaxed);
    spn__store(&server->endpoint.heartbeat_ns, silence.heartbeat_ns, relaxed);
    spn__store(&server->endpoint.close_ns, silence.close_ns, relaxed);
    spn__lock(&server->lock);
    old = server->url;
    server->url = url;
    spn__unlock(&server->lock);
    spn_url_unref(old);
    return SPN_OK;
}

spn_url *spn_server_url(spn_server *server)
{
    spn_url *url;

    if (server == NULL)
        return NULL;
    spn__lock(&server->lock);
    url = spn_url_ref(server->url);
    spn__unlock(&server->lock);
    return url;
}

spn_pool *spn_server_pool(spn_server *server)
{
    return server != NULL ? server->dispatch.pool : NULL;
}

spn_timer *spn_server_timer(spn_server *server)
{
    return server != NULL ? server->timer : NULL;
}

spn_repository *spn_server_repository(spn_server *server)
{
    return server != NULL ? server->repository : NULL;
}
