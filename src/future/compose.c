/* SPDX-License-Identifier: MIT */
/*
 * compose.c - the calls that make stages: each checks its arguments, makes one
 * (stage.c tells what it does) and connects it with its sources.
 *
 * Nothing can fail once a source knows of the stage.
 */
#include "future/stage.h"

#define NO_FUNCTION ((union spn__stage_fn){ NULL })

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
    const bool composes = op == SPN__COMPOSE || op == SPN__COMPOSE_ERROR;
    struct spn__stage *s = spn__stage_create(op, composes ? 2 : 1, executor, fn, arg);

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

/* One source: the plain form and the one with an executor. */
#define ONE_SOURCE(name, op, fn_type, member)                                          \
    int spn_future_##name(spn_future *future, fn_type fn, void *arg, spn_future **out) \
    {                                                                                  \
        const int rc = check(out, future != NULL && fn != NULL);                       \
        const union spn__stage_fn f = { .member = fn };                                \
                                                                                       \
        return rc == SPN_OK ? make_one(op, future, NULL, f, arg, out) : rc;            \
    }                                                                                  \
    int spn_future_##name##_async(spn_future *future, spn_executor *executor,          \
                                  fn_type fn, void *arg, spn_future **out)             \
    {                                                                                  \
        const int rc = check(out, future != NULL && executor != NULL && fn != NULL);   \
        const union spn__stage_fn f = { .member = fn };                                \
                                                                                       \
        return rc == SPN_OK ? make_one(op, future, executor, f, arg, out) : rc;        \
    }

/* Two sources, likewise. */
#define TWO_SOURCES(name, op, fn_type, member)                                         \
    int spn_future_##name(spn_future *first, spn_future *second, fn_type fn,           \
                          void *arg, spn_future **out)                                 \
    {                                                                                  \
        const int rc = check(out, first != NULL && second != NULL && fn != NULL);      \
        const union spn__stage_fn f = { .member = fn };                                \
                                                                                       \
        return rc == SPN_OK ? make_two(op, first, second, NULL, f, arg, out) : rc;     \
    }                                                                                  \
    int spn_future_##name##_async(spn_future *first, spn_future *second,               \
                                  spn_executor *executor, fn_type fn, void *arg,       \
                                  spn_future **out)                                    \
    {                                                                                  \
        const int rc = check(out, first != NULL && second != NULL &&                   \
                                      executor != NULL && fn != NULL);                 \
        const union spn__stage_fn f = { .member = fn };                                \
                                                                                       \
        return rc == SPN_OK ? make_two(op, first, second, executor, f, arg, out) : rc; \
    }

ONE_SOURCE(then, SPN__THEN, spn_then_fn, then)
ONE_SOURCE(handle, SPN__HANDLE, spn_handle_fn, handle)
ONE_SOURCE(when_complete, SPN__WHEN_COMPLETE, spn_when_fn, when)
ONE_SOURCE(exceptionally, SPN__EXCEPTIONALLY, spn_handle_fn, handle)
ONE_SOURCE(compose, SPN__COMPOSE, spn_compose_fn, compose)
ONE_SOURCE(exceptionally_compose, SPN__COMPOSE_ERROR, spn_compose_error_fn,
           compose_error)
TWO_SOURCES(combine, SPN__COMBINE, spn_combine_fn, combine)
TWO_SOURCES(either, SPN__EITHER, spn_then_fn, then)

int spn_future_copy(spn_future *future, spn_future **out)
{
    const int rc = check(out, future != NULL);

    return rc == SPN_OK ? make_one(SPN__COPY, future, NULL, NO_FUNCTION, NULL, out)
                        : rc;
}

static int make_many(enum spn__stage_op op, spn_future *const *futures, size_t count,
                     spn_future **out)
{
    struct spn__stage *s;
    int rc = check(out, futures != NULL || count == 0);

    if (rc == SPN_OK && count > SPN__STAGE_EDGES_MAX)
        return SPN_ENOMEM; /* before anybody looks at that many entries */
    for (size_t i = 0; rc == SPN_OK && i < count; i++)
        if (futures[i] == NULL)
            rc = SPN_EINVAL;
    if (rc != SPN_OK)
        return rc;
    s = spn__stage_create(op, count, NULL, NO_FUNCTION, NULL);
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

int spn_future_supply_async(spn_executor *executor, spn_call_fn fn, void *arg,
                            spn_future **out)
{
    const union spn__stage_fn f = { .supply = fn };
    struct spn__stage *s;
    int rc = check(out, executor != NULL && fn != NULL);

    if (rc != SPN_OK)
        return rc;
    s = spn__stage_create(SPN__SUPPLY, 0, NULL, f, arg);
    if (s == NULL)
        return SPN_ENOMEM;
    (void)spn__future_ref(&s->future); /* the executor's */
    rc = spn_executor_execute(executor, &s->task);
    if (rc == SPN_OK) {
        *out = &s->future;
        return SPN_OK;
    }
    spn_future_unref(&s->future);
    spn_future_unref(&s->future);
    return rc;
}

/* ---- a promise there is already ------------------------------------------------ */

/* A function on its way to an executor, and the future its result is for. */
struct supplier {
    spn_task task;
    struct spn_future *future; /* referenced */
    spn_call_fn fn;
    void *arg;
    struct spn__call call;
};

static void after_supplier(void *p)
{
    struct supplier *s = p;
    struct spn_future *f = s->future;
    struct spn__work work = SPN__WORK_INIT;

    spn__call_leave(&s->call);
    if (!spn__future_claim(f)) {
        spn__future_drop_late(f, s->call.result);
    } else if (s->call.code == 0) {
        f->value = s->call.result;
        spn__future_finish(f, SPN__NORMAL, &work);
    } else {
        spn__future_write_error(f, s->call.code, spn__call_message(&s->call), true);
        spn__future_finish(f, SPN__EXCEPTIONAL, &work);
    }
    spn__future_unref(f, &work);
    spn__free(s);
    spn__work_drain(&work);
}

static void call_supplier(void *p)
{
    struct supplier *s = p;

    s->call.code = s->fn(s->arg, &s->call.result);
}

static int run_supplier(spn_task *task)
{
    struct supplier *s = spn__list_entry(task, struct supplier, task);

    if (spn__future_done(s->future)) {
        spn_future_unref(s->future);
        spn__free(s);
        return 0;
    }
    spn__call_enter(&s->call);
    SPN__CLEANUP_PUSH(after_supplier, s);
    spn__guarded(call_supplier, s);
    s->call.returned = true;
    SPN__CLEANUP_POP();
    return 0; /* the future keeps a failure */
}

static void drop_supplier(spn_task *task, int reason)
{
    struct supplier *s = spn__list_entry(task, struct supplier, task);
    struct spn_future *f = s->future;

    spn__free(s);
    (void)spn_future_complete_error(f, reason != 0 ? reason : SPN_ECANCELED,
                                    "refused by the executor");
    spn_future_unref(f);
}

int spn_future_complete_async(spn_future *future, spn_executor *executor,
                              spn_call_fn fn, void *arg)
{
    struct supplier *s;
    int rc;

    if (future == NULL || executor == NULL || fn == NULL)
        return SPN_EINVAL;
    s = spn__alloc(sizeof *s);
    if (s == NULL)
        return SPN_ENOMEM;
    s->task = (spn_task)SPN_TASK_INIT(run_supplier, drop_supplier);
    s->future = spn__future_ref(future);
    s->fn = fn;
    s->arg = arg;
    rc = spn_executor_execute(executor, &s->task);
    if (rc != SPN_OK) {
        spn_future_unref(future); /* never the last: the caller has one */
        spn__free(s);
    }
    return rc;
}

/* ---- whose task it is -------------------------------------------------------------- */

struct spn_future *spn__task_target(spn_task *task)
{
    struct spn_future *f = spn__task_future(task);
    struct spn__stage *s = f == NULL ? spn__stage_of_task(task) : NULL;

    if (s != NULL)
        return &s->future;
    if (f == NULL && task->fn == run_supplier)
        return spn__list_entry(task, struct supplier, task)->future;
    return f;
}
