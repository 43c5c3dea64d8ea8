/* SPDX-License-Identifier: MIT */
/*
 * store.h - where a monitor queue keeps its items: an array used in a circle, a
 * heap, or a list.  Plain data structures: the caller holds the lock.
 *
 * MEMORY  A store never allocates.  push answers false when it has no memory for
 *         one more; the caller gets `spn__store_wants` bytes without the lock
 *         and offers them with the next push, which may use them and may leave
 *         other memory in their place (an outgrown array) to be freed.
 */
#ifndef SPN__STORE_H
#define SPN__STORE_H

#include "queue/queue.h"

#include "base/list.h"

/* An item with what tells it from an equal one. */
struct spn__kept {
    void *item;
    uint64_t serial;
    int64_t due_ns; /* delay queues only */
};

struct spn__kept_node {
    struct spn__list_node link;
    struct spn__kept kept;
    struct spn__hand *owner; /* transfer: the producer that waits for its taker */
};

struct spn__store {
    const spn_queue *queue; /* for compare and due */
    uint64_t next_serial;
    size_t count;
    /* array, heap */
    struct spn__kept *cells;
    size_t cell_count; /* allocated */
    size_t first;      /* array: index of the head */
    /* list */
    struct spn__list nodes;
    struct spn__kept_node *spare; /* free nodes, linked through link.next */
    size_t spare_count;
};

/* Bytes that push wants when it answered false. */
size_t spn__store_wants(const struct spn__store *s);

/* array: `cells` is allocated at create and never grows. */
bool spn__array_push(struct spn__store *s, void *item);
void *spn__array_pop(struct spn__store *s);
void *spn__array_peek(const struct spn__store *s);
void spn__array_walk(struct spn__store *s, spn__walk_fn visit, void *ctx);

/* heap: the least by `less` is first. */
typedef bool (*spn__less_fn)(const struct spn__store *s, const struct spn__kept *a,
                             const struct spn__kept *b);
bool spn__heap_push(struct spn__store *s, struct spn__kept kept, spn__less_fn less,
                    void **memory, size_t bytes);
struct spn__kept spn__heap_pop(struct spn__store *s, spn__less_fn less);
void spn__heap_walk(struct spn__store *s, spn__less_fn less, spn__walk_fn visit,
                    void *ctx);

/* list */
bool spn__list_store_push(struct spn__store *s, void *item, enum spn__end end,
                          struct spn__hand *owner, void **memory);
void spn__list_store_remove(struct spn__store *s, struct spn__kept_node *node);
struct spn__kept_node *spn__list_store_at(const struct spn__store *s,
                                          enum spn__end end);
void spn__list_store_free(struct spn__store *s);

#endif /* SPN__STORE_H */
