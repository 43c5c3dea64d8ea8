/* SPDX-License-Identifier: MIT */
/*
 * recursive_action.c - after "ForkJoin" of the notes on thread pools (document 002): "没有
 * 返回值继承 RecursiveAction", a task without a result.  This one squares the numbers of an
 * array in place, in halves.
 */
#include <spindle.h>

#include <stdio.h>

enum { NUMBERS = 8, SMALL = 2 };

SPN_FJ_ACTION(square_all, int *, numbers, int, count)
{
    if (count <= SMALL) {
        for (int i = 0; i < count; i++)
            numbers[i] *= numbers[i];
        return;
    }
    square_all_fork(&fj, numbers, count / 2);
    square_all(fj, numbers + count / 2, count - count / 2);
    square_all_join(&fj); /* before it returns: what it forked is done */
}

int main(void)
{
    int numbers[NUMBERS];
    spn_fj_pool *pool;

    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i + 1;
    if (spn_fj_pool_create(&pool, NULL) != SPN_OK || /* as many threads as CPUs */
        square_all_invoke(pool, numbers, NUMBERS) != SPN_OK)
        return 1;
    for (int i = 0; i < NUMBERS; i++)
        printf("%d%c", numbers[i], i + 1 < NUMBERS ? ' ' : '\n');
    if (spn_fj_pool_close(pool) != SPN_OK)
        return 1;
    return spn_fj_pool_destroy(pool) == SPN_OK ? 0 : 1;
}
