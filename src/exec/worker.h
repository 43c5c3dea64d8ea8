/* SPDX-License-Identifier: MIT */
/*
 * worker.h - what the files about a worker need of each other; see worker.c.
 */
#ifndef SPN__WORKER_H
#define SPN__WORKER_H

#include "exec/pool.h"

/* worker.c: what a worker's thread runs, with the worker. */
int spn__worker_main(void *worker);

/* staff.c: off the list and out of the count, if nothing speaks against it.  True: the
 * worker is freed, and the pool is not to be touched any more. */
bool spn__worker_leave(struct spn__worker *w);
/* Wakes the workers that stay for what may be over now, in a pool with a user's queue. */
void spn__worker_let_go(struct spn_pool *pool);
/*
 * Has another thread take over the place of a worker that dies; false: there is none
 * to be had, or none is wanted.  If there is, this worker is off the list before the
 * other can run, for that one may end the pool.
 */
bool spn__worker_replace(struct spn__worker *w);

/* run.c: runs an entry; and what follows it in the worker's batch (LANES). */
void spn__worker_run(struct spn__worker *w, struct spn__entry entry);
void spn__worker_run_batch(struct spn__worker *w, struct spn__entry entry);
/* The task has ended the thread: gives it, and the tasks of the library's that it was in,
 * their end.  `root`: where the worker entered the pool's executor. */
void spn__worker_cut_short(struct spn__worker *w, struct spn_executor_frame *root);

#endif /* SPN__WORKER_H */
