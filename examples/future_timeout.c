/* SPDX-License-Identifier: MIT */
/*
 * future_timeout.c - a request with a deadline, a cache that answers when the server is
 * slow, and a retry after a pause: futures that know the time.
 *
 * Nothing here sleeps, and no thread waits for a time: the timer completes the futures, and
 * what is answered before leaves nothing behind in it.  What is to run later waits in a
 * scheduled executor.
 */
#include <stdio.h>

#include <spindle.h>

static const char cached[] = "cached";
static const char fresh[] = "fresh";

static int retry(void *arg, void **result)
{
    (void)arg;
    *result = (void *)(uintptr_t)fresh;
    return 0;
}

int main(void)
{
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_scheduled_opts one = spn_scheduled_opts_pool(1);
    spn_scheduled *later;
    spn_future *silent, *slow, *quick, *again, *abandoned;
    spn_timer *timer;
    void *value = NULL;
    spn_outcome outcome = { .code = 0 };

    opts.tick_ns = SPN_MS(1);
    if (spn_timer_create(&timer, &opts) != SPN_OK ||
        spn_scheduled_create(&later, &one) != SPN_OK ||
        spn_future_create(&silent, NULL) != SPN_OK ||
        spn_future_create(&slow, NULL) != SPN_OK ||
        spn_future_create(&quick, NULL) != SPN_OK)
        return 1;

    /* No answer within 20 ms is a failure; or what the cache has, after 5; or neither. */
    if (spn_future_or_timeout(silent, timer, SPN_MS(20), NULL) != SPN_OK ||
        spn_future_complete_on_timeout(slow, timer, (void *)(uintptr_t)cached,
                                       SPN_MS(5)) != SPN_OK ||
        spn_future_or_timeout(quick, timer, SPN_SEC(3600), NULL) != SPN_OK)
        return 1;
    (void)spn_future_complete(quick,
                              (void *)(uintptr_t)fresh); /* its hour is forgotten */

    /* A retry in 10 ms, and one that nobody wants any more. */
    if (spn_scheduled_schedule(later, retry, NULL, SPN_MS(10), &again) != SPN_OK ||
        spn_scheduled_schedule(later, retry, NULL, SPN_MS(10), &abandoned) != SPN_OK)
        return 1;
    (void)spn_future_cancel(abandoned, 0);

    if (spn_future_get(silent, NULL, SPN_SEC(10)) != SPN_EFAILED ||
        spn_future_result(silent, &outcome) != SPN_EFAILED)
        return 1;
    printf("silent: %s\n", spn_status_text(outcome.code));
    if (spn_future_get(slow, &value, SPN_SEC(10)) != SPN_OK)
        return 1;
    printf("slow: %s\n", (const char *)value);
    if (spn_future_get(again, &value, SPN_SEC(10)) != SPN_OK)
        return 1;
    printf("again: %s\n", (const char *)value);
    printf("pending: %lld\n", (long long)spn_timer_pending(timer));

    spn_future_unref(silent);
    spn_future_unref(slow);
    spn_future_unref(quick);
    spn_future_unref(again);
    spn_future_unref(abandoned);
    if (spn_executor_shutdown(spn_scheduled_executor(later)) != SPN_OK ||
        spn_executor_await(spn_scheduled_executor(later), SPN_SEC(10)) != SPN_OK ||
        spn_scheduled_destroy(later) != SPN_OK ||
        spn_timer_stop(timer, NULL, NULL) != SPN_OK)
        return 1;
    return spn_timer_destroy(timer) == SPN_OK && outcome.code == SPN_ETIMEDOUT ? 0 : 1;
}
