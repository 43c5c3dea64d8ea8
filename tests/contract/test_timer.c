/* SPDX-License-Identifier: MIT */
/*
 * test_timer.c - the timer service on a manual clock.  Most tests drive the timer by
 * hand, so that what happens when is exact; those that need the timer's own thread say
 * so and wait for conditions, never for time.
 */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#include <spindle.h>

#include "wheel/timer.h"

#define TICK SPN_MS(10)

static spn_clock *clock_;
static spn_timer *timer;

enum { JOBS = 64 };
struct job {
    spn_timeout timeout;
    atomic_int runs;
    int status;      /* what the callback returns */
    int64_t last_ns; /* when it ran */
    int place;       /* how manieth it was */
    int (*then)(struct job *job);
    struct job *target;
};
static struct job jobs[JOBS];
static atomic_int places;

static struct job *job_of(spn_timeout *t)
{
    return (struct job *)(void *)t;
}

static int note(spn_timeout *t)
{
    struct job *j = job_of(t);

    CHECK_EQ(spn_timeout_state(t), SPN_TIMEOUT_EXPIRED);
    j->last_ns = spn_clock_now(clock_);
    j->place = atomic_fetch_add(&places, 1);
    atomic_fetch_add(&j->runs, 1);
    return j->then != NULL ? j->then(j) : j->status;
}

static spn_timer_opts defaults(void)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = TICK;
    opts.slots = 8;
    opts.drive = SPN_TIMER_DRIVEN;
    return opts;
}

/* On a clock that shows 1 s; a tick boundary. */
static void open_with(spn_timer_opts opts)
{
    memset(jobs, 0, sizeof jobs);
    atomic_store(&places, 0);
    REQUIRE_OK(spn_clock_create_manual(&clock_, SPN_SEC(1)));
    opts.clock = clock_;
    REQUIRE_OK(spn_timer_create(&timer, &opts));
}

static void open_driven(void)
{
    open_with(defaults());
}

static void open_thread(void)
{
    spn_timer_opts opts = defaults();

    opts.drive = SPN_TIMER_THREAD;
    open_with(opts);
}

static void expect_even(void)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;

    CHECK_OK(spn_timer_get_stats(timer, &s));
    CHECK_EQ(s.armed, s.fired + s.cancelled + s.replaced + s.returned + s.pending);
    CHECK_EQ(s.pending, spn_timer_pending(timer));
    CHECK_OK(spn__timer_check(timer));
}

/* Stops and destroys; returns how many were left. */
static int shut(void)
{
    spn_timeout *left;
    int count = 0;

    REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
    for (spn_timeout *t; (t = spn_timeout_pop(&left)) != NULL; count++)
        CHECK_EQ(spn_timeout_state(t), SPN_TIMEOUT_CANCELLED);
    CHECK_STATUS(spn_timer_start(timer), SPN_ESTATE);
    CHECK_EQ(spn_timer_pending(timer), 0);
    expect_even();
    CHECK_OK(spn_timer_destroy(timer));
    CHECK_OK(spn_clock_destroy(clock_));
    return count;
}

static void schedule(int i, int64_t delay_ns)
{
    CHECK_OK(spn_timer_schedule(timer, &jobs[i].timeout, note, delay_ns));
}

/* Moves the clock and runs what is due; returns how many ran. */
static int step(int64_t by_ns)
{
    CHECK_OK(spn_clock_advance(clock_, by_ns));
    return spn_timer_run(timer);
}

static spn_timer_stats stats_now(void)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;

    CHECK_OK(spn_timer_get_stats(timer, &s));
    return s;
}

static int runs(int i)
{
    return atomic_load(&jobs[i].runs);
}

/* ---- options ---------------------------------------------------------------------- */

/* The defaults: ticks of 100 ms, and no limit. */
TEST(timer__defaults__tick_of_100_ms_no_limit, "HWT-1", "HWT-5")
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.drive = SPN_TIMER_DRIVEN;
    for (opts.max_pending = -1; opts.max_pending <= 0; opts.max_pending++) {
        open_with(opts);
        schedule(0, SPN_MS(1));
        CHECK_EQ(spn_timer_next_expiry(timer), SPN_SEC(1) + SPN_MS(100));
        for (int i = 1; i < JOBS; i++)
            schedule(i, SPN_SEC(100));
        CHECK_EQ(spn_timer_pending(timer), JOBS);
        CHECK_EQ(step(SPN_MS(100) - 1), 0);
        CHECK_EQ(step(1), 1);
        CHECK_EQ(shut(), JOBS - 1);
    }
}

TEST(timer__bad_options__refused, "HWT-2", "HWT-4")
{
    spn_timer_opts opts = defaults();

    opts.tick_ns = SPN_TIMER_TICK_MIN - 1;
    CHECK_STATUS(spn_timer_create(&timer, &opts), SPN_EINVAL);
    opts.tick_ns = -1;
    CHECK_STATUS(spn_timer_create(&timer, &opts), SPN_EINVAL);
    opts.tick_ns = INT64_MAX / 8;
    CHECK_STATUS(spn_timer_create(&timer, &opts), SPN_EINVAL);
    opts.tick_ns = TICK;
    opts.slots = SPN_WHEEL_SLOTS_MAX + 1;
    CHECK_STATUS(spn_timer_create(&timer, &opts), SPN_EINVAL);
    CHECK(timer == NULL);
    opts = defaults();
    opts.tick_ns = SPN_TIMER_TICK_MIN; /* a microsecond works */
    open_with(opts);
    schedule(0, 1);
    CHECK_EQ(step(999), 0);
    CHECK_EQ(step(1), 1);
    CHECK_EQ(shut(), 0);
}

static atomic_int warnings;

static void count_warning(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    (void)message;
    if (level == SPN_LOG_WARN)
        atomic_fetch_add(&warnings, 1);
}

static void many_timers(void *arg)
{
    static spn_timer *many[100];
    spn_timer_opts opts = defaults();

    (void)arg;
    opts.shards = 1;
    CHECK_OK(spn_log_set_hook(count_warning, NULL));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 100; i++) {
            REQUIRE_OK(spn_timer_create(&many[i], &opts));
            CHECK_EQ(atomic_load(&warnings), i >= 64 || round == 1);
        }
        for (int i = 0; i < 100; i++)
            CHECK_OK(spn_timer_destroy(many[i]));
    }
    CHECK_EQ(atomic_load(&warnings), 1);
}

/* A hundred timers at a time work, and are mentioned once. */
TEST(timer__more_than_64__one_warning, "HWT-6")
{
    CHECK_CHILD(many_timers, NULL);
}

static spn_timer *forget(const char *name, uint32_t unreported)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    const spn_thread_opts thread = { .size = sizeof thread, .name = name };
    spn_timer *one;

    opts.thread = &thread;
    opts.unreported = unreported;
    REQUIRE_OK(spn_timer_create(&one, &opts));
    REQUIRE_OK(spn_timer_start(one));
    return one;
}

/* Reachable: the leak is what the test is about. */
static spn_timer *forgotten[3], *stopped_late;

static void forget_one(void *arg)
{
    forgotten[0] = forget("forgotten", (uint32_t)(intptr_t)arg);
    exit(0);
}

static void forget_three(void *arg)
{
    (void)arg;
    forgotten[0] = forget("first", 0);
    forgotten[1] = forget("second", 0);
    forgotten[2] = forget("third", 1);
    exit(0);
}

static void stop_timer(void *arg)
{
    (void)arg;
    forgotten[0] = forget("stopped", 0);
    REQUIRE_OK(spn_timer_stop(forgotten[0], NULL, NULL));
    exit(0);
}

/* As programs and libraries that end what they have in a destructor. */
__attribute__((destructor)) static void stop_late(void)
{
    if (stopped_late != NULL)
        CHECK_OK(spn_timer_stop(stopped_late, NULL, NULL));
}

static void stop_timer_late(void *arg)
{
    (void)arg;
    stopped_late = forget("late", 0);
    exit(0);
}

static void stop_in_hook(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    CHECK_OK(spn_timer_stop(forgotten[0], NULL, NULL));
    CHECK_OK(spn_timer_destroy(forgotten[0]));
    forgotten[0] = NULL;
    fprintf(stderr, "hook: %s\n", message);
}

static void forget_with_hook(void *arg)
{
    (void)arg;
    REQUIRE_OK(spn_log_set_hook(stop_in_hook, NULL));
    forgotten[0] = forget("hooked", 0);
    exit(0);
}

static void only_exit(void *arg)
{
    (void)arg;
    exit(0);
}

/* At exit one line names what was started and never stopped, unless its option says not
 * to.  The log's hook may use timers then. */
TEST(timer__forgotten__told_in_one_line_in_every_build, "HWT-47")
{
    static char output[4096];
    const char *said;

    CHECK_EQ(t_child(forget_one, NULL, output, sizeof output), 0);
    said = strstr(output, "timer forgotten was started and never stopped");
    CHECK(said != NULL && strstr(said + 20, "forgotten") == NULL);
    CHECK_EQ(t_child(forget_one, (void *)1, output, sizeof output), 0);
    CHECK(strstr(output, "forgotten") == NULL);
    CHECK_EQ(t_child(forget_three, NULL, output, sizeof output), 0);
    said = strstr(output, "timer second and 1 more were started and never stopped");
    CHECK(said != NULL && strstr(said + 20, "timer") == NULL);
    CHECK_EQ(t_child(forget_with_hook, NULL, output, sizeof output), 0);
    CHECK(strstr(output, "hook: timer hooked was started") != NULL);
}

/* Neither form of stop is too late, and a child of a fork is not told of its parent's. */
TEST(timer__stopped_or_a_parents__not_told_of_at_exit, "HWT-47")
{
    static char output[4096];

    CHECK_EQ(t_child(stop_timer, NULL, output, sizeof output), 0);
    CHECK(strstr(output, "never stopped") == NULL);
    CHECK_EQ(t_child(stop_timer_late, NULL, output, sizeof output), 0);
    CHECK(strstr(output, "never stopped") == NULL);
    open_driven();
    REQUIRE_OK(spn_timer_start(timer));
    CHECK_EQ(t_child(only_exit, NULL, output, sizeof output), 0);
    CHECK(strstr(output, "never stopped") == NULL);
    CHECK_EQ(t_child(forget_one, NULL, output, sizeof output), 0);
    CHECK(strstr(output, "timer forgotten was started") != NULL); /* its own */
    CHECK_EQ(shut(), 0);
}

/* ---- start and stop ------------------------------------------------------------------ */

static char thread_name[32];

static int note_name(spn_timeout *t)
{
    (void)spn_thread_name(spn_thread_current(), thread_name, sizeof thread_name);
    return note(t);
}

/* The thread comes with the first schedule, or with start, and only once; it has the
 * name and hooks it was given. */
TEST(timer__first_use__starts_the_thread, "HWT-7")
{
    const spn_thread_opts thread = { .size = sizeof thread, .name = "pulse" };
    spn_timer_opts opts = defaults();
    int before;

    opts.drive = SPN_TIMER_THREAD;
    opts.thread = &thread;
    open_thread(); /* a sanitizer has a thread of its own from the first one on */
    CHECK_OK(spn_timer_start(timer));
    CHECK_EQ(shut(), 0);
    t_let_threads_go();
    before = t_threads();
    open_with(opts);
    CHECK_EQ(t_threads(), before);
    CHECK_OK(spn_timer_schedule(timer, &jobs[0].timeout, note_name, 0));
    CHECK_EQ(t_threads(), before + 1);
    CHECK_OK(spn_timer_start(timer));
    CHECK_OK(spn_timer_start(timer));
    CHECK_EQ(t_threads(), before + 1);
    T_AWAIT(runs(0) == 1);
    CHECK_STR(thread_name, "pulse");
    CHECK_EQ(shut(), 0);
    CHECK_EQ(t_threads(), before);
}

struct workshop {
    spn_thread_factory factory; /* first */
    int refusal, made;
};

static int make_thread(const spn_thread_factory *factory, spn_thread **out,
                       spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    struct workshop *w = (struct workshop *)(uintptr_t)factory;

    if (w->refusal != SPN_OK)
        return w->refusal;
    CHECK_STR(opts->name, "pulse");
    opts->name = "made";
    w->made++;
    return spn_thread_create(out, opts, fn, arg);
}

/* A factory makes the thread, and may change what it is like; what it refuses with is no
 * thread, nothing is kept, and the next schedule asks again. */
TEST(timer__factory__makes_the_thread, "HWT-2", "HWT-7")
{
    const spn_thread_opts thread = { .size = sizeof thread, .name = "pulse" };
    struct workshop w = { .factory = { sizeof w.factory, make_thread } };
    spn_timer_opts opts = defaults();

    opts.drive = SPN_TIMER_THREAD;
    opts.thread = &thread;
    opts.factory = &w.factory;
    open_with(opts);
    for (w.refusal = -40; w.refusal < 0; w.refusal++) {
        const int expected = w.refusal == SPN_ENOMEM ? SPN_ENOMEM : SPN_EAGAIN;

        CHECK_STATUS(spn_timer_start(timer), expected);
        CHECK_STATUS(spn_timer_schedule(timer, &jobs[0].timeout, note, 0), expected);
    }
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_OK(spn_timer_schedule(timer, &jobs[0].timeout, note_name, 0));
    CHECK_OK(spn_timer_start(timer));
    T_AWAIT(runs(0) == 1);
    CHECK_STR(thread_name, "made");
    CHECK_EQ(w.made, 1);
    CHECK_EQ(shut(), 0);
}

/* After stop nothing is taken, and nothing is counted. */
TEST(timer__used_after_stop__refused, "HWT-8", "HWT-42", "X-6")
{
    spn_period period = SPN_PERIOD_INIT;

    period.period_ns = TICK;
    for (int threaded = 0; threaded < 2; threaded++) {
        if (threaded)
            open_thread();
        else
            open_driven();
        schedule(0, SPN_SEC(9));
        REQUIRE_OK(spn_timer_stop(timer, NULL, NULL));
        CHECK_STATUS(spn_timer_start(timer), SPN_ESTATE);
        CHECK_STATUS(spn_timer_schedule(timer, &jobs[1].timeout, note, 1), SPN_ESTATE);
        CHECK_STATUS(spn_timer_schedule_periodic(timer, &jobs[1].timeout, note, 1,
                                                 &period),
                     SPN_ESTATE);
        CHECK_EQ(spn_timer_pending(timer), 0);
        CHECK(spn_timeout_state(&jobs[1].timeout) != SPN_TIMEOUT_PENDING);
        CHECK_EQ(stats_now().returned, 1);
        CHECK_EQ(shut(), 0);
        CHECK_EQ(runs(0) + runs(1), 0);
    }
}

static int stop_from_callback(struct job *j)
{
    spn_timeout *left = &j->timeout;

    CHECK_STATUS(spn_timer_stop(timer, &left, NULL), SPN_ESTATE);
    CHECK(left == NULL);
    return 0;
}

/* A callback cannot stop its own timer, which goes on. */
TEST(timer__stopped_by_a_callback__refused_and_goes_on, "HWT-9", "P27", "P44")
{
    open_thread();
    jobs[0].then = stop_from_callback;
    schedule(0, 0);
    T_AWAIT(runs(0) == 1);
    schedule(1, 0);
    T_AWAIT(runs(1) == 1);
    CHECK_EQ(shut(), 0);
}

/* stop returns what was neither run nor cancelled, each once, and they read so. */
TEST(timer__stop__returns_exactly_what_is_left, "HWT-10", "HWT-11", "HWT-12")
{
    spn_timeout *left, *t;
    int returned[JOBS] = { 0 };

    open_driven();
    for (int i = 0; i < JOBS; i++)
        schedule(i, (i + 1) * TICK * (i % 7 == 6 ? 1000 : 1));
    for (int i = 0; i < JOBS; i += 3)
        CHECK_EQ(spn_timer_cancel(timer, &jobs[i].timeout), SPN_TIMEOUT_REMOVED);
    CHECK(step(20 * TICK) > 0);
    REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
    while ((t = spn_timeout_pop(&left)) != NULL) {
        returned[job_of(t) - jobs]++;
        CHECK_EQ(spn_timeout_state(t), SPN_TIMEOUT_CANCELLED);
        CHECK_EQ(spn_timer_cancel(timer, t), SPN_TIMEOUT_GONE);
    }
    for (int i = 0; i < JOBS; i++) {
        CHECK_EQ(returned[i] + runs(i), i % 3 != 0);
        CHECK_EQ(returned[i] == 1, i % 3 != 0 && (i >= 20 || i % 7 == 6));
    }
    REQUIRE_OK(
        spn_timer_stop(timer, &left, NULL)); /* nothing is left for a second one */
    CHECK(left == NULL);
    CHECK_STATUS(spn_timer_run(timer), SPN_ESTATE);
    CHECK_EQ(shut(), 0);
}

TEST(timer__never_started__stops_and_is_destroyed, "HWT-12", "P44")
{
    spn_timeout *left;

    open_thread();
    REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
    CHECK(left == NULL);
    CHECK_EQ(shut(), 0);
    open_thread();
    CHECK_OK(spn_timer_destroy(timer)); /* also without */
    CHECK_OK(spn_clock_destroy(clock_));
    open_thread();
    CHECK_OK(spn_timer_start(timer));
    CHECK_STATUS(spn_timer_destroy(timer), SPN_EBUSY);
    CHECK_STATUS(spn_clock_destroy(clock_), SPN_EBUSY);
    CHECK_EQ(shut(), 0);
}

static atomic_int in_callback, callback_rc;

static int sleep_in_callback(struct job *j)
{
    (void)j;
    atomic_store(&in_callback, 1);
    atomic_store(&callback_rc, spn_clock_sleep_until(clock_, SPN_SEC(1000)));
    return 0;
}

/* stop ends the sleep of the callback that runs, and waits for its end. */
TEST(timer__stop_during_a_callback__interrupts_and_waits, "HWT-13")
{
    open_thread();
    atomic_store(&in_callback, 0);
    atomic_store(&callback_rc, 1);
    jobs[0].then = sleep_in_callback;
    schedule(0, 0);
    schedule(1, SPN_SEC(100));
    T_AWAIT(atomic_load(&in_callback) == 1);
    CHECK_EQ(shut(), 1);
    CHECK_STATUS(atomic_load(&callback_rc), SPN_EINTR);
}

static int stop_it(void *arg)
{
    (void)arg;
    return spn_timer_stop(timer, NULL, NULL);
}

static atomic_int release_callback;

static int spin_in_callback(struct job *j)
{
    (void)j;
    atomic_store(&in_callback, 1);
    T_AWAIT(atomic_load(&release_callback) == 1);
    return 0;
}

/* The caller of stop is interrupted: it finishes, and finds its flag set. */
TEST(timer__interrupted_in_stop__finishes_with_the_flag_set, "HWT-14")
{
    struct peer p;

    open_thread();
    atomic_store(&in_callback, 0);
    atomic_store(&release_callback, 0);
    jobs[0].then = spin_in_callback;
    schedule(0, 0);
    T_AWAIT(atomic_load(&in_callback) == 1);
    peer_start(&p, stop_it, NULL);
    peer_await_blocked(&p);
    CHECK_OK(spn_thread_interrupt(p.thread));
    CHECK(peer_still_waits(&p));
    atomic_store(&release_callback, 1);
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(p.flag_after, 1);
    CHECK_EQ(shut(), 0);
}

/* ---- when ------------------------------------------------------------------------------ */

/* Never before its time, and at the first tick boundary after it. */
TEST(timer__delays__run_at_the_first_tick_after, "HWT-17", "HWT-18", "HWT-21", "HWT-25",
     "P21")
{
    for (uint32_t layout = 0; layout < 2; layout++) {
        spn_timer_opts opts = defaults();

        opts.layout = layout;
        open_with(opts);
        for (int i = 0; i < JOBS; i++) /* up to 24 turns away, and between ticks */
            schedule(i, i * 3 * TICK + i);
        for (int64_t now = 0; now <= 3 * JOBS + 1; now++) {
            for (int i = 0; i < JOBS; i++) {
                const int64_t tick = i * 3 + (i != 0);

                CHECK_EQ(runs(i), now > tick);
            }
            if (now == 0)
                CHECK_EQ(spn_timer_run(timer), 1);
            else
                CHECK(step(TICK) >= 0);
        }
        for (int i = 0; i < JOBS; i++)
            CHECK_EQ(jobs[i].last_ns, SPN_SEC(1) + (i * 3 + (i != 0)) * TICK);
        CHECK_EQ(shut(), 0);
    }
}

/* The same on the real clock, with a thread: 125 ms on a tick of 200 ms. */
static atomic_long on_time, early, late;
struct real {
    spn_timeout timeout;
    int64_t due_ns;
};

static int check_real(spn_timeout *t)
{
    struct real *r = (struct real *)(void *)t;
    const int64_t lateness = spn_now() - r->due_ns;

    if (lateness < 0)
        atomic_fetch_add(&early, 1);
    else if (lateness > t_scaled(SPN_MS(525)))
        atomic_fetch_add(&late, 1);
    else
        atomic_fetch_add(&on_time, 1);
    return 0;
}

static void run_real(struct real *all, int count)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timer *real;

    atomic_store(&on_time, 0);
    atomic_store(&late, 0);
    opts.tick_ns = SPN_MS(200);
    REQUIRE_OK(spn_timer_create(&real, &opts));
    for (int i = 0; i < count; i++) {
        all[i].due_ns = spn_now() + SPN_MS(125);
        CHECK_OK(spn_timer_schedule(real, &all[i].timeout, check_real, SPN_MS(125)));
    }
    T_AWAIT(spn_timer_pending(real) == 0);
    REQUIRE_OK(spn_timer_stop(real, NULL, NULL));
    CHECK_OK(spn_timer_destroy(real));
    CHECK_EQ(atomic_load(&early), 0);
    CHECK_EQ(atomic_load(&late) + atomic_load(&on_time), count);
}

/* Late they are, too, when the machine holds the timer's thread up; so it has some tries. */
TEST(timer__100_000_on_the_real_clock__none_early_none_late, "HWT-17", "HWT-18",
     "HWT-24", "HWT-26", "P22")
{
    const int count = t_rounds(100000);
    struct real *all = calloc((size_t)count, sizeof *all);
    int tries = 0;

    REQUIRE(all != NULL);
    do {
        memset(all, 0, (size_t)count * sizeof *all);
        run_real(all, count);
    } while (atomic_load(&late) != 0 && ++tries < 10);
    CHECK_EQ(atomic_load(&late), 0);
    free(all);
}

/* Zero and negative: in the next pass. */
TEST(timer__no_delay__runs_in_the_next_pass, "HWT-19", "P20", "P21")
{
    open_driven();
    schedule(0, 0);
    schedule(1, -1);
    schedule(2, INT64_MIN);
    CHECK(spn_timer_next_expiry(timer) <= spn_clock_now(clock_));
    CHECK_EQ(spn_timer_run(timer), 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(jobs[i].place, i); /* in the order they came */
    CHECK_EQ(shut(), 0);
}

/* For ever does not come; what is beside it does, and it can be cancelled. */
TEST(timer__forever__never_runs, "HWT-20", "X-4", "P20")
{
    spn_period period = SPN_PERIOD_INIT;

    period.period_ns = INT64_MAX;
    open_driven();
    schedule(0, INT64_MAX);
    schedule(1, INT64_MAX - 1);
    schedule(2, SPN_FOREVER);
    schedule(3, TICK);
    CHECK_OK(
        spn_timer_schedule_periodic(timer, &jobs[4].timeout, note, 2 * TICK, &period));
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(step(SPN_SEC(100) * 86400 * 365), 1); /* a century */
    CHECK_EQ(runs(3) + runs(4), 2);
    CHECK_EQ(step(INT64_MAX / 4), 0);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), SPN_FOREVER);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[4].timeout), SPN_FOREVER);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[0].timeout), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(shut(), 3);
    CHECK_EQ(runs(0) + runs(1) + runs(2), 0);
}

static int rearm(struct job *j)
{
    if (runs((int)(j - jobs)) < 5)
        CHECK_OK(spn_timer_schedule(timer, &j->timeout, note, j->status * TICK));
    return 0;
}

/* A callback schedules itself and others; for at once means the next pass. */
TEST(timer__scheduled_in_its_own_callback__runs_again_later, "HWT-22", "X-3", "P21")
{
    open_driven();
    jobs[0].then = jobs[1].then = rearm;
    jobs[1].status = 2;
    schedule(0, 0);
    schedule(1, 0);
    schedule(2, TICK);
    for (int i = 1; i <= 5; i++) {
        CHECK(spn_timer_run(timer) >= 1);
        CHECK_EQ(runs(0), i); /* once a pass */
    }
    CHECK_EQ(spn_timer_run(timer), 0);
    CHECK_EQ(runs(1), 1);
    for (int i = 1; i < 10; i++) {
        CHECK(step(TICK) >= 0);
        CHECK_EQ(runs(1), i / 2 + 1);
    }
    CHECK_EQ(runs(2), 1);
    CHECK_EQ(shut(), 0);
}

/* In one tick: first come, first served; equal times too. */
TEST(timer__one_tick__in_order_of_scheduling, "HWT-23", "X-2")
{
    open_driven();
    for (int i = 0; i < JOBS; i++) /* in no order within the tick */
        schedule(i, 40 * TICK - (i * 7919) % TICK);
    CHECK_EQ(step(39 * TICK), 0);
    CHECK_EQ(step(TICK), JOBS);
    for (int i = 0; i < JOBS; i++)
        CHECK_EQ(jobs[i].place, i);
    for (int i = 0; i < JOBS; i++)
        schedule(i, 3 * TICK);
    CHECK_EQ(step(3 * TICK), JOBS);
    for (int i = 0; i < JOBS; i++)
        CHECK_EQ(jobs[i].place, JOBS + i);
    CHECK_EQ(shut(), 0);
}

/* The process sleeps through many ticks: all that was missed runs, none twice. */
TEST(timer__ticks_missed__nothing_skipped, "HWT-25", "HWT-26", "HWT-29")
{
    open_driven();
    for (int i = 0; i < JOBS; i++)
        schedule(i, i * TICK);
    CHECK_EQ(step(1000 * TICK), JOBS);
    for (int i = 0; i < JOBS; i++) {
        CHECK_EQ(runs(i), 1);
        CHECK_EQ(jobs[i].place, i);
    }
    CHECK_EQ(stats_now().late_max_ns, 1000 * TICK);
    CHECK_EQ(shut(), 0);
}

static int be_slow(struct job *j)
{
    (void)j;
    CHECK_OK(spn_clock_advance(clock_, 50 * TICK));
    return 0;
}

/* A slow callback delays the others; they are neither lost nor early, and the lateness
 * shows. */
TEST(timer__slow_callback__others_late_not_lost, "HWT-29", "P22", "P31")
{
    open_driven();
    jobs[0].then = be_slow;
    for (int i = 0; i < 10; i++)
        schedule(i, TICK);
    schedule(10, 60 * TICK);
    CHECK_EQ(step(TICK), 10);
    CHECK_EQ(runs(10), 0);
    CHECK_EQ(stats_now().late_max_ns, 50 * TICK);
    CHECK(stats_now().late_p50_ns >= 50 * TICK);
    CHECK(stats_now().late_p50_ns <= 50 * TICK * 9 / 8);
    CHECK_EQ(step(8 * TICK), 0);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(shut(), 0);
}

static int do_nothing(spn_timeout *t)
{
    (void)t;
    return 0;
}

/* How many timeouts are how late. */
struct late {
    int count;
    int64_t late_ns;
};

/* All start at one moment; each was due as long before as it says. */
static spn_timer_stats stats_of_late(const struct late *kinds, int count)
{
    static spn_timeout timeouts[1000];
    spn_timer_stats s;
    int used = 0;

    open_driven();
    memset(timeouts, 0, sizeof timeouts);
    for (int i = 0; i < count; i++)
        for (int n = 0; n < kinds[i].count; n++)
            CHECK_OK(spn_timer_schedule(timer, &timeouts[used++], do_nothing,
                                        10 * TICK - kinds[i].late_ns));
    CHECK_EQ(step(10 * TICK), used);
    s = stats_now();
    CHECK_EQ(s.fired, used);
    CHECK_EQ(shut(), 0);
    return s;
}

/* The quantiles are those of the timeout at their rank, which is rounded up: of a thousand
 * the 500th, 990th and 999th, of fewer the last.  These times stand at the end of their
 * eighth, so that they are told exactly. */
TEST(timer__lateness__quantiles_by_rank, "HWT-29", "HWT-18")
{
    const int64_t a = (1 << 10) - 1, b = (1 << 14) - 1, c = (1 << 20) - 1,
                  d = (1 << 26) - 1;
    const struct {
        struct late kinds[4];
        int64_t p50, p99, p999, max;
    } cases[] = {
        { { { 499, a }, { 490, b }, { 10, c }, { 1, d } }, b, c, c, d },
        { { { 500, a }, { 490, b }, { 9, c }, { 1, d } }, a, b, c, d },
        { { { 501, a }, { 488, b }, { 9, c }, { 2, d } }, a, c, d, d },
        { { { 990, a }, { 9, b }, { 1, c } }, a, a, b, c },
        { { { 989, a }, { 9, b }, { 2, c } }, a, b, c, c },
        { { { 1000, d } }, d, d, d, d },
        { { { 50, a }, { 49, b }, { 1, c } }, a, b, c, c }, /* of a hundred */
        { { { 49, a }, { 49, b }, { 2, c } }, b, c, c, c },
        { { { 1, a }, { 1, b } }, a, b, b, b },
        { { { 1, a }, { 1, b }, { 1, c } }, b, c, c, c },
        { { { 1, c } }, c, c, c, c },
        { { { 1, 0 } }, 0, 0, 0, 0 },
        { { { 0, 0 } }, 0, 0, 0, 0 }, /* nothing has run */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const spn_timer_stats s = stats_of_late(cases[i].kinds, 4);

        CHECK_EQ(s.late_p50_ns, cases[i].p50);
        CHECK_EQ(s.late_p99_ns, cases[i].p99);
        CHECK_EQ(s.late_p999_ns, cases[i].p999);
        CHECK_EQ(s.late_max_ns, cases[i].max);
    }
}

/* Any other time is told by the end of its eighth: never less, and an eighth more at most. */
TEST(timer__lateness__rounded_up_to_an_eighth, "HWT-29")
{
    uint64_t seed = t_seed();

    for (int i = 0; i < t_rounds(300); i++) {
        const int64_t ns = (int64_t)(t_random(&seed) % (uint64_t)(10 * TICK));
        const struct late kinds[] = { { 980, 7 }, { 15, ns }, { 5, 10 * TICK } };
        const spn_timer_stats s = stats_of_late(kinds, 3);

        if (ns < 8)
            continue;
        CHECK_EQ(s.late_p50_ns, 7);
        CHECK(s.late_p99_ns >= ns);
        CHECK(s.late_p99_ns <= ns + ns / 8);
        CHECK(s.late_p999_ns >= 10 * TICK);
        CHECK(s.late_p999_ns <= 10 * TICK * 9 / 8);
        CHECK_EQ(s.late_max_ns, 10 * TICK);
    }
}

/* ---- failing ------------------------------------------------------------------------- */

static atomic_int failures, failure_status;

static void count_failure(void *ctx, int status)
{
    CHECK(ctx == &failures);
    atomic_fetch_add(&failures, 1);
    atomic_store(&failure_status, status);
}

/* A callback that fails is reported and counted; the timer and its period go on. */
TEST(timer__callback_fails__reported_and_goes_on, "HWT-27", "P26")
{
    spn_timer_opts opts = defaults();
    spn_period period = SPN_PERIOD_INIT;

    opts.on_failure = count_failure;
    opts.ctx = &failures;
    open_with(opts);
    atomic_store(&failures, 0);
    jobs[0].status = SPN_EFAILED;
    jobs[1].status = 77;
    jobs[2].status = 78;
    schedule(0, TICK);
    schedule(3, TICK);
    CHECK_EQ(step(TICK), 2);
    CHECK_EQ(atomic_load(&failures), 1);
    CHECK_STATUS(atomic_load(&failure_status), SPN_EFAILED);
    period.period_ns = TICK;
    CHECK_OK(spn_timer_schedule_periodic(timer, &jobs[1].timeout, note, TICK, &period));
    period.stop_on_failure = 1;
    CHECK_OK(spn_timer_schedule_periodic(timer, &jobs[2].timeout, note, TICK, &period));
    for (int i = 1; i <= 4; i++) {
        CHECK_EQ(step(TICK), i == 1 ? 2 : 1);
        CHECK_EQ(runs(1), i);
    }
    CHECK_EQ(runs(2), 1); /* it had asked to be stopped */
    CHECK(spn_timeout_state(&jobs[2].timeout) != SPN_TIMEOUT_PENDING);
    CHECK_EQ(atomic_load(&failures), 1 + 4 + 1);
    CHECK_EQ(stats_now().failed, 6);
    CHECK_EQ(shut(), 1);
}

static void fail_without_hook(void *arg)
{
    (void)arg;
    CHECK_OK(spn_log_set_hook(count_warning, NULL));
    atomic_store(&warnings, 0);
    open_driven();
    jobs[0].status = 5;
    schedule(0, 0);
    CHECK_EQ(spn_timer_run(timer), 1);
    CHECK_EQ(atomic_load(&warnings), 1); /* never silent */
    CHECK_EQ(shut(), 0);
}

TEST(timer__callback_fails_without_a_hook__logged, "HWT-27", "P26")
{
    CHECK_CHILD(fail_without_hook, NULL);
}

/* ---- executors ------------------------------------------------------------------------- */

static spn_manual_executor *manual;

static void open_executor(void)
{
    spn_timer_opts opts = defaults();

    REQUIRE_OK(spn_manual_executor_create(&manual));
    opts.executor = spn_manual_executor_executor(manual);
    opts.parallel = 4;
    open_with(opts);
}

/* A task that the executor still has does not keep the timer: it may come later. */
static int shut_executor(void)
{
    spn_timeout *left;
    int count = 0;

    REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
    while (spn_timeout_pop(&left) != NULL)
        count++;
    expect_even();
    CHECK_OK(spn_timer_destroy(timer));
    CHECK(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    CHECK_OK(spn_clock_destroy(clock_));
    CHECK_OK(spn_manual_executor_destroy(manual));
    return count;
}

/* What is due goes to the executor as one task; until it runs it is pending and can be
 * cancelled, and stop returns it. */
TEST(timer__executor__runs_what_is_due, "HWT-28", "HWT-32", "HWT-10")
{
    open_executor();
    for (int i = 0; i < 10; i++)
        schedule(i, TICK);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(spn_manual_executor_pending(manual), 1);
    CHECK_EQ(spn_timer_pending(timer), 10);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[4].timeout), SPN_TIMEOUT_REMOVED);
    CHECK(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(runs(i), i != 4);
    CHECK_EQ(spn_timer_pending(timer), 0);
    schedule(0, TICK);
    schedule(1, TICK);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(shut_executor(), 2);
    CHECK_EQ(runs(0) + runs(1), 2);
}

/* An executor that refuses is asked again, and nothing is lost. */
static void refused_by_executor(void *arg)
{
    (void)arg;
    CHECK_OK(spn_log_set_hook(count_warning, NULL));
    atomic_store(&warnings, 0);
    open_executor();
    CHECK_OK(spn_executor_shutdown(spn_manual_executor_executor(manual)));
    schedule(0, TICK);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(runs(0), 0);
    CHECK_EQ(stats_now().refused, 1);
    CHECK_EQ(atomic_load(&warnings), 1);
    CHECK_EQ(spn_timer_pending(timer), 1);
    CHECK_EQ(spn_timer_next_expiry(timer), spn_clock_now(clock_) + TICK);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(stats_now().refused, 2);
    CHECK_EQ(shut_executor(), 1); /* and comes back at the end */
}

TEST(timer__executor_refuses__asked_again_nothing_lost, "HWT-28", "P30")
{
    CHECK_CHILD(refused_by_executor, NULL);
}

/* The same when the executor drops what it had taken. */
TEST(timer__executor_drops__asked_again, "HWT-28")
{
    open_executor();
    schedule(0, TICK);
    CHECK_EQ(step(TICK), 1);
    CHECK_OK(spn_manual_executor_drop_all(manual, SPN_ECANCELED, NULL));
    CHECK_EQ(runs(0), 0);
    CHECK_EQ(spn_timer_next_expiry(timer), spn_clock_now(clock_) + TICK);
    CHECK_EQ(step(TICK), 1);
    CHECK(spn_manual_executor_run(manual, INT64_MAX) >= 0);
    CHECK_EQ(runs(0), 1);
    CHECK_EQ(shut_executor(), 0);
}

static int run_one(void *arg)
{
    (void)arg;
    return spn_manual_executor_run(manual, 1) == 1 ? SPN_OK : SPN_EEMPTY;
}

/* A callback that hangs keeps its own runner; the others are run by the next. */
TEST(timer__callback_hangs_in_an_executor__others_run, "HWT-27", "HWT-28", "P31")
{
    struct peer p[3];

    open_executor();
    atomic_store(&release_callback, 0);
    jobs[0].then = jobs[1].then = jobs[2].then = spin_in_callback;
    for (int i = 0; i < 10; i++)
        schedule(i, TICK);
    CHECK_EQ(step(TICK), 1);
    for (int i = 0; i < 3; i++) { /* three hang, one after the other */
        T_AWAIT(spn_manual_executor_pending(manual) == 1);
        peer_start(&p[i], run_one, NULL);
        T_AWAIT(runs(i) == 1);
    }
    T_AWAIT(spn_manual_executor_pending(manual) == 1);
    CHECK_OK(run_one(NULL));
    for (int i = 0; i < 10; i++)
        CHECK_EQ(runs(i), 1);
    CHECK_EQ(spn_timer_pending(timer), 0);
    schedule(11, TICK);
    CHECK_EQ(step(TICK), 1);
    CHECK_OK(run_one(NULL));
    CHECK_EQ(runs(11), 1);
    atomic_store(&release_callback, 1);
    for (int i = 0; i < 3; i++)
        CHECK_OK(peer_finish(&p[i]));
    CHECK_EQ(shut_executor(), 0);
}

/* The direct executor runs them in the pass, and not one inside the other. */
TEST(timer__direct_executor__runs_in_the_pass, "HWT-28")
{
    spn_timer_opts opts = defaults();

    opts.executor = spn_executor_direct();
    open_with(opts);
    for (int i = 0; i < JOBS; i++)
        schedule(i, TICK);
    CHECK_EQ(step(TICK), 1);
    for (int i = 0; i < JOBS; i++) {
        CHECK_EQ(runs(i), 1);
        CHECK_EQ(jobs[i].place, i);
    }
    CHECK_EQ(shut(), 0);
}

/* ---- cancelling --------------------------------------------------------------------- */

/* True once and only before the run; the state follows; complete on return. */
TEST(timer__cancel__once_and_complete, "HWT-30", "HWT-31", "HWT-34", "P28")
{
    open_driven();
    for (int i = 0; i < 3; i++) {
        schedule(i, (i + 1) * TICK);
        CHECK_EQ(spn_timeout_state(&jobs[i].timeout), SPN_TIMEOUT_PENDING);
    }
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[0].timeout), SPN_TIMEOUT_GONE);
    CHECK_EQ(spn_timeout_state(&jobs[0].timeout), SPN_TIMEOUT_EXPIRED);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[1].timeout), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_pending(timer), 1);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[1].timeout), SPN_TIMEOUT_GONE);
    CHECK_EQ(spn_timeout_state(&jobs[1].timeout), SPN_TIMEOUT_CANCELLED);
    memset(&jobs[1].timeout, 0xee, sizeof jobs[1].timeout); /* its memory is free */
    expect_even();
    CHECK_EQ(step(10 * TICK), 1);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[3].timeout), SPN_TIMEOUT_GONE);
    CHECK_EQ(spn_timer_cancel_sync(timer, &jobs[2].timeout, 0), SPN_TIMEOUT_GONE);
    CHECK_EQ(shut(), 0);
}

static int cancel_target(struct job *j)
{
    j->status = spn_timer_cancel(timer, &j->target->timeout);
    return 0;
}

static int schedule_target(struct job *j)
{
    j->then = NULL;
    return spn_timer_schedule(timer, &j->target->timeout, note, 0);
}

static int free_self(spn_timeout *t)
{
    atomic_fetch_add(&places, 1);
    free(t);
    return 0;
}

/* A callback cancels: its neighbour of the same tick, a later one, itself, one that has
 * run; and a callback frees its own timeout. */
TEST(timer__callback_cancels__neighbour_later_itself, "HWT-32", "HWT-40", "HWT-22",
     "P27")
{
    spn_timeout *own = calloc(1, sizeof *own);

    REQUIRE(own != NULL);
    open_driven();
    for (int i = 0; i < 6; i++)
        schedule(i, TICK);
    schedule(7, 5 * TICK);
    for (int i = 0; i < 4; i++)
        jobs[i].then = cancel_target;
    jobs[0].target = &jobs[4]; /* the same tick, later */
    jobs[1].target = &jobs[7]; /* a later tick */
    jobs[2].target = &jobs[2]; /* itself */
    jobs[3].target = &jobs[0]; /* has run */
    jobs[5].then = schedule_target;
    jobs[5].target = &jobs[6]; /* adds into the tick that is being run */
    CHECK_OK(spn_timer_schedule(timer, own, free_self, TICK));
    CHECK_EQ(step(TICK), 6);
    CHECK_EQ(jobs[0].status, SPN_TIMEOUT_REMOVED);
    CHECK_EQ(jobs[1].status, SPN_TIMEOUT_REMOVED);
    CHECK_EQ(jobs[2].status, SPN_TIMEOUT_RUNNING);
    CHECK_EQ(jobs[3].status, SPN_TIMEOUT_GONE);
    CHECK_EQ(runs(4) + runs(6) + runs(7), 0);
    CHECK_EQ(spn_timer_pending(timer), 1);
    CHECK_EQ(spn_timer_run(timer), 1);
    CHECK_EQ(runs(6), 1);
    CHECK_EQ(shut(), 0);
}

/* Eleven in a tick, ten cancelled by the first: the count is 0. */
TEST(timer__cancelled_in_their_own_tick__counted_once, "HWT-37", "HWT-40", "P19")
{
    open_driven();
    for (int i = 0; i < 11; i++)
        schedule(i, TICK);
    CHECK_EQ(spn_timer_pending(timer), 11);
    CHECK_OK(spn_clock_advance(clock_, TICK)); /* they are due, and nothing has run */
    for (int i = 0; i < 10; i++)
        CHECK_EQ(spn_timer_cancel(timer, &jobs[i].timeout), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_run(timer), 1);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(shut(), 0);
}

struct sync_call {
    spn_timeout *timeout;
    int64_t timeout_ns;
};

static int cancel_sync(void *arg)
{
    struct sync_call *c = arg;

    return spn_timer_cancel_sync(timer, c->timeout, c->timeout_ns);
}

/* cancel_sync waits for the callback that runs, however it began; timed, and
 * interruptible. */
TEST(timer__cancel_sync__waits_for_the_callback, "HWT-34", "G-9", "G-11", "P28")
{
    struct sync_call call = { &jobs[0].timeout, SPN_FOREVER };
    struct peer waits, gives_up;

    open_thread();
    atomic_store(&in_callback, 0);
    atomic_store(&release_callback, 0);
    jobs[0].then = spin_in_callback;
    schedule(0, 0);
    T_AWAIT(atomic_load(&in_callback) == 1);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[0].timeout), SPN_TIMEOUT_RUNNING);
    CHECK_STATUS(spn_timer_cancel_sync(timer, &jobs[0].timeout, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_timer_cancel_sync(timer, &jobs[0].timeout, SPN_MS(1)),
                 SPN_ETIMEDOUT);
    peer_start(&waits, cancel_sync, &call);
    peer_start(&gives_up, cancel_sync, &call);
    peer_await_blocked(&waits);
    peer_await_blocked(&gives_up);
    CHECK_OK(spn_thread_interrupt(gives_up.thread));
    CHECK_STATUS(peer_finish(&gives_up), SPN_EINTR);
    CHECK(peer_still_waits(&waits));
    atomic_store(&release_callback, 1);
    CHECK_EQ(peer_finish(&waits), SPN_TIMEOUT_RUNNING);
    CHECK_EQ(shut(), 0);
}

static int cancel_self_sync(struct job *j)
{
    CHECK_STATUS(spn_timer_cancel_sync(timer, &j->timeout, SPN_FOREVER), SPN_EDEADLK);
    return 0;
}

TEST(timer__cancel_sync_in_its_own_callback__refused, "HWT-34")
{
    spn_period period = SPN_PERIOD_INIT;

    period.period_ns = TICK;
    open_driven();
    jobs[0].then = cancel_self_sync;
    CHECK_OK(spn_timer_schedule_periodic(timer, &jobs[0].timeout, note, TICK, &period));
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(spn_timeout_state(&jobs[0].timeout),
             SPN_TIMEOUT_PENDING); /* nothing was changed */
    CHECK_EQ(shut(), 1);
}

/* ---- counts and limits -------------------------------------------------------------- */

static int check_pending(struct job *j)
{
    j->status = (int)spn_timer_pending(timer);
    return 0;
}

/* Three scheduled give 3; two cancelled and one run give 0, and the one that runs is
 * out already. */
TEST(timer__pending_count__exact, "HWT-37", "HWT-41", "P19")
{
    open_driven();
    for (int i = 0; i < 3; i++)
        schedule(i, TICK);
    jobs[2].then = check_pending;
    jobs[2].status = -1;
    CHECK_EQ(spn_timer_pending(timer), 3);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[0].timeout), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[1].timeout), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(jobs[2].status, 0);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(shut(), 0);
}

/* NULL is refused and counts nothing. */
TEST(timer__no_function__refused_and_not_counted, "HWT-16", "X-6")
{
    open_driven();
    CHECK_STATUS(spn_timer_schedule(timer, &jobs[0].timeout, NULL, 1), SPN_EINVAL);
    CHECK_STATUS(spn_timer_schedule(timer, NULL, note, 1), SPN_EINVAL);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(shut(), 0);
}

/* With a limit, one too many is refused; room comes back by cancel and by running, and
 * a periodic timeout keeps its place. */
TEST(timer__limit__exact, "HWT-38", "HWT-39", "P18")
{
    spn_timer_opts opts = defaults();
    spn_period period = SPN_PERIOD_INIT;

    opts.max_pending = 3;
    open_with(opts);
    for (int i = 0; i < 3; i++)
        schedule(i, TICK);
    CHECK_STATUS(spn_timer_schedule(timer, &jobs[3].timeout, note, 0), SPN_EREJECTED);
    CHECK_EQ(spn_timer_pending(timer), 3);
    CHECK(spn_timeout_state(&jobs[3].timeout) != SPN_TIMEOUT_PENDING);
    schedule(0, 2 * TICK); /* what is in may move */
    CHECK_EQ(spn_timer_cancel(timer, &jobs[1].timeout), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_pending(timer), 2);
    schedule(3, TICK);
    CHECK_EQ(step(2 * TICK), 3);
    schedule(4, TICK);
    schedule(5, TICK);
    period.period_ns = TICK;
    CHECK_OK(spn_timer_schedule_periodic(timer, &jobs[6].timeout, note, TICK, &period));
    CHECK_STATUS(spn_timer_schedule(timer, &jobs[7].timeout, note, 0), SPN_EREJECTED);
    CHECK_EQ(step(TICK), 3);
    schedule(7, SPN_SEC(1));
    schedule(8, SPN_SEC(1));
    CHECK_STATUS(spn_timer_schedule(timer, &jobs[9].timeout, note, 0), SPN_EREJECTED);
    CHECK_EQ(stats_now().rejected, 3);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[6].timeout), SPN_TIMEOUT_REMOVED);
    schedule(9, SPN_SEC(1));
    CHECK_EQ(shut(), 3);
}

/* ---- periods ---------------------------------------------------------------------------- */

static int schedule_period(int i, int64_t first_ns, int64_t period_ns, uint32_t missed,
                           uint32_t burst_max)
{
    spn_period period = SPN_PERIOD_INIT;

    period.period_ns = period_ns;
    period.missed = missed;
    period.burst_max = burst_max;
    return spn_timer_schedule_periodic(timer, &jobs[i].timeout, note, first_ns,
                                       &period);
}

/* A thousand periods of callbacks that take their time: no drift. */
static int take_time(struct job *j)
{
    static uint64_t seed = 5;

    (void)j;
    CHECK_OK(spn_clock_advance(clock_, (int64_t)(t_random(&seed) % (3 * TICK))));
    return 0;
}

TEST(timer__a_thousand_periods__no_drift, "HWT-25", "P25")
{
    const int64_t start = SPN_SEC(1);
    const int64_t period = 10 * TICK;

    open_driven();
    jobs[0].then = take_time;
    CHECK_OK(schedule_period(0, period, period, SPN_MISSED_SKIP, 0));
    for (int i = 1; i <= 1000; i++) {
        CHECK_OK(spn_clock_advance(clock_, spn_timer_next_expiry(timer) -
                                               spn_clock_now(clock_)));
        while (runs(0) < i) {
            (void)spn_timer_run(timer);
            if (runs(0) < i)
                CHECK_OK(spn_clock_advance(clock_, spn_timer_next_expiry(timer) -
                                                       spn_clock_now(clock_)));
        }
        CHECK_EQ(jobs[0].last_ns, start + i * period); /* exactly in phase */
    }
    CHECK_EQ(stats_now().missed, 0);
    CHECK_EQ(shut(), 1);
}

/* The process stands still for ten and a half periods: skip runs once and keeps the
 * phase; burst makes up for them, or for as many as it may; delay starts anew. */
TEST(timer__periods_missed__by_policy, "HWT-25", "P24")
{
    const int64_t p = 4 * TICK;
    int64_t now;

    open_driven();
    CHECK_OK(schedule_period(0, p, p, SPN_MISSED_SKIP, 0));
    CHECK_OK(schedule_period(1, p, p, SPN_MISSED_BURST, 0));
    CHECK_OK(schedule_period(2, p, p, SPN_MISSED_BURST, 3));
    CHECK_OK(schedule_period(3, p, p, SPN_MISSED_DELAY, 0));
    CHECK_EQ(step(p), 4);
    now = spn_clock_now(clock_);
    CHECK_OK(spn_clock_advance(clock_, 10 * p + p / 2));
    while (spn_timer_run(timer) > 0) {
    }
    CHECK_EQ(runs(0), 1 + 1);
    CHECK_EQ(runs(1), 1 + 10);
    CHECK_EQ(runs(2), 1 + 1 + 3); /* the one that was due, and three more */
    CHECK_EQ(runs(3), 1 + 1);
    CHECK_EQ(stats_now().missed, 9 + 6);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), p / 2);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[1].timeout), p / 2);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[2].timeout), p / 2);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[3].timeout), p);
    CHECK_EQ(step(p / 2), 3); /* in phase with the first time */
    CHECK_EQ(jobs[0].last_ns, now + 11 * p);
    CHECK_EQ(step(p / 2), 1);
    CHECK_EQ(shut(), 4);
}

static int once_more(struct job *j)
{
    if (j->runs == 3)
        CHECK_EQ(spn_timer_cancel(timer, &j->timeout), SPN_TIMEOUT_RUNNING);
    return spn_timer_again(timer, &j->timeout);
}

/* A periodic timeout keeps its place also when its callback restarts it, and gives it back
 * once. */
TEST(timer__limit_and_again_in_the_callback__keeps_its_place, "HWT-38", "X-5")
{
    spn_timer_opts opts = defaults();

    opts.max_pending = 1;
    open_with(opts);
    jobs[0].then = once_more;
    CHECK_OK(schedule_period(0, TICK, TICK, SPN_MISSED_SKIP, 0));
    for (int i = 1; i <= 4; i++) { /* in the third it is cancelled first */
        CHECK_EQ(step(TICK), 1);
        CHECK_EQ(jobs[0].runs, i);
        CHECK_EQ(stats_now().failed, 0);
        CHECK_EQ(spn_timer_pending(timer), 1);
        CHECK_STATUS(spn_timer_schedule(timer, &jobs[1].timeout, note, 0),
                     SPN_EREJECTED);
    }
    CHECK_EQ(spn_timer_cancel(timer, &jobs[0].timeout), SPN_TIMEOUT_REMOVED);
    schedule(1, TICK);
    CHECK_STATUS(spn_timer_schedule(timer, &jobs[2].timeout, note, 0), SPN_EREJECTED);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(shut(), 0);
}

/* again restarts the interval; set_period counts from the next arming on; 0 ends it. */
TEST(timer__again_and_set_period__from_the_next_arming, "X-5")
{
    open_driven();
    CHECK_STATUS(spn_timer_again(timer, &jobs[0].timeout), SPN_EINVAL);
    CHECK_STATUS(spn_timer_set_period(timer, &jobs[0].timeout, 1), SPN_EINVAL);
    schedule(1, 5 * TICK);
    CHECK_OK(spn_timer_again(timer, &jobs[1].timeout)); /* not periodic: nothing */
    CHECK_EQ(spn_timer_remaining(timer, &jobs[1].timeout), 5 * TICK);
    CHECK_OK(schedule_period(0, TICK, 4 * TICK, SPN_MISSED_SKIP, 0));
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(step(3 * TICK), 0);
    CHECK_OK(spn_timer_again(timer, &jobs[0].timeout)); /* the interval starts anew */
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), 4 * TICK);
    CHECK_EQ(step(3 * TICK), 1); /* the other one */
    CHECK_EQ(step(TICK), 1);
    CHECK_OK(spn_timer_set_period(timer, &jobs[0].timeout, 2 * TICK));
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), 4 * TICK);
    CHECK_EQ(step(4 * TICK), 1);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), 2 * TICK);
    CHECK_OK(spn_timer_set_period(timer, &jobs[0].timeout, 0));
    CHECK_EQ(step(2 * TICK), 1);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(step(10 * TICK), 0);
    CHECK_EQ(shut(), 0);
}

static int set_own_period(struct job *j)
{
    j->then = NULL;
    return spn_timer_set_period(timer, &j->timeout, 3 * TICK);
}

TEST(timer__period_set_in_the_callback__counts_for_what_follows, "X-5")
{
    open_driven();
    jobs[0].then = set_own_period;
    CHECK_OK(schedule_period(0, TICK, TICK, SPN_MISSED_SKIP, 0));
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), 3 * TICK);
    CHECK_EQ(step(3 * TICK), 1);
    CHECK_EQ(shut(), 1);
}

static int cancel_own(struct job *j)
{
    CHECK_EQ(spn_timer_cancel(timer, &j->timeout), SPN_TIMEOUT_RUNNING);
    CHECK_EQ(spn_timeout_state(&j->timeout), SPN_TIMEOUT_CANCELLED);
    return 0;
}

/* A periodic timeout cancels itself, or schedules itself as a one-shot. */
TEST(timer__periodic_cancelled_in_its_callback__no_further_run, "HWT-30", "HWT-22")
{
    open_driven();
    jobs[0].then = cancel_own;
    jobs[1].then = rearm;
    jobs[1].status = 2;
    CHECK_OK(schedule_period(0, TICK, TICK, SPN_MISSED_SKIP, 0));
    CHECK_OK(schedule_period(1, TICK, TICK, SPN_MISSED_SKIP, 0));
    CHECK_EQ(step(TICK), 2);
    CHECK_EQ(spn_timer_pending(timer), 1);
    for (int i = 0; i < 20; i++)
        CHECK(step(TICK) >= 0);
    CHECK_EQ(runs(0), 1);
    CHECK_EQ(runs(1), 5);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(shut(), 0);
}

/* ---- moving and asking ------------------------------------------------------------------ */

static int other_note(spn_timeout *t)
{
    job_of(t)->status = 99;
    return 0;
}

/* Scheduled again while pending: the old function and time are forgotten. */
TEST(timer__scheduled_again__replaces, "X-1")
{
    open_driven();
    schedule(0, TICK);
    CHECK_OK(spn_timer_schedule(timer, &jobs[0].timeout, other_note, 3 * TICK));
    CHECK_EQ(spn_timer_pending(timer), 1);
    CHECK_EQ(step(2 * TICK), 0);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(runs(0), 0);
    CHECK_EQ(jobs[0].status, 99);
    jobs[0].status = 0;
    schedule(0, 9 * TICK);
    schedule(0, TICK); /* earlier */
    CHECK_EQ(spn_timer_next_expiry(timer), spn_clock_now(clock_) + TICK);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(step(20 * TICK), 0);
    CHECK_EQ(stats_now().replaced, 2);
    CHECK_EQ(shut(), 0);
}

/* Stop is idempotent here too: what was cancelled never runs. */
TEST(timer__remaining__zero_when_idle, "X-6", "X-7")
{
    open_driven();
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), 0);
    schedule(0, TICK + 5);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), TICK + 5);
    CHECK_EQ(step(TICK), 0);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), 5);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[0].timeout), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_cancel(timer, &jobs[0].timeout), SPN_TIMEOUT_GONE);
    CHECK_EQ(spn_timer_remaining(timer, &jobs[0].timeout), 0);
    CHECK_EQ(step(10 * TICK), 0);
    CHECK_EQ(runs(0), 0);
    CHECK_EQ(shut(), 0);
}

/* A timeout moves to another timer when it is free, not while it is pending. */
TEST(timer__another_timer__only_when_not_pending, "X-1", "P29")
{
    spn_timer_opts opts = defaults();
    spn_timer *second;

    open_driven();
    opts.clock = clock_;
    REQUIRE_OK(spn_timer_create(&second, &opts));
    schedule(0, TICK);
    CHECK_STATUS(spn_timer_schedule(second, &jobs[0].timeout, note, 0), SPN_EBUSY);
    CHECK_STATUS(spn_timer_cancel(second, &jobs[0].timeout), SPN_EINVAL);
    CHECK_EQ(step(TICK), 1);
    CHECK_OK(spn_timer_schedule(second, &jobs[0].timeout, note, TICK));
    CHECK_EQ(spn_timer_cancel(second, &jobs[0].timeout), SPN_TIMEOUT_REMOVED);
    REQUIRE_OK(spn_timer_stop(second, NULL, NULL));
    CHECK_OK(spn_timer_destroy(second));
    schedule(0, TICK); /* also after the other is gone */
    CHECK_EQ(shut(), 1);
}

static spn_timer *second;

/* Its run is to arm it again here, so it cannot be had elsewhere, unless it is cancelled. */
static int move_over(struct job *j)
{
    spn_period period = SPN_PERIOD_INIT;

    period.period_ns = TICK;
    CHECK_EQ(spn_timeout_state(&j->timeout), SPN_TIMEOUT_EXPIRED);
    CHECK_STATUS(spn_timer_schedule_periodic(second, &j->timeout, note, TICK, &period),
                 SPN_EBUSY);
    CHECK_STATUS(spn_timer_schedule(second, &j->timeout, note, TICK), SPN_EBUSY);
    CHECK_STATUS(spn_timer_cancel(second, &j->timeout), SPN_EINVAL);
    if (runs(0) < 2)
        return 0;
    j->then = NULL;
    CHECK_EQ(spn_timer_cancel(timer, &j->timeout), SPN_TIMEOUT_RUNNING);
    return spn_timer_schedule_periodic(second, &j->timeout, note, TICK, &period);
}

static int end_and_cancel(struct job *j)
{
    j->then = NULL;
    CHECK_OK(spn_timer_set_period(timer, &j->timeout, 0));
    CHECK_EQ(spn_timer_cancel(timer, &j->timeout), SPN_TIMEOUT_RUNNING);
    return 0;
}

/* A periodic timeout moves to another timer in its own callback: never is it in both. */
TEST(timer__another_timer_while_it_repeats__cancelled_first, "X-1")
{
    spn_timer_opts opts = defaults();

    open_driven();
    opts.clock = clock_;
    REQUIRE_OK(spn_timer_create(&second, &opts));
    jobs[0].then = move_over;
    CHECK_OK(schedule_period(0, TICK, TICK, SPN_MISSED_SKIP, 0));
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(spn_timer_pending(timer), 1);
    CHECK_EQ(spn_timer_pending(second), 0);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(stats_now().failed, 0);
    CHECK_EQ(spn_timer_pending(timer), 0);
    CHECK_EQ(spn_timer_pending(second), 1);
    CHECK_EQ(step(TICK), 0);
    CHECK_EQ(spn_timer_run(second), 1);
    CHECK_OK(spn__timer_check(second));
    /* One whose repetition was ended, and that was cancelled then, in its callback. */
    jobs[1].then = end_and_cancel;
    CHECK_OK(schedule_period(1, TICK, TICK, SPN_MISSED_SKIP, 0));
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(spn_timeout_state(&jobs[1].timeout), SPN_TIMEOUT_CANCELLED);
    CHECK_OK(spn_timer_schedule(second, &jobs[1].timeout, note, TICK));
    CHECK_EQ(spn_timer_cancel(second, &jobs[1].timeout), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(spn_timer_run(second), 1);
    /* One that has ended by itself is free. */
    CHECK_OK(spn_timer_set_period(second, &jobs[0].timeout, 0));
    CHECK_OK(spn_clock_advance(clock_, TICK));
    CHECK_EQ(spn_timer_run(second), 1);
    CHECK_EQ(spn_timeout_state(&jobs[0].timeout), SPN_TIMEOUT_EXPIRED);
    schedule(0, TICK);
    REQUIRE_OK(spn_timer_stop(second, NULL, NULL));
    CHECK_OK(spn_timer_destroy(second));
    CHECK_EQ(shut(), 1);
}

/* Timers come and go while a timeout stays, so that the memory of one is in the middle of
 * the next: that is not taken for its home. */
TEST(timer__timeout_outlives_timers_in_the_same_memory__is_at_home_nowhere, "X-1")
{
    enum { ROUNDS = 3000, PIECES = 64 };
    void *pieces[PIECES] = { NULL };
    uint64_t seed = t_seed();

    for (int round = 0; round < ROUNDS; round++) {
        spn_timer_opts opts = defaults();

        opts.shards = 1U << t_random(&seed) % 5;
        opts.slots = 64;
        if (round == 0)
            open_with(opts);
        else
            REQUIRE_OK(spn_timer_create(&timer, &opts));
        CHECK_OK(spn_timer_schedule(timer, &jobs[0].timeout, note, 0));
        CHECK_EQ(spn_timer_run(timer), 1);
        CHECK_OK(spn__timer_check(timer));
        REQUIRE_OK(spn_timer_stop(timer, NULL, NULL));
        CHECK_OK(spn_timer_destroy(timer));
        for (int i = 0; i < 4; i++) {
            void **piece = &pieces[t_random(&seed) % PIECES];

            free(*piece);
            *piece = malloc(t_random(&seed) % 60000 + 16);
        }
    }
    for (int i = 0; i < PIECES; i++)
        free(pieces[i]);
    CHECK_OK(spn_clock_destroy(clock_));
}

/* ---- driven ------------------------------------------------------------------------------- */

static int run_inside(struct job *j)
{
    (void)j;
    CHECK_STATUS(spn_timer_run(timer), SPN_EBUSY);
    return 0;
}

static atomic_int wakes;

static void count_wake(void *ctx)
{
    CHECK(ctx == &wakes);
    atomic_fetch_add(&wakes, 1);
}

/* next_expiry leads from one to the next; who adds something earlier tells the loop. */
TEST(timer__driven__told_when_and_woken_for_earlier, "HWT-44")
{
    spn_timer_opts opts = defaults();
    const int64_t start = SPN_SEC(1);

    opts.wake = count_wake;
    opts.ctx = &wakes;
    atomic_store(&wakes, 0);
    open_with(opts);
    CHECK(spn_timer_next_expiry(timer) == SPN_FOREVER);
    schedule(0, 6 * TICK);
    CHECK_EQ(atomic_load(&wakes), 1);
    CHECK_EQ(spn_timer_next_expiry(timer), start + 6 * TICK);
    schedule(1, 7 * TICK);
    CHECK_EQ(atomic_load(&wakes), 1); /* not earlier */
    schedule(2, 3 * TICK);
    CHECK_EQ(atomic_load(&wakes), 2);
    CHECK_EQ(spn_timer_next_expiry(timer), start + 3 * TICK);
    CHECK_EQ(spn_timer_run(timer), 0);
    jobs[2].then = run_inside;
    CHECK_OK(spn_clock_advance(clock_, 3 * TICK));
    CHECK_EQ(atomic_load(&wakes), 3); /* a manual clock that moved */
    CHECK_EQ(spn_timer_run(timer), 1);
    CHECK(spn_timer_next_expiry(timer) <= start + 6 * TICK);
    CHECK(spn_timer_next_expiry(timer) > start + 3 * TICK);
    CHECK_EQ(step(3 * TICK), 1);
    CHECK_EQ(step(TICK), 1);
    CHECK(spn_timer_next_expiry(timer) == SPN_FOREVER);
    CHECK_EQ(shut(), 0);
    open_thread();
    CHECK_STATUS(spn_timer_run(timer), SPN_ESTATE); /* it has a thread for that */
    CHECK_EQ(shut(), 0);
}

/* A loop that still polls the descriptor of a timer that was stopped is not kept busy. */
TEST(timer__descriptor__readable_when_due_and_not_after_stop, "HWT-44", "HWT-10")
{
    spn_timer_opts opts = defaults();
    struct pollfd fd = { .events = POLLIN };
    spn_timeout *left;

    opts.drive = SPN_TIMER_FD;
    open_with(opts);
    fd.fd = spn_timer_fd(timer);
    schedule(0, TICK);
    CHECK_EQ(poll(&fd, 1, 0), 0);
    CHECK_EQ(step(TICK), 1);
    CHECK_EQ(poll(&fd, 1, 0), 0);
    schedule(0, TICK);
    CHECK_OK(spn_clock_advance(clock_, TICK));
    CHECK_EQ(poll(&fd, 1, 0), 1);
    CHECK_OK(spn_timer_stop(timer, &left, NULL));
    CHECK(spn_timeout_pop(&left) == &jobs[0].timeout);
    CHECK_EQ(poll(&fd, 1, 0), 0);
    CHECK_EQ(shut(), 0);
}

/* ---- costs ---------------------------------------------------------------------------------- */

/* Nothing allocates but create and the thread; cancelled timeouts leave nothing. */
TEST(timer__a_million_cancelled__no_memory_no_pending, "HWT-34", "HWT-37", "P17")
{
    long live;

    open_driven();
    schedule(0, SPN_SEC(3600));
    live = atomic_load(&counting_allocs);
    for (int i = 0; i < t_rounds(1000000); i++) {
        schedule(1, SPN_SEC(3600));
        CHECK_EQ(spn_timer_cancel(timer, &jobs[1].timeout), SPN_TIMEOUT_REMOVED);
    }
    CHECK_EQ(spn_timer_pending(timer), 1);
    CHECK_EQ(atomic_load(&counting_allocs), live);
    CHECK_EQ(shut(), 1);
}

/* Idle, and with one timeout an hour away: the thread does not wake up. */
TEST(timer__idle__no_wake_ups, "HWT-7", "P16")
{
    spn_timer_stats before = SPN_TIMER_STATS_INIT, after = SPN_TIMER_STATS_INIT;
    spn_timeout far = SPN_TIMEOUT_INIT;
    spn_timer *real;

    REQUIRE_OK(spn_timer_create(&real, NULL));
    CHECK_OK(spn_timer_schedule(real, &far, other_note, SPN_SEC(3600)));
    CHECK_OK(spn_timer_get_stats(real, &before));
    REQUIRE_OK(spn_clock_sleep_until(spn_clock_monotonic(), spn_now() + T_SMALL_NS));
    CHECK_OK(spn_timer_get_stats(real, &after));
    CHECK(after.passes - before.passes <= 2); /* the start, and falling asleep */
    REQUIRE_OK(spn_timer_stop(real, NULL, NULL));
    CHECK_OK(spn_timer_destroy(real));
}
