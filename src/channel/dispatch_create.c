/* SPDX-License-Identifier: MIT */
/*
 * dispatch_create.c - a program's own dispatch: made of a URL, stopped and destroyed.
 *
 * OVERVIEW
 *   It owns what the program does not bring: the registry of extensions, the repository with
 *   the pool.  A repository of the program's goes on when the dispatch ends, as do executors
 *   of its dispatcher's and those that wait for responses.  So stop waits until these have
 *   nothing of it any more ([tasks] in dispatch.c); it looks now and then, so that a message
 *   pays for no wake-up.
 *
 * STATE      RUNNING -> STOPPING -> STOPPED
 *   STOPPING stays when something did not end in time, and stop may be called again.
 *   [state]  of all threads in stop one goes on, acquire; what it did is released to the
 *            next, and to destroy.
 */
#include "channel/dispatch.h"

#include <string.h>

#include "base/options.h"
#include "base/time.h"
#include "config/problem.h"
#include "sync/pause.h"

enum state { RUNNING, STOPPING, STOPPED };

struct own {
    spn_dispatch dispatch; /* first */
    struct spn__counts counts;
    spn_extensions *extensions;  /* NULL: the program's */
    spn_repository *repository;  /* the same */
    spn_dispatch_opts opts;      /* `refused` and its argument */
    int32_t process;             /* that made it */
    SPN__ATOMIC(uint32_t) state; /* [state] */
};

static struct own *own_of(spn_dispatch *dispatch)
{
    return (struct own *)(void *)dispatch; /* its first member */
}

static void refused(void *ctx, spn_channel *channel, spn_message *message, int why)
{
    struct own *own = ctx;

    spn__count(&own->counts, SPN__COUNT_REJECTED, 1);
    if (own->opts.refused != NULL)
        own->opts.refused(own->opts.ctx, channel, message,
                          why > 0 ? SPN_EREJECTED : why);
    else
        spn_message_release(message);
}

/* ---- making one ---------------------------------------------------------------------- */

static void free_own(struct own *own)
{
    spn__dispatch_fini(&own->dispatch);
    if (own->repository != NULL &&
        spn_repository_destroy_all(own->repository, 0) == SPN_OK)
        (void)spn_repository_destroy(own->repository);
    (void)spn_extensions_destroy(own->extensions);
    spn__counts_fini(&own->counts);
    spn__free(own);
}

static int make_owned(struct own *own, spn_extensions **extensions,
                      spn_problem *problem)
{
    spn_repository_opts repository = SPN_REPOSITORY_OPTS_INIT;
    int rc = SPN_OK;

    *extensions = own->opts.extensions;
    if (*extensions == NULL) {
        rc = spn_extensions_create(&own->extensions, NULL);
        *extensions = own->extensions;
    }
    if (rc == SPN_OK)
        rc = spn_dispatchers_register(*extensions, problem);
    if (rc == SPN_OK && own->opts.repository == NULL) {
        repository.extensions = *extensions;
        rc = spn_repository_create(&own->repository, &repository);
    }
    return rc;
}

/* The URL, with a name for the pool's threads: that of the protocol. */
static int read_url(const char *text, spn_url **out, spn_problem *problem)
{
    spn_url *url;
    int rc = spn_url_parse(&url, text, problem);

    if (rc != SPN_OK)
        return rc;
    rc = spn_url_set_absent(url, "threadname",
                            spn_url_protocol(url) != NULL ? spn_url_protocol(url)
                                                          : "channel",
                            out);
    spn_url_unref(url);
    return rc;
}

int spn_dispatch_create(spn_dispatch **out, const char *text, spn_handler *inner,
                        const spn_dispatch_opts *given, spn_problem *problem)
{
    spn_dispatch_opts opts = SPN_DISPATCH_OPTS_INIT;
    spn_extensions *extensions;
    struct own *own;
    spn_url *url;
    int rc;

    if (out == NULL)
        return SPN_EINVAL;
    *out = NULL;
    if (text == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no URL");
    if (inner == NULL || inner->ops == NULL)
        return spn__refuse(problem, SPN_EINVAL, 0, "there is no handler inside");
    for (const spn_handler *h = inner; h != NULL; h = h->inner)
        if (spn__handler_is_dispatch(h))
            return spn__refuse(problem, SPN_EINVAL, 0,
                               "inside of a dispatch there is another; a channel's "
                               "events are handed over once");
    if (given != NULL && spn__options_copy(&opts, sizeof opts, given) != SPN_OK)
        return spn__refuse(problem, SPN_EINVAL, 0, "the options are wrong");
    rc = read_url(text, &url, problem);
    if (rc != SPN_OK)
        return rc;
    own = spn__alloc(sizeof *own);
    if (own == NULL) {
        spn_url_unref(url);
        return SPN_ENOMEM;
    }
    memset(own, 0, sizeof *own);
    spn__counts_init(&own->counts);
    spn__init(&own->state, RUNNING);
    own->opts = opts;
    own->process = spn__os_process();
    rc = make_owned(own, &extensions, problem);
    if (rc == SPN_OK) {
        own->dispatch.counts = &own->counts;
        own->dispatch.awaits_tasks = true;
        own->dispatch.tells_caught = true;
        own->dispatch.counts_tasks = opts.repository != NULL;
        own->dispatch.has_limits = true;
        own->dispatch.refused = refused;
        own->dispatch.ctx = own;
        own->dispatch.repository =
            opts.repository != NULL ? opts.repository : own->repository;
        rc = spn__dispatch_init(&own->dispatch, inner, extensions, url, problem);
    }
    spn_url_unref(url);
    if (rc != SPN_OK) {
        free_own(own);
        return rc;
    }
    *out = &own->dispatch;
    return SPN_OK;
}

spn_handler *spn_dispatch_handler(spn_dispatch *dispatch)
{
    return dispatch != NULL ? &dispatch->handler : NULL;
}

spn_pool *spn_dispatch_pool(spn_dispatch *dispatch)
{
    return dispatch != NULL ? dispatch->pool : NULL;
}

/* ---- the end ---------------------------------------------------------------------------- */

static int64_t left_until(int64_t deadline_ns)
{
    const int64_t left = deadline_ns - spn__now();

    return left > 0 ? left : 0;
}

/* Waits until executors that are not ours have nothing of the dispatch. */
static int await_tasks(spn_dispatch *d, int64_t deadline_ns)
{
    int64_t pause_ns = 0;

    while (spn__load(&d->tasks, acquire) > 0) { /* [tasks] */
        const int64_t left_ns = left_until(deadline_ns);

        if (left_ns == 0)
            return SPN_ETIMEDOUT;
        spn__pause_longer(&pause_ns, left_ns);
    }
    return SPN_OK;
}

static int stop(struct own *own, int64_t deadline_ns)
{
    spn_dispatch *d = &own->dispatch;
    int rc = spn__dispatch_stop(d, left_until(deadline_ns));
    int end = SPN_OK;

    if (rc == SPN_ETIMEDOUT) /* the ordered thread: interrupts its handler */
        (void)spn_executor_shutdown_now(spn_pool_executor(d->ordered), NULL, NULL,
                                        NULL);
    if (own->repository != NULL)
        end = spn_repository_destroy_all(own->repository, left_until(deadline_ns));
    if (end == SPN_OK)
        end = await_tasks(d, deadline_ns);
    return rc != SPN_OK ? rc : end;
}

int spn_dispatch_stop(spn_dispatch *dispatch, int64_t timeout_ns)
{
    struct own *own = own_of(dispatch);
    uint32_t state;
    int rc;

    if (dispatch == NULL)
        return SPN_EINVAL;
    if (own->process != spn__os_process())
        return SPN_ESTATE; /* in the child of a fork: the threads are the parent's */
    if (spn_executor_is_inside(dispatch->executor) == 1 ||
        (dispatch->ordered != NULL &&
         spn_executor_is_inside(spn_pool_executor(dispatch->ordered)) == 1))
        return SPN_EDEADLK;
    state = spn__exchange(&own->state, STOPPING, acquire); /* [state] */
    if (state == STOPPING)
        return SPN_EBUSY;
    rc = state == STOPPED ? SPN_OK : stop(own, spn__deadline(spn__now(), timeout_ns));
    spn__store(&own->state, rc == SPN_OK ? STOPPED : RUNNING, release); /* [state] */
    return rc;
}

int spn_dispatch_destroy(spn_dispatch *dispatch)
{
    if (dispatch == NULL)
        return SPN_OK;
    if (spn__load(&own_of(dispatch)->state, acquire) != STOPPED) /* [state] */
        return SPN_EBUSY;
    free_own(own_of(dispatch));
    return SPN_OK;
}

/* ---- figures ---------------------------------------------------------------------------- */

int spn_dispatch_stats_get(spn_dispatch *dispatch, spn_dispatch_stats *stats)
{
    spn_dispatch_stats s;

    if (dispatch == NULL || stats == NULL)
        return SPN_EINVAL;
    memset(&s, 0, sizeof s);
    for (int event = 0; event < SPN_CHANNEL_EVENTS; event++)
        for (int place = 0; place < SPN_PLACES; place++)
            s.dispatched[event][place] =
                spn__counts_sum(dispatch->counts, SPN__COUNT_DISPATCHED +
                                                      event * (int)SPN_PLACES + place);
    s.shared = spn__counts_sum(dispatch->counts, SPN__COUNT_SHARED);
    s.refused = spn__counts_sum(dispatch->counts, SPN__COUNT_REJECTED);
    return spn__output_copy(stats, &s, sizeof s);
}
