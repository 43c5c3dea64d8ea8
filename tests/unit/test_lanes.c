/* SPDX-License-Identifier: MIT */
/*
 * test_lanes.c - the lanes against a plain model, on one thread; their memory; lanes of
 * threads that have ended.  tests/sim/scenario_lanes.c has the races.
 */
#include "counting.h"
#include "test.h"

#include <string.h>

#include "exec/pool.h"
#include "exec/work.h"

enum { TASKS = 4000, WORKERS = 3, MARK = 77 };

static struct spn__lanes *lanes;
static struct spn__worker worker[WORKERS];
static spn_task task[TASKS];
static bool waits[TASKS]; /* the model: which tasks wait */
static int64_t waiting;
static int64_t calls; /* and how many calls */

static int run_task(spn_task *t)
{
    (void)t;
    return 0;
}

static int run_call(void *arg)
{
    (void)arg;
    return 0;
}

static void set_up(int workers)
{
    memset(worker, 0, sizeof worker);
    memset(waits, 0, sizeof waits);
    waiting = calls = 0;
    for (int i = 0; i < TASKS; i++)
        task[i] = (spn_task)SPN_TASK_INIT(run_task, NULL);
    REQUIRE_OK(spn__lanes_create(&lanes, MARK));
    for (int i = 0; i < workers; i++)
        REQUIRE_OK(spn__lanes_worker_init(lanes, &worker[i]));
}

static void tear_down(int workers)
{
    CHECK_EQ(spn__lanes_size(lanes), 0);
    CHECK(!spn__lanes_any(lanes));
    for (int i = 0; i < workers; i++)
        spn__lanes_worker_fini(lanes, &worker[i]);
    spn__lanes_destroy(lanes);
}

static int push(int i)
{
    int rc;

    REQUIRE_OK(spn_task_claim(&task[i]));
    rc = spn__lanes_push(lanes, (struct spn__entry){ spn__entry_task, &task[i] });
    if (rc == SPN_OK) {
        waits[i] = true;
        waiting++;
    } else {
        spn_task_release(&task[i]);
    }
    return rc;
}

/* The task came out, and is free again. */
static int came_out(spn_task *t)
{
    const int i = (int)(t - task);

    REQUIRE(i >= 0 && i < TASKS);
    CHECK(waits[i]);
    waits[i] = false;
    waiting--;
    spn_task_release(t);
    return i;
}

/* Which task, -1 for a call, -2 for nothing. */
static int take(int w)
{
    struct spn__entry entry;
    bool more;

    if (!spn__lanes_take(lanes, &worker[w], &entry, &more))
        return -2;
    if (entry.fn == spn__entry_task)
        return came_out(entry.arg);
    CHECK(entry.fn == run_call);
    CHECK(calls > 0);
    calls--;
    return -1;
}

/* All that goes in comes out in order, over many chunks and a grown directory. */
TEST(lanes__one_worker__first_in_first_out, "TPE-12")
{
    set_up(1);
    for (int i = 0; i < TASKS; i++)
        CHECK_OK(push(i));
    CHECK_EQ(spn__lanes_size(lanes), TASKS);
    CHECK_EQ(spn__lanes_pushed(lanes), TASKS);
    for (int i = 0; i < TASKS; i++)
        CHECK_EQ(take(0), i);
    CHECK_EQ(take(0), -2);
    CHECK_EQ(spn__lanes_pushed(lanes), TASKS);
    tear_down(1);
}

static bool third(spn_task *t, const void *ctx)
{
    return (t - task) % 3 == *(const int *)ctx;
}

static void collect_some(bool (*wanted)(spn_task *, const void *), const void *ctx)
{
    struct spn__list out;
    struct spn__list_node *node;
    int64_t count, seen = 0;

    spn__list_init(&out);
    count = spn__lanes_collect(lanes, wanted, ctx, &out);
    for (; (node = spn__list_pop_front(&out)) != NULL; seen++) {
        spn_task *t = spn__node_task(node);

        CHECK(wanted(t, ctx));
        (void)came_out(t);
    }
    CHECK_EQ(seen, count);
}

/* Takes out at most so many entries, which the model has; returns how many. */
static size_t drain(size_t capacity)
{
    static struct spn__entry entries[TASKS];
    const size_t count = spn__lanes_drain(lanes, entries, capacity);

    for (size_t i = 0; i < count; i++) {
        if (entries[i].fn == spn__entry_task)
            (void)came_out(entries[i].arg);
        else
            calls -= entries[i].fn == run_call;
    }
    CHECK_EQ(spn__lanes_size(lanes), waiting + calls);
    return count;
}

static void check_snapshot(void)
{
    static spn_task *seen[TASKS];
    static bool listed[TASKS];
    const int64_t count = spn__lanes_snapshot(lanes, seen, TASKS);

    CHECK_EQ(count, waiting);
    memset(listed, 0, sizeof listed);
    for (int64_t i = 0; i < count; i++) {
        CHECK(waits[seen[i] - task]);
        CHECK(!listed[seen[i] - task]);
        listed[seen[i] - task] = true;
    }
    CHECK_EQ(spn__lanes_snapshot(lanes, seen, 1), waiting);
}

/* One random operation, in the lanes and in the model. */
static void step(uint64_t *seed, uint64_t growth)
{
    const int i = (int)(t_random(seed) % TASKS), w = (int)(t_random(seed) % WORKERS);
    const uint64_t what = t_random(seed) % 1000;
    const int wanted = (int)(t_random(seed) % 3);
    bool was;

    if (what < growth) {
        if (!waits[i])
            CHECK_OK(push(i));
    } else if (what < growth + 100) {
        CHECK_OK(spn__lanes_push(lanes, (struct spn__entry){ run_call, NULL }));
        calls++;
    } else if (what < 850) {
        was = waiting + calls > 0;
        CHECK_EQ(take(w) != -2, was);
        if (!was)
            CHECK(!spn__lanes_any(lanes));
    } else if (what < 980) {
        was = waits[i];
        CHECK_EQ(spn__lanes_remove(lanes, &task[i]), was);
        if (was)
            (void)came_out(&task[i]);
    } else if (what < 990) {
        spn__lanes_worker_fini(lanes, &worker[w]);
        REQUIRE_OK(spn__lanes_worker_init(lanes, &worker[w]));
    } else if (what < 994) {
        check_snapshot();
    } else if (what < 995) {
        collect_some(third, &wanted);
        for (int k = wanted; k < TASKS; k += 3)
            CHECK(!waits[k]);
    } else if (what < 996) {
        const size_t capacity = (size_t)i % 64;
        const int64_t all = waiting + calls;

        CHECK_EQ(drain(capacity), all < (int64_t)capacity ? all : (int64_t)capacity);
    } else if (!waits[i]) {
        CHECK_OK(push(i));
        CHECK(spn__lanes_take_back(lanes,
                                   (struct spn__entry){ spn__entry_task, &task[i] }));
        (void)came_out(&task[i]);
    }
    CHECK_EQ(spn__lanes_size(lanes), waiting + calls);
    CHECK(spn__lanes_any(lanes) || waiting + calls == 0);
}

/* Random operations agree with the model, whether more comes or more goes. */
TEST(lanes__random_steps__as_the_model, "TPE-24", "TPE-19")
{
    uint64_t seed = t_seed();

    set_up(WORKERS);
    for (int round = 0; round < 6; round++)
        for (int i = t_rounds(20000); i > 0; i--)
            step(&seed, round % 2 == 0 ? 600 : 200);
    while (drain(64) == 64)
        ;
    CHECK_EQ(waiting + calls, 0);
    CHECK_EQ(take(0), -2); /* past the tombstones */
    tear_down(WORKERS);
}

/* What is left in a batch when its worker goes is there for the next. */
TEST(lanes__worker_goes__its_batch_stays)
{
    set_up(1);
    for (int i = 0; i < 40; i++)
        CHECK_OK(push(i));
    CHECK_EQ(take(0), 0); /* and a batch with it */
    spn__lanes_worker_fini(lanes, &worker[0]);
    CHECK_EQ(spn__lanes_size(lanes), 39);
    CHECK(spn__lanes_any(lanes));
    REQUIRE_OK(spn__lanes_worker_init(lanes, &worker[1]));
    for (int i = 1; i < 40; i++)
        CHECK_EQ(take(1), i);
    worker[0] = worker[1];
    tear_down(1);
}

/* What was removed from the middle is no obstacle, and no leak, when nobody looks. */
TEST(lanes__tombstones_left__destroyed)
{
    const long live = atomic_load(&counting_live);

    set_up(1);
    for (int i = 0; i < 600; i++)
        CHECK_OK(push(i));
    CHECK_EQ(take(0), 0); /* with a batch of 255 */
    for (int i = 1; i < 600; i++)
        if (i != 5 && i != 300 && i != 599) {
            CHECK(spn__lanes_remove(lanes, &task[i]));
            (void)came_out(&task[i]);
        }
    CHECK_EQ(take(0), 5);
    CHECK_EQ(spn__lanes_size(lanes), 2);
    CHECK(spn__lanes_remove(lanes, &task[300]));
    (void)came_out(&task[300]);
    CHECK(spn__lanes_remove(lanes, &task[599]));
    (void)came_out(&task[599]);
    CHECK_EQ(spn__lanes_size(lanes), 0);
    spn__lanes_worker_fini(lanes, &worker[0]);
    spn__lanes_destroy(lanes);
    CHECK_EQ(atomic_load(&counting_live), live);

    /* The same with a batch, and a lane, that begin with one. */
    set_up(1);
    for (int i = 0; i < 8; i++)
        CHECK_OK(push(i));
    CHECK_EQ(take(0), 0); /* with 1 .. 3 */
    for (int i = 1; i < 8; i += 2) {
        CHECK(spn__lanes_remove(lanes, &task[i]));
        (void)came_out(&task[i]);
    }
    CHECK_EQ(take(0), 2);
    spn__lanes_worker_fini(lanes, &worker[0]);
    REQUIRE_OK(spn__lanes_worker_init(lanes, &worker[0]));
    CHECK_EQ(take(0), 4);
    CHECK_EQ(take(0), 6);
    CHECK_EQ(spn__lanes_size(lanes), 0);
    spn__lanes_worker_fini(lanes, &worker[0]);
    spn__lanes_destroy(lanes);
    CHECK_EQ(atomic_load(&counting_live), live);
}

/* Once it has what it needs, it goes on without memory. */
TEST(lanes__steady_state__allocates_nothing)
{
    long before = 0;

    set_up(1);
    for (int round = 0; round < 20; round++) {
        if (round == 2)
            before = atomic_load(&counting_allocs);
        for (int i = 0; i < TASKS; i++)
            CHECK_OK(push(i));
        for (int i = 0; i < TASKS; i++)
            CHECK_EQ(take(0), i);
    }
    CHECK_EQ(atomic_load(&counting_allocs) - before, 0);
    tear_down(1);
}

/* Without memory a push says so; all that was accepted before comes out. */
TEST(lanes__no_memory__says_so)
{
    int accepted = 0;

    set_up(1);
    CHECK_OK(push(0));
    atomic_store(&counting_refuse, 1);
    for (int i = 1; i < TASKS; i++)
        accepted += push(i) == SPN_OK;
    CHECK(accepted < TASKS - 1);
    CHECK_EQ(spn__lanes_size(lanes), accepted + 1);
    atomic_store(&counting_refuse, 0);
    for (int i = 0; i <= accepted; i++)
        CHECK_EQ(take(0), i);
    CHECK_OK(push(0));
    CHECK_EQ(take(0), 0);
    tear_down(1);
}

static void push_one(int index, void *arg)
{
    CHECK_OK(push(*(int *)arg + index));
}

/* Threads that come one after another share one lane; the memory does not grow. */
TEST(lanes__threads_come_and_go__lanes_do_not_pile_up)
{
    long live = 0;

    set_up(1);
    for (int i = 0; i < 100; i++) {
        t_parallel(1, push_one, &i);
        if (i == 10)
            live = atomic_load(&counting_live);
    }
    CHECK_EQ(atomic_load(&counting_live), live);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(take(0), i);
    tear_down(1);
}

/* A thread that uses more lanes than it remembers finds each again. */
TEST(lanes__many_at_once__each_found_again)
{
    enum { MANY = 9 };
    struct spn__lanes *each[MANY];
    struct spn__entry entry;
    bool more;

    set_up(0);
    for (int i = 0; i < MANY; i++)
        REQUIRE_OK(spn__lanes_create(&each[i], MARK));
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < MANY; i++)
            CHECK_OK(spn__lanes_push(each[i], (struct spn__entry){ run_call, NULL }));
    for (int i = 0; i < MANY; i++) {
        REQUIRE_OK(spn__lanes_worker_init(each[i], &worker[0]));
        CHECK_EQ(spn__lanes_size(each[i]), 3);
        for (int round = 0; round < 3; round++)
            CHECK(spn__lanes_take(each[i], &worker[0], &entry, &more));
        spn__lanes_worker_fini(each[i], &worker[0]);
        spn__lanes_destroy(each[i]);
    }
    tear_down(0);
}

/* After close nothing comes in, and what was there can be taken. */
TEST(lanes__closed__refuses, "TPE-16")
{
    set_up(1);
    CHECK_OK(push(0));
    spn__lanes_close(lanes);
    CHECK_STATUS(push(1), SPN_ESHUTDOWN);
    CHECK_STATUS(spn__lanes_push(lanes, (struct spn__entry){ run_call, NULL }),
                 SPN_ESHUTDOWN);
    CHECK_EQ(take(0), 0);
    CHECK_EQ(take(0), -2);
    tear_down(1);
}
