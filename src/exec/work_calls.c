/* SPDX-License-Identifier: MIT */
/*
 * work_calls.c - places for functions and arguments that wait in a FIFO.
 *
 * OVERVIEW
 *   A call needs a node to wait in.  Asked for one by one, and let go of on another
 *   thread, nodes cost more than all the rest of a call.  Here they lie in blocks, in
 *   the order in which they wait: whoever pushes takes the next place of a block, under
 *   the lock it holds anyway, and a worker copies function and argument out under the
 *   lock it holds anyway, and is done with the place.  A block whose places are all done
 *   is used again.
 *
 *   One allocation for CALLS calls, then, and none where calls keep pace with workers.
 *
 * A PLACE IS LENT
 *   where a call leaves the queue without being run by a worker: to the caller of remove
 *   or shutdown_now, or to a policy.  It is a task like others then, which says when it
 *   is over, by being run or dropped, on any thread and perhaps after the pool's end.  So
 *   nothing needs to be allocated when a pool ends.  The block lives until then.
 *
 * MEMORY  A FIFO keeps at most 2 * SPARES blocks for later, 256 KiB, and the one that is
 *   being filled; they are given back at the end of the pool, the others at once.  A call
 *   that stays while all others go holds one block.
 *
 * ORDERING
 *   The locks of the FIFO hand places from one side to the other; see work_fifo.c.
 *   [lent]  `refs` of a block: one for the FIFO, one for each place that is lent.  Each
 *           is let go of with release, and whoever frees the block, or uses it again, has
 *           acquired them all.
 *
 * WHY NOT the cache of small blocks (sync/blocks.c)?  It is bounded by what one thread
 * may keep, some ten kilobytes, and a producer that is ahead of its workers overflows
 * it; then each node went through the allocator twice, on two threads.
 */
#include "exec/work_kinds.h"

#include "base/assert.h"

#ifdef SPN_SIM /* short scenarios shall see all of it */
enum { CALLS = 2, SPARES = 1 };
#else
enum { CALLS = 63, SPARES = 32 };
#endif

struct call {
    spn_task task;
    spn_run_fn fn;
    void *arg;
    struct spn__calls *home;
};

struct spn__calls {
    struct spn__calls *next;    /* of those to be used again, or freed */
    SPN__ATOMIC(uint32_t) refs; /* [lent] */
    uint32_t done;              /* places out of the FIFO; guarded by out_lock */
    _Alignas(SPN__CACHE_LINE) struct call places[CALLS];
};
_Static_assert(sizeof(struct call) == SPN__CACHE_LINE, "each has a line of its own");
_Static_assert(CALLS <= UINT8_MAX, "spn__fifo counts the places that are used");

/* The function of a call that waits here, by which it is known; never called. */
static int waits(spn_task *task)
{
    (void)task;
    return SPN_EINVAL;
}

static struct call *call_of(spn_task *task)
{
    return spn__list_entry(task, struct call, task);
}

bool spn__call_waits(const spn_task *task)
{
    return task->fn == waits;
}

/* ---- those who push: in_lock is held ----------------------------------------------- */

struct spn__calls *spn__calls_make(void)
{
    struct spn__calls *c =
        spn__alloc_aligned(sizeof(struct spn__calls), SPN__CACHE_LINE);

    if (c != NULL)
        spn__init(&c->refs, 1);
    return c;
}

bool spn__call_has_place(struct spn__fifo *f, struct spn__calls **fresh)
{
    struct spn__calls *c = f->calls;

    if (c != NULL)
        return true;
    if (f->spare != NULL) {
        c = f->spare;
        f->spare = c->next;
    } else {
        c = *fresh;
        *fresh = NULL;
    }
    f->calls = c;
    f->calls_used = 0;
    if (c != NULL)
        c->done = 0; /* nobody has it but us */
    return c != NULL;
}

spn_task *spn__call_place(struct spn__fifo *f, spn_run_fn fn, void *arg)
{
    struct spn__calls *c = f->calls;
    struct call *call = &c->places[f->calls_used++];

    if (f->calls_used == CALLS)
        f->calls = NULL;
    call->task = (spn_task)SPN_TASK_INIT(waits, NULL);
    call->fn = fn;
    call->arg = arg;
    call->home = c;
    return &call->task;
}

/* ---- those who take: out_lock is held ------------------------------------------------ */

/* A place has left the FIFO. */
static void leave(struct spn__fifo *f, struct spn__calls *c, struct spn__calls **over)
{
    if (++c->done < CALLS)
        return;
    if (spn__load(&c->refs, acquire) == 1) { /* [lent] none is, or all are back */
        if (f->spent_count < SPARES) {
            c->next = f->spent;
            f->spent = c;
            f->spent_count++;
            return;
        }
    } else if (spn__fetch_sub(&c->refs, 1, acq_rel) != 1) { /* [lent] */
        return;
    }
    c->next = *over;
    *over = c;
}

struct spn__entry spn__call_take(struct spn__fifo *f, spn_task *task,
                                 struct spn__calls **over)
{
    const struct call *call = call_of(task);
    const struct spn__entry entry = { call->fn, call->arg };

    leave(f, call->home, over);
    return entry;
}

void spn__calls_reuse(struct spn__fifo *f)
{
    if (f->spare != NULL)
        return;
    f->spare = f->spent;
    f->spent = NULL;
    f->spent_count = 0;
}

bool spn__calls_pile_up(const struct spn__fifo *f)
{
    return f->spent_count == SPARES;
}

/* ---- a place that is lent ---------------------------------------------------------- */

static void give_back(struct spn__calls *c)
{
    if (spn__fetch_sub(&c->refs, 1, acq_rel) == 1) /* [lent] */
        spn__free(c);
}

static int lent_run(spn_task *task)
{
    const struct call *call = call_of(task);
    const spn_run_fn fn = call->fn;
    void *const arg = call->arg;

    give_back(call->home); /* before fn, which may end the thread */
    return fn(arg);
}

static void lent_drop(spn_task *task, int reason)
{
    (void)reason;
    give_back(call_of(task)->home);
}

void spn__call_lend(struct spn__fifo *f, spn_task *task, struct spn__calls **over)
{
    struct spn__calls *c = call_of(task)->home;

    task->fn = lent_run;
    task->drop = lent_drop;
    (void)spn__fetch_add(&c->refs, 1, relaxed); /* [lent] ours is one of them */
    leave(f, c, over);
}

/* ---- the end --------------------------------------------------------------------------- */

void spn__calls_free(struct spn__calls *list)
{
    struct spn__calls *c;

    while ((c = list) != NULL) {
        list = c->next;
        spn__free(c);
    }
}

void spn__calls_fini(struct spn__fifo *f)
{
    spn__calls_free(f->spare);
    spn__calls_free(f->spent);
    if (f->calls != NULL) {
        spn__assert(f->calls->done == f->calls_used);
        give_back(f->calls);
    }
}
