/* SPDX-License-Identifier: MIT */
/* test_task_local.c - values of the running task: there while it runs, gone with it. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

#include <spindle.h>

static char order[64]; /* what the destructors were called with */

static void note(void *value)
{
    const size_t length = strlen(order);

    REQUIRE(length + 1 < sizeof order);
    order[length] = *(const char *)value;
    order[length + 1] = '\0';
}

static const spn_task_local first = { note }, second = { note }, third = { NULL };

static spn_pool *pool_of(int threads)
{
    spn_pool_opts opts = spn_pool_opts_fixed(threads, -1);
    spn_pool *pool = NULL;

    REQUIRE_OK(spn_pool_create(&pool, &opts));
    return pool;
}

static void end_pool(spn_pool *pool)
{
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

static int nothing(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 0;
}

/* Runs fn(arg) on the pool's only worker; when the next task has run there, the worker is
 * through with it. */
static void run_on(spn_pool *pool, spn_run_fn fn, void *arg)
{
    spn_future *next;

    CHECK_OK(spn_executor_call(spn_pool_executor(pool), fn, arg));
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(pool), nothing, NULL, &next));
    T_AWAIT(spn_future_get_state(next) !=
            SPN_FUTURE_PENDING); /* get might run it here */
    spn_future_unref(next);
}

static int set_three(void *arg)
{
    (void)arg;
    CHECK(spn_task_local_get(&first) == NULL && spn_task_local_get(&third) == NULL);
    CHECK_OK(spn_task_local_set(&first, "1"));
    CHECK_OK(spn_task_local_set(&second, "2"));
    CHECK_OK(spn_task_local_set(&third, "3"));
    CHECK_STR(spn_task_local_get(&first), "1");
    CHECK_OK(spn_task_local_set(&second, "b"));
    CHECK_STR(spn_task_local_get(&second), "b");
    CHECK_STR(spn_task_local_get(&third), "3");
    CHECK_STR(order, "");
    return 0;
}

/* Set in one task, destroyed at its end in the order of setting, unseen by the next. */
TEST(task_local__end_of_task__destroyed_and_gone, "S-9")
{
    spn_pool *pool = pool_of(1);

    for (int i = 0; i < 3; i++) {
        order[0] = '\0';
        run_on(pool, set_three, NULL);
        CHECK_STR(order, "1b");
    }
    end_pool(pool);
}

static int take_away(void *arg)
{
    (void)arg;
    CHECK_OK(spn_task_local_set(&first, NULL)); /* there is none */
    CHECK_OK(spn_task_local_set(&first, "x"));
    CHECK_OK(spn_task_local_set(&first, NULL));
    CHECK(spn_task_local_get(&first) == NULL);
    return 0;
}

/* Taken away, it is not destroyed. */
TEST(task_local__taken_away__not_destroyed, "S-9")
{
    order[0] = '\0';
    CHECK_OK(spn_executor_call(spn_executor_direct(), take_away, NULL));
    CHECK_STR(order, "");
}

/* Outside of a task there is no store. */
TEST(task_local__no_task__refused, "S-9")
{
    CHECK_STATUS(spn_task_local_set(&first, "x"), SPN_ESTATE);
    CHECK(spn_task_local_get(&first) == NULL);
}

static int inner(void *arg)
{
    (void)arg;
    CHECK(spn_task_local_get(&first) == NULL);
    CHECK_OK(spn_task_local_set(&first, "i"));
    return 0;
}

static int outer(void *arg)
{
    (void)arg;
    CHECK_OK(spn_task_local_set(&first, "o"));
    CHECK_OK(spn_executor_call(spn_executor_direct(), inner, NULL));
    CHECK_STR(order, "i");
    CHECK_STR(spn_task_local_get(&first), "o");
    return 0;
}

/* A task inside a task has its own; the outer one finds its own again. */
TEST(task_local__task_in_a_task__each_has_its_own, "S-9")
{
    spn_pool *pool = pool_of(1);

    order[0] = '\0';
    CHECK_OK(spn_executor_call(spn_executor_direct(), outer, NULL));
    CHECK_STR(order, "io");
    order[0] = '\0';
    run_on(pool, outer, NULL);
    end_pool(pool);
    CHECK_STR(order, "io");
}

static int rounds;
static void set_again(void *value);
static const spn_task_local stubborn = { set_again };

static void set_again(void *value)
{
    rounds++;
    if (rounds < *(int *)value)
        CHECK_OK(spn_task_local_set(&stubborn, value));
}

static int set_stubborn(void *times)
{
    CHECK_OK(spn_task_local_set(&stubborn, times));
    return 0;
}

static int complaints;

static void count_log(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    complaints += level <= SPN_LOG_WARN && strstr(message, "task-local") != NULL;
}

__attribute__((constructor)) static void set_log(void)
{
    if (spn_log_set_hook(count_log, NULL) != SPN_OK)
        abort(); /* nothing can have been logged before main */
}

/* A destructor may set values again, but not for ever. */
TEST(task_local__destructor_sets_again__bounded, "S-9")
{
    int times = 3;

    rounds = 0;
    CHECK_OK(spn_executor_call(spn_executor_direct(), set_stubborn, &times));
    CHECK_EQ(rounds, 3);
    CHECK_EQ(complaints, 0);
    rounds = 0;
    times = 1000;
    CHECK_OK(spn_executor_call(spn_executor_direct(), set_stubborn, &times));
    CHECK_EQ(rounds, SPN_TASK_LOCAL_ROUNDS);
    CHECK_EQ(complaints, 1);
}

static int set_many(void *arg)
{
    static spn_task_local keys[40];
    static char letters[40];

    (void)arg;
    for (int i = 0; i < 40; i++) {
        letters[i] = (char)('A' + i);
        keys[i].destroy = note;
        CHECK_OK(spn_task_local_set(&keys[i], &letters[i]));
    }
    for (int i = 0; i < 40; i++)
        CHECK(spn_task_local_get(&keys[i]) == &letters[i]);
    return 0;
}

/* Many keys are as good as one, and leave no memory behind. */
TEST(task_local__many_keys__all_destroyed_in_order, "S-9")
{
    long before;

    CHECK_OK(spn_executor_call(spn_executor_direct(), set_many, NULL));
    before = atomic_load(&counting_live);
    order[0] = '\0';
    CHECK_OK(spn_executor_call(spn_executor_direct(), set_many, NULL));
    CHECK_EQ(strlen(order), 40);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(order[i], 'A' + i);
    CHECK_EQ(atomic_load(&counting_live), before);
}

static int set_and_die(void *arg)
{
    (void)arg;
    CHECK_OK(spn_task_local_set(&first, "d"));
    pthread_exit(NULL);
}

/* A task that ends its thread has its values destroyed. */
TEST(task_local__task_ends_its_thread__destroyed, "S-9", "G-21")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
    spn_pool *pool;

    REQUIRE_OK(spn_pool_create(&pool, &opts));
    order[0] = '\0';
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), set_and_die, NULL));
    run_on(pool, take_away, NULL);
    end_pool(pool);
    CHECK_STR(order, "d");
}

static int set_without_memory(void *arg)
{
    (void)arg;
    CHECK_OK(spn_task_local_set(&first, "1"));
    for (int i = 0; i < 3; i++) {
        static const spn_task_local more[3];

        CHECK_OK(spn_task_local_set(&more[i], "m"));
    }
    atomic_store(&counting_refuse, 1);
    CHECK_STATUS(spn_task_local_set(&second, "2"), SPN_ENOMEM);
    CHECK_OK(spn_task_local_set(&first, "0")); /* there is a place for that */
    atomic_store(&counting_refuse, 0);
    CHECK(spn_task_local_get(&second) == NULL);
    CHECK_STR(spn_task_local_get(&first), "0");
    return 0;
}

/* Without memory nothing changes. */
TEST(task_local__no_memory__what_was_there_stays, "G-22")
{
    order[0] = '\0';
    CHECK_OK(spn_executor_call(spn_executor_direct(), set_without_memory, NULL));
    CHECK_STR(order, "0");
}
