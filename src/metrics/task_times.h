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

#endif /* SPN__TASK_TIMES_H */
