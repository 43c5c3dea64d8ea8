/* SPDX-License-Identifier: MIT */
/*
 * worker.c - a worker's life: it is made for a task or to wait for one, takes one
 * after another, and leaves when the pool is too large, idle or at its end.
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
 *   before is seen, and the worker stays; one that comes after finds no worker.
 *
 * DEATH
 *   A task may end its thread (pthread_exit).  The cleanup gives the task its end, has
 *   another worker take this one's place, and if no thread can be made and this was
 *   the last, goes on serving from inside the cleanup: a queue is never left without
 *   anybody.
 *
 * INTERRUPTS
 *   A worker clears its flag before each task, so that nothing meant for one task
 *   reaches the next, unless the pool stops: then each task starts with it set.
 *   [stop] The worker says it runs, clears the flag, makes a light fence, and looks at
 *          the control word.  shutdown_now changes that, makes a heavy fence, and
 *          interrupts those that say they run.  So a task that starts unseen sees
 *          STOP, and one that does not see it is interrupted after the clearing.
 *
 * ORDERING
 *   [ctl]   The end is published with release; who learns of it without the lock
 *           acquires, and sees all that the tasks did.  All else about the control word
 *           is relaxed: it says who has a place, and what hangs on that is decided
 *           under the lock, behind the door, or by a hint.
 *   [count] A counter's release comes after what it counts; who adds them up reads
 *           them with acquire, and reads what was accepted last: never less than the
 *           sum of its fates.
 *   [block] A task that blocks is counted, then makes a heavy fence and looks for
 *           work; whoever pushes makes a light fence and looks for blocked ones.
 *   [pause] What precedes resume happens before the tasks that it lets start: a worker
 *           may find one in the outbox without ever taking the submitters' lock.
 *   [knob]  A policy or factory is published with its contents; see reconfigure.c.
 *   [user], [epoch], [wake]  see idle.c; [door]  see work.c.
 */
#include "exec/lanes.h"
#include "exec/pool.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/time.h"
#include "exec/report.h"
#include "future/ambient.h"
#include "future/core.h"
#include "future/executor.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

struct spn__worker *spn__worker_current(void)
{
    struct spn_thread *self = spn__self_get();

    return self != NULL ? self->worker : NULL;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

int32_t spn__pool_bound(struct spn_pool *pool, enum spn__bound bound)
{
    /* relaxed: knobs, and a count that is a hint. */
    const int32_t max = spn__load(&pool->max, relaxed);
    int64_t more = 0;

    switch (bound) {
    case SPN__TO_CORE:
        return spn__load(&pool->core, relaxed);
    case SPN__TO_URGENT:
        more = pool->urgent_threads;
        break;
    case SPN__TO_BLOCKED:
        more = least(spn__load(&pool->blocked, relaxed), pool->block_threads);
        break;
    default:
        break;
    }
    return max + more < SPN_POOL_THREADS_MAX ? (int32_t)(max + more)
                                             : SPN_POOL_THREADS_MAX;
}

/* ---- coming ------------------------------------------------------------------- */

static int worker_main(void *arg);

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
        /* relaxed, both: who has the place; the list has the rest [ctl]. */
        if (spn__cas_weak(&pool->ctl, &ctl, ctl + 1, relaxed, relaxed))
            return SPN_OK;
    }
}

/* Onto the list; false: the pool has come to its end meanwhile. */
static bool enlist(struct spn_pool *pool, struct spn__worker *w, int32_t *live)
{
    uint32_t state;

    spn__lock(&pool->lock);
    state = spn__ctl_state(spn__load(&pool->ctl, relaxed)); /* changes under the lock */
    if (state >= SPN_EXECUTOR_STOP ||
        (state == SPN_EXECUTOR_SHUTDOWN && w->first != NULL)) {
        spn__unlock(&pool->lock);
        return false;
    }
    spn__list_push_back(&pool->workers, &w->link);
    pool->live++;
    pool->making++;
    *live = pool->live;
    if (w->first != NULL)
        pool->direct++;
    spn__unlock(&pool->lock);
    return true;
}

static struct spn__worker *make_bare_worker(struct spn_pool *pool, spn_task *first)
{
    struct spn__worker *w = spn__alloc_aligned(sizeof *w, SPN__CACHE_LINE);

    if (w == NULL)
        return NULL;
    *w = (struct spn__worker){ .pool = pool, .first = first };
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
    /* [knob] mutant: the number is taken under the lock that it was set under */
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
    rc = factory->create(factory, &thread, &opts, worker_main, w);
    if (rc == SPN_OK && thread == NULL)
        rc = SPN_ESTATE; /* it says there is one, and there is none */
    if (rc != SPN_OK) {
        spn__lock(&pool->lock);
        if (pool->thread_number == number)
            pool->thread_number--; /* no gap in the names, as a rule */
        spn__unlock(&pool->lock);
        return rc < 0 ? rc : SPN_EAGAIN;
    }
    spn_thread_unref(thread); /* it goes on by itself */
    return SPN_OK;
}

/* Out of the control word; pool->lock is held. */
static void count_out(struct spn_pool *pool)
{
    (void)spn__fetch_sub(&pool->ctl, 1, relaxed); /* the lock orders it [ctl] */
}

/* A worker that was counted in, and perhaps enlisted, never came to life. */
static void undo(struct spn_pool *pool, struct spn__worker *w, bool enlisted, int rc,
                 bool give_up)
{
    struct spn__chosen chosen = { NULL, NULL };
    bool stranded, end;

    spn__lock(&pool->lock);
    if (enlisted) {
        spn__list_remove(&w->link);
        pool->live--;
        pool->making--;
        if (w->first != NULL)
            pool->direct--;
    }
    if (rc != SPN_ESHUTDOWN)
        pool->threads_failed++;
    spn__work_door_lock(pool);
    count_out(pool);
    if (pool->kind == SPN__WORK_LANES || pool->kind == SPN__WORK_USER)
        spn__fence_heavy(); /* [door] */
    /* Somebody may have relied on this worker. */
    stranded = spn__ctl_count(spn__load(&pool->ctl, relaxed)) == 0 && /* [ctl] ours */
               spn__load(&pool->paused, relaxed) == 0 && spn__work_any(pool);
    spn__work_door_unlock(pool);
    end = spn__pool_try_terminate(pool);
    spn__room_notify_thread(&pool->room);
    spn__waitq_choose_all(&pool->made, &chosen);
    spn__unlock(&pool->lock);
    spn__chosen_grant(&chosen);
    if (w != NULL)
        free_worker(pool, w);
    if (end) {
        spn__pool_terminate(pool);
        return;
    }
    /* A task that came before the shutdown wants a worker without one of its own. */
    if (stranded && rc == SPN_ESHUTDOWN)
        stranded = spn__pool_add_worker(pool, NULL, SPN__TO_MAX) != SPN_OK;
    if (stranded && (give_up || rc == SPN_ESHUTDOWN))
        spn__pool_give_up(pool);
}

int spn__pool_add_worker(struct spn_pool *pool, spn_task *first, enum spn__bound bound)
{
    return spn__pool_add_worker_or(pool, first, bound, true);
}

/* Its thread is there.  It may have come and gone by now. */
static void has_come(struct spn_pool *pool, int32_t live)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&pool->lock);
    pool->making--;
    pool->threads_started++;
    if (live > pool->largest)
        pool->largest = live;
    spn__waitq_choose_all(&pool->made, &chosen);
    spn__unlock(&pool->lock);
    spn__chosen_grant(&chosen);
}

/* The rest of add_worker: it is counted in. */
static int start_worker(struct spn_pool *pool, spn_task *first, bool give_up)
{
    struct spn__worker *w = make_worker(pool, first);
    int32_t live = 0; /* with this one */
    int rc;

    if (w == NULL) {
        undo(pool, NULL, false, SPN_ENOMEM, give_up);
        return SPN_ENOMEM;
    }
    if (!enlist(pool, w, &live)) {
        undo(pool, w, false, SPN_ESHUTDOWN, give_up);
        return SPN_ESHUTDOWN;
    }
    rc = start_thread(pool, w);
    if (rc != SPN_OK) {
        undo(pool, w, true, rc, give_up);
        return rc;
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
    if (count > spn__pool_bound(pool, SPN__TO_BLOCKED))
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
    w->tasks = 0; /* all have ended */
    spn__store(&w->counts.started, 0, relaxed);
}

/* Whether something speaks against its leaving; pool->lock and the door are held.
 * `counted`: 1 if it is still in the control word. */
static bool is_wanted(struct spn__worker *w, enum stay stay, int32_t counted)
{
    struct spn_pool *pool = w->pool;
    /* relaxed, all: they change under the lock, or are hints. */
    const uint32_t ctl = spn__load(&pool->ctl, relaxed);
    const int32_t others = spn__ctl_count(ctl) - counted;
    const int32_t core = spn__load(&pool->core, relaxed);

    if (spn__ctl_state(ctl) >= SPN_EXECUTOR_STOP)
        return false;
    if (w->free && spn__work_any(pool))
        return true; /* hand-off: something may count on it */
    if (pool->kind == SPN__WORK_STEAL && stay == GO &&
        spn__ctl_state(ctl) == SPN_EXECUTOR_SHUTDOWN &&
        pool->work.stealing->busy(pool->work.stealing))
        return true; /* what runs may fork more */
    if (!spn__idle_work_kept(pool))
        return false;
    /* One is enough to wait for what is not due; and what is due finds another. */
    if (stay == GO && pool->kind != SPN__WORK_USER && pool->kind != SPN__WORK_TIMED)
        return true;
    return others == 0 || spn__work_any_urgent(pool) ||
           others - spn__load(&pool->blocked, relaxed) < (core > 1 ? core : 1) ||
           spn__pool_all_wait(pool, w, others);
}

/* Back into the control word, unless somebody else has come for the work. */
static bool count_in_again(struct spn_pool *pool)
{
    uint32_t ctl = spn__load(&pool->ctl, relaxed); /* the loop tells */

    while (spn__ctl_count(ctl) == 0 ||
           spn__ctl_count(ctl) < spn__pool_bound(pool, SPN__TO_BLOCKED))
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
    bool leaves;

    if (stay == STAY)
        return STAY;
    spn__work_door_lock(pool);
    /* Nothing comes in while the door is held: so it is not even counted out. */
    leaves = fenced || !is_wanted(w, stay, 1);
    if (leaves)
        count_out(pool);
    if (fenced) {
        spn__fence_heavy(); /* [door] */
        leaves = !is_wanted(w, stay, 0) || !count_in_again(pool);
    }
    if (leaves && w->free) /* relaxed: the door is held, and nothing relies on it */
        (void)spn__fetch_sub(&pool->work.free, 1, relaxed);
    spn__work_door_unlock(pool);
    return leaves ? stay : STAY;
}

/* Off the list and out of the count, if nothing speaks against it: see above.  Then
 * the worker is freed, and the pool is not to be touched any more. */
static bool leave(struct spn__worker *w)
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
    spn__room_notify_thread(&pool->room); /* under the lock: it is the last touch */
    spn__unlock(&pool->lock);
    if (end)
        spn__pool_terminate(pool);
    else if (left_over)
        spn__pool_staff_held(pool);
    return true;
}

/* ---- one task ---------------------------------------------------------------------- */

static void count(struct spn__worker *w, spn__counter *counter)
{
    w->counted = true;
    /* relaxed read: only its own thread writes it.  [count] */
    spn__store(counter, spn__load(counter, relaxed) + 1, release);
}

void spn__pool_uncaught(struct spn_pool *pool, const spn_task_info *info)
{
    if (pool->hooks.uncaught != NULL)
        pool->hooks.uncaught(pool, info, pool->hooks.ctx);
    else
        spn__log(SPN_LOG_WARN, "pool %s: a task%s%s failed with %d (%s)", pool->name,
                 info->label != NULL ? " " : "", info->label != NULL ? info->label : "",
                 (int)info->status, spn_status_name(info->status));
}

/* A task will be run, and counted as completed or failed. */
static void count_start(struct spn__worker *w)
{
    spn__store(&w->counts.started, ++w->tasks, relaxed); /* only counts */
}

/* Before the first hook. */
static void begin_task(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    struct spn_thread *self = spn__load(&w->self, relaxed); /* its own */

    w->in_task = true;
    w->called = w->counted = false;
    spn__store(&w->running, 1, release); /* [stop] with it comes `self` */
    (void)spn__interrupt_take(self);
    spn__fence_light(); /* [stop] */
    if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) >= SPN_EXECUTOR_STOP)
        spn__interrupt_set(self);
}

/* After the last hook, or when the task ended its thread. */
static void end_task(struct spn__worker *w)
{
    if (w->block_depth > 0) { /* it never said that it goes on */
        w->block_depth = 1;
        spn__worker_unblock(w);
    }
    spn__ambient_end(spn__load(&w->self, relaxed)); /* its own */
    w->in_task = false;
    w->label = NULL;
    w->help_depth = 0; /* a task that it helped may have ended the thread */
    spn__pool_settle(w->pool, 1);
    spn__store(&w->running, 0, relaxed); /* [stop] nothing comes with it */
}

void spn__worker_begin(struct spn__worker *w)
{
    begin_task(w);
    w->called = w->counted = true; /* if it ends the thread: it is no task */
}

void spn__worker_end(struct spn__worker *w)
{
    end_task(w);
}

void spn__worker_count(struct spn__worker *w, int status)
{
    spn__counter *counter = status == 0 ? &w->counts.completed : &w->counts.failed;
    const spn_task_info info = { .status = status };

    if (status != 0)
        spn__pool_uncaught(w->pool, &info);
    w->tasks++; /* as in a batch */
    /* relaxed read: only its own thread writes it.  [count] */
    spn__store(counter, spn__load(counter, relaxed) + 1, release);
}

/* The task has run and said `status`. */
static void finish_task(struct spn__worker *w, int status)
{
    struct spn_pool *pool = w->pool;
    const spn_task_info info = { .label = w->label, .status = status };

    w->called = true;
    /* What was meant for the task does not reach the hooks. */
    if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) <
        SPN_EXECUTOR_STOP)                                       /* as [stop] */
        (void)spn__interrupt_take(spn__load(&w->self, relaxed)); /* its own */
    if (status != 0)
        spn__pool_uncaught(pool, &info);
    if (pool->hooks.after != NULL)
        pool->hooks.after(pool, &info, pool->hooks.ctx);
    count(w, status == 0 ? &w->counts.completed : &w->counts.failed);
}

/* The before hook objects, or has ended the thread. */
static void refuse_to_run(struct spn__worker *w, spn_task *task)
{
    count(w, &w->counts.failed);
    spn_task_release(task);
    (void)spn_task_drop(task, SPN_ECANCELED);
}

static bool expired(const spn_job *job)
{
    return job->deadline_ns != 0 && job->deadline_ns <= spn__now();
}

/* Runs a task, unless it is too late or the hook objects. */
static void run_task(struct spn__worker *w, spn_task *task)
{
    struct spn_pool *pool = w->pool;
    const bool is_job = (task->flags & SPN_TASK_JOB) != 0;
    spn_job *job = is_job ? (spn_job *)(void *)task : NULL;
    const spn_task_info info = { .label = is_job ? job->label : NULL, .task = task };

    w->label = info.label;
    if (is_job && expired(job)) {
        count(w, &w->counts.expired);
        spn__pool_left(pool, task);
        spn__job_forget(task);
        spn_task_release(task);
        (void)spn_task_drop(task, SPN_ETIMEDOUT);
        return;
    }
    count_start(w);
    spn__ambient_begin(spn__load(&w->self, relaxed), spn__job_take(task)); /* its own */
    if (pool->hooks.before != NULL) {
        int objection;

        w->asked = task;
        objection = pool->hooks.before(pool, &info, pool->hooks.ctx);
        w->asked = NULL;
        if (objection != 0) {
            refuse_to_run(w, task);
            return;
        }
    }
    spn_task_release(task);
    finish_task(w, task->fn(task)); /* the node may be gone now */
}

static void run_entry(struct spn__worker *w, struct spn__entry entry)
{
    begin_task(w);
    if (entry.fn == spn__entry_task) {
        run_task(w, entry.arg);
    } else {
        const spn_task_info info = { 0 };
        struct spn_pool *pool = w->pool;
        int objection = 0;

        count_start(w);
        if (pool->hooks.before != NULL) {
            w->called = true; /* a hook that ends the thread: no after, no uncaught */
            objection = pool->hooks.before(pool, &info, pool->hooks.ctx);
            w->called = false;
        }
        if (objection != 0)
            count(w, &w->counts.failed);
        else
            finish_task(w, entry.fn(entry.arg));
    }
    end_task(w);
}

/* ---- many of them ------------------------------------------------------------------- */

/* An entry that needs nothing but to be called. */
static bool is_plain(struct spn__entry entry)
{
    return entry.fn != spn__entry_task ||
           (((const spn_task *)entry.arg)->flags & SPN_TASK_JOB) == 0;
}

static int call_plain(struct spn__entry entry)
{
    spn_task *task;

    if (entry.fn != spn__entry_task)
        return entry.fn(entry.arg);
    task = entry.arg;
    spn_task_release(task);
    return task->fn(task); /* the node may be gone now */
}

/* What take asks before it looks into the lanes, and no more. */
static bool may_go_on(struct spn_pool *pool)
{
    const uint32_t ctl = spn__load(&pool->ctl, relaxed);

    /* relaxed, all: as in take. */
    return spn__ctl_state(ctl) < SPN_EXECUTOR_STOP &&
           spn__load(&pool->paused, relaxed) == 0 &&
           spn__ctl_count(ctl) <= spn__load(&pool->max, relaxed) &&
           !spn__work_any_urgent(pool);
}

/*
 * Runs an entry and what follows it in the worker's batch: the same as run_entry and
 * next_task for each, without what cannot differ from one plain task to the next.  The
 * worker stays `running` all the while.
 */
static void run_batch(struct spn__worker *w, struct spn__entry entry)
{
    struct spn_pool *pool = w->pool;
    struct spn_thread *self = spn__load(&w->self, relaxed); /* its own */
    bool next = true;

    if (pool->hooks.before != NULL || pool->hooks.after != NULL || pool->eager ||
        !is_plain(entry)) {
        run_entry(w, entry);
        return;
    }
    begin_task(w);
    count_start(w);
    for (;;) {
        const int status = call_plain(entry);

        if (__builtin_expect(status != 0 || self->ambient.used, 0)) {
            finish_task(w, status);
            end_task(w);
            return;
        }
        /* relaxed read: only this thread writes it.  [count] */
        spn__store(&w->counts.completed, spn__load(&w->counts.completed, relaxed) + 1,
                   release);
        next = may_go_on(pool) && spn__batch_pop(w->batch, &entry);
        if (!next || !is_plain(entry))
            break;
        /* An interrupt that came for the last one is not meant for this one.  No fence
         * is needed here: the one that means all was set after the state, and who
         * takes the flag sees that [stop]. */
        (void)spn__interrupt_take(self);
        if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) >= SPN_EXECUTOR_STOP)
            spn__interrupt_set(self);
        w->tasks++; /* told with the next batch: until then `completed` is ahead */
    }
    if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) < SPN_EXECUTOR_STOP)
        (void)spn__interrupt_take(self); /* as in finish_task [stop] */
    end_task(w);
    if (next)
        run_entry(w, entry);
}

/* ---- the next task ------------------------------------------------------------------- */

/* Waits in a queue of the user's. */
static bool wait_user(struct spn__worker *w, struct spn__entry *entry, uint32_t epoch,
                      int64_t timeout_ns)
{
    struct spn_pool *pool = w->pool;
    void *item = NULL;
    int rc = SPN_EINTR;

    spn__store(&w->waiting, 1, release); /* [user] with it comes `self` */
    spn__fence_light();                  /* [user] */
    /* relaxed: after the fence. */
    if (spn__load(&pool->epoch, relaxed) == epoch)
        rc = timeout_ns == SPN_FOREVER
                 ? spn_queue_take(pool->work.queue, &item)
                 : spn_queue_poll_timed(pool->work.queue, &item, timeout_ns);
    if (spn__exchange(&w->waiting, 0, relaxed) == 2) { /* [user] the lock orders it */
        /* Whoever said so holds the lock until the interrupt is there: so that it is
         * cleared before the next task, and does not come into it. */
        spn__lock(&pool->lock);
        spn__unlock(&pool->lock);
    }
    if (rc == SPN_OK) {
        spn__work_taken_from_user(pool, item);
        *entry = (struct spn__entry){ spn__entry_task, item };
        spn__room_notify(&pool->room);
        return true;
    }
    w->timed_out = rc == SPN_ETIMEDOUT;
    if (rc == SPN_ECLOSED) /* nothing will come from there any more */
        spn__idle_wait(w, epoch,
                       timeout_ns == SPN_FOREVER
                           ? SPN_FOREVER
                           : spn__deadline(spn__now(), timeout_ns));
    return false;
}

/* Says that it is free for a task that is handed over. */
static void be_free(struct spn__worker *w)
{
    if (!w->pool->handoff || w->free)
        return;
    w->free = true;
    (void)spn__fetch_add(&w->pool->work.free, 1, relaxed); /* [free] one more */
    spn__room_notify_thread(&w->pool->room);
}

static bool take(struct spn__worker *w, struct spn__entry *entry)
{
    struct spn_pool *pool = w->pool;
    /* relaxed: a change comes with the epoch [ctl]. */
    const uint32_t ctl = spn__load(&pool->ctl, relaxed);

    if (spn__ctl_state(ctl) >= SPN_EXECUTOR_STOP ||
        spn__load(&pool->paused, acquire)) /* [pause] */
        return false;
    if (spn__work_any_urgent(pool) && spn__work_be_busy(pool, w) &&
        spn__work_take_urgent(pool, entry))
        return true;
    be_free(w);
    if (spn__ctl_count(ctl) > spn__load(&pool->max, relaxed) && /* a knob */
        spn__ctl_count(ctl) > spn__pool_bound(pool, SPN__TO_BLOCKED) && !w->needed)
        return false; /* it is one too many, and goes */
    return spn__work_take(pool, w, entry);
}

/* The next task in *entry; false: the worker has left, and is gone. */
static bool next_task(struct spn__worker *w, struct spn__entry *entry)
{
    struct spn_pool *pool = w->pool;

    be_free(w);
    for (;;) {
        const uint32_t epoch = spn__load(&pool->epoch, acquire); /* [epoch] */
        int64_t keep_alive_ns = SPN_FOREVER;
        uint32_t ctl;
        bool timed;

        if (take(w, entry))
            break;
        /* relaxed, all: [epoch], and leave looks again under the lock. */
        ctl = spn__load(&pool->ctl, relaxed);
        timed = spn__load(&pool->core_timeout, relaxed) != 0 ||
                spn__ctl_count(ctl) > spn__load(&pool->core, relaxed);
        if (timed)
            keep_alive_ns = spn__load(&pool->keep_alive_ns, relaxed);
        if (keep_alive_ns == 0)
            w->timed_out = true;
        if (spn__ctl_state(ctl) >= SPN_EXECUTOR_SHUTDOWN || (timed && w->timed_out) ||
            spn__ctl_count(ctl) > spn__pool_bound(pool, SPN__TO_BLOCKED)) {
            if (pool->kind == SPN__WORK_STEAL) /* while it is counted: see leave */
                pool->work.stealing->settled(pool->work.stealing);
            if (leave(w))
                return false;
            w->timed_out = false;
            w->needed = true;
            if (pool->kind != SPN__WORK_USER && spn__idle_work_waits(pool))
                continue; /* it stayed for that */
        }
        w->timed_out = false;
        if (pool->kind == SPN__WORK_USER && spn__load(&pool->paused, relaxed) == 0) {
            /* One that stayed for what is not due yet waits for that, and not again
             * and again for its keep-alive. */
            if (wait_user(w, entry, epoch, w->needed ? SPN_FOREVER : keep_alive_ns))
                break;
            w->needed = false;
        } else {
            if (w->needed && pool->kind == SPN__WORK_TIMED)
                keep_alive_ns = SPN_FOREVER; /* as above */
            spn__idle_wait(w, epoch,
                           keep_alive_ns == SPN_FOREVER
                               ? SPN_FOREVER
                               : spn__deadline(spn__now(), keep_alive_ns));
            if (pool->kind == SPN__WORK_TIMED)
                w->needed = false;
        }
    }
    w->timed_out = w->needed = false;
    spn__idle_found(w);
    return true;
}

/* Serves until the worker has left. */
static void serve(struct spn__worker *w)
{
    struct spn__entry entry;

    if (w->first != NULL) {
        entry = (struct spn__entry){ spn__entry_task, w->first };
        w->first = NULL;
        run_entry(w, entry);
    }
    while (next_task(w, &entry)) {
        if (w->batch != NULL)
            run_batch(w, entry);
        else
            run_entry(w, entry);
    }
}

/* ---- a worker's thread ------------------------------------------------------------------ */

/*
 * Has another thread take over the place of a worker that dies; false: there is none
 * to be had, or none is wanted.  If there is, this worker is off the list before the
 * other can run, for that one may end the pool.
 */
static bool replace(struct spn__worker *w)
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

static void serve_here(void *frame)
{
    (void)frame; /* for worker_ended */
    serve(spn__worker_current());
}

/* Follows serve, also when a task ended the thread; and once more then, if the thread
 * went on and another ended it. */
static void worker_ended(void *arg)
{
    struct spn_thread *self = spn__self_get();
    struct spn__worker *w = self->worker;

    if (w == NULL) { /* it has left */
        (void)spn_executor_leave(arg);
        return;
    }
    spn__assert(w->in_task);
    if (w->asked != NULL) {
        spn_task *task = w->asked;

        w->asked = NULL;
        refuse_to_run(w, task);
    } else if (!w->called && !w->counted)
        finish_task(w, SPN_ECANCELED);
    else if (!w->counted) /* a hook ended it */
        count(w, &w->counts.failed);
    end_task(w);
    if (replace(w)) {
        self->worker = NULL;
        spn__free(w); /* the pool may be gone */
    } else {
        /* To the end, or until others can do without it; a task may end the thread
         * again. */
        spn__outlive(serve_here, worker_ended, arg);
        return;
    }
    (void)spn_executor_leave(arg);
}

static int worker_main(void *arg)
{
    struct spn__worker *w = arg;
    struct spn_thread *self = spn__thread_self();
    spn_executor_frame frame;
    int entered;

    self->worker = w;
    spn__ambient_worker(self);
    spn__store(&w->self, self, relaxed); /* read by others after [stop] or [user] */
    entered = spn_executor_enter(&w->pool->executor, &frame);
    spn__assert(entered == SPN_OK); /* a thread of the library has a record */
    spn__outlive(serve_here, worker_ended, &frame);
    return 0;
}

/* ---- tasks that block --------------------------------------------------------------------- */

void spn__pool_compensate(struct spn_pool *pool)
{
    const int32_t core = spn__load(&pool->core, relaxed); /* a knob */
    const int32_t count = spn__ctl_count(spn__load(&pool->ctl, relaxed));

    /* relaxed, all: hints, or after the fence of whoever calls [block]. */
    if (count - spn__load(&pool->blocked, relaxed) >= (core > 1 ? core : 1) ||
        spn__load(&pool->idle_count, relaxed) > 0 || !spn__idle_work_kept(pool))
        return;
    (void)spn__pool_add_worker(pool, NULL, SPN__TO_BLOCKED);
}

void spn__worker_block(struct spn__worker *w)
{
    if (w->block_depth++ > 0)
        return;
    (void)spn__fetch_add(&w->pool->blocked, 1, relaxed); /* [block] before the fence */
    spn__fence_heavy();                                  /* [block] */
    spn__pool_compensate(w->pool);
}

void spn__worker_unblock(struct spn__worker *w)
{
    if (--w->block_depth == 0)
        (void)spn__fetch_sub(&w->pool->blocked, 1, relaxed); /* a hint */
}

void spn_pool_block_begin(void)
{
    struct spn__worker *w = spn__worker_current();

    if (w != NULL && w->in_task)
        spn__worker_block(w);
}

void spn_pool_block_end(void)
{
    struct spn__worker *w = spn__worker_current();

    if (w != NULL && w->in_task && w->block_depth > 0)
        spn__worker_unblock(w);
}

spn_pool *spn_pool_current(void)
{
    struct spn__worker *w = spn__worker_current();

    return w != NULL && w->in_task ? w->pool : NULL;
}
