/* SPDX-License-Identifier: MIT */
/*
 * scenario_eventcount.c - consumers that sleep unless an item is there, over a
 * bare counter of items.  Each scenario lets the explorer choose between the
 * full fences and the light and heavy pair.
 */
#include "sim.h"

#include <string.h>

#include "sync/eventcount.h"
#include "sync/interrupt.h"
#include "sync/thread_record.h"

static struct spn__eventcount ec;
static SPN__ATOMIC(int) items, payload, taken;
static struct spn_thread *consumer_record;

static void reset(void)
{
    spn__eventcount_init(&ec, sim_choose(2) == 1);
    spn__init(&items, 0);
    spn__init(&payload, 0);
    spn__init(&taken, 0);
}

static bool take(void)
{
    int found = spn__load(&items, relaxed);

    while (found > 0)
        if (spn__cas(&items, &found, found - 1, acquire, relaxed))
            return true;
    return false;
}

/* SPN_OK when it took an item. */
static int take_or_wait(int64_t deadline_ns)
{
    struct spn__waiter w;
    int rc;

    while (!take()) {
        if (spn__eventcount_prepare(&ec, &w) != SPN_OK)
            return SPN_ENOMEM;
        if (take()) {
            spn__eventcount_cancel(&ec, &w);
            break;
        }
        rc = spn__eventcount_wait(&ec, &w, deadline_ns);
        if (rc != SPN_OK)
            return rc;
    }
    (void)spn__fetch_add(&taken, 1, relaxed);
    return SPN_OK;
}

static void put(void *arg)
{
    (void)arg;
    spn__store(&payload, 7, relaxed);
    (void)spn__fetch_add(&items, 1, release);
    spn__eventcount_notify(&ec);
}

static void consume(void *arg)
{
    (void)arg;
    sim_assert(take_or_wait(SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&payload, relaxed) == 7);
}

static void check_quiet(void)
{
    sim_assert(spn__waitq_empty(&ec.q));
    sim_assert(spn__load(&ec.waiting, relaxed) == 0);
}

/* The item and the sleeper always meet. */
SCENARIO(eventcount__put_races_sleep__item_taken, "G-20", "G-19", "P4", "P5")
{
    reset();
    sim_thread(put, NULL);
    consume(NULL);
    sim_join_all();
    check_quiet();
}
SCENARIO_OPTS(eventcount__put_races_sleep__item_taken, .dfs = 2)

/* Two consumers, two items: nobody sleeps on an item. */
SCENARIO(eventcount__two_consumers_two_items__both_served, "G-20")
{
    reset();
    sim_thread(consume, NULL);
    sim_thread(put, NULL);
    sim_thread(put, NULL);
    consume(NULL);
    sim_join_all();
    sim_assert(spn__load(&items, relaxed) == 0);
    check_quiet();
}

static void consume_if_there(void *arg)
{
    struct spn__waiter w;

    (void)arg;
    if (spn__eventcount_prepare(&ec, &w) != SPN_OK)
        return;
    spn__eventcount_cancel(&ec, &w); /* changed its mind, item or not */
}

/* A consumer that lists itself and leaves again passes a notification on: the
 * one that sleeps hears of the item. */
SCENARIO(eventcount__chosen_one_cancels__notification_passed_on, "G-20", "G-11", "P5")
{
    reset();
    sim_thread(consume_if_there, NULL);
    sim_thread(put, NULL);
    consume(NULL);
    sim_join_all();
    check_quiet();
}
SCENARIO_OPTS(eventcount__chosen_one_cancels__notification_passed_on, .dfs = 2,
              .dfs_models = SIM_SC)

static void consume_timed(void *arg)
{
    const int64_t deadline_ns = spn__now() + 500;
    const int rc = take_or_wait(deadline_ns);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT);
    if (rc == SPN_ETIMEDOUT)
        sim_assert(spn__now() >= deadline_ns);
    else
        put(NULL); /* gives it back for the one who waits without a limit */
}

/* A wait that gives up takes no wake-up with it. */
SCENARIO(eventcount__one_times_out__other_still_served, "G-11", "G-20")
{
    reset();
    sim_thread(consume_timed, NULL);
    sim_thread(put, NULL);
    consume(NULL);
    sim_join_all();
    sim_assert(spn__load(&items, relaxed) == 0);
    check_quiet();
}

static void consume_interruptibly(void *arg)
{
    int rc;

    (void)arg;
    consumer_record = spn_thread_ref(spn__thread_self());
    rc = take_or_wait(SPN_FOREVER);
    /* G-12: the result with the flag still set, or EINTR and it is clear. */
    if (rc == SPN_EINTR)
        sim_assert(!spn__interrupt_pending(consumer_record));
    else
        sim_assert(rc == SPN_OK);
}

static void interrupt_consumer(void *arg)
{
    spn__interrupt_set(arg);
}

static void interruptible_body(void *arg)
{
    struct spn_thread *self = spn__thread_self();
    int rc;

    (void)arg;
    sim_assert(self != NULL);
    sim_thread(interrupt_consumer, self);
    sim_thread(put, NULL);
    rc = take_or_wait(SPN_FOREVER);
    sim_join_all();
    /* Everybody is done: the flag was set once, and is either used or there. */
    sim_assert(rc == SPN_OK || rc == SPN_EINTR);
    sim_assert(spn__interrupt_pending(self) == (rc == SPN_OK));
    sim_assert(spn__load(&items, relaxed) == (rc == SPN_OK ? 0 : 1));
}

/* Item and interrupt at once: one of the two outcomes, the item never lost. */
SCENARIO(eventcount__interrupt_races_put__one_outcome, "G-11", "G-12")
{
    reset();
    interruptible_body(NULL);
    check_quiet();
}

/* Consumers interrupted while another waits: the item finds the other. */
SCENARIO(eventcount__one_interrupted__other_still_served, "G-11", "G-20")
{
    reset();
    consumer_record = NULL;
    sim_thread(consume_interruptibly, NULL);
    sim_settle();
    sim_assert(consumer_record != NULL);
    sim_thread(interrupt_consumer, consumer_record);
    sim_thread(put, NULL);
    sim_thread(put, NULL);
    consume(NULL);
    sim_join_all();
    spn_thread_unref(consumer_record); /* kept: a record may be used again */
    check_quiet();
}

static void put_for_all(void *arg)
{
    (void)arg;
    spn__store(&payload, 7, relaxed);
    (void)spn__fetch_add(&items, 2, release);
    spn__eventcount_notify_all(&ec);
}

/* notify_all releases everybody who listed themselves before. */
SCENARIO(eventcount__notify_all__everybody_wakes, "G-20")
{
    reset();
    sim_thread(consume, NULL);
    sim_thread(put_for_all, NULL);
    consume(NULL);
    sim_join_all();
    check_quiet();
}

/* A lost wake-up that a time-out rescues shows as time. */
SCENARIO(eventcount__timed_wait__wakes_promptly, "G-20")
{
    int64_t began_ns;

    reset();
    began_ns = spn__now();
    sim_thread(put, NULL);
    sim_assert(take_or_wait(began_ns + SPN_SEC(3600)) == SPN_OK);
    sim_assert(spn__now() - began_ns < SPN_SEC(1));
    sim_join_all();
}
SCENARIO_OPTS(eventcount__timed_wait__wakes_promptly, .early = SIM_NEVER)
