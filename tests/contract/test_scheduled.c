/* SPDX-License-Identifier: MIT */
/* test_scheduled.c - the scheduled executor: what runs when, and in which order. */
#include "cause.h"
#include "pool_calls.h"
#include "scheds.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

/* ---- once ---------------------------------------------------------------------------- */

/* Never before its delay has passed, once, and the future has the value. */
TEST(scheduled__delayed__runs_once_and_not_before, "STPE-2", "EXE-9")
{
    void *value;

    open_pool(1);
    schedule(0, SPN_SEC(10));
    advance(SPN_SEC(10) - 1);
    schedule(1, 0);
    CHECK_OK(spn_future_get(jobs[1].future, &value, T_LONG_NS));
    CHECK_EQ(runs(0), 0);
    advance(1);
    CHECK_OK(spn_future_get(jobs[0].future, &value, T_LONG_NS));
    CHECK(value == &jobs[0]);
    CHECK(spn_future_get_state(jobs[0].future) != SPN_FUTURE_PENDING);
    CHECK(spn_future_get_state(jobs[0].future) != SPN_FUTURE_CANCELED);
    CHECK_EQ(jobs[0].at[0], SPN_SEC(1010));
    close_pool();
    CHECK_EQ(runs(0), 1);
}

/* The same on the real clock, by get and timed get, with one thread and with several. */
TEST(scheduled__real_clock__not_before, "EXE-9", "STPE-2", "STPE-40")
{
    for (int32_t threads = 1; threads <= 2; threads++) {
        spn_scheduled_opts o = spn_scheduled_opts_pool(threads);
        const int64_t since = spn_now();
        bool in_order;
        void *value;

        o.fixed = threads == 1;
        open_clocked(o, 0);
        schedule(0, SPN_MS(20));
        schedule(1, SPN_MS(10));
        /* Unless this thread was held up, the second is due first. */
        in_order = threads == 1 && spn_now() - since < SPN_MS(10);
        CHECK_OK(spn_future_get(jobs[0].future, &value, SPN_FOREVER));
        CHECK(value == &jobs[0]);
        CHECK(jobs[0].at[0] - since >= SPN_MS(20));
        CHECK_OK(spn_future_get(jobs[1].future, &value, T_LONG_NS));
        CHECK(jobs[1].at[0] - since >= SPN_MS(10));
        CHECK(!in_order || atomic_load(&jobs[1].order) < atomic_load(&jobs[0].order));
        close_pool();
    }
}

/* Ten thousand of them on the real clock, none early. */
static atomic_int early, fired;

struct shot {
    int64_t due_ns;
};

static int fire(void *arg)
{
    if (spn_now() < ((struct shot *)arg)->due_ns)
        atomic_fetch_add(&early, 1);
    atomic_fetch_add(&fired, 1);
    return 0;
}

TEST(scheduled__many__none_is_early, "STPE-2", "STPE-40", "P22")
{
    enum { COUNT = 10000 };
    static struct shot shots[COUNT];

    atomic_store(&early, 0);
    atomic_store(&fired, 0);
    open_clocked(spn_scheduled_opts_pool(2), 0);
    for (int i = 0; i < COUNT; i++) {
        const int64_t delay_ns = (int64_t)i * 7919 % COUNT * 2000;

        shots[i].due_ns = spn_now() + delay_ns;
        REQUIRE_OK(spn_scheduled_call(sched, fire, &shots[i], delay_ns));
    }
    CHECK_OK(spn_executor_shutdown(ex));
    await_end();
    CHECK_EQ(atomic_load(&fired), COUNT);
    CHECK_EQ(atomic_load(&early), 0);
    CHECK_EQ(pool_ended(pool), COUNT);
    destroy();
}

/* A time before all others is due, and what comes after it runs as well; periods since then
 * are skipped in one step. */
TEST(scheduled__due_before_all_time__runs_and_skips, "STPE-2")
{
    for (int real = 0; real < 2; real++) {
        spn_schedule what = SPN_SCHEDULE_INIT;
        spn_future *once, *again;
        void *value;

        if (real)
            open_clocked(spn_scheduled_opts_pool(1), 0);
        else
            open_pool(1);
        atomic_store(&fired, 0);
        atomic_store(&early, 0);
        what.run = fire;
        what.arg = &(struct shot){ INT64_MIN };
        what.at_ns = INT64_MIN;
        REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &once));
        CHECK_OK(spn_future_get(once, &value, T_LONG_NS));
        CHECK_EQ(atomic_load(&fired), 1);
        schedule(0, 0);
        CHECK_OK(spn_future_get(jobs[0].future, &value, T_LONG_NS));
        what.repeat = SPN_REPEAT_RATE;
        what.period_ns = SPN_SEC(3600);
        what.skip_missed = 1;
        REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &again));
        T_AWAIT(atomic_load(&fired) == 2);
        T_AWAIT(pool_stats(pool).queued == 1); /* the next is within an hour */
        CHECK_EQ(atomic_load(&fired), 2);
        CHECK_EQ(spn_future_cancel(again, 0), 1);
        spn_future_unref(once);
        spn_future_unref(again);
        close_pool();
    }
}

/* execute, call and submit are due now. */
static int run_piece(spn_task *task);
struct piece {
    spn_task task;
    atomic_int runs, drops;
    int reason;
};
static int run_piece(spn_task *task)
{
    atomic_fetch_add(&((struct piece *)(void *)task)->runs, 1);
    return 0;
}
static void drop_piece(spn_task *task, int reason)
{
    ((struct piece *)(void *)task)->reason = reason;
    atomic_fetch_add(&((struct piece *)(void *)task)->drops, 1);
}
#define PIECE                                         \
    {                                                 \
        SPN_TASK_INIT(run_piece, drop_piece), 0, 0, 0 \
    }

TEST(scheduled__execute_call_submit__due_now, "STPE-1")
{
    static struct piece piece = PIECE;
    static struct piece later = PIECE;
    void *value;

    open_pool(1);
    CHECK_OK(spn_executor_execute(ex, &piece.task));
    CHECK_OK(spn_executor_call(ex, job_run, &jobs[1]));
    CHECK_OK(spn_executor_submit(ex, job_call, &jobs[0], &jobs[0].future));
    CHECK_OK(spn_future_get(jobs[0].future, &value, T_LONG_NS));
    CHECK(value == &jobs[0]);
    CHECK_EQ(atomic_load(&piece.runs), 1);
    CHECK_EQ(runs(1), 1);
    CHECK(remaining(0) <= 0);
    /* With a delay, a task of the caller's waits, too. */
    CHECK_OK(spn_scheduled_execute(sched, &later.task, SPN_SEC(1)));
    CHECK_STATUS(spn_scheduled_execute(sched, &later.task, 0), SPN_EBUSY);
    CHECK_OK(spn_scheduled_call(sched, job_run, &jobs[2], SPN_SEC(1)));
    CHECK_EQ(pool_stats(pool).queued, 2);
    advance(SPN_SEC(1));
    await_runs(2, 1);
    CHECK_EQ(atomic_load(&later.runs), 1);
    close_pool();
}

static int fails(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return spn_future_fail(-77, "as told");
}

static int code_of(spn_future *f)
{
    int code = 0;

    CHECK_OK(t_cause(f, &code, NULL, 0));
    return code;
}

/* All that an executor can: invoke_all, invoke_any, the failure of a future. */
TEST(scheduled__as_executor__serves, "STPE-1")
{
    spn_call calls[2] = { { job_call, &jobs[0] }, { fails, NULL } };
    spn_future *futures[2];
    void *value;

    open_pool(2);
    CHECK_OK(spn_executor_invoke_all(ex, calls, 2, SPN_FOREVER, NULL, futures));
    CHECK_OK(spn_future_get(futures[0], &value, 0));
    CHECK_STATUS(spn_future_get(futures[1], &value, 0), SPN_EFAILED);
    CHECK_EQ(code_of(futures[1]), -77);
    spn_future_unref(futures[0]);
    spn_future_unref(futures[1]);
    CHECK_OK(spn_executor_invoke_any(ex, calls, 1, SPN_FOREVER, NULL, &value, NULL));
    CHECK(value == &jobs[0]);
    CHECK_EQ(runs(0), 2);
    close_pool();
}

/* ---- order ------------------------------------------------------------------------------ */

/* By due time, and at the same time in the order in which they came. */
TEST(scheduled__order__due_then_submission, "STPE-12", "STPE-13")
{
    open_pool(1);
    REQUIRE_OK(spn_pool_pause(pool));
    for (int i = 0; i < 16; i++)
        schedule(i, SPN_SEC(5));
    schedule(16, SPN_SEC(4));
    schedule(17, SPN_SEC(6));
    for (int i = 18; i < 24; i++)
        schedule(i, 0);
    for (int i = 18; i < 23; i++)
        CHECK(remaining(i) == remaining(i + 1));
    CHECK(remaining(16) < remaining(0) && remaining(0) < remaining(17));
    advance(SPN_SEC(10));
    CHECK_EQ(remaining(0), -SPN_SEC(5));
    REQUIRE_OK(spn_pool_resume(pool));
    CHECK_OK(spn_executor_shutdown(ex));
    await_end();
    for (int i = 18; i < 24; i++)
        CHECK_EQ(atomic_load(&jobs[i].order), i - 17);
    CHECK_EQ(atomic_load(&jobs[16].order), 7);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(atomic_load(&jobs[i].order), 8 + i);
    CHECK_EQ(atomic_load(&jobs[17].order), 24);
    destroy();
}

/* Negative means now; nothing wraps. */
TEST(scheduled__negative_delay__means_now, "STPE-9", "P20")
{
    const int64_t delays[] = { 0, -1, -SPN_SEC(5), INT64_MIN, INT64_MIN + 1 };

    open_pool(1);
    for (int i = 0; i < 5; i++) {
        schedule(i, delays[i]);
        await_runs(i, 1);
        CHECK(remaining(i) <= 0);
        at_rate(8 + i, delays[i], SPN_SEC(3600));
        await_runs(8 + i, 1);
    }
    cut_pool();
}

/* A task that is never due next to one that is, in all forms: the due one runs. */
static void in_form(int form, int i, int64_t delay_ns)
{
    switch (form) {
    case 0:
        schedule(i, delay_ns);
        break;
    case 1:
        at_rate(i, delay_ns, SPN_SEC(86400) * 365); /* each missed run is made up for */
        break;
    case 2:
        with_delay(i, delay_ns, INT64_MAX);
        break;
    default:
        REQUIRE_OK(spn_scheduled_call(sched, job_run, &jobs[i], delay_ns));
        break;
    }
}

TEST(scheduled__huge_delay__neither_early_nor_in_the_way, "STPE-10", "P20")
{
    const int64_t huge[] = { INT64_MAX, INT64_MAX - 1, INT64_MAX - SPN_SEC(1000) };

    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int h = 0; h < 3; h++) {
                open_pool(1);
                REQUIRE_OK(spn_pool_pause(pool));
                in_form(b, 0, SPN_SEC(1));
                advance(SPN_SEC(1) + 1); /* overdue */
                in_form(a, 1, huge[h]);
                REQUIRE_OK(spn_pool_resume(pool));
                await_runs(0, 1);
                advance(SPN_SEC(86400) * 365 * 100);
                schedule(2, 0);
                await_runs(2, 1);
                CHECK_EQ(runs(1), 0);
                cut_pool();
            }
}

/* An endless delay between runs: one run, and nothing else waits for it. */
TEST(scheduled__fixed_delay_for_ever__runs_once, "STPE-11")
{
    open_pool(1);
    with_delay(0, 0, INT64_MAX);
    await_runs(0, 1);
    schedule(1, 0);
    await_runs(1, 1);
    await_queued(1);
    advance(SPN_SEC(86400) * 365 * 200);
    schedule(2, 0);
    await_runs(2, 1);
    CHECK_EQ(runs(0), 1);
    CHECK(remaining(0) > 0);
    cut_pool();
}

/* ---- again and again ------------------------------------------------------------------------- */

/* First not before its time; then at start + first + k * period, whatever a run takes. */
static void take_time(struct job *j)
{
    (void)j;
    advance(SPN_SEC(3));
}

TEST(scheduled__fixed_rate__does_not_drift, "STPE-3", "STPE-4", "P25")
{
    open_pool(1);
    at_rate(0, SPN_SEC(5), SPN_SEC(10));
    jobs[0].act = take_time;
    for (int k = 0; k < 8; k++) {
        await_queued(1);
        CHECK_EQ(runs(0), k);
        CHECK_OK(spn_clock_advance(clock_, remaining(0)));
        await_runs(0, k + 1);
    }
    for (int k = 0; k < 8; k++)
        CHECK_EQ(jobs[0].at[k], SPN_SEC(1000 + 5 + 10 * k));
    await_queued(1);
    CHECK_EQ(spn_future_get_state(jobs[0].future), SPN_FUTURE_PENDING);
    cut_pool();
}

/* Fixed delay: a whole delay from the end of a run. */
TEST(scheduled__fixed_delay__from_end_to_start, "STPE-3", "STPE-5")
{
    open_pool(1);
    with_delay(0, SPN_SEC(5), SPN_SEC(10));
    jobs[0].act = take_time;
    for (int k = 0; k < 4; k++) {
        await_queued(1);
        CHECK_EQ(remaining(0), k == 0 ? SPN_SEC(5) : SPN_SEC(10));
        CHECK_OK(spn_clock_advance(clock_, remaining(0)));
        await_runs(0, k + 1);
    }
    for (int k = 0; k < 4; k++)
        CHECK_EQ(jobs[0].at[k], SPN_SEC(1000 + 5 + 13 * k));
    cut_pool();
}

/* Eight cycles on the real clock. */
TEST(scheduled__fixed_rate_real_clock__not_before, "STPE-4", "STPE-5")
{
    const int64_t period_ns = SPN_MS(5);

    for (int how = 0; how < 2; how++) {
        int64_t since;

        open_clocked(spn_scheduled_opts_pool(2), 0);
        since = spn_now();
        if (how == 0)
            at_rate(0, 0, period_ns);
        else
            with_delay(0, 0, period_ns);
        await_runs(0, 8);
        CHECK(spn_now() - since >= 7 * period_ns);
        for (int k = 1; k < 8; k++) {
            if (how == 0)
                CHECK(jobs[0].at[k] - since >= k * period_ns);
            else
                CHECK(jobs[0].at[k] - jobs[0].at[k - 1] >= period_ns);
        }
        close_pool();
    }
}

/* Runs that are late follow one another, never two at once; or are skipped. */
TEST(scheduled__missed__burst_or_skip, "STPE-6", "STPE-7", "P24")
{
    spn_schedule what = SPN_SCHEDULE_INIT;

    open_pool(2);
    at_rate(0, SPN_SEC(1), SPN_SEC(1));
    what.run = job_run;
    what.arg = &jobs[1];
    what.delay_ns = what.period_ns = SPN_SEC(1);
    what.repeat = SPN_REPEAT_RATE;
    what.skip_missed = 1;
    REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &jobs[1].future));
    advance(SPN_SEC(5) + SPN_MS(500));
    await_runs(0, 5);
    await_runs(1, 1);
    await_queued(2);
    CHECK_EQ(runs(0), 5);
    CHECK_EQ(runs(1), 1);
    CHECK_EQ(remaining(0), SPN_MS(500));
    CHECK_EQ(remaining(1), SPN_MS(500)); /* in phase */
    advance(SPN_MS(500));
    await_runs(0, 6);
    await_runs(1, 2);
    cut_pool();
}

/* Over a span D, an interval timer with period p fires floor(D/p) times, in phase. */
TEST(scheduled__simulated_span__fires_exactly, "STPE-43")
{
    const int64_t periods[] = { 7, 1000, SPN_MS(3), SPN_SEC(11) };

    for (int p = 0; p < 4; p++) {
        const int64_t steps = 20;

        open_pool(1);
        at_rate(0, periods[p], periods[p]);
        for (int64_t k = 0; k < steps; k++) {
            advance(periods[p] - 1);
            advance(1);
            await_runs(0, (int)k + 1);
            await_queued(1);
            CHECK_EQ(remaining(0), periods[p]);
        }
        CHECK_EQ(runs(0), steps);
        for (int k = 0; k < steps; k++)
            CHECK_EQ(jobs[0].at[k], SPN_SEC(1000) + (k + 1) * periods[p]);
        cut_pool();
    }
}

/* What cannot be. */
TEST(scheduled__bad_periods__are_refused, "STPE-8")
{
    const int64_t bad[] = { 0, -1, INT64_MIN };
    spn_future *f;

    open_pool(1);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(spn_scheduled_at_fixed_rate(sched, job_run, NULL, 0, bad[i], &f),
                     SPN_EINVAL);
        CHECK(f == NULL);
        CHECK_STATUS(spn_scheduled_with_fixed_delay(sched, job_run, NULL, 0, bad[i],
                                                    &f),
                     SPN_EINVAL);
    }
    CHECK_STATUS(spn_scheduled_schedule(sched, NULL, NULL, 0, &f), SPN_EINVAL);
    CHECK_STATUS(spn_scheduled_at_fixed_rate(sched, NULL, NULL, 0, 1, &f), SPN_EINVAL);
    CHECK_STATUS(spn_scheduled_with_fixed_delay(sched, NULL, NULL, 0, 1, &f),
                 SPN_EINVAL);
    CHECK_STATUS(spn_scheduled_call(sched, NULL, NULL, 0), SPN_EINVAL);
    CHECK_EQ(pool_stats(pool).queued, 0);
    close_pool();
}

/* ---- failing ---------------------------------------------------------------------------------- */

static atomic_int reports, last_code;
static spn_future *reported;

static void on_failed(spn_scheduled *s, spn_future *future, int code, void *ctx)
{
    CHECK(s == sched);
    CHECK(ctx == &reports);
    reported = future;
    atomic_store(&last_code, code);
    atomic_fetch_add(&reports, 1);
}

static spn_scheduled_opts reporting(int32_t threads)
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(threads);

    atomic_store(&reports, 0);
    o.failed = on_failed;
    o.ctx = &reports;
    return o;
}

/* It stops, its future has the cause, and somebody is told. */
TEST(scheduled__periodic_fails__stops_and_says_so, "STPE-15", "STPE-14", "P26")
{
    void *value;

    open_with(reporting(1));
    at_rate(0, 0, SPN_SEC(1));
    await_runs(0, 1);
    await_queued(1);
    CHECK_STATUS(spn_future_get(jobs[0].future, &value, 0), SPN_ETIMEDOUT);
    atomic_store(&jobs[0].fails, -78);
    advance(SPN_SEC(1));
    CHECK_STATUS(spn_future_get(jobs[0].future, &value, T_LONG_NS), SPN_EFAILED);
    CHECK_EQ(code_of(jobs[0].future), -78);
    CHECK_EQ(atomic_load(&reports), 1);
    CHECK_EQ(atomic_load(&last_code), -78);
    CHECK(reported == jobs[0].future);
    advance(SPN_SEC(5));
    schedule(1, 0);
    await_runs(1, 1);
    CHECK_EQ(runs(0), 2);
    CHECK_EQ(spn_scheduled_failed_runs(sched), 1);
    close_pool();
}

/* Or it goes on, and each failure is reported. */
TEST(scheduled__periodic_fails__goes_on_if_told_to, "STPE-15", "P26")
{
    spn_schedule what = SPN_SCHEDULE_INIT;

    open_with(reporting(1));
    atomic_store(&jobs[0].fails, 5);
    what.run = job_run;
    what.arg = &jobs[0];
    what.repeat = SPN_REPEAT_DELAY;
    what.period_ns = SPN_SEC(1);
    what.on_failure = SPN_FAILURE_GO_ON;
    REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &jobs[0].future));
    for (int k = 1; k <= 3; k++) {
        await_runs(0, k);
        await_queued(1);
        CHECK_EQ(atomic_load(&reports), k);
        CHECK_EQ(spn_scheduled_failed_runs(sched), k);
        advance(SPN_SEC(1));
    }
    CHECK_EQ(spn_future_get_state(jobs[0].future), SPN_FUTURE_PENDING);
    cut_pool();
}

static atomic_int warnings, stops_said;

static void note_warning(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    if (level == SPN_LOG_WARN &&
        strstr(message, "a periodic task failed with") != NULL) {
        atomic_fetch_add(&stops_said, strstr(message, ", and stops") != NULL);
        atomic_fetch_add(&warnings, 1);
    }
}

static void fail_unheard(void *arg)
{
    spn_schedule what = SPN_SCHEDULE_INIT;

    (void)arg;
    CHECK_OK(spn_log_set_hook(note_warning, NULL));
    open_with(spn_scheduled_opts_pool(1));
    what.run = job_run;
    what.repeat = SPN_REPEAT_RATE;
    what.period_ns = SPN_SEC(1);
    for (int i = 0; i < 2; i++) {
        atomic_store(&jobs[i].fails, 5);
        what.arg = &jobs[i];
        what.on_failure = i == 0 ? SPN_FAILURE_STOP : SPN_FAILURE_GO_ON;
        REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &jobs[i].future));
    }
    for (int k = 1; k <= 3; k++) {
        await_runs(1, k);
        await_queued(1);
        CHECK_EQ(runs(0), 1);
        CHECK_EQ(atomic_load(&warnings), k + 1); /* one for each run that failed */
        advance(SPN_SEC(1));
    }
    CHECK_EQ(atomic_load(&stops_said), 1);
    cut_pool();
}

/* Where nobody asked to be told, the log is: a task that stops says so. */
TEST(scheduled__periodic_fails_without_a_hook__logged, "STPE-15", "P26")
{
    CHECK_CHILD(fail_unheard, NULL);
}

static void end_thread(struct job *j)
{
    atomic_fetch_sub(&j->inside, 1);
    atomic_fetch_add(&j->ended, 1);
    pthread_exit(NULL);
}

/* One that ends its thread has failed; the others go on. */
TEST(scheduled__periodic_ends_its_thread__is_reported, "STPE-15", "P26")
{
    open_with(reporting(1));
    jobs[0].act = end_thread;
    at_rate(0, 0, SPN_SEC(1));
    CHECK_STATUS(spn_future_get(jobs[0].future, NULL, T_LONG_NS), SPN_EFAILED);
    T_AWAIT(atomic_load(&reports) == 1);
    schedule(1, 0);
    await_runs(1, 1);
    close_pool();
    CHECK_EQ(runs(0), 1);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static void cancel_itself(struct job *j)
{
    CHECK_EQ(spn_future_cancel(j->future, 0), 1);
}

/* A cancelled periodic task runs no more; get says so; it may cancel itself. */
TEST(scheduled__periodic_cancelled__runs_no_more, "STPE-16", "STPE-14")
{
    void *value;

    open_pool(1);
    REQUIRE_OK(spn_pool_pause(pool));
    at_rate(0, 0, SPN_SEC(1));
    jobs[0].act = cancel_itself;
    at_rate(1, 0, SPN_SEC(1));
    REQUIRE_OK(spn_pool_resume(pool));
    CHECK_STATUS(spn_future_get(jobs[0].future, &value, T_LONG_NS), SPN_ECANCELED);
    await_runs(1, 1);
    await_queued(1);
    CHECK_EQ(spn_future_cancel(jobs[1].future, 0), 1);
    CHECK_EQ(spn_future_cancel(jobs[1].future, 0), 0);
    CHECK_STATUS(spn_future_get(jobs[1].future, &value, 0), SPN_ECANCELED);
    CHECK_EQ(pool_stats(pool).queued, 0);
    advance(SPN_SEC(10));
    schedule(2, 0);
    await_runs(2, 1);
    CHECK_EQ(runs(0), 1);
    CHECK_EQ(runs(1), 1);
    close_pool();
}

/* cancel(true) interrupts the run that goes on. */
TEST(scheduled__cancel_with_interrupt__reaches_the_run, "STPE-16")
{
    open_pool(1);
    jobs[0].gate = gate;
    at_rate(0, 0, SPN_SEC(1));
    T_AWAIT(runs(0) == 1);
    CHECK_EQ(spn_future_cancel(jobs[0].future, 1), 1);
    await_runs(0, 1);
    CHECK_EQ(atomic_load(&jobs[0].interrupted), 1);
    await_queued(0);
    close_pool();
}

/* At once by default (unlike Java); when due, or by purge, if the policy says so. */
TEST(scheduled__cancelled__leaves_the_queue, "STPE-20", "STPE-22", "STPE-28", "P17")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);
    spn_pool_stats s;

    open_pool(1);
    schedule(0, SPN_SEC(1));
    at_rate(1, SPN_SEC(1), SPN_SEC(1));
    CHECK_EQ(pool_stats(pool).queued, 2);
    CHECK_EQ(spn_future_cancel(jobs[0].future, 0), 1);
    CHECK_EQ(pool_stats(pool).queued, 1);
    CHECK_EQ(spn_future_complete_error(jobs[1].future, -5, NULL), 1); /* any outcome */
    CHECK_EQ(pool_stats(pool).queued, 0);
    CHECK_OK(spn_executor_shutdown(ex));
    await_end();
    s = expect_even();
    CHECK_EQ(s.cancelled, 2);
    destroy();

    o.remove_on_cancel = 0;
    open_with(o);
    schedule(0, SPN_SEC(1));
    schedule(1, SPN_SEC(2));
    schedule(2, SPN_SEC(2));
    CHECK_EQ(spn_future_cancel(jobs[0].future, 0), 1);
    CHECK_EQ(spn_future_cancel(jobs[1].future, 0), 1);
    CHECK_EQ(pool_stats(pool).queued, 3);
    advance(SPN_SEC(1));
    await_queued(2);
    CHECK_EQ(runs(0), 0);
    CHECK_EQ(spn_pool_purge(pool), 1);
    CHECK_EQ(pool_stats(pool).queued, 1);
    cut_pool();
}

/* Very many come and go, and nothing stays: counts, and memory, of which each future that
 * stayed would take a few hundred bytes.  (Ten millions: tests/stress/test_scheduled.c.) */
TEST(scheduled__schedule_and_cancel__nothing_stays, "STPE-21", "STPE-23", "X-2", "P17")
{
    enum { KEPT = 2000 };
    static spn_future *kept[KEPT];
    const int rounds = t_rounds(200000);
    long before_kb = 0;

    open_clocked(spn_scheduled_opts_pool(1), 0);
    for (int i = 0; i < KEPT; i++)
        REQUIRE_OK(spn_scheduled_schedule(sched, job_call, &jobs[0],
                                          SPN_SEC(600) + i * 1000 % KEPT, &kept[i]));
    for (int i = 0; i < rounds; i++) {
        spn_future *f;

        if (i == rounds / 10)
            before_kb = t_resident_kb();
        REQUIRE_OK(spn_scheduled_schedule(sched, job_call, &jobs[0], SPN_SEC(600), &f));
        CHECK_EQ(spn_future_cancel(f, 0), 1);
        spn_future_unref(f);
    }
    if (!T_ASAN)
        CHECK(t_resident_kb() - before_kb < 4096); /* 23 bytes for each */
    CHECK_EQ(pool_stats(pool).queued, KEPT);
    for (int i = 0; i < KEPT; i++) { /* from anywhere in the heap */
        const int at = (int)((int64_t)i * 1009 % KEPT);

        CHECK_EQ(spn_future_cancel(kept[at], 0), 1);
        spn_future_unref(kept[at]);
    }
    CHECK_EQ(pool_stats(pool).queued, 0);
    CHECK_EQ(pool_tasks(pool), 0);
    CHECK_EQ(pool_ended(pool), 0);
    close_pool();
    CHECK_EQ(runs(0), 0);
}

/* ---- the queue ------------------------------------------------------------------------------------ */

/* Waiting tasks are the very handles; a running one is not there. */
TEST(scheduled__snapshot__has_the_handles, "STPE-18", "STPE-19")
{
    spn_task *tasks[8];

    open_pool(1);
    jobs[0].gate = gate;
    schedule(0, 0);
    T_AWAIT(runs(0) == 1);
    for (int i = 1; i < 5; i++)
        schedule(i, SPN_SEC(10 - i));
    CHECK_EQ(spn_pool_snapshot(pool, tasks, 8), 4);
    for (int i = 0; i < 4; i++)
        CHECK(spn_future_of_task(tasks[i]) == jobs[4 - i].future);
    CHECK_EQ(spn_scheduled_remove(sched, jobs[0].future), 0);
    CHECK_EQ(spn_scheduled_remove(sched, jobs[2].future), 1);
    CHECK_EQ(spn_scheduled_remove(sched, jobs[2].future), 0);
    CHECK_EQ(spn_future_get_state(jobs[2].future), SPN_FUTURE_PENDING);
    CHECK_EQ(pool_stats(pool).queued, 3);
    CHECK_OK(spn_latch_count_down(gate));
    advance(SPN_SEC(10));
    close_pool();
    CHECK_EQ(runs(2), 0);
    CHECK_EQ(runs(1) + runs(3) + runs(4), 3);
}

/* Only what is due, in order, as far as there is room. */
TEST(scheduled__drain__takes_what_is_due, "STPE-41")
{
    spn_task *tasks[4];

    open_pool(1);
    REQUIRE_OK(spn_pool_pause(pool));
    for (int i = 0; i < 6; i++)
        schedule(i, SPN_SEC(6 - i));
    CHECK_EQ(spn_scheduled_drain(sched, tasks, 4), 0);
    advance(SPN_SEC(3));
    CHECK_EQ(spn_scheduled_drain(sched, tasks, 2), 2);
    CHECK(spn_future_of_task(tasks[0]) == jobs[5].future);
    CHECK(spn_future_of_task(tasks[1]) == jobs[4].future);
    CHECK_EQ(pool_stats(pool).queued, 4);
    CHECK_EQ(spn_task_run(tasks[0]), 0);
    CHECK_OK(spn_task_drop(tasks[1], SPN_ECANCELED));
    CHECK_EQ(runs(5), 1);
    CHECK_EQ(spn_future_get_state(jobs[4].future), SPN_FUTURE_CANCELED);
    CHECK_EQ(spn_scheduled_drain(sched, tasks, 4), 1);
    CHECK_OK(spn_task_drop(tasks[0], SPN_ECANCELED));
    CHECK_EQ(pool_stats(pool).queued, 3);
    cut_pool();
}

/* ---- threads -------------------------------------------------------------------------------------- */

/* A thread per task until there are core; never more. */
TEST(scheduled__threads__up_to_core, "STPE-35", "STPE-36", "STPE-37")
{
    open_pool(3);
    CHECK_EQ(pool_stats(pool).threads, 0);
    for (int i = 0; i < 5; i++) {
        schedule(i, i % 2 == 0 ? 0 : SPN_SEC(10));
        CHECK_EQ(pool_stats(pool).threads, i < 3 ? i + 1 : 3);
    }
    CHECK_EQ(pool_stats(pool).max_threads, 3);
    CHECK_OK(pool_set_max(pool, 20));
    for (int i = 5; i < 20; i++)
        schedule(i, 0);
    for (int i = 5; i < 20; i++)
        await_runs(i, 1);
    CHECK_EQ(pool_stats(pool).largest, 3);
    cut_pool();
}

/* Core 0: one thread while there is something, and it does not spin. */
TEST(scheduled__core_0__works_without_spinning, "STPE-30", "EXE-13", "P16")
{
    struct rusage before, after;
    spn_scheduled_opts o = spn_scheduled_opts_pool(0);
    bool slept = false;

    o.keep_alive_ns = 0;
    open_clocked(o, 0);
    schedule(0, SPN_MS(100));
    schedule(2, SPN_SEC(3600));
    (void)getrusage(RUSAGE_SELF, &before);
    await_runs(0, 1);
    (void)getrusage(RUSAGE_SELF, &after);
    /* The wait itself takes no turns at the CPU, */
    CHECK(after.ru_nvcsw - before.ru_nvcsw < 3000);
    CHECK_EQ(pool_stats(pool).threads, 1);
    /* and does not keep it. */
    for (int i = 3; i < JOBS && !slept; i++) {
        const int64_t before_ns = t_cpu_of_others_ns();

        schedule(i, SPN_MS(100));
        await_runs(i, 1);
        slept = t_cpu_of_others_ns() - before_ns < t_scaled(SPN_MS(10));
    }
    CHECK(slept);
    CHECK_EQ(spn_future_cancel(jobs[2].future, 0), 1);
    T_AWAIT(pool_stats(pool).threads == 0);
    schedule(1, SPN_MS(1));
    CHECK_OK(spn_executor_shutdown(ex));
    await_end();
    CHECK_EQ(runs(1), 1);
    CHECK_EQ(pool_stats(pool).largest, 1);
    destroy();
}

/* How often the other threads of the process have gone to sleep. */
static int64_t sleeps_of_others(void)
{
    DIR *dir = opendir("/proc/self/task");
    int64_t sum = 0;

    REQUIRE(dir != NULL);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[300], line[128];
        FILE *file;
        long n;

        if (e->d_name[0] == '.' || atoi(e->d_name) == peer_gettid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        file = fopen(path, "re");
        if (file == NULL)
            continue;
        while (fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1)
                sum += n;
        fclose(file);
    }
    closedir(dir);
    return sum;
}

/* Whether the others sleep through a tenth of a second, without turns at the CPU and without
 * keeping it; a sanitizer has a thread of its own that does not. */
static bool are_quiet(void)
{
    const int64_t before = sleeps_of_others(), since = spn_now();
    const int64_t before_ns = t_cpu_of_others_ns();

    while (spn_now() - since < SPN_MS(100))
        t_pause();
    return sleeps_of_others() - before <= 2 &&
           t_cpu_of_others_ns() - before_ns < t_scaled(SPN_MS(5));
}

/* Who waits for far tasks sleeps through: no ticks, no turns.  On a busy machine the last may
 * take its time until it sleeps: one of many looks finds all quiet. */
TEST(scheduled__far_tasks__no_wakeups, "STPE-37", "STPE-30", "P16")
{
    for (int32_t core = 0; core < 3; core++) {
        bool quiet = false;

        open_clocked(spn_scheduled_opts_pool(core), 0);
        schedule(0, SPN_SEC(3600));
        schedule(1, SPN_SEC(3601));
        schedule(2, 0);
        await_runs(2, 1);
        T_AWAIT(pool_stats(pool).active == 0);
        for (int looks = 0; looks < 50 && !quiet; looks++)
            quiet = are_quiet();
        CHECK(quiet);
        CHECK_EQ(pool_stats(pool).threads, core > 1 ? core : 1);
        cut_pool();
    }
}

/* An earlier task wakes a worker that sleeps for a later one. */
TEST(scheduled__earlier_task__shortens_the_sleep, "STPE-38", "P4")
{
    open_clocked(spn_scheduled_opts_pool(1), 0);
    schedule(0, SPN_SEC(3600));
    T_AWAIT(pool_stats(pool).threads == 1 && pool_stats(pool).active == 0);
    schedule(1, SPN_MS(5));
    CHECK_OK(spn_future_get(jobs[1].future, NULL, T_LONG_NS));
    cut_pool();
}

/* ---- decoration --------------------------------------------------------------------------------- */

static atomic_int decorated, wrapped;

static int wrap(void *arg)
{
    atomic_fetch_add(&wrapped, 1);
    return job_run(arg);
}

static int wrap_call(void *arg, void **result)
{
    atomic_fetch_add(&wrapped, 1);
    return job_call(arg, result);
}

static int decorate(spn_scheduled *s, spn_schedule *what, void *ctx)
{
    CHECK(s == sched || sched == NULL);
    CHECK(ctx == &decorated);
    atomic_fetch_add(&decorated, 1);
    if (what->arg == &jobs[9])
        return 7; /* not this one */
    if (what->arg == &jobs[8])
        return SPN_EPERM;
    if (what->run != NULL)
        what->run = wrap;
    else
        what->call = wrap_call;
    return 0;
}

TEST(scheduled__decorate__once_per_task, "STPE-35")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);
    spn_future *f;

    o.decorate = decorate;
    o.ctx = &decorated;
    atomic_store(&decorated, 0);
    atomic_store(&wrapped, 0);
    open_with(o);
    schedule(0, 0);
    at_rate(1, 0, SPN_SEC(1));
    CHECK_OK(spn_executor_submit(ex, job_call, &jobs[2], &jobs[2].future));
    await_runs(2, 1);
    await_runs(1, 1);
    await_queued(1);
    CHECK_EQ(atomic_load(&decorated), 3);
    CHECK_EQ(atomic_load(&wrapped), 3);
    advance(SPN_SEC(1));
    await_runs(1, 2);
    CHECK_EQ(atomic_load(&decorated), 3);
    CHECK_EQ(atomic_load(&wrapped), 4);
    CHECK_STATUS(spn_scheduled_schedule(sched, job_call, &jobs[9], 0, &f),
                 SPN_EREJECTED);
    CHECK_STATUS(spn_scheduled_schedule(sched, job_call, &jobs[8], 0, &f), SPN_EPERM);
    CHECK(f == NULL);
    cut_pool();
}

/* ---- what goes with a task ------------------------------------------------------------------------- */

static atomic_int released, dones;

static void release_arg(void *arg)
{
    CHECK(arg == &jobs[0] || arg == &jobs[1] || arg == &jobs[2]);
    atomic_fetch_add(&released, 1);
}

static void done(spn_future *future, void *arg)
{
    (void)future;
    (void)arg;
    atomic_fetch_add(&dones, 1);
}

/* The options of the future are heeded; its argument comes back once. */
TEST(scheduled__future_options__are_heeded, "STPE-2", "STPE-16")
{
    spn_future_opts fo = SPN_FUTURE_OPTS_INIT;
    spn_schedule what = SPN_SCHEDULE_INIT;

    atomic_store(&released, 0);
    atomic_store(&dones, 0);
    open_pool(1);
    fo.release_arg = release_arg;
    fo.done = done;
    what.future = &fo;
    what.call = job_call;
    what.arg = &jobs[0];
    REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &jobs[0].future));
    what.call = NULL;
    what.run = job_run;
    what.arg = &jobs[1];
    what.at_ns = SPN_SEC(1000); /* now */
    REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &jobs[1].future));
    what.arg = &jobs[2];
    what.repeat = SPN_REPEAT_RATE;
    what.period_ns = SPN_SEC(1);
    REQUIRE_OK(spn_scheduled_schedule_with(sched, &what, &jobs[2].future));
    await_runs(2, 1);
    await_queued(1);
    CHECK_EQ(atomic_load(&released), 2);
    CHECK_EQ(atomic_load(&dones), 2);
    CHECK_EQ(spn_future_cancel(jobs[2].future, 0), 1);
    CHECK_EQ(atomic_load(&released), 3);
    CHECK_EQ(atomic_load(&dones), 3);
    close_pool();
}

static spn_context *seen;

static void note_context(struct job *j)
{
    (void)j;
    seen = spn_context_current();
}

/* The submitter's context is there in each run, and gone in between. */
TEST(scheduled__context__goes_with_every_run, "STPE-7", "P40")
{
    spn_context *context;
    spn_context_scope scope;

    open_pool(1);
    REQUIRE_OK(spn_context_create(&context, NULL));
    REQUIRE_OK(spn_context_enter(&scope, context));
    jobs[0].act = note_context;
    at_rate(0, 0, SPN_SEC(1));
    CHECK_OK(spn_context_leave(&scope));
    for (int k = 1; k <= 3; k++) {
        await_runs(0, k);
        await_queued(1);
        CHECK(seen == context);
        seen = NULL;
        advance(SPN_SEC(1));
    }
    spn_context_unref(context);
    cut_pool();
}

/* ---- a periodic future elsewhere --------------------------------------------------- */

static spn_future *periodic;
static atomic_int resubmitted;

static int resubmit(void *arg)
{
    if (atomic_load(&resubmitted) == 0)
        atomic_store(&resubmitted, spn_future_submit(periodic, arg));
    return 0;
}

/* A periodic future is its executor's, also while it runs: nobody else gets it. */
TEST(scheduled__periodic_submitted_while_it_runs__busy, "STPE-17", "P29")
{
    spn_manual_executor *other;

    REQUIRE_OK(spn_manual_executor_create(&other));
    atomic_store(&resubmitted, 0);
    open_pool(1);
    REQUIRE_OK(spn_scheduled_at_fixed_rate(sched, resubmit,
                                           spn_manual_executor_executor(other),
                                           SPN_SEC(1), SPN_SEC(1), &periodic));
    CHECK_STATUS(spn_future_submit(periodic, spn_manual_executor_executor(other)),
                 SPN_EBUSY);
    advance(SPN_SEC(1));
    T_AWAIT(atomic_load(&resubmitted) != 0);
    CHECK_STATUS(atomic_load(&resubmitted), SPN_EBUSY);
    CHECK_EQ(spn_manual_executor_pending(other), 0);
    CHECK_EQ(spn_future_cancel(periodic, 0), 1);
    spn_future_unref(periodic);
    close_pool();
    CHECK_OK(spn_manual_executor_destroy(other));
}
