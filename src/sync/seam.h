/* SPDX-License-Identifier: MIT */
/*
 * seam.h - the one place that names atomics, futex, threads, clock, memory,
 * thread-locals and randomness.
 *
 * OVERVIEW
 *   Everything else in the library reaches the machine through the names below.
 *   A release build compiles them to the very instructions of raw C11 (a test
 *   compares the bytes).  A simulation build (SPN_SIM) routes the same names to
 *   the schedule explorer in tests/sim, where every one of them is a point at
 *   which another thread may run.  `make lint` fails when another file spells
 *   what only this one may.
 *
 *   The seam lies below all other parts, so any file may include it, base too.
 *   What needs more than an inline is in seam.c (Linux and POSIX calls) and
 *   seam_futex_posix.c (the futex made of a mutex and a condition variable).
 *
 * ATOMICS
 *   An atomic is declared SPN__ATOMIC(type) and is a struct, so that a plain
 *   `x->word = 1` does not compile: no access escapes the seam by accident.
 *   The order is always written, as a word:   spn__load(&x->word, acquire)
 *
 * FENCES
 *   spn__fence(seq_cst) is the only fence.  Acquire and release fences are left
 *   out on purpose: ThreadSanitizer misreads them, and an order on the access
 *   says the same and names its partner.
 *
 *   [asym] spn__fence_light and spn__fence_heavy are a pair: a light fence in
 *   one thread and a heavy one in another order as if both were seq_cst fences;
 *   two light ones order nothing.  Light is free where membarrier(2) works;
 *   heavy is a system call that makes every running thread of the process pass
 *   a fence.  Where membarrier is missing (old kernel, seccomp) both are
 *   seq_cst fences; under ThreadSanitizer both are read-modify-writes.  A process
 *   that forbids membarrier to itself later ends at the next heavy fence.
 *
 *   spn__fence_after_rmw is a seq_cst fence behind a read-modify-write, such as the
 *   release of a lock.  On x86 that has been one already, so here it costs nothing.
 */
#ifndef SPN__SEAM_H
#define SPN__SEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <spindle/status.h>
#include <spindle/time.h>

#include "base/shared.h"

/* ThreadSanitizer, by either compiler's name. */
#if defined(__SANITIZE_THREAD__)
#define SPN__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPN__TSAN 1
#endif
#endif
#ifndef SPN__TSAN
#define SPN__TSAN 0
#endif

/* The same for AddressSanitizer. */
#if defined(__SANITIZE_ADDRESS__)
#define SPN__ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPN__ASAN 1
#endif
#endif
#ifndef SPN__ASAN
#define SPN__ASAN 0
#endif

#define SPN__CACHE_LINE 64

/* How a futex wait ended.  WOKEN may be spurious: re-check, always. */
enum spn__futex_result { SPN__WOKEN, SPN__CHANGED, SPN__EXPIRED };

/* What a thread is started with; the seam's half of spn_thread_opts. */
struct spn__os_thread_attr {
    size_t stack_size;    /* 0: system default              */
    const uint32_t *cpus; /* NULL: inherit                  */
    size_t cpu_count;
    uint32_t sched; /* spn_thread_sched               */
    int32_t priority;
    bool block_signals; /* start with every signal blocked */
};

#ifdef SPN_SIM
#include "seam_sim.h"
#else

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- atomics ---------------------------------------------------------- */

#define SPN__ATOMIC(type)       \
    struct {                    \
        _Atomic(type) spn__raw; \
    }
#define SPN__ATOMIC_INIT(value) \
    {                           \
        value                   \
    }

/* Gives a value to an atomic that no other thread can reach yet. */
#define spn__init(p, v) atomic_init(&(p)->spn__raw, (v))

#define spn__load(p, mo) atomic_load_explicit(&(p)->spn__raw, memory_order_##mo)
#define spn__store(p, v, mo) \
    atomic_store_explicit(&(p)->spn__raw, (v), memory_order_##mo)
#define spn__exchange(p, v, mo) \
    atomic_exchange_explicit(&(p)->spn__raw, (v), memory_order_##mo)
#define spn__fetch_add(p, v, mo) \
    atomic_fetch_add_explicit(&(p)->spn__raw, (v), memory_order_##mo)
#define spn__fetch_sub(p, v, mo) \
    atomic_fetch_sub_explicit(&(p)->spn__raw, (v), memory_order_##mo)
#define spn__fetch_or(p, v, mo) \
    atomic_fetch_or_explicit(&(p)->spn__raw, (v), memory_order_##mo)
#define spn__fetch_and(p, v, mo) \
    atomic_fetch_and_explicit(&(p)->spn__raw, (v), memory_order_##mo)

/* Strong compare-and-swap; on failure *expected is what was found. */
#define spn__cas(p, expected, desired, success, failure)                           \
    atomic_compare_exchange_strong_explicit(&(p)->spn__raw, (expected), (desired), \
                                            memory_order_##success,                \
                                            memory_order_##failure)
/* May fail though equal: for loops that try again anyway. */
#define spn__cas_weak(p, expected, desired, success, failure)                    \
    atomic_compare_exchange_weak_explicit(&(p)->spn__raw, (expected), (desired), \
                                          memory_order_##success,                \
                                          memory_order_##failure)

/* ---- fences ----------------------------------------------------------- */

#if SPN__TSAN
/* A read-modify-write of one shared word orders what a fence would order, and
 * ThreadSanitizer understands it.  Weak: each library has one word for its own fences,
 * whose partners are all inside of it. */
__attribute__((weak)) _Atomic(uint32_t) spn__fence_word;
#define spn__fence(mo) \
    ((void)atomic_fetch_add_explicit(&spn__fence_word, 0u, memory_order_##mo))
#define spn__fence_light() spn__fence(seq_cst)
#define spn__fence_heavy() spn__fence(seq_cst)
#else
#define spn__fence(mo) atomic_thread_fence(memory_order_##mo)

/* Written once by the first heavy fence: see spn__fence_heavy in seam.c. */
enum { SPN__MEMBARRIER_UNKNOWN, SPN__MEMBARRIER_WORKS, SPN__MEMBARRIER_MISSING };
extern _Atomic(uint32_t) spn__membarrier_state;

/* relaxed: a stale UNKNOWN costs a full fence and is never wrong [asym]. */
static inline void spn__fence_light(void)
{
    if (atomic_load_explicit(&spn__membarrier_state, memory_order_relaxed) ==
        SPN__MEMBARRIER_WORKS)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
}
void spn__fence_heavy(void);
#endif

/* A full fence where the thread has made a read-modify-write after what is to be ordered
 * before: x86 has no such instruction that lets a load go ahead of it. */
#if (defined(__x86_64__) || defined(__i386__)) && !SPN__TSAN
#define spn__fence_after_rmw() atomic_signal_fence(memory_order_seq_cst)
#else
#define spn__fence_after_rmw() spn__fence(seq_cst)
#endif

/* Whether the heavy fence is membarrier(2); makes the probe if need be. */
bool spn__fence_is_asymmetric(void);

/* Tells the CPU that this is a spin loop. */
static inline void spn__cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Has the CPU fetch what we are going to write; any address will do.  On x86-64 by the
 * instruction's name: of the builtin compilers make a fetch for reading, unless they are
 * told of a processor, and a line that others have read stays with them then. */
#if defined(__x86_64__)
static inline void spn__prefetch_write(const void *p)
{
    __asm__ __volatile__("prefetchw (%0)" : : "r"(p));
}
#else
#define spn__prefetch_write(p) __builtin_prefetch((p), 1)
#endif
/* A pointer that others may be writing, good for a prefetch and for nothing else. */
#if SPN__TSAN
#define spn__glance(x) ((void)sizeof(x), (void *)NULL)
#else
#define spn__glance(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#endif

/* How many times to spin before a system call, where spinning pays at all. */
#define SPN__SPIN_LIMIT                 100
/* The same for a wait that may be as long as it takes another thread to wake up. */
#define SPN__SPIN_LIMIT_LONG            1000
/* How long that takes, until it has been measured (parker.c), and how many looks a spin
 * by the clock makes at most (spin.h). */
#define SPN__WAKE_GUESS_NS              20000
#define SPN__WAKES_ARE_TIMED            1
#define SPN__LOOKS_MAX                  UINT32_MAX

/* ---- futex ------------------------------------------------------------ */

typedef SPN__ATOMIC(uint32_t) spn__futex_word;

/*
 * Sleeps while *word is `expected`, until woken or until the monotonic clock
 * reaches deadline_ns (SPN_FOREVER: no limit).  The comparison and the falling
 * asleep are one step with respect to spn__futex_wake.
 */
SPN__SHARED enum spn__futex_result
spn__futex_wait(spn__futex_word *word, uint32_t expected, int64_t deadline_ns);

/* Wakes up to `count` sleepers.  Touches no memory at `word`, which may be
 * gone: it is only a name. */
SPN__SHARED void spn__futex_wake(spn__futex_word *word, int count);

/* ---- threads ---------------------------------------------------------- */

typedef pthread_t spn__os_thread;
typedef sigset_t spn__sigmask;

/*
 * Starts entry(arg).  Returns SPN_OK, SPN_EAGAIN, SPN_EPERM or SPN_EINVAL.  With
 * block_signals the new thread has every signal blocked from its first
 * instruction.
 */
SPN__SHARED int spn__os_thread_create(spn__os_thread *out,
                                      const struct spn__os_thread_attr *attr,
                                      void *(*entry)(void *), void *arg);
SPN__SHARED void spn__os_thread_join(spn__os_thread thread);
/* The same with a limit: SPN_OK, SPN_ETIMEDOUT, or SPN_EDEADLK on itself. */
int spn__os_thread_join_until(spn__os_thread thread, int64_t deadline_ns);
void spn__os_thread_detach(spn__os_thread thread);

/* Gives the calling thread one of the time-sharing classes, and a nice value
 * where it has one: SPN_OK, SPN_EPERM or SPN_EINVAL. */
int spn__os_set_sched(uint32_t sched, int32_t nice);
/* Has pthread_cancel wait until the calling thread enables cancellation. */
static inline void spn__os_cancel_disable(void)
{
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}
/* Names the calling thread for the kernel; at most 15 bytes. */
SPN__SHARED void spn__os_set_name(const char *name);
void spn__os_get_name(char name[16]);
void spn__os_get_sigmask(spn__sigmask *mask);
/* The number of the process, which is another one in the child of a fork. */
static inline int32_t spn__os_process(void)
{
    return (int32_t)getpid();
}
/* Has restore() called in the child of every fork, for the process's life;
 * false: no memory. */
bool spn__os_on_fork_child(void (*restore)(void));
void spn__os_set_sigmask(const spn__sigmask *mask);
SPN__SHARED void spn__os_yield(void);
/* The one CPU the calling thread may run on, or -1: it may run on several. */
int32_t spn__os_only_cpu(void);
/* The CPU the calling thread runs on at this moment; -1: nobody knows. */
int32_t spn__os_cpu(void);
/* The lowest address of the calling thread's stack, or 0: nobody knows. */
uintptr_t spn__os_stack_low(void);
/* Lets the calling thread's sleeps end as close to their deadlines as the system
 * can, where that is not the default. */
void spn__os_sleep_precisely(void);

/* Runs cleanup(arg) when the scope is left by POP or by pthread_exit. */
#define SPN__CLEANUP_PUSH(cleanup, arg) pthread_cleanup_push(cleanup, arg)
#define SPN__CLEANUP_POP()              pthread_cleanup_pop(1)
/* The same around body(arg), a pool's worker, for a cleanup that calls what may end the
 * thread once more.  After that it may be called again with the same argument. */
void spn__outlive(void (*body)(void *arg), void (*cleanup)(void *arg), void *arg);

/* Calls body(ctx), which calls a function of the program's.  An exception that would
 * pass ends the process, with a message.  So does the end of a thread that `stays`; that
 * of another passes. */
SPN__SHARED void spn__guarded(void (*body)(void *ctx), void *ctx);

/* ---- the thread-local self pointer ------------------------------------- */

/*
 * One pointer per thread.  With a destructor (always the same one) it runs at
 * the thread's exit if the pointer is not NULL then, as for a pthread key: set
 * may be called again from other destructors, and then it runs again.  Without
 * one, set cannot fail, and whoever set the pointer clears it.
 */
SPN__SHARED extern _Thread_local void *spn__self_pointer
    __attribute__((tls_model("initial-exec")));
#define spn__self_get()                 (spn__self_pointer)
bool spn__self_set(void *self, void (*destructor)(void *)); /* false: no memory */

/* ---- clock, memory, randomness ----------------------------------------- */

static inline int64_t spn__now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The same clock as of the system's last tick, which is cheaper to read. */
static inline int64_t spn__now_coarse(void)
{
#ifdef CLOCK_MONOTONIC_COARSE
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
#else
    return spn__now();
#endif
}

/*
 * A counter that goes on at a steady rate on all CPUs alike, and costs less than the
 * clock; not ordered with the code around it.  usable: whether there is one, which is
 * when the system itself keeps time by it.
 */
#if defined(__x86_64__)
#define spn__cycles() ((uint64_t)__builtin_ia32_rdtsc())
#else
#define spn__cycles() UINT64_C(0)
#endif
bool spn__cycles_usable(void);

/* The system's memory; the allocator hook in base/alloc.c stands in front. */
void *spn__os_alloc(size_t bytes, size_t alignment);
void spn__os_free(void *memory);

#define spn__alloc(bytes)                  spn__mem_alloc((bytes), sizeof(void *) * 2)
#define spn__alloc_aligned(bytes, aligned) spn__mem_alloc((bytes), (aligned))
#define spn__free(memory)                  spn__mem_free(memory)
SPN__SHARED void *spn__mem_alloc(size_t bytes, size_t alignment); /* base/alloc.c */
SPN__SHARED void spn__mem_free(void *memory);
/* Whether somebody may watch every block come and go, so that none should be kept
 * back: the program's own allocator, or a sanitizer. */
SPN__SHARED bool spn__mem_watched(void);
/* Memory that is the system's again as soon as it is freed, for blocks of many pages whose
 * size the caller knows; NULL: there is none.  Not where memory is watched. */
SPN__SHARED void *spn__os_map(size_t bytes);
SPN__SHARED void spn__os_unmap(void *memory, size_t bytes);
/* The mapping with its content, `more` bytes long from now on; NULL: it stays as it is. */
SPN__SHARED void *spn__os_remap(void *memory, size_t bytes, size_t more);
/* Says of a block that all of it will be used, here and there: the system may take large
 * pages for it, which are fewer to make and to find.  A hint; not given of blocks of the
 * program's own allocator, whose affair that is. */
void spn__expect_use(void *memory, size_t bytes);

/* ---- a descriptor that others can poll ---------------------------------- */

/* Made unreadable: SPN_OK, SPN_EAGAIN (none to be had) or SPN_ENOTSUP. */
int spn__os_event_create(int *fd);
void spn__os_event_signal(int fd); /* makes it readable   */
void spn__os_event_clear(int fd);  /* and unreadable      */
void spn__os_event_close(int fd);

/* A descriptor that becomes readable when the monotonic clock reaches deadline_ns
 * (SPN_FOREVER: never), and is not until then.  Results as above. */
int spn__os_alarm_create(int *fd);
void spn__os_alarm_set(int fd, int64_t deadline_ns);
void spn__os_alarm_close(int fd);

/* 64 random bits, good enough to pick victims and jitter; not for secrets. */
SPN__SHARED uint64_t spn__random(void);

#endif /* SPN_SIM */
#endif /* SPN__SEAM_H */
