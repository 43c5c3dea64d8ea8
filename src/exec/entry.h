/* SPDX-License-Identifier: MIT */
/*
 * entry.h - what waits in a pool and what a worker takes: a function and its argument.
 *
 * A task is the function spn__entry_task with the task as its argument, and is never
 * called that way.  An entry whose function is NULL is none.
 */
#ifndef SPN__ENTRY_H
#define SPN__ENTRY_H

#include <spindle/executor.h>

struct spn__entry {
    spn_run_fn fn;
    void *arg;
};
int spn__entry_task(void *task); /* work.c */

#endif /* SPN__ENTRY_H */
