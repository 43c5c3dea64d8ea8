/* SPDX-License-Identifier: MIT */
/*
 * test.h - the test harness: one process per test file.
 *
 *     // The property, in one sentence.
 *     TEST(latch__opened_twice__stays_open, "LS-1")   // contract ids it proves
 *     {
 *         CHECK_OK(spn_latch_create(&latch, 1));
 *         CHECK_EQ(spn_latch_count(latch), 1);
 *     }
 *
 * Tests register themselves and run in the order they are written.  A failed
 * CHECK prints its place and values, fails the test and lets it go on; REQUIRE
 * ends the process at once, for what the rest of the test stands on.  Checks
 * may be made on any thread.
 *
 * The process that runs the tests has a parent that watches it: a test that
 * takes longer than T_TEST_LIMIT_NS is a bug, and the parent prints the stack
 * of every thread before it kills it.  Run with --list to see the tests, with
 * names to run only those, with --no-watchdog under a debugger.  The last line
 * is "N passed, N failed"; exit 0 if all passed, 1 if one failed, 77 if all
 * were skipped.
 *
 *     SPN_TEST_SCALE      multiplies every delay (and divides t_rounds)
 *     SPN_TEST_SEED       repeats a random test
 *     SPN_TEST_LIMIT_MS   in place of T_TEST_LIMIT_NS, not scaled
 *
 * No test sleeps to let things happen: T_AWAIT waits for a condition, and
 * clocks are driven by hand.
 */
#ifndef TEST_H
#define TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <spindle/status.h>
#include <spindle/time.h>

/* The delays of contract G-28, each multiplied by SPN_TEST_SCALE (1 by default;
 * sanitizers, qemu and slow machines want more). */
int64_t t_scaled(int64_t ns);
#define T_PROBE_NS      t_scaled(SPN_MS(12))
#define T_SHORT_NS      t_scaled(SPN_MS(50))
#define T_SMALL_NS      t_scaled(SPN_MS(250))
#define T_MEDIUM_NS     t_scaled(SPN_MS(500))
#define T_LONG_NS       t_scaled(SPN_SEC(10))
#define T_TEST_LIMIT_NS t_scaled(SPN_SEC(60))

/* The sanitizers, by either compiler's names. */
#if defined(__has_feature)
#define T_HAS_FEATURE(name) __has_feature(name)
#else
#define T_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || T_HAS_FEATURE(thread_sanitizer)
#define T_TSAN 1
#else
#define T_TSAN 0
#endif
/* It keeps what was freed for a while: then the memory in use tells nothing. */
#if defined(__SANITIZE_ADDRESS__) || T_HAS_FEATURE(address_sanitizer)
#define T_ASAN 1
#else
#define T_ASAN 0
#endif
/* Frames and thread stacks are larger then, and what a process inherits differs. */
#define T_INSTRUMENTED (T_TSAN || T_ASAN)

/* Threads a stress test starts where the number does not matter. */
#define T_THREADS 4

#define TEST(name, ...)                                              \
    static void name(void);                                          \
    __attribute__((constructor)) static void t_register_##name(void) \
    {                                                                \
        t_register(#name, name);                                     \
    }                                                                \
    static void name(void)

/* As TEST, but run only when asked for by name: what test_harness.c runs. */
#define TEST_WHEN_NAMED(name)                                        \
    static void name(void);                                          \
    __attribute__((constructor)) static void t_register_##name(void) \
    {                                                                \
        t_register_when_named(#name, name);                          \
    }                                                                \
    static void name(void)

#define CHECK(condition) t_check(!!(condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(actual, expected)                                                   \
    t_check_eq((int64_t)(actual), (int64_t)(expected), #actual, #expected, __FILE__, \
               __LINE__)
#define CHECK_STR(actual, expected) \
    t_check_str((actual), (expected), #actual, __FILE__, __LINE__)
/* A status, shown by name when it is another one. */
#define CHECK_STATUS(call, expected) \
    t_check_status((call), (expected), #call, __FILE__, __LINE__)
#define CHECK_OK(call)     CHECK_STATUS(call, SPN_OK)
#define REQUIRE(condition) t_require(!!(condition), #condition, __FILE__, __LINE__)
#define REQUIRE_OK(call)                                                        \
    t_require(t_check_status((call), SPN_OK, #call, __FILE__, __LINE__), #call, \
              __FILE__, __LINE__)

/* Waits, without sleeping blindly, until the condition holds; the watchdog
 * ends a test whose condition never does. */
#define T_AWAIT(condition)   \
    do {                     \
        while (!(condition)) \
            t_pause();       \
    } while (0)

/* Runs fn(0, arg) .. fn(count - 1, arg), each on its own thread, started
 * together, and joins them all. */
void t_parallel(int count, void (*fn)(int index, void *arg), void *arg);

/*
 * Runs fn(arg) in a child process, for what can happen only once in a process
 * or ends it, and returns its wait status: exit 0, or 1 if a check failed there.
 * What the child wrote to standard output and error goes to `output` as a
 * string, cut to capacity; NULL: to where the test's own goes.
 */
int t_child(void (*fn)(void *arg), void *arg, char *output, size_t capacity);
/* The child must pass. */
#define CHECK_CHILD(fn, arg) CHECK_EQ(t_child((fn), (arg), NULL, 0), 0)

/* A seed for random tests: SPN_TEST_SEED, or a new one; printed on failure. */
uint64_t t_seed(void);
/* The next number of a splitmix64 sequence. */
uint64_t t_random(uint64_t *state);

/* Threads of this process, as the kernel has them; a sanitizer's own are among them, those
 * that are over are not. */
int t_threads(void);
/* Waits until there are no more than that; the test fails and ends if there still are
 * after T_LONG_NS. */
void t_await_threads(int count);
/* Waits, for a moment at most, until the threads of earlier tests have gone: those of a pool
 * that has ended may be on their way out. */
void t_let_threads_go(void);
/* Waits until that many threads of this name (its first letters) sleep in the kernel. */
void t_await_asleep(const char *name, int count);

/* Memory of this process that is in RAM, in KiB. */
long t_resident_kb(void);

/* CPU time that all threads but this one have used so far, those that have ended included. */
int64_t t_cpu_of_others_ns(void);

/* Marks the test as skipped, with the reason, and leaves it to return. */
void t_skip(const char *reason);

/* Iterations scaled to the build: fewer where instrumentation is dear. */
int t_rounds(int rounds);

/* ---- what the macros call ---------------------------------------------- */
void t_register(const char *name, void (*fn)(void));
void t_register_when_named(const char *name, void (*fn)(void));
int t_main(int argc, char **argv); /* all that main does */
bool t_check(bool ok, const char *expression, const char *file, int line);
bool t_check_eq(int64_t actual, int64_t expected, const char *actual_text,
                const char *expected_text, const char *file, int line);
bool t_check_str(const char *actual, const char *expected, const char *text,
                 const char *file, int line);
bool t_check_status(int actual, int expected, const char *text, const char *file,
                    int line);
void t_require(bool ok, const char *expression, const char *file, int line);
void t_pause(void);

#endif /* TEST_H */
