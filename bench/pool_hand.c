/* SPDX-License-Identifier: MIT */
/*
 * A pool as people write it by hand: a list of nodes from malloc, a mutex and a
 * condition variable that is signalled after the mutex was let go; a future is the
 * same once more.
 */
#include <pthread.h>
#include <stdlib.h>

#include "pool_peers.h"

enum { WORKERS_MAX = 2 };

struct node {
    struct node *next;
    void (*fn)(void *arg);
    void *arg;
};

struct hand {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    struct node *first, **last; /* guarded by the mutex; so is stop */
    bool stop;
    int workers;
    pthread_t threads[WORKERS_MAX];
};

static void *work(void *arg)
{
    struct hand *h = arg;

    pthread_mutex_lock(&h->mutex);
    for (;;) {
        struct node *node = h->first;

        if (node == NULL) {
            if (h->stop)
                break;
            pthread_cond_wait(&h->more, &h->mutex);
            continue;
        }
        h->first = node->next;
        if (h->first == NULL)
            h->last = &h->first;
        pthread_mutex_unlock(&h->mutex);
        node->fn(node->arg);
        free(node);
        pthread_mutex_lock(&h->mutex);
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}

static void hand_submit(struct hand *h, void (*fn)(void *arg), void *arg)
{
    struct node *node = malloc(sizeof *node);

    if (node == NULL)
        abort();
    *node = (struct node){ .fn = fn, .arg = arg };
    pthread_mutex_lock(&h->mutex);
    *h->last = node;
    h->last = &node->next;
    pthread_mutex_unlock(&h->mutex);
    pthread_cond_signal(&h->more);
}

static void *create(int workers)
{
    static struct hand h = { .mutex = PTHREAD_MUTEX_INITIALIZER,
                             .more = PTHREAD_COND_INITIALIZER,
                             .last = &h.first };

    if (workers > WORKERS_MAX)
        return NULL;
    for (; h.workers < workers; h.workers++)
        if (pthread_create(&h.threads[h.workers], NULL, work, &h) != 0)
            return NULL;
    return &h;
}

static void destroy(void *pool)
{
    struct hand *h = pool;

    pthread_mutex_lock(&h->mutex);
    h->stop = true;
    pthread_mutex_unlock(&h->mutex);
    pthread_cond_broadcast(&h->more);
    for (int i = 0; i < h->workers; i++)
        pthread_join(h->threads[i], NULL);
}

static void count_one(void *arg)
{
    (void)arg;
    pool_count_one();
}

static void spray(struct pool_lane *lane)
{
    for (uint64_t i = 0; i < lane->count; i++)
        hand_submit(lane->pool, count_one, NULL);
}

/* C has no pointer from an object to a function: the function is in a struct. */
struct call {
    pool_body body;
};

static void run_call(void *arg)
{
    ((struct call *)arg)->body();
}

static void submit(void *pool, pool_body body)
{
    static struct call calls[16];
    static unsigned next;
    struct call *call = &calls[next++ % 16];

    call->body = body;
    hand_submit(pool, run_call, call);
}

struct answer {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    bool is_done;
    int value;
};

static void give_answer(void *arg)
{
    struct answer *a = arg;

    pthread_mutex_lock(&a->mutex);
    a->value = POOL_ANSWER;
    a->is_done = true;
    /* Under the mutex: right after it was let go the waiter may be gone. */
    pthread_cond_signal(&a->done);
    pthread_mutex_unlock(&a->mutex);
}

static uint64_t ask(void *pool, uint64_t count)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct answer a = { .mutex = PTHREAD_MUTEX_INITIALIZER,
                            .done = PTHREAD_COND_INITIALIZER };

        hand_submit(pool, give_answer, &a);
        pthread_mutex_lock(&a.mutex);
        while (!a.is_done)
            pthread_cond_wait(&a.done, &a.mutex);
        pthread_mutex_unlock(&a.mutex);
        sum += (uint64_t)a.value;
        pthread_cond_destroy(&a.done);
        pthread_mutex_destroy(&a.mutex);
    }
    return sum;
}

const struct pool_kind pool_hand = {
    .create = create, .destroy = destroy, .spray = spray, .ask = ask, .submit = submit
};
