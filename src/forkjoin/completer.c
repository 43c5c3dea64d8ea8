/* SPDX-License-Identifier: MIT */
/*
 * completer.c - objects that are done when as many others as they have pending have said
 * so.
 *
 * OVERVIEW
 *   try_complete takes one from the count; the one that finds it at zero has all the
 *   others behind it, calls on_completion, and goes on with the parent, in a loop: a
 *   chain of any length takes no stack.
 *
 *   What failed below a body without its saying so (spn_fj_fail, no stack, no memory) is
 *   in the object's error: whoever comes to it last fails it, and those above.  A child
 *   that will never run, for its pool was stopped or its thread has ended, does the same.
 *
 * ORDERING
 *   [pending] Each decrement is a release, and who finds zero has read it with acquire: it
 *             sees what all the others did before theirs.
 */
#include "forkjoin/pool.h"

typedef SPN__ATOMIC(int32_t) pending_word;

_Static_assert(offsetof(spn_fj_completer, task) == 0, "they are the same address");

/* How far up an object is followed to see whose descendant it is. */
enum { GENERATIONS = 64 };

static pending_word *pending_of(spn_fj_completer *c)
{
    return (pending_word *)(void *)&c->pending;
}

void spn_fj_completer_init(spn_fj_completer *c, spn_fj_task_fn fn,
                           spn_fj_completer *parent, int32_t pending)
{
    if (c == NULL)
        return;
    *c = (spn_fj_completer){ .parent = parent };
    spn_fj_task_init(&c->task, fn);
    c->task.flags = SPN__FJ_COMPLETER;
    spn__init(pending_of(c), pending);
}

bool spn__fj_descends(spn_fj_task *t, const spn_fj_task *root)
{
    const spn_fj_completer *c = (const spn_fj_completer *)(const void *)t;

    if ((t->flags & SPN__FJ_COMPLETER) == 0)
        return false;
    /* Those above a queued one are not done, and so are there. */
    for (int i = 0; c != NULL && i < GENERATIONS; i++, c = c->parent)
        if (&c->task == root)
            return true;
    return false;
}

int32_t spn_fj_completer_pending(spn_fj_completer *c)
{
    return c == NULL ? 0 : spn__load(pending_of(c), acquire); /* [pending] */
}

void spn_fj_completer_set_pending(spn_fj_completer *c, int32_t pending)
{
    if (c != NULL)
        spn__store(pending_of(c), pending, release); /* [pending] */
}

void spn_fj_completer_add_pending(spn_fj_completer *c, int32_t by)
{
    if (c != NULL) /* mutant: who only adds reads nothing; acquire is for programs */
        (void)spn__fetch_add(pending_of(c), by, acq_rel); /* [pending] */
}

int spn_fj_completer_cas_pending(spn_fj_completer *c, int32_t expected, int32_t desired)
{
    if (c == NULL)
        return SPN_EINVAL;
    /* [pending]; relaxed: a failure tells nothing. */
    return spn__cas(pending_of(c), &expected, desired, acq_rel, relaxed);
}

int32_t spn_fj_completer_decrement_unless_zero(spn_fj_completer *c)
{
    int32_t pending;

    if (c == NULL)
        return 0;
    pending = spn__load(pending_of(c), acquire); /* [pending] */
    while (pending != 0 &&
           /* mutant: who goes on has read zero, with acquire; this is for programs. */
           !spn__cas_weak(pending_of(c), &pending, (int32_t)((uint32_t)pending - 1),
                          acq_rel, acquire)) /* [pending] */
        ;
    return pending;
}

spn_fj_completer *spn_fj_completer_root(spn_fj_completer *c)
{
    while (c != NULL && c->parent != NULL)
        c = c->parent;
    return c;
}

/* One level after another; `call`: with on_completion. */
static void go_up(spn_fj_completer *c, spn_fj_completer *caller, bool call)
{
    while (c != NULL && spn_fj_completer_decrement_unless_zero(c) == 0) {
        spn_fj_completer *parent = c->parent;
        const int error = spn__fj_task_failure(&c->task);

        if (error != 0) {
            spn_fj_completer_complete_error(c, error);
            return;
        }
        if (call && c->on_completion != NULL)
            c->on_completion(c, caller); /* may free it if it is not the root */
        if (parent == NULL)
            (void)spn__fj_task_end_normal(&c->task);
        caller = c;
        c = parent;
    }
}

void spn_fj_completer_try_complete(spn_fj_completer *c)
{
    go_up(c, c, true);
}

void spn_fj_completer_propagate(spn_fj_completer *c)
{
    go_up(c, c, false);
}

void spn_fj_completer_complete(spn_fj_completer *c, void *result)
{
    spn_fj_completer *parent;

    if (c == NULL)
        return;
    parent = c->parent;
    spn_fj_task_set_result(&c->task, result);
    if (c->on_completion != NULL)
        c->on_completion(c, c);
    (void)spn__fj_task_end_normal(&c->task);
    go_up(parent, c, true);
}

void spn_fj_completer_complete_error(spn_fj_completer *c, int error)
{
    spn_fj_completer *caller = c;

    if (error == 0)
        error = SPN_EFAILED;
    while (c != NULL) {
        spn_fj_completer *parent = c->parent;
        bool on = true;

        if (spn__fj_task_done(&c->task))
            break;
        if (c->on_failure != NULL)
            on = c->on_failure(c, error, caller) != 0;
        if (!spn__fj_task_end_failed(&c->task, error) || !on)
            break;
        caller = c;
        c = parent;
    }
}

void spn_fj_completer_complete_root(spn_fj_completer *c)
{
    c = spn_fj_completer_root(c);
    if (c != NULL)
        (void)spn__fj_task_end_normal(&c->task);
}

spn_fj_completer *spn_fj_completer_first_complete(spn_fj_completer *c)
{
    return c != NULL && spn_fj_completer_decrement_unless_zero(c) == 0 ? c : NULL;
}

spn_fj_completer *spn_fj_completer_next_complete(spn_fj_completer *c)
{
    if (c == NULL)
        return NULL;
    if (spn__fj_task_failure(&c->task) != 0) {
        spn_fj_completer_complete_error(c, spn__fj_task_failure(&c->task));
        return NULL;
    }
    if (c->parent != NULL)
        return spn_fj_completer_first_complete(c->parent);
    (void)spn__fj_task_end_normal(&c->task);
    return NULL;
}
