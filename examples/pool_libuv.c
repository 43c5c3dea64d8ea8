/* SPDX-License-Identifier: MIT */
/*
 * pool_libuv.c - a pool beside a libuv loop.
 *
 * The loop's thread submits work and never waits for it.  A poll set is a descriptor
 * that becomes readable when one of its futures is done; the loop watches it like a
 * socket, and takes the results on its own thread, where it may use its handles.
 */
#include <spindle.h>

#include <stdio.h>
#include <uv.h>

enum { JOBS = 5 };

static spn_poll_set *set;
static int results;

static int square(void *arg, void **result)
{
    int *number = arg;

    *number *= *number;
    *result = number;
    return 0;
}

static void on_done(uv_poll_t *poll, int status, int events)
{
    spn_future *future;

    (void)status;
    (void)events;
    while (spn_poll_set_next(set, &future, NULL) == SPN_OK) {
        void *value = NULL;

        if (spn_future_get(future, &value, 0) == SPN_OK)
            printf("on the loop: %d\n", *(int *)value);
        spn_future_unref(future);
        results++;
    }
    if (results == JOBS)
        uv_close((uv_handle_t *)poll, NULL); /* nothing is left: the loop ends */
}

int main(void)
{
    static int numbers[JOBS] = { 1, 2, 3, 4, 5 };
    spn_pool_opts opts = spn_pool_opts_fixed(2, JOBS);
    uv_loop_t loop;
    uv_poll_t poll;
    spn_pool *pool;

    if (uv_loop_init(&loop) != 0 || spn_poll_set_create(&set) != SPN_OK ||
        spn_pool_create(&pool, &opts) != SPN_OK)
        return 1;
    if (uv_poll_init(&loop, &poll, spn_poll_set_fd(set)) != 0 ||
        uv_poll_start(&poll, UV_READABLE, on_done) != 0)
        return 1;
    for (int i = 0; i < JOBS; i++) {
        spn_future *future;

        if (spn_executor_submit(spn_pool_executor(pool), square, &numbers[i],
                                &future) != SPN_OK ||
            spn_poll_set_add(set, future, NULL) != SPN_OK)
            return 1;
        spn_future_unref(future); /* the set has its own reference */
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0 || spn_pool_close(pool) != SPN_OK ||
        spn_pool_destroy(pool) != SPN_OK)
        return 1;
    return spn_poll_set_destroy(set) != SPN_OK || results != JOBS;
}
