/* SPDX-License-Identifier: MIT */
/*
 * serving.c - see serving.h.  Everything here reads counters that others write; the one
 * lock is between the sampler, the listener of reports and the page, never on the way of
 * a request.
 */
#include "serving.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <spindle.h>

#include "metrics_text.h"
#include "redact.h"

static const double quantiles[] = { 0.5, 0.9, 0.99, 0.999 };

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

static void copy(char *to, size_t capacity, const char *text)
{
    snprintf(to, capacity, "%s", text_of(text));
}

void serving_exhausted(void *context, const spn_exhaustion *what)
{
    struct serving *serving = context;
    FILE *stacks = what->file != NULL ? fopen(what->file, "r") : NULL;
    size_t length;

    (void)pthread_mutex_lock(&serving->lock);
    serving->report_count++;
    copy(serving->report, sizeof(serving->report), what->message);
    length = strlen(serving->report);
    if (what->file != NULL && length < sizeof(serving->report)) {
        snprintf(serving->report + length, sizeof(serving->report) - length,
                 "\n\nStacks, from %s:\n", what->file);
        length = strlen(serving->report);
    }
    if (stacks != NULL) {
        length += fread(serving->report + length, 1,
                        sizeof(serving->report) - 1 - length, stacks);
        serving->report[length] = '\0';
    }
    (void)pthread_mutex_unlock(&serving->lock);
    if (stacks != NULL)
        (void)fclose(stacks);
}

/* What was recorded between two looks. */
static void subtract(spn_histogram_snapshot *now, const spn_histogram_snapshot *before)
{
    now->count -= before->count;
    now->sum -= before->sum;
    for (int i = 0; i < SPN_HISTOGRAM_BUCKETS; i++)
        now->buckets[i] -= before->buckets[i];
}

static double microseconds(int64_t ns)
{
    return (double)ns / 1000.0;
}

/* Of all servers together. */
static bool add_latency(const struct serving *serving, spn_histogram_snapshot *sum)
{
    for (int s = 0; s < serving->server_count; s++) {
        spn_histogram_snapshot one = SPN_HISTOGRAM_SNAPSHOT_INIT;

        if (spn_server_latency(serving->servers[s].server, &one) != SPN_OK)
            return false;
        sum->count += one.count;
        sum->sum += one.sum;
        if (one.max > sum->max)
            sum->max = one.max;
        for (int i = 0; i < SPN_HISTOGRAM_BUCKETS; i++)
            sum->buckets[i] += one.buckets[i];
    }
    return true;
}

static uint64_t requests_of(const struct serving *serving)
{
    uint64_t requests = 0;

    for (int s = 0; s < serving->server_count; s++) {
        spn_server_stats stats = SPN_SERVER_STATS_INIT;

        if (spn_server_stats_get(serving->servers[s].server, &stats) == SPN_OK)
            requests += stats.requests;
    }
    return requests;
}

void serving_sample(struct serving *serving)
{
    spn_histogram_snapshot latency = SPN_HISTOGRAM_SNAPSHOT_INIT;
    const int64_t now = spn_now();
    const uint64_t requests = requests_of(serving);
    struct timespec wall;
    double rate = 0, p99 = 0;

    if (!add_latency(serving, &latency))
        return;
    (void)clock_gettime(CLOCK_REALTIME, &wall);
    (void)pthread_mutex_lock(&serving->lock);
    if (serving->last_ns != 0 && now > serving->last_ns) {
        spn_histogram_snapshot second = latency;

        rate = (double)(requests - serving->last_received) /
               ((double)(now - serving->last_ns) / 1e9);
        subtract(&second, &serving->last_latency);
        if (second.count > 0)
            p99 = microseconds(spn_histogram_quantile(&second, 0.99));
    }
    serving->last_received = requests;
    serving->last_ns = now;
    serving->last_latency = latency;
    serving->history[serving->history_next] =
        (struct status_sample){ (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000,
                                rate, p99 };
    serving->history_next = (serving->history_next + 1) % STATUS_HISTORY;
    if (serving->history_count < STATUS_HISTORY)
        serving->history_count++;
    (void)pthread_mutex_unlock(&serving->lock);
}

/* What is of one server, while it is asked. */
struct asking {
    struct status *status;
    const struct served *served;
};

/* With the section in front, where there are several servers. */
static void name_of(const struct served *served, const char *name, char *text,
                    size_t capacity)
{
    snprintf(text, capacity, served->section[0] != '\0' ? "%s: %s" : "%s%s",
             served->section, name);
}

static void take_pool(void *context, const char *key, spn_pool *pool)
{
    const struct asking *asking = context;
    struct status *s = asking->status;
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    struct status_pool *p;

    if (s->pool_count == STATUS_POOLS_MAX || spn_pool_stats_get(pool, &stats) != SPN_OK)
        return;
    p = &s->pools[s->pool_count++];
    name_of(asking->served, key, p->name, sizeof(p->name));
    p->threads = stats.threads;
    p->active = stats.active;
    p->core = stats.core_threads;
    p->max = stats.max_threads;
    p->largest = stats.largest;
    p->queued = stats.queued;
    p->capacity = stats.capacity >= INT32_MAX ? -1 : stats.capacity;
    p->completed = stats.completed + stats.failed;
    p->rejected = stats.rejected;
}

static void take_service(void *context, const spn_service *service, uint64_t calls)
{
    struct status *s = context;
    struct status_service *to;

    (void)calls;
    for (int i = 0; i < s->service_count; i++)
        if (strcmp(s->services[i].interface, service->interface) == 0 &&
            strcmp(s->services[i].version, text_of(service->version)) == 0 &&
            strcmp(s->services[i].group, text_of(service->group)) == 0)
            return; /* another server has it too */
    if (s->service_count == STATUS_SERVICES_MAX)
        return;
    to = &s->services[s->service_count++];
    copy(to->interface, sizeof(to->interface), service->interface);
    copy(to->version, sizeof(to->version), service->version);
    copy(to->group, sizeof(to->group), service->group);
    to->methods = (int)service->method_count;
}

static void take_timer(struct status *s, const struct served *served, const char *name,
                       spn_timer *timer)
{
    spn_timer_stats stats = SPN_TIMER_STATS_INIT;
    struct status_timer *t;

    if (timer == NULL || s->timer_count == STATUS_TIMERS_MAX ||
        spn_timer_get_stats(timer, &stats) != SPN_OK)
        return;
    t = &s->timers[s->timer_count++];
    name_of(served, name, t->name, sizeof(t->name));
    t->pending = stats.pending;
    t->fired = stats.fired;
    t->cancelled = stats.cancelled;
    t->wakeups = stats.passes;
    t->late_p99_us = microseconds(stats.late_p99_ns);
}

/* Adds one server's counts to the sums. */
static void take_traffic(struct status *s, const spn_server_stats *stats)
{
    s->connections_open += stats->connections;
    s->connections_accepted += stats->accepted;
    s->connections_refused += stats->refused;
    s->received += stats->requests;
    s->one_way += stats->one_way;
    s->in_flight += stats->in_flight;
    s->replied += stats->replies;
    s->failed += stats->exceptions + stats->bad_bodies;
    for (int slot = 0; slot < 16; slot++) {
        const int status = spn_server_slot_status(slot);

        /* The others are counted as what they are: fine, refused, too late. */
        if (status != 20 && status != 100 && status != 31 && status != 40)
            s->failed += stats->statuses[slot];
    }
    s->rejected += stats->rejected;
    s->rejected_one_way += stats->rejected_one_way;
    s->rejected_connection += stats->rejected_connection;
    s->rejected_address += stats->rejected_address;
    s->rejected_delay += stats->rejected_delay;
    s->expired += stats->expired;
    s->heartbeats += stats->heartbeats;
    s->bad_frames += stats->bad_frames;
    s->bytes_in += stats->bytes_in;
    s->bytes_out += stats->bytes_out;
    s->shared += stats->shared;
    s->memory_used += stats->memory_used;
    s->memory_limit += stats->memory_limit;
    s->memory_refused += stats->memory_refused;
    for (int e = 0; e < STATUS_EVENTS && e < SPN_CHANNEL_EVENTS; e++) {
        const uint64_t *places = stats->dispatched[e];

        s->dispatch[e].event = spn_channel_event_name(e);
        s->dispatch[e].io += places[SPN_PLACE_IO];
        s->dispatch[e].pool += places[SPN_PLACE_POOL] + places[SPN_PLACE_PREFERRED];
        s->dispatch[e].ordered += places[SPN_PLACE_ORDERED];
        s->dispatch[e].own += places[SPN_PLACE_OWN];
    }
}

static void take_latency(const struct serving *serving, struct status *s)
{
    spn_histogram_snapshot latency = SPN_HISTOGRAM_SNAPSHOT_INIT;
    double *const to[] = { &s->p50_us, &s->p90_us, &s->p99_us, &s->p999_us };

    if (!add_latency(serving, &latency) || latency.count == 0)
        return;
    s->latency_count = latency.count;
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
        *to[i] = microseconds(spn_histogram_quantile(&latency, quantiles[i]));
    s->max_us = microseconds(latency.max);
}

static void take_server(const struct served *served, struct status *s)
{
    struct status_server *to = &s->servers[s->server_count++];
    struct asking asking = { s, served };
    spn_server_stats stats = SPN_SERVER_STATS_INIT;
    spn_url *url = spn_server_url(served->server);
    spn_timer *timer = NULL;

    copy(to->section, sizeof(to->section), served->section);
    if (url != NULL) {
        redact_url(url, to->url, sizeof(to->url));
        copy(to->dispatcher, sizeof(to->dispatcher),
             spn_url_get_string(url, NULL, "dispatcher", "all"));
        spn_url_unref(url);
    }
    if (spn_server_stats_get(served->server, &stats) == SPN_OK) {
        to->connections_open = stats.connections;
        to->received = stats.requests;
        to->in_flight = stats.in_flight;
        take_traffic(s, &stats);
    }
    (void)spn_repository_each(served->repository, take_pool, &asking);
    take_timer(s, served, "idle", spn_server_timer(served->server));
    if (spn_repository_shared_timer(served->repository, &timer) == SPN_OK)
        take_timer(s, served, "shared", timer);
    (void)spn_server_each_service(served->server, take_service, s);
}

void serving_take(void *context, struct status *s)
{
    struct serving *serving = context;

    memset(s, 0, sizeof(*s));
    s->uptime_s = (double)(spn_now() - serving->started_ns) / 1e9;
    for (int i = 0; i < serving->server_count; i++)
        take_server(&serving->servers[i], s);
    take_latency(serving, s);

    (void)pthread_mutex_lock(&serving->lock);
    s->state = serving->draining ? "draining" : "running";
    s->report_count = serving->report_count;
    memcpy(s->report, serving->report, sizeof(s->report));
    s->history_count = serving->history_count;
    for (int i = 0; i < serving->history_count; i++)
        s->history[i] = serving->history[(serving->history_next -
                                          serving->history_count + i + STATUS_HISTORY) %
                                         STATUS_HISTORY];
    if (s->history_count > 0)
        s->rate = s->history[s->history_count - 1].rate;
    (void)pthread_mutex_unlock(&serving->lock);
}

static int write_text(void *context, const char *text, size_t length)
{
    return fwrite(text, 1, length, context) == length ? 0 : SPN_EFAILED;
}

int serving_metrics(void *context, FILE *to)
{
    struct serving *serving = context;
    struct metrics_text texts[SERVERS_MAX] = { { NULL, NULL } };
    int rc = SPN_OK;

    for (int i = 0; i < serving->server_count && rc == SPN_OK; i++) {
        const struct served *served = &serving->servers[i];
        size_t size;
        FILE *text = open_memstream(&texts[i].text, &size);

        texts[i].server = served->section;
        if (text == NULL)
            rc = SPN_ENOMEM;
        else
            rc = spn_metrics_write(served->metrics, SPN_METRICS_PROMETHEUS, write_text,
                                   text);
        if (text != NULL && fclose(text) != 0)
            rc = SPN_ENOMEM;
    }
    if (rc == SPN_OK)
        metrics_text_merge(texts, serving->server_count, to);
    for (int i = 0; i < serving->server_count; i++)
        free(texts[i].text);
    return rc;
}

int serving_reset(void *context, const char *query, char *text, size_t capacity)
{
    struct serving *serving = context;
    spn_server *const server = serving->servers[0].server;
    spn_problem problem = SPN_PROBLEM_INIT;
    char url[1400];
    spn_url *now;
    int rc;

    if (serving->servers[0].section[0] != '\0') {
        snprintf(text, capacity,
                 "The servers are those of a file: change its sections and send "
                 "SIGHUP, which reads it again.");
        return SPN_ESTATE;
    }
    now = spn_server_url(server);
    if (now == NULL)
        return SPN_ESTATE;
    snprintf(url, sizeof(url), "dubbo://%s:%d?%s",
             spn_url_host(now) != NULL ? spn_url_host(now) : "127.0.0.1",
             spn_server_port(server), query);
    spn_url_unref(now);
    rc = spn_server_reset(server, url, &problem);
    if (rc != SPN_OK)
        snprintf(text, capacity, "%s",
                 problem.text[0] != '\0' ? problem.text : spn_status_text(rc));
    return rc;
}
