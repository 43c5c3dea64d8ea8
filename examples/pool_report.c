/* SPDX-License-Identifier: MIT */
/*
 * pool_report.c - a pool that says why it refuses.
 *
 * Two threads wait for a database that does not answer, the queue fills up, and the
 * next request is refused at once.  The report tells the operator: one line with the
 * pool's numbers, and a file that shows where its threads are stuck.  The submitter that was
 * refused has the numbers for its own log from spn_pool_describe.  Later the operator asks
 * for another report.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 2, QUEUED = 3 };

static spn_latch *database;
static spn_latch *told;

/* Not static, and linked with -rdynamic: so the report knows its name. */
int ask_database(void *arg);
__attribute__((visibility("default"))) int ask_database(void *arg)
{
    int rc = spn_latch_await(database, SPN_SEC(30)); /* here they are stuck */

    atomic_fetch_add((atomic_int *)arg, 1);
    return rc;
}

/* On the report's own thread: tell an operator, a metric, a log of your own. */
static void exhausted(void *ctx, const spn_exhaustion *what)
{
    char line[512];
    FILE *file;

    (void)ctx;
    printf("pool %s: %d of %d threads busy, %d queued\n", what->pool,
           (int)what->stats->active, (int)what->stats->max_threads,
           (int)what->stats->queued);
    file = what->file != NULL ? fopen(what->file, "r") : NULL;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        printf("  | %s", line);
    if (file != NULL) {
        fclose(file);
        unlink(what->file);
    }
    spn_latch_count_down(told);
}

int main(void)
{
    spn_reject_report_opts report_opts = SPN_REJECT_REPORT_OPTS_INIT;
    spn_pool_opts opts = SPN_POOL_OPTS_INIT;
    spn_reject_report *report;
    spn_pool *pool;
    atomic_int asked = 0;
    char text[512];
    int rc = SPN_OK;

    report_opts.dir = "/tmp";
    report_opts.exhausted = exhausted;
    report_opts.interval_ns = SPN_MS(1); /* so that this program is short: 10 minutes */
    opts.name = "orders";
    opts.core_threads = opts.max_threads = THREADS;
    opts.queue_capacity = QUEUED;
    if (spn_latch_create(&database, 1) != SPN_OK ||
        spn_latch_create(&told, 2) != SPN_OK ||
        spn_reject_report_create(&report, &report_opts) != SPN_OK)
        return 1;
    opts.reject = spn_reject_report_policy(report);
    if (spn_pool_create(&pool, &opts) != SPN_OK)
        return 1;

    for (int i = 0; i <= THREADS + QUEUED; i++)
        rc = spn_executor_call(spn_pool_executor(pool), ask_database, &asked);
    if (spn_pool_describe(pool, text, sizeof text) < 0)
        return 1;
    printf("the last one: %s by %s\n", spn_status_text(rc), text);
    while (spn_report_pool(report, pool) == SPN_EBUSY) /* too soon after the first */
        if (spn_latch_await(told, SPN_MS(1)) == SPN_EINTR)
            return 1;
    if (spn_latch_await(told, SPN_SEC(30)) != SPN_OK)
        return 1;

    spn_latch_count_down(database); /* it answers after all */
    spn_pool_close(pool);
    printf("%d were answered\n", atomic_load(&asked));
    spn_pool_destroy(pool);
    spn_reject_report_destroy(report);
    spn_latch_destroy(told);
    spn_latch_destroy(database);
    return rc == SPN_EREJECTED ? 0 : 1;
}
