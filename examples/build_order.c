/* SPDX-License-Identifier: MIT */
/*
 * build_order.c - targets that need each other, as make builds them.  What two targets
 * need is built once and waited for by both, so they are no tree of calls: each target is
 * a task object.  A source is no work, but done, or missing, from the start.
 */
#include <spindle.h>

#include <stdio.h>

enum { MISSING = 404 }; /* a status of our own */

enum { HEADER, MAIN_C, UTIL_C, MANUAL, MAIN_O, UTIL_O, APP, ALL, TARGETS };

struct target {
    spn_fj_task task;
    const char *name;
    int lines;    /* of a source, and in the end of all that is in it */
    int needs[3]; /* other targets; none: a source                    */
    int need_count;
};

static const struct target plan[TARGETS] = {
    [HEADER] = { .name = "util.h", .lines = 10 },
    [MAIN_C] = { .name = "main.c", .lines = 100 },
    [UTIL_C] = { .name = "util.c", .lines = 200 },
    [MANUAL] = { .name = "manual", .lines = 1000 },
    [MAIN_O] = { .name = "main.o", .needs = { MAIN_C, HEADER }, .need_count = 2 },
    [UTIL_O] = { .name = "util.o", .needs = { UTIL_C, HEADER }, .need_count = 2 },
    [APP] = { .name = "app", .needs = { MAIN_O, UTIL_O }, .need_count = 2 },
    [ALL] = { .name = "all", .needs = { APP, MANUAL }, .need_count = 2 },
};
static struct target targets[TARGETS];

static int build(spn_fj fj, spn_fj_task *task)
{
    struct target *t = (struct target *)(void *)task;

    for (int i = 1; i < t->need_count; i++) {
        const int rc = spn_fj_task_fork(&targets[t->needs[i]].task);

        if (rc != SPN_OK && rc != SPN_EBUSY) /* busy: another target has forked it */
            return rc;
    }
    for (int i = 0; i < t->need_count; i++) {
        struct target *need = &targets[t->needs[i]];
        /* The first is built here, unless another target has begun it. */
        const int rc =
            i == 0 ? spn_fj_task_invoke(&need->task) : spn_fj_task_join(&need->task);

        if (rc != SPN_OK)
            return rc;
        t->lines += *(const int *)spn_fj_task_result(&need->task);
    }
    spn_fj_task_set_result(task, &t->lines);
    return spn_fj_status(fj); /* cancelled meanwhile, perhaps */
}

/* What is installed: a program and its manual go to their places side by side, because
 * nothing else waits for either. */
static struct copy {
    spn_fj_task task;
    const struct target *from;
    int lines;
} copies[2] = { { .from = &targets[APP] }, { .from = &targets[MANUAL] } };

static int copy(spn_fj fj, spn_fj_task *task)
{
    struct copy *c = (struct copy *)(void *)task;

    (void)fj;
    c->lines = c->from->lines;
    return 0;
}

static int install(spn_fj fj, void *installed)
{
    spn_fj_task *tasks[] = { &copies[0].task, &copies[1].task };
    int rc;

    (void)fj;
    for (int i = 0; i < 2; i++)
        spn_fj_task_init(tasks[i], copy);
    rc = spn_fj_invoke_all(tasks, 2);
    *(int *)installed = copies[0].lines + copies[1].lines;
    return rc;
}

/* Nobody knows the targets: all of them are as new. */
static void begin(const struct target *missing)
{
    for (int i = 0; i < TARGETS; i++) {
        targets[i] = plan[i];
        spn_fj_task_init(&targets[i].task, build);
        if (&plan[i] == missing)
            (void)spn_fj_task_complete_error(&targets[i].task, MISSING);
        else if (plan[i].need_count == 0)
            (void)spn_fj_task_complete(&targets[i].task, &targets[i].lines);
    }
}

/* Builds the goal, in ten seconds. */
static int make(spn_fj_pool *pool, int goal)
{
    struct target *t = &targets[goal];
    void *lines = NULL;
    int rc = spn_fj_pool_submit(pool, &t->task);

    if (rc == SPN_OK)
        rc = spn_fj_task_get(&t->task, &lines, SPN_SEC(10));
    if (rc == SPN_OK)
        printf("%s: %d lines\n", t->name, *(const int *)lines);
    else if (rc == SPN_EFAILED)
        printf("%s: error %d\n", t->name, spn_fj_task_error(&t->task));
    if (rc == SPN_ETIMEDOUT)
        (void)spn_fj_task_cancel(&t->task, 1);
    /* What was begun beside a failure still uses the targets. */
    return spn_fj_pool_await_quiescence(pool, SPN_FOREVER) == SPN_OK ? rc : SPN_ENOMEM;
}

int main(void)
{
    spn_fj_pool *pool;
    int installed = 0, failures = 0;

    if (spn_fj_pool_create(&pool, NULL) != SPN_OK)
        return 1;
    begin(NULL); /* nothing is missing */
    failures += make(pool, ALL) != SPN_OK;
    failures += targets[ALL].lines != 2 * 10 + 100 + 200 + 1000;
    failures += spn_fj_run(pool, install, &installed) != SPN_OK;
    failures += installed != targets[ALL].lines;
    begin(&plan[UTIL_C]);
    failures += make(pool, ALL) != SPN_EFAILED;
    failures += spn_fj_task_error(&targets[APP].task) != MISSING;
    failures += spn_fj_task_get(&targets[MAIN_O].task, NULL, 0) == SPN_EFAILED;
    (void)spn_fj_pool_close(pool);
    (void)spn_fj_pool_destroy(pool);
    return failures != 0;
}
