/* SPDX-License-Identifier: MIT */
/* test_pool_hooks.c - what runs around a task, what becomes of one that fails or ends
 * its thread, and what a task finds of the one before it: nothing. */
#include "cause.h"
#include "pools.h"

#include <stdlib.h>

#include <spindle/log.h>
#include <spindle/task_local.h>

/* ---- a failure nobody asked for is logged --------------------------------------------- */

static char logged[256];
static atomic_int warnings;

static void keep_message(void *ctx, spn_log_level level, const char *message)
{
    (void)ctx;
    if (level == SPN_LOG_WARN && atomic_fetch_add(&warnings, 1) == 0)
        snprintf(logged, sizeof logged, "%s", message);
}

static void fail_unheard(void *arg)
{
    spn_pool *pool = pool_of(1, 1, 4);
    struct piece p;

    (void)arg;
    REQUIRE_OK(spn_log_set_hook(keep_message, NULL));
    piece_init(&p, NULL);
    p.code = -10; /* ETIMEDOUT */
    CHECK_OK(execute(pool, &p));
    pool_close(pool);
    CHECK_EQ(atomic_load(&warnings), 1);
    CHECK(strstr(logged, "pool") != NULL || strstr(logged, "task") != NULL);
}

/* First of all, because it forks. */
TEST(pool__task_fails_without_a_hook__logged, "TPE-73")
{
    CHECK_CHILD(fail_unheard, NULL);
}

/* ---- a diary of what was called, on which thread ------------------------------------ */

enum { ENTRIES = 64 };

struct diary {
    atomic_int count;
    struct entry {
        char what; /* b a u */
        int tid, status, flag;
        const spn_task *task;
        const char *label;
    } entries[ENTRIES];
    int refuse; /* before says so: 1 refuses */
    atomic_int before, after, uncaught;
};

static void note(struct diary *d, char what, const spn_task_info *info)
{
    const int i = atomic_fetch_add(&d->count, 1);

    REQUIRE(i < ENTRIES);
    d->entries[i] = (struct entry){
        what,         peer_gettid(),
        info->status, spn_thread_is_interrupted(spn_thread_current()),
        info->task,   info->label,
    };
}

static int on_before(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    struct diary *d = ctx;

    CHECK(spn_pool_current() == pool);
    note(d, 'b', info);
    atomic_fetch_add(&d->before, 1);
    return d->refuse != 0 && info->task != NULL &&
                   ((const struct piece *)(const void *)info->task)->reason == 77
               ? -9
               : 0;
}

static void on_after(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    struct diary *d = ctx;

    CHECK(spn_pool_current() == pool);
    note(d, 'a', info);
    atomic_fetch_add(&d->after, 1);
}

static void on_uncaught(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    struct diary *d = ctx;

    CHECK(pool != NULL);
    note(d, 'u', info);
    atomic_fetch_add(&d->uncaught, 1);
}

static struct bed hooked_bed(const struct pool_kind *k, int32_t threads,
                             struct diary *d)
{
    spn_pool_opts opts = opts_of(threads, threads, 0);

    memset(d, 0, sizeof *d);
    opts.hooks.before = on_before;
    opts.hooks.after = on_after;
    opts.hooks.uncaught = on_uncaught;
    opts.hooks.ctx = d;
    return bed_with(k, opts, SPN_UNBOUNDED);
}

/* before, the task, after: once each, on the worker, in this order. */
TEST_EACH(pool__hooks__around_each_task_on_the_worker, "TPE-70")
{
    struct diary d;
    struct bed b = hooked_bed(k, 1, &d);
    struct piece p[5];

    pieces_init(p, 5, NULL);
    for (int i = 0; i < 5; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    bed_close(&b);
    REQUIRE(atomic_load(&d.count) == 10);
    for (int i = 0; i < 5; i++) {
        const struct entry *before = &d.entries[2 * i], *after = before + 1;

        CHECK_EQ(before->what, 'b');
        CHECK_EQ(after->what, 'a');
        CHECK_EQ(before->tid, p[i].tid);
        CHECK_EQ(after->tid, p[i].tid);
        CHECK(before->task == &p[i].task);
        CHECK(before->label == NULL);
        CHECK(after->task == NULL); /* it may be gone */
        CHECK_EQ(after->status, 0);
    }
}

/* The label of a job is shown to the hooks, though the job may be gone. */
TEST_EACH(pool__job_with_a_label__shown_to_hooks, "TPE-70")
{
    struct diary d;
    struct bed b = hooked_bed(k, 1, &d);
    struct piece p;

    job_init(&p, NULL);
    p.job.label = "invoice";
    CHECK_OK(execute(b.pool, &p));
    bed_close(&b);
    REQUIRE(atomic_load(&d.count) == 2);
    CHECK_STR(d.entries[0].label, "invoice");
    CHECK_STR(d.entries[1].label, "invoice");
}

/* A before hook that refuses: the task is dropped, after is not called, it counts as
 * ended, and the worker goes on. */
TEST_EACH(pool__before_refuses__dropped_and_counted, "TPE-71")
{
    struct diary d;
    struct bed b = hooked_bed(k, 1, &d);
    struct piece p[3];
    spn_pool_stats s;

    d.refuse = 1;
    pieces_init(p, 3, NULL);
    p[1].reason = 77; /* what the hook looks for */
    for (int i = 0; i < 3; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    pool_rest(b.pool);
    CHECK(ran(&p[0]) && ran(&p[2]));
    CHECK(dropped(&p[1], SPN_ECANCELED));
    CHECK_EQ(atomic_load(&d.before), 3);
    CHECK_EQ(atomic_load(&d.after), 2);
    CHECK_EQ(pool_ended(b.pool), 3);
    CHECK_EQ(pool_stats(b.pool).threads, 1);
    s = pool_stats(b.pool);
    CHECK_EQ(s.completed, 2);
    CHECK_EQ(s.failed, 1);
    bed_close(&b);
}

/* A task that fails: after hears its error, uncaught is told once, the rest goes on,
 * and the pool has its threads. */
TEST_EACH(pool__task_fails__told_and_survived, "TPE-72", "TPE-73", "G-21")
{
    struct diary d;
    struct bed b = hooked_bed(k, 1, &d);
    struct piece p[4];
    int told = 0;

    pieces_init(p, 4, NULL);
    p[1].code = -42;
    p[2].code = 7;
    for (int i = 0; i < 4; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    pool_rest(b.pool);
    CHECK_EQ(pool_stats(b.pool).threads, 1);
    CHECK_EQ(pool_stats(b.pool).failed, 2);
    CHECK_EQ(pool_ended(b.pool), 4);
    CHECK_EQ(atomic_load(&d.after), 4);
    CHECK_EQ(atomic_load(&d.uncaught), 2);
    for (int i = 0, nth = 0; i < atomic_load(&d.count); i++) {
        const struct entry *e = &d.entries[i];

        if (e->what == 'a')
            CHECK_EQ(e->status, p[nth++].code);
        if (e->what == 'u') {
            CHECK_EQ(e->status, told++ == 0 ? -42 : 7);
            CHECK_EQ(e->flag, 0);
        }
    }
    bed_close(&b);
    for (int i = 0; i < 4; i++)
        CHECK(ran(&p[i]));
}

static void interrupt_self(struct piece *p)
{
    (void)p;
    CHECK_OK(spn_thread_interrupt(spn_thread_current()));
}

/* The uncaught hook has a clear flag, also after a task that left it set. */
TEST(pool__failing_task_leaves_its_flag_set__hook_has_a_clear_one, "TPE-73")
{
    static const struct pool_kind fifo = { "fifo", SPN_POOL_FIFO, 0, 0 };
    struct diary d;
    struct bed b = hooked_bed(&fifo, 1, &d);
    struct piece p;

    piece_init(&p, NULL);
    p.code = -1;
    p.act = interrupt_self;
    CHECK_OK(execute(b.pool, &p));
    bed_close(&b);
    for (int i = 0; i < atomic_load(&d.count); i++)
        CHECK(d.entries[i].what != 'u' || d.entries[i].flag == 0);
    CHECK_EQ(atomic_load(&d.uncaught), 1);
}

static int fail_call(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return -5;
}

static int fail_run(void *arg)
{
    (void)arg;
    return -6;
}

/* The failure of submitted work is its future's: the hooks see none.  That of a call is
 * nobody's: uncaught. */
TEST_EACH(pool__submitted_work_fails__its_future_knows, "TPE-74", "TPE-73")
{
    struct diary d;
    struct bed b = hooked_bed(k, 1, &d);
    spn_future *f;
    int code = 0;

    REQUIRE_OK(spn_executor_submit(spn_pool_executor(b.pool), fail_call, NULL, &f));
    CHECK_STATUS(spn_future_get(f, NULL, SPN_FOREVER), SPN_EFAILED);
    CHECK_OK(t_cause(f, &code, NULL, 0));
    CHECK_EQ(code, -5);
    pool_rest(b.pool);
    CHECK_EQ(atomic_load(&d.after), 1);
    CHECK_EQ(atomic_load(&d.uncaught), 0);
    CHECK_EQ(d.entries[1].status, 0);
    CHECK_OK(spn_executor_call(spn_pool_executor(b.pool), fail_run, NULL));
    pool_rest(b.pool);
    CHECK_EQ(atomic_load(&d.uncaught), 1);
    spn_future_unref(f);
    bed_close(&b);
}

/* ---- tasks that end their thread ---------------------------------------------------------- */

/* A task that ends its thread has failed; the thread is replaced and the rest runs. */
TEST_EACH(pool__task_ends_its_thread__replaced, "EXE-6", "G-21", "TPE-72")
{
    struct diary d;
    struct bed b = hooked_bed(k, 1, &d);
    struct piece p[4];
    spn_pool_stats s;

    pieces_init(p, 4, NULL);
    p[0].dies = p[2].dies = 1;
    for (int i = 0; i < 4; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    pool_rest(b.pool);
    T_AWAIT(pool_stats(b.pool).threads == 1);
    s = pool_stats(b.pool);
    CHECK_EQ(s.threads_died, 2);
    CHECK_EQ(s.failed, 2);
    CHECK_EQ(s.completed, 2);
    CHECK_EQ(atomic_load(&d.before), 4);
    CHECK_EQ(atomic_load(&d.after), 4);
    CHECK_EQ(atomic_load(&d.uncaught), 2);
    for (int i = 0; i < atomic_load(&d.count); i++)
        CHECK(d.entries[i].what != 'u' || d.entries[i].status == SPN_ECANCELED);
    bed_close(&b);
    CHECK(p[0].tid != p[1].tid && p[2].tid != p[3].tid);
    for (int i = 1; i < 4; i++)
        CHECK_EQ(p[i].order, p[i - 1].order + 1); /* one at a time, in order */
}

/* All threads of a pool end in their tasks, again and again: every task still runs. */
TEST_EACH(pool__every_task_ends_its_thread__all_run, "EXE-6", "G-21")
{
    enum { COUNT = 60 };
    static struct piece p[COUNT];
    spn_pool_opts opts = opts_of(2, 3, 0);
    struct bed b;

    opts.hooks.uncaught = uncaught_quietly;
    b = bed_with(k, opts, SPN_UNBOUNDED);
    pieces_init(p, COUNT, NULL);
    for (int i = 0; i < COUNT; i++) {
        p[i].dies = 1;
        CHECK_OK(execute(b.pool, &p[i]));
    }
    bed_close(&b);
    for (int i = 0; i < COUNT; i++)
        CHECK(ran(&p[i]));
}

/* The last task of a pool that is shut down ends its thread: the pool still ends. */
TEST_EACH(pool__thread_ends_during_shutdown__pool_ends, "EXE-6", "TPE-49")
{
    for (int now = 0; now < 2; now++) {
        spn_pool_opts opts = opts_of(1, 1, 0);
        spn_latch *gate = gate_new();
        struct piece p[2];
        struct bed b;

        opts.hooks.uncaught = uncaught_quietly;
        b = bed_with(k, opts, SPN_UNBOUNDED);
        pieces_init(p, 2, NULL);
        p[0].gate = gate;
        p[0].dies = 1;
        start(b.pool, &p[0]);
        CHECK_OK(execute(b.pool, &p[1]));
        if (now != 0)
            CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, NULL));
        else
            CHECK_OK(pool_shutdown(b.pool));
        gate_open(gate);
        CHECK_OK(pool_await(b.pool, SPN_FOREVER));
        CHECK(ran(&p[0]));
        CHECK(now != 0 ? dropped(&p[1], SPN_ESHUTDOWN) : ran(&p[1]));
        bed_close(&b);
        gate_free(gate);
    }
}

static int exit_call(void *arg, void **result)
{
    (void)arg;
    (void)result;
    pthread_exit(NULL);
}

/* A future whose function ends the thread has failed, and its getter hears of it. */
TEST_EACH(pool__submitted_work_ends_its_thread__future_fails, "G-21", "TPE-74")
{
    struct bed b = bed_open(k, 1, 1);
    spn_future *f, *next;

    REQUIRE_OK(spn_executor_submit(spn_pool_executor(b.pool), exit_call, NULL, &f));
    CHECK_STATUS(spn_future_get(f, NULL, SPN_FOREVER), SPN_EFAILED);
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(b.pool), fail_call, NULL, &next));
    CHECK_STATUS(spn_future_get(next, NULL, SPN_FOREVER), SPN_EFAILED);
    spn_future_unref(f);
    spn_future_unref(next);
    bed_close(&b);
}

/* ---- calls from hooks ----------------------------------------------------------------------- */

static void use_the_pool(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    struct piece *more = ctx;

    (void)info;
    (void)pool_stats(pool);
    CHECK_EQ(spn_pool_purge(pool), 0);
    if (untouched(more))
        CHECK_OK(execute(pool, more));
    else
        CHECK_OK(pool_shutdown(pool));
}

/* Hooks hold no lock: they may submit, ask, and shut down. */
TEST_EACH(pool__hooks_use_the_pool__no_lock_in_their_way, "TPE-75", "G-23")
{
    spn_pool_opts opts = opts_of(1, 1, 0);
    struct piece p, more;
    struct bed b;

    piece_init(&p, NULL);
    piece_init(&more, NULL);
    opts.hooks.after = use_the_pool;
    opts.hooks.ctx = &more;
    b = bed_with(k, opts, SPN_UNBOUNDED);
    CHECK_OK(execute(b.pool, &p));
    CHECK_OK(pool_await(b.pool, SPN_FOREVER)); /* the hook has shut it down */
    CHECK(ran(&p) && ran(&more));
    bed_close(&b);
}

/* ---- nothing of one task reaches the next ---------------------------------------------------- */

static atomic_int destroyed;

static void count_destroyed(void *value)
{
    (void)value;
    atomic_fetch_add(&destroyed, 1);
}

static const spn_task_local key = { count_destroyed };
static int value;

static void set_local(struct piece *p)
{
    CHECK(spn_task_local_get(&key) == NULL); /* of the one before: nothing */
    CHECK_OK(spn_task_local_set(&key, &value));
    CHECK(spn_task_local_get(&key) == &value);
    (void)p;
}

/* Each task starts with an empty store, and what it leaves is destroyed with it. */
TEST_EACH(pool__task_locals__cleared_after_each_task, "S-9")
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p[5];

    atomic_store(&destroyed, 0);
    pieces_init(p, 5, NULL);
    for (int i = 0; i < 5; i++) {
        p[i].act = set_local;
        p[i].dies = i == 2; /* also one that ends its thread */
        CHECK_OK(execute(b.pool, &p[i]));
        T_AWAIT(ended(&p[i]) == 1);
        T_AWAIT(atomic_load(&destroyed) == i + 1);
    }
    bed_close(&b);
    CHECK_EQ(atomic_load(&destroyed), 5);
    CHECK_STATUS(spn_task_local_set(&key, &value), SPN_ESTATE); /* no task here */
}

/* Values are those of the task, not the thread: one that the submitter runs has its
 * own. */
static void set_and_nest(struct piece *p)
{
    set_local(p);
    CHECK_OK(execute(p->current, p->arg)); /* full: run here */
    CHECK(spn_task_local_get(&key) == &value);
}

TEST(pool__task_run_by_its_submitter__locals_of_its_own, "S-9")
{
    spn_pool_opts opts = opts_of(1, 1, SPN_HANDOFF);
    struct piece outer, inner;
    spn_pool *pool;

    atomic_store(&destroyed, 0);
    opts.reject = spn_reject_caller_runs();
    pool = pool_with(&opts);
    piece_init(&outer, NULL);
    piece_init(&inner, NULL);
    outer.act = set_and_nest;
    outer.arg = &inner;
    inner.act = set_local;
    CHECK_OK(execute(pool, &outer));
    T_AWAIT(ended(&outer) == 1);
    pool_close(pool);
    CHECK(ran(&outer) && ran(&inner));
    CHECK_EQ(outer.tid, inner.tid);
    CHECK_EQ(atomic_load(&destroyed), 2);
}

/* Workers come and go with their thread-specific data: nothing is left (run under
 * LeakSanitizer). */
static pthread_key_t specific;
static atomic_int specific_freed;

static void free_specific(void *memory)
{
    free(memory);
    atomic_fetch_add(&specific_freed, 1);
}

static void set_specific(struct piece *p)
{
    (void)p;
    if (pthread_getspecific(specific) == NULL)
        REQUIRE(pthread_setspecific(specific, malloc(100)) == 0);
}

TEST(pool__worker_churn_with_thread_specific_data__nothing_left, "P46")
{
    const int rounds = t_rounds(500);

    REQUIRE(pthread_key_create(&specific, free_specific) == 0);
    for (int i = 0; i < rounds; i++) {
        spn_pool *pool = pool_of(1, 1, 2);
        struct piece p;

        piece_init(&p, NULL);
        p.act = set_specific;
        CHECK_OK(execute(pool, &p));
        pool_close(pool);
    }
    T_AWAIT(atomic_load(&specific_freed) == rounds);
    pthread_key_delete(specific);
}

static atomic_int specific_set;

static void set_and_count(struct piece *p)
{
    (void)p;
    if (pthread_getspecific(specific) != NULL)
        return;
    REQUIRE(pthread_setspecific(specific, malloc(100)) == 0);
    atomic_fetch_add(&specific_set, 1);
}

/* P46 in full: 10^5 workers of one pool, who leave when they are idle or are ended by a
 * task; each one's destructors have run, and it is no thread of the process any more. */
TEST_WHEN_NAMED(pool__a_hundred_thousand_workers__each_destructor_ran)
{
    const int turnovers = t_rounds(100000), threads = t_threads();
    spn_pool_opts opts = opts_of(0, 2, SPN_UNBOUNDED);
    spn_pool *pool;

    opts.keep_alive_ns = 0;
    opts.hooks.uncaught = uncaught_quietly;
    pool = pool_with(&opts);
    atomic_store(&specific_freed, 0);
    REQUIRE(pthread_key_create(&specific, free_specific) == 0);
    for (int i = 0; pool_stats(pool).threads_started < turnovers; i++) {
        struct piece p[2];

        pieces_init(p, 2, NULL);
        for (int j = 0; j < 2; j++) {
            p[j].act = set_and_count;
            p[j].dies = (i + j) % 3 == 0;
            CHECK_OK(execute(pool, &p[j]));
        }
        T_AWAIT(ended(&p[0]) == 1 && ended(&p[1]) == 1);
    }
    CHECK(atomic_load(&specific_set) >= turnovers / 2);
    pool_close(pool);
    t_await_threads(threads);
    CHECK_EQ(atomic_load(&specific_freed), atomic_load(&specific_set));
    pthread_key_delete(specific);
}
