/* SPDX-License-Identifier: MIT */
/*
 * reject.c - what to do with a task that a pool cannot take: the built-in policies.
 *
 * A policy runs on the submitter's thread, with no lock held, and the task is nobody's
 * while it does.  Whoever means to keep it marks it first, as an executor would, so
 * that a second thread that submits the same task hears SPN_EBUSY.
 *
 * COUNTS
 *   A new task that is dropped was accepted, for execute says SPN_OK: it counts as
 *   handed over directly and as dropped, both under the lock.  One that runs outside of
 *   the pool was never accepted.  What is refused in the end is counted by execute.
 *
 * SHUT DOWN
 *   Policies look at the pool as it is now, not at the refusal: one that was refused
 *   because the pool was full may be overtaken by shutdown.
 *
 * WHY the oldest is dropped a bounded number of times: with busy submitters the place
 * it leaves may be taken before we get there, each round costs somebody a task, and
 * on a queue without places (hand-off) there is never one.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "exec/pool.h"
#include "future/ambient.h"
#include "future/executor.h"
#include "sync/thread_record.h"

enum { OLDEST_ROUNDS = 16 };
#define BLOCK_DEFAULT_NS SPN_SEC(60)

static bool is_shut_down(struct spn_pool *pool)
{
    /* relaxed: whoever shuts down now may be a moment too late for this task. */
    return spn__ctl_state(spn__load(&pool->ctl, relaxed)) != SPN_EXECUTOR_RUNNING;
}

int spn_refusal_stats(const spn_refusal *why, spn_pool_stats *stats)
{
    return why == NULL ? SPN_EINVAL : spn_pool_stats_get(why->source, stats);
}

/* What a task that stays its submitter's is refused with. */
static int refuse(const spn_refusal *why)
{
    return why->reason == SPN_REFUSED_NO_THREAD ? SPN_EAGAIN : SPN_EREJECTED;
}

static int64_t deadline_of(const spn_task *task)
{
    const spn_job *job = (const spn_job *)(const void *)task;

    if ((task->flags & SPN_TASK_JOB) == 0 || job->deadline_ns == 0)
        return SPN_FOREVER;
    return job->deadline_ns;
}

/* The claimed task is dropped and was never queued; counter is one of the pool's. */
static void drop_new(struct spn_pool *pool, spn_task *task, int64_t *counter,
                     int reason)
{
    spn__pool_left(pool, task);
    spn__lock(&pool->lock);
    pool->direct++;
    *counter += 1;
    spn__unlock(&pool->lock);
    spn_task_release(task);
    spn__task_drop_guarded(task, reason);
}

static int drop_with(struct spn_pool *pool, spn_task *task, int reason)
{
    const int rc = spn_task_claim(task);

    if (rc == SPN_OK)
        drop_new(pool, task, &pool->discarded, reason);
    return rc;
}

/* A claimed task that comes too late to run is dropped here, as a worker would. */
static bool has_expired(struct spn_pool *pool, spn_task *task)
{
    const int64_t deadline_ns = deadline_of(task);

    if (deadline_ns == SPN_FOREVER || !spn__deadline_passed(deadline_ns, spn__now()))
        return false;
    drop_new(pool, task, &pool->expired, SPN_ETIMEDOUT);
    return true;
}

/* ---- abort, discard ------------------------------------------------------------ */

static int refused_abort(const spn_reject_policy *policy, spn_pool *pool,
                         spn_task *task, const spn_refusal *why)
{
    (void)policy;
    (void)pool;
    (void)task;
    return refuse(why);
}

static int refused_discard(const spn_reject_policy *policy, spn_pool *pool,
                           spn_task *task, const spn_refusal *why)
{
    (void)policy;
    (void)why;
    return drop_with(pool, task, SPN_EREJECTED);
}

/* ---- caller runs ----------------------------------------------------------------- */

static int refused_caller_runs(const spn_reject_policy *policy, spn_pool *pool,
                               spn_task *task, const spn_refusal *why)
{
    spn_task_info info = { NULL, NULL, 0, 0 };
    int rc;

    (void)policy;
    (void)why;
    if (is_shut_down(pool))
        return drop_with(pool, task, SPN_ESHUTDOWN);
    rc = spn_task_claim(task);
    if (rc != SPN_OK)
        return rc;
    if (has_expired(pool, task))
        return SPN_OK;
    /* relaxed: only a count. */
    (void)spn__fetch_add(&pool->caller_ran, 1, relaxed);
    spn__pool_left(pool, task);
    spn__job_capture(task);
    info.status = spn__task_run_claimed(task); /* the node may be gone now */
    if (info.status != 0)
        spn__pool_uncaught(pool, &info);
    return SPN_OK;
}

/* ---- discard the oldest ------------------------------------------------------------ */

/* Takes the oldest out, tries the new one in its place, and then drops the old: its
 * drop may take long, and the place would be gone. */
static int replace_oldest(spn_pool *pool, spn_task *task, bool *replaced)
{
    spn_task *oldest;
    int rc;

    spn__pool_hold(pool);
    oldest = spn__work_pop_oldest(pool);
    if (oldest != NULL)
        spn__pool_left(pool, oldest);
    spn__pool_left_queue(pool, &pool->discarded, oldest != NULL);
    rc = spn__pool_try_execute(pool, task);
    if (oldest != NULL)
        spn__task_discard(oldest, SPN_EREJECTED);
    *replaced = oldest != NULL;
    return rc;
}

static int refused_discard_oldest(const spn_reject_policy *policy, spn_pool *pool,
                                  spn_task *task, const spn_refusal *why)
{
    int rc = is_shut_down(pool) ? SPN_ESHUTDOWN : SPN_EFULL;
    bool replaced = true;

    (void)policy;
    if (rc == SPN_EFULL && why->reason != SPN_REFUSED_FULL &&
        why->reason != SPN_REFUSED_SHUTDOWN)
        return refuse(why); /* nobody's going would help */
    for (int i = 0; i < OLDEST_ROUNDS && replaced && rc == SPN_EFULL; i++)
        rc = replace_oldest(pool, task, &replaced);
    if (rc == SPN_ESHUTDOWN)
        return drop_with(pool, task, SPN_ESHUTDOWN);
    return rc == SPN_EFULL ? SPN_EREJECTED : rc;
}

/* ---- a thread of its own ----------------------------------------------------------- */

/* The pool may be gone by now: nothing of it is touched. */
static int run_alone(void *arg)
{
    struct spn_thread *self = spn__self_get();
    int status;

    self->stays = true;
    status = spn__task_run_claimed(arg);
    if (status != 0)
        spn__log(SPN_LOG_WARN, "a task on a thread of its own failed: %d (%s)", status,
                 spn_status_name(status));
    return 0;
}

static int start_alone(const struct spn_pool *pool, spn_task *task)
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    char name[SPN_THREAD_NAME_MAX + 1];
    spn_thread *thread;
    int rc;

    (void)snprintf(name, sizeof name, "%.200s-extra", pool->name);
    opts.name = name;
    opts.stack_size = pool->thread_opts.stack_size;
    opts.cpus = pool->thread_opts.cpus;
    opts.cpu_count = pool->thread_opts.cpu_count;
    opts.sched = pool->thread_opts.sched;
    opts.priority = pool->thread_opts.priority;
    opts.signals = pool->thread_opts.signals;
    rc = spn_thread_create(&thread, &opts, run_alone, task);
    if (rc == SPN_OK)
        spn_thread_unref(thread);
    return rc;
}

static int refused_new_thread(const spn_reject_policy *policy, spn_pool *pool,
                              spn_task *task, const spn_refusal *why)
{
    int rc;

    (void)policy;
    (void)why;
    if (is_shut_down(pool))
        return SPN_EREJECTED;
    rc = spn_task_claim(task);
    if (rc != SPN_OK)
        return rc;
    if (has_expired(pool, task))
        return SPN_OK;
    spn__pool_left(pool, task);
    spn__job_capture(task);
    rc = start_alone(pool, task);
    if (rc != SPN_OK) {
        spn__job_forget(task);
        spn_task_release(task);
        return SPN_EREJECTED;
    }
    /* relaxed: only a count. */
    (void)spn__fetch_add(&pool->caller_ran, 1, relaxed);
    return SPN_OK;
}

/* ---- block ----------------------------------------------------------------------------- */

static int wait_for_room(spn_pool *pool, spn_task *task, int64_t timeout_ns)
{
    const int64_t limit_ns = deadline_of(task);
    int64_t deadline_ns =
        spn__deadline(spn__now(), timeout_ns == 0 ? BLOCK_DEFAULT_NS : timeout_ns);

    if (limit_ns < deadline_ns)
        deadline_ns = limit_ns; /* after that nobody wants it any more */
    return spn__room_execute(pool, task, deadline_ns);
}

int spn_reject_block_refused(const spn_reject_policy *policy, spn_pool *pool,
                             spn_task *task, const spn_refusal *why)
{
    const spn_reject_block *block = (const spn_reject_block *)(const void *)policy;
    const struct spn__worker *worker;
    int rc;

    if (policy == NULL || pool == NULL || task == NULL || why == NULL)
        return SPN_EINVAL;
    if (is_shut_down(pool) || why->reason != SPN_REFUSED_FULL)
        return refuse(why);
    worker = spn__worker_current();
    if (worker != NULL && worker->pool == pool)
        return SPN_EDEADLK;
    rc = wait_for_room(pool, task, block->timeout_ns);
    return rc == SPN_ESHUTDOWN || rc == SPN_EFULL ? SPN_EREJECTED : rc;
}

/* ---- chain ------------------------------------------------------------------------------- */

int spn_reject_chain_refused(const spn_reject_policy *policy, spn_pool *pool,
                             spn_task *task, const spn_refusal *why)
{
    const spn_reject_chain *chain = (const spn_reject_chain *)(const void *)policy;
    int rc;

    if (policy == NULL || pool == NULL || task == NULL || why == NULL)
        return SPN_EINVAL;
    rc = refuse(why); /* of an empty one */
    for (size_t i = 0; chain->policies != NULL && i < chain->count; i++) {
        const spn_reject_policy *next = chain->policies[i];

        if (next == NULL)
            continue;
        rc = next->refused(next, pool, task, why);
        /* An interrupt was meant for the submitter, and has been taken. */
        if (rc == SPN_OK || rc == SPN_EINTR)
            break;
    }
    return rc;
}

/* ---- the ones without state ----------------------------------------------------------------- */

const spn_reject_policy *spn_reject_abort(void)
{
    static const spn_reject_policy policy = { sizeof policy, "abort", refused_abort };

    return &policy;
}

const spn_reject_policy *spn_reject_caller_runs(void)
{
    static const spn_reject_policy policy = { sizeof policy, "caller_runs",
                                              refused_caller_runs };

    return &policy;
}

const spn_reject_policy *spn_reject_discard(void)
{
    static const spn_reject_policy policy = { sizeof policy, "discard",
                                              refused_discard };

    return &policy;
}

const spn_reject_policy *spn_reject_discard_oldest(void)
{
    static const spn_reject_policy policy = { sizeof policy, "discard_oldest",
                                              refused_discard_oldest };

    return &policy;
}

const spn_reject_policy *spn_reject_new_thread(void)
{
    static const spn_reject_policy policy = { sizeof policy, "new_thread",
                                              refused_new_thread };

    return &policy;
}
