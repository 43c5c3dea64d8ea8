/* SPDX-License-Identifier: MIT */
/*
 * monitor.c - queues with one lock: fair array, priority, synchronous, transfer
 * and deque.  They differ in where items are kept (store.h) and in little else.
 *
 * OVERVIEW
 *   Items and threads meet under the lock.  A producer that finds a consumer
 *   waiting gives it the item; a consumer that makes room lets the first waiting
 *   producer's item in.  So a thread that is woken is done: it does not take the
 *   lock again, and it may destroy the queue.  It follows:
 *
 *     consumers wait only while nothing can be taken, producers only while
 *     there is no room (in a synchronous queue: while there is nobody opposite);
 *     so nobody is overtaken.
 *
 *   A transfer queue keeps the item of a waiting producer in its list with the
 *   producer as `owner`; whoever takes the item takes it from the owner.
 *
 * ORDER OF WAITERS  first come first, but in an unfair synchronous queue the
 *   last comes first: it is the most likely to be still on its CPU.
 *
 * SPINNING  Who waits in a synchronous or transfer queue waits for a thread, and
 *   that may be on its way: it looks for as long as the options say (contract S-3).
 *   The other kinds wait for an item or for room, which may be long in coming, and
 *   look for a short while.  With one CPU nobody can come while another looks: if
 *   whoever creates the queue is bound to one CPU, the process is taken to have no
 *   other until a waiter is met elsewhere.
 *
 * LOCKS  `lock` guards everything but `count`, which it guards for writing; a
 *   leaf, but for a visitor's put into another queue.
 */
#include "queue/store.h"

#include "base/assert.h"
#include "sync/thread_record.h"
#include "sync/waitq.h"

/* A waiting thread, on its own stack: what it gives or gets. */
struct spn__hand {
    struct spn__waiter w;
    void *item;
    enum spn__end end; /* a producer's */
    int status;        /* what the wait comes to once it is granted */
};

struct monitor {
    struct spn_queue q;
    struct spn__lock lock;
    struct spn__waitq takers, putters; /* putters: the owners in a transfer queue */
    int32_t taker_count;               /* takers listed */
    bool closed;
    int32_t spins_timed, spins_untimed; /* the options'; fixed */
    SPN__ATOMIC(int32_t) only_cpu;      /* see SPINNING; -1: there are several */
    struct spn__store store;
    SPN__ATOMIC(int64_t) count; /* store.count, for those without the lock */
};

static struct monitor *monitor_of(spn_queue *q)
{
    return (struct monitor *)(void *)q;
}

static struct spn__hand *hand_of(struct spn__waiter *w)
{
    return (struct spn__hand *)(void *)((char *)w - offsetof(struct spn__hand, w));
}

static size_t room(const struct monitor *m)
{
    if (m->q.kind == SPN_QUEUE_SYNCHRONOUS)
        return 0;
    return m->q.capacity == INT32_MAX ? SIZE_MAX
                                      : (size_t)m->q.capacity - m->store.count;
}

static void publish_count(struct monitor *m)
{
    /* relaxed: a number for onlookers. */
    spn__store(&m->count, (int64_t)m->store.count, relaxed);
}

/* ---- the stores behind one face ------------------------------------------ */

static bool compare_less(const struct spn__store *s, const struct spn__kept *a,
                         const struct spn__kept *b)
{
    const int order = s->queue->compare(a->item, b->item, s->queue->ctx);

    return order < 0 || (order == 0 && a->serial < b->serial);
}

static bool push(struct monitor *m, void *item, enum spn__end end,
                 struct spn__hand *owner, void **memory, size_t bytes)
{
    struct spn__store *s = &m->store;
    bool pushed;

    switch (m->q.kind) {
    case SPN_QUEUE_ARRAY:
        pushed = spn__array_push(s, item);
        break;
    case SPN_QUEUE_PRIORITY: {
        const struct spn__kept kept = { item, s->next_serial++, 0 };
        pushed = spn__heap_push(s, kept, compare_less, memory, bytes);
        break;
    }
    default:
        pushed = spn__list_store_push(s, item, end, owner, memory);
        break;
    }
    return pushed;
}

/* The first from `end` that can be had: in a transfer queue an item whose
 * producer is just withdrawing it cannot. */
static struct spn__kept_node *takeable(struct monitor *m, enum spn__end end,
                                       struct spn__chosen *chosen)
{
    struct spn__list_node *node =
        end == SPN__FIRST ? m->store.nodes.head.next : m->store.nodes.head.prev;

    while (node != &m->store.nodes.head) {
        struct spn__kept_node *n = spn__list_entry(node, struct spn__kept_node, link);

        if (n->owner == NULL)
            return n;
        n->owner->status = SPN_OK; /* seen only once it is granted */
        if (spn__waitq_choose(&n->owner->w, chosen))
            return n;
        node = end == SPN__FIRST ? node->next : node->prev;
    }
    return NULL;
}

/* Takes an item out of the store, or NULL. */
static void *pop(struct monitor *m, enum spn__end end, struct spn__chosen *chosen)
{
    struct spn__kept_node *node;
    void *item;

    if (m->store.count == 0)
        return NULL;
    switch (m->q.kind) {
    case SPN_QUEUE_ARRAY:
        return spn__array_pop(&m->store);
    case SPN_QUEUE_PRIORITY:
        return spn__heap_pop(&m->store, compare_less).item;
    default:
        node = takeable(m, end, chosen);
        if (node == NULL)
            return NULL;
        item = node->item;
        spn__list_store_remove(&m->store, node);
        return item;
    }
}

/* ---- both sides, with the lock held ------------------------------------- */

/* Gives an item to the first consumer that waits; false: nobody does. */
static bool hand_over(struct monitor *m, void *item, struct spn__chosen *chosen)
{
    struct spn__hand *taker;

    if (!spn__waitq_choose_first(&m->takers, chosen))
        return false;
    taker = hand_of(chosen->last);
    taker->item = item;
    taker->status = SPN_OK;
    m->taker_count--;
    return true;
}

/* Room was made: lets waiting producers' items in.  The store has the memory:
 * something of the same size has just left. */
static void admit(struct monitor *m, struct spn__chosen *chosen)
{
    while (m->q.kind != SPN_QUEUE_TRANSFER && room(m) > 0 &&
           spn__waitq_choose_first(&m->putters, chosen)) {
        struct spn__hand *putter = hand_of(chosen->last);
        const bool pushed = push(m, putter->item, putter->end, NULL, NULL, 0);

        spn__assert(pushed);
        putter->status = SPN_OK;
    }
}

/* Takes an item from the store or straight from a producer's hand, or NULL. */
static void *take_out(struct monitor *m, enum spn__end end, struct spn__chosen *chosen)
{
    void *item = pop(m, end, chosen);

    if (item != NULL) {
        admit(m, chosen);
        publish_count(m);
        return item;
    }
    if (m->q.kind == SPN_QUEUE_SYNCHRONOUS &&
        spn__waitq_choose_first(&m->putters, chosen)) {
        hand_of(chosen->last)->status = SPN_OK;
        return hand_of(chosen->last)->item;
    }
    return NULL;
}

/* Puts an item in or into a consumer's hand.  SPN_OK, SPN_ECLOSED, SPN_EFULL,
 * or SPN_ENOMEM: bring spn__store_wants bytes. */
static int put_in(struct monitor *m, void *item, enum spn__end end, void **memory,
                  size_t bytes, struct spn__chosen *chosen)
{
    if (m->closed)
        return SPN_ECLOSED;
    if (hand_over(m, item, chosen))
        return SPN_OK;
    if (room(m) == 0)
        return SPN_EFULL;
    if (!push(m, item, end, NULL, memory, bytes))
        return SPN_ENOMEM;
    publish_count(m);
    return SPN_OK;
}

static void leave(struct monitor *m, struct spn__chosen *chosen, void *memory)
{
    spn__unlock(&m->lock);
    spn__chosen_grant(chosen);
    spn__free(memory);
}

/* Replaces *memory by what the store wants now; the lock is held, and let go of
 * meanwhile. */
static bool get_memory(struct monitor *m, void **memory, size_t *bytes)
{
    const size_t wanted = spn__store_wants(&m->store);

    spn__unlock(&m->lock);
    spn__free(*memory);
    *memory = spn__alloc(wanted);
    *bytes = wanted;
    if (*memory == NULL)
        return false;
    spn__lock(&m->lock);
    return true;
}

/* ---- waiting -------------------------------------------------------------- */

/* Lists a thread among those on its side; the lock is held. */
static void enlist(struct monitor *m, struct spn__waitq *q, struct spn__hand *hand,
                   struct spn_thread *self)
{
    hand->w.wants = 0;
    if (m->q.kind == SPN_QUEUE_SYNCHRONOUS && !m->q.fair)
        spn__waitq_add_first(q, &hand->w, self);
    else
        spn__waitq_add(q, &hand->w, self);
}

/* Whether looking is of no use.  relaxed: a hint, which only ever changes to -1. */
static bool on_one_cpu(struct monitor *m)
{
    const int32_t only = spn__load(&m->only_cpu, relaxed);

    if (only == -1)
        return false;
    if (spn__os_cpu() == only)
        return true;
    spn__store(&m->only_cpu, -1, relaxed);
    return false;
}

/* How often to look before sleeping; see the public header. */
static int32_t rounds_for(struct monitor *m, bool timed)
{
    const int32_t told = timed ? m->spins_timed : m->spins_untimed;

    if (told != 0)
        return told == -1 ? 0 : told;
    if (on_one_cpu(m))
        return 0;
    if (m->q.kind == SPN_QUEUE_SYNCHRONOUS || m->q.kind == SPN_QUEUE_TRANSFER)
        return timed ? 32 : 512;
    return SPN__SPIN_LIMIT;
}

/* A hand-over that comes within a few microseconds is not worth a sleep. */
static int await_hand(struct monitor *m, struct spn__hand *hand, int64_t deadline_ns)
{
    return spn__waitq_wait_spinning(&hand->w, &m->lock, deadline_ns,
                                    rounds_for(m, deadline_ns != SPN_FOREVER));
}

static int monitor_insert(spn_queue *q, void *item, enum spn__end end,
                          struct spn__patience p)
{
    struct monitor *m = monitor_of(q);
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__hand hand = { .item = item, .end = end };
    struct spn_thread *self;
    void *memory = NULL;
    size_t bytes = 0;
    int rc;

    spn__lock(&m->lock);
    while ((rc = put_in(m, item, end, &memory, bytes, &chosen)) == SPN_ENOMEM)
        if (!get_memory(m, &memory, &bytes))
            return SPN_ENOMEM;
    if (rc != SPN_EFULL || p.now) {
        leave(m, &chosen, memory);
        return rc;
    }
    self = spn__thread_self();
    if (self == NULL) {
        leave(m, &chosen, memory);
        return SPN_ENOMEM;
    }
    enlist(m, &m->putters, &hand, self);
    leave(m, &chosen, memory);
    rc = await_hand(m, &hand, p.deadline_ns);
    if (rc == SPN_OK)
        return hand.status; /* the queue may be gone */
    spn__unlock(&m->lock);
    return rc;
}

static int monitor_remove(spn_queue *q, void **item, enum spn__end end,
                          struct spn__patience p)
{
    struct monitor *m = monitor_of(q);
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__hand hand = { .item = NULL };
    struct spn_thread *self;
    int rc;

    spn__lock(&m->lock);
    *item = take_out(m, end, &chosen);
    if (*item != NULL || p.now || m->closed) {
        const bool closed = m->closed;
        leave(m, &chosen, NULL);
        if (*item != NULL)
            return SPN_OK;
        return closed ? SPN_ECLOSED : SPN_EEMPTY;
    }
    self = spn__thread_self();
    if (self == NULL) {
        leave(m, &chosen, NULL);
        return SPN_ENOMEM;
    }
    enlist(m, &m->takers, &hand, self);
    m->taker_count++;
    leave(m, &chosen, NULL);
    rc = await_hand(m, &hand, p.deadline_ns);
    if (rc == SPN_OK) {
        *item = hand.item;
        return hand.status; /* the queue may be gone */
    }
    m->taker_count--;
    spn__unlock(&m->lock);
    return rc;
}

/* Whatever fits under one hold of the lock; then, with patience, one waits. */
static int monitor_insert_many(spn_queue *q, void *const *items, size_t count,
                               struct spn__patience p, size_t *done)
{
    struct monitor *m = monitor_of(q);

    *done = 0;
    for (;;) {
        struct spn__chosen chosen = { NULL, NULL };
        void *memory = NULL;
        size_t bytes = 0;
        int rc = SPN_OK;

        spn__lock(&m->lock);
        while (*done < count) {
            rc = put_in(m, items[*done], SPN__LAST, &memory, bytes, &chosen);
            if (rc == SPN_OK)
                (*done)++;
            else if (rc != SPN_ENOMEM)
                break;
            else if (!get_memory(m, &memory, &bytes)) {
                spn__chosen_grant(&chosen);
                return SPN_ENOMEM;
            }
        }
        leave(m, &chosen, memory);
        if (rc != SPN_EFULL || p.now)
            return rc;
        rc = monitor_insert(q, items[*done], SPN__LAST, p);
        if (rc != SPN_OK)
            return rc;
        (*done)++;
    }
}

static int monitor_remove_many(spn_queue *q, void **items, size_t capacity,
                               struct spn__patience p, size_t *count)
{
    struct monitor *m = monitor_of(q);
    struct spn__chosen chosen = { NULL, NULL };
    int rc;

    spn__lock(&m->lock);
    for (*count = 0; *count < capacity; (*count)++) {
        items[*count] = take_out(m, SPN__FIRST, &chosen);
        if (items[*count] == NULL)
            break;
    }
    leave(m, &chosen, NULL);
    if (*count > 0)
        return SPN_OK;
    /* Woken with one item it does not ask for more: the queue may be gone. */
    rc = monitor_remove(q, &items[0], SPN__FIRST, p);
    *count = rc == SPN_OK;
    return rc;
}

/* ---- transfer -------------------------------------------------------------- */

static int monitor_transfer(spn_queue *q, void *item, struct spn__patience p)
{
    struct monitor *m = monitor_of(q);
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__hand hand = { .item = item };
    struct spn_thread *self;
    struct spn__list_node *node;
    void *memory = NULL;
    size_t bytes = 0;
    int rc;

    spn__lock(&m->lock);
    for (;;) {
        if (m->closed || hand_over(m, item, &chosen) || p.now) {
            rc = m->closed ? SPN_ECLOSED : chosen.first != NULL ? SPN_OK : SPN_EFULL;
            leave(m, &chosen, memory);
            return rc;
        }
        self = spn__thread_self();
        if (self == NULL) {
            leave(m, &chosen, memory);
            return SPN_ENOMEM;
        }
        if (push(m, item, SPN__LAST, &hand, &memory, bytes))
            break;
        if (!get_memory(m, &memory, &bytes))
            return SPN_ENOMEM;
    }
    enlist(m, &m->putters, &hand, self);
    publish_count(m);
    leave(m, &chosen, memory);
    rc = await_hand(m, &hand, p.deadline_ns);
    if (rc == SPN_OK)
        return hand.status; /* the queue may be gone */

    /* Nobody took it: it is on the list still, and ours again. */
    spn__list_each (node, &m->store.nodes) {
        struct spn__kept_node *n = spn__list_entry(node, struct spn__kept_node, link);

        if (n->owner == &hand) {
            spn__list_store_remove(&m->store, n);
            break;
        }
    }
    publish_count(m);
    spn__unlock(&m->lock);
    return rc;
}

/* ---- looking inside --------------------------------------------------------- */

static void *monitor_peek(spn_queue *q, enum spn__end end)
{
    struct monitor *m = monitor_of(q);
    struct spn__kept_node *node;
    void *item = NULL;

    spn__lock(&m->lock);
    switch (m->q.kind) {
    case SPN_QUEUE_ARRAY:
        item = spn__array_peek(&m->store);
        break;
    case SPN_QUEUE_PRIORITY:
        item = m->store.count != 0 ? m->store.cells[0].item : NULL;
        break;
    default:
        node = spn__list_store_at(&m->store, end);
        item = node != NULL ? node->item : NULL;
        break;
    }
    spn__unlock(&m->lock);
    return item;
}

/* What becomes of a held producer after its item was looked at. */
static void settle(struct spn__hand *producer, int verdict, struct spn__chosen *chosen)
{
    if ((verdict & SPN_QUEUE_TAKE) == 0) {
        spn__waitq_release(&producer->w);
        return;
    }
    producer->status = SPN_OK;
    spn__waitq_commit(&producer->w, chosen);
}

static void walk_list(struct monitor *m, enum spn__end end, spn_queue_visit_fn visit,
                      void *ctx, struct spn__chosen *chosen)
{
    struct spn__list_node *head = &m->store.nodes.head, *node, *following;
    int verdict = SPN_QUEUE_KEEP;

    for (node = end == SPN__FIRST ? head->next : head->prev;
         node != head && (verdict & SPN_QUEUE_STOP) == 0; node = following) {
        struct spn__kept_node *n = spn__list_entry(node, struct spn__kept_node, link);

        following = end == SPN__FIRST ? node->next : node->prev;
        /* A producer that is withdrawing its item has it back already. */
        if (n->owner != NULL && !spn__waitq_hold(&n->owner->w))
            continue;
        verdict = visit(n->item, ctx);
        if (n->owner != NULL)
            settle(n->owner, verdict, chosen);
        if ((verdict & SPN_QUEUE_TAKE) != 0)
            spn__list_store_remove(&m->store, n);
    }
}

static void monitor_walk(spn_queue *q, enum spn__end end, spn_queue_visit_fn visit,
                         void *ctx)
{
    struct monitor *m = monitor_of(q);
    struct spn__chosen chosen = { NULL, NULL };

    spn__lock(&m->lock);
    switch (m->q.kind) {
    case SPN_QUEUE_ARRAY:
        spn__array_walk(&m->store, visit, ctx);
        break;
    case SPN_QUEUE_PRIORITY:
        spn__heap_walk(&m->store, compare_less, visit, ctx);
        break;
    default:
        walk_list(m, end, visit, ctx, &chosen);
        break;
    }
    admit(m, &chosen);
    publish_count(m);
    leave(m, &chosen, NULL);
}

static int64_t monitor_size(const spn_queue *q)
{
    const struct monitor *m = (const struct monitor *)(const void *)q;

    return spn__load(&m->count, relaxed); /* a number, out of date already */
}

static int32_t monitor_waiting_consumers(spn_queue *q)
{
    struct monitor *m = monitor_of(q);
    int32_t count;

    spn__lock(&m->lock);
    count = m->taker_count;
    spn__unlock(&m->lock);
    return count;
}

/* ---- life ------------------------------------------------------------------ */

/* Returns how many it turned away; those just leaving count themselves out. */
static int32_t turn_away(struct spn__waitq *q, struct spn__chosen *chosen)
{
    int32_t count = 0;

    for (; spn__waitq_choose_first(q, chosen); count++)
        hand_of(chosen->last)->status = SPN_ECLOSED;
    return count;
}

static void monitor_close(spn_queue *q)
{
    struct monitor *m = monitor_of(q);
    struct spn__chosen chosen = { NULL, NULL };
    struct spn__list_node *node, *following;

    spn__lock(&m->lock);
    m->closed = true;
    m->taker_count -= turn_away(&m->takers, &chosen);
    if (m->q.kind != SPN_QUEUE_TRANSFER) {
        (void)turn_away(&m->putters, &chosen);
    } else {
        /* Items whose producers wait go back to them. */
        spn__list_each_safe (node, following, &m->store.nodes) {
            struct spn__kept_node *n =
                spn__list_entry(node, struct spn__kept_node, link);

            if (n->owner != NULL && spn__waitq_choose(&n->owner->w, &chosen)) {
                n->owner->status = SPN_ECLOSED;
                spn__list_store_remove(&m->store, n);
            }
        }
        publish_count(m);
    }
    leave(m, &chosen, NULL);
}

static bool monitor_busy(spn_queue *q)
{
    struct monitor *m = monitor_of(q);
    bool busy;

    spn__lock(&m->lock);
    busy = !spn__waitq_empty(&m->takers) || !spn__waitq_empty(&m->putters);
    spn__unlock(&m->lock);
    return busy;
}

static void monitor_release(spn_queue *q)
{
    struct monitor *m = monitor_of(q);

    spn__list_store_free(&m->store);
    spn__free(m->store.slots);
    spn__free(m->store.cells);
    spn__free(m);
}

static const struct spn__queue_ops monitor_ops = {
    .insert = monitor_insert,
    .remove = monitor_remove,
    .insert_many = monitor_insert_many,
    .remove_many = monitor_remove_many,
    .peek = monitor_peek,
    .walk = monitor_walk,
    .size = monitor_size,
    .waiting_consumers = monitor_waiting_consumers,
    .close = monitor_close,
    .busy = monitor_busy,
    .release = monitor_release,
    .transfer = monitor_transfer,
};

spn_queue *spn__queue_create_monitor(spn_queue_kind kind, const spn_queue_opts *o)
{
    struct monitor *m = spn__alloc(sizeof *m);
    void **slots = NULL;

    if (m == NULL)
        return NULL;
    if (kind == SPN_QUEUE_ARRAY) {
        slots = spn__alloc((size_t)o->capacity * sizeof *slots);
        if (slots == NULL) {
            spn__free(m);
            return NULL;
        }
    }
    spn__queue_init(&m->q, kind, &monitor_ops, o);
    if (kind == SPN_QUEUE_PRIORITY)
        m->q.capacity = INT32_MAX; /* what was given is a hint */
    spn__lock_init(&m->lock);
    spn__waitq_init(&m->takers);
    spn__waitq_init(&m->putters);
    m->taker_count = 0;
    m->closed = false;
    m->spins_timed = o->spins_timed;
    m->spins_untimed = o->spins_untimed;
    spn__init(&m->only_cpu, spn__os_only_cpu());
    m->store = (struct spn__store){ .queue = &m->q, .slots = slots };
    m->store.cell_count = slots != NULL ? (size_t)o->capacity : 0;
    spn__list_init(&m->store.nodes);
    spn__init(&m->count, 0);
    return &m->q;
}
