/* SPDX-License-Identifier: MIT */
#ifndef SPN_THREAD_H
#define SPN_THREAD_H

#include <sys/select.h> /* sigset_t, also under a strict -std=c11 */

#include <spindle/status.h>
#include <spindle/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Threads, and the interrupt flag every thread has.
 *
 * Lifecycle   create -> join, and unref the handle; a handle dropped without
 *             join lets the thread go on by itself (detached).
 * Foreign     a thread the library did not make may use every call; it gets
 *             its record at its first call and loses it when it exits.
 * Ownership   a handle is reference counted.  Whoever got one drops it; a
 *             handle stays valid, and harmless to use, after its thread ended.
 * Fork        only the thread that called fork is in the child, with the
 *             signal mask the process had before the library blocked anything;
 *             the child may use the library's calls that do not wait for
 *             threads it no longer has, exec or _exit.  To end the parent's
 *             pools, timers, servers and clients there is refused with SPN_ESTATE
 *             at once, so that destructors and atexit functions may do so.  What
 *             else is done with a pool, queue or timer that another thread was using
 *             at that moment may block for ever: leave the parent's alone there,
 *             unless its threads slept or were inside tasks, and make your own.  A
 *             pool or timer that has no thread yet is the child's as well.  exec,
 *             system and popen called straight from a thread with blocked signals
 *             hand the mask on: see spn_thread_exec_sigmask.
 * Cancel      Threads of the library, and those of spn_thread_create, start with
 *             cancellation disabled: pthread_cancel has no effect on them.  A task
 *             that enables it disables it again before it returns; cancelled before
 *             that, it ends like one that calls pthread_exit.  pthread_cancel on a
 *             thread of yours inside a call of the library is not supported;
 *             interrupt it instead.  A C++ exception that leaves fn ends the process.
 * pthread_exit  A task of a pool's worker may end its thread: it has failed, its future
 *             too, and the worker is replaced.  On another thread of the library (timers,
 *             I/O, fork/join, reports) that ends the process with a line.  It is undefined
 *             in a hook, a policy, a drop, a stage that runs inline, a task that another
 *             task runs, and in whatever the library calls on a thread of yours; fn of
 *             spn_thread_create itself may call it.
 */
typedef struct spn_thread spn_thread;

/* What a thread runs.  The value is what join reports: 0, or a failure. */
typedef int (*spn_thread_fn)(void *arg);

typedef enum spn_thread_signals {
    SPN_SIGNALS_BLOCKED = 0, /* handlers run on your own threads; all blocked but
                                a thread's own faults (SEGV BUS FPE ILL TRAP SYS),
                                and the signals of report.h that are in use when it
                                starts */
    SPN_SIGNALS_INHERIT = 1  /* the creator's mask */
} spn_thread_signals;

typedef enum spn_thread_sched {
    SPN_SCHED_INHERIT = 0, /* as the creator; priority must be 0          */
    SPN_SCHED_OTHER = 1,   /* time sharing; priority is nice, -20 .. 19   */
    SPN_SCHED_BATCH = 2,   /* as OTHER, for work nobody waits for         */
    SPN_SCHED_IDLE = 3,    /* only when nothing else runs; priority 0     */
    SPN_SCHED_FIFO = 4,    /* real time, 1 .. 99; needs privilege         */
    SPN_SCHED_RR = 5       /* real time with time slices, 1 .. 99         */
} spn_thread_sched;

/* Zero means default.  Append only. */
typedef struct spn_thread_opts {
    size_t size;          /* sizeof(spn_thread_opts), set by _INIT            */
    const char *name;     /* copied, kept whole; NULL: "spindle"              */
    size_t stack_size;    /* bytes, rounded up to pages; 0: system default    */
    const uint32_t *cpus; /* CPU numbers it may run on, borrowed; NULL: as creator */
    size_t cpu_count;     /* entries in cpus                                  */
    uint32_t sched;       /* spn_thread_sched                                 */
    int32_t priority;     /* see spn_thread_sched                             */
    uint32_t signals;     /* spn_thread_signals                               */
    uint32_t signal;      /* a real-time signal that stays unblocked, and for which
                             the thread notes where its stack is: see report.h.
                             0: none                                          */
    void (*on_start)(void *hook_arg); /* on the new thread, before fn           */
    void (*on_stop)(void *hook_arg);  /* on it after fn, also after pthread_exit */
    void *hook_arg;
} spn_thread_opts;

#define SPN_THREAD_OPTS_INIT                                                    \
    {                                                                           \
        sizeof(spn_thread_opts), NULL, 0, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL \
    }

/* A name longer than this is refused; the kernel shows at most 15 bytes of it,
 * and of "prefix-17" keeps the number rather than the prefix's end. */
#define SPN_THREAD_NAME_MAX 255

/*
 * Starts a thread that runs fn(arg) and stores a handle in *out; on failure
 * *out is NULL and no thread was started.  opts may be NULL for all defaults.
 * Does not wait for the thread to run, except when `sched` is OTHER, BATCH or
 * IDLE: then until it is known to be granted.
 *
 * Returns  SPN_OK; SPN_EINVAL (NULL out or fn, bad opts, a CPU that is not
 *          there, a stack too small); SPN_ENOMEM; SPN_EAGAIN (the system has
 *          no thread to give); SPN_EPERM (priority not allowed); SPN_ENOTSUP
 *          (OTHER, BATCH or IDLE where the system has none per thread).
 * Orders   what precedes create happens-before fn(arg).
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_thread_create(spn_thread **out, const spn_thread_opts *opts, spn_thread_fn fn,
                      void *arg);

/*
 * Makes the threads of a pool or a timer.  A program makes its own by putting this
 * first in a struct: create starts a thread that runs fn(arg), with spn_thread_create
 * or through it, and must not wait for it; opts has the name ("io-thread-3") and may
 * be changed.  Called on any thread, with no lock held, but for a timer's: see there.
 * Whatever it fails with but SPN_ENOMEM is taken for SPN_EAGAIN: no thread now.
 * Borrowed until the pool or timer is destroyed, also after it was replaced.
 */
typedef struct spn_thread_factory spn_thread_factory;
struct spn_thread_factory {
    size_t size; /* sizeof(spn_thread_factory) */
    int (*create)(const spn_thread_factory *factory, spn_thread **out,
                  spn_thread_opts *opts, spn_thread_fn fn, void *arg);
};

/* The one that calls spn_thread_create with opts as they are.  Since 0.1 */
SPN_API const spn_thread_factory *spn_thread_factory_default(void);

/*
 * Waits until the thread and its hooks have ended and stores what fn returned
 * in *result (may be NULL); a thread that left through pthread_exit reports
 * SPN_ECANCELED.  May be called by several threads and again; each gets the
 * same answer.  Does not drop the handle.  Blocks up to timeout_ns;
 * interruptible, but not while the thread only runs the destructors of its
 * thread-specific data.
 *
 * Returns  SPN_OK, SPN_ETIMEDOUT, SPN_EINTR, SPN_EINVAL (NULL, or a thread
 *          the library did not create), SPN_EDEADLK (own thread), SPN_ENOMEM
 *          (no memory for the caller's own record), SPN_ESTATE at once (in the child
 *          of a fork, a thread that ran in the parent).
 * Orders   all the thread did happens-before join returns SPN_OK.
 * Since    0.1
 */
SPN_API SPN_NODISCARD
int spn_thread_join(spn_thread *thread, int64_t timeout_ns, int *result);

/*
 * The calling thread's own handle, borrowed: valid while the thread lives.
 * Take a reference to keep it or give it away.  NULL when there is no memory
 * for the record of a thread the library did not make.
 * Since    0.1
 */
SPN_API spn_thread *spn_thread_current(void);

/* Adds a reference and returns its argument; drops one.  NULL is a no-op.
 * Never blocks.  Since 0.1 */
SPN_API spn_thread *spn_thread_ref(spn_thread *thread);
SPN_API void spn_thread_unref(spn_thread *thread);

/*
 * Copies the thread's whole name and a final NUL into buf; a name that does not
 * fit is cut.  A foreign thread has the name the kernel knows.
 *
 * Returns  the length of the whole name without the NUL, or SPN_EINVAL.
 * Since    0.1
 */
SPN_API int spn_thread_name(const spn_thread *thread, char *buf, size_t capacity);

/*
 * Sets the interrupt flag of a thread and releases the interruptible wait it
 * is in, if any.  The flag is sticky: a later interruptible wait that would
 * have to block returns SPN_EINTR at once, and clears it.  On an ended thread
 * it does nothing.  Never blocks.
 *
 * Returns  SPN_OK, SPN_EINVAL (NULL).
 * Orders   what precedes interrupt happens-before the SPN_EINTR it causes.
 * Since    0.1
 */
SPN_API int spn_thread_interrupt(spn_thread *thread);

/*
 * interrupted: reads and clears the calling thread's flag.
 * is_interrupted: reads the flag of any thread and changes nothing.
 *
 * Returns  1 or 0; is_interrupted also SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_thread_interrupted(void);
SPN_API int spn_thread_is_interrupted(const spn_thread *thread);

/*
 * The signal mask a program started from the calling thread should have: what
 * the creator of the thread had before the library blocked signals (for a
 * foreign thread, its present mask).  After fork it is in force already; give
 * it to posix_spawnattr_setsigmask, which no library can do for you.
 *
 * Returns  SPN_OK, SPN_EINVAL (NULL).
 * Since    0.1
 */
SPN_API int spn_thread_exec_sigmask(sigset_t *mask);

#ifdef __cplusplus
}
#endif
#endif /* SPN_THREAD_H */
