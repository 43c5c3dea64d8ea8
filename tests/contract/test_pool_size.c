/* SPDX-License-Identifier: MIT */
/* test_pool_size.c - threads made ahead, and sizes that change under load.  What needs
 * time to pass is in tests/sim/scenario_pool_time.c. */
#include "pools.h"

/* prestart makes one idle thread as long as there are fewer than core. */
TEST_EACH(pool__prestart__one_thread_up_to_core, "TPE-25", "TPE-27")
{
    struct bed b = bed_open(k, 2, 6);
    struct piece p;

    CHECK_EQ(spn_pool_prestart(b.pool, 1), 1);
    CHECK_EQ(pool_stats(b.pool).threads, 1);
    CHECK_EQ(spn_pool_prestart(b.pool, 1), 1);
    CHECK_EQ(pool_stats(b.pool).threads, 2);
    CHECK_EQ(spn_pool_prestart(b.pool, 1), 0);
    CHECK_EQ(pool_stats(b.pool).threads, 2);
    CHECK_OK(pool_set_core(b.pool, 4));
    CHECK_EQ(spn_pool_prestart(b.pool, 1), 1);
    CHECK_EQ(spn_pool_prestart(b.pool, 1), 1);
    CHECK_EQ(spn_pool_prestart(b.pool, 1), 0);
    CHECK_EQ(pool_stats(b.pool).threads, 4);
    CHECK_EQ(pool_stats(b.pool).active, 0);
    piece_init(&p, NULL);
    CHECK_OK(execute(b.pool, &p)); /* one of them takes it */
    T_AWAIT(ended(&p) == 1);
    CHECK_EQ(pool_stats(b.pool).threads, 4);
    bed_close(&b);
}

/* prestart_all brings the pool to core, and only there. */
TEST_EACH(pool__prestart_all__up_to_core, "TPE-26")
{
    struct bed b = bed_open(k, 3, 9);

    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 3);
    CHECK_EQ(pool_stats(b.pool).threads, 3);
    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 0);
    CHECK_OK(pool_set_core(b.pool, 5));
    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 2);
    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 0);
    CHECK_EQ(pool_stats(b.pool).threads, 5);
    CHECK_EQ(pool_stats(b.pool).largest, 5);
    CHECK_EQ(pool_tasks(b.pool), 0);
    bed_close(&b);
}

/* With no core thread there is none to prestart, and the first task gets one. */
TEST_EACH(pool__core_zero__no_prestart_but_tasks_run, "TPE-27", "TPE-2")
{
    struct bed b = bed_open(k, 0, 2);
    struct piece p[3];

    CHECK_EQ(spn_pool_prestart(b.pool, 1), 0);
    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 0);
    CHECK_EQ(pool_stats(b.pool).threads, 0);
    pieces_init(p, 3, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(execute(b.pool, &p[i]));
        T_AWAIT(ended(&p[i]) == 1);
    }
    CHECK_EQ(pool_stats(b.pool).largest, 1); /* queued for the one there is */
    bed_close(&b);
}

/* After shutdown there is nothing to make ready. */
TEST(pool__prestart_after_shutdown__none, "TPE-25", "TPE-26")
{
    spn_pool *pool = pool_of(2, 2, 2);

    CHECK_OK(pool_shutdown(pool));
    CHECK_EQ(spn_pool_prestart(pool, 1), 0);
    CHECK_EQ(spn_pool_prestart(pool, SPN_DEFAULT), 0);
    CHECK_EQ(pool_stats(pool).threads, 0);
    CHECK_OK(spn_pool_destroy(pool));
}

/* A larger core starts threads for what is queued, and no more than that. */
TEST_EACH(pool__core_raised_with_tasks_queued__threads_for_them, "TPE-33")
{
    struct bed b = bed_open(k, 1, 8);
    spn_latch *gate = gate_new();
    struct piece p[4];

    pieces_init(p, 4, gate);
    start(b.pool, &p[0]);
    for (int i = 1; i < 4; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_EQ(pool_stats(b.pool).threads, 1);
    CHECK_OK(pool_set_core(b.pool, 3)); /* by two: fewer than are queued */
    for (int i = 1; i < 3; i++)
        T_AWAIT(started(&p[i]) == 1);
    CHECK_EQ(pool_stats(b.pool).threads, 3);
    CHECK(untouched(&p[3]));
    CHECK_OK(pool_set_core(b.pool, 8)); /* by five: one is queued */
    T_AWAIT(started(&p[3]) == 1);
    CHECK_EQ(pool_stats(b.pool).threads, 4);
    CHECK_OK(pool_set_core(b.pool, 2)); /* running ones are left alone */
    CHECK_EQ(pool_stats(b.pool).threads, 4);
    gate_open(gate);
    bed_close(&b);
    for (int i = 0; i < 4; i++) {
        CHECK(ran(&p[i]));
        CHECK_EQ(atomic_load(&p[i].interrupted), 0);
    }
    gate_free(gate);
}

/* A larger core with nothing queued starts nothing. */
TEST(pool__core_raised_and_nothing_queued__no_thread, "TPE-33")
{
    spn_pool *pool = pool_of(1, 8, 8);

    CHECK_OK(pool_set_core(pool, 8));
    CHECK_EQ(pool_stats(pool).threads, 0);
    pool_close(pool);
}

/* A smaller max leaves running tasks alone; surplus threads go when they are idle, and
 * largest keeps its peak. */
TEST_EACH(pool__max_lowered_under_load__surplus_leaves_when_idle, "TPE-32", "TPE-41",
          "P36")
{
    struct bed b = bed_open(k, 4, 4);
    spn_latch *gate = gate_new();
    struct piece p[4], later;

    pieces_init(p, 4, gate);
    piece_init(&later, NULL);
    for (int i = 0; i < 4; i++)
        start(b.pool, &p[i]);
    CHECK_OK(pool_set_core(b.pool, 1));
    CHECK_OK(pool_set_max(b.pool, 1));
    CHECK_EQ(pool_stats(b.pool).threads, 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(ended(&p[i]), 0);
    gate_open(gate);
    T_AWAIT(pool_stats(b.pool).threads == 1); /* whatever the keep-alive */
    CHECK_EQ(pool_stats(b.pool).largest, 4);
    CHECK_OK(execute(b.pool, &later));
    T_AWAIT(ended(&later) == 1);
    CHECK_EQ(pool_stats(b.pool).threads, 1);
    bed_close(&b);
    for (int i = 0; i < 4; i++) {
        CHECK(ran(&p[i]));
        CHECK_EQ(atomic_load(&p[i].interrupted), 0);
    }
    gate_free(gate);
}

/* Idle threads learn of a smaller max at once. */
TEST_EACH(pool__max_lowered_while_idle__surplus_leaves_at_once, "TPE-32", "TPE-31")
{
    struct bed b = bed_open(k, 4, 4);
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 4);
    c.core_threads = 1;
    c.max_threads = 2;
    CHECK_OK(spn_pool_reconfigure(b.pool, &c));
    T_AWAIT(pool_stats(b.pool).threads <= 2); /* the keep-alive is an hour */
    CHECK(pool_stats(b.pool).threads >= 1);
    CHECK_EQ(pool_stats(b.pool).largest, 4);
    bed_close(&b);
}

/* Idle threads learn of a shorter keep-alive, and of core time-out, at once. */
TEST_EACH(pool__keep_alive_shortened__idle_threads_hear_of_it, "TPE-31", "TPE-30")
{
    struct bed b = bed_open(k, 1, 4);
    struct piece p;

    CHECK_OK(pool_set_core(b.pool, 4));
    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 4);
    CHECK_OK(pool_set_core(b.pool, 1));
    CHECK_EQ(pool_stats(b.pool).threads, 4); /* an hour of keep-alive */
    CHECK_OK(pool_set_keep_alive(b.pool, 1));
    T_AWAIT(pool_stats(b.pool).threads == 1);
    CHECK_OK(pool_set_core_timeout(b.pool, 1));
    T_AWAIT(pool_stats(b.pool).threads == 0);
    piece_init(&p, NULL);
    CHECK_OK(execute(b.pool, &p)); /* and back */
    T_AWAIT(ended(&p) == 1);
    bed_close(&b);
}

static void lower_core(struct piece *p)
{
    CHECK_OK(pool_set_core(p->current, 1));
    CHECK_EQ(spn_thread_interrupted(), 0);
    CHECK_OK(spn_latch_await(p->arg, SPN_FOREVER));
    CHECK_EQ(spn_thread_interrupted(), 0);
}

/* Tasks that shrink their own pool are not interrupted by it. */
TEST_EACH(pool__core_lowered_from_inside__nobody_interrupted, "TPE-34")
{
    struct bed b = bed_open(k, 4, 4);
    spn_latch *begin = gate_new(), *gate = gate_new();
    struct piece p[4];

    pieces_init(p, 4, begin);
    for (int i = 0; i < 4; i++) {
        p[i].act = lower_core;
        p[i].arg = gate;
        start(b.pool, &p[i]);
    }
    gate_open(begin);
    T_AWAIT(pool_stats(b.pool).core_threads == 1);
    CHECK_EQ(pool_stats(b.pool).threads, 4);
    CHECK_EQ(pool_stats(b.pool).active, 4);
    gate_open(gate);
    bed_close(&b);
    for (int i = 0; i < 4; i++)
        CHECK(ran(&p[i]));
    gate_free(begin);
    gate_free(gate);
}

/* A larger capacity lets in what did not fit; a smaller one keeps what is queued. */
TEST(pool__capacity_changed_under_load__what_is_queued_stays, "TPE-15")
{
    spn_pool *pool = pool_of(1, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[5];

    pieces_init(p, 5, gate);
    start(pool, &p[0]);
    CHECK_OK(execute(pool, &p[1]));
    CHECK_STATUS(execute(pool, &p[2]), SPN_EREJECTED);
    CHECK_OK(pool_set_capacity(pool, 3));
    CHECK_OK(execute(pool, &p[2]));
    CHECK_OK(execute(pool, &p[3]));
    CHECK_STATUS(execute(pool, &p[4]), SPN_EREJECTED);
    CHECK_OK(pool_set_capacity(pool, 1));
    CHECK_EQ(pool_stats(pool).queued, 3);
    CHECK_STATUS(execute(pool, &p[4]), SPN_EREJECTED);
    gate_open(gate);
    pool_close(pool);
    for (int i = 0; i < 4; i++)
        CHECK(ran(&p[i]));
    CHECK(untouched(&p[4]));
    gate_free(gate);
}

/* Two hundred threads at once, and one after another back to none. */
TEST_EACH(pool__two_hundred_threads__all_at_work_at_once, "TPE-15", "TPE-41")
{
    enum { COUNT = 200 };
    static struct piece p[COUNT];
    struct bed b = bed_open(k, COUNT, COUNT);
    spn_latch *gate = gate_new();

    pieces_init(p, COUNT, gate);
    for (int i = 0; i < COUNT; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    for (int i = 0; i < COUNT; i++)
        T_AWAIT(started(&p[i]) == 1);
    CHECK_EQ(pool_stats(b.pool).active, COUNT);
    CHECK_EQ(pool_stats(b.pool).threads, COUNT);
    gate_open(gate);
    pool_rest(b.pool);
    CHECK_EQ(pool_stats(b.pool).threads, COUNT);
    bed_close(&b);
    gate_free(gate);
}
