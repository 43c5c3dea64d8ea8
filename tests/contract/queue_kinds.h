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

/* How many items a test puts in to have "all": what fits, or a handful. */
static inline int room_of(const struct kind *k)
{
    return !is(k, KEEPS) ? 0 : is(k, BOUNDED) ? k->capacity : 7;
}

/* Inserts item(from) .. item(to - 1). */
static inline void add_range(spn_queue *q, int from, int to)
{
    for (int i = from; i < to; i++)
        CHECK_OK(spn_queue_add(q, item(i)));
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
        CHECK_EQ(index_of(spn_queue_poll(q)), i);
}

/* Nothing in it, nobody waits; it works; then it is destroyed. */
static inline void shut(spn_queue *q)
{
    CHECK_OK(spn_queue_destroy(q));
}

static inline void expect_empty(spn_queue *q)
{
    CHECK_EQ(spn_queue_size(q), 0);
    CHECK(spn_queue_peek(q) == NULL);
    CHECK(spn_queue_poll(q) == NULL);
}

/* ---- calls that may block, as rows and as peers ---------------------------------- */

struct call {
    const struct form *form;
    spn_queue *q;
    void *item; /* in: to insert; out: removed, or NULL */
    int64_t timeout_ns;
};

/* insert: waits for room or a taker.  timed: takes a timeout.  always: blocks also
 * where put would find room (transfer). */
struct form {
    const char *name;
    unsigned needs; /* traits */
    bool insert, timed, always;
    int (*run)(struct call *c);
};

static inline int run_put(struct call *c)
{
    return spn_queue_put(c->q, c->item);
}

static inline int run_offer_timed(struct call *c)
{
    return spn_queue_offer_timed(c->q, c->item, c->timeout_ns);
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
    return spn_queue_put_first(c->q, c->item);
}

static inline int run_offer_first_timed(struct call *c)
{
    return spn_queue_offer_first_timed(c->q, c->item, c->timeout_ns);
}

static inline int run_transfer(struct call *c)
{
    return spn_queue_transfer(c->q, c->item);
}

static inline int run_try_transfer_timed(struct call *c)
{
    return spn_queue_try_transfer_timed(c->q, c->item, c->timeout_ns);
}

static inline int run_take(struct call *c)
{
    return spn_queue_take(c->q, &c->item);
}

static inline int run_poll_timed(struct call *c)
{
    return spn_queue_poll_timed(c->q, &c->item, c->timeout_ns);
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
    return spn_queue_take_last(c->q, &c->item);
}

static inline int run_poll_last_timed(struct call *c)
{
    return spn_queue_poll_last_timed(c->q, &c->item, c->timeout_ns);
}

static const struct form forms[] = {
    { "put", 0, true, false, false, run_put },
    { "offer_timed", 0, true, true, false, run_offer_timed },
    { "put_many", 0, true, true, false, run_put_many },
    { "put_first", TRAIT_DEQUE, true, false, false, run_put_first },
    { "offer_first_timed", TRAIT_DEQUE, true, true, false, run_offer_first_timed },
    { "transfer", TRAIT_TRANSFER, true, false, true, run_transfer },
    { "try_transfer_timed", TRAIT_TRANSFER, true, true, true, run_try_transfer_timed },
    { "take", 0, false, false, false, run_take },
    { "poll_timed", 0, false, true, false, run_poll_timed },
    { "take_many", 0, false, true, false, run_take_many },
    { "take_last", TRAIT_DEQUE, false, false, false, run_take_last },
    { "poll_last_timed", TRAIT_DEQUE, false, true, false, run_poll_last_timed },
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
