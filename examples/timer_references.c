/* SPDX-License-Identifier: MIT */
/*
 * timer_references.c - the callback frees its timeout, and others may cancel it.
 *
 * Cancel reads the timeout, so the timeout must stay until cancel has returned.  Here the
 * callback frees the connection that its timeout is part of, while another thread may be
 * about to close that.  So each connection counts two references: the timer's, and its
 * user's.  The timer's is dropped exactly once: by the callback, or by the thread that
 * learns that the callback will not be called.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONNECTIONS = 100, SOME = 10 };

struct connection {
    spn_timeout idle; /* first, so that one is the other's address */
    atomic_int references;
};

static spn_timer *timer;
static spn_latch *some_idle;
static atomic_int open_now, timed_out;

static void connection_unref(struct connection *c, int count)
{
    if (atomic_fetch_sub(&c->references, count) != count)
        return;
    free(c);
    atomic_fetch_sub(&open_now, 1);
}

/* On the timer's thread. */
static int on_idle(spn_timeout *timeout)
{
    atomic_fetch_add(&timed_out, 1);
    connection_unref((struct connection *)(void *)timeout, 1); /* the timer's */
    return spn_latch_count_down(some_idle);
}

static struct connection *connection_open(int64_t idle_ns)
{
    struct connection *c = calloc(1, sizeof *c);

    if (c == NULL)
        return NULL;
    atomic_init(&c->references, 2); /* the timer's and the caller's */
    if (spn_timer_schedule(timer, &c->idle, on_idle, idle_ns) != SPN_OK) {
        free(c);
        return NULL;
    }
    atomic_fetch_add(&open_now, 1);
    return c;
}

/* On any thread, whether or not the callback has run or runs now. */
static void connection_close(struct connection *c)
{
    if (spn_timer_cancel(timer, &c->idle) == SPN_TIMEOUT_REMOVED)
        connection_unref(c, 2); /* the timer's as well: on_idle will not be called */
    else
        connection_unref(c, 1); /* on_idle drops the timer's */
}

int main(void)
{
    struct connection *connections[CONNECTIONS];
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timeout *left, *timeout;
    int returned = 0;

    opts.tick_ns = SPN_MS(1);
    if (spn_timer_create(&timer, &opts) != SPN_OK ||
        spn_latch_create(&some_idle, SOME) != SPN_OK)
        return 1;
    for (int i = 0; i < CONNECTIONS; i++) {
        connections[i] = connection_open(i % 2 != 0 ? SPN_MS(1 + i / 10) : SPN_SEC(60));
        if (connections[i] == NULL)
            return 1;
    }
    if (spn_latch_await(some_idle, SPN_SEC(10)) != SPN_OK)
        return 1;
    connection_unref(connections[0], 1); /* its user leaves it to the timer */
    for (int i = 1; i < CONNECTIONS; i++)
        connection_close(connections[i]); /* some time out at this moment */

    /* No callback comes for what stop returns: the timer's references are ours. */
    if (spn_timer_stop(timer, &left, NULL) != SPN_OK)
        return 1;
    for (; (timeout = spn_timeout_pop(&left)) != NULL; returned++)
        connection_unref((struct connection *)(void *)timeout, 1);
    printf("timed out: %s, returned by stop: %d, still open: %d\n",
           timed_out >= SOME ? "some" : "too few", returned, open_now);
    spn_latch_destroy(some_idle);
    if (spn_timer_destroy(timer) != SPN_OK)
        return 1;
    return timed_out >= SOME && returned == 1 && open_now == 0 ? 0 : 1;
}
