/* SPDX-License-Identifier: MIT */
/*
 * test_timer_end.c - callbacks that end the thread they run on (pthread_exit): they have
 * failed, and stop nothing, whoever runs the timer's callbacks.
 */
#include "peer.h"
#include "test.h"

#include <pthread.h>

#include <spindle.h>

#include "wheel/timer.h"

#define TICK SPN_MS(10)

static spn_clock *clock_;
static spn_timer *timer;
static atomic_int failures, wakes, sum;

static void count_failure(void *ctx, int status)
{
    (void)ctx;
    CHECK_STATUS(status, SPN_ECANCELED);
    atomic_fetch_add(&failures, 1);
}

static void count_wake(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&wakes, 1);
}

static spn_timer_opts defaults(uint32_t drive)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;

    opts.tick_ns = TICK;
    opts.slots = 8;
    opts.drive = drive;
    opts.on_failure = count_failure;
    opts.wake = count_wake;
    return opts;
}

static void open_with(spn_timer_opts opts)
{
    atomic_store(&failures, 0);
    atomic_store(&wakes, 0);
    atomic_store(&sum, 0);
    REQUIRE_OK(spn_clock_create_manual(&clock_, SPN_SEC(1)));
    opts.clock = clock_;
    REQUIRE_OK(spn_timer_create(&timer, &opts));
}

static spn_timer_stats stats_now(void)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;

    CHECK_OK(spn_timer_get_stats(timer, &s));
    return s;
}

static int stop(void)
{
    spn_timeout *left;
    spn_timer_stats s;
    int count = 0;

    REQUIRE_OK(spn_timer_stop(timer, &left, NULL));
    while (spn_timeout_pop(&left) != NULL)
        count++;
    s = stats_now();
    CHECK_EQ(s.armed, s.fired + s.cancelled + s.replaced + s.returned);
    CHECK_EQ(s.pending, 0);
    CHECK_OK(spn__timer_check(timer));
    return count;
}

/* Stops and destroys; returns how many were left. */
static int shut(void)
{
    const int count = stop();

    CHECK_OK(spn_timer_destroy(timer));
    CHECK_OK(spn_clock_destroy(clock_));
    return count;
}

static int add_one(spn_timeout *t)
{
    (void)t;
    atomic_fetch_add(&sum, 1);
    return 0;
}

static int add_one_and_end(spn_timeout *t)
{
    (void)add_one(t);
    pthread_exit(NULL);
}

static void schedule(spn_timeout *t, spn_timeout_fn fn, int64_t delay_ns)
{
    CHECK_OK(spn_timer_schedule(timer, t, fn, delay_ns));
}

/* ---- the timer's own thread --------------------------------------------------------- */

/* A callback ends the timer's thread: those beside it and after it run, a periodic one
 * goes on, each such end is a failure that is told, and stop finds the rest. */
TEST(timer__callback_ends_the_timers_thread__nothing_stops, "G-21", "HWT-27")
{
    spn_timeout ending = SPN_TIMEOUT_INIT, beside = SPN_TIMEOUT_INIT,
                again = SPN_TIMEOUT_INIT, far = SPN_TIMEOUT_INIT;
    spn_period period = SPN_PERIOD_INIT;

    open_with(defaults(SPN_TIMER_THREAD));
    schedule(&ending, add_one_and_end, TICK);
    schedule(&beside, add_one, TICK);
    schedule(&far, add_one, 1000 * TICK);
    period.period_ns = TICK;
    CHECK_OK(
        spn_timer_schedule_periodic(timer, &again, add_one_and_end, TICK, &period));
    for (int i = 1; i <= 50; i++) {
        CHECK_OK(spn_clock_advance(clock_, TICK));
        T_AWAIT(atomic_load(&sum) == 2 + i);
        T_AWAIT(spn_timeout_state(&again) ==
                SPN_TIMEOUT_PENDING); /* before the clock moves on */
    }
    CHECK_EQ(spn_timeout_state(&ending), SPN_TIMEOUT_EXPIRED);
    T_AWAIT(atomic_load(&failures) == 51);
    T_AWAIT(stats_now().failed == 51);
    /* What is earlier than all it knows wakes the thread that took over. */
    schedule(&beside, add_one, 0);
    T_AWAIT(atomic_load(&sum) == 53);
    CHECK_EQ(spn_timer_cancel(timer, &again), SPN_TIMEOUT_REMOVED);
    CHECK_EQ(shut(), 1);
    CHECK_EQ(spn_timeout_state(&far), SPN_TIMEOUT_CANCELLED);
}

enum { MANY = 1000 };
static spn_timeout many[MANY];

static void schedule_many(spn_timeout_fn fn, int64_t delay_ns)
{
    memset(many, 0, sizeof many);
    for (int i = 0; i < MANY; i++)
        schedule(&many[i], fn, delay_ns);
}

/* A thousand of one tick, and each ends its thread: all run, once. */
TEST(timer__every_callback_ends_its_thread__all_run, "G-21", "HWT-27")
{
    open_with(defaults(SPN_TIMER_THREAD));
    schedule_many(add_one_and_end, TICK);
    CHECK_OK(spn_clock_advance(clock_, TICK));
    T_AWAIT(atomic_load(&sum) == MANY);
    T_AWAIT(stats_now().failed == MANY);
    CHECK_EQ(shut(), 0);
    CHECK_EQ(atomic_load(&sum), MANY);
    CHECK_EQ(atomic_load(&failures), MANY);
}

struct workshop {
    spn_thread_factory factory; /* first */
    atomic_int left;            /* threads it makes before it fails */
    atomic_int asked;
};

static int make_thread(const spn_thread_factory *factory, spn_thread **out,
                       spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    struct workshop *w = (struct workshop *)(uintptr_t)factory;

    const int rc = atomic_fetch_sub(&w->left, 1) <= 0
                       ? SPN_EAGAIN
                       : spn_thread_create(out, opts, fn, arg);

    atomic_fetch_add(&w->asked, 1);
    return rc;
}

static atomic_int thread_of_last;

static int end_here(spn_timeout *t)
{
    atomic_store(&thread_of_last, peer_gettid());
    return add_one_and_end(t);
}

/* No thread can be had in place of the one that was ended: it goes on itself. */
TEST(timer__thread_cannot_be_replaced__goes_on, "G-21", "HWT-27")
{
    struct workshop w = { .factory = { sizeof w.factory, make_thread } };
    spn_timer_opts opts = defaults(SPN_TIMER_THREAD);
    int first;

    atomic_store(&w.left, 1);
    opts.factory = &w.factory;
    open_with(opts);
    schedule_many(end_here, TICK);
    schedule(&many[0], end_here, 0);
    T_AWAIT(atomic_load(&sum) == 1);
    first = atomic_load(&thread_of_last);
    CHECK_OK(spn_clock_advance(clock_, TICK));
    T_AWAIT(atomic_load(&sum) == MANY);
    CHECK_EQ(atomic_load(&thread_of_last), first);
    T_AWAIT(atomic_load(&w.asked) == 1 + MANY); /* also after the last */
    atomic_store(&w.left, 1);                   /* another one can be had again */
    schedule(&many[0], end_here, 0);
    T_AWAIT(atomic_load(&sum) == MANY + 1);
    CHECK_EQ(atomic_load(&thread_of_last), first);
    schedule(&many[0], end_here, 0);
    T_AWAIT(atomic_load(&sum) == MANY + 2);
    CHECK(atomic_load(&thread_of_last) != first);
    CHECK_EQ(shut(), 0);
    CHECK_EQ(atomic_load(&failures), MANY + 2);
}

static atomic_int entered, may_end;

static int wait_and_end(spn_timeout *t)
{
    atomic_store(&entered, 1);
    T_AWAIT(atomic_load(&may_end) != 0);
    return add_one_and_end(t);
}

static int cancel_sync(void *t)
{
    return spn_timer_cancel_sync(timer, t, SPN_FOREVER);
}

/* Who waits for a callback waits until it has ended its thread, and no longer. */
TEST(timer__cancel_sync_of_one_that_ends_its_thread__returns, "G-21", "HWT-34")
{
    spn_timeout t = SPN_TIMEOUT_INIT;
    spn_period period = SPN_PERIOD_INIT;
    struct peer p;

    atomic_store(&entered, 0);
    atomic_store(&may_end, 0);
    open_with(defaults(SPN_TIMER_THREAD));
    period.period_ns = TICK;
    CHECK_OK(spn_timer_schedule_periodic(timer, &t, wait_and_end, 0, &period));
    T_AWAIT(atomic_load(&entered) == 1);
    peer_start(&p, cancel_sync, &t);
    peer_await_blocked(&p);
    atomic_store(&may_end, 1);
    CHECK_EQ(peer_finish(&p), SPN_TIMEOUT_RUNNING);
    CHECK_EQ(spn_timeout_state(&t), SPN_TIMEOUT_CANCELLED);
    CHECK_EQ(shut(), 0);
}

static void end_in_hook(void *ctx, int status)
{
    count_failure(ctx, status);
    pthread_exit(NULL);
}

static int fail(spn_timeout *t)
{
    (void)add_one(t);
    return SPN_ECANCELED;
}

/* The hook ends the thread too, after a callback that failed and one that ended it. */
TEST(timer__failure_hook_ends_the_thread__nothing_stops, "G-21", "HWT-27")
{
    spn_timer_opts opts = defaults(SPN_TIMER_THREAD);
    spn_timeout three[3] = { SPN_TIMEOUT_INIT, SPN_TIMEOUT_INIT, SPN_TIMEOUT_INIT };

    opts.on_failure = end_in_hook;
    open_with(opts);
    schedule(&three[0], fail, TICK);
    schedule(&three[1], add_one_and_end, TICK);
    schedule(&three[2], add_one, TICK);
    CHECK_OK(spn_clock_advance(clock_, TICK));
    T_AWAIT(atomic_load(&sum) == 3);
    CHECK_EQ(shut(), 0);
    CHECK_EQ(atomic_load(&failures), 2); /* once each */
}

/* ---- driven --------------------------------------------------------------------------- */

static void *drive(void *arg)
{
    (void)arg;
    (void)spn_timer_run(timer);
    return &sum; /* it was not ended */
}

/* Whether a thread that called run was ended by it. */
static bool drive_until_ended(void)
{
    pthread_t thread;
    void *result;

    REQUIRE(pthread_create(&thread, NULL, drive, NULL) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    return result != &sum;
}

/* The thread that drives the timer ends in a callback: the timer is not driven by anybody
 * then, asks to be, and the next one goes on with what is due. */
TEST(timer__callback_ends_the_driver__next_one_goes_on, "G-21", "HWT-27", "HWT-44")
{
    for (uint32_t kind = SPN_TIMER_DRIVEN; kind <= SPN_TIMER_FD; kind++) {
        spn_timeout ending = SPN_TIMEOUT_INIT, beside = SPN_TIMEOUT_INIT,
                    again = SPN_TIMEOUT_INIT;
        spn_period period = SPN_PERIOD_INIT;
        int before;

        open_with(defaults(kind));
        schedule(&ending, add_one_and_end, TICK);
        schedule(&beside, add_one, TICK);
        period.period_ns = TICK;
        CHECK_OK(
            spn_timer_schedule_periodic(timer, &again, add_one_and_end, TICK, &period));
        CHECK_OK(spn_clock_advance(clock_, TICK));
        before = atomic_load(&wakes);
        CHECK(drive_until_ended());
        CHECK_EQ(atomic_load(&sum), 1);
        CHECK(atomic_load(&wakes) > before);
        CHECK(spn_timer_next_expiry(timer) <= spn_clock_now(clock_));
        CHECK(drive_until_ended());
        CHECK_EQ(atomic_load(&sum), 3);
        CHECK_EQ(spn_timer_pending(timer), 1);
        CHECK(!drive_until_ended()); /* nothing is due */
        CHECK_OK(spn_clock_advance(clock_, TICK));
        CHECK(drive_until_ended());
        CHECK_EQ(atomic_load(&sum), 4);
        CHECK_EQ(stats_now().failed, 3);
        CHECK_EQ(atomic_load(&failures), 3);
        CHECK_EQ(shut(), 1);
    }
}

/* The same where the driver's executor runs callbacks on the driver itself. */
TEST(timer__callback_ends_the_driver_in_its_executor__next_one_goes_on, "G-21",
     "HWT-28")
{
    spn_timer_opts opts = defaults(SPN_TIMER_DRIVEN);
    spn_timeout ending = SPN_TIMEOUT_INIT, beside = SPN_TIMEOUT_INIT;

    opts.executor = spn_executor_direct();
    open_with(opts);
    schedule(&ending, add_one_and_end, TICK);
    schedule(&beside, add_one, TICK);
    CHECK_OK(spn_clock_advance(clock_, TICK));
    CHECK(drive_until_ended());
    CHECK_EQ(atomic_load(&sum), 1);
    CHECK(spn_timer_next_expiry(timer) <= spn_clock_now(clock_));
    CHECK(!drive_until_ended());
    CHECK_EQ(atomic_load(&sum), 2);
    CHECK_EQ(stats_now().failed, 1);
    CHECK_EQ(shut(), 0);
}

/* ---- executors ------------------------------------------------------------------------- */

static void told_elsewhere(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    (void)ctx;
    CHECK_STATUS(info->status, SPN_ECANCELED);
}

/* Callbacks end the threads of the pool that runs them: all run, once. */
TEST(timer__callbacks_end_the_pools_threads__all_run, "G-21", "HWT-27", "HWT-28")
{
    spn_pool_opts pool_opts = spn_pool_opts_fixed(2, 100);
    spn_timer_opts opts = defaults(SPN_TIMER_THREAD);
    spn_pool *pool;

    pool_opts.hooks.uncaught = told_elsewhere;
    REQUIRE_OK(spn_pool_create(&pool, &pool_opts));
    opts.executor = spn_pool_executor(pool);
    opts.parallel = 2;
    open_with(opts);
    schedule_many(add_one_and_end, TICK);
    CHECK_OK(spn_clock_advance(clock_, TICK));
    T_AWAIT(atomic_load(&sum) == MANY);
    T_AWAIT(stats_now().failed == MANY);
    CHECK_EQ(shut(), 0);
    CHECK_EQ(atomic_load(&sum), MANY);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

/* ---- what the library owns ----------------------------------------------------------- */

static atomic_int expired_calls, gone_calls[2]; /* by cancel, by stop */

static void end_at_its_time(spn_timeout_handle *handle, void *arg)
{
    (void)handle;
    (void)arg;
    atomic_fetch_add(&expired_calls, 1);
    pthread_exit(NULL);
}

static void end_when_gone(void *arg, int reason)
{
    (void)arg;
    CHECK(reason == SPN_ECANCELED || reason == SPN_ESHUTDOWN);
    atomic_fetch_add(&gone_calls[reason == SPN_ESHUTDOWN], 1);
    pthread_exit(NULL);
}

static spn_timeout_handle *end_later(int64_t delay_ns)
{
    spn_timeout_handle *h;

    REQUIRE_OK(spn_timer_new_timeout(timer, end_at_its_time, end_when_gone, NULL,
                                     delay_ns, &h));
    return h;
}

static void open_counting(uint32_t drive)
{
    atomic_store(&expired_calls, 0);
    atomic_store(&gone_calls[0], 0);
    atomic_store(&gone_calls[1], 0);
    open_with(defaults(drive));
}

static void *stop_here(void *arg)
{
    (void)arg;
    CHECK_OK(spn_timer_stop(timer, NULL, NULL)); /* which does not return */
    return &sum;
}

/* Functions of handles end their threads, when their time has come, when they are cancelled,
 * and in stop: each is called once, nothing is kept, and the timer can be destroyed. */
TEST(timer__handles_end_their_threads__told_once, "G-21", "HWT-33")
{
    spn_timeout_handle *expired, *cancelled, *left[2];
    pthread_t thread;
    void *result;

    open_counting(SPN_TIMER_THREAD);
    expired = end_later(TICK);
    cancelled = end_later(SPN_SEC(9));
    for (int i = 0; i < 2; i++)
        left[i] = end_later(SPN_SEC(9));
    CHECK_OK(spn_clock_advance(clock_, TICK));
    T_AWAIT(atomic_load(&expired_calls) == 1);
    CHECK_EQ(spn_timeout_handle_cancel(cancelled), SPN_TIMEOUT_REMOVED);
    T_AWAIT(atomic_load(&gone_calls[0]) == 1);
    /* Stop tells the two, the first of which ends the thread that it is called on. */
    REQUIRE(pthread_create(&thread, NULL, stop_here, NULL) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    CHECK(result != &sum);
    CHECK_EQ(atomic_load(&expired_calls), 1);
    CHECK_EQ(atomic_load(&gone_calls[0]), 1);
    CHECK_EQ(atomic_load(&gone_calls[1]), 2);
    CHECK_EQ(shut(), 0);
    spn_timeout_handle_unref(expired);
    spn_timeout_handle_unref(cancelled);
    spn_timeout_handle_unref(left[0]);
    spn_timeout_handle_unref(left[1]);
}

static spn_timeout *given_timeout;
static spn_timeout_handle_list given_handles;

static void *stop_with_lists(void *arg)
{
    (void)arg;
    CHECK_OK(spn_timer_stop(timer, &given_timeout, &given_handles)); /* likewise */
    return &sum;
}

/* Stop's lists are stored before a gone that stop calls ends the thread: nothing that was to
 * be given back is lost. */
TEST(timer__gone_ends_stops_thread__lists_are_stored, "G-21", "HWT-10", "HWT-33")
{
    spn_timeout embedded = SPN_TIMEOUT_INIT;
    spn_timeout_handle *cancelled, *left;
    pthread_t thread;
    void *result;

    open_counting(SPN_TIMER_DRIVEN);
    schedule(&embedded, add_one, SPN_SEC(9));
    cancelled = end_later(SPN_SEC(9));
    left = end_later(SPN_SEC(9));
    CHECK_EQ(spn_timeout_handle_cancel(cancelled), SPN_TIMEOUT_REMOVED);
    REQUIRE(pthread_create(&thread, NULL, stop_with_lists, NULL) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    CHECK(result != &sum);
    CHECK_EQ(atomic_load(&gone_calls[0]), 1);
    CHECK_EQ(atomic_load(&gone_calls[1]), 0);
    CHECK(spn_timeout_pop(&given_timeout) == &embedded);
    CHECK(given_timeout == NULL);
    CHECK(spn_timeout_handle_take(&given_handles) == left);
    CHECK(spn_timeout_handle_take(&given_handles) == NULL);
    spn_timeout_handle_unref(left); /* the list's */
    CHECK_EQ(shut(), 0);
    spn_timeout_handle_unref(cancelled);
    spn_timeout_handle_unref(left);
}
