/* SPDX-License-Identifier: MIT */
/*
 * work.c - where a pool's tasks wait: which of its kinds, and the door.
 *
 * FIFO  work_fifo.c.
 * LANES  lanes.c.
 * PRIORITY  work_heap.c.
 *
 * USER  a queue of the user's: workers wait in it (worker.c), and what it does with
 *   its items is its own affair.
 *   KEPT  To find the tasks that purge or cancel_owner wants, all are taken out of the
 *   queue, and the others go back.  A task that finds no room any more is kept in the
 *   FIFO, which this kind has no other use for, and workers take from there first.
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
 *   fence, look for work (staff.c, shutdown.c).
 *
 * TOO MANY
 *   Nobody notices that a queue without a bound grows until memory is short.  So a pool
 *   says it once, in one line, when SPN__MANY_TASKS wait.  No push counts for that:
 *   FIFO and PRIORITY compare with `limit` in place of the capacity, which every push
 *   does in any case.  While nothing was told, the limit of an unbounded queue is
 *   SPN__MANY_TASKS.  The push that reaches it finds no room, as with a bound; then it tells, sets
 *   the limit to the capacity (`lift`), and is made again.  LANES and TIMED,
 *   which compare nothing, look when they double the place that their entries wait in.
 *   A thread of a pool without a limit is counted when it is made (staff.c).
 *
 * ORDERING  [size], [free]  see work_fifo.c.
 *
 * LOCKS  out_lock, then in_lock; all are leaves below pool->lock.  Nothing of the
 *   user's runs under them but a queue's own functions.
 */
#include "exec/work_kinds.h"

#include "base/log.h"
#include "exec/lanes.h"

int spn__entry_task(void *task)
{
    (void)task;
    return SPN_EINVAL;
}

static struct spn__entry entry_of(spn_task *task)
{
    return (struct spn__entry){ spn__entry_task, task };
}

/* ---- all of them ------------------------------------------------------------------ */

int spn__work_init(struct spn_pool *pool, const spn_pool_opts *opts, int64_t capacity)
{
    struct spn__work_queue *work = &pool->work;

    spn__init(&work->limit, 0);
    spn__init(&work->capacity, 0);
    work->told = false;
    work->many = SPN__MANY_TASKS;
    spn__work_set_capacity(pool, capacity);
    work->age_ns = opts->age_ns;
    work->queue = opts->queue;
    if (work->source != NULL)
        work->source->pool = pool;
    spn__init(&work->given, 0);
    spn__init(&work->found, 0);
    spn__init(&work->free, 0);
    spn__work_fifo_init(&work->fifo);
    spn__lock_init(&work->heap.lock);
    work->heap.closed = false;
    work->heap.entries = NULL;
    work->heap.room = work->heap.used = 0;
    work->heap.sequence = 0;
    spn__init(&work->heap.pushed, 0);
    spn__init(&work->heap.popped, 0);
    work->lanes = NULL;
    if (pool->kind == SPN__WORK_LANES) {
        const int rc = spn__lanes_create(&work->lanes, pool->id);

        if (rc != SPN_OK)
            return rc;
        work->lanes->pool = pool;
    }
    return SPN_OK;
}

void spn__work_fini(struct spn_pool *pool)
{
    if (pool->work.lanes != NULL)
        spn__lanes_destroy(pool->work.lanes);
    spn__free(pool->work.heap.entries);
    spn__calls_fini(&pool->work.fifo);
}

/* ---- too many ----------------------------------------------------------------------- */

/* Whether push compares with the limit. */
static bool has_limit(const struct spn_pool *pool)
{
    return pool->kind == SPN__WORK_FIFO || pool->kind == SPN__WORK_PRIORITY ||
           pool->kind == SPN__WORK_STEAL;
}

void spn__work_set_capacity(struct spn_pool *pool, int64_t capacity)
{
    struct spn__work_queue *work = &pool->work;
    const bool watches = capacity == INT64_MAX && !work->told && has_limit(pool);

    /* relaxed, both: knobs. */
    spn__store(&work->capacity, capacity, relaxed);
    spn__store(&work->limit, watches ? work->many : capacity, relaxed);
}

/* True for the first who is to tell; from then on pushes see the capacity.  pool->lock is
 * held. */
static bool take_telling(struct spn_pool *pool)
{
    struct spn__work_queue *work = &pool->work;
    const bool first = !work->told;

    work->told = true;
    spn__work_set_capacity(pool, spn__load(&work->capacity, relaxed));
    return first;
}

/* With no lock held: the hook of the log is the user's. */
static void tell_many(struct spn_pool *pool)
{
    spn__log(
        SPN_LOG_WARN,
        "pool %s: %lld tasks wait, and its queue has no bound: they come faster than "
        "they run, and memory is the limit.  Give it a queue_capacity (in a URL: "
        "queues=N).  This is told once",
        pool->name, (long long)spn__work_size(pool));
}

int spn__work_lift(struct spn_pool *pool, spn_task *task)
{
    bool first;

    spn__lock(&pool->lock);
    first = take_telling(pool);
    spn__unlock(&pool->lock);
    if (first) /* or another was faster, and there is no limit by now */
        tell_many(pool);
    return spn__work_push(pool, task);
}

void spn__work_grown(struct spn_pool *pool)
{
    bool first;

    spn__lock(&pool->lock);
    first = spn__work_size(pool) >= pool->work.many && take_telling(pool);
    spn__unlock(&pool->lock);
    if (first)
        tell_many(pool);
}

/* ---- a queue of the user's ---------------------------------------------------------- */

/* Counted when it is in, or by its end if that comes first: see add_up in pool.c. */
static int user_push(struct spn_pool *pool, spn_task *task)
{
    int rc;

    spn__task_mark(task, pool->id);
    rc = spn_queue_put(pool->work.queue, task, 0);
    if (rc == SPN_OK)
        (void)spn__fetch_add(&pool->work.given, 1, relaxed); /* only counts */
    else
        spn__task_mark(task, SPN__TASK_TAKEN);
    return rc;
}

void spn__work_uncount_user(struct spn_pool *pool)
{
    (void)spn__fetch_sub(&pool->work.given, 1, relaxed); /* only counts */
}

/* One that the user put there himself counts from now on. */
void spn__work_taken_from_user(struct spn_pool *pool, spn_task *task)
{
    if (!spn__task_marked(task, pool->id))
        (void)spn__fetch_add(&pool->work.found, 1, relaxed); /* only counts */
    spn__task_mark(task, SPN__TASK_TAKEN);
}

static spn_task *user_take(struct spn_pool *pool)
{
    void *task;

    if (spn_queue_take(pool->work.queue, &task, 0) != SPN_OK)
        return NULL;
    spn__work_taken_from_user(pool, task);
    return task;
}

int spn__work_push(struct spn_pool *pool, spn_task *task)
{
    struct spn__work_queue *work = &pool->work;

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return spn__pool_deserted(pool) ? SPN_EAGAIN
                                        : spn__lanes_push(work->lanes, entry_of(task));
    case SPN__WORK_PRIORITY:
        return spn__work_heap_push(pool, &work->heap, task);
    case SPN__WORK_USER:
        return user_push(pool, task);
    case SPN__WORK_TIMED: /* never here: see spn__pool_execute_at */
        return SPN_ESTATE;
    default:
        /* relaxed: a knob. */
        return spn__work_fifo_push(pool, &work->fifo, task, pool->id,
                                   spn__load(&work->limit, relaxed));
    }
}

int spn__work_push_call(struct spn_pool *pool, spn_run_fn fn, void *arg)
{
    struct spn__work_queue *work = &pool->work;

    /* relaxed: a knob. */
    return spn__work_fifo_push_call(pool, &work->fifo, (struct spn__entry){ fn, arg },
                                    spn__load(&work->limit, relaxed));
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
        task = spn__work_heap_take(&work->heap);
        break;
    case SPN__WORK_USER:
        if (spn__work_fifo_take(&work->fifo, NULL, entry))
            return true; /* KEPT: leaves no room in the queue */
        task = user_take(pool);
        break;
    case SPN__WORK_TIMED:
        return timed_take(pool, entry);
    case SPN__WORK_STEAL:
        if (work->stealing->take_own(work->stealing, worker, entry))
            return true;
        if (!spn__work_fifo_take(&work->fifo, NULL, entry))
            return work->stealing->take_other(work->stealing, worker, entry);
        spn__room_notify(&pool->room);
        return true;
    default:
        if (!spn__work_fifo_take(&work->fifo, pool->handoff ? &work->free : NULL,
                                 entry))
            return false;
        worker->free = false;
        spn__room_notify(&pool->room);
        return true;
    }
    if (task == NULL)
        return false;
    *entry = entry_of(task);
    spn__room_notify(&pool->room);
    return true;
}

bool spn__work_any_kept(struct spn_pool *pool)
{
    return spn__work_fifo_any(&pool->work.fifo);
}

bool spn__work_any(struct spn_pool *pool)
{
    struct spn__work_queue *work = &pool->work;
    int64_t popped;

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return spn__lanes_any(work->lanes);
    case SPN__WORK_PRIORITY:
        /* relaxed: as fifo_any. */
        return spn__load(&work->heap.pushed, relaxed) !=
               spn__load(&work->heap.popped, relaxed);
    case SPN__WORK_USER:
        return spn__work_any_kept(pool) || spn_queue_size(work->queue) > 0;
    case SPN__WORK_TIMED:
        /* In this order: not all that come tell, and one that goes meanwhile must not hide
         * one that came [size]; [core] in submit.c rests on it. */
        popped = spn__load(&work->source->popped, acquire);
        return spn__load(&work->source->pushed, relaxed) != popped;
    case SPN__WORK_STEAL:
        return spn__work_fifo_any(&work->fifo) || work->stealing->any(work->stealing);
    default:
        return spn__work_fifo_any(&work->fifo);
    }
}

bool spn__work_ready(struct spn_pool *pool)
{
    struct spn__work_source *source = pool->work.source;

    if (pool->kind != SPN__WORK_TIMED)
        return spn__work_any(pool);
    return source->ops->next_ns(source) == INT64_MIN;
}

int64_t spn__work_size(struct spn_pool *pool)
{
    struct spn__work_queue *work = &pool->work;
    int64_t popped;

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return spn__lanes_size(work->lanes);
    case SPN__WORK_PRIORITY:
        popped = spn__load(&work->heap.popped, acquire); /* [size] */
        return spn__load(&work->heap.pushed, relaxed) - popped;
    case SPN__WORK_USER:
        return spn__work_fifo_size(&work->fifo) + spn_queue_size(work->queue);
    case SPN__WORK_TIMED:
        popped = spn__load(&work->source->popped, acquire); /* [size] */
        return spn__load(&work->source->pushed, relaxed) - popped;
    case SPN__WORK_STEAL:
        return spn__work_fifo_size(&work->fifo) + work->stealing->size(work->stealing);
    default:
        return spn__work_fifo_size(&work->fifo);
    }
}

int64_t spn__work_pushed(struct spn_pool *pool)
{
    struct spn__work_queue *work = &pool->work;
    /* relaxed, all: those that have met their fate are in it [count]. */
    int64_t pushed;

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return spn__lanes_pushed(work->lanes);
    case SPN__WORK_PRIORITY:
        return spn__load(&work->heap.pushed, relaxed);
    case SPN__WORK_USER:
        pushed = spn__load(&work->fifo.pushed, relaxed); /* KEPT */
        pushed += spn__load(&work->given, relaxed);
        return pushed + spn__load(&work->found, relaxed);
    case SPN__WORK_TIMED:
        return spn__load(&work->source->pushed, relaxed);
    case SPN__WORK_STEAL:
        pushed = spn__load(&work->fifo.pushed, relaxed);
        return pushed + work->stealing->pushed(work->stealing);
    default:
        pushed = spn__tray_given(pool);
        return pushed + spn__load(&work->fifo.pushed, relaxed);
    }
}

void spn__work_door_lock(struct spn_pool *pool)
{
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
}

void spn__work_close(struct spn_pool *pool)
{
    spn__work_door_lock(pool);
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
    return spn__task_marked(task, pool->id) || spn__task_marked(task, pool->id + 1) ||
           spn__task_marked(task, pool->id + 2);
}

bool spn__work_remove(struct spn_pool *pool, spn_task *task)
{
    struct spn__work_queue *work = &pool->work;

    if (pool->kind == SPN__WORK_STEAL && spn__task_marked(task, pool->id + 2))
        return work->stealing->remove(work->stealing, task);
    switch (pool->kind) {
    case SPN__WORK_LANES:
        return spn__lanes_remove(work->lanes, task);
    case SPN__WORK_PRIORITY:
        return spn__work_heap_remove(&work->heap, task, pool->id);
    case SPN__WORK_USER:
        if (spn__task_marked(task, pool->id + 1))
            return spn__work_fifo_remove(&work->fifo, task, pool->id + 1);
        if (spn_queue_remove_item(work->queue, task) != SPN_OK)
            return false;
        spn__work_taken_from_user(pool, task);
        return true;
    case SPN__WORK_TIMED:
        return work->source->ops->remove(work->source, task);
    default:
        return spn__work_fifo_remove(&work->fifo, task, pool->id);
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

/* What is KEPT has come before all that is in the queue now, as a rule. */
static spn_task *user_oldest(struct spn_pool *pool)
{
    spn_task *task = spn__work_fifo_take_task(&pool->work.fifo);

    return task != NULL ? task : user_take(pool);
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
        (void)spn__lanes_collect(work->lanes, first_seen, &at, &one);
        node = spn__list_pop_front(&one);
        return node != NULL ? spn__node_task(node) : NULL;
    case SPN__WORK_PRIORITY:
        return spn__work_heap_take_oldest(&work->heap);
    case SPN__WORK_USER:
        return user_oldest(pool);
    case SPN__WORK_TIMED: /* it is never full */
        return NULL;
    default:
        return spn__work_fifo_take_task(&work->fifo);
    }
}

static int user_visit_take(void *item, void *ctx)
{
    spn__list_push_back(ctx, spn__task_node(item));
    return SPN_QUEUE_TAKE;
}

/* All that is in a user's queue, in order; a delay queue's that are not due, last. */
static void user_empty(struct spn_pool *pool, struct spn__list *out)
{
    spn_queue *queue = pool->work.queue;
    void *item;

    while (spn_queue_take(queue, &item, 0) == SPN_OK)
        spn__list_push_back(out, spn__task_node(item));
    spn_queue_walk(queue, user_visit_take, out);
}

/* KEPT: in the FIFO, which has no bound for it. */
static void keep(struct spn_pool *pool, spn_task *task)
{
    struct spn__fifo *f = &pool->work.fifo;

    spn__lock(&f->in_lock);
    spn__task_mark(task, pool->id + 1);
    spn__list_push_back(&f->inbox, spn__task_node(task));
    /* relaxed, both: ours, and [size] the lock orders it. */
    spn__store(&f->pushed, spn__load(&f->pushed, relaxed) + 1, relaxed);
    spn__unlock(&f->in_lock);
}

/*
 * A task that is only looked at, in a queue that is not ours, may be gone by then.  So
 * all are taken out, and those that are not wanted go back; what finds no room any more
 * is kept beside it rather than lost: KEPT.
 */
static int64_t user_collect(struct spn_pool *pool,
                            bool (*wanted)(spn_task *, const void *), const void *ctx,
                            struct spn__list *out)
{
    struct spn__list all;
    struct spn__list_node *node;
    int64_t count =
        spn__work_fifo_collect(&pool->work.fifo, pool->id + 1, wanted, ctx, out);

    spn__list_init(&all);
    user_empty(pool, &all);
    while ((node = spn__list_pop_front(&all)) != NULL) {
        spn_task *task = spn__node_task(node);

        if (wanted == NULL || wanted(task, ctx)) {
            spn__work_taken_from_user(pool, task);
            spn__list_push_back(out, node);
            count++;
        } else if (spn_queue_put(pool->work.queue, task, 0) != SPN_OK) {
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
                          struct spn__list *out)
{
    struct spn__work_queue *work = &pool->work;
    int64_t count;

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return spn__lanes_collect(work->lanes, wanted, ctx, out);
    case SPN__WORK_PRIORITY:
        return spn__work_heap_collect(&work->heap, wanted, ctx, out);
    case SPN__WORK_USER:
        return user_collect(pool, wanted, ctx, out);
    case SPN__WORK_TIMED:
        return work->source->ops->collect(work->source, wanted, ctx, out);
    case SPN__WORK_STEAL:
        count = spn__work_fifo_collect(&work->fifo, pool->id, wanted, ctx, out);
        return count + work->stealing->collect(work->stealing, wanted, ctx, out);
    default:
        return spn__work_fifo_collect(&work->fifo, pool->id, wanted, ctx, out);
    }
}

size_t spn__work_take_out(struct spn_pool *pool, struct spn__entry *entries,
                          size_t capacity)
{
    struct spn__work_queue *work = &pool->work;

    if (pool->kind == SPN__WORK_LANES)
        return spn__lanes_drain(work->lanes, entries, capacity);
    if (pool->kind == SPN__WORK_TIMED)
        return work->source->ops->drain(work->source, entries, capacity);
    return 0;
}

struct snapshot {
    spn_task **tasks;
    size_t capacity;
    int64_t count;
};

static int user_visit_show(void *item, void *ctx)
{
    struct snapshot *s = ctx;

    if ((size_t)s->count < s->capacity)
        s->tasks[s->count] = item;
    s->count++;
    return SPN_QUEUE_KEEP;
}

int64_t spn__work_snapshot(struct spn_pool *pool, spn_task **tasks, size_t capacity)
{
    struct spn__work_queue *work = &pool->work;
    int64_t count;
    size_t used;
    spn_task **rest; /* which may be NULL */

    switch (pool->kind) {
    case SPN__WORK_LANES:
        return spn__lanes_snapshot(work->lanes, tasks, capacity);
    case SPN__WORK_PRIORITY:
        return spn__work_heap_snapshot(&work->heap, tasks, capacity);
    case SPN__WORK_TIMED:
        return work->source->ops->snapshot(work->source, tasks, capacity);
    case SPN__WORK_USER:
    case SPN__WORK_STEAL:
        break;
    default:
        return spn__work_fifo_snapshot(&work->fifo, pool->id, tasks, capacity);
    }
    count =
        spn__work_fifo_snapshot(&work->fifo,
                                pool->kind == SPN__WORK_USER ? pool->id + 1 : pool->id,
                                tasks, capacity);
    if (pool->kind == SPN__WORK_USER) {
        struct snapshot s = { tasks, capacity, count };

        spn_queue_walk(work->queue, user_visit_show, &s);
        return s.count;
    }
    used = (size_t)count < capacity ? (size_t)count : capacity;
    rest = used > 0 ? tasks + used : tasks;
    return count + work->stealing->snapshot(work->stealing, rest, capacity - used);
}
