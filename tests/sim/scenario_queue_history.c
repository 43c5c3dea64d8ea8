/* SPDX-License-Identifier: MIT */
/*
 * scenario_queue_history.c - short histories of calls that do not wait, checked
 * against a sequential queue: is there an order of the calls, true to which one
 * ended before which began, in which a plain queue gives the same answers?
 * (Linearizability, by trying every order.)
 *
 * A ring may answer "full" or "empty" while another thread is in the middle of
 * a call, so of a ring only the successes are held to the order.  So are those of
 * queues with two locks (linked, unfair array) under C11: a thread that has
 * nothing to do with the other end may look at an old position there; "before" in
 * real time is no order there.
 */
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "sim_queue.h"
#include "sync/seam.h"

enum { CALLS_MAX = 10, CAPACITY = 2 };

enum call_kind { OFFER, OFFER_FIRST, POLL, POLL_LAST, REMOVE_ITEM, PEEK };

struct call {
    enum call_kind kind;
    intptr_t item;   /* in */
    intptr_t answer; /* out: 1 or 0, or the item or 0 */
    unsigned began, ended;
};

static spn_queue *queue;
static struct call calls[CALLS_MAX];
static unsigned call_count, clock_ticks;
static bool answers_may_be_no; /* ring: a refusal proves nothing */

/* ---- making history ---------------------------------------------------------- */

/* 1 for SPN_OK, 0 for the one other answer there is. */
static int took(int rc, int no)
{
    sim_assert(rc == SPN_OK || rc == no);
    return rc == SPN_OK;
}

/* The bookkeeping is the scenario's own, and one fiber runs at a time. */
__attribute__((no_sanitize("thread"))) static void make(enum call_kind kind,
                                                        intptr_t item)
{
    struct call *c = &calls[call_count++];
    void *out;

    c->kind = kind;
    c->item = item;
    c->began = clock_ticks++;
    switch (kind) {
    case OFFER:
        c->answer = took(spn_queue_put(queue, (void *)item, 0), SPN_EFULL);
        break;
    case OFFER_FIRST:
        c->answer = took(spn_queue_put_first(queue, (void *)item, 0), SPN_EFULL);
        break;
    case POLL:
        c->answer = (intptr_t)take_now(queue);
        break;
    case POLL_LAST:
        (void)took(spn_queue_take_last(queue, &out, 0), SPN_EEMPTY);
        c->answer = (intptr_t)out;
        break;
    case REMOVE_ITEM:
        c->answer = took(spn_queue_remove_item(queue, (void *)item), SPN_EEMPTY);
        break;
    case PEEK:
        c->answer = (intptr_t)first_of(queue);
        break;
    }
    c->ended = clock_ticks++;
}

/* ---- the sequential queue ------------------------------------------------------ */

struct model {
    intptr_t items[CALLS_MAX];
    int count;
};

static void model_remove(struct model *m, int at)
{
    memmove(&m->items[at], &m->items[at + 1],
            (size_t)(m->count - at - 1) * sizeof m->items[0]);
    m->count--;
}

/* Makes the call on the model; false if it would have answered otherwise. */
static bool model_agrees(struct model *m, const struct call *c)
{
    int at = 0;

    if (answers_may_be_no && c->answer == 0)
        return true;
    switch (c->kind) {
    case OFFER:
    case OFFER_FIRST:
        if (m->count == CAPACITY)
            return c->answer == 0;
        if (c->kind == OFFER) {
            m->items[m->count] = c->item;
        } else {
            memmove(&m->items[1], &m->items[0], (size_t)m->count * sizeof m->items[0]);
            m->items[0] = c->item;
        }
        m->count++;
        return c->answer == 1;
    case POLL:
    case POLL_LAST:
        if (m->count == 0)
            return c->answer == 0;
        at = c->kind == POLL ? 0 : m->count - 1;
        if (c->answer != m->items[at])
            return false;
        model_remove(m, at);
        return true;
    case REMOVE_ITEM:
        while (at < m->count && m->items[at] != c->item)
            at++;
        if (at == m->count)
            return c->answer == 0;
        model_remove(m, at);
        return c->answer == 1;
    case PEEK:
        return c->answer == (m->count != 0 ? m->items[0] : 0);
    }
    return false;
}

/* Whether the calls not in `done` can follow in some order. */
static bool linearizable(const struct model *before, unsigned done)
{
    if (done == (1u << call_count) - 1)
        return true;
    for (unsigned i = 0; i < call_count; i++) {
        struct model m = *before;
        bool first = (done & (1u << i)) == 0;

        /* A call that ended before this one began must have come before it. */
        for (unsigned j = 0; j < call_count && first; j++)
            first =
                j == i || (done & (1u << j)) != 0 || calls[j].ended > calls[i].began;
        if (first && model_agrees(&m, &calls[i]) && linearizable(&m, done | (1u << i)))
            return true;
    }
    return false;
}

/* ---- the histories ---------------------------------------------------------------- */

static void producer(void *first)
{
    make(OFFER, (intptr_t)first);
    make(OFFER, (intptr_t)first + 1);
}

static void consumer(void *arg)
{
    (void)arg;
    make(POLL, 0);
    make(POLL, 0);
}

static void remover(void *item)
{
    make(PEEK, 0);
    make(REMOVE_ITEM, (intptr_t)item);
}

static void both_ends(void *first)
{
    make(OFFER_FIRST, (intptr_t)first);
    make(POLL_LAST, 0);
}

static void history(spn_queue_kind kind, void (*third)(void *), bool lenient, bool fair)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    const struct model empty = { { 0 }, 0 };

    opts.capacity = CAPACITY;
    opts.fair = fair;
    call_count = clock_ticks = 0;
    answers_may_be_no = lenient;
    sim_assert(spn_queue_create(&queue, kind, &opts) == SPN_OK);
    sim_thread(producer, (void *)1);
    sim_thread(consumer, NULL);
    third((void *)2);
    sim_join_all();
    make(POLL, 0); /* what is left, so that nothing can hide */
    make(POLL, 0);
    sim_assert(linearizable(&empty, 0));
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void second_producer(void *arg)
{
    (void)arg;
    producer((void *)3);
}

/* Offers and polls of three threads are a queue's. */
SCENARIO(queue_linked__short_histories__linearizable, "LBQ-2", "Q-6", "Q-12", "Q-33")
{
    history(SPN_QUEUE_LINKED, second_producer, false, false);
}
SCENARIO_OPTS(queue_linked__short_histories__linearizable,
              .models = SIM_SC | SIM_TSO | SIM_PSO)
SCENARIO(queue_linked__short_histories_under_c11__successes_linearizable, "LBQ-2")
{
    history(SPN_QUEUE_LINKED, second_producer, true, false);
}
SCENARIO_OPTS(queue_linked__short_histories_under_c11__successes_linearizable,
              .models = SIM_C11)
SCENARIO(queue_array__short_histories__linearizable, "ABQ-2", "Q-6", "Q-12", "Q-33")
{
    history(SPN_QUEUE_ARRAY, second_producer, false, sim_choose(2) == 1);
}
SCENARIO_OPTS(queue_array__short_histories__linearizable,
              .models = SIM_SC | SIM_TSO | SIM_PSO)
SCENARIO(queue_array__short_histories_under_c11__linearizable, "ABQ-2")
{
    const bool fair = sim_choose(2) == 1;

    history(SPN_QUEUE_ARRAY, second_producer, !fair, fair);
}
SCENARIO_OPTS(queue_array__short_histories_under_c11__linearizable, .models = SIM_C11)
SCENARIO(queue_ring__short_histories__linearizable, "G-15")
{
    history(SPN_QUEUE_RING, second_producer, true, false);
}
SCENARIO(queue_deque__short_histories__linearizable, "LBD-1", "Q-6", "Q-12", "Q-33")
{
    history(SPN_QUEUE_DEQUE, second_producer, false, false);
}

/* The same with a thread that looks and takes out from inside. */
SCENARIO(queue_linked__removal_from_inside__linearizable, "LBQ-6", "Q-15", "Q-17")
{
    history(SPN_QUEUE_LINKED, remover, false, false);
}
SCENARIO_OPTS(queue_linked__removal_from_inside__linearizable,
              .models = SIM_SC | SIM_TSO | SIM_PSO)
SCENARIO(queue_array__removal_from_inside__linearizable, "ABQ-2", "Q-15", "Q-17")
{
    history(SPN_QUEUE_ARRAY, remover, false, sim_choose(2) == 1);
}
SCENARIO_OPTS(queue_array__removal_from_inside__linearizable,
              .models = SIM_SC | SIM_TSO | SIM_PSO)
SCENARIO(queue_deque__both_ends__linearizable, "LBD-2", "LBD-3")
{
    history(SPN_QUEUE_DEQUE, both_ends, false, false);
}
