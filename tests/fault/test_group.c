/* SPDX-License-Identifier: MIT */
/*
 * test_group.c - every allocation of a script that uses contexts, task-local values,
 * tokens, groups and limiters fails, once and from then on.  Each call must succeed or
 * say that there is no memory, what was taken must be seen to, and no block may be left.
 */
#include "faults.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <spindle.h>

/* ---- the script ---------------------------------------------------------------------- */

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    return rc == SPN_OK;
}

static int key, destroyed, released, set_count;

static void destroy(void *value)
{
    (void)value;
    destroyed++;
}

static void release(void *value)
{
    (void)value;
    released++;
}

static const spn_task_local locals[6] = { { destroy }, { destroy }, { destroy },
                                          { destroy }, { destroy }, { destroy } };

static int work(void *arg, void **result)
{
    (void)result;
    CHECK(spn_context_get(spn_context_current(), &key) == arg);
    for (int i = 0; i < 6; i++)
        set_count += ok(spn_task_local_set(&locals[i], &key));
    return 0;
}

static int64_t live_in(spn_group *group)
{
    spn_group_stats stats = SPN_GROUP_STATS_INIT;

    CHECK_OK(spn_group_stats_get(group, &stats));
    return stats.live;
}

static void use(spn_manual_executor *m, spn_group *group, spn_limiter *limiter,
                spn_context *context)
{
    spn_executor *executor = spn_manual_executor_executor(m);
    spn_context_scope scope;
    spn_future *f[3] = { NULL };
    int64_t accepted = 0;

    if (!ok(spn_context_enter(&scope, context)))
        return;
    accepted += ok(spn_group_submit(group, executor, work, &key, &f[0]));
    accepted +=
        ok(spn_group_submit(group, spn_limiter_executor(limiter), work, &key, &f[1]));
    accepted += ok(spn_group_submit(group, executor, work, &key, &f[2]));
    CHECK_EQ(live_in(group), accepted);
    CHECK_OK(spn_context_leave(&scope));
    CHECK(f[2] == NULL || spn_future_cancel(f[2], 1) == 1);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_EQ(live_in(group), 0);
    for (int i = 0; i < 3; i++) {
        if (f[i] != NULL)
            CHECK_EQ(spn_future_get_state(f[i]),
                     i == 2 ? SPN_FUTURE_CANCELED : SPN_FUTURE_SUCCEEDED);
        spn_future_unref(f[i]);
    }
}

static void script(void)
{
    const spn_context_value value = { &key, &key, release };
    spn_context_opts of_context = SPN_CONTEXT_OPTS_INIT;
    spn_limiter_opts limits = SPN_LIMITER_OPTS_INIT;
    spn_group_opts of_group = SPN_GROUP_OPTS_INIT;
    spn_manual_executor *m = NULL;
    spn_context *context = NULL, *child = NULL;
    spn_cancel_token *token = NULL;
    spn_group *group = NULL, *inner = NULL;
    spn_limiter *limiter = NULL;

    of_context.values = &value;
    of_context.value_count = 1;
    released = destroyed = set_count = 0;
    if (ok(spn_context_create(&context, &of_context))) {
        of_context = (spn_context_opts)SPN_CONTEXT_OPTS_INIT;
        of_context.parent = context;
        (void)ok(spn_context_create(&child, &of_context));
    }
    if (ok(spn_cancel_token_create(&token, NULL))) {
        of_group.token = token;
        (void)ok(spn_group_create(&group, &of_group));
    }
    if (group != NULL) {
        of_group.token = NULL;
        of_group.parent = group;
        (void)ok(spn_group_create(&inner, &of_group));
    }
    if (ok(spn_manual_executor_create(&m))) {
        limits.executor = spn_manual_executor_executor(m);
        limits.max_in_flight = limits.max_waiting = 1;
        (void)ok(spn_limiter_create(&limiter, &limits));
    }
    if (child != NULL && inner != NULL && limiter != NULL)
        use(m, inner, limiter, child);
    if (token != NULL)
        CHECK_EQ(spn_cancel_token_cancel(token, -1), 1);
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_group_destroy(inner));
    CHECK_OK(spn_group_destroy(group));
    CHECK_OK(spn_manual_executor_destroy(m));
    spn_cancel_token_unref(token);
    CHECK_EQ(released, 0);
    spn_context_unref(child);
    spn_context_unref(context);
    CHECK_EQ(released, context != NULL);
    CHECK_EQ(destroyed, set_count);
}

static void sweep(bool more)
{
    (void)spn_thread_current();
    script();
    CHECK_EQ(set_count, 12); /* two tasks ran */
    fault_sweep(script, more, 12);
}

/* One allocation fails. */
TEST(group__each_allocation_fails__nothing_is_lost, "G-22")
{
    sweep(false);
}

/* All fail from one on. */
TEST(group__all_allocations_fail_from_one_on__nothing_is_lost, "G-22")
{
    sweep(true);
}

static int ran;

static int count_run(void *arg, void **result)
{
    (void)arg;
    (void)result;
    ran++;
    return 0;
}

/* A thread whose record there is no memory for: it runs tasks of a group and through a
 * limiter, and cancels; only scopes and waits are refused. */
static void *without_record(void *arg)
{
    spn_manual_executor *m = arg;
    spn_context_scope scope = SPN_CONTEXT_SCOPE_INIT;

    atomic_store(&point, 0);
    atomic_store(&fail_at, 1);
    atomic_store(&fail_more, 1);
    CHECK_STATUS(spn_context_enter(&scope, NULL), SPN_ENOMEM);
    CHECK_STATUS(spn_context_leave(&scope), SPN_ESTATE);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    atomic_store(&fail_at, 0);
    return NULL;
}

TEST(group__no_memory_for_the_threads_record__tasks_run, "G-22", "G-14")
{
    spn_limiter_opts limits = SPN_LIMITER_OPTS_INIT;
    spn_context *context;
    spn_context_scope scope;
    spn_manual_executor *m;
    spn_limiter *limiter;
    spn_group *group;
    pthread_t thread;

    REQUIRE_OK(spn_manual_executor_create(&m));
    limits.executor = spn_manual_executor_executor(m);
    limits.max_in_flight = 1;
    limits.max_waiting = 1;
    REQUIRE_OK(spn_limiter_create(&limiter, &limits));
    REQUIRE_OK(spn_group_create(&group, NULL));
    REQUIRE_OK(spn_context_create(&context, NULL));
    REQUIRE_OK(spn_context_enter(&scope, context));
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(spn_group_submit(group, spn_limiter_executor(limiter), count_run,
                                    NULL, NULL));
    CHECK_OK(spn_context_leave(&scope));
    spn_context_unref(context);
    ran = 0;
    REQUIRE(pthread_create(&thread, NULL, without_record, m) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(ran, 2);
    CHECK_EQ(live_in(group), 0);
    CHECK_OK(spn_group_destroy(group));
    CHECK_OK(spn_limiter_destroy(limiter));
    CHECK_OK(spn_manual_executor_destroy(m));
}
