/* SPDX-License-Identifier: MIT */
/*
 * subjects.h - small concurrent objects with planted mistakes, for
 * test_planted.c.  Each object takes a `bug`: 0 is the correct form, the others
 * are mistakes that people make.  None of this is the library's code.
 */
#ifndef SIM_SUBJECTS_H
#define SIM_SUBJECTS_H

#include "sync/seam.h"

#include <stdbool.h>
#include <string.h>

/* ---- parker: one permit, one owner ------------------------------------------ */

enum { PARKER_OK, PARKER_DROPS_PERMIT, PARKER_NO_LOOP, PARKER_RELAXED };
enum { EMPTY, PERMIT, PARKED };

struct parker {
    spn__futex_word state;
    int bug;
};

static inline void parker_init(struct parker *p, int bug)
{
    spn__init(&p->state, EMPTY);
    p->bug = bug;
}

/* True when a permit was taken. */
static inline bool parker_take(struct parker *p)
{
    if (p->bug == PARKER_RELAXED)
        return spn__exchange(&p->state, EMPTY, relaxed) == PERMIT;
    return spn__exchange(&p->state, EMPTY, acquire) == PERMIT;
}

static inline bool parker_park(struct parker *p, int64_t deadline_ns)
{
    uint32_t expected = EMPTY;

    if (parker_take(p))
        return true;
    if (!spn__cas(&p->state, &expected, PARKED, relaxed, relaxed))
        return parker_take(p); /* the permit came meanwhile */
    for (;;) {
        const enum spn__futex_result end =
            spn__futex_wait(&p->state, PARKED, deadline_ns);

        if (end == SPN__EXPIRED) {
            if (p->bug == PARKER_DROPS_PERMIT) {
                spn__store(&p->state, EMPTY, relaxed);
                return false;
            }
            return parker_take(p);
        }
        if (p->bug == PARKER_NO_LOOP) { /* takes a spurious wake for a permit */
            (void)parker_take(p);
            return true;
        }
        if (spn__load(&p->state, relaxed) == PERMIT)
            return parker_take(p);
    }
}

static inline void parker_unpark(struct parker *p)
{
    if (spn__exchange(&p->state, PERMIT, release) == PARKED)
        spn__futex_wake(&p->state, 1);
}

/* ---- lock: a futex word, 0 free, 1 held, 2 held with sleepers ------------------ */

enum { LOCK_OK, LOCK_SLEEPER_TAKES_AS_1, LOCK_RELAXED_UNLOCK };

struct lock {
    spn__futex_word word;
    int bug;
};

static inline void lock_init(struct lock *l, int bug)
{
    spn__init(&l->word, 0);
    l->bug = bug;
}

static inline void lock_take(struct lock *l)
{
    uint32_t expected = 0;

    if (spn__cas(&l->word, &expected, 1, acquire, relaxed))
        return;
    for (;;) {
        /* One who has slept must take it as 2: there may be more sleepers, and
         * unlock wakes only when it sees 2. */
        if (l->bug == LOCK_SLEEPER_TAKES_AS_1) {
            expected = 0;
            if (spn__cas(&l->word, &expected, 1, acquire, relaxed))
                return;
            expected = 1;
            (void)spn__cas(&l->word, &expected, 2, relaxed, relaxed);
        } else if (spn__exchange(&l->word, 2, acquire) == 0) {
            return;
        }
        (void)spn__futex_wait(&l->word, 2, SPN_FOREVER);
    }
}

static inline void lock_drop(struct lock *l)
{
    uint32_t old;

    if (l->bug == LOCK_RELAXED_UNLOCK)
        old = spn__exchange(&l->word, 0, relaxed);
    else
        old = spn__exchange(&l->word, 0, release);
    if (old == 2)
        spn__futex_wake(&l->word, 1);
}

/* ---- queue: a ring under a lock; takers wait on parkers ------------------------ */

enum { QUEUE_OK, QUEUE_NO_RECHECK, QUEUE_EDGE_ONLY, QUEUE_TIMEOUT_EATS };
enum { QUEUE_CAPACITY = 8, QUEUE_WAITERS = 4 };

struct queue {
    struct lock lock;
    int items[QUEUE_CAPACITY]; /* this and the rest: guarded by lock */
    unsigned head, count, waiting;
    struct parker *waiters[QUEUE_WAITERS];
    int bug;
};

static inline void queue_init(struct queue *q, int bug)
{
    memset(q, 0, sizeof *q);
    lock_init(&q->lock, LOCK_OK);
    q->bug = bug;
}

static inline void queue_forget(struct queue *q, unsigned index)
{
    q->waiting--;
    for (; index < q->waiting; index++)
        q->waiters[index] = q->waiters[index + 1];
}

static inline void queue_put(struct queue *q, int item)
{
    struct parker *first = NULL;

    lock_take(&q->lock);
    q->items[(q->head + q->count) % QUEUE_CAPACITY] = item;
    /* The edge from empty is not enough: two puts may precede the first taker. */
    if (q->waiting != 0 && (q->bug != QUEUE_EDGE_ONLY || q->count == 0)) {
        first = q->waiters[0];
        queue_forget(q, 0);
    }
    q->count++;
    lock_drop(&q->lock);
    if (first != NULL)
        parker_unpark(first);
}

static inline bool queue_pop(struct queue *q, int *item)
{
    bool found;

    lock_take(&q->lock);
    found = q->count != 0;
    if (found) {
        *item = q->items[q->head++ % QUEUE_CAPACITY];
        q->count--;
    }
    lock_drop(&q->lock);
    return found;
}

/* Leaves the list; false when a producer has chosen us already. */
static inline bool queue_leave(struct queue *q, const struct parker *me)
{
    bool listed = false;

    lock_take(&q->lock);
    for (unsigned i = 0; i < q->waiting && !listed; i++) {
        if (q->waiters[i] == me) {
            queue_forget(q, i);
            listed = true;
        }
    }
    lock_drop(&q->lock);
    return listed;
}

/* False: the deadline passed. */
static inline bool queue_take(struct queue *q, int *item, int64_t deadline_ns)
{
    struct parker me;

    parker_init(&me, PARKER_OK);
    for (;;) {
        if (queue_pop(q, item))
            return true;
        lock_take(&q->lock);
        if (q->bug != QUEUE_NO_RECHECK && q->count != 0) {
            lock_drop(&q->lock);
            continue;
        }
        q->waiters[q->waiting++] = &me;
        lock_drop(&q->lock);
        if (parker_park(&me, deadline_ns))
            continue;
        if (queue_leave(q, &me))
            return false;
        /* Chosen while timing out: the wake-up is on its way to this frame, and
         * the item it announced is for us to take. */
        (void)parker_park(&me, SPN_FOREVER);
        if (q->bug == QUEUE_TIMEOUT_EATS)
            return false;
        return queue_pop(q, item);
    }
}

/* ---- hand-off to an idle worker: each side writes, then looks ------------------- */

enum { HANDOFF_OK, HANDOFF_NO_FENCE, HANDOFF_BOTH_LIGHT, HANDOFF_ASYMMETRIC };

struct handoff {
    SPN__ATOMIC(uint32_t) work;
    SPN__ATOMIC(uint32_t) idle;
    struct parker parker;
    int bug;
};

static inline void handoff_init(struct handoff *h, int bug)
{
    spn__init(&h->work, 0);
    spn__init(&h->idle, 0);
    parker_init(&h->parker, PARKER_OK);
    h->bug = bug;
}

static inline void handoff_submit(struct handoff *h)
{
    spn__store(&h->work, 1, release);
    if (h->bug == HANDOFF_OK)
        spn__fence(seq_cst);
    else if (h->bug != HANDOFF_NO_FENCE)
        spn__fence_light();
    if (spn__load(&h->idle, relaxed) != 0)
        parker_unpark(&h->parker);
}

static inline void handoff_await(struct handoff *h)
{
    for (;;) {
        spn__store(&h->idle, 1, relaxed);
        if (h->bug == HANDOFF_OK)
            spn__fence(seq_cst);
        else if (h->bug == HANDOFF_BOTH_LIGHT)
            spn__fence_light();
        else if (h->bug == HANDOFF_ASYMMETRIC)
            spn__fence_heavy();
        if (spn__load(&h->work, acquire) != 0)
            return;
        (void)parker_park(&h->parker, SPN_FOREVER);
    }
}

/* ---- work-stealing deque of Chase and Lev, a ring of four -------------------------- */

enum {
    DEQUE_OK,
    DEQUE_POP_NO_CAS,
    DEQUE_POP_NO_FENCE,
    DEQUE_STEAL_READS_LATE,
    DEQUE_PUSH_RELAXED,
    DEQUE_POP_RELAXED,
    DEQUE_STEAL_RELAXED
};
enum { DEQUE_EMPTY = 0, DEQUE_LOST = -1, DEQUE_SLOTS = 4 };

struct deque {
    SPN__ATOMIC(int64_t) top, bottom;
    SPN__ATOMIC(int) slots[DEQUE_SLOTS];
    int bug;
};

static inline void deque_init(struct deque *d, int bug)
{
    spn__init(&d->top, 0);
    spn__init(&d->bottom, 0);
    for (int i = 0; i < DEQUE_SLOTS; i++)
        spn__init(&d->slots[i], 99);
    d->bug = bug;
}

static inline bool deque_push(struct deque *d, int item)
{
    const int64_t bottom = spn__load(&d->bottom, relaxed);

    if (bottom - spn__load(&d->top, acquire) >= DEQUE_SLOTS)
        return false;
    spn__store(&d->slots[bottom % DEQUE_SLOTS], item, relaxed);
    if (d->bug == DEQUE_PUSH_RELAXED)
        spn__store(&d->bottom, bottom + 1, relaxed);
    else
        spn__store(&d->bottom, bottom + 1, release);
    return true;
}

/* A thief may read bottom from a pop, so pop publishes the pushes too. */
static inline void deque_set_bottom(struct deque *d, int64_t bottom)
{
    if (d->bug == DEQUE_POP_RELAXED)
        spn__store(&d->bottom, bottom, relaxed);
    else
        spn__store(&d->bottom, bottom, release);
}

static inline int deque_pop(struct deque *d)
{
    const int64_t bottom = spn__load(&d->bottom, relaxed) - 1;
    int64_t top;
    int item;

    deque_set_bottom(d, bottom);
    if (d->bug != DEQUE_POP_NO_FENCE)
        spn__fence(seq_cst);
    top = spn__load(&d->top, relaxed);
    if (top > bottom) {
        deque_set_bottom(d, bottom + 1);
        return DEQUE_EMPTY;
    }
    item = spn__load(&d->slots[bottom % DEQUE_SLOTS], relaxed);
    if (top == bottom) { /* the last one: thieves want it too */
        if (d->bug == DEQUE_POP_NO_CAS)
            spn__store(&d->top, top + 1, seq_cst);
        else if (!spn__cas(&d->top, &top, top + 1, seq_cst, relaxed))
            item = DEQUE_EMPTY;
        deque_set_bottom(d, bottom + 1);
    }
    return item;
}

static inline int deque_steal(struct deque *d)
{
    int64_t top = spn__load(&d->top, acquire), bottom;
    int item = DEQUE_EMPTY;

    spn__fence(seq_cst);
    if (d->bug == DEQUE_STEAL_RELAXED)
        bottom = spn__load(&d->bottom, relaxed);
    else
        bottom = spn__load(&d->bottom, acquire);
    if (top >= bottom)
        return DEQUE_EMPTY;
    if (d->bug != DEQUE_STEAL_READS_LATE)
        item = spn__load(&d->slots[top % DEQUE_SLOTS], relaxed);
    if (!spn__cas(&d->top, &top, top + 1, seq_cst, relaxed))
        return DEQUE_LOST;
    if (d->bug == DEQUE_STEAL_READS_LATE)
        item = spn__load(&d->slots[top % DEQUE_SLOTS], relaxed);
    return item;
}

/* ---- stack of Treiber: nodes are freed by whoever pops ------------------------------ */

enum { STACK_OK, STACK_ABA };
enum { STACK_NODES = 3 };

/* Nodes are array indices; the head carries a count of pushes against ABA. */
struct stack {
    SPN__ATOMIC(uint64_t) head;              /* count << 32 | index + 1 */
    SPN__ATOMIC(uint32_t) next[STACK_NODES]; /* index + 1, 0: none      */
    int bug;
};

static inline void stack_init(struct stack *s, int bug)
{
    spn__init(&s->head, 0);
    for (int i = 0; i < STACK_NODES; i++)
        spn__init(&s->next[i], 0);
    s->bug = bug;
}

static inline uint64_t stack_tagged(const struct stack *s, uint64_t old, uint32_t index)
{
    return s->bug == STACK_ABA ? index : ((old >> 32) + 1) << 32 | index;
}

static inline void stack_push(struct stack *s, uint32_t index)
{
    uint64_t old = spn__load(&s->head, relaxed);

    do
        spn__store(&s->next[index - 1], (uint32_t)old, relaxed);
    while (
        !spn__cas_weak(&s->head, &old, stack_tagged(s, old, index), release, relaxed));
}

static inline uint32_t stack_pop(struct stack *s)
{
    uint64_t old = spn__load(&s->head, acquire);
    uint32_t next;

    do {
        if ((uint32_t)old == 0)
            return 0;
        next = spn__load(&s->next[(uint32_t)old - 1], relaxed);
    } while (
        !spn__cas_weak(&s->head, &old, stack_tagged(s, old, next), acquire, acquire));
    return (uint32_t)old;
}

/* ---- pool whose idle workers leave after a while -------------------------------------- */

enum { POOL_OK, POOL_LEAVES_WORK };

struct pool {
    struct lock lock;
    int queued, idle, workers, ran; /* guarded by lock */
    bool stopped;
    spn__futex_word event;
    spn__os_thread threads[8];
    int started;
    int64_t keep_alive_ns;
    int bug;
};

static inline void pool_init(struct pool *p, int bug, int64_t keep_alive_ns)
{
    memset(p, 0, sizeof *p);
    lock_init(&p->lock, LOCK_OK);
    spn__init(&p->event, 0);
    p->keep_alive_ns = keep_alive_ns;
    p->bug = bug;
}

static inline void *pool_work(void *arg)
{
    struct pool *p = arg;

    lock_take(&p->lock);
    for (;;) {
        while (p->queued != 0) {
            p->queued--;
            lock_drop(&p->lock); /* here the task would run */
            lock_take(&p->lock);
            p->ran++;
        }
        if (p->stopped)
            break;
        const uint32_t event = spn__load(&p->event, relaxed);
        enum spn__futex_result end;

        p->idle++;
        lock_drop(&p->lock);
        end = spn__futex_wait(&p->event, event, spn__now() + p->keep_alive_ns);
        lock_take(&p->lock);
        p->idle--;
        /* Work may have come between the time-out and the lock. */
        if (end == SPN__EXPIRED && (p->queued == 0 || p->bug == POOL_LEAVES_WORK))
            break;
    }
    p->workers--;
    lock_drop(&p->lock);
    return NULL;
}

/* False when there is no thread to run it and none to be had. */
static inline bool pool_submit(struct pool *p)
{
    const struct spn__os_thread_attr attr = { .block_signals = true };
    bool accepted = true;

    lock_take(&p->lock);
    p->queued++;
    if (p->idle >= p->queued) {
        (void)spn__fetch_add(&p->event, 1, relaxed);
        spn__futex_wake(&p->event, 1);
    } else if (spn__os_thread_create(&p->threads[p->started], &attr, pool_work, p) ==
               SPN_OK) {
        p->started++;
        p->workers++;
    } else if (p->workers == 0) {
        p->queued--;
        accepted = false;
    }
    lock_drop(&p->lock);
    return accepted;
}

/* ---- an object of two allocations ------------------------------------------------------ */

enum { PAIR_OK, PAIR_LEAKS, PAIR_FREES_TWICE };

struct pair {
    int *first, *second;
};

static inline struct pair *pair_create(int bug)
{
    struct pair *pair = spn__alloc(sizeof *pair);

    if (pair == NULL)
        return NULL;
    pair->first = spn__alloc(sizeof *pair->first);
    pair->second = spn__alloc(sizeof *pair->second);
    if (pair->first != NULL && pair->second != NULL)
        return pair;
    if (bug != PAIR_LEAKS)
        spn__free(pair->first);
    spn__free(pair->second);
    if (bug == PAIR_FREES_TWICE && pair->first == NULL)
        spn__free(pair->second);
    spn__free(pair);
    return NULL;
}

static inline void pair_destroy(struct pair *pair)
{
    if (pair == NULL)
        return;
    spn__free(pair->first);
    spn__free(pair->second);
    spn__free(pair);
}

/* ---- an object that goes with its last reference --------------------------------------- */

enum { COUNTED_OK, COUNTED_NO_RELEASE, COUNTED_NO_ACQUIRE };

struct counted {
    SPN__ATOMIC(int) references;
    SPN__ATOMIC(int) value;
};

/* Uses it, drops a reference, frees it if that was the last. */
static inline void counted_use_and_drop(struct counted *c, int bug)
{
    int left;

    spn__store(&c->value, 1, relaxed);
    if (bug == COUNTED_NO_RELEASE)
        left = spn__fetch_sub(&c->references, 1, acquire);
    else if (bug == COUNTED_NO_ACQUIRE)
        left = spn__fetch_sub(&c->references, 1, release);
    else
        left = spn__fetch_sub(&c->references, 1, acq_rel);
    if (left == 1)
        spn__free(c);
}

#endif /* SIM_SUBJECTS_H */
