/* SPDX-License-Identifier: MIT */
/* test_watch.c - thresholds and slow tasks; time is a manual clock's where it can be. */
#include <spindle/watch.h>

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "metrics_add.h"
#include "pool_calls.h"
#include "test.h"

static struct {
    int calls[6]; /* by kind */
    spn_alarm last;
    char label[64], pool[256];
} heard;

static void hear(void *ctx, const spn_alarm *alarm)
{
    CHECK(ctx == &heard);
    REQUIRE(alarm->kind < 6);
    heard.calls[alarm->kind]++;
    heard.last = *alarm;
    snprintf(heard.pool, sizeof heard.pool, "%s", alarm->pool);
    snprintf(heard.label, sizeof heard.label, "%s",
             alarm->label != NULL ? alarm->label : "-");
}

static atomic_int gate, running;

static int hold(spn_task *task)
{
    (void)task;
    atomic_fetch_add(&running, 1);
    while (atomic_load(&gate) == 0)
        t_pause();
    return 0;
}

enum { MANY = 100 };

/* A pool of one thread (or many) and two places, in a registry, with a watch that is driven by
 * hand. */
static spn_pool *pool;
static spn_metrics *metrics;
static spn_task_times *times;
static spn_clock *clock_;
static spn_watch *watch;
static spn_job jobs[MANY];
static int job_count;

static int submit(void)
{
    return spn_executor_execute(spn_pool_executor(pool), &jobs[job_count].task);
}

static void hold_one(void)
{
    jobs[job_count] = (spn_job)SPN_JOB_INIT(hold, NULL);
    jobs[job_count].label = "held";
    CHECK_OK(submit());
    job_count++;
}

static void open_watch_of(int threads, spn_watch_opts opts)
{
    spn_pool_opts pool_opts = SPN_POOL_OPTS_INIT;
    spn_task_times_opts times_opts = SPN_TASK_TIMES_OPTS_INIT;

    memset(&heard, 0, sizeof heard);
    atomic_store(&gate, 0);
    atomic_store(&running, 0);
    job_count = 0;
    REQUIRE_OK(spn_clock_create_manual(&clock_, 1000));
    REQUIRE_OK(spn_metrics_create(&metrics));
    times_opts.every = 1;
    REQUIRE_OK(spn_task_times_create(&times, &times_opts));
    pool_opts.name = "io";
    pool_opts.core_threads = pool_opts.max_threads = threads;
    pool_opts.queue_capacity = 2;
    REQUIRE_OK(spn_task_times_install(times, &pool_opts.hooks));
    REQUIRE_OK(spn_pool_create(&pool, &pool_opts));
    REQUIRE_OK(METRICS_ADD(metrics, .pool = pool, .times = times));
    opts.metrics = metrics;
    opts.clock = clock_;
    opts.alarm = hear;
    opts.ctx = &heard;
    REQUIRE_OK(spn_watch_create(&watch, &opts));
}

static void open_watch(spn_watch_opts opts)
{
    open_watch_of(1, opts);
}

static void close_watch(void)
{
    CHECK_OK(spn_watch_destroy(watch));
    spn_metrics_destroy(metrics);
    atomic_store(&gate, 1);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
    spn_task_times_destroy(times);
    CHECK_OK(spn_clock_destroy(clock_));
}

/* A storm of refusals: one alarm per interval, however many looks and refusals, and the
 * next interval tells again. */
TEST(watch__storm_of_rejects__one_alarm_per_interval, "MET-12", "MET-15", "P33")
{
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;

    opts.rejected = 10;
    opts.interval_ns = SPN_SEC(1);
    open_watch(opts);
    hold_one();
    T_AWAIT(atomic_load(&running) == 1);
    hold_one();
    hold_one(); /* full */
    CHECK_EQ(spn_watch_check(watch), 0);
    for (int interval = 1; interval <= 5; interval++) {
        for (int look = 0; look < 10; look++) {
            jobs[3] = (spn_job)SPN_JOB_INIT(hold, NULL);
            for (int i = 0; i < 100; i++)
                CHECK_STATUS(submit(), SPN_EREJECTED);
            CHECK_EQ(spn_watch_check(watch), look == 0);
            CHECK_OK(spn_clock_advance(clock_, SPN_MS(100)));
        }
        CHECK_EQ(heard.calls[SPN_ALARM_REJECTED], interval);
        CHECK_EQ(heard.last.value, 100);
        CHECK_EQ(heard.last.threshold, 10);
        CHECK_EQ(heard.last.suppressed, interval == 1 ? 0 : 9);
        CHECK_STR(heard.pool, "io");
    }
    CHECK_OK(spn_clock_advance(clock_, SPN_SEC(10)));
    CHECK_EQ(spn_watch_check(watch), 0); /* it is over */
    close_watch();
}

/* Queue, threads and waiting time, each by its own threshold. */
TEST(watch__thresholds__each_tells_at_its_own, "MET-12")
{
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;

    opts.queued = 2;
    opts.active_percent = 100;
    opts.wait_ns = 1;
    opts.interval_ns = 10;
    open_watch(opts);
    CHECK_EQ(spn_watch_check(watch), 0);
    hold_one();
    T_AWAIT(atomic_load(&running) == 1);
    CHECK_EQ(spn_watch_check(watch), 1);
    CHECK_EQ(heard.calls[SPN_ALARM_ACTIVE], 1);
    CHECK_EQ(heard.last.value, 1);
    hold_one();
    CHECK_OK(spn_clock_advance(clock_, 10));
    CHECK(spn_watch_check(watch) == 2); /* active again, and something waits */
    CHECK_EQ(heard.calls[SPN_ALARM_WAIT], 1);
    CHECK_EQ(heard.calls[SPN_ALARM_QUEUED], 0);
    hold_one();
    CHECK_EQ(spn_watch_check(watch), 1);
    CHECK_EQ(heard.calls[SPN_ALARM_QUEUED], 1);
    CHECK_EQ(heard.last.value, 2);
    CHECK_EQ(spn_watch_check(watch), 0);
    close_watch();
}

/* A task that was refused waits no more: not in an idle pool, nor when others wait. */
TEST(watch__timed_task_refused__not_told_as_waiting, "MET-12")
{
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;
    int64_t from;

    opts.wait_ns = 1;
    open_watch(opts);
    hold_one();
    T_AWAIT(atomic_load(&running) == 1);
    hold_one();
    hold_one(); /* full */
    jobs[3] = (spn_job)SPN_JOB_INIT(hold, NULL);
    CHECK_STATUS(submit(), SPN_EREJECTED);
    atomic_store(&gate, 1);
    T_AWAIT(pool_ended(pool) == 3);
    CHECK_EQ(spn_watch_check(watch), 0);
    atomic_store(&gate, 0);
    job_count = 4; /* the refused one does not come again */
    from = spn_now();
    hold_one();
    T_AWAIT(atomic_load(&running) == 4);
    hold_one();
    CHECK_EQ(spn_watch_check(watch), 1);
    CHECK_EQ(heard.calls[SPN_ALARM_WAIT], 1);
    CHECK(heard.last.value <= spn_now() - from);
    close_watch();
}

/* Long names that differ at their ends are two pools, each told by its whole name. */
TEST(watch__names_alike_but_for_the_end__told_apart, "MET-12")
{
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;
    spn_pool_opts pool_opts = SPN_POOL_OPTS_INIT;
    spn_pool *pools[2];
    spn_job held[2];
    char name[SPN_THREAD_NAME_MAX - 20 + 1];

    opts.active_percent = 100;
    open_watch(opts);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    pool_opts.name = name;
    pool_opts.core_threads = pool_opts.max_threads = 1;
    for (int i = 0; i < 2; i++) {
        name[sizeof name - 2] = (char)('a' + i);
        REQUIRE_OK(spn_pool_create(&pools[i], &pool_opts));
        REQUIRE_OK(METRICS_ADD(metrics, .pool = pools[i]));
        held[i] = (spn_job)SPN_JOB_INIT(hold, NULL);
        CHECK_OK(spn_executor_execute(spn_pool_executor(pools[i]), &held[i].task));
    }
    T_AWAIT(atomic_load(&running) == 2);
    CHECK_EQ(spn_watch_check(watch), 2);
    CHECK_STR(heard.pool, name); /* the second's */
    close_watch();
    for (int i = 0; i < 2; i++) {
        CHECK_OK(spn_pool_close(pools[i]));
        CHECK_OK(spn_pool_destroy(pools[i]));
    }
}

/* A task that runs too long is told once, with its label; the next one again. */
TEST(watch__slow_task__told_once_per_run, "MET-13")
{
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;
    int alarms = 0;

    opts.slow_ns = SPN_MS(2);
    open_watch(opts);
    for (int n = 1; n <= 2; n++) {
        atomic_store(&gate, 0);
        atomic_store(&running, 0);
        hold_one();
        T_AWAIT(atomic_load(&running) == 1);
        CHECK_EQ(spn_watch_check(watch), 0); /* seen for the first time */
        T_AWAIT((alarms = spn_watch_check(watch)) != 0);
        CHECK_EQ(alarms, 1);
        CHECK_EQ(heard.calls[SPN_ALARM_SLOW], n);
        CHECK_STR(heard.label, "held");
        CHECK(heard.last.value >= SPN_MS(2));
        CHECK_EQ(spn_watch_check(watch), 0);
        atomic_store(&gate, 1);
        T_AWAIT(pool_stats(pool).active == 0);
    }
    CHECK_EQ(spn_watch_check(watch), 0);
    close_watch();
}

/* However many are slow at once. */
TEST(watch__many_slow_tasks__each_told_once, "MET-13")
{
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;

    opts.slow_ns = SPN_MS(2);
    open_watch_of(MANY, opts);
    for (int i = 0; i < MANY; i++)
        hold_one();
    T_AWAIT(atomic_load(&running) == MANY);
    CHECK_EQ(spn_watch_check(watch), 0); /* seen for the first time */
    T_AWAIT(spn_watch_check(watch) >= 0 && heard.calls[SPN_ALARM_SLOW] >= MANY);
    for (int look = 0; look < 3; look++)
        CHECK_EQ(spn_watch_check(watch), 0);
    CHECK_EQ(heard.calls[SPN_ALARM_SLOW], MANY);
    close_watch();
}

/* Stops this process for a moment, ten times what counts as slow; a child sees to it. */
static void stand_still(void)
{
    const pid_t self = getpid();
    const pid_t other = fork();
    int status = -1;

    REQUIRE(other >= 0);
    if (other == 0) {
        if (kill(self, SIGSTOP) == 0)
            (void)poll(NULL, 0, 20);
        _exit(kill(self, SIGCONT) != 0);
    }
    REQUIRE(waitpid(other, &status, 0) == other);
    CHECK_EQ(status, 0);
}

/* Threads that wait for work are not slow, however long; and what stood still together with
 * the process counts from the look that first saw it run. */
TEST(watch__idle_or_stopped__nothing_told, "MET-13", "P49")
{
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;

    opts.slow_ns = SPN_MS(2);
    open_watch(opts);
    atomic_store(&gate, 1);
    hold_one(); /* makes the thread, and is over at once */
    T_AWAIT(atomic_load(&running) == 1 && pool_stats(pool).active == 0);
    for (int look = 0; look < 3; look++) {
        CHECK_EQ(spn_watch_check(watch), 0);
        stand_still();
    }
    atomic_store(&gate, 0);
    hold_one();
    T_AWAIT(atomic_load(&running) == 2);
    stand_still();
    CHECK_EQ(spn_watch_check(watch), 0);
    CHECK_EQ(heard.calls[SPN_ALARM_SLOW], 0);
    close_watch();
}

/* With a timer the looks come by themselves. */
TEST(watch__timer__looks_by_itself, "MET-12")
{
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;
    spn_timer_opts timer_opts = SPN_TIMER_OPTS_INIT;
    spn_clock *clock;
    spn_timer *timer;

    REQUIRE_OK(spn_clock_create_manual(&clock, 0));
    timer_opts.drive = SPN_TIMER_DRIVEN;
    timer_opts.clock = clock;
    REQUIRE_OK(spn_timer_create(&timer, &timer_opts));
    opts.timer = timer;
    opts.period_ns = SPN_SEC(2);
    opts.active_percent = 50;
    open_watch(opts);
    hold_one();
    T_AWAIT(atomic_load(&running) == 1);
    CHECK_OK(spn_clock_advance(clock, SPN_MS(1999)));
    CHECK_EQ(spn_timer_run(timer), 0);
    CHECK_OK(spn_clock_advance(clock, SPN_MS(200)));
    CHECK_EQ(spn_timer_run(timer), 1);
    CHECK_EQ(heard.calls[SPN_ALARM_ACTIVE], 1);
    close_watch();
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_OK(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
    CHECK_OK(spn_clock_destroy(clock));
}
