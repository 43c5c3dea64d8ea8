/* SPDX-License-Identifier: MIT */
/* test_pool_jobs.c - tasks with attributes: priority, urgency, a deadline, an owner. */
#include "pools.h"

static spn_pool *priority_pool(int32_t capacity)
{
    spn_pool_opts opts = opts_of(1, 1, capacity);

    opts.queue_kind = SPN_POOL_PRIORITY;
    return pool_with(&opts);
}

/* ---- priorities ------------------------------------------------------------------------ */

/* The greatest priority first; first in, first out among equals; a plain task is 0. */
TEST(job__priorities__greatest_first_then_in_order)
{
    static const int32_t priorities[] = { 0, 5, -3, 5, 0, INT32_MIN, INT32_MAX, -3, 5 };
    /* as they will run */
    static const int expected[] = { 6, 1, 3, 8, 0, 9, 4, 2, 7, 5 };
    spn_pool *pool = priority_pool(SPN_UNBOUNDED);
    spn_latch *gate = gate_new();
    struct piece hold, p[10];
    spn_task *seen[10];

    piece_init(&hold, gate);
    start(pool, &hold);
    for (int i = 0; i < 9; i++) {
        job_init(&p[i], NULL);
        p[i].job.priority = priorities[i];
        if (i == 4) { /* a plain task between the two of priority 0 */
            piece_init(&p[9], NULL);
            CHECK_OK(execute(pool, &p[9]));
        }
        CHECK_OK(execute(pool, &p[i]));
    }
    CHECK_EQ(spn_pool_snapshot(pool, seen, 10), 10);
    for (int i = 0; i < 10; i++)
        CHECK(seen[i] == &p[expected[i]].task);
    gate_open(gate);
    pool_close(pool);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(p[expected[i]].order - hold.order, i + 1);
    gate_free(gate);
}

/* Many of few classes: order within each class is the order of arrival. */
TEST(job__many_priorities__fifo_within_a_class, "P43")
{
    enum { COUNT = 500 };
    static struct piece p[COUNT];
    spn_pool *pool = priority_pool(SPN_UNBOUNDED);
    spn_latch *gate = gate_new();
    struct piece hold;
    uint64_t seed = t_seed();
    int last[4] = { 0 };

    piece_init(&hold, gate);
    start(pool, &hold);
    for (int i = 0; i < COUNT; i++) {
        job_init(&p[i], NULL);
        p[i].job.priority = (int32_t)(t_random(&seed) % 4);
        CHECK_OK(execute(pool, &p[i]));
    }
    /* Some go again from anywhere in the heap. */
    for (int i = 0; i < COUNT; i += 7)
        CHECK_EQ(pool_remove(pool, &p[i].task), 1);
    gate_open(gate);
    pool_close(pool);
    for (int i = 0; i < COUNT; i++) {
        if (i % 7 == 0) {
            CHECK(untouched(&p[i]));
            continue;
        }
        CHECK(p[i].order > last[p[i].job.priority]);
        last[p[i].job.priority] = p[i].order;
    }
    for (int i = 0; i < COUNT; i++)
        for (int c = p[i].job.priority + 1; c < 4; c++)
            CHECK(i % 7 == 0 || p[i].order > last[c]);
    gate_free(gate);
}

/* In a pool without priorities they say nothing. */
TEST(job__priority_in_a_fifo_pool__ignored)
{
    spn_pool *pool = pool_of(1, 1, 8);
    spn_latch *gate = gate_new();
    struct piece hold, p[3];

    piece_init(&hold, gate);
    start(pool, &hold);
    for (int i = 0; i < 3; i++) {
        job_init(&p[i], NULL);
        p[i].job.priority = i;
        CHECK_OK(execute(pool, &p[i]));
    }
    gate_open(gate);
    pool_close(pool);
    CHECK(p[0].order < p[1].order && p[1].order < p[2].order);
    gate_free(gate);
}

/* A priority pool has its limit, and discard_oldest takes the one that is next. */
TEST(job__priority_pool_full__refused, "TPE-66")
{
    spn_pool *pool = priority_pool(2);
    spn_latch *gate = gate_new();
    struct piece hold, p[3];

    piece_init(&hold, gate);
    start(pool, &hold);
    for (int i = 0; i < 3; i++) {
        job_init(&p[i], NULL);
        p[i].job.priority = i;
        CHECK_STATUS(execute(pool, &p[i]), i < 2 ? SPN_OK : SPN_EREJECTED);
    }
    gate_open(gate);
    pool_close(pool);
    CHECK(untouched(&p[2]));
    gate_free(gate);
}

/* With ageing, one that has waited long enough is ahead of one with more priority that
 * came late: here it need only be a nanosecond. */
TEST(job__ageing__the_old_one_is_first, "P43")
{
    spn_pool_opts opts = opts_of(1, 1, 8);
    spn_latch *gate = gate_new();
    struct piece hold, low, high;
    spn_pool *pool;
    int64_t from;

    opts.queue_kind = SPN_POOL_PRIORITY;
    opts.age_ns = 1;
    pool = pool_with(&opts);
    piece_init(&hold, gate);
    start(pool, &hold);
    job_init(&low, NULL);
    job_init(&high, NULL);
    high.job.priority = 10;
    CHECK_OK(execute(pool, &low));
    from = spn_now();
    T_AWAIT(spn_now() > from + 1000); /* a thousand priorities' worth */
    CHECK_OK(execute(pool, &high));
    gate_open(gate);
    pool_close(pool);
    CHECK(low.order < high.order);
    gate_free(gate);
}

/* Saturated with high priorities, a low one still runs: the bound is the ageing. */
struct flood {
    spn_pool *pool;
    struct piece low;
    atomic_int stop;
    atomic_long runs;
};

static int flood_again(spn_task *task)
{
    struct piece *p = (struct piece *)(void *)task;
    struct flood *f = p->arg;

    atomic_fetch_add(&f->runs, 1);
    if (atomic_load(&f->stop) == 0)
        CHECK_OK(spn_executor_execute(spn_pool_executor(f->pool), task));
    return 0;
}

TEST(job__flood_of_high_priority__low_one_runs_in_the_end, "P43")
{
    spn_pool_opts opts = opts_of(1, 1, SPN_UNBOUNDED);
    struct flood f = { 0 };
    struct piece high[3];

    opts.queue_kind = SPN_POOL_PRIORITY;
    opts.age_ns = SPN_US(1);
    f.pool = pool_with(&opts);
    job_init(&f.low, NULL);
    for (int i = 0; i < 3; i++) {
        job_init(&high[i], NULL);
        high[i].task.fn = flood_again;
        high[i].job.priority = 1000;
        high[i].arg = &f;
        CHECK_OK(execute(f.pool, &high[i]));
    }
    T_AWAIT(atomic_load(&f.runs) > 10); /* the flood runs: always two wait */
    CHECK_OK(execute(f.pool, &f.low));
    T_AWAIT(ended(&f.low) == 1); /* without ageing: never */
    atomic_store(&f.stop, 1);
    pool_rest(f.pool);
    pool_close(f.pool);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

/* A job that was not started in time is dropped when its turn comes; one in time, or
 * without a deadline, runs. */
TEST_EACH(job__deadline_passed__dropped_at_its_turn)
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece hold, late, in_time, without;
    spn_pool_stats s;

    piece_init(&hold, gate);
    start(b.pool, &hold);
    job_init(&late, NULL);
    late.job.deadline_ns = spn_now() + 1;
    job_init(&in_time, NULL);
    in_time.job.deadline_ns = spn_now() + SPN_SEC(3600);
    job_init(&without, NULL);
    CHECK_OK(execute(b.pool, &late));
    CHECK_OK(execute(b.pool, &in_time));
    CHECK_OK(execute(b.pool, &without));
    T_AWAIT(spn_now() > late.job.deadline_ns);
    CHECK(untouched(&late)); /* not before its turn */
    gate_open(gate);
    pool_rest(b.pool);
    CHECK(dropped(&late, SPN_ETIMEDOUT));
    CHECK(ran(&in_time) && ran(&without));
    s = pool_stats(b.pool);
    CHECK_EQ(s.expired, 1);
    CHECK_EQ(s.dropped, 1);
    CHECK_EQ(s.completed, 3);
    CHECK_EQ(s.accepted, 4);
    bed_close(&b);
    gate_free(gate);
}

/* A deadline that has passed at the hand-over counts as well, also for the first task of
 * a new thread. */
TEST_EACH(job__deadline_passed_on_arrival__never_runs)
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p, after;

    job_init(&p, NULL);
    p.job.deadline_ns = 1;
    piece_init(&after, NULL);
    CHECK_OK(execute(b.pool, &p));
    CHECK_OK(execute(b.pool, &after));
    pool_rest(b.pool);
    CHECK(dropped(&p, SPN_ETIMEDOUT));
    CHECK(ran(&after));
    CHECK_EQ(pool_stats(b.pool).expired, 1);
    bed_close(&b);
}

/* The longest deadline is no deadline, and a negative one has passed. */
TEST(job__extreme_deadlines__no_overflow, "G-8")
{
    spn_pool *pool = pool_of(1, 1, 4);
    struct piece far, past;

    job_init(&far, NULL);
    far.job.deadline_ns = INT64_MAX;
    job_init(&past, NULL);
    past.job.deadline_ns = INT64_MIN;
    CHECK_OK(execute(pool, &far));
    (void)!execute(pool, &past);
    pool_rest(pool);
    CHECK(ran(&far));
    CHECK_EQ(started(&past), 0);
    pool_close(pool);
}

/* An expired job can be handed over again by its drop. */
static void again_later(spn_task *task, int reason)
{
    struct piece *p = (struct piece *)(void *)task;

    p->reason = reason;
    atomic_fetch_add(&p->drops, 1);
    p->job.deadline_ns = 0;
    CHECK_OK(spn_executor_execute(spn_pool_executor(p->arg), task));
}

TEST(job__drop_submits_again__runs)
{
    spn_pool *pool = pool_of(1, 1, 4);
    struct piece p;

    job_init(&p, NULL);
    p.task.drop = again_later;
    p.arg = pool;
    p.job.deadline_ns = 1;
    CHECK_OK(execute(pool, &p));
    T_AWAIT(ended(&p) == 1);
    CHECK_EQ(drops(&p), 1);
    CHECK_EQ(started(&p), 1);
    pool_close(pool);
}

/* A job's own size and place are part of the ABI. */
TEST(job__layout__task_first)
{
    CHECK_EQ(offsetof(spn_job, task), 0);
    CHECK(sizeof(spn_task) <= 40);
}
