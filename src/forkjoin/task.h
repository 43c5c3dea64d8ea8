/* SPDX-License-Identifier: MIT */
/* task.h - an object from inside: the bits of its state and its words; see task.c. */
#ifndef SPN__FORKJOIN_TASK_H
#define SPN__FORKJOIN_TASK_H

#include "forkjoin/pool.h"

enum {
    NORMAL = 1,
    FAILED = 2,
    CANCELLED = 3,
    OUTCOME = 3,
    WAITERS = 4,
    STARTED = 8,
    CLAIMED = 16,
    HANDED = 32,   /* a queue has it, or who took it out                      */
    DEFERRED = 64, /* whoever has it is to set the outcome when it puts it down */
    HANDING = 128  /* somebody is about to hand it over                       */
};

enum { OUTCOME_SHIFT = 8 };

/* The words of the public struct, as what they are. */
typedef SPN__ATOMIC(uint32_t) spn__fj_state_word;
typedef SPN__ATOMIC(int32_t) spn__fj_error_word;
typedef SPN__ATOMIC(void *) spn__fj_result_word;
typedef SPN__ATOMIC(void *) spn__fj_runner_word;

_Static_assert(sizeof(struct spn__lock) == sizeof(uint32_t), "a task has room for it");
_Static_assert(sizeof(struct spn__waitq) == 2 * sizeof(void *), "and for its waiters");
_Static_assert(offsetof(spn_fj_task, task) == 0, "they are the same address");
_Static_assert(sizeof(spn_fj_task) <= 128, "two cache lines");

static inline spn__fj_state_word *spn__fj_state_of(spn_fj_task *t)
{
    return (spn__fj_state_word *)(void *)&t->state;
}
static inline spn__fj_error_word *spn__fj_error_of(spn_fj_task *t)
{
    return (spn__fj_error_word *)(void *)&t->error;
}
/* A body may set it while somebody else ends the task: atomic, and nothing comes with it
 * but the pointer.  relaxed everywhere: [outcome] comes after it. */
static inline spn__fj_result_word *spn__fj_result_of(spn_fj_task *t)
{
    return (spn__fj_result_word *)(void *)&t->result;
}
static inline spn__fj_runner_word *spn__fj_runner_of(spn_fj_task *t)
{
    return (spn__fj_runner_word *)(void *)&t->runner;
}
static inline spn__fj_sequence *spn__fj_sequence_of(spn_fj_task *t)
{
    return (spn__fj_sequence *)(void *)&t->sequence;
}
static inline struct spn__lock *spn__fj_lock_of(spn_fj_task *t)
{
    return (struct spn__lock *)(void *)&t->lock;
}
static inline struct spn__waitq *spn__fj_waiters_of(spn_fj_task *t)
{
    return (struct spn__waitq *)(void *)t->waiters;
}

/* 0, or the outcome; the task may be freed then [leave]. */
uint32_t spn__fj_outcome_of(spn_fj_task *t);
/* Only whether there is one: the task is not read afterwards. */
bool spn__fj_task_done(spn_fj_task *t);

/* Ends it; false: it was done already. */
bool spn__fj_task_end_normal(spn_fj_task *t);
bool spn__fj_task_end_failed(spn_fj_task *t, int error);

/* The task has left the queues, to be run or not: false, it is not to be run. */
bool spn__fj_put_down(spn_fj_task *t);

/* The same in one step with STARTED or CLAIMED, so that nobody can end the task, and free
 * it, in between: false, it is not the caller's and may be gone. */
bool spn__fj_take_up(spn_fj_task *t, uint32_t as);

/* Cancels it unless it is done or runs. */
void spn__fj_task_cancel_unstarted(spn_fj_task *t);

/* If the calling thread is in the task's body: it does not touch the task from here on,
 * for that may be freed when it is done. */
void spn__fj_let_go(spn_fj_task *t);

/* The function of every object's task. */
int spn__fj_run_by_executor(spn_task *task);

#endif /* SPN__FORKJOIN_TASK_H */
