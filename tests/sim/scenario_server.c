/* SPDX-License-Identifier: MIT */
/*
 * scenario_server.c - a whole server on the explorer's network: every request it took is
 * answered or counted as dropped, once, whatever happens beside it; stop and destroy leave
 * nothing behind.
 *
 * The server has its own transport, timer and pool; the caller at the other end is made by
 * hand, from a few bytes for each frame, so that a schedule is spent on the server.  In one
 * scenario the library's client calls, and both ends count the same calls.
 */
#include "pool_calls.h"
#include "sim.h"

#include <string.h>

#include <spindle-rpc.h>
#include <spindle/log.h>

#include "net/gate.h"
#include "net/transport.h"
#include "net_sim.h"
#include "rpc/wire/frame.h"
#include "sync/seam.h"

enum { PORT = 7, REQUESTS_MAX = 12, HEARTBEAT_ID = 99, CLOSE_MS = 6, LARGE = 40000 };

#define ALL_IS_THERE "the last scenario is for failures"
#define URL          "dubbo://sim:7?iothreads=1&dump.enable=false"
#define STILL        "&heartbeat=0&frame.timeout=0" /* nothing happens by itself */
#define BEATS        "&heartbeat=3&heartbeat.timeout=6"
#define POOL         "&threadpool=fixed&threads=1&queues=-1"

/* ---- the service ------------------------------------------------------------------------- */

/* What its method does. */
enum plan {
    RETURNS,
    DEFERS,
    WAITS,
    RETURNS_LONG,
    RETURNS_LARGE,
    DROPS,
    ENDS_THREAD,
    LISTENS
};

static struct {
    enum plan plan;
    spn_server *server;
    spn_request *kept;       /* published by has_kept */
    struct spn__gate begun;  /* the method was called, or has deferred the request */
    struct spn__gate may_go; /* of WAITS */
    int connected, disconnected;
    SPN__ATOMIC(int) alive; /* 0: the service is gone */
    SPN__ATOMIC(int) runs;
    SPN__ATOMIC(int)
    returned, finished; /* relaxed marks: what it did is seen in time */
} site;

static int method(void *arg, spn_request *request)
{
    char large[LARGE];
    static const char words[] =
        "a reply that is a good deal longer than what a narrow network takes at a time";

    (void)arg;
    sim_assert(spn__load(&site.alive, relaxed) == 1);
    (void)spn__fetch_add(&site.runs, 1, relaxed);
    switch (site.plan) {
    case RETURNS:
        return 0;
    case RETURNS_LONG:
        return spn_request_return_text(request, words);
    case RETURNS_LARGE:
        memset(large, 'x', sizeof large);
        return spn_request_return_string(request, large, sizeof large);
    case WAITS:
        spn__gate_open(&site.begun);
        spn__gate_wait(&site.may_go);
        return 0;
    case DROPS:
        spn__gate_open(&site.begun);
        spn__store(&site.returned, 1, relaxed);
        return spn_request_drop(request);
    case DEFERS:
        sim_assert(spn_request_defer(request) == SPN_OK);
        site.kept = request;
        spn__gate_open(&site.begun);
        spn__store(&site.returned, 1, relaxed);
        return 0;
    case ENDS_THREAD:
        spn__gate_open(&site.begun);
        sim_exit();
    case LISTENS: {
        spn_cancel_token *token;
        int rc;

        spn__gate_open(&site.begun);
        token = spn_request_cancel_token(request);
        rc = spn_cancel_token_wait(token, SPN_FOREVER);

        /* EINTR: stop interrupts those that do not end. */
        sim_assert(rc == SPN_OK || rc == SPN_EINTR);
        sim_assert(rc == SPN_EINTR || spn_cancel_token_reason(token) == SPN_ECLOSED ||
                   spn_cancel_token_reason(token) == SPN_ESHUTDOWN);
        return 0;
    }
    }
    return SPN_EINVAL;
}

static const spn_method methods[] = { { "m", NULL, method, NULL } };
static const spn_service service = {
    .size = sizeof(spn_service), .interface = "a", .methods = methods, .method_count = 1
};

/* Connected and disconnected come in this order, whatever thread they are on. */
static void on_event(void *ctx, spn_channel_event event, const spn_channel_info *info)
{
    (void)ctx;
    (void)info;
    if (event == SPN_CHANNEL_CONNECTED)
        site.connected++;
    if (event == SPN_CHANNEL_DISCONNECTED) {
        sim_assert(site.connected > site.disconnected);
        site.disconnected++;
    }
}

/* Takes its time when a connection has gone. */
static void on_event_slowly(void *ctx, spn_channel_event event,
                            const spn_channel_info *info)
{
    on_event(ctx, event, info);
    if (event == SPN_CHANNEL_DISCONNECTED)
        sim_sleep(SPN_MS(100));
}

static int start_server_with(enum plan plan, const char *url,
                             const spn_server_opts *opts)
{
    int rc;

    (void)spn_log_set_level(SPN_LOG_OFF); /* a line per schedule */
    memset(&site, 0, sizeof site);
    site.plan = plan;
    spn__gate_init(&site.begun);
    spn__gate_init(&site.may_go);
    spn__init(&site.alive, 1);
    spn__init(&site.runs, 0);
    spn__init(&site.returned, 0);
    spn__init(&site.finished, 0);
    rc = spn_server_create(&site.server, url, opts, NULL);
    if (rc == SPN_OK)
        rc = spn_server_export(site.server, &service, NULL);
    if (rc == SPN_OK)
        rc = spn_server_start(site.server, NULL);
    return rc;
}

static void start_server(enum plan plan, const char *url)
{
    sim_assert(start_server_with(plan, url, NULL) == SPN_OK);
}

static spn_server_stats stats(void)
{
    spn_server_stats s = SPN_SERVER_STATS_INIT;

    sim_assert(spn_server_stats_get(site.server, &s) == SPN_OK);
    return s;
}

/* It is stopped, in order, and what came adds up. */
static void end_server(void)
{
    spn_server_stats s;
    int rc;

    do
        rc = spn_server_stop(site.server, SPN_SEC(1));
    while (rc == SPN_ETIMEDOUT); /* that second may be over early */
    sim_assert(rc == SPN_OK);
    s = stats();
    sim_assert(s.connections == 0 && s.in_flight == 0);
    sim_assert(s.requests == s.replies + s.dropped + s.one_way);
    sim_assert(s.memory_used == 0);
    rc = spn_server_destroy(site.server);
    sim_assert(rc == SPN_OK);
}

/* ---- the caller -------------------------------------------------------------------------- */

/* Its events come on one thread; the body looks when that is asleep or has ended. */
static struct caller {
    struct spn__transport *transport;
    struct spn__conn *conn;
    int requests; /* sent when the connection stands, numbered from 0 */
    int answers[REQUESTS_MAX], statuses[REQUESTS_MAX];
    int beats, read_only, why;
    int chain; /* so many more requests, each when the one before was answered */
    SPN__ATOMIC(int) closed; /* relaxed: the body may look at any time */
} callers[2];

/* A request for a.m(). */
static const char body[] = "\0052.0.2\001a\0050.0.0\001m\000HZ";
enum { ASKED = SPN__FRAME_BYTES + sizeof body - 1 };

/* So many, one frame after the other. */
static int ask(struct caller *c, int first, int count)
{
    unsigned char all[REQUESTS_MAX * (SPN__FRAME_BYTES + sizeof body)];
    struct spn__piece piece = { all, 0 };

    for (int i = 0; i < count; i++) {
        const struct spn__frame frame = {
            .flags = SPN__FRAME_REQUEST | SPN__FRAME_TWO_WAY | SPN__HESSIAN2,
            .id = first + i,
            .length = sizeof body - 1,
        };

        spn__frame_write(all + piece.size, &frame);
        memcpy(all + piece.size + SPN__FRAME_BYTES, body, sizeof body - 1);
        piece.size += SPN__FRAME_BYTES + sizeof body - 1;
    }
    return spn__conn_send(c->conn, &piece, 1, 0, NULL);
}

static void beat(struct caller *c)
{
    const struct spn__frame frame = {
        .flags =
            SPN__FRAME_REQUEST | SPN__FRAME_TWO_WAY | SPN__FRAME_EVENT | SPN__HESSIAN2,
        .id = HEARTBEAT_ID,
        .length = 1,
    };
    unsigned char bytes[SPN__FRAME_BYTES + 1];
    const struct spn__piece piece = { bytes, sizeof bytes };

    spn__frame_write(bytes, &frame);
    bytes[SPN__FRAME_BYTES] = 'N';
    (void)spn__conn_send(c->conn, &piece, 1, 0, NULL); /* or it has gone */
}

static int opened(void *context, struct spn__conn *conn)
{
    struct caller *c = context;

    (void)conn; /* connect has stored it */
    return c->requests > 0 && ask(c, 0, c->requests) != SPN_OK ? SPN_ECLOSED : 0;
}

static void take(struct caller *c, const struct spn__frame *frame)
{
    if (spn__frame_is_event(frame)) {
        if (spn__frame_is_request(frame))
            c->read_only++;
        else
            c->beats++;
        return;
    }
    sim_assert(!spn__frame_is_request(frame));
    sim_assert(frame->id >= 0 && frame->id < REQUESTS_MAX);
    sim_assert(++c->answers[frame->id] == 1);
    c->statuses[frame->id] = frame->status;
    if (c->chain > 0) {
        c->chain--;
        (void)ask(c, (int)frame->id + 1, 1);
    }
    if (site.plan == DEFERS) { /* [defer] of request.c: both have happened */
        sim_assert(spn__load(&site.finished, relaxed) == 1);
        sim_assert(spn__load(&site.returned, relaxed) == 1);
    }
}

static int64_t bytes(void *context, struct spn__conn *conn, const unsigned char *data,
                     size_t size)
{
    size_t used = 0, needed = 0;
    struct spn__frame frame;

    while (used < size && spn__frame_read(&frame, data + used, size - used, 65536,
                                          &needed) == SPN__FRAME_WHOLE) {
        take(context, &frame);
        used += needed;
    }
    if (used < size)
        spn__conn_want(conn, needed);
    return (int64_t)used;
}

static void closed(void *context, struct spn__conn *conn, int why)
{
    struct caller *c = context;

    (void)conn;
    c->why = why;
    spn__store(&c->closed, 1, relaxed);
}

static const struct spn__conn_events events = { .opened = opened,
                                                .bytes = bytes,
                                                .closed = closed };

static int dial(struct caller *c, int requests)
{
    int rc;

    memset(c, 0, sizeof *c);
    spn__init(&c->closed, 0);
    c->requests = requests;
    rc = spn__transport_create(NULL, &c->transport);
    if (rc == SPN_OK)
        rc = spn__transport_connect(c->transport, "sim", PORT, SPN_SEC(1), &events, c,
                                    NULL, &c->conn);
    return rc;
}

static void connect_and_ask(int requests)
{
    sim_assert(dial(&callers[0], requests) == SPN_OK);
}

static void hang_up(struct caller *c)
{
    if (c->transport == NULL)
        return;
    sim_assert(spn__transport_stop(c->transport) == SPN_OK);
    if (c->conn != NULL)
        spn__conn_unref(c->conn);
    sim_assert(spn__transport_destroy(c->transport) == SPN_OK);
}

static bool is_closed(struct caller *c)
{
    return spn__load(&c->closed, relaxed) != 0;
}

static int answered(const struct caller *c)
{
    int sum = 0;

    for (int i = 0; i < REQUESTS_MAX; i++)
        sum += c->answers[i];
    return sum;
}

static int with_status(const struct caller *c, int status)
{
    int sum = 0;

    for (int i = 0; i < REQUESTS_MAX; i++)
        sum += c->answers[i] > 0 && c->statuses[i] == status;
    return sum;
}

static void close_it(void *arg)
{
    struct caller *c = arg;

    spn__conn_close(c->conn, SPN_ECLOSED);
}

static void break_network(void *arg)
{
    (void)arg;
    sim_net_break_all();
}

/* ---- stop -------------------------------------------------------------------------------- */

static void let_go(void *arg)
{
    (void)arg;
    spn__gate_open(&site.may_go);
}

static void let_go_late(void *arg)
{
    sim_sleep(SPN_SEC(5));
    let_go(arg);
}

/* stop with requests in flight, one that runs and one that waits for a thread: both are
 * answered before the connection ends, and the client was told to send no more. */
SCENARIO(server__stopped_with_requests_in_flight__answers_them, "EXC-19", "EXC-22")
{
    start_server(WAITS, URL STILL POOL "&dispatcher=message");
    connect_and_ask(2);
    sim_settle(); /* both have come */
    sim_thread(let_go, NULL);
    sim_assert(spn_server_stop(site.server, SPN_SEC(1)) == SPN_OK);
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(is_closed(&callers[0]) && callers[0].read_only == 1);
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) == 2);
    sim_assert(stats().replies == 2);
    end_server();
}
SCENARIO_OPTS(server__stopped_with_requests_in_flight__answers_them, .schedules = 40,
              .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* A server whose pool is in a repository of the program's: stop does not end it. */
static spn_server_opts start_in_shared_pool(enum plan plan, const char *url,
                                            spn_channel_event_fn event)
{
    spn_repository_opts shared = SPN_REPOSITORY_OPTS_INIT;
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;

    opts.event = event;
    sim_assert(spn_extensions_create(&shared.extensions, NULL) == SPN_OK);
    sim_assert(spn_repository_create(&opts.repository, &shared) == SPN_OK);
    opts.extensions = shared.extensions;
    sim_assert(start_server_with(plan, url, &opts) == SPN_OK);
    return opts;
}

/* Of one that was stopped. */
static void destroy_in_shared_pool(const spn_server_opts *opts)
{
    sim_assert(spn_server_destroy(site.server) == SPN_OK);
    sim_assert(spn_repository_destroy_all(opts->repository, SPN_SEC(1)) == SPN_OK);
    sim_assert(spn_repository_destroy(opts->repository) == SPN_OK);
    sim_assert(spn_extensions_destroy(opts->extensions) == SPN_OK);
}

/* What a method did happens before stop returns, also in a pool that stop does not end, and
 * for a caller that nothing is sent to.  The pool's thread, which still has to leave the
 * channel, does not keep the server from being destroyed. */
SCENARIO(server__stopped_beside_a_method__sees_what_it_did, "EXC-10", "EXC-19",
         "EXC-20")
{
    const spn_server_opts opts =
        start_in_shared_pool(DROPS, URL STILL POOL "&dispatcher=execution", NULL);
    spn_server_stats s;

    connect_and_ask(1);
    spn__gate_wait(&site.begun);
    sim_assert(spn_server_stop(site.server, SPN_SEC(1)) == SPN_OK);
    sim_assert(spn__load(&site.returned, relaxed) == 1);
    s = stats();
    sim_assert(s.in_flight == 0 && s.dropped == 1 && s.replies == 0);
    hang_up(&callers[0]);
    destroy_in_shared_pool(&opts);
}
SCENARIO_OPTS(server__stopped_beside_a_method__sees_what_it_did, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* Connections that come and go are told to the program on a thread of the pool: stop waits
 * for that too, so that nothing keeps the server from being destroyed. */
SCENARIO(server__stopped_beside_events_in_the_pool__destroyed, "DSP-1", "EXC-19",
         "EXC-20")
{
    const spn_server_opts opts =
        start_in_shared_pool(RETURNS, URL STILL POOL "&dispatcher=all",
                             sim_choose(2) == 0 ? on_event : on_event_slowly);

    connect_and_ask(1);
    sim_thread(close_it, &callers[0]);
    if (sim_choose(2) == 0)
        sim_settle();
    sim_assert(spn_server_stop(site.server, SPN_SEC(1)) == SPN_OK);
    sim_assert(site.connected == site.disconnected && site.connected <= 1);
    destroy_in_shared_pool(&opts);
    sim_join_all();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__stopped_beside_events_in_the_pool__destroyed, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static void dial_and_ask(void *arg)
{
    sim_assert(dial(arg, 1) == SPN_OK);
}

/* stop against a connection that comes and one that sends: what was taken is answered, the
 * answers arrive, and no connection outlives it. */
SCENARIO(server__stop_races_connections__none_left, "EXC-19", "EXC-22")
{
    spn_server_stats s;
    int sum = 0;

    start_server(RETURNS, sim_choose(2) == 0 ? URL STILL POOL
                              "&dispatcher=all&inflight.address=9"
                                             : URL STILL POOL "&dispatcher=direct");
    sim_thread(dial_and_ask, &callers[1]);
    connect_and_ask(2);
    sim_assert(spn_server_stop(site.server, SPN_SEC(1)) == SPN_OK);
    s = stats();
    sim_assert(s.connections == 0 && s.in_flight == 0);
    sim_join_all();
    for (int i = 0; i < 2; i++) {
        hang_up(&callers[i]);
        sim_assert(is_closed(&callers[i]));
        sum += answered(&callers[i]);
    }
    sim_assert((uint64_t)sum == s.requests && s.replies == s.requests);
    end_server();
}
SCENARIO_OPTS(server__stop_races_connections__none_left, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static void ask_twice(void *arg)
{
    (void)ask(arg, 0, 1); /* or its connection has ended */
    (void)ask(arg, 1, 1);
}

/* Requests that come while stop makes the channel deaf, which it does at once when clients
 * are not told: what was taken is answered before the stream ends. */
SCENARIO(server__asked_while_it_becomes_deaf__answered_if_taken, "EXC-19", "EXC-22")
{
    spn_server_stats s;

    start_server(RETURNS, sim_choose(2) == 0 ? URL STILL POOL
                              "&channel.readonly.send=false&dispatcher=message"
                                             : URL STILL POOL
                              "&channel.readonly.send=false&dispatcher=direct");
    connect_and_ask(0);
    sim_settle();
    sim_thread(ask_twice, &callers[0]);
    sim_assert(spn_server_stop(site.server, SPN_SEC(1)) == SPN_OK);
    s = stats();
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(s.replies == s.requests && (uint64_t)answered(&callers[0]) == s.replies);
    sim_assert(callers[0].why == 0);
    sim_outcome((unsigned)s.requests);
    end_server();
}
SCENARIO_OPTS(server__asked_while_it_becomes_deaf__answered_if_taken, .schedules = 150,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static void finish(void *arg)
{
    (void)arg;
    spn__gate_wait(&site.begun);
    sim_assert(spn__load(&site.runs, relaxed) == 1); /* [gate] */
    spn__store(&site.finished, 1, relaxed);
    (void)spn_request_finish(site.kept, SPN_OK); /* or the connection is gone */
}

/* Stopping without patience, and destroying, beside a deferred request that is finished at
 * any time: they say that they cannot, until it is. */
SCENARIO(server__destroyed_with_a_request_in_flight__waits_for_it, "EXC-9", "EXC-20")
{
    int rc;

    start_server(DEFERS, URL STILL POOL "&dispatcher=all");
    connect_and_ask(1);
    spn__gate_wait(&site.begun);
    sim_thread(finish, NULL);
    sim_assert(spn_server_destroy(site.server) == SPN_EBUSY);
    do {
        rc = spn_server_stop(site.server, 0);
        sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
        if (rc == SPN_OK)
            rc = spn_server_destroy(site.server);
        else
            sim_assert(spn_server_destroy(site.server) == SPN_EBUSY);
        if (rc != SPN_OK)
            spn__os_yield();
    } while (rc != SPN_OK);
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(is_closed(&callers[0]) && answered(&callers[0]) <= 1);
}
SCENARIO_OPTS(server__destroyed_with_a_request_in_flight__waits_for_it, .schedules = 50,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* stop beside a method that runs for longer than stop has: the caller sees a reset, since an
 * end would say that its request was not taken. */
SCENARIO(server__stopped_before_a_method_returns__caller_sees_a_reset, "EXC-19")
{
    start_server(WAITS, URL STILL POOL "&dispatcher=message");
    connect_and_ask(1);
    spn__gate_wait(&site.begun);
    sim_thread(let_go_late, NULL);
    sim_assert(spn_server_stop(site.server, SPN_MS(10)) == SPN_ETIMEDOUT);
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(answered(&callers[0]) == 0 && callers[0].why == SPN_EIO);
    end_server();
}
SCENARIO_OPTS(server__stopped_before_a_method_returns__caller_sees_a_reset,
              .schedules = 40, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* ---- replies ----------------------------------------------------------------------------- */

/* A deferred request is finished while its method still returns: one of the two threads
 * answers, and what the other did before happens before that. */
SCENARIO(server__finish_races_return__answered_once, "EXC-9")
{
    start_server(DEFERS, URL STILL POOL "&dispatcher=all");
    sim_thread(finish, NULL);
    connect_and_ask(1);
    sim_join_all();
    sim_settle();
    sim_assert(answered(&callers[0]) == 1 && stats().replies == 1);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__finish_races_return__answered_once, .schedules = 50,
              .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* The connection ends, from either side or between them, while replies are sent by the
 * pool, and one by a thread of the program: each is sent or dropped, and counted so. */
SCENARIO(server__reply_races_close__sent_or_dropped, "EXC-9", "EXC-17", "EXC-22")
{
    spn_server_stats s;

    start_server(DEFERS, URL STILL POOL "&dispatcher=all");
    sim_thread(finish, NULL);
    connect_and_ask(1);
    spn__gate_wait(&site.begun);
    if (sim_choose(2) == 0)
        break_network(NULL);
    else
        close_it(&callers[0]);
    sim_join_all();
    sim_settle();
    s = stats();
    sim_assert(s.requests == 1 && s.replies + s.dropped == 1);
    sim_assert(answered(&callers[0]) <= (int)s.replies);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__reply_races_close__sent_or_dropped, .schedules = 50,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* More requests than the pool has room for, on every dispatcher that uses it: each is
 * answered once, by its method or with status 100. */
SCENARIO(server__pool_is_full__each_answered_once, "DSP-3", "EXC-22", "P10")
{
    static const char *const urls[] = {
#define FULL URL STILL "&threadpool=fixed&threads=1&queues=0&inflight=0&dispatcher="
        FULL "all", FULL "message", FULL "execution"
    };
    int refused;

    start_server(RETURNS, urls[sim_choose(3)]);
    connect_and_ask(3);
    sim_settle();
    refused = with_status(&callers[0], SPN__STATUS_EXHAUSTED);
    sim_assert(answered(&callers[0]) == 3);
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) == 3 - refused);
    sim_assert(stats().rejected == (uint64_t)refused);
    sim_outcome((unsigned)refused);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__pool_is_full__each_answered_once, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

#define TWO_PLACES URL STILL "&threadpool=fixed&threads=1&queues=1&dispatcher=message"

/* A pool with two places, of which a connection may have one: what it asks for beyond that is
 * refused before the pool is asked, and another connection finds the second place. */
SCENARIO(server__connection_with_too_many__others_find_room, "DSP-12", "EXC-22")
{
    start_server(WAITS, TWO_PLACES);
    connect_and_ask(3);
    spn__gate_wait(&site.begun);
    sim_assert(dial(&callers[1], 1) == SPN_OK);
    sim_settle();
    sim_assert(with_status(&callers[0], SPN__STATUS_EXHAUSTED) == 2);
    spn__gate_open(&site.may_go);
    sim_settle();
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) == 1);
    sim_assert(with_status(&callers[1], SPN__STATUS_OK) == 1);
    sim_assert(stats().rejected_connection == 2 && stats().rejected == 0);
    end_server();
    hang_up(&callers[0]);
    hang_up(&callers[1]);
}
SCENARIO_OPTS(server__connection_with_too_many__others_find_room, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* A caller that asks again when it has its reply: the one place of its connection, and of its
 * address, is free by then. */
SCENARIO(server__next_request_when_answered__never_refused, "DSP-12", "DSP-13")
{
    start_server(RETURNS, TWO_PLACES "&inflight.address=1");
    connect_and_ask(0);
    callers[0].chain = REQUESTS_MAX - 1;
    sim_assert(ask(&callers[0], 0, 1) == SPN_OK);
    sim_settle();
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) == REQUESTS_MAX);
    sim_assert(stats().rejected_connection == 0 && stats().rejected_address == 0);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__next_request_when_answered__never_refused, .schedules = 100,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* A thread that hangs, and a queue behind it that stands for an interval: a request is refused,
 * unless the queue drains beside it; when it has drained, the next one is taken. */
SCENARIO(server__queue_stands_and_drains__refused_meanwhile, "DSP-14", "EXC-22")
{
    const bool is_raced = sim_choose(2) == 0;

    start_server(WAITS, URL STILL POOL "&dispatcher=message&queue.target=1");
    connect_and_ask(2);
    spn__gate_wait(&site.begun);
    sim_sleep(SPN_MS(25));
    sim_assert(ask(&callers[0], 2, 1) == SPN_OK); /* ends the first interval */
    sim_settle();
    sim_sleep(SPN_MS(25));
    if (is_raced)
        sim_thread(let_go, NULL);
    sim_assert(ask(&callers[0], 3, 1) == SPN_OK);
    sim_settle();
    sim_assert(is_raced || callers[0].statuses[3] == SPN__STATUS_EXHAUSTED);
    spn__gate_open(&site.may_go);
    sim_join_all();
    sim_settle();
    sim_assert(answered(&callers[0]) == 4);
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) + (int)stats().rejected_delay ==
               4);
    sim_assert(dial(&callers[1], 1) == SPN_OK);
    sim_settle();
    sim_assert(with_status(&callers[1], SPN__STATUS_OK) == 1);
    end_server();
    hang_up(&callers[0]);
    hang_up(&callers[1]);
}
SCENARIO_OPTS(server__queue_stands_and_drains__refused_meanwhile, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static void shut_pool(void *arg)
{
    (void)arg;
    if (sim_choose(2) == 0)
        (void)pool_shutdown(spn_server_pool(site.server));
    else
        (void)pool_shutdown_now(spn_server_pool(site.server), NULL, NULL, NULL);
}

/* The program ends the pool beside requests: each is answered once, from the pool, the
 * shared executor, or as refused. */
SCENARIO(server__pool_ends_beside_requests__each_answered_once, "DSP-5", "DSP-10")
{
    start_server(RETURNS, URL STILL POOL "&dispatcher=all");
    sim_thread(shut_pool, NULL);
    connect_and_ask(2);
    sim_join_all();
    sim_settle();
    sim_assert(answered(&callers[0]) == 2);
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) +
                   with_status(&callers[0], SPN__STATUS_EXHAUSTED) ==
               2);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__pool_ends_beside_requests__each_answered_once, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- services ------------------------------------------------------------------------------ */

/* A service is taken out while it is called: its methods do not run any more when unexport
 * has returned, and the caller hears from it, or that there is none. */
SCENARIO(server__unexported_beside_requests__none_runs_afterwards, "EXC-1", "EXC-6")
{
    start_server(RETURNS, URL STILL "&threadpool=fixed&threads=2&queues=-1"
                                    "&dispatcher=message");
    connect_and_ask(2);
    sim_assert(spn_server_unexport(site.server, &service) == SPN_OK);
    spn__store(&site.alive, 0, relaxed);
    sim_settle();
    sim_assert(answered(&callers[0]) == 2);
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) +
                   with_status(&callers[0], SPN__STATUS_SERVICE_ERROR) ==
               2);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__unexported_beside_requests__none_runs_afterwards, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* Methods end their threads while the service is taken out: each is answered for, and
 * unexport does not wait for what is no more. */
SCENARIO(server__unexported_beside_dying_methods__each_answered, "EXC-4", "EXC-6")
{
    start_server(ENDS_THREAD, URL STILL POOL "&dispatcher=message");
    connect_and_ask(2);
    if (sim_choose(2) == 0)
        spn__gate_wait(&site.begun);
    sim_assert(spn_server_unexport(site.server, &service) == SPN_OK);
    spn__store(&site.alive, 0, relaxed);
    sim_settle();
    sim_assert(with_status(&callers[0], SPN__STATUS_SERVER_ERROR) +
                   with_status(&callers[0], SPN__STATUS_SERVICE_ERROR) ==
               2);
    sim_outcome((unsigned)with_status(&callers[0], SPN__STATUS_SERVER_ERROR));
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__unexported_beside_dying_methods__each_answered, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- back-pressure ------------------------------------------------------------------------- */

static void start_narrow(void)
{
    const struct sim_net_script script = { .capacity = 64 };
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;

    opts.max_unwritten = 120; /* a reply is 98 */
    sim_net_set(&script);
    sim_assert(start_server_with(RETURNS_LONG,
                                 URL STILL "&threadpool=fixed&threads=2&queues=-1"
                                           "&dispatcher=message",
                                 &opts) == SPN_OK);
}

static void read_slowly(void)
{
    spn_server_stats s;

    start_narrow();
    connect_and_ask(2);
    if (sim_choose(2) == 0)
        sim_settle();
    sim_assert(ask(&callers[0], 2, 2) == SPN_OK);
    sim_settle();
    s = stats();
    sim_assert(s.requests == 4 && s.replies + s.dropped == 4);
    sim_assert(answered(&callers[0]) == (int)s.replies);
    end_server();
    hang_up(&callers[0]);
}

/* A caller behind a narrow network, and replies from two threads that make more wait than
 * half of what may: reading pauses, goes on when the caller has read, and what it sends
 * then is answered too. */
SCENARIO(server__caller_reads_slowly__paused_and_resumed, "EXC-18", "EXC-22")
{
    read_slowly();
}
SCENARIO_OPTS(server__caller_reads_slowly__paused_and_resumed, .schedules = 300,
              .models = SIM_SC, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* The same where stores come late: ten times the time for a schedule, and fewer of them. */
SCENARIO(server__caller_reads_slowly__order_of_pauses, "EXC-18")
{
    read_slowly();
}
SCENARIO_OPTS(server__caller_reads_slowly__order_of_pauses, .schedules = 30,
              .models = SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* The same with a caller that goes away, while the server may be stopped. */
SCENARIO(server__paused_caller_leaves__nothing_left, "EXC-17", "EXC-18")
{
    start_narrow();
    connect_and_ask(3);
    sim_thread(sim_choose(2) == 0 ? close_it : break_network, &callers[0]);
    if (sim_choose(2) == 0)
        sim_settle();
    end_server();
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(is_closed(&callers[0]));
}
SCENARIO_OPTS(server__paused_caller_leaves__nothing_left, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static void read_on(void *arg)
{
    (void)arg;
    sim_sleep(SPN_SEC(3)); /* longer than an ended connection lingers */
    spn__conn_resume(callers[0].conn);
}

/* stop with a caller that reads late, and one that has nothing to wait for: the one has all
 * its replies if that is within the time stop has, else it is cut off, which it can see, and
 * counted; the other's connection ends in order. */
SCENARIO(server__stopped_beside_a_late_reader__answered_or_counted, "EXC-18", "EXC-19")
{
    const bool in_time = sim_choose(2) == 0;
    const int64_t began_ns = sim_now();
    spn_server_stats s;
    int rc;

    start_narrow();
    connect_and_ask(0);
    sim_settle();
    sim_assert(dial(&callers[1], 1) == SPN_OK);
    spn__conn_pause(callers[0].conn);
    sim_assert(ask(&callers[0], 0, 2) == SPN_OK);
    sim_settle();
    sim_thread(read_on, NULL);
    rc = spn_server_stop(site.server, in_time ? SPN_SEC(10) : SPN_SEC(2));
    s = stats();
    sim_assert(s.connections == 0 && s.requests == 3 && s.replies + s.dropped == 3);
    if (in_time)
        sim_assert(rc == SPN_OK && s.cut_off == 0 && s.cut_off_bytes == 0);
    else
        sim_assert(rc == SPN_ETIMEDOUT && s.cut_off == 1 && s.cut_off_bytes > 0 &&
                   sim_now() - began_ns >= SPN_SEC(2));
    sim_join_all();
    hang_up(&callers[0]);
    hang_up(&callers[1]);
    if (in_time)
        sim_assert(answered(&callers[0]) + answered(&callers[1]) == (int)s.replies);
    sim_assert(callers[0].why == (in_time ? 0 : SPN_EIO));
    sim_assert(answered(&callers[1]) == 1 && callers[1].why == 0);
    end_server();
}
SCENARIO_OPTS(server__stopped_beside_a_late_reader__answered_or_counted,
              .schedules = 100, .models = SIM_SC, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* ---- silence ------------------------------------------------------------------------------- */

/* Something every few milliseconds keeps a connection, and without it the timer closes it
 * after as long as was said, give or take its tick. */
SCENARIO(server__caller_falls_silent__closed_in_time, "EXC-16")
{
    int64_t began_ns;

    start_server(RETURNS, URL BEATS POOL "&dispatcher=message");
    connect_and_ask(1);
    sim_sleep(SPN_MS(CLOSE_MS - 2));
    beat(&callers[0]);
    sim_sleep(SPN_MS(CLOSE_MS - 2));
    sim_settle();
    sim_assert(!is_closed(&callers[0]) && callers[0].beats == 1);
    sim_assert(answered(&callers[0]) == 1);
    began_ns = sim_now();
    while (!is_closed(&callers[0])) {
        sim_assert(sim_now() - began_ns <= SPN_MS(2 + 2 * 2 + 2));
        sim_sleep(SPN_MS(1));
        sim_settle();
    }
    sim_assert(stats().idle_closed == 1);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__caller_falls_silent__closed_in_time, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* The timer, which may be early, against a request, a close and stop: the connection ends
 * once, its timeout too, and the request is answered or dropped. */
SCENARIO(server__silence_races_request_and_close__ends_once, "EXC-16", "EXC-17")
{
    start_server(RETURNS, URL BEATS POOL "&dispatcher=all");
    connect_and_ask(0);
    sim_sleep(SPN_MS(CLOSE_MS)); /* it may be closed now, and may stand */
    (void)ask(&callers[0], 0, 1);
    if (sim_choose(2) == 0)
        sim_thread(close_it, &callers[0]);
    end_server();
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(is_closed(&callers[0]) && answered(&callers[0]) <= 1);
}
SCENARIO_OPTS(server__silence_races_request_and_close__ends_once, .schedules = 50,
              .models = SIM_SC | SIM_C11, .early = 32, .no_faults = ALL_IS_THERE)

/* ---- events -------------------------------------------------------------------------------- */

/* The dispatcher with a thread for connections: that they come and go is told in this
 * order, both before stop returns. */
SCENARIO(server__connection_comes_and_goes__told_in_order, "DSP-6", "EXC-19")
{
    spn_server_opts opts = SPN_SERVER_OPTS_INIT;

    opts.event = on_event;
    sim_assert(start_server_with(RETURNS, URL STILL POOL "&dispatcher=connection",
                                 &opts) == SPN_OK);
    connect_and_ask(1);
    sim_thread(close_it, &callers[0]);
    if (sim_choose(2) == 0)
        sim_settle();
    sim_assert(spn_server_stop(site.server, SPN_SEC(1)) == SPN_OK);
    sim_assert(site.connected == site.disconnected && site.connected <= 1);
    sim_join_all();
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__connection_comes_and_goes__told_in_order, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- the library's client ---------------------------------------------------------------- */

static spn_client *client;

static void call_once(void *arg)
{
    const spn_invocation hello = SPN_INVOCATION_INIT("a", "m");
    spn_reply *reply = NULL;
    const int rc = spn_client_call(client, &hello, &reply, NULL);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_ECLOSED ||
               rc == SPN_EUNREACHABLE || rc == SPN_EREMOTE);
    spn_reply_destroy(reply);
}

/* A reply against the call's timeout, at both ends, against the end of the connection:
 * both ends count one call that ended once. */
SCENARIO(server__reply_races_timeout_races_close__ends_once, "CLI-16", "EXC-11",
         "EXC-22")
{
    spn_client_stats c = SPN_CLIENT_STATS_INIT;
    int rc;

    start_server(RETURNS, URL STILL POOL "&dispatcher=message");
    sim_assert(spn_client_create(&client,
                                 "dubbo://sim:7?lazy=true&heartbeat=0&timeout=10"
                                 "&dispatcher=direct&reconnect=false",
                                 NULL, NULL) == SPN_OK);
    sim_thread(call_once, NULL);
    switch (sim_choose(3)) {
    case 0:
        sim_net_break_all();
        break;
    case 1:
        rc = spn_server_stop(site.server, SPN_SEC(1));
        sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
        break;
    default:
        break;
    }
    sim_join_all();
    do
        rc = spn_client_close(client, SPN_SEC(1));
    while (rc == SPN_ETIMEDOUT);
    sim_assert(rc == SPN_OK);
    sim_assert(spn_client_stats_get(client, &c) == SPN_OK);
    sim_assert(c.calls == 1 && c.pending == 0);
    /* Cancelled: a thread whose patience was over early has given it up. */
    sim_assert(c.replies + c.timeouts + c.lost + c.cancelled == 1);
    sim_assert(spn_client_destroy(client) == SPN_OK);
    sim_settle();
    sim_assert(stats().requests <= 1 && c.replies <= stats().replies);
    end_server();
}
SCENARIO_OPTS(server__reply_races_timeout_races_close__ends_once, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = 256, .no_faults = ALL_IS_THERE)

/* ---- half-closed connections, and frames that do not come -------------------------------- */

/* A caller that ends its side behind two requests: each is answered, whoever is last, and
 * then the server ends its own. */
SCENARIO(server__half_closed_caller__answered_and_ended, "EXC-23", "EXC-22")
{
    const struct sim_net_script script = {
        .to_server = { .cut = SIM_CUT_END, .after = 2 * ASKED },
    };

    sim_net_set(&script);
    start_server(RETURNS, sim_choose(2) == 0 ? URL STILL
                              "&threadpool=fixed&threads=2&queues=-1"
                              "&dispatcher=message"
                                             : URL STILL POOL "&dispatcher=direct");
    connect_and_ask(2);
    sim_settle();
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) == 2);
    sim_assert(is_closed(&callers[0]));
    sim_assert(stats().connections == 0 && stats().replies == 2);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__half_closed_caller__answered_and_ended, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* The same with a request that another thread finishes, and one that is not answered; beside
 * a stop. */
SCENARIO(server__half_closed_beside_finish_and_stop__nothing_left, "EXC-23", "EXC-19")
{
    const struct sim_net_script script = {
        .to_server = { .cut = SIM_CUT_END, .after = ASKED },
    };

    sim_net_set(&script);
    start_server(sim_choose(2) == 0 ? DEFERS : DROPS,
                 URL STILL POOL "&dispatcher=message");
    connect_and_ask(1);
    spn__gate_wait(&site.begun);
    if (site.plan == DEFERS)
        sim_thread(finish, NULL);
    if (sim_choose(2) == 0)
        sim_settle();
    end_server();
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(answered(&callers[0]) <= (site.plan == DEFERS));
}
SCENARIO_OPTS(server__half_closed_beside_finish_and_stop__nothing_left, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* Two methods ask for their token, and wait for its end, beside the end of their connection
 * from either side, or of the server: both hear of it, whoever makes the channel's token and
 * whenever they ask. */
SCENARIO(server__caller_leaves_beside_methods_that_listen__both_hear, "EXC-25",
         "EXC-17")
{
    const struct sim_net_script half = {
        .to_server = { .cut = SIM_CUT_END, .after = 2 * ASKED },
    };
    const unsigned how = sim_choose(4);

    if (how == 0)
        sim_net_set(&half);
    start_server(LISTENS, URL STILL "&threadpool=fixed&threads=2&queues=-1"
                                    "&dispatcher=message");
    connect_and_ask(2);
    spn__gate_wait(&site.begun);
    if (how == 1)
        sim_thread(close_it, &callers[0]);
    else if (how == 2)
        sim_thread(break_network, NULL);
    sim_join_all();
    if (how < 3) {
        sim_settle();
        sim_assert(stats().in_flight == 0);
    }
    if (how == 0)
        sim_assert(with_status(&callers[0], SPN__STATUS_OK) == 2);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__caller_leaves_beside_methods_that_listen__both_hear,
              .schedules = 150, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* A part of a request. */
static void ask_part(int id, size_t from, size_t to)
{
    unsigned char all[SPN__FRAME_BYTES + sizeof body];
    const struct spn__frame frame = {
        .flags = SPN__FRAME_REQUEST | SPN__FRAME_TWO_WAY | SPN__HESSIAN2,
        .id = id,
        .length = sizeof body - 1,
    };
    const struct spn__piece piece = { all + from, to - from };

    spn__frame_write(all, &frame);
    memcpy(all + SPN__FRAME_BYTES, body, sizeof body - 1);
    (void)spn__conn_send(callers[0].conn, &piece, 1, 0, NULL);
}

/* Frames that come in parts, each within its time, with more than that between them: they are
 * answered, whenever the timer looks.  One that never becomes whole ends the connection, in
 * time and counted. */
SCENARIO(server__frames_in_parts__late_only_if_they_are, "EXC-24")
{
    const bool is_late = sim_choose(2) == 0;

    start_server(RETURNS, URL "&heartbeat=0&frame.timeout=6" POOL "&dispatcher=direct");
    connect_and_ask(0);
    sim_settle();
    ask_part(0, 0, 3);
    sim_sleep(SPN_MS(3));
    ask_part(0, 3, ASKED);
    sim_sleep(SPN_MS(15));
    ask_part(1, 0, 20);
    sim_sleep(SPN_MS(3));
    ask_part(1, 20, is_late ? 30 : ASKED);
    sim_sleep(SPN_MS(15));
    sim_settle();
    sim_assert(stats().frames_late == is_late);
    sim_assert(is_closed(&callers[0]) == is_late);
    sim_assert(stats().replies == (is_late ? 1 : 2));
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__frames_in_parts__late_only_if_they_are, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- memory -------------------------------------------------------------------------------- */

/* More small requests in flight than a connection may have uncounted: credit is taken on the
 * I/O thread, if there is any, beside the ends of others on two threads, and given back,
 * once.  Whoever finds none is told. */
SCENARIO(server__credit_beside_ends_of_requests__given_back_once, "EXC-26")
{
    const bool has_room = sim_choose(2) == 0;

    start_server(RETURNS, has_room ? URL STILL "&threadpool=fixed&threads=2&queues=-1"
                                               "&dispatcher=message&memory=1m"
                                   : URL STILL "&threadpool=fixed&threads=2&queues=-1"
                                               "&dispatcher=message&memory=32k");
    connect_and_ask(10);
    sim_settle();
    sim_assert(answered(&callers[0]) == 10);
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) >= (has_room ? 10 : 8));
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) +
                   with_status(&callers[0], SPN__STATUS_EXHAUSTED) ==
               10);
    sim_assert(ask(&callers[0], 10, 1) == SPN_OK);
    sim_settle();
    sim_assert(callers[0].statuses[10] == SPN__STATUS_OK);
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__credit_beside_ends_of_requests__given_back_once, .schedules = 40,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* The request of ask, made as large as LARGE by what nobody reads, in two parts. */
static void ask_large(struct caller *c, int id, int part)
{
    enum { FIRST = LARGE / 4 * 3 };
    static unsigned char all[LARGE];
    const struct spn__frame frame = {
        .flags = SPN__FRAME_REQUEST | SPN__FRAME_TWO_WAY | SPN__HESSIAN2,
        .id = id,
        .length = LARGE - SPN__FRAME_BYTES,
    };
    const struct spn__piece piece = { part == 0 ? all : all + FIRST,
                                      part == 0 ? FIRST : LARGE - FIRST };

    memset(all, 'N', sizeof all);
    spn__frame_write(all, &frame);
    memcpy(all + SPN__FRAME_BYTES, body, sizeof body - 1);
    sim_assert(spn__conn_send(c->conn, &piece, 1, 0, NULL) == SPN_OK);
}

/* Two unfinished frames for which there is room, and none to finish both at a time: one may be
 * refused, and gives its memory back, so that nothing waits for ever; both connections go
 * on. */
SCENARIO(server__unfinished_frames_fill_the_budget__none_stuck, "EXC-26", "EXC-27")
{
    start_server(RETURNS, URL STILL POOL "&dispatcher=message&memory=160k");
    for (int i = 0; i < 2; i++)
        sim_assert(dial(&callers[i], 0) == SPN_OK);
    sim_settle();
    for (int i = 0; i < 4; i++) {
        ask_large(&callers[i % 2], 0, i / 2);
        if (sim_choose(2) == 0)
            sim_settle();
    }
    sim_settle();
    sim_assert(answered(&callers[0]) == 1 && answered(&callers[1]) == 1);
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) +
                   with_status(&callers[1], SPN__STATUS_OK) >=
               1);
    for (int i = 0; i < 2; i++)
        sim_assert(ask(&callers[i], 1, 1) == SPN_OK);
    sim_settle();
    for (int i = 0; i < 2; i++)
        sim_assert(callers[i].statuses[1] == SPN__STATUS_OK);
    end_server();
    for (int i = 0; i < 2; i++)
        hang_up(&callers[i]);
}
SCENARIO_OPTS(server__unfinished_frames_fill_the_budget__none_stuck, .schedules = 40,
              .models = SIM_SC, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* Replies that make more than half of the budget wait: reading pauses though max_unwritten is
 * far, goes on when they have been read, and no request is without an answer. */
SCENARIO(server__budget_pressed_by_replies__paused_and_resumed, "EXC-18", "EXC-26")
{
    const struct sim_net_script script = { .capacity = 30000 };

    sim_net_set(&script);
    start_server(RETURNS_LARGE, URL STILL "&threadpool=fixed&threads=2&queues=-1"
                                          "&dispatcher=message&memory=256k");
    connect_and_ask(4);
    if (sim_choose(2) == 0)
        sim_settle();
    sim_assert(ask(&callers[0], 4, 2) == SPN_OK);
    sim_settle();
    sim_assert(answered(&callers[0]) == 6);
    sim_assert(with_status(&callers[0], SPN__STATUS_OK) +
                   with_status(&callers[0], SPN__STATUS_EXHAUSTED) ==
               6);
    sim_outcome((unsigned)with_status(&callers[0], SPN__STATUS_OK));
    end_server();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__budget_pressed_by_replies__paused_and_resumed, .schedules = 60,
              .models = SIM_SC, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- failures ------------------------------------------------------------------------------- */

/* Every allocation and every thread in turn cannot be had: the request is answered, or the
 * connection ends, and what there is of the server can be stopped and freed. */
SCENARIO(server__nothing_to_be_had__nothing_left, "CLI-17", "NET-27")
{
    const int rc =
        start_server_with(RETURNS, URL STILL POOL "&dispatcher=all&inflight.address=1",
                          NULL);

    sim_assert(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    memset(&callers[0], 0, sizeof callers[0]);
    if (rc == SPN_OK) {
        (void)dial(&callers[0], 1);
        sim_settle();
        end_server();
    } else if (site.server != NULL) {
        sim_assert(spn_server_destroy(site.server) == SPN_OK);
    }
    hang_up(&callers[0]);
}
SCENARIO_OPTS(server__nothing_to_be_had__nothing_left, .schedules = 20,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .faults = true)
