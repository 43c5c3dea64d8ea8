/* SPDX-License-Identifier: MIT */
/* test_pool_pause.c - pause and resume. */
#include "pools.h"

/* ---- pause ---------------------------------------------------------------------------- */

/* Paused, a pool starts nothing, lets what runs go on, and takes all that comes. */
TEST_EACH(pool__paused__takes_and_starts_nothing)
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece hold, p[5];

    piece_init(&hold, gate);
    pieces_init(p, 5, NULL);
    start(b.pool, &hold); /* the only thread */
    CHECK_OK(spn_pool_pause(b.pool));
    CHECK_OK(spn_pool_pause(b.pool)); /* twice is once */
    CHECK_EQ(pool_stats(b.pool).paused, 1);
    for (int i = 0; i < 5; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_EQ(pool_stats(b.pool).queued, 5);
    CHECK_EQ(pool_stats(b.pool).threads, 1);
    gate_open(gate); /* the one that runs ends... */
    T_AWAIT(pool_stats(b.pool).active == 0);
    CHECK(ran(&hold));
    for (int i = 0; i < 5; i++)
        CHECK(untouched(&p[i])); /* ...and takes none of them */
    CHECK_EQ(pool_stats(b.pool).queued, 5);
    CHECK_OK(spn_pool_resume(b.pool));
    CHECK_EQ(pool_stats(b.pool).paused, 0);
    CHECK_OK(spn_pool_resume(b.pool));
    for (int i = 0; i < 5; i++)
        T_AWAIT(ended(&p[i]) == 1);
    bed_close(&b);
    gate_free(gate);
}

/* A pool paused before its first task makes threads, and starts no task before resume. */
TEST_EACH(pool__paused_before_the_first_task__runs_after_resume)
{
    static const int32_t cores[] = { 2, 0 };

    for (int c = 0; c < 2; c++) {
        struct bed b = bed_open(k, cores[c], 2);
        struct piece p[3];

        CHECK_OK(spn_pool_pause(b.pool));
        pieces_init(p, 3, NULL);
        for (int i = 0; i < 3; i++)
            CHECK_OK(execute(b.pool, &p[i]));
        CHECK(pool_stats(b.pool).threads > 0);
        for (int i = 0; i < 3; i++)
            CHECK(untouched(&p[i]));
        CHECK_OK(spn_pool_resume(b.pool));
        for (int i = 0; i < 3; i++)
            T_AWAIT(ended(&p[i]) == 1);
        bed_close(&b);
    }
}

/* A paused pool accepts what it accepts at other times (core, queue, max), and then asks the
 * policy.  A task that started a thread waits in it, and counts as active. */
TEST(pool__paused_and_full__refused, "TPE-66")
{
    spn_pool *pool = pool_of(1, 4, 2);
    struct piece p[7];

    CHECK_OK(spn_pool_pause(pool));
    pieces_init(p, 7, NULL);
    for (int i = 0; i < 6; i++)
        CHECK_OK(execute(pool, &p[i]));
    CHECK_STATUS(execute(pool, &p[6]), SPN_EREJECTED);
    CHECK_EQ(pool_stats(pool).threads, 4);
    CHECK_EQ(pool_stats(pool).active, 4);
    CHECK_EQ(pool_stats(pool).queued, 2);
    for (int i = 0; i < 6; i++)
        CHECK(untouched(&p[i]));
    CHECK_OK(spn_pool_resume(pool));
    pool_close(pool);
    for (int i = 0; i < 6; i++)
        CHECK(ran(&p[i]));
    CHECK(untouched(&p[6]));
}

/* remove and cancel_owner do not find a task that waits in a thread. */
TEST_EACH(pool__first_task_of_a_paused_pool__not_taken_back)
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p;

    CHECK_OK(spn_pool_pause(b.pool));
    job_init(&p, NULL);
    p.job.owner = &p;
    CHECK_OK(execute(b.pool, &p));
    CHECK_EQ(pool_remove(b.pool, &p.task), 0);
    CHECK_EQ(spn_pool_cancel_owner(b.pool, &p), 0);
    CHECK_EQ(pool_stats(b.pool).queued, 0);
    CHECK_EQ(pool_stats(b.pool).active, 1);
    CHECK_EQ(pool_stats(b.pool).pending, 1);
    CHECK(untouched(&p));
    CHECK_OK(spn_pool_resume(b.pool));
    T_AWAIT(ended(&p) == 1);
    bed_close(&b);
    CHECK(ran(&p));
}

/* The deadline of such a task is checked after resume. */
TEST_EACH(pool__first_task_expires_in_a_pause__dropped_at_resume)
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p;

    CHECK_OK(spn_pool_pause(b.pool));
    job_init(&p, NULL);
    p.job.deadline_ns = spn_now() + SPN_MS(1);
    CHECK_OK(execute(b.pool, &p));
    T_AWAIT(spn_now() > p.job.deadline_ns);
    CHECK(untouched(&p));
    CHECK_OK(spn_pool_resume(b.pool));
    pool_rest(b.pool);
    CHECK(dropped(&p, SPN_ETIMEDOUT));
    CHECK_EQ(pool_stats(b.pool).expired, 1);
    bed_close(&b);
}

/* Shutdown ends a pause: what waits runs; shutdown_now returns it. */
TEST_EACH(pool__shut_down_while_paused__ends, "TPE-50", "TPE-52", "P44")
{
    for (int now = 0; now < 2; now++) {
        struct bed b = bed_open(k, 1, 1);
        struct left left = { .count = 0 };
        struct piece p[3];

        CHECK_OK(spn_pool_pause(b.pool));
        pieces_init(p, 3, NULL);
        for (int i = 0; i < 3; i++)
            CHECK_OK(execute(b.pool, &p[i]));
        if (now != 0)
            CHECK_OK(pool_shutdown_now(b.pool, left_add, &left, NULL));
        else
            CHECK_OK(pool_shutdown(b.pool));
        CHECK_OK(pool_await(b.pool, SPN_FOREVER));
        CHECK_EQ(left.count, now != 0 ? 3 : 0);
        for (int i = 0; i < 3; i++)
            CHECK(now != 0 ? untouched(&p[i]) : ran(&p[i]));
        CHECK_STATUS(spn_pool_pause(b.pool), SPN_ESTATE);
        CHECK_STATUS(spn_pool_resume(b.pool), SPN_ESTATE);
        bed_close(&b);
    }
}

/* A pool that is paused with nothing in it can be shut down and destroyed. */
TEST(pool__paused_and_never_used__ends, "TPE-51")
{
    spn_pool *pool = pool_of(1, 1, 1);

    CHECK_OK(spn_pool_pause(pool));
    CHECK_STATUS(spn_pool_destroy(pool), SPN_EBUSY);
    pool_close(pool);
}

/* What waits in a paused pool can be taken back. */
TEST_EACH(pool__removed_while_paused__never_runs, "TPE-43")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece hold, p[2];

    piece_init(&hold, gate);
    start(b.pool, &hold);
    CHECK_OK(spn_pool_pause(b.pool));
    gate_open(gate);
    pieces_init(p, 2, NULL);
    CHECK_OK(execute(b.pool, &p[0]));
    CHECK_OK(execute(b.pool, &p[1]));
    CHECK_EQ(pool_remove(b.pool, &p[0].task), 1);
    CHECK_OK(spn_pool_resume(b.pool));
    bed_close(&b);
    CHECK(untouched(&p[0]) && ran(&p[1]));
    gate_free(gate);
}

/* Pausing one pool leaves another alone. */
TEST(pool__one_paused_or_ended__another_works_on, "P15")
{
    spn_pool *paused = pool_of(1, 1, 4), *works = pool_of(1, 1, 4);
    struct piece p[4];

    pieces_init(p, 4, NULL);
    CHECK_OK(spn_pool_pause(paused));
    CHECK_OK(execute(paused, &p[0]));
    CHECK_OK(execute(works, &p[1]));
    T_AWAIT(ended(&p[1]) == 1);
    CHECK(untouched(&p[0]));
    CHECK_OK(pool_shutdown_now(paused, NULL, NULL, NULL));
    CHECK_OK(pool_await(paused, SPN_FOREVER));
    CHECK_OK(execute(works, &p[2]));
    T_AWAIT(ended(&p[2]) == 1);
    CHECK_OK(spn_pool_destroy(paused));
    CHECK_OK(execute(works, &p[3]));
    pool_close(works);
    CHECK(dropped(&p[0], SPN_ESHUTDOWN) && ran(&p[3]));
}

static void pause_and_resume(struct piece *p)
{
    CHECK_OK(spn_pool_pause(p->current));
    CHECK_OK(spn_pool_resume(p->current));
}

/* A task may pause and resume its own pool. */
TEST_EACH(pool__task_pauses_its_pool__goes_on, "TPE-75")
{
    struct bed b = bed_open(k, 2, 2);
    struct piece p[20];

    pieces_init(p, 20, NULL);
    for (int i = 0; i < 20; i++) {
        p[i].act = pause_and_resume;
        CHECK_OK(execute(b.pool, &p[i]));
    }
    for (int i = 0; i < 20; i++)
        T_AWAIT(ended(&p[i]) == 1);
    bed_close(&b);
}
