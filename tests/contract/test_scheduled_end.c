/* SPDX-License-Identifier: MIT */
/* test_scheduled_end.c - the end of a scheduled executor, its policies and its knobs. */
#include "pool_calls.h"
#include "scheds.h"

/* ---- shutdown ------------------------------------------------------------------------- */

/* By default: delayed and immediate ones run, periodic ones are cancelled. */
TEST(scheduled__shutdown__delayed_run_periodic_do_not, "STPE-24", "STPE-28", "STPE-34")
{
    open_pool(1);
    schedule(0, SPN_SEC(1));
    at_rate(1, SPN_SEC(1), SPN_SEC(1));
    with_delay(2, SPN_SEC(1), SPN_SEC(1));
    schedule(3, 0);
    CHECK_EQ(spn_executor_is_shutdown(ex), 0);
    CHECK_OK(spn_executor_shutdown(ex));
    CHECK_OK(spn_executor_shutdown(ex));
    CHECK_EQ(spn_executor_is_shutdown(ex), 1);
    CHECK_EQ(pool_is_terminating(pool), 1);
    CHECK_EQ(spn_future_get_state(jobs[1].future), SPN_FUTURE_CANCELED);
    CHECK_EQ(spn_future_get_state(jobs[2].future), SPN_FUTURE_CANCELED);
    CHECK_EQ(spn_future_get_state(jobs[0].future), SPN_FUTURE_PENDING);
    CHECK_STATUS(spn_executor_await(ex, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_scheduled_destroy(sched), SPN_EBUSY);
    advance(SPN_SEC(1));
    await_end();
    CHECK_EQ(runs(0), 1);
    CHECK_EQ(runs(1) + runs(2), 0);
    CHECK_EQ(runs(3), 1);
    CHECK_EQ(pool_is_terminating(pool), 0);
    CHECK_EQ(pool_ended(pool), 2);
    destroy();
}

/* Delayed ones off: those that are not due are cancelled, those that are run. */
TEST(scheduled__no_delayed__only_what_is_due_runs, "STPE-25")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);

    o.delayed_after_shutdown = 0;
    open_with(o);
    jobs[0].gate = gate;
    schedule(0, 0);
    T_AWAIT(runs(0) == 1);
    schedule(1, 0);
    schedule(2, SPN_SEC(1));
    schedule(3, SPN_SEC(2));
    advance(SPN_SEC(1));
    CHECK_OK(spn_executor_shutdown(ex));
    CHECK_EQ(spn_future_get_state(jobs[3].future), SPN_FUTURE_CANCELED);
    CHECK_EQ(pool_stats(pool).queued, 2);
    CHECK_OK(spn_latch_count_down(gate));
    await_end();
    CHECK_EQ(runs(1), 1);
    CHECK_EQ(runs(2), 1);
    CHECK_EQ(runs(3), 0);
    destroy();
}

/* Periodic ones on: they go on, until cancelled or failed. */
TEST(scheduled__periodic_on__goes_on_after_shutdown, "STPE-26")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(2);

    o.periodic_after_shutdown = 1;
    open_with(o);
    at_rate(0, 0, SPN_SEC(1));
    at_rate(1, 0, SPN_SEC(1));
    CHECK_OK(spn_executor_shutdown(ex));
    for (int k = 1; k <= 3; k++) {
        await_runs(0, k);
        await_runs(1, k);
        await_queued(2);
        advance(SPN_SEC(1));
    }
    await_runs(1, 4);
    await_runs(0, 4);
    await_queued(2);
    CHECK_EQ(spn_future_cancel(jobs[0].future, 0), 1);
    CHECK_EQ(spn_executor_is_terminated(ex), 0);
    atomic_store(&jobs[1].fails, -5);
    advance(SPN_SEC(1));
    await_end();
    CHECK_EQ(spn_future_get_state(jobs[1].future), SPN_FUTURE_FAILED);
    destroy();
}

/* One that runs at shutdown finishes its run, then it is cancelled. */
TEST(scheduled__periodic_running_at_shutdown__finishes_its_run, "STPE-27")
{
    open_pool(1);
    jobs[0].gate = gate;
    at_rate(0, 0, SPN_SEC(1));
    T_AWAIT(runs(0) == 1);
    CHECK_OK(spn_executor_shutdown(ex));
    CHECK_EQ(spn_future_get_state(jobs[0].future), SPN_FUTURE_PENDING);
    CHECK_OK(spn_latch_count_down(gate));
    await_end();
    CHECK_EQ(atomic_load(&jobs[0].ended), 1);
    CHECK_EQ(atomic_load(&jobs[0].interrupted), 0);
    CHECK_EQ(spn_future_get_state(jobs[0].future), SPN_FUTURE_CANCELED);
    destroy();
}

static spn_task *back[16];
static int backs;

static void keep(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    CHECK(ctx == &backs);
    back[backs++] = task;
}

/* Every waiting task comes back as the handle it was, without an outcome. */
TEST(scheduled__shutdown_now__returns_all, "STPE-31")
{
    int64_t count = -1;

    backs = 0;
    open_pool(1);
    REQUIRE_OK(spn_pool_pause(pool));
    for (int i = 0; i < 3; i++) {
        schedule(i, i * SPN_SEC(1));
        at_rate(3 + i, i * SPN_SEC(1), SPN_SEC(1));
        with_delay(6 + i, i * SPN_SEC(1), SPN_SEC(1));
    }
    CHECK_OK(spn_executor_shutdown_now(ex, keep, &backs, &count));
    CHECK_EQ(count, 9);
    CHECK_EQ(backs, 9);
    CHECK_EQ(pool_stats(pool).queued, 0);
    await_end();
    for (int i = 0; i < 9; i++) {
        const int was = i / 3 + i % 3 * 3; /* by due time, then submission */

        CHECK(spn_future_of_task(back[i]) == jobs[was].future);
        CHECK_EQ(spn_future_get_state(jobs[was].future), SPN_FUTURE_PENDING);
        CHECK(spn_future_get_state(jobs[was].future) != SPN_FUTURE_CANCELED);
        /* Theirs now: run one by hand, drop one, cancel one. */
        if (i % 3 == 0)
            CHECK_EQ(spn_task_run(back[i]), 0);
        else {
            if (i % 3 == 1)
                CHECK_EQ(spn_future_cancel(jobs[was].future, 0), 1);
            CHECK_OK(spn_task_drop(back[i], SPN_ECANCELED));
        }
        CHECK(spn_future_get_state(jobs[was].future) != SPN_FUTURE_PENDING);
    }
    CHECK_EQ(runs(0) + runs(1) + runs(2), 3);
    destroy();
}

/* 5 tasks on 2 threads: 2 run, 3 come back. */
TEST(scheduled__shutdown_now_while_two_run__three_return, "STPE-32")
{
    int64_t count = -1;

    backs = 0;
    open_pool(2);
    for (int i = 0; i < 5; i++) {
        jobs[i].gate = gate;
        schedule(i, 0);
    }
    T_AWAIT(atomic_load(&places) == 2);
    CHECK_OK(spn_executor_shutdown_now(ex, keep, &backs, &count));
    CHECK_EQ(count, 3);
    await_end();
    CHECK_EQ(pool_ended(pool), 2);
    CHECK_EQ(atomic_load(&places), 2);
    for (int i = 0; i < 2; i++) /* interrupted */
        CHECK_EQ(atomic_load(&jobs[i].interrupted), 1);
    for (int i = 0; i < backs; i++)
        CHECK_OK(spn_task_drop(back[i], SPN_ECANCELED));
    destroy();
}

/* One that was given back may go to another executor. */
TEST(scheduled__given_back__may_go_elsewhere, "STPE-31")
{
    spn_scheduled *first;
    spn_latch *first_gate;
    spn_clock *first_clock;

    backs = 0;
    open_pool(1);
    REQUIRE_OK(spn_pool_pause(pool));
    at_rate(0, 0, SPN_SEC(1));
    CHECK_OK(spn_executor_shutdown_now(ex, keep, &backs, NULL));
    REQUIRE(backs == 1);
    await_end();
    first = sched;
    first_gate = gate;
    first_clock = clock_;
    REQUIRE_OK(spn_scheduled_create(&sched, NULL));
    CHECK_OK(spn_scheduled_execute(sched, back[0], SPN_MS(1)));
    CHECK_OK(spn_future_get(jobs[0].future, NULL, T_LONG_NS)); /* once, and done */
    CHECK_EQ(runs(0), 1);
    CHECK_OK(spn_pool_close(spn_scheduled_pool(sched)));
    CHECK_OK(spn_scheduled_destroy(sched));
    sched = first;
    gate = first_gate;
    clock_ = first_clock;
    destroy();
}

/* Nothing is taken after shutdown, in any form. */
TEST(scheduled__after_shutdown__is_refused, "STPE-33")
{
    spn_future *f;
    spn_task task = SPN_TASK_INIT(NULL, NULL);

    open_pool(1);
    jobs[0].gate = gate;
    schedule(0, 0);
    T_AWAIT(runs(0) == 1);
    CHECK_OK(spn_executor_shutdown(ex));
    for (int over = 0; over < 2; over++) {
        CHECK_STATUS(spn_scheduled_schedule(sched, job_call, NULL, 1, &f),
                     SPN_EREJECTED);
        CHECK(f == NULL);
        CHECK_STATUS(spn_scheduled_at_fixed_rate(sched, job_run, NULL, 1, 1, &f),
                     SPN_EREJECTED);
        CHECK_STATUS(spn_scheduled_with_fixed_delay(sched, job_run, NULL, 1, 1, &f),
                     SPN_EREJECTED);
        CHECK_STATUS(spn_scheduled_call(sched, job_run, NULL, 1), SPN_EREJECTED);
        CHECK_STATUS(spn_executor_call(ex, job_run, NULL), SPN_EREJECTED);
        CHECK_STATUS(spn_executor_submit(ex, job_call, NULL, &f), SPN_EREJECTED);
        CHECK_STATUS(spn_scheduled_execute(sched, &task, 1), SPN_EINVAL);
        if (over == 0) {
            CHECK_OK(spn_latch_count_down(gate));
            await_end();
        }
    }
    destroy();
}

/* A policy of the pool's own is asked. */
TEST(scheduled__reject_policy__is_asked, "STPE-33", "STPE-34")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);

    o.reject = spn_reject_discard();
    open_with(o);
    CHECK_OK(spn_executor_shutdown(ex));
    REQUIRE_OK(spn_scheduled_schedule(sched, job_call, &jobs[0], 1, &jobs[0].future));
    CHECK(spn_future_get_state(jobs[0].future) !=
          SPN_FUTURE_PENDING); /* never silent */
    await_end();
    CHECK_EQ(runs(0), 0);
    destroy();
}

/* All threads held, a second wave behind them: the numbers are exact. */
TEST(scheduled__wedged__counts_are_exact, "STPE-42", "STPE-34")
{
    enum { CORE = 3 };
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    open_pool(CORE);
    for (int i = 0; i < CORE; i++) {
        jobs[i].gate = gate;
        schedule(i, 0);
    }
    T_AWAIT(pool_stats(pool).active == CORE);
    for (int i = CORE; i < 12; i++)
        schedule(i, 0);
    schedule(12, SPN_SEC(1));
    at_rate(13, SPN_SEC(1), SPN_SEC(1));
    CHECK_EQ(pool_stats(pool).queued, 11);
    CHECK_EQ(pool_stats(pool).active, CORE);
    CHECK_EQ(pool_tasks(pool), 14);
    CHECK_OK(spn_pool_stats_get(pool, &s));
    CHECK_EQ(s.accepted, 14);
    CHECK_EQ(s.pending, 14);
    CHECK_OK(spn_latch_count_down(gate));
    for (int i = 0; i < 12; i++)
        await_runs(i, 1);
    advance(SPN_SEC(1));
    await_runs(12, 1);
    await_runs(13, 1);
    await_queued(1);
    CHECK_EQ(pool_ended(pool), 14);
    CHECK_OK(spn_executor_shutdown(ex));
    await_end();
    s = expect_even();
    CHECK_EQ(s.completed, 14);
    CHECK_EQ(s.cancelled, 1);
    CHECK_EQ(s.accepted, 15);
    destroy();
}

/* ---- knobs --------------------------------------------------------------------------------- */

/* A single one cannot be changed, and runs tasks and delayed tasks. */
TEST(scheduled__unconfigurable__still_runs, "EXE-8", "EXE-9")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);
    spn_pool *p;
    void *value;

    o.fixed = 1;
    open_with(o);
    p = spn_executor_pool(ex);
    CHECK(p == pool);
    CHECK_STATUS(pool_set_core(p, 2), SPN_ESTATE);
    CHECK_STATUS(pool_set_core(NULL, 2), SPN_EINVAL);
    CHECK_OK(spn_executor_submit(ex, job_call, &jobs[0], &jobs[0].future));
    schedule(1, SPN_SEC(1));
    CHECK_OK(spn_future_get(jobs[0].future, &value, T_LONG_NS));
    advance(SPN_SEC(1));
    CHECK_OK(spn_future_get(jobs[1].future, &value, T_LONG_NS));
    CHECK(value == &jobs[1]);
    close_pool();
}

/* The factories: as many threads as asked for, 0 among them, not fewer than that. */
TEST(scheduled__factories__sizes, "EXE-13")
{
    for (int32_t n = -2; n < 3; n++) {
        const spn_scheduled_opts o = spn_scheduled_opts_pool(n);
        spn_scheduled *s;

        CHECK_STATUS(spn_scheduled_create(&s, &o), n < 0 ? SPN_EINVAL : SPN_OK);
        if (n < 0)
            continue;
        CHECK_EQ(pool_stats(spn_scheduled_pool(s)).core_threads, n);
        CHECK_OK(pool_shutdown(spn_scheduled_pool(s)));
        CHECK_OK(spn_scheduled_destroy(s));
    }
}

/* Pausing holds what is due; more core threads are used; hooks see each run. */
static atomic_int befores, afters;

static int before(spn_pool *p, const spn_task_info *info, void *ctx)
{
    (void)p;
    (void)info;
    return atomic_fetch_add((atomic_int *)ctx, 0) < 0 ||
           atomic_fetch_add(&befores, 1) > 2;
}

static void after(spn_pool *p, const spn_task_info *info, void *ctx)
{
    (void)p;
    (void)info;
    (void)ctx;
    atomic_fetch_add(&afters, 1);
}

static atomic_int zero;

TEST(scheduled__hooks__see_each_run, "STPE-34")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);

    atomic_store(&befores, 0);
    atomic_store(&afters, 0);
    o.hooks.before = before;
    o.hooks.after = after;
    o.hooks.ctx = &zero;
    open_with(o);
    at_rate(0, 0, SPN_SEC(1));
    for (int k = 1; k <= 3; k++) {
        await_runs(0, k);
        await_queued(1);
        CHECK_EQ(atomic_load(&afters), k);
        advance(SPN_SEC(1));
    }
    /* The fourth time the hook objects: the task is dropped. */
    CHECK_STATUS(spn_future_get(jobs[0].future, NULL, T_LONG_NS), SPN_ECANCELED);
    CHECK_EQ(runs(0), 3);
    close_pool();
}

/* A larger core brings threads to what is due; a smaller one leaves somebody. */
TEST(scheduled__core_changes__work_goes_on, "STPE-34", "STPE-36")
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    open_pool(1);
    for (int i = 0; i < 3; i++) {
        jobs[i].gate = gate;
        schedule(i, 0);
    }
    T_AWAIT(atomic_load(&places) == 1);
    c.core_threads = c.max_threads = 3;
    CHECK_OK(spn_pool_reconfigure(pool, &c));
    T_AWAIT(atomic_load(&places) == 3);
    CHECK_OK(spn_latch_count_down(gate));
    for (int i = 0; i < 3; i++)
        await_runs(i, 1);
    schedule(4, SPN_SEC(1));
    CHECK_OK(pool_set_core(pool, 0));
    T_AWAIT(pool_stats(pool).threads == 1);
    advance(SPN_SEC(1));
    await_runs(4, 1);
    T_AWAIT(pool_stats(pool).threads == 0);
    close_pool();
}

/* A task that waits for one of its own executor's, with nobody else to run it. */
static spn_future *inner;
static atomic_int inner_rc;

static void wait_inside(struct job *j)
{
    (void)j;
    CHECK_OK(spn_scheduled_schedule(sched, job_call, &jobs[1], 0, &inner));
    atomic_store(&inner_rc, spn_future_get(inner, NULL, SPN_FOREVER));
}

TEST(scheduled__waits_for_itself__is_told, "STPE-34")
{
    open_pool(1);
    jobs[0].act = wait_inside;
    schedule(0, 0);
    await_runs(0, 1);
    CHECK_EQ(atomic_load(&inner_rc), SPN_EDEADLK);
    jobs[1].future = inner;
    close_pool();
}

/* await from inside is refused. */
static void await_inside(struct job *j)
{
    (void)j;
    atomic_store(&inner_rc, spn_executor_await(ex, SPN_FOREVER));
}

TEST(scheduled__await_from_a_task__is_refused, "STPE-34")
{
    open_pool(1);
    jobs[0].act = await_inside;
    schedule(0, 0);
    await_runs(0, 1);
    CHECK_EQ(atomic_load(&inner_rc), SPN_EDEADLK);
    close_pool();
}
