/* SPDX-License-Identifier: MIT */
/* test_future_executor.c - the executor interface and the two executors without
 * threads. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <spindle/executor.h>
#include <spindle/log.h>

struct counted {
    spn_task task;
    int runs, drops, reason;
    int order; /* when it ran, from 1 */
    int code;  /* it returns */
    pthread_t thread;
    spn_executor *again; /* where it submits itself once more, or NULL */
    int again_rc;
};

static int order;

static int run_counted(spn_task *task)
{
    struct counted *c = (struct counted *)(void *)task;

    c->runs++;
    c->order = ++order;
    c->thread = pthread_self();
    if (c->again != NULL) {
        spn_executor *ex = c->again;

        c->again = NULL;
        c->again_rc = spn_executor_execute(ex, task);
    }
    return c->code;
}

static void drop_counted(spn_task *task, int reason)
{
    struct counted *c = (struct counted *)(void *)task;

    c->drops++;
    c->reason = reason;
}

static struct counted fresh(void)
{
    return (struct counted){ .task = SPN_TASK_INIT(run_counted, drop_counted) };
}

static int freed;

static int free_itself(spn_task *task)
{
    free(task);
    freed++;
    return 0;
}

static spn_manual_executor *manual(void)
{
    spn_manual_executor *m;

    REQUIRE_OK(spn_manual_executor_create(&m));
    return m;
}

/* The direct executor runs in the caller, before it returns. */
TEST(direct__execute__runs_here_and_now, "G-23")
{
    struct counted c = fresh();

    CHECK_OK(spn_executor_execute(spn_executor_direct(), &c.task));
    CHECK_EQ(c.runs, 1);
    CHECK_EQ(c.drops, 0);
    CHECK(pthread_equal(c.thread, pthread_self()));
    CHECK(spn_executor_direct() == spn_executor_direct());
}

/* A task may submit itself again, or free itself: nobody touches it any more. */
TEST(executor__task_submits_or_frees_itself__is_not_touched, "G-23")
{
    spn_manual_executor *m = manual();
    struct counted c = fresh();
    spn_task *gone = malloc(sizeof *gone);

    c.again = spn_executor_direct();
    CHECK_OK(spn_executor_execute(spn_executor_direct(), &c.task));
    CHECK_EQ(c.runs, 2);
    CHECK_OK(c.again_rc);
    c.again = spn_manual_executor_executor(m);
    CHECK_OK(spn_executor_execute(spn_manual_executor_executor(m), &c.task));
    CHECK_EQ(spn_manual_executor_run(m, INT64_MAX), 2);
    CHECK_EQ(c.runs, 4);
    REQUIRE(gone != NULL);
    *gone = (spn_task)SPN_TASK_INIT(free_itself, NULL);
    CHECK_OK(spn_executor_execute(spn_manual_executor_executor(m), gone));
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_EQ(freed, 1);
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* A task that waits is refused, there and elsewhere, until it has run. */
TEST(executor__task_queued_already__busy, "G-15")
{
    spn_manual_executor *m = manual(), *n = manual();
    struct counted c = fresh();

    CHECK_OK(spn_executor_execute(spn_manual_executor_executor(m), &c.task));
    CHECK_STATUS(spn_executor_execute(spn_manual_executor_executor(m), &c.task),
                 SPN_EBUSY);
    CHECK_STATUS(spn_executor_execute(spn_manual_executor_executor(n), &c.task),
                 SPN_EBUSY);
    CHECK_STATUS(spn_executor_execute(spn_executor_direct(), &c.task), SPN_EBUSY);
    CHECK_EQ(c.runs, 0);
    CHECK_EQ(spn_manual_executor_pending(m), 1);
    CHECK_EQ(spn_manual_executor_pending(n), 0);
    CHECK_STATUS(spn_manual_executor_destroy(m), SPN_EBUSY);
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_EQ(c.runs, 1);
    CHECK_OK(spn_executor_execute(spn_manual_executor_executor(n), &c.task));
    CHECK_EQ(spn_manual_executor_run(n, 1), 1);
    CHECK_EQ(c.runs, 2);
    CHECK_OK(spn_manual_executor_destroy(m));
    CHECK_OK(spn_manual_executor_destroy(n));
}

/* By hand: first come, first served, and only when told. */
TEST(manual__tasks__run_in_order_when_told)
{
    enum { TASKS = 5 };
    spn_manual_executor *m = manual();
    struct counted c[TASKS];

    order = 0;
    for (int i = 0; i < TASKS; i++) {
        c[i] = fresh();
        c[i].code = i;
        CHECK_OK(spn_executor_execute(spn_manual_executor_executor(m), &c[i].task));
        CHECK_EQ(spn_manual_executor_pending(m), i + 1);
        CHECK_EQ(c[i].runs, 0);
    }
    CHECK_EQ(spn_manual_executor_run(m, 0), 0);
    CHECK_EQ(spn_manual_executor_run(m, -1), SPN_EINVAL);
    CHECK_EQ(spn_manual_executor_pending(m), TASKS);
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_EQ(c[0].runs + c[1].runs, 1);
    CHECK_EQ(spn_manual_executor_run(m, 2), 2);
    CHECK_EQ(spn_manual_executor_pending(m), TASKS - 3);
    CHECK_EQ(spn_manual_executor_run(m, INT64_MAX), TASKS - 3);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(c[i].order, i + 1);
        CHECK_EQ(c[i].drops, 0);
    }
    CHECK_EQ(spn_manual_executor_run(m, 1), 0);
    CHECK_EQ(spn_manual_executor_run(m, INT64_MAX), 0);
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* Of fn and drop exactly one is called; a closed executor takes nothing. */
TEST(manual__dropped_and_closed__tells_each_task)
{
    spn_manual_executor *m = manual();
    struct counted c = fresh(), silent = fresh();
    size_t count = 0;

    silent.task.drop = NULL;
    CHECK_OK(spn_executor_execute(spn_manual_executor_executor(m), &c.task));
    CHECK_OK(spn_executor_execute(spn_manual_executor_executor(m), &silent.task));
    CHECK_OK(spn_executor_shutdown(spn_manual_executor_executor(m)));
    CHECK_STATUS(spn_executor_execute(spn_manual_executor_executor(m), &c.task),
                 SPN_EREJECTED);
    CHECK_EQ(spn_manual_executor_pending(m), 2);
    CHECK_STATUS(spn_manual_executor_drop_all(m, 0, &count), SPN_EINVAL);
    CHECK_OK(spn_manual_executor_drop_all(m, SPN_ESHUTDOWN, &count));
    CHECK_EQ(count, 2);
    CHECK_EQ(c.runs, 0);
    CHECK_EQ(c.drops, 1);
    CHECK_EQ(c.reason, SPN_ESHUTDOWN);
    CHECK_EQ(silent.runs, 0);
    CHECK_OK(spn_manual_executor_destroy(m));
}

static int logged;

static void count_message(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    if (level == SPN_LOG_WARN && strstr(message, "SPN_ETIMEDOUT") != NULL)
        logged++;
}

static void fail_on_direct(void *arg)
{
    struct counted c = fresh();

    (void)arg;
    REQUIRE_OK(spn_log_set_hook(count_message, NULL));
    c.code = SPN_ETIMEDOUT;
    CHECK_OK(spn_executor_execute(spn_executor_direct(), &c.task));
    CHECK_EQ(logged, 1);
}

/* A failure on the direct executor has nowhere to go but the log. */
TEST(direct__task_fails__is_logged)
{
#ifdef SPN_AUDIT
    t_skip("the audit has logged by now, and the hook is set before that or never");
    return;
#endif
    CHECK_CHILD(fail_on_direct, NULL);
}

struct pile {
    spn_manual_executor *m;
    struct counted (*c)[64];
};

static void pile_or_run(int index, void *arg)
{
    struct pile *p = arg;

    if (index < 2)
        for (int i = 0; i < 64; i++)
            CHECK_OK(spn_executor_execute(spn_manual_executor_executor(p->m),
                                          &p->c[index][i].task));
    else
        for (int i = 0; i < 100; i++)
            CHECK(spn_manual_executor_run(p->m, INT64_MAX) >= 0);
}

/* Many threads at once: each accepted task runs once. */
TEST(manual__used_by_many__each_task_runs_once, "G-19")
{
    static struct counted c[2][64];
    const int rounds = t_rounds(100);

    for (int r = 0; r < rounds; r++) {
        struct pile p = { manual(), c };

        for (int i = 0; i < 128; i++)
            c[i / 64][i % 64] = fresh();
        t_parallel(3, pile_or_run, &p);
        CHECK(spn_manual_executor_run(p.m, INT64_MAX) >= 0);
        for (int i = 0; i < 128; i++)
            CHECK_EQ(c[i / 64][i % 64].runs, 1);
        CHECK_OK(spn_manual_executor_destroy(p.m));
    }
}
