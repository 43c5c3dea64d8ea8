/* SPDX-License-Identifier: MIT */
/* wait.h - lists of a future and who may still get on them; see wait.c. */
#ifndef SPN__FUTURE_WAIT_H
#define SPN__FUTURE_WAIT_H

#include "future/core.h"

/* With the lock held: true if the phase is below `limit`, and then whoever moves
 * the state on from there will take the lock and look at the lists. */
bool spn__future_attend(struct spn_future *f, uint32_t limit);

/* Waits as get does: SPN_OK when the future is done, or why it did not come to that.
 * Does not read the value. */
int spn__future_await(struct spn_future *f, int64_t timeout_ns);

/* Waits until the phase is `limit` or more, which is already on its way: until DONE,
 * or, by the runner, until the interrupt has come.  Not interruptible, of course. */
void spn__future_await_phase(struct spn_future *f, uint32_t limit,
                             struct spn_thread *self);

/* Somebody else won.  Waits for the moment until the winner has written the outcome,
 * so that who is told that the future is done finds it done. */
void spn__future_await_winner(struct spn_future *f);

#endif /* SPN__FUTURE_WAIT_H */
