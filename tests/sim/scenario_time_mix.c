/* SPDX-License-Identifier: MIT */
/*
 * scenario_time_mix.c - what is due, with options and calls that are drawn.
 *
 * OVERVIEW
 *   The scenarios of scheduled, timer and future_timeout each prove one promise, with the
 *   options it was thought of with.  Here the options and the calls of two threads are
 *   drawn (sim_choose), so that each schedule is another combination: what is proved is
 *   less, and holds for all of them.
 *     - Nothing is early.
 *     - When the threads are through, all that is due runs without anybody's further help.
 *     - Afterwards each thing that was accepted has run, was dropped or was taken back,
 *       once, and the counts come out even.
 *   POSTS  is the same with delays about as long as the deputy stands by (exec/idle.c), more
 *   threads, and tasks that take as long: so that the leader is busy when the next is due,
 *   and what comes waits in the inbox (sched/delays.c) as others take or go.  Some thread is
 *   always free there, and each task is on time.
 *   What a drawn combination has found has a scenario with a name of its own, below it.
 *
 * WHO MAY HOLD A THREAD  A long task, if there is one, keeps its thread until the gate is
 *   opened, after all else has run.  Tasks that do not know it have the other threads:
 *   core is two at last then, or the task says that it blocks.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sched/scheduled.h"
#include "sync/seam.h"
#include "time_mix.h"

/* ---- the scheduled executor ----------------------------------------------------------- */

enum { ONCE, RATE, DELAY, TASK, CALL, NOW, SUBMIT, NESTED, KINDS };
enum { DEEDS = 6, LONG = DEEDS };

/* Something to be done.  Those of one thread are started by it alone. */
struct deed {
    spn_job job; /* first; the task of some kinds */
    int kind;
    bool dies; /* its first run ends the thread */
    int64_t delay_ns;
    SPN__ATOMIC(int) accepted, runs, drops, inside;
    SPN__ATOMIC(int) excused; /* cancelled or taken back: need not run */
    SPN__ATOMIC(int) payload;
    SPN__ATOMIC(int64_t) due_ns, at_ns;
    SPN__ATOMIC(spn_future *) future;
};

static struct deed deeds[DEEDS + 1];
static spn_scheduled *sched;
static spn_executor *ex;
static spn_pool *pool;
static spn_latch *gate, *second_gate;
static bool has_long, fixed, exact;
static bool refuses;  /* there is not always a thread */
static bool ends;     /* a thread shuts it down */
static bool posts;    /* see above */
static int free_ones; /* there: that many tasks may take their time at once */
static SPN__ATOMIC(int) dawdling;  /* and do */
static SPN__ATOMIC(int) cut_off;   /* shutdown_now was called */
static SPN__ATOMIC(int) forbidden; /* delayed tasks may be cancelled */

static int64_t draw_delay_here(void)
{
    static const int64_t delays[] = {
        0,    SPN__STAND_BY / 2, SPN__STAND_BY, SPN__STAND_BY + 40, 2 * SPN__STAND_BY,
        NEAR_
    };

    return posts && sim_choose(8) != 0 ? delays[sim_choose(6)] : draw_delay();
}

/* Takes its time, if enough threads are left. */
static void dawdle(void)
{
    if (!posts || sim_choose(3) == 0)
        return;
    if (spn__fetch_add(&dawdling, 1, relaxed) < free_ones)
        sim_sleep(draw() ? SPN__STAND_BY / 2 : 3 * SPN__STAND_BY);
    (void)spn__fetch_sub(&dawdling, 1, relaxed);
}

static int do_deed(struct deed *d)
{
    bool first;

    sim_assert(spn__fetch_add(&d->inside, 1, relaxed) == 0);
    sim_assert(spn__load(&d->payload, relaxed) != 0);
    sim_assert(now() >= spn__load(&d->due_ns, relaxed));
    if (d->kind == RATE || d->kind == DELAY)
        spn__store(&d->due_ns,
                   (d->kind == RATE ? spn__load(&d->due_ns, relaxed) : now()) + NEAR_,
                   relaxed);
    first = spn__fetch_add(&d->runs, 1, release) == 0;
    if (first)
        spn__store(&d->at_ns, sim_now(), relaxed);
    dawdle();
    (void)spn__fetch_sub(&d->inside, 1, relaxed);
    if (d->dies && first)
        sim_exit();
    return 0;
}

static int run_deed(void *arg)
{
    return do_deed(arg);
}

static int call_deed(void *arg, void **result)
{
    *result = NULL;
    return do_deed(arg);
}

static int task_deed(spn_task *task)
{
    return do_deed((struct deed *)(void *)task);
}

static void deed_dropped(spn_task *task, int reason)
{
    sim_assert(reason < 0);
    (void)spn__fetch_add(&((struct deed *)(void *)task)->drops, 1, relaxed);
}

static int nothing(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* Waits for a task of its own pool: it is done, or it is cancelled, or all would wait. */
static int nested_deed(void *arg, void **result)
{
    const int64_t delay_ns = clock_ != NULL || draw() ? 0 : NEAR_ / 4;
    spn_future *inner;
    const int rc = do_deed(arg);

    *result = NULL;
    if (spn_scheduled_schedule(sched, nothing, NULL, delay_ns, &inner) == SPN_OK) {
        if (spn_future_get(inner, NULL, SPN_FOREVER) != SPN_OK)
            (void)spn_future_cancel(inner, 0);
        spn_future_unref(inner);
    }
    return rc;
}

/* Keeps its thread. */
static int long_deed(void *arg)
{
    const int rc = do_deed(arg);

    (void)!spn_latch_await(gate, SPN_FOREVER);
    return rc;
}

static void prepare_deed(struct deed *d)
{
    *d = (struct deed){ .job = SPN_JOB_INIT(task_deed, deed_dropped) };
    d->job.task.flags = 0;
    spn__init(&d->accepted, 0);
    spn__init(&d->runs, 0);
    spn__init(&d->drops, 0);
    spn__init(&d->inside, 0);
    spn__init(&d->excused, 0);
    spn__init(&d->payload, 0);
    spn__init(&d->due_ns, 0);
    spn__init(&d->at_ns, 0);
    spn__init(&d->future, NULL);
}

/* Where a timer may expire early, hours may have passed that it need not make up for. */
static int start_rate(struct deed *d, spn_future **future)
{
    spn_schedule what = SPN_SCHEDULE_INIT;

    what.run = run_deed;
    what.arg = d;
    what.delay_ns = d->delay_ns;
    what.period_ns = NEAR_;
    what.repeat = SPN_REPEAT_RATE;
    what.skip_missed = !exact;
    return spn_scheduled_schedule_with(sched, &what, future);
}

static int start_kind(struct deed *d, spn_future **future)
{
    switch (d->kind) {
    case ONCE:
        return spn_scheduled_schedule(sched, call_deed, d, d->delay_ns, future);
    case RATE:
        return start_rate(d, future);
    case DELAY:
        return spn_scheduled_with_fixed_delay(sched, run_deed, d, d->delay_ns, NEAR_,
                                              future);
    case TASK:
        return spn_scheduled_execute(sched, &d->job.task, d->delay_ns);
    case CALL:
        return spn_scheduled_call(sched, run_deed, d, d->delay_ns);
    case SUBMIT:
        return spn_executor_submit(ex, call_deed, d, future);
    case NESTED:
        return spn_scheduled_schedule(sched, nested_deed, d, d->delay_ns, future);
    default:
        return spn_executor_execute(ex, &d->job.task);
    }
}

static void start_deed(struct deed *d)
{
    spn_future *future = NULL;
    int rc;

    if (spn__load(&d->payload, relaxed) != 0)
        return; /* it was started before */
    d->kind = (int)sim_choose(KINDS);
    d->delay_ns = draw_delay_here();
    if (d->kind == NESTED &&
        (has_long || posts)) /* it would keep the thread that is left */
        d->kind = ONCE;
    d->dies = d->kind != NESTED && sim_choose(8) == 0;
    if (d->kind == NOW || d->kind == SUBMIT)
        d->delay_ns = 0;
    spn__store(&d->payload, 1, relaxed);
    spn__store(&d->due_ns, now() + d->delay_ns, relaxed);
    rc = start_kind(d, &future);
    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED || (refuses && rc == SPN_EAGAIN));
    spn__store(&d->future, future, release);
    spn__store(&d->accepted, rc == SPN_OK, relaxed);
}

static void cancel_deed(struct deed *d)
{
    spn_future *future = spn__load(&d->future, acquire);

    if (future == NULL)
        return;
    spn__store(&d->excused, 1, relaxed);
    (void)spn_future_cancel(future, (int)sim_choose(2));
}

/* What is removed is as if it had been dropped. */
static void remove_deed(struct deed *d, bool own)
{
    spn_future *future = spn__load(&d->future, acquire);
    int removed = 0;

    if (future != NULL)
        removed = spn_scheduled_remove(sched, future);
    else if (own && spn__load(&d->accepted, relaxed) != 0 && d->kind != CALL)
        removed = spn_executor_remove(ex, &d->job.task);
    sim_assert(removed == 0 || removed == 1);
    if (removed == 0)
        return;
    spn__store(&d->excused, 1, relaxed);
    (void)spn__fetch_add(&d->drops, 1, relaxed);
}

/* Its own drop is called, or its future's, or it was a call. */
static void give_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)ctx;
    (void)arg;
    sim_assert(fn != NULL || spn_task_drop(task, SPN_ECANCELED) == SPN_OK);
}

static void change_core(void)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    if (posts) { /* as they are, or more */
        (void)pool_set_core(pool, 4);
        return;
    }
    c.core_threads = (int32_t)sim_choose(3);
    c.max_threads = 2;
    sim_assert(spn_pool_reconfigure(pool, &c) == (fixed ? SPN_ESTATE : SPN_OK));
}

static void change_rest(void)
{
    if (draw())
        (void)pool_set_keep_alive(pool, draw() ? NEAR_ / 2 : SPN_MS(10));
    else
        (void)pool_set_core_timeout(pool, (int)sim_choose(2));
}

static void pause_and_resume(void)
{
    const int rc = spn_pool_pause(pool);

    if (draw())
        sim_sleep(NEAR_ / 4);
    sim_assert(rc == SPN_OK || rc == SPN_ESTATE);
    (void)spn_pool_resume(pool);
}

static void look(void)
{
    spn_task *some[2];
    int64_t count;

    switch (sim_choose(4)) {
    case 0:
        (void)spn_pool_purge(pool);
        break;
    case 1:
        (void)spn_pool_snapshot(pool, some, 2);
        break;
    case 2:
        (void)spn_pool_prestart(pool, SPN_DEFAULT);
        break;
    default:
        count = spn_scheduled_drain(sched, some, 1 + sim_choose(2));
        for (int64_t i = 0; i < count; i++) {
            spn_future *future = spn_future_of_task(some[i]);

            for (int k = 0; k < DEEDS; k++)
                if ((future == NULL && some[i] == &deeds[k].job.task) ||
                    (future != NULL && future == spn__load(&deeds[k].future, relaxed)))
                    spn__store(&deeds[k].excused, 1, relaxed);
            sim_assert(spn_task_drop(some[i], SPN_ECANCELED) == SPN_OK);
        }
        break;
    }
}

/* Waits for tasks of its own, due now. */
static void invoke(void)
{
    const spn_call calls[2] = { { nothing, NULL }, { nothing, NULL } };
    const int64_t timeout_ns = draw() ? NEAR_ / 2 : SPN_FOREVER;
    spn_future *futures[2];
    int rc;

    if (has_long || posts) /* which may have the thread that they want */
        return;
    if (draw()) {
        rc = spn_executor_invoke_any(ex, calls, 2, timeout_ns, NULL, NULL, NULL);
        sim_assert(rc != SPN_EINVAL && rc != SPN_EINTR);
        return;
    }
    rc = spn_executor_invoke_all(ex, calls, 2, timeout_ns, NULL, futures);
    sim_assert(rc != SPN_EINVAL && rc != SPN_EINTR);
    for (int i = 0; i < 2; i++) {
        sim_assert((futures[i] != NULL) == (rc == SPN_OK));
        sim_assert(futures[i] == NULL ||
                   spn_future_get_state(futures[i]) != SPN_FUTURE_PENDING);
        spn_future_unref(futures[i]);
    }
}

static void shut_down(void)
{
    if (draw()) {
        sim_assert(spn_executor_shutdown(ex) == SPN_OK);
        return;
    }
    spn__store(&cut_off, 1, relaxed);
    sim_assert(spn_executor_shutdown_now(ex, draw() ? give_back : NULL, NULL, NULL) ==
               SPN_OK);
}

static void act(int self)
{
    struct deed *own = &deeds[2 * self + (int)sim_choose(2)];
    struct deed *any = &deeds[sim_choose(DEEDS)];

    const unsigned what = sim_choose(13);
    switch (what) {
    case 0:
    case 1:
    case 2:
    case 3:
        start_deed(own);
        break;
    case 4:
        cancel_deed(any);
        break;
    case 5:
        remove_deed(any, any == own);
        break;
    case 6:
        pause_and_resume();
        break;
    case 7:
        change_core();
        break;
    case 8:
        change_rest();
        break;
    case 9:
        look();
        break;
    case 12:
        invoke();
        break;
    case 10:
        if (clock_ != NULL)
            sim_assert(spn_clock_advance(clock_, NEAR_ / 2) == SPN_OK);
        else
            sim_sleep(draw() ? NEAR_ / 2 : posts ? SPN__STAND_BY / 2 : NEAR_);
        break;
    default:
        if (ends && self == 1)
            shut_down();
        else
            start_deed(own);
        break;
    }
}

static void acts(void *arg)
{
    const int self = (int)(intptr_t)arg;

    for (unsigned n = 2 + sim_choose(3); n > 0; n--)
        act(self);
}

/* Without a thread what waits is dropped: it does not wait for ever. */
static int perhaps(const spn_thread_factory *factory, spn_thread **out,
                   spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    return sim_choose(3) == 0 ? SPN_EAGAIN : spn_thread_create(out, opts, fn, arg);
}

static const spn_thread_factory perhaps_a_thread = { sizeof(spn_thread_factory),
                                                     perhaps };

/* A periodic one that has ended its thread. */
static void on_failed(spn_scheduled *s, spn_future *future, int code, void *ctx)
{
    (void)s;
    (void)future;
    (void)ctx;
    sim_assert(code == SPN_EFAILED);
}

/* The same of others. */
static void on_uncaught(spn_pool *p, const spn_task_info *info, void *ctx)
{
    (void)p;
    (void)ctx;
    sim_assert(info->status == SPN_ECANCELED);
}

static void open_sched(void)
{
    spn_scheduled_opts o = spn_scheduled_opts_pool((int32_t)sim_choose(3));

    o.name = "t";
    o.failed = on_failed;
    o.hooks.uncaught = on_uncaught;
    o.keep_alive_ns = draw() ? SPN_DEFAULT : NEAR_ / 2;
    o.core_timeout = sim_choose(2);
    o.remove_on_cancel = (int32_t)sim_choose(2);
    o.delayed_after_shutdown = (int32_t)sim_choose(2);
    o.periodic_after_shutdown = (int32_t)sim_choose(2);
    has_long = draw();
    ends = sim_choose(3) == 0;
    fixed = !has_long && !posts && sim_choose(4) == 0;
    o.fixed = fixed;
    refuses = !has_long && !posts && sim_choose(4) == 0;
    if (posts) {
        o.core_threads = 2 + (int32_t)sim_choose(2);
        free_ones = o.core_threads - 1 - has_long;
    }
    spn__init(&dawdling, 0);
    if (refuses)
        o.factory = &perhaps_a_thread;
    clock_ = NULL;
    if (!exact && sim_choose(4) == 0)
        sim_assert(spn_clock_create_manual(&clock_, 0) == SPN_OK);
    o.clock = clock_;
    spn__init(&cut_off, 0);
    spn__init(&forbidden, !o.delayed_after_shutdown);
    for (int i = 0; i <= DEEDS; i++)
        prepare_deed(&deeds[i]);
    sim_assert(spn_latch_create(&gate, 1) == SPN_OK);
    sim_assert(spn_scheduled_create(&sched, &o) == SPN_OK);
    ex = spn_scheduled_executor(sched);
    pool = spn_scheduled_pool(sched);
}

static void start_long_in(int64_t delay_ns)
{
    struct deed *d = &deeds[LONG];

    d->kind = CALL;
    d->delay_ns = delay_ns;
    spn__store(&d->payload, 1, relaxed);
    spn__store(&d->due_ns, now() + delay_ns, relaxed);
    sim_assert(spn_scheduled_call(sched, long_deed, d, delay_ns) == SPN_OK);
    spn__store(&d->accepted, 1, relaxed);
}

/* Whether nobody has cancelled it, taken it back, or dropped it as there was no thread. */
static bool must_run(struct deed *d)
{
    spn_future *future = spn__load(&d->future, relaxed);

    if (spn__load(&d->accepted, relaxed) == 0 || spn__load(&d->excused, relaxed) != 0)
        return false;
    if (refuses && (d->kind == CALL || spn__load(&d->drops, acquire) != 0))
        return false;
    return future == NULL || spn_future_get_state(future) <= SPN_FUTURE_SUCCEEDED;
}

/* Nobody does anything but wait now: what is due runs. */
static void expect_runs(void)
{
    const int64_t quiet_ns = sim_now();
    /* What is due while another is waited for may wait twice as long (exec/idle.c). */
    const int64_t soon_ns = posts ? SOON + SPN__STAND_BY : SOON;

    if (has_long && pool_stats(pool).core_threads < 2) {
        spn_pool_change c = SPN_POOL_CHANGE_INIT;

        c.core_threads = c.max_threads = 2;
        sim_assert(spn_pool_reconfigure(pool, &c) == SPN_OK);
    }
    if (clock_ != NULL)
        sim_assert(spn_clock_advance(clock_, 2 * NEAR_) == SPN_OK);
    for (int i = 0; i < DEEDS; i++) {
        struct deed *d = &deeds[i];

        if (!must_run(d) || d->delay_ns == FAR)
            continue;
        for (int n = 0; spn__load(&d->runs, acquire) == 0 && must_run(d); n++) {
            sim_assert(n < PATIENCE); /* it was forgotten */
            sim_sleep(NEAR_ / 8);
        }
        if (exact && spn__load(&d->runs, relaxed) != 0)
            sim_assert(spn__load(&d->at_ns, relaxed) <=
                           spn__load(&d->due_ns, relaxed) + soon_ns ||
                       spn__load(&d->at_ns, relaxed) <= quiet_ns + soon_ns ||
                       d->kind == RATE || d->kind == DELAY);
    }
}

/* Each has come to one end. */
static void expect_fates(void)
{
    const bool all_run = spn__load(&cut_off, relaxed) == 0 &&
                         spn__load(&forbidden, relaxed) == 0 && !refuses;

    for (int i = 0; i <= DEEDS; i++) {
        struct deed *d = &deeds[i];
        const int runs = spn__load(&d->runs, relaxed);
        const int drops = spn__load(&d->drops, relaxed);
        spn_future *future = spn__load(&d->future, relaxed);
        const bool periodic = d->kind == RATE || d->kind == DELAY;

        if (spn__load(&d->accepted, relaxed) == 0) {
            sim_assert(runs == 0 && drops == 0 && future == NULL);
            continue;
        }
        sim_assert(periodic || runs <= 1);
        sim_assert(periodic || runs + drops <= 1);
        if (future == NULL)
            sim_assert(runs + drops == 1 || (d->kind == CALL && !all_run));
        else
            sim_assert(spn_future_get_state(future) != SPN_FUTURE_PENDING ||
                       drops == 1);
        if (all_run && !periodic && must_run(d))
            sim_assert(runs == 1);
    }
}

static void expect_even(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.pending == 0 && s.threads == 0 && s.queued == 0 && s.active == 0);
    sim_assert(s.accepted ==
               s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    sim_assert(spn__dues_waiting(&sched->delays.dues) == 0 && sched->delays.away == 0);
}

static void cancel_periodic(void)
{
    for (int i = 0; i < DEEDS; i++) {
        spn_future *future = spn__load(&deeds[i].future, relaxed);

        if (future != NULL && (deeds[i].kind == RATE || deeds[i].kind == DELAY))
            (void)spn_future_cancel(future, 0);
    }
}

/* A manual clock must come to what waits for it. */
static void await_end(void)
{
    if (clock_ != NULL)
        sim_assert(spn_clock_advance(clock_, FAR) == SPN_OK);
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
}

static void close_sched(void)
{
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    if (draw())
        cancel_periodic();
    shut_down();
    cancel_periodic();
    await_end();
    expect_even();
    expect_fates();
    for (int i = 0; i < DEEDS; i++)
        spn_future_unref(spn__load(&deeds[i].future, relaxed));
    sim_assert(spn_scheduled_destroy(sched) == SPN_OK);
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
    if (clock_ != NULL)
        sim_assert(spn_clock_destroy(clock_) == SPN_OK);
}

static void mix_scheduled(bool on_time, bool with_posts)
{
    exact = on_time;
    posts = with_posts;
    open_sched();
    if (has_long) /* it comes before all others, or is due later */
        start_long_in(draw() ? 0 : NEAR_ / 2);
    sim_thread(acts, (void *)1);
    sim_thread(acts, (void *)2);
    acts((void *)0);
    sim_join_all();
    if (spn_executor_get_state(ex) == SPN_EXECUTOR_RUNNING)
        expect_runs();
    close_sched();
}

SCENARIO(time_mix__scheduled__all_runs_once, "STPE-2", "STPE-39", "G-20")
{
    mix_scheduled(false, false);
}
SCENARIO_OPTS(time_mix__scheduled__all_runs_once, .schedules = 300, .max_steps = 60000,
              .no_faults = "it counts on its threads")

SCENARIO(time_mix__scheduled__all_is_on_time, "STPE-2", "STPE-38")
{
    mix_scheduled(true, false);
}
SCENARIO_OPTS(time_mix__scheduled__all_is_on_time, .early = SIM_NEVER,
              .spurious = SIM_NEVER, .schedules = 300, .max_steps = 60000,
              .no_faults = "it counts on its threads")

SCENARIO(time_mix__posts__all_runs_once, "STPE-2", "STPE-39", "G-20")
{
    mix_scheduled(false, true);
}
SCENARIO_OPTS(time_mix__posts__all_runs_once, .schedules = 300, .max_steps = 60000,
              .no_faults = "it counts on its threads")

SCENARIO(time_mix__posts__all_is_on_time, "STPE-2", "STPE-37", "STPE-38")
{
    mix_scheduled(true, true);
}
SCENARIO_OPTS(time_mix__posts__all_is_on_time, .early = SIM_NEVER,
              .spurious = SIM_NEVER, .schedules = 300, .max_steps = 60000,
              .no_faults = "it counts on its threads")

/* ---- what the drawn ones have found ------------------------------------------------------ */

static void open_for_long(const spn_scheduled_opts *o)
{
    clock_ = NULL;
    exact = true;
    has_long = true;
    fixed = ends = refuses = posts = false;
    for (int i = 0; i <= DEEDS; i++)
        prepare_deed(&deeds[i]);
    spn__init(&cut_off, 0);
    spn__init(&forbidden, 0);
    sim_assert(spn_latch_create(&gate, 1) == SPN_OK);
    sim_assert(spn_scheduled_create(&sched, o) == SPN_OK);
    ex = spn_scheduled_executor(sched);
    pool = spn_scheduled_pool(sched);
}

/* One thread is held, and another task is not due yet. */
static void hold_one(int32_t core)
{
    const spn_scheduled_opts o = spn_scheduled_opts_pool(core);

    open_for_long(&o);
    start_long_in(0);
    while (spn__load(&deeds[LONG].runs, acquire) == 0)
        sim_sleep(NEAR_ / 8);
}

static void start_once(struct deed *d, int64_t delay_ns)
{
    spn_future *future;

    d->kind = ONCE;
    d->delay_ns = delay_ns;
    spn__store(&d->payload, 1, relaxed);
    spn__store(&d->due_ns, now() + delay_ns, relaxed);
    sim_assert(start_kind(d, &future) == SPN_OK);
    spn__store(&d->future, future, relaxed);
    spn__store(&d->accepted, 1, relaxed);
}

/* A larger core makes threads also for what is not due yet: when it is, the one that was
 * there may be busy. */
SCENARIO(time_mix__core_grows_before_it_is_due__runs, "TPE-33", "STPE-35")
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    hold_one(1);
    start_once(&deeds[0], NEAR_);
    c.core_threads = c.max_threads = 2;
    sim_assert(spn_pool_reconfigure(pool, &c) == SPN_OK);
    expect_runs();
    close_sched();
}
SCENARIO_OPTS(time_mix__core_grows_before_it_is_due__runs, .schedules = 100,
              .early = SIM_NEVER, .spurious = SIM_NEVER)

static void grows(void *arg)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    (void)arg;
    c.core_threads = c.max_threads = 2;
    sim_assert(spn_pool_reconfigure(pool, &c) == SPN_OK);
}

/* Whoever comes second, the larger core or the task, sees the other. */
SCENARIO(time_mix__core_grows_as_it_comes__runs, "TPE-33", "STPE-35")
{
    hold_one(1);
    sim_thread(grows, NULL);
    start_once(&deeds[0], NEAR_);
    sim_join_all();
    expect_runs();
    close_sched();
}
SCENARIO_OPTS(time_mix__core_grows_as_it_comes__runs, .schedules = 200,
              .early = SIM_NEVER, .spurious = SIM_NEVER)

/* A task that waits for one of its own pool: others could run that. */
static int waits_inside(void *arg, void **result)
{
    spn_future *inner;

    (void)arg;
    *result = NULL;
    sim_assert(spn_latch_await(gate, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_executor_submit(ex, nothing, NULL, &inner) == SPN_OK);
    sim_assert(spn_future_get(inner, NULL, SPN_FOREVER) == SPN_OK);
    spn_future_unref(inner);
    return 0;
}

static int held_task(spn_task *task)
{
    (void)task;
    return spn_latch_await(second_gate, SPN_FOREVER);
}

/* The thread above max is the only one that does not wait; it does not leave because the
 * pool is paused just then. */
static void leaves_while_paused(int64_t keep_alive_ns)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;
    spn_task held = SPN_TASK_INIT(held_task, NULL);
    spn_future *outer;

    o.core_threads = o.max_threads = 2;
    o.keep_alive_ns = keep_alive_ns;
    sim_assert(spn_latch_create(&gate, 1) == SPN_OK);
    sim_assert(spn_latch_create(&second_gate, 1) == SPN_OK);
    sim_assert(spn_pool_create(&pool, &o) == SPN_OK);
    ex = spn_pool_executor(pool);
    sim_assert(spn_executor_submit(ex, waits_inside, NULL, &outer) == SPN_OK);
    sim_settle();
    sim_assert(spn_executor_execute(ex, &held) == SPN_OK);
    sim_assert(pool_set_core(pool, 1) == SPN_OK);
    sim_assert(pool_set_max(pool, 1) == SPN_OK);
    sim_settle();
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    sim_settle(); /* the outer one waits: the other thread is not at its end */
    sim_assert(spn_pool_pause(pool) == SPN_OK);
    sim_assert(spn_latch_count_down(second_gate) == SPN_OK);
    if (draw())
        sim_settle();
    sim_assert(spn_pool_resume(pool) == SPN_OK);
    sim_assert(spn_future_get(outer, NULL, SPN_FOREVER) == SPN_OK);
    spn_future_unref(outer);
    sim_assert(spn_pool_close(pool) == SPN_OK);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
    sim_assert(spn_latch_destroy(second_gate) == SPN_OK);
}

SCENARIO(time_mix__all_wait_in_a_paused_pool__one_stays, "P44", "G-20")
{
    leaves_while_paused(SPN_DEFAULT);
}
SCENARIO_OPTS(time_mix__all_wait_in_a_paused_pool__one_stays, .schedules = 200)

/* It does not go round and round either. */
SCENARIO(time_mix__all_wait_in_a_paused_pool__no_keep_alive, "P44", "G-20")
{
    leaves_while_paused(0);
}
SCENARIO_OPTS(time_mix__all_wait_in_a_paused_pool__no_keep_alive, .schedules = 200)

static int never(const spn_thread_factory *factory, spn_thread **out,
                 spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    (void)opts;
    (void)fn;
    (void)arg;
    *out = NULL;
    sim_sleep(1); /* it takes a while to find out */
    return SPN_EAGAIN;
}

static void schedules_in_vain(void *future)
{
    const int rc = spn_scheduled_schedule(sched, nothing, NULL, NEAR_, future);

    sim_assert(rc == SPN_OK || rc == SPN_EAGAIN);
}

/* Two schedule, and there is no thread for either: each is refused, or what waits is
 * dropped.  Neither relies on the thread that the other is about to make. */
SCENARIO(time_mix__no_thread_for_two__nothing_waits, "STPE-39", "TPE-22")
{
    static const spn_thread_factory no_thread = { sizeof(spn_thread_factory), never };
    spn_scheduled_opts o = spn_scheduled_opts_pool(1 + (int32_t)sim_choose(2));
    spn_future *futures[2] = { NULL, NULL };

    o.factory = &no_thread;
    sim_assert(spn_scheduled_create(&sched, &o) == SPN_OK);
    sim_thread(schedules_in_vain, &futures[0]);
    sim_thread(schedules_in_vain, &futures[1]);
    sim_join_all();
    for (int i = 0; i < 2; i++) {
        sim_assert(futures[i] == NULL ||
                   spn_future_get_state(futures[i]) != SPN_FUTURE_PENDING);
        spn_future_unref(futures[i]);
    }
    sim_assert(pool_stats(spn_scheduled_pool(sched)).queued == 0);
    sim_assert(spn_pool_close(spn_scheduled_pool(sched)) == SPN_OK);
    sim_assert(spn_scheduled_destroy(sched) == SPN_OK);
}
SCENARIO_OPTS(time_mix__no_thread_for_two__nothing_waits, .schedules = 200)

static SPN__ATOMIC(int) threads_left;

static int a_few(const spn_thread_factory *factory, spn_thread **out,
                 spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    if (spn__fetch_sub(&threads_left, 1, relaxed) > 0)
        return spn_thread_create(out, opts, fn, arg);
    *out = NULL;
    return SPN_EAGAIN;
}

static void prestarts(void *arg)
{
    (void)arg;
    (void)spn_pool_prestart(pool, 1);
}

/* The only worker's task waits for another as somebody makes a second thread, in vain: it
 * is not left to wait for what nobody will run. */
SCENARIO(time_mix__waits_as_a_thread_is_made_in_vain__is_told, "P38", "G-20")
{
    static const spn_thread_factory factory = { sizeof(spn_thread_factory), a_few };
    spn_scheduled_opts o = spn_scheduled_opts_pool(2);
    spn_future *outer;

    spn__init(&threads_left, 1);
    clock_ = NULL;
    posts = false;
    prepare_deed(&deeds[0]);
    spn__store(&deeds[0].payload, 1, relaxed);
    o.factory = &factory;
    sim_assert(spn_scheduled_create(&sched, &o) == SPN_OK);
    pool = spn_scheduled_pool(sched);
    sim_assert(spn_scheduled_schedule(sched, nested_deed, &deeds[0], 0, &outer) ==
               SPN_OK);
    sim_thread(prestarts, NULL);
    sim_assert(spn_future_get(outer, NULL, SPN_FOREVER) == SPN_OK);
    sim_join_all();
    spn_future_unref(outer);
    sim_assert(spn_pool_close(pool) == SPN_OK);
    sim_assert(spn_scheduled_destroy(sched) == SPN_OK);
}
SCENARIO_OPTS(time_mix__waits_as_a_thread_is_made_in_vain__is_told, .schedules = 200)

/* As a_few, but it takes a while to find out that there is none. */
static int a_few_slowly(const spn_thread_factory *factory, spn_thread **out,
                        spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    const int rc = a_few(factory, out, opts, fn, arg);

    if (rc != SPN_OK)
        sim_sleep(1);
    return rc;
}

/* Waits for one of its own pool; all may wait, and then it is told. */
static int asks_inside(void *arg, void **result)
{
    spn_future *inner;
    int rc;

    (void)arg;
    *result = NULL;
    sim_assert(spn_executor_submit(ex, nothing, NULL, &inner) == SPN_OK);
    rc = spn_future_get(inner, NULL, SPN_FOREVER);
    sim_assert(rc == SPN_OK || rc == SPN_EDEADLK);
    spn_future_unref(inner);
    return 0;
}

static void prestart_beyond(void *arg)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    (void)arg;
    c.core_threads = c.max_threads = 3;
    sim_assert(spn_pool_reconfigure(pool, &c) == SPN_OK);
    (void)spn_pool_prestart(pool, 1);
}

/* The thread that a waiter got has one too many beside it, which is just being made, in
 * vain: it does not leave on account of that. */
SCENARIO(time_mix__leaves_as_a_thread_is_made_in_vain__not_before, "P38", "G-20")
{
    static const spn_thread_factory factory = { sizeof(spn_thread_factory),
                                                a_few_slowly };
    spn_pool_opts o = SPN_POOL_OPTS_INIT;
    spn_pool_change narrow = SPN_POOL_CHANGE_INIT;
    spn_future *outer;

    spn__init(&threads_left, 2);
    narrow.core_threads = 1;
    narrow.max_threads = 2;
    o.core_threads = 1;
    o.max_threads = 2;
    o.factory = &factory;
    sim_assert(spn_pool_create(&pool, &o) == SPN_OK);
    ex = spn_pool_executor(pool);
    sim_assert(spn_executor_submit(ex, asks_inside, NULL, &outer) == SPN_OK);
    sim_thread(prestart_beyond, NULL);
    sim_assert(spn_pool_reconfigure(pool, &narrow) == SPN_OK);
    sim_assert(spn_future_get(outer, NULL, SPN_FOREVER) == SPN_OK);
    spn_future_unref(outer);
    sim_join_all();
    sim_assert(spn_pool_close(pool) == SPN_OK);
    sim_assert(spn_pool_destroy(pool) == SPN_OK);
}
SCENARIO_OPTS(time_mix__leaves_as_a_thread_is_made_in_vain__not_before,
              .no_faults = "it counts on its threads")
