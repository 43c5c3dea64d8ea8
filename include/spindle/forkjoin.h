/* SPDX-License-Identifier: MIT */
#ifndef SPN_FORKJOIN_H
#define SPN_FORKJOIN_H

#include <spindle/executor.h>
#include <spindle/pool.h>
#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Fork/join: divide and conquer on all CPUs at the price of a function call.
 *
 *     SPN_FJ_TASK(int, fib, int, n)
 *     {
 *         if (n < 2)
 *             return n;
 *         fib_fork(&fj, n - 1);               // another worker may take it
 *         int b = fib(fj, n - 2);             // an ordinary call
 *         int a = fib_join(&fj);              // runs it here, if nobody took it
 *         return a + b;
 *     }
 *     ...
 *     rc = fib_invoke(pool, &result, 35);     // from anywhere
 *
 * There are two kinds of tasks.
 *   Records   what the macros below and spn_fj_fork make: they nest as calls do.  Each
 *             function joins what it forked, the last fork first, before it returns.
 *             A fork costs no allocation, no fence and no locked instruction.
 *   Objects   spn_fj_task, a struct of the caller's: forked, joined, cancelled,
 *             completed and waited for in any order and from any thread, as a
 *             ForkJoinTask is.
 *
 * A join runs the task it waits for, or a descendant of it, and nothing else: it is
 * safe to join with a lock held.
 *
 * Errors      travel up: a body that fails (spn_fj_fail, a status other than 0, no
 *             stack or no memory left) makes the whole tree fail, and whoever waits
 *             outside gets the first failure.  Bodies may look (spn_fj_status) and
 *             return early; what they return then does not matter.
 * Depth       a body that finds less than `stack_reserve` bytes of stack left is not
 *             entered, and the tree fails with SPN_ENOMEM.
 * Threads     every call is safe from any thread, but what takes an spn_fj only from
 *             the body it was given to.
 * Blocking    put spn_fj_block_begin and _end around what blocks inside a task:
 *             another thread stands in for it, within `spare_threads`.
 */
typedef struct spn_fj_pool spn_fj_pool;
typedef struct spn_fj_record spn_fj_record;

/*
 * A body's place: where its worker's next record goes.  A body gets one by value, hands
 * it on by value when it calls another, and by address to what forks and joins.  It is
 * worth nothing after the body has returned.
 */
typedef spn_fj_record *spn_fj;

/* A forked call: arguments first, the result in their place afterwards. */
#define SPN_FJ_ARGS_MAX 40
struct spn_fj_record {
    void (*run)(spn_fj fj, spn_fj_record *self);
    uintptr_t thief; /* the library's */
    uint32_t base;   /* the library's */
    uint32_t spare;
    union {
        void *align;
        double align_double;
        unsigned char bytes[SPN_FJ_ARGS_MAX];
    } args;
};

/* Records lie in pieces of memory that begin with this, at addresses that are multiples
 * of their size; what inline functions look at.  Not to be touched. */
#define SPN_FJ_PIECE 32768
typedef struct spn_fj_piece {
    uintptr_t fork_trap; /* a fork at or above this address goes the slow way */
    uintptr_t join_trap; /* a join below this one does                        */
    uintptr_t stack_low; /* with less stack than this a body is not entered   */
    void *worker;
    struct spn_fj_piece *before, *after;
    uint32_t first; /* number of its first record */
    uint32_t count; /* of records that are used   */
    void *spare;
} spn_fj_piece;

/* ---- a pool ------------------------------------------------------------------------ */

/* The greatest parallelism. */
#define SPN_FJ_PARALLELISM_MAX 32767

/* Zero means default; where 0 is a value, SPN_DEFAULT does.  Append only. */
typedef struct spn_fj_pool_opts {
    size_t size;           /* sizeof(spn_fj_pool_opts), set by _INIT                */
    const char *name;      /* as in spn_pool_opts; NULL: "pool-N"                   */
    int32_t parallelism;   /* 1 .. SPN_FJ_PARALLELISM_MAX.  SPN_DEFAULT: the CPUs this
                              process may use                                       */
    uint32_t async;        /* 1: a worker takes its own forked objects first come first
                              served: for events that nobody joins.  0: last first   */
    int64_t keep_alive_ns; /* a worker that finds nothing for that long ends.
                              SPN_DEFAULT: 60 s                                      */
    int32_t spare_threads; /* that may stand in for blocked ones.  SPN_DEFAULT: 256  */
    uint32_t records;      /* a worker's first piece of memory holds as many; more are
                              added by need.  0: 511                                 */
    size_t stack_reserve;  /* bytes that a body finds free on its stack, at least.
                              0: a quarter of the stack, 64 KiB at most              */
    const spn_thread_factory *factory; /* NULL: spn_thread_factory_default()         */
    const spn_thread_opts *thread;     /* as in spn_pool_opts; stack_size 0: 8 MiB   */
    spn_pool_hooks hooks;              /* as in spn_pool_opts; the pool they are given
                                          is the one spn_pool_current tells          */
} spn_fj_pool_opts;

#define SPN_FJ_POOL_OPTS_INIT                                                        \
    {                                                                                \
        sizeof(spn_fj_pool_opts), NULL, SPN_DEFAULT, 0, SPN_DEFAULT, SPN_DEFAULT, 0, \
            0, NULL, NULL, SPN_POOL_HOOKS_INIT                                       \
    }

/*
 * Creates a pool in *out; on failure *out is NULL and nothing needs undoing.  opts may
 * be NULL for all defaults.  Starts no thread: workers are made when there is work for
 * them.
 *
 * Returns  SPN_OK; SPN_EINVAL (parallelism out of range, keep_alive_ns < 0, bad opts);
 *          SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_fj_pool_create(spn_fj_pool **out, const spn_fj_pool_opts *opts);

/*
 * Frees a terminated pool; NULL is a no-op.  No other call on it may be under way.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing while it lives or has stages: see
 *          spn_pool_destroy.
 * Since    0.1
 */
SPN_API int spn_fj_pool_destroy(spn_fj_pool *pool);

/*
 * The pool as an executor, borrowed: valid as long as the pool is.  NULL for NULL.  A
 * task that a worker of the pool submits goes to its own queue, any other to the
 * submission queue.  It ends the pool, too: spn_executor_shutdown lets all that was
 * submitted and forked end; spn_executor_shutdown_now drops what has not started (objects
 * end as cancelled) and interrupts what runs, and its trees see SPN_ESHUTDOWN in
 * spn_fj_status; spn_executor_await waits for the end.
 * Since    0.1
 */
SPN_API spn_executor *spn_fj_pool_executor(spn_fj_pool *pool);

/* As spn_pool_close.  Since 0.1 */
SPN_API int spn_fj_pool_close(spn_fj_pool *pool);

/*
 * How many threads the pool keeps busy, not counting blocked ones: changes it, and returns
 * what it was.  Threads too many end when they have nothing left to do.
 * Returns  the number; SPN_EINVAL (NULL, out of range).
 * Since    0.1
 */
SPN_API int32_t spn_fj_pool_set_parallelism(spn_fj_pool *pool, int32_t parallelism);

/*
 * Waits for a moment in which nothing is queued and nothing runs, nor is on its way from
 * the one to the other; interruptible.  A task of the pool helps until nothing is left
 * but tasks that do the same.
 *
 * Returns  SPN_OK, SPN_ETIMEDOUT, SPN_EINTR, SPN_EINVAL, SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_fj_pool_await_quiescence(spn_fj_pool *pool, int64_t timeout_ns);

/* A picture, as spn_pool_stats is one: exact when nothing moves.  Records are no tasks:
 * they show in `steals` only. */
typedef struct spn_fj_stats {
    size_t size;
    uint32_t state; /* spn_executor_state                                   */
    uint32_t async;
    int32_t parallelism;
    int32_t threads;
    int32_t active;              /* threads that run a task                 */
    int32_t blocked;             /* of those, how many said so              */
    int64_t queued_submissions;  /* objects and tasks from outside          */
    int64_t queued_tasks;        /* in the workers' own queues              */
    int64_t steals;              /* records and objects run by another worker than the
                                    one that forked them                    */
    int64_t accepted, completed; /* objects and tasks, as in spn_pool_stats  */
    int64_t failed, cancelled, returned, dropped;
    int64_t pending; /* 0: at one moment during the call the pool was at rest */
} spn_fj_stats;

#define SPN_FJ_STATS_INIT                                                    \
    {                                                                        \
        sizeof(spn_fj_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Fills *stats as far as stats->size goes.  Returns SPN_OK, SPN_EINVAL.  Since 0.1 */
SPN_API int spn_fj_pool_stats_get(spn_fj_pool *pool, spn_fj_stats *stats);

/* The pool whose task the calling thread is running, or NULL; and the number of its
 * worker, 0 and up, or -1.  Since 0.1 */
SPN_API spn_fj_pool *spn_fj_pool_current(void);
SPN_API int32_t spn_fj_worker_index(void);

/*
 * Around a part of a task that blocks (a file, a lock, another service): the pool may
 * start another thread meanwhile, up to spare_threads above its parallelism, so that what
 * is forked and queued goes on.  Pairs nest, and end with the task.  Outside of a
 * fork/join pool both do nothing.  Neither blocks, but begin may make a thread.
 * Since    0.1
 */
SPN_API void spn_fj_block_begin(void);
SPN_API void spn_fj_block_end(void);

/* ---- calls that nest ------------------------------------------------------------------ */

/*
 * Runs fn(fj, arg) in the pool and waits until it has returned; not interruptible.  On
 * a worker of the pool it is a call.  On a worker of another pool that one is told
 * that its thread blocks.
 *
 * Returns  what fn returned, or the first failure of the tree below it; SPN_EINVAL;
 *          SPN_EREJECTED, SPN_EAGAIN, SPN_ENOMEM: it did not run; SPN_ECANCELED: the
 *          pool was stopped before it could.
 * Orders   what precedes the call happens-before fn, and fn before its return.
 * Since    0.1
 */
typedef int (*spn_fj_call_fn)(spn_fj fj, void *arg);
SPN_API int spn_fj_run(spn_fj_pool *pool, spn_fj_call_fn fn, void *arg);

/* Makes the tree that the body belongs to fail, unless it has; 0 is no failure.
 * Since 0.1 */
SPN_API void spn_fj_fail(spn_fj fj, int status);
/* SPN_OK, or why the tree has failed: SPN_ECANCELED if somebody cancelled its root,
 * SPN_ESHUTDOWN if the pool was stopped.  Since 0.1 */
SPN_API int spn_fj_status(spn_fj fj);

/* The slow ways of what is inline below; not to be called by themselves.  Since 0.1 */
SPN_API spn_fj spn_fj_fork_slow(spn_fj_record *record);
SPN_API uintptr_t spn_fj_join_slow(spn_fj_record *record);

#define SPN__FJ_INLINE      static inline __attribute__((unused, always_inline))
#define SPN__FJ_PLACE       spn_fj fj __attribute__((unused))
#define SPN__FJ_NOINLINE    __attribute__((noinline))
#define SPN__FJ_UNLIKELY(x) (__builtin_expect(!!(x), 0) != 0)

/* Test builds see these reads: see src/forkjoin/deque.h. */
#ifndef SPN__FJ_READ
#define SPN__FJ_READ(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#endif

SPN__FJ_INLINE spn_fj_piece *spn__fj_piece(const spn_fj_record *record)
{
    return (spn_fj_piece *)((uintptr_t)record & ~(uintptr_t)(SPN_FJ_PIECE - 1));
}

/* The record is written: lets it be taken, or not, and makes room for the next. */
SPN__FJ_INLINE void spn__fj_forked(spn_fj *fj)
{
    spn_fj_record *record = *fj;

    *fj = record + 1;
    if (SPN__FJ_UNLIKELY((uintptr_t)record >=
                         SPN__FJ_READ(spn__fj_piece(record)->fork_trap)))
        *fj = spn_fj_fork_slow(record);
}

/* The record forked last.  *done: somebody else has run it; otherwise it is for the
 * caller to run, and the record is free. */
SPN__FJ_INLINE spn_fj_record *spn__fj_unforked(spn_fj *fj, int *done)
{
    spn_fj_record *record = *fj - 1;

    *done = 0;
    if (SPN__FJ_UNLIKELY((uintptr_t)record <
                         SPN__FJ_READ(spn__fj_piece(record)->join_trap))) {
        const uintptr_t found = spn_fj_join_slow(record);

        *done = (int)(found & 1);
        record = (spn_fj_record *)(found & ~(uintptr_t)1);
    }
    *fj = record;
    return record;
}

/* About where the stack is; __builtin_frame_address would cost a frame pointer. */
SPN__FJ_INLINE uintptr_t spn__fj_stack(void)
{
#if defined(__x86_64__)
    uintptr_t at;

    __asm__ __volatile__("mov %%rsp, %0" : "=r"(at));
    return at;
#elif defined(__aarch64__)
    uintptr_t at;

    __asm__ __volatile__("mov %0, sp" : "=r"(at));
    return at;
#else
    return (uintptr_t)__builtin_frame_address(0);
#endif
}

/* Whether there is no room on it for another body. */
SPN__FJ_INLINE int spn__fj_deep(spn_fj fj)
{
    return SPN__FJ_UNLIKELY(spn__fj_stack() < spn__fj_piece(fj)->stack_low);
}

/*
 * The plain form: forks fn(arg), and joins what was forked last.
 *
 * Returns  join: what fn returned, or SPN_ENOMEM or 0 if it did not run for lack of
 *          stack or memory: the tree has failed then.  A status other than 0 is the
 *          caller's to see to: the tree goes on, unless it says spn_fj_fail.
 * Orders   what precedes fork happens-before fn, and fn before join returns.
 * Since    0.1
 */
struct spn__fj_plain {
    spn_fj_call_fn fn;
    void *arg;
    int status;
};

static inline int spn_fj_call(spn_fj fj, spn_fj_call_fn fn, void *arg)
{
    if (spn__fj_deep(fj)) {
        spn_fj_fail(fj, SPN_ENOMEM);
        return SPN_ENOMEM;
    }
    return fn(fj, arg);
}

/* Such a record's run. */
static inline void spn__fj_plain_run(spn_fj fj, spn_fj_record *self)
{
    struct spn__fj_plain *plain = (struct spn__fj_plain *)(void *)self->args.bytes;

    plain->status = spn_fj_call(fj, plain->fn, plain->arg);
}

static inline void spn_fj_fork(spn_fj *fj, spn_fj_call_fn fn, void *arg)
{
    struct spn__fj_plain *plain = (struct spn__fj_plain *)(void *)(*fj)->args.bytes;

    (*fj)->run = spn__fj_plain_run;
    plain->fn = fn;
    plain->arg = arg;
    plain->status = SPN_ENOMEM; /* unless it runs */
    spn__fj_forked(fj);
}

static inline int spn_fj_join(spn_fj *fj)
{
    int done;
    const spn_fj_record *record = spn__fj_unforked(fj, &done);
    const struct spn__fj_plain *plain =
        (const struct spn__fj_plain *)(const void *)record->args.bytes;

    return done ? plain->status : spn_fj_call(*fj, plain->fn, plain->arg);
}

/* ---- typed tasks ------------------------------------------------------------------------ */

/*
 * SPN_FJ_TASK(result, name, type, argument, ...) { body }   a recursive task
 * SPN_FJ_ACTION(name, type, argument, ...) { body }         one without a result
 *
 * with one to five arguments of SPN_FJ_ARGS_MAX bytes together, define, static:
 *
 *   result name(spn_fj fj, arguments)             calls it
 *   void name_fork(spn_fj *fj, arguments)         forks it
 *   result name_join(spn_fj *fj)                  joins what was forked last, which
 *                                                 must have been a `name`
 *   int name_invoke(spn_fj_pool *pool, result *out, arguments)
 *                                                 spn_fj_run; *out is written if it
 *                                                 gives SPN_OK.  An action has no out.
 *
 * Inside the body `fj` is its place.  A body that is not entered gives a zero result.
 *
 * SPN_FJ_TASK_LEAF(result, name, leaf, value, type, argument, ...) { body }
 * SPN_FJ_ACTION_LEAF(name, leaf, type, argument, ...) { body }
 *
 * do the same, and ask `leaf`, an expression of the arguments, where the task is called:
 * if it holds, the body is not called and `value` is the result.  Very small tasks take
 * half the time that way.
 *
 * For tasks that fork each other SPN_FJ_TASK_DECLARE and SPN_FJ_ACTION_DECLARE, with the
 * arguments of the first two and a semicolon, declare the first three functions; then
 * SPN_FJ_TASK_DEFINE and SPN_FJ_ACTION_DEFINE, with the arguments of the second two and
 * the body, follow.
 */
#define SPN_FJ_TASK(result, name, ...)              \
    SPN_FJ_TASK_DECLARE(result, name, __VA_ARGS__); \
    SPN_FJ_TASK_DEFINE(result, name, 0, name##_none(), __VA_ARGS__)
#define SPN_FJ_ACTION(name, ...)              \
    SPN_FJ_ACTION_DECLARE(name, __VA_ARGS__); \
    SPN_FJ_ACTION_DEFINE(name, 0, __VA_ARGS__)
#define SPN_FJ_TASK_LEAF(result, name, leaf, value, ...) \
    SPN_FJ_TASK_DECLARE(result, name, __VA_ARGS__);      \
    SPN_FJ_TASK_DEFINE(result, name, leaf, value, __VA_ARGS__)
#define SPN_FJ_ACTION_LEAF(name, leaf, ...)   \
    SPN_FJ_ACTION_DECLARE(name, __VA_ARGS__); \
    SPN_FJ_ACTION_DEFINE(name, leaf, __VA_ARGS__)

#define SPN_FJ_TASK_DECLARE(result, name, ...)                                       \
    union name##_args {                                                              \
        result out;                                                                  \
        struct name##_in {                                                           \
            SPN__FJ_STATEMENTS(SPN__FJ_MEMBER, __VA_ARGS__)                          \
        } in;                                                                        \
    };                                                                               \
    SPN__FJ_FITS(name);                                                              \
    SPN__FJ_INLINE result name##_none(void)                                          \
    {                                                                                \
        static union name##_args spn_none;                                           \
                                                                                     \
        return spn_none.out;                                                         \
    }                                                                                \
    SPN__FJ_INLINE result name(spn_fj fj, SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__)); \
    SPN__FJ_INLINE void name##_fork(spn_fj *fj,                                      \
                                    SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__));       \
    SPN__FJ_INLINE result name##_join(spn_fj *fj)

#define SPN_FJ_TASK_DEFINE(result, name, leaf, value, ...)                             \
    SPN__FJ_INLINE result name##_body(SPN__FJ_PLACE,                                   \
                                      SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__));       \
    static __attribute__((cold, noinline)) result name##_too_deep(spn_fj fj)           \
    {                                                                                  \
        spn_fj_fail(fj, SPN_ENOMEM);                                                   \
        return name##_none();                                                          \
    }                                                                                  \
    static SPN__FJ_NOINLINE result name##_enter(spn_fj fj, SPN__FJ_EACH(SPN__FJ_PARAM, \
                                                                        __VA_ARGS__))  \
    {                                                                                  \
        if (spn__fj_deep(fj))                                                          \
            return name##_too_deep(fj);                                                \
        return name##_body(fj, SPN__FJ_EACH(SPN__FJ_NAME, __VA_ARGS__));               \
    }                                                                                  \
    SPN__FJ_INLINE result name(spn_fj fj, SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__))    \
    {                                                                                  \
        if (leaf)                                                                      \
            return (value);                                                            \
        return name##_enter(fj, SPN__FJ_EACH(SPN__FJ_NAME, __VA_ARGS__));              \
    }                                                                                  \
    static void name##_run(spn_fj fj, spn_fj_record *spn_self)                         \
    {                                                                                  \
        union name##_args *spn_args =                                                  \
            (union name##_args *)(void *)spn_self->args.bytes;                         \
                                                                                       \
        spn_args->out = name(fj, SPN__FJ_EACH(SPN__FJ_FIELD, __VA_ARGS__));            \
    }                                                                                  \
    SPN__FJ_INLINE void name##_fork(spn_fj *fj,                                        \
                                    SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__))          \
    {                                                                                  \
        union name##_args *spn_args = (union name##_args *)(void *)(*fj)->args.bytes;  \
                                                                                       \
        (*fj)->run = name##_run;                                                       \
        SPN__FJ_STATEMENTS(SPN__FJ_STORE, __VA_ARGS__)                                 \
        spn__fj_forked(fj);                                                            \
    }                                                                                  \
    SPN__FJ_INLINE result name##_join(spn_fj *fj)                                      \
    {                                                                                  \
        int spn_done;                                                                  \
        const spn_fj_record *spn_record = spn__fj_unforked(fj, &spn_done);             \
        const union name##_args *spn_args =                                            \
            (const union name##_args *)(const void *)spn_record->args.bytes;           \
                                                                                       \
        if (SPN__FJ_UNLIKELY(spn_done))                                                \
            return spn_args->out;                                                      \
        return name(*fj, SPN__FJ_EACH(SPN__FJ_FIELD, __VA_ARGS__));                    \
    }                                                                                  \
    static int name##_root(spn_fj fj, void *spn_arg)                                   \
    {                                                                                  \
        union name##_args *spn_args = (union name##_args *)spn_arg;                    \
                                                                                       \
        spn_args->out = name(fj, SPN__FJ_EACH(SPN__FJ_FIELD, __VA_ARGS__));            \
        return 0;                                                                      \
    }                                                                                  \
    static __attribute__((                                                             \
        unused)) int name##_invoke(spn_fj_pool *spn_in, result *spn_out,               \
                                   SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__))           \
    {                                                                                  \
        union name##_args spn_all;                                                     \
        union name##_args *spn_args = &spn_all;                                        \
        int spn_rc;                                                                    \
                                                                                       \
        SPN__FJ_STATEMENTS(SPN__FJ_STORE, __VA_ARGS__)                                 \
        spn_rc = spn_fj_run(spn_in, name##_root, &spn_all);                            \
        if (spn_rc == 0 && spn_out != NULL)                                            \
            *spn_out = spn_all.out;                                                    \
        return spn_rc;                                                                 \
    }                                                                                  \
    SPN__FJ_INLINE result name##_body(SPN__FJ_PLACE,                                   \
                                      SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__))

#define SPN_FJ_ACTION_DECLARE(name, ...)                                           \
    union name##_args {                                                            \
        struct name##_in {                                                         \
            SPN__FJ_STATEMENTS(SPN__FJ_MEMBER, __VA_ARGS__)                        \
        } in;                                                                      \
    };                                                                             \
    SPN__FJ_FITS(name);                                                            \
    SPN__FJ_INLINE void name(spn_fj fj, SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__)); \
    SPN__FJ_INLINE void name##_fork(spn_fj *fj,                                    \
                                    SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__));     \
    SPN__FJ_INLINE void name##_join(spn_fj *fj)

#define SPN_FJ_ACTION_DEFINE(name, leaf, ...)                                         \
    SPN__FJ_INLINE void name##_body(SPN__FJ_PLACE,                                    \
                                    SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__));        \
    static SPN__FJ_NOINLINE void name##_enter(spn_fj fj, SPN__FJ_EACH(SPN__FJ_PARAM,  \
                                                                      __VA_ARGS__))   \
    {                                                                                 \
        if (spn__fj_deep(fj))                                                         \
            spn_fj_fail(fj, SPN_ENOMEM);                                              \
        else                                                                          \
            name##_body(fj, SPN__FJ_EACH(SPN__FJ_NAME, __VA_ARGS__));                 \
    }                                                                                 \
    SPN__FJ_INLINE void name(spn_fj fj, SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__))     \
    {                                                                                 \
        if (!(leaf))                                                                  \
            name##_enter(fj, SPN__FJ_EACH(SPN__FJ_NAME, __VA_ARGS__));                \
    }                                                                                 \
    static void name##_run(spn_fj fj, spn_fj_record *spn_self)                        \
    {                                                                                 \
        const union name##_args *spn_args =                                           \
            (const union name##_args *)(const void *)spn_self->args.bytes;            \
                                                                                      \
        name(fj, SPN__FJ_EACH(SPN__FJ_FIELD, __VA_ARGS__));                           \
    }                                                                                 \
    SPN__FJ_INLINE void name##_fork(spn_fj *fj,                                       \
                                    SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__))         \
    {                                                                                 \
        union name##_args *spn_args = (union name##_args *)(void *)(*fj)->args.bytes; \
                                                                                      \
        (*fj)->run = name##_run;                                                      \
        SPN__FJ_STATEMENTS(SPN__FJ_STORE, __VA_ARGS__)                                \
        spn__fj_forked(fj);                                                           \
    }                                                                                 \
    SPN__FJ_INLINE void name##_join(spn_fj *fj)                                       \
    {                                                                                 \
        int spn_done;                                                                 \
        const spn_fj_record *spn_record = spn__fj_unforked(fj, &spn_done);            \
        const union name##_args *spn_args =                                           \
            (const union name##_args *)(const void *)spn_record->args.bytes;          \
                                                                                      \
        if (!SPN__FJ_UNLIKELY(spn_done))                                              \
            name(*fj, SPN__FJ_EACH(SPN__FJ_FIELD, __VA_ARGS__));                      \
    }                                                                                 \
    static int name##_root(spn_fj fj, void *spn_arg)                                  \
    {                                                                                 \
        const union name##_args *spn_args = (const union name##_args *)spn_arg;       \
                                                                                      \
        name(fj, SPN__FJ_EACH(SPN__FJ_FIELD, __VA_ARGS__));                           \
        return 0;                                                                     \
    }                                                                                 \
    static __attribute__((unused)) int name##_invoke(spn_fj_pool *spn_in,             \
                                                     SPN__FJ_EACH(SPN__FJ_PARAM,      \
                                                                  __VA_ARGS__))       \
    {                                                                                 \
        union name##_args spn_all;                                                    \
        union name##_args *spn_args = &spn_all;                                       \
                                                                                      \
        SPN__FJ_STATEMENTS(SPN__FJ_STORE, __VA_ARGS__)                                \
        return spn_fj_run(spn_in, name##_root, &spn_all);                             \
    }                                                                                 \
    SPN__FJ_INLINE void name##_body(SPN__FJ_PLACE,                                    \
                                    SPN__FJ_EACH(SPN__FJ_PARAM, __VA_ARGS__))

/* The arguments come in pairs of a type and a name. */
#define SPN__FJ_PARAM(type, name)  type name
#define SPN__FJ_NAME(type, name)   name
#define SPN__FJ_FIELD(type, name)  spn_args->in.name
#define SPN__FJ_STORE(type, name)  spn_args->in.name = name;
#define SPN__FJ_MEMBER(type, name) type name;

#define SPN__FJ_COUNT(...)                                             SPN__FJ_COUNT_(__VA_ARGS__, 5, , 4, , 3, , 2, , 1, )
#define SPN__FJ_COUNT_(t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, n, ...) n
#define SPN__FJ_PASTE(a, b)                                            SPN__FJ_PASTE_(a, b)
#define SPN__FJ_PASTE_(a, b)                                           a##b

#define SPN__FJ_EACH(each, ...) \
    SPN__FJ_PASTE(SPN__FJ_EACH_, SPN__FJ_COUNT(__VA_ARGS__))(each, __VA_ARGS__)
#define SPN__FJ_EACH_1(each, type, name) each(type, name)
#define SPN__FJ_EACH_2(each, type, name, ...) \
    each(type, name), SPN__FJ_EACH_1(each, __VA_ARGS__)
#define SPN__FJ_EACH_3(each, type, name, ...) \
    each(type, name), SPN__FJ_EACH_2(each, __VA_ARGS__)
#define SPN__FJ_EACH_4(each, type, name, ...) \
    each(type, name), SPN__FJ_EACH_3(each, __VA_ARGS__)
#define SPN__FJ_EACH_5(each, type, name, ...) \
    each(type, name), SPN__FJ_EACH_4(each, __VA_ARGS__)

#define SPN__FJ_STATEMENTS(each, ...) \
    SPN__FJ_PASTE(SPN__FJ_STATE_, SPN__FJ_COUNT(__VA_ARGS__))(each, __VA_ARGS__)
#define SPN__FJ_STATE_1(each, type, name) each(type, name)
#define SPN__FJ_STATE_2(each, type, name, ...) \
    each(type, name) SPN__FJ_STATE_1(each, __VA_ARGS__)
#define SPN__FJ_STATE_3(each, type, name, ...) \
    each(type, name) SPN__FJ_STATE_2(each, __VA_ARGS__)
#define SPN__FJ_STATE_4(each, type, name, ...) \
    each(type, name) SPN__FJ_STATE_3(each, __VA_ARGS__)
#define SPN__FJ_STATE_5(each, type, name, ...) \
    each(type, name) SPN__FJ_STATE_4(each, __VA_ARGS__)

#ifdef __cplusplus
#define SPN__FJ_FITS(name)                                      \
    static_assert(sizeof(union name##_args) <= SPN_FJ_ARGS_MAX, \
                  "arguments and result of a task fit into its record")
#else
#define SPN__FJ_FITS(name)                                       \
    _Static_assert(sizeof(union name##_args) <= SPN_FJ_ARGS_MAX, \
                   "arguments and result of a task fit into its record")
#endif

/* ---- objects ------------------------------------------------------------------------------ */

/*
 * A task that is waited for, cancelled and completed by whoever knows it: a struct of
 * the caller's, which must last until it is done and nobody waits for it any more; if
 * somebody else than its body ends it while that runs, until that has returned, too.  A
 * body that ends its own task has joined what it forked, and does not touch it any more.
 *
 *   new -> done, once: normally, failed with a cause, or cancelled.
 *
 * fn returns 0: it is done normally, with whatever result was set; SPN_FJ_PENDING: it is
 * not done, somebody will complete it; anything else: failed, and that is the cause.
 */
typedef struct spn_fj_task spn_fj_task;
typedef int (*spn_fj_task_fn)(spn_fj fj, spn_fj_task *task);
#define SPN_FJ_PENDING 1

struct spn_fj_task {
    spn_task task; /* the library's from here */
    spn_fj_task_fn fn;
    void *result;
    void *home;
    void *runner;
    void *waiters[2];
    uint64_t sequence;
    uint32_t state;
    int32_t error;
    uint32_t lock;
    uint32_t interrupt;
    uint32_t running;
    uint32_t spare;
};

/* Makes a new task of the caller's memory, or of a task that is done and that nobody waits
 * for; fn may be NULL for one that is only ever completed by hand.  NULL is a no-op.
 * Since    0.1 */
SPN_API void spn_fj_task_init(spn_fj_task *task, spn_fj_task_fn fn);

/*
 * Into a pool: for a worker of the pool as fork, else into the submission queue.
 *
 * Returns  SPN_OK; SPN_EINVAL; SPN_EBUSY: it is queued already; SPN_EREJECTED: the pool
 *          is shut down; SPN_EAGAIN, SPN_ENOMEM: there is no thread and none can be
 *          made.  On error it has not been taken.
 * Orders   what precedes the call happens-before fn.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_fj_pool_submit(spn_fj_pool *pool, spn_fj_task *task);

/*
 * Puts the task into the queue of the worker that calls.
 * Returns  SPN_OK; SPN_EINVAL; SPN_EBUSY: it is queued already; SPN_ESTATE: the calling
 *          thread runs no task of a fork/join pool (there is no common pool).
 * Orders   what precedes fork happens-before fn.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_fj_task_fork(spn_fj_task *task);

/*
 * Waits until the task is done.  A worker runs it, if it has not started, or what it
 * has forked, meanwhile; when there is nothing of that to do it blocks, and another
 * thread stands in for it.
 *
 * join   not interruptible.
 * get    interruptible; stores the result in *result (may be NULL) on SPN_OK.  With a
 *        timeout of 0 it only looks.
 *
 * Returns  join: SPN_OK, the cause of its failure itself, SPN_ECANCELED.
 *          get: SPN_OK, SPN_EFAILED (spn_fj_task_error tells why), SPN_ECANCELED,
 *          SPN_ETIMEDOUT (it is not done), SPN_EINTR.
 *          Both: SPN_EINVAL (NULL), SPN_ENOMEM (no memory for the thread's record).
 * Orders   all that was done before it was completed happens-before the return.
 * Since    0.1
 */
SPN_API int spn_fj_task_join(spn_fj_task *task);
SPN_API SPN_NODISCARD
int spn_fj_task_get(spn_fj_task *task, void **result, int64_t timeout_ns);

/*
 * Runs the task here and now, unless it is done or somebody has started it, waits until
 * it is done and tells the outcome, as join.  Also outside of a pool: then its forks
 * are calls.
 * Since    0.1
 */
SPN_API int spn_fj_task_invoke(spn_fj_task *task);

/*
 * Forks all but the first, runs that, and joins the others: returns the first failure
 * met, when all are done; those that had not started then are cancelled.
 * Returns  as join; SPN_EINVAL (NULL, a NULL among them: nothing is run); SPN_EBUSY: one
 *          is queued elsewhere.
 * Since    0.1
 */
SPN_API int spn_fj_invoke_all(spn_fj_task *const *tasks, size_t count);

/*
 * Ends it, if it is not done: cancelled, with a result, or as failed with `error` (0
 * counts as SPN_EFAILED).  A task that has not started will not run; one that runs goes
 * on, and sees spn_fj_status; with `interrupt` its thread is interrupted, too.
 * Of a task that a pool has this is a call on that pool, which must not be destroyed
 * meanwhile.
 *
 * Returns  cancel: 1 if it is cancelled now, be it by an earlier call, else 0.  The
 *          others: 1 if this call ended it, else 0.  SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_fj_task_cancel(spn_fj_task *task, int interrupt);
SPN_API int spn_fj_task_complete(spn_fj_task *task, void *result);
SPN_API int spn_fj_task_complete_error(spn_fj_task *task, int error);

/* The cause if it failed, SPN_ECANCELED if it was cancelled, else SPN_OK.  Since 0.1 */
SPN_API int spn_fj_task_error(spn_fj_task *task);

/* What is or will be its result: for its body, and for whoever knows that it is done.
 * NULL if it has none, or failed.  Since 0.1 */
SPN_API void *spn_fj_task_result(spn_fj_task *task);
SPN_API void spn_fj_task_set_result(spn_fj_task *task, void *result);

#ifdef __cplusplus
}
#endif
#endif /* SPN_FORKJOIN_H */
