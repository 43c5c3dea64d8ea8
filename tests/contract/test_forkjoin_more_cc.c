/* SPDX-License-Identifier: MIT */
/*
 * Completers: tasks that are done when as many others have said so as they wait for.
 * Written from the contract, not from the code.
 */
#include "fj_pools.h"
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { CAUSE = -77 };

static char mark; /* a value */

/* A completer that counts what it is told. */
struct node {
    spn_fj_completer completer;
    atomic_int completions, failures, runs;
    spn_fj_completer *caller; /* of the last call */
    int error;
    int stop; /* on_failure says: not the parent */
};

static void told_done(spn_fj_completer *self, spn_fj_completer *caller)
{
    struct node *n = (struct node *)self;

    n->caller = caller;
    atomic_fetch_add(&n->completions, 1);
}

static int told_failed(spn_fj_completer *self, int error, spn_fj_completer *caller)
{
    struct node *n = (struct node *)self;

    n->caller = caller;
    n->error = error;
    atomic_fetch_add(&n->failures, 1);
    return !n->stop;
}

static int run_nothing(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    atomic_fetch_add(&((struct node *)task)->runs, 1);
    return 0;
}

static void node_init(struct node *n, struct node *parent, int32_t pending)
{
    *n = (struct node){ .stop = 0 };
    spn_fj_completer_init(&n->completer, run_nothing,
                          parent != NULL ? &parent->completer : NULL, pending);
    n->completer.on_completion = told_done;
    n->completer.on_failure = told_failed;
}

static int done(struct node *n)
{
    return spn_fj_task_is_done(&n->completer.task);
}

/* ---- the count ------------------------------------------------------------------------- */

TEST(fj_completer__pending__is_any_number, "CC-1")
{
    static const int32_t numbers[] = { 0, 1, -1, 7, INT32_MIN, INT32_MAX };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct node n;

        node_init(&n, NULL, numbers[i]);
        CHECK_EQ(spn_fj_completer_pending(&n.completer), numbers[i]);
        spn_fj_completer_set_pending(&n.completer, 3);
        CHECK_EQ(spn_fj_completer_pending(&n.completer), 3);
        spn_fj_completer_set_pending(&n.completer, numbers[i]);
        CHECK_EQ(spn_fj_completer_pending(&n.completer), numbers[i]);
        CHECK_EQ(done(&n), 0);
    }
}

TEST(fj_completer__pending__can_be_changed_in_one_step, "CC-2")
{
    struct node n;

    node_init(&n, NULL, 0);
    spn_fj_completer_add_pending(&n.completer, 27);
    CHECK_EQ(spn_fj_completer_pending(&n.completer), 27);
    spn_fj_completer_add_pending(&n.completer, -28);
    CHECK_EQ(spn_fj_completer_pending(&n.completer), -1);
    /* Stops at exactly 0. */
    CHECK_EQ(spn_fj_completer_decrement_unless_zero(&n.completer), -1);
    CHECK_EQ(spn_fj_completer_pending(&n.completer), -2);
    CHECK_EQ(spn_fj_completer_cas_pending(&n.completer, 5, 9), 0);
    CHECK_EQ(spn_fj_completer_pending(&n.completer), -2);
    CHECK_EQ(spn_fj_completer_cas_pending(&n.completer, -2, 2), 1);
    for (int32_t left = 2; left > 0; left--)
        CHECK_EQ(spn_fj_completer_decrement_unless_zero(&n.completer), left);
    CHECK_EQ(spn_fj_completer_decrement_unless_zero(&n.completer), 0);
    CHECK_EQ(spn_fj_completer_pending(&n.completer), 0);
}

TEST(fj_completer__root__is_the_top, "CC-3")
{
    struct node top, middle, low;

    node_init(&top, NULL, 0);
    node_init(&middle, &top, 0);
    node_init(&low, &middle, 0);
    CHECK(top.completer.parent == NULL);
    CHECK(low.completer.parent == &middle.completer);
    CHECK(spn_fj_completer_root(&top.completer) == &top.completer);
    CHECK(spn_fj_completer_root(&low.completer) == &top.completer);
    CHECK(spn_fj_completer_root(NULL) == NULL);
}

/* ---- completing -------------------------------------------------------------------------- */

TEST(fj_completer__complete__is_done_whatever_is_pending, "CC-4")
{
    for (int32_t pending = -1; pending <= 2; pending++) {
        struct node top, low;

        node_init(&top, NULL, 1);
        node_init(&low, &top, pending);
        spn_fj_completer_complete(&low.completer, &mark);
        CHECK_EQ(atomic_load(&low.completions), 1);
        CHECK(low.caller == &low.completer);
        CHECK_EQ(spn_fj_completer_pending(&low.completer), pending);
        CHECK_EQ(spn_fj_task_is_normal(&low.completer.task), 1);
        CHECK(spn_fj_task_result(&low.completer.task) == &mark);
        /* The parent was told: it waits for one less. */
        CHECK_EQ(spn_fj_completer_pending(&top.completer), 0);
        CHECK_EQ(atomic_load(&top.completions), 0);
        CHECK_EQ(done(&top), 0);
    }
}

TEST(fj_completer__try_complete__counts_down_then_goes_on, "CC-5")
{
    struct node top, middle, low;

    node_init(&top, NULL, 1);
    node_init(&middle, &top, 2);
    node_init(&low, &middle, 1);
    spn_fj_completer_try_complete(&low.completer);
    CHECK_EQ(spn_fj_completer_pending(&low.completer), 0);
    CHECK_EQ(atomic_load(&low.completions), 0);
    spn_fj_completer_try_complete(&low.completer); /* low; then middle counts */
    CHECK_EQ(atomic_load(&low.completions), 1);
    CHECK(low.caller == &low.completer);
    CHECK_EQ(spn_fj_completer_pending(&middle.completer), 1);
    spn_fj_completer_try_complete(&middle.completer);
    CHECK_EQ(atomic_load(&middle.completions), 0);
    spn_fj_completer_try_complete(&middle.completer); /* middle; then top counts */
    CHECK_EQ(atomic_load(&middle.completions), 1);
    CHECK_EQ(spn_fj_completer_pending(&top.completer), 0);
    CHECK_EQ(done(&top), 0);
    spn_fj_completer_try_complete(&middle.completer); /* and top is told by middle */
    CHECK_EQ(atomic_load(&top.completions), 1);
    CHECK(top.caller == &middle.completer);
    CHECK_EQ(done(&top), 1);
    CHECK_EQ(spn_fj_task_is_normal(&top.completer.task), 1);
}

TEST(fj_completer__propagate__calls_no_on_completion, "CC-6")
{
    struct node top, low;

    node_init(&top, NULL, 0);
    node_init(&low, &top, 1);
    spn_fj_completer_propagate(&low.completer);
    CHECK_EQ(spn_fj_completer_pending(&low.completer), 0);
    CHECK_EQ(done(&top), 0);
    spn_fj_completer_propagate(&low.completer);
    CHECK_EQ(done(&top), 1);
    CHECK_EQ(atomic_load(&top.completions), 0);
    CHECK_EQ(atomic_load(&low.completions), 0);
}

TEST(fj_completer__first_and_next__walk_up, "CC-7")
{
    struct node top, low;

    node_init(&top, NULL, 1);
    node_init(&low, &top, 1);
    CHECK(spn_fj_completer_first_complete(&low.completer) == NULL);
    CHECK_EQ(spn_fj_completer_pending(&low.completer), 0);
    CHECK(spn_fj_completer_first_complete(&low.completer) == &low.completer);
    CHECK(spn_fj_completer_next_complete(&low.completer) == NULL); /* top counts */
    CHECK_EQ(spn_fj_completer_pending(&top.completer), 0);
    CHECK(spn_fj_completer_next_complete(&low.completer) == &top.completer);
    CHECK_EQ(done(&top), 0);
    CHECK(spn_fj_completer_next_complete(&top.completer) == NULL);
    CHECK_EQ(done(&top), 1);
    CHECK_EQ(atomic_load(&top.completions) + atomic_load(&low.completions), 0);
}

TEST(fj_completer__fails__tells_its_parents_while_they_say_so, "CC-8")
{
    for (int stop = 0; stop < 2; stop++) {
        struct node top, middle, low;

        node_init(&top, NULL, 3);
        node_init(&middle, &top, 3);
        node_init(&low, &middle, 3);
        middle.stop = stop;
        spn_fj_completer_complete_error(&low.completer, stop ? 0 : CAUSE);
        CHECK_EQ(spn_fj_task_is_abnormal(&low.completer.task), 1);
        CHECK_EQ(spn_fj_task_is_abnormal(&middle.completer.task), 1);
        CHECK_EQ(spn_fj_task_error(&middle.completer.task), stop ? SPN_EFAILED : CAUSE);
        CHECK_EQ(done(&top), !stop);
        if (!stop)
            CHECK_EQ(spn_fj_task_error(&top.completer.task), CAUSE);
        CHECK_EQ(atomic_load(&low.failures), 1);
        CHECK_EQ(atomic_load(&middle.failures), 1);
        CHECK_EQ(atomic_load(&top.failures), !stop);
        CHECK_EQ(low.error, stop ? SPN_EFAILED : CAUSE);
        CHECK_EQ(atomic_load(&low.completions) + atomic_load(&middle.completions) +
                     atomic_load(&top.completions),
                 0);
    }
}

TEST(fj_completer__complete_root__leaves_those_between, "CC-9")
{
    struct node top, middle, low;

    node_init(&top, NULL, 3);
    node_init(&middle, &top, 3);
    node_init(&low, &middle, 3);
    spn_fj_completer_complete_root(&low.completer);
    CHECK_EQ(spn_fj_task_is_normal(&top.completer.task), 1);
    CHECK_EQ(done(&middle), 0);
    CHECK_EQ(done(&low), 0);
}

/* ---- in a pool ------------------------------------------------------------------------------- */

/* Fibonacci without joins: the sum is made by whoever comes last. */
struct fib {
    spn_fj_completer completer;
    int n, value;
    int fail_at;          /* the n whose body fails */
    struct fib *children; /* two of them, freed by the sum */
};

static void add_children(spn_fj_completer *self, spn_fj_completer *caller)
{
    struct fib *f = (struct fib *)self;

    (void)caller;
    if (f->children != NULL)
        f->value = f->children[0].value + f->children[1].value;
}

static int run_fib(spn_fj fj, spn_fj_task *task)
{
    struct fib *f = (struct fib *)task;

    (void)fj;
    f->value = f->n;
    if (f->n == f->fail_at)
        return CAUSE;
    if (f->n >= 2) {
        f->children = calloc(2, sizeof(struct fib));
        if (f->children == NULL)
            return SPN_ENOMEM;
        spn_fj_completer_set_pending(&f->completer, 2);
        for (int i = 0; i < 2; i++) {
            struct fib *child = &f->children[i];

            child->n = f->n - 1 - i;
            child->fail_at = f->fail_at;
            spn_fj_completer_init(&child->completer, run_fib, &f->completer, 0);
            child->completer.on_completion = add_children;
            CHECK_OK(spn_fj_task_fork(&child->completer.task));
        }
    }
    spn_fj_completer_try_complete(&f->completer);
    return 0;
}

static void fib_init(struct fib *f, int n, int fail_at)
{
    *f = (struct fib){ .n = n, .fail_at = fail_at };
    spn_fj_completer_init(&f->completer, run_fib, NULL, 0);
    f->completer.on_completion = add_children;
}

/* When the pool is quiescent: nobody uses the nodes any more. */
static void fib_free(struct fib *f)
{
    if (f->children != NULL)
        for (int i = 0; i < 2; i++)
            fib_free(&f->children[i]);
    free(f->children);
}

enum { INVOKE, SUBMIT_JOIN, SUBMIT_GET, SUBMIT_TIMED, SUBMIT_WAIT, WAYS };

static int fib_by(spn_fj_pool *pool, struct fib *f, int way)
{
    spn_fj_task *task = &f->completer.task;

    if (way == INVOKE)
        return spn_fj_pool_invoke(pool, task);
    CHECK_OK(spn_fj_pool_submit(pool, task));
    switch (way) {
    case SUBMIT_JOIN:
        return spn_fj_task_join(task);
    case SUBMIT_GET:
        return spn_fj_task_get(task, NULL, SPN_FOREVER);
    case SUBMIT_TIMED:
        return spn_fj_task_get(task, NULL, T_LONG_NS * 6);
    default:
        return spn_fj_task_wait(task, SPN_FOREVER);
    }
}

TEST(fj_completer__fibonacci__is_right_however_it_is_waited_for, "CC-10")
{
    static const int numbers[] = { 8, 9, 7 }, values[] = { 21, 34, 13 };

    FJ_EACH_PARALLELISM(p)
    {
        spn_fj_pool *pool = fj_open(p);

        for (int way = 0; way < WAYS; way++)
            for (int i = 0; i < 3; i++) {
                struct fib f;

                fib_init(&f, numbers[i], -1);
                CHECK_OK(fib_by(pool, &f, way));
                CHECK_EQ(f.value, values[i]);
                CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
                fib_free(&f);
            }
        fj_shut(pool);
    }
}

static void invoke_all_within(void *arg)
{
    struct fib fibs[3];
    spn_fj_task *tasks[3];
    static const int values[] = { 21, 34, 55 };

    (void)arg;
    for (int i = 0; i < 3; i++) {
        fib_init(&fibs[i], 8 + i, -1);
        tasks[i] = &fibs[i].completer.task;
    }
    CHECK_OK(spn_fj_invoke_all(tasks, 3));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fibs[i].value, values[i]);
    CHECK_OK(spn_fj_help_quiesce());
    for (int i = 0; i < 3; i++)
        fib_free(&fibs[i]);
}

TEST(fj_completer__invoke_all__all_are_done, "CC-10")
{
    FJ_EACH_PARALLELISM(p)
    fj_inside_new(p, invoke_all_within, NULL);
}

TEST(fj_completer__one_fails__so_does_the_root, "CC-11")
{
    FJ_EACH_PARALLELISM(p)
    {
        spn_fj_pool *pool = fj_open(p);

        for (int way = INVOKE; way <= SUBMIT_GET; way++) {
            struct fib f;

            fib_init(&f, 9, 3);
            CHECK_STATUS(fib_by(pool, &f, way),
                         way == SUBMIT_GET ? SPN_EFAILED : CAUSE);
            CHECK_EQ(spn_fj_task_error(&f.completer.task), CAUSE);
            CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
            fib_free(&f);
        }
        fj_shut(pool);
    }
}

TEST(fj_completer__cancelled_before_it_runs__does_not_run, "CC-12")
{
    spn_fj_pool *pool = fj_open(2);
    struct node n;

    node_init(&n, NULL, 0);
    CHECK_EQ(spn_fj_task_cancel(&n.completer.task, 0), 1);
    CHECK_STATUS(spn_fj_pool_invoke(pool, &n.completer.task), SPN_ECANCELED);
    CHECK_STATUS(spn_fj_task_get(&n.completer.task, NULL, 0), SPN_ECANCELED);
    CHECK_EQ(spn_fj_task_cancel(&n.completer.task, 1), 1);
    CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
    CHECK_EQ(atomic_load(&n.runs), 0);
    fj_shut(pool);
}

/* The queue calls know completers as they know tasks. */
static void queue_within(void *arg)
{
    struct node n[3];

    (void)arg;
    for (int i = 0; i < 3; i++) {
        node_init(&n[i], NULL, 1);
        CHECK_OK(spn_fj_task_fork(&n[i].completer.task));
    }
    CHECK(spn_fj_surplus() > 0);
    CHECK(spn_fj_peek_local() == &n[2].completer.task);
    CHECK_EQ(spn_fj_task_try_unfork(&n[2].completer.task), 1);
    CHECK(spn_fj_poll_local() == &n[1].completer.task);
    CHECK_OK(spn_fj_help_quiesce());
    CHECK_EQ(atomic_load(&n[0].runs), 1);
    CHECK_EQ(atomic_load(&n[1].runs) + atomic_load(&n[2].runs), 0);
    CHECK_EQ(done(&n[0]), 0); /* its body does not complete it */
}

TEST(fj_completer__in_a_queue__is_a_task, "CC-13")
{
    fj_inside_new(1, queue_within, NULL);
}

/* ---- races --------------------------------------------------------------------------------------- */

enum { RACERS = 4 };

static void complete_one(int index, void *arg)
{
    struct node *low = arg;

    spn_fj_completer_try_complete(&low[index].completer);
}

/* n children and the parent itself: n + 1 calls, and one of them is the last. */
TEST(fj_completer__children_end_at_once__parent_completes_once, "CC-14")
{
    for (int i = 0; i < t_rounds(500); i++) {
        struct node top, low[RACERS];

        node_init(&top, NULL, RACERS);
        for (int k = 0; k < RACERS; k++)
            node_init(&low[k], &top, 0);
        t_parallel(RACERS, complete_one, low);
        /* Theirs alone bring the count to 0. */
        CHECK_EQ(spn_fj_completer_pending(&top.completer), 0);
        CHECK_EQ(atomic_load(&top.completions), 0);
        spn_fj_completer_try_complete(&top.completer);
        CHECK_EQ(atomic_load(&top.completions), 1);
        CHECK_EQ(done(&top), 1);

        node_init(&top, NULL, RACERS - 1);
        for (int k = 0; k < RACERS; k++)
            node_init(&low[k], &top, 0);
        t_parallel(RACERS, complete_one, low);
        CHECK_EQ(atomic_load(&top.completions), 1);
        CHECK_EQ(done(&top), 1);
    }
}

TEST(fj_completer__a_long_chain__takes_no_stack, "CC-15")
{
    enum { LENGTH = 100000 };
    struct node *chain = calloc(LENGTH, sizeof *chain);

    REQUIRE(chain != NULL);
    for (int fail = 0; fail < 2; fail++) {
        for (int i = 0; i < LENGTH; i++)
            node_init(&chain[i], i > 0 ? &chain[i - 1] : NULL, 0);
        if (fail)
            spn_fj_completer_complete_error(&chain[LENGTH - 1].completer, CAUSE);
        else
            spn_fj_completer_try_complete(&chain[LENGTH - 1].completer);
        CHECK_EQ(done(&chain[0]), 1);
        CHECK_EQ(atomic_load(&chain[0].completions), !fail);
        CHECK_EQ(atomic_load(&chain[0].failures), fail);
    }
    free(chain);
}
