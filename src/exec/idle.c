/* SPDX-License-Identifier: MIT */
/*
 * idle.c - workers without work, and who wakes them.
 *
 * OVERVIEW
 *   A worker that finds nothing puts itself first on a list and parks on a word of
 *   its own; whoever brings work takes the first off and wakes it.  Last come, first
 *   woken: its caches are warm, and those that nobody needs stay asleep until their
 *   keep-alive is over.
 *
 * ONE WAKE-UP AT A TIME
 *   A wake-up is a system call, so no more are made than are needed.  `searching`
 *   counts the workers that are awake, hold no task and will look again; a submitter
 *   that sees one leaves it at that.  A searcher that finds a task looks whether there
 *   is more, and then wakes the next: the search is handed on, and a burst wakes as
 *   many workers as it can use, one after another.
 *
 * SPINNING
 *   A worker that spins finds new work in a tenth of a microsecond, and keeps a CPU busy.
 *   It pays when work comes often, and how long depends on what a wake-up takes: both are
 *   learned (spin.h).  At most one worker of a pool spins, and has a tray out (tray.c).
 *
 * NAPS
 *   The system likes to wake a worker on the CPU of its waker, which then waits there: the
 *   worker runs the one task that was pushed, lies down, and the next push wakes it again.
 *   Each turn takes microseconds, for a task of a few nanoseconds, and looking for more is
 *   in vain: who would bring it does not run meanwhile.  So a worker whose last NAPS sleeps
 *   were over sooner than a wake-up takes does not lie down but gives its CPU away, and
 *   looks again when it has it back, for as long as a wake-up takes.  It is neither listed
 *   nor counted then, and has looked once more if it was: nobody relies on it, as on one
 *   that has a task to run, and who brings one wakes another that sleeps.  Once it was away
 *   for longer, or what it saw went to another, it is to sleep again before it does so: the
 *   CPU may be shared with somebody who brings nothing, and then to be woken is faster.
 *
 * TIMED  (work.c)  Of the idle workers one is the leader: it alone wakes when the next
 *   task is due.  Who lists itself becomes the leader if there is none, and then reads
 *   when that is.  Whoever stops being it, woken or by itself, is a searcher: it lists
 *   itself again, or finds a task or leaves the pool, and then wakes the next, who
 *   becomes the leader, if there is anything to wait for.  A task that is due before all
 *   others wakes the leader, so that it sleeps shorter; with no leader, and nobody
 *   searching, any other.
 *
 *   THE DEPUTY  A worker that lists itself while there is a leader but no deputy becomes
 *   the deputy.  It sleeps until SPN__STAND_BY after the next task is due.  A leader that
 *   takes a task wakes nobody while a deputy will soon wake by itself: the task may run
 *   for ever, so somebody must watch the next one, but most tasks are short, and the
 *   leader is through with all that are due before the deputy wakes.  If the deputy wakes
 *   and the first task has not waited for SPN__STAND_BY, the leader is at work, and the
 *   deputy sleeps on until that task has (stands_by).  A leader that sleeps is not woken
 *   for what is due, because it wakes for that.  So a task that is due behind one that
 *   runs long starts SPN__STAND_BY late, at most.  A burst gets its other workers when the
 *   deputy wakes and wakes the next.  A deputy that wakes is a searcher, as a leader is;
 *   one that is not listed any more is not relied on.  On a clock that cannot be slept by
 *   there is none.
 *
 *   WHY NOT a leader alone?  It wakes the second worker for each handful of tasks, and
 *   then both take turns at one lock.  A million tasks within a second (T5), CPU in s,
 *   medians of 7 runs in turn, with the deputy and without: calls 0.47 and 0.62, the
 *   caller's tasks 0.49 and 0.86, with a future 1.99 and 2.23.  Of two million tasks, the
 *   futex calls that did not time out: 1,400 to 3,800, and 18,700 to 23,000.  A deputy
 *   that does not stand by for longer makes 12,700 to 22,700.
 *
 *   Nobody spins for what is due later: with a task every few microseconds that would be
 *   a CPU for as long as there are tasks, while a leader that sleeps finds all that have
 *   become due meanwhile.
 *
 * ORDERING
 *   [wake]   The worker lists itself and makes a heavy fence, then looks for work and
 *            at the epoch.  Whoever changes those makes a light fence (or a heavy one)
 *            afterwards and then looks at idle_count.  One of the two sees the other.
 *            Where a push holds a lock, and in a TIMED pool, both fences are full ones:
 *            behind the release of a lock they cost little or nothing, and going to sleep
 *            needs no system call but the one that sleeps.
 *   [search] The submitter that found somebody idle makes a full fence after its push
 *            (notify_first: that of [wake]) and looks at `searching`; a searcher lowers
 *            that and makes a full fence (where it goes to sleep that of [wake]) before
 *            it looks for work for the last time.  So the searcher that a submitter
 *            relied on sees its task.  If it does so when it was about to sleep it searches
 *            again: others may have relied on it, too, and it takes one task only.
 *
 *   [epoch]  Its release comes after the change of a knob; a worker reads it, with
 *            acquire, before the knobs it decides by, and does not sleep on an old one.
 *   [user]   A worker that waits in a user's queue says so, makes a light fence and
 *            looks at the epoch; look_around raises that, makes a heavy fence and
 *            interrupts those that wait, each marked first (1 -> 2).  One that finds
 *            the mark when it leaves the queue waits for the interrupt, so that this
 *            is cleared before the next task and does not come into it.
 *
 * LOCKS  idle_lock guards the list; a leaf.
 */
#include "exec/pool.h"

#include "base/time.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

enum { PROBE = 64, NAPS = SPN__LOOKS_MAX > 1 ? 8 : 1 };

void spn__idle_init(struct spn_pool *pool)
{
    spn__init(&pool->idle_count, 0);
    spn__init(&pool->searching, 0);
    spn__init(&pool->epoch, 0);
    spn__init(&pool->leader, NULL);
    spn__init(&pool->deputy, NULL);
    spn__init(&pool->deputy_ns, SPN_FOREVER);
    spn__lock_init(&pool->idle_lock);
    spn__list_init(&pool->idle);
}

bool spn__idle_work_waits(struct spn_pool *pool)
{
    /* relaxed: changed together with the epoch, which wakes. */
    return spn__load(&pool->paused, relaxed) == 0 && spn__work_ready(pool);
}

static void count_idle(struct spn_pool *pool, int32_t by)
{
    /* relaxed, both: the lock is held for writing; [wake] is made by fences. */
    spn__store(&pool->idle_count, spn__load(&pool->idle_count, relaxed) + by, relaxed);
}

/* There is no deputy from now on; the lock is held. */
static void dismiss(struct spn_pool *pool)
{
    /* relaxed, both: the lock is held for writing. */
    spn__store(&pool->deputy, NULL, relaxed);
    spn__store(&pool->deputy_ns, SPN_FOREVER, relaxed);
}

/* Off the list of the idle; the lock is held. */
static void unlead(struct spn_pool *pool, const struct spn__worker *w)
{
    /* relaxed, all: the lock is held for writing. */
    if (spn__load(&pool->leader, relaxed) == w)
        spn__store(&pool->leader, NULL, relaxed);
    if (spn__load(&pool->deputy, relaxed) == w)
        dismiss(pool);
}

/* [wake] Whether a push ends with the release of a lock, whatever is pushed. */
static bool push_locks(const struct spn_pool *pool)
{
    return pool->kind == SPN__WORK_FIFO || pool->kind == SPN__WORK_PRIORITY;
}

/* Wakes one that will search: the leader, if it is to look again, or the first. */
static void wake(struct spn_pool *pool, bool leader_first)
{
    struct spn__list_node *node = NULL;
    struct spn__worker *w = NULL, *leader;

    spn__lock(&pool->idle_lock);
    leader = spn__load(&pool->leader, relaxed); /* the lock is held */
    if (leader_first && leader != NULL) {
        node = &leader->idle_link;
        spn__list_remove(node);
    } else {
        node = spn__list_pop_front(&pool->idle);
    }
    if (node != NULL) {
        w = spn__list_entry(node, struct spn__worker, idle_link);
        unlead(pool, w);
        w->chosen_to_search = true;
        pool->wakeups++;
        count_idle(pool, -1);
        /* relaxed: a higher count only keeps others from waking more, and this one
         * is awake from here on. */
        (void)spn__fetch_add(&pool->searching, 1, relaxed);
    }
    spn__unlock(&pool->idle_lock);
    if (w != NULL)
        spn__parker_unpark(&w->parker);
}

static void wake_one(struct spn_pool *pool)
{
    wake(pool, false);
}

static bool has_leader(struct spn_pool *pool)
{
    return spn__load(&pool->leader, relaxed) != NULL; /* after a fence, as idle_count */
}

/* Whether there is something that no idle worker will wake for by itself.  A leader wakes
 * for all that is due, or is told by a clock that cannot be slept by. */
static bool unwatched(struct spn_pool *pool)
{
    if (pool->kind != SPN__WORK_TIMED)
        return spn__idle_work_waits(pool);
    return !has_leader(pool) && spn__work_any(pool);
}

/* [wake] The halves of whoever brings work and of whoever goes to sleep. */
static void fence_to_wake(const struct spn_pool *pool)
{
    if (push_locks(pool))
        spn__fence_after_rmw(); /* [wake] */
    else if (pool->kind == SPN__WORK_TIMED)
        spn__fence(seq_cst); /* [wake] */
    else
        spn__fence_light(); /* [wake] */
}

static void fence_to_sleep(const struct spn_pool *pool)
{
    if (push_locks(pool))
        spn__fence_after_rmw(); /* [wake] */
    else if (pool->kind == SPN__WORK_TIMED)
        spn__fence(seq_cst); /* [wake] */
    else
        spn__fence_heavy(); /* [wake] */
}

void spn__idle_notify_first(struct spn_pool *pool)
{
    fence_to_wake(pool); /* [wake] after the push; [search] it is TIMED: a full one */
    /* relaxed, both: ordered by the fence. */
    if (spn__load(&pool->idle_count, relaxed) > 0 &&
        (has_leader(pool) || spn__load(&pool->searching, relaxed) == 0))
        wake(pool, true);
}

void spn__idle_notify(struct spn_pool *pool)
{
    fence_to_wake(pool); /* [wake] after the push */
    /* relaxed: ordered by the fence. */
    if (spn__load(&pool->idle_count, relaxed) == 0)
        return;
    spn__fence(seq_cst); /* [search] */
    if (spn__load(&pool->searching, relaxed) == 0)
        wake_one(pool);
}

void spn__idle_look_around(struct spn_pool *pool)
{
    struct spn__list all;
    struct spn__list_node *node;

    (void)spn__fetch_add(&pool->epoch, 1, release); /* [epoch] */
    spn__fence_heavy();                             /* [wake] [door] [core] */
    spn__list_init(&all);
    spn__lock(&pool->idle_lock);
    spn__store(&pool->leader, NULL, relaxed); /* the lock is held */
    dismiss(pool);
    spn__list_each (node, &pool->idle) {
        count_idle(pool, -1);
        pool->wakeups++;
    }
    spn__list_splice(&all, &pool->idle);
    while ((node = spn__list_pop_front(&all)) != NULL)
        /* Under the lock: until it is popped, a worker may still withdraw. */
        spn__parker_unpark(
            &spn__list_entry(node, struct spn__worker, idle_link)->parker);
    spn__unlock(&pool->idle_lock);
    spn__list_each (node, &pool->workers) {
        struct spn__worker *w = spn__list_entry(node, struct spn__worker, link);

        uint32_t waits = 1;

        /* [user] after the fence; acquire: `self` comes with it.  Who finds the 2 takes
         * the lock that we hold, and that can only be after us. */
        if (spn__cas(&w->waiting, &waits, 2, acquire, relaxed))
            spn__interrupt_set(spn__load(&w->self, relaxed)); /* written before it */
    }
}

/* Off the list, unless somebody took it off: then a permit is on its way. */
static bool withdraw(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    bool listed;

    spn__lock(&pool->idle_lock);
    listed = spn__list_linked(&w->idle_link);
    if (listed) {
        spn__list_remove(&w->idle_link);
        unlead(pool, w);
        count_idle(pool, -1);
    }
    spn__unlock(&pool->idle_lock);
    return listed;
}

static bool changed(struct spn__worker *w, uint32_t epoch)
{
    /* relaxed: [wake] is the caller's, or the next look is near. */
    return spn__load(&w->pool->epoch, relaxed) != epoch ||
           spn__idle_work_waits(w->pool);
}

static void stop_searching(struct spn__worker *w)
{
    if (!w->searching)
        return;
    w->searching = false;
    /* relaxed: a fence follows [search]. */
    (void)spn__fetch_sub(&w->pool->searching, 1, relaxed);
}

/* Counts it as searching; false: another one is. */
static bool be_searching(struct spn__worker *w)
{
    int32_t none = 0;

    /* relaxed: it only keeps others from waking or spinning too. */
    if (!w->searching && spn__cas(&w->pool->searching, &none, 1, relaxed, relaxed))
        w->searching = true;
    return w->searching;
}

/* Until when the leader sleeps at most. */
static int64_t next_due(struct spn_pool *pool)
{
    struct spn__work_source *source = pool->work.source;

    /* relaxed: comes with the epoch. */
    return spn__load(&pool->paused, relaxed) != 0 ? SPN_FOREVER
                                                  : source->ops->next_ns(source);
}

/* Whether the next task is known, and not due. */
static bool knows_when(struct spn_pool *pool)
{
    int64_t due_ns;

    if (pool->kind != SPN__WORK_TIMED)
        return false;
    due_ns = next_due(pool);
    return due_ns != INT64_MIN && due_ns != SPN_FOREVER;
}

/* Whether a task that comes may start, unless the pool is paused: tray.c sees to that. */
static bool takes_any(struct spn_pool *pool)
{
    /* relaxed: as in take (worker.c). */
    return spn__ctl_state(spn__load(&pool->ctl, relaxed)) == SPN_EXECUTOR_RUNNING;
}

/* Looks for a while; true if there is something to look at. */
static bool search(struct spn__worker *w, uint32_t epoch)
{
    struct spn__look look;
    uint32_t span_ns;
    bool on, tray, found;

    if (w->spun) { /* it saw something, and somebody else was faster */
        w->spun = false;
        span_ns = w->spin.span_ns;
        spn__spin_in_vain(&w->spin);
    } else {
        span_ns = spn__spin_span(&w->spin, spn__parker_wake_ns(&w->parker), PROBE);
    }
    if (span_ns == 0 || knows_when(w->pool) || !be_searching(w))
        return false;
    look = spn__look_begin(span_ns);
    tray = takes_any(w->pool) && spn__tray_put_out(w);
    do {
        on = spn__look_on(&look);
        found = (tray && spn__tray_is_laden(w->pool)) || changed(w, epoch);
    } while (on && !found);
    if (tray && spn__tray_take_in(w))
        found = true;
    if (found)
        w->spun = true; /* worth it if there is a task to be had: see found */
    else
        spn__spin_in_vain(&w->spin);
    return found;
}

/* Lets others have the CPU for a moment, instead of a nap; true if there is something to
 * look at then.  No longer searching, if it was. */
static bool let_others_run(struct spn__worker *w, uint32_t epoch, bool searched)
{
    int64_t begin_ns, gone_ns;
    uint32_t turns = 0;
    bool found;

    if (w->let_run) /* it saw something, and somebody else was faster */
        w->naps = 0;
    w->let_run = false;
    if (w->naps < NAPS || knows_when(w->pool))
        return false;
    if (searched) {
        /* [search] mutant: what it misses here it finds before it sleeps, only later */
        spn__fence_after_rmw();
        if (changed(w, epoch))
            return true;
    }
    begin_ns = spn__now();
    do {
        spn__os_yield();
        found = changed(w, epoch);
        gone_ns = spn__now() - begin_ns;
    } while (!found && gone_ns <= spn__parker_wake_ns(&w->parker) &&
             ++turns < SPN__LOOKS_MAX);
    if (!found || gone_ns > spn__parker_wake_ns(&w->parker))
        w->naps = 0;
    w->let_run = found;
    return found;
}

/* It was woken, perhaps after its time was over. */
static void count_nap(struct spn__worker *w, bool in_time)
{
    if (!in_time || spn__parker_slept_ns(&w->parker) > spn__parker_wake_ns(&w->parker))
        w->naps = 0;
    else if (w->naps < NAPS)
        w->naps++;
}

/* Makes it the leader or, if there is one and something is due at due_ns, the deputy, and
 * returns when that is to wake.  The lock is held. */
static int64_t take_post(struct spn_pool *pool, struct spn__worker *w, int64_t due_ns)
{
    /* relaxed, all: the lock is held. */
    if (!has_leader(pool)) {
        spn__store(&pool->leader, w, relaxed);
        return SPN_FOREVER; /* to be read after the fence */
    }
    if (due_ns == INT64_MIN || due_ns == SPN_FOREVER ||
        spn__load(&pool->deputy, relaxed) != NULL)
        return SPN_FOREVER;
    due_ns = spn__time_add(due_ns, SPN__STAND_BY);
    spn__store(&pool->deputy, w, relaxed);
    spn__store(&pool->deputy_ns, due_ns, relaxed);
    return due_ns;
}

/* Whether a deputy wakes soon, by itself. */
static bool stood_by(struct spn_pool *pool)
{
    /* relaxed: after a fence, as idle_count. */
    const int64_t deputy_ns = spn__load(&pool->deputy_ns, relaxed);

    return deputy_ns != SPN_FOREVER &&
           deputy_ns <= spn__time_add(spn__now(), SPN__STAND_BY);
}

/* A deputy's time is over: if what is due first by now has not waited for as long, it goes
 * on standing by for that.  What it sees may be old, and that is then twice as late, at
 * most: nothing that is far away is relied on here. */
static bool stands_by(struct spn_pool *pool, const struct spn__worker *w,
                      int64_t *until_ns)
{
    struct spn__work_source *source = pool->work.source;
    const int64_t now_ns = spn__now();
    const int64_t due_ns = source->ops->first_ns(source);
    bool stands;

    /* Else it lists itself anew, with the fences that it takes. */
    if (due_ns > spn__time_add(now_ns, SPN__STAND_BY) ||
        spn__time_add(due_ns, SPN__STAND_BY) <= now_ns)
        return false;
    spn__lock(&pool->idle_lock);
    stands = spn__load(&pool->deputy, relaxed) == w; /* the lock is held, as below */
    if (stands) {
        *until_ns = due_ns + SPN__STAND_BY;
        spn__store(&pool->deputy_ns, *until_ns, relaxed);
    }
    spn__unlock(&pool->idle_lock);
    return stands;
}

/* It has come off the list by itself; one that others rely on, for it had a post or was
 * searching, sees to all that waits: it hands the search on. */
static void step_down(struct spn__worker *w, bool relied_on)
{
    if (!relied_on)
        return;
    w->searching = true;
    (void)spn__fetch_add(&w->pool->searching, 1, relaxed); /* as in wake */
}

void spn__idle_wait(struct spn__worker *w, uint32_t epoch, int64_t deadline_ns)
{
    struct spn_pool *pool = w->pool;
    int64_t due_ns = SPN_FOREVER;
    bool leads = false, has_post = false, in_time = true, searched;

    spn__os_cancel_disable(); /* a task may have enabled it */
    if (search(w, epoch))     /* with a task, perhaps: `given` */
        return;
    searched = w->searching;
    stop_searching(w); /* [search] the fence below */
    if (let_others_run(w, epoch, searched)) {
        step_down(w, searched); /* as below */
        return;
    }
    if (pool->kind == SPN__WORK_TIMED)
        due_ns = next_due(pool); /* for a deputy, whom nobody relies on for more */
    spn__lock(&pool->idle_lock);
    w->chosen_to_search = false;
    spn__list_push_front(&pool->idle, &w->idle_link);
    if (pool->kind == SPN__WORK_TIMED) {
        due_ns = take_post(pool, w, due_ns);
        leads = spn__load(&pool->leader, relaxed) == w; /* the lock is held */
        has_post = leads || due_ns != SPN_FOREVER;
    }
    count_idle(pool, 1);
    spn__unlock(&pool->idle_lock);
    fence_to_sleep(pool); /* [wake] [search] */
    if (pool->kind == SPN__WORK_STEAL)
        pool->work.stealing->listed(pool->work.stealing, w);
    if (changed(w, epoch) && withdraw(w)) {
        step_down(w, has_post || searched); /* several may have relied on it */
        return;
    }
    if (leads && spn__load(&pool->paused, relaxed) == 0) /* comes with the epoch */
        due_ns = pool->work.source->ops->sleep_ns(pool->work.source); /* [wake] */
    while (!spn__parker_park(&w->parker, due_ns < deadline_ns ? due_ns : deadline_ns)) {
        if (!leads && due_ns < deadline_ns && stands_by(pool, w, &due_ns))
            continue;
        in_time = false;
        if (withdraw(w)) {
            w->timed_out = due_ns >= deadline_ns;
            w->naps = 0;
            step_down(w, has_post);
            return;
        }
        (void)spn__parker_park(&w->parker, SPN_FOREVER);
        break;
    }
    count_nap(w, in_time);
    /* Written before the permit, under the lock that took it off the list. */
    w->searching = w->chosen_to_search;
}

void spn__idle_found(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;

    w->let_run = false;
    if (!w->searching)
        return;
    if (w->spun) {
        w->spun = false;
        spn__spin_rewarded(&w->spin, spn__parker_wake_ns(&w->parker));
    }
    stop_searching(w);
    spn__fence(seq_cst); /* [search] */
    /* relaxed, both: after the fence. */
    if (spn__load(&pool->idle_count, relaxed) > 0 &&
        spn__load(&pool->searching, relaxed) == 0 && !stood_by(pool) && unwatched(pool))
        wake_one(pool);
}
