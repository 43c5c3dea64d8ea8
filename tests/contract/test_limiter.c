/* SPDX-License-Identifier: MIT */
/* test_limiter.c - the concurrency limiter: by number, by time, over pools. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

#include <spindle.h>

struct counted {
    spn_job job; /* first */
    atomic_int runs, drops;
    int reason, code, order;
};

static atomic_int order;

static int run_counted(spn_task *task)
{
    struct counted *c = (struct counted *)(void *)task;

    c->order = atomic_fetch_add(&order, 1) + 1;
    atomic_fetch_add(&c->runs, 1);
    return c->code;
}

static void drop_counted(spn_task *task, int reason)
{
    struct counted *c = (struct counted *)(void *)task;

    c->reason = reason;
    atomic_fetch_add(&c->drops, 1);
}

#define COUNTED                                        \
    {                                                  \
        .job = SPN_JOB_INIT(run_counted, drop_counted) \
    }

static spn_limiter_opts limits(spn_executor *behind, int32_t in_flight, int32_t waiting)
{
    spn_limiter_opts opts = SPN_LIMITER_OPTS_INIT;

    opts.executor = behind;
    opts.max_in_flight = in_flight;
    opts.max_waiting = waiting;
    return opts;
}

static spn_limiter *limiter_with(const spn_limiter_opts *opts)
{
    spn_limiter *limiter = NULL;

    REQUIRE_OK(spn_limiter_create(&limiter, opts));
    return limiter;
}

static spn_manual_executor *manual(void)
{
    spn_manual_executor *m = NULL;

    REQUIRE_OK(spn_manual_executor_create(&m));
    return m;
}

static spn_limiter_stats stats_of(spn_limiter *limiter)
{
    spn_limiter_stats s = SPN_LIMITER_STATS_INIT;

    CHECK_OK(spn_limiter_stats_get(limiter, &s));
    CHECK_EQ(s.accepted,
             s.completed + s.failed + s.dropped + s.returned + s.in_flight + s.waiting);
    CHECK(s.in_flight >= 0 && s.in_flight <= s.max_in_flight);
    CHECK(s.waiting >= 0 && s.waiting <= s.max_waiting);
    return s;
}

static int execute(spn_limiter *limiter, struct counted *c)
{
    return spn_executor_execute(spn_limiter_executor(limiter), &c->job.task);
}

static int take_back(spn_limiter *limiter, struct counted *c)
{
    return spn_executor_remove(spn_limiter_executor(limiter), &c->job.task);
}

/* ---- by number ------------------------------------------------------------------------------ */

struct refusals {
    int count, last;
    spn_limiter_stats stats;
};

static void note_refusal(void *ctx, spn_limiter_reason reason,
                         const spn_limiter_stats *stats)
{
    struct refusals *r = ctx;

    r->count++;
    r->last = (int)reason;
    r->stats = *stats;
}

/* So many in flight, so many waiting, the rest refused at once with the reason. */
TEST(limiter__at_the_limit__waits_then_refuses, "TPE-66")
{
    struct counted t[4] = { COUNTED, COUNTED, COUNTED, COUNTED };
    struct refusals refusals = { 0 };
    spn_manual_executor *m = manual();
    spn_limiter_opts opts = limits(spn_manual_executor_executor(m), 2, 1);
    spn_limiter *limiter;

    opts.refused = note_refusal;
    opts.ctx = &refusals;
    limiter = limiter_with(&opts);
    CHECK_OK(execute(limiter, &t[0]));
    CHECK_STATUS(execute(limiter, &t[0]), SPN_EBUSY);
    CHECK_OK(execute(limiter, &t[1]));
    CHECK_OK(execute(limiter, &t[2]));
    CHECK_EQ(spn_manual_executor_pending(m), 2);
    CHECK_STATUS(execute(limiter, &t[3]), SPN_EREJECTED);
    CHECK_EQ(refusals.count, 1);
    CHECK_EQ(refusals.last, SPN_LIMITER_FULL);
    CHECK_EQ(refusals.stats.in_flight, 2);
    CHECK_EQ(refusals.stats.waiting, 1);
    CHECK_EQ(refusals.stats.refused_full, 1);
    CHECK_STATUS(spn_limiter_destroy(limiter), SPN_EBUSY);

    CHECK_EQ(spn_manual_executor_run(m, 1), 1); /* hands the third over */
    CHECK_EQ(spn_manual_executor_pending(m), 2);
    CHECK_OK(execute(limiter, &t[3])); /* not touched by the refusal */
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(atomic_load(&t[i].runs), 1);
    CHECK_EQ(stats_of(limiter).completed, 4);
    CHECK_EQ(stats_of(limiter).in_flight, 0);
    CHECK_EQ(stats_of(limiter).peak_in_flight, 2);
    CHECK_EQ(stats_of(limiter).peak_waiting, 1);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* Those that wait have their turn in the order they came. */
TEST(limiter__many_wait__first_come_first_served, "TPE-18")
{
    struct counted t[20] = { 0 };
    spn_manual_executor *m = manual();
    spn_limiter_opts opts = limits(spn_manual_executor_executor(m), 1, 19);
    spn_limiter *limiter = limiter_with(&opts);

    for (int i = 0; i < 20; i++) {
        t[i] = (struct counted)COUNTED;
        CHECK_OK(execute(limiter, &t[i]));
    }
    atomic_store(&order, 0);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(t[i].order, i + 1);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* Once so many tasks have been there, nothing is allocated for a task; for handing over
 * and refusing it never is. */
TEST(limiter__used_before__allocates_nothing, "LIM-1", "LIM-3")
{
    struct counted a = COUNTED, b = COUNTED, c = COUNTED;
    spn_manual_executor *m = manual();
    spn_limiter_opts opts = limits(spn_manual_executor_executor(m), 1, 1);
    spn_limiter *limiter = limiter_with(&opts);
    long before;

    CHECK(spn_thread_current() != NULL); /* has a record */
    CHECK_OK(execute(limiter, &a));
    CHECK_OK(execute(limiter, &b));
    for (int i = 0; i < 2; i++) {
        before = atomic_load(&counting_allocs);
        CHECK_STATUS(execute(limiter, &c), SPN_EREJECTED);
        CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
        CHECK_EQ(atomic_load(&counting_allocs), before);
        CHECK_OK(execute(limiter, &a));
        CHECK_OK(execute(limiter, &b));
        CHECK_EQ(atomic_load(&counting_allocs), before);
    }
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* A task that fails or ends its thread gives its permit back. */
static int end_thread(spn_task *task)
{
    (void)run_counted(task);
    pthread_exit(NULL);
}

TEST(limiter__task_fails_or_ends_its_thread__permit_is_back, "G-21")
{
    struct counted failing = COUNTED, dying = COUNTED, last = COUNTED;
    spn_pool_opts pool_opts = spn_pool_opts_fixed(1, -1);
    spn_limiter_opts opts;
    spn_limiter *limiter;
    spn_pool *pool;

    REQUIRE_OK(spn_pool_create(&pool, &pool_opts));
    opts = limits(spn_pool_executor(pool), 1, 2);
    limiter = limiter_with(&opts);
    failing.code = -3;
    dying.job.task.fn = end_thread;
    CHECK_OK(execute(limiter, &failing));
    CHECK_OK(execute(limiter, &dying));
    CHECK_OK(execute(limiter, &last));
    T_AWAIT(stats_of(limiter).in_flight == 0);
    CHECK_EQ(stats_of(limiter).failed, 2);
    CHECK_EQ(stats_of(limiter).completed, 1);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

struct ending {
    spn_limiter *limiter;
    spn_pool *pool;
    atomic_int told;
};

static int end_thread_call(void *arg, void **result)
{
    (void)arg;
    (void)result;
    pthread_exit(NULL);
}

/* On the worker whose task is gone: in the pool still, and in nothing that was on its stack. */
static void look_around(spn_future *f, void *arg)
{
    struct ending *e = arg;

    (void)f;
    CHECK_EQ(spn_executor_is_inside(spn_limiter_executor(e->limiter)), 0);
    CHECK_EQ(spn_executor_is_inside(spn_pool_executor(e->pool)), 1);
    CHECK_EQ(stats_of(e->limiter).in_flight, 1); /* the innermost is told first */
    CHECK_STATUS(spn_future_fail(-5, "of no call"), -5);
    atomic_store(&e->told, 1);
}

/* A future in a limiter over a pool ends the worker's thread: it fails, then the permit is
 * back, and the worker has left both. */
TEST(limiter__future_ends_its_thread__innermost_told_first, "G-21")
{
    spn_pool_opts pool_opts = spn_pool_opts_fixed(1, -1);
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    struct ending e = { .told = 0 };
    spn_limiter_opts limiter_opts;
    spn_future *f;

    REQUIRE_OK(spn_pool_create(&e.pool, &pool_opts));
    limiter_opts = limits(spn_pool_executor(e.pool), 1, 2);
    e.limiter = limiter_with(&limiter_opts);
    opts.done = look_around;
    opts.done_arg = &e;
    REQUIRE_OK(spn_executor_submit_with(spn_limiter_executor(e.limiter),
                                        end_thread_call, NULL, &opts, &f));
    CHECK_STATUS(spn_future_get(f, NULL, SPN_FOREVER), SPN_EFAILED);
    T_AWAIT(stats_of(e.limiter).in_flight == 0);
    CHECK_EQ(atomic_load(&e.told), 1);
    CHECK_EQ(stats_of(e.limiter).failed, 1);
    spn_future_unref(f);
    CHECK_OK(spn_limiter_destroy(e.limiter));
    CHECK_OK(spn_pool_close(e.pool));
    CHECK_OK(spn_pool_destroy(e.pool));
}

/* Over an executor that runs at once, any number that wait are handed over without
 * recursion. */
enum { FLOOD = 20000 };
static spn_limiter *flooded;
static spn_task flood[FLOOD];
static int flood_ran;
static uintptr_t lowest, highest;

static int run_flood(spn_task *task)
{
    /* Of the real stack: a sanitizer may keep variables elsewhere. */
    const uintptr_t at = (uintptr_t)__builtin_frame_address(0);

    (void)task;
    flood_ran++;
    lowest = at < lowest ? at : lowest;
    highest = at > highest ? at : highest;
    return 0;
}

static int start_flood(spn_task *task)
{
    (void)task;
    for (int i = 0; i < FLOOD; i++) {
        flood[i] = (spn_task)SPN_TASK_INIT(run_flood, NULL);
        CHECK_OK(spn_executor_execute(spn_limiter_executor(flooded), &flood[i]));
    }
    CHECK_EQ(flood_ran, 0); /* it has the one permit itself */
    return 0;
}

TEST(limiter__direct_executor_behind__no_recursion, "CF-40")
{
    spn_limiter_opts opts = limits(spn_executor_direct(), 1, FLOOD);
    spn_task first = SPN_TASK_INIT(start_flood, NULL);

    flooded = limiter_with(&opts);
    flood_ran = 0;
    lowest = UINTPTR_MAX;
    highest = 0;
    CHECK_OK(spn_executor_execute(spn_limiter_executor(flooded), &first));
    CHECK_EQ(flood_ran, FLOOD);
    CHECK(highest - lowest < 4096);
    CHECK_EQ(stats_of(flooded).completed, FLOOD + 1);
    CHECK_OK(spn_limiter_destroy(flooded));
}

/* ---- taking back, refusing behind, the end -------------------------------------------------- */

/* Taken back from here and from behind; its permit goes to the next. */
TEST(limiter__remove__only_what_has_not_started, "TPE-43")
{
    struct counted a = COUNTED, b = COUNTED, c = COUNTED, stranger = COUNTED;
    spn_manual_executor *m = manual();
    spn_limiter_opts opts = limits(spn_manual_executor_executor(m), 1, 2);
    spn_limiter *limiter = limiter_with(&opts);

    CHECK_OK(execute(limiter, &a));
    CHECK_OK(execute(limiter, &b));
    CHECK_OK(execute(limiter, &c));
    CHECK_EQ(take_back(limiter, &stranger), 0);
    CHECK_EQ(take_back(limiter, &b), 1); /* waited here */
    CHECK_EQ(take_back(limiter, &b), 0);
    CHECK_EQ(take_back(limiter, &a), 1);         /* was behind */
    CHECK_EQ(spn_manual_executor_pending(m), 1); /* c, in its place */
    CHECK_OK(execute(limiter, &a));
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_EQ(take_back(limiter, &a), 0);
    CHECK_EQ(atomic_load(&a.runs) + atomic_load(&c.runs), 2);
    CHECK_EQ(atomic_load(&b.runs) + atomic_load(&b.drops) + atomic_load(&a.drops), 0);
    CHECK_EQ(stats_of(limiter).returned, 2);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* Refused behind at once: as if it had never come.  Refused after a wait: dropped. */
TEST(limiter__executor_behind_refuses__told_or_dropped, "TPE-66", "P30")
{
    struct counted a = COUNTED, b = COUNTED, c = COUNTED;
    spn_manual_executor *m = manual();
    spn_limiter_opts opts = limits(spn_manual_executor_executor(m), 1, 1);
    spn_limiter *limiter = limiter_with(&opts);

    CHECK_OK(execute(limiter, &a));
    CHECK_OK(execute(limiter, &b));
    CHECK_OK(spn_executor_shutdown(spn_manual_executor_executor(m)));
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_EQ(atomic_load(&a.runs), 1);
    CHECK_EQ(atomic_load(&b.drops), 1);
    CHECK_EQ(b.reason, SPN_EREJECTED);
    CHECK_STATUS(execute(limiter, &c), SPN_EREJECTED);
    CHECK_EQ(atomic_load(&c.drops), 0);
    CHECK_EQ(stats_of(limiter).refused_behind, 1);
    CHECK_EQ(stats_of(limiter).accepted, 2);
    CHECK_EQ(stats_of(limiter).dropped, 1);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}

static int await_call(void *limiter)
{
    return spn_executor_await(spn_limiter_executor(limiter), SPN_FOREVER);
}

/* Shut down, it takes no more; those that wait still run, and then it has ended. */
TEST(limiter__shutdown__drains, "TPE-50", "TPE-47", "TPE-60")
{
    struct counted a = COUNTED, b = COUNTED, c = COUNTED;
    spn_manual_executor *m = manual();
    spn_limiter_opts opts = limits(spn_manual_executor_executor(m), 1, 1);
    spn_limiter *limiter = limiter_with(&opts);
    spn_executor *executor = spn_limiter_executor(limiter);
    struct peer p;

    CHECK_EQ(spn_executor_get_state(executor), SPN_EXECUTOR_RUNNING);
    CHECK_OK(execute(limiter, &a));
    CHECK_OK(execute(limiter, &b));
    CHECK_OK(spn_executor_shutdown(executor));
    CHECK_EQ(spn_executor_get_state(executor), SPN_EXECUTOR_SHUTDOWN);
    CHECK_STATUS(execute(limiter, &c), SPN_ESHUTDOWN);
    CHECK_STATUS(spn_executor_await(executor, 0), SPN_ETIMEDOUT);
    peer_start(&p, await_call, limiter);
    peer_await_blocked(&p);
    CHECK_STATUS(spn_limiter_destroy(limiter), SPN_EBUSY);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(spn_executor_is_terminated(executor), 1);
    CHECK_EQ(atomic_load(&a.runs) + atomic_load(&b.runs), 2);
    CHECK_EQ(stats_of(limiter).refused_shutdown, 1);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}

static int returned;

static void note_returned(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    struct counted *const *expected = ctx;

    (void)fn;
    (void)arg;
    CHECK(task == &expected[returned]->job.task);
    returned++;
}

/* shutdown_now gives back what has not started, in order, from here and from behind. */
TEST(limiter__shutdown_now__gives_back_in_order, "TPE-52", "TPE-54", "TPE-55")
{
    struct counted a = COUNTED, b = COUNTED, c = COUNTED;
    struct counted *expected[] = { &a, &b, &c };
    spn_manual_executor *m = manual();
    spn_limiter_opts opts = limits(spn_manual_executor_executor(m), 2, 1);
    spn_limiter *limiter = limiter_with(&opts);
    int64_t count = 0;

    CHECK_OK(execute(limiter, &a));
    CHECK_OK(execute(limiter, &b));
    CHECK_OK(execute(limiter, &c));
    returned = 0;
    CHECK_OK(spn_executor_shutdown_now(spn_limiter_executor(limiter), note_returned,
                                       expected, &count));
    CHECK_EQ(count, 3);
    CHECK_EQ(returned, 3);
    CHECK_EQ(spn_manual_executor_pending(m), 0);
    CHECK_OK(spn_executor_await(spn_limiter_executor(limiter), 0));
    CHECK_EQ(stats_of(limiter).returned, 3);
    CHECK_OK(
        spn_executor_shutdown_now(spn_limiter_executor(limiter), NULL, NULL, &count));
    CHECK_EQ(count, 0);
    CHECK_OK(spn_limiter_destroy(limiter));

    limiter = limiter_with(&opts); /* and without a receiver they are dropped */
    CHECK_OK(execute(limiter, &a));
    CHECK_OK(
        spn_executor_shutdown_now(spn_limiter_executor(limiter), NULL, NULL, &count));
    CHECK_EQ(atomic_load(&a.drops), 1);
    CHECK_EQ(a.reason, SPN_ESHUTDOWN);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}

static spn_limiter *own;

static int awaits_own(void *arg)
{
    (void)arg;
    CHECK_STATUS(spn_executor_await(spn_limiter_executor(own), SPN_FOREVER),
                 SPN_EDEADLK);
    CHECK_STATUS(spn_limiter_destroy(own), SPN_EBUSY);
    return 0;
}

/* A task cannot await the end of its own limiter. */
TEST(limiter__await_from_a_task__refused, "TPE-59")
{
    spn_limiter_opts opts = limits(spn_executor_direct(), 1, 0);

    own = limiter_with(&opts);
    CHECK_OK(spn_executor_call(spn_limiter_executor(own), awaits_own, NULL));
    CHECK_OK(spn_limiter_destroy(own));
}

/* ---- by time --------------------------------------------------------------------------------- */

struct timed {
    spn_manual_executor *m;
    spn_clock *clock;
    spn_limiter *limiter;
    struct counted tasks[64];
    int next;
};

/* A target of 5 ms and an interval of 100 ms. */
static void begin_timed(struct timed *t)
{
    spn_limiter_opts opts;

    memset(t, 0, sizeof *t);
    t->m = manual();
    REQUIRE_OK(spn_clock_create_manual(&t->clock, SPN_SEC(1)));
    opts = limits(spn_manual_executor_executor(t->m), 64, 0);
    opts.target_ns = SPN_MS(5);
    opts.clock = t->clock;
    t->limiter = limiter_with(&opts);
}

static void end_timed(struct timed *t)
{
    CHECK(spn_manual_executor_run(t->m, INT64_MAX) >= 0);
    CHECK_EQ(stats_of(t->limiter).in_flight, 0);
    CHECK_OK(spn_limiter_destroy(t->limiter));
    CHECK_OK(spn_clock_destroy(t->clock));
    CHECK_OK(spn_manual_executor_destroy(t->m));
}

static int arrive(struct timed *t)
{
    struct counted *c = &t->tasks[t->next++ % 64];

    *c = (struct counted)COUNTED;
    return execute(t->limiter, c);
}

static void pass(struct timed *t, int64_t ns)
{
    CHECK_OK(spn_clock_advance(t->clock, ns));
}

static void serve(struct timed *t)
{
    CHECK_EQ(spn_manual_executor_run(t->m, 1), 1);
}

/* A queue that drains within an interval is no reason, however long it was. */
TEST(limiter__short_burst__not_refused, "TPE-66")
{
    struct timed t;

    begin_timed(&t);
    for (int interval = 0; interval < 5; interval++) {
        for (int i = 0; i < 10; i++)
            CHECK_OK(arrive(&t));
        for (int i = 0; i < 10; i++) {
            pass(&t, SPN_MS(9)); /* the last one waits 90 ms */
            serve(&t);
        }
        CHECK_OK(arrive(&t)); /* and this one hardly */
        serve(&t);
        pass(&t, SPN_MS(11));
    }
    CHECK_EQ(stats_of(t.limiter).refused_delay, 0);
    end_timed(&t);
}

/* When everybody who starts during an interval has waited too long, it refuses at once;
 * when somebody starts in time again, it stops refusing. */
TEST(limiter__standing_queue__refused_until_it_drains, "TPE-66")
{
    struct timed t;

    begin_timed(&t);
    /* Twenty in the queue, then one comes and one is served every 10 ms: each waits
     * about 200 ms. */
    for (int i = 0; i < 20; i++)
        CHECK_OK(arrive(&t));
    for (int i = 0; i < 9; i++) {
        pass(&t, SPN_MS(10));
        serve(&t);
        CHECK_OK(arrive(&t)); /* the first interval is not over */
    }
    for (int i = 0; i < 12; i++) {
        pass(&t, SPN_MS(10));
        serve(&t);
        (void)arrive(&t);
    }
    CHECK_EQ(stats_of(t.limiter).overloaded, 1);
    CHECK(stats_of(t.limiter).refused_delay > 0);
    CHECK(stats_of(t.limiter).delay_ns > SPN_MS(5));
    CHECK_STATUS(arrive(&t), SPN_EREJECTED);
    /* Served until none waits: the next is welcome. */
    while (spn_manual_executor_pending(t.m) != 0)
        serve(&t);
    CHECK_OK(arrive(&t));
    CHECK_EQ(stats_of(t.limiter).overloaded, 0);
    end_timed(&t);
}

/* While a queue still stands, an interval in which somebody started in time ends it. */
TEST(limiter__starts_in_time_again__accepts, "TPE-66")
{
    struct timed t;

    begin_timed(&t);
    CHECK_OK(arrive(&t));
    CHECK_OK(arrive(&t));
    pass(&t, SPN_MS(50));
    serve(&t); /* waited 50 ms: the only one that starts in its interval */
    pass(&t, SPN_MS(100));
    CHECK_STATUS(arrive(&t), SPN_EREJECTED);
    serve(&t); /* none waits any more */
    CHECK_OK(arrive(&t));
    serve(&t); /* at once */
    CHECK_OK(arrive(&t));
    pass(&t, SPN_MS(100));
    CHECK_OK(arrive(&t)); /* though one has waited 100 ms: the least was 0 */
    end_timed(&t);
}

/* When nothing starts at all, the one that has waited longest speaks for the others. */
TEST(limiter__nothing_starts__refused, "TPE-66")
{
    struct timed t;

    begin_timed(&t);
    CHECK_OK(arrive(&t));
    pass(&t, SPN_MS(101)); /* more than the interval that began with it */
    CHECK_STATUS(arrive(&t), SPN_EREJECTED);
    CHECK_EQ(stats_of(t.limiter).refused_delay, 1);
    CHECK(stats_of(t.limiter).delay_ns == SPN_MS(101));
    end_timed(&t);
}

/* After a pause of any length, an idle limiter takes what comes. */
TEST(limiter__idle_after_overload__accepts, "TPE-66")
{
    struct timed t;

    begin_timed(&t);
    CHECK_OK(arrive(&t));
    pass(&t, SPN_MS(60));
    serve(&t);
    pass(&t, SPN_SEC(3600));
    CHECK_OK(arrive(&t));
    end_timed(&t);
}

/* ---- over pools --------------------------------------------------------------------------------- */

enum { WIDTH = 3, EACH = 400 };

struct storm {
    spn_limiter *limiter;
    atomic_int running, most, ran, refused, taken_back;
};

struct storm_task {
    spn_task task; /* first */
    struct storm *storm;
    atomic_int runs;
};

static int run_storm(spn_task *task)
{
    struct storm_task *t = (struct storm_task *)(void *)task;
    const int now = atomic_fetch_add(&t->storm->running, 1) + 1;
    int most = atomic_load(&t->storm->most);

    while (now > most && !atomic_compare_exchange_weak(&t->storm->most, &most, now))
        ;
    atomic_fetch_add(&t->runs, 1);
    atomic_fetch_add(&t->storm->ran, 1);
    atomic_fetch_sub(&t->storm->running, 1);
    return 0;
}

static void storm_thread(int index, void *arg)
{
    static struct storm_task tasks[T_THREADS][EACH];
    uint64_t seed = t_seed() + (uint64_t)index;
    struct storm *s = arg;
    int accepted = 0, back = 0, ran = 0;

    for (int i = 0; i < EACH; i++) {
        struct storm_task *t = &tasks[index][i];
        int rc;

        t->task = (spn_task)SPN_TASK_INIT(run_storm, NULL);
        t->storm = s;
        atomic_init(&t->runs, 0);
        rc = spn_executor_execute(spn_limiter_executor(s->limiter), &t->task);
        CHECK(rc == SPN_OK || rc == SPN_EREJECTED);
        accepted += rc == SPN_OK;
        if (rc == SPN_OK && t_random(&seed) % 4 == 0)
            back += spn_executor_remove(spn_limiter_executor(s->limiter), &t->task);
    }
    atomic_fetch_add(&s->refused, EACH - accepted);
    atomic_fetch_add(&s->taken_back, back);
    T_AWAIT(stats_of(s->limiter).in_flight == 0 && stats_of(s->limiter).waiting == 0);
    for (int i = 0; i < EACH; i++) {
        CHECK(atomic_load(&tasks[index][i].runs) <= 1);
        ran += atomic_load(&tasks[index][i].runs);
    }
    CHECK_EQ(ran, accepted - back);
}

/* Many submit to and take back from a limiter over a wider pool: never more than the limit
 * run, each runs once, and in the end every gauge is 0 and the counters balance. */
TEST(limiter__storm_over_a_pool__exact, "G-20", "TPE-40")
{
    spn_pool_opts pool_opts = spn_pool_opts_fixed(WIDTH + 2, -1);
    spn_pool *pool;

    REQUIRE_OK(spn_pool_create(&pool, &pool_opts));
    for (int round = 0; round < t_rounds(20); round++) {
        spn_limiter_opts opts = limits(spn_pool_executor(pool), WIDTH, 5);
        struct storm s = { .limiter = limiter_with(&opts) };
        spn_limiter_stats stats;

        t_parallel(T_THREADS, storm_thread, &s);
        stats = stats_of(s.limiter);
        CHECK(atomic_load(&s.most) <= WIDTH);
        CHECK_EQ(stats.in_flight, 0);
        CHECK_EQ(stats.waiting, 0);
        CHECK_EQ(stats.completed, atomic_load(&s.ran));
        CHECK_EQ(stats.returned, atomic_load(&s.taken_back));
        CHECK_EQ(stats.refused_full, atomic_load(&s.refused));
        CHECK_EQ(stats.accepted + stats.refused_full, T_THREADS * EACH);
        CHECK_OK(spn_limiter_destroy(s.limiter));
    }
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

static int give(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* Futures and groups work through it, and a future cancelled while it waits is taken
 * back by its group. */
TEST(limiter__futures_and_groups__work_through_it, "FUT-35")
{
    spn_manual_executor *m = manual();
    spn_limiter_opts opts = limits(spn_manual_executor_executor(m), 1, 2);
    spn_limiter *limiter = limiter_with(&opts);
    spn_future *f, *g;
    spn_group *group;
    void *value;

    REQUIRE_OK(spn_group_create(&group, NULL));
    REQUIRE_OK(spn_executor_submit(spn_limiter_executor(limiter), give, &opts, &f));
    REQUIRE_OK(spn_group_submit(group, spn_limiter_executor(limiter), give, NULL, &g));
    CHECK_EQ(spn_future_cancel(g, 0), 1);
    CHECK_EQ(stats_of(limiter).waiting, 0);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK(value == &opts);
    CHECK_OK(spn_group_destroy(group));
    spn_future_unref(f);
    spn_future_unref(g);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* Deadline, owner and label of a job reach the pool behind. */
TEST(limiter__jobs__keep_their_attributes, "TPE-43")
{
    spn_pool_opts pool_opts = spn_pool_opts_fixed(1, -1);
    struct counted late = COUNTED, owned = COUNTED;
    spn_limiter_opts opts;
    spn_limiter *limiter;
    spn_pool *pool;

    REQUIRE_OK(spn_pool_create(&pool, &pool_opts));
    opts = limits(spn_pool_executor(pool), 2, 0);
    limiter = limiter_with(&opts);
    CHECK_OK(spn_pool_pause(pool));
    late.job.deadline_ns = 1;
    owned.job.owner = &owned;
    CHECK_OK(execute(limiter, &late));
    CHECK_OK(execute(limiter, &owned));
    CHECK_EQ(spn_pool_cancel_owner(pool, &owned), 1);
    CHECK_EQ(atomic_load(&owned.drops), 1);
    CHECK_EQ(owned.reason, SPN_ECANCELED);
    CHECK_OK(spn_pool_resume(pool));
    T_AWAIT(atomic_load(&late.drops) == 1);
    CHECK_EQ(late.reason, SPN_ETIMEDOUT);
    T_AWAIT(stats_of(limiter).in_flight == 0);
    CHECK_EQ(stats_of(limiter).dropped, 2);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}
