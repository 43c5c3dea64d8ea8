/* SPDX-License-Identifier: MIT */
/* parallel.h - what loops, reductions and sorts share; see parallel.c. */
#ifndef SPN__PARALLEL_H
#define SPN__PARALLEL_H

#include "forkjoin/deque.h" /* first: in test builds the inline reads are its own */

#include <spindle/parallel.h>

#include "base/options.h"
#include "sync/seam.h"

/* One call, for as long as it lasts; first in the caller's struct or on its own. */
struct spn__parallel {
    SPN__ATOMIC(int) status;  /* SPN_OK, then for good why parts are left out */
    spn_cancel_token *cancel; /* or NULL                                      */
};

/* The caller's options, or defaults.  SPN_OK or SPN_EINVAL. */
int spn__parallel_options(spn_parallel_opts *to, const spn_parallel_opts *opts);

/* Whether there is a pool to run on. */
bool spn__parallel_pool(spn_fj_pool *pool);

/* Has the pool, or the one the caller works for, run root(fj, arg), and waits; what the
 * public call returns. */
int spn__parallel_run(spn_fj_pool *pool, struct spn__parallel *all,
                      int (*root)(spn_fj fj, void *arg), void *arg);

/* A part has failed. */
void spn__parallel_fail(struct spn__parallel *all, int status);

/* Whether a part that is about to start should be left out. */
bool spn__parallel_stopped(spn_fj fj, struct spn__parallel *all);

#endif /* SPN__PARALLEL_H */
