/* SPDX-License-Identifier: MIT */
/*
 * parallel.c - loops, reductions and calls, divided in two until they are small.
 *
 * OVERVIEW
 *   A range that is larger than the grain is cut in the middle: the upper half is
 *   forked, the lower one done by the same recursion, then the upper one joined.  So the
 *   parts, and the shape in which a reduction adds them up, follow from the range and
 *   the grain.  Which worker does what is the deque's business.
 *
 *   The recursion is as deep as the logarithm of the number of parts, and a thief starts
 *   with half of what is left: stealing is rare however small the parts are.
 *
 * FAILURE
 *   The first part that fails writes its status into `status`, once, and every part looks
 *   there before it starts.  That is this call's own: the tree the caller belongs to
 *   goes on, and the caller says what a failure means.  What makes a whole tree fail, a
 *   stack without room or a pool that is stopped, is the tree's (spn_fj_status), and
 *   is looked at in the same place.
 *
 * VALUES OF A REDUCTION
 *   The value of a range's lower half is that of the range; the upper half needs one of
 *   its own until it is joined.  Small ones lie in the frame that forks; for large ones
 *   there is an array with a place for each part.  No part but a whole small one has
 *   less than (grain + 1) / 2 indices, so the begin of a part, divided by that,
 *   is a place no other has.
 *
 * ORDERING
 *   relaxed for `status`: it decides only whether parts are left out.  What a part
 *   did happens-before the join that ends it, and so before the return.
 *
 * WHY NOT cut lazily, only when somebody is idle?  A fork costs less than the question,
 * and then the shape of a sum would depend on who was idle.
 */
#include "forkjoin/parallel.h"

#include <string.h>

/* Parts that a chosen grain makes, up to twice as many. */
#define PARTS 1024

/* A value up to so many bytes lies in the frame that needs it. */
#define VALUE_IN_FRAME 64
#define VALUE_ALIGN    64

/* ---- what the calls share ------------------------------------------------------ */

int spn__parallel_options(spn_parallel_opts *to, const spn_parallel_opts *opts)
{
    *to = (spn_parallel_opts)SPN_PARALLEL_OPTS_INIT;
    return opts == NULL ? SPN_OK : spn__options_copy(to, sizeof *to, opts);
}

bool spn__parallel_pool(spn_fj_pool *pool)
{
    return pool != NULL || spn_fj_pool_current() != NULL;
}

int spn__parallel_run(spn_fj_pool *pool, struct spn__parallel *all,
                      int (*root)(spn_fj fj, void *arg), void *arg)
{
    int rc;

    if (pool == NULL)
        pool = spn_fj_pool_current();
    spn__init(&all->status, SPN_OK);
    rc = spn_fj_run(pool, root, arg);
    /* relaxed: spn_fj_run has ordered all parts before this. */
    return rc != SPN_OK ? rc : spn__load(&all->status, relaxed);
}

void spn__parallel_fail(struct spn__parallel *all, int status)
{
    int none = SPN_OK;

    /* relaxed: see ORDERING.  The first stays. */
    (void)spn__cas(&all->status, &none, status, relaxed, relaxed);
}

bool spn__parallel_stopped(spn_fj fj, struct spn__parallel *all)
{
    int status;

    if (spn__load(&all->status, relaxed) != SPN_OK) /* relaxed: see ORDERING */
        return true;
    status =
        spn_cancel_token_is_cancelled(all->cancel) ? SPN_ECANCELED : spn_fj_status(fj);
    if (status != SPN_OK)
        spn__parallel_fail(all, status);
    return status != SPN_OK;
}

static size_t grain_for(size_t count, size_t wanted)
{
    if (wanted != 0)
        return wanted;
    return count / PARTS + (count % PARTS != 0);
}

/* ---- a loop ---------------------------------------------------------------------- */

struct loop {
    struct spn__parallel all;
    spn_range_fn fn;
    void *arg;
    size_t begin, end, grain;
};

SPN_FJ_ACTION(run_range, struct loop *, loop, size_t, begin, size_t, end)
{
    int status;

    if (end - begin > loop->grain) {
        const size_t middle = begin + (end - begin) / 2;

        run_range_fork(&fj, loop, middle, end);
        run_range(fj, loop, begin, middle);
        run_range_join(&fj);
        return;
    }
    if (spn__parallel_stopped(fj, &loop->all))
        return;
    status = loop->fn(loop->arg, begin, end);
    if (status != 0)
        spn__parallel_fail(&loop->all, status);
}

static int run_loop(spn_fj fj, void *arg)
{
    struct loop *loop = arg;

    run_range(fj, loop, loop->begin, loop->end);
    return spn_fj_status(fj);
}

int spn_parallel_for(spn_fj_pool *pool, size_t begin, size_t end, spn_range_fn fn,
                     void *arg, const spn_parallel_opts *opts)
{
    struct loop loop = { .fn = fn, .arg = arg, .begin = begin, .end = end };
    spn_parallel_opts copy;

    if (fn == NULL || end < begin || spn__parallel_options(&copy, opts) != SPN_OK)
        return SPN_EINVAL;
    if (!spn__parallel_pool(pool))
        return SPN_EINVAL;
    if (begin == end)
        return SPN_OK;
    loop.all.cancel = copy.cancel;
    loop.grain = grain_for(end - begin, copy.grain);
    return spn__parallel_run(pool, &loop.all, run_loop, &loop);
}

/* ---- a reduction --------------------------------------------------------------------- */

struct reduction {
    struct spn__parallel all;
    spn_fold_fn fold;
    spn_join_fn join;
    void *arg;
    size_t begin, end, grain;
    const void *neutral; /* the caller's value, until the end */
    size_t value_size;
    unsigned char *values; /* a place for each part; NULL: they are small */
    size_t spacing;        /* indices for each place                      */
    void *total;
};

/* Adds to *value, which holds the neutral value, what [begin, end) gives. */
SPN_FJ_ACTION(reduce_range, struct reduction *, r, size_t, begin, size_t, end, void *,
              value)
{
    _Alignas(VALUE_ALIGN) unsigned char frame[VALUE_IN_FRAME];
    const size_t middle = begin + (end - begin) / 2;
    void *right = frame;
    int status;

    if (end - begin > r->grain) {
        if (r->values != NULL)
            right = r->values + (middle - r->begin) / r->spacing * r->value_size;
        memcpy(right, r->neutral, r->value_size);
        reduce_range_fork(&fj, r, middle, end, right);
        reduce_range(fj, r, begin, middle, value);
        reduce_range_join(&fj);
        if (spn__parallel_stopped(fj, &r->all))
            return;
        status = r->join(r->arg, value, right);
    } else {
        if (spn__parallel_stopped(fj, &r->all))
            return;
        status = r->fold(r->arg, begin, end, value);
    }
    if (status != 0)
        spn__parallel_fail(&r->all, status);
}

static int run_reduction(spn_fj fj, void *arg)
{
    struct reduction *r = arg;

    memcpy(r->total, r->neutral, r->value_size);
    reduce_range(fj, r, r->begin, r->end, r->total);
    return spn_fj_status(fj);
}

/* A place for each part, or NULL: no memory. */
static unsigned char *places(size_t count, size_t spacing, size_t value_size)
{
    const size_t parts = count / spacing + 1;

    return parts > SIZE_MAX / value_size
               ? NULL
               : spn__alloc_aligned(parts * value_size, VALUE_ALIGN);
}

int spn_parallel_reduce(spn_fj_pool *pool, size_t begin, size_t end, void *value,
                        size_t value_size, spn_fold_fn fold, spn_join_fn join,
                        void *arg, const spn_parallel_opts *opts)
{
    _Alignas(VALUE_ALIGN) unsigned char frame[VALUE_IN_FRAME];
    struct reduction r = { .fold = fold,
                           .join = join,
                           .arg = arg,
                           .begin = begin,
                           .end = end,
                           .neutral = value,
                           .value_size = value_size,
                           .total = frame };
    spn_parallel_opts copy;
    int rc;

    if (value == NULL || value_size == 0 || fold == NULL || join == NULL ||
        end < begin || spn__parallel_options(&copy, opts) != SPN_OK ||
        !spn__parallel_pool(pool))
        return SPN_EINVAL;
    if (begin == end)
        return SPN_OK;
    r.all.cancel = copy.cancel;
    r.grain = grain_for(end - begin, copy.grain);
    r.spacing = r.grain / 2 + r.grain % 2;
    if (value_size > VALUE_IN_FRAME) {
        /* The first place is that of the first part, whose value becomes the total. */
        r.values = places(end - begin, r.spacing, value_size);
        if (r.values == NULL)
            return SPN_ENOMEM;
        r.total = r.values;
    }
    rc = spn__parallel_run(pool, &r.all, run_reduction, &r);
    if (rc == SPN_OK)
        memcpy(value, r.total, value_size);
    spn__free(r.values);
    return rc;
}
