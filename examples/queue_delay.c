/* SPDX-License-Identifier: MIT */
/*
 * queue_delay.c - retries after a while, tested without waiting.
 *
 * A delay queue gives out an item when it is due.  Here failed requests are put back
 * with a longer and longer delay.  The queue's clock is a manual one, so the test moves
 * an hour at a time and knows exactly what is due; a server leaves `clock` NULL and gets
 * the monotonic one.
 */
#include <spindle.h>

#include <stdio.h>

struct request {
    const char *name;
    int attempts, succeeds_at;
    int64_t due_ns;
};

static int64_t request_due(const void *item, void *ctx)
{
    (void)ctx;
    return ((const struct request *)item)->due_ns;
}

/* Tries what is due; what fails comes back after 1, 2, 4, ... hours. */
static int try_due(spn_queue *queue, int64_t now_ns)
{
    void *item;
    int tried = 0;

    while (spn_queue_take(queue, &item, 0) == SPN_OK) { /* 0: what is due now */
        struct request *request = item;

        tried++;
        request->attempts++;
        printf("%2lld h: %s, attempt %d\n", (long long)(now_ns / SPN_SEC(3600)),
               request->name, request->attempts);
        if (request->attempts == request->succeeds_at)
            continue;
        request->due_ns = now_ns + (SPN_SEC(3600) << (request->attempts - 1));
        if (spn_queue_put(queue, request, 0) != SPN_OK)
            return -1;
    }
    return tried;
}

int main(void)
{
    struct request requests[] = { { "mail", 0, 4, 0 }, { "backup", 0, 2, 0 } };
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *queue;
    int hours = 0;

    opts.due = request_due;
    if (spn_clock_create_manual(&opts.clock, 0) != SPN_OK ||
        spn_queue_create(&queue, SPN_QUEUE_DELAY, &opts) != SPN_OK)
        return 1;
    for (int i = 0; i < 2; i++)
        if (spn_queue_put(queue, &requests[i], 0) != SPN_OK)
            return 1;
    for (; spn_queue_size(queue) > 0 && hours < 100; hours++) {
        if (try_due(queue, spn_clock_now(opts.clock)) < 0)
            return 1;
        spn_clock_advance(opts.clock, SPN_SEC(3600));
    }
    /* Mail went out at its fourth attempt: after 1 + 2 + 4 hours. */
    if (requests[0].attempts != 4 || requests[1].attempts != 2 || hours != 8)
        return 1;
    if (spn_queue_destroy(queue) != SPN_OK)
        return 1;
    return spn_clock_destroy(opts.clock) == SPN_OK ? 0 : 1;
}
