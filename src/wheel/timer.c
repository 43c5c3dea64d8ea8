/* SPDX-License-Identifier: MIT */
/*
 * timer.c - the timer service: how it is made, started and destroyed; stop.c stops it.
 *
 * OVERVIEW
 *   A timer is a few shards, each a wheel under a lock of its own, chosen by the adding
 *   thread, so that threads seldom meet.  timeout.c adds and cancels: cancelling unlinks
 *   at once, so there are no dead nodes and no memory to reclaim.  fire.c turns the
 *   wheels and runs the callbacks.
 *
 * STATE of a timer   NEW --start--> STARTED --stop--> STOPPED, or NEW --stop--> STOPPED
 *   Each shard has its own `stopped`, under its lock: an addition lies before it, and is
 *   run or returned, or after it, and is refused.
 *
 * LOCKS  life_lock comes before all others; alarm_lock, exec_lock and the census's are
 *   leaves.  No lock is held while a callback or hook runs.
 *
 * WHY NOT a queue of additions to the timer's thread, as other wheels have?  It makes
 * additions as cheap as a lock that nobody else wants, but then cancelling leaves dead
 * nodes behind, additions are limited per tick, and the count of pending ones is off.
 */
#include "wheel/timer.h"

#include <string.h>

#include "base/assert.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/options.h"
#include "sync/thread_record.h"
#include "wheel/slab.h"

_Static_assert(sizeof(void *) != 8 || sizeof(spn_timeout) == 64, "one cache line");
_Static_assert(offsetof(spn_timeout, node) == 0, "spn__timeout_of");
_Static_assert(sizeof(spn__timeout_state) == sizeof(uint32_t), "the same word");
_Static_assert(sizeof(spn__timeout_home) == sizeof(void *), "the same word");
_Static_assert(sizeof(spn_timer_opts) == sizeof(size_t) + 48 + 7 * sizeof(void *),
               "append only, no holes");
_Static_assert(sizeof(spn_period) == sizeof(size_t) + 24, "append only, no holes");
_Static_assert(sizeof(spn_timer_stats) == sizeof(size_t) + 15 * sizeof(uint64_t),
               "append only");

#define DEFAULT_TICK_NS  SPN_MS(100)
#define DEFAULT_PARALLEL 16
#define PARALLEL_MAX     1024
#define SHARDS_MAX       64
#define DEFAULT_SHARDS   8 /* at most: each is looked at in every pass */
#define LIVE_WARNING     64

struct spn__timer_census spn__timer_census = { SPN__LOCK_INIT, NULL, 0, false };

/* ---- the census --------------------------------------------------------------- */

static void census_enter(struct spn_timer *timer)
{
    bool warn;
    uint32_t live;

    spn__lock(&spn__timer_census.lock);
    timer->census_next = spn__timer_census.first;
    timer->census_link = &spn__timer_census.first;
    if (timer->census_next != NULL)
        timer->census_next->census_link = &timer->census_next;
    spn__timer_census.first = timer;
    live = ++spn__timer_census.live;
    warn = live > LIVE_WARNING && !spn__timer_census.warned;
    spn__timer_census.warned = spn__timer_census.warned || warn;
    spn__unlock(&spn__timer_census.lock);
    if (warn)
        spn__log(SPN_LOG_WARN,
                 "%u timers at a time: each may have a thread; share one instead",
                 live);
}

static void census_leave(struct spn_timer *timer)
{
    spn__lock(&spn__timer_census.lock);
    *timer->census_link = timer->census_next;
    if (timer->census_next != NULL)
        timer->census_next->census_link = timer->census_link;
    spn__timer_census.live--;
    spn__unlock(&spn__timer_census.lock);
}

#ifndef SPN_SIM
/* In the child of a fork.  The lock's holder may be a thread the child does not have; the
 * list under it is whole, read forwards, at every step. */
static void census_after_fork(void)
{
    /* relaxed: nobody else is here. */
    spn__store(&spn__timer_census.lock.state, SPN__LOCK_FREE, relaxed);
}

__attribute__((constructor)) static void census_begin(void)
{
    (void)spn__os_on_fork_child(census_after_fork);
}

/* At exit: timers that this process started and nobody stopped.  101: after the program's
 * destructors, which may stop them.  The log's hook may use timers, so without the lock. */
__attribute__((destructor(101))) static void census_report(void)
{
    char name[SPN_THREAD_NAME_MAX + 1] = "";
    uint32_t count = 0;

    spn__lock(&spn__timer_census.lock);
    for (const struct spn_timer *t = spn__timer_census.first; t != NULL;
         t = t->census_next)
        /* relaxed, both: the process ends. */
        if (spn__load(&t->state, relaxed) == SPN__TIMER_STARTED && !t->unreported &&
            spn__load(&t->process, relaxed) == spn__os_process() && count++ == 0)
            memcpy(name, t->name, sizeof name);
    spn__unlock(&spn__timer_census.lock);
    if (count == 1)
        spn__log(SPN_LOG_WARN, "timer %s was started and never stopped", name);
    if (count > 1)
        spn__log(SPN_LOG_WARN, "timer %s and %u more were started and never stopped",
                 name, count - 1);
}
#endif

/* ---- create and destroy ------------------------------------------------------- */

static void dismantle(struct spn_timer *timer)
{
    if (timer->shards != NULL)
        for (uint32_t i = 0; i <= timer->shard_mask; i++)
            spn__free(timer->shards[i].wheel);
    spn__slabs_leave(timer->slabs);
    spn__free(timer->shards);
    spn__free(timer->runners);
    spn__free(timer->cpus);
    if (timer->fd >= 0)
        spn__os_alarm_close(timer->fd);
    spn__free(timer);
}

static int check_opts(spn_timer_opts *o)
{
    if (o->tick_ns == 0)
        o->tick_ns = DEFAULT_TICK_NS;
    if (o->parallel == 0)
        o->parallel = DEFAULT_PARALLEL;
    if (o->tick_ns < SPN_TIMER_TICK_MIN || o->shards > SHARDS_MAX ||
        o->drive > SPN_TIMER_FD || o->parallel > PARALLEL_MAX || o->unreported > 1 ||
        o->fast_clock > 1 || o->reserved != 0 ||
        (o->factory != NULL && !spn__factory_is_whole(o->factory)))
        return SPN_EINVAL;
    if (o->shards == 0) {
        o->shards = 2 * (uint32_t)spn_cpu_count();
        if (o->shards > DEFAULT_SHARDS)
            o->shards = DEFAULT_SHARDS;
    }
    while ((o->shards & (o->shards - 1)) != 0)
        o->shards += o->shards & -o->shards; /* up to a power of two */
    return SPN_OK;
}

/* Keeps what the thread is to be started with, later. */
static int copy_thread_opts(struct spn_timer *timer, const spn_thread_opts *from)
{
    spn_thread_opts *o = &timer->thread_opts;
    const char *name = "timer";

    *o = (spn_thread_opts)SPN_THREAD_OPTS_INIT;
    if (from != NULL && spn__options_copy(o, sizeof *o, from) != SPN_OK)
        return SPN_EINVAL;
    o->size = sizeof *o;
    if (o->name != NULL)
        name = o->name;
    if (strnlen(name, SPN_THREAD_NAME_MAX + 1) > SPN_THREAD_NAME_MAX ||
        (o->cpus == NULL) != (o->cpu_count == 0) ||
        o->cpu_count > SIZE_MAX / sizeof *o->cpus)
        return SPN_EINVAL;
    memcpy(timer->name, name, strlen(name) + 1);
    o->name = timer->name;
    if (o->cpus == NULL)
        return SPN_OK;
    timer->cpus = spn__alloc(o->cpu_count * sizeof *o->cpus);
    if (timer->cpus == NULL)
        return SPN_ENOMEM;
    memcpy(timer->cpus, o->cpus, o->cpu_count * sizeof *o->cpus);
    o->cpus = timer->cpus;
    return SPN_OK;
}

static int make_shards(struct spn_timer *timer, const spn_timer_opts *o)
{
    spn_wheel_opts wo = SPN_WHEEL_OPTS_INIT;
    int rc;

    wo.tick_ns = o->tick_ns;
    wo.slots = o->slots;
    wo.layout = o->layout;
    wo.origin_ns = spn__timer_now(timer);
    timer->shard_mask = o->shards - 1;
    timer->shards =
        spn__alloc_aligned(o->shards * sizeof *timer->shards, SPN__CACHE_LINE);
    if (timer->shards == NULL)
        return SPN_ENOMEM;
    memset(timer->shards, 0, o->shards * sizeof *timer->shards);
    for (uint32_t i = 0; i < o->shards; i++) {
        struct spn__shard *s = &timer->shards[i];

        spn__quick_lock_init(&s->lock);
        spn__lock_init(&s->idle_lock);
        spn__init(&s->pending, 0);
        spn__init(&s->guests, 0);
        s->firing.next = s->firing.prev = &s->firing;
        s->known = UINT64_MAX;
        spn__list_init(&s->running);
        spn__waitq_init(&s->idle);
        s->timer = timer;
        rc = spn_wheel_create(&s->wheel, &wo);
        if (rc != SPN_OK)
            return rc;
    }
    return SPN_OK;
}

static int make_runners(struct spn_timer *timer, uint32_t count)
{
    timer->runners = spn__alloc(count * sizeof *timer->runners);
    if (timer->runners == NULL)
        return SPN_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct spn__runner *r = &timer->runners[i];

        r->task = (spn_task)SPN_TASK_INIT(spn__runner_run, spn__runner_drop);
        r->timer = timer;
        r->next_free = timer->free_runners;
        timer->free_runners = r;
    }
    return SPN_OK;
}

static void init_words(struct spn_timer *timer)
{
    spn__init(&timer->state, SPN__TIMER_NEW);
    spn__init(&timer->process, spn__os_process());
    spn__init(&timer->wake_ns, SPN_FOREVER);
    spn__init(&timer->driver, NULL);
    spn__init(&timer->passes, 0);
    spn__init(&timer->taken, 0);
    spn__init(&timer->failures.next_ns, 0);
    spn__init(&timer->failures.swallowed, 0);
    spn__init(&timer->refusals.next_ns, 0);
    spn__init(&timer->refusals.swallowed, 0);
    spn__init(&timer->thread, NULL);
    spn__init(&timer->telling, 0);
    spn__parker_init(&timer->parker);
    spn__lock_init(&timer->life_lock);
    spn__lock_init(&timer->alarm_lock);
    spn__lock_init(&timer->exec_lock);
}

int spn_timer_create(spn_timer **out, const spn_timer_opts *opts)
{
    spn_timer_opts o = SPN_TIMER_OPTS_INIT;
    struct spn_timer *timer;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (check_opts(&o) != SPN_OK)
        return SPN_EINVAL;
    timer = spn__alloc_aligned(sizeof *timer, SPN__CACHE_LINE);
    if (timer == NULL)
        return SPN_ENOMEM;
    /* The shards' locks are let go of with light fences, which are full ones until somebody
     * has made a heavy one; and the first of those takes milliseconds where there are
     * threads, during which every unlock would try to wake who makes it.  So not later. */
    (void)spn__fence_is_asymmetric();
    memset(timer, 0, sizeof *timer);
    init_words(timer);
    timer->fd = -1;
    timer->drive = o.drive;
    timer->tick_ns = o.tick_ns;
    timer->max_pending = o.max_pending;
    timer->limited = o.max_pending > 0;
    timer->unreported = o.unreported != 0;
    timer->clock = o.clock != NULL ? o.clock : spn_clock_monotonic();
    timer->manual = timer->clock != spn_clock_monotonic();
    timer->fast_clock = o.fast_clock != 0 && !timer->manual && spn__cycles_usable();
    timer->executor = o.executor;
    timer->factory = o.factory;
    timer->on_failure = o.on_failure;
    timer->wake = o.wake;
    timer->ctx = o.ctx;
    rc = copy_thread_opts(timer, o.thread);
    if (rc == SPN_OK)
        rc = make_shards(timer, &o);
    if (rc == SPN_OK) {
        timer->slabs = spn__slabs_create(timer, o.shards);
        if (timer->slabs == NULL)
            rc = SPN_ENOMEM;
    }
    if (rc == SPN_OK && o.executor != NULL)
        rc = make_runners(timer, o.parallel);
    if (rc == SPN_OK && o.drive == SPN_TIMER_FD)
        rc = spn__os_alarm_create(&timer->fd);
    if (rc != SPN_OK) {
        dismantle(timer);
        return rc;
    }
    spn__clock_listen(timer->clock, &timer->listener, spn__timer_clock_moved, timer);
    census_enter(timer);
    spn__audit_made(timer, "timer", timer->name, "never stopped");
    *out = timer;
    return SPN_OK;
}

bool spn__timer_is_orphan(struct spn_timer *timer)
{
    /* relaxed, both: a fork copies them, and they do not change in the child. */
    return spn__load(&timer->state, relaxed) == SPN__TIMER_STARTED &&
           (timer->drive == SPN_TIMER_THREAD || timer->executor != NULL) &&
           spn__load(&timer->process, relaxed) != spn__os_process();
}

/* Whether nobody was inside an orphan at the fork, and no timeout waits in it. */
static bool was_idle(struct spn_timer *timer)
{
    /* relaxed, all: nobody else is here. */
    bool idle = spn__load(&timer->life_lock.state, relaxed) == SPN__LOCK_FREE &&
                spn__load(&timer->exec_lock.state, relaxed) == SPN__LOCK_FREE &&
                timer->stopping == 0;

    for (uint32_t i = 0; i <= timer->shard_mask && idle; i++) {
        struct spn__shard *s = &timer->shards[i];

        idle = spn__load(&s->lock.state, relaxed) == SPN__QUICK_FREE &&
               s->waiting == 0 && spn__list_empty(&s->running) &&
               spn__load(&s->guests, relaxed) == 0;
    }
    return idle && spn_timer_pending(timer) == 0;
}

/* Whether somebody could still touch a timer. */
static bool is_busy(struct spn_timer *timer)
{
    uint32_t state;
    bool busy;

    spn__lock(&timer->life_lock);
    /* relaxed: changes under the lock. */
    state = spn__load(&timer->state, relaxed);
    busy = state == SPN__TIMER_STARTED || timer->stopping != 0 ||
           (state == SPN__TIMER_STOPPED && !timer->collected);
    spn__unlock(&timer->life_lock);
    for (uint32_t i = 0; i <= timer->shard_mask && !busy; i++) {
        struct spn__shard *s = &timer->shards[i];

        spn__quick_lock(&s->lock);
        busy = s->waiting != 0;
        spn__quick_unlock(&s->lock);
        /* [guests] */
        busy = busy || (spn__load(&s->guests, acquire) & ~SPN__GUESTS_AWAITED) != 0;
    }
    return busy;
}

void spn__timer_free(struct spn_timer *timer)
{
    spn_thread_unref(spn__load(&timer->thread, relaxed)); /* nobody else is here */
    dismantle(timer);
}

int spn_timer_destroy(spn_timer *timer)
{
    bool last;

    if (timer == NULL)
        return SPN_OK;
    if (spn__timer_is_orphan(timer) ? !was_idle(timer) : is_busy(timer))
        return SPN_EBUSY;
    spn__audit_gone(timer);
    spn__clock_unlisten(timer->clock, &timer->listener);
    census_leave(timer);
    spn__lock(&timer->exec_lock);
    timer->doomed = timer->runners_out != 0;
    last = !timer->doomed;
    spn__unlock(&timer->exec_lock);
    if (last)
        spn__timer_free(timer);
    return SPN_OK;
}

/* ---- start -------------------------------------------------------------------- */

/* life_lock is held. */
static int make_thread(struct spn_timer *timer)
{
    spn_thread_opts opts = timer->thread_opts; /* the factory may change it */
    struct spn_thread *thread;
    int rc;

    if (timer->factory == NULL)
        rc = spn_thread_create(&thread, &opts, spn__timer_main, timer);
    else
        rc = spn__thread_make(timer->factory, &thread, &opts, spn__timer_main, timer);
    if (rc == SPN_OK)
        spn__store(&timer->thread, thread, relaxed); /* main stores the same */
    return rc;
}

int spn__timer_start(struct spn_timer *timer)
{
    uint32_t state;
    int rc = SPN_OK;

    spn__lock(&timer->life_lock);
    state = spn__load(&timer->state, relaxed); /* changes under the lock */
    if (state == SPN__TIMER_STOPPED)
        rc = SPN_ESTATE;
    if (state == SPN__TIMER_NEW) {
        if (timer->drive == SPN_TIMER_THREAD)
            rc = make_thread(timer);
        if (rc == SPN_OK) {
            /* relaxed, both: nothing comes with it. */
            spn__store(&timer->process, spn__os_process(), relaxed);
            spn__store(&timer->state, SPN__TIMER_STARTED, relaxed);
        }
    }
    spn__unlock(&timer->life_lock);
    return rc;
}

int spn_timer_start(spn_timer *timer)
{
    return timer != NULL ? spn__timer_ensure_started(timer) : SPN_EINVAL;
}
