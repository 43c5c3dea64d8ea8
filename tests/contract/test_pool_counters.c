/* SPDX-License-Identifier: MIT */
/* test_pool_counters.c - what a pool tells of itself. */
#include "pools.h"

struct inside {
    int active, threads;
    int64_t completed, task_count, pending;
};

static void look_around(struct piece *p)
{
    struct inside *i = p->arg;

    i->active = pool_stats(p->current).active;
    i->threads = pool_stats(p->current).threads;
    i->completed = pool_ended(p->current);
    i->task_count = pool_tasks(p->current);
    i->pending = pool_stats(p->current).pending;
}

/* A lone task counts itself as active, and never more. */
TEST_EACH(pool__active__exact_from_inside_and_outside, "TPE-37", "TPE-39")
{
    struct bed b = bed_open(k, 3, 3);
    spn_latch *gate = gate_new();
    struct inside in = { 0 };
    struct piece p;

    CHECK_EQ(pool_stats(b.pool).active, 0);
    CHECK_EQ(spn_pool_prestart(b.pool, SPN_DEFAULT), 3);
    CHECK_EQ(pool_stats(b.pool).active, 0); /* idle ones do not count */
    piece_init(&p, gate);
    p.act = look_around;
    p.arg = &in;
    start(b.pool, &p);
    CHECK_EQ(pool_stats(b.pool).active, 1);
    CHECK_EQ(pool_ended(b.pool), 0);
    CHECK_EQ(pool_tasks(b.pool), 1);
    gate_open(gate);
    T_AWAIT(ended(&p) == 1); /* orders `in`; the counters order nothing */
    T_AWAIT(pool_stats(b.pool).active == 0);
    CHECK_EQ(in.active, 1);
    CHECK_EQ(in.threads, 3);
    CHECK_EQ(in.completed, 0); /* not itself */
    CHECK_EQ(in.task_count, 1);
    CHECK_EQ(in.pending, 1);
    bed_close(&b);
    gate_free(gate);
}

struct hooked {
    int before_active, after_active;
    int64_t before_completed, after_completed;
};

static int see_before(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    struct hooked *h = ctx;

    (void)info;
    h->before_active = pool_stats(pool).active;
    h->before_completed = pool_ended(pool);
    return 0;
}

static void see_after(spn_pool *pool, const spn_task_info *info, void *ctx)
{
    struct hooked *h = ctx;

    (void)info;
    h->after_active = pool_stats(pool).active;
    h->after_completed = pool_ended(pool);
}

/* A worker is active from before the first hook until after the last. */
TEST_EACH(pool__hooks__see_themselves_counted, "TPE-38", "TPE-39")
{
    spn_pool_opts opts = opts_of(1, 1, 0);
    struct hooked h = { 0 };
    struct piece p;
    struct bed b;

    opts.hooks.before = see_before;
    opts.hooks.after = see_after;
    opts.hooks.ctx = &h;
    b = bed_with(k, opts, SPN_UNBOUNDED);
    piece_init(&p, NULL);
    CHECK_OK(execute(b.pool, &p));
    pool_rest(b.pool);
    CHECK_EQ(h.before_active, 1);
    CHECK_EQ(h.after_active, 1);
    CHECK_EQ(h.before_completed, 0);
    CHECK_EQ(h.after_completed, 0);
    CHECK_EQ(pool_ended(b.pool), 1);
    bed_close(&b);
}

/* completed rises by one with each task that has ended, well or badly. */
TEST_EACH(pool__completed__counts_failures_too, "TPE-39", "TPE-40")
{
    spn_pool_opts opts = opts_of(1, 1, 0);
    struct bed b;
    struct piece p[6];
    spn_pool_stats s;

    opts.hooks.uncaught = uncaught_quietly;
    b = bed_with(k, opts, SPN_UNBOUNDED);
    pieces_init(p, 6, NULL);
    for (int i = 0; i < 6; i++) {
        p[i].code = i % 3 == 2 ? -7 : 0;
        CHECK_OK(execute(b.pool, &p[i]));
        T_AWAIT(ended(&p[i]) == 1);
        T_AWAIT(pool_ended(b.pool) == i + 1);
        T_AWAIT(pool_stats(b.pool).active == 0);
        CHECK_EQ(pool_tasks(b.pool), i + 1);
    }
    s = pool_stats(b.pool);
    CHECK_EQ(s.completed, 4);
    CHECK_EQ(s.failed, 2);
    bed_close(&b);
}

/* task count is what has ended, runs and waits; it falls with what is taken back. */
TEST_EACH(pool__task_count__ended_running_and_queued, "TPE-40", "TPE-43")
{
    struct bed b = bed_open(k, 2, 2);
    spn_latch *gate = gate_new();
    struct piece done, p[5];

    piece_init(&done, NULL);
    pieces_init(p, 5, gate);
    CHECK_OK(execute(b.pool, &done));
    pool_rest(b.pool);
    start(b.pool, &p[0]);
    start(b.pool, &p[1]);
    for (int i = 2; i < 5; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_EQ(pool_tasks(b.pool), 6);
    CHECK_EQ(pool_ended(b.pool), 1);
    CHECK_EQ(pool_stats(b.pool).queued, 3);
    CHECK_EQ(pool_stats(b.pool).active, 2);
    CHECK_EQ(pool_stats(b.pool).pending, 5);
    CHECK_EQ(pool_remove(b.pool, &p[3].task), 1);
    CHECK_EQ(pool_tasks(b.pool), 5);
    CHECK_EQ(pool_stats(b.pool).queued, 2);
    CHECK_EQ(pool_stats(b.pool).returned, 1);
    gate_open(gate);
    pool_rest(b.pool);
    CHECK_EQ(pool_tasks(b.pool), 5);
    CHECK_EQ(pool_ended(b.pool), 5);
    bed_close(&b);
    CHECK(untouched(&p[3]));
    gate_free(gate);
}

/* largest is the peak, is never below the present size, and outlives the threads. */
TEST_EACH(pool__largest__the_peak_survives, "TPE-41", "TPE-42")
{
    struct bed b = bed_open(k, 3, 3);
    spn_latch *gate = gate_new();
    struct piece p[3];

    pieces_init(p, 3, gate);
    for (int i = 0; i < 3; i++) {
        start(b.pool, &p[i]);
        CHECK_EQ(pool_stats(b.pool).threads, i + 1);
        CHECK_EQ(pool_stats(b.pool).largest, i + 1);
    }
    gate_open(gate);
    CHECK_OK(pool_shutdown(b.pool));
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    CHECK_EQ(pool_stats(b.pool).threads, 0);
    CHECK_EQ(pool_stats(b.pool).largest, 3);
    CHECK_EQ(pool_ended(b.pool), 3);
    CHECK_EQ(pool_stats(b.pool).threads_started, 3);
    bed_close(&b);
    gate_free(gate);
}

/* Refused work is counted as refused, not as accepted, and leaves no other trace. */
TEST(pool__refused__counted_and_nothing_else, "TPE-66", "TPE-40")
{
    spn_pool *pool = pool_of(1, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[2], refused;
    spn_pool_stats s;

    pieces_init(p, 2, gate);
    piece_init(&refused, NULL);
    start(pool, &p[0]);
    CHECK_OK(execute(pool, &p[1]));
    for (int i = 0; i < 100; i++)
        CHECK_STATUS(execute(pool, &refused), SPN_EREJECTED);
    s = pool_stats(pool);
    CHECK_EQ(s.rejected, 100);
    CHECK_EQ(s.accepted, 2);
    CHECK_EQ(s.queued, 1);
    CHECK_EQ(s.pending, 2);
    CHECK_EQ(pool_tasks(pool), 2);
    gate_open(gate);
    pool_close(pool);
    CHECK(untouched(&refused));
    gate_free(gate);
}

/* A refused submitter has the pool in words, with what is full. */
TEST(pool__described__tells_what_is_full, "TPE-66", "TPE-94")
{
    static const char full[] =
        "pool counted [Running, pool size = 1 (core 1, max 1), active threads = 1, "
        "queued "
        "tasks = 1 (capacity 1), completed tasks = 0, rejected tasks = 1]";
    spn_pool_opts opts = spn_pool_opts_fixed(1, 1);
    spn_latch *gate = gate_new();
    struct piece p[2], refused;
    spn_pool *pool;
    char text[512];

    opts.name = "counted";
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    pieces_init(p, 2, gate);
    piece_init(&refused, NULL);
    start(pool, &p[0]);
    CHECK_OK(execute(pool, &p[1]));
    CHECK_STATUS(execute(pool, &refused), SPN_EREJECTED);
    CHECK_EQ(spn_pool_describe(pool, text, sizeof text), sizeof full - 1);
    CHECK_STR(text, full);
    gate_open(gate);
    T_AWAIT(ended(&p[1]) == 1);
    CHECK_OK(spn_pool_close(pool));
    CHECK(spn_pool_describe(pool, text, sizeof text) > 0);
    CHECK_STR(text,
              "pool counted [Terminated, pool size = 0 (core 1, max 1), active threads "
              "= 0, queued tasks = 0 (capacity 1), completed tasks = 2, rejected "
              "tasks = 1]");
    CHECK_OK(spn_pool_destroy(pool));
    gate_free(gate);
}

static void describe_itself(struct piece *p)
{
    CHECK(spn_pool_describe(p->current, p->arg, 512) > 0);
}

/* From a task of a pool that was shut down: it is still at work.  An unbounded queue, of each
 * kind, has no capacity in numbers. */
TEST_EACH(pool__described_by_its_task__says_shutting_down, "TPE-94")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    char text[512] = "";
    struct piece p;

    piece_init(&p, gate);
    p.act = describe_itself;
    p.arg = text;
    start(b.pool, &p);
    CHECK_OK(pool_shutdown(b.pool));
    gate_open(gate);
    T_AWAIT(ended(&p) == 1);
    CHECK(strstr(text, " [Shutting down, pool size = 1 (") != NULL);
    CHECK(strstr(text, "active threads = 1, queued tasks = 0 (capacity ") != NULL);
    bed_close(&b);
    gate_free(gate);
}

/* A buffer that is too short is filled as far as it goes, and ends in a zero byte; none at all
 * asks for the length. */
TEST(pool__described_into_few_bytes__cut, "TPE-94")
{
    spn_pool *pool = pool_of(1, 2, 3);
    char whole[512], text[512];
    const int length = spn_pool_describe(pool, whole, sizeof whole);

    REQUIRE(length > 0 && length < (int)sizeof whole);
    for (int size = 0; size <= length + 1; size++) {
        memset(text, '#', sizeof text);
        CHECK_EQ(spn_pool_describe(pool, text, (size_t)size), length);
        CHECK_EQ(text[size], '#');
        if (size > 0) {
            CHECK_EQ(strlen(text), size - 1);
            CHECK_EQ(strncmp(text, whole, (size_t)size - 1), 0);
        }
    }
    CHECK_EQ(spn_pool_describe(pool, NULL, 0), length);
    CHECK_STATUS(spn_pool_describe(pool, NULL, 1), SPN_EINVAL);
    CHECK_STATUS(spn_pool_describe(NULL, text, 1), SPN_EINVAL);
    pool_close(pool);
}

/* A picture shorter than any program has is refused, or filled as far as it goes, and
 * never further; a longer one as far as this library knows, and the rest is zero. */
TEST(pool__stats_of_other_sizes__cut_or_padded)
{
    spn_pool *pool = pool_of(2, 3, 4);
    struct {
        spn_pool_stats stats;
        unsigned char newer[16];
        unsigned char beyond;
    } x;

    memset(&x, 0xee, sizeof x);
    x.stats.size = offsetof(spn_pool_stats, threads);
    if (spn_pool_stats_get(pool, &x.stats) == SPN_OK)
        CHECK_EQ(x.stats.max_threads, 3);
    else
        CHECK_EQ(x.stats.max_threads, (int32_t)0xeeeeeeee);
    CHECK_EQ(x.stats.size, offsetof(spn_pool_stats, threads));
    for (size_t i = offsetof(spn_pool_stats, threads); i < sizeof x; i++)
        CHECK_EQ(((unsigned char *)&x)[i], 0xee);
    x.stats.size = sizeof x.stats + sizeof x.newer;
    CHECK_OK(spn_pool_stats_get(pool, &x.stats));
    CHECK_EQ(x.stats.size, sizeof x.stats + sizeof x.newer);
    CHECK_EQ(x.stats.core_threads, 2);
    CHECK_EQ(x.stats.max_threads, 3);
    for (size_t i = 0; i < sizeof x.newer; i++)
        CHECK_EQ(x.newer[i], 0);
    CHECK_EQ(x.beyond, 0xee);
    pool_close(pool);
}

struct watched {
    spn_pool *pool;
    atomic_int producing;
    atomic_long pictures;
    uint64_t seed;
};

static int work_a_little(void *arg)
{
    (void)arg;
    return 0;
}

static void produce_or_watch(int index, void *arg)
{
    struct watched *w = arg;
    uint64_t seed = w->seed + (uint64_t)index;

    if (index > 0) {
        int64_t completed = 0, accepted = 0;
        int32_t largest = 0;

        while (atomic_load(&w->producing) != 0) {
            const spn_pool_stats s = pool_stats(w->pool);

            if (!CHECK(plausible(&s)))
                break;
            /* What only grows does. */
            CHECK(s.completed >= completed && s.accepted >= accepted &&
                  s.largest >= largest);
            completed = s.completed;
            accepted = s.accepted;
            largest = s.largest;
            CHECK(s.active <= 3 && s.threads <= 3);
            atomic_fetch_add(&w->pictures, 1);
        }
        return;
    }
    for (int i = 0; i < t_rounds(4000) || atomic_load(&w->pictures) < 10; i++) {
        const int rc =
            spn_executor_call(spn_pool_executor(w->pool), work_a_little, NULL);

        CHECK(rc == SPN_OK || rc == SPN_EREJECTED);
        if (t_random(&seed) % 64 == 0)
            t_pause();
    }
    atomic_store(&w->producing, 0);
}

/* However busy the pool is, no number is ever negative or beyond its limit, and what
 * counts up never goes back. */
TEST_EACH(pool__stats_under_load__never_negative_never_back, "TPE-37", "TPE-41", "P19")
{
    struct watched w = { .seed = t_seed() };
    struct bed b = bed_with(k, opts_of(1, 3, 0), is(k, LIMITED) ? 16 : SPN_UNBOUNDED);

    w.pool = b.pool;
    atomic_store(&w.producing, 1);
    t_parallel(3, produce_or_watch, &w);
    pool_rest(b.pool);
    bed_close(&b);
}
