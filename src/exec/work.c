/* SPDX-License-Identifier: MIT */
/*
 * work.c - where a pool's tasks wait.
 *
 * FIFO
 *   Two lists, each with its lock.  Those who push append to the inbox; those who
 *   take pop from the outbox and, when that is empty, move the whole inbox over in
 *   one step.  So a producer and a worker meet once per batch that piled up, and
 *   not once per task.  Order is that of the inbox lock.  A task is unlinked from
 *   wherever it is in O(1), with both locks held.
 *
 *   Road not taken: workers that claim several tasks at once.  A short task behind
 *   a long one in one worker's batch would wait while others pass it: no FIFO any
 *   more.  lanes.c does that, and more, for those who choose it.
 *
 * URGENT  a second FIFO in front, with a capacity of its own.
 *
 * PRIORITY  a binary heap of (key, sequence).  Ageing needs no re-sorting: a task
 *   that gains one priority per age_ns of waiting is, at any moment, ahead of
 *   another exactly if priority * age_ns - (time it came) is greater, which does
 *   not change while they wait.
 *
 * USER  a queue of the user's: workers wait in it (worker.c), and what it does with
 *   its items is its own affair.
 *
 * TIMED  tasks that wait until they are due, in a heap of the scheduled executor's
 *   (src/sched), which is reached through a table because it lies above.  Here "there
 *   are tasks" and "there is one to be had now" are two questions: the first decides
 *   whether a worker may leave and the pool may end, the second whether one looks.
 *   Until when the next one sleeps, and who, is in idle.c.
 *
 * THE DOOR
 *   A task must not be let in when nobody will take it out.  Both "the pool is
 *   closed" and "the last worker leaves" are decided with the lock of the inbox held
 *   (or the heap's), which is held by push anyway: it looks at `closed` and at the
 *   number of workers, and either is in before they are decided, and is then seen,
 *   or is refused.  No task is ever taken back after it was let in.  Lanes and
 *   users' queues have no such lock: there the order is made by fences [door]: push,
 *   light fence, look at the control word (submit.c); change the control word, heavy
 *   fence, look for work (worker.c, shutdown.c).
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
 * LOCKS  out_lock, then in_lock; all are leaves below pool->lock.  Nothing of the
 *   user's runs under them but a queue's own functions.
 */
#include "exec/pool.h"
#include "exec/work.h"

#include "base/assert.h"
#include "future/executor.h"
#include "future/task.h"

int spn__entry_task(void *task)
{
    (void)task;
    return SPN_EINVAL;
}

static struct spn__entry entry_of(spn_task *task)
{
    return (struct spn__entry){ spn__entry_task, task };
}

static bool is_job(const spn_task *task)
{
    return (task->flags & SPN_TASK_JOB) != 0;
}

static bool is_urgent(const spn_task *task)
{
    return is_job(task) && ((const spn_job *)(const void *)task)->urgent != 0;
}

/* `queued` while a task waits here; an urgent one has the next number, one that waits
 * in a source of work the one after that.  Relaxed:
 * written and believed only under the lock of where it waits. */
static void mark(spn_task *task, uint32_t as)
{
    spn__store(spn__task_queued(task), as, relaxed);
}

static bool marked(spn_task *task, uint32_t as)
{
    return spn__load(spn__task_queued(task), relaxed) == as;
}

/* Taken out, not yet started: nobody's but the taker's. */
#define TAKEN 1u

/* Whether nobody would take out what is let in now.  A paused pool keeps tasks
 * without a worker: resume sees to one. */
static bool deserted(struct spn_pool *pool)
{
    /* relaxed, both: whoever makes it so holds the door. */
    return spn__ctl_count(spn__load(&pool->ctl, relaxed)) == 0 &&
           spn__load(&pool->paused, relaxed) == 0;
}

/* ---- FIFO -------------------------------------------------------------------- */

static void fifo_init(struct spn__fifo *f)
{
    spn__lock_init(&f->in_lock);
    spn__list_init(&f->inbox);
    spn__init(&f->pushed, 0);
    spn__init(&f->newest, NULL);
    f->closed = false;
    f->seen_popped = 0;
    spn__lock_init(&f->out_lock);
    spn__list_init(&f->outbox);
    spn__init(&f->popped, 0);
}

static int64_t fifo_size(struct spn__fifo *f)
{
    const int64_t popped = spn__load(&f->popped, acquire); /* [size] */

    return spn__load(&f->pushed, relaxed) - popped;
}

static bool fifo_any(struct spn__fifo *f)
{
    /* relaxed: a hint, or ordered by the caller's fence. */
    return spn__load(&f->pushed, relaxed) != spn__load(&f->popped, relaxed);
}

/* Whether there is room; in_lock is held. */
static bool fifo_has_room(struct spn_pool *pool, struct spn__fifo *f, int64_t pushed,
                          int64_t capacity)
{
    if (pushed - f->seen_popped < capacity)
        return true;
    f->seen_popped = spn__load(&f->popped, acquire); /* [size] [free] */
    if (pool->handoff && f == &pool->work.fifo)
        capacity = spn__load(&pool->work.free, relaxed); /* [free] */
    return pushed - f->seen_popped < capacity;
}

static int fifo_push(struct spn_pool *pool, struct spn__fifo *f, spn_task *task,
                     uint32_t as, int64_t capacity)
{
    int64_t pushed;
    int rc = SPN_OK;

    spn__lock(&f->in_lock);
    pushed = spn__load(&f->pushed, relaxed); /* ours: the lock is held */
    if (f->closed)
        rc = SPN_ESHUTDOWN;
    else if (deserted(pool))
        rc = SPN_EAGAIN;
    else if (!fifo_has_room(pool, f, pushed, capacity))
        rc = SPN_EFULL;
    if (rc == SPN_OK) {
        mark(task, as);
        spn__list_push_back(&f->inbox, spn__task_node(task));
        /* relaxed: see fifo_fetch. */
        spn__store(&f->newest, task->fn == spn__task_future_fn ? task : NULL, relaxed);
        spn__store(&f->pushed, pushed + 1, relaxed); /* [size] the lock orders it */
    }
    spn__unlock(&f->in_lock);
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
    spn__unlock(&f->in_lock);
}

static void fifo_popped(struct spn__fifo *f, int64_t by)
{
    /* relaxed: ours, the lock is held.  [size] [free] release: after the push, and
     * after the worker is no longer free. */
    spn__store(&f->popped, spn__load(&f->popped, relaxed) + by, release);
}

static spn_task *fifo_take(struct spn__fifo *f, spn__free_count *free_workers)
{
    struct spn__list_node *node;
    spn_task *task = NULL;

    if (!fifo_any(f))
        return NULL;
    spn__lock(&f->out_lock);
    if (spn__list_empty(&f->outbox))
        fifo_fetch(f);
    node = spn__list_pop_front(&f->outbox);
    if (node != NULL) {
        task = spn__node_task(node);
        mark(task, TAKEN);
        if (free_workers != NULL)
            (void)spn__fetch_sub(free_workers, 1, relaxed); /* [free] */
        fifo_popped(f, 1);
    }
    spn__unlock(&f->out_lock);
    return task;
}

static bool fifo_remove(struct spn__fifo *f, spn_task *task, uint32_t as)
{
    bool removed;

    spn__lock(&f->out_lock);
    spn__lock(&f->in_lock);
    removed = marked(task, as);
    if (removed) {
        spn__list_remove(spn__task_node(task));
        mark(task, TAKEN);
        fifo_popped(f, 1);
    }
    spn__unlock(&f->in_lock);
    spn__unlock(&f->out_lock);
    return removed;
}

static int64_t fifo_collect(struct spn__fifo *f,
                            bool (*wanted)(spn_task *, const void *), const void *ctx,
                            struct spn__list *out)
{
    struct spn__list_node *node, *following;
    int64_t count = 0;

    spn__lock(&f->out_lock);
    fifo_fetch(f);
    spn__list_each_safe (node, following, &f->outbox) {
        if (wanted != NULL && !wanted(spn__node_task(node), ctx))
            continue;
        spn__list_remove(node);
        mark(spn__node_task(node), TAKEN);
        spn__list_push_back(out, node);
        count++;
    }
    fifo_popped(f, count);
    spn__unlock(&f->out_lock);
    return count;
}

static int64_t fifo_snapshot(struct spn__fifo *f, spn_task **tasks, size_t capacity,
                             int64_t from)
{
    struct spn__list_node *node;

    spn__lock(&f->out_lock);
    fifo_fetch(f);
    spn__list_each (node, &f->outbox) {
        if ((size_t)from < capacity)
            tasks[from] = spn__node_task(node);
        from++;
    }
    spn__unlock(&f->out_lock);
    return from;
}

/* ---- priorities ----------------------------------------------------------------- */

static bool ahead(const struct spn__heap_entry *a, const struct spn__heap_entry *b)
{
    return a->key != b->key ? a->key > b->key : a->sequence < b->sequence;
}

static void heap_place(struct spn__heap *h, size_t at, struct spn__heap_entry e)
{
    h->entries[at] = e;
    e.task->link[0] = (void *)at;
}

static void heap_up(struct spn__heap *h, size_t at, struct spn__heap_entry e)
{
    for (; at > 0 && ahead(&e, &h->entries[(at - 1) / 2]); at = (at - 1) / 2)
        heap_place(h, at, h->entries[(at - 1) / 2]);
    heap_place(h, at, e);
}

static void heap_down(struct spn__heap *h, size_t at, struct spn__heap_entry e)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= h->used)
            break;
        if (child + 1 < h->used && ahead(&h->entries[child + 1], &h->entries[child]))
            child++;
        if (!ahead(&h->entries[child], &e))
            break;
        heap_place(h, at, h->entries[child]);
        at = child;
    }
    heap_place(h, at, e);
}

/* Takes the entry at a place out; the lock is held. */
static spn_task *heap_cut(struct spn__heap *h, size_t at)
{
    spn_task *task = h->entries[at].task;
    struct spn__heap_entry last = h->entries[--h->used];

    if (at < h->used) {
        if (at > 0 && ahead(&last, &h->entries[(at - 1) / 2]))
            heap_up(h, at, last);
        else
            heap_down(h, at, last);
    }
    mark(task, TAKEN);
    /* relaxed read: ours.  [size] */
    spn__store(&h->popped, spn__load(&h->popped, relaxed) + 1, release);
    return task;
}

static bool heap_grow(struct spn__heap *h)
{
    const size_t room = h->room == 0 ? 64 : h->room * 2;
    struct spn__heap_entry *entries;

    if (room > SIZE_MAX / sizeof *entries)
        return false;
    entries = spn__alloc(room * sizeof *entries);
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < h->used; i++)
        entries[i] = h->entries[i];
    spn__free(h->entries);
    h->entries = entries;
    h->room = room;
    return true;
}

static int64_t heap_key(struct spn_pool *pool, const spn_task *task)
{
    const int64_t priority =
        is_job(task) ? ((const spn_job *)(const void *)task)->priority : 0;
    int64_t key;

    if (pool->work.age_ns == 0)
        return priority;
    if (__builtin_mul_overflow(priority, pool->work.age_ns, &key) ||
        __builtin_sub_overflow(key, spn__now(), &key))
        return priority < 0 ? INT64_MIN : INT64_MAX;
    return key;
}

static int heap_push(struct spn_pool *pool, struct spn__heap *h, spn_task *task)
{
    const int64_t key = heap_key(pool, task);
    int rc = SPN_OK;

    spn__lock(&h->lock);
    if (h->closed)
        rc = SPN_ESHUTDOWN;
    else if (deserted(pool))
        rc = SPN_EAGAIN;
    else if ((int64_t)h->used >= spn__load(&pool->work.capacity, relaxed))
        rc = SPN_EFULL;
    else if (h->used == h->room && !heap_grow(h))
        rc = SPN_ENOMEM;
    if (rc == SPN_OK) {
        mark(task, pool->id);
        h->used++;
        heap_up(h, h->used - 1, (struct spn__heap_entry){ key, h->sequence++, task });
        spn__store(&h->pushed, h->sequence, relaxed); /* [size] the lock orders it */
    }
    spn__unlock(&h->lock);
    return rc;
}

static spn_task *heap_take(struct spn__heap *h)
{
    spn_task *task = NULL;

    spn__lock(&h->lock);
    if (h->used > 0)
        task = heap_cut(h, 0);
    spn__unlock(&h->lock);
    return task;
}

static spn_task *heap_take_oldest(struct spn__heap *h)
{
    spn_task *task = NULL;
    size_t oldest = 0;

    spn__lock(&h->lock);
    for (size_t i = 1; i < h->used; i++)
        if (h->entries[i].sequence < h->entries[oldest].sequence)
            oldest = i;
    if (h->used > 0)
        task = heap_cut(h, oldest);
    spn__unlock(&h->lock);
    return task;
}

static bool heap_remove(struct spn__heap *h, spn_task *task, uint32_t as)
{
    bool removed;

    spn__lock(&h->lock);
    removed = marked(task, as);
    if (removed)
        (void)heap_cut(h, (size_t)task->link[0]);
    spn__unlock(&h->lock);
    return removed;
}

/* Puts the entries in order, which is a heap as well; the lock is held. */
static void heap_sort(struct spn__heap *h)
{
    const size_t count = h->used;

    /* Heap sort, which leaves the first in order last... */
    while (h->used > 0) {
        const struct spn__heap_entry first = h->entries[0];
        const struct spn__heap_entry last = h->entries[--h->used];

        if (h->used > 0)
            heap_down(h, 0, last);
        h->entries[h->used] = first;
    }
    /* ...so turn it round. */
    for (size_t i = 0, j = count; i < count; i++) {
        const struct spn__heap_entry e = h->entries[i];

        if (i >= --j) {
            heap_place(h, i, e);
            continue;
        }
        heap_place(h, i, h->entries[j]);
        heap_place(h, j, e);
    }
    h->used = count;
}

static int64_t heap_collect(struct spn__heap *h,
                            bool (*wanted)(spn_task *, const void *), const void *ctx,
                            struct spn__list *out)
{
    int64_t count = 0;
    size_t kept = 0;

    spn__lock(&h->lock);
    heap_sort(h);
    for (size_t i = 0; i < h->used; i++) {
        spn_task *task = h->entries[i].task;

        if (wanted != NULL && !wanted(task, ctx)) {
            heap_place(h, kept++, h->entries[i]);
            continue;
        }
        mark(task, TAKEN);
        spn__list_push_back(out, spn__task_node(task));
        count++;
    }
    h->used = kept;
    /* relaxed read: ours.  [size] */
    spn__store(&h->popped, spn__load(&h->popped, relaxed) + count, release);
    spn__unlock(&h->lock);
    return count;
}

static int64_t heap_snapshot(struct spn__heap *h, spn_task **tasks, size_t capacity,
                             int64_t from)
{
    spn__lock(&h->lock);
    heap_sort(h);
    for (size_t i = 0; i < h->used; i++, from++)
        if ((size_t)from < capacity)
            tasks[from] = h->entries[i].task;
    spn__unlock(&h->lock);
    return from;
}

/* ---- all of them ------------------------------------------------------------------ */

int spn__work_init(struct spn_pool *pool, const spn_pool_opts *opts, int64_t capacity)
{
    struct spn__work_queue *work = &pool->work;

    spn__init(&work->capacity, capacity);
    work->urgent_capacity = opts->urgent_capacity == 0 ? 64 : opts->urgent_capacity;
    work->age_ns = opts->age_ns;
    work->queue = opts->queue;
    if (work->source != NULL)
        work->source->pool = pool;
    spn__init(&work->given, 0);
    spn__init(&work->found, 0);
    spn__init(&work->free, 0);
    fifo_init(&work->urgent);
    fifo_init(&work->fifo);
    spn__lock_init(&work->heap.lock);
    work->heap.closed = false;
    work->heap.entries = NULL;
    work->heap.room = work->heap.used = 0;
    work->heap.sequence = 0;
    spn__init(&work->heap.pushed, 0);
    spn__init(&work->heap.popped, 0);
    work->lanes = NULL;
    if (pool->kind == SPN__WORK_LANES)
        return spn__lanes_create(&work->lanes, pool->id);
    return SPN_OK;
}

void spn__work_fini(struct spn_pool *pool)
{
    if (pool->work.lanes != NULL)
        spn__lanes_destroy(pool->work.lanes);
    spn__free(pool->work.heap.entries);
}

/* ---- a queue of the user's ---------------------------------------------------------- */

/* Counted when it is in, or by its end if that comes first: see add_up in pool.c. */
static int user_push(struct spn_pool *pool, spn_task *task)
{
    int rc;

    mark(task, pool->id);
    rc = spn_queue_offer(pool->work.queue, task);
    if (rc == 1) {
        (void)spn__fetch_add(&pool->work.given, 1, relaxed); /* only counts */
        return SPN_OK;
    }
    mark(task, TAKEN);
    return rc == 0 ? SPN_EFULL : rc;
}

void spn__work_uncount_user(struct spn_pool *pool)
{
    (void)spn__fetch_sub(&pool->work.given, 1, relaxed); /* only counts */
}

/* One that the user put there himself counts from now on. */
void spn__work_taken_from_user(struct spn_pool *pool, spn_task *task)
{
    if (!marked(task, pool->id))
        (void)spn__fetch_add(&pool->work.found, 1, relaxed); /* only counts */
    mark(task, TAKEN);
}

static spn_task *user_take(struct spn_pool *pool)
{
    spn_task *task = spn_queue_poll(pool->work.queue);

    if (task != NULL)
        spn__work_taken_from_user(pool, task);
    return task;
}

int spn__work_push(struct spn_pool *pool, spn_task *task)
{
    struct spn__work_queue *work = &pool->work;

    if (is_urgent(task))
        return fifo_push(pool, &work->urgent, task, pool->id + 1,
                         work->urgent_capacity);
    switch (pool->kind) {
    case SPN__WORK_LANES:
        return deserted(pool) ? SPN_EAGAIN
                              : spn__lanes_push(work->lanes, entry_of(task));
    case SPN__WORK_PRIORITY:
        return heap_push(pool, &work->heap, task);
    case SPN__WORK_USER:
        return user_push(pool, task);
    case SPN__WORK_TIMED: /* never here: see spn__pool_execute_at */
        return SPN_ESTATE;
    default:
        /* relaxed: a knob. */
        return fifo_push(pool, &work->fifo, task, pool->id,
                         spn__load(&work->capacity, relaxed));
    }
}

bool spn__work_be_busy(struct spn_pool *pool, struct spn__worker *worker)
{
    struct spn__fifo *f = &pool->work.fifo;
    bool spare;

    if (!worker->free)
        return true;
    spn__lock(&f->out_lock);
    spn__lock(&f->in_lock);
    /* relaxed, all: written under the locks, but for `free`, which others raise. */
    spare = spn__load(&f->pushed, relaxed) - spn__load(&f->popped, relaxed) <
            spn__load(&pool->work.free, relaxed);
    if (spare) {
        (void)spn__fetch_sub(&pool->work.free, 1, relaxed); /* [free] under the locks */
        worker->free = false;
    }
    spn__unlock(&f->in_lock);
    spn__unlock(&f->out_lock);
    return spare;
}

bool spn__work_take_urgent(struct spn_pool *pool, struct spn__entry *entry)
{
    spn_task *task = fifo_take(&pool->work.urgent, NULL);

    if (task == NULL)
        return false;
    *entry = entry_of(task);
    spn__room_notify_urgent(&pool->room);
    return true;
}

static bool timed_take(struct spn_pool *pool, struct spn__entry *entry)
{
    struct spn__work_source *source = pool->work.source;
    bool last = false;

    if (!source->ops->take(source, entry, &last))
        return false;
    if (last && spn__pool_may_shrink(pool)) { /* those that stayed for it may go now */
        spn__lock(&pool->lock);
        spn__idle_look_around(pool);
        spn__unlock(&pool->lock);
    }
    return true;
}

bool spn__work_take(struct spn_pool *pool, struct spn__worker *worker,
                    struct spn__entry *entry)
{
    struct spn__work_queue *work = &pool->work;
    bool more = false;
    spn_task *task;

    switch (pool->kind) {
    case SPN__WORK_LANES:
        if (!spn__lanes_take(work->lanes, worker, entry, &more))
            return false;
        if (more)
            spn__idle_notify(pool);
        return true;
    case SPN__WORK_PRIORITY:
        task = heap_take(&work->heap);
        break;
    case SPN__WORK_USER:
        task = user_take(pool);
        break;
    case SPN__WORK_TIMED:
        return timed_take(pool, entry);
    case SPN__WORK_STEAL:
        if (work->stealing->take_own(work->stealing, worker, entry))
            return true;
        task = fifo_take(&work->fifo, NULL);
        if (task == NULL)
            return work->stealing->take_other(work->stealing, worker, entry);
        break;
    default:
        task = fifo_take(&work->fifo, pool->handoff ? &work->free : NULL);
        if (task != NULL)
            worker->free = false;
        break;
    }
    if (task == NULL)
        return false;
    *entry = entry_of(task);
    spn__room_notify(&pool->room);
    return true;
}

bool spn__work_any_urgent(struct spn_pool *pool)
{
    return fifo_any(&pool->work.urgent);
}

bool spn__work_any(struct spn_pool *pool)
{
    struct spn__work_queue *work = &pool->work;

    if (fifo_any(&work->urgent))
        return true;
    switch (pool->kind) {
    case SPN__WORK_LANES:
        return spn__lanes_any(work->lanes);
    case SPN__WORK_PRIORITY:
        /* relaxed: as fifo_any. */
        return spn__load(&work->heap.pushed, relaxed) !=
               spn__load(&work->heap.popped, relaxed);
    case SPN__WORK_USER:
        return spn_queue_size(work->queue) > 0;
    case SPN__WORK_TIMED:
        /* relaxed: as fifo_any. */
        return spn__load(&work->source->pushed, relaxed) !=
               spn__load(&work->source->popped, relaxed);
    case SPN__WORK_STEAL:
        return fifo_any(&work->fifo) || work->stealing->any(work->stealing);
    default:
        return fifo_any(&work->fifo);
    }
}

bool spn__work_ready(struct spn_pool *pool)
{
    struct spn__work_source *source = pool->work.source;

    if (pool->kind != SPN__WORK_TIMED)
        return spn__work_any(pool);
    return fifo_any(&pool->work.urgent) || source->ops->next_ns(source) == INT64_MIN;
}

int64_t spn__work_size(struct spn_pool *pool)
{
    struct spn__work_queue *work = &pool->work;
    int64_t size = fifo_size(&work->urgent), popped;

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return size + spn__lanes_size(work->lanes);
    case SPN__WORK_PRIORITY:
        popped = spn__load(&work->heap.popped, acquire); /* [size] */
        return size + spn__load(&work->heap.pushed, relaxed) - popped;
    case SPN__WORK_USER:
        return size + spn_queue_size(work->queue);
    case SPN__WORK_TIMED:
        popped = spn__load(&work->source->popped, acquire); /* [size] */
        return size + spn__load(&work->source->pushed, relaxed) - popped;
    case SPN__WORK_STEAL:
        return size + fifo_size(&work->fifo) + work->stealing->size(work->stealing);
    default:
        return size + fifo_size(&work->fifo);
    }
}

int64_t spn__work_pushed(struct spn_pool *pool)
{
    struct spn__work_queue *work = &pool->work;
    /* relaxed, all: those that have met their fate are in it [count]. */
    int64_t pushed = spn__load(&work->urgent.pushed, relaxed);

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return pushed + spn__lanes_pushed(work->lanes);
    case SPN__WORK_PRIORITY:
        return pushed + spn__load(&work->heap.pushed, relaxed);
    case SPN__WORK_USER:
        pushed += spn__load(&work->given, relaxed);
        return pushed + spn__load(&work->found, relaxed);
    case SPN__WORK_TIMED:
        return pushed + spn__load(&work->source->pushed, relaxed);
    case SPN__WORK_STEAL:
        pushed += spn__load(&work->fifo.pushed, acquire); /* [size] */
        return pushed + work->stealing->pushed(work->stealing);
    default:
        return pushed + spn__load(&work->fifo.pushed, relaxed);
    }
}

void spn__work_door_lock(struct spn_pool *pool)
{
    spn__lock(&pool->work.urgent.in_lock);
    switch (pool->kind) {
    case SPN__WORK_FIFO:
    case SPN__WORK_STEAL:
        spn__lock(&pool->work.fifo.in_lock);
        break;
    case SPN__WORK_PRIORITY:
        spn__lock(&pool->work.heap.lock);
        break;
    case SPN__WORK_TIMED:
        pool->work.source->ops->lock(pool->work.source);
        break;
    default:
        break;
    }
}

void spn__work_door_unlock(struct spn_pool *pool)
{
    switch (pool->kind) {
    case SPN__WORK_FIFO:
    case SPN__WORK_STEAL:
        spn__unlock(&pool->work.fifo.in_lock);
        break;
    case SPN__WORK_PRIORITY:
        spn__unlock(&pool->work.heap.lock);
        break;
    case SPN__WORK_TIMED:
        pool->work.source->ops->unlock(pool->work.source);
        break;
    default:
        break;
    }
    spn__unlock(&pool->work.urgent.in_lock);
}

void spn__work_close(struct spn_pool *pool)
{
    spn__work_door_lock(pool);
    pool->work.urgent.closed = true;
    pool->work.fifo.closed = true;
    pool->work.heap.closed = true;
    if (pool->kind == SPN__WORK_TIMED)
        pool->work.source->ops->close(pool->work.source);
    spn__work_door_unlock(pool);
    if (pool->kind == SPN__WORK_LANES)
        spn__lanes_close(pool->work.lanes);
    /* USER: nothing to close; the state that follows, and a fence after it, do [door]. */
}

bool spn__work_has(struct spn_pool *pool, spn_task *task)
{
    return marked(task, pool->id) || marked(task, pool->id + 1) ||
           marked(task, pool->id + 2);
}

bool spn__work_remove(struct spn_pool *pool, spn_task *task)
{
    struct spn__work_queue *work = &pool->work;

    if (marked(task, pool->id + 1))
        return fifo_remove(&work->urgent, task, pool->id + 1);
    if (pool->kind == SPN__WORK_STEAL && marked(task, pool->id + 2))
        return work->stealing->remove(work->stealing, task);
    switch (pool->kind) {
    case SPN__WORK_LANES:
        return spn__lanes_remove(work->lanes, task);
    case SPN__WORK_PRIORITY:
        return heap_remove(&work->heap, task, pool->id);
    case SPN__WORK_USER:
        if (spn_queue_remove_item(work->queue, task) != 1)
            return false;
        spn__work_taken_from_user(pool, task);
        return true;
    case SPN__WORK_TIMED:
        return work->source->ops->remove(work->source, task);
    default:
        return fifo_remove(&work->fifo, task, pool->id);
    }
}

static bool first_seen(spn_task *task, const void *ctx)
{
    bool *seen = *(bool *const *)ctx;
    const bool first = !*seen;

    (void)task;
    *seen = true;
    return first;
}

spn_task *spn__work_pop_oldest(struct spn_pool *pool)
{
    struct spn__work_queue *work = &pool->work;
    struct spn__list one;
    struct spn__list_node *node;
    bool seen = false, *at = &seen;

    switch (pool->kind) {
    case SPN__WORK_LANES:
        spn__list_init(&one);
        (void)spn__lanes_collect(work->lanes, first_seen, &at, &one, NULL);
        node = spn__list_pop_front(&one);
        return node != NULL ? spn__node_task(node) : NULL;
    case SPN__WORK_PRIORITY:
        return heap_take_oldest(&work->heap);
    case SPN__WORK_USER:
        return user_take(pool);
    case SPN__WORK_TIMED: /* it is never full */
        return NULL;
    default:
        return fifo_take(&work->fifo, NULL);
    }
}

/* All that is in a user's queue, in order; a delay queue's that are not due, last. */
static void user_empty(struct spn_pool *pool, struct spn__list *out)
{
    spn_queue *queue = pool->work.queue;
    spn_queue_iter *iter;
    void *item;

    while ((item = spn_queue_poll(queue)) != NULL)
        spn__list_push_back(out, spn__task_node(item));
    if (spn_queue_iter_begin(&iter, queue) != SPN_OK)
        return;
    while (spn_queue_iter_next(iter, &item) == SPN_OK)
        if (spn_queue_iter_remove(iter) == SPN_OK)
            spn__list_push_back(out, spn__task_node(item));
    spn_queue_iter_end(iter);
}

/* Into the urgent lane, which has room for what was in already. */
static void keep(struct spn_pool *pool, spn_task *task)
{
    struct spn__fifo *f = &pool->work.urgent;

    spn__lock(&f->in_lock);
    mark(task, pool->id + 1);
    spn__list_push_back(&f->inbox, spn__task_node(task));
    /* relaxed, both: ours, and [size] the lock orders it. */
    spn__store(&f->pushed, spn__load(&f->pushed, relaxed) + 1, relaxed);
    spn__unlock(&f->in_lock);
}

/*
 * A task that is only looked at, in a queue that is not ours, may be gone by then.  So
 * all are taken out, and those that are not wanted go back; what finds no room any more
 * is kept in the urgent lane rather than lost.
 */
static int64_t user_collect(struct spn_pool *pool,
                            bool (*wanted)(spn_task *, const void *), const void *ctx,
                            struct spn__list *out)
{
    struct spn__list all;
    struct spn__list_node *node;
    int64_t count = 0;

    spn__list_init(&all);
    user_empty(pool, &all);
    while ((node = spn__list_pop_front(&all)) != NULL) {
        spn_task *task = spn__node_task(node);

        if (wanted == NULL || wanted(task, ctx)) {
            spn__work_taken_from_user(pool, task);
            spn__list_push_back(out, node);
            count++;
        } else if (spn_queue_offer(pool->work.queue, task) != 1) {
            spn__work_taken_from_user(pool, task);
            keep(pool, task);
            /* Counted a second time as pushed: not as given. */
            spn__work_uncount_user(pool);
        }
    }
    return count;
}

int64_t spn__work_collect(struct spn_pool *pool,
                          bool (*wanted)(spn_task *, const void *), const void *ctx,
                          struct spn__list *out, int64_t *dropped)
{
    struct spn__work_queue *work = &pool->work;
    int64_t count = fifo_collect(&work->urgent, wanted, ctx, out);

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return count + spn__lanes_collect(work->lanes, wanted, ctx, out, dropped);
    case SPN__WORK_PRIORITY:
        return count + heap_collect(&work->heap, wanted, ctx, out);
    case SPN__WORK_USER:
        return count + user_collect(pool, wanted, ctx, out);
    case SPN__WORK_TIMED:
        return count +
               work->source->ops->collect(work->source, wanted, ctx, out, dropped);
    case SPN__WORK_STEAL:
        count += fifo_collect(&work->fifo, wanted, ctx, out);
        return count + work->stealing->collect(work->stealing, wanted, ctx, out);
    default:
        return count + fifo_collect(&work->fifo, wanted, ctx, out);
    }
}

/* STEAL: of the submissions only. */
int64_t spn__work_collect_queue(struct spn_pool *pool,
                                bool (*wanted)(spn_task *, const void *),
                                const void *ctx, struct spn__list *out)
{
    return fifo_collect(&pool->work.fifo, wanted, ctx, out);
}

int64_t spn__work_snapshot(struct spn_pool *pool, spn_task **tasks, size_t capacity)
{
    struct spn__work_queue *work = &pool->work;
    int64_t count = fifo_snapshot(&work->urgent, tasks, capacity, 0);
    size_t used = (size_t)count < capacity ? (size_t)count : capacity;
    spn_task **rest = used > 0 ? tasks + used : tasks; /* which may be NULL */

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return count + spn__lanes_snapshot(work->lanes, rest, capacity - used);
    case SPN__WORK_PRIORITY:
        return heap_snapshot(&work->heap, tasks, capacity, count);
    case SPN__WORK_USER:
        return count +
               spn_queue_to_array(work->queue, (void **)(void *)rest, capacity - used);
    case SPN__WORK_TIMED:
        return count + work->source->ops->snapshot(work->source, rest, capacity - used);
    case SPN__WORK_STEAL:
        count = fifo_snapshot(&work->fifo, tasks, capacity, count);
        used = (size_t)count < capacity ? (size_t)count : capacity;
        rest = used > 0 ? tasks + used : tasks;
        return count + work->stealing->snapshot(work->stealing, rest, capacity - used);
    default:
        return fifo_snapshot(&work->fifo, tasks, capacity, count);
    }
}
