/* SPDX-License-Identifier: MIT */
/* thread_record.h - what the library knows of a thread; see thread_record.c. */
#ifndef SPN__THREAD_RECORD_H
#define SPN__THREAD_RECORD_H

#include <spindle/thread.h>

#include "base/list.h"
#include "sync/blocks.h"
#include "sync/lock.h"
#include "sync/parker.h"
#include "sync/spin.h"
#include "sync/seam.h"
#include "sync/seam_stacks.h"
#include "sync/waitq.h"

/*
 * `life` packs who still needs the record, so that one atomic operation decides
 * who is the last:
 *
 *   bit 0      ALIVE: the thread itself
 *   bits 1..   the number of handles
 */
#define SPN__LIFE_ALIVE  UINT64_C(1)
#define SPN__LIFE_HANDLE UINT64_C(2)

struct spn_context;
struct spn__task_locals;
struct spn__group_frame;
struct spn__limiter_frame;

/* What is around the task that a thread runs: see future/ambient.h. */
struct spn__ambient {
    struct spn_context *context;     /* the current one; borrowed */
    struct spn_context *captured;    /* the task's: a reference, until its end */
    struct spn__task_locals *locals; /* NULL until the first is set */
    uint32_t depth;                  /* of tasks in tasks; 0: it runs none */
    bool used;                       /* one of the first three may be other than NULL */
};

/*
 * A task of the library's own that the thread runs, with a function of the program inside:
 * see spn__task_entered.
 */
struct spn__entered {
    void (*ended)(void *of, void *held);
    void *of, *held;
};
/* Tasks of the library's within each other that a thread keeps account of: a key's lane, a
 * limiter's slot, a message, its method and a future are five. */
#define SPN__ENTERED_MAX 8

/* How many seats a thread finds without looking through its list. */
#define SPN__SEAT_MEMOS 4

struct spn_thread {
    struct spn__parker parker;         /* every interruptible wait sleeps here */
    SPN__ATOMIC(uint32_t) interrupted; /* 0 or 1; see interrupt.h */
    SPN__ATOMIC(const void *) blocker; /* what it is parked with, for onlookers */
    SPN__ATOMIC(uint64_t) life;        /* see above */

    /* Written before the record is shared, then fixed. */
    bool foreign;   /* not made by the library */
    bool set_sched; /* ask for `sched` before fn, and answer through `started` */
    uint32_t sched; /* spn_thread_sched */
    int32_t priority;
    int32_t process; /* that has the thread, unless it is foreign; fixed */
    uint32_t signal; /* the one it lets through; 0: none */
    spn_thread_fn fn;
    void *arg;
    void (*on_start)(void *hook_arg);
    void (*on_stop)(void *hook_arg);
    void *hook_arg;
    spn__sigmask exec_mask; /* for programs it starts; unused in a foreign one */
    char name[SPN_THREAD_NAME_MAX + 1];

    spn__futex_word started; /* see thread.c; only with set_sched */

    struct spn__lock lock; /* guards the rest; a leaf */
    struct spn__waitq joiners;
    bool ended;        /* fn and on_stop have returned; final */
    bool reaping;      /* a joiner waits for the system's thread */
    bool reaped;       /* it is gone; final */
    bool detached;     /* nobody will wait for it; final */
    int result;        /* what fn returned; fixed once ended */
    spn__os_thread os; /* fixed once create has returned */

    bool stays; /* the thread's own: nothing it calls may end it (seam_guard.c) */

    /* The thread's own, for src/future: the innermost function it was called to
     * run, and the stage it is just handing to an executor. */
    struct spn__call *call;
    struct spn__hand_over *hand_over;
    struct spn_executor_frame *executing; /* see spn_executor_enter; NULL: nobody's */
    bool waits_timed; /* the wait that its executor is being told of has a deadline */
    struct spn__ambient ambient;
    struct spn__group_frame *groups; /* for exec/group.c: whose tasks it is running */
    struct spn__limiter_frame *limiter; /* for exec/limiter.c: what it hands over */
    struct spn__spin spin;              /* with futures: see future/wait.c */
    uint32_t number; /* counts records as they are made: spreads threads evenly */
    struct spn__worker *worker; /* the same, for src/exec: the worker it is */
    struct spn__entered entered[SPN__ENTERED_MAX];
    uint32_t entered_count; /* also of those that found no room */

    /* Its places in objects; see seat.c. */
    struct spn__lock seat_lock; /* guards seats; a leaf, made once */
    struct spn__list seats;
    struct {
        SPN__ATOMIC(const void *) of; /* see spn__seat_recall */
        struct spn__seat *seat;       /* the thread's own */
    } seat_memos[SPN__SEAT_MEMOS];
    unsigned seat_memo_next; /* the thread's own */

    struct spn__blocks blocks; /* small blocks it keeps for its next need */

    struct spn__os_note note;     /* from create to its end, if not foreign */
    struct spn_thread *next_free; /* guarded by the cache's lock */
};

/* The records nobody uses, and what else is one per process. */
struct spn__thread_cache {
    SPN__ATOMIC(uint32_t) fork_hook; /* 1: see spn__thread_install_fork_hook */
    struct spn__lock lock;           /* guards the rest; a leaf */
    struct spn_thread *free;
    uint32_t made; /* records ever made; guarded by lock */
};
extern struct spn__thread_cache spn__thread_cache;

/*
 * Sees to it that the child of a fork can use the library: that no thread it
 * does not have holds the cache, and that it has the signal mask programs are to
 * start with.  Before the first record is made; false: no memory.
 */
bool spn__thread_install_fork_hook(void);

/* A record with ALIVE and `handles` handles; NULL when there is no memory. */
struct spn_thread *spn__thread_record_create(uint64_t handles);

/* Puts back a record that no thread and no handle uses. */
void spn__thread_record_recycle(struct spn_thread *record);

/* The calling thread's record, attaching a foreign thread; NULL: no memory. */
SPN__SHARED struct spn_thread *spn__thread_self(void);

/*
 * Around a call of the program's inside a task of the library's own.  If the call ends the
 * thread, and the thread is a pool's worker, the worker's root frame calls ended(of, held)
 * for each task that was entered and not left, innermost first (exec/worker.c).  The stack
 * is gone by then: `of` and `held` must not point to it.  self may be NULL.
 */
static inline void spn__task_entered(struct spn_thread *self,
                                     void (*ended)(void *of, void *held), void *of,
                                     void *held)
{
    if (self == NULL)
        return;
    if (self->entered_count < SPN__ENTERED_MAX)
        self->entered[self->entered_count] = (struct spn__entered){ ended, of, held };
    self->entered_count++;
}

static inline void spn__task_left(struct spn_thread *self)
{
    if (self != NULL)
        self->entered_count--;
}

/* Whether a factory, which is not NULL, can be used. */
static inline bool spn__factory_is_whole(const spn_thread_factory *factory)
{
    return factory->size >= sizeof *factory && factory->create != NULL;
}

/* Has it make a thread: SPN_OK, SPN_ENOMEM or, whatever else it says, SPN_EAGAIN.  What
 * is full or shut down is said by whoever asked, and he would believe it. */
int spn__thread_make(const spn_thread_factory *factory, spn_thread **out,
                     spn_thread_opts *opts, spn_thread_fn fn, void *arg);

/* The thread of this record is gone; its handles may live on. */
void spn__thread_record_leave(void *record);

/* A thread that ends gives up its seats; see seat.c. */
void spn__seats_leave(struct spn_thread *record);

/* Gives the free records back to the allocator: for tests that look for leaks,
 * at a time when no thread can be about to wake one that has ended. */
void spn__thread_cache_drain(void);

#endif /* SPN__THREAD_RECORD_H */
