/* SPDX-License-Identifier: MIT */
/* test_pool_eager.c - the eager pool: threads before the queue, by the count of tasks
 * on their way. */
#include "pools.h"

static spn_pool *eager_of(int32_t core, int32_t max, int32_t queues)
{
    spn_pool_opts opts = spn_pool_opts_eager(core, max, queues, SPN_SEC(3600));

    return pool_with(&opts);
}

/* The numbers of the contract: 5 core, 10 at most, room for 5: ten blockers are ten
 * threads, five wait, the sixteenth is refused. */
TEST(eager__blockers__threads_then_queue_then_refusal, "X-10", "S-1")
{
    spn_pool *pool = eager_of(5, 10, 5);
    spn_latch *gate = gate_new();
    struct piece p[16];

    pieces_init(p, 16, gate);
    for (int i = 0; i < 10; i++) {
        start(pool, &p[i]);
        CHECK_EQ(pool_stats(pool).threads, i + 1);
        CHECK_EQ(pool_stats(pool).submitted, i + 1);
    }
    CHECK_EQ(pool_stats(pool).queued, 0);
    for (int i = 10; i < 15; i++)
        CHECK_OK(execute(pool, &p[i]));
    CHECK_EQ(pool_stats(pool).threads, 10);
    CHECK_EQ(pool_stats(pool).queued, 5);
    CHECK_EQ(pool_stats(pool).submitted, 15);
    CHECK_STATUS(execute(pool, &p[15]), SPN_EREJECTED);
    CHECK_EQ(pool_stats(pool).submitted, 15); /* not on its way */
    gate_open(gate);
    pool_rest(pool);
    CHECK_EQ(pool_stats(pool).submitted, 0);
    pool_close(pool);
    CHECK(untouched(&p[15]));
    gate_free(gate);
}

/* With a thread free, a task is queued for it: no thread is made. */
TEST(eager__idle_thread__task_is_queued_for_it, "X-10", "S-1")
{
    spn_pool *pool = eager_of(2, 5, 5);
    spn_latch *gate = gate_new();
    struct piece p[6];

    pieces_init(p, 6, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(execute(pool, &p[i]));
        pool_rest(pool);
    }
    CHECK_EQ(pool_stats(pool).threads, 2);
    for (int i = 2; i < 6; i++) {
        CHECK_OK(execute(pool, &p[i])); /* fewer on their way than threads */
        pool_rest(pool);
        CHECK_EQ(pool_stats(pool).threads, 2);
    }
    pool_close(pool);
    gate_free(gate);
}

/* At max the queue is next, also with room for many threads before. */
TEST(eager__at_max__queued, "X-10")
{
    spn_pool *pool = eager_of(0, 2, 3);
    spn_latch *gate = gate_new();
    struct piece p[5];

    pieces_init(p, 5, gate);
    start(pool, &p[0]);
    start(pool, &p[1]);
    for (int i = 2; i < 5; i++)
        CHECK_OK(execute(pool, &p[i]));
    CHECK_EQ(pool_stats(pool).threads, 2);
    CHECK_EQ(pool_stats(pool).queued, 3);
    CHECK(untouched(&p[2]));
    gate_open(gate);
    pool_close(pool);
    for (int i = 0; i < 5; i++)
        CHECK(ran(&p[i]));
    gate_free(gate);
}

static int give_back(void *arg, void **result)
{
    *result = arg;
    return 0;
}

static void act_nothing(struct piece *p)
{
    (void)p;
}

/* submitted goes up before a task is taken and down again on each way out: run, failed,
 * removed, purged, cancelled, dropped, drained, refused. */
TEST(eager__every_way_out__submitted_comes_back, "S-1", "P19")
{
    spn_pool_opts opts = spn_pool_opts_eager(1, 1, 8, SPN_SEC(3600));
    spn_latch *gate = gate_new();
    struct piece hold, fails, removed, owned, refused, late;
    spn_future *cancelled;
    spn_pool *pool;

    opts.hooks.uncaught = uncaught_quietly;
    pool = pool_with(&opts);
    piece_init(&hold, gate);
    start(pool, &hold);
    CHECK_EQ(pool_stats(pool).submitted, 1);
    piece_init(&fails, NULL);
    fails.code = -1;
    fails.act = act_nothing;
    CHECK_OK(execute(pool, &fails));
    CHECK_EQ(pool_stats(pool).submitted, 2);
    piece_init(&removed, NULL);
    CHECK_OK(execute(pool, &removed));
    CHECK_EQ(pool_stats(pool).submitted, 3);
    CHECK_EQ(pool_remove(pool, &removed.task), 1);
    CHECK_EQ(pool_stats(pool).submitted, 2);
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(pool), give_back, NULL, &cancelled));
    CHECK_EQ(spn_future_cancel(cancelled, 0), 1);
    CHECK_EQ(pool_stats(pool).submitted, 3);
    CHECK_EQ(spn_pool_purge(pool), 1);
    CHECK_EQ(pool_stats(pool).submitted, 2);
    spn_future_unref(cancelled);
    job_init(&owned, NULL);
    owned.job.owner = &hold;
    CHECK_OK(execute(pool, &owned));
    CHECK_EQ(spn_pool_cancel_owner(pool, &hold), 1);
    CHECK_EQ(pool_stats(pool).submitted, 2);
    CHECK_OK(pool_set_capacity(pool, 1));
    piece_init(&refused, NULL);
    CHECK_STATUS(execute(pool, &refused), SPN_EREJECTED);
    CHECK_EQ(pool_stats(pool).submitted, 2);
    CHECK_OK(pool_set_reject(pool, spn_reject_discard()));
    CHECK_OK(execute(pool, &refused));
    CHECK_EQ(pool_stats(pool).submitted, 2);
    CHECK_OK(pool_set_reject(pool, spn_reject_caller_runs()));
    CHECK_OK(execute(pool, &refused));
    CHECK_EQ(pool_stats(pool).submitted, 2);
    CHECK_OK(pool_set_reject(pool, spn_reject_discard_oldest()));
    CHECK_OK(execute(pool, &removed)); /* drops `fails` */
    CHECK(dropped(&fails, SPN_EREJECTED));
    CHECK_EQ(pool_stats(pool).submitted, 2);
    gate_open(gate);
    pool_rest(pool);
    CHECK_EQ(pool_stats(pool).submitted, 0);
    piece_init(&hold, NULL);
    hold.code = -2; /* one that fails in a worker */
    CHECK_OK(execute(pool, &hold));
    pool_rest(pool);
    CHECK_EQ(pool_stats(pool).submitted, 0);
    piece_init(&hold, NULL);
    hold.dies = 1; /* one that ends its thread */
    CHECK_OK(execute(pool, &hold));
    pool_rest(pool);
    CHECK_EQ(pool_stats(pool).submitted, 0);
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(pool_set_reject(pool, spn_reject_abort()));
    piece_init(&late, NULL);
    CHECK_STATUS(execute(pool, &late), SPN_EREJECTED);
    CHECK_EQ(pool_stats(pool).submitted, 0);
    pool_close(pool);
    gate_free(gate);
}

/* What shutdown_now hands back is no longer on its way. */
TEST(eager__shutdown_now__submitted_comes_back, "S-1", "X-11")
{
    spn_pool *pool = eager_of(1, 1, 4);
    spn_latch *gate = gate_new();
    struct left left = { .count = 0 };
    struct piece p[4];

    pieces_init(p, 4, gate);
    start(pool, &p[0]);
    for (int i = 1; i < 4; i++)
        CHECK_OK(execute(pool, &p[i]));
    CHECK_EQ(pool_stats(pool).submitted, 4);
    CHECK_OK(pool_shutdown_now(pool, left_add, &left, NULL));
    CHECK_EQ(left.count, 3);
    CHECK_EQ(pool_stats(pool).submitted, 1);
    CHECK_STATUS(execute(pool, &p[1]), SPN_EREJECTED); /* the retry is refused too */
    gate_open(gate);
    pool_close(pool);
    gate_free(gate);
}

/* On refusal the queue is tried once more: room that appeared meanwhile is used.  The
 * factory makes the room, where a thread would have been made. */
struct roomy {
    spn_thread_factory factory;
    spn_pool *pool;
    struct piece *waits;
    int asked;
};

static int make_room(const spn_thread_factory *factory, spn_thread **out,
                     spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    struct roomy *r = (struct roomy *)(uintptr_t)factory;

    if (r->asked++ == 0)
        return spn_thread_create(out, opts, fn, arg);
    *out = NULL;
    return SPN_EAGAIN;
}

TEST(eager__thread_cannot_be_made__queued_after_all, "X-11", "S-1")
{
    spn_pool_opts opts = spn_pool_opts_eager(1, 4, 2, SPN_SEC(3600));
    struct roomy r = { .factory = { sizeof r.factory, make_room } };
    spn_latch *gate = gate_new();
    struct piece p[4];

    opts.factory = &r.factory;
    r.pool = pool_with(&opts);
    pieces_init(p, 4, gate);
    start(r.pool, &p[0]);
    CHECK_OK(execute(r.pool, &p[1])); /* no thread to be had: the queue, then */
    CHECK_OK(execute(r.pool, &p[2]));
    CHECK_EQ(pool_stats(r.pool).threads, 1);
    CHECK_EQ(pool_stats(r.pool).queued, 2);
    CHECK(execute(r.pool, &p[3]) < 0);
    CHECK_EQ(pool_stats(r.pool).submitted, 3);
    gate_open(gate);
    pool_close(r.pool);
    CHECK(ran(&p[1]) && ran(&p[2]) && untouched(&p[3]));
    gate_free(gate);
}

struct burst {
    spn_pool *pool;
    atomic_long ran, refused;
    int rounds;
};

static int count_one(void *arg)
{
    atomic_fetch_add(&((struct burst *)arg)->ran, 1);
    return 0;
}

static void burst(int index, void *arg)
{
    struct burst *b = arg;

    (void)index;
    for (int i = 0; i < b->rounds; i++) {
        const int rc = spn_executor_call(spn_pool_executor(b->pool), count_one, b);

        CHECK(rc == SPN_OK || rc == SPN_EREJECTED);
        if (rc != SPN_OK)
            atomic_fetch_add(&b->refused, 1);
    }
}

/* Under a burst each task is run or refused, and the count is exactly zero after it. */
TEST(eager__burst__counted_to_the_last, "S-1", "X-10")
{
    struct burst b = { .pool = eager_of(1, 3, 16), .rounds = t_rounds(5000) };

    t_parallel(3, burst, &b);
    pool_rest(b.pool);
    CHECK_EQ(pool_stats(b.pool).submitted, 0);
    CHECK_EQ(atomic_load(&b.ran) + atomic_load(&b.refused), 3L * b.rounds);
    CHECK_EQ(pool_stats(b.pool).rejected, atomic_load(&b.refused));
    pool_close(b.pool);
}
