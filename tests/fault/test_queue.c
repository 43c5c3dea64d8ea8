/* SPDX-License-Identifier: MIT */
/*
 * test_queue.c - every allocation fails, once and from then on, under every kind of
 * queue and every call that may allocate.
 *
 * The body does a fixed piece of work and checks each step by itself: a step that says
 * SPN_ENOMEM has changed nothing.  It is run with the first allocation failing, with the
 * second, and so on, until a run asks for fewer than that.
 */
#include "queue_kinds.h"

#include "faults.h"

/* The first wait of a thread wants a record; without memory it does not wait, and the
 * queue is as before.  (First of all, while no ended thread has left its record.) */
struct first_wait {
    const struct form *form;
    spn_queue *q;
    int rc;
};

static void *first_wait_main(void *arg)
{
    struct first_wait *w = arg;
    struct call c = { w->form, w->q, item(9), SPN_FOREVER };

    w->rc = w->form->run(&c);
    return NULL;
}

TEST_EACH(fault_queue__no_record_for_a_waiter__enomem, "G-22", "G-14")
{
    for (int f = 0; f < FORMS; f++) {
        struct first_wait w = { &forms[f], NULL, SPN_OK };
        const int n = filled(k, &forms[f]);
        pthread_t thread;
        bool ok;

        if (!can_block(k, &forms[f]))
            continue;
        w.q = open_blocking(k, &forms[f]);
        atomic_store(&point, 0);
        atomic_store(&fail_more, true);
        atomic_store(&fail_at, 1);
        REQUIRE(pthread_create(&thread, NULL, first_wait_main, &w) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
        atomic_store(&fail_at, 0);
        ok = CHECK_STATUS(w.rc, SPN_ENOMEM);
        ok = CHECK_EQ(spn_queue_size(w.q), n) && ok;
        ok = CHECK_EQ(spn_queue_waiting_consumers(w.q), 0) && ok;
        (void)take_all(w.q);
        shut(w.q);
        name_form(k, &forms[f], ok);
    }
}

/* What is in the queue, by our own count. */
struct ledger {
    bool in[ITEMS];
    int count;
};

static void enter_if(struct ledger *g, int index, int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EFULL || rc == SPN_ETIMEDOUT);
    if (rc == SPN_OK) {
        g->in[index] = true;
        g->count++;
    }
}

static void leave_with(struct ledger *g, void *p)
{
    if (p == NULL)
        return;
    CHECK(g->in[index_of(p)]);
    g->in[index_of(p)] = false;
    g->count--;
}

static void agree(const struct ledger *g, spn_queue *q)
{
    CHECK_EQ(spn_queue_size(q), g->count);
}

/* Takes part as the other side of what waits. */
struct other {
    spn_queue *q;
    bool insert;
    int rc;
    void *item;
};

static int other_side(void *arg)
{
    struct other *o = arg;

    o->rc = o->insert ? spn_queue_put(o->q, o->item, T_LONG_NS)
                      : spn_queue_take(o->q, &o->item, T_LONG_NS);
    return o->rc;
}

/* Hands item(index) to a thread that waits, or from one. */
static void meet(struct ledger *g, spn_queue *q, int index, bool insert)
{
    struct other o = { q, insert, SPN_OK, insert ? item(index) : NULL };
    spn_thread *thread;
    int rc = spn_thread_create(&thread, NULL, other_side, &o);

    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EAGAIN);
    if (rc != SPN_OK)
        return;
    if (insert) { /* it puts: we take until it is done */
        void *got = NULL;
        int join;

        do {
            leave_with(g,
                       take_now(q) == item(index) ? (got = item(index), NULL) : NULL);
            join = spn_thread_join(thread, SPN_US(200), NULL);
            CHECK(join == SPN_OK || join == SPN_ETIMEDOUT || join == SPN_ENOMEM);
        } while (join != SPN_OK);
        CHECK(o.rc == SPN_OK || o.rc == SPN_ENOMEM);
        if (o.rc == SPN_OK && got == NULL) {
            g->in[index] = true; /* it lies in the queue */
            g->count++;
        }
        CHECK(o.rc == SPN_OK || got == NULL);
    } else {
        int join;

        do {
            if (rc != SPN_ENOMEM && g->count == 0) { /* full: nobody waits yet */
                rc = spn_queue_put(q, item(index), 0);
                if (rc == SPN_OK)
                    enter_if(g, index, SPN_OK);
                else if (rc == SPN_ENOMEM) /* nobody will serve it */
                    CHECK_OK(spn_thread_interrupt(thread));
            }
            join = spn_thread_join(thread, SPN_US(200), NULL);
            CHECK(join == SPN_OK || join == SPN_ETIMEDOUT || join == SPN_ENOMEM);
        } while (join != SPN_OK);
        CHECK(o.rc == SPN_OK || o.rc == SPN_ENOMEM ||
              (o.rc == SPN_EINTR && rc == SPN_ENOMEM));
        CHECK_EQ(o.item != NULL, o.rc == SPN_OK);
        leave_with(g, o.item);
    }
    spn_thread_unref(thread);
    agree(g, q);
}

static void work_with_faults(const struct kind *k)
{
    static struct ledger g;
    const spn_queue_opts opts = opts_of(k);
    spn_queue *q = NULL, *sink = NULL;
    void *got, *some[200];
    size_t done;
    int64_t moved, n;
    int rc;

    memset(&g, 0, sizeof g);
    rc = spn_queue_create(&q, k->kind, &opts);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    CHECK_EQ(q != NULL, rc == SPN_OK);
    if (rc != SPN_OK)
        return;

    /* One by one, past several growths of every storage. */
    for (int i = 0; i < 150; i++) {
        rc = spn_queue_put(q, item(i), 0);
        enter_if(&g, i, rc);
        agree(&g, q);
    }
    /* All at once. */
    for (int i = 0; i < 100; i++)
        some[i] = item(200 + i);
    done = 999;
    rc = spn_queue_put_many(q, some, 100, 0, &done);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EFULL);
    CHECK(done <= 100 && (rc != SPN_OK || done == 100));
    for (size_t i = 0; i < done; i++)
        enter_if(&g, 200 + (int)i, SPN_OK);
    agree(&g, q);
    for (int i = 0; i < 50; i++)
        some[i] = item(400 + i);
    rc = spn_queue_put_many(q, some, 50, 0, &done);
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_EFULL);
    for (size_t i = 0; i < done; i++)
        enter_if(&g, 400 + (int)i, SPN_OK);
    agree(&g, q);
    if (is(k, TRAIT_DEQUE))
        enter_if(&g, 500, spn_queue_put_first(q, item(500), 0));
    if (is(k, TRAIT_TRANSFER)) {
        rc = spn_queue_transfer(q, item(501), 1);
        CHECK(rc == SPN_ETIMEDOUT || rc == SPN_ENOMEM);
        agree(&g, q);
    }
    /* Looking inside allocates nothing. */
    if (is(k, INSIDE)) {
        n = content(q, some, 200);
        CHECK_EQ(n, g.count);
        for (int64_t i = 0; i < n && i < 200; i++)
            CHECK(g.in[index_of(some[i])]);
        if (n > 0) {
            CHECK(remove_at(q, 0));
            leave_with(&g, some[0]);
        }
        agree(&g, q);
        /* Into another queue, which may have no memory. */
        rc = spn_queue_create(&sink, SPN_QUEUE_LINKED, NULL);
        CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
        if (rc == SPN_OK) {
            rc = move_to(q, sink, 130, &moved);
            CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
            CHECK_EQ(spn_queue_size(sink), moved);
            while ((got = take_now(sink)) != NULL)
                leave_with(&g, got);
            agree(&g, q);
            shut(sink);
        }
    }
    n = take_some(q, some, 200);
    for (int64_t i = 0; i < n; i++)
        leave_with(&g, some[i]);
    agree(&g, q);
    while ((got = take_now(q)) != NULL)
        leave_with(&g, got);
    CHECK_EQ(g.count, 0);
    /* Waiting wants a record of the thread. */
    meet(&g, q, 600, false);
    meet(&g, q, 601, true);
    while ((got = take_now(q)) != NULL)
        leave_with(&g, got);
    CHECK_EQ(g.count, 0);

    /* The queue works as ever. */
    atomic_store(&fail_at, 0);
    for (int i = 0; i < room_of(k); i++)
        CHECK_OK(spn_queue_put(q, item(i), 0));
    expect_range(q, 0, room_of(k));
    rc = spn_queue_take(q, &got, 0);
    CHECK_STATUS(rc, SPN_EEMPTY);
    shut(q);
}

/* Threads keep their records: let there be as many as a run needs. */
static void warm_up(const struct kind *k)
{
    atomic_store(&fail_at, 0);
    CHECK(spn_thread_current() != NULL);
    work_with_faults(k);
    work_with_faults(k);
}

TEST_EACH(fault_queue__every_allocation_fails__nothing_lost, "G-22", "PBQ-4", "Q-5")
{
    for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
        long before, points = 0;

        warm_up(k);
        before = atomic_load(&live);
        for (int n = 1;; n++) {
            atomic_store(&point, 0);
            atomic_store(&refused, 0);
            atomic_store(&fail_more, from_then_on != 0);
            atomic_store(&fail_at, n);
            work_with_faults(k);
            atomic_store(&fail_at, 0);
            if (!CHECK_EQ(atomic_load(&live), before)) {
                fprintf(stderr, "  allocation %d%s\n", n, from_then_on ? " on" : "");
                break;
            }
            if (atomic_load(&refused) == 0)
                break; /* the run asks for fewer */
            points++;
        }
        CHECK(points >= 1);
    }
}
