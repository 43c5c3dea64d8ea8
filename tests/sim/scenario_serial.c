/* SPDX-License-Identifier: MIT */
/* scenario_serial.c - a task against a key that goes idle. */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

enum { TASKS = 3 };

static spn_manual_executor *manual;
static spn_serial *serial;
static SPN__ATOMIC(int) accepted, ran, dropped, inside[2]; /* of each key */
static int order[TASKS], ordered; /* ordered by the lane itself */

struct item {
    spn_task task;
    int number, key;
};

static struct item items[TASKS];

static int run(spn_task *task)
{
    const struct item *i = (struct item *)(void *)task;

    sim_assert(spn__fetch_add(&inside[i->key], 1, relaxed) == 0); /* one at a time */
    if (i->key == 1)
        order[ordered++] = i->number;
    (void)spn__fetch_add(&ran, 1, relaxed);
    (void)spn__fetch_sub(&inside[i->key], 1, relaxed);
    return 0;
}

static void drop(spn_task *task, int reason)
{
    (void)task;
    sim_assert(reason < 0);
    (void)spn__fetch_add(&dropped, 1, relaxed);
}

static bool begin_over(spn_executor *below, uint32_t batch)
{
    spn_serial_opts opts = SPN_SERIAL_OPTS_INIT;

    ordered = 0;
    spn__init(&accepted, 0);
    spn__init(&ran, 0);
    spn__init(&dropped, 0);
    spn__init(&inside[0], 0);
    spn__init(&inside[1], 0);
    for (int i = 0; i < TASKS; i++) {
        items[i].task = (spn_task)SPN_TASK_INIT(run, drop);
        items[i].number = i;
        spn__init((SPN__ATOMIC(uint32_t) *)(void *)&items[i].task.queued, 0);
    }
    opts.batch = batch;
    return spn_serial_create(&serial, below, &opts) == SPN_OK;
}

static bool begin(uint32_t batch)
{
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return false;
    if (begin_over(spn_manual_executor_executor(manual), batch))
        return true;
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
    return false;
}

static void execute(int i, uint64_t key)
{
    int rc;

    items[i].key = (int)key % 2;
    rc = spn_serial_execute(serial, key, &items[i].task);
    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED || rc == SPN_ENOMEM ||
               rc == SPN_EFULL);
    if (rc == SPN_OK)
        (void)spn__fetch_add(&accepted, 1, relaxed);
}

static void execute_two(void *arg)
{
    (void)arg;
    execute(1, 5);
    execute(2, 5);
}

static void execute_one(void *arg)
{
    (void)arg;
    execute(1, 5);
}

static void serve(void *arg)
{
    (void)arg;
    (void)spn_manual_executor_run(manual, INT64_MAX);
}

static void check_all_ran(void)
{
    sim_assert(spn__load(&ran, relaxed) + spn__load(&dropped, relaxed) ==
               spn__load(&accepted, relaxed));
}

/* A task arrives as the runner goes idle: it is seen, or starts another turn. */
SCENARIO(serial__task_comes_as_the_key_goes_idle__is_not_stranded, "X-15")
{
    if (!begin(1 + sim_choose(2)))
        return;
    execute(0, 5);
    sim_thread(execute_two, NULL);
    sim_thread(serve, NULL);
    serve(NULL);
    sim_join_all();
    serve(NULL);
    check_all_ran();
    for (int i = 1, last = -1; i < ordered; last = order[i], i++)
        sim_assert(order[i] > order[i - 1] && order[i] > last);
    sim_assert(spn_serial_destroy(serial) == SPN_OK);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(serial__task_comes_as_the_key_goes_idle__is_not_stranded, .faults = true)

/* An executor below that refuses the first so many turns. */
struct refusing {
    spn_executor executor;
    SPN__ATOMIC(int) refusals;
};

static struct refusing refusing;

static int refuse(spn_executor *executor, spn_task *task)
{
    (void)executor;
    if (spn__fetch_sub(&refusing.refusals, 1, relaxed) > 0)
        return SPN_EFULL;
    return spn_executor_execute(spn_executor_direct(), task);
}

static const spn_executor_ops refusing_ops = { .size = sizeof refusing_ops,
                                               .execute = refuse };

/* A refused turn while others queue up behind it: each task runs, comes back or is
 * dropped. */
SCENARIO(serial__turn_refused_while_tasks_come__none_is_stranded, "X-15")
{
    refusing.executor.ops = &refusing_ops;
    spn__init(&refusing.refusals, 1 + (int)sim_choose(3));
    if (!begin_over(&refusing.executor, 1))
        return;
    sim_thread(execute_two, NULL);
    execute(0, 5);
    sim_join_all();
    check_all_ran();
    sim_outcome(
        (unsigned)(spn__load(&ran, relaxed) + 4 * spn__load(&dropped, relaxed)));
    sim_assert(spn_serial_destroy(serial) == SPN_OK);
}
SCENARIO_OPTS(serial__turn_refused_while_tasks_come__none_is_stranded, .dfs = 2,
              .dfs_models = SIM_SC)

static int given; /* back by shutdown_now */

static void give(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    (void)ctx;
    (void)task;
    given++;
}

static void stop(void *arg)
{
    (void)arg;
    (void)spn_executor_shutdown_now(spn_serial_executor(serial), give, NULL, NULL);
}

/* shutdown_now against tasks that come and run: each is in one place, and the end comes
 * after all of them. */
SCENARIO(serial__stopped_while_tasks_come__each_in_one_place)
{
    spn_executor *whole;

    if (!begin(1))
        return;
    given = 0;
    whole = spn_serial_executor(serial);
    execute(0, 5);
    sim_thread(execute_one, NULL);
    sim_thread(serve, NULL);
    sim_thread(stop, NULL);
    /* The turns that wait are empty now, but must be taken. */
    sim_join_all();
    serve(NULL);
    sim_assert(spn_executor_await(whole, SPN_SEC(1)) == SPN_OK);
    sim_assert(spn__load(&ran, relaxed) + given == spn__load(&accepted, relaxed));
    sim_assert(spn_serial_destroy(serial) == SPN_OK);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}

static void await_end(void *arg)
{
    (void)arg;
    sim_assert(spn_executor_await(spn_serial_executor(serial), SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&ran, relaxed) == spn__load(&accepted, relaxed));
    sim_assert(spn_serial_destroy(serial) == SPN_OK); /* nobody touches it any more */
}

/* Shut down, and freed by whoever sees the end, while the last task is just through. */
SCENARIO(serial__freed_at_its_end__nobody_touches_it)
{
    if (!begin(1))
        return;
    execute(0, 5);
    execute(1, 6);
    sim_assert(spn_executor_shutdown(spn_serial_executor(serial)) == SPN_OK);
    sim_thread(serve, NULL);
    sim_thread(await_end, NULL);
    serve(NULL);
    sim_join_all();
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(serial__freed_at_its_end__nobody_touches_it, .dfs = 2,
              .dfs_models = SIM_SC)

/* ---- [ctl] --------------------------------------------------------------------------- */

static void close_it(void *arg)
{
    (void)arg;
    sim_assert(spn_executor_shutdown(spn_serial_executor(serial)) == SPN_OK);
}

/* Closed when the last task is just through: whoever waits for the end sees what that
 * one did. */
SCENARIO(serial__closed_by_another__the_end_comes_after_the_tasks, "X-15")
{
    sim_assert(begin(0));
    execute(0, 1);
    sim_thread(serve, NULL);
    sim_thread(close_it, NULL);
    sim_assert(spn_executor_await(spn_serial_executor(serial), SPN_FOREVER) == SPN_OK);
    sim_assert(spn__load(&ran, relaxed) == 1); /* nothing else orders it */
    sim_join_all();
    sim_assert(spn_serial_destroy(serial) == SPN_OK);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}

/* Freed as soon as that is not refused: what the tasks did to it is over. */
SCENARIO(serial__freed_when_nothing_is_inside__after_all_tasks, "X-15")
{
    int rc = SPN_EBUSY;

    sim_assert(begin(0));
    execute(0, 1);
    sim_thread(serve, NULL);
    for (int i = 0; i < 4 && rc == SPN_EBUSY; i++)
        rc = spn_serial_destroy(serial);
    sim_join_all();
    if (rc == SPN_EBUSY)
        rc = spn_serial_destroy(serial);
    sim_assert(rc == SPN_OK && spn__load(&ran, relaxed) == 1);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}

/* Refuses the first turn, after the task that asked for it was taken back and came again, as
 * another thread may have done. */
static int refuse_after_return(spn_executor *executor, spn_task *task)
{
    (void)executor;
    if (spn__fetch_sub(&refusing.refusals, 1, relaxed) <= 0)
        return spn_executor_execute(spn_executor_direct(), task);
    sim_assert(spn_executor_remove(spn_serial_executor(serial), &items[0].task) == 1);
    sim_assert(spn_executor_execute(spn_serial_executor(serial), &items[0].task) ==
               SPN_OK);
    return SPN_EFULL;
}

static const spn_executor_ops returning_ops = { .size = sizeof returning_ops,
                                                .execute = refuse_after_return };

/* A refused turn, and its task taken back and accepted once more by then: that one runs. */
SCENARIO(serial__taken_back_and_again_while_refused__runs, "X-15")
{
    refusing.executor.ops = &returning_ops;
    spn__init(&refusing.refusals, 1);
    sim_assert(begin_over(&refusing.executor, 1));
    items[0].key = 0;
    sim_assert(spn_executor_execute(spn_serial_executor(serial), &items[0].task) ==
               SPN_OK);
    sim_assert(spn__load(&ran, relaxed) == 1);
    sim_assert(spn_serial_destroy(serial) == SPN_OK);
}
