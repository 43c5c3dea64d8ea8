/* SPDX-License-Identifier: MIT */
#ifndef SPN_REPORT_H
#define SPN_REPORT_H

#include <spindle/pool.h>
#include <spindle/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A rejection policy that says why: when a pool is exhausted it logs the pool's whole
 * state in one line, writes the stacks of all the library's threads to a file, those of
 * the pool first, and calls a listener; then it refuses the task, or hands it to another
 * policy.
 *
 * Once        per interval and report object, however many tasks are refused: several
 *             pools may share one, and then share its interval.  A report without one
 *             stack of the pool's threads does not use up the interval: the next may come
 *             a second later, and twice as late after each one more that has none.
 * Line        between reports a refusal is logged at most once a second, with how many
 *             were not.  Tasks refused because a pool was shut down are neither reported
 *             nor logged.
 * Threads     the report is made on a thread of its own, which starts with create: the
 *             submitter whose task was refused only takes the picture, and waits for
 *             nobody.  The report's thread waits, a second at most, for threads of the pool
 *             that are just being made.  No thread is stopped: each is interrupted for the
 *             microseconds it takes to note where it is.
 * Signals     stacks are asked for with a real-time signal, which each thread of the
 *             library (of pools, timers, I/O) lets through that starts while the report
 *             exists, or whose pool has this policy (alone, in a chain, as `next`).
 *             Threads that started earlier are looked at from outside: they have a stack
 *             if they sleep in the kernel and that says where (/proc/self/syscall).  Calls
 *             that a signal cuts short even with SA_RESTART (poll, epoll_wait, nanosleep,
 *             ...) may return EINTR in a task then.
 * Frames      are followed by frame pointers: build with -fno-omit-frame-pointer, and
 *             link programs with -rdynamic for names.  Without, callers are missing and
 *             names are offsets, which addr2line(1) understands.
 * Lifecycle   create -> policy, into pools -> destroy, after the pools are destroyed.
 */
typedef struct spn_reject_report spn_reject_report;

/* What a listener is told; valid during the call. */
typedef struct spn_exhaustion {
    const char *message; /* "Thread pool is EXHAUSTED! Thread Name: ..."            */
    const char *pool;    /* the pool's name, at most 255 bytes of it                */
    const char *file;    /* where the stacks are; NULL: there are none              */
    const spn_refusal *refusal;  /* the one that led to the report; it is over, so
                                   spn_refusal_stats does not know it any more       */
    const spn_pool_stats *stats; /* how the pool looked then                         */
    int64_t suppressed;          /* tasks refused without a report since the last one */
} spn_exhaustion;

/* Runs on the report's thread, after the file is complete, with no lock held.  It must not
 * do what may destroy its own report: destroy its url_pool, or call the repository the pool
 * is of, where any call may be the one that frees a pool that was replaced. */
typedef void (*spn_exhausted_fn)(void *ctx, const spn_exhaustion *what);

/* Zero means default.  Append only. */
typedef struct spn_reject_report_opts {
    size_t size;         /* sizeof(spn_reject_report_opts), set by _INIT             */
    const char *dir;     /* for the file; made, with those above it, if missing, and
                             replaced by the default, with a warning, if it cannot be.
                             Copied.  NULL or "": $HOME, else $TMPDIR, else /tmp      */
    const char *address; /* ends the message: "dubbo://10.0.0.1:20880".  Copied.
                             NULL: nothing                                            */
    int64_t interval_ns; /* from one report with stacks to the next, at least.
                             0: 10 minutes                                            */
    uint32_t max_frames; /* of each stack; 0: 32; at most SPN_REPORT_FRAMES_MAX       */
    uint32_t no_stacks;  /* 1: no file; the line and the listener only                */
    uint32_t signal;     /* a real-time signal the program does not use.  0: the first
                             free one from SIGRTMIN + 10 on                           */
    uint32_t reserved;   /* 0                                                        */
    const spn_reject_policy *next; /* what is done with the task, borrowed.
                                      NULL: spn_reject_abort()                        */
    spn_exhausted_fn exhausted;    /* NULL: nobody                                    */
    void *ctx;                     /* its argument                                    */
} spn_reject_report_opts;

#define SPN_REJECT_REPORT_OPTS_INIT                                                 \
    {                                                                               \
        sizeof(spn_reject_report_opts), NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL \
    }

#define SPN_REPORT_FRAMES_MAX 1024

/*
 * create: makes a report in *out, starts its thread and takes the signal; on failure
 *         *out is NULL and nothing needs undoing.  opts may be NULL for all defaults.
 *         Where stacks cannot be had (no such signals, no /proc) the file has less.
 * destroy: finishes a report under way, which may take seconds if threads do not
 *         answer, ends the thread, and gives the signal its former disposition: if a
 *         thread has not answered even then, when a later report is destroyed and the
 *         thread has answered or ended.  No pool may have the policy any more.  NULL is
 *         a no-op.
 *
 * Returns  create: SPN_OK; SPN_EINVAL (interval_ns < 0, too many frames, a signal that
 *          is not a real-time one, a policy without a function); SPN_EBUSY (the signal has a handler); SPN_ENOMEM;
 *          SPN_EAGAIN (no thread).  destroy: SPN_OK; SPN_EDEADLK from the listener;
 *          SPN_ENOMEM (no memory for the caller's own record; nothing has changed).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_reject_report_create(spn_reject_report **out,
                             const spn_reject_report_opts *opts);
SPN_API int spn_reject_report_destroy(spn_reject_report *report);

/*
 * Makes a report of a pool without a refusal: the line, the file with the stacks, the
 * listener, as for one that is exhausted; reason 0 in the refusal.  For whoever finds that
 * something is wrong: a watch, a command.  Never waits.
 *
 * Returns  SPN_OK: it is under way; SPN_EBUSY: too soon after the last, and counted as
 *          suppressed; SPN_EINVAL (a NULL).
 * Since    0.1
 */
SPN_API int spn_report_pool(spn_reject_report *report, spn_pool *pool);

/* The policy, borrowed: valid as long as the report is.  NULL for NULL.  Since 0.1 */
SPN_API const spn_reject_policy *spn_reject_report_policy(spn_reject_report *report);

#ifdef __cplusplus
}
#endif
#endif /* SPN_REPORT_H */
