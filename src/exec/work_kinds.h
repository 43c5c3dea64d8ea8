/* SPDX-License-Identifier: MIT */
/*
 * work_kinds.h - the kinds of work queue that are kept here, for work.c to choose from;
 * see work_fifo.c and work_heap.c.  Lanes are in work.h, because workers know them.
 */
#ifndef SPN__WORK_KINDS_H
#define SPN__WORK_KINDS_H

#include "exec/pool.h"
#include "exec/work.h"
#include "future/executor.h"

static inline bool spn__task_is_job(const spn_task *task)
{
    return (task->flags & SPN_TASK_JOB) != 0;
}

/* `queued` while a task waits here; an urgent one has the next number, one that waits
 * in a source of work the one after that.  Relaxed:
 * written and believed only under the lock of where it waits. */
static inline void spn__task_mark(spn_task *task, uint32_t as)
{
    spn__store(spn__task_queued(task), as, relaxed);
}

static inline bool spn__task_marked(spn_task *task, uint32_t as)
{
    return spn__load(spn__task_queued(task), relaxed) == as;
}

/* Taken out, not yet started: nobody's but the taker's. */
#define SPN__TASK_TAKEN 1u

/* Whether nobody would take out what is let in now.  A paused pool keeps tasks
 * without a worker: resume sees to one. */
static inline bool spn__pool_deserted(struct spn_pool *pool)
{
    /* relaxed, both: whoever makes it so holds the door. */
    return spn__ctl_count(spn__load(&pool->ctl, relaxed)) == 0 &&
           spn__load(&pool->paused, relaxed) == 0;
}

/* ---- work_fifo.c --------------------------------------------------------------- */

void spn__work_fifo_init(struct spn__fifo *f);
/* SPN_OK, and the task is marked; SPN_EFULL; SPN_ESHUTDOWN; SPN_EAGAIN (deserted). */
int spn__work_fifo_push(struct spn_pool *pool, struct spn__fifo *f, spn_task *task,
                        uint32_t as, int64_t capacity);
/* The next one, or NULL; free_workers (may be NULL) then has one less [free]. */
spn_task *spn__work_fifo_take(struct spn__fifo *f, spn__free_count *free_workers);
bool spn__work_fifo_remove(struct spn__fifo *f, spn_task *task, uint32_t as);
int64_t spn__work_fifo_collect(struct spn__fifo *f,
                               bool (*wanted)(spn_task *, const void *),
                               const void *ctx, struct spn__list *out);
/* Into tasks[from...]; returns `from` and how many wait. */
int64_t spn__work_fifo_snapshot(struct spn__fifo *f, spn_task **tasks, size_t capacity,
                                int64_t from);

static inline int64_t spn__work_fifo_size(struct spn__fifo *f)
{
    const int64_t popped = spn__load(&f->popped, acquire); /* [size] */

    return spn__load(&f->pushed, relaxed) - popped;
}

static inline bool spn__work_fifo_any(struct spn__fifo *f)
{
    /* relaxed: a hint, or ordered by the caller's fence. */
    return spn__load(&f->pushed, relaxed) != spn__load(&f->popped, relaxed);
}

/* ---- work_heap.c --------------------------------------------------------------- */

int spn__work_heap_push(struct spn_pool *pool, struct spn__heap *h, spn_task *task);
spn_task *spn__work_heap_take(struct spn__heap *h);
/* Not the first in order, but the one that came first. */
spn_task *spn__work_heap_take_oldest(struct spn__heap *h);
bool spn__work_heap_remove(struct spn__heap *h, spn_task *task, uint32_t as);
int64_t spn__work_heap_collect(struct spn__heap *h,
                               bool (*wanted)(spn_task *, const void *),
                               const void *ctx, struct spn__list *out);
int64_t spn__work_heap_snapshot(struct spn__heap *h, spn_task **tasks, size_t capacity,
                                int64_t from);

#endif /* SPN__WORK_KINDS_H */
