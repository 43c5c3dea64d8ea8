/* SPDX-License-Identifier: MIT */
/*
 * group_fetch.c - ask several sources at once; the first that fails stops the others.
 *
 * The tasks of a group are waited for together, so that nothing is running any more when
 * fetch returns, whatever happened.  A slow source waits on the group's token in place
 * of sleeping, and so hears of it at once.
 */
#include <spindle.h>

#include <stdio.h>

struct source {
    const char *name;
    int64_t takes_ns; /* SPN_FOREVER: it hangs */
    int fails;
};

static int ask(void *arg, void **result)
{
    const struct source *s = arg;
    spn_cancel_token *stop = spn_group_token(spn_group_current());

    if (s->fails)
        return spn_future_fail(-1, s->name);
    if (spn_cancel_token_wait(stop, s->takes_ns) != SPN_ETIMEDOUT)
        return SPN_ECANCELED; /* somebody else failed */
    *result = arg;
    return 0;
}

/* How many answered; negative: one failed, and this is its code. */
static int fetch(spn_executor *executor, struct source *sources, int count)
{
    spn_group_opts opts = SPN_GROUP_OPTS_INIT;
    spn_group_stats stats = SPN_GROUP_STATS_INIT;
    spn_group *group;
    char who[32];
    int code;

    opts.cancel_on_error = 1;
    if (spn_group_create(&group, &opts) != SPN_OK)
        return SPN_ENOMEM;
    for (int i = 0; i < count; i++)
        if (spn_group_submit(group, executor, ask, &sources[i], NULL) != SPN_OK)
            (void)spn_group_cancel(group, SPN_ECANCELED, 0);
    if (spn_group_wait(group, SPN_FOREVER) != SPN_OK)
        return SPN_ENOMEM;
    (void)spn_group_stats_get(group, &stats);
    if (spn_group_error(group, &code, who, sizeof who) == SPN_OK)
        printf("%s failed, %d others were told to stop\n", who,
               (int)(stats.submitted - stats.succeeded - 1));
    else
        code = (int)stats.succeeded;
    (void)spn_group_destroy(group);
    return code;
}

int main(void)
{
    struct source good[] = { { "disk", SPN_US(100), 0 }, { "cache", SPN_US(10), 0 } };
    struct source bad[] = { { "slow", SPN_FOREVER, 0 }, { "broken", 0, 1 } };
    spn_pool_opts opts = spn_pool_opts_fixed(2, 16);
    spn_pool *pool;
    int first, second;

    if (spn_pool_create(&pool, &opts) != SPN_OK)
        return 1;
    first = fetch(spn_pool_executor(pool), good, 2);
    printf("%d answered\n", first);
    second = fetch(spn_pool_executor(pool), bad, 2);
    if (spn_pool_close(pool) != SPN_OK || spn_pool_destroy(pool) != SPN_OK)
        return 1;
    return first == 2 && second == -1 ? 0 : 1;
}
