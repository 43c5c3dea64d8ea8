/* SPDX-License-Identifier: MIT */
/*
 * scenario_peri_mix.c - what stands around the pool, in mixed company.
 *
 * Each scenario draws its configuration and what its threads do, so that options meet that
 * no scenario of a single purpose brings together: an executor of a drawn kind below, a
 * serial executor or a limiter in the middle, tasks that end their thread, submit others or
 * wait, policies that run, drop or hold up.  Nothing of that changes what is checked in the
 * end: with nobody's help, and before any timer expires, what was accepted has ended, once;
 * the counts add up; all can be destroyed.
 */
#include "pool_calls.h"
#include "sim.h"

#include <string.h>

#include <spindle.h>

#include "exec/serial.h"
#include "sync/seam.h"

enum { ITEMS = 8, OPS = 3 };

/* What a task does; drawn. */
enum kind { PLAIN, FAILS, DIES, SUBMITS, WAITS, KINDS };

struct item {
    spn_job job; /* first */
    enum kind kind;
    int key;          /* of the serial executor: one at a time */
    spn_executor *at; /* where it was submitted; NULL: it cannot be taken back */
    SPN__ATOMIC(int) submitted, refused, ran, dropped, returned;
    SPN__ATOMIC(int) calls; /* that have begun and not returned */
};

static struct item items[ITEMS];
static SPN__ATOMIC(int) next_item;
static SPN__ATOMIC(int) inside[2];
static bool timed; /* somebody may wait for a time-out */

/* Whom a task may end.  Nobody who is inside a call that gives out a future: it would be
 * lost with the thread. */
static enum deaths { NOBODY, WORKERS } deaths;
static int op_threads;

/* ---- the executors ------------------------------------------------------------------- */

static spn_pool *pool;
static spn_fj_pool *fj_pool;
static spn_executor *base, *top;
static spn_serial *serial;
static spn_limiter *limiter;
static spn_executor *opened; /* a key of the serial executor; NULL: none is */
static bool serial_is_top;
static spn_reject_block block_policy;

static void quiet(spn_pool *p, const spn_task_info *info, void *ctx)
{
    (void)p;
    (void)info;
    (void)ctx;
}

static const spn_reject_policy *draw_policy(void)
{
    switch (sim_choose(6)) {
    case 0:
        return spn_reject_caller_runs();
    case 1:
        return spn_reject_discard();
    case 2:
        return spn_reject_discard_oldest();
    case 3:
        block_policy = (spn_reject_block)SPN_REJECT_BLOCK_INIT(SPN_MS(1));
        timed = true;
        return &block_policy.policy;
    default:
        return spn_reject_abort();
    }
}

static void make_pool(void)
{
    static const int32_t capacities[] = { SPN_UNBOUNDED, 1, 2, SPN_HANDOFF };
    spn_pool_opts o = SPN_POOL_OPTS_INIT;

    o.name = "p";
    o.max_threads = 1 + (int32_t)sim_choose(2);
    o.core_threads = (int32_t)sim_choose((unsigned)o.max_threads + 1);
    o.keep_alive_ns = sim_choose(2) != 0 ? SPN_MS(1) : 0;
    o.core_timeout = o.keep_alive_ns != 0 && sim_choose(2) != 0;
    o.queue_kind = sim_choose(3);
    o.queue_capacity = o.queue_kind == SPN_POOL_LANES  ? SPN_UNBOUNDED
                       : o.queue_kind == SPN_POOL_FIFO ? capacities[sim_choose(4)]
                                                       : capacities[sim_choose(3)];
    o.reject = draw_policy();
    o.hooks.uncaught = quiet;
    sim_assert(spn_pool_create(&pool, &o) == SPN_OK);
    base = spn_pool_executor(pool);
}

static void make_fj_pool(void)
{
    spn_fj_pool_opts o = SPN_FJ_POOL_OPTS_INIT;

    o.name = "f";
    o.parallelism = 1 + (int32_t)sim_choose(2);
    o.async = sim_choose(2);
    o.keep_alive_ns = sim_choose(2) != 0 ? SPN_MS(1) : 0;
    o.records = 4;
    o.hooks.uncaught = quiet;
    sim_assert(spn_fj_pool_create(&fj_pool, &o) == SPN_OK);
    base = spn_fj_pool_executor(fj_pool);
}

static void make_base(void)
{
    const unsigned kind = sim_choose(8);

    pool = NULL;
    fj_pool = NULL;
    base = spn_executor_direct();
    if (kind >= 3)
        make_pool();
    else if (kind == 2)
        make_fj_pool();
}

static void make_serial(spn_executor *below)
{
    spn_serial_opts o = SPN_SERIAL_OPTS_INIT;

    o.batch = sim_choose(3);
    sim_assert(spn_serial_create(&serial, below, &o) == SPN_OK);
    opened = NULL;
    if (sim_choose(2) != 0)
        sim_assert(spn_serial_open(serial, 5, &opened) == SPN_OK);
}

static void make_limiter(spn_executor *behind)
{
    spn_limiter_opts o = SPN_LIMITER_OPTS_INIT;

    o.executor = behind;
    o.max_in_flight = 1 + (int32_t)sim_choose(2);
    o.max_waiting = (int32_t)sim_choose(4);
    if (sim_choose(4) == 0) {
        o.target_ns = SPN_US(1);
        o.interval_ns = SPN_US(1);
    }
    sim_assert(spn_limiter_create(&limiter, &o) == SPN_OK);
}

/* ---- tasks ----------------------------------------------------------------------------- */

static void submit_one(void);

static struct item *item_of(spn_task *task)
{
    return (struct item *)(void *)task;
}

static bool is_item(const spn_task *task)
{
    const uintptr_t at = (uintptr_t)task;

    return at >= (uintptr_t)items && at < (uintptr_t)(items + ITEMS);
}

static bool is_op_thread(void)
{
    return sim_self() <= op_threads;
}

/* Only a pool's worker, and no fork/join pool's. */
static bool may_die(void)
{
    return deaths == WORKERS && fj_pool == NULL && !is_op_thread();
}

static int nothing(void *arg, void **result)
{
    (void)arg;
    (void)result;
    return 0;
}

/* Interrupted by a shutdown_now, or refused inside the executor itself. */
static void wait_for(spn_future *f, int64_t timeout_ns)
{
    const int rc = spn_future_get(f, NULL, timeout_ns);

    sim_assert(rc != SPN_EINVAL && rc != SPN_ENOMEM && rc <= SPN_OK);
    sim_assert(rc != SPN_ETIMEDOUT || timeout_ns != SPN_FOREVER);
}

/* From inside a task: it may be that nobody is left to run it, so not for ever. */
static void wait_inside(void)
{
    spn_future *f;

    if (spn_executor_submit(top, nothing, NULL, &f) != SPN_OK)
        return;
    wait_for(f, SPN_US(100));
    if (sim_choose(2) != 0)
        (void)spn_future_cancel(f, 0);
    spn_future_unref(f);
}

/* Also when another task, which it has run itself by submitting it, ends the thread. */
static void after_run(void *item)
{
    struct item *i = item;

    if (serial_is_top)
        (void)spn__fetch_sub(&inside[i->key], 1, relaxed);
    (void)spn__fetch_add(&i->ran, 1, relaxed);
}

static int run(spn_task *task)
{
    struct item *i = item_of(task);

    if (serial_is_top)
        sim_assert(spn__fetch_add(&inside[i->key], 1, relaxed) == 0);
    SPN__CLEANUP_PUSH(after_run, i);
    if (i->kind == SUBMITS)
        submit_one();
    if (i->kind == WAITS && deaths == NOBODY)
        wait_inside();
    if (i->kind == DIES && may_die())
        sim_exit();
    SPN__CLEANUP_POP();
    /* Where nobody logs it, but a hook is told. */
    return i->kind == FAILS && serial == NULL && !is_op_thread() ? 3 : 0;
}

static void drop(spn_task *task, int reason)
{
    struct item *i = item_of(task);

    sim_assert(reason < 0);
    (void)spn__fetch_add(&i->dropped, 1, relaxed);
    if (i->kind == SUBMITS)
        submit_one();
}

/* From shutdown_now. */
static void take_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)ctx;
    (void)arg;
    if (task == NULL)
        sim_assert(fn != NULL); /* a call */
    else if (is_item(task))
        (void)spn__fetch_add(&item_of(task)->returned, 1, relaxed);
    else
        (void)spn_task_drop(task, SPN_ECANCELED);
}

static void make_items(void)
{
    spn__init(&next_item, 0);
    spn__init(&inside[0], 0);
    spn__init(&inside[1], 0);
    for (int n = 0; n < ITEMS; n++) {
        struct item *i = &items[n];

        memset(i, 0, sizeof *i);
        i->job = (spn_job)SPN_JOB_INIT(run, drop);
        spn__init((SPN__ATOMIC(uint32_t) *)(void *)&i->job.task.queued, 0);
        spn__init(&i->submitted, 0);
        spn__init(&i->refused, 0);
        spn__init(&i->ran, 0);
        spn__init(&i->dropped, 0);
        spn__init(&i->returned, 0);
        spn__init(&i->calls, 0);
        i->kind = PLAIN;
        if (sim_choose(2) != 0)
            i->kind = (enum kind)sim_choose(KINDS);
        if (i->kind == WAITS)
            timed = true;
        switch (sim_choose(5)) {
        case 0:
            i->job.deadline_ns = SPN_US(5);
            break;
        case 1:
        case 2:
            i->job.task.flags = 0;
            break;
        default:
            break;
        }
    }
}

/* ---- what threads do ---------------------------------------------------------------------- */

static struct item *new_item(void)
{
    const int n = spn__fetch_add(&next_item, 1, relaxed);

    return n < ITEMS ? &items[n] : NULL;
}

static void submit_one(void)
{
    struct item *i = new_item();
    int rc;

    if (i == NULL)
        return;
    i->key = serial_is_top ? (int)sim_choose(2) : 0;
    i->at = i->key == 0 ? top : opened;
    (void)spn__fetch_add(&i->calls, 1, relaxed);
    spn__store(&i->submitted, 1, release);
    if (i->key == 0 || (opened != NULL && sim_choose(2) != 0))
        rc = spn_executor_execute(i->at, &i->job.task);
    else
        rc = spn_serial_execute(serial, 5, &i->job.task);
    sim_assert(rc <= SPN_OK && rc != SPN_EBUSY && rc != SPN_EINVAL);
    if (rc != SPN_OK)
        spn__store(&i->refused, 1, relaxed);
    (void)spn__fetch_sub(&i->calls, 1, relaxed);
}

static void remove_one(void)
{
    const int count = spn__load(&next_item, relaxed);
    struct item *i;
    int rc;

    if (count == 0)
        return;
    i = &items[sim_choose(count < ITEMS ? (unsigned)count : ITEMS)];
    /* Only what has been submitted: `at` is plain. */
    if (spn__load(&i->submitted, acquire) == 0)
        return;
    (void)spn__fetch_add(&i->calls, 1, relaxed);
    rc = spn_executor_remove(i->key == 0 ? top : opened, &i->job.task);
    if (rc == 1)
        (void)spn__fetch_add(&i->returned, 1, relaxed);
    (void)spn__fetch_sub(&i->calls, 1, relaxed);
}

static void submit_future(void)
{
    spn_future *f;

    if (spn_executor_submit(top, nothing, NULL, &f) != SPN_OK)
        return;
    if (sim_choose(3) == 0)
        (void)spn_future_cancel(f, sim_choose(2) != 0);
    else
        wait_for(f, sim_choose(2) != 0 ? SPN_FOREVER : SPN_US(1));
    spn_future_unref(f);
}

static void await_top(void)
{
    const int rc = spn_executor_await(top, SPN_US(1));

    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_EINTR);
    if (rc == SPN_OK)
        sim_assert(spn_executor_is_terminated(top) == 1);
}

static bool may_end_base;

static void end_something(void)
{
    spn_executor *which =
        may_end_base && base != spn_executor_direct() && sim_choose(2) != 0 ? base
                                                                            : top;

    if (which == spn_executor_direct())
        return;
    if (sim_choose(2) != 0)
        sim_assert(spn_executor_shutdown(which) == SPN_OK);
    else
        sim_assert(spn_executor_shutdown_now(which,
                                             which == top && sim_choose(2) != 0
                                                 ? take_back
                                                 : NULL,
                                             NULL, NULL) == SPN_OK);
}

static void set_parallelism(void)
{
    if (fj_pool != NULL)
        (void)spn_fj_pool_set_parallelism(fj_pool, 1 + (int32_t)sim_choose(3));
    else if (pool != NULL)
        (void)pool_set_max(pool, 2);
}

static void do_ops(void *arg)
{
    (void)arg;
    for (int n = 0; n < OPS; n++)
        switch (sim_choose(12)) {
        case 0:
            remove_one();
            break;
        case 1:
            submit_future();
            break;
        case 2:
            await_top();
            break;
        case 3:
            if (sim_choose(2) != 0)
                end_something();
            break;
        case 4:
            set_parallelism();
            break;
        default:
            submit_one();
        }
}

static void start_threads_of(void (*ops)(void *))
{
    op_threads = 2 + (int)sim_choose(2);
    for (int n = 0; n < op_threads; n++)
        (void)sim_thread(ops, NULL);
}

static void start_threads(void)
{
    start_threads_of(do_ops);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Whether it has come to one end.  If a task that ran inside a call has ended the thread,
 * nobody has heard whether that call refused it or gave it back; if the executor has it yet,
 * it says so itself. */
static bool has_ended(struct item *i)
{
    const int ends = spn__load(&i->refused, relaxed) + spn__load(&i->ran, relaxed) +
                     spn__load(&i->dropped, relaxed) + spn__load(&i->returned, relaxed);

    sim_assert(ends <= spn__load(&i->submitted, relaxed));
    return ends == spn__load(&i->submitted, relaxed) ||
           (deaths != NOBODY && spn__load(&i->calls, relaxed) != 0);
}

static bool all_ended(void)
{
    for (int n = 0; n < ITEMS; n++)
        if (!has_ended(&items[n]))
            return false;
    return true;
}

/* Nobody moves any more, and nothing is left. */
static void settle_until(bool (*done)(void))
{
    sim_join_all();
    sim_settle();
    for (int n = 0; timed && n < 8 && !done(); n++) {
        sim_sleep(SPN_MS(1));
        sim_settle();
    }
    sim_settle(); /* a timer may have expired early, while we looked */
    sim_assert(done());
}

/* What was cancelled has its outcome while it still waits, perhaps for a worker that looks
 * away. */
static bool stack_is_empty(void)
{
    spn_limiter_stats s = SPN_LIMITER_STATS_INIT;

    if (limiter != NULL)
        sim_assert(spn_limiter_stats_get(limiter, &s) == SPN_OK);
    return s.in_flight == 0 && s.waiting == 0 &&
           (serial == NULL || spn__load(&serial->ctl, relaxed) < SPN__SERIAL_ONE);
}

static bool all_ended_and_empty(void)
{
    return all_ended() && stack_is_empty();
}

static void settle(void)
{
    settle_until(all_ended_and_empty);
}

static void end_executor(spn_executor *executor)
{
    sim_assert(spn_executor_shutdown(executor) == SPN_OK);
    sim_assert(spn_executor_await(executor, SPN_FOREVER) == SPN_OK);
}

static void end_base(void)
{
    if (base == spn_executor_direct())
        return;
    end_executor(base);
    sim_assert(pool == NULL || spn_pool_destroy(pool) == SPN_OK);
    sim_assert(fj_pool == NULL || spn_fj_pool_destroy(fj_pool) == SPN_OK);
}

static void end_serial(void)
{
    end_executor(spn_serial_executor(serial));
    sim_assert(opened == NULL || spn_serial_close(serial, opened) == SPN_OK);
    sim_assert(spn_serial_destroy(serial) == SPN_OK);
}

static void end_limiter(void)
{
    spn_limiter_stats s = SPN_LIMITER_STATS_INIT;

    sim_assert(spn_limiter_stats_get(limiter, &s) == SPN_OK);
    sim_assert(s.in_flight == 0 && s.waiting == 0);
    sim_assert(s.accepted == s.completed + s.failed + s.dropped + s.returned);
    sim_assert(s.peak_in_flight <= s.max_in_flight && s.peak_waiting <= s.max_waiting);
    end_executor(spn_limiter_executor(limiter));
    sim_assert(spn_limiter_destroy(limiter) == SPN_OK);
}

static void begin(void)
{
    timed = false;
    serial = NULL;
    limiter = NULL;
    opened = NULL;
    serial_is_top = false;
    deaths = (enum deaths)sim_choose(2);
    may_end_base = sim_choose(4) == 0;
    make_items();
    make_base();
}

/* A serial executor, over an executor or a limiter over that. */
SCENARIO(peri_mix__serial__all_ends_once, "X-15")
{
    begin();
    if (sim_choose(3) == 0)
        make_limiter(base);
    make_serial(limiter != NULL ? spn_limiter_executor(limiter) : base);
    serial_is_top = true;
    top = spn_serial_executor(serial);
    start_threads();
    settle();
    end_serial();
    if (limiter != NULL)
        end_limiter();
    end_base();
}

/* A limiter, over an executor or a serial one over that. */
SCENARIO(peri_mix__limiter__all_ends_once, "G-20")
{
    begin();
    if (sim_choose(3) == 0)
        make_serial(base);
    make_limiter(serial != NULL ? spn_serial_executor(serial) : base);
    top = spn_limiter_executor(limiter);
    start_threads();
    settle();
    end_limiter();
    if (serial != NULL)
        end_serial();
    end_base();
}

/* The fork/join pool as an executor: idle exits, changes of its size, the end. */
SCENARIO(peri_mix__forkjoin__all_ends_once, "FJP-5")
{
    begin();
    if (base != spn_executor_direct())
        end_base();
    pool = NULL;
    make_fj_pool();
    top = base;
    start_threads();
    settle();
    end_base();
}

/* ---- a threadless executor ----------------------------------------------------------------- */

static spn_threadless *threadless;
static spn_future *answer;
static spn_executor *shared;

static void wait_and_drain(void *arg)
{
    const int rc =
        spn_threadless_wait_and_drain(threadless,
                                      sim_choose(2) != 0 ? SPN_US(1) : SPN_SEC(1));

    (void)arg;
    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_ESHUTDOWN ||
               rc == SPN_EINTR);
}

static void do_threadless_ops(void *arg)
{
    (void)arg;
    for (int n = 0; n < OPS; n++)
        switch (sim_choose(12)) {
        case 0:
            remove_one();
            break;
        case 1:
            (void)spn_threadless_notify_return(threadless, -9, "gone");
            break;
        case 2:
            await_top();
            break;
        case 3:
            end_something();
            break;
        case 4:
            (void)spn_future_complete(answer, NULL);
            break;
        case 5:
            submit_future();
            break;
        default:
            submit_one();
        }
}

/* A thread that waits and may be ended by a task, and tasks that come before, meanwhile and
 * afterwards. */
SCENARIO(peri_mix__threadless__all_ends_once, "G-20")
{
    begin();
    shared = sim_choose(4) == 0 ? NULL : base;
    sim_assert(spn_threadless_create(&threadless, shared) == SPN_OK);
    sim_assert(spn_future_create(&answer, NULL) == SPN_OK);
    if (sim_choose(2) != 0)
        sim_assert(spn_threadless_set_future(threadless, answer) == SPN_OK);
    top = spn_threadless_executor(threadless);
    timed = true; /* the wait itself */
    op_threads = 3;
    (void)sim_thread(wait_and_drain, NULL);
    (void)sim_thread(do_threadless_ops, NULL);
    (void)sim_thread(do_threadless_ops, NULL);
    settle();
    end_executor(top);
    sim_assert(spn_threadless_destroy(threadless) == SPN_OK);
    spn_future_unref(answer);
    end_base();
}

/* ---- over a stack of executors ---------------------------------------------------------------- */

/* One of the above, for what needs an executor; nobody is ended in the middle of a call that
 * gives out a future. */
static void begin_stack(void)
{
    begin();
    deaths = (enum deaths)sim_choose(2);
    top = base;
    switch (sim_choose(4)) {
    case 0:
        make_limiter(base);
        top = spn_limiter_executor(limiter);
        break;
    case 1:
        make_serial(base);
        top = spn_serial_executor(serial);
        break;
    default:
        break;
    }
}

static void end_stack(void)
{
    settle_until(stack_is_empty);
    if (limiter != NULL)
        end_limiter();
    if (serial != NULL)
        end_serial();
    end_base();
}

/* ---- a group ------------------------------------------------------------------------------------ */

static spn_group *group, *inner;
static SPN__ATOMIC(int) accepted, calls_ran;

static void group_submit(void);

/* What it does was drawn by who submitted it. */
static int call(void *arg, void **result)
{
    (void)result;
    (void)spn__fetch_add(&calls_ran, 1, relaxed);
    switch ((enum kind)(uintptr_t)arg) {
    case FAILS:
        return spn_future_fail(-99, "no");
    case DIES:
        if (may_die())
            sim_exit();
        return 0;
    case SUBMITS:
        if (deaths == NOBODY)
            group_submit();
        return 0;
    case WAITS: {
        const int rc = spn_cancel_token_wait(spn_group_token(group), SPN_US(100));

        sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_EINTR);
        sim_assert(spn_group_wait(group, SPN_FOREVER) == SPN_EDEADLK);
        return 0;
    }
    default:
        return 0;
    }
}

static void group_submit(void)
{
    spn_group *which = inner != NULL && sim_choose(2) != 0 ? inner : group;
    const uintptr_t kind = sim_choose(2) != 0 ? sim_choose(KINDS) : PLAIN;
    spn_future *f = NULL;
    int rc;

    if (spn__fetch_add(&next_item, 1, relaxed) >= ITEMS)
        return;
    rc = spn_group_submit(which, top, call, (void *)kind,
                          sim_choose(2) != 0 ? &f : NULL);
    sim_assert(rc <= SPN_OK && rc != SPN_EINVAL && rc != SPN_EBUSY);
    (void)spn__fetch_add(&accepted, rc == SPN_OK, relaxed);
    if (f != NULL && sim_choose(2) != 0)
        (void)spn_future_cancel(f, (int)sim_choose(2));
    else if (f != NULL && sim_choose(2) != 0)
        wait_for(f, SPN_US(1));
    spn_future_unref(f);
}

static void do_group_ops(void *arg)
{
    (void)arg;
    for (int n = 0; n < OPS; n++)
        switch (sim_choose(9)) {
        case 0:
            (void)spn_group_cancel(group, SPN_ECANCELED, (int)sim_choose(2));
            break;
        case 1: {
            const int rc = spn_group_wait(inner != NULL ? inner : group, SPN_US(1));

            sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_EINTR);
            break;
        }
        case 2:
            if (sim_choose(2) != 0)
                end_something();
            break;
        default:
            group_submit();
        }
}

static bool group_is_empty(void)
{
    spn_group_stats s = SPN_GROUP_STATS_INIT;

    sim_assert(spn_group_stats_get(group, &s) == SPN_OK);
    return s.live == 0;
}

SCENARIO(peri_mix__group__all_ends_once, "G-20", "FUT-24")
{
    spn_group_opts o = SPN_GROUP_OPTS_INIT;
    spn_group_stats s = SPN_GROUP_STATS_INIT;

    begin_stack();
    spn__init(&accepted, 0);
    spn__init(&calls_ran, 0);
    timed = true;
    inner = NULL;
    o.cancel_on_error = sim_choose(2);
    o.interrupt = sim_choose(2);
    sim_assert(spn_group_create(&group, &o) == SPN_OK);
    if (sim_choose(2) != 0) {
        o.parent = group;
        sim_assert(spn_group_create(&inner, &o) == SPN_OK);
    }
    start_threads_of(do_group_ops);
    settle_until(group_is_empty);
    sim_assert(spn_group_wait(group, 0) == SPN_OK);
    sim_assert(spn_group_stats_get(group, &s) == SPN_OK);
    sim_assert(s.live == 0 && s.submitted == s.succeeded + s.failed + s.cancelled);
    sim_assert(s.submitted == spn__load(&accepted, relaxed));
    sim_assert(spn__load(&calls_ran, relaxed) <= s.submitted &&
               spn__load(&calls_ran, relaxed) >= s.succeeded);
    sim_assert(spn_group_destroy(inner) == SPN_OK);
    sim_assert(spn_group_destroy(group) == SPN_OK);
    end_stack();
}

/* ---- a completion service, and several at once -------------------------------------------------- */

static spn_completion *completion;
static SPN__ATOMIC(int) given_out;

static int simple_call(void *arg, void **result)
{
    (void)result;
    if ((enum kind)(uintptr_t)arg == DIES && may_die())
        sim_exit();
    return (enum kind)(uintptr_t)arg == FAILS ? spn_future_fail(-99, "no") : 0;
}

static void take_done(int64_t timeout_ns)
{
    spn_future *f;
    const int rc = spn_completion_take(completion, &f, timeout_ns);

    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_EINTR);
    if (rc != SPN_OK)
        return;
    sim_assert(spn_future_get_state(f) != SPN_FUTURE_PENDING);
    (void)spn__fetch_add(&given_out, 1, relaxed);
    spn_future_unref(f);
}

static void invoke(void)
{
    const spn_call calls[2] = {
        { simple_call, (void *)(uintptr_t)sim_choose(KINDS) },
        { simple_call, (void *)(uintptr_t)sim_choose(KINDS) },
    };
    const int64_t timeout_ns = sim_choose(2) != 0 ? SPN_FOREVER : SPN_US(1);
    spn_future *f[2] = { NULL, NULL };
    int rc;

    if (sim_choose(2) != 0) {
        rc = spn_executor_invoke_all(top, calls, 2, timeout_ns, NULL, f);
        sim_assert((rc == SPN_OK) == (f[0] != NULL) &&
                   (rc == SPN_OK) == (f[1] != NULL));
        for (int n = 0; n < 2; n++)
            sim_assert(f[n] == NULL ||
                       spn_future_get_state(f[n]) != SPN_FUTURE_PENDING);
    } else {
        rc = spn_executor_invoke_any(top, calls, 2, timeout_ns, NULL, NULL, f);
        sim_assert((rc == SPN_OK || rc == SPN_EFAILED) == (f[0] != NULL));
    }
    /* A policy that holds up refuses with SPN_ETIMEDOUT, too. */
    sim_assert(rc != SPN_ETIMEDOUT || timeout_ns != SPN_FOREVER || timed);
    sim_assert(rc <= SPN_OK && rc != SPN_EINVAL && rc != SPN_ENOMEM);
    spn_future_unref(f[0]);
    spn_future_unref(f[1]);
}

static void do_completion_ops(void *arg)
{
    (void)arg;
    for (int n = 0; n < OPS; n++) {
        spn_future *f = NULL;
        int rc;

        switch (sim_choose(8)) {
        case 0:
        case 1:
            take_done(SPN_US(1));
            break;
        case 2:
            if (sim_choose(2) != 0)
                end_something();
            break;
        case 3:
        case 4:
            invoke();
            break;
        default:
            rc = spn_completion_submit(completion, simple_call,
                                       (void *)(uintptr_t)sim_choose(KINDS), NULL, &f);
            (void)spn__fetch_add(&accepted, rc == SPN_OK, relaxed);
            if (f != NULL && sim_choose(3) == 0)
                (void)spn_future_cancel(f, (int)sim_choose(2));
            spn_future_unref(f);
        }
    }
}

static bool all_given_out(void)
{
    int before;

    do {
        before = spn__load(&given_out, relaxed);
        take_done(0);
    } while (spn__load(&given_out, relaxed) != before);
    return before == spn__load(&accepted, relaxed);
}

/* Every future is given out, and who waits for several returns. */
SCENARIO(peri_mix__completion__each_given_out_once, "G-20")
{
    begin_stack();
    spn__init(&accepted, 0);
    spn__init(&given_out, 0);
    sim_assert(spn_completion_create(&completion, top) == SPN_OK);
    start_threads_of(do_completion_ops);
    settle_until(all_given_out);
    sim_assert(spn_completion_destroy(completion) == SPN_OK);
    end_stack();
}

/* ---- stages and poll sets --------------------------------------------------------------------------- */

static spn_future *roots[2];
static spn_poll_set *set;
static SPN__ATOMIC(int) stage_calls, polled;

static int stage_then(void *arg, void *value, void **result)
{
    (void)arg;
    (void)value;
    (void)result;
    (void)spn__fetch_add(&stage_calls, 1, relaxed);
    return 0;
}

static int stage_compose(void *arg, void *value, spn_future **result)
{
    (void)arg;
    (void)value;
    *result = spn_future_ref(roots[1]);
    return 0;
}

static spn_future *draw_stage(spn_future *from)
{
    spn_executor *at = sim_choose(2) != 0 ? top : spn_executor_direct();
    spn_future *out = NULL;
    int rc;

    switch (sim_choose(6)) {
    case 0:
        rc = spn_future_then(from, at, stage_then, NULL, &out);
        break;
    case 1:
        rc = spn_future_compose(from, at, stage_compose, NULL, &out);
        break;
    case 2:
        rc = spn_future_either(from, roots[1], at, stage_then, NULL, &out);
        break;
    case 3:
        rc = spn_future_all_of((spn_future *const[]){ from, roots[1], roots[0] }, 3,
                               &out);
        break;
    case 4:
        rc = spn_future_any_of((spn_future *const[]){ from, roots[1] }, 2, &out);
        break;
    default:
        rc = spn_future_any_of(&from, 1, &out);
    }
    sim_assert(rc == SPN_OK);
    return out;
}

static void end_root(void)
{
    spn_future *root = roots[sim_choose(2)];

    if (sim_choose(3) == 0)
        (void)spn_future_cancel(root, 0);
    else if (sim_choose(3) == 0)
        (void)spn_future_complete_error(root, -9, "gone");
    else
        (void)spn_future_complete(root, NULL);
}

static void poll_once(void)
{
    spn_future *f;

    if (spn_poll_set_next(set, &f, NULL) != SPN_OK)
        return;
    sim_assert(spn_future_get_state(f) != SPN_FUTURE_PENDING);
    (void)spn__fetch_add(&polled, 1, relaxed);
    spn_future_unref(f);
}

static void do_stage_ops(void *arg)
{
    spn_future *f = spn_future_ref(roots[0]), *next;

    (void)arg;
    for (int n = 0; n < OPS + 1; n++)
        switch (sim_choose(8)) {
        case 0:
        case 1:
            end_root();
            break;
        case 2:
            sim_assert(spn_poll_set_add(set, f, NULL) == SPN_OK);
            (void)spn__fetch_add(&accepted, 1, relaxed);
            break;
        case 3:
            poll_once();
            break;
        case 4:
            if (sim_choose(2) != 0)
                wait_for(f, SPN_US(1));
            else if (f != roots[0])
                (void)spn_future_cancel(f, 1);
            break;
        default:
            next = draw_stage(f);
            spn_future_unref(f);
            f = next;
        }
    (void)spn_future_complete(roots[0], NULL);
    (void)spn_future_complete(roots[1], NULL);
    wait_for(f, SPN_FOREVER);
    spn_future_unref(f);
}

/* Stages of stages, over executors that refuse: all have an outcome once the roots have. */
SCENARIO(peri_mix__stages__all_have_an_outcome, "G-16", "G-20")
{
    begin_stack();
    spn__init(&accepted, 0);
    spn__init(&polled, 0);
    spn__init(&stage_calls, 0);
    sim_assert(spn_poll_set_create(&set) == SPN_OK);
    for (int n = 0; n < 2; n++)
        sim_assert(spn_future_create(&roots[n], NULL) == SPN_OK);
    start_threads_of(do_stage_ops);
    sim_join_all();
    sim_settle();
    while (spn__load(&polled, relaxed) != spn__load(&accepted, relaxed)) {
        const int before = spn__load(&polled, relaxed);

        poll_once();
        sim_assert(spn__load(&polled, relaxed) == before + 1);
    }
    sim_assert(spn_poll_set_destroy(set) == SPN_OK);
    spn_future_unref(roots[0]);
    spn_future_unref(roots[1]);
    end_stack();
}

/* ---- an object pool --------------------------------------------------------------------------------- */

enum { THINGS = 64 };
static SPN__ATOMIC(int) out[THINGS], alive, made_things;
static spn_object_pool *objects;
static uint32_t most_objects;

static int make_thing(void *ctx, void **object)
{
    (void)ctx;
    if (sim_choose(6) == 0)
        return -7;
    sim_assert(spn__fetch_add(&alive, 1, relaxed) < (int)most_objects);
    *object = &out[spn__fetch_add(&made_things, 1, relaxed)];
    return 0;
}

static int doubt_thing(void *ctx, void *object)
{
    (void)ctx;
    (void)object;
    return sim_choose(6) == 0 ? -1 : 0;
}

static void destroy_thing(void *ctx, void *object)
{
    (void)ctx;
    sim_assert(spn__load((SPN__ATOMIC(int) *)object, relaxed) == 0);
    (void)spn__fetch_sub(&alive, 1, relaxed);
}

static void borrow_one(void)
{
    static const int64_t timeouts[] = { 0, SPN_US(1), SPN_FOREVER };
    const int64_t timeout_ns = timeouts[sim_choose(3)];
    void *object;
    const int rc = spn_object_pool_borrow(objects, &object, timeout_ns);

    sim_assert(rc == SPN_OK || rc == SPN_ETIMEDOUT || rc == SPN_ESHUTDOWN ||
               rc == SPN_EFAILED);
    sim_assert((rc == SPN_OK) == (object != NULL));
    if (object == NULL)
        return;
    sim_assert(spn__fetch_add((SPN__ATOMIC(int) *)object, 1, relaxed) == 0);
    if (sim_choose(2) != 0)
        sim_sleep(SPN_US(1));
    (void)spn__fetch_sub((SPN__ATOMIC(int) *)object, 1, relaxed);
    if (sim_choose(4) == 0)
        sim_assert(spn_object_pool_invalidate(objects, object) == SPN_OK);
    else
        sim_assert(spn_object_pool_return(objects, object) == SPN_OK);
}

static void do_object_ops(void *arg)
{
    (void)arg;
    for (int n = 0; n < OPS; n++)
        switch (sim_choose(10)) {
        case 0:
            if (sim_choose(3) == 0)
                sim_assert(spn_object_pool_shutdown(objects) == SPN_OK);
            break;
        case 1:
        case 2:
            (void)spn_object_pool_maintain(objects);
            break;
        default:
            borrow_one();
        }
}

/* Who waits without a limit gets an object, an answer, or hears of the end: all that is lent
 * comes back, and makes can fail.  Nobody holds two. */
SCENARIO(peri_mix__objpool__nobody_waits_in_vain, "G-20")
{
    spn_object_pool_opts o = SPN_OBJECT_POOL_OPTS_INIT;
    spn_object_pool_stats s = SPN_OBJECT_POOL_STATS_INIT;

    for (int n = 0; n < THINGS; n++)
        spn__init(&out[n], 0);
    spn__init(&alive, 0);
    spn__init(&made_things, 0);
    o.max = most_objects = 1 + sim_choose(2);
    o.min_idle = sim_choose(o.max + 1);
    o.fair = sim_choose(2);
    o.idle_ns = sim_choose(2) != 0 ? SPN_US(1) : 0;
    o.max_age_ns = sim_choose(3) == 0 ? SPN_US(2) : 0;
    o.factory.make = make_thing;
    o.factory.destroy = destroy_thing;
    if (sim_choose(2) != 0)
        o.factory.validate = doubt_thing;
    if (sim_choose(2) != 0)
        o.factory.reset = doubt_thing;
    sim_assert(spn_object_pool_create(&objects, &o) == SPN_OK);
    start_threads_of(do_object_ops);
    sim_join_all();
    sim_assert(spn_object_pool_stats_get(objects, &s) == SPN_OK);
    sim_assert(s.out == 0 && s.busy == 0 && s.waiting == 0);
    sim_assert(s.idle == spn__load(&alive, relaxed) && s.made - s.destroyed == s.idle);
    sim_assert(s.borrowed == s.returned + s.invalidated);
    sim_assert(spn_object_pool_shutdown(objects) == SPN_OK);
    sim_assert(spn_object_pool_await(objects, 0) == SPN_OK);
    sim_assert(spn__load(&alive, relaxed) == 0);
    sim_assert(spn_object_pool_destroy(objects) == SPN_OK);
}

/* Many small draws: a schedule seldom meets another, and the long run has more of them. */
SCENARIO_OPTS(peri_mix__serial__all_ends_once, .schedules = 300,
              .no_faults = "it counts on what it makes")
SCENARIO_OPTS(peri_mix__limiter__all_ends_once, .schedules = 300,
              .no_faults = "it counts on what it makes")
SCENARIO_OPTS(peri_mix__forkjoin__all_ends_once, .schedules = 300,
              .no_faults = "it counts on what it makes")
SCENARIO_OPTS(peri_mix__threadless__all_ends_once, .schedules = 300,
              .no_faults = "it counts on what it makes")
SCENARIO_OPTS(peri_mix__group__all_ends_once, .schedules = 300,
              .no_faults = "it counts on what it makes")
SCENARIO_OPTS(peri_mix__completion__each_given_out_once, .schedules = 300,
              .no_faults = "it counts on what it makes")
SCENARIO_OPTS(peri_mix__stages__all_have_an_outcome, .schedules = 300,
              .no_faults = "it counts on what it makes")
SCENARIO_OPTS(peri_mix__objpool__nobody_waits_in_vain, .schedules = 300,
              .no_faults = "it counts on what it makes")
