/* SPDX-License-Identifier: MIT */
/* test_pool_remove.c - taking back what has not started: remove, purge, cancel_owner. */
#include "pools.h"

static int give_back(void *arg, void **result)
{
    *result = arg;
    return 0;
}

/* remove takes back what waits, once; what runs, has run or never came stays. */
TEST_EACH(pool__remove__true_once_for_what_waits, "TPE-43", "X-9")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[5], stranger;

    pieces_init(p, 5, NULL);
    piece_init(&stranger, NULL);
    p[0].gate = gate;
    start(b.pool, &p[0]);
    for (int i = 1; i < 5; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_EQ(pool_remove(b.pool, &p[0].task), 0); /* it runs */
    CHECK_EQ(pool_remove(b.pool, &stranger.task), 0);
    CHECK_EQ(pool_remove(b.pool, &p[2].task), 1);
    CHECK_EQ(pool_remove(b.pool, &p[2].task), 0);
    CHECK_EQ(pool_remove(b.pool, &p[4].task), 1); /* last */
    CHECK_EQ(pool_remove(b.pool, &p[1].task), 1); /* first */
    CHECK_EQ(pool_stats(b.pool).queued, 1);
    CHECK_EQ(p[2].task.queued, 0);
    gate_open(gate);
    T_AWAIT(ended(&p[3]) == 1);
    pool_rest(b.pool);
    CHECK_EQ(pool_remove(b.pool, &p[3].task), 0); /* it has run */
    CHECK_EQ(pool_stats(b.pool).returned, 3);
    CHECK_EQ(p[3].order, p[0].order + 1);
    CHECK_OK(execute(b.pool, &p[2])); /* the caller's again: also to submit */
    bed_close(&b);
    CHECK(untouched(&p[1]) && untouched(&p[4]));
    CHECK(ran(&p[0]) && ran(&p[2]) && ran(&p[3]));
    gate_free(gate);
}

/* A second hand-over that is refused as busy takes nothing from the first: the task can
 * still be taken back. */
TEST_EACH(pool__handed_over_twice__still_removable, "TPE-43", "TPE-19", "P29")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece hold, p;

    piece_init(&hold, gate);
    start(b.pool, &hold);
    job_init(&p, NULL);
    CHECK_OK(execute(b.pool, &p));
    CHECK_STATUS(execute(b.pool, &p), SPN_EBUSY);
    CHECK_STATUS(spn_task_claim(&p.task), SPN_EBUSY);
    CHECK_EQ(pool_remove(b.pool, &p.task), 1);
    CHECK_EQ(pool_remove(b.pool, &p.task), 0);
    gate_open(gate);
    bed_close(&b);
    CHECK(untouched(&p));
    gate_free(gate);
}

/* What is left keeps its order. */
TEST_EACH(pool__some_removed__the_rest_in_order, "TPE-43", "TPE-18")
{
    enum { COUNT = 60 };
    static struct piece p[COUNT];
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    int last;

    pieces_init(p, COUNT, NULL);
    p[0].gate = gate;
    start(b.pool, &p[0]);
    for (int i = 1; i < COUNT; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    for (int i = 1; i < COUNT; i += 3)
        CHECK_EQ(pool_remove(b.pool, &p[i].task), 1);
    gate_open(gate);
    bed_close(&b);
    last = p[0].order;
    for (int i = 1; i < COUNT; i++) {
        if (i % 3 == 1) {
            CHECK(untouched(&p[i]));
            continue;
        }
        CHECK_EQ(p[i].order, last + 1);
        last = p[i].order;
    }
    gate_free(gate);
}

/* What is queued for submitted work is its future's task, not the function: taken back
 * it can be run, or dropped, by who took it. */
TEST_EACH(pool__submitted_work_removed__the_future_is_the_takers, "TPE-44", "TPE-54")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece hold;
    spn_future *f[2];
    spn_task *seen[2] = { NULL };
    void *value = NULL;

    piece_init(&hold, gate);
    start(b.pool, &hold);
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(
            spn_executor_submit(spn_pool_executor(b.pool), give_back, &f[i], &f[i]));
    REQUIRE(spn_pool_snapshot(b.pool, seen, 2) == 2);
    CHECK_EQ(pool_remove(b.pool, seen[0]), 1);
    CHECK_EQ(pool_remove(b.pool, seen[1]), 1);
    CHECK_EQ(pool_stats(b.pool).queued, 0);
    CHECK_EQ(spn_future_get_state(f[0]), SPN_FUTURE_PENDING);
    CHECK_STATUS(spn_future_get(f[0], NULL, 0), SPN_ETIMEDOUT);
    CHECK_EQ(spn_task_run(seen[0]), 0);
    CHECK_OK(spn_future_get(f[0], &value, 0));
    CHECK(value == &f[0]);
    CHECK_OK(spn_task_drop(seen[1], SPN_ECANCELED));
    CHECK_STATUS(spn_future_get(f[1], NULL, 0), SPN_ECANCELED);
    gate_open(gate);
    bed_close(&b);
    spn_future_unref(f[0]);
    spn_future_unref(f[1]);
    gate_free(gate);
}

/* purge drops what was cancelled: the numbers of the contract. */
TEST_EACH(pool__purge__cancelled_futures_go, "TPE-45", "TPE-40")
{
    struct bed b = bed_open(k, 1, 1);
    spn_executor *ex = spn_pool_executor(b.pool);
    spn_latch *gate = gate_new();
    struct piece hold;
    spn_future *f[4];
    spn_task *before[4], *after[4];

    piece_init(&hold, gate);
    start(b.pool, &hold);
    for (int i = 0; i < 4; i++)
        REQUIRE_OK(spn_executor_submit(ex, give_back, NULL, &f[i]));
    CHECK_EQ(spn_pool_purge(b.pool), 0);
    REQUIRE(spn_pool_snapshot(b.pool, before, 4) == 4);
    CHECK_EQ(spn_future_cancel(f[0], 0), 1);
    CHECK_EQ(spn_future_cancel(f[2], 1), 1);
    CHECK_EQ(pool_tasks(b.pool), 5);
    CHECK_EQ(pool_stats(b.pool).queued, 4);
    CHECK_EQ(spn_pool_purge(b.pool), 2);
    CHECK_EQ(pool_tasks(b.pool), 3);
    CHECK_EQ(pool_stats(b.pool).queued, 2);
    CHECK_EQ(pool_stats(b.pool).cancelled, 2);
    CHECK_EQ(spn_pool_purge(b.pool), 0);
    CHECK_EQ(spn_pool_snapshot(b.pool, after, 4), 2);
    CHECK(after[0] == before[1] && after[1] == before[3]);
    gate_open(gate);
    CHECK_OK(spn_future_get(f[1], NULL, SPN_FOREVER));
    CHECK_OK(spn_future_get(f[3], NULL, SPN_FOREVER));
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(spn_future_get_state(f[i]) == SPN_FUTURE_CANCELED, i % 2 == 0);
        spn_future_unref(f[i]);
    }
    bed_close(&b);
    gate_free(gate);
}

/* A full pool drops tasks whose future is done before it refuses one; the others stay, in
 * order.  Nothing else takes them out, but purge. */
TEST_EACH(pool__full_of_futures_that_are_done__takes_the_next, "TPE-93", "TPE-45")
{
    struct bed b;
    spn_latch *gate;
    struct piece hold, next;
    spn_future *f[4];
    spn_task *before[4], *after[4];

    if (!is(k, LIMITED))
        return;
    b = bed_with(k, opts_of(1, 1, 4), 4);
    gate = gate_new();
    piece_init(&hold, gate);
    piece_init(&next, NULL);
    start(b.pool, &hold);
    for (int i = 0; i < 4; i++)
        REQUIRE_OK(
            spn_executor_submit(spn_pool_executor(b.pool), give_back, NULL, &f[i]));
    REQUIRE(spn_pool_snapshot(b.pool, before, 4) == 4);
    CHECK_STATUS(execute(b.pool, &next), SPN_EREJECTED);
    CHECK_EQ(spn_future_complete_error(f[0], SPN_ETIMEDOUT, "the time is up"), 1);
    CHECK_EQ(spn_future_complete(f[2], NULL), 1);
    CHECK_EQ(pool_stats(b.pool).queued, 4);
    CHECK_OK(execute(b.pool, &next));
    CHECK_EQ(spn_pool_snapshot(b.pool, after, 4), 3);
    CHECK(after[0] == before[1] && after[1] == before[3] && after[2] == &next.task);
    CHECK_EQ(pool_stats(b.pool).cancelled, 2);

    CHECK_EQ(spn_future_cancel(f[1], 0), 1);
    CHECK_EQ(spn_future_complete_error(f[3], SPN_ETIMEDOUT, "the time is up"), 1);
    CHECK_EQ(pool_stats(b.pool).queued, 3);
    CHECK_EQ(spn_pool_purge(b.pool), 2);
    CHECK_EQ(pool_stats(b.pool).queued, 1);
    gate_open(gate);
    bed_close(&b);
    CHECK(ran(&next));
    for (int i = 0; i < 4; i++)
        spn_future_unref(f[i]);
    gate_free(gate);
}

/* purge leaves tasks alone that are no futures. */
TEST_EACH(pool__purge__plain_tasks_stay, "TPE-45")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece hold, p[3];

    piece_init(&hold, gate);
    pieces_init(p, 2, NULL);
    job_init(&p[2], NULL);
    start(b.pool, &hold);
    for (int i = 0; i < 3; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    CHECK_EQ(spn_pool_purge(b.pool), 0);
    gate_open(gate);
    bed_close(&b);
    for (int i = 0; i < 3; i++)
        CHECK(ran(&p[i]));
    gate_free(gate);
}

/* Taking back the last task of a pool that was shut down lets it end.  The one who
 * takes it is the pool's only task that runs, so nobody else can have got it. */
static void shut_and_remove(struct piece *p)
{
    struct piece *other = p->arg;

    CHECK_OK(pool_shutdown(p->current));
    CHECK_EQ(pool_remove(p->current, &other->task), 1);
    CHECK_EQ(pool_is_terminating(p->current), 1); /* I still run */
}

TEST_EACH(pool__last_task_removed_after_shutdown__ends, "TPE-46")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p[2];

    pieces_init(p, 2, NULL);
    p[0].gate = gate;
    p[0].act = shut_and_remove;
    p[0].arg = &p[1];
    start(b.pool, &p[0]);
    CHECK_OK(execute(b.pool, &p[1]));
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    CHECK(untouched(&p[1]));
    CHECK_EQ(pool_stats(b.pool).returned, 1);
    bed_close(&b);
    gate_free(gate);
}

static void shut_and_purge(struct piece *p)
{
    CHECK_OK(pool_shutdown(p->current));
    CHECK_EQ(spn_future_cancel(p->arg, 0), 1);
    CHECK_EQ(spn_pool_purge(p->current), 1);
}

TEST_EACH(pool__last_task_purged_after_shutdown__ends, "TPE-46")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece p;
    spn_future *f;

    piece_init(&p, gate);
    p.act = shut_and_purge;
    start(b.pool, &p);
    REQUIRE_OK(spn_executor_submit(spn_pool_executor(b.pool), give_back, NULL, &f));
    p.arg = f;
    gate_open(gate);
    CHECK_OK(pool_await(b.pool, SPN_FOREVER));
    CHECK_STATUS(spn_future_get(f, NULL, 0), SPN_ECANCELED);
    spn_future_unref(f);
    bed_close(&b);
    gate_free(gate);
}

/* cancel_owner drops the queued jobs of one owner and of nobody else. */
TEST_EACH(pool__cancel_owner__his_jobs_go, "TPE-43")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece hold, p[6];
    int mine, yours;

    piece_init(&hold, gate);
    start(b.pool, &hold);
    for (int i = 0; i < 5; i++) {
        job_init(&p[i], NULL);
        p[i].job.owner = i % 2 == 0 ? &mine : &yours;
        CHECK_OK(execute(b.pool, &p[i]));
    }
    piece_init(&p[5], NULL); /* no job: nobody's */
    CHECK_OK(execute(b.pool, &p[5]));
    CHECK_EQ(spn_pool_cancel_owner(b.pool, &hold), 0);
    CHECK_EQ(spn_pool_cancel_owner(b.pool, &mine), 3);
    for (int i = 0; i < 5; i += 2)
        CHECK(dropped(&p[i], SPN_ECANCELED)); /* before the call returned */
    CHECK_EQ(spn_pool_cancel_owner(b.pool, &mine), 0);
    CHECK_EQ(pool_stats(b.pool).queued, 3);
    CHECK_EQ(pool_stats(b.pool).cancelled, 3);
    gate_open(gate);
    bed_close(&b);
    CHECK(ran(&p[1]) && ran(&p[3]) && ran(&p[5]));
    gate_free(gate);
}

static void remove_sibling(struct piece *p)
{
    struct piece *other = p->arg;

    CHECK_EQ(pool_remove(p->current, &p->task), 0); /* myself: I run */
    CHECK_EQ(pool_remove(p->current, &other->task), 1);
    CHECK_EQ(spn_pool_cancel_owner(p->current, p), 1);
}

/* A task may take back its siblings, also those in its worker's own batch. */
TEST_EACH(pool__task_takes_back_its_siblings__never_run, "TPE-43", "TPE-75")
{
    struct bed b = bed_open(k, 1, 1);
    spn_latch *gate = gate_new();
    struct piece hold, p[3];

    piece_init(&hold, gate);
    start(b.pool, &hold);
    piece_init(&p[0], NULL);
    p[0].act = remove_sibling;
    p[0].arg = &p[1];
    piece_init(&p[1], NULL);
    job_init(&p[2], NULL);
    p[2].job.owner = &p[0];
    for (int i = 0; i < 3; i++)
        CHECK_OK(execute(b.pool, &p[i]));
    gate_open(gate); /* the worker may take all three at once */
    bed_close(&b);
    CHECK(ran(&p[0]) && untouched(&p[1]) && dropped(&p[2], SPN_ECANCELED));
    gate_free(gate);
}

/* Racing removes and runs: each task goes one way. */
struct tug {
    spn_pool *pool;
    struct piece *pieces;
    int count;
    atomic_int removed, produced;
};

static void add_or_remove(int index, void *arg)
{
    struct tug *t = arg;

    if (index == 0) {
        for (int i = 0; i < t->count; i++) {
            CHECK_OK(execute(t->pool, &t->pieces[i]));
            atomic_store(&t->produced, i + 1);
        }
        return;
    }
    for (int i = 0; i < t->count; i++) {
        T_AWAIT(atomic_load(&t->produced) > i);
        if (i % 2 == index - 1 && pool_remove(t->pool, &t->pieces[i].task) == 1)
            atomic_fetch_add(&t->removed, 1);
    }
}

TEST_EACH(pool__remove_races_the_worker__one_of_them_gets_it, "TPE-43", "X-9")
{
    enum { COUNT = 3000 };
    static struct piece p[COUNT];
    struct bed b = bed_open(k, 2, 2);
    struct tug t = { .pool = b.pool, .pieces = p, .count = t_rounds(COUNT) };
    int went = 0;

    pieces_init(p, COUNT, NULL);
    t_parallel(3, add_or_remove, &t);
    pool_rest(b.pool);
    for (int i = 0; i < t.count; i++) {
        CHECK(ran(&p[i]) || untouched(&p[i]));
        went += started(&p[i]);
    }
    CHECK_EQ(went + atomic_load(&t.removed), t.count);
    CHECK_EQ(pool_stats(b.pool).returned, atomic_load(&t.removed));
    bed_close(&b);
}

/* ---- functions and arguments in the default queue ------------------------------------ */

enum { MANY = 3000, BETWEEN = 700 }; /* several blocks; a task now and then */

static int next_call;      /* the number that is to come */
static char numbers[MANY]; /* their addresses are the arguments */

static int count_off(void *arg)
{
    const int n = (int)((char *)arg - numbers);

    if (n < next_call)
        return 1;
    next_call = n + 1;
    return 0;
}

/* A pool whose one thread waits, and behind it MANY calls with some tasks among them. */
static spn_pool *many_calls(struct piece *hold, struct piece *p, spn_latch *gate)
{
    spn_pool *pool = pool_of(1, 1, SPN_UNBOUNDED);

    next_call = 0;
    piece_init(hold, gate);
    start(pool, hold);
    for (int i = 0; i < MANY; i++) {
        if (i % BETWEEN == 1) {
            piece_init(&p[i / BETWEEN], NULL);
            CHECK_OK(execute(pool, &p[i / BETWEEN]));
        }
        CHECK_OK(spn_executor_call(spn_pool_executor(pool), count_off, &numbers[i]));
    }
    return pool;
}

static spn_task *back[MANY + MANY / BETWEEN + 1];
static struct given {
    spn_task *task;
    spn_run_fn fn;
    void *arg;
} given[MANY + MANY / BETWEEN + 1];
static int given_count;

static void keep_back(void *ctx, spn_task *task, spn_run_fn fn, void *arg)
{
    (void)ctx;
    CHECK((task == NULL) == (fn != NULL));
    given[given_count++] = (struct given){ task, fn, arg };
}

/* shutdown_now gives calls back as such, tasks as tasks, all in order, and they can be run
 * when the pool is gone. */
TEST(pool__calls_given_back__in_order_and_outlive_the_pool, "TPE-52", "TPE-54")
{
    const int tasks = (MANY - 2) / BETWEEN + 1;
    struct piece hold, p[MANY / BETWEEN + 1];
    spn_latch *gate = gate_new();
    spn_pool *pool = many_calls(&hold, p, gate);
    int64_t count = 0;

    given_count = 0;
    CHECK_OK(pool_shutdown_now(pool, keep_back, NULL, &count));
    CHECK_EQ(count, MANY + tasks);
    CHECK_EQ(given_count, MANY + tasks);
    gate_open(gate);
    pool_close(pool);
    for (int i = 0; i < given_count; i++) {
        const struct given *g = &given[i];

        CHECK_EQ(g->task != NULL ? spn_task_run(g->task) : g->fn(g->arg), 0);
    }
    CHECK_EQ(next_call, MANY);
    gate_free(gate);
}

/* A snapshot shows calls too, and what it shows can be removed; the rest run in order. */
TEST(pool__calls_in_a_snapshot__can_be_removed, "TPE-43", "TPE-18")
{
    const int tasks = (MANY - 2) / BETWEEN + 1;
    struct piece hold, p[MANY / BETWEEN + 1];
    spn_latch *gate = gate_new();
    spn_pool *pool = many_calls(&hold, p, gate);
    int64_t count = spn_pool_snapshot(pool, back, sizeof back / sizeof back[0]);
    int removed = 0;

    CHECK_EQ(count, MANY + tasks);
    for (int i = 0; i < count; i++) {
        if (i % 3 == 0 || (i > 100 && i < 2200)) { /* whole rows, and single ones */
            CHECK_EQ(pool_remove(pool, back[i]), 1);
            CHECK_EQ(pool_remove(pool, back[i]), 0);
            CHECK_OK(spn_task_drop(back[i], SPN_ECANCELED));
            removed++;
        }
    }
    CHECK_EQ(pool_stats(pool).queued, count - removed);
    CHECK_EQ(pool_stats(pool).returned, removed);
    gate_open(gate);
    T_AWAIT(pool_stats(pool).completed == count - removed + 1);
    CHECK_EQ(next_call, MANY);
    CHECK_EQ(pool_stats(pool).failed, 0);
    pool_close(pool);
    gate_free(gate);
}
