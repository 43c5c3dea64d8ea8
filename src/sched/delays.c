/* SPDX-License-Identifier: MIT */
/*
 * delays.c - tasks that wait until they are due: where a scheduled executor's pool
 * takes its tasks from.
 *
 * OVERVIEW
 *   In which order they wait is the affair of dues.c, which knows neither lock nor clock.
 *   This is the lock around it, and what the pool and the futures have to know: who waits
 *   here, how many, and when to look next.
 *
 *   A task knows its slot (link[0]), so that it is taken out without a search.  A call, a
 *   function with its argument, needs nothing but the slot.  A periodic task that is
 *   away, running, keeps its room: coming back cannot fail.
 *
 *   Nothing waits here.  Who sleeps until the first is due, the leader, and who is
 *   woken when an earlier one comes, is the pool's affair (exec/idle.c); this file tells
 *   when to look.
 *
 * CLOCK  On a manual clock the pool's leader cannot sleep until a time: the clock tells
 *   when it has moved, and the leader is woken if the first is due.
 *
 *   The clock is looked at when nothing is due by the last look: of all that have become
 *   due while the leader slept, only the first costs one.  A manual clock, which may be
 *   set back, is always looked at.
 *
 * ORDERING
 *   [next]  `next` is written under the lock and read without it.  A worker that goes to
 *           sleep reads it after the full fence of exec/idle.c [wake], and whoever makes
 *           it earlier makes one, too: nobody sleeps past it.  Else it is a hint.
 *   [size]  as in exec/work_fifo.c.
 *
 * LOCKS  `lock` is a leaf; below pool->lock.  Growing copies the heaps under it, once per
 *   doubling.
 */
#include "sched/delays.h"

#include "base/time.h"
#include "exec/pool.h"
#include "future/executor.h"

/* What `queued` says of a task that was taken out: see exec/work_kinds.h. */
#define TAKEN 1u

static struct spn__delays *delays_of(struct spn__work_source *source)
{
    return (struct spn__delays *)(void *)source;
}

/* The task in a slot; NULL: it is a call. */
static spn_task *task_in(const struct spn__entry *entry)
{
    return entry->fn == spn__entry_task ? entry->arg : NULL;
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
    return task != NULL && (task->flags & SPN__TASK_TIED) != 0;
}

static bool is_periodic(const spn_task *task)
{
    return task != NULL && (task->flags & SPN__TASK_PERIODIC) != 0;
}

static uint32_t slot_of(const spn_task *task)
{
    return (uint32_t)(uintptr_t)task->link[0];
}

/* Says when to look next; true if that is earlier than before. */
static bool publish(struct spn__delays *d)
{
    const int64_t was = spn__load(&d->next, relaxed); /* only written under the lock */
    const int64_t next = spn__dues_next(&d->dues);

    if (next != was)
        spn__store(&d->next, next, relaxed); /* [next] */
    return next < was;
}

/* ---- in and out; the lock is held -------------------------------------------------------- */

/* relaxed reads: ours. */
static void count_pushed(struct spn__delays *d, int64_t by)
{
    /* [size] relaxed: the lock orders it. */
    spn__store(&d->source.pushed, spn__load(&d->source.pushed, relaxed) + by, relaxed);
}

static void count_popped(struct spn__delays *d, int64_t by)
{
    spn__store(&d->source.popped, spn__load(&d->source.popped, relaxed) + by,
               release); /* [size] */
}

/* There is room; true if somebody must look earlier. */
static bool put_in(struct spn__delays *d, struct spn__entry entry, int64_t due_ns)
{
    const uint32_t slot = spn__dues_add(&d->dues, entry, due_ns);
    spn_task *task = task_in(&entry);

    if (task != NULL) {
        task->link[0] = (void *)(uintptr_t)slot;
        mark(task, d->source.pool->id);
        if (is_tied(task))
            spn__scheduled_entered(task, due_ns);
    }
    count_pushed(d, 1);
    return publish(d);
}

/* Takes what is in a slot out. */
static struct spn__entry extract(struct spn__delays *d, uint32_t slot)
{
    const struct spn__entry entry = spn__dues_remove(&d->dues, slot);
    spn_task *task = task_in(&entry);

    if (task != NULL)
        mark(task, TAKEN);
    (void)publish(d);
    return entry;
}

/* The same, and it is counted as gone. */
static struct spn__entry take_out(struct spn__delays *d, uint32_t slot)
{
    count_popped(d, 1);
    return extract(d, slot);
}

/* ---- coming ------------------------------------------------------------------------------ */

static bool is_full(const struct spn__delays *d)
{
    return d->dues.used + d->away >= d->dues.room;
}

/* The lock is held before and after, but not meanwhile. */
static int grow(struct spn__delays *d)
{
    const uint32_t part_count = d->dues.part_count;
    struct spn__dues_room room;
    int rc;

    spn__unlock(&d->lock);
    rc = spn__dues_room_get(&room, part_count);
    spn__lock(&d->lock);
    if (rc == SPN_OK)
        (void)spn__dues_room_add(&d->dues, &room);
    spn__unlock(&d->lock);
    spn__dues_room_free(&room);
    spn__lock(&d->lock);
    return rc;
}

static int push(struct spn__work_source *source, struct spn__entry entry,
                int64_t due_ns, uint64_t *sequence, bool *first)
{
    struct spn__delays *d = delays_of(source);
    int rc = SPN_OK;

    spn__lock(&d->lock);
    if (d->dues.dead > 0 && is_full(d))
        spn__dues_sweep(&d->dues);
    while (!d->closed && is_full(d) && rc == SPN_OK)
        rc = grow(d);
    if (d->closed)
        rc = SPN_ESHUTDOWN;
    if (rc == SPN_OK) {
        /* Time may have passed since the last one was due. */
        if (spn__dues_is_far(&d->dues, due_ns))
            spn__dues_advance(&d->dues, spn__delays_now(d));
        *sequence = d->dues.sequence;
        *first = put_in(d, entry, due_ns);
    }
    spn__unlock(&d->lock);
    return rc;
}

/* Whether a task that comes back may; the lock is held. */
static bool may_come_back(struct spn__delays *d, spn_task *task, int64_t due_ns)
{
    /* relaxed: who stops the pool does so before it looks in here, with the lock. */
    if (spn__ctl_state(spn__load(&d->source.pool->ctl, relaxed)) >= SPN_EXECUTOR_STOP)
        return false;
    return !d->closed || d->allowed(d, task, due_ns);
}

bool spn__delays_come_back(struct spn__delays *d, spn_task *task, int64_t due_ns)
{
    bool back, first = false;

    spn__lock(&d->lock);
    d->away--;
    back = may_come_back(d, task, due_ns);
    if (back) {
        first = put_in(d, (struct spn__entry){ spn__entry_task, task }, due_ns);
        /* Cancelled while it was neither here nor seen to run: see future.c [tie]. */
        if (spn__scheduled_is_over(task)) {
            (void)extract(d, slot_of(task));
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

/* ---- going ------------------------------------------------------------------------------- */

/* The time, or one that was before it if something was due then: INT64_MIN if nothing
 * is due now. */
static int64_t due_by(struct spn__delays *d)
{
    const int64_t next = spn__load(&d->next, relaxed); /* [next] a hint */
    int64_t now_ns;

    if (next == SPN_FOREVER)
        return INT64_MIN;
    now_ns = spn__load(&d->seen_ns, relaxed); /* any time that has been will do */
    if (next <= now_ns)
        return now_ns;
    now_ns = spn__delays_now(d);
    if (next > now_ns)
        return INT64_MIN;
    if (d->monotonic)
        spn__store(&d->seen_ns, now_ns, relaxed); /* as above */
    return now_ns;
}

static bool take(struct spn__work_source *source, struct spn__entry *entry, bool *last)
{
    struct spn__delays *d = delays_of(source);
    bool taken = false;
    int64_t now_ns;
    uint32_t slot;

    /* Again if `next` was only a bucket's tick: it is exact then, and is looked for by the
     * clock. */
    while (!taken && (now_ns = due_by(d)) != INT64_MIN) {
        spn__lock(&d->lock);
        slot = spn__dues_first(&d->dues, now_ns);
        taken = slot != SPN__NO_SLOT;
        if (taken) {
            *entry = take_out(d, slot);
            d->away += is_periodic(task_in(entry));
            *last = spn__dues_waiting(&d->dues) == 0;
        } else {
            (void)publish(d); /* exactly, now */
        }
        spn__unlock(&d->lock);
    }
    if (taken && is_tied(task_in(entry)))
        spn__scheduled_left(task_in(entry), is_periodic(task_in(entry)));
    return taken;
}

bool spn__delays_cut(struct spn__delays *d, spn_task *task, bool hold)
{
    bool found;

    spn__lock(&d->lock);
    found = waits_here(d, task);
    if (found && hold)
        spn__pool_hold(d->source.pool);
    if (found)
        (void)take_out(d, slot_of(task));
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
    struct spn__entry entry = { NULL, NULL };
    uint32_t slot;

    spn__lock(&d->lock);
    slot = spn__dues_find(&d->dues, sequence);
    if (slot != SPN__NO_SLOT) {
        entry = extract(d, slot);
        count_pushed(d, -1);
    }
    spn__unlock(&d->lock);
    if (slot != SPN__NO_SLOT && is_tied(task_in(&entry)))
        spn__scheduled_left(task_in(&entry), false);
    return slot != SPN__NO_SLOT;
}

/* Takes out those that `wanted` says, or all, in order.  Calls are given nodes if that is
 * what the caller wants (`dropped` counts those without), and else just go. */
static int64_t collect_if(struct spn__delays *d,
                          bool (*wanted)(struct spn__delays *, const spn_task *,
                                         int64_t, const void *),
                          const void *ctx, struct spn__list *out, int64_t *dropped)
{
    struct spn__list_node *node;
    struct spn__list found;
    int64_t count = 0, lost = 0;
    uint32_t kept = 0;

    spn__list_init(&found);
    spn__lock(&d->lock);
    spn__dues_line_up(&d->dues);
    for (uint32_t i = 0; i < d->dues.run.end; i++) {
        const struct spn__due e = d->dues.run.entries[i];
        const struct spn__entry entry = spn__dues_slot(&d->dues, e.slot)->entry;
        spn_task *task = task_in(&entry);

        if (wanted != NULL && !wanted(d, task, e.due_ns, ctx)) {
            spn__dues_keep(&d->dues, kept++, e);
            continue;
        }
        spn__dues_drop(&d->dues, e.slot);
        count++;
        if (task != NULL)
            mark(task, TAKEN);
        else if (dropped != NULL) {
            task = spn__call_task_create_bare(entry.fn, entry.arg);
            if (task != NULL) /* as if it had been one */
                mark(task, TAKEN);
            else
                lost++;
        }
        if (task != NULL)
            spn__list_push_back(&found, spn__task_node(task));
    }
    spn__dues_kept(&d->dues, kept);
    (void)publish(d);
    count_popped(d, count);
    spn__unlock(&d->lock);
    spn__list_each (node, &found)
        if (is_tied(spn__node_task(node)))
            spn__scheduled_left(spn__node_task(node), false);
    spn__list_splice(out, &found);
    if (dropped != NULL)
        *dropped += lost;
    return count - lost;
}

struct filter {
    bool (*wanted)(spn_task *task, const void *ctx);
    const void *ctx;
};

static bool passes(struct spn__delays *d, const spn_task *task, int64_t due_ns,
                   const void *ctx)
{
    const struct filter *f = ctx;

    (void)d;
    (void)due_ns;
    return task != NULL && f->wanted((spn_task *)(uintptr_t)task, f->ctx);
}

static int64_t collect(struct spn__work_source *source,
                       bool (*wanted)(spn_task *, const void *), const void *ctx,
                       struct spn__list *out, int64_t *dropped)
{
    const struct filter f = { wanted, ctx };

    return collect_if(delays_of(source), wanted != NULL ? passes : NULL, &f, out,
                      dropped);
}

static bool not_allowed(struct spn__delays *d, const spn_task *task, int64_t due_ns,
                        const void *ctx)
{
    (void)ctx;
    return !d->allowed(d, task, due_ns);
}

static int64_t forbidden(struct spn__work_source *source, struct spn__list *out)
{
    return collect_if(delays_of(source), not_allowed, NULL, out, NULL);
}

size_t spn__delays_take_due(struct spn__delays *d, spn_task **tasks, size_t capacity)
{
    size_t count = 0;
    int64_t now_ns;
    uint32_t slot;
    bool earlier;

    spn__lock(&d->lock);
    now_ns = spn__delays_now(d);
    /* Calls have no task: they, and what is behind them, stay. */
    while (count < capacity &&
           (slot = spn__dues_first(&d->dues, now_ns)) != SPN__NO_SLOT) {
        if (task_in(&spn__dues_slot(&d->dues, slot)->entry) == NULL)
            break;
        tasks[count++] = take_out(d, slot).arg;
    }
    earlier = publish(d);
    spn__unlock(&d->lock);
    if (earlier)
        spn__idle_notify_first(d->source.pool);
    for (size_t i = 0; i < count; i++)
        if (is_tied(tasks[i]))
            spn__scheduled_left(tasks[i], false);
    return count;
}

static int64_t snapshot(struct spn__work_source *source, spn_task **tasks,
                        size_t capacity)
{
    struct spn__delays *d = delays_of(source);
    uint32_t count;
    size_t shown = 0;

    spn__lock(&d->lock);
    spn__dues_line_up(&d->dues);
    count = d->dues.run.end;
    for (uint32_t i = 0; i < count && shown < capacity; i++) {
        spn_task *task =
            task_in(&spn__dues_slot(&d->dues, d->dues.run.entries[i].slot)->entry);

        if (task != NULL)
            tasks[shown++] = task;
    }
    (void)publish(d);
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
    /* relaxed: as in due_by. */
    if (next <= spn__load(&d->seen_ns, relaxed) || next <= spn__delays_now(d))
        return INT64_MIN;
    return d->monotonic ? next : SPN_FOREVER;
}

static int64_t first_ns(struct spn__work_source *source)
{
    struct spn__delays *d = delays_of(source);

    return d->monotonic ? spn__load(&d->next, relaxed)
                        : SPN_FOREVER; /* [next] a hint */
}

static void clock_moved(void *ctx)
{
    struct spn__delays *d = ctx;

    /* [next] after the move, which is as good as an earlier task. */
    spn__fence(seq_cst);
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
                                                 .first_ns = first_ns,
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
                      bool (*allowed)(struct spn__delays *, const spn_task *, int64_t))
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
    d->away = 0;
    spn__dues_init(&d->dues, spn__delays_now(d));
    spn__init(&d->next, SPN_FOREVER);
    spn__init(&d->seen_ns, INT64_MIN);
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
    spn__dues_fini(&d->dues);
}
