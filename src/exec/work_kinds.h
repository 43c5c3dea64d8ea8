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

/* `queued` while a task waits here; one that is kept beside a user's queue has the next
 * number, one that waits in a source of work the one after that.  Relaxed: written and
 * believed only under the lock of where it waits. */
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

/* Whether there is no worker to take out what is let in now. */
static inline bool spn__pool_deserted(struct spn_pool *pool)
{
    /* relaxed: a worker holds the door while it counts itself out. */
    return spn__ctl_count(spn__load(&pool->ctl, relaxed)) == 0;
}

/* Whether a push that found no room has only met the limit: work.c, TOO MANY. */
static inline bool spn__work_seems_full(struct spn_pool *pool)
{
    /* relaxed: a knob. */
    return spn__load(&pool->work.capacity, relaxed) == INT64_MAX;
}

/* ---- work_fifo.c --------------------------------------------------------------- */

void spn__work_fifo_init(struct spn__fifo *f);
/* SPN_OK, and the task is marked; SPN_EFULL; SPN_ESHUTDOWN; SPN_EAGAIN (deserted). */
int spn__work_fifo_push(struct spn_pool *pool, struct spn__fifo *f, spn_task *task,
                        uint32_t as, int64_t capacity);
/* The same for a function and its argument; also SPN_ENOMEM. */
int spn__work_fifo_push_call(struct spn_pool *pool, struct spn__fifo *f,
                             struct spn__entry call, int64_t capacity);
/* The next one, if there is one; free_workers (may be NULL) then has one less [free]. */
bool spn__work_fifo_take(struct spn__fifo *f, spn__free_count *free_workers,
                         struct spn__entry *entry);
/* The same as a task, also where it is a call; NULL: there is none. */
spn_task *spn__work_fifo_take_task(struct spn__fifo *f);
bool spn__work_fifo_remove(struct spn__fifo *f, spn_task *task, uint32_t as);
/* `as`: what a task that waits in this FIFO is marked with. */
int64_t spn__work_fifo_collect(struct spn__fifo *f, uint32_t as,
                               bool (*wanted)(spn_task *, const void *),
                               const void *ctx, struct spn__list *out);
/* How many wait, and the first of them into tasks. */
int64_t spn__work_fifo_snapshot(struct spn__fifo *f, uint32_t as, spn_task **tasks,
                                size_t capacity);

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

/* ---- work_calls.c: calls that wait in a FIFO ------------------------------------- */

struct spn__calls *spn__calls_make(void);
void spn__calls_free(struct spn__calls *list);
/* Nothing waits any more. */
void spn__calls_fini(struct spn__fifo *f);

/*
 * in_lock is held.
 *
 * append     a call to the last row; false: there is none, or it is full.
 * have_line  whether a row can begin, if need be with what *fresh brings (NULL then).
 * begin      a row with a first call: a node that is to be appended to the inbox.
 * end        no other call follows in the last row.
 */
bool spn__calls_append(struct spn__fifo *f, struct spn__entry call);
bool spn__calls_have_line(struct spn__fifo *f, struct spn__calls **fresh);
spn_task *spn__row_begin(struct spn__fifo *f, struct spn__entry call);
void spn__row_end(struct spn__fifo *f);

/*
 * out_lock is held, and the row is in the outbox; or both locks are.  What is to be freed
 * afterwards is put before *over.
 *
 * of     what a node of the lists is, if it is no task: a row; else NULL.
 * take   the first call of a row, which may be over then, and is unlinked.
 * first, count, show   calls of a row have the numbers from first to count - 1.  show
 *        makes call n a task that is marked as waiting; NULL: it is no longer there.
 * is_shown  whether a task that waits is a call.
 * lend   takes a shown one out: from now on it is a task like others.  The row may be
 *        over then.
 * reuse  with both locks: blocks that are over go to those who push, if these have none.
 * pile_up  whether it is time for that.
 */
struct spn__row *spn__row_of(spn_task *task);
struct spn__entry spn__row_take(struct spn__fifo *f, struct spn__row *row,
                                struct spn__calls **over);
uint32_t spn__row_first(const struct spn__row *row);
uint32_t spn__row_count(const struct spn__row *row);
spn_task *spn__row_show(struct spn__row *row, uint32_t n, uint32_t as);
bool spn__call_is_shown(const spn_task *task);
void spn__call_lend(struct spn__fifo *f, spn_task *task, struct spn__calls **over);
void spn__calls_reuse(struct spn__fifo *f);
bool spn__calls_pile_up(const struct spn__fifo *f);

/* ---- work_heap.c --------------------------------------------------------------- */

int spn__work_heap_push(struct spn_pool *pool, struct spn__heap *h, spn_task *task);
spn_task *spn__work_heap_take(struct spn__heap *h);
/* Not the first in order, but the one that came first. */
spn_task *spn__work_heap_take_oldest(struct spn__heap *h);
bool spn__work_heap_remove(struct spn__heap *h, spn_task *task, uint32_t as);
int64_t spn__work_heap_collect(struct spn__heap *h,
                               bool (*wanted)(spn_task *, const void *),
                               const void *ctx, struct spn__list *out);
int64_t spn__work_heap_snapshot(struct spn__heap *h, spn_task **tasks, size_t capacity);

#endif /* SPN__WORK_KINDS_H */
