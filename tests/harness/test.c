/* SPDX-License-Identifier: MIT */
/*
 * test.c - runs the tests of one file and watches over them.
 *
 * Two processes: the child runs the tests one after the other and prints a line
 * each; the parent counts seconds.  The child says through a pipe which test it
 * is in, so that the parent knows when a test, not the file, has taken too
 * long; it then prints the stack of every thread of the child (eu-stack, or gdb
 * where that is missing) and kills it.  The parent also tells of a crash.
 *
 * The harness does not use the library it tests.
 */
#include "test.h"

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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TESTS_MAX = 2048, EXIT_SKIPPED = 77 };

static struct test {
    const char *name;
    void (*fn)(void);
} tests[TESTS_MAX];
static int test_count;

/* What the running test has come to; set from any thread. */
static atomic_int failures;
static atomic_bool skipped;
static _Atomic(uint64_t) seed;
static int progress_fd = -1; /* child: tells the parent which test runs */

void t_register(const char *name, void (*fn)(void))
{
    if (test_count == TESTS_MAX) {
        fprintf(stderr, "more than %d tests in one file\n", TESTS_MAX);
        abort();
    }
    tests[test_count++] = (struct test){ name, fn };
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
        fprintf(stderr, "  %s:%d: %s is %lld, expected %s (%lld)\n", base_name(file), line,
                actual_text, (long long)actual, expected_text, (long long)expected);
    }
    return actual == expected;
}

bool t_check_str(const char *actual, const char *expected, const char *text,
                 const char *file, int line)
{
    const bool ok = actual != NULL && strcmp(actual, expected) == 0;

    if (!ok) {
        atomic_fetch_add(&failures, 1);
        fprintf(stderr, "  %s:%d: %s is \"%s\", expected \"%s\"\n", base_name(file), line, text,
                actual != NULL ? actual : "(null)", expected);
    }
    return ok;
}

bool t_check_status(int actual, int expected, const char *text, const char *file, int line)
{
    if (actual != expected) {
        atomic_fetch_add(&failures, 1);
        fprintf(stderr, "  %s:%d: %s gave %s (%d), expected %s\n", base_name(file), line, text,
                spn_status_name(actual), actual, spn_status_name(expected));
    }
    return actual == expected;
}

void t_require(bool ok, const char *expression, const char *file, int line)
{
    if (!ok) {
        fprintf(stderr, "  %s:%d: the test stands on %s\n", base_name(file), line, expression);
        fflush(NULL);
        _exit(1);
    }
}

void t_skip(const char *reason)
{
    printf("  skipped: %s\n", reason);
    atomic_store(&skipped, true);
}

/* ---- delays, seeds, threads --------------------------------------------- */

static int64_t scale(void)
{
    static int64_t factor;

    if (factor == 0) {
        const char *text = getenv("SPN_TEST_SCALE");
        factor = text != NULL ? strtoll(text, NULL, 10) : 1;
        if (factor < 1)
            factor = 1;
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

uint64_t t_seed(void)
{
    uint64_t s = atomic_load(&seed);

    if (s == 0) {
        const char *text = getenv("SPN_TEST_SEED");
        struct timespec ts;
        clock_gettime(CLOCK_REALTIME, &ts);
        s = text != NULL ? strtoull(text, NULL, 0) : (uint64_t)ts.tv_nsec * 2654435761u | 1;
        atomic_store(&seed, s);
    }
    return s;
}

uint64_t t_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void t_pause(void)
{
    sched_yield();
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

/* ---- the child: one test after the other --------------------------------- */

static bool wanted(const char *name, int argc, char **argv)
{
    bool any = false;

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-')
            continue;
        any = true;
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return !any;
}

static void tell_parent(int index)
{
    if (progress_fd >= 0)
        while (write(progress_fd, &index, sizeof index) < 0 && errno == EINTR) {
        }
}

static int run_tests(int argc, char **argv)
{
    int passed = 0, failed = 0, skips = 0;

    for (int i = 0; i < test_count; i++) {
        if (!wanted(tests[i].name, argc, argv))
            continue;
        atomic_store(&failures, 0);
        atomic_store(&skipped, false);
        tell_parent(i);
        tests[i].fn();
        if (atomic_load(&failures) != 0) {
            failed++;
            printf("FAIL %s", tests[i].name);
            if (atomic_load(&seed) != 0)
                printf(" (SPN_TEST_SEED=%llu)", (unsigned long long)atomic_load(&seed));
            printf("\n");
        } else if (atomic_load(&skipped)) {
            skips++;
            printf("skip %s\n", tests[i].name);
        } else {
            passed++;
            printf("ok   %s\n", tests[i].name);
        }
        fflush(stdout);
    }
    printf("%d passed, %d failed", passed, failed);
    if (skips != 0)
        printf(", %d skipped", skips);
    printf("\n");
    fflush(stdout);
    if (failed != 0)
        return 1;
    return passed == 0 && skips != 0 ? EXIT_SKIPPED : 0;
}

/* ---- the parent: the watchdog -------------------------------------------- */

static void print_stacks(pid_t pid)
{
    char command[256];

    snprintf(command, sizeof command,
             "eu-stack -p %d 2>/dev/null || gdb -p %d -batch -nx -ex 'thread apply all bt' "
             "2>/dev/null || for t in /proc/%d/task/*; do echo $t; cat $t/stack $t/wchan; done",
             (int)pid, (int)pid, (int)pid);
    fflush(NULL);
    if (system(command) != 0)
        fprintf(stderr, "no stacks: install elfutils or gdb\n");
}

static int watch(pid_t child, int fd)
{
    const int limit_ms = (int)(T_TEST_LIMIT_NS / 1000000);
    int running = -1, index, status;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const int ready = poll(&p, 1, limit_ms);

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0) {
            fprintf(stderr, "TIMEOUT in %s after %d ms; the stack of every thread:\n",
                    running >= 0 ? tests[running].name : "start-up", limit_ms);
            print_stacks(child);
            kill(child, SIGKILL);
        } else if (read(fd, &index, sizeof index) == (ssize_t)sizeof index) {
            running = index;
            continue;
        }
        break;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && (WEXITSTATUS(status) <= 1 || WEXITSTATUS(status) == EXIT_SKIPPED))
        return WEXITSTATUS(status);
    fprintf(stderr, "%s %d in %s\n", WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
            running >= 0 ? tests[running].name : "start-up");
    printf("FAIL %s\n0 passed, 1 failed\n", running >= 0 ? tests[running].name : "start-up");
    return 1;
}

int main(int argc, char **argv)
{
    bool watchdog = true;
    int fds[2];
    pid_t child;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-watchdog") == 0)
            watchdog = false;
        if (strcmp(argv[i], "--list") == 0) {
            for (int t = 0; t < test_count; t++)
                printf("%s\n", tests[t].name);
            return 0;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!watchdog)
        return run_tests(argc, argv);
    if (pipe(fds) != 0) {
        perror("pipe");
        return 1;
    }
    child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    if (child == 0) {
        close(fds[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        progress_fd = fds[1];
        const int rc = run_tests(argc, argv);
        exit(rc);
    }
    close(fds[1]);
    return watch(child, fds[0]);
}
