/* SPDX-License-Identifier: MIT */
/*
 * plugin_policy.c - a shared object with a rejection policy of one's own: a task that does
 * not fit is given to a second pool, the direct executor here, and counted; the first one is
 * told of.
 * pool_plugin.c loads it and names it in a URL.
 */
#include <spindle.h>

#include <stdio.h>
#include <stdlib.h>

/* The policy of one pool. */
struct overflow {
    spn_reject_policy policy; /* first */
    long overflowed;          /* one submitter in this example */
};

static int refused(const spn_reject_policy *policy, spn_pool *pool, spn_task *task,
                   const spn_refusal *why)
{
    struct overflow *o = (struct overflow *)(uintptr_t)policy;

    spn_pool_stats stats = SPN_POOL_STATS_INIT;

    (void)pool;
    if (why->reason == SPN_REFUSED_SHUTDOWN)
        return SPN_EREJECTED;
    if (o->overflowed++ == 0 && spn_refusal_stats(why, &stats) == SPN_OK)
        fprintf(stderr, "pool %s is full: %d threads run, %lld tasks wait\n",
                stats.name, (int)stats.active, (long long)stats.queued);
    return spn_executor_execute(spn_executor_direct(), task);
}

static int create(const spn_rejection *self, const spn_url *url,
                  const spn_url_pool_opts *opts, const spn_reject_policy **out,
                  spn_problem *problem)
{
    struct overflow *o = calloc(1, sizeof *o);

    (void)self;
    (void)url;
    (void)opts;
    (void)problem;
    if (o == NULL)
        return SPN_ENOMEM;
    o->policy = (spn_reject_policy){ sizeof o->policy, "overflow", refused };
    *out = &o->policy;
    return SPN_OK;
}

static void destroy(const spn_rejection *self, const spn_reject_policy *policy)
{
    (void)self;
    free((void *)(uintptr_t)policy);
}

static const spn_rejection overflow = { sizeof overflow, create, destroy };

static const spn_extension extension = {
    .size = sizeof extension,
    .kind = SPN_KIND_REJECT,
    .name = "overflow",
    .instance = &overflow,
};
static const spn_extension *const extensions[] = { &extension };

static const spn_plugin plugin = {
    .size = sizeof plugin,
    .abi = SPN_PLUGIN_ABI,
    .version = SPN_VERSION,
    .extensions = extensions,
    .extension_count = 1,
};

SPN_PLUGIN_EXPORT
{
    return &plugin;
}
