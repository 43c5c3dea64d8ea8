/* SPDX-License-Identifier: MIT */
/*
 * scenario_net.c - connections in the explorer's network: what transport.h promises,
 * against closing, stopping, cutting and losing.
 */
#include "sim.h"

#include <string.h>

#include "net/transport.h"
#include "net_sim.h"
#include "sync/lock.h"
#include "sync/seam.h"

/* One end.  The events come on one thread; others look after the transport has been
 * stopped, which orders it. */
struct end {
    struct spn__conn *conn;
    int opened, closed, why;
    size_t got;
    char text[16];
};

static struct end client, server;
static struct spn__transport *transport;
static struct spn__listener *listener;
static bool echoes;

static struct end *end_of(const struct spn__conn *conn)
{
    struct end *const end = spn__conn_data(conn);

    return end != NULL ? end : &server;
}

static int opened(void *context, struct spn__conn *conn)
{
    struct end *const end = end_of(conn);

    (void)context;
    sim_assert(end->opened == 0 && end->closed == 0);
    end->opened = 1;
    sim_assert(spn__conn_on_loop(conn));
    return 0;
}

static int64_t bytes(void *context, struct spn__conn *conn, const unsigned char *data,
                     size_t size)
{
    struct end *const end = end_of(conn);

    (void)context;
    sim_assert(end->opened == 1 && end->closed == 0);
    sim_assert(end->got + size <= sizeof end->text);
    memcpy(end->text + end->got, data, size);
    end->got += size;
    if (echoes && end == &server) {
        const struct spn__piece piece = { data, size };
        const int rc = spn__conn_send(conn, &piece, 1, 0, NULL);

        sim_assert(rc == SPN_OK || rc == SPN_ECLOSED || rc == SPN_ENOMEM);
    }
    return (int64_t)size;
}

static void closed(void *context, struct spn__conn *conn, int why)
{
    struct end *const end = end_of(conn);

    (void)context;
    sim_assert(end->closed == 0);
    end->closed = 1;
    end->why = why;
}

static const struct spn__conn_events events = { .opened = opened,
                                                .bytes = bytes,
                                                .closed = closed };

static int begin(const struct sim_net_script *script)
{
    const struct spn__listen_opts opts = { .port = 7 };
    int rc;

    memset(&client, 0, sizeof client);
    memset(&server, 0, sizeof server);
    echoes = false;
    transport = NULL;
    listener = NULL;
    sim_net_set(script);
    rc = spn__transport_create(NULL, &transport);
    if (rc == SPN_OK)
        rc = spn__transport_listen(transport, &opts, &events, NULL, &listener);
    return rc;
}

static int connect_client(int64_t timeout_ns)
{
    return spn__transport_connect(transport, "sim", 7, timeout_ns, &events, NULL,
                                  &client, &client.conn);
}

/* Whatever happened: everything that began was closed once, and nothing is left. */
static void end(void)
{
    if (transport == NULL)
        return;
    sim_assert(spn__transport_stop(transport) == SPN_OK);
    if (listener != NULL)
        sim_assert(spn__listener_close(listener) == SPN_OK);
    sim_assert(client.closed == (client.conn != NULL));
    sim_assert(server.closed == 1 || server.opened == 0);
    if (client.conn != NULL)
        spn__conn_unref(client.conn);
    sim_assert(spn__transport_destroy(transport) == SPN_OK);
}

static const struct sim_net_script clean;

static void send_three(void *arg)
{
    static const char *const words[] = { "ab", "cd", "ef" };

    (void)arg;
    for (int i = 0; i < 3; i++) {
        const struct spn__piece piece = { words[i], 2 };
        const int rc = spn__conn_send(client.conn, &piece, 1, 0, NULL);

        sim_assert(rc == SPN_OK || rc == SPN_ECLOSED || rc == SPN_ENOMEM);
        if (rc != SPN_OK)
            return;
    }
}

static void close_client(void *arg)
{
    (void)arg;
    spn__conn_close(client.conn, SPN_ECANCELED);
}

static void end_client(void *arg)
{
    (void)arg;
    spn__conn_end(client.conn);
}

static void stop(void *arg)
{
    (void)arg;
    sim_assert(spn__transport_stop(transport) == SPN_OK);
}

/* Sending against closing: what arrived is the beginning of what was sent, and both
 * ends are closed once.  Without memory for the bytes on their way the connection breaks,
 * and both ends may hear that before the close. */
SCENARIO(net__send_races_close__a_beginning_arrives, "NET-5", "NET-14")
{
    if (begin(&clean) == SPN_OK && connect_client(SPN_FOREVER) == SPN_OK) {
        sim_thread(send_three, NULL);
        sim_thread(close_client, NULL);
        sim_join_all();
    }
    end();
    sim_assert(memcmp(server.text, "abcdef", server.got) == 0);
    sim_assert(client.conn == NULL || client.why == SPN_ECANCELED ||
               client.why == SPN_EUNREACHABLE || client.why == SPN_EIO);
}
SCENARIO_OPTS(net__send_races_close__a_beginning_arrives, .schedules = 300,
              .models = SIM_SC | SIM_C11, .faults = true)

/* Sending against ending: all that was taken arrives. */
SCENARIO(net__send_races_end__all_taken_arrives, "NET-6")
{
    if (begin(&clean) == SPN_OK && connect_client(SPN_FOREVER) == SPN_OK) {
        sim_settle(); /* it stands */
        sim_thread(send_three, NULL);
        sim_thread(end_client, NULL);
        sim_join_all();
        sim_settle();
        sim_assert(client.closed == 1 && client.why == 0);
        sim_assert(server.got == spn__conn_written(client.conn));
        sim_assert(spn__conn_unwritten(client.conn) == 0);
    }
    end();
    sim_assert(memcmp(server.text, "abcdef", server.got) == 0);
}
SCENARIO_OPTS(net__send_races_end__all_taken_arrives, .schedules = 300,
              .models = SIM_SC | SIM_C11, .early = SIM_NEVER)

static void connect_now(void *arg)
{
    const int rc = connect_client(SPN_FOREVER);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ESHUTDOWN || rc == SPN_ENOMEM);
}

/* Connecting against stopping: refused, or closed once. */
SCENARIO(net__connect_races_stop__closed_or_refused, "NET-25")
{
    if (begin(&clean) == SPN_OK) {
        sim_thread(connect_now, NULL);
        sim_thread(stop, NULL);
        sim_join_all();
    }
    end();
}
SCENARIO_OPTS(net__connect_races_stop__closed_or_refused, .schedules = 300,
              .models = SIM_SC | SIM_C11, .faults = true)

static void posted(struct spn__net_job *job)
{
    sim_assert(spn__conn_on_loop(client.conn));
    job->fn = NULL; /* ran */
}

/* Posting against stopping: run once on the loop, or refused. */
SCENARIO(net__post_races_stop__run_or_refused, "NET-24")
{
    static struct spn__net_job job;
    int rc;

    job = (struct spn__net_job){ .fn = posted };
    if (begin(&clean) == SPN_OK && connect_client(SPN_FOREVER) == SPN_OK) {
        sim_thread(stop, NULL);
        rc = spn__conn_post(client.conn, &job);
        sim_join_all();
        sim_assert(rc == SPN_OK ? job.fn == NULL
                                : rc == SPN_ESHUTDOWN && job.fn == posted);
    }
    end();
}
SCENARIO_OPTS(net__post_races_stop__run_or_refused, .schedules = 300,
              .models = SIM_SC | SIM_C11)

/* An echo over a network that cuts bytes into pieces and delays them: all of it comes
 * back, in order. */
SCENARIO(net__split_and_delayed__in_order, "NET-10")
{
    const struct sim_net_script script = { .split = true,
                                           .to_server = { .delay_ns = SPN_MS(2) },
                                           .to_client = { .delay_ns = SPN_MS(3) } };

    if (begin(&script) == SPN_OK) {
        echoes = true;
        if (connect_client(SPN_FOREVER) == SPN_OK) {
            sim_thread(send_three, NULL);
            sim_join_all();
            sim_sleep(SPN_SEC(1));
            sim_settle();
            sim_assert(client.got == 6 && memcmp(client.text, "abcdef", 6) == 0);
            sim_assert(sim_now() >= SPN_MS(5));
        }
    }
    end();
}
SCENARIO_OPTS(net__split_and_delayed__in_order, .schedules = 300, .models = SIM_SC,
              .early = SIM_NEVER)

/* The network breaks after 0 to 5 bytes in one way or another: each end is closed once,
 * and what arrived is a beginning. */
SCENARIO(net__cut__closed_once, "NET-9", "NET-8")
{
    const struct sim_net_way cut = { .cut = (enum sim_net_cut)(1 + sim_choose(3)),
                                     .after = sim_choose(6) };
    const struct sim_net_script script =
        sim_choose(2) == 0 ? (struct sim_net_script){ .to_server = cut }
                           : (struct sim_net_script){ .to_client = cut };

    if (begin(&script) == SPN_OK) {
        echoes = true;
        if (connect_client(SPN_FOREVER) == SPN_OK) {
            sim_thread(send_three, NULL);
            sim_join_all();
            sim_settle();
            /* Of a reset both ends learn, unless one had closed before. */
            if (cut.cut == SIM_CUT_RESET && client.closed != 0)
                sim_assert(client.why != SPN_ECLOSED);
        }
    }
    end();
    sim_assert(memcmp(server.text, "abcdef", server.got) == 0);
    sim_assert(memcmp(client.text, "abcdef", client.got) == 0);
    sim_assert(script.to_server.cut == SIM_CUT_NONE || server.got <= cut.after ||
               server.got == 6);
}
SCENARIO_OPTS(net__cut__closed_once, .schedules = 600, .models = SIM_SC, .faults = true)

/* A connect that hangs ends at its limit; one to nobody at once. */
SCENARIO(net__connect_hangs__timed_out, "NET-3", "NET-2")
{
    const struct sim_net_script script = { .hang = true };
    const int64_t start = sim_now();

    if (begin(&script) == SPN_OK && connect_client(SPN_MS(50)) == SPN_OK) {
        sim_sleep(SPN_SEC(1));
        sim_settle();
        sim_assert(client.closed == 1 && client.why == SPN_ETIMEDOUT);
        sim_assert(sim_now() - start >= SPN_MS(50));
    }
    end();
}
SCENARIO_OPTS(net__connect_hangs__timed_out, .schedules = 100, .models = SIM_SC,
              .early = SIM_NEVER)
