/* SPDX-License-Identifier: MIT */
/*
 * scenario_endpoint.c - an endpoint with a codec of the scenario's on the explorer's network:
 * each message ends once, each connection is told of once, stop comes to its end whatever
 * the peer does, and a peer that does not read is read again when it does.
 *
 * A frame is a letter and a digit: "q1" is a request that is answered at once, "k1" one that
 * the handler keeps, "l1" one with a long answer.  Answers are "a1", a long one is "a1" and
 * a row of fillers "..", which mean nothing.
 */
#include "sim.h"

#include <string.h>

#include <spindle-rpc.h>
#include <spindle/endpoint.h>
#include <spindle/log.h>

#include "net/gate.h"
#include "net/transport.h"
#include "net_sim.h"
#include "sync/seam.h"

enum { PORT = 7, FRAME = 2, LONG = 98, KEPT = 4, ASKS = 10 };

#define ALL_IS_THERE "the last scenario is for failures"

/* ---- the codec ----------------------------------------------------------------------------- */

struct ask {
    spn_message head;
    char letter, digit;
};

static struct site {
    spn_handler handler;
    spn_endpoint *endpoint;
    spn_dispatch *dispatch;
    struct ask *kept[KEPT]; /* published by has_kept */
    struct spn__gate has_kept;
    int keeps, keep_at;
    int connected, disconnected, caught; /* of one connection, or one I/O thread */
    int why, caught_why, io_thread;
    uint64_t sent;
    SPN__ATOMIC(int) received, failures, alive; /* relaxed */
} site;

static int64_t frame_length(void *ctx, const void *data, size_t size)
{
    (void)ctx;
    if (size >= 1 && *(const char *)data == '!')
        return SPN_EPROTO;
    return size >= 1 ? FRAME : 0;
}

static void ask_release(spn_message *message)
{
    (void)spn__fetch_sub(&site.alive, 1, relaxed);
    spn__free(message);
}

static const spn_message_ops ask_ops = { ask_release, NULL };

static int frame_decode(void *ctx, spn_channel *channel, const void *frame, size_t size,
                        spn_message **out)
{
    const char *letters = frame;
    struct ask *ask;

    (void)ctx;
    (void)channel;
    sim_assert(size == FRAME);
    *out = NULL;
    if (letters[0] == 'a' || letters[0] == '.' || letters[0] == 'h')
        return 0;
    ask = spn__alloc(sizeof *ask);
    if (ask == NULL)
        return SPN_ENOMEM;
    ask->head = (spn_message)SPN_MESSAGE_INIT(&ask_ops, SPN_MESSAGE_REQUEST);
    ask->letter = letters[0];
    ask->digit = letters[1];
    (void)spn__fetch_add(&site.alive, 1, relaxed);
    *out = &ask->head;
    return 0;
}

/* A message is the letters to send. */
static int64_t frame_encode(void *ctx, const void *message, void *room, size_t size)
{
    const size_t length = strlen(message);

    (void)ctx;
    if (length <= size)
        memcpy(room, message, length);
    return (int64_t)length;
}

static const spn_codec codec = { sizeof codec, NULL, frame_length, frame_decode,
                                 frame_encode };

/* ---- the handler ----------------------------------------------------------------------------- */

static void answer(spn_channel *channel, char digit, bool is_long)
{
    char text[LONG + 1];
    const size_t length = is_long ? LONG : FRAME;

    memset(text, '.', length);
    text[0] = 'a';
    text[1] = digit;
    text[length] = '\0';
    if (spn_channel_send(channel, text) != SPN_OK)
        (void)spn__fetch_add(&site.failures, 1, relaxed);
}

static void on_connected(spn_handler *self, spn_channel *channel)
{
    (void)self;
    sim_assert(spn_channel_data(channel) == NULL);
    spn_channel_set_data(channel, &site, NULL);
    site.io_thread = sim_self();
    site.connected++;
}

static void on_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    (void)self;
    sim_assert(spn_channel_data(channel) == &site);
    sim_assert(site.connected > site.disconnected);
    site.disconnected++;
    site.why = why;
}

static void on_caught(spn_handler *self, spn_channel *channel, int why)
{
    (void)self;
    sim_assert(spn_channel_data(channel) == &site);
    site.caught++;
    site.caught_why = why;
}

static void on_sent(spn_handler *self, spn_channel *channel, uint64_t position)
{
    (void)self;
    sim_assert(spn_channel_data(channel) == &site && position > site.sent);
    site.sent = position;
}

static int on_received(spn_handler *self, spn_channel *channel, spn_message *message)
{
    struct ask *ask = (struct ask *)message;

    (void)self;
    sim_assert(spn_channel_data(channel) == &site);
    if (ask->letter == 'k') {
        site.kept[site.keeps++] = ask;
        if (site.keeps == site.keep_at)
            spn__gate_open(&site.has_kept);
        /* release: it is among those that are kept. */
        (void)spn__fetch_add(&site.received, 1, release);
        return 0;
    }
    (void)spn__fetch_add(&site.received, 1, relaxed);
    answer(channel, ask->digit, ask->letter == 'l');
    spn_message_release(message);
    return 0;
}

static const spn_handler_ops deaf_ops = { on_connected, on_disconnected, NULL,
                                          on_received, on_caught };
static const spn_handler_ops with_sent_ops = { on_connected, on_disconnected, on_sent,
                                               on_received, on_caught };

/* ---- the endpoint ------------------------------------------------------------------------------ */

static const spn_endpoint_opts still = {
    .size = sizeof(spn_endpoint_opts),
    .io_threads = 1,
    .frame_timeout_ns = SPN_FOREVER, /* nothing happens by itself */
};

static void site_init(const spn_handler_ops *ops)
{
    (void)spn_log_set_level(SPN_LOG_OFF); /* a line per schedule */
    memset(&site, 0, sizeof site);
    site.handler.ops = ops;
    spn__gate_init(&site.has_kept);
    spn__init(&site.received, 0);
    spn__init(&site.failures, 0);
    spn__init(&site.alive, 0);
}

static int listen_with(const spn_endpoint_opts *opts)
{
    const int rc =
        spn_endpoint_listen(&site.endpoint, "sim", PORT, &codec,
                            site.dispatch != NULL ? spn_dispatch_handler(site.dispatch)
                                                  : &site.handler,
                            opts, NULL);

    sim_assert((rc == SPN_OK) == (site.endpoint != NULL));
    return rc;
}

static void begin(const spn_handler_ops *ops, const spn_endpoint_opts *opts)
{
    site_init(ops);
    sim_assert(listen_with(opts) == SPN_OK);
}

static spn_endpoint_stats stats(void)
{
    spn_endpoint_stats s = SPN_ENDPOINT_STATS_INIT;

    sim_assert(spn_endpoint_stats_get(site.endpoint, &s) == SPN_OK);
    return s;
}

static void end(void)
{
    spn_endpoint_stats s;
    int rc;

    do
        rc = spn_endpoint_stop(site.endpoint, SPN_SEC(1));
    while (rc == SPN_ETIMEDOUT || rc == SPN_ENOMEM); /* that second may be over early */
    sim_assert(rc == SPN_OK);
    s = stats();
    sim_assert(s.channels == 0 && s.in_flight == 0 && s.memory_used == 0);
    sim_assert(spn__load(&site.alive, relaxed) == 0);
    sim_assert(spn_endpoint_destroy(site.endpoint) == SPN_OK);
}

/* ---- the peer ------------------------------------------------------------------------------------ */

static struct caller {
    struct spn__transport *transport;
    struct spn__conn *conn;
    const char *asks;        /* sent when the connection stands */
    int answers[ASKS];       /* its thread's, until it is over */
    SPN__ATOMIC(int) closed; /* relaxed */
    int why;
} callers[2];

static int ask_for(struct caller *c, const char *asks)
{
    const struct spn__piece piece = { asks, strlen(asks) };

    return spn__conn_send(c->conn, &piece, 1, 0, NULL);
}

static int opened(void *context, struct spn__conn *conn)
{
    struct caller *c = context;

    (void)conn; /* connect has stored it */
    return c->asks != NULL && ask_for(c, c->asks) != SPN_OK ? SPN_ECLOSED : 0;
}

static int64_t bytes(void *context, struct spn__conn *conn, const unsigned char *data,
                     size_t size)
{
    struct caller *c = context;
    size_t used = 0;

    (void)conn;
    for (; used + FRAME <= size; used += FRAME) {
        if (data[used] == '.' || data[used] == 'h')
            continue;
        sim_assert(data[used] == 'a' && data[used + 1] >= '0' && data[used + 1] <= '9');
        sim_assert(++c->answers[data[used + 1] - '0'] == 1);
    }
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

static int dial(struct caller *c, const char *asks)
{
    int rc;

    memset(c, 0, sizeof *c);
    spn__init(&c->closed, 0);
    c->asks = asks;
    rc = spn__transport_create(NULL, &c->transport);
    if (rc == SPN_OK)
        rc = spn__transport_connect(c->transport, "sim", PORT, SPN_SEC(1), &events, c,
                                    NULL, &c->conn);
    return rc;
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

static int answered(const struct caller *c)
{
    int sum = 0;

    for (int i = 0; i < ASKS; i++)
        sum += c->answers[i];
    return sum;
}

static void end_side(void *arg)
{
    spn__conn_end(((struct caller *)arg)->conn);
}

static void close_side(void *arg)
{
    spn__conn_close(((struct caller *)arg)->conn, SPN_ECLOSED);
}

static void break_network(void *arg)
{
    (void)arg;
    sim_net_break_all();
}

/* Answers what was kept, and releases it. */
static void answer_kept(void *arg)
{
    (void)arg;
    spn__gate_wait(&site.has_kept);
    for (int i = 0; i < site.keep_at; i++) {
        struct ask *ask = site.kept[i];

        answer(ask->head.channel, ask->digit, false);
        spn_message_release(&ask->head);
    }
}

/* ---- stop ------------------------------------------------------------------------------------------ */

/* stop with messages in flight that another thread answers: they arrive, and then the end. */
SCENARIO(endpoint__stopped_with_messages_in_flight__answers_them, "EP-23", "EP-2")
{
    begin(&deaf_ops, &still);
    site.keep_at = 2;
    sim_assert(dial(&callers[0], "k1k2q3") == SPN_OK);
    sim_settle();
    sim_thread(answer_kept, NULL);
    sim_assert(spn_endpoint_stop(site.endpoint, SPN_SEC(5)) == SPN_OK);
    sim_assert(stats().cut_off == 0 && stats().messages == 3);
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(answered(&callers[0]) == 3 && callers[0].why == 0);
    sim_assert(site.connected == 1 && site.disconnected == 1);
    end();
}
SCENARIO_OPTS(endpoint__stopped_with_messages_in_flight__answers_them, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* stop, answers from another thread, and a peer that ends its side, closes or is cut off, all
 * at any time: each message is released once, the connection is told of once, and a peer that
 * only ended its side has every answer. */
SCENARIO(endpoint__stop_races_answers_and_the_peers_end__each_ends_once, "EP-23",
         "EP-9", "EP-3")
{
    static void (*const ends[])(void *) = { end_side, close_side, break_network };
    const unsigned how = sim_choose(3);

    begin(&deaf_ops, &still);
    site.keep_at = 2;
    sim_assert(dial(&callers[0], "k1k2") == SPN_OK);
    spn__gate_wait(&site.has_kept);
    sim_thread(answer_kept, NULL);
    sim_thread(ends[how], &callers[0]);
    if (sim_choose(2) == 0)
        sim_settle();
    end();
    sim_join_all();
    sim_assert(site.connected == 1 && site.disconnected == 1 && site.caught == 0);
    hang_up(&callers[0]);
    if (how == 0)
        sim_assert(spn__load(&site.failures, relaxed) == 0);
}
SCENARIO_OPTS(endpoint__stop_races_answers_and_the_peers_end__each_ends_once,
              .schedules = 100, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

static void dial_and_ask(void *arg)
{
    sim_assert(dial(arg, "q1q2") == SPN_OK);
}

/* stop against a connection that comes and one that asks: what was taken is answered, and the
 * answers arrive. */
SCENARIO(endpoint__stop_races_connections__none_left, "EP-23", "EP-20")
{
    spn_endpoint_stats s;
    int sum = 0;

    begin(&deaf_ops, &still);
    sim_thread(dial_and_ask, &callers[1]);
    sim_assert(dial(&callers[0], "q1") == SPN_OK);
    sim_assert(spn_endpoint_stop(site.endpoint, SPN_SEC(1)) == SPN_OK);
    s = stats();
    sim_assert(s.channels == 0 && s.in_flight == 0);
    sim_assert(site.connected == site.disconnected);
    sim_join_all();
    for (int i = 0; i < 2; i++) {
        hang_up(&callers[i]);
        sum += answered(&callers[i]);
    }
    sim_assert((uint64_t)sum == s.messages);
    end();
}
SCENARIO_OPTS(endpoint__stop_races_connections__none_left, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* stop without patience and destroy, beside a message that is released at any time: they say
 * that they cannot until it is. */
SCENARIO(endpoint__destroyed_with_a_message_kept__waits_for_it, "EP-24", "EP-26")
{
    int rc;

    begin(&deaf_ops, &still);
    site.keep_at = 1;
    sim_assert(dial(&callers[0], "k1") == SPN_OK);
    spn__gate_wait(&site.has_kept);
    sim_thread(answer_kept, NULL);
    sim_assert(spn_endpoint_destroy(site.endpoint) == SPN_EBUSY);
    do {
        rc = spn_endpoint_stop(site.endpoint, 0);
        sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
        if (rc == SPN_OK)
            rc = spn_endpoint_destroy(site.endpoint);
        else
            sim_assert(spn_endpoint_destroy(site.endpoint) == SPN_EBUSY);
        if (rc != SPN_OK)
            spn__os_yield();
    } while (rc != SPN_OK);
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(site.disconnected == 1 && spn__load(&site.alive, relaxed) == 0);
}
SCENARIO_OPTS(endpoint__destroyed_with_a_message_kept__waits_for_it, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* A message that outlives the time of stop: the peer sees a reset, since an end would say that
 * its request was not taken. */
SCENARIO(endpoint__stopped_before_a_message_ends__peer_sees_a_reset, "EP-24")
{
    const int64_t began_ns = sim_now();

    begin(&deaf_ops, &still);
    site.keep_at = 2; /* nobody waits for the one */
    sim_assert(dial(&callers[0], "k1") == SPN_OK);
    sim_settle();
    sim_assert(spn_endpoint_stop(site.endpoint, SPN_MS(10)) == SPN_ETIMEDOUT);
    sim_assert(sim_now() - began_ns >= SPN_MS(10));
    sim_assert(site.disconnected == 1);
    sim_assert(spn_channel_send(site.kept[0]->head.channel, "a1") == SPN_ECLOSED);
    spn_message_release(&site.kept[0]->head);
    sim_settle(); /* the peer has seen it */
    sim_assert(answered(&callers[0]) == 0 && callers[0].why == SPN_EIO);
    hang_up(&callers[0]);
    end();
}
SCENARIO_OPTS(endpoint__stopped_before_a_message_ends__peer_sees_a_reset,
              .schedules = 40, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* A peer that ended its side while its messages are answered on other threads: it has all of
 * them, and the connection ends by itself. */
SCENARIO(endpoint__half_closed_beside_answers__ends_by_itself, "EP-9")
{
    begin(&deaf_ops, &still);
    site.keep_at = 2;
    sim_assert(dial(&callers[0], "k1k2") == SPN_OK);
    sim_thread(answer_kept, NULL);
    spn__gate_wait(&site.has_kept);
    end_side(&callers[0]);
    sim_join_all();
    sim_settle();
    sim_assert(site.disconnected == 1 && site.why == SPN_OK);
    sim_assert(spn__load(&site.failures, relaxed) == 0 && stats().channels == 0);
    hang_up(&callers[0]);
    end();
}
SCENARIO_OPTS(endpoint__half_closed_beside_answers__ends_by_itself, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* A bad frame behind messages that another thread answers, and a peer that may end its side: the
 * last release, the I/O thread and that end race, each answer arrives, and the connection ends
 * once. */
SCENARIO(endpoint__no_frame_beside_answers__answered_and_ended_once, "EP-7", "EP-9")
{
    const bool ends = sim_choose(2) == 0; /* then it is deaf as well */

    begin(&deaf_ops, &still);
    site.keep_at = 2;
    sim_assert(dial(&callers[0], "k1k2!!q3") == SPN_OK);
    sim_thread(answer_kept, NULL);
    if (ends) {
        spn__gate_wait(&site.has_kept);
        sim_thread(end_side, &callers[0]);
    }
    sim_join_all();
    sim_settle();
    sim_assert(ends || answered(&callers[0]) == 2);
    sim_assert(spn__load(&site.failures, relaxed) == 0);
    sim_assert(site.caught == 1 && site.caught_why == SPN_EPROTO);
    sim_assert(site.disconnected == 1 && site.why == SPN_EPROTO);
    sim_assert(stats().channels == 0 && stats().messages == 2);
    sim_assert(stats().bad_frames == 1 && stats().cut_off == 0);
    hang_up(&callers[0]);
    end();
}
SCENARIO_OPTS(endpoint__no_frame_beside_answers__answered_and_ended_once,
              .schedules = 100, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* ---- back-pressure ------------------------------------------------------------------------------- */

static void begin_narrow(const spn_handler_ops *ops)
{
    const struct sim_net_script script = { .capacity = 64 };
    spn_endpoint_opts opts = still;

    opts.max_unwritten = 400; /* a long answer is 98; pauses above 200 */
    sim_net_set(&script);
    begin(ops, &opts);
}

/* A peer behind a narrow network, and answers that make more wait than half of what may:
 * reading pauses, goes on when the peer has read, and nothing stands still. */
SCENARIO(endpoint__peer_reads_slowly__paused_and_resumed, "EP-18")
{
    begin_narrow(&deaf_ops);
    sim_assert(dial(&callers[0], "l0l1l2l3l4") == SPN_OK);
    if (sim_choose(2) == 0)
        sim_settle();
    sim_assert(ask_for(&callers[0], "l5l6l7l8l9") == SPN_OK);
    sim_settle();
    sim_assert(spn__load(&site.received, relaxed) == ASKS);
    sim_assert(answered(&callers[0]) == ASKS);
    sim_assert(spn__load(&site.failures, relaxed) == 0);
    end();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(endpoint__peer_reads_slowly__paused_and_resumed, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* Closed in order while its peer does not read: what was sent waits for the peer, longer than
 * an end lingers. */
SCENARIO(endpoint__closed_in_order_before_a_slow_reader__has_everything, "EP-3", "EP-7")
{
    const bool is_bad_frame = sim_choose(2) == 0;
    struct spn__conn *conn;

    begin_narrow(&deaf_ops);
    site.keep_at = 1;
    sim_assert(dial(&callers[0], "k0") == SPN_OK);
    spn__gate_wait(&site.has_kept);
    conn = callers[0].conn;
    spn__conn_pause(conn);
    answer(site.kept[0]->head.channel, '0', true);
    if (is_bad_frame)
        sim_assert(ask_for(&callers[0], "!!") == SPN_OK);
    else
        spn_channel_close(site.kept[0]->head.channel, SPN_OK);
    spn_message_release(&site.kept[0]->head);
    sim_sleep(SPN_SEC(60));
    sim_assert(site.disconnected == 0 && answered(&callers[0]) == 0);
    spn__conn_resume(conn);
    sim_settle();
    sim_assert(answered(&callers[0]) == 1 && callers[0].why == SPN_OK);
    sim_assert(site.disconnected == 1);
    sim_assert(site.why == (is_bad_frame ? SPN_EPROTO : SPN_OK));
    hang_up(&callers[0]);
    end();
}
SCENARIO_OPTS(endpoint__closed_in_order_before_a_slow_reader__has_everything,
              .schedules = 40, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* A peer that never reads, and a program that closes again and again: the time of the first
 * close counts. */
SCENARIO(endpoint__closed_again_before_a_dead_reader__not_put_off, "EP-3")
{
    spn_channel *channel;

    begin_narrow(&deaf_ops);
    site.keep_at = 1;
    sim_assert(dial(&callers[0], "k0") == SPN_OK);
    spn__gate_wait(&site.has_kept);
    spn__conn_pause(callers[0].conn);
    channel = spn_channel_ref(site.kept[0]->head.channel);
    answer(channel, '0', true);
    spn_message_release(&site.kept[0]->head);
    for (int i = 0; i < 4; i++) {
        sim_assert(site.disconnected == 0);
        spn_channel_close(channel, SPN_OK);
        sim_sleep(SPN_SEC(50));
    }
    sim_settle();
    sim_assert(site.disconnected == 1 && site.why == SPN_ETIMEDOUT);
    spn_channel_unref(channel);
    hang_up(&callers[0]);
    end();
}
SCENARIO_OPTS(endpoint__closed_again_before_a_dead_reader__not_put_off, .schedules = 30,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static void answer_kept_long(void *arg)
{
    (void)arg;
    spn__gate_wait(&site.has_kept);
    for (int i = 0; i < site.keep_at; i++) {
        answer(site.kept[i]->head.channel, site.kept[i]->digit, true);
        spn_message_release(&site.kept[i]->head);
    }
}

/* The same with answers from another thread, whose write races the loop's. */
SCENARIO(endpoint__answers_of_others_pause__resumed, "EP-18")
{
    begin_narrow(sim_choose(2) == 0 ? &deaf_ops : &with_sent_ops);
    site.keep_at = KEPT;
    sim_assert(dial(&callers[0], "k0k1k2k3") == SPN_OK);
    sim_thread(answer_kept_long, NULL);
    spn__gate_wait(&site.has_kept);
    sim_assert(ask_for(&callers[0], "q4q5") == SPN_OK);
    sim_join_all();
    sim_settle();
    sim_assert(spn__load(&site.received, relaxed) == KEPT + 2);
    sim_assert(answered(&callers[0]) + spn__load(&site.failures, relaxed) == KEPT + 2);
    sim_outcome((unsigned)spn__load(&site.failures, relaxed));
    end();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(endpoint__answers_of_others_pause__resumed, .schedules = 300,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static void let_go_one_by_one(void *arg)
{
    for (int i = 0; i < KEPT; i++) {
        struct ask *ask;

        (void)arg;
        while (spn__load(&site.received, acquire) <= i)
            spn__cpu_relax();
        ask = site.kept[i];
        answer(ask->head.channel, ask->digit, false);
        spn_message_release(&ask->head);
    }
}

/* No more than max_in_flight of a peer's messages are taken at a time, while another thread
 * releases them: the last one that pauses reading, and the release that it races, leave
 * nobody waiting. */
SCENARIO(endpoint__too_many_in_flight__read_when_released, "EP-29")
{
    spn_endpoint_opts opts = still;

    opts.max_in_flight = 1 + (int32_t)sim_choose(2);
    begin(&deaf_ops, &opts);
    sim_assert(dial(&callers[0], "k0k1k2k3") == SPN_OK);
    sim_thread(let_go_one_by_one, NULL);
    sim_join_all();
    sim_settle();
    sim_assert(answered(&callers[0]) == KEPT && stats().in_flight == 0);
    end();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(endpoint__too_many_in_flight__read_when_released, .schedules = 200,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- sent ------------------------------------------------------------------------------------------ */

/* A handler that listens to `sent` hears of the last byte, whoever wrote it. */
SCENARIO(endpoint__handler_listens_to_sent__told_of_the_last_byte, "EP-4")
{
    begin(&with_sent_ops, &still);
    site.keep_at = 2;
    sim_assert(dial(&callers[0], "k1q3k2") == SPN_OK);
    sim_thread(answer_kept, NULL);
    sim_join_all();
    sim_settle();
    sim_assert(answered(&callers[0]) == 3 && site.sent == 3 * FRAME);
    end();
    hang_up(&callers[0]);
}
SCENARIO_OPTS(endpoint__handler_listens_to_sent__told_of_the_last_byte,
              .schedules = 100, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* How often the endpoint's I/O thread was woken while a kept message was answered from here.
 * The network loses the answer, since a peer that receives it would wake that thread too. */
static uint64_t wakeups_of_an_answer(const spn_handler_ops *ops, bool is_dispatched)
{
    const struct sim_net_script script = { .to_client = { .cut = SIM_CUT_HOLE } };
    uint64_t before;

    sim_net_set(&script);
    site_init(ops);
    if (is_dispatched)
        sim_assert(spn_dispatch_create(&site.dispatch, "toy://h:1?dispatcher=direct",
                                       &site.handler, NULL, NULL) == SPN_OK);
    sim_assert(listen_with(&still) == SPN_OK);
    site.keep_at = 1;
    sim_assert(dial(&callers[0], "k1") == SPN_OK);
    spn__gate_wait(&site.has_kept);
    sim_settle();
    before = sim_sleeps(site.io_thread);
    answer_kept(NULL);
    sim_settle();
    before = sim_sleeps(site.io_thread) - before;
    sim_assert(spn__load(&site.failures, relaxed) == 0);
    end();
    if (is_dispatched) {
        sim_assert(spn_dispatch_stop(site.dispatch, SPN_SEC(1)) == SPN_OK);
        sim_assert(spn_dispatch_destroy(site.dispatch) == SPN_OK);
    }
    hang_up(&callers[0]);
    return before;
}

/* An event that nobody listens to costs nothing: an answer from another thread does not wake
 * the endpoint's, also behind a dispatch, which has no use of its own for it; with a listener
 * it does. */
SCENARIO(endpoint__nobody_listens_to_sent__no_thread_is_woken, "EP-4")
{
    sim_assert(wakeups_of_an_answer(&deaf_ops, false) == 0);
    sim_assert(wakeups_of_an_answer(&deaf_ops, true) == 0);
    sim_assert(wakeups_of_an_answer(&with_sent_ops, false) > 0);
    sim_assert(wakeups_of_an_answer(&with_sent_ops, true) > 0);
}
SCENARIO_OPTS(endpoint__nobody_listens_to_sent__no_thread_is_woken, .schedules = 20,
              .models = SIM_SC, .early = SIM_NEVER, .spurious = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* ---- time -------------------------------------------------------------------------------------------- */

/* A part of a frame is waited for as long as frame_timeout_ns, a silent peer as long as idle_ns:
 * not shorter, and not much longer. */
SCENARIO(endpoint__peer_falls_silent__closed_in_time, "EP-14", "EP-15")
{
    const bool in_frame = sim_choose(2) == 0;
    spn_endpoint_opts opts = still;
    int64_t began_ns;

    opts.frame_timeout_ns = SPN_MS(40);
    opts.idle_ns = SPN_MS(200);
    begin(&deaf_ops, &opts);
    sim_assert(dial(&callers[0], in_frame ? "q1q" : "q1") == SPN_OK);
    began_ns = sim_now();
    while (spn__load(&callers[0].closed, relaxed) == 0)
        sim_sleep(SPN_MS(5));
    sim_assert(sim_now() - began_ns >= (in_frame ? SPN_MS(40) : SPN_MS(200)));
    sim_assert(sim_now() - began_ns <= (in_frame ? SPN_MS(160) : SPN_MS(800)));
    hang_up(&callers[0]);
    sim_assert(answered(&callers[0]) == 1);
    sim_assert(spn_endpoint_stop(site.endpoint, SPN_SEC(1)) == SPN_OK);
    sim_assert(site.disconnected == 1 && site.why == SPN_ETIMEDOUT);
    sim_assert(stats().frames_late == (in_frame ? 1 : 0));
    sim_assert(stats().idle_closed == (in_frame ? 0 : 1));
    end();
}
SCENARIO_OPTS(endpoint__peer_falls_silent__closed_in_time, .schedules = 30,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* A message that is kept for longer than idle_ns keeps its connection, and idle_ns begins when
 * another thread releases it. */
SCENARIO(endpoint__message_kept_beyond_idle_ns__closed_after_its_release, "EP-15")
{
    spn_endpoint_opts opts = still;
    int64_t began_ns;

    opts.idle_ns = SPN_MS(40);
    begin(&deaf_ops, &opts);
    site.keep_at = 1;
    sim_assert(dial(&callers[0], "k1") == SPN_OK);
    spn__gate_wait(&site.has_kept);
    sim_sleep(SPN_MS(200));
    sim_assert(spn__load(&callers[0].closed, relaxed) == 0);
    began_ns = sim_now();
    spn_message_release(&site.kept[0]->head);
    while (spn__load(&callers[0].closed, relaxed) == 0)
        sim_sleep(SPN_MS(5));
    sim_assert(sim_now() - began_ns >= SPN_MS(40));
    sim_assert(sim_now() - began_ns <= SPN_MS(160));
    hang_up(&callers[0]);
    sim_assert(stats().idle_closed == 1 && stats().cut_off == 0);
    end();
}
SCENARIO_OPTS(endpoint__message_kept_beyond_idle_ns__closed_after_its_release,
              .schedules = 30, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* The timer, which may be early, against a request, a close and stop: the connection ends
 * once. */
SCENARIO(endpoint__silence_races_request_and_close__ends_once, "EP-15", "EP-3")
{
    spn_endpoint_opts opts = still;

    opts.idle_ns = SPN_MS(6);
    begin(&deaf_ops, &opts);
    sim_assert(dial(&callers[0], NULL) == SPN_OK);
    sim_sleep(SPN_MS(6));
    (void)ask_for(&callers[0], "q1"); /* or it has gone */
    if (sim_choose(2) == 0)
        sim_thread(close_side, &callers[0]);
    end();
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert(site.connected == site.disconnected && site.connected <= 1);
}
SCENARIO_OPTS(endpoint__silence_races_request_and_close__ends_once, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = 32, .no_faults = ALL_IS_THERE)

/* ---- clients ----------------------------------------------------------------------------------------- */

static spn_channel *client_channel;

static void close_channel(void *arg)
{
    (void)arg;
    spn_channel_close(client_channel, SPN_EFAILED);
    spn_channel_unref(client_channel);
}

/* A client whose connection is closed by the program, cut by the network and stopped, at once:
 * it is told of once, and what others still hold keeps destroy away. */
SCENARIO(endpoint__client_closed_beside_stop__told_once, "EP-3", "EP-10", "EP-26")
{
    struct spn__transport *transport;
    struct spn__listener *listener;
    const struct spn__listen_opts listen = { .host = "sim", .port = PORT };
    int rc;

    site_init(&deaf_ops);
    memset(&callers[0], 0, sizeof callers[0]);
    spn__init(&callers[0].closed, 0);
    sim_assert(spn__transport_create(NULL, &transport) == SPN_OK);
    sim_assert(spn__transport_listen(transport, &listen, &events, &callers[0],
                                     &listener) == SPN_OK);
    sim_assert(spn_endpoint_connect(&site.endpoint, "sim", PORT, &codec, &site.handler,
                                    &still, NULL) == SPN_OK);
    sim_assert(site.connected == 1);
    client_channel = spn_channel_ref(spn_endpoint_channel(site.endpoint));
    sim_thread(close_channel, NULL);
    if (sim_choose(2) == 0)
        sim_thread(break_network, NULL);
    rc = spn_channel_send(spn_endpoint_channel(site.endpoint), "h1");
    sim_assert(rc == SPN_OK || rc == SPN_ECLOSED);
    do
        rc = spn_endpoint_stop(site.endpoint, SPN_SEC(1));
    while (rc == SPN_ETIMEDOUT);
    sim_assert(rc == SPN_OK);
    sim_assert(site.disconnected == 1);
    rc = spn_endpoint_destroy(site.endpoint);
    sim_assert(rc == SPN_OK || rc == SPN_EBUSY);
    sim_join_all();
    if (rc == SPN_EBUSY)
        sim_assert(spn_endpoint_destroy(site.endpoint) == SPN_OK);
    sim_assert(spn__transport_stop(transport) == SPN_OK);
    sim_assert(spn__listener_close(listener) == SPN_OK);
    sim_assert(spn__transport_destroy(transport) == SPN_OK);
}
SCENARIO_OPTS(endpoint__client_closed_beside_stop__told_once, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* ---- behind a dispatch --------------------------------------------------------------------------------- */

static void ask_on(void *arg)
{
    (void)arg;
    for (int i = 1; i < ASKS; i++) {
        const char ask[] = { 'q', (char)('0' + i), '\0' };

        if (ask_for(&callers[0], ask) != SPN_OK)
            break;
    }
}

/* A client that asks all the time: stop takes nothing more, so it does not wait for the client to
 * fall silent. */
SCENARIO(endpoint__stopped_while_a_client_asks_on__kept_answered_rest_not_taken,
         "EP-23")
{
    begin(&deaf_ops, &still);
    site.keep_at = 1;
    sim_assert(dial(&callers[0], "k0") == SPN_OK);
    spn__gate_wait(&site.has_kept);
    sim_thread(ask_on, NULL);
    sim_thread(answer_kept, NULL);
    sim_assert(spn_endpoint_stop(site.endpoint, SPN_SEC(5)) == SPN_OK);
    sim_join_all();
    hang_up(&callers[0]);
    sim_assert((uint64_t)answered(&callers[0]) == stats().messages);
    sim_assert(callers[0].answers[0] == 1 && stats().cut_off == 0);
    end();
}
SCENARIO_OPTS(endpoint__stopped_while_a_client_asks_on__kept_answered_rest_not_taken,
              .schedules = 60, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* Messages in a pool while the endpoint stops and the pool ends: the endpoint waits for them,
 * each is answered, and everything comes to its end. */
SCENARIO(endpoint__stopped_before_its_dispatch__messages_end_first, "EP-12", "EP-23")
{
    site_init(&deaf_ops);
    sim_assert(spn_dispatch_create(&site.dispatch,
                                   "toy://h:1?dispatcher=message&threadpool=fixed&"
                                   "threads=1&queues=-1&dump.enable=false",
                                   &site.handler, NULL, NULL) == SPN_OK);
    sim_assert(listen_with(&still) == SPN_OK);
    sim_assert(dial(&callers[0], "q1q2") == SPN_OK);
    if (sim_choose(2) == 0)
        sim_settle();
    sim_assert(spn_endpoint_stop(site.endpoint, SPN_SEC(1)) == SPN_OK);
    sim_assert(stats().in_flight == 0);
    hang_up(&callers[0]);
    sim_assert((uint64_t)answered(&callers[0]) == stats().messages);
    sim_assert(spn_dispatch_stop(site.dispatch, SPN_SEC(1)) == SPN_OK);
    end();
    sim_assert(spn_dispatch_destroy(site.dispatch) == SPN_OK);
}
SCENARIO_OPTS(endpoint__stopped_before_its_dispatch__messages_end_first,
              .schedules = 60, .models = SIM_SC | SIM_C11, .early = SIM_NEVER,
              .no_faults = ALL_IS_THERE)

/* Nothing can be had: what was made is told of, and nothing is left. */
SCENARIO(endpoint__nothing_to_be_had__nothing_left, "EP-27", "NET-27")
{
    site_init(&deaf_ops);
    if (listen_with(&still) != SPN_OK)
        return;
    (void)dial(&callers[0], "q1q2");
    sim_settle();
    end();
    sim_assert(site.connected == site.disconnected);
    hang_up(&callers[0]);
}
SCENARIO_OPTS(endpoint__nothing_to_be_had__nothing_left, .schedules = 20,
              .models = SIM_SC, .faults = true, .early = SIM_NEVER)
