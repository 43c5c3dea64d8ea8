/* SPDX-License-Identifier: MIT */
/* counts.c - the slow half of counting: a thread's first count, and adding up. */
#include "channel/counts.h"

static void init_part(struct spn__tally *tally)
{
    struct spn__counts_part *part = (struct spn__counts_part *)(void *)tally;

    for (int i = 0; i < SPN__COUNTS; i++)
        spn__init(&part->of[i], 0);
}

void spn__counts_init(struct spn__counts *counts)
{
    spn__tally_set_init(&counts->parts, sizeof(struct spn__counts_part), init_part);
    for (int i = 0; i < SPN__COUNTS; i++)
        spn__init(&counts->shared[i], 0);
}

void spn__counts_fini(struct spn__counts *counts)
{
    spn__tally_set_fini(&counts->parts);
}

void spn__count_shared(struct spn__counts *counts, int which, uint64_t change)
{
    (void)spn__fetch_add(&counts->shared[which], change, relaxed); /* only a number */
}

uint64_t spn__counts_sum(struct spn__counts *counts, int which)
{
    uint64_t sum = spn__load(&counts->shared[which], relaxed); /* only a number */
    struct spn__tally *tally;

    /* mutant: the same walk is in histogram.c, where it is killed */
    spn__tally_each (tally, &counts->parts)
        sum += spn__load(&((struct spn__counts_part *)(void *)tally)->of[which],
                         relaxed); /* as above */
    return sum;
}
