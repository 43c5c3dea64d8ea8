/* SPDX-License-Identifier: MIT */
/*
 * queue_kinds.h - every kind and variant of queue as a table, and tests that run
 * over it.
 *
 *     // The property, in one sentence.
 *     TEST_EACH(queue__offer_on_full__refused, "Q-6")
 *     {
 *         spn_queue *q = open_full(k);      // k: the row of the table
 *         ...
 *         shut(q);
 *     }
 *
 * makes one test per row, named queue__offer_on_full__refused__array_fair and so
 * on.  A test that makes no sense for a kind returns early (the traits say so).
 *
 * ITEMS  item(0), item(1), ... are pointers into one array, in the order of the
 *   priority queue's comparator, and due in that order, all of them long ago.  So
 *   items inserted in ascending order leave every kind in that order.
 */
#ifndef QUEUE_KINDS_H
#define QUEUE_KINDS_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <spindle/queue.h>

#include "peer.h"
#include "test.h"

enum {
    BOUNDED = 1,       /* an insert may find it full */
    FIFO = 2,          /* by arrival; iteration is in queue order */
    KEEPS = 4,         /* holds items: all but synchronous */
    INSIDE = 8,        /* search, iteration, removal from inside, drain_to */
    INSERT_EINTR = 16, /* a flag set beforehand wins over a put that could go on */
    REMOVE_EINTR = 32, /* the same for take */
    TRAIT_DEQUE = 64,
    TRAIT_TRANSFER = 128,
    EXACT = 256 /* capacity as given */
};

struct kind {
    const char *name;
    spn_queue_kind kind;
    int32_t capacity; /* SPN_DEFAULT: none */
    uint32_t fair;
    unsigned traits;
};

/* X(argument, row name, kind, capacity, fair, traits) */
#define QUEUE_KINDS(X, a)                                                             \
    X(a, linked_unbounded, SPN_QUEUE_LINKED, SPN_DEFAULT, 0, LINKED_TRAITS)           \
    X(a, linked_bounded, SPN_QUEUE_LINKED, 5, 0, LINKED_TRAITS | BOUNDED)             \
    X(a, linked_of_one, SPN_QUEUE_LINKED, 1, 0, LINKED_TRAITS | BOUNDED)              \
    X(a, array_unfair, SPN_QUEUE_ARRAY, 5, 0, LINKED_TRAITS | BOUNDED)                \
    X(a, array_fair, SPN_QUEUE_ARRAY, 5, 1, LINKED_TRAITS | BOUNDED)                  \
    X(a, array_of_one, SPN_QUEUE_ARRAY, 1, 0, LINKED_TRAITS | BOUNDED)                \
    X(a, ring, SPN_QUEUE_RING, 8, 0,                                                  \
      FIFO | KEEPS | BOUNDED | EXACT | INSERT_EINTR | REMOVE_EINTR)                   \
    X(a, ring_of_two, SPN_QUEUE_RING, 2, 0,                                           \
      FIFO | KEEPS | BOUNDED | EXACT | INSERT_EINTR | REMOVE_EINTR)                   \
    X(a, priority, SPN_QUEUE_PRIORITY, SPN_DEFAULT, 0, KEEPS | INSIDE | REMOVE_EINTR) \
    X(a, delay, SPN_QUEUE_DELAY, SPN_DEFAULT, 0, KEEPS | INSIDE | REMOVE_EINTR)       \
    X(a, synchronous_unfair, SPN_QUEUE_SYNCHRONOUS, SPN_DEFAULT, 0, INSIDE | BOUNDED) \
    X(a, synchronous_fair, SPN_QUEUE_SYNCHRONOUS, SPN_DEFAULT, 1, INSIDE | BOUNDED)   \
    X(a, transfer, SPN_QUEUE_TRANSFER, SPN_DEFAULT, 0,                                \
      FIFO | KEEPS | INSIDE | TRAIT_TRANSFER)                                         \
    X(a, deque_unbounded, SPN_QUEUE_DEQUE, SPN_DEFAULT, 0,                            \
      LINKED_TRAITS | TRAIT_DEQUE)                                                    \
    X(a, deque_bounded, SPN_QUEUE_DEQUE, 5, 0, LINKED_TRAITS | TRAIT_DEQUE | BOUNDED) \
    X(a, deque_of_one, SPN_QUEUE_DEQUE, 1, 0, LINKED_TRAITS | TRAIT_DEQUE | BOUNDED)

#define LINKED_TRAITS (FIFO | KEEPS | INSIDE | EXACT | INSERT_EINTR | REMOVE_EINTR)

#define QUEUE_KIND_ROW(a, name, kind, capacity, fair, traits) \
    { #name, kind, capacity, fair, traits },
static const struct kind kinds[] = { QUEUE_KINDS(QUEUE_KIND_ROW, 0) };
enum { KINDS = (int)(sizeof kinds / sizeof kinds[0]) };

#define QUEUE_KIND_ENUM(a, name, kind, capacity, fair, traits) ROW_##name,
enum { QUEUE_KINDS(QUEUE_KIND_ENUM, 0) ROWS };

/* One test per row of the table. */
#define QUEUE_KIND_TEST(test, name, kind, capacity, fair, traits)              \
    static void test##__##name(void)                                           \
    {                                                                          \
        test(&kinds[ROW_##name]);                                              \
    }                                                                          \
    __attribute__((constructor)) static void t_register_##test##__##name(void) \
    {                                                                          \
        t_register(#test "__" #name, test##__##name);                          \
    }
#define TEST_EACH(name, ...)                \
    static void name(const struct kind *k); \
    QUEUE_KINDS(QUEUE_KIND_TEST, name)      \
    static void name(const struct kind *k)

/* ---- items -------------------------------------------------------------------- */

enum { ITEMS = 4096 };
static int numbers[ITEMS];

static inline void *item(int i)
{
    return &numbers[i];
}

/* Which item it is; -1 for NULL. */
static inline int index_of(const void *p)
{
    return p != NULL ? (int)((const int *)p - numbers) : -1;
}

static inline int by_index(const void *a, const void *b, void *ctx)
{
    (void)ctx;
    return (index_of(a) > index_of(b)) - (index_of(a) < index_of(b));
}

static inline int64_t due_long_ago(const void *p, void *ctx)
{
    (void)ctx;
    return index_of(p);
}

/* ---- queues ------------------------------------------------------------------- */

static inline spn_queue_opts opts_of(const struct kind *k)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;

    opts.capacity = k->capacity;
    opts.fair = k->fair;
    if (k->kind == SPN_QUEUE_PRIORITY)
        opts.compare = by_index;
    if (k->kind == SPN_QUEUE_DELAY)
        opts.due = due_long_ago;
    return opts;
}

static inline spn_queue *open_kind(const struct kind *k)
{
    const spn_queue_opts opts = opts_of(k);
    spn_queue *q;

    REQUIRE_OK(spn_queue_create(&q, k->kind, &opts));
    return q;
}

static inline bool is(const struct kind *k, unsigned traits)
{
    return (k->traits & traits) == traits;
}

/* ---- what tests ask of a queue in a word ------------------------------------------- */

/* Out of the queue without waiting, or NULL. */
static inline void *take_now(spn_queue *q)
{
    void *p = q;
    const int rc = spn_queue_take(q, &p, 0);

    CHECK_EQ(p != NULL, rc == SPN_OK);
    return p;
}

static inline void *take_last_now(spn_queue *q)
{
    void *p = q;
    const int rc = spn_queue_take_last(q, &p, 0);

    CHECK_EQ(p != NULL, rc == SPN_OK);
    return p;
}

/* What would come next from either end, or NULL. */
static inline void *first_of(spn_queue *q)
{
    void *p = q;
    const int rc = spn_queue_peek(q, &p);

    CHECK_EQ(p != NULL, rc == SPN_OK);
    return p;
}

static inline void *last_of(spn_queue *q)
{
    void *p = q;
    const int rc = spn_queue_peek_last(q, &p);

    CHECK_EQ(p != NULL, rc == SPN_OK);
    return p;
}

/* What can be taken now, at most `capacity`; how many. */
static inline int64_t take_some(spn_queue *q, void **items, size_t capacity)
{
    size_t count = 0;

    if (capacity != 0) {
        const int rc = spn_queue_take_many(q, items, capacity, 0, &count);

        CHECK_EQ(count > 0, rc == SPN_OK);
    }
    return (int64_t)count;
}

static inline int32_t room_left(const spn_queue *q)
{
    const int32_t capacity = spn_queue_capacity(q);

    return capacity == INT32_MAX ? capacity : capacity - (int32_t)spn_queue_size(q);
}

/* Copies the items as a walk shows them, and a NULL behind the last if there is room;
 * how many there are. */
struct copy {
    void **items;
    size_t capacity;
    int64_t count;
};

static inline int visit_copy(void *p, void *ctx)
{
    struct copy *c = ctx;

    if ((size_t)c->count < c->capacity)
        c->items[c->count] = p;
    c->count++;
    return SPN_QUEUE_KEEP;
}

static inline int64_t content(spn_queue *q, void **items, size_t capacity)
{
    struct copy c = { items, capacity, 0 };

    CHECK_OK(spn_queue_walk(q, visit_copy, &c));
    if ((size_t)c.count < capacity)
        items[c.count] = NULL;
    return c.count;
}

/* Takes out those among `items`, or those that are not; how many.  NULL: all. */
struct sieve {
    void *const *items;
    size_t count;
    bool among;
    int64_t taken;
};

static inline int visit_sieve(void *p, void *ctx)
{
    struct sieve *s = ctx;
    bool found = s->items == NULL;

    for (size_t i = 0; i < s->count && !found; i++)
        found = s->items[i] == p;
    s->taken += found == s->among;
    return found == s->among ? SPN_QUEUE_TAKE : SPN_QUEUE_KEEP;
}

static inline int64_t sift(spn_queue *q, void *const *items, size_t count, bool among)
{
    struct sieve s = { items, count, among, 0 };

    CHECK_OK(spn_queue_walk(q, visit_sieve, &s));
    return s.taken;
}

/* Whether any went. */
static inline bool remove_all(spn_queue *q, void *const *items, size_t count)
{
    return sift(q, items, count, true) != 0;
}

static inline bool retain_all(spn_queue *q, void *const *items, size_t count)
{
    return sift(q, items, count, false) != 0;
}

static inline bool contains_all(const spn_queue *q, void *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (spn_queue_contains(q, items[i]) != SPN_OK)
            return false;
    return true;
}

/* Empties it, also of what is not due; how many there were. */
static inline int64_t take_all(spn_queue *q)
{
    struct sieve s = { NULL, 0, true, 0 };
    int64_t count = 0;

    if (spn_queue_walk(q, visit_sieve, &s) == SPN_OK)
        return s.taken;
    /* What others put in meanwhile stays. */
    for (int64_t left = spn_queue_size(q); left > 0 && take_now(q) != NULL; left--)
        count++;
    return count;
}

/* Takes out the item at a place of the walk; false: there are not so many. */
struct place {
    int left;
    bool found;
};

static inline int visit_place(void *p, void *ctx)
{
    struct place *at = ctx;

    (void)p;
    at->found = at->left-- == 0;
    return at->found ? SPN_QUEUE_TAKE | SPN_QUEUE_STOP : SPN_QUEUE_KEEP;
}

static inline bool remove_at(spn_queue *q, int place)
{
    struct place at = { place, false };

    CHECK_OK(spn_queue_walk(q, visit_place, &at));
    return at.found;
}

/* Moves up to `max` items into another queue; what it refuses stays. */
struct move {
    spn_queue *sink;
    int64_t left, moved;
    int rc;
};

static inline int visit_move(void *p, void *ctx)
{
    struct move *m = ctx;

    m->rc = spn_queue_put(m->sink, p, 0);
    if (m->rc != SPN_OK)
        return SPN_QUEUE_STOP;
    m->moved++;
    return --m->left == 0 ? SPN_QUEUE_TAKE | SPN_QUEUE_STOP : SPN_QUEUE_TAKE;
}

static inline int move_to(spn_queue *q, spn_queue *sink, int64_t max, int64_t *moved)
{
    struct move m = { sink, max, 0, SPN_OK };

    CHECK_OK(spn_queue_walk(q, visit_move, &m));
    *moved = m.moved;
    return m.rc;
}

/* How many items a test puts in to have "all": what fits, or a handful. */
static inline int room_of(const struct kind *k)
{
    return !is(k, KEEPS) ? 0 : is(k, BOUNDED) ? k->capacity : 7;
}

/* Inserts item(from) .. item(to - 1). */
static inline void add_range(spn_queue *q, int from, int to)
{
    for (int i = from; i < to; i++)
        CHECK_OK(spn_queue_put(q, item(i), 0));
}

/* With items 0 .. room_of(k) - 1: full, if it is bounded. */
static inline spn_queue *open_full(const struct kind *k)
{
    spn_queue *q = open_kind(k);

    add_range(q, 0, room_of(k));
    return q;
}

/* Takes item(from) .. item(to - 1), in this order. */
static inline void expect_range(spn_queue *q, int from, int to)
{
    for (int i = from; i < to; i++)
        CHECK_EQ(index_of(take_now(q)), i);
}

/* Nothing in it, nobody waits; it works; then it is destroyed. */
static inline void shut(spn_queue *q)
{
    CHECK_OK(spn_queue_destroy(q));
}

static inline void expect_empty(spn_queue *q)
{
    CHECK_EQ(spn_queue_size(q), 0);
    CHECK(first_of(q) == NULL);
    CHECK(take_now(q) == NULL);
}

/* ---- calls that may block, as rows and as peers ---------------------------------- */

struct call {
    const struct form *form;
    spn_queue *q;
    void *item; /* in: to insert; out: removed, or NULL */
    int64_t timeout_ns;
};

/* insert: waits for room or a taker.  always: blocks also where put would find room
 * (transfer). */
struct form {
    const char *name;
    unsigned needs; /* traits */
    bool insert, always;
    int (*run)(struct call *c);
};

static inline int run_put(struct call *c)
{
    return spn_queue_put(c->q, c->item, c->timeout_ns);
}

static inline int run_put_many(struct call *c)
{
    void *const one = c->item;
    size_t done = 9;
    const int rc = spn_queue_put_many(c->q, &one, 1, c->timeout_ns, &done);

    CHECK_EQ(done, rc == SPN_OK);
    return rc;
}

static inline int run_put_first(struct call *c)
{
    return spn_queue_put_first(c->q, c->item, c->timeout_ns);
}

static inline int run_transfer(struct call *c)
{
    return spn_queue_transfer(c->q, c->item, c->timeout_ns);
}

static inline int run_take(struct call *c)
{
    return spn_queue_take(c->q, &c->item, c->timeout_ns);
}

static inline int run_take_many(struct call *c)
{
    size_t count = 9;
    const int rc = spn_queue_take_many(c->q, &c->item, 1, c->timeout_ns, &count);

    CHECK_EQ(count, rc == SPN_OK);
    return rc;
}

static inline int run_take_last(struct call *c)
{
    return spn_queue_take_last(c->q, &c->item, c->timeout_ns);
}

static const struct form forms[] = {
    { "put", 0, true, false, run_put },
    { "put_many", 0, true, false, run_put_many },
    { "put_first", TRAIT_DEQUE, true, false, run_put_first },
    { "transfer", TRAIT_TRANSFER, true, true, run_transfer },
    { "take", 0, false, false, run_take },
    { "take_many", 0, false, false, run_take_many },
    { "take_last", TRAIT_DEQUE, false, false, run_take_last },
};
enum { FORMS = (int)(sizeof forms / sizeof forms[0]) };

/* Whether the form can block on this kind at all. */
static inline bool can_block(const struct kind *k, const struct form *f)
{
    return is(k, f->needs) && (!f->insert || f->always || is(k, BOUNDED));
}

static inline int run_call(void *arg)
{
    struct call *c = arg;
    return c->form->run(c);
}

/* A queue on which the form has to wait: full for an insert, empty for a removal. */
static inline spn_queue *open_blocking(const struct kind *k, const struct form *f)
{
    return f->insert && !f->always ? open_full(k) : open_kind(k);
}

/* How many items open_blocking put in. */
static inline int filled(const struct kind *k, const struct form *f)
{
    return f->insert && !f->always ? room_of(k) : 0;
}

static inline void start_call(struct peer *p, struct call *c, const struct form *f,
                              spn_queue *q, int index, int64_t timeout_ns)
{
    *c = (struct call){ f, q, f->insert ? item(index) : NULL, timeout_ns };
    peer_start(p, run_call, c);
}

/* Starts it and waits until it sleeps in the call. */
static inline void block_call(struct peer *p, struct call *c, const struct form *f,
                              spn_queue *q, int index)
{
    start_call(p, c, f, q, index, SPN_FOREVER);
    peer_await_blocked(p);
    CHECK_EQ(atomic_load(&p->done), 0);
}

/* Not inlined: where -O3 unrolls the loop, gcc warns of names that always differ. */
__attribute__((noinline, unused)) static const struct form *form_named(const char *name)
{
    for (int i = 0; i < FORMS; i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return NULL;
}

static inline void block_take(struct peer *p, struct call *c, spn_queue *q)
{
    block_call(p, c, form_named("take"), q, 0);
}

static inline void block_put(struct peer *p, struct call *c, spn_queue *q, int index)
{
    block_call(p, c, form_named("put"), q, index);
}

/* What the calls of a loop over forms were about, when a check has failed. */
static inline void name_form(const struct kind *k, const struct form *f, bool ok)
{
    if (!ok)
        fprintf(stderr, "  in: %s on %s\n", f->name, k->name);
}

#endif /* QUEUE_KINDS_H */
