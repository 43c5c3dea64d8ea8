/* SPDX-License-Identifier: MIT */
/* forkjoin_sum.c - sums an array on all CPUs, by halves. */
#include <stdio.h>
#include <stdlib.h>

#include <spindle.h>

/* Small enough to be one task's, large enough for a fork not to matter. */
enum { GRAIN = 4096, NUMBERS = 1000000 };

SPN_FJ_TASK(long, sum, const int *, numbers, size_t, count)
{
    long left, right = 0;

    if (count <= GRAIN) {
        for (size_t i = 0; i < count; i++)
            right += numbers[i];
        return right;
    }
    sum_fork(&fj, numbers, count / 2); /* another worker may take this half */
    right = sum(fj, numbers + count / 2, count - count / 2);
    left = sum_join(&fj);
    return left + right;
}

int main(void)
{
    spn_fj_pool *pool;
    int *numbers = malloc(NUMBERS * sizeof *numbers);
    long result = 0;
    int rc;

    if (numbers == NULL || spn_fj_pool_create(&pool, NULL) != SPN_OK) {
        free(numbers);
        return 1;
    }
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i % 1000;
    rc = sum_invoke(pool, &result, numbers, NUMBERS);
    printf("%s: %ld\n", spn_status_text(rc), result);
    (void)spn_fj_pool_close(pool);
    (void)spn_fj_pool_destroy(pool);
    free(numbers);
    return rc != SPN_OK || result != 499500000;
}
