/* SPDX-License-Identifier: MIT */
/*
 * seam.c - what the seam does with more than an inline: threads, thread-local
 * destructors, membarrier, memory and randomness, on Linux with fallbacks to
 * POSIX.  Simulation builds leave this file out.
 *
 * ORDERING   [asym] see spn__fence_heavy.
 */
#include "sync/seam.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#endif
#if defined(__linux__) && !defined(SPN_NO_MEMBARRIER)
#include <linux/membarrier.h>
#endif

#include <spindle/thread.h>

/* ---- fences ------------------------------------------------------------ */

#if SPN__TSAN

bool spn__fence_is_asymmetric(void)
{
    return false;
}

#else

_Atomic(uint32_t) spn__membarrier_state;

static uint32_t probe_membarrier(void)
{
#if defined(__linux__) && !defined(SPN_NO_MEMBARRIER)
    const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

    if (commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 &&
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0)
        return SPN__MEMBARRIER_WORKS;
#endif
    return SPN__MEMBARRIER_MISSING;
}

/*
 * [asym] The state is decided before the first heavy fence has any effect: a
 * light fence that ran earlier saw UNKNOWN and was a full fence, which pairs
 * with membarrier too.  Two threads may probe at once; the answer is the same.
 */
static uint32_t membarrier_state(void)
{
    /* relaxed: the word carries nothing but itself. */
    uint32_t state = atomic_load_explicit(&spn__membarrier_state, memory_order_relaxed);

    if (state == SPN__MEMBARRIER_UNKNOWN) {
        state = probe_membarrier();
        atomic_store_explicit(&spn__membarrier_state, state, memory_order_relaxed);
    }
    return state;
}

void spn__fence_heavy(void)
{
    if (membarrier_state() == SPN__MEMBARRIER_WORKS) {
#if defined(__linux__) && !defined(SPN_NO_MEMBARRIER)
        atomic_signal_fence(memory_order_seq_cst);
        long rc = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        if (rc != 0 && errno == EPERM) { /* registered by a process we forked from */
            (void)probe_membarrier();
            rc = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        }
        /* It worked once: light fences rely on it, so failing now is fatal. */
        spn__assert(rc == 0);
        atomic_signal_fence(memory_order_seq_cst);
#endif
    } else {
        atomic_thread_fence(memory_order_seq_cst);
    }
}

bool spn__fence_is_asymmetric(void)
{
    return membarrier_state() == SPN__MEMBARRIER_WORKS;
}

#endif /* SPN__TSAN */

/* ---- futex ------------------------------------------------------------- */

#if !defined(SPN_FUTEX_POSIX)

enum spn__futex_result spn__futex_wait(spn__futex_word *word, uint32_t expected,
                                       int64_t deadline_ns)
{
    struct timespec ts, *limit = NULL;
    long rc;

    if (deadline_ns != SPN_FOREVER) {
        const int64_t at = deadline_ns < 0 ? 0 : deadline_ns;
        ts.tv_sec = (time_t)(at / 1000000000);
        ts.tv_nsec = (long)(at % 1000000000);
        limit = &ts;
    }
    /* WAIT_BITSET takes an absolute time on the monotonic clock; WAIT does not. */
    rc = syscall(SYS_futex, &word->spn__raw, FUTEX_WAIT_BITSET_PRIVATE, expected, limit,
                 NULL, FUTEX_BITSET_MATCH_ANY);
    if (rc == 0 || errno == EINTR)
        return SPN__WOKEN;
    if (errno == ETIMEDOUT)
        return SPN__EXPIRED;
    spn__assert(errno == EAGAIN);
    return SPN__CHANGED;
}

void spn__futex_wake(spn__futex_word *word, int count)
{
    (void)syscall(SYS_futex, &word->spn__raw, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

#endif /* SPN_FUTEX_POSIX */

/* ---- threads ----------------------------------------------------------- */

static int status_of(int error)
{
    switch (error) {
    case 0:
        return SPN_OK;
    case EPERM:
        return SPN_EPERM;
    case EAGAIN:
    case ENOMEM: /* no memory for the stack: the system has no thread to give */
        return SPN_EAGAIN;
    default:
        return SPN_EINVAL;
    }
}

static int set_stack(pthread_attr_t *attr, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (bytes > SIZE_MAX - page)
        return EINVAL;
    return pthread_attr_setstacksize(attr, (bytes + page - 1) / page * page);
}

static int set_cpus(pthread_attr_t *attr, const uint32_t *cpus, size_t count)
{
    enum { CPU_LIMIT = 65536 }; /* far above any kernel's NR_CPUS */
    uint32_t highest = 0;
    cpu_set_t *set;
    int rc;

    for (size_t i = 0; i < count; i++) {
        if (cpus[i] >= CPU_LIMIT)
            return EINVAL;
        if (cpus[i] > highest)
            highest = cpus[i];
    }
    set = CPU_ALLOC(highest + 1);
    if (set == NULL)
        return ENOMEM;
    CPU_ZERO_S(CPU_ALLOC_SIZE(highest + 1), set);
    for (size_t i = 0; i < count; i++)
        CPU_SET_S(cpus[i], CPU_ALLOC_SIZE(highest + 1), set);
    rc = pthread_attr_setaffinity_np(attr, CPU_ALLOC_SIZE(highest + 1), set);
    CPU_FREE(set);
    return rc;
}

/* Real-time classes only: pthread attributes know no others, and a thread can
 * give itself those (spn__os_set_sched). */
static int set_sched(pthread_attr_t *attr, uint32_t sched, int32_t priority)
{
    const int policy = sched == SPN_SCHED_FIFO ? SCHED_FIFO : SCHED_RR;
    struct sched_param param;
    int rc;

    if (sched != SPN_SCHED_FIFO && sched != SPN_SCHED_RR)
        return 0;
    memset(&param, 0, sizeof param);
    param.sched_priority = priority;
    rc = pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
    if (rc == 0)
        rc = pthread_attr_setschedpolicy(attr, policy);
    if (rc == 0)
        rc = pthread_attr_setschedparam(attr, &param);
    return rc;
}

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

int spn__os_thread_create(spn__os_thread *out, const struct spn__os_thread_attr *want,
                          void *(*entry)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int rc;

    rc = pthread_attr_init(&attr);
    if (rc != 0)
        return status_of(rc);
    if (want->stack_size != 0)
        rc = set_stack(&attr, want->stack_size);
    if (rc == 0 && want->cpu_count != 0)
        rc = set_cpus(&attr, want->cpus, want->cpu_count);
    if (rc == 0)
        rc = set_sched(&attr, want->sched, want->priority);
    if (rc == 0) {
        /* A new thread inherits the mask: block before, restore after. */
        if (want->block_signals) {
            sigfillset(&all);
            /* A thread's own faults stay deliverable: blocked, they would end
             * the process without the handler that was to report them. */
            for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
                sigdelset(&all, faults[i]);
            pthread_sigmask(SIG_SETMASK, &all, &old);
        }
        rc = pthread_create(out, &attr, entry, arg);
        if (want->block_signals)
            pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    pthread_attr_destroy(&attr);
    return status_of(rc);
}

void spn__os_thread_join(spn__os_thread thread)
{
    const int rc = pthread_join(thread, NULL);
    spn__assert(rc == 0);
}

void spn__os_thread_detach(spn__os_thread thread)
{
    const int rc = pthread_detach(thread);
    spn__assert(rc == 0);
}

#ifdef __GLIBC__
static int join_timed(pthread_t thread, int64_t deadline_ns)
{
    int64_t at = deadline_ns < 0 ? 0 : deadline_ns;
    struct timespec ts;

#if SPN__TSAN
    /* ThreadSanitizer knows only the join on the other clock, and takes a thread
     * that was joined by this one for leaked. */
    clock_gettime(CLOCK_REALTIME, &ts);
    at = spn__time_add(spn__time_sub(at, spn__now()),
                       (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec);
#endif
    ts = (struct timespec){ .tv_sec = (time_t)(at / 1000000000),
                            .tv_nsec = (long)(at % 1000000000) };
#if SPN__TSAN
    return pthread_timedjoin_np(thread, NULL, &ts);
#else
    return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &ts);
#endif
}
#endif

int spn__os_thread_join_until(spn__os_thread thread, int64_t deadline_ns)
{
    int rc;

#ifdef __GLIBC__
    if (deadline_ns != SPN_FOREVER)
        rc = join_timed(thread, deadline_ns);
    else
#endif
        rc = pthread_join(thread, NULL);
    if (rc == ETIMEDOUT || rc == EBUSY)
        return SPN_ETIMEDOUT;
    if (rc == EDEADLK)
        return SPN_EDEADLK;
    spn__assert(rc == 0);
    return SPN_OK;
}

int spn__os_set_sched(uint32_t sched, int32_t nice)
{
#ifdef __linux__
    /* On Linux class and nice value belong to the thread, whatever POSIX says. */
    const int policy = sched == SPN_SCHED_BATCH  ? SCHED_BATCH
                       : sched == SPN_SCHED_IDLE ? SCHED_IDLE
                                                 : SCHED_OTHER;
    const struct sched_param param = { .sched_priority = 0 };
    const id_t self = (id_t)syscall(SYS_gettid);

    if (sched_setscheduler(0, policy, &param) == 0 &&
        (sched == SPN_SCHED_IDLE || setpriority(PRIO_PROCESS, self, nice) == 0))
        return SPN_OK;
    return errno == EACCES || errno == EPERM ? SPN_EPERM : SPN_EINVAL;
#else
    (void)sched;
    (void)nice;
    return SPN_ENOTSUP;
#endif
}

void spn__os_set_name(const char *name)
{
    (void)pthread_setname_np(pthread_self(), name);
}

void spn__os_get_name(char name[16])
{
    if (pthread_getname_np(pthread_self(), name, 16) != 0)
        name[0] = '\0';
}

void spn__os_get_sigmask(spn__sigmask *mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, mask);
}

void spn__os_set_sigmask(const spn__sigmask *mask)
{
    pthread_sigmask(SIG_SETMASK, mask, NULL);
}

bool spn__os_on_fork_child(void (*restore)(void))
{
    return pthread_atfork(NULL, NULL, restore) == 0;
}

void spn__os_yield(void)
{
    sched_yield();
}

uintptr_t spn__os_stack_low(void)
{
    uintptr_t low = 0;
#if defined(__linux__)
    pthread_attr_t attr;
    size_t size;
    void *start;

    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        if (pthread_attr_getstack(&attr, &start, &size) == 0)
            low = (uintptr_t)start;
        pthread_attr_destroy(&attr);
    }
#endif
    return low;
}

int32_t spn__os_only_cpu(void)
{
#ifdef __linux__
    cpu_set_t mask[16]; /* 16384 CPUs: a kernel made for more refuses */

    if (sched_getaffinity(0, sizeof mask, mask) != 0 ||
        CPU_COUNT_S(sizeof mask, mask) != 1)
        return -1;
    for (int32_t cpu = 0;; cpu++)
        if (CPU_ISSET_S((size_t)cpu, sizeof mask, mask))
            return cpu;
#else
    return sysconf(_SC_NPROCESSORS_ONLN) == 1 ? 0 : -1;
#endif
}

int32_t spn__os_cpu(void)
{
#ifdef __linux__
    return sched_getcpu();
#else
    return 0;
#endif
}

/* ---- the self pointer -------------------------------------------------- */

_Thread_local void *spn__self_pointer __attribute__((tls_model("initial-exec")));

/* The key exists for its destructor; reads go to the thread-local.  1 + the key,
 * or 0 while there is none: a system that had no key to give may have one later. */
static _Atomic(uint64_t) self_key;
/* relaxed: a thread's destructor runs after that thread's own set, and every
 * set stores the same function. */
static void (*_Atomic self_destructor)(void *);

static void clear_then_destroy(void *self)
{
    spn__self_pointer = NULL; /* first: the destructor may set it anew */
    atomic_load_explicit(&self_destructor, memory_order_relaxed)(self);
}

/* Stores the key in *key, making it if need be; no lock, so that a fork finds
 * none held.  Two threads may make one each; the second is given back. */
static bool get_key(pthread_key_t *key)
{
    /* relaxed, here and below: the number is all there is to the key. */
    uint64_t word = atomic_load_explicit(&self_key, memory_order_relaxed);

    if (word == 0) {
        if (pthread_key_create(key, clear_then_destroy) != 0)
            return false;
        if (atomic_compare_exchange_strong_explicit(&self_key, &word,
                                                    (uint64_t)*key + 1,
                                                    memory_order_relaxed,
                                                    memory_order_relaxed))
            return true;
        (void)pthread_key_delete(*key);
    }
    *key = (pthread_key_t)(word - 1);
    return true;
}

bool spn__self_set(void *self, void (*destructor)(void *))
{
    pthread_key_t key;

    if (destructor == NULL) {
        spn__self_pointer = self;
        return true;
    }
    atomic_store_explicit(&self_destructor, destructor, memory_order_relaxed);
    if (!get_key(&key) || pthread_setspecific(key, self) != 0)
        return false;
    spn__self_pointer = self;
    return true;
}

/* ---- cycles -------------------------------------------------------------- */

bool spn__cycles_usable(void)
{
    bool usable = false;
#if defined(__x86_64__) && defined(__linux__)
    static const char path[] =
        "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    char name[8] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    usable = read(fd, name, sizeof name) >= 3 && memcmp(name, "tsc", 3) == 0 &&
             (name[3] == '\n' || name[3] == '\0');
    (void)close(fd);
#endif
    return usable;
}

/* ---- memory, randomness ------------------------------------------------ */

/* The usual size; a system with larger ones takes the hint for what it is. */
#define LARGE_PAGE ((uintptr_t)2 << 20)

void *spn__os_alloc(size_t bytes, size_t alignment)
{
    if (alignment <= _Alignof(max_align_t))
        return malloc(bytes);
    if (bytes > SIZE_MAX - alignment)
        return NULL;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void spn__os_free(void *memory)
{
    free(memory);
}

void *spn__os_map(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

void spn__os_unmap(void *memory, size_t bytes)
{
    (void)munmap(memory, bytes);
}

void *spn__os_remap(void *memory, size_t bytes, size_t more)
{
#if defined(MREMAP_MAYMOVE) && !SPN__TSAN /* which does not see pages move */
    void *moved = mremap(memory, bytes, more, MREMAP_MAYMOVE);

    return moved != MAP_FAILED ? moved : NULL;
#else
    void *larger = spn__os_map(more);

    if (larger != NULL) {
        memcpy(larger, memory, bytes);
        spn__os_unmap(memory, bytes);
    }
    return larger;
#endif
}

void spn__expect_use(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    /* Whole ones that lie inside: nobody else's memory is meant. */
    const uintptr_t first = ((uintptr_t)memory + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    const uintptr_t end = ((uintptr_t)memory + bytes) & ~(LARGE_PAGE - 1);

    if (first < end && !spn__mem_watched())
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)bytes;
#endif
}

/* ---- events ------------------------------------------------------------ */

#ifdef __linux__

int spn__os_event_create(int *fd)
{
    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (*fd >= 0)
        return SPN_OK;
    return errno == ENOMEM ? SPN_ENOMEM : SPN_EAGAIN;
}

void spn__os_event_signal(int fd)
{
    const uint64_t one = 1;
    ssize_t rc;

    do
        rc = write(fd, &one, sizeof one);
    while (rc < 0 && errno == EINTR);
    spn__assert(rc == (ssize_t)sizeof one);
}

void spn__os_event_clear(int fd)
{
    uint64_t count;
    ssize_t rc;

    do
        rc = read(fd, &count, sizeof count);
    while (rc < 0 && errno == EINTR);
    spn__assert(rc == (ssize_t)sizeof count);
}

void spn__os_event_close(int fd)
{
    (void)close(fd);
}

int spn__os_alarm_create(int *fd)
{
    *fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (*fd >= 0)
        return SPN_OK;
    return errno == ENOMEM ? SPN_ENOMEM : SPN_EAGAIN;
}

void spn__os_alarm_set(int fd, int64_t deadline_ns)
{
    struct itimerspec when = { { 0, 0 }, { 0, 0 } };
    int rc;

    if (deadline_ns <= 0)
        deadline_ns = 1; /* 0 would mean never */
    if (deadline_ns != SPN_FOREVER) {
        when.it_value.tv_sec = (time_t)(deadline_ns / 1000000000);
        when.it_value.tv_nsec = (long)(deadline_ns % 1000000000);
    }
    rc = timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
    spn__assert(rc == 0);
    (void)rc;
}

void spn__os_alarm_close(int fd)
{
    (void)close(fd);
}

void spn__os_sleep_precisely(void)
{
    (void)prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
}

#else

int spn__os_alarm_create(int *fd)
{
    *fd = -1;
    return SPN_ENOTSUP;
}

void spn__os_alarm_set(int fd, int64_t deadline_ns)
{
    (void)fd;
    (void)deadline_ns;
}

void spn__os_alarm_close(int fd)
{
    (void)fd;
}

void spn__os_sleep_precisely(void)
{
}

int spn__os_event_create(int *fd)
{
    *fd = -1;
    return SPN_ENOTSUP;
}

void spn__os_event_signal(int fd)
{
    (void)fd;
}

void spn__os_event_clear(int fd)
{
    (void)fd;
}

void spn__os_event_close(int fd)
{
    (void)fd;
}

#endif

uint64_t spn__random(void)
{
    /* A Weyl sequence through a mixing function, one per thread; seeded from
     * the clock and the thread's own address, which differ between threads. */
    static _Thread_local uint64_t state __attribute__((tls_model("initial-exec")));
    uint64_t z;

    if (state == 0)
        state = (uint64_t)spn__now() ^ ((uint64_t)(uintptr_t)&state << 16);
    z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
