/* SPDX-License-Identifier: MIT */
#ifndef SPN_QUEUE_H
#define SPN_QUEUE_H

#include <spindle/clock.h>
#include <spindle/status.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Blocking queues: one interface, eight kinds.
 *
 *               error          answer       blocks        blocks up to a time
 *   insert      add            offer        put           offer_timed
 *   remove      remove         poll         take          poll_timed
 *   examine     element        peek
 *
 * Items       opaque pointers, never NULL, never followed and never freed by
 *             the queue (but see `drop`).  Each item put in comes out once.
 * Threads     every call is safe from any thread.  The blocking and timed
 *             calls are interruptible: SPN_EINTR, and the queue is as before.
 * Close       a closed queue takes nothing in and gives out what it has.
 * Orders      what precedes an insert happens-before what follows the removal
 *             of that item.
 */
typedef struct spn_queue spn_queue;

typedef enum spn_queue_kind {
    SPN_QUEUE_LINKED = 1,      /* FIFO; a lock at each end; bounded or not      */
    SPN_QUEUE_ARRAY = 2,       /* FIFO, bounded, may be fair                    */
    SPN_QUEUE_RING = 3,        /* FIFO, bounded, the fastest: see spn_queue_create */
    SPN_QUEUE_PRIORITY = 4,    /* least first by `compare`; unbounded           */
    SPN_QUEUE_DELAY = 5,       /* an item can be taken when it is due; unbounded */
    SPN_QUEUE_SYNCHRONOUS = 6, /* no room at all: hand to hand; may be fair     */
    SPN_QUEUE_TRANSFER = 7,    /* FIFO, unbounded; a producer may wait for its taker */
    SPN_QUEUE_DEQUE = 8        /* both ends; bounded or not                     */
} spn_queue_kind;

/* Negative, zero or positive, as for qsort.  Called with the queue's lock held:
 * it must not call the queue. */
typedef int (*spn_queue_compare_fn)(const void *a, const void *b, void *ctx);
/* When an item is due, on the queue's clock.  Asked once, by the insert. */
typedef int64_t (*spn_queue_due_fn)(const void *item, void *ctx);
/* Non-zero if the two are the same to `contains` and `remove_item`.  Called with
 * the queue's lock held, as compare is. */
typedef int (*spn_queue_equal_fn)(const void *a, const void *b, void *ctx);
/* Takes an item the queue lets go of without giving it to anybody. */
typedef void (*spn_queue_drop_fn)(void *item, void *ctx);

/* Zero means default; where 0 is a value, SPN_DEFAULT does.  Append only. */
typedef struct spn_queue_opts {
    size_t size;      /* sizeof(spn_queue_opts), set by _INIT                      */
    int32_t capacity; /* at least 1.  SPN_DEFAULT: unbounded; array and ring want
                         a number.  Others but linked and deque take none          */
    uint32_t fair;    /* 1, array and synchronous: waiters in order of arrival      */
    spn_queue_compare_fn compare; /* priority: required                            */
    spn_queue_due_fn due;         /* delay: required                               */
    spn_queue_equal_fn equal;     /* NULL: the same pointer                        */
    spn_queue_drop_fn drop;       /* by clear and destroy, no lock held; NULL: none */
    void *ctx;                    /* for the four functions                        */
    spn_clock *clock;             /* delay: NULL is the monotonic clock; borrowed  */
    /* Synchronous and transfer: how often a thread looks for the other side before
     * it sleeps.  0: 32 times in a timed wait, 512 in one without a limit, and not
     * at all where the process has one CPU.  -1: it sleeps at once. */
    int32_t spins_timed;
    int32_t spins_untimed;
} spn_queue_opts;

#define SPN_QUEUE_OPTS_INIT                                                            \
    {                                                                                  \
        sizeof(spn_queue_opts), SPN_DEFAULT, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, \
            0                                                                          \
    }

/* ---- life -------------------------------------------------------------- */

/*
 * Creates a queue in *out; on failure *out is NULL.  opts may be NULL where
 * nothing is required.  A ring's capacity is rounded up to a power of two; it
 * has no removal from inside, no iteration and no search (SPN_ENOTSUP).
 *
 * Returns  SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_create(spn_queue **out, spn_queue_kind kind, const spn_queue_opts *opts);

/*
 * Frees the queue and drops what is in it; NULL is a no-op.  No other call on
 * the queue may be under way but waits, and those it refuses.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing while a thread waits on it.
 * Since    0.1
 */
SPN_API int spn_queue_destroy(spn_queue *queue);

/*
 * Refuses every insert from now on and releases everybody who waits for room,
 * for an item or for a taker, with SPN_ECLOSED; items in the queue can still be
 * taken.  Closing twice is the same as once.  Never blocks.
 * Returns  SPN_OK, SPN_EINVAL.
 * Orders   what precedes close happens-before the SPN_ECLOSED it causes.
 * Since    0.1
 */
SPN_API int spn_queue_close(spn_queue *queue);
SPN_API int spn_queue_is_closed(const spn_queue *queue); /* 1, 0, SPN_EINVAL */

/* ---- one item ---------------------------------------------------------- */

/*
 * add: SPN_OK or SPN_EFULL.  offer: 1, or 0 when full.  Neither blocks.
 * put: blocks until there is room.  offer_timed: up to timeout_ns.
 *
 * Returns  also SPN_EINVAL (NULL), SPN_ECLOSED, SPN_ENOMEM; put and offer_timed
 *          SPN_EINTR, offer_timed SPN_ETIMEDOUT.  On error the item is the
 *          caller's as before.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_add(spn_queue *queue, void *item);
SPN_API SPN_NODISCARD
int spn_queue_offer(spn_queue *queue, void *item);
SPN_API SPN_NODISCARD
int spn_queue_put(spn_queue *queue, void *item);
SPN_API SPN_NODISCARD
int spn_queue_offer_timed(spn_queue *queue, void *item, int64_t timeout_ns);

/*
 * remove: the head in *item, or SPN_EEMPTY.  poll: the head, or NULL.  Neither
 * blocks.  take: blocks until there is an item.  poll_timed: up to timeout_ns.
 *
 * Returns  SPN_OK, SPN_EEMPTY (remove), SPN_EINVAL; take and poll_timed also
 *          SPN_EINTR, SPN_ECLOSED (closed and empty), SPN_ENOMEM; poll_timed
 *          SPN_ETIMEDOUT.  On error *item is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_remove(spn_queue *queue, void **item);
SPN_API void *spn_queue_poll(spn_queue *queue);
SPN_API SPN_NODISCARD
int spn_queue_take(spn_queue *queue, void **item);
SPN_API SPN_NODISCARD
int spn_queue_poll_timed(spn_queue *queue, void **item, int64_t timeout_ns);

/*
 * The head, which stays: element in *item or SPN_EEMPTY, peek or NULL.  By the
 * time it is returned another thread may have taken it.  Never blocks.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_element(spn_queue *queue, void **item);
SPN_API void *spn_queue_peek(spn_queue *queue);

/* ---- several items ----------------------------------------------------- */

/*
 * put_many: inserts `count` items in order, waiting for room up to timeout_ns
 * in all.  Stores in *done (may be NULL) how many went in: those before it are
 * the queue's, the rest the caller's.
 * take_many: waits up to timeout_ns for one item, then takes what is there, at
 * most `capacity`, and stores how many in *count.
 * Both take the queue's lock once for many items where they can.
 *
 * Returns  SPN_OK (put_many: all went in; take_many: at least one), or as
 *          offer_timed and poll_timed.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_put_many(spn_queue *queue, void *const *items, size_t count,
                       int64_t timeout_ns, size_t *done);
SPN_API SPN_NODISCARD
int spn_queue_take_many(spn_queue *queue, void **items, size_t capacity,
                        int64_t timeout_ns, size_t *count);

/*
 * add_all: inserts without blocking, in order, until one does not fit.
 * Returns  SPN_OK, SPN_EFULL (with what fitted inserted and counted in *done,
 *          which may be NULL), SPN_EINVAL (NULL, or a NULL among the items:
 *          nothing is inserted), SPN_ECLOSED, SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_add_all(spn_queue *queue, void *const *items, size_t count, size_t *done);

/*
 * drain: takes what can be taken now, in order, at most `capacity` items, into
 * an array.  drain_to: moves up to `max` items into another queue without
 * blocking; an item the sink refuses stays where it was.  Neither blocks.
 *
 * Returns  drain: how many, or SPN_EINVAL.
 *          drain_to: SPN_OK, SPN_EFULL, SPN_ECLOSED or SPN_ENOMEM (of the
 *          sink), SPN_EINVAL (NULL or the same queue), SPN_ENOTSUP (from a ring);
 *          how many in *moved (may be NULL).  max <= 0 moves nothing.
 * Since    0.1
 */
SPN_API int64_t spn_queue_drain(spn_queue *queue, void **items, size_t capacity);
SPN_API SPN_NODISCARD
int spn_queue_drain_to(spn_queue *queue, spn_queue *sink, int64_t max, int64_t *moved);

/* ---- looking inside ---------------------------------------------------- */

/*
 * size: items in the queue now.  capacity and remaining: INT32_MAX when
 * unbounded.  All may be out of date when they arrive.
 * Returns  the number, or SPN_EINVAL.
 * Since    0.1
 */
SPN_API int64_t spn_queue_size(const spn_queue *queue);
SPN_API int32_t spn_queue_capacity(const spn_queue *queue);
SPN_API int32_t spn_queue_remaining(const spn_queue *queue);
SPN_API int spn_queue_kind_of(const spn_queue *queue);

/*
 * contains: whether the item is in the queue.  remove_item: takes out its first
 * occurrence and gives it back to the caller.  NULL is in no queue.
 * Returns  1, 0, SPN_EINVAL (queue NULL), SPN_ENOTSUP (ring).
 * Since    0.1
 */
SPN_API int spn_queue_contains(const spn_queue *queue, const void *item);
SPN_API int spn_queue_remove_item(spn_queue *queue, const void *item);

/*
 * contains_all: 1 if each is in the queue.  remove_all: takes out all that equal
 * one of the items; retain_all: all that equal none.  What they take out is
 * dropped.
 * Returns  1 (changed), 0, SPN_EINVAL, SPN_ENOTSUP (ring).
 * Since    0.1
 */
SPN_API int spn_queue_contains_all(const spn_queue *queue, void *const *items,
                                   size_t count);
SPN_API int spn_queue_remove_all(spn_queue *queue, void *const *items, size_t count);
SPN_API int spn_queue_retain_all(spn_queue *queue, void *const *items, size_t count);

/* Takes everything out and drops it.  Returns how many, or SPN_EINVAL.  Since 0.1 */
SPN_API int64_t spn_queue_clear(spn_queue *queue);

/*
 * Copies the items in the order of iteration into an array; if there is room
 * for one more, a NULL follows the last.
 * Returns  how many items the queue has: more than `capacity` says that only the
 *          first `capacity` were stored.  SPN_EINVAL, SPN_ENOTSUP (ring).
 * Since    0.1
 */
SPN_API int64_t spn_queue_to_array(const spn_queue *queue, void **items,
                                   size_t capacity);

/*
 * Iteration over what was in the queue at some moment: never fails because the
 * queue changes meanwhile and never shows an item twice.  An item it shows may
 * have been taken by another thread by then: compare it, but follow it only if
 * something else keeps it alive.
 *
 * begin: returns SPN_OK, SPN_EINVAL, SPN_ENOMEM, SPN_ENOTSUP (ring).
 * next: SPN_OK and *item; SPN_EEMPTY at the end, again and again.
 * remove: takes out the item shown last, which is the caller's then: SPN_OK;
 * SPN_EEMPTY if it is gone already; SPN_ESTATE before the first next, twice, or on a synchronous queue.
 * end: frees the iterator; NULL is a no-op.  End it before the queue is
 * destroyed.  An iterator belongs to one thread.
 * Since    0.1
 */
typedef struct spn_queue_iter spn_queue_iter;
SPN_API SPN_NODISCARD
int spn_queue_iter_begin(spn_queue_iter **out, spn_queue *queue);
SPN_API SPN_NODISCARD /* deque only: from the last to the first; else SPN_ENOTSUP */
int spn_queue_iter_begin_descending(spn_queue_iter **out, spn_queue *queue);
SPN_API SPN_NODISCARD
int spn_queue_iter_next(spn_queue_iter *iter, void **item);
SPN_API int spn_queue_iter_remove(spn_queue_iter *iter);
SPN_API void spn_queue_iter_end(spn_queue_iter *iter);

/* ---- deque: the other end ------------------------------------------------ */

/*
 * As put, take and the rest, at the end they name: the plain forms insert at
 * the last and remove at the first.  SPN_ENOTSUP (poll, peek: NULL) on a queue
 * that is no deque.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_add_first(spn_queue *queue, void *item);
SPN_API SPN_NODISCARD
int spn_queue_offer_first(spn_queue *queue, void *item);
SPN_API SPN_NODISCARD
int spn_queue_put_first(spn_queue *queue, void *item);
SPN_API SPN_NODISCARD
int spn_queue_offer_first_timed(spn_queue *queue, void *item, int64_t timeout_ns);
SPN_API SPN_NODISCARD
int spn_queue_remove_last(spn_queue *queue, void **item);
SPN_API void *spn_queue_poll_last(spn_queue *queue);
SPN_API SPN_NODISCARD
int spn_queue_take_last(spn_queue *queue, void **item);
SPN_API SPN_NODISCARD
int spn_queue_poll_last_timed(spn_queue *queue, void **item, int64_t timeout_ns);
SPN_API SPN_NODISCARD
int spn_queue_element_last(spn_queue *queue, void **item);
SPN_API void *spn_queue_peek_last(spn_queue *queue);
SPN_API int spn_queue_remove_last_item(spn_queue *queue, const void *item);

/* ---- transfer: waiting for the taker ------------------------------------- */

/*
 * transfer: inserts and waits until a consumer has the item.  try_transfer:
 * hands it to a consumer that waits already, or does nothing.
 * try_transfer_timed: inserts, waits up to timeout_ns, and withdraws it then.
 * On an error or a time-out the item is the caller's again.
 *
 * Returns  SPN_OK; try_transfer SPN_EEMPTY (nobody waits); SPN_ETIMEDOUT,
 *          SPN_EINTR, SPN_ECLOSED, SPN_EINVAL, SPN_ENOMEM; SPN_ENOTSUP on a
 *          queue that is no transfer queue.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_transfer(spn_queue *queue, void *item);
SPN_API SPN_NODISCARD
int spn_queue_try_transfer(spn_queue *queue, void *item);
SPN_API SPN_NODISCARD
int spn_queue_try_transfer_timed(spn_queue *queue, void *item, int64_t timeout_ns);

/* Consumers that wait for an item now, in any queue; SPN_EINVAL for NULL.
 * Since 0.1 */
SPN_API int32_t spn_queue_waiting_consumers(const spn_queue *queue);

#ifdef __cplusplus
}
#endif
#endif /* SPN_QUEUE_H */
