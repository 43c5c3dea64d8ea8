/* SPDX-License-Identifier: MIT */
/*
 * thread_record.c - where thread records come from, and how foreign threads get
 * theirs.
 *
 * TYPE-STABLE
 *   A record is never given back to the allocator: it goes to a cache and is
 *   only ever a thread record again.  A waker first releases a waiter and then
 *   unparks its thread; between the two that thread may have ended.  The late
 *   unpark then meets a record in the cache, or that of another thread, which
 *   gets one permit too many: park may return for no reason, so that is
 *   allowed.  This is why only the parker is touched without holding a handle,
 *   and why reuse resets it with an atomic store; and what blocks.c does with
 *   `returned`, for the same reason and in the same way.  The cache never holds more
 *   records than there were threads at once.
 *
 * LIFE of a record
 *   The thread itself (ALIVE) and the handles keep it; whoever takes `life` to
 *   zero recycles it.
 *
 * ORDERING
 *   [life] each drop is a release and the last one an acquire: all use of the
 *          record lies before its reuse.
 *
 * WHY a process-wide cache?  Records must outlive every object that could hold
 * one.  It and the hooks of alloc.c and log.c are all that is process-wide.
 */
#include "sync/thread_record.h"

#include <string.h>

#include "base/assert.h"

struct spn__thread_cache spn__thread_cache = { SPN__ATOMIC_INIT(0), SPN__LOCK_INIT,
                                               NULL, 0 };

/* In the child of a fork, on the thread that forked. */
static void after_fork(void)
{
    const struct spn_thread *self = spn__self_get();

    /* Its holder may be a thread the child does not have; the list under it is
     * whole at every step.  relaxed: nobody else is here. */
    spn__store(&spn__thread_cache.lock.state, SPN__LOCK_FREE, relaxed);
    if (self != NULL && !self->foreign)
        spn__os_set_sigmask(&self->exec_mask);
}

bool spn__thread_install_fork_hook(void)
{
    /* relaxed, both: two threads may install it, and twice does no harm.  Not
     * under the lock: a fork meanwhile would copy it held. */
    if (spn__load(&spn__thread_cache.fork_hook, relaxed) == 0) {
        if (!spn__os_on_fork_child(after_fork) || !spn__os_threads_watch_fork())
            return false;
        spn__store(&spn__thread_cache.fork_hook, 1, relaxed);
    }
    return true;
}

struct spn_thread *spn__thread_record_create(uint64_t handles)
{
    struct spn_thread *record;
    uint32_t number = 0;

    if (!spn__thread_install_fork_hook())
        return NULL;
    spn__lock(&spn__thread_cache.lock);
    record = spn__thread_cache.free;
    if (record != NULL)
        spn__thread_cache.free = record->next_free;
    else
        number = spn__thread_cache.made++;
    spn__unlock(&spn__thread_cache.lock);

    if (record == NULL) {
        /* With a line: blocks.c has a use for the low bits of its address. */
        record = spn__alloc_aligned(sizeof *record, SPN__CACHE_LINE);
        if (record == NULL)
            return NULL;
        spn__parker_init(&record->parker);
        spn__lock_init(&record->seat_lock);
        spn__list_init(&record->seats);
        spn__blocks_init(&record->blocks);
        record->number = number;
    } else {
        spn__parker_reset(&record->parker);
        spn__blocks_open(&record->blocks);
    }
    spn__init(&record->interrupted, 0);
    spn__init(&record->blocker, NULL);
    spn__init(&record->life, SPN__LIFE_ALIVE + handles * SPN__LIFE_HANDLE);
    record->note.at = NULL;
    record->foreign = record->set_sched = false;
    record->fn = NULL;
    record->on_start = record->on_stop = NULL;
    record->arg = record->hook_arg = NULL;
    record->sched = 0;
    record->priority = 0;
    record->signal = 0;
    record->process = 0;
    record->name[0] = '\0';
    spn__init(&record->started, 0);
    spn__lock_init(&record->lock);
    spn__waitq_init(&record->joiners);
    record->ended = record->reaping = record->reaped = record->detached = false;
    record->result = SPN_OK;
    record->call = NULL;
    record->hand_over = NULL;
    record->executing = NULL;
    record->waits_timed = false;
    record->ambient = (struct spn__ambient){ .depth = 0 };
    record->groups = NULL;
    record->limiter = NULL;
    spn__spin_init(&record->spin);
    record->worker = NULL;
    record->entered_count = 0;
    record->stays = false;
    for (unsigned i = 0; i < SPN__SEAT_MEMOS; i++)
        spn__init(&record->seat_memos[i].of, NULL);
    record->seat_memo_next = 0;
    record->next_free = NULL;
    return record;
}

void spn__thread_record_recycle(struct spn_thread *record)
{
    spn__assert(spn__waitq_empty(&record->joiners));
    spn__lock(&spn__thread_cache.lock);
    record->next_free = spn__thread_cache.free;
    spn__thread_cache.free = record;
    spn__unlock(&spn__thread_cache.lock);
}

void spn__thread_record_leave(void *p)
{
    struct spn_thread *record = p;

    if (record->seat_memo_next != 0) /* it took one once */
        spn__seats_leave(record);
    spn__blocks_close(&record->blocks);
    /* [life] */
    if (spn__fetch_and(&record->life, ~SPN__LIFE_ALIVE, acq_rel) == SPN__LIFE_ALIVE)
        spn__thread_record_recycle(record);
}

static struct spn_thread *attach(void)
{
    struct spn_thread *record = spn__thread_record_create(0);

    if (record == NULL)
        return NULL;
    record->foreign = true;
    spn__os_get_name(record->name);
    if (!spn__self_set(record, spn__thread_record_leave)) {
        spn__thread_record_recycle(record);
        return NULL;
    }
    return record;
}

struct spn_thread *spn__thread_self(void)
{
    struct spn_thread *self = spn__self_get();

    return self != NULL ? self : attach();
}

void spn__thread_cache_drain(void)
{
    struct spn_thread *record;

    spn__lock(&spn__thread_cache.lock);
    record = spn__thread_cache.free;
    spn__thread_cache.free = NULL;
    spn__unlock(&spn__thread_cache.lock);
    while (record != NULL) {
        struct spn_thread *next = record->next_free;

        spn__free(record);
        record = next;
    }
}
