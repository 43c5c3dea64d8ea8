/* SPDX-License-Identifier: MIT */
#ifndef SPN_EXECUTOR_H
#define SPN_EXECUTOR_H

#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What runs tasks.  Every executor of the library gives out an spn_executor, and
 * a program can make its own: a struct that starts with one, and a table of
 * operations.  Two are here because they need no thread: one that runs a task in
 * the caller, and one that runs tasks when told to, for tests.
 */
typedef struct spn_executor spn_executor;
typedef struct spn_task spn_task;
struct spn_future;      /* future.h */
struct spn_future_opts; /* future.h */

/*
 * A task is a node embedded in the caller's own struct: an executor needs no node of its
 * own for it.
 *
 * Ownership   the memory is the caller's and must last until fn or drop has been
 *             entered; the executor does not touch the node after that, so either
 *             may free it or submit it again.
 * Exactly one of fn and drop is called for a task that was accepted, on a thread
 *             of the executor's choice, with no lock held.
 * pthread_exit  may be called in fn on a pool's worker only, and never in drop: see
 *             thread.h.
 */
struct spn_task {
    /* Runs the task: 0, or a failure, which the executor reports its own way. */
    int (*fn)(spn_task *task);
    /* Told instead of fn that it will not run, with the reason as a status
     * (SPN_ECANCELED, SPN_ESHUTDOWN, SPN_EREJECTED, ...).  May be NULL. */
    void (*drop)(spn_task *task, int reason);
    void *link[2];   /* the executor's while it has the task                 */
    uint32_t queued; /* 0 unless an executor has it: see SPN_EBUSY below     */
    uint32_t flags;  /* 0, or what the task is part of: see spn_job in pool.h */
};

/* spn_task.flags: the task is part of an invoke_all or invoke_any that still waits for
 * it.  spn_executor_shutdown_now cancels its future before it gives the task back, so
 * that whoever waits returns. */
#define SPN_TASK_AWAITED 2u

#define SPN_TASK_INIT(run, dropped)             \
    {                                           \
        (run), (dropped), { NULL, NULL }, 0, 0, \
    }

/* A function for spn_executor_call: 0, or a failure. */
typedef int (*spn_run_fn)(void *arg);

/*
 * Takes what an executor has given up without running it: it is the receiver's now, as
 * if it had never been accepted.  A task, to run (spn_task_run), drop (spn_task_drop), keep
 * or submit again; fn and arg are NULL then.  Or, with task NULL, the fn and arg of a
 * spn_executor_call.  Called in the order of the queue, with no lock held, on the thread that
 * called shutdown_now.
 */
typedef void (*spn_unrun_fn)(void *ctx, spn_task *task, spn_run_fn fn, void *arg);

/*
 * How an executor is made.  Only execute is required; where another is missing
 * (NULL, or `size` ends before it) the call gives SPN_ENOTSUP.  Append only.
 *
 * execute    takes a task or refuses it with a negative status; a task that it
 *            refuses it has not touched.  It must mark a task as queued, and refuse
 *            one that is, with spn_task_claim, and call spn_task_release right
 *            before fn or drop.
 * call       as execute, for executors that need no node for fn(arg).
 * shutdown, shutdown_now, await, remove   as the functions of that name below.
 * state      an spn_executor_state.
 * wait_begin, wait_end   around a wait for the outcome of a future that was submitted
 *            here, whether it has started or not, by a thread that is inside this
 *            executor (spn_executor_enter): wait_begin may run the task, add a
 *            thread, or refuse the wait (SPN_EDEADLK).  wait_end follows unless it
 *            refused.  Not for other threads, whose wait may outlast the executor.
 * new_task   makes the future of every submission (submit, invoke_all, invoke_any, the
 *            completion service) in place of spn_future_create_task, whose arguments
 *            it gets: a task future of that function, with options of its own as long
 *            as those of `opts`, which may be NULL, are heeded.
 * hold, release   around an execute by one who knows nothing of the executor's life, as
 *            does whoever completes a future that has a stage here: until release the
 *            executor does not come to its end, though the task may have run and somebody
 *            may await just that.  Both, or none.
 * attach, detach   around the life of a stage that waits to be executed here.  In between
 *            the executor may end, but must not be freed: its destroy says SPN_EBUSY.  A
 *            stage detaches before it is done, or after hold.  Both, or none.
 * lapsed     told, right before and right after, that a future which was submitted here
 *            gets its outcome from another than this executor: if its task still waits, it
 *            has nothing to do there.  The executor is kept from running or dropping the
 *            task during the calls.  Must not block.
 */
typedef struct spn_executor_ops {
    size_t size; /* sizeof(spn_executor_ops) */
    int (*execute)(spn_executor *executor, spn_task *task);
    int (*call)(spn_executor *executor, spn_run_fn fn, void *arg);
    int (*shutdown)(spn_executor *executor);
    int (*shutdown_now)(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                        int64_t *count);
    int (*await)(spn_executor *executor, int64_t timeout_ns);
    int (*state)(spn_executor *executor);
    int (*remove)(spn_executor *executor, spn_task *task);
    int (*wait_begin)(spn_executor *executor, spn_task *task);
    void (*wait_end)(spn_executor *executor);
    int (*new_task)(spn_executor *executor, struct spn_future **out,
                    int (*fn)(void *arg, void **result), void *arg,
                    const struct spn_future_opts *opts);
    void (*hold)(spn_executor *executor);
    void (*release)(spn_executor *executor);
    void (*attach)(spn_executor *executor);
    void (*detach)(spn_executor *executor);
    void (*lapsed)(spn_executor *executor);
} spn_executor_ops;

typedef enum spn_executor_state {
    SPN_EXECUTOR_RUNNING = 0,   /* takes tasks                                    */
    SPN_EXECUTOR_SHUTDOWN = 1,  /* takes none; those it has will run              */
    SPN_EXECUTOR_STOP = 2,      /* takes none, starts none, interrupts those that run */
    SPN_EXECUTOR_TIDYING = 3,   /* nothing runs; the terminated hook does         */
    SPN_EXECUTOR_TERMINATED = 4 /* done                                           */
} spn_executor_state;

struct spn_executor {
    const spn_executor_ops *ops; /* borrowed for the executor's life */
};

/*
 * Hands the task over, to run exactly once.  Whether this call may block or run
 * the task itself is the executor's to say.
 *
 * Returns  SPN_OK; SPN_EINVAL (a NULL, or a task without fn); SPN_EBUSY: it is
 *          queued already, here or elsewhere; what else the executor refuses with
 *          (SPN_EREJECTED, SPN_ESHUTDOWN, SPN_EFULL).  On error neither fn nor drop
 *          will be called.
 * Orders   what precedes execute happens-before fn or drop.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_executor_execute(spn_executor *executor, spn_task *task);

/*
 * Has fn(arg) run once, like a task that belongs to the executor: one allocation,
 * or none where the executor has a place for the two.  The same fn and arg may be
 * handed over any number of times.
 *
 * Returns  SPN_OK; SPN_EINVAL (executor or fn is NULL); SPN_ENOMEM; what the executor
 *          refuses with.  On error fn will not be called.
 * Orders   what precedes call happens-before fn.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_executor_call(spn_executor *executor, spn_run_fn fn, void *arg);

/*
 * The end of an executor, in three steps, of which only await blocks.
 *
 * shutdown      refuses new tasks from now on; those it has will run.  A second call
 *               changes nothing.
 * shutdown_now  the same, and no task is started any more: each that did not start
 *               is handed to unrun; with unrun NULL it is dropped with
 *               SPN_ESHUTDOWN.  Threads that run tasks are interrupted.  How many
 *               did not start in *count (may be NULL).  It allocates nothing, and
 *               unrun must not wait for the executor's end.
 * await         waits until nothing runs any more; interruptible.  SPN_OK,
 *               SPN_ETIMEDOUT, SPN_EINTR, or SPN_EDEADLK from a task of the executor.
 *               A timeout of 0 or less only looks.
 * state         an spn_executor_state: it only ever grows.
 *
 * Returns  also SPN_EINVAL (NULL) and SPN_ENOTSUP (the direct executor never ends).
 * Since    0.1
 */
SPN_API int spn_executor_shutdown(spn_executor *executor);
SPN_API int spn_executor_shutdown_now(spn_executor *executor, spn_unrun_fn unrun,
                                      void *ctx, int64_t *count);
SPN_API SPN_NODISCARD
int spn_executor_await(spn_executor *executor, int64_t timeout_ns);
SPN_API int spn_executor_get_state(spn_executor *executor);
SPN_API int spn_executor_is_shutdown(spn_executor *executor);   /* 1, 0 or negative */
SPN_API int spn_executor_is_terminated(spn_executor *executor); /* 1, 0 or negative */

/*
 * Takes a task back that has not started: it is the caller's again, and neither fn
 * nor drop will be called.
 * Returns  1; 0 if it is not queued there (it runs, has run, or never came);
 *          SPN_EINVAL; SPN_ENOTSUP.
 * Since    0.1
 */
SPN_API int spn_executor_remove(spn_executor *executor, spn_task *task);

/*
 * What an executor does with a task, for whoever got one back: run calls its fn and
 * returns what that returns; drop calls its drop with a negative reason, if it has
 * one.  The node may be gone afterwards.
 * Returns  run: the task's own result, or SPN_EINVAL (NULL, no fn, still queued).
 *          drop: SPN_OK, or SPN_EINVAL (the same, or a reason that is no failure).
 * Since    0.1
 */
SPN_API int spn_task_run(spn_task *task);
SPN_API int spn_task_drop(spn_task *task, int reason);

/*
 * For those who make an executor.  claim marks a task as queued; release unmarks
 * it; NULL is a no-op there.  Never block.
 * Returns  claim: SPN_OK; SPN_EBUSY if it was marked; SPN_EINVAL (NULL, no fn).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_task_claim(spn_task *task);
SPN_API void spn_task_release(spn_task *task);

/*
 * For executors with threads of their own: between enter and leave the calling
 * thread is inside the executor, which then hears of its waits (wait_begin).  A
 * thread may be inside several; leave ends the innermost.  The frame is the caller's
 * and is borrowed until leave, or until the thread ends.  Never block.
 * is_inside: 1 if the calling thread is inside that executor, else 0.
 *
 * Returns  SPN_OK; SPN_EINVAL (NULL); enter: SPN_ENOMEM (no memory for the calling
 *          thread's record); leave: SPN_ESTATE if that frame is not the innermost.
 * Since    0.1
 */
typedef struct spn_executor_frame {
    spn_executor *executor;
    struct spn_executor_frame *outer;
} spn_executor_frame;

SPN_API SPN_NODISCARD
int spn_executor_enter(spn_executor *executor, spn_executor_frame *frame);
SPN_API int spn_executor_leave(spn_executor_frame *frame);
SPN_API int spn_executor_is_inside(spn_executor *executor);

/*
 * The executor that runs each task in the thread that calls execute, before
 * execute returns.  It is there always and has no state.  A failure of fn is
 * logged as a warning.
 * Since    0.1
 */
SPN_API spn_executor *spn_executor_direct(void);

/*
 * An executor that runs nothing by itself: tasks wait, first come first served,
 * until a thread asks for one to be run.
 *
 * Lifecycle   create -> execute... and run... -> destroy
 * Threads     every call is safe from any thread.  Tasks run in the thread that
 *             called run, and may use the executor.
 * The end     it has all of shutdown, shutdown_now, await, state and remove, but
 *             no threads to interrupt: it ends when what waits has been run or
 *             dropped by hand.  It need not end before destroy.
 */
typedef struct spn_manual_executor spn_manual_executor;

/*
 * create: stores a manual executor in *out; on failure *out is NULL.
 * destroy: frees it; NULL is a no-op.
 * Returns  create: SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing while tasks wait or
 *          run.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_manual_executor_create(spn_manual_executor **out);
SPN_API int spn_manual_executor_destroy(spn_manual_executor *manual);

/* Its executor, borrowed: valid as long as it is.  NULL for NULL.  Since 0.1 */
SPN_API spn_executor *spn_manual_executor_executor(spn_manual_executor *manual);

/*
 * run:      runs up to at_most tasks, the one that has waited longest first, and
 *           returns when none waits.  Tasks that come meanwhile are run too, so
 *           INT64_MAX runs all there are.
 * drop_all: calls drop(task, reason) for each task that waits instead, and stores
 *           their number in *count (may be NULL); a task without drop just goes.
 *           reason is negative.
 * Returns  run: how many tasks it ran, 0 if none waited; SPN_EINVAL (NULL, at_most is
 *          negative).  drop_all: SPN_OK; SPN_EINVAL.
 * Since    0.1
 */
SPN_API int64_t spn_manual_executor_run(spn_manual_executor *manual, int64_t at_most);
SPN_API int spn_manual_executor_drop_all(spn_manual_executor *manual, int reason,
                                         size_t *count);

/* How many tasks wait, or 0 for NULL.  Never blocks.  Since 0.1 */
SPN_API size_t spn_manual_executor_pending(spn_manual_executor *manual);

#ifdef __cplusplus
}
#endif
#endif /* SPN_EXECUTOR_H */
