/* SPDX-License-Identifier: MIT */
/* test_serial_timer.c - the serial timer, on a manual clock. */
#include <stdatomic.h>
#include <string.h>

#include <spindle.h>

#include "peer.h"
#include "test.h"

#define START SPN_SEC(1000)

enum { TASKS = 16 };
struct piece {
    atomic_int runs, inside;
    int fails, order;
    int64_t at[32], due[32];
    void (*act)(struct piece *piece);
    spn_serial_task *task;
};

static spn_clock *clock_;
static spn_serial_timer *timer;
static struct piece pieces[TASKS];
static atomic_int places, tid, reports;

static int run(void *arg)
{
    struct piece *p = arg;
    const int n = atomic_load(&p->runs);
    int none = 0;

    if (!atomic_compare_exchange_strong(&tid, &none, peer_gettid()))
        CHECK_EQ(none, peer_gettid()); /* one thread */
    p->order = atomic_fetch_add(&places, 1) + 1;
    if (n < 32) {
        p->at[n] = spn_clock_now(clock_);
        CHECK_OK(spn_serial_task_scheduled_time(p->task, &p->due[n]));
    }
    if (p->act != NULL)
        p->act(p);
    atomic_fetch_add(&p->runs, 1);
    return p->fails;
}

static void failed(spn_serial_timer *t, spn_serial_task *task, int code, void *ctx)
{
    CHECK(t == timer);
    CHECK(ctx == &reports);
    CHECK(task == pieces[0].task);
    CHECK_EQ(code, pieces[0].fails);
    atomic_fetch_add(&reports, 1);
}

static void open_timer(void)
{
    spn_serial_timer_opts o = SPN_SERIAL_TIMER_OPTS_INIT;

    memset(pieces, 0, sizeof pieces);
    atomic_store(&places, 0);
    atomic_store(&tid, 0);
    atomic_store(&reports, 0);
    REQUIRE_OK(spn_clock_create_manual(&clock_, START));
    o.clock = clock_;
    o.failed = failed;
    o.ctx = &reports;
    REQUIRE_OK(spn_serial_timer_create(&timer, &o));
    for (int i = 0; i < TASKS; i++)
        REQUIRE_OK(spn_serial_task_create(&pieces[i].task, run, &pieces[i]));
}

static void close_timer(void)
{
    CHECK_OK(spn_serial_timer_cancel(timer));
    CHECK_OK(spn_serial_timer_await(timer, T_LONG_NS));
    CHECK_EQ(spn_serial_timer_pending(timer), 0);
    CHECK_OK(spn_serial_timer_destroy(timer));
    for (int i = 0; i < TASKS; i++)
        spn_serial_task_unref(pieces[i].task);
    CHECK_OK(spn_clock_destroy(clock_));
}

static int runs(int i)
{
    return atomic_load(&pieces[i].runs);
}

static void await_runs(int i, int count)
{
    T_AWAIT(runs(i) >= count);
}

static void advance(int64_t by_ns)
{
    CHECK_OK(spn_clock_advance(clock_, by_ns));
}

/* All that was due so far has run, and so has this. */
static void flush(int i)
{
    REQUIRE_OK(spn_serial_timer_schedule(timer, pieces[i].task, 0, SPN_REPEAT_NONE, 0));
    await_runs(i, 1);
}

/* Values that make no sense, and a task is as before. */
TEST(serial_timer__bad_times__are_refused, "TMR-1", "TMR-2")
{
    open_timer();
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[0].task, -1, SPN_REPEAT_NONE,
                                           0),
                 SPN_EINVAL);
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[0].task, INT64_MIN,
                                           SPN_REPEAT_NONE, 0),
                 SPN_EINVAL);
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[0].task, INT64_MAX,
                                           SPN_REPEAT_NONE, 0),
                 SPN_EINVAL);
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[0].task, INT64_MAX - START + 1,
                                           SPN_REPEAT_NONE, 0),
                 SPN_EINVAL);
    CHECK_STATUS(spn_serial_timer_schedule(timer, NULL, 1, SPN_REPEAT_NONE, 0),
                 SPN_EINVAL);
    CHECK_STATUS(spn_serial_timer_schedule_at(timer, pieces[0].task, -1,
                                              SPN_REPEAT_NONE, 0),
                 SPN_EINVAL);
    CHECK_STATUS(spn_serial_timer_schedule_at(timer, pieces[0].task, INT64_MIN,
                                              SPN_REPEAT_NONE, 0),
                 SPN_EINVAL);
    for (int how = SPN_REPEAT_RATE; how <= SPN_REPEAT_DELAY; how++) {
        spn_serial_task *t = pieces[0].task;

        CHECK_STATUS(spn_serial_timer_schedule(timer, t, 1, how, 0), SPN_EINVAL);
        CHECK_STATUS(spn_serial_timer_schedule(timer, t, 1, how, -1), SPN_EINVAL);
        CHECK_STATUS(spn_serial_timer_schedule(timer, t, -1, how, 1), SPN_EINVAL);
        CHECK_STATUS(spn_serial_timer_schedule(timer, NULL, 1, how, 1), SPN_EINVAL);
        CHECK_STATUS(spn_serial_timer_schedule_at(timer, t, -1, how, 1), SPN_EINVAL);
        CHECK_STATUS(spn_serial_timer_schedule_at(timer, t, 1, how, 0), SPN_EINVAL);
    }
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[0].task, 1, SPN_REPEAT_NONE,
                                           1),
                 SPN_EINVAL);
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[0].task, 1, 3, 1), SPN_EINVAL);
    CHECK_EQ(spn_serial_timer_pending(timer), 0);
    flush(0); /* it was not used up */
    close_timer();
}

/* A task is scheduled once: not again while it waits, after it ran or was cancelled. */
TEST(serial_timer__task__is_scheduled_once, "TMR-3")
{
    open_timer();
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[0].task, SPN_SEC(1),
                                       SPN_REPEAT_NONE, 0));
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[0].task, 0, SPN_REPEAT_NONE,
                                           0),
                 SPN_ESTATE);
    flush(1);
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[1].task, 0, SPN_REPEAT_NONE,
                                           0),
                 SPN_ESTATE);
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[1].task, 0, SPN_REPEAT_RATE,
                                           1),
                 SPN_ESTATE);
    CHECK_EQ(spn_serial_task_cancel(pieces[0].task), 1);
    CHECK_STATUS(spn_serial_timer_schedule_at(timer, pieces[0].task, START,
                                              SPN_REPEAT_NONE, 0),
                 SPN_ESTATE);
    CHECK_EQ(spn_serial_task_cancel(pieces[2].task), 0);
    CHECK_STATUS(spn_serial_timer_schedule(timer, pieces[2].task, 0, SPN_REPEAT_NONE,
                                           0),
                 SPN_ESTATE);
    close_timer();
}

/* Nothing on a cancelled timer, in any form; and a task that was refused is fresh. */
TEST(serial_timer__cancelled__takes_nothing, "TMR-4", "TMR-9")
{
    spn_serial_timer *other;

    open_timer();
    CHECK_OK(spn_serial_timer_create(&other, NULL));
    CHECK_OK(spn_serial_timer_cancel(other));
    CHECK_OK(spn_serial_timer_cancel(other));
    CHECK_STATUS(spn_serial_timer_schedule(other, pieces[0].task, 0, SPN_REPEAT_NONE,
                                           0),
                 SPN_ESTATE);
    CHECK_STATUS(spn_serial_timer_schedule_at(other, pieces[0].task, 0, SPN_REPEAT_NONE,
                                              0),
                 SPN_ESTATE);
    CHECK_STATUS(spn_serial_timer_schedule(other, pieces[0].task, 0, SPN_REPEAT_RATE,
                                           1),
                 SPN_ESTATE);
    CHECK_STATUS(spn_serial_timer_schedule_at(other, pieces[0].task, 0,
                                              SPN_REPEAT_DELAY, 1),
                 SPN_ESTATE);
    CHECK_OK(spn_serial_timer_await(other, SPN_FOREVER));
    CHECK_OK(spn_serial_timer_destroy(other));
    flush(0);
    close_timer();
}

/* A time that has passed: at once.  Fixed delay: once, and then a period later. */
TEST(serial_timer__past__runs_at_once, "TMR-5", "TMR-6")
{
    open_timer();
    CHECK_OK(
        spn_serial_timer_schedule_at(timer, pieces[0].task, 0, SPN_REPEAT_NONE, 0));
    await_runs(0, 1);
    CHECK_OK(spn_serial_timer_schedule_at(timer, pieces[1].task, START - SPN_SEC(105),
                                          SPN_REPEAT_DELAY, SPN_SEC(10)));
    await_runs(1, 1);
    advance(SPN_SEC(10) - 1);
    flush(2);
    CHECK_EQ(runs(1), 1);
    advance(1);
    await_runs(1, 2);
    flush(3);
    CHECK_EQ(runs(1), 2);
    CHECK_EQ(pieces[1].at[1], START + SPN_SEC(10));
    close_timer();
}

/* Fixed rate: all that was missed is made up for, then on schedule. */
TEST(serial_timer__past_fixed_rate__catches_up, "TMR-7", "TMR-13")
{
    open_timer();
    CHECK_OK(spn_serial_timer_schedule_at(timer, pieces[0].task, START - SPN_SEC(105),
                                          SPN_REPEAT_RATE, SPN_SEC(10)));
    await_runs(0, 11);
    T_AWAIT(spn_serial_timer_pending(timer) == 1);
    flush(1);
    CHECK_EQ(runs(0), 11);
    for (int k = 0; k < 11; k++) {
        CHECK_EQ(pieces[0].due[k], START - SPN_SEC(105) + k * SPN_SEC(10));
        CHECK_EQ(pieces[0].at[k], START);
    }
    advance(SPN_SEC(5));
    await_runs(0, 12);
    CHECK_EQ(pieces[0].due[11], START + SPN_SEC(5));
    close_timer();
}

static void take_time(struct piece *p)
{
    (void)p;
    advance(SPN_SEC(7));
}

/* One thread, tasks in turn; a long one delays the others; earlier due first. */
TEST(serial_timer__tasks__one_after_another, "TMR-8", "TMR-14")
{
    open_timer();
    pieces[0].act = take_time;
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[2].task, SPN_SEC(2),
                                       SPN_REPEAT_NONE, 0));
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[1].task, SPN_SEC(1),
                                       SPN_REPEAT_NONE, 0));
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[3].task, SPN_SEC(3),
                                       SPN_REPEAT_NONE, 0));
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[0].task, 0, SPN_REPEAT_NONE, 0));
    for (int i = 0; i < 4; i++)
        await_runs(i, 1);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pieces[i].order, i + 1);
    CHECK_EQ(pieces[1].at[0], START + SPN_SEC(7));
    CHECK_EQ(pieces[1].due[0], START + SPN_SEC(1)); /* so it knows how late it is */
    close_timer();
}

/* Fixed delay counts from the start of a run, fixed rate from the first time. */
TEST(serial_timer__repeat__delay_and_rate, "TMR-6", "TMR-7")
{
    for (int how = SPN_REPEAT_RATE; how <= SPN_REPEAT_DELAY; how++) {
        open_timer();
        CHECK_OK(spn_serial_timer_schedule(timer, pieces[0].task, SPN_SEC(10), how,
                                           SPN_SEC(10)));
        advance(SPN_SEC(12)); /* two late */
        await_runs(0, 1);
        T_AWAIT(spn_serial_timer_pending(timer) == 1);
        advance(SPN_SEC(8));
        flush(1);
        CHECK_EQ(runs(0), how == SPN_REPEAT_RATE ? 2 : 1);
        advance(SPN_SEC(2));
        await_runs(0, 2);
        CHECK_EQ(pieces[0].due[1],
                 START + (how == SPN_REPEAT_RATE ? SPN_SEC(20) : SPN_SEC(22)));
        close_timer();
    }
}

static spn_latch *gate;

static void hold(struct piece *p)
{
    (void)p;
    CHECK_OK(spn_latch_await(gate, SPN_FOREVER));
}

/* The one that runs finishes, uninterrupted; no other starts, due or not. */
TEST(serial_timer__cancel__no_more_starts, "TMR-9", "TMR-15")
{
    open_timer();
    REQUIRE_OK(spn_latch_create(&gate, 1));
    pieces[0].act = hold;
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[0].task, 0, SPN_REPEAT_RATE, 1));
    T_AWAIT(atomic_load(&places) == 1);
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[1].task, 0, SPN_REPEAT_NONE, 0));
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[2].task, SPN_SEC(1),
                                       SPN_REPEAT_NONE, 0));
    CHECK_STATUS(spn_serial_timer_destroy(timer), SPN_EBUSY);
    CHECK_OK(spn_serial_timer_cancel(timer));
    CHECK_EQ(spn_serial_timer_pending(timer), 0);
    CHECK_STATUS(spn_serial_timer_destroy(timer), SPN_EBUSY);
    CHECK_STATUS(spn_serial_timer_await(timer, 0), SPN_ETIMEDOUT);
    CHECK_OK(spn_latch_count_down(gate));
    CHECK_OK(spn_serial_timer_await(timer, SPN_FOREVER));
    CHECK_EQ(runs(0), 1);
    CHECK_EQ(runs(1) + runs(2), 0);
    close_timer();
    CHECK_OK(spn_latch_destroy(gate));
}

static void end_timer(struct piece *p)
{
    (void)p;
    CHECK_OK(spn_serial_timer_cancel(timer));
    CHECK_STATUS(spn_serial_timer_await(timer, SPN_FOREVER), SPN_EDEADLK);
}

/* From within a task it is the last one. */
TEST(serial_timer__cancelled_by_a_task__that_is_the_last, "TMR-9")
{
    open_timer();
    pieces[0].act = end_timer;
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[1].task, SPN_SEC(1),
                                       SPN_REPEAT_NONE, 0));
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[0].task, 0, SPN_REPEAT_RATE, 1));
    CHECK_OK(spn_serial_timer_await(timer, T_LONG_NS));
    advance(SPN_SEC(5));
    CHECK_EQ(runs(0), 1);
    CHECK_EQ(runs(1), 0);
    close_timer();
}

static void cancel_self(struct piece *p)
{
    CHECK_EQ(spn_serial_task_cancel(p->task), 1);
}

/* True if it prevents at least one run. */
TEST(serial_timer__task_cancel__says_what_it_prevented, "TMR-10")
{
    open_timer();
    CHECK_EQ(spn_serial_task_cancel(pieces[0].task), 0); /* never scheduled */
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[1].task, SPN_SEC(1),
                                       SPN_REPEAT_NONE, 0));
    CHECK_EQ(spn_serial_task_cancel(pieces[1].task), 1); /* waits */
    CHECK_EQ(spn_serial_task_cancel(pieces[1].task), 0); /* cancelled before */
    flush(2);
    CHECK_EQ(spn_serial_task_cancel(pieces[2].task), 0); /* has run */
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[3].task, 0, SPN_REPEAT_RATE,
                                       SPN_SEC(1)));
    await_runs(3, 1);
    CHECK_EQ(spn_serial_task_cancel(pieces[3].task), 1); /* would run again */
    CHECK_EQ(spn_serial_task_cancel(pieces[3].task), 0);
    pieces[4].act = cancel_self; /* from inside: no more after this */
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[4].task, 0, SPN_REPEAT_DELAY,
                                       SPN_SEC(1)));
    await_runs(4, 1);
    advance(SPN_SEC(10));
    flush(5);
    CHECK_EQ(runs(1), 0);
    CHECK_EQ(runs(3), 1);
    CHECK_EQ(runs(4), 1);
    CHECK_EQ(spn_serial_timer_pending(timer), 0);
    close_timer();
}

/* A failing task is reported, and the timer and the task go on. */
TEST(serial_timer__failing_task__is_survived, "TMR-12", "P26")
{
    open_timer();
    pieces[0].fails = -9;
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[0].task, 0, SPN_REPEAT_RATE,
                                       SPN_SEC(1)));
    for (int k = 1; k <= 3; k++) {
        await_runs(0, k);
        T_AWAIT(atomic_load(&reports) == k);
        T_AWAIT(spn_serial_timer_pending(timer) == 1);
        advance(SPN_SEC(1));
    }
    flush(1);
    CHECK_EQ(spn_serial_task_cancel(pieces[0].task), 1);
    close_timer();
    open_timer(); /* and one that runs once */
    pieces[0].fails = 4;
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[0].task, 0, SPN_REPEAT_NONE, 0));
    T_AWAIT(atomic_load(&reports) == 1);
    flush(1);
    close_timer();
}

static void end_thread(struct piece *p)
{
    atomic_fetch_add(&p->runs, 1);
    atomic_store(&tid, 0); /* another takes over */
    pthread_exit(NULL);
}

/* Also one that ends its thread. */
TEST(serial_timer__task_ends_its_thread__is_survived, "TMR-12")
{
    open_timer();
    pieces[0].fails = SPN_EFAILED;
    pieces[0].act = end_thread;
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[0].task, 0, SPN_REPEAT_NONE, 0));
    await_runs(0, 1);
    T_AWAIT(atomic_load(&reports) == 1);
    flush(1);
    close_timer();
}

/* When the most recent run was due. */
TEST(serial_timer__scheduled_time__of_the_last_run, "TMR-13")
{
    int64_t due = 0;

    open_timer();
    CHECK_STATUS(spn_serial_task_scheduled_time(pieces[0].task, &due), SPN_ESTATE);
    CHECK_OK(spn_serial_timer_schedule(timer, pieces[0].task, SPN_SEC(3),
                                       SPN_REPEAT_NONE, 0));
    CHECK_STATUS(spn_serial_task_scheduled_time(pieces[0].task, &due), SPN_ESTATE);
    advance(SPN_SEC(5));
    await_runs(0, 1);
    CHECK_OK(spn_serial_task_scheduled_time(pieces[0].task, &due));
    CHECK_EQ(due, START + SPN_SEC(3));
    close_timer();
}

/* A task that nobody keeps but the timer. */
TEST(serial_timer__task_dropped__still_runs, "TMR-15")
{
    spn_serial_task *task, *own;

    open_timer();
    REQUIRE_OK(spn_serial_task_create(&task, run, &pieces[0]));
    CHECK_OK(spn_serial_timer_schedule(timer, task, SPN_SEC(1), SPN_REPEAT_NONE, 0));
    own = pieces[0].task;
    pieces[0].task = task;
    spn_serial_task_unref(task);
    advance(SPN_SEC(1));
    await_runs(0, 1);
    pieces[0].task = own;
    close_timer();
}
