/* SPDX-License-Identifier: MIT */
/* test_pool_shutdown.c - the end of a pool: shutdown, shutdown_now, await, close,
 * drain. */
#include "pools.h"

#include <spindle/park.h>

static int give_back(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* ---- states ------------------------------------------------------------------------ */

/* States only grow, and the questions agree with them at every step. */
TEST_EACH(pool__through_its_life__states_only_grow, "TPE-47", "TPE-48", "TPE-49",
          "TPE-58")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[2];

    pieces_init(p, 2, NULL);
    p[0].gate = gate;
    start(b.pool, &p[0]);
    CHECK_OK(execute(b.pool, &p[1]));
    CHECK_EQ(pool_stats(b.pool).state, SPN_EXECUTOR_RUNNING);
    CHECK_EQ(pool_is_shutdown(b.pool), 0);
    CHECK_EQ(pool_is_terminating(b.pool), 0);
    CHECK_EQ(pool_is_terminated(b.pool), 0);
    CHECK_OK(pool_shutdown(b.pool));
    CHECK_EQ(pool_stats(b.pool).state, SPN_EXECUTOR_SHUTDOWN);
    CHECK_EQ(spn_executor_get_state(spn_pool_executor(b.pool)), SPN_EXECUTOR_SHUTDOWN);
    CHECK_EQ(pool_is_shutdown(b.pool), 1);
    CHECK_EQ(pool_is_terminating(b.pool), 1);
    CHECK_EQ(pool_is_terminated(b.pool), 0); /* one runs, one is queued */
    CHECK_STATUS(spn_pool_destroy(b.pool), SPN_EBUSY);
    CHECK_EQ(atomic_load(&p[0].interrupted), 0);
    CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, NULL));
    CHECK_EQ(pool_stats(b.pool).state, SPN_EXECUTOR_STOP);
    CHECK_EQ(pool_is_terminated(b.pool), 0); /* it still runs */
    CHECK_OK(pool_shutdown(b.pool));         /* does not go back */
    CHECK_EQ(pool_stats(b.pool).state, SPN_EXECUTOR_STOP);
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    check_terminated(b.pool);
    bed_close(&b);
    gate_free(gate);
}

/* A pool that was never used ends inside shutdown. */
TEST_EACH(pool__never_used__ends_in_shutdown, "TPE-51", "P44")
{
    for (int now = 0; now < 2; now++) {
        struct bed b = bed_open(k, 2, 3);

        if (now == 0)
            CHECK_OK(pool_shutdown(b.pool));
        else
            CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, NULL));
        CHECK_EQ(pool_is_shutdown(b.pool), 1);
        CHECK_EQ(pool_is_terminated(b.pool), 1);
        CHECK_EQ(pool_is_terminating(b.pool), 0);
        bed_close(&b);
    }
}

struct hook {
    atomic_int calls;
    int shut, terminating, terminated, awaited, state, threads;
};

static void on_terminated(spn_pool *pool, void *ctx)
{
    struct hook *h = ctx;

    h->shut = pool_is_shutdown(pool);
    h->terminating = pool_is_terminating(pool);
    h->terminated = pool_is_terminated(pool);
    h->awaited = pool_await(pool, 0);
    h->state = (int)pool_stats(pool).state;
    h->threads = pool_stats(pool).threads;
    (void)pool_shutdown(pool); /* from a hook: no harm */
    (void)pool_shutdown_now(pool, NULL, NULL, NULL);
    atomic_fetch_add(&h->calls, 1);
}

/* The terminated hook runs once, before await returns, and sees a pool that is
 * terminating and not terminated. */
TEST_EACH(pool__terminated_hook__once_and_before_the_end, "TPE-51", "TPE-56", "TPE-57",
          "TPE-75")
{
    for (int used = 0; used < 2; used++) {
        spn_pool_opts opts = opts_of(2, 2, 0);
        struct hook h = { 0 };
        struct piece p[4];
        struct bed b;

        opts.hooks.terminated = on_terminated;
        opts.hooks.ctx = &h;
        b = bed_with(k, opts, SPN_UNBOUNDED);
        pieces_init(p, 4, NULL);
        for (int i = 0; i < 4 && used != 0; i++)
            CHECK_OK(execute(b.pool, &p[i]));
        CHECK_EQ(atomic_load(&h.calls), 0);
        CHECK_OK(pool_shutdown(b.pool));
        if (used == 0)
            CHECK_EQ(atomic_load(&h.calls), 1); /* synchronously */
        CHECK_OK(pool_await(b.pool, SPN_FOREVER));
        CHECK_EQ(atomic_load(&h.calls), 1);
        CHECK_EQ(h.shut, 1);
        CHECK_EQ(h.terminating, 1);
        CHECK_EQ(h.terminated, 0);
        CHECK_STATUS(h.awaited, SPN_ETIMEDOUT);
        CHECK_EQ(h.state, SPN_EXECUTOR_TIDYING);
        CHECK_EQ(h.threads, 0);
        CHECK_OK(pool_shutdown(b.pool)); /* no-ops now */
        CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, NULL));
        CHECK_EQ(atomic_load(&h.calls), 1);
        bed_close(&b);
    }
}

/* ---- shutdown ------------------------------------------------------------------------ */

/* shutdown lets what runs and what is queued finish, uninterrupted, and takes no more. */
TEST_EACH(pool__shutdown__all_accepted_run_and_no_more, "TPE-50", "TPE-66", "TPE-61")
{
    struct bed b = bed_open(k, 2, 2);
    spn_executor *ex = spn_pool_executor(b.pool);
    spn_latch *gate = gate_new();
    struct piece p[6], late;
    spn_future *f = (void *)gate;

    pieces_init(p, 6, gate);
    piece_init(&late, NULL);
    start(b.pool, &p[0]);
    start(b.pool, &p[1]);
    for (int i = 2; i < 6; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_OK(pool_shutdown(b.pool));
    CHECK_STATUS(execute(b.pool, &late), SPN_EREJECTED);
    CHECK_STATUS(spn_executor_submit(ex, give_back, NULL, &f), SPN_EREJECTED);
    CHECK(f == NULL);
    CHECK_STATUS(pool_await(b.pool, 0), SPN_ETIMEDOUT);
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    CHECK_STATUS(execute(b.pool, &late), SPN_EREJECTED); /* terminated: the same */
    for (int i = 0; i < 6; i++) {
        CHECK(ran(&p[i]));
        CHECK_EQ(p[i].flag, 0);
        CHECK_EQ(atomic_load(&p[i].interrupted), 0);
    }
    CHECK(untouched(&late));
    CHECK_EQ(pool_stats(b.pool).rejected, 3);
    bed_close(&b);
    gate_free(gate);
}

/* Idle threads are released by shutdown. */
TEST_EACH(pool__shutdown_with_idle_threads__they_leave, "TPE-50")
{
    struct bed b = bed_open(k, 3, 3);

    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 3);
    CHECK_OK(pool_shutdown(b.pool));
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    bed_close(&b);
}

/* ---- shutdown_now --------------------------------------------------------------------- */

/* The contract's numbers: five tasks, two threads, three come back, in order, and the
 * two that run are interrupted. */
TEST_EACH(pool__shutdown_now__returns_what_never_started, "TPE-52", "TPE-54", "TPE-62")
{
    struct bed b = bed_open(k, 2, 2);
    spn_latch *gate = gate_new();
    struct left left = { .count = 0 };
    struct piece p[5];
    int64_t count = -1;

    pieces_init(p, 5, gate);
    for (int i = 0; i < 5; i++)
        p[i].heeds = 1; /* it ends when interrupted: the gate stays shut */
    start(b.pool, &p[0]);
    start(b.pool, &p[1]);
    for (int i = 2; i < 5; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_OK(pool_shutdown_now(b.pool, left_add, &left, &count));
    CHECK_EQ(count, 3);
    CHECK_EQ(left.count, 3);
    CHECK(pthread_equal(left.thread, pthread_self()));
    for (int i = 0; i < 3; i++)
        CHECK(left.tasks[i] == &p[2 + i].task);
    CHECK_EQ(pool_stats(b.pool).queued, 0);
    CHECK_EQ(pool_stats(b.pool).returned, 3);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    CHECK_EQ(atomic_load(&p[0].interrupted) + atomic_load(&p[1].interrupted), 2);
    CHECK_EQ(pool_ended(b.pool), 2);
    for (int i = 2; i < 5; i++) {
        CHECK(untouched(&p[i]));
        CHECK_EQ(p[i].task.queued, 0);
        gate_open(gate);
        CHECK_EQ(spn_task_run(&p[i].task), 0); /* the receiver's, to run */
    }
    left.count = 0;
    CHECK_OK(pool_shutdown_now(b.pool, left_add, &left, &count));
    CHECK_EQ(count, 0);
    CHECK_EQ(left.count, 0);
    bed_close(&b);
    gate_free(gate);
}

/* Without a receiver what did not start is dropped, and told why. */
TEST_EACH(pool__shutdown_now_without_receiver__dropped, "TPE-52")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[3];
    int64_t count = -1;
    spn_pool_stats s;

    pieces_init(p, 3, gate);
    start(b.pool, &p[0]);
    CHECK_OK(execute(b.pool, &p[1]));
    CHECK_OK(execute(b.pool, &p[2]));
    CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, &count));
    CHECK_EQ(count, 2);
    CHECK(dropped(&p[1], SPN_ESHUTDOWN) && dropped(&p[2], SPN_ESHUTDOWN));
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    s = pool_stats(b.pool);
    CHECK_EQ(s.returned + s.dropped, 2);
    bed_close(&b);
    gate_free(gate);
}

/* Tasks that ignore the interrupt are counted like the others, and run to their end. */
TEST_EACH(pool__shutdown_now_ignored_by_tasks__completed_counts_them, "TPE-53")
{
    struct bed b = bed_open(k, 2, 2);
    spn_latch *gate = gate_new();
    struct piece p[5];
    int64_t count;

    pieces_init(p, 5, gate);
    start(b.pool, &p[0]);
    start(b.pool, &p[1]);
    for (int i = 2; i < 5; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, &count));
    CHECK_EQ(count, 3);
    CHECK_STATUS(pool_await(b.pool, 0), SPN_ETIMEDOUT);
    CHECK_EQ(pool_is_terminated(b.pool), 0);
    for (int i = 0; i < 2; i++)
        T_AWAIT(atomic_load(&p[i].interrupted) == 1);
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    CHECK_EQ(pool_ended(b.pool), 2);
    CHECK(ran(&p[0]) && ran(&p[1]));
    bed_close(&b);
    gate_free(gate);
}

/* Futures that come back are not cancelled: their receiver runs or cancels them, and
 * only then does a getter go on. */
TEST_EACH(pool__shutdown_now_of_futures__as_pending_as_before, "TPE-54")
{
    struct bed b = bed_open(k, 1, 1);
    spn_executor *ex = spn_pool_executor(b.pool);
    spn_latch *gate = gate_new();
    struct left left = { .count = 0 };
    struct piece hold;
    spn_future *f[2];
    void *value = NULL;

    piece_init(&hold, gate);
    start(b.pool, &hold);
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(spn_executor_submit(ex, give_back, &f[i], &f[i]));
    CHECK_OK(pool_shutdown_now(b.pool, left_add, &left, NULL));
    REQUIRE(left.count == 2);
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(spn_future_get_state(f[i]), SPN_FUTURE_PENDING);
        CHECK_STATUS(spn_future_get(f[i], NULL, 0), SPN_ETIMEDOUT);
    }
    CHECK_EQ(spn_task_run(left.tasks[0]), 0);
    CHECK_OK(spn_future_get(f[0], &value, 0));
    CHECK(value == &f[0]);
    CHECK_EQ(spn_future_cancel(f[1], 0), 1);
    CHECK_STATUS(spn_future_get(f[1], NULL, 0), SPN_ECANCELED);
    CHECK_OK(spn_task_drop(left.tasks[1], SPN_ECANCELED)); /* gives its reference up */
    spn_future_unref(f[0]);
    spn_future_unref(f[1]);
    bed_close(&b);
    gate_free(gate);
}

/* shutdown_now after shutdown stops what shutdown would have run. */
TEST_EACH(pool__shutdown_now_after_shutdown__stronger, "TPE-55")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[3];
    int64_t count = -1;

    pieces_init(p, 3, gate);
    p[0].heeds = 1;
    start(b.pool, &p[0]);
    CHECK_OK(execute(b.pool, &p[1]));
    CHECK_OK(execute(b.pool, &p[2]));
    CHECK_OK(pool_shutdown(b.pool));
    CHECK_EQ(atomic_load(&p[0].interrupted), 0);
    CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, &count));
    CHECK_EQ(count, 2);
    CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, &count)); /* nothing is left */
    CHECK_EQ(count, 0);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    CHECK_EQ(atomic_load(&p[0].interrupted), 1);
    bed_close(&b);
    gate_free(gate);
}

/* The receiver may hand what it gets to another pool at once. */
static void pass_on(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    CHECK_OK(spn_executor_execute(ctx, task));
}

TEST_EACH(pool__receiver_submits_elsewhere__runs_there, "TPE-54", "G-23")
{
    struct bed b = bed_open(k, 1, 1), other = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[4];

    pieces_init(p, 4, NULL);
    p[0].gate = gate;
    start(b.pool, &p[0]);
    for (int i = 1; i < 4; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_OK(pool_shutdown_now(b.pool, pass_on, spn_pool_executor(other.pool), NULL));
    gate_open(gate);
    bed_close(&b);
    bed_close(&other);
    for (int i = 0; i < 4; i++)
        CHECK(ran(&p[i]));
    CHECK(p[1].order < p[2].order && p[2].order < p[3].order);
    gate_free(gate);
}

/* ---- await ------------------------------------------------------------------------------ */

/* await on a living pool times out, never early, at once for no time at all. */
TEST(pool__await_a_living_pool__times_out, "TPE-59", "G-6", "G-7")
{
    static const int64_t timeouts[] = { INT64_MIN, -1, 0, 999999, SPN_MS(12) };
    spn_pool *pool = pool_of(1, 1, 1);

    CHECK_EQ(spn_pool_prestart(pool, 1), 1);
    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        const int64_t began = spn_now();

        CHECK_STATUS(pool_await(pool, timeouts[i]), SPN_ETIMEDOUT);
        CHECK(timeouts[i] <= 0 || spn_now() - began >= timeouts[i]);
        CHECK_EQ(pool_is_terminated(pool), 0);
    }
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(pool_await(pool, SPN_FOREVER));
    CHECK_EQ(pool_is_terminated(pool), 1);
    CHECK_OK(pool_await(pool, INT64_MIN));
    CHECK_OK(spn_pool_destroy(pool));
}

/* With no time to wait, or nothing to wait for, the flag is not looked at. */
TEST(pool__await_without_waiting__flag_untouched, "TPE-60", "G-13")
{
    spn_pool *pool = pool_of(1, 1, 1);

    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(pool_await(pool, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(pool_await(pool, -5), SPN_ETIMEDOUT);
    CHECK_EQ(spn_thread_is_interrupted(spn_thread_current()), 1);
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(pool_await(pool, SPN_FOREVER));
    CHECK_EQ(spn_thread_interrupted(), 1);
    CHECK_OK(spn_pool_destroy(pool));
}

static int await_for_ever(void *arg)
{
    return pool_await(arg, SPN_FOREVER);
}

/* Several may await, foreign threads too; one may be interrupted and the rest go on. */
TEST(pool__many_await__all_released, "TPE-60", "G-11", "G-14", "G-20")
{
    spn_pool *pool = pool_of(1, 1, 4);
    spn_latch *gate = gate_new();
    struct peer waiter[3];
    struct piece p;

    piece_init(&p, gate);
    start(pool, &p);
    peer_start(&waiter[0], await_for_ever, pool);
    peer_start_foreign(&waiter[1], await_for_ever, pool);
    peer_start(&waiter[2], await_for_ever, pool);
    for (int i = 0; i < 3; i++)
        peer_await_blocked(&waiter[i]);
    CHECK_OK(spn_thread_interrupt(waiter[2].thread));
    CHECK_STATUS(peer_finish(&waiter[2]), SPN_EINTR);
    CHECK_EQ(waiter[2].flag_after, 0);
    CHECK_OK(pool_shutdown(pool));
    CHECK(peer_still_waits(&waiter[0]));
    gate_open(gate);
    CHECK_OK(peer_finish(&waiter[0]));
    CHECK_OK(peer_finish(&waiter[1]));
    pool_close(pool);
    gate_free(gate);
}

/* ---- interrupts --------------------------------------------------------------------------- */

static void interrupt_self(struct piece *p)
{
    (void)p;
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
}

/* A task that leaves its flag set does not disturb the next one. */
TEST_EACH(pool__task_interrupts_itself__next_one_is_clean, "TPE-64")
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p[4];

    pieces_init(p, 4, NULL);
    for (int i = 0; i < 4; i++)
        p[i].act = interrupt_self;
    CHECK_OK(execute(b.pool, &p[0]));
    pool_rest(b.pool); /* now it waits, interrupted, for more */
    for (int i = 1; i < 4; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    bed_close(&b);
    for (int i = 0; i < 4; i++) {
        CHECK(ran(&p[i]));
        CHECK_EQ(p[i].flag, 0);
        CHECK_EQ(p[i].tid, p[0].tid);
    }
}

/* Threads made by this factory can be interrupted by the test. */
struct known {
    spn_thread_factory factory;
    spn_thread *_Atomic threads[8];
    atomic_int count;
};

static int make_known(const spn_thread_factory *factory, spn_thread **out,
                      spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    struct known *n = (struct known *)(uintptr_t)factory;
    const int rc = spn_thread_create(out, opts, fn, arg);

    if (rc == SPN_OK)
        atomic_store(&n->threads[atomic_fetch_add(&n->count, 1)], spn_thread_ref(*out));
    return rc;
}

/* A stray interrupt to an idle worker neither ends it nor loses a task. */
TEST_EACH(pool__idle_worker_interrupted__goes_on_waiting, "TPE-65")
{
    struct known known = { .factory = { sizeof known.factory, make_known } };
    spn_pool_opts opts = opts_of(1, 1, 0);
    struct piece p[20];
    struct bed b;

    opts.factory = &known.factory;
    b = bed_with(k, opts, SPN_UNBOUNDED);
    pieces_init(p, 20, NULL);
    CHECK_EQ(spn_pool_prestart(b.pool, 1), 1);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(spn_thread_interrupt(atomic_load(&known.threads[0])));
        CHECK_OK(execute(b.pool, &p[i]));
        T_AWAIT(ended(&p[i]) == 1);
        pool_rest(b.pool);
        CHECK_OK(spn_thread_interrupt(atomic_load(&known.threads[0])));
        if (i % 2 == 0)
            t_pause();
    }
    CHECK_EQ(pool_stats(b.pool).threads, 1);
    CHECK_EQ(pool_stats(b.pool).threads_started, 1);
    bed_close(&b);
    for (int i = 0; i < 20; i++) {
        CHECK(ran(&p[i]));
        CHECK_EQ(p[i].tid, p[0].tid);
    }
    spn_thread_unref(atomic_load(&known.threads[0]));
}

/* Whoever runs while the pool stops has been told: a task begun before sees the
 * interrupt, and the flag it starts with says which side of the stop it is on. */
static int spin_until_told(spn_task *task)
{
    struct piece *p = (struct piece *)(void *)task;

    p->flag = spn_thread_is_interrupted(spn_thread_current());
    atomic_fetch_add(&p->started, 1);
    while (spn_thread_is_interrupted(spn_thread_current()) == 0)
        t_pause();
    atomic_fetch_add(&p->ended, 1);
    return 0;
}

TEST_EACH(pool__stop_races_the_start_of_a_task__the_task_is_told, "TPE-63", "TPE-62")
{
    const int rounds = t_rounds(150);
    uint64_t seed = t_seed();

    for (int r = 0; r < rounds; r++) {
        struct bed b = bed_open(k, 2, 2);
        struct left left = { .count = 0 };
        struct piece p[4];
        int ran_count = 0;

        if (r % 2 == 0)
            CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 2);
        pieces_init(p, 4, NULL);
        for (int i = 0; i < 4; i++) {
            p[i].task.fn = spin_until_told;
            CHECK_OK(execute(b.pool, &p[i]));
        }
        for (uint64_t i = t_random(&seed) % 3; i > 0; i--)
            t_pause();
        CHECK_OK(pool_shutdown_now(b.pool, left_add, &left, NULL));
        CHECK_OK(pool_await(b.pool, SPN_FOREVER)); /* hangs if one was not told */
        for (int i = 0; i < 4; i++) {
            CHECK(started(&p[i]) == ended(&p[i]) && started(&p[i]) <= 1);
            ran_count += started(&p[i]);
        }
        CHECK_EQ(ran_count + left.count, 4);
        bed_close(&b);
    }
}

/* ---- close -------------------------------------------------------------------------------- */

/* close runs all that was accepted, waits for it, and results stay readable. */
TEST_EACH(pool__close__orderly_and_waits, "TPE-67")
{
    struct bed b = bed_open(k, 2, 2);
    spn_future *f[5];
    void *value;

    for (int i = 0; i < 5; i++)
        REQUIRE_OK(
            spn_executor_submit(spn_pool_executor(b.pool), give_back, &f[i], &f[i]));
    CHECK_OK(spn_pool_close(b.pool));
    check_terminated(b.pool);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(spn_future_get(f[i], &value, 0));
        CHECK(value == &f[i]);
        spn_future_unref(f[i]);
    }
    CHECK_OK(spn_pool_close(b.pool)); /* again: just returns */
    bed_close(&b);
}

static int close_pool(void *arg)
{
    return spn_pool_close(arg);
}

/* close on a pool that is shut down already just waits. */
TEST(pool__close_after_shutdown__waits, "TPE-67")
{
    spn_pool *pool = pool_of(1, 1, 4);
    spn_latch *gate = gate_new();
    struct peer closer;
    struct piece p[2];

    pieces_init(p, 2, gate);
    start(pool, &p[0]);
    CHECK_OK(execute(pool, &p[1]));
    CHECK_OK(pool_shutdown(pool));
    peer_start(&closer, close_pool, pool);
    peer_await_blocked(&closer);
    CHECK(peer_still_waits(&closer));
    gate_open(gate);
    CHECK_OK(peer_finish(&closer));
    CHECK_EQ(closer.flag_after, 0);
    CHECK(ran(&p[0]) && ran(&p[1]));
    pool_close(pool);
    gate_free(gate);
}

/* Interrupted, close stops the rest, still waits to the end, and hands the interrupt
 * on. */
TEST_EACH(pool__close_interrupted__stops_waits_and_keeps_the_flag, "TPE-68")
{
    for (int before = 0; before < 2; before++) {
        struct bed b = bed_open(k, 1, 1);
        spn_latch *gate = gate_new();
        struct peer closer;
        struct piece p[3];

        pieces_init(p, 3, gate);
        p[0].heeds = 1;
        start(b.pool, &p[0]);
        CHECK_OK(execute(b.pool, &p[1]));
        CHECK_OK(execute(b.pool, &p[2]));
        if (before != 0) {
            CHECK_OK(spn_thread_interrupt(spn_thread_current()));
            CHECK_OK(spn_pool_close(b.pool));
            CHECK_EQ(spn_thread_interrupted(), 1);
        } else {
            peer_start(&closer, close_pool, b.pool);
            peer_await_blocked(&closer);
            CHECK_OK(spn_thread_interrupt(closer.thread));
            CHECK_OK(peer_finish(&closer));
            CHECK_EQ(closer.flag_after, 1);
        }
        check_terminated(b.pool);
        CHECK_EQ(atomic_load(&p[0].interrupted), 1);
        CHECK(dropped(&p[1], SPN_ESHUTDOWN) && dropped(&p[2], SPN_ESHUTDOWN));
        bed_close(&b);
        gate_free(gate);
    }
}

/* close on a pool with nothing to wait for leaves the flag alone. */
TEST(pool__close_a_terminated_pool_interrupted__flag_stays, "TPE-68")
{
    spn_pool *pool = pool_of(1, 1, 4);

    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_OK(spn_pool_close(pool));
    CHECK_EQ(spn_thread_interrupted(), 1);
    CHECK_OK(spn_pool_destroy(pool));
}

/* ---- drain -------------------------------------------------------------------------------- */

/* drain gives queued work its time; what ends in time is all run. */
TEST_EACH(pool__drain_in_time__all_run, "X-17", "TPE-50")
{
    struct bed b = bed_open(k, 2, 2);
    struct piece p[6];
    int64_t count = -1;

    pieces_init(p, 6, NULL);
    for (int i = 0; i < 6; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_OK(spn_pool_drain(b.pool, SPN_SEC(3600), NULL, NULL, &count));
    CHECK_EQ(count, 0);
    CHECK_EQ(pool_is_terminated(b.pool), 1);
    for (int i = 0; i < 6; i++)
        CHECK(ran(&p[i]));
    CHECK_OK(spn_pool_drain(b.pool, 0, NULL, NULL, &count)); /* over already */
    bed_close(&b);
}

/* Past its time drain stops the rest and does not wait for those that ignore it. */
TEST_EACH(pool__drain_out_of_time__cut_off_and_told, "X-17", "TPE-52")
{
    static const int64_t timeouts[] = { 0, -1, SPN_MS(2) };

    for (int t = 0; t < 3; t++) {
        struct bed b = bed_open(k, 1, 1);
        struct left left = { .count = 0 };
        spn_latch *gate = gate_new();
        struct piece p[3];
        int64_t count = -1, began;

        pieces_init(p, 3, gate); /* ignores the interrupt */
        start(b.pool, &p[0]);
        CHECK_OK(execute(b.pool, &p[1]));
        CHECK_OK(execute(b.pool, &p[2]));
        began = spn_now();
        CHECK_STATUS(spn_pool_drain(b.pool, timeouts[t], left_add, &left, &count),
                     SPN_ETIMEDOUT);
        CHECK(spn_now() - began >= timeouts[t]);
        CHECK_EQ(count, 2);
        CHECK_EQ(left.count, 2);
        CHECK(left.tasks[0] == &p[1].task && left.tasks[1] == &p[2].task);
        CHECK_EQ(pool_stats(b.pool).state, SPN_EXECUTOR_STOP);
        T_AWAIT(atomic_load(&p[0].interrupted) == 1);
        gate_open(gate);
        bed_close(&b);
        CHECK(untouched(&p[1]) && untouched(&p[2]));
        gate_free(gate);
    }
}

/* What heeds the interrupt is gone soon after a drain that was out of time. */
TEST(pool__drain_out_of_time_and_heeded__ends, "X-17")
{
    spn_pool *pool = pool_of(1, 1, 4);
    spn_latch *gate = gate_new();
    struct piece p;

    piece_init(&p, gate);
    p.heeds = 1;
    start(pool, &p);
    CHECK_STATUS(spn_pool_drain(pool, 0, NULL, NULL, NULL), SPN_ETIMEDOUT);
    CHECK_OK(pool_await(pool, SPN_FOREVER));
    pool_close(pool);
    gate_free(gate);
}

/* ---- from inside ---------------------------------------------------------------------------- */

static void end_from_inside(struct piece *p)
{
    CHECK_STATUS(pool_await(p->current, SPN_FOREVER), SPN_EDEADLK);
    CHECK_STATUS(pool_await(p->current, SPN_FOREVER), SPN_EDEADLK);
    CHECK_STATUS(spn_pool_close(p->current), SPN_EDEADLK);
    CHECK_STATUS(spn_pool_drain(p->current, SPN_FOREVER, NULL, NULL, NULL),
                 SPN_EDEADLK);
    CHECK_EQ(pool_is_shutdown(p->current), 0); /* refused whole */
    CHECK_STATUS(spn_pool_destroy(p->current), SPN_EBUSY);
    CHECK_OK(pool_shutdown(p->current));
    CHECK_OK(pool_shutdown(p->current)); /* twice */
    CHECK_STATUS(spn_executor_call(spn_pool_executor(p->current), await_for_ever, NULL),
                 SPN_EREJECTED);
}

/* A task may shut its pool down, but not wait for itself. */
TEST_EACH(pool__task_ends_its_pool__shutdown_yes_await_no, "TPE-75", "TPE-47", "P44")
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p[2];

    pieces_init(p, 2, NULL);
    p[0].act = end_from_inside;
    CHECK_OK(spn_pool_pause(b.pool)); /* so that both are there before one runs */
    CHECK_OK(execute(b.pool, &p[0]));
    CHECK_OK(execute(b.pool, &p[1]));
    CHECK_OK(spn_pool_resume(b.pool));
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    CHECK(ran(&p[0]) && ran(&p[1]));
    bed_close(&b);
}

static void stop_from_inside(struct piece *p)
{
    int64_t count = -1;

    CHECK_OK(pool_shutdown_now(p->current, NULL, NULL, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(spn_thread_interrupted(), 1); /* I run, so I am told as well */
}

TEST_EACH(pool__task_stops_its_pool__the_rest_never_starts, "TPE-75", "TPE-52")
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p[2];

    pieces_init(p, 2, NULL);
    p[0].act = stop_from_inside;
    CHECK_OK(spn_pool_pause(b.pool));
    CHECK_OK(execute(b.pool, &p[0]));
    CHECK_OK(execute(b.pool, &p[1]));
    CHECK_OK(spn_pool_resume(b.pool));
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    CHECK(ran(&p[0]) && dropped(&p[1], SPN_ESHUTDOWN));
    bed_close(&b);
}

/* A task of one pool may await another. */
static void await_other(struct piece *p)
{
    CHECK_OK(pool_shutdown(p->arg));
    CHECK_OK(pool_await(p->arg, SPN_FOREVER));
}

TEST(pool__task_awaits_another_pool__fine, "TPE-59")
{
    spn_pool *one = pool_of(1, 1, 1), *other = pool_of(1, 1, 1);
    struct piece p, q;

    piece_init(&p, NULL);
    piece_init(&q, NULL);
    CHECK_OK(execute(other, &q));
    p.act = await_other;
    p.arg = other;
    CHECK_OK(execute(one, &p));
    pool_close(one);
    pool_close(other);
    CHECK(ran(&p) && ran(&q));
}

/* ---- destroy -------------------------------------------------------------------------------- */

/* A pool that lives cannot be destroyed, and goes on as if nobody had tried. */
TEST_EACH(pool__destroyed_while_it_lives__busy_and_unharmed, "EXE-15", "G-17")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p;

    CHECK_STATUS(spn_pool_destroy(b.pool), SPN_EBUSY); /* never used */
    piece_init(&p, gate);
    start(b.pool, &p);
    CHECK_STATUS(spn_pool_destroy(b.pool), SPN_EBUSY);
    CHECK_OK(pool_shutdown(b.pool));
    CHECK_STATUS(spn_pool_destroy(b.pool), SPN_EBUSY);
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    bed_close(&b);
    CHECK(ran(&p));
    gate_free(gate);
}

/* After await has returned destroy may follow at once, again and again: no thread
 * still touches the pool. */
TEST_EACH(pool__destroyed_right_after_await__nobody_is_left, "TPE-49", "G-17")
{
    const int rounds = t_rounds(300);

    for (int i = 0; i < rounds; i++) {
        struct bed b = bed_open(k, 2, 2);
        struct piece p[3];

        pieces_init(p, 3, NULL);
        for (int j = 0; j < 3; j++)
            CHECK_OK(execute(b.pool, &p[j]));
        CHECK_OK(pool_shutdown(b.pool));
        CHECK_OK(pool_await(b.pool, SPN_FOREVER));
        REQUIRE_OK(spn_pool_destroy(b.pool));
        CHECK_OK(spn_queue_destroy(b.queue));
        CHECK(ran(&p[0]) && ran(&p[1]) && ran(&p[2]));
    }
}

/* ---- submit against shutdown ------------------------------------------------------------------ */

enum { RACERS = 3, RACE_TASKS = 40 };

struct race {
    spn_pool *pool;
    struct piece (*pieces)[RACE_TASKS];
    atomic_int go;
    atomic_int accepted, refused;
    int rc[RACERS][RACE_TASKS];
};

static void submit_in_race(int index, void *arg)
{
    struct race *r = arg;

    T_AWAIT(atomic_load(&r->go) != 0);
    for (int i = 0; i < RACE_TASKS; i++) {
        r->rc[index][i] = execute(r->pool, &r->pieces[index][i]);
        CHECK(r->rc[index][i] == SPN_OK || r->rc[index][i] == SPN_EREJECTED);
        atomic_fetch_add(r->rc[index][i] == SPN_OK ? &r->accepted : &r->refused, 1);
    }
}

struct ender {
    struct race *race;
    uint64_t seed;
};

static void end_or_submit(int index, void *arg)
{
    struct ender *e = arg;

    if (index > 0) {
        submit_in_race(index - 1, e->race);
        return;
    }
    atomic_store(&e->race->go, 1);
    for (uint64_t i = t_random(&e->seed) % 40; i > 0; i--)
        sched_yield();
    CHECK_OK(pool_shutdown(e->race->pool));
}

/* What was accepted while the pool was being shut down has run (or, with shutdown_now,
 * come back), and what was refused has not: nothing is lost, nothing is both. */
TEST_EACH(pool__submit_races_shutdown__accepted_is_run_or_returned, "TPE-61", "TPE-62",
          "TPE-66", "P3")
{
    static struct piece p[RACERS][RACE_TASKS];
    const int rounds = t_rounds(60);
    uint64_t seed = t_seed();

    for (int round = 0; round < rounds; round++) {
        struct bed b = bed_open(k, 1 + round % 2, 2);
        static struct race r;
        struct ender e = { .race = &r };
        int ran_count = 0;

        memset(&r, 0, sizeof r);
        r.pool = b.pool;
        r.pieces = p;
        e.seed = t_random(&seed);
        for (int i = 0; i < RACERS; i++)
            pieces_init(p[i], RACE_TASKS, NULL);
        t_parallel(RACERS + 1, end_or_submit, &e);
        CHECK_OK(pool_await(b.pool, SPN_FOREVER));
        for (int i = 0; i < RACERS; i++)
            for (int j = 0; j < RACE_TASKS; j++) {
                CHECK(r.rc[i][j] == SPN_OK ? ran(&p[i][j]) : untouched(&p[i][j]));
                ran_count += started(&p[i][j]);
            }
        CHECK_EQ(ran_count, atomic_load(&r.accepted));
        CHECK_EQ(pool_stats(b.pool).accepted, atomic_load(&r.accepted));
        CHECK_EQ(pool_stats(b.pool).rejected, atomic_load(&r.refused));
        bed_close(&b);
    }
}

static void mark_returned(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    struct piece *p = (struct piece *)(void *)task;

    (void)fn;
    (void)arg;
    (void)ctx;
    p->code = -1; /* the receiver's mark */
}

static void stop_or_submit(int index, void *arg)
{
    struct ender *e = arg;

    if (index > 0) {
        submit_in_race(index - 1, e->race);
        return;
    }
    atomic_store(&e->race->go, 1);
    for (uint64_t i = t_random(&e->seed) % 40; i > 0; i--)
        sched_yield();
    CHECK_OK(pool_shutdown_now(e->race->pool, mark_returned, NULL, NULL));
}

TEST_EACH(pool__submit_races_shutdown_now__one_of_three_ways, "TPE-62", "TPE-52")
{
    static struct piece p[RACERS][RACE_TASKS];
    const int rounds = t_rounds(60);
    uint64_t seed = t_seed();

    for (int round = 0; round < rounds; round++) {
        struct bed b = bed_open(k, 1 + round % 2, 2);
        static struct race r;
        struct ender e = { .race = &r };
        int64_t returned = 0;

        memset(&r, 0, sizeof r);
        r.pool = b.pool;
        r.pieces = p;
        e.seed = t_random(&seed);
        for (int i = 0; i < RACERS; i++)
            pieces_init(p[i], RACE_TASKS, NULL);
        t_parallel(RACERS + 1, stop_or_submit, &e);
        CHECK_OK(pool_await(b.pool, SPN_FOREVER));
        for (int i = 0; i < RACERS; i++)
            for (int j = 0; j < RACE_TASKS; j++) {
                const int back = p[i][j].code == -1;

                if (r.rc[i][j] == SPN_OK)
                    CHECK(back ? untouched(&p[i][j]) : ran(&p[i][j]));
                else
                    CHECK(!back && untouched(&p[i][j]));
                returned += back;
            }
        CHECK_EQ(pool_stats(b.pool).returned, returned);
        CHECK_EQ(pool_stats(b.pool).accepted, atomic_load(&r.accepted));
        bed_close(&b);
    }
}

/* ---- odd lives ---------------------------------------------------------------------------------- */

/* A random walk through a pool's life, calls in any order and from anywhere: every call
 * answers as it should for the state, and the pool always ends. */
static void poke(struct piece *p)
{
    spn_pool *pool = p->current;

    switch (p->code) {
    case 1:
        CHECK_OK(pool_shutdown(pool));
        break;
    case 2:
        CHECK_OK(pool_shutdown_now(pool, NULL, NULL, NULL));
        break;
    case 3:
        (void)spn_pool_pause(pool);
        (void)spn_pool_resume(pool);
        break;
    case 4:
        (void)pool_set_core(pool, 2);
        (void)spn_pool_prestart(pool, SPN_DEFAULT);
        break;
    default:
        CHECK(spn_pool_purge(pool) >= 0);
        break;
    }
}

TEST_EACH(pool__random_life__always_ends, "TPE-47", "TPE-55", "TPE-56", "P44")
{
    enum { STEPS = 24 };
    const int rounds = t_rounds(150);
    uint64_t seed = t_seed();

    for (int round = 0; round < rounds; round++) {
        spn_pool_opts opts = opts_of((int32_t)(t_random(&seed) % 3), 3, 0);
        struct piece p[STEPS];
        struct bed b;
        int accepted = 0;

        opts.hooks.uncaught = uncaught_quietly;
        b = bed_with(k, opts, SPN_UNBOUNDED);
        pieces_init(p, STEPS, NULL);
        for (int i = 0; i < STEPS; i++) {
            const uint64_t dice = t_random(&seed) % 40;

            p[i].act = poke;
            p[i].code = (int)(t_random(&seed) % 24); /* 1..4: see poke */
            if (dice == 0)
                CHECK_OK(pool_shutdown(b.pool));
            else if (dice == 1)
                CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, NULL));
            else if (dice == 2)
                (void)spn_pool_pause(b.pool);
            else if (dice == 3)
                (void)spn_pool_resume(b.pool);
            else if (dice == 4)
                CHECK(pool_await(b.pool, 0) <= 0);
            else
                accepted += execute(b.pool, &p[i]) == SPN_OK;
        }
        CHECK_OK(spn_pool_close(b.pool));
        CHECK_EQ(pool_stats(b.pool).accepted, accepted);
        for (int i = 0; i < STEPS; i++)
            CHECK(started(&p[i]) + drops(&p[i]) <= 1);
        bed_close(&b);
    }
}
