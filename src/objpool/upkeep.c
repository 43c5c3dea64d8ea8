/* SPDX-License-Identifier: MIT */
/*
 * upkeep.c - what time brings: eviction, objects kept ready, leaks; and who has what.
 *
 * OVERVIEW
 *   A pass looks at every slot and compares with the time.  Nothing of it costs a borrow
 *   or a return anything: an object counts as idle from the first pass that sees it so,
 *   which is known by its number of uses; so it is destroyed up to a period late, and
 *   never early.  An object that is too old and out is only marked, with the time it was
 *   made (`retire`), and its return destroys it: if another was made in the slot
 *   meanwhile, the mark is not its own.
 *
 *   One pass at a time; what a pass notes in a slot (seen, reported) is its own.
 *
 * ORDERING
 *   [trace] A trace is read while its slot may be borrowed anew.  The borrower raises
 *           `uses`, writes the trace with releases, and then says in `traced` which use
 *           it belongs to, a release too; return sets `traced` to 0 before it gives the
 *           slot away.  A reader loads `traced`, the trace, each with acquire, and then
 *           `uses`: if it read anything of a later borrower, it sees that one's `uses`,
 *           and drops what it has.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "objpool/objpool.h"
#include "sync/seam_stacks.h"

/* ---- traces --------------------------------------------------------------------------- */

/* Where the trace of a slot is; NULL without traces. */
static spn__slot_frame *frames_of(const struct spn_object_pool *pool, uint32_t i)
{
    return pool->frames == NULL ? NULL : &pool->frames[(size_t)i * pool->trace_frames];
}

void spn__objpool_trace(struct spn_object_pool *pool, uint32_t i, const void *frame)
{
    struct spn__slot *slot = &pool->slot[i];
    spn__slot_frame *frames = frames_of(pool, i);
    uintptr_t callers[SPN_OBJECT_TRACE_MAX];
    uint32_t count = 0;

    if (pool->trace_frames != 0)
        count = spn__os_callers(frame, callers, pool->trace_frames);
    /* relaxed: goes with `traced`; who reads a later one sees a younger lease. */
    spn__store(&slot->borrowed_ns, spn__pool_time(pool), relaxed);
    for (uint32_t f = 0; f < pool->trace_frames; f++)
        spn__store(&frames[f], f < count ? callers[f] : 0, release);     /* [trace] */
    spn__store(&slot->traced, spn__load(&slot->uses, relaxed), release); /* [trace] */
}

/* A lease as it was at one moment. */
struct picture {
    spn_object_lease lease;
    uint64_t uses;
    uintptr_t frames[SPN_OBJECT_TRACE_MAX];
    char text[4096];
};

/* True if the slot is out; without a trace if it is just being borrowed. */
static bool take_picture(struct spn_object_pool *pool, uint32_t i, int64_t now_ns,
                         struct picture *p)
{
    struct spn__slot *slot = &pool->slot[i];
    const spn__slot_frame *frames = frames_of(pool, i);
    /* [slot] */
    const uint64_t states = spn__load(&spn__word_of(pool, i)->states, acquire);
    int64_t borrowed_ns;
    uint32_t count = 0;

    if (spn__slot_state(states, i) != SLOT_OUT)
        return false;
    memset(&p->lease, 0, sizeof p->lease);
    p->text[0] = '\0';
    p->lease.trace = p->text;
    p->lease.frames = p->frames;
    p->lease.object = spn__load(&slot->object, relaxed);  /* to compare only */
    p->uses = spn__load(&slot->traced, acquire);          /* [trace] */
    borrowed_ns = spn__load(&slot->borrowed_ns, relaxed); /* as where it is written */
    while (count < pool->trace_frames) {
        const uintptr_t pc = spn__load(&frames[count], acquire); /* [trace] */

        if (pc == 0)
            break;
        p->frames[count++] = pc;
    }
    if (p->uses == 0 || p->uses != spn__load(&slot->uses, relaxed)) {
        p->uses = 0;
        return true;
    }
    p->lease.held_ns = now_ns > borrowed_ns ? now_ns - borrowed_ns : 0;
    p->lease.frame_count = count;
    return true;
}

static void name_frames(struct picture *p)
{
    size_t used = 0;

    for (size_t f = 0; f < p->lease.frame_count && used < sizeof p->text - 1; f++) {
        char symbol[256];
        int length;

        spn__os_symbol(p->frames[f], symbol, sizeof symbol);
        length = snprintf(p->text + used, sizeof p->text - used, "%s%s",
                          f == 0 ? "" : "\n", symbol);
        if (length < 0)
            break;
        used += (size_t)length;
    }
}

int spn_object_pool_leases(spn_object_pool *pool, spn_object_lease_fn fn, void *ctx)
{
    struct picture p;
    int count = 0;
    int64_t now_ns;

    if (pool == NULL || fn == NULL)
        return SPN_EINVAL;
    now_ns = spn__pool_time(pool);
    for (uint32_t i = 0; i < pool->max; i++)
        if (take_picture(pool, i, now_ns, &p)) {
            name_frames(&p);
            fn(ctx, &p.lease);
            count++;
        }
    return count;
}

static void look_for_leak(struct spn_object_pool *pool, uint32_t i, int64_t now_ns)
{
    struct spn__slot *slot = &pool->slot[i];
    struct picture p;

    if (!take_picture(pool, i, now_ns, &p) || p.uses == 0 ||
        p.uses == slot->reported_uses || p.lease.held_ns < pool->leak_ns)
        return;
    slot->reported_uses = p.uses;
    (void)spn__fetch_add(&pool->leaks, 1, relaxed); /* only a count */
    name_frames(&p);
    if (pool->leaked != NULL)
        pool->leaked(pool->ctx, &p.lease);
    else
        spn__log(SPN_LOG_WARN,
                 "object pool %s: object %p is out for %lld ms; borrowed at %s",
                 pool->name, p.lease.object, (long long)(p.lease.held_ns / 1000000),
                 p.text[0] != '\0' ? p.text : "(no trace: see trace_frames)");
}

/* ---- passes ------------------------------------------------------------------------------ */

static bool is_old(const struct spn_object_pool *pool, int64_t made_ns, int64_t now_ns)
{
    return pool->max_age_ns != 0 && now_ns - made_ns >= pool->max_age_ns;
}

/* Whether an idle slot has been seen idle for long enough. */
static bool is_stale(const struct spn_object_pool *pool, struct spn__slot *slot,
                     int64_t now_ns)
{
    /* relaxed: [slot] brought it; if it was used since, the number is another. */
    const uint64_t uses = spn__load(&slot->uses, relaxed);
    const int64_t made_ns = spn__load(&slot->made_ns, relaxed);

    if (pool->idle_ns == 0)
        return false;
    if (slot->seen_uses != uses || slot->seen_made_ns != made_ns) {
        slot->seen_uses = uses;
        slot->seen_made_ns = made_ns;
        slot->seen_ns = spn__pool_time(pool); /* it may have come after now_ns */
        return false;
    }
    return now_ns - slot->seen_ns >= pool->idle_ns;
}

static int64_t count_idle(struct spn_object_pool *pool)
{
    int64_t idle = 0;

    for (uint32_t w = 0; w < pool->words; w++)
        /* relaxed: only a number. */
        idle += __builtin_popcountll(
            spn__slots_in(spn__load(&pool->word[w].states, relaxed), SLOT_IDLE));
    return idle;
}

/* Takes an idle slot, and destroys its object if it is still what it was. */
static void evict(struct spn_object_pool *pool, uint32_t i, int64_t now_ns, bool old)
{
    struct spn__slot *slot = &pool->slot[i];

    if (!spn__slot_move(pool, i, SLOT_IDLE, SLOT_BUSY, 0))
        return; /* borrowed meanwhile */
    /* relaxed: the slot is ours now. */
    if (old ? !is_old(pool, spn__load(&slot->made_ns, relaxed), now_ns)
            : !is_stale(pool, slot, now_ns)) {
        if (!spn__objpool_put(pool, i, SLOT_IDLE)) /* used, or made anew, meanwhile */
            spn__objpool_discard(pool, i);
        return;
    }
    (void)spn__fetch_add(old ? &pool->evicted_age : &pool->evicted_idle, 1, relaxed);
    spn__objpool_discard(pool, i);
}

static void look_at(struct spn_object_pool *pool, uint32_t i, int64_t now_ns)
{
    struct spn__slot *slot = &pool->slot[i];
    /* relaxed: a first look, here and below.  What it leads to is judged again once the
     * slot is taken, or is a mark for one object only. */
    const uint64_t states = spn__load(&spn__word_of(pool, i)->states, relaxed);

    const int64_t made_ns = spn__load(&slot->made_ns, relaxed);

    switch (spn__slot_state(states, i)) {
    case SLOT_IDLE:
        if (is_old(pool, made_ns, now_ns))
            evict(pool, i, now_ns, true);
        else if (is_stale(pool, slot, now_ns) && count_idle(pool) > pool->min_idle)
            evict(pool, i, now_ns, false);
        break;
    case SLOT_OUT:
        if (is_old(pool, made_ns, now_ns))
            spn__store(&slot->retire, made_ns, relaxed); /* a mark: see OVERVIEW */
        if (pool->leak_ns != 0)
            look_for_leak(pool, i, now_ns);
        break;
    case SLOT_ABSENT:
    case SLOT_BUSY:
        break;
    }
}

/* Makes objects until enough are idle; the first failure ends it. */
static int top_up(struct spn_object_pool *pool)
{
    for (uint32_t n = 0; n < pool->max && count_idle(pool) < pool->min_idle; n++) {
        const uint32_t i = spn__objpool_take_absent(pool);
        int rc;

        if (i == SPN__NO_SLOT)
            break; /* all there may be, or those that wait make their own */
        rc = spn__objpool_make(pool, i);
        if (rc != SPN_OK)
            return SPN_EFAILED;
        if (!spn__objpool_put(pool, i, SLOT_IDLE)) {
            spn__objpool_discard(pool, i);
            break;
        }
    }
    return SPN_OK;
}

int spn_object_pool_maintain(spn_object_pool *pool)
{
    int64_t now_ns;
    int rc = SPN_OK;

    if (pool == NULL)
        return SPN_EINVAL;
    spn__lock(&pool->lock);
    if (pool->closed)
        rc = SPN_ESHUTDOWN;
    else if (pool->passing)
        rc = SPN_EBUSY;
    else
        pool->inside++, pool->passing = true;
    spn__unlock(&pool->lock);
    if (rc != SPN_OK)
        return rc;
    now_ns = spn__pool_time(pool);
    for (uint32_t i = 0; i < pool->max; i++)
        look_at(pool, i, now_ns);
    rc = top_up(pool);
    spn__lock(&pool->lock);
    pool->passing = false;
    spn__unlock(&pool->lock);
    spn__objpool_leave(pool);
    return rc;
}
