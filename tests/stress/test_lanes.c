/* SPDX-License-Identifier: MIT */
/*
 * test_lanes.c - producers, workers, removers and a collector at the lanes, without a
 * pool: each task comes out once, by one of them.  And a pool in which one task runs
 * long: the task behind it does not wait for all the newer ones.
 *
 * Producers end and begin anew, so lanes change hands; workers go with what is in their
 * batch and come again; now and then a task takes long, so batches are stolen from.
 */
#include "test.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <spindle.h>

#include "exec/pool.h"
#include "exec/work.h"

enum { PRODUCERS = 2, WORKERS = 3, ROUNDS = 8, PER_ROUND = 4000, MARK = 99 };

struct item {
    spn_task task; /* first */
    int value;     /* plain: the lanes must publish it */
    atomic_int out;
};

struct load {
    struct spn__lanes *lanes;
    struct item *items;
    int per_round, all;
    atomic_int producing, out;
    atomic_long by_worker, by_remove, by_collect;
    uint64_t seed;
};

static int run_task(spn_task *t)
{
    (void)t;
    return 0;
}

static void came_out(struct load *l, spn_task *t, atomic_long *by)
{
    struct item *item = (struct item *)(void *)t;

    CHECK_EQ(item->value, (int)(item - l->items) + 1);
    item->value = 0;
    CHECK_EQ(atomic_fetch_add(&item->out, 1), 0);
    spn_task_release(t);
    atomic_fetch_add_explicit(by, 1, memory_order_relaxed);
    atomic_fetch_add(&l->out, 1);
}

struct producer {
    struct load *l;
    int first;
};

static int produce(void *arg)
{
    const struct producer *p = arg;

    for (int i = p->first; i < p->first + p->l->per_round; i++) {
        struct item *item = &p->l->items[i];

        item->value = i + 1;
        REQUIRE_OK(spn_task_claim(&item->task));
        REQUIRE_OK(spn__lanes_push(p->l->lanes, (struct spn__entry){ spn__entry_task,
                                                                     &item->task }));
    }
    return 0;
}

/* Each round is a thread of its own, which takes a lane over from another. */
static void producer(struct load *l, int index)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct producer p = { l, (index * ROUNDS + round) * l->per_round };
        spn_thread *thread;

        REQUIRE_OK(spn_thread_create(&thread, NULL, produce, &p));
        CHECK_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
        spn_thread_unref(thread);
    }
    atomic_fetch_sub(&l->producing, 1);
}

static bool over(struct load *l)
{
    return atomic_load(&l->producing) == 0 && atomic_load(&l->out) == l->all;
}

static void work(struct load *l, int index)
{
    struct spn__worker *w = calloc(1, sizeof *w);
    uint64_t seed = l->seed + (uint64_t)index;
    struct spn__entry entry;
    bool more;

    REQUIRE(w != NULL);
    REQUIRE_OK(spn__lanes_worker_init(l->lanes, w));
    while (!over(l)) {
        const uint64_t chance = t_random(&seed) % 4096;

        if (!spn__lanes_take(l->lanes, w, &entry, &more)) {
            sched_yield();
            continue;
        }
        CHECK(entry.fn == spn__entry_task);
        came_out(l, entry.arg, &l->by_worker);
        if (chance < 8)
            for (int i = 0; i < 20; i++)
                sched_yield(); /* a long one */
        if (chance == 9) {
            spn__lanes_worker_fini(l->lanes, w);
            REQUIRE_OK(spn__lanes_worker_init(l->lanes, w));
        }
    }
    spn__lanes_worker_fini(l->lanes, w);
    free(w);
}

static void remove_some(struct load *l)
{
    uint64_t seed = l->seed * 3;

    while (!over(l)) {
        for (int k = 0; k < 64; k++) {
            struct item *item = &l->items[t_random(&seed) % (uint64_t)l->all];

            if (spn__lanes_remove(l->lanes, &item->task))
                came_out(l, &item->task, &l->by_remove);
        }
        sched_yield();
    }
}

static bool one_in_ten(spn_task *t, const void *ctx)
{
    const struct load *l = ctx;

    return ((struct item *)(void *)t - l->items) % 10 == 0;
}

static void collect_some(struct load *l)
{
    while (!over(l)) {
        struct spn__list out;
        struct spn__list_node *node;
        spn_task *seen[16];

        spn__list_init(&out);
        (void)spn__lanes_collect(l->lanes, one_in_ten, l, &out);
        while ((node = spn__list_pop_front(&out)) != NULL)
            came_out(l, spn__node_task(node), &l->by_collect);
        CHECK(spn__lanes_snapshot(l->lanes, seen, 16) >= 0);
        CHECK(spn__lanes_size(l->lanes) >= 0);
        for (int i = 0; i < 50 && !over(l); i++)
            sched_yield();
    }
}

static void play(int index, void *arg)
{
    struct load *l = arg;

    if (index < PRODUCERS)
        producer(l, index);
    else if (index < PRODUCERS + WORKERS)
        work(l, index);
    else if (index == PRODUCERS + WORKERS)
        remove_some(l);
    else
        collect_some(l);
}

/* Whatever happens to them, each of many tasks comes out once, complete. */
TEST(lanes__everybody_at_once__each_task_once, "TPE-24", "TPE-19")
{
    struct load l = { .seed = t_seed(), .per_round = t_rounds(PER_ROUND) };

    l.all = PRODUCERS * ROUNDS * l.per_round;
    l.items = calloc((size_t)l.all, sizeof *l.items);
    REQUIRE(l.items != NULL);
    for (int i = 0; i < l.all; i++)
        l.items[i].task = (spn_task)SPN_TASK_INIT(run_task, NULL);
    atomic_store(&l.producing, PRODUCERS);
    REQUIRE_OK(spn__lanes_create(&l.lanes, MARK));
    t_parallel(PRODUCERS + WORKERS + 2, play, &l);
    for (int i = 0; i < l.all; i++)
        CHECK_EQ(atomic_load(&l.items[i].out), 1);
    CHECK_EQ(spn__lanes_size(l.lanes), 0);
    CHECK_EQ(spn__lanes_pushed(l.lanes), l.all);
    CHECK_EQ(l.by_worker + l.by_remove + l.by_collect, l.all);
    spn__lanes_destroy(l.lanes);
    free(l.items);
}

/* ---- a task behind a long one ------------------------------------------------------- */

struct starvation {
    spn_latch *end; /* of the long task */
    int64_t short_ns;
    atomic_long shorts; /* newer tasks that have run */
    long before;        /* as many of them before the victim; -1: it has not run */
    atomic_int victim_ran;
};

static int run_long(void *arg)
{
    const struct starvation *s = arg;

    return spn_latch_await(s->end, SPN_FOREVER);
}

static int run_victim(void *arg)
{
    struct starvation *s = arg;

    s->before = atomic_load(&s->shorts);
    atomic_store(&s->victim_ran, 1);
    return 0;
}

static int run_short(void *arg)
{
    struct starvation *s = arg;
    const int64_t end_ns = spn_now() + s->short_ns;

    while (atomic_load(&s->victim_ran) == 0 && spn_now() < end_ns)
        ;
    atomic_fetch_add(&s->shorts, 1);
    return 0;
}

/* A worker claims the long task, the victim and many short ones, while three others have
 * `count` newer short ones.  Returns how many of these ran before the victim. */
static long starve(int64_t short_ns, int count)
{
    struct starvation s = { .short_ns = short_ns, .before = -1 };
    spn_pool_opts opts = spn_pool_opts_fixed(4, SPN_UNBOUNDED);
    spn_executor *ex;
    spn_pool *pool;

    opts.queue_kind = SPN_POOL_LANES;
    REQUIRE_OK(spn_latch_create(&s.end, 1));
    REQUIRE_OK(spn_pool_create(&pool, &opts));
    REQUIRE(spn_pool_prestart(pool, SPN_DEFAULT) == 4);
    ex = spn_pool_executor(pool);
    REQUIRE_OK(
        spn_pool_pause(pool)); /* so that all of it is there at the first claim */
    REQUIRE_OK(spn_executor_call(ex, run_long, &s));
    REQUIRE_OK(spn_executor_call(ex, run_victim, &s));
    for (int i = 0; i < count; i++)
        REQUIRE_OK(spn_executor_call(ex, run_short, &s));
    REQUIRE_OK(spn_pool_resume(pool));
    T_AWAIT(atomic_load(&s.victim_ran) != 0);
    CHECK_OK(spn_latch_count_down(s.end));
    CHECK_OK(spn_pool_close(pool));
    CHECK_OK(spn_pool_destroy(pool));
    CHECK_OK(spn_latch_destroy(s.end));
    return s.before;
}

/*
 * What follows is counted in tasks, because a busy machine stretches their time.  Each of
 * the three looks at another batch before a claim, a tick of at most 10 ms after its last
 * look, and finds the stalled one within five looks.  A tick lasts for two claims of 255
 * short tasks at most, so 3 * 5 * 2 * 255 = 7650 run meanwhile.
 */
TEST(lanes__behind_a_long_task__short_ones_do_not_starve_it)
{
    CHECK(starve(SPN_US(20), 40000) <= 20000);
}

/* Here a claim is longer than any tick: 3 * 5 * 255 = 3825. */
TEST(lanes__behind_a_long_task__slow_ones_do_not_starve_it)
{
    CHECK(starve(SPN_MS(1), 8000) <= 6000);
}
