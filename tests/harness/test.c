/* SPDX-License-Identifier: MIT */
/*
 * test.c - runs the tests of one file and watches over them.
 *
 * Two processes: the child runs the tests one after the other and prints a line
 * each; the parent counts seconds.  The child says through a pipe which test it
 * is in and how the last one ended, so that the parent knows when a test, not
 * the file, has taken too long; it then prints the stack of every thread of the
 * child (eu-stack, or gdb where that is missing) and kills it.  The parent also
 * tells of a crash, and has the last word: a child that reported success but
 * left with another status (a leak, a race found at exit) has failed.
 *
 * Of the library it tests the harness uses the names of status codes, no more.
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TESTS_MAX = 2048, EXIT_SKIPPED = 77 };

static struct test {
    const char *name;
    void (*fn)(void);
    bool when_named;
} tests[TESTS_MAX];
static int test_count;

/* What the running test has come to; set from any thread. */
static atomic_int failures;
static atomic_bool skipped;
static _Atomic(uint64_t) seed;
static atomic_bool seed_used;
static int progress_fd = -1; /* child: tells the parent how it goes */

static void add_test(struct test test)
{
    if (test_count == TESTS_MAX) {
        fprintf(stderr, "more than %d tests in one file\n", TESTS_MAX);
        abort();
    }
    tests[test_count++] = test;
}

void t_register(const char *name, void (*fn)(void))
{
    add_test((struct test){ name, fn, false });
}

void t_register_when_named(const char *name, void (*fn)(void))
{
    add_test((struct test){ name, fn, true });
}

/* ---- checks ------------------------------------------------------------ */

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash != NULL ? slash + 1 : file;
}

bool t_check(bool ok, const char *expression, const char *file, int line)
{
    if (!ok) {
        atomic_fetch_add(&failures, 1);
        fprintf(stderr, "  %s:%d: %s is false\n", base_name(file), line, expression);
    }
    return ok;
}

bool t_check_eq(int64_t actual, int64_t expected, const char *actual_text,
                const char *expected_text, const char *file, int line)
{
    if (actual != expected) {
        atomic_fetch_add(&failures, 1);
        fprintf(stderr, "  %s:%d: %s is %lld, expected %s (%lld)\n", base_name(file),
                line, actual_text, (long long)actual, expected_text,
                (long long)expected);
    }
    return actual == expected;
}

bool t_check_str(const char *actual, const char *expected, const char *text,
                 const char *file, int line)
{
    const bool ok = actual != NULL && strcmp(actual, expected) == 0;

    if (!ok) {
        atomic_fetch_add(&failures, 1);
        fprintf(stderr, "  %s:%d: %s is \"%s\", expected \"%s\"\n", base_name(file),
                line, text, actual != NULL ? actual : "(null)", expected);
    }
    return ok;
}

bool t_check_status(int actual, int expected, const char *text, const char *file,
                    int line)
{
    if (actual != expected) {
        atomic_fetch_add(&failures, 1);
        fprintf(stderr, "  %s:%d: %s gave %s (%d), expected %s\n", base_name(file),
                line, text, spn_status_name(actual), actual, spn_status_name(expected));
    }
    return actual == expected;
}

void t_require(bool ok, const char *expression, const char *file, int line)
{
    if (!ok) {
        fprintf(stderr, "  %s:%d: the test stands on %s\n", base_name(file), line,
                expression);
        fflush(NULL);
        _exit(1);
    }
}

void t_skip(const char *reason)
{
    t_require(reason != NULL && reason[0] != '\0', "a reason to skip it", __FILE__,
              __LINE__);
    printf("  skipped: %s\n", reason);
    atomic_store(&skipped, true);
}

/* ---- delays, seeds, threads --------------------------------------------- */

static int64_t scale(void)
{
    static _Atomic(int64_t) known;
    int64_t factor = atomic_load(&known);

    if (factor == 0) {
        const char *text = getenv("SPN_TEST_SCALE");
        factor = text != NULL ? strtoll(text, NULL, 10) : 1;
        if (factor < 1)
            factor = 1;
        atomic_store(&known, factor);
    }
    return factor;
}

int64_t t_scaled(int64_t ns)
{
    return ns * scale();
}

int t_rounds(int rounds)
{
    const int fewer = (int)((int64_t)rounds / scale());
    return fewer < 1 ? 1 : fewer;
}

/* Before the fork, so that the parent can name the seed of a test that died. */
static void choose_seed(void)
{
    const char *text = getenv("SPN_TEST_SEED");
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    atomic_store(&seed, text != NULL ? strtoull(text, NULL, 0)
                                     : (uint64_t)ts.tv_nsec * 2654435761u | 1);
}

uint64_t t_seed(void)
{
    atomic_store(&seed_used, true);
    return atomic_load(&seed);
}

uint64_t t_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

long t_resident_kb(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    REQUIRE(f != NULL && fscanf(f, "%ld %ld", &pages, &resident) == 2);
    fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int64_t cpu_ns(clockid_t clock)
{
    struct timespec ts;

    REQUIRE(clock_gettime(clock, &ts) == 0);
    return SPN_SEC(ts.tv_sec) + ts.tv_nsec;
}

int64_t t_cpu_of_others_ns(void)
{
    /* In this order: what this thread uses between them is not the others'. */
    const int64_t all_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);

    return all_ns - cpu_ns(CLOCK_THREAD_CPUTIME_ID);
}

void t_pause(void)
{
    sched_yield();
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The first line of a thread's file in /proc; empty: the thread has gone. */
static void thread_line(const char *tid, const char *name, char *line, int size)
{
    char path[sizeof "/proc/self/task//syscall" + sizeof((struct dirent *)0)->d_name];
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%s/%s", tid, name);
    line[0] = '\0';
    file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(line, size, file) != NULL)
        line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

/* As the kernel counts them, with those that it is letting go. */
static int kernel_threads(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    int count = 0;

    REQUIRE(status != NULL);
    while (count == 0 && fgets(line, sizeof line, status) != NULL)
        (void)sscanf(line, "Threads: %d", &count);
    fclose(status);
    REQUIRE(count > 0);
    return count;
}

/* What its stat says behind its name, "S 1 ..."; empty: the thread has gone. */
static const char *thread_stat(const char *tid, char *line, int size)
{
    const char *name_end;

    thread_line(tid, "stat", line, size);
    name_end = strrchr(line, ')');
    return name_end != NULL && name_end[1] == ' ' ? name_end + 2 : "";
}

/* A thread that was joined may be listed for a while: who waits for it is woken before the
 * kernel has forgotten it. */
static bool is_leaving(const char *tid)
{
    enum { PF_EXITING = 4 }; /* of the kernel, among the flags in stat */
    char line[256];
    unsigned flags = 0;

    (void)sscanf(thread_stat(tid, line, sizeof line), "%*c %*d %*d %*d %*d %*d %u",
                 &flags);
    return (flags & PF_EXITING) != 0;
}

/* Who reads the folder may miss one while another ends: it is read until it has as many as
 * the kernel says. */
int t_threads(void)
{
    for (;;) {
        const int expected = kernel_threads();
        DIR *dir = opendir("/proc/self/task");
        int listed = 0, leaving = 0;

        REQUIRE(dir != NULL);
        for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
            if (e->d_name[0] == '.')
                continue;
            listed++;
            leaving += is_leaving(e->d_name);
        }
        closedir(dir);
        if (listed == expected && kernel_threads() == expected)
            return expected - leaving;
    }
}

/* Who they are, and where they stay. */
static void print_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    char name[32], state[256], call[256];

    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        thread_line(e->d_name, "comm", name, sizeof name);
        thread_line(e->d_name, "stat", state, sizeof state);
        thread_line(e->d_name, "syscall", call, sizeof call);
        fprintf(stderr, "  thread %s \"%s\"\n    stat %s\n    syscall %s\n", e->d_name,
                name, state, call);
    }
    if (dir != NULL)
        closedir(dir);
}

void t_await_threads(int count)
{
    const int64_t until_ms = now_ms() + T_LONG_NS / SPN_MS(1);
    int found;

    while ((found = t_threads()) > count && now_ms() < until_ms)
        t_pause();
    if (found > count) {
        fprintf(stderr, "  %d threads, expected %d\n", found, count);
        print_threads();
    }
    REQUIRE(found <= count);
}

static int own_threads; /* before the first test: a sanitizer's are among them */

#if T_TSAN
static void *do_nothing(void *arg)
{
    return arg;
}
#endif

/* ThreadSanitizer has a thread of its own from the first one on, which never goes: it is
 * made to come before they are counted. */
static void count_own_threads(void)
{
#if T_TSAN
    pthread_t thread;

    t_require(pthread_create(&thread, NULL, do_nothing, NULL) == 0, "a thread",
              __FILE__, __LINE__);
    pthread_join(thread, NULL);
#endif
    own_threads = t_threads();
}

/* A test that has threads itself, and forks nevertheless, is not held up for long. */
void t_let_threads_go(void)
{
    const int64_t until_ms = now_ms() + T_MEDIUM_NS / SPN_MS(1);

    while (t_threads() > own_threads && now_ms() < until_ms)
        t_pause();
}

static int count_asleep(const char *name)
{
    DIR *dir = opendir("/proc/self/task");
    char own[32], line[256];
    int count = 0;

    REQUIRE(dir != NULL);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        thread_line(e->d_name, "comm", own, sizeof own);
        count += strncmp(own, name, strlen(name)) == 0 &&
                 thread_stat(e->d_name, line, sizeof line)[0] == 'S';
    }
    closedir(dir);
    return count;
}

/* Twice in a row: they are looked at one after the other, and the first may have slept for
 * a lock that the last gave up before it was looked at. */
void t_await_asleep(const char *name, int count)
{
    T_AWAIT(count_asleep(name) >= count && count_asleep(name) >= count);
}

struct parallel {
    void (*fn)(int, void *);
    void *arg;
    int index;
    pthread_barrier_t *start;
};

static void *run_parallel(void *p)
{
    const struct parallel *job = p;

    pthread_barrier_wait(job->start);
    job->fn(job->index, job->arg);
    return NULL;
}

void t_parallel(int count, void (*fn)(int index, void *arg), void *arg)
{
    struct parallel jobs[256];
    pthread_t threads[256];
    pthread_barrier_t start;

    t_require(count > 0 && count <= 256, "1 to 256 threads", __FILE__, __LINE__);
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        jobs[i] = (struct parallel){ fn, arg, i, &start };
        const int rc = pthread_create(&threads[i], NULL, run_parallel, &jobs[i]);
        t_require(rc == 0, "a thread could be created", __FILE__, __LINE__);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
}

/* ---- a process of its own ------------------------------------------------ */

int t_child(void (*fn)(void *arg), void *arg, char *output, size_t capacity)
{
    size_t length = 0;
    int fds[2], status;
    ssize_t got;
    char byte;
    pid_t pid;

    /* A child that is forked beside other threads finds the locks of a sanitizer's
     * allocator as they were, and may have no threads under ThreadSanitizer. */
    t_let_threads_go();
    t_require(pipe(fds) == 0, "a pipe", __FILE__, __LINE__);
    fflush(NULL); /* or the child would print it again */
    pid = fork();
    t_require(pid >= 0, "a child process", __FILE__, __LINE__);
    if (pid == 0) {
        const struct rlimit no_core = { 0, 0 };

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the watchdog kills the parent alone */
        setrlimit(RLIMIT_CORE, &no_core);
        if (output != NULL) {
            dup2(fds[1], STDOUT_FILENO);
            dup2(fds[1], STDERR_FILENO);
        }
        close(fds[0]);
        close(fds[1]);
        if (progress_fd >= 0)
            close(progress_fd); /* it is the parent's test that runs */
        progress_fd = -1;
        own_threads = t_threads();
        atomic_store(&failures, 0);
        fn(arg);
        exit(atomic_load(&failures) != 0);
    }
    close(fds[1]);
    while ((got = read(fds[0], &byte, 1)) != 0) {
        if (got > 0 && output != NULL && length + 1 < capacity)
            output[length++] = byte;
        else if (got < 0 && errno != EINTR)
            break;
    }
    if (output != NULL)
        output[length] = '\0';
    close(fds[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* ---- the child: one test after the other --------------------------------- */

struct result {
    int passed, failed, skipped;
};

/* What the child tells the parent, in one write. */
enum event { STARTED, PASSED, FAILED, SKIPPED, DONE };

struct progress {
    enum event what;
    int index; /* of the test; DONE: unused */
};

static bool is_named(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

static bool any_named(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-')
            return true;
    return false;
}

/* A name that no test has is a mistake: running nothing would look like success. */
static bool names_are_known(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int t = 0;

        while (t < test_count && strcmp(argv[i], tests[t].name) != 0)
            t++;
        if (argv[i][0] != '-' && t == test_count) {
            fprintf(stderr, "there is no test %s\n", argv[i]);
            return false;
        }
    }
    return true;
}

static void count(struct result *result, enum event what)
{
    result->passed += what == PASSED;
    result->failed += what == FAILED;
    result->skipped += what == SKIPPED;
}

/* Prints the last line and returns the exit status that goes with it. */
static int conclude(const struct result *result)
{
    printf("%d passed, %d failed", result->passed, result->failed);
    if (result->skipped != 0)
        printf(", %d skipped", result->skipped);
    printf("\n");
    fflush(stdout);
    if (result->failed != 0)
        return 1;
    if (result->passed == 0)
        return result->skipped != 0 ? EXIT_SKIPPED : 1; /* no test proves nothing */
    return 0;
}

static void tell_parent(enum event what, int index)
{
    const struct progress progress = { what, index };

    if (progress_fd >= 0)
        while (write(progress_fd, &progress, sizeof progress) < 0 && errno == EINTR) {
        }
}

static enum event run_test(const struct test *test)
{
    atomic_store(&failures, 0);
    atomic_store(&skipped, false);
    test->fn();
    if (atomic_load(&failures) != 0) {
        printf("FAIL %s", test->name);
        if (atomic_load(&seed_used))
            printf(" (SPN_TEST_SEED=%llu)", (unsigned long long)atomic_load(&seed));
        printf("\n");
        return FAILED;
    }
    printf("%s %s\n", atomic_load(&skipped) ? "skip" : "ok  ", test->name);
    return atomic_load(&skipped) ? SKIPPED : PASSED;
}

static struct result run_tests(int argc, char **argv)
{
    const bool choose = any_named(argc, argv);
    struct result result = { 0, 0, 0 };

    count_own_threads();
    for (int i = 0; i < test_count; i++) {
        enum event what;

        if (choose ? !is_named(tests[i].name, argc, argv) : tests[i].when_named)
            continue;
        tell_parent(STARTED, i);
        what = run_test(&tests[i]);
        fflush(stdout);
        tell_parent(what, i);
        count(&result, what);
    }
    tell_parent(DONE, 0);
    return result;
}

/* ---- the parent: the watchdog -------------------------------------------- */

/* Of the process and of the children it has: in t_child it is they who hang. */
static void print_stacks(pid_t pid)
{
    char command[512];

    snprintf(
        command, sizeof command,
        "for p in %d $(cat /proc/%d/task/*/children 2>/dev/null); do"
        " eu-stack -p $p 2>/dev/null ||"
        " gdb -p $p -batch -nx -ex 'thread apply all bt' 2>/dev/null || exit 1; done",
        (int)pid, (int)pid);
    fflush(NULL);
    if (system(command) != 0)
        fprintf(stderr, "no stacks: install elfutils or gdb\n");
}

static int64_t limit_ms(void)
{
    const char *text = getenv("SPN_TEST_LIMIT_MS");
    const int64_t limit = text != NULL ? strtoll(text, NULL, 10) : 0;

    return limit > 0 ? limit : T_TEST_LIMIT_NS / 1000000;
}

/*
 * Follows the child until it says DONE, dies, or is in one test for too long
 * and is killed.  The pipe alone does not tell of a death: a process the test
 * started may hold its other end; so the child is looked at now and then.  One
 * that has gone may have said its last words since the pipe was looked at.
 */
static void follow(pid_t child, int fd, struct result *result, const char **running,
                   bool *done)
{
    enum { LOOK_MS = 100 };
    int64_t since = now_ms();
    struct progress progress;
    bool gone = false;

    while (!*done) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        siginfo_t info = { .si_pid = 0 };

        if (poll(&p, 1, gone ? 0 : LOOK_MS) > 0) {
            if (read(fd, &progress, sizeof progress) != (ssize_t)sizeof progress)
                return;
            since = now_ms();
            *done = progress.what == DONE;
            *running =
                progress.what == STARTED ? tests[progress.index].name : "no test";
            count(result, progress.what);
        } else if (gone) {
            return;
        } else if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) ==
                       0 &&
                   info.si_pid == child) {
            gone = true;
        } else if (now_ms() - since > limit_ms()) {
            fprintf(stderr, "TIMEOUT in %s after %lld ms; the stack of every thread:\n",
                    *running, (long long)limit_ms());
            print_stacks(child);
            kill(child, SIGKILL);
            return;
        }
    }
}

static int watch(pid_t child, int fd)
{
    struct result result = { 0, 0, 0 };
    const char *running = "start-up";
    bool done = false;
    int status;

    follow(child, fd, &result, &running, &done);
    if (done) {
        /* What runs at exit has the same limit; nothing of it is a test. */
        const int64_t end = now_ms() + limit_ms();

        running = "exit";
        while (waitpid(child, &status, WNOHANG) == 0) {
            if (now_ms() > end) {
                fprintf(stderr, "TIMEOUT at exit; the stack of every thread:\n");
                print_stacks(child);
                kill(child, SIGKILL);
                waitpid(child, &status, 0);
                break;
            }
            poll(NULL, 0, 1);
        }
    } else {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    }
    if (!done || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "%s %d in %s (SPN_TEST_SEED=%llu)\n",
                WIFSIGNALED(status) ? "signal" : "exit status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), running,
                (unsigned long long)atomic_load(&seed));
        printf("FAIL %s\n", running);
        result.failed++;
    }
    return conclude(&result);
}

int t_main(int argc, char **argv)
{
    bool watchdog = true;
    int fds[2];
    pid_t child;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-watchdog") == 0)
            watchdog = false;
        if (strcmp(argv[i], "--list") == 0) {
            for (int t = 0; t < test_count; t++)
                if (!tests[t].when_named)
                    printf("%s\n", tests[t].name);
            return 0;
        }
    }
    if (!names_are_known(argc, argv))
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    choose_seed();
    if (!watchdog) {
        const struct result result = run_tests(argc, argv);
        return conclude(&result);
    }
    if (pipe(fds) != 0) {
        perror("pipe");
        return 1;
    }
    fflush(NULL);
    child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    if (child == 0) {
        close(fds[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        progress_fd = fds[1];
        (void)run_tests(argc, argv);
        exit(0); /* the parent counts; another status means it died */
    }
    close(fds[1]);
    return watch(child, fds[0]);
}

int main(int argc, char **argv)
{
    return t_main(argc, argv);
}
