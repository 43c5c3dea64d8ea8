/* SPDX-License-Identifier: MIT */
#ifndef SPN_PARALLEL_H
#define SPN_PARALLEL_H

#include <spindle/cancel.h>
#include <spindle/executor.h>
#include <spindle/forkjoin.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Loops, reductions and sorts on all workers of a fork/join pool.
 *
 * Each of these calls divides its work in two, and the parts again, until they are
 * small; it returns when all of it is done, and the caller may use the result at once.
 *
 * The pool    may be NULL inside a task of a fork/join pool: then it is that one.
 * Who calls   any thread.  A worker of the pool works on it itself, with the others'
 *             help; any other thread has the pool do it, and sleeps.  A call runs
 *             nothing but its own parts, so it may be made with a lock held that the
 *             parts do not take.
 * Parts       how the work is divided follows from its size and the grain alone: not
 *             from the pool, nor from who is free.  Parts run in any order, on any
 *             worker.
 * The grain   the most a part has: indices of a loop or a reduction, elements of an
 *             array to sort.  What is larger is cut in the middle, so every part but a
 *             whole small one has more than half a grain.  0 chooses one: for a loop
 *             and a reduction a 1024th of the whole, at least 1, which is right for
 *             almost all: enough parts to spread badly divided work, and few enough that
 *             their cost, some nanoseconds each, is nothing.  Give one when a part
 *             should have a least size (a block, a page, a batch), or exactly 1.
 * Failure     a part that returns something else than 0 has failed: parts that have not
 *             started are left out, those that run are waited for, and the call returns
 *             what the part returned; if several failed, that of one of them.
 * Cancelling  with a token (opts->cancel): once it is cancelled, parts that have not
 *             started are left out, and the call returns SPN_ECANCELED.  It returns
 *             SPN_OK if every part had started, and ended well.  The same holds when
 *             the tree that the caller belongs to has failed or the pool is stopped
 *             (spn_fj_status); then it returns why.
 * The stack   parts are not entered on a stack that has no room for them: the call
 *             returns SPN_ENOMEM.
 * Memory      needed only where it says so; asked for before anything starts.
 * Orders      what precedes the call happens-before each part, and each part before
 *             the return.
 */

/* Zero means default.  Append only. */
typedef struct spn_parallel_opts {
    size_t size;              /* sizeof(spn_parallel_opts), set by _INIT       */
    size_t grain;             /* 0: chosen                                     */
    spn_cancel_token *cancel; /* borrowed until the call returns; may be NULL  */
    void *scratch;            /* sort only: as large as the array; NULL: the
                                 call allocates it                             */
} spn_parallel_opts;

#define SPN_PARALLEL_OPTS_INIT                   \
    {                                            \
        sizeof(spn_parallel_opts), 0, NULL, NULL \
    }

/* The indices [begin, end) of a loop; 0, or it has failed. */
typedef int (*spn_range_fn)(void *arg, size_t begin, size_t end);

/* Adds what the indices [begin, end) give to *value; 0, or it has failed. */
typedef int (*spn_fold_fn)(void *arg, size_t begin, size_t end, void *value);

/* Adds *right, which belongs to later indices, to *left; 0, or it has failed. */
typedef int (*spn_join_fn)(void *arg, void *left, void *right);

/* Negative, 0 or positive: whether *a belongs before *b, with it, or after it. */
typedef int (*spn_compare_fn)(void *arg, const void *a, const void *b);

/*
 * Calls fn for parts that make up [begin, end), each index in one of them.  An empty
 * range calls nothing.  opts may be NULL.
 *
 * Blocks, not interruptibly, until all parts that started have ended.
 *
 * Returns  SPN_OK; what a part returned; SPN_ECANCELED; SPN_EINVAL (no fn, no pool,
 *          end before begin, bad opts); SPN_EREJECTED, SPN_EAGAIN, SPN_ENOMEM:
 *          what spn_fj_run refuses with.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_parallel_for(spn_fj_pool *pool, size_t begin, size_t end, spn_range_fn fn,
                     void *arg, const spn_parallel_opts *opts);

/*
 * Reduces [begin, end) to one value of value_size bytes.  *value has to hold the neutral
 * value (0 for a sum); each part starts from a copy of its bytes, fold adds the part's
 * indices to its copy, and join adds neighbours' copies up, left to right.  The result
 * replaces *value; of an empty range it is what was there.
 *
 * The shape of the sum is that of the parts: for the same range and grain the same on
 * every run and every pool.  So join has to be associative only as far as other grains
 * matter, never commutative, and a sum of floating point numbers is repeatable.
 *
 * When the call fails *value is as it was; values that parts had made so far are
 * dropped, and *right's after each join: a value should own nothing.
 *
 * Values lie at addresses as aligned as their size is, up to 64.
 *
 * Blocks as spn_parallel_for.  Values up to 64 bytes need no memory, larger ones that of
 * up to two for each part.
 *
 * Returns  as spn_parallel_for; SPN_EINVAL also for a value_size of 0; SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_parallel_reduce(spn_fj_pool *pool, size_t begin, size_t end, void *value,
                        size_t value_size, spn_fold_fn fold, spn_join_fn join,
                        void *arg, const spn_parallel_opts *opts);

/*
 * Sorts count elements of `size` bytes each; equal ones keep their order.  A merge sort:
 * its merges, too, are cut in two.  Elements are moved as bytes.  The grain chosen for 0
 * is 2048 elements.  What is one part is sorted by the caller.
 *
 * compare may be called on several threads at once, for elements in the array or in the
 * scratch.  It should be an order; if it is not, the result is some order of the same
 * elements.  The same holds for an array whose sort did not end well.
 *
 * Blocks as spn_parallel_for.  Needs scratch of count x size bytes, aligned as the
 * array is: opts->scratch, or memory of its own.  What the scratch holds afterwards is
 * not said.
 *
 * Returns  SPN_OK; SPN_ECANCELED; SPN_EINVAL (a NULL; a size of 0; more bytes than
 *          there are; bad opts; base and scratch may be NULL if count is 0);
 *          SPN_ENOMEM; SPN_EREJECTED, as above.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_parallel_sort(spn_fj_pool *pool, void *base, size_t count, size_t size,
                      spn_compare_fn compare, void *arg, const spn_parallel_opts *opts);

#ifdef __cplusplus
}
#endif
#endif /* SPN_PARALLEL_H */
