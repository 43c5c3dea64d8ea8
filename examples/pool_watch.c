/* SPDX-License-Identifier: MIT */
/*
 * pool_watch.c - a pool that is looked after.
 *
 * One thread sends orders, and the warehouse does not answer the first: the others wait.  A
 * watch on a timer tells both, and which order it is.  Once all are sent, the health check of
 * the program has a look made, and nothing is found; the times of the tasks tell how long the
 * orders waited.
 */
#include <spindle.h>

#include <stdio.h>

enum { ORDERS = 3 };
static const char *const labels[ORDERS] = { "order 1", "order 2", "order 3" };

static spn_latch *warehouse, *told;

/* On the timer's thread: tell an operator, or ask spn_report_pool where the threads are. */
static void tell(void *ctx, const spn_alarm *alarm)
{
    (void)ctx;
    if (alarm->kind == SPN_ALARM_SLOW)
        printf("pool %s: %s has run for %lld ms or more\n", alarm->pool, alarm->label,
               (long long)(alarm->threshold / SPN_MS(1)));
    else
        printf("pool %s: %lld wait\n", alarm->pool, (long long)alarm->value);
    spn_latch_count_down(told);
}

static int send_order(spn_task *task)
{
    (void)task;
    return spn_latch_await(warehouse, SPN_SEC(30));
}

int main(void)
{
    spn_pool_opts pool_opts = spn_pool_opts_fixed(1, 100);
    spn_metrics_source source = SPN_METRICS_SOURCE_INIT;
    spn_watch_opts opts = SPN_WATCH_OPTS_INIT;
    spn_task_times_opts times_opts = SPN_TASK_TIMES_OPTS_INIT;
    spn_histogram_snapshot waits = SPN_HISTOGRAM_SNAPSHOT_INIT;
    spn_job orders[ORDERS];
    spn_task_times *times;
    spn_watch *watch;
    int found;

    pool_opts.name = "orders";
    times_opts.every = 1; /* there are only three */
    if (spn_latch_create(&warehouse, 1) != SPN_OK ||
        spn_latch_create(&told, 2) != SPN_OK ||
        spn_task_times_create(&times, &times_opts) != SPN_OK ||
        spn_task_times_install(times, &pool_opts.hooks) != SPN_OK ||
        spn_pool_create(&source.pool, &pool_opts) != SPN_OK ||
        spn_metrics_create(&opts.metrics) != SPN_OK ||
        spn_timer_create(&opts.timer, NULL) != SPN_OK)
        return 1;
    source.times = times;
    opts.period_ns = SPN_MS(10);
    opts.queued = ORDERS - 1;
    opts.slow_ns = SPN_MS(50);
    opts.alarm = tell;
    if (spn_metrics_add(opts.metrics, &source) != SPN_OK ||
        spn_watch_create(&watch, &opts) != SPN_OK)
        return 1;
    for (int i = 0; i < ORDERS; i++) {
        orders[i] = (spn_job)SPN_JOB_INIT(send_order, NULL);
        orders[i].label = labels[i];
        if (spn_executor_execute(spn_pool_executor(source.pool), &orders[i].task) !=
            SPN_OK)
            return 1;
    }
    if (spn_latch_await(told, SPN_SEC(30)) != SPN_OK)
        return 1;
    spn_latch_count_down(warehouse); /* it answers after all */
    spn_pool_close(source.pool);
    while ((found = spn_watch_check(watch)) == SPN_EBUSY)
        ; /* the timer has a look made */
    printf("all are sent, and %d alarms given\n", found);
    if (spn_task_times_get(times, &waits, NULL) != SPN_OK)
        return 1;
    printf("%llu orders waited, half of them %lld ms or less\n",
           (unsigned long long)waits.count,
           (long long)(spn_histogram_quantile(&waits, 0.5) / SPN_MS(1)));

    while (spn_watch_destroy(watch) == SPN_EBUSY)
        ;
    if (spn_timer_stop(opts.timer, NULL, NULL) != SPN_OK)
        return 1;
    spn_timer_destroy(opts.timer);
    spn_metrics_destroy(opts.metrics);
    spn_pool_destroy(source.pool);
    spn_task_times_destroy(times);
    spn_latch_destroy(told);
    spn_latch_destroy(warehouse);
    return found == 0 && waits.count == ORDERS ? 0 : 1;
}
