/* SPDX-License-Identifier: MIT */
/* delays.h - tasks that wait until they are due, which a pool takes its tasks from; see
 * delays.c. */
#ifndef SPN__DELAYS_H
#define SPN__DELAYS_H

#include <spindle/clock.h>

#include "base/list.h"
#include "exec/work.h"
#include "sched/dues.h"
#include "sync/clock.h"
#include "sync/lock.h"
#include "sync/quick_lock.h"
#include "sync/seam.h"

/* spn_task.flags, of tasks that the scheduled executor has made: it wants to know when
 * they come and go; and they come back after they have run. */
#define SPN__TASK_TIED     0x80000000u
#define SPN__TASK_PERIODIC 0x40000000u

/* What has come and is not in order yet: see delays.c, THE INBOX. */
struct spn__arrival {
    int64_t due_ns;
    uint64_t sequence;
    struct spn__entry entry;
};
struct spn__delays_inbox {
    /* Guards the rest and writes of `pushed`; taken behind the queue's. */
    struct spn__quick_lock lock;
    bool closed; /* written with both */
    uint32_t used;
    uint32_t limit; /* of `used`: for so many there is room in the queue */
    uint32_t room;
    uint64_t sequence; /* the next one's */
    /* When the first of them is due.  SPN_FOREVER: none is.  Read by anybody [inbox]. */
    SPN__ATOMIC(int64_t) next;
    struct spn__arrival *arrivals;
    struct spn__arrival *moving; /* as large; guarded by the queue's lock */
};

struct spn__delays {
    struct spn__work_source source; /* first: they are the same object */
    spn_clock *clock;               /* fixed; borrowed */
    bool monotonic;                 /* fixed: that is what it is */
    struct spn__clock_listener listener;

    /* Fixed: whether a policy lets a task (NULL: a call) run after shutdown; the lock is
     * held. */
    bool (*allowed)(struct spn__delays *d, const spn_task *task, int64_t due_ns);

    _Alignas(SPN__CACHE_LINE) struct spn__delays_inbox inbox;

    /* Guards the rest; with the inbox's the door of the pool (work.c). */
    _Alignas(SPN__CACHE_LINE) struct spn__lock lock;
    uint32_t
        away; /* periodic tasks that were taken and may come back: room is theirs */
    /* When to look next, SPN_FOREVER: nothing waits.  Written under the lock; read by
     * anybody [next]. */
    SPN__ATOMIC(int64_t) next;
    /* A time that the monotonic clock has shown to whoever looked; INT64_MIN: none. */
    SPN__ATOMIC(int64_t) seen_ns;
    struct spn__dues dues;
};

void spn__delays_init(struct spn__delays *d, spn_clock *clock,
                      bool (*allowed)(struct spn__delays *, const spn_task *, int64_t));
/* From when there is a pool, until before it is gone: the clock tells when it moves. */
void spn__delays_listen(struct spn__delays *d);
void spn__delays_unlisten(struct spn__delays *d);
/* Nothing waits, and the pool is gone. */
void spn__delays_fini(struct spn__delays *d);

static inline int64_t spn__delays_now(const struct spn__delays *d)
{
    return d->monotonic ? spn__now() : spn_clock_now(d->clock);
}

/*
 * A periodic task comes back, to be due at due_ns.  False: it may not, the pool stops or
 * its future is done; then, as after spn__delays_stay_away, it is away no longer.  After
 * true the task may be gone.
 */
bool spn__delays_come_back(struct spn__delays *d, spn_task *task, int64_t due_ns);
void spn__delays_stay_away(struct spn__delays *d);

/* Takes a task out that is known to be alive: true if it waited here.  With `hold`, the
 * pool is then kept from its end until spn__pool_cancel_end. */
bool spn__delays_cut(struct spn__delays *d, spn_task *task, bool hold);
/* Up to `capacity` that are due, in order. */
size_t spn__delays_take_due(struct spn__delays *d, spn_task **tasks, size_t capacity);

/* Provided by future.c, for tied tasks.  entered: it is in the queue, or in its inbox, and
 * the lock of that is held.  left: somebody has taken it out, and not for the sake of its
 * future's outcome; `away`: to run it and bring it back.  No lock of the queue is held.
 * is_over: the future has an outcome; called after entered, the lock is held: true, and the
 * caller takes it out again. */
void spn__scheduled_entered(spn_task *task, int64_t due_ns);
void spn__scheduled_left(spn_task *task, bool away);
bool spn__scheduled_is_over(spn_task *task);
/* As the executor's new_task. */
int spn__scheduled_new_task(struct spn__work_source *source, struct spn_future **out,
                            int (*fn)(void *arg, void **result), void *arg,
                            const struct spn_future_opts *opts);

#endif /* SPN__DELAYS_H */
