/* SPDX-License-Identifier: MIT */
/*
 * work_fifo.c - tasks that wait in the order in which they came.
 *
 * TWO LISTS
 *   each with its lock.  Those who push append to the inbox; those who take pop from
 *   the outbox and, when that is empty, move the whole inbox over in one step.  So a
 *   producer and a worker meet once per batch that piled up, and not once per task.
 *   Order is that of the inbox lock.  A task is unlinked from wherever it is in O(1),
 *   with both locks held.
 *
 *   Road not taken: workers that claim several tasks at once.  A short task behind a
 *   long one in one worker's batch would wait while others pass it: no FIFO any more.
 *   lanes.c does that, and more, for those who choose it.
 *
 * HAND-OFF  is a FIFO whose capacity is the number of workers that run no task: each
 *   task in it has a worker that is on its way to it.
 *
 * ORDERING
 *   [size] `pushed` and `popped` only grow.  Who wants the size reads popped first,
 *          with acquire, and then pushed: never negative, because the release of a
 *          pop comes after its push, by the locks that the task went through.
 *   [free] take lowers `free` before it raises popped (release); push reads popped
 *          (acquire) before `free`: it may find one free worker too few, never one
 *          too many.
 *
 * LOCKS  out_lock, then in_lock, which is the door (work.c); leaves below pool->lock.
 */
#include "exec/work_kinds.h"

#include "future/task.h"

void spn__work_fifo_init(struct spn__fifo *f)
{
    spn__lock_init(&f->in_lock);
    spn__list_init(&f->inbox);
    spn__init(&f->pushed, 0);
    spn__init(&f->newest, NULL);
    f->closed = false;
    f->seen_popped = 0;
    f->calls = f->spare = f->spent = NULL;
    f->row = NULL;
    f->lines_used = 0;
    f->spent_count = 0;
    spn__lock_init(&f->out_lock);
    spn__list_init(&f->outbox);
    spn__init(&f->popped, 0);
    spn__init(&f->fetched, 0);
}

/* Whether there is room; in_lock is held. */
static bool fifo_has_room(struct spn_pool *pool, struct spn__fifo *f, int64_t pushed,
                          int64_t capacity)
{
    if (pushed - f->seen_popped < capacity)
        return true;
    f->seen_popped = spn__load(&f->popped, acquire); /* [size] [free] */
    if (pool->handoff)
        capacity = spn__load(&pool->work.free, relaxed); /* [free] */
    return pushed - f->seen_popped < capacity;
}

/* Whether a task may come in; in_lock is held. */
static int fifo_admits(struct spn_pool *pool, struct spn__fifo *f, int64_t capacity)
{
    if (f->closed)
        return SPN_ESHUTDOWN;
    if (spn__pool_deserted(pool))
        return SPN_EAGAIN;
    /* relaxed: ours, the lock is held. */
    return fifo_has_room(pool, f, spn__load(&f->pushed, relaxed), capacity) ? SPN_OK
                                                                            : SPN_EFULL;
}

/* One more has come in; in_lock is held. */
static void fifo_pushed(struct spn__fifo *f, const spn_task *newest)
{
    spn__store(&f->newest, newest, relaxed); /* see fifo_fetch */
    /* relaxed, both: ours, the lock is held; [size] it orders it. */
    spn__store(&f->pushed, spn__load(&f->pushed, relaxed) + 1, relaxed);
}

static void fifo_append(struct spn__fifo *f, spn_task *task, uint32_t as)
{
    if (f->row != NULL)
        spn__row_end(f);
    spn__task_mark(task, as);
    spn__list_push_back(&f->inbox, spn__task_node(task));
    fifo_pushed(f, task->fn == spn__task_future_fn ? task : NULL);
}

int spn__work_fifo_push(struct spn_pool *pool, struct spn__fifo *f, spn_task *task,
                        uint32_t as, int64_t capacity)
{
    int rc;

    spn__lock(&f->in_lock);
    rc = fifo_admits(pool, f, capacity);
    if (rc == SPN_OK)
        fifo_append(f, task, as);
    spn__unlock(&f->in_lock);
    /* A call that finds it full comes here as a task. */
    if (__builtin_expect(rc == SPN_EFULL, 0) && spn__work_seems_full(pool))
        return spn__work_lift(pool, task);
    return rc;
}

int spn__work_fifo_push_call(struct spn_pool *pool, struct spn__fifo *f,
                             struct spn__entry call, int64_t capacity)
{
    struct spn__calls *fresh = NULL;
    int rc;

    for (;;) {
        spn__lock(&f->in_lock);
        rc = fifo_admits(pool, f, capacity);
        if (rc != SPN_OK || spn__calls_append(f, call))
            break;
        if (spn__calls_have_line(f, &fresh)) {
            spn__list_push_back(&f->inbox, spn__task_node(spn__row_begin(f, call)));
            break;
        }
        spn__unlock(&f->in_lock); /* the allocator may take its time */
        fresh = spn__calls_make();
        if (fresh == NULL)
            return SPN_ENOMEM;
    }
    if (rc == SPN_OK)
        fifo_pushed(f, NULL);
    spn__unlock(&f->in_lock);
    spn__free(fresh); /* another was faster, or it was refused after all */
    return rc;
}

/* Moves the inbox over; out_lock is held. */
static void fifo_fetch(struct spn__fifo *f)
{
    /* relaxed: a hint.  Where one task came at a time, its lines are on their way while
     * that of the lock is. */
    const spn_task *newest = spn__load(&f->newest, relaxed);

    if (newest != NULL)
        spn__task_fetch(newest);
    spn__lock(&f->in_lock);
    spn__list_splice(&f->outbox, &f->inbox);
    /* relaxed, both: the locks are held. */
    spn__store(&f->fetched, spn__load(&f->pushed, relaxed), relaxed);
    spn__row_end(f);
    spn__calls_reuse(f);
    spn__unlock(&f->in_lock);
}

static void fifo_popped(struct spn__fifo *f, int64_t by)
{
    /* relaxed: ours, the lock is held.  [size] [free] release: after the push, and
     * after the worker is no longer free. */
    spn__store(&f->popped, spn__load(&f->popped, relaxed) + by, release);
}

/* The first, NULL: there is none; out_lock is held. */
static spn_task *fifo_first(struct spn__fifo *f)
{
    if (spn__list_empty(&f->outbox))
        fifo_fetch(f);
    return spn__list_empty(&f->outbox) ? NULL
                                       : spn__node_task(spn__list_first(&f->outbox));
}

/* Whether something is in the outbox, without a look at the line that every push writes:
 * whoever pushes has it to itself until the outbox is empty.  A removal from the inbox
 * may make it say no: then `pushed` decides. */
static bool outbox_waits(struct spn__fifo *f)
{
    /* relaxed, both: a hint. */
    return spn__load(&f->fetched, relaxed) > spn__load(&f->popped, relaxed);
}

/* Takes a task out, from wherever it is; the lock of its list is held. */
static void fifo_unlink(spn_task *task)
{
    spn__list_remove(spn__task_node(task));
    spn__task_mark(task, SPN__TASK_TAKEN);
}

bool spn__work_fifo_take(struct spn__fifo *f, spn__free_count *free_workers,
                         struct spn__entry *entry)
{
    struct spn__calls *over = NULL;
    spn_task *task;

    if (!outbox_waits(f) && !spn__work_fifo_any(f))
        return false;
    spn__lock(&f->out_lock);
    if (spn__calls_pile_up(f)) { /* a long outbox: do not wait until it is empty */
        spn__lock(&f->in_lock);
        spn__calls_reuse(f);
        spn__unlock(&f->in_lock);
    }
    task = fifo_first(f);
    if (task != NULL) {
        struct spn__row *row = spn__row_of(task);

        if (row != NULL) {
            *entry = spn__row_take(f, row, &over);
        } else {
            fifo_unlink(task);
            *entry = (struct spn__entry){ spn__entry_task, task };
        }
        if (free_workers != NULL)
            (void)spn__fetch_sub(free_workers, 1, relaxed); /* [free] */
        fifo_popped(f, 1);
    }
    spn__unlock(&f->out_lock);
    spn__calls_free(over);
    return task != NULL;
}

spn_task *spn__work_fifo_take_task(struct spn__fifo *f)
{
    struct spn__calls *over = NULL;
    spn_task *task;

    spn__lock(&f->out_lock);
    task = fifo_first(f);
    if (task != NULL) {
        struct spn__row *row = spn__row_of(task);

        if (row != NULL) {
            task = spn__row_show(row, spn__row_first(row), SPN__TASK_TAKEN);
            spn__call_lend(f, task, &over);
        } else {
            fifo_unlink(task);
        }
        fifo_popped(f, 1);
    }
    spn__unlock(&f->out_lock);
    spn__calls_free(over);
    return task;
}

bool spn__work_fifo_remove(struct spn__fifo *f, spn_task *task, uint32_t as)
{
    struct spn__calls *over = NULL;
    bool removed;

    spn__lock(&f->out_lock);
    spn__lock(&f->in_lock);
    removed = spn__task_marked(task, as);
    if (removed) {
        if (spn__call_is_shown(task)) {
            spn__row_end(f); /* its row may be the last, and over */
            spn__call_lend(f, task, &over);
        } else {
            fifo_unlink(task);
        }
        fifo_popped(f, 1);
    }
    spn__unlock(&f->in_lock);
    spn__unlock(&f->out_lock);
    spn__calls_free(over);
    return removed;
}

/* The calls of a row that are wanted; out_lock is held. */
static int64_t collect_row(struct spn__fifo *f, struct spn__row *row, uint32_t as,
                           bool (*wanted)(spn_task *, const void *), const void *ctx,
                           struct spn__list *out, struct spn__calls **over)
{
    const uint32_t end = spn__row_count(row);
    int64_t count = 0;

    /* Those that are lent keep its block: it may be over, and is still there. */
    for (uint32_t n = spn__row_first(row); n < end; n++) {
        spn_task *task = spn__row_show(row, n, as);

        if (task == NULL || (wanted != NULL && !wanted(task, ctx)))
            continue;
        spn__call_lend(f, task, over);
        spn__list_push_back(out, spn__task_node(task));
        count++;
    }
    return count;
}

int64_t spn__work_fifo_collect(struct spn__fifo *f, uint32_t as,
                               bool (*wanted)(spn_task *, const void *),
                               const void *ctx, struct spn__list *out)
{
    struct spn__list_node *node, *following;
    struct spn__calls *over = NULL;
    int64_t count = 0;

    spn__lock(&f->out_lock);
    fifo_fetch(f);
    spn__list_each_safe (node, following, &f->outbox) {
        spn_task *task = spn__node_task(node);
        struct spn__row *row = spn__row_of(task);

        if (row != NULL) {
            count += collect_row(f, row, as, wanted, ctx, out, &over);
        } else if (wanted == NULL || wanted(task, ctx)) {
            fifo_unlink(task);
            spn__list_push_back(out, node);
            count++;
        }
    }
    fifo_popped(f, count);
    spn__unlock(&f->out_lock);
    spn__calls_free(over);
    return count;
}

/* The tasks that a node of the outbox stands for, into tasks[from...]; returns `from` and
 * how many they are. */
static int64_t show(spn_task *task, uint32_t as, spn_task **tasks, size_t capacity,
                    int64_t from)
{
    struct spn__row *row = spn__row_of(task);
    const uint32_t first = row != NULL ? spn__row_first(row) : 0;
    const uint32_t end = row != NULL ? spn__row_count(row) : 1;

    for (uint32_t n = first; n < end; n++) {
        if (row != NULL)
            task = spn__row_show(row, n, as);
        if (task == NULL)
            continue;
        if ((size_t)from < capacity)
            tasks[from] = task;
        from++;
    }
    return from;
}

int64_t spn__work_fifo_snapshot(struct spn__fifo *f, uint32_t as, spn_task **tasks,
                                size_t capacity)
{
    struct spn__list_node *node;
    int64_t count = 0;

    spn__lock(&f->out_lock);
    fifo_fetch(f);
    spn__list_each (node, &f->outbox)
        count = show(spn__node_task(node), as, tasks, capacity, count);
    spn__unlock(&f->out_lock);
    return count;
}
