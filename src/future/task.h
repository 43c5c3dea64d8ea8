/* SPDX-License-Identifier: MIT */
/* task.h - a future with a function; see task.c. */
#ifndef SPN__FUTURE_TASK_H
#define SPN__FUTURE_TASK_H

#include "future/ambient.h"
#include "future/core.h"
#include "sync/blocks.h"

struct spn__task_future;

/* Who else wants to know when an executor comes to a future's task: groups, and the
 * scheduled executor. */
struct spn__task_keeper {
    /* The executor has come to it, to run it on this thread or to drop it. */
    void (*begin)(struct spn__task_future *t, bool runs);
    /* And is through with it; also when the function ended its worker's thread.  Drops
     * the executor's reference. */
    void (*end)(struct spn__task_future *t);
    /* The rest may be NULL. */
    /* Runs it between begin and end in place of spn__task_future_run; the same result. */
    bool (*run)(struct spn__task_future *t);
    /* It has an outcome, from whomever; as `told`, and before it. */
    void (*finished)(struct spn__task_future *t);
    /* The executor has given its task back, unrun. */
    void (*given_back)(struct spn__task_future *t);
};

/*
 * In an order for the cache: what the runner writes is on one line, what it and who
 * waits only read is on the next, and the future's state is on one that is fetched
 * together with them (spn__task_fetch).
 */
struct spn__task_future {
    struct spn_future future; /* first: they are the same object */
    void (*release_arg)(void *arg);
    const struct spn__task_keeper *keeper; /* fixed; NULL: nobody */
    spn__futex_word unpins;                /* how often somebody was told */
    /* See spn__task_tell; fixed from submit on, but whoever tells takes the owner. */
    void (*told)(struct spn_future *f, void *owner);
    SPN__ATOMIC(void *) told_owner;

    spn_task task;                 /* the executor's while submitted */
    SPN__ATOMIC(uintptr_t) runner; /* see task.c */
    /* What the submitter had, from submit until the function is called or will not
     * be: a reference, for whoever exchanges it for NULL [context]. */
    SPN__ATOMIC(struct spn_context *) context;
    /* Nobody is to be told of its end but who waits: no hook, nothing to give back. */
    bool bare;

    spn_call_fn fn; /* fixed */
    void *arg;      /* fixed */
    /* Where it was submitted, while that matters: its task was not given back. */
    SPN__ATOMIC(spn_executor *) executor;
    struct spn__list_node told_link; /* the owner's, once told */
};

/* The lines are where they are said to be, in a block of the thread's own. */
#define SPN__ON_A_LINE(field)                                         \
    ((offsetof(struct spn__task_future, field) + SPN__BLOCK_HEADER) % \
         SPN__CACHE_LINE ==                                           \
     0)
#ifndef SPN_AUDIT /* there futures are larger, and nobody measures */
_Static_assert((SPN__ON_A_LINE(task) && SPN__ON_A_LINE(fn)) || sizeof(void *) != 8,
               "see spn__task_fetch");
#endif

/* For a future that is the first part of something larger, which must have come from
 * spn__block_get: it goes back with the future. */
void spn__task_future_init(struct spn__task_future *t, spn_call_fn fn, void *arg,
                           const spn_future_opts *opts,
                           const struct spn__task_keeper *keeper);

/* Captures the current context for the run to come; returns it if it is kept.  If the
 * executor refuses, uncapture takes it back. */
struct spn_context *spn__task_future_capture(struct spn__task_future *t);
void spn__task_future_uncapture(struct spn__task_future *t,
                                struct spn_context *captured);
/* The future will not be run: lets go of the context. */
void spn__task_future_forget(struct spn__task_future *t);
/* Runs it as an executor does, with the context that was captured; false: it was done
 * already, or somebody else runs it. */
bool spn__task_future_run(struct spn__task_future *t);
/* As spn_future_run_and_reset, with the context that was captured, each time: true if
 * the function succeeded and the future can run again. */
bool spn__task_future_run_again(struct spn__task_future *t);
/* As submit does before it hands the task over: who waits for it asks this executor.
 * Nobody else knows the future yet. */
void spn__task_future_belongs(struct spn__task_future *t, spn_executor *executor);
/* What an executor calls: says of a task that it is a future's. */
int spn__task_future_fn(spn_task *task);

/*
 * Asks for the cache lines that a future's runner needs, all at once, as soon as its
 * address is known; they come from the submitter's CPU.  It only names them: the future
 * may be gone.
 */
static inline void spn__task_fetch(const spn_task *task)
{
    const char *first = (const char *)task - offsetof(struct spn__task_future, task) +
                        offsetof(struct spn__task_future, future);

    spn__prefetch_write(task);
    spn__prefetch_write(first);
    __builtin_prefetch(first + offsetof(struct spn__task_future, fn), 0);
}

#endif /* SPN__FUTURE_TASK_H */
