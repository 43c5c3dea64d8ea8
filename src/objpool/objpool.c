/* SPDX-License-Identifier: MIT */
/*
 * objpool.c - an object pool as a whole: made, counted, shut down; how objects are found
 * again, made and destroyed.
 *
 * OVERVIEW
 *   There are `max` slots from the beginning, so that no count can ever be exceeded: an
 *   object needs a slot before it is made.  objpool.h has the states of slots, lend.c what
 *   happens in borrow and return, upkeep.c what time brings.
 *
 * FINDING
 *   return gets a pointer and needs the slot: a chained hash table, whose chains are
 *   indices in the slots.  It is changed under the lock and read without it.  Who returns
 *   an object has it out, so its entry stays where it is; but the chain before it may
 *   change under the reader, who then ends up anywhere.  That does no harm: a slot that
 *   has the object is the right one, however it was found, and a walk that did not find
 *   it is made again under the lock.  So all loads are relaxed.
 *
 * THE END
 *   shutdown sets CLOSED in every word and then destroys what is IDLE; what is OUT or
 *   BUSY finds the bit in the step that would make it IDLE or OUT.  The step to ABSENT of
 *   a closed pool is made under the lock, and await looks under the lock.  Who makes it
 *   touches the pool no more, for an awaiter may free it; passes and shutdowns, which go
 *   on to other slots, count as `inside` meanwhile, and the end waits for them.
 *
 * LOCKS  `lock` is a leaf.  No function of the factory is called with it.
 */
#include "objpool/objpool.h"

#include <string.h>

#include "base/assert.h"
#include "base/options.h"
#include "base/time.h"
#include "sync/thread_record.h"

_Static_assert(sizeof(spn_object_pool_opts) == sizeof(size_t) + 10 * sizeof(void *) +
                                                   4 * sizeof(uint32_t) +
                                                   4 * sizeof(int64_t),
               "append only, no holes");
_Static_assert(sizeof(spn_object_pool_stats) ==
                   sizeof(size_t) + 4 * sizeof(uint32_t) + 16 * sizeof(int64_t),
               "append only, no holes");

enum { MAX_DEFAULT = 8, WALK_MAX = 8 };
#define PERIOD_DEFAULT_NS SPN_SEC(1)

/* ---- finding ---------------------------------------------------------------------------- */

/* Follows a chain for at most `steps`. */
static uint32_t walk(struct spn_object_pool *pool, const void *object, uint32_t steps)
{
    /* relaxed: FINDING, above; under the lock it orders them. */
    uint32_t i = spn__load(&pool->bucket[spn__bucket_of(pool, object)], relaxed);

    for (; i != SPN__NO_SLOT && steps != 0; steps--) {
        if (spn__load(&pool->slot[i].object, relaxed) == object)
            return i;
        i = spn__load(&pool->slot[i].chain, relaxed);
    }
    return SPN__NO_SLOT;
}

uint32_t spn__objpool_find(struct spn_object_pool *pool, const void *object)
{
    uint32_t i = walk(pool, object, WALK_MAX);

    if (i == SPN__NO_SLOT) {
        spn__lock(&pool->lock);
        i = walk(pool, object, pool->max);
        spn__unlock(&pool->lock);
    }
    return i;
}

int spn__objpool_enter(struct spn_object_pool *pool, uint32_t i, void *object)
{
    spn__slot_index *bucket = &pool->bucket[spn__bucket_of(pool, object)];
    int rc = SPN_EINVAL;

    spn__lock(&pool->lock);
    if (walk(pool, object, pool->max) == SPN__NO_SLOT) {
        /* relaxed: FINDING, above. */
        spn__store(&pool->slot[i].object, object, relaxed);
        spn__store(&pool->slot[i].chain, spn__load(bucket, relaxed), relaxed);
        spn__store(bucket, i, relaxed);
        rc = SPN_OK;
    }
    spn__unlock(&pool->lock);
    return rc;
}

/* Takes the object of slot i out of the table. */
static void *leave_table(struct spn_object_pool *pool, uint32_t i)
{
    struct spn__slot *slot = &pool->slot[i];
    void *object = spn__load(&slot->object, relaxed); /* we own it */
    spn__slot_index *at = &pool->bucket[spn__bucket_of(pool, object)];
    uint32_t found;

    spn__lock(&pool->lock);
    while ((found = spn__load(at, relaxed)) != i) { /* relaxed: the lock orders it */
        spn__assert(found != SPN__NO_SLOT);
        at = &pool->slot[found].chain;
    }
    spn__store(at, spn__load(&slot->chain, relaxed), relaxed);
    spn__store(&slot->object, NULL, relaxed);
    spn__unlock(&pool->lock);
    return object;
}

/* ---- objects ------------------------------------------------------------------------------- */

void spn__objpool_unmake(struct spn_object_pool *pool, uint32_t i)
{
    void *object = leave_table(pool, i);

    if (pool->factory.destroy != NULL)
        pool->factory.destroy(pool->factory.ctx, object);
    (void)spn__fetch_add(&pool->destroyed, 1, relaxed); /* only a count */
}

void spn__objpool_discard(struct spn_object_pool *pool, uint32_t i)
{
    spn__objpool_unmake(pool, i);
    (void)spn__objpool_put(pool, i, SLOT_ABSENT);
}

int spn__objpool_make(struct spn_object_pool *pool, uint32_t i)
{
    struct spn__slot *slot = &pool->slot[i];
    void *object = NULL;
    int rc = SPN_OK;
    const int status = pool->factory.make(pool->factory.ctx, &object);

    if (status != 0) {
        spn__store(&pool->last_failure, status, relaxed); /* only a number */
        rc = SPN_EFAILED;
    } else if (object == NULL) {
        rc = SPN_EINVAL;
    } else {
        rc = spn__objpool_enter(pool, i, object);
    }
    if (rc != SPN_OK) {
        (void)spn__fetch_add(&pool->make_failures, 1, relaxed); /* only a count */
        (void)spn__objpool_put(pool, i, SLOT_ABSENT);
        return rc;
    }
    /* relaxed: we own the slot, and [slot] gives it away. */
    spn__store(&slot->made_ns, spn__pool_time(pool), relaxed);
    (void)spn__fetch_add(&pool->made, 1, relaxed); /* only a count */
    return SPN_OK;
}

/* ---- making a pool ---------------------------------------------------------------------------- */

static void ignore_move(void *ctx)
{
    (void)ctx;
}

static bool valid_opts(const spn_object_pool_opts *o)
{
    return o->factory.make != NULL && o->max <= SPN_OBJECT_POOL_MAX &&
           o->min_idle <= (o->max != 0 ? o->max : MAX_DEFAULT) && o->fair <= 1 &&
           o->trace_frames <= SPN_OBJECT_TRACE_MAX && o->idle_ns >= 0 &&
           o->max_age_ns >= 0 && o->leak_ns >= 0 && o->period_ns >= 0;
}

static int on_time(spn_timeout *timeout)
{
    struct spn_object_pool *pool =
        (struct spn_object_pool *)(void *)((char *)timeout -
                                           offsetof(struct spn_object_pool, timeout));

    /* What make says is in the stats; it is no failure of the timer's. */
    (void)spn_object_pool_maintain(pool);
    return 0;
}

static void free_parts(struct spn_object_pool *pool)
{
    spn__free(pool->name);
    spn__free(pool->word);
    spn__free(pool->slot);
    spn__free(pool->bucket);
    spn__free(pool->frames);
    spn__free(pool);
}

static bool alloc_parts(struct spn_object_pool *pool, const char *name)
{
    const size_t length = strlen(name) + 1;
    const size_t frames = (size_t)pool->max * pool->trace_frames;

    pool->name = spn__alloc(length);
    pool->word = spn__alloc_aligned(sizeof *pool->word * pool->words, SPN__CACHE_LINE);
    pool->slot = spn__alloc_aligned(sizeof *pool->slot * pool->max, SPN__CACHE_LINE);
    pool->bucket = spn__alloc(sizeof *pool->bucket * (pool->bucket_mask + (size_t)1));
    if (frames != 0)
        pool->frames = spn__alloc(sizeof *pool->frames * frames);
    if (pool->name == NULL || pool->word == NULL || pool->slot == NULL ||
        pool->bucket == NULL || (frames != 0 && pool->frames == NULL))
        return false;
    memcpy(pool->name, name, length);
    for (uint32_t w = 0; w < pool->words; w++)
        spn__init(&pool->word[w].states, 0);
    for (uint32_t b = 0; b <= pool->bucket_mask; b++)
        spn__init(&pool->bucket[b], SPN__NO_SLOT);
    for (size_t f = 0; f < frames; f++)
        spn__init(&pool->frames[f], 0);
    return true;
}

static void init_slot(struct spn__slot *slot)
{
    spn__init(&slot->object, NULL);
    spn__init(&slot->uses, 0);
    spn__init(&slot->chain, SPN__NO_SLOT);
    spn__init(&slot->stamp, 0);
    spn__init(&slot->retire, INT64_MIN); /* when nothing was made */
    spn__init(&slot->made_ns, 0);
    spn__init(&slot->borrowed_ns, 0);
    spn__init(&slot->traced, 0);
    slot->seen_uses = slot->reported_uses = 0;
    slot->seen_ns = slot->seen_made_ns = INT64_MIN;
}

static void init_counts(struct spn_object_pool *pool)
{
    spn__init(&pool->recent, 0);
    spn__init(&pool->made, 0);
    spn__init(&pool->make_failures, 0);
    spn__init(&pool->destroyed, 0);
    spn__init(&pool->invalidated, 0);
    spn__init(&pool->evicted_idle, 0);
    spn__init(&pool->evicted_age, 0);
    spn__init(&pool->refused, 0);
    spn__init(&pool->waited, 0);
    spn__init(&pool->timeouts, 0);
    spn__init(&pool->leaks, 0);
    spn__init(&pool->last_failure, 0);
    spn__init(&pool->waiting, 0);
}

static void fill(struct spn_object_pool *pool, const spn_object_pool_opts *o)
{
    uint32_t buckets = 8;

    memset(pool, 0, sizeof *pool);
    pool->factory = o->factory;
    pool->max = o->max != 0 ? o->max : MAX_DEFAULT;
    pool->min_idle = o->min_idle;
    pool->words = (pool->max + SPN__SLOTS_PER_WORD - 1) / SPN__SLOTS_PER_WORD;
    while (buckets < 2 * pool->max)
        buckets *= 2;
    pool->bucket_mask = buckets - 1;
    pool->trace_frames = o->trace_frames;
    pool->fair = o->fair != 0;
    pool->timed = o->leak_ns != 0 || o->trace_frames != 0;
    pool->quick = pool->words == 1 && !pool->fair && !pool->timed &&
                  o->factory.validate == NULL && o->factory.reset == NULL;
    pool->idle_ns = o->idle_ns;
    pool->max_age_ns = o->max_age_ns;
    pool->leak_ns = o->leak_ns;
    pool->clock = o->clock;
    pool->timer = o->timer;
    pool->leaked = o->leaked;
    pool->ctx = o->ctx;
    init_counts(pool);
    spn__lock_init(&pool->lock);
    spn__waitq_init(&pool->borrowers);
    spn__waitq_init(&pool->awaiting);
}

int spn_object_pool_create(spn_object_pool **out, const spn_object_pool_opts *opts)
{
    spn_object_pool_opts o = SPN_OBJECT_POOL_OPTS_INIT;
    spn_period period = SPN_PERIOD_INIT;
    struct spn_object_pool *pool;
    int rc = SPN_OK;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts == NULL || spn__options_copy(&o, sizeof o, opts) != SPN_OK ||
        !valid_opts(&o))
        return SPN_EINVAL;
    pool = spn__alloc_aligned(sizeof *pool, SPN__CACHE_LINE);
    if (pool == NULL)
        return SPN_ENOMEM;
    fill(pool, &o);
    if (!alloc_parts(pool, o.name != NULL ? o.name : "objects")) {
        free_parts(pool);
        return SPN_ENOMEM;
    }
    for (uint32_t i = 0; i < pool->max; i++)
        init_slot(&pool->slot[i]);
    if (pool->clock != NULL)
        spn__clock_listen(pool->clock, &pool->clock_holder, ignore_move, NULL);
    if (pool->timer != NULL) {
        period.period_ns = o.period_ns != 0 ? o.period_ns : PERIOD_DEFAULT_NS;
        rc = spn_timer_schedule_periodic(pool->timer, &pool->timeout, on_time,
                                         period.period_ns, &period);
    }
    if (rc != SPN_OK) {
        if (pool->clock != NULL)
            spn__clock_unlisten(pool->clock, &pool->clock_holder);
        free_parts(pool);
        return rc;
    }
    spn__audit_made(pool, "object pool", pool->name, "never shut down");
    *out = pool;
    return SPN_OK;
}

/* ---- the end -------------------------------------------------------------------------------------- */

/* Whether no slot has or will have an object; the lock is held. */
static bool has_ended(struct spn_object_pool *pool)
{
    if (!pool->closed || pool->inside != 0)
        return false;
    for (uint32_t w = 0; w < pool->words; w++)
        /* relaxed: a closed word's last change was made under the lock. */
        if (spn__load(&pool->word[w].states, relaxed) != SPN__SLOTS_CLOSED)
            return false;
    return true;
}

void spn__objpool_check_end(struct spn_object_pool *pool, struct spn__chosen *chosen)
{
    if (!spn__waitq_empty(&pool->awaiting) && has_ended(pool))
        spn__waitq_choose_all(&pool->awaiting, chosen);
}

void spn__objpool_leave(struct spn_object_pool *pool)
{
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&pool->lock);
    pool->inside--;
    spn__objpool_check_end(pool, &chosen);
    spn__unlock(&pool->lock);
    spn__chosen_grant(&chosen); /* the pool may be gone */
}

static void close_words(struct spn_object_pool *pool)
{
    for (uint32_t w = 0; w < pool->words; w++) {
        /* relaxed: whoever changes the word finds the bits; they publish nothing. */
        (void)spn__fetch_or(&pool->word[w].states, SPN__SLOTS_CLOSED, relaxed);
        (void)spn__fetch_and(&pool->word[w].states, ~SPN__SLOTS_WAITED, relaxed);
    }
}

int spn_object_pool_shutdown(spn_object_pool *pool)
{
    struct spn__chosen chosen = { NULL, NULL };
    bool first;

    if (pool == NULL)
        return SPN_EINVAL;
    spn__lock(&pool->lock);
    first = !pool->closed;
    if (first) {
        pool->closed = true;
        spn__audit_state(pool, "shut down");
        pool->inside++;
        close_words(pool);
        /* What they get is what they had: nothing.  Those that are just leaving
         * count themselves out. */
        while (spn__waitq_choose_first(&pool->borrowers, &chosen))
            (void)spn__fetch_sub(&pool->waiting, 1, relaxed); /* under the lock */
    }
    spn__unlock(&pool->lock);
    spn__chosen_grant(&chosen);
    if (!first)
        return SPN_OK;
    if (pool->timer != NULL)
        (void)spn_timer_cancel(pool->timer, &pool->timeout);
    for (uint32_t i = 0; i < pool->max; i++)
        if (spn__slot_move(pool, i, SLOT_IDLE, SLOT_BUSY, 0))
            spn__objpool_discard(pool, i);
    spn__objpool_leave(pool);
    return SPN_OK;
}

int spn_object_pool_await(spn_object_pool *pool, int64_t timeout_ns)
{
    struct spn__waiter w;
    struct spn_thread *self;
    int rc;

    if (pool == NULL)
        return SPN_EINVAL;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    spn__lock(&pool->lock);
    if (has_ended(pool)) {
        spn__unlock(&pool->lock);
        return SPN_OK;
    }
    spn__waitq_add(&pool->awaiting, &w, self);
    spn__unlock(&pool->lock);
    rc = spn__waitq_wait(&w, &pool->lock, spn__deadline(spn__now(), timeout_ns));
    if (rc != SPN_OK)
        spn__unlock(&pool->lock);
    return rc;
}

int spn_object_pool_destroy(spn_object_pool *pool)
{
    bool busy;

    if (pool == NULL)
        return SPN_OK;
    spn__lock(&pool->lock); /* waits for the one who made the last slot ABSENT */
    busy = !has_ended(pool) || !spn__waitq_empty(&pool->awaiting) ||
           !spn__waitq_empty(&pool->borrowers);
    spn__unlock(&pool->lock);
    if (busy)
        return SPN_EBUSY;
    /* A pass that was about to begin when shutdown cancelled it. */
    if (pool->timer != NULL &&
        spn_timer_cancel_sync(pool->timer, &pool->timeout, 0) < 0)
        return SPN_EBUSY;
    if (pool->clock != NULL)
        spn__clock_unlisten(pool->clock, &pool->clock_holder);
    spn__audit_gone(pool);
    free_parts(pool);
    return SPN_OK;
}

/* ---- numbers ----------------------------------------------------------------------------------------- */

static int64_t in_state(uint64_t states, enum spn__slot_state state, uint64_t real)
{
    return __builtin_popcountll(spn__slots_in(states, state) & real);
}

int spn_object_pool_stats_get(spn_object_pool *pool, spn_object_pool_stats *stats)
{
    spn_object_pool_stats s = SPN_OBJECT_POOL_STATS_INIT;

    if (pool == NULL || stats == NULL)
        return SPN_EINVAL;
    /* All relaxed: numbers, each true at some moment. */
    s.max = pool->max;
    s.invalidated = spn__load(&pool->invalidated, relaxed);
    for (uint32_t w = 0; w < pool->words; w++) {
        const uint64_t states = spn__load(&pool->word[w].states, relaxed);
        const uint64_t real = spn__slots_real(pool, w);

        s.idle += in_state(states, SLOT_IDLE, real);
        s.out += in_state(states, SLOT_OUT, real);
        s.busy += in_state(states, SLOT_BUSY, real);
        s.shut_down = (states & SPN__SLOTS_CLOSED) != 0;
    }
    for (uint32_t i = 0; i < pool->max; i++)
        s.borrowed += (int64_t)spn__load(&pool->slot[i].uses, relaxed);
    /* Not counted by itself: a return would write a line more. */
    s.returned = s.borrowed - s.invalidated - s.out;
    if (s.returned < 0)
        s.returned = 0; /* something moved meanwhile */
    s.waiting = spn__load(&pool->waiting, relaxed);
    s.destroyed = spn__load(&pool->destroyed, relaxed);
    s.made = spn__load(&pool->made, relaxed);
    s.make_failures = spn__load(&pool->make_failures, relaxed);
    s.evicted_idle = spn__load(&pool->evicted_idle, relaxed);
    s.evicted_age = spn__load(&pool->evicted_age, relaxed);
    s.refused = spn__load(&pool->refused, relaxed);
    s.waited = spn__load(&pool->waited, relaxed);
    s.timeouts = spn__load(&pool->timeouts, relaxed);
    s.leaks = spn__load(&pool->leaks, relaxed);
    s.last_failure = spn__load(&pool->last_failure, relaxed);
    return spn__output_copy(stats, &s, sizeof s);
}
