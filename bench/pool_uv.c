/* SPDX-License-Identifier: MIT */
/*
 * libuv's uv_queue_work.  A task has a loop, which is told when it is done, and a
 * loop belongs to one thread: each producer has one, and after its last submit it
 * runs until all completions have come.  The pool is one for the process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "pool_peers.h"

static uv_loop_t main_loop;

static void *create(int workers)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", workers);
    if (setenv("UV_THREADPOOL_SIZE", text, 1) != 0 || uv_loop_init(&main_loop) != 0)
        return NULL;
    return &main_loop;
}

static void destroy(void *pool)
{
    if (uv_loop_close(pool) != 0)
        abort();
}

static void done(uv_work_t *work, int status)
{
    (void)work;
    if (status != 0)
        abort();
}

static void count_one(uv_work_t *work)
{
    (void)work;
    pool_count_one();
}

static void spray(struct pool_lane *lane)
{
    uv_work_t *works = (uv_work_t *)(void *)lane->nodes;
    uv_loop_t *loop = malloc(sizeof *loop);

    if (loop == NULL || uv_loop_init(loop) != 0)
        abort();
    lane->own = loop;
    for (uint64_t i = 0; i < lane->count; i++)
        if (uv_queue_work(loop, &works[i], count_one, done) != 0)
            abort();
}

static void finish(struct pool_lane *lane)
{
    uv_loop_t *loop = lane->own;

    if (uv_run(loop, UV_RUN_DEFAULT) != 0 || uv_loop_close(loop) != 0)
        abort();
    free(loop);
}

struct call {
    uv_work_t work; /* first */
    pool_body body;
};

static void run_call(uv_work_t *work)
{
    ((struct call *)(void *)work)->body();
}

static void submit(void *pool, pool_body body)
{
    static struct call calls[16];
    static unsigned next;
    struct call *call = &calls[next++ % 16];

    call->body = body;
    if (uv_queue_work(pool, &call->work, run_call, done) != 0)
        abort();
}

static void drain(void *pool)
{
    if (uv_run(pool, UV_RUN_DEFAULT) != 0)
        abort();
}

struct answer {
    uv_work_t work; /* first */
    int value;
};

static void give_answer(uv_work_t *work)
{
    ((struct answer *)(void *)work)->value = POOL_ANSWER;
}

static uint64_t ask(void *pool, uint64_t count)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct answer a = { .value = 0 };

        if (uv_queue_work(pool, &a.work, give_answer, done) != 0)
            abort();
        (void)uv_run(pool, UV_RUN_DEFAULT);
        sum += (uint64_t)a.value;
    }
    return sum;
}

const char *pool_uv_version(void)
{
    return uv_version_string();
}

const struct pool_kind pool_uv = { .create = create,
                                   .destroy = destroy,
                                   .spray = spray,
                                   .finish = finish,
                                   .ask = ask,
                                   .submit = submit,
                                   .drain = drain,
                                   .node_size = sizeof(uv_work_t) };
