/* SPDX-License-Identifier: MIT */
/* scenario_invoke.c - who wins: the first success, the deadline, an interrupt; and
 * futures given out by a completion service. */
#include "sim.h"

#include <spindle.h>

#include "sync/seam.h"

static spn_manual_executor *manual;
static spn_executor *executor;
static SPN__ATOMIC(int) payload[2];
static int runs[2], released[2]; /* ordered by the calls under test */

static int work(void *arg, void **result)
{
    const int i = (int)((int *)arg - runs);

    runs[i]++;
    spn__store(&payload[i], 7, relaxed);
    *result = arg;
    return 0;
}

static int fail(void *arg, void **result)
{
    (void)work(arg, result);
    return 5;
}

static void release(void *arg)
{
    released[(int *)arg - runs]++;
}

static bool begin(void)
{
    for (int i = 0; i < 2; i++) {
        runs[i] = released[i] = 0;
        spn__init(&payload[i], 0);
    }
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return false;
    executor = spn_manual_executor_executor(manual);
    return true;
}

/* All arguments came back, and nothing is left in the executor. */
static void end(void)
{
    (void)spn_manual_executor_run(manual, INT64_MAX);
    for (int i = 0; i < 2; i++)
        sim_assert(released[i] == 1 && runs[i] <= 1);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}

/* Runs two tasks, whenever they come; ends also if they do not. */
static void serve(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        if (spn_manual_executor_run(manual, 1) != 1)
            sim_sleep(SPN_US(10));
    }
}

static void interrupt(void *thread)
{
    (void)spn_thread_interrupt(thread);
}

/* A success, the deadline and an interrupt: one of them decides, and the others leave
 * nothing behind. */
SCENARIO(invoke_any__success_deadline_interrupt__one_decides, "AES-9", "AES-11",
         "AES-14", "AES-15")
{
    const spn_call calls[2] = { { fail, &runs[0] }, { work, &runs[1] } };
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_thread *self = spn_thread_ref(spn_thread_current());
    spn_future *decider = NULL;
    void *value = NULL;
    int rc;

    if (self == NULL)
        return;
    if (begin()) {
        opts.release_arg = release;
        sim_thread(serve, NULL);
        sim_thread(interrupt, self);
        rc = spn_executor_invoke_any(executor, calls, 2, SPN_US(5), &opts, &value,
                                     &decider);
        if (rc == SPN_OK) {
            sim_assert(value == &runs[1] && spn__load(&payload[1], relaxed) == 7);
            sim_outcome(0);
        } else if (rc == SPN_EINTR) {
            sim_assert(spn_thread_interrupted() == 0);
            sim_outcome(1);
        } else if (rc == SPN_ENOMEM) {
            ;
        } else {
            sim_assert(rc == SPN_ETIMEDOUT && decider == NULL);
            sim_outcome(2);
        }
        sim_join_all();
        spn_future_unref(decider);
        end();
        (void)spn_thread_interrupted();
    }
    spn_thread_unref(self);
}
SCENARIO_OPTS(invoke_any__success_deadline_interrupt__one_decides, .faults = true)

/* All outcomes, with all the tasks did, while another thread runs them. */
SCENARIO(invoke_all__run_by_another__has_every_outcome, "AES-17", "AES-19", "G-19")
{
    const spn_call calls[2] = { { work, &runs[0] }, { work, &runs[1] } };
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *f[2] = { NULL, NULL };
    int rc;

    if (!begin())
        return;
    opts.release_arg = release;
    sim_thread(serve, NULL);
    rc = spn_executor_invoke_all(executor, calls, 2, SPN_US(5), &opts, f);
    sim_assert(rc == SPN_OK || rc == SPN_ENOMEM);
    for (int i = 0; i < 2 && rc == SPN_OK; i++) {
        const int state = spn_future_get_state(f[i]);

        if (state == SPN_FUTURE_SUCCEEDED)
            sim_assert(spn__load(&payload[i], relaxed) == 7);
        else
            sim_assert(state == SPN_FUTURE_CANCELED);
        sim_outcome((unsigned)(2 * i + (state == SPN_FUTURE_SUCCEEDED)));
    }
    sim_join_all();
    for (int i = 0; i < 2; i++)
        spn_future_unref(f[i]);
    end();
}
SCENARIO_OPTS(invoke_all__run_by_another__has_every_outcome, .faults = true)

static void stop(void *arg)
{
    (void)arg;
    (void)spn_executor_shutdown_now(executor, NULL, NULL, NULL);
}

static void give(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    (void)ctx;
    sim_assert(spn_task_drop(task, SPN_ESHUTDOWN) == SPN_OK);
}

static void stop_and_keep(void *arg)
{
    (void)arg;
    (void)spn_executor_shutdown_now(executor, give, NULL, NULL);
}

/* shutdown_now at any time: nobody who invokes is left waiting, for ever. */
SCENARIO(invoke__executor_stopped_at_any_time__returns, "TPE-69", "AES-22")
{
    const spn_call calls[2] = { { work, &runs[0] }, { fail, &runs[1] } };
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *f[2] = { NULL, NULL };
    const unsigned all = sim_choose(2);
    int rc;

    if (!begin())
        return;
    opts.release_arg = release;
    sim_thread(sim_choose(2) == 0 ? stop : stop_and_keep, NULL);
    if (all == 0)
        rc = spn_executor_invoke_any(executor, calls, 2, SPN_FOREVER, &opts, NULL, f);
    else
        rc = spn_executor_invoke_all(executor, calls, 2, SPN_FOREVER, &opts, f);
    sim_assert(rc == SPN_EREJECTED || rc == (all == 0 ? SPN_EFAILED : SPN_OK));
    sim_join_all();
    for (int i = 0; i < 2; i++)
        spn_future_unref(f[i]);
    end();
}

/* ---- completion service -------------------------------------------------------------- */

static spn_completion *service;
static SPN__ATOMIC(int) taken;

static void take(void *arg)
{
    spn_future *f = NULL;
    void *value = NULL;

    (void)arg;
    if (spn_completion_take(service, &f, SPN_US(5)) != SPN_OK)
        return;
    sim_assert(spn_future_get_state(f) != SPN_FUTURE_PENDING);
    if (spn_future_get(f, &value, 0) == SPN_OK) {
        sim_assert(value == &runs[0] || value == &runs[1]);
        sim_assert(spn__load(&payload[(int *)value - runs], relaxed) == 7);
    }
    (void)spn__fetch_add(&taken, 1, relaxed);
    spn_future_unref(f);
}

static void serve_all(void *arg)
{
    (void)arg;
    (void)spn_manual_executor_run(manual, INT64_MAX);
}

/* Two futures, one of them cancelled, and two who take: each goes out once. */
SCENARIO(completion__two_takers_and_a_cancel__each_future_once, "ECS-6", "ECS-7",
         "ECS-8", "ECS-12")
{
    spn_future *f = NULL, *rest;
    int submitted = 0;

    spn__init(&taken, 0);
    if (!begin())
        return;
    if (spn_completion_create(&service, executor) == SPN_OK) {
        submitted += spn_completion_submit(service, work, &runs[0], NULL, &f) == SPN_OK;
        submitted +=
            spn_completion_submit(service, work, &runs[1], NULL, NULL) == SPN_OK;
        sim_thread(take, NULL);
        sim_thread(serve_all, NULL);
        (void)spn_future_cancel(f, 1);
        take(NULL);
        sim_join_all();
        while (spn_completion_take(service, &rest, 0) == SPN_OK) {
            (void)spn__fetch_add(&taken, 1, relaxed);
            spn_future_unref(rest);
        }
        sim_assert(spn__load(&taken, relaxed) == submitted);
        spn_future_unref(f);
        sim_assert(spn_completion_destroy(service) == SPN_OK);
    }
    (void)spn_thread_interrupted();
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(completion__two_takers_and_a_cancel__each_future_once, .faults = true)

static void take_one(void *arg)
{
    spn_future *f = NULL;

    (void)arg;
    sim_assert(spn_completion_take(service, &f, SPN_FOREVER) == SPN_OK);
    spn_future_unref(f);
}

/* Who takes the last one may destroy the service at once. */
SCENARIO(completion__last_one_taken__can_be_destroyed, "ECS-3")
{
    spn_future *f = NULL;

    if (!begin())
        return;
    sim_assert(spn_completion_create(&service, executor) == SPN_OK);
    sim_assert(spn_completion_submit(service, work, &runs[0], NULL, &f) == SPN_OK);
    sim_thread(serve_all, NULL);
    take_one(NULL);
    sim_assert(runs[0] == 1 && spn__load(&payload[0], relaxed) == 7);
    sim_assert(spn_completion_destroy(service) == SPN_OK);
    sim_join_all();
    spn_future_unref(f);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(completion__last_one_taken__can_be_destroyed, .dfs = 2,
              .dfs_models = SIM_SC)
