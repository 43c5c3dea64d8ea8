/* SPDX-License-Identifier: MIT */
/*
 * test_forkjoin.c - fork/join pools with many threads on the real clock: no submission is
 * left lying, quiescence does not lie, and every task is accounted for.
 */
#include "fj_pools.h"
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- single submissions ---------------------------------------------------------------- */

struct one {
    spn_fj_task task;
    atomic_int *done;
};

static int count_one(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    atomic_fetch_add(((struct one *)task)->done, 1);
    return 0;
}

static void submit_singly(int rounds)
{
    spn_fj_pool *pool = fj_open(1);
    atomic_int done = 0;

    for (int i = 0; i < rounds; i++) {
        struct one one = { .done = &done };

        spn_fj_task_init(&one.task, count_one);
        CHECK_OK(spn_fj_pool_submit(pool, &one.task));
        CHECK_OK(spn_fj_task_join(&one.task));
    }
    CHECK_EQ(atomic_load(&done), rounds);
    fj_shut(pool);
}

/* Each comes while the only worker is about to go to sleep. */
TEST(stress_forkjoin__single_submissions__each_is_run, "FJP-24")
{
    submit_singly(t_rounds(30000));
}

/* make test-long: as many as the contract names, and more, whatever slows it down. */
TEST_WHEN_NAMED(stress_forkjoin__single_submissions_in_full__each_is_run)
{
    submit_singly(300000);
}

struct spinning {
    spn_fj_task task;
    atomic_int begun, stop;
};

static int spin(spn_fj fj, spn_fj_task *task)
{
    struct spinning *s = (struct spinning *)task;

    (void)fj;
    atomic_store(&s->begun, 1);
    while (atomic_load(&s->stop) == 0)
        t_pause();
    return 0;
}

static void submit_beside(int rounds)
{
    spn_fj_pool *pool = fj_open(2);
    struct spinning s = { .begun = 0 };
    atomic_int done = 0;

    spn_fj_task_init(&s.task, spin);
    CHECK_OK(spn_fj_pool_submit(pool, &s.task));
    T_AWAIT(atomic_load(&s.begun) == 1);
    for (int i = 0; i < rounds; i++) {
        struct one one = { .done = &done };

        spn_fj_task_init(&one.task, count_one);
        CHECK_OK(spn_fj_pool_submit(pool, &one.task));
        CHECK_OK(spn_fj_task_join(&one.task));
    }
    CHECK_EQ(atomic_load(&done), rounds);
    atomic_store(&s.stop, 1);
    CHECK_OK(spn_fj_task_join(&s.task));
    fj_shut(pool);
}

/* One worker is busy for good: the other gets all there is. */
TEST(stress_forkjoin__one_worker_busy__the_other_runs_each, "FJP-25")
{
    submit_beside(t_rounds(20000));
}

/* make test-long: as many as the contract names. */
TEST_WHEN_NAMED(stress_forkjoin__one_worker_busy_in_full__the_other_runs_each)
{
    submit_beside(100000);
}

/* ---- objects ------------------------------------------------------------------------------- */

enum { ITEMS = 24 };

struct item {
    spn_fj_task task;
    atomic_int ran;  /* its body was entered                  */
    atomic_int ends; /* calls that say they have ended it     */
};

struct batch {
    spn_fj_task task;
    struct item items[ITEMS];
    uint64_t seed;
};

static int run_item(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    atomic_fetch_add(&((struct item *)task)->ran, 1);
    return 0;
}

static void end_item(struct item *item, uint64_t how)
{
    const int ended = how % 2 == 0 ? spn_fj_task_complete(&item->task, item)
                                   : spn_fj_task_complete_error(&item->task, -7);

    atomic_fetch_add(&item->ends, ended);
}

static int run_batch(spn_fj fj, spn_fj_task *task)
{
    struct batch *b = (struct batch *)task;
    uint64_t seed = b->seed;

    (void)fj;
    for (int i = 0; i < ITEMS; i++) {
        const uint64_t how = t_random(&seed);

        if (spn_fj_task_fork(&b->items[i].task) != SPN_OK)
            return SPN_ESTATE;
        if (how % 7 == 0)
            (void)spn_fj_task_join(&b->items[how / 7 % (uint64_t)(i + 1)].task);
    }
    for (int i = 0; i < ITEMS; i++)
        (void)spn_fj_task_join(&b->items[i].task);
    return 0;
}

static void begin_batch(struct batch *b, uint64_t seed)
{
    b->seed = seed;
    spn_fj_task_init(&b->task, run_batch);
    for (int i = 0; i < ITEMS; i++) {
        spn_fj_task_init(&b->items[i].task, run_item);
        atomic_init(&b->items[i].ran, 0);
        atomic_init(&b->items[i].ends, 0);
    }
}

/* Each was ended by hand, once, or else has run, once, and is done. */
static void check_batch(struct batch *b)
{
    for (int i = 0; i < ITEMS; i++) {
        struct item *item = &b->items[i];
        const int ran = atomic_load(&item->ran), ends = atomic_load(&item->ends);

        CHECK(spn_fj_task_get(&item->task, NULL, 0) != SPN_ETIMEDOUT);
        CHECK(ran <= 1 && ends <= 1 && ran + ends >= 1);
        if (ends == 0)
            CHECK_OK(spn_fj_task_get(&item->task, NULL, 0));
    }
}

static void objects_in_any_order(int rounds)
{
    static struct batch b;
    uint64_t seed = t_seed();

    FJ_EACH_PARALLELISM(p)
    {
        spn_fj_pool *pool = fj_open(p);

        for (int i = 0; i < rounds; i++) {
            begin_batch(&b, t_random(&seed));
            CHECK_OK(spn_fj_pool_submit(pool, &b.task));
            while (spn_fj_task_get(&b.task, NULL, 0) == SPN_ETIMEDOUT) {
                const uint64_t how = t_random(&seed);

                if (how % 4 == 0)
                    end_item(&b.items[how / 4 % ITEMS], how / 128);
                else
                    t_pause();
            }
            CHECK_OK(spn_fj_task_join(&b.task));
            CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
            check_batch(&b);
        }
        fj_shut(pool);
    }
}

/* Objects are forked, stolen, joined in any order and ended by somebody outside, all at
 * once: each has one end, and its body runs once at most. */
TEST(stress_forkjoin__objects_in_any_order__each_ends_once, "FJT-29", "FJT-4")
{
    objects_in_any_order(t_rounds(500));
}

TEST_WHEN_NAMED(stress_forkjoin__objects_in_full__each_ends_once)
{
    objects_in_any_order(100000);
}

/* ---- quiescence ---------------------------------------------------------------------------- */

enum { TREE = 255 };

struct node {
    spn_fj_task task;
    struct node *all;
    int index;
    atomic_int *done;
};

/* Forks its two children and does not wait for them. */
static int grow(spn_fj fj, spn_fj_task *task)
{
    struct node *n = (struct node *)task;

    (void)fj;
    for (int i = 2 * n->index + 1; i <= 2 * n->index + 2 && i < TREE; i++) {
        n->all[i] = (struct node){ .all = n->all, .index = i, .done = n->done };
        spn_fj_task_init(&n->all[i].task, grow);
        if (spn_fj_task_fork(&n->all[i].task) != SPN_OK)
            return SPN_ESTATE;
    }
    atomic_fetch_add(n->done, 1);
    return 0;
}

/* When the pool says it is quiescent the whole tree is done, whoever asks and helps. */
TEST(stress_forkjoin__quiescent__everything_is_done, "FJP-9", "FJP-10", "FJP-34")
{
    static struct node nodes[TREE];

    FJ_EACH_PARALLELISM(p)
    {
        spn_fj_pool *pool = fj_open(p);

        for (int i = 0; i < t_rounds(500); i++) {
            atomic_int done = 0;

            nodes[0] = (struct node){ .all = nodes, .done = &done };
            spn_fj_task_init(&nodes[0].task, grow);
            CHECK_OK(spn_fj_pool_submit(pool, &nodes[0].task));
            if (i % 2 == 0)
                CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
            else
                T_AWAIT(fj_rests(pool));
            CHECK_EQ(atomic_load(&done), TREE);
        }
        fj_shut(pool);
    }
}

/* ---- the end ---------------------------------------------------------------------------------- */

enum { SUBMITTERS = 3, EACH = 200 };

struct ending {
    spn_fj_pool *pool;
    struct one tasks[SUBMITTERS][EACH];
    int accepted[SUBMITTERS];
    atomic_int done, submitted;
};

static void submit_or_stop(int index, void *arg)
{
    struct ending *e = arg;

    if (index == SUBMITTERS) {
        while (atomic_load(&e->submitted) < SUBMITTERS * EACH / 3)
            t_pause();
        CHECK_OK(
            spn_executor_shutdown_now(spn_fj_pool_executor(e->pool), NULL, NULL, NULL));
        return;
    }
    for (int i = 0; i < EACH; i++) {
        struct one *one = &e->tasks[index][i];
        int rc;

        one->done = &e->done;
        spn_fj_task_init(&one->task, count_one);
        rc = spn_fj_pool_submit(e->pool, &one->task);
        atomic_fetch_add(&e->submitted, 1);
        if (rc != SPN_OK) {
            CHECK_STATUS(rc, SPN_EREJECTED);
            continue;
        }
        e->accepted[index]++;
        /* Whoever waits is released, one way or the other. */
        if (i % 8 == 0) {
            rc = spn_fj_task_join(&one->task);
            CHECK(rc == SPN_OK || rc == SPN_ECANCELED);
        }
    }
}

/* Stopped while tasks come in: each is done, cancelled or was refused. */
TEST(stress_forkjoin__stopped_under_submissions__each_has_an_end, "FJP-14", "FJP-15")
{
    static struct ending e;

    for (int i = 0; i < t_rounds(60); i++) {
        int accepted = 0, normal = 0, cancelled = 0;

        e = (struct ending){ .pool = fj_open(1 + i % 3) };
        t_parallel(SUBMITTERS + 1, submit_or_stop, &e);
        CHECK_OK(spn_executor_await(spn_fj_pool_executor(e.pool), SPN_FOREVER));
        for (int s = 0; s < SUBMITTERS; s++) {
            accepted += e.accepted[s];
            for (int k = 0; k < EACH; k++) {
                const int rc = spn_fj_task_get(&e.tasks[s][k].task, NULL, 0);

                normal += rc == SPN_OK;
                cancelled += rc == SPN_ECANCELED;
            }
        }
        CHECK_EQ(normal + cancelled, accepted);
        CHECK_EQ(atomic_load(&e.done), normal);
        CHECK_OK(spn_fj_pool_destroy(e.pool));
    }
}

/* ---- many callers --------------------------------------------------------------------------------- */

struct sums {
    spn_fj_pool *pool;
    uint64_t seed;
};

static int fold(void *arg, size_t begin, size_t end, void *value)
{
    (void)arg;
    for (size_t i = begin; i < end; i++)
        *(uint64_t *)value += i;
    return 0;
}

static int join(void *arg, void *left, void *right)
{
    (void)arg;
    *(uint64_t *)left += *(const uint64_t *)right;
    return 0;
}

static void reduce_often(int index, void *arg)
{
    const struct sums *s = arg;
    uint64_t seed = s->seed + (uint64_t)index;

    for (int i = 0; i < t_rounds(400); i++) {
        const size_t n = (size_t)(t_random(&seed) % 3000);
        spn_parallel_opts opts = SPN_PARALLEL_OPTS_INIT;
        uint64_t sum = 0;

        opts.grain = (size_t)(t_random(&seed) % 20);
        CHECK_OK(spn_parallel_reduce(s->pool, 0, n, &sum, sizeof sum, fold, join, NULL,
                                     &opts));
        CHECK_EQ(sum, n == 0 ? 0 : n * (n - 1) / 2);
    }
}

TEST(stress_forkjoin__many_callers__each_gets_its_own_result)
{
    FJ_EACH_PARALLELISM(p)
    {
        struct sums s = { fj_open(p), t_seed() };

        t_parallel(T_THREADS, reduce_often, &s);
        fj_shut(s.pool);
    }
}
