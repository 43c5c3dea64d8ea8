/* SPDX-License-Identifier: MIT */
/*
 * test_pool_corners.c - where two features of the pool meet: waiting and
 * threads that do not come, hooks and waiting.
 */
#include "pools.h"

#include <stdatomic.h>

static spn_pool *pool;

/* ---- all wait, and the thread that was on its way does not come -------------------- */

/* Gives two threads, and has whoever asks for more wait and go without. */
struct broken {
    spn_thread_factory factory;
    atomic_int asked;
    spn_latch *gate;
};

static int make_two(const spn_thread_factory *factory, spn_thread **out,
                    spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    struct broken *b = (struct broken *)(uintptr_t)factory;

    if (atomic_fetch_add(&b->asked, 1) < 2)
        return spn_thread_create(out, opts, fn, arg);
    *out = NULL;
    REQUIRE_OK(spn_latch_await(b->gate, SPN_FOREVER));
    return SPN_EAGAIN;
}

static struct {
    atomic_int tid, rc;
} nested[2];
static spn_latch *may_submit;

static int return_arg(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* Waits for a task behind it, until told so. */
static int wait_behind(void *arg, void **result)
{
    const int i = (int)(intptr_t)arg;
    spn_future *inner;
    int rc;

    (void)result;
    atomic_store(&nested[i].tid, peer_gettid());
    REQUIRE_OK(spn_latch_await(may_submit, SPN_FOREVER));
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(pool), return_arg, arg, &inner));
    rc = spn_future_get(inner, NULL, SPN_FOREVER);
    atomic_store(&nested[i].rc, rc == SPN_OK ? 1 : rc);
    spn_future_unref(inner);
    return 0;
}

static int execute_third(void *piece)
{
    return execute(pool, piece);
}

static bool asleep(int i)
{
    return atomic_load(&nested[i].tid) != 0 &&
           peer_state(atomic_load(&nested[i].tid)) == 'S';
}

/* Both workers wait for what only the third would run, and that one's thread cannot be
 * made: one of them is told, and then there is somebody to run the rest. */
TEST(corner__all_wait_for_a_worker_that_never_comes__one_is_refused, "P6", "TPE-21")
{
    struct broken broken = { .factory = { sizeof broken.factory, make_two } };
    spn_pool_opts opts = opts_of(3, 3, 8);
    spn_future *outer[2];
    struct piece third;
    struct peer peer;

    memset(nested, 0, sizeof nested);
    broken.gate = gate_new();
    may_submit = gate_new();
    opts.factory = &broken.factory;
    pool = pool_with(&opts);
    for (intptr_t i = 0; i < 2; i++)
        REQUIRE_OK(spn_executor_submit(spn_pool_executor(pool), wait_behind, (void *)i,
                                       &outer[i]));
    piece_init(&third, NULL);
    peer_start(&peer, execute_third, &third);
    T_AWAIT(atomic_load(&broken.asked) == 3); /* it is being made */
    gate_open(may_submit);
    T_AWAIT(pool_stats(pool).queued == 2 && asleep(0) && asleep(1));
    gate_open(broken.gate);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(spn_future_get(outer[i], NULL, SPN_FOREVER));
        spn_future_unref(outer[i]);
    }
    /* One was refused and the other not; or both, if the second came to its turn
     * before the first had gone on. */
    CHECK(atomic_load(&nested[0].rc) == SPN_EDEADLK ||
          atomic_load(&nested[1].rc) == SPN_EDEADLK);
    (void)peer_finish(&peer);
    pool_close(pool);
    gate_free(broken.gate);
    gate_free(may_submit);
}

/* ---- a thread comes after all, while what waits for one is dropped -------------------- */

enum { LATE = 500 };

static struct {
    spn_thread_factory factory;
    spn_task tasks[LATE];
    struct piece more;
    int asked, dropped;
    atomic_int ran;
} late;

static int late_run(spn_task *task)
{
    (void)task;
    atomic_fetch_add(&late.ran, 1);
    return 0;
}

/* With the first that is dropped there are threads again. */
static void late_drop(spn_task *task, int reason)
{
    (void)task;
    CHECK_STATUS(reason, SPN_EAGAIN);
    if (late.dropped++ == 0)
        CHECK_OK(execute(pool, &late.more));
}

/* Has no thread the first time, when many tasks have come for it. */
static int make_second(const spn_thread_factory *factory, spn_thread **out,
                       spn_thread_opts *opts, spn_thread_fn fn, void *arg)
{
    (void)factory;
    if (late.asked++ > 0)
        return spn_thread_create(out, opts, fn, arg);
    *out = NULL;
    for (int i = 0; i < LATE; i++)
        CHECK_OK(spn_executor_execute(spn_pool_executor(pool), &late.tasks[i]));
    return SPN_EAGAIN;
}

/* In lanes what waits is dropped a part at a time: what is left when there is a worker is
 * run by it. */
TEST(corner__worker_comes_while_tasks_are_dropped__runs_the_rest, "TPE-22")
{
    spn_pool_opts opts = opts_of(1, 1, SPN_UNBOUNDED);
    spn_latch *gate = gate_new();
    struct piece first;
    spn_pool_stats s;

    late.factory = (spn_thread_factory){ sizeof late.factory, make_second };
    for (int i = 0; i < LATE; i++)
        late.tasks[i] = (spn_task)SPN_TASK_INIT(late_run, late_drop);
    piece_init(&first, NULL);
    piece_init(&late.more, gate);
    opts.queue_kind = SPN_POOL_LANES;
    opts.factory = &late.factory;
    pool = pool_with(&opts);
    CHECK_OK(execute(pool, &first)); /* queued, as there is a worker by then */
    CHECK(late.dropped > 0 && late.dropped < LATE);
    gate_open(gate);
    T_AWAIT(atomic_load(&late.ran) == LATE - late.dropped);
    s = pool_stats(pool);
    CHECK_EQ(s.dropped, late.dropped);
    pool_close(pool);
    CHECK_EQ(started(&first), 1);
    gate_free(gate);
}

/* ---- waiting for oneself -------------------------------------------------------------- */

static void await_in_hook(spn_pool *p, void *ctx)
{
    *(int *)ctx = pool_await(p, SPN_FOREVER);
}

static void end_idle_pool(int index, void *arg)
{
    (void)index;
    (void)arg;
    CHECK_OK(pool_shutdown(pool)); /* the first call of this thread: no record */
}

/* The terminated hook does not wait for itself, on whatever thread it runs. */
TEST(corner__await_in_the_terminated_hook__refused, "TPE-57")
{
    spn_pool_opts opts = opts_of(1, 1, 4);
    int rc = SPN_OK;

    opts.hooks.terminated = await_in_hook;
    opts.hooks.ctx = &rc;
    pool = pool_with(&opts);
    t_parallel(1, end_idle_pool, NULL);
    CHECK_STATUS(rc, SPN_EDEADLK);
    CHECK_OK(spn_pool_destroy(pool));
}

/* ---- a queue of the user's -------------------------------------------------------------- */

static int never_equal(const void *a, const void *b, void *ctx)
{
    (void)a;
    (void)b;
    (void)ctx;
    return 0;
}

/* Tasks are taken out by who they are: a queue that has another idea is refused. */
TEST(corner__queue_with_its_own_equal__refused, "TPE-1")
{
    spn_pool_opts opts = opts_of(1, 1, 0);
    spn_queue_opts q = SPN_QUEUE_OPTS_INIT;
    spn_queue *queue;
    spn_pool *none;

    q.equal = never_equal;
    REQUIRE_OK(spn_queue_create(&queue, SPN_QUEUE_LINKED, &q));
    opts.queue = queue;
    opts.queue_capacity = SPN_DEFAULT;
    CHECK_STATUS(spn_pool_create(&none, &opts), SPN_EINVAL);
    CHECK(none == NULL);
    CHECK_OK(spn_queue_destroy(queue));
}
