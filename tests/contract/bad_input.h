/* SPDX-License-Identifier: MIT */
/*
 * bad_input.h - what the generated test of bad input stands on: one object of
 * each kind, and a picture of everything a refused call could have changed.
 *
 * Each case takes the picture, makes its call, undoes what a legal value did,
 * and takes it again: counts, permits, times, flags, the log level, blocks of
 * memory and threads of the process must be the same.
 */
#ifndef BAD_INPUT_H
#define BAD_INPUT_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <spindle/clock.h>
#include <spindle/cpu.h>
#include <spindle/latch.h>
#include <spindle/log.h>
#include <spindle/park.h>
#include <spindle/semaphore.h>
#include <spindle/thread.h>
#include <spindle/version.h>

#include "counting.h"
#include "peer.h"
#include "test.h"

struct fixture {
    spn_latch *latch;         /* count 2 */
    spn_latch *open;          /* count 0 */
    spn_semaphore *semaphore; /* 3 permits */
    spn_clock *clock;         /* manual, shows 100 */
    spn_thread *target;       /* a live library thread, parked */
    spn_thread *ended;        /* one that has returned 7 */
    spn_thread *self;
    atomic_int gate; /* 1: the target ends */
    struct peer waiter;
};

/* Where calls put what they make. */
struct results {
    spn_latch *latch;
    spn_semaphore *semaphore;
    spn_clock *clock;
    spn_thread *thread;
    const void *blocker;
    spn_cpu_limits limits;
    sigset_t mask;
    int64_t now;
    int result;
    char name[32];
};

static struct fixture fixture;
static struct results o;
static int bad_input_cases;
static const char *bad_input_label;

/* Everything a refused call might have changed. */
struct state {
    int64_t latch, open, permits, now, level;
    int64_t self_flag, target_flag, live, tasks;
};

static inline int return_seven(void *arg)
{
    (void)arg;
    return 7;
}

static inline int await_gate(void *arg)
{
    struct fixture *f = arg;

    while (atomic_load(&f->gate) == 0)
        spn_park(f);
    return 0;
}

static inline int64_t tasks_of_process(void)
{
    DIR *dir = opendir("/proc/self/task");
    int64_t count = 0;

    REQUIRE(dir != NULL);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static inline struct state state_now(void)
{
    return (struct state){
        .latch = spn_latch_count(fixture.latch),
        .open = spn_latch_count(fixture.open),
        .permits = spn_semaphore_available(fixture.semaphore),
        .now = spn_clock_now(fixture.clock),
        .level = spn_log_get_level(),
        .self_flag = spn_thread_is_interrupted(fixture.self),
        .target_flag = spn_thread_is_interrupted(fixture.target),
        .live = atomic_load(&counting_live),
        .tasks = tasks_of_process(),
    };
}

static inline struct state begin_case(const char *label)
{
    bad_input_label = label;
    return state_now();
}

static inline void end_case(const struct state *was)
{
    struct state is = state_now();

    /* A joined thread leaves the process's list a moment later. */
    for (int i = 0; i < 1000 && is.tasks > was->tasks; i++) {
        t_pause();
        is.tasks = tasks_of_process();
    }
    if (!CHECK(memcmp(&is, was, sizeof is) == 0))
        fprintf(stderr, "  changed something: %s\n", bad_input_label);
    bad_input_cases++;
}

static inline void open_fixture(void)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;

    memset(&fixture, 0, sizeof fixture);
    opts.permits = 3;
    REQUIRE_OK(spn_latch_create(&fixture.latch, 2));
    REQUIRE_OK(spn_latch_create(&fixture.open, 0));
    REQUIRE_OK(spn_semaphore_create(&fixture.semaphore, &opts));
    REQUIRE_OK(spn_clock_create_manual(&fixture.clock, 100));
    REQUIRE_OK(spn_thread_create(&fixture.ended, NULL, return_seven, NULL));
    REQUIRE_OK(spn_thread_join(fixture.ended, SPN_FOREVER, NULL));
    REQUIRE_OK(spn_thread_create(&fixture.target, NULL, await_gate, &fixture));
    fixture.self = spn_thread_current();
    /* Two spare records, so that a legal create does not look like a leak. */
    for (int i = 0; i < 2; i++) {
        peer_start(&fixture.waiter, return_seven, NULL);
        CHECK_EQ(peer_finish(&fixture.waiter), 7);
    }
}

static inline void close_fixture(void)
{
    atomic_store(&fixture.gate, 1);
    spn_unpark(fixture.target);
    CHECK_OK(spn_thread_join(fixture.target, SPN_FOREVER, NULL));
    spn_thread_unref(fixture.target);
    spn_thread_unref(fixture.ended);
    CHECK_OK(spn_latch_destroy(fixture.latch));
    CHECK_OK(spn_latch_destroy(fixture.open));
    CHECK_OK(spn_semaphore_destroy(fixture.semaphore));
    CHECK_OK(spn_clock_destroy(fixture.clock));
}

/* ---- options with room behind them ------------------------------------------- */

#define GROWN(type, ...)                                 \
    struct grown_##type {                                \
        type opts;                                       \
        unsigned char tail[64];                          \
    };                                                   \
    static inline struct grown_##type grown_##type(void) \
    {                                                    \
        struct grown_##type grown = { .opts = { 0 } };   \
        grown.opts = (type)__VA_ARGS__;                  \
        return grown;                                    \
    }

GROWN(spn_allocator, { sizeof(spn_allocator), counting_alloc, counting_release, NULL })
GROWN(spn_cpu_limits, SPN_CPU_LIMITS_INIT)
GROWN(spn_semaphore_opts, SPN_SEMAPHORE_OPTS_INIT)
GROWN(spn_thread_opts, SPN_THREAD_OPTS_INIT)

/* Field values that want a name. */
static const uint32_t no_cpu[] = { UINT32_MAX };
#define NAME_64       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NAME_TOO_LONG NAME_64 NAME_64 NAME_64 NAME_64 /* 256 bytes */

/* ---- wrong states ------------------------------------------------------------- */

static inline int wait_on_latch(void *arg)
{
    (void)arg;
    return spn_latch_await(fixture.latch, SPN_FOREVER);
}

static inline int wait_on_semaphore(void *arg)
{
    (void)arg;
    return spn_semaphore_acquire(fixture.semaphore, 100, SPN_FOREVER);
}

static inline int wait_on_clock(void *arg)
{
    (void)arg;
    return spn_clock_sleep_until(fixture.clock, 200);
}

static inline int watch_clock(void *arg)
{
    (void)arg;
    return spn_clock_await_sleepers(fixture.clock, 1, SPN_FOREVER);
}

/* A thread waits on an object of the fixture... */
static inline void start_waiter(int (*wait)(void *))
{
    peer_start(&fixture.waiter, wait, NULL);
    peer_await_blocked(&fixture.waiter);
}

/* ...and goes on waiting whatever was tried, until it is interrupted. */
static inline void stop_waiter(void)
{
    CHECK_EQ(atomic_load(&fixture.waiter.done), 0);
    CHECK_OK(spn_thread_interrupt(fixture.waiter.thread));
    CHECK_STATUS(peer_finish(&fixture.waiter), SPN_EINTR);
}

/* Joins and drops what a legal spn_thread_create made. */
static inline void end_thread(void)
{
    int result = -1;

    CHECK_OK(spn_thread_join(o.thread, SPN_FOREVER, &result));
    CHECK_EQ(result, 7);
    spn_thread_unref(o.thread);
}

static inline void ignore_message(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    (void)message;
}

static inline void interrupt_self(void)
{
    CHECK_OK(spn_thread_interrupt(fixture.self));
}

#endif /* BAD_INPUT_H */
