/* SPDX-License-Identifier: MIT */
#ifndef SPN_SERIAL_H
#define SPN_SERIAL_H

#include <spindle/future.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Order over an executor that has none: tasks with the same key run one at a time, in
 * the order in which they came; tasks with different keys run side by side on the
 * threads of the executor below.
 *
 * Lifecycle   create -> execute... -> shutdown -> await -> destroy; shutdown is not
 *             needed if nothing is queued.  The executor below is borrowed, must
 *             outlive it, and is not shut down.
 * A key       takes memory only while it has tasks or is open.
 * Fairness    whoever runs the tasks of a key gives its thread back after `batch` of
 *             them and queues up again, so that a busy key does not keep others
 *             waiting.
 * A failure   of a task is logged as a warning and does not stop those behind it; nor
 *             does a task that ends its thread, a pool's.
 * Refused     if the executor below refuses a key's turn, the task that asked for it is
 *             refused with the same status; those that other threads added meanwhile are
 *             dropped with it if a second try fails too.
 * Threads     every call is safe from any thread, tasks included.
 * Waiting     a task that waits for a future of its own key waits for itself:
 *             spn_future_get gives SPN_EDEADLK.
 */
typedef struct spn_serial spn_serial;

/* Zero means default.  Append only. */
typedef struct spn_serial_opts {
    size_t size;    /* sizeof(spn_serial_opts), set by _INIT            */
    uint32_t batch; /* tasks of a key in one turn of a thread; 0: 64     */
    uint32_t reserved;
} spn_serial_opts;

#define SPN_SERIAL_OPTS_INIT           \
    {                                  \
        sizeof(spn_serial_opts), 0, 0, \
    }

/*
 * Creates one over `executor` in *out; opts may be NULL.
 * Returns  SPN_OK; SPN_EINVAL; SPN_ENOMEM.  On failure *out is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_serial_create(spn_serial **out, spn_executor *executor,
                      const spn_serial_opts *opts);

/*
 * Frees it; NULL is a no-op.  No other call on it may be under way.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing while tasks wait or run, a key is
 *          open, a thread is in await, or a stage of a future waits to run in it.
 * Since    0.1
 */
SPN_API int spn_serial_destroy(spn_serial *serial);

/* All of it as one executor, borrowed: its tasks have one order, that of a key of their
 * own.  shutdown, shutdown_now, await and state are those of all keys.  NULL for NULL.
 * Since 0.1 */
SPN_API spn_executor *spn_serial_executor(spn_serial *serial);

/*
 * As spn_executor_execute, behind all earlier tasks of the key.
 * Returns  what that returns; SPN_EREJECTED after shutdown; SPN_ENOMEM when the key had
 *          no tasks.
 * Orders   what precedes happens-before the task, and each task of a key before the
 *          next.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_serial_execute(spn_serial *serial, uint64_t key, spn_task *task);

/*
 * open:  a key as an executor in *out, for all that wants one (call, submit, stages,
 *        invoke_all, completion service); it keeps the key's memory, and execute then
 *        allocates nothing.  It cannot be shut down by itself.
 * close: ends that; tasks that wait run nevertheless.
 * Returns  open: SPN_OK, SPN_EINVAL, SPN_ENOMEM; close: SPN_OK, SPN_EINVAL (NULL, or
 *          not open).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_serial_open(spn_serial *serial, uint64_t key, spn_executor **out);
SPN_API int spn_serial_close(spn_serial *serial, spn_executor *executor);

#ifdef __cplusplus
}
#endif
#endif /* SPN_SERIAL_H */
