/* SPDX-License-Identifier: MIT */
/*
 * fj_hand.c - the merge sort of W5 divided by hand: what the CPUs themselves can do.
 *
 * A thread for each of two halves, and the last merge cut once, in the middle.  No
 * runtime, nothing to steal, and numbers that fall evenly by construction: whoever
 * divides as the work comes can only be slower.  What this takes above half of the
 * sequential sort is the price of two CPUs at work side by side.
 */
#include <pthread.h>
#include <stdlib.h>

#include "fj_peers.h"

struct part {
    void (*run)(const struct part *part);
    uint32_t *to, *scratch;
    const uint32_t *x, *y;
    size_t nx, ny;
};

static void sort_into_scratch(const struct part *part)
{
    fj_sort(part->to, part->nx, part->scratch, true);
}

static void merge_part(const struct part *part)
{
    fj_merge(part->to, part->x, part->nx, part->y, part->ny);
}

static void *run(void *arg)
{
    const struct part *part = arg;

    part->run(part);
    return NULL;
}

/* Both at once; without a second thread the result would be about nothing. */
static void run_both(struct part part[2])
{
    pthread_t second;

    if (pthread_create(&second, NULL, run, &part[1]) != 0)
        abort();
    (void)run(&part[0]);
    (void)pthread_join(second, NULL);
}

static void *create(int workers)
{
    int *count = malloc(sizeof *count);

    if (count != NULL)
        *count = workers;
    return count;
}

static void hand_sort(void *pool, uint32_t *a, size_t n, uint32_t *t)
{
    const int *workers = pool;
    const size_t half = n / 2;
    size_t nx, ny;

    if (*workers < 2 || n < FJ_SORT_CUTOFF) {
        fj_sort(a, n, t, false);
        return;
    }
    run_both((struct part[2]){
        { .run = sort_into_scratch, .to = a, .scratch = t, .nx = half },
        { .run = sort_into_scratch,
          .to = a + half,
          .scratch = t + half,
          .nx = n - half },
    });
    ny = fj_merge_cut(t, half, t + half, n - half, &nx);
    run_both((struct part[2]){
        { .run = merge_part, .to = a, .x = t, .nx = nx, .y = t + half, .ny = ny },
        { .run = merge_part,
          .to = a + nx + ny,
          .x = t + nx,
          .nx = half - nx,
          .y = t + half + ny,
          .ny = n - half - ny },
    });
}

const struct fj_kind fj_hand = { .create = create, .destroy = free, .sort = hand_sort };
