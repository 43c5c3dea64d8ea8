/* SPDX-License-Identifier: MIT */
/* test_pool_config.c - a pool's knobs: what create and reconfigure take, and what the
 * statistics tell. */
#include "counting.h"
#include "pools.h"

#include <spindle/cpu.h>

static atomic_int refused, made; /* how often these were called */

static int refuse(const spn_reject_policy *policy, spn_pool *pool, spn_task *task,
                  const spn_refusal *why)
{
    (void)policy;
    (void)pool;
    (void)task;
    (void)why;
    atomic_fetch_add(&refused, 1);
    return SPN_EREJECTED;
}

static int make(const spn_thread_factory *factory, spn_thread **out,
                spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    atomic_fetch_add(&made, 1);
    return spn_thread_create(out, opts, fn, arg);
}

static const spn_reject_policy no_policy = { .size = sizeof no_policy };
static const spn_thread_factory no_factory = { .size = sizeof no_factory };
static const spn_reject_policy policy = { sizeof policy, "mine", refuse };
static const spn_thread_factory factory = { sizeof factory, make };

static int create(const spn_pool_opts *opts)
{
    const long live = atomic_load(&counting_live);
    spn_pool *pool = (void *)&factory;
    const int rc = spn_pool_create(&pool, opts);

    if (rc == SPN_OK) {
        CHECK_OK(pool_shutdown(pool));
        CHECK_OK(spn_pool_destroy(pool));
    } else {
        CHECK(pool == NULL);
    }
    CHECK_EQ(atomic_load(&counting_live), live);
    return rc;
}

/* Sizes that make no sense are refused, whatever else is given. */
TEST(pool__impossible_sizes__refused, "TPE-1", "TPE-2", "G-3")
{
    static const struct {
        int32_t core, max;
        int64_t keep_alive_ns;
        int rc;
    } rows[] = {
        { -1, 1, 1, SPN_EINVAL },
        { 1, -1, 1, SPN_EINVAL },
        { 1, 0, 1, SPN_EINVAL },
        { 0, 0, 1, SPN_EINVAL },
        { 2, 1, 1, SPN_EINVAL },
        { 1, 2, -1, SPN_EINVAL },
        { 1, 2, INT64_MIN, SPN_EINVAL },
        { 0, 1, 0, SPN_OK },
        { 0, 1, 1, SPN_OK },
        { 1, 1, INT64_MAX, SPN_OK },
        { 1, 1, SPN_DEFAULT, SPN_OK },
        { 0, SPN_DEFAULT, 0, SPN_OK }, /* max is 1 */
        { SPN_DEFAULT, SPN_POOL_THREADS_MAX, 0, SPN_OK },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int with = 0; with < 4; with++) {
            spn_pool_opts opts = SPN_POOL_OPTS_INIT;

            opts.core_threads = rows[i].core;
            opts.max_threads = rows[i].max;
            opts.keep_alive_ns = rows[i].keep_alive_ns;
            opts.factory = (with & 1) != 0 ? &factory : NULL;
            opts.reject = (with & 2) != 0 ? &policy : NULL;
            if (!CHECK_STATUS(create(&opts), rows[i].rc))
                fprintf(stderr, "  core %d, max %d\n", rows[i].core, rows[i].max);
        }
    }
}

/* Options that contradict each other are refused. */
TEST(pool__options_that_do_not_go_together__refused, "TPE-1", "TPE-10")
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
#define TRY(expected, ...)                        \
    do {                                          \
        opts = (spn_pool_opts)SPN_POOL_OPTS_INIT; \
        __VA_ARGS__;                              \
        CHECK_STATUS(create(&opts), expected);    \
    } while (0)
    TRY(SPN_EINVAL, opts.core_timeout = 1; opts.keep_alive_ns = 0);
    TRY(SPN_OK, opts.core_timeout = 1; opts.keep_alive_ns = 1);
    TRY(SPN_EINVAL, opts.queue_kind = SPN_POOL_LANES; opts.queue_capacity = 5);
    TRY(SPN_EINVAL, opts.queue_kind = SPN_POOL_LANES;
        opts.queue_capacity = SPN_HANDOFF);
    TRY(SPN_OK, opts.queue_kind = SPN_POOL_LANES; opts.queue_capacity = SPN_UNBOUNDED);
#undef TRY
}

static int64_t due_at_once(const void *item, void *ctx)
{
    (void)item;
    (void)ctx;
    return 0;
}

static int compare_nothing(const void *a, const void *b, void *ctx)
{
    (void)a;
    (void)b;
    (void)ctx;
    return 0;
}

/* A queue in which workers would have to wait in some way of its own cannot be a pool's: a
 * ring, a delay queue (spn_scheduled is there for that), a synchronous one (SPN_HANDOFF). */
TEST(pool__queue_of_the_users__refused_by_kind, "TPE-1", "TPE-12")
{
    for (uint32_t kind = SPN_QUEUE_LINKED; kind <= SPN_QUEUE_DEQUE; kind++) {
        const bool refused_kind = kind == SPN_QUEUE_RING || kind == SPN_QUEUE_DELAY ||
                                  kind == SPN_QUEUE_SYNCHRONOUS;
        spn_pool_opts opts = SPN_POOL_OPTS_INIT;
        spn_queue_opts q = SPN_QUEUE_OPTS_INIT;

        if (kind == SPN_QUEUE_ARRAY || kind == SPN_QUEUE_RING)
            q.capacity = 4;
        if (kind == SPN_QUEUE_DELAY)
            q.due = due_at_once;
        if (kind == SPN_QUEUE_PRIORITY)
            q.compare = compare_nothing;
        REQUIRE_OK(spn_queue_create(&opts.queue, kind, &q));
        CHECK_STATUS(create(&opts), refused_kind ? SPN_EINVAL : SPN_OK);
        CHECK_OK(spn_queue_destroy(opts.queue));
    }
}

/* A fresh pool has no thread and has done nothing. */
TEST_EACH(pool__fresh__all_zero, "TPE-3")
{
    struct bed b = bed_open(k, 3, 5);
    const spn_pool_stats s = pool_stats(b.pool);

    CHECK_EQ(pool_stats(b.pool).threads, 0);
    CHECK_EQ(pool_stats(b.pool).active, 0);
    CHECK_EQ(pool_stats(b.pool).largest, 0);
    CHECK_EQ(pool_stats(b.pool).queued, 0);
    CHECK_EQ(pool_tasks(b.pool), 0);
    CHECK_EQ(pool_ended(b.pool), 0);
    CHECK_EQ(s.accepted + s.completed + s.failed + s.cancelled + s.returned +
                 s.dropped + s.pending + s.expired + s.rejected + s.caller_ran +
                 s.threads_started + s.threads_failed + s.threads_died + s.submitted +
                 s.threads + s.largest + s.active + s.queued + s.paused,
             0);
    CHECK_EQ(s.state, SPN_EXECUTOR_RUNNING);
    CHECK_EQ(s.core_threads, 3);
    CHECK_EQ(s.max_threads, 5);
    bed_close(&b);
    /* To the end there was none. */
}

/* The statistics tell what was given to create, and at once what reconfigure changes. */
TEST(pool__knobs__read_back_as_given, "TPE-4", "TPE-11")
{
    spn_pool_opts opts = opts_of(2, 7, 11);
    spn_pool *pool;
    spn_pool_stats s;

    opts.keep_alive_ns = SPN_MS(1000);
    opts.reject = &policy;
    opts.factory = &factory;
    opts.name = "knobs";
    pool = pool_with(&opts);
    CHECK_EQ(pool_stats(pool).core_threads, 2);
    CHECK_EQ(pool_stats(pool).max_threads, 7);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, SPN_SEC(1));
    CHECK_EQ(pool_stats(pool).core_timeout, 0);
    CHECK_STR(pool_stats(pool).name, "knobs");
    s = pool_stats(pool);
    CHECK_EQ(s.capacity, 11);
    CHECK_EQ(s.keep_alive_ns, SPN_SEC(1));

    CHECK_OK(pool_set_core(pool, 3));
    CHECK_EQ(pool_stats(pool).core_threads, 3);
    CHECK_OK(pool_set_max(pool, 4));
    CHECK_EQ(pool_stats(pool).max_threads, 4);
    CHECK_OK(pool_set_keep_alive(pool, 5));
    CHECK_EQ(pool_stats(pool).keep_alive_ns, 5);
    CHECK_OK(pool_set_core_timeout(pool, 1));
    CHECK_EQ(pool_stats(pool).core_timeout, 1);
    CHECK_OK(pool_set_capacity(pool, 6));
    CHECK_EQ(pool_stats(pool).capacity, 6);
    CHECK_OK(pool_set_capacity(pool, SPN_UNBOUNDED));
    CHECK_EQ(pool_stats(pool).capacity, INT64_MAX);
    CHECK_OK(pool_set_reject(pool, spn_reject_discard()));
    CHECK_OK(pool_set_factory(pool, spn_thread_factory_default()));

    CHECK_OK(pool_shutdown(pool));
    CHECK_EQ(pool_stats(pool).core_timeout, 1); /* also after shutdown */
    CHECK_EQ(pool_stats(pool).core_threads, 3);
    CHECK_EQ(pool_stats(pool).max_threads, 4);
    CHECK_OK(spn_pool_destroy(pool));
}

/* Policy and factory are those given to create until reconfigure replaces them; the
 * default policy is abort. */
TEST(pool__policy_and_factory__used_until_replaced, "TPE-5", "TPE-6")
{
    spn_pool_opts opts = opts_of(1, 1, 1);
    spn_pool_change nothing = SPN_POOL_CHANGE_INIT;
    spn_latch *gate = gate_new();
    struct piece p[4];
    spn_pool *pool;

    opts.factory = &factory;
    atomic_store(&made, 0);
    atomic_store(&refused, 0);
    pieces_init(p, 4, gate);
    pool = pool_with(&opts);
    start(pool, &p[0]);
    CHECK_EQ(atomic_load(&made), 1);
    CHECK_OK(execute(pool, &p[1]));
    CHECK_STATUS(execute(pool, &p[2]), SPN_EREJECTED); /* abort */
    CHECK_OK(pool_set_reject(pool, &policy));
    CHECK_STATUS(execute(pool, &p[2]), SPN_EREJECTED);
    CHECK_OK(spn_pool_reconfigure(pool, &nothing));
    CHECK_STATUS(execute(pool, &p[2]), SPN_EREJECTED);
    CHECK_EQ(atomic_load(&refused), 2);
    CHECK_OK(pool_set_reject(pool, spn_reject_discard()));
    CHECK_OK(execute(pool, &p[2]));
    CHECK(dropped(&p[2], SPN_EREJECTED));
    CHECK_OK(pool_set_max(pool, 3));
    start(pool, &p[2]); /* p[1] waits */
    CHECK_EQ(atomic_load(&made), 2);
    CHECK_OK(pool_set_factory(pool, spn_thread_factory_default()));
    start(pool, &p[3]);
    CHECK_EQ(atomic_load(&made), 2);
    CHECK_EQ(pool_stats(pool).threads, 3);
    gate_open(gate);
    pool_close(pool);
    gate_free(gate);
}

/* All defaults: as many threads as there are CPUs to use, 60 s, room for 1024. */
TEST(pool__no_options__the_documented_defaults, "P18")
{
    spn_pool *pool = pool_with(NULL);
    spn_pool_stats s = pool_stats(pool);
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;

    CHECK_EQ(s.core_threads, spn_cpu_count());
    CHECK(s.core_threads >= 1);
    CHECK_EQ(s.max_threads, s.core_threads);
    CHECK_EQ(s.keep_alive_ns, SPN_SEC(60));
    CHECK_EQ(s.capacity, 1024);
    CHECK_EQ(pool_stats(pool).core_timeout, 0);
    pool_close(pool);
    opts.queue_kind = SPN_POOL_LANES;
    pool = pool_with(&opts);
    CHECK_EQ(pool_stats(pool).capacity, INT64_MAX);
    pool_close(pool);
    opts = (spn_pool_opts)SPN_POOL_OPTS_INIT;
    opts.core_threads = 0;
    pool = pool_with(&opts);
    CHECK_EQ(pool_stats(pool).max_threads, 1);
    pool_close(pool);
}

/* max_threads alone is enough on every machine: the default core is not above it. */
TEST(pool__max_without_core__core_is_the_smaller_of_cpus_and_max, "TPE-1")
{
    static const int32_t max[] = { 1, 2, 3, SPN_POOL_THREADS_MAX };
    const int32_t cpus = spn_cpu_count();

    for (size_t i = 0; i < sizeof max / sizeof max[0]; i++) {
        spn_pool_opts opts = SPN_POOL_OPTS_INIT;
        spn_pool *pool;

        opts.max_threads = max[i];
        pool = pool_with(&opts);
        CHECK_EQ(pool_stats(pool).core_threads, cpus < max[i] ? cpus : max[i]);
        CHECK_EQ(pool_stats(pool).max_threads, max[i]);
        pool_close(pool);
    }
}

/* A change that is refused has changed nothing. */
TEST(pool__change_refused__everything_as_before, "TPE-5", "TPE-7", "TPE-8", "TPE-9",
     "TPE-10", "G-3")
{
    spn_pool *pool = pool_of(2, 4, 5);

    CHECK_OK(pool_set_keep_alive(pool, 7));
    CHECK_STATUS(pool_set_core(pool, -1), SPN_EINVAL);
    CHECK_STATUS(pool_set_core(pool, 5), SPN_EINVAL);
    CHECK_STATUS(pool_set_max(pool, 0), SPN_EINVAL);
    CHECK_STATUS(pool_set_max(pool, -1), SPN_EINVAL);
    CHECK_STATUS(pool_set_max(pool, 1), SPN_EINVAL);
    CHECK_STATUS(pool_set_keep_alive(pool, -1), SPN_EINVAL);
    CHECK_STATUS(pool_set_reject(pool, &no_policy), SPN_EINVAL);
    CHECK_STATUS(pool_set_factory(pool, &no_factory), SPN_EINVAL);
    CHECK_EQ(pool_stats(pool).core_threads, 2);
    CHECK_EQ(pool_stats(pool).max_threads, 4);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, 7);

    CHECK_OK(pool_set_keep_alive(pool, 0));
    CHECK_STATUS(pool_set_core_timeout(pool, 1), SPN_EINVAL);
    CHECK_EQ(pool_stats(pool).core_timeout, 0);
    CHECK_OK(pool_set_keep_alive(pool, 1));
    CHECK_OK(pool_set_core_timeout(pool, 1));
    CHECK_STATUS(pool_set_keep_alive(pool, 0), SPN_EINVAL);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, 1);
    pool_close(pool);
}

/* Reconfigure changes all or nothing; what it was not told of stays. */
TEST(pool__reconfigure__all_or_nothing, "TPE-7", "TPE-8", "TPE-10", "P36")
{
    spn_pool *pool = pool_of(2, 4, 5);
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    CHECK_OK(spn_pool_reconfigure(pool, &c));
    CHECK_EQ(pool_stats(pool).core_threads, 2);
    c.core_threads = 6;
    CHECK_STATUS(spn_pool_reconfigure(pool, &c), SPN_EINVAL); /* above max */
    c.max_threads = 8; /* both in one step: never core above max */
    c.queue_capacity = 9;
    CHECK_OK(spn_pool_reconfigure(pool, &c));
    CHECK_EQ(pool_stats(pool).core_threads, 6);
    CHECK_EQ(pool_stats(pool).max_threads, 8);
    CHECK_EQ(pool_stats(pool).capacity, 9);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, SPN_SEC(3600));
    c = (spn_pool_change)SPN_POOL_CHANGE_INIT;
    c.core_threads = 1;
    c.max_threads = 1;
    c.core_timeout = 1;
    c.keep_alive_ns = 0;
    c.reject = spn_reject_discard();
    c.factory = &factory;
    CHECK_STATUS(spn_pool_reconfigure(pool, &c), SPN_EINVAL); /* core timeout at 0 */
    CHECK_EQ(pool_stats(pool).core_threads, 6);
    CHECK_EQ(pool_stats(pool).max_threads, 8);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, SPN_SEC(3600));
    CHECK_EQ(pool_stats(pool).core_timeout, 0);
    c.keep_alive_ns = 3;
    CHECK_OK(spn_pool_reconfigure(pool, &c));
    CHECK_EQ(pool_stats(pool).core_threads, 1);
    CHECK_EQ(pool_stats(pool).max_threads, 1);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, 3);
    CHECK_EQ(pool_stats(pool).core_timeout, 1);
    pool_close(pool);
}

/* A caller with an older, shorter struct gets what it knows of. */
TEST(pool__older_change_struct__missing_fields_stay, "TPE-4")
{
    spn_pool *pool = pool_of(2, 4, 5);
    spn_pool_change c = SPN_POOL_CHANGE_INIT;

    c.size = offsetof(spn_pool_change, keep_alive_ns);
    c.core_threads = 3;
    c.keep_alive_ns = 1; /* beyond its size: not there */
    c.reject = spn_reject_discard();
    CHECK_OK(spn_pool_reconfigure(pool, &c));
    CHECK_EQ(pool_stats(pool).core_threads, 3);
    CHECK_EQ(pool_stats(pool).max_threads, 4);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, SPN_SEC(3600));
    CHECK_EQ(pool_stats(pool).capacity, 5);
    CHECK_EQ(pool_stats(pool).core_timeout, 0);
    c.size = offsetof(spn_pool_change, factory);
    CHECK_OK(spn_pool_reconfigure(pool, &c));
    CHECK_EQ(pool_stats(pool).keep_alive_ns, 1);
    c.core_threads = 4;
    c.size = sizeof(size_t); /* knows of no field */
    CHECK_OK(spn_pool_reconfigure(pool, &c));
    c.size = 0; /* never set */
    CHECK_STATUS(spn_pool_reconfigure(pool, &c), SPN_EINVAL);
    c.size = offsetof(spn_pool_change, max_threads); /* ends inside */
    CHECK_STATUS(spn_pool_reconfigure(pool, &c), SPN_EINVAL);
    CHECK_EQ(pool_stats(pool).core_threads, 3);
    pool_close(pool);
}

/* A policy of another age: its size is judged as that of options is, and what it must
 * have is the function. */
TEST(pool__policies_of_other_ages__taken_while_they_have_the_function)
{
    struct {
        spn_reject_policy policy;
        void *newer[2];
    } p = { .policy = { .name = "aged", .refused = refuse } };
    const struct {
        size_t size;
        void *newer;
        int rc;
    } rows[] = {
        { offsetof(spn_reject_policy, refused) + sizeof p.policy.refused, NULL,
          SPN_OK },
        { sizeof p, NULL, SPN_OK },
        { sizeof p, &p, SPN_EINVAL }, /* asks for what is not there */
        { offsetof(spn_reject_policy, refused), NULL, SPN_EINVAL },
        { sizeof p.policy + 1, NULL, SPN_EINVAL },
        { 0, NULL, SPN_EINVAL },
        { SIZE_MAX, NULL, SPN_EINVAL },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        spn_pool_opts opts = SPN_POOL_OPTS_INIT;
        spn_pool *pool = pool_of(1, 1, 1);

        p.policy.size = rows[i].size;
        p.newer[1] = rows[i].newer;
        opts.reject = &p.policy;
        CHECK_STATUS(create(&opts), rows[i].rc);
        CHECK_STATUS(pool_set_reject(pool, &p.policy), rows[i].rc);
        pool_close(pool);
    }
}

struct readers {
    spn_pool *pool;
    atomic_int stop;
    atomic_long broken, looks;
};

static void change_or_look(int index, void *arg)
{
    struct readers *r = arg;

    if (index > 0) {
        while (atomic_load(&r->stop) == 0) {
            const spn_pool_stats s = pool_stats(r->pool);

            if (s.core_threads > s.max_threads)
                atomic_fetch_add(&r->broken, 1);
            atomic_fetch_add(&r->looks, 1);
        }
        return;
    }
    for (int i = 0; i < t_rounds(4000) || atomic_load(&r->looks) < 100; i++) {
        spn_pool_change c = SPN_POOL_CHANGE_INIT;

        c.core_threads = (i & 1) != 0 ? 1 : 9;
        c.max_threads = (i & 1) != 0 ? 2 : 10;
        CHECK_OK(spn_pool_reconfigure(r->pool, &c));
    }
    atomic_store(&r->stop, 1);
}

/* Nobody ever sees core above max, however sizes jump. */
TEST(pool__sizes_change_under_a_reader__core_never_above_max, "TPE-8", "P36")
{
    struct readers r = { .pool = pool_of(1, 2, 5) };

    t_parallel(3, change_or_look, &r);
    CHECK_EQ(atomic_load(&r.broken), 0);
    pool_close(r.pool);
}

/* A hand-off stays one and a queue stays a queue; lanes and a queue of the user's keep
 * their capacity. */
TEST(pool__capacity_that_cannot_change__refused)
{
    spn_pool *pool = pool_of(1, 1, SPN_HANDOFF);
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_queue *queue;

    CHECK_STATUS(pool_set_capacity(pool, 4), SPN_EINVAL);
    CHECK_STATUS(pool_set_capacity(pool, SPN_UNBOUNDED), SPN_EINVAL);
    CHECK_EQ(pool_stats(pool).capacity, 0);
    pool_close(pool);
    pool = pool_of(1, 1, 4);
    CHECK_STATUS(pool_set_capacity(pool, SPN_HANDOFF), SPN_EINVAL);
    CHECK_EQ(pool_stats(pool).capacity, 4);
    pool_close(pool);
    opts.queue_kind = SPN_POOL_LANES;
    pool = pool_with(&opts);
    CHECK_STATUS(pool_set_capacity(pool, 4), SPN_EINVAL);
    pool_close(pool);
    REQUIRE_OK(spn_queue_create(&queue, SPN_QUEUE_LINKED, NULL));
    opts = (spn_pool_opts)SPN_POOL_OPTS_INIT;
    opts.queue = queue;
    pool = pool_with(&opts);
    CHECK_STATUS(pool_set_capacity(pool, 4), SPN_EINVAL);
    pool_close(pool);
    CHECK_OK(spn_queue_destroy(queue));
}

/* What waits is in the queue given to create; what runs is not. */
TEST(pool__own_queue__holds_what_waits, "TPE-12")
{
    spn_pool_opts opts = opts_of(1, 1, SPN_DEFAULT);
    spn_latch *gate = gate_new();
    struct piece p[3];
    spn_task *seen[3];
    spn_queue *queue;
    spn_pool *pool;

    REQUIRE_OK(spn_queue_create(&queue, SPN_QUEUE_LINKED, NULL));
    opts.queue = queue;
    pool = pool_with(&opts);
    pieces_init(p, 3, gate);
    start(pool, &p[0]);
    CHECK_OK(execute(pool, &p[1]));
    CHECK_OK(execute(pool, &p[2]));
    CHECK_STATUS(spn_queue_contains(queue, &p[0].task), SPN_EEMPTY);
    CHECK_OK(spn_queue_contains(queue, &p[1].task));
    CHECK_OK(spn_queue_contains(queue, &p[2].task));
    CHECK_EQ(spn_queue_size(queue), 2);
    CHECK_EQ(pool_stats(pool).queued, 2);
    CHECK_EQ(spn_pool_snapshot(pool, seen, 3), 2);
    CHECK(seen[0] == &p[1].task && seen[1] == &p[2].task);
    gate_open(gate);
    pool_close(pool);
    CHECK_EQ(spn_queue_size(queue), 0);
    CHECK_OK(spn_queue_destroy(queue));
    gate_free(gate);
}

/* A snapshot shows what waits, in the order it will start, as far as it fits. */
TEST_EACH(pool__snapshot__what_waits_in_order, "TPE-12")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[5];
    spn_task *seen[5] = { NULL };

    pieces_init(p, 5, gate);
    start(b.pool, &p[0]);
    for (int i = 1; i < 5; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_EQ(spn_pool_snapshot(b.pool, NULL, 0), 4);
    CHECK_EQ(spn_pool_snapshot(b.pool, seen, 2), 4);
    CHECK(seen[0] == &p[1].task && seen[1] == &p[2].task && seen[2] == NULL);
    CHECK_EQ(spn_pool_snapshot(b.pool, seen, 5), 4);
    for (int i = 1; i < 5; i++)
        CHECK(seen[i - 1] == &p[i].task);
    gate_open(gate);
    bed_close(&b);
    gate_free(gate);
}

/* The state and the count share a word: 3 and 29 bits. */
TEST(pool__thread_limit__two_to_the_29th_less_one, "S-4")
{
    spn_pool_opts opts = opts_of(0, SPN_POOL_THREADS_MAX, 1);

    CHECK_EQ(SPN_POOL_THREADS_MAX, (1 << 29) - 1);
    CHECK_OK(create(&opts));
    opts.max_threads = SPN_POOL_THREADS_MAX + 1;
    CHECK_STATUS(create(&opts), SPN_EINVAL);
    CHECK(SPN_EXECUTOR_RUNNING < SPN_EXECUTOR_SHUTDOWN &&
          SPN_EXECUTOR_SHUTDOWN < SPN_EXECUTOR_STOP &&
          SPN_EXECUTOR_STOP < SPN_EXECUTOR_TIDYING &&
          SPN_EXECUTOR_TIDYING < SPN_EXECUTOR_TERMINATED);
}

/* A pool made with `fixed` refuses every change and stays as it is. */
TEST(pool__fixed__cannot_be_changed, "EXE-7")
{
    spn_pool_opts opts = opts_of(1, 2, 3);
    spn_pool_change c = SPN_POOL_CHANGE_INIT;
    spn_pool *pool;

    opts.fixed = 1;
    pool = pool_with(&opts);
    CHECK_STATUS(pool_set_core(pool, 2), SPN_ESTATE);
    CHECK_STATUS(pool_set_max(pool, 3), SPN_ESTATE);
    CHECK_STATUS(pool_set_keep_alive(pool, 3), SPN_ESTATE);
    CHECK_STATUS(pool_set_capacity(pool, 4), SPN_ESTATE);
    CHECK_STATUS(pool_set_core_timeout(pool, 1), SPN_ESTATE);
    CHECK_STATUS(pool_set_reject(pool, &policy), SPN_ESTATE);
    CHECK_STATUS(pool_set_factory(pool, &factory), SPN_ESTATE);
    CHECK_STATUS(spn_pool_reconfigure(pool, &c), SPN_ESTATE);
    CHECK_EQ(pool_stats(pool).core_threads, 1);
    CHECK_EQ(pool_stats(pool).max_threads, 2);
    CHECK_EQ(pool_stats(pool).keep_alive_ns, SPN_SEC(3600));
    CHECK_EQ(pool_stats(pool).capacity, 3);
    pool_close(pool);
}

/* A pool and its executor are two names of one thing; another executor is no pool. */
TEST(pool__as_an_executor__the_same_thing)
{
    spn_pool *pool = pool_of(1, 1, 1);
    spn_executor *ex = spn_pool_executor(pool);

    REQUIRE(ex != NULL);
    CHECK(spn_executor_pool(ex) == pool);
    CHECK(spn_executor_pool(spn_executor_direct()) == NULL);
    CHECK(spn_pool_executor(NULL) == NULL);
    CHECK_EQ(spn_executor_get_state(ex), SPN_EXECUTOR_RUNNING);
    CHECK_EQ(spn_executor_is_shutdown(ex), 0);
    CHECK_OK(spn_executor_shutdown(ex));
    CHECK_EQ(spn_executor_is_shutdown(ex), 1);
    CHECK_OK(spn_executor_await(ex, SPN_FOREVER));
    CHECK_EQ(spn_executor_is_terminated(ex), 1);
    CHECK_EQ(spn_executor_get_state(ex), SPN_EXECUTOR_TERMINATED);
    CHECK_OK(spn_pool_destroy(pool));
}
