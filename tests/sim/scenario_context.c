/* SPDX-License-Identifier: MIT */
/*
 * scenario_context.c - a context goes with its task, and only with it, whatever cancels,
 * completes or drops the task meanwhile; afterwards nobody has it.
 */
#include "sim.h"

#include <spindle.h>

#include "future/ambient.h"
#include "sync/seam.h"

static int key;
static SPN__ATOMIC(int) payload[2], ended, runs, foreign;
static spn_manual_executor *manual;
static spn_context *context;
static spn_future *f;

static void end_value(void *value)
{
    sim_assert(value == &key);
    (void)spn__fetch_add(&ended, 1, relaxed);
}

static void begin(void)
{
    spn__init(&payload[0], 0);
    spn__init(&payload[1], 0);
    spn__init(&ended, 0);
    spn__init(&runs, 0);
    spn__init(&foreign, 0);
    f = NULL;
    manual = NULL;
}

/* A context with a value that tells when it ends. */
static bool make_context(void)
{
    const spn_context_value value = { &key, &key, end_value };
    spn_context_opts opts = SPN_CONTEXT_OPTS_INIT;

    opts.values = &value;
    opts.value_count = 1;
    opts.trace = "t";
    opts.trace_size = 1;
    return spn_context_create(&context, &opts) == SPN_OK;
}

static int sees_it(void *arg, void **result)
{
    (void)arg;
    (void)result;
    (void)spn__fetch_add(&runs, 1, relaxed);
    sim_assert(spn_context_get(spn_context_current(), &key) == &key);
    return 0;
}

static int sees_none(void *arg, void **result)
{
    (void)arg;
    (void)result;
    sim_assert(spn_context_current() == NULL);
    (void)spn__fetch_add(&foreign, 1, relaxed);
    return 0;
}

static void run_all(void *arg)
{
    (void)arg;
    (void)spn_manual_executor_run(manual, INT64_MAX);
    sim_assert(spn_context_current() == NULL);
}

static void cancel(void *arg)
{
    (void)arg;
    (void)spn_future_cancel(f, 0);
}

/* Submits with the context being current, and drops the submitter's reference. */
static bool submit(spn_call_fn fn)
{
    spn_context_scope scope;
    bool submitted = false;

    if (!make_context())
        return false;
    if (spn_context_enter(&scope, context) == SPN_OK) {
        submitted = spn_executor_submit(spn_manual_executor_executor(manual), fn, NULL,
                                        &f) == SPN_OK;
        sim_assert(spn_context_leave(&scope) == SPN_OK);
    }
    spn_context_unref(context);
    return submitted;
}

static int ends(void)
{
    return spn__load(&ended, relaxed);
}

/* Run by another thread while it is cancelled: called with its context or not at all,
 * and the context ends, though the future is kept. */
SCENARIO(context__task_cancelled_meanwhile__never_without_and_never_kept, "FUT-24",
         "G-16")
{
    begin();
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    if (submit(sees_it)) {
        sim_thread(run_all, NULL);
        cancel(NULL);
        sim_join_all();
        sim_assert(ends() == 1);
        sim_outcome((unsigned)spn__load(&runs, relaxed));
        spn_future_unref(f);
    } else {
        sim_assert(ends() <= 1);
    }
    (void)spn_manual_executor_drop_all(manual, SPN_ECANCELED, NULL);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(context__task_cancelled_meanwhile__never_without_and_never_kept, .dfs = 3,
              .dfs_models = SIM_SC)

/* Submitted by one thread while another, that had the future before, cancels it: whoever
 * ends the context, it is after its making. */
SCENARIO(context__submit_races_cancel__ends_once, "FUT-16", "G-16", "G-19")
{
    spn_context_scope scope;

    begin();
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    if (spn_future_create_task(&f, sees_it, NULL, NULL) == SPN_OK) {
        sim_thread(cancel, NULL);
        if (make_context()) {
            if (spn_context_enter(&scope, context) == SPN_OK) {
                (void)(spn_future_submit(f, spn_manual_executor_executor(manual)) ==
                       SPN_OK);
                sim_assert(spn_context_leave(&scope) == SPN_OK);
            }
            spn_context_unref(context);
        }
        run_all(NULL);
        sim_join_all();
        sim_assert(ends() <= 1);
        spn_future_unref(f);
    }
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(context__submit_races_cancel__ends_once, .dfs = 2, .dfs_models = SIM_SC)

/* Cancelled while nobody runs it: the context has ended before the task is looked at
 * again. */
SCENARIO(context__task_cancelled_in_the_queue__ends_at_once, "FUT-24")
{
    begin();
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    if (submit(sees_it)) {
        cancel(NULL);
        sim_assert(ends() == 1 && spn_manual_executor_pending(manual) == 1);
        run_all(NULL);
        sim_assert(spn__load(&runs, relaxed) == 0);
        spn_future_unref(f);
    }
    (void)spn_manual_executor_drop_all(manual, SPN_ECANCELED, NULL);
    sim_assert(ends() <= 1);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(context__task_cancelled_in_the_queue__ends_at_once, .faults = true)

/* Two threads run a task with and a task without: each sees its own. */
SCENARIO(context__next_task_on_the_thread__sees_none, "G-19")
{
    spn_future *other = NULL;

    begin();
    if (spn_manual_executor_create(&manual) != SPN_OK)
        return;
    if (submit(sees_it) && spn_executor_submit(spn_manual_executor_executor(manual),
                                               sees_none, NULL, &other) == SPN_OK) {
        sim_thread(run_all, NULL);
        run_all(NULL);
        sim_join_all();
        sim_assert(spn__load(&runs, relaxed) == 1 && spn__load(&foreign, relaxed) == 1);
        sim_assert(ends() == 1);
        spn_future_unref(other);
    }
    spn_future_unref(f);
    (void)spn_manual_executor_drop_all(manual, SPN_ECANCELED, NULL);
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
}
SCENARIO_OPTS(context__next_task_on_the_thread__sees_none, .dfs = 2,
              .dfs_models = SIM_SC)

static spn_future *source, *stage;

static int then(void *arg, void *value, void **result)
{
    (void)value;
    return sees_it(arg, result);
}

static void complete(void *arg)
{
    (void)arg;
    (void)spn_future_complete(source, NULL);
    sim_assert(spn_context_current() == NULL);
}

static void cancel_stage(void *arg)
{
    (void)arg;
    (void)spn_future_cancel(stage, 0);
}

/* A stage on a source, made with a context that only it has now. */
static bool attach(void)
{
    spn_context_scope scope;

    begin();
    stage = NULL;
    if (!make_context())
        return false;
    if (spn_future_create(&source, NULL) == SPN_OK) {
        if (spn_context_enter(&scope, context) == SPN_OK) {
            if (spn_future_then(source, NULL, then, NULL, &stage) != SPN_OK)
                sim_assert(stage == NULL);
            sim_assert(spn_context_leave(&scope) == SPN_OK);
        }
        if (stage == NULL)
            spn_future_unref(source);
    }
    spn_context_unref(context);
    return stage != NULL;
}

static void detach(void)
{
    sim_join_all();
    sim_assert(ends() == 1); /* though the stage is kept */
    sim_outcome((unsigned)spn__load(&runs, relaxed));
    spn_future_unref(stage);
    spn_future_unref(source);
}

/* A stage belongs to who attached it, and is called with that context by whoever
 * completes the source. */
SCENARIO(context__stage__called_with_what_it_was_attached_with, "CF-45", "G-16")
{
    if (!attach())
        return;
    sim_thread(complete, NULL);
    detach();
}
SCENARIO_OPTS(context__stage__called_with_what_it_was_attached_with, .dfs = 2,
              .dfs_models = SIM_SC)

/* Cancelled at the same time, it is called with its context or not at all. */
SCENARIO(context__stage_cancelled_meanwhile__never_without, "CF-45", "G-16")
{
    if (!attach())
        return;
    sim_thread(complete, NULL);
    cancel_stage(NULL);
    detach();
}
SCENARIO_OPTS(context__stage_cancelled_meanwhile__never_without, .dfs = 2)

static void drop_reference(void *mine)
{
    spn__store((SPN__ATOMIC(int) *)mine, 7, relaxed);
    spn_context_unref(context);
}

static void end_ordered(void *value)
{
    (void)value;
    sim_assert(spn__load(&payload[0], relaxed) == 7);
    sim_assert(spn__load(&payload[1], relaxed) == 7);
    (void)spn__fetch_add(&ended, 1, relaxed);
}

/* The last reference goes on one of two threads: the value is released once, and after
 * all that the other did. */
SCENARIO(context__last_reference__releases_once_in_order, "G-16", "G-19")
{
    const spn_context_value value = { &key, &key, end_ordered };
    spn_context_opts opts = SPN_CONTEXT_OPTS_INIT;
    spn_context *parent;

    begin();
    if (spn_context_create(&parent, NULL) != SPN_OK)
        return;
    opts.values = &value;
    opts.value_count = 1;
    opts.parent = parent;
    if (spn_context_create(&context, &opts) == SPN_OK) {
        sim_assert(spn_context_ref(context) == context);
        sim_thread(drop_reference, &payload[0]);
        drop_reference(&payload[1]);
        spn_context_unref(parent);
        sim_join_all();
        sim_assert(ends() == 1);
    } else {
        spn_context_unref(parent);
    }
}
SCENARIO_OPTS(context__last_reference__releases_once_in_order, .dfs = SIM_UNBOUNDED,
              .dfs_models = SIM_SC, .faults = true)

static spn_job twice;
static spn_manual_executor *other;

static int note_context(spn_task *task)
{
    sim_assert(task == &twice.task);
    (void)spn__fetch_add(spn_context_current() != NULL ? &runs : &foreign, 1, relaxed);
    return 0;
}

static void note_drop(spn_task *task, int reason)
{
    sim_assert(task == &twice.task && reason < 0);
}

/* Without a context; refused while it waits. */
static void submit_again(void *accepted)
{
    if (spn_executor_execute(spn_manual_executor_executor(other), &twice.task) ==
        SPN_OK)
        *(int *)accepted = 1;
}

static bool submit_first(void)
{
    spn_context_scope scope;
    bool submitted = false;

    if (!make_context())
        return false;
    if (spn_context_enter(&scope, context) == SPN_OK) {
        submitted = spn_executor_execute(spn_manual_executor_executor(manual),
                                         &twice.task) == SPN_OK;
        sim_assert(spn_context_leave(&scope) == SPN_OK);
    }
    spn_context_unref(context);
    return submitted;
}

/* A job is submitted again, without a context, as soon as the executor has let go of it:
 * its first run has the first context, its second none, and the context ends. */
SCENARIO(context__job_submitted_again__each_has_its_own, "FUT-24", "G-16")
{
    const int how = (int)sim_choose(3);
    int again = 0;

    begin();
    twice = (spn_job)SPN_JOB_INIT(note_context, note_drop);
    sim_assert(spn_manual_executor_create(&manual) == SPN_OK);
    sim_assert(spn_manual_executor_create(&other) == SPN_OK);
    if (submit_first()) {
        sim_thread(submit_again, &again);
        if (how == 0)
            sim_assert(spn_manual_executor_run(manual, INT64_MAX) >= 0);
        else if (how == 1)
            (void)spn_manual_executor_drop_all(manual, SPN_ECANCELED, NULL);
        else
            sim_assert(spn_executor_shutdown_now(spn_manual_executor_executor(manual),
                                                 NULL, NULL, NULL) == SPN_OK);
        sim_join_all();
        sim_assert(spn_manual_executor_run(other, INT64_MAX) >= 0);
        sim_assert(spn__load(&runs, relaxed) == (how == 0));
        sim_assert(spn__load(&foreign, relaxed) == again);
        sim_assert(ends() == 1);
    }
    sim_assert(spn_manual_executor_destroy(manual) == SPN_OK);
    sim_assert(spn_manual_executor_destroy(other) == SPN_OK);
}
