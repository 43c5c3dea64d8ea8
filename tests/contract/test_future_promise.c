/* SPDX-License-Identifier: MIT */
/* test_future_promise.c - promises and stages: the contract's section CF.  What is
 * to happen at a later time (CF-33 to CF-37) is in test_future_timeout.c. */
#include "counting.h"
#include "peer.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

#include <spindle/clock.h>
#include <spindle/forkjoin.h>
#include <spindle/future.h>
#include <spindle/limiter.h>
#include <spindle/pool.h>
#include <spindle/serial.h>

/* ---- helpers ---------------------------------------------------------------- */

/* Small numbers as values. */
static void *num(intptr_t n)
{
    return (void *)n;
}

static spn_future *promise(void)
{
    spn_future *f;

    REQUIRE_OK(spn_future_create(&f, NULL));
    return f;
}

static spn_future *completed(void *value)
{
    spn_future *f;

    REQUIRE_OK(spn_future_create_completed(&f, value));
    return f;
}

/* The ways a source can end. */
enum end { VALUE, ERROR, CANCEL, ENDS };

static void end(spn_future *f, enum end how, intptr_t n)
{
    if (how == VALUE)
        CHECK_EQ(spn_future_complete(f, num(n)), 1);
    else if (how == ERROR)
        CHECK_EQ(spn_future_complete_error(f, (int)n, "source"), 1);
    else
        CHECK_EQ(spn_future_cancel(f, 0), 1);
}

static void check_value(spn_future *f, intptr_t n)
{
    spn_outcome outcome;

    for (int i = 0; i < 2; i++) {
        void *got = &got;

        CHECK_OK(spn_future_get(f, &got, SPN_FOREVER));
        CHECK(got == num(n));
        CHECK_OK(spn_future_get(f, &got, i == 0 ? 0 : -1));
        CHECK(got == num(n));
        CHECK_OK(spn_future_result(f, &outcome));
        CHECK_EQ(outcome.status, SPN_OK);
        CHECK_EQ(outcome.code, 0);
        CHECK_EQ(outcome.derived, 0);
        CHECK_STR(outcome.message, "");
        CHECK(outcome.value == num(n));
    }
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_SUCCEEDED);
}

static void check_failed(spn_future *f, int code, const char *message, int derived)
{
    spn_outcome outcome;
    void *got = &got;

    CHECK_STATUS(spn_future_get(f, &got, SPN_FOREVER), SPN_EFAILED);
    CHECK_STATUS(spn_future_get(f, &got, 0), SPN_EFAILED);
    CHECK(got == &got);
    CHECK_STATUS(spn_future_result(f, &outcome), SPN_EFAILED);
    CHECK_EQ(outcome.status, SPN_EFAILED);
    CHECK_EQ(outcome.code, code);
    CHECK_STR(outcome.message, message);
    CHECK(outcome.value == NULL);
    CHECK_EQ(outcome.derived, derived);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_FAILED);
}

static void check_cancelled(spn_future *f)
{
    spn_outcome outcome;
    void *got;

    CHECK_STATUS(spn_future_get(f, &got, SPN_FOREVER), SPN_ECANCELED);
    CHECK_STATUS(spn_future_get(f, &got, 0), SPN_ECANCELED);
    CHECK_STATUS(spn_future_result(f, &outcome), SPN_ECANCELED);
    CHECK_EQ(outcome.code, SPN_ECANCELED);
    CHECK(outcome.value == NULL);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_CANCELED);
}

/* What a stage gets from a source that ended so, without doing anything itself. */
static void check_passed_on(spn_future *f, enum end how, intptr_t n)
{
    if (how == ERROR)
        check_failed(f, (int)n, "source", 1);
    else
        check_failed(f, SPN_ECANCELED, "", 1);
}

/* What a function of a stage does, and what it saw. */
struct act {
    atomic_int calls;
    int code;     /* it returns */
    intptr_t add; /* and adds to the value */
    void *got, *second;
    spn_outcome outcome;
    char message[SPN_FUTURE_MESSAGE_MAX];
    pthread_t thread; /* it ran on */
    spn_future *next; /* what a compose returns; the reference goes with it */
};

static int acted(struct act *a)
{
    atomic_fetch_add(&a->calls, 1);
    a->thread = pthread_self();
    return a->code != 0 ? spn_future_fail(a->code, "action") : 0;
}

static void note(struct act *a, const spn_outcome *o)
{
    a->outcome = *o;
    snprintf(a->message, sizeof a->message, "%s", o->message);
}

static int then_add(void *arg, void *value, void **result)
{
    struct act *a = arg;

    a->got = value;
    *result = num((intptr_t)value + a->add);
    return acted(a);
}

static int then_ignore(void *arg, void *value, void **result)
{
    struct act *a = arg;

    (void)result; /* as thenAccept and thenRun */
    a->got = value;
    return acted(a);
}

static int handle_add(void *arg, const spn_outcome *o, void **result)
{
    struct act *a = arg;

    note(a, o);
    *result = num(o->status == SPN_OK ? (intptr_t)o->value + a->add : a->add);
    return acted(a);
}

/* As exceptionally: replaces a failure, and lets a value pass. */
static int handle_failure(void *arg, const spn_outcome *o, void **result)
{
    if (o->status != SPN_OK)
        return handle_add(arg, o, result);
    *result = o->value;
    return 0;
}

/* As whenComplete: notes the outcome, and lets it pass; its own failure shows only after
 * success. */
static int handle_note(void *arg, const spn_outcome *o, void **result)
{
    struct act *a = arg;
    int rc;

    note(a, o);
    rc = acted(a);
    *result = o->value;
    return o->status == SPN_OK ? rc : spn_future_fail(o->code, o->message);
}

static int compose_next(void *arg, void *value, spn_future **next)
{
    struct act *a = arg;

    a->got = value;
    *next = a->next;
    return acted(a);
}

/* As exceptionallyCompose, in two stages: after every outcome a future as the value, and
 * then that one's outcome. */
static int handle_next(void *arg, const spn_outcome *o, void **result)
{
    struct act *a = arg;

    note(a, o);
    if (o->status == SPN_OK) {
        *result = completed(o->value);
        return 0;
    }
    *result = a->next;
    return acted(a);
}

static int compose_value(void *arg, void *value, spn_future **next)
{
    (void)arg;
    *next = value;
    return 0;
}

static int compose_failure(spn_future *f, spn_executor *ex, struct act *a,
                           spn_future **out)
{
    spn_future *handled;
    int rc = spn_future_handle(f, ex, handle_next, a, &handled);

    if (rc == SPN_OK)
        rc = spn_future_compose(handled, NULL, compose_value, NULL, out);
    spn_future_unref(handled);
    return rc;
}

static int combine_sub(void *arg, void *first, void *second, void **result)
{
    struct act *a = arg;

    a->got = first;
    a->second = second;
    *result = num((intptr_t)first - (intptr_t)second);
    return acted(a);
}

static int supply_add(void *arg, void **result)
{
    struct act *a = arg;

    *result = num(a->add);
    return acted(a);
}

/* An executor that counts what it is asked and can refuse. */
struct counter {
    spn_executor executor;
    atomic_int asked;
    int refuse; /* the status, or 0 */
    spn_executor *inner;
};

static int counter_execute(spn_executor *ex, spn_task *task)
{
    struct counter *c = (struct counter *)(void *)ex;

    atomic_fetch_add(&c->asked, 1);
    return c->refuse != 0 ? c->refuse : spn_executor_execute(c->inner, task);
}

static const spn_executor_ops counter_ops = { .size = sizeof counter_ops,
                                              .execute = counter_execute };
#define COUNTER                                       \
    {                                                 \
        { &counter_ops }, 0, 0, spn_executor_direct() \
    }

/* Every stage of one source, as a table. */
/* NOTE and FAILURE: a handle that lets the outcome, or a value, pass. */
enum op { THEN, HANDLE, NOTE, FAILURE, COMPOSE, OPS };

static int attach(enum op op, spn_future *f, spn_executor *ex, struct act *a,
                  spn_future **out)
{
    switch (op) {
    case THEN:
        return spn_future_then(f, ex, then_add, a, out);
    case HANDLE:
        return spn_future_handle(f, ex, handle_add, a, out);
    case NOTE:
        return spn_future_handle(f, ex, handle_note, a, out);
    case FAILURE:
        return spn_future_handle(f, ex, handle_failure, a, out);
    default:
        return spn_future_compose(f, ex, compose_next, a, out);
    }
}

/* Whether the function of a stage is called after this end. */
static int called_after(enum op op, enum end how)
{
    if (op == HANDLE || op == NOTE)
        return 1;
    return (op == FAILURE) != (how == VALUE);
}

/* ---- a promise by itself ------------------------------------------------------ */

/* A new promise is pending. */
TEST(promise__new__is_pending, "CF-1", "G-4")
{
    spn_future *f = promise();
    spn_outcome outcome;
    void *got = num(5);

    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_STATUS(spn_future_get(f, &got, 0), SPN_ETIMEDOUT);
    CHECK(got == num(5)); /* as getNow(5) */
    CHECK_STATUS(spn_future_result(f, &outcome), SPN_ESTATE);
    CHECK_EQ(outcome.status, SPN_ESTATE);
    CHECK(outcome.value == NULL && outcome.code == 0 && outcome.message[0] == '\0');
    CHECK_STATUS(spn_future_get(f, &got, -1), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_future_get(f, &got, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK_STATUS(spn_future_result(f, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_future_result(NULL, &outcome), SPN_EINVAL);
    spn_future_unref(f);
}

/* The first value stays; NULL is one. */
TEST(promise__completed__once, "CF-2")
{
    for (intptr_t n = 0; n < 2; n++) {
        spn_future *f = promise();

        CHECK_EQ(spn_future_complete(f, num(n)), 1);
        CHECK_EQ(spn_future_complete(f, num(7)), 0);
        CHECK_EQ(spn_future_complete_error(f, 7, NULL), 0);
        check_value(f, n);
        spn_future_unref(f);
    }
}

/* A failure keeps its cause. */
TEST(promise__completed_with_an_error__fails, "CF-3")
{
    spn_future *f = promise();

    CHECK_EQ(spn_future_complete_error(f, 0, "none"), SPN_EINVAL);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_complete_error(f, 8, "eight"), 1);
    CHECK_EQ(spn_future_complete_error(f, 9, "nine"), 0);
    CHECK_EQ(spn_future_complete(f, NULL), 0);
    check_failed(f, 8, "eight", 0);
    spn_future_unref(f);
}

/* Cancel says yes each time, and is the outcome. */
TEST(promise__cancelled__says_so_again, "CF-4", "CF-5")
{
    for (int interrupt = 0; interrupt < 2; interrupt++) {
        spn_future *f = promise();

        for (int i = 0; i < 3; i++) {
            CHECK_EQ(spn_future_cancel(f, interrupt), 1);
            check_cancelled(f);
        }
        CHECK_EQ(spn_future_complete(f, NULL), 0);
        spn_future_unref(f);
    }
}

/* What has ended otherwise is not cancelled. */
TEST(promise__cancelled_when_done__is_false, "CF-5")
{
    spn_future *f = completed(num(1));

    CHECK_EQ(spn_future_cancel(f, 1), 0);
    check_value(f, 1);
    spn_future_unref(f);
    REQUIRE_OK(spn_future_create_failed(&f, -9, "born"));
    CHECK_EQ(spn_future_cancel(f, 0), 0);
    check_failed(f, -9, "born", 0);
    spn_future_unref(f);
}

struct supplying {
    spn_future *f;
    atomic_int entered, gate, interrupted;
};

static int complete_slowly(void *arg)
{
    struct supplying *s = arg;

    atomic_store(&s->entered, 1);
    while (atomic_load(&s->gate) == 0)
        sched_yield();
    atomic_store(&s->interrupted, spn_thread_interrupted());
    CHECK_EQ(spn_future_complete(s->f, num(3)), 0);
    return 0;
}

static int run_all_call(void *m)
{
    return spn_manual_executor_run(m, INT64_MAX) >= 0 ? SPN_OK : SPN_EINVAL;
}

/* Cancelling does not reach a supplier that runs. */
TEST(promise__cancelled_while_supplied__supplier_goes_on, "CF-4")
{
    spn_manual_executor *m;
    struct supplying s = { 0 };
    struct peer p;

    REQUIRE_OK(spn_manual_executor_create(&m));
    s.f = promise();
    REQUIRE_OK(spn_executor_call(spn_manual_executor_executor(m), complete_slowly, &s));
    peer_start(&p, run_all_call, m);
    T_AWAIT(atomic_load(&s.entered) == 1);
    CHECK_EQ(spn_future_cancel(s.f, 1), 1);
    check_cancelled(s.f);
    atomic_store(&s.gate, 1);
    CHECK_OK(peer_finish(&p));
    CHECK_EQ(s.interrupted, 0);
    check_cancelled(s.f);
    spn_future_unref(s.f);
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* Some are born with an outcome. */
TEST(promise__born_complete__has_its_outcome, "CF-7")
{
    spn_future *f = completed(NULL);

    check_value(f, 0);
    spn_future_unref(f);
    REQUIRE_OK(spn_future_create_failed(&f, 4, NULL));
    check_failed(f, 4, "", 0);
    spn_future_unref(f);
    CHECK_STATUS(spn_future_create_failed(&f, 0, "none"), SPN_EINVAL);
    CHECK(f == NULL);
    CHECK_STATUS(spn_future_create_completed(NULL, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_future_create_failed(NULL, 1, NULL), SPN_EINVAL);
}

/* Those who wait for it are counted, and gone when it is done. */
TEST(promise__dependents__counted_until_done, "CF-8")
{
    spn_future *f = promise(), *s[OPS + 2];
    struct act a = { 0 };

    CHECK_EQ(spn_future_dependents(f), 0);
    for (int i = 0; i < OPS; i++) {
        REQUIRE_OK(attach((enum op)i, f, NULL, &a, &s[i]));
        CHECK_EQ(spn_future_dependents(f), i + 1);
    }
    REQUIRE_OK(spn_future_any_of(&f, 1, &s[OPS]));
    REQUIRE_OK(spn_future_all_of(&f, 1, &s[OPS + 1]));
    CHECK_EQ(spn_future_dependents(f), OPS + 2);
    CHECK_EQ(spn_future_complete(f, NULL), 1);
    CHECK_EQ(spn_future_dependents(f), 0);
    for (int i = 0; i < OPS + 2; i++)
        spn_future_unref(s[i]);
    spn_future_unref(f);
}

/* ---- stages of one source ------------------------------------------------------- */

/* Before or after the source's end, on this thread or an executor, the outcome is
 * the same and the function is called as often as it should, which is once. */
TEST(stage__attached_before_or_after__same_outcome, "CF-9", "CF-11", "CF-12", "CF-17",
     "CF-18", "CF-15")
{
    for (int op = 0; op < OPS; op++)
        for (int how = 0; how < ENDS; how++)
            for (int late = 0; late < 2; late++)
                for (int async = 0; async < 2; async++) {
                    struct counter c = COUNTER;
                    struct act a = { .add = 100 };
                    spn_future *f = promise(), *s;
                    const int called = called_after((enum op)op, (enum end)how);

                    a.next = op == COMPOSE && called != 0 ? completed(num(105)) : NULL;
                    if (late != 0)
                        end(f, (enum end)how, 5);
                    REQUIRE_OK(attach((enum op)op, f, async != 0 ? &c.executor : NULL,
                                      &a, &s));
                    if (late == 0) {
                        CHECK_EQ(spn_future_get_state(s), SPN_FUTURE_PENDING);
                        CHECK_EQ(a.calls, 0);
                        CHECK_EQ(c.asked, 0);
                        end(f, (enum end)how, 5);
                    }
                    CHECK_EQ(a.calls, called);
                    CHECK_EQ(c.asked, (called != 0 || op == FAILURE) * async);
                    if (op == NOTE && how == VALUE)
                        check_value(s, 5);
                    else if (op == NOTE)
                        check_passed_on(s, (enum end)how, 5);
                    else if (called != 0)
                        check_value(s, how == VALUE ? 105 : 100);
                    else if (how == VALUE)
                        check_value(s, 5); /* passes through */
                    else
                        check_passed_on(s, (enum end)how, 5);
                    spn_future_unref(s);
                    spn_future_unref(f);
                }
}

static int complete_call(void *f)
{
    return spn_future_complete(f, num(1));
}

/* A stage runs on the completing thread, on the attaching one, or the executor's. */
TEST(stage__function__runs_on_the_thread_it_should, "CF-10", "P41")
{
    for (int op = 0; op < OPS; op++) {
        spn_manual_executor *m;
        struct act a = { 0 };
        spn_future *f, *s;
        struct peer p;

        if (called_after((enum op)op, VALUE) == 0)
            continue;
        REQUIRE_OK(spn_manual_executor_create(&m));
        for (int way = 0; way < 4; way++) {
            spn_executor *ex = way >= 2 ? spn_manual_executor_executor(m) : NULL;

            a = (struct act){ .next = op == COMPOSE ? completed(NULL) : NULL };
            f = promise();
            if (way % 2 == 1)
                end(f, VALUE, 1);
            REQUIRE_OK(attach((enum op)op, f, ex, &a, &s));
            if (way % 2 == 0) {
                peer_start(&p, complete_call, f);
                CHECK_EQ(peer_finish(&p), 1);
            }
            if (way >= 2) { /* nobody but who runs the executor */
                CHECK_EQ(a.calls, 0);
                CHECK_EQ(spn_manual_executor_pending(m), 1);
                CHECK_EQ(spn_future_get_state(s), SPN_FUTURE_PENDING);
                CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
            }
            CHECK_EQ(a.calls, 1);
            CHECK_EQ(pthread_equal(a.thread, pthread_self()) != 0, way != 0);
            CHECK(spn_future_get_state(s) != SPN_FUTURE_PENDING);
            spn_future_unref(s);
            spn_future_unref(f);
        }
        CHECK_OK(spn_manual_executor_destroy(m));
    }
}

/* A then that leaves its result alone has the value NULL. */
TEST(stage__then_without_result__gives_null, "CF-11")
{
    spn_future *f = completed(num(3)), *s;
    struct act a = { 0 };

    REQUIRE_OK(spn_future_then(f, NULL, then_ignore, &a, &s));
    CHECK(a.got == num(3));
    check_value(s, 0);
    spn_future_unref(s);
    spn_future_unref(f);
}

/* A function that fails fails its stage, and nothing else. */
TEST(stage__function_fails__stage_fails, "CF-13", "CF-17", "CF-18", "CF-19")
{
    static const enum op ops[] = { THEN, HANDLE, COMPOSE, FAILURE };

    for (int i = 0; i < 4; i++)
        for (int how = 0; how < ENDS; how++) {
            struct act a = { .code = -66 };
            spn_future *f = promise(), *s;

            if (called_after(ops[i], (enum end)how) == 0) {
                spn_future_unref(f);
                continue;
            }
            REQUIRE_OK(attach(ops[i], f, NULL, &a, &s));
            end(f, (enum end)how, 4);
            CHECK_EQ(a.calls, 1);
            check_failed(s, -66, "action", 1);
            if (how == VALUE)
                check_value(f, 4);
            else if (how == ERROR)
                check_failed(f, 4, "source", 0);
            else
                check_cancelled(f);
            spn_future_unref(s);
            spn_future_unref(f);
        }
}

/* A cause is wrapped once, however long the chain. */
TEST(stage__chain_of_failures__keeps_the_first_cause, "CF-14")
{
    enum { LENGTH = 50 };
    struct act a = { 0 };
    spn_future *f = promise(), *s, *next;

    REQUIRE_OK(spn_future_then(f, NULL, then_add, &a, &s));
    for (int i = 1; i < LENGTH; i++) {
        REQUIRE_OK(i % 2 == 0 ? spn_future_then(s, NULL, then_add, &a, &next)
                              : spn_future_handle(s, NULL, handle_note, &a, &next));
        spn_future_unref(s);
        s = next;
    }
    end(f, ERROR, 31);
    check_failed(s, 31, "source", 1);
    CHECK_EQ(a.calls, LENGTH / 2); /* handle saw it each time */
    CHECK_EQ(a.outcome.code, 31);
    CHECK_EQ(a.outcome.derived, 1);
    spn_future_unref(s);
    spn_future_unref(f);
}

/* handle sees the raw outcome. */
TEST(stage__handle__sees_the_raw_outcome, "CF-15")
{
    for (int how = 0; how < ENDS; how++) {
        struct act a = { 0 };
        spn_future *f = promise(), *s;

        REQUIRE_OK(spn_future_handle(f, NULL, handle_note, &a, &s));
        end(f, (enum end)how, 6);
        CHECK_EQ(a.calls, 1);
        CHECK_EQ(a.outcome.derived, 0);
        CHECK_EQ(a.outcome.reserved, 0);
        CHECK(a.outcome.value == (how == VALUE ? num(6) : NULL));
        CHECK_EQ(a.outcome.code, how == VALUE ? 0 : how == ERROR ? 6 : SPN_ECANCELED);
        CHECK_EQ(a.outcome.status, how == VALUE   ? SPN_OK
                                   : how == ERROR ? SPN_EFAILED
                                                  : SPN_ECANCELED);
        CHECK_STR(a.message, how == ERROR ? "source" : "");
        spn_future_unref(s);
        spn_future_unref(f);
    }
}

/* A handle that lets the outcome pass shows its own failure only after success. */
TEST(stage__handle_that_passes_fails__source_error_wins, "CF-16")
{
    for (int how = 0; how < ENDS; how++) {
        struct act a = { .code = 99 };
        spn_future *f = promise(), *s;

        REQUIRE_OK(spn_future_handle(f, NULL, handle_note, &a, &s));
        end(f, (enum end)how, 6);
        CHECK_EQ(a.calls, 1);
        if (how == VALUE)
            check_failed(s, 99, "action", 1);
        else
            check_passed_on(s, (enum end)how, 6);
        spn_future_unref(s);
        spn_future_unref(f);
    }
}

/* ---- compose -------------------------------------------------------------------- */

/* Source, inner future and the attaching of the stage, in every order. */
TEST(stage__compose__mirrors_in_every_order, "CF-19", "CF-21")
{
    static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

    for (int after_error = 0; after_error < 2; after_error++)
        for (int how = 0; how < ENDS; how++)
            for (int o = 0; o < 6; o++) {
                spn_future *f = promise(), *g = promise(), *s = NULL;
                struct act a = { .next = spn_future_ref(g) };

                for (int step = 0; step < 3; step++)
                    switch (orders[o][step]) {
                    case 0:
                        end(f, after_error != 0 ? ERROR : VALUE, 2);
                        break;
                    case 1:
                        end(g, (enum end)how, 8);
                        break;
                    default:
                        REQUIRE_OK(after_error != 0 ? compose_failure(f, NULL, &a, &s)
                                                    : attach(COMPOSE, f, NULL, &a, &s));
                        break;
                    }
                CHECK_EQ(a.calls, 1);
                if (how == VALUE)
                    check_value(s, 8);
                else
                    check_passed_on(s, (enum end)how, 8);
                spn_future_unref(s);
                spn_future_unref(g);
                spn_future_unref(f);
            }
}

/* A compose that returns no future has failed; one that returns itself too. */
TEST(stage__compose_without_a_future__fails, "CF-20")
{
    struct act a = { 0 };
    spn_future *f = completed(num(1)), *s;

    REQUIRE_OK(spn_future_compose(f, NULL, compose_next, &a, &s));
    CHECK_EQ(a.calls, 1);
    check_failed(s, SPN_EINVAL, "compose: no future was returned", 1);
    spn_future_unref(s);
    spn_future_unref(f);

    f = promise();
    REQUIRE_OK(spn_future_compose(f, NULL, compose_next, &a, &s));
    a.next = spn_future_ref(s);
    end(f, VALUE, 1);
    check_failed(s, SPN_EDEADLK, "compose: the stage would wait for itself", 1);
    spn_future_unref(s);
    spn_future_unref(f);
}

/* Two stages that wait for each other are not found out: dropping the references does
 * not end them, and completing one by hand ends both. */
TEST(stage__circle_of_two__stays_until_one_is_completed, "CF-19")
{
    struct act a = { 0 }, b = { 0 };
    spn_future *f = promise(), *first, *second, *after;

    REQUIRE_OK(spn_future_compose(f, NULL, compose_next, &a, &first));
    REQUIRE_OK(spn_future_compose(f, NULL, compose_next, &b, &second));
    REQUIRE_OK(spn_future_any_of(&second, 1, &after));
    a.next = spn_future_ref(second);
    b.next = spn_future_ref(first);
    end(f, VALUE, 1);
    spn_future_unref(f);
    spn_future_unref(second);
    CHECK_EQ(spn_future_get_state(first), SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_get_state(after), SPN_FUTURE_PENDING);

    CHECK_EQ(spn_future_complete(first, num(5)), 1);
    check_value(after, 5);
    spn_future_unref(first);
    spn_future_unref(after);
}

static int twice(void *arg, void *value, spn_future **next)
{
    (void)arg;
    return spn_future_create_completed(next, num((intptr_t)value * 2));
}

static int plus_one(void *arg, void *value, spn_future **next)
{
    (void)arg;
    return spn_future_create_completed(next, num((intptr_t)value + 1));
}

static int broken(void *arg, void *value, spn_future **next)
{
    (void)arg;
    (void)value;
    return spn_future_create_failed(next, 55, "broken");
}

static int twice_then_plus_one(void *arg, void *value, spn_future **next)
{
    spn_future *f;
    int rc = twice(NULL, value, &f);

    if (rc == 0)
        rc = spn_future_compose(f, NULL, (spn_compose_fn)arg, NULL, next);
    spn_future_unref(f);
    return rc;
}

/* compose(completed(x), f) is f(x), and composing is associative. */
TEST(stage__compose__obeys_its_laws, "CF-47")
{
    static const spn_compose_fn second[] = { plus_one, broken };
    spn_future *x = completed(num(20)), *direct, *composed, *left, *right, *inner;
    void *a, *b;

    REQUIRE_OK(twice(NULL, num(20), &direct));
    REQUIRE_OK(spn_future_compose(x, NULL, twice, NULL, &composed));
    CHECK_OK(spn_future_get(direct, &a, 0));
    CHECK_OK(spn_future_get(composed, &b, 0));
    CHECK(a == b);
    spn_future_unref(direct);
    spn_future_unref(composed);
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(spn_future_compose(x, NULL, twice, NULL, &inner));
        REQUIRE_OK(spn_future_compose(inner, NULL, second[i], NULL, &left));
        REQUIRE_OK(spn_future_compose(x, NULL, twice_then_plus_one, (void *)second[i],
                                      &right));
        if (i == 0) {
            check_value(left, 41);
            check_value(right, 41);
        } else {
            check_failed(left, 55, "broken", 1);
            check_failed(right, 55, "broken", 1);
        }
        spn_future_unref(inner);
        spn_future_unref(left);
        spn_future_unref(right);
    }
    spn_future_unref(x);
}

/* ---- two sources ------------------------------------------------------------------ */

/* combine waits for both, whatever they are and in whatever order. */
TEST(stage__combine__waits_for_both, "CF-22")
{
    for (int first = 0; first < ENDS; first++)
        for (int second = 0; second < ENDS; second++)
            for (int order = 0; order < 2; order++)
                for (int async = 0; async < 2; async++) {
                    struct counter c = COUNTER;
                    struct act a = { 0 };
                    spn_future *f = promise(), *g = promise(), *s;
                    spn_outcome outcome;
                    const int both = first == VALUE && second == VALUE;

                    REQUIRE_OK(spn_future_combine(f, g, async != 0 ? &c.executor : NULL,
                                                  combine_sub, &a, &s));
                    end(order == 0 ? f : g, (enum end)(order == 0 ? first : second), 9);
                    CHECK_EQ(spn_future_get_state(s), SPN_FUTURE_PENDING);
                    end(order == 0 ? g : f, (enum end)(order == 0 ? second : first), 4);
                    CHECK_EQ(a.calls, both);
                    CHECK_EQ(c.asked, both * async);
                    if (both != 0) {
                        check_value(s, order == 0 ? 5 : -5);
                    } else {
                        CHECK_STATUS(spn_future_get(s, NULL, 0), SPN_EFAILED);
                        CHECK(spn_future_get_state(s) != SPN_FUTURE_CANCELED);
                        (void)spn_future_result(s, &outcome);
                        CHECK_EQ(outcome.derived, 1);
                    }
                    spn_future_unref(s);
                    spn_future_unref(f);
                    spn_future_unref(g);
                }
}

/* A future can be combined with itself, pending or done. */
TEST(stage__combine_with_itself__runs_once, "CF-22")
{
    for (int late = 0; late < 2; late++) {
        struct act a = { 0 };
        spn_future *f = late != 0 ? completed(num(6)) : promise(), *s;

        REQUIRE_OK(spn_future_combine(f, f, NULL, combine_sub, &a, &s));
        if (late == 0)
            end(f, VALUE, 6);
        CHECK_EQ(a.calls, 1);
        check_value(s, 0);
        spn_future_unref(s);
        spn_future_unref(f);
    }
}

/* either takes the first, and a first failure is the outcome. */
TEST(stage__either__takes_the_first, "CF-23")
{
    for (int which = 0; which < 2; which++)
        for (int how = 0; how < ENDS; how++)
            for (int late = 0; late < 2; late++)
                for (int async = 0; async < 2; async++) {
                    struct counter c = COUNTER;
                    struct act a = { .add = 1 };
                    spn_future *f = promise(), *g = promise(), *s;
                    spn_future *first = which == 0 ? f : g;
                    spn_future *other = which == 0 ? g : f;

                    if (late != 0)
                        end(first, (enum end)how, 12);
                    REQUIRE_OK(spn_future_either(f, g, async != 0 ? &c.executor : NULL,
                                                 then_add, &a, &s));
                    if (late == 0)
                        end(first, (enum end)how, 12);
                    CHECK_EQ(spn_future_dependents(other), 0); /* no longer waits */
                    end(other, VALUE, 50);
                    CHECK_EQ(a.calls, how == VALUE);
                    CHECK_EQ(c.asked, (how == VALUE) * async);
                    if (how == VALUE)
                        check_value(s, 13);
                    else
                        check_passed_on(s, (enum end)how, 12);
                    spn_future_unref(s);
                    spn_future_unref(f);
                    spn_future_unref(g);
                }
}

/* With both done either may be taken. */
TEST(stage__either_of_two_done__takes_one, "CF-23")
{
    struct act a = { 0 };
    spn_future *f = completed(num(1)), *g = completed(num(2)), *s;
    void *value;

    REQUIRE_OK(spn_future_either(f, g, NULL, then_add, &a, &s));
    CHECK_OK(spn_future_get(s, &value, 0));
    CHECK(value == num(1) || value == num(2));
    CHECK_EQ(a.calls, 1);
    spn_future_unref(s);
    spn_future_unref(f);
    spn_future_unref(g);
}

/* ---- many sources ----------------------------------------------------------------- */

enum { MANY = 9 };

static void make_many(spn_future *f[MANY], int count)
{
    for (int i = 0; i < count; i++)
        f[i] = promise();
}

static void drop_many(spn_future *f[MANY], int count)
{
    for (int i = 0; i < count; i++)
        spn_future_unref(f[i]);
}

/* all_of is done with the last one, in any order. */
TEST(stage__all_of__done_with_the_last, "CF-24")
{
    spn_future *f[MANY], *s;

    REQUIRE_OK(spn_future_all_of(NULL, 0, &s));
    check_value(s, 0);
    spn_future_unref(s);
    for (int count = 1; count <= MANY; count++)
        for (int shift = 0; shift < count; shift++) {
            make_many(f, count);
            REQUIRE_OK(spn_future_all_of(f, (size_t)count, &s));
            for (int i = 0; i < count; i++) {
                CHECK_EQ(spn_future_get_state(s), SPN_FUTURE_PENDING);
                end(f[(i + shift) % count], VALUE, i + 1);
            }
            check_value(s, 0);
            spn_future_unref(s);
            /* And when all are done already. */
            REQUIRE_OK(spn_future_all_of(f, (size_t)count, &s));
            check_value(s, 0);
            spn_future_unref(s);
            drop_many(f, count);
        }
}

/* One failure is the outcome, after all are done. */
TEST(stage__all_of_with_a_failure__waits_for_all, "CF-25")
{
    for (int how = ERROR; how < ENDS; how++)
        for (int bad = 0; bad < MANY; bad++) {
            spn_future *f[MANY], *s;

            make_many(f, MANY);
            REQUIRE_OK(spn_future_all_of(f, MANY, &s));
            for (int i = 0; i < MANY; i++) {
                CHECK_EQ(spn_future_get_state(s), SPN_FUTURE_PENDING);
                end(f[i], i == bad ? (enum end)how : VALUE, 17);
            }
            check_passed_on(s, (enum end)how, 17);
            spn_future_unref(s);
            drop_many(f, MANY);
        }
}

/* any_of takes the first outcome; of none it is never done by itself. */
TEST(stage__any_of__takes_the_first, "CF-26")
{
    spn_future *f[MANY], *s;

    REQUIRE_OK(spn_future_any_of(NULL, 0, &s));
    CHECK_EQ(spn_future_get_state(s), SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_complete(s, num(2)), 1);
    check_value(s, 2);
    spn_future_unref(s);
    for (int how = 0; how < ENDS; how++)
        for (int count = 1; count <= MANY; count++)
            for (int first = 0; first < count; first++) {
                make_many(f, count);
                REQUIRE_OK(spn_future_any_of(f, (size_t)count, &s));
                CHECK_EQ(spn_future_get_state(s), SPN_FUTURE_PENDING);
                end(f[first], (enum end)how, 23);
                if (how == VALUE)
                    check_value(s, 23);
                else
                    check_passed_on(s, (enum end)how, 23);
                for (int i = 0; i < count; i++)
                    CHECK_EQ(spn_future_dependents(f[i]), 0);
                spn_future_unref(s);
                drop_many(f, count);
            }
}

/* One that is done is taken at once. */
TEST(stage__any_of_with_some_done__picks_one, "CF-27")
{
    for (int done = 0; done < MANY; done++) {
        spn_future *f[MANY], *s;

        make_many(f, MANY);
        end(f[done], VALUE, 40);
        if (done + 2 < MANY)
            end(f[done + 2], VALUE, 40);
        REQUIRE_OK(spn_future_any_of(f, MANY, &s));
        check_value(s, 40);
        for (int i = 0; i < MANY; i++)
            CHECK_EQ(spn_future_dependents(f[i]), 0);
        spn_future_unref(s);
        drop_many(f, MANY);
    }
}

/* ---- arguments -------------------------------------------------------------------- */

/* No NULL gets anywhere, and no executor is asked. */
TEST(stage__null_arguments__invalid, "CF-28", "G-2")
{
    struct counter c = COUNTER;
    struct act a = { 0 };
    spn_executor *ex = &c.executor;
    spn_future *f = completed(num(1)), *out, *some[3] = { f, NULL, f };

#define INVALID(call)                     \
    do {                                  \
        out = f;                          \
        CHECK_STATUS((call), SPN_EINVAL); \
        CHECK(out == NULL);               \
    } while (0)
#define INVALID_FORMS(name, fn)                                           \
    do {                                                                  \
        INVALID(spn_future_##name(NULL, ex, fn, &a, &out));               \
        INVALID(spn_future_##name(f, ex, NULL, &a, &out));                \
        INVALID(spn_future_##name(f, NULL, NULL, &a, &out));              \
        CHECK_STATUS(spn_future_##name(f, ex, fn, &a, NULL), SPN_EINVAL); \
    } while (0)
#define INVALID_PAIRS(name, fn)                                              \
    do {                                                                     \
        INVALID(spn_future_##name(NULL, f, ex, fn, &a, &out));               \
        INVALID(spn_future_##name(f, NULL, ex, fn, &a, &out));               \
        INVALID(spn_future_##name(f, f, ex, NULL, &a, &out));                \
        CHECK_STATUS(spn_future_##name(f, f, ex, fn, &a, NULL), SPN_EINVAL); \
    } while (0)
    INVALID_FORMS(then, then_add);
    INVALID_FORMS(handle, handle_add);
    INVALID_FORMS(compose, compose_next);
    INVALID_PAIRS(combine, combine_sub);
    INVALID_PAIRS(either, then_add);
    CHECK_STATUS(spn_future_any_of(&f, 1, NULL), SPN_EINVAL);
    INVALID(spn_future_all_of(some, 3, &out));
    INVALID(spn_future_any_of(some, 3, &out));
    INVALID(spn_future_all_of(NULL, 1, &out));
    INVALID(spn_future_any_of(NULL, 1, &out));
    CHECK_STATUS(spn_future_all_of(some, 1, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_future_any_of(some, 1, NULL), SPN_EINVAL);
    INVALID(spn_executor_submit(NULL, supply_add, &a, &out));
    INVALID(spn_executor_submit(ex, NULL, &a, &out));
    CHECK_STATUS(spn_executor_submit(ex, supply_add, &a, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_future_create(NULL, NULL), SPN_EINVAL);
    CHECK_EQ(c.asked, 0);
    CHECK_EQ(a.calls, 0);
    CHECK_EQ(spn_future_dependents(f), 0);
    spn_future_unref(f);
}

/* ---- executors -------------------------------------------------------------------- */

/* A supplier's value or failure is the outcome; a refusal is the call's. */
TEST(async__submitted__has_the_suppliers_outcome, "CF-29")
{
    struct counter c = COUNTER;
    struct act good = { .add = 70 }, bad = { .code = 71 };
    spn_future *f;

    REQUIRE_OK(spn_executor_submit(&c.executor, supply_add, &good, &f));
    check_value(f, 70);
    spn_future_unref(f);
    REQUIRE_OK(spn_executor_submit(&c.executor, supply_add, &bad, &f));
    check_failed(f, 71, "action", 0);
    spn_future_unref(f);
    CHECK_EQ(c.asked, 2);
    c.refuse = SPN_EREJECTED;
    CHECK_STATUS(spn_executor_submit(&c.executor, supply_add, &good, &f),
                 SPN_EREJECTED);
    CHECK(f == NULL);
    CHECK_EQ(c.asked, 3);
    CHECK_EQ(good.calls, 1);
}

/* A stage whose executor refuses fails with that; it asks once. */
TEST(async__refused__fails_the_stage, "CF-30", "P30")
{
    for (int op = 0; op < OPS; op++)
        for (int late = 0; late < 2; late++) {
            struct counter c = COUNTER;
            struct act a = { 0 };
            spn_future *f = promise(), *s;
            const enum end how = called_after((enum op)op, VALUE) ? VALUE : ERROR;

            c.refuse = SPN_EREJECTED;
            if (late != 0)
                end(f, how, 1);
            REQUIRE_OK(attach((enum op)op, f, &c.executor, &a, &s));
            if (late == 0)
                end(f, how, 1);
            check_failed(s, SPN_EREJECTED, "refused by the executor", 1);
            CHECK_EQ(c.asked, 1);
            CHECK_EQ(a.calls, 0);
            spn_future_unref(s);
            spn_future_unref(f);
        }
}

/* An executor that has ended, but has a stage, is not destroyed; the stage then fails. */
TEST(async__executor_ended_before_the_source__busy_until_the_stage_is_done, "CF-49",
     "CF-30")
{
    enum { POOL, FORKJOIN, SERIAL, KEY, LIMITER, KINDS };

    for (int kind = 0; kind < KINDS; kind++)
        for (int by_hand = 0; by_hand < 2; by_hand++) {
            spn_pool_opts opts = spn_pool_opts_fixed(1, 4);
            spn_pool *pool;
            spn_fj_pool_opts fj_opts = SPN_FJ_POOL_OPTS_INIT;
            spn_fj_pool *fj;
            spn_serial *serial;
            spn_limiter_opts limiter_opts = SPN_LIMITER_OPTS_INIT;
            spn_limiter *limiter;
            spn_executor *executor, *key;
            spn_future *f = promise(), *s;
            struct act a = { 0 };

            REQUIRE_OK(spn_pool_create(&pool, &opts));
            fj_opts.parallelism = 1;
            REQUIRE_OK(spn_fj_pool_create(&fj, &fj_opts));
            REQUIRE_OK(spn_serial_create(&serial, spn_pool_executor(pool), NULL));
            REQUIRE_OK(spn_serial_open(serial, 7, &key));
            limiter_opts.executor = spn_pool_executor(pool);
            REQUIRE_OK(spn_limiter_create(&limiter, &limiter_opts));
            executor = kind == POOL       ? spn_pool_executor(pool)
                       : kind == FORKJOIN ? spn_fj_pool_executor(fj)
                       : kind == SERIAL   ? spn_serial_executor(serial)
                       : kind == KEY      ? key
                                          : spn_limiter_executor(limiter);
            REQUIRE_OK(spn_future_then(f, executor, then_add, &a, &s));
            CHECK_OK(spn_serial_close(serial, key));
            CHECK_OK(spn_executor_shutdown(spn_serial_executor(serial)));
            CHECK_OK(spn_executor_await(spn_serial_executor(serial), SPN_FOREVER));
            CHECK_OK(spn_executor_shutdown(spn_limiter_executor(limiter)));
            CHECK_OK(spn_fj_pool_close(fj));
            CHECK_OK(spn_pool_close(pool));
            CHECK_STATUS(kind == POOL       ? spn_pool_destroy(pool)
                         : kind == FORKJOIN ? spn_fj_pool_destroy(fj)
                         : kind == LIMITER  ? spn_limiter_destroy(limiter)
                                            : spn_serial_destroy(serial),
                         SPN_EBUSY);
            if (by_hand != 0) {
                CHECK_EQ(spn_future_cancel(s, 0), 1);
            } else {
                end(f, VALUE, 1);
                check_failed(s, kind == LIMITER ? SPN_ESHUTDOWN : SPN_EREJECTED,
                             "refused by the executor", 1);
            }
            CHECK_EQ(a.calls, 0);
            CHECK_OK(spn_limiter_destroy(limiter));
            CHECK_OK(spn_serial_destroy(serial));
            CHECK_OK(spn_fj_pool_destroy(fj));
            CHECK_OK(spn_pool_destroy(pool));
            spn_future_unref(s);
            spn_future_unref(f);
        }
}

/* So does one whose task the executor drops later. */
TEST(async__dropped__fails_the_stage, "CF-30")
{
    spn_manual_executor *m;
    spn_future *f = completed(num(1)), *s;
    struct act a = { 0 };
    int64_t count = 0;

    REQUIRE_OK(spn_manual_executor_create(&m));
    REQUIRE_OK(spn_future_then(f, spn_manual_executor_executor(m), then_add, &a, &s));
    CHECK_OK(
        spn_executor_shutdown_now(spn_manual_executor_executor(m), NULL, NULL, &count));
    CHECK_EQ(count, 1);
    check_failed(s, SPN_ESHUTDOWN, "refused by the executor", 1);
    CHECK_EQ(a.calls, 0);
    spn_future_unref(s);
    spn_future_unref(f);
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* A stage completed by hand asks nobody and calls nothing. */
TEST(stage__completed_by_hand_first__never_acts, "CF-31")
{
    for (int op = 0; op < OPS; op++)
        for (int how = 0; how < ENDS; how++)
            for (int by = 0; by < ENDS; by++) {
                struct counter c = COUNTER;
                struct act a = { 0 };
                spn_future *f = promise(), *s;

                REQUIRE_OK(
                    attach((enum op)op, f, how == 1 ? NULL : &c.executor, &a, &s));
                end(s, (enum end)by, 33);
                CHECK_EQ(spn_future_dependents(f), 0);
                end(f, (enum end)how, 1);
                CHECK_EQ(c.asked, 0);
                CHECK_EQ(a.calls, 0);
                if (by == VALUE)
                    check_value(s, 33);
                else if (by == ERROR)
                    check_failed(s, 33, "source", 0);
                else
                    check_cancelled(s);
                spn_future_unref(s);
                spn_future_unref(f);
            }
}

/* One that waits in an executor is not called either. */
TEST(async__completed_by_hand_while_queued__never_acts, "CF-31")
{
    spn_manual_executor *m;
    spn_future *f = completed(num(1)), *s;
    struct act a = { 0 };

    REQUIRE_OK(spn_manual_executor_create(&m));
    REQUIRE_OK(spn_future_then(f, spn_manual_executor_executor(m), then_add, &a, &s));
    CHECK_EQ(spn_future_complete(s, num(2)), 1);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_EQ(a.calls, 0);
    check_value(s, 2);
    spn_future_unref(s);
    spn_future_unref(f);
    CHECK_OK(spn_manual_executor_destroy(m));
}

static atomic_int drops;

static void count_drop(void *value)
{
    (void)value;
    atomic_fetch_add(&drops, 1);
}

struct completing {
    spn_future *f;
    struct act act;
};

static int complete_promise(void *arg)
{
    struct completing *c = arg;
    void *value;
    int rc = supply_add(&c->act, &value);

    (void)(rc == 0 ? spn_future_complete(c->f, value)
                   : spn_future_complete_error(c->f, rc, "supplier"));
    spn_future_unref(c->f);
    return 0;
}

/* A function handed to an executor completes this very promise, or leaves it. */
TEST(async__function_completes__this_promise, "CF-32")
{
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    struct completing c = { .act = { .add = 5 } };
    spn_manual_executor *m;
    spn_executor *ex;
    spn_future *f;

    REQUIRE_OK(spn_manual_executor_create(&m));
    ex = spn_manual_executor_executor(m);
    for (int failing = 0; failing < 2; failing++) {
        c.act.code = failing != 0 ? 6 : 0;
        c.f = spn_future_ref(f = promise());
        REQUIRE_OK(spn_executor_call(ex, complete_promise, &c));
        CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
        CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
        if (failing == 0)
            check_value(f, 5);
        else
            check_failed(f, 6, "supplier", 0);
        spn_future_unref(f);
    }
    c.act.code = 0;

    /* Completed meanwhile: that stays. */
    c.f = spn_future_ref(f = promise());
    REQUIRE_OK(spn_executor_call(ex, complete_promise, &c));
    CHECK_EQ(spn_future_complete(f, num(1)), 1);
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    check_value(f, 1);
    spn_future_unref(f);

    /* Dropped by everybody else: the function's reference is enough. */
    opts.drop_value = count_drop;
    atomic_store(&drops, 0);
    REQUIRE_OK(spn_future_create(&c.f, &opts));
    REQUIRE_OK(spn_executor_call(ex, complete_promise, &c));
    CHECK(spn_manual_executor_run(m, INT64_MAX) >= 0);
    CHECK_EQ(drops, 1);
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* The value a stage's function makes is freed if nobody reads it, whenever the
 * destructor was set: before the stage is done, or after. */
TEST(set_drop_value__stage_nobody_reads__value_freed, "G-16")
{
    for (int late = 0; late < 2; late++)
        for (int how = 0; how < 4; how++) { /* unread, read, failed, unset again */
            struct act act = { .add = 5, .code = how == 2 ? 6 : 0 };
            spn_future *f = late != 0 ? completed(num(1)) : promise(), *s;
            void *value;

            atomic_store(&drops, 0);
            REQUIRE_OK(spn_future_then(f, NULL, then_add, &act, &s));
            CHECK_OK(spn_future_set_drop_value(s, count_drop));
            if (how == 3)
                CHECK_OK(spn_future_set_drop_value(s, NULL));
            if (late == 0)
                CHECK_EQ(spn_future_complete(f, num(1)), 1);
            if (how == 1)
                CHECK_OK(spn_future_get(s, &value, 0));
            CHECK_EQ(drops, 0);
            spn_future_unref(s);
            CHECK_EQ(drops, how == 0);
            spn_future_unref(f);
        }
}

/* It comes too late for a value that was read or passed on before. */
TEST(set_drop_value__value_read_or_passed_on__readers_keep_it, "G-16")
{
    spn_future *f = completed(num(1)), *s;
    void *value;

    atomic_store(&drops, 0);
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK_OK(spn_future_set_drop_value(f, count_drop));
    spn_future_unref(f);
    CHECK_EQ(drops, 0);

    f = completed(num(1));
    REQUIRE_OK(spn_future_any_of(&f, 1, &s));
    CHECK_OK(spn_future_set_drop_value(f, count_drop));
    spn_future_unref(f);
    CHECK_EQ(drops, 0);
    check_value(s, 1);
    spn_future_unref(s);
    CHECK_EQ(drops, 0);
}

/* A stage that passes a value on leaves it to the future that frees it. */
TEST(set_drop_value__both_have_one__freed_once_by_the_maker, "G-16")
{
    for (int read = 0; read < 2; read++) {
        spn_future *f = promise(), *s;
        void *value;

        atomic_store(&drops, 0);
        CHECK_OK(spn_future_set_drop_value(f, count_drop));
        REQUIRE_OK(spn_future_any_of(&f, 1, &s));
        CHECK_OK(spn_future_set_drop_value(s, count_drop));
        CHECK_EQ(spn_future_complete(f, num(1)), 1);
        spn_future_unref(f);
        CHECK_EQ(drops, 0); /* the copy keeps it */
        if (read != 0)
            CHECK_OK(spn_future_get(s, &value, 0));
        spn_future_unref(s);
        CHECK_EQ(drops, 1 - read);
    }
}

/* A stage's result that comes after the stage was completed by hand is dropped. */
static int cancel_me(void *arg, void *value, void **result)
{
    CHECK_EQ(spn_future_cancel(*(spn_future **)arg, 0), 1);
    *result = value;
    return 0;
}

TEST(set_drop_value__result_after_cancel__freed_at_once, "G-16")
{
    spn_future *f = promise(), *s;

    atomic_store(&drops, 0);
    REQUIRE_OK(spn_future_then(f, NULL, cancel_me, &s, &s));
    CHECK_OK(spn_future_set_drop_value(s, count_drop));
    CHECK_EQ(spn_future_complete(f, num(3)), 1);
    CHECK_EQ(drops, 1);
    CHECK_EQ(spn_future_get_state(s), SPN_FUTURE_CANCELED);
    spn_future_unref(s);
    spn_future_unref(f);
    CHECK_EQ(drops, 1);
}

/* There is no default executor: without one a stage runs here, and a task is refused. */
TEST(async__without_executor__runs_here_or_is_refused, "CF-48")
{
    struct act a = { 0 };
    spn_future *f = completed(NULL), *s;

    REQUIRE_OK(spn_future_then(f, NULL, then_add, &a, &s));
    CHECK_EQ(a.calls, 1);
    CHECK(pthread_equal(a.thread, pthread_self()));
    spn_future_unref(s);
    CHECK_STATUS(spn_executor_submit(NULL, supply_add, &a, &s), SPN_EINVAL);
    CHECK_EQ(a.calls, 1);
    spn_future_unref(f);
}

/* ---- copies ----------------------------------------------------------------------- */

/* A copy follows its source and leaves it alone. */
TEST(stage__copy__follows_and_does_not_lead, "CF-38")
{
    for (int how = 0; how < ENDS; how++)
        for (int late = 0; late < 2; late++) {
            spn_future *f = promise(), *s;

            if (late != 0)
                end(f, (enum end)how, 61);
            REQUIRE_OK(spn_future_any_of(&f, 1, &s));
            CHECK(s != f);
            if (late == 0)
                end(f, (enum end)how, 61);
            if (how == VALUE)
                check_value(s, 61);
            else
                check_passed_on(s, (enum end)how, 61);
            spn_future_unref(s);
            spn_future_unref(f);
        }
    spn_future *f = promise(), *s;

    REQUIRE_OK(spn_future_any_of(&f, 1, &s));
    CHECK_EQ(spn_future_complete(s, num(1)), 1);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
    end(f, VALUE, 2);
    check_value(s, 1);
    check_value(f, 2);
    spn_future_unref(s);
    spn_future_unref(f);
}

/* A new promise has nothing to do with any other. */
TEST(promise__another_one__is_independent, "CF-39")
{
    spn_future *f = promise(), *g = promise();

    CHECK(f != g);
    CHECK_EQ(spn_future_complete(f, num(1)), 1);
    CHECK_EQ(spn_future_get_state(g), SPN_FUTURE_PENDING);
    spn_future_unref(f);
    CHECK_EQ(spn_future_complete(g, num(2)), 1);
    check_value(g, 2);
    spn_future_unref(g);
}

/* ---- size ------------------------------------------------------------------------- */

/* How deep the stack was when the last function ran. */
static uintptr_t deepest;

static int then_measure(void *arg, void *value, void **result)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    (void)arg;
    if (deepest == 0 || here < deepest)
        deepest = here;
    *result = num((intptr_t)value + 1);
    return 0;
}

static int compose_measure(void *arg, void *value, spn_future **next)
{
    void *result;

    (void)then_measure(arg, value, &result);
    return spn_future_create_completed(next, result);
}

enum shape { CHAIN, CHAIN_DIRECT, CHAIN_COMPOSE, CHAIN_COPY, SHAPES };

static void chain(enum shape shape, int length)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    spn_future *f = promise(), *s = spn_future_ref(f), *next = NULL;
    void *value = NULL;

    deepest = 0;
    for (int i = 0; i < length; i++) {
        int rc;

        if (shape == CHAIN)
            rc = spn_future_then(s, NULL, then_measure, NULL, &next);
        else if (shape == CHAIN_DIRECT)
            rc = spn_future_then(s, spn_executor_direct(), then_measure, NULL, &next);
        else if (shape == CHAIN_COMPOSE)
            rc = spn_future_compose(s, NULL, compose_measure, NULL, &next);
        else
            rc = spn_future_any_of(&s, 1, &next);
        REQUIRE(rc == SPN_OK);
        spn_future_unref(s);
        s = next;
    }
    CHECK_EQ(spn_future_complete(f, NULL), 1);
    CHECK_OK(spn_future_get(s, &value, 0));
    CHECK(value == num(shape == CHAIN_COPY ? 0 : length));
    CHECK(deepest == 0 || here - deepest < 8192); /* not one frame per stage */
    spn_future_unref(s);
    spn_future_unref(f);
}

/* A chain of a million stages is a loop. */
TEST(stage__very_long_chain__does_not_recurse, "CF-40")
{
    for (int shape = 0; shape < SHAPES; shape++)
        chain((enum shape)shape, t_rounds(1000000));
}

/* A failure and an abandoned source travel as far, and all memory comes back. */
TEST(stage__very_long_chain__fails_and_is_dropped_without_recursion, "CF-40", "CF-41")
{
    const long live = atomic_load(&counting_live);
    const int length = t_rounds(1000000);
    struct act a = { 0 };

    for (int abandon = 0; abandon < 2; abandon++) {
        spn_future *f = promise(), *s = spn_future_ref(f), *next = NULL;

        for (int i = 0; i < length; i++) {
            REQUIRE(spn_future_then(s, NULL, then_add, &a, &next) == SPN_OK);
            spn_future_unref(s);
            s = next;
        }
        if (abandon == 0) {
            CHECK_EQ(spn_future_complete_error(f, 3, "three"), 1);
            check_failed(s, 3, "three", 1);
            spn_future_unref(f);
        } else {
            spn_future_unref(f); /* the last who could have completed it */
            check_failed(s, SPN_ECANCELED, "abandoned", 1);
        }
        spn_future_unref(s);
        CHECK_EQ(a.calls, 0);
        CHECK_EQ(atomic_load(&counting_live), live);
    }
}

/* A million stages on one future too. */
TEST(stage__very_many_dependents__complete, "CF-40")
{
    const long live = atomic_load(&counting_live);
    const int count = t_rounds(1000000);
    struct act a = { 0 };
    spn_future *f = promise(), *s = NULL;

    for (int i = 0; i < count; i++) {
        REQUIRE(spn_future_then(f, NULL, then_add, &a, &s) == SPN_OK);
        spn_future_unref(s); /* runs all the same */
    }
    CHECK_EQ(spn_future_dependents(f), count);
    CHECK_EQ(spn_future_complete(f, NULL), 1);
    CHECK_EQ(a.calls, count);
    CHECK_EQ(spn_future_dependents(f), 0);
    spn_future_unref(f);
    CHECK_EQ(atomic_load(&counting_live), live);
}

/* Stages that can no longer fire do not stay with a source that lives long. */
TEST(stage__cannot_fire_any_more__is_unlinked, "CF-41")
{
    const int count = t_rounds(100000);
    struct act a = { 0 };
    spn_future *f = promise(), *g, *s, *both[2];
    long live, allocs;

    live = atomic_load(&counting_live);
    allocs = atomic_load(&counting_allocs);
    for (int i = 0; i < count; i++) {
        g = promise();
        both[0] = f;
        both[1] = g;
        if (i % 4 == 0)
            REQUIRE(spn_future_either(f, g, NULL, then_add, &a, &s) == SPN_OK);
        else if (i % 4 == 1)
            REQUIRE(spn_future_any_of(both, 2, &s) == SPN_OK);
        else if (i % 4 == 2)
            REQUIRE(spn_future_combine(g, f, NULL, combine_sub, &a, &s) == SPN_OK);
        else
            REQUIRE(attach((enum op)(i / 4 % OPS), f, NULL, &a, &s) == SPN_OK);
        if (i % 4 >= 2) { /* both forms wait on: cancelled, after one side */
            CHECK_EQ(spn_future_complete(g, NULL), 1);
            CHECK_EQ(spn_future_cancel(s, 0), 1);
        } else {
            CHECK_EQ(spn_future_complete(g, NULL), 1);
        }
        spn_future_unref(s);
        spn_future_unref(g);
        if (spn_future_dependents(f) != 0 || atomic_load(&counting_live) != live)
            break;
    }
    CHECK_EQ(spn_future_dependents(f), 0);
    CHECK_EQ(atomic_load(&counting_live), live);
    CHECK_EQ(atomic_load(&counting_allocs) - allocs, 2L * count);
    spn_future_unref(f);
}

/* Dropped without an outcome, a future fails what was made of it; what acts on
 * failures does. */
TEST(promise__abandoned__fails_its_stages, "CF-41", "G-16")
{
    const long live = atomic_load(&counting_live);

    for (int op = 0; op < OPS; op++) {
        struct act a = { .add = 5 };
        spn_future *f = promise(), *s;

        REQUIRE_OK(attach((enum op)op, f, NULL, &a, &s));
        spn_future_unref(f);
        if (op == HANDLE || op == FAILURE)
            check_value(s, 5);
        else
            check_failed(s, SPN_ECANCELED, "abandoned", 1);
        CHECK_EQ(a.calls, called_after((enum op)op, ERROR));
        spn_future_unref(s);
    }
    CHECK_EQ(atomic_load(&counting_live), live);
}

/* Combined stages completed by hand one after the other, each keeping the one
 * before: dropping the last frees them all, without recursion. */
TEST(stage__chain_of_half_done_combines__freed_without_recursion, "CF-40", "CF-41")
{
    const long live = atomic_load(&counting_live);
    const int length = t_rounds(300000);
    spn_future *never = promise(), *s = completed(NULL), *next = NULL;
    struct act a = { 0 };

    for (int i = 0; i < length; i++) {
        REQUIRE(spn_future_combine(s, never, NULL, combine_sub, &a, &next) == SPN_OK);
        CHECK_EQ(spn_future_complete(next, NULL), 1);
        spn_future_unref(s);
        s = next;
    }
    CHECK_EQ(spn_future_dependents(never), 0);
    spn_future_unref(s);
    spn_future_unref(never);
    CHECK_EQ(atomic_load(&counting_live), live);
}

/* ---- at once ----------------------------------------------------------------------- */

/* Waits with the flag set against a completion. */
struct collision {
    spn_future *f;
    int64_t timeout_ns;
    int rc, flag;
};

static void collide(int index, void *arg)
{
    struct collision *c = arg;

    if (index == 0) {
        CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        c->rc = spn_future_get(c->f, NULL, c->timeout_ns);
        c->flag = spn_thread_interrupted();
    } else {
        CHECK_EQ(spn_future_complete(c->f, NULL), 1);
    }
}

/* The value with the flag set, or the interrupt with the flag clear. */
TEST(promise__interrupt_meets_completion__one_of_two_outcomes, "CF-42", "G-12")
{
    const int rounds = t_rounds(10000);

    for (int i = 0; i < rounds; i++) {
        struct collision c = { .f = promise(),
                               .timeout_ns = i % 2 == 0 ? SPN_FOREVER : T_LONG_NS };

        t_parallel(2, collide, &c);
        CHECK(c.rc == SPN_OK || c.rc == SPN_EINTR);
        CHECK_EQ(c.flag, c.rc == SPN_OK);
        spn_future_unref(c.f);
    }
}

struct rivals {
    spn_future *f;
    int won[T_THREADS];
    void *seen[T_THREADS];
};

static void rival(int index, void *arg)
{
    struct rivals *r = arg;

    r->won[index] = spn_future_complete(r->f, num(index + 1));
    CHECK_OK(spn_future_get(r->f, &r->seen[index], SPN_FOREVER));
}

/* One completion wins, and everybody sees its value. */
TEST(promise__completed_at_once__one_wins_for_all, "CF-44")
{
    const int rounds = t_rounds(1000);

    for (int i = 0; i < rounds; i++) {
        struct rivals r = { .f = promise() };
        int wins = 0, winner = -1;

        t_parallel(T_THREADS, rival, &r);
        for (int k = 0; k < T_THREADS; k++)
            if (r.won[k] == 1) {
                wins++;
                winner = k;
            }
        CHECK_EQ(wins, 1);
        for (int k = 0; k < T_THREADS; k++)
            CHECK(r.seen[k] == num(winner + 1));
        spn_future_unref(r.f);
    }
}

enum { ATTACHED = 8 };

struct joining {
    spn_future *f, *s[ATTACHED];
    struct act a[ATTACHED];
};

static void attach_or_complete(int index, void *arg)
{
    struct joining *j = arg;

    if (index == 0)
        CHECK_EQ(spn_future_complete(j->f, num(1)), 1);
    else
        for (int i = index - 1; i < ATTACHED; i += T_THREADS - 1)
            CHECK_OK(spn_future_then(j->f, NULL, then_add, &j->a[i], &j->s[i]));
}

/* Attached while it completes, a stage runs once; in which order is not said. */
TEST(stage__attached_while_completing__runs_once, "CF-45", "CF-46")
{
    const int rounds = t_rounds(500);

    for (int i = 0; i < rounds; i++) {
        struct joining j = { .f = promise() };

        t_parallel(T_THREADS, attach_or_complete, &j);
        for (int k = 0; k < ATTACHED; k++) {
            CHECK_EQ(j.a[k].calls, 1);
            check_value(j.s[k], 1);
            spn_future_unref(j.s[k]);
        }
        spn_future_unref(j.f);
    }
}

static void uncaught_quietly(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    (void)pool;
    (void)ctx;
    CHECK_STATUS(info->status, SPN_ECANCELED);
}

static int end_thread(void *arg, void *value, void **result)
{
    (void)arg;
    (void)value;
    (void)result;
    pthread_exit(NULL);
}

/* A function that ends a pool's thread has failed its stage; what follows it and what stands
 * beside it runs, and nothing is left. */
TEST(stage__function_ends_a_pools_thread__fails_and_others_run, "G-21")
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, 4);
    spn_future *f = promise(), *dying, *after, *other;
    struct act a = { 0 }, b = { 0 };
    spn_pool_stats stats = SPN_POOL_STATS_INIT;
    spn_executor *ex;
    spn_pool *pool;

    opts.hooks.uncaught = uncaught_quietly;
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    ex = spn_pool_executor(pool);
    REQUIRE_OK(spn_future_then(f, ex, end_thread, NULL, &dying));
    REQUIRE_OK(spn_future_handle(dying, NULL, handle_add, &a, &after));
    REQUIRE_OK(spn_future_then(f, ex, then_add, &b, &other));
    (void)spn_future_complete(f, num(1));
    CHECK_STATUS(spn_future_get(dying, NULL, T_LONG_NS), SPN_EFAILED);
    check_failed(dying, SPN_EFAILED, "the function ended its thread", 1);
    CHECK_OK(spn_future_get(after, NULL, T_LONG_NS));
    CHECK_OK(spn_future_get(other, NULL, T_LONG_NS));
    CHECK_EQ(a.calls, 1);
    check_value(after, 0);
    check_value(other, 1);
    spn_future_unref(dying);
    spn_future_unref(after);
    spn_future_unref(other);
    spn_future_unref(f);
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_stats_get(pool, &stats));
    CHECK_EQ(stats.threads_died, 1);
    CHECK_EQ(stats.failed, 1);
    CHECK_EQ(stats.completed, 1);
    CHECK_OK(spn_pool_destroy(pool));
}

/* ---- without memory ---------------------------------------------------------------- */

/* A stage that cannot be made leaves its sources as they were. */
TEST(stage__no_memory__nothing_happens, "G-22")
{
    struct counter c = COUNTER;
    struct act a = { 0 };
    spn_future *f = promise(), *s, *both[2] = { f, f };

    (void)spn_thread_current();
    atomic_store(&counting_refuse, 1);
    for (int op = 0; op < OPS; op++)
        CHECK_STATUS(attach((enum op)op, f, &c.executor, &a, &s), SPN_ENOMEM);
    CHECK_STATUS(spn_future_any_of(&f, 1, &s), SPN_ENOMEM);
    CHECK_STATUS(spn_future_all_of(both, 2, &s), SPN_ENOMEM);
    CHECK_STATUS(spn_future_any_of(both, 2, &s), SPN_ENOMEM);
    CHECK_STATUS(spn_future_combine(f, f, NULL, combine_sub, &a, &s), SPN_ENOMEM);
    CHECK_STATUS(spn_future_either(f, f, NULL, then_add, &a, &s), SPN_ENOMEM);
    CHECK(s == NULL);
    CHECK_STATUS(spn_future_create(&s, NULL), SPN_ENOMEM);
    CHECK_STATUS(spn_future_create_completed(&s, NULL), SPN_ENOMEM);
    CHECK_STATUS(spn_future_create_failed(&s, 1, NULL), SPN_ENOMEM);
    CHECK_EQ(c.asked, 0);
    CHECK_EQ(spn_future_dependents(f), 0);
    CHECK_EQ(spn_future_complete(f, NULL), 1); /* and this needs none */
    atomic_store(&counting_refuse, 0);
    spn_future_unref(f);
}

/* Completing and cancelling allocate nothing, also with stages and waiters. */
TEST(promise__completing__allocates_nothing, "G-22", "CF-40")
{
    struct act a = { 0 };

    (void)spn_thread_current();
    for (int how = 0; how < ENDS; how++) {
        spn_future *f = promise(), *s[4];

        REQUIRE_OK(spn_future_then(f, NULL, then_add, &a, &s[0]));
        REQUIRE_OK(
            spn_future_handle(s[0], spn_executor_direct(), handle_add, &a, &s[1]));
        REQUIRE_OK(spn_future_combine(f, s[1], NULL, combine_sub, &a, &s[2]));
        REQUIRE_OK(spn_future_any_of(s, 3, &s[3]));
        atomic_store(&counting_refuse, 1);
        end(f, (enum end)how, 2);
        atomic_store(&counting_refuse, 0);
        for (int i = 0; i < 4; i++) {
            CHECK(spn_future_get_state(s[i]) != SPN_FUTURE_PENDING);
            spn_future_unref(s[i]);
        }
        spn_future_unref(f);
    }
}
