/* SPDX-License-Identifier: MIT */
/* test_forkjoin_task.c - fork/join objects: states, outcomes, waiting, queues. */
#include "forkjoin.h"

#include <string.h>

#include "peer.h"

static int cell;

static int give_cell(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    spn_fj_task_set_result(task, &cell);
    return 0;
}

static int fail_five(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    return -5;
}

/* Runs a test's body in a pool of each kind. */
static void in_pools(int (*body)(spn_fj fj, void *arg), void *arg)
{
    for (int32_t p = 1; p <= 2; p++) {
        spn_fj_pool *pool = fj_pool(p);

        CHECK_OK(spn_fj_run(pool, body, arg));
        fj_end(pool);
    }
}

TEST(fj_task__fresh__not_done, "FJT-1")
{
    spn_fj_task t;

    spn_fj_task_init(&t, give_cell);
    CHECK_STATUS(spn_fj_task_get(&t, NULL, 0), SPN_ETIMEDOUT);
    CHECK_OK(spn_fj_task_error(&t));
    CHECK(spn_fj_task_result(&t) == NULL);
    CHECK_STATUS(spn_fj_task_get(&t, NULL, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_fj_task_get(&t, NULL, -1), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_fj_task_get(&t, NULL, SPN_MS(2)), SPN_ETIMEDOUT);
}

/* Waits outside of a pool: get hears interrupts, join does not and leaves the flag set. */
TEST(fj_task__interrupted_outside__get_hears_and_join_does_not, "FJT-2", "FJT-9")
{
    spn_fj_task t;

    spn_fj_task_init(&t, give_cell);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(spn_fj_task_get(&t, NULL, T_LONG_NS), SPN_EINTR);
    CHECK_EQ(spn_thread_interrupted(), 0);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_OK(spn_fj_task_invoke(&t));
    CHECK_OK(spn_fj_task_join(&t));
    CHECK_EQ(spn_thread_interrupted(), 1);
}

static int outcomes(spn_fj fj, void *arg)
{
    spn_fj_task t;
    void *result = NULL;

    (void)fj;
    (void)arg;
    for (int forked = 0; forked < 2; forked++) {
        spn_fj_task_init(&t, give_cell);
        if (forked)
            CHECK_OK(spn_fj_task_fork(&t));
        else
            CHECK_OK(spn_fj_task_invoke(&t));
        CHECK_OK(spn_fj_task_join(&t));
        for (int i = 0; i < 2; i++) {
            CHECK_OK(spn_fj_task_get(&t, &result, i == 0 ? 0 : SPN_FOREVER));
            CHECK(result == &cell);
        }
        CHECK_EQ(spn_fj_task_cancel(&t, 0), 0);
        CHECK_EQ(spn_fj_task_cancel(&t, 1), 0);
        CHECK_EQ(spn_fj_task_complete(&t, NULL), 0);
        CHECK_OK(spn_fj_task_error(&t));
        CHECK(spn_fj_task_result(&t) == &cell);
        spn_fj_task_init(&t, fail_five);
        if (forked) {
            CHECK_OK(spn_fj_task_fork(&t));
            CHECK_STATUS(spn_fj_task_get(&t, NULL, SPN_FOREVER), SPN_EFAILED);
        }
        CHECK_EQ(spn_fj_task_invoke(&t), -5);
        CHECK_EQ(spn_fj_task_join(&t), -5);
        CHECK_STATUS(spn_fj_task_get(&t, &result, 0), SPN_EFAILED);
        CHECK_EQ(spn_fj_task_error(&t), -5);
        CHECK_EQ(spn_fj_task_cancel(&t, 0), 0);
        CHECK(spn_fj_task_result(&t) == NULL);
    }
    return 0;
}

TEST(fj_task__done__outcome_is_repeatable, "FJT-3", "FJT-4", "FJT-6", "FJT-7")
{
    in_pools(outcomes, NULL);
}

static int must_not_run(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    CHECK(false);
    return 0;
}

/* Of the pool whose task the caller is. */
static int await_rest_here(void)
{
    return spn_fj_pool_await_quiescence(spn_fj_pool_current(), SPN_FOREVER);
}

static int ended_before(spn_fj fj, void *arg)
{
    spn_fj_task t;
    void *result = NULL;

    (void)fj;
    (void)arg;
    spn_fj_task_init(&t, must_not_run);
    CHECK_EQ(spn_fj_task_cancel(&t, 0), 1);
    CHECK_EQ(spn_fj_task_cancel(&t, 1), 1);
    CHECK_OK(spn_fj_task_fork(&t));
    CHECK_OK(await_rest_here());
    CHECK_STATUS(spn_fj_task_invoke(&t), SPN_ECANCELED);
    CHECK_STATUS(spn_fj_task_join(&t), SPN_ECANCELED);
    CHECK_STATUS(spn_fj_task_get(&t, NULL, 0), SPN_ECANCELED);
    CHECK_STATUS(spn_fj_task_error(&t), SPN_ECANCELED);

    spn_fj_task_init(&t, must_not_run);
    CHECK_EQ(spn_fj_task_complete_error(&t, -8), 1);
    CHECK_EQ(spn_fj_task_invoke(&t), -8);
    CHECK_EQ(spn_fj_task_cancel(&t, 0), 0);
    spn_fj_task_init(&t, must_not_run);
    CHECK_EQ(spn_fj_task_complete_error(&t, 0), 1);
    CHECK_STATUS(spn_fj_task_join(&t), SPN_EFAILED);

    spn_fj_task_init(&t, must_not_run);
    CHECK_EQ(spn_fj_task_complete(&t, &cell), 1);
    CHECK_OK(spn_fj_task_invoke(&t));
    CHECK_OK(spn_fj_task_get(&t, &result, 0));
    CHECK(result == &cell);
    spn_fj_task_init(&t, must_not_run);
    spn_fj_task_set_result(&t, &cell);
    CHECK(spn_fj_task_result(&t) == &cell);
    return 0;
}

TEST(fj_task__ended_before_it_ran__does_not_run, "FJT-8", "FJT-12", "FJT-13", "FJT-14")
{
    in_pools(ended_before, NULL);
}

static int all(spn_fj fj, void *arg)
{
    struct fib_object f[3];
    spn_fj_task *tasks[3], bad;
    const int n[3] = { 8, 9, 7 }, value[3] = { 21, 34, 13 };

    (void)fj;
    (void)arg;
    for (size_t count = 1; count <= 3; count++) {
        for (size_t i = 0; i < 3; i++) {
            fib_object_init(&f[i], n[i]);
            tasks[i] = &f[i].task;
        }
        CHECK_OK(spn_fj_invoke_all(tasks, count));
        for (size_t i = 0; i < count; i++) {
            CHECK_EQ(f[i].value, value[i]);
            CHECK_OK(spn_fj_task_get(tasks[i], NULL, 0));
        }
    }
    CHECK_OK(spn_fj_invoke_all(NULL, 0));
    for (size_t at = 0; at < 3; at++) {
        for (size_t i = 0; i < 3; i++) {
            fib_object_init(&f[i], n[i]);
            tasks[i] = &f[i].task;
        }
        tasks[at] = NULL;
        CHECK_STATUS(spn_fj_invoke_all(tasks, 3), SPN_EINVAL);
        CHECK_STATUS(spn_fj_task_get(&f[(at + 1) % 3].task, NULL, 0), SPN_ETIMEDOUT);
        spn_fj_task_init(&bad, fail_five);
        tasks[at] = &bad;
        CHECK_EQ(spn_fj_invoke_all(tasks, 3), -5);
        CHECK_STATUS(spn_fj_task_get(&bad, NULL, 0), SPN_EFAILED);
        for (size_t i = 0; i < 3; i++)
            CHECK(spn_fj_task_get(tasks[i], NULL, 0) != SPN_ETIMEDOUT);
    }
    return 0;
}

TEST(fj_task__invoke_all__all_done_or_the_failure, "FJT-16", "FJT-17", "FJT-18")
{
    in_pools(all, NULL);
}

/* ---- queues ------------------------------------------------------------------------ */

struct ordered {
    spn_fj_task task;
    int *next, place; /* what it is in the order of runs */
};

static int note_place(spn_fj fj, spn_fj_task *task)
{
    struct ordered *o = (struct ordered *)(void *)task;

    (void)fj;
    o->place = (*o->next)++;
    return 0;
}

/* With one worker, which runs them all when it waits. */
static int fork_three(spn_fj fj, void *arg)
{
    const bool async = arg != NULL;
    struct ordered o[3];
    int next = 0;

    (void)fj;
    for (int i = 0; i < 3; i++) {
        spn_fj_task_init(&o[i].task, note_place);
        o[i].next = &next;
        CHECK_OK(spn_fj_task_fork(&o[i].task));
    }
    CHECK_EQ(fj_stats(spn_fj_pool_current()).queued_tasks, 3);
    CHECK_OK(await_rest_here());
    CHECK_EQ(fj_stats(spn_fj_pool_current()).queued_tasks, 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(o[i].place, async ? i : 2 - i);
    return 0;
}

TEST(fj_task__own_queue__last_first_or_in_async_mode_first, "FJT-20", "FJT-21")
{
    for (int async = 0; async < 2; async++) {
        spn_fj_pool *pool = async ? fj_pool_async(1) : fj_pool(1);

        CHECK_OK(spn_fj_run(pool, fork_three, async ? &cell : NULL));
        fj_end(pool);
    }
}

/* There is no common pool: a fork outside of one is refused. */
TEST(fj_task__outside_of_a_pool__no_fork_but_invoke, "FJT-26", "FJT-24", "FJP-16")
{
    struct fib_object f;

    fib_object_init(&f, 10);
    CHECK_STATUS(spn_fj_task_fork(&f.task), SPN_ESTATE);
    CHECK(spn_fj_pool_current() == NULL);
    CHECK_OK(spn_fj_task_invoke(&f.task));
    CHECK_EQ(f.value, 55);
}

TEST(fj_task__objects__same_on_any_number_of_workers, "FJT-28", "FJT-27")
{
    for (int32_t p = 1; p <= 4; p *= 2) {
        spn_fj_pool *pool = fj_pool(p);
        struct fib_object f;

        for (int n = 8; n <= 16; n += 4) {
            fib_object_init(&f, n);
            CHECK_OK(fj_invoke(pool, &f.task));
            CHECK_EQ(f.value, n == 8 ? 21 : n == 12 ? 144 : 987);
        }
        fj_end(pool);
    }
}

/* ---- races and late ends ---------------------------------------------------------------- */

struct race {
    spn_fj_task task;
    atomic_int winners;
    int values[T_THREADS];
};

static void complete_it(int i, void *arg)
{
    struct race *r = arg;

    if (spn_fj_task_complete(&r->task, &r->values[i]) == 1)
        atomic_fetch_add(&r->winners, 1);
    CHECK_OK(spn_fj_task_get(&r->task, NULL, SPN_FOREVER));
}

TEST(fj_task__completed_by_many__one_wins, "FJT-29")
{
    for (int i = 0; i < t_rounds(100); i++) {
        struct race r = { .winners = 0 };

        spn_fj_task_init(&r.task, NULL);
        t_parallel(T_THREADS, complete_it, &r);
        CHECK_EQ(atomic_load(&r.winners), 1);
    }
}

static int get_interrupted(void *arg)
{
    return spn_fj_task_get(arg, NULL, T_LONG_NS);
}

static int get_it(void *arg)
{
    return spn_fj_task_get(arg, NULL, SPN_FOREVER);
}

/* One waits for ever while another is interrupted and a third times out. */
TEST(fj_task__several_wait__each_ends_its_own_way, "FJT-11")
{
    spn_fj_task t;
    struct peer patient, nervous;

    spn_fj_task_init(&t, NULL);
    peer_start(&patient, get_it, &t);
    peer_start(&nervous, get_interrupted, &t);
    peer_await_blocked(&patient);
    peer_await_blocked(&nervous);
    CHECK_STATUS(spn_fj_task_get(&t, NULL, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK_OK(spn_thread_interrupt(nervous.thread));
    CHECK_STATUS(peer_finish(&nervous), SPN_EINTR);
    CHECK_EQ(spn_fj_task_complete(&t, NULL), 1);
    CHECK_OK(peer_finish(&patient));
}

static spn_fj_task *pending_task;

static int say_pending(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    pending_task = task;
    return SPN_FJ_PENDING;
}

/* A body that says it is not done leaves it to somebody else. */
TEST(fj_task__body_says_pending__completed_by_another, "FJT-32")
{
    spn_fj_pool *pool = fj_pool(1);
    spn_fj_task t;
    void *result = NULL;

    spn_fj_task_init(&t, say_pending);
    CHECK_OK(spn_fj_pool_submit(pool, &t));
    CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
    CHECK_STATUS(spn_fj_task_get(&t, NULL, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_fj_task_get(&t, NULL, 0), SPN_ETIMEDOUT);
    CHECK_EQ(spn_fj_task_complete(pending_task, &cell), 1);
    CHECK_OK(spn_fj_task_get(&t, &result, 0));
    CHECK(result == &cell);
    fj_end(pool);
}

static int until_cancelled(spn_fj fj, spn_fj_task *task)
{
    struct gated *g = (struct gated *)(void *)task;

    atomic_fetch_add(&g->ran, 1);
    T_AWAIT(spn_thread_is_interrupted(spn_thread_current()) == 1);
    T_AWAIT(spn_fj_status(fj) == SPN_ECANCELED);
    return 0;
}

static int flag_is_clear(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    return spn_thread_interrupted() == 0 ? 0 : -1;
}

/* Cancelling a running task interrupts its thread, and nothing that comes after it. */
TEST(fj_task__cancelled_while_it_runs__interrupted, "FJP-27", "FJT-30")
{
    spn_fj_pool *pool = fj_pool(1);
    struct gated g;
    spn_fj_task after;

    gated_init(&g, NULL);
    g.task.fn = until_cancelled;
    CHECK_OK(spn_fj_pool_submit(pool, &g.task));
    T_AWAIT(atomic_load(&g.ran) == 1);
    CHECK_EQ(spn_fj_task_cancel(&g.task, 1), 1);
    CHECK_STATUS(spn_fj_task_get(&g.task, NULL, SPN_FOREVER), SPN_ECANCELED);
    CHECK_STATUS(spn_fj_task_get(&g.task, NULL, T_LONG_NS), SPN_ECANCELED);
    spn_fj_task_init(&after, flag_is_clear);
    CHECK_OK(fj_invoke(pool, &after));
    fj_end(pool);
}

/* Failing tasks leave nothing behind: their memory is the caller's. */
TEST(fj_task__many_failures__nothing_kept, "FJT-31")
{
    spn_fj_pool *pool = fj_pool(2);
    spn_fj_task t;

    for (int i = 0; i < t_rounds(2000); i++) {
        spn_fj_task_init(&t, fail_five);
        CHECK_EQ(fj_invoke(pool, &t), -5);
    }
    CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
    fj_end(pool);
}

static atomic_int memory_is_reused;

static int ends_itself(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    CHECK_EQ(spn_fj_task_complete(task, &cell), 1);
    T_AWAIT(atomic_load(&memory_is_reused) != 0);
    return 0;
}

/* A body ends its own task: whoever joins it may use the memory for something else at
 * once, also while the body goes on. */
TEST(fj_task__body_ends_its_own__memory_is_free, "FJT-12", "FJT-29")
{
    spn_fj_pool *pool = fj_pool(1);
    unsigned char other[sizeof(spn_fj_task)];
    union {
        spn_fj_task task;
        unsigned char bytes[sizeof(spn_fj_task)];
    } memory;
    void *result = NULL;

    atomic_store(&memory_is_reused, 0);
    spn_fj_task_init(&memory.task, ends_itself);
    CHECK_OK(spn_fj_pool_submit(pool, &memory.task));
    CHECK_OK(spn_fj_task_get(&memory.task, &result, SPN_FOREVER));
    CHECK(result == &cell);
    memset(memory.bytes, 0, sizeof memory.bytes);
    memset(other, 0, sizeof other);
    atomic_store(&memory_is_reused, 1);
    fj_end(pool);
    CHECK(memcmp(memory.bytes, other, sizeof other) == 0);
}
