/* SPDX-License-Identifier: MIT */
#ifndef SPN_URL_POOL_H
#define SPN_URL_POOL_H

#include <spindle/extension.h>
#include <spindle/pool.h>
#include <spindle/problem.h>
#include <spindle/report.h>
#include <spindle/url.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Thread pools by URL, as Dubbo's are:
 *
 *     dubbo://10.0.0.1:20880?threadpool=cached&corethreads=10&threads=100&queues=0
 *
 * threadpool      fixed, cached, limited, eager, or one of the program's        fixed
 * threadname      threads are <threadname>-thread-1...                          Dubbo
 * corethreads     of cached, limited, eager                                     0
 * threads         at most; fixed: always        200 (fixed, limited), no limit (others)
 * queues          0: hand-off; negative: unbounded; else that many (eager: 1 at least)  0
 * alive           ms until an idle thread ends (cached, eager)                  60000
 * reject          report, abort, caller-runs, discard, discard-oldest, new-thread, block,
 *                 or one of the program's; or `chain:block,caller-runs`: up to 8 of these,
 *                 asked in turn until one takes the task, as spn_reject_chain   report
 * reject.timeout  ms, of block, also in a chain                                 60000
 * dump.enable     whether report writes the stacks                              true
 * dump.directory  where to                                                      home
 * queue           fifo, lanes, priority, or one of the program's                fifo
 *
 * Bounds      queues below 0 has no bound, and cached and eager have no limit of threads
 *             unless `threads` says one: then memory is the limit.  Such a pool logs one
 *             warning in its life, when 100000 tasks wait, and one when it has 1000 threads.
 * Lifecycle   create -> pool, executor... -> shutdown, await of the pool -> destroy
 * Ownership   it owns the pool and what the pool needs: the rejection policy, its report.
 */
typedef struct spn_url_pool spn_url_pool;

/* Zero means default.  Append only. */
typedef struct spn_url_pool_opts {
    size_t size;                /* sizeof(spn_url_pool_opts), set by _INIT            */
    spn_extensions *extensions; /* in use until destroy; NULL: what is built in       */
    const char *threadpool;     /* if the URL does not say; NULL: fixed               */
    const char *name;           /* the same for threadname; NULL: "Dubbo"             */
    spn_exhausted_fn exhausted; /* told of the report's reports; NULL: nobody         */
    void *ctx;                  /* its argument                                       */
    const spn_pool_hooks *hooks;       /* copied; NULL: none                          */
    const spn_thread_factory *factory; /* as of spn_pool_opts                         */
    const spn_thread_opts *thread;     /* as of spn_pool_opts                         */
} spn_url_pool_opts;

#define SPN_URL_POOL_OPTS_INIT                                                    \
    {                                                                             \
        sizeof(spn_url_pool_opts), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL \
    }

/*
 * create:  makes the pool that a URL describes; starts no thread of the pool, but report has
 *          one of its own.  On failure *out is NULL.  opts may be NULL.
 * destroy: frees the pool, which must have terminated, and its policy; NULL is a no-op.
 *
 * Returns  create: SPN_OK; SPN_EINVAL, SPN_ERANGE: a value is wrong, *problem (may be NULL)
 *          says of which key; SPN_EEMPTY: there is no such thread pool, policy or queue, and
 *          *problem lists those there are; SPN_ENOMEM; SPN_EAGAIN (no thread).
 *          destroy: SPN_OK, or SPN_EBUSY and changes nothing.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_url_pool_create(spn_url_pool **out, const spn_url *url,
                        const spn_url_pool_opts *opts, spn_problem *problem);
SPN_API int spn_url_pool_destroy(spn_url_pool *url_pool);

/* The pool, and the pool as an executor, borrowed; NULL for NULL.  Since 0.1 */
SPN_API spn_pool *spn_url_pool_pool(spn_url_pool *url_pool);
SPN_API spn_executor *spn_url_pool_executor(spn_url_pool *url_pool);

/*
 * Changes a living pool by a URL.
 *
 * update:       as Dubbo does when a URL is changed, only if `threads` is there and positive:
 *               t below core: core becomes t, and if core was max, max too; else max becomes
 *               t, and if core was max, core too.  A pool that was shut down stays as it is.
 * reconfigure:  core, max, queue and keep-alive become what corethreads, threads, queues and
 *               alive say, in one step; what is not there stays.  A pool whose core is its
 *               max stays so, unless corethreads is there.
 *
 * Returns  SPN_OK; SPN_EINVAL, SPN_ERANGE: a value is wrong or cannot be, *problem (may be
 *          NULL) says of which key, nothing has changed; SPN_ESTATE: it cannot be changed.
 * Since    0.1
 */
SPN_API int spn_url_pool_update(spn_pool *pool, const spn_url *url,
                                spn_problem *problem);
SPN_API int spn_url_pool_reconfigure(spn_pool *pool, const spn_url *url,
                                     spn_problem *problem);

/*
 * How many threads for I/O a URL asks for (`iothreads`): min(CPUs + 1, 32) by default, and
 * for 0 and less.
 * Returns  SPN_OK; SPN_EINVAL, SPN_ERANGE.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_url_io_threads(const spn_url *url, int32_t *threads);

/* ---- what extensions of these kinds are ----------------------------------------------- */

/* SPN_KIND_THREADPOOL: fills in core, max, keep-alive, queue_capacity and eager by the URL;
 * what else is in *opts may be changed too.  A wrapper calls the one inside. */
typedef struct spn_threadpool spn_threadpool;
struct spn_threadpool {
    size_t size; /* sizeof(spn_threadpool) */
    int (*shape)(const spn_threadpool *self, const spn_url *url, spn_pool_opts *opts,
                 spn_problem *problem);
};

/* SPN_KIND_QUEUE: says in *opts where tasks wait; comes after the thread pool. */
typedef struct spn_work_queue spn_work_queue;
struct spn_work_queue {
    size_t size; /* sizeof(spn_work_queue) */
    int (*apply)(const spn_work_queue *self, const spn_url *url, spn_pool_opts *opts,
                 spn_problem *problem);
};

/* SPN_KIND_REJECT: makes a policy for one pool, with what the program said in `opts`; and
 * gives it back when the pool is gone (may be NULL). */
typedef struct spn_rejection spn_rejection;
struct spn_rejection {
    size_t size; /* sizeof(spn_rejection) */
    int (*create)(const spn_rejection *self, const spn_url *url,
                  const spn_url_pool_opts *opts, const spn_reject_policy **out,
                  spn_problem *problem);
    void (*destroy)(const spn_rejection *self, const spn_reject_policy *policy);
};

#ifdef __cplusplus
}
#endif
#endif /* SPN_URL_POOL_H */
