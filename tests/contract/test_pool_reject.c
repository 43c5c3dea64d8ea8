/* SPDX-License-Identifier: MIT */
/* test_pool_reject.c - what the rejection policies do with a task that does not fit. */
#include "cause.h"
#include "full_pool.h"
#include "peer.h"
#include "test.h"

#include <spindle/clock.h>
#include <spindle/future.h>
#include <spindle/log.h>

/* A full pool with a policy, and a task for it. */
static void start_full(struct full_pool *f, const spn_reject_policy *policy, int queued,
                       struct item *item)
{
    const spn_pool_opts opts = full_pool_opts(policy, queued);

    full_pool_start(f, &opts);
    item_init(item);
}

/* ---- abort, discard --------------------------------------------------------------- */

/* Abort leaves the task its submitter's: not run, not dropped, not queued. */
TEST(pool_reject__abort__task_untouched, "TPE-76", "TPE-82")
{
    const spn_pool_opts opts = full_pool_opts(NULL, 2);
    struct full_pool f;
    struct item item;

    full_pool_start(&f, &opts);
    item_init(&item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    CHECK_EQ(item.task.queued, 0);
    CHECK_EQ(pool_stats(f.pool).queued, 2);
    CHECK_EQ(pool_stats(f.pool).rejected, 1);
    CHECK_EQ(pool_stats(f.pool).accepted, 3);
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&item.runs) + atomic_load(&item.drops), 0);
}

/* Discard says SPN_OK, and drops the task once, with the reason. */
TEST(pool_reject__discard__dropped_and_ok, "TPE-76")
{
    struct full_pool f;
    struct item item;

    start_full(&f, spn_reject_discard(), 1, &item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    CHECK_EQ(atomic_load(&item.drops), 1);
    CHECK_EQ(atomic_load(&item.reason), SPN_EREJECTED);
    CHECK_EQ(item.task.queued, 0);
    CHECK_EQ(pool_stats(f.pool).dropped, 1);
    CHECK_EQ(pool_stats(f.pool).rejected, 0);
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&item.runs), 0);
}

static int done_null(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* A submitted task that is discarded does not leave its future pending for ever: it
 * fails with the reason. */
TEST(pool_reject__submitted_task_discarded__future_fails, "TPE-81")
{
    const spn_reject_policy *policies[] = { spn_reject_discard(),
                                            spn_reject_discard_oldest() };

    for (size_t i = 0; i < 2; i++) {
        const spn_pool_opts opts = full_pool_opts(policies[i], 1);
        struct full_pool f;
        struct item item;
        spn_future *future;
        void *value;
        int code = 0;

        full_pool_start(&f, &opts);
        if (i == 0) {
            REQUIRE_OK(spn_executor_submit(f.executor, done_null, NULL, &future));
        } else { /* it goes in the place of another, and is the oldest then */
            REQUIRE_OK(spn_executor_submit(f.executor, done_null, NULL, &future));
            item_init(&item);
            CHECK_OK(spn_executor_execute(f.executor, &item.task));
        }
        CHECK_STATUS(spn_future_get(future, &value, SPN_NOWAIT), SPN_EFAILED);
        CHECK(spn_future_get_state(future) != SPN_FUTURE_PENDING);
        CHECK_OK(t_cause(future, &code, NULL, 0));
        CHECK_STATUS(code, SPN_EREJECTED);
        spn_future_unref(future);
        full_pool_stop(&f);
    }
}

/* ---- caller runs --------------------------------------------------------------------- */

/* The submitter runs it before execute returns. */
TEST(pool_reject__caller_runs__runs_here_and_now, "TPE-76")
{
    struct full_pool f;
    struct item item;

    start_full(&f, spn_reject_caller_runs(), 1, &item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    CHECK_EQ(atomic_load(&item.runs), 1);
    CHECK(pthread_equal(item.thread, pthread_self()));
    CHECK_EQ(pool_stats(f.pool).caller_ran, 1);
    CHECK_EQ(pool_stats(f.pool).accepted, 2); /* the blocker and the queued one */
    CHECK(spn_pool_current() == NULL);
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&item.drops), 0);
}

static atomic_int uncaught;

static void note_uncaught(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    CHECK(ctx == &uncaught);
    atomic_store(&uncaught, info->status);
}

/* A failure of a task that its submitter ran reaches the uncaught hook, as others do;
 * execute still says SPN_OK: the task has run. */
TEST(pool_reject__caller_runs_failing_task__told_to_the_hook, "TPE-73", "TPE-76")
{
    spn_pool_opts opts = full_pool_opts(spn_reject_caller_runs(), 0);
    struct full_pool f;
    struct item item;

    opts.hooks.uncaught = note_uncaught;
    opts.hooks.ctx = &uncaught;
    atomic_store(&uncaught, 0);
    full_pool_start(&f, &opts);
    item_init(&item);
    item.code = 42;
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    CHECK_EQ(atomic_load(&uncaught), 42);
    full_pool_stop(&f);
}

/* On a pool that was shut down, caller-runs drops the task instead. */
TEST(pool_reject__caller_runs_after_shutdown__dropped, "TPE-77")
{
    const spn_pool_opts opts = full_pool_opts(spn_reject_caller_runs(), 1);
    struct full_pool f;
    struct item item;

    full_pool_start(&f, &opts);
    CHECK_OK(pool_shutdown(f.pool));
    item_init(&item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    CHECK_EQ(atomic_load(&item.runs), 0);
    CHECK_EQ(atomic_load(&item.drops), 1);
    CHECK_EQ(atomic_load(&item.reason), SPN_ESHUTDOWN);
    full_pool_stop(&f);
}

/* A job whose time is over is not run late by its submitter. */
TEST(pool_reject__caller_runs_expired_job__dropped, "TPE-76")
{
    const spn_pool_opts opts = full_pool_opts(spn_reject_caller_runs(), 0);
    struct full_pool f;
    struct {
        spn_job job;
        struct item item;
    } late = { .job = SPN_JOB_INIT(item_run, item_drop) };

    full_pool_start(&f, &opts);
    memset(&late.item, 0, sizeof late.item);
    late.job.deadline_ns = 1;
    CHECK_OK(spn_executor_execute(f.executor, &late.job.task));
    CHECK_EQ(pool_stats(f.pool).expired, 1);
    CHECK_EQ(pool_stats(f.pool).caller_ran, 0);
    full_pool_stop(&f);
}

/* ---- discard the oldest ------------------------------------------------------------------ */

/* r2 waits, r3 comes: r2 is dropped and never runs, r3 is queued. */
TEST(pool_reject__discard_oldest__takes_its_place, "TPE-78")
{
    const spn_pool_opts opts = full_pool_opts(spn_reject_discard_oldest(), 1);
    struct full_pool f;
    struct item r3;
    spn_task *queued;

    full_pool_start(&f, &opts);
    item_init(&r3);
    CHECK_OK(spn_executor_execute(f.executor, &r3.task));
    CHECK_EQ(atomic_load(&f.items[0].drops), 1);
    CHECK_EQ(atomic_load(&f.items[0].reason), SPN_EREJECTED);
    CHECK_EQ(f.items[0].task.queued, 0);
    CHECK_EQ(spn_pool_snapshot(f.pool, &queued, 1), 1);
    CHECK(queued == &r3.task);
    CHECK_EQ(pool_stats(f.pool).dropped, 1);
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&f.items[0].runs), 0);
    CHECK_EQ(atomic_load(&r3.runs), 1);
}

/* On a pool that was shut down the new one is dropped, and those that wait stay. */
TEST(pool_reject__discard_oldest_after_shutdown__new_one_dropped, "TPE-79")
{
    const spn_pool_opts opts = full_pool_opts(spn_reject_discard_oldest(), 2);
    struct full_pool f;
    struct item item;

    full_pool_start(&f, &opts);
    CHECK_OK(pool_shutdown(f.pool));
    item_init(&item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    CHECK_EQ(atomic_load(&item.drops), 1);
    CHECK_EQ(atomic_load(&item.reason), SPN_ESHUTDOWN);
    CHECK_EQ(pool_stats(f.pool).queued, 2);
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&f.items[0].runs), 1);
}

/* With nothing to drop the new one is refused, at once. */
TEST(pool_reject__discard_oldest_without_queue__refused, "TPE-80")
{
    struct full_pool f;
    struct item item;

    start_full(&f, spn_reject_discard_oldest(), 0, &item);
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    CHECK_EQ(atomic_load(&item.drops), 0);
    CHECK_EQ(pool_stats(f.pool).rejected, 1);
    full_pool_stop(&f);
}

static spn_executor *refill;
static struct item refills[64];
static int refilled;

/* Puts another one into the place it leaves. */
static void drop_and_refill(spn_task *task, int reason)
{
    (void)task;
    CHECK_EQ(reason, SPN_EREJECTED);
    if (refilled < 64) {
        item_init(&refills[refilled]);
        refills[refilled].task.drop = drop_and_refill;
        refilled++;
        CHECK_OK(spn_executor_execute(refill, &refills[refilled - 1].task));
    }
}

/* A drop that submits again cannot keep the pool from getting to an end. */
TEST(pool_reject__discard_oldest_drop_submits__bounded, "TPE-80")
{
    const spn_pool_opts opts = full_pool_opts(spn_reject_discard_oldest(), 1);
    struct full_pool f;
    struct item item;

    full_pool_start(&f, &opts);
    f.items[0].task.drop = drop_and_refill;
    atomic_store(&f.items[0].drops, 1); /* told by the other drop */
    refill = f.executor;
    refilled = 0;
    item_init(&item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    CHECK_EQ(pool_stats(f.pool).queued, 1);
    full_pool_stop(&f);
}

/* ---- a thread of its own ------------------------------------------------------------------ */

/* The task runs elsewhere than here and in the pool, though the pool is stuck. */
TEST(pool_reject__new_thread__runs_on_its_own, "S-6")
{
    struct full_pool f;
    struct item item;

    start_full(&f, spn_reject_new_thread(), 1, &item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    T_AWAIT(atomic_load(&item.runs) == 1);
    CHECK(!pthread_equal(item.thread, pthread_self()));
    CHECK_EQ(pool_stats(f.pool).threads, 1);
    CHECK_EQ(pool_stats(f.pool).caller_ran, 1);
    CHECK_OK(pool_shutdown(f.pool));
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&item.runs), 1);
}

/* ---- block -------------------------------------------------------------------------------- */

struct submission {
    struct full_pool *f;
    struct item item;
};

static int submit_item(void *arg)
{
    struct submission *s = arg;

    return spn_executor_execute(s->f->executor, &s->item.task);
}

/* A submitter that waits for room in a full pool. */
static void start_submitter(struct peer *p, struct submission *s, struct full_pool *f)
{
    s->f = f;
    item_init(&s->item);
    peer_start(p, submit_item, s);
    peer_await_blocked(p);
    CHECK_EQ(atomic_load(&p->done), 0);
}

/* The submitter waits until the queue has a place, and then the task is in it. */
TEST(pool_reject__block__waits_for_a_place, "S-6", "P9")
{
    const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    const spn_pool_opts opts = full_pool_opts(&block.policy, 1);
    struct submission s;
    struct full_pool f;
    struct peer p;

    full_pool_start(&f, &opts);
    start_submitter(&p, &s, &f);
    CHECK_EQ(pool_stats(f.pool).rejected, 0);
    CHECK_OK(spn_latch_count_down(f.gate));
    CHECK_OK(peer_finish(&p));
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&s.item.runs), 1);
}

/* By default it waits: more than a moment, up to a minute (the explorer has time). */
TEST(pool_reject__block_by_default__waits, "S-6")
{
    const spn_reject_block block = SPN_REJECT_BLOCK_INIT(0);
    const spn_pool_opts opts = full_pool_opts(&block.policy, 1);
    struct submission s;
    struct full_pool f;
    struct peer p;

    full_pool_start(&f, &opts);
    start_submitter(&p, &s, &f);
    CHECK(peer_still_waits(&p));
    CHECK_EQ(pool_remove(f.pool, &f.items[0].task), 1);
    atomic_store(&f.items[0].drops, 1);
    CHECK_OK(peer_finish(&p)); /* a task that is taken back leaves a place */
    full_pool_stop(&f);
}

/* No room in time: SPN_ETIMEDOUT, not before the time is over; negative is no time. */
TEST(pool_reject__block_times_out__refused, "S-6", "P30")
{
    const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_MS(20));
    const spn_reject_block none = SPN_REJECT_BLOCK_INIT(-1);
    struct full_pool f;
    struct item item;
    int64_t began_ns;

    start_full(&f, &block.policy, 1, &item);
    began_ns = spn_now();
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_ETIMEDOUT);
    CHECK(spn_now() - began_ns >= SPN_MS(20));
    CHECK_OK(pool_set_reject(f.pool, &none.policy));
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_ETIMEDOUT);
    CHECK_EQ(item.task.queued, 0);
    CHECK_EQ(pool_stats(f.pool).rejected, 2);
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&item.runs) + atomic_load(&item.drops), 0);
}

/* An interrupt ends the wait. */
TEST(pool_reject__block_interrupted__says_so, "G-10")
{
    const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    const spn_pool_opts opts = full_pool_opts(&block.policy, 1);
    struct submission s;
    struct full_pool f;
    struct peer p;

    full_pool_start(&f, &opts);
    start_submitter(&p, &s, &f);
    CHECK_OK(spn_thread_interrupt(p.thread));
    CHECK_STATUS(peer_finish(&p), SPN_EINTR);
    CHECK_EQ(p.flag_after, 0);
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&s.item.runs) + atomic_load(&s.item.drops), 0);
}

/* Shutdown ends the wait with the refusal a shut-down pool gives. */
TEST(pool_reject__block_shut_down__refused, "TPE-82")
{
    const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);

    for (int now = 0; now < 2; now++) {
        const spn_pool_opts opts = full_pool_opts(&block.policy, 1);
        struct submission s;
        struct full_pool f;
        struct peer p;

        full_pool_start(&f, &opts);
        start_submitter(&p, &s, &f);
        if (now)
            CHECK_OK(pool_shutdown_now(f.pool, NULL, NULL, NULL));
        else
            CHECK_OK(pool_shutdown(f.pool));
        CHECK_STATUS(peer_finish(&p), SPN_EREJECTED);
        if (now) /* the blocker was interrupted */
            atomic_store(&f.items[0].drops, 1);
        full_pool_stop(&f);
    }
}

struct self_submit {
    spn_task task;
    spn_executor *executor;
    struct item item;
    atomic_int rc, done;
};

static int submit_to_itself(spn_task *task)
{
    struct self_submit *s = (struct self_submit *)(void *)task;

    atomic_store(&s->rc, spn_executor_execute(s->executor, &s->item.task));
    atomic_store(&s->done, 1);
    return 0;
}

/* A task that would wait for room in its own pool is told so, and does not hang. */
TEST(pool_reject__block_in_own_worker__deadlock_told, "P9")
{
    const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    const spn_pool_opts opts = full_pool_opts(&block.policy, 0);
    struct self_submit s = { .task = SPN_TASK_INIT(submit_to_itself, NULL) };
    spn_pool *pool;

    REQUIRE_OK(spn_pool_create(&pool, &opts));
    s.executor = spn_pool_executor(pool);
    item_init(&s.item);
    REQUIRE_OK(spn_executor_execute(s.executor, &s.task));
    T_AWAIT(atomic_load(&s.done) == 1);
    CHECK_OK(spn_pool_close(pool));
    CHECK_EQ(atomic_load(&s.rc), SPN_EDEADLK);
    CHECK_EQ(atomic_load(&s.item.runs), 0);
    check_law(pool);
    CHECK_OK(spn_pool_destroy(pool));
}

/* Every way to make room is heard of. */
TEST(pool_reject__block__every_change_is_heard_of, "TPE-83", "S-6")
{
    const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    enum { MORE_THREADS, MORE_PLACES, FREE_THREAD, WAYS };

    for (int way = 0; way < WAYS; way++) {
        const spn_pool_opts opts =
            full_pool_opts(&block.policy, way == FREE_THREAD ? 0 : 1);
        struct submission s;
        struct full_pool f;
        struct peer p;

        full_pool_start(&f, &opts);
        start_submitter(&p, &s, &f);
        if (way == MORE_THREADS)
            CHECK_OK(pool_set_max(f.pool, 2));
        else if (way == MORE_PLACES)
            CHECK_OK(pool_set_capacity(f.pool, 2));
        else
            CHECK_OK(spn_latch_count_down(f.gate));
        CHECK_OK(peer_finish(&p));
        full_pool_stop(&f);
        CHECK_EQ(atomic_load(&s.item.runs), 1);
    }
}

/* ---- chains, and policies of one's own --------------------------------------------------- */

struct own_policy {
    spn_reject_policy policy; /* first */
    int calls, result;
    spn_pool *pool;
    spn_task *task;
    pthread_t thread;
    spn_refusal why;
    spn_pool_stats stats;
};

static int own_refused(const spn_reject_policy *policy, spn_pool *pool, spn_task *task,
                       const spn_refusal *why)
{
    struct own_policy *own = (struct own_policy *)(uintptr_t)policy;

    own->calls++;
    own->pool = pool;
    own->task = task;
    own->thread = pthread_self();
    own->why = *why;
    own->stats = (spn_pool_stats)SPN_POOL_STATS_INIT;
    CHECK_OK(spn_refusal_stats(why, &own->stats));
    return own->result;
}

static struct own_policy own_policy(int result)
{
    return (struct own_policy){
        .policy = { sizeof(spn_reject_policy), "own", own_refused },
        .result = result,
    };
}

/* A policy of the program's own: once per refused task, on the submitter's thread, with
 * the pool, the reason and a picture; what it says is what execute says. */
TEST(pool_reject__own_policy__called_once_with_the_facts, "TPE-82")
{
    const int results[] = { SPN_OK, SPN_EREJECTED, SPN_EPERM };

    for (size_t i = 0; i < 3; i++) {
        struct own_policy own = own_policy(results[i]);
        const spn_pool_opts opts = full_pool_opts(&own.policy, 2);
        struct full_pool f;
        struct item item;

        full_pool_start(&f, &opts);
        item_init(&item);
        CHECK_STATUS(spn_executor_execute(f.executor, &item.task), results[i]);
        CHECK_EQ(own.calls, 1);
        CHECK(own.pool == f.pool);
        CHECK(own.task == &item.task);
        CHECK(pthread_equal(own.thread, pthread_self()));
        CHECK_EQ(own.why.reason, SPN_REFUSED_FULL);
        CHECK_EQ(own.stats.queued, 2);
        CHECK_EQ(own.stats.active, 1);
        CHECK_EQ(own.stats.capacity, 2);
        CHECK(own.why.refused_at_ns <= spn_now());
        CHECK_OK(pool_shutdown(f.pool));
        CHECK_STATUS(spn_executor_execute(f.executor, &item.task), results[i]);
        CHECK_EQ(own.calls, 2);
        CHECK_EQ(own.why.reason, SPN_REFUSED_SHUTDOWN);
        full_pool_stop(&f);
    }
}

/* Makes room, and hands the task over again. */
static int retry(const spn_reject_policy *policy, spn_pool *pool, spn_task *task,
                 const spn_refusal *why)
{
    (void)policy;
    (void)why;
    CHECK_OK(pool_set_capacity(pool, 2));
    return spn_executor_execute(spn_pool_executor(pool), task);
}

/* Puts it into the program's own queue. */
static spn_queue *own_queue;

static int put_directly(const spn_reject_policy *policy, spn_pool *pool, spn_task *task,
                        const spn_refusal *why)
{
    int rc = spn_task_claim(task);

    (void)policy;
    (void)pool;
    (void)why;
    if (rc == SPN_OK)
        rc = spn_queue_put(own_queue, task, SPN_FOREVER);
    return rc;
}

/* A policy may submit the task again, or put it into the queue itself: it runs. */
TEST(pool_reject__policy_tries_again__task_runs, "TPE-83")
{
    const spn_reject_policy again = { sizeof again, "retry", retry };
    const spn_reject_policy direct = { sizeof direct, "direct", put_directly };
    spn_pool_opts opts = full_pool_opts(&again, 1);
    spn_queue_opts queue_opts = SPN_QUEUE_OPTS_INIT;
    struct full_pool f;
    struct item item;

    full_pool_start(&f, &opts);
    item_init(&item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    CHECK_EQ(pool_stats(f.pool).queued, 2);
    full_pool_stop(&f);
    CHECK_EQ(atomic_load(&item.runs), 1);

    queue_opts.capacity = 1;
    REQUIRE_OK(spn_queue_create(&own_queue, SPN_QUEUE_LINKED, &queue_opts));
    opts = full_pool_opts(&direct, 1);
    opts.queue = own_queue;
    full_pool_start(&f, &opts);
    item_init(&item);
    CHECK_OK(spn_latch_count_down(f.gate)); /* there will be a place for put */
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    T_AWAIT(atomic_load(&item.runs) == 1);
    CHECK_OK(spn_pool_close(f.pool));
    CHECK_OK(spn_pool_destroy(f.pool));
    CHECK_OK(spn_latch_destroy(f.gate));
    CHECK_OK(spn_queue_destroy(own_queue));
}

/* A chain asks in turn until one says SPN_OK; if none does, the last one's word is it. */
TEST(pool_reject__chain__first_ok_or_last_word, "S-6")
{
    struct own_policy a = own_policy(SPN_EREJECTED), b = own_policy(SPN_EPERM);
    const spn_reject_policy *list[] = { &a.policy, NULL, &b.policy,
                                        spn_reject_caller_runs() };
    spn_reject_chain chain = SPN_REJECT_CHAIN_INIT(list, 4);
    struct full_pool f;
    struct item item;

    start_full(&f, &chain.policy, 1, &item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    CHECK_EQ(a.calls, 1);
    CHECK_EQ(b.calls, 1);
    CHECK_EQ(atomic_load(&item.runs), 1);
    chain.count = 3;
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EPERM);
    CHECK_EQ(b.calls, 2);
    a.result = SPN_EINTR; /* the submitter must hear of it */
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EINTR);
    CHECK_EQ(b.calls, 2);
    chain.count = 0; /* an empty one aborts */
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    chain.policies = NULL;
    chain.count = 3;
    CHECK_STATUS(spn_executor_execute(f.executor, &item.task), SPN_EREJECTED);
    full_pool_stop(&f);
}

/* Block first, then a thread of its own: what dubbo's users write. */
TEST(pool_reject__chain_block_then_new_thread__runs, "S-6")
{
    const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_MS(5));
    const spn_reject_policy *list[] = { &block.policy, spn_reject_new_thread() };
    const spn_reject_chain chain = SPN_REJECT_CHAIN_INIT(list, 2);
    struct full_pool f;
    struct item item;

    start_full(&f, &chain.policy, 1, &item);
    CHECK_OK(spn_executor_execute(f.executor, &item.task));
    T_AWAIT(atomic_load(&item.runs) == 1);
    full_pool_stop(&f);
}

/* ---- called by hand ------------------------------------------------------------------------- */

/* Called directly on an idle pool, a policy changes nothing of the pool. */
TEST(pool_reject__called_directly_on_idle_pool__pool_unchanged, "TPE-76")
{
    const spn_reject_policy *policies[] = { spn_reject_abort(), spn_reject_discard(),
                                            spn_reject_caller_runs(),
                                            spn_reject_new_thread() };
    const spn_pool_opts opts = full_pool_opts(NULL, 1);

    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        const spn_refusal why = { .reason = SPN_REFUSED_FULL };
        struct item item;
        spn_pool *pool;

        REQUIRE_OK(spn_pool_create(&pool, &opts));
        item_init(&item);
        CHECK_STATUS(policies[i]->refused(policies[i], pool, &item.task, &why),
                     i == 0 ? SPN_EREJECTED : SPN_OK);
        T_AWAIT(atomic_load(&item.runs) == (i > 1));
        CHECK_EQ(pool_stats(pool).queued, 0);
        CHECK_EQ(pool_tasks(pool), 0);
        CHECK_EQ(pool_stats(pool).threads, 0);
        CHECK_OK(spn_pool_close(pool));
        check_law(pool);
        CHECK_OK(spn_pool_destroy(pool));
    }
}

/* Each has a name for logs. */
TEST(pool_reject__names__are_there, "TPE-82")
{
    CHECK_STR(spn_reject_abort()->name, "abort");
    CHECK_STR(spn_reject_caller_runs()->name, "caller_runs");
    CHECK_STR(spn_reject_discard()->name, "discard");
    CHECK_STR(spn_reject_discard_oldest()->name, "discard_oldest");
    CHECK_STR(spn_reject_new_thread()->name, "new_thread");
}

/* No thread lives and none can be made: abort and block say SPN_EAGAIN at once. */
static int no_thread(const spn_thread_factory *factory, spn_thread **out,
                     spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    (void)opts;
    (void)fn;
    (void)arg;
    *out = NULL;
    return SPN_EAGAIN;
}

TEST(pool_reject__no_thread_to_be_had__told_at_once, "TPE-82")
{
    const spn_reject_block block = SPN_REJECT_BLOCK_INIT(SPN_FOREVER);
    const spn_reject_policy *policies[] = { spn_reject_abort(), &block.policy,
                                            spn_reject_discard_oldest() };
    const spn_thread_factory factory = { sizeof factory, no_thread };

    for (size_t i = 0; i < 3; i++) {
        spn_pool_opts opts = full_pool_opts(policies[i], 1);
        struct item item;
        spn_pool *pool;

        opts.factory = &factory;
        REQUIRE_OK(spn_pool_create(&pool, &opts));
        item_init(&item);
        CHECK_STATUS(spn_executor_execute(spn_pool_executor(pool), &item.task),
                     SPN_EAGAIN);
        CHECK_EQ(item.task.queued, 0);
        CHECK_OK(spn_pool_close(pool));
        check_law(pool);
        CHECK_OK(spn_pool_destroy(pool));
    }
}
