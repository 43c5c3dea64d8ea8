/* SPDX-License-Identifier: MIT */
/*
 * full_pool.h - a pool that cannot take one task more: one thread, which runs a task
 * that waits for a gate, and a queue that is full.
 *
 *     struct full_pool f;
 *     full_pool_start(&f, &opts, 2);             // two tasks are queued
 *     CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
 *     full_pool_stop(&f);                        // opens the gate, and checks the law
 */
#ifndef FULL_POOL_H
#define FULL_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <spindle/latch.h>
#include <spindle/pool.h>

#include "pool_calls.h"
#include "test.h"

/* A task that tells what became of it. */
struct item {
    spn_task task;
    atomic_int runs, drops;
    atomic_int reason; /* of the drop */
    int code;          /* it returns */
    pthread_t thread;  /* that ran it */
};

static inline int item_run(spn_task *task)
{
    struct item *item = (struct item *)(void *)task;
    const int code = item->code;

    item->thread = pthread_self();
    atomic_fetch_add(&item->runs, 1); /* last: who waits for it may reuse the item */
    return code;
}

static inline void item_drop(spn_task *task, int reason)
{
    struct item *item = (struct item *)(void *)task;

    atomic_store(&item->reason, reason);
    atomic_fetch_add(&item->drops, 1);
}

static inline void item_init(struct item *item)
{
    memset(item, 0, sizeof *item);
    item->task = (spn_task)SPN_TASK_INIT(item_run, item_drop);
}

enum { FULL_POOL_ITEMS = 8 };

struct full_pool {
    spn_pool *pool;
    spn_executor *executor;
    spn_latch *gate;
    spn_task blocker;              /* on the one thread, until the gate opens */
    void (*wait)(spn_latch *gate); /* in there */
    atomic_int started;
    int queued;
    struct item items[FULL_POOL_ITEMS]; /* in the queue, in order */
};

/* An interrupt does not open the gate.  ThreadSanitizer keeps a signal back until the thread
 * calls a function that it knows, which one that sleeps does not, and a report would wait a
 * second for its stack: there it looks at the clock again and again. */
static inline void full_pool_wait(spn_latch *gate)
{
    int rc;

    do
        rc = spn_latch_await(gate, T_TSAN ? SPN_MS(2) : SPN_FOREVER);
    while (rc == SPN_EINTR || rc == SPN_ETIMEDOUT);
    CHECK_OK(rc);
}

static inline int full_pool_block(spn_task *task)
{
    struct full_pool *f =
        (struct full_pool *)(void *)((char *)task -
                                     offsetof(struct full_pool, blocker));

    atomic_store(&f->started, 1);
    f->wait(f->gate);
    return 0;
}

/* One thread; `queued` tasks fill the queue, 0 is a hand-off. */
static inline spn_pool_opts full_pool_opts(const spn_reject_policy *reject, int queued)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;

    opts.name = "full";
    opts.core_threads = opts.max_threads = 1;
    opts.queue_capacity = queued;
    opts.reject = reject;
    return opts;
}

static inline void full_pool_start_with(struct full_pool *f, const spn_pool_opts *opts,
                                        void (*wait)(spn_latch *gate))
{
    memset(f, 0, sizeof *f);
    f->wait = wait;
    f->blocker = (spn_task)SPN_TASK_INIT(full_pool_block, NULL);
    f->queued = opts->queue_capacity;
    REQUIRE(f->queued <= FULL_POOL_ITEMS);
    REQUIRE_OK(spn_latch_create(&f->gate, 1));
    REQUIRE_OK(spn_pool_create(&f->pool, opts));
    f->executor = spn_pool_executor(f->pool);
    REQUIRE_OK(spn_executor_execute(f->executor, &f->blocker));
    T_AWAIT(atomic_load(&f->started) == 1);
    for (int i = 0; i < f->queued; i++) {
        item_init(&f->items[i]);
        REQUIRE_OK(spn_executor_execute(f->executor, &f->items[i].task));
    }
}

static inline void full_pool_start(struct full_pool *f, const spn_pool_opts *opts)
{
    full_pool_start_with(f, opts, full_pool_wait);
}

/* accepted = completed + failed + cancelled + returned + dropped, nothing pending. */
static inline void check_law(spn_pool *pool)
{
    const spn_pool_stats s = pool_stats(pool);

    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.accepted, s.completed + s.failed + s.cancelled + s.returned + s.dropped);
}

/* Lets all that was accepted run, and ends the pool. */
static inline void full_pool_stop(struct full_pool *f)
{
    CHECK_OK(spn_latch_count_down(f->gate));
    CHECK_OK(spn_pool_close(f->pool));
    check_law(f->pool);
    CHECK_OK(spn_pool_destroy(f->pool));
    CHECK_OK(spn_latch_destroy(f->gate));
    for (int i = 0; i < f->queued; i++) /* each had one end */
        CHECK_EQ(atomic_load(&f->items[i].runs) + atomic_load(&f->items[i].drops), 1);
}

#endif /* FULL_POOL_H */
