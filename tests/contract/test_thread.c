/* SPDX-License-Identifier: MIT */
/*
 * test_thread.c - threads as the program and the kernel see them: names, stacks,
 * CPUs, scheduling, signals, hooks, join, handles, exit and fork.
 *
 * What ends a process or needs another user id runs in a child process.
 */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <spindle/clock.h>
#include <spindle/latch.h>
#include <spindle/park.h>
#include <spindle/semaphore.h>
#include <spindle/thread.h>

#include "sync/thread_record.h"

extern char **environ;

/* ---- helpers ------------------------------------------------------------------ */

static int return_zero(void *arg)
{
    (void)arg;
    return 0;
}

static int return_arg(void *arg)
{
    return *(int *)arg;
}

static int park_until_set(void *arg)
{
    atomic_int *gate = arg;

    while (atomic_load(gate) == 0)
        spn_park(gate);
    return 0;
}

static void open_gate(atomic_int *gate, spn_thread *thread)
{
    atomic_store(gate, 1);
    spn_unpark(thread);
}

/* Runs fn(arg) on a thread with these options to its end. */
static int run_with(const spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    spn_thread *thread;
    int result = -12345;

    REQUIRE_OK(spn_thread_create(&thread, opts, fn, arg));
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, &result));
    spn_thread_unref(thread);
    return result;
}

/* The status of a create that must fail, with no thread started. */
static int refused(const spn_thread_opts *opts)
{
    spn_thread *thread = spn_thread_current(); /* anything but NULL */
    const int rc = spn_thread_create(&thread, opts, return_zero, NULL);

    CHECK(thread == NULL);
    if (rc == SPN_OK)
        spn_thread_unref(thread);
    return rc;
}

/* Reads a small file whole. */
static void read_text(const char *path, char *text, size_t capacity)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    REQUIRE(fd >= 0);
    length = read(fd, text, capacity - 1);
    close(fd);
    REQUIRE(length >= 0);
    text[length] = '\0';
}

/* ---- names -------------------------------------------------------------------- */

struct named {
    char kernel[32]; /* what /proc shows, without the newline */
    char own[300];   /* what the library says */
    int length;
};

static int note_names(void *arg)
{
    struct named *n = arg;
    char path[64];

    snprintf(path, sizeof path, "/proc/self/task/%d/comm", peer_gettid());
    read_text(path, n->kernel, sizeof n->kernel);
    n->kernel[strcspn(n->kernel, "\n")] = '\0';
    n->length = spn_thread_name(spn_thread_current(), n->own, sizeof n->own);
    return 0;
}

static void check_name(const char *name, const char *kernel)
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    struct named n;

    opts.name = name;
    CHECK_EQ(run_with(&opts, note_names, &n), 0);
    CHECK_STR(n.own, name != NULL ? name : "spindle");
    CHECK_EQ(n.length, strlen(n.own));
    CHECK_STR(n.kernel, kernel);
}

/* The library keeps a name whole; the kernel's 15 bytes keep the number. */
TEST(thread__name__kept_whole_and_squeezed_for_the_kernel, "G-3")
{
    char longest[SPN_THREAD_NAME_MAX + 1], expected[16];

    check_name(NULL, "spindle");
    check_name("io", "io");
    check_name("", "");
    check_name("fifteen-bytes-x", "fifteen-bytes-x");
    check_name("sixteen-bytes-xy", "sixteen-bytes-x");
    check_name("prefix-123", "prefix-123");
    check_name("request-handler-17", "request-hand-17");
    check_name("dubbo-server-worker-4294967", "dubbo-s-4294967");
    check_name("no number at the end-", "no number at th");
    check_name("\xe4\xb8\xad\xe6\x96\x87", "\xe4\xb8\xad\xe6\x96\x87");
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memset(expected, 'n', 15);
    expected[15] = '\0';
    check_name(longest, expected);
}

/* A name of many bytes per character is whole in the library and cut between
 * characters for the kernel. */
TEST(thread__name_in_utf8__cut_between_characters, "G-3")
{
    /* Five characters of three bytes are 15; the sixth does not fit; with a
     * number behind them only four do. */
    check_name(
        "\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf\xe7\xa8\x8b",
        "\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf");
    check_name("\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf-1",
               "\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf\xe7\xa8\x8b-1");
    check_name("ab\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf",
               "ab\xe7\xba\xbf\xe7\xa8\x8b\xe7\xba\xbf\xe7\xa8\x8b");
}

/* One byte more than the longest name is refused. */
TEST(thread__name_too_long__refused, "G-3")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    char name[SPN_THREAD_NAME_MAX + 2];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    opts.name = name;
    CHECK_STATUS(refused(&opts), SPN_EINVAL);
}

/* The name is copied: the caller's buffer may change at once. */
TEST(thread__name_buffer_reused__thread_keeps_its_own, "G-3")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    char name[] = "first", got[16];
    atomic_int gate = 0;
    spn_thread *thread;

    opts.name = name;
    REQUIRE_OK(spn_thread_create(&thread, &opts, park_until_set, &gate));
    memset(name, 'X', sizeof name - 1);
    CHECK_EQ(spn_thread_name(thread, got, sizeof got), 5);
    CHECK_STR(got, "first");
    open_gate(&gate, thread);
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
    spn_thread_unref(thread);
}

/* A name that does not fit the buffer is cut, and its length told. */
TEST(thread__name_into_a_small_buffer__cut_and_terminated, "G-3")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    char buf[8];
    spn_thread *thread;

    opts.name = "abcdefghij";
    REQUIRE_OK(spn_thread_create(&thread, &opts, return_zero, NULL));
    for (size_t capacity = 1; capacity <= sizeof buf; capacity++) {
        memset(buf, '#', sizeof buf);
        CHECK_EQ(spn_thread_name(thread, buf, capacity), 10);
        CHECK_EQ(strlen(buf), capacity - 1);
        CHECK_EQ(strncmp(buf, opts.name, capacity - 1), 0);
        if (capacity < sizeof buf)
            CHECK_EQ(buf[capacity], '#');
    }
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
    CHECK_EQ(spn_thread_name(thread, buf, sizeof buf), 10); /* also afterwards */
    spn_thread_unref(thread);
}

static void *named_by_itself(void *arg)
{
    struct named *n = arg;

    pthread_setname_np(pthread_self(), "stranger");
    (void)note_names(n);
    return NULL;
}

/* A foreign thread has the name the kernel knows. */
TEST(thread__foreign__has_the_kernels_name, "G-14")
{
    struct named n;
    pthread_t id;

    REQUIRE(pthread_create(&id, NULL, named_by_itself, &n) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
    CHECK_STR(n.own, "stranger");
    CHECK_EQ(n.length, 8);
}

/* ---- stack --------------------------------------------------------------------- */

static int own_stack_size(void *arg)
{
    pthread_attr_t attr;
    void *address;

    REQUIRE(pthread_getattr_np(pthread_self(), &attr) == 0);
    REQUIRE(pthread_attr_getstack(&attr, &address, arg) == 0);
    pthread_attr_destroy(&attr);
    return 0;
}

/* The thread has the stack that was asked for, rounded up to pages. */
TEST(thread__stack_size__honoured, "G-3")
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t asked[] = { 256 * 1024, 300001, 4 << 20 };

    for (int i = 0; i < 3; i++) {
        spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
        size_t got = 0;

        opts.stack_size = asked[i];
        CHECK_EQ(run_with(&opts, own_stack_size, &got), 0);
        CHECK(got >= asked[i]);
        /* The system may hand out a used stack up to four times as large. */
        CHECK(T_INSTRUMENTED || got <= (asked[i] / page + 2) * page * 4);
    }
}

/* A stack too small for a thread, or too large for the machine, is refused. */
TEST(thread__impossible_stack__refused, "G-3", "G-22")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;

    opts.stack_size = 1;
    CHECK_STATUS(refused(&opts), SPN_EINVAL);
    opts.stack_size = SIZE_MAX;
    CHECK_STATUS(refused(&opts), SPN_EINVAL);
    opts.stack_size = (size_t)1 << 50; /* more than the address space has */
    CHECK_STATUS(refused(&opts), SPN_EAGAIN);
}

/* ---- CPUs ---------------------------------------------------------------------- */

static int own_cpus(void *arg)
{
    return sched_getaffinity(0, sizeof(cpu_set_t), arg);
}

/* The thread runs on the CPUs it was given, and on its creator's otherwise. */
TEST(thread__cpus__honoured, "G-3")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    cpu_set_t mine, its;

    REQUIRE(sched_getaffinity(0, sizeof mine, &mine) == 0);
    CHECK_EQ(run_with(NULL, own_cpus, &its), 0);
    CHECK(CPU_EQUAL(&mine, &its));
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mine))
            continue;
        opts.cpus = &cpu;
        opts.cpu_count = 1;
        CHECK_EQ(run_with(&opts, own_cpus, &its), 0);
        CHECK_EQ(CPU_COUNT(&its), 1);
        CHECK(CPU_ISSET(cpu, &its));
    }
}

/* A CPU that is not there is refused, and so is half an argument. */
TEST(thread__impossible_cpus__refused, "G-3")
{
    static const uint32_t none[] = { 4095, 65535, 65536, UINT32_MAX };
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;

    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        opts.cpus = &none[i];
        opts.cpu_count = 1;
        CHECK_STATUS(refused(&opts), SPN_EINVAL);
    }
    opts.cpus = NULL;
    opts.cpu_count = 1;
    CHECK_STATUS(refused(&opts), SPN_EINVAL);
}

/* ---- scheduling ------------------------------------------------------------------ */

struct schedule {
    int policy;
    int priority;
    int nice;
};

static int own_schedule(void *arg)
{
    struct schedule *s = arg;
    struct sched_param param;

    s->policy = sched_getscheduler(0);
    if (sched_getparam(0, &param) != 0)
        return 1;
    s->priority = param.sched_priority;
    s->nice = getpriority(PRIO_PROCESS, (id_t)peer_gettid());
    return 0;
}

/* The scheduling that was asked for is in force before fn runs. */
TEST(thread__sched__honoured, "G-3")
{
    static const struct {
        uint32_t sched;
        int32_t priority;
        int policy;
    } rows[] = {
        { SPN_SCHED_OTHER, 0, SCHED_OTHER },  { SPN_SCHED_OTHER, 5, SCHED_OTHER },
        { SPN_SCHED_OTHER, 19, SCHED_OTHER }, { SPN_SCHED_BATCH, 3, SCHED_BATCH },
        { SPN_SCHED_IDLE, 0, SCHED_IDLE },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
        struct schedule s = { -1, -1, -99 };
        spn_thread *thread;
        int rc;

        opts.sched = rows[i].sched;
        opts.priority = rows[i].priority;
        rc = spn_thread_create(&thread, &opts, own_schedule, &s);
        if (!CHECK_OK(rc)) {
            fprintf(stderr, "  in: sched %u, priority %d\n", opts.sched, opts.priority);
            continue;
        }
        CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
        spn_thread_unref(thread);
        CHECK_EQ(s.policy, rows[i].policy);
        CHECK_EQ(s.nice, rows[i].sched == SPN_SCHED_IDLE ? s.nice : rows[i].priority);
    }
}

/* Real time is granted or refused with EPERM, never quietly something else. */
TEST(thread__real_time__granted_or_eperm, "G-3")
{
    for (uint32_t sched = SPN_SCHED_FIFO; sched <= SPN_SCHED_RR; sched++) {
        spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
        struct schedule s = { -1, -1, -99 };
        spn_thread *thread;
        int rc;

        opts.sched = sched;
        opts.priority = 3;
        rc = spn_thread_create(&thread, &opts, own_schedule, &s);
        if (rc != SPN_OK) {
            CHECK_STATUS(rc, SPN_EPERM);
            CHECK(thread == NULL);
            continue;
        }
        CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
        spn_thread_unref(thread);
        CHECK_EQ(s.policy, sched == SPN_SCHED_FIFO ? SCHED_FIFO : SCHED_RR);
        CHECK_EQ(s.priority, 3);
    }
}

/* Numbers that are no scheduling are refused. */
TEST(thread__impossible_sched__refused, "G-3")
{
    static const struct {
        uint32_t sched;
        int32_t priority;
    } rows[] = {
        { SPN_SCHED_INHERIT, 1 },
        { SPN_SCHED_INHERIT, -1 },
        { SPN_SCHED_OTHER, 20 },
        { SPN_SCHED_OTHER, -21 },
        { SPN_SCHED_BATCH, INT32_MIN },
        { SPN_SCHED_BATCH, INT32_MAX },
        { SPN_SCHED_IDLE, 1 },
        { SPN_SCHED_FIFO, 0 },
        { SPN_SCHED_FIFO, 100 },
        { SPN_SCHED_RR, 0 },
        { SPN_SCHED_RR, -1 },
        { 6, 0 },
        { UINT32_MAX, 0 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        spn_thread_opts opts = SPN_THREAD_OPTS_INIT;

        opts.sched = rows[i].sched;
        opts.priority = rows[i].priority;
        CHECK_STATUS(refused(&opts), SPN_EINVAL);
    }
}

/* Becomes nobody, for good: a user of his own, for the system counts the threads of a user in
 * all his processes, and this program may run twice at once. */
static void drop_privileges(void)
{
    const uid_t own = 10000 + (uid_t)getpid() % 50000;
    const struct rlimit none = { 0, 0 };

    /* Limits first: nobody could not even lower the hard ones of root later. */
    REQUIRE(setrlimit(RLIMIT_NICE, &none) == 0);
    REQUIRE(setrlimit(RLIMIT_RTPRIO, &none) == 0);
    if (geteuid() == 0)
        REQUIRE(setresgid(65534, 65534, 65534) == 0 && setresuid(own, own, own) == 0);
}

static void ask_for_too_much(void *arg)
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;

    (void)arg;
    drop_privileges();
    opts.sched = SPN_SCHED_OTHER;
    opts.priority = -5;
    CHECK_STATUS(refused(&opts), SPN_EPERM);
    opts.sched = SPN_SCHED_BATCH;
    CHECK_STATUS(refused(&opts), SPN_EPERM);
    opts.sched = SPN_SCHED_FIFO;
    opts.priority = 1;
    CHECK_STATUS(refused(&opts), SPN_EPERM);
    opts.sched = SPN_SCHED_RR;
    CHECK_STATUS(refused(&opts), SPN_EPERM);
    T_AWAIT(t_threads() == 1 || T_INSTRUMENTED); /* no thread is left */
    CHECK_EQ(run_with(NULL, return_zero, NULL), 0);
}

/* Without the privilege the answer is EPERM, and no thread has been started. */
TEST(thread__priority_without_privilege__eperm, "G-3", "G-22")
{
    CHECK_CHILD(ask_for_too_much, NULL);
}

/* ---- faults ------------------------------------------------------------------------ */

static void report_fault(int signal)
{
    (void)signal;
    _exit(42);
}

static int fail_hard(void *arg)
{
    (void)arg;
    return raise(SIGSEGV);
}

static void crash_with_a_handler(void *arg)
{
    spn_thread *thread;

    (void)arg;
    signal(SIGSEGV, report_fault);
    REQUIRE_OK(spn_thread_create(&thread, NULL, fail_hard, NULL));
    (void)!spn_thread_join(thread, SPN_FOREVER, NULL);
    _exit(1);
}

/* A crash on a library thread reaches the program's handler. */
TEST(thread__fault__handler_runs)
{
    CHECK_EQ(t_child(crash_with_a_handler, NULL, NULL, 0), 42 << 8);
}

static void fork_with_cache_held(void *arg)
{
    pid_t child;
    int status = 0;

    (void)arg;
    CHECK(spn_thread_current() != NULL);
    spn__lock(&spn__thread_cache.lock);
    child = fork();
    if (child == 0) {
        spn_thread *record = spn__thread_record_create(1); /* wants the lock */
        _exit(record != NULL ? 0 : 1);
    }
    spn__unlock(&spn__thread_cache.lock);
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A program that never made a library thread forks while the cache is held. */
TEST(thread__foreign_program_forks_with_the_cache_held__child_not_stuck, "G-14")
{
    CHECK_CHILD(fork_with_cache_held, NULL);
}

/* ---- join and the destructors of thread-specific data ------------------------------ */

struct lingering {
    pthread_key_t key;
    atomic_bool in_destructor, may_end;
    _Atomic(spn_thread *) handle;
    atomic_int own_join;
};

static void linger(void *p)
{
    struct lingering *l = p;

    /* The thread's own handle, after the library has let go of the thread. */
    atomic_store(&l->own_join,
                 spn_thread_join(atomic_load(&l->handle), T_LONG_NS, NULL));
    atomic_store(&l->in_destructor, true);
    T_AWAIT(atomic_load(&l->may_end));
}

static int leave_data(void *p)
{
    struct lingering *l = p;

    T_AWAIT(atomic_load(&l->handle) != NULL);
    return pthread_setspecific(l->key, l);
}

/* A thread whose destructors still run has not ended: a timed join gives up in
 * time, joining it from there is a deadlock and says so, and a later join
 * succeeds. */
TEST(thread__destructors_linger__join_keeps_its_time, "G-6", "G-7")
{
    struct lingering l = { .own_join = SPN_OK };
    spn_thread *thread;
    int result = -1;

    REQUIRE(pthread_key_create(&l.key, linger) == 0);
    REQUIRE_OK(spn_thread_create(&thread, NULL, leave_data, &l));
    atomic_store(&l.handle, thread);
    T_AWAIT(atomic_load(&l.in_destructor));
    CHECK_STATUS(atomic_load(&l.own_join), SPN_EDEADLK);
    CHECK_STATUS(spn_thread_join(thread, SPN_NOWAIT, &result), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_thread_join(thread, T_PROBE_NS, &result), SPN_ETIMEDOUT);
    CHECK_EQ(result, -1);
    atomic_store(&l.may_end, true);
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, &result));
    CHECK_EQ(result, 0);
    spn_thread_unref(thread);
    pthread_key_delete(l.key);
}

static void use_up_threads(void *arg)
{
    enum { MOST = 64 };
    const struct rlimit few = { 8, 8 };
    spn_thread *threads[MOST];
    atomic_int gate = 0;
    int started = 0, rc;

    (void)arg;
    drop_privileges();
    REQUIRE(setrlimit(RLIMIT_NPROC, &few) == 0);
    while (started < MOST) {
        rc = spn_thread_create(&threads[started], NULL, park_until_set, &gate);
        if (rc != SPN_OK) {
            CHECK(threads[started] == NULL);
            break;
        }
        started++;
    }
    CHECK(started < MOST);
    CHECK_STATUS(rc, SPN_EAGAIN);
    CHECK_STATUS(refused(NULL), SPN_EAGAIN); /* and again, without harm */
    for (int i = 0; i < started; i++) {
        open_gate(&gate, threads[i]);
        CHECK_OK(spn_thread_join(threads[i], SPN_FOREVER, NULL));
        spn_thread_unref(threads[i]);
    }
    if (started == 0)
        return;
    /* There is room again, when the system has forgotten them. */
    while ((rc = spn_thread_create(&threads[0], NULL, return_zero, NULL)) == SPN_EAGAIN)
        t_pause();
    REQUIRE_OK(rc);
    CHECK_OK(spn_thread_join(threads[0], SPN_FOREVER, NULL));
    spn_thread_unref(threads[0]);
}

/* When the system has no thread to give, create says EAGAIN and starts nothing. */
TEST(thread__system_out_of_threads__eagain, "G-22", "P2")
{
    if (geteuid() != 0) {
        t_skip("needs root to become a user without processes");
        return;
    }
    CHECK_CHILD(use_up_threads, NULL);
}

/* ---- signals ---------------------------------------------------------------------- */

static atomic_int handled, handled_elsewhere;
static int main_tid;

static void note_signal(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
    if (peer_gettid() != main_tid)
        atomic_fetch_add(&handled_elsewhere, 1);
}

/* No signal to the process is ever handled on a thread of the library, not even
 * while the program's own threads block it. */
TEST(thread__signals_to_the_process__handled_by_main_only, "G-13", "P35")
{
    enum { SIGNALS = 1000 };
    struct sigaction action, old_term, old_rt;
    const int rt = SIGRTMIN + 3;
    atomic_int gate = 0;
    spn_thread *threads[T_THREADS];
    sigset_t both, old;

    memset(&action, 0, sizeof action);
    action.sa_handler = note_signal;
    main_tid = peer_gettid();
    REQUIRE(sigaction(SIGTERM, &action, &old_term) == 0);
    REQUIRE(sigaction(rt, &action, &old_rt) == 0);
    for (int i = 0; i < T_THREADS; i++)
        REQUIRE_OK(spn_thread_create(&threads[i], NULL, park_until_set, &gate));

    for (int i = 0; i < SIGNALS; i++)
        REQUIRE(kill(getpid(), SIGTERM) == 0);
    CHECK(atomic_load(&handled) > 0);

    sigemptyset(&both);
    sigaddset(&both, SIGTERM);
    sigaddset(&both, rt);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &both, &old) == 0);
    atomic_store(&handled, 0);
    for (int i = 0; i < SIGNALS; i++)
        REQUIRE(kill(getpid(), rt) == 0); /* these queue: none may be lost */
    REQUIRE(kill(getpid(), SIGTERM) == 0);
    CHECK_EQ(atomic_load(&handled), 0); /* nobody took one */
    REQUIRE(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    /* ThreadSanitizer keeps one signal of a number for later, not all of them. */
    T_AWAIT(atomic_load(&handled) == SIGNALS + 1 ||
            (T_INSTRUMENTED && atomic_load(&handled) >= 2));
    CHECK_EQ(atomic_load(&handled_elsewhere), 0);

    for (int i = 0; i < T_THREADS; i++) {
        open_gate(&gate, threads[i]);
        CHECK_OK(spn_thread_join(threads[i], SPN_FOREVER, NULL));
        spn_thread_unref(threads[i]);
    }
    REQUIRE(sigaction(SIGTERM, &old_term, NULL) == 0);
    REQUIRE(sigaction(rt, &old_rt, NULL) == 0);
}

static int own_mask(void *arg)
{
    return pthread_sigmask(SIG_SETMASK, NULL, arg);
}

static bool same_mask(const sigset_t *a, const sigset_t *b)
{
    for (int s = 1; s <= SIGRTMAX; s++)
        if (s != SIGKILL && s != SIGSTOP && (s < 32 || s >= SIGRTMIN) &&
            sigismember(a, s) != sigismember(b, s))
            return false;
    return true;
}

/* Blocks SIGUSR2 only; the mask before it goes to *old. */
static void block_usr2(sigset_t *mask, sigset_t *old)
{
    sigemptyset(mask);
    sigaddset(mask, SIGUSR2);
    REQUIRE(pthread_sigmask(SIG_SETMASK, mask, old) == 0);
}

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

/* Every signal but a thread's own faults is blocked by default, the creator's mask is inherited when
 * asked for, and the creator's own mask stays as it was. */
TEST(thread__signal_mask__blocked_or_inherited, "G-3")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    sigset_t mine, old, all, its, after;

    block_usr2(&mine, &old);
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&all, faults[i]); /* a thread's own faults reach their handlers */
    CHECK_EQ(run_with(NULL, own_mask, &its), 0);
    CHECK(same_mask(&its, &all));
    opts.signals = SPN_SIGNALS_INHERIT;
    CHECK_EQ(run_with(&opts, own_mask, &its), 0);
    CHECK(same_mask(&its, &mine));
    opts.signals = 2;
    CHECK_STATUS(refused(&opts), SPN_EINVAL);
    opts.signals = 0;
    opts.stack_size = 1; /* a failing create must restore it too */
    CHECK_STATUS(refused(&opts), SPN_EINVAL);
    opts.stack_size = (size_t)1 << 50;
    CHECK_STATUS(refused(&opts), SPN_EAGAIN);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &old, &after) == 0);
    CHECK(same_mask(&after, &mine));
}

static char *const show_mask[] = { (char *)"grep", (char *)"SigBlk",
                                   (char *)"/proc/self/status", NULL };

/* Reads what the child writes and waits for it. */
static void collect(int fd, pid_t pid, char *text, size_t capacity)
{
    size_t length = 0;
    ssize_t got;
    int status = -1;

    while (length + 1 < capacity &&
           (got = read(fd, text + length, capacity - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(fd);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

struct started_program {
    char by_fork[128], by_spawn[128];
};

static int start_programs(void *arg)
{
    struct started_program *s = arg;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t mask;
    int fds[2];
    pid_t pid;

    REQUIRE(pipe(fds) == 0);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execvp(show_mask[0], show_mask);
        _exit(127);
    }
    REQUIRE(pid > 0);
    close(fds[1]);
    collect(fds[0], pid, s->by_fork, sizeof s->by_fork);

    REQUIRE(pipe(fds) == 0);
    REQUIRE_OK(spn_thread_exec_sigmask(&mask));
    REQUIRE(posix_spawnattr_init(&attr) == 0);
    REQUIRE(posix_spawnattr_setsigmask(&attr, &mask) == 0);
    REQUIRE(posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK) == 0);
    REQUIRE(posix_spawn_file_actions_init(&actions) == 0);
    REQUIRE(posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO) == 0);
    REQUIRE(posix_spawnp(&pid, show_mask[0], &actions, &attr, show_mask, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    close(fds[1]);
    collect(fds[0], pid, s->by_spawn, sizeof s->by_spawn);
    return 0;
}

/* A program started from a library thread has the mask the thread's creator
 * had: after fork by itself, with posix_spawn through spn_thread_exec_sigmask. */
TEST(thread__program_started_from_it__has_the_creators_mask, "G-13", "P35")
{
    spn_thread_opts inherit = SPN_THREAD_OPTS_INIT;
    struct started_program blocked, inherited, own;
    char expected[128];
    sigset_t mine, old;

    block_usr2(&mine, &old);
    snprintf(expected, sizeof expected, "SigBlk:\t%016llx\n", 1ULL << (SIGUSR2 - 1));
    inherit.signals = SPN_SIGNALS_INHERIT;
    CHECK_EQ(run_with(NULL, start_programs, &blocked), 0);
    CHECK_EQ(run_with(&inherit, start_programs, &inherited), 0);
    CHECK_EQ(start_programs(&own), 0); /* a foreign thread: its present mask */
    REQUIRE(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    CHECK_STR(blocked.by_fork, expected);
    CHECK_STR(blocked.by_spawn, expected);
    CHECK_STR(inherited.by_fork, expected);
    CHECK_STR(inherited.by_spawn, expected);
    CHECK_STR(own.by_fork, expected);
    CHECK_STR(own.by_spawn, expected);
}

static int thread_in_thread(void *arg)
{
    return run_with(NULL, start_programs, arg);
}

/* Also from a thread that a library thread made: what counts is the mask from
 * before the library blocked anything. */
TEST(thread__made_by_a_library_thread__programs_get_the_first_mask, "G-13", "P35")
{
    struct started_program s;
    char expected[128];
    sigset_t mine, old;

    block_usr2(&mine, &old);
    snprintf(expected, sizeof expected, "SigBlk:\t%016llx\n", 1ULL << (SIGUSR2 - 1));
    CHECK_EQ(run_with(NULL, thread_in_thread, &s), 0);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    CHECK_STR(s.by_fork, expected);
    CHECK_STR(s.by_spawn, expected);
}

/* ---- hooks ------------------------------------------------------------------------ */

struct hooks {
    atomic_int count;
    int order[4]; /* what ran: 1 on_start, 2 fn, 3 on_stop */
    int tids[4];
    bool leave_by_exit;
};

static void note_step(struct hooks *h, int step)
{
    const int i = atomic_fetch_add(&h->count, 1);

    if (i < 4) {
        h->order[i] = step;
        h->tids[i] = peer_gettid();
    }
}

static void note_start(void *arg)
{
    note_step(arg, 1);
}

static void note_stop(void *arg)
{
    note_step(arg, 3);
}

static int note_run(void *arg)
{
    struct hooks *h = arg;

    note_step(h, 2);
    if (h->leave_by_exit)
        pthread_exit(NULL);
    return 11;
}

/* The hooks run on the new thread, one before fn and one after it, also when fn
 * leaves through pthread_exit; join returns after all of them. */
TEST(thread__hooks__around_fn_on_its_thread, "G-21", "G-23")
{
    for (int by_exit = 0; by_exit < 2; by_exit++) {
        spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
        struct hooks h = { .leave_by_exit = by_exit != 0 };

        opts.on_start = note_start;
        opts.on_stop = note_stop;
        opts.hook_arg = &h;
        CHECK_EQ(run_with(&opts, note_run, &h), by_exit ? SPN_ECANCELED : 11);
        CHECK_EQ(atomic_load(&h.count), 3);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(h.order[i], i + 1);
            CHECK_EQ(h.tids[i], h.tids[0]);
            CHECK(h.tids[i] != peer_gettid());
        }
    }
}

/* A thread whose hooks were asked for but could not be started calls none. */
TEST(thread__refused__calls_no_hook, "G-2")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    struct hooks h = { .leave_by_exit = false };

    opts.on_start = note_start;
    opts.on_stop = note_stop;
    opts.hook_arg = &h;
    opts.stack_size = 1;
    CHECK_STATUS(refused(&opts), SPN_EINVAL);
    CHECK_EQ(atomic_load(&h.count), 0);
}

static int exit_by_pthread_exit(void *arg)
{
    pthread_exit(arg);
}

/* pthread_exit reports SPN_ECANCELED, with or without hooks. */
TEST(thread__left_through_pthread_exit__reports_canceled, "G-21")
{
    for (int i = 0; i < 20; i++)
        CHECK_STATUS(run_with(NULL, exit_by_pthread_exit, &i), SPN_ECANCELED);
}

/* ---- join ------------------------------------------------------------------------- */

struct joint {
    spn_thread *target;
    int result;
};

static int join_forever(void *arg)
{
    struct joint *j = arg;
    return spn_thread_join(j->target, SPN_FOREVER, &j->result);
}

struct answer {
    atomic_int gate;
    int value; /* plain: join is what orders it */
};

static int answer_later(void *arg)
{
    struct answer *a = arg;

    (void)park_until_set(&a->gate);
    a->value = 4711;
    return -3;
}

/* Several threads may join, at once and again; each gets the same answer and
 * sees what the thread did. */
TEST(thread__joined_by_several__same_answer, "G-19", "G-20")
{
    struct answer a = { .value = 0 };
    spn_thread *thread;
    struct joint j[3];
    struct peer p[3];
    int result;

    REQUIRE_OK(spn_thread_create(&thread, NULL, answer_later, &a));
    for (int i = 0; i < 3; i++) {
        j[i] = (struct joint){ thread, 0 };
        peer_start(&p[i], join_forever, &j[i]);
        peer_await_blocked(&p[i]);
    }
    CHECK_STATUS(spn_thread_join(thread, SPN_MS(1), &result), SPN_ETIMEDOUT);
    open_gate(&a.gate, thread);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(peer_finish(&p[i]));
        CHECK_EQ(j[i].result, -3);
    }
    for (int i = 0; i < 3; i++) {
        result = 0;
        CHECK_OK(spn_thread_join(thread, i - 1, &result));
        CHECK_EQ(result, -3);
    }
    CHECK_EQ(a.value, 4711);
    spn_thread_unref(thread);
}

/* Every result comes through, a null result pointer is fine. */
TEST(thread__result__reported_as_it_is, "G-4")
{
    static const int results[] = { 0, 1, -1, SPN_ETIMEDOUT, INT32_MAX, INT32_MIN };

    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        CHECK_EQ(run_with(NULL, return_arg, (void *)&results[i]), results[i]);
}

/* When join has returned the thread is gone from the system too. */
TEST(thread__joined__gone_from_the_system, "G-19")
{
    int before;

    (void)run_with(NULL, return_zero, NULL); /* a sanitizer's come with the first */
    before = t_threads();
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(run_with(NULL, return_zero, NULL), 0);
        CHECK(t_threads() <= before); /* fewer: one of an earlier test has ended */
    }
}

static int join_self(void *arg)
{
    (void)arg;
    CHECK_STATUS(spn_thread_join(spn_thread_current(), 0, NULL), SPN_EDEADLK);
    CHECK_STATUS(spn_thread_join(spn_thread_current(), SPN_SEC(1), NULL), SPN_EDEADLK);
    return spn_thread_join(spn_thread_current(), SPN_FOREVER, NULL);
}

/* A thread that would wait for itself is told so. */
TEST(thread__joins_itself__edeadlk, "G-1")
{
    CHECK_STATUS(run_with(NULL, join_self, NULL), SPN_EDEADLK);
}

static int wait_for_arg(void *arg)
{
    return park_until_set(arg);
}

/* A thread the library did not create cannot be joined. */
TEST(thread__join_of_a_foreign_thread__einval, "G-1", "G-14")
{
    atomic_int gate = 0;
    struct peer p;

    peer_start_foreign(&p, wait_for_arg, &gate);
    CHECK_STATUS(spn_thread_join(p.thread, SPN_FOREVER, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_thread_join(p.thread, 0, NULL), SPN_EINVAL);
    open_gate(&gate, p.thread);
    CHECK_OK(peer_finish(&p));
}

/* ---- handles ------------------------------------------------------------------------ */

/* A handle outlives its thread and stays harmless to use. */
TEST(thread__handle_after_the_end__harmless, "G-16", "LS-8")
{
    spn_thread_opts opts = SPN_THREAD_OPTS_INIT;
    const void *blocker = &opts;
    spn_thread *thread;
    char name[16];
    int result = -1;

    opts.name = "gone";
    REQUIRE_OK(spn_thread_create(&thread, &opts, return_zero, NULL));
    CHECK(spn_thread_ref(thread) == thread);
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
    spn_thread_unref(thread);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(run_with(NULL, return_zero, NULL), 0); /* would reuse a record */
    CHECK_EQ(spn_thread_name(thread, name, sizeof name), 4);
    CHECK_STR(name, "gone");
    spn_unpark(thread);
    CHECK_OK(spn_thread_interrupt(thread));
    CHECK_EQ(spn_thread_is_interrupted(thread), 0);
    CHECK_OK(spn_thread_blocker(thread, &blocker));
    CHECK(blocker == NULL);
    CHECK_OK(spn_thread_join(thread, 0, &result));
    CHECK_EQ(result, 0);
    spn_thread_unref(thread);
    spn_thread_unref(NULL);
    CHECK(spn_thread_ref(NULL) == NULL);
}

static int say_done(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

/* A thread whose handle was dropped runs to its end by itself, and a thousand
 * of them leave nothing behind. */
TEST(thread__handle_dropped__runs_on_detached, "G-16")
{
    const int threads = t_rounds(1000), before = t_threads();
    atomic_int done = 0;
    long live = 0;

    for (int i = 0; i < threads; i++) {
        spn_thread *thread;

        REQUIRE_OK(spn_thread_create(&thread, NULL, say_done, &done));
        spn_thread_unref(thread);
        if (i % 16 == 15) {
            T_AWAIT(atomic_load(&done) == i + 1);
            t_await_threads(before);
        }
        if (i == 63)
            live = atomic_load(&counting_live);
    }
    T_AWAIT(atomic_load(&done) == threads);
    t_await_threads(before);
    CHECK(threads < 64 || atomic_load(&counting_live) <= live + 16);
}

static int drop_own_handle(void *arg)
{
    spn_thread **own = arg;

    T_AWAIT(__atomic_load_n(own, __ATOMIC_ACQUIRE) != NULL);
    CHECK(spn_thread_current() == *own);
    spn_thread_unref(*own);
    CHECK(spn_thread_current() == *own); /* it lives while the thread runs */
    __atomic_store_n(own, NULL, __ATOMIC_RELEASE);
    return 0;
}

/* A thread may drop the last handle of itself. */
TEST(thread__drops_its_own_handle__goes_on, "G-16")
{
    const int before = t_threads();

    for (int i = 0; i < 100; i++) {
        spn_thread *shared = NULL, *thread;

        REQUIRE_OK(spn_thread_create(&thread, NULL, drop_own_handle, &shared));
        __atomic_store_n(&shared, thread, __ATOMIC_RELEASE);
        T_AWAIT(__atomic_load_n(&shared, __ATOMIC_ACQUIRE) == NULL);
        t_await_threads(before);
    }
}

/* References come and go from many threads; the count is exact. */
static void ref_and_unref(int index, void *arg)
{
    (void)index;
    for (int i = 0; i < 5000; i++) {
        CHECK(spn_thread_ref(arg) == arg);
        spn_thread_unref(arg);
    }
}

TEST(thread__referenced_by_many__stays_alive, "G-16")
{
    spn_thread *thread;

    REQUIRE_OK(spn_thread_create(&thread, NULL, return_zero, NULL));
    t_parallel(T_THREADS, ref_and_unref, thread);
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
    t_parallel(T_THREADS, ref_and_unref, thread);
    CHECK_OK(spn_thread_join(thread, 0, NULL));
    spn_thread_unref(thread);
}

struct current {
    spn_thread *seen;
    atomic_int leave;
};

static int note_current(void *arg)
{
    struct current *c = arg;

    c->seen = spn_thread_current();
    return c->seen == spn_thread_current() ? 0 : 1;
}

/* A thread's own handle is the one its creator got. */
TEST(thread__current__is_the_creators_handle, "G-16")
{
    struct current c = { .seen = NULL };
    spn_thread *thread;
    int result = -1;

    REQUIRE_OK(spn_thread_create(&thread, NULL, note_current, &c));
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, &result));
    CHECK_EQ(result, 0);
    CHECK(c.seen == thread);
    CHECK(spn_thread_current() != thread);
    CHECK(spn_thread_current() == spn_thread_current());
    spn_thread_unref(thread);
}

/* Options of an older and of a newer program are understood. */
TEST(thread__options_of_another_age__understood, "G-3")
{
    struct {
        spn_thread_opts opts;
        unsigned char newer[64];
    } grown = { .opts = SPN_THREAD_OPTS_INIT };
    spn_thread_opts old = SPN_THREAD_OPTS_INIT;
    int answer = 5;

    old.size = offsetof(spn_thread_opts, stack_size);
    old.stack_size = 1; /* beyond what it says it has */
    old.sched = 99;
    CHECK_EQ(run_with(&old, return_arg, &answer), 5);
    grown.opts.size = sizeof grown;
    CHECK_EQ(run_with(&grown.opts, return_arg, &answer), 5);
    grown.newer[63] = 1; /* asks for what this library does not have */
    CHECK_STATUS(refused(&grown.opts), SPN_EINVAL);
}

/* ---- exit and fork -------------------------------------------------------------------- */

static int call_exit(void *arg)
{
    (void)arg;
    exit(3);
}

static void exit_from_a_thread(void *arg)
{
    spn_thread *thread;

    REQUIRE_OK(spn_thread_create(&thread, NULL, call_exit, NULL));
    if (spn_thread_join(thread, SPN_FOREVER, arg) != SPN_OK)
        _exit(98);
    _exit(99); /* neither is reached: exit ended the process */
}

/* exit from a library thread ends the process with its status. */
TEST(thread__calls_exit__ends_the_process, "G-1", "P13")
{
    for (int i = 0; i < 5; i++)
        CHECK_EQ(t_child(exit_from_a_thread, NULL, NULL, 0), 3 << 8);
}

static atomic_int never;
static spn_thread *kept[T_THREADS];
static spn_latch *kept_latch;

static int await_kept_latch(void *arg)
{
    (void)arg;
    return spn_latch_await(kept_latch, SPN_FOREVER);
}

static void exit_with_live_threads(void *arg)
{
    (void)arg;
    REQUIRE_OK(spn_latch_create(&kept_latch, 1));
    for (int i = 0; i < T_THREADS; i++)
        REQUIRE_OK(spn_thread_create(&kept[i], NULL,
                                     i % 2 == 0 ? park_until_set : await_kept_latch,
                                     &never));
    exit(5);
}

/* exit with threads parked and waiting does not hang and does not crash. */
TEST(thread__process_exits_with_live_threads__no_hang, "G-1", "P13")
{
    for (int i = 0; i < 5; i++)
        CHECK_EQ(t_child(exit_with_live_threads, NULL, NULL, 0), 5 << 8);
}

/* Forks and runs fn(arg) in the child, which ends without exit handlers: those
 * of a sanitizer look for the threads that are not there. */
static void fork_and_run(bool (*fn)(void *arg), void *arg)
{
    int status = -1;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        _exit(fn(arg) ? 0 : 1);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

/* Everything that does not need a thread of the parent. */
static bool use_library_in_child(void *arg)
{
    spn_semaphore *semaphore;
    spn_latch *latch;
    spn_clock *clock;
    bool ok;

    ok = CHECK(spn_thread_current() == arg) && /* the one that forked is itself */
         CHECK_OK(spn_semaphore_create(&semaphore, NULL)) &&
         CHECK_STATUS(spn_semaphore_acquire(semaphore, 1, SPN_MS(1)), SPN_ETIMEDOUT) &&
         CHECK_OK(spn_semaphore_release(semaphore, 1)) &&
         CHECK_OK(spn_semaphore_acquire(semaphore, 1, SPN_FOREVER)) &&
         CHECK_OK(spn_semaphore_destroy(semaphore)) &&
         CHECK_OK(spn_latch_create(&latch, 1)) &&
         CHECK_OK(spn_thread_interrupt(spn_thread_current())) &&
         CHECK_STATUS(spn_latch_await(latch, SPN_FOREVER), SPN_EINTR) &&
         CHECK_OK(spn_latch_destroy(latch)) &&
         CHECK_OK(spn_clock_create_manual(&clock, 0)) &&
         CHECK_OK(spn_clock_destroy(clock));
    spn_unpark(spn_thread_current());
    spn_park(NULL);
#if !T_INSTRUMENTED /* their run time forbids new threads after such a fork */
    ok = ok && CHECK_EQ(run_with(NULL, return_zero, NULL), 0);
#endif
    return ok;
}

/* fork while library threads are alive: the child may use the library.  They sleep, for
 * while they start they may have a sanitizer's locks. */
TEST(thread__forked_with_live_threads__child_uses_the_library, "G-14", "P13")
{
    const spn_thread_opts opts = { .size = sizeof opts, .name = "sleeper" };
    atomic_int gate = 0;
    spn_thread *threads[T_THREADS];

    for (int i = 0; i < T_THREADS; i++)
        REQUIRE_OK(spn_thread_create(&threads[i], &opts, park_until_set, &gate));
    t_await_asleep("sleeper", T_THREADS);
    for (int i = 0; i < 10; i++)
        fork_and_run(use_library_in_child, spn_thread_current());
    for (int i = 0; i < T_THREADS; i++) {
        open_gate(&gate, threads[i]);
        CHECK_OK(spn_thread_join(threads[i], SPN_FOREVER, NULL));
        spn_thread_unref(threads[i]);
    }
}

struct churn {
    atomic_int stop;
};

static int churn_threads(void *arg)
{
    struct churn *c = arg;

    while (atomic_load(&c->stop) == 0)
        if (run_with(NULL, return_zero, NULL) != 0)
            return 1;
    return 0;
}

struct hammer {
    atomic_int began, stop;
};

static void *hammer_record_cache(void *arg)
{
    struct hammer *hammer = arg;

    while (atomic_load(&hammer->stop) == 0) {
        struct spn_thread *record = spn__thread_record_create(0);

        REQUIRE(record != NULL);
        spn__thread_record_recycle(record);
        atomic_store(&hammer->began, 1);
    }
    return NULL;
}

static bool take_a_record(void *arg)
{
    struct spn_thread *record = spn__thread_record_create(0);

    (void)arg;
    if (record == NULL)
        return false;
    spn__thread_record_recycle(record);
#if !T_INSTRUMENTED /* their run time forbids new threads after such a fork */
    return CHECK_EQ(run_with(NULL, return_zero, NULL), 0);
#else
    return true;
#endif
}

/* fork while another thread is inside the cache of records, which no public
 * call does for long: the child finds the lock free. */
TEST(thread__forked_with_the_cache_locked__child_not_stuck, "G-14")
{
    struct hammer hammer = { 0, 0 };
    pthread_t id;

    CHECK_EQ(run_with(NULL, return_zero, NULL), 0);
    REQUIRE(pthread_create(&id, NULL, hammer_record_cache, &hammer) == 0);
    T_AWAIT(atomic_load(&hammer.began) != 0); /* it is past its start */
    for (int i = 0; i < t_rounds(300); i++)
        fork_and_run(take_a_record, NULL);
    atomic_store(&hammer.stop, 1);
    REQUIRE(pthread_join(id, NULL) == 0);
}

/* fork at any moment of another thread's life: no lock of the library is left
 * held in the child. */
TEST(thread__forked_amid_thread_churn__child_not_stuck, "G-14", "P13")
{
    struct churn c = { .stop = 0 };
    spn_thread *threads[2];
    int result = -1;

    if (T_INSTRUMENTED) {
        t_skip("a sanitizer's own locks do not survive a fork amid new threads");
        return;
    }
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(spn_thread_create(&threads[i], NULL, churn_threads, &c));
    for (int i = 0; i < t_rounds(100); i++)
        fork_and_run(use_library_in_child, spn_thread_current());
    atomic_store(&c.stop, 1);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(spn_thread_join(threads[i], SPN_FOREVER, &result));
        CHECK_EQ(result, 0);
        spn_thread_unref(threads[i]);
    }
}

/* ---- no memory -------------------------------------------------------------------------- */

/* Without memory for a record there is no thread, and everything is as before. */
TEST(thread__no_memory__enomem_and_no_thread, "G-22")
{
    spn_thread *held[64];
    int count = 0, rc = SPN_OK;

    REQUIRE(spn_thread_current() != NULL);
    atomic_store(&counting_refuse, 1);
    while (count < 64 && rc == SPN_OK) { /* until the cached records are used up */
        rc = spn_thread_create(&held[count], NULL, return_zero, NULL);
        count += rc == SPN_OK;
    }
    if (rc != SPN_OK) {
        CHECK_STATUS(rc, SPN_ENOMEM);
        CHECK_STATUS(refused(NULL), SPN_ENOMEM);
    }
    atomic_store(&counting_refuse, 0);
    for (int i = 0; i < count; i++) {
        CHECK_OK(spn_thread_join(held[i], SPN_FOREVER, NULL));
        spn_thread_unref(held[i]);
    }
    CHECK_EQ(run_with(NULL, return_zero, NULL), 0);
}

/* A thousand threads, one after the other, need the memory of one. */
TEST(thread__created_and_joined__nothing_left, "G-14", "G-22")
{
    long live;

    CHECK_EQ(run_with(NULL, return_zero, NULL), 0);
    live = atomic_load(&counting_live);
    for (int i = 0; i < t_rounds(1000); i++)
        CHECK_EQ(run_with(NULL, return_zero, NULL), 0);
    CHECK_EQ(atomic_load(&counting_live), live);
}
