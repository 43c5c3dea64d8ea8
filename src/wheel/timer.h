/* SPDX-License-Identifier: MIT */
/*
 * timer.h - the inside of a timer: shards, running callbacks, and what timer.c and stop.c
 * (life), timeout.c (scheduling, cancelling), fire.c (passes, callbacks, executors) and
 * timer_stats.c share.
 */
#ifndef SPN__TIMER_H
#define SPN__TIMER_H

#include <spindle/timer.h>

#include "base/list.h"
#include "base/log.h"
#include "sync/audit.h"
#include "sync/clock.h"
#include "sync/lock.h"
#include "sync/parker.h"
#include "sync/quick_lock.h"
#include "sync/seam.h"
#include "sync/seam_stacks.h"
#include "sync/waitq.h"
#include "wheel/reckon.h"
#include "wheel/wheel.h"

struct spn_thread;
struct spn__slabs;

/* What has become of a timeout: node.spare, written under its shard's lock. */
enum {
    /* SPN_TIMEOUT_NEW to SPN_TIMEOUT_CANCELLED, and expired, but its run is to arm it
     * again: still its timer's. */
    SPN__TIMEOUT_REPEATING = SPN_TIMEOUT_CANCELLED + 1
};

typedef SPN__ATOMIC(uint32_t) spn__timeout_state;

static inline spn__timeout_state *spn__state_of(const spn_timeout *t)
{
    return (spn__timeout_state *)(uintptr_t)&t->node.spare;
}

/* relaxed, both: the lock orders what those with the lock do, and the predicates
 * promise nothing but the word. */
static inline uint32_t spn__state_get(const spn_timeout *t)
{
    return spn__load(spn__state_of(t), relaxed);
}

static inline void spn__state_set(spn_timeout *t, uint32_t state)
{
    spn__store(spn__state_of(t), state, relaxed); /* as above */
}

static inline spn_timeout *spn__timeout_of(spn_wheel_node *node)
{
    return (spn_timeout *)(void *)node; /* its first member */
}

/* `policy` of a periodic timeout: spn_missed, STOP, and the largest burst. */
#define SPN__POLICY_MISSED      UINT32_C(3)
#define SPN__POLICY_STOP        UINT32_C(4)
#define SPN__POLICY_BURST_SHIFT 8

/* Of the library's own timeouts: OWNED is part of a struct spn__owned; HANDLE is a handle
 * (handle.c), with its number in the slab, and keeps something else where others have
 * their function, home and period. */
#define SPN__POLICY_OWNED       UINT32_C(8)
#define SPN__POLICY_HANDLE      UINT32_C(16)
#define SPN__POLICY_INDEX_SHIFT 8

static inline bool spn__timeout_is_periodic(const spn_timeout *t)
{
    return t->period_ns > 0 && (t->policy & SPN__POLICY_HANDLE) == 0;
}

/* The shard that is its home, or NULL; a handle's slab knows its shard instead.  Written
 * under that shard's lock, but read without by whoever is to find it.  relaxed, both: a
 * name, and never another shard's while somebody may ask; what is in the timeout is ordered
 * by the lock. */
typedef SPN__ATOMIC(void *) spn__timeout_home;

static inline struct spn__shard *spn__home_get(const spn_timeout *t)
{
    return spn__load((spn__timeout_home *)(uintptr_t)&t->home, relaxed);
}

static inline void spn__home_set(spn_timeout *t, struct spn__shard *s)
{
    spn__store((spn__timeout_home *)(uintptr_t)&t->home, s, relaxed); /* as above */
}

/*
 * A callback that runs, on the stack of the thread that runs it: after its function
 * was entered the timeout itself may be gone, so nothing about the run is kept there.
 */
struct spn__run {
    struct spn__list_node link; /* guarded by the shard's lock, as all below */
    spn_timeout *timeout;       /* a name; touched only if periodic and not gone; NULL:
                                   a hook is called, and no callback */
    struct spn_thread *thread;
    spn_timeout_fn fn;
    int32_t
        tid; /* instead, of a thread for which there was no record: there may be later */
    bool periodic;
    bool gone;      /* cancelled or scheduled anew since it started */
    bool inherited; /* its place of max_pending is that of the new schedule */
    int status;
};

/* One of the calling thread, whose record may be none. */
static inline struct spn__run spn__run_make(struct spn_thread *self)
{
    return (struct spn__run){ .thread = self, .tid = self == NULL ? spn__os_tid() : 0 };
}

/* Whether it is the calling thread's. */
static inline bool spn__run_is_own(const struct spn__run *run,
                                   const struct spn_thread *self)
{
    return run->thread != NULL ? run->thread == self : run->tid == spn__os_tid();
}

/* Lateness in buckets an eighth of a power of two wide. */
enum { SPN__LATE_BUCKETS = 488 };

struct spn__shard {
    /* Guards all of it, but `pending` for reading, and `idle`. */
    _Alignas(SPN__CACHE_LINE) struct spn__quick_lock lock;
    bool stopped;
    struct spn_timer *timer; /* fixed; in this line, as is_ours reads it */
    struct spn_wheel *wheel;
    uint64_t known;        /* the tick at which the timer will look at us again */
    spn_wheel_link firing; /* due, for whoever runs callbacks; a ring, place DUE */
    SPN__ATOMIC(int64_t) pending;
    uint64_t armed, fired, cancelled, replaced, returned, rejected, failed, missed;
    struct spn__list running;   /* struct spn__run */
    struct spn__lock idle_lock; /* guards the next line; after `lock`, a leaf */
    struct spn__waitq idle;     /* those who wait for a run to end */
    int32_t waiting;            /* how many they are, on their way out included; of
                                   cancel_sync also guests, until they are out */
    spn__futex_word guests;     /* the library's own timeouts that somebody has not left
                                   yet, and GUESTS_AWAITED [guests] */
    struct spn__reckoning reckoning;
    int64_t late_max_ns;
    uint64_t late[SPN__LATE_BUCKETS];
};

/* A task for the executor: takes what is in `firing`, one by one. */
struct spn__runner {
    spn_task task;
    struct spn_timer *timer;
    struct spn__runner *next_free; /* guarded by exec_lock, as the next two */
    struct spn_thread *spreader;   /* that is a runner too, and in the call that hands
                                      this one over; or NULL */
    uint32_t turn;                 /* how often it was handed over */
};

enum { SPN__TIMER_NEW, SPN__TIMER_STARTED, SPN__TIMER_STOPPED };

struct spn_timer {
    /* Fixed by create. */
    struct spn__shard *shards;
    uint32_t shard_mask;
    uint32_t drive;
    bool manual, limited, unreported, fast_clock;
    int fd; /* SPN_TIMER_FD, else -1 */
    int64_t tick_ns, max_pending;
    spn_clock *clock;
    spn_executor *executor;
    void (*on_failure)(void *ctx, int status);
    void (*wake)(void *ctx);
    void *ctx;
    const spn_thread_factory *factory; /* NULL: none, spn_thread_create */
    spn_thread_opts thread_opts;
    uint32_t *cpus;
    struct spn__runner *runners;
    struct spn__clock_listener listener;
    struct spn__slabs *slabs; /* of handles */

    SPN__ATOMIC(uint32_t) state; /* see timer.c */
    struct spn__lock life_lock;  /* guards changes of state, and what follows */
    /* The timer's own, or NULL.  Others only compare it with themselves. */
    SPN__ATOMIC(struct spn_thread *) thread;
    SPN__ATOMIC(int32_t) process; /* that started it; see spn__timer_is_orphan */
    int32_t stopping;             /* threads in stop */
    bool collected;               /* what was left is taken out, or is about to be */
    spn__futex_word telling;      /* 1: and owners are being told of it [told] */
    struct spn__log_limit failures, refusals;

    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(int64_t) wake_ns; /* [wake] */
    struct spn__parker parker;               /* what the thread sleeps with */
    struct spn__lock alarm_lock;             /* guards setting fd to wake_ns; a leaf */
    SPN__ATOMIC(struct spn_thread *) driver; /* the thread in run, or NULL */
    SPN__ATOMIC(uint64_t) passes;

    /* Taken of max_pending; a line of its own, and used only if there is a limit. */
    _Alignas(SPN__CACHE_LINE) SPN__ATOMIC(int64_t) taken;

    _Alignas(SPN__CACHE_LINE) struct spn__lock exec_lock; /* guards the rest; a leaf */
    struct spn__runner *free_runners;
    uint32_t runners_queued; /* handed over and not begun */
    uint32_t runners_out;    /* handed over and not ended */
    bool wanted;             /* all were out when something was due */
    bool doomed;             /* destroyed, but for the last runner to come back */
    uint64_t refused;

    struct spn_timer *census_next, **census_link; /* guarded by the census's lock */
    char name[SPN_THREAD_NAME_MAX + 1];
    SPN__AUDIT_FIELD
};

/* The timers there are: for two messages, too many timers and forgotten ones. */
struct spn__timer_census {
    struct spn__lock lock;
    struct spn_timer *first;
    uint32_t live;
    bool warned;
};
extern struct spn__timer_census spn__timer_census;

static inline int64_t spn__timer_now(const struct spn_timer *timer)
{
    return timer->manual ? spn_clock_now(timer->clock) : spn__now();
}

/* Lets the pending count of a shard follow; its lock is held. */
static inline void spn__shard_count(struct spn__shard *s, int64_t change)
{
    /* relaxed: written under the lock; readers want a number. */
    spn__store(&s->pending, spn__load(&s->pending, relaxed) + change, relaxed);
}

/* Lists the calling thread among those who wait for a run to end; the lock is held. */
static inline void spn__shard_enlist(struct spn__shard *s, struct spn__waiter *w,
                                     struct spn_thread *self)
{
    spn__lock(&s->idle_lock);
    spn__waitq_add(&s->idle, w, self);
    spn__unlock(&s->idle_lock);
    s->waiting++;
}

#define SPN__GUESTS_AWAITED (UINT32_C(1) << 31)

/* Whoever ended a guest is through with the timer, which may be gone after this. */
static inline void spn__shard_guest_leaves(struct spn__shard *s)
{
    if (spn__fetch_sub(&s->guests, 1, release) ==
        (SPN__GUESTS_AWAITED | 1)) /* [guests] */
        spn__futex_wake(&s->guests, INT32_MAX);
}

/* Gives back a place of max_pending. */
static inline void spn__timer_release(struct spn_timer *timer)
{
    if (timer->limited)
        /* relaxed: a number that admits or does not; nothing comes with it. */
        (void)spn__fetch_sub(&timer->taken, 1, relaxed);
}

/* Files a timeout that is not linked; true: earlier than the timer will look, so call
 * spn__timer_notify with *wake_ns once the shard's lock is released. */
static inline bool spn__shard_link(struct spn__shard *s, spn_timeout *t,
                                   int64_t *wake_ns)
{
    const uint64_t tick = spn__wheel_link(s->wheel, &t->node);

    if (tick >= s->known)
        return false;
    s->known = tick;
    *wake_ns = spn__wheel_time_of(s->wheel, tick);
    return true;
}

/* A timeout in a struct of the library's. */
struct spn__owned {
    spn_timeout timeout; /* first: the callback is given this */
    /* The timer has stopped, and its time will not come.  No lock is held. */
    void (*returned)(struct spn__owned *owned);
};

/* timeout.c: as spn_timer_schedule, for a timeout that was never scheduled. */
int spn__timer_schedule_owned(struct spn_timer *timer, struct spn__owned *owned,
                              spn_timeout_fn fn, int64_t delay_ns);
/* The same for a handle of the shard, whose fields are written already. */
int spn__timer_schedule_handle(struct spn__shard *s, spn_timeout *t, int64_t delay_ns);
/* Schedules a handle once more, if spn__handle_check lets it.  The caller is a guest. */
int spn__timer_schedule_again(struct spn__shard *s, spn_timeout *t, int64_t delay_ns);
/* Takes out a handle that waits; false: it does not. */
bool spn__timer_take_out(struct spn__shard *s, spn_timeout *t);
/* Has a handle that waits be due now, as if it were cancelled and scheduled in one step.
 * False: the timer is stopped, and it was only cancelled. */
bool spn__timer_bring_forward(struct spn__shard *s, spn_timeout *t);
/* With fast_clock, before anything that is due is taken out: looks at the clock, and sees
 * to it that nothing that was filed by a wrong time is early.  The lock is held. */
int64_t spn__shard_look(struct spn__shard *s);
/* The number of the shard the calling thread adds to. */
uint32_t spn__timer_own_shard(const struct spn_timer *timer);

/* timer.c.  In the child of a fork: whether the threads that run its callbacks are the
 * parent's. */
bool spn__timer_is_orphan(struct spn_timer *timer);
/* Frees a timer that was stopped, and that nobody can touch any more. */
void spn__timer_free(struct spn_timer *timer);
/* SPN_OK once the timer is started, or why it is not. */
int spn__timer_start(struct spn_timer *timer);

/* stop.c: spn_timer_stop without a list for handles, but callbacks are waited for until the
 * deadline only, interruptibly: SPN_ETIMEDOUT, SPN_EINTR (the flag is cleared): no callback
 * begins any more, but what is left was not taken out, and the timer cannot be destroyed;
 * stop it again.  A callback on the timer's own thread is waited for all the same. */
int spn__timer_stop_until(struct spn_timer *timer, spn_timeout **left,
                          int64_t deadline_ns);

static inline int spn__timer_ensure_started(struct spn_timer *timer)
{
    /* relaxed: only that there is somebody to wake; what that needs was made by create. */
    if (spn__load(&timer->state, relaxed) == SPN__TIMER_STARTED)
        return SPN_OK;
    return spn__timer_start(timer);
}

/*
 * handle.c.
 * check: SPN_OK if it has expired, and may be scheduled again; else why not.  With the
 *        shard's lock held SPN_OK stays true.
 * rearm: it is pending again, after SPN_OK of check and under the same lock.
 * No lock is held for the rest:
 * expired: its time has come, or it was cancelled and brought forward.
 * give_back: the timer has stopped, and stop's caller gets the handle with the timer's
 *        reference.  False: it was cancelled before, which is to be told by returned.
 * returned: the timer has stopped, and nobody gets the handle.
 */
int spn__handle_check(const spn_timeout *t);
void spn__handle_rearm(spn_timeout *t);
int spn__handle_expired(spn_timeout *t);
bool spn__handle_give_back(spn_timeout *t);
int spn__handle_returned(spn_timeout *t);

/* fire.c.  call: calls fn(t) here, as a callback of the shard: stop waits for it, and is
 * refused in it.  The shard must stay until this returns, the timeout need not. */
void spn__timer_call(struct spn__shard *s, spn_timeout *t, spn_timeout_fn fn);
void spn__timer_notify(struct spn_timer *timer, int64_t wake_ns);
/* Sets the descriptor, if there is one, to wake_ns; of a timer that was stopped, to never. */
void spn__timer_set_alarm(struct spn_timer *timer);
void spn__timer_clock_moved(void *timer);
int spn__timer_main(void *timer);
int spn__runner_run(spn_task *task);
void spn__runner_drop(spn_task *task, int reason);

/* Adds up how late callbacks were, by buckets as in fire.c; timer_stats.c. */
/* Compares the inside of the timer with what it should be, one shard after the other;
 * SPN_ESTATE if a timeout was moved, freed or written while it was pending, which is
 * logged. */
int spn__timer_check(struct spn_timer *timer);
void spn__timer_late(struct spn_timer *timer, uint64_t late[SPN__LATE_BUCKETS]);

#endif /* SPN__TIMER_H */
