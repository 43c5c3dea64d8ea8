/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the fork/join pool from inside; see pool.c for the whole, and
 *
 *   deque.c      records: what nests as calls do
 *   pool.c       the pool: its life, and its face as an executor
 *   source.c     places, stealing, who is asked for work
 *   quiet.c      quiescence
 *   queue.c      objects that wait in workers' queues
 *   task.c       objects: states and ends; task_run.c, task_wait.c
 */
#ifndef SPN__FORKJOIN_POOL_H
#define SPN__FORKJOIN_POOL_H

#include "forkjoin/deque.h"

#include "exec/pool.h"
#include "sync/lock.h"
#include "sync/thread_record.h"
#include "sync/waitq.h"

/* spn_fj_task.sequence, as what it is: see task.c. */
typedef SPN__ATOMIC(uint64_t) spn__fj_sequence;

/* Objects and tasks that a worker forked; see queue.c. */
struct spn__fj_queue {
    struct spn__lock lock; /* guards the list and writes of the rest; a leaf */
    struct spn__list tasks;
    uint64_t sequence; /* of the next object */
    /* Ever; relaxed: each is a count [count], or looked at after a fence [wake]. */
    SPN__ATOMIC(int64_t) pushed, popped;
};

/* A task that was taken out of a queue and runs, and those that wait for it; see quiet.c. */
struct spn__fj_stand {
    struct spn__fj_stand *outer;
    uint32_t helpers; /* inside it, that help the pool to rest; guarded by help_lock */
};

/*
 * Where a worker has its records and objects.  It outlives the worker and is given to the
 * next: thieves look at it at any time.
 */
struct spn__fj_place {
    struct spn__deque deque;  /* first: they are the same address */
    struct spn_fj_pool *pool; /* fixed; NULL: not of a pool */
    int32_t index;            /* fixed */
    /* 1 while its worker runs what may fork records; relaxed: whoever begins looks
     * whether somebody is hungry, see arm. */
    SPN__ATOMIC(uint32_t) active;
    struct spn__fj_queue queue;
    struct spn__worker *worker; /* its own thread's; NULL: nobody has it */
    uint32_t depth;             /* of objects in objects; its own thread's */
    void *run;                  /* the innermost object it runs; likewise: see task.c */
    struct spn__fj_stand
        *stand; /* the innermost task it runs out of its turn; likewise */
    struct spn__fj_stand
        bottom; /* the one that it runs in its turn                     */
    bool taken; /* a worker has it; guarded by the pool's lock          */
    SPN__ATOMIC(struct spn__fj_place *) next; /* [places] */
};

struct spn_fj_pool {
    struct spn__source source; /* first: they are the same address */
    struct spn_pool *pool;     /* threads, submissions, the end */
    bool async;
    uint32_t records;
    size_t stack_reserve;

    SPN__ATOMIC(struct spn__fj_place *) places; /* [places] */
    struct spn__lock lock;                      /* guards the list's end, and `taken` */
    struct spn__fj_place *last;
    int32_t place_count;

    /* 1: no thread was to be had; until the next root.  relaxed: a hint. */
    SPN__ATOMIC(uint32_t) staff_failed;
    /* How many tasks stand still because somebody inside them helps the pool to rest;
     * written with the lock, read without as a hint. */
    struct spn__lock help_lock;
    SPN__ATOMIC(int64_t) quiescing;

    struct spn__lock quiet_lock; /* guards the waiters; taken after none */
    struct spn__waitq quiet;
    SPN__ATOMIC(int32_t) quiet_waiters; /* [quiet] */
};

/* The place of the calling thread, if it is a worker inside a task; NULL: it is none. */
struct spn__fj_place *spn__fj_place_current(void);

/* source.c */
extern const struct spn__source spn__fj_source;
static inline struct spn_fj_pool *spn__fj_pool_of_source(struct spn__source *source)
{
    return (struct spn_fj_pool *)(void *)source;
}
static inline struct spn__fj_place *spn__fj_first_place(struct spn_fj_pool *fj)
{
    return spn__load(&fj->places, acquire); /* [places] */
}
static inline struct spn__fj_place *spn__fj_next_place(struct spn__fj_place *place)
{
    return spn__load(&place->next, acquire); /* [places] */
}
/* The place of the calling thread if it is a worker of this pool. */
struct spn__fj_place *spn__fj_place_in(struct spn_fj_pool *fj);
/* Asks everybody who may have records. */
void spn__fj_ask_all(struct spn_fj_pool *fj, const struct spn__fj_place *except);
/* The worker blocks: another stands in for it, and whoever has work shares. */
void spn__fj_block(struct spn__fj_place *place);
/* There is something to be taken: wakes or makes who may take it. */
void spn__fj_signal(struct spn_fj_pool *fj);
/* A place that is of no pool, for a call outside of all; NULL: no memory. */
struct spn__fj_place *spn__fj_place_alone(void);
void spn__fj_place_free(struct spn__fj_place *place);

/* quiet.c: something has left the pool: whoever waits for quiescence may want to know. */
void spn__fj_settled(struct spn_fj_pool *fj);
/* What a worker is in: of what it runs, or of the root whose record it has stolen; NULL:
 * nothing that counts. */
struct spn__fj_stand *spn__fj_stand_of(struct spn__fj_place *place);

/* queue.c */
void spn__fj_queue_init(struct spn__fj_queue *q);
int64_t spn__fj_queue_size(struct spn__fj_queue *q);
/* Takes in a task that is claimed. */
void spn__fj_queue_push(struct spn__fj_place *place, spn_task *task);
/* The one at the end or the beginning, taken out; NULL: empty. */
spn_task *spn__fj_queue_take(struct spn__fj_place *place, bool newest);
/* Takes a task out that waits there; false if it does not. */
bool spn__fj_queue_remove(struct spn__fj_place *place, spn_task *task);
/* The oldest or the newest of which wanted says so, which is called with the lock
 * held. */
spn_task *spn__fj_queue_take_if(struct spn__fj_place *place,
                                bool (*wanted)(spn_task *, void *), void *ctx);
int64_t spn__fj_queue_collect(struct spn__fj_place *place,
                              bool (*wanted)(spn_task *, const void *), const void *ctx,
                              struct spn__list *out);
int64_t spn__fj_queue_snapshot(struct spn__fj_place *place, spn_task **tasks,
                               size_t capacity);

/* task.c: an object behind a task, or NULL: it is another's. */
spn_fj_task *spn__fj_task_of(spn_task *task);
/* Runs a task that was taken out of a queue out of its turn. */
void spn__fj_run_queued(struct spn__fj_place *place, spn_task *task);

#endif /* SPN__FORKJOIN_POOL_H */
