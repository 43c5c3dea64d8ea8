/* SPDX-License-Identifier: MIT */
/*
 * histogram.c - values by size, to within an eighth.
 *
 * OVERVIEW
 *   Log-linear: 0 to 7 have a bucket each; from there each power of two is cut into eight.
 *   The bucket is found from the position of the highest bit and the three bits below it.
 *   488 buckets reach to INT64_MAX; their number is fixed, so recording never allocates
 *   and two histograms can always be added.
 *
 *   The count of a snapshot is the sum of its buckets, so that the two cannot differ; the
 *   sum of values is read by itself and may be ahead of the buckets by what is being
 *   recorded meanwhile.
 */
#include "metrics/histogram.h"

#include "base/options.h"
#include "metrics/metrics_core.h"

_Static_assert(sizeof(spn_histogram_snapshot) ==
                   sizeof(size_t) + 3 * sizeof(int64_t) +
                       SPN_HISTOGRAM_BUCKETS * sizeof(uint64_t),
               "no holes");
_Static_assert(sizeof(spn_histogram_snapshot) <= SPN__OPTIONS_MAX,
               "its size is checked");

static uint32_t bucket_of(uint64_t value)
{
    uint32_t power;

    if (value < 8)
        return (uint32_t)value;
    power = 63 - (uint32_t)__builtin_clzll(value);
    return (power - 2) * 8 + (uint32_t)(value >> (power - 3) & 7);
}

int64_t spn__bucket_max(int32_t bucket)
{
    const uint32_t power = (uint32_t)bucket / 8 + 2;

    if (bucket < 8)
        return bucket;
    return (int64_t)(((UINT64_C(8) + (uint32_t)bucket % 8 + 1) << (power - 3)) - 1);
}

void spn__buckets_init(struct spn__buckets *b)
{
    spn__init(&b->sum, 0);
    spn__init(&b->max, 0);
    for (int i = 0; i < SPN_HISTOGRAM_BUCKETS; i++)
        spn__init(&b->counts[i], 0);
}

void spn__buckets_record(struct spn__buckets *b, int64_t value, bool alone)
{
    const uint64_t v = value > 0 ? (uint64_t)value : 0;
    const uint32_t bucket = bucket_of(v);
    /* relaxed, all: numbers. */
    int64_t max = spn__load(&b->max, relaxed);

    if (alone) {
        spn__tally_add(&b->counts[bucket], 1);
        spn__tally_add(&b->sum, v);
        if ((int64_t)v > max)
            spn__store(&b->max, (int64_t)v, relaxed);
        return;
    }
    (void)spn__fetch_add(&b->counts[bucket], 1, relaxed);
    (void)spn__fetch_add(&b->sum, v, relaxed);
    while ((int64_t)v > max &&
           !spn__cas_weak(&b->max, &max, (int64_t)v, relaxed, relaxed)) {
    }
}

void spn__buckets_add_up(const struct spn__buckets *b, spn_histogram_snapshot *snapshot)
{
    /* relaxed, all: numbers. */
    const int64_t max = spn__load(&b->max, relaxed);

    for (int i = 0; i < SPN_HISTOGRAM_BUCKETS; i++) {
        const uint64_t count = spn__load(&b->counts[i], relaxed);

        snapshot->buckets[i] += count;
        snapshot->count += count;
    }
    snapshot->sum += spn__load(&b->sum, relaxed);
    if (max > snapshot->max)
        snapshot->max = max;
}

/* ---- the public one ------------------------------------------------------------------ */

struct part {
    struct spn__tally tally; /* first */
    struct spn__buckets buckets;
};

struct spn_histogram {
    struct spn__tally_set parts;
    struct spn__buckets shared; /* of threads without a part */
};

static void init_part(struct spn__tally *tally)
{
    spn__buckets_init(&((struct part *)(void *)tally)->buckets);
}

int spn_histogram_create(spn_histogram **out)
{
    struct spn_histogram *histogram;

    if (out == NULL)
        return SPN_EINVAL;
    *out = histogram = spn__alloc(sizeof *histogram);
    if (histogram == NULL)
        return SPN_ENOMEM;
    spn__tally_set_init(&histogram->parts, sizeof(struct part), init_part);
    spn__buckets_init(&histogram->shared);
    return SPN_OK;
}

void spn_histogram_destroy(spn_histogram *histogram)
{
    if (histogram == NULL)
        return;
    spn__tally_set_fini(&histogram->parts);
    spn__free(histogram);
}

void spn_histogram_record(spn_histogram *histogram, int64_t value)
{
    struct spn__tally *mine;

    if (histogram == NULL)
        return;
    mine = spn__tally_mine(&histogram->parts);
    if (__builtin_expect(mine != NULL, 1))
        spn__buckets_record(&((struct part *)(void *)mine)->buckets, value, true);
    else
        spn__buckets_record(&histogram->shared, value, false);
}

int spn_histogram_snapshot_get(spn_histogram *histogram,
                               spn_histogram_snapshot *snapshot)
{
    struct spn__tally *tally;

    if (histogram == NULL || snapshot == NULL || snapshot->size != sizeof *snapshot)
        return SPN_EINVAL;
    *snapshot = (spn_histogram_snapshot)SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn__buckets_add_up(&histogram->shared, snapshot);
    spn__tally_each (tally, &histogram->parts)
        spn__buckets_add_up(&((struct part *)(void *)tally)->buckets, snapshot);
    return SPN_OK;
}

int64_t spn_histogram_quantile(const spn_histogram_snapshot *snapshot, double q)
{
    uint64_t seen = 0, rank;

    if (snapshot == NULL || snapshot->size != sizeof *snapshot || !(q >= 0 && q <= 1))
        return SPN_EINVAL;
    if (snapshot->count == 0)
        return 0;
    rank = (uint64_t)((double)snapshot->count * q);
    if ((double)rank < (double)snapshot->count * q || rank == 0)
        rank++; /* the first that reaches the part */
    for (int i = 0; i < SPN_HISTOGRAM_BUCKETS; i++) {
        seen += snapshot->buckets[i];
        if (seen >= rank) {
            const int64_t most = spn__bucket_max(i);

            return most < snapshot->max ? most : snapshot->max;
        }
    }
    return snapshot->max;
}
