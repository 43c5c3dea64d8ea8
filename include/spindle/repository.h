/* SPDX-License-Identifier: MIT */
#ifndef SPN_REPOSITORY_H
#define SPN_REPOSITORY_H

#include <spindle/extension.h>
#include <spindle/pool.h>
#include <spindle/problem.h>
#include <spindle/report.h>
#include <spindle/scheduled.h>
#include <spindle/timer.h>
#include <spindle/url.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Which pool serves which URL: one for each side (`side=consumer`, or not) and port, made
 * of the URL when it is first asked for, replaced when it was shut down.
 *
 * Lifecycle   create -> get_or_create, get... and release -> destroy_all -> destroy
 * Ownership   the repository owns its pools.  Who gets one has taken it and gives it back
 *             with release; a pool that was replaced lives until all have.  Do not destroy
 *             a pool of a repository; shutting it down is fine.
 * Threads     every call but destroy is safe from any thread; destroy_all not from a task
 *             of one of the pools.
 * Defaults    as spn_url_pool; a consumer's pool is cached.  Without `threadname` threads
 *             are named after the key: "dubbo-protocol-20880", "isolation-demo.Hello:1.0",
 *             cut where a pool's name must end.  A service key has at most 495 bytes.
 */
typedef struct spn_repository spn_repository;

/* Zero means default.  Append only. */
typedef struct spn_repository_opts {
    size_t size; /* sizeof(spn_repository_opts), set by _INIT           */
    spn_extensions
        *extensions;    /* in use until destroy; NULL: what is built in        */
    uint32_t isolation; /* 1: a provider's URL with an interface has a pool of its
                                   own, by its service key                             */
    uint32_t reserved;  /* 0                                                   */
    spn_exhausted_fn
        exhausted; /* as of spn_url_pool_opts; must not call the repository,
                                   which may free the very report that calls it        */
    void *ctx;     /* its argument                                        */
} spn_repository_opts;

#define SPN_REPOSITORY_OPTS_INIT                            \
    {                                                       \
        sizeof(spn_repository_opts), NULL, 0, 0, NULL, NULL \
    }

/*
 * create:  makes an empty repository in *out; NULL on failure.  opts may be NULL.
 * destroy: frees it, after destroy_all, or if it never had a pool; NULL is a no-op.
 * Returns  create: SPN_OK, SPN_EINVAL, SPN_ENOMEM.
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing while pools are taken or have
 *          not terminated, or timeouts are pending.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_repository_create(spn_repository **out, const spn_repository_opts *opts);
SPN_API int spn_repository_destroy(spn_repository *repository);

/*
 * get_or_create:  the pool for a URL, made if there is none or it was shut down.
 * get:            the same, but SPN_EEMPTY if there never was one; if there is none of
 *                 that side at all, also a warning, at most one in ten seconds.
 * release:        gives back a pool that one of these has given.
 * Do not block, but making a pool may start the thread of its report, and the report of
 * one that was replaced may end here.
 *
 * Returns  SPN_OK; SPN_ESHUTDOWN: after destroy_all; SPN_EEMPTY; what spn_url_pool_create
 *          refuses with, and *problem (may be NULL); SPN_EINVAL (a NULL; release: no pool
 *          of this repository that is taken).  On failure *out is NULL.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_repository_get_or_create(spn_repository *repository, const spn_url *url,
                                 spn_pool **out, spn_problem *problem);
SPN_API SPN_NODISCARD
int spn_repository_get(spn_repository *repository, const spn_url *url, spn_pool **out,
                       spn_problem *problem);
SPN_API int spn_repository_release(spn_repository *repository, spn_pool *pool);

/*
 * spn_url_pool_update and spn_url_pool_reconfigure for the pool of that URL.
 * Returns  as those; SPN_EEMPTY: there is no pool for it.
 * Since    0.1
 */
SPN_API int spn_repository_update(spn_repository *repository, const spn_url *url,
                                  spn_problem *problem);
SPN_API int spn_repository_reconfigure(spn_repository *repository, const spn_url *url,
                                       spn_problem *problem);

/*
 * What all of a program may share, made on the first request and the repository's: the
 * executor, a cached pool without limit; a timer that hands its callbacks to it; a
 * scheduled executor with 8 threads, whose delayed tasks are cancelled by destroy_all.
 * Returns  SPN_OK; SPN_EINVAL; SPN_ESHUTDOWN: after destroy_all; SPN_ENOMEM; SPN_EAGAIN.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_repository_shared(spn_repository *repository, spn_executor **out);
SPN_API SPN_NODISCARD
int spn_repository_shared_timer(spn_repository *repository, spn_timer **out);
SPN_API SPN_NODISCARD
int spn_repository_scheduled(spn_repository *repository, spn_scheduled **out);

/*
 * The end of all pools: no new ones from now on; the timer stops, and what was pending in
 * it is forgotten, once no callback of it runs; every pool is shut down and waited for, and
 * so are callbacks, up to timeout_ns in all; what runs then is interrupted, and what waits
 * dropped (SPN_ESHUTDOWN).  May be called again.
 *
 * Returns  SPN_OK: all have ended; SPN_ETIMEDOUT: not all; SPN_EINTR: the same, and the
 *          caller was interrupted; SPN_EDEADLK: from a task of one of them, nothing was
 *          done; SPN_EINVAL (NULL); SPN_ENOMEM (no memory for the caller's own record).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_repository_destroy_all(spn_repository *repository, int64_t timeout_ns);

/* Told of a pool and its key: "provider/20880", "consumer/20880", "service/demo.Hello:1.0",
 * "shared", "scheduled". */
typedef void (*spn_repository_fn)(void *ctx, const char *key, spn_pool *pool);

/*
 * Calls fn for each pool that is in use, oldest first, with no lock held; each is taken
 * for the call.
 * Returns  SPN_OK, SPN_EINVAL (a NULL).
 * Since    0.1
 */
SPN_API int spn_repository_each(spn_repository *repository, spn_repository_fn fn,
                                void *ctx);

#ifdef __cplusplus
}
#endif
#endif /* SPN_REPOSITORY_H */
