/* SPDX-License-Identifier: MIT */
/*
 * describe.c - a pool in a line: what a submitter writes to its log when it was refused.
 *
 * The words are those of Java's ThreadPoolExecutor, whose users search their logs for them; in
 * parentheses the limits, which say why there was no room.  The figures are those of the
 * exhaustion report: a thread that was woken for a task counts as active, and the task as its.
 */
#include <stdio.h>

#include "exec/pool.h"
#include "exec/report.h"

static const char *state_name(uint32_t state)
{
    if (state == SPN_EXECUTOR_RUNNING)
        return "Running";
    return state == SPN_EXECUTOR_TERMINATED ? "Terminated" : "Shutting down";
}

int spn_pool_describe(spn_pool *pool, char *text, size_t size)
{
    spn_pool_stats s = SPN_POOL_STATS_INIT;
    struct spn__report_figures figures;

    if (pool == NULL || (text == NULL && size > 0))
        return SPN_EINVAL;
    spn__pool_stats_fill(pool, &s);
    spn__report_figures(&s, &figures);
    return snprintf(
        text, size,
        "pool %s [%s, pool size = %d (core %d, max %d), active threads = %d, "
        "queued tasks = %lld (capacity %s), completed tasks = %lld, "
        "rejected tasks = %lld]",
        s.name, state_name((uint32_t)s.state), (int)s.threads, (int)s.core_threads,
        (int)s.max_threads, (int)figures.active, (long long)figures.waiting,
        figures.capacity, (long long)(s.completed + s.failed), (long long)s.rejected);
}
