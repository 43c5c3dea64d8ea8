/* SPDX-License-Identifier: MIT */
/*
 * Fork/join tasks that are objects: outcomes, waiting, cancelling, completing by hand.
 * Written from the contract, not from the code.
 */
#include "counting.h"
#include "fj_pools.h"
#include "peer.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- tasks ----------------------------------------------------------------------------- */

enum { CAUSE = -77 };

/* A task that counts its runs and ends as it was told to. */
struct piece {
    spn_fj_task task;
    atomic_int runs;
    int status;   /* what the body returns */
    void *value;  /* what it sets as result, unless NULL */
    pthread_t on; /* the thread that ran it */
};

static int piece_run(spn_fj fj, spn_fj_task *task)
{
    struct piece *p = (struct piece *)task;

    (void)fj;
    p->on = pthread_self();
    if (p->value != NULL)
        spn_fj_task_set_result(task, p->value);
    atomic_fetch_add(&p->runs, 1);
    return p->status;
}

static void piece_init(struct piece *p, int status, void *value)
{
    *p = (struct piece){ .status = status, .value = value };
    spn_fj_task_init(&p->task, piece_run);
}

static char mark; /* a value */

/* Fibonacci by objects: fork one, run the other, join. */
struct fib {
    spn_fj_task task;
    int n, value;
};

static int fib_run(spn_fj fj, spn_fj_task *task)
{
    struct fib *f = (struct fib *)task, a, b;
    int rc;

    (void)fj;
    f->value = f->n;
    if (f->n < 2)
        return 0;
    a.n = f->n - 1;
    b.n = f->n - 2;
    spn_fj_task_init(&a.task, fib_run);
    spn_fj_task_init(&b.task, fib_run);
    rc = spn_fj_task_fork(&a.task);
    if (rc != SPN_OK)
        return rc;
    rc = spn_fj_task_invoke(&b.task);
    if (rc != SPN_OK)
        return rc;
    rc = spn_fj_task_join(&a.task);
    f->value = a.value + b.value;
    return rc;
}

static void fib_init(struct fib *f, int n)
{
    f->n = n;
    f->value = -1;
    spn_fj_task_init(&f->task, fib_run);
}

/* ---- a new task -------------------------------------------------------------------------- */

TEST(fj_task__new__is_nothing_yet, "FJT-1")
{
    struct piece p;
    void *result = &mark;

    piece_init(&p, 0, &mark);
    CHECK_EQ(spn_fj_task_error(&p.task), SPN_OK);
    CHECK(spn_fj_task_result(&p.task) == NULL);
    CHECK_STATUS(spn_fj_task_get(&p.task, &result, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_fj_task_get(&p.task, &result, -5), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_fj_task_get(&p.task, &result, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK_EQ(atomic_load(&p.runs), 0);
}

TEST(fj_task__get_with_the_flag_set__is_interrupted, "FJT-2")
{
    struct piece p;

    piece_init(&p, 0, NULL);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(spn_fj_task_get(&p.task, NULL, SPN_FOREVER), SPN_EINTR);
    CHECK_EQ(spn_thread_interrupted(), 0); /* taken */
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(spn_fj_task_get(&p.task, NULL, T_LONG_NS), SPN_EINTR);
    CHECK_EQ(spn_thread_interrupted(), 0);
}

/* Outside a pool, too, a task can be called. */
TEST(fj_task__invoke__runs_in_the_caller, "FJT-3", "FJT-24")
{
    struct piece p;

    piece_init(&p, 0, &mark);
    CHECK_OK(spn_fj_task_invoke(&p.task));
    CHECK_EQ(atomic_load(&p.runs), 1);
    CHECK(pthread_equal(p.on, pthread_self()));
    CHECK(spn_fj_task_result(&p.task) == &mark);
    CHECK(spn_fj_pool_current() == NULL);
    CHECK_EQ(spn_fj_worker_index(), -1);
    CHECK_OK(spn_fj_task_invoke(&p.task)); /* done: not again */
    CHECK_EQ(atomic_load(&p.runs), 1);
}

struct where {
    spn_fj_pool *pool;
    int32_t parallelism;
};

static void invoke_within(void *arg)
{
    struct where *w = arg;
    struct piece p;

    CHECK(spn_fj_pool_current() == w->pool);
    CHECK(spn_fj_worker_index() >= 0);
    piece_init(&p, 0, &mark);
    CHECK_OK(spn_fj_task_invoke(&p.task));
    CHECK(pthread_equal(p.on, pthread_self()));
    CHECK_EQ(atomic_load(&p.runs), 1);
}

TEST(fj_task__invoke_inside__runs_in_the_caller, "FJT-3", "FJT-24", "FJP-31")
{
    FJ_EACH_PARALLELISM(n)
    {
        struct where w = { fj_open(n), n };

        fj_inside(w.pool, invoke_within, &w);
        fj_shut(w.pool);
    }
}

/* ---- outcomes ------------------------------------------------------------------------------ */

/* A task that is done normally, however it was waited for. */
static void check_normal(struct piece *p, void *value)
{
    for (int i = 0; i < 2; i++) {
        void *result = NULL;

        CHECK_OK(spn_fj_task_join(&p->task));
        CHECK_OK(spn_fj_task_get(&p->task, &result, SPN_FOREVER));
        CHECK(result == value);
        result = NULL;
        CHECK_OK(spn_fj_task_get(&p->task, &result, 0));
        CHECK(result == value);
        CHECK_OK(spn_fj_task_get(&p->task, NULL, T_LONG_NS));
        CHECK_OK(spn_fj_task_invoke(&p->task));
        CHECK_EQ(spn_fj_task_cancel(&p->task, i), 0);
        CHECK_EQ(spn_fj_task_complete(&p->task, &mark), 0);
        CHECK_EQ(spn_fj_task_complete_error(&p->task, CAUSE), 0);
        CHECK_EQ(spn_fj_task_error(&p->task), SPN_OK);
        CHECK(spn_fj_task_result(&p->task) == value);
    }
}

static void check_failed(struct piece *p, int cause)
{
    void *result = &mark;

    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(spn_fj_task_join(&p->task), cause);
        CHECK_STATUS(spn_fj_task_invoke(&p->task), cause);
        CHECK_STATUS(spn_fj_task_get(&p->task, &result, SPN_FOREVER), SPN_EFAILED);
        CHECK_STATUS(spn_fj_task_get(&p->task, &result, 0), SPN_EFAILED);
        CHECK_EQ(spn_fj_task_cancel(&p->task, i), 0);
        CHECK_EQ(spn_fj_task_complete(&p->task, &mark), 0);
        CHECK_EQ(spn_fj_task_error(&p->task), cause);
        CHECK(spn_fj_task_result(&p->task) == NULL);
    }
}

static void check_cancelled(struct piece *p)
{
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(spn_fj_task_invoke(&p->task), SPN_ECANCELED);
        CHECK_STATUS(spn_fj_task_join(&p->task), SPN_ECANCELED);
        CHECK_STATUS(spn_fj_task_get(&p->task, NULL, SPN_FOREVER), SPN_ECANCELED);
        CHECK_STATUS(spn_fj_task_get(&p->task, NULL, 0), SPN_ECANCELED);
        CHECK_EQ(spn_fj_task_error(&p->task), SPN_ECANCELED);
        CHECK_EQ(spn_fj_task_cancel(&p->task, i), 1); /* again: it is cancelled */
    }
}

static void outcomes_within(void *arg)
{
    struct piece good, bad, off;

    (void)arg;
    piece_init(&good, 0, &mark);
    CHECK_OK(spn_fj_task_fork(&good.task));
    check_normal(&good, &mark);
    CHECK_EQ(atomic_load(&good.runs), 1);

    piece_init(&bad, CAUSE, &mark);
    CHECK_OK(spn_fj_task_fork(&bad.task));
    check_failed(&bad, CAUSE);
    CHECK_EQ(atomic_load(&bad.runs), 1);

    piece_init(&off, 0, &mark);
    CHECK_EQ(spn_fj_task_cancel(&off.task, 1), 1);
    CHECK_OK(spn_fj_task_fork(&off.task)); /* harmless */
    check_cancelled(&off);
    CHECK_OK(spn_fj_pool_await_quiescence(spn_fj_pool_current(), SPN_FOREVER));
    CHECK_EQ(atomic_load(&off.runs), 0);
}

TEST(fj_task__forked__has_its_outcome, "FJT-4", "FJT-6", "FJT-7", "FJT-8")
{
    FJ_EACH_PARALLELISM(n)
    fj_inside_new(n, outcomes_within, NULL);
}

/* The same from outside, through the pool. */
TEST(fj_task__submitted__has_its_outcome, "FJT-6", "FJT-7", "FJT-8", "FJP-5", "FJP-7")
{
    FJ_EACH_PARALLELISM(n)
    {
        spn_fj_pool *pool = fj_open(n);
        struct piece good, bad, off;

        piece_init(&good, 0, &mark);
        CHECK_OK(spn_fj_pool_submit(pool, &good.task));
        check_normal(&good, &mark);
        piece_init(&bad, CAUSE, NULL);
        CHECK_OK(spn_fj_pool_submit(pool, &bad.task));
        check_failed(&bad, CAUSE);
        piece_init(&bad, CAUSE, NULL);
        CHECK_STATUS(fj_invoke(pool, &bad.task), CAUSE);
        piece_init(&off, 0, NULL);
        CHECK_EQ(spn_fj_task_cancel(&off.task, 0), 1);
        CHECK_STATUS(fj_invoke(pool, &off.task), SPN_ECANCELED);
        check_cancelled(&off);
        CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
        CHECK_EQ(atomic_load(&off.runs), 0);
        CHECK_EQ(atomic_load(&good.runs), 1);
        fj_shut(pool);
    }
}

/* A waiter that comes before the end. */
static int join_it(void *arg)
{
    return spn_fj_task_join(arg);
}

static int get_it(void *arg)
{
    return spn_fj_task_get(arg, NULL, SPN_FOREVER);
}

static int get_for_a_while(void *arg)
{
    return spn_fj_task_get(arg, NULL, T_SHORT_NS);
}

/* The three ways to end by hand, each seen by somebody who waits. */
TEST(fj_task__completed_by_hand__releases_waiters, "FJT-12", "FJT-13", "FJT-29")
{
    static int (*const waits[])(void *) = { join_it, get_it };

    for (size_t w = 0; w < 2; w++)
        for (int how = 0; how < 3; how++) {
            struct piece p;
            struct peer peer;
            int rc;

            piece_init(&p, 0, NULL);
            peer_start(&peer, waits[w], &p.task);
            peer_await_blocked(&peer);
            if (how == 0)
                CHECK_EQ(spn_fj_task_complete(&p.task, &mark), 1);
            else if (how == 1)
                CHECK_EQ(spn_fj_task_complete_error(&p.task, CAUSE), 1);
            else
                CHECK_EQ(spn_fj_task_cancel(&p.task, 0), 1);
            rc = peer_finish(&peer);
            if (how == 1)
                CHECK_STATUS(rc, w == 0 ? CAUSE : SPN_EFAILED);
            else
                CHECK_STATUS(rc, how == 2 ? SPN_ECANCELED : SPN_OK);
            /* It never runs. */
            (void)spn_fj_task_invoke(&p.task);
            CHECK_EQ(atomic_load(&p.runs), 0);
        }
}

TEST(fj_task__completed_with_an_error__zero_is_a_generic_one, "FJT-12")
{
    struct piece p;

    piece_init(&p, 0, NULL);
    CHECK_EQ(spn_fj_task_complete_error(&p.task, 0), 1);
    check_failed(&p, SPN_EFAILED);
    CHECK_EQ(atomic_load(&p.runs), 0);
}

TEST(fj_task__completed_before_it_runs__is_not_run, "FJT-13", "FJT-14")
{
    struct piece p;

    piece_init(&p, 0, NULL);
    CHECK_EQ(spn_fj_task_complete(&p.task, &mark), 1);
    check_normal(&p, &mark);
    piece_init(&p, 0, NULL);
    spn_fj_task_set_result(&p.task, &p);
    CHECK(spn_fj_task_result(&p.task) == &p);
    CHECK_EQ(atomic_load(&p.runs), 0);
}

/* ---- waiting ---------------------------------------------------------------------------------- */

TEST(fj_task__join_with_the_flag_set__returns_the_outcome, "FJT-9")
{
    struct piece p;
    struct peer peer;

    piece_init(&p, 0, NULL);
    peer_start(&peer, join_it, &p.task);
    peer_await_blocked(&peer);
    CHECK_OK(spn_thread_interrupt(peer.thread));
    CHECK(peer_still_waits(&peer));
    CHECK_EQ(spn_fj_task_complete_error(&p.task, CAUSE), 1);
    CHECK_STATUS(peer_finish(&peer), CAUSE);
    CHECK_EQ(peer.flag_after, 1);
}

static void join_interrupted(void *arg)
{
    struct piece p;

    (void)arg;
    piece_init(&p, CAUSE, NULL);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_OK(spn_fj_task_fork(&p.task));
    CHECK_STATUS(spn_fj_task_join(&p.task), CAUSE);
    CHECK_EQ(spn_thread_interrupted(), 1);
}

TEST(fj_task__join_inside_with_the_flag_set__returns_the_outcome, "FJT-9")
{
    FJ_EACH_PARALLELISM(n)
    fj_inside_new(n, join_interrupted, NULL);
}

/* One waiter's interrupt and another's time-out leave a third alone. */
TEST(fj_task__several_wait__each_has_its_own_end, "FJT-11")
{
    struct peer stays, interrupted, timed;
    struct piece p;

    piece_init(&p, 0, NULL);
    peer_start(&stays, get_it, &p.task);
    peer_start(&interrupted, get_it, &p.task);
    peer_start(&timed, get_for_a_while, &p.task);
    peer_await_blocked(&stays);
    peer_await_blocked(&interrupted);
    CHECK_OK(spn_thread_interrupt(interrupted.thread));
    CHECK_STATUS(peer_finish(&interrupted), SPN_EINTR);
    CHECK_STATUS(peer_finish(&timed), SPN_ETIMEDOUT);
    CHECK(peer_still_waits(&stays));
    CHECK_EQ(spn_fj_task_complete(&p.task, NULL), 1);
    CHECK_OK(peer_finish(&stays));
}

/* ---- all of several ---------------------------------------------------------------------------------- */

static void invoke_all_within(void *arg)
{
    static const int numbers[] = { 8, 9, 7 }, values[] = { 21, 34, 13 };

    (void)arg;
    for (size_t count = 0; count <= 3; count++) {
        struct fib fibs[3];
        spn_fj_task *tasks[3] = { NULL };

        for (size_t i = 0; i < count; i++) {
            fib_init(&fibs[i], numbers[i]);
            tasks[i] = &fibs[i].task;
        }
        CHECK_OK(spn_fj_invoke_all(tasks, count));
        for (size_t i = 0; i < count; i++) {
            CHECK_OK(spn_fj_task_get(tasks[i], NULL, 0));
            CHECK_EQ(fibs[i].value, values[i]);
        }
    }
}

TEST(fj_invoke_all__several__all_are_done, "FJT-16")
{
    FJ_EACH_PARALLELISM(n)
    fj_inside_new(n, invoke_all_within, NULL);
}

static void holes_within(void *arg)
{
    (void)arg;
    for (size_t hole = 0; hole < 3; hole++) {
        struct piece pieces[3];
        spn_fj_task *tasks[3] = { NULL };

        for (size_t i = 0; i < 3; i++) {
            piece_init(&pieces[i], 0, NULL);
            tasks[i] = i == hole ? NULL : &pieces[i].task;
        }
        CHECK_STATUS(spn_fj_invoke_all(tasks, 3), SPN_EINVAL);
        CHECK_OK(spn_fj_pool_await_quiescence(spn_fj_pool_current(), SPN_FOREVER));
        for (size_t i = 0; i < 3; i++) {
            CHECK_EQ(atomic_load(&pieces[i].runs), 0);
            CHECK_STATUS(spn_fj_task_get(&pieces[i].task, NULL, 0), SPN_ETIMEDOUT);
        }
    }
    CHECK_STATUS(spn_fj_invoke_all(NULL, 2), SPN_EINVAL);
}

TEST(fj_invoke_all__a_null_among_them__runs_nothing, "FJT-17")
{
    FJ_EACH_PARALLELISM(n)
    fj_inside_new(n, holes_within, NULL);
}

static void failures_within(void *arg)
{
    (void)arg;
    for (size_t bad = 0; bad < 4; bad++) {
        struct piece pieces[4];
        spn_fj_task *tasks[4] = { NULL };

        for (size_t i = 0; i < 4; i++) {
            piece_init(&pieces[i], i == bad ? CAUSE : 0, NULL);
            tasks[i] = &pieces[i].task;
        }
        CHECK_STATUS(spn_fj_invoke_all(tasks, 4), CAUSE);
        CHECK_STATUS(spn_fj_task_get(tasks[bad], NULL, 0), SPN_EFAILED);
        CHECK_EQ(spn_fj_task_error(tasks[bad]), CAUSE);
        for (size_t i = 0; i < 4; i++) {
            CHECK(spn_fj_task_get(tasks[i], NULL, 0) !=
                  SPN_ETIMEDOUT); /* none is left behind */
            CHECK(atomic_load(&pieces[i].runs) <= 1);
        }
    }
}

TEST(fj_invoke_all__one_fails__reports_it, "FJT-18")
{
    FJ_EACH_PARALLELISM(n)
    fj_inside_new(n, failures_within, NULL);
}

/* One that runs when another fails is waited for, not cancelled: its memory may be gone
 * when invoke_all returns. */
struct pair {
    struct piece quick, slow; /* each a task, first */
    atomic_int slow_runs, quick_failed;
};

static int fail_once_both_run(spn_fj fj, spn_fj_task *task)
{
    struct pair *p = (struct pair *)task;

    (void)fj;
    while (atomic_load(&p->slow_runs) == 0)
        sched_yield();
    atomic_store(&p->quick_failed, 1);
    return CAUSE;
}

static int run_past_the_failure(spn_fj fj, spn_fj_task *task)
{
    struct pair *p =
        (struct pair *)(void *)((char *)task - offsetof(struct pair, slow));

    (void)fj;
    atomic_store(&p->slow_runs, 1);
    while (atomic_load(&p->quick_failed) == 0)
        sched_yield();
    for (int i = 0; i < 1000; i++) /* that the other goes on, most likely */
        sched_yield();
    atomic_fetch_add(&p->slow.runs, 1);
    return 0;
}

static void failure_beside_one_that_runs(void *arg)
{
    struct pair p = { .quick = { .status = 0 } };
    spn_fj_task *const tasks[2] = { &p.quick.task, &p.slow.task };

    (void)arg;
    spn_fj_task_init(&p.quick.task, fail_once_both_run);
    spn_fj_task_init(&p.slow.task, run_past_the_failure);
    CHECK_STATUS(spn_fj_invoke_all(tasks, 2), CAUSE);
    CHECK_EQ(atomic_load(&p.slow.runs), 1);
    CHECK_OK(spn_fj_task_get(&p.slow.task, NULL, 0));
}

TEST(fj_invoke_all__one_fails_beside_one_that_runs__waits_for_it, "FJT-18")
{
    fj_inside_new(2, failure_beside_one_that_runs, NULL);
}

/* ---- outside of all pools ------------------------------------------------------------------------------ */

TEST(fj_task__forked_outside__refused, "FJT-24", "FJT-26")
{
    struct piece p;

    piece_init(&p, 0, NULL);
    /* There is no common pool. */
    CHECK_STATUS(spn_fj_task_fork(&p.task), SPN_ESTATE);
    CHECK_STATUS(spn_fj_task_get(&p.task, NULL, 0), SPN_ETIMEDOUT);
    CHECK_OK(spn_fj_task_invoke(&p.task)); /* it is as it was */
    CHECK_EQ(atomic_load(&p.runs), 1);
}

/* ---- results ------------------------------------------------------------------------------------------- */

TEST(fj_task__fibonacci__is_the_same_on_every_pool, "FJT-27", "FJT-28", "FJT-3",
     "FJT-4")
{
    FJ_EACH_PARALLELISM(n)
    {
        spn_fj_pool *pool = fj_open(n);
        struct fib f;

        fib_init(&f, 8);
        CHECK_OK(fj_invoke(pool, &f.task));
        CHECK_EQ(f.value, 21);
        fib_init(&f, 20);
        CHECK_OK(spn_fj_pool_submit(pool, &f.task));
        CHECK_OK(spn_fj_task_get(&f.task, NULL, SPN_FOREVER));
        CHECK_EQ(f.value, 6765);
        fj_shut(pool);
    }
}

/* ---- who is first ------------------------------------------------------------------------------------------ */

struct duel {
    struct piece piece;
    atomic_int winners;
    atomic_int ready;
};

static void complete_first(int index, void *arg)
{
    struct duel *d = arg;
    int won;

    atomic_fetch_add(&d->ready, 1);
    while (atomic_load(&d->ready) < 3) {
    }
    if (index == 0)
        won = spn_fj_task_complete(&d->piece.task, &mark);
    else if (index == 1)
        won = spn_fj_task_complete_error(&d->piece.task, CAUSE);
    else
        won = spn_fj_task_invoke(&d->piece.task) == CAUSE - 1;
    atomic_fetch_add(&d->winners, won == 1);
}

/* Completed by hand twice and run, all at once: one of the three is the outcome. */
TEST(fj_task__several_complete_it__one_wins, "FJT-29")
{
    for (int i = 0; i < t_rounds(300); i++) {
        struct duel d = { .winners = 0 };

        piece_init(&d.piece, CAUSE - 1, NULL);
        t_parallel(3, complete_first, &d);
        CHECK_EQ(atomic_load(&d.winners), 1);
        CHECK(spn_fj_task_get(&d.piece.task, NULL, 0) != SPN_ETIMEDOUT);
    }
}

/* ---- failures leave nothing --------------------------------------------------------------------------------- */

static void fail_often(void *arg)
{
    const int rounds = t_rounds(100000);
    long before = 0;

    (void)arg;
    for (int i = 0; i < rounds; i++) {
        struct piece p;

        if (i == 10)
            before = atomic_load(&counting_live);
        piece_init(&p, CAUSE, NULL);
        CHECK_OK(spn_fj_task_fork(&p.task));
        CHECK_STATUS(spn_fj_task_join(&p.task), CAUSE);
        if (i > 10)
            CHECK_EQ(atomic_load(&counting_live), before);
    }
}

TEST(fj_task__many_fail__nothing_is_kept, "FJT-31")
{
    fj_inside_new(1, fail_often, NULL);
}

/* ---- not complete yet ----------------------------------------------------------------------------------------- */

struct later {
    spn_fj_task task;
    atomic_int begun;
};

static int begin_later(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    atomic_store(&((struct later *)task)->begun, 1);
    return SPN_FJ_PENDING;
}

TEST(fj_task__body_says_pending__is_done_when_completed, "FJT-32")
{
    spn_fj_pool *pool = fj_open(1);
    struct later l = { .begun = 0 };
    struct peer peer;
    void *result;

    spn_fj_task_init(&l.task, begin_later);
    CHECK_OK(spn_fj_pool_submit(pool, &l.task));
    T_AWAIT(atomic_load(&l.begun) == 1);
    peer_start(&peer, join_it, &l.task);
    peer_await_blocked(&peer);
    CHECK_STATUS(spn_fj_task_get(&l.task, NULL, 0), SPN_ETIMEDOUT);
    /* The worker is free meanwhile. */
    fj_inside(pool, outcomes_within, NULL);
    CHECK_STATUS(spn_fj_task_get(&l.task, NULL, 0), SPN_ETIMEDOUT);
    CHECK_EQ(spn_fj_task_complete(&l.task, &mark), 1);
    CHECK_OK(peer_finish(&peer));
    CHECK_OK(spn_fj_task_get(&l.task, &result, 0));
    CHECK(result == &mark);
    fj_shut(pool);
}

/* ---- a lock held, and a small stack ------------------------------------------------------------------------------ */

struct guarded {
    spn_fj_task task;
    spn_fj_pool *pool;
    pthread_mutex_t *lock;
    atomic_int *ran;
};

static int take_lock(spn_fj fj, spn_fj_task *task)
{
    struct guarded *g = (struct guarded *)task;

    (void)fj;
    pthread_mutex_lock(g->lock);
    atomic_fetch_add(g->ran, 1);
    pthread_mutex_unlock(g->lock);
    return 0;
}

static int submit_it(void *arg)
{
    struct guarded *g = arg;

    return spn_fj_pool_submit(g->pool, &g->task);
}

/* From a thread of no pool: into the submission queue. */
static int submit_outside(struct guarded *g)
{
    struct peer peer;

    g->pool = spn_fj_pool_current();
    peer_start(&peer, submit_it, g);
    return peer_finish(&peer);
}

static void join_with_lock(void *arg)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    enum { OTHERS = 8 };
    struct guarded others[OTHERS];
    atomic_int ran = 0;
    struct fib f;

    (void)arg;
    fib_init(&f, 12);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < OTHERS; i++) {
        others[i].lock = &lock;
        others[i].ran = &ran;
        spn_fj_task_init(&others[i].task, take_lock);
        /* Of our own queue, and of everybody's. */
        CHECK_OK(i % 2 == 0 ? spn_fj_task_fork(&others[i].task)
                            : submit_outside(&others[i]));
    }
    CHECK_OK(spn_fj_task_fork(&f.task));
    CHECK_OK(spn_fj_task_join(&f.task));
    CHECK_EQ(f.value, 144);
    CHECK_EQ(atomic_load(&ran), 0);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < OTHERS; i++)
        CHECK_OK(spn_fj_task_join(&others[i].task));
    CHECK_EQ(atomic_load(&ran), OTHERS);
}

/* Pitfall P7: a join runs nothing but what it waits for. */
TEST(fj_task__join_with_a_lock_held__runs_no_task_that_wants_it, "FJT-27", "P7")
{
    FJ_EACH_PARALLELISM(n)
    fj_inside_new(n, join_with_lock, NULL);
}

SPN_FJ_TASK(uint64_t, dive, uint64_t, depth)
{
    volatile unsigned char frame[32]; /* or it would be a loop */
    uint64_t below;

    if (depth == 0)
        return 0;
    frame[depth % 32] = 1;
    dive_fork(&fj, depth - 1);
    below = dive_join(&fj);
    return below + frame[depth % 32];
}

/* What a sanitizer adds to each frame needs more. */
#ifdef __aarch64__
#define LEAST_STACK_KB 128 /* PTHREAD_STACK_MIN there; smaller ones are refused */
#else
#define LEAST_STACK_KB 64
#endif
#define SMALL_STACK ((size_t)(T_INSTRUMENTED ? 256 : LEAST_STACK_KB) << 10)

struct nest {
    spn_fj_task task;
    int depth, forked;
};

/* An object in an object, and so on; every frame as large as that of spn_fj_run. */
static int nest_run(spn_fj fj, spn_fj_task *task)
{
    const struct nest *outer = (struct nest *)task;
    struct nest inner = { .depth = outer->depth - 1, .forked = outer->forked };

    (void)fj;
    if (outer->depth == 0)
        return 0;
    spn_fj_task_init(&inner.task, nest_run);
    if (outer->forked && spn_fj_task_fork(&inner.task) == SPN_OK)
        return spn_fj_task_join(&inner.task);
    return spn_fj_task_invoke(&inner.task);
}

static int nest_call(spn_fj fj, void *arg)
{
    int depth = *(int *)arg - 1;

    (void)fj;
    return depth == 0 ? 0 : spn_fj_run(spn_fj_pool_current(), nest_call, &depth);
}

/* Pitfall P8 for objects, and for trees in trees. */
TEST(fj_task__objects_too_deep_for_the_stack__fail, "FJT-27", "P8")
{
    FJ_EACH_PARALLELISM(n)
    {
        spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
        spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
        spn_fj_pool *pool;
        int many = 20000, few = 5;

        thread.stack_size = (size_t)256 << 10;
        opts.thread = &thread;
        opts.parallelism = n;
        opts.spare_threads = 0; /* each is another stack */
        REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
        for (int forked = 0; forked <= 1; forked++) {
            struct nest nest = { .depth = many, .forked = forked };

            spn_fj_task_init(&nest.task, nest_run);
            CHECK_STATUS(fj_invoke(pool, &nest.task), SPN_ENOMEM);
            nest.depth = 5;
            spn_fj_task_init(&nest.task, nest_run); /* new again */
            CHECK_OK(fj_invoke(pool, &nest.task));
        }
        CHECK_STATUS(spn_fj_run(pool, nest_call, &many), SPN_ENOMEM);
        CHECK_OK(spn_fj_run(pool, nest_call, &few));
        fj_shut(pool);
    }
}

/* Pitfall P8: a million nested joins on small stacks are an error, not a crash; and the
 * pool is as good as before. */
TEST(fj_task__a_million_deep_on_small_stacks__fails, "P8")
{
    FJ_EACH_PARALLELISM(n)
    {
        spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
        spn_fj_pool_opts opts = SPN_FJ_POOL_OPTS_INIT;
        spn_fj_pool *pool;
        uint64_t depth = 7;

        thread.stack_size = SMALL_STACK;
        opts.thread = &thread;
        opts.parallelism = n;
        REQUIRE_OK(spn_fj_pool_create(&pool, &opts));
        for (int i = 0; i < 3; i++) {
            CHECK_STATUS(dive_invoke(pool, &depth, 1000000), SPN_ENOMEM);
            CHECK_EQ(depth, 7);
            CHECK_OK(dive_invoke(pool, &depth, 50));
            CHECK_EQ(depth, 50);
            depth = 7;
        }
        fj_shut(pool);
    }
}
