/* SPDX-License-Identifier: MIT */
/*
 * W3 - a worker that has been idle for a millisecond gets a task; pool_load.h tells
 * the work.
 *
 * Free, the kernel often lets the worker run where its waker is about to sleep; a
 * worker that spins before it sleeps stays on the other CPU, and is further away.
 * Pinned, the two are on two CPUs always.
 */
#include "bench.h"
#include "pair.h"
#include "pool_peers.h"

/* The floor: one word, and the bare futex. */

struct bell {
    struct word rung; /* 0 none, 1 a body waits, 2 leave */
    pool_body body;   /* published by rung               */
};

static void answer_bell(void *arg)
{
    struct bell *bell = arg;

    for (;;) {
        futex_wait_while(&bell->rung.value, 0);
        if (atomic_load_explicit(&bell->rung.value, memory_order_acquire) == 2)
            return;
        atomic_store_explicit(&bell->rung.value, 0, memory_order_relaxed);
        bell->body();
    }
}

static void ring(void *arg, pool_body body)
{
    struct bell *bell = arg;

    bell->body = body;
    futex_set(&bell->rung.value, 1);
}

static void run_floor(struct bench *b)
{
    static struct bell bell;
    struct bench_thread *thread = bench_thread_start(b, answer_bell, &bell);

    pool_wake_loop(b, ring, NULL, &bell);
    futex_set(&bell.rung.value, 2);
    bench_thread_join(thread);
}

BENCH_WORKLOAD(w3) = {
    .name = "W3",
    .question = "How long does a worker that is asleep take to start a task?",
    .metric = "p50_ns",
    .variants = { { .name = "1w" },
                  { .name = "1w-pinned", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle",
                    .run = pool_wake,
                    .object = &pool_spindle,
                    .detail = "the default queue, execute" },
                  { .name = "spindle-lanes",
                    .run = pool_wake,
                    .object = &pool_spindle_lanes,
                    .detail = "SPN_POOL_LANES, call" },
                  { .name = "floor", .run = run_floor, .detail = "the bare futex" },
                  POOL_PEERS(pool_wake) },
};
