/* SPDX-License-Identifier: MIT */
/* test_cancel.c - cancellation tokens. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

#include <spindle.h>

static spn_cancel_token *token_in(spn_cancel_token *parent)
{
    spn_cancel_token *token = NULL;

    REQUIRE_OK(spn_cancel_token_create(&token, parent));
    return token;
}

struct heard {
    spn_cancel_callback callback; /* first */
    char name;
    atomic_int calls;
    int reason;
    spn_cancel_token *token;
    struct heard *other;
    int rc;
};

static char order[32];

static void hear(spn_cancel_callback *callback, int reason)
{
    struct heard *h = (struct heard *)callback;
    const size_t length = strlen(order);

    h->reason = reason;
    order[length] = h->name;
    order[length + 1] = '\0';
    atomic_fetch_add(&h->calls, 1);
}

#define HEARD(letter)                                                \
    {                                                                \
        .callback = SPN_CANCEL_CALLBACK_INIT(hear), .name = (letter) \
    }

/* Cancelled once, with the first reason; the callbacks are called once, the last
 * registered first, before cancel returns. */
TEST(cancel__twice__first_reason_stays, "G-23")
{
    struct heard a = HEARD('a'), b = HEARD('b'), late = HEARD('l');
    spn_cancel_token *token = token_in(NULL);

    order[0] = '\0';
    CHECK_EQ(spn_cancel_token_is_cancelled(token), 0);
    CHECK_EQ(spn_cancel_token_reason(token), 0);
    CHECK_OK(spn_cancel_token_register(token, &a.callback));
    CHECK_OK(spn_cancel_token_register(token, &b.callback));
    CHECK_STATUS(spn_cancel_token_register(token, &b.callback), SPN_EBUSY);
    CHECK_EQ(spn_cancel_token_cancel(token, SPN_ETIMEDOUT), 1);
    CHECK_STR(order, "ba");
    CHECK_EQ(a.reason, SPN_ETIMEDOUT);
    CHECK_EQ(spn_cancel_token_cancel(token, SPN_ECANCELED), 0);
    CHECK_EQ(spn_cancel_token_is_cancelled(token), 1);
    CHECK_EQ(spn_cancel_token_reason(token), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_cancel_token_register(token, &late.callback), SPN_ECANCELED);
    CHECK_STR(order, "bal");
    CHECK_EQ(late.reason, SPN_ETIMEDOUT);
    CHECK_EQ(spn_cancel_token_deregister(token, &a.callback), 0);
    CHECK_EQ(atomic_load(&a.calls) + atomic_load(&b.calls), 2);
    spn_cancel_token_unref(token);
}

/* Taken off, it is not called, and can be registered again, elsewhere too. */
TEST(cancel__deregistered__not_called, "G-23")
{
    struct heard a = HEARD('a'), b = HEARD('b');
    spn_cancel_token *token = token_in(NULL), *other = token_in(NULL);

    order[0] = '\0';
    CHECK_OK(spn_cancel_token_register(token, &a.callback));
    CHECK_OK(spn_cancel_token_register(token, &b.callback));
    CHECK_EQ(spn_cancel_token_deregister(other, &a.callback), 0); /* not there */
    CHECK_EQ(spn_cancel_token_deregister(token, &a.callback), 1);
    CHECK_EQ(spn_cancel_token_deregister(token, &a.callback), 0);
    CHECK_OK(spn_cancel_token_register(other, &a.callback));
    CHECK_EQ(spn_cancel_token_cancel(token, -77), 1);
    CHECK_STR(order, "b");
    CHECK_EQ(b.reason, -77);
    CHECK_EQ(spn_cancel_token_deregister(other, &a.callback), 1);
    CHECK_EQ(spn_cancel_token_cancel(other, -77), 1);
    CHECK_STR(order, "b");
    spn_cancel_token_unref(token);
    spn_cancel_token_unref(other);
}

/* A token that nobody can cancel any more lets its callbacks go. */
TEST(cancel__last_reference__callbacks_are_free, "G-16")
{
    struct heard a = HEARD('a');
    spn_cancel_token *token = token_in(NULL), *other = token_in(NULL);

    CHECK_OK(spn_cancel_token_register(token, &a.callback));
    spn_cancel_token_unref(token);
    CHECK_OK(spn_cancel_token_register(other, &a.callback));
    CHECK_EQ(spn_cancel_token_deregister(other, &a.callback), 1);
    CHECK_EQ(atomic_load(&a.calls), 0);
    spn_cancel_token_unref(other);
}

static void take_off_itself(spn_cancel_callback *callback, int reason)
{
    struct heard *h = (struct heard *)callback;

    hear(callback, reason);
    h->rc = spn_cancel_token_deregister(h->token, callback);
}

static void take_off_other(spn_cancel_callback *callback, int reason)
{
    struct heard *h = (struct heard *)callback;

    hear(callback, reason);
    h->rc = spn_cancel_token_deregister(h->token, &h->other->callback);
}

/* From inside a callback: itself it cannot wait for; another that is to come is taken
 * off; and it may drop the last reference. */
TEST(cancel__callback_uses_the_token__allowed, "G-23")
{
    struct heard itself = HEARD('i'), to_come = HEARD('t'), other = HEARD('o');
    spn_cancel_token *token = token_in(NULL);

    order[0] = '\0';
    itself.callback.fn = take_off_itself;
    other.callback.fn = take_off_other;
    other.other = &to_come;
    itself.token = other.token = token;
    CHECK_OK(spn_cancel_token_register(token, &to_come.callback));
    CHECK_OK(spn_cancel_token_register(token, &other.callback));
    CHECK_OK(spn_cancel_token_register(token, &itself.callback));
    CHECK_EQ(spn_cancel_token_cancel(token, -5), 1);
    CHECK_STR(order, "io");
    CHECK_STATUS(itself.rc, SPN_EBUSY);
    CHECK_EQ(other.rc, 1);
    spn_cancel_token_unref(token);
}

static void drop_token(spn_cancel_callback *callback, int reason)
{
    (void)reason;
    spn_cancel_token_unref(((struct heard *)callback)->token);
}

TEST(cancel__callback_drops_a_child__nothing_breaks, "G-16", "G-23")
{
    struct heard h = HEARD('h');
    spn_cancel_token *parent = token_in(NULL);

    h.token = token_in(parent);
    h.callback.fn = drop_token;
    CHECK_OK(spn_cancel_token_register(h.token, &h.callback));
    CHECK_EQ(spn_cancel_token_cancel(parent, -1), 1);
    spn_cancel_token_unref(parent);
}

static atomic_int gate, entered;

static void wait_inside(spn_cancel_callback *callback, int reason)
{
    hear(callback, reason);
    atomic_store(&entered, 1);
    T_AWAIT(atomic_load(&gate) != 0);
    ((struct heard *)callback)->rc = 1;
}

static int cancel_call(void *token)
{
    return spn_cancel_token_cancel(token, -9);
}

static int deregister_call(void *p)
{
    struct heard *h = p;

    return spn_cancel_token_deregister(h->token, &h->callback);
}

/* While it runs on another thread, deregister waits until it has returned, whatever
 * interrupts come; the other form says so. */
TEST(cancel__deregister_while_running__waits, "G-13", "G-23", "P28")
{
    struct heard h = HEARD('h');
    struct peer canceller, leaver;

    h.callback.fn = wait_inside;
    h.token = token_in(NULL);
    atomic_store(&gate, 0);
    atomic_store(&entered, 0);
    CHECK_OK(spn_cancel_token_register(h.token, &h.callback));
    peer_start(&canceller, cancel_call, h.token);
    T_AWAIT(atomic_load(&entered) != 0);
    peer_start(&leaver, deregister_call, &h);
    peer_await_blocked(&leaver);
    CHECK_OK(spn_thread_interrupt(leaver.thread));
    CHECK(peer_still_waits(&leaver));
    atomic_store(&gate, 1);
    CHECK_EQ(peer_finish(&leaver), 0);
    CHECK_EQ(leaver.flag_after, 1); /* neither read nor cleared */
    CHECK_EQ(h.rc, 1);
    CHECK_EQ(peer_finish(&canceller), 1);
    spn_cancel_token_unref(h.token);
}

/* ---- children ----------------------------------------------------------------------------- */

/* Cancelled with the parent, however deep; alone, it leaves the parent as it is. */
TEST(cancel__children__go_with_the_parent, "G-16")
{
    spn_cancel_token *root = token_in(NULL), *a = token_in(root), *b = token_in(root);
    spn_cancel_token *deep = token_in(a), *late;
    struct heard h = HEARD('d'), own = HEARD('b');

    order[0] = '\0';
    CHECK_OK(spn_cancel_token_register(deep, &h.callback));
    CHECK_OK(spn_cancel_token_register(b, &own.callback));
    CHECK_EQ(spn_cancel_token_cancel(b, -3), 1);
    CHECK_EQ(spn_cancel_token_is_cancelled(root), 0);
    CHECK_STR(order, "b");
    CHECK_EQ(spn_cancel_token_cancel(root, -4), 1);
    CHECK_STR(order, "bd");
    CHECK_EQ(spn_cancel_token_reason(deep), -4);
    CHECK_EQ(spn_cancel_token_reason(a), -4);
    CHECK_EQ(spn_cancel_token_reason(b), -3); /* its own, first */
    late = token_in(a);
    CHECK_EQ(spn_cancel_token_reason(late), -4); /* from the start */
    CHECK_EQ(spn_cancel_token_cancel(late, -5), 0);
    spn_cancel_token_unref(root);
    spn_cancel_token_unref(a);
    spn_cancel_token_unref(b);
    CHECK_EQ(spn_cancel_token_reason(deep), -4);
    spn_cancel_token_unref(deep);
    spn_cancel_token_unref(late);
}

/* All descendants are marked before the first callback runs. */
static spn_cancel_token *marked;

static void sees_marked(spn_cancel_callback *callback, int reason)
{
    hear(callback, reason);
    CHECK_EQ(spn_cancel_token_is_cancelled(marked), 1);
}

TEST(cancel__slow_callback__descendants_know_before, "G-23")
{
    spn_cancel_token *root = token_in(NULL);
    struct heard h = HEARD('h');

    marked = token_in(root);
    h.callback.fn = sees_marked;
    CHECK_OK(spn_cancel_token_register(root, &h.callback));
    CHECK_EQ(spn_cancel_token_cancel(root, -1), 1);
    CHECK_EQ(atomic_load(&h.calls), 1);
    spn_cancel_token_unref(marked);
    spn_cancel_token_unref(root);
}

/* A chain of any length is no recursion, in cancelling and in ending. */
TEST(cancel__long_chain__no_recursion, "CF-40")
{
    enum { LENGTH = 200000 };
    spn_cancel_token *root = token_in(NULL), *last = spn_cancel_token_ref(root);
    const long before = atomic_load(&counting_live);

    for (int i = 0; i < LENGTH; i++) {
        spn_cancel_token *next = token_in(last);

        spn_cancel_token_unref(last);
        last = next;
    }
    CHECK_EQ(atomic_load(&counting_live), before + LENGTH);
    CHECK_EQ(spn_cancel_token_cancel(root, -1), 1);
    CHECK_EQ(spn_cancel_token_reason(last), -1);
    spn_cancel_token_unref(last);
    CHECK_EQ(atomic_load(&counting_live), before);
    spn_cancel_token_unref(root);
}

/* Children that come and go leave nothing with a parent that stays. */
TEST(cancel__children_of_a_long_lived_parent__not_kept, "G-16")
{
    spn_cancel_token *root = token_in(NULL);
    const long before = atomic_load(&counting_live);

    for (int i = 0; i < 1000; i++) {
        spn_cancel_token *child = token_in(root);

        if (i % 2 == 0)
            CHECK_EQ(spn_cancel_token_cancel(child, -1), 1);
        spn_cancel_token_unref(child);
    }
    CHECK_EQ(atomic_load(&counting_live), before);
    spn_cancel_token_unref(root);
}

/* Cancelling needs no memory. */
TEST(cancel__no_memory__cancels, "G-22")
{
    spn_cancel_token *root = token_in(NULL), *child = token_in(root), *none = root;
    struct heard h = HEARD('h');

    CHECK_OK(spn_cancel_token_register(child, &h.callback));
    atomic_store(&counting_refuse, 1);
    CHECK_STATUS(spn_cancel_token_create(&none, root), SPN_ENOMEM);
    CHECK(none == NULL);
    CHECK_EQ(spn_cancel_token_cancel(root, -1), 1);
    atomic_store(&counting_refuse, 0);
    CHECK_EQ(atomic_load(&h.calls), 1);
    spn_cancel_token_unref(child);
    spn_cancel_token_unref(root);
}

/* ---- many at once -------------------------------------------------------------------------- */

struct storm {
    spn_cancel_token *token;
    atomic_int called, taken_off, refused, wins;
};

struct storm_node {
    spn_cancel_callback callback; /* first */
    struct storm *storm;
    atomic_int calls;
};

static void storm_called(spn_cancel_callback *callback, int reason)
{
    struct storm_node *n = (struct storm_node *)callback;

    (void)reason;
    atomic_fetch_add(&n->calls, 1);
    atomic_fetch_add(&n->storm->called, 1);
}

static void storm_thread(int index, void *arg)
{
    struct storm *s = arg;
    struct storm_node nodes[16];

    if (index == 0) {
        atomic_fetch_add(&s->wins, spn_cancel_token_cancel(s->token, -1));
        return;
    }
    for (int i = 0; i < 16; i++) {
        int rc;

        nodes[i].callback = (spn_cancel_callback)SPN_CANCEL_CALLBACK_INIT(storm_called);
        nodes[i].storm = s;
        atomic_init(&nodes[i].calls, 0);
        rc = spn_cancel_token_register(s->token, &nodes[i].callback);
        atomic_fetch_add(&s->refused, rc == SPN_ECANCELED);
    }
    for (int i = 0; i < 16; i++) {
        const int rc = spn_cancel_token_deregister(s->token, &nodes[i].callback);

        CHECK(rc == 0 || rc == 1);
        atomic_fetch_add(&s->taken_off, rc);
        CHECK_EQ(atomic_load(&nodes[i].calls), 1 - rc); /* and it is our stack */
    }
}

/* Register, deregister and cancel from many threads: each callback is called once or
 * taken off, and not touched afterwards. */
TEST(cancel__storm__each_called_or_taken_off, "G-20", "G-23")
{
    for (int round = 0; round < t_rounds(300); round++) {
        struct storm s = { .token = token_in(NULL) };

        t_parallel(T_THREADS, storm_thread, &s);
        CHECK_EQ(atomic_load(&s.wins), 1);
        CHECK_EQ(atomic_load(&s.called) + atomic_load(&s.taken_off),
                 16 * (T_THREADS - 1));
        spn_cancel_token_unref(s.token);
    }
}
