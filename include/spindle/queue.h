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
 *   in    put         out   take        look   peek, contains, walk
 *         transfer          remove_item
 *
 * Waiting     a call with `timeout_ns` waits as long for room, for an item or for
 *             a taker; 0 or less: not at all; SPN_FOREVER: without limit.  A call
 *             that does not wait answers SPN_EFULL or SPN_EEMPTY, one whose time
 *             has passed SPN_ETIMEDOUT.
 * Items       opaque pointers, never NULL, never followed and never freed by
 *             the queue (but see `drop`).  Each item put in comes out once.
 * Threads     every call is safe from any thread.  A call that may wait is
 *             interruptible: SPN_EINTR, and the queue is as before.
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

/* What a walk does with the item it shows. */
enum {
    SPN_QUEUE_KEEP = 0,
    SPN_QUEUE_TAKE = 1, /* out of the queue; it is the visitor's now */
    SPN_QUEUE_STOP = 2  /* show no more; may be or-ed to the others  */
};
typedef int (*spn_queue_visit_fn)(void *item, void *ctx);

/* Zero means default; where 0 is a value, SPN_DEFAULT does.  Append only. */
typedef struct spn_queue_opts {
    size_t size;      /* sizeof(spn_queue_opts), set by _INIT                      */
    int32_t capacity; /* at least 1.  SPN_DEFAULT: unbounded; array and ring want
                         a number.  Others but linked and deque take none          */
    uint32_t fair;    /* 1, array and synchronous: waiters in order of arrival      */
    spn_queue_compare_fn compare; /* priority: required                            */
    spn_queue_due_fn due;         /* delay: required                               */
    spn_queue_equal_fn equal;     /* NULL: the same pointer                        */
    spn_queue_drop_fn drop;       /* by destroy, no lock held; NULL: none           */
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
 * has no search, no walk and no removal from inside (SPN_ENOTSUP).
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

/* ---- one item ---------------------------------------------------------- */

/*
 * put: inserts at the last, put_first at the first of a deque, as soon as there
 * is room.
 *
 * Returns  SPN_OK, SPN_EFULL (did not wait), SPN_ETIMEDOUT, SPN_EINTR,
 *          SPN_ECLOSED, SPN_EINVAL (NULL), SPN_ENOMEM; put_first SPN_ENOTSUP on
 *          a queue that is no deque.  On error the item is the caller's as before.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_put(spn_queue *queue, void *item, int64_t timeout_ns);
SPN_API SPN_NODISCARD
int spn_queue_put_first(spn_queue *queue, void *item, int64_t timeout_ns);

/*
 * take: removes the first, take_last the last of a deque, as soon as there is one.
 *
 * Returns  SPN_OK, SPN_EEMPTY (did not wait), SPN_ETIMEDOUT, SPN_EINTR,
 *          SPN_ECLOSED (closed, and nothing is left), SPN_EINVAL, SPN_ENOMEM;
 *          take_last SPN_ENOTSUP on a queue that is no deque.  On error *item is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_take(spn_queue *queue, void **item, int64_t timeout_ns);
SPN_API SPN_NODISCARD
int spn_queue_take_last(spn_queue *queue, void **item, int64_t timeout_ns);

/*
 * Inserts and waits until a consumer has the item.  A call that does not wait
 * hands it to a consumer that waits already, or does nothing.  On an error the
 * item is the caller's again.
 *
 * Returns  as put; SPN_EFULL: nobody waits for it.  SPN_ENOTSUP on a queue that
 *          is no transfer queue.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_transfer(spn_queue *queue, void *item, int64_t timeout_ns);

/*
 * The first item (peek_last: the last of a deque), which stays.  By the time it is
 * returned another thread may have taken it.  Never blocks.
 * Returns  SPN_OK, SPN_EEMPTY, SPN_EINVAL, SPN_ENOTSUP.  On error *item is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_peek(spn_queue *queue, void **item);
SPN_API SPN_NODISCARD
int spn_queue_peek_last(spn_queue *queue, void **item);

/* ---- several items ----------------------------------------------------- */

/*
 * put_many: inserts `count` items in order, waiting for room up to timeout_ns
 * in all.  Stores in *done (may be NULL) how many went in: those before it are
 * the queue's, the rest the caller's.  None goes in if one of them is NULL.
 * take_many: waits up to timeout_ns for one item, then takes what is there, at
 * most `capacity`, and stores how many in *count.
 * Both take the queue's lock once for many items where they can.
 *
 * Returns  SPN_OK (put_many: all went in; take_many: at least one), or as put
 *          and take.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_queue_put_many(spn_queue *queue, void *const *items, size_t count,
                       int64_t timeout_ns, size_t *done);
SPN_API SPN_NODISCARD
int spn_queue_take_many(spn_queue *queue, void **items, size_t capacity,
                        int64_t timeout_ns, size_t *count);

/* ---- looking inside ---------------------------------------------------- */

/*
 * size: items in the queue now.  capacity: INT32_MAX when unbounded, 0 for a
 * synchronous queue.  waiting_consumers: threads that wait for an item now.  All
 * may be out of date when they arrive.
 * Returns  the number, or SPN_EINVAL.
 * Since    0.1
 */
SPN_API int64_t spn_queue_size(const spn_queue *queue);
SPN_API int32_t spn_queue_capacity(const spn_queue *queue);
SPN_API int32_t spn_queue_waiting_consumers(const spn_queue *queue);

/*
 * contains: whether the item is in the queue.  remove_item: takes out its first
 * occurrence and gives it back to the caller.  NULL is in no queue.
 * Returns  SPN_OK, SPN_EEMPTY (it is not), SPN_EINVAL (queue NULL), SPN_ENOTSUP
 *          (ring).
 * Since    0.1
 */
SPN_API int spn_queue_contains(const spn_queue *queue, const void *item);
SPN_API int spn_queue_remove_item(spn_queue *queue, const void *item);

/*
 * Shows `visit` the items one after the other and does what it says of each:
 * SPN_QUEUE_KEEP, SPN_QUEUE_TAKE, SPN_QUEUE_STOP.  From the first to the last,
 * walk_last of a deque from the last to the first; priority and delay queues, in no
 * particular order, also what is not due.
 *
 * The queue is locked meanwhile: the items are those of one moment, and visit must
 * not call the queue, nor wait.  It may put what it takes into another queue
 * (timeout_ns 0, then SPN_QUEUE_TAKE), unless that one is walked into this one at the
 * same time: each walk would wait for the other.
 *
 * Returns  SPN_OK, SPN_EINVAL, SPN_ENOTSUP (ring; walk_last: no deque).
 * Since    0.1
 */
SPN_API int spn_queue_walk(spn_queue *queue, spn_queue_visit_fn visit, void *ctx);
SPN_API int spn_queue_walk_last(spn_queue *queue, spn_queue_visit_fn visit, void *ctx);

#ifdef __cplusplus
}
#endif
#endif /* SPN_QUEUE_H */
