/* SPDX-License-Identifier: MIT */
/*
 * waits.h - every call of the library that waits and can be interrupted, as a
 * table, so that one test proves a rule for all of them.  A new wait is one row.
 *
 * open    makes an object on which the wait has to wait
 * wait    the call, with a timeout
 * release makes what one wait waits for happen, from any thread
 * intact  the object is as open made it: nothing taken, nobody queued
 * close   destroys it, which also proves that nobody is left waiting
 */
#ifndef WAITS_H
#define WAITS_H

#include <stdatomic.h>

#include <spindle/cancel.h>
#include <spindle/clock.h>
#include <spindle/future.h>
#include <spindle/group.h>
#include <spindle/latch.h>
#include <spindle/limiter.h>
#include <spindle/park.h>
#include <spindle/pool.h>
#include <spindle/semaphore.h>
#include <spindle/thread.h>

#include "peer.h"
#include "pool_calls.h"
#include "test.h"

struct subject {
    spn_latch *latch;
    spn_semaphore *semaphore;
    spn_future *future;
    spn_cancel_token *token;
    spn_group *group;
    spn_limiter *limiter;
    spn_manual_executor *manual; /* of the group's task */
    spn_clock *clock;
    spn_thread *target;
    atomic_int gate;     /* the target ends when it is 1 */
    int32_t permits;     /* one acquire takes */
    struct peer sleeper; /* await_sleepers: the one it waits for */
    int sleeper_started;
    spn_pool *pool;
    atomic_int room; /* of its queue, as a release has set it */
};

enum { WAIT_HAS_RELEASE = 1, WAIT_REAL_TIME = 2 };

struct wait_kind {
    const char *name;
    void (*open)(struct subject *s);
    int (*wait)(struct subject *s, int64_t timeout_ns);
    void (*release)(struct subject *s);
    bool (*intact)(struct subject *s);
    void (*close)(struct subject *s);
    int expired;    /* what the wait returns when its time is over */
    unsigned flags; /* WAIT_REAL_TIME: the timeout runs by itself */
};

/* ---- latch -------------------------------------------------------------- */

static inline void latch_open(struct subject *s)
{
    REQUIRE_OK(spn_latch_create(&s->latch, 1));
}

static inline int latch_wait(struct subject *s, int64_t timeout_ns)
{
    return spn_latch_await(s->latch, timeout_ns);
}

static inline void latch_release(struct subject *s)
{
    CHECK_OK(spn_latch_count_down(s->latch));
}

static inline bool latch_intact(struct subject *s)
{
    return spn_latch_count(s->latch) == 1;
}

static inline void latch_close(struct subject *s)
{
    CHECK_OK(spn_latch_destroy(s->latch));
}

/* ---- semaphore ---------------------------------------------------------- */

static inline void semaphore_open(struct subject *s, uint32_t fair, int32_t permits)
{
    spn_semaphore_opts opts = SPN_SEMAPHORE_OPTS_INIT;

    opts.fair = fair;
    s->permits = permits;
    REQUIRE_OK(spn_semaphore_create(&s->semaphore, &opts));
}

static inline void unfair_open(struct subject *s)
{
    semaphore_open(s, 0, 1);
}

static inline void fair_open(struct subject *s)
{
    semaphore_open(s, 1, 1);
}

static inline void bulk_open(struct subject *s)
{
    semaphore_open(s, 1, 3);
}

static inline int semaphore_wait(struct subject *s, int64_t timeout_ns)
{
    return spn_semaphore_acquire(s->semaphore, s->permits, timeout_ns);
}

static inline void semaphore_release(struct subject *s)
{
    CHECK_OK(spn_semaphore_release(s->semaphore, s->permits));
}

/* No permit appeared, and one that is added is not swallowed by a waiter that
 * has gone. */
static inline bool semaphore_intact(struct subject *s)
{
    return spn_semaphore_available(s->semaphore) == 0 &&
           spn_semaphore_release(s->semaphore, s->permits) == SPN_OK &&
           spn_semaphore_available(s->semaphore) == s->permits &&
           spn_semaphore_acquire(s->semaphore, s->permits, 0) == SPN_OK;
}

static inline void semaphore_close(struct subject *s)
{
    CHECK_OK(spn_semaphore_destroy(s->semaphore));
}

/* ---- future ------------------------------------------------------------- */

static inline void future_open(struct subject *s)
{
    REQUIRE_OK(spn_future_create(&s->future, NULL));
}

static inline int future_wait(struct subject *s, int64_t timeout_ns)
{
    return spn_future_get(s->future, NULL, timeout_ns);
}

static inline void future_release(struct subject *s)
{
    CHECK(spn_future_complete(s->future, NULL) >= 0); /* again: 0, and no harm */
}

static inline bool future_intact(struct subject *s)
{
    return spn_future_get_state(s->future) == SPN_FUTURE_PENDING &&
           spn_future_dependents(s->future) == 0;
}

static inline void future_close(struct subject *s)
{
    spn_future_unref(s->future);
}

/* ---- join --------------------------------------------------------------- */

static inline int wait_for_gate(void *arg)
{
    struct subject *s = arg;

    while (atomic_load(&s->gate) == 0)
        spn_park(&s->gate);
    return 7;
}

static inline void join_open(struct subject *s)
{
    atomic_store(&s->gate, 0);
    REQUIRE_OK(spn_thread_create(&s->target, NULL, wait_for_gate, s));
}

static inline int join_wait(struct subject *s, int64_t timeout_ns)
{
    int result = -99;
    const int rc = spn_thread_join(s->target, timeout_ns, &result);

    CHECK_EQ(result, rc == SPN_OK ? 7 : -99);
    return rc;
}

static inline void join_release(struct subject *s)
{
    atomic_store(&s->gate, 1);
    spn_unpark(s->target);
}

static inline bool join_intact(struct subject *s)
{
    return spn_thread_is_interrupted(s->target) == 0 &&
           spn_thread_join(s->target, 0, NULL) == SPN_ETIMEDOUT;
}

static inline void join_close(struct subject *s)
{
    join_release(s);
    CHECK_OK(spn_thread_join(s->target, SPN_FOREVER, NULL));
    spn_thread_unref(s->target);
}

/* ---- clocks ------------------------------------------------------------- */

static inline int64_t saturating_deadline(spn_clock *clock, int64_t timeout_ns)
{
    const int64_t now = spn_clock_now(clock);

    if (timeout_ns <= 0)
        return timeout_ns == 0 ? now : timeout_ns; /* long past */
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

static inline int sleep_wait(struct subject *s, int64_t timeout_ns)
{
    return spn_clock_sleep_until(s->clock, saturating_deadline(s->clock, timeout_ns));
}

static inline void monotonic_open(struct subject *s)
{
    s->clock = spn_clock_monotonic();
}

static inline bool monotonic_intact(struct subject *s)
{
    return spn_clock_now(s->clock) > 0;
}

static inline void no_close(struct subject *s)
{
    (void)s;
}

static inline void manual_open(struct subject *s)
{
    REQUIRE_OK(spn_clock_create_manual(&s->clock, SPN_SEC(5)));
}

/* Moves the clock as far as it goes; only a deadline of SPN_FOREVER is beyond. */
static inline void manual_release(struct subject *s)
{
    CHECK_OK(spn_clock_advance(s->clock, INT64_MAX - 1 - spn_clock_now(s->clock)));
}

static inline bool manual_intact(struct subject *s)
{
    return spn_clock_now(s->clock) == SPN_SEC(5) &&
           spn_clock_advance_to_next(s->clock, NULL) == SPN_EEMPTY;
}

static inline void manual_close(struct subject *s)
{
    CHECK_OK(spn_clock_destroy(s->clock));
}

static inline int await_sleepers_wait(struct subject *s, int64_t timeout_ns)
{
    return spn_clock_await_sleepers(s->clock, 1, timeout_ns);
}

static inline int sleep_long(void *arg)
{
    struct subject *s = arg;
    return spn_clock_sleep_until(s->clock, SPN_SEC(1000));
}

static inline void sleepers_release(struct subject *s)
{
    if (s->sleeper_started == 0) {
        s->sleeper_started = 1;
        peer_start(&s->sleeper, sleep_long, s);
    }
}

static inline void sleepers_close(struct subject *s)
{
    if (s->sleeper_started != 0) {
        manual_release(s);
        CHECK_OK(peer_finish(&s->sleeper));
    }
    manual_close(s);
}

/* The sleep of a manual clock is asked for with a deadline that advance can
 * reach: SPN_FOREVER is further away than any clock goes. */
static inline int manual_wait(struct subject *s, int64_t timeout_ns)
{
    const int64_t deadline = saturating_deadline(s->clock, timeout_ns);
    return spn_clock_sleep_until(s->clock,
                                 deadline == INT64_MAX ? INT64_MAX - 1 : deadline);
}

/* ---- pools ---------------------------------------------------------------- */

/* Without threads: it ends in shutdown. */
static inline void pool_open(struct subject *s)
{
    REQUIRE_OK(spn_pool_create(&s->pool, NULL));
}

static inline int pool_wait(struct subject *s, int64_t timeout_ns)
{
    return pool_await(s->pool, timeout_ns);
}

static inline int executor_wait(struct subject *s, int64_t timeout_ns)
{
    return pool_await(s->pool, timeout_ns);
}

static inline void pool_release(struct subject *s)
{
    CHECK_OK(pool_shutdown(s->pool));
}

static inline bool pool_intact(struct subject *s)
{
    return pool_is_shutdown(s->pool) == 0 && pool_stats(s->pool).threads == 0;
}

static inline void pool_close(struct subject *s)
{
    CHECK_OK(pool_shutdown(s->pool));
    CHECK_OK(pool_await(s->pool, SPN_FOREVER));
    CHECK_OK(spn_pool_destroy(s->pool));
}

/* The block policy: execute on a paused pool whose queue is full.  Each waiter
 * brings its own timeout; 0 is the policy's default, so "do not wait" is negative. */
static _Thread_local int64_t block_timeout_ns;

static inline int block_here(const spn_reject_policy *policy, spn_pool *pool,
                             spn_task *task, const spn_refusal *why)
{
    const spn_reject_block block =
        SPN_REJECT_BLOCK_INIT(block_timeout_ns == 0 ? -1 : block_timeout_ns);

    (void)policy;
    return block.policy.refused(&block.policy, pool, task, why);
}

static inline int run_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static inline void block_open(struct subject *s)
{
    static const spn_reject_policy policy = { sizeof policy, "here", block_here };
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;

    opts.core_threads = opts.max_threads = 1;
    opts.queue_capacity = 2;
    opts.reject = &policy;
    REQUIRE_OK(spn_pool_create(&s->pool, &opts));
    REQUIRE(spn_pool_prestart(s->pool, SPN_DEFAULT) == 1);
    T_AWAIT(pool_stats(s->pool).parked == 1); /* the worker sleeps */
    REQUIRE_OK(spn_pool_pause(s->pool));
    atomic_store(&s->room, 2);
    for (int i = 0; i < 2; i++)
        CHECK_OK(spn_executor_call(spn_pool_executor(s->pool), run_nothing, NULL));
}

static inline int block_wait(struct subject *s, int64_t timeout_ns)
{
    block_timeout_ns = timeout_ns;
    return spn_executor_call(spn_pool_executor(s->pool), run_nothing, NULL);
}

/* Room for one more. */
static inline void block_release(struct subject *s)
{
    const int32_t room = atomic_fetch_add(&s->room, 1) + 1;

    CHECK_OK(pool_set_capacity(s->pool, room));
}

static inline bool block_intact(struct subject *s)
{
    return pool_stats(s->pool).queued == 2 && pool_tasks(s->pool) == 2 &&
           pool_ended(s->pool) == 0;
}

/* ---- tokens, groups, limiters ------------------------------------------------ */

static inline void token_open(struct subject *s)
{
    REQUIRE_OK(spn_cancel_token_create(&s->token, NULL));
}

static inline int token_wait(struct subject *s, int64_t timeout_ns)
{
    return spn_cancel_token_wait(s->token, timeout_ns);
}

static inline void token_release(struct subject *s)
{
    CHECK(spn_cancel_token_cancel(s->token, -1) >= 0);
}

static inline bool token_intact(struct subject *s)
{
    return spn_cancel_token_is_cancelled(s->token) == 0;
}

static inline void token_close(struct subject *s)
{
    spn_cancel_token_unref(s->token);
}

static inline int group_work(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 0;
}

static inline void group_open(struct subject *s)
{
    REQUIRE_OK(spn_manual_executor_create(&s->manual));
    REQUIRE_OK(spn_group_create(&s->group, NULL));
    REQUIRE_OK(spn_group_submit(s->group, spn_manual_executor_executor(s->manual),
                                group_work, NULL, NULL));
}

static inline int group_wait(struct subject *s, int64_t timeout_ns)
{
    return spn_group_wait(s->group, timeout_ns);
}

static inline void group_release(struct subject *s)
{
    CHECK(spn_manual_executor_run(s->manual, INT64_MAX) >= 0);
}

static inline bool group_intact(struct subject *s)
{
    spn_group_stats stats = SPN_GROUP_STATS_INIT;

    return spn_group_stats_get(s->group, &stats) == SPN_OK && stats.live == 1;
}

static inline void group_close(struct subject *s)
{
    (void)spn_group_cancel(s->group, -1, 0);
    CHECK_OK(spn_group_destroy(s->group));
    CHECK_OK(spn_manual_executor_destroy(s->manual));
}

static inline void limiter_open(struct subject *s)
{
    spn_limiter_opts opts = SPN_LIMITER_OPTS_INIT;

    opts.executor = spn_executor_direct();
    opts.max_in_flight = 1;
    REQUIRE_OK(spn_limiter_create(&s->limiter, &opts));
}

static inline int limiter_wait(struct subject *s, int64_t timeout_ns)
{
    return spn_executor_await(spn_limiter_executor(s->limiter), timeout_ns);
}

static inline void limiter_release(struct subject *s)
{
    CHECK_OK(spn_executor_shutdown(spn_limiter_executor(s->limiter)));
}

static inline bool limiter_intact(struct subject *s)
{
    return spn_executor_is_shutdown(spn_limiter_executor(s->limiter)) == 0;
}

static inline void limiter_close(struct subject *s)
{
    CHECK_OK(spn_limiter_destroy(s->limiter));
}

static const struct wait_kind wait_kinds[] = {
    { "latch await", latch_open, latch_wait, latch_release, latch_intact, latch_close,
      SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "semaphore acquire, unfair", unfair_open, semaphore_wait, semaphore_release,
      semaphore_intact, semaphore_close, SPN_ETIMEDOUT,
      WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "semaphore acquire, fair", fair_open, semaphore_wait, semaphore_release,
      semaphore_intact, semaphore_close, SPN_ETIMEDOUT,
      WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "semaphore acquire of three", bulk_open, semaphore_wait, semaphore_release,
      semaphore_intact, semaphore_close, SPN_ETIMEDOUT,
      WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "future get", future_open, future_wait, future_release, future_intact,
      future_close, SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "thread join", join_open, join_wait, join_release, join_intact, join_close,
      SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "sleep on the monotonic clock", monotonic_open, sleep_wait, NULL,
      monotonic_intact, no_close, SPN_OK, WAIT_REAL_TIME },
    { "sleep on a manual clock", manual_open, manual_wait, manual_release,
      manual_intact, manual_close, SPN_OK, WAIT_HAS_RELEASE },
    { "await sleepers", manual_open, await_sleepers_wait, sleepers_release,
      manual_intact, sleepers_close, SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "pool await", pool_open, pool_wait, pool_release, pool_intact, pool_close,
      SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "executor await", pool_open, executor_wait, pool_release, pool_intact, pool_close,
      SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "a pool's block policy", block_open, block_wait, block_release, block_intact,
      pool_close, SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "token wait", token_open, token_wait, token_release, token_intact, token_close,
      SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "group wait", group_open, group_wait, group_release, group_intact, group_close,
      SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
    { "limiter await", limiter_open, limiter_wait, limiter_release, limiter_intact,
      limiter_close, SPN_ETIMEDOUT, WAIT_HAS_RELEASE | WAIT_REAL_TIME },
};
enum { WAIT_KINDS = (int)(sizeof wait_kinds / sizeof wait_kinds[0]) };

/* One wait as a peer's call. */
struct wait_call {
    const struct wait_kind *kind;
    struct subject subject;
    int64_t timeout_ns;
};

static inline int wait_call_run(void *arg)
{
    struct wait_call *c = arg;
    return c->kind->wait(&c->subject, c->timeout_ns);
}

static inline void wait_call_open(struct wait_call *c, const struct wait_kind *kind,
                                  int64_t timeout_ns)
{
    memset(c, 0, sizeof *c);
    c->kind = kind;
    c->timeout_ns = timeout_ns;
    kind->open(&c->subject);
}

/* Prints the row a failed check belongs to. */
static inline void name_row(const struct wait_kind *kind, int64_t timeout_ns, bool ok)
{
    if (!ok)
        fprintf(stderr, "  in: %s, timeout %lld ns\n", kind->name,
                (long long)timeout_ns);
}

#endif /* WAITS_H */
