/* SPDX-License-Identifier: MIT */
#ifndef SPN_SEMAPHORE_H
#define SPN_SEMAPHORE_H

#include <spindle/status.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A counting semaphore.
 *
 * Order       waiters are served first come, first served.  A fair semaphore
 *             lets nobody overtake them; an unfair one (the default) lets a
 *             thread that finds enough permits take them, which is faster.
 * Threads     every call is safe from any thread; release need not come from
 *             the thread that acquired.  A thread whose acquire has returned
 *             SPN_OK may destroy the semaphore at once, if no other thread
 *             will use it, even while the release that served it is still
 *             returning.
 */
typedef struct spn_semaphore spn_semaphore;

#define SPN_SEMAPHORE_MAX INT32_MAX /* permits a semaphore can hold */

/* Zero means default.  Append only. */
typedef struct spn_semaphore_opts {
    size_t size;     /* sizeof(spn_semaphore_opts), set by _INIT  */
    int32_t permits; /* at first, 0 .. SPN_SEMAPHORE_MAX          */
    uint32_t fair;   /* 1: nobody overtakes a waiter              */
} spn_semaphore_opts;

#define SPN_SEMAPHORE_OPTS_INIT          \
    {                                    \
        sizeof(spn_semaphore_opts), 0, 0 \
    }

/*
 * Creates a semaphore in *out; on failure *out is NULL.  opts may be NULL: no
 * permits, unfair.
 * Returns  SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_semaphore_create(spn_semaphore **out, const spn_semaphore_opts *opts);

/*
 * Frees a semaphore; NULL is a no-op.
 * Returns  SPN_OK, or SPN_EBUSY and changes nothing while a thread waits on it.
 * Since    0.1
 */
SPN_API int spn_semaphore_destroy(spn_semaphore *semaphore);

/*
 * Takes `count` permits (at least 1) at once, or none.  Blocks up to timeout_ns, 0: not
 * at all; interruptible, if it has to wait at all.
 *
 * Returns  SPN_OK, SPN_ETIMEDOUT, SPN_EINTR, SPN_EINVAL, SPN_ENOMEM (no memory for
 *          the calling thread's record).
 * Orders   what precedes release happens-before the acquire that takes one of
 *          its permits.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_semaphore_acquire(spn_semaphore *semaphore, int32_t count, int64_t timeout_ns);

/*
 * Adds `count` permits (at least 1) and serves the waiters they suffice for.
 * Never blocks.
 * Returns  SPN_OK, SPN_EINVAL, SPN_ERANGE (more than SPN_SEMAPHORE_MAX would
 *          be free: nothing was added).
 * Since    0.1
 */
SPN_API int spn_semaphore_release(spn_semaphore *semaphore, int32_t count);

/* Permits free now, or SPN_EINVAL for NULL.  Never blocks.  Since 0.1 */
SPN_API int32_t spn_semaphore_available(const spn_semaphore *semaphore);

#ifdef __cplusplus
}
#endif
#endif /* SPN_SEMAPHORE_H */
