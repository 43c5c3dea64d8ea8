/* SPDX-License-Identifier: MIT */
/* executor.h - what those who make executors share; see executor.c. */
#ifndef SPN__EXECUTOR_H
#define SPN__EXECUTOR_H

#include <spindle/executor.h>

/* Whether the executor's table, of whatever age, has an operation. */
#define spn__executor_has(executor, op)                             \
    ((executor)->ops->size >=                                       \
         offsetof(spn_executor_ops, op) + sizeof(void (*)(void)) && \
     (executor)->ops->op != NULL)

/* A task of the library's own that calls fn(arg), or NULL: no memory.  It frees
 * itself when it is run or dropped. */
spn_task *spn__call_task_create(spn_run_fn fn, void *arg);

#endif /* SPN__EXECUTOR_H */
