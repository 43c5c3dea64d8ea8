/* SPDX-License-Identifier: MIT */
/* url_pool.h - the built-in thread pools, policies and queues; see shapes.c and rejections.c. */
#ifndef SPN__URL_POOL_H
#define SPN__URL_POOL_H

#include <spindle/url_pool.h>

extern const spn_threadpool spn__threadpool_fixed, spn__threadpool_cached,
    spn__threadpool_limited, spn__threadpool_eager;
extern const spn_work_queue spn__work_queue_fifo, spn__work_queue_lanes,
    spn__work_queue_priority;
extern const spn_rejection spn__rejection_report, spn__rejection_abort,
    spn__rejection_caller_runs, spn__rejection_discard, spn__rejection_discard_oldest,
    spn__rejection_new_thread, spn__rejection_block, spn__rejection_chain;

/* The rejection that a text means: a name, or `chain:name,name`; NULL: the default. */
int spn__rejection_find(spn_extensions *extensions, const char *text,
                        const spn_rejection **out, spn_problem *problem);

/* A number of a URL, with the key in the problem; within [low, high]. */
int spn__url_number(const spn_url *url, const char *key, int64_t low, int64_t high,
                    int64_t otherwise, int64_t *value, spn_problem *problem);

#endif /* SPN__URL_POOL_H */
