/* SPDX-License-Identifier: MIT */
/*
 * scheduled.c - the scheduled executor: making, scheduling, policies.
 *
 * OVERVIEW
 *   It is a thread pool (src/exec) that takes its tasks from a heap by due time
 *   (delays.c); threads, hooks, counters, refusals and the end are the pool's.  A pool
 *   of its own would have been another two thousand lines of states and races, and
 *   every call that works on a pool (reconfigure, statistics, remove, purge, pause) would
 *   be there twice.  What the pool had to learn is that "there are tasks" and "there is
 *   one to be had now" are two questions, and that one idle worker, the leader, wakes
 *   by itself (exec/idle.c, TIMED).
 *
 * POLICIES  are asked under the lock of the heap: when shutdown goes through the tasks, and
 *   when a periodic one comes back.  So a task that comes back is either gone through or
 *   asks afterwards.
 */
#include "sched/scheduled.h"

#include "base/options.h"
#include "base/time.h"
#include "exec/pool.h"
#include "future/executor.h"

#define DEFAULT_KEEP_ALIVE SPN_MS(10)

/* Whether a task may run after shutdown. */
static bool allowed(struct spn__delays *d, const spn_task *task, int64_t due_ns)
{
    struct spn_scheduled *s = (struct spn_scheduled *)(void *)d;

    /* relaxed: stored before the shutdown that goes through the tasks. */
    if (spn__load(&s->stops_all, relaxed) != 0)
        return false;
    if (task != NULL && (task->flags & SPN__TASK_PERIODIC) != 0)
        return s->periodic_after_shutdown;
    return s->delayed_after_shutdown || due_ns <= spn__delays_now(d);
}

/* ---- making -------------------------------------------------------------------- */

spn_scheduled_opts spn_scheduled_opts_pool(int32_t threads)
{
    spn_scheduled_opts o = SPN_SCHEDULED_OPTS_INIT;

    o.core_threads = threads;
    return o;
}

static bool set_default(int32_t *policy, int32_t usual)
{
    if (*policy == SPN_DEFAULT)
        *policy = usual;
    return *policy == 0 || *policy == 1;
}

static int settle(spn_scheduled_opts *o)
{
    if (o->core_threads < 0 && o->core_threads != SPN_DEFAULT)
        return SPN_EINVAL;
    if (!set_default(&o->remove_on_cancel, 1) ||
        !set_default(&o->delayed_after_shutdown, 1) ||
        !set_default(&o->periodic_after_shutdown, 0))
        return SPN_EINVAL;
    if (o->keep_alive_ns == SPN_DEFAULT)
        o->keep_alive_ns = DEFAULT_KEEP_ALIVE;
    if (o->clock == NULL)
        o->clock = spn_clock_monotonic();
    return SPN_OK;
}

static spn_pool_opts pool_opts(const spn_scheduled_opts *o)
{
    spn_pool_opts p = SPN_POOL_OPTS_INIT;

    p.name = o->name;
    p.core_threads = o->core_threads;
    p.keep_alive_ns = o->keep_alive_ns;
    p.queue_capacity = SPN_UNBOUNDED;
    p.core_timeout = o->core_timeout;
    p.fixed = o->fixed;
    p.reject = o->reject;
    p.factory = o->factory;
    p.thread = o->thread;
    p.hooks = o->hooks;
    return p;
}

int spn_scheduled_create(spn_scheduled **out, const spn_scheduled_opts *opts)
{
    spn_scheduled_opts o = SPN_SCHEDULED_OPTS_INIT;
    struct spn_scheduled *s;
    spn_pool_opts p;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (settle(&o) != SPN_OK)
        return SPN_EINVAL;
    s = spn__alloc_aligned(sizeof *s, SPN__CACHE_LINE);
    if (s == NULL)
        return SPN_ENOMEM;
    p = pool_opts(&o);
    s->removes_cancelled = o.remove_on_cancel != 0;
    s->delayed_after_shutdown = o.delayed_after_shutdown != 0;
    s->periodic_after_shutdown = o.periodic_after_shutdown != 0;
    spn__init(&s->stops_all, 0);
    s->decorate = o.decorate;
    s->failed = o.failed;
    s->ctx = o.ctx;
    spn__init(&s->failed_runs, 0);
    spn__delays_init(&s->delays, o.clock, allowed);
    rc = spn__pool_create_timed(&s->pool, &p, &s->delays.source);
    if (rc != SPN_OK) {
        spn__delays_fini(&s->delays);
        spn__free(s);
        return rc;
    }
    spn__delays_listen(&s->delays);
    *out = s;
    return SPN_OK;
}

int spn_scheduled_destroy(spn_scheduled *s)
{
    int rc;

    if (s == NULL)
        return SPN_OK;
    if (spn__pool_state(s->pool) != SPN_EXECUTOR_TERMINATED)
        return SPN_EBUSY;
    /* From the clock first, which must not tell a pool that is gone. */
    spn__delays_unlisten(&s->delays);
    rc = spn_pool_destroy(s->pool);
    if (rc != SPN_OK) {
        spn__delays_listen(&s->delays);
        return rc;
    }
    spn__delays_fini(&s->delays);
    spn__free(s);
    return SPN_OK;
}

spn_executor *spn_scheduled_executor(spn_scheduled *s)
{
    return s != NULL ? spn_pool_executor(s->pool) : NULL;
}

spn_pool *spn_scheduled_pool(spn_scheduled *s)
{
    return s != NULL ? s->pool : NULL;
}

/* ---- scheduling --------------------------------------------------------------------- */

static int64_t due_after(struct spn_scheduled *s, int64_t delay_ns)
{
    return spn__deadline(spn__delays_now(&s->delays), delay_ns);
}

static bool is_whole(const spn_schedule *what)
{
    if ((what->call == NULL) == (what->run == NULL) || what->reserved != 0 ||
        what->repeat > SPN_REPEAT_DELAY || what->on_failure > SPN_FAILURE_GO_ON ||
        what->skip_missed > 1)
        return false;
    if (what->repeat == SPN_REPEAT_NONE)
        return what->period_ns == 0 && what->on_failure == 0 && what->skip_missed == 0;
    return what->run != NULL && what->period_ns > 0 &&
           (what->repeat == SPN_REPEAT_RATE || what->skip_missed == 0);
}

/* Asks the hook, and checks what it made of it. */
static int decorate(struct spn_scheduled *s, spn_schedule *what)
{
    int rc;

    if (s->decorate == NULL)
        return SPN_OK;
    rc = s->decorate(s, what, s->ctx);
    if (rc != 0)
        return rc < 0 ? rc : SPN_EREJECTED;
    return is_whole(what) ? SPN_OK : SPN_EINVAL;
}

static int make(struct spn_scheduled *s, spn_schedule *what,
                struct spn__scheduled_future **out)
{
    spn_future_opts o = SPN_FUTURE_OPTS_INIT;
    int rc = decorate(s, what);

    if (rc != SPN_OK)
        return rc;
    if (what->future != NULL && spn__options_copy(&o, sizeof o, what->future) != SPN_OK)
        return SPN_EINVAL;
    o.size = sizeof o;
    return spn__scheduled_future_create(out, s, what, &o);
}

static int schedule(struct spn_scheduled *s, spn_schedule *what, spn_future **out)
{
    struct spn__scheduled_future *f;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (s == NULL || !is_whole(what))
        return SPN_EINVAL;
    rc = make(s, what, &f);
    if (rc == SPN_ENOMEM)
        spn__pool_no_memory(s->pool); /* as of a submit */
    if (rc != SPN_OK)
        return rc;
    rc = spn__scheduled_future_start(f, s,
                                     what->at_ns != 0 ? what->at_ns
                                                      : due_after(s, what->delay_ns));
    if (rc != SPN_OK) {
        /* It has never been: nobody is told. */
        f->t.future.done = NULL;
        f->t.release_arg = NULL;
        spn_future_unref(&f->t.future);
        return rc;
    }
    *out = &f->t.future;
    return SPN_OK;
}

int spn_scheduled_schedule(spn_scheduled *s, spn_call_fn call, void *arg,
                           int64_t delay_ns, spn_future **out)
{
    spn_schedule what = SPN_SCHEDULE_INIT;

    what.call = call;
    what.arg = arg;
    what.delay_ns = delay_ns;
    return schedule(s, &what, out);
}

static int repeat(struct spn_scheduled *s, spn_run_fn run, void *arg, int64_t first_ns,
                  int64_t period_ns, uint32_t how, spn_future **out)
{
    spn_schedule what = SPN_SCHEDULE_INIT;

    what.run = run;
    what.arg = arg;
    what.delay_ns = first_ns;
    what.period_ns = period_ns;
    what.repeat = how;
    return schedule(s, &what, out);
}

int spn_scheduled_at_fixed_rate(spn_scheduled *s, spn_run_fn run, void *arg,
                                int64_t first_ns, int64_t period_ns, spn_future **out)
{
    return repeat(s, run, arg, first_ns, period_ns, SPN_REPEAT_RATE, out);
}

int spn_scheduled_with_fixed_delay(spn_scheduled *s, spn_run_fn run, void *arg,
                                   int64_t first_ns, int64_t delay_ns, spn_future **out)
{
    return repeat(s, run, arg, first_ns, delay_ns, SPN_REPEAT_DELAY, out);
}

int spn_scheduled_schedule_with(spn_scheduled *s, const spn_schedule *what,
                                spn_future **out)
{
    spn_schedule w = SPN_SCHEDULE_INIT;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (what == NULL || spn__options_copy(&w, sizeof w, what) != SPN_OK)
        return SPN_EINVAL;
    return schedule(s, &w, out);
}

int spn__scheduled_new_task(struct spn__work_source *source, struct spn_future **out,
                            int (*fn)(void *arg, void **result), void *arg,
                            const struct spn_future_opts *opts)
{
    struct spn_scheduled *s = (struct spn_scheduled *)(void *)source;
    struct spn__scheduled_future *f;
    spn_schedule what = SPN_SCHEDULE_INIT;
    int rc;

    *out = NULL;
    what.call = fn;
    what.arg = arg;
    what.future = opts;
    rc = make(s, &what, &f);
    if (rc == SPN_OK)
        *out = &f->t.future;
    return rc;
}

int spn_scheduled_call(spn_scheduled *s, spn_run_fn run, void *arg, int64_t delay_ns)
{
    spn_task *task;
    int rc;

    if (s == NULL || run == NULL)
        return SPN_EINVAL;
    if (spn_context_current() == NULL)
        return spn__pool_call_at(s->pool, run, arg, due_after(s, delay_ns));
    task = spn__call_task_create(run, arg); /* a place for the context */
    if (task == NULL) {
        spn__pool_no_memory(s->pool);
        return SPN_ENOMEM;
    }
    rc = spn__pool_execute_at(s->pool, task, due_after(s, delay_ns));
    if (rc != SPN_OK)
        spn__task_drop_guarded(task, rc);
    return rc;
}

int spn_scheduled_execute(spn_scheduled *s, spn_task *task, int64_t delay_ns)
{
    if (s == NULL || task == NULL || task->fn == NULL)
        return SPN_EINVAL;
    return spn__pool_execute_at(s->pool, task, due_after(s, delay_ns));
}

/* ---- asking and taking back ------------------------------------------------------------ */

int spn_scheduled_remaining(const spn_future *future, int64_t *remaining_ns)
{
    const struct spn__scheduled_future *f = spn__scheduled_future_of(future);

    if (f == NULL || f->clock == NULL || remaining_ns == NULL)
        return SPN_EINVAL;
    /* relaxed: the time it had a moment ago. */
    *remaining_ns =
        spn__time_sub(spn__load(&f->due_ns, relaxed), spn_clock_now(f->clock));
    return SPN_OK;
}

int spn_scheduled_remove(spn_scheduled *s, spn_future *future)
{
    struct spn__scheduled_future *f = spn__scheduled_future_of(future);
    int removed;

    if (s == NULL || f == NULL)
        return SPN_EINVAL;
    removed = spn__pool_remove(s->pool, &f->t.task);
    if (removed == 1)
        spn_future_unref(future); /* the executor's; the caller has another */
    return removed;
}

int64_t spn_scheduled_drain(spn_scheduled *s, spn_task **tasks, size_t capacity)
{
    size_t count;

    if (s == NULL || (tasks == NULL && capacity > 0))
        return SPN_EINVAL;
    if (capacity == 0)
        return 0;
    spn__pool_hold(s->pool);
    count = spn__delays_take_due(&s->delays, tasks, capacity);
    spn__pool_left_queue(s->pool, &s->pool->returned, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        spn__job_forget(tasks[i]);
        spn__task_given_back(tasks[i]);
        spn_task_release(tasks[i]);
    }
    return (int64_t)count;
}

int64_t spn_scheduled_failed_runs(spn_scheduled *s)
{
    return s == NULL ? SPN_EINVAL : spn__load(&s->failed_runs, relaxed); /* a count */
}
