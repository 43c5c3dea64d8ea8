/* SPDX-License-Identifier: MIT */
/*
 * status_json.c - the status as JSON: what the page reads, and scripts may.
 */
#include "status.h"

#include <unistd.h>

#include <spindle.h>

#include "json.h"

static void count(struct json *j, const char *key, uint64_t value)
{
    json_integer(j, key, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void write_servers(struct json *j, const struct status *s)
{
    json_open(j, "servers", '[');
    for (int i = 0; i < s->server_count; i++) {
        const struct status_server *server = &s->servers[i];

        json_open(j, NULL, '{');
        json_string(j, "section", server->section);
        json_string(j, "url", server->url);
        json_string(j, "dispatcher", server->dispatcher);
        count(j, "connections", server->connections_open);
        count(j, "received", server->received);
        count(j, "in_flight", server->in_flight);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_traffic(struct json *j, const struct status *s)
{
    json_open(j, "connections", '{');
    count(j, "open", s->connections_open);
    count(j, "accepted", s->connections_accepted);
    count(j, "refused", s->connections_refused);
    json_close(j, '}');

    json_open(j, "requests", '{');
    count(j, "received", s->received);
    count(j, "one_way", s->one_way);
    count(j, "in_flight", s->in_flight);
    count(j, "replied", s->replied);
    count(j, "failed", s->failed);
    count(j, "rejected", s->rejected);
    count(j, "rejected_one_way", s->rejected_one_way);
    count(j, "rejected_connection", s->rejected_connection);
    count(j, "rejected_address", s->rejected_address);
    count(j, "rejected_delay", s->rejected_delay);
    count(j, "expired", s->expired);
    count(j, "heartbeats", s->heartbeats);
    count(j, "bad_frames", s->bad_frames);
    count(j, "shared", s->shared);
    json_close(j, '}');

    json_open(j, "bytes", '{');
    count(j, "in", s->bytes_in);
    count(j, "out", s->bytes_out);
    json_close(j, '}');

    json_open(j, "memory", '{');
    count(j, "used", s->memory_used);
    count(j, "limit", s->memory_limit);
    count(j, "refused", s->memory_refused);
    json_close(j, '}');

    json_open(j, "latency_us", '{');
    count(j, "count", s->latency_count);
    json_number(j, "p50", s->p50_us);
    json_number(j, "p90", s->p90_us);
    json_number(j, "p99", s->p99_us);
    json_number(j, "p999", s->p999_us);
    json_number(j, "max", s->max_us);
    json_close(j, '}');
}

static void write_pools(struct json *j, const struct status *s)
{
    json_open(j, "pools", '[');
    for (int i = 0; i < s->pool_count; i++) {
        const struct status_pool *p = &s->pools[i];

        json_open(j, NULL, '{');
        json_string(j, "name", p->name);
        json_integer(j, "size", p->threads);
        json_integer(j, "active", p->active);
        json_integer(j, "core", p->core);
        json_integer(j, "max", p->max);
        json_integer(j, "largest", p->largest);
        json_integer(j, "queued", p->queued);
        json_integer(j, "capacity", p->capacity);
        json_integer(j, "completed", p->completed);
        json_integer(j, "rejected", p->rejected);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_dispatch(struct json *j, const struct status *s)
{
    json_open(j, "dispatch", '[');
    for (int i = 0; i < STATUS_EVENTS; i++) {
        const struct status_dispatch *d = &s->dispatch[i];

        json_open(j, NULL, '{');
        json_string(j, "event", d->event);
        count(j, "io", d->io);
        count(j, "pool", d->pool);
        count(j, "ordered", d->ordered);
        count(j, "own", d->own);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_timers(struct json *j, const struct status *s)
{
    json_open(j, "timers", '[');
    for (int i = 0; i < s->timer_count; i++) {
        const struct status_timer *t = &s->timers[i];

        json_open(j, NULL, '{');
        json_string(j, "name", t->name);
        count(j, "pending", t->pending);
        count(j, "fired", t->fired);
        count(j, "cancelled", t->cancelled);
        count(j, "wakeups", t->wakeups);
        json_number(j, "late_p99_us", t->late_p99_us);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_services(struct json *j, const struct status *s)
{
    json_open(j, "services", '[');
    for (int i = 0; i < s->service_count; i++) {
        json_open(j, NULL, '{');
        json_string(j, "interface", s->services[i].interface);
        json_string(j, "version", s->services[i].version);
        json_string(j, "group", s->services[i].group);
        json_integer(j, "methods", s->services[i].methods);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_history(struct json *j, const struct status *s, int64_t after_ms)
{
    json_open(j, "history", '[');
    for (int i = 0; i < s->history_count; i++) {
        if (s->history[i].at_ms <= after_ms)
            continue;
        json_open(j, NULL, '{');
        json_integer(j, "t", s->history[i].at_ms);
        json_number(j, "rate", s->history[i].rate);
        json_number(j, "p99_us", s->history[i].p99_us);
        json_close(j, '}');
    }
    json_close(j, ']');
}

void status_write_json(const struct status *s, int64_t after_ms, FILE *to)
{
    struct json j;

    json_begin(&j, to);
    json_open(&j, NULL, '{');
    json_string(&j, "version", spn_version_string());
    json_integer(&j, "process", getpid());
    json_string(&j, "state", s->state);
    json_string(&j, "url", s->servers[0].url);
    json_string(&j, "dispatcher", s->servers[0].dispatcher);
    write_servers(&j, s);
    json_number(&j, "uptime_s", s->uptime_s);
    json_number(&j, "rate", s->rate);
    write_traffic(&j, s);
    write_pools(&j, s);
    write_dispatch(&j, s);
    write_timers(&j, s);
    write_services(&j, s);
    json_open(&j, "report", '{');
    count(&j, "count", s->report_count);
    json_string(&j, "text", s->report);
    json_close(&j, '}');
    write_history(&j, s, after_ms);
    json_close(&j, '}');
}
