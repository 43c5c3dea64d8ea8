/* SPDX-License-Identifier: MIT */
/*
 * scheduled.c - a probe every few milliseconds, a report when it is over, one that is
 * wanted earlier, and a request that is given up: the probe survives a failure, because it
 * was told to.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>

static atomic_int probes;
static spn_latch *enough;

static int probe(void *arg)
{
    const int n = atomic_fetch_add(&probes, 1) + 1;

    (void)arg;
    if (n <= 5 && spn_latch_count_down(enough) != SPN_OK)
        return 1;
    return n == 2 ? SPN_EAGAIN : 0; /* reported, and it goes on */
}

static void failed(spn_scheduled *scheduled, spn_future *future, int code, void *ctx)
{
    (void)scheduled;
    (void)future;
    (void)ctx;
    printf("a probe failed: %s\n", spn_status_text(code));
}

static int report(void *arg, void **result)
{
    *result = arg;
    return 0;
}

int main(void)
{
    spn_scheduled_opts opts = spn_scheduled_opts_pool(2);
    spn_schedule what = SPN_SCHEDULE_INIT;
    spn_future *probing, *reporting, *early, *given_up;
    spn_scheduled *scheduled;
    void *text;

    opts.name = "probe";
    opts.failed = failed;
    if (spn_latch_create(&enough, 5) != SPN_OK ||
        spn_scheduled_create(&scheduled, &opts) != SPN_OK)
        return 1;
    what.run = probe;
    what.period_ns = SPN_MS(5);
    what.repeat = SPN_REPEAT_RATE;
    what.on_failure = SPN_FAILURE_GO_ON;
    if (spn_scheduled_schedule_with(scheduled, &what, &probing) != SPN_OK ||
        spn_scheduled_schedule(scheduled, report, "all is well", SPN_MS(20),
                               &reporting) != SPN_OK ||
        spn_scheduled_schedule(scheduled, report, "already", SPN_SEC(3600), &early) !=
            SPN_OK ||
        spn_scheduled_schedule(scheduled, report, "never seen", SPN_SEC(3600),
                               &given_up) != SPN_OK)
        return 1;

    if (spn_latch_await(enough, SPN_SEC(60)) != SPN_OK ||
        spn_future_get(reporting, &text, SPN_SEC(60)) != SPN_OK)
        return 1;
    printf("5 probes, %lld failed; %s\n",
           (long long)spn_scheduled_failed_runs(scheduled), (const char *)text);

    /* Taken out of the queue it has no outcome yet, and is run here. */
    if (spn_scheduled_remove(scheduled, early) != 1 || spn_future_run(early) != 1 ||
        spn_future_get(early, &text, 0) != SPN_OK)
        return 1;
    printf("%s\n", (const char *)text);

    /* Cancelled, it leaves the queue at once; nothing waits for that hour. */
    if (spn_future_cancel(given_up, 0) != 1)
        return 1;
    /* Shutdown cancels what is periodic and lets the rest run. */
    if (spn_pool_close(spn_scheduled_pool(scheduled)) != SPN_OK ||
        spn_future_get_state(probing) != SPN_FUTURE_CANCELED)
        return 1;
    spn_future_unref(probing);
    spn_future_unref(reporting);
    spn_future_unref(early);
    spn_future_unref(given_up);
    if (spn_latch_destroy(enough) != SPN_OK)
        return 1;
    return spn_scheduled_destroy(scheduled) == SPN_OK ? 0 : 1;
}
