/* SPDX-License-Identifier: MIT */
/*
 * executor_kinds.h - executors to run a suite over: what is written here holds for
 * all of them.
 *
 *     TEST(invoke_all__..., "AES-17")
 *     {
 *         struct kind k;
 *         EACH_KIND (k) {                 // opened and closed around the body
 *             CHECK_OK(spn_executor_invoke_all(k.executor, ...));
 *         }
 *     }
 *
 * `threads` starts a thread for every task: the plainest executor with which tasks
 * run at the same time, and made of nothing but the public interface.
 */
#ifndef EXECUTOR_KINDS_H
#define EXECUTOR_KINDS_H

#include <stdatomic.h>
#include <stdlib.h>

#include <spindle.h>
#include <spindle/pool.h>

#include "test.h"

/* ---- a thread for every task ----------------------------------------------------- */

struct threads_executor {
    spn_executor executor;
    atomic_int running; /* tasks not through yet */
    atomic_int tasks;   /* ever */
};

struct threads_start {
    struct threads_executor *on;
    spn_task *task;
};

static inline int threads_main(void *arg)
{
    const struct threads_start start = *(struct threads_start *)arg;

    free(arg);
    spn_task_release(start.task);
    (void)start.task->fn(start.task);
    atomic_fetch_sub(&start.on->running, 1);
    return 0;
}

static inline int threads_execute(spn_executor *executor, spn_task *task)
{
    struct threads_executor *t = (struct threads_executor *)(void *)executor;
    struct threads_start *start;
    spn_thread *thread;
    int rc = spn_task_claim(task);

    if (rc != SPN_OK)
        return rc;
    start = malloc(sizeof *start);
    REQUIRE(start != NULL);
    *start = (struct threads_start){ t, task };
    atomic_fetch_add(&t->running, 1);
    atomic_fetch_add(&t->tasks, 1);
    rc = spn_thread_create(&thread, NULL, threads_main, start);
    if (rc != SPN_OK) {
        atomic_fetch_sub(&t->running, 1);
        free(start);
        spn_task_release(task);
        return rc;
    }
    spn_thread_unref(thread);
    return SPN_OK;
}

static const spn_executor_ops threads_ops = { .size = sizeof threads_ops,
                                              .execute = threads_execute };

/* ---- the kinds --------------------------------------------------------------------- */

/* The pools have more threads than any test has tasks that wait for each other. */
enum kind_name {
    KIND_THREADS,
    KIND_FIFO,
    KIND_CACHED,
    KIND_LANES,
    KIND_STEALING,
    KIND_COUNT
};

struct kind {
    spn_executor *executor;
    spn_pool *pool;        /* or NULL */
    spn_fj_pool *stealing; /* or NULL */
    struct threads_executor threads;
    int at; /* kind_name */
    bool open;
};

static inline void kind_open(struct kind *k)
{
    spn_pool_opts opts = spn_pool_opts_fixed(8, -1);

    k->open = true;
    k->stealing = NULL;
    if (k->at == KIND_STEALING) {
        spn_fj_pool_opts fj = SPN_FJ_POOL_OPTS_INIT;

        fj.parallelism = 8;
        fj.async = 1;
        REQUIRE_OK(spn_fj_pool_create(&k->stealing, &fj));
        k->executor = spn_fj_pool_executor(k->stealing);
        k->pool = NULL;
        return;
    }
    if (k->at == KIND_THREADS) {
        k->threads.executor.ops = &threads_ops;
        atomic_init(&k->threads.running, 0);
        atomic_init(&k->threads.tasks, 0);
        k->executor = &k->threads.executor;
        k->pool = NULL;
        return;
    }
    if (k->at == KIND_LANES)
        opts.queue_kind = SPN_POOL_LANES;
    if (k->at == KIND_CACHED)
        opts = spn_pool_opts_cached(0, 64, 0, SPN_SEC(60));
    REQUIRE_OK(spn_pool_create(&k->pool, &opts));
    k->executor = spn_pool_executor(k->pool);
}

/* Waits until all its tasks are through. */
static inline void kind_close(struct kind *k)
{
    k->open = false;
    if (k->stealing != NULL) {
        CHECK_OK(spn_fj_pool_close(k->stealing));
        CHECK_OK(spn_fj_pool_destroy(k->stealing));
        return;
    }
    if (k->pool == NULL) {
        T_AWAIT(atomic_load(&k->threads.running) == 0);
        return;
    }
    CHECK_OK(spn_pool_close(k->pool));
    CHECK_OK(spn_pool_destroy(k->pool));
}

static inline bool kind_next(struct kind *k)
{
    if (k->open) {
        kind_close(k);
        k->at++;
    }
    if (k->at >= KIND_COUNT)
        return false;
    kind_open(k);
    return true;
}

#define EACH_KIND(k) for ((k).at = 0, (k).open = false; kind_next(&(k));)

#endif /* EXECUTOR_KINDS_H */
