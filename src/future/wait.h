/* SPDX-License-Identifier: MIT */
/* wait.h - lists of a future and who may still get on them; see wait.c. */
#ifndef SPN__FUTURE_WAIT_H
#define SPN__FUTURE_WAIT_H

#include "future/core.h"

/* With the lock held: true if the phase is below `limit`, and then whoever moves
 * the state on from there will take the lock and look at the lists. */
bool spn__future_attend(struct spn_future *f, uint32_t limit);

/* Waits until the phase is no longer INTERRUPTING; by the runner, whose interrupt
 * is on its way.  Not interruptible, of course. */
void spn__future_await_interrupted(struct spn_future *f, struct spn_thread *self);

#endif /* SPN__FUTURE_WAIT_H */
