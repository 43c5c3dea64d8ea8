/* SPDX-License-Identifier: MIT */
/*
 * lend.c - borrow, return, and those who wait.
 *
 * OVERVIEW
 *   A borrow without waiting is one step on a word of states, IDLE to OUT, and a return
 *   one step back.  Only if there is nothing to take is the lock used: the borrower lists
 *   itself, and whoever makes room hands it over.  A slot given to a waiter never becomes
 *   visible to others, so a woken borrower has what it waited for.
 *
 * NO WAKE-UP IS LOST
 *   A waiter lists itself, sets WAITED in every word, and looks at every word again
 *   (serve), all under the lock.  A step that makes room is a read-modify-write of one of
 *   those words.  In that word's order it comes before WAITED was set, and then the look
 *   finds the room; or after, and then the step finds the bit and is made under the lock
 *   instead, followed by serve.  Hence no fence, and no order on WAITED at all.
 *
 * WHO IS SERVED
 *   First come, first served.  Unless the pool is fair, a borrower that finds an idle
 *   object takes it though others wait.  A fair borrower looks at WAITED in the step that
 *   takes: nobody can overtake.
 *
 * WHICH OBJECT
 *   The one returned last is named in `recent`, which returns write without care: it is
 *   a hint.  If it is gone, the stamps of the idle slots of one word are compared.  So
 *   LIFO costs a load as a rule, and 31 at most.  A fair pool keeps its promise with any
 *   number of objects: the stamps of all that are idle are compared.
 *
 * QUICKLY
 *   Most pools have few objects, no validate, no reset and no look for leaks.  For those
 *   the usual case of borrow and return is written out in one piece each: the same steps
 *   without what cannot be there.  Whatever is not as usual goes the long way.
 *
 * WHY NOT a stack of idle slots?  It needs a tag against reuse, cannot give up a slot in
 * its middle to the pass that evicts it, and says nothing of slots that are out: a double
 * return would put a slot on it twice.
 */
#include "base/assert.h"
#include "base/time.h"
#include "objpool/objpool.h"
#include "sync/thread_record.h"

/* How a slot was taken, and so what is left to do; with the index above, what a waiter
 * gets. */
enum taken { TOOK_NOTHING = -1, TOOK_READY, TOOK_TO_VALIDATE, TOOK_TO_MAKE };
#define TAKEN_BITS 2

static uint32_t index_of(uint32_t word, uint64_t bits)
{
    return word * SPN__SLOTS_PER_WORD + (uint32_t)__builtin_ctzll(bits) / 2;
}

/* Of the idle slots of a word, the one to lend. */
static uint32_t choose(struct spn_object_pool *pool, uint32_t word, uint64_t idle)
{
    /* relaxed: a hint, here and below; the exchange that follows decides. */
    const uint32_t recent = (uint32_t)spn__load(&pool->recent, relaxed);
    uint32_t best = index_of(word, idle), stamp;

    if ((idle & (idle - 1)) == 0)
        return best;
    if (!pool->fair && recent / SPN__SLOTS_PER_WORD == word &&
        (idle >> spn__slot_shift(recent) & 1) != 0)
        return recent;
    stamp = spn__load(&pool->slot[best].stamp, relaxed);
    while ((idle &= idle - 1) != 0) {
        const uint32_t i = index_of(word, idle);
        const uint32_t other = spn__load(&pool->slot[i].stamp, relaxed);
        const bool newer = (int32_t)(other - stamp) > 0; /* stamps go round */

        if (newer != pool->fair) {
            best = i;
            stamp = other;
        }
    }
    return best;
}

/* Takes the slot that was idle longest, whichever word it is in. */
static uint32_t take_oldest(struct spn_object_pool *pool, enum spn__slot_state to,
                            uint64_t unless)
{
    for (;;) {
        uint32_t best = SPN__NO_SLOT, stamp = 0;
        uint64_t seen = 0;

        for (uint32_t w = 0; w < pool->words; w++) {
            /* relaxed: checked below */
            const uint64_t states = spn__load(&pool->word[w].states, relaxed);
            const uint64_t idle = spn__slots_in(states, SLOT_IDLE);
            uint32_t i, other;

            if ((states & unless) != 0 || idle == 0)
                continue;
            i = choose(pool, w, idle);
            other = spn__load(&pool->slot[i].stamp, relaxed); /* a hint, as in choose */
            if (best == SPN__NO_SLOT || (int32_t)(other - stamp) < 0) {
                best = i;
                stamp = other;
                seen = states;
            }
        }
        if (best == SPN__NO_SLOT)
            return SPN__NO_SLOT;
        /* [slot] */
        if (spn__cas_weak(&spn__word_of(pool, best)->states, &seen,
                          spn__slot_with(seen, best, to), acquire, relaxed))
            return best;
    }
}

/* Takes an idle slot; SPN__NO_SLOT: there is none, or it is not for us. */
static uint32_t take_idle(struct spn_object_pool *pool, bool overtake)
{
    const enum spn__slot_state to =
        pool->factory.validate != NULL ? SLOT_BUSY : SLOT_OUT;
    const uint64_t unless = SPN__SLOTS_CLOSED | (overtake ? 0 : SPN__SLOTS_WAITED);
    uint32_t w = 0;

    if (pool->fair)
        return take_oldest(pool, to, unless);
    if (pool->words > 1)
        w = (uint32_t)spn__load(&pool->recent, relaxed) /
            SPN__SLOTS_PER_WORD; /* a hint */
    for (uint32_t n = 0; n < pool->words; n++, w = w + 1 == pool->words ? 0 : w + 1) {
        uint64_t states = spn__load(&pool->word[w].states, relaxed); /* checked below */
        uint64_t idle;

        while ((states & unless) == 0 &&
               (idle = spn__slots_in(states, SLOT_IDLE)) != 0) {
            const uint32_t i = choose(pool, w, idle);

            /* [slot] */
            if (spn__cas_weak(&pool->word[w].states, &states,
                              spn__slot_with(states, i, to), acquire, relaxed))
                return i;
        }
    }
    return SPN__NO_SLOT;
}

static uint32_t take_absent(struct spn_object_pool *pool, uint64_t unless)
{
    for (uint32_t w = 0; w < pool->words; w++) {
        uint64_t states = spn__load(&pool->word[w].states, relaxed); /* checked below */
        uint64_t absent;

        while ((states & unless) == 0 && (absent = spn__slots_in(states, SLOT_ABSENT) &
                                                   spn__slots_real(pool, w)) != 0) {
            const uint32_t i = index_of(w, absent);

            /* [slot] */
            if (spn__cas_weak(&pool->word[w].states, &states,
                              spn__slot_with(states, i, SLOT_BUSY), acquire, relaxed))
                return i;
        }
    }
    return SPN__NO_SLOT;
}

uint32_t spn__objpool_take_absent(struct spn_object_pool *pool)
{
    return take_absent(pool, SPN__SLOTS_CLOSED | SPN__SLOTS_WAITED);
}

/* An idle slot, else one to make an object in. */
static enum taken take(struct spn_object_pool *pool, bool overtake, uint32_t *i)
{
    *i = take_idle(pool, overtake);
    if (*i != SPN__NO_SLOT)
        return pool->factory.validate != NULL ? TOOK_TO_VALIDATE : TOOK_READY;
    *i = take_absent(pool, SPN__SLOTS_CLOSED | (overtake ? 0 : SPN__SLOTS_WAITED));
    return *i != SPN__NO_SLOT ? TOOK_TO_MAKE : TOOK_NOTHING;
}

/* ---- those who wait ------------------------------------------------------------------- */

/* The lock is held, and these are its words: relaxed, see NO WAKE-UP IS LOST. */
static void mark_waited(struct spn_object_pool *pool)
{
    for (uint32_t w = 0; w < pool->words; w++)
        (void)spn__fetch_or(&pool->word[w].states, SPN__SLOTS_WAITED, relaxed);
}

static void count_out(struct spn_object_pool *pool)
{
    if (spn__fetch_sub(&pool->waiting, 1, relaxed) == 1)
        for (uint32_t w = 0; w < pool->words; w++)
            (void)spn__fetch_and(&pool->word[w].states, ~SPN__SLOTS_WAITED, relaxed);
}

/* Hands slots to waiters, in order, as far as they go; the lock is held. */
static void serve(struct spn_object_pool *pool, struct spn__chosen *chosen)
{
    struct spn__list_node *node, *following;

    spn__list_each_safe (node, following, &pool->borrowers.waiters) {
        struct spn__waiter *w = spn__list_entry(node, struct spn__waiter, link);
        enum taken taken;
        uint32_t i;

        if (!spn__waitq_hold(w))
            continue; /* it leaves: nothing must be taken for it */
        taken = take(pool, true, &i);
        if (taken == TOOK_NOTHING) {
            spn__waitq_release(w);
            return;
        }
        w->wants = (int64_t)i << TAKEN_BITS | taken;
        spn__waitq_commit(w, chosen);
        count_out(pool);
    }
}

/* Waits for a slot: SPN_OK with what was taken, or why not. */
static int wait_for_slot(struct spn_object_pool *pool, int64_t timeout_ns,
                         enum taken *taken, uint32_t *i)
{
    struct spn__chosen chosen = { NULL, NULL };
    struct spn_thread *self = spn__thread_self();
    struct spn__waiter w;
    int64_t deadline_ns;
    int rc;

    if (self == NULL)
        return SPN_ENOMEM;
    deadline_ns = spn__deadline(spn__now(), timeout_ns);
    spn__lock(&pool->lock);
    if (pool->closed) {
        spn__unlock(&pool->lock);
        return SPN_ESHUTDOWN;
    }
    (void)spn__fetch_add(&pool->waited, 1, relaxed); /* only a count */
    w.wants = TOOK_NOTHING;
    spn__waitq_add(&pool->borrowers, &w, self);
    if (spn__fetch_add(&pool->waiting, 1, relaxed) == 0) /* under the lock */
        mark_waited(pool);
    serve(pool, &chosen); /* perhaps room came in between, perhaps for us */
    spn__unlock(&pool->lock);
    spn__chosen_grant(&chosen);

    rc = spn__waitq_wait(&w, &pool->lock, deadline_ns);
    if (rc != SPN_OK) {
        count_out(pool);
        spn__unlock(&pool->lock);
        if (rc == SPN_ETIMEDOUT)
            (void)spn__fetch_add(&pool->timeouts, 1, relaxed); /* only a count */
        return rc;
    }
    if (w.wants == TOOK_NOTHING)
        return SPN_ESHUTDOWN; /* the pool may be gone */
    *taken = (enum taken)(w.wants & ((1 << TAKEN_BITS) - 1));
    *i = (uint32_t)(w.wants >> TAKEN_BITS);
    return SPN_OK;
}

/* ---- giving away ------------------------------------------------------------------------ */

bool spn__objpool_put(struct spn_object_pool *pool, uint32_t i, enum spn__slot_state to)
{
    struct spn__chosen chosen = { NULL, NULL };
    bool moved;

    if (spn__slot_move(pool, i, SLOT_BUSY, to, SPN__SLOTS_WAITED | SPN__SLOTS_CLOSED))
        return true; /* the pool may be gone */
    spn__lock(&pool->lock);
    if (pool->closed && to == SLOT_IDLE) {
        spn__unlock(&pool->lock);
        return false;
    }
    moved = spn__slot_move(pool, i, SLOT_BUSY, to, 0);
    spn__assert(moved); /* nobody else may touch a BUSY slot */
    serve(pool, &chosen);
    spn__objpool_check_end(pool, &chosen);
    spn__unlock(&pool->lock);
    spn__chosen_grant(&chosen);
    return true;
}

/* Before a slot that we own becomes IDLE: when that was. */
static void note_return(struct spn_object_pool *pool, uint32_t i)
{
    /* relaxed: hints.  Two returns at once may have the same stamp, and either may be
     * named as the last. */
    const uint64_t before = spn__load(&pool->recent, relaxed);
    const uint32_t stamp = (uint32_t)(before >> 32) + 1;

    spn__store(&pool->slot[i].stamp, stamp, relaxed);
    spn__store(&pool->recent, (uint64_t)stamp << 32 | i, relaxed);
    if (pool->timed)
        spn__store(&pool->slot[i].traced, 0, relaxed); /* [slot] gives it away */
}

/* ---- the calls --------------------------------------------------------------------------- */

/* What is left to do with a slot that was taken, until its object is the borrower's. */
static int hand_over(struct spn_object_pool *pool, enum taken taken, uint32_t i,
                     const void *frame, void **object)
{
    struct spn__slot *slot = &pool->slot[i];
    int rc = SPN_OK;

    if (taken == TOOK_TO_VALIDATE) {
        /* relaxed: the slot is ours [slot]; below as well. */
        void *idle = spn__load(&slot->object, relaxed);

        if (pool->factory.validate(pool->factory.ctx, idle) != 0) {
            (void)spn__fetch_add(&pool->refused, 1, relaxed); /* only a count */
            spn__objpool_unmake(pool, i);
            taken = TOOK_TO_MAKE;
        }
    }
    if (taken == TOOK_TO_MAKE)
        rc = spn__objpool_make(pool, i);
    if (rc != SPN_OK)
        return rc;
    if (taken != TOOK_READY &&
        !spn__slot_move(pool, i, SLOT_BUSY, SLOT_OUT, SPN__SLOTS_CLOSED)) {
        spn__objpool_discard(pool, i);
        return SPN_ESHUTDOWN;
    }
    spn__store(&slot->uses, spn__load(&slot->uses, relaxed) + 1, relaxed);
    if (pool->timed)
        spn__objpool_trace(pool, i, frame);
    *object = spn__load(&slot->object, relaxed);
    return SPN_OK;
}

/* The object returned last, if it is idle and nobody else is about to change the word;
 * NULL: the long way.  In the one word of such a pool a slot's shift is twice its index. */
static inline void *borrow_quickly(struct spn_object_pool *pool)
{
    struct spn__slot_word *word = pool->word;
    /* relaxed, both: a hint, and what the exchange checks. */
    const uint32_t i = (uint32_t)spn__load(&pool->recent, relaxed);
    uint64_t states = spn__load(&word->states, relaxed);
    const uint64_t both = UINT64_C(3) << 2 * i;
    struct spn__slot *slot;

    if ((states & (both | SPN__SLOTS_CLOSED)) != (uint64_t)SLOT_IDLE << 2 * i)
        return NULL;
    /* [slot] */
    if (!spn__cas_weak(&word->states, &states,
                       (states & ~both) | (uint64_t)SLOT_OUT << 2 * i, acquire,
                       relaxed))
        return NULL;
    slot = &pool->slot[i];
    /* relaxed, all: the slot is ours [slot]. */
    spn__store(&slot->uses, spn__load(&slot->uses, relaxed) + 1, relaxed);
    return spn__load(&slot->object, relaxed);
}

/* The object goes back from where the quick way lent it; false: the long way. */
static inline bool return_quickly(struct spn_object_pool *pool, const void *object)
{
    struct spn__slot_word *word = pool->word;
    /* relaxed: FINDING, in objpool.c. */
    const uint32_t i = spn__load(&pool->bucket[spn__bucket_of(pool, object)], relaxed);
    struct spn__slot *slot;
    uint64_t states, both;

    if (i == SPN__NO_SLOT)
        return false;
    slot = &pool->slot[i];
    both = UINT64_C(3) << 2 * i;
    /* relaxed, all: as in give_back. */
    if (spn__load(&slot->object, relaxed) != object ||
        spn__load(&slot->retire, relaxed) == spn__load(&slot->made_ns, relaxed))
        return false;
    states = spn__load(&word->states, relaxed);
    if ((states & (both | SPN__SLOTS_WAITED | SPN__SLOTS_CLOSED)) != (uint64_t)SLOT_OUT
                                                                         << 2 * i)
        return false;
    note_return(pool, i);
    /* [slot] release: to the next owner.  Nothing of others is read afterwards, and the
     * pool may be gone. */
    return spn__cas_weak(&word->states, &states,
                         (states & ~both) | (uint64_t)SLOT_IDLE << 2 * i, release,
                         relaxed);
}

static int borrow_slowly(struct spn_object_pool *pool, void **object,
                         int64_t timeout_ns, const void *frame)
{
    enum taken taken;
    uint32_t i;
    int rc;

    taken = take(pool, !pool->fair, &i);
    if (taken == TOOK_NOTHING) {
        rc = wait_for_slot(pool, timeout_ns, &taken, &i);
        if (rc != SPN_OK)
            return rc;
    }
    return hand_over(pool, taken, i, frame, object);
}

int spn_object_pool_borrow(spn_object_pool *pool, void **object, int64_t timeout_ns)
{
    if (object == NULL)
        return SPN_EINVAL;
    *object = NULL;
    if (pool == NULL)
        return SPN_EINVAL;
    if (__builtin_expect(pool->quick, 1) && (*object = borrow_quickly(pool)) != NULL)
        return SPN_OK;
    return borrow_slowly(pool, object, timeout_ns, __builtin_frame_address(0));
}

/* Returns what cannot simply become IDLE: it is reset, or at its end, or waited for. */
static int return_slowly(struct spn_object_pool *pool, uint32_t i, void *object)
{
    struct spn__slot *slot = &pool->slot[i];
    bool keep = true;

    if (!spn__slot_move(pool, i, SLOT_OUT, SLOT_BUSY, 0))
        return SPN_ESTATE;
    /* relaxed: the slot is ours, and a pass that retires it a moment later finds another
     * occasion. */
    if (spn__load(&slot->retire, relaxed) == spn__load(&slot->made_ns, relaxed)) {
        (void)spn__fetch_add(&pool->evicted_age, 1, relaxed); /* only a count */
        keep = false;
    } else if (pool->factory.reset != NULL &&
               pool->factory.reset(pool->factory.ctx, object) != 0) {
        (void)spn__fetch_add(&pool->refused, 1, relaxed); /* only a count */
        keep = false;
    }
    note_return(pool, i);
    if (!keep || !spn__objpool_put(pool, i, SLOT_IDLE))
        spn__objpool_discard(pool, i);
    return SPN_OK;
}

static inline int give_back(struct spn_object_pool *pool, void *object)
{
    const uint32_t i = spn__objpool_find(pool, object);
    struct spn__slot *slot;

    if (i == SPN__NO_SLOT)
        return SPN_EINVAL;
    slot = &pool->slot[i];
    /* relaxed: it is ours if it is out, and if it is not the steps below say so. */
    if (pool->factory.reset == NULL &&
        spn__load(&slot->retire, relaxed) != spn__load(&slot->made_ns, relaxed) &&
        spn__slot_state(spn__load(&spn__word_of(pool, i)->states, relaxed), i) ==
            SLOT_OUT) {
        note_return(pool, i);
        if (spn__slot_move(pool, i, SLOT_OUT, SLOT_IDLE,
                           SPN__SLOTS_WAITED | SPN__SLOTS_CLOSED))
            return SPN_OK; /* the pool may be gone */
    }
    return return_slowly(pool, i, object);
}

/* A mistake that few look for: says which, and that the pool is as it was. */
static int told(const struct spn_object_pool *pool, const void *object, int rc)
{
    (void)pool;
    (void)object;
    if (rc == SPN_ESTATE)
        spn__misuse("object pool %s: object %p is given back and is not out",
                    pool->name, object);
    else if (rc == SPN_EINVAL)
        spn__misuse("object pool %s: object %p is given back and is not its own",
                    pool->name, object);
    return rc;
}

int spn_object_pool_return(spn_object_pool *pool, void *object)
{
    int rc;

    if (pool == NULL || object == NULL)
        return SPN_EINVAL;
    if (__builtin_expect(pool->quick, 1) && return_quickly(pool, object))
        return SPN_OK;
    rc = give_back(pool, object);
    return rc == SPN_OK ? SPN_OK : told(pool, object, rc);
}

static int invalidate(struct spn_object_pool *pool, void *object)
{
    const uint32_t i = spn__objpool_find(pool, object);

    if (i == SPN__NO_SLOT)
        return SPN_EINVAL;
    if (!spn__slot_move(pool, i, SLOT_OUT, SLOT_BUSY, 0))
        return SPN_ESTATE;
    (void)spn__fetch_add(&pool->invalidated, 1, relaxed); /* only a count */
    note_return(pool, i);
    spn__objpool_discard(pool, i);
    return SPN_OK;
}

int spn_object_pool_invalidate(spn_object_pool *pool, void *object)
{
    int rc;

    if (pool == NULL || object == NULL)
        return SPN_EINVAL;
    rc = invalidate(pool, object);
    return rc == SPN_OK ? SPN_OK : told(pool, object, rc);
}
