/* SPDX-License-Identifier: MIT */
/*
 * test_timer_long.c - timers with what takes long: ten million pending, ten million
 * cancelled, a process that is stopped for seconds, a clock that is set.  Run by
 * `make test-long`.
 */
#include "test.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <spindle.h>

static atomic_long fired;

static int count(spn_timeout *t)
{
    (void)t;
    atomic_fetch_add(&fired, 1);
    return 0;
}

static spn_timer *open_timer(int64_t tick_ns)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timer *timer;

    atomic_store(&fired, 0);
    opts.tick_ns = tick_ns;
    opts.slots = 2048;
    REQUIRE_OK(spn_timer_create(&timer, &opts));
    return timer;
}

static long resident_kb(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    REQUIRE(f != NULL && fscanf(f, "%ld %ld", &pages, &resident) == 2);
    fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Ten million pending at a time: all taken, counted, whole, and returned by stop. */
TEST(timer__ten_million_pending__held, "HWT-24", "HWT-37", "HWT-10")
{
    const size_t many = (size_t)t_rounds(10000000);
    spn_timeout *all = calloc(many, sizeof *all), *left;
    spn_timer *timer = open_timer(SPN_MS(1));
    size_t returned = 0;
    uint64_t seed = t_seed();

    REQUIRE(all != NULL);
    for (size_t i = 0; i < many; i++) /* a minute to ten years */
        CHECK_OK(spn_timer_schedule(timer, &all[i], count,
                                    SPN_SEC(60) + (int64_t)(t_random(&seed) >> 5)));
    CHECK_EQ(spn_timer_pending(timer), many);
    CHECK_OK(spn_timer_check(timer));
    for (size_t i = 0; i < many; i += 2)
        CHECK_EQ(spn_timer_cancel(timer, &all[i]), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_pending(timer), many / 2);
    CHECK_OK(spn_timer_check(timer));
    REQUIRE_OK(spn_timer_stop(timer, &left));
    while (spn_timeout_pop(&left) != NULL)
        returned++;
    CHECK_EQ(returned, many / 2);
    CHECK_EQ(atomic_load(&fired), 0);
    CHECK_OK(spn_timer_destroy(timer));
    free(all);
}

/* Ten million scheduled an hour away and cancelled: no memory, and none pending. */
TEST(timer__ten_million_cancelled__memory_flat, "HWT-34", "P17")
{
    spn_timer *timer = open_timer(SPN_MS(1));
    spn_timeout t[16];
    long before = 0;

    memset(t, 0, sizeof t);
    for (int i = 0; i < t_rounds(10000000); i++) {
        spn_timeout *one = &t[i % 16];

        CHECK_OK(spn_timer_schedule(timer, one, count, SPN_SEC(3600)));
        CHECK_EQ(spn_timer_cancel(timer, one), SPN_TIMEOUT_REMOVED);
        CHECK_EQ(spn_timer_pending(timer), 0);
        if (i == 10000)
            before = resident_kb();
    }
    CHECK(resident_kb() - before < 1024);
    REQUIRE_OK(spn_timer_stop(timer, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}

/* ---- a process that stands still ------------------------------------------------------- */

struct pulse {
    spn_timeout timeout;
    atomic_int runs;
};

static int beat(spn_timeout *t)
{
    atomic_fetch_add(&((struct pulse *)(void *)t)->runs, 1);
    return 0;
}

static int64_t elapsed_since(int64_t start)
{
    return (spn_now() - start) / SPN_MS(100);
}

/* SIGSTOP for five seconds, then SIGCONT: of the fifty periods missed, burst makes up for
 * all, a burst of ten for ten, skip and delay for none. */
TEST(timer__process_stopped_five_seconds__by_policy, "HWT-25", "P24")
{
    static const uint32_t policy[] = { SPN_MISSED_SKIP, SPN_MISSED_BURST,
                                       SPN_MISSED_BURST, SPN_MISSED_DELAY };
    static const uint32_t burst[] = { 0, 0, 10, 0 };
    struct pulse pulses[4];
    spn_timer *timer = open_timer(SPN_MS(1));
    const pid_t self = getpid();
    int64_t start;
    pid_t other;
    int status, total;

    memset(pulses, 0, sizeof pulses);
    start = spn_now();
    for (int i = 0; i < 4; i++) {
        spn_period period = SPN_PERIOD_INIT;

        period.period_ns = SPN_MS(100);
        period.missed = policy[i];
        period.burst_max = burst[i];
        CHECK_OK(spn_timer_schedule_periodic(timer, &pulses[i].timeout, beat,
                                             SPN_MS(100), &period));
    }
    other = fork();
    REQUIRE(other >= 0);
    if (other == 0) { /* the hand that stops us */
        const struct timespec moment = { 0, 550000000 }, pause_ = { 5, 0 };

        nanosleep(&moment, NULL);
        kill(self, SIGSTOP);
        nanosleep(&pause_, NULL);
        kill(self, SIGCONT);
        _exit(0);
    }
    REQUIRE(waitpid(other, &status, 0) == other);
    T_AWAIT(atomic_load(&pulses[1].runs) >= elapsed_since(start) - 1);
    T_AWAIT(elapsed_since(start) >= 62);
    total = (int)elapsed_since(start);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(spn_timer_cancel_sync(timer, &pulses[i].timeout, SPN_FOREVER) >= 0, 1);
    /* Runs less or more by the two that may lie at the edges. */
    CHECK(abs(atomic_load(&pulses[0].runs) - (total - 49)) <= 2);
    CHECK(abs(atomic_load(&pulses[1].runs) - total) <= 2);
    CHECK(abs(atomic_load(&pulses[2].runs) - (total - 39)) <= 2);
    CHECK(abs(atomic_load(&pulses[3].runs) - (total - 49)) <= 3);
    REQUIRE_OK(spn_timer_stop(timer, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}

/* ---- a clock that is set --------------------------------------------------------------- */

/* A sanitizer has to be loaded first, and an emulator would be given the library. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_PRELOAD 0
#elif defined(__has_feature)
#define CAN_PRELOAD \
    (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define CAN_PRELOAD 1
#endif

static void fake_offset(const char *path, const char *offset)
{
    FILE *f = fopen(path, "w");

    REQUIRE(f != NULL && fputs(offset, f) >= 0);
    fclose(f);
}

static int64_t true_monotonic(void)
{
    struct timespec ts;

    REQUIRE(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts) == 0);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* What the test below runs again with the fake clock in front. */
TEST_WHEN_NAMED(timer__under_a_fake_clock)
{
    const char *path = getenv("FAKETIME_TIMESTAMP_FILE");
    static const char *const offsets[] = { "+3600", "-3600", "+3600" };
    spn_timer *timer;

    REQUIRE(path != NULL);
    timer = open_timer(SPN_MS(1));
    for (int i = 0; i < 3; i++) {
        spn_timeout t = SPN_TIMEOUT_INIT;
        const time_t before = time(NULL);
        const int64_t start = true_monotonic();
        time_t after;

        CHECK_OK(spn_timer_schedule(timer, &t, count, SPN_MS(300)));
        fake_offset(path, offsets[i]);
        T_AWAIT(labs((long)((after = time(NULL)) - before)) > 1800); /* it has jumped */
        T_AWAIT(atomic_load(&fired) == i + 1);
        CHECK(true_monotonic() - start >= SPN_MS(300));
        CHECK(true_monotonic() - start < SPN_MS(300) + T_SMALL_NS);
        (void)after;
        CHECK(spn_timer_cancel_sync(timer, &t, SPN_FOREVER) >= 0);
    }
    REQUIRE_OK(spn_timer_stop(timer, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}

/* The system's time is set an hour ahead and back while a timeout waits: it does not
 * notice. */
TEST(timer__clock_set_by_an_hour__changes_nothing, "HWT-17", "HWT-18", "P23")
{
    static const char library[] =
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
    char path[] = "/tmp/spindle-fake-XXXXXX", command[512];
    int fd;

#ifndef __x86_64__
    t_skip("libfaketime is for another machine");
    return;
#endif
    if (!CAN_PRELOAD || access(library, R_OK) != 0) {
        t_skip("libfaketime is not installed, or cannot be loaded");
        return;
    }
    fd = mkstemp(path);
    REQUIRE(fd >= 0);
    close(fd);
    fake_offset(path, "+0");
    snprintf(command, sizeof command,
             "LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=%s FAKETIME_NO_CACHE=1 "
             "FAKETIME_DONT_FAKE_MONOTONIC=1 /proc/%d/exe timer__under_a_fake_clock",
             library, path, (int)getpid());
    CHECK_EQ(system(command), 0);
    unlink(path);
}
