/* SPDX-License-Identifier: MIT */
/* report.h - the exhaustion report, for the pool; see report.c. */
#ifndef SPN__REPORT_H
#define SPN__REPORT_H

#include <stdio.h>

#include <spindle/pool.h>
#include <spindle/report.h>

#include "sync/lock.h"

/* The signal that a thread of a pool with this policy must let through, so that it
 * can be asked for its stack; 0: none.  For spn_thread_opts.signal. */
uint32_t spn__reject_signal(const spn_reject_policy *policy);

/* A pool in words for people.  A thread that was made or woken for a task counts as active,
 * and the task as its: of a burst nothing would seem to be active, and more would wait than
 * there is room for. */
struct spn__report_figures {
    int32_t active;
    int64_t waiting;
    int64_t tasks;     /* with those that have run */
    char capacity[24]; /* "unbounded", or a number */
};

static inline void spn__report_figures(const spn_pool_stats *s,
                                       struct spn__report_figures *f)
{
    const int64_t awake = (int64_t)s->threads - s->parked;
    int64_t active = s->pending < awake ? s->pending : awake;

    if (active < s->active)
        active = s->active; /* the numbers are not of one moment */
    f->active = (int32_t)active;
    f->waiting = s->pending > active ? s->pending - active : 0;
    f->tasks = s->completed + s->failed + active + f->waiting;
    (void)snprintf(f->capacity, sizeof f->capacity, "unbounded");
    if (s->capacity != INT64_MAX)
        (void)snprintf(f->capacity, sizeof f->capacity, "%lld", (long long)s->capacity);
}

/* Questions to threads that outlived the report that asked them; freed when the next
 * one is made or destroyed after the answers have come. */
struct spn__captures;
struct spn__stranded {
    struct spn__lock lock; /* guards first; a leaf */
    struct spn__captures *first;
};
extern struct spn__stranded spn__report_stranded;

#endif /* SPN__REPORT_H */
