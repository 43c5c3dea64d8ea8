/* SPDX-License-Identifier: MIT */
/*
 * counts.h - what servers and clients count: a part for each thread, one look-up for any
 * number of counts.  See metrics/metrics_core.c for how parts work.
 */
#ifndef SPN__COUNTS_H
#define SPN__COUNTS_H

#include <spindle/dispatcher.h>

#include "metrics/metrics_core.h"

enum spn__count {
    SPN__COUNT_ACCEPTED,
    SPN__COUNT_REFUSED,
    SPN__COUNT_IDLE_CLOSED,
    SPN__COUNT_REQUESTS,
    SPN__COUNT_ONE_WAY,
    SPN__COUNT_REPLIES,
    SPN__COUNT_EXCEPTIONS,
    SPN__COUNT_DROPPED,
    SPN__COUNT_EXPIRED,
    SPN__COUNT_REJECTED,
    SPN__COUNT_REJECTED_ONE_WAY,
    SPN__COUNT_HEARTBEATS,
    SPN__COUNT_EVENTS,
    SPN__COUNT_RESPONSES,
    SPN__COUNT_BAD_FRAMES,
    SPN__COUNT_BAD_BODIES,
    SPN__COUNT_BYTES_IN,
    SPN__COUNT_BYTES_OUT,
    SPN__COUNT_SHARED,
    SPN__COUNT_FRAMES_LATE,
    SPN__COUNT_CUT_OFF,
    SPN__COUNT_CUT_OFF_BYTES,
    SPN__COUNT_REJECTED_CONNECTION,
    SPN__COUNT_REJECTED_ADDRESS,
    SPN__COUNT_REJECTED_DELAY,
    SPN__COUNT_MEMORY,
    SPN__COUNT_STATUS, /* by slot: see spn_server_slot_status */
    SPN__COUNT_STATUS_END = SPN__COUNT_STATUS + 16,
    SPN__COUNT_DISPATCHED = SPN__COUNT_STATUS_END, /* by event, then place */
    SPN__COUNTS = SPN__COUNT_DISPATCHED + (int)SPN_CHANNEL_EVENTS * (int)SPN_PLACES
};

struct spn__counts {
    struct spn__tally_set parts;
    SPN__ATOMIC(uint64_t) shared[SPN__COUNTS]; /* of threads without a part */
};

struct spn__counts_part {
    struct spn__tally tally; /* first */
    SPN__ATOMIC(uint64_t) of[SPN__COUNTS];
};

SPN__SHARED void spn__counts_init(struct spn__counts *counts);
SPN__SHARED void spn__counts_fini(struct spn__counts *counts);

/* Adds to a count.  The slow half is for threads without memory for a part. */
SPN__SHARED void spn__count_shared(struct spn__counts *counts, int which,
                                   uint64_t change);

static inline void spn__count(struct spn__counts *counts, int which, uint64_t change)
{
    struct spn__tally *mine = spn__tally_mine(&counts->parts);

    /* relaxed: only a number. */
    if (mine != NULL)
        spn__tally_add(&((struct spn__counts_part *)(void *)mine)->of[which], change);
    else
        spn__count_shared(counts, which, change);
}

SPN__SHARED uint64_t spn__counts_sum(struct spn__counts *counts, int which);

#endif /* SPN__COUNTS_H */
