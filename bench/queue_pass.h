/* SPDX-License-Identifier: MIT */
/*
 * queue_pass.h - items from producers to consumers, the same way for every queue.
 *
 * THE WORK
 *   An item is a pointer into a table that nobody writes to.  Producer p of P
 *   sends the entries p, p + P, p + 2P and so on, round and round the table; a
 *   consumer reads the entry it got and counts it.  At the end every entry must
 *   have arrived exactly as often as it was sent.  Each thread handles its share
 *   of the items and leaves: no item stands for the end.  The programs in
 *   bench/peers do the same in their languages, so no peer pays for making items.
 *
 * THE TIME
 *   From the earliest first put to the latest last take, by the clock of the
 *   threads that do it.  Starting threads is not in it, and the main thread
 *   sleeps meanwhile.  One pass over the same queue, a fifth as long, warms up;
 *   programs that compile while they run warm up until they have compiled.
 *
 * A queue gives its loops with PASS_LOOPS, so that what is inline stays inline.
 * For C and C++.
 */
#ifndef QUEUE_PASS_H
#define QUEUE_PASS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench;

enum {
    PASS_CAPACITY = 1024,
    PASS_BATCH = 16,
    PASS_SLOTS = 2048 /* more than are ever under way: an item is in at most once */
};

struct pass_item {
    uint64_t slot;
};
extern struct pass_item pass_items[PASS_SLOTS];

/* What one thread has to do. */
struct pass_lane {
    void *queue;
    uint64_t count;        /* items to put or to take                     */
    uint32_t slot, stride; /* a producer's first entry, and its next      */
    uint32_t *seen;        /* a consumer's: how often each entry came     */
};

struct pass_queue {
    void *(*create)(void); /* NULL: failed */
    void (*destroy)(void *queue);
    void (*produce)(struct pass_lane *lane);
    void (*consume)(struct pass_lane *lane);
    void (*produce_many)(struct pass_lane *lane); /* in batches; NULL: it cannot */
    void (*consume_many)(struct pass_lane *lane);
};

/* Defines id_produce and id_consume.  put_item and take_item are statements that
 * use `queue`, of the given type, and `item`, a void pointer. */
#define PASS_LOOPS(id, type, put_item, take_item)             \
    static void id##_produce(struct pass_lane *lane)          \
    {                                                         \
        type *const queue = (type *)lane->queue;              \
        uint32_t slot = lane->slot;                           \
                                                              \
        for (uint64_t left = lane->count; left > 0; left--) { \
            void *const item = &pass_items[slot];             \
                                                              \
            put_item;                                         \
            slot = (slot + lane->stride) % PASS_SLOTS;        \
        }                                                     \
    }                                                         \
    static void id##_consume(struct pass_lane *lane)          \
    {                                                         \
        type *const queue = (type *)lane->queue;              \
                                                              \
        for (uint64_t left = lane->count; left > 0; left--) { \
            void *item = NULL;                                \
                                                              \
            take_item;                                        \
            lane->seen[((struct pass_item *)item)->slot]++;   \
        }                                                     \
    }                                                         \
    struct pass_lane /* takes the semicolon */

/* The same in batches.  put_items puts the `count` pointers of `items`, a whole
 * batch; take_items stores up to `count` and sets `count` to how many. */
#define PASS_BATCH_LOOPS(id, type, put_items, take_items)                 \
    static void id##_produce_many(struct pass_lane *lane)                 \
    {                                                                     \
        type *const queue = (type *)lane->queue;                          \
        uint32_t slot = lane->slot;                                       \
                                                                          \
        for (uint64_t left = lane->count; left > 0; left -= PASS_BATCH) { \
            const size_t count = PASS_BATCH;                              \
            void *items[PASS_BATCH];                                      \
                                                                          \
            for (size_t i = 0; i < count; i++) {                          \
                items[i] = &pass_items[slot];                             \
                slot = (slot + lane->stride) % PASS_SLOTS;                \
            }                                                             \
            put_items;                                                    \
        }                                                                 \
    }                                                                     \
    static void id##_consume_many(struct pass_lane *lane)                 \
    {                                                                     \
        type *const queue = (type *)lane->queue;                          \
                                                                          \
        for (uint64_t left = lane->count; left > 0;) {                    \
            size_t count = left < PASS_BATCH ? (size_t)left : PASS_BATCH; \
            void *items[PASS_BATCH];                                      \
                                                                          \
            take_items;                                                   \
            for (size_t i = 0; i < count; i++)                            \
                lane->seen[((struct pass_item *)items[i])->slot]++;       \
            left -= count;                                                \
        }                                                                 \
    }                                                                     \
    struct pass_lane /* takes the semicolon */

/* What a workload passes: how many items, and the metric it reports (and
 * cpu_<metric>).  The variant says the rest: "2x2…" is two producers and two
 * consumers, all others one and one; "…-batch16" is in batches. */
struct pass_work {
    const char *metric;
    uint64_t items;
};

void pass_run(struct bench *b, const struct pass_queue *queue,
              const struct pass_work *work);

/* The same by a program of bench/peers, and does not return.  `command` is what
 * starts it, up to a NULL; `kind` names the queue to it; `places` says that it can
 * bind its threads to CPUs. */
void pass_exec(struct bench *b, const char *const command[], const char *kind,
               const struct pass_work *work, int places);

#ifdef __cplusplus
}
#endif
#endif /* QUEUE_PASS_H */
