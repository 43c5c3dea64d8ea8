/* SPDX-License-Identifier: MIT */
/*
 * delays.c - tasks that wait until they are due: where a scheduled executor's pool
 * takes its tasks from.
 *
 * OVERVIEW
 *   A heap under one lock, with four children to a node: half the levels of a binary
 *   one, and the four lie in two cache lines.  Entries hold the due time and a sequence
 *   number, so that comparing touches no task; a task knows its place (link[0]), so that
 *   one is taken out in O(log n) without a search.  Equal times are told apart by the
 *   sequence: first come, first served.
 *
 *   Nothing waits here.  Who sleeps until the first is due, the leader, and who is
 *   woken when an earlier one comes, is the pool's affair (exec/idle.c); this file tells
 *   when that is.
 *
 * ROOM  The heap grows by doubling when a task comes.  A periodic task that is away,
 *   running, keeps its room: coming back cannot fail.
 *
 * CLOCK  On a manual clock the pool's leader cannot sleep until a time: the clock tells
 *   when it has moved, and the leader is woken if the first is due.
 *
 * ORDERING
 *   [next]  `next` is written under the lock and read without it.  A worker that goes to
 *           sleep reads it after the heavy fence of exec/idle.c [wake], and whoever makes
 *           it earlier makes the light one: nobody sleeps past it.  Else it is a hint.
 *   [size]  as in exec/work.c.
 *
 * LOCKS  `lock` is a leaf; below pool->lock.  The growing heap is copied under it, once
 *   per doubling.
 *
 * ROAD NOT TAKEN  a wheel in front of the heap, so that only what is due within a tick
 *   needs exact order.  Insert would be cheaper for millions of tasks that are nearly
 *   all cancelled; that is what the timer of src/wheel is for.
 */
#include "sched/delays.h"

#include <string.h>

#include "base/time.h"
#include "exec/pool.h"
#include "future/executor.h"

enum { CHILDREN = 4, FIRST_ROOM = 64 };
/* What `queued` says of a task that was taken out: see exec/work.c. */
#define TAKEN 1u

static struct spn__delays *delays_of(struct spn__work_source *source)
{
    return (struct spn__delays *)(void *)source;
}

/* relaxed, both: written and believed only under the lock. */
static void mark(spn_task *task, uint32_t as)
{
    spn__store(spn__task_queued(task), as, relaxed);
}

static bool waits_here(struct spn__delays *d, spn_task *task)
{
    return spn__load(spn__task_queued(task), relaxed) == d->source.pool->id;
}

static bool is_tied(const spn_task *task)
{
    return (task->flags & SPN__TASK_TIED) != 0;
}

/* ---- the heap; the lock is held ----------------------------------------------- */

static bool before(const struct spn__delay *a, const struct spn__delay *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

static void place(struct spn__delays *d, size_t at, struct spn__delay e)
{
    d->heap[at] = e;
    e.task->link[0] = (void *)at;
}

static void up(struct spn__delays *d, size_t at, struct spn__delay e)
{
    while (at > 0) {
        const size_t parent = (at - 1) / CHILDREN;

        if (!before(&e, &d->heap[parent]))
            break;
        place(d, at, d->heap[parent]);
        at = parent;
    }
    place(d, at, e);
}

static void down(struct spn__delays *d, size_t at, struct spn__delay e)
{
    for (;;) {
        const size_t first = CHILDREN * at + 1;
        const size_t end = first + CHILDREN < d->used ? first + CHILDREN : d->used;
        size_t least = first;

        if (first >= d->used)
            break;
        for (size_t i = first + 1; i < end; i++)
            if (before(&d->heap[i], &d->heap[least]))
                least = i;
        if (!before(&d->heap[least], &e))
            break;
        place(d, at, d->heap[least]);
        at = least;
    }
    place(d, at, e);
}

static void publish(struct spn__delays *d)
{
    const int64_t next = d->used > 0 ? d->heap[0].due_ns : SPN_FOREVER;

    /* relaxed, both: [next], and only written under the lock. */
    if (spn__load(&d->next, relaxed) != next)
        spn__store(&d->next, next, relaxed);
}

/* relaxed reads: ours, the lock is held. */
static void count_pushed(struct spn__delays *d, int64_t by)
{
    spn__store(&d->source.pushed, spn__load(&d->source.pushed, relaxed) + by,
               release); /* [size] */
}

static void count_popped(struct spn__delays *d, int64_t by)
{
    spn__store(&d->source.popped, spn__load(&d->source.popped, relaxed) + by,
               release); /* [size] */
}

/* Takes the entry at a place out of the heap. */
static spn_task *extract(struct spn__delays *d, size_t at)
{
    spn_task *task = d->heap[at].task;
    const struct spn__delay last = d->heap[--d->used];

    if (at < d->used) {
        if (at > 0 && before(&last, &d->heap[(at - 1) / CHILDREN]))
            up(d, at, last);
        else
            down(d, at, last);
    }
    publish(d);
    return task;
}

/* The same, and it is counted as gone. */
static spn_task *take_out(struct spn__delays *d, size_t at)
{
    spn_task *task = extract(d, at);

    mark(task, TAKEN);
    count_popped(d, 1);
    return task;
}

/* There is room; true if it is the first now. */
static bool put_in(struct spn__delays *d, spn_task *task, int64_t due_ns)
{
    const struct spn__delay e = { due_ns, d->sequence++, task };

    mark(task, d->source.pool->id);
    if (is_tied(task))
        spn__scheduled_entered(task, due_ns);
    up(d, d->used++, e);
    count_pushed(d, 1);
    publish(d);
    return d->heap[0].sequence == e.sequence;
}

/* Makes it a heap again, whatever the order is. */
static void rebuild(struct spn__delays *d)
{
    if (d->used > 1)
        for (size_t at = (d->used - 2) / CHILDREN + 1; at-- > 0;)
            down(d, at, d->heap[at]);
}

/* In due order, which is a heap, too. */
static void sort(struct spn__delays *d)
{
    const size_t count = d->used;

    /* Heap sort, which leaves the first in order last... */
    while (d->used > 1) {
        const struct spn__delay first = d->heap[0];
        const struct spn__delay last = d->heap[--d->used];

        down(d, 0, last);
        d->heap[d->used] = first;
    }
    /* ...so turn it round. */
    d->used = count;
    for (size_t i = 0; i < count / 2; i++) {
        const struct spn__delay e = d->heap[i];

        d->heap[i] = d->heap[count - 1 - i];
        d->heap[count - 1 - i] = e;
    }
    for (size_t i = 0; i < count; i++)
        place(d, i, d->heap[i]);
}

/* ---- coming --------------------------------------------------------------------- */

/* The lock is held before and after, but not meanwhile. */
static int grow(struct spn__delays *d)
{
    const size_t room = d->room == 0 ? FIRST_ROOM : d->room * 2;
    struct spn__delay *heap = NULL, *old = NULL;

    spn__unlock(&d->lock);
    if (room <= SIZE_MAX / sizeof *heap)
        heap = spn__alloc(room * sizeof *heap);
    spn__lock(&d->lock);
    if (heap == NULL)
        return SPN_ENOMEM;
    if (room > d->room) {
        if (d->used > 0)
            memcpy(heap, d->heap, d->used * sizeof *heap);
        old = d->heap;
        d->heap = heap;
        d->room = room;
    } else {
        old = heap; /* somebody else was faster */
    }
    spn__unlock(&d->lock);
    spn__free(old);
    spn__lock(&d->lock);
    return SPN_OK;
}

static int push(struct spn__work_source *source, spn_task *task, int64_t due_ns,
                uint64_t *sequence, bool *first)
{
    struct spn__delays *d = delays_of(source);
    int rc = SPN_OK;

    spn__lock(&d->lock);
    while (!d->closed && d->used + d->away >= d->room && rc == SPN_OK)
        rc = grow(d);
    if (d->closed)
        rc = SPN_ESHUTDOWN;
    if (rc == SPN_OK) {
        *sequence = d->sequence;
        *first = put_in(d, task, due_ns);
    }
    spn__unlock(&d->lock);
    return rc;
}

/* Whether a task that comes back may; the lock is held. */
static bool may_come_back(struct spn__delays *d, spn_task *task, int64_t due_ns)
{
    const struct spn__delay e = { due_ns, 0, task };

    /* relaxed: who stops the pool does so before it looks in here, with the lock. */
    if (spn__ctl_state(spn__load(&d->source.pool->ctl, relaxed)) >= SPN_EXECUTOR_STOP)
        return false;
    return !d->closed || d->allowed(d, &e);
}

bool spn__delays_come_back(struct spn__delays *d, spn_task *task, int64_t due_ns)
{
    bool back, first = false;

    spn__lock(&d->lock);
    d->away--;
    back = may_come_back(d, task, due_ns);
    if (back) {
        first = put_in(d, task, due_ns);
        /* Cancelled while it was neither here nor seen to run: see future.c [tie]. */
        if (spn__scheduled_is_over(task)) {
            (void)extract(d, (size_t)task->link[0]);
            mark(task, 0);
            count_pushed(d, -1);
            back = false;
        }
    }
    spn__unlock(&d->lock);
    if (back && first)
        spn__idle_notify_first(d->source.pool);
    return back;
}

void spn__delays_stay_away(struct spn__delays *d)
{
    spn__lock(&d->lock);
    d->away--;
    spn__unlock(&d->lock);
}

/* ---- going ------------------------------------------------------------------------ */

static spn_task *take(struct spn__work_source *source, bool *last)
{
    struct spn__delays *d = delays_of(source);
    spn_task *task = NULL;

    if (spn__load(&d->next, relaxed) == SPN_FOREVER) /* [next] a hint */
        return NULL;
    spn__lock(&d->lock);
    if (d->used > 0 && d->heap[0].due_ns != SPN_FOREVER &&
        d->heap[0].due_ns <= spn__delays_now(d)) {
        task = take_out(d, 0);
        if ((task->flags & SPN__TASK_PERIODIC) != 0)
            d->away++;
        *last = d->used == 0 && d->closed;
    }
    spn__unlock(&d->lock);
    if (task != NULL && is_tied(task))
        spn__scheduled_left(task, (task->flags & SPN__TASK_PERIODIC) != 0);
    return task;
}

bool spn__delays_cut(struct spn__delays *d, spn_task *task, bool hold)
{
    bool found;

    spn__lock(&d->lock);
    found = waits_here(d, task);
    if (found && hold)
        spn__pool_hold(d->source.pool);
    if (found)
        (void)take_out(d, (size_t)task->link[0]);
    spn__unlock(&d->lock);
    return found;
}

static bool remove_task(struct spn__work_source *source, spn_task *task)
{
    const bool found = spn__delays_cut(delays_of(source), task, false);

    if (found && is_tied(task))
        spn__scheduled_left(task, false);
    return found;
}

static bool withdraw(struct spn__work_source *source, uint64_t sequence)
{
    struct spn__delays *d = delays_of(source);
    spn_task *task = NULL;

    spn__lock(&d->lock);
    for (size_t i = 0; i < d->used && task == NULL; i++)
        if (d->heap[i].sequence == sequence) {
            task = extract(d, i);
            mark(task, TAKEN);
            count_pushed(d, -1);
        }
    spn__unlock(&d->lock);
    if (task != NULL && is_tied(task))
        spn__scheduled_left(task, false);
    return task != NULL;
}

/* Those that `wanted` says, or all, in order if it is all; none is left tied. */
static int64_t collect_if(struct spn__delays *d,
                          bool (*wanted)(struct spn__delays *,
                                         const struct spn__delay *, const void *),
                          const void *ctx, struct spn__list *out)
{
    struct spn__list_node *node;
    struct spn__list found;
    int64_t count = 0;
    size_t kept = 0;

    spn__list_init(&found);
    spn__lock(&d->lock);
    if (wanted == NULL)
        sort(d);
    for (size_t i = 0; i < d->used; i++) {
        spn_task *task = d->heap[i].task;

        if (wanted != NULL && !wanted(d, &d->heap[i], ctx)) {
            place(d, kept++, d->heap[i]);
            continue;
        }
        mark(task, TAKEN);
        spn__list_push_back(&found, spn__task_node(task));
        count++;
    }
    d->used = kept;
    if (count > 0)
        rebuild(d);
    publish(d);
    count_popped(d, count);
    spn__unlock(&d->lock);
    spn__list_each (node, &found)
        if (is_tied(spn__node_task(node)))
            spn__scheduled_left(spn__node_task(node), false);
    spn__list_splice(out, &found);
    return count;
}

struct filter {
    bool (*wanted)(spn_task *task, const void *ctx);
    const void *ctx;
};

static bool passes(struct spn__delays *d, const struct spn__delay *e, const void *ctx)
{
    const struct filter *f = ctx;

    (void)d;
    return f->wanted(e->task, f->ctx);
}

static int64_t collect(struct spn__work_source *source,
                       bool (*wanted)(spn_task *, const void *), const void *ctx,
                       struct spn__list *out)
{
    const struct filter f = { wanted, ctx };

    return collect_if(delays_of(source), wanted != NULL ? passes : NULL, &f, out);
}

static bool not_allowed(struct spn__delays *d, const struct spn__delay *e,
                        const void *ctx)
{
    (void)ctx;
    return !d->allowed(d, e);
}

static int64_t forbidden(struct spn__work_source *source, struct spn__list *out)
{
    return collect_if(delays_of(source), not_allowed, NULL, out);
}

size_t spn__delays_take_due(struct spn__delays *d, spn_task **tasks, size_t capacity)
{
    size_t count = 0;
    int64_t now_ns;

    spn__lock(&d->lock);
    now_ns = spn__delays_now(d);
    while (count < capacity && d->used > 0 && d->heap[0].due_ns != SPN_FOREVER &&
           d->heap[0].due_ns <= now_ns)
        tasks[count++] = take_out(d, 0);
    spn__unlock(&d->lock);
    for (size_t i = 0; i < count; i++)
        if (is_tied(tasks[i]))
            spn__scheduled_left(tasks[i], false);
    return count;
}

static int64_t snapshot(struct spn__work_source *source, spn_task **tasks,
                        size_t capacity)
{
    struct spn__delays *d = delays_of(source);
    size_t count;

    spn__lock(&d->lock);
    sort(d);
    count = d->used;
    for (size_t i = 0; i < count && i < capacity; i++)
        tasks[i] = d->heap[i].task;
    spn__unlock(&d->lock);
    return (int64_t)count;
}

/* ---- time ---------------------------------------------------------------------------- */

static int64_t now(struct spn__work_source *source)
{
    return spn__delays_now(delays_of(source));
}

static int64_t next_ns(struct spn__work_source *source)
{
    struct spn__delays *d = delays_of(source);
    const int64_t next = spn__load(&d->next, relaxed); /* [next] */

    if (next == SPN_FOREVER)
        return SPN_FOREVER;
    if (next <= spn__delays_now(d))
        return INT64_MIN;
    return d->monotonic ? next : SPN_FOREVER;
}

static void clock_moved(void *ctx)
{
    struct spn__delays *d = ctx;

    spn__fence_light(); /* [next] after the move, which is as good as an earlier task */
    if (next_ns(&d->source) == INT64_MIN)
        spn__idle_notify_first(d->source.pool);
}

/* ---- the whole ------------------------------------------------------------------------ */

static void lock(struct spn__work_source *source)
{
    spn__lock(&delays_of(source)->lock);
}

static void unlock(struct spn__work_source *source)
{
    spn__unlock(&delays_of(source)->lock);
}

static void close_door(struct spn__work_source *source)
{
    delays_of(source)->closed = true;
}

static const struct spn__work_source_ops ops = { .push = push,
                                                 .now = now,
                                                 .take = take,
                                                 .next_ns = next_ns,
                                                 .remove = remove_task,
                                                 .withdraw = withdraw,
                                                 .collect = collect,
                                                 .forbidden = forbidden,
                                                 .snapshot = snapshot,
                                                 .lock = lock,
                                                 .unlock = unlock,
                                                 .close = close_door,
                                                 .new_task = spn__scheduled_new_task };

void spn__delays_init(struct spn__delays *d, spn_clock *clock,
                      bool (*allowed)(struct spn__delays *, const struct spn__delay *))
{
    d->source.ops = &ops;
    d->source.pool = NULL;
    spn__init(&d->source.pushed, 0);
    spn__init(&d->source.popped, 0);
    d->clock = clock;
    d->monotonic = clock == spn_clock_monotonic();
    d->allowed = allowed;
    spn__lock_init(&d->lock);
    d->closed = false;
    d->heap = NULL;
    d->used = d->room = d->away = 0;
    d->sequence = 1; /* 0 is none's */
    spn__init(&d->next, SPN_FOREVER);
}

void spn__delays_listen(struct spn__delays *d)
{
    spn__clock_listen(d->clock, &d->listener, clock_moved, d);
}

void spn__delays_unlisten(struct spn__delays *d)
{
    spn__clock_unlisten(d->clock, &d->listener);
}

void spn__delays_fini(struct spn__delays *d)
{
    spn__free(d->heap);
}
