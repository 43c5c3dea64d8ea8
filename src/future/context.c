/* SPDX-License-Identifier: MIT */
/*
 * context.c - what a request carries with it, and which is current on a thread.
 *
 * OVERVIEW
 *   A context is one allocation and fixed once it is made, so that any number of
 *   threads read it without a lock.  A child refers to its parent for the values it
 *   does not have itself; trace id and deadline are copied, because they are read
 *   most.  What is current is a pointer in the thread's record, and only its own
 *   thread touches it: see ambient.h for how it travels with a task.
 *
 *   A scope of a user's takes no reference.  If it did, a task that returns without
 *   leaving would leak one; like this, what the thread has around the next task is
 *   just put right again.
 *
 * ORDERING
 *   [refs] each drop is a release and the last an acquire: all use of the context lies
 *          before its end.
 */
#include "future/ambient.h"

#include <string.h>

#include "base/options.h"
#include "base/time.h"

struct spn_context {
    SPN__ATOMIC(uint32_t) refs;
    /* The rest is fixed. */
    uint8_t trace_size;
    char trace[SPN_CONTEXT_TRACE_MAX + 1];
    int64_t deadline_ns;        /* SPN_FOREVER: none */
    struct spn_context *parent; /* a reference, or NULL */
    size_t value_count;
    spn_context_value values[];
};

static bool fits(const spn_context_opts *o)
{
    if (o->trace_size > SPN_CONTEXT_TRACE_MAX ||
        (o->trace == NULL && o->trace_size != 0))
        return false;
    if (o->deadline_ns < 0 || o->value_count > SPN_CONTEXT_VALUES_MAX ||
        (o->values == NULL && o->value_count != 0))
        return false;
    for (size_t i = 0; i < o->value_count; i++)
        if (o->values[i].key == NULL)
            return false;
    return true;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t deadline_of(const spn_context *c)
{
    return c != NULL ? c->deadline_ns : SPN_FOREVER;
}

int spn_context_create(spn_context **out, const spn_context_opts *opts)
{
    spn_context_opts o = SPN_CONTEXT_OPTS_INIT;
    struct spn_context *c;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (opts != NULL && spn__options_copy(&o, sizeof o, opts) != SPN_OK)
        return SPN_EINVAL;
    if (!fits(&o))
        return SPN_EINVAL;
    c = spn__alloc(sizeof *c + o.value_count * sizeof c->values[0]);
    if (c == NULL)
        return SPN_ENOMEM;
    spn__init(&c->refs, 1);
    c->parent = spn_context_ref(o.parent);
    if (o.trace == NULL && o.parent != NULL) {
        o.trace = o.parent->trace;
        o.trace_size = o.parent->trace_size;
    }
    c->trace_size = (uint8_t)o.trace_size;
    if (o.trace != NULL && o.trace_size != 0)
        memcpy(c->trace, o.trace, o.trace_size);
    c->trace[o.trace_size] = '\0';
    c->deadline_ns = earlier(o.deadline_ns != 0 ? o.deadline_ns : SPN_FOREVER,
                             deadline_of(o.parent));
    c->value_count = o.value_count;
    if (o.value_count != 0)
        memcpy(c->values, o.values, o.value_count * sizeof c->values[0]);
    *out = c;
    return SPN_OK;
}

spn_context *spn_context_ref(spn_context *c)
{
    /* relaxed: who makes a new reference has one, and gives it away in order. */
    if (c != NULL)
        (void)spn__fetch_add(&c->refs, 1, relaxed);
    return c;
}

void spn_context_unref(spn_context *c)
{
    /* A loop, because a parent may end with its child. */
    while (c != NULL && spn__fetch_sub(&c->refs, 1, acq_rel) == 1) { /* [refs] */
        struct spn_context *parent = c->parent;

        for (size_t i = 0; i < c->value_count; i++)
            if (c->values[i].release != NULL)
                c->values[i].release(c->values[i].value);
        spn__free(c);
        c = parent;
    }
}

/* ---- asking ------------------------------------------------------------------------ */

const void *spn_context_trace(const spn_context *c, size_t *trace_size)
{
    const size_t size = c != NULL ? c->trace_size : 0;

    if (trace_size != NULL)
        *trace_size = size;
    return size != 0 ? c->trace : NULL;
}

int64_t spn_context_remaining(const spn_context *c)
{
    const int64_t deadline_ns = deadline_of(c);
    int64_t now_ns;

    if (deadline_ns == SPN_FOREVER)
        return SPN_FOREVER;
    now_ns = spn__now();
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

void *spn_context_get(const spn_context *c, const void *key)
{
    for (; c != NULL; c = c->parent)
        for (size_t i = c->value_count; i-- > 0;)
            if (c->values[i].key == key)
                return c->values[i].value;
    return NULL;
}

/* ---- the current one ----------------------------------------------------------------- */

spn_context *spn_context_current(void)
{
    struct spn_thread *self = spn__self_get();

    return self != NULL ? self->ambient.context : NULL;
}

int spn_context_enter(spn_context_scope *scope, spn_context *context)
{
    struct spn_thread *self;

    if (scope == NULL)
        return SPN_EINVAL;
    self = spn__thread_self();
    if (self == NULL)
        return SPN_ENOMEM;
    scope->outer = self->ambient.context;
    scope->context = context;
    scope->thread = self;
    scope->spare = NULL;
    self->ambient.context = context;
    self->ambient.used = true;
    return SPN_OK;
}

int spn_context_leave(spn_context_scope *scope)
{
    struct spn_thread *self = spn__self_get();

    if (scope == NULL)
        return SPN_EINVAL;
    if (self == NULL || scope->thread != self ||
        self->ambient.context != scope->context)
        return SPN_ESTATE;
    self->ambient.context = scope->outer;
    scope->thread = NULL;
    return SPN_OK;
}
