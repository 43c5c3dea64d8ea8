/* SPDX-License-Identifier: MIT */
/* test_pool_pause.c - pause and resume, and the hint that a task is going to block. */
#include "pools.h"

/* ---- pause ---------------------------------------------------------------------------- */

/* Paused, a pool starts nothing, lets what runs go on, and takes all that comes. */
TEST_EACH(pool__paused__takes_and_starts_nothing)
{
    struct bed b = bed_open(k, 2, 2);
    spn_latch *gate = gate_new();
    struct piece hold, p[5];

    piece_init(&hold, gate);
    pieces_init(p, 5, NULL);
    start(b.pool, &hold);
    CHECK_OK(spn_pool_pause(b.pool));
    CHECK_OK(spn_pool_pause(b.pool)); /* twice is once */
    CHECK_EQ(stats_of(b.pool).paused, 1);
    for (int i = 0; i < 5; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_EQ(spn_pool_queued(b.pool), 5); /* also below core */
    CHECK_EQ(spn_pool_threads(b.pool), 1);
    gate_open(gate); /* the one that runs ends... */
    T_AWAIT(spn_pool_active(b.pool) == 0);
    CHECK(ran(&hold));
    for (int i = 0; i < 5; i++)
        CHECK(untouched(&p[i])); /* ...and takes none of them */
    CHECK_EQ(spn_pool_queued(b.pool), 5);
    CHECK_OK(spn_pool_resume(b.pool));
    CHECK_EQ(stats_of(b.pool).paused, 0);
    CHECK_OK(spn_pool_resume(b.pool));
    for (int i = 0; i < 5; i++)
        T_AWAIT(ended(&p[i]) == 1);
    bed_close(&b);
    gate_free(gate);
}

/* A pool paused before its first task makes a thread when it is resumed. */
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
        CHECK_EQ(spn_pool_threads(b.pool), 0);
        CHECK_OK(spn_pool_resume(b.pool));
        for (int i = 0; i < 3; i++)
            T_AWAIT(ended(&p[i]) == 1);
        bed_close(&b);
    }
}

/* A paused queue fills up; then the policy is asked. */
TEST(pool__paused_and_full__refused, "TPE-66")
{
    spn_pool *pool = pool_of(1, 4, 2);
    struct piece p[3];

    CHECK_OK(spn_pool_pause(pool));
    pieces_init(p, 3, NULL);
    CHECK_OK(execute(pool, &p[0]));
    CHECK_OK(execute(pool, &p[1]));
    CHECK_STATUS(execute(pool, &p[2]), SPN_EREJECTED);
    CHECK_EQ(spn_pool_threads(pool), 0);
    CHECK_OK(spn_pool_resume(pool));
    pool_close(pool);
    CHECK(ran(&p[0]) && ran(&p[1]) && untouched(&p[2]));
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
            CHECK_OK(spn_pool_shutdown_now(b.pool, left_add, &left, NULL));
        else
            CHECK_OK(spn_pool_shutdown(b.pool));
        CHECK_OK(spn_pool_await(b.pool, SPN_FOREVER));
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
    struct piece p[2];

    CHECK_OK(spn_pool_pause(b.pool));
    pieces_init(p, 2, NULL);
    CHECK_OK(execute(b.pool, &p[0]));
    CHECK_OK(execute(b.pool, &p[1]));
    CHECK_EQ(spn_pool_remove(b.pool, &p[0].task), 1);
    CHECK_OK(spn_pool_resume(b.pool));
    bed_close(&b);
    CHECK(untouched(&p[0]) && ran(&p[1]));
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
    CHECK_OK(spn_pool_shutdown_now(paused, NULL, NULL, NULL));
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

/* ---- the blocking hint ------------------------------------------------------------------- */

static void block_at(struct piece *p)
{
    spn_pool_block_begin();
    spn_pool_block_begin(); /* pairs nest: still one that blocks */
    CHECK_OK(spn_latch_await(p->arg, SPN_FOREVER));
    spn_pool_block_end();
    spn_pool_block_end();
}

/* A task that says it blocks lets another thread stand in for it. */
TEST_EACH(pool__task_blocks_with_a_hint__queue_goes_on)
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[2];

    pieces_init(p, 2, NULL);
    p[0].act = block_at;
    p[0].arg = gate;
    start(b.pool, &p[0]);
    T_AWAIT(stats_of(b.pool).blocked == 1);
    CHECK_OK(execute(b.pool, &p[1]));
    T_AWAIT(ended(&p[1]) == 1); /* the only thread is blocked: another ran it */
    CHECK(p[1].tid != p[0].tid);
    CHECK_EQ(stats_of(b.pool).blocked, 1);
    CHECK(spn_pool_threads(b.pool) <= 2);
    gate_open(gate);
    pool_rest(b.pool);
    CHECK_EQ(stats_of(b.pool).blocked, 0);
    T_AWAIT(spn_pool_threads(b.pool) <= 1); /* and the surplus goes */
    bed_close(&b);
    gate_free(gate);
}

/* What is queued already when the task begins to block goes on as well. */
TEST_EACH(pool__task_blocks_with_others_queued__they_go_on)
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new(), *later = gate_new();
    struct piece p[3];

    pieces_init(p, 3, NULL);
    p[0].gate = gate;
    p[0].act = block_at;
    p[0].arg = later;
    start(b.pool, &p[0]);
    CHECK_OK(execute(b.pool, &p[1]));
    CHECK_OK(execute(b.pool, &p[2]));
    gate_open(gate); /* now it blocks */
    T_AWAIT(ended(&p[1]) == 1 && ended(&p[2]) == 1);
    CHECK_EQ(ended(&p[0]), 0);
    gate_open(later);
    bed_close(&b);
    gate_free(gate);
    gate_free(later);
}

/* No more stand in than block_threads: the rest waits. */
TEST_EACH(pool__more_block_than_may__capped, "P38")
{
    spn_pool_opts opts = opts_of(2, 2, 0);
    enum { COUNT = 12 };
    spn_latch *gate = gate_new();
    struct piece p[COUNT];
    struct bed b;
    int running = 0;

    opts.block_threads = 3;
    b = bed_with(k, opts, SPN_UNBOUNDED);
    pieces_init(p, COUNT, NULL);
    for (int i = 0; i < COUNT; i++) {
        p[i].act = block_at;
        p[i].arg = gate;
        CHECK_OK(execute(b.pool, &p[i]));
    }
    T_AWAIT(stats_of(b.pool).blocked == 5); /* two, and three that stand in */
    CHECK_EQ(spn_pool_threads(b.pool), 5);
    CHECK_EQ(spn_pool_largest(b.pool), 5);
    for (int i = 0; i < COUNT; i++)
        running += started(&p[i]);
    CHECK_EQ(running, 5);
    gate_open(gate);
    bed_close(&b);
    for (int i = 0; i < COUNT; i++)
        CHECK(ran(&p[i]));
    gate_free(gate);
}

/* None at all: the hint is counted and changes nothing else. */
TEST(pool__no_thread_may_stand_in__only_counted)
{
    spn_pool_opts opts = opts_of(1, 1, 4);
    spn_latch *gate = gate_new();
    struct piece p[2];
    spn_pool *pool;

    opts.block_threads = 0;
    pool = pool_with(&opts);
    pieces_init(p, 2, NULL);
    p[0].act = block_at;
    p[0].arg = gate;
    start(pool, &p[0]);
    T_AWAIT(stats_of(pool).blocked == 1);
    CHECK_OK(execute(pool, &p[1]));
    CHECK_EQ(spn_pool_threads(pool), 1);
    CHECK(untouched(&p[1]));
    gate_open(gate);
    pool_close(pool);
    gate_free(gate);
}

static void block_and_leave(struct piece *p)
{
    (void)p;
    spn_pool_block_begin(); /* never ended by hand */
}

/* A task that forgets to end its block does not leave it to the next. */
TEST_EACH(pool__block_never_ended__ends_with_the_task)
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p[4];

    pieces_init(p, 4, NULL);
    for (int i = 0; i < 4; i++) {
        p[i].act = block_and_leave;
        p[i].dies = i == 2; /* also when it ends its thread */
        CHECK_OK(execute(b.pool, &p[i]));
        T_AWAIT(ended(&p[i]) == 1);
        T_AWAIT(stats_of(b.pool).blocked == 0);
    }
    bed_close(&b);
}

/* Outside of a task the hint does nothing, and an end too many is harmless. */
static void end_too_often(struct piece *p)
{
    (void)p;
    spn_pool_block_end();
    spn_pool_block_begin();
    spn_pool_block_end();
    spn_pool_block_end();
}

TEST(pool__hint_out_of_place__harmless)
{
    spn_pool *pool = pool_of(1, 1, 4);
    struct piece p;

    spn_pool_block_begin();
    spn_pool_block_end();
    spn_pool_block_end();
    piece_init(&p, NULL);
    p.act = end_too_often;
    CHECK_OK(execute(pool, &p));
    pool_rest(pool);
    CHECK_EQ(stats_of(pool).blocked, 0);
    pool_close(pool);
}
