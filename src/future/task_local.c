/* SPDX-License-Identifier: MIT */
/*
 * task_local.c - values of the running task, and what is put right when it ends.
 *
 * OVERVIEW
 *   The values are a small array that hangs off the thread's record, found by
 *   looking at each: tasks have one or two.  It is made by the first set and freed at
 *   the end of the task, so that an idle thread keeps nothing.  A key is an address;
 *   there is no table of keys, hence nothing global and no limit on them.
 *
 *   `used` in the record is set by whatever leaves something behind (a value, a
 *   context): the end of a task that used neither is one test.  A task inside a task
 *   begins with an empty record, and the outer one's is put back.
 *
 * All of it is touched by its own thread only.
 */
#include <spindle/task_local.h>

#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "future/ambient.h"

struct local {
    const spn_task_local *key;
    void *value;
};

struct spn__task_locals {
    size_t count, room;
    struct local locals[];
};

/* Room for the first few, and then twice as many each time. */
#define FIRST_ROOM 4

static struct local *find(struct spn__task_locals *all, const spn_task_local *key)
{
    for (size_t i = 0; all != NULL && i < all->count; i++)
        if (all->locals[i].key == key)
            return &all->locals[i];
    return NULL;
}

/* A place for one more, or NULL: no memory, and all is as it was. */
static struct local *add(struct spn__ambient *ambient)
{
    struct spn__task_locals *all = ambient->locals;

    if (all == NULL || all->count == all->room) {
        const size_t room = all != NULL ? all->room * 2 : FIRST_ROOM;
        struct spn__task_locals *more =
            spn__alloc(sizeof *more + room * sizeof more->locals[0]);

        if (more == NULL)
            return NULL;
        more->room = room;
        more->count = 0;
        if (all != NULL) {
            more->count = all->count;
            memcpy(more->locals, all->locals, all->count * sizeof all->locals[0]);
            spn__free(all);
        }
        ambient->locals = all = more;
        ambient->used = true;
    }
    return &all->locals[all->count++];
}

int spn_task_local_set(const spn_task_local *key, void *value)
{
    struct spn_thread *self = spn__self_get();
    struct local *local;

    if (key == NULL)
        return SPN_EINVAL;
    if (self == NULL || self->ambient.depth == 0)
        return SPN_ESTATE;
    local = find(self->ambient.locals, key);
    if (local == NULL) {
        if (value == NULL)
            return SPN_OK;
        local = add(&self->ambient);
        if (local == NULL)
            return SPN_ENOMEM;
        local->key = key;
    }
    local->value = value;
    return SPN_OK;
}

void *spn_task_local_get(const spn_task_local *key)
{
    struct spn_thread *self = spn__self_get();
    struct local *local;

    if (self == NULL || self->ambient.locals == NULL)
        return NULL;
    local = find(self->ambient.locals, key);
    return local != NULL ? local->value : NULL;
}

/* ---- the end of a task ----------------------------------------------------------- */

/* What is there now; what the destructors set is there afterwards. */
static void destroy_round(struct spn__task_locals *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->locals[i].value != NULL && all->locals[i].key->destroy != NULL)
            all->locals[i].key->destroy(all->locals[i].value);
    spn__free(all);
}

static void destroy_locals(struct spn__ambient *ambient)
{
    for (int round = 0; ambient->locals != NULL; round++) {
        struct spn__task_locals *all = ambient->locals;

        ambient->locals = NULL;
        if (round < SPN_TASK_LOCAL_ROUNDS) {
            destroy_round(all);
        } else {
            spn__log(SPN_LOG_WARN,
                     "task-local values set by destructors over and over");
            spn__free(all);
        }
    }
}

void spn__ambient_clear(struct spn_thread *self)
{
    struct spn__ambient *ambient = &self->ambient;
    struct spn_context *captured;

    ambient->context = ambient->captured; /* whatever scope was left open */
    destroy_locals(ambient);
    captured = ambient->captured;
    ambient->context = ambient->captured = NULL;
    spn_context_unref(captured); /* may call a release function of the user's */
    destroy_locals(ambient);
    ambient->context = NULL;
    ambient->used = false;
}

void spn__ambient_push(struct spn__ambient_frame *frame, struct spn_context *captured)
{
    struct spn_thread *self = spn__thread_self();

    frame->self = self;
    frame->captured = captured;
    if (self == NULL)
        return;
    frame->outer = self->ambient;
    self->ambient = (struct spn__ambient){ .depth = frame->outer.depth + 1 };
    spn__ambient_begin(self, captured);
}

void spn__ambient_pop(struct spn__ambient_frame *frame)
{
    if (frame->self == NULL) {
        spn_context_unref(frame->captured);
        return;
    }
    spn__debug_assert(frame->self == spn__self_get());
    spn__ambient_end(frame->self);
    frame->self->ambient = frame->outer;
}

/* The task's function, from which no exception comes. */
struct task_call {
    spn_task *task;
    int status;
};

static void call_fn(void *p)
{
    struct task_call *c = p;

    c->status = c->task->fn(c->task); /* the node may be gone now */
}

static int run_in(struct spn_context *context, spn_task *task)
{
    struct spn__ambient_frame frame;
    struct task_call c = { task, 0 };

    spn__ambient_push(&frame, context);
    spn__guarded(call_fn, &c);
    spn__ambient_pop(&frame);
    return c.status;
}

int spn__task_run_here(spn_task *task)
{
    return run_in(spn__job_take(task), task);
}

int spn__task_run_claimed(spn_task *task)
{
    struct spn_context *context = spn__job_take(task);

    spn_task_release(task);
    return run_in(context, task);
}
