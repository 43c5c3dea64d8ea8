/* SPDX-License-Identifier: MIT */
/* executor.h - what those who make executors share; see executor.c. */
#ifndef SPN__EXECUTOR_H
#define SPN__EXECUTOR_H

#include <spindle/executor.h>

#include "sync/seam.h"
#include "sync/thread_record.h"

/* Whether the executor's table, of whatever age, has an operation. */
#define spn__executor_has(executor, op)                             \
    ((executor)->ops->size >=                                       \
         offsetof(spn_executor_ops, op) + sizeof(void (*)(void)) && \
     (executor)->ops->op != NULL)

/* Whether a thread, the calling one, is inside an executor.  Only compares: the
 * executor may be gone. */
static inline bool spn__thread_is_inside(const struct spn_thread *self,
                                         const spn_executor *executor)
{
    const spn_executor_frame *frame = self->executing;

    while (frame != NULL && frame->executor != executor)
        frame = frame->outer;
    return frame != NULL;
}

/* Calls a task's drop, if it has one; no exception comes out of it.  Unlike spn_task_drop it
 * does not look whether the task is queued: an executor releases a task before it drops
 * it, and somebody else may have submitted it again in between. */
void spn__task_drop_guarded(spn_task *task, int reason);

/* A task that the executor has claimed goes back to who submitted it, who may submit it
 * again from then on: dropped, or by the program's unrun, which spn__unrun_unwrap has
 * freed from its wrapping. */
void spn__task_discard(spn_task *task, int reason);
void spn__task_give_back(spn_task *task, spn_unrun_fn unrun, void *ctx);
/* The last step of give_back: a task of the library's own that stands for a call is freed,
 * and the call handed out. */
void spn__task_hand_out(spn_task *task, spn_unrun_fn unrun, void *ctx);

/* spn_task.flags: the task begins a spn__call_head, and its drop only frees it. */
#define SPN__TASK_CALL 0x20000000u
struct spn__call_head {
    spn_task task;
    spn_run_fn fn;
    void *arg;
};

/* A task of the library's own that calls fn(arg), or NULL: no memory.  It frees
 * itself when it is run or dropped. */
spn_task *spn__call_task_create(spn_run_fn fn, void *arg);

/*
 * What `queued` says of a task: 0, 1 from claim on, or a number of the executor's
 * own while it waits there.  Atomic in disguise: see executor.c.
 */
typedef SPN__ATOMIC(uint32_t) spn__queued_word;
static inline spn__queued_word *spn__task_queued(spn_task *task)
{
    return (spn__queued_word *)(void *)&task->queued;
}

/*
 * Tasks that executors give back.  Once a task is released anybody may submit it again,
 * so the executor must have parted from it before (spn__task_given_back).  Those of the
 * library do it themselves, and say so: remove with this instead of 1, shutdown_now by
 * calling the caller's own unrun, which unwrap finds.  For others it is done afterwards.
 */
enum { SPN__GIVEN_BACK = 2 };
void spn__unrun_unwrap(spn_unrun_fn *unrun, void **ctx);

#endif /* SPN__EXECUTOR_H */
