/* SPDX-License-Identifier: MIT */
/*
 * reconfigure.c - changing a living pool.
 *
 * OVERVIEW
 *   One call checks and changes all knobs under the pool's lock, so that core <= max
 *   holds for every reader that takes it.
 *   Those who decide by a knob without the lock may use the old value once more.
 *   Workers that wait are made to look around, so that a shorter keep-alive or a
 *   smaller pool takes effect now; those that run a task learn of it afterwards.
 *
 * ORDERING  [knob] a policy or a factory is published with release and read with
 *   acquire: what it points to comes with it.
 */
#include "exec/pool.h"

#include "base/options.h"
#include "sync/thread_record.h"

/* What is to be true afterwards. */
struct knobs {
    int32_t core, max;
    int64_t keep_alive_ns;
    uint32_t core_timeout;
};

static bool is_default(int64_t value)
{
    return value == SPN_DEFAULT;
}

const char *spn__pool_capacity_problem(const struct spn_pool *pool, int32_t capacity)
{
    if (pool->handoff)
        return "this pool was made with queues=0 and cannot get a queue while it lives";
    if (pool->kind == SPN__WORK_LANES)
        return "lanes are unbounded and have no capacity to change";
    if (pool->kind == SPN__WORK_USER)
        return "the pool cannot change the capacity of a queue it did not make";
    if (capacity == SPN_HANDOFF)
        return "this pool was made with a queue and cannot lose it while it lives";
    return NULL;
}

/* The knobs as they will be, if they can be so; pool->lock is held. */
static int merge(struct spn_pool *pool, const spn_pool_change *change, struct knobs *k)
{
    /* relaxed, all: written under the lock. */
    k->core = is_default(change->core_threads) ? spn__load(&pool->core, relaxed)
                                               : change->core_threads;
    k->max = is_default(change->max_threads) ? spn__load(&pool->max, relaxed)
                                             : change->max_threads;
    k->keep_alive_ns = is_default(change->keep_alive_ns)
                           ? spn__load(&pool->keep_alive_ns, relaxed)
                           : change->keep_alive_ns;
    k->core_timeout = is_default(change->core_timeout)
                          ? spn__load(&pool->core_timeout, relaxed)
                          : change->core_timeout != 0;
    if (k->core < 0 || k->max <= 0 || k->core > k->max ||
        k->max > SPN_POOL_THREADS_MAX || k->keep_alive_ns < 0 ||
        (k->core_timeout != 0 && k->keep_alive_ns == 0) ||
        (!is_default(change->queue_capacity) &&
         spn__pool_capacity_problem(pool, change->queue_capacity) != NULL) ||
        (change->reject != NULL && !spn__reject_is_whole(change->reject)) ||
        (change->factory != NULL && !spn__factory_is_whole(change->factory)))
        return SPN_EINVAL;
    return SPN_OK;
}

static void apply(struct spn_pool *pool, const spn_pool_change *change,
                  const struct knobs *k)
{
    /* relaxed: workers read them after the epoch [epoch], others as hints. */
    spn__store(&pool->core, k->core, relaxed);
    spn__store(&pool->max, k->max, relaxed);
    spn__store(&pool->keep_alive_ns, k->keep_alive_ns, relaxed);
    spn__store(&pool->core_timeout, k->core_timeout, relaxed);
    if (!is_default(change->queue_capacity))
        spn__work_set_capacity(pool, change->queue_capacity < 0
                                         ? INT64_MAX
                                         : change->queue_capacity);
    if (change->reject != NULL)
        spn__store(&pool->reject, change->reject, release); /* [knob] */
    if (change->factory != NULL)
        spn__store(&pool->factory, change->factory, release); /* [knob] */
}

/* A larger core starts workers for what is queued, up to the increase; TIMED: also for what
 * is not due yet, as those that are there may be busy when it is. */
static void start_more(struct spn_pool *pool, int32_t more)
{
    int64_t queued = spn__work_size(pool);

    for (; more > 0 && queued > 0 && spn__work_any(pool); more--, queued--)
        if (spn__pool_add_worker(pool, NULL, SPN__TO_CORE) != SPN_OK)
            break;
}

int spn__pool_change_by(struct spn_pool *pool, spn_pool_change *change,
                        spn__pool_rule_fn rule, const void *ctx)
{
    struct knobs k;
    int32_t more, above;
    int rc;

    if (pool->fixed)
        return SPN_ESTATE;
    spn__lock(&pool->lock);
    if (rule != NULL) /* relaxed, both: written under the lock */
        rule(spn__load(&pool->core, relaxed), spn__load(&pool->max, relaxed), change,
             ctx);
    rc = merge(pool, change, &k);
    if (rc != SPN_OK) {
        spn__unlock(&pool->lock);
        return rc;
    }
    /* relaxed, both: written under the lock. */
    more = k.core - spn__load(&pool->core, relaxed);
    above = k.max - spn__load(&pool->max, relaxed);
    apply(pool, change, &k);
    spn__idle_look_around(pool); /* makes the heavy fence [core] */
    spn__unlock(&pool->lock);
    spn__room_notify_all(&pool->room);
    start_more(pool, more);
    if (above > 0 && spn__work_any(pool)) /* there may be one more now */
        spn__pool_staff(pool);
    return SPN_OK;
}

/* Copies a change of any age.  A field that an older, shorter one lacks reads as "leave as
 * it is", and not as 0, which is a value here. */
static int copy_change(spn_pool_change *to, const spn_pool_change *change)
{
    static const spn_pool_change none = SPN_POOL_CHANGE_INIT;
    const int rc = spn__options_copy(to, sizeof *to, change);
    size_t size;

    if (rc != SPN_OK)
        return rc;
    size = change->size;
    if (size < sizeof *to)
        memcpy((char *)to + size, (const char *)&none + size, sizeof *to - size);
    return SPN_OK;
}

int spn_pool_reconfigure(spn_pool *pool, const spn_pool_change *change)
{
    spn_pool_change c;

    if (pool == NULL || change == NULL)
        return SPN_EINVAL;
    if (copy_change(&c, change) != SPN_OK ||
        (!is_default(c.core_timeout) && c.core_timeout != 0 && c.core_timeout != 1))
        return SPN_EINVAL;
    return spn__pool_change_by(pool, &c, NULL, NULL);
}

/* ---- pause and resume ----------------------------------------------------------- */

static bool is_running(struct spn_pool *pool)
{
    /* relaxed: changes under the lock. */
    return spn__ctl_state(spn__load(&pool->ctl, relaxed)) == SPN_EXECUTOR_RUNNING;
}

static int set_paused(struct spn_pool *pool, uint32_t paused)
{
    struct spn__chosen resumed = { NULL, NULL };

    spn__lock(&pool->lock);
    if (!is_running(pool)) {
        spn__unlock(&pool->lock);
        return SPN_ESTATE;
    }
    spn__store(&pool->paused, paused, release); /* [pause]; comes with the epoch */
    spn__idle_look_around(pool);
    if (paused == 0)
        spn__waitq_choose_all(&pool->resumed, &resumed);
    spn__unlock(&pool->lock);
    spn__chosen_grant(&resumed);
    return SPN_OK;
}

int spn_pool_pause(spn_pool *pool)
{
    return pool == NULL ? SPN_EINVAL : set_paused(pool, 1);
}

void spn__pool_staff(struct spn_pool *pool)
{
    const int32_t core = spn__load(&pool->core, relaxed); /* a knob */
    bool all_wait;

    start_more(pool, core);
    /* relaxed: a hint; the queue is not left alone either way. */
    if (spn__ctl_count(spn__load(&pool->ctl, relaxed)) == 0 && spn__work_any(pool) &&
        spn__pool_add_worker(pool, NULL, SPN__TO_MAX) != SPN_OK)
        spn__pool_give_up(pool);
    if (pool->handoff) /* each was let in for a worker of its own */
        for (int64_t n = spn__work_size(pool);
             n > 0 && spn__load(&pool->idle_count, relaxed) == 0; n--)
            if (spn__pool_add_worker(pool, NULL, SPN__TO_MAX) != SPN_OK)
                break;
    spn__lock(&pool->lock);
    all_wait =
        spn__pool_all_wait(pool,
                           spn__ctl_count(
                               spn__load(&pool->ctl, relaxed))); /* under the lock */
    spn__unlock(&pool->lock);
    if (all_wait && spn__work_any(pool))
        (void)spn__pool_add_worker(pool, NULL, SPN__TO_MAX);
    if (pool->kind == SPN__WORK_STEAL)
        spn__pool_compensate(pool);
}

int spn_pool_resume(spn_pool *pool)
{
    return pool == NULL ? SPN_EINVAL : set_paused(pool, 0);
}
