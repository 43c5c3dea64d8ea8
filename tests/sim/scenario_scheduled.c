/* SPDX-License-Identifier: MIT */
/*
 * scenario_scheduled.c - the scheduled executor and the serial timer: no task is early,
 * none is late because a wake-up was lost, none stays behind, and every count comes out
 * even.
 *
 * Time is virtual: see scenario_pool_time.c.  "On time" is exact where no timer may
 * expire early (.early = SIM_NEVER), but for what the steps take.
 */
#include "pool_calls.h"
#include "sim.h"

#include <spindle.h>

#include "exec/pool.h"
#include "sched/scheduled.h"
#include "sync/seam.h"

#define NEAR_ SPN_MS(1)
#define LATER SPN_MS(2)
#define FAR   SPN_SEC(3600)
#define STEPS SPN_US(200) /* what the steps of a scenario take, at most */

enum { TASKS = 4 };

struct job {
    SPN__ATOMIC(int) runs, inside, payload;
    SPN__ATOMIC(int64_t) due, at;
    SPN__ATOMIC(int) fails;
    spn_latch *gate;
    spn_future *future;
    spn_serial_task *task;
    spn_context *context; /* that it must run in; NULL: whatever it is */
    bool undisturbed;     /* it must not be interrupted */
};

static spn_scheduled *sched;
static spn_executor *ex;
static spn_pool *pool;
static spn_latch *gate;
static struct job jobs[TASKS];

static int work(void *arg)
{
    struct job *j = arg;

    sim_assert(spn__fetch_add(&j->inside, 1, relaxed) == 0); /* never twice at once */
    sim_assert(spn__load(&j->payload, relaxed) != 0);        /* what preceded it */
    sim_assert(sim_now() >= spn__load(&j->due, relaxed));    /* never early */
    sim_assert(j->context == NULL || spn_context_current() == j->context);
    sim_assert(!j->undisturbed || spn_thread_interrupted() == 0);
    spn__store(&j->at, sim_now(), relaxed);
    (void)spn__fetch_add(&j->runs, 1, release);
    if (j->gate != NULL)
        (void)!spn_latch_await(j->gate, SPN_FOREVER);
    (void)spn__fetch_sub(&j->inside, 1, relaxed);
    return spn__load(&j->fails, relaxed);
}

static int call(void *arg, void **result)
{
    *result = arg;
    return work(arg);
}

static int64_t runs(int i)
{
    return spn__load(&jobs[i].runs, acquire);
}

static void prepare(void)
{
    for (int i = 0; i < TASKS; i++) {
        struct job *j = &jobs[i];

        spn__init(&j->runs, 0);
        spn__init(&j->inside, 0);
        spn__init(&j->payload, 0);
        spn__init(&j->due, 0);
        spn__init(&j->at, 0);
        spn__init(&j->fails, 0);
        j->gate = NULL;
        j->future = NULL;
        j->task = NULL;
        j->context = NULL;
        j->undisturbed = false;
    }
}

static void ignore(spn_scheduled *s, spn_future *future, int code, void *ctx)
{
    (void)s;
    (void)future;
    (void)code;
    (void)ctx;
}

static void open_with(spn_scheduled_opts o)
{
    prepare();
    o.name = "t";
    o.failed = ignore;
    sim_assert(spn_scheduled_create(&sched, &o) == SPN_OK);
    ex = spn_scheduled_executor(sched);
    pool = spn_scheduled_pool(sched);
    sim_assert(spn_latch_create(&gate, 1) == SPN_OK);
}

static void open_pool(int32_t core)
{
    open_with(spn_scheduled_opts_pool(core));
}

/* Nothing is unaccounted for. */
static void expect_even(void)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;

    sim_assert(spn_pool_stats_get(pool, &s) == SPN_OK);
    sim_assert(s.pending == 0 && s.threads == 0 && s.queued == 0 && s.active == 0);
    sim_assert(s.accepted ==
               s.completed + s.failed + s.cancelled + s.returned + s.dropped);
    sim_assert(spn__dues_waiting(&sched->delays.dues) == 0 && sched->delays.away == 0);
}

static void finish(void)
{
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    expect_even();
    for (int i = 0; i < TASKS; i++)
        spn_future_unref(jobs[i].future);
    sim_assert(spn_scheduled_destroy(sched) == SPN_OK);
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
}

static void close_pool(void)
{
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    finish();
}

static void expect_due(struct job *j, int64_t delay_ns)
{
    spn__store(&j->payload, 1, relaxed);
    spn__store(&j->due, sim_now() + delay_ns, relaxed);
}

static int schedule(int i, int64_t delay_ns)
{
    expect_due(&jobs[i], delay_ns);
    return spn_scheduled_schedule(sched, call, &jobs[i], delay_ns, &jobs[i].future);
}

static int repeat(int i, int64_t first_ns, int64_t period_ns)
{
    expect_due(&jobs[i], first_ns);
    return spn_scheduled_at_fixed_rate(sched, work, &jobs[i], first_ns, period_ns,
                                       &jobs[i].future);
}

static void late_by(int i, int64_t late_ns)
{
    void *value;

    sim_assert(spn_future_get(jobs[i].future, &value, SPN_FOREVER) == SPN_OK);
    sim_assert(value == &jobs[i] && runs(i) == 1);
    sim_assert(spn__load(&jobs[i].at, relaxed) <=
               spn__load(&jobs[i].due, relaxed) + late_ns);
}

static void on_time(int i)
{
    late_by(i, STEPS);
}

static void schedules_near(void *i)
{
    sim_assert(schedule((int)(intptr_t)i, NEAR_) == SPN_OK);
}

static void schedules_now(void *i)
{
    sim_assert(schedule((int)(intptr_t)i, 0) == SPN_OK);
}

static void cancels(void *i)
{
    (void)spn_future_cancel(jobs[(intptr_t)i].future, 0);
}

static void cancels_and_interrupts(void *i)
{
    (void)spn_future_cancel(jobs[(intptr_t)i].future, 1);
}

/* ---- who watches what is due next ---------------------------------------------------- */

/* A task that is due before what the leader sleeps for shortens that sleep. */
SCENARIO(scheduled__earlier_while_parked__is_on_time, "STPE-38", "STPE-37", "STPE-2",
         "P4")
{
    open_pool(1);
    sim_assert(schedule(0, FAR) == SPN_OK);
    if (sim_choose(2) == 0)
        sim_settle();
    sim_thread(schedules_near, (void *)1);
    sim_join_all();
    on_time(1);
    sim_assert(runs(0) == 0);
    sim_assert(spn_future_cancel(jobs[0].future, 0) == 1);
    close_pool();
}
SCENARIO_OPTS(scheduled__earlier_while_parked__is_on_time, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* The same, while somebody who takes another task out moves what has come into its place:
 * whoever brought it still tells the leader. */
SCENARIO(scheduled__moved_while_it_comes__is_on_time, "STPE-38", "STPE-37", "STPE-2")
{
    open_pool(1);
    sim_assert(schedule(0, FAR) == SPN_OK);
    sim_assert(schedule(2, FAR) == SPN_OK);
    if (sim_choose(2) == 0)
        sim_settle();
    sim_thread(schedules_near, (void *)1);
    sim_thread(cancels, (void *)0);
    sim_join_all();
    on_time(1);
    sim_assert(runs(0) == 0 && runs(2) == 0);
    sim_assert(spn_future_cancel(jobs[2].future, 0) == 1);
    close_pool();
}
SCENARIO_OPTS(scheduled__moved_while_it_comes__is_on_time, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* A task is cancelled while others come, and while it is moved itself. */
SCENARIO(scheduled__cancelled_while_others_come__goes, "STPE-38", "STPE-2")
{
    open_pool(1);
    sim_thread(schedules_near, (void *)0);
    sim_thread(schedules_near, (void *)1);
    sim_assert(schedule(2, FAR) == SPN_OK);
    sim_assert(spn_future_cancel(jobs[2].future, 0) == 1);
    sim_assert(pool_stats(pool).queued <= 2);
    sim_join_all();
    on_time(0);
    on_time(1);
    close_pool();
    sim_assert(runs(2) == 0);
}
SCENARIO_OPTS(scheduled__cancelled_while_others_come__goes, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* Tasks from two threads, while workers come and go to sleep. */
SCENARIO(scheduled__two_schedule_at_once__both_on_time, "STPE-38", "STPE-2", "STPE-35")
{
    open_pool(2);
    sim_thread(schedules_near, (void *)0);
    sim_thread(schedules_now, (void *)1);
    sim_join_all();
    on_time(0);
    on_time(1);
    sim_assert(pool_stats(pool).threads == 2);
    close_pool();
}
SCENARIO_OPTS(scheduled__two_schedule_at_once__both_on_time, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* The leader goes off with a task that blocks: its deputy sees to what is left. */
SCENARIO(scheduled__leader_is_busy__another_leads, "STPE-2", "STPE-37")
{
    open_pool(2);
    jobs[0].gate = gate;
    sim_assert(schedule(0, NEAR_) == SPN_OK);
    sim_assert(schedule(1, sim_choose(2) == 0 ? NEAR_ : LATER) == SPN_OK);
    late_by(1, SPN__STAND_BY + STEPS);
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    on_time(0);
    close_pool();
}
SCENARIO_OPTS(scheduled__leader_is_busy__another_leads, .early = SIM_NEVER,
              .spurious = SIM_NEVER, .no_faults = "waits for a second thread")

/* The leader has run something since the deputy lay down, so that stands by for longer; then
 * the leader blocks, and what is behind is no later for that. */
SCENARIO(scheduled__deputy_stands_by_longer__sees_to_the_next, "STPE-2", "STPE-37")
{
    const int64_t then_ns = NEAR_ + SPN__STAND_BY / 2;

    open_pool(2);
    jobs[1].gate = gate;
    sim_assert(schedule(0, NEAR_) == SPN_OK);
    sim_assert(schedule(1, then_ns) == SPN_OK);
    sim_assert(schedule(2, then_ns + SPN_US(10)) == SPN_OK);
    late_by(2, SPN__STAND_BY + STEPS);
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    on_time(0);
    late_by(1, SPN__STAND_BY + STEPS);
    close_pool();
}
SCENARIO_OPTS(scheduled__deputy_stands_by_longer__sees_to_the_next, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* There was a deputy, and it has gone to sleep with nothing to wait for: the leader that
 * goes off with a task that blocks does not rely on it. */
SCENARIO(scheduled__deputy_was_there__another_is_woken, "STPE-2", "STPE-37")
{
    open_pool(2);
    sim_assert(schedule(0, NEAR_) == SPN_OK);
    sim_assert(schedule(1, NEAR_) == SPN_OK);
    late_by(0, SPN__STAND_BY + STEPS);
    late_by(1, SPN__STAND_BY + STEPS);
    if (sim_choose(2) == 0)
        sim_settle();
    jobs[2].gate = gate;
    sim_assert(schedule(2, sim_choose(2) == 0 ? 0 : NEAR_) == SPN_OK);
    sim_assert(schedule(3, sim_choose(2) == 0 ? NEAR_ : LATER) == SPN_OK);
    late_by(3, SPN__STAND_BY + STEPS);
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    late_by(2, SPN__STAND_BY + STEPS);
    close_pool();
}
SCENARIO_OPTS(scheduled__deputy_was_there__another_is_woken, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* Who looks whether there is any sees the one that it knows of, whatever comes and goes
 * meanwhile. */
SCENARIO(scheduled__another_comes_and_goes__the_first_is_seen, "STPE-2")
{
    open_pool(1);
    sim_assert(schedule(0, FAR) == SPN_OK);
    sim_thread(schedules_now, (void *)1);
    for (int n = 0; n < 3; n++)
        sim_assert(spn__work_any(pool));
    sim_join_all();
    on_time(1);
    sim_assert(spn_future_cancel(jobs[0].future, 0) == 1);
    close_pool();
}
SCENARIO_OPTS(scheduled__another_comes_and_goes__the_first_is_seen, .early = SIM_NEVER,
              .max_steps = 60000)

static void schedules_later(void *i)
{
    sim_assert(schedule((int)(intptr_t)i, LATER) == SPN_OK);
}

/* One worker goes off with the first task, which blocks, while the other goes to sleep and
 * a later one comes: that is not slept past. */
SCENARIO(scheduled__comes_while_the_first_is_taken__is_on_time, "STPE-38", "STPE-2")
{
    open_pool(2);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 2);
    jobs[0].gate = gate;
    if (sim_choose(2) == 0)
        sim_settle();
    sim_assert(schedule(0, sim_choose(2) == 0 ? 0 : NEAR_) == SPN_OK);
    sim_thread(schedules_later, (void *)1);
    sim_join_all();
    late_by(1, 2 * SPN__STAND_BY + STEPS);
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    close_pool();
}
SCENARIO_OPTS(scheduled__comes_while_the_first_is_taken__is_on_time, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* Another is taken out while the leader sleeps until the first: one that comes then and is
 * due before that, in the same tick of the queue, still wakes it. */
SCENARIO(scheduled__earlier_after_a_removal__is_on_time, "STPE-38", "STPE-20")
{
    const int64_t tick_ns = 1 << 20;
    int64_t now_ns, base_ns;

    open_pool(1);
    now_ns = sim_now();
    base_ns = (now_ns / tick_ns + 4) * tick_ns;
    sim_assert(schedule(0, base_ns - now_ns + SPN_US(900)) == SPN_OK);
    sim_assert(schedule(2, FAR) == SPN_OK);
    sim_settle();
    sim_assert(spn_future_cancel(jobs[2].future, 0) == 1);
    now_ns = sim_now();
    sim_assert(schedule(1, base_ns - now_ns + SPN_US(100)) == SPN_OK);
    on_time(1);
    on_time(0);
    close_pool();
}
SCENARIO_OPTS(scheduled__earlier_after_a_removal__is_on_time, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* Due one just after the other, for two workers: what one has seen of the time is never
 * too much for the other's. */
SCENARIO(scheduled__due_just_after__never_early, "STPE-2", "STPE-35")
{
    open_pool(2);
    sim_assert(schedule(0, NEAR_) == SPN_OK);
    sim_assert(schedule(1, NEAR_ + 40) == SPN_OK);
    sim_assert(schedule(2, NEAR_ + 1) == SPN_OK);
    while (runs(0) == 0 || runs(1) == 0 || runs(2) == 0)
        sim_sleep(NEAR_);
    close_pool();
}

/* A task comes while the one who was woken for another is about to start that, which
 * blocks: one of the two wakes the worker that still sleeps. */
SCENARIO(scheduled__comes_while_the_searcher_finds__starts, "STPE-38", "STPE-35")
{
    open_pool(2);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 2);
    sim_settle();
    jobs[0].gate = gate;
    sim_assert(schedule(0, 0) == SPN_OK);
    sim_assert(schedule(1, 0) == SPN_OK);
    on_time(1); /* or job 0 has the only worker that is awake, for ever */
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    on_time(0);
    close_pool();
}
SCENARIO_OPTS(scheduled__comes_while_the_searcher_finds__starts, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* The head is cancelled while the leader sleeps for it, or is about to, or it runs. */
SCENARIO(scheduled__head_is_cancelled__next_is_on_time, "STPE-20", "STPE-16", "STPE-23")
{
    open_pool(2);
    sim_assert(schedule(0, NEAR_) == SPN_OK);
    sim_assert(schedule(1, LATER) == SPN_OK);
    sim_thread(sim_choose(2) == 0 ? cancels : cancels_and_interrupts, (void *)0);
    on_time(1);
    sim_join_all();
    sim_assert(spn_future_get_state(jobs[0].future) != SPN_FUTURE_PENDING);
    close_pool();
}
SCENARIO_OPTS(scheduled__head_is_cancelled__next_is_on_time, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* Of one of its workers, which are asleep. */
static spn_thread *thread_of_worker(unsigned which)
{
    struct spn__list_node *node;

    spn__list_each (node, &pool->workers)
        if (which-- == 0)
            return spn__load(&spn__list_entry(node, struct spn__worker, link)->self,
                             relaxed);
    return NULL;
}

static void interrupts(void *thread)
{
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
}

/* Somebody interrupts a worker that sleeps for the next task, or for the one that does, or
 * is about to: it goes on sleeping, and what comes is on time; what comes after that is not
 * meant. */
SCENARIO(scheduled__sleeper_is_interrupted__tasks_on_time, "TPE-65", "TPE-64",
         "STPE-37", "STPE-2")
{
    const unsigned which = sim_choose(2);

    open_pool(2);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 2);
    sim_settle();
    if (sim_choose(2) == 0) {
        sim_assert(schedule(0, NEAR_) == SPN_OK);
        if (sim_choose(2) == 0)
            sim_settle(); /* one leads, the other is its deputy */
        sim_thread(interrupts, thread_of_worker(which));
    } else {
        sim_thread(interrupts, thread_of_worker(which));
        sim_assert(schedule(0, NEAR_) == SPN_OK);
    }
    sim_join_all();
    jobs[1].undisturbed = true;
    sim_assert(schedule(1, sim_choose(2) == 0 ? NEAR_ / 2 : LATER) == SPN_OK);
    on_time(0);
    on_time(1);
    close_pool();
}
SCENARIO_OPTS(scheduled__sleeper_is_interrupted__tasks_on_time, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

static void shrinks(void *arg)
{
    (void)arg;
    sim_assert(pool_set_core(pool, 1) == SPN_OK);
}

/* The leader leaves the pool: whoever stays leads. */
SCENARIO(scheduled__leader_leaves__another_leads, "STPE-37")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(2);

    o.keep_alive_ns = NEAR_ / 2;
    open_with(o);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 2);
    sim_assert(schedule(0, LATER) == SPN_OK);
    sim_thread(shrinks, NULL);
    on_time(0);
    sim_join_all();
    close_pool();
}
SCENARIO_OPTS(scheduled__leader_leaves__another_leads, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* ---- without core threads --------------------------------------------------------------- */

/* One worker is made, waits without spinning, and goes. */
SCENARIO(scheduled__core_0__runs_and_leaves, "STPE-30", "EXE-13", "STPE-36")
{
    open_pool(0);
    sim_thread(schedules_near, (void *)0);
    sim_assert(schedule(1, LATER) == SPN_OK);
    sim_join_all();
    on_time(0);
    on_time(1);
    sim_assert(pool_stats(pool).largest == 1);
    if (sim_choose(2) == 0)
        while (pool_stats(pool).threads != 0)
            sim_sleep(SPN_MS(5));
    close_pool();
}
SCENARIO_OPTS(scheduled__core_0__runs_and_leaves, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* Core threads that may time out stay for a task that is not due; when it is cancelled,
 * or one of them has run it, they go. */
SCENARIO(scheduled__core_timeout_and_nothing_left__all_leave, "STPE-30", "TPE-31")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(2);
    const bool cancelled = sim_choose(2) == 0;

    o.core_timeout = 1;
    o.keep_alive_ns = NEAR_ / 2;
    open_with(o);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 2);
    sim_assert(schedule(0, cancelled ? FAR : LATER) == SPN_OK);
    sim_sleep(NEAR_); /* longer than they would wait for nothing */
    if (cancelled)
        sim_assert(spn_future_cancel(jobs[0].future, 0) == 1);
    else
        on_time(0);
    while (pool_stats(pool).threads != 0)
        sim_sleep(SPN_MS(5));
    sim_assert(sim_now() < FAR);
    close_pool();
}
SCENARIO_OPTS(scheduled__core_timeout_and_nothing_left__all_leave, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* What it stayed for is cancelled: it goes. */
SCENARIO(scheduled__core_0_cancelled__worker_leaves, "STPE-21", "STPE-30")
{
    open_pool(0);
    sim_assert(schedule(0, FAR) == SPN_OK);
    sim_thread(cancels, (void *)0);
    sim_join_all();
    while (pool_stats(pool).threads != 0)
        sim_sleep(SPN_MS(5));
    sim_assert(sim_now() < FAR && runs(0) == 0);
    close_pool();
}
SCENARIO_OPTS(scheduled__core_0_cancelled__worker_leaves, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* Shutdown right behind a task. */
SCENARIO(scheduled__core_0_shutdown_at_once__still_runs, "STPE-30", "STPE-24")
{
    open_pool(0);
    sim_assert(schedule(0, NEAR_) == SPN_OK);
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    on_time(0);
    finish();
}
SCENARIO_OPTS(scheduled__core_0_shutdown_at_once__still_runs, .dfs = 1,
              .dfs_models = SIM_SC, .early = SIM_NEVER, .spurious = SIM_NEVER)

/* ---- cancel, run, re-arm ------------------------------------------------------------------ */

/* Whenever a periodic task is cancelled, it does not stay, and nobody runs it twice. */
SCENARIO(scheduled__cancel_races_rearm__nothing_stays, "STPE-17", "STPE-7", "STPE-16")
{
    const int64_t first = sim_choose(2) == 0 ? 0 : NEAR_;

    open_pool(1 + (int32_t)sim_choose(2));
    sim_assert(repeat(0, first, NEAR_) == SPN_OK);
    if (sim_choose(2) == 0)
        sim_sleep(NEAR_);
    sim_thread(cancels, (void *)0);
    sim_join_all();
    sim_assert(spn_future_get_state(jobs[0].future) == SPN_FUTURE_CANCELED);
    while (spn__load(&jobs[0].inside, acquire) != 0)
        sim_sleep(1);
    close_pool();
    sim_assert(sim_now() < FAR);
}

/* With a context, too: each run has it, and when the task is cancelled it goes. */
SCENARIO(scheduled__cancel_with_a_context__is_let_go, "STPE-16", "P40")
{
    spn_context_scope scope;
    spn_context *context;

    open_pool(1);
    sim_assert(spn_context_create(&context, NULL) == SPN_OK);
    sim_assert(spn_context_enter(&scope, context) == SPN_OK);
    jobs[0].context = context;
    sim_assert(repeat(0, 0, NEAR_) == SPN_OK);
    sim_assert(spn_context_leave(&scope) == SPN_OK);
    spn_context_unref(context); /* the task's is the last */
    if (sim_choose(2) == 0)
        sim_sleep(NEAR_); /* the second run is on its way */
    cancels((void *)0);
    sim_assert(spn_future_get_state(jobs[0].future) == SPN_FUTURE_CANCELED);
    close_pool();
}

/* Cancelled on its way back to where it would wait for an hour: it is not there after
 * that, and it need not become due for somebody to find out. */
SCENARIO(scheduled__cancelled_on_its_way_back__does_not_wait, "STPE-17", "STPE-20")
{
    open_pool(1);
    sim_assert(repeat(0, 0, FAR) == SPN_OK);
    sim_thread(cancels, (void *)0);
    sim_join_all();
    sim_settle();
    sim_assert(spn__dues_waiting(&sched->delays.dues) == 0 && sched->delays.away == 0);
    sim_assert(sim_now() < FAR); /* nobody has waited for it */
    close_pool();
}
SCENARIO_OPTS(scheduled__cancelled_on_its_way_back__does_not_wait, .early = SIM_NEVER)

/* The number of those that wait, asked for while one comes and is taken: 0 or 1. */
SCENARIO(scheduled__size_while_one_passes__never_negative, "STPE-18", "STPE-38", "P19")
{
    open_pool(1);
    sim_thread(schedules_now, (void *)0);
    for (int i = 0; i < 4; i++) {
        const int64_t queued = pool_stats(pool).queued;

        sim_assert(queued == 0 || queued == 1);
    }
    sim_join_all();
    on_time(0);
    close_pool();
}
SCENARIO_OPTS(scheduled__size_while_one_passes__never_negative, .early = SIM_NEVER)

/* Cancelled while the executor ends: who cancels does not touch what is gone. */
SCENARIO(scheduled__cancel_races_end__is_safe, "STPE-39", "STPE-31")
{
    int64_t count = -1;

    open_pool(1);
    sim_assert((sim_choose(2) == 0 ? repeat(0, 0, NEAR_) : schedule(0, NEAR_)) ==
               SPN_OK);
    sim_thread(cancels, (void *)0);
    if (sim_choose(2) == 0)
        sim_assert(spn_executor_shutdown_now(ex, NULL, NULL, &count) == SPN_OK);
    else
        sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    expect_even();
    sim_assert(spn_scheduled_destroy(sched) == SPN_OK);
    sim_join_all();
    sim_assert(spn_future_get_state(jobs[0].future) != SPN_FUTURE_PENDING);
    spn_future_unref(jobs[0].future);
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
}

/* With the policy off a cancelled task stays until it is due, or purged. */
SCENARIO(scheduled__no_remove_on_cancel__stays_until_due, "STPE-20", "STPE-22")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);

    o.remove_on_cancel = 0;
    open_with(o);
    sim_assert(schedule(0, NEAR_) == SPN_OK);
    sim_thread(cancels, (void *)0);
    if (sim_choose(2) == 0)
        (void)spn_pool_purge(pool);
    sim_join_all();
    sim_assert(spn_future_get_state(jobs[0].future) != SPN_FUTURE_PENDING);
    close_pool();
}

/* Removing by handle against taking: one of the two has it. */
static void removes(void *removed)
{
    *(int *)removed = spn_scheduled_remove(sched, jobs[0].future);
}

SCENARIO(scheduled__remove_races_take__one_wins, "STPE-19")
{
    int removed = -1;

    open_pool(1);
    sim_assert(schedule(0, 0) == SPN_OK);
    sim_thread(removes, &removed);
    sim_join_all();
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    sim_assert(runs(0) + removed == 1);
    sim_assert((spn_future_get_state(jobs[0].future) != SPN_FUTURE_PENDING) ==
               (removed == 0));
    finish();
}

/* ---- the end ---------------------------------------------------------------------------------- */

/* Two idle workers and one task that is not due: both go when it has run. */
SCENARIO(scheduled__shutdown_with_followers__terminates, "STPE-24", "STPE-34")
{
    open_pool(2);
    sim_assert(spn_pool_prestart(pool, SPN_DEFAULT) == 2);
    sim_assert(schedule(0, NEAR_) == SPN_OK);
    close_pool();
    sim_assert(runs(0) == 1 && sim_now() < FAR);
}
SCENARIO_OPTS(scheduled__shutdown_with_followers__terminates, .early = SIM_NEVER,
              .spurious = SIM_NEVER)

/* A periodic task that runs at shutdown ends its run, and is cancelled. */
SCENARIO(scheduled__shutdown_races_periodic__is_cancelled, "STPE-27", "STPE-24")
{
    open_pool(1);
    sim_assert(repeat(0, 0, NEAR_) == SPN_OK);
    if (sim_choose(2) == 0)
        sim_sleep(NEAR_ / 2);
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_future_get_state(jobs[0].future) == SPN_FUTURE_CANCELED);
    sim_assert(spn__load(&jobs[0].inside, relaxed) == 0);
    finish();
}

/* With the policy it goes on until it is cancelled. */
SCENARIO(scheduled__periodic_after_shutdown__goes_on, "STPE-26")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(2);

    o.periodic_after_shutdown = 1;
    open_with(o);
    sim_assert(repeat(0, 0, NEAR_) == SPN_OK);
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    while (runs(0) < 2)
        sim_sleep(NEAR_ / 2);
    sim_thread(cancels, (void *)0);
    sim_join_all();
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_future_get_state(jobs[0].future) == SPN_FUTURE_CANCELED);
    finish();
}

/* Not to be run after shutdown: cancelled, and gone. */
SCENARIO(scheduled__no_delayed_after_shutdown__is_cancelled, "STPE-25")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);

    o.delayed_after_shutdown = 0;
    open_with(o);
    sim_assert(schedule(0, FAR) == SPN_OK);
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_future_get_state(jobs[0].future) == SPN_FUTURE_CANCELED &&
               sim_now() < FAR);
    finish();
}
SCENARIO_OPTS(scheduled__no_delayed_after_shutdown__is_cancelled, .early = SIM_NEVER)

static void schedules_if_open(void *i)
{
    const int rc = schedule((int)(intptr_t)i, 0);

    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED);
    sim_assert((rc == SPN_OK) == (jobs[(intptr_t)i].future != NULL));
}

/* Whoever schedules around a shutdown is refused, or has a future that ends. */
SCENARIO(scheduled__add_races_shutdown__ends, "STPE-39", "STPE-33")
{
    open_pool((int32_t)sim_choose(2));
    sim_thread(schedules_if_open, (void *)0);
    sim_assert(schedule(1, 0) == SPN_OK);
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    sim_join_all();
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    sim_assert(runs(0) == (jobs[0].future != NULL));
    sim_assert(jobs[0].future == NULL ||
               spn_future_get_state(jobs[0].future) != SPN_FUTURE_PENDING);
    sim_assert(runs(1) == 1);
    finish();
}

static int returned;

static void give_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    spn_future *f = spn_future_of_task(task);

    (void)fn;
    (void)arg;
    (void)ctx;
    sim_assert(f == jobs[0].future || f == jobs[1].future);
    sim_assert(spn_future_get_state(f) == SPN_FUTURE_PENDING);
    returned++;
    sim_assert(spn_task_drop(task, SPN_ECANCELED) == SPN_OK);
}

static SPN__ATOMIC(int) calls_back;

static void take_call_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    const struct job *j = arg;

    (void)ctx;
    sim_assert(task == NULL && fn == work);
    sim_assert(spn__load(&j->runs, relaxed) == 0);
    (void)spn__fetch_add(&calls_back, 1, relaxed);
}

/* Calls are given back a few at a time, while the worker runs and leaves: each that was
 * accepted runs or comes back, once. */
SCENARIO(scheduled__shutdown_now_races_calls__each_runs_or_comes_back, "STPE-31")
{
    int64_t count, ran = 0, accepted = 0;

    open_with(spn_scheduled_opts_pool(1));
    spn__init(&calls_back, 0);
    for (int i = 0; i < TASKS; i++) {
        const int64_t delay_ns = i % 2 == 0 ? 0 : NEAR_;

        expect_due(&jobs[i], delay_ns);
        accepted += spn_scheduled_call(sched, work, &jobs[i], delay_ns) == SPN_OK;
    }
    sim_assert(spn_executor_shutdown_now(ex, take_call_back, NULL, &count) == SPN_OK);
    sim_assert(count == spn__load(&calls_back, relaxed));
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    for (int i = 0; i < TASKS; i++) {
        sim_assert(runs(i) <= 1);
        ran += runs(i);
    }
    sim_assert(ran + count == accepted);
    finish();
}

/* What shutdown_now returns has not started; the rest has. */
SCENARIO(scheduled__shutdown_now_races_start__all_or_nothing, "STPE-31", "STPE-32")
{
    int64_t count = -1;

    returned = 0;
    open_pool(1);
    sim_assert(schedule(0, 0) == SPN_OK);
    sim_assert(repeat(1, 0, NEAR_) == SPN_OK);
    sim_assert(spn_executor_shutdown_now(ex, give_back, NULL, &count) == SPN_OK);
    sim_assert(count == returned);
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_future_get_state(jobs[0].future) != SPN_FUTURE_PENDING);
    sim_assert(spn_future_get_state(jobs[1].future) != SPN_FUTURE_PENDING);
    finish();
}

/* ---- a manual clock ------------------------------------------------------------------------------ */

static spn_clock *clock_;

static void advances(void *arg)
{
    (void)arg;
    sim_assert(spn_clock_advance(clock_, LATER) == SPN_OK);
}

/* The clock moves while a task comes and the worker goes to sleep. */
SCENARIO(scheduled__clock_moves__is_seen, "STPE-38", "STPE-40")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool(1);

    sim_assert(spn_clock_create_manual(&clock_, 0) == SPN_OK);
    o.clock = clock_;
    open_with(o);
    spn__store(&jobs[0].payload, 1, relaxed);
    sim_thread(advances, NULL);
    sim_assert(spn_scheduled_schedule(sched, call, &jobs[0], 0, &jobs[0].future) ==
               SPN_OK);
    spn__store(&jobs[1].payload, 1, relaxed);
    sim_assert(spn_scheduled_schedule(sched, call, &jobs[1], NEAR_, &jobs[1].future) ==
               SPN_OK);
    sim_join_all();
    if (spn_clock_now(clock_) <
        spn__load(&((struct spn__scheduled_future *)(void *)jobs[1].future)->due_ns,
                  relaxed))
        advances(NULL);
    sim_assert(spn_future_get(jobs[0].future, NULL, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_future_get(jobs[1].future, NULL, SPN_FOREVER) == SPN_OK);
    close_pool();
    sim_assert(spn_clock_destroy(clock_) == SPN_OK);
}

/* ---- memory and threads that are not to be had -------------------------------------------------- */

/* Every allocation and every thread is refused in turn: what was accepted ends. */
SCENARIO(scheduled__no_memory_or_thread__nothing_is_lost, "STPE-39")
{
    spn_scheduled_opts o = spn_scheduled_opts_pool((int32_t)sim_choose(2));
    spn_future *once = NULL, *again = NULL;
    int rc;

    prepare();
    o.name = "t";
    o.failed = ignore;
    if (spn_thread_current() == NULL || spn_scheduled_create(&sched, &o) != SPN_OK)
        return;
    pool = spn_scheduled_pool(sched);
    ex = spn_scheduled_executor(sched);
    expect_due(&jobs[0], NEAR_);
    rc = spn_scheduled_schedule(sched, call, &jobs[0], NEAR_, &once);
    sim_assert((rc == SPN_OK) == (once != NULL));
    expect_due(&jobs[1], 0);
    rc = spn_scheduled_at_fixed_rate(sched, work, &jobs[1], 0, NEAR_, &again);
    sim_assert((rc == SPN_OK) == (again != NULL));
    expect_due(&jobs[2], 0);
    rc = spn_scheduled_call(sched, work, &jobs[2], 0);
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    expect_even();
    sim_assert(rc != SPN_OK || runs(2) <= 1);
    sim_assert(once == NULL || spn_future_get_state(once) != SPN_FUTURE_PENDING);
    sim_assert(again == NULL || spn_future_get_state(again) != SPN_FUTURE_PENDING);
    spn_future_unref(once);
    spn_future_unref(again);
    sim_assert(spn_scheduled_destroy(sched) == SPN_OK);
}
SCENARIO_OPTS(scheduled__no_memory_or_thread__nothing_is_lost, .faults = true)

/* A submitted future is one of these, too: cancelled, it leaves the queue. */
SCENARIO(scheduled__submit_and_cancel__ends, "STPE-1", "STPE-20")
{
    open_pool(1);
    spn__store(&jobs[0].payload, 1, relaxed);
    sim_assert(spn_executor_submit(ex, call, &jobs[0], &jobs[0].future) == SPN_OK);
    sim_thread(cancels, (void *)0);
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    sim_join_all();
    sim_assert(runs(0) <= 1);
    finish();
}

/* A failing periodic task stops, or goes on, as it was told to. */
SCENARIO(scheduled__failing__obeys_policy, "STPE-15", "P26")
{
    spn_schedule what = SPN_SCHEDULE_INIT;
    const bool goes_on = sim_choose(2) == 0;

    open_pool(1);
    spn__store(&jobs[0].payload, 1, relaxed);
    spn__store(&jobs[0].fails, -77, relaxed);
    what.run = work;
    what.arg = &jobs[0];
    what.repeat = SPN_REPEAT_DELAY;
    what.period_ns = NEAR_;
    what.on_failure = goes_on ? SPN_FAILURE_GO_ON : SPN_FAILURE_STOP;
    sim_assert(spn_scheduled_schedule_with(sched, &what, &jobs[0].future) == SPN_OK);
    if (goes_on) {
        while (runs(0) < 2)
            sim_sleep(NEAR_ / 2);
        sim_thread(cancels, (void *)0);
        sim_join_all();
    } else {
        spn_outcome outcome;

        sim_assert(spn_future_get(jobs[0].future, NULL, SPN_FOREVER) == SPN_EFAILED);
        sim_assert(spn_future_result(jobs[0].future, &outcome) == SPN_EFAILED);
        sim_assert(outcome.code == -77 && runs(0) == 1);
    }
    sim_assert(spn_executor_shutdown(ex) == SPN_OK);
    sim_assert(spn_executor_await(ex, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_scheduled_failed_runs(sched) == runs(0));
    finish();
}

/* ---- the serial timer ----------------------------------------------------------------------------- */

static spn_serial_timer *timer;

static void open_timer(void)
{
    prepare();
    sim_assert(spn_serial_timer_create(&timer, NULL) == SPN_OK);
    for (int i = 0; i < 2; i++) {
        spn__store(&jobs[i].payload, 1, relaxed);
        sim_assert(spn_serial_task_create(&jobs[i].task, work, &jobs[i]) == SPN_OK);
    }
}

static void close_timer(void)
{
    sim_assert(spn_serial_timer_cancel(timer) == SPN_OK);
    sim_assert(spn_serial_timer_await(timer, SPN_FOREVER) == SPN_OK);
    sim_assert(spn_serial_timer_pending(timer) == 0);
    sim_assert(spn_serial_timer_destroy(timer) == SPN_OK);
    spn_serial_task_unref(jobs[0].task);
    spn_serial_task_unref(jobs[1].task);
}

static void cancels_task(void *prevented)
{
    *(int *)prevented = spn_serial_task_cancel(jobs[0].task);
}

/* Cancelling says whether it prevented the run. */
SCENARIO(serial_timer__cancel_races_run__one_wins, "TMR-10")
{
    int prevented = -1;

    open_timer();
    sim_assert(spn_serial_timer_schedule(timer, jobs[0].task, 0, SPN_REPEAT_NONE, 0) ==
               SPN_OK);
    sim_assert(spn_serial_timer_schedule(timer, jobs[1].task, 0, SPN_REPEAT_NONE, 0) ==
               SPN_OK);
    sim_thread(cancels_task, &prevented);
    while (runs(1) == 0)
        sim_sleep(1);
    sim_join_all();
    sim_assert(prevented + runs(0) == 1);
    close_timer();
}

static void schedules_task(void *arg)
{
    (void)arg;
    (void)!spn_serial_timer_schedule(timer, jobs[0].task, FAR, SPN_REPEAT_NONE, 0);
}

/* Cancelled on its way into the timer, it does not stay there.  The hour must not pass:
 * then the timer's thread may have taken it, and the count says so a little later. */
SCENARIO(serial_timer__cancel_races_schedule__nothing_stays, "TMR-3", "TMR-10")
{
    int prevented = -1;

    open_timer();
    sim_thread(schedules_task, NULL);
    sim_thread(cancels_task, &prevented);
    sim_join_all();
    sim_assert(spn_serial_timer_pending(timer) == 0);
    close_timer();
}
SCENARIO_OPTS(serial_timer__cancel_races_schedule__nothing_stays, .early = SIM_NEVER)

/* The same behind another, so that nobody need be woken for it: then no fence is made on
 * the way but the one that sees to this. */
SCENARIO(serial_timer__cancel_races_schedule_of_a_later_one__nothing_stays, "TMR-10")
{
    int prevented = -1;

    open_timer();
    sim_assert(spn_serial_timer_schedule(timer, jobs[1].task, FAR / 2, SPN_REPEAT_NONE,
                                         0) == SPN_OK);
    sim_settle();
    sim_thread(schedules_task, NULL);
    sim_thread(cancels_task, &prevented);
    sim_join_all();
    sim_assert(spn_serial_timer_pending(timer) == 1);
    close_timer();
}
SCENARIO_OPTS(serial_timer__cancel_races_schedule_of_a_later_one__nothing_stays,
              .early = SIM_NEVER)

static void cancels_timer(void *arg)
{
    (void)arg;
    sim_assert(spn_serial_timer_cancel(timer) == SPN_OK);
}

/* No task starts once the timer was cancelled. */
SCENARIO(serial_timer__cancelled__starts_no_more, "TMR-9", "TMR-4")
{
    open_timer();
    sim_assert(spn_serial_timer_schedule(timer, jobs[0].task, 0, SPN_REPEAT_RATE,
                                         NEAR_) == SPN_OK);
    sim_thread(cancels_timer, NULL);
    const int rc =
        spn_serial_timer_schedule(timer, jobs[1].task, 0, SPN_REPEAT_NONE, 0);
    sim_assert(rc == SPN_OK || rc == SPN_ESTATE);
    sim_join_all();
    sim_assert(spn_serial_timer_await(timer, SPN_FOREVER) == SPN_OK);
    sim_assert(runs(1) <= (rc == SPN_OK));
    close_timer();
}
