/* SPDX-License-Identifier: MIT */
/*
 * test_services.c - every allocation of a script that uses invoke, the completion
 * service, the threadless and the serial executor fails, once and from then on.  Each
 * call must give SPN_OK or SPN_ENOMEM; what was accepted runs, every argument comes
 * back, and no block is left.
 */
#include "faults.h"
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <spindle.h>

/* ---- the script ---------------------------------------------------------------------- */

static int runs, releases;

static int call(void *arg, void **result)
{
    runs++;
    *result = arg;
    return 0;
}

static int run(void *arg)
{
    (void)arg;
    runs++;
    return 0;
}

static int run_task(spn_task *task)
{
    (void)task;
    runs++;
    return 0;
}

static void release(void *arg)
{
    (void)arg;
    releases++;
}

static bool ok(int rc)
{
    CHECK(rc == SPN_OK || rc == SPN_ENOMEM);
    return rc == SPN_OK;
}

/* An executor that makes its own futures, so that submit_run needs another block. */
static int own_execute(spn_executor *executor, spn_task *task)
{
    (void)executor;
    return spn_executor_execute(spn_executor_direct(), task);
}

static int own_task(spn_executor *executor, spn_future **out, spn_call_fn fn, void *arg,
                    const spn_future_opts *opts)
{
    (void)executor;
    return spn_future_create_task(out, fn, arg, opts);
}

static const spn_executor_ops own_ops = { .size = sizeof own_ops,
                                          .execute = own_execute,
                                          .new_task = own_task };

static void use_submit(spn_executor *executor)
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *f;
    int given = 0;

    runs = releases = 0;
    opts.release_arg = release;
    if (ok(spn_executor_submit_with(executor, call, &runs, &opts, &f))) {
        given++;
        spn_future_unref(f);
    }
    CHECK_EQ(releases, given);
    if (ok(spn_executor_submit_run(executor, run, &runs, NULL, &f))) {
        given++;
        spn_future_unref(f);
    }
    CHECK_EQ(runs, given);
}

static void use_invoke(spn_executor *executor)
{
    const spn_call calls[2] = { { call, &runs }, { call, &runs } };
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *f[2];

    runs = releases = 0;
    opts.release_arg = release;
    if (ok(spn_executor_invoke_all(executor, calls, 2, SPN_FOREVER, &opts, f))) {
        CHECK_EQ(runs, 2);
        spn_future_unref(f[0]);
        spn_future_unref(f[1]);
    } else {
        CHECK(f[0] == NULL && f[1] == NULL);
        CHECK_EQ(runs, 0);
    }
    CHECK_EQ(releases, 2);
    runs = 0;
    if (ok(spn_executor_invoke_any(executor, calls, 2, SPN_FOREVER, &opts, NULL, f))) {
        CHECK_EQ(runs, 1);
        spn_future_unref(f[0]);
    } else {
        CHECK(f[0] == NULL);
        CHECK_EQ(runs, 0);
    }
    CHECK_EQ(releases, 4);
}

static void use_completion(spn_executor *executor)
{
    spn_completion *c;
    spn_future *f;
    int submitted = 0, taken = 0;

    if (!ok(spn_completion_create(&c, executor)))
        return;
    submitted += ok(spn_completion_submit(c, call, NULL, NULL, NULL));
    submitted += ok(spn_completion_submit(c, call, NULL, NULL, NULL));
    while (spn_completion_take(c, &f, 0) == SPN_OK) {
        taken++;
        spn_future_unref(f);
    }
    CHECK_EQ(taken, submitted);
    CHECK_OK(spn_completion_destroy(c));
}

static void use_threadless(void)
{
    spn_task task = SPN_TASK_INIT(run_task, NULL);
    spn_threadless *t;
    spn_future *f = NULL;

    if (!ok(spn_threadless_create(&t, spn_executor_direct())))
        return;
    if (ok(spn_future_create(&f, NULL)))
        CHECK_OK(spn_threadless_set_future(t, f));
    runs = 0;
    CHECK_OK(spn_executor_execute(spn_threadless_executor(t), &task));
    CHECK_OK(spn_threadless_wait_and_drain(t, T_LONG_NS));
    CHECK_OK(spn_executor_execute(spn_threadless_executor(t), &task));
    CHECK_EQ(runs, 2);
    CHECK_OK(spn_threadless_destroy(t));
    spn_future_unref(f);
}

static void use_serial(spn_manual_executor *m)
{
    enum { KEYS = 300 };
    static spn_task tasks[KEYS];
    spn_executor *lane;
    spn_serial *s;
    spn_future *f;
    int accepted = 0;

    if (!ok(spn_serial_create(&s, spn_manual_executor_executor(m), NULL)))
        return;
    runs = 0;
    for (int i = 0; i < KEYS; i++) { /* enough for larger tables */
        tasks[i] = (spn_task)SPN_TASK_INIT(run_task, NULL);
        accepted += ok(spn_serial_execute(s, (uint64_t)i, &tasks[i]));
    }
    if (ok(spn_serial_open(s, 3, &lane))) {
        spn_task last = SPN_TASK_INIT(run_task, NULL);

        CHECK_OK(spn_executor_execute(lane, &last)); /* needs nothing */
        accepted++;
        accepted += ok(spn_executor_call(lane, run, NULL));
        if (ok(spn_executor_submit(lane, call, NULL, &f))) {
            accepted++;
            spn_future_unref(f);
        }
        CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
        CHECK_OK(spn_serial_close(s, lane));
    }
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_EQ(runs, accepted);
    CHECK_OK(spn_serial_destroy(s));
}

static void script(void)
{
    spn_executor own = { &own_ops };
    spn_manual_executor *m;

    use_submit(spn_executor_direct());
    use_submit(&own);
    use_invoke(spn_executor_direct());
    use_invoke(&own);
    use_completion(spn_executor_direct());
    use_completion(&own);
    use_threadless();
    if (ok(spn_manual_executor_create(&m))) {
        use_serial(m);
        CHECK_OK(spn_manual_executor_destroy(m));
    }
}

static void sweep(bool more)
{
    (void)spn_thread_current();
    script();
    fault_sweep(script, more, 20);
}

/* One allocation fails. */
TEST(services__each_allocation_fails__nothing_is_lost, "G-22")
{
    sweep(false);
}

/* All fail from one on. */
TEST(services__all_allocations_fail_from_one_on__nothing_is_lost, "G-22")
{
    sweep(true);
}
