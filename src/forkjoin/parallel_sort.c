/* SPDX-License-Identifier: MIT */
/*
 * parallel_sort.c - a stable merge sort whose merges are cut in two as well.
 *
 * OVERVIEW
 *   Halves are sorted side by side and merged from the array into the scratch or back:
 *   where the result of a part has to be (`into_scratch`) is decided from above, so a
 *   level moves each element once.
 *
 *   A merge of two sorted runs x and y is cut at the middle of the longer one: a search
 *   in the other tells what comes before it, and both sides can be merged at once.  Equal
 *   elements of x come before those of y, so the search in y stops before elements that
 *   are equal to the one from x, and the search in x after those.  Neither side has more
 *   than three quarters.  Without this the last merge would be one thread's, and two
 *   threads could not take less than 0.52 of the time of one.
 *
 * THE SAME ELEMENTS
 *   Every part leaves all its elements where its parent looks for them, in some order,
 *   whatever happens: once the call is stopped parts are copied where they were to
 *   be sorted, and joined end to end where they were to be merged; and a part that was
 *   not entered, for want of stack, is copied by its parent.  A compare function that
 *   contradicts itself can spoil the order only: no step goes where it says, beyond the
 *   runs it is about.
 *
 * WHY merge sort?  Stable, n log n for every input, and it divides evenly.  Why not
 * in place?  Merges without scratch cannot be cut in two.
 */
#include "forkjoin/parallel.h"

#include <string.h>

/* Elements that are sorted by insertion: moves are cheap, and so is being wrong. */
#define INSERTION_MAX 12

/* Elements of a part, if the caller does not say. */
#define GRAIN 2048

/* A merge of more than so many grains is cut in two: a search costs a few dozen
 * comparisons, so parts can be larger than those of the sort, but not much, or the last
 * merges would end unevenly. */
#define MERGE_GRAINS 4

/* With a grain that was chosen here, they are also so large that the last merge has about
 * so many parts: enough for every worker to end with the others, and for ten million
 * elements a third of the searches that parts of four grains would make. */
#define MERGE_PARTS 256

struct sort {
    struct spn__parallel all;
    spn_compare_fn compare;
    void *arg;
    size_t size;               /* of an element           */
    size_t grain, merge_grain; /* in elements             */
    unsigned char *base, *scratch;
    size_t count;
};

/* ---- on one thread ------------------------------------------------------------------ */

/* Inlined with sizes that are known, so that moves are instructions and not calls. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Sorts n elements; `spare` has room for one. */
ALWAYS_INLINE void insertion_sort(const struct sort *s, unsigned char *a, size_t n,
                                  unsigned char *spare, size_t size)
{
    for (size_t i = 1; i < n; i++) {
        unsigned char *at = a + i * size;

        if (s->compare(s->arg, at - size, at) <= 0)
            continue;
        memcpy(spare, at, size);
        do {
            memcpy(at, at - size, size);
            at -= size;
        } while (at > a && s->compare(s->arg, at - size, spare) > 0);
        memcpy(at, spare, size);
    }
}

ALWAYS_INLINE void merge(const struct sort *s, unsigned char *to,
                         const unsigned char *x, size_t nx, const unsigned char *y,
                         size_t ny, size_t size)
{
    const unsigned char *const x_end = x + nx * size, *const y_end = y + ny * size;

    /* Runs that follow one another, as in an array that was sorted, are moved whole. */
    if (nx > 0 && ny > 0 && s->compare(s->arg, x_end - size, y) > 0) {
        while (x < x_end && y < y_end) {
            if (s->compare(s->arg, x, y) <= 0) {
                memcpy(to, x, size);
                x += size;
            } else {
                memcpy(to, y, size);
                y += size;
            }
            to += size;
        }
    }
    memcpy(to, x, (size_t)(x_end - x));
    memcpy(to + (x_end - x), y, (size_t)(y_end - y));
}

ALWAYS_INLINE void sort_small(const struct sort *s, unsigned char *a, unsigned char *t,
                              size_t n, bool into_scratch, size_t size)
{
    insertion_sort(s, a, n, t, size);
    if (into_scratch)
        memcpy(t, a, n * size);
}

#define FOR_SIZE(s, call) \
    switch ((s)->size) {  \
    case 4:               \
        call(4);          \
        break;            \
    case 8:               \
        call(8);          \
        break;            \
    case 16:              \
        call(16);         \
        break;            \
    default:              \
        call((s)->size);  \
        break;            \
    }

static void merge_here(const struct sort *s, unsigned char *to, const unsigned char *x,
                       size_t nx, const unsigned char *y, size_t ny)
{
#define CALL(size) merge(s, to, x, nx, y, ny, size)
    FOR_SIZE(s, CALL)
#undef CALL
}

/* Sorts a[0..n), with t[0..n) as scratch, into t or into a. */
static void sort_here(const struct sort *s, unsigned char *a, unsigned char *t,
                      size_t n, bool into_scratch)
{
    const size_t half = n / 2, bytes = half * s->size;

    if (n <= INSERTION_MAX) {
#define CALL(size) sort_small(s, a, t, n, into_scratch, size)
        FOR_SIZE(s, CALL)
#undef CALL
        return;
    }
    sort_here(s, a, t, half, !into_scratch);
    sort_here(s, a + bytes, t + bytes, n - half, !into_scratch);
    if (into_scratch)
        merge_here(s, t, a, half, a + bytes, n - half);
    else
        merge_here(s, a, t, half, t + bytes, n - half);
}

/* ---- in parts ------------------------------------------------------------------------- */

struct merge {
    struct sort *sort;
    unsigned char *to;
    const unsigned char *x, *y; /* runs, in order: of equal ones x's come first */
    size_t nx, ny;
};

/* How many of the n elements at `run` belong before *key, those that are equal included
 * if equal_before. */
static size_t rank(const struct sort *s, const unsigned char *run, size_t n,
                   const unsigned char *key, bool equal_before)
{
    size_t low = 0;

    while (n > 0) {
        const size_t half = n / 2;
        const int order = s->compare(s->arg, run + (low + half) * s->size, key);

        if (order < 0 || (order == 0 && equal_before)) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

static void append(const struct merge *m)
{
    const size_t size = m->sort->size;

    memcpy(m->to, m->x, m->nx * size);
    memcpy(m->to + m->nx * size, m->y, m->ny * size);
}

/* Cuts m in two; both halves have elements. */
static void cut(const struct merge *m, struct merge *low, struct merge *high)
{
    const size_t size = m->sort->size;
    size_t ix, iy;

    if (m->nx >= m->ny) {
        ix = m->nx / 2;
        iy = rank(m->sort, m->y, m->ny, m->x + ix * size, false);
    } else {
        iy = m->ny / 2;
        ix = rank(m->sort, m->x, m->nx, m->y + iy * size, true);
    }
    *low = *m;
    low->nx = ix;
    low->ny = iy;
    *high = (struct merge){ .sort = m->sort,
                            .to = m->to + (ix + iy) * size,
                            .x = m->x + ix * size,
                            .nx = m->nx - ix,
                            .y = m->y + iy * size,
                            .ny = m->ny - iy };
}

/* Both return 1: a body that was not entered gives 0. */
SPN_FJ_TASK(int, merge_part, const struct merge *, m)
{
    struct sort *s = m->sort;
    struct merge low, high;

    if (spn__parallel_stopped(fj, &s->all)) {
        append(m);
        return 1;
    }
    if (m->nx + m->ny <= s->merge_grain) {
        merge_here(s, m->to, m->x, m->nx, m->y, m->ny);
        return 1;
    }
    cut(m, &low, &high);
    merge_part_fork(&fj, &high);
    if (!merge_part(fj, &low))
        append(&low);
    if (!merge_part_join(&fj))
        append(&high);
    return 1;
}

SPN_FJ_TASK(int, sort_part, struct sort *, s, unsigned char *, a, unsigned char *, t,
            size_t, n, int, into_scratch)
{
    const size_t half = n / 2, bytes = half * s->size;
    unsigned char *from = into_scratch ? a : t;
    struct merge m;

    if (spn__parallel_stopped(fj, &s->all)) {
        if (into_scratch)
            memcpy(t, a, n * s->size);
        return 1;
    }
    if (n <= s->grain) {
        sort_here(s, a, t, n, into_scratch);
        return 1;
    }
    sort_part_fork(&fj, s, a + bytes, t + bytes, n - half, !into_scratch);
    if (!sort_part(fj, s, a, t, half, !into_scratch) && !into_scratch)
        memcpy(t, a, bytes);
    if (!sort_part_join(&fj) && !into_scratch)
        memcpy(t + bytes, a + bytes, (n - half) * s->size);
    m = (struct merge){ .sort = s,
                        .to = into_scratch ? t : a,
                        .x = from,
                        .nx = half,
                        .y = from + bytes,
                        .ny = n - half };
    if (!merge_part(fj, &m))
        append(&m);
    return 1;
}

static int run_sort(spn_fj fj, void *arg)
{
    struct sort *s = arg;

    (void)sort_part(fj, s, s->base, s->scratch, s->count, 0);
    return spn_fj_status(fj);
}

int spn_parallel_sort(spn_fj_pool *pool, void *base, size_t count, size_t size,
                      spn_compare_fn compare, void *arg, const spn_parallel_opts *opts)
{
    struct sort s = {
        .compare = compare, .arg = arg, .size = size, .base = base, .count = count
    };
    spn_parallel_opts copy;
    void *own = NULL;
    int rc;

    if ((base == NULL && count > 0) || size == 0 || compare == NULL ||
        count > PTRDIFF_MAX / size || spn__parallel_options(&copy, opts) != SPN_OK ||
        !spn__parallel_pool(pool))
        return SPN_EINVAL;
    if (count < 2)
        return SPN_OK;
    s.all.cancel = copy.cancel;
    s.grain = copy.grain != 0 ? copy.grain : GRAIN;
    s.merge_grain =
        s.grain < SIZE_MAX / MERGE_GRAINS ? s.grain * MERGE_GRAINS : SIZE_MAX;
    if (copy.grain == 0 && s.merge_grain < count / MERGE_PARTS)
        s.merge_grain = count / MERGE_PARTS;
    s.scratch = copy.scratch;
    if (s.scratch == NULL)
        s.scratch = own = spn__alloc(count * size);
    if (s.scratch == NULL)
        return SPN_ENOMEM;
    if (count > s.grain) {
        rc = spn__parallel_run(pool, &s.all, run_sort, &s);
    } else if (spn_cancel_token_is_cancelled(copy.cancel)) {
        rc = SPN_ECANCELED;
    } else {
        /* One part: handing it over would take longer. */
        sort_here(&s, s.base, s.scratch, count, false);
        rc = SPN_OK;
    }
    spn__free(own);
    return rc;
}
