/* SPDX-License-Identifier: MIT */
#ifndef SPN_OBJECT_POOL_H
#define SPN_OBJECT_POOL_H

#include <spindle/clock.h>
#include <spindle/status.h>
#include <spindle/time.h>
#include <spindle/timer.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A pool of things that are dear to make and can be used again: connections, parsers,
 * buffers.
 *
 *     rc = spn_object_pool_borrow(pool, &connection, SPN_MS(50));
 *     ...
 *     spn_object_pool_return(pool, connection);   // or _invalidate, if it is broken
 *
 * Lifecycle   create -> borrow, return... -> shutdown -> await -> destroy
 * Bounded     there are never more than `max` objects, those being made and destroyed
 *             included.
 * Threads     every call is safe from any thread; an object may be returned by another
 *             thread than the one that borrowed it.
 * Factory     its functions run on the thread whose call needs them, with no lock held,
 *             for different objects at the same time; they may block, and call the pool.
 * Ownership   an object belongs to its borrower from borrow to return or invalidate, and
 *             else to the pool.
 * Cost        borrow and return of an idle object take no lock while nobody waits, read
 *             no clock unless leaks are looked for, and allocate nothing.
 */
typedef struct spn_object_pool spn_object_pool;

/* How objects come and go.  A failure is any number but 0. */
typedef struct spn_object_factory {
    int (*make)(void *ctx, void **object); /* stores a new object, not NULL       */
    int (*validate)(void *ctx,
                    void *object);         /* before an idle one is lent; not 0: it is
                                                  destroyed and another made.  NULL: all
                                                  are good                            */
    int (*reset)(void *ctx, void *object); /* in return; not 0: it is destroyed.
                                                  NULL: nothing to do                 */
    void (*destroy)(void *ctx, void *object); /* NULL: nothing to do                 */
    void *ctx;                                /* their first argument                */
} spn_object_factory;

/* An object that is out; valid during the call. */
typedef struct spn_object_lease {
    void *object;      /* to compare, not to use                                  */
    int64_t held_ns;   /* since borrow; 0 with neither leak_ns nor trace_frames   */
    const char *trace; /* who borrowed it: a line per frame, innermost first, as
                              "name+0x1c (/lib/libx.so.6+0x8f41c)"; "" without traces */
    const uintptr_t *frames; /* the same as program counters                          */
    size_t frame_count;
} spn_object_lease;

typedef void (*spn_object_lease_fn)(void *ctx, const spn_object_lease *lease);

/* Zero means default, but for factory.make.  Append only. */
typedef struct spn_object_pool_opts {
    size_t size;       /* sizeof(spn_object_pool_opts), set by _INIT                */
    const char *name;  /* for logs and metrics; copied.  NULL: "objects"            */
    uint32_t max;      /* objects at most, up to SPN_OBJECT_POOL_MAX; 0: 8          */
    uint32_t min_idle; /* kept ready by passes; at most max                         */
    uint32_t fair;     /* 1: borrowers in order, the longest idle object first.  0:
                            the object returned last first, and who finds one takes it
                            (beyond 31 objects: the last of a group of 31)             */
    uint32_t trace_frames; /* callers of borrow to remember, at most
                            SPN_OBJECT_TRACE_MAX; 0: none.  See report.h on frames    */
    int64_t idle_ns;    /* an object idle for so long is destroyed; 0: never         */
    int64_t max_age_ns; /* one that old is destroyed; 0: never                       */
    int64_t leak_ns;    /* one out for so long is reported; 0: none                  */
    int64_t period_ns;  /* from one pass to the next, with a timer; 0: 1 s           */
    spn_timer *timer;   /* has maintain called; NULL: the program does.  Factory
                            functions run where its callbacks run: give it an executor
                            if they may block.  Stopped after the pool is shut down,
                            destroyed after the pool is: destroy uses it              */
    spn_clock *clock;   /* for ages; NULL: the monotonic one.  Waits are in real time */
    spn_object_factory factory;
    spn_object_lease_fn leaked; /* told of a leak, by the pass; NULL: a warning is
                                   logged                                             */
    void *ctx; /* its argument                                              */
} spn_object_pool_opts;

#define SPN_OBJECT_POOL_OPTS_INIT                                               \
    {                                                                           \
        sizeof(spn_object_pool_opts), NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, \
            { NULL, NULL, NULL, NULL, NULL }, NULL, NULL                        \
    }

#define SPN_OBJECT_POOL_MAX  65535
#define SPN_OBJECT_TRACE_MAX 32

/*
 * create:  makes a pool without objects in *out; on failure *out is NULL.  The first
 *          pass makes min_idle objects: call maintain to have them at once.
 * destroy: frees a pool that was shut down and has no objects any more; NULL is a no-op.
 *          No other call on it may be under way.
 *
 * Returns  create: SPN_OK; SPN_EINVAL (no make, min_idle > max, a negative time, a
 *          number out of range); SPN_ENOMEM; what spn_timer_schedule refuses with.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing before shutdown, while an
 *          object lives, somebody waits, or a pass runs.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_object_pool_create(spn_object_pool **out, const spn_object_pool_opts *opts);
SPN_API int spn_object_pool_destroy(spn_object_pool *pool);

/*
 * borrow: lends an object and stores it in *object: an idle one, else a new one if there
 *         are fewer than max, else it waits up to timeout_ns for either, 0: not at
 *         all.  The time factory functions take is not limited.  Interruptible, if it
 *         has to wait.
 * On failure *object is NULL.
 *
 * Returns  SPN_OK; SPN_ETIMEDOUT; SPN_EINTR; SPN_ESHUTDOWN; SPN_EFAILED (make failed: stats tell its status);
 *          SPN_EINVAL (a NULL, or make gave NULL or an object the pool has);
 *          SPN_ENOMEM (no memory for the calling thread's record).
 * Orders   what precedes return happens-before the borrow that gets the object.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_object_pool_borrow(spn_object_pool *pool, void **object, int64_t timeout_ns);

/*
 * return:     gives an object back; after shutdown it is destroyed.
 * invalidate: gives one back that is broken: it is destroyed.
 * Neither waits, but for the factory's functions.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL, or not an object of this pool); SPN_ESTATE (it is
 *          not out: returned before).
 * Since    0.1
 */
SPN_API int spn_object_pool_return(spn_object_pool *pool, void *object);
SPN_API int spn_object_pool_invalidate(spn_object_pool *pool, void *object);

/*
 * Makes a pass: destroys what is too old or has lain idle too long, makes objects up to
 * min_idle, reports leaks.  Called by the timer, or by the program.
 *
 * Returns  SPN_OK; SPN_EFAILED (make failed); SPN_EBUSY (a pass is under way);
 *          SPN_ESHUTDOWN; SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_object_pool_maintain(spn_object_pool *pool);

/*
 * shutdown: lends no more, sends those that wait away, destroys idle objects; those that
 *           are out are destroyed when they are returned.  Does not wait for them.
 * await:    waits up to timeout_ns until the pool is shut down and no object is left.
 *           Interruptible.
 *
 * Returns  shutdown: SPN_OK, SPN_EINVAL (NULL).  await: SPN_OK, SPN_ETIMEDOUT,
 *          SPN_EINTR, SPN_EINVAL (NULL), SPN_ENOMEM (no memory for the calling thread's
 *          record).
 * Since    0.1
 */
SPN_API int spn_object_pool_shutdown(spn_object_pool *pool);
SPN_API SPN_NODISCARD
int spn_object_pool_await(spn_object_pool *pool, int64_t timeout_ns);

/*
 * Calls fn(ctx, lease) for each object that is out, with no lock held: who has not
 * returned what, for instance when await has timed out.
 * Returns  how many, or SPN_EINVAL (a NULL).
 * Since    0.1
 */
SPN_API int spn_object_pool_leases(spn_object_pool *pool, spn_object_lease_fn fn,
                                   void *ctx);

/* Each number was true at some moment during the call; together they are exact when
 * nothing moves.  Set size before (SPN_OBJECT_POOL_STATS_INIT). */
typedef struct spn_object_pool_stats {
    size_t size;
    uint32_t max;
    uint32_t shut_down; /* 1: yes                                             */
    int64_t idle;
    int64_t out;
    int64_t busy;     /* being made, validated, reset or destroyed           */
    int64_t waiting;  /* borrowers                                           */
    int64_t borrowed; /* from here on: since the pool was made               */
    int64_t returned;
    int64_t invalidated;
    int64_t made;
    int64_t make_failures;
    int64_t destroyed;    /* of these: */
    int64_t evicted_idle; /* idle too long                                 */
    int64_t evicted_age;  /* too old                                       */
    int64_t refused;      /* by validate or reset                          */
    int64_t waited;       /* borrows that had to wait                      */
    int64_t timeouts;     /* of those, how many timed out                  */
    int64_t leaks;        /* reported                                      */
    int32_t last_failure; /* what make returned when it failed last; 0: never */
    uint32_t reserved;
} spn_object_pool_stats;

#define SPN_OBJECT_POOL_STATS_INIT                                                     \
    {                                                                                  \
        sizeof(spn_object_pool_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0, 0                                                                 \
    }

/*
 * Fills *stats as far as stats->size goes.  Never blocks.
 * Returns  SPN_OK, SPN_EINVAL (a NULL, a size that was never set).
 * Since    0.1
 */
SPN_API int spn_object_pool_stats_get(spn_object_pool *pool,
                                      spn_object_pool_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* SPN_OBJECT_POOL_H */
