/* SPDX-License-Identifier: MIT */
/*
 * connection_semaphore.c - after "享元模式" of the notes on thread pools (document 002): the
 * document's class Pool, an array of connections and an array of states.  A semaphore
 * stands where the document has wait and notifyAll: it counts the free connections, so that
 * whoever has a permit finds one.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 5, CONNECTIONS = 2 };

struct pool {
    const char *connections[CONNECTIONS];
    atomic_int states[CONNECTIONS]; /* 0: free, 1: lent */
    spn_semaphore *free;
    atomic_int lent, most, served;
};

static int borrow(struct pool *pool)
{
    /* Interruptible, as wait() is. */
    if (spn_semaphore_acquire(pool->free, 1, SPN_FOREVER) != SPN_OK)
        return -1;
    for (int i = 0;; i = (i + 1) % CONNECTIONS) {
        int is_free = 0;

        if (atomic_compare_exchange_strong(&pool->states[i], &is_free, 1))
            return i;
    }
}

static void give_back(struct pool *pool, int connection)
{
    atomic_store(&pool->states[connection], 0);
    spn_semaphore_release(pool->free, 1);
}

static int client(void *arg)
{
    struct pool *pool = arg;
    const int connection = borrow(pool);
    int lent, most = atomic_load(&pool->most);

    if (connection < 0)
        return SPN_EINTR;
    lent = atomic_fetch_add(&pool->lent, 1) + 1;
    while (lent > most && !atomic_compare_exchange_weak(&pool->most, &most, lent))
        ;
    atomic_fetch_add(&pool->served, 1); /* it asks its database */
    atomic_fetch_sub(&pool->lent, 1);
    give_back(pool, connection);
    return 0;
}

int main(void)
{
    struct pool pool = { .connections = { "connection 1", "connection 2" } };
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;
    spn_thread *threads[THREADS];

    opts.permits = CONNECTIONS;
    opts.fair = 1;
    if (spn_semaphore_create(&pool.free, &opts) != SPN_OK)
        return 1;
    for (int i = 0; i < THREADS; i++)
        if (spn_thread_create(&threads[i], NULL, client, &pool) != SPN_OK)
            return 1;
    for (int i = 0; i < THREADS; i++) {
        if (spn_thread_join(threads[i], SPN_FOREVER, NULL) != SPN_OK)
            return 1;
        spn_thread_unref(threads[i]);
    }
    printf("%d threads served, never more than %d at a time: %s\n",
           atomic_load(&pool.served), CONNECTIONS,
           atomic_load(&pool.most) <= CONNECTIONS ? "yes" : "no");
    for (int i = 0; i < CONNECTIONS; i++)
        printf("%s is %s\n", pool.connections[i],
               atomic_load(&pool.states[i]) == 0 ? "free" : "lent");
    if (spn_semaphore_available(pool.free) != CONNECTIONS)
        return 1; /* somebody has not given one back */
    return spn_semaphore_destroy(pool.free) == SPN_OK ? 0 : 1;
}
