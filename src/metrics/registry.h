/* SPDX-License-Identifier: MIT */
/* registry.h - what is registered, for watches and libspindle-rpc; see registry.c. */
#ifndef SPN__REGISTRY_H
#define SPN__REGISTRY_H

#include <spindle/metrics.h>

#include "base/list.h"
#include "sync/lock.h"

enum spn__item_kind {
    ITEM_POOL,
    ITEM_TIMER,
    ITEM_OBJECT_POOL,
    ITEM_LIMITER, /* the last that has a name of its own as a label */
    ITEM_COUNTER,
    ITEM_HISTOGRAM,
    ITEM_READING
};

/* What the threads of a pool do: awake without a task, in one, asleep, blocked in one
 * (fork/join). */
enum {
    SPN__STATE_IDLE,
    SPN__STATE_BUSY,
    SPN__STATE_PARKED,
    SPN__STATE_BLOCKING,
    SPN__STATES
};

/* A thing in a registry; all of it guarded by the registry's lock. */
struct spn__item {
    struct spn__list_node link;
    enum spn__item_kind kind;
    const void *thing;
    char *name, *help;     /* help: of counters and histograms */
    spn_task_times *times; /* of a pool; NULL: none */
    spn_fj_pool
        *stealing; /* a fork/join pool, and then `thing` is the same; else NULL */
    int64_t (*read)(void *thing, int which); /* of a reading, as the next two */
    int which;
    bool is_gauge;
    union { /* what a scrape has found */
        spn_pool_stats pool;
        spn_timer_stats timer;
        spn_object_pool_stats objects;
        spn_limiter_stats limiter;
        int64_t counter;
    } now;
    int64_t submitted, steals; /* of a pool, of a fork/join pool */
    int32_t states[SPN__STATES];
    int64_t longest_ns, oldest_ns; /* of a pool with times */
};

struct spn_metrics {
    struct spn__lock lock; /* held during a scrape, which calls nobody else's code */
    struct spn__list items;
    size_t last_size; /* bytes the last text took */
};

/*
 * For libspindle-rpc, whose metrics have the library's own names: a number that read(thing,
 * which) gives, a counter or a gauge, and a histogram.  read is called with the registry's
 * lock held, and takes none but leaves.  As spn_metrics_add.
 */
SPN__SHARED int spn__metrics_add_reading(struct spn_metrics *metrics, const char *name,
                                         const char *help, bool is_gauge,
                                         int64_t (*read)(void *thing, int which),
                                         void *thing, int which);
SPN__SHARED int spn__metrics_add_named(struct spn_metrics *metrics, const char *name,
                                       const char *help, spn_histogram *histogram);

/* Refreshes `now` of an item; the lock is held. */
void spn__item_look(struct spn__item *item);

#endif /* SPN__REGISTRY_H */
