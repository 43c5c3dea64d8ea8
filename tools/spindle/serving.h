/* SPDX-License-Identifier: MIT */
/*
 * serving.h - what `spindle serve` holds while it serves, and how it looks at itself.
 */
#ifndef SERVING_H
#define SERVING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <spindle/metrics.h>
#include <spindle/repository.h>
#include <spindle/server.h>

#include "status.h"

enum { SERVERS_MAX = STATUS_SERVERS_MAX };

/* One server; what could not be made is NULL. */
struct served {
    char section[64]; /* of the file; "": the only one, of a URL */
    spn_repository *repository;
    spn_server *server;
    spn_metrics *metrics; /* a registry has room for one server */
};

struct serving {
    spn_extensions *extensions;
    struct served servers[SERVERS_MAX];
    int server_count;
    int64_t started_ns;

    pthread_mutex_t lock; /* of all below */
    bool draining;
    uint64_t report_count;
    char report[STATUS_REPORT_BYTES];
    struct status_sample history[STATUS_HISTORY]; /* a ring */
    int history_next, history_count;
    uint64_t last_received;              /* at the last sample */
    int64_t last_ns;                     /* when that was; 0: never */
    spn_histogram_snapshot last_latency; /* and what had been recorded */
};

/* The listener of the repository's exhaustion reports: keeps the last. */
void serving_exhausted(void *context, const spn_exhaustion *what);
/* Adds one sample to the history; called about once a second. */
void serving_sample(struct serving *serving);
/* For struct http_source. */
void serving_take(void *context, struct status *status);
int serving_metrics(void *context, FILE *to);
int serving_reset(void *context, const char *query, char *problem, size_t capacity);

#endif /* SERVING_H */
