/* SPDX-License-Identifier: MIT */
/* threads.h - the thread pool below a fork/join pool, for those who count; see pool.c. */
#ifndef SPN__FORKJOIN_THREADS_H
#define SPN__FORKJOIN_THREADS_H

#include <spindle/forkjoin.h>

/* Borrowed: lives as long as the other. */
spn_pool *spn__fj_pool_threads(spn_fj_pool *pool);

#endif /* SPN__FORKJOIN_THREADS_H */
