/* SPDX-License-Identifier: MIT */
/*
 * test_pool.c - pools under everything at once, on the real clock: many producers,
 * tasks that submit again, fail, block, interrupt and end their threads, tasks taken
 * back, and one thread that turns every knob at random.
 *
 * A fixed set of nodes goes round and round.  Each node counts how often it was
 * accepted, ran, was dropped and was given back; at the end the first is the sum of the
 * others for every single node, and the pool's own books say the same in total.  So a
 * task that is lost shows, and one that ran twice, and not only their difference.  A
 * future has a slip of paper that says how often its function ran and how it ended; of
 * calls, which have no memory of their own, there are counts.
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

#include "cause.h"
#include "pools.h"

enum { NODES = 512, PRODUCERS = 3, LONG_PARTS = 10 };

struct node {
    spn_job job; /* first */
    struct load *load;
    atomic_uint accepted, refused, busy, ran, returned;
    atomic_uint cancelled; /* dropped: by cancel_owner */
    atomic_uint dropped;   /* by a policy, or at the end */
    atomic_uint again;     /* how often it submits itself, still */
    uint32_t dice;         /* what it does; set before it is handed over */
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
    bool full; /* it comes to have as many threads as it may, and no more */
};

/* What becomes of a future.  It stays until the end. */
struct slip {
    struct load *load;
    struct slip *next;  /* of the same producer */
    spn_future *future; /* kept, for how it ends is to be seen; or NULL */
    atomic_uint runs;   /* of its function */
    atomic_uint ends;   /* how often it was seen to be done */
    int code;           /* 0: it succeeded; or why not; written before `ends` */
    bool cancelled;     /* by its producer, who was told so */
};

struct load {
    struct shape shape;
    spn_pool *pool;
    struct node *nodes;
    atomic_long wanted; /* tasks still to be accepted */
    atomic_int producing;
    struct slip *slips[PRODUCERS];
    atomic_long calls, call_runs, call_returns;
    atomic_long future_returns;
    atomic_long refusals;      /* of calls and futures */
    atomic_long owned, purged; /* what cancel_owner and purge said */
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
    else if (rc == SPN_EBUSY)
        atomic_fetch_add(&n->busy, 1);
    else
        atomic_fetch_add(&n->refused, 1);
    return rc == SPN_OK;
}

static bool ends_thread(const struct node *n)
{
    return n->dice % 997 == 3;
}

static bool fails(const struct node *n)
{
    return n->dice % 97 == 4 || ends_thread(n);
}

static int run_node(spn_task *task)
{
    struct node *n = node_of(task);
    struct load *l = n->load;
    const uint32_t dice = n->dice;
    const bool ends = ends_thread(n);
    const int code = fails(n) ? -1 : 0;
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
    if (dice % 53 == 2)
        sched_yield();
    if (ends) {
        atomic_fetch_add(&l->deaths, 1);
        pthread_exit(NULL);
    }
    return code;
}

static void drop_node(spn_task *task, int reason)
{
    struct node *n = node_of(task);

    CHECK(reason < 0);
    atomic_fetch_add(reason == SPN_ECANCELED ? &n->cancelled : &n->dropped, 1);
}

static void return_node(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    struct load *l = ctx;

    (void)arg;
    if (task == NULL) {
        CHECK(fn != NULL);
        atomic_fetch_add(&l->call_returns, 1);
    } else if (task->drop == drop_node) {
        atomic_fetch_add(&node_of(task)->returned, 1);
    } else {
        CHECK(spn_future_of_task(task) != NULL);
        atomic_fetch_add(&l->future_returns, 1);
        CHECK_OK(spn_task_drop(task, SPN_ESHUTDOWN));
    }
}

static int run_call(void *arg)
{
    atomic_fetch_add(&((struct load *)arg)->call_runs, 1);
    return 0;
}

static int run_future(void *arg, void **result)
{
    atomic_fetch_add(&((struct slip *)arg)->runs, 1);
    *result = arg;
    return 0;
}

/* It is done: so it is told, or seen. */
static void note_end(spn_future *f, void *arg)
{
    struct slip *s = arg;

    s->code = 0;
    switch (spn_future_get_state(f)) {
    case SPN_FUTURE_SUCCEEDED:
        break;
    case SPN_FUTURE_CANCELED:
        s->code = SPN_ECANCELED;
        break;
    default:
        CHECK_OK(t_cause(f, &s->code, NULL, 0));
        break;
    }
    atomic_fetch_add(&s->ends, 1);
}

/* ---- producers ------------------------------------------------------------------------- */

/* Half of them tell how they end, and nobody holds on to them; the others are kept until
 * they are done. */
static void use_a_future(struct load *l, int index, uint64_t *seed)
{
    const bool tells = t_random(seed) % 2 == 0;
    spn_future_opts opts = SPN_FUTURE_OPTS_INIT;
    struct slip *s = calloc(1, sizeof *s);
    spn_executor *ex = spn_pool_executor(l->pool);
    void *value = NULL;
    spn_future *f;
    int rc;

    REQUIRE(s != NULL);
    s->load = l;
    opts.done = note_end;
    opts.done_arg = s;
    rc = tells ? spn_executor_submit_with(ex, run_future, s, &opts, &f)
               : spn_executor_submit(ex, run_future, s, &f);
    CHECK(rc == SPN_OK || rc == SPN_EREJECTED || rc == SPN_EAGAIN);
    if (rc != SPN_OK) {
        CHECK_EQ(atomic_load(&s->runs), 0);
        CHECK_EQ(atomic_load(&s->ends), 0);
        atomic_fetch_add(&l->refusals, 1);
        free(s);
        return;
    }
    s->next = l->slips[index];
    l->slips[index] = s;
    if (t_random(seed) % 4 == 0)
        s->cancelled = spn_future_cancel(f, (int)(t_random(seed) % 2)) == 1;
    /* A paused or stopped pool may not run it for a long time, or ever. */
    rc = spn_future_get(f, &value, SPN_US(200));
    CHECK(rc == SPN_OK || rc == SPN_ECANCELED || rc == SPN_ETIMEDOUT ||
          rc == SPN_EFAILED);
    CHECK(rc != SPN_OK || value == s);
    if (!tells && rc == SPN_ETIMEDOUT) {
        s->future = f;
        return;
    }
    if (!tells)
        note_end(f, s);
    spn_future_unref(f);
}

static void produce(struct load *l, int index)
{
    uint64_t seed = l->seed + (uint64_t)index * UINT64_C(0x9E3779B97F4A7C15);

    while (atomic_load(&l->wanted) > 0 && pool_is_shutdown(l->pool) == 0) {
        const uint64_t dice = t_random(&seed);
        struct node *n = &l->nodes[t_random(&seed) % NODES];

        if (l->shape.stutter)
            dawdle(&seed);
        switch (dice % 64) {
        case 0:
            use_a_future(l, index, &seed);
            atomic_fetch_sub(&l->wanted, 1);
            break;
        case 1:
        case 2: {
            const int rc = spn_executor_call(spn_pool_executor(l->pool), run_call, l);

            CHECK(rc == SPN_OK || rc == SPN_EREJECTED || rc == SPN_EAGAIN);
            if (rc == SPN_OK) {
                atomic_fetch_add(&l->calls, 1);
                atomic_fetch_sub(&l->wanted, 1);
            } else {
                atomic_fetch_add(&l->refusals, 1);
            }
            break;
        }
        case 3: /* one that may be queued */
            if (pool_remove(l->pool, &n->job.task) == 1)
                atomic_fetch_add(&n->returned, 1);
            break;
        case 4: {
            const int64_t cancelled = spn_pool_cancel_owner(l->pool, n);

            CHECK(cancelled == 0 || cancelled == 1); /* a node is queued once */
            atomic_fetch_add(&l->owned, cancelled);
            break;
        }
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
    int64_t purged;
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
        purged = spn_pool_purge(l->pool);
        CHECK(purged >= 0);
        atomic_fetch_add(&l->purged, purged);
        return;
    case 7:
        CHECK(spn_pool_prestart(l->pool, SPN_DEFAULT) >= 0);
        return;
    default:
        s = pool_stats(l->pool);
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
            CHECK_OK(pool_shutdown_now(l->pool, return_node, l, NULL));
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Of all nodes. */
struct node_sums {
    int64_t accepted, refused, busy, ran, failed, returned, cancelled, dropped;
};

static struct node_sums check_nodes(struct load *l)
{
    struct node_sums sum = { 0 };

    for (int i = 0; i < NODES; i++) {
        struct node *n = &l->nodes[i];
        const unsigned accepted = atomic_load(&n->accepted), ran = atomic_load(&n->ran),
                       returned = atomic_load(&n->returned),
                       cancelled = atomic_load(&n->cancelled),
                       dropped = atomic_load(&n->dropped);

        if (!CHECK_EQ(accepted, ran + returned + cancelled + dropped))
            fprintf(stderr,
                    "  node %d: accepted %u, ran %u, returned %u, cancelled %u, "
                    "dropped %u\n",
                    i, accepted, ran, returned, cancelled, dropped);
        CHECK_EQ(n->job.task.queued, 0);
        sum.accepted += accepted;
        sum.refused += atomic_load(&n->refused);
        sum.busy += atomic_load(&n->busy);
        sum.ran += ran;
        sum.failed += fails(n) ? ran : 0;
        sum.returned += returned;
        sum.cancelled += cancelled;
        sum.dropped += dropped;
    }
    return sum;
}

/* Of all futures that were accepted. */
struct future_sums {
    int64_t accepted, succeeded, cancelled, failed;
    int64_t ran; /* of those that were cancelled: its function did run */
};

/* Each future has one end, and its function ran as often as that says. */
static struct future_sums check_futures(struct load *l)
{
    struct future_sums sum = { 0 };

    for (int i = 0; i < PRODUCERS; i++) {
        for (struct slip *s; (s = l->slips[i]) != NULL;) {
            unsigned runs;

            if (s->future != NULL) {
                if (CHECK(spn_future_get_state(s->future) != SPN_FUTURE_PENDING))
                    note_end(s->future, s);
                spn_future_unref(s->future);
            }
            runs = atomic_load(&s->runs);
            CHECK_EQ(atomic_load(&s->ends), 1);
            CHECK_EQ(s->cancelled, s->code == SPN_ECANCELED);
            sum.accepted++;
            if (s->code == 0) {
                CHECK_EQ(runs, 1);
                sum.succeeded++;
            } else if (s->code == SPN_ECANCELED) {
                CHECK(runs <= 1);
                sum.cancelled++;
                sum.ran += runs;
            } else {
                CHECK(s->code == SPN_EREJECTED || s->code == SPN_ESHUTDOWN ||
                      s->code == SPN_EAGAIN);
                CHECK_EQ(runs, 0);
                sum.failed++;
            }
            l->slips[i] = s->next;
            free(s);
        }
    }
    return sum;
}

/*
 * The pool's books against ours.  Nodes, and what was given back, refused and cancelled,
 * are known one by one.  What a pool did with a call that it did not run, and with a future
 * that was cancelled before, nobody is told: those are what its own figures leave over,
 * which must be none where nothing can be discarded, and no less than what is known of it.
 */
static void check_sums(struct load *l)
{
    const spn_pool_stats s = pool_stats(l->pool);
    const struct node_sums n = check_nodes(l);
    const struct future_sums f = check_futures(l);
    const int64_t calls = atomic_load(&l->calls), ran = atomic_load(&l->call_runs);
    /* Dropped by purge, and by the pool itself when it was full. */
    const int64_t purged = s.cancelled - n.cancelled;
    const int64_t returned = atomic_load(&l->future_returns);
    /* Futures that a worker came to, those among them that had been cancelled before. */
    const int64_t taken = s.completed + s.failed - n.ran - ran;
    /* Accepted, and discarded by a policy or at the end. */
    const int64_t calls_lost = calls - ran - atomic_load(&l->call_returns);
    const int64_t futures_lost = f.accepted - taken - purged - returned;
    const int64_t refused = n.refused + atomic_load(&l->refusals);

    CHECK_EQ(s.accepted, n.accepted + calls + f.accepted);
    CHECK_EQ(s.failed, n.failed); /* calls and futures do not fail */
    CHECK_EQ(s.returned, n.returned + atomic_load(&l->call_returns) + returned);
    CHECK(purged >= atomic_load(&l->purged));
    CHECK(purged == atomic_load(&l->purged) || is(l->shape.kind, LIMITED));
    CHECK_EQ(n.cancelled, atomic_load(&l->owned));
    CHECK_EQ(s.dropped, n.dropped + calls_lost + futures_lost);
    CHECK_EQ(s.threads_died, atomic_load(&l->deaths));
    CHECK_EQ(s.expired + s.caller_ran, 0);
    CHECK(calls_lost >= 0 && futures_lost >= 0 && purged <= f.cancelled);
    CHECK(taken >= f.succeeded + f.ran);
    CHECK(taken <= f.succeeded + f.cancelled - purged);
    CHECK(futures_lost + returned >= f.failed);
    /* With the policy that gives tasks back.  A user's queue is empty for the moment in
     * which somebody looks for a task in it, and what comes back after shutdown_now is
     * dropped. */
    if (!l->shape.knobs && !(l->shape.now && is(l->shape.kind, OWN)) &&
        s.threads_failed == 0) {
        CHECK_EQ(s.dropped, 0);
        CHECK_EQ(calls_lost, 0);
        CHECK_EQ(futures_lost, 0);
        CHECK_EQ(s.rejected, refused);
    }
    /* A policy that means to drop a node may find it taken by another submitter, who is
     * not told apart from one that came first. */
    CHECK(s.rejected >= refused && s.rejected <= refused + n.busy);
    if (l->shape.full)
        CHECK_EQ(s.largest, l->shape.max);
}

/* The knobs at rest: as many threads as it may have, which would stay for an hour, and
 * then one.  The others go by themselves. */
static void shrink(struct load *l)
{
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    c.core_threads = c.max_threads = l->shape.max;
    c.keep_alive_ns = SPN_SEC(3600);
    CHECK_OK(spn_pool_reconfigure(l->pool, &c));
    T_AWAIT(spn_pool_prestart(l->pool, SPN_DEFAULT) >= 0 &&
            pool_stats(l->pool).threads == l->shape.max);
    c = (spn_pool_change)SPN_POOL_CHANGE_INIT;
    c.core_threads = c.max_threads = 1;
    CHECK_OK(spn_pool_reconfigure(l->pool, &c));
    T_AWAIT(pool_stats(l->pool).threads <= 1);
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
    if (shape.knobs)
        shrink(&l);
    CHECK_OK(pool_shutdown(b.pool));
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    check_sums(&l);
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
                                 .tasks = t_rounds(6000),
                                 .full = true });
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
        CHECK_OK(pool_shutdown(d->pool));
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
        CHECK_OK(pool_await(b.pool, SPN_FOREVER));
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
static void submit_at_keep_alive(const struct pool_kind *k, int64_t keep_alive_ns,
                                 int64_t length_ns)
{
    const int64_t until = spn_now() + length_ns;
    spn_pool_opts opts = opts_of(0, 1, 0);
    uint64_t seed = t_seed();
    struct bed b;

    opts.keep_alive_ns = keep_alive_ns;
    b = bed_with(k, opts, SPN_UNBOUNDED);
    for (int64_t from = spn_now(); from < until;) {
        const int64_t pause_ns =
            (int64_t)(t_random(&seed) % (uint64_t)(2 * keep_alive_ns + 1));
        struct piece p;

        piece_init(&p, NULL);
        CHECK_OK(execute(b.pool, &p));
        while (ended(&p) ==
               0) { /* one that is forgotten is not found after that either */
            REQUIRE(spn_now() - from < T_LONG_NS);
            t_pause();
        }
        from = spn_now();
        while (spn_now() - from < pause_ns) {
        }
        from = spn_now();
    }
    bed_close(&b);
}

TEST_EACH(stress_pool__submit_at_the_keep_alive__runs, "TPE-35", "P1")
{
    submit_at_keep_alive(k, SPN_US(30), t_scaled(SPN_MS(150)) / 2);
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

/* P1 in full: submitted at the end of the keep-alive for a minute, each kind of queue. */
TEST_WHEN_NAMED(stress_pool__a_minute_at_the_keep_alive__runs)
{
    static const int64_t keep_alives[] = { 0, SPN_US(10), SPN_US(30), SPN_MS(2) };
    static const struct pool_kind kinds[] = {
        { "fifo", SPN_POOL_FIFO, 0, STRICT | LIMITED | INTERIOR },
        { "lanes", SPN_POOL_LANES, 0, INTERIOR },
        { "priority", SPN_POOL_PRIORITY, 0, STRICT | LIMITED | INTERIOR },
        { "own_linked", SPN_POOL_FIFO, SPN_QUEUE_LINKED,
          STRICT | OWN | LIMITED | INTERIOR },
    };

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            submit_at_keep_alive(&kinds[i], keep_alives[j], SPN_SEC(15));
}
