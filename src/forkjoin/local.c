/* SPDX-License-Identifier: MIT */
/*
 * local.c - what a worker may take back of what it, or another, has forked or submitted:
 * unfork, peek, poll; and how much of it there is.
 *
 * Whoever takes an object out gives it back to the program: the pool counts it as
 * returned, and forgets it.  Until then the pool is held, so that it does not end in
 * between; and from the moment that the object is put down it may be ended, and freed, by
 * whoever knows it.
 */
#include "forkjoin/pool.h"

#include "future/ambient.h"
#include "future/executor.h"

/* A task was taken out, perhaps, and is given back to the program; the pool is held.
 * NULL: there is none, or it was ended meanwhile, and may be gone. */
static spn_fj_task *given_back(struct spn_fj_pool *fj, spn_task *task)
{
    spn_fj_task *object;

    if (task != NULL) {
        spn__pool_hold(fj->pool);
        spn__pool_left_queue(fj->pool, &fj->pool->returned, 1);
        spn__fj_settled(fj);
    }
    spn__pool_left_queue(fj->pool, NULL, 0); /* it may end, and be gone, from here on */
    if (task == NULL)
        return NULL;
    spn__job_forget(task);
    spn_task_release(task);
    object = spn__fj_task_of(task);
    return spn__fj_task_given_back(object) ? object : NULL;
}

static bool is_object(spn_task *task, void *ctx)
{
    (void)ctx;
    return spn__fj_task_of(task) != NULL;
}

int spn_fj_task_try_unfork(spn_fj_task *task)
{
    struct spn__fj_place *place = spn__fj_place_current();

    if (task == NULL)
        return SPN_EINVAL;
    if (place == NULL || !spn__fj_queue_remove(place, &task->task, true))
        return 0;
    spn__pool_hold(place->pool->pool);
    return given_back(place->pool, &task->task) != NULL;
}

spn_fj_task *spn_fj_peek_local(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place != NULL ? spn__fj_queue_peek(place, !place->pool->async) : NULL;
}

spn_fj_task *spn_fj_poll_local(void)
{
    struct spn__fj_place *place = spn__fj_place_current();
    spn_fj_task *object;
    spn_task *task;

    if (place == NULL)
        return NULL;
    do {
        spn__pool_hold(place->pool->pool);
        task = spn__fj_queue_take_object(place, !place->pool->async);
        object = given_back(place->pool, task);
    } while (task != NULL && object == NULL);
    return object;
}

static bool wanted_object(spn_task *task, const void *ctx)
{
    bool *found = *(bool *const *)ctx;

    if (*found || spn__fj_task_of(task) == NULL)
        return false;
    return *found = true;
}

/* The oldest submission that is an object, taken out. */
static spn_task *take_submission(struct spn_fj_pool *fj)
{
    struct spn__list one;
    struct spn__list_node *node;
    bool found = false, *at = &found;

    spn__list_init(&one);
    (void)spn__work_collect_queue(fj->pool, wanted_object, &at, &one);
    node = spn__list_pop_front(&one);
    return node != NULL ? spn__node_task(node) : NULL;
}

spn_fj_task *spn_fj_pool_poll_submission(spn_fj_pool *fj)
{
    spn_fj_task *object;
    spn_task *task;

    if (fj == NULL)
        return NULL;
    do {
        spn__pool_hold(fj->pool);
        task = take_submission(fj);
        object = given_back(fj, task);
    } while (task != NULL && object == NULL);
    return object;
}

spn_fj_task *spn_fj_poll_task(void)
{
    struct spn__fj_place *place = spn__fj_place_current();
    spn_fj_task *object;
    spn_task *task;

    if (place == NULL)
        return NULL;
    do {
        spn__pool_hold(place->pool->pool);
        task = spn__fj_queue_take_object(place, !place->pool->async);
        for (struct spn__fj_place *p = spn__fj_first_place(place->pool);
             task == NULL && p != NULL; p = spn__fj_next_place(p))
            task = spn__fj_queue_take_if(p, is_object, NULL);
        if (task == NULL)
            task = take_submission(place->pool);
        object = given_back(place->pool, task);
    } while (task != NULL && object == NULL);
    return object;
}

int32_t spn_fj_local_queued(void)
{
    struct spn__fj_place *place = spn__fj_place_current();

    return place == NULL ? 0 : (int32_t)spn__fj_queue_size(&place->queue);
}

int32_t spn_fj_surplus(void)
{
    struct spn__fj_place *place = spn__fj_place_current();
    int64_t queued;

    if (place == NULL)
        return 0;
    queued = spn__fj_queue_size(&place->queue);
    /* relaxed: an estimate. */
    return (int32_t)(queued - spn__load(&place->pool->pool->idle_count, relaxed));
}
