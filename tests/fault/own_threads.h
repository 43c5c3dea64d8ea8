/* SPDX-License-Identifier: MIT */
/*
 * own_threads.h - waits until the threads of a script are gone.  A thread that is over has
 * given its record back when the kernel counts it no more; a pool that has ended says
 * nothing of that, so that its last threads and the first ones of the next pool may have
 * records at once.
 */
#ifndef OWN_THREADS_H
#define OWN_THREADS_H

#include <spindle/latch.h>
#include <spindle/thread.h>

#include "test.h"

static int own_threads; /* of the program, and a sanitizer's own */

static int await_latch(void *latch)
{
    return spn_latch_await(latch, SPN_FOREVER);
}

/* One fewer than with a thread of ours: a sanitizer's come with the first. */
static void count_own_threads(void)
{
    spn_thread *thread;
    spn_latch *latch;

    REQUIRE_OK(spn_latch_create(&latch, 1));
    REQUIRE_OK(spn_thread_create(&thread, NULL, await_latch, latch));
    own_threads = t_threads() - 1;
    CHECK_OK(spn_latch_count_down(latch));
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
    spn_thread_unref(thread);
    CHECK_OK(spn_latch_destroy(latch));
    t_await_threads(own_threads);
}

static void await_threads_gone(void)
{
    t_await_threads(own_threads);
}

#endif /* OWN_THREADS_H */
