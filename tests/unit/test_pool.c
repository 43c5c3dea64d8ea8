/* SPDX-License-Identifier: MIT */
/* test_pool.c - the small parts of the pool that need no thread. */
#include "pool_calls.h"
#include "test.h"

#include <spindle/future.h>

#include "exec/pool.h"

/* The control word keeps state and count apart, and compares by state first. */
TEST(pool_ctl__state_and_count__kept_apart, "S-4")
{
    static const int32_t counts[] = {
        0, 1, 63, 64, 65, 200, SPN_POOL_THREADS_MAX - 1, SPN_POOL_THREADS_MAX
    };
    uint32_t last = 0;

    for (uint32_t state = SPN_EXECUTOR_RUNNING; state <= SPN_EXECUTOR_TERMINATED;
         state++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            const uint32_t ctl = spn__ctl_make(state, counts[i]);

            CHECK_EQ(spn__ctl_state(ctl), state);
            CHECK_EQ(spn__ctl_count(ctl), counts[i]);
            CHECK(ctl >= last); /* a later state is greater, whatever the count */
            last = ctl;
        }
}

/* Counting up and down moves the count and leaves the state. */
TEST(pool_ctl__counting__leaves_the_state, "S-4")
{
    for (uint32_t state = SPN_EXECUTOR_RUNNING; state <= SPN_EXECUTOR_TERMINATED;
         state++) {
        uint32_t ctl = spn__ctl_make(state, 0);

        for (int32_t i = 1; i <= 300; i++) {
            ctl++;
            CHECK_EQ(spn__ctl_count(ctl), i);
            CHECK_EQ(spn__ctl_state(ctl), state);
        }
        ctl -= 300;
        CHECK_EQ(ctl, spn__ctl_make(state, 0));
    }
}

/* A task's two links serve as a list node, and lead back to the task. */
TEST(pool_task__links__are_a_list_node)
{
    spn_task tasks[3] = { SPN_TASK_INIT(NULL, NULL), SPN_TASK_INIT(NULL, NULL),
                          SPN_TASK_INIT(NULL, NULL) };
    struct spn__list list;
    int i = 0;

    spn__list_init(&list);
    for (i = 0; i < 3; i++)
        spn__list_push_back(&list, spn__task_node(&tasks[i]));
    spn__list_remove(spn__task_node(&tasks[1]));
    i = 0;
    for (struct spn__list_node *node = list.head.next; node != &list.head;
         node = node->next, i += 2)
        CHECK(spn__node_task(node) == &tasks[i]);
    CHECK_EQ(i, 4);
}

/* What is embedded in users' structs has its size for good. */
TEST(pool_abi__embedded_structs__sizes_pinned)
{
    CHECK_EQ(sizeof(spn_task), 40);
    CHECK_EQ(offsetof(spn_job, task), 0);
    CHECK_EQ(sizeof(spn_job), 96);
}

static int never(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 0;
}

/* A submitted function that is refused leaves nothing to sweep the queue for. */
TEST(pool_lapsed__submit_refused__nothing_to_sweep, "TPE-93")
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_future *waits, *refused;
    spn_pool *pool;

    opts.core_threads = opts.max_threads = 1;
    opts.queue_capacity = 1;
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    REQUIRE(spn_pool_prestart(pool, SPN_DEFAULT) == 1);
    T_AWAIT(pool_stats(pool).parked == 1); /* the worker sleeps */
    REQUIRE_OK(spn_pool_pause(pool));
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(pool), never, NULL, &waits));
    CHECK_STATUS(spn_executor_submit(spn_pool_executor(pool), never, NULL, &refused),
                 SPN_EREJECTED);
    CHECK_EQ(spn__load(&pool->lapsed, relaxed), 0);
    CHECK(!spn__pool_sweep(pool));
    CHECK_EQ(spn_future_complete(waits, NULL), 1);
    CHECK(spn__load(&pool->lapsed, relaxed) != 0);
    CHECK(spn__pool_sweep(pool));
    CHECK(!spn__pool_sweep(pool));
    CHECK_OK(spn_pool_resume(pool));
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
    spn_future_unref(waits);
}
