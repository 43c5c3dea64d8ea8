/* SPDX-License-Identifier: MIT */
/*
 * status.h - what `spindle serve` knows about itself, at one moment.
 *
 * status_take fills the struct in from the server, its pools and its timers; it stops
 * nothing and waits for nobody, so it answers while every worker hangs.  The page, the
 * terminal and a script get the same figures: as JSON, or drawn as text.
 *
 * Rates need two looks.  status_sample takes one each second and keeps five minutes of
 * them, so that a page that has just been opened has its curves at once.
 */
#ifndef STATUS_H
#define STATUS_H

#include <stdint.h>
#include <stdio.h>

enum {
    STATUS_SERVERS_MAX = 16,
    STATUS_POOLS_MAX = 64,
    STATUS_TIMERS_MAX = 32,
    STATUS_SERVICES_MAX = 64,
    STATUS_EVENTS = 6,
    STATUS_HISTORY = 300,
    STATUS_REPORT_BYTES = 8192
};

/* One server; the figures outside are those of all together. */
struct status_server {
    char section[64]; /* of the file; "": it is the only one */
    char url[512];
    char dispatcher[64];
    uint64_t connections_open, received, in_flight;
};

struct status_pool {
    char name[128];
    int32_t threads, active, core, max, largest;
    int64_t queued, capacity; /* capacity 0: hand-off; -1: without a limit */
    int64_t completed, rejected;
};

struct status_timer {
    char name[80];
    uint64_t pending, fired, cancelled, wakeups;
    double late_p99_us;
};

/* How often an event was handled where. */
struct status_dispatch {
    const char *event;
    uint64_t io, pool, ordered, own;
};

struct status_service {
    char interface[128], version[32], group[32];
    int methods;
};

/* One second of the past. */
struct status_sample {
    int64_t at_ms; /* of the wall clock, so that a restarted server goes on */
    double rate;   /* requests per second */
    double p99_us; /* of the requests of that second; 0: there was none */
};

struct status {
    const char *state; /* "running", "draining" */
    int server_count;
    struct status_server servers[STATUS_SERVERS_MAX];
    double uptime_s;
    double rate;
    uint64_t connections_open, connections_accepted, connections_refused;
    uint64_t received, one_way, in_flight, replied, failed, rejected, rejected_one_way;
    uint64_t rejected_connection, rejected_address, rejected_delay;
    uint64_t expired, heartbeats, bad_frames, shared;
    uint64_t bytes_in, bytes_out;
    uint64_t memory_used, memory_limit, memory_refused;
    uint64_t latency_count;
    double p50_us, p90_us, p99_us, p999_us, max_us;
    int pool_count, timer_count, service_count;
    struct status_pool pools[STATUS_POOLS_MAX];
    struct status_timer timers[STATUS_TIMERS_MAX];
    struct status_dispatch dispatch[STATUS_EVENTS];
    struct status_service services[STATUS_SERVICES_MAX];
    uint64_t report_count;
    char report[STATUS_REPORT_BYTES]; /* the last exhaustion report; "" if none */
    int history_count;
    struct status_sample history[STATUS_HISTORY]; /* oldest first */
};

/* As one JSON object; of the history only what came after `after_ms`. */
void status_write_json(const struct status *status, int64_t after_ms, FILE *to);
/* As text for a terminal `columns` wide; bold and colour only if `colour`. */
void status_write_text(const struct status *status, int columns, int colour, FILE *to);

#endif /* STATUS_H */
