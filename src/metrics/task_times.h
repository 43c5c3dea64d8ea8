/* SPDX-License-Identifier: MIT */
/* task_times.h - times of tasks, for the registry; see task_times.c. */
#ifndef SPN__TASK_TIMES_H
#define SPN__TASK_TIMES_H

#include <spindle/metrics.h>

/* The longest that a running task is known to run, and a timed one to wait. */
int64_t spn__task_times_longest(spn_task_times *times);
int64_t spn__task_times_oldest(spn_task_times *times);

/* The pool's queue was found empty, at that time or later: what was submitted before does
 * not wait any more. */
void spn__task_times_empty(spn_task_times *times, int64_t at_ns);

/* trace.c: a run of a task; name may be NULL. */
void spn__trace_run(spn_trace *trace, const char *pool, const char *name,
                    int64_t start_ns, int64_t end_ns);

#endif /* SPN__TASK_TIMES_H */
