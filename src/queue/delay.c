/* SPDX-License-Identifier: MIT */
/*
 * delay.c - a queue whose items can be taken when they are due.
 *
 * OVERVIEW
 *   A heap by due time under one lock.  Of the consumers that wait while an item
 *   is on its way, one is the leader: it alone sleeps until the head is due.
 *   The others sleep until they are chosen.  Whoever stops being the leader, by
 *   taking an item, by giving up or because an earlier item came, sees to it
 *   that the next one looks (`pass_on`): as long as there are items and
 *   consumers, somebody wakes for the head.
 *
 *   Being chosen here means "look again", so a woken consumer takes the lock
 *   once more; `inside` keeps the queue from being destroyed under it.
 *
 * CLOCK
 *   On the monotonic clock the leader sleeps with a deadline.  A manual clock
 *   tells its listeners when it moves, and the queue then chooses the leader if
 *   the head has become due.
 *
 * LOCKS  `lock` guards everything but `count` for reading; a leaf, but for a
 *   visitor's put into another queue.
 */
#include "queue/store.h"

#include "base/time.h"
#include "sync/clock.h"
#include "sync/thread_record.h"
#include "sync/waitq.h"

struct delay_queue {
    struct spn_queue q;
    struct spn__lock lock;
    struct spn__waitq takers;
    struct spn__waiter *leader; /* among takers, or NULL */
    int32_t taker_count;        /* takers listed */
    int32_t inside;             /* threads in a wait, chosen ones included */
    bool closed;
    struct spn__store store;
    SPN__ATOMIC(int64_t) count;
    struct spn__clock_listener listener;
};

static struct delay_queue *delay_of(spn_queue *q)
{
    return (struct delay_queue *)(void *)q;
}

static bool due_less(const struct spn__store *s, const struct spn__kept *a,
                     const struct spn__kept *b)
{
    (void)s;
    return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->serial < b->serial);
}

static int64_t now_of(const struct delay_queue *d)
{
    return spn_clock_now(d->q.clock);
}

static void publish_count(struct delay_queue *d)
{
    spn__store(&d->count, (int64_t)d->store.count, relaxed); /* for onlookers */
}

static int64_t head_due(const struct delay_queue *d)
{
    return d->store.count != 0 ? d->store.cells[0].due_ns : SPN_FOREVER;
}

static bool head_is_due(const struct delay_queue *d)
{
    return d->store.count != 0 && head_due(d) <= now_of(d);
}

/* Chooses a consumer to look again, if there is something to look at and nobody
 * does; the end of a closed queue is something too.  The lock is held. */
static void pass_on(struct delay_queue *d, struct spn__chosen *chosen)
{
    if (d->leader == NULL && (d->store.count != 0 || d->closed) &&
        spn__waitq_choose_first(&d->takers, chosen))
        d->taker_count--;
}

/* Makes the leader look again: the head has changed. */
static void disturb(struct delay_queue *d, struct spn__chosen *chosen)
{
    struct spn__waiter *leader = d->leader;

    d->leader = NULL;
    if (leader != NULL && spn__waitq_choose(leader, chosen))
        d->taker_count--;
    else
        pass_on(d, chosen);
}

static void leave(struct delay_queue *d, struct spn__chosen *chosen)
{
    spn__unlock(&d->lock);
    spn__chosen_grant(chosen);
}

static void clock_moved(void *ctx)
{
    struct delay_queue *d = ctx;
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&d->lock);
    if (head_is_due(d))
        disturb(d, &chosen);
    leave(d, &chosen);
}

/* ---- insert ----------------------------------------------------------------- */

static int delay_insert(spn_queue *q, void *item, enum spn__end end,
                        struct spn__patience p)
{
    struct delay_queue *d = delay_of(q);
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__kept kept = { item, 0, d->q.due(item, d->q.ctx) };
    void *memory = NULL;
    size_t bytes = 0;

    (void)end;
    (void)p;
    spn__lock(&d->lock);
    kept.serial = d->store.next_serial++;
    for (;;) {
        if (d->closed) {
            spn__unlock(&d->lock);
            spn__free(memory);
            return SPN_ECLOSED;
        }
        if (spn__heap_push(&d->store, kept, due_less, &memory, bytes))
            break;
        bytes = spn__store_wants(&d->store);
        spn__unlock(&d->lock);
        spn__free(memory);
        memory = spn__alloc(bytes);
        if (memory == NULL)
            return SPN_ENOMEM;
        spn__lock(&d->lock);
    }
    publish_count(d);
    if (d->store.cells[0].serial == kept.serial)
        disturb(d, &chosen); /* it comes before what the leader waits for */
    leave(d, &chosen);
    spn__free(memory);
    return SPN_OK;
}

/* ---- remove ----------------------------------------------------------------- */

/* Takes the head if it is due; the lock is held. */
static void *take_due(struct delay_queue *d, struct spn__chosen *chosen)
{
    void *item;

    if (!head_is_due(d))
        return NULL;
    item = spn__heap_pop(&d->store, due_less).item;
    publish_count(d);
    pass_on(d, chosen);
    return item;
}

/* Makes a listed consumer the leader, if there is work for one and nobody is;
 * returns until when it sleeps.  The lock is held. */
static int64_t lead(struct delay_queue *d, struct spn__waiter *w, int64_t deadline_ns)
{
    if (d->leader != NULL || d->store.count == 0)
        return deadline_ns;
    d->leader = w;
    if (d->q.clock == spn_clock_monotonic() && head_due(d) < deadline_ns)
        return head_due(d);
    return deadline_ns;
}

/* One turn of waiting: as the leader until the head is due, else until chosen.
 * The lock is held before and after.  SPN_OK: look again. */
static int wait_turn(struct delay_queue *d, struct spn_thread *self,
                     int64_t deadline_ns)
{
    struct spn__waiter w;
    int64_t until_ns;
    int rc;

    spn__waitq_add(&d->takers, &w, self);
    d->taker_count++;
    until_ns = lead(d, &w, deadline_ns);
    spn__unlock(&d->lock);
    rc = spn__waitq_wait(&w, &d->lock, until_ns);
    if (rc == SPN_OK)
        spn__lock(&d->lock);
    else
        d->taker_count--;
    if (d->leader == &w)
        d->leader = NULL;
    /* The head's time has come, not ours. */
    if (rc == SPN_ETIMEDOUT && until_ns != deadline_ns)
        return SPN_OK;
    return rc;
}

static int delay_remove(spn_queue *q, void **item, enum spn__end end,
                        struct spn__patience p)
{
    struct delay_queue *d = delay_of(q);
    struct spn__chosen chosen = { NULL, NULL };
    struct spn_thread *self = NULL;
    int rc = SPN_OK;

    (void)end;
    if (!p.now) {
        self = spn__thread_self();
        if (self == NULL)
            return SPN_ENOMEM;
    }
    spn__lock(&d->lock);
    d->inside++;
    for (;;) {
        /* Not after an interrupt: it has used up the flag (G-12). */
        *item = rc != SPN_EINTR ? take_due(d, &chosen) : NULL;
        if (*item != NULL)
            rc = SPN_OK;
        else if (rc == SPN_OK && d->closed && d->store.count == 0)
            rc = SPN_ECLOSED;
        else if (p.now)
            rc = SPN_EEMPTY;
        else if (rc == SPN_OK) {
            rc = wait_turn(d, self, p.deadline_ns);
            continue;
        }
        break; /* with an item, or with the status that ended the wait */
    }
    if (*item == NULL)
        pass_on(d, &chosen); /* perhaps we were the leader */
    d->inside--;
    leave(d, &chosen);
    return rc;
}

/* ---- looking inside ------------------------------------------------------------ */

static void *delay_peek(spn_queue *q, enum spn__end end)
{
    struct delay_queue *d = delay_of(q);
    void *item;

    (void)end;
    spn__lock(&d->lock);
    item = d->store.count != 0 ? d->store.cells[0].item : NULL;
    spn__unlock(&d->lock);
    return item;
}

static void delay_walk(spn_queue *q, enum spn__end end, spn_queue_visit_fn visit,
                       void *ctx)
{
    struct delay_queue *d = delay_of(q);
    struct spn__chosen chosen = { NULL, NULL };

    (void)end;
    spn__lock(&d->lock);
    spn__heap_walk(&d->store, due_less, visit, ctx);
    publish_count(d);
    disturb(d, &chosen); /* the head may be another now */
    leave(d, &chosen);
}

static int64_t delay_size(const spn_queue *q)
{
    const struct delay_queue *d = (const struct delay_queue *)(const void *)q;

    return spn__load(&d->count, relaxed); /* a number, out of date already */
}

static int32_t delay_waiting_consumers(spn_queue *q)
{
    struct delay_queue *d = delay_of(q);
    int32_t count;

    spn__lock(&d->lock);
    count = d->taker_count;
    spn__unlock(&d->lock);
    return count;
}

/* ---- life ------------------------------------------------------------------ */

static void delay_close(spn_queue *q)
{
    struct delay_queue *d = delay_of(q);
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&d->lock);
    d->closed = true;
    d->leader = NULL;
    while (spn__waitq_choose_first(&d->takers, &chosen)) /* each looks again */
        d->taker_count--;
    leave(d, &chosen);
}

static bool delay_busy(spn_queue *q)
{
    struct delay_queue *d = delay_of(q);
    bool busy;

    spn__lock(&d->lock);
    busy = d->inside != 0;
    spn__unlock(&d->lock);
    return busy;
}

static void delay_release(spn_queue *q)
{
    struct delay_queue *d = delay_of(q);

    spn__clock_unlisten(d->q.clock, &d->listener);
    spn__free(d->store.cells);
    spn__free(d);
}

static const struct spn__queue_ops delay_ops = {
    .insert = delay_insert,
    .remove = delay_remove,
    .insert_many = spn__queue_insert_each,
    .remove_many = spn__queue_remove_each,
    .peek = delay_peek,
    .walk = delay_walk,
    .size = delay_size,
    .waiting_consumers = delay_waiting_consumers,
    .close = delay_close,
    .busy = delay_busy,
    .release = delay_release,
};

spn_queue *spn__queue_create_delay(const spn_queue_opts *o)
{
    struct delay_queue *d = spn__alloc(sizeof *d);

    if (d == NULL)
        return NULL;
    spn__queue_init(&d->q, SPN_QUEUE_DELAY, &delay_ops, o);
    if (d->q.clock == NULL)
        d->q.clock = spn_clock_monotonic();
    spn__lock_init(&d->lock);
    spn__waitq_init(&d->takers);
    d->leader = NULL;
    d->taker_count = d->inside = 0;
    d->closed = false;
    d->store = (struct spn__store){ .queue = &d->q };
    spn__init(&d->count, 0);
    spn__clock_listen(d->q.clock, &d->listener, clock_moved, d);
    return &d->q;
}
