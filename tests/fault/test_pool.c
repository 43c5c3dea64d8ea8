/* SPDX-License-Identifier: MIT */
/*
 * test_pool.c - every allocation and every thread a pool asks for is refused, once and
 * from then on, while a script uses all of it.
 *
 * Each call gives SPN_OK or says for want of what.  What was accepted has run or was
 * dropped, once; the books balance; the pool ends; and no block is left.  The linker
 * wraps pthread_create, the allocator is ours; calls are counted in one sequence.  The
 * script has threads, so the sequence is not the same each time: the sweep goes on until
 * a run of the script reaches no refusal.
 */
#include "pools.h"

#include <errno.h>
#include <stdlib.h>

#include <spindle/log.h>

#define FAULTS_ARMED 0
#include "faults.h"
#include "own_threads.h"

/* ---- the faults ------------------------------------------------------------------------ */

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*fn)(void *), void *arg);

UNSEEN int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                                 void *(*fn)(void *), void *arg)
{
    return refuse() ? EAGAIN : __real_pthread_create(id, attr, fn, arg);
}

/* ---- the script --------------------------------------------------------------------------- */

enum { PIECES = 12, MANY = 300, FUTURES = 10 };

static bool ok_or_refused(int rc)
{
    const bool known = rc == SPN_OK ||
                       ((rc == SPN_ENOMEM || rc == SPN_EAGAIN || rc == SPN_EREJECTED) &&
                        atomic_load(&refused) > 0);

    if (!known)
        fprintf(stderr, "  gave %s\n", spn_status_name(rc));
    return known;
}

static atomic_int call_runs;

static int count_call(void *arg)
{
    (void)arg;
    atomic_fetch_add(&call_runs, 1);
    return 0;
}

static int give_back(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* Everything a pool can do, with as many refusals as come. */
static void use_pool(spn_pool *pool)
{
    spn_executor *ex = spn_pool_executor(pool);
    int accepted[PIECES] = { 0 }, calls = 0, futures = 0, rc;
    struct piece p[PIECES];
    spn_future *f[2] = { NULL, NULL };
    spn_pool_stats s;

    atomic_store(&call_runs, 0);
    for (int i = 0; i < PIECES; i++) {
        job_init(&p[i], NULL);
        p[i].job.priority = i;
        /* Whose thread must be replaced; where none is to be had, the later ones end a
         * thread that goes on although it has been ended. */
        p[i].dies = i == 3 || i >= 7;
    }
    rc = spn_pool_prestart(pool, 1);
    CHECK(rc == 0 || rc == 1 || (rc == SPN_EAGAIN && atomic_load(&refused) > 0));
    for (int i = 0; i < PIECES; i++) {
        rc = execute(pool, &p[i]);
        CHECK(ok_or_refused(rc));
        accepted[i] = rc == SPN_OK;
        CHECK(rc == SPN_OK || untouched(&p[i]));
        if (i == 2) {
            rc = spn_executor_call(ex, count_call, NULL);
            CHECK(ok_or_refused(rc));
            calls += rc == SPN_OK;
        }
        if (i == 5 || i == 6) {
            rc = spn_executor_submit(ex, give_back, pool, &f[i - 5]);
            CHECK(ok_or_refused(rc));
            CHECK((rc == SPN_OK) == (f[i - 5] != NULL));
            futures += rc == SPN_OK;
        }
        if (i == 8)
            CHECK_OK(pool_set_core(pool, 3)); /* threads for the queue */
        if (i == 9) {
            CHECK_OK(spn_pool_pause(pool));
            CHECK_OK(spn_pool_resume(pool));
        }
    }
    for (int i = 0; i < 2; i++) {
        if (f[i] == NULL)
            continue;
        rc = spn_future_get(f[i], NULL, SPN_FOREVER);
        CHECK(rc == SPN_OK || (rc == SPN_EFAILED && atomic_load(&refused) > 0));
        spn_future_unref(f[i]);
    }
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(pool_await(pool, SPN_FOREVER));
    s = pool_stats(pool);
    check_books(&s);
    CHECK_EQ(s.pending, 0);
    CHECK_EQ(s.threads, 0);
    for (int i = 0; i < PIECES; i++) {
        accepted[i] -= started(&p[i]) + drops(&p[i]);
        CHECK_EQ(accepted[i], 0);
        CHECK(drops(&p[i]) == 0 || atomic_load(&refused) > 0);
    }
    CHECK(atomic_load(&call_runs) <= calls);
    CHECK(atomic_load(&call_runs) == calls || atomic_load(&refused) > 0);
    CHECK(futures <= 2 && s.completed + s.failed <= s.accepted);
}

/* ---- a long queue ------------------------------------------------------------------------- */

static atomic_int may_go;

static void wait_to_go(struct piece *piece)
{
    (void)piece;
    T_AWAIT(atomic_load(&may_go) != 0);
}

/* 1 if that was accepted; what found no memory is counted. */
static int accepted_or(int rc, int *poor)
{
    CHECK(ok_or_refused(rc));
    *poor += rc == SPN_ENOMEM;
    return rc == SPN_OK;
}

/* Behind a thread that is held, so many that whatever they wait in has to grow, and to grow
 * again.  Returns how many were accepted. */
struct many {
    struct piece hold, p[MANY];
    spn_future *f[FUTURES];
    int accepted[MANY];
    bool held; /* the thread was there all the while */
    int calls, total;
};

static void queue_many(spn_pool *pool, struct many *m)
{
    spn_executor *ex = spn_pool_executor(pool);
    spn_pool_stats s;
    int poor = 0,
        poor_futures = 0; /* of the latter, those that came to execute count */

    piece_init(&m->hold, NULL);
    m->hold.act = wait_to_go;
    m->total = accepted_or(execute(pool, &m->hold), &poor);
    if (m->total == 1)
        T_AWAIT(started(&m->hold) + drops(&m->hold) == 1);
    m->held = started(&m->hold) == 1;
    for (int i = 0; i < MANY; i++) {
        job_init(&m->p[i], NULL);
        m->p[i].job.priority = i % 7;
        m->total += m->accepted[i] = accepted_or(execute(pool, &m->p[i]), &poor);
        CHECK(m->accepted[i] == 1 || untouched(&m->p[i]));
        if (i % 16 == 0)
            m->calls += accepted_or(spn_executor_call(ex, count_call, NULL), &poor);
        if (i % (MANY / FUTURES) == 0)
            m->total += accepted_or(spn_executor_submit(ex, give_back, pool,
                                                        &m->f[i / (MANY / FUTURES)]),
                                    &poor_futures);
    }
    m->total += m->calls;
    s = pool_stats(pool);
    CHECK_EQ(s.accepted, m->total);
    CHECK(s.rejected_no_memory >= poor && s.rejected_no_memory <= poor + poor_futures);
    if (m->held)
        CHECK_EQ(s.queued, m->total - 1);
}

/* All that was accepted has run; dropped it may be if there was no thread, and then it has
 * one end all the same. */
static void check_many(spn_pool *pool, struct many *m)
{
    const spn_pool_stats s = pool_stats(pool);

    check_books(&s);
    CHECK_EQ(s.accepted, m->total);
    CHECK_EQ(s.pending, 0);
    CHECK(!m->held || s.completed == s.accepted);
    CHECK(atomic_load(&call_runs) <= m->calls);
    CHECK(!m->held || atomic_load(&call_runs) == m->calls);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(ended(&m->p[i]) + drops(&m->p[i]), m->accepted[i]);
        CHECK(!m->held || drops(&m->p[i]) == 0);
    }
    for (int i = 0; i < FUTURES; i++) {
        void *value = pool;

        if (m->f[i] == NULL)
            continue;
        CHECK(spn_future_get_state(m->f[i]) != SPN_FUTURE_PENDING);
        if (m->held)
            CHECK_OK(spn_future_get(m->f[i], &value, 0));
        CHECK(value == pool);
        spn_future_unref(m->f[i]);
    }
}

static void use_long_queue(spn_pool *pool)
{
    static struct many many;

    memset(&many, 0, sizeof many);
    atomic_store(&call_runs, 0);
    atomic_store(&may_go, 0);
    CHECK_OK(pool_set_core(pool, 1));
    CHECK_OK(pool_set_max(pool, 1));
    queue_many(pool, &many);
    atomic_store(&may_go, 1);
    CHECK_OK(pool_shutdown(pool));
    CHECK_OK(pool_await(pool, SPN_FOREVER));
    check_many(pool, &many);
}

/* ---- a pool's life ------------------------------------------------------------------------- */

/* What is done with a pool, and how many calls it has at least that can be refused. */
struct play {
    void (*use)(spn_pool *pool);
    int least;
};

static const struct play everything = { use_pool, 10 };
static const struct play long_queue = { use_long_queue, 10 };

static void script(const struct pool_kind *k, const struct play *play)
{
    spn_pool_opts opts = opts_of(2, 4, SPN_UNBOUNDED);
    spn_queue *queue = NULL;
    spn_pool *pool = (void *)&opts;
    int rc;

    opts.name = "faulty";
    opts.hooks.uncaught = uncaught_quietly;
    opts.queue_kind = k->queue_kind;
    if (k->own != 0) {
        spn_queue_opts q = SPN_QUEUE_OPTS_INIT;

        if (k->own == SPN_QUEUE_ARRAY)
            q.capacity = 4 * MANY;
        rc = spn_queue_create(&queue, (spn_queue_kind)k->own, &q);
        CHECK(ok_or_refused(rc));
        if (rc != SPN_OK)
            return;
        opts.queue = queue;
        opts.queue_capacity = SPN_DEFAULT;
    }
    rc = spn_pool_create(&pool, &opts);
    CHECK(ok_or_refused(rc));
    CHECK((rc == SPN_OK) == (pool != NULL));
    if (rc == SPN_OK) {
        play->use(pool);
        CHECK_OK(spn_pool_destroy(pool));
    }
    CHECK_OK(spn_queue_destroy(queue));
    await_threads_gone();
}

/* Enough thread records for any run, so that later ones are no leak. */
static void warm_up(const struct pool_kind *k, const struct play *play)
{
    spn_pool *pool = pool_of(16, 16, 16);

    CHECK_EQ(spn_pool_prestart(pool, SPN_DEFAULT), 16);
    pool_close(pool);
    await_threads_gone();
    script(k, play);
    script(k, play);
}

static void sweep(const struct pool_kind *k, const struct play *play, int more)
{
    int at = 0, quiet = 0;
    long before;

    (void)spn_thread_current();
    count_own_threads();
    CHECK_OK(spn_log_set_level(SPN_LOG_OFF)); /* what goes wrong is wanted */
    warm_up(k, play);
    before = atomic_load(&live);
    atomic_store(&fail_more, more);
    while (quiet < 2) {
        atomic_store(&fail_at, ++at);
        atomic_store(&point, 0);
        atomic_store(&refused, 0);
        atomic_store(&armed, 1);
        script(k, play);
        atomic_store(&armed, 0);
        quiet = atomic_load(&refused) == 0 ? quiet + 1 : 0;
        if (!CHECK_EQ(atomic_load(&live), before)) {
            fprintf(stderr, "  at point %d\n", at);
            break;
        }
    }
    CHECK(at > play->least);
    atomic_store(&refused, 0);
    atomic_store(&fail_at, 0);
    script(k, play);
    CHECK_EQ(atomic_load(&live), before);
    CHECK_OK(spn_log_set_level(SPN_LOG_WARN));
}

/* One allocation or thread is refused. */
TEST_EACH(pool__each_thing_refused_once__nothing_is_lost, "G-22", "TPE-20", "TPE-21",
          "TPE-22", "TPE-24", "P2")
{
    sweep(k, &everything, 0);
}

/* All are, from one on. */
TEST_EACH(pool__everything_refused_from_one_on__nothing_is_lost, "G-22", "TPE-22",
          "TPE-24", "P2")
{
    sweep(k, &everything, 1);
}

/* The same with hundreds of tasks in the queue: whatever grows for them. */
TEST_EACH(pool__growth_of_a_long_queue_refused_once__nothing_is_lost, "G-22", "TPE-22")
{
    sweep(k, &long_queue, 0);
}

TEST_EACH(pool__growth_of_a_long_queue_refused_from_one_on__nothing_is_lost, "G-22",
          "TPE-22")
{
    sweep(k, &long_queue, 1);
}

/* A pool with a thread needs nothing more to end: shutdown, completing, cancelling and
 * taking back allocate nothing. */
TEST_EACH(pool__nothing_to_be_had__ends_all_the_same, "G-22")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct left left = { .count = 0 };
    struct piece hold, p[3];
    spn_future *f[2];
    int64_t count;

    piece_init(&hold, gate);
    pieces_init(p, 3, NULL);
    start(b.pool, &hold);
    for (int i = 0; i < 3; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(
            spn_executor_submit(spn_pool_executor(b.pool), give_back, NULL, &f[i]));
    (void)spn_thread_current();
    atomic_store(&point, 0);
    atomic_store(&refused, 0);
    atomic_store(&fail_at, 1);
    atomic_store(&fail_more, 1);
    atomic_store(&armed, 1);
    CHECK_EQ(pool_remove(b.pool, &p[1].task), 1);
    CHECK_EQ(spn_future_cancel(f[0], 1), 1);
    CHECK_EQ(spn_pool_purge(b.pool), 1);
    CHECK_OK(pool_shutdown_now(b.pool, left_add, &left, &count));
    CHECK_EQ(count, 3);
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    if (!is(k, OWN)) /* a queue of the user's is asked through copies, if there are */
        CHECK_EQ(atomic_load(&refused), 0); /* nothing was asked for */
    atomic_store(&armed, 0);
    atomic_store(&fail_at, 0);
    for (int i = 0; i < left.count; i++)
        if (left.tasks[i] != NULL && left.tasks[i]->drop != piece_drop)
            CHECK_OK(spn_task_drop(left.tasks[i], SPN_ESHUTDOWN));
    for (int i = 0; i < 2; i++)
        spn_future_unref(f[i]);
    bed_close(&b);
    gate_free(gate);
}

enum { GIVEN = 500 };

/* What a shutdown_now gave back. */
struct given {
    int calls[GIVEN]; /* by argument */
    spn_task *tasks[GIVEN];
    int count, task_count, last;
    bool in_order;
};

static struct given given;

static void given_add(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    struct given *g = ctx;
    int i = -1;

    g->count++;
    if (task != NULL) {
        CHECK(fn == NULL && arg == NULL);
        for (int k = 0; k < g->task_count && i < 0; k++)
            if (g->tasks[k] == task)
                i = 2 + 5 * k;
    } else if (CHECK(fn == count_call)) {
        i = (int)((int *)arg - g->calls);
    }
    if (!CHECK(i >= 0 && i < GIVEN))
        return;
    g->calls[i]++;
    g->in_order = g->in_order && i > g->last;
    g->last = i;
}

/* Without memory shutdown_now gives each call back as a function and its argument, once,
 * and tasks between them in their place. */
TEST_EACH(pool__calls_at_shutdown_now_without_memory__each_given_back_once, "G-22",
          "TPE-52")
{
    struct bed b = bed_open(k, 1, 1);
    static struct piece pieces[GIVEN / 5];
    spn_latch *gate = gate_new();
    struct piece hold;
    spn_pool_stats s;
    int64_t count;

    given = (struct given){ .last = -1, .in_order = true };
    piece_init(&hold, gate);
    pieces_init(pieces, GIVEN / 5, NULL);
    start(b.pool, &hold);
    for (int i = 0; i < GIVEN; i++) {
        if (i % 5 == 2) {
            CHECK_OK(execute(b.pool, &pieces[i / 5]));
            given.tasks[given.task_count++] = &pieces[i / 5].task;
        } else {
            CHECK_OK(spn_executor_call(spn_pool_executor(b.pool), count_call,
                                       &given.calls[i]));
        }
    }
    (void)spn_thread_current();
    atomic_store(&point, 0);
    atomic_store(&refused, 0);
    atomic_store(&fail_at, 1);
    atomic_store(&fail_more, 1);
    atomic_store(&armed, 1);
    CHECK_OK(pool_shutdown_now(b.pool, given_add, &given, &count));
    atomic_store(&armed, 0);
    atomic_store(&fail_at, 0);
    CHECK_EQ(count, GIVEN);
    CHECK_EQ(given.count, GIVEN);
    for (int i = 0; i < GIVEN; i++)
        CHECK_EQ(given.calls[i], 1);
    CHECK(given.in_order);
    if (!is(k, OWN)) /* a queue of the user's is asked through copies, if there are */
        CHECK_EQ(atomic_load(&refused), 0);
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    s = pool_stats(b.pool);
    check_books(&s);
    CHECK_EQ(s.returned, GIVEN);
    CHECK_EQ(s.dropped, 0);
    bed_close(&b);
    gate_free(gate);
}
