/* SPDX-License-Identifier: MIT */
/*
 * scenario_reckon.c - a timer that reckons by a CPU counter which cannot be trusted: it
 * drifts, changes its rate, stands still, goes back, leaps ahead.  Nothing is early by the
 * clock, nothing is lost, and the clock is used instead where the counter was wrong.
 *
 * One thread plays an event loop that comes as soon as the timer asks for it, so that what
 * is filed too early runs too early.  Virtual time goes on only while it sleeps; the counter
 * is a function of that time, which changes at times that the explorer chooses.
 *
 * SC only: it is one thread from beginning to end, and what a thread has written itself it
 * reads in every model.
 */
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "sync/seam.h"
#include "wheel/timer.h"

#define JOBS  12
#define STEPS 60
#define RATE  UINT64_C(3072) /* cycles in 1024 ns: 3 GHz */

/* ---- the counter ------------------------------------------------------------------ */

static int64_t since_ns;
static uint64_t value, rate;

static uint64_t counter(void)
{
    return value + (((uint64_t)(sim_now() - since_ns) * rate) >> 10);
}

static void change(uint64_t to, int64_t leap)
{
    value = counter() + (uint64_t)leap;
    since_ns = sim_now();
    rate = to;
}

/* ---- the timer -------------------------------------------------------------------- */

static spn_timer *timer;
static struct job {
    spn_timeout timeout;
    int64_t due_ns; /* by the clock */
} jobs[JOBS];
static int armed, ran;

static struct spn__reckoning *reckoning(void)
{
    return &timer->shards[0].reckoning;
}

static int on_time(spn_timeout *t)
{
    const struct job *j = (const struct job *)(const void *)t;

    sim_assert(sim_now() >= j->due_ns); /* never early */
    ran++;
    return 0;
}

static void begin(void)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    value = 1000;
    since_ns = sim_now();
    rate = RATE;
    sim_set_counter(counter);
    opts.tick_ns = SPN_TIMER_TICK_MIN;
    opts.slots = 64;
    opts.shards = 1;
    opts.drive = SPN_TIMER_DRIVEN;
    opts.fast_clock = 1;
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < JOBS; i++)
        spn__init(spn__state_of(&jobs[i].timeout), 0);
    armed = ran = 0;
    sim_assert(spn_timer_create(&timer, &opts) == SPN_OK);
}

/* Lets time pass, and runs what is due as soon as it seems to be. */
static void pass_time(int64_t ns)
{
    const int64_t until = sim_now() + ns;

    for (;;) {
        const int64_t next = spn_timer_next_expiry(timer);

        if (next > until)
            break;
        if (next > sim_now())
            sim_sleep(next - sim_now());
        sim_assert(spn_timer_run(timer) >= 0);
    }
    if (until > sim_now())
        sim_sleep(until - sim_now());
}

static void schedule_one(int number)
{
    static const int64_t delays[] = { 1, SPN_US(5), SPN_US(90), SPN_MS(1), SPN_MS(9) };
    struct job *j = &jobs[number % JOBS];
    const int64_t delay_ns = delays[sim_choose(5)];

    armed += spn_timeout_state(&j->timeout) != SPN_TIMEOUT_PENDING;
    j->due_ns = sim_now() + delay_ns;
    sim_assert(spn_timer_schedule(timer, &j->timeout, on_time, delay_ns) == SPN_OK);
}

static void step(int number)
{
    static const int64_t pauses[] = { SPN_US(2), SPN_US(60), SPN_US(400), SPN_MS(2) };

    pass_time(pauses[sim_choose(4)]);
    schedule_one(number);
}

/* Until there is a rate, as on a machine with a good counter. */
static void warm_up(void)
{
    int steps = 0;

    while (reckoning()->scale == 0) {
        sim_assert(steps < 100);
        pass_time(SPN_US(600));
        schedule_one(steps++);
    }
}

static void end(void)
{
    spn_timeout *left;

    pass_time(SPN_SEC(10));
    sim_assert(ran == armed);
    sim_assert(spn__timer_check(timer) == SPN_OK);
    sim_assert(spn_timer_stop(timer, &left, NULL) == SPN_OK && left == NULL);
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
}

/* ---- what counters do --------------------------------------------------------------- */

/* A good one is used: between looks that are a millisecond apart nothing but it is asked. */
SCENARIO(reckon__steady__counter_is_used, "HWT-17")
{
    begin();
    warm_up();
    for (int i = 0; i < STEPS; i++)
        step(i);
    sim_assert(reckoning()->scale != 0);
    end();
}
SCENARIO_OPTS(reckon__steady__counter_is_used, .models = SIM_SC, .schedules = 200)

/* A few per mille slower or faster with each step. */
SCENARIO(reckon__drifts__never_early, "HWT-17", "P22")
{
    const bool slower = sim_choose(2) == 1;

    begin();
    warm_up();
    for (int i = 0; i < STEPS; i++) {
        change(slower ? rate - rate / 200 : rate + rate / 200, 0);
        step(i);
    }
    end();
}
SCENARIO_OPTS(reckon__drifts__never_early, .models = SIM_SC, .schedules = 500)

/* All at once, at any time, and to a rate at which it stays. */
SCENARIO(reckon__changes_suddenly__never_early_and_measured_anew, "HWT-17")
{
    static const uint64_t rates[] = { RATE / 2, RATE / 30, RATE - RATE / 100, 2 * RATE,
                                      8 * RATE };
    const int when = (int)sim_choose(STEPS / 2);

    begin();
    for (int i = 0; i < STEPS; i++) {
        if (i == when)
            change(rates[sim_choose(5)], 0);
        step(i);
    }
    warm_up(); /* it is steady again, and used again */
    end();
}
SCENARIO_OPTS(reckon__changes_suddenly__never_early_and_measured_anew, .models = SIM_SC,
              .schedules = 1000)

/* For good: the clock is read for everything that follows. */
SCENARIO(reckon__stands_still__never_early_and_clock_read, "HWT-17")
{
    const int when = (int)sim_choose(STEPS / 2);

    begin();
    for (int i = 0; i < STEPS; i++) {
        if (i == when)
            change(0, 0);
        step(i);
    }
    pass_time(SPN_MS(20));
    schedule_one(0);
    sim_assert(reckoning()->scale == 0);
    end();
}
SCENARIO_OPTS(reckon__stands_still__never_early_and_clock_read, .models = SIM_SC,
              .schedules = 1000)

/* To before the last look or after it, and ahead; then it goes on as it was. */
SCENARIO(reckon__leaps__never_early, "HWT-17", "P22")
{
    static const int64_t leaps[] = { -1, -2000, -150000, -3000000,  -3000000000,
                                     30, 30000, 3000000, 3000000000 };
    const int when = (int)sim_choose(STEPS / 2);

    begin();
    if (sim_choose(2) == 1)
        warm_up();
    for (int i = 0; i < STEPS; i++) {
        if (i == when)
            change(RATE, leaps[sim_choose(9)]);
        step(i);
    }
    end();
}
SCENARIO_OPTS(reckon__leaps__never_early, .models = SIM_SC, .schedules = 1000)

/* A little slower whenever it has been measured anew: it is given up. */
SCENARIO(reckon__wrong_again_and_again__given_up, "HWT-17")
{
    begin();
    for (int changes = 0; changes < 8; changes++) {
        warm_up();
        change(rate - rate / 50, 0);
        pass_time(SPN_MS(2));
        step(changes);
        sim_assert((int)reckoning()->wrong == changes + 1);
    }
    for (int i = 0; i < STEPS; i++) {
        step(i);
        sim_assert(reckoning()->scale == 0);
    }
    end();
}
SCENARIO_OPTS(reckon__wrong_again_and_again__given_up, .models = SIM_SC,
              .schedules = 200)
