/* SPDX-License-Identifier: MIT */
#ifndef SPN_LATCH_H
#define SPN_LATCH_H

#include <spindle/status.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A latch: threads wait until a count has reached zero.  It opens once and
 * stays open.
 *
 * Threads     every call is safe from any thread.  A thread whose await has
 *             returned SPN_OK may destroy the latch at once, if no other thread
 *             will use it, even while the count_down that opened it is still
 *             returning.
 */
typedef struct spn_latch spn_latch;

/*
 * Creates a latch with `count` (0 or more; 0 is open) in *out; on failure *out
 * is NULL.
 * Returns  SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_latch_create(spn_latch **out, int32_t count);

/*
 * Frees a latch; NULL is a no-op.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing while a thread waits on it.
 * Since    0.1
 */
SPN_API int spn_latch_destroy(spn_latch *latch);

/*
 * Takes one from the count; at zero it does nothing, on reaching zero it
 * releases every waiter.  Never blocks.
 * Returns  SPN_OK, SPN_EINVAL (NULL).
 * Orders   what precedes count_down happens-before every await it releases.
 * Since    0.1
 */
SPN_API int spn_latch_count_down(spn_latch *latch);

/* The count, or SPN_EINVAL for NULL.  Never blocks.  Since 0.1 */
SPN_API int32_t spn_latch_count(const spn_latch *latch);

/*
 * Waits until the count is zero.  Blocks up to timeout_ns; interruptible.
 * An open latch answers SPN_OK whatever the timeout and the interrupt flag.
 * Returns  SPN_OK, SPN_ETIMEDOUT, SPN_EINTR, SPN_EINVAL, SPN_ENOMEM (no memory
 *          for the calling thread's record).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_latch_await(spn_latch *latch, int64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif /* SPN_LATCH_H */
