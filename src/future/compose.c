/* SPDX-License-Identifier: MIT */
/*
 * compose.c - the calls that make stages: each checks its arguments, makes one
 * (stage.c tells what it does) and connects it with its sources.
 *
 * Nothing can fail once a source knows of the stage.
 */
#include "future/stage.h"

/* Where every call starts. */
static int check(spn_future **out, bool valid)
{
    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    return valid ? SPN_OK : SPN_EINVAL;
}

/* Connects a new stage with its sources and gives it to the caller. */
static int connect_all(struct spn__stage *s, spn_future *const *sources, size_t count,
                       spn_future **out)
{
    struct spn__work work = SPN__WORK_INIT;
    const bool first_decides = s->op == SPN__EITHER || s->op == SPN__ANY_OF;

    for (size_t i = 0; i < count; i++) {
        /* relaxed: decided already is decided; not yet may be found out later. */
        if (first_decides && spn__load(&s->waiting, relaxed) == 0)
            break;
        spn__stage_connect(s, i, sources[i], &work);
    }
    spn__work_drain(&work);
    /* [edge] after the edges were added: a source on another thread may have
     * completed the stage meanwhile.  mutant: half of a pair */
    if (count > 1 && spn__phase_done(spn__load(&s->future.state, seq_cst))) {
        spn__stage_detach(&s->future, &work);
        spn__work_drain(&work);
    }
    *out = &s->future;
    return SPN_OK;
}

static int make_one(enum spn__stage_op op, spn_future *source, spn_executor *executor,
                    union spn__stage_fn fn, void *arg, spn_future **out)
{
    /* compose has a second edge, from the future its function returns. */
    const size_t edges = op == SPN__COMPOSE ? 2 : 1;
    struct spn__stage *s = spn__stage_create(op, edges, executor, fn, arg);

    return s != NULL ? connect_all(s, &source, 1, out) : SPN_ENOMEM;
}

static int make_two(enum spn__stage_op op, spn_future *first, spn_future *second,
                    spn_executor *executor, union spn__stage_fn fn, void *arg,
                    spn_future **out)
{
    spn_future *const sources[2] = { first, second };
    struct spn__stage *s = spn__stage_create(op, 2, executor, fn, arg);

    if (s == NULL)
        return SPN_ENOMEM;
    if (op == SPN__COMBINE)
        spn__init(&s->waiting, 2);
    return connect_all(s, sources, 2, out);
}

int spn_future_then(spn_future *future, spn_executor *executor, spn_then_fn fn,
                    void *arg, spn_future **out)
{
    const int rc = check(out, future != NULL && fn != NULL);
    const union spn__stage_fn f = { .then = fn };

    return rc == SPN_OK ? make_one(SPN__THEN, future, executor, f, arg, out) : rc;
}

int spn_future_handle(spn_future *future, spn_executor *executor, spn_handle_fn fn,
                      void *arg, spn_future **out)
{
    const int rc = check(out, future != NULL && fn != NULL);
    const union spn__stage_fn f = { .handle = fn };

    return rc == SPN_OK ? make_one(SPN__HANDLE, future, executor, f, arg, out) : rc;
}

int spn_future_compose(spn_future *future, spn_executor *executor, spn_compose_fn fn,
                       void *arg, spn_future **out)
{
    const int rc = check(out, future != NULL && fn != NULL);
    const union spn__stage_fn f = { .compose = fn };

    return rc == SPN_OK ? make_one(SPN__COMPOSE, future, executor, f, arg, out) : rc;
}

int spn_future_combine(spn_future *first, spn_future *second, spn_executor *executor,
                       spn_combine_fn fn, void *arg, spn_future **out)
{
    const int rc = check(out, first != NULL && second != NULL && fn != NULL);
    const union spn__stage_fn f = { .combine = fn };

    return rc == SPN_OK ? make_two(SPN__COMBINE, first, second, executor, f, arg, out)
                        : rc;
}

int spn_future_either(spn_future *first, spn_future *second, spn_executor *executor,
                      spn_then_fn fn, void *arg, spn_future **out)
{
    const int rc = check(out, first != NULL && second != NULL && fn != NULL);
    const union spn__stage_fn f = { .then = fn };

    return rc == SPN_OK ? make_two(SPN__EITHER, first, second, executor, f, arg, out)
                        : rc;
}

static int make_many(enum spn__stage_op op, spn_future *const *futures, size_t count,
                     spn_future **out)
{
    const union spn__stage_fn none = { NULL };
    struct spn__stage *s;
    int rc = check(out, futures != NULL || count == 0);

    if (rc == SPN_OK && count > SPN__STAGE_EDGES_MAX)
        return SPN_ENOMEM; /* before anybody looks at that many entries */
    for (size_t i = 0; rc == SPN_OK && i < count; i++)
        if (futures[i] == NULL)
            rc = SPN_EINVAL;
    if (rc != SPN_OK)
        return rc;
    s = spn__stage_create(op, count, NULL, none, NULL);
    if (s == NULL)
        return SPN_ENOMEM;
    if (op == SPN__ALL_OF)
        spn__init(&s->waiting, (uint32_t)count);
    return connect_all(s, futures, count, out);
}

int spn_future_all_of(spn_future *const *futures, size_t count, spn_future **out)
{
    const int rc = make_many(SPN__ALL_OF, futures, count, out);

    if (rc == SPN_OK && count == 0)
        (void)spn_future_complete(*out, NULL);
    return rc;
}

int spn_future_any_of(spn_future *const *futures, size_t count, spn_future **out)
{
    return make_many(SPN__ANY_OF, futures, count, out);
}
