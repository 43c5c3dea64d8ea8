/* SPDX-License-Identifier: MIT */
#ifndef SPN_METRICS_H
#define SPN_METRICS_H

#include <spindle/forkjoin.h>
#include <spindle/limiter.h>
#include <spindle/object_pool.h>
#include <spindle/pool.h>
#include <spindle/status.h>
#include <spindle/timer.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What goes on in pools, timers and limiters, as numbers: counters and histograms for a program's
 * own use, times of tasks, and a registry that writes all of it as Prometheus text or as
 * JSON lines.
 *
 * Threads     every call is safe from any thread.  Reading never stops those who record.
 * Ownership   what is registered is borrowed until it is removed.
 */

/* ---- counters and histograms ------------------------------------------------------ */

/*
 * Each thread has its own part, so recording is a load and a store; the parts are added up
 * when asked for.  A thread's first use allocates its part; without memory it uses one that
 * all share.  Parts are kept when their thread ends, for the next one.
 */
typedef struct spn_counter spn_counter;
typedef struct spn_histogram spn_histogram;

/*
 * Creates in *out, which is NULL on failure; frees, when no other call is under way.  NULL
 * is a no-op.
 * Returns  SPN_OK, SPN_EINVAL (NULL out), SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_counter_create(spn_counter **out);
SPN_API void spn_counter_destroy(spn_counter *counter);
SPN_API SPN_NODISCARD
int spn_histogram_create(spn_histogram **out);
SPN_API void spn_histogram_destroy(spn_histogram *histogram);

/* Adds to a counter; records a value, those below 0 as 0.  Never fail and never wait; NULL
 * is a no-op.  Since 0.1 */
SPN_API void spn_counter_add(spn_counter *counter, int64_t change);
SPN_API void spn_histogram_record(spn_histogram *histogram, int64_t value);

/* The sum of all adds that happened before, and perhaps of others; 0 for NULL.
 * Since 0.1 */
SPN_API int64_t spn_counter_value(spn_counter *counter);

/* Values 0 to 7 have a bucket each, then each power of two has eight. */
#define SPN_HISTOGRAM_BUCKETS 488

/* Set size before (SPN_HISTOGRAM_SNAPSHOT_INIT). */
typedef struct spn_histogram_snapshot {
    size_t size;
    uint64_t count; /* the sum of the buckets */
    uint64_t sum;   /* of the values, modulo 2^64 */
    int64_t max;    /* the largest value, exact */
    uint64_t buckets[SPN_HISTOGRAM_BUCKETS];
} spn_histogram_snapshot;

#define SPN_HISTOGRAM_SNAPSHOT_INIT              \
    {                                            \
        sizeof(spn_histogram_snapshot), 0, 0, 0, \
        {                                        \
            0                                    \
        }                                        \
    }

/*
 * snapshot: adds up what was recorded.
 * quantile: the value below or at which the part q (0 to 1) of all values lie: never less
 *           than the true one, and at most an eighth more; 0 if there are none.
 *
 * Returns  snapshot: SPN_OK, SPN_EINVAL (a NULL, a wrong size).  quantile: a value, or
 *          SPN_EINVAL (NULL, q out of range).
 * Since    0.1
 */
SPN_API int spn_histogram_snapshot_get(spn_histogram *histogram,
                                       spn_histogram_snapshot *snapshot);
SPN_API int64_t spn_histogram_quantile(const spn_histogram_snapshot *snapshot,
                                       double q);

/* ---- times of tasks ------------------------------------------------------------------ */

/*
 * How long the tasks of a pool wait in its queue and how long they run: two histograms.
 * A pool without it pays nothing, and one with it looks at the clock for one task of
 * `every`.  The wait begins with execute or call, so it has the time that a policy lets the
 * task wait for room.  It comes in with the pool's hooks:
 *
 *     spn_task_times_create(&times, NULL);
 *     spn_task_times_install(times, &opts.hooks);     // before spn_pool_create
 *
 * Lifecycle   create -> install -> spn_pool_create ... spn_pool_destroy -> destroy
 */
typedef struct spn_task_times spn_task_times;

/* Zero means default.  Append only. */
typedef struct spn_task_times_opts {
    size_t size;    /* sizeof(spn_task_times_opts), set by _INIT                     */
    uint32_t every; /* times one of so many tasks of a thread; 0: 64; 1: all         */
    uint32_t
        reserved; /* 0                                                            */
} spn_task_times_opts;

#define SPN_TASK_TIMES_OPTS_INIT          \
    {                                     \
        sizeof(spn_task_times_opts), 0, 0 \
    }

/*
 * create:  makes the histograms of one pool in *out, NULL on failure.  opts may be NULL.
 * install: puts it into hooks, which are those of one pool.  Once.
 * destroy: frees it, after the pool is destroyed.  NULL is a no-op.
 *
 * Returns  create: SPN_OK, SPN_EINVAL, SPN_ENOMEM.  install: SPN_OK, SPN_EINVAL (a NULL),
 *          SPN_ESTATE (installed already).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_task_times_create(spn_task_times **out, const spn_task_times_opts *opts);
SPN_API SPN_NODISCARD
int spn_task_times_install(spn_task_times *times, spn_pool_hooks *hooks);
SPN_API void spn_task_times_destroy(spn_task_times *times);

/*
 * Stores how long the timed tasks waited in *wait, and how long they ran in *run;
 * either may be NULL.
 * Returns  SPN_OK; SPN_EINVAL (times is NULL, a wrong size): then neither is changed.
 * Since    0.1
 */
SPN_API int spn_task_times_get(spn_task_times *times, spn_histogram_snapshot *wait,
                               spn_histogram_snapshot *run);

/* A task that runs now; valid during the call. */
typedef struct spn_running {
    const char *label; /* of a job; NULL: it has none                                */
    int64_t
        running_ns;   /* for how long, at least: since it was first looked at        */
    uint64_t run;     /* which of its thread's tasks it is: tells two runs apart     */
    uintptr_t thread; /* tells two threads apart                                     */
} spn_running;
typedef void (*spn_running_fn)(void *ctx, const spn_running *running);

/*
 * Calls fn(ctx, running) for each task that runs now.  How long it has run is known from
 * one look to the next, so that tasks need not be timed.
 * Returns  how many, or SPN_EINVAL (a NULL).
 * Since    0.1
 */
SPN_API int spn_task_times_running(spn_task_times *times, spn_running_fn fn, void *ctx);

/* ---- traces --------------------------------------------------------------------------- */

/*
 * A file of task runs in the JSON of Chrome's and Perfetto's viewers: which thread ran
 * what, when and for how long.  For an hour of looking: every run takes a lock.
 *
 * create:  begins the file.
 * install: has the tasks of a pool written: puts its functions into hooks, in front of those
 *          that are there, which are called as before.  Once for each pool, before
 *          spn_pool_create; one thread at a time.
 * close:   ends the file; all pools that write to it are destroyed.  NULL is a no-op.
 *
 * Returns  create: SPN_OK; SPN_EINVAL (a NULL); SPN_ENOMEM; SPN_EFAILED (the file cannot
 *          be made, or exists).  install: SPN_OK, SPN_EINVAL (a NULL), SPN_ENOMEM.  close:
 *          SPN_OK; SPN_EFAILED: not all could be written.
 * Since    0.1
 */
typedef struct spn_trace spn_trace;
SPN_API SPN_NODISCARD
int spn_trace_create(spn_trace **out, const char *path);
SPN_API SPN_NODISCARD
int spn_trace_install(spn_trace *trace, spn_pool_hooks *hooks);
SPN_API int spn_trace_close(spn_trace *trace);

/* ---- the registry ------------------------------------------------------------------------ */

typedef struct spn_metrics spn_metrics;

/*
 * Creates an empty registry in *out, NULL on failure; frees one, with whatever is still
 * registered left alone.  NULL is a no-op.
 * Returns  SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_metrics_create(spn_metrics **out);
SPN_API void spn_metrics_destroy(spn_metrics *metrics);

/*
 * What is registered: one of the pointers, and the name it shall have.  Pools, fork/join
 * pools, which share their names, and object pools have a name already, which becomes a
 * label; a timer and a limiter have `name` as their label.  The names of counters and
 * histograms become names of metrics: letters, digits and '_', not beginning with a digit;
 * a counter's gets "_total" added, a histogram's, of nanoseconds, "_seconds".  Append only.
 */
typedef struct spn_metrics_source {
    size_t size;      /* sizeof(spn_metrics_source), set by _INIT                     */
    const char *name; /* of a timer, limiter, counter or histogram; copied            */
    const char *help; /* of a counter or histogram, for people; copied.  NULL: ""     */
    spn_pool *pool;
    spn_fj_pool *fj_pool;
    spn_task_times *times; /* of the pool or fork/join pool; NULL: none               */
    spn_timer *timer;
    spn_object_pool *object_pool;
    spn_limiter *limiter;
    spn_counter *counter;
    spn_histogram *histogram;
} spn_metrics_source;

#define SPN_METRICS_SOURCE_INIT            \
    {                                      \
        .size = sizeof(spn_metrics_source) \
    }

/*
 * Registers a thing, which must stay until it is removed; the source is copied.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL, no thing or two, a name that is missing or illegal);
 *          SPN_EBUSY (the name is taken); SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_metrics_add(spn_metrics *metrics, const spn_metrics_source *source);

/* Takes a thing out, under all its names; afterwards nobody looks at it any more.  SPN_OK;
 * SPN_EEMPTY: it is not there; SPN_EINVAL (a NULL).  Waits for a scrape that is under way.
 * Since 0.1 */
SPN_API int spn_metrics_remove(spn_metrics *metrics, const void *thing);

typedef enum spn_metrics_format {
    SPN_METRICS_PROMETHEUS = 0, /* text format 0.0.4, for a scraper  */
    SPN_METRICS_JSON = 1        /* a JSON object per thing, a line each */
} spn_metrics_format;

/* Takes a piece of text; 0, or a number that ends the call. */
typedef int (*spn_write_fn)(void *ctx, const char *text, size_t length);

/*
 * Writes all metrics, in one or more pieces, on the calling thread with no lock held.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL, no such format); SPN_ENOMEM; what write returned.
 * Since    0.1
 */
SPN_API int spn_metrics_write(spn_metrics *metrics, spn_metrics_format format,
                              spn_write_fn write, void *ctx);

#ifdef __cplusplus
}
#endif
#endif /* SPN_METRICS_H */
