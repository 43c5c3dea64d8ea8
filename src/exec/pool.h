/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the thread pool from inside; see pool.c for the whole, and
 *
 *   pool.c      making, ending, asking
 *   submit.c    execute: core, queue, max, policy
 *   worker.c    a worker's life: take, run, wait for work, leave
 *   staff.c     who is made, who leaves, who follows one that died
 *   run.c       a task is run: hooks, counts, interrupts
 *   idle.c      workers without work, and who wakes them
 *   work.c      where tasks wait: FIFO, priorities, a user's queue
 *   work_fifo.c, work_heap.c   two of those; work_calls.c  functions in the first
 *   lanes.c     where tasks wait, the fast way
 *   shutdown.c  shutdown, termination, taking tasks back
 *   reconfigure.c  live changes
 *   nested.c    tasks that wait for tasks of their own pool
 *   factory.c   the shapes everybody wants
 *   reject.c    what to do with a task that does not fit
 *   room.c      submitters that wait until one fits
 *   report.c    says so when a pool is exhausted
 */
#ifndef SPN__POOL_H
#define SPN__POOL_H

#include <spindle/pool.h>

#include "base/list.h"
#include "base/options.h"
#include "exec/room.h"
#include "exec/work.h"
#include "metrics/metrics_core_times.h"
#include "sync/audit.h"
#include "sync/parker.h"
#include "sync/spin.h"
#include "sync/waitq.h"

struct spn_future;

/*
 * The control word: what the pool is and how many workers it has, in one, so that
 * neither changes unseen by a decision that depends on both.
 *
 *   bits 29..31  spn_executor_state
 *   bits 0..28   workers: from before their thread runs until it has left
 */
#define SPN__CTL_COUNT_BITS 29
#define SPN__CTL_COUNT      ((UINT32_C(1) << SPN__CTL_COUNT_BITS) - 1)
_Static_assert(SPN__CTL_COUNT == SPN_POOL_THREADS_MAX, "the header names it");

static inline uint32_t spn__ctl_state(uint32_t ctl)
{
    return ctl >> SPN__CTL_COUNT_BITS;
}
static inline int32_t spn__ctl_count(uint32_t ctl)
{
    return (int32_t)(ctl & SPN__CTL_COUNT);
}
static inline uint32_t spn__ctl_make(uint32_t state, int32_t count)
{
    return state << SPN__CTL_COUNT_BITS | (uint32_t)count;
}

/* What a worker has done; written by its thread only, read by anybody [count]. */
typedef SPN__ATOMIC(int64_t) spn__counter;
struct spn__worker_counts {
    spn__counter completed, failed, expired;
    spn__counter started; /* with the one that runs; behind within a batch */
};

struct spn__worker {
    struct spn__list_node link; /* in pool->workers; guarded by pool->lock */
    struct spn_pool *pool;      /* fixed */
    /* The task the worker was made for, until it starts: worker.c, THE FIRST TASK.
     * relaxed: the making of the thread, or pool->lock, orders it. */
    SPN__ATOMIC(spn_task *) first;

    /* 1 from before the before-hook until after the after-hook; see run.c [stop]. */
    SPN__ATOMIC(uint32_t) running;
    /* Its thread's record; written before `running` is first 1, or `waiting`. */
    SPN__ATOMIC(struct spn_thread *) self;
    /* 1 while it waits in a queue of the user's. */
    SPN__ATOMIC(uint32_t) waiting;
    struct spn__worker_counts counts;

    /* Its thread's own. */
    bool searching;           /* counted in pool->searching */
    bool spun;                /* its last spin ended because there was something */
    bool let_run;             /* it let others run, and saw something then: idle.c */
    bool needed;              /* it was to leave, but what waits needs it: staff.c */
    bool counted_on;          /* and others wait for what it cannot see: the same */
    bool timed_out;           /* its last wait for work ended with the keep-alive */
    bool chosen_to_search;    /* by the waker, before the permit */
    bool free;                /* counted in work.free: hand-off only */
    bool in_task;             /* it runs one */
    bool stealing;            /* STEAL: between spn__worker_begin and _end: no task */
    const char *label;        /* of that one */
    uint32_t block_depth;     /* STEAL: of worker_block */
    uint32_t makes;           /* workers that its task is about to start */
    struct spn__spin spin;    /* see idle.c, as are the next two */
    uint32_t naps;            /* sleeps in a row that were over at once */
    struct spn__batch *batch; /* lanes.c; NULL elsewhere */
    void *place;              /* the source's; NULL without one */
    spn_task *given;          /* the task it found on its tray */

    /* The future it waits for, of this pool; guarded by pool->lock. */
    struct spn_future *waits_for;
    bool waits_timed; /* and goes on by itself; the same */

    /* Waiting for work; see idle.c. */
    struct spn__list_node idle_link; /* in pool->idle; guarded by pool->idle_lock */
    struct spn__parker parker;
};

/* TIMED: how much later than the next task is due the deputy looks, see idle.c.
 * More than what a timed sleep is late by itself, and what the leader then finds takes. */
#define SPN__STAND_BY SPN_US(200)

struct spn_pool {
    struct spn_executor executor; /* first: they are the same object */

    /* Fixed. */
    char *name;
    uint32_t id;      /* marks its tasks as queued here: see work_kinds.h */
    uint8_t kind;     /* spn__work_kind */
    bool plain_lanes; /* LANES, and no times of tasks are taken */
    bool handoff;     /* queue capacity 0 */
    bool eager;
    bool fixed;
    bool has_tray; /* tray.c */
    spn_thread_opts thread_opts;
    spn_pool_hooks hooks;

    /* Changed by reconfigure under `lock`; read by anybody, relaxed: a decision that
     * comes out one task too early or late is as good as any. */
    SPN__ATOMIC(int32_t) core, max;
    SPN__ATOMIC(int64_t) keep_alive_ns;
    SPN__ATOMIC(uint32_t) core_timeout;
    SPN__ATOMIC(uint32_t) paused;                    /* 0 or 1 [pause] */
    SPN__ATOMIC(const spn_reject_policy *) reject;   /* [knob] */
    SPN__ATOMIC(const spn_thread_factory *) factory; /* [knob] */
    struct spn__room room; /* read by every take: see room.h */

    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uint32_t) ctl; /* [ctl] */
    SPN__ATOMIC(int32_t) blocked; /* STEAL: workers inside worker_block [block] */
    SPN__ATOMIC(int32_t) waiting; /* workers with waits_for [stay] */
    SPN__ATOMIC(int32_t)
    staying; /* workers that wait for what is in a user's queue [stay] */
    SPN__ATOMIC(int64_t) submitted; /* eager only */
    /* Raised by whoever wants workers that wait to look around [wake]. */
    SPN__ATOMIC(uint32_t) epoch;

    /* Read by every submitter, and written when a worker lies down or is woken. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(int32_t) idle_count; /* [wake] */
    struct spn__lock idle_lock;                                /* guards idle; a leaf */
    struct spn__list idle; /* the one that came last first */
    int64_t wakeups;       /* guarded by idle_lock */
    /* TIMED: the idle worker that watches what is due next; written under idle_lock. */
    SPN__ATOMIC(struct spn__worker *) leader;
    /* The same for the deputy, and until when it sleeps; SPN_FOREVER: there is none. */
    SPN__ATOMIC(struct spn__worker *) deputy;
    SPN__ATOMIC(int64_t) deputy_ns;

    /* Written by every worker that looks for work and finds some: apart, so that
     * submitters do not lose the line above to it. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(int32_t) searching; /* [search] */

    /* What the worker that spins looks at, and how many tasks workers were given there;
     * see tray.c [tray], [given]. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(uintptr_t) tray;
    SPN__ATOMIC(int64_t) given;

    struct spn__work_queue work; /* see work.h; has its own locks and cache lines */

    _Alignas(SPN__CACHE_LINE) struct spn__lock lock; /* guards the rest; may be held
                                              when the leaves are taken */
    struct spn__list workers;
    int32_t live, largest;
    int32_t making;                /* of those, whose thread is not made yet */
    struct spn__waitq made;        /* for the end of that: nested.c */
    struct spn__waitq resumed;     /* workers with a first task: worker.c */
    struct spn__waitq awaiting;    /* termination */
    SPN__ATOMIC(int32_t) holds;    /* no workers, but inside: see hold [hold] */
    SPN__ATOMIC(int64_t) attached; /* stages that wait to be executed [attached] */
    SPN__ATOMIC(uint32_t) lapsed;  /* futures of queued tasks that were done [lapsed] */
    SPN__ATOMIC(uint32_t) swept;   /* `lapsed` at the last sweep */
    struct spn_thread *terminator; /* runs the terminated hook */
    SPN__ATOMIC(int32_t) process;  /* that has the workers; see spn__pool_is_orphan */
    uint32_t thread_number;        /* of the next thread's name */
    int64_t direct;                /* tasks accepted as the first of a worker */
    int64_t completed, failed, expired; /* of workers that are gone */
    int64_t cancelled, returned, discarded;
    int64_t threads_started, threads_failed, threads_died;
    int32_t many_threads; /* to be told of once, see staff.c; 0: that was done */

    /* By spn_refusal_reason; relaxed, as the next: only counts. */
    SPN__ATOMIC(int64_t) rejected[SPN_REFUSED_NO_THREAD + 1];
    SPN__ATOMIC(int64_t) no_memory; /* refused with SPN_ENOMEM */
    SPN__ATOMIC(int64_t) caller_ran;
    SPN__AUDIT_FIELD
};

/* A pool of the kind STEAL, which is no spn_pool to the outside: with another table of
 * operations and a source, borrowed. */
int spn__pool_create(spn_pool **out, const spn_pool_opts *opts,
                     const spn_executor_ops *ops, struct spn__source *source);

/* How many tasks it can have at most, in threads and in the queue; INT64_MAX: any number. */
SPN__SHARED int64_t spn__pool_places(spn_pool *pool);

static inline uint32_t spn__pool_state(struct spn_pool *pool)
{
    /* [ctl] acquire: with TERMINATED comes all that the tasks did. */
    return spn__ctl_state(spn__load(&pool->ctl, acquire));
}

/* In the child of a fork: whether the workers are the parent's, so that nobody runs tasks
 * here, nor says that the pool has ended. */
static inline bool spn__pool_is_orphan(struct spn_pool *pool)
{
    /* relaxed, both: a fork copies them, and they do not change in the child. */
    const uint32_t ctl = spn__load(&pool->ctl, relaxed);

    return (spn__ctl_count(ctl) != 0 ||
            spn__ctl_state(ctl) == SPN_EXECUTOR_TIDYING) && /* the last one is at it */
           spn__load(&pool->process, relaxed) != spn__os_process();
}

/* spn_pool_stats_get for a struct of this library, as SPN_POOL_STATS_INIT has it. */
void spn__pool_stats_fill(struct spn_pool *pool, spn_pool_stats *stats);

/* How far add_worker may go.  TO_SPARE: in STEAL as many more as stand in for blocked
 * workers; elsewhere the same as TO_MAX. */
enum spn__bound { SPN__TO_CORE, SPN__TO_MAX, SPN__TO_SPARE };

/*
 * Starts a worker, with a first task or without.  SPN_OK; SPN_EFULL (the bound is
 * reached); SPN_ESHUTDOWN; SPN_EAGAIN (no thread); SPN_ENOMEM.  On
 * error nothing is left of it.  No lock is held.
 */
int spn__pool_add_worker(struct spn_pool *pool, spn_task *first, enum spn__bound bound);

/* The same; without give_up, tasks that nobody will take are the caller's to see to. */
int spn__pool_add_worker_or(struct spn_pool *pool, spn_task *first,
                            enum spn__bound bound, bool give_up);

/* Starts as many workers as there would be had the tasks that wait come now: up to core,
 * or one, and for those that others wait for.  No lock is held, and the pool is kept from
 * its end. */
void spn__pool_staff(struct spn_pool *pool);

/* staff.c: how many workers there may be, with a bound. */
int32_t spn__pool_bound(struct spn_pool *pool, enum spn__bound bound);
/* Around what a source runs itself: the worker is busy, though with no task. */
void spn__worker_begin(struct spn__worker *worker);
void spn__worker_end(struct spn__worker *worker);
/* A task that was queued has been run by the worker out of its turn, and said `status`. */
void spn__worker_count(struct spn__worker *worker, int status);
/* STEAL: a task of the worker's blocks, and no longer does.  Pairs nest. */
void spn__worker_block(struct spn__worker *worker);
void spn__worker_unblock(struct spn__worker *worker);
/* STEAL: adds a worker if blocked ones leave work lying. */
void spn__pool_compensate(struct spn_pool *pool);
/* The worker that the calling thread is, of any pool, or NULL. */
struct spn__worker *spn__worker_current(void);

/*
 * tray.c
 *
 * give      for a submitter: whether a worker has the task now.
 * put_out, is_laden, take_in   for the worker that looks: whether it has the tray from now
 *           on; whether a task may be on it; and takes the tray back, true: with a task, in
 *           `given`.
 * given     how many were accepted that way.
 */
void spn__tray_init(struct spn_pool *pool);
bool spn__tray_give(struct spn_pool *pool, spn_task *task);
bool spn__tray_put_out(struct spn__worker *worker);
bool spn__tray_take_in(struct spn__worker *worker);
int64_t spn__tray_given(struct spn_pool *pool);

static inline bool spn__tray_is_laden(struct spn_pool *pool)
{
    return spn__load(&pool->tray, relaxed) > 1; /* a hint; take_in decides */
}

/* idle.c */
void spn__idle_init(struct spn_pool *pool);
/* There is new work: wakes a worker, unless one that is awake will look.  Comes after
 * the lock of the queue was let go of, where it has one. */
void spn__idle_notify(struct spn_pool *pool);
/* Waits for work.  Returns when there may be some, or `epoch` is no longer the
 * pool's; sets timed_out if the deadline came first. */
void spn__idle_wait(struct spn__worker *worker, uint32_t epoch, int64_t deadline_ns);
/* TIMED: there is a task that is due before all others. */
void spn__idle_notify_first(struct spn_pool *pool);
/* Whether a worker that looks now would find something it may start. */
bool spn__idle_work_waits(struct spn_pool *pool);
/* Raises the epoch and wakes everybody who waits, also in a queue of the user's.
 * pool->lock is held. */
void spn__idle_look_around(struct spn_pool *pool);
/* A worker that was searching has found a task, or must look elsewhere. */
void spn__idle_found(struct spn__worker *worker);

/* submit.c */
int spn__pool_execute(struct spn_pool *pool, spn_task *task);
/* One try without the policy: SPN_OK, or SPN_EFULL, SPN_ESHUTDOWN, SPN_EAGAIN,
 * SPN_ENOMEM, SPN_EBUSY, and the task is as before.  For policies that try again. */
int spn__pool_try_execute(struct spn_pool *pool, spn_task *task);
/* For who waits (room.c): with queue_only no thread is made for it, and SPN_EAGAIN says that
 * nobody else is there; *no_thread: one was to be made, and could not be. */
int spn__pool_try_again(struct spn_pool *pool, spn_task *task, bool queue_only,
                        bool *no_thread);

/* TIMED: the same as execute for a task that is due at due_ns, on the source's clock;
 * and what follows a push that asks no worker's leave. */
int spn__pool_execute_at(struct spn_pool *pool, spn_task *task, int64_t due_ns);
/* A function and its argument, without a node. */
int spn__pool_call_at(struct spn_pool *pool, spn_run_fn fn, void *arg, int64_t due_ns);
/* As spn_pool_create, with tasks kept by `source`. */
int spn__pool_create_timed(struct spn_pool **out, const spn_pool_opts *opts,
                           struct spn__work_source *source);

/* Tells whoever is to hear of it that a task has failed. */
void spn__pool_uncaught(struct spn_pool *pool, const spn_task_info *info);
/* A function and its argument: spn_executor_call. */
int spn__pool_call(struct spn_pool *pool, spn_run_fn fn, void *arg);

/* For tests that want the same names every time. */
void spn__pool_reset_numbers(void);

/* Whether a policy of any age, which is not NULL, can be used. */
static inline bool spn__reject_is_whole(const spn_reject_policy *policy)
{
    spn_reject_policy known;

    return spn__options_copy(&known, sizeof known, policy) == SPN_OK &&
           known.refused != NULL;
}
/* nested.c: operations of the executor, and whether all workers wait for tasks of
 * the pool; pool->lock is held. */
int spn__pool_wait_begin(spn_executor *executor, spn_task *task);
void spn__pool_wait_end(spn_executor *executor);
/* Of `count` workers, those that do not block; all of them in other kinds than STEAL. */
static inline int32_t spn__pool_serving(struct spn_pool *pool, int32_t count)
{
    return count - spn__load(&pool->blocked, relaxed); /* a hint, or after [block] */
}
/* `count` is how many there are. */
bool spn__pool_all_wait(struct spn_pool *pool, int32_t count);
/* The same for a worker that is about to leave: whether some of the others wait and the
 * rest, if there are any, are only being made, which may be in vain. */
bool spn__pool_leaves_waiting(struct spn_pool *pool, const struct spn__worker *worker);

/* shutdown.c: call with pool->lock held; returns true if the caller must finish
 * the termination with spn__pool_terminate, after unlocking. */
bool spn__pool_try_terminate(struct spn_pool *pool);
void spn__pool_terminate(struct spn_pool *pool);
/* Adds to a counter that `lock` guards. */
void spn__pool_count(struct spn_pool *pool, int64_t *counter, int64_t by);
/*
 * hold keeps the pool from its end until one of the others that follow lets go, for
 * whoever is not counted as a worker: before it takes tasks out of the queue, until they
 * are counted [hold], or under pool->lock, before it goes on outside it.
 *
 * left_queue  `taken` tasks, perhaps none, left the queue, counted in *counter, one of
 *             the pool's: there is room, and a pool that is shut down may be at its end.
 * cancel_end  the same for one that was taken out for the sake of its future, by a
 *             thread that may not be in a call on the pool.
 * staff_held  starts workers for what waits, or gives it up.
 */
void spn__pool_hold(struct spn_pool *pool);
/* The pool may end, and be gone, from here on. */
void spn__pool_release(struct spn_pool *pool);
/* A stage waits to be executed, and no longer: in between the pool may end, but not be
 * destroyed. */
void spn__pool_attach(struct spn_pool *pool);
void spn__pool_detach(struct spn_pool *pool);
void spn__pool_left_queue(struct spn_pool *pool, int64_t *counter, int64_t taken);
void spn__pool_cancel_end(struct spn_pool *pool);
void spn__pool_staff_held(struct spn_pool *pool);
/* Whether a worker that finds nothing to do may leave: a hint. */
bool spn__pool_may_shrink(struct spn_pool *pool);
/* The queue is full: drops the tasks whose future is done.  False: there can be none. */
bool spn__pool_sweep(struct spn_pool *pool);
/* There is work, no worker, and no thread to be had: drops what waits, SPN_EAGAIN. */
void spn__pool_give_up(struct spn_pool *pool);
/* A task will not reach a worker: before anybody else has it.  No lock is held. */
static inline void spn__pool_left(struct spn_pool *pool, const spn_task *task)
{
    if (__builtin_expect(pool->hooks.times != NULL, 0))
        spn__times_left(pool->hooks.times, task);
}
/* Counts what found no memory before there was a task. */
void spn__pool_no_memory(struct spn_pool *pool);
/* `by` eager tasks have come to their end. */
void spn__pool_settle(struct spn_pool *pool, int64_t by);

/* The executor's operations: see executor.h. */
int spn__pool_shutdown(struct spn_pool *pool);
int spn__pool_shutdown_now(struct spn_pool *pool, spn_unrun_fn unrun, void *ctx,
                           int64_t *count);
int spn__pool_await(struct spn_pool *pool, int64_t timeout_ns);
int spn__pool_remove(struct spn_pool *pool, spn_task *task);

/*
 * As spn_pool_reconfigure, where what to change depends on what there is: the rule fills
 * in *change from core and max, which stay so until the change is made.  It runs under the
 * pool's lock and only computes.  NULL: *change as it is.
 */
typedef void (*spn__pool_rule_fn)(int32_t core, int32_t max, spn_pool_change *change,
                                  const void *ctx);
int spn__pool_change_by(struct spn_pool *pool, spn_pool_change *change,
                        spn__pool_rule_fn rule, const void *ctx);
/* Why the capacity of a living pool cannot become this; NULL: it can. */
const char *spn__pool_capacity_problem(const struct spn_pool *pool, int32_t capacity);

#endif /* SPN__POOL_H */
