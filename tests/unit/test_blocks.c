/* SPDX-License-Identifier: MIT */
/* test_blocks.c - the cache of small blocks: what it keeps, for whom, and how much. */
#include "test.h"

#include <string.h>

#include <spindle/future.h>
#include <spindle/queue.h>
#include <spindle/thread.h>

#include "../contract/counting.h"
#include "sync/blocks.h"
#include "sync/thread_record.h"

/* The allocator of this program counts, so that without this nothing is kept. */
static void use_cache(void)
{
    struct spn_thread *self = spn__thread_self();

    REQUIRE(self != NULL);
    self->blocks.always = true;
}

static void stop_using(void)
{
    struct spn_thread *self = spn__thread_self();

    spn__blocks_close(&self->blocks);
    spn__blocks_open(&self->blocks);
}

static int run(int (*fn)(void *), void *arg)
{
    spn_thread *thread;
    int result;

    REQUIRE_OK(spn_thread_create(&thread, NULL, fn, arg));
    REQUIRE_OK(spn_thread_join(thread, SPN_FOREVER, &result));
    spn_thread_unref(thread);
    return result;
}

/* A program's own allocator sees every block come and go. */
TEST(blocks__own_allocator__nothing_is_kept)
{
    long live;

    REQUIRE(spn__thread_self() != NULL);
    live = counting_live;
    for (int i = 0; i < 3; i++) {
        const long allocs = counting_allocs;
        void *block = spn__block_get(100);

        REQUIRE(block != NULL);
        CHECK_EQ(counting_allocs, allocs + 1);
        CHECK_EQ(counting_live, live + 1);
        spn__block_put(block);
        CHECK_EQ(counting_live, live);
    }
    spn__block_put(NULL);
}

/* Of every size: aligned, as large as asked for, used again for its size only. */
TEST(blocks__every_size__used_again)
{
    enum { LARGEST = SPN__BLOCK_GRAIN * SPN__BLOCK_CLASSES - 16 };

    use_cache();
    for (size_t bytes = 1; bytes <= LARGEST + 70; bytes++) {
        unsigned char *first = spn__block_get(bytes), *second;
        const long allocs = counting_allocs;

        REQUIRE(first != NULL);
        CHECK_EQ((uintptr_t)first % 16, 0);
        memset(first, 0xee, bytes);
        spn__block_put(first);
        second = spn__block_get(bytes);
        REQUIRE(second != NULL);
        memset(second, 0xff, bytes);
        CHECK_EQ(counting_allocs, bytes <= LARGEST ? allocs : allocs + 1);
        if (bytes <= LARGEST)
            CHECK(second == first);
        spn__block_put(second);
    }
    stop_using();
}

TEST(blocks__impossible_size__no_memory, "G-3")
{
    CHECK(spn__block_get(SIZE_MAX) == NULL);
    CHECK(spn__block_get(SIZE_MAX - 16) == NULL);
    CHECK(spn__block_get(SIZE_MAX - SPN__BLOCK_GRAIN) == NULL);
}

/* No memory is said so, unless a block was kept. */
TEST(blocks__no_memory__kept_ones_serve)
{
    void *block;

    use_cache();
    block = spn__block_get(64);
    REQUIRE(block != NULL);
    spn__block_put(block);
    counting_refuse = 1;
    CHECK(spn__block_get(64) == block);
    CHECK(spn__block_get(64) == NULL);
    counting_refuse = 0;
    spn__block_put(block);
    stop_using();
}

/* ---- bounds ------------------------------------------------------------------------ */

enum { MANY = 4 * (SPN__BLOCK_KEPT + SPN__BLOCK_RETURNED) };
static void *blocks[MANY];

static void get_many(void)
{
    for (int i = 0; i < MANY; i++)
        REQUIRE((blocks[i] = spn__block_get(200)) != NULL);
}

static int put_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < MANY; i++)
        spn__block_put(blocks[i]);
    return 0;
}

/* However many come back, no more than a few are kept. */
TEST(blocks__many_come_back__few_are_kept)
{
    long live;

    use_cache();
    live = counting_live;
    get_many();
    (void)put_many(NULL);
    CHECK_EQ(counting_live, live + SPN__BLOCK_KEPT);
    stop_using();
    CHECK_EQ(counting_live, live);
}

/* The same for those that another thread returns; and its home uses them again. */
TEST(blocks__many_returned__few_are_kept)
{
    long live, allocs;

    use_cache();
    memset(blocks, 0, sizeof blocks);
    (void)run(put_many, NULL); /* its record, which stays */
    live = counting_live;
    get_many();
    CHECK_EQ(run(put_many, NULL), 0);
    CHECK_EQ(counting_live, live + SPN__BLOCK_RETURNED);

    allocs = counting_allocs;
    blocks[0] = spn__block_get(200); /* takes them all, and keeps what it may */
    CHECK_EQ(counting_allocs, allocs);
    CHECK_EQ(counting_live, live + SPN__BLOCK_KEPT);
    spn__block_put(blocks[0]);
    stop_using();
    CHECK_EQ(counting_live, live);
}

/* ---- threads that end ------------------------------------------------------------------ */

static int get_some_and_end(void *arg)
{
    use_cache();
    for (int i = 0; i < 8; i++)
        REQUIRE((blocks[i] = spn__block_get(200)) != NULL);
    for (int i = 0; i < 4; i++)
        spn__block_put(blocks[i]);
    (void)arg;
    return 0;
}

/* What a thread kept goes when it ends; what is out then is freed by whoever has it,
 * also when the record is another thread's. */
TEST(blocks__thread_ends__keeps_nothing)
{
    long live;

    use_cache();
    (void)run(get_some_and_end, NULL); /* its record, which stays */
    for (int i = 4; i < 8; i++)
        spn__block_put(blocks[i]);
    live = counting_live;
    (void)run(get_some_and_end, NULL);
    CHECK_EQ(counting_live, live + 4);
    for (int i = 4; i < 8; i++)
        spn__block_put(blocks[i]);
    CHECK_EQ(counting_live, live);
    stop_using();
}

/* ---- futures --------------------------------------------------------------------------- */

static int answer(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static int next(void *arg, void *value, void **result)
{
    (void)arg;
    *result = value;
    return 0;
}

/* Making, completing, reading and dropping futures of each kind, over and over, asks
 * for no memory once it has been done. */
TEST(blocks__futures_come_and_go__no_allocation)
{
#ifdef SPN_AUDIT
    t_skip("the audit notes each future in memory of its own");
    return;
#endif
    long allocs = 0;

    use_cache();
    for (int i = 0; i < 100; i++) {
        spn_future *f, *stage;
        void *value;

        if (i == 1)
            allocs = counting_allocs;
        REQUIRE_OK(spn_future_create(&f, NULL));
        REQUIRE_OK(spn_future_then(f, NULL, next, NULL, &stage));
        CHECK_EQ(spn_future_complete(f, &allocs), 1);
        CHECK_OK(spn_future_get(stage, &value, SPN_FOREVER));
        CHECK(value == &allocs);
        spn_future_unref(f);
        spn_future_unref(stage);
        REQUIRE_OK(spn_executor_submit(spn_executor_direct(), answer, &f, &f));
        CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
        spn_future_unref(f);
    }
    CHECK_EQ(counting_allocs, allocs);
    stop_using();
}

/* An executor with a thread: a queue of tasks. */
struct worker {
    spn_executor executor; /* first */
    spn_queue *tasks;
};

static int worker_execute(spn_executor *executor, spn_task *task)
{
    const int rc = spn_task_claim(task);

    return rc == SPN_OK ? spn_queue_put(((struct worker *)(void *)executor)->tasks,
                                        task, SPN_FOREVER)
                        : rc;
}

static int work(void *arg)
{
    struct worker *w = arg;
    void *task;

    use_cache();
    while (spn_queue_take(w->tasks, &task, SPN_FOREVER) == SPN_OK) {
        spn_task_release(task);
        (void)((spn_task *)task)->fn(task);
    }
    return 0;
}

/* The same with a worker, on whose thread the last reference often goes. */
TEST(blocks__submit_get_unref__no_allocation)
{
#ifdef SPN_AUDIT
    t_skip("the audit notes each future in memory of its own");
    return;
#endif
    static const spn_executor_ops ops = { .size = sizeof ops,
                                          .execute = worker_execute };
    spn_queue_opts opts = SPN_QUEUE_OPTS_INIT;
    struct worker w = { .executor = { &ops } };
    const int rounds = t_rounds(20000);
    spn_thread *thread;
    long allocs = 0;

    use_cache();
    opts.capacity = 16;
    REQUIRE_OK(spn_queue_create(&w.tasks, SPN_QUEUE_RING, &opts));
    REQUIRE_OK(spn_thread_create(&thread, NULL, work, &w));
    for (int i = 0; i < rounds; i++) {
        spn_future *f;
        void *value;

        if (i == rounds / 10)
            allocs = counting_allocs;
        REQUIRE_OK(spn_executor_submit(&w.executor, answer, &w, &f));
        CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
        CHECK(value == &w);
        spn_future_unref(f);
    }
    /* A worker preempted before its unref costs a block, which then is there. */
    CHECK(counting_allocs - allocs <= 4);
    CHECK_OK(spn_queue_close(w.tasks));
    REQUIRE_OK(spn_thread_join(thread, SPN_FOREVER, NULL));
    spn_thread_unref(thread);
    CHECK_OK(spn_queue_destroy(w.tasks));
    stop_using();
}
