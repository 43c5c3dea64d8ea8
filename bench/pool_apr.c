/* SPDX-License-Identifier: MIT */
/*
 * APR's thread pool.  A push walks the queue past all tasks of its priority, so the
 * time grows with the square of the number queued: it gets fewer.
 */
#include <apr_general.h>
#include <apr_thread_pool.h>
#include <apu_version.h>
#include <semaphore.h>
#include <stdlib.h>

#include "pool_peers.h"

static void *create(int workers)
{
    apr_thread_pool_t *threads;
    apr_pool_t *pool;

    if (apr_initialize() != APR_SUCCESS ||
        apr_pool_create(&pool, NULL) != APR_SUCCESS ||
        apr_thread_pool_create(&threads, (apr_size_t)workers, (apr_size_t)workers,
                               pool) != APR_SUCCESS)
        return NULL;
    return threads;
}

static void destroy(void *pool)
{
    (void)apr_thread_pool_destroy(pool);
}

static void push(apr_thread_pool_t *pool, apr_thread_start_t fn, void *arg)
{
    if (apr_thread_pool_push(pool, fn, arg, APR_THREAD_TASK_PRIORITY_NORMAL, NULL) !=
        APR_SUCCESS)
        abort();
}

static void *count_one(apr_thread_t *thread, void *arg)
{
    (void)thread;
    (void)arg;
    pool_count_one();
    return NULL;
}

static void spray(struct pool_lane *lane)
{
    for (uint64_t i = 0; i < lane->count; i++)
        push(lane->pool, count_one, NULL);
}

static void *call_body(apr_thread_t *thread, void *arg)
{
    (void)thread;
    (*(pool_body *)arg)();
    return NULL;
}

static void submit(void *pool, pool_body body)
{
    static pool_body bodies[16];
    static unsigned next;
    pool_body *place = &bodies[next++ % 16];

    *place = body;
    push(pool, call_body, place);
}

struct answer {
    sem_t done;
    int value;
};

static void *give_answer(apr_thread_t *thread, void *arg)
{
    struct answer *a = arg;

    (void)thread;
    a->value = POOL_ANSWER;
    sem_post(&a->done);
    return NULL;
}

static uint64_t ask(void *pool, uint64_t count)
{
    static struct answer a; /* a semaphore is used again, not made each time */
    uint64_t sum = 0;

    (void)sem_init(&a.done, 0, 0);
    for (uint64_t i = 0; i < count; i++) {
        push(pool, give_answer, &a);
        while (sem_wait(&a.done) != 0) {
        }
        sum += (uint64_t)a.value;
    }
    return sum;
}

const char *pool_apr_version(void)
{
    return apu_version_string();
}

const struct pool_kind pool_apr = { .create = create,
                                    .destroy = destroy,
                                    .spray = spray,
                                    .ask = ask,
                                    .submit = submit,
                                    .tasks_max = POOL_APR_TASKS };
