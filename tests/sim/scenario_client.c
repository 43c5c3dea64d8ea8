/* SPDX-License-Identifier: MIT */
/*
 * scenario_client.c - calls of an RPC client over the explorer's network: whatever ends a
 * call, it ends once, the numbers add up, and close and destroy leave nothing behind.
 *
 * The client is a whole one, with its own transport, timer and close; the server at the
 * other end is made by hand, from a few bytes for each frame, so that a schedule is spent
 * on the client.  A timer may expire early (sim.h), so that every call here also races its
 * timeout.
 */
#include "sim.h"

#include <string.h>

#include <spindle/client.h>
#include <spindle/log.h>

#include "net/transport.h"
#include "net_sim.h"
#include "rpc/wire/frame.h"
#include "sync/seam.h"

enum { PORT = 7, TIMEOUT_MS = 10 };

#define ALL_IS_THERE "the last scenario is for failures"

/* ---- the server ------------------------------------------------------------------------ */

/* What it does with a request; BREAKS resets the connection before there is any. */
enum plan { ANSWERS, IS_SILENT, ANSWERS_AND_CLOSES, CLOSES, BREAKS, SAYS_READ_ONLY };

/* Its events come on one thread; the body looks when that has ended. */
static struct {
    enum plan plan;
    struct spn__transport *transport;
    struct spn__listener *listener;
    int connections, requests, on_first; /* requests over the first connection */
    struct spn__conn *first;             /* only compared */
} server;

static void send_frame(struct spn__conn *conn, const struct spn__frame *frame,
                       const char *body)
{
    unsigned char header[SPN__FRAME_BYTES];
    const struct spn__piece pieces[] = { { header, sizeof header },
                                         { body, (size_t)frame->length } };

    spn__frame_write(header, frame);
    (void)spn__conn_send(conn, pieces, 2, 0, NULL); /* or the client has gone */
}

static void answer(struct spn__conn *conn, int64_t id)
{
    const struct spn__frame frame = {
        .flags = SPN__HESSIAN2, .status = SPN__STATUS_OK, .id = id, .length = 1
    };

    send_frame(conn, &frame, "\x92"); /* the number 2: the result is null */
}

static void say_read_only(struct spn__conn *conn)
{
    const struct spn__frame frame = {
        .flags = SPN__FRAME_REQUEST | SPN__FRAME_EVENT | SPN__HESSIAN2, .length = 2
    };

    send_frame(conn, &frame, "\001R");
}

static int opened(void *context, struct spn__conn *conn)
{
    (void)context;
    if (server.connections++ == 0)
        server.first = conn;
    if (server.plan == BREAKS)
        sim_net_break_all();
    return 0;
}

static void take(struct spn__conn *conn, const struct spn__frame *frame)
{
    sim_assert(spn__frame_is_request(frame));
    server.requests++;
    if (conn == server.first)
        server.on_first++;
    if (server.plan == SAYS_READ_ONLY && server.requests == 1)
        say_read_only(conn);
    if (server.plan != IS_SILENT && server.plan != CLOSES &&
        spn__frame_is_two_way(frame))
        answer(conn, frame->id);
    if (server.plan == ANSWERS_AND_CLOSES || server.plan == CLOSES)
        spn__conn_close(conn, SPN_ECLOSED);
}

static int64_t bytes(void *context, struct spn__conn *conn, const unsigned char *data,
                     size_t size)
{
    size_t used = 0, needed = 0;
    struct spn__frame frame;

    (void)context;
    while (used < size && spn__frame_read(&frame, data + used, size - used, 4096,
                                          &needed) == SPN__FRAME_WHOLE) {
        take(conn, &frame);
        used += needed;
    }
    if (used < size)
        spn__conn_want(conn, needed);
    return (int64_t)used;
}

static void closed(void *context, struct spn__conn *conn, int why)
{
    (void)context;
    (void)conn;
    (void)why;
}

static const struct spn__conn_events events = { .opened = opened,
                                                .bytes = bytes,
                                                .closed = closed };

static int start_server(enum plan plan)
{
    const struct spn__listen_opts opts = { .port = PORT };
    int rc;

    memset(&server, 0, sizeof server);
    server.plan = plan;
    rc = spn__transport_create(NULL, &server.transport);
    if (rc == SPN_OK)
        rc = spn__transport_listen(server.transport, &opts, &events, NULL,
                                   &server.listener);
    return rc;
}

static void stop_server(void)
{
    if (server.transport == NULL)
        return;
    sim_assert(spn__transport_stop(server.transport) == SPN_OK);
    if (server.listener != NULL)
        sim_assert(spn__listener_close(server.listener) == SPN_OK);
    sim_assert(spn__transport_destroy(server.transport) == SPN_OK);
}

/* ---- the client ------------------------------------------------------------------------ */

static spn_client *client;
static const spn_invocation hello = SPN_INVOCATION_INIT("a", "b");

#define URL "dubbo://sim:7?lazy=true&heartbeat=0&timeout=10&connect.timeout=5"

static int make_client_of(const char *url)
{
    (void)spn_log_set_level(SPN_LOG_OFF); /* a line per schedule */
    return spn_client_create(&client, url, NULL, NULL);
}

/* Nothing in it happens by itself: no heartbeats, no tries in the background, no pool. */
static int make_client(void)
{
    return make_client_of(URL "&dispatcher=direct&reconnect=false");
}

static void start(enum plan plan)
{
    sim_assert(start_server(plan) == SPN_OK);
    sim_assert(make_client() == SPN_OK);
}

static spn_client_stats stats(void)
{
    spn_client_stats s = SPN_CLIENT_STATS_INIT;

    sim_assert(spn_client_stats_get(client, &s) == SPN_OK);
    return s;
}

/* So many calls were taken, and each has ended once. */
static void end_client(uint64_t calls)
{
    spn_client_stats s;
    int rc;

    do
        rc = spn_client_close(client, SPN_SEC(1));
    while (rc == SPN_ETIMEDOUT); /* that second may be over early */
    sim_assert(rc == SPN_OK);
    s = stats();
    sim_assert(s.calls == calls && s.pending == 0 && s.connections == 0);
    sim_assert(s.calls == s.replies + s.timeouts + s.lost + s.cancelled);
    rc = spn_client_destroy(client);
    sim_assert(rc == SPN_OK);
}

static spn_future *submit(void)
{
    spn_future *future;

    sim_assert(spn_client_submit(client, &hello, &future) == SPN_OK);
    return future;
}

/* The outcome of a future: SPN_OK and a reply, or why there is none. */
static int outcome(spn_future *future)
{
    void *value = NULL;
    spn_outcome ended;
    int rc = spn_future_get(future, &value, SPN_FOREVER);

    if (rc == SPN_OK) {
        sim_assert(spn_reply_check(value) == SPN_OK);
        spn_reply_destroy(value);
    } else if (rc == SPN_EFAILED) {
        sim_assert(spn_future_result(future, &ended) == SPN_EFAILED);
        rc = ended.code;
    }
    spn_future_unref(future);
    return rc;
}

/* ---- futures ----------------------------------------------------------------------------- */

/* A reply against the timeout: one of them ends the call, and the numbers say which. */
SCENARIO(client__reply_races_timeout__one_ends_it, "CLI-5", "CLI-6", "CLI-16")
{
    spn_client_stats s;
    int rc;

    start(ANSWERS);
    rc = outcome(submit());
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    sim_settle(); /* a late reply has come */
    s = stats();
    sim_assert(s.replies == (rc == SPN_OK) && s.replies + s.timeouts + s.lost == 1);
    sim_outcome(rc == SPN_OK ? 0 : 1);
    end_client(1);
    stop_server();
}
SCENARIO_OPTS(client__reply_races_timeout__one_ends_it, .schedules = 150,
              .models = SIM_SC | SIM_C11, .early = 128, .no_faults = ALL_IS_THERE)

static void break_network(void *arg)
{
    (void)arg;
    sim_net_break_all();
}

/* Two calls, their replies and the loss of the connection, by a server that closes and by a
 * network that breaks: each has its reply, or the loss, at once. */
SCENARIO(client__reply_races_loss__one_ends_it, "CLI-8", "CLI-16")
{
    const bool server_closes = sim_choose(2) == 0;
    spn_future *first, *second;
    int rc[2];

    start(server_closes ? ANSWERS_AND_CLOSES : ANSWERS);
    if (!server_closes)
        sim_thread(break_network, NULL);
    first = submit();
    if (spn_client_submit(client, &hello, &second) != SPN_OK)
        second = NULL; /* lost before it was sent */
    rc[0] = outcome(first);
    rc[1] = second != NULL ? outcome(second) : SPN_ECLOSED;
    for (int i = 0; i < 2; i++)
        sim_assert(rc[i] == SPN_OK || rc[i] == SPN_ECLOSED || rc[i] == SPN_ETIMEDOUT ||
                   rc[i] == SPN_EUNREACHABLE);
    sim_join_all();
    end_client(2);
    stop_server();
}
SCENARIO_OPTS(client__reply_races_loss__one_ends_it, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = 512, .no_faults = ALL_IS_THERE)

static void cancel(void *future)
{
    sim_assert(spn_future_cancel(future, 0) >= 0);
}

/* Cancelling against the reply: the holder sees one of them, and a reply that nobody takes
 * is freed. */
SCENARIO(client__reply_races_cancel__one_ends_it, "CLI-7", "CLI-16")
{
    spn_future *future;
    int rc;

    start(ANSWERS);
    future = submit();
    sim_thread(cancel, future);
    rc = outcome(spn_future_ref(future));
    sim_assert(rc == SPN_OK || rc == SPN_ECANCELED || rc == SPN_ETIMEDOUT);
    sim_join_all();
    spn_future_unref(future);
    end_client(1);
    stop_server();
}
SCENARIO_OPTS(client__reply_races_cancel__one_ends_it, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = 512, .no_faults = ALL_IS_THERE)

/* Cancelling against close and destroy, with a call that waits for a connection or has
 * one: the thread that cancels has nothing to do with the client, and may be late. */
SCENARIO(client__cancel_races_destroy__client_outlives_it, "CLI-7", "CLI-14")
{
    const struct sim_net_script script = { .hang = sim_choose(2) == 0 };
    spn_future *future;
    int rc;

    sim_net_set(&script);
    start(IS_SILENT);
    future = submit();
    sim_settle(); /* it was sent, or waits */
    sim_thread(cancel, future);
    rc = spn_client_close(client, 0);
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    end_client(1);
    sim_join_all();
    spn_future_unref(future);
    stop_server();
}
SCENARIO_OPTS(client__cancel_races_destroy__client_outlives_it, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = 512, .no_faults = ALL_IS_THERE)

/* ---- threads that wait --------------------------------------------------------------------- */

static struct {
    int rc;
    int64_t took_ns;
} waited;

static void call(void *arg)
{
    const int64_t began_ns = sim_now();
    spn_reply *reply;

    (void)arg;
    waited.rc = spn_client_call(client, &hello, &reply, NULL);
    waited.took_ns = sim_now() - began_ns;
    sim_assert((reply != NULL) == (waited.rc == SPN_OK));
    spn_reply_destroy(reply);
}

/* A thread that waits, and its reply: it has it, or its time was up.  A reply that comes
 * when it has left is dropped. */
SCENARIO(client__wait_races_reply_and_timeout__one_ends_it, "CLI-1", "CLI-5", "CLI-6")
{
    start(ANSWERS);
    call(NULL);
    sim_assert(waited.rc == SPN_OK || waited.rc == SPN_ETIMEDOUT);
    sim_assert(waited.rc == SPN_OK || waited.took_ns >= SPN_MS(TIMEOUT_MS));
    end_client(1);
    stop_server();
}
SCENARIO_OPTS(client__wait_races_reply_and_timeout__one_ends_it, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = 128, .no_faults = ALL_IS_THERE)

/* A thread that waits for nothing: the timer ends it, in time, and not its own patience,
 * which is longer. */
SCENARIO(client__wait_for_nothing__ends_in_time, "CLI-5")
{
    start(IS_SILENT);
    call(NULL);
    sim_assert(waited.rc == SPN_ETIMEDOUT);
    sim_assert(waited.took_ns >= SPN_MS(TIMEOUT_MS));
    sim_assert(waited.took_ns <= SPN_MS(TIMEOUT_MS + 2)); /* a tick, and its start */
    end_client(1);
    stop_server();
}
SCENARIO_OPTS(client__wait_for_nothing__ends_in_time, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static int hold_timer(void *arg, const spn_outcome *told, void **result)
{
    (void)arg;
    (void)told;
    (void)result;
    sim_sleep(SPN_SEC(10));
    return 0;
}

/* The timer's thread hangs in somebody's stage: a thread that waits is done a second after
 * its time was up, once, and not once for each of the two things it waits for. */
SCENARIO(client__timer_hangs__wait_ends_by_itself, "CLI-5")
{
    spn_future *first, *stage;

    start(IS_SILENT);
    first = submit();
    sim_assert(spn_future_handle(first, NULL, hold_timer, NULL, &stage) == SPN_OK);
    sim_assert(outcome(first) == SPN_ETIMEDOUT); /* and the stage begins */
    call(NULL);
    sim_assert(waited.rc == SPN_ETIMEDOUT);
    sim_assert(waited.took_ns >= SPN_MS(TIMEOUT_MS) + SPN_SEC(1));
    sim_assert(waited.took_ns <= SPN_MS(TIMEOUT_MS) + SPN_SEC(1) + SPN_MS(1));
    sim_assert(spn_future_get(stage, NULL, SPN_FOREVER) == SPN_OK);
    spn_future_unref(stage);
    end_client(2);
    stop_server();
}
SCENARIO_OPTS(client__timer_hangs__wait_ends_by_itself, .schedules = 50,
              .models = SIM_SC, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* A thread that waits, while the connection breaks or the server closes it. */
SCENARIO(client__wait_races_loss__ends_at_once, "CLI-8")
{
    static const enum plan plans[] = { ANSWERS, ANSWERS_AND_CLOSES, CLOSES, BREAKS };

    start(plans[sim_choose(4)]);
    sim_thread(call, NULL);
    if (server.plan == ANSWERS)
        sim_net_break_all();
    sim_join_all();
    sim_assert(waited.rc == SPN_OK || waited.rc == SPN_ECLOSED ||
               waited.rc == SPN_EUNREACHABLE);
    sim_assert(waited.rc != SPN_OK || server.plan < CLOSES);
    sim_assert(waited.took_ns < SPN_MS(TIMEOUT_MS));
    end_client(1);
    stop_server();
}
SCENARIO_OPTS(client__wait_races_loss__ends_at_once, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* A thread that waits, or only begins to, while the client is closed without patience: the
 * call is cut off, and close does not wait for its timeout. */
SCENARIO(client__wait_races_close__ends, "CLI-14")
{
    int64_t began_ns;
    uint64_t taken;
    int rc;

    start(sim_choose(2) == 0 ? IS_SILENT : ANSWERS);
    sim_thread(call, NULL);
    began_ns = sim_now();
    rc = spn_client_close(client, 0);
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    sim_assert(sim_now() - began_ns < SPN_MS(TIMEOUT_MS));
    taken = stats().calls; /* and none from here on */
    sim_join_all();
    sim_assert(waited.rc == SPN_ESHUTDOWN ||
               (waited.rc == SPN_OK && server.plan == ANSWERS));
    sim_assert(taken == 1 || waited.rc == SPN_ESHUTDOWN);
    end_client(taken);
    stop_server();
}
SCENARIO_OPTS(client__wait_races_close__ends, .schedules = 400,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- close ------------------------------------------------------------------------------- */

/* Calls in flight when the client is closed have their reply if it comes in time, and else
 * SPN_ESHUTDOWN; close says whether it cut any off. */
SCENARIO(client__closed_with_calls_in_flight__each_ends_once, "CLI-14", "CLI-16")
{
    const int64_t patience[] = { 0, SPN_MS(1), SPN_SEC(1) };
    spn_future *futures[2];
    bool cut_off = false;
    int closed_with;

    start(sim_choose(2) == 0 ? IS_SILENT : ANSWERS);
    for (int i = 0; i < 2; i++)
        futures[i] = submit();
    closed_with = spn_client_close(client, patience[sim_choose(3)]);
    sim_assert(spn_client_submit(client, &hello, &(spn_future *){ NULL }) ==
               SPN_ESHUTDOWN);
    for (int i = 0; i < 2; i++) {
        int rc;

        sim_assert(spn_future_get_state(futures[i]) != SPN_FUTURE_PENDING);
        rc = outcome(futures[i]);
        sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_ESHUTDOWN);
        cut_off = cut_off || rc == SPN_ESHUTDOWN;
    }
    sim_assert(closed_with == (cut_off ? SPN_ETIMEDOUT : SPN_OK));
    end_client(2);
    stop_server();
}
SCENARIO_OPTS(client__closed_with_calls_in_flight__each_ends_once, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = 512, .no_faults = ALL_IS_THERE)

static int sent_with;

static void send_one(void *arg)
{
    (void)arg;
    sent_with = spn_client_send(client, &hello);
}

/* A request without a reply beside close: it was sent, and close has waited for that, or it
 * was refused.  The connection stands, and both begin at the same time: what decides is a
 * few steps long. */
SCENARIO(client__send_races_close__waited_for_or_refused, "CLI-4", "CLI-14")
{
    uint64_t counted;
    int rc;

    start(ANSWERS);
    call(NULL);
    sim_settle();
    sim_thread(send_one, NULL);
    rc = spn_client_close(client, 0);
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    counted = stats().one_way; /* all that there will be */
    sim_join_all();
    sim_assert(sent_with == SPN_OK || sent_with == SPN_ESHUTDOWN);
    sim_assert(counted == (sent_with == SPN_OK));
    end_client(1);
    stop_server();
}
SCENARIO_OPTS(client__send_races_close__waited_for_or_refused, .schedules = 100,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- connections ----------------------------------------------------------------------------- */

static void submit_and_wait(void *arg)
{
    spn_future *future;
    int rc = spn_client_submit(client, &hello, &future);

    (void)arg;
    if (rc == SPN_OK)
        rc = outcome(future);
    sim_assert(rc == SPN_EUNREACHABLE || rc == SPN_ETIMEDOUT);
}

/* A connection that cannot be had, at once or in time, with calls of two threads that wait
 * for it: all end, and one that comes later makes a new try. */
SCENARIO(client__connect_fails__waiting_calls_end, "CLI-9", "CLI-16")
{
    const struct sim_net_script script = { .hang = sim_choose(2) == 0 };
    spn_client_stats s;

    sim_net_set(&script);
    sim_assert(make_client() == SPN_OK);
    sim_thread(submit_and_wait, NULL);
    submit_and_wait(NULL);
    sim_join_all();
    s = stats();
    sim_assert(s.failures <= 2 && s.connects == 0);
    end_client(2);
}
SCENARIO_OPTS(client__connect_fails__waiting_calls_end, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = 512, .no_faults = ALL_IS_THERE)

/* Closing while a connection is being made, with a call that waits for it. */
SCENARIO(client__close_races_connect__call_ends, "CLI-14", "CLI-16")
{
    spn_future *future;
    int rc;

    start(ANSWERS);
    future = submit();
    rc = spn_client_close(client, 0);
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    sim_assert(spn_future_get_state(future) != SPN_FUTURE_PENDING);
    rc = outcome(future);
    sim_assert(rc == SPN_OK || rc == SPN_ESHUTDOWN || rc == SPN_ETIMEDOUT);
    end_client(1);
    stop_server();
}
SCENARIO_OPTS(client__close_races_connect__call_ends, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = 512, .no_faults = ALL_IS_THERE)

static void submit_answered(void *arg)
{
    (void)arg;
    sim_assert(outcome(submit()) == SPN_OK);
}

/* The server wants no more requests: calls that were sent before have their reply, and the
 * first after it makes another connection. */
SCENARIO(client__read_only_races_call__all_answered, "CLI-12")
{
    spn_client_stats s;

    start(SAYS_READ_ONLY);
    sim_thread(submit_answered, NULL);
    submit_answered(NULL);
    sim_join_all();
    s = stats();
    sim_assert(s.replies == 2 && s.lost == 0);
    submit_answered(NULL); /* not over the first: both replies came behind the event */
    s = stats();
    sim_assert(s.connects == 2 && s.connections == 2 && s.read_only == 1);
    end_client(3);
    stop_server();
    sim_assert(server.connections == 2 && server.requests == 3);
    sim_assert(server.on_first == 1 || server.on_first == 2);
}
SCENARIO_OPTS(client__read_only_races_call__all_answered, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- pools ------------------------------------------------------------------------------- */

/* Replies and the end of connections go through the pool, while the network breaks and the
 * client is closed. */
SCENARIO(client__pool_races_loss_and_close__each_ends_once, "CLI-1", "CLI-8", "CLI-14")
{
    spn_future *futures[2];
    int rc;

    sim_assert(start_server(ANSWERS) == SPN_OK);
    sim_assert(make_client_of(URL "&dispatcher=all&reconnect=false&connections=2") ==
               SPN_OK);
    sim_thread(break_network, NULL);
    for (int i = 0; i < 2; i++)
        futures[i] = submit();
    rc = spn_client_close(client, 0);
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    for (int i = 0; i < 2; i++) {
        sim_assert(spn_future_get_state(futures[i]) != SPN_FUTURE_PENDING);
        rc = outcome(futures[i]);
        sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_ESHUTDOWN ||
                   rc == SPN_ECLOSED || rc == SPN_EUNREACHABLE);
    }
    sim_join_all();
    end_client(2);
    stop_server();
}
SCENARIO_OPTS(client__pool_races_loss_and_close__each_ends_once, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = 512, .no_faults = ALL_IS_THERE)

/* A lost connection is made anew by the timer and the pool, while the client is closed. */
SCENARIO(client__reconnect_races_close__nothing_left, "CLI-10", "CLI-14")
{
    int rc;

    sim_assert(start_server(CLOSES) == SPN_OK);
    sim_assert(make_client_of(URL "&dispatcher=direct") == SPN_OK);
    rc = outcome(submit());
    sim_assert(rc == SPN_ECLOSED || rc == SPN_ETIMEDOUT || rc == SPN_EUNREACHABLE);
    if (sim_choose(2) == 0)
        sim_sleep(SPN_MS(99)); /* a try is due in a moment */
    end_client(1);
    stop_server();
}
SCENARIO_OPTS(client__reconnect_races_close__nothing_left, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = 32, .no_faults = ALL_IS_THERE)

/* ---- failures ------------------------------------------------------------------------------- */

/* Every allocation and every thread in turn cannot be had: calls fail, are lost or are
 * answered, and what there is of the client can be closed and freed without memory. */
SCENARIO(client__nothing_to_be_had__nothing_left, "CLI-14", "CLI-16")
{
    spn_future *future;

    if (start_server(ANSWERS) == SPN_OK) {
        const int rc = make_client();

        sim_assert(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
        if (rc == SPN_OK) {
            call(NULL);
            if (spn_client_submit(client, &hello, &future) == SPN_OK)
                (void)outcome(future);
            (void)!spn_client_send(client, &hello);
            end_client(stats().calls);
        }
    }
    stop_server();
}
SCENARIO_OPTS(client__nothing_to_be_had__nothing_left, .schedules = 50,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .faults = true)
