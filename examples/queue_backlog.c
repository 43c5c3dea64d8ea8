/* SPDX-License-Identifier: MIT */
/*
 * queue_backlog.c - a server that cannot keep up chooses what waits.
 *
 * Six requests may wait, in a deque.  A seventh is refused, and its client told so at
 * once.  A request that is sent again while it waits is there already.  An urgent one goes to the front, and the youngest that is not urgent makes room
 * for it: it has waited least.  When a client hangs up, its requests are taken out.  When
 * the server is slower than it was, the youngest go.
 */
#include <spindle.h>

#include <stdio.h>
#include <string.h>

struct request {
    const char *client, *name;
    int urgent;
};

static void refuse(const struct request *request)
{
    printf("busy: %s of %s\n", request->name, request->client);
}

static void arrive(spn_queue *backlog, struct request *request)
{
    if (spn_queue_contains(backlog, request) == SPN_OK)
        return; /* sent again: one thread inserts */
    if (spn_queue_put(backlog, request, 0) == SPN_EFULL)
        refuse(request);
}

/* For a walk from the last: takes out the first that is not urgent. */
static int displace(void *item, void *displaced)
{
    const struct request *request = item;

    if (request->urgent)
        return SPN_QUEUE_KEEP;
    *(const struct request **)displaced = request;
    return SPN_QUEUE_TAKE | SPN_QUEUE_STOP;
}

static void arrive_urgent(spn_queue *backlog, struct request *request)
{
    while (spn_queue_put_first(backlog, request, 0) == SPN_EFULL) {
        const struct request *youngest = request; /* if all that wait are urgent */

        spn_queue_walk_last(backlog, displace, &youngest);
        refuse(youngest);
        if (youngest == request)
            return;
    }
}

/* Leaves the oldest. */
static void shed(spn_queue *backlog, int64_t leave)
{
    void *youngest;

    while (spn_queue_size(backlog) > leave &&
           spn_queue_take_last(backlog, &youngest, 0) == SPN_OK)
        refuse(youngest);
}

/* For a walk: takes out what one client asked for. */
static int forget_those_of(void *item, void *client)
{
    const struct request *request = item;

    return strcmp(request->client, client) == 0 ? SPN_QUEUE_TAKE : SPN_QUEUE_KEEP;
}

int main(void)
{
    static struct request requests[] = { { "ann", "list", 0 },  { "bob", "search", 0 },
                                         { "ann", "get", 0 },   { "cy", "put", 0 },
                                         { "bob", "get", 0 },   { "cy", "list", 0 },
                                         { "ann", "search", 0 } };
    static struct request health = { "monitor", "health", 1 };
    static char client[] = "bob";
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    spn_queue *backlog;
    void *item;
    int served = 0;

    opts.capacity = 6;
    if (spn_queue_create(&backlog, SPN_QUEUE_DEQUE, &opts) != SPN_OK)
        return 1;
    for (int i = 0; i < 7; i++)
        arrive(backlog, &requests[i]); /* the seventh is refused */
    arrive(backlog, &requests[2]);
    arrive_urgent(backlog, &health); /* and the sixth makes room */
    if (spn_queue_walk(backlog, forget_those_of, client) != SPN_OK)
        return 1;
    shed(backlog, 3); /* of the four that are left */
    if (spn_queue_peek_last(backlog, &item) != SPN_OK || item != &requests[2])
        return 1; /* of those that wait it came last: the next to go */
    if (spn_queue_peek(backlog, &item) != SPN_OK || item != &health)
        return 1;
    while (spn_queue_take(backlog, &item, 0) == SPN_OK) {
        const struct request *request = item;

        printf("served: %s of %s\n", request->name, request->client);
        served++;
    }
    /* health, and the first two of ann's */
    return spn_queue_destroy(backlog) == SPN_OK && served == 3 ? 0 : 1;
}
