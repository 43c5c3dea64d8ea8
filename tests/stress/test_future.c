/* SPDX-License-Identifier: MIT */
/*
 * test_future.c - futures under many threads.  Each test counts every outcome and
 * every call and wants exactly one of each; what is plain memory here is ordered by
 * nothing but the calls under test.
 */
#include "cause.h"
#include "counting.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <spindle/future.h>
#include <spindle/poll_set.h>
#include <spindle/thread.h>

/* ---- complete, cancel and get ------------------------------------------------- */

enum { ENDERS = 3, GETTERS = 3, BATCH = 64 };

struct contest {
    spn_future *f[BATCH];
    int payload[BATCH][ENDERS]; /* plain: written by the ender before it tries */
    atomic_int wins[BATCH];
    atomic_int winner[BATCH]; /* 1 + the ender */
    atomic_int seen[BATCH];   /* getters that saw an outcome */
    atomic_int timed_out;
    atomic_int done_calls;
};

static void count_done(spn_future *f, void *arg)
{
    struct contest *c = arg;

    if (spn_future_get_state(f) != SPN_FUTURE_PENDING)
        atomic_fetch_add(&c->done_calls, 1);
}

static void end_all(struct contest *c, int me)
{
    for (int i = 0; i < BATCH; i++) {
        int won;

        c->payload[i][me] = i + 1;
        if (me == 0)
            won = spn_future_complete(c->f[i], &c->payload[i][0]);
        else if (me == 1)
            won = spn_future_complete_error(c->f[i], i + 1, "lost");
        else
            won = spn_future_cancel(c->f[i], i % 2);
        if (won == 1) {
            atomic_fetch_add(&c->wins[i], 1);
            atomic_store(&c->winner[i], me + 1);
        }
    }
}

static void get_all(struct contest *c, uint64_t state)
{
    for (int i = 0; i < BATCH; i++) {
        void *value = NULL;
        int rc, code;

        do {
            const int64_t timeout = (int64_t)(t_random(&state) % 4) * 20000;

            rc = spn_future_get(c->f[i], &value, timeout == 0 ? SPN_FOREVER : timeout);
            if (rc == SPN_ETIMEDOUT)
                atomic_fetch_add(&c->timed_out, 1);
        } while (rc == SPN_ETIMEDOUT);
        switch (rc) {
        case SPN_OK:
            CHECK(value == &c->payload[i][0]);
            CHECK_EQ(*(int *)value, i + 1);
            break;
        case SPN_EFAILED:
            CHECK_OK(t_cause(c->f[i], &code, NULL, 0));
            CHECK_EQ(code, i + 1);
            CHECK_EQ(c->payload[i][1], i + 1);
            break;
        default:
            CHECK_STATUS(rc, SPN_ECANCELED);
            CHECK_EQ(c->payload[i][2], i + 1);
            break;
        }
        atomic_fetch_add(&c->seen[i], 1);
        spn_future_unref(c->f[i]);
    }
}

static uint64_t seed;

static void contend(int index, void *arg)
{
    struct contest *c = arg;

    if (index < ENDERS) {
        end_all(c, index);
        for (int i = 0; i < BATCH; i++)
            spn_future_unref(c->f[i]);
    } else {
        get_all(c, seed + (uint64_t)index);
    }
}

/* One ender wins, every getter sees its outcome whole, and the last of them all
 * frees the future. */
TEST(future__ended_three_ways_and_got_by_many__exactly_once, "FUT-8", "CF-44", "FUT-11",
     "G-16", "G-20")
{
    const int rounds = t_rounds(300);
    const long live = atomic_load(&counting_live);
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    int by[ENDERS] = { 0 };

    seed = t_seed();
    opts.done = count_done;
    for (int r = 0; r < rounds; r++) {
        static struct contest c;

        memset(&c, 0, sizeof c);
        opts.done_arg = &c;
        for (int i = 0; i < BATCH; i++) {
            REQUIRE_OK(spn_future_create(&c.f[i], &opts));
            for (int k = 1; k < ENDERS + GETTERS; k++)
                (void)spn_future_ref(c.f[i]);
        }
        t_parallel(ENDERS + GETTERS, contend, &c);
        for (int i = 0; i < BATCH; i++) {
            CHECK_EQ(c.wins[i], 1);
            CHECK_EQ(c.seen[i], GETTERS);
            by[atomic_load(&c.winner[i]) - 1]++;
        }
        CHECK_EQ(c.done_calls, BATCH);
    }
    CHECK_EQ(by[0] + by[1] + by[2], rounds * BATCH);
    CHECK(atomic_load(&counting_live) <= live + ENDERS + GETTERS); /* thread records */
}

/* ---- run and cancel -------------------------------------------------------------- */

enum { TASKS = 64 };

struct errand {
    spn_future *f;
    atomic_int runs, releases;
    atomic_int cancelled;
    int result; /* plain */
};

struct shift {
    struct errand e[TASKS];
    atomic_int late; /* interrupts that came after their task */
};

static int do_errand(void *arg, void **result)
{
    struct errand *e = arg;

    atomic_fetch_add(&e->runs, 1);
    CHECK_EQ(atomic_load(&e->releases), 0);
    e->result = 5;
    *result = e;
    return 0;
}

static void release_errand(void *arg)
{
    struct errand *e = arg;

    atomic_fetch_add(&e->releases, 1);
}

static void run_or_cancel(int index, void *arg)
{
    struct shift *s = arg;

    for (int i = 0; i < TASKS; i++) {
        struct errand *e = &s->e[i];

        if (index < 2) {
            (void)spn_future_run(e->f);
            /* What was sent has come; nothing may come now. */
            (void)spn_thread_interrupted();
            sched_yield();
            if (spn_thread_interrupted() != 0)
                atomic_fetch_add(&s->late, 1);
        } else if (spn_future_cancel(e->f, 1) == 1) {
            atomic_fetch_add(&e->cancelled, 1);
        }
    }
}

/* Two runners and two who cancel: run once or cancelled once, the argument given
 * back once, and no interrupt strays. */
TEST(future__run_and_cancelled_at_once__exactly_once, "FUT-4", "FUT-24", "FUT-36")
{
    const int rounds = t_rounds(300);
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;

    opts.release_arg = release_errand;
    for (int r = 0; r < rounds; r++) {
        static struct shift s;

        memset(&s, 0, sizeof s);
        for (int i = 0; i < TASKS; i++)
            REQUIRE_OK(spn_future_create_task(&s.e[i].f, do_errand, &s.e[i], &opts));
        t_parallel(4, run_or_cancel, &s);
        CHECK_EQ(s.late, 0);
        for (int i = 0; i < TASKS; i++) {
            struct errand *e = &s.e[i];

            CHECK(spn_future_get_state(e->f) != SPN_FUTURE_PENDING);
            CHECK_EQ(spn_future_get_state(e->f) == SPN_FUTURE_CANCELED, e->cancelled);
            CHECK(e->runs <= 1);
            CHECK(e->runs + e->cancelled >= 1);
            CHECK_EQ(e->releases, 1);
            spn_future_unref(e->f);
        }
    }
}

/* run_and_reset by one thread, cancelled by another: as many runs as it says. */
struct repeat {
    spn_future *f;
    atomic_int runs;
    int returned, late;
};

static int repeat_once(void *arg, void **result)
{
    struct repeat *p = arg;

    (void)result;
    atomic_fetch_add(&p->runs, 1);
    return 0;
}

static void repeat_or_cancel(int index, void *arg)
{
    struct repeat *p = arg;

    if (index == 0) {
        while (spn_future_run_and_reset(p->f) == 1)
            p->returned++;
        (void)spn_thread_interrupted();
        sched_yield();
        p->late = spn_thread_interrupted();
    } else {
        while (atomic_load(&p->runs) < 20)
            sched_yield();
        CHECK_EQ(spn_future_cancel(p->f, 1), 1);
    }
}

TEST(future__run_and_reset_cancelled__counts_add_up, "FUT-12", "FUT-15", "FUT-24")
{
    const int rounds = t_rounds(500);

    for (int r = 0; r < rounds; r++) {
        struct repeat p = { 0 };

        REQUIRE_OK(spn_future_create_task(&p.f, repeat_once, &p, NULL));
        t_parallel(2, repeat_or_cancel, &p);
        CHECK(p.runs == p.returned || p.runs == p.returned + 1);
        CHECK_EQ(p.late, 0);
        spn_future_unref(p.f);
    }
}

/* ---- stages ------------------------------------------------------------------------ */

enum { SOURCES = 16, STAGES = 256 };

struct graph {
    spn_future *source[SOURCES];
    spn_future *stage[STAGES];
    atomic_int calls[STAGES];
    atomic_int by_hand[STAGES];
    int value[SOURCES]; /* plain */
};

static struct graph g;

static int then_count(void *arg, void *value, void **result)
{
    const int i = (int)(intptr_t)arg;

    atomic_fetch_add(&g.calls[i], 1);
    CHECK(value == NULL || *(int *)value > 0);
    *result = value;
    return 0;
}

static int combine_count(void *arg, void *first, void *second, void **result)
{
    CHECK(*(int *)second > 0);
    return then_count(arg, first, result);
}

/* Makes stages, completes sources, cancels stages, drops handles: each thread a
 * share of each, in a random order. */
static void weave(int index, void *arg)
{
    uint64_t state = seed + (uint64_t)index * 977 + (uint64_t)(intptr_t)arg;

    for (int i = index; i < STAGES; i += T_THREADS) {
        spn_future *a = g.source[t_random(&state) % SOURCES];
        spn_future *b = g.source[t_random(&state) % SOURCES];
        void *me = (void *)(intptr_t)i;

        switch (t_random(&state) % 6) {
        case 0:
            CHECK_OK(spn_future_then(a, NULL, then_count, me, &g.stage[i]));
            break;
        case 1:
            CHECK_OK(spn_future_either(a, b, NULL, then_count, me, &g.stage[i]));
            break;
        case 2:
            CHECK_OK(spn_future_combine(a, b, NULL, combine_count, me, &g.stage[i]));
            break;
        case 3:
            CHECK_OK(
                spn_future_then(a, spn_executor_direct(), then_count, me, &g.stage[i]));
            break;
        case 4:
            CHECK_OK(spn_future_any_of(g.source, SOURCES, &g.stage[i]));
            break;
        default:
            CHECK_OK(spn_future_all_of(g.source, SOURCES, &g.stage[i]));
            break;
        }
        if (t_random(&state) % 4 == 0 && spn_future_cancel(g.stage[i], 0) == 1)
            atomic_store(&g.by_hand[i], 1);
        if (t_random(&state) % (STAGES / SOURCES) == 0) {
            const int s = (int)(t_random(&state) % SOURCES);

            (void)spn_future_complete(g.source[s], &g.value[s]);
        }
    }
}

/* Whatever the order, each stage ends once, its function is called once or, if it
 * was cancelled first, at most once, and all memory comes back. */
TEST(future__stages_made_fired_and_cancelled_at_once__exactly_once, "CF-45", "CF-31",
     "CF-41")
{
    const int rounds = t_rounds(300);
    const long live = atomic_load(&counting_live);

    seed = t_seed();
    for (int r = 0; r < rounds; r++) {
        memset(&g, 0, sizeof g);
        for (int i = 0; i < SOURCES; i++) {
            g.value[i] = i + 1;
            REQUIRE_OK(spn_future_create(&g.source[i], NULL));
        }
        t_parallel(T_THREADS, weave, (void *)(intptr_t)r);
        for (int i = 0; i < SOURCES; i++)
            (void)spn_future_complete(g.source[i], &g.value[i]);
        for (int i = 0; i < STAGES; i++) {
            CHECK(spn_future_get_state(g.stage[i]) != SPN_FUTURE_PENDING);
            CHECK_EQ(spn_future_get_state(g.stage[i]) == SPN_FUTURE_CANCELED,
                     g.by_hand[i]);
            CHECK(g.calls[i] <= 1);
            spn_future_unref(g.stage[i]);
        }
        for (int i = 0; i < SOURCES; i++) {
            CHECK_EQ(spn_future_dependents(g.source[i]), 0);
            spn_future_unref(g.source[i]);
        }
    }
    CHECK(atomic_load(&counting_live) <= live + T_THREADS); /* thread records */
}

/* A source that lives long, with stages that come and are cancelled or decided by
 * another while it is completed at last. */
static spn_future *eternal;

static void come_and_go(int index, void *arg)
{
    const int count = t_rounds(20000);

    (void)arg;
    for (int i = 0; i < count; i++) {
        spn_future *s, *other;

        if (i % 2 == 0) {
            CHECK_OK(spn_future_any_of(&eternal, 1, &s));
            (void)spn_future_cancel(s, 0);
            CHECK(spn_future_get_state(s) != SPN_FUTURE_PENDING);
        } else {
            CHECK_OK(spn_future_create(&other, NULL));
            CHECK_OK(spn_future_any_of((spn_future *[]){ eternal, other }, 2, &s));
            (void)spn_future_complete(other, NULL);
            spn_future_unref(other);
            /* The thread that completes `eternal` may be the one that completes s. */
            CHECK_OK(spn_future_get(s, NULL, SPN_FOREVER));
        }
        spn_future_unref(s);
    }
    if (index == 0)
        CHECK_EQ(spn_future_complete(eternal, NULL), 1);
}

TEST(future__stages_come_and_go__leave_nothing, "CF-41")
{
    const long live = atomic_load(&counting_live);

    REQUIRE_OK(spn_future_create(&eternal, NULL));
    t_parallel(T_THREADS, come_and_go, NULL);
    CHECK_EQ(spn_future_dependents(eternal), 0);
    spn_future_unref(eternal);
    CHECK(atomic_load(&counting_live) <= live + T_THREADS);
}

/* ---- executors ----------------------------------------------------------------------- */

/* Two executors and one task, that everybody submits and runs: its links belong to
 * one executor at a time. */
struct tug {
    spn_manual_executor *m[2];
    spn_task task;
    atomic_int accepted;
    atomic_int runs; /* a task may be accepted again while it runs */
};

static int run_tug(spn_task *task)
{
    struct tug *t = (struct tug *)(void *)((char *)task - offsetof(struct tug, task));

    atomic_fetch_add(&t->runs, 1);
    return 0;
}

static void pull(int index, void *arg)
{
    struct tug *t = arg;
    spn_manual_executor *m = t->m[index % 2];

    for (int i = 0; i < 2000; i++) {
        const int rc = spn_executor_execute(spn_manual_executor_executor(m), &t->task);

        if (rc == SPN_OK)
            atomic_fetch_add(&t->accepted, 1);
        else
            CHECK_STATUS(rc, SPN_EBUSY);
        if (index < 2 && i % 3 == 0)
            (void)spn_manual_executor_run(m, 1);
    }
}

TEST(executor__two_pull_at_one_task__it_has_one_at_a_time, "G-15")
{
    const int rounds = t_rounds(20);

    for (int r = 0; r < rounds; r++) {
        struct tug t = { .task = SPN_TASK_INIT(run_tug, NULL) };

        REQUIRE_OK(spn_manual_executor_create(&t.m[0]));
        REQUIRE_OK(spn_manual_executor_create(&t.m[1]));
        t_parallel(2, pull, &t);
        CHECK(spn_manual_executor_run(t.m[0], INT64_MAX) >= 0);
        CHECK(spn_manual_executor_run(t.m[1], INT64_MAX) >= 0);
        CHECK_EQ(t.runs, t.accepted);
        CHECK_OK(spn_manual_executor_destroy(t.m[0]));
        CHECK_OK(spn_manual_executor_destroy(t.m[1]));
    }
}
