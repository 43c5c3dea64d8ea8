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

/* An item in a heap. */
struct spn__kept {
    void *item;
    uint64_t serial; /* of equal ones the one that came first is less */
    int64_t due_ns;  /* delay queues only */
};

struct spn__kept_node {
    struct spn__list_node link;
    void *item;
    struct spn__hand *owner; /* transfer: the producer that waits for its taker */
};

struct spn__store {
    const spn_queue *queue; /* for compare and due */
    size_t count;
    size_t cell_count; /* array, heap: allocated */
    /* array */
    void **slots;
    size_t first; /* index of the head */
    /* heap */
    struct spn__kept *cells;
    uint64_t next_serial;
    /* list */
    struct spn__list nodes;
    struct spn__kept_node *spare; /* free nodes, linked through link.next */
    size_t spare_count;
};

/* Bytes that push wants when it answered false. */
size_t spn__store_wants(const struct spn__store *s);

/* array: `slots` is allocated at create and never grows. */
bool spn__array_push(struct spn__store *s, void *item);
void *spn__array_pop(struct spn__store *s);
void *spn__array_peek(const struct spn__store *s);
void spn__array_walk(struct spn__store *s, spn_queue_visit_fn visit, void *ctx);

/* heap: the least by `less` is first. */
typedef bool (*spn__less_fn)(const struct spn__store *s, const struct spn__kept *a,
                             const struct spn__kept *b);
bool spn__heap_push(struct spn__store *s, struct spn__kept kept, spn__less_fn less,
                    void **memory, size_t bytes);
struct spn__kept spn__heap_pop(struct spn__store *s, spn__less_fn less);
void spn__heap_walk(struct spn__store *s, spn__less_fn less, spn_queue_visit_fn visit,
                    void *ctx);

/* list */
bool spn__list_store_push(struct spn__store *s, void *item, enum spn__end end,
                          struct spn__hand *owner, void **memory);
void spn__list_store_remove(struct spn__store *s, struct spn__kept_node *node);
struct spn__kept_node *spn__list_store_at(const struct spn__store *s,
                                          enum spn__end end);
void spn__list_store_free(struct spn__store *s);

#endif /* SPN__STORE_H */
