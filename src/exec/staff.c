/* SPDX-License-Identifier: MIT */
/*
 * staff.c - how many workers there are: who is made, who leaves, who follows one that
 * died.
 *
 * COUNTED BEFORE IT RUNS
 *   A worker is in the control word from before its thread is made, and on the list
 *   under the lock, so that two submitters cannot both take the last place, and a
 *   shutdown waits for it.  If no thread is to be had, all that is undone.
 *
 * LEAVING
 *   Decided and done in one go under the pool's lock, because the last to leave may
 *   have to end the pool: counters are handed over, the worker is taken off the list
 *   and out of the control word, and whether the pool is at its end is found out,
 *   before the lock is released; after that only the one that ends the pool touches
 *   it.  The door (work.c) is held while the control word changes: a task that came in
 *   before is seen, and the worker stays; one that comes after finds no worker.  The door
 *   does not keep a task of fork/join from blocking: a worker that goes although there is
 *   work counts itself out and then looks for blocked ones [block].
 *
 * ORDERING
 *   [knob]  A policy or factory is published with its contents; see reconfigure.c.
 *   [ctl], [block]  see worker.c; [door]  see work.c; [free]  see work_fifo.c.
 */
#include "exec/worker.h"

#include <stdio.h>

#include "base/log.h"
#include "exec/lanes.h"
#include "exec/report.h"
#include "sync/thread_record.h"

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

int32_t spn__pool_bound(struct spn_pool *pool, enum spn__bound bound)
{
    /* relaxed, all: knobs, and a count that is a hint. */
    const int32_t max = spn__load(&pool->max, relaxed);
    int64_t sum;

    if (bound == SPN__TO_CORE)
        return spn__load(&pool->core, relaxed);
    if (bound == SPN__TO_MAX || pool->kind != SPN__WORK_STEAL)
        return max;
    sum = (int64_t)max +
          least(spn__load(&pool->blocked, relaxed), pool->work.stealing->spare_threads);
    return sum < SPN_POOL_THREADS_MAX ? (int32_t)sum : SPN_POOL_THREADS_MAX;
}

/* ---- coming ------------------------------------------------------------------- */

/* Enters the control word, if the pool wants another. */
static int count_in(struct spn_pool *pool, const spn_task *first, enum spn__bound bound)
{
    uint32_t ctl = spn__load(&pool->ctl, relaxed); /* the loop tells */

    for (;;) {
        const uint32_t state = spn__ctl_state(ctl);

        if (state >= SPN_EXECUTOR_STOP ||
            (state == SPN_EXECUTOR_SHUTDOWN && (first != NULL || !spn__work_any(pool))))
            return SPN_ESHUTDOWN;
        if (spn__ctl_count(ctl) >= spn__pool_bound(pool, bound))
            return SPN_EFULL;
        if (spn__ctl_count(ctl) == 0) /* relaxed: see spn__pool_is_orphan */
            spn__store(&pool->process, spn__os_process(), relaxed);
        /* relaxed, both: who has the place; the list has the rest [ctl]. */
        if (spn__cas_weak(&pool->ctl, &ctl, ctl + 1, relaxed, relaxed))
            return SPN_OK;
    }
}

/* Onto the list; false: the pool has come to its end meanwhile. */
static bool enlist(struct spn_pool *pool, struct spn__worker *w, int32_t *live)
{
    const bool has_first = spn__load(&w->first, relaxed) != NULL; /* not published */
    uint32_t state;

    spn__lock(&pool->lock);
    state = spn__ctl_state(spn__load(&pool->ctl, relaxed)); /* changes under the lock */
    if (state >= SPN_EXECUTOR_STOP || (state == SPN_EXECUTOR_SHUTDOWN && has_first)) {
        spn__unlock(&pool->lock);
        return false;
    }
    spn__list_push_back(&pool->workers, &w->link);
    pool->live++;
    pool->making++;
    *live = pool->live;
    if (has_first)
        pool->direct++;
    spn__unlock(&pool->lock);
    return true;
}

static struct spn__worker *make_bare_worker(struct spn_pool *pool, spn_task *first)
{
    struct spn__worker *w = spn__alloc_aligned(sizeof *w, SPN__CACHE_LINE);

    if (w == NULL)
        return NULL;
    *w = (struct spn__worker){ .pool = pool };
    spn__init(&w->first, first);
    spn__init(&w->running, 0);
    spn__init(&w->self, NULL);
    spn__init(&w->waiting, 0);
    spn__init(&w->counts.completed, 0);
    spn__init(&w->counts.failed, 0);
    spn__init(&w->counts.expired, 0);
    spn__init(&w->counts.started, 0);
    spn__parker_init(&w->parker);
    return w;
}

static struct spn__worker *make_worker(struct spn_pool *pool, spn_task *first)
{
    struct spn__worker *w = make_bare_worker(pool, first);

    if (w == NULL)
        return NULL;
    if (pool->kind == SPN__WORK_LANES &&
        spn__lanes_worker_init(pool->work.lanes, w) != SPN_OK) {
        spn__free(w);
        return NULL;
    }
    if (pool->kind == SPN__WORK_STEAL &&
        pool->work.stealing->come(pool->work.stealing, w) != SPN_OK) {
        spn__free(w);
        return NULL;
    }
    return w;
}

static void free_worker(struct spn_pool *pool, struct spn__worker *w)
{
    if (pool->kind == SPN__WORK_LANES)
        spn__lanes_worker_fini(pool->work.lanes, w);
    else if (pool->kind == SPN__WORK_STEAL && w->place != NULL)
        pool->work.stealing->go(pool->work.stealing, w);
    spn__free(w);
}

static int start_thread(struct spn_pool *pool, struct spn__worker *w)
{
    /* [knob] It was set under the lock that is taken below, before it is followed.
     * mutant: who has read it comes to that lock after who set it, which orders as much */
    const spn_thread_factory *factory = spn__load(&pool->factory, acquire);
    spn_thread_opts opts = pool->thread_opts;
    char name[SPN_THREAD_NAME_MAX + 1];
    spn_thread *thread = NULL;
    uint32_t number;
    int rc;

    spn__lock(&pool->lock);
    number = ++pool->thread_number;
    spn__unlock(&pool->lock);
    (void)snprintf(name, sizeof name, "%s-thread-%u", pool->name, (unsigned)number);
    opts.name = name;
    if (opts.signal == 0) /* [knob] mutant: what it reads there is plain */
        opts.signal = spn__reject_signal(spn__load(&pool->reject, acquire));
    rc = spn__thread_make(factory, &thread, &opts, spn__worker_main, w);
    if (rc != SPN_OK) {
        spn__lock(&pool->lock);
        if (pool->thread_number == number)
            pool->thread_number--; /* no gap in the names, as a rule */
        spn__unlock(&pool->lock);
        return rc;
    }
    spn_thread_unref(thread); /* it goes on by itself */
    return SPN_OK;
}

/* Out of the control word; pool->lock is held. */
static void count_out(struct spn_pool *pool)
{
    (void)spn__fetch_sub(&pool->ctl, 1, relaxed); /* the lock orders it [ctl] */
}

/* A worker that was counted in, and perhaps enlisted, never came to life.  Returns whether it
 * still has a first task: shutdown_now may have given that back. */
static bool undo(struct spn_pool *pool, struct spn__worker *w, bool enlisted, int rc,
                 bool give_up)
{
    struct spn__chosen chosen = { NULL, NULL };
    bool has_first, stranded, end;

    spn__lock(&pool->lock);
    has_first = w != NULL && spn__load(&w->first, relaxed) != NULL; /* under the lock */
    if (enlisted) {
        spn__list_remove(&w->link);
        pool->live--;
        pool->making--;
        if (has_first)
            pool->direct--;
    }
    if (rc != SPN_ESHUTDOWN)
        pool->threads_failed++;
    spn__work_door_lock(pool);
    count_out(pool);
    if (pool->kind == SPN__WORK_LANES || pool->kind == SPN__WORK_USER)
        spn__fence_heavy(); /* [door] */
    else if (pool->kind == SPN__WORK_STEAL)
        /* [block] mutant: spn__room_notify, before staff looks, makes one too */
        spn__fence_light();
    /* Somebody may have relied on this worker. */
    stranded = spn__ctl_count(spn__load(&pool->ctl, relaxed)) == 0 && /* [ctl] ours */
               spn__work_any(pool);
    spn__work_door_unlock(pool);
    end = spn__pool_try_terminate(pool);
    spn__room_notify(&pool->room);
    spn__waitq_choose_all(&pool->made, &chosen);
    spn__unlock(&pool->lock);
    spn__chosen_grant(&chosen);
    if (w != NULL)
        free_worker(pool, w);
    if (end) {
        spn__pool_terminate(pool);
        return has_first;
    }
    /* Tasks that came before the shutdown want a worker without one of its own, also if
     * there are some and none of them goes on before it. */
    if (rc == SPN_ESHUTDOWN) {
        if (spn__work_any(pool))
            spn__pool_staff(pool);
    } else if (stranded && give_up) {
        spn__pool_give_up(pool);
    }
    return has_first;
}

int spn__pool_add_worker(struct spn_pool *pool, spn_task *first, enum spn__bound bound)
{
    return spn__pool_add_worker_or(pool, first, bound, true);
}

/*
 * Whether to tell that a pool without a limit has many threads; pool->lock is held.  A thread
 * has just been made, which takes thousands of times as long as this look.
 */
static bool has_many(struct spn_pool *pool, int32_t live)
{
    /* relaxed: written under the lock. */
    if (live < pool->many_threads || pool->many_threads == 0 ||
        spn__load(&pool->max, relaxed) < SPN_POOL_THREADS_MAX)
        return false;
    pool->many_threads = 0;
    return true;
}

/* Its thread is there.  It may have come and gone by now. */
static void has_come(struct spn_pool *pool, int32_t live)
{
    struct spn__chosen chosen = { NULL, NULL };
    bool tells;

    spn__lock(&pool->lock);
    pool->making--;
    pool->threads_started++;
    if (live > pool->largest)
        pool->largest = live;
    tells = has_many(pool, live);
    spn__waitq_choose_all(&pool->made, &chosen);
    spn__unlock(&pool->lock);
    spn__chosen_grant(&chosen);
    if (tells)
        spn__log(
            SPN_LOG_WARN,
            "pool %s: it has %d threads and no limit: its tasks take long or block.  "
            "Give it max_threads (in a URL: threads=N).  This is told once",
            pool->name, (int)live);
}

/* The rest of add_worker: it is counted in. */
static int start_worker(struct spn_pool *pool, spn_task *first, bool give_up)
{
    struct spn__worker *w = make_worker(pool, first);
    int32_t live = 0; /* with this one */
    int rc;

    if (w == NULL) {
        (void)undo(pool, NULL, false, SPN_ENOMEM, give_up);
        return SPN_ENOMEM;
    }
    if (!enlist(pool, w, &live)) {
        (void)undo(pool, w, false, SPN_ESHUTDOWN, give_up);
        return SPN_ESHUTDOWN;
    }
    rc = start_thread(pool, w);
    if (rc != SPN_OK) {
        /* A first task that shutdown_now gave back was accepted. */
        return undo(pool, w, true, rc, give_up) || first == NULL ? rc : SPN_OK;
    }
    has_come(pool, live);
    return SPN_OK;
}

int spn__pool_add_worker_or(struct spn_pool *pool, spn_task *first,
                            enum spn__bound bound, bool give_up)
{
    struct spn__worker *self = spn__worker_current();
    int rc = count_in(pool, first, bound);

    if (rc != SPN_OK)
        return rc;
    if (self != NULL)
        self->makes++;
    rc = start_worker(pool, first, give_up);
    if (self != NULL)
        self->makes--;
    return rc;
}

/* ---- leaving -------------------------------------------------------------------- */

enum stay { STAY, GO, GO_ALTHOUGH };

/* Whether the worker is to go; pool->lock is held.  GO: unless there is work. */
static enum stay to_go(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    const uint32_t ctl = spn__load(&pool->ctl, relaxed); /* under the lock [ctl] */
    const int32_t count = spn__ctl_count(ctl);

    if (spn__ctl_state(ctl) >= SPN_EXECUTOR_STOP)
        return GO_ALTHOUGH;
    if (count > spn__pool_bound(pool, SPN__TO_SPARE))
        return GO_ALTHOUGH;
    if (spn__ctl_state(ctl) == SPN_EXECUTOR_SHUTDOWN)
        return GO;
    /* relaxed: knobs. */
    if (w->timed_out && (spn__load(&pool->core_timeout, relaxed) != 0 ||
                         count > spn__load(&pool->core, relaxed)))
        return GO;
    return STAY;
}

/* What it counted goes to the pool; pool->lock is held.  relaxed: its own. */
static void hand_over_counts(struct spn_pool *pool, struct spn__worker *w)
{
    pool->completed += spn__exchange(&w->counts.completed, 0, relaxed);
    pool->failed += spn__exchange(&w->counts.failed, 0, relaxed);
    pool->expired += spn__exchange(&w->counts.expired, 0, relaxed);
    spn__store(&w->counts.started, 0, relaxed);
}

/* Whether the others are too few for what waits; pool->lock is held. */
static bool is_needed(struct spn__worker *w, int32_t others)
{
    struct spn_pool *pool = w->pool;
    const int32_t core = spn__load(&pool->core, relaxed); /* written under the lock */

    return others == 0 || spn__pool_serving(pool, others) < (core > 1 ? core : 1) ||
           spn__pool_leaves_waiting(pool, w);
}

/* Whether other workers wait because this one is there, though it cannot do anything now: all
 * tasks have been taken out of the user's queue, and most will be put back. */
static bool is_counted_on(struct spn__worker *w, int32_t others)
{
    struct spn_pool *pool = w->pool;

    return others > 0 && pool->kind == SPN__WORK_USER &&
           spn__pool_leaves_waiting(pool, w);
}

/* Whether something speaks against its leaving; pool->lock and the door are held.
 * `counted`: 1 if it is still in the control word.  Sets `needed`. */
static bool is_wanted(struct spn__worker *w, enum stay stay, int32_t counted)
{
    struct spn_pool *pool = w->pool;
    /* relaxed, all: they change under the lock, or are hints. */
    const uint32_t ctl = spn__load(&pool->ctl, relaxed);
    const int32_t others = spn__ctl_count(ctl) - counted;

    if (spn__ctl_state(ctl) >= SPN_EXECUTOR_STOP)
        return false;
    w->needed = true; /* unless it turns out below that it is not */
    if (w->free && spn__work_any(pool))
        return true; /* hand-off: something may count on it */
    if (pool->kind == SPN__WORK_STEAL && stay == GO &&
        spn__ctl_state(ctl) == SPN_EXECUTOR_SHUTDOWN &&
        pool->work.stealing->busy(pool->work.stealing))
        return true; /* what runs may fork more */
    if (!spn__work_any(pool))
        return w->counted_on = is_counted_on(w, others);
    /* One is enough to wait for what is not due; and what is due finds another. */
    if (stay == GO && pool->kind != SPN__WORK_TIMED &&
        (pool->kind != SPN__WORK_USER || spn__work_any_kept(pool)))
        return true;
    return w->needed = is_needed(w, others);
}

/* Whether the worker may be counted in again for what waits, with `count` others.  If all
 * of those wait for tasks, nobody else comes: they were let wait because this one was
 * there. */
static bool has_place(struct spn__worker *w, int32_t count)
{
    struct spn_pool *pool = w->pool;

    return count == 0 || count < spn__pool_bound(pool, SPN__TO_SPARE) ||
           spn__pool_leaves_waiting(pool, w);
}

/* Back into the control word, unless somebody else has come for the work. */
static bool count_in_again(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    uint32_t ctl = spn__load(&pool->ctl, relaxed); /* the loop tells */

    while (has_place(w, spn__ctl_count(ctl)))
        if (spn__cas_weak(&pool->ctl, &ctl, ctl + 1, relaxed, relaxed)) /* the same */
            return true;
    return false;
}

/* Out of the count, if nothing speaks against it; else STAY.  pool->lock is held. */
static enum stay count_out_unless_wanted(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    const bool fenced = pool->kind == SPN__WORK_LANES || pool->kind == SPN__WORK_USER;
    const enum stay stay = to_go(w);
    /* One that blocks may rely on it. */
    const bool although = stay == GO_ALTHOUGH && pool->kind == SPN__WORK_STEAL;
    bool leaves;

    w->needed = w->counted_on = false;
    if (stay == STAY)
        return STAY;
    spn__work_door_lock(pool);
    /* Nothing comes in while the door is held: so it is not even counted out. */
    leaves = fenced || !is_wanted(w, stay, 1);
    if (leaves)
        count_out(pool);
    if (fenced)
        spn__fence_heavy(); /* [door] */
    else if (leaves && although)
        spn__fence_light(); /* [block] one that blocks now sees that it has gone */
    if (fenced || (leaves && although))
        leaves = !is_wanted(w, stay, 0) || !count_in_again(w);
    if (leaves && w->free) /* relaxed: the door is held, and nothing relies on it */
        (void)spn__fetch_sub(&pool->work.free, 1, relaxed);
    spn__work_door_unlock(pool);
    return leaves ? stay : STAY;
}

/* Off the list and out of the count, if nothing speaks against it: see above.  Then
 * the worker is freed, and the pool is not to be touched any more. */
bool spn__worker_leave(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    enum stay stay;
    bool end, left_over;

    spn__idle_found(w);
    spn__lock(&pool->lock);
    stay = count_out_unless_wanted(w);
    if (stay == STAY) {
        spn__unlock(&pool->lock);
        return false;
    }
    spn__list_remove(&w->link);
    pool->live--;
    hand_over_counts(pool, w);
    free_worker(pool, w);
    ((struct spn_thread *)spn__self_get())->worker = NULL;
    /* Others may have stayed for what it did.  relaxed: changes under the lock. */
    if ((pool->kind == SPN__WORK_STEAL || pool->kind == SPN__WORK_USER) &&
        spn__ctl_state(spn__load(&pool->ctl, relaxed)) == SPN_EXECUTOR_SHUTDOWN)
        spn__idle_look_around(pool);
    end = spn__pool_try_terminate(pool);
    /* The user put something into his queue between the two looks. */
    left_over = pool->kind == SPN__WORK_USER && !end &&
                spn__ctl_make(SPN_EXECUTOR_SHUTDOWN, 0) ==
                    spn__load(&pool->ctl, relaxed) && /* changes under the lock */
                spn__work_any(pool);
    if (left_over)
        spn__pool_hold(pool);
    spn__room_notify(&pool->room); /* under the lock: it is the last touch */
    spn__unlock(&pool->lock);
    if (end)
        spn__pool_terminate(pool);
    else if (left_over)
        spn__pool_staff_held(pool);
    return true;
}

/* ---- death ------------------------------------------------------------------------- */

/*
 * Has another thread take over the place of a worker that dies; false: there is none
 * to be had, or none is wanted.  If there is, this worker is off the list before the
 * other can run, for that one may end the pool.
 */
bool spn__worker_replace(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    struct spn__worker *other = make_bare_worker(pool, NULL);
    enum stay stay;

    spn__lock(&pool->lock);
    pool->threads_died++;
    stay = to_go(w);
    if (other == NULL || stay == GO_ALTHOUGH || (stay == GO && !spn__work_any(pool))) {
        spn__unlock(&pool->lock);
        spn__free(other);
        return false;
    }
    other->batch =
        w->batch; /* with what is left in it; the thread's making orders it */
    w->batch = NULL;
    if (pool->kind == SPN__WORK_STEAL)
        pool->work.stealing->inherit(pool->work.stealing, other, w);
    spn__list_remove(&w->link); /* live and count: its successor's */
    spn__list_push_back(&pool->workers, &other->link);
    hand_over_counts(pool, w);
    pool->threads_started++;
    spn__unlock(&pool->lock);
    if (start_thread(pool, other) == SPN_OK)
        return true;
    spn__lock(&pool->lock);
    pool->threads_started--;
    pool->threads_failed++;
    spn__list_remove(&other->link);
    spn__list_push_back(&pool->workers, &w->link);
    w->batch = other->batch;
    if (pool->kind == SPN__WORK_STEAL)
        pool->work.stealing->inherit(pool->work.stealing, w, other);
    spn__unlock(&pool->lock);
    spn__free(other);
    return false;
}
