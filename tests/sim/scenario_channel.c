/* SPDX-License-Identifier: MIT */
/*
 * scenario_channel.c - dispatches on plain channels, whose event loop is thread 0: events
 * against the end of the pool, references against handlers, stop against what was handed over.
 * Each message ends once, each channel after its last message and event, and no event is lost
 * that the pool had room for.
 */
#include "pool_calls.h"
#include "sim.h"

#include <string.h>

#include <spindle.h>
#include <spindle/channel.h>

#include "net/gate.h"
#include "sync/seam.h"

enum { NOTES = 4, LINES = 2 };

#define URL  "toy://h:1?dump.enable=false&dispatcher="
#define POOL "&threadpool=fixed&threads=1"

#define ALL_IS_THERE "the last scenario is for failures"

/* ---- the program ------------------------------------------------------------------------- */

struct line {
    spn_channel *channel;
    SPN__ATOMIC(int) notes; /* of its messages that have been released; relaxed */
    SPN__ATOMIC(int) gone, closes;
    int connected, disconnected; /* one after the other, whatever thread that is */
    int told;                    /* messages; its loop's */
};

struct note {
    spn_message head;
    struct line *line;
    SPN__ATOMIC(int) handled, refused, released; /* relaxed: marks */
};

static struct site {
    spn_handler handler;
    spn_dispatch *dispatch;
    spn_repository *repository;
    struct line lines[LINES];
    struct note notes[NOTES];
    struct spn__gate begun, may_go;
    bool waits;  /* `received` does, for may_go */
    bool is_one; /* messages come one at a time */
    SPN__ATOMIC(int) connected, disconnected, caught, running, ends;
} site;

static int line_send(void *ctx, spn_channel *channel, const void *message)
{
    (void)ctx;
    (void)channel;
    (void)message;
    return 0;
}

static void line_close(void *ctx, spn_channel *channel, int why)
{
    struct line *line = ctx;

    sim_assert(channel == line->channel && why == SPN_EPROTO);
    sim_assert(spn__load(&line->gone, relaxed) == 0);
    (void)spn__fetch_add(&line->closes, 1, relaxed);
}

/* All its messages have been released, and that is seen here. */
static void line_gone(void *ctx)
{
    struct line *line = ctx;

    sim_assert(spn__load(&line->notes, relaxed) == line->told);
    sim_assert(spn__fetch_add(&line->gone, 1, relaxed) == 0);
}

static const spn_channel_ops line_ops = { sizeof line_ops, line_send, line_close,
                                          line_gone };

static void note_release(spn_message *message)
{
    struct note *note = (struct note *)message;

    /* release: who finds it released tells the next message. */
    sim_assert(spn__fetch_add(&note->released, 1, release) == 0);
    (void)spn__fetch_add(&note->line->notes, 1, relaxed);
}

static const spn_message_ops note_ops = { note_release, NULL };

static void on_connected(spn_handler *self, spn_channel *channel)
{
    struct line *line = spn_channel_data(channel);

    (void)self;
    sim_assert(spn__load(&line->gone, relaxed) == 0);
    line->connected++;
    (void)spn__fetch_add(&site.connected, 1, relaxed);
}

static void on_disconnected(spn_handler *self, spn_channel *channel, int why)
{
    struct line *line = spn_channel_data(channel);

    (void)self;
    sim_assert(why == SPN_EIO);
    sim_assert(spn__load(&line->gone, relaxed) == 0);
    line->disconnected++;
    (void)spn__fetch_add(&site.disconnected, 1, relaxed);
}

static void on_caught(spn_handler *self, spn_channel *channel, int why)
{
    struct line *line = spn_channel_data(channel);

    (void)self;
    sim_assert(why == SPN_EPROTO);
    sim_assert(spn__load(&line->gone, relaxed) == 0);
    spn_channel_close(channel, why);
    (void)spn__fetch_add(&site.caught, 1, relaxed);
}

static int on_received(spn_handler *self, spn_channel *channel, spn_message *message)
{
    struct note *note = (struct note *)message;

    (void)self;
    sim_assert(message->channel == channel && channel == note->line->channel);
    sim_assert(spn__fetch_add(&note->handled, 1, relaxed) == 0);
    sim_assert(!site.is_one || spn__fetch_add(&site.running, 1, relaxed) == 0);
    if (site.waits) {
        spn__gate_open(&site.begun);
        spn__gate_wait(&site.may_go);
    }
    if (site.is_one)
        (void)spn__fetch_sub(&site.running, 1, relaxed);
    spn_message_release(message);
    return 0;
}

static const spn_handler_ops handler_ops = { on_connected, on_disconnected, NULL,
                                             on_received, on_caught };

static void on_refused(void *ctx, spn_channel *channel, spn_message *message, int why)
{
    struct note *note = (struct note *)message;

    (void)ctx;
    sim_assert(channel == note->line->channel);
    sim_assert(why == SPN_EREJECTED || why == SPN_ESHUTDOWN || why == SPN_ENOMEM ||
               why == SPN_EAGAIN);
    sim_assert(spn__fetch_add(&note->refused, 1, relaxed) == 0);
    spn_message_release(message);
}

/* ---- one schedule ------------------------------------------------------------------------- */

static int site_open(const char *url)
{
    spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
    int rc;

    (void)spn_log_set_level(SPN_LOG_OFF); /* a line per schedule */
    memset(&site, 0, sizeof site);
    site.handler.ops = &handler_ops;
    spn__gate_init(&site.begun);
    spn__gate_init(&site.may_go);
    spn__init(&site.connected, 0);
    spn__init(&site.disconnected, 0);
    spn__init(&site.caught, 0);
    spn__init(&site.running, 0);
    spn__init(&site.ends, 0);
    for (int i = 0; i < NOTES; i++) {
        spn__init(&site.notes[i].handled, 0);
        spn__init(&site.notes[i].refused, 0);
        spn__init(&site.notes[i].released, 0);
    }
    opts.refused = on_refused;
    rc = spn_dispatch_create(&site.dispatch, url, &site.handler, &opts, NULL);
    sim_assert((rc == SPN_OK) == (site.dispatch != NULL));
    return rc;
}

static int line_open(int n)
{
    struct line *line = &site.lines[n];
    int rc;

    spn__init(&line->notes, 0);
    spn__init(&line->gone, 0);
    spn__init(&line->closes, 0);
    rc = spn_channel_create(&line->channel, &line_ops, line, "10.0.0.1:1");
    if (rc == SPN_OK)
        spn_channel_set_data(line->channel, line, NULL);
    return rc;
}

static void begin(const char *url)
{
    sim_assert(site_open(url) == SPN_OK);
    sim_assert(line_open(0) == SPN_OK);
}

static spn_handler *outer(void)
{
    return spn_dispatch_handler(site.dispatch);
}

static int tell(int n, int line, int kind)
{
    struct note *note = &site.notes[n];

    note->head = (spn_message)SPN_MESSAGE_INIT(&note_ops, kind);
    note->line = &site.lines[line];
    note->line->told++;
    return spn_handler_received(outer(), note->line->channel, &note->head);
}

static int stop_dispatch(int64_t timeout_ns)
{
    int rc;

    do
        rc = spn_dispatch_stop(site.dispatch, timeout_ns);
    while (rc == SPN_ENOMEM || rc == SPN_ETIMEDOUT); /* the time may be over early */
    return rc;
}

/* How many messages came to a handler; each ended once. */
static int notes_handled(void)
{
    int handled = 0;

    for (int i = 0; i < NOTES; i++) {
        struct note *note = &site.notes[i];

        if (note->line == NULL)
            continue;
        sim_assert(spn__load(&note->released, relaxed) == 1);
        sim_assert(spn__load(&note->handled, relaxed) +
                       spn__load(&note->refused, relaxed) <=
                   1);
        handled += spn__load(&note->handled, relaxed);
    }
    return handled;
}

static void end_dispatch(void)
{
    sim_assert(stop_dispatch(SPN_SEC(1)) == SPN_OK);
    sim_assert(spn_dispatch_destroy(site.dispatch) == SPN_OK);
}

static void shut_pool(void *arg)
{
    (void)arg;
    sim_assert(pool_shutdown(spn_dispatch_pool(site.dispatch)) == SPN_OK);
}

/* ---- scenarios ----------------------------------------------------------------------------- */

/* The pool is shut down beside events of every kind: what it does not take is done by the
 * shared executor, and nothing is lost or refused. */
SCENARIO(channel__pool_ends_beside_events__none_lost, "CH-10", "CH-12", "CH-3")
{
    const bool ordered = sim_choose(2) == 0;

    begin(ordered ? URL "connection" POOL "&queues=-1" : URL "all" POOL "&queues=-1");
    sim_thread(shut_pool, NULL);
    spn_handler_connected(outer(), site.lines[0].channel);
    sim_assert(tell(0, 0, SPN_MESSAGE_REQUEST) == 0);
    sim_assert(tell(1, 0, SPN_MESSAGE_RESPONSE) == 0);
    spn_handler_caught(outer(), site.lines[0].channel, SPN_EPROTO);
    spn_handler_disconnected(outer(), site.lines[0].channel, SPN_EIO);
    spn_channel_unref(site.lines[0].channel);
    sim_join_all();
    end_dispatch();
    sim_assert(notes_handled() == 2);
    sim_assert(spn__load(&site.connected, relaxed) == 1);
    sim_assert(spn__load(&site.caught, relaxed) == 1);
    sim_assert(spn__load(&site.disconnected, relaxed) == 1);
    sim_assert(spn__load(&site.lines[0].closes, relaxed) == 1);
    sim_assert(spn__load(&site.lines[0].gone, relaxed) == 1);
}
SCENARIO_OPTS(channel__pool_ends_beside_events__none_lost, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static void hold_and_drop(void *arg)
{
    struct line *line = arg;

    sim_assert(spn_channel_ref(line->channel) == line->channel);
    (void)spn_channel_send(line->channel, line);
    spn_channel_unref(line->channel);
    spn_channel_unref(line->channel); /* one that was taken for this thread */
}

/* The same with an order for each channel: what waits for its turn when the pool ends is not
 * lost either. */
SCENARIO(channel__pool_ends_beside_an_order__none_lost, "CH-12", "CH-23")
{
    begin(URL "all" POOL "&queues=-1&channel.order=true");
    sim_thread(shut_pool, NULL);
    spn_handler_connected(outer(), site.lines[0].channel);
    sim_assert(tell(0, 0, SPN_MESSAGE_REQUEST) == 0);
    sim_assert(tell(1, 0, SPN_MESSAGE_REQUEST) == 0);
    spn_handler_caught(outer(), site.lines[0].channel, SPN_EPROTO);
    spn_handler_disconnected(outer(), site.lines[0].channel, SPN_EIO);
    spn_channel_unref(site.lines[0].channel);
    sim_join_all();
    end_dispatch();
    sim_assert(notes_handled() == 2);
    sim_assert(spn__load(&site.connected, relaxed) == 1);
    sim_assert(spn__load(&site.caught, relaxed) == 1);
    sim_assert(spn__load(&site.disconnected, relaxed) == 1);
    sim_assert(spn__load(&site.lines[0].gone, relaxed) == 1);
}
SCENARIO_OPTS(channel__pool_ends_beside_an_order__none_lost, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* References are given up by the loop, by a thread of the program and by messages that end on
 * other threads: the last of them ends the channel, once, and sees what the others did. */
SCENARIO(channel__references_end_on_every_thread__gone_once, "CH-2", "CH-3")
{
    begin(URL "message" POOL "&queues=-1&inflight=0");
    (void)spn_channel_ref(site.lines[0].channel);
    sim_thread(hold_and_drop, &site.lines[0]);
    sim_assert(tell(0, 0, SPN_MESSAGE_REQUEST) == 0);
    sim_assert(tell(1, 0, SPN_MESSAGE_REQUEST) == 0);
    spn_channel_unref(site.lines[0].channel);
    sim_join_all();
    end_dispatch();
    sim_assert(notes_handled() == 2);
    sim_assert(spn__load(&site.lines[0].gone, relaxed) == 1);
}
SCENARIO_OPTS(channel__references_end_on_every_thread__gone_once, .schedules = 200,
              .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static void open_gate(void *arg)
{
    (void)arg;
    spn__gate_wait(&site.begun);
    if (sim_choose(2) == 0)
        sim_sleep(SPN_MS(20));
    spn__gate_open(&site.may_go);
}

/* stop, whose time may be over before the handler ends: what waits behind it is handled or
 * refused, and stop comes to its end when the handler has. */
SCENARIO(channel__stopped_while_messages_wait__each_ends_once, "CH-10", "CH-18")
{
    int rc;

    begin(URL "message" POOL "&queues=-1&inflight=0");
    site.waits = true;
    for (int i = 0; i < NOTES; i++)
        sim_assert(
            tell(i, 0, i % 2 == 0 ? SPN_MESSAGE_REQUEST : SPN_MESSAGE_RESPONSE) == 0);
    spn_channel_unref(site.lines[0].channel);
    sim_thread(open_gate, NULL);
    rc = spn_dispatch_stop(site.dispatch, SPN_MS(10));
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    sim_outcome(rc == SPN_OK);
    if (rc != SPN_OK)
        sim_assert(spn_dispatch_destroy(site.dispatch) == SPN_EBUSY);
    sim_assert(stop_dispatch(SPN_SEC(1)) == SPN_OK);
    sim_assert(notes_handled() >= 1);
    sim_assert(spn__load(&site.lines[0].gone, relaxed) == 1);
    sim_join_all();
    sim_assert(spn_dispatch_destroy(site.dispatch) == SPN_OK);
}
SCENARIO_OPTS(channel__stopped_while_messages_wait__each_ends_once, .schedules = 100,
              .models = SIM_SC | SIM_C11, .early = 32, .no_faults = ALL_IS_THERE)

static void tell_line(void *arg)
{
    const int n = (int)((struct line *)arg - site.lines);

    spn_handler_connected(outer(), site.lines[n].channel);
    (void)tell(2 * n, n, SPN_MESSAGE_REQUEST);
    (void)tell(2 * n + 1, n, SPN_MESSAGE_REQUEST);
    spn_handler_disconnected(outer(), site.lines[n].channel, SPN_EIO);
    spn_channel_unref(site.lines[n].channel);
}

/* Two loops, and one thread that has connected and disconnected in order: each channel's come
 * once, and before stop returns. */
SCENARIO(channel__two_loops_and_one_order__all_told, "CH-14", "CH-18", "CH-15")
{
    spn_dispatch_stats stats = SPN_DISPATCH_STATS_INIT;
    int handled;

    begin(URL "connection" POOL "&queues=1&inflight=0");
    sim_assert(line_open(1) == SPN_OK);
    sim_thread(tell_line, &site.lines[1]);
    tell_line(&site.lines[0]);
    sim_join_all();
    sim_assert(stop_dispatch(SPN_SEC(1)) == SPN_OK);
    handled = notes_handled();
    for (int i = 0; i < LINES; i++) {
        sim_assert(site.lines[i].connected == 1 && site.lines[i].disconnected == 1);
        sim_assert(spn__load(&site.lines[i].gone, relaxed) == 1);
    }
    sim_assert(spn_dispatch_stats_get(site.dispatch, &stats) == SPN_OK);
    sim_assert(stats.refused == (uint64_t)(NOTES - handled));
    sim_assert(stats.dispatched[SPN_CHANNEL_REQUEST][SPN_PLACE_PREFERRED] == NOTES);
    sim_assert(stats.dispatched[SPN_CHANNEL_CONNECTED][SPN_PLACE_ORDERED] == LINES);
    sim_outcome((unsigned)handled);
    sim_assert(spn_dispatch_destroy(site.dispatch) == SPN_OK);
}
SCENARIO_OPTS(channel__two_loops_and_one_order__all_told, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* A loop that tells the next message when the last one has been released is never refused,
 * though its channel and its address may have one at a time. */
SCENARIO(channel__next_message_when_released__never_refused, "CH-16")
{
    begin(URL "all" POOL "&queues=5&inflight=1&inflight.address=1");
    site.is_one = true;
    spn_handler_connected(outer(), site.lines[0].channel);
    for (int i = 0; i < NOTES; i++) {
        sim_assert(tell(i, 0, SPN_MESSAGE_REQUEST) == 0);
        while (spn__load(&site.notes[i].released, acquire) == 0)
            spn__cpu_relax();
    }
    spn_channel_unref(site.lines[0].channel);
    end_dispatch();
    sim_assert(notes_handled() == NOTES);
}
SCENARIO_OPTS(channel__next_message_when_released__never_refused, .schedules = 100,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

/* Messages of one channel beyond what it may have, told at once: one runs at a time, the others
 * wait or are refused, and each ends once. */
SCENARIO(channel__more_than_inflight__refused_once, "CH-16", "CH-10")
{
    begin(URL "all" POOL "&queues=5&inflight=1");
    site.is_one = true;
    for (int i = 0; i < NOTES; i++)
        sim_assert(tell(i, 0, SPN_MESSAGE_REQUEST) == 0);
    spn_channel_unref(site.lines[0].channel);
    end_dispatch();
    sim_assert(notes_handled() >= 1);
    sim_assert(spn__load(&site.lines[0].gone, relaxed) == 1);
}
SCENARIO_OPTS(channel__more_than_inflight__refused_once, .schedules = 60,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER, .no_faults = ALL_IS_THERE)

static spn_threadless *threadless;

static void lend(void *arg)
{
    int rc;

    (void)arg;
    rc = spn_threadless_wait_and_drain(threadless, SPN_MS(1));
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    sim_assert(rc == SPN_ETIMEDOUT || spn__load(&site.notes[0].handled, relaxed) == 1);
}

/* A response that comes when its waiter gives up: the waiter handles it, or the pool does, or
 * the shared executor where the pool has ended. */
SCENARIO(channel__response_races_its_waiter__handled_once, "CH-13", "CH-12")
{
    const bool ends = sim_choose(2) == 0;
    struct note *note = &site.notes[0];

    begin(sim_choose(2) == 0 ? URL "direct" POOL "&queues=-1"
                             : URL "all" POOL "&queues=-1");
    sim_assert(spn_threadless_create(&threadless, NULL) == SPN_OK);
    sim_thread(lend, NULL);
    if (ends)
        sim_thread(shut_pool, NULL);
    note->head = (spn_message)SPN_MESSAGE_INIT(&note_ops, SPN_MESSAGE_RESPONSE);
    note->head.waiting = spn_threadless_executor(threadless);
    note->line = &site.lines[0];
    note->line->told = 1;
    sim_assert(spn_handler_received(outer(), site.lines[0].channel, &note->head) == 0);
    spn_channel_unref(site.lines[0].channel);
    sim_join_all();
    end_dispatch();
    sim_assert(notes_handled() == 1);
    sim_assert(spn__load(&site.lines[0].gone, relaxed) == 1);
    sim_assert(spn_threadless_destroy(threadless) == SPN_OK);
}
SCENARIO_OPTS(channel__response_races_its_waiter__handled_once, .schedules = 100,
              .models = SIM_SC | SIM_C11, .early = 32, .no_faults = ALL_IS_THERE)

/* Nothing can be had: what was made is told of, messages end once, and nothing is left. */
SCENARIO(channel__nothing_to_be_had__each_ends_once, "CH-10", "CH-21")
{
    if (site_open(sim_choose(2) == 0 ? URL "connection" POOL "&queues=-1"
                                     : URL "all" POOL "&queues=1") != SPN_OK)
        return;
    if (line_open(0) == SPN_OK) {
        spn_handler_connected(outer(), site.lines[0].channel);
        (void)tell(0, 0, SPN_MESSAGE_REQUEST);
        (void)tell(1, 0, SPN_MESSAGE_RESPONSE);
        spn_handler_caught(outer(), site.lines[0].channel, SPN_EPROTO);
        spn_handler_disconnected(outer(), site.lines[0].channel, SPN_EIO);
        spn_channel_unref(site.lines[0].channel);
    }
    end_dispatch();
    (void)notes_handled();
    if (site.lines[0].channel != NULL)
        sim_assert(spn__load(&site.lines[0].gone, relaxed) == 1);
}
SCENARIO_OPTS(channel__nothing_to_be_had__each_ends_once, .schedules = 20,
              .models = SIM_SC, .faults = true, .early = SIM_NEVER)
