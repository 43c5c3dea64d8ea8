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
 * STOPPING   listener, then clients are told ("R"), then connections end, then the loops,
 *   the timer, the dispatcher's thread, and the pools, and then the channels that handlers
 *   still hold.  Each step leaves nothing that a later one needs: whoever sends a reply
 *   finds a closed connection at worst.
 *
 *   How connections end is in endpoint/drain.c.
 *
 * LOCKS      `lock` guards state, URL and listener; it is a leaf, and not held while anything
 *   is waited for.
 */
#include <stdio.h>
#include <string.h>

#include <spindle/url_pool.h>

#include "base/cpu.h"
#include "base/options.h"
#include "base/time.h"
#include "config/problem.h"
#include "endpoint/drain.h"
#include "rpc/server/request.h"
#include "rpc/server/serving.h"
#include "rpc/settings.h"

enum { LATENCY_EVERY = 16, UNWRITTEN_MIB = 16 };
#define LINGER_NS         SPN_SEC(1)
#define MEMORY_BY_MACHINE UINT64_MAX

/* ---- what the URL says ------------------------------------------------------------ */

/* Of each of these there is one.  Another that a URL asks for is refused. */
static int check_only(const spn_url *url, spn_problem *problem)
{
    static const char *const only[][2] = {
        { "transporter", "uv" },
        { "server", "uv" },
        { "serialization", "hessian2" },
        { "codec", "dubbo" },
    };

    for (size_t i = 0; i < sizeof only / sizeof *only; i++) {
        const char *key = only[i][0], *ours = only[i][1];
        const char *value = spn_url_get_string(url, NULL, key, ours);

        if (strcmp(value, ours) != 0)
            return spn__refuse(problem, SPN_EEMPTY, 0,
                               "there is no %s '%.80s'; there is: %s", key, value,
                               ours);
    }
    return SPN_OK;
}

/* All of it that is not the pool's or the dispatcher's. */
static int read_settings(spn_server *server, const spn_url *url, spn_problem *problem)
{
    struct spn__endpoint *endpoint = &server->endpoint;
    struct spn__silence silence;
    int32_t payload, accepts, frame;
    uint64_t memory;
    int rc;

    if ((rc = check_only(url, problem)) != SPN_OK ||
        (rc = spn__setting(url, "payload", SPN__PAYLOAD, &payload, problem)) !=
            SPN_OK ||
        (rc = spn__setting(url, "accepts", 0, &accepts, problem)) != SPN_OK ||
        (rc = spn__setting(url, "frame.timeout", SPN__FRAME_MS, &frame, problem)) !=
            SPN_OK ||
        (rc = spn__setting_bytes(url, "memory", MEMORY_BY_MACHINE, &memory, problem)) !=
            SPN_OK ||
        (rc = spn__silence_read(url, &silence, problem)) != SPN_OK)
        return rc;
    spn__budget_init(&endpoint->budget,
                     memory != MEMORY_BY_MACHINE ? memory : spn__memory_limit() / 4);
    rc = spn_url_io_threads(url, &server->io_threads);
    if (rc != SPN_OK)
        return spn__refuse(problem, rc, 0, "iothreads=%s is no number that fits",
                           spn_url_get(url, NULL, "iothreads"));
    endpoint->payload = payload > 0 ? payload : INT32_MAX;
    endpoint->frame_ns = frame > 0 ? SPN_MS((int64_t)frame) : 0;
    spn__init(&endpoint->accepts, accepts);
    spn__init(&endpoint->heartbeat_ns, silence.heartbeat_ns);
    spn__init(&endpoint->close_ns, silence.close_ns);
    server->send_read_only =
        spn_url_get_bool(url, NULL, "channel.readonly.send", 1) != 0;
    return SPN_OK;
}

/* The host without the brackets of an IPv6 address; NULL: all addresses. */
static const char *host_of(const spn_url *url, char *room, size_t size)
{
    if (spn_url_get_bool(url, NULL, "anyhost", 0))
        return NULL;
    if (spn_url_host(url) == NULL)
        return "127.0.0.1"; /* nobody asked for more */
    return spn__host_of(url, room, size);
}

static int url_with_port(const spn_url *url, int port, spn_url **out)
{
    spn_url_parts parts = SPN_URL_PARTS_INIT;

    parts.base = url;
    parts.port = port;
    return spn_url_create(out, &parts, NULL);
}

/* Port 0: takes the port now, so that threads and reports are called after it.  Where none
 * is to be had, start says so. */
static int reserve_port(spn_server *server, spn_url **url)
{
    char room[256];
    const struct spn__listen_opts where = { .host = host_of(*url, room, sizeof room) };
    spn_url *found;
    int port, rc;

    if (spn_url_port(*url) != 0 || !server->owns_transport)
        return SPN_OK;
    if (spn__net_reserve(&where, &server->bound, &port) != SPN_OK) {
        server->bound = -1;
        return SPN_OK;
    }
    rc = url_with_port(*url, port, &found);
    if (rc == SPN_OK) {
        spn_url_unref(*url);
        *url = found;
    }
    return rc;
}

static void drop_port(spn_server *server)
{
    if (server->bound >= 0)
        spn__net_release(server->bound);
    server->bound = -1;
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

static void refused(void *ctx, spn_channel *channel, spn_message *message, int why)
{
    struct spn__message *own = spn__message_of(message);

    (void)ctx;
    (void)channel;
    if (spn__frame_is_event(&own->frame))
        spn_message_release(message); /* the pool's own count has it */
    else
        spn__request_refused((spn_request *)(void *)own, why);
}

static const struct spn__frames_protocol protocol = {
    .protocol = { .frame = spn__frames_take,
                  .crowded = spn__frames_crowded,
                  .ops = &spn__frames_channel_ops,
                  .frame_name = "frame.timeout",
                  .accepts_name = "accepts",
                  .busy_is_idle = true },
    .message = spn__request_create,
};

/* dispatch -> decode -> exchange */
static void chain(spn_server *server)
{
    server->decode = (spn_handler){ &spn__decode_ops, &server->exchange };
    server->exchange = (spn_handler){ &spn__serve_ops, NULL };
    server->dispatch.counts = &server->endpoint.counts;
    server->dispatch.has_limits = true;
    server->dispatch.refused = refused;
    server->endpoint.chain = &server->dispatch.handler;
    server->endpoint.protocol = &protocol.protocol;
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
    drop_port(server);
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
    spn__init(&server->process, 0);
    spn__init(&server->accepts_unset, 0);
    server->transport = transport;
    server->owns_transport = transport == NULL;
    server->bound = -1;
    server->event = opts.event;
    server->ctx = opts.ctx;
    server->run_expired = opts.run_expired != 0;
    server->latency_every = opts.latency_every > 0 ? opts.latency_every : LATENCY_EVERY;
    server->endpoint.max_unwritten =
        opts.max_unwritten > 0 ? opts.max_unwritten : (size_t)UNWRITTEN_MIB << 20;
    server->endpoint.tells_sent = opts.event != NULL;
    chain(server);
    rc = reserve_port(server, &url);
    if (rc == SPN_OK)
        rc = name_threads(url, &server->url);
    spn_url_unref(url);
    if (rc == SPN_OK)
        rc = spn__services_init(&server->services);
    if (rc == SPN_OK)
        rc = spn_histogram_create(&server->latency);
    if (rc == SPN_OK)
        rc = read_settings(server, server->url, problem);
    if (rc == SPN_OK)
        rc = spn__idle_timer_create(&server->endpoint, "rpc-idle", &server->timer);
    if (rc == SPN_OK)
        rc = make_owned(server, &opts, problem);
    if (rc == SPN_OK) {
        server->dispatch.repository = server->repository;
        rc = spn__dispatch_init(&server->dispatch, &server->decode, server->extensions,
                                server->url, problem);
    }
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

/* The URL gets the port that was found. */
static int note_port(spn_server *server, int port)
{
    spn_url *url, *old;
    const int rc = url_with_port(server->url, port, &url);

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
        .budget = &server->endpoint.budget,
    };
    char room[256];
    struct spn__listen_opts where = {
        .host = host_of(server->url, room, sizeof room),
        .port = spn_url_port(server->url),
        .bound = server->bound >= 0 ? &server->bound : NULL,
    };
    int32_t room_left, accepts;
    int rc;

    if (server->owns_transport) {
        rc = spn__transport_create(&opts, &server->transport);
        if (rc != SPN_OK)
            return spn__refuse(problem, rc, 0, "iothreads=%d: %s",
                               (int)server->io_threads,
                               rc == SPN_EINVAL ? "so many cannot be had"
                                                : spn_status_text(rc));
    }
    room_left = spn__transport_room(server->transport);
    /* relaxed, both: settings.  create has read the URL's, which is right. */
    spn__store(&server->accepts_unset, room_left, relaxed);
    if (spn__setting(server->url, "accepts", room_left, &accepts, NULL) == SPN_OK)
        spn__store(&server->endpoint.accepts, accepts, relaxed);
    rc = spn__transport_listen(server->transport, &where, &spn__stream_events,
                               &server->endpoint, &server->listener);
    if (rc == SPN_OK)
        server->bound = -1; /* the listener has it */
    if (rc != SPN_OK)
        (void)spn__refuse(
            problem, rc, 0, "cannot listen on %s port %d: %s",
            where.host != NULL ? where.host : "any address", where.port,
            rc == SPN_EINVAL
                ? "it is no address of this machine; 127.0.0.1 is this machine alone, "
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
    spn__store(&server->process, spn__os_process(), relaxed); /* as in is_orphan */
    rc = listen_on(server, problem);
    if (rc != SPN_OK)
        spn__store(&server->process, 0, relaxed); /* as in is_orphan */
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

static void send_read_only(void *ctx, struct spn__stream *stream)
{
    (void)ctx;
    (void)spn__frames_send_event(stream, SPN__FRAME_REQUEST, 0, (int64_t)spn__random(),
                                 "R");
}

static int64_t left_until(int64_t deadline_ns)
{
    const int64_t left = deadline_ns - spn__now();

    return left > 0 ? left : 0;
}

/* In the child of a fork: whether the threads are the parent's. */
static bool is_orphan(spn_server *server)
{
    /* relaxed: a fork copies it, and it does not change in the child. */
    const int32_t process = spn__load(&server->process, relaxed);

    return process != 0 && process != spn__os_process();
}

/* What is behind the connections. */
static int stop_threads(spn_server *server, int64_t deadline_ns)
{
    int rc = SPN_OK, end;

    if (server->owns_transport && server->transport != NULL)
        rc = spn__transport_stop(server->transport);
    if (rc != SPN_OK)
        return rc;
    rc = spn_timer_stop(server->timer, NULL, NULL);
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
    struct spn__counts *counts = &server->endpoint.counts;
    const uint64_t cut_before = spn__counts_sum(counts, SPN__COUNT_CUT_OFF);
    bool is_quiet;
    int rc;

    if (server->listener != NULL) {
        rc = spn__listener_close(server->listener);
        if (rc != SPN_OK)
            return rc; /* on one of its I/O threads */
        server->listener = NULL;
        /* relaxed: the list's lock orders it, which every look at the list takes; see
         * CLOSING in stream.c. */
        spn__store(&server->endpoint.closing, 1, relaxed);
        if (server->send_read_only)
            spn__endpoint_each(&server->endpoint, send_read_only, NULL);
    }
    is_quiet = spn__drain_streams(&server->endpoint, deadline_ns,
                                  server->send_read_only ? SPN__DRAIN_UNTIL_QUIET
                                                         : SPN__DRAIN_UNTIL_IDLE);
    if (!is_quiet && server->dispatch.place[SPN_CHANNEL_REQUEST] == SPN_PLACE_IO)
        return SPN_ETIMEDOUT; /* a method has the I/O thread: it cannot be stopped */
    if (!is_quiet)
        spn__drain_cut_off(&server->endpoint);
    rc = stop_threads(server, deadline_ns);
    if (rc == SPN_OK &&
        (!spn__drain_await_handlers(&server->endpoint, deadline_ns) || !is_quiet ||
         spn__counts_sum(counts, SPN__COUNT_CUT_OFF) > cut_before))
        rc = SPN_ETIMEDOUT;
    return rc;
}

int spn_server_stop(spn_server *server, int64_t timeout_ns)
{
    enum spn__server_state state;
    int rc;

    if (server == NULL)
        return SPN_EINVAL;
    if (is_orphan(server))
        return SPN_ESTATE;
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
    if (rc == SPN_OK) {
        server->state = SPN__SERVER_STOPPED;
        spn__store(&server->process, 0, relaxed); /* as in is_orphan */
    } else if (rc == SPN_EDEADLK) {
        server->state = state;
    }
    spn__unlock(&server->lock);
    return rc;
}

int spn_server_destroy(spn_server *server)
{
    bool is_busy;

    if (server == NULL)
        return SPN_OK;
    if (is_orphan(server))
        return SPN_EBUSY; /* its loops share what they poll with the parent's */
    spn__lock(&server->lock);
    is_busy = server->state != SPN__SERVER_STOPPED && server->state != SPN__SERVER_NEW;
    spn__unlock(&server->lock);
    if (is_busy || spn__endpoint_has_streams(&server->endpoint))
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
        const char *value = spn_url_get(changes, NULL, keys[i]);
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
        rc = spn__setting(url, "accepts",
                          spn__load(&server->accepts_unset, relaxed), /* a number */
                          &accepts, problem);
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
