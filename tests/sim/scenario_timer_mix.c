/* SPDX-License-Identifier: MIT */
/*
 * scenario_timer_mix.c - timers, with options and calls that are drawn: as
 * scenario_time_mix.c, which tells why.
 *
 * What is drawn: who drives the timer, what runs the callbacks, shards, ticks, both layouts,
 * a limit, either clock; timeouts of the caller's, once and periodic, handles and futures
 * that time out; moving, cancelling and waiting for them; stop.
 *     - Nothing is early.
 *     - When the threads are through, all that is due happens without anybody's further
 *       help, and what was cancelled is told.
 *     - After stop each has run, was cancelled or was given back, once, and the counts come
 *       out even.
 */
#include "pool_calls.h"
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "exec/pool.h"
#include "sync/seam.h"
#include "time_mix.h"
#include "wheel/timer.h"

static spn_timer *timer;
static spn_scheduled *sched;
static spn_fj_pool *stealing;
static spn_pool *pool;
static spn_executor *ex;
static spn_latch *gate, *second_gate;
static bool has_long, exact;
static bool ends; /* a thread stops it */

#define TICK   SPN_TIMER_TICK_MIN
#define PERIOD SPN_US(200)

enum { EMBEDDED, PERIODIC, HANDLE, FUTURE, FORMS };
enum { NO_EXECUTOR, DIRECT, POOL, NARROW_POOL, SCHEDULED, STEALING, EXECUTORS };
enum { ALARMS = 6, HOLDER = ALARMS };

/* Something that happens at its time.  Those of one thread are scheduled by it alone. */
struct alarm {
    spn_timeout timeout; /* first */
    int form;
    int64_t delay_ns;
    SPN__ATOMIC(int) scheduled; /* how often it was accepted */
    SPN__ATOMIC(int) runs, payload, removed, excused, told, canceller;
    SPN__ATOMIC(int64_t) due_ns, at_ns;
    SPN__ATOMIC(spn_timeout_handle *) handle;
    SPN__ATOMIC(spn_future *) promise;
    int returned;
    bool again; /* the callback schedules it once more */
    bool fails;
    bool mute; /* a handle without a gone */
};

static bool is_stopped(void)
{
    return spn__load(&timer->state, relaxed) == SPN__TIMER_STOPPED;
}

static struct alarm alarms[ALARMS + 1];
static spn_semaphore *woken; /* what an event loop sleeps on */
static SPN__ATOMIC(int) quits, stopping, stopped;
static int executor_kind;
static bool driven;

static void prepare_alarm(struct alarm *a)
{
    memset(a, 0, sizeof *a);
    spn__init(spn__state_of(&a->timeout), 0);
    spn__init(&a->scheduled, 0);
    spn__init(&a->runs, 0);
    spn__init(&a->payload, 0);
    spn__init(&a->removed, 0);
    spn__init(&a->excused, 0);
    spn__init(&a->told, 0);
    spn__init(&a->canceller, -1);
    spn__init(&a->due_ns, INT64_MAX);
    spn__init(&a->at_ns, 0);
    spn__init(&a->handle, NULL);
    spn__init(&a->promise, NULL);
}

static void begin_alarm(struct alarm *a)
{
    sim_assert(spn__load(&a->payload, relaxed) != 0);
    sim_assert(now() >= spn__load(&a->due_ns, relaxed));
    if (spn__fetch_add(&a->runs, 1, release) == 0)
        spn__store(&a->at_ns, sim_now(), relaxed);
}

static int on_alarm(spn_timeout *t)
{
    struct alarm *a = (struct alarm *)(void *)t;
    const bool fails = a->fails;

    begin_alarm(a);
    sim_assert(spn_timer_cancel_sync(timer, t, SPN_FOREVER) == SPN_EDEADLK);
    if (a->again) {
        int rc;

        a->again = false;
        rc = spn_timer_schedule(timer, t, on_alarm, draw() ? 0 : NEAR_ / 4);
        sim_assert(rc == SPN_OK || rc == SPN_ESTATE || rc == SPN_EREJECTED);
        if (rc == SPN_OK)
            (void)spn__fetch_add(&a->scheduled, 1, relaxed);
    }
    return fails ? -77 : 0;
}

static int on_holder(spn_timeout *t)
{
    begin_alarm((struct alarm *)(void *)t);
    (void)!spn_latch_await(gate, SPN_FOREVER);
    return 0;
}

static void on_handle(spn_timeout_handle *handle, void *arg)
{
    struct alarm *a = arg;

    begin_alarm(a);
    if (a->again) {
        int rc;

        a->again = false;
        rc = spn_timeout_handle_again(handle, draw() ? 0 : NEAR_ / 4);
        sim_assert(rc == SPN_OK || rc == SPN_ESHUTDOWN || rc == SPN_EREJECTED);
        if (rc == SPN_OK)
            (void)spn__fetch_add(&a->scheduled, 1, relaxed);
    }
    (void)spn__fetch_add(&a->told, 1, release);
}

static void on_handle_gone(void *arg, int reason)
{
    struct alarm *a = arg;

    sim_assert(reason == SPN_ESHUTDOWN || reason == SPN_ECANCELED);
    /* Not where it was cancelled, unless there is nobody else any more. */
    sim_assert(spn__load(&a->canceller, relaxed) != sim_self() ||
               executor_kind == DIRECT || is_stopped());
    sim_assert(!a->mute && a->returned == 0);
    (void)spn__fetch_add(&a->told, 1, release);
}

static void expect_due(struct alarm *a, int64_t delay_ns)
{
    const int64_t due_ns = now() + delay_ns;

    /* What it was scheduled for before may come until it is moved. */
    if (due_ns < spn__load(&a->due_ns, relaxed))
        spn__store(&a->due_ns, due_ns, relaxed);
    spn__store(&a->payload, 1, relaxed);
}

static int start_embedded(struct alarm *a)
{
    spn_period p = SPN_PERIOD_INIT;

    if (a->form == PERIODIC) {
        p.period_ns = PERIOD;
        p.missed =
            exact ? sim_choose(3) : (draw() ? SPN_MISSED_SKIP : SPN_MISSED_DELAY);
        p.stop_on_failure = sim_choose(2);
        return spn_timer_schedule_periodic(timer, &a->timeout, on_alarm, a->delay_ns,
                                           &p);
    }
    return spn_timer_schedule(timer, &a->timeout, on_alarm, a->delay_ns);
}

static int start_handle(struct alarm *a)
{
    spn_timeout_handle *handle = NULL;
    const int rc =
        spn_timer_new_timeout(timer, on_handle, a->mute ? NULL : on_handle_gone, a,
                              a->delay_ns, &handle);

    spn__store(&a->handle, handle, release);
    return rc;
}

static int start_future(struct alarm *a)
{
    spn_future *promise;
    int rc;

    sim_assert(spn_future_create(&promise, NULL) == SPN_OK);
    rc = spn_future_or_timeout(promise, timer, a->delay_ns, NULL);
    if (rc != SPN_OK) {
        spn_future_unref(promise);
        return rc;
    }
    spn__store(&a->promise, promise, release);
    return SPN_OK;
}

static void start_alarm(struct alarm *a)
{
    const bool first = spn__load(&a->payload, relaxed) == 0;
    int rc;

    if (!first && a->form >= HANDLE)
        return;
    if (first) {
        a->form = (int)sim_choose(FORMS);
        a->again = sim_choose(4) == 0;
        a->fails = sim_choose(4) == 0;
        a->mute = sim_choose(4) == 0;
    }
    a->delay_ns = draw_delay();
    expect_due(a, a->delay_ns);
    rc = a->form == HANDLE   ? start_handle(a)
         : a->form == FUTURE ? start_future(a)
                             : start_embedded(a);
    sim_assert(rc == SPN_OK || rc == SPN_ESTATE || rc == SPN_EREJECTED ||
               (rc == SPN_EBUSY && !first));
    if (rc == SPN_OK)
        (void)spn__fetch_add(&a->scheduled, 1, relaxed);
    else if (spn__load(&a->scheduled, relaxed) != 0)
        spn__store(&a->excused, 1, relaxed); /* as it was, whatever that was */
    else if (a->form != PERIODIC) {
        spn__store(&a->due_ns, INT64_MAX, relaxed);
        spn__store(&a->payload, 0, relaxed);
    }
}

static void cancel_alarm(struct alarm *a)
{
    spn_timeout_handle *handle = spn__load(&a->handle, acquire);
    spn_future *promise = spn__load(&a->promise, acquire);
    int rc;

    spn__store(&a->excused, 1, relaxed);
    if (handle != NULL) {
        spn__store(&a->canceller, sim_self(), relaxed);
        rc = spn_timeout_handle_cancel(handle);
        sim_assert(rc == SPN_TIMEOUT_REMOVED || rc == SPN_TIMEOUT_GONE);
        (void)spn__fetch_add(&a->removed, rc == SPN_TIMEOUT_REMOVED, relaxed);
        spn__store(&a->canceller, -1, relaxed);
        return;
    }
    if (promise != NULL) {
        if (draw())
            (void)spn_future_complete(promise, NULL);
        else
            (void)spn_future_cancel(promise, (int)sim_choose(2));
        return;
    }
    rc = draw()
             ? spn_timer_cancel(timer, &a->timeout)
             : spn_timer_cancel_sync(timer, &a->timeout, draw() ? NEAR_ : SPN_FOREVER);
    sim_assert(rc >= SPN_TIMEOUT_GONE || rc == SPN_ETIMEDOUT);
    if (rc == SPN_TIMEOUT_REMOVED)
        (void)spn__fetch_add(&a->removed, 1, relaxed);
}

/* A timeout that stop took out is refused, which orders nothing: is_stopped may still
 * say no then.  A read-modify-write never reads an old value. */
static bool stop_was_called(void)
{
    return spn__fetch_add(&stopping, 0, relaxed) != 0;
}

static void adjust_alarm(struct alarm *a)
{
    int rc;

    if (a->form != PERIODIC || spn__load(&a->scheduled, relaxed) == 0)
        return;
    if (draw()) {
        expect_due(a, PERIOD / 2);
        rc = spn_timer_again(timer, &a->timeout);
        sim_assert(rc == SPN_OK || rc == SPN_EREJECTED || stop_was_called());
        (void)spn__fetch_add(&a->scheduled, rc == SPN_OK, relaxed);
        return;
    }
    rc = spn_timer_set_period(timer, &a->timeout, draw() ? 0 : PERIOD / 2);
    sim_assert(rc == SPN_OK || stop_was_called());
}

static void stop_timer(void)
{
    spn_timeout_handle_list handles = { NULL };
    spn_timeout_handle *h;
    spn_timeout *left, *t;

    (void)spn__fetch_add(&stopping, 1, relaxed); /* see stop_was_called */
    sim_assert(spn_timer_stop(timer, &left, draw() ? &handles : NULL) == SPN_OK);
    while ((h = spn_timeout_handle_take(&handles)) != NULL) {
        sim_assert(spn_timeout_handle_state(h) == SPN_TIMEOUT_CANCELLED);
        ((struct alarm *)spn_timeout_handle_arg(h))->returned++;
        spn_timeout_handle_unref(h);
    }
    while ((t = spn_timeout_pop(&left)) != NULL) {
        struct alarm *a = (struct alarm *)(void *)t;

        sim_assert(spn_timeout_state(t) == SPN_TIMEOUT_CANCELLED);
        a->returned++;
    }
    spn__store(&stopped, 1, release);
}

static void act_on_timer(int self)
{
    struct alarm *own = &alarms[2 * self + (int)sim_choose(2)];
    struct alarm *any = &alarms[sim_choose(ALARMS)];
    const unsigned what = sim_choose(10);

    switch (what) {
    case 0:
    case 1:
    case 2:
    case 3:
        start_alarm(own);
        break;
    case 4:
    case 5:
        cancel_alarm(any);
        break;
    case 6:
        adjust_alarm(own);
        break;
    case 7:
        (void)spn_timer_remaining(timer, &any->timeout);
        (void)spn_timer_next_expiry(timer);
        sim_assert(spn__timer_check(timer) == SPN_OK);
        break;
    case 8:
        if (clock_ != NULL)
            sim_assert(spn_clock_advance(clock_, NEAR_ / 2) == SPN_OK);
        else
            sim_sleep(draw() ? NEAR_ / 2 : NEAR_);
        break;
    default:
        if (ends && self == 1)
            stop_timer();
        else
            start_alarm(own);
        break;
    }
}

static void acts_on_timer(void *arg)
{
    const int self = (int)(intptr_t)arg;

    for (unsigned n = 2 + sim_choose(3); n > 0; n--)
        act_on_timer(self);
}

/* An event loop: it sleeps until it has something to do, or is told so. */
static void drives(void *arg)
{
    (void)arg;
    while (spn__load(&quits, acquire) == 0) {
        const int rc = spn_timer_run(timer);
        int64_t left_ns;

        if (rc == SPN_ESTATE)
            return;
        sim_assert(rc >= 0);
        left_ns = spn_timer_next_expiry(timer);
        if (left_ns != SPN_FOREVER)
            left_ns -= now();
        if (clock_ != NULL && left_ns > 0)
            left_ns = SPN_FOREVER; /* it tells when it moves */
        if (left_ns > 0)
            (void)!spn_semaphore_acquire(woken, 1, left_ns);
    }
}

static void on_wake(void *ctx)
{
    (void)ctx;
    (void)!spn_semaphore_release(woken, 1);
}

static void on_failure(void *ctx, int status)
{
    (void)ctx;
    sim_assert(status == -77);
}

static void open_executor(void)
{
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    pool = NULL;
    sched = NULL;
    stealing = NULL;
    ex = NULL;
    switch (executor_kind) {
    case DIRECT:
        ex = spn_executor_direct();
        break;
    case NARROW_POOL:
        o.core_threads = o.max_threads = o.queue_capacity = 1;
        o.reject = draw() ? spn_reject_abort() : spn_reject_discard();
        sim_assert(spn_pool_create(&pool, &o) == SPN_OK);
        break;
    case POOL:
        o.core_threads = (int32_t)sim_choose(3);
        o.max_threads = 2;
        o.queue_capacity = o.core_threads < 2 ? SPN_HANDOFF : SPN_UNBOUNDED;
        o.reject = spn_reject_caller_runs();
        o.keep_alive_ns = NEAR_ / 2;
        sim_assert(spn_pool_create(&pool, &o) == SPN_OK);
        break;
    case SCHEDULED: {
        spn_scheduled_opts so = spn_scheduled_opts_pool(2);

        so.core_timeout = sim_choose(2);
        so.keep_alive_ns = NEAR_ / 2;
        sim_assert(spn_scheduled_create(&sched, &so) == SPN_OK);
        pool = spn_scheduled_pool(sched);
        break;
    }
    case STEALING: {
        spn_fj_pool_opts fo = SPN_FJ_POOL_OPTS_INIT;

        fo.parallelism = 1 + (int32_t)sim_choose(2);
        fo.async = 1;
        sim_assert(spn_fj_pool_create(&stealing, &fo) == SPN_OK);
        ex = spn_fj_pool_executor(stealing);
        break;
    }
    default:
        break;
    }
    if (pool != NULL)
        ex = spn_pool_executor(pool);
}

static void close_executor(void)
{
    if (stealing != NULL) {
        sim_assert(spn_fj_pool_close(stealing) == SPN_OK);
        sim_assert(spn_fj_pool_destroy(stealing) == SPN_OK);
    }
    if (pool == NULL)
        return;
    sim_assert(pool_shutdown(pool) == SPN_OK);
    sim_assert(pool_await(pool, SPN_FOREVER) == SPN_OK);
    if (sched != NULL)
        sim_assert(spn_scheduled_destroy(sched) == SPN_OK);
    else
        sim_assert(spn_pool_destroy(pool) == SPN_OK);
}

static void open_timer(void)
{
    spn_timer_opts o = SPN_TIMER_OPTS_INIT;

    executor_kind = (int)sim_choose(EXECUTORS);
    driven = draw();
    clock_ = NULL;
    if (!exact && executor_kind != NARROW_POOL && sim_choose(4) == 0)
        sim_assert(spn_clock_create_manual(&clock_, 0) == SPN_OK);
    ends = sim_choose(3) == 0;
    o.tick_ns = draw() ? TICK : SPN_US(50);
    o.slots = 4;
    if (draw()) { /* which looks in every round */
        o.layout = SPN_WHEEL_HASHED;
        o.tick_ns = SPN_US(50);
        o.slots = 16;
    }
    o.shards = 1 + sim_choose(2);
    o.drive = driven ? SPN_TIMER_DRIVEN : SPN_TIMER_THREAD;
    o.parallel = 1 + sim_choose(2);
    o.max_pending = draw() ? 0 : 1 + (int64_t)sim_choose(3);
    has_long = !ends && o.parallel == 2 && executor_kind == SCHEDULED && draw();
    o.clock = clock_;
    o.on_failure = on_failure;
    o.wake = on_wake;
    for (int i = 0; i <= ALARMS; i++)
        prepare_alarm(&alarms[i]);
    spn__init(&quits, 0);
    spn__init(&stopping, 0);
    spn__init(&stopped, 0);
    sim_assert(spn_latch_create(&gate, 1) == SPN_OK);
    sim_assert(spn_semaphore_create(&woken, NULL) == SPN_OK);
    open_executor();
    o.executor = ex;
    sim_assert(spn_timer_create(&timer, &o) == SPN_OK);
}

static void start_holder(void)
{
    struct alarm *a = &alarms[HOLDER];

    a->delay_ns = draw() ? 0 : NEAR_ / 2;
    expect_due(a, a->delay_ns);
    sim_assert(spn_timer_schedule(timer, &a->timeout, on_holder, a->delay_ns) ==
               SPN_OK);
    spn__store(&a->scheduled, 1, relaxed);
}

/* Whether the last that was said of it is that it comes soon. */
static bool must_ring(struct alarm *a)
{
    return spn__load(&a->scheduled, relaxed) != 0 &&
           spn__load(&a->excused, relaxed) == 0 && a->delay_ns != FAR;
}

static bool has_rung(struct alarm *a)
{
    if (a->form == HANDLE) /* the first time, or the end */
        return spn__load(&a->told, acquire) +
                   (a->mute ? spn__load(&a->removed, relaxed) : 0) >=
               (spn_timeout_handle_state(spn__load(&a->handle, relaxed)) ==
                        SPN_TIMEOUT_CANCELLED
                    ? spn__load(&a->scheduled, relaxed)
                    : 1);
    if (a->form == FUTURE)
        return spn_future_get_state(spn__load(&a->promise, relaxed)) !=
               SPN_FUTURE_PENDING;
    return spn__load(&a->runs, acquire) > 0;
}

/* Nobody does anything but wait now: what is due happens, and what was cancelled is told. */
static void expect_alarms(void)
{
    const int64_t quiet_ns = sim_now();

    if (clock_ != NULL)
        sim_assert(spn_clock_advance(clock_, 2 * NEAR_) == SPN_OK);
    for (int i = 0; i < ALARMS; i++) {
        struct alarm *a = &alarms[i];
        const spn_timeout_handle *handle = spn__load(&a->handle, relaxed);

        if (!must_ring(a) && spn_timeout_handle_state(handle) != SPN_TIMEOUT_CANCELLED)
            continue;
        for (int n = 0; !has_rung(a); n++) {
            sim_assert(n < PATIENCE); /* it was forgotten */
            sim_sleep(NEAR_ / 8);
        }
        if (exact && executor_kind != NARROW_POOL && a->form == EMBEDDED &&
            spn__load(&a->scheduled, relaxed) == 1)
            sim_assert(spn__load(&a->at_ns, relaxed) <=
                           spn__load(&a->due_ns, relaxed) + SOON ||
                       spn__load(&a->at_ns, relaxed) <= quiet_ns + SOON);
    }
}

static void expect_end_of_handle(struct alarm *a)
{
    const int scheduled = spn__load(&a->scheduled, relaxed);
    const int removed = spn__load(&a->removed, relaxed);
    const int told =
        spn__load(&a->told, relaxed) + a->returned + (a->mute ? removed : 0);

    sim_assert(removed + a->returned <= 1);
    sim_assert(told == scheduled ||
               (a->mute && removed == 0 && told == scheduled - 1 &&
                spn_timeout_handle_state(spn__load(&a->handle, relaxed)) ==
                    SPN_TIMEOUT_CANCELLED));
}

static void expect_ends(void)
{
    spn_timer_stats s = SPN_TIMER_STATS_INIT;

    sim_assert(spn_timer_get_stats(timer, &s) == SPN_OK);
    sim_assert(s.armed == s.fired + s.cancelled + s.replaced + s.returned + s.pending);
    sim_assert(s.pending == 0 && spn_timer_pending(timer) == 0);
    sim_assert(spn__timer_check(timer) == SPN_OK);
    for (int i = 0; i <= ALARMS; i++) {
        struct alarm *a = &alarms[i];
        const int runs = spn__load(&a->runs, relaxed);
        const int removed = spn__load(&a->removed, relaxed);

        if (a->form == HANDLE) /* each scheduling has one end */
            expect_end_of_handle(a);
        if (a->form == FUTURE && spn__load(&a->scheduled, relaxed) != 0)
            sim_assert(spn_future_get_state(spn__load(&a->promise, relaxed)) !=
                       SPN_FUTURE_PENDING);
        if (a->form == EMBEDDED && spn__load(&a->scheduled, relaxed) < 2)
            sim_assert(runs + removed + a->returned ==
                       spn__load(&a->scheduled, relaxed));
    }
}

static void let_go(void)
{
    for (int i = 0; i <= ALARMS; i++) {
        struct alarm *a = &alarms[i];
        spn_future *promise = spn__load(&a->promise, relaxed);

        sim_assert(promise == NULL ||
                   spn_future_get_state(promise) != SPN_FUTURE_PENDING);
        spn_timeout_handle_unref(spn__load(&a->handle, relaxed));
        spn_future_unref(promise);
    }
}

static void mix_timer(bool on_time)
{
    int driver = 0;

    exact = on_time;
    open_timer();
    if (has_long)
        start_holder();
    if (driven)
        driver = sim_thread(drives, NULL);
    const int one = sim_thread(acts_on_timer, (void *)1);
    const int two = sim_thread(acts_on_timer, (void *)2);
    acts_on_timer((void *)0);
    sim_join(one);
    sim_join(two);
    if (!is_stopped())
        expect_alarms();
    sim_assert(spn_latch_count_down(gate) == SPN_OK);
    stop_timer();
    spn__store(&quits, 1, release);
    on_wake(NULL);
    if (driven)
        sim_join(driver);
    expect_ends();
    if (draw()) {
        sim_assert(spn_timer_destroy(timer) == SPN_OK);
        close_executor();
    } else {
        close_executor();
        sim_assert(spn_timer_destroy(timer) == SPN_OK);
    }
    let_go();
    sim_assert(spn_semaphore_destroy(woken) == SPN_OK);
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
    if (clock_ != NULL)
        sim_assert(spn_clock_destroy(clock_) == SPN_OK);
}

SCENARIO(timer_mix__all_happens_once, "HWT-26", "HWT-37", "HWT-28")
{
    mix_timer(false);
}
SCENARIO_OPTS(timer_mix__all_happens_once, .schedules = 300, .early = 64,
              .max_steps = 60000, .no_faults = "it counts on its threads")

SCENARIO(timer_mix__all_is_on_time, "HWT-18", "HWT-24")
{
    mix_timer(true);
}
SCENARIO_OPTS(timer_mix__all_is_on_time, .schedules = 300, .early = SIM_NEVER,
              .spurious = SIM_NEVER, .max_steps = 60000,
              .no_faults = "it counts on its threads")

/* ---- what the drawn ones have found ------------------------------------------------------ */

static void open_small_timer(uint32_t shards, uint32_t parallel, int64_t max_pending)
{
    spn_timer_opts o = SPN_TIMER_OPTS_INIT;

    exact = false;
    clock_ = NULL;
    for (int i = 0; i <= ALARMS; i++)
        prepare_alarm(&alarms[i]);
    o.tick_ns = TICK;
    o.slots = 4;
    o.shards = shards;
    o.parallel = parallel;
    o.max_pending = max_pending;
    o.executor = ex;
    sim_assert(spn_thread_current() != NULL);
    sim_assert(spn_latch_create(&gate, 1) == SPN_OK);
    sim_assert(spn_timer_create(&timer, &o) == SPN_OK);
}

static void close_small_timer(void)
{
    stop_timer();
    expect_ends();
    sim_assert(spn_timer_destroy(timer) == SPN_OK);
    sim_assert(spn_latch_destroy(gate) == SPN_OK);
    close_executor();
    let_go();
}

static void open_small_pool(int32_t threads)
{
    spn_pool_opts o = spn_pool_opts_fixed(threads, SPN_UNBOUNDED);

    sched = NULL;
    stealing = NULL;
    sim_assert(spn_pool_create(&pool, &o) == SPN_OK);
    ex = spn_pool_executor(pool);
}

static void set_alarm(struct alarm *a, spn_timeout_fn fn, int64_t delay_ns)
{
    a->delay_ns = delay_ns;
    expect_due(a, delay_ns);
    sim_assert(spn_timer_schedule(timer, &a->timeout, fn, delay_ns) == SPN_OK);
    (void)spn__fetch_add(&a->scheduled, 1, relaxed);
}

static void await_alarm(struct alarm *a)
{
    for (int n = 0; !has_rung(a); n++) {
        sim_assert(n < PATIENCE);
        sim_sleep(NEAR_ / 8);
    }
}

static int sets_the_third(spn_timeout *t)
{
    begin_alarm((struct alarm *)(void *)t);
    set_alarm(&alarms[2], on_alarm, 0);
    return 0;
}

/* An executor of one thread: the runner that a runner hands over for the rest is taken from
 * the queue by the same thread, when the first has ended.  What has become due meanwhile
 * relies on it. */
SCENARIO(timer_mix__runner_gets_its_own__serves, "HWT-28", "HWT-18")
{
    open_small_pool(1);
    open_small_timer(1, 2, 0);
    set_alarm(&alarms[0], on_alarm, 3 * TICK);
    set_alarm(&alarms[1], sets_the_third, 3 * TICK);
    await_alarm(&alarms[1]);
    await_alarm(&alarms[2]);
    close_small_timer();
}
SCENARIO_OPTS(timer_mix__runner_gets_its_own__serves, .schedules = 200,
              .early = SIM_NEVER)

static int opens_gate(spn_timeout *t)
{
    begin_alarm((struct alarm *)(void *)t);
    (void)spn_latch_count_down(gate);
    return 0;
}

/* Sets an alarm in a shard. */
struct wish {
    struct alarm *alarm;
    spn_timeout_fn fn;
    uint32_t shard;
};

static void sets_there(void *arg)
{
    const struct wish *w = arg;

    if (spn__timer_own_shard(timer) == w->shard)
        set_alarm(w->alarm, w->fn, 0);
}

static void set_in_shard(struct alarm *a, spn_timeout_fn fn, uint32_t shard)
{
    struct wish w = { a, fn, shard };

    sets_there(&w);
    for (int n = 0; n < 4 && spn__load(&a->scheduled, relaxed) == 0; n++)
        sim_join(sim_thread(sets_there, &w));
    sim_assert(spn__load(&a->scheduled, relaxed) == 1);
}

static int waits_for_second(spn_timeout *t)
{
    begin_alarm((struct alarm *)(void *)t);
    return spn_latch_await(second_gate, SPN_FOREVER);
}

/* One runner is about to end, and the other has a callback in the last shard, when two
 * become due in the first: the one that goes around once more, and is held by one of them,
 * does not keep the second from the other. */
SCENARIO(timer_mix__runner_goes_around__spreads, "HWT-28", "HWT-18")
{
    open_small_pool(2);
    open_small_timer(2, 2, 0);
    sim_assert(spn_latch_create(&second_gate, 1) == SPN_OK);
    set_in_shard(&alarms[0], waits_for_second, 1);
    await_alarm(&alarms[0]);
    set_in_shard(&alarms[1], on_alarm, 0);
    await_alarm(&alarms[1]);
    set_in_shard(&alarms[2], on_holder, 0);
    set_in_shard(&alarms[3], opens_gate, 0);
    await_alarm(&alarms[2]);
    sim_assert(spn_latch_count_down(second_gate) == SPN_OK);
    await_alarm(&alarms[3]);
    close_small_timer();
    sim_assert(spn_latch_destroy(second_gate) == SPN_OK);
}
SCENARIO_OPTS(timer_mix__runner_goes_around__spreads, .early = SIM_NEVER)

static void takes_the_place(void *arg)
{
    struct alarm *a = arg;
    int rc;

    expect_due(a, FAR);
    rc = spn_timer_schedule(timer, &a->timeout, on_alarm, FAR);
    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED);
    (void)spn__fetch_add(&a->scheduled, rc == SPN_OK, relaxed);
}

/* A handle that is cancelled keeps its place until its function was called, on the timer's
 * thread: another that comes is refused, or comes later. */
SCENARIO(timer_mix__handle_cancelled_at_the_limit__told_by_the_timer, "HWT-33",
         "HWT-39")
{
    ex = NULL;
    pool = NULL;
    stealing = NULL;
    executor_kind = NO_EXECUTOR;
    open_small_timer(1, 1, 1);
    alarms[0].form = HANDLE;
    alarms[0].delay_ns = FAR;
    expect_due(&alarms[0], FAR);
    sim_assert(start_handle(&alarms[0]) == SPN_OK);
    spn__store(&alarms[0].scheduled, 1, relaxed);
    sim_thread(takes_the_place, &alarms[1]);
    cancel_alarm(&alarms[0]);
    await_alarm(&alarms[0]);
    sim_join_all();
    close_small_timer();
}
SCENARIO_OPTS(timer_mix__handle_cancelled_at_the_limit__told_by_the_timer,
              .schedules = 200, .early = SIM_NEVER)

/* Cancelled as it is scheduled for the first time: it is not there yet, or was. */
SCENARIO(timer_mix__cancelled_as_it_comes__is_no_error, "HWT-30")
{
    ex = NULL;
    pool = NULL;
    stealing = NULL;
    open_small_timer(1, 1, 0);
    sim_thread(takes_the_place, &alarms[0]);
    cancel_alarm(&alarms[0]);
    sim_join_all();
    close_small_timer();
}
SCENARIO_OPTS(timer_mix__cancelled_as_it_comes__is_no_error, .schedules = 200,
              .early = SIM_NEVER)
