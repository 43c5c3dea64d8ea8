/* SPDX-License-Identifier: MIT */
/*
 * n_queens.c - in how many ways can n queens stand on a board without threatening each
 * other?  A typed task for every square that is free: forking costs about as much as a
 * call, so there is no need to stop at some depth.
 */
#include <spindle.h>

#include <stdio.h>
#include <stdlib.h>

/* The rows below `row`, given the columns and diagonals that are taken; a bit each. */
SPN_FJ_TASK(uint64_t, place, uint32_t, board, uint32_t, columns, uint32_t, left,
            uint32_t, right)
{
    uint32_t free_squares = board & ~(columns | left | right);
    uint64_t ways = 0;
    int forked = 0;

    if (columns == board)
        return 1;
    while (free_squares != 0) {
        const uint32_t square = free_squares & -free_squares;

        free_squares ^= square;
        place_fork(&fj, board, columns | square, (left | square) << 1,
                   (right | square) >> 1);
        forked++;
    }
    while (forked-- > 0)
        ways += place_join(&fj);
    return ways;
}

int main(int argc, char **argv)
{
    static const uint64_t known[] = { 1,  1,  0,   0,   2,    10,   4,
                                      40, 92, 352, 724, 2680, 14200 };
    const int n = argc > 1 ? atoi(argv[1]) : 10;
    uint64_t ways;
    spn_fj_pool *pool;

    if (n < 0 || n > 20)
        return 2;
    if (spn_fj_pool_create(&pool, NULL) != SPN_OK)
        return 1;
    if (place_invoke(pool, &ways, (UINT32_C(1) << n) - 1, 0, 0, 0) != SPN_OK)
        return 1;
    printf("%d queens: %ju ways\n", n, (uintmax_t)ways);
    if (n < (int)(sizeof known / sizeof known[0]) && ways != known[n])
        return 1;
    if (spn_fj_pool_close(pool) != SPN_OK)
        return 1;
    return spn_fj_pool_destroy(pool) == SPN_OK ? 0 : 1;
}
