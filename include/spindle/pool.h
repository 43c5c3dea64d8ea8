/* SPDX-License-Identifier: MIT */
#ifndef SPN_POOL_H
#define SPN_POOL_H

#include <spindle/executor.h>
#include <spindle/queue.h>
#include <spindle/status.h>
#include <spindle/thread.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The thread-pool executor.
 *
 * Lifecycle   create -> execute, submit... -> shutdown -> await -> destroy; all but create
 *             and destroy are calls on spn_pool_executor(pool): see executor.h.
 * A task      starts a new thread while there are fewer than core_threads; else it
 *             is queued; if the queue is full it starts a thread while there are
 *             fewer than max_threads; else the rejection policy decides.
 * A thread    that finds nothing to do for keep_alive_ns ends, down to core_threads
 *             (or to none, with core_timeout).  No thread is made before the first
 *             task, or prestart.
 * Threads     every call is safe from any thread, tasks and hooks included, except
 *             where it says so (await, close, drain: SPN_EDEADLK from a task).
 * Ownership   tasks are borrowed until fn or drop is entered: see executor.h.
 * A task that ends its thread (pthread_exit) counts as failed, is told to `uncaught`, and
 *             its worker is replaced.  A hook, a policy or a drop must not: undefined.
 * Nothing is lost: at every moment at rest
 *             accepted = completed + failed + cancelled + returned + dropped + pending,
 *             and spn_pool_stats tells each of them.
 * Memory      execute on a queue bounded to 65536 tasks or fewer, as the default is, allocates
 *             nothing but for a new thread.  A larger or unbounded one and LANES may need
 *             memory for it, and so may priorities and a queue of your own: SPN_ENOMEM.
 *             Completing a task never allocates.  purge and cancel_owner on a queue of your own
 *             may.  shutdown_now on LANES needs a little for each call, and one for which there
 *             is none counts as dropped.
 */
typedef struct spn_pool spn_pool;

/* ---- which queue ----------------------------------------------------------- */

typedef enum spn_pool_queue_kind {
    /* First in, first out, over all producers; a task is taken back in O(1).  The
     * contract of java.util.concurrent. */
    SPN_POOL_FIFO = 0,
    /* The fastest: one lane per producing thread.  A worker starts the tasks that it
     * claims from a lane in the order they were submitted, but with two workers or more
     * a task may start before an older one of the same producer.
     * Workers claim batches; a task in a batch still counts as queued, can be taken
     * back, and is taken over by a thread that has nothing else to do.  Behind a task
     * that runs long the whole batch is taken over, the oldest first, by workers that
     * have newer tasks to claim: for each long task ahead it waits at most (workers + 1)
     * times 1 ms (a tick of the system's clock, if that is longer) and one claim of at
     * most 255 tasks, as long as a worker claims.
     * Always unbounded: queue_capacity must be negative or SPN_DEFAULT.  A chunk of
     * memory may be needed for every few hundred tasks: SPN_ENOMEM without it. */
    SPN_POOL_LANES = 1,
    /* By priority, the greatest first, and first in first out among equals: see
     * spn_job and `age_ns`. */
    SPN_POOL_PRIORITY = 2
} spn_pool_queue_kind;

/* For queue_capacity: any negative number but SPN_DEFAULT is the same.  Memory is the only
 * limit then: where tasks come faster than they run, the queue grows until SPN_ENOMEM, or the
 * system ends the process.  A pool whose queue has no bound, LANES too, logs one warning in
 * its life, when 100000 tasks wait (LANES, and scheduled ones: between 100000 and 200000). */
#define SPN_UNBOUNDED (-1)
/* For queue_capacity: no queue; a task is taken only if a thread is free.  A thread is
 * free when its task has returned and the hooks have run, which is after the task may
 * have told somebody that it is done: as many clients as threads, each submitting
 * again as soon as it is answered, are refused now and then.  A block policy with a
 * short timeout waits that moment out. */
#define SPN_HANDOFF 0

/* The greatest max_threads: the count shares a word with the state.  It means no limit: such
 * a pool makes threads until the system has no more, and logs one warning in its life, when
 * it has 1000. */
#define SPN_POOL_THREADS_MAX 0x1fffffff

/* ---- tasks with more to say -------------------------------------------------- */

/*
 * A task with attributes: embed it instead of spn_task and hand over &job->task.
 * Initialise it with SPN_JOB_INIT; set what is needed before execute; after that it
 * is the pool's until fn or drop is entered.
 */
typedef struct spn_job {
    spn_task task;       /* first; its flags say SPN_TASK_JOB                     */
    int64_t deadline_ns; /* on spn_now's clock: a job that is not started by then is
                            dropped with SPN_ETIMEDOUT instead.  0: none          */
    int32_t priority;    /* the greater the sooner, in a PRIORITY pool            */
    uint32_t reserved;   /* 0                                                     */
    const void *owner;   /* for spn_pool_cancel_owner; NULL: nobody               */
    const char *label;   /* for hooks and reports; borrowed until the after hook has
                            run, which the job need not live to see: a literal, as a
                            rule.  NULL: none                                     */
    void *context;       /* the library's: the submitter's context, see context.h */
    int64_t key;         /* the library's                                         */
    void *spare;         /* 0                                                     */
} spn_job;

#define SPN_TASK_JOB 1u /* spn_task.flags */

#define SPN_JOB_INIT(run, dropped)                                                  \
    {                                                                               \
        { (run), (dropped), { NULL, NULL }, 0, SPN_TASK_JOB }, 0, 0, 0, NULL, NULL, \
            NULL, 0, NULL                                                           \
    }

/* ---- what the pool knows ------------------------------------------------------ */

/*
 * A picture of a pool.  Each number was true at some moment during the call;
 * together they are exact when nothing moves, and never negative.  What a task did
 * happens-before the call that counts it as completed or failed.  The library fills
 * it: set size before (SPN_POOL_STATS_INIT).
 */
typedef struct spn_pool_stats {
    size_t size;
    uint32_t state;  /* spn_executor_state                                */
    uint32_t paused; /* 1: between pause and resume                       */
    int32_t core_threads;
    int32_t max_threads;
    int32_t threads; /* now                                               */
    int32_t largest; /* most at any time                                  */
    int32_t active;  /* threads that run a task, hooks included           */
    int32_t parked;  /* threads asleep until there is work                */
    int64_t keep_alive_ns;
    int64_t queued;   /* tasks that wait                                   */
    int64_t capacity; /* of the queue; INT64_MAX: unbounded                */
    /* Since the pool was made.  accepted is the sum of the five and `pending`.   */
    int64_t accepted;
    int64_t completed;  /* fn returned 0                                     */
    int64_t failed;     /* fn returned another number or ended its thread, or
                               the before hook did not let it run                */
    int64_t cancelled;  /* dropped by purge, or as it, or by cancel_owner    */
    int64_t returned;   /* given back by remove or shutdown_now              */
    int64_t dropped;    /* discarded by a policy, or expired                 */
    int64_t pending;    /* queued or running                                 */
    int64_t expired;    /* of dropped: past their deadline                   */
    int64_t rejected;   /* refused: never accepted                           */
    int64_t caller_ran; /* run by policy, by their submitter or on a thread of their
                           own: never accepted                               */
    int64_t threads_started;
    int64_t threads_failed; /* could not be made                                 */
    int64_t threads_died;   /* ended by a task; replaced if that was needed      */
    int64_t submitted;      /* eager: tasks on their way, from execute to their end */
    int64_t started;        /* completed, failed, and those that workers run now    */
    int64_t wakeups;        /* threads woken by the pool, for work or to look around */
    int64_t rejected_full;  /* of rejected: by the reason of spn_refusal_reason      */
    int64_t rejected_shutdown;
    int64_t rejected_no_thread;
    uint32_t core_timeout;      /* 1: core threads end when idle too                  */
    uint32_t reserved;          /* 0                                                  */
    int64_t rejected_no_memory; /* of rejected: SPN_ENOMEM, without asking the policy */
    const char *name;           /* the pool's; valid as long as the pool is           */
} spn_pool_stats;

#define SPN_POOL_STATS_INIT                                                           \
    {                                                                                 \
        sizeof(spn_pool_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL                         \
    }

/* ---- refusing ------------------------------------------------------------------- */

typedef enum spn_refusal_reason {
    SPN_REFUSED_FULL = 1,     /* queue and threads are at their limits            */
    SPN_REFUSED_SHUTDOWN = 2, /* the pool takes no more                           */
    SPN_REFUSED_LIMIT = 3,    /* a limiter said no                                */
    SPN_REFUSED_NO_THREAD = 4 /* none lives and none can be made                  */
} spn_refusal_reason;

/* Why a task was refused; valid during the call. */
typedef struct spn_refusal {
    uint32_t reason; /* spn_refusal_reason                                       */
    uint32_t reserved;
    int64_t refused_at_ns; /* on spn_now's clock: when it was refused first        */
    void *source;          /* the library's: for spn_refusal_stats                 */
} spn_refusal;

/*
 * For a policy that wants to know how the pool looks: as spn_pool_stats_get.  A refusal
 * that nobody asks costs the same however many threads the pool has.
 * Returns  SPN_OK; SPN_EINVAL (a NULL, a size that was never set, a refusal that the
 *          library did not make, or one that is over).
 * Since    0.1
 */
SPN_API int spn_refusal_stats(const spn_refusal *why, spn_pool_stats *stats);

/*
 * What to do with a task the pool cannot take.  A program makes its own by putting
 * this first in a struct.  refused runs on the submitter's thread, with no lock
 * held, once per task that is refused (nested in itself if it submits again), and
 * what it returns is execute's result: SPN_OK if the task was seen to (it ran, was
 * dropped, or is queued after all), else the task is the submitter's as before.
 * A policy is borrowed until the pool is destroyed, also after it was replaced.
 */
typedef struct spn_reject_policy spn_reject_policy;
struct spn_reject_policy {
    size_t size;      /* sizeof(spn_reject_policy) alone, not of what is behind it   */
    const char *name; /* for logs; may be NULL     */
    int (*refused)(const spn_reject_policy *policy, spn_pool *pool, spn_task *task,
                   const spn_refusal *why);
};

/*
 * abort           SPN_EREJECTED (no thread: SPN_EAGAIN).  The default.
 * caller_runs     the submitter runs it, before execute returns; on a pool that was
 *                 shut down it is dropped with SPN_ESHUTDOWN.
 * discard         drops it with SPN_EREJECTED, and says SPN_OK.
 * discard_oldest  drops the task that has waited longest and tries again, a bounded
 *                 number of times; with nothing to drop, SPN_EREJECTED.  On a pool
 *                 that was shut down the new one is dropped with SPN_ESHUTDOWN.
 * new_thread      runs it on a thread of its own, which ends with it; SPN_EREJECTED
 *                 if there is none to be had.  On a pool that was shut down,
 *                 SPN_EREJECTED.
 * Since    0.1
 */
SPN_API const spn_reject_policy *spn_reject_abort(void);
SPN_API const spn_reject_policy *spn_reject_caller_runs(void);
SPN_API const spn_reject_policy *spn_reject_discard(void);
SPN_API const spn_reject_policy *spn_reject_discard_oldest(void);
SPN_API const spn_reject_policy *spn_reject_new_thread(void);

/*
 * Waits up to timeout_ns for room, then refuses with SPN_ETIMEDOUT; interruptible.
 * A task of the pool itself is refused at once with SPN_EDEADLK: it would wait for
 * itself.  SPN_REJECT_BLOCK_INIT(0) waits 60 s.
 */
typedef struct spn_reject_block {
    spn_reject_policy policy; /* first */
    int64_t timeout_ns;
} spn_reject_block;
/* The function of the policy; not to be called by itself.  Since 0.1 */
SPN_API int spn_reject_block_refused(const spn_reject_policy *policy, spn_pool *pool,
                                     spn_task *task, const spn_refusal *why);
#define SPN_REJECT_BLOCK_INIT(timeout)                                              \
    {                                                                               \
        { sizeof(spn_reject_policy), "block", spn_reject_block_refused }, (timeout) \
    }

/* Asks each policy in turn until one says SPN_OK, or SPN_EINTR (the submitter was
 * interrupted and must hear of it); else what the last one said. */
typedef struct spn_reject_chain {
    spn_reject_policy policy;                 /* first    */
    const spn_reject_policy *const *policies; /* borrowed */
    size_t count;
} spn_reject_chain;
/* The function of the policy; not to be called by itself.  Since 0.1 */
SPN_API int spn_reject_chain_refused(const spn_reject_policy *policy, spn_pool *pool,
                                     spn_task *task, const spn_refusal *why);
#define SPN_REJECT_CHAIN_INIT(list, length)                                       \
    {                                                                             \
        { sizeof(spn_reject_policy), "chain", spn_reject_chain_refused }, (list), \
            (length)                                                              \
    }

/* ---- hooks ------------------------------------------------------------------------ */

/* What a hook may know of a task: the node itself may be gone.  Valid during the
 * call. */
typedef struct spn_task_info {
    const char *label;    /* of a job; else NULL                                  */
    const spn_task *task; /* before only: to look at, not to touch; else NULL       */
    int32_t status; /* after: what fn returned; SPN_ECANCELED if it ended its thread */
    uint32_t reserved;
} spn_task_info;

/* Before and after run on the worker, as part of the task; uncaught on whoever ran the
 * task; terminated see there.  No lock is held. */
typedef struct spn_pool_hooks {
    /* Before each task.  Non-zero: the task is dropped with SPN_ECANCELED instead
     * of run, counts as failed, and `after` is not called. */
    int (*before)(spn_pool *pool, const spn_task_info *info, void *ctx);
    /* After each task.  A failure of a submitted future is the future's: status 0. */
    void (*after)(spn_pool *pool, const spn_task_info *info, void *ctx);
    /* A task given to execute or call has failed, and nobody else will hear of it.
     * NULL: it is logged as a warning. */
    void (*uncaught)(spn_pool *pool, const spn_task_info *info, void *ctx);
    /* Once, when nothing runs any more, before await returns; on the thread that
     * noticed.  NULL: nothing. */
    void (*terminated)(spn_pool *pool, void *ctx);
    void *ctx;
    struct spn_task_times
        *times; /* spn_task_times_install of metrics.h, or NULL      */
} spn_pool_hooks;

/* ---- making ----------------------------------------------------------------------- */

/* Zero means default; where 0 is a value, SPN_DEFAULT does.  Append only. */
typedef struct spn_pool_opts {
    size_t size;          /* sizeof(spn_pool_opts), set by _INIT                   */
    const char *name;     /* threads are "name-thread-1"...; copied.  NULL: "pool-N",
                               N counting the pools of the process                  */
    int32_t core_threads; /* SPN_DEFAULT: the CPUs this process may use, but at most
                               max_threads where that is given                      */
    int32_t max_threads;  /* SPN_DEFAULT: as core_threads, but 1 at least          */
    int64_t
        keep_alive_ns; /* SPN_DEFAULT: 60 s.  0: idle threads above core end at once */
    int32_t queue_capacity; /* SPN_DEFAULT: 1024 (LANES: unbounded); SPN_UNBOUNDED;
                               SPN_HANDOFF                                          */
    uint32_t queue_kind;    /* spn_pool_queue_kind                                   */
    /* A queue of your own instead, without `equal`, its items spn_task *; borrowed.  You may put
     * tasks into it directly (mark them with spn_task_claim), while threads live.  LINKED,
     * ARRAY, PRIORITY, DEQUE, and TRANSFER, which counts as a linked one: nobody waits for its
     * consumer.  Not RING, DELAY (use spn_scheduled) or SYNCHRONOUS (use SPN_HANDOFF).  NULL:
     * by queue_kind. */
    spn_queue *queue;
    int64_t age_ns;        /* PRIORITY: a task that has waited this long counts one
                               priority more.  0: never, a low one can wait for ever */
    uint32_t core_timeout; /* 1: core threads end when idle too; keep_alive_ns > 0   */
    uint32_t eager;        /* 1: threads before the queue, counting tasks on their way
                               (Dubbo's eager pool)                                 */
    uint32_t fixed;        /* 1: cannot be reconfigured: SPN_ESTATE                  */
    uint32_t reserved;     /* 0                                                      */
    const spn_reject_policy *reject;   /* NULL: spn_reject_abort()                    */
    const spn_thread_factory *factory; /* NULL: spn_thread_factory_default()          */
    const spn_thread_opts *thread;     /* for the factory: stack, CPUs, signals...; its
                                          arrays are borrowed for the pool's life.
                                          NULL: defaults                             */
    spn_pool_hooks hooks;
} spn_pool_opts;

#define SPN_POOL_HOOKS_INIT                \
    {                                      \
        NULL, NULL, NULL, NULL, NULL, NULL \
    }
#define SPN_POOL_OPTS_INIT                                                             \
    {                                                                                  \
        sizeof(spn_pool_opts), NULL, SPN_DEFAULT, SPN_DEFAULT, SPN_DEFAULT,            \
            SPN_DEFAULT, 0, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL, SPN_POOL_HOOKS_INIT \
    }

/*
 * Creates a pool in *out; on failure *out is NULL and nothing needs undoing.  opts
 * may be NULL for all defaults.  Starts no thread.
 *
 * Returns  SPN_OK; SPN_EINVAL (core < 0, max <= 0 or < core, either above
 *          SPN_POOL_THREADS_MAX, keep_alive_ns < 0, core_timeout without a keep-alive,
 *          a name longer than SPN_THREAD_NAME_MAX - 20, a combination that is not
 *          there, a queue of a kind that cannot be a pool's); SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_pool_create(spn_pool **out, const spn_pool_opts *opts);

/*
 * Frees a terminated pool; NULL is a no-op.  No other call on it may be under way.  In
 * the child of a fork it also frees a pool of the parent's, if at the fork all workers
 * slept and no task was queued.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing while it lives, or while a stage of a
 *          future waits to run in it: until its source is done, or the stage is.
 * Since    0.1
 */
SPN_API int spn_pool_destroy(spn_pool *pool);

/* The pool as an executor, borrowed: valid as long as the pool is.  NULL for NULL.
 * Since 0.1 */
SPN_API spn_executor *spn_pool_executor(spn_pool *pool);
/* The pool behind an executor, or NULL if it is none of a pool.  Since 0.1 */
SPN_API spn_pool *spn_executor_pool(spn_executor *executor);

/* ---- the shapes everybody wants ------------------------------------------------------ */

/*
 * Options for the well-known pools; change what you like, then create.  `queues` as
 * Dubbo has it: 0 is a hand-off, negative unbounded, positive a bounded queue.
 *
 * fixed    `threads` that never time out.  Java's: queues < 0.
 * cached   from core to max threads, idle ones end after keep_alive_ns.  Java's:
 *          core 0, max SPN_POOL_THREADS_MAX, 60 s, queues 0.
 * limited  as cached, but a thread once made never ends.
 * eager    as cached, but new threads before the queue; queues <= 0 count as 1.
 * single   one thread, unbounded, not reconfigurable: tasks one after another, in
 *          order, also after one that ended the thread.
 * Since    0.1
 */
SPN_API spn_pool_opts spn_pool_opts_fixed(int32_t threads, int32_t queues);
SPN_API spn_pool_opts spn_pool_opts_cached(int32_t core_threads, int32_t max_threads,
                                           int32_t queues, int64_t keep_alive_ns);
SPN_API spn_pool_opts spn_pool_opts_limited(int32_t core_threads, int32_t max_threads,
                                            int32_t queues);
SPN_API spn_pool_opts spn_pool_opts_eager(int32_t core_threads, int32_t max_threads,
                                          int32_t queues, int64_t keep_alive_ns);
SPN_API spn_pool_opts spn_pool_opts_single(void);

/*
 * How many threads: for work that computes, CPUs + 1; for work that waits a part
 * `blocking` of its time (0.8 .. 0.9 as a rule), CPUs / (1 - blocking).
 * Returns  at least 1; SPN_EINVAL if blocking is negative, 1 or more, or no number.
 * Since    0.1
 */
SPN_API int32_t spn_pool_size_for_cpu(void);
SPN_API int32_t spn_pool_size_for_io(double blocking);

/* ---- the end --------------------------------------------------------------------------- */

/*
 * A pool ends as every executor does: spn_executor_shutdown, shutdown_now and await of
 * spn_pool_executor(pool).  What the tasks did happens-before a state of
 * SPN_EXECUTOR_TERMINATED.  Pausing ends with shutdown.  In one call:
 *
 * close:  shutdown, and waits until all has run.  Interrupted, it turns to
 *         shutdown_now (what did not start is dropped with SPN_ESHUTDOWN), waits on,
 *         and returns with the flag set again.
 * drain:  shutdown, waits up to timeout_ns, and then shutdown_now with unrun and ctx;
 *         does not wait for those that run and ignore the interrupt.
 *
 * Returns  SPN_OK; SPN_EINVAL (NULL).  await, close, drain: SPN_EDEADLK from a task of
 *          the pool, or its terminated hook; SPN_ENOMEM (no memory for the calling
 *          thread's record).  drain: SPN_ETIMEDOUT if something was cut off or still
 *          runs; SPN_EINTR, which cuts off as well.
 *          These, shutdown and shutdown_now: SPN_ESTATE at once, and nothing changes, in
 *          the child of a fork if the pool's workers are the parent's.
 * Since    0.1
 */
SPN_API int spn_pool_close(spn_pool *pool);
SPN_API int spn_pool_drain(spn_pool *pool, int64_t timeout_ns, spn_unrun_fn unrun,
                           void *ctx, int64_t *count);

/* ---- changing a living pool ----------------------------------------------------------------- */

/*
 * Changes any number of knobs in one step, so that no thread sees core > max.  Fields
 * of SPN_POOL_CHANGE_INIT are "leave as it is".  A larger core starts threads for what is
 * queued; idle threads learn of every change at once; running tasks are left alone.
 *
 * Returns  SPN_OK; SPN_EINVAL (as in create; nothing is changed); SPN_ESTATE (a pool
 *          made with `fixed`).
 * Since    0.1
 */
typedef struct spn_pool_change {
    size_t size;          /* sizeof(spn_pool_change), set by _INIT.  The fields that an
                             older, shorter one lacks stay as they are        */
    int32_t core_threads; /* SPN_DEFAULT: as it is; the others too   */
    int32_t max_threads;
    int64_t keep_alive_ns;
    int32_t queue_capacity; /* not to or from SPN_HANDOFF; not with a queue of your own,
                               nor LANES.  What is queued stays             */
    int32_t core_timeout;   /* 1, 0                                    */
    const spn_reject_policy *reject;   /* NULL: as it is               */
    const spn_thread_factory *factory; /* NULL: as it is               */
} spn_pool_change;

#define SPN_POOL_CHANGE_INIT                                                         \
    {                                                                                \
        sizeof(spn_pool_change), SPN_DEFAULT, SPN_DEFAULT, SPN_DEFAULT, SPN_DEFAULT, \
            SPN_DEFAULT, NULL, NULL                                                  \
    }

SPN_API int spn_pool_reconfigure(spn_pool *pool, const spn_pool_change *change);

/* Fills *stats as far as stats->size goes; what a newer program knows and this library
 * does not reads as 0.  SPN_OK; SPN_EINVAL (NULL, or a size that was never set).
 * Since 0.1 */
SPN_API int spn_pool_stats_get(spn_pool *pool, spn_pool_stats *stats);

/*
 * Writes the pool in one line of text, for the log of a submitter that was refused:
 *
 *     pool orders [Running, pool size = 2 (core 2, max 2), active threads = 2, queued tasks = 3
 *     (capacity 3), completed tasks = 0, rejected tasks = 1]
 *
 * as much as fits in size - 1 bytes, and a zero byte; text may be NULL if size is 0.  512 bytes
 * are always enough.  Safe from any thread, tasks, hooks and policies included; takes the
 * pool's lock for a moment.  The words may change, so do not parse it: spn_pool_stats_get.
 *
 * Returns  how many bytes the whole has, without the zero byte; SPN_EINVAL: a NULL.
 * Since    0.1
 */
SPN_API int spn_pool_describe(spn_pool *pool, char *text, size_t size);

/*
 * The tasks that wait, in the order they will start (LANES: lane by lane; a queue of
 * your own: in its order), as far as they fit; calls without a node (LANES) are left
 * out.  A task may start, and its memory go, at
 * any time: compare the pointers, follow them only if something keeps them alive.
 * Returns  how many wait, which may be more than were stored, or SPN_EINVAL.
 * Since    0.1
 */
SPN_API int64_t spn_pool_snapshot(spn_pool *pool, spn_task **tasks, size_t capacity);

/*
 * Starts up to how_many threads that wait for work, as long as there are fewer than
 * core_threads.  SPN_DEFAULT: until there are core_threads.
 * Returns  how many were started; SPN_EINVAL; SPN_EAGAIN if one could not be made and
 *          none was.
 * Since    0.1
 */
SPN_API int spn_pool_prestart(spn_pool *pool, int32_t how_many);

/*
 * pause: no task is started from now on, except one that a thread may just have taken;
 * running tasks go on.  The pool accepts tasks as before: a task is queued, or starts a
 * thread.  A task that starts a thread waits in that thread: it counts as active; remove,
 * purge and cancel_owner do not find it; shutdown_now gives it back.  Its deadline is
 * checked when the task would start.  resume or shutdown ends the pause.
 * Returns  SPN_OK; SPN_ESTATE after shutdown; SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_pool_pause(spn_pool *pool);
SPN_API int spn_pool_resume(spn_pool *pool);

/* ---- taking tasks back ------------------------------------------------------------------------- */

/*
 * One task: spn_executor_remove of spn_pool_executor(pool).
 * purge:         drops (SPN_ECANCELED) every queued task whose future is done: cancelled,
 *                timed out or completed by hand.  The pool does the same by itself before it
 *                refuses a task for being full.
 * cancel_owner:  drops (SPN_ECANCELED) every queued spn_job of this owner.
 * Returns  how many; SPN_EINVAL.
 * Since    0.1
 */
SPN_API int64_t spn_pool_purge(spn_pool *pool);
SPN_API int64_t spn_pool_cancel_owner(spn_pool *pool, const void *owner);

/* ---- from inside a task -------------------------------------------------------------------------- */

/* The pool whose task the calling thread is running, or NULL.  Since 0.1 */
SPN_API spn_pool *spn_pool_current(void);

#ifdef __cplusplus
}
#endif
#endif /* SPN_POOL_H */
