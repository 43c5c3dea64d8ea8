/* SPDX-License-Identifier: MIT */
/*
 * nested.c - tasks that wait for tasks of their own pool.
 *
 * THE PROBLEM
 *   A worker that waits for a task in its own pool's queue serves nobody.  When all of
 *   them do that, nobody is left to run what they wait for.
 *
 * WHAT IS DONE ABOUT IT
 *   Each waiter is on record.  The one that makes the number of waiters
 *   that of the workers has the pool grow, within its maximum, or else is refused with
 *   SPN_EDEADLK: that is no guess, for none of the others can go on before it does.
 *   A worker whose wait is over but which has not woken up yet is not a waiter, and
 *   neither is one whose task somebody outside runs or drops.  While one of them waits
 *   until a deadline nobody is refused: that worker goes on by itself and serves again.
 *   If all wait but for workers that are just being made, it is not known yet whether
 *   there will be any: the waiter first waits for that, and a worker that was there when
 *   they began to wait does not leave meanwhile.
 *
 * LOCKS  `waits_for` is guarded by the pool's lock.  The waiter holds a reference to
 *   the future from before it is set until after it is cleared.
 */
#include "exec/pool.h"
#include "exec/worker.h"

#include "future/ambient.h"
#include "future/core.h"
#include "future/executor.h"

/* Whether a worker waits for what only a worker of this pool can do: a task that is
 * still queued here, or that another of them runs.  Whoever else has it (a
 * submitter that runs it, one that drops it) will end the wait. */
static bool is_stuck(struct spn_pool *pool, const struct spn__worker *w)
{
    struct spn__list_node *node;
    const struct spn_thread *runner;

    if (w->waits_for == NULL || spn__future_done(w->waits_for))
        return false;
    if (spn__work_has(pool, spn__future_task(w->waits_for)))
        return true;
    runner = spn__future_runner(w->waits_for);
    spn__list_each (node, &pool->workers) {
        struct spn__worker *other = spn__list_entry(node, struct spn__worker, link);

        if (runner != NULL && spn__load(&other->self, relaxed) == runner) /* a hint */
            return true;
    }
    return false;
}

bool spn__pool_all_wait(struct spn_pool *pool, int32_t count)
{
    struct spn__list_node *node;

    if (pool->live != count)
        return false; /* one is just being made */
    spn__list_each (node, &pool->workers)
        if (!is_stuck(pool, spn__list_entry(node, struct spn__worker, link)))
            return false;
    return true;
}

bool spn__pool_leaves_waiting(struct spn_pool *pool, const struct spn__worker *w)
{
    struct spn__list_node *node;
    int32_t stuck = 0, others = 0;

    spn__list_each (node, &pool->workers) {
        struct spn__worker *other = spn__list_entry(node, struct spn__worker, link);

        if (other == w)
            continue;
        if (is_stuck(pool, other))
            stuck++;
        else if (++others > pool->making)
            return false;
    }
    return stuck > 0;
}

/* Whether one of the workers that wait gives up some day, and then serves again;
 * pool->lock is held. */
static bool waits_until_a_deadline(struct spn_pool *pool)
{
    struct spn__list_node *node;

    spn__list_each (node, &pool->workers)
        if (spn__list_entry(node, struct spn__worker, link)->waits_timed)
            return true;
    return false;
}

static int32_t workers_of(struct spn_pool *pool)
{
    return spn__ctl_count(spn__load(&pool->ctl, relaxed)); /* the lock is held */
}

/* Whether all wait but those whose thread is being made; pool->lock is held. */
static bool rests_on_makers(struct spn_pool *pool, int32_t count)
{
    struct spn__list_node *node;
    int32_t others = 0;

    if (pool->making == 0 && pool->live == count)
        return false;
    spn__list_each (node, &pool->workers)
        others += !is_stuck(pool, spn__list_entry(node, struct spn__worker, link));
    return others <= pool->making;
}

/* Until there is a worker that does not wait, or it is certain that there is none: by the
 * number of workers that it returns, to which one may have been added since.  Takes no
 * longer than the making of threads.  pool->lock is held. */
static int32_t await_makers(struct spn_pool *pool, struct spn__worker *w)
{
    int32_t count;

    while (count = workers_of(pool), w->makes == 0 && rests_on_makers(pool, count)) {
        struct spn__waiter waiter;

        spn__waitq_add(&pool->made, &waiter,
                       spn__load(&w->self, relaxed)); /* its own */
        spn__unlock(&pool->lock);
        spn__waitq_sleep(&waiter);
        spn__lock(&pool->lock);
    }
    return count;
}

/* Both with pool->lock held.  relaxed, both: a count that is ordered by fences [stay]. */
static void start_waiting(struct spn__worker *w, struct spn_future *future)
{
    w->waits_for = future;
    w->waits_timed = spn__load(&w->self, relaxed)->waits_timed; /* its own */
    (void)spn__fetch_add(&w->pool->waiting, 1, relaxed);
}

static void stop_waiting(struct spn__worker *w)
{
    if (w->waits_for != NULL)
        (void)spn__fetch_sub(&w->pool->waiting, 1, relaxed);
    w->waits_for = NULL;
    w->waits_timed = false;
}

/* All workers would wait: another one, or none of them ever goes on. */
static int resolve(struct spn_pool *pool, struct spn__worker *w)
{
    int rc = spn__pool_add_worker(pool, NULL, SPN__TO_MAX);

    if (rc == SPN_OK)
        return SPN_OK;
    spn__lock(&pool->lock);
    /* One of them may have got what it waited for meanwhile, or somebody else makes one,
     * perhaps in vain. */
    if (spn__pool_all_wait(pool, await_makers(pool, w)) &&
        !waits_until_a_deadline(pool))
        stop_waiting(w);
    else
        rc = SPN_OK;
    spn__unlock(&pool->lock);
    if (rc == SPN_OK)
        return SPN_OK;
    if (pool->kind == SPN__WORK_USER)
        spn__worker_let_go(pool);
    return SPN_EDEADLK;
}

int spn__pool_wait_begin(spn_executor *executor, spn_task *task)
{
    struct spn_pool *pool = (struct spn_pool *)(void *)executor;
    struct spn__worker *w = spn__worker_current();
    struct spn_future *future = spn__task_future(task);
    bool all;

    if (future == NULL || w == NULL || w->pool != pool)
        return SPN_OK;
    spn__lock(&pool->lock);
    start_waiting(w, future);
    all = spn__pool_all_wait(pool, await_makers(pool, w));
    spn__unlock(&pool->lock);
    return all ? resolve(pool, w) : SPN_OK;
}

void spn__pool_wait_end(spn_executor *executor)
{
    struct spn_pool *pool = (struct spn_pool *)(void *)executor;
    struct spn__worker *w = spn__worker_current();

    if (w == NULL || w->pool != pool)
        return;
    spn__lock(&pool->lock);
    stop_waiting(w);
    spn__unlock(&pool->lock);
    if (pool->kind == SPN__WORK_USER)
        spn__worker_let_go(pool);
}
