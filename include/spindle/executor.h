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

/*
 * A task is a node embedded in the caller's own struct: submitting one allocates
 * nothing.
 *
 * Ownership   the memory is the caller's and must last until fn or drop has been
 *             entered; the executor does not touch the node after that, so either
 *             may free it or submit it again.
 * Exactly one of fn and drop is called for a task that was accepted, on a thread
 *             of the executor's choice, with no lock held.
 */
struct spn_task {
    /* Runs the task: 0, or a failure, which the executor reports its own way. */
    int (*fn)(spn_task *task);
    /* Told instead of fn that it will not run, with the reason as a status
     * (SPN_ECANCELED, SPN_ESHUTDOWN, SPN_EREJECTED, ...).  May be NULL. */
    void (*drop)(spn_task *task, int reason);
    void *link[2];     /* the executor's while it has the task                 */
    uint32_t queued;   /* 0 unless an executor has it: see SPN_EBUSY below     */
    uint32_t reserved; /* 0                                                    */
};

#define SPN_TASK_INIT(run, dropped)             \
    {                                           \
        (run), (dropped), { NULL, NULL }, 0, 0, \
    }

/*
 * How an executor is made.  execute takes a task or refuses it with a negative
 * status; a task that it refuses it has not touched.  It must mark a task as
 * queued, and refuse one that is, with spn_task_claim, and call spn_task_release
 * right before fn or drop.  Append only.
 */
typedef struct spn_executor_ops {
    size_t size; /* sizeof(spn_executor_ops) */
    int (*execute)(spn_executor *executor, spn_task *task);
} spn_executor_ops;

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
 * For those who make an executor.  claim marks a task as queued; release unmarks
 * it; NULL is a no-op there.  Never block.
 * Returns  claim: SPN_OK; SPN_EBUSY if it was marked; SPN_EINVAL (NULL, no fn).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_task_claim(spn_task *task);
SPN_API void spn_task_release(spn_task *task);

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
 *             called run_one or run_all, and may use the executor.
 */
typedef struct spn_manual_executor spn_manual_executor;

/*
 * create: stores a manual executor in *out; on failure *out is NULL.
 * destroy: frees it; NULL is a no-op.
 * Returns  create: SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing while tasks wait.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_manual_executor_create(spn_manual_executor **out);
SPN_API int spn_manual_executor_destroy(spn_manual_executor *manual);

/* Its executor, borrowed: valid as long as it is.  NULL for NULL.  Since 0.1 */
SPN_API spn_executor *spn_manual_executor_executor(spn_manual_executor *manual);

/*
 * run_one: runs the task that has waited longest and stores what its fn returned
 *          in *status (may be NULL).
 * run_all: runs tasks until none waits, those that come meanwhile included, and
 *          stores how many it ran in *count (may be NULL).
 * drop_all: calls drop(task, reason) for each that waits instead, and counts the
 *          same way; a task without drop just goes.  reason is negative.
 * Returns  SPN_OK; SPN_EEMPTY (run_one: nothing waits); SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_manual_executor_run_one(spn_manual_executor *manual, int *status);
SPN_API int spn_manual_executor_run_all(spn_manual_executor *manual, size_t *count);
SPN_API int spn_manual_executor_drop_all(spn_manual_executor *manual, int reason,
                                         size_t *count);

/* How many tasks wait, or 0 for NULL.  Never blocks.  Since 0.1 */
SPN_API size_t spn_manual_executor_pending(spn_manual_executor *manual);

/*
 * From now on execute refuses with SPN_EREJECTED; tasks that wait stay.
 * Returns  SPN_OK, SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_manual_executor_close(spn_manual_executor *manual);

#ifdef __cplusplus
}
#endif
#endif /* SPN_EXECUTOR_H */
