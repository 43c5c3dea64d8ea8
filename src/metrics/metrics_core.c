/* SPDX-License-Identifier: MIT */
/*
 * metrics_core.c - a part for each thread.
 *
 * OVERVIEW
 *   What a thread counts it counts in its own part, with a load and a store: no locked
 *   instruction, no line that two threads write.  A reader walks the list of parts.  The
 *   thread finds its part by its seat (sync/seat.h), which is a few compares.  When it
 *   ends, the seat becomes free, with all that was counted, and the next thread goes on
 *   counting there: so there are as many parts as there were threads at a time.
 *
 * ORDERING
 *   [tally] the release store of `first` pairs with the acquire of a reader: the part it
 *           finds is whole.  What is counted is read relaxed: a sum is of no moment in
 *           particular, and each word only grows.
 *
 * WHY NOT one word per CPU?  A thread may be moved between its load and its store.
 */
#include "metrics/metrics_core.h"

void spn__tally_set_init(struct spn__tally_set *set, size_t size,
                         void (*init)(struct spn__tally *))
{
    spn__init(&set->first, NULL);
    spn__lock_init(&set->lock);
    set->size = size;
    set->init = init;
}

void spn__tally_set_fini(struct spn__tally_set *set)
{
    struct spn__tally *tally = spn__load(&set->first, relaxed), *next; /* ours alone */

    for (; tally != NULL; tally = next) {
        next = tally->next;
        spn__seat_clear(&tally->seat);
        spn__free(tally);
    }
}

/* A new part for the calling thread. */
static struct spn__tally *add_part(struct spn__tally_set *set, struct spn_thread *self)
{
    struct spn__tally *tally = spn__alloc_aligned(set->size, SPN__CACHE_LINE);

    if (tally == NULL)
        return NULL;
    spn__seat_init(&tally->seat, set);
    set->init(tally);
    (void)spn__seat_take(&tally->seat, self); /* nobody else knows it yet */
    spn__lock(&set->lock);
    tally->next = spn__load(&set->first, relaxed); /* the lock orders it */
    spn__store(&set->first, tally, release);       /* [tally] */
    spn__unlock(&set->lock);
    return tally;
}

struct spn__tally *spn__tally_find(struct spn__tally_set *set, struct spn_thread *self)
{
    struct spn__seat *seat;
    struct spn__tally *tally;

    if (self == NULL)
        self = spn__thread_self();
    if (self == NULL)
        return NULL;
    seat = spn__seat_find(self, set);
    if (seat != NULL)
        return (struct spn__tally *)(void *)seat;
    /* mutant: what is read of a part that is not whole is its plain `next` only */
    spn__tally_each (tally, set)
        if (spn__seat_take(&tally->seat, self))
            return tally;
    return add_part(set, self);
}
