/* SPDX-License-Identifier: MIT */
/* test_pool_execute.c - handing tasks over: core, queue, max, and threads that cannot
 * be made. */
#include "counting.h"
#include "pools.h"

/* ---- once ---------------------------------------------------------------------- */

/* A task runs once, on a thread of the pool, and sees what came before. */
TEST_EACH(pool__executed__runs_once_on_a_worker, "TPE-13", "X-8", "G-19")
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p;

    piece_init(&p, NULL);
    CHECK_OK(execute(b.pool, &p));
    T_AWAIT(ended(&p) == 1);
    CHECK(p.tid != peer_gettid());
    CHECK(p.current == b.pool);
    CHECK(spn_pool_current() == NULL);
    CHECK_EQ(p.flag, 0);
    bed_close(&b);
    CHECK(ran(&p));
}

static int count_up(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

/* The same function and argument may be handed over any number of times: a thousand
 * accepted are a thousand runs, also with refusals between. */
TEST_EACH(pool__same_call_many_times__each_accepted_one_runs, "TPE-19", "TPE-13")
{
    spn_pool_opts opts = opts_of(2, 3, 0);
    struct bed b = bed_with(k, opts, is(k, LIMITED) ? 5 : SPN_UNBOUNDED);
    spn_executor *ex = spn_pool_executor(b.pool);
    atomic_int runs = 0;
    int accepted = 0;

    while (accepted < 1000) {
        const int rc = spn_executor_call(ex, count_up, &runs);

        CHECK(rc == SPN_OK || rc == SPN_EREJECTED);
        accepted += rc == SPN_OK;
        if (rc != SPN_OK)
            t_pause();
    }
    bed_close(&b);
    CHECK_EQ(atomic_load(&runs), 1000);
}

/* A node that waits already is refused, and the first hand-over stands. */
TEST_EACH(pool__node_still_queued__busy, "TPE-19", "P29")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece hold, p;

    piece_init(&hold, gate);
    piece_init(&p, NULL);
    start(b.pool, &hold);
    CHECK_OK(execute(b.pool, &p));
    CHECK_STATUS(execute(b.pool, &p), SPN_EBUSY);
    CHECK_EQ(pool_stats(b.pool).queued, 1);
    CHECK_EQ(pool_stats(b.pool).accepted, 2);
    gate_open(gate);
    T_AWAIT(ended(&p) == 1);
    CHECK_OK(execute(b.pool, &p)); /* it may come again now */
    bed_close(&b);
    CHECK_EQ(started(&p), 2);
    CHECK_EQ(drops(&p), 0);
    gate_free(gate);
}

/* The node of a task that waits in one pool is busy for every other. */
TEST(pool__node_queued_in_another_pool__busy, "TPE-19", "P29")
{
    spn_pool *one = pool_of(1, 1, 4), *other = pool_of(1, 1, 4);
    spn_latch *gate = gate_new();
    struct piece hold, p;

    piece_init(&hold, gate);
    piece_init(&p, NULL);
    start(one, &hold);
    CHECK_OK(execute(one, &p));
    CHECK_STATUS(execute(other, &p), SPN_EBUSY);
    CHECK_EQ(pool_remove(other, &p.task), 0); /* not theirs to take */
    CHECK_EQ(pool_stats(other).threads, 0);
    gate_open(gate);
    pool_close(one);
    pool_close(other);
    CHECK(ran(&p));
    gate_free(gate);
}

static void submit_again(struct piece *p)
{
    if (started(p) < 5)
        CHECK_OK(spn_executor_execute(spn_pool_executor(p->current), &p->task));
}

/* A task may hand its own node over again while it runs. */
TEST_EACH(pool__task_submits_its_own_node__runs_again, "TPE-13", "TPE-19")
{
    struct bed b = bed_open(k, 1, 1);
    struct piece p;

    piece_init(&p, NULL);
    p.act = submit_again;
    CHECK_OK(execute(b.pool, &p));
    T_AWAIT(ended(&p) == 5);
    bed_close(&b);
    CHECK_EQ(started(&p), 5);
}

static atomic_int freed;

static int free_self(spn_task *task)
{
    free(task);
    atomic_fetch_add(&freed, 1);
    return 0;
}

static void free_dropped(spn_task *task, int reason)
{
    (void)reason;
    free(task);
    atomic_fetch_add(&freed, 1);
}

/* fn and drop may free the node: the pool does not touch it afterwards. */
TEST_EACH(pool__task_frees_its_node__nobody_minds, "TPE-13", "X-9")
{
    struct bed b = bed_open(k, 2, 2);
    const int count = t_rounds(500);
    int64_t left;
    spn_latch *gate = gate_new();
    struct piece hold[2];

    atomic_store(&freed, 0);
    pieces_init(hold, 2, gate);
    for (int i = 0; i < count; i++) {
        spn_task *task = malloc(sizeof *task);

        REQUIRE(task != NULL);
        *task = (spn_task)SPN_TASK_INIT(free_self, free_dropped);
        CHECK_OK(spn_executor_execute(spn_pool_executor(b.pool), task));
    }
    pool_rest(b.pool);
    start(b.pool, &hold[0]);
    start(b.pool, &hold[1]);
    for (int i = 0; i < 10; i++) {
        spn_task *task = malloc(sizeof *task);

        REQUIRE(task != NULL);
        *task = (spn_task)SPN_TASK_INIT(free_self, free_dropped);
        CHECK_OK(spn_executor_execute(spn_pool_executor(b.pool), task));
    }
    CHECK_OK(pool_shutdown_now(b.pool, NULL, NULL, &left));
    CHECK_EQ(left, 10);
    gate_open(gate);
    bed_close(&b);
    CHECK_EQ(atomic_load(&freed), count + 10);
    gate_free(gate);
}

static int call(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* Nothing to run is refused, and nothing has happened. */
TEST(pool__no_task__refused_without_a_trace, "TPE-14", "X-8", "G-2")
{
    spn_pool *pool = pool_of(1, 1, 1);
    spn_executor *ex = spn_pool_executor(pool);
    spn_task hollow = SPN_TASK_INIT(NULL, NULL);
    spn_future *f = (void *)pool;

    CHECK_STATUS(spn_executor_execute(ex, NULL), SPN_EINVAL);
    CHECK_STATUS(spn_executor_execute(ex, &hollow), SPN_EINVAL);
    CHECK_STATUS(spn_executor_call(ex, NULL, &hollow), SPN_EINVAL);
    CHECK_STATUS(spn_executor_submit(ex, NULL, NULL, &f), SPN_EINVAL);
    CHECK(f == NULL);
    CHECK_STATUS(spn_executor_submit(ex, call, NULL, NULL), SPN_EINVAL);
    CHECK_EQ(pool_stats(pool).threads, 0);
    CHECK_EQ(pool_stats(pool).accepted, 0);
    CHECK_EQ(pool_stats(pool).rejected, 0);
    pool_close(pool);
    CHECK_STATUS(spn_executor_execute(NULL, &hollow), SPN_EINVAL);
}

/* ---- core, queue, max ------------------------------------------------------------- */

/* Below core every task gets a thread of its own, though others are idle. */
TEST_EACH(pool__below_core__a_thread_per_task, "TPE-15", "TPE-87")
{
    struct bed b = bed_open(k, 4, 4);
    struct piece p[4];

    pieces_init(p, 4, NULL);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(execute(b.pool, &p[i]));
        CHECK_EQ(pool_stats(b.pool).threads, i + 1);
        pool_rest(b.pool); /* all idle again */
        CHECK_EQ(pool_stats(b.pool).threads, i + 1);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            CHECK(p[i].tid != p[j].tid);
    CHECK_EQ(pool_stats(b.pool).largest, 4);
    bed_close(&b);
}

/* At core, tasks are queued; a full queue makes threads up to max; then the policy is
 * asked. */
TEST_EACH(pool__at_core__queue_then_threads_then_policy, "TPE-15", "TPE-66")
{
    spn_latch *gate = gate_new();
    struct piece p[7];
    struct bed b;

    if (!is(k, LIMITED)) {
        gate_free(gate);
        return;
    }
    b = bed_with(k, opts_of(1, 3, 0), 2);
    pieces_init(p, 7, gate);
    start(b.pool, &p[0]); /* the core thread */
    CHECK_OK(execute(b.pool, &p[1]));
    CHECK_OK(execute(b.pool, &p[2]));
    CHECK_EQ(pool_stats(b.pool).threads, 1); /* both queued */
    CHECK_EQ(pool_stats(b.pool).queued, 2);
    start(b.pool, &p[3]); /* no room: threads above core, and they run at once */
    CHECK_EQ(pool_stats(b.pool).threads, 2);
    start(b.pool, &p[4]);
    CHECK_EQ(pool_stats(b.pool).threads, 3);
    CHECK_EQ(pool_stats(b.pool).queued, 2);
    CHECK(untouched(&p[1]) && untouched(&p[2]));
    CHECK_STATUS(execute(b.pool, &p[5]), SPN_EREJECTED);
    CHECK_STATUS(execute(b.pool, &p[6]), SPN_EREJECTED);
    CHECK_EQ(pool_stats(b.pool).threads, 3);
    CHECK_EQ(pool_stats(b.pool).rejected, 2);
    CHECK_EQ(pool_stats(b.pool).accepted, 5);
    gate_open(gate);
    bed_close(&b);
    for (int i = 0; i < 5; i++)
        CHECK(ran(&p[i]));
    CHECK(untouched(&p[5]) && untouched(&p[6]));
    CHECK_EQ(p[5].task.queued, 0); /* as before */
    gate_free(gate);
}

/* The numbers of the contract: core n, max 3n, room 3n. */
TEST_EACH(pool__saturated_and_max_raised__sizes_as_promised, "TPE-16", "TPE-41")
{
    enum { N = 2 };
    spn_latch *gate = gate_new();
    struct piece p[7 * N];
    struct bed b;

    if (!is(k, LIMITED)) {
        gate_free(gate);
        return;
    }
    b = bed_with(k, opts_of(N, 3 * N, 0), 3 * N);
    pieces_init(p, 7 * N, gate);
    for (int i = 0; i < 6 * N; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    T_AWAIT(pool_stats(b.pool).active == 3 * N);
    CHECK_EQ(pool_stats(b.pool).threads, 3 * N);
    CHECK_EQ(pool_stats(b.pool).largest, 3 * N);
    CHECK_EQ(pool_tasks(b.pool), 6 * N);
    CHECK_EQ(pool_ended(b.pool), 0);
    CHECK_OK(pool_set_max(b.pool, 4 * N));
    for (int i = 6 * N; i < 7 * N; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_EQ(pool_stats(b.pool).threads, 4 * N);
    CHECK_EQ(pool_stats(b.pool).largest, 4 * N);
    gate_open(gate);
    bed_close(&b);
    for (int i = 0; i < 7 * N; i++)
        CHECK(ran(&p[i]));
    gate_free(gate);
}

/* A thread's first task is the one it was made for, ahead of all that wait. */
TEST(pool__thread_above_core__begins_with_its_own_task, "TPE-17")
{
    spn_pool *pool = pool_of(1, 2, 2);
    spn_latch *gate = gate_new();
    struct piece p[4];

    pieces_init(p, 4, gate);
    start(pool, &p[0]);
    CHECK_OK(execute(pool, &p[1]));
    CHECK_OK(execute(pool, &p[2]));
    start(pool, &p[3]);
    CHECK(untouched(&p[1]) && untouched(&p[2]));
    CHECK_EQ(p[3].order - p[0].order, 1);
    gate_open(gate);
    pool_close(pool);
    gate_free(gate);
}

/* One worker takes what one producer queued in its order. */
TEST_EACH(pool__one_worker__queue_order, "TPE-18")
{
    enum { COUNT = 50 };
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    static struct piece p[COUNT];

    pieces_init(p, COUNT, NULL);
    p[0].gate = gate;
    start(b.pool, &p[0]);
    for (int i = 1; i < COUNT; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    gate_open(gate);
    bed_close(&b);
    for (int i = 1; i < COUNT; i++)
        CHECK_EQ(p[i].order, p[i - 1].order + 1);
    gate_free(gate);
}

struct producers {
    spn_pool *pool;
    struct piece *pieces;
    atomic_int turn;
};

static void produce_in_turn(int index, void *arg)
{
    struct producers *x = arg;

    for (int i = index; i < 40; i += 4) {
        T_AWAIT(atomic_load(&x->turn) == i);
        CHECK_OK(execute(x->pool, &x->pieces[i]));
        atomic_store(&x->turn, i + 1);
    }
}

/* A strict queue keeps the order over all producers, not only within one. */
TEST_EACH(pool__many_producers__one_order, "TPE-18")
{
    static struct piece p[40];
    spn_latch *gate = gate_new();
    struct producers x = { .pieces = p };
    struct bed b = bed_open(k, 1, 1);
    struct piece hold;

    pieces_init(p, 40, NULL);
    piece_init(&hold, gate);
    start(b.pool, &hold);
    x.pool = b.pool;
    t_parallel(4, produce_in_turn, &x);
    gate_open(gate);
    bed_close(&b);
    for (int i = 1; i < 40; i++) {
        if (is(k, STRICT))
            CHECK_EQ(p[i].order, p[i - 1].order + 1);
        if (i >= 4) /* of the same producer */
            CHECK(p[i].order > p[i - 4].order);
    }
    gate_free(gate);
}

/* Handed from thread to thread: with no room, a task is taken only if a thread is
 * free. */
TEST(pool__hand_off__taken_only_by_a_free_thread, "TPE-15", "EXE-4")
{
    spn_pool *pool = pool_of(1, 2, SPN_HANDOFF);
    spn_latch *gate = gate_new(), *second = gate_new();
    struct piece p[4];

    pieces_init(p, 4, gate);
    start(pool, &p[0]);
    p[1].gate = second;
    start(pool, &p[1]);
    CHECK_STATUS(execute(pool, &p[2]), SPN_EREJECTED);
    CHECK_EQ(pool_stats(pool).queued, 0);
    gate_open(second);
    T_AWAIT(pool_stats(pool).active == 1);
    /* One is free now; it may need a moment to be ready, but not for ever. */
    T_AWAIT(execute(pool, &p[3]) == SPN_OK);
    T_AWAIT(started(&p[3]) == 1);
    CHECK_EQ(pool_stats(pool).threads, 2);
    CHECK_EQ(p[3].tid, p[1].tid);
    gate_open(gate);
    pool_close(pool);
    CHECK(untouched(&p[2]));
    gate_free(gate);
    gate_free(second);
}

/* ---- threads that cannot be made ------------------------------------------------------ */

/* A factory with so many threads to give. */
struct stingy {
    spn_thread_factory factory;
    atomic_int left, asked;
    int refusal;
};

static int make_some(const spn_thread_factory *factory, spn_thread **out,
                     spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    struct stingy *s = (struct stingy *)(uintptr_t)factory;

    atomic_fetch_add(&s->asked, 1);
    if (atomic_fetch_sub(&s->left, 1) <= 0) {
        *out = NULL;
        return s->refusal;
    }
    return spn_thread_create(out, opts, fn, arg);
}

static void stingy_init(struct stingy *s, int threads)
{
    memset(s, 0, sizeof *s);
    s->factory.size = sizeof s->factory;
    s->factory.create = make_some;
    s->refusal = SPN_EAGAIN;
    atomic_store(&s->left, threads);
}

/* With one thread out of a hundred all the work is done, by that one. */
TEST_EACH(pool__factory_yields_one_thread__all_tasks_run, "TPE-20", "TPE-21")
{
    enum { COUNT = 100 };
    static struct piece p[COUNT];
    struct stingy stingy;
    spn_pool_opts opts = opts_of(COUNT, COUNT, 0);
    struct bed b;

    stingy_init(&stingy, 1);
    opts.factory = &stingy.factory;
    b = bed_with(k, opts, SPN_UNBOUNDED);
    pieces_init(p, COUNT, NULL);
    for (int i = 0; i < COUNT; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_EQ(pool_stats(b.pool).threads, 1);
    CHECK_EQ(pool_stats(b.pool).largest, 1);
    CHECK(pool_stats(b.pool).threads_failed > 0);
    bed_close(&b);
    for (int i = 0; i < COUNT; i++)
        CHECK(ran(&p[i]));
    CHECK_EQ(spn_pool_destroy(NULL), SPN_OK);
}

/* A thread above core that cannot be made is a refusal: the pool is full. */
TEST(pool__factory_fails_above_core__refused, "TPE-21", "TPE-24")
{
    struct stingy stingy;
    spn_pool_opts opts = opts_of(1, 3, 1);
    spn_latch *gate = gate_new();
    spn_pool *pool;
    struct piece p[3];

    stingy_init(&stingy, 1);
    opts.factory = &stingy.factory;
    pool = pool_with(&opts);
    pieces_init(p, 3, gate);
    start(pool, &p[0]);
    CHECK_OK(execute(pool, &p[1]));
    CHECK(execute(pool, &p[2]) < 0);
    CHECK_EQ(pool_stats(pool).threads, 1);
    CHECK_EQ(pool_stats(pool).largest, 1);
    atomic_store(&stingy.left, 1); /* it has one again */
    start(pool, &p[2]);
    CHECK_EQ(pool_stats(pool).threads, 2);
    gate_open(gate);
    pool_close(pool);
    CHECK(ran(&p[0]) && ran(&p[1]) && ran(&p[2]));
    gate_free(gate);
}

/* No thread and none to be had: the task is refused with EAGAIN and not kept, and the
 * pool is as good as new. */
TEST_EACH(pool__no_thread_to_be_had__refused_not_kept, "TPE-22", "TPE-24", "P2")
{
    static const int32_t cores[] = { 1, 0 };

    for (int i = 0; i < 2; i++) {
        struct stingy stingy;
        spn_pool_opts opts = opts_of(cores[i], 2, 0);
        struct piece p;
        struct bed b;

        stingy_init(&stingy, 0);
        opts.factory = &stingy.factory;
        b = bed_with(k, opts, SPN_UNBOUNDED);
        piece_init(&p, NULL);
        CHECK_STATUS(execute(b.pool, &p), SPN_EAGAIN);
        CHECK_STATUS(spn_executor_call(spn_pool_executor(b.pool), count_up, &freed),
                     SPN_EAGAIN);
        CHECK_EQ(pool_stats(b.pool).queued, 0);
        CHECK_EQ(pool_stats(b.pool).threads, 0);
        CHECK_EQ(pool_stats(b.pool).largest, 0);
        CHECK_EQ(pool_stats(b.pool).accepted, 0);
        CHECK_EQ(pool_stats(b.pool).rejected, 2);
        CHECK(pool_stats(b.pool).threads_failed >= 2);
        CHECK_EQ(p.task.queued, 0);
        CHECK(atomic_load(&stingy.asked) >= 2);
        atomic_store(&stingy.left, 10);
        CHECK_OK(execute(b.pool, &p));
        T_AWAIT(ended(&p) == 1);
        bed_close(&b);
        CHECK(ran(&p));
    }
}

/* Whatever a factory fails with, it means that there is no thread: not that the pool is
 * full, or shut down, or that another try would help. */
TEST_EACH(pool__factory_fails_with_any_status__no_thread, "TPE-22", "TPE-24")
{
    for (int refusal = -40; refusal <= 1; refusal++) {
        /* A queue of the user's has the task before a thread is asked for. */
        const int expected =
            refusal == SPN_ENOMEM && !is(k, OWN) ? SPN_ENOMEM : SPN_EAGAIN;
        spn_pool_opts opts = opts_of(1, 2, 0);
        struct stingy stingy;
        struct piece p;
        struct bed b;

        stingy_init(&stingy, 0);
        stingy.refusal = refusal;
        opts.factory = &stingy.factory;
        b = bed_with(k, opts, SPN_UNBOUNDED);
        piece_init(&p, NULL);
        CHECK_STATUS(execute(b.pool, &p), expected);
        CHECK_EQ(spn_pool_prestart(b.pool, 1), SPN_EAGAIN);
        CHECK_EQ(pool_stats(b.pool).queued, 0);
        CHECK_EQ(pool_stats(b.pool).accepted, 0);
        CHECK(pool_stats(b.pool).threads_failed >= 2);
        atomic_store(&stingy.left, 1); /* the pool is as good as new */
        CHECK_OK(execute(b.pool, &p));
        bed_close(&b);
        CHECK(ran(&p));
    }
}

/* Shutting down a pool that never got its thread does not wait for it. */
TEST(pool__no_thread_and_shutdown__no_ghost_is_waited_for, "TPE-24", "TPE-22")
{
    struct stingy stingy;
    spn_pool_opts opts = opts_of(1, 2, 3);
    struct piece p;
    spn_pool *pool;

    stingy_init(&stingy, 0);
    opts.factory = &stingy.factory;
    pool = pool_with(&opts);
    piece_init(&p, NULL);
    CHECK_STATUS(execute(pool, &p), SPN_EAGAIN);
    CHECK_EQ(spn_pool_prestart(pool, 1), SPN_EAGAIN);
    CHECK_EQ(spn_pool_prestart(pool, SPN_DEFAULT), SPN_EAGAIN);
    CHECK_OK(pool_shutdown(pool));
    CHECK_EQ(pool_is_terminated(pool), 1); /* at once */
    CHECK_OK(spn_pool_destroy(pool));
    CHECK(untouched(&p));
}

static int make_none_and_say_ok(const spn_thread_factory *factory, spn_thread **out,
                                spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    (void)opts;
    (void)fn;
    (void)arg;
    *out = NULL;
    return SPN_OK;
}

/* A factory that says it made a thread and has none fails execute, and the count is
 * taken back. */
TEST(pool__factory_gives_no_thread__refused, "TPE-23")
{
    static const spn_thread_factory liar = { sizeof liar, make_none_and_say_ok };
    spn_pool_opts opts = opts_of(1, 2, 3);
    struct piece p;
    spn_pool *pool;
    int rc;

    opts.factory = &liar;
    pool = pool_with(&opts);
    piece_init(&p, NULL);
    rc = execute(pool, &p);
    CHECK(rc == SPN_EAGAIN || rc == SPN_ESTATE);
    CHECK_EQ(pool_stats(pool).threads, 0);
    CHECK_EQ(pool_stats(pool).queued, 0);
    CHECK_OK(pool_shutdown(pool));
    CHECK_EQ(pool_is_terminated(pool), 1);
    CHECK(untouched(&p));
    CHECK_OK(spn_pool_destroy(pool));
}

/* While execute makes a thread the factory runs without a lock: it may ask the pool. */
struct curious {
    spn_thread_factory factory;
    spn_pool *pool;
    int asked, threads;
    char name[32];
};

static int make_and_ask(const spn_thread_factory *factory, spn_thread **out,
                        spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    struct curious *c = (struct curious *)(uintptr_t)factory;

    c->asked++;
    c->threads = pool_stats(c->pool).threads;
    (void)pool_stats(c->pool);
    CHECK_EQ(pool_remove(c->pool, &(spn_task)SPN_TASK_INIT(free_self, NULL)), 0);
    CHECK_EQ(spn_pool_purge(c->pool), 0);
    snprintf(c->name, sizeof c->name, "%s", opts->name);
    return spn_thread_create(out, opts, fn, arg);
}

TEST(pool__factory_asks_the_pool__no_lock_in_its_way, "TPE-24", "TPE-75", "G-23")
{
    struct curious c = { .factory = { sizeof c.factory, make_and_ask } };
    spn_pool_opts opts = opts_of(1, 1, 3);
    struct piece p;

    opts.name = "curious";
    opts.factory = &c.factory;
    c.pool = pool_with(&opts);
    piece_init(&p, NULL);
    start(c.pool, &p);
    CHECK_EQ(c.asked, 1);
    CHECK_EQ(c.threads, 1); /* counted from before it runs */
    CHECK_STR(c.name, "curious-thread-1");
    pool_close(c.pool);
}

/* ---- no memory --------------------------------------------------------------------------- */

/* execute with a thread there needs no memory. */
TEST(pool__no_memory__execute_goes_on, "G-22")
{
    spn_pool *pool = pool_of(1, 1, SPN_UNBOUNDED);
    spn_latch *gate = gate_new();
    struct piece hold, p[3];
    long before;

    piece_init(&hold, gate);
    pieces_init(p, 3, NULL);
    start(pool, &hold);
    before = atomic_load(&counting_allocs);
    atomic_store(&counting_refuse, 1);
    for (int i = 0; i < 3; i++)
        CHECK_OK(execute(pool, &p[i]));
    gate_open(gate);
    for (int i = 0; i < 3; i++)
        T_AWAIT(ended(&p[i]) == 1);
    atomic_store(&counting_refuse, 0);
    CHECK_EQ(atomic_load(&counting_allocs), before);
    pool_close(pool);
    gate_free(gate);
}

static int take_nothing(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* execute on a pool that has been used allocates nothing, and submit the future: also on
 * the way to a thread that waits, and to its end. */
TEST_EACH(pool__used_before__submit_allocates_once_and_execute_never, "G-22")
{
    enum { COUNT = 32 };
    struct bed b = bed_open(k, 1, 1);
    spn_executor *ex = spn_pool_executor(b.pool);
    struct piece hold, p[COUNT];
    spn_future *f[COUNT];
    long before;

    for (int used = is(k, OWN) ? 2 : 0; used < 2; used++) { /* a user's queue may */
        spn_latch *gate = gate_new();

        piece_init(&hold, gate);
        pieces_init(p, COUNT, NULL);
        start(b.pool, &hold); /* nobody else allocates now */
        before = atomic_load(&counting_allocs);
        for (int i = 0; i < COUNT; i++)
            CHECK_OK(execute(b.pool, &p[i]));
        CHECK(used == 0 || atomic_load(&counting_allocs) == before);
        for (int i = 0; i < COUNT; i++) {
            before = atomic_load(&counting_allocs);
            REQUIRE_OK(spn_executor_submit(ex, take_nothing, &b, &f[i]));
            CHECK(used == 0 || atomic_load(&counting_allocs) - before <= 1);
        }
        before = atomic_load(&counting_allocs);
        gate_open(gate);
        pool_rest(b.pool);
        CHECK_EQ(atomic_load(&counting_allocs), before);
        for (int i = 0; i < COUNT; i++) {
            CHECK(ran(&p[i]));
            spn_future_unref(f[i]);
        }
        gate_free(gate);
    }
    for (int i = 0; i < COUNT && !is(k, OWN); i++) { /* one by one: it waits for each */
        before = atomic_load(&counting_allocs);
        REQUIRE_OK(spn_executor_submit(ex, take_nothing, &b, &f[i]));
        T_AWAIT(spn_future_get_state(f[i]) != SPN_FUTURE_PENDING);
        CHECK(atomic_load(&counting_allocs) - before <= 1);
        spn_future_unref(f[i]);
    }
    bed_close(&b);
}

/* No memory for a call is ENOMEM, no rejection: the policy is not asked. */
TEST(pool__no_memory_for_a_call__enomem_and_no_policy, "G-22")
{
    spn_pool *pool = pool_of(1, 1, SPN_UNBOUNDED);
    atomic_int runs = 0;
    spn_future *f;
    struct piece p;

    piece_init(&p, NULL);
    start(pool, &p);
    CHECK_OK(pool_set_reject(pool, spn_reject_caller_runs()));
    atomic_store(&counting_refuse, 1);
    CHECK_STATUS(spn_executor_call(spn_pool_executor(pool), count_up, &runs),
                 SPN_ENOMEM);
    CHECK_STATUS(spn_executor_submit(spn_pool_executor(pool), call, NULL, &f),
                 SPN_ENOMEM);
    CHECK_STATUS(spn_executor_submit_run(spn_pool_executor(pool), count_up, &runs, NULL,
                                         &f),
                 SPN_ENOMEM);
    atomic_store(&counting_refuse, 0);
    CHECK_EQ(pool_stats(pool).rejected_no_memory, 1); /* no future, no submission */
    CHECK_EQ(pool_stats(pool).rejected, 1);
    CHECK_EQ(pool_stats(pool).caller_ran, 0);
    pool_close(pool);
    CHECK_EQ(atomic_load(&runs), 0);
}
