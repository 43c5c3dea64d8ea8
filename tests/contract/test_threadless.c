/* SPDX-License-Identifier: MIT */
/* test_threadless.c - a thread that waits for an answer runs what brings it. */
#include "cause.h"
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdlib.h>

#include <spindle.h>

struct item {
    spn_task task;
    int runs, drops, reason, order, code;
    pthread_t thread;
    spn_threadless *uses; /* it calls wait_and_drain and await on; NULL: not */
    spn_executor *again;  /* it submits another one to; NULL: none */
    struct item *other;
};

static int order;

static int run_item(spn_task *task)
{
    struct item *i = (struct item *)(void *)task;

    i->runs++;
    i->order = ++order;
    i->thread = pthread_self();
    if (i->uses != NULL) {
        CHECK_STATUS(spn_threadless_wait_and_drain(i->uses, T_LONG_NS), SPN_EDEADLK);
        CHECK_STATUS(spn_executor_await(spn_threadless_executor(i->uses), T_LONG_NS),
                     SPN_EDEADLK);
        CHECK_STATUS(spn_threadless_destroy(i->uses), SPN_EBUSY);
    }
    if (i->again != NULL)
        CHECK_OK(spn_executor_execute(i->again, &i->other->task));
    return i->code;
}

static void drop_item(spn_task *task, int reason)
{
    struct item *i = (struct item *)(void *)task;

    i->drops++;
    i->reason = reason;
}

static struct item fresh(void)
{
    return (struct item){ .task = SPN_TASK_INIT(run_item, drop_item) };
}

static spn_manual_executor *manual(void)
{
    spn_manual_executor *m;

    REQUIRE_OK(spn_manual_executor_create(&m));
    return m;
}

/* One with a shared executor, and a promise it waits for. */
struct call {
    spn_manual_executor *shared;
    spn_threadless *t;
    spn_executor *executor;
    spn_future *answer;
    int64_t timeout_ns;
};

static struct call open_call(void)
{
    struct call c = { .shared = manual(), .timeout_ns = T_LONG_NS };

    REQUIRE_OK(spn_threadless_create(&c.t, spn_manual_executor_executor(c.shared)));
    c.executor = spn_threadless_executor(c.t);
    REQUIRE_OK(spn_future_create(&c.answer, NULL));
    CHECK_OK(spn_threadless_set_future(c.t, c.answer));
    return c;
}

static void close_call(struct call *c)
{
    CHECK_OK(spn_threadless_destroy(c->t));
    CHECK_OK(spn_manual_executor_destroy(c->shared));
    spn_future_unref(c->answer);
}

static int wait_call(void *arg)
{
    struct call *c = arg;

    return spn_threadless_wait_and_drain(c->t, c->timeout_ns);
}

/* Tasks that came before run in the thread that waits, in order, and end the wait. */
TEST(threadless__tasks_queued__run_in_the_waiter, "X-16", "S-2")
{
    struct call c = open_call();
    struct item i[3] = { fresh(), fresh(), fresh() };

    order = 0;
    i[1].code = 9; /* does not stop the rest */
    for (int n = 0; n < 3; n++)
        CHECK_OK(spn_executor_execute(c.executor, &i[n].task));
    CHECK_STATUS(spn_executor_execute(c.executor, &i[0].task), SPN_EBUSY);
    CHECK_STATUS(spn_threadless_destroy(c.t), SPN_EBUSY);
    CHECK_OK(spn_threadless_wait_and_drain(c.t, T_LONG_NS));
    for (int n = 0; n < 3; n++) {
        CHECK_EQ(i[n].runs, 1);
        CHECK_EQ(i[n].order, n + 1);
        CHECK(pthread_equal(i[n].thread, pthread_self()));
    }
    CHECK_EQ(spn_manual_executor_pending(c.shared), 0);
    close_call(&c);
}

static int pay(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* A task that comes while the thread waits wakes it; another thread sees the rest. */
TEST(threadless__task_while_waiting__wakes_and_runs_it, "X-16", "S-2", "G-19")
{
    struct call c = open_call();
    struct peer p;
    spn_future *f;
    void *value = NULL;

    peer_start(&p, wait_call, &c);
    peer_await_blocked(&p);
    CHECK_STATUS(spn_threadless_wait_and_drain(c.t, 0), SPN_EBUSY);
    REQUIRE_OK(spn_executor_submit(c.executor, pay, &c, &f));
    CHECK_OK(peer_finish(&p));
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK(value == &c);
    spn_future_unref(f);
    close_call(&c);
}

/* Once the wait is over tasks go to the shared executor; a second wait does not. */
TEST(threadless__after_the_wait__tasks_go_to_the_shared_executor, "S-2")
{
    struct call c = open_call();
    struct item first = fresh(), inner = fresh(), late = fresh();
    const int64_t from = spn_now();

    first.again = c.executor; /* while it drains the wait is over already */
    first.other = &inner;
    CHECK_OK(spn_executor_execute(c.executor, &first.task));
    CHECK_OK(spn_threadless_wait_and_drain(c.t, T_LONG_NS));
    CHECK_EQ(inner.runs, 0);
    CHECK_EQ(spn_manual_executor_pending(c.shared), 1);
    CHECK_OK(spn_executor_execute(c.executor, &late.task));
    CHECK_EQ(spn_manual_executor_pending(c.shared), 2);
    CHECK_OK(spn_threadless_wait_and_drain(c.t, T_LONG_NS)); /* finished: at once */
    CHECK(spn_now() - from < T_LONG_NS);
    CHECK_EQ(late.runs, 0);
    CHECK(spn_manual_executor_run(c.shared, INT64_MAX) >= 0);
    CHECK_EQ(inner.runs, 1);
    CHECK_EQ(late.runs, 1);
    close_call(&c);
}

/* Without a shared executor what comes late is refused, and untouched. */
TEST(threadless__no_shared_executor__refuses_late_tasks, "S-2")
{
    struct item i = fresh();
    spn_threadless *t;

    REQUIRE_OK(spn_threadless_create(&t, NULL));
    CHECK_STATUS(spn_threadless_wait_and_drain(t, 0), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_executor_execute(spn_threadless_executor(t), &i.task),
                 SPN_EREJECTED);
    CHECK_EQ(i.runs + i.drops, 0);
    CHECK_OK(spn_threadless_destroy(t));
}

/* The wait ends at its deadline, not before, and there is none without. */
TEST(threadless__nothing_comes__times_out, "X-16", "S-2", "G-6", "G-7")
{
    static const int64_t none[] = { 0, -1, INT64_MIN };
    struct call c;
    int64_t from;

    for (int i = 0; i < 3; i++) {
        c = open_call();
        CHECK_STATUS(spn_threadless_wait_and_drain(c.t, none[i]), SPN_ETIMEDOUT);
        close_call(&c);
    }
    c = open_call();
    CHECK_STATUS(spn_threadless_wait_and_drain(c.t, SPN_FOREVER), SPN_EINVAL);
    from = spn_now();
    CHECK_STATUS(spn_threadless_wait_and_drain(c.t, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK(spn_now() - from >= T_PROBE_NS);
    CHECK_EQ(spn_future_get_state(c.answer), SPN_FUTURE_PENDING);
    close_call(&c);
}

/* An interrupt ends the wait; with work there, the work comes first and it stays. */
TEST(threadless__interrupted__ends_the_wait, "X-16", "G-10", "G-11", "G-12", "P12")
{
    struct call c = open_call();
    struct item i = fresh();
    struct peer p;

    peer_start(&p, wait_call, &c);
    peer_await_blocked(&p);
    CHECK_OK(spn_thread_interrupt(p.thread));
    CHECK_STATUS(peer_finish(&p), SPN_EINTR);
    CHECK_EQ(p.flag_after, 0);
    CHECK_OK(spn_executor_execute(c.executor, &i.task));
    CHECK_EQ(spn_manual_executor_pending(c.shared), 1);
    CHECK(spn_manual_executor_run(c.shared, INT64_MAX) >= 0);
    close_call(&c);

    c = open_call();
    i = fresh();
    CHECK_OK(spn_executor_execute(c.executor, &i.task));
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_OK(spn_threadless_wait_and_drain(c.t, T_LONG_NS));
    CHECK_EQ(i.runs, 1);
    CHECK_EQ(spn_thread_interrupted(), 1);
    close_call(&c);
}

/* notify_return fails the future and lets the waiter go, asleep or not yet there. */
TEST(threadless__notify_return__fails_the_future_and_wakes, "S-2", "P12")
{
    for (int asleep = 0; asleep <= 1; asleep++) {
        struct call c = open_call();
        struct peer p;
        char message[16];
        int code = 0;

        if (asleep != 0) {
            peer_start(&p, wait_call, &c);
            peer_await_blocked(&p);
        }
        CHECK_EQ(spn_threadless_notify_return(c.t, -77, "no route"), 1);
        CHECK_EQ(spn_threadless_notify_return(c.t, -78, "again"), 0);
        if (asleep != 0)
            CHECK_OK(peer_finish(&p));
        else
            CHECK_OK(spn_threadless_wait_and_drain(c.t, T_LONG_NS));
        CHECK_OK(t_cause(c.answer, &code, message, sizeof message));
        CHECK_EQ(code, -77);
        CHECK_STR(message, "no route");
        close_call(&c);
    }
}

/* The answer that comes another way ends the wait too; so does one that is there. */
TEST(threadless__future_done_elsewhere__ends_the_wait, "S-2", "P12")
{
    struct call c = open_call();
    spn_future *done;
    spn_threadless *t;
    struct peer p;

    CHECK_STATUS(spn_threadless_set_future(c.t, c.answer), SPN_ESTATE);
    peer_start(&p, wait_call, &c);
    peer_await_blocked(&p);
    CHECK_EQ(spn_future_complete(c.answer, &c), 1);
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(spn_threadless_notify_return(c.t, 5, NULL), 0);
    close_call(&c);

    REQUIRE_OK(spn_future_create_completed(&done, NULL));
    REQUIRE_OK(spn_threadless_create(&t, NULL));
    CHECK_OK(spn_threadless_set_future(t, done));
    CHECK_OK(spn_threadless_wait_and_drain(t, T_LONG_NS));
    CHECK_OK(spn_threadless_destroy(t));
    spn_future_unref(done);
}

/* Shut down: the waiter returns, the future fails, and nothing is taken any more. */
TEST(threadless__shut_down_while_waiting__returns, "X-16", "AES-7", "P12")
{
    for (int now = 0; now <= 1; now++) {
        struct call c = open_call();
        struct item i = fresh();
        struct peer p;
        int code = 0;

        peer_start(&p, wait_call, &c);
        peer_await_blocked(&p);
        CHECK_EQ(spn_executor_is_shutdown(c.executor), 0);
        CHECK_STATUS(spn_executor_await(c.executor, 0), SPN_ETIMEDOUT);
        if (now != 0)
            CHECK_OK(spn_executor_shutdown_now(c.executor, NULL, NULL, NULL));
        else
            CHECK_OK(spn_executor_shutdown(c.executor));
        CHECK_STATUS(peer_finish(&p), SPN_ESHUTDOWN);
        CHECK_OK(t_cause(c.answer, &code, NULL, 0));
        CHECK_EQ(code, SPN_ESHUTDOWN);
        CHECK_STATUS(spn_executor_execute(c.executor, &i.task), SPN_EREJECTED);
        CHECK_EQ(spn_executor_is_terminated(c.executor), 1);
        CHECK_OK(spn_executor_await(c.executor, SPN_FOREVER));
        close_call(&c);
    }
}

static int finish_answer(void *arg)
{
    CHECK_EQ(spn_future_complete(arg, arg), 1);
    return 0;
}

/* A task that is there already brings its answer though the executor is shut down. */
TEST(threadless__shut_down_with_tasks__they_run_first, "X-16")
{
    struct call c = open_call();
    struct item i = fresh();

    CHECK_OK(spn_executor_execute(c.executor, &i.task));
    CHECK_OK(spn_executor_call(c.executor, finish_answer, c.answer));
    CHECK_OK(spn_executor_shutdown(c.executor));
    CHECK_EQ(spn_executor_get_state(c.executor), SPN_EXECUTOR_SHUTDOWN);
    CHECK_EQ(spn_future_get_state(c.answer), SPN_FUTURE_PENDING);
    CHECK_OK(spn_threadless_wait_and_drain(c.t, T_LONG_NS));
    CHECK_EQ(i.runs, 1);
    CHECK_EQ(spn_future_get_state(c.answer), SPN_FUTURE_SUCCEEDED);
    CHECK_EQ(spn_executor_is_terminated(c.executor), 1);
    close_call(&c);

    c = open_call();
    i = fresh();
    CHECK_OK(spn_executor_execute(c.executor, &i.task));
    CHECK_OK(spn_executor_shutdown(c.executor));
    CHECK_OK(spn_threadless_wait_and_drain(c.t, T_LONG_NS));
    CHECK_EQ(spn_future_get_state(c.answer), SPN_FUTURE_FAILED); /* not by the task */
    close_call(&c);
}

static void collect(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    *(spn_task **)ctx = task;
}

/* shutdown_now gives the tasks back; remove takes one. */
TEST(threadless__tasks_taken_back__never_run, "X-16")
{
    struct call c = open_call();
    struct item i[3] = { fresh(), fresh(), fresh() };
    spn_task *back = NULL;
    int64_t count = 0;

    for (int n = 0; n < 3; n++)
        CHECK_OK(spn_executor_execute(c.executor, &i[n].task));
    CHECK_EQ(spn_executor_remove(c.executor, &i[1].task), 1);
    CHECK_EQ(spn_executor_remove(c.executor, &i[1].task), 0);
    CHECK_OK(spn_executor_shutdown_now(c.executor, collect, &back, &count));
    CHECK_EQ(count, 2);
    CHECK(back == &i[2].task);
    CHECK_STATUS(spn_threadless_wait_and_drain(c.t, T_LONG_NS), SPN_ESHUTDOWN);
    CHECK_EQ(spn_future_get_state(c.answer), SPN_FUTURE_FAILED);
    for (int n = 0; n < 3; n++)
        CHECK_EQ(i[n].runs + i[n].drops, 0);
    close_call(&c);

    c = open_call();
    i[0] = fresh();
    CHECK_OK(spn_executor_execute(c.executor, &i[0].task));
    CHECK_OK(spn_executor_shutdown_now(c.executor, NULL, NULL, NULL));
    CHECK_EQ(i[0].drops, 1);
    CHECK_EQ(i[0].reason, SPN_ESHUTDOWN);
    close_call(&c);
}

/* A task may not wait for the executor that runs it. */
TEST(threadless__used_from_its_own_task__would_deadlock, "G-23")
{
    struct call c = open_call();
    struct item i = fresh();

    i.uses = c.t;
    CHECK_OK(spn_executor_execute(c.executor, &i.task));
    CHECK_OK(spn_threadless_wait_and_drain(c.t, T_LONG_NS));
    CHECK_EQ(i.runs, 1);
    close_call(&c);
}

struct nested {
    spn_future *behind;
    int rc;
};

static int wait_for_one_behind(void *arg, void **result)
{
    struct nested *n = arg;

    (void)result;
    n->rc = spn_future_get(n->behind, NULL, SPN_FOREVER);
    return 0;
}

/* A task that waits for one behind it: that runs now, for nobody else would. */
TEST(threadless__task_waits_for_one_behind__runs_it)
{
    struct call c = open_call();
    struct nested n = { NULL, -1 };
    spn_future *f;

    REQUIRE_OK(spn_executor_submit(c.executor, wait_for_one_behind, &n, &f));
    REQUIRE_OK(spn_executor_submit(c.executor, pay, &c, &n.behind));
    CHECK_OK(spn_threadless_wait_and_drain(c.t, T_LONG_NS));
    CHECK_OK(n.rc);
    CHECK_OK(spn_future_get(f, NULL, 0));
    spn_future_unref(f);
    spn_future_unref(n.behind);
    close_call(&c);
}

/* ---- many ------------------------------------------------------------------------------ */

enum { ITEMS = 64 };

struct race {
    struct call *c;
    struct item *items;
    atomic_int accepted;
};

static void use(int index, void *arg)
{
    struct race *r = arg;
    int rc;

    if (index == 0) {
        rc = spn_threadless_wait_and_drain(r->c->t, T_LONG_NS);
        CHECK(rc == SPN_OK);
    } else if (index == 1) {
        for (int i = 0; i < ITEMS; i++)
            if (spn_executor_execute(r->c->executor, &r->items[i].task) == SPN_OK)
                atomic_fetch_add(&r->accepted, 1);
    } else {
        (void)spn_threadless_notify_return(r->c->t, 3, "gone");
    }
}

/* Whenever the wait ends, each task that was accepted runs once, here or there. */
TEST(threadless__tasks_race_the_end_of_the_wait__each_runs_once, "S-2", "G-19")
{
    static struct item items[ITEMS];
    const int rounds = t_rounds(300);

    for (int n = 0; n < rounds; n++) {
        struct call c = open_call();
        struct race r = { &c, items, 0 };
        int runs = 0;

        for (int i = 0; i < ITEMS; i++)
            items[i] = fresh();
        t_parallel(3, use, &r);
        CHECK(spn_manual_executor_run(c.shared, INT64_MAX) >= 0);
        for (int i = 0; i < ITEMS; i++)
            runs += items[i].runs;
        CHECK_EQ(runs, atomic_load(&r.accepted));
        CHECK_EQ(runs, ITEMS);
        CHECK_EQ(spn_future_get_state(c.answer), SPN_FUTURE_FAILED);
        close_call(&c);
    }
}
