/* SPDX-License-Identifier: MIT */
/*
 * run.c - a worker runs a task, or all that follow it in its batch: hooks, counts,
 * interrupts, and what is left to do if the task ends its thread.
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
 *   [count] A counter's release comes after what it counts; who adds them up reads
 *           them with acquire, and reads what was accepted last: never less than the
 *           sum of its fates.
 *   [ctl]   see worker.c.
 */
#include "exec/worker.h"

#include "base/assert.h"
#include "base/log.h"
#include "exec/lanes.h"
#include "future/ambient.h"
#include "future/executor.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

/* ---- one task ---------------------------------------------------------------------- */

static void count(spn__counter *counter)
{
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
    /* relaxed, all: only counts, and only this thread writes them.  Within a batch it is
     * left as it is, and `completed` may be ahead. */
    spn__store(&w->counts.started,
               spn__load(&w->counts.completed, relaxed) +
                   spn__load(&w->counts.failed, relaxed) + 1,
               relaxed);
}

/* Before the first hook. */
static void begin_task(struct spn__worker *w)
{
    struct spn_pool *pool = w->pool;
    struct spn_thread *self = spn__load(&w->self, relaxed); /* its own */

    w->in_task = true;
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
    spn__pool_settle(w->pool, 1);
    spn__store(&w->running, 0, relaxed); /* [stop] nothing comes with it */
}

void spn__worker_begin(struct spn__worker *w)
{
    begin_task(w);
    w->stealing = true;
}

void spn__worker_end(struct spn__worker *w)
{
    w->stealing = false;
    end_task(w);
}

void spn__worker_count(struct spn__worker *w, int status)
{
    spn__counter *counter = status == 0 ? &w->counts.completed : &w->counts.failed;
    const spn_task_info info = { .status = status };

    if (status != 0)
        spn__pool_uncaught(w->pool, &info);
    count(counter);
}

/* Apart, as pools without task times have nothing of it. */
static __attribute__((noinline)) void start_time(struct spn_pool *pool,
                                                 const spn_task_info *info)
{
    struct spn_task_times *times = pool->hooks.times;

    spn__times_start(times, spn__times_mine(times), pool->name, info->task,
                     info->label);
}

static __attribute__((noinline)) void end_time(struct spn_pool *pool,
                                               const spn_task_info *info)
{
    spn__times_end(spn__times_mine(pool->hooks.times), pool->name, info->label,
                   info->status);
}

/* The task has run and said `status`. */
static void finish_task(struct spn__worker *w, int status)
{
    struct spn_pool *pool = w->pool;
    const spn_task_info info = { .label = w->label, .status = status };

    /* What was meant for the task does not reach the hooks. */
    if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) <
        SPN_EXECUTOR_STOP)                                       /* as [stop] */
        (void)spn__interrupt_take(spn__load(&w->self, relaxed)); /* its own */
    if (status != 0)
        spn__pool_uncaught(pool, &info);
    if (pool->hooks.times != NULL)
        end_time(pool, &info);
    if (pool->hooks.after != NULL)
        pool->hooks.after(pool, &info, pool->hooks.ctx);
    count(status == 0 ? &w->counts.completed : &w->counts.failed);
}

/* The before hook objects. */
static void refuse_to_run(struct spn__worker *w, spn_task *task)
{
    count(&w->counts.failed);
    spn__pool_left(w->pool, task);
    spn_task_release(task);
    spn__task_drop_guarded(task, SPN_ECANCELED);
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
        count(&w->counts.expired);
        spn__pool_left(pool, task);
        spn__task_discard(task, SPN_ETIMEDOUT);
        return;
    }
    count_start(w);
    spn__ambient_begin(spn__load(&w->self, relaxed), spn__job_take(task)); /* its own */
    if (pool->hooks.before != NULL &&
        pool->hooks.before(pool, &info, pool->hooks.ctx) != 0) {
        refuse_to_run(w, task);
        return;
    }
    if (pool->hooks.times != NULL)
        start_time(pool, &info);
    spn_task_release(task);
    finish_task(w, task->fn(task)); /* the node may be gone now */
}

void spn__worker_run(struct spn__worker *w, struct spn__entry entry)
{
    begin_task(w);
    if (entry.fn == spn__entry_task) {
        run_task(w, entry.arg);
    } else {
        const spn_task_info info = { 0 };
        struct spn_pool *pool = w->pool;

        count_start(w);
        if (pool->hooks.before != NULL &&
            pool->hooks.before(pool, &info, pool->hooks.ctx) != 0) {
            count(&w->counts.failed);
        } else {
            if (pool->hooks.times != NULL)
                start_time(pool, &info);
            finish_task(w, entry.fn(entry.arg));
        }
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

/*
 * What take asks before it looks into the lanes, for all tasks of a batch: asked once, and
 * then whether any of it may have changed.  Between two tasks that are nothing but a call
 * this is most of the work.
 */
struct leave {
    uint32_t epoch, ctl;
    bool granted;
};

static struct leave ask_leave(struct spn_pool *pool)
{
    struct leave leave;
    bool paused;

    leave.epoch = spn__load(&pool->epoch, acquire);  /* [epoch] before the knobs */
    paused = spn__load(&pool->paused, acquire) != 0; /* [pause] as in take */
    /* relaxed, both: as in take. */
    leave.ctl = spn__load(&pool->ctl, relaxed);
    leave.granted = spn__ctl_state(leave.ctl) < SPN_EXECUTOR_STOP && !paused &&
                    spn__ctl_count(leave.ctl) <= spn__load(&pool->max, relaxed);
    return leave;
}

static inline bool may_go_on(struct spn_pool *pool, const struct leave *leave)
{
    /* relaxed, all: the next look is near. */
    return leave->granted && spn__load(&pool->epoch, relaxed) == leave->epoch &&
           spn__load(&pool->ctl, relaxed) == leave->ctl;
}

/* An interrupt that came for the last task is not meant for the next.  No fence is needed
 * here: the one that means all was set after the state, and who takes the flag sees that
 * [stop]. */
static inline void forget_interrupt(struct spn_pool *pool, struct spn_thread *self)
{
    if (__builtin_expect(spn__interrupt_take(self), 0) &&
        spn__ctl_state(spn__load(&pool->ctl, relaxed)) >= SPN_EXECUTOR_STOP)
        spn__interrupt_set(self);
}

/*
 * Runs an entry and what follows it in the worker's batch: the same as run_entry and
 * next_task for each, without what cannot differ from one plain task to the next.  The
 * worker stays `running` all the while.
 */
static inline __attribute__((always_inline)) void
run_batch(struct spn__worker *w, struct spn__entry entry, struct spn_task_times *times)
{
    struct spn_pool *pool = w->pool;
    struct spn_thread *self = spn__load(&w->self, relaxed); /* its own */
    struct spn__times_part *part = times != NULL ? spn__times_mine(times) : NULL;
    struct leave leave;
    bool next = true;

    begin_task(w);
    count_start(w);
    leave = ask_leave(pool);
    for (;;) {
        int status;

        if (times != NULL)
            spn__times_start(times, part, pool->name,
                             entry.fn == spn__entry_task ? entry.arg : NULL, NULL);
        status = call_plain(entry);
        if (__builtin_expect(status != 0 || self->ambient.used, 0)) {
            finish_task(w, status);
            end_task(w);
            return;
        }
        if (times != NULL)
            spn__times_end(part, pool->name, NULL, 0);
        /* relaxed read: only this thread writes it.  [count] */
        spn__store(&w->counts.completed, spn__load(&w->counts.completed, relaxed) + 1,
                   release);
        next = may_go_on(pool, &leave) && spn__batch_pop(w->batch, &entry);
        if (!next || !is_plain(entry))
            break;
        forget_interrupt(pool, self);
    }
    if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) < SPN_EXECUTOR_STOP)
        (void)spn__interrupt_take(self); /* as in finish_task [stop] */
    end_task(w);
    if (next)
        spn__worker_run(w, entry);
}

static __attribute__((noinline)) void run_batch_timed(struct spn__worker *w,
                                                      struct spn__entry entry)
{
    run_batch(w, entry, w->pool->hooks.times);
}

void spn__worker_run_batch(struct spn__worker *w, struct spn__entry entry)
{
    struct spn_pool *pool = w->pool;

    if (pool->hooks.before != NULL || pool->hooks.after != NULL || pool->eager ||
        !is_plain(entry))
        spn__worker_run(w, entry);
    else if (__builtin_expect(pool->hooks.times != NULL, 0))
        run_batch_timed(w, entry);
    else
        run_batch(w, entry, NULL);
}

/* ---- a task that ends its thread ------------------------------------------------------ */

/*
 * What the thread's record has of the functions the thread was in points to the stack that
 * is gone.  `executing` is the root's own again.
 */
static void forget_stack(struct spn_thread *self, struct spn_executor_frame *root)
{
    self->executing = root;
    self->call = NULL;
    self->hand_over = NULL;
    self->limiter = NULL;
    self->ambient.context = self->ambient.captured; /* whatever scope was left open */
}

void spn__worker_cut_short(struct spn__worker *w, struct spn_executor_frame *root)
{
    struct spn_thread *self = spn__load(&w->self, relaxed); /* its own */

    spn__assert(w->in_task);
    /* Tasks within tasks, deeper than any of the library's. */
    spn__assert(self->entered_count <= SPN__ENTERED_MAX);
    forget_stack(self, root);
    while (self->entered_count > 0) {
        const struct spn__entered e = self->entered[--self->entered_count];

        e.ended(e.of, e.held);
    }
    finish_task(w, SPN_ECANCELED);
    end_task(w);
    spn__ambient_worker(self); /* a task within another has begun anew */
}
