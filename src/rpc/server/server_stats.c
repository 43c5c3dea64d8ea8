/* SPDX-License-Identifier: MIT */
/*
 * server_stats.c - what goes on in a server, as numbers.
 *
 * Counts are kept by the thread that counts (counts.h) and added up when somebody asks; what
 * is in flight is asked of the channels.
 */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "metrics/registry.h"
#include "rpc/frames.h"
#include "rpc/server/serving.h"

/* Statuses that have a count of their own; all others share the last. */
static const uint8_t slots[16] = { 20, 25, 30, 31, 35, 40, 50, 60, 70, 80, 90, 100 };
enum { SLOTS_USED = 12, SLOT_OTHERS = 15 };

int spn__status_slot(int status)
{
    for (int i = 0; i < SLOTS_USED; i++)
        if (slots[i] == status)
            return i;
    return SLOT_OTHERS;
}

int spn_server_slot_status(int slot)
{
    return slot >= 0 && slot < SLOTS_USED ? slots[slot] : SPN_EINVAL;
}

int spn_server_stats_get(spn_server *server, spn_server_stats *stats)
{
    struct spn__counts *counts;
    spn_server_stats s;
    int32_t open;

    if (server == NULL || stats == NULL)
        return SPN_EINVAL;
    counts = &server->endpoint.counts;
    memset(&s, 0, sizeof s);
    open = spn__load(&server->endpoint.open, relaxed); /* only a number */
    s.connections = open > 0 ? (uint64_t)open : 0;
    s.in_flight = spn__endpoint_in_flight(&server->endpoint);
    s.accepted = spn__counts_sum(counts, SPN__COUNT_ACCEPTED);
    s.refused = spn__counts_sum(counts, SPN__COUNT_REFUSED);
    s.idle_closed = spn__counts_sum(counts, SPN__COUNT_IDLE_CLOSED);
    s.requests = spn__counts_sum(counts, SPN__COUNT_REQUESTS);
    s.one_way = spn__counts_sum(counts, SPN__COUNT_ONE_WAY);
    s.replies = spn__counts_sum(counts, SPN__COUNT_REPLIES);
    s.exceptions = spn__counts_sum(counts, SPN__COUNT_EXCEPTIONS);
    s.dropped = spn__counts_sum(counts, SPN__COUNT_DROPPED);
    s.expired = spn__counts_sum(counts, SPN__COUNT_EXPIRED);
    s.rejected = spn__counts_sum(counts, SPN__COUNT_REJECTED);
    s.rejected_one_way = spn__counts_sum(counts, SPN__COUNT_REJECTED_ONE_WAY);
    s.heartbeats = spn__counts_sum(counts, SPN__COUNT_HEARTBEATS);
    s.events = spn__counts_sum(counts, SPN__COUNT_EVENTS);
    s.responses = spn__counts_sum(counts, SPN__COUNT_RESPONSES);
    s.bad_frames = spn__counts_sum(counts, SPN__COUNT_BAD_FRAMES);
    s.bad_bodies = spn__counts_sum(counts, SPN__COUNT_BAD_BODIES);
    s.bytes_in = spn__counts_sum(counts, SPN__COUNT_BYTES_IN);
    s.bytes_out = spn__counts_sum(counts, SPN__COUNT_BYTES_OUT);
    s.shared = spn__counts_sum(counts, SPN__COUNT_SHARED);
    s.frames_late = spn__counts_sum(counts, SPN__COUNT_FRAMES_LATE);
    s.cut_off = spn__counts_sum(counts, SPN__COUNT_CUT_OFF);
    s.cut_off_bytes = spn__counts_sum(counts, SPN__COUNT_CUT_OFF_BYTES);
    s.rejected_connection = spn__counts_sum(counts, SPN__COUNT_REJECTED_CONNECTION);
    s.rejected_address = spn__counts_sum(counts, SPN__COUNT_REJECTED_ADDRESS);
    s.rejected_delay = spn__counts_sum(counts, SPN__COUNT_REJECTED_DELAY);
    s.memory_used = spn__budget_used(&server->endpoint.budget);
    s.memory_limit = server->endpoint.budget.limit;
    s.memory_refused = spn__counts_sum(counts, SPN__COUNT_MEMORY);
    for (int i = 0; i < 16; i++)
        s.statuses[i] = spn__counts_sum(counts, SPN__COUNT_STATUS + i);
    for (int event = 0; event < SPN_CHANNEL_EVENTS; event++)
        for (int place = 0; place < SPN_PLACES; place++)
            s.dispatched[event][place] =
                spn__counts_sum(counts, SPN__COUNT_DISPATCHED +
                                            event * (int)SPN_PLACES + place);
    return spn__output_copy(stats, &s, sizeof s);
}

int spn_server_latency(spn_server *server, spn_histogram_snapshot *snapshot)
{
    if (server == NULL)
        return SPN_EINVAL;
    return spn_histogram_snapshot_get(server->latency, snapshot);
}

struct telling {
    spn_channel_fn fn;
    void *ctx;
};

static void tell(void *ctx, struct spn__stream *stream)
{
    struct telling *telling = ctx;
    spn_channel_info info;

    spn__frames_info(stream, SPN_OK, &info);
    telling->fn(telling->ctx, &info);
}

int spn_server_each_channel(spn_server *server, spn_channel_fn fn, void *ctx)
{
    struct telling telling = { fn, ctx };

    if (server == NULL || fn == NULL)
        return SPN_EINVAL;
    spn__endpoint_each(&server->endpoint, tell, &telling);
    return SPN_OK;
}

/* ---- for a registry of metrics ------------------------------------------------------ */

enum { READ_CONNECTIONS = SPN__COUNTS, READ_IN_FLIGHT, READ_MEMORY, READ_MEMORY_LIMIT };

static const struct reading {
    const char *name, *help;
    int which;
} readings[] = {
    { "connections", "Connections that stand.", READ_CONNECTIONS },
    { "requests_in_flight", "Requests that are not finished.", READ_IN_FLIGHT },
    { "connections_accepted", "Connections taken in.", SPN__COUNT_ACCEPTED },
    { "connections_refused", "Connections over the limit.", SPN__COUNT_REFUSED },
    { "connections_idle_closed", "Silent connections closed.", SPN__COUNT_IDLE_CLOSED },
    { "requests", "Requests that came.", SPN__COUNT_REQUESTS },
    { "requests_one_way", "Requests without a reply.", SPN__COUNT_ONE_WAY },
    { "requests_expired", "Requests whose client had stopped waiting.",
      SPN__COUNT_EXPIRED },
    { "requests_rejected", "Two-way requests the pool refused.", SPN__COUNT_REJECTED },
    { "requests_rejected_one_way", "One-way requests the pool refused.",
      SPN__COUNT_REJECTED_ONE_WAY },
    { "requests_rejected_connection", "Requests of a connection that had too many.",
      SPN__COUNT_REJECTED_CONNECTION },
    { "requests_rejected_address", "Requests of an address that had too many.",
      SPN__COUNT_REJECTED_ADDRESS },
    { "requests_rejected_delay", "Requests refused because others waited too long.",
      SPN__COUNT_REJECTED_DELAY },
    { "requests_undecodable", "Requests whose body is none.", SPN__COUNT_BAD_BODIES },
    { "replies", "Replies sent.", SPN__COUNT_REPLIES },
    { "replies_ok", "Replies with status 20.", SPN__COUNT_STATUS },
    { "replies_exception", "Replies with a Java exception.", SPN__COUNT_EXCEPTIONS },
    { "replies_dropped", "Replies that were not sent.", SPN__COUNT_DROPPED },
    { "heartbeats", "Heartbeats answered.", SPN__COUNT_HEARTBEATS },
    { "events", "Other events that came.", SPN__COUNT_EVENTS },
    { "frames_bad", "Frames that are none.", SPN__COUNT_BAD_FRAMES },
    { "frames_late", "Connections closed for a frame that did not come in time.",
      SPN__COUNT_FRAMES_LATE },
    { "memory_bytes", "Memory in use for connections and requests.", READ_MEMORY },
    { "memory_limit_bytes", "Memory that may be; 0: no limit.", READ_MEMORY_LIMIT },
    { "memory_refused", "What was refused for want of memory.", SPN__COUNT_MEMORY },
    { "received_bytes", "Bytes of frames read.", SPN__COUNT_BYTES_IN },
    { "sent_bytes", "Bytes of frames sent.", SPN__COUNT_BYTES_OUT },
    { "connections_cut_off", "Connections closed before their client had all replies.",
      SPN__COUNT_CUT_OFF },
    { "cut_off_bytes", "Bytes of replies these did not get.",
      SPN__COUNT_CUT_OFF_BYTES },
    { "shared_runs", "Tasks of a closed pool run elsewhere.", SPN__COUNT_SHARED },
};

static int64_t read_now(void *thing, int which)
{
    spn_server *server = thing;

    switch (which) {
    case READ_CONNECTIONS:
        return spn__load(&server->endpoint.open, relaxed); /* only a number */
    case READ_MEMORY:
        return (int64_t)spn__budget_used(&server->endpoint.budget);
    case READ_MEMORY_LIMIT:
        return (int64_t)server->endpoint.budget.limit;
    case READ_IN_FLIGHT:
        return (int64_t)spn__endpoint_in_flight(&server->endpoint);
    default:
        return (int64_t)spn__counts_sum(&server->endpoint.counts, which);
    }
}

int spn_server_add_metrics(spn_server *server, spn_metrics *metrics)
{
    char name[64];
    int rc;

    if (server == NULL || metrics == NULL)
        return SPN_EINVAL;
    rc = spn__metrics_add_named(metrics, "spindle_rpc_latency",
                                "From the arrival of a request to its reply; sampled.",
                                server->latency);
    for (size_t i = 0; i < sizeof readings / sizeof *readings && rc == SPN_OK; i++) {
        (void)snprintf(name, sizeof name, "spindle_rpc_%s", readings[i].name);
        rc = spn__metrics_add_reading(metrics, name, readings[i].help,
                                      readings[i].which >= SPN__COUNTS, read_now,
                                      server, readings[i].which);
        if (rc != SPN_OK)
            (void)spn_server_remove_metrics(server, metrics);
    }
    return rc;
}

int spn_server_remove_metrics(spn_server *server, spn_metrics *metrics)
{
    int rc, other;

    if (server == NULL || metrics == NULL)
        return SPN_EINVAL;
    rc = spn_metrics_remove(metrics, server->latency);
    other = spn_metrics_remove(metrics, server);
    return rc != SPN_OK ? rc : other;
}
