/* SPDX-License-Identifier: MIT */
/*
 * Q2 - items from hand to hand: put returns when take has the item.
 *
 * A hand-off needs both threads at once.  Who sleeps at each pays for two
 * wake-ups; who spins until the other comes pays for a few cache misses, but only
 * where both have a CPU.
 */
#include <spindle.h>

#include "bench.h"
#include "pair.h"
#include "queue_pass.h"
#include "queue_peers.h"

#define HAND_OFFS 100000

static const struct pass_work q2_work = { "ns_per_handoff", HAND_OFFS };

/* ---- spindle ------------------------------------------------------------ */

static inline void spindle_put(spn_queue *queue, void *item)
{
    if (spn_queue_put(queue, item, SPN_FOREVER) != SPN_OK)
        _exit(1);
}
static inline void *spindle_take(spn_queue *queue)
{
    void *item;

    if (spn_queue_take(queue, &item, SPN_FOREVER) != SPN_OK)
        _exit(1);
    return item;
}

PASS_LOOPS(spindle, spn_queue, spindle_put(queue, item), item = spindle_take(queue));

static void *create_with(uint32_t fair)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *queue;

    opts.fair = fair;
    return spn_queue_create(&queue, SPN_QUEUE_SYNCHRONOUS, &opts) == SPN_OK ? queue
                                                                            : NULL;
}
static void *create_unfair(void)
{
    return create_with(0);
}
static void *create_fair(void)
{
    return create_with(1);
}
static void spindle_destroy(void *queue)
{
    if (spn_queue_destroy(queue) != SPN_OK)
        _exit(1);
}

static void run_spindle(struct bench *b)
{
    static const struct pass_queue unfair = { .create = create_unfair,
                                              .destroy = spindle_destroy,
                                              .produce = spindle_produce,
                                              .consume = spindle_consume };

    pass_run(b, &unfair, &q2_work);
}
static void run_spindle_fair(struct bench *b)
{
    static const struct pass_queue fair = { .create = create_fair,
                                            .destroy = spindle_destroy,
                                            .produce = spindle_produce,
                                            .consume = spindle_consume };

    pass_run(b, &fair, &q2_work);
}

/* ---- floor ---------------------------------------------------------------- */

struct hands {
    struct word full; /* 1: the item is there, 0: it was taken */
    void *item;
};

static inline void hands_put(struct hands *h, void *item)
{
    h->item = item;
    futex_set(&h->full.value, 1);
    futex_wait_while(&h->full.value, 1);
}

static inline void *hands_take(struct hands *h)
{
    void *item;

    futex_wait_while(&h->full.value, 0);
    item = h->item;
    futex_set(&h->full.value, 0);
    return item;
}

PASS_LOOPS(hands, struct hands, hands_put(queue, item), item = hands_take(queue));

static void *hands_create(void)
{
    static struct hands hands;

    return &hands;
}

static void run_floor(struct bench *b)
{
    static const struct pass_queue hands = { .create = hands_create,
                                             .produce = hands_produce,
                                             .consume = hands_consume };

    pass_run(b, &hands, &q2_work);
}

/* ---- other languages ------------------------------------------------------------ */

#ifdef BENCH_JAVA
static void run_java(struct bench *b)
{
    pass_exec(b, JAVA_COMMAND, "synchronous", &q2_work, 0);
}
static void run_java_fair(struct bench *b)
{
    pass_exec(b, JAVA_COMMAND, "synchronous-fair", &q2_work, 0);
}
#endif

#ifdef BENCH_GO
static void run_go(struct bench *b)
{
    pass_exec(b, GO_COMMAND, "0", &q2_work, 0);
}
#endif

#ifdef BENCH_CROSSBEAM
static void run_crossbeam(struct bench *b)
{
    pass_exec(b, CROSSBEAM_COMMAND, "0", &q2_work, 1);
}
#endif

BENCH_WORKLOAD(q2) = {
    .name = "Q2",
    .question = "What does it cost to hand an item to a thread that takes it?",
    .metric = "ns_per_handoff",
    .variants = { { .name = "1x1" },
                  { .name = "1x1-pinned", .pinned = true, .cpus = 2 } },
    .subjects = { { .name = "spindle",
                    .run = run_spindle,
                    .detail = "the synchronous queue" },
                  { .name = "spindle-fair", .run = run_spindle_fair },
                  { .name = "floor",
                    .run = run_floor,
                    .detail = "a word and the bare futex, there and back" },
                  { .name = "java SynchronousQ", JAVA_RUN(run_java) },
                  { .name = "java SynchronousQ fair", JAVA_RUN(run_java_fair) },
                  { .name = "go unbuffered",
                    GO_RUN(run_go),
                    .detail = "between goroutines" },
                  { .name = "crossbeam zero",
                    CROSSBEAM_RUN(run_crossbeam),
                    .detail = "Rust's crossbeam-channel, bounded(0)" } },
};
