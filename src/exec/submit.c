/* SPDX-License-Identifier: MIT */
/*
 * submit.c - what becomes of a task: a new thread, the queue, a thread after all, or
 * the rejection policy.
 *
 * EAGER  pools ask for threads first.  `submitted` counts the tasks from before execute
 *   looks until they have run, been dropped or given back: with fewer of them than
 *   threads, some thread is free, and the task is queued for it.  Counted any later,
 *   two submitters at once would both see the same free thread.  A refusal may be due
 *   to a race for the last thread while the queue has room: then the queue is asked
 *   once more.
 *
 * NO THREAD  If none can be made, the task is queued as long as some worker lives; if
 *   none does it is refused with SPN_EAGAIN, and nothing is kept.
 *
 * ORDERING
 *   [wake] and [block]: after the push comes the fence in spn__idle_notify, and
 *   then the looks at who is idle and, in STEAL, who is blocked.
 *   [door]  Lanes and users' queues let tasks in without looking who is there: after
 *   that fence the control word tells whether somebody is.
 *   [core]  A task that is due at some time is pushed, and after a light fence a thread is
 *   made for it if there are fewer than core; who raises core does so before a heavy fence
 *   (idle.c, look_around) and then looks for what is queued.  One of the two makes it.
 */
#include "exec/pool.h"

#include "base/log.h"
#include "exec/lanes.h"
#include "future/ambient.h"
#include "future/executor.h"

void spn__pool_settle(struct spn_pool *pool, int64_t by)
{
    if (pool->eager)
        (void)spn__fetch_sub(&pool->submitted, by, relaxed); /* only counts */
}

/* A user's queue was shut down around a task that came in: takes it out again, if it
 * is still there, by its address alone, for it may be gone. */
static bool withdraw(struct spn_pool *pool, spn_task *task)
{
    bool end;

    if (spn_queue_remove_item(pool->work.queue, task) != SPN_OK)
        return false;
    spn__work_uncount_user(pool);
    spn__lock(&pool->lock);
    spn__idle_look_around(pool); /* somebody may have stayed for it */
    end = spn__pool_try_terminate(pool);
    spn__unlock(&pool->lock);
    if (end)
        spn__pool_terminate(pool);
    return true;
}

/* A push into a lane that was refused has been there for a moment, and may have kept
 * the pool from its end. */
static void refused_by_lane(struct spn_pool *pool)
{
    bool end;

    spn__lock(&pool->lock);
    spn__idle_look_around(pool); /* one that stayed for it shall go after all */
    end = spn__pool_try_terminate(pool);
    spn__unlock(&pool->lock);
    if (end)
        spn__pool_terminate(pool);
}

/* There is no worker.  If none can be made either, what was pushed is taken out
 * again, and what else waits is dropped. */
static int staff_or_withdraw(struct spn_pool *pool, struct spn__entry entry,
                             uint64_t sequence)
{
    const int rc = spn__pool_add_worker_or(pool, NULL, SPN__TO_MAX, false);
    bool withdrawn;

    if (rc == SPN_OK || rc == SPN_EFULL || rc == SPN_ESHUTDOWN)
        return SPN_OK; /* another is there, or the end takes care of it */
    if (pool->kind == SPN__WORK_LANES)
        withdrawn = spn__lanes_take_back(pool->work.lanes, entry);
    else if (pool->kind == SPN__WORK_TIMED)
        withdrawn = pool->work.source->ops->withdraw(pool->work.source, sequence);
    else
        withdrawn = entry.fn == spn__entry_task && withdraw(pool, entry.arg);
    if (withdrawn && pool->kind == SPN__WORK_TIMED)
        refused_by_lane(pool); /* it was in sight for a while */
    spn__pool_give_up(pool);
    return withdrawn ? SPN_EAGAIN : SPN_OK;
}

/* After a push. */
static int after_push(struct spn_pool *pool, struct spn__entry entry)
{
    uint32_t ctl;

    if (pool->kind == SPN__WORK_LANES || pool->kind == SPN__WORK_USER) {
        spn__fence_light();                   /* [door] */
        ctl = spn__load(&pool->ctl, relaxed); /* after the fence */
        if (pool->kind == SPN__WORK_USER && entry.fn == spn__entry_task &&
            spn__ctl_state(ctl) != SPN_EXECUTOR_RUNNING && withdraw(pool, entry.arg))
            return SPN_ESHUTDOWN;
        if (spn__ctl_count(ctl) == 0 && staff_or_withdraw(pool, entry, 0) != SPN_OK)
            return SPN_EAGAIN;
    }
    spn__idle_notify(pool);
    if (pool->kind != SPN__WORK_STEAL)
        return SPN_OK;
    if (spn__load(&pool->blocked, relaxed) > 0) /* [block] */
        spn__pool_compensate(pool);
    /* Those that were there when it was pushed may be busy, and the others gone: tasks of
     * this kind wait for each other.  relaxed, all: who left before the push was counted
     * out before it [door], and who leaves later looks; knobs. */
    if (spn__load(&pool->idle_count, relaxed) == 0 &&
        spn__ctl_count(spn__load(&pool->ctl, relaxed)) <
            spn__load(&pool->core, relaxed))
        (void)spn__pool_add_worker_or(pool, NULL, SPN__TO_CORE, false);
    return SPN_OK;
}

/* Whether an eager pool would rather have another thread. */
static bool rather_a_thread(struct spn_pool *pool)
{
    /* relaxed, all: decided by what was true a moment ago, as ever. */
    const int32_t count = spn__ctl_count(spn__load(&pool->ctl, relaxed));

    return spn__load(&pool->submitted, relaxed) >= count &&
           count < spn__load(&pool->max, relaxed);
}

/* A source of work wakes the workers it has before it makes more. */
static bool rather_an_idle_one(struct spn_pool *pool)
{
    /* relaxed: a hint; one that is queued is taken in any case. */
    return pool->kind == SPN__WORK_STEAL && spn__load(&pool->idle_count, relaxed) > 0;
}

/* Which refusal is the truth of it. */
static int refusal(int pushed, int added)
{
    if (pushed == SPN_ESHUTDOWN || added == SPN_ESHUTDOWN)
        return SPN_ESHUTDOWN;
    if (pushed == SPN_EAGAIN) /* nobody there, and nobody to be had */
        return added == SPN_EFULL ? SPN_EAGAIN : added;
    return pushed == SPN_ENOMEM ? SPN_ENOMEM : SPN_EFULL;
}

/* How a task is to be admitted, and what else there is to say if it was not. */
struct attempt {
    bool queue_only; /* make no thread for it */
    bool no_thread;  /* one was to be made, and could not */
    bool again;      /* nobody was there to take it, and now there is somebody */
};

/* Whether a thread was to be made, and could not be. */
static bool is_no_thread(int added)
{
    return added != SPN_OK && added != SPN_EFULL && added != SPN_ESHUTDOWN;
}

/* The steps; the task is claimed. */
static int try_admit(struct spn_pool *pool, spn_task *task, struct attempt *a)
{
    const struct spn__entry entry = { spn__entry_task, task };
    /* relaxed: knobs, and what add_worker and push decide again for themselves. */
    const uint32_t ctl = spn__load(&pool->ctl, relaxed);
    int pushed = SPN_EFULL, added = SPN_EFULL;

    if (spn__ctl_state(ctl) != SPN_EXECUTOR_RUNNING)
        return SPN_ESHUTDOWN;
    if (!a->queue_only && spn__ctl_count(ctl) < spn__load(&pool->core, relaxed) &&
        !rather_an_idle_one(pool)) {
        added = spn__pool_add_worker(pool, task, SPN__TO_CORE);
        if (added == SPN_OK)
            return SPN_OK;
        a->no_thread = is_no_thread(added);
    }
    if (!pool->eager || a->queue_only || !rather_a_thread(pool)) {
        if (pool->has_tray && spn__tray_give(pool, task))
            return SPN_OK;
        pushed = spn__work_push(pool, task);
        if (pushed == SPN_OK)
            return after_push(pool, entry);
        if (pushed == SPN_ESHUTDOWN && pool->kind == SPN__WORK_LANES)
            refused_by_lane(pool);
    }
    if (a->queue_only)
        return refusal(pushed, SPN_EFULL);
    added = spn__pool_add_worker(pool, task, SPN__TO_MAX);
    if (added == SPN_OK)
        return SPN_OK;
    if (pool->eager && added != SPN_ESHUTDOWN) {
        pushed = spn__work_push(pool, task); /* the last thread went to another */
        if (pushed == SPN_OK)
            return after_push(pool, entry);
        if (pushed == SPN_ESHUTDOWN && pool->kind == SPN__WORK_LANES)
            refused_by_lane(pool);
    }
    a->again = pushed == SPN_EAGAIN && added == SPN_EFULL;
    a->no_thread = a->no_thread || is_no_thread(added);
    return refusal(pushed, added);
}

/*
 * Tasks that are due at some time go into the queue first, as the order is made there,
 * and then get a thread if there are fewer than core, or none.
 */
static int admit_at(struct spn_pool *pool, struct spn__entry entry, int64_t due_ns)
{
    struct spn__work_source *source = pool->work.source;
    uint64_t sequence = 0;
    bool first = false, served;
    int32_t count;
    int rc;

    if (spn__ctl_state(spn__load(&pool->ctl, relaxed)) != SPN_EXECUTOR_RUNNING)
        return SPN_ESHUTDOWN; /* relaxed: push decides */
    rc = source->ops->push(source, entry, due_ns, &sequence, &first);
    if (rc != SPN_OK)
        return rc;
    /* [core] as there.  What is first in the inbox has made a full one, and who sees
     * that one gone sees also what came behind it, by the release of its pop.
     * mutant: so arrive and [size] in sched/delays.c order it as well */
    spn__fence_light();
    /* relaxed, all: what the last worker that left saw, it saw before the push, and
     * this after it [door]; knobs. */
    count = spn__ctl_count(spn__load(&pool->ctl, relaxed));
    served = count > 0;
    /* Who makes one in vain looks again: others may have relied on that one, and those that
     * were counted may be in the making, in vain, too.  The last one sees that none is left. */
    if (count < spn__load(&pool->core, relaxed))
        served = spn__pool_add_worker_or(pool, NULL, SPN__TO_CORE, false) == SPN_OK;
    if (!served && spn__ctl_count(spn__load(&pool->ctl, relaxed)) == 0 &&
        spn__work_any(pool) && staff_or_withdraw(pool, entry, sequence) != SPN_OK)
        return SPN_EAGAIN;
    if (first)
        spn__idle_notify_first(pool);
    return SPN_OK;
}

static int admit(struct spn_pool *pool, spn_task *task, struct attempt *a)
{
    int rc;

    if (pool->kind == SPN__WORK_TIMED)
        return admit_at(pool, (struct spn__entry){ spn__entry_task, task },
                        pool->work.source->ops->now(pool->work.source));

    for (;;) {
        a->again = a->no_thread = false;
        rc = try_admit(pool, task, a);
        if (rc == SPN_OK || !a->again)
            return rc;
    }
}

static int try_claimed(struct spn_pool *pool, spn_task *task, struct attempt *a)
{
    int rc;

    if (pool->eager)
        (void)spn__fetch_add(&pool->submitted, 1, relaxed); /* only counts */
    spn__job_capture(task);
    do
        rc = admit(pool, task, a);
    while (__builtin_expect(rc == SPN_EFULL, 0) && spn__pool_sweep(pool));
    if (rc != SPN_OK) {
        spn__job_forget(task);
        spn__pool_settle(pool, 1);
        spn_task_release(task);
    }
    return rc;
}

int spn__pool_try_execute(struct spn_pool *pool, spn_task *task)
{
    struct attempt a = { .queue_only = false };
    const int rc = spn_task_claim(task);

    return rc == SPN_OK ? try_claimed(pool, task, &a) : rc;
}

int spn__pool_try_again(struct spn_pool *pool, spn_task *task, bool queue_only,
                        bool *no_thread)
{
    struct attempt a = { .queue_only = queue_only };
    int rc = spn_task_claim(task);

    if (rc == SPN_OK)
        rc = try_claimed(pool, task, &a);
    *no_thread = a.no_thread;
    return rc;
}

static int refuse(struct spn_pool *pool, spn_task *task, int rc);

/* What found no memory is refused without asking the policy, which might need some.
 * task: NULL if there is none. */
static int no_memory(struct spn_pool *pool, const spn_task *task)
{
    if (task != NULL)
        spn__pool_left(pool, task);
    (void)spn__fetch_add(&pool->no_memory, 1, relaxed); /* only counts */
    return SPN_ENOMEM;
}

void spn__pool_no_memory(struct spn_pool *pool)
{
    (void)no_memory(pool, NULL);
}

int spn__pool_execute_at(struct spn_pool *pool, spn_task *task, int64_t due_ns)
{
    int rc = spn_task_claim(task);

    if (rc != SPN_OK)
        return rc;
    spn__job_capture(task);
    rc = admit_at(pool, (struct spn__entry){ spn__entry_task, task }, due_ns);
    if (rc == SPN_OK)
        return SPN_OK;
    spn__job_forget(task);
    spn_task_release(task);
    return rc == SPN_ENOMEM ? no_memory(pool, task) : refuse(pool, task, rc);
}

int spn__pool_call_at(struct spn_pool *pool, spn_run_fn fn, void *arg, int64_t due_ns)
{
    int rc = admit_at(pool, (struct spn__entry){ fn, arg }, due_ns);
    spn_task *task;

    if (rc == SPN_OK)
        return rc;
    if (rc == SPN_ENOMEM)
        return no_memory(pool, NULL);
    task = spn__call_task_create(fn, arg); /* for the policy */
    if (task == NULL)
        return no_memory(pool, NULL);
    rc = refuse(pool, task, rc);
    if (rc != SPN_OK)
        spn__task_drop_guarded(task, rc);
    return rc;
}

static uint32_t reason_of(int rc)
{
    switch (rc) {
    case SPN_ESHUTDOWN:
        return SPN_REFUSED_SHUTDOWN;
    case SPN_EAGAIN:
        return SPN_REFUSED_NO_THREAD;
    default:
        return SPN_REFUSED_FULL;
    }
}

/* Asks the policy. */
static int refuse(struct spn_pool *pool, spn_task *task, int rc)
{
    const spn_reject_policy *policy = spn__load(&pool->reject, acquire); /* [knob] */
    const spn_refusal why = { .reason = reason_of(rc),
                              .refused_at_ns = spn__now(),
                              .source = pool };

    /* If it is timed, the time that a policy lets it wait for room is part of its wait. */
    rc = policy->refused(policy, pool, task, &why);
    if (rc == SPN_OK)
        return rc;
    spn__pool_left(pool, task);
    (void)spn__fetch_add(&pool->rejected[why.reason], 1, relaxed); /* only counts */
    return rc;
}

/* In a pool that has task times.  timed: how long this one waits is to be known. */
static __attribute__((noinline)) void note_time(struct spn_pool *pool, spn_task *task,
                                                bool timed)
{
    spn__times_submitted(pool->hooks.times, task, timed);
    SPN__PROBE2(task_submit, pool->name, task);
}

/* The task is claimed. */
static int execute_claimed(struct spn_pool *pool, spn_task *task)
{
    const int rc = try_claimed(pool, task, &(struct attempt){ .queue_only = false });

    if (rc == SPN_OK)
        return rc;
    return rc == SPN_ENOMEM ? no_memory(pool, task) : refuse(pool, task, rc);
}

int spn__pool_execute(struct spn_pool *pool, spn_task *task)
{
    const int rc = spn_task_claim(task);

    if (rc != SPN_OK)
        return rc; /* nothing was submitted */
    if (__builtin_expect(pool->hooks.times != NULL, 0))
        note_time(pool, task, spn__times_due(pool->hooks.times));
    return execute_claimed(pool, task);
}

/* A call as a task of the library's own. */
static int execute_call(struct spn_pool *pool, spn_task *task, bool timed)
{
    int rc = spn_task_claim(task); /* SPN_OK: it is new */

    if (__builtin_expect(pool->hooks.times != NULL, 0))
        note_time(pool, task, timed);
    if (rc == SPN_OK)
        rc = execute_claimed(pool, task);
    if (rc != SPN_OK)
        spn__task_drop_guarded(task, rc);
    return rc;
}

/* After a push into a lane, which makes the fence: somebody is there, and nobody sleeps. */
static inline bool nobody_to_tell(struct spn_pool *pool)
{
    /* relaxed, both: after the fence [door] [wake]. */
    return spn__ctl_count(spn__load(&pool->ctl, relaxed)) != 0 &&
           spn__load(&pool->idle_count, relaxed) == 0;
}

/* Whether calls wait as such, and nothing asks for a task before. */
static bool keeps_calls(struct spn_pool *pool)
{
    return pool->kind == SPN__WORK_FIFO && !pool->handoff && !pool->eager &&
           pool->hooks.before == NULL;
}

/* What was pushed, or not, into a lane. */
static int after_lane(struct spn_pool *pool, struct spn__entry call, int rc)
{
    if (rc == SPN_OK)
        return after_push(pool, call);
    if (rc == SPN_ESHUTDOWN)
        refused_by_lane(pool);
    return rc;
}

/* The way of the first ones, who start threads, and of what is refused; `rc` is what
 * became of it so far.  Apart, so that the other way is short. */
static __attribute__((noinline)) int call_with_node(struct spn_pool *pool,
                                                    struct spn__entry call, int rc)
{
    spn_task *task;

    if (rc == SPN_OK)
        return rc;
    if (rc == SPN_ENOMEM)
        return no_memory(pool, NULL);
    task = spn__call_task_create(call.fn, call.arg);
    if (task == NULL)
        return no_memory(pool, NULL);
    return execute_call(pool, task, false);
}

/* The way into a lane of the few: `rc` is what became of it, SPN_EBUSY: nothing yet. */
static __attribute__((noinline)) int call_lane(struct spn_pool *pool,
                                               struct spn__entry call, int rc)
{
    if (rc == SPN_EBUSY)
        rc = spn__lanes_push(pool->work.lanes, call);
    return call_with_node(pool, call, after_lane(pool, call, rc));
}

/* LANES. */
static inline int call_by_lane(struct spn_pool *pool, struct spn__entry call,
                               uint32_t ctl)
{
    struct lane *l;

    if (spn__ctl_state(ctl) != SPN_EXECUTOR_RUNNING || spn__ctl_count(ctl) == 0 ||
        spn__ctl_count(ctl) < spn__load(&pool->core, relaxed)) /* as in admit */
        return call_with_node(pool, call, SPN_EAGAIN);
    /* No call but the last, here and below, so that nothing is kept across one. */
    l = recall_lane(pool->work.lanes);
    if (__builtin_expect(l == NULL || !has_slot(l), 0))
        return call_lane(pool, call, SPN_EBUSY);
    if (__builtin_expect(!append(pool->work.lanes, l, call), 0))
        return call_lane(pool, call, spn__lanes_refuse(l, call));
    /* Mostly nobody needs to be told. */
    return __builtin_expect(nobody_to_tell(pool), 1) ? SPN_OK
                                                     : call_lane(pool, call, SPN_OK);
}

static __attribute__((noinline)) int call_other(struct spn_pool *pool,
                                                struct spn__entry call, uint32_t ctl)
{
    int rc = SPN_EAGAIN;

    if (pool->kind == SPN__WORK_TIMED)
        return spn__pool_call_at(pool, call.fn, call.arg,
                                 pool->work.source->ops->now(pool->work.source));
    if (pool->hooks.times != NULL && spn__times_due(pool->hooks.times)) {
        spn_task *task = spn__call_task_create(call.fn, call.arg);

        if (task != NULL) /* only a task is timed: without memory it is not */
            return execute_call(pool, task, true);
    }
    if (pool->kind == SPN__WORK_LANES)
        return call_by_lane(pool, call, ctl);
    /* The door tells whether somebody is there, and what state the pool is in.
     * relaxed: a knob. */
    if (keeps_calls(pool) && spn__ctl_count(ctl) >= spn__load(&pool->core, relaxed)) {
        rc = spn__work_push_call(pool, call.fn, call.arg);
        if (rc == SPN_OK)
            return after_push(pool, call);
    }
    return call_with_node(pool, call, rc);
}

/* A function and its argument, without a node. */
int spn__pool_call(struct spn_pool *pool, spn_run_fn fn, void *arg)
{
    const struct spn__entry call = { fn, arg };
    const uint32_t ctl = spn__load(&pool->ctl, relaxed); /* as in admit */

    return pool->plain_lanes ? call_by_lane(pool, call, ctl)
                             : call_other(pool, call, ctl);
}
