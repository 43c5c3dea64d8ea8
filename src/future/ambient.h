/* SPDX-License-Identifier: MIT */
/*
 * ambient.h - what is around a task while it runs: the submitter's context
 * (context.c) and the values of the task itself (task_local.c).  For those who make
 * executors.
 *
 *   when a task is taken    spn__job_capture(task), or context = spn__context_capture()
 *                           for what is no spn_job; on failure, spn__job_forget
 *   on a thread that does   spn__ambient_worker(self) once; then around every task
 *   nothing but run tasks   spn__ambient_begin(self, context) ... spn__ambient_end(self)
 *   on any other thread     spn__ambient_push(&frame, context) ... _pop(&frame)
 *   not run after all       spn__job_forget(task), before it is released
 *
 * A context that was captured is a reference; begin and push take it over, end and pop
 * drop it.  When a task ends its worker's thread, the worker's root calls end for it.
 * Where nothing was captured or set, capture, begin and end are a test each.
 */
#ifndef SPN__AMBIENT_H
#define SPN__AMBIENT_H

#include <spindle/context.h>
#include <spindle/pool.h>

#include "sync/thread_record.h"

/* The current context, one reference more; NULL: there is none. */
static inline struct spn_context *spn__context_capture(void)
{
    struct spn_thread *self = spn__self_get();

    return self == NULL || self->ambient.context == NULL
               ? NULL
               : spn_context_ref(self->ambient.context);
}

/* ---- a context around a part of a task ------------------------------------------- */

struct spn__context_frame {
    struct spn_context *outer, *captured;
};

/* `self` is the calling thread's record; NULL (there was no memory for one): the part
 * runs without. */
static inline void spn__context_enter(struct spn__context_frame *frame,
                                      struct spn_thread *self,
                                      struct spn_context *captured)
{
    frame->captured = captured;
    frame->outer = NULL;
    if (self != NULL) {
        frame->outer = self->ambient.context;
        self->ambient.context = captured;
    }
}

static inline void spn__context_leave(struct spn__context_frame *frame,
                                      struct spn_thread *self)
{
    if (self != NULL)
        self->ambient.context = frame->outer;
    if (frame->captured != NULL)
        spn_context_unref(frame->captured);
}

/* ---- around a whole task ---------------------------------------------------------- */

/* The calling thread is one that runs tasks and nothing else. */
static inline void spn__ambient_worker(struct spn_thread *self)
{
    self->ambient.depth = 1;
}

static inline void spn__ambient_begin(struct spn_thread *self,
                                      struct spn_context *captured)
{
    if (captured != NULL) {
        self->ambient.context = self->ambient.captured = captured;
        self->ambient.used = true;
    }
}

/* Destroys the task's values, with its context still there, and then lets go of it. */
void spn__ambient_clear(struct spn_thread *self);

static inline void spn__ambient_end(struct spn_thread *self)
{
    if (self->ambient.used)
        spn__ambient_clear(self);
}

struct spn__ambient_frame {
    struct spn_thread *self;
    struct spn__ambient outer;
    struct spn_context *captured; /* only without a record */
};

void spn__ambient_push(struct spn__ambient_frame *frame, struct spn_context *captured);
void spn__ambient_pop(struct spn__ambient_frame *frame);

/* ---- the context of a job ----------------------------------------------------------- */

static inline spn_job *spn__job_of(spn_task *task)
{
    return (task->flags & SPN_TASK_JOB) != 0 ? (spn_job *)(void *)task : NULL;
}

/* The executor has claimed the task, and nobody else can see it yet. */
static inline void spn__job_capture(spn_task *task)
{
    spn_job *job = spn__job_of(task);

    if (job != NULL)
        job->context = spn__context_capture();
}

/* The task is about to run: what it has captured, for begin or push. */
static inline struct spn_context *spn__job_take(spn_task *task)
{
    spn_job *job = spn__job_of(task);
    struct spn_context *context = NULL;

    if (job != NULL) {
        context = (struct spn_context *)job->context;
        job->context = NULL;
    }
    return context;
}

/* The task will not run here. */
static inline void spn__job_forget(spn_task *task)
{
    struct spn_context *context = spn__job_take(task);

    if (context != NULL)
        spn_context_unref(context);
}

/* Runs a task that no executor has any more: its context, its values, its function;
 * whatever the thread is doing otherwise.  The node may be gone afterwards. */
int spn__task_run_here(spn_task *task);

/* The same for one that the executor still has: it is released when its context has been
 * taken.  Somebody else may submit it from then on, and have its own context in it. */
int spn__task_run_claimed(spn_task *task);

#endif /* SPN__AMBIENT_H */
