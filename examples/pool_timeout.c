/* SPDX-License-Identifier: MIT */
/*
 * pool_timeout.c - futures with a time limit: ask, wait so long, and then cancel.
 *
 * The slow task waits in a way that can be interrupted, and the endless one looks at its
 * thread's flag now and then, as tasks should: cancelling them releases their thread, and
 * the next task finds the thread free.
 */
#include <spindle.h>

#include <stdio.h>

static spn_latch *never; /* what the slow task waits for */

static int quick(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static int slow(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return spn_latch_await(never, SPN_FOREVER); /* SPN_EINTR when cancelled */
}

static int endless(void *arg, void **result)
{
    unsigned number = 1;

    (void)arg;
    while (spn_thread_is_interrupted(spn_thread_current()) == 0)
        for (int i = 0; i < 10000; i++)
            number = number * 1664525 + 1013904223;
    *result = NULL;
    return number == 0 ? 0 : SPN_EINTR;
}

/* The value, or why there is none. */
static int ask(spn_executor *executor, spn_call_fn fn, const char *name)
{
    spn_future *future;
    void *value = NULL;
    int rc = spn_executor_submit(executor, fn, "an answer", &future);

    if (rc != SPN_OK)
        return rc;
    rc = spn_future_get(future, &value, SPN_MS(50));
    if (rc == SPN_ETIMEDOUT)
        (void)spn_future_cancel(future, 1); /* and interrupt it */
    printf("%s: %s\n", name, rc == SPN_OK ? (const char *)value : spn_status_text(rc));
    spn_future_unref(future);
    return rc;
}

int main(void)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, 10);
    spn_executor *executor;
    spn_pool *pool;

    if (spn_latch_create(&never, 1) != SPN_OK ||
        spn_pool_create(&pool, &opts) != SPN_OK)
        return 1;
    executor = spn_pool_executor(pool);
    if (ask(executor, slow, "slow") != SPN_ETIMEDOUT ||
        ask(executor, endless, "endless") != SPN_ETIMEDOUT)
        return 1;
    /* On a busy machine the thread may need a moment.  A question that is given up before
     * it is begun keeps its place in the queue, until purge takes it out. */
    while (ask(executor, quick, "quick") == SPN_ETIMEDOUT)
        (void)spn_pool_purge(pool);
    if (spn_pool_close(pool) != SPN_OK || spn_pool_destroy(pool) != SPN_OK)
        return 1;
    return spn_latch_destroy(never) != SPN_OK;
}
