/* SPDX-License-Identifier: MIT */
/*
 * test_pool_corners.c - where two features of the pool meet: helping and pausing,
 * hand-off and urgent jobs, a queue of the user's and either, hooks and waiting.
 */
#include "pools.h"

#include <stdatomic.h>

static spn_pool *pool;
static atomic_int waiting_rc;

/* ---- waits that are not hopeless ------------------------------------------------- */

static spn_future *shared;
static atomic_int shared_there, shared_runs;
static spn_latch *let_go;

static int run_long(void *arg, void **result)
{
    (void)arg;
    (void)result;
    atomic_store(&shared_runs, 1);
    return spn_latch_await(let_go, SPN_FOREVER);
}

static int submit_and_wait(void *arg, void **result)
{
    (void)arg;
    (void)result;
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(pool), run_long, NULL, &shared));
    atomic_store(&shared_there, 1);
    T_AWAIT(atomic_load(&shared_runs) != 0); /* somebody else has it */
    atomic_store(&waiting_rc, 100);
    atomic_store(&waiting_rc, spn_future_get(shared, NULL, SPN_FOREVER));
    return 0;
}

static void help_or_submit(int index, void *arg)
{
    spn_future *outer;

    (void)arg;
    if (index == 0) {
        T_AWAIT(atomic_load(&shared_there) != 0);
        CHECK_OK(spn_future_get(shared, NULL, SPN_FOREVER)); /* runs it */
        return;
    }
    REQUIRE_OK(
        spn_executor_submit(spn_pool_executor(pool), submit_and_wait, NULL, &outer));
    T_AWAIT(atomic_load(&waiting_rc) != 0);
    CHECK_OK(spn_latch_count_down(let_go));
    T_AWAIT(spn_future_is_done(outer) == 1);
    spn_future_unref(outer);
}

/* The only worker waits for what a helper outside runs: that will end, and is no
 * deadlock. */
TEST(corner__awaited_task_runs_on_a_helper__no_deadlock, "P6")
{
    spn_pool_opts opts = opts_of(1, 1, 4);

    opts.helping = 1;
    pool = pool_with(&opts);
    let_go = gate_new();
    atomic_store(&shared_there, 0);
    atomic_store(&shared_runs, 0);
    atomic_store(&waiting_rc, 0);
    t_parallel(2, help_or_submit, NULL);
    CHECK_EQ(atomic_load(&waiting_rc), SPN_OK);
    spn_future_unref(shared);
    pool_close(pool);
    CHECK_OK(spn_latch_destroy(let_go));
}

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
    T_AWAIT(spn_pool_queued(pool) == 2 && asleep(0) && asleep(1));
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

/* ---- urgent jobs ------------------------------------------------------------------- */

/* The one worker sleeps in the user's queue: an urgent job wakes it. */
TEST(corner__urgent_job_and_a_queue_of_the_users__runs, "P10")
{
    spn_pool_opts opts = opts_of(1, 1, 0);
    spn_queue *queue;
    struct piece p;

    REQUIRE_OK(spn_queue_create(&queue, SPN_QUEUE_LINKED, NULL));
    opts.queue = queue;
    opts.queue_capacity = SPN_DEFAULT;
    opts.urgent_threads = 0;
    pool = pool_with(&opts);
    CHECK_EQ(spn_pool_prestart(pool), 1);
    T_AWAIT(spn_queue_waiting_consumers(queue) == 1);
    job_init(&p, NULL);
    p.job.urgent = 1;
    CHECK_OK(execute(pool, &p));
    T_AWAIT(ended(&p) == 1);
    CHECK(ran(&p));
    pool_close(pool);
    CHECK_OK(spn_queue_destroy(queue));
}

/* A worker that runs an urgent job is not free for a hand-over: the next task gets a
 * thread of its own. */
TEST(corner__urgent_job_and_hand_off__worker_is_not_free, "EXE-4")
{
    spn_pool_opts opts = spn_pool_opts_cached(0, 4, SPN_HANDOFF, SPN_SEC(60));
    spn_latch *gate = gate_new();
    struct piece first, urgent, second;

    pool = pool_with(&opts);
    piece_init(&first, NULL);
    CHECK_OK(execute(pool, &first));
    T_AWAIT(ended(&first) == 1 && spn_pool_active(pool) == 0);
    job_init(&urgent, gate);
    urgent.job.urgent = 1;
    CHECK_OK(execute(pool, &urgent));
    T_AWAIT(started(&urgent) == 1);
    piece_init(&second, NULL);
    CHECK_OK(execute(pool, &second));
    T_AWAIT(ended(&second) == 1); /* while the urgent one still runs */
    CHECK_EQ(ended(&urgent), 0);
    gate_open(gate);
    pool_close(pool);
    gate_free(gate);
}

/* ---- pausing ------------------------------------------------------------------------ */

static int block(spn_task *task)
{
    int rc;

    spn_pool_block_begin();
    rc = piece_run(task);
    spn_pool_block_end();
    return rc;
}

/* What was queued while paused, behind a worker that blocks, gets a stand-in. */
TEST(corner__resume_behind_a_blocked_worker__stand_in_comes, "P38")
{
    spn_latch *gate = gate_new();
    struct piece blocked, queued;

    pool = pool_of(1, 1, 4);
    piece_init(&blocked, gate);
    blocked.task.fn = block;
    CHECK_OK(execute(pool, &blocked));
    T_AWAIT(started(&blocked) == 1);
    CHECK_OK(spn_pool_pause(pool));
    piece_init(&queued, NULL);
    CHECK_OK(execute(pool, &queued));
    CHECK_OK(spn_pool_resume(pool));
    T_AWAIT(ended(&queued) == 1);
    CHECK_EQ(ended(&blocked), 0);
    gate_open(gate);
    pool_close(pool);
    gate_free(gate);
}

static int give(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* Who waits does not start the tasks of a paused pool. */
TEST(corner__helping_and_paused__not_started, "P15")
{
    spn_pool_opts opts = opts_of(0, 1, 4);
    spn_future *f;
    void *value = NULL;

    opts.helping = 1;
    pool = pool_with(&opts);
    CHECK_OK(spn_pool_pause(pool));
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(pool), give, &pool, &f));
    CHECK_STATUS(spn_future_get(f, &value, SPN_MS(1)), SPN_ETIMEDOUT);
    CHECK_OK(spn_pool_resume(pool));
    CHECK_OK(spn_future_get(f, &value, SPN_FOREVER));
    CHECK(value == &pool);
    spn_future_unref(f);
    pool_close(pool);
}

/* ---- waiting for oneself -------------------------------------------------------------- */

static int await_own_pool(void *arg, void **result)
{
    (void)arg;
    (void)result;
    (void)spn_pool_shutdown(pool);
    return spn_pool_await(pool, SPN_FOREVER);
}

/* A task that is run by its waiter is a task of the pool like any other. */
TEST(corner__await_from_a_helped_task__refused, "TPE-60")
{
    spn_pool_opts opts = opts_of(1, 1, 4);
    spn_latch *gate = gate_new();
    struct piece busy;
    spn_future *f;
    int code = 0;

    opts.helping = 1;
    pool = pool_with(&opts);
    piece_init(&busy, gate);
    CHECK_OK(execute(pool, &busy));
    T_AWAIT(started(&busy) == 1);
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(pool), await_own_pool, NULL, &f));
    CHECK_STATUS(spn_future_get(f, NULL, SPN_FOREVER), SPN_EFAILED);
    CHECK_OK(spn_future_error(f, &code, NULL, 0));
    CHECK_STATUS(code, SPN_EDEADLK);
    spn_future_unref(f);
    gate_open(gate);
    pool_close(pool);
    gate_free(gate);
}

static void await_in_hook(spn_pool *p, void *ctx)
{
    *(int *)ctx = spn_pool_await(p, SPN_FOREVER);
}

static void end_idle_pool(int index, void *arg)
{
    (void)index;
    (void)arg;
    CHECK_OK(spn_pool_shutdown(pool)); /* the first call of this thread: no record */
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
