/* SPDX-License-Identifier: MIT */
/* test_forkjoin_completer.c - objects with a pending count. */
#include "forkjoin.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

struct node {
    spn_fj_completer c;
    int completions, failures, error;
    bool stop;
};

static void completed(spn_fj_completer *self, spn_fj_completer *caller)
{
    struct node *n = (struct node *)(void *)self;

    CHECK(caller != NULL);
    n->completions++;
}

static int failed(spn_fj_completer *self, int error, spn_fj_completer *caller)
{
    struct node *n = (struct node *)(void *)self;

    CHECK(caller != NULL);
    n->failures++;
    n->error = error;
    return !n->stop;
}

static void node_init(struct node *n, struct node *parent, int32_t pending)
{
    *n = (struct node){ .completions = 0 };
    spn_fj_completer_init(&n->c, NULL, parent != NULL ? &parent->c : NULL, pending);
    n->c.on_completion = completed;
    n->c.on_failure = failed;
}

static int done(struct node *n)
{
    return spn_fj_task_is_done(&n->c.task);
}

TEST(completer__pending_count__any_number, "CC-1", "CC-2")
{
    const int32_t numbers[] = { 0, 7, -1, INT32_MIN, INT32_MAX };
    struct node n;

    node_init(&n, NULL, 0);
    CHECK_EQ(spn_fj_completer_pending(&n.c), 0);
    node_init(&n, NULL, 3);
    CHECK_EQ(spn_fj_completer_pending(&n.c), 3);
    for (int i = 0; i < 5; i++) {
        spn_fj_completer_set_pending(&n.c, numbers[i]);
        CHECK_EQ(spn_fj_completer_pending(&n.c), numbers[i]);
    }
    spn_fj_completer_set_pending(&n.c, 1);
    spn_fj_completer_add_pending(&n.c, 4);
    CHECK_EQ(spn_fj_completer_pending(&n.c), 5);
    CHECK_EQ(spn_fj_completer_cas_pending(&n.c, 4, 9), 0);
    CHECK_EQ(spn_fj_completer_cas_pending(&n.c, 5, 1), 1);
    CHECK_EQ(spn_fj_completer_decrement_unless_zero(&n.c), 1);
    CHECK_EQ(spn_fj_completer_decrement_unless_zero(&n.c), 0);
    CHECK_EQ(spn_fj_completer_pending(&n.c), 0);
    spn_fj_completer_set_pending(&n.c, -1);
    CHECK_EQ(spn_fj_completer_decrement_unless_zero(&n.c), -1);
    CHECK_EQ(spn_fj_completer_pending(&n.c), -2);
}

TEST(completer__root__top_of_the_tree, "CC-3")
{
    struct node a, b, c;

    node_init(&a, NULL, 1);
    node_init(&b, &a, 1);
    node_init(&c, &b, 0);
    CHECK(a.c.parent == NULL);
    CHECK(c.c.parent == &b.c);
    CHECK(spn_fj_completer_root(&c.c) == &a.c);
    CHECK(spn_fj_completer_root(&a.c) == &a.c);
}

TEST(completer__complete__whatever_is_pending, "CC-4")
{
    struct node a, b;
    int value;

    node_init(&a, NULL, 1);
    node_init(&b, &a, 5);
    spn_fj_completer_complete(&b.c, &value);
    CHECK_EQ(b.completions, 1);
    CHECK_EQ(done(&b), 1);
    CHECK_EQ(spn_fj_task_is_normal(&b.c.task), 1);
    CHECK(spn_fj_task_result(&b.c.task) == &value);
    CHECK_EQ(spn_fj_completer_pending(&b.c), 5);
    CHECK_EQ(spn_fj_completer_pending(&a.c), 0);
    CHECK_EQ(done(&a), 0);
    CHECK_EQ(a.completions, 0);
}

TEST(completer__try_complete__one_less_or_the_parents_turn, "CC-5", "CC-6")
{
    struct node a, b;

    node_init(&a, NULL, 1);
    node_init(&b, &a, 1);
    spn_fj_completer_try_complete(&b.c);
    CHECK_EQ(spn_fj_completer_pending(&b.c), 0);
    CHECK_EQ(b.completions, 0);
    spn_fj_completer_try_complete(&b.c);
    CHECK_EQ(b.completions, 1);
    CHECK_EQ(a.completions, 0);
    CHECK_EQ(spn_fj_completer_pending(&a.c), 0);
    CHECK_EQ(done(&a), 0);
    spn_fj_completer_try_complete(&b.c);
    CHECK_EQ(a.completions, 1);
    CHECK_EQ(done(&a), 1);

    node_init(&a, NULL, 0);
    node_init(&b, &a, 0);
    spn_fj_completer_propagate(&b.c);
    CHECK_EQ(a.completions + b.completions, 0);
    CHECK_EQ(done(&a), 1);
}

TEST(completer__first_and_next_complete__as_they_say, "CC-7", "CC-9")
{
    struct node a, b, c;

    node_init(&a, NULL, 1);
    node_init(&b, &a, 1);
    CHECK(spn_fj_completer_first_complete(&b.c) == NULL);
    CHECK_EQ(spn_fj_completer_pending(&b.c), 0);
    CHECK(spn_fj_completer_first_complete(&b.c) == &b.c);
    CHECK(spn_fj_completer_next_complete(&b.c) == NULL);
    CHECK_EQ(spn_fj_completer_pending(&a.c), 0);
    CHECK(spn_fj_completer_next_complete(&b.c) == &a.c);
    CHECK_EQ(done(&a), 0);
    CHECK(spn_fj_completer_next_complete(&a.c) == NULL);
    CHECK_EQ(done(&a), 1);

    node_init(&a, NULL, 1);
    node_init(&b, &a, 1);
    node_init(&c, &b, 1);
    spn_fj_completer_complete_root(&c.c);
    CHECK_EQ(done(&a), 1);
    CHECK_EQ(done(&b) + done(&c), 0);
}

TEST(completer__complete_error__up_as_far_as_they_say, "CC-8")
{
    for (int stop = 0; stop < 2; stop++) {
        struct node a, b, c;

        node_init(&a, NULL, 1);
        node_init(&b, &a, 1);
        node_init(&c, &b, 1);
        b.stop = stop;
        spn_fj_completer_complete_error(&c.c, -6);
        CHECK_EQ(c.failures, 1);
        CHECK_EQ(b.failures, 1);
        CHECK_EQ(a.failures, !stop);
        CHECK_EQ(spn_fj_task_error(&c.c.task), -6);
        CHECK_EQ(spn_fj_task_error(&b.c.task), -6);
        CHECK_EQ(done(&a), !stop);
        CHECK_EQ(a.completions + b.completions + c.completions, 0);
    }
    {
        struct node a;

        node_init(&a, NULL, 0);
        spn_fj_completer_complete_error(&a.c, 0);
        CHECK_STATUS(spn_fj_task_error(&a.c.task), SPN_EFAILED);
        CHECK_EQ(a.error, SPN_EFAILED);
    }
}

TEST(completer__long_chain__takes_no_stack, "CC-15")
{
    enum { LENGTH = 100000 };
    struct node *chain = calloc(LENGTH, sizeof *chain);

    REQUIRE(chain != NULL);
    for (int i = 0; i < LENGTH; i++)
        node_init(&chain[i], i > 0 ? &chain[i - 1] : NULL, 0);
    spn_fj_completer_try_complete(&chain[LENGTH - 1].c);
    for (int i = 0; i < LENGTH; i++)
        CHECK_EQ(chain[i].completions, 1);
    CHECK_EQ(done(&chain[0]), 1);
    for (int i = 0; i < LENGTH; i++)
        node_init(&chain[i], i > 0 ? &chain[i - 1] : NULL, 0);
    spn_fj_completer_complete_error(&chain[LENGTH - 1].c, -4);
    CHECK_EQ(spn_fj_task_error(&chain[0].c.task), -4);
    free(chain);
}

/* ---- Fibonacci by completers ----------------------------------------------------------- */

struct fib {
    spn_fj_completer c;
    struct fib *children; /* two, freed with it */
    int n, value;
    int bad; /* fails at this n */
};

static int fib_run(spn_fj fj, spn_fj_task *task);

static void fib_completed(spn_fj_completer *self, spn_fj_completer *caller)
{
    struct fib *f = (struct fib *)(void *)self;

    (void)caller;
    if (f->children != NULL)
        f->value = f->children[0].value + f->children[1].value;
    spn_fj_task_set_result(&f->c.task, &f->value);
}

static void fib_init(struct fib *f, struct fib *parent, int n, int bad)
{
    *f = (struct fib){ .n = n, .value = n, .bad = bad };
    spn_fj_completer_init(&f->c, fib_run, parent != NULL ? &parent->c : NULL, 0);
    f->c.on_completion = fib_completed;
}

static void fib_free(struct fib *f)
{
    if (f->children != NULL) {
        fib_free(&f->children[0]);
        fib_free(&f->children[1]);
        free(f->children);
    }
}

static int fib_run(spn_fj fj, spn_fj_task *task)
{
    struct fib *f = (struct fib *)(void *)task;

    (void)fj;
    if (f->n == f->bad)
        return -9;
    if (f->n >= 2) {
        f->children = calloc(2, sizeof *f->children);
        REQUIRE(f->children != NULL);
        fib_init(&f->children[0], f, f->n - 1, f->bad);
        fib_init(&f->children[1], f, f->n - 2, f->bad);
        spn_fj_completer_set_pending(&f->c, 2);
        CHECK_OK(spn_fj_task_fork(&f->children[0].c.task));
        CHECK_OK(spn_fj_task_fork(&f->children[1].c.task));
    }
    spn_fj_completer_try_complete(&f->c);
    return 0;
}

static void check_fib(struct fib *f, int value)
{
    void *result = NULL;

    CHECK_OK(spn_fj_task_get(&f->c.task, &result, SPN_FOREVER));
    CHECK(result == &f->value);
    CHECK_EQ(f->value, value);
    CHECK_EQ(spn_fj_task_is_normal(&f->c.task), 1);
}

static int fib_inside(spn_fj fj, void *arg)
{
    struct fib f[3];
    spn_fj_task *tasks[3] = { &f[0].c.task, &f[1].c.task, &f[2].c.task };
    const int n[3] = { 8, 9, 7 }, value[3] = { 21, 34, 13 };

    (void)fj;
    (void)arg;
    for (int way = 0; way < 5; way++) {
        fib_init(&f[0], NULL, 8, -1);
        switch (way) {
        case 0:
            CHECK_OK(spn_fj_task_invoke(tasks[0]));
            break;
        case 1:
            CHECK_OK(spn_fj_task_fork(tasks[0]));
            CHECK_OK(spn_fj_task_join(tasks[0]));
            break;
        case 2:
            CHECK_OK(spn_fj_task_fork(tasks[0]));
            CHECK_OK(spn_fj_task_get(tasks[0], NULL, T_LONG_NS));
            break;
        case 3:
            CHECK_OK(spn_fj_task_fork(tasks[0]));
            CHECK_OK(spn_fj_task_wait(tasks[0], SPN_FOREVER));
            break;
        default:
            CHECK_OK(spn_fj_task_fork(tasks[0]));
            CHECK_OK(spn_fj_task_wait_uninterruptible(tasks[0], T_LONG_NS));
            break;
        }
        check_fib(&f[0], 21);
        fib_free(&f[0]);
    }
    for (int i = 0; i < 3; i++)
        fib_init(&f[i], NULL, n[i], -1);
    CHECK_OK(spn_fj_invoke_all(tasks, 3));
    for (int i = 0; i < 3; i++) {
        check_fib(&f[i], value[i]);
        fib_free(&f[i]);
    }
    return 0;
}

TEST(completer__fibonacci__every_way_of_waiting, "CC-10", "CC-13")
{
    for (int32_t p = 1; p <= 3; p++) {
        spn_fj_pool *pool = fj_pool(p);

        CHECK_OK(spn_fj_run(pool, fib_inside, NULL));
        fj_end(pool);
    }
}

TEST(completer__one_in_the_tree_fails__root_is_abnormal, "CC-11")
{
    for (int32_t p = 1; p <= 2; p++) {
        spn_fj_pool *pool = fj_pool(p);
        struct fib f;

        fib_init(&f, NULL, 8, 3);
        CHECK_EQ(spn_fj_pool_invoke(pool, &f.c.task), -9);
        CHECK_STATUS(spn_fj_task_get(&f.c.task, NULL, 0), SPN_EFAILED);
        CHECK_EQ(spn_fj_task_error(&f.c.task), -9);
        CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
        fib_free(&f);
        fj_end(pool);
    }
}

static int fail_quietly(spn_fj fj, spn_fj_task *task)
{
    spn_fj_fail(fj, -5);
    spn_fj_completer_try_complete((spn_fj_completer *)(void *)task);
    return 0;
}

static int fork_two(spn_fj fj, spn_fj_task *task)
{
    struct node *n = (struct node *)(void *)task;

    (void)fj;
    for (int i = 1; i <= 2; i++)
        CHECK_OK(spn_fj_task_fork(&n[i].c.task));
    spn_fj_completer_try_complete(&n->c);
    return 0;
}

/* A body says that its tree has failed, and returns 0: those above fail all the same. */
TEST(completer__fails_without_returning_it__root_is_abnormal, "CC-11")
{
    for (int32_t p = 1; p <= 2; p++) {
        spn_fj_pool *pool = fj_pool(p);
        struct node n[3];

        node_init(&n[0], NULL, 0);
        n[0].c.task.fn = fail_quietly;
        CHECK_EQ(spn_fj_pool_invoke(pool, &n[0].c.task), -5);
        CHECK_EQ(n[0].completions, 0);
        CHECK_EQ(n[0].failures, 1);
        for (int i = 0; i < 3; i++)
            node_init(&n[i], i == 0 ? NULL : &n[0], i == 0 ? 2 : 0);
        n[0].c.task.fn = fork_two;
        n[1].c.task.fn = n[2].c.task.fn = fail_quietly;
        CHECK_EQ(spn_fj_pool_invoke(pool, &n[0].c.task), -5);
        CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
        CHECK_EQ(n[0].completions + n[1].completions + n[2].completions, 0);
        CHECK_EQ(n[0].failures, 1);
        fj_end(pool);
    }
}

static atomic_int forked_two, gate;

static int fork_two_and_wait(spn_fj fj, spn_fj_task *task)
{
    (void)fork_two(fj, task);
    atomic_store(&forked_two, 1);
    T_AWAIT(atomic_load(&gate) != 0);
    return 0;
}

/* Children that are queued when the pool is stopped: the root ends. */
TEST(completer__pool_stopped_with_children_queued__root_is_abnormal, "CC-11", "FJP-14")
{
    spn_fj_pool *pool = fj_pool(1);
    struct node n[3];

    atomic_store(&forked_two, 0);
    atomic_store(&gate, 0);
    for (int i = 0; i < 3; i++)
        node_init(&n[i], i == 0 ? NULL : &n[0], i == 0 ? 2 : 0);
    n[0].c.task.fn = fork_two_and_wait;
    n[1].c.task.fn = n[2].c.task.fn = fail_quietly;
    CHECK_OK(spn_fj_pool_submit(pool, &n[0].c.task));
    T_AWAIT(atomic_load(&forked_two) != 0);
    CHECK_OK(spn_fj_pool_shutdown_now(pool));
    atomic_store(&gate, 1);
    CHECK_OK(spn_fj_task_wait(&n[0].c.task, T_LONG_NS));
    CHECK_EQ(spn_fj_task_error(&n[0].c.task), SPN_ECANCELED);
    CHECK_EQ(n[0].failures, 1);
    for (int i = 1; i <= 2; i++)
        CHECK_EQ(spn_fj_task_is_cancelled(&n[i].c.task), 1);
    fj_end(pool);
}

static int exit_thread(spn_fj fj, spn_fj_task *task)
{
    (void)fj;
    (void)task;
    pthread_exit(NULL);
}

/* A child ends its thread: the root ends. */
TEST(completer__child_ends_its_thread__root_is_abnormal, "CC-11", "FJP-21")
{
    spn_fj_pool *pool = fj_pool(1);
    struct node n[3];

    for (int i = 0; i < 3; i++)
        node_init(&n[i], i == 0 ? NULL : &n[0], i == 0 ? 2 : 0);
    n[0].c.task.fn = fork_two;
    n[1].c.task.fn = n[2].c.task.fn = exit_thread;
    CHECK_OK(spn_fj_pool_submit(pool, &n[0].c.task));
    CHECK_OK(spn_fj_task_wait(&n[0].c.task, T_LONG_NS));
    CHECK_EQ(spn_fj_task_error(&n[0].c.task), SPN_ECANCELED);
    fj_end(pool);
}

static int cancelled_inside(spn_fj fj, void *arg)
{
    struct fib f;

    (void)fj;
    (void)arg;
    fib_init(&f, NULL, 8, -1);
    CHECK_EQ(spn_fj_task_cancel(&f.c.task, 0), 1);
    CHECK_OK(spn_fj_task_fork(&f.c.task));
    CHECK_OK(spn_fj_help_quiesce());
    CHECK_STATUS(spn_fj_task_join(&f.c.task), SPN_ECANCELED);
    CHECK_STATUS(spn_fj_task_get(&f.c.task, NULL, 0), SPN_ECANCELED);
    CHECK_EQ(spn_fj_task_cancel(&f.c.task, 1), 1);
    CHECK(f.children == NULL);
    return 0;
}

TEST(completer__cancelled__does_not_run, "CC-12")
{
    spn_fj_pool *pool = fj_pool(1);

    CHECK_OK(spn_fj_run(pool, cancelled_inside, NULL));
    fj_end(pool);
}

/* Many children at once: the parent's turn comes once, after all. */
TEST(completer__many_children__completion_once, "CC-14")
{
    spn_fj_pool *pool = fj_pool(4);

    for (int i = 0; i < t_rounds(20); i++) {
        struct fib f;

        fib_init(&f, NULL, 12, -1);
        CHECK_OK(spn_fj_pool_invoke(pool, &f.c.task));
        CHECK_EQ(f.value, 144);
        CHECK_OK(spn_fj_pool_await_quiescence(pool, SPN_FOREVER));
        fib_free(&f);
    }
    fj_end(pool);
}
