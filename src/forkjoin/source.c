/* SPDX-License-Identifier: MIT */
/*
 * source.c - what a worker of the fork/join pool finds to do beside the submissions: its
 * place, those of others, and who is asked for work.
 *
 * It is the source (exec/work.h) that makes a thread pool one of fork/join.  Each worker
 * has a place with a deque of records and a queue of objects.  It takes from its own
 * queue, then from the submissions, then from the places of others.
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
 * ORDERING
 *   [places] A place is published with all that is in it.
 *   [quiet]  see quiet.c.
 *   [count], [wake], [search], [block], [size]  see src/exec.
 *
 * LOCKS  the pool's `lock` and the queues' are leaves, below those of the thread pool.
 */
#include "forkjoin/pool.h"

#include <string.h>

#define RESERVE_MAX      ((size_t)64 * 1024)
#define RESERVE_FRACTION 4

/* How often a worker looks at all the others, while they run, before it sleeps. */
#ifdef SPN_SIM
enum { LOOKS = 1 };
#else
enum { LOOKS = SPN__SPIN_LIMIT_LONG };
#endif

/* Asks everybody who may have records. */
void spn__fj_ask_all(struct spn_fj_pool *fj, const struct spn__fj_place *except)
{
    for (struct spn__fj_place *p = spn__fj_first_place(fj); p != NULL;
         p = spn__fj_next_place(p))
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
    struct spn__fj_place *place = make_place(NULL, SPN__PIECE_RECORDS);

    if (place != NULL)
        spn__deque_adopt(&place->deque, stack_low(0));
    return place;
}

/* A place that nobody has, or a new one. */
static int come(struct spn__source *source, struct spn__worker *w)
{
    struct spn_fj_pool *fj = spn__fj_pool_of_source(source);
    struct spn__fj_place *place, *made = NULL;

    for (;;) {
        spn__lock(&fj->lock);
        for (place = spn__fj_first_place(fj); place != NULL && place->taken;
             place = spn__fj_next_place(place))
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
    struct spn_fj_pool *fj = spn__fj_pool_of_source(source);
    struct spn__fj_place *place = w->place;

    spn__lock(&fj->lock);
    place->worker = NULL;
    place->taken = false;
    spn__unlock(&fj->lock);
    spn__fence_heavy(); /* [hungry] after it was counted out: another may be wanted */
    spn__fj_ask_all(fj, place);
}

static void inherit(struct spn__source *source, struct spn__worker *heir,
                    struct spn__worker *w)
{
    (void)source;
    heir->place = w->place;
    w->place = NULL;
}

/* The worker's place; its thread may be a new one. */
static struct spn__fj_place *place_of(struct spn__worker *w)
{
    struct spn__fj_place *place = w->place;

    if (place->worker != w) {
        place->worker = w;
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

/* The place of the calling thread if it is a worker of this pool. */
struct spn__fj_place *spn__fj_place_in(struct spn_fj_pool *fj)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place != NULL && place->pool == fj ? place : NULL;
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
           count < spn__pool_bound(pool, SPN__TO_SPARE) &&
           spn__load(&fj->staff_failed, relaxed) == 0;
}

void spn__fj_signal(struct spn_fj_pool *fj)
{
    struct spn_pool *pool = fj->pool;
    int rc;

    spn__idle_notify(pool); /* makes the light fence [wake] [block] */
    /* relaxed: after the fence.  Also if somebody searches: that one may find something
     * else, and then nobody would see that there are too few. */
    if (spn__load(&pool->idle_count, relaxed) > 0 || !understaffed(fj))
        return;
    rc = spn__pool_add_worker_or(pool, NULL, SPN__TO_SPARE, false);
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

/*
 * Somebody sleeps, or is still to be made.  If another one searches and there is something
 * to be had, that is enough: when it has found anything it wakes the next (exec/idle.c).
 * If there is nothing to be had it may find something elsewhere, and would not.
 */
static bool is_hungry(struct spn__deque *d)
{
    struct spn_fj_pool *fj = place_of_deque(d)->pool;
    struct spn_pool *pool = fj->pool;

    /* relaxed, all: after the fence [hungry]. */
    if (spn__load(&pool->idle_count, relaxed) == 0 && !understaffed(fj))
        return false;
    return spn__load(&pool->searching, relaxed) == 0 || !spn__deque_any(d);
}

void spn__fj_block(struct spn__fj_place *place)
{
    spn__worker_block(place->worker); /* makes the heavy fence [hungry] [block] */
    spn__fj_ask_all(place->pool, place);
}

static void on_block(struct spn__deque *d)
{
    spn__fj_block(place_of_deque(d));
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
    spn__fj_ask_all(spn__fj_pool_of_source(source), w->place);
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

    return hand_out(spn__fj_queue_take(place, !spn__fj_pool_of_source(source)->async),
                    entry);
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
    spn__store(&place->active, 1, relaxed); /* its own; see spn__fj_ask_all */
    stolen = spn__deque_steal(&place->deque, spn__deque_bottom(&place->deque),
                              &victim->deque);
    spn__store(&place->active, 0, relaxed);
    place->depth--;
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
        p = spn__fj_next_place(p);
        if (p == NULL)
            p = spn__fj_first_place(place->pool);
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
               spn__load(&pool->work.fifo.popped, relaxed);
}

static bool take_other(struct spn__source *source, struct spn__worker *w,
                       struct spn__entry *entry)
{
    struct spn_fj_pool *fj = spn__fj_pool_of_source(source);
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
    return false;
}

static bool any(struct spn__source *source)
{
    for (struct spn__fj_place *p = spn__fj_first_place(spn__fj_pool_of_source(source));
         p != NULL; p = spn__fj_next_place(p))
        /* relaxed, both: a hint, or after a fence [wake]. */
        if (spn__deque_any(&p->deque) || spn__load(&p->queue.pushed, relaxed) !=
                                             spn__load(&p->queue.popped, relaxed))
            return true;
    return false;
}

/* The thread pool's lock is held. */
static bool busy(struct spn__source *source)
{
    struct spn_pool *pool = spn__fj_pool_of_source(source)->pool;
    struct spn__list_node *node;

    spn__list_each (node, &pool->workers) /* relaxed: who ends wakes the others */
        if (spn__load(&spn__list_entry(node, struct spn__worker, link)->running,
                      relaxed) != 0)
            return true;
    return false;
}

static void settled(struct spn__source *source)
{
    spn__fj_settled(spn__fj_pool_of_source(source));
}

static int64_t size(struct spn__source *source)
{
    int64_t sum = 0;

    for (struct spn__fj_place *p = spn__fj_first_place(spn__fj_pool_of_source(source));
         p != NULL; p = spn__fj_next_place(p))
        sum += spn__fj_queue_size(&p->queue);
    return sum;
}

static int64_t pushed(struct spn__source *source)
{
    int64_t sum = 0;

    for (struct spn__fj_place *p = spn__fj_first_place(spn__fj_pool_of_source(source));
         p != NULL; p = spn__fj_next_place(p))
        /* [size] mutant: the fates that were read before it came after the pushes. */
        sum += spn__load(&p->queue.pushed, acquire);
    return sum;
}

static bool remove_task(struct spn__source *source, spn_task *task)
{
    for (struct spn__fj_place *p = spn__fj_first_place(spn__fj_pool_of_source(source));
         p != NULL; p = spn__fj_next_place(p))
        if (spn__fj_queue_remove(p, task))
            return true;
    return false;
}

static int64_t collect(struct spn__source *source,
                       bool (*wanted)(spn_task *, const void *), const void *ctx,
                       struct spn__list *out)
{
    int64_t count = 0;

    for (struct spn__fj_place *p = spn__fj_first_place(spn__fj_pool_of_source(source));
         p != NULL; p = spn__fj_next_place(p))
        count += spn__fj_queue_collect(p, wanted, ctx, out);
    return count;
}

static int64_t snapshot(struct spn__source *source, spn_task **tasks, size_t capacity)
{
    int64_t count = 0;

    for (struct spn__fj_place *p = spn__fj_first_place(spn__fj_pool_of_source(source));
         p != NULL; p = spn__fj_next_place(p)) {
        const size_t used = (size_t)count < capacity ? (size_t)count : capacity;

        count +=
            spn__fj_queue_snapshot(p, used > 0 ? tasks + used : tasks, capacity - used);
    }
    return count;
}

const struct spn__source spn__fj_source = { come,       go,       inherit, take_own,
                                            take_other, any,      busy,    listed,
                                            settled,    size,     pushed,  remove_task,
                                            collect,    snapshot, 0 };

/* ---- tasks that block ------------------------------------------------------------ */

void spn_fj_block_begin(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    if (place != NULL)
        spn__fj_block(place);
}

void spn_fj_block_end(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    if (place != NULL && place->worker->block_depth > 0)
        spn__worker_unblock(place->worker);
}
