/* SPDX-License-Identifier: MIT */
#ifndef SPN_PARK_H
#define SPN_PARK_H

#include <spindle/thread.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Blocking one thread: the smallest piece from which locks and queues are
 * made.  Every thread has one permit.  park takes it, or sleeps until there is
 * one; unpark makes it available.  Permits do not add up.
 *
 * park may return for no reason, so it is called in a loop that tests what the
 * caller waits for:
 *
 *     while (!ready(x))               // and: another thread makes ready(x)
 *         spn_park(x);                // true, then calls spn_unpark(waiter)
 *
 * With the interrupt flag set park returns at once, every time, and leaves the
 * flag as it is.  `blocker` (may be NULL) names what the thread waits for, to
 * those who ask spn_thread_blocker while it is parked.
 *
 * park: no time limit.  park_for: at most timeout_ns; 0 or negative returns at
 * once.  park_until: until spn_now() reaches deadline_ns.  None of them says
 * why it returned: test the condition, the flag and the clock.
 *
 * Orders   what precedes unpark happens-before the return of the park that
 *          took its permit.
 * Since    0.1
 */
SPN_API void spn_park(const void *blocker);
SPN_API void spn_park_for(int64_t timeout_ns, const void *blocker);
SPN_API void spn_park_until(int64_t deadline_ns, const void *blocker);

/*
 * Gives `thread` its permit and wakes it if it is parked.  NULL and an ended
 * thread are harmless.  Never blocks.
 * Since    0.1
 */
SPN_API void spn_unpark(spn_thread *thread);

/*
 * Stores in *blocker what `thread` is parked with now, or NULL.  The answer
 * may be out of date when it arrives; never dereference it.
 *
 * Returns  SPN_OK, SPN_EINVAL (either pointer NULL).
 * Since    0.1
 */
SPN_API int spn_thread_blocker(const spn_thread *thread, const void **blocker);

#ifdef __cplusplus
}
#endif
#endif /* SPN_PARK_H */
