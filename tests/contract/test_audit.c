/* SPDX-License-Identifier: MIT */
/*
 * test_audit.c - what is left behind and what is done wrong is told, in libraries that are
 * built for it.
 *
 * The log can be read only by taking the place of the standard error, and at exit only from
 * outside: each piece of misuse happens in a child.
 */
#include <spindle/audit.h>

#include <spindle/future.h>
#include <spindle/invoke.h>
#include <spindle/object_pool.h>
#include <spindle/pool.h>
#include <spindle/queue.h>
#include <spindle/timer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool_calls.h"
#include "test.h"

static bool audited(void)
{
    if (spn_audit_each(NULL, NULL) != SPN_ENOTSUP)
        return true;
    t_skip("not built with SPINDLE_AUDIT");
    return false;
}

/* ---- what is left ------------------------------------------------------------------------ */

static struct {
    int count;
    char kinds[8][32], names[8][48], states[8][32];
    const void *objects[8];
    size_t callers;
} found;

static void note(void *ctx, const spn_audit_item *item)
{
    CHECK(ctx == &found);
    if (found.count < 8) {
        snprintf(found.kinds[found.count], 32, "%s", item->kind);
        snprintf(found.names[found.count], 48, "%s", item->name);
        snprintf(found.states[found.count], 32, "%s", item->state);
        found.objects[found.count] = item->object;
        found.callers = item->caller_count;
    }
    found.count++;
}

static int find_all(void)
{
    int64_t count;

    memset(&found, 0, sizeof found);
    /* Not inside CHECK_EQ: a compiler may evaluate found.count before the call. */
    count = spn_audit_each(note, &found);
    CHECK_EQ(count, found.count);
    return found.count;
}

static int make_nothing(void *ctx, void **object)
{
    static char nothing;

    (void)ctx;
    *object = &nothing;
    return 0;
}

/* ---- what is done wrong ------------------------------------------------------------------- */

static char said[16384];
static int ended; /* the child's wait status */

/* Runs fn in a child that ends as main does, and keeps what it wrote. */
static void run_in_child(void (*fn)(void))
{
    size_t used = 0;
    ssize_t got;
    int ends[2];
    pid_t child;

    REQUIRE(pipe(ends) == 0);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        fn();
        exit(0);
    }
    close(ends[1]);
    while (used < sizeof said - 1 &&
           (got = read(ends[0], said + used, sizeof said - 1 - used)) > 0)
        used += (size_t)got;
    said[used] = '\0';
    close(ends[0]);
    REQUIRE(waitpid(child, &ended, 0) == child);
}

static int lines_with(const char *text)
{
    int count = 0;

    for (const char *at = said; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static spn_pool *pool_of_one(void)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
    spn_pool *pool;

    opts.name = "io";
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    return pool;
}

static void forget_a_pool(void)
{
    (void)pool_of_one();
}

/* A pool that nobody shut down is told at exit, with who made it. */
TEST(audit__pool_forgotten__told_at_exit, "MET-19")
{
    if (!audited())
        return;
    run_in_child(forget_a_pool);
    CHECK_EQ(lines_with("leak: "), 1);
    CHECK_EQ(lines_with("leak: pool io, never shut down was never destroyed; made by"),
             1);
    CHECK(lines_with("contract_audit") >= 1); /* the frames of the program */
}

static void forget_futures(void)
{
    static spn_future *futures[40];

    for (int i = 0; i < 40; i++)
        REQUIRE_OK(spn_future_create(&futures[i], NULL));
}

/* Many of them are counted, not listed. */
TEST(audit__many_futures_leaked__some_listed_all_counted, "MET-19")
{
    if (!audited())
        return;
    run_in_child(forget_futures);
    CHECK_EQ(lines_with("leak: future promise was never destroyed"), 16);
    CHECK_EQ(lines_with("leak: and 24 more"), 1);
}

static void lose_futures(void)
{
    spn_future *f;

    for (int i = 0; i < 8; i++)
        REQUIRE_OK(spn_future_create(&f, NULL));
    f = NULL;
}

/* What is left fails the run where LeakSanitizer is there: the list does not hide it. */
TEST(audit__futures_lost__run_fails_under_address_sanitizer, "MET-19")
{
    if (!audited())
        return;
    run_in_child(lose_futures);
    CHECK_EQ(lines_with("leak: future promise was never destroyed"), 8);
    CHECK_EQ(WIFEXITED(ended) && WEXITSTATUS(ended) != 0, T_ASAN);
    CHECK_EQ(lines_with("LeakSanitizer: detected memory leaks"), T_ASAN);
}

static void leave_items(void)
{
    spn_queue *queue;
    int item;

    REQUIRE_OK(spn_queue_create(&queue, SPN_QUEUE_ARRAY,
                                &(spn_queue_opts){ .size = sizeof(spn_queue_opts),
                                                   .capacity = 4 }));
    REQUIRE_OK(spn_queue_put(queue, &item, SPN_FOREVER));
    REQUIRE_OK(spn_queue_put(queue, &item, SPN_FOREVER));
    CHECK_OK(spn_queue_destroy(queue));
}

/* Items that nobody gets and nobody drops. */
TEST(audit__queue_destroyed_with_items__told, "MET-20")
{
    if (!audited())
        return;
    run_in_child(leave_items);
    CHECK_EQ(lines_with("misuse: queue "), 1);
    CHECK_EQ(lines_with("is destroyed with 2 items, and nobody drops them"), 1);
    CHECK_EQ(lines_with("leak"), 0);
}

static int fail(void *arg)
{
    (void)arg;
    return SPN_ENOTSUP;
}

static void ignore_a_failure(void)
{
    spn_pool *pool = pool_of_one();
    spn_future *looked_at, *ignored;

    REQUIRE_OK(
        spn_executor_submit_run(spn_pool_executor(pool), fail, NULL, NULL, &looked_at));
    CHECK_STATUS(spn_future_get(looked_at, NULL, SPN_FOREVER), SPN_EFAILED);
    spn_future_unref(looked_at);
    REQUIRE_OK(
        spn_executor_submit_run(spn_pool_executor(pool), fail, NULL, NULL, &ignored));
    spn_future_unref(ignored);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

/* A failure is told if nobody asked for it, and only then. */
TEST(audit__failed_future_never_read__told, "MET-20")
{
    if (!audited())
        return;
    run_in_child(ignore_a_failure);
    CHECK_EQ(lines_with("misuse: future "), 1);
    CHECK_EQ(lines_with("(SPN_ENOTSUP), and nobody looked at it"), 1);
    CHECK_EQ(lines_with("leak"), 0);
}

static int nothing(spn_task *task)
{
    (void)task;
    return 0;
}

static void submit_twice(void)
{
    static spn_task task = SPN_TASK_INIT(nothing, NULL);
    spn_pool *pool = pool_of_one();

    CHECK_OK(spn_pool_pause(pool));
    CHECK_OK(spn_executor_execute(spn_pool_executor(pool), &task));
    CHECK_STATUS(spn_executor_execute(spn_pool_executor(pool), &task), SPN_EBUSY);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

/* A task that is queued. */
TEST(audit__task_submitted_twice__told, "MET-20", "P29")
{
    if (!audited())
        return;
    run_in_child(submit_twice);
    CHECK_EQ(lines_with("misuse: task "), 1);
    CHECK_EQ(lines_with("is submitted while it is queued"), 1);
}

static void return_wrongly(void)
{
    spn_object_pool_opts opts = SPN_OBJECT_POOL_OPTS_INIT;
    spn_object_pool *pool;
    void *object;
    int other;

    opts.name = "connections";
    opts.factory.make = make_nothing;
    REQUIRE_OK(spn_object_pool_create(&pool, &opts));
    REQUIRE_OK(spn_object_pool_borrow(pool, &object, 0));
    CHECK_STATUS(spn_object_pool_return(pool, &other), SPN_EINVAL);
    CHECK_OK(spn_object_pool_return(pool, object));
    CHECK_STATUS(spn_object_pool_return(pool, object), SPN_ESTATE);
    CHECK_OK(spn_object_pool_shutdown(pool));
    CHECK_OK(spn_object_pool_destroy(pool));
}

/* An object that comes back twice, and one that is another's. */
TEST(audit__object_returned_twice_or_elsewhere__told, "MET-20")
{
    if (!audited())
        return;
    run_in_child(return_wrongly);
    CHECK_EQ(lines_with("misuse: object pool connections: object "), 2);
    CHECK_EQ(lines_with("is given back and is not its own"), 1);
    CHECK_EQ(lines_with("is given back and is not out"), 1);
}

static spn_pool *parents;

static void use_in_child(void)
{
    spn_pool *own = pool_of_one();

    CHECK_EQ(find_all(), 1); /* its parent's are not its own */
    CHECK_OK(spn_pool_close(own));
    CHECK_OK(spn_pool_destroy(own));
    /* Given back in the child as well, which changes nothing there. */
    CHECK_OK(pool_shutdown(parents));
    CHECK_OK(spn_pool_destroy(parents));
}

/* The child of a fork is not blamed for what its parent has. */
TEST(audit__fork__the_child_begins_anew, "MET-19")
{
    if (!audited())
        return;
    parents = pool_of_one();
    run_in_child(use_in_child);
    CHECK_EQ(lines_with("leak"), 0);
    CHECK_EQ(find_all(), 1);
    CHECK_OK(spn_pool_close(parents));
    CHECK_OK(spn_pool_destroy(parents));
    CHECK_EQ(find_all(), 0);
}

/* A library that was built without says so, and that is all. */
TEST(audit__not_built_in__said, "MET-19")
{
    const int64_t count = spn_audit_each(NULL, NULL);

    CHECK(count == SPN_ENOTSUP || count == 0);
}

/* ---- what is there -------------------------------------------------------------------------
 * Last, because they make threads: a child of a process with threads may find the locks of
 * the allocator held for ever. */

/* Everything that is made is there, in order, until it is given back. */
TEST(audit__things_made__listed_until_given_back, "MET-19")
{
    spn_object_pool_opts objects_opts = SPN_OBJECT_POOL_OPTS_INIT;
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_object_pool *objects;
    spn_future *future;
    spn_timer *timer;
    spn_queue *queue;
    spn_pool *pool;

    if (!audited())
        return;
    CHECK_EQ(find_all(), 0);
    opts.name = "io";
    objects_opts.factory.make = make_nothing;
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    REQUIRE_OK(spn_queue_create(&queue, SPN_QUEUE_LINKED, NULL));
    REQUIRE_OK(spn_future_create(&future, NULL));
    REQUIRE_OK(spn_timer_create(&timer, NULL));
    REQUIRE_OK(spn_object_pool_create(&objects, &objects_opts));
    REQUIRE(find_all() == 5);
    CHECK_STR(found.kinds[0], "pool");
    CHECK_STR(found.names[0], "io");
    CHECK_STR(found.states[0], "never shut down");
    CHECK(found.objects[0] == pool);
    CHECK_STR(found.kinds[1], "queue");
    CHECK_STR(found.names[1], "linked");
    CHECK_STR(found.kinds[2], "future");
    CHECK_STR(found.names[2], "promise");
    CHECK_STR(found.kinds[3], "timer");
    CHECK_STR(found.states[3], "never stopped");
    CHECK_STR(found.kinds[4], "object pool");
    CHECK(found.objects[4] == objects);
    CHECK(found.callers >= 1);

    CHECK_OK(pool_shutdown(pool));
    REQUIRE(find_all() == 5);
    CHECK_STR(found.states[0], "shut down");
    CHECK_OK(pool_await(pool, T_LONG_NS));
    CHECK_OK(spn_pool_destroy(pool));
    spn_future_unref(future);
    CHECK_OK(spn_queue_destroy(queue));
    CHECK_OK(spn_timer_stop(timer, NULL, NULL));
    CHECK_OK(spn_timer_destroy(timer));
    REQUIRE(find_all() == 1);
    CHECK_STR(found.kinds[0], "object pool");
    CHECK_OK(spn_object_pool_shutdown(objects));
    CHECK_OK(spn_object_pool_destroy(objects));
    CHECK_EQ(find_all(), 0);
}

static int succeed(void *arg)
{
    (void)arg;
    return 0;
}

/* Futures come and go with pools at work, and the list is empty at the end. */
TEST(audit__futures_of_a_busy_pool__none_left, "MET-19")
{
    spn_pool_opts opts = spn_pool_opts_fixed(2, -1);
    spn_future *futures[200];
    spn_pool *pool;

    if (!audited())
        return;
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    for (int i = 0; i < 200; i++)
        REQUIRE_OK(spn_executor_submit_run(spn_pool_executor(pool), succeed, NULL, NULL,
                                           &futures[i]));
    CHECK_EQ(find_all(), 201);
    for (int i = 0; i < 200; i++) {
        CHECK_OK(spn_future_get(futures[i], NULL, SPN_FOREVER));
        spn_future_unref(futures[i]);
    }
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
    CHECK_EQ(find_all(), 0);
}
