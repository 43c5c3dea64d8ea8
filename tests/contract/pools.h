/* SPDX-License-Identifier: MIT */
/*
 * pools.h - pools under test, tasks that can be held and counted, and tests that run
 * over every kind of queue a pool can have.
 *
 *     // The property, in one sentence.
 *     TEST_EACH(pool__submitted__runs_once, "TPE-13")
 *     {
 *         struct bed b = bed_open(k, 2, 2);     // k: the row of the table
 *         ...
 *         bed_close(&b);
 *     }
 *
 * A piece is a task that remembers what happened to it.  One with a gate waits there
 * until the test opens it, so a test knows exactly which threads are busy; nothing is
 * left to time.  pool_close ends a pool and checks the books: what was accepted has
 * been run, returned, dropped or cancelled, once, and every gauge is back at zero.
 */
#ifndef POOLS_H
#define POOLS_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <spindle/clock.h>
#include <spindle/future.h>
#include <spindle/latch.h>
#include <spindle/pool.h>

#include "peer.h"
#include "pool_calls.h"
#include "test.h"

/* ---- tasks ------------------------------------------------------------------- */

struct piece {
    union {
        spn_task task;
        spn_job job; /* if its flags say so */
    };
    spn_latch *gate; /* it waits for this one; NULL: it does not wait */
    int heeds;       /* 1: an interrupt ends the wait at the gate */
    int code;        /* what it returns */
    int dies;        /* 1: it ends its thread */
    void (*act)(struct piece *piece); /* called before it ends; may be NULL */
    void *arg;

    atomic_int started, ended, drops;
    atomic_int interrupted; /* it was, at the gate */
    /* Written before `started`, or before `drops`. */
    int order; /* of starting, from 1 */
    int tid;
    int flag;   /* its interrupt flag when it started */
    int reason; /* of the drop */
    spn_pool *current;
};

static atomic_int pieces_started; /* numbers `order` */

static inline int piece_run(spn_task *task)
{
    struct piece *p = (struct piece *)(void *)task;
    const int code = p->code, dies = p->dies;

    p->order = atomic_fetch_add(&pieces_started, 1) + 1;
    p->tid = peer_gettid();
    p->flag = spn_thread_is_interrupted(spn_thread_current());
    p->current = spn_pool_current();
    atomic_fetch_add(&p->started, 1);
    if (p->gate != NULL) {
        for (;;) {
            const int rc = spn_latch_await(p->gate, SPN_FOREVER);

            if (rc == SPN_EINTR)
                atomic_fetch_add(&p->interrupted, 1);
            else
                CHECK_OK(rc);
            if (rc == SPN_OK || p->heeds != 0)
                break;
        }
    }
    if (p->act != NULL)
        p->act(p);
    atomic_fetch_add(&p->ended, 1); /* after this the test may take it away */
    if (dies != 0)
        pthread_exit(NULL);
    return code;
}

static inline void piece_drop(spn_task *task, int reason)
{
    struct piece *p = (struct piece *)(void *)task;

    p->reason = reason;
    p->tid = peer_gettid();
    atomic_fetch_add(&p->drops, 1);
}

static inline void piece_init(struct piece *p, spn_latch *gate)
{
    memset(p, 0, sizeof *p);
    p->task = (spn_task)SPN_TASK_INIT(piece_run, piece_drop);
    p->gate = gate;
}

static inline void pieces_init(struct piece *p, int count, spn_latch *gate)
{
    for (int i = 0; i < count; i++)
        piece_init(&p[i], gate);
}

/* The same as a job. */
static inline void job_init(struct piece *p, spn_latch *gate)
{
    memset(p, 0, sizeof *p);
    p->job = (spn_job)SPN_JOB_INIT(piece_run, piece_drop);
    p->gate = gate;
}

static inline int started(struct piece *p)
{
    return atomic_load(&p->started);
}

static inline int ended(struct piece *p)
{
    return atomic_load(&p->ended);
}

static inline int drops(struct piece *p)
{
    return atomic_load(&p->drops);
}

/* It ran once and was not dropped; or the other way round; or neither. */
static inline bool ran(struct piece *p)
{
    return started(p) == 1 && ended(p) == 1 && drops(p) == 0;
}

static inline bool dropped(struct piece *p, int reason)
{
    return started(p) == 0 && drops(p) == 1 && p->reason == reason;
}

static inline bool untouched(struct piece *p)
{
    return started(p) == 0 && drops(p) == 0;
}

static inline spn_latch *gate_new(void)
{
    spn_latch *gate;

    REQUIRE_OK(spn_latch_create(&gate, 1));
    return gate;
}

static inline void gate_open(spn_latch *gate)
{
    CHECK_OK(spn_latch_count_down(gate));
}

/* Nobody waits any more. */
static inline void gate_free(spn_latch *gate)
{
    T_AWAIT(spn_latch_destroy(gate) == SPN_OK);
}

/* ---- pools ------------------------------------------------------------------- */

static inline int execute(spn_pool *pool, struct piece *p)
{
    return spn_executor_execute(spn_pool_executor(pool), &p->task);
}

/* Has it run, and waits until it has begun. */
static inline void start(spn_pool *pool, struct piece *p)
{
    REQUIRE_OK(execute(pool, p));
    T_AWAIT(started(p) == 1);
}

/* What must hold of any picture, whatever goes on. */
static inline bool plausible(const spn_pool_stats *s)
{
    return s->threads >= 0 && s->largest >= s->threads && s->active >= 0 &&
           s->queued >= 0 && s->accepted >= 0 && s->completed >= 0 && s->failed >= 0 &&
           s->cancelled >= 0 && s->returned >= 0 && s->dropped >= 0 &&
           s->pending >= 0 && s->expired >= 0 && s->rejected >= 0 &&
           s->caller_ran >= 0 && s->threads_started >= 0 && s->threads_failed >= 0 &&
           s->threads_died >= 0 && s->submitted >= 0 &&
           s->core_threads <= s->max_threads;
}

static inline bool balanced(const spn_pool_stats *s)
{
    return plausible(s) &&
           s->accepted == s->completed + s->failed + s->cancelled + s->returned +
                              s->dropped + s->pending &&
           s->expired <= s->dropped;
}

/* Waits until nothing runs and nothing is queued, and all of it is counted. */
static inline void pool_rest(spn_pool *pool)
{
    for (;;) {
        const spn_pool_stats s = pool_stats(pool);

        if (s.pending == 0 && s.active == 0 && s.queued == 0 && balanced(&s))
            return;
        t_pause();
    }
}

static inline bool check_books(const spn_pool_stats *s)
{
    const bool ok = CHECK(balanced(s));

    if (!ok)
        fprintf(stderr,
                "  accepted %lld, completed %lld, failed %lld, cancelled %lld, "
                "returned %lld, dropped %lld, pending %lld\n",
                (long long)s->accepted, (long long)s->completed, (long long)s->failed,
                (long long)s->cancelled, (long long)s->returned, (long long)s->dropped,
                (long long)s->pending);
    return ok;
}

/* What a terminated pool looks like. */
static inline void check_terminated(spn_pool *pool)
{
    const spn_pool_stats s = pool_stats(pool);

    check_books(&s);
    CHECK_EQ(s.state, SPN_EXECUTOR_TERMINATED);
    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.queued, 0);
    CHECK_EQ(s.active, 0);
    CHECK_EQ(s.threads, 0);
    CHECK_EQ(s.submitted, 0);
    CHECK_EQ(s.paused, 0);
    CHECK_EQ(pool_is_shutdown(pool), 1);
    CHECK_EQ(pool_is_terminated(pool), 1);
    CHECK_EQ(pool_tasks(pool), pool_ended(pool));
    CHECK_OK(pool_await(pool, 0));
}

static inline void pool_close(spn_pool *pool)
{
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(pool_await(pool, SPN_FOREVER));
    check_terminated(pool);
    REQUIRE_OK(spn_pool_destroy(pool));
}

static inline spn_pool_opts opts_of(int32_t core, int32_t max, int32_t capacity)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;

    opts.core_threads = core;
    opts.max_threads = max;
    opts.queue_capacity = capacity;
    opts.keep_alive_ns = SPN_SEC(3600); /* nobody leaves by himself */
    return opts;
}

static inline spn_pool *pool_with(const spn_pool_opts *opts)
{
    spn_pool *pool;

    REQUIRE_OK(spn_pool_create(&pool, opts));
    return pool;
}

static inline spn_pool *pool_of(int32_t core, int32_t max, int32_t capacity)
{
    const spn_pool_opts opts = opts_of(core, max, capacity);

    return pool_with(&opts);
}

/* For tests whose tasks fail: nothing is logged. */
static inline void uncaught_quietly(spn_pool *pool, const spn_task_info *info,
                                    void *ctx)
{
    (void)pool;
    (void)info;
    (void)ctx;
}

/* Collects what shutdown_now gives back. */
enum { LEFT_MAX = 64 };
struct left {
    spn_task *tasks[LEFT_MAX];
    int count;
    pthread_t thread;
};

static inline void left_add(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    struct left *l = ctx;

    (void)fn;
    (void)arg;
    REQUIRE(l->count < LEFT_MAX);
    l->tasks[l->count++] = task;
    l->thread = pthread_self();
}

/* ---- every kind of queue ------------------------------------------------------- */

enum {
    STRICT = 1,  /* first in, first out over all */
    OWN = 2,     /* a queue of the user's */
    LIMITED = 4, /* can be given a capacity */
    INTERIOR = 8 /* remove, purge and snapshot see all that is queued */
};

struct pool_kind {
    const char *name;
    uint32_t queue_kind;
    int own; /* spn_queue_kind, or 0 */
    unsigned traits;
};

/* X(argument, row name, spn_pool_queue_kind, spn_queue_kind or 0, traits) */
#define POOL_KINDS(X, a)                                                               \
    X(a, fifo, SPN_POOL_FIFO, 0, STRICT | LIMITED | INTERIOR)                          \
    X(a, lanes, SPN_POOL_LANES, 0, INTERIOR)                                           \
    X(a, priority, SPN_POOL_PRIORITY, 0, STRICT | LIMITED | INTERIOR)                  \
    X(a, own_linked, SPN_POOL_FIFO, SPN_QUEUE_LINKED,                                  \
      STRICT | OWN | LIMITED | INTERIOR)                                               \
    X(a, own_array, SPN_POOL_FIFO, SPN_QUEUE_ARRAY, STRICT | OWN | LIMITED | INTERIOR) \
    X(a, own_transfer, SPN_POOL_FIFO, SPN_QUEUE_TRANSFER, STRICT | OWN | INTERIOR)

#define TEST_EACH_ROW(test, row, kind_, own_, traits_)                       \
    __attribute__((constructor)) static void t_register_##test##_##row(void) \
    {                                                                        \
        t_register(#test "__" #row, t_run_##test##_##row);                   \
    }

#define TEST_EACH_RUN(test, row, kind_, own_, traits_)                       \
    static void t_run_##test##_##row(void)                                   \
    {                                                                        \
        static const struct pool_kind kind = { #row, kind_, own_, traits_ }; \
        test(&kind);                                                         \
    }

#define TEST_EACH(name, ...)                     \
    static void name(const struct pool_kind *k); \
    POOL_KINDS(TEST_EACH_RUN, name)              \
    POOL_KINDS(TEST_EACH_ROW, name)              \
    static void name(const struct pool_kind *k)

static inline bool is(const struct pool_kind *k, unsigned trait)
{
    return (k->traits & trait) != 0;
}

/* A pool and the queue it borrows, if any. */
struct bed {
    spn_pool *pool;
    spn_queue *queue;
};

/* capacity is SPN_UNBOUNDED, or a number if the kind is LIMITED. */
static inline struct bed bed_with(const struct pool_kind *k, spn_pool_opts opts,
                                  int32_t capacity)
{
    struct bed b = { NULL, NULL };

    opts.queue_kind = k->queue_kind;
    opts.queue_capacity = capacity;
    if (k->own != 0) {
        spn_queue_opts q = SPN_QUEUE_OPTS_INIT;

        if (capacity > 0)
            q.capacity = capacity;
        else if (k->own == SPN_QUEUE_ARRAY)
            q.capacity = 4096;
        REQUIRE_OK(spn_queue_create(&b.queue, (spn_queue_kind)k->own, &q));
        opts.queue = b.queue;
        opts.queue_capacity = SPN_DEFAULT;
    }
    b.pool = pool_with(&opts);
    return b;
}

static inline struct bed bed_open(const struct pool_kind *k, int32_t core, int32_t max)
{
    return bed_with(k, opts_of(core, max, SPN_UNBOUNDED), SPN_UNBOUNDED);
}

static inline void bed_close(struct bed *b)
{
    pool_close(b->pool);
    CHECK_OK(spn_queue_destroy(b->queue));
}

#endif /* POOLS_H */
