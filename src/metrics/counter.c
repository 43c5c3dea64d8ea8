/* SPDX-License-Identifier: MIT */
/* counter.c - a number that many threads add to; see metrics_core.c. */
#include <spindle/metrics.h>

#include "metrics/metrics_core.h"

struct part {
    struct spn__tally tally; /* first */
    SPN__ATOMIC(int64_t) sum;
};

struct spn_counter {
    struct spn__tally_set parts;
    SPN__ATOMIC(int64_t) shared; /* of threads without a part */
};

static void init_part(struct spn__tally *tally)
{
    spn__init(&((struct part *)(void *)tally)->sum, 0);
}

int spn_counter_create(spn_counter **out)
{
    struct spn_counter *counter;

    if (out == NULL)
        return SPN_EINVAL;
    *out = counter = spn__alloc(sizeof *counter);
    if (counter == NULL)
        return SPN_ENOMEM;
    spn__tally_set_init(&counter->parts, sizeof(struct part), init_part);
    spn__init(&counter->shared, 0);
    return SPN_OK;
}

void spn_counter_destroy(spn_counter *counter)
{
    if (counter == NULL)
        return;
    spn__tally_set_fini(&counter->parts);
    spn__free(counter);
}

void spn_counter_add(spn_counter *counter, int64_t change)
{
    struct spn__tally *mine;

    if (counter == NULL)
        return;
    mine = spn__tally_mine(&counter->parts);
    /* relaxed, all: only a number. */
    if (mine != NULL)
        spn__tally_add(&((struct part *)(void *)mine)->sum, change);
    else
        (void)spn__fetch_add(&counter->shared, change, relaxed);
}

int64_t spn_counter_value(spn_counter *counter)
{
    struct spn__tally *tally;
    uint64_t sum;

    if (counter == NULL)
        return 0;
    sum = (uint64_t)spn__load(&counter->shared, relaxed); /* only a number */
    spn__tally_each (tally, &counter->parts)
        sum += (uint64_t)spn__load(&((struct part *)(void *)tally)->sum, relaxed);
    return (int64_t)sum;
}
