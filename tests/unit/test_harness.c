/* SPDX-License-Identifier: MIT */
/*
 * The harness itself: a failure it does not report is a failure nobody sees.
 *
 * The tests named subject__... misbehave on purpose and run only when asked for
 * by name.  Each real test runs the whole harness, watchdog and all, on some of
 * them in a child process and reads what it printed.
 */
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the subjects -------------------------------------------------------- */

TEST_WHEN_NAMED(subject__passes)
{
    CHECK(true);
    CHECK_EQ(1 + 1, 2);
    CHECK_STR("a", "a");
    CHECK_OK(SPN_OK);
    REQUIRE_OK(SPN_OK);
}

TEST_WHEN_NAMED(subject__fails_each_check)
{
    CHECK(1 > 2);
    CHECK_EQ(1 + 1, 3);
    CHECK_STR("left", "right");
    CHECK_STR(NULL, "something");
    CHECK_OK(SPN_EBUSY);
    printf("went on\n");
}

static void fail_on_thread(int index, void *arg)
{
    (void)arg;
    CHECK(index != 2);
}

TEST_WHEN_NAMED(subject__fails_on_a_thread)
{
    t_parallel(T_THREADS, fail_on_thread, NULL);
}

TEST_WHEN_NAMED(subject__requires)
{
    REQUIRE(1 > 2);
    printf("went on\n");
}

TEST_WHEN_NAMED(subject__skips)
{
    t_skip("no such device");
}

TEST_WHEN_NAMED(subject__skips_without_reason)
{
    t_skip("");
}

TEST_WHEN_NAMED(subject__crashes)
{
    raise(SIGKILL);
}

TEST_WHEN_NAMED(subject__leaves)
{
    exit(0);
}

__attribute__((noinline)) static void wait_for_ever(void)
{
    for (;;)
        (void)poll(NULL, 0, -1);
}

TEST_WHEN_NAMED(subject__hangs)
{
    wait_for_ever();
}

/* Leaves a process behind that holds every descriptor the test had, but for its
 * output, until the watchdog is gone. */
TEST_WHEN_NAMED(subject__dies_before_its_child)
{
    const pid_t watchdog = getppid();

    if (fork() == 0) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        T_AWAIT(kill(watchdog, 0) != 0);
        _exit(0);
    }
    raise(SIGKILL);
}

static void hang_in_child(void *arg)
{
    (void)arg;
    wait_for_ever();
}

TEST_WHEN_NAMED(subject__hangs_in_a_child)
{
    CHECK_CHILD(hang_in_child, NULL);
}

static void exit_badly(void)
{
    _exit(23);
}

TEST_WHEN_NAMED(subject__passes_and_then_exits_badly)
{
    atexit(exit_badly); /* as a leak checker does */
}

TEST_WHEN_NAMED(subject__fails_with_a_seed)
{
    uint64_t state = t_seed();

    CHECK_EQ(t_random(&state), t_seed());
}

static void fail_in_child(void *arg)
{
    (void)arg;
    CHECK(1 > 2);
}

TEST_WHEN_NAMED(subject__fails_in_a_child)
{
    CHECK_CHILD(fail_in_child, NULL);
}

/* ---- running them ---------------------------------------------------------- */

static char output[65536];

static void run_harness(void *arguments)
{
    char **argv = arguments;
    int argc = 0;

    while (argv[argc] != NULL)
        argc++;
    exit(t_main(argc, argv));
}

/* Runs the harness on the named subjects; its exit status, or -1. */
#define RUN(...) run((char *[]){ "harness", __VA_ARGS__, NULL })
static int run(char **argv)
{
    const int status = t_child(run_harness, argv, output, sizeof output);

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool printed(const char *text)
{
    const bool found = strstr(output, text) != NULL;

    if (!found)
        fprintf(stderr, "  \"%s\" is not in this output:\n%s", text, output);
    return found;
}

/* The delays of the tests are those of the contract, times one factor. */
TEST(harness__delays__are_those_of_the_contract, "G-28")
{
    const int64_t scale = t_scaled(1);

    CHECK(scale >= 1);
    CHECK_EQ(T_PROBE_NS, 12 * 1000000 * scale);
    CHECK_EQ(T_SHORT_NS, 50 * 1000000 * scale);
    CHECK_EQ(T_SMALL_NS, 250 * 1000000 * scale);
    CHECK_EQ(T_MEDIUM_NS, 500 * 1000000 * scale);
    CHECK_EQ(T_LONG_NS, INT64_C(10) * 1000000000 * scale);
}

/* A passing test gives exit 0 and the closing line. */
TEST(harness__passing_test__exit_0)
{
    CHECK_EQ(RUN("subject__passes"), 0);
    CHECK(printed("ok   subject__passes\n1 passed, 0 failed\n"));
}

/* Each kind of check can fail, says where and what it saw, and lets the test go
 * on; the run fails. */
TEST(harness__failing_checks__exit_1_and_values)
{
    CHECK_EQ(RUN("subject__fails_each_check", "subject__passes"), 1);
    CHECK(printed("test_harness.c:"));
    CHECK(printed("1 > 2 is false"));
    CHECK(printed("1 + 1 is 2, expected 3 (3)"));
    CHECK(printed("is \"left\", expected \"right\""));
    CHECK(printed("NULL is \"(null)\", expected \"something\""));
    CHECK(printed("SPN_EBUSY gave SPN_EBUSY (-4), expected SPN_OK"));
    CHECK(printed("went on\n"));
    CHECK(printed("FAIL subject__fails_each_check\n"));
    CHECK(printed("1 passed, 1 failed\n"));
}

/* A check that fails on another thread fails the test. */
TEST(harness__check_fails_on_a_thread__exit_1)
{
    CHECK_EQ(RUN("subject__fails_on_a_thread"), 1);
    CHECK(printed("0 passed, 1 failed\n"));
}

/* A check that fails in a child process fails the test. */
TEST(harness__check_fails_in_a_child__exit_1)
{
    CHECK_EQ(RUN("subject__fails_in_a_child"), 1);
    CHECK(printed("1 > 2 is false"));
    CHECK(printed("0 passed, 1 failed\n"));
}

/* REQUIRE ends the process, and what passed before is still counted. */
TEST(harness__failing_require__ends_the_process)
{
    CHECK_EQ(RUN("subject__passes", "subject__requires", "subject__skips"), 1);
    CHECK(printed("the test stands on 1 > 2"));
    CHECK(strstr(output, "went on") == NULL);
    CHECK(strstr(output, "no such device") == NULL);
    CHECK(printed("1 passed, 1 failed\n"));
}

/* Only skipped tests: exit 77 with the reason; one that passes makes it 0. */
TEST(harness__skipped_tests__exit_77)
{
    CHECK_EQ(RUN("subject__skips"), 77);
    CHECK(printed("skipped: no such device\nskip subject__skips\n"));
    CHECK(printed("0 passed, 0 failed, 1 skipped\n"));
    CHECK_EQ(RUN("subject__skips", "subject__passes"), 0);
    CHECK(printed("1 passed, 0 failed, 1 skipped\n"));
}

/* A skip that gives no reason is a failure. */
TEST(harness__skip_without_reason__fails)
{
    CHECK_EQ(RUN("subject__skips_without_reason"), 1);
    CHECK(printed("the test stands on a reason to skip it"));
    CHECK(printed("0 passed, 1 failed\n"));
}

/* A crash is told with its signal and its test, and fails the run. */
TEST(harness__crash__reported)
{
    CHECK_EQ(RUN("subject__passes", "subject__crashes"), 1);
    CHECK(printed("signal 9 in subject__crashes"));
    CHECK(printed("FAIL subject__crashes\n1 passed, 1 failed\n"));
}

/* A test that ends the process is a failure, also with status 0. */
TEST(harness__test_calls_exit__reported)
{
    CHECK_EQ(RUN("subject__passes", "subject__leaves"), 1);
    CHECK(printed("exit status 0 in subject__leaves"));
    CHECK(printed("1 passed, 1 failed\n"));
}

/* What goes wrong after the last test (a leak report) fails the run. */
TEST(harness__bad_exit_after_the_tests__reported)
{
    CHECK_EQ(RUN("subject__passes_and_then_exits_badly"), 1);
    CHECK(printed("exit status 23 in exit"));
    CHECK(printed("1 passed, 1 failed\n"));
}

/* A death is noticed though another process keeps the pipe open, and long
 * before the time limit. */
TEST(harness__death_with_a_child_left__reported_as_a_crash)
{
    CHECK_EQ(RUN("subject__dies_before_its_child"), 1);
    CHECK(printed("signal 9 in subject__dies_before_its_child"));
    CHECK(strstr(output, "TIMEOUT") == NULL);
}

/* Runs them with a limit, and tells which: with a longer one if the machine was so busy that
 * it was over before the one that hangs had come to where it does. */
static const char *run_with_limit(char **argv, const char *hangs, const char *where)
{
    static const char *const limits[] = { "300", "1000", "4000" };
    char told[64];
    size_t i = 0;

    snprintf(told, sizeof told, "TIMEOUT in %s after", hangs);
    for (;; i++) {
        setenv("SPN_TEST_LIMIT_MS", limits[i], 1);
        CHECK_EQ(run(argv), 1);
        unsetenv("SPN_TEST_LIMIT_MS");
        if (i == 2 ||
            (strstr(output, told) != NULL &&
             (strstr(output, where) != NULL || strstr(output, "no stacks:") != NULL)))
            return limits[i];
    }
}

/* A test that hangs is killed, after the stack of every thread was printed. */
TEST(harness__hung_test__killed_with_stacks)
{
    char *argv[] = { "harness", "subject__passes", "subject__hangs", NULL };
    const char *limit = run_with_limit(argv, "subject__hangs", "wait_for_ever");
    char told[128];

    snprintf(told, sizeof told,
             "TIMEOUT in subject__hangs after %s ms; the stack of every thread:\n",
             limit);
    CHECK(printed(told));
    CHECK(printed("signal 9 in subject__hangs"));
    CHECK(printed("FAIL subject__hangs\n1 passed, 1 failed\n"));
    if (strstr(output, "no stacks:") != NULL)
        t_skip("neither eu-stack nor gdb can look into a process here");
    else
        CHECK(printed("wait_for_ever"));
}

/* A hung child process is shown and does not outlive its test: its end of the
 * output would keep this test waiting. */
TEST(harness__hung_child__killed_with_stacks)
{
    char *argv[] = { "harness", "subject__hangs_in_a_child", NULL };

    (void)run_with_limit(argv, "subject__hangs_in_a_child", "hang_in_child");
    CHECK(printed("TIMEOUT in subject__hangs_in_a_child after "));
    CHECK(printed("signal 9 in subject__hangs_in_a_child"));
    if (strstr(output, "no stacks:") != NULL)
        t_skip("neither eu-stack nor gdb can look into a process here");
    else
        CHECK(printed("hang_in_child"));
}

/* The seed of a failed random test is printed and repeats its numbers. */
TEST(harness__failure_with_a_seed__seed_printed)
{
    uint64_t state = 12345;
    char expected[64];

    setenv("SPN_TEST_SEED", "12345", 1);
    CHECK_EQ(RUN("subject__fails_with_a_seed"), 1);
    unsetenv("SPN_TEST_SEED");
    CHECK(printed("FAIL subject__fails_with_a_seed (SPN_TEST_SEED=12345)\n"));
    snprintf(expected, sizeof expected, "is %lld, expected",
             (long long)t_random(&state));
    CHECK(printed(expected));
}

/* A name that no test has fails: to run nothing is not to pass. */
TEST(harness__unknown_name__exit_1)
{
    CHECK_EQ(RUN("subject__passes", "no_such_test"), 1);
    CHECK(printed("there is no test no_such_test\n"));
    CHECK(strstr(output, "ok ") == NULL);
}

/* --list names every test that would run, and no subject. */
TEST(harness__list__names_only_the_real_tests)
{
    CHECK_EQ(RUN("--list"), 0);
    CHECK(printed("harness__list__names_only_the_real_tests\n"));
    CHECK(strstr(output, "subject__") == NULL);
}

/* Without the watchdog the outcome and the closing line are the same. */
TEST(harness__no_watchdog__same_outcome)
{
    CHECK_EQ(RUN("--no-watchdog", "subject__passes"), 0);
    CHECK(printed("1 passed, 0 failed\n"));
    CHECK_EQ(RUN("--no-watchdog", "subject__fails_each_check"), 1);
    CHECK(printed("0 passed, 1 failed\n"));
    CHECK_EQ(RUN("--no-watchdog", "subject__skips"), 77);
}

static void write_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5000; i++)
        printf("line %d\n", i);
}

/* The output of a child is cut to the caller's buffer and ends in a NUL. */
TEST(harness__child_writes_much__output_cut)
{
    char small[16];

    CHECK_EQ(t_child(write_much, NULL, small, sizeof small), 0);
    CHECK_STR(small, "line 0\nline 1\nl");
}

static void *wait_for_end(void *fd)
{
    char byte;

    (void)!read(*(const int *)fd, &byte, 1);
    return NULL;
}

/* Threads are counted while they are there, and waited for until they are not. */
TEST(harness__threads__counted_and_awaited)
{
    pthread_t threads[2];
    int fds[2], before;

    t_let_threads_go();
    REQUIRE(pipe(fds) == 0);
    REQUIRE(pthread_create(&threads[0], NULL, wait_for_end, &fds[0]) == 0);
    before = t_threads(); /* with a sanitizer's own, which come with the first */
    CHECK(before >= 2);
    REQUIRE(pthread_create(&threads[1], NULL, wait_for_end, &fds[0]) == 0);
    CHECK_EQ(t_threads(), before + 1);
    t_await_threads(before + 1); /* there are no more */
    close(fds[1]);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(t_threads(), before - 1);
    t_await_threads(before - 1);
    for (int i = 0; i < 100; i++) { /* who was joined is not counted, listed or not */
        REQUIRE(pthread_create(&threads[0], NULL, wait_for_end, &fds[0]) == 0);
        REQUIRE(pthread_join(threads[0], NULL) == 0);
        CHECK_EQ(t_threads(), before - 1);
    }
    close(fds[0]);
}
