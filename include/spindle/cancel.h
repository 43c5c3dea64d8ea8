/* SPDX-License-Identifier: MIT */
#ifndef SPN_CANCEL_H
#define SPN_CANCEL_H

#include <spindle/status.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A token that says "stop", to be looked at by those who should.
 *
 * Cancelling is cooperative and final: a token is cancelled once, with a reason, and
 * stays so.  Code that may take long polls it (one load), waits on it in place of
 * sleeping, or registers a callback.  A token with a parent is cancelled with it, and
 * can be cancelled alone.
 *
 * Threads     every call is safe from any thread, callbacks included, except where it
 *             says so.
 * Ownership   reference counted.  A child keeps its parent, a parent does not keep its
 *             children.
 * Memory      cancelling needs none and cannot fail.
 */
typedef struct spn_cancel_token spn_cancel_token;

/*
 * create: stores a token with one reference, the caller's, in *out; on failure *out is
 *         NULL.  parent may be NULL; if it is cancelled, the new token is from the start,
 *         with the same reason.
 * ref:    one reference more; returns the token.  NULL gives NULL.
 * unref:  one less.  NULL is a no-op.  Callbacks that are registered when the last one
 *         goes are taken off and never called.
 * Returns  create: SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_cancel_token_create(spn_cancel_token **out, spn_cancel_token *parent);
SPN_API spn_cancel_token *spn_cancel_token_ref(spn_cancel_token *token);
SPN_API void spn_cancel_token_unref(spn_cancel_token *token);

/*
 * Cancels the token and all its descendants: first those who wait are released, then
 * the callbacks run, on this thread, the one registered last first, before the call
 * returns.  reason is a negative status (SPN_ECANCELED, SPN_ETIMEDOUT, ...) or any
 * negative number of yours.  Blocks for as long as the callbacks take.
 *
 * Returns  1 if this call cancelled it; 0 if it was cancelled before: its callbacks may
 *          still be running, on the thread that did.  SPN_EINVAL (NULL, or a reason that
 *          is not negative).
 * Orders   what precedes happens-before what sees the token cancelled.
 * Since    0.1
 */
SPN_API int spn_cancel_token_cancel(spn_cancel_token *token, int reason);

/*
 * is_cancelled: 1 or 0; NULL is never cancelled.
 * reason:       what it was cancelled with, or 0.
 * Neither blocks.
 * Since    0.1
 */
SPN_API int spn_cancel_token_is_cancelled(const spn_cancel_token *token);
SPN_API int spn_cancel_token_reason(const spn_cancel_token *token);

/*
 * Waits until the token is cancelled, up to timeout_ns (0 or less: only looks).
 * Interruptible.
 * Returns  SPN_OK: it is; SPN_ETIMEDOUT; SPN_EINTR; SPN_EINVAL (NULL); SPN_ENOMEM (no
 *          memory for the calling thread's record).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_cancel_token_wait(spn_cancel_token *token, int64_t timeout_ns);

/*
 * A callback: a node embedded in a struct of the caller's, which must last until it has
 * been deregistered, or until fn has been entered if nobody will deregister it.  fn may
 * free it, and may use the token.  Called once at most, with no lock held.  A C++
 * exception that leaves fn ends the process.
 */
typedef struct spn_cancel_callback spn_cancel_callback;
struct spn_cancel_callback {
    void (*fn)(spn_cancel_callback *callback, int reason);
    void *link[3]; /* the library's */
};

#define SPN_CANCEL_CALLBACK_INIT(function) \
    {                                      \
        (function), { NULL, NULL, NULL },  \
    }

/*
 * Has callback->fn called when the token is cancelled.  If it is already, fn is called
 * right here.
 * Returns  SPN_OK: registered; SPN_ECANCELED: it was cancelled, fn has been called;
 *          SPN_EBUSY: the callback is registered, here or elsewhere; SPN_EINVAL (a NULL,
 *          no fn).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_cancel_token_register(spn_cancel_token *token, spn_cancel_callback *callback);

/*
 * Takes a callback off the token it was registered with.  If its fn is just running on
 * another thread, waits until it has returned; not interruptible.
 * After any other answer than SPN_EBUSY nothing touches the callback any more.
 * Do not call for a callback whose fn frees it.
 *
 * Returns  1: it will not be called; 0: it has been, and has returned, or it was never
 *          registered; SPN_EBUSY: fn is running on this thread, which cannot wait for
 *          itself, or on one that cannot be told from this one because there was no
 *          memory for its record; SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_cancel_token_deregister(spn_cancel_token *token,
                                        spn_cancel_callback *callback);

#ifdef __cplusplus
}
#endif
#endif /* SPN_CANCEL_H */
