/* SPDX-License-Identifier: MIT */
#ifndef SPN_CLOCK_H
#define SPN_CLOCK_H

#include <spindle/status.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Clocks.  There are two: the monotonic one of the system, which every timeout
 * in the library runs on, and manual ones, which stand still until told to
 * move.  Anything that takes a clock (and a program's own code) can be tested
 * with a manual clock: hours pass at once, and nothing happens in between that
 * the test did not order.
 *
 * Threads     every call is safe from any thread.
 */
typedef struct spn_clock spn_clock;

/* Nanoseconds on the monotonic clock: never goes back, starts anywhere.
 * Never blocks.  Since 0.1 */
SPN_API int64_t spn_now(void);

/* The monotonic clock as an object.  It is there always; destroying it gives
 * SPN_EINVAL.  Since 0.1 */
SPN_API spn_clock *spn_clock_monotonic(void);

/*
 * Creates a manual clock that shows start_ns (not negative, not SPN_FOREVER)
 * and stores it in *out; on failure *out is NULL.
 *
 * Returns  SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_clock_create_manual(spn_clock **out, int64_t start_ns);

/*
 * Frees a manual clock; NULL is a no-op.
 *
 * Returns  SPN_OK; SPN_EBUSY while a thread sleeps on it or awaits sleepers, or a
 *          queue uses it; SPN_EINVAL for the
 *          monotonic clock.
 * Since    0.1
 */
SPN_API int spn_clock_destroy(spn_clock *clock);

/* What the clock shows, or SPN_EINVAL for NULL.  Never blocks.  Since 0.1 */
SPN_API int64_t spn_clock_now(const spn_clock *clock);

/*
 * Sleeps until the clock shows deadline_ns or more; a deadline that has passed
 * returns at once.  Interruptible.
 *
 * Returns  SPN_OK, SPN_EINTR, SPN_EINVAL (NULL), SPN_ENOMEM (no memory for the
 *          calling thread's record).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_clock_sleep_until(spn_clock *clock, int64_t deadline_ns);

/*
 * Moves a manual clock forward by by_ns (at least 0) and wakes the sleepers
 * whose time has come, earliest first.  It does not wait for them to run.
 *
 * Returns  SPN_OK; SPN_EINVAL (NULL, negative, or the monotonic clock);
 *          SPN_ERANGE when the clock would reach SPN_FOREVER: it stays put.
 * Since    0.1
 */
SPN_API int spn_clock_advance(spn_clock *clock, int64_t by_ns);

/*
 * Moves a manual clock to the earliest deadline somebody sleeps for, wakes
 * those it is for and stores the new time in *now_ns (may be NULL).
 *
 * Returns  SPN_OK; SPN_EEMPTY when nobody sleeps with a deadline: it stays
 *          put; SPN_EINVAL (NULL or the monotonic clock).
 * Since    0.1
 */
SPN_API int spn_clock_advance_to_next(spn_clock *clock, int64_t *now_ns);

/*
 * Waits until at least `count` threads sleep on a manual clock: the way a test
 * knows that its subject has gone to sleep before it moves the clock.  The
 * timeout is in real time.  Blocks; interruptible.
 *
 * Returns  SPN_OK, SPN_ETIMEDOUT, SPN_EINTR, SPN_EINVAL (NULL, negative count,
 *          the monotonic clock), SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_clock_await_sleepers(spn_clock *clock, int32_t count, int64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif /* SPN_CLOCK_H */
