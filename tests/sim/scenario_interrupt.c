/* SPDX-License-Identifier: MIT */
/*
 * scenario_interrupt.c - the interrupt flag against every way to wait (contract
 * G-9 to G-14, LS-4, LS-10).
 */
#include "sim.h"

#include <spindle.h>

#include "sync/interrupt.h"

static SPN__ATOMIC(int) payload;
static spn_latch *latch;
static spn_semaphore *semaphore;

static void interrupt_it(void *thread)
{
    spn__store(&payload, 7, relaxed);
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
}

/* Parks until interrupted; the flag stays, the interrupter's work is seen. */
SCENARIO(interrupt__races_park__released_and_flag_stays, "LS-4", "LS-10", "G-9", "G-19")
{
    spn_thread *self = spn_thread_current();

    spn__init(&payload, 0);
    sim_thread(interrupt_it, self);
    while (spn_thread_is_interrupted(self) == 0)
        spn_park(NULL);
    sim_assert(spn__load(&payload, relaxed) == 7);
    spn_park(NULL); /* returns at once while the flag is set */
    sim_assert(spn_thread_is_interrupted(self) == 1);
    sim_assert(spn_thread_interrupted() == 1);
    sim_assert(spn_thread_interrupted() == 0);
    sim_join_all();
}
SCENARIO_OPTS(interrupt__races_park__released_and_flag_stays, .dfs = 2)

static void count_down(void *arg)
{
    (void)arg;
    sim_assert(spn_latch_count_down(latch) == SPN_OK);
}

/* Opening and interrupt collide: the result with the flag set, or SPN_EINTR
 * with the flag clear; nothing else. */
SCENARIO(interrupt__races_latch_opening__one_outcome, "G-10", "G-11", "G-12")
{
    spn_thread *self = spn_thread_current();
    int rc;

    spn__init(&payload, 0);
    sim_assert(spn_latch_create(&latch, 1) == SPN_OK);
    sim_thread(interrupt_it, self);
    sim_thread(count_down, NULL);
    rc = spn_latch_await(latch, SPN_FOREVER);
    if (rc == SPN_EINTR)
        sim_assert(spn__load(&payload, relaxed) == 7);
    else
        sim_assert(rc == SPN_OK);
    sim_join_all();
    sim_assert(spn_thread_interrupted() == (rc == SPN_OK));
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
}
SCENARIO_OPTS(interrupt__races_latch_opening__one_outcome, .dfs = 2)

/* With the flag set a wait that would have to block does not, and clears it. */
SCENARIO(interrupt__flag_set_before__returns_at_once, "G-10", "G-13")
{
    const int64_t began_ns = spn__now();

    sim_assert(spn_latch_create(&latch, 1) == SPN_OK);
    sim_assert(spn_thread_interrupt(spn_thread_current()) == SPN_OK);
    sim_assert(spn_latch_await(latch, SPN_SEC(3600)) == SPN_EINTR);
    sim_assert(spn_thread_interrupted() == 0);
    sim_assert(spn_thread_interrupt(spn_thread_current()) == SPN_OK);
    sim_assert(spn_clock_sleep_until(spn_clock_monotonic(), SPN_FOREVER) == SPN_EINTR);
    sim_assert(spn_thread_interrupted() == 0);
    /* An open latch does not have to wait, and leaves the flag alone. */
    sim_assert(spn_thread_interrupt(spn_thread_current()) == SPN_OK);
    sim_assert(spn_latch_count_down(latch) == SPN_OK);
    sim_assert(spn_latch_await(latch, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_thread_interrupted() == 1);
    sim_assert(spn__now() - began_ns < SPN_SEC(1));
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
}

static void release_one(void *arg)
{
    (void)arg;
    sim_assert(spn_semaphore_release(semaphore, 1) == SPN_OK);
}

static void acquire_one(void *arg)
{
    (void)arg;
    sim_assert(spn_semaphore_acquire(semaphore, 1, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_semaphore_release(semaphore, 1) == SPN_OK);
}

/* A permit meant for an interrupted waiter goes to the next one. */
SCENARIO(interrupt__races_semaphore_release__permit_not_lost, "G-11", "G-12")
{
    spn_thread *self = spn_thread_current();
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;
    int rc;

    opts.fair = sim_choose(2);
    sim_assert(spn_semaphore_create(&semaphore, &opts) == SPN_OK);
    sim_thread(interrupt_it, self);
    sim_thread(acquire_one, NULL);
    sim_thread(release_one, NULL);
    rc = spn_semaphore_acquire(semaphore, 1, SPN_FOREVER);
    sim_assert(rc == SPN_OK || rc == SPN_EINTR);
    if (rc == SPN_OK)
        release_one(NULL);
    sim_join_all();
    sim_assert(spn_semaphore_available(semaphore) == 1);
    sim_assert(spn_thread_interrupted() == (rc == SPN_OK));
    sim_assert(spn_semaphore_destroy(semaphore) == SPN_OK);
}

static int return_five(void *arg)
{
    (void)arg;
    return 5;
}

/* Joining a thread that ends while the joiner is interrupted. */
SCENARIO(interrupt__races_thread_end__one_outcome, "G-11", "G-12")
{
    spn_thread *self = spn_thread_current(), *thread;
    int rc, result = 0;

    sim_assert(spn_thread_create(&thread, NULL, return_five, NULL) == SPN_OK);
    sim_thread(interrupt_it, self);
    rc = spn_thread_join(thread, SPN_FOREVER, &result);
    sim_assert(rc == SPN_OK || rc == SPN_EINTR);
    sim_join_all();
    sim_assert(spn_thread_interrupted() == (rc == SPN_OK));
    if (rc == SPN_EINTR)
        sim_assert(spn_thread_join(thread, SPN_FOREVER, &result) == SPN_OK);
    sim_assert(result == 5);
    spn_thread_unref(thread);
}

static SPN__ATOMIC(int) payload2;

static void interrupt_with_payload2(void *thread)
{
    spn__store(&payload2, 7, relaxed);
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
}

/* Two interrupts may make one: then the one SPN_EINTR brings what both did, or
 * the thread would wait for ever for the second. */
SCENARIO(interrupt__two_become_one__sees_both, "G-9", "G-19")
{
    spn_thread *self = spn_thread_current();

    spn__init(&payload, 0);
    spn__init(&payload2, 0);
    sim_assert(spn_latch_create(&latch, 1) == SPN_OK);
    sim_thread(interrupt_it, self);
    sim_thread(interrupt_with_payload2, self);
    while (spn__load(&payload, relaxed) == 0 || spn__load(&payload2, relaxed) == 0)
        sim_assert(spn_latch_await(latch, SPN_FOREVER) == SPN_EINTR);
    sim_join_all();
    (void)spn_thread_interrupted(); /* what was seen may not have been used up */
    sim_assert(spn_latch_await(latch, SPN_NOWAIT) == SPN_ETIMEDOUT);
    sim_assert(spn_latch_destroy(latch) == SPN_OK);
}

static int sleep_until_interrupted(void *out)
{
    *(int *)out = spn_clock_sleep_until(spn_clock_monotonic(), SPN_FOREVER);
    return 0;
}

/* The monotonic sleep, at any point of its way down. */
SCENARIO(interrupt__races_sleep__wakes, "G-11")
{
    spn_thread *thread;
    int slept = SPN_OK;

    sim_assert(spn_thread_create(&thread, NULL, sleep_until_interrupted, &slept) ==
               SPN_OK);
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
    sim_assert(spn_thread_join(thread, SPN_FOREVER, NULL) == SPN_OK);
    sim_assert(slept == SPN_EINTR);
    spn_thread_unref(thread);
}
SCENARIO_OPTS(interrupt__races_sleep__wakes, .dfs = 2)
