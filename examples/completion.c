/* SPDX-License-Identifier: MIT */
/* completion.c - use each result as soon as it is there, not in the order of asking. */
#include <spindle.h>

#include <stdio.h>

static int square(void *arg, void **result)
{
    int *number = arg;

    *number *= *number;
    *result = number;
    return 0;
}

int main(void)
{
    enum { COUNT = 8 };
    spn_pool_opts opts = spn_pool_opts_fixed(2, SPN_UNBOUNDED);
    spn_completion *done;
    spn_pool *pool;
    int numbers[COUNT], sum = 0;

    if (spn_pool_create(&pool, &opts) != SPN_OK)
        return 1;
    if (spn_completion_create(&done, spn_pool_executor(pool)) != SPN_OK)
        return 1;
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = i;
        if (spn_completion_submit(done, square, &numbers[i], NULL, NULL) != SPN_OK)
            return 1;
    }
    for (int i = 0; i < COUNT; i++) {
        spn_future *future;
        void *value;

        if (spn_completion_take(done, &future, SPN_FOREVER) != SPN_OK)
            return 1;
        if (spn_future_get(future, &value, 0) == SPN_OK) /* it is done */
            sum += *(int *)value;
        spn_future_unref(future);
    }
    printf("sum of squares: %d\n", sum);
    if (spn_completion_destroy(done) != SPN_OK || spn_pool_close(pool) != SPN_OK)
        return 1;
    return spn_pool_destroy(pool) == SPN_OK && sum == 140 ? 0 : 1;
}
