/* SPDX-License-Identifier: MIT */
/*
 * scenario_timer.c - timers: nothing is lost between an addition and a sleeping timer,
 * nothing runs after it was cancelled, and every count comes out even.
 *
 * Ticks are a microsecond and wheels have four slots a level, so that a few microseconds
 * of virtual time pass through all of the wheel.
 */
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "sync/seam.h"
#include "wheel/timer.h"

#define TICK  SPN_TIMER_TICK_MIN
#define NEAR_ (2 * TICK)
#define FAR   SPN_SEC(3600)

static spn_timer *timer;
static spn_semaphore *done; /* a permit per run */

struct job {
    spn_timeout timeout;
    SPN__ATOMIC(int) runs, payload;
    int64_t due_ns;
    int again; /* how often the callback schedules itself */
};
static struct job job, other;

static void prepare(struct job *j)
{
    memset(&j->timeout, 0, sizeof j->timeout);
    spn__init(spn__state_of(&j->timeout), 0);
    spn__init(&j->runs, 0);
    spn__init(&j->payload, 0);
    j->due_ns = 0;
    j->again = 0;
}

static uint32_t parallel = 2; /* changed by scenarios that are about it */

static bool create(uint32_t shards, spn_executor *executor, uint32_t drive)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = TICK;
    opts.slots = 4;
    opts.shards = shards;
    opts.executor = executor;
    opts.drive = drive;
    opts.parallel = parallel;
    prepare(&job);
    prepare(&other);
    done = NULL;
    if (spn_thread_current() == NULL) /* waits need our record */
        return false;
    if (spn_semaphore_create(&done, NULL) != SPN_OK)
        return false;
    if (spn_timer_create(&timer, &opts) == SPN_OK)
        return true;
    sim_assert(spn_semaphore_destroy(done) == SPN_OK);
    return false;
}

/* Nothing is unaccounted for. */
static void expect_even(int64_t pending)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;

    sim_assert(spn_timer_get_stats(timer, &s) == SPN_OK);
    sim_assert(s.armed == s.fired + s.cancelled + s.replaced + s.returned + s.pending);
    sim_assert((int64_t)s.pending == pending);
    sim_assert(spn_timer_pending(timer) == pending);
    sim_assert(spn__timer_check(timer) == SPN_OK);
}

/* Stops; returns how many were left. */
static int stop(void)
{
    spn_timeout *left;
    int count = 0;

    sim_assert(spn_timer_stop(timer, &left, NULL) == SPN_OK);
    while (spn_timeout_pop(&left) != NULL)
        count++;
    expect_even(0);
    return count;
}

static void destroy(void)
{
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
    sim_assert(spn_semaphore_destroy(done) == SPN_OK);
}

static int on_time(spn_timeout *t)
{
    struct job *j = (struct job *)(void *)t;

    sim_assert(sim_now() >= j->due_ns); /* never early */
    sim_assert(spn_timeout_state(t) ==
               SPN_TIMEOUT_EXPIRED);                  /* already in the callback */
    sim_assert(spn__load(&j->payload, relaxed) != 0); /* what preceded schedule */
    spn__store(&j->runs, spn__load(&j->runs, relaxed) + 1, relaxed);
    if (j->again > 0) {
        j->again--;
        j->due_ns = 0;
        const int rc = spn_timer_schedule(timer, t, on_time, NEAR_);
        sim_assert(rc == SPN_OK || rc == SPN_ESTATE);
    }
    sim_assert(spn_semaphore_release(done, 1) == SPN_OK);
    return 0;
}

static int schedule(struct job *j, int64_t delay_ns)
{
    spn__store(&j->payload, 1, relaxed);
    j->due_ns = delay_ns == FAR ? FAR : sim_now() + delay_ns;
    return spn_timer_schedule(timer, &j->timeout, on_time, delay_ns);
}

static void await_run(void)
{
    sim_assert(spn_semaphore_acquire(done, 1, SPN_FOREVER) == SPN_OK);
}

/* An addition while the timer falls asleep is found, and not much late. */
SCENARIO(timer__add_races_sleep__fires_in_time, "HWT-7", "HWT-17", "HWT-18", "HWT-41",
         "P4")
{
    int64_t begun;

    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    begun = sim_now();
    if (schedule(&job, NEAR_) == SPN_OK) {
        await_run();
        sim_assert(sim_now() - begun < FAR);
        sim_assert(spn__load(&job.runs, relaxed) == 1);
    } else { /* no thread: nothing was taken */
        sim_assert(spn_timeout_state(&job.timeout) != SPN_TIMEOUT_PENDING);
        expect_even(0);
    }
    sim_assert(stop() == 0);
    destroy();
}
SCENARIO_OPTS(timer__add_races_sleep__fires_in_time, .dfs = 1, .dfs_models = SIM_SC,
              .faults = true)

/* The timer sleeps for an hour: what comes earlier wakes it, also while it is about to
 * fall asleep.  No timer expires early here, because that hour would pass then as it does
 * when the wake-up is lost. */
SCENARIO(timer__earlier_add_while_parked__wakes, "HWT-17", "HWT-18", "P4")
{
    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    sim_assert(schedule(&other, FAR) == SPN_OK);
    if (sim_choose(2) == 1)
        sim_settle();
    sim_assert(schedule(&job, NEAR_) == SPN_OK);
    await_run();
    sim_assert(sim_now() < FAR);
    sim_assert(spn__load(&job.runs, relaxed) == 1);
    expect_even(1);
    sim_assert(stop() == 1);
    sim_assert(spn_timeout_state(&other.timeout) == SPN_TIMEOUT_CANCELLED);
    destroy();
}
SCENARIO_OPTS(timer__earlier_add_while_parked__wakes, .dfs = 1, .dfs_models = SIM_SC,
              .early = SIM_NEVER)

static void schedule_other(void *arg)
{
    (void)arg;
    sim_assert(schedule(&other, 3 * TICK) == SPN_OK);
}

/* Two threads add to two shards: both are found. */
SCENARIO(timer__two_adders_two_shards__both_fire, "HWT-24", "HWT-26")
{
    if (!create(2, NULL, SPN_TIMER_THREAD))
        return;
    sim_thread(schedule_other, NULL);
    sim_assert(schedule(&job, NEAR_) == SPN_OK);
    await_run();
    await_run();
    sim_join_all();
    sim_assert(sim_now() < FAR);
    sim_assert(spn__load(&job.runs, relaxed) == 1 &&
               spn__load(&other.runs, relaxed) == 1);
    sim_assert(stop() == 0);
    destroy();
}

static void cancel_job(void *results)
{
    const int rc = spn_timer_cancel(timer, &job.timeout);

    sim_assert(rc == SPN_TIMEOUT_GONE || rc == SPN_TIMEOUT_REMOVED ||
               rc == SPN_TIMEOUT_RUNNING);
    if (rc == SPN_TIMEOUT_REMOVED)
        spn__fetch_add((spn__futex_word *)results, 1, relaxed);
}

/* Two cancel what is about to fire: one run, or one cancel that says so. */
SCENARIO(timer__cancel_races_fire__one_of_them, "HWT-30", "HWT-34", "HWT-40")
{
    static spn__futex_word removed;

    spn__init(&removed, 0);
    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    sim_assert(schedule(&job, TICK) == SPN_OK);
    sim_thread(cancel_job, &removed);
    cancel_job(&removed);
    sim_join_all();
    sim_settle();
    if (spn__load(&removed, relaxed) == 0)
        await_run();
    sim_assert((int)spn__load(&removed, relaxed) + spn__load(&job.runs, relaxed) == 1);
    sim_assert((spn_timeout_state(&job.timeout) == SPN_TIMEOUT_CANCELLED) ==
               (int)spn__load(&removed, relaxed));
    expect_even(0);
    sim_assert(stop() == 0);
    destroy();
}

/* The callback schedules itself again while others cancel: what is armed is run,
 * cancelled or pending, and cancel_sync means the end. */
SCENARIO(timer__cancel_races_fire_and_rearm__counts_even, "HWT-22", "HWT-37", "P19")
{
    static spn__futex_word removed;
    int rc, runs;

    spn__init(&removed, 0);
    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    job.again = 1;
    sim_assert(schedule(&job, TICK) == SPN_OK);
    sim_thread(cancel_job, &removed);
    rc = spn_timer_cancel_sync(timer, &job.timeout, SPN_FOREVER);
    sim_assert(rc >= 0);
    runs = spn__load(&job.runs, relaxed);
    sim_assert(spn_timeout_state(&job.timeout) != SPN_TIMEOUT_PENDING);
    sim_join_all();
    sim_settle();
    sim_assert(spn__load(&job.runs, relaxed) == runs); /* nothing ran after that */
    sim_assert(runs <= 2);
    expect_even(0);
    sim_assert(stop() == 0);
    destroy();
}

/* What is free after cancel_sync may be freed. */
SCENARIO(timer__freed_after_cancel_sync__callback_is_over, "HWT-34", "P28")
{
    struct job *j;
    int rc;

    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    j = spn__alloc(sizeof *j);
    sim_assert(j != NULL);
    prepare(j);
    j->again = 1;
    sim_assert(schedule(j, TICK) == SPN_OK);
    rc = spn_timer_cancel_sync(timer, &j->timeout, SPN_FOREVER);
    sim_assert(rc == SPN_TIMEOUT_REMOVED || rc == SPN_TIMEOUT_RUNNING ||
               rc == SPN_TIMEOUT_GONE);
    if (rc == SPN_TIMEOUT_GONE)
        sim_assert(spn__load(&j->runs, relaxed) == 2);
    spn__free(j);
    sim_assert(stop() == 0);
    destroy();
}
SCENARIO_OPTS(timer__freed_after_cancel_sync__callback_is_over, .dfs = 1,
              .dfs_models = SIM_SC)

static int free_self(spn_timeout *t)
{
    spn__free(t);
    sim_assert(spn_semaphore_release(done, 1) == SPN_OK);
    return 0;
}

/* A callback frees its own timeout, while the timer is stopped. */
SCENARIO(timer__callback_frees_itself__never_touched_again, "HWT-10", "P27")
{
    struct job *j;
    spn_timeout *left;

    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    j = spn__alloc(sizeof *j);
    sim_assert(j != NULL);
    prepare(j);
    sim_assert(spn_timer_schedule(timer, &j->timeout, free_self, TICK) == SPN_OK);
    if (sim_choose(2) == 1)
        sim_sleep(NEAR_);
    sim_assert(spn_timer_stop(timer, &left, NULL) == SPN_OK);
    if (left != NULL) {
        sim_assert(spn_timeout_pop(&left) == &j->timeout && left == NULL);
        spn__free(j);
    }
    destroy();
}

static int added; /* what the adder was told */

static void add_job(void *arg)
{
    (void)arg;
    added = schedule(&job, NEAR_);
}

/* An addition and stop at once: refused, or run, or returned; never two of them. */
SCENARIO(timer__stop_races_add__run_returned_or_refused, "HWT-8", "HWT-10", "HWT-11",
         "HWT-12", "HWT-15", "HWT-42", "P3")
{
    int left, runs;

    added = 1;
    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    sim_thread(add_job, NULL);
    left = stop();
    sim_join_all();
    runs = spn__load(&job.runs, relaxed);
    sim_assert(added == SPN_OK || added == SPN_ESTATE);
    sim_assert(left + runs == (added == SPN_OK));
    sim_assert((spn_timeout_state(&job.timeout) == SPN_TIMEOUT_CANCELLED) == left);
    expect_even(0);
    sim_assert(stop() == 0); /* a second stop finds nothing */
    destroy();
}
SCENARIO_OPTS(timer__stop_races_add__run_returned_or_refused, .dfs = 1,
              .dfs_models = SIM_SC)

static void stop_too(void *arg)
{
    spn_timeout *left;

    (void)arg;
    sim_assert(spn_timer_stop(timer, &left, NULL) == SPN_OK);
    while (spn_timeout_pop(&left) != NULL)
        spn__fetch_add(&other.runs, 1, relaxed);
}

/* Two stops: what is left is returned by one of them, and both come after the last
 * callback. */
SCENARIO(timer__two_stops__left_returned_once, "HWT-10", "HWT-12", "HWT-14", "P44")
{
    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    sim_assert(schedule(&job, NEAR_) == SPN_OK);
    sim_thread(stop_too, NULL);
    stop_too(NULL);
    sim_join_all();
    sim_assert(spn__load(&job.runs, relaxed) + spn__load(&other.runs, relaxed) == 1);
    destroy();
}

/* Two stops and an addition: it is run, returned by one of them, or refused, also where the
 * stop that collects is not the one that came first. */
SCENARIO(timer__two_stops_race_add__run_returned_or_refused, "HWT-10", "HWT-12",
         "HWT-15", "HWT-42", "P3")
{
    added = 1;
    if (!create(1, NULL, SPN_TIMER_DRIVEN))
        return;
    sim_thread(add_job, NULL);
    sim_thread(stop_too, NULL);
    stop_too(NULL);
    sim_join_all();
    sim_assert(added == SPN_OK || added == SPN_ESTATE);
    sim_assert(spn__load(&other.runs, relaxed) == (added == SPN_OK));
    expect_even(0);
    destroy();
}
SCENARIO_OPTS(timer__two_stops_race_add__run_returned_or_refused, .dfs = 2,
              .dfs_models = SIM_SC)

static int on_period(spn_timeout *t)
{
    struct job *j = (struct job *)(void *)t;

    sim_assert(sim_now() >= j->due_ns);
    j->due_ns += NEAR_; /* in phase */
    spn__store(&j->runs, spn__load(&j->runs, relaxed) + 1, relaxed);
    if (j->again > 0 && --j->again == 0) /* from the callback itself */
        sim_assert(spn_timer_cancel(timer, t) == SPN_TIMEOUT_RUNNING);
    sim_assert(spn_semaphore_release(done, 1) == SPN_OK);
    return 0;
}

static int schedule_period(struct job *j)
{
    spn_period period = SPN_PERIOD_INIT;

    period.period_ns = NEAR_;
    period.missed = sim_choose(2) == 1 ? SPN_MISSED_SKIP : SPN_MISSED_BURST;
    period.burst_max = 1;
    j->due_ns = sim_now() + NEAR_;
    return spn_timer_schedule_periodic(timer, &j->timeout, on_period, NEAR_, &period);
}

/* A periodic timeout is cancelled between, before, during its runs: no run after
 * cancel_sync, and the pending count is 0. */
SCENARIO(timer__periodic_cancelled_any_time__ends, "HWT-30")
{
    int runs, rc;

    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    sim_assert(schedule_period(&job) == SPN_OK);
    if (sim_choose(2) == 1)
        await_run();
    rc = spn_timer_cancel_sync(timer, &job.timeout, SPN_FOREVER);
    sim_assert(rc == SPN_TIMEOUT_REMOVED || rc == SPN_TIMEOUT_RUNNING);
    runs = spn__load(&job.runs, relaxed);
    prepare(&job);
    spn__init(&job.runs, runs);
    sim_settle();
    sim_assert(spn__load(&job.runs, relaxed) == runs);
    expect_even(0);
    sim_assert(stop() == 0);
    destroy();
}

/* One that cancels itself in its second run has two; stop returns one that goes on. */
SCENARIO(timer__periodic_stops_itself_or_is_stopped__accounted, "HWT-10", "HWT-13")
{
    const bool by_itself = sim_choose(2) == 1;
    int left;

    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    job.again = by_itself ? 2 : 0; /* the callback's from here on */
    sim_assert(schedule_period(&job) == SPN_OK);
    await_run();
    if (by_itself && sim_choose(2) == 1)
        await_run();
    left = stop();
    sim_assert(left == 1 || spn__load(&job.runs, relaxed) == 2);
    sim_assert(spn_timeout_state(&job.timeout) == SPN_TIMEOUT_CANCELLED);
    destroy();
}

/* ---- what a callback may do ------------------------------------------------------- */

enum deed { CANCEL_SELF, CANCEL_SIBLING, CANCEL_LATER, ARM_SELF, ADD_NOW, STOP, DEEDS };
static enum deed deed;
static struct job sibling, later, added_now;
static SPN__ATOMIC(int) siblings_removed, laters_removed;

static int plain_run(spn_timeout *t)
{
    struct job *j = (struct job *)(void *)t;

    spn__fetch_add(&j->runs, 1, relaxed);
    return 0;
}

static void cancel_sibling(void *arg)
{
    (void)arg;
    if (spn_timer_cancel(timer, &sibling.timeout) == SPN_TIMEOUT_REMOVED)
        spn__fetch_add(&siblings_removed, 1, relaxed);
}

static int do_deed(spn_timeout *t)
{
    struct job *j = (struct job *)(void *)t;

    if (spn__fetch_add(&j->runs, 1, relaxed) != 0)
        return 0; /* armed again: only the first time */
    switch (deed) {
    case CANCEL_SELF:
        sim_assert(spn_timer_cancel(timer, t) == SPN_TIMEOUT_RUNNING);
        sim_assert(spn_timer_cancel_sync(timer, t, SPN_FOREVER) == SPN_EDEADLK);
        break;
    case CANCEL_SIBLING:
        cancel_sibling(NULL);
        break;
    case CANCEL_LATER:
        if (spn_timer_cancel(timer, &later.timeout) == SPN_TIMEOUT_REMOVED)
            spn__store(&laters_removed, 1, relaxed);
        break;
    case ARM_SELF:
        sim_assert(spn_timer_schedule(timer, t, do_deed, TICK) == SPN_OK);
        break;
    case ADD_NOW: /* into the slot that is being served */
        sim_assert(spn_timer_schedule(timer, &added_now.timeout, plain_run, 0) ==
                   SPN_OK);
        break;
    default:
        sim_assert(spn_timer_stop(timer, NULL, NULL) == SPN_ESTATE);
        break;
    }
    return 0;
}

/* In a callback: cancel itself, its sibling of the same tick, a later one; arm itself, add
 * to the present slot, stop.  Another thread cancels the sibling meanwhile.  Each runs as
 * often as it was armed and not cancelled, and the counts come out even.  The later one is
 * due in an hour, and runs only if that hour passed: the timer's thread may expire early
 * while it sleeps until then, because nothing else had been scheduled. */
SCENARIO(timer__callback_matrix__each_accounted_for, "HWT-9", "HWT-22", "HWT-32",
         "HWT-37", "HWT-40", "P27")
{
    int gone, left, late;

    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    deed = (enum deed)sim_choose(DEEDS);
    prepare(&sibling);
    prepare(&later);
    prepare(&added_now);
    spn__init(&siblings_removed, 0);
    spn__init(&laters_removed, 0);
    sim_assert(spn_timer_schedule(timer, &later.timeout, plain_run, FAR) == SPN_OK);
    sim_assert(spn_timer_schedule(timer, &job.timeout, do_deed, TICK) == SPN_OK);
    sim_assert(spn_timer_schedule(timer, &sibling.timeout, plain_run, TICK) == SPN_OK);
    sim_thread(cancel_sibling, NULL);
    sim_join_all();
    left = deed == CANCEL_LATER ? 0 : 1;
    while (spn__load(&job.runs, relaxed) < (deed == ARM_SELF ? 2 : 1) ||
           spn_timer_pending(timer) > left)
        sim_sleep(TICK);
    sim_settle();
    gone = spn__load(&siblings_removed, relaxed);
    sim_assert(gone <= 1);
    sim_assert(spn__load(&sibling.runs, relaxed) == 1 - gone);
    sim_assert(spn__load(&job.runs, relaxed) == (deed == ARM_SELF ? 2 : 1));
    sim_assert(spn__load(&added_now.runs, relaxed) == (deed == ADD_NOW));
    left = stop();
    late = spn__load(&later.runs, relaxed);
    gone = spn__load(&laters_removed, relaxed);
    sim_assert(late == 0 || sim_now() >= FAR);
    sim_assert(left + late + gone == 1);
    sim_assert(gone == 0 || deed == CANCEL_LATER);
    sim_assert(left == 0 || deed != CANCEL_LATER);
    destroy();
}

static SPN__ATOMIC(int) inside;

static int be_slow(spn_timeout *t)
{
    (void)t;
    spn__store(&inside, 1, relaxed);
    sim_sleep(TICK);
    return 0;
}

static void cancel_and_wait(void *arg)
{
    int rc;

    (void)arg;
    while (spn__load(&inside, relaxed) == 0)
        sim_sleep(TICK / 4);
    rc = spn_timer_cancel_sync(timer, &job.timeout, SPN_FOREVER);
    sim_assert(rc == SPN_TIMEOUT_RUNNING || rc == SPN_TIMEOUT_GONE);
}

/* Whether somebody waits for the run, and whether it is over. */
static bool is_awaited(bool *over)
{
    struct spn__shard *s = &timer->shards[0];
    bool awaited;

    spn__quick_lock(&s->lock);
    awaited = s->waiting != 0;
    *over = spn__list_empty(&s->running);
    spn__quick_unlock(&s->lock);
    return awaited;
}

/* The timer is destroyed as soon as that is not refused, while somebody who waited for a
 * callback is on the way out: it has left by then. */
SCENARIO(timer__destroyed_beside_the_end_of_a_wait__not_touched_after, "HWT-34")
{
    bool over = false;

    spn__init(&inside, 0);
    if (!create(1, NULL, SPN_TIMER_THREAD))
        return;
    sim_assert(spn_timer_schedule(timer, &job.timeout, be_slow, 0) == SPN_OK);
    sim_thread(cancel_and_wait, NULL);
    while (spn__load(&inside, relaxed) == 0)
        sim_sleep(TICK / 4);
    while (!is_awaited(&over) && !over)
        sim_sleep(TICK / 8);
    if (over) /* it may not have called yet: then destroy would come too early */
        sim_join_all();
    sim_assert(spn_timer_stop(timer, NULL, NULL) == SPN_OK);
    while (spn_timer_destroy(timer) == SPN_EBUSY)
        sim_sleep(TICK / 4);
    sim_join_all();
    sim_assert(spn_semaphore_destroy(done) == SPN_OK);
}

/* ---- executors ------------------------------------------------------------------ */

static spn_manual_executor *manual;

static void work(void *arg)
{
    (void)arg;
    while (spn_semaphore_available(done) < 2) {
        if (spn_manual_executor_run(manual, 1) == 0)
            sim_sleep(TICK);
    }
}

/* Two threads of an executor run what is due: each once, whoever hands over. */
SCENARIO(timer__executor__each_runs_once, "HWT-26", "HWT-28")
{
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    sim_assert(create(1, spn_manual_executor_executor(manual), SPN_TIMER_THREAD));
    sim_assert(schedule(&job, NEAR_) == SPN_OK);
    sim_assert(schedule(&other, NEAR_) == SPN_OK);
    sim_thread(work, NULL);
    work(NULL);
    sim_join_all();
    sim_assert(spn__load(&job.runs, relaxed) == 1);
    sim_assert(spn__load(&other.runs, relaxed) == 1);
    sim_assert(stop() == 0);
    destroy();
    sim_assert(spn_manual_executor_run(manual, INT64_MAX) >= 0); /* late runners */
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(timer__executor__each_runs_once, .max_steps = 200000)

/* The only runner ends, or is in the last shard, while something becomes due: nobody is
 * handed over for it, so it is the runner that sees to it. */
static void run_with_one_runner(uint32_t shards)
{
    parallel = 1;
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    sim_assert(create(shards, spn_manual_executor_executor(manual), SPN_TIMER_THREAD));
    parallel = 2;
    sim_assert(schedule(&job, NEAR_) == SPN_OK);
    sim_thread(schedule_other, NULL);
    work(NULL);
    sim_join_all();
    sim_assert(spn__load(&job.runs, relaxed) == 1);
    sim_assert(spn__load(&other.runs, relaxed) == 1);
    sim_assert(stop() == 0);
    destroy();
    sim_assert(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}

SCENARIO(timer__due_while_the_only_runner_ends__runs, "HWT-26")
{
    run_with_one_runner(1);
}
SCENARIO_OPTS(timer__due_while_the_only_runner_ends__runs, .max_steps = 200000)

SCENARIO(timer__due_in_a_shard_the_runner_has_left__runs, "HWT-26")
{
    run_with_one_runner(2);
}
SCENARIO_OPTS(timer__due_in_a_shard_the_runner_has_left__runs, .max_steps = 200000)

static void drop_runner(void *arg)
{
    (void)arg;
    sim_assert(spn_manual_executor_drop_all(manual, SPN_ECANCELED, NULL) == SPN_OK);
}

/* The only runner is dropped, and not back yet when the timer asks again: what is due is
 * not forgotten. */
SCENARIO(timer__asked_again_before_the_runner_is_back__runs, "HWT-28")
{
    parallel = 1;
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    sim_assert(create(1, spn_manual_executor_executor(manual), SPN_TIMER_DRIVEN));
    parallel = 2;
    sim_assert(schedule(&job, 0) == SPN_OK);
    sim_assert(spn_timer_run(timer) == 1);
    sim_thread(drop_runner, NULL);
    while (spn__load(&job.runs, relaxed) == 0) {
        const int64_t next = spn_timer_next_expiry(timer);

        if (next == SPN_FOREVER) {
            sim_settle(); /* it is for the runner to ask */
            sim_assert(spn_timer_next_expiry(timer) != SPN_FOREVER);
            continue;
        }
        if (next > sim_now())
            sim_sleep(next - sim_now());
        sim_assert(spn_timer_run(timer) >= 0);
        (void)spn_manual_executor_run(manual, 1);
    }
    sim_join_all();
    sim_assert(stop() == 0);
    destroy();
    sim_assert(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(timer__asked_again_before_the_runner_is_back__runs, .max_steps = 200000)

static int hang(spn_timeout *t)
{
    (void)t;
    sim_assert(spn_semaphore_acquire(done, 1, SPN_FOREVER) == SPN_OK);
    return 0;
}

static void run_what_comes(void *arg)
{
    (void)arg;
    while (spn__load(&other.payload, relaxed) < 2) {
        if (spn_manual_executor_run(manual, 1) == 0)
            sim_sleep(TICK);
    }
}

/* A callback hangs until the other, which is due in the same tick, has run: the other
 * does not wait behind it. */
SCENARIO(timer__callback_hangs_in_executor__others_run, "HWT-27", "P31")
{
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    sim_assert(create(1, spn_manual_executor_executor(manual), SPN_TIMER_THREAD));
    sim_assert(spn_timer_schedule(timer, &job.timeout, hang, NEAR_) == SPN_OK);
    sim_assert(schedule(&other, NEAR_) == SPN_OK);
    sim_thread(run_what_comes, NULL);
    sim_thread(run_what_comes, NULL);
    while (spn__load(&other.runs, relaxed) == 0 || spn_semaphore_available(done) != 0)
        sim_sleep(TICK);
    spn__store(&other.payload, 2, relaxed);
    sim_join_all();
    sim_assert(stop() == 0);
    destroy();
    sim_assert(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(timer__callback_hangs_in_executor__others_run, .max_steps = 200000,
              .no_faults = "its threads need records to run a task")

static void run_until_hung(void *arg)
{
    (void)arg;
    while (spn_manual_executor_run(manual, 1) == 0)
        sim_sleep(TICK);
}

static void interrupt(void *thread)
{
    sim_assert(spn_thread_interrupt(thread) == SPN_OK);
}

/* Stop with a deadline, while a callback that hangs in an executor is let go, and perhaps
 * an interrupt comes: it waited for the callback and has all that is left, or it did not,
 * has nothing, and the timer stays until it is stopped again.  Nothing begins meanwhile. */
SCENARIO(timer__stop_until_races_callback__whole_or_to_be_repeated, "HWT-10", "HWT-12",
         "HWT-14")
{
    const bool interrupted = sim_choose(2) == 1;
    spn_timeout *left = &other.timeout;
    int64_t deadline_ns;
    int rc;

    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    sim_assert(create(1, spn_manual_executor_executor(manual), SPN_TIMER_THREAD));
    sim_assert(spn_timer_schedule(timer, &job.timeout, hang, TICK) == SPN_OK);
    sim_assert(schedule(&other, FAR) == SPN_OK);
    sim_thread(run_until_hung, NULL);
    while (spn_timeout_state(&job.timeout) == SPN_TIMEOUT_PENDING)
        sim_sleep(TICK);
    deadline_ns = sim_now() + NEAR_;
    if (interrupted)
        sim_thread(interrupt, spn_thread_current());
    if (sim_choose(2) == 1)
        sim_assert(spn_semaphore_release(done, 1) == SPN_OK);
    rc = spn__timer_stop_until(timer, &left, deadline_ns);
    if (rc == SPN_OK) {
        sim_assert(spn_timeout_pop(&left) == &other.timeout && left == NULL);
        sim_assert(spn_semaphore_available(done) == 0); /* taken by the callback */
    } else {
        sim_assert(rc == SPN_ETIMEDOUT || (interrupted && rc == SPN_EINTR));
        sim_assert(rc != SPN_ETIMEDOUT || sim_now() >= deadline_ns);
        sim_assert(left == NULL);
        sim_assert(spn_timer_destroy(timer) == SPN_EBUSY);
        sim_assert(schedule(&other, TICK) == SPN_ESTATE); /* closed already */
        expect_even(1);
        if (spn_semaphore_available(done) == 0)
            sim_assert(spn_semaphore_release(done, 1) == SPN_OK);
        sim_assert(stop() == 1);
    }
    expect_even(0);
    sim_join_all();
    while (spn_semaphore_available(done) > 0) /* one too many, see above */
        sim_assert(spn_semaphore_acquire(done, 1, 0) == SPN_OK);
    (void)spn_thread_interrupted();
    destroy();
    sim_assert(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(timer__stop_until_races_callback__whole_or_to_be_repeated,
              .max_steps = 200000,
              .no_faults = "its thread needs a record to run a task")

/* ---- driven by hand --------------------------------------------------------------- */

/* Another thread adds while the driver makes a pass and asks when to come back: it is
 * run in time, told by next_expiry or by the descriptor. */
SCENARIO(timer__driven_while_others_add__told_when, "HWT-44")
{
    const bool by_fd = sim_choose(2) == 1;

    if (!create(1, NULL, by_fd ? SPN_TIMER_FD : SPN_TIMER_DRIVEN))
        return;
    sim_thread(schedule_other, NULL);
    while (spn__load(&other.runs, relaxed) == 0) {
        const int64_t next = by_fd ? sim_alarm_deadline(spn_timer_fd(timer))
                                   : spn_timer_next_expiry(timer);

        if (next == SPN_FOREVER) { /* then it must be the adder's turn */
            sim_settle();
            sim_assert(spn_timer_next_expiry(timer) != SPN_FOREVER);
            continue;
        }
        if (next > sim_now())
            sim_sleep(next - sim_now());
        sim_assert(spn_timer_run(timer) >= 0);
    }
    sim_join_all();
    sim_assert(sim_now() < FAR);
    sim_assert(stop() == 0);
    sim_assert(spn_timer_run(timer) == SPN_ESTATE);
    destroy();
}

static SPN__ATOMIC(int) over; /* stop has returned */

static void not_when_over(void *ctx)
{
    (void)ctx;
    sim_assert(spn__fetch_add(&over, 0, relaxed) == 0); /* not an old one */
}

static int every_time(spn_timeout *t)
{
    (void)t;
    return 0;
}

/* Ends the runner that main handed over: by running it, or not. */
static void end_runner(void *dropped)
{
    if (dropped != NULL)
        sim_assert(spn_manual_executor_drop_all(manual, SPN_ECANCELED, NULL) == SPN_OK);
    else
        (void)spn_manual_executor_run(manual, 1);
}

/* What the executor's thread tells the loop, it has told when stop returns: the loop may
 * take its hook down then. */
SCENARIO(timer__stop_while_a_runner_tells__wake_is_not_called_after, "HWT-10")
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_period period = SPN_PERIOD_INIT;
    const bool dropped = sim_choose(2) == 1;

    spn__init(&over, 0);
    prepare(&job);
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    opts.tick_ns = TICK;
    opts.slots = 4;
    opts.shards = 1;
    opts.executor = spn_manual_executor_executor(manual);
    opts.drive = SPN_TIMER_DRIVEN;
    opts.wake = not_when_over;
    period.period_ns = NEAR_;
    sim_assert(spn_timer_create(&timer, &opts) == SPN_OK);
    sim_assert(spn_timer_schedule_periodic(timer, &job.timeout, every_time, 0,
                                           &period) == SPN_OK);
    sim_assert(spn_timer_run(timer) == 1);
    sim_thread(end_runner, dropped ? &job : NULL);
    sim_assert(stop() == 1);
    spn__store(&over, 1, relaxed);
    sim_join_all();
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
    sim_assert(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}

static SPN__ATOMIC(int) drives;

static void drive_once(void *arg)
{
    (void)arg;
    if (spn_timer_run(timer) >= 0)
        spn__fetch_add(&drives, 1, relaxed);
}

/* Two threads drive, one at a time: the second goes on from what the first has done. */
SCENARIO(timer__two_drivers__one_at_a_time, "HWT-26")
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;

    spn__init(&drives, 0);
    if (!create(1, NULL, SPN_TIMER_DRIVEN))
        return;
    sim_assert(schedule(&job, 0) == SPN_OK);
    sim_thread(drive_once, NULL);
    drive_once(NULL);
    sim_join_all();
    sim_assert(spn_timer_get_stats(timer, &s) == SPN_OK);
    sim_assert((int)s.passes == spn__load(&drives, relaxed));
    sim_assert(spn__load(&job.runs, relaxed) == 1);
    sim_assert(stop() == 0);
    destroy();
}

/* ---- a manual clock ------------------------------------------------------------------ */

static spn_clock *by_hand;

static int on_hand(spn_timeout *t)
{
    sim_assert(spn_clock_now(by_hand) >= 2 * TICK);
    spn__store(&((struct job *)(void *)t)->runs, 1, relaxed);
    sim_assert(spn_semaphore_release(done, 1) == SPN_OK);
    return 0;
}

/* The clock is moved while the timer falls asleep: it looks again. */
SCENARIO(timer__manual_clock_moves_any_time__noticed, "HWT-17", "HWT-18")
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    prepare(&job);
    sim_assert(spn_semaphore_create(&done, NULL) == SPN_OK);
    sim_assert(spn_clock_create_manual(&by_hand, 0) == SPN_OK);
    opts.tick_ns = TICK;
    opts.slots = 4;
    opts.shards = 1;
    opts.clock = by_hand;
    sim_assert(spn_timer_create(&timer, &opts) == SPN_OK);
    sim_assert(spn_clock_advance(by_hand, 1) == SPN_OK); /* before it is started */
    sim_assert(spn_timer_schedule(timer, &job.timeout, on_hand, NEAR_ - 1) == SPN_OK);
    sim_assert(spn_clock_advance(by_hand, TICK) == SPN_OK);
    sim_assert(spn_clock_advance(by_hand, TICK - 1) == SPN_OK);
    await_run();
    sim_assert(spn__load(&job.runs, relaxed) == 1);
    sim_assert(stop() == 0);
    destroy();
    sim_assert(spn_clock_destroy(by_hand) == SPN_OK);
}

/* ---- places ---------------------------------------------------------------------------- */

static SPN__ATOMIC(int) ticked;

static int tick(spn_timeout *t)
{
    (void)t;
    (void)spn__fetch_add(&ticked, 1, release); /* to the next */
    return 0;
}

static spn_timer_opts limited_to(int64_t max_pending)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = TICK;
    opts.slots = 4;
    opts.shards = 1;
    opts.max_pending = max_pending;
    return opts;
}

/* A periodic timeout was armed again and its run is about to end when it is cancelled and
 * scheduled anew: the place it gets is its own, and none is to be had beside it. */
SCENARIO(timer__scheduled_anew_as_its_run_ends__has_one_place, "HWT-38")
{
    const spn_timer_opts opts = limited_to(1);
    spn_period period = SPN_PERIOD_INIT;

    prepare(&job);
    prepare(&other);
    spn__init(&ticked, 0);
    period.period_ns = NEAR_;
    if (spn_timer_create(&timer, &opts) != SPN_OK)
        return;
    sim_assert(spn_timer_schedule_periodic(timer, &job.timeout, tick, 0, &period) ==
               SPN_OK);
    while (spn__load(&ticked, acquire) == 0) /* from the callback */
        sim_sleep(TICK / 8);
    if (spn_timer_cancel(timer, &job.timeout) == SPN_TIMEOUT_REMOVED) {
        const int before = spn__load(&ticked, acquire);

        sim_assert(spn_timer_schedule(timer, &job.timeout, tick, FAR) == SPN_OK);
        /* Or an hour has passed meanwhile, and its run has given the place back. */
        sim_assert(spn_timer_schedule(timer, &other.timeout, tick, FAR) ==
                       SPN_EREJECTED ||
                   spn__load(&ticked, acquire) > before);
    }
    (void)stop();
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
}

enum { MANY = 3, PLACES = 2 };
static spn_timeout many[MANY];
static SPN__ATOMIC(int) budget; /* of callbacks that do something */

static int do_anything(spn_timeout *t);

/* Whatever the program may ask for; refused or not. */
static void ask_anything(spn_timeout *t)
{
    const int64_t delay_ns = sim_choose(2) == 1 ? 0 : NEAR_;
    spn_period period = SPN_PERIOD_INIT;

    period.period_ns = NEAR_;
    switch (sim_choose(8)) {
    case 0:
        (void)!spn_timer_again(timer, t);
        break;
    case 1:
        (void)spn_timer_cancel(timer, t);
        break;
    case 2:
        (void)!spn_timer_schedule(timer, t, do_anything, delay_ns);
        break;
    case 3:
        (void)!spn_timer_schedule_periodic(timer, t, do_anything, delay_ns, &period);
        break;
    case 4:
        (void)!spn_timer_set_period(timer, t, delay_ns);
        break;
    case 5:
        (void)!spn_timer_cancel_sync(timer, t, 0);
        break;
    case 6:
        sim_sleep(TICK);
        break;
    default:
        break;
    }
    sim_assert(spn_timer_pending(timer) <= PLACES);
}

static int do_anything(spn_timeout *t)
{
    if (spn__fetch_sub(&budget, 1, relaxed) <= 0) {
        (void)spn_timer_cancel(timer, t);
        return 0;
    }
    ask_anything(&many[sim_choose(MANY)]);
    ask_anything(t);
    return 0;
}

static void ask_some(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++)
        ask_anything(&many[sim_choose(MANY)]);
}

/* With a limit, two threads and the callbacks do anything: there are never more than the
 * limit says, and in the end all places are free. */
SCENARIO(timer__anything_with_a_limit__places_come_out_even, "HWT-38", "HWT-39", "P18")
{
    spn_timer_opts opts = limited_to(PLACES);
    spn_pool_opts pool_opts = SPN_POOL_OPTS_INIT;
    const bool stopped_late = sim_choose(2) == 1;
    spn_pool *pool = NULL;

    for (int i = 0; i < MANY; i++) {
        memset(&many[i], 0, sizeof many[i]);
        spn__init(spn__state_of(&many[i]), 0);
    }
    spn__init(&budget, 8);
    opts.parallel = 2;
    if (sim_choose(2) == 1) {
        pool_opts.core_threads = pool_opts.max_threads = 2;
        sim_assert(spn_pool_create(&pool, &pool_opts) == SPN_OK);
        opts.executor = spn_pool_executor(pool);
    }
    sim_assert(spn_timer_create(&timer, &opts) == SPN_OK);
    sim_thread(ask_some, NULL);
    ask_some(NULL);
    if (stopped_late)
        sim_join_all();
    sim_assert(spn_timer_stop(timer, NULL, NULL) == SPN_OK);
    sim_join_all();
    sim_assert(spn_timer_pending(timer) == 0);
    sim_assert(spn__load(&timer->taken, relaxed) == 0);
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
    if (pool != NULL) {
        sim_assert(spn_pool_close(pool) == SPN_OK);
        sim_assert(spn_pool_destroy(pool) == SPN_OK);
    }
}
SCENARIO_OPTS(timer__anything_with_a_limit__places_come_out_even, .max_steps = 60000,
              .no_faults = "drawn from much, and the rest asserts that all succeeds")
