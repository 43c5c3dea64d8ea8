/* SPDX-License-Identifier: MIT */
/*
 * submit_failure.c - after "处理异常" of the notes on thread pools (document 002): submit
 * keeps a task's failure until somebody asks its future; execute has nobody to ask.
 *
 *     Future<?> future = pool.submit(() -> { System.out.println("task1"); int i = 1 / 0; });
 *     System.out.println(future.get());
 */
#include <spindle.h>

#include <stdio.h>

enum { DIVISION_BY_ZERO = 33 };

static const int zero = 0;

/* C has no exceptions: a function returns 0, or a code, with a sentence if it likes. */
static int divide(void *arg, void **result)
{
    const int *divisor = arg;
    static int quotient;

    printf("task1\n");
    if (*divisor == 0)
        return spn_future_fail(DIVISION_BY_ZERO, "/ by zero");
    quotient = 1 / *divisor;
    *result = &quotient;
    return 0;
}

static int fail(void *arg)
{
    (void)arg;
    printf("task2\n");
    return DIVISION_BY_ZERO;
}

/* What a thread's uncaught-exception handler is for.  Without it: a warning in the log. */
static void uncaught(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    (void)ctx;
    printf("execute: nobody asks, so the pool is told: code %d\n", (int)info->status);
}

int main(void)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, SPN_UNBOUNDED);
    spn_pool *pool;
    spn_future *future;
    spn_outcome outcome = { .code = 0 };

    opts.hooks.uncaught = uncaught;
    if (spn_pool_create(&pool, &opts) != SPN_OK ||
        spn_executor_submit(spn_pool_executor(pool), divide, (void *)&zero, &future) !=
            SPN_OK)
        return 1;
    if (spn_future_get(future, NULL, SPN_FOREVER) == SPN_EFAILED &&
        spn_future_result(future, &outcome) == SPN_EFAILED)
        printf("submit: get says why: code %d, %s\n", outcome.code, outcome.message);
    spn_future_unref(future);

    if (spn_executor_call(spn_pool_executor(pool), fail, NULL) != SPN_OK ||
        spn_pool_close(pool) != SPN_OK)
        return 1;
    return spn_pool_destroy(pool) == SPN_OK && outcome.code == DIVISION_BY_ZERO ? 0 : 1;
}
