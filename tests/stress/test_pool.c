/* SPDX-License-Identifier: MIT */
/*
 * test_pool.c - pools under everything at once, on the real clock: many producers,
 * tasks that submit again, fail, block, interrupt and end their threads, tasks taken
 * back, and one thread that turns every knob at random.
 *
 * A fixed set of nodes goes round and round.  Each node counts how often it was
 * accepted, ran, was dropped and was given back; at the end the first is the sum of the
 * others for every single node, and the pool's own books say the same in total.  So a
 * task that is lost shows, and one that ran twice, and not only their difference.
 *
 * The long version (make test-long) does fifty million tasks, with producers and tasks
 * that dawdle, threads moved from CPU to CPU, and the whole process stopped and
 * continued from outside.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "pools.h"

enum { NODES = 512, PRODUCERS = 3, LONG_PARTS = 10 };

struct node {
    spn_job job; /* first */
    struct load *load;
    atomic_uint accepted, ran, dropped, returned;
    atomic_uint again; /* how often it submits itself, still */
    uint32_t dice;     /* what it does; set before it is handed over */
};

struct shape {
    const struct pool_kind *kind;
    int32_t core, max, capacity;
    int64_t keep_alive_ns;
    long tasks;   /* to be accepted, about */
    bool knobs;   /* somebody turns them */
    bool stutter; /* producers and tasks dawdle */
    bool now;     /* it ends with shutdown_now, in the middle */
    bool eager;
};

struct load {
    struct shape shape;
    spn_pool *pool;
    struct node *nodes;
    atomic_long wanted; /* tasks still to be accepted */
    atomic_int producing;
    atomic_long calls, call_runs, call_drops;
    atomic_long futures, future_runs, future_cancels;
    atomic_long deaths;
    uint64_t seed;
};

static void dawdle(uint64_t *seed)
{
    const uint64_t dice = t_random(seed) % 4096;

    if (dice < 64)
        for (volatile uint64_t i = dice * 16; i > 0; i--) {
        }
    else if (dice < 80)
        sched_yield();
}

/* ---- tasks --------------------------------------------------------------------------- */

static struct node *node_of(spn_task *task)
{
    return (struct node *)(void *)task;
}

/* What was accepted is counted by who submitted; EBUSY is somebody else's node. */
static bool hand_over(struct load *l, struct node *n)
{
    const int rc = spn_executor_execute(spn_pool_executor(l->pool), &n->job.task);

    CHECK(rc == SPN_OK || rc == SPN_EBUSY || rc == SPN_EREJECTED || rc == SPN_EAGAIN);
    if (rc == SPN_OK)
        atomic_fetch_add(&n->accepted, 1);
    return rc == SPN_OK;
}

static int run_node(spn_task *task)
{
    struct node *n = node_of(task);
    struct load *l = n->load;
    const uint32_t dice = n->dice;
    uint64_t seed = l->seed ^ dice;

    atomic_fetch_add(&n->ran, 1);
    if (l->shape.stutter)
        dawdle(&seed);
    if (dice % 8 == 0) {
        unsigned again = atomic_load(&n->again);

        while (again > 0 &&
               !atomic_compare_exchange_weak(&n->again, &again, again - 1)) {
        }
        if (again > 0)
            (void)hand_over(l, n);
    }
    if (dice % 61 == 1)
        CHECK_OK(spn_thread_interrupt(spn_thread_current()));
    if (dice % 53 == 2) {
        spn_pool_block_begin();
        sched_yield();
        spn_pool_block_end();
    }
    if (dice % 997 == 3) {
        atomic_fetch_add(&l->deaths, 1);
        pthread_exit(NULL);
    }
    return dice % 97 == 4 ? -1 : 0;
}

static void drop_node(spn_task *task, int reason)
{
    CHECK(reason < 0);
    atomic_fetch_add(&node_of(task)->dropped, 1);
}

static void return_node(void *ctx, spn_task *task)
{
    (void)ctx;
    if (task->drop == drop_node)
        atomic_fetch_add(&node_of(task)->returned, 1);
    else
        CHECK_OK(spn_task_drop(task, SPN_ESHUTDOWN)); /* a call, or a future */
}

static int run_call(void *arg)
{
    atomic_fetch_add(&((struct load *)arg)->call_runs, 1);
    return 0;
}

static int run_future(void *arg, void **result)
{
    atomic_fetch_add(&((struct load *)arg)->future_runs, 1);
    *result = arg;
    return 0;
}

/* ---- producers ------------------------------------------------------------------------- */

static void use_a_future(struct load *l, uint64_t *seed)
{
    spn_future *f;
    void *value = NULL;
    int rc = spn_executor_submit(spn_pool_executor(l->pool), run_future, l, &f);

    CHECK(rc == SPN_OK || rc == SPN_EREJECTED || rc == SPN_EAGAIN);
    if (rc != SPN_OK)
        return;
    atomic_fetch_add(&l->futures, 1);
    if (t_random(seed) % 4 == 0)
        (void)spn_future_cancel(f, (int)(t_random(seed) % 2));
    /* A paused or stopped pool may not run it for a long time, or ever. */
    rc = spn_future_get(f, &value, SPN_US(200));
    CHECK(rc == SPN_OK || rc == SPN_ECANCELED || rc == SPN_ETIMEDOUT ||
          rc == SPN_EFAILED);
    CHECK(rc != SPN_OK || value == l);
    spn_future_unref(f);
}

static void produce(struct load *l, int index)
{
    uint64_t seed = l->seed + (uint64_t)index * UINT64_C(0x9E3779B97F4A7C15);

    while (atomic_load(&l->wanted) > 0 && spn_pool_is_shutdown(l->pool) == 0) {
        const uint64_t dice = t_random(&seed);
        struct node *n = &l->nodes[t_random(&seed) % NODES];

        if (l->shape.stutter)
            dawdle(&seed);
        switch (dice % 64) {
        case 0:
            use_a_future(l, &seed);
            atomic_fetch_sub(&l->wanted, 1);
            break;
        case 1:
        case 2: {
            const int rc = spn_executor_call(spn_pool_executor(l->pool), run_call, l);

            CHECK(rc == SPN_OK || rc == SPN_EREJECTED || rc == SPN_EAGAIN);
            if (rc == SPN_OK) {
                atomic_fetch_add(&l->calls, 1);
                atomic_fetch_sub(&l->wanted, 1);
            }
            break;
        }
        case 3: /* one that may be queued */
            if (spn_pool_remove(l->pool, &n->job.task) == 1)
                atomic_fetch_add(&n->returned, 1);
            break;
        case 4:
            CHECK(spn_pool_cancel_owner(l->pool, n) >= 0);
            break;
        default:
            if (hand_over(l, n))
                atomic_fetch_sub(&l->wanted, 1);
            else if (dice % 3 == 0)
                sched_yield();
            break;
        }
    }
}

/* ---- knobs ------------------------------------------------------------------------------- */

static void turn_a_knob(struct load *l, uint64_t *seed)
{
    const spn_reject_policy *const policies[] = { spn_reject_abort(),
                                                  spn_reject_discard(),
                                                  spn_reject_discard_oldest() };
    spn_pool_change c = SPN_POOL_CHANGE_INIT;
    spn_pool_stats s;
    int rc;

    switch (t_random(seed) % 9) {
    case 0:
        c.core_threads = (int32_t)(t_random(seed) % (uint64_t)(l->shape.max + 1));
        c.max_threads =
            c.core_threads + (int32_t)(t_random(seed) % (uint64_t)l->shape.max);
        c.max_threads += c.max_threads == 0;
        break;
    case 1:
        c.keep_alive_ns = 1 + (int64_t)(t_random(seed) % 100000);
        break;
    case 2:
        if (is(l->shape.kind, LIMITED) && !is(l->shape.kind, OWN))
            c.queue_capacity = 1 + (int32_t)(t_random(seed) % 200);
        break;
    case 3:
        c.core_timeout = (int32_t)(t_random(seed) % 2);
        break;
    case 4:
        c.reject = policies[t_random(seed) % 3];
        break;
    case 5:
        rc = spn_pool_pause(l->pool);
        CHECK(rc == SPN_OK || rc == SPN_ESTATE);
        sched_yield();
        rc = spn_pool_resume(l->pool);
        CHECK(rc == SPN_OK || rc == SPN_ESTATE);
        return;
    case 6:
        CHECK(spn_pool_purge(l->pool) >= 0);
        return;
    case 7:
        CHECK(spn_pool_prestart_all(l->pool) >= 0);
        return;
    default:
        s = stats_of(l->pool);
        CHECK(plausible(&s));
        return;
    }
    rc = spn_pool_reconfigure(l->pool, &c);
    /* A core time-out needs a keep-alive, and some change the other at once. */
    CHECK(rc == SPN_OK || (rc == SPN_EINVAL && c.core_timeout == 1));
}

static void work(int index, void *arg)
{
    struct load *l = arg;
    uint64_t seed = l->seed ^ UINT64_C(0x5bf03635);

    if (index < PRODUCERS) {
        produce(l, index);
        atomic_fetch_sub(&l->producing, 1);
        return;
    }
    while (atomic_load(&l->producing) > 0) {
        if (l->shape.knobs)
            turn_a_knob(l, &seed);
        for (uint64_t i = t_random(&seed) % 20; i > 0; i--)
            sched_yield();
        if (l->shape.now && atomic_load(&l->wanted) < l->shape.tasks / 2)
            CHECK_OK(spn_pool_shutdown_now(l->pool, return_node, NULL, NULL));
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void check_nodes(struct load *l)
{
    const spn_pool_stats s = stats_of(l->pool);
    int64_t accepted = 0, ran = 0;

    for (int i = 0; i < NODES; i++) {
        struct node *n = &l->nodes[i];

        if (!CHECK_EQ(atomic_load(&n->accepted), atomic_load(&n->ran) +
                                                     atomic_load(&n->dropped) +
                                                     atomic_load(&n->returned)))
            fprintf(stderr, "  node %d: accepted %u, ran %u, dropped %u, returned %u\n",
                    i, atomic_load(&n->accepted), atomic_load(&n->ran),
                    atomic_load(&n->dropped), atomic_load(&n->returned));
        CHECK_EQ(n->job.task.queued, 0);
        accepted += atomic_load(&n->accepted);
        ran += atomic_load(&n->ran);
    }
    CHECK_EQ(s.accepted, accepted + atomic_load(&l->calls) + atomic_load(&l->futures));
    CHECK(s.completed + s.failed >= ran + atomic_load(&l->call_runs));
    CHECK_EQ(s.threads_died, atomic_load(&l->deaths));
    if (!l->shape.now && !l->shape.knobs)
        CHECK_EQ(atomic_load(&l->call_runs), atomic_load(&l->calls));
}

static void run_load(struct shape shape)
{
    spn_pool_opts opts = opts_of(shape.core, shape.max, 0);
    static struct load l;
    uint64_t seed;
    struct bed b;

    memset(&l, 0, sizeof l);
    l.shape = shape;
    l.seed = seed = t_seed();
    l.nodes = calloc(NODES, sizeof *l.nodes);
    REQUIRE(l.nodes != NULL);
    for (int i = 0; i < NODES; i++) {
        struct node *n = &l.nodes[i];

        n->job = (spn_job)SPN_JOB_INIT(run_node, drop_node);
        n->job.priority = (int32_t)(t_random(&seed) % 4);
        n->job.urgent = t_random(&seed) % 64 == 0;
        n->job.owner = n;
        n->dice = (uint32_t)t_random(&seed);
        n->load = &l;
        atomic_store(&n->again, (unsigned)shape.tasks / NODES);
    }
    atomic_store(&l.wanted, shape.tasks);
    atomic_store(&l.producing, PRODUCERS);
    opts.keep_alive_ns = shape.keep_alive_ns;
    opts.hooks.uncaught = uncaught_quietly;
    opts.eager = shape.eager;
    b = bed_with(shape.kind, opts,
                 is(shape.kind, LIMITED) ? shape.capacity : SPN_UNBOUNDED);
    l.pool = b.pool;
    t_parallel(PRODUCERS + 1, work, &l);
    CHECK_OK(spn_pool_shutdown(b.pool));
    CHECK_OK(spn_pool_await(b.pool, SPN_FOREVER));
    check_nodes(&l);
    bed_close(&b);
    free(l.nodes);
}

/* Everything at once, knobs turning: each task has one end. */
TEST_EACH(stress_pool__everything_at_once__each_task_once, "TPE-13", "TPE-36", "TPE-43",
          "TPE-61", "P19", "P36")
{
    run_load((struct shape){ .kind = k,
                             .core = 2,
                             .max = 4,
                             .capacity = 64,
                             .keep_alive_ns = SPN_US(50),
                             .tasks = t_rounds(20000),
                             .knobs = true });
}

/* Eager, where the count of tasks on their way must come back to zero. */
TEST(stress_pool__eager__each_task_once, "S-1", "X-10", "P19")
{
    static const struct pool_kind fifo = { "fifo", SPN_POOL_FIFO, 0, STRICT | LIMITED };

    run_load((struct shape){ .kind = &fifo,
                             .core = 1,
                             .max = 5,
                             .capacity = 32,
                             .keep_alive_ns = SPN_US(50),
                             .tasks = t_rounds(20000),
                             .knobs = true,
                             .eager = true });
}

/* Stopped in the middle: what did not run comes back. */
TEST_EACH(stress_pool__stopped_in_the_middle__run_or_returned, "TPE-52", "TPE-62", "P3")
{
    for (int i = 0; i < 8; i++)
        run_load((struct shape){ .kind = k,
                                 .core = 1 + i % 3,
                                 .max = 3,
                                 .capacity = 64,
                                 .keep_alive_ns = SPN_US(50),
                                 .tasks = t_rounds(2000),
                                 .now = true });
}

/* Threads that leave as soon as they are idle: none takes a task with it. */
TEST_EACH(stress_pool__no_keep_alive__each_task_once, "TPE-35", "P1", "P37", "P46")
{
    run_load((struct shape){ .kind = k,
                             .core = 0,
                             .max = 3,
                             .capacity = 8,
                             .keep_alive_ns = 0,
                             .tasks = t_rounds(10000),
                             .stutter = true });
}

/* On one CPU a thread is preempted between any two steps, and spinning is of no use. */
TEST_EACH(stress_pool__on_one_cpu__each_task_once, "TPE-13", "P14")
{
    cpu_set_t all, one;
    size_t cpu = 0;

    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0); /* threads inherit it */
    run_load((struct shape){ .kind = k,
                             .core = 2,
                             .max = 4,
                             .capacity = 64,
                             .keep_alive_ns = SPN_US(50),
                             .tasks = t_rounds(8000),
                             .knobs = true });
    REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
}

/* Pools of one thread, of as many as a word has bits, of one more, and of many. */
TEST_EACH(stress_pool__few_and_many_threads__each_task_once, "TPE-15", "TPE-41")
{
    static const int32_t sizes[] = { 1, 64, 65, 200 };

    for (int i = 0; i < 4; i++)
        run_load((struct shape){ .kind = k,
                                 .core = sizes[i],
                                 .max = sizes[i],
                                 .capacity = 256,
                                 .keep_alive_ns = SPN_MS(1),
                                 .tasks = t_rounds(6000) });
}

/* ---- submit against shutdown, over and over --------------------------------------------------- */

struct duel {
    spn_pool *pool;
    atomic_long accepted, runs;
    uint64_t seed;
};

static int count_run(void *arg)
{
    atomic_fetch_add(&((struct duel *)arg)->runs, 1);
    return 0;
}

static void duel(int index, void *arg)
{
    struct duel *d = arg;
    uint64_t seed = d->seed;

    if (index == 0) {
        for (uint64_t i = t_random(&seed) % 10; i > 0; i--)
            sched_yield();
        CHECK_OK(spn_pool_shutdown(d->pool));
        return;
    }
    for (int i = 0; i < 20; i++) {
        const int rc = spn_executor_call(spn_pool_executor(d->pool), count_run, d);

        CHECK(rc == SPN_OK || rc == SPN_EREJECTED);
        if (rc != SPN_OK)
            break;
        atomic_fetch_add(&d->accepted, 1);
    }
}

/* Many short lives: whatever was accepted before the end has run. */
static void live_shortly(const struct pool_kind *k, int rounds)
{
    uint64_t seed = t_seed();

    for (int i = 0; i < rounds; i++) {
        struct duel d = { .seed = t_random(&seed) };
        struct bed b = bed_open(k, i % 3, 2);

        d.pool = b.pool;
        t_parallel(3, duel, &d);
        CHECK_OK(spn_pool_await(b.pool, SPN_FOREVER));
        CHECK_EQ(atomic_load(&d.runs), atomic_load(&d.accepted));
        bed_close(&b);
    }
}

TEST_EACH(stress_pool__short_lives__accepted_is_run, "TPE-61", "TPE-22", "P3")
{
    live_shortly(k, t_rounds(200));
}

/* ---- submit at the very end of the keep-alive ---------------------------------------------------- */

/* One thread at most, which leaves when it has been idle for about as long as the
 * submitter waits: the task always finds a thread, or a new one is made. */
TEST_EACH(stress_pool__submit_at_the_keep_alive__runs, "TPE-35", "P1")
{
    const int64_t until = spn_now() + t_scaled(SPN_MS(150)) / 2;
    spn_pool_opts opts = opts_of(0, 1, 0);
    uint64_t seed = t_seed();
    struct bed b;

    opts.keep_alive_ns = SPN_US(30);
    b = bed_with(k, opts, SPN_UNBOUNDED);
    while (spn_now() < until) {
        struct piece p;
        int64_t from;

        piece_init(&p, NULL);
        CHECK_OK(execute(b.pool, &p));
        T_AWAIT(ended(&p) == 1); /* the watchdog ends a test that waits for ever */
        from = spn_now();
        while (spn_now() - from < (int64_t)(t_random(&seed) % 60000)) {
        }
    }
    bed_close(&b);
}

/* ---- make test-long --------------------------------------------------------------------------------- */

struct shuffle {
    atomic_int stop;
    cpu_set_t all; /* the CPUs the process had before */
};

/* Moves the process's threads from CPU to CPU. */
static int shuffle_affinity(void *arg)
{
    struct shuffle *s = arg;
    uint64_t seed = t_seed();

    while (atomic_load(&s->stop) == 0) {
        DIR *dir = opendir("/proc/self/task");

        REQUIRE(dir != NULL);
        for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
            cpu_set_t some;

            CPU_ZERO(&some);
            for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &s->all) && t_random(&seed) % 2 == 0)
                    CPU_SET(cpu, &some);
            if (e->d_name[0] != '.' && CPU_COUNT(&some) > 0)
                (void)!sched_setaffinity(atoi(e->d_name), sizeof some, &some);
        }
        closedir(dir);
        for (int i = 0; i < 100 && atomic_load(&s->stop) == 0; i++)
            t_pause();
    }
    return 0;
}

/* A process that stops this one for a moment, again and again, until the pipe is
 * closed.  It goes by itself, and is not killed: in the moment between a stop and its
 * end nobody would be left to continue us. */
struct stopper {
    pid_t pid;
    int leash; /* the end of the pipe that is written to */
};

__attribute__((noreturn)) static void stop_and_go(pid_t victim, int leash,
                                                  uint64_t seed)
{
    struct pollfd closed = { .fd = leash };

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == victim) {
        const struct timespec stop = { 0, (long)(t_random(&seed) % 3000000) };
        const struct timespec run = { 0, (long)(t_random(&seed) % 20000000) };

        if (ppoll(&closed, 1, &run, NULL) != 0 || kill(victim, SIGSTOP) != 0)
            break;
        nanosleep(&stop, NULL);
        (void)kill(victim, SIGCONT);
    }
    _exit(0);
}

static struct stopper start_stopper(uint64_t seed)
{
    const pid_t victim = getpid();
    struct stopper s;
    int ends[2];

    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    s.pid = fork();
    REQUIRE(s.pid >= 0);
    if (s.pid == 0) {
        (void)close(ends[1]);
        stop_and_go(victim, ends[0], seed);
    }
    (void)close(ends[0]);
    s.leash = ends[1];
    return s;
}

static void end_stopper(struct stopper s)
{
    int status;

    (void)close(s.leash);
    REQUIRE(waitpid(s.pid, &status, 0) == s.pid);
}

static void say_progress(const struct pool_kind *k, int part, long tasks, int64_t from)
{
    fprintf(stderr, "  %s: part %d of %d, %ld tasks, %.1f s\n", k->name, part + 1,
            LONG_PARTS, tasks, (double)(spn_now() - from) / 1e9);
}

static void run_long(const struct pool_kind *k, long tasks)
{
    const struct stopper stopper = start_stopper(t_seed());
    const bool aloud = tasks >= 1000000; /* it takes minutes */
    struct shuffle shuffle = { .stop = 0 };
    struct peer shuffler;

    REQUIRE(sched_getaffinity(0, sizeof shuffle.all, &shuffle.all) == 0);
    peer_start(&shuffler, shuffle_affinity, &shuffle);
    for (int part = 0; part < LONG_PARTS; part++) {
        const int64_t from = spn_now();

        run_load((struct shape){ .kind = k,
                                 .core = 1 + part % 3,
                                 .max = part == 9 ? 65 : 3 + part % 3,
                                 .capacity = 200,
                                 .keep_alive_ns = part % 2 != 0 ? 0 : SPN_US(50),
                                 .tasks = tasks / LONG_PARTS,
                                 .knobs = part % 4 == 3,
                                 .stutter = true });
        if (aloud)
            say_progress(k, part, tasks / LONG_PARTS, from);
    }
    atomic_store(&shuffle.stop, 1);
    CHECK_OK(peer_finish(&shuffler));
    /* The shuffler left this thread where it was; its children would stay there too. */
    REQUIRE(sched_setaffinity(0, sizeof shuffle.all, &shuffle.all) == 0);
    end_stopper(stopper);
}

/* Fifty million tasks, and each is accounted for. */
TEST_WHEN_NAMED(stress_pool__fifty_million_tasks__each_accounted_for)
{
    static const struct pool_kind kinds[] = {
        { "fifo", SPN_POOL_FIFO, 0, STRICT | LIMITED | INTERIOR },
        { "lanes", SPN_POOL_LANES, 0, INTERIOR },
        { "priority", SPN_POOL_PRIORITY, 0, STRICT | LIMITED | INTERIOR },
        { "own_linked", SPN_POOL_FIFO, SPN_QUEUE_LINKED,
          STRICT | OWN | LIMITED | INTERIOR },
    };

    run_long(&kinds[0], t_rounds(20000000));
    run_long(&kinds[1], t_rounds(20000000));
    run_long(&kinds[2], t_rounds(5000000));
    run_long(&kinds[3], t_rounds(5000000));
}

/* The same, small, so that the long one is known to work. */
TEST(stress_pool__stopped_and_shuffled__each_accounted_for)
{
    static const struct pool_kind fifo = { "fifo", SPN_POOL_FIFO, 0,
                                           STRICT | LIMITED | INTERIOR };

    run_long(&fifo, t_rounds(20000));
}
