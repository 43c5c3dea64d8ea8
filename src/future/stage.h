/* SPDX-License-Identifier: MIT */
/* stage.h - a promise that is made of other futures; see stage.c. */
#ifndef SPN__FUTURE_STAGE_H
#define SPN__FUTURE_STAGE_H

#include "future/ambient.h"
#include "future/core.h"

enum spn__stage_op {
    SPN__THEN,
    SPN__HANDLE,
    SPN__COMPOSE,
    SPN__COMBINE,
    SPN__EITHER,
    SPN__ALL_OF,
    SPN__ANY_OF
};

union spn__stage_fn {
    spn_then_fn then; /* either too */
    spn_handle_fn handle;
    spn_compose_fn compose;
    spn_combine_fn combine;
};

struct spn__stage {
    struct spn_future future;      /* first: they are the same object */
    uint8_t op;                    /* spn__stage_op; fixed */
    bool mirroring;                /* compose: has its function's future in inputs[0] */
    int32_t refused;               /* not 0: the executor did not want it */
    SPN__ATOMIC(uint32_t) waiting; /* for how many sources; see stage.c [ready] */
    bool async;                    /* an executor is still to be asked */
    /* Attached, until the function is handed over or the stage is about to be done, for
     * whoever exchanges it for NULL; see stage.c [executor]. */
    SPN__ATOMIC(spn_executor *) executor;
    union spn__stage_fn fn; /* fixed */
    void *arg;              /* fixed */
    /* Of whoever made the stage: a reference, until the function is called or the
     * stage is done, for whoever exchanges it for NULL. */
    SPN__ATOMIC(struct spn_context *) context;
    /* References to the sources that are done, from there until the function has
     * run.  For all_of only one that failed. */
    SPN__ATOMIC(struct spn_future *) inputs[2];
    struct spn__stage *next; /* in a work list: its owner's */
    spn_task task;           /* the executor's */
    size_t edge_count;       /* fixed */
    struct spn__edge edges[];
};

/* `waiting` counts them. */
#define SPN__STAGE_EDGES_MAX ((size_t)INT32_MAX)
_Static_assert(SPN__STAGE_EDGES_MAX <=
                   (SIZE_MAX - sizeof(struct spn__stage)) / sizeof(struct spn__edge),
               "the size of a stage does not overflow");

/* A stage with one reference, the caller's, and no source yet; NULL: no memory. */
struct spn__stage *spn__stage_create(enum spn__stage_op op, size_t edges,
                                     spn_executor *executor, union spn__stage_fn fn,
                                     void *arg);

/* Adds the edge `index` from a source, with a reference to the stage. */
void spn__stage_connect(struct spn__stage *s, size_t index, struct spn_future *source,
                        struct spn__work *work);

#endif /* SPN__FUTURE_STAGE_H */
