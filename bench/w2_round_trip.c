/* SPDX-License-Identifier: MIT */
/*
 * W2 - submit one task and wait for its answer; pool_load.h tells the work.
 *
 * Whoever sleeps at once has two gaits: with both threads on one CPU the kernel
 * switches between them, on two every hand-over is an interrupt and the way out of
 * the idle state.  Pinned, caller and worker are on two.  In TBB's groups
 * the waiter may run the task itself.
 */
#include "bench.h"
#include "pair.h"
#include "pool_peers.h"

/* The floor: two threads that look at two words all the time.  On one CPU they must
 * take turns soon, until the kernel has moved one of them. */

struct spin {
    struct word call, answer; /* the last round, and its answer with it */
    uint32_t round;
};

static inline void give_way(int *spins)
{
    if (++*spins % 64 == 0)
        sched_yield();
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void answer_all(void *arg)
{
    struct spin *s = arg;
    uint32_t seen = 0;
    int spins = 0;

    for (;;) {
        const uint32_t call =
            atomic_load_explicit(&s->call.value, memory_order_acquire);

        if (call == UINT32_MAX)
            return;
        if (call != seen) {
            seen = call;
            atomic_store_explicit(&s->answer.value, call, memory_order_release);
            spins = 0;
        } else {
            give_way(&spins);
        }
    }
}

static uint64_t spin_ask(void *arg, uint64_t count)
{
    struct spin *s = arg;

    for (uint64_t i = 0; i < count; i++) {
        int spins = 0;

        atomic_store_explicit(&s->call.value, ++s->round, memory_order_release);
        while (atomic_load_explicit(&s->answer.value, memory_order_acquire) != s->round)
            give_way(&spins);
    }
    return count * POOL_ANSWER;
}

static void run_floor(struct bench *b)
{
    static struct spin s;
    struct bench_thread *thread = bench_thread_start(b, answer_all, &s);

    pool_ask_loop(b, spin_ask, &s);
    atomic_store(&s.call.value, UINT32_MAX);
    bench_thread_join(thread);
}

BENCH_WORKLOAD(w2) = {
    .name = "W2",
    .question = "What does it cost to have one task run and to get its answer?",
    .metric = "ns_per_round_trip",
    .variants = { { .name = "1w" },
                  { .name = "1w-pinned", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle",
                    .run = pool_round_trip,
                    .object = &pool_spindle,
                    .detail = "submit, get and unref, with the default queue" },
                  { .name = "spindle-lanes",
                    .run = pool_round_trip,
                    .object = &pool_spindle_lanes,
                    .detail = "the same with SPN_POOL_LANES" },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "two threads that spin on a word each" },
                  POOL_PEERS(pool_round_trip) },
};
