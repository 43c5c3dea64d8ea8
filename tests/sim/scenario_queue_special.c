/* SPDX-License-Identifier: MIT */
/*
 * scenario_queue_special.c - what only some kinds do: waiting for a taker,
 * items that become due, draining from queue to queue, taking an item from a
 * producer that is about to give up.
 */
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "sync/seam.h"

static spn_queue *queue, *other;
static spn_clock *manual;
static int got[5]; /* plain: an item is on one thread at a time */

static void count(void *item)
{
    if (item != NULL)
        got[(uintptr_t)item]++;
}

static bool open_queue(spn_queue **out, spn_queue_kind kind, int32_t capacity)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;

    opts.capacity = capacity;
    return spn_queue_create(out, kind, &opts) == SPN_OK;
}

/* ---- transfer ------------------------------------------------------------------- */

static void transfer_timed(void *item)
{
    const int rc = spn_queue_try_transfer_timed(queue, item, 300);

    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc == SPN_ETIMEDOUT)
        count(item); /* withdrawn: it is ours again */
}

static void poll_timed(void *arg)
{
    void *item;
    const int rc = spn_queue_poll_timed(queue, &item, 300);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    count(item);
}

/* A producer that withdraws and a consumer that gives up: the item is with one
 * of them. */
SCENARIO(queue_transfer__withdrawn_while_taken__one_has_it, "LTQ-6", "LTQ-13", "SQ-12")
{
    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_TRANSFER, SPN_DEFAULT));
    sim_thread(transfer_timed, (void *)1);
    sim_thread(poll_timed, NULL);
    count(spn_queue_poll(queue));
    sim_join_all();
    sim_assert(got[1] == 1);
    sim_assert(spn_queue_size(queue) == 0);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void transfer_for_ever(void *item)
{
    sim_assert(spn_queue_transfer(queue, item) == SPN_OK);
    sim_assert(got[(uintptr_t)item] == 1); /* only after the taker has it */
}

static void take_one(void *arg)
{
    void *item;

    (void)arg;
    /* Counted before it is given to anybody: transfer returns after this. */
    sim_assert(spn_queue_peek(queue) == NULL || spn_queue_size(queue) >= 0);
    sim_assert(spn_queue_take(queue, &item) == SPN_OK);
    (void)item;
}

/* Transfer returns only when a consumer has the item. */
SCENARIO(queue_transfer__waits_for_its_taker, "LTQ-3")
{
    memset(got, 0, sizeof got);
    got[1] = 1;
    sim_assert(open_queue(&queue, SPN_QUEUE_TRANSFER, SPN_DEFAULT));
    sim_thread(take_one, NULL);
    transfer_for_ever((void *)1);
    sim_join_all();
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void remove_it(void *item)
{
    if (spn_queue_remove_item(queue, item) == 1)
        count(item);
}

static void look_for(void *item)
{
    (void)spn_queue_contains(queue, item);
}

/* Taken out from inside, looked at, and withdrawn at once: one has it, and a
 * look keeps nobody from leaving. */
SCENARIO(queue_transfer__removed_from_inside__one_has_it, "LTQ-5", "Q-17")
{
    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_TRANSFER, SPN_DEFAULT));
    sim_thread(transfer_timed, (void *)1);
    sim_thread(look_for, (void *)2);
    remove_it((void *)1);
    sim_join_all();
    sim_assert(got[1] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void try_transfer(void *item)
{
    const int rc = spn_queue_try_transfer(queue, item);

    sim_assert(rc == SPN_OK || rc == SPN_EEMPTY);
    if (rc == SPN_EEMPTY)
        count(item);
}

/* Handed to a consumer that is just timing out, or kept. */
SCENARIO(queue_transfer__try_races_timeout__one_has_it, "LTQ-2", "LTQ-13")
{
    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_TRANSFER, SPN_DEFAULT));
    sim_thread(poll_timed, NULL);
    try_transfer((void *)1);
    sim_join_all();
    sim_assert(got[1] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* ---- drain ----------------------------------------------------------------------- */

static void drain_there(void *arg)
{
    int64_t moved;
    const int rc = spn_queue_drain_to(queue, other, 2, &moved);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_EFULL);
}

static void drain_back(void *arg)
{
    int64_t moved;
    const int rc = spn_queue_drain_to(other, queue, 2, &moved);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_EFULL);
}

/* Two drains in opposite directions end, and every item is somewhere. */
SCENARIO(queue__drains_cross__nothing_lost, "Q-34", "Q-35")
{
    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_ARRAY, 2));
    sim_assert(open_queue(&other, SPN_QUEUE_LINKED, 1));
    sim_assert(spn_queue_add(queue, (void *)1) == SPN_OK);
    sim_assert(spn_queue_add(queue, (void *)2) == SPN_OK);
    sim_assert(spn_queue_add(other, (void *)3) == SPN_OK);
    sim_thread(drain_there, NULL);
    drain_back(NULL);
    sim_join_all();
    for (void *item; (item = spn_queue_poll(queue)) != NULL;)
        count(item);
    for (void *item; (item = spn_queue_poll(other)) != NULL;)
        count(item);
    sim_assert(got[1] == 1 && got[2] == 1 && got[3] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
    sim_assert(spn_queue_destroy(other) == SPN_OK);
}

static void offer_timed(void *item)
{
    const int rc = spn_queue_offer_timed(queue, item, 300);

    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc == SPN_ETIMEDOUT)
        count(item);
}

/* Draining a synchronous queue takes the item out of a waiting producer's hand
 * only if the sink takes it and the producer has not given up. */
SCENARIO(queue_synchronous__drained_into_small_sink__each_item_once, "SQ-7", "Q-34")
{
    memset(got, 0, sizeof got);
    sim_assert(open_queue(&queue, SPN_QUEUE_SYNCHRONOUS, SPN_DEFAULT));
    sim_assert(open_queue(&other, SPN_QUEUE_ARRAY, 1));
    sim_thread(offer_timed, (void *)1);
    sim_thread(offer_timed, (void *)2);
    drain_there(NULL);
    drain_there(NULL);
    sim_join_all();
    for (void *item; (item = spn_queue_poll(other)) != NULL;)
        count(item);
    sim_assert(got[1] == 1 && got[2] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
    sim_assert(spn_queue_destroy(other) == SPN_OK);
}

/* ---- delay ------------------------------------------------------------------------ */

static int64_t due_at(const void *item, void *ctx)
{
    (void)ctx;
    return (int64_t)(intptr_t)item * 100;
}

static bool open_delay(spn_clock *clock)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;

    opts.due = due_at;
    opts.clock = clock;
    return spn_queue_create(&queue, SPN_QUEUE_DELAY, &opts) == SPN_OK;
}

static void take_due(void *arg)
{
    void *item;

    (void)arg;
    sim_assert(spn_queue_take(queue, &item) == SPN_OK);
    sim_assert(spn_clock_now(manual) >= due_at(item, NULL)); /* never early */
    count(item);
}

static void put_earlier(void *item)
{
    sim_assert(spn_queue_put(queue, item) == SPN_OK);
}

/* Two consumers sleep, an earlier item comes, the clock moves: both are served
 * in time and none early. */
SCENARIO(queue_delay__earlier_item_and_moving_clock__all_served, "DQ-2", "DQ-13",
         "DQ-14")
{
    memset(got, 0, sizeof got);
    sim_assert(spn_clock_create_manual(&manual, 0) == SPN_OK);
    sim_assert(open_delay(manual));
    sim_assert(spn_queue_put(queue, (void *)3) == SPN_OK);
    sim_thread(take_due, NULL);
    sim_thread(take_due, NULL);
    sim_thread(put_earlier, (void *)1);
    sim_assert(spn_clock_advance(manual, 100) == SPN_OK);
    sim_assert(spn_clock_destroy(manual) == SPN_EBUSY); /* the queue listens */
    sim_assert(spn_clock_advance(manual, 200) == SPN_OK);
    sim_join_all();
    sim_assert(got[1] == 1 && got[3] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
    sim_assert(spn_clock_destroy(manual) == SPN_OK);
}

static void take_real(void *arg)
{
    void *item;

    (void)arg;
    sim_assert(spn_queue_take(queue, &item) == SPN_OK);
    sim_assert(spn__now() >= due_at(item, NULL));
    count(item);
}

/* The same on the monotonic clock: the leader's deadline passes by itself. */
SCENARIO(queue_delay__earlier_item_while_leader_sleeps__all_served, "DQ-6", "DQ-13",
         "DQ-14")
{
    memset(got, 0, sizeof got);
    sim_assert(open_delay(NULL));
    sim_assert(spn_queue_put(queue, (void *)4) == SPN_OK);
    sim_thread(take_real, NULL);
    sim_thread(take_real, NULL);
    sim_thread(put_earlier, (void *)2);
    sim_join_all();
    sim_assert(got[2] == 1 && got[4] == 1);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void remove_head(void *item)
{
    (void)spn_queue_remove_item(queue, item);
}

static void poll_long(void *arg)
{
    void *item;
    const int rc = spn_queue_poll_timed(queue, &item, 5000);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc == SPN_OK)
        sim_assert(spn__now() >= due_at(item, NULL));
}

/* The head the leader sleeps for is taken out: it is not returned, and the
 * leader does not return early. */
SCENARIO(queue_delay__head_removed_while_leader_sleeps__not_returned, "DQ-16")
{
    sim_assert(open_delay(NULL));
    sim_assert(spn_queue_put(queue, (void *)4) == SPN_OK);
    sim_thread(poll_long, NULL);
    remove_head((void *)4);
    sim_join_all();
    sim_assert(spn_queue_size(queue) == 0);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}
