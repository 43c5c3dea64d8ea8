/* SPDX-License-Identifier: MIT */
/* test_pool_presets.c - the well-known pools, the default factory, and the sizing
 * helper. */
#include "pools.h"

#include <pthread.h>
#include <sched.h>

#include <spindle/cpu.h>

/* On one CPU there is still a thread, and work gets done.  (First of all, because it forks.) */
static void on_one_cpu(void *arg)
{
    cpu_set_t all, one;
    size_t cpu = 0;
    spn_pool *pool;
    struct piece p[4];

    (void)arg;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK_EQ(spn_cpu_count(), 1);
    CHECK_EQ(spn_pool_size_for_cpu(), 2);
    pool = pool_with(NULL);
    CHECK_EQ(pool_stats(pool).core_threads, 1);
    pieces_init(p, 4, NULL);
    for (int i = 0; i < 4; i++)
        CHECK_OK(execute(pool, &p[i]));
    pool_close(pool);
    for (int i = 0; i < 4; i++)
        CHECK(ran(&p[i]));
}

TEST(preset__one_cpu__still_a_thread, "S-5", "TPE-13", "P14")
{
    CHECK_CHILD(on_one_cpu, NULL);
}

static int give_back(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* ---- shapes ------------------------------------------------------------------------- */

/* fixed: as many threads, an unbounded queue as Java has it, no time-out. */
TEST(preset__fixed__core_is_max_and_stays, "EXE-1", "EXE-2", "X-13")
{
    spn_pool_opts opts = spn_pool_opts_fixed(2, SPN_UNBOUNDED);
    spn_latch *gate = gate_new();
    spn_pool *pool = pool_with(&opts);
    struct piece p[20];

    CHECK_EQ(pool_stats(pool).core_threads, 2);
    CHECK_EQ(pool_stats(pool).max_threads, 2);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, 0);
    CHECK_EQ(pool_stats(pool).core_timeout, 0);
    CHECK_EQ(pool_stats(pool).capacity, INT64_MAX);
    pieces_init(p, 20, gate);
    for (int i = 0; i < 20; i++)
        CHECK_OK(execute(pool, &p[i]));
    CHECK_EQ(pool_stats(pool).threads, 2);
    gate_open(gate);
    pool_rest(pool);
    CHECK_EQ(pool_stats(pool).threads, 2); /* keep-alive 0 is not for them */
    pool_close(pool);
    gate_free(gate);
    opts = spn_pool_opts_fixed(0, -1);
    CHECK_STATUS(spn_pool_create(&pool, &opts), SPN_EINVAL);
    opts = spn_pool_opts_fixed(-1, -1);
    CHECK_STATUS(spn_pool_create(&pool, &opts), SPN_EINVAL);
}

/* `queues` picks the queue as Dubbo has it, in each preset. */
TEST(preset__queues__zero_negative_positive, "X-13")
{
    static const struct {
        int32_t queues;
        int64_t capacity, eager;
    } rows[] = { { 0, 0, 1 }, { -1, INT64_MAX, 1 }, { -7, INT64_MAX, 1 }, { 5, 5, 5 } };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const spn_pool_opts all[] = {
            spn_pool_opts_fixed(2, rows[i].queues),
            spn_pool_opts_cached(1, 2, rows[i].queues, SPN_SEC(1)),
            spn_pool_opts_limited(1, 2, rows[i].queues),
            spn_pool_opts_eager(1, 2, rows[i].queues, SPN_SEC(1)),
        };

        for (int j = 0; j < 4; j++) {
            spn_pool *pool = pool_with(&all[j]);

            CHECK_EQ(pool_stats(pool).capacity,
                     j == 3 ? rows[i].eager : rows[i].capacity);
            pool_close(pool);
        }
    }
}

/* cached: from core to max, threads expire; Java's: none, as many as can be, 60 s. */
TEST(preset__cached__reuses_an_idle_thread_else_makes_one, "EXE-3", "EXE-4", "X-13")
{
    spn_pool_opts opts = spn_pool_opts_cached(0, SPN_POOL_THREADS_MAX, 0, SPN_SEC(60));
    spn_pool *pool = pool_with(&opts);
    spn_latch *gate = gate_new();
    struct piece p[5];

    CHECK_EQ(pool_stats(pool).core_threads, 0);
    CHECK_EQ(pool_stats(pool).max_threads, SPN_POOL_THREADS_MAX);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, SPN_SEC(60));
    CHECK_EQ(pool_stats(pool).capacity, 0);
    pieces_init(p, 5, gate);
    for (int i = 0; i < 4; i++) { /* at the same time: one each */
        start(pool, &p[i]);
        CHECK_EQ(pool_stats(pool).threads, i + 1);
    }
    gate_open(gate);
    pool_rest(pool);
    p[4].gate = NULL;
    /* A thread that has just finished may need a moment to be ready for the next. */
    T_AWAIT(pool_stats(pool).active == 0);
    CHECK_OK(execute(pool, &p[4]));
    T_AWAIT(ended(&p[4]) == 1);
    CHECK(pool_stats(pool).threads <= 5);
    pool_close(pool);
    gate_free(gate);
}

/* limited: what was made stays. */
TEST(preset__limited__threads_never_expire, "X-13")
{
    spn_pool_opts opts = spn_pool_opts_limited(1, 3, 0);
    spn_pool *pool = pool_with(&opts);
    spn_latch *gate = gate_new();
    struct piece p[3];

    CHECK_EQ(pool_stats(pool).core_threads, 1);
    CHECK_EQ(pool_stats(pool).max_threads, 3);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, INT64_MAX);
    pieces_init(p, 3, gate);
    for (int i = 0; i < 3; i++)
        start(pool, &p[i]);
    gate_open(gate);
    pool_rest(pool);
    CHECK_EQ(pool_stats(pool).threads, 3);
    pool_close(pool);
    gate_free(gate);
}

/* eager with no queue gets a place for one. */
TEST(preset__eager__queue_of_one_at_least, "X-13")
{
    spn_pool_opts opts = spn_pool_opts_eager(1, 2, 0, SPN_SEC(1));
    spn_pool *pool = pool_with(&opts);

    CHECK_EQ(opts.eager, 1);
    CHECK_EQ(pool_stats(pool).capacity, 1);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, SPN_SEC(1));
    pool_close(pool);
}

/* single: one at a time, in order, also over tasks that fail or end the thread; and it
 * cannot be changed. */
TEST(preset__single__strictly_one_after_another, "EXE-5", "EXE-6", "EXE-7")
{
    spn_pool_opts opts = spn_pool_opts_single();
    enum { COUNT = 60 };
    static struct piece p[COUNT];
    spn_pool *pool;

    opts.hooks.uncaught = uncaught_quietly;
    pool = pool_with(&opts);
    CHECK_EQ(pool_stats(pool).core_threads, 1);
    CHECK_EQ(pool_stats(pool).max_threads, 1);
    CHECK_EQ(pool_stats(pool).capacity, INT64_MAX);
    CHECK_STATUS(pool_set_core(pool, 1), SPN_ESTATE);
    CHECK_STATUS(pool_set_max(pool, 2), SPN_ESTATE);
    pieces_init(p, COUNT, NULL);
    for (int i = 0; i < COUNT; i++) {
        p[i].code = i % 7 == 3 ? -1 : 0;
        p[i].dies = i % 11 == 5;
        CHECK_OK(execute(pool, &p[i]));
    }
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(pool_await(pool, SPN_FOREVER));
    for (int i = 0; i < COUNT; i++) {
        CHECK(ran(&p[i]));
        CHECK(i == 0 || p[i].order == p[i - 1].order + 1);
    }
    pool_close(pool);
}

struct overlap {
    atomic_int inside, most;
};

static void stay_a_while(struct piece *p)
{
    struct overlap *o = p->arg;
    const int now = atomic_fetch_add(&o->inside, 1) + 1;
    int most = atomic_load(&o->most);

    while (now > most && !atomic_compare_exchange_weak(&o->most, &most, now)) {
    }
    for (int i = 0; i < 3; i++)
        sched_yield();
    atomic_fetch_sub(&o->inside, 1);
}

/* At most one task of a single pool runs at any time, also while threads are replaced. */
TEST(preset__single_under_replacement__never_two_at_once, "EXE-6")
{
    spn_pool_opts opts = spn_pool_opts_single();
    enum { COUNT = 200 };
    static struct piece p[COUNT];
    struct overlap o = { 0 };
    spn_pool *pool;

    opts.hooks.uncaught = uncaught_quietly;
    pool = pool_with(&opts);
    pieces_init(p, COUNT, NULL);
    for (int i = 0; i < COUNT; i++) {
        p[i].act = stay_a_while;
        p[i].arg = &o;
        p[i].dies = i % 2;
        CHECK_OK(execute(pool, &p[i]));
    }
    pool_close(pool);
    CHECK_EQ(atomic_load(&o.most), 1);
}

static int wait_at_gate(void *arg, void **result)
{
    (void)result;
    return spn_latch_await(arg, SPN_FOREVER);
}

/* Every preset: a timed get on a long task times out and leaves it running; a plain
 * get yields the value. */
TEST(preset__each__runs_calls_and_lets_getters_go, "EXE-10", "EXE-12")
{
    spn_pool_opts all[] = {
        spn_pool_opts_fixed(2, SPN_UNBOUNDED),
        spn_pool_opts_cached(0, 4, 0, SPN_SEC(60)),
        spn_pool_opts_limited(1, 2, 4),
        spn_pool_opts_eager(1, 2, 4, SPN_SEC(60)),
        spn_pool_opts_single(),
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        spn_pool *pool = pool_with(&all[i]);
        spn_latch *gate = gate_new();
        spn_future *f, *g;
        void *value = NULL;

        REQUIRE_OK(
            spn_executor_submit(spn_pool_executor(pool), wait_at_gate, gate, &f));
        CHECK_STATUS(spn_future_get(f, NULL, T_PROBE_NS), SPN_ETIMEDOUT);
        CHECK_EQ(spn_future_get_state(f), SPN_FUTURE_PENDING);
        gate_open(gate);
        CHECK_OK(spn_future_get(f, &value, SPN_FOREVER)); /* it went on */
        CHECK(value == NULL);                             /* it has no result */
        T_AWAIT(pool_stats(pool).active == 0);
        REQUIRE_OK(
            spn_executor_submit(spn_pool_executor(pool), give_back, &all[i], &g));
        CHECK_OK(spn_future_get(g, &value, SPN_FOREVER));
        CHECK(value == &all[i]);
        spn_future_unref(f);
        spn_future_unref(g);
        pool_close(pool);
        gate_free(gate);
    }
}

/* A pool is not ended by forgetting it: it must be shut down, and says so. */
TEST(preset__forgotten__must_be_shut_down, "EXE-15")
{
    spn_pool_opts opts = spn_pool_opts_single();
    spn_pool *pool = pool_with(&opts);
    struct piece p;

    piece_init(&p, NULL);
    CHECK_OK(execute(pool, &p));
    pool_rest(pool);
    CHECK_STATUS(spn_pool_destroy(pool), SPN_EBUSY);
    CHECK_EQ(pool_stats(pool).threads, 1);
    pool_close(pool);
}

/* ---- the default factory -------------------------------------------------------------- */

struct seen {
    char name[64];
    int policy, priority;
};

static void see_thread(struct piece *p)
{
    struct seen *s = p->arg;
    struct sched_param param;

    CHECK(spn_thread_name(spn_thread_current(), s->name, sizeof s->name) > 0);
    CHECK(pthread_getschedparam(pthread_self(), &s->policy, &param) == 0);
    s->priority = param.sched_priority;
}

/* Threads are named after their pool and numbered from one; a pool without a name is
 * "pool-N", with N growing over the process; none has a priority above the normal. */
TEST(factory__default__names_and_numbers, "EXE-11")
{
    struct seen s[3];
    struct piece p[3];
    spn_pool *pool, *named[2];
    spn_pool_opts opts = opts_of(3, 3, 4);
    int first, second;

    opts.name = "io";
    pool = pool_with(&opts);
    pieces_init(p, 3, NULL);
    for (int i = 0; i < 3; i++) {
        char wanted[32];

        p[i].act = see_thread;
        p[i].arg = &s[i];
        CHECK_OK(execute(pool, &p[i]));
        T_AWAIT(ended(&p[i]) == 1);
        snprintf(wanted, sizeof wanted, "io-thread-%d", i + 1);
        CHECK_STR(s[i].name, wanted);
        CHECK_EQ(s[i].policy, SCHED_OTHER);
        CHECK_EQ(s[i].priority, 0);
    }
    CHECK_STR(pool_stats(pool).name, "io");
    pool_close(pool);

    for (int i = 0; i < 2; i++)
        named[i] = pool_of(1, 1, 1);
    REQUIRE(sscanf(pool_stats(named[0]).name, "pool-%d", &first) == 1);
    REQUIRE(sscanf(pool_stats(named[1]).name, "pool-%d", &second) == 1);
    CHECK(first >= 1);
    CHECK_EQ(second, first + 1);
    piece_init(&p[0], NULL);
    p[0].act = see_thread;
    p[0].arg = &s[0];
    CHECK_OK(execute(named[1], &p[0]));
    T_AWAIT(ended(&p[0]) == 1);
    CHECK(strstr(s[0].name, "-thread-1") != NULL);
    CHECK(strncmp(s[0].name, pool_stats(named[1]).name,
                  strlen(pool_stats(named[1]).name)) == 0);
    pool_close(named[0]);
    pool_close(named[1]);
}

/* What the pool was told of threads reaches them: stack, start and stop hooks. */
static atomic_int thread_starts, thread_stops;

static void at_start(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void at_stop(void *arg)
{
    (void)arg;
    atomic_fetch_add(&thread_stops, 1);
}

static void see_stack(struct piece *p)
{
    pthread_attr_t attr;

    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
    CHECK(pthread_attr_getstacksize(&attr, p->arg) == 0);
    pthread_attr_destroy(&attr);
}

TEST(factory__thread_options__reach_the_threads, "EXE-11")
{
    spn_thread_opts thread = SPN_THREAD_OPTS_INIT;
    spn_pool_opts opts = opts_of(2, 2, 4);
    size_t stack[2] = { 0, 0 };
    struct piece p[2];
    spn_pool *pool;

    atomic_store(&thread_starts, 0);
    atomic_store(&thread_stops, 0);
    thread.stack_size = 1 << 20;
    thread.on_start = at_start;
    thread.on_stop = at_stop;
    thread.hook_arg = &thread_starts;
    opts.thread = &thread;
    pool = pool_with(&opts);
    pieces_init(p, 2, NULL);
    for (int i = 0; i < 2; i++) {
        p[i].act = see_stack;
        p[i].arg = &stack[i];
        CHECK_OK(execute(pool, &p[i]));
    }
    pool_close(pool);
    CHECK_EQ(atomic_load(&thread_starts), 2);
    T_AWAIT(atomic_load(&thread_stops) == 2);
    CHECK(stack[0] >= 1 << 20 && stack[0] < 2 << 20);
}

/* ---- how many threads -------------------------------------------------------------------- */

/* CPU-bound one more than there are CPUs, I/O-bound by the share of waiting. */
TEST(sizing__cpu_and_io__as_the_rule_says, "S-5")
{
    const int32_t cpus = spn_cpu_count();

    CHECK(cpus >= 1);
    CHECK_EQ(spn_pool_size_for_cpu(), cpus + 1);
    CHECK_EQ(spn_pool_size_for_io(0.0), cpus);
    CHECK_EQ(spn_pool_size_for_io(0.5), 2 * cpus);
    CHECK_EQ(spn_pool_size_for_io(0.8), 5 * cpus);
    CHECK_EQ(spn_pool_size_for_io(0.9), 10 * cpus);
    CHECK(spn_pool_size_for_io(0.999999999999) >= 1);
    CHECK(spn_pool_size_for_io(0.999999999999) <= SPN_POOL_THREADS_MAX);
    CHECK_EQ(spn_pool_size_for_io(0.25),
             (4 * cpus + 2) / 3); /* up: a part of a thread */
    CHECK_STATUS(spn_pool_size_for_io(1.0), SPN_EINVAL);
    CHECK_STATUS(spn_pool_size_for_io(-0.1), SPN_EINVAL);
}

/* Without a thread above core: those that end are replaced, and as many tasks run at once as
 * before. */
TEST(sizing__core_threads_end__pool_is_whole_again, "S-5")
{
    enum { CORE = 3 };
    spn_pool_opts opts = spn_pool_opts_fixed(CORE, SPN_UNBOUNDED);
    spn_latch *gate = gate_new();
    struct piece dying[2 * CORE], held[CORE];
    spn_pool *pool;

    opts.hooks.uncaught = uncaught_quietly;
    pool = pool_with(&opts);
    pieces_init(dying, 2 * CORE, NULL);
    for (int i = 0; i < 2 * CORE; i++) {
        dying[i].dies = 1;
        CHECK_OK(execute(pool, &dying[i]));
    }
    pool_rest(pool);
    pieces_init(held, CORE, gate);
    for (int i = 0; i < CORE; i++)
        start(pool, &held[i]); /* each of them, with the others held */
    CHECK_EQ(pool_stats(pool).threads, CORE);
    CHECK_EQ(pool_stats(pool).threads_died, 2 * CORE);
    gate_open(gate);
    pool_close(pool);
    gate_free(gate);
}
