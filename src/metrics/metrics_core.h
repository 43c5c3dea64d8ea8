/* SPDX-License-Identifier: MIT */
/*
 * metrics_core.h - a part for each thread, which it alone writes, and everybody adds up.
 *
 *     struct spn__tally *mine = spn__tally_mine(&set);
 *     if (mine == NULL) ... use the shared one, with read-modify-writes
 *
 * See metrics_core.c.
 */
#ifndef SPN__METRICS_CORE_H
#define SPN__METRICS_CORE_H

#include "sync/lock.h"
#include "sync/seat.h"
#include "sync/thread_record.h"

/* The beginning of a thread's part. */
struct spn__tally {
    struct spn__seat seat;
    struct spn__tally *next; /* fixed once it is listed */
};

struct spn__tally_set {
    SPN__ATOMIC(struct spn__tally *) first; /* all there are [tally] */
    struct spn__lock lock;                  /* for adding one; a leaf */
    size_t size;                            /* of a part */
    void (*init)(struct spn__tally *tally); /* makes a part zero */
};

SPN__SHARED void spn__tally_set_init(struct spn__tally_set *set, size_t size,
                                     void (*init)(struct spn__tally *));
/* Nobody uses it any more. */
SPN__SHARED void spn__tally_set_fini(struct spn__tally_set *set);

SPN__SHARED struct spn__tally *spn__tally_find(struct spn__tally_set *set,
                                               struct spn_thread *self);

/* The calling thread's part; NULL: no memory. */
static inline struct spn__tally *spn__tally_mine(struct spn__tally_set *set)
{
    struct spn_thread *self = spn__self_get();
    struct spn__seat *seat;

    if (self != NULL && (seat = spn__seat_recall(self, set)) != NULL)
        return (struct spn__tally *)(void *)seat; /* its first member */
    return spn__tally_find(set, self);
}

/* Adds to a word that only the calling thread writes. */
#define spn__tally_add(word, change) \
    spn__store((word), spn__load((word), relaxed) + (change), relaxed)

/* Parts are never taken out of the list: a plain walk. */
#define spn__tally_each(tally, set)                                                  \
    for ((tally) = spn__load(&(set)->first, acquire) /* [tally] */; (tally) != NULL; \
         (tally) = (tally)->next)

#endif /* SPN__METRICS_CORE_H */
