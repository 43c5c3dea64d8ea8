/* SPDX-License-Identifier: MIT */
/*
 * The runner's own test: subjects that work, crash, hang, give up, say nothing
 * and are not installed.  Hidden; tests/e2e/test_bench.sh asks for it.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

static void work(struct bench *b, double factor)
{
    /* A figure that is known: the tests compare it. */
    bench_report(b, "ns_per_op", 10 * factor);
    bench_report(b, "ops_per_s", 100 / factor);
}

static void run_spindle(struct bench *b)
{
    work(b, 2);
}
static void run_floor(struct bench *b)
{
    work(b, 1);
}
static void run_peer(struct bench *b)
{
    work(b, 4);
}
static void run_slow_peer(struct bench *b)
{
    work(b, 8);
}
static void run_crash(struct bench *b)
{
    bench_report(b, "ns_per_op", 1);
    raise(SIGKILL);
}
static void run_hang(struct bench *b)
{
    (void)b;
    for (;;)
        pause();
}
static void run_skip(struct bench *b)
{
    bench_skip(b, "does not want to");
}
static void run_fail(struct bench *b)
{
    BENCH_CHECK(b, 1 + 1 == 3);
}
static void run_exit(struct bench *b)
{
    (void)b;
    exit(7);
}
static void run_program(struct bench *b)
{
    const char *const argv[] = { "/bin/sh", "-c", "echo value ns_per_op 160", NULL };

    bench_exec(b, argv);
}
static void run_bad_program(struct bench *b)
{
    const char *const argv[] = {
        "/bin/sh", "-c", "echo value ns_per_op 1; echo fail lost an item; exit 3", NULL
    };

    bench_exec(b, argv);
}
static void run_no_program(struct bench *b)
{
    const char *const argv[] = { "/nowhere/program", NULL };

    bench_exec(b, argv);
}
static const char *peer_version(void)
{
    return "1.2.3";
}

BENCH_WORKLOAD(selftest) = {
    .name = "selftest",
    .question = "Does the runner survive its subjects?",
    .metric = "ns_per_op",
    .hidden = true,
    .variants = { { .name = "plain" } },
    .subjects = { { .name = "spindle", .run = run_spindle },
                  { .name = "floor", .run = run_floor, .detail = "known" },
                  { .name = "peer", .run = run_peer, .version = peer_version },
                  { .name = "slow", .run = run_slow_peer },
                  { .name = "crash", .run = run_crash },
                  { .name = "hang", .run = run_hang },
                  { .name = "skip", .run = run_skip },
                  { .name = "fail", .run = run_fail },
                  { .name = "exit", .run = run_exit },
                  { .name = "program", .run = run_program },
                  { .name = "bad program", .run = run_bad_program },
                  { .name = "no program", .run = run_no_program },
                  { .name = "absent", .package = "libabsent-dev" } },
};
