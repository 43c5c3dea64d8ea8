/* SPDX-License-Identifier: MIT */
#ifndef SPN_WHEEL_H
#define SPN_WHEEL_H

#include <spindle/status.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A timing wheel as a plain data structure: it has no clock, no lock and no
 * thread.  Time is an argument, so an hour passes when the caller says so, and a
 * program that has a loop of its own drives it from there.  For timers that run by
 * themselves and may be used from any thread see spindle/timer.h.
 *
 *     spn_wheel_add(wheel, &request->node, now_ns + SPN_SEC(3));
 *     ...
 *     wait_for_events(spn_wheel_next_expiry(wheel));
 *     spn_wheel_advance_to(wheel, spn_now());
 *     while ((node = spn_wheel_take_due(wheel)) != NULL)
 *         give_up(request_of(node));
 *
 * Time        int64_t nanoseconds on whatever scale the caller has.  It is divided
 *             into ticks from the wheel's origin on; a node is due at the first
 *             tick boundary at or after its time: never early, less than a tick
 *             late.  SPN_FOREVER is due when the wheel is advanced to SPN_FOREVER.
 * Order       due nodes come out by tick, those of one tick in the order they were
 *             added.  (A hashed wheel advanced by more than a turn at once gives
 *             all that is due, but not sorted by tick.)
 * Cost        add and remove take constant time, whatever the number of nodes;
 *             a node is moved at most once per level.  Nothing allocates but create.
 * Threads     none of the calls may overlap on one wheel.
 * Ownership   nodes are the caller's, embedded in its own structs, and must stay
 *             where they are from add until taken or removed.
 */
typedef struct spn_wheel spn_wheel;
typedef struct spn_wheel_node spn_wheel_node;
typedef struct spn_wheel_link spn_wheel_link;

struct spn_wheel_link {
    spn_wheel_link *next, *prev;
};

/* All zero: in no wheel.  The fields are the wheel's while it has the node. */
struct spn_wheel_node {
    spn_wheel_link link;
    int64_t due_ns; /* as given to add; stays readable afterwards         */
    uint32_t place; /* 0: in no wheel; else which of its lists            */
    uint32_t spare; /* the caller's: the wheel neither reads nor writes it */
};

#define SPN_WHEEL_NODE_INIT      \
    {                            \
        { NULL, NULL }, 0, 0, 0, \
    }

typedef enum spn_wheel_layout {
    /* Levels of ever wider slots that overlap, so that nodes move down in small
     * batches before they are needed; each node is touched a few times in all. */
    SPN_WHEEL_HIERARCHICAL = 0,
    /* One level; a node further away than a turn stays in its slot for as many
     * rounds as it takes.  Every node of a slot is looked at once a turn. */
    SPN_WHEEL_HASHED = 1
} spn_wheel_layout;

/* Zero means default.  Append only. */
typedef struct spn_wheel_opts {
    size_t size;       /* sizeof(spn_wheel_opts), set by _INIT                    */
    int64_t tick_ns;   /* at least 1; 0: 1 ms                                     */
    int64_t origin_ns; /* the time it shows first, where ticks are counted from;
                          not negative                                            */
    uint32_t slots;    /* of each level, rounded up to a power of two, at most
                          SPN_WHEEL_SLOTS_MAX; 0: 512.  Hierarchical: at least 4  */
    uint32_t layout;   /* spn_wheel_layout                                        */
} spn_wheel_opts;

#define SPN_WHEEL_OPTS_INIT                 \
    {                                       \
        sizeof(spn_wheel_opts), 0, 0, 0, 0, \
    }

#define SPN_WHEEL_SLOTS_MAX (UINT32_C(1) << 30)

/*
 * create: makes an empty wheel and stores it in *out; on failure *out is NULL.
 *         opts may be NULL for all defaults.
 * destroy: frees it; NULL is a no-op.
 * Returns  create: SPN_OK; SPN_EINVAL (NULL out, bad opts, or a turn of slots *
 *          tick_ns, with slots rounded up, that does not fit int64_t); SPN_ENOMEM.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing while it has nodes.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_wheel_create(spn_wheel **out, const spn_wheel_opts *opts);
SPN_API int spn_wheel_destroy(spn_wheel *wheel);

/*
 * Adds a node that is due at due_ns; at once if that is not after the wheel's time.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL); SPN_EBUSY: it is in a wheel already.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_wheel_add(spn_wheel *wheel, spn_wheel_node *node, int64_t due_ns);

/*
 * Takes out a node, due or not; it can be used again at once.
 *
 * Returns  1 if it did, 0 if the node is in no wheel, SPN_EINVAL (a NULL).
 * Since    0.1
 */
SPN_API int spn_wheel_remove(spn_wheel *wheel, spn_wheel_node *node);

/*
 * Moves the wheel's time to now_ns and makes due what has become so; a time that
 * is not after the wheel's changes nothing.  Advancing to SPN_FOREVER makes due all
 * there is.
 *
 * Returns  SPN_OK, SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_wheel_advance_to(spn_wheel *wheel, int64_t now_ns);

/* Takes out the next node that is due, or NULL.  Since 0.1 */
SPN_API spn_wheel_node *spn_wheel_take_due(spn_wheel *wheel);

/*
 * When to call advance_to next: never later than the next node's tick, perhaps
 * earlier, when there is something to tidy up.  Not after the wheel's time if and
 * only if something is due; SPN_FOREVER if it has no node, or for NULL.
 * Since    0.1
 */
SPN_API int64_t spn_wheel_next_expiry(const spn_wheel *wheel);

/* How many nodes the wheel has, due ones included, or 0 for NULL.  Since 0.1 */
SPN_API size_t spn_wheel_count(const spn_wheel *wheel);

/* Where a node is. */
enum {
    SPN_WHEEL_NODE_OUT = 0,     /* in no wheel                                       */
    SPN_WHEEL_NODE_PENDING = 1, /* its time has not come                             */
    SPN_WHEEL_NODE_DUE = 2      /* its time has come, and it was not taken out       */
};

/* One of the above, or SPN_EINVAL for NULL.  Since 0.1 */
SPN_API int spn_wheel_node_state(const spn_wheel_node *node);

/*
 * Calls visit(node, ctx) for each node in the wheel, in no particular order; visit
 * may remove the node it is called with and must not change the wheel otherwise.
 *
 * Returns  SPN_OK, SPN_EINVAL (NULL wheel or visit).
 * Since    0.1
 */
typedef void (*spn_wheel_visit_fn)(spn_wheel_node *node, void *ctx);
SPN_API int spn_wheel_each(spn_wheel *wheel, spn_wheel_visit_fn visit, void *ctx);

#ifdef __cplusplus
}
#endif
#endif /* SPN_WHEEL_H */
