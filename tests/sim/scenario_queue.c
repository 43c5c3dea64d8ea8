/* SPDX-License-Identifier: MIT */
/*
 * scenario_queue.c - the races every kind of queue must survive: items against
 * sleepers, time-outs, interrupts and close.  Each body is written once and
 * becomes a scenario for each kind.
 *
 * `got[i]` counts how often item i came out; it is plain, because an item comes
 * out on one thread.  `payload[i]` is relaxed: it is visible to the taker of
 * item i only if the queue orders it.
 */
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "sim_queue.h"
#include "sync/seam.h"

enum { ITEMS = 4 };

static spn_queue *queue;
static int got[ITEMS + 1];
static SPN__ATOMIC(int) payload[ITEMS + 1];

static int by_value(const void *a, const void *b, void *ctx)
{
    (void)ctx;
    return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

static int64_t due_now(const void *item, void *ctx)
{
    (void)item;
    (void)ctx;
    return 0;
}

/* Fair and unfair queues of these kinds are different code. */
static bool may_be_fair(spn_queue_kind kind)
{
    return kind == SPN_QUEUE_ARRAY || kind == SPN_QUEUE_SYNCHRONOUS;
}

static bool open_queue(spn_queue_kind kind, int32_t capacity, bool fair)
{
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;

    memset(got, 0, sizeof got);
    for (int i = 0; i <= ITEMS; i++)
        spn__init(&payload[i], 0);
    if (kind == SPN_QUEUE_LINKED || kind == SPN_QUEUE_ARRAY || kind == SPN_QUEUE_RING ||
        kind == SPN_QUEUE_DEQUE)
        opts.capacity = capacity;
    opts.fair = fair;
    if (kind == SPN_QUEUE_SYNCHRONOUS || kind == SPN_QUEUE_TRANSFER)
        opts.spins_timed = opts.spins_untimed = 1; /* more only lengthen schedules */
    if (kind == SPN_QUEUE_PRIORITY)
        opts.compare = by_value;
    if (kind == SPN_QUEUE_DELAY)
        opts.due = due_now;
    return spn_queue_create(&queue, kind, &opts) == SPN_OK;
}

static void close_queue(void)
{
    sim_join_all();
    for (void *item; (item = take_now(queue)) != NULL;)
        got[(uintptr_t)item]++;
    sim_assert(spn_queue_size(queue) == 0);
    sim_assert(spn_queue_waiting_consumers(queue) == 0);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

static void receive(void *item)
{
    const uintptr_t i = (uintptr_t)item;

    sim_assert(i >= 1 && i <= ITEMS);
    sim_assert(spn__load(&payload[i], relaxed) == 7);
    got[i]++;
}

static void put(void *item)
{
    spn__store(&payload[(uintptr_t)item], 7, relaxed);
    sim_assert(spn_queue_put(queue, item, SPN_FOREVER) == SPN_OK);
}

static void take(void *arg)
{
    void *item;

    (void)arg;
    sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK);
    receive(item);
}

/* ---- two of each ------------------------------------------------------------ */

static void two_of_each(spn_queue_kind kind, int32_t capacity)
{
    if (!open_queue(kind, capacity,
                    kind == SPN_QUEUE_SYNCHRONOUS && sim_choose(2) == 1))
        return;
    sim_thread(put, (void *)1);
    sim_thread(put, (void *)2);
    sim_thread(take, NULL);
    take(NULL);
    close_queue();
    sim_assert(got[1] == 1 && got[2] == 1);
}

/* Two producers, two consumers: each item comes out once, nobody sleeps on. */
SCENARIO(queue_linked__two_of_each__all_meet, "Q-29", "G-15", "G-19", "G-20", "LBQ-5")
{
    two_of_each(SPN_QUEUE_LINKED, 1);
}
SCENARIO(queue_array__two_of_each__all_meet, "Q-29", "G-15", "G-19", "G-20")
{
    two_of_each(SPN_QUEUE_ARRAY, 1);
}
SCENARIO(queue_ring__two_of_each__all_meet, "Q-29", "G-15", "G-19", "G-20")
{
    two_of_each(SPN_QUEUE_RING, 2);
}
SCENARIO(queue_priority__two_of_each__all_meet, "Q-29", "G-15", "G-19", "G-20", "PBQ-9")
{
    two_of_each(SPN_QUEUE_PRIORITY, 0);
}
SCENARIO(queue_delay__two_of_each__all_meet, "Q-29", "G-15", "G-19", "G-20", "DQ-15")
{
    two_of_each(SPN_QUEUE_DELAY, 0);
}
SCENARIO(queue_synchronous__two_of_each__all_meet, "Q-29", "SQ-5", "G-19", "G-20")
{
    two_of_each(SPN_QUEUE_SYNCHRONOUS, 0);
}
SCENARIO(queue_transfer__two_of_each__all_meet, "Q-29", "G-15", "G-19", "G-20",
         "LTQ-12")
{
    two_of_each(SPN_QUEUE_TRANSFER, 0);
}
SCENARIO(queue_deque__two_of_each__all_meet, "Q-29", "G-15", "G-19", "G-20", "LBD-13")
{
    two_of_each(SPN_QUEUE_DEQUE, 1);
}

/* ---- one producer, more items than room -------------------------------------- */

static void put_four(void *arg)
{
    (void)arg;
    for (uintptr_t i = 1; i <= 4; i++)
        put((void *)i);
}

static void in_order(spn_queue_kind kind, int32_t capacity)
{
    void *item;

    if (!open_queue(kind, capacity, may_be_fair(kind) && sim_choose(2) == 1))
        return;
    sim_thread(put_four, NULL);
    for (uintptr_t i = 1; i <= 4; i++) {
        sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK);
        sim_assert((uintptr_t)item == i);
        receive(item);
    }
    close_queue();
}

/* A queue that is too small: the producer waits for room again and again, and
 * the order holds. */
SCENARIO(queue_linked__too_small__in_order, "Q-8", "Q-11")
{
    in_order(SPN_QUEUE_LINKED, 1);
}
SCENARIO(queue_array__too_small__in_order, "Q-8", "Q-11")
{
    in_order(SPN_QUEUE_ARRAY, 1);
}
SCENARIO(queue_ring__too_small__in_order, "Q-8", "Q-11")
{
    in_order(SPN_QUEUE_RING, 2);
}
SCENARIO(queue_deque__too_small__in_order, "Q-8", "Q-11")
{
    in_order(SPN_QUEUE_DEQUE, 1);
}
SCENARIO(queue_synchronous__too_small__in_order, "SQ-4", "SQ-5")
{
    in_order(SPN_QUEUE_SYNCHRONOUS, 0);
}
SCENARIO_OPTS(queue_array__too_small__in_order, .dfs = 1, .dfs_models = SIM_SC)
SCENARIO_OPTS(queue_linked__too_small__in_order, .dfs = 1, .dfs_models = SIM_SC)
SCENARIO_OPTS(queue_ring__too_small__in_order, .dfs = 1, .dfs_models = SIM_SC)
SCENARIO_OPTS(queue_synchronous__too_small__in_order, .dfs = 1, .dfs_models = SIM_SC)

/* ---- batches ------------------------------------------------------------------ */

static void put_batch(void *arg)
{
    void *items[3] = { (void *)1, (void *)2, (void *)3 };
    size_t done;

    (void)arg;
    for (int i = 1; i <= 3; i++)
        spn__store(&payload[i], 7, relaxed);
    sim_assert(spn_queue_put_many(queue, items, 3, SPN_FOREVER, &done) == SPN_OK);
    sim_assert(done == 3);
}

static void batches(spn_queue_kind kind, int32_t capacity)
{
    void *items[2];
    size_t total = 0, count;

    if (!open_queue(kind, capacity, may_be_fair(kind) && sim_choose(2) == 1))
        return;
    sim_thread(put_batch, NULL);
    sim_thread(put, (void *)4);
    while (total < 4) {
        sim_assert(spn_queue_take_many(queue, items, 2, SPN_FOREVER, &count) == SPN_OK);
        sim_assert(count >= 1 && count <= 2);
        for (size_t i = 0; i < count; i++)
            receive(items[i]);
        total += count;
    }
    close_queue();
    for (int i = 1; i <= 4; i++)
        sim_assert(got[i] == 1);
}

/* Several at a time through a small queue: all arrive, nobody is forgotten. */
SCENARIO(queue_linked__batches__all_arrive, "G-15", "G-20")
{
    batches(SPN_QUEUE_LINKED, 2);
}
SCENARIO(queue_array__batches__all_arrive, "G-15", "G-20")
{
    batches(SPN_QUEUE_ARRAY, 2);
}
SCENARIO(queue_ring__batches__all_arrive, "G-15", "G-20")
{
    batches(SPN_QUEUE_RING, 2);
}

/* ---- time-outs ------------------------------------------------------------------ */

/* A wait of a microsecond or less is spun out, a longer one sleeps. */
static int64_t short_ns(int64_t ns)
{
    return sim_choose(2) == 0 ? ns : ns + SPN_US(2);
}

static void take_timed(void *arg)
{
    const int64_t timeout_ns = short_ns(400);
    const int64_t deadline_ns = spn__now() + timeout_ns;
    void *item;
    const int rc = spn_queue_take(queue, &item, timeout_ns);

    (void)arg;
    if (rc == SPN_OK) {
        receive(item);
        return;
    }
    sim_assert(rc == SPN_ETIMEDOUT && item == NULL && spn__now() >= deadline_ns);
}

static void offer_timed(void *item)
{
    int rc;

    spn__store(&payload[(uintptr_t)item], 7, relaxed);
    rc = spn_queue_put(queue, item, short_ns(300));
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc == SPN_ETIMEDOUT)
        got[(uintptr_t)item]++; /* it is ours still: never delivered */
}

static void timeouts(spn_queue_kind kind, int32_t capacity)
{
    if (!open_queue(kind, capacity,
                    kind == SPN_QUEUE_SYNCHRONOUS && sim_choose(2) == 1))
        return;
    sim_thread(take_timed, NULL);
    sim_thread(offer_timed, (void *)1);
    offer_timed((void *)2);
    close_queue();
    sim_assert(got[1] == 1 && got[2] == 1);
}

/* Takers and putters that give up: every item was delivered or kept, not both. */
SCENARIO(queue_linked__timeouts__each_item_once, "Q-10", "Q-13", "Q-32")
{
    timeouts(SPN_QUEUE_LINKED, 1);
}
SCENARIO(queue_array__timeouts__each_item_once, "Q-10", "Q-13", "Q-32")
{
    timeouts(SPN_QUEUE_ARRAY, 1);
}
SCENARIO(queue_ring__timeouts__each_item_once, "Q-10", "Q-13", "Q-32")
{
    timeouts(SPN_QUEUE_RING, 2);
}
SCENARIO(queue_deque__timeouts__each_item_once, "Q-10", "Q-13", "Q-32")
{
    timeouts(SPN_QUEUE_DEQUE, 1);
}
SCENARIO(queue_synchronous__timeouts__each_item_once, "SQ-6", "SQ-11", "SQ-12")
{
    timeouts(SPN_QUEUE_SYNCHRONOUS, 0);
}
SCENARIO(queue_priority__timeouts__each_item_once, "Q-13", "Q-32")
{
    timeouts(SPN_QUEUE_PRIORITY, 0);
}
SCENARIO(queue_delay__timeouts__each_item_once, "DQ-5", "DQ-14", "Q-32")
{
    timeouts(SPN_QUEUE_DELAY, 0);
}

/* One consumer gives up while another waits for ever: the item finds it. */
static void one_gives_up(spn_queue_kind kind)
{
    void *item;

    if (!open_queue(kind, 2, may_be_fair(kind) && sim_choose(2) == 1))
        return;
    sim_thread(take_timed, NULL);
    sim_thread(put, (void *)1);
    sim_thread(put, (void *)2);
    sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK);
    receive(item);
    close_queue();
    sim_assert(got[1] == 1 && got[2] == 1);
}

SCENARIO(queue_linked__one_gives_up__other_served, "Q-32")
{
    one_gives_up(SPN_QUEUE_LINKED);
}
SCENARIO(queue_array__one_gives_up__other_served, "Q-32")
{
    one_gives_up(SPN_QUEUE_ARRAY);
}
SCENARIO(queue_ring__one_gives_up__other_served, "Q-32")
{
    one_gives_up(SPN_QUEUE_RING);
}
SCENARIO(queue_delay__one_gives_up__other_served, "DQ-14", "Q-32")
{
    one_gives_up(SPN_QUEUE_DELAY);
}
SCENARIO(queue_transfer__one_gives_up__other_served, "LTQ-13", "Q-32")
{
    one_gives_up(SPN_QUEUE_TRANSFER);
}

/* ---- interrupts -------------------------------------------------------------------- */

static void interrupt_it(void *thread)
{
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
}

static void interrupts(spn_queue_kind kind)
{
    spn_thread *self = spn_thread_current();
    void *item;
    int rc;

    if (!open_queue(kind, 2, may_be_fair(kind) && sim_choose(2) == 1))
        return;
    sim_thread(interrupt_it, self);
    sim_thread(kind == SPN_QUEUE_SYNCHRONOUS ? offer_timed : put, (void *)1);
    sim_thread(take_timed, NULL);
    rc = spn_queue_take(queue, &item, SPN_FOREVER);
    if (rc == SPN_OK)
        receive(item);
    else
        sim_assert(rc == SPN_EINTR && item == NULL);
    sim_join_all();
    sim_assert(spn_thread_interrupted() == (rc == SPN_OK)); /* G-12 */
    close_queue();
    sim_assert(got[1] == 1);
}

/* A consumer interrupted while an item comes and another consumer waits: the
 * item with the flag still set, or SPN_EINTR and the item is the other's. */

SCENARIO(queue_linked__interrupt_races_item__one_outcome, "Q-32", "G-11", "G-12")
{
    interrupts(SPN_QUEUE_LINKED);
}
SCENARIO(queue_array__interrupt_races_item__one_outcome, "Q-32", "G-11", "G-12")
{
    interrupts(SPN_QUEUE_ARRAY);
}
SCENARIO(queue_ring__interrupt_races_item__one_outcome, "Q-32", "G-11", "G-12")
{
    interrupts(SPN_QUEUE_RING);
}
SCENARIO(queue_delay__interrupt_races_item__one_outcome, "DQ-14", "G-11", "G-12")
{
    interrupts(SPN_QUEUE_DELAY);
}
SCENARIO(queue_synchronous__interrupt_races_item__one_outcome, "SQ-4", "SQ-11", "SQ-17")
{
    interrupts(SPN_QUEUE_SYNCHRONOUS);
}
SCENARIO(queue_transfer__interrupt_races_item__one_outcome, "LTQ-8", "G-11", "G-12")
{
    interrupts(SPN_QUEUE_TRANSFER);
}
SCENARIO(queue_priority__interrupt_races_item__one_outcome, "PBQ-7", "G-11", "G-12")
{
    interrupts(SPN_QUEUE_PRIORITY);
}

/* ---- close --------------------------------------------------------------------------- */

static void take_until_closed(void *arg)
{
    void *item;
    int rc;

    (void)arg;
    while ((rc = spn_queue_take(queue, &item, SPN_FOREVER)) == SPN_OK)
        receive(item);
    sim_assert(rc == SPN_ECLOSED);
}

static void put_or_closed(void *item)
{
    int rc;

    spn__store(&payload[(uintptr_t)item], 7, relaxed);
    rc = spn_queue_put(queue, item, SPN_FOREVER);
    sim_assert(rc == SPN_OK || rc == SPN_ECLOSED);
    if (rc == SPN_ECLOSED)
        got[(uintptr_t)item]++; /* ours still */
}

static void close_it(void *arg)
{
    (void)arg;
    sim_assert(spn_queue_close(queue) == SPN_OK);
}

static void closing(spn_queue_kind kind, int32_t capacity)
{
    if (!open_queue(kind, capacity, may_be_fair(kind) && sim_choose(2) == 1))
        return;
    sim_thread(put_or_closed, (void *)1);
    sim_thread(put_or_closed, (void *)2);
    sim_thread(close_it, NULL);
    take_until_closed(NULL);
    sim_join_all();
    /* What was accepted has come out before the end was announced. */
    sim_assert(got[1] == 1 && got[2] == 1);
    sim_assert(take_now(queue) == NULL);
    close_queue();
}

/* Close wakes everybody; an accepted item comes out before SPN_ECLOSED. */
SCENARIO(queue_linked__close__accepted_comes_out_first, "G-15", "G-20")
{
    closing(SPN_QUEUE_LINKED, 1);
}
SCENARIO(queue_array__close__accepted_comes_out_first, "G-15", "G-20")
{
    closing(SPN_QUEUE_ARRAY, 1);
}
SCENARIO(queue_ring__close__accepted_comes_out_first, "G-15", "G-20")
{
    closing(SPN_QUEUE_RING, 2);
}
SCENARIO(queue_deque__close__accepted_comes_out_first, "G-15", "G-20")
{
    closing(SPN_QUEUE_DEQUE, 1);
}
SCENARIO(queue_delay__close__accepted_comes_out_first, "G-15", "G-20")
{
    closing(SPN_QUEUE_DELAY, 0);
}
SCENARIO(queue_synchronous__close__accepted_comes_out_first, "SQ-12", "G-20")
{
    closing(SPN_QUEUE_SYNCHRONOUS, 0);
}
SCENARIO(queue_transfer__close__accepted_comes_out_first, "G-15", "G-20")
{
    closing(SPN_QUEUE_TRANSFER, 0);
}

static void closing_two_consumers(spn_queue_kind kind, int32_t capacity)
{
    if (!open_queue(kind, capacity, may_be_fair(kind) && sim_choose(2) == 1))
        return;
    sim_thread(put_or_closed, (void *)1);
    sim_thread(close_it, NULL);
    sim_thread(take_until_closed, NULL);
    take_until_closed(NULL);
    sim_join_all();
    sim_assert(got[1] == 1);
    close_queue();
}

/* The last item goes to one consumer; the other learns that it was the last. */
SCENARIO(queue_linked__close__all_consumers_end, "G-20")
{
    closing_two_consumers(SPN_QUEUE_LINKED, 2);
}
SCENARIO(queue_ring__close__all_consumers_end, "G-20")
{
    closing_two_consumers(SPN_QUEUE_RING, 2);
}
SCENARIO(queue_delay__close__all_consumers_end, "G-20")
{
    closing_two_consumers(SPN_QUEUE_DELAY, 0);
}

static SPN__ATOMIC(int) before_close;

static void close_with_payload(void *arg)
{
    (void)arg;
    spn__store(&before_close, 7, relaxed);
    sim_assert(spn_queue_close(queue) == SPN_OK);
}

static void offer_at_the_end(void *item)
{
    spn__store(&payload[(uintptr_t)item], 7, relaxed);
    if (spn_queue_put(queue, item, 0) == SPN_ECLOSED)
        sim_assert(spn__load(&before_close, relaxed) == 7);
}

static void told_of_the_end(spn_queue_kind kind)
{
    void *item;

    if (!open_queue(kind, 2, may_be_fair(kind) && sim_choose(2) == 1))
        return;
    spn__init(&before_close, 0);
    sim_thread(close_with_payload, NULL);
    sim_thread(offer_at_the_end, (void *)1);
    while (spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK) {
    }
    sim_assert(spn__load(&before_close, relaxed) == 7);
    close_queue();
}

/* Who is told that the queue is closed sees what was done before. */
SCENARIO(queue_linked__told_of_the_end__work_before_it_seen, "G-19")
{
    told_of_the_end(SPN_QUEUE_LINKED);
}
SCENARIO(queue_array__told_of_the_end__work_before_it_seen, "G-19")
{
    told_of_the_end(SPN_QUEUE_ARRAY);
}
SCENARIO(queue_ring__told_of_the_end__work_before_it_seen, "G-19")
{
    told_of_the_end(SPN_QUEUE_RING);
}
SCENARIO(queue_delay__told_of_the_end__work_before_it_seen, "G-19")
{
    told_of_the_end(SPN_QUEUE_DELAY);
}

static void find_it_closed(spn_queue_kind kind)
{
    void *item;

    if (!open_queue(kind, 2, false))
        return;
    spn__init(&before_close, 0);
    sim_thread(close_with_payload, NULL);
    if (spn_queue_take(queue, &item, 0) == SPN_ECLOSED)
        sim_assert(spn__load(&before_close, relaxed) == 7);
    close_queue();
}

/* The same for who asks. */
SCENARIO(queue_linked__found_closed__work_before_it_seen, "G-19")
{
    find_it_closed(SPN_QUEUE_LINKED);
}
SCENARIO_OPTS(queue_linked__found_closed__work_before_it_seen, .dfs = 2)
SCENARIO(queue_ring__found_closed__work_before_it_seen, "G-19")
{
    find_it_closed(SPN_QUEUE_RING);
}
SCENARIO_OPTS(queue_ring__found_closed__work_before_it_seen, .dfs = 2)
SCENARIO(queue_deque__found_closed__work_before_it_seen, "G-19")
{
    find_it_closed(SPN_QUEUE_DEQUE);
}
SCENARIO_OPTS(queue_deque__found_closed__work_before_it_seen, .dfs = 2)

/* ---- holes ------------------------------------------------------------------------------ */

static void remove_from_inside(void *item)
{
    if (spn_queue_remove_item(queue, item) == SPN_OK)
        got[(uintptr_t)item]++;
}

/* A full queue, a removal from inside, a producer that waits for the room, a consumer. */
static void make_room_inside(spn_queue_kind kind)
{
    if (!open_queue(kind, 2, false))
        return;
    put((void *)1);
    put((void *)2);
    sim_thread(remove_from_inside, (void *)2);
    sim_thread(put, (void *)3);
    take(NULL);
    close_queue();
    for (int i = 1; i <= 3; i++)
        sim_assert(got[i] == 1);
}

/* The place of an item removed from inside is room for another. */
SCENARIO(queue_linked__removed_from_inside__room_for_another, "Q-17", "G-15", "G-20")
{
    make_room_inside(SPN_QUEUE_LINKED);
}
SCENARIO_OPTS(queue_linked__removed_from_inside__room_for_another, .dfs = 1,
              .dfs_models = SIM_SC)
SCENARIO(queue_array__removed_from_inside__room_for_another, "Q-17", "G-15", "G-20")
{
    make_room_inside(SPN_QUEUE_ARRAY);
}
SCENARIO_OPTS(queue_array__removed_from_inside__room_for_another, .dfs = 1,
              .dfs_models = SIM_SC)

/* ---- peek ------------------------------------------------------------------------------ */

static void peeking(spn_queue_kind kind)
{
    void *item;

    if (!open_queue(kind, 2, may_be_fair(kind) && sim_choose(2) == 1))
        return;
    sim_thread(put, (void *)1);
    item = first_of(queue);
    if (item != NULL)
        sim_assert(spn__load(&payload[1], relaxed) == 7);
    close_queue();
}

/* An item that is shown can be followed: what its producer did is seen. */
SCENARIO(queue_linked__peek__work_before_the_put_seen, "Q-15", "G-19")
{
    peeking(SPN_QUEUE_LINKED);
}
SCENARIO(queue_array__peek__work_before_the_put_seen, "Q-15", "G-19")
{
    peeking(SPN_QUEUE_ARRAY);
}
SCENARIO(queue_ring__peek__work_before_the_put_seen, "Q-15", "G-19")
{
    peeking(SPN_QUEUE_RING);
}
SCENARIO(queue_transfer__peek__work_before_the_put_seen, "Q-15", "G-19")
{
    peeking(SPN_QUEUE_TRANSFER);
}

/* With two cells the third item has the cell of the first. */
static void use_a_cell_again(void *arg)
{
    (void)arg;
    for (uintptr_t i = 1; i <= 3; i++) {
        spn__store(&payload[i], 7, relaxed);
        sim_assert(spn_queue_put(queue, (void *)i, 0) == SPN_OK);
        if (i < 3)
            sim_assert(take_now(queue) == (void *)i);
    }
}

/* Peek while the cell is used again: whatever item it shows, it is whole. */
SCENARIO(queue_ring__peek_while_cells_are_reused__item_is_whole, "Q-15", "G-19")
{
    void *item;

    if (!open_queue(SPN_QUEUE_RING, 2, false))
        return;
    sim_thread(use_a_cell_again, NULL);
    item = first_of(queue);
    if (item != NULL)
        sim_assert(spn__load(&payload[(uintptr_t)item], relaxed) == 7);
    close_queue();
}
SCENARIO_OPTS(queue_ring__peek_while_cells_are_reused__item_is_whole, .dfs = 1,
              .dfs_models = SIM_SC | SIM_C11)

/* ---- chunks --------------------------------------------------------------------------- */

enum { ROUNDS = 6 }; /* the fifth item may get the chunk of the first two */

static void put_rounds(void *arg)
{
    (void)arg;
    for (uintptr_t i = 0; i < ROUNDS; i++)
        put((void *)(i % ITEMS + 1));
}

/* A chunk goes back to the producer while the consumer reads the next. */
SCENARIO(queue_linked__chunks_are_reused__all_in_order, "LBQ-2", "G-15", "G-19")
{
    if (!open_queue(SPN_QUEUE_LINKED, SPN_DEFAULT, false))
        return;
    sim_thread(put_rounds, NULL);
    for (uintptr_t i = 0; i < ROUNDS; i++) {
        void *item;

        sim_assert(spn_queue_take(queue, &item, SPN_FOREVER) == SPN_OK);
        sim_assert(item == (void *)(i % ITEMS + 1));
        sim_assert(spn__load(&payload[(uintptr_t)item], relaxed) == 7);
    }
    close_queue();
}

/* ---- destroy --------------------------------------------------------------------------- */

static void wait_a_little(void *arg)
{
    void *item;

    (void)arg;
    sim_assert(spn_queue_take(queue, &item, SPN_MS(1)) == SPN_ETIMEDOUT);
}

static void offer_a_little(void *item)
{
    sim_assert(spn_queue_put(queue, item, SPN_MS(1)) == SPN_ETIMEDOUT);
}

static void destroyed_when_left(spn_queue_kind kind, bool full)
{
    spn__init(&before_close, 0);
    if (!open_queue(kind, 2, false))
        return;
    for (uintptr_t i = 1; full && i <= 2; i++)
        sim_assert(spn_queue_put(queue, (void *)i, 0) == SPN_OK);
    sim_thread(full ? offer_a_little : wait_a_little, (void *)3);
    sim_settle(); /* it is inside, and will leave by itself about now */
    for (unsigned i = 4 * sim_choose(4); i > 0; i--)
        (void)spn__load(&before_close, relaxed); /* lets it go on a little */
    if (spn_queue_destroy(queue) == SPN_EBUSY) {
        sim_join_all();
        sim_assert(spn_queue_destroy(queue) == SPN_OK);
    }
    sim_join_all();
}

/* A queue that says it is not busy is not touched any more. */
SCENARIO(queue_linked__destroyed_once_not_busy__nobody_touches_it, "Q-37", "G-17")
{
    destroyed_when_left(SPN_QUEUE_LINKED, sim_choose(2) == 1);
}
SCENARIO_OPTS(queue_linked__destroyed_once_not_busy__nobody_touches_it, .early = 2)
SCENARIO(queue_ring__destroyed_once_not_busy__nobody_touches_it, "Q-37", "G-17")
{
    destroyed_when_left(SPN_QUEUE_RING, sim_choose(2) == 1);
}
SCENARIO_OPTS(queue_ring__destroyed_once_not_busy__nobody_touches_it, .early = 2)
SCENARIO(queue_deque__destroyed_once_not_busy__nobody_touches_it, "Q-37", "G-17")
{
    destroyed_when_left(SPN_QUEUE_DEQUE, sim_choose(2) == 1);
}
SCENARIO_OPTS(queue_deque__destroyed_once_not_busy__nobody_touches_it, .early = 2)
SCENARIO(queue_delay__destroyed_once_not_busy__nobody_touches_it, "Q-37", "G-17")
{
    destroyed_when_left(SPN_QUEUE_DELAY, false);
}
SCENARIO_OPTS(queue_delay__destroyed_once_not_busy__nobody_touches_it, .early = 2)

/* ---- out of memory ------------------------------------------------------------------- */

static void without_memory(spn_queue_kind kind)
{
    void *item;
    int rc;

    if (!open_queue(kind, 3, may_be_fair(kind) && sim_choose(2) == 1))
        return;
    for (uintptr_t i = 1; i <= 3; i++) {
        rc = spn_queue_put(queue, (void *)i, 0);
        sim_assert(rc == SPN_OK || rc == SPN_ENOMEM);
        if (rc == SPN_OK)
            got[i]++;
    }
    rc = spn_queue_take(queue, &item, 10);
    sim_assert(rc == SPN_OK || rc == SPN_ENOMEM || rc == SPN_ETIMEDOUT);
    sim_assert((rc == SPN_OK) == (item != NULL));
    if (rc == SPN_OK)
        got[(uintptr_t)item]--;
    while ((item = take_now(queue)) != NULL)
        got[(uintptr_t)item]--;
    for (int i = 1; i <= 3; i++)
        sim_assert(got[i] == 0);
    sim_assert(spn_queue_destroy(queue) == SPN_OK);
}

/* Every allocation fails once: the documented status, no item lost, no leak. */
SCENARIO(queue_linked__allocation_fails__nothing_lost, "G-22")
{
    without_memory(SPN_QUEUE_LINKED);
}
SCENARIO(queue_array__allocation_fails__nothing_lost, "G-22")
{
    without_memory(SPN_QUEUE_ARRAY);
}
SCENARIO(queue_ring__allocation_fails__nothing_lost, "G-22")
{
    without_memory(SPN_QUEUE_RING);
}
SCENARIO(queue_priority__allocation_fails__nothing_lost, "G-22")
{
    without_memory(SPN_QUEUE_PRIORITY);
}
SCENARIO(queue_delay__allocation_fails__nothing_lost, "G-22")
{
    without_memory(SPN_QUEUE_DELAY);
}
SCENARIO(queue_deque__allocation_fails__nothing_lost, "G-22")
{
    without_memory(SPN_QUEUE_DEQUE);
}
SCENARIO(queue_transfer__allocation_fails__nothing_lost, "G-22")
{
    without_memory(SPN_QUEUE_TRANSFER);
}
SCENARIO_OPTS(queue_linked__allocation_fails__nothing_lost, .faults = true)
SCENARIO_OPTS(queue_array__allocation_fails__nothing_lost, .faults = true)
SCENARIO_OPTS(queue_ring__allocation_fails__nothing_lost, .faults = true)
SCENARIO_OPTS(queue_priority__allocation_fails__nothing_lost, .faults = true)
SCENARIO_OPTS(queue_delay__allocation_fails__nothing_lost, .faults = true)
SCENARIO_OPTS(queue_deque__allocation_fails__nothing_lost, .faults = true)
SCENARIO_OPTS(queue_transfer__allocation_fails__nothing_lost, .faults = true)
