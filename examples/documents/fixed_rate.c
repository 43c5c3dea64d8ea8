/* SPDX-License-Identifier: MIT */
/*
 * fixed_rate.c - after "scheduleAtFixedRate" of the notes on thread pools (document 002): a
 * run takes 2 s and the period is 1 s, so the runs follow one another at once.
 *
 *     pool.scheduleAtFixedRate(() -> { running; Thread.sleep(2000); }, 1, 1, SECONDS);
 *     // start 18:08:12, running 18:08:13, 18:08:15, 18:08:17
 *
 * The clock is a manual one: the seconds are exact and take no time.
 */
#include <spindle.h>

#include <stdio.h>

static spn_clock *clock_;
static spn_latch *three_runs;

static int running(void *arg)
{
    const int64_t now_ns = spn_clock_now(clock_);
    int rc;

    (void)arg;
    printf("running... %lld s\n", (long long)(now_ns / SPN_SEC(1)));
    spn_latch_count_down(three_runs);
    rc = spn_clock_sleep_until(clock_, now_ns + SPN_SEC(2)); /* Thread.sleep(2000) */
    return rc == SPN_EINTR ? 0 : rc;
}

int main(void)
{
    spn_scheduled_opts opts = spn_scheduled_opts_pool(1);
    spn_scheduled *pool;
    spn_future *task;

    if (spn_clock_create_manual(&clock_, 0) != SPN_OK ||
        spn_latch_create(&three_runs, 3) != SPN_OK)
        return 1;
    opts.clock = clock_;
    if (spn_scheduled_create(&pool, &opts) != SPN_OK)
        return 1;
    printf("start... 0 s\n");
    if (spn_scheduled_at_fixed_rate(pool, running, NULL, SPN_SEC(1), SPN_SEC(1),
                                    &task) != SPN_OK ||
        spn_clock_advance(clock_, SPN_SEC(1)) != SPN_OK) /* the first run is due */
        return 1;
    for (;;) {
        /* A run sleeps.  When it wakes the next one is late already, and starts. */
        if (spn_clock_await_sleepers(clock_, 1, SPN_SEC(30)) != SPN_OK)
            return 1;
        if (spn_latch_count(three_runs) == 0)
            break;
        if (spn_clock_advance_to_next(clock_, NULL) != SPN_OK)
            return 1;
    }

    /* No more runs; the one that sleeps is interrupted. */
    if (spn_future_cancel(task, 1) != 1)
        return 1;
    spn_future_unref(task);
    if (spn_executor_shutdown(spn_scheduled_executor(pool)) != SPN_OK ||
        spn_executor_await(spn_scheduled_executor(pool), SPN_SEC(30)) != SPN_OK ||
        spn_scheduled_destroy(pool) != SPN_OK)
        return 1;
    spn_latch_destroy(three_runs);
    return spn_clock_destroy(clock_) == SPN_OK ? 0 : 1;
}
