/* SPDX-License-Identifier: MIT */
/* test_future_task.c - futures with a function: the contract's section FUT. */
#include "cause.h"
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

#include <spindle/clock.h>
#include <spindle/future.h>
#include <spindle/latch.h>
#include <spindle/pool.h>

/* ---- functions for futures ----------------------------------------------- */

/* What a function does and how often it did. */
struct job {
    atomic_int runs;
    int code;              /* what it returns */
    void *value;           /* what it gives */
    spn_latch *entered;    /* counted down when it has started, if not NULL */
    spn_latch *gate;       /* awaited before it ends, if not NULL */
    atomic_int wait_ended; /* 1 - what the wait for the gate returned */
    spn_future *self;      /* the future that runs it, where it needs to know */
    int inner;             /* what it saw */
};

static int do_job(void *arg, void **result)
{
    struct job *j = arg;

    atomic_fetch_add(&j->runs, 1);
    if (j->entered != NULL)
        CHECK_OK(spn_latch_count_down(j->entered));
    if (j->gate != NULL)
        atomic_store(&j->wait_ended, 1 - spn_latch_await(j->gate, SPN_FOREVER));
    *result = j->value;
    return j->code;
}

static spn_future *task(spn_call_fn fn, void *arg)
{
    spn_future *f;

    REQUIRE_OK(spn_future_create_task(&f, fn, arg, NULL));
    return f;
}

static void hold(struct job *j)
{
    memset(j, 0, sizeof *j);
    REQUIRE_OK(spn_latch_create(&j->entered, 1));
    REQUIRE_OK(spn_latch_create(&j->gate, 1));
}

static void let_go(struct job *j)
{
    CHECK_OK(spn_latch_destroy(j->entered));
    CHECK_OK(spn_latch_destroy(j->gate));
}

static int run_call(void *f)
{
    return spn_future_run(f);
}

static int run_and_reset_call(void *f)
{
    return spn_future_run_and_reset(f);
}

/* A getter on a thread of its own. */
struct getter {
    spn_future *f;
    int64_t timeout_ns;
    void *value;
    struct peer peer;
};

static int get_call(void *arg)
{
    struct getter *g = arg;
    return spn_future_get(g->f, &g->value, g->timeout_ns);
}

static void getter_start(struct getter *g, spn_future *f, int64_t timeout_ns)
{
    memset(g, 0, sizeof *g);
    g->f = f;
    g->timeout_ns = timeout_ns;
    peer_start(&g->peer, get_call, g);
    peer_await_blocked(&g->peer);
}

/* Counts calls of the done hook, and sees that the future is done in it. */
struct hook {
    atomic_int calls;
    atomic_int undone;
};

static void on_done(spn_future *f, void *arg)
{
    struct hook *h = arg;

    atomic_fetch_add(&h->calls, 1);
    if (spn_future_get_state(f) == SPN_FUTURE_PENDING)
        atomic_fetch_add(&h->undone, 1);
}

static spn_future *hooked(spn_call_fn fn, void *arg, struct hook *h)
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *f;

    memset(h, 0, sizeof *h);
    opts.done = on_done;
    opts.done_arg = h;
    REQUIRE_OK(spn_future_create_task(&f, fn, arg, &opts));
    return f;
}

/* get, timed get and result all say this, again and again. */
static void check_outcome(spn_future *f, int status, void *value)
{
    spn_outcome outcome;

    for (int i = 0; i < 3; i++) {
        void *got = &got;

        CHECK_STATUS(spn_future_get(f, &got, SPN_FOREVER), status);
        CHECK(status != SPN_OK || got == value);
        CHECK_STATUS(spn_future_get(f, &got, i == 0 ? 0 : INT64_MIN), status);
        CHECK(status != SPN_OK || got == value);
        CHECK_STATUS(spn_future_result(f, &outcome), status);
        CHECK(outcome.value == (status == SPN_OK ? value : NULL));
        CHECK_STATUS(spn_future_get(f, NULL, SPN_MS(1)), status);
    }
    CHECK_EQ(spn_future_get_state(f), status == SPN_OK          ? SPN_FUTURE_SUCCEEDED
                                      : status == SPN_ECANCELED ? SPN_FUTURE_CANCELED
                                                                : SPN_FUTURE_FAILED);
}

static void check_cause(spn_future *f, int code, const char *message)
{
    char text[SPN_FUTURE_MESSAGE_MAX];
    int got = 0;

    CHECK_OK(t_cause(f, &got, text, sizeof text));
    CHECK_EQ(got, code);
    CHECK_STR(text, message);
}

/* ---- state and results ------------------------------------------------------ */

/* Without a function there is no task future; every NULL is refused. */
TEST(task__null_arguments__invalid, "FUT-1", "G-2", "G-1")
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *f = (spn_future *)&opts;

    CHECK_STATUS(spn_future_create_task(&f, NULL, NULL, NULL), SPN_EINVAL);
    CHECK(f == NULL);
    CHECK_STATUS(spn_future_create_task(NULL, do_job, NULL, NULL), SPN_EINVAL);
    opts.size = 1;
    CHECK_STATUS(spn_future_create_task(&f, do_job, NULL, &opts), SPN_EINVAL);
    CHECK_STATUS(spn_executor_submit(spn_executor_direct(), NULL, NULL, &f),
                 SPN_EINVAL);
    CHECK_STATUS(spn_executor_submit(NULL, do_job, NULL, &f), SPN_EINVAL);
    CHECK_STATUS(spn_executor_submit(spn_executor_direct(), do_job, NULL, NULL),
                 SPN_EINVAL);
    CHECK_EQ(spn_future_run(NULL), SPN_EINVAL);
    CHECK_EQ(spn_future_run_and_reset(NULL), SPN_EINVAL);
    CHECK_EQ(spn_future_cancel(NULL, 0), SPN_EINVAL);
    CHECK_EQ(spn_future_complete(NULL, NULL), SPN_EINVAL);
    CHECK_EQ(spn_future_complete_error(NULL, -1, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_future_get(NULL, NULL, SPN_FOREVER), SPN_EINVAL);
    CHECK_EQ(spn_future_get_state(NULL), SPN_EINVAL);
    CHECK_EQ(spn_future_dependents(NULL), SPN_EINVAL);
    CHECK_EQ(spn_future_result(NULL, NULL), SPN_EINVAL);
    CHECK_EQ(spn_future_submit(NULL, spn_executor_direct()), SPN_EINVAL);
    CHECK(spn_future_ref(NULL) == NULL);
    spn_future_unref(NULL);
}

/* A promise has no function to run. */
TEST(task__calls_that_need_a_function__refuse_a_promise, "G-1")
{
    spn_future *f;

    REQUIRE_OK(spn_future_create(&f, NULL));
    CHECK_EQ(spn_future_run(f), SPN_EINVAL);
    CHECK_EQ(spn_future_run_and_reset(f), SPN_EINVAL);
    CHECK_EQ(spn_future_submit(f, spn_executor_direct()), SPN_EINVAL);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    spn_future_unref(f);
}

/* A new future is neither done nor cancelled, and its hook was not called. */
TEST(task__new__is_pending, "FUT-2")
{
    struct hook h;
    struct job j = { 0 };
    spn_future *f = hooked(do_job, &j, &h);

    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_EQ(h.calls, 0);
    CHECK_EQ(j.runs, 0);
    spn_future_unref(f);
}

/* run calls the function once; its value comes out as often as asked for. */
TEST(task__run__gives_the_value_again_and_again, "FUT-3", "G-4")
{
    struct job j = { .value = &j }, nothing = { .value = NULL };
    spn_future *f = task(do_job, &j);

    CHECK_EQ(spn_future_run(f), 1);
    CHECK_EQ(j.runs, 1);
    check_outcome(f, SPN_OK, &j);
    spn_future_unref(f);

    f = task(do_job, &nothing);
    CHECK_STATUS(spn_future_get(f, NULL, 0), SPN_ETIMEDOUT);
    CHECK_EQ(spn_future_run(f), 1);
    check_outcome(f, SPN_OK, NULL);
    spn_future_unref(f);
}

/* A future runs once: not while it runs, not when it is done or cancelled. */
TEST(task__run_again__does_nothing, "FUT-4")
{
    struct job j;
    struct peer runner;
    spn_future *f;

    hold(&j);
    f = task(do_job, &j);
    peer_start(&runner, run_call, f);
    CHECK_OK(spn_latch_await(j.entered, SPN_FOREVER));
    CHECK_EQ(spn_future_run(f), 0);
    CHECK_EQ(spn_future_run_and_reset(f), 0);
    CHECK_OK(spn_latch_count_down(j.gate));
    CHECK_EQ(peer_finish(&runner), 1);
    CHECK_EQ(spn_future_run(f), 0);
    CHECK_EQ(j.runs, 1);
    spn_future_unref(f);
    let_go(&j);

    f = task(do_job, &j);
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    CHECK_EQ(spn_future_run(f), 0);
    CHECK_EQ(j.runs, 1);
    spn_future_unref(f);
}

static int fail_with_words(void *arg, void **result)
{
    *result = arg;
    return spn_future_fail(-77, "the disk is gone");
}

/* A failure keeps its code and its words. */
TEST(task__function_fails__cause_is_kept, "FUT-5", "G-21")
{
    struct job j = { .code = 42 };
    spn_future *f = task(do_job, &j);
    spn_outcome outcome;

    CHECK_EQ(spn_future_run(f), 1);
    check_outcome(f, SPN_EFAILED, NULL);
    for (int i = 0; i < 3; i++)
        check_cause(f, 42, "");
    (void)spn_future_result(f, &outcome);
    CHECK_EQ(outcome.derived, 0);
    spn_future_unref(f);

    f = task(fail_with_words, &j);
    CHECK_EQ(spn_future_run(f), 1);
    check_outcome(f, SPN_EFAILED, NULL);
    check_cause(f, -77, "the disk is gone");
    spn_future_unref(f);

    /* Outside of a function only the code counts. */
    CHECK_EQ(spn_future_fail(5, "nowhere"), 5);
}

/* A value set by hand stays, and the function is not called. */
TEST(task__value_set_before_run__wins, "FUT-6", "FUT-8")
{
    struct job j = { 0 };
    spn_future *f = task(do_job, &j);

    CHECK_EQ(spn_future_complete(f, &f), 1);
    CHECK_EQ(spn_future_run(f), 0);
    CHECK_EQ(j.runs, 0);
    CHECK_EQ(spn_future_complete(f, &j), 0);
    CHECK_EQ(spn_future_complete_error(f, 9, "no"), 0);
    CHECK_EQ(spn_future_cancel(f, 0), 0);
    CHECK_EQ(spn_future_cancel(f, 1), 0);
    check_outcome(f, SPN_OK, &f);
    spn_future_unref(f);
}

/* An error set by hand likewise. */
TEST(task__error_set_before_run__wins, "FUT-7", "FUT-8")
{
    struct job j = { 0 };
    spn_future *f = task(do_job, &j);

    CHECK_EQ(spn_future_complete_error(f, 0, "not an error"), SPN_EINVAL);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_complete_error(f, 9, "nine"), 1);
    CHECK_EQ(spn_future_complete(f, &j), 0);
    CHECK_EQ(spn_future_complete_error(f, 10, "ten"), 0);
    CHECK_EQ(spn_future_cancel(f, 1), 0);
    CHECK_EQ(spn_future_run(f), 0);
    CHECK_EQ(j.runs, 0);
    check_outcome(f, SPN_EFAILED, NULL);
    check_cause(f, 9, "nine");
    spn_future_unref(f);
}

/* The hook is called once, when the future is done, however it got there. */
TEST(task__done_hook__called_once_per_future, "FUT-9", "G-23")
{
    struct job good = { 0 }, bad = { .code = 1 };
    struct hook h;
    spn_future *f;

    for (int way = 0; way < 6; way++) {
        f = hooked(do_job, way == 1 ? &bad : &good, &h);
        switch (way) {
        case 0:
        case 1:
            CHECK_EQ(spn_future_run(f), 1);
            break;
        case 2:
            CHECK_EQ(spn_future_complete(f, NULL), 1);
            break;
        case 3:
            CHECK_EQ(spn_future_complete_error(f, 1, NULL), 1);
            break;
        default:
            CHECK_EQ(spn_future_cancel(f, way == 5), 1);
            break;
        }
        CHECK_EQ(h.calls, 1);
        CHECK_EQ(h.undone, 0);
        (void)spn_future_run(f);
        (void)spn_future_cancel(f, 1);
        (void)spn_future_complete(f, NULL);
        CHECK_EQ(h.calls, 1);
        spn_future_unref(f);
        CHECK_EQ(h.calls, 1);
    }
}

/* run, and a value set by hand, release getters of every kind. */
TEST(task__completed__releases_all_getters, "FUT-10", "FUT-11", "G-20")
{
    enum { GETTERS = 6 };
    struct job j = { .value = &j };

    for (int by_hand = 0; by_hand < 2; by_hand++) {
        struct getter g[GETTERS];
        spn_future *f = task(do_job, &j);

        for (int i = 0; i < GETTERS; i++)
            getter_start(&g[i], f, i % 2 == 0 ? SPN_FOREVER : T_LONG_NS);
        CHECK_EQ(by_hand != 0 ? spn_future_complete(f, &j) : spn_future_run(f), 1);
        for (int i = 0; i < GETTERS; i++) {
            CHECK_OK(peer_finish(&g[i].peer));
            CHECK(g[i].value == &j);
        }
        spn_future_unref(f);
    }
}

/* ---- run_and_reset ---------------------------------------------------------- */

/* It runs again and again and leaves the future as it was. */
TEST(task__run_and_reset__leaves_it_pending, "FUT-12")
{
    struct hook h;
    struct job j = { .value = &j };
    spn_future *f = hooked(do_job, &j, &h);

    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(spn_future_run_and_reset(f), 1);
        CHECK_EQ(j.runs, i);
        CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
        CHECK_STATUS(spn_future_get(f, NULL, 0), SPN_ETIMEDOUT);
    }
    CHECK_EQ(h.calls, 0);
    CHECK_EQ(spn_future_run(f), 1); /* and can still run for good */
    check_outcome(f, SPN_OK, &j);
    CHECK_EQ(h.calls, 1);
    spn_future_unref(f);
}

/* A future that is done, cancelled or running is not run. */
TEST(task__run_and_reset_when_not_possible__is_false, "FUT-13")
{
    struct job j;
    struct peer runner;
    spn_future *f;

    hold(&j);
    f = task(do_job, &j);
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    CHECK_EQ(spn_future_run_and_reset(f), 0);
    spn_future_unref(f);
    f = task(do_job, &j);
    CHECK_EQ(spn_future_complete(f, NULL), 1);
    CHECK_EQ(spn_future_run_and_reset(f), 0);
    spn_future_unref(f);
    CHECK_EQ(j.runs, 0);

    f = task(do_job, &j);
    peer_start(&runner, run_and_reset_call, f);
    CHECK_OK(spn_latch_await(j.entered, SPN_FOREVER));
    CHECK_EQ(spn_future_run_and_reset(f), 0);
    CHECK_OK(spn_latch_count_down(j.gate));
    CHECK_EQ(peer_finish(&runner), 1);
    CHECK_EQ(j.runs, 1);
    spn_future_unref(f);
    let_go(&j);
}

/* A failure completes it. */
TEST(task__run_and_reset_fails__completes, "FUT-14")
{
    struct job j = { .code = -4 };
    spn_future *f = task(do_job, &j);

    CHECK_EQ(spn_future_run_and_reset(f), 0);
    check_outcome(f, SPN_EFAILED, NULL);
    check_cause(f, -4, "");
    CHECK_EQ(spn_future_run_and_reset(f), 0);
    CHECK_EQ(j.runs, 1);
    spn_future_unref(f);
}

/* Cancelled meanwhile, it does not reset. */
TEST(task__cancelled_during_run_and_reset__is_false, "FUT-15")
{
    for (int interrupt = 0; interrupt < 2; interrupt++) {
        struct job j;
        struct peer runner;
        spn_future *f;

        hold(&j);
        f = task(do_job, &j);
        peer_start(&runner, run_and_reset_call, f);
        CHECK_OK(spn_latch_await(j.entered, SPN_FOREVER));
        CHECK_EQ(spn_future_cancel(f, interrupt), 1);
        if (interrupt == 0)
            CHECK_OK(spn_latch_count_down(j.gate));
        CHECK_EQ(peer_finish(&runner), 0);
        CHECK_EQ(1 - j.wait_ended, interrupt != 0 ? SPN_EINTR : SPN_OK);
        check_outcome(f, SPN_ECANCELED, NULL);
        spn_future_unref(f);
        let_go(&j);
    }
}

/* ---- cancel ----------------------------------------------------------------- */

/* Cancelled first, the function never runs. */
TEST(task__cancelled_before_run__never_runs, "FUT-16", "FUT-35")
{
    for (int interrupt = 0; interrupt < 2; interrupt++) {
        struct job j = { 0 };
        spn_future *f = task(do_job, &j);

        CHECK_EQ(spn_future_cancel(f, interrupt), 1);
        check_outcome(f, SPN_ECANCELED, NULL);
        CHECK_EQ(spn_future_run(f), 0);
        CHECK_EQ(j.runs, 0);
        spn_future_unref(f);
    }
}

/* What is done stays; a second cancel says so too. */
TEST(task__cancelled_when_done__is_false, "FUT-17", "FUT-18")
{
    struct job good = { 0 }, bad = { .code = 3 };
    spn_future *f = task(do_job, &good);

    CHECK_EQ(spn_future_run(f), 1);
    CHECK_EQ(spn_future_cancel(f, 0), 0);
    CHECK_EQ(spn_future_cancel(f, 1), 0);
    check_outcome(f, SPN_OK, NULL);
    spn_future_unref(f);

    f = task(do_job, &bad);
    CHECK_EQ(spn_future_run(f), 1);
    CHECK_EQ(spn_future_cancel(f, 1), 0);
    check_outcome(f, SPN_EFAILED, NULL);
    spn_future_unref(f);

    for (int interrupt = 0; interrupt < 2; interrupt++) {
        f = task(do_job, &good);
        CHECK_EQ(spn_future_cancel(f, interrupt), 1);
        CHECK_EQ(spn_future_cancel(f, 0), 0);
        CHECK_EQ(spn_future_cancel(f, 1), 0);
        spn_future_unref(f);
    }
}

/* With interrupt the runner's wait ends; the future is done at once, and what the
 * function then returns is ignored. */
TEST(task__cancelled_while_running__interrupts_and_stays_cancelled, "FUT-19", "FUT-20",
     "FUT-26")
{
    for (int fails = 0; fails < 2; fails++) {
        struct job j;
        struct peer runner;
        spn_future *f;

        hold(&j);
        j.code = fails != 0 ? 5 : 0;
        f = task(do_job, &j);
        peer_start(&runner, run_call, f);
        CHECK_OK(spn_latch_await(j.entered, SPN_FOREVER));
        CHECK_EQ(spn_future_cancel(f, 1), 1);
        check_outcome(f, SPN_ECANCELED, NULL);
        CHECK_EQ(peer_finish(&runner), 1);
        CHECK_EQ(1 - j.wait_ended, SPN_EINTR);
        CHECK_EQ(runner.flag_after, 0); /* the wait took the interrupt */
        check_outcome(f, SPN_ECANCELED, NULL);
        CHECK_EQ(spn_future_complete(f, NULL), 0);
        spn_future_unref(f);
        let_go(&j);
    }
}

/* The future is done before the function has returned. */
TEST(task__cancelled_while_running__done_before_the_function_returns, "FUT-19")
{
    struct job j;
    struct peer runner;
    spn_future *f;

    hold(&j);
    f = task(do_job, &j);
    peer_start(&runner, run_call, f);
    CHECK_OK(spn_latch_await(j.entered, SPN_FOREVER));
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    check_outcome(f, SPN_ECANCELED, NULL);
    CHECK_EQ(atomic_load(&runner.done), 0);
    CHECK_OK(spn_latch_count_down(j.gate));
    CHECK_EQ(peer_finish(&runner), 1);
    spn_future_unref(f);
    let_go(&j);
}

/* Without interrupt the runner is left alone. */
TEST(task__cancelled_without_interrupt__runner_goes_on, "FUT-21")
{
    struct job j;
    struct peer runner;
    spn_future *f;

    hold(&j);
    f = task(do_job, &j);
    peer_start(&runner, run_call, f);
    CHECK_OK(spn_latch_await(j.entered, SPN_FOREVER));
    peer_await_blocked(&runner);
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    CHECK(peer_still_waits(&runner));
    CHECK_OK(spn_latch_count_down(j.gate));
    CHECK_EQ(peer_finish(&runner), 1);
    CHECK_EQ(1 - j.wait_ended, SPN_OK);
    CHECK_EQ(runner.flag_after, 0);
    check_outcome(f, SPN_ECANCELED, NULL);
    spn_future_unref(f);
    let_go(&j);
}

/* Getters that wait are told. */
TEST(task__cancelled__releases_getters, "FUT-22")
{
    for (int interrupt = 0; interrupt < 2; interrupt++) {
        struct getter g[2];
        struct job j = { 0 };
        spn_future *f = task(do_job, &j);

        getter_start(&g[0], f, SPN_FOREVER);
        getter_start(&g[1], f, T_LONG_NS);
        CHECK_EQ(spn_future_cancel(f, interrupt), 1);
        for (int i = 0; i < 2; i++)
            CHECK_STATUS(peer_finish(&g[i].peer), SPN_ECANCELED);
        spn_future_unref(f);
    }
}

struct deaf {
    spn_future *f;
    atomic_int entered, gate;
    int ran;
};

static int wait_deaf(void *arg, void **result)
{
    struct deaf *d = arg;

    (void)result;
    atomic_store(&d->entered, 1);
    while (atomic_load(&d->gate) == 0)
        sched_yield();
    return 0;
}

/* A thread without a record: the library has no memory for one. */
static void *run_without_record(void *arg)
{
    struct deaf *d = arg;

    d->ran = spn_future_run(d->f);
    return NULL;
}

/* Where the interrupt cannot be delivered, cancel is as good as without. */
TEST(task__runner_cannot_be_interrupted__is_cancelled_all_the_same, "FUT-23")
{
    struct hook h;
    struct deaf d = { 0 };
    struct getter g;
    pthread_t thread;

    d.f = hooked(wait_deaf, &d, &h);
    getter_start(&g, d.f, SPN_FOREVER);
    atomic_store(&counting_refuse, 1);
    REQUIRE(pthread_create(&thread, NULL, run_without_record, &d) == 0);
    T_AWAIT(atomic_load(&d.entered) == 1);
    CHECK_EQ(spn_future_cancel(d.f, 1), 1);
    atomic_store(&counting_refuse, 0);
    CHECK_STATUS(peer_finish(&g.peer), SPN_ECANCELED);
    check_outcome(d.f, SPN_ECANCELED, NULL);
    CHECK_EQ(h.calls, 1);
    atomic_store(&d.gate, 1);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(d.ran, 1);
    CHECK_EQ(h.calls, 1);
    spn_future_unref(d.f);
}

/* The runner's own cancel sets its own flag. */
static int cancel_itself(void *arg, void **result)
{
    struct job *j = arg;

    j->inner = spn_future_cancel(j->self, 1);
    *result = NULL;
    return spn_thread_is_interrupted(spn_thread_current()) == 1 ? 0 : 1;
}

TEST(task__cancels_itself__sets_its_own_flag, "FUT-26", "FUT-25")
{
    struct job j = { 0 };
    spn_future *f = task(cancel_itself, &j);

    j.self = f;
    CHECK_EQ(spn_future_run(f), 1);
    CHECK_EQ(j.inner, 1);
    check_outcome(f, SPN_ECANCELED, NULL);
    CHECK_EQ(spn_thread_interrupted(), 1); /* still pending, for the pool to clear */
    spn_future_unref(f);
}

/* ---- the late interrupt ------------------------------------------------------- */

struct late {
    spn_future *f;
    atomic_int go;
    int leaked, cancelled;
};

static int nothing(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 0;
}

static void cancel_or_run(int index, void *arg)
{
    struct late *l = arg;

    if (index == 0) {
        (void)spn_future_run(l->f);
        /* Whatever came has come by now: after this nothing may arrive. */
        (void)spn_thread_interrupted();
        atomic_store(&l->go, 1);
        for (int i = 0; i < 200; i++)
            sched_yield();
        l->leaked = spn_thread_interrupted();
    } else {
        l->cancelled = spn_future_cancel(l->f, 1);
    }
}

/* An interrupt meant for a task never reaches what its thread does next. */
TEST(task__cancel_races_with_the_end__interrupt_is_never_late, "FUT-24", "FUT-25")
{
    const int rounds = t_rounds(300);

    for (int i = 0; i < rounds; i++) {
        struct late l = { .f = task(nothing, NULL) };

        t_parallel(2, cancel_or_run, &l);
        CHECK_EQ(l.leaked, 0);
        CHECK_EQ(spn_future_get_state(l.f) == SPN_FUTURE_CANCELED, l.cancelled);
        spn_future_unref(l.f);
    }
}

/* ---- get -------------------------------------------------------------------- */

struct impatient {
    spn_future *f;
    int64_t timeout_ns;
};

static void get_at_once(int index, void *arg)
{
    struct impatient *p = arg;

    (void)index;
    CHECK_STATUS(spn_future_get(p->f, NULL, p->timeout_ns), SPN_ETIMEDOUT);
}

/* A timed get waits its time and not less; without time it does not wait. */
TEST(task__timed_get__times_out, "FUT-27", "G-6", "G-7")
{
    static const int64_t none[] = { 0, -1, INT64_MIN };
    struct impatient p = { .f = task(nothing, NULL) };
    int64_t start;

    for (int i = 0; i < 3; i++) {
        p.timeout_ns = none[i];
        get_at_once(0, &p);
        t_parallel(10, get_at_once, &p);
    }
    start = spn_now();
    CHECK_STATUS(spn_future_get(p.f, NULL, 999999), SPN_ETIMEDOUT);
    CHECK(spn_now() - start >= 999999);
    start = spn_now();
    CHECK_STATUS(spn_future_get(p.f, NULL, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK(spn_now() - start >= T_PROBE_NS);
    CHECK_EQ(spn_future_get_state(p.f), SPN_FUTURE_PENDING);
    spn_future_unref(p.f);
}

/* A get that would wait is interrupted; the future stays as it is. */
TEST(task__get_interrupted__leaves_the_future_alone, "FUT-28", "G-10", "G-11")
{
    struct getter g;
    spn_future *f = task(nothing, NULL);

    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(spn_future_get(f, NULL, SPN_FOREVER), SPN_EINTR);
    CHECK_EQ(spn_thread_interrupted(), 0);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_STATUS(spn_future_get(f, NULL, T_LONG_NS), SPN_EINTR);
    CHECK_EQ(spn_thread_interrupted(), 0);
    for (int timed = 0; timed < 2; timed++) {
        getter_start(&g, f, timed != 0 ? T_LONG_NS : SPN_FOREVER);
        CHECK_OK(spn_thread_interrupt(g.peer.thread));
        CHECK_STATUS(peer_finish(&g.peer), SPN_EINTR);
        CHECK_EQ(g.peer.flag_after, 0);
    }
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_run(f), 1);
    spn_future_unref(f);
}

/* What is done comes whatever the flag, and leaves it. */
TEST(task__get_when_done__ignores_the_flag, "FUT-29", "G-13")
{
    struct job j = { .value = &j };
    spn_future *f = task(do_job, &j);
    void *value = NULL;

    CHECK_EQ(spn_future_run(f), 1);
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK(value == &j);
    CHECK_EQ(spn_thread_interrupted(), 1);
    spn_future_unref(f);
}

struct seen {
    spn_future *f;
    int how;
    int wrong;
};

static void complete_or_look(int index, void *arg)
{
    struct seen *s = arg;

    if (index == 0) {
        if (s->how == 0)
            (void)spn_future_run(s->f);
        else if (s->how == 1)
            (void)spn_future_complete_error(s->f, 1, "one");
        else
            (void)spn_future_cancel(s->f, 1);
    } else {
        while (spn_future_get_state(s->f) == SPN_FUTURE_PENDING)
            ;
        if (spn_future_get(s->f, NULL, 0) == SPN_ETIMEDOUT)
            s->wrong = 1;
    }
}

/* Once somebody saw it done, it is done for get. */
TEST(task__seen_done__get_has_it_at_once, "FUT-30")
{
    const int rounds = t_rounds(300);

    for (int i = 0; i < rounds; i++) {
        struct seen s = { .f = task(nothing, NULL), .how = i % 3 };

        t_parallel(2, complete_or_look, &s);
        CHECK_EQ(s.wrong, 0);
        spn_future_unref(s.f);
    }
}

/* A getter that gave up leaves nothing behind: not memory, not work. */
TEST(task__many_timed_out_gets__leave_nothing, "FUT-31")
{
    const int rounds = t_rounds(200000);
    spn_future *f = task(nothing, NULL);
    long live, allocs;
    int wrong = 0;

    CHECK_STATUS(spn_future_get(f, NULL, 0), SPN_ETIMEDOUT);
    live = atomic_load(&counting_live);
    allocs = atomic_load(&counting_allocs);
    for (int i = 0; i < rounds; i++)
        wrong += spn_future_get(f, NULL, 0) != SPN_ETIMEDOUT;
    CHECK_EQ(wrong, 0);
    CHECK_EQ(atomic_load(&counting_live), live);
    CHECK_EQ(atomic_load(&counting_allocs), allocs);
    CHECK_EQ(spn_future_run(f), 1);
    spn_future_unref(f);
}

/* Each state answers for itself, and has a name. */
TEST(task__state__tells_the_four_apart, "FUT-32", "FUT-33", "G-24")
{
    struct job good = { .value = &good }, bad = { .code = 6 };
    spn_future *f = task(do_job, &good);
    spn_outcome outcome;

    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_STATUS(spn_future_result(f, &outcome), SPN_ESTATE);
    CHECK_EQ(spn_future_run(f), 1);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_SUCCEEDED);
    CHECK_OK(spn_future_result(f, &outcome));
    CHECK(outcome.value == &good && outcome.code == 0);
    spn_future_unref(f);

    f = task(do_job, &bad);
    CHECK_EQ(spn_future_run(f), 1);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_FAILED);
    CHECK_STATUS(spn_future_result(f, &outcome), SPN_EFAILED);
    CHECK(outcome.value == NULL && outcome.code == 6);
    spn_future_unref(f);

    f = task(do_job, &good);
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_CANCELED);
    CHECK_STATUS(spn_future_result(f, &outcome), SPN_ECANCELED);
    CHECK(outcome.value == NULL && outcome.code == SPN_ECANCELED);
    spn_future_unref(f);

    CHECK_STR(spn_future_state_name(SPN_FUTURE_PENDING), "pending");
    CHECK_STR(spn_future_state_name(SPN_FUTURE_SUCCEEDED), "succeeded");
    CHECK_STR(spn_future_state_name(SPN_FUTURE_FAILED), "failed");
    CHECK_STR(spn_future_state_name(SPN_FUTURE_CANCELED), "cancelled");
    CHECK_STR(spn_future_state_name(4), "unknown");
    CHECK_STR(spn_future_state_name(-1), "unknown");
}

/* ---- many at once ------------------------------------------------------------- */

/* Of many that contend for one gate, all but one are cancelled; that one ends. */
TEST(task__all_but_one_cancelled__that_one_finishes, "FUT-34")
{
    enum { TASKS = 6 };
    struct job j[TASKS];
    struct peer runner[TASKS];
    spn_future *f[TASKS];
    spn_latch *gate;

    REQUIRE_OK(spn_latch_create(&gate, 1));
    for (int i = 0; i < TASKS; i++) {
        j[i] = (struct job){ .gate = gate, .value = &j[i] };
        f[i] = task(do_job, &j[i]);
        peer_start(&runner[i], run_call, f[i]);
        peer_await_blocked(&runner[i]);
    }
    for (int i = 0; i < TASKS - 1; i++) {
        CHECK_EQ(spn_future_cancel(f[i], 1), 1);
        check_outcome(f[i], SPN_ECANCELED, NULL);
        CHECK_EQ(peer_finish(&runner[i]), 1);
        CHECK_EQ(1 - j[i].wait_ended, SPN_EINTR);
    }
    CHECK_EQ(spn_future_get_state(f[TASKS - 1]), SPN_FUTURE_PENDING);
    CHECK_OK(spn_latch_count_down(gate));
    CHECK_EQ(peer_finish(&runner[TASKS - 1]), 1);
    check_outcome(f[TASKS - 1], SPN_OK, &j[TASKS - 1]);
    for (int i = 0; i < TASKS; i++)
        spn_future_unref(f[i]);
    CHECK_OK(spn_latch_destroy(gate));
}

struct contest {
    spn_future *f;
    struct hook hook;
    struct job job;
    atomic_int wins;
    int winner;
};

static void contend(int index, void *arg)
{
    struct contest *c = arg;
    int won = 0;

    switch (index) {
    case 0:
        won = spn_future_complete(c->f, &c->wins);
        break;
    case 1:
        won = spn_future_complete_error(c->f, 21, "blackjack");
        break;
    case 2:
        won = spn_future_cancel(c->f, 1);
        break;
    default:
        (void)spn_future_run(c->f); /* its win shows in the value */
        break;
    }
    if (won == 1) {
        atomic_fetch_add(&c->wins, 1);
        c->winner = index;
    }
}

/* Of set, error, cancel and run one takes effect, and everybody sees that one. */
TEST(task__four_ways_at_once__one_wins, "FUT-8", "FUT-9")
{
    const int rounds = t_rounds(300);
    int seen[4] = { 0 };

    for (int i = 0; i < rounds; i++) {
        struct contest c = { .job.value = &c, .winner = 3 };
        void *value = NULL;

        c.f = hooked(do_job, &c.job, &c.hook);
        t_parallel(4, contend, &c);
        CHECK_EQ(c.hook.calls, 1);
        CHECK_EQ(c.hook.undone, 0);
        CHECK_EQ(c.wins, c.winner == 3 ? 0 : 1);
        seen[c.winner]++;
        switch (c.winner) {
        case 0:
            check_outcome(c.f, SPN_OK, &c.wins);
            break;
        case 1:
            check_outcome(c.f, SPN_EFAILED, NULL);
            check_cause(c.f, 21, "blackjack");
            break;
        case 2:
            check_outcome(c.f, SPN_ECANCELED, NULL);
            break;
        default:
            CHECK_OK(spn_future_get(c.f, &value, 0));
            CHECK(value == &c);
            CHECK_EQ(c.job.runs, 1);
            break;
        }
        spn_future_unref(c.f);
    }
    (void)spn_thread_interrupted();
    CHECK_EQ(seen[0] + seen[1] + seen[2] + seen[3], rounds);
}

/* ---- who owns what ------------------------------------------------------------ */

static atomic_int releases;

static void count_release(void *arg)
{
    (void)arg;
    atomic_fetch_add(&releases, 1);
}

/* The argument is given back when the future is done and the function does not run,
 * not when the last reference goes. */
TEST(task__argument__released_as_soon_as_done, "FUT-36")
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    struct job j = { 0 };
    struct peer runner;
    spn_future *f;

    opts.release_arg = count_release;
    for (int way = 0; way < 4; way++) {
        atomic_store(&releases, 0);
        REQUIRE_OK(spn_future_create_task(&f, do_job, &j, &opts));
        CHECK_EQ(releases, 0);
        if (way == 0)
            CHECK_EQ(spn_future_run(f), 1);
        else if (way == 1)
            CHECK_EQ(spn_future_cancel(f, 1), 1);
        else if (way == 2)
            CHECK_EQ(spn_future_complete(f, NULL), 1);
        if (way == 3) { /* dropped without having run */
            CHECK_EQ(spn_future_run_and_reset(f), 1);
            CHECK_EQ(releases, 0);
            spn_future_unref(f);
            CHECK_EQ(releases, 1);
            continue;
        }
        CHECK_EQ(releases, 1);
        CHECK_EQ(spn_future_run(f), 0);
        spn_future_unref(f);
        CHECK_EQ(releases, 1);
    }

    /* While it runs, the function has it. */
    atomic_store(&releases, 0);
    hold(&j);
    REQUIRE_OK(spn_future_create_task(&f, do_job, &j, &opts));
    peer_start(&runner, run_call, f);
    CHECK_OK(spn_latch_await(j.entered, SPN_FOREVER));
    CHECK_EQ(spn_future_cancel(f, 0), 1);
    CHECK_EQ(releases, 0);
    CHECK_OK(spn_latch_count_down(j.gate));
    CHECK_EQ(peer_finish(&runner), 1);
    CHECK_EQ(releases, 1);
    spn_future_unref(f);
    let_go(&j);

    /* A promise has none. */
    CHECK_STATUS(spn_future_create(&f, &opts), SPN_EINVAL);
}

static atomic_int drops;
static void *dropped;

static void count_drop(void *value)
{
    atomic_fetch_add(&drops, 1);
    dropped = value;
}

/* A value nobody read is freed with the last reference; a read one is the
 * reader's. */
TEST(task__value__dropped_unless_read, "G-16")
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    struct job j = { .value = &j };
    spn_future *f, *copy;
    void *value;

    opts.drop_value = count_drop;
    atomic_store(&drops, 0);
    REQUIRE_OK(spn_future_create_task(&f, do_job, &j, &opts));
    CHECK_EQ(spn_future_run(f), 1);
    CHECK_OK(spn_future_get(f, NULL, 0)); /* did not take it */
    CHECK(spn_future_ref(f) == f);
    spn_future_unref(f);
    CHECK_EQ(drops, 0);
    spn_future_unref(f);
    CHECK_EQ(drops, 1);
    CHECK(dropped == &j);

    REQUIRE_OK(spn_future_create_task(&f, do_job, &j, &opts));
    CHECK_EQ(spn_future_run(f), 1);
    CHECK_OK(spn_future_get(f, &value, 0));
    spn_future_unref(f);
    CHECK_EQ(drops, 1);

    /* What came too late has no reader. */
    REQUIRE_OK(spn_future_create_task(&f, do_job, &j, &opts));
    CHECK_EQ(spn_future_run_and_reset(f), 1);
    CHECK_EQ(drops, 2);
    spn_future_unref(f);
    CHECK_EQ(drops, 2);

    /* A stage that passes it on keeps it from being freed, and may read it. */
    for (int read = 0; read < 2; read++) {
        atomic_store(&drops, 0);
        REQUIRE_OK(spn_future_create_task(&f, do_job, &j, &opts));
        REQUIRE_OK(spn_future_any_of(&f, 1, &copy));
        CHECK_EQ(spn_future_run(f), 1);
        spn_future_unref(f);
        CHECK_EQ(drops, 0);
        if (read != 0)
            CHECK_OK(spn_future_get(copy, &value, 0));
        spn_future_unref(copy);
        CHECK_EQ(drops, 1 - read);
    }
}

/* The executor's reference and the caller's are two: either may go first. */
TEST(task__submitted__lives_until_both_have_left, "G-16", "FUT-35")
{
    spn_manual_executor *m;
    struct job j = { .value = &j };
    spn_future *f;
    void *value;

    REQUIRE_OK(spn_manual_executor_create(&m));
    REQUIRE_OK(spn_executor_submit(spn_manual_executor_executor(m), do_job, &j, &f));
    spn_future_unref(f); /* does not cancel */
    CHECK_EQ(j.runs, 0);
    CHECK_EQ(spn_manual_executor_run(m, 1), 1);
    CHECK_EQ(j.runs, 1);

    REQUIRE_OK(spn_executor_submit(spn_manual_executor_executor(m), do_job, &j, &f));
    CHECK_STATUS(spn_future_submit(f, spn_manual_executor_executor(m)), SPN_EBUSY);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK(value == &j);
    spn_future_unref(f);

    /* Cancelled while it waits, its function does not run. */
    REQUIRE_OK(spn_executor_submit(spn_manual_executor_executor(m), do_job, &j, &f));
    CHECK_EQ(spn_future_cancel(f, 1), 1);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_EQ(j.runs, 2);
    spn_future_unref(f);

    /* Dropped by the executor: cancelled, or failed with the reason. */
    REQUIRE_OK(spn_executor_submit(spn_manual_executor_executor(m), do_job, &j, &f));
    CHECK_OK(spn_manual_executor_drop_all(m, SPN_ECANCELED, NULL));
    check_outcome(f, SPN_ECANCELED, NULL);
    spn_future_unref(f);
    REQUIRE_OK(spn_executor_submit(spn_manual_executor_executor(m), do_job, &j, &f));
    CHECK_OK(spn_manual_executor_drop_all(m, SPN_ESHUTDOWN, NULL));
    check_cause(f, SPN_ESHUTDOWN, "dropped by the executor");
    spn_future_unref(f);

    CHECK_OK(spn_executor_shutdown(spn_manual_executor_executor(m)));
    CHECK_STATUS(spn_executor_submit(spn_manual_executor_executor(m), do_job, &j, &f),
                 SPN_EREJECTED);
    CHECK(f == NULL);
    CHECK_EQ(j.runs, 2);
    CHECK_OK(spn_manual_executor_destroy(m));
}

static int end_thread(void *arg, void **result)
{
    (void)arg;
    (void)result;
    pthread_exit(NULL);
}

static int run_within(void *f)
{
    return spn_future_run(f);
}

/* A function that ends a pool's thread has failed, submitted or run by a task of the pool. */
TEST(task__function_ends_a_pools_thread__fails, "G-21")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, 4);
    spn_future *f[] = { task(end_thread, NULL), task(end_thread, NULL) };
    spn_pool *pool;

    REQUIRE_OK(spn_pool_create(&pool, &opts));
    CHECK_OK(spn_future_submit(f[0], spn_pool_executor(pool)));
    CHECK_OK(spn_executor_call(spn_pool_executor(pool), run_within, f[1]));
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(spn_future_get(f[i], NULL, T_LONG_NS), SPN_EFAILED);
        check_cause(f[i], SPN_EFAILED, "the function ended its thread");
    }
    CHECK_OK(spn_pool_close(pool)); /* first: the worker has no reference to f[1] */
    CHECK_OK(spn_pool_destroy(pool));
    spn_future_unref(f[0]);
    spn_future_unref(f[1]);
}

/* Without memory nothing is made, and it is said so. */
TEST(task__no_memory__nothing_happens, "G-22")
{
    struct job j = { 0 };
    spn_future *f;

    atomic_store(&counting_refuse, 1);
    CHECK_STATUS(spn_future_create_task(&f, do_job, &j, NULL), SPN_ENOMEM);
    CHECK(f == NULL);
    CHECK_STATUS(spn_executor_submit(spn_executor_direct(), do_job, &j, &f),
                 SPN_ENOMEM);
    CHECK(f == NULL);
    CHECK_EQ(j.runs, 0);
    atomic_store(&counting_refuse, 0);
}
