/* SPDX-License-Identifier: MIT */
#ifndef SPN_TASK_LOCAL_H
#define SPN_TASK_LOCAL_H

#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Values of the task that is running: as thread-locals are of a thread, but each task
 * starts without any, and what it leaves behind is destroyed when it ends.
 *
 * A task run inside another (by a submitter whose pool was full, by a thread that helps
 * while it waits, by the direct executor) has values of its own; the outer one finds
 * its own again.
 *
 * The key is an object of the caller's, usually static, that lasts as long as any task
 * uses it:
 *
 *     static const spn_task_local buffer = { free };
 *     ...
 *     spn_task_local_set(&buffer, malloc(4096));
 *
 * Threads     a value belongs to the task; another thread never sees it.
 */
typedef struct spn_task_local {
    /* Called at the end of the task with a value that is not NULL, on the same thread,
     * after the task's function, the one set first first.  It may set values again:
     * they are destroyed in turn, up to SPN_TASK_LOCAL_ROUNDS times.  It must return.
     * NULL: nothing is called. */
    void (*destroy)(void *value);
} spn_task_local;

/* How often destructors may set values again; what is left then is logged and
 * forgotten. */
#define SPN_TASK_LOCAL_ROUNDS 4

/*
 * set: gives the key a value in the running task; the value before is not destroyed.
 *      NULL takes it away.  May allocate.
 * get: the value, or NULL.  Never blocks.
 * Returns  set: SPN_OK; SPN_EINVAL (key is NULL); SPN_ESTATE: the thread runs no task
 *          of an executor of the library; SPN_ENOMEM, and the value before stays.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_task_local_set(const spn_task_local *key, void *value);
SPN_API void *spn_task_local_get(const spn_task_local *key);

#ifdef __cplusplus
}
#endif
#endif /* SPN_TASK_LOCAL_H */
