/* SPDX-License-Identifier: MIT */
#ifndef SPN_POLL_SET_H
#define SPN_POLL_SET_H

#include <spindle/future.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A poll set: many futures and one file descriptor, so that an event loop (epoll,
 * poll, libuv) can wait for futures beside its sockets.  The descriptor is
 * readable while the set has a future that is done and was not taken.  Between the
 * first one that is done and the last one taken there are two system calls,
 * however many there are.
 *
 * Lifecycle   create -> add... -> (descriptor readable) -> next until SPN_EEMPTY
 *             ... -> destroy
 * Threads     every call is safe from any thread, and from a future's callbacks.
 * Ownership   the set holds a reference to each future in it; next hands it over.
 */
typedef struct spn_poll_set spn_poll_set;

/*
 * create: stores a set in *out; on failure *out is NULL.
 * destroy: closes the descriptor and frees the set; NULL is a no-op.
 * Returns  create: SPN_OK, SPN_EINVAL, SPN_ENOMEM, SPN_EAGAIN (no descriptor to be
 *          had), SPN_ENOTSUP.  destroy: SPN_OK, or SPN_EBUSY and changes nothing while
 *          a future is in it.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_poll_set_create(spn_poll_set **out);
SPN_API int spn_poll_set_destroy(spn_poll_set *set);

/* The descriptor, to be polled for reading and for nothing else: it is the set's
 * to read, write and close.  SPN_EINVAL for NULL.  Since 0.1 */
SPN_API int spn_poll_set_fd(const spn_poll_set *set);

/*
 * Puts a future in, with a tag that next will give back; one that is done is ready
 * at once.  The same future may be in more than once.  Never blocks.
 * Returns  SPN_OK, SPN_EINVAL (NULL), SPN_ENOMEM.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_poll_set_add(spn_poll_set *set, spn_future *future, void *tag);

/*
 * Takes out the future that became ready first: stores it, with its reference, in
 * *future and its tag in *tag (may be NULL).  Never blocks.
 * Returns  SPN_OK; SPN_EEMPTY: none is ready; SPN_EINVAL.
 * Orders   what precedes the future's completion happens-before.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_poll_set_next(spn_poll_set *set, spn_future **future, void **tag);

#ifdef __cplusplus
}
#endif
#endif /* SPN_POLL_SET_H */
