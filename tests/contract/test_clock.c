/* SPDX-License-Identifier: MIT */
/* test_clock.c - the clock that never goes back, and the one that never moves
 * by itself. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>

#include <spindle/clock.h>

/* ---- monotonic ----------------------------------------------------------------- */

static _Atomic(int64_t) latest;

static void watch_time(int index, void *arg)
{
    const int rounds = *(int *)arg;

    (void)index;
    for (int i = 0; i < rounds; i++) {
        const int64_t seen = atomic_load(&latest);
        const int64_t now =
            i % 2 == 0 ? spn_now() : spn_clock_now(spn_clock_monotonic());

        if (!CHECK(now >= seen)) /* what another thread saw before is not later */
            return;
        atomic_store(&latest, now);
    }
}

/* Time never goes back, within a thread or from one to another. */
TEST(clock__monotonic__never_goes_back, "G-5")
{
    int rounds = t_rounds(100000);

    CHECK(spn_now() >= 0);
    t_parallel(T_THREADS, watch_time, &rounds);
}

/* The monotonic clock is one object, always there, which cannot be driven. */
TEST(clock__monotonic_driven_by_hand__refused, "G-3", "G-17")
{
    spn_clock *clock = spn_clock_monotonic();
    int64_t now = 42;

    REQUIRE(clock != NULL);
    CHECK(spn_clock_monotonic() == clock);
    CHECK_STATUS(spn_clock_advance(clock, 1), SPN_EINVAL);
    CHECK_STATUS(spn_clock_advance_to_next(clock, &now), SPN_EINVAL);
    CHECK_EQ(now, 42);
    CHECK_STATUS(spn_clock_await_sleepers(clock, 0, 0), SPN_EINVAL);
    CHECK_STATUS(spn_clock_destroy(clock), SPN_EINVAL);
    CHECK(spn_clock_now(clock) > 0);
}

/* A sleep on it ends at or after its deadline, never before. */
TEST(clock__monotonic_sleep__never_early, "G-7", "P22")
{
    spn_clock *clock = spn_clock_monotonic();

    for (int64_t length = 1; length < SPN_MS(20); length *= 7) {
        const int64_t deadline = spn_now() + length;

        CHECK_OK(spn_clock_sleep_until(clock, deadline));
        CHECK(spn_now() >= deadline);
    }
    CHECK_OK(spn_clock_sleep_until(clock, 0));
    CHECK_OK(spn_clock_sleep_until(clock, -1));
    CHECK_OK(spn_clock_sleep_until(clock, INT64_MIN));
    CHECK_OK(spn_clock_sleep_until(clock, spn_now()));
}

/* ---- manual ---------------------------------------------------------------------- */

static spn_clock *manual(int64_t start_ns)
{
    spn_clock *clock;

    REQUIRE_OK(spn_clock_create_manual(&clock, start_ns));
    return clock;
}

struct sleep {
    spn_clock *clock;
    int64_t deadline_ns;
};

static int run_sleep(void *arg)
{
    const struct sleep *s = arg;
    return spn_clock_sleep_until(s->clock, s->deadline_ns);
}

/* A start that is no time is refused. */
TEST(clock__manual_start__checked, "G-3")
{
    static const int64_t bad[] = { -1, INT64_MIN, SPN_FOREVER };
    static const int64_t good[] = { 0, 1, SPN_FOREVER - 1 };
    spn_clock *clock;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        clock = spn_clock_monotonic();
        CHECK_STATUS(spn_clock_create_manual(&clock, bad[i]), SPN_EINVAL);
        CHECK(clock == NULL);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        clock = manual(good[i]);
        CHECK_EQ(spn_clock_now(clock), good[i]);
        CHECK_OK(spn_clock_destroy(clock));
    }
    CHECK_OK(spn_clock_destroy(NULL));
}

/* A manual clock stands still, and so does who sleeps on it. */
TEST(clock__manual__nothing_moves_by_itself, "G-5")
{
    struct sleep s = { manual(100), 101 };
    struct peer p;

    peer_start(&p, run_sleep, &s);
    CHECK_OK(spn_clock_await_sleepers(s.clock, 1, SPN_FOREVER));
    CHECK(peer_still_waits(&p));
    CHECK_EQ(spn_clock_now(s.clock), 100);
    CHECK_OK(spn_clock_advance(s.clock, 0));
    CHECK_EQ(atomic_load(&p.done), 0);
    CHECK_OK(spn_clock_advance(s.clock, 1));
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(spn_clock_now(s.clock), 101);
    CHECK_OK(spn_clock_destroy(s.clock));
}

/* A deadline the clock has reached does not sleep. */
TEST(clock__manual_deadline_passed__returns_at_once, "G-6")
{
    static const int64_t passed[] = { 100, 99, 0, -1, INT64_MIN };
    spn_clock *clock = manual(100);

    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
        CHECK_OK(spn_clock_sleep_until(clock, passed[i]));
    CHECK_EQ(spn_clock_now(clock), 100);
    CHECK_OK(spn_clock_destroy(clock));
}

/* Stepping to the next deadline wakes exactly those it is for, earliest first,
 * whatever the order in which they went to sleep. */
TEST(clock__advance_to_next__earliest_first, "G-5", "G-20")
{
    static const int64_t deadlines[] = { 50, 20, 90, 20, 70, 10 };
    static const int64_t steps[] = { 10, 20, 50, 70, 90 };
    enum { SLEEPERS = (int)(sizeof deadlines / sizeof deadlines[0]) };
    spn_clock *clock = manual(5);
    struct sleep s[SLEEPERS];
    struct peer p[SLEEPERS];

    for (int i = 0; i < SLEEPERS; i++) {
        s[i] = (struct sleep){ clock, deadlines[i] };
        peer_start(&p[i], run_sleep, &s[i]);
        CHECK_OK(spn_clock_await_sleepers(clock, i + 1, SPN_FOREVER));
    }
    for (size_t n = 0; n < sizeof steps / sizeof steps[0]; n++) {
        int64_t now = -1;

        CHECK_OK(spn_clock_advance_to_next(clock, n % 2 == 0 ? &now : NULL));
        CHECK_EQ(n % 2 == 0 ? now : steps[n], steps[n]);
        CHECK_EQ(spn_clock_now(clock), steps[n]);
        for (int i = 0; i < SLEEPERS; i++) {
            if (deadlines[i] == steps[n])
                CHECK_OK(peer_finish(&p[i]));
            if (deadlines[i] > steps[n])
                CHECK_EQ(atomic_load(&p[i].done), 0);
        }
    }
    CHECK_STATUS(spn_clock_advance_to_next(clock, NULL), SPN_EEMPTY);
    CHECK_OK(spn_clock_destroy(clock));
}

/* One long advance wakes all whose time has come and nobody else. */
TEST(clock__advance__wakes_those_whose_time_has_come, "G-20")
{
    enum { SLEEPERS = 6 };
    spn_clock *clock = manual(0);
    struct sleep s[SLEEPERS];
    struct peer p[SLEEPERS];

    for (int i = 0; i < SLEEPERS; i++) {
        s[i] = (struct sleep){ clock, (i + 1) * 100 };
        peer_start(&p[i], run_sleep, &s[i]);
    }
    CHECK_OK(spn_clock_await_sleepers(clock, SLEEPERS, SPN_FOREVER));
    CHECK_OK(spn_clock_advance(clock, 399));
    for (int i = 0; i < 3; i++)
        CHECK_OK(peer_finish(&p[i]));
    CHECK(peer_still_waits(&p[3]));
    CHECK_EQ(atomic_load(&p[4].done) + atomic_load(&p[5].done), 0);
    CHECK_STATUS(spn_clock_await_sleepers(clock, 4, 0), SPN_ETIMEDOUT);
    CHECK_OK(spn_clock_await_sleepers(clock, 3, 0));
    CHECK_OK(spn_clock_advance(clock, 1));
    CHECK_OK(peer_finish(&p[3]));
    CHECK_OK(spn_clock_advance(clock, 10000));
    CHECK_OK(peer_finish(&p[4]));
    CHECK_OK(peer_finish(&p[5]));
    CHECK_OK(spn_clock_destroy(clock));
}

/* A clock that would pass the end of time stays where it is. */
TEST(clock__advance_too_far__erange_and_stays, "G-3", "G-8")
{
    struct sleep s = { manual(10), INT64_MAX - 1 };
    struct peer p;

    peer_start(&p, run_sleep, &s);
    CHECK_OK(spn_clock_await_sleepers(s.clock, 1, SPN_FOREVER));
    CHECK_STATUS(spn_clock_advance(s.clock, INT64_MAX), SPN_ERANGE);
    CHECK_STATUS(spn_clock_advance(s.clock, INT64_MAX - 10), SPN_ERANGE);
    CHECK_EQ(spn_clock_now(s.clock), 10);
    CHECK_EQ(atomic_load(&p.done), 0);
    CHECK_STATUS(spn_clock_advance(s.clock, -1), SPN_EINVAL);
    CHECK_STATUS(spn_clock_advance(s.clock, INT64_MIN), SPN_EINVAL);
    CHECK_EQ(spn_clock_now(s.clock), 10);
    CHECK_OK(spn_clock_advance(s.clock, INT64_MAX - 11));
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(spn_clock_now(s.clock), INT64_MAX - 1);
    CHECK_OK(spn_clock_advance(s.clock, 0));
    CHECK_STATUS(spn_clock_advance(s.clock, 1), SPN_ERANGE);
    CHECK_OK(spn_clock_destroy(s.clock));
}

/* Who sleeps for ever has no deadline: there is no next one to go to. */
TEST(clock__sleeper_without_a_deadline__no_next, "G-8")
{
    struct sleep s = { manual(10), SPN_FOREVER };
    int64_t now = 77;
    struct peer p;

    peer_start(&p, run_sleep, &s);
    CHECK_OK(spn_clock_await_sleepers(s.clock, 1, SPN_FOREVER));
    CHECK_STATUS(spn_clock_advance_to_next(s.clock, &now), SPN_EEMPTY);
    CHECK_EQ(now, 77);
    CHECK_OK(spn_clock_advance(s.clock, INT64_MAX - 11));
    CHECK(peer_still_waits(&p));
    CHECK_OK(spn_thread_interrupt(p.thread));
    CHECK_STATUS(peer_finish(&p), SPN_EINTR);
    CHECK_OK(spn_clock_destroy(s.clock));
}

static int await_two(void *clock)
{
    return spn_clock_await_sleepers(clock, 2, SPN_FOREVER);
}

/* await_sleepers counts those who sleep now: not those who have left, and not
 * those who wait for sleepers. */
TEST(clock__await_sleepers__counts_who_sleeps_now, "G-20")
{
    struct sleep s = { manual(0), 100 };
    struct peer watcher[2], sleeper[3];

    CHECK_OK(spn_clock_await_sleepers(s.clock, 0, 0));
    CHECK_OK(spn_clock_await_sleepers(s.clock, 0, SPN_FOREVER));
    CHECK_STATUS(spn_clock_await_sleepers(s.clock, 1, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_clock_await_sleepers(s.clock, -1, 0), SPN_EINVAL);
    CHECK_STATUS(spn_clock_await_sleepers(s.clock, INT32_MAX, SPN_MS(1)),
                 SPN_ETIMEDOUT);
    peer_start(&watcher[0], await_two, s.clock);
    peer_start(&watcher[1], await_two, s.clock);
    peer_await_blocked(&watcher[0]);
    peer_await_blocked(&watcher[1]);
    peer_start(&sleeper[0], run_sleep, &s);
    CHECK_OK(spn_clock_await_sleepers(s.clock, 1, SPN_FOREVER));
    CHECK_EQ(atomic_load(&watcher[0].done), 0);
    CHECK_OK(spn_thread_interrupt(sleeper[0].thread));
    CHECK_STATUS(peer_finish(&sleeper[0]), SPN_EINTR);
    CHECK_STATUS(spn_clock_await_sleepers(s.clock, 1, 0), SPN_ETIMEDOUT);
    peer_start(&sleeper[1], run_sleep, &s);
    CHECK_OK(spn_clock_await_sleepers(s.clock, 1, SPN_FOREVER));
    CHECK(peer_still_waits(&watcher[1]));
    peer_start_foreign(&sleeper[2], run_sleep, &s);
    CHECK_OK(peer_finish(&watcher[0]));
    CHECK_OK(peer_finish(&watcher[1]));
    CHECK_OK(spn_clock_advance(s.clock, 100));
    CHECK_OK(peer_finish(&sleeper[1]));
    CHECK_OK(peer_finish(&sleeper[2]));
    CHECK_OK(spn_clock_destroy(s.clock));
}

/* A clock somebody sleeps on or watches cannot be destroyed. */
TEST(clock__destroyed_in_use__busy_and_unchanged, "G-17")
{
    struct sleep s = { manual(3), 100 };
    struct peer p;

    peer_start(&p, run_sleep, &s);
    CHECK_OK(spn_clock_await_sleepers(s.clock, 1, SPN_FOREVER));
    CHECK_STATUS(spn_clock_destroy(s.clock), SPN_EBUSY);
    CHECK_EQ(spn_clock_now(s.clock), 3);
    CHECK_EQ(atomic_load(&p.done), 0);
    CHECK_OK(spn_clock_advance(s.clock, 97));
    CHECK_OK(peer_finish(&p));

    peer_start(&p, await_two, s.clock);
    peer_await_blocked(&p);
    CHECK_STATUS(spn_clock_destroy(s.clock), SPN_EBUSY);
    CHECK_OK(spn_thread_interrupt(p.thread));
    CHECK_STATUS(peer_finish(&p), SPN_EINTR);
    CHECK_OK(spn_clock_destroy(s.clock));
}

/* ---- what manual clocks are for ---------------------------------------------------- */

/* A program's timer loop: something every day, and something else on a period
 * that does not divide it. */
struct calendar {
    spn_clock *clock;
    int64_t period_ns;
    int64_t until_ns;
    int64_t ticks;
    int64_t late;
};

static int keep_calendar(void *arg)
{
    struct calendar *c = arg;

    for (int64_t next = c->period_ns; next <= c->until_ns; next += c->period_ns) {
        if (spn_clock_sleep_until(c->clock, next) != SPN_OK)
            return 1;
        c->ticks++;
        c->late += spn_clock_now(c->clock) - next;
    }
    return 0;
}

/* Ten years of such loops pass in a moment: each tick at its time exactly. */
TEST(clock__years_of_virtual_time__each_tick_on_time, "G-5", "G-7")
{
    const int64_t day = SPN_SEC(86400), years = day * 3650;
    spn_clock *clock = manual(0);
    struct calendar daily = { .clock = clock, .period_ns = day, .until_ns = years };
    struct calendar odd = { .clock = clock,
                            .period_ns = SPN_SEC(100003),
                            .until_ns = years };
    int64_t now = 0, steps = 0;
    struct peer p[2];

    peer_start(&p[0], keep_calendar, &daily);
    peer_start(&p[1], keep_calendar, &odd);
    while (now < years) {
        /* Whoever has not reached its end sleeps, and who has looked at the clock
         * for the last time is gone; only then the clock moves. */
        const bool odd_goes_on = now < years / odd.period_ns * odd.period_ns;

        if (!odd_goes_on)
            T_AWAIT(atomic_load(&p[1].done) != 0);
        CHECK_OK(spn_clock_await_sleepers(clock, odd_goes_on ? 2 : 1, SPN_FOREVER));
        if (spn_clock_advance_to_next(clock, &now) != SPN_OK)
            break;
        steps++;
    }
    CHECK_OK(peer_finish(&p[0]));
    CHECK_OK(peer_finish(&p[1]));
    CHECK_EQ(daily.ticks, years / day);
    CHECK_EQ(odd.ticks, years / odd.period_ns);
    CHECK_EQ(daily.late + odd.late, 0);
    /* The periods do not meet within ten years. */
    CHECK_EQ(steps, daily.ticks + odd.ticks);
    CHECK_OK(spn_clock_destroy(clock));
}

/* A sleeper may come just as the clock moves; it then finds its time has come
 * or is woken, and never sleeps through it. */
struct chase {
    spn_clock *clock;
    int rounds;
};

static int chase_the_clock(void *arg)
{
    struct chase *c = arg;

    for (int i = 1; i <= c->rounds; i++) {
        if (spn_clock_sleep_until(c->clock, i) != SPN_OK || spn_clock_now(c->clock) < i)
            return 1;
    }
    return 0;
}

TEST(clock__advance_meets_a_new_sleeper__not_missed, "G-20")
{
    struct chase c = { manual(0), t_rounds(20000) };
    struct peer p[2];

    peer_start(&p[0], chase_the_clock, &c);
    peer_start(&p[1], chase_the_clock, &c);
    for (int i = 0; i < c.rounds; i++)
        CHECK_OK(spn_clock_advance(c.clock, 1));
    CHECK_OK(peer_finish(&p[0]));
    CHECK_OK(peer_finish(&p[1]));
    CHECK_OK(spn_clock_destroy(c.clock));
}

/* Several threads may drive one clock: no step is lost. */
static void advance_many(int index, void *arg)
{
    struct chase *c = arg;

    (void)index;
    for (int i = 0; i < c->rounds; i++)
        CHECK_OK(spn_clock_advance(c->clock, 3));
}

TEST(clock__advanced_by_several_threads__no_step_lost, "G-19")
{
    struct chase c = { manual(0), t_rounds(20000) };

    t_parallel(T_THREADS, advance_many, &c);
    CHECK_EQ(spn_clock_now(c.clock), 3L * T_THREADS * c.rounds);
    CHECK_OK(spn_clock_destroy(c.clock));
}

/* Clocks leave no memory behind. */
TEST(clock__created_and_destroyed__nothing_left, "G-22")
{
    const long before = atomic_load(&counting_live);

    for (int i = 0; i < 100; i++)
        CHECK_OK(spn_clock_destroy(manual(i)));
    CHECK_EQ(atomic_load(&counting_live), before);
}
