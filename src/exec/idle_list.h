/* SPDX-License-Identifier: MIT */
/*
 * idle_list.h - workers that found nothing to do, and who wakes them; see idle_list.c.
 *
 * The owner of the list is a work source.  It says whether something waits, and has a
 * lock that every push takes (the push lock).
 */
#ifndef SPN__IDLE_LIST_H
#define SPN__IDLE_LIST_H

#include "base/list.h"
#include "exec/entry.h"
#include "sync/lock.h"
#include "sync/parker.h"
#include "sync/spin.h"

/* A worker's part.  Plain fields: guarded by the list's lock while the worker is on the
 * list, and the worker's own from the permit on [permit]. */
struct spn__idler {
    struct spn__list_node link;
    struct spn__parker parker;
    struct spn__entry slot;       /* what it was given; fn NULL: nothing */
    bool waking;                  /* it was woken to look, and has not yet */
    SPN__ATOMIC(uint32_t) popped; /* 1: off the list; a hint for one that spins */
    bool spins;                   /* it is the spinner; its own, as is the next */
    struct spn__spin spin;
};

struct spn__idle_list {
    SPN__ATOMIC(int32_t) listed;    /* workers on the list [wake] */
    SPN__ATOMIC(uint32_t) spinning; /* 1: `spinner` is not NULL; a hint */
    SPN__ATOMIC(uint32_t) epoch;    /* [epoch] */
    struct spn__lock lock;          /* guards the rest; a leaf */
    bool waking;                    /* a worker is; see [search] */
    bool closed;                    /* nothing is given any more */
    struct spn__list idlers;        /* the one that came last first */
    struct spn__idler *spinner;     /* on the list, and looks for its permit */
    int64_t given, wakeups;         /* so far */
    bool (*any)(void *source);      /* fixed: whether something waits */
    void (*pass)(void *source);     /* fixed: takes and releases the push lock */
    void *source;
};

void spn__idle_list_init(struct spn__idle_list *l, bool (*any)(void *source),
                         void (*pass)(void *source), void *source);
void spn__idler_init(struct spn__idler *w);

/* LOOK: something may wait.  GIVEN: *entry is the worker's. */
enum spn__idle_end {
    SPN__IDLE_LOOK,
    SPN__IDLE_GIVEN,
    SPN__IDLE_EXPIRED,
    SPN__IDLE_RECHECK
};

/*
 * Sleeps until something may wait, the worker is given an entry, the deadline comes, or
 * the epoch is not `epoch`.  After LOOK the worker calls found before it runs what it
 * takes or turns to anything else but this call.  No lock is held.
 */
enum spn__idle_end spn__idle_list_wait(struct spn__idle_list *l, struct spn__idler *w,
                                       uint32_t epoch, int64_t deadline_ns,
                                       struct spn__entry *entry);

/* The worker has found an entry, or looks no more: wakes the next if more waits. */
void spn__idle_list_found(struct spn__idle_list *l, struct spn__idler *w);

/* Gives the entry to the worker that spins, or with `sleepers` to any on the list;
 * false: there is none.  The push lock is not held. */
bool spn__idle_list_give(struct spn__idle_list *l, struct spn__entry entry,
                         bool sleepers);

void spn__idle_list_wake_one(struct spn__idle_list *l);

/* After a push, when the push lock was released: wakes a worker, unless one is about to
 * look. */
static inline void spn__idle_list_notify(struct spn__idle_list *l)
{
    /* relaxed: ordered by the push lock [wake]. */
    if (__builtin_expect(spn__load(&l->listed, relaxed) != 0, 0))
        spn__idle_list_wake_one(l);
}

/* From its return nothing is given. */
void spn__idle_list_close(struct spn__idle_list *l);

/* Raises the epoch.  A source that has a take lock passes it after that, and then: */
void spn__idle_list_raise(struct spn__idle_list *l);
/* Wakes everybody; nobody with an older epoch is listed from now on. */
void spn__idle_list_wake_all(struct spn__idle_list *l);

#endif /* SPN__IDLE_LIST_H */
