/* SPDX-License-Identifier: MIT */
/*
 * work.h - where a pool's tasks wait; see work.c.
 *
 * Nothing here wakes or makes a worker: whoever pushes does that afterwards.
 */
#ifndef SPN__WORK_H
#define SPN__WORK_H

#include <spindle/pool.h>

#include "base/list.h"
#include "exec/entry.h"
#include "sync/lock.h"
#include "sync/seam.h"

struct spn_pool;
struct spn__worker;
struct spn__lanes;
struct spn__calls;
struct spn__row;

enum spn__work_kind {
    SPN__WORK_FIFO,
    SPN__WORK_LANES,
    SPN__WORK_PRIORITY,
    SPN__WORK_USER,
    SPN__WORK_TIMED,
    SPN__WORK_STEAL /* a FIFO for submissions, and a source beside it */
};

typedef SPN__ATOMIC(int32_t) spn__free_count;

/*
 * STEAL: where workers find work beside the queue; see src/forkjoin/pool.c.  What comes
 * in there comes from workers, who find it again: it needs no door.
 *
 * come, go    a worker is made (SPN_OK, SPN_ENOMEM), on any thread, and is freed.
 * inherit     `heir` takes the place of a worker that died, and what it had.
 * take_own    the next of the worker's own.
 * take_other  of another's.  May run what is no task first, and take long.
 * any         whether a worker that looks would find something.
 * busy        whether workers may still bring something, so that a pool that was shut
 *             down keeps those that it has.
 * listed      the worker is on the list of those that sleep and has made the heavy
 *             fence [wake]: it may ask for work now, and then looks once more.
 * settled     a worker has counted what it did and got nothing to do, or the last tasks
 *             were dropped: whoever waits for that is told.  No lock is held.
 * size, pushed, remove, collect, snapshot   as spn__work_...
 * spare_threads   workers above max that may stand in for blocked ones.
 */
struct spn__source {
    int (*come)(struct spn__source *source, struct spn__worker *worker);
    void (*go)(struct spn__source *source, struct spn__worker *worker);
    void (*inherit)(struct spn__source *source, struct spn__worker *heir,
                    struct spn__worker *worker);
    bool (*take_own)(struct spn__source *source, struct spn__worker *worker,
                     struct spn__entry *entry);
    bool (*take_other)(struct spn__source *source, struct spn__worker *worker,
                       struct spn__entry *entry);
    bool (*any)(struct spn__source *source);
    bool (*busy)(struct spn__source *source);
    void (*listed)(struct spn__source *source, struct spn__worker *worker);
    void (*settled)(struct spn__source *source);
    int64_t (*size)(struct spn__source *source);
    int64_t (*pushed)(struct spn__source *source);
    bool (*remove)(struct spn__source *source, spn_task *task);
    int64_t (*collect)(struct spn__source *source,
                       bool (*wanted)(spn_task *, const void *), const void *ctx,
                       struct spn__list *out);
    int64_t (*snapshot)(struct spn__source *source, spn_task **tasks, size_t capacity);
    int32_t spare_threads;
};

/* First in, first out: an inbox for those who push, an outbox for those who take. */
struct spn__fifo {
    /* Guards the inbox, `closed` and writes of pushed; see work.c, THE DOOR. */
    _Alignas(SPN__CACHE_LINE) struct spn__lock in_lock;
    bool closed;
    uint16_t lines_used;         /* of `calls` */
    SPN__ATOMIC(int64_t) pushed; /* ever [size] */
    struct spn__list inbox;
    int64_t seen_popped; /* popped, as last looked at */
    /* The last that came, if it is a future's; relaxed: only a hint of what to fetch. */
    SPN__ATOMIC(const spn_task *) newest;
    /* Calls, see work_calls.c: the block in use, or NULL; the last row, if another may
     * follow in it; blocks to be used again. */
    struct spn__calls *calls;
    struct spn__row *row;
    struct spn__calls *spare;
    /* Guards the outbox and writes of popped; taken before in_lock. */
    _Alignas(SPN__CACHE_LINE) struct spn__lock out_lock;
    SPN__ATOMIC(int64_t) popped; /* ever, by take or remove [size] */
    /* What `pushed` was when the inbox was last moved over; relaxed: only a hint. */
    SPN__ATOMIC(int64_t) fetched;
    struct spn__list outbox;
    struct spn__calls *spent; /* to be used again: goes over to `spare` */
    uint32_t spent_count;
};

/* By key, the greatest first; of equals the one that came first. */
struct spn__heap_entry {
    int64_t key, sequence;
    spn_task *task; /* its link[0] is its place */
};
struct spn__heap {
    struct spn__lock lock; /* guards the rest, and is the door */
    bool closed;
    struct spn__heap_entry *entries;
    size_t room, used;
    int64_t sequence;                    /* pushed ever */
    SPN__ATOMIC(int64_t) pushed, popped; /* as in a FIFO [size] */
};

/*
 * Tasks that wait until they are due: kept by a layer above (src/sched), behind locks
 * of its own, which are the door.  Unbounded.  See work.c, TIMED.
 */
struct spn__work_source;
struct spn__work_source_ops {
    /* Takes in a claimed task, or a call, that is due at due_ns on the source's clock;
     * *sequence names it, and *first says whether somebody must look earlier than for
     * what was there.  SPN_OK, SPN_ENOMEM, SPN_ESHUTDOWN (closed).  Does not ask whether
     * a worker is there. */
    int (*push)(struct spn__work_source *source, struct spn__entry entry,
                int64_t due_ns, uint64_t *sequence, bool *first);
    /* Due now, for tasks that say nothing else. */
    int64_t (*now)(struct spn__work_source *source);
    /* The next one if it is due; *last: no other waits. */
    bool (*take)(struct spn__work_source *source, struct spn__entry *entry, bool *last);
    /* When to look for the next one, on the monotonic clock: INT64_MIN: now;
     * SPN_FOREVER: none waits, or somebody will tell. */
    int64_t (*next_ns)(struct spn__work_source *source);
    /* The same for who sleeps until then: what comes later and is due before it tells. */
    int64_t (*sleep_ns)(struct spn__work_source *source);
    /* The same, but what is due has the time it was due at. */
    int64_t (*first_ns)(struct spn__work_source *source);
    bool (*remove)(struct spn__work_source *source, spn_task *task);
    /* The same by its number: the task may be gone. */
    bool (*withdraw)(struct spn__work_source *source, uint64_t sequence);
    int64_t (*collect)(struct spn__work_source *source,
                       bool (*wanted)(spn_task *, const void *), const void *ctx,
                       struct spn__list *out);
    size_t (*drain)(struct spn__work_source *source, struct spn__entry *entries,
                    size_t capacity);
    /* What may not run after a shutdown. */
    int64_t (*forbidden)(struct spn__work_source *source, struct spn__list *out);
    int64_t (*snapshot)(struct spn__work_source *source, spn_task **tasks,
                        size_t capacity);
    /* The door; close with the door locked. */
    void (*lock)(struct spn__work_source *source);
    void (*unlock)(struct spn__work_source *source);
    void (*close)(struct spn__work_source *source);
    /* A future for spn_executor_submit: see executor.h. */
    int (*new_task)(struct spn__work_source *source, struct spn_future **out,
                    int (*fn)(void *arg, void **result), void *arg,
                    const struct spn_future_opts *opts);
};
struct spn__work_source {
    const struct spn__work_source_ops *ops;
    struct spn_pool *pool; /* set by the pool */
    /* As in a FIFO [size]; apart, for those who push and those who take. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(int64_t) pushed;
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(int64_t) popped;
};

/* So many tasks that wait in a pool without a bound, and so many threads of one without a
 * limit, are told once: see work.c, TOO MANY. */
enum { SPN__MANY_TASKS = 100000, SPN__MANY_THREADS = 1000 };

struct spn__work_queue {
    /* relaxed, both: knobs, written under pool->lock. */
    SPN__ATOMIC(int64_t) limit;      /* what push compares with: see TOO MANY */
    SPN__ATOMIC(int64_t) capacity;   /* INT64_MAX: unbounded */
    bool told;                       /* guarded by pool->lock, as is the next */
    int64_t many;                    /* SPN__MANY_TASKS; fewer in tests */
    int64_t age_ns;                  /* fixed */
    struct spn__lanes *lanes;        /* LANES */
    spn_queue *queue;                /* USER: borrowed */
    struct spn__work_source *source; /* TIMED: borrowed */
    struct spn__source *stealing;    /* STEAL: borrowed */
    /* USER: pushed by us, and put there by others and found when taken out. */
    SPN__ATOMIC(int64_t) given, found;
    spn__free_count free; /* hand-off: workers that run no task [free] */
    struct spn__heap heap;
    struct spn__fifo fifo; /* FIFO, STEAL; USER: what found no room there any more */
};

int spn__work_init(struct spn_pool *pool, const spn_pool_opts *opts, int64_t capacity);
void spn__work_fini(struct spn_pool *pool);

/* pool->lock is held, or nobody knows the pool yet. */
void spn__work_set_capacity(struct spn_pool *pool, int64_t capacity);

/*
 * TOO MANY, with no lock held.
 *
 * lift   a push found no room in a queue that has no bound: tells, and makes it again.
 * grown  the place of an unbounded queue that asks for no room has grown.
 */
int spn__work_lift(struct spn_pool *pool, spn_task *task);
void spn__work_grown(struct spn_pool *pool);

/*
 * Takes in a task that is claimed: SPN_OK; SPN_EFULL; SPN_ENOMEM; SPN_ESHUTDOWN;
 * SPN_EAGAIN: there is no worker that would take it out again.
 */
int spn__work_push(struct spn_pool *pool, spn_task *task);
/* FIFO: the same for a function and its argument. */
int spn__work_push_call(struct spn_pool *pool, spn_run_fn fn, void *arg);

/* USER: a worker has taken an item out itself; a push is undone. */
void spn__work_taken_from_user(struct spn_pool *pool, spn_task *task);
void spn__work_uncount_user(struct spn_pool *pool);

/* Takes the next entry out, if there is one; never blocks. */
bool spn__work_take(struct spn_pool *pool, struct spn__worker *worker,
                    struct spn__entry *entry);

/* Whether anything waits: with it, what was pushed before a fence that pairs with the
 * caller's is seen. */
bool spn__work_any(struct spn_pool *pool);
/* Whether a worker that looks now would find something: not the same where tasks wait
 * until they are due. */
bool spn__work_ready(struct spn_pool *pool);
/* USER: the same of what found no room in the queue any more: work.c, KEPT. */
bool spn__work_any_kept(struct spn_pool *pool);
int64_t spn__work_size(struct spn_pool *pool);
int64_t spn__work_pushed(struct spn_pool *pool); /* ever */

/* From now on nothing comes in (SPN_ESHUTDOWN); all that came is seen afterwards.  A
 * queue of the user's stays open: push looks at the pool's state afterwards. */
void spn__work_close(struct spn_pool *pool);
/*
 * The door: between lock and unlock nothing is pushed, and what was pushed before is
 * seen.  LANES and USER have no lock of that kind: there the caller makes a heavy fence
 * after its change, which only has the second half, and asks after it.
 */
void spn__work_door_lock(struct spn_pool *pool);
void spn__work_door_unlock(struct spn_pool *pool);

/* Whether a task waits here, about. */
bool spn__work_has(struct spn_pool *pool, spn_task *task);
/* Takes a task out that waits here; false if it does not. */
bool spn__work_remove(struct spn_pool *pool, spn_task *task);
/* Takes out the one that has waited longest; NULL: there is none. */
spn_task *spn__work_pop_oldest(struct spn_pool *pool);

/*
 * Moves every task that is wanted to `out`, in order, linked by its `link`; all of
 * them if wanted is NULL.  wanted is called with locks held and only looks.
 * Returns how many.  LANES and TIMED: calls stay where they are.
 */
int64_t spn__work_collect(struct spn_pool *pool,
                          bool (*wanted)(spn_task *, const void *), const void *ctx,
                          struct spn__list *out);
/*
 * LANES and TIMED, whose calls have no node to link: takes out the first entries, tasks
 * and calls in order, `capacity` at most, and allocates nothing.  Returns how many; less
 * than `capacity`: nothing was left.  Other kinds: 0.
 */
size_t spn__work_take_out(struct spn_pool *pool, struct spn__entry *entries,
                          size_t capacity);
int64_t spn__work_snapshot(struct spn_pool *pool, spn_task **tasks, size_t capacity);

/* A task's links, as the list node they are while it waits. */
static inline struct spn__list_node *spn__task_node(spn_task *task)
{
    return (struct spn__list_node *)(void *)task->link;
}
static inline spn_task *spn__node_task(struct spn__list_node *node)
{
    return spn__list_entry(node, spn_task, link);
}

/* ---- lanes.c: the same calls for SPN__WORK_LANES ------------------------------- */

/* mark: what spn_task.queued is while a task waits there. */
int spn__lanes_create(struct spn__lanes **out, uint32_t mark);
/* Nothing waits, no worker is left, and nobody pushes any more. */
void spn__lanes_destroy(struct spn__lanes *lanes);

/* SPN_OK; SPN_ENOMEM; SPN_ESHUTDOWN.  On error nothing was pushed. */
int spn__lanes_push(struct spn__lanes *lanes, struct spn__entry entry);
/* Takes back what the calling thread pushed last; false: somebody took it. */
bool spn__lanes_take_back(struct spn__lanes *lanes, struct spn__entry entry);
/* From now on push refuses with SPN_ESHUTDOWN; when it returns, all that was taken
 * in is seen by take and collect. */
void spn__lanes_close(struct spn__lanes *lanes);

/*
 * The next entry, from the worker's batch, the lanes, or another worker's batch.
 * *more: the worker has just made room for others to help (its batch is new, or the
 * lane it came from has more), and one that sleeps is to be woken.
 */
bool spn__lanes_take(struct spn__lanes *lanes, struct spn__worker *worker,
                     struct spn__entry *entry, bool *more);
bool spn__lanes_any(struct spn__lanes *lanes);
int64_t spn__lanes_size(struct spn__lanes *lanes);
int64_t spn__lanes_pushed(struct spn__lanes *lanes);
bool spn__lanes_remove(struct spn__lanes *lanes, spn_task *task);
/* Tasks only; calls stay. */
int64_t spn__lanes_collect(struct spn__lanes *lanes,
                           bool (*wanted)(spn_task *, const void *), const void *ctx,
                           struct spn__list *out);
/* As spn__work_take_out; the order is that of each lane. */
size_t spn__lanes_drain(struct spn__lanes *lanes, struct spn__entry *entries,
                        size_t capacity);
/* Tasks only: how many wait, and the first of them. */
int64_t spn__lanes_snapshot(struct spn__lanes *lanes, spn_task **tasks,
                            size_t capacity);

/* A worker comes (SPN_OK, SPN_ENOMEM) and goes: what is left in its batch is there
 * for the others, and for the next that comes. */
int spn__lanes_worker_init(struct spn__lanes *lanes, struct spn__worker *worker);
void spn__lanes_worker_fini(struct spn__lanes *lanes, struct spn__worker *worker);

#endif /* SPN__WORK_H */
