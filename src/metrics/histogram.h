/* SPDX-License-Identifier: MIT */
/* histogram.h - the buckets of a histogram, for those who keep their own; see histogram.c. */
#ifndef SPN__HISTOGRAM_H
#define SPN__HISTOGRAM_H

#include <spindle/metrics.h>

#include "sync/seam.h"

/* What one thread records, or, with read-modify-writes, several. */
struct spn__buckets {
    SPN__ATOMIC(uint64_t) sum;
    SPN__ATOMIC(int64_t) max;
    SPN__ATOMIC(uint64_t) counts[SPN_HISTOGRAM_BUCKETS];
};

/* The largest value that a bucket stands for. */
int64_t spn__bucket_max(int32_t bucket);

void spn__buckets_init(struct spn__buckets *b);
/* Records into buckets that only the calling thread writes, or that all do. */
void spn__buckets_record(struct spn__buckets *b, int64_t value, bool alone);
/* Adds what is there to a snapshot. */
void spn__buckets_add_up(const struct spn__buckets *b,
                         spn_histogram_snapshot *snapshot);

#endif /* SPN__HISTOGRAM_H */
