/* SPDX-License-Identifier: MIT */
/*
 * client.c - a client, put together from its URL, and taken apart in order.
 *
 * THE CHAIN
 *
 *     pin -> dispatch -> decode -> innermost
 *
 *   `pin` runs on the I/O thread, outside of the dispatch, for what must not wait for a
 *   pool: links learn of their connections, and the calls of a lost connection that have no
 *   reply yet end at once.  It also holds the call of a response while that is handed over:
 *   the thread that waits may be done with it, and free its executor, before that is over.
 *
 * CLOSING
 *   no new calls [closing]; those under way may end, until the deadline; the rest ends with
 *   SPN_ESHUTDOWN; then the connections with their loops, then the timer, then what the
 *   dispatcher and the pools still have.  [closing] see client_call.c.
 *
 *   [closer]  of all threads in close one goes on, acquire; what it did is released to the
 *             next.
 *
 * LOCKS      none of its own.
 */
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/options.h"
#include "base/time.h"
#include "config/problem.h"
#include "endpoint/drain.h"
#include "rpc/client/client_core.h"
#include "sync/pause.h"
#include "rpc/settings.h"

enum { TIMEOUT_MS = 1000, CONNECT_TIMEOUT_MS = 3000, UNWRITTEN_MIB = 16 };

/* ---- handlers ------------------------------------------------------------------------ */

static struct spn_client *client_of(spn_channel *channel)
{
    return (struct spn_client *)(void *)((char *)spn__stream_of(channel)->endpoint -
                                         offsetof(struct spn_client, endpoint));
}

static bool is_response(const struct spn__message *message)
{
    return !spn__frame_is_request(&message->frame) &&
           !spn__frame_is_event(&message->frame);
}

static void pin_connected(spn_handler *handler, spn_channel *channel)
{
    spn__links_opened(client_of(channel), spn__stream_of(channel));
    spn__handler_connected(handler->inner, channel);
}

static void pin_disconnected(spn_handler *handler, spn_channel *channel, int why)
{
    struct spn_client *client = client_of(channel);

    spn__links_closed(client, spn__stream_of(channel));
    (void)spn__calls_fail(client, spn__stream_of(channel), SPN__END_LOST, SPN_ECLOSED,
                          "the connection to the server was lost");
    spn__handler_disconnected(handler->inner, channel, why);
}

static int pin_received(spn_handler *handler, spn_channel *channel,
                        spn_message *message)
{
    struct spn__message *own = spn__message_of(message);
    struct spn__call *call =
        is_response(own) ? ((struct spn__response *)own)->call : NULL;
    int rc;

    if (call != NULL)
        spn__call_ref(call);
    rc = spn__handler_received(handler->inner, channel, message);
    if (call != NULL)
        spn__call_unref(call);
    return rc;
}

static const spn_handler_ops pin_ops = {
    .connected = pin_connected,
    .disconnected = pin_disconnected,
    .received = pin_received,
};

/* Tells the program, where the dispatcher says. */
static void tell(spn_channel *channel, spn_channel_event event, int why)
{
    struct spn_client *client = client_of(channel);
    spn_channel_info info;

    if (client->event == NULL)
        return;
    spn__frames_info(spn__stream_of(channel), why, &info);
    client->event(client->ctx, event, &info);
}

static void connected(spn_handler *handler, spn_channel *channel)
{
    (void)handler;
    tell(channel, SPN_CHANNEL_CONNECTED, SPN_OK);
}

static void disconnected(spn_handler *handler, spn_channel *channel, int why)
{
    (void)handler;
    tell(channel, SPN_CHANNEL_DISCONNECTED, why);
}

static void caught(spn_handler *handler, spn_channel *channel, int why)
{
    (void)handler;
    spn__log_limited(SPN_LOG_WARN, SPN_SEC(1), "rpc: a failure of %s: %s",
                     channel->remote, spn_status_text(why));
    tell(channel, SPN_CHANNEL_CAUGHT, why);
}

static void take_response(struct spn_client *client, struct spn__response *response)
{
    struct spn__call *call = response->call;

    response->settled = true;
    if (call == NULL || !spn__table_remove(&client->table, call)) {
        (void)spn__fetch_add(&client->late, 1, relaxed); /* only a number */
        spn__log_limited(SPN_LOG_WARN, SPN_SEC(10),
                         "rpc: a reply of %s came too late for its call",
                         spn__conn_remote(
                             spn__message_stream(&response->message)->conn));
        return;
    }
    if (response->reply != NULL) {
        spn_reply *reply = response->reply;

        response->reply = NULL; /* the caller's now */
        spn__call_reply(call, reply);
        return;
    }
    /* One in a foreign serialization was counted as a frame already. */
    if (spn__frame_serialization(&response->message.frame) == SPN__HESSIAN2)
        spn__count(&client->endpoint.counts, SPN__COUNT_BAD_BODIES, 1);
    spn__call_fail(call, SPN__END_REPLY, response->failure,
                   response->failure == SPN_ENOMEM ? "no memory for the reply"
                                                   : "the reply makes no sense");
}

static int received(spn_handler *handler, spn_channel *channel, spn_message *message)
{
    struct spn_client *client = client_of(channel);
    struct spn__stream *stream = spn__stream_of(channel);
    struct spn__message *own = spn__message_of(message);

    (void)handler;
    if (is_response(own)) {
        take_response(client, (struct spn__response *)own);
    } else if (spn__frame_is_event(&own->frame) && own->frame.length == 2 &&
               memcmp(own->body, "\001R", 2) == 0) {
        /* relaxed: the next call looks for a link that stands. */
        (void)spn__fetch_or(&stream->state, SPN__STREAM_READ_ONLY, relaxed);
        spn__links_closed(client, stream); /* calls under way go on there */
    } else if (spn__frame_is_request(&own->frame) &&
               spn__frame_is_two_way(&own->frame) &&
               !spn__frame_is_event(&own->frame)) {
        (void)spn__frames_answer(stream, &own->frame, SPN__STATUS_SERVICE_ERROR,
                                 "a client has no services", 0);
    }
    spn_message_release(message);
    return SPN_OK;
}

static const spn_handler_ops innermost_ops = {
    .connected = connected,
    .disconnected = disconnected,
    .received = received,
    .caught = caught,
};

/* Neither the pool nor the shared executor took it: it is handled on this thread, the I/O
 * thread as a rule, and the call has its reply all the same.  See client_reply.c. */
static void refused(void *ctx, spn_channel *channel, spn_message *message, int why)
{
    struct spn_client *client = ctx;

    (void)why; /* the pool's own count has it */
    if (is_response(spn__message_of(message)))
        (void)spn__handler_received(&client->decode, channel, message);
    else
        spn_message_release(message);
}

static void unopened(struct spn__endpoint *endpoint, struct spn__conn *conn, int why)
{
    struct spn_client *client =
        (struct spn_client *)(void *)((char *)endpoint -
                                      offsetof(struct spn_client, endpoint));

    (void)conn;
    spn__links_failed(client, spn__connect_status(why));
}

/* ---- making one ------------------------------------------------------------------------- */

static int read_settings(spn_client *client, spn_problem *problem)
{
    struct spn__endpoint *endpoint = &client->endpoint;
    const spn_url *url = client->url;
    struct spn__silence silence;
    int32_t payload, timeout, connect, connections;
    int rc;

    if (spn_url_host(url) == NULL || spn_url_port(url) <= 0)
        return spn__refuse(problem, SPN_EINVAL, 0, "the URL has no host and port");
    if ((rc = spn__setting(url, "payload", SPN__PAYLOAD, &payload, problem)) !=
            SPN_OK ||
        (rc = spn__setting(url, "timeout", TIMEOUT_MS, &timeout, problem)) != SPN_OK ||
        (rc = spn__setting(url, "connect.timeout", CONNECT_TIMEOUT_MS, &connect,
                           problem)) != SPN_OK ||
        (rc = spn__setting(url, "connections", 1, &connections, problem)) != SPN_OK ||
        (rc = spn__silence_read(url, &silence, problem)) != SPN_OK)
        return rc;
    if (connections > SPN__LINKS_MAX)
        return spn__refuse(problem, SPN_ERANGE, 0, "connections=%d: at most %d",
                           (int)connections, SPN__LINKS_MAX);
    client->link_count = connections > 0 ? connections : 1;
    client->timeout_ns = SPN_MS((int64_t)(timeout > 0 ? timeout : TIMEOUT_MS));
    client->connect_timeout_ns =
        SPN_MS((int64_t)(connect > 0 ? connect : CONNECT_TIMEOUT_MS));
    client->reconnects = spn_url_get_bool(url, NULL, "reconnect", 1) != 0;
    endpoint->payload = payload > 0 ? payload : INT32_MAX - SPN__FRAME_BYTES;
    spn__init(&endpoint->heartbeat_ns, silence.heartbeat_ns);
    spn__init(&endpoint->close_ns, silence.idle_ns);
    return SPN_OK;
}

static const struct spn__frames_protocol protocol = {
    .protocol = { .frame = spn__frames_take,
                  .ask = spn__frames_ask,
                  .unopened = unopened,
                  .ops = &spn__frames_channel_ops,
                  .frame_name = "frame.timeout",
                  .accepts_name = "accepts",
                  .busy_is_idle = true },
    .message = spn__response_create,
};

static void chain(spn_client *client)
{
    client->pin = (spn_handler){ &pin_ops, &client->dispatch.handler };
    client->decode = (spn_handler){ &spn__decode_ops, &client->innermost };
    client->innermost = (spn_handler){ &innermost_ops, NULL };
    client->dispatch.counts = &client->endpoint.counts;
    client->dispatch.refused = refused;
    client->dispatch.ctx = client;
    client->endpoint.chain = &client->pin;
    client->endpoint.protocol = &protocol.protocol;
    client->endpoint.is_client = true;
}

/* The URL, with what a client's pool is found by. */
static int consumer_url(const char *text, spn_url **out, spn_problem *problem)
{
    spn_url *url, *with_side;
    int rc = spn_url_parse(&url, text, problem);

    *out = NULL;
    if (rc != SPN_OK)
        return rc;
    rc = spn_url_set(url, "side", "consumer", &with_side);
    spn_url_unref(url);
    if (rc != SPN_OK)
        return rc;
    rc = spn_url_set_absent(with_side, "threadname", "DubboClientHandler", out);
    spn_url_unref(with_side);
    return rc;
}

static int make_owned(spn_client *client, const spn_client_opts *opts,
                      spn_problem *problem)
{
    spn_repository_opts repository = SPN_REPOSITORY_OPTS_INIT;
    int rc = SPN_OK;

    client->extensions = opts->extensions;
    client->repository = opts->repository;
    if (client->extensions == NULL) {
        rc = spn_extensions_create(&client->own_extensions, NULL);
        client->extensions = client->own_extensions;
    }
    if (rc == SPN_OK)
        rc = spn_dispatchers_register(client->extensions, problem);
    if (rc == SPN_OK && client->repository == NULL) {
        repository.extensions = client->extensions;
        rc = spn_repository_create(&client->own_repository, &repository);
        client->repository = client->own_repository;
    }
    return rc;
}

/* Timeouts end on this timer's thread: a millisecond is fine enough, and idle it costs
 * nothing. */
static int make_timer(spn_client *client)
{
    spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    thread.name = "rpc-timeouts";
    opts.thread = &thread;
    opts.tick_ns = SPN_MS(1);
    return spn_timer_create(&client->timer, &opts);
}

static int make_transport(spn_client *client)
{
    const struct spn__transport_opts opts = {
        .loops = 1,
        .thread_name = "spn-client-io",
        .max_unwritten = client->endpoint.max_unwritten,
    };

    return client->transport != NULL ? SPN_OK
                                     : spn__transport_create(&opts, &client->transport);
}

static void free_client(spn_client *client)
{
    spn__dispatch_fini(&client->dispatch);
    if (client->own_repository != NULL &&
        spn_repository_destroy_all(client->own_repository, 0) == SPN_OK)
        (void)spn_repository_destroy(client->own_repository);
    (void)spn_extensions_destroy(client->own_extensions);
    if (client->owns_transport && client->transport != NULL) {
        (void)spn__transport_stop(client->transport);
        (void)spn__transport_destroy(client->transport);
    }
    (void)spn_timer_destroy(client->timer); /* stopped, or never started */
    spn_future_unref(client->first);
    spn__table_fini(&client->table);
    spn__endpoint_fini(&client->endpoint);
    spn_url_unref(client->url);
    spn__free(client);
}

static void init(spn_client *client, const spn_client_opts *opts)
{
    memset(client, 0, sizeof *client);
    spn__endpoint_init(&client->endpoint);
    spn__table_init(&client->table);
    spn__init(&client->next_id, (int64_t)(spn__random() >> 1));
    spn__init(&client->next_link, 0);
    spn__init(&client->closing, 0);
    spn__init(&client->closer, 0);
    spn__init(&client->pending, 0);
    client->ending.ops = NULL;
    client->process = spn__os_process();
    spn__init(&client->calls, 0);
    spn__init(&client->one_way, 0);
    spn__init(&client->late, 0);
    spn__init(&client->failures, 0);
    for (int i = 0; i < SPN__ENDS; i++)
        spn__init(&client->ends[i], 0);
    for (int i = 0; i < SPN__LINKS_MAX; i++)
        spn__link_init(&client->links[i], client);
    client->endpoint.max_unwritten =
        opts->max_unwritten > 0 ? opts->max_unwritten : (size_t)UNWRITTEN_MIB << 20;
    client->event = opts->event;
    client->ctx = opts->ctx;
    chain(client);
}

/* All but the connection. */
static int assemble(spn_client *client, const spn_client_opts *opts, const char *text,
                    spn_problem *problem)
{
    int rc = consumer_url(text, &client->url, problem);

    if (rc == SPN_OK)
        rc = read_settings(client, problem);
    if (rc == SPN_OK)
        rc = spn_future_create(&client->first, NULL);
    if (rc == SPN_OK)
        rc = make_timer(client);
    if (rc == SPN_OK)
        rc = make_owned(client, opts, problem);
    if (rc == SPN_OK) {
        client->dispatch.repository = client->repository;
        rc = spn__dispatch_init(&client->dispatch, &client->decode, client->extensions,
                                client->url, problem);
    }
    if (rc == SPN_OK)
        rc = make_transport(client);
    if (rc == SPN_OK)
        client->endpoint.timer = client->timer;
    return rc;
}

/* Connects, and waits for the first connection. */
static int connect_first(spn_client *client, spn_problem *problem)
{
    spn_outcome outcome;
    int rc;

    for (int i = 0; i < client->link_count; i++)
        spn__link_connect(&client->links[i]);
    rc = spn_future_get(client->first, NULL, client->connect_timeout_ns + SPN_SEC(1));
    if (rc == SPN_EFAILED && spn_future_result(client->first, &outcome) == rc)
        rc = outcome.code;
    if (rc == SPN_OK || !spn_url_get_bool(client->url, NULL, "check", 1))
        return SPN_OK;
    return spn__refuse(problem, rc, 0, "no connection to %s port %d: %s",
                       spn_url_host(client->url), (int)spn_url_port(client->url),
                       spn_status_text(rc));
}

static int close_client(spn_client *client, int64_t timeout_ns);

int spn__client_create_on(spn_client **out, const char *url,
                          const spn_client_opts *given,
                          struct spn__transport *transport, spn_problem *problem)
{
    spn_client_opts opts = SPN_CLIENT_OPTS_INIT;
    spn_client *client;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (url == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no URL");
    if (given != NULL && spn__options_copy(&opts, sizeof opts, given) != SPN_OK)
        return spn__refuse(problem, SPN_EINVAL, 0, "the options are wrong");
    client = spn__alloc(sizeof *client);
    if (client == NULL)
        return SPN_ENOMEM;
    init(client, &opts);
    client->transport = transport;
    client->owns_transport = transport == NULL;
    rc = assemble(client, &opts, url, problem);
    if (rc != SPN_OK) {
        free_client(client);
        return rc;
    }
    if (!spn_url_get_bool(client->url, NULL, "lazy", 0))
        rc = connect_first(client, problem);
    if (rc != SPN_OK) {
        /* Also inside of a pool that is the program's, which goes on. */
        if (close_client(client, SPN_FOREVER) == SPN_OK)
            (void)spn_client_destroy(client);
        return rc;
    }
    *out = client;
    return SPN_OK;
}

int spn_client_create(spn_client **out, const char *url, const spn_client_opts *opts,
                      spn_problem *problem)
{
    return spn__client_create_on(out, url, opts, NULL, problem);
}

/* ---- the end ------------------------------------------------------------------------------- */

static int64_t left_until(int64_t deadline_ns)
{
    const int64_t left = deadline_ns - spn__now();

    return left > 0 ? left : 0;
}

/* Waits until no call is pending; false: the deadline came first.  It looks now and then:
 * a call that told us when it ends would have to touch the client after it is counted
 * out. */
static bool await_calls(spn_client *client, int64_t deadline_ns)
{
    int64_t pause_ns = 0;

    /* seq_cst: [closing] after closing was set; an acquire for [ended].
     * mutant: half of a pair; to the explorer the store before it is a fence, too */
    while (spn__load(&client->pending, seq_cst) > 0) {
        const int64_t left = left_until(deadline_ns);

        if (left == 0)
            return false;
        spn__pause_longer(&pause_ns, left);
    }
    return true;
}

/* Ends the calls that are left, and waits for those whose end is under way; how many it
 * ended.  It looks more than once: a call that was counted in before [closing] may be
 * listed only now, and its timeout is not waited for. */
static size_t cut_off(spn_client *client)
{
    size_t count = 0;

    do
        count += spn__calls_fail(client, NULL, SPN__END_CANCELLED, SPN_ESHUTDOWN,
                                 "the client was closed");
    while (!await_calls(client, spn__deadline(spn__now(), SPN_MS(1))));
    return count;
}

static void end_stream(void *ctx, struct spn__stream *stream)
{
    (void)ctx;
    spn__conn_close(stream->conn, SPN_ECLOSED);
}

static int stop_threads(spn_client *client, int64_t deadline_ns)
{
    spn_timeout *left = NULL, *timeout;
    int rc, end;

    if (client->owns_transport)
        rc = spn__transport_stop(client->transport);
    else
        rc = (spn__endpoint_each(&client->endpoint, end_stream, NULL), SPN_OK);
    if (rc == SPN_OK)
        rc = spn_timer_stop(client->timer, &left, NULL);
    if (rc != SPN_OK)
        return rc;
    while ((timeout = spn_timeout_pop(&left)) != NULL)
        if (!spn__links_forget(client, timeout))
            spn__call_forget(timeout);
    rc = spn__dispatch_stop(&client->dispatch, left_until(deadline_ns));
    if (client->own_repository != NULL) {
        end =
            spn_repository_destroy_all(client->own_repository, left_until(deadline_ns));
        if (rc == SPN_OK)
            rc = end;
    }
    return rc;
}

static int close_client(spn_client *client, int64_t timeout_ns)
{
    const int64_t deadline_ns = spn__deadline(spn__now(), timeout_ns);
    bool all_ended;
    int rc;

    if (client->closed)
        return SPN_OK;
    /* [closing] before the look.  mutant: half of a pair */
    spn__store(&client->closing, 1, seq_cst);
    all_ended = await_calls(client, deadline_ns) || cut_off(client) == 0;
    rc = stop_threads(client, deadline_ns);
    if (rc != SPN_OK)
        return rc;
    client->closed = true;
    return all_ended ? SPN_OK : SPN_ETIMEDOUT;
}

int spn_client_close(spn_client *client, int64_t timeout_ns)
{
    const int64_t deadline_ns = spn__deadline(spn__now(), timeout_ns);
    int rc;

    if (client == NULL)
        return SPN_EINVAL;
    if (client->process != spn__os_process() && !client->closed)
        return SPN_ESTATE; /* in the child of a fork: the threads are the parent's */
    if (spn_executor_is_inside(client->dispatch.executor) == 1 ||
        spn_executor_is_inside(&client->ending) == 1)
        return SPN_EDEADLK;
    /* [closer] mutant: what it hands on is plain memory */
    if (spn__exchange(&client->closer, 1, acquire) != 0)
        return SPN_EBUSY;
    rc = close_client(client, timeout_ns);
    /* A pool that goes on, of a repository that the program gave, may still run an event of
     * its connections, or be about to. */
    if (client->closed && !spn__drain_await_handlers(&client->endpoint, deadline_ns))
        rc = SPN_ETIMEDOUT;
    spn__store(&client->closer, 0, release); /* [closer] mutant: as before */
    return rc;
}

int spn_client_destroy(spn_client *client)
{
    if (client == NULL)
        return SPN_OK;
    if (!client->closed || spn__links_busy(client) ||
        spn__endpoint_has_streams(&client->endpoint))
        return SPN_EBUSY;
    if (client->owns_transport) {
        const int rc = spn__transport_destroy(client->transport);

        if (rc != SPN_OK)
            return rc;
        client->transport = NULL;
    }
    free_client(client);
    return SPN_OK;
}

/* ---- what goes on ----------------------------------------------------------------------------- */

static void count_read_only(void *ctx, struct spn__stream *stream)
{
    /* relaxed: out of date a moment later anyway. */
    if ((spn__load(&stream->state, relaxed) & SPN__STREAM_READ_ONLY) != 0)
        (*(uint32_t *)ctx)++;
}

int spn_client_stats_get(spn_client *client, spn_client_stats *stats)
{
    spn_client_stats s;
    struct spn__counts *counts;

    if (client == NULL || stats == NULL)
        return SPN_EINVAL;
    counts = &client->endpoint.counts;
    memset(&s, 0, sizeof s);
    /* relaxed, all: numbers, exact when nothing is under way. */
    s.connections = (uint64_t)spn__load(&client->endpoint.open, relaxed);
    s.connects = spn__counts_sum(counts, SPN__COUNT_ACCEPTED);
    s.failures = spn__load(&client->failures, relaxed);
    s.calls = spn__load(&client->calls, relaxed);
    s.pending = (uint64_t)spn__load(&client->pending, relaxed);
    s.replies = spn__load(&client->ends[SPN__END_REPLY], relaxed);
    s.timeouts = spn__load(&client->ends[SPN__END_TIMEOUT], relaxed);
    s.lost = spn__load(&client->ends[SPN__END_LOST], relaxed);
    s.cancelled = spn__load(&client->ends[SPN__END_CANCELLED], relaxed);
    s.one_way = spn__load(&client->one_way, relaxed);
    s.late = spn__load(&client->late, relaxed);
    s.bad = spn__counts_sum(counts, SPN__COUNT_BAD_FRAMES) +
            spn__counts_sum(counts, SPN__COUNT_BAD_BODIES);
    s.bytes_in = spn__counts_sum(counts, SPN__COUNT_BYTES_IN);
    s.bytes_out = spn__counts_sum(counts, SPN__COUNT_BYTES_OUT);
    spn__endpoint_each(&client->endpoint, count_read_only, &s.read_only);
    return spn__output_copy(stats, &s, sizeof s);
}
