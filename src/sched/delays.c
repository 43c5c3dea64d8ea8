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
 * THE INBOX
 *   Who brings a task leaves it in the inbox, in a few cache lines that it mostly has to
 *   itself, and whoever has the queue's lock moves all of them over: who takes, when the
 *   first of them is due, who looks for a task in the queue or goes through it, and who
 *   finds the inbox full.  When each task was put in its place by who brought it, it
 *   waited for those that take, and they for it: two thirds of what it cost to schedule a
 *   task while others ran.  There is room in the queue for all that is in the inbox:
 *   moving it never fails.
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
 *           The inbox has one of its own, and when to look is the earlier of the two.
 *           Who makes that earlier looks at `next`, with the inbox's lock; so does who goes
 *           to sleep until then (sleep_ns).  One that comes after it finds a `next` that is
 *           no older than what the sleeper found, and tells; and nobody makes `next`
 *           earlier without telling: a removal only ever makes it later.  A searcher that
 *           found a task has made `next` later, makes a full fence (exec/idle.c [search])
 *           and looks whether there is more: it sees what came, or that one, which makes a
 *           full fence as well, sees the later `next`.
 *   [inbox] Who empties it lowers `next` before it says that nothing is there any more,
 *           with release: who reads that, with acquire, sees a `next` which is as early.
 *   [size]  as in exec/work_fifo.c.
 *
 * LOCKS  The inbox's is a leaf, `lock` above it; both below pool->lock.  Growing copies
 *   the heaps under `lock`, once per doubling.  The inbox's is a quick one: what comes is
 *   written to new memory, which a locked instruction at the release would wait for.
 */
#include "sched/delays.h"

#include <string.h>

#include "base/time.h"
#include "exec/pool.h"
#include "future/executor.h"

/* What `queued` says of a task that was taken out: see exec/work_kinds.h. */
#define TAKEN 1u
/* What the inbox has room for, at most: a quarter of a megabyte is in its cache still. */
enum { INBOX_MAX = 4096 };

static struct spn__delays *delays_of(struct spn__work_source *source)
{
    return (struct spn__delays *)(void *)source;
}

/* The task in a slot; NULL: it is a call. */
static spn_task *task_in(const struct spn__entry *entry)
{
    return entry->fn == spn__entry_task ? entry->arg : NULL;
}

/* relaxed, both: written with the lock of where it is, and believed with both. */
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

/* The same after something was taken out: what was said before will do, and is not made
 * earlier, for nobody is told. */
static void publish_later(struct spn__delays *d)
{
    const int64_t next = spn__dues_next(&d->dues);

    if (next > spn__load(&d->next, relaxed)) /* only written under the lock */
        spn__store(&d->next, next, relaxed); /* [next] */
}

/* When to look next, for what is here and in the inbox. */
static int64_t first_due(struct spn__delays *d)
{
    /* [inbox] before `next`.  mutant: who relies on it has the inbox's lock */
    const int64_t came = spn__load(&d->inbox.next, acquire);
    const int64_t next = spn__load(&d->next, relaxed); /* [next] */

    return came < next ? came : next;
}

/* ---- in and out; the lock is held -------------------------------------------------------- */

/* relaxed reads: ours.  With the inbox's lock. */
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

/* There is room. */
static void put_in(struct spn__delays *d, const struct spn__arrival *a)
{
    const uint32_t slot = spn__dues_add(&d->dues, a->entry, a->due_ns, a->sequence);
    spn_task *task = task_in(&a->entry);

    if (task != NULL)
        task->link[0] = (void *)(uintptr_t)slot;
}

/* Takes what is in a slot out. */
static struct spn__entry extract(struct spn__delays *d, uint32_t slot)
{
    const struct spn__entry entry = spn__dues_remove(&d->dues, slot);
    spn_task *task = task_in(&entry);

    if (task != NULL)
        mark(task, TAKEN);
    publish_later(d);
    return entry;
}

/* The same, and it is counted as gone. */
static struct spn__entry take_out(struct spn__delays *d, uint32_t slot)
{
    count_popped(d, 1);
    return extract(d, slot);
}

/* ---- the inbox --------------------------------------------------------------------------- */

/* Both locks are held; `moving` of them are about to be put in. */
static void set_limit(struct spn__delays *d, uint32_t moving)
{
    const uint32_t left = d->dues.room - d->dues.used - d->away - moving;

    d->inbox.limit = left < d->inbox.room ? left : d->inbox.room;
}

/* Empties it into `moving`; both locks are held.  Returns how many are there then. */
static uint32_t detach(struct spn__delays *d)
{
    struct spn__delays_inbox *in = &d->inbox;
    const uint32_t count = in->used;
    struct spn__arrival *const arrivals = in->arrivals;
    const int64_t first = spn__load(&in->next, relaxed); /* the lock is held */

    in->arrivals = in->moving;
    in->moving = arrivals;
    in->used = 0;
    set_limit(d, count);
    if (first == SPN_FOREVER)
        return count;
    if (first < spn__load(&d->next, relaxed))    /* only written under the lock */
        spn__store(&d->next, first, relaxed);    /* [inbox] */
    spn__store(&in->next, SPN_FOREVER, release); /* [inbox] mutant: see first_due */
    return count;
}

/* Puts them in. */
static void file(struct spn__delays *d, uint32_t count)
{
    bool advanced = false;

    for (uint32_t i = 0; i < count; i++) {
        const struct spn__arrival *a = &d->inbox.moving[i];

        /* Time may have passed since the last one was due. */
        if (!advanced && spn__dues_is_far(&d->dues, a->due_ns)) {
            advanced = true;
            spn__dues_advance(&d->dues, spn__delays_now(d));
        }
        put_in(d, a);
    }
}

/* Moves all over; the lock is held. */
static void fetch(struct spn__delays *d)
{
    uint32_t count;

    spn__quick_lock(&d->inbox.lock);
    count = detach(d);
    spn__quick_unlock(&d->inbox.lock);
    file(d, count);
}

/* Its lock is held, and there is room; true if somebody must look earlier.  That is asked
 * for with the lock: once somebody has moved it over, `next` has its time, and nobody would
 * tell. */
static bool arrive(struct spn__delays *d, struct spn__entry entry, int64_t due_ns)
{
    struct spn__delays_inbox *in = &d->inbox;
    spn_task *task = task_in(&entry);

    in->arrivals[in->used++] = (struct spn__arrival){ due_ns, in->sequence++, entry };
    if (task != NULL) {
        mark(task, d->source.pool->id);
        if (is_tied(task))
            spn__scheduled_entered(task, due_ns);
    }
    count_pushed(d, 1);
    if (due_ns >= spn__load(&in->next, relaxed)) /* only written under the lock */
        return false;
    spn__store(&in->next, due_ns, relaxed); /* [next] before the fence */
    spn__fence(seq_cst);                    /* [next] */
    return due_ns < spn__load(&d->next, relaxed);
}

/* ---- coming ------------------------------------------------------------------------------ */

static bool is_full(const struct spn__delays *d)
{
    return d->dues.used + d->away >= d->dues.room;
}

/* A larger inbox, in one block; the lock is held.  *block is then what is to be freed. */
static void enlarge(struct spn__delays *d, struct spn__arrival **block, uint32_t room)
{
    struct spn__delays_inbox *in = &d->inbox;
    struct spn__arrival *const arrivals = *block;

    spn__quick_lock(&in->lock);
    if (arrivals != NULL && room > in->room) {
        *block = in->arrivals < in->moving ? in->arrivals : in->moving;
        if (in->used > 0)
            memcpy(arrivals, in->arrivals, in->used * sizeof *arrivals);
        in->arrivals = arrivals;
        in->moving = arrivals + room;
        in->room = room;
    }
    spn__quick_unlock(&in->lock);
}

/* The lock is held before and after, but not meanwhile. */
static int grow(struct spn__delays *d)
{
    const uint32_t part_count = d->dues.part_count;
    const uint32_t more = spn__dues_room_before(part_count + 1) / 2;
    const uint32_t inbox_room = more < INBOX_MAX ? more : INBOX_MAX;
    const bool enlarges = inbox_room > d->inbox.room;
    struct spn__arrival *block = NULL;
    struct spn__dues_room room;
    int rc;

    spn__unlock(&d->lock);
    rc = spn__dues_room_get(&room, part_count);
    if (rc == SPN_OK && enlarges) {
        block = spn__alloc(2 * (size_t)inbox_room * sizeof *block);
        rc = block != NULL ? SPN_OK : SPN_ENOMEM;
    }
    spn__lock(&d->lock);
    if (rc == SPN_OK) {
        (void)spn__dues_room_add(&d->dues, &room);
        enlarge(d, &block, inbox_room);
    }
    spn__unlock(&d->lock);
    spn__dues_room_free(&room);
    spn__free(block);
    spn__lock(&d->lock);
    return rc;
}

/* The inbox is full, or the queue. */
static int make_room(struct spn__delays *d)
{
    bool is_large = false;
    int rc = SPN_OK;

    spn__lock(&d->lock);
    fetch(d);
    if (d->dues.dead > 0 && is_full(d))
        spn__dues_sweep(&d->dues);
    if (is_full(d)) {
        is_large = (int64_t)d->dues.used >= d->source.pool->work.many / 2;
        rc = grow(d);
    }
    spn__quick_lock(&d->inbox.lock);
    set_limit(d, 0);
    spn__quick_unlock(&d->inbox.lock);
    spn__unlock(&d->lock);
    if (is_large) /* once per doubling */
        spn__work_grown(d->source.pool);
    return rc;
}

static int push(struct spn__work_source *source, struct spn__entry entry,
                int64_t due_ns, uint64_t *sequence, bool *first)
{
    struct spn__delays *d = delays_of(source);
    struct spn__delays_inbox *in = &d->inbox;
    int rc = SPN_OK;

    spn__quick_lock(&in->lock);
    while (!in->closed && in->used >= in->limit && rc == SPN_OK) {
        spn__quick_unlock(&in->lock);
        rc = make_room(d);
        spn__quick_lock(&in->lock);
    }
    if (in->closed)
        rc = SPN_ESHUTDOWN;
    if (rc == SPN_OK) {
        *sequence = in->sequence;
        *first = arrive(d, entry, due_ns);
    }
    spn__quick_unlock(&in->lock);
    return rc;
}

/* What came has never been here; the lock is held. */
static void uncount(struct spn__delays *d)
{
    spn__quick_lock(&d->inbox.lock);
    count_pushed(d, -1);
    spn__quick_unlock(&d->inbox.lock);
}

/* Whether a task that comes back may; the lock is held. */
static bool may_come_back(struct spn__delays *d, spn_task *task, int64_t due_ns)
{
    /* relaxed: who stops the pool does so before it looks in here, with the lock. */
    if (spn__ctl_state(spn__load(&d->source.pool->ctl, relaxed)) >= SPN_EXECUTOR_STOP)
        return false;
    return !d->inbox.closed || d->allowed(d, task, due_ns);
}

bool spn__delays_come_back(struct spn__delays *d, spn_task *task, int64_t due_ns)
{
    struct spn__arrival a = { due_ns, 0, { spn__entry_task, task } };
    bool back, first = false;

    spn__lock(&d->lock);
    d->away--;
    back = may_come_back(d, task, due_ns);
    if (back) {
        spn__quick_lock(&d->inbox.lock);
        a.sequence = d->inbox.sequence++;
        count_pushed(d, 1);
        spn__quick_unlock(&d->inbox.lock);
        put_in(d, &a);
        mark(task, d->source.pool->id);
        spn__scheduled_entered(task, due_ns);
        first = publish(d);
        /* Cancelled while it was neither here nor seen to run: see future.c [tie]. */
        if (spn__scheduled_is_over(task)) {
            (void)extract(d, slot_of(task));
            mark(task, 0);
            uncount(d);
            back = false;
        }
    }
    spn__unlock(&d->lock);
    if (first) /* also if it is over: `next` says so for whoever comes now */
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
    const int64_t next = first_due(d); /* a hint */
    int64_t now_ns;

    if (next == SPN_FOREVER)
        return INT64_MIN;
    /* Any time that has been will do; INT64_MIN: none has. */
    now_ns = spn__load(&d->seen_ns, relaxed);
    if (next <= now_ns && now_ns != INT64_MIN)
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
        /* relaxed: what came before this was asked for is seen. */
        if (spn__load(&d->inbox.next, relaxed) <= now_ns)
            fetch(d);
        slot = spn__dues_first(&d->dues, now_ns);
        taken = slot != SPN__NO_SLOT;
        if (taken) {
            *entry = take_out(d, slot);
            d->away += is_periodic(task_in(entry));
            /* relaxed, both: ours; what comes just now is not the last, or tells. */
            *last = spn__load(&d->source.pushed, relaxed) ==
                    spn__load(&d->source.popped, relaxed);
        } else {
            publish_later(d); /* exactly, now */
        }
        spn__unlock(&d->lock);
    }
    if (taken && is_tied(task_in(entry)))
        spn__scheduled_left(task_in(entry), is_periodic(task_in(entry)));
    return taken;
}

bool spn__delays_cut(struct spn__delays *d, spn_task *task, bool hold)
{
    uint32_t count = 0;
    bool found;

    spn__lock(&d->lock);
    spn__quick_lock(&d->inbox.lock);
    found = waits_here(d, task); /* here or there */
    if (found)
        count = detach(d);
    spn__quick_unlock(&d->inbox.lock);
    file(d, count);
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
    fetch(d);
    slot = spn__dues_find(&d->dues, sequence);
    if (slot != SPN__NO_SLOT) {
        entry = extract(d, slot);
        uncount(d);
    }
    spn__unlock(&d->lock);
    if (slot != SPN__NO_SLOT && is_tied(task_in(&entry)))
        spn__scheduled_left(task_in(&entry), false);
    return slot != SPN__NO_SLOT;
}

/* Takes out those that `wanted` says, in order.  Tasks go to `out`; calls just go. */
static int64_t collect_if(struct spn__delays *d,
                          bool (*wanted)(struct spn__delays *, const spn_task *,
                                         int64_t, const void *),
                          const void *ctx, struct spn__list *out)
{
    struct spn__list_node *node;
    struct spn__list found;
    int64_t count = 0;
    uint32_t kept = 0;

    spn__list_init(&found);
    spn__lock(&d->lock);
    fetch(d);
    spn__dues_line_up(&d->dues);
    for (uint32_t i = 0; i < d->dues.run.end; i++) {
        const struct spn__due e = d->dues.run.entries[i];
        const struct spn__entry entry = spn__dues_slot(&d->dues, e.slot)->entry;
        spn_task *task = task_in(&entry);

        if (!wanted(d, task, e.due_ns, ctx)) {
            spn__dues_keep(&d->dues, kept++, e);
            continue;
        }
        spn__dues_drop(&d->dues, e.slot);
        count++;
        if (task != NULL) {
            mark(task, TAKEN);
            spn__list_push_back(&found, spn__task_node(task));
        }
    }
    spn__dues_kept(&d->dues, kept);
    publish_later(d);
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

static bool passes(struct spn__delays *d, const spn_task *task, int64_t due_ns,
                   const void *ctx)
{
    const struct filter *f = ctx;

    (void)d;
    (void)due_ns;
    return task != NULL &&
           (f->wanted == NULL || f->wanted((spn_task *)(uintptr_t)task, f->ctx));
}

static int64_t collect(struct spn__work_source *source,
                       bool (*wanted)(spn_task *, const void *), const void *ctx,
                       struct spn__list *out)
{
    const struct filter f = { wanted, ctx };

    return collect_if(delays_of(source), passes, &f, out);
}

static size_t drain(struct spn__work_source *source, struct spn__entry *entries,
                    size_t capacity)
{
    struct spn__delays *d = delays_of(source);
    size_t count = 0;
    uint32_t slot;

    spn__lock(&d->lock);
    fetch(d);
    while (count < capacity &&
           (slot = spn__dues_first_of_all(&d->dues)) != SPN__NO_SLOT)
        entries[count++] = take_out(d, slot);
    spn__unlock(&d->lock);
    for (size_t i = 0; i < count; i++)
        if (is_tied(task_in(&entries[i])))
            spn__scheduled_left(task_in(&entries[i]), false);
    return count;
}

static bool not_allowed(struct spn__delays *d, const spn_task *task, int64_t due_ns,
                        const void *ctx)
{
    (void)ctx;
    return !d->allowed(d, task, due_ns);
}

static int64_t forbidden(struct spn__work_source *source, struct spn__list *out)
{
    return collect_if(delays_of(source), not_allowed, NULL, out);
}

size_t spn__delays_take_due(struct spn__delays *d, spn_task **tasks, size_t capacity)
{
    size_t count = 0;
    int64_t now_ns;
    uint32_t slot;
    bool earlier;

    spn__lock(&d->lock);
    fetch(d);
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
    fetch(d);
    spn__dues_line_up(&d->dues);
    count = d->dues.run.end;
    for (uint32_t i = 0; i < count && shown < capacity; i++) {
        spn_task *task =
            task_in(&spn__dues_slot(&d->dues, d->dues.run.entries[i].slot)->entry);

        if (task != NULL)
            tasks[shown++] = task;
    }
    publish_later(d);
    spn__unlock(&d->lock);
    return (int64_t)count;
}

/* ---- time ---------------------------------------------------------------------------- */

static int64_t now(struct spn__work_source *source)
{
    return spn__delays_now(delays_of(source));
}

/* What next_ns says, if the first is due at `next`. */
static int64_t until(struct spn__delays *d, int64_t next)
{
    if (next == SPN_FOREVER)
        return SPN_FOREVER;
    /* relaxed: as in due_by. */
    if (next <= spn__load(&d->seen_ns, relaxed) || next <= spn__delays_now(d))
        return INT64_MIN;
    return d->monotonic ? next : SPN_FOREVER;
}

static int64_t next_ns(struct spn__work_source *source)
{
    struct spn__delays *d = delays_of(source);

    return until(d, first_due(d)); /* a hint */
}

static int64_t sleep_ns(struct spn__work_source *source)
{
    struct spn__delays *d = delays_of(source);
    int64_t next;

    spn__quick_lock(&d->inbox.lock);
    next = first_due(d); /* [next] */
    spn__quick_unlock(&d->inbox.lock);
    return until(d, next);
}

static int64_t first_ns(struct spn__work_source *source)
{
    struct spn__delays *d = delays_of(source);

    return d->monotonic ? first_due(d) : SPN_FOREVER; /* a hint */
}

static void clock_moved(void *ctx)
{
    struct spn__delays *d = ctx;

    /* [next] after the move, which is as good as an earlier task.
     * mutant: who goes to sleep looks with the inbox's lock as well, before or after */
    spn__fence(seq_cst);
    if (sleep_ns(&d->source) == INT64_MIN)
        spn__idle_notify_first(d->source.pool);
}

/* ---- the whole ------------------------------------------------------------------------ */

static void lock(struct spn__work_source *source)
{
    spn__lock(&delays_of(source)->lock);
    spn__quick_lock(&delays_of(source)->inbox.lock);
}

static void unlock(struct spn__work_source *source)
{
    spn__quick_unlock(&delays_of(source)->inbox.lock);
    spn__unlock(&delays_of(source)->lock);
}

static void close_door(struct spn__work_source *source)
{
    delays_of(source)->inbox.closed = true;
}

static const struct spn__work_source_ops ops = { .push = push,
                                                 .now = now,
                                                 .take = take,
                                                 .next_ns = next_ns,
                                                 .sleep_ns = sleep_ns,
                                                 .first_ns = first_ns,
                                                 .remove = remove_task,
                                                 .withdraw = withdraw,
                                                 .collect = collect,
                                                 .drain = drain,
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
    spn__quick_lock_init(&d->inbox.lock);
    d->inbox.used = d->inbox.limit = d->inbox.room = 0;
    d->inbox.sequence = 1; /* 0 is none's */
    spn__init(&d->inbox.next, SPN_FOREVER);
    d->inbox.arrivals = d->inbox.moving = NULL;
    spn__lock_init(&d->lock);
    d->inbox.closed = false;
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
    struct spn__delays_inbox *in = &d->inbox;

    spn__free(in->arrivals < in->moving ? in->arrivals : in->moving); /* one block */
    spn__dues_fini(&d->dues);
}
