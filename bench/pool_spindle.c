/* SPDX-License-Identifier: MIT */
/*
 * Our pool, as it comes but for the number of threads and a queue without bound:
 *
 *   fifo          the default queue, intrusive tasks
 *   fifo_call     the default queue, fn and arg
 *   lanes         SPN_POOL_LANES, fn and arg
 *   lanes_execute SPN_POOL_LANES, intrusive tasks
 */
#include <unistd.h>

#include <spindle.h>
#include <spindle/pool.h>

#include "pool_peers.h"

static void *create(int workers, spn_pool_queue_kind queue)
{
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_pool *pool;

    opts.core_threads = workers;
    opts.max_threads = workers;
    opts.queue_capacity = SPN_UNBOUNDED;
    opts.queue_kind = queue;
    return spn_pool_create(&pool, &opts) == SPN_OK ? spn_pool_executor(pool) : NULL;
}

static void *fifo_create(int workers)
{
    return create(workers, SPN_POOL_FIFO);
}
static void *lanes_create(int workers)
{
    return create(workers, SPN_POOL_LANES);
}

static void destroy(void *executor)
{
    spn_pool *pool = spn_executor_pool(executor);

    if (spn_pool_close(pool) != SPN_OK || spn_pool_destroy(pool) != SPN_OK)
        _exit(1);
}

/* ---- fn and arg ------------------------------------------------------------- */

static int count_call(void *arg)
{
    (void)arg;
    pool_count_one();
    return 0;
}

static void spray_call(struct pool_lane *lane)
{
    spn_executor *executor = lane->pool;

    for (uint64_t i = 0; i < lane->count; i++)
        if (spn_executor_call(executor, count_call, NULL) != SPN_OK)
            _exit(1);
}

static int body_call(void *arg)
{
    (*(pool_body *)arg)();
    return 0;
}

static void submit_call(void *executor, pool_body body)
{
    static pool_body bodies[16];
    static unsigned next;
    pool_body *place = &bodies[next++ % 16];

    *place = body;
    if (spn_executor_call(executor, body_call, place) != SPN_OK)
        _exit(1);
}

/* ---- intrusive ---------------------------------------------------------------- */

static int count_task(spn_task *task)
{
    (void)task;
    pool_count_one();
    return 0;
}

static void spray_execute(struct pool_lane *lane)
{
    spn_executor *executor = lane->pool;
    spn_task *tasks = (spn_task *)(void *)lane->nodes;

    for (uint64_t i = 0; i < lane->count; i++) {
        tasks[i] = (spn_task)SPN_TASK_INIT(count_task, NULL);
        if (spn_executor_execute(executor, &tasks[i]) != SPN_OK)
            _exit(1);
    }
}

struct body_task {
    spn_task task; /* first */
    pool_body body;
};

static int body_run(spn_task *task)
{
    ((struct body_task *)(void *)task)->body();
    return 0;
}

static void submit_execute(void *executor, pool_body body)
{
    static struct body_task tasks[16];
    static unsigned next;
    struct body_task *t = &tasks[next++ % 16];

    *t = (struct body_task){ SPN_TASK_INIT(body_run, NULL), body };
    if (spn_executor_execute(executor, &t->task) != SPN_OK)
        _exit(1);
}

/* ---- futures --------------------------------------------------------------------- */

static int give_answer(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static uint64_t ask(void *executor, uint64_t count)
{
    static char answer[POOL_ANSWER + 1];
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        spn_future *future;
        void *value;

        if (spn_executor_submit(executor, give_answer, &answer[POOL_ANSWER], &future) !=
                SPN_OK ||
            spn_future_get(future, &value, SPN_FOREVER) != SPN_OK)
            _exit(1);
        sum += (uint64_t)((char *)value - answer);
        spn_future_unref(future);
    }
    return sum;
}

const struct pool_kind pool_spindle = { .create = fifo_create,
                                        .destroy = destroy,
                                        .spray = spray_execute,
                                        .ask = ask,
                                        .submit = submit_execute,
                                        .node_size = sizeof(spn_task) };
const struct pool_kind pool_spindle_call = { .create = fifo_create,
                                             .destroy = destroy,
                                             .spray = spray_call,
                                             .ask = ask,
                                             .submit = submit_call };
const struct pool_kind pool_spindle_lanes = { .create = lanes_create,
                                              .destroy = destroy,
                                              .spray = spray_call,
                                              .ask = ask,
                                              .submit = submit_call };
const struct pool_kind pool_spindle_lanes_execute = { .create = lanes_create,
                                                      .destroy = destroy,
                                                      .spray = spray_execute,
                                                      .ask = ask,
                                                      .submit = submit_execute,
                                                      .node_size = sizeof(spn_task) };
