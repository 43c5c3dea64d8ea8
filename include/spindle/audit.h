/* SPDX-License-Identifier: MIT */
#ifndef SPN_AUDIT_H
#define SPN_AUDIT_H

#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a program has made and not given back, and what it does wrong: in libraries that
 * were built with SPINDLE_AUDIT, as debug builds are.  Others know nothing of it and pay
 * nothing for it.
 *
 * At exit, and when asked, such a library tells which pools, queues, futures, timers and
 * object pools are left, and who made them.  Mistakes that a status tells, and that a
 * program might not look at, it also logs as warnings, which begin with "misuse:": a task
 * submitted while it is queued, an object returned twice or to another pool, a queue
 * destroyed with items nobody drops, a failed future that nobody looked at.
 *
 * Threads     every call is safe from any thread.
 */

/* Something that was made and is there; valid during the call. */
typedef struct spn_audit_item {
    const char *kind;   /* "pool", "queue", "future", "timer", "object pool"     */
    const char *name;   /* its own, or of what sort it is; cut after 47 bytes    */
    const char *state;  /* "never shut down"...; "" if there is nothing to say   */
    const void *object; /* to compare, not to follow                             */
    const uintptr_t
        *callers; /* program counters: who made it, innermost first        */
    size_t caller_count;
} spn_audit_item;

typedef void (*spn_audit_fn)(void *ctx, const spn_audit_item *item);

/*
 * Calls fn(ctx, item) for everything that was made before and is still there, in the order
 * it was made, with no lock held.  fn may be NULL.
 *
 * Returns  how many there are; SPN_ENOTSUP: the library was built without.
 * Since    0.1
 */
SPN_API int64_t spn_audit_each(spn_audit_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
#endif /* SPN_AUDIT_H */
