/* SPDX-License-Identifier: MIT */
/*
 * connection_pool.c - after "享元模式" of the notes on thread pools (document 002): five
 * threads share two connections; who finds none waits until one is returned.
 *
 *     Connection con = pool.borrow();
 *     ...
 *     pool.free(con);
 *
 * The document's pool looks for a free connection and then waits; a connection that is
 * returned between the two wakes nobody.  This one looks again after it has said that it
 * waits.  connection_semaphore.c builds the document's own class.
 */
#include <spindle.h>

#include <sched.h>
#include <stdio.h>

enum { THREADS = 5, CONNECTIONS = 2 };

static spn_object_pool *pool;
static spn_latch *all_there; /* two have a connection and three wait */

/* The pool makes connections as they are needed, and no more than CONNECTIONS. */
static int make(void *ctx, void **object)
{
    static const char *const names[CONNECTIONS] = { "connection 1", "connection 2" };
    int *made = ctx;

    *object = (void *)names[(*made)++];
    printf("made %s\n", (const char *)*object);
    return 0;
}

static int client(void *arg)
{
    void *connection;
    int rc = spn_object_pool_borrow(pool, &connection, SPN_SEC(30));

    (void)arg;
    if (rc == SPN_OK)
        rc = spn_latch_await(all_there, SPN_SEC(30)); /* uses it */
    return rc == SPN_OK ? spn_object_pool_return(pool, connection) : rc;
}

int main(void)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;
    spn_object_pool_stats stats = SPN_OBJECT_POOL_STATS_INIT;
    spn_thread *threads[THREADS];
    int made = 0, rc = 0, failed = 0;

    opts.max = CONNECTIONS;
    opts.fair = 1; /* first come, first served */
    opts.factory.make = make;
    opts.factory.ctx = &made;
    if (spn_object_pool_create(&pool, &opts) != SPN_OK ||
        spn_latch_create(&all_there, 1) != SPN_OK)
        return 1;
    for (int i = 0; i < THREADS; i++) {
        if (spn_thread_create(&threads[i], NULL, client, NULL) != SPN_OK)
            return 1;
        while (spn_object_pool_stats_get(pool, &stats) == SPN_OK &&
               stats.out + stats.waiting < i + 1)
            sched_yield(); /* until it has a connection, or waits for one */
        printf("thread %d: %d lent, %d waiting\n", i + 1, (int)stats.out,
               (int)stats.waiting);
    }
    spn_latch_count_down(all_there);
    for (int i = 0; i < THREADS; i++) {
        if (spn_thread_join(threads[i], SPN_FOREVER, &rc) != SPN_OK || rc != 0)
            failed++;
        spn_thread_unref(threads[i]);
    }
    if (spn_object_pool_stats_get(pool, &stats) != SPN_OK)
        return 1;
    printf("borrowed %d times, returned %d times, %d connections made\n",
           (int)stats.borrowed, (int)stats.returned, (int)stats.made);
    spn_object_pool_shutdown(pool);
    spn_latch_destroy(all_there);
    return spn_object_pool_destroy(pool) == SPN_OK && failed == 0 ? 0 : 1;
}
