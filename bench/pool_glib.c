/* SPDX-License-Identifier: MIT */
/*
 * GLib's GThreadPool: one function for the whole pool, and a pointer for each task.
 * An answer comes through a sem_t, the cheapest there is.
 */
#include <semaphore.h>

#include "pair.h"
#include "pool_peers.h"

struct task {
    void (*fn)(void *arg);
    void *arg;
};

static void run_task(gpointer data, gpointer user_data)
{
    const struct task *task = data;

    (void)user_data;
    task->fn(task->arg);
}

static void *create(int workers)
{
    return g_thread_pool_new(run_task, NULL, workers, TRUE, NULL);
}

static void destroy(void *pool)
{
    g_thread_pool_free(pool, FALSE, TRUE);
}

static void count_one(void *arg)
{
    (void)arg;
    pool_count_one();
}

static void spray(struct pool_lane *lane)
{
    static struct task task = { count_one, NULL };

    for (uint64_t i = 0; i < lane->count; i++)
        g_thread_pool_push(lane->pool, &task, NULL);
}

static void call_body(void *arg)
{
    (*(pool_body *)arg)();
}

static void submit(void *pool, pool_body body)
{
    static pool_body bodies[16];
    static struct task tasks[16];
    static unsigned next;
    const unsigned i = next++ % 16;

    bodies[i] = body;
    tasks[i] = (struct task){ call_body, &bodies[i] };
    g_thread_pool_push(pool, &tasks[i], NULL);
}

struct answer {
    sem_t done;
    int value;
};

static void give_answer(void *arg)
{
    struct answer *a = arg;

    a->value = POOL_ANSWER;
    sem_post(&a->done);
}

static uint64_t ask(void *pool, uint64_t count)
{
    static struct answer a; /* a semaphore is used again, not made each time */
    static struct task task = { give_answer, &a };
    uint64_t sum = 0;

    (void)sem_init(&a.done, 0, 0);
    for (uint64_t i = 0; i < count; i++) {
        g_thread_pool_push(pool, &task, NULL);
        while (sem_wait(&a.done) != 0) {
        }
        sum += (uint64_t)a.value;
    }
    return sum;
}

const char *pool_glib_version(void)
{
    return glib_version_text();
}

const struct pool_kind pool_glib = {
    .create = create, .destroy = destroy, .spray = spray, .ask = ask, .submit = submit
};
