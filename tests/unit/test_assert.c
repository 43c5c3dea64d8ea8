/* SPDX-License-Identifier: MIT */
/* A broken invariant ends the process and says where; one that holds does nothing. */
#include "test.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"

static char output[4096];

/* Says first what the assertion is expected to say. */
static void break_one(void *arg)
{
    const int one = 1;

    (void)arg;
    printf("spindle: assertion failed: %s:%d: one + one == 3\n", __FILE__,
           __LINE__ + 2);
    fflush(stdout);
    spn__assert(one + one == 3);
    printf("went on\n");
}

static bool aborted(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* A false condition prints one line with its place and text, and aborts. */
TEST(assert__false__place_and_abort)
{
    char *second;

    CHECK(aborted(t_child(break_one, NULL, output, sizeof output)));
    second = strchr(output, '\n');
    REQUIRE(second != NULL);
    *second++ = '\0';
    CHECK(strlen(second) == strlen(output) + 1);
    CHECK(strncmp(second, output, strlen(output)) == 0);
    CHECK_STR(second + strlen(output), "\n");
}

static int evaluated;

static bool count_and_hold(void)
{
    evaluated++;
    return true;
}

/* A true condition is evaluated once and nothing happens. */
TEST(assert__true__nothing)
{
    evaluated = 0;
    spn__assert(count_and_hold());
    CHECK_EQ(evaluated, 1);
}

static void break_debug(void *arg)
{
    (void)arg;
    spn__debug_assert(count_and_hold() && evaluated == 0);
}

/* The dear form is an assertion in debug builds, and in others not even
 * evaluated. */
TEST(assert__debug_form__only_without_NDEBUG)
{
    const int status = t_child(break_debug, NULL, output, sizeof output);

    evaluated = 0;
    spn__debug_assert(count_and_hold());
#ifdef NDEBUG
    CHECK_EQ(status, 0);
    CHECK_STR(output, "");
    CHECK_EQ(evaluated, 0);
#else
    CHECK(aborted(status));
    CHECK(strstr(output, "count_and_hold() && evaluated == 0") != NULL);
    CHECK_EQ(evaluated, 1);
#endif
}

struct failure {
    const char *condition, *file;
    int line;
};

static void fail_directly(void *arg)
{
    const struct failure *f = arg;

    spn__assert_failed(f->condition, f->file, f->line);
}

/* Line numbers are printed in full. */
TEST(assert__line_numbers__in_full)
{
    const struct {
        int line;
        const char *expected;
    } cases[] = {
        { 1, "spindle: assertion failed: f.c:1: x\n" },
        { 10, "spindle: assertion failed: f.c:10: x\n" },
        { 90210, "spindle: assertion failed: f.c:90210: x\n" },
        { INT_MAX, "spindle: assertion failed: f.c:2147483647: x\n" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct failure f = { "x", "f.c", cases[i].line };

        CHECK(aborted(t_child(fail_directly, &f, output, sizeof output)));
        CHECK_STR(output, cases[i].expected);
    }
}

/* A line too long for the buffer is cut and still ends in a newline. */
TEST(assert__long_condition__cut)
{
    static char condition[3000];
    struct failure f = { condition, "f.c", 7 };

    memset(condition, 'c', sizeof condition - 1);
    CHECK(aborted(t_child(fail_directly, &f, output, sizeof output)));
    CHECK_EQ(strlen(output), 512);
    CHECK(strncmp(output, "spindle: assertion failed: f.c:7: ccc", 37) == 0);
    CHECK_STR(output + 509, "cc\n");
}

static void fail_to_socket(void *arg)
{
    struct failure f = { "x > 0", "f.c", 7 };

    dup2(*(int *)arg, STDERR_FILENO);
    fail_directly(&f);
}

/* The line leaves in one write: on a socket that keeps packets it is one. */
TEST(assert__line__one_write)
{
    char packet[512];
    int fds[2];

    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
    CHECK(aborted(t_child(fail_to_socket, &fds[1], output, sizeof output)));
    close(fds[1]);
    CHECK_EQ(recv(fds[0], packet, sizeof packet, 0), 40);
    CHECK(memcmp(packet, "spindle: assertion failed: f.c:7: x > 0\n", 40) == 0);
    CHECK_EQ(recv(fds[0], packet, sizeof packet, 0), 0);
    close(fds[0]);
}

static void fail_without_stderr(void *arg)
{
    close(STDERR_FILENO);
    fail_directly(arg);
}

/* With nowhere to write to, the process still ends. */
TEST(assert__stderr_closed__abort)
{
    struct failure f = { "x", "f.c", 7 };

    CHECK(aborted(t_child(fail_without_stderr, &f, output, sizeof output)));
    CHECK_STR(output, "");
}
