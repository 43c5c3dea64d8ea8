/* SPDX-License-Identifier: MIT */
/*
 * test_timer_long.c - timers with what takes long: ten million pending, ten million
 * cancelled; and all that waits for a time in a process that is stopped for seconds, or
 * whose clock is set.  Run by `make test-long`.
 */
#include "pool_calls.h"
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

#include "wheel/timer.h"

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
    CHECK_OK(spn__timer_check(timer));
    for (size_t i = 0; i < many; i += 2)
        CHECK_EQ(spn_timer_cancel(timer, &all[i]), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_pending(timer), many / 2);
    CHECK_OK(spn__timer_check(timer));
    REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
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
            before = t_resident_kb();
    }
    CHECK(t_resident_kb() - before < 1024);
    REQUIRE_OK(spn_timer_stop(timer, NULL, NULL));
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

/* Has this process stopped for five seconds, half a second from now; returns when it runs
 * again. */
static void stand_still(void)
{
    const pid_t self = getpid();
    pid_t other = fork();
    int status;

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
    int64_t start;
    int total, after[4];

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
    stand_still();
    for (int i = 0; i < 4; i++)
        after[i] = atomic_load(&pulses[i].runs);
    T_AWAIT(atomic_load(&pulses[1].runs) >= elapsed_since(start) - 1);
    for (int i = 0; i < 4; i++)
        T_AWAIT(atomic_load(&pulses[i].runs) >= after[i] + 5);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(spn_timer_cancel_sync(timer, &pulses[i].timeout, SPN_FOREVER) >= 0, 1);
    total = (int)elapsed_since(start);
    /* Two of the fifty may lie at the edges.  On a busy machine some more are late, and are
     * made up for or not in the same way. */
    CHECK(atomic_load(&pulses[0].runs) <= total - 48);
    CHECK(atomic_load(&pulses[1].runs) <= total);
    CHECK(atomic_load(&pulses[2].runs) <= total - 38);
    CHECK(atomic_load(&pulses[2].runs) >= atomic_load(&pulses[0].runs) + 8);
    CHECK(atomic_load(&pulses[3].runs) <= total - 48);
    REQUIRE_OK(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}

struct beat {
    atomic_int runs, inside;
    int64_t first_ns; /* when the first run was due */
    spn_future *future;
};

static int beat_again(void *arg)
{
    struct beat *b = arg;

    CHECK_EQ(atomic_fetch_add(&b->inside, 1), 0); /* never twice at once */
    /* Of a fixed rate, run k is not before its time, however many were missed. */
    CHECK(spn_now() >= b->first_ns + atomic_load(&b->runs) * SPN_MS(100));
    atomic_fetch_add(&b->runs, 1);
    atomic_fetch_sub(&b->inside, 1);
    return 0;
}

/* Whether the next run is due at a whole number of periods from the first. */
static bool is_in_phase(const struct beat *b)
{
    int64_t before_ns, after_ns, left_ns = 0;

    before_ns = spn_now() - b->first_ns;
    CHECK_OK(spn_scheduled_remaining(b->future, &left_ns));
    after_ns = spn_now() - b->first_ns;
    return (after_ns + left_ns) / SPN_MS(100) > (before_ns + left_ns - 1) / SPN_MS(100);
}

/* The same for tasks of the scheduled executor: the runs that a fixed rate has missed
 * follow at once, or are left out if it was told so, and either way the next one is in
 * phase; a fixed delay has missed none. */
TEST(scheduled__process_stopped_five_seconds__by_policy, "STPE-4", "STPE-5", "STPE-6",
     "STPE-7")
{
    enum { CATCH_UP, SKIP, DELAY, KINDS };
    const spn_scheduled_opts opts = spn_scheduled_opts_pool(2);
    static struct beat beats[KINDS];
    spn_scheduled *sched;
    int64_t start;
    int total, after[KINDS];

    memset(beats, 0, sizeof beats);
    REQUIRE_OK(spn_scheduled_create(&sched, &opts));
    start = spn_now();
    for (int i = 0; i < KINDS; i++) {
        spn_schedule what = SPN_SCHEDULE_INIT;

        beats[i].first_ns = start + SPN_MS(100);
        what.run = beat_again;
        what.arg = &beats[i];
        what.at_ns = beats[i].first_ns;
        what.period_ns = SPN_MS(100);
        what.repeat = i == DELAY ? SPN_REPEAT_DELAY : SPN_REPEAT_RATE;
        what.skip_missed = i == SKIP;
        REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &beats[i].future));
    }
    stand_still();
    for (int i = 0; i < KINDS; i++)
        after[i] = atomic_load(&beats[i].runs);
    /* Not more than that: see beat_again. */
    T_AWAIT(atomic_load(&beats[CATCH_UP].runs) >= elapsed_since(start) - 1);
    T_AWAIT(atomic_load(&beats[SKIP].runs) >= after[SKIP] + 5);
    T_AWAIT(atomic_load(&beats[DELAY].runs) >= after[DELAY] + 5);
    CHECK(is_in_phase(&beats[CATCH_UP]));
    CHECK(is_in_phase(&beats[SKIP]));
    for (int i = 0; i < KINDS; i++)
        CHECK_EQ(spn_future_cancel(beats[i].future, 0), 1);
    CHECK_OK(spn_pool_close(spn_scheduled_pool(sched)));
    total = (int)elapsed_since(start);
    /* None of the fifty was made up for; two may lie at the edges.  On a busy machine some
     * more are late, and left out. */
    CHECK(atomic_load(&beats[SKIP].runs) <= total - 48);
    CHECK(atomic_load(&beats[DELAY].runs) <= total - 48);
    for (int i = 0; i < KINDS; i++)
        spn_future_unref(beats[i].future);
    CHECK_OK(spn_scheduled_destroy(sched));
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
    REQUIRE_OK(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
}

/* All else that waits for a time, each for the same. */
enum { SCHEDULED, SERIAL, TAKER, KEEP_ALIVE, WAITS };

struct waits {
    int64_t start;
    _Atomic int64_t over[WAITS]; /* when its wait was over; 0: not yet */
    spn_queue *queue;
    int64_t due_ns; /* of the item in the queue */
};

static void note_over(struct waits *w, int which)
{
    atomic_store(&w->over[which], true_monotonic());
}

static int over_scheduled(void *arg)
{
    note_over(arg, SCHEDULED);
    return 0;
}

static int over_serial(void *arg)
{
    note_over(arg, SERIAL);
    return 0;
}

static int take_item(void *arg)
{
    struct waits *w = arg;
    void *item;

    CHECK_OK(spn_queue_take(w->queue, &item, SPN_FOREVER));
    note_over(w, TAKER);
    return 0;
}

static int64_t due_of(const void *item, void *ctx)
{
    (void)ctx;
    return ((const struct waits *)item)->due_ns;
}

static int return_at_once(void *arg)
{
    (void)arg;
    return 0;
}

static spn_pool *open_keeping(int32_t threads, int64_t keep_alive_ns)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_pool *pool;

    opts.core_threads = opts.max_threads = threads;
    opts.core_timeout = 1;
    opts.keep_alive_ns = keep_alive_ns;
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    return pool;
}

/* Each wait begins, then the clock jumps. */
static void wait_through_jump(struct waits *w, spn_scheduled *sched,
                              spn_serial_timer *serial, const char *path,
                              const char *offset)
{
    spn_pool *pool = open_keeping(1, SPN_MS(300));
    const time_t before = time(NULL);
    spn_serial_task *task;
    spn_thread *thread;

    memset(w->over, 0, sizeof w->over);
    w->start = true_monotonic();
    w->due_ns = spn_now() + SPN_MS(300);
    REQUIRE_OK(spn_queue_put(w->queue, w, SPN_FOREVER));
    REQUIRE_OK(spn_thread_create(&thread, NULL, take_item, w));
    REQUIRE_OK(spn_scheduled_call(sched, over_scheduled, w, SPN_MS(300)));
    REQUIRE_OK(spn_serial_task_create(&task, over_serial, w));
    REQUIRE_OK(
        spn_serial_timer_schedule(serial, task, SPN_MS(300), SPN_REPEAT_NONE, 0));
    REQUIRE_OK(spn_executor_call(spn_pool_executor(pool), return_at_once, NULL));
    fake_offset(path, offset);
    T_AWAIT(labs((long)(time(NULL) - before)) > 1800); /* it has jumped */
    T_AWAIT(pool_stats(pool).threads == 0);
    note_over(w, KEEP_ALIVE);
    for (int i = 0; i < WAITS; i++)
        T_AWAIT(atomic_load(&w->over[i]) != 0);
    CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
    spn_thread_unref(thread);
    spn_serial_task_unref(task);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

TEST_WHEN_NAMED(waits__under_a_fake_clock)
{
    static const char *const offsets[] = { "+3600", "-3600", "+3600" };
    const char *path = getenv("FAKETIME_TIMESTAMP_FILE");
    const spn_scheduled_opts scheduled_opts = spn_scheduled_opts_pool(2);
    spn_queue_opts queue_opts = SPN_QUEUE_OPTS_INIT;
    static struct waits w;
    spn_scheduled *sched;
    spn_serial_timer *serial;

    REQUIRE(path != NULL);
    queue_opts.due = due_of;
    REQUIRE_OK(spn_queue_create(&w.queue, SPN_QUEUE_DELAY, &queue_opts));
    REQUIRE_OK(spn_scheduled_create(&sched, &scheduled_opts));
    REQUIRE_OK(spn_serial_timer_create(&serial, NULL));
    for (int i = 0; i < 3; i++) {
        wait_through_jump(&w, sched, serial, path, offsets[i]);
        for (int k = 0; k < WAITS; k++) { /* not early, nor late by what was jumped */
            CHECK(atomic_load(&w.over[k]) - w.start >= SPN_MS(300));
            CHECK(atomic_load(&w.over[k]) - w.start < SPN_MS(300) + T_LONG_NS);
        }
    }
    CHECK_OK(spn_serial_timer_cancel(serial));
    CHECK_OK(spn_serial_timer_await(serial, SPN_FOREVER));
    CHECK_OK(spn_serial_timer_destroy(serial));
    CHECK_OK(spn_pool_close(spn_scheduled_pool(sched)));
    CHECK_OK(spn_scheduled_destroy(sched));
    CHECK_OK(spn_queue_destroy(w.queue));
}

/* Runs a test of this program again with the fake clock in front. */
static void run_under_a_fake_clock(const char *test)
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
             "FAKETIME_DONT_FAKE_MONOTONIC=1 /proc/%d/exe %s",
             library, path, (int)getpid(), test);
    CHECK_EQ(system(command), 0);
    unlink(path);
}

/* The system's time is set an hour ahead and back while a timeout waits: it does not
 * notice. */
TEST(timer__clock_set_by_an_hour__changes_nothing, "HWT-17", "HWT-18", "P23")
{
    run_under_a_fake_clock("timer__under_a_fake_clock");
}

/* Nor does a task of the scheduled executor or of the serial timer, a delay queue's taker,
 * or an idle worker that its pool keeps for a while. */
TEST(waits__clock_set_by_an_hour__change_nothing, "STPE-40", "DQ-2", "TPE-30")
{
    run_under_a_fake_clock("waits__under_a_fake_clock");
}
