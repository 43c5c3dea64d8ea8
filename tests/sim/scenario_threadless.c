/* SPDX-License-Identifier: MIT */
/* scenario_threadless.c - a task against the end of the wait. */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

static spn_manual_executor *shared;
static spn_threadless *threadless;
static spn_future *answer;
static SPN__ATOMIC(int) payload, accepted, drops;
static int runs; /* ordered by the calls under test */

static int run(spn_task *task)
{
    (void)task;
    runs++;
    spn__store(&payload, 7, relaxed);
    return 0;
}

static void drop(spn_task *task, int reason)
{
    (void)task;
    sim_assert(reason == SPN_ESHUTDOWN);
    (void)spn__fetch_add(&drops, 1, relaxed);
}

static spn_task node;

static bool begin(void)
{
    runs = 0;
    spn__init(&payload, 0);
    spn__init(&accepted, 0);
    spn__init(&drops, 0);
    node = (spn_task)SPN_TASK_INIT(run, drop);
    spn__init((SPN__ATOMIC(uint32_t) *)(void *)&node.queued, 0);
    if (spn_manual_executor_create(&shared) != SPN_OK)
        return false;
    if (spn_threadless_create(&threadless, spn_manual_executor_executor(shared)) ==
        SPN_OK) {
        if (spn_future_create(&answer, NULL) == SPN_OK) {
            sim_assert(spn_threadless_set_future(threadless, answer) == SPN_OK);
            return true;
        }
        sim_assert(spn_threadless_destroy(threadless) == SPN_OK);
    }
    sim_assert(spn_manual_executor_destroy(shared) == SPN_OK);
    return false;
}

/* Whatever happened: an accepted task ran once or was dropped, and all is free. */
static void end(void)
{
    (void)spn_manual_executor_run(shared, INT64_MAX);
    sim_assert(runs + spn__load(&drops, relaxed) == spn__load(&accepted, relaxed));
    sim_assert(spn_threadless_destroy(threadless) == SPN_OK);
    sim_assert(spn_manual_executor_destroy(shared) == SPN_OK);
    spn_future_unref(answer);
}

static void execute(void *arg)
{
    const int rc = spn_executor_execute(spn_threadless_executor(threadless), &node);

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_EREJECTED);
    if (rc == SPN_OK)
        (void)spn__fetch_add(&accepted, 1, relaxed);
}

static void notify(void *arg)
{
    (void)arg;
    (void)spn_threadless_notify_return(threadless, -9, "gone");
}

static void complete(void *arg)
{
    (void)arg;
    (void)spn_future_complete(answer, NULL);
}

static void shut_down(void *now)
{
    spn_executor *executor = spn_threadless_executor(threadless);

    if (now != NULL)
        (void)spn_executor_shutdown_now(executor, NULL, NULL, NULL);
    else
        (void)spn_executor_shutdown(executor);
}

static void interrupt(void *thread)
{
    (void)spn_thread_interrupt(thread);
}

/* A task and the deadline: it runs in the waiter or goes to the shared executor. */
SCENARIO(threadless__task_races_the_deadline__runs_once, "S-2", "X-16")
{
    int rc;

    if (!begin())
        return;
    sim_thread(execute, NULL);
    rc = spn_threadless_wait_and_drain(threadless, SPN_US(3));
    if (rc == SPN_ENOMEM) { /* it has not been: the task waits for the next */
        sim_join_all();
        rc = spn_threadless_wait_and_drain(threadless, SPN_US(3));
        if (rc == SPN_ENOMEM)
            sim_assert(spn_executor_shutdown_now(spn_threadless_executor(threadless),
                                                 NULL, NULL, NULL) == SPN_OK);
    }
    if (rc == SPN_ENOMEM)
        sim_assert(runs == 0);
    else if (rc == SPN_OK)
        sim_assert(runs == 1 && spn__load(&payload, relaxed) == 7);
    else
        sim_assert(rc == SPN_ETIMEDOUT && runs == 0);
    sim_outcome(rc == SPN_OK);
    sim_join_all();
    sim_assert(spn__load(&accepted, relaxed) == 1);
    end();
}
SCENARIO_OPTS(threadless__task_races_the_deadline__runs_once, .dfs = 2,
              .dfs_models = SIM_SC, .faults = true)

/* notify_return at any time: the waiter always comes back, its future has an outcome,
 * and a task that came is not lost. */
SCENARIO(threadless__notified_while_a_task_comes__always_returns, "S-2", "P12")
{
    if (!begin())
        return;
    sim_thread(execute, NULL);
    sim_thread(notify, NULL);
    sim_assert(spn_threadless_wait_and_drain(threadless, SPN_SEC(100)) == SPN_OK);
    sim_assert(sim_now() < SPN_SEC(100)); /* woken, not saved by the deadline */
    sim_outcome((unsigned)runs);
    sim_join_all();
    sim_assert(spn_future_get_state(answer) == SPN_FUTURE_FAILED);
    sim_assert(spn__load(&accepted, relaxed) == 1);
    end();
}
SCENARIO_OPTS(threadless__notified_while_a_task_comes__always_returns,
              .early = SIM_NEVER)

/* The answer comes another way. */
SCENARIO(threadless__answer_comes_elsewhere__always_returns, "S-2", "P12")
{
    if (!begin())
        return;
    sim_thread(complete, NULL);
    sim_assert(spn_threadless_wait_and_drain(threadless, SPN_SEC(100)) == SPN_OK);
    sim_assert(sim_now() < SPN_SEC(100));
    /* The completer may still be on its way out: destroy must not mind. */
    sim_assert(spn_threadless_destroy(threadless) == SPN_OK);
    sim_join_all();
    sim_assert(spn_manual_executor_destroy(shared) == SPN_OK);
    spn_future_unref(answer);
}
SCENARIO_OPTS(threadless__answer_comes_elsewhere__always_returns, .early = SIM_NEVER,
              .dfs = 2, .dfs_models = SIM_SC)

/* Shut down, both ways, against a task and the waiter: each ends, and the task is in
 * exactly one place. */
SCENARIO(threadless__shut_down_while_a_task_comes__always_returns, "X-16", "S-2", "P12")
{
    int rc;

    if (!begin())
        return;
    sim_thread(execute, NULL);
    sim_thread(shut_down, sim_choose(2) == 0 ? NULL : &node);
    rc = spn_threadless_wait_and_drain(threadless, SPN_SEC(100));
    sim_assert(rc == SPN_OK || rc == SPN_ESHUTDOWN);
    sim_assert(sim_now() < SPN_SEC(100));
    sim_join_all();
    sim_assert(spn_future_get_state(answer) == SPN_FUTURE_FAILED);
    sim_assert(spn_executor_await(spn_threadless_executor(threadless), SPN_SEC(1)) ==
               SPN_OK);
    sim_outcome((unsigned)(runs + 2 * spn__load(&accepted, relaxed)));
    end();
}
SCENARIO_OPTS(threadless__shut_down_while_a_task_comes__always_returns,
              .early = SIM_NEVER)

/* An interrupt and a task: whichever comes first, the task runs, and the interrupt is
 * either returned or still there. */
SCENARIO(threadless__interrupted_while_a_task_comes__loses_neither, "X-16", "G-12")
{
    spn_thread *self = spn_thread_ref(spn_thread_current());
    int rc;

    if (self == NULL)
        return;
    if (begin()) {
        sim_thread(execute, NULL);
        sim_thread(interrupt, self);
        rc = spn_threadless_wait_and_drain(threadless, SPN_SEC(100));
        sim_assert(rc == SPN_OK || rc == SPN_EINTR);
        sim_assert((rc == SPN_OK) == (runs == 1));
        sim_join_all();
        sim_assert(spn_thread_interrupted() == (rc == SPN_OK));
        sim_outcome(rc == SPN_OK);
        end();
    }
    spn_thread_unref(self);
}
SCENARIO_OPTS(threadless__interrupted_while_a_task_comes__loses_neither,
              .early = SIM_NEVER)
