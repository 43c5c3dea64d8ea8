/* SPDX-License-Identifier: MIT */
/* test_invoke.c - submit in all its forms, invoke_all and invoke_any. */
#include "cause.h"
#include "counting.h"
#include "executor_kinds.h"
#include "peer.h"
#include "pool_calls.h"
#include "test.h"

#include <stdlib.h>

/* ---- functions to call ----------------------------------------------------------- */

struct work {
    atomic_int runs, interrupted, released;
    int code;         /* it fails with */
    void *value;      /* or gives */
    spn_latch *gate;  /* it waits for, interruptibly; NULL: not at all */
    spn_latch *begun; /* opened when it runs; NULL: none */
    int ignore;       /* 1: waits on after an interrupt */
};

static int do_work(void *arg, void **result)
{
    struct work *w = arg;

    atomic_fetch_add(&w->runs, 1);
    if (w->begun != NULL)
        CHECK_OK(spn_latch_count_down(w->begun));
    while (w->gate != NULL && spn_latch_await(w->gate, SPN_FOREVER) == SPN_EINTR) {
        atomic_fetch_add(&w->interrupted, 1);
        if (w->ignore == 0)
            return spn_future_fail(77, "interrupted");
    }
    *result = w->value;
    return w->code != 0 ? spn_future_fail(w->code, "told to fail") : 0;
}

static void release_work(void *arg)
{
    atomic_fetch_add(&((struct work *)arg)->released, 1);
}

static int run_work(void *arg)
{
    void *ignored;

    return do_work(arg, &ignored);
}

static spn_latch *latch(int32_t count)
{
    spn_latch *l;

    REQUIRE_OK(spn_latch_create(&l, count));
    return l;
}

static void open_and_destroy(spn_latch *l)
{
    while (spn_latch_count(l) > 0)
        CHECK_OK(spn_latch_count_down(l));
    T_AWAIT(spn_latch_destroy(l) == SPN_OK);
}

static void fill(spn_call *calls, struct work *works, size_t count)
{
    for (size_t i = 0; i < count; i++)
        calls[i] = (spn_call){ do_work, &works[i] };
}

static void unref_all(spn_future **futures, size_t count)
{
    for (size_t i = 0; i < count; i++)
        spn_future_unref(futures[i]);
}

static int code_of(spn_future *f)
{
    int code = 0;

    CHECK_OK(t_cause(f, &code, NULL, 0));
    return code;
}

/* ---- submit ---------------------------------------------------------------------- */

/* A callable's value; again with a timeout of 0. */
TEST(submit__callable__gives_its_value, "AES-1", "TPE-13")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct work w = { .value = &w };
        void *value = NULL;
        spn_future *f;

        REQUIRE_OK(spn_executor_submit(k.executor, do_work, &w, &f));
        CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
        CHECK(value == &w);
        CHECK(spn_future_get_state(f) != SPN_FUTURE_PENDING);
        CHECK(spn_future_get_state(f) != SPN_FUTURE_CANCELED);
        value = NULL;
        CHECK_OK(spn_future_get(f, &value, 0));
        CHECK(value == &w);
        spn_future_unref(f);
    }
}

/* A runnable gives NULL, or the value it came with, from when it has run. */
TEST(submit_run__runnable__gives_null_or_its_value, "AES-2", "EXE-12")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct work w = { .gate = latch(1) };
        void *value = &w;
        spn_future *f;

        REQUIRE_OK(spn_executor_submit_run(k.executor, run_work, &w, &k, &f));
        CHECK_STATUS(spn_future_get(f, &value, T_PROBE_NS), SPN_ETIMEDOUT);
        CHECK_OK(spn_latch_count_down(w.gate));
        CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
        CHECK(value == &k);
        spn_future_unref(f);
        REQUIRE_OK(spn_executor_submit_run(k.executor, run_work, &w, NULL, &f));
        CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
        CHECK(value == NULL);
        CHECK_EQ(atomic_load(&w.runs), 2);
        spn_future_unref(f);
        open_and_destroy(w.gate);
    }
}

/* The cause of a failure comes out as it went in. */
TEST(submit__callable_fails__get_has_the_cause, "AES-3")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct work w = { .code = -1234 };
        char message[32];
        spn_future *f;
        int code = 0;

        REQUIRE_OK(spn_executor_submit(k.executor, do_work, &w, &f));
        CHECK_STATUS(spn_future_get(f, NULL, SPN_FOREVER), SPN_EFAILED);
        CHECK_OK(t_cause(f, &code, message, sizeof message));
        CHECK_EQ(code, -1234);
        CHECK_STR(message, "told to fail");
        spn_future_unref(f);
        REQUIRE_OK(spn_executor_submit_run(k.executor, run_work, &w, &w, &f));
        CHECK_STATUS(spn_future_get(f, NULL, SPN_FOREVER), SPN_EFAILED);
        CHECK_EQ(code_of(f), -1234);
        spn_future_unref(f);
    }
}

static int get_forever(void *f)
{
    return spn_future_get(f, NULL, SPN_FOREVER);
}

/* Who waits is interrupted; the task is not. */
TEST(submit__getter_interrupted__task_goes_on, "AES-4", "TPE-84")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct work w = { .value = &w, .gate = latch(1) };
        struct peer p;
        spn_future *f;

        REQUIRE_OK(spn_executor_submit(k.executor, do_work, &w, &f));
        peer_start(&p, get_forever, f);
        peer_await_blocked(&p);
        CHECK_OK(spn_thread_interrupt(p.thread));
        CHECK_STATUS(peer_finish(&p), SPN_EINTR);
        CHECK_EQ(p.flag_after, 0);
        CHECK_OK(spn_latch_count_down(w.gate));
        CHECK_OK(spn_future_get(f, NULL, SPN_FOREVER));
        CHECK_EQ(atomic_load(&w.interrupted), 0);
        spn_future_unref(f);
        open_and_destroy(w.gate);
    }
}

/* cancel interrupts the function only if asked to. */
TEST(submit__cancelled_while_running__interrupts_if_asked, "AES-6")
{
    struct kind k;

    EACH_KIND(k)
    {
        for (int interrupt = 0; interrupt <= 1; interrupt++) {
            struct work w = { .gate = latch(1), .begun = latch(1) };
            spn_future *f;

            REQUIRE_OK(spn_executor_submit(k.executor, do_work, &w, &f));
            CHECK_OK(spn_latch_await(w.begun, SPN_FOREVER));
            CHECK_EQ(spn_future_cancel(f, interrupt), 1);
            CHECK_STATUS(spn_future_get(f, NULL, SPN_FOREVER), SPN_ECANCELED);
            if (interrupt != 0)
                T_AWAIT(atomic_load(&w.interrupted) == 1);
            CHECK_OK(spn_latch_count_down(w.gate));
            spn_future_unref(f);
            kind_close(&k);
            CHECK_EQ(atomic_load(&w.interrupted), interrupt);
            kind_open(&k);
            open_and_destroy(w.gate);
            open_and_destroy(w.begun);
        }
    }
}

/* An executor that takes no more refuses all forms, and nothing was called. */
TEST(submit__executor_shut_down__is_rejected, "AES-7", "AES-5")
{
    spn_manual_executor *m;
    struct work w = { 0 };
    spn_call call = { do_work, &w };
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    spn_future *f = NULL;
    spn_executor *ex;

    REQUIRE_OK(spn_manual_executor_create(&m));
    ex = spn_manual_executor_executor(m);
    CHECK_STATUS(spn_executor_submit(ex, NULL, NULL, &f), SPN_EINVAL);
    CHECK_STATUS(spn_executor_submit_run(ex, NULL, NULL, NULL, &f), SPN_EINVAL);
    CHECK_STATUS(spn_executor_submit_with(ex, NULL, NULL, NULL, &f), SPN_EINVAL);
    CHECK_OK(spn_executor_shutdown(ex));
    opts.release_arg = release_work;
    CHECK_STATUS(spn_executor_submit(ex, do_work, &w, &f), SPN_EREJECTED);
    CHECK_STATUS(spn_executor_submit_with(ex, do_work, &w, &opts, &f), SPN_EREJECTED);
    CHECK_STATUS(spn_executor_submit_run(ex, run_work, &w, NULL, &f), SPN_EREJECTED);
    CHECK_EQ(atomic_load(&w.released), 0); /* the argument stays the caller's */
    CHECK(f == NULL);
    CHECK_STATUS(spn_executor_invoke_all(ex, &call, 1, SPN_FOREVER, NULL, &f),
                 SPN_EREJECTED);
    CHECK_STATUS(spn_executor_invoke_all(ex, NULL, 0, SPN_FOREVER, NULL, NULL),
                 SPN_EREJECTED);
    CHECK_STATUS(spn_executor_invoke_any(ex, &call, 1, SPN_FOREVER, NULL, NULL, &f),
                 SPN_EREJECTED);
    CHECK(f == NULL);
    CHECK_EQ(atomic_load(&w.runs), 0);
    CHECK_OK(spn_manual_executor_destroy(m));
}

/* ---- invoke_all ------------------------------------------------------------------- */

/* Nothing at all is a mistake, an empty list is not; a hole is, and starts nothing. */
TEST(invoke_all__null_and_empty__refused_and_empty, "AES-16")
{
    struct work w[3] = { 0 };
    spn_call calls[3];
    spn_future *f[3];
    struct kind k;

    EACH_KIND(k)
    {
        fill(calls, w, 3);
        CHECK_STATUS(spn_executor_invoke_all(k.executor, NULL, 3, SPN_FOREVER, NULL, f),
                     SPN_EINVAL);
        CHECK_STATUS(spn_executor_invoke_all(k.executor, NULL, 3, T_LONG_NS, NULL, f),
                     SPN_EINVAL);
        CHECK_STATUS(spn_executor_invoke_all(k.executor, calls, 3, SPN_FOREVER, NULL,
                                             NULL),
                     SPN_EINVAL);
        CHECK_OK(spn_executor_invoke_all(k.executor, NULL, 0, SPN_FOREVER, NULL, NULL));
        CHECK_OK(spn_executor_invoke_all(k.executor, calls, 0, T_LONG_NS, NULL, f));
        calls[2].fn = NULL;
        CHECK_STATUS(spn_executor_invoke_all(k.executor, calls, 3, SPN_FOREVER, NULL,
                                             f),
                     SPN_EINVAL);
        CHECK_STATUS(spn_executor_invoke_all(k.executor, calls, 3, T_LONG_NS, NULL, f),
                     SPN_EINVAL);
        CHECK(f[0] == NULL && f[1] == NULL && f[2] == NULL);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(atomic_load(&w[i].runs), 0);
    }
}

/* All outcomes, in the order of the calls, each done when the call returns. */
TEST(invoke_all__some_fail__returns_every_future, "AES-17", "AES-23", "AES-1")
{
    enum { COUNT = 5 };
    struct kind k;

    EACH_KIND(k)
    {
        for (int timed = 0; timed <= 1; timed++) {
            struct work w[COUNT] = { 0 };
            spn_call calls[COUNT];
            spn_future *f[COUNT];
            void *value;

            for (int i = 0; i < COUNT; i++) {
                w[i].value = &w[i];
                w[i].code = i % 2 == 1 ? 100 + i : 0;
            }
            fill(calls, w, COUNT);
            REQUIRE_OK(spn_executor_invoke_all(k.executor, calls, COUNT,
                                               timed != 0 ? T_LONG_NS : SPN_FOREVER,
                                               NULL, f));
            for (int i = 0; i < COUNT; i++) {
                CHECK(spn_future_get_state(f[i]) != SPN_FUTURE_PENDING);
                CHECK_EQ(atomic_load(&w[i].runs), 1);
                if (i % 2 == 1) {
                    CHECK_STATUS(spn_future_get(f[i], &value, 0), SPN_EFAILED);
                    CHECK_EQ(code_of(f[i]), 100 + i);
                } else {
                    CHECK_OK(spn_future_get(f[i], &value, 0));
                    CHECK(value == &w[i]);
                }
            }
            unref_all(f, COUNT);
        }
    }
}

struct all {
    spn_executor *executor;
    spn_call *calls;
    size_t count;
    int64_t timeout_ns;
    spn_future **futures;
    spn_future *decider;
    void *value;
};

static int call_invoke_all(void *arg)
{
    struct all *a = arg;

    return spn_executor_invoke_all(a->executor, a->calls, a->count, a->timeout_ns, NULL,
                                   a->futures);
}

static int call_invoke_any(void *arg)
{
    struct all *a = arg;

    return spn_executor_invoke_any(a->executor, a->calls, a->count, a->timeout_ns, NULL,
                                   &a->value, &a->decider);
}

/* Interrupted while it waits: all that run are interrupted. */
TEST(invoke_all__interrupted_while_waiting__cancels_all, "AES-18", "G-11")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct work w[3] = { 0 };
        spn_latch *gate = latch(1), *begun = latch(3);
        spn_call calls[3];
        spn_future *f[3] = { NULL };
        struct all a = { k.executor, calls, 3, SPN_FOREVER, f, NULL, NULL };
        struct peer p;

        for (int i = 0; i < 3; i++)
            w[i] = (struct work){ .gate = gate, .begun = begun };
        fill(calls, w, 3);
        peer_start(&p, call_invoke_all, &a);
        CHECK_OK(spn_latch_await(begun, SPN_FOREVER));
        peer_await_blocked(&p);
        CHECK_OK(spn_thread_interrupt(p.thread));
        CHECK_STATUS(peer_finish(&p), SPN_EINTR);
        CHECK_EQ(p.flag_after, 0);
        for (int i = 0; i < 3; i++) {
            T_AWAIT(atomic_load(&w[i].interrupted) == 1);
            CHECK(f[i] == NULL);
        }
        kind_close(&k);
        kind_open(&k);
        open_and_destroy(gate);
        open_and_destroy(begun);
    }
}

/* With the flag set already: nothing is started, and the flag is clear. */
TEST(invoke__interrupted_before__starts_nothing, "AES-18", "AES-15", "G-10")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct work w[2] = { 0 };
        spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
        spn_call calls[2];
        spn_future *f[2], *decider;

        opts.release_arg = release_work;
        fill(calls, w, 2);
        CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        CHECK_STATUS(spn_executor_invoke_all(k.executor, calls, 2, SPN_FOREVER, &opts,
                                             f),
                     SPN_EINTR);
        CHECK_EQ(spn_thread_interrupted(), 0);
        CHECK_OK(spn_thread_interrupt(spn_thread_current()));
        CHECK_STATUS(spn_executor_invoke_any(k.executor, calls, 2, SPN_FOREVER, &opts,
                                             NULL, &decider),
                     SPN_EINTR);
        CHECK_EQ(spn_thread_interrupted(), 0);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(atomic_load(&w[i].runs), 0);
            CHECK_EQ(atomic_load(&w[i].released), 2);
        }
    }
}

/* Of three the one in the middle does not end.  False: the machine was so busy that another
 * had not ended, or that one not begun, when the time was over. */
static bool let_time_pass(struct kind *k, int64_t timeout)
{
    struct work w[3] = { { .value = k }, { 0 }, { .value = k } };
    const int64_t from = spn_now();
    spn_latch *gate = latch(1);
    spn_call calls[3];
    spn_future *f[3];
    bool in_time = true;

    w[1].gate = gate;
    fill(calls, w, 3);
    REQUIRE_OK(spn_executor_invoke_all(k->executor, calls, 3, timeout, NULL, f));
    CHECK(spn_now() - from >= timeout);
    CHECK(spn_future_get_state(f[1]) != SPN_FUTURE_PENDING);
    CHECK_EQ(spn_future_get_state(f[1]), SPN_FUTURE_CANCELED);
    for (int i = 0; i < 3; i += 2) {
        void *value = NULL;
        const int rc = spn_future_get(f[i], &value, 0);

        CHECK(rc == SPN_ECANCELED || (rc == SPN_OK && value == k));
        in_time = in_time && rc == SPN_OK;
    }
    unref_all(f, 3);
    kind_close(k); /* it ends, or never began */
    kind_open(k);
    CHECK_EQ(atomic_load(&w[1].interrupted), atomic_load(&w[1].runs));
    in_time = in_time && atomic_load(&w[1].runs) == 1;
    open_and_destroy(gate);
    return in_time;
}

/* At the deadline what is not done is cancelled; what is keeps its result. */
TEST(invoke_all__deadline_passes__cancels_the_rest, "AES-19", "S-8", "G-7")
{
    struct kind k;

    EACH_KIND(k)
    {
        int64_t timeout = T_SHORT_NS;

        while (!let_time_pass(&k, timeout) && timeout < T_LONG_NS)
            timeout *= 2;
        CHECK(timeout < T_LONG_NS);
    }
}

/* Without time nothing is started. */
TEST(invoke_all__no_time__cancels_all_unrun, "AES-20")
{
    static const int64_t timeouts[] = { 0, -1, INT64_MIN };
    struct kind k;

    EACH_KIND(k)
    {
        for (int t = 0; t < 3; t++) {
            struct work w[2] = { 0 };
            spn_call calls[2];
            spn_future *f[2], *decider = NULL;

            fill(calls, w, 2);
            REQUIRE_OK(
                spn_executor_invoke_all(k.executor, calls, 2, timeouts[t], NULL, f));
            CHECK_EQ(spn_future_get_state(f[0]), SPN_FUTURE_CANCELED);
            CHECK_EQ(spn_future_get_state(f[1]), SPN_FUTURE_CANCELED);
            unref_all(f, 2);
            CHECK_STATUS(spn_executor_invoke_any(k.executor, calls, 2, timeouts[t],
                                                 NULL, NULL, &decider),
                         SPN_ETIMEDOUT);
            CHECK(decider == NULL);
            CHECK_EQ(atomic_load(&w[0].runs) + atomic_load(&w[1].runs), 0);
        }
    }
}

static int overrun(void *arg, void **result)
{
    const int64_t until = spn_now() + *(int64_t *)arg;

    *result = arg;
    while (spn_now() < until)
        continue;
    return 0;
}

/* In the caller's own thread: the one that overruns completes, the next never start. */
TEST(invoke_all__direct_and_late__later_ones_do_not_start, "AES-21")
{
    int64_t span = T_SHORT_NS;
    struct work w = { 0 };
    spn_call calls[3] = { { overrun, &span }, { do_work, &w }, { do_work, &w } };
    spn_future *f[3];
    void *value = NULL;

    REQUIRE_OK(
        spn_executor_invoke_all(spn_executor_direct(), calls, 3, span / 2, NULL, f));
    CHECK_OK(spn_future_get(f[0], &value, 0));
    CHECK(value == &span);
    CHECK_EQ(spn_future_get_state(f[1]), SPN_FUTURE_CANCELED);
    CHECK_EQ(spn_future_get_state(f[2]), SPN_FUTURE_CANCELED);
    CHECK_EQ(atomic_load(&w.runs), 0);
    unref_all(f, 3);
}

/* An executor that takes a number of tasks for another, and then refuses; it makes its
 * own futures, and counts them. */
struct limited {
    spn_executor executor;
    spn_executor *inner;
    int room; /* tasks it still takes */
    atomic_int made, hooked;
};

static int limited_execute(spn_executor *executor, spn_task *task)
{
    struct limited *l = (struct limited *)(void *)executor;

    return l->room-- > 0 ? spn_executor_execute(l->inner, task) : SPN_EFULL;
}

static const spn_executor_ops limited_ops = { .size = sizeof limited_ops,
                                              .execute = limited_execute };

/* Refused in the middle: those before are cancelled, and the refusal is returned. */
TEST(invoke__refused_in_the_middle__cancels_those_before, "AES-22")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct limited l = { .executor = { &limited_ops }, .inner = k.executor };
        spn_latch *gate = latch(1), *begun = latch(4);
        spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
        struct work w[3] = { 0 };
        spn_future *f[3];
        spn_call calls[3];

        opts.release_arg = release_work;
        for (int i = 0; i < 3; i++)
            w[i] = (struct work){ .gate = gate, .begun = begun };
        fill(calls, w, 3);
        l.room = 2;
        CHECK_STATUS(spn_executor_invoke_all(&l.executor, calls, 3, SPN_FOREVER, &opts,
                                             f),
                     SPN_EFULL);
        CHECK(f[0] == NULL && f[1] == NULL && f[2] == NULL);
        l.room = 2;
        CHECK_STATUS(spn_executor_invoke_any(&l.executor, calls, 3, SPN_FOREVER, &opts,
                                             NULL, NULL),
                     SPN_EFULL);
        kind_close(&k); /* they end, for they were interrupted, or never began */
        kind_open(&k);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(atomic_load(&w[i].released), 2);
        CHECK_EQ(atomic_load(&w[2].runs), 0);
        CHECK_EQ(spn_latch_count(gate), 1);
        open_and_destroy(gate);
        open_and_destroy(begun);
    }
}

struct spoiler {
    struct all a;
    struct work *w;
};

static int spoil(void *arg, void **result)
{
    struct spoiler *s = arg;

    (void)result;
    for (size_t i = 0; i < s->a.count; i++)
        s->a.calls[i] = (spn_call){ NULL, NULL };
    return 0;
}

/* The list is read once: what a task does to it changes nothing. */
TEST(invoke_all__list_changed_meanwhile__was_read_before, "AES-24")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct work w[2] = { { .value = &w[0] }, { .value = &w[1] } };
        spn_call calls[3];
        struct spoiler s = { { k.executor, calls, 3, SPN_FOREVER, NULL, NULL, NULL },
                             w };
        spn_future *f[3];

        calls[0] = (spn_call){ spoil, &s };
        calls[1] = (spn_call){ do_work, &w[0] };
        calls[2] = (spn_call){ do_work, &w[1] };
        REQUIRE_OK(spn_executor_invoke_all(k.executor, calls, 3, SPN_FOREVER, NULL, f));
        CHECK_EQ(atomic_load(&w[0].runs), 1);
        CHECK_EQ(atomic_load(&w[1].runs), 1);
        CHECK(calls[1].fn == NULL);
        unref_all(f, 3);
    }
}

/* The future that an executor makes for a submission; keeps the last two. */
static spn_future *known[2];
static atomic_int known_count;

static void hook(spn_future *future, void *arg)
{
    (void)future;
    atomic_fetch_add(&((struct limited *)arg)->hooked, 1);
}

static int own_task(spn_executor *executor, spn_future **out, spn_call_fn fn, void *arg,
                    const spn_future_opts *opts)
{
    struct limited *l = (struct limited *)(void *)executor;
    spn_future_opts mine = SPN_FUTURE_OPTS_INIT;
    int rc;

    if (opts != NULL)
        mine = *opts;
    mine.done = hook;
    mine.done_arg = l;
    rc = spn_future_create_task(out, fn, arg, &mine);
    if (rc == SPN_OK) {
        atomic_fetch_add(&l->made, 1);
        known[atomic_fetch_add(&known_count, 1) % 2] = spn_future_ref(*out);
    }
    return rc;
}

static const spn_executor_ops own_ops = { .size = sizeof own_ops,
                                          .execute = limited_execute,
                                          .new_task = own_task };

/* Cancelled by somebody else: the invoker does not wait for it. */
TEST(invoke_all__future_cancelled_elsewhere__does_not_hang, "AES-25", "TPE-86")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct limited l = { .executor = { &own_ops },
                             .inner = k.executor,
                             .room = 100 };
        spn_latch *gate = latch(1), *begun = latch(2);
        struct work w[2];
        spn_call calls[2];
        spn_future *f[2];
        struct all a = { &l.executor, calls, 2, SPN_FOREVER, f, NULL, NULL };
        struct peer p;

        atomic_store(&known_count, 0);
        for (int i = 0; i < 2; i++)
            w[i] = (struct work){ .gate = gate, .begun = begun };
        fill(calls, w, 2);
        peer_start(&p, call_invoke_all, &a);
        CHECK_OK(spn_latch_await(begun, SPN_FOREVER));
        CHECK_EQ(spn_future_cancel(known[0], 1), 1);
        CHECK_EQ(spn_future_cancel(known[1], 1), 1);
        CHECK_OK(peer_finish(&p));
        CHECK(f[0] == known[0] && f[1] == known[1]);
        CHECK_EQ(spn_future_get_state(f[0]), SPN_FUTURE_CANCELED);
        CHECK_EQ(atomic_load(&l.made), 2);
        CHECK_EQ(atomic_load(&l.hooked), 2);
        unref_all(f, 2);
        unref_all(known, 2);
        kind_close(&k);
        kind_open(&k);
        open_and_destroy(gate);
        open_and_destroy(begun);
    }
}

/* Every way to submit asks the executor for the future, once. */
TEST(new_task__every_submission__is_asked_once, "TPE-86")
{
    struct limited l = { .executor = { &own_ops },
                         .inner = spn_executor_direct(),
                         .room = 100 };
    struct work w = { .value = &w };
    spn_call call = { do_work, &w };
    spn_future *f;
    void *value = NULL;

    atomic_store(&known_count, 0);
    REQUIRE_OK(spn_executor_submit(&l.executor, do_work, &w, &f));
    CHECK(f == known[0]);
    spn_future_unref(f);
    REQUIRE_OK(spn_executor_submit_run(&l.executor, run_work, &w, &l, &f));
    CHECK(f == known[1]);
    CHECK_OK(spn_future_get(f, &value, 0));
    CHECK(value == &l);
    spn_future_unref(f);
    unref_all(known, 2);
    REQUIRE_OK(spn_executor_submit_with(&l.executor, do_work, &w, NULL, &f));
    spn_future_unref(f);
    CHECK_OK(
        spn_executor_invoke_any(&l.executor, &call, 1, SPN_FOREVER, NULL, &value, &f));
    CHECK(f == known[1] && value == &w);
    spn_future_unref(f);
    unref_all(known, 2);
    CHECK_EQ(atomic_load(&l.made), 4);
    CHECK_EQ(atomic_load(&l.hooked), 4);
    CHECK_EQ(atomic_load(&w.runs), 4);
    l.room = 0;
    CHECK_STATUS(spn_executor_submit_run(&l.executor, run_work, &w, &l, &f), SPN_EFULL);
    CHECK(f == NULL);
    spn_future_unref(known[0]);
}

/* ---- invoke_any ------------------------------------------------------------------- */

/* No list, an empty one, and one with a hole. */
TEST(invoke_any__null_empty_or_holed__refused, "AES-8")
{
    struct kind k;

    EACH_KIND(k)
    {
        for (int timed = 0; timed <= 1; timed++) {
            const int64_t timeout = timed != 0 ? T_LONG_NS : SPN_FOREVER;
            struct work w[3] = { 0 };
            spn_call calls[3];
            spn_future *decider = NULL;

            fill(calls, w, 3);
            CHECK_STATUS(spn_executor_invoke_any(k.executor, NULL, 3, timeout, NULL,
                                                 NULL, &decider),
                         SPN_EINVAL);
            CHECK_STATUS(spn_executor_invoke_any(k.executor, calls, 0, timeout, NULL,
                                                 NULL, &decider),
                         SPN_EINVAL);
            calls[1].fn = NULL;
            CHECK_STATUS(spn_executor_invoke_any(k.executor, calls, 3, timeout, NULL,
                                                 NULL, &decider),
                         SPN_EINVAL);
            CHECK(decider == NULL);
            CHECK_EQ(atomic_load(&w[0].runs) + atomic_load(&w[2].runs), 0);
        }
    }
}

/* One success is enough, whatever failed before. */
TEST(invoke_any__failures_then_success__gives_the_success, "AES-9", "AES-13")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct work w[4] = { { .code = 1 }, { .code = 2 }, { 0 }, { .code = 3 } };
        spn_latch *gate = latch(1);
        spn_call calls[4];
        const int64_t from = spn_now();
        struct all a = { k.executor, calls, 4, T_LONG_NS, NULL, NULL, NULL };
        struct peer p;
        void *value = NULL;

        w[2].value = &w[2];
        w[2].gate = gate;
        fill(calls, w, 4);
        peer_start(&p, call_invoke_any, &a);
        for (int i = 0; i < 4; i++)
            T_AWAIT(atomic_load(&w[i].runs) == 1);
        CHECK_OK(spn_latch_count_down(gate));
        CHECK_OK(peer_finish(&p));
        CHECK(a.value == &w[2]);
        CHECK_OK(spn_future_get(a.decider, &value, 0));
        CHECK(value == &w[2]);
        CHECK(spn_now() - from < T_LONG_NS);
        spn_future_unref(a.decider);
        open_and_destroy(gate);
    }
}

/* All fail: the last one to do so tells why, and all are through. */
TEST(invoke_any__all_fail__fails_with_the_last_cause, "AES-10", "AES-13")
{
    struct kind k;

    EACH_KIND(k)
    {
        struct work w[3] = { { .code = 1 }, { .code = 2 }, { .code = 3 } };
        spn_latch *gate = latch(1);
        spn_call calls[3];
        struct all a = { k.executor, calls, 3, SPN_FOREVER, NULL, NULL, NULL };
        struct peer p;

        w[1].gate = gate;
        fill(calls, w, 3);
        peer_start(&p, call_invoke_any, &a);
        for (int i = 0; i < 3; i++)
            T_AWAIT(atomic_load(&w[i].runs) == 1);
        CHECK(peer_still_waits(&p)); /* for the late one */
        CHECK_OK(spn_latch_count_down(gate));
        CHECK_STATUS(peer_finish(&p), SPN_EFAILED);
        REQUIRE(a.decider != NULL);
        CHECK_EQ(code_of(a.decider), 2);
        CHECK(a.value == NULL);
        spn_future_unref(a.decider);
        open_and_destroy(gate);
    }
}

/* A winner ends the others. */
TEST(invoke_any__winner__cancels_and_interrupts_the_others, "AES-11")
{
    struct kind k;

    EACH_KIND(k)
    {
        spn_latch *gate = latch(1), *begun = latch(2);
        struct work w[3] = { { .gate = gate, .begun = begun },
                             { .gate = gate, .begun = begun },
                             { .value = &k, .gate = begun } };
        spn_call calls[3];
        void *value = NULL;

        fill(calls, w, 3);
        CHECK_OK(spn_executor_invoke_any(k.executor, calls, 3, SPN_FOREVER, NULL,
                                         &value, NULL));
        CHECK(value == &k);
        T_AWAIT(atomic_load(&w[0].interrupted) == 1);
        T_AWAIT(atomic_load(&w[1].interrupted) == 1);
        kind_close(&k);
        kind_open(&k);
        open_and_destroy(gate);
        open_and_destroy(begun);
    }
}

/* In the caller: the first success is the last start. */
TEST(invoke_any__direct__stops_after_the_first_success, "AES-12", "AES-11")
{
    struct work w[4] = { { .code = 9 }, { 0 }, { 0 }, { 0 } };
    spn_call calls[4];
    void *value = NULL;

    w[1].value = &w[1];
    fill(calls, w, 4);
    CHECK_OK(spn_executor_invoke_any(spn_executor_direct(), calls, 4, SPN_FOREVER, NULL,
                                     &value, NULL));
    CHECK(value == &w[1]);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(atomic_load(&w[i].runs), i <= 1);
}

/* No success in time: not early, and what runs is interrupted. */
TEST(invoke_any__deadline_passes__interrupts_those_that_run, "AES-14", "G-7")
{
    struct kind k;

    EACH_KIND(k)
    {
        const int64_t timeout = T_SHORT_NS, from = spn_now();
        spn_latch *gate = latch(1);
        struct work w[2] = { { .gate = gate }, { .gate = gate } };
        spn_future *decider = NULL;
        spn_call calls[2];

        fill(calls, w, 2);
        CHECK_STATUS(spn_executor_invoke_any(k.executor, calls, 2, timeout, NULL, NULL,
                                             &decider),
                     SPN_ETIMEDOUT);
        CHECK(spn_now() - from >= timeout);
        CHECK(decider == NULL);
        kind_close(&k); /* they end, or never began */
        kind_open(&k);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(atomic_load(&w[i].interrupted), atomic_load(&w[i].runs));
        open_and_destroy(gate);
    }
}

/* Interrupted while it waits. */
TEST(invoke_any__interrupted_while_waiting__interrupts_those_that_run, "AES-15")
{
    struct kind k;

    EACH_KIND(k)
    {
        spn_latch *gate = latch(1), *begun = latch(2);
        struct work w[2] = { { .gate = gate, .begun = begun },
                             { .gate = gate, .begun = begun } };
        spn_call calls[2];
        struct all a = { k.executor, calls, 2, SPN_FOREVER, NULL, NULL, NULL };
        struct peer p;

        fill(calls, w, 2);
        peer_start(&p, call_invoke_any, &a);
        CHECK_OK(spn_latch_await(begun, SPN_FOREVER));
        peer_await_blocked(&p);
        CHECK_OK(spn_thread_interrupt(p.thread));
        CHECK_STATUS(peer_finish(&p), SPN_EINTR);
        CHECK_EQ(p.flag_after, 0);
        T_AWAIT(atomic_load(&w[0].interrupted) == 1);
        T_AWAIT(atomic_load(&w[1].interrupted) == 1);
        kind_close(&k);
        kind_open(&k);
        open_and_destroy(gate);
        open_and_destroy(begun);
    }
}

/* ---- shutdown_now under an invoker --------------------------------------------------- */

static void keep(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    spn_future *f = spn_future_of_task(task);

    (void)fn;
    (void)arg;
    CHECK(f != NULL);
    CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_CANCELED);
    (*(int *)ctx)++;
    CHECK_OK(spn_task_drop(task, SPN_ESHUTDOWN));
}

static void keep_pending(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)fn;
    (void)arg;
    CHECK_EQ(spn_future_get_state(spn_future_of_task(task)), SPN_FUTURE_PENDING);
    *(spn_task **)ctx = task;
}

/* What shutdown_now gives back is cancelled if an invoker waits for it, and only then:
 * nobody hangs. */
TEST(shutdown_now__under_an_invoker__releases_it, "TPE-69", "TPE-54", "TPE-44")
{
    int (*const invokers[])(void *) = { call_invoke_all, call_invoke_any };

    for (int i = 0; i < 2; i++) {
        spn_manual_executor *m;
        struct work w[2] = { 0 };
        spn_call calls[2];
        spn_future *f[2] = { NULL };
        struct peer p;
        int64_t count = 0;
        int given = 0;

        REQUIRE_OK(spn_manual_executor_create(&m));
        fill(calls, w, 2);
        struct all a = {
            spn_manual_executor_executor(m), calls, 2, SPN_FOREVER, f, NULL, NULL
        };
        peer_start(&p, invokers[i], &a);
        T_AWAIT(spn_manual_executor_pending(m) == 2);
        CHECK_OK(spn_executor_shutdown_now(a.executor, keep, &given, &count));
        CHECK_EQ(count, 2);
        CHECK_EQ(given, 2);
        if (i == 0) {
            CHECK_OK(peer_finish(&p));
            CHECK_EQ(spn_future_get_state(f[0]), SPN_FUTURE_CANCELED);
            CHECK_EQ(spn_future_get_state(f[1]), SPN_FUTURE_CANCELED);
            unref_all(f, 2);
        } else {
            CHECK_STATUS(peer_finish(&p), SPN_EFAILED);
            CHECK_EQ(spn_future_get_state(a.decider), SPN_FUTURE_CANCELED);
            spn_future_unref(a.decider);
        }
        CHECK_EQ(atomic_load(&w[0].runs) + atomic_load(&w[1].runs), 0);
        CHECK_OK(spn_manual_executor_destroy(m));
    }
}

/* A future that nobody invoked comes back as it was, and runs when its owner says. */
TEST(shutdown_now__plain_future__comes_back_pending, "TPE-54")
{
    struct work w = { .value = &w };
    spn_manual_executor *m;
    spn_task *task = NULL;
    spn_future *f;
    int64_t count = 0;

    REQUIRE_OK(spn_manual_executor_create(&m));
    REQUIRE_OK(spn_executor_submit(spn_manual_executor_executor(m), do_work, &w, &f));
    CHECK_OK(spn_executor_shutdown_now(spn_manual_executor_executor(m), keep_pending,
                                       &task, &count));
    CHECK_EQ(count, 1);
    REQUIRE(task != NULL);
    CHECK(spn_future_of_task(task) == f);
    CHECK_OK(spn_manual_executor_destroy(m)); /* before the future is done */
    CHECK_STATUS(spn_future_get(f, NULL, T_PROBE_NS), SPN_ETIMEDOUT);
    CHECK_EQ(spn_task_run(task), 0);
    CHECK_OK(spn_future_get(f, NULL, 0));
    spn_future_unref(f);
}

/* ---- on a pool of one thread ------------------------------------------------------------ */

static spn_pool *single_pool(void)
{
    spn_pool_opts opts = spn_pool_opts_fixed(1, -1);
    spn_pool *pool;

    REQUIRE_OK(spn_pool_create(&pool, &opts));
    return pool;
}

static void close_pool(spn_pool *pool)
{
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
}

/* One thread: the first success is the only effect. */
TEST(invoke_any__one_thread__only_one_has_an_effect, "AES-11", "AES-12")
{
    spn_pool *pool = single_pool();
    struct work w[3] = { 0 };
    spn_call calls[3];
    void *value = NULL;
    int effects = 0;

    for (int i = 0; i < 3; i++)
        w[i].value = &w[i];
    fill(calls, w, 3);
    CHECK_EQ(spn_pool_prestart(pool, SPN_DEFAULT), 1);
    T_AWAIT(pool_stats(pool).parked == 1); /* the worker sleeps */
    CHECK_OK(spn_pool_pause(pool));        /* so that all are there before one runs */
    struct all a = { spn_pool_executor(pool), calls, 3, SPN_FOREVER, NULL, NULL, NULL };
    struct peer p;

    peer_start(&p, call_invoke_any, &a);
    T_AWAIT(pool_stats(pool).queued == 3);
    w[1].gate = w[2].gate = latch(1); /* the others would wait, if they began */
    CHECK_OK(spn_pool_resume(pool));
    CHECK_OK(peer_finish(&p));
    value = a.value;
    spn_future_unref(a.decider);
    close_pool(pool);
    CHECK(value == &w[0]);
    for (int i = 0; i < 3; i++)
        effects += atomic_load(&w[i].runs) - atomic_load(&w[i].interrupted);
    CHECK_EQ(effects, 1);
    open_and_destroy(w[1].gate);
}

/* shutdown_now: what runs is interrupted, what waits is cancelled, the invoker back. */
TEST(shutdown_now__pool_under_an_invoker__releases_it, "TPE-69", "AES-6")
{
    int (*const invokers[])(void *) = { call_invoke_all, call_invoke_any };

    for (int n = 0; n < 4; n++) {
        spn_pool *pool = single_pool();
        spn_latch *gate = latch(1), *begun = latch(1);
        struct work w[3] = { { .gate = gate, .begun = begun },
                             { .gate = gate },
                             { .gate = gate } };
        spn_call calls[3];
        spn_future *f[3] = { NULL };
        struct all a = {
            spn_pool_executor(pool), calls, 3, SPN_FOREVER, f, NULL, NULL
        };
        struct peer p;
        int64_t count = 0;
        int given = 0;

        fill(calls, w, 3);
        peer_start(&p, invokers[n % 2], &a);
        CHECK_OK(spn_latch_await(begun, SPN_FOREVER));
        T_AWAIT(pool_stats(pool).queued == 2);
        if (n < 2)
            CHECK_OK(pool_shutdown_now(pool, keep, &given, &count));
        else
            CHECK_OK(pool_shutdown_now(pool, NULL, NULL, &count));
        CHECK_EQ(count, 2);
        CHECK_EQ(given, n < 2 ? 2 : 0);
        CHECK_STATUS(peer_finish(&p), n % 2 == 0 ? SPN_OK : SPN_EFAILED);
        spn_future_unref(a.decider);
        unref_all(f, 3);
        CHECK_OK(pool_await(pool, SPN_FOREVER));
        CHECK_EQ(atomic_load(&w[0].interrupted), 1);
        CHECK_EQ(atomic_load(&w[1].runs) + atomic_load(&w[2].runs), 0);
        close_pool(pool);
        open_and_destroy(gate);
        open_and_destroy(begun);
    }
}

struct inner {
    spn_executor *executor;
    int all_rc, any_rc;
};

static int invoke_inside(void *arg, void **result)
{
    struct inner *in = arg;
    struct work w[2] = { { .value = in }, { .value = in } };
    spn_call calls[2];
    spn_future *f[2];

    (void)result;
    fill(calls, w, 2);
    in->all_rc = spn_executor_invoke_all(in->executor, calls, 2, SPN_FOREVER, NULL, f);
    unref_all(f, 2);
    in->any_rc =
        spn_executor_invoke_any(in->executor, calls, 2, SPN_FOREVER, NULL, NULL, NULL);
    return 0;
}

/* From the only thread of the pool, without a limit: refused. */
TEST(invoke__from_the_only_thread__never_hangs, "AES-17")
{
    spn_pool *pool = single_pool();
    struct inner in = { spn_pool_executor(pool), -1, -1 };
    spn_future *f;

    REQUIRE_OK(spn_executor_submit(in.executor, invoke_inside, &in, &f));
    CHECK_OK(spn_future_get(f, NULL, SPN_FOREVER));
    CHECK_STATUS(in.all_rc, SPN_EDEADLK);
    CHECK_STATUS(in.any_rc, SPN_EDEADLK);
    spn_future_unref(f);
    close_pool(pool);
}

/* ---- nothing is left ------------------------------------------------------------------ */

static void free_value(void *value)
{
    free(value);
}

static int make_value(void *arg, void **result)
{
    (void)arg;
    *result = malloc(16);
    REQUIRE(*result != NULL);
    return 0;
}

/* Values nobody reads are dropped, and no block stays. */
TEST(invoke__values_unread__are_dropped)
{
    struct kind k;

    EACH_KIND(k)
    {
        spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
        spn_call calls[3] = { { make_value, NULL },
                              { make_value, NULL },
                              { make_value, NULL } };
        spn_future *f[3];
        void *value = NULL;
        long before;

        opts.drop_value = free_value;
        for (int i = 0; i < 3; i++) {
            before = atomic_load(&counting_live);
            CHECK_OK(
                spn_executor_invoke_all(k.executor, calls, 3, SPN_FOREVER, &opts, f));
            unref_all(f, 3);
            CHECK_OK(spn_executor_invoke_any(k.executor, calls, 3, SPN_FOREVER, &opts,
                                             &value, NULL));
            free(value);
            kind_close(&k);
            kind_open(&k);
        }
        /* Thread records stay with the library, but no more than there were threads. */
        T_AWAIT(atomic_load(&counting_live) <= before + 8);
    }
}
