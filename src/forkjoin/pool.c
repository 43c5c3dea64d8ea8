/* SPDX-License-Identifier: MIT */
/*
 * pool.c - the fork/join pool: a thread pool whose workers find work with each other.
 *
 * THE WHOLE
 *   Threads, their number, sleep and end, the submission queue and the accounting are
 *   those of a thread pool (src/exec), of which this is a kind: SPN__WORK_STEAL, with a
 *   source of work beside its queue.  The source is this file.  Each worker has a place
 *   with a deque of records and a queue of objects.  It takes from its own queue, then
 *   from the submissions, then from the places of others.
 *
 * PLACES
 *   are kept in a list that only grows, and are given to the next worker when theirs is
 *   gone: so thieves need no lock and no care [places].
 *
 * WHO SLEEPS AND WHO WAKES  is exec/idle.c's, with one thing added: what a worker forks in
 *   private nobody sees.  So a worker that goes to sleep asks everybody for work after
 *   it has said that it sleeps, and whoever forks next shares, and wakes it.  How that
 *   question cannot be lost is told in deque.c [hungry].  The same goes for a worker
 *   that sleeps in a join: it counts as blocked, and whoever shares next has another
 *   thread stand in for it.
 *
 * QUIESCENCE
 *   The pool has a moment of rest when as many tasks and objects have met their fate as
 *   were accepted.  The fates are added up first and the accepted last; neither ever
 *   falls.  If the two sums are equal then both were so at the moment between, and
 *   nothing was queued or ran, or was on its way from the one to the other.  Records
 *   need not be counted: the object that forked them has not met its fate before they
 *   have.
 *   [quiet] Who waits for that says so, makes a heavy fence and adds up.  A worker that
 *           found nothing to do (and has counted what it did) makes a light fence and
 *           looks whether somebody waits; then it adds up.  So does one that leaves,
 *           for a pool that was stopped has its workers look for nothing, and one
 *           too many does not look either; and whoever drops or takes back tasks.
 *
 * ORDERING
 *   [places] A place is published with all that is in it.
 *   [count], [wake], [search], [block], [epoch]  see src/exec.
 *
 * LOCKS  `lock`, quiet_lock and the queues' are leaves, below those of the thread pool.
 */
#include "forkjoin/pool.h"

#include <string.h>

#include <spindle/cpu.h>

#include "base/options.h"
#include "base/time.h"
#include "forkjoin/threads.h"
#include "future/ambient.h"
#include "future/executor.h"

#define DEFAULT_STACK    ((size_t)8 * 1024 * 1024)
#define RESERVE_MAX      ((size_t)64 * 1024)
#define DEFAULT_RECORDS  SPN__PIECE_RECORDS
#define RESERVE_FRACTION 4

/* How often a worker looks at all the others, while they run, before it sleeps. */
#ifdef SPN_SIM
enum { LOOKS = 1 };
#else
enum { LOOKS = SPN__SPIN_LIMIT_LONG };
#endif

static struct spn_fj_pool *pool_of_source(struct spn__source *source)
{
    return (struct spn_fj_pool *)(void *)source;
}

static struct spn__fj_place *first_place(struct spn_fj_pool *fj)
{
    return spn__load(&fj->places, acquire); /* [places] */
}

static struct spn__fj_place *next_place(struct spn__fj_place *place)
{
    return spn__load(&place->next, acquire); /* [places] */
}

/* Asks everybody who may have records. */
static void ask_all(struct spn_fj_pool *fj, const struct spn__fj_place *except)
{
    for (struct spn__fj_place *p = first_place(fj); p != NULL; p = next_place(p))
        /* relaxed: who begins after this looks himself [hungry]. */
        if (p != except && spn__load(&p->active, relaxed) != 0)
            spn__deque_ask(&p->deque);
}

/* ---- places --------------------------------------------------------------------- */

static const struct spn__deque_ops deque_ops, alone_ops;

static struct spn__fj_place *make_place(struct spn_fj_pool *fj, uint32_t records)
{
    struct spn__fj_place *place =
        spn__alloc_aligned(sizeof *place, (size_t)2 * SPN__CACHE_LINE);

    if (place == NULL)
        return NULL;
    memset(place, 0, sizeof *place);
    if (spn__deque_init(&place->deque, records, fj != NULL ? &deque_ops : &alone_ops) !=
        SPN_OK) {
        spn__free(place);
        return NULL;
    }
    place->pool = fj;
    spn__init(&place->active, 0);
    spn__fj_queue_init(&place->queue);
    spn__init(&place->next, NULL);
    return place;
}

void spn__fj_place_free(struct spn__fj_place *place)
{
    spn__deque_fini(&place->deque);
    spn__free(place);
}

static uintptr_t stack_low(size_t reserve)
{
    const uintptr_t low = spn__os_stack_low();
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    if (low == 0 || low >= here)
        return 0;
    if (reserve == 0)
        reserve = (size_t)(here - low) / RESERVE_FRACTION < RESERVE_MAX
                      ? (size_t)(here - low) / RESERVE_FRACTION
                      : RESERVE_MAX;
    return reserve < (size_t)(here - low) ? low + reserve : here;
}

struct spn__fj_place *spn__fj_place_alone(void)
{
    struct spn__fj_place *place = make_place(NULL, DEFAULT_RECORDS);

    if (place != NULL)
        spn__deque_adopt(&place->deque, stack_low(0));
    return place;
}

/* A place that nobody has, or a new one. */
static int come(struct spn__source *source, struct spn__worker *w)
{
    struct spn_fj_pool *fj = pool_of_source(source);
    struct spn__fj_place *place, *made = NULL;

    for (;;) {
        spn__lock(&fj->lock);
        for (place = first_place(fj); place != NULL && place->taken;
             place = next_place(place))
            ;
        if (place == NULL && made != NULL) {
            place = made;
            made = NULL;
            place->index = fj->place_count++;
            if (fj->last == NULL)
                spn__store(&fj->places, place, release); /* [places] */
            else
                spn__store(&fj->last->next, place, release); /* [places] */
            fj->last = place;
        }
        if (place != NULL)
            place->taken = true;
        spn__unlock(&fj->lock);
        if (place != NULL)
            break;
        made = make_place(fj, fj->records);
        if (made == NULL)
            return SPN_ENOMEM;
    }
    if (made != NULL)
        spn__fj_place_free(made);
    w->place = place;
    return SPN_OK;
}

static void go(struct spn__source *source, struct spn__worker *w)
{
    struct spn_fj_pool *fj = pool_of_source(source);
    struct spn__fj_place *place = w->place;

    spn__lock(&fj->lock);
    place->worker = NULL;
    place->taken = false;
    spn__unlock(&fj->lock);
    spn__fence_heavy(); /* [hungry] after it was counted out: another may be wanted */
    ask_all(fj, place);
}

static void inherit(struct spn__source *source, struct spn__worker *heir,
                    struct spn__worker *w)
{
    (void)source;
    heir->place = w->place;
    w->place = NULL;
}

/* It stands in nothing; a task that ended its thread may have left that undone. */
static void forget_held(struct spn__fj_place *place)
{
    if (place->counted != 0) /* relaxed: only counts */
        (void)spn__fetch_sub(&place->pool->quiescing, place->counted, relaxed);
    place->held = place->counted = 0;
}

/* The worker's place; its thread may be a new one. */
static struct spn__fj_place *place_of(struct spn__worker *w)
{
    struct spn__fj_place *place = w->place;

    if (place->worker != w) {
        place->worker = w;
        place->depth = 0;
        place->run = NULL;
        forget_held(place);
        spn__deque_adopt(&place->deque, stack_low(place->pool->stack_reserve));
    }
    return place;
}

struct spn__fj_place *spn__fj_place_current(void)
{
    struct spn__worker *w = spn__worker_current();

    return w != NULL && w->pool->kind == SPN__WORK_STEAL && w->in_task ? place_of(w)
                                                                       : NULL;
}

/* ---- who sleeps, who wakes ----------------------------------------------------------- */

static int32_t worker_count(struct spn_pool *pool)
{
    return spn__ctl_count(spn__load(&pool->ctl, relaxed)); /* a hint */
}

/* Whether another thread would be welcome: there are fewer than there may be, not
 * counting those that are blocked. */
static bool understaffed(struct spn_fj_pool *fj)
{
    struct spn_pool *pool = fj->pool;
    const int32_t count = worker_count(pool);
    /* relaxed, all: hints, or after the fence [block]. */
    const int32_t blocked = spn__load(&pool->blocked, relaxed);

    return count - blocked < spn__load(&pool->core, relaxed) &&
           count < spn__pool_bound(pool, SPN__TO_BLOCKED) &&
           spn__load(&fj->staff_failed, relaxed) == 0;
}

void spn__fj_signal(struct spn_fj_pool *fj)
{
    struct spn_pool *pool = fj->pool;
    int rc;

    spn__idle_notify(pool); /* makes the light fence [wake] [block] */
    /* relaxed, both: after the fence. */
    if (spn__load(&pool->idle_count, relaxed) > 0 ||
        spn__load(&pool->searching, relaxed) > 0 || !understaffed(fj))
        return;
    rc = spn__pool_add_worker_or(pool, NULL, SPN__TO_BLOCKED, false);
    /* Somebody else was quicker, or it ends: that says nothing about threads. */
    if (rc < 0 && rc != SPN_EFULL && rc != SPN_ESHUTDOWN)
        spn__store(&fj->staff_failed, 1, relaxed); /* a hint */
}

static struct spn__fj_place *place_of_deque(struct spn__deque *d)
{
    return (struct spn__fj_place *)(void *)d;
}

static void on_shared(struct spn__deque *d)
{
    spn__fj_signal(place_of_deque(d)->pool);
}

static bool is_hungry(struct spn__deque *d)
{
    struct spn_fj_pool *fj = place_of_deque(d)->pool;
    struct spn_pool *pool = fj->pool;

    /* relaxed, all: after the fence [hungry]. */
    if (spn__load(&pool->searching, relaxed) > 0)
        return false; /* that one asks, or says that it sleeps */
    return spn__load(&pool->idle_count, relaxed) > 0 || understaffed(fj);
}

static void on_block(struct spn__deque *d)
{
    struct spn__fj_place *place = place_of_deque(d);

    spn__worker_block(place->worker); /* makes the heavy fence [hungry] [block] */
    ask_all(place->pool, place);
}

static void on_unblock(struct spn__deque *d)
{
    spn__worker_unblock(place_of_deque(d)->worker);
}

static const struct spn__deque_ops deque_ops = { on_shared, is_hungry, on_block,
                                                 on_unblock };
static const struct spn__deque_ops alone_ops = { NULL, NULL, NULL, NULL };

static void listed(struct spn__source *source, struct spn__worker *w)
{
    ask_all(pool_of_source(source), w->place);
}

/* ---- the source ---------------------------------------------------------------------- */

static bool hand_out(spn_task *task, struct spn__entry *entry)
{
    if (task == NULL)
        return false;
    *entry = (struct spn__entry){ spn__entry_task, task };
    return true;
}

static bool take_own(struct spn__source *source, struct spn__worker *w,
                     struct spn__entry *entry)
{
    struct spn__fj_place *place = place_of(w);

    forget_held(place);
    return hand_out(spn__fj_queue_take(place, !pool_of_source(source)->async), entry);
}

/* Ends a theft by a worker that does nothing else, also when it ended the thread. */
static void theft_ended(void *arg)
{
    struct spn__fj_place *place = arg;

    spn__store(&place->active, 0, relaxed); /* its own; see ask_all */
    place->depth--;
}

/* Steals a record and runs it. */
static bool steal_record(struct spn__fj_place *place, struct spn__fj_place *victim)
{
    bool stolen;

    if (!spn__deque_any(&victim->deque)) {
        spn__deque_ask(&victim->deque);
        return false;
    }
    spn__idle_found(place->worker);
    spn__worker_begin(place->worker);
    place->depth++;
    spn__store(&place->active, 1, relaxed); /* its own; see ask_all */
    SPN__CLEANUP_PUSH(theft_ended, place);
    stolen = spn__deque_steal(&place->deque, spn__deque_bottom(&place->deque),
                              &victim->deque);
    SPN__CLEANUP_POP();
    spn__worker_end(place->worker);
    return stolen;
}

/* Looks at every other place once.  1: *entry is there; 0: nothing; -1: nothing, and
 * nobody runs anything; 2: ran a record. */
static int look_around(struct spn__fj_place *place, struct spn__entry *entry)
{
    struct spn__fj_place *p = place;
    int found = -1;

    for (;;) {
        p = next_place(p);
        if (p == NULL)
            p = first_place(place->pool);
        if (p == place)
            return found;
        /* relaxed: asked again and again, and by `listed` at last. */
        if (spn__load(&p->active, relaxed) != 0) {
            found = 0;
            if (steal_record(place, p))
                return 2;
        }
        if (hand_out(spn__fj_queue_take(p, false), entry)) {
            /* relaxed: a count of its own. */
            spn__store(&place->deque.steals,
                       spn__load(&place->deque.steals, relaxed) + 1, relaxed);
            return 1;
        }
    }
}

/* Whether a worker should rather look at what the thread pool has for it. */
static bool wanted_elsewhere(struct spn_fj_pool *fj, uint32_t epoch)
{
    struct spn_pool *pool = fj->pool;

    /* relaxed: one round sooner or later. */
    return spn__load(&pool->epoch, relaxed) != epoch ||
           spn__load(&pool->work.fifo.pushed, relaxed) !=
               spn__load(&pool->work.fifo.popped, relaxed) ||
           spn__work_any_urgent(pool);
}

static bool take_other(struct spn__source *source, struct spn__worker *w,
                       struct spn__entry *entry)
{
    struct spn_fj_pool *fj = pool_of_source(source);
    struct spn__fj_place *place = place_of(w);
    const uint32_t epoch = spn__load(&fj->pool->epoch, relaxed); /* see above */

    for (int looks = 0; looks < LOOKS;) {
        const int found = look_around(place, entry);

        if (found == 1)
            return true;
        if (found == 2) {
            looks = 0;
            if (take_own(source, w, entry))
                return true;
            if (wanted_elsewhere(fj, epoch))
                return false;
            continue;
        }
        if (found < 0 || wanted_elsewhere(fj, epoch))
            break;
        looks++;
        spn__cpu_relax();
    }
    spn__fence_light(); /* [quiet] */
    if (spn__load(&fj->quiet_waiters, relaxed) > 0)
        spn__fj_settled(fj);
    return false;
}

static bool any(struct spn__source *source)
{
    for (struct spn__fj_place *p = first_place(pool_of_source(source)); p != NULL;
         p = next_place(p))
        /* relaxed, both: a hint, or after a fence [wake]. */
        if (spn__deque_any(&p->deque) || spn__load(&p->queue.pushed, relaxed) !=
                                             spn__load(&p->queue.popped, relaxed))
            return true;
    return false;
}

/* The thread pool's lock is held. */
static bool busy(struct spn__source *source)
{
    struct spn_pool *pool = pool_of_source(source)->pool;
    struct spn__list_node *node;

    spn__list_each (node, &pool->workers) /* relaxed: who ends wakes the others */
        if (spn__load(&spn__list_entry(node, struct spn__worker, link)->running,
                      relaxed) != 0)
            return true;
    return false;
}

static void settled(struct spn__source *source)
{
    spn__fj_settled(pool_of_source(source));
}

static int64_t size(struct spn__source *source)
{
    int64_t sum = 0;

    for (struct spn__fj_place *p = first_place(pool_of_source(source)); p != NULL;
         p = next_place(p))
        sum += spn__fj_queue_size(&p->queue);
    return sum;
}

static int64_t pushed(struct spn__source *source)
{
    int64_t sum = 0;

    for (struct spn__fj_place *p = first_place(pool_of_source(source)); p != NULL;
         p = next_place(p))
        sum += spn__load(&p->queue.pushed, acquire); /* [size] */
    return sum;
}

static bool remove_task(struct spn__source *source, spn_task *task)
{
    for (struct spn__fj_place *p = first_place(pool_of_source(source)); p != NULL;
         p = next_place(p))
        if (spn__fj_queue_remove(p, task, false))
            return true;
    return false;
}

static int64_t collect(struct spn__source *source,
                       bool (*wanted)(spn_task *, const void *), const void *ctx,
                       struct spn__list *out)
{
    int64_t count = 0;

    for (struct spn__fj_place *p = first_place(pool_of_source(source)); p != NULL;
         p = next_place(p))
        count += spn__fj_queue_collect(p, wanted, ctx, out);
    return count;
}

static int64_t snapshot(struct spn__source *source, spn_task **tasks, size_t capacity)
{
    int64_t count = 0;

    for (struct spn__fj_place *p = first_place(pool_of_source(source)); p != NULL;
         p = next_place(p)) {
        const size_t used = (size_t)count < capacity ? (size_t)count : capacity;

        count +=
            spn__fj_queue_snapshot(p, used > 0 ? tasks + used : tasks, capacity - used);
    }
    return count;
}

/* ---- as an executor ------------------------------------------------------------------ */

static struct spn_fj_pool *pool_of(spn_executor *executor)
{
    return pool_of_source(((struct spn_pool *)(void *)executor)->work.stealing);
}

/* The place of the calling thread if it is a worker of this pool. */
static struct spn__fj_place *place_in(struct spn_fj_pool *fj)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place != NULL && place->pool == fj ? place : NULL;
}

static int op_execute(spn_executor *executor, spn_task *task)
{
    struct spn_fj_pool *fj = pool_of(executor);
    struct spn__fj_place *place = place_in(fj);
    int rc;

    if (place == NULL ||
        /* relaxed: once more than must be does no harm. */
        spn__ctl_state(spn__load(&fj->pool->ctl, relaxed)) >= SPN_EXECUTOR_SHUTDOWN)
        return spn__pool_execute(fj->pool, task);
    rc = spn_task_claim(task);
    if (rc != SPN_OK)
        return rc;
    spn__job_capture(task);
    spn__fj_queue_push(place, task);
    spn__fj_signal(fj);
    return SPN_OK;
}

static int op_shutdown(spn_executor *executor)
{
    return spn_pool_shutdown(pool_of(executor)->pool);
}

static int op_shutdown_now(spn_executor *executor, spn_unrun_fn unrun, void *ctx,
                           int64_t *count)
{
    /* Who leaves, or ends the pool, tells who waits for rest [quiet]; afterwards it may
     * be gone. */
    return spn_pool_shutdown_now(pool_of(executor)->pool, unrun, ctx, count);
}

static int op_await(spn_executor *executor, int64_t timeout_ns)
{
    return spn_pool_await(pool_of(executor)->pool, timeout_ns);
}

static uint32_t state_of(struct spn_fj_pool *fj)
{
    return spn__ctl_state(spn__load(&fj->pool->ctl, acquire)); /* [ctl] */
}

static int op_state(spn_executor *executor)
{
    return (int)state_of(pool_of(executor));
}

static int op_remove(spn_executor *executor, spn_task *task)
{
    struct spn_fj_pool *fj = pool_of(executor);
    int rc;

    spn__pool_hold(fj->pool);
    rc = spn_pool_remove(fj->pool, task);
    if (rc == 1)
        spn__fj_settled(fj);
    spn__pool_left_queue(fj->pool, NULL, 0); /* it may end, and be gone, from here on */
    return rc;
}

/* A worker that waits for a future of the pool: runs it if it has not started, else is
 * blocked, so that another thread stands in for it. */
static int op_wait_begin(spn_executor *executor, spn_task *task)
{
    struct spn_fj_pool *fj = pool_of(executor);
    struct spn__fj_place *place = place_in(fj);

    if (place == NULL)
        return SPN_OK;
    if (spn__work_has(fj->pool, task) && spn__work_remove(fj->pool, task))
        spn__fj_run_queued(place, task);
    spn__worker_block(place->worker);
    ask_all(fj, place);
    return SPN_OK;
}

static void op_wait_end(spn_executor *executor)
{
    struct spn__fj_place *place = place_in(pool_of(executor));

    if (place != NULL)
        spn__worker_unblock(place->worker);
}

static const spn_executor_ops fj_ops = { .size = sizeof fj_ops,
                                         .execute = op_execute,
                                         .shutdown = op_shutdown,
                                         .shutdown_now = op_shutdown_now,
                                         .await = op_await,
                                         .state = op_state,
                                         .remove = op_remove,
                                         .wait_begin = op_wait_begin,
                                         .wait_end = op_wait_end };

spn_executor *spn_fj_pool_executor(spn_fj_pool *fj)
{
    return fj != NULL ? &fj->pool->executor : NULL;
}

/* ---- making ---------------------------------------------------------------------------- */

static const struct spn__source source_ops = {
    come,   go,      inherit, take_own, take_other,  any,     busy,
    listed, settled, size,    pushed,   remove_task, collect, snapshot
};

static bool is_default(int64_t value)
{
    return value == SPN_DEFAULT;
}

static bool is_parallelism(int32_t parallelism)
{
    return parallelism >= 1 && parallelism <= SPN_FJ_PARALLELISM_MAX;
}

/* What the thread pool is made of. */
static int settle_options(spn_fj_pool_opts *o, spn_pool_opts *p, spn_thread_opts *t)
{
    if (is_default(o->parallelism))
        o->parallelism = spn_cpu_count();
    if (!is_parallelism(o->parallelism) || o->async > 1 ||
        o->records > SPN__PIECE_RECORDS ||
        (!is_default(o->spare_threads) && o->spare_threads < 0))
        return SPN_EINVAL;
    if (o->records == 0)
        o->records = DEFAULT_RECORDS;
    if (o->thread != NULL && spn__options_copy(t, sizeof *t, o->thread) != SPN_OK)
        return SPN_EINVAL;
    if (t->stack_size == 0)
        t->stack_size = DEFAULT_STACK;
    p->name = o->name;
    p->core_threads = p->max_threads = o->parallelism;
    p->keep_alive_ns = o->keep_alive_ns == 0 ? 1 : o->keep_alive_ns;
    p->core_timeout = 1;
    p->queue_capacity = SPN_UNBOUNDED;
    p->block_threads = o->spare_threads;
    p->factory = o->factory;
    p->thread = t;
    p->hooks = o->hooks;
    return SPN_OK;
}

int spn_fj_pool_create(spn_fj_pool **out, const spn_fj_pool_opts *opts)
{
    spn_fj_pool_opts o = SPN_FJ_POOL_OPTS_INIT;
    spn_pool_opts p = SPN_POOL_OPTS_INIT;
    spn_thread_opts t = SPN_THREAD_OPTS_INIT;
    struct spn_fj_pool *fj;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (settle_options(&o, &p, &t) != SPN_OK)
        return SPN_EINVAL;
    fj = spn__alloc(sizeof *fj);
    if (fj == NULL)
        return SPN_ENOMEM;
    memset(fj, 0, sizeof *fj);
    fj->source = source_ops;
    fj->async = o.async != 0;
    fj->records = o.records;
    fj->stack_reserve = o.stack_reserve;
    spn__init(&fj->places, NULL);
    spn__lock_init(&fj->lock);
    spn__init(&fj->staff_failed, 0);
    spn__init(&fj->quiescing, 0);
    spn__lock_init(&fj->quiet_lock);
    spn__waitq_init(&fj->quiet);
    spn__init(&fj->quiet_waiters, 0);
    rc = spn__pool_create(&fj->pool, &p, &fj_ops, &fj->source);
    if (rc != SPN_OK) {
        spn__free(fj);
        return rc;
    }
    *out = fj;
    return SPN_OK;
}

int spn_fj_pool_create_stealing(spn_fj_pool **out, int32_t parallelism)
{
    spn_fj_pool_opts o = SPN_FJ_POOL_OPTS_INIT;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (!is_parallelism(parallelism))
        return SPN_EINVAL;
    o.parallelism = parallelism;
    o.async = 1;
    return spn_fj_pool_create(out, &o);
}

int spn_fj_pool_destroy(spn_fj_pool *fj)
{
    struct spn__fj_place *place, *next;
    bool waited;

    if (fj == NULL)
        return SPN_OK;
    spn__lock(&fj->quiet_lock);
    waited = !spn__waitq_empty(&fj->quiet);
    spn__unlock(&fj->quiet_lock);
    if (waited || spn_pool_destroy(fj->pool) != SPN_OK)
        return SPN_EBUSY;
    for (place = first_place(fj); place != NULL; place = next) {
        next = next_place(place);
        spn__fj_place_free(place);
    }
    spn__free(fj);
    return SPN_OK;
}

int spn_fj_pool_shutdown(spn_fj_pool *fj)
{
    return fj == NULL ? SPN_EINVAL : spn_pool_shutdown(fj->pool);
}

int spn_fj_pool_shutdown_now(spn_fj_pool *fj)
{
    return fj == NULL ? SPN_EINVAL
                      : op_shutdown_now(&fj->pool->executor, NULL, NULL, NULL);
}

int spn_fj_pool_await(spn_fj_pool *fj, int64_t timeout_ns)
{
    return fj == NULL ? SPN_EINVAL : spn_pool_await(fj->pool, timeout_ns);
}

int spn_fj_pool_close(spn_fj_pool *fj)
{
    return fj == NULL ? SPN_EINVAL : spn_pool_close(fj->pool);
}

int32_t spn_fj_pool_parallelism(spn_fj_pool *fj)
{
    return fj == NULL ? SPN_EINVAL : spn_pool_core_threads(fj->pool);
}

int32_t spn_fj_pool_set_parallelism(spn_fj_pool *fj, int32_t parallelism)
{
    spn_pool_change change = SPN_POOL_CHANGE_INIT;
    int32_t before;
    int rc;

    if (fj == NULL || !is_parallelism(parallelism))
        return SPN_EINVAL;
    change.core_threads = change.max_threads = parallelism;
    before = spn_pool_core_threads(fj->pool);
    rc = spn_pool_reconfigure(fj->pool, &change);
    return rc != SPN_OK ? rc : before;
}

/* ---- asking ------------------------------------------------------------------------------ */

spn_fj_pool *spn_fj_pool_current(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place != NULL ? place->pool : NULL;
}

int32_t spn_fj_worker_index(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place != NULL ? place->index : -1;
}

spn_pool *spn__fj_pool_threads(spn_fj_pool *fj)
{
    return fj->pool;
}

int spn_fj_pool_stats_get(spn_fj_pool *fj, spn_fj_stats *stats)
{
    spn_fj_stats s = SPN_FJ_STATS_INIT;
    spn_pool_stats p = SPN_POOL_STATS_INIT;

    if (fj == NULL || stats == NULL)
        return SPN_EINVAL;
    (void)spn_pool_stats_get(fj->pool, &p);
    s.state = p.state;
    s.async = fj->async;
    s.parallelism = p.core_threads;
    s.threads = p.threads;
    s.active = p.active;
    s.blocked = p.blocked;
    s.queued_tasks = size(&fj->source);
    s.queued_submissions = p.queued > s.queued_tasks ? p.queued - s.queued_tasks : 0;
    for (struct spn__fj_place *q = first_place(fj); q != NULL; q = next_place(q))
        s.steals += spn__load(&q->deque.steals, relaxed); /* a count */
    s.accepted = p.accepted;
    s.completed = p.completed;
    s.failed = p.failed;
    s.cancelled = p.cancelled;
    s.returned = p.returned;
    s.dropped = p.dropped;
    s.pending = p.pending;
    return spn__output_copy(stats, &s, sizeof s);
}

/* ---- quiescence ---------------------------------------------------------------------------- */

static int64_t pending(struct spn_fj_pool *fj)
{
    spn_pool_stats p = SPN_POOL_STATS_INIT;

    (void)spn_pool_stats_get(fj->pool, &p);
    return p.pending;
}

int spn_fj_pool_is_quiescent(spn_fj_pool *fj)
{
    return fj == NULL ? SPN_EINVAL : pending(fj) == 0;
}

void spn__fj_settled(struct spn_fj_pool *fj)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__fence_light(); /* [quiet] */
    /* relaxed: after the fence. */
    if (spn__load(&fj->quiet_waiters, relaxed) == 0 || pending(fj) != 0)
        return;
    spn__lock(&fj->quiet_lock);
    spn__waitq_choose_all(&fj->quiet, &chosen);
    spn__unlock(&fj->quiet_lock);
    spn__chosen_grant(&chosen);
}

/* From outside: no helping, so nothing that its tasks fork leaves the pool (FJP-34). */
static int await_outside(struct spn_fj_pool *fj, int64_t timeout_ns)
{
    struct spn_thread *self = spn__thread_self();
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc = SPN_OK;

    if (pending(fj) == 0)
        return SPN_OK;
    if (timeout_ns <= 0)
        return SPN_ETIMEDOUT;
    if (self == NULL)
        return SPN_ENOMEM;
    deadline_ns =
        timeout_ns == SPN_FOREVER ? SPN_FOREVER : spn__deadline(spn__now(), timeout_ns);
    spn__lock(&fj->quiet_lock);
    spn__waitq_add(&fj->quiet, &w, self);
    (void)spn__fetch_add(&fj->quiet_waiters, 1, relaxed); /* [quiet] */
    spn__unlock(&fj->quiet_lock);
    spn__fence_heavy(); /* [quiet] */
    if (pending(fj) != 0) {
        rc = spn__waitq_wait(&w, &fj->quiet_lock, deadline_ns);
        if (rc != SPN_OK)
            spn__unlock(&fj->quiet_lock);
    } else if (spn__waitq_cancel(&w, &fj->quiet_lock)) {
        spn__unlock(&fj->quiet_lock);
    }
    (void)spn__fetch_sub(&fj->quiet_waiters, 1, relaxed); /* a hint */
    return rc;
}

/* One task of the pool's, of its own or another's or a submission, taken out. */
static spn_task *take_any(struct spn__fj_place *place)
{
    struct spn_fj_pool *fj = place->pool;
    spn_task *task = spn__fj_queue_take(place, !fj->async);

    for (struct spn__fj_place *p = first_place(fj); task == NULL && p != NULL;
         p = next_place(p))
        task = spn__fj_queue_take(p, false);
    return task != NULL ? task : spn__work_pop_oldest(fj->pool);
}

/* From a task: runs what there is until only tasks are left that do the same. */
static int await_inside(struct spn__fj_place *place, int64_t deadline_ns)
{
    struct spn_fj_pool *fj = place->pool;
    /* What it stands in itself: what it runs out of its turn, and at the bottom a task,
     * unless that is a stolen record.  Where it helps already those are counted. */
    const uint32_t held = place->held + !place->worker->counted;
    const uint32_t before = place->counted;
    int rc = SPN_OK;

    (void)spn__fetch_add(&fj->quiescing, held - before, relaxed); /* only counts */
    place->counted = held;
    for (;;) {
        spn_task *task = take_any(place);

        if (task != NULL) {
            spn__fj_run_queued(place, task);
            continue;
        }
        /* relaxed: it is looked at again and again. */
        if (pending(fj) <= spn__load(&fj->quiescing, relaxed))
            break;
        if (deadline_ns != SPN_FOREVER && spn__now() >= deadline_ns) {
            rc = SPN_ETIMEDOUT;
            break;
        }
        spn__os_yield();
    }
    (void)spn__fetch_sub(&fj->quiescing, held - before, relaxed); /* only counts */
    place->counted = before;
    return rc;
}

int spn_fj_pool_await_quiescence(spn_fj_pool *fj, int64_t timeout_ns)
{
    struct spn__fj_place *place;

    if (fj == NULL)
        return SPN_EINVAL;
    place = place_in(fj);
    if (place == NULL)
        return await_outside(fj, timeout_ns);
    return await_inside(place, timeout_ns == SPN_FOREVER
                                   ? SPN_FOREVER
                                   : spn__deadline(spn__now(),
                                                   timeout_ns > 0 ? timeout_ns : 0));
}

int spn_fj_help_quiesce(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place == NULL ? SPN_ESTATE : await_inside(place, SPN_FOREVER);
}

/* ---- a worker's own queue ------------------------------------------------------------------- */

/* A task was taken out, perhaps, and is given back to the program; the pool is held.
 * NULL: there is none, or it was ended meanwhile, and may be gone. */
static spn_fj_task *given_back(struct spn_fj_pool *fj, spn_task *task)
{
    spn_fj_task *object;

    if (task != NULL) {
        spn__pool_hold(fj->pool);
        spn__pool_left_queue(fj->pool, &fj->pool->returned, 1);
        spn__fj_settled(fj);
    }
    spn__pool_left_queue(fj->pool, NULL, 0); /* it may end, and be gone, from here on */
    if (task == NULL)
        return NULL;
    spn__job_forget(task);
    spn_task_release(task);
    object = spn__fj_task_of(task);
    return spn__fj_task_given_back(object) ? object : NULL;
}

static bool is_object(spn_task *task, void *ctx)
{
    (void)ctx;
    return spn__fj_task_of(task) != NULL;
}

int spn_fj_task_try_unfork(spn_fj_task *task)
{
    struct spn__fj_place *place = spn__fj_place_current();

    if (task == NULL)
        return SPN_EINVAL;
    if (place == NULL || !spn__fj_queue_remove(place, &task->task, true))
        return 0;
    spn__pool_hold(place->pool->pool);
    return given_back(place->pool, &task->task) != NULL;
}

spn_fj_task *spn_fj_peek_local(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place != NULL ? spn__fj_queue_peek(place, !place->pool->async) : NULL;
}

spn_fj_task *spn_fj_poll_local(void)
{
    struct spn__fj_place *place = spn__fj_place_current();
    spn_fj_task *object;
    spn_task *task;

    if (place == NULL)
        return NULL;
    do {
        spn__pool_hold(place->pool->pool);
        task = spn__fj_queue_take_object(place, !place->pool->async);
        object = given_back(place->pool, task);
    } while (task != NULL && object == NULL);
    return object;
}

static bool wanted_object(spn_task *task, const void *ctx)
{
    bool *found = *(bool *const *)ctx;

    if (*found || spn__fj_task_of(task) == NULL)
        return false;
    return *found = true;
}

/* The oldest submission that is an object, taken out. */
static spn_task *take_submission(struct spn_fj_pool *fj)
{
    struct spn__list one;
    struct spn__list_node *node;
    bool found = false, *at = &found;

    spn__list_init(&one);
    (void)spn__work_collect_queue(fj->pool, wanted_object, &at, &one);
    node = spn__list_pop_front(&one);
    return node != NULL ? spn__node_task(node) : NULL;
}

spn_fj_task *spn_fj_pool_poll_submission(spn_fj_pool *fj)
{
    spn_fj_task *object;
    spn_task *task;

    if (fj == NULL)
        return NULL;
    do {
        spn__pool_hold(fj->pool);
        task = take_submission(fj);
        object = given_back(fj, task);
    } while (task != NULL && object == NULL);
    return object;
}

spn_fj_task *spn_fj_poll_task(void)
{
    struct spn__fj_place *place = spn__fj_place_current();
    spn_fj_task *object;
    spn_task *task;

    if (place == NULL)
        return NULL;
    do {
        spn__pool_hold(place->pool->pool);
        task = spn__fj_queue_take_object(place, !place->pool->async);
        for (struct spn__fj_place *p = first_place(place->pool);
             task == NULL && p != NULL; p = next_place(p))
            task = spn__fj_queue_take_if(p, is_object, NULL);
        if (task == NULL)
            task = take_submission(place->pool);
        object = given_back(place->pool, task);
    } while (task != NULL && object == NULL);
    return object;
}

int32_t spn_fj_local_queued(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place == NULL ? 0 : (int32_t)spn__fj_queue_size(&place->queue);
}

int32_t spn_fj_surplus(void)
{
    struct spn__fj_place *place = spn__fj_place_current();
    int64_t queued;

    if (place == NULL)
        return 0;
    queued = spn__fj_queue_size(&place->queue);
    /* relaxed: an estimate. */
    return (int32_t)(queued - spn__load(&place->pool->pool->idle_count, relaxed));
}
