/* SPDX-License-Identifier: MIT */
/*
 * interrupt.c - ending a wait from outside.
 *
 * The consumer waits without a time limit for what nobody will send.  Interrupting
 * its thread releases the wait with SPN_EINTR, and the consumer cleans up and ends:
 * no flag to poll, no time-out to pick, no signal.
 */
#include <spindle.h>

#include <stdio.h>

enum { ITEMS = 5 };

static spn_semaphore *items; /* a permit is an item to consume */
static spn_latch *consumed;

static int consume(void *arg)
{
    int taken = 0, rc;

    (void)arg;
    while ((rc = spn_semaphore_acquire(items, 1, SPN_FOREVER)) == SPN_OK) {
        taken++;
        spn_latch_count_down(consumed);
    }
    printf("consumer: %d items, then \"%s\"\n", taken, spn_status_text(rc));
    return rc == SPN_EINTR ? taken : -1;
}

int main(void)
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    spn_thread *consumer;
    int taken = 0;

    opts.name = "consumer";
    if (spn_semaphore_create(&items, NULL) != SPN_OK ||
        spn_latch_create(&consumed, ITEMS) != SPN_OK ||
        spn_thread_create(&consumer, &opts, consume, NULL) != SPN_OK)
        return 1;

    spn_semaphore_release(items, ITEMS);
    if (spn_latch_await(consumed, SPN_SEC(10)) != SPN_OK)
        return 1;
    /* All are consumed: the consumer waits for a sixth, or is about to. */
    spn_thread_interrupt(consumer);
    if (spn_thread_join(consumer, SPN_SEC(10), &taken) != SPN_OK)
        return 1;
    spn_thread_unref(consumer);
    spn_latch_destroy(consumed);
    spn_semaphore_destroy(items);
    return taken == ITEMS ? 0 : 1;
}
