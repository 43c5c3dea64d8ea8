/* SPDX-License-Identifier: MIT */
/*
 * future_timeout.c - a request with a deadline, a cache that answers when the server is
 * slow, and a retry after a pause: futures on one timer.
 *
 * Nothing here sleeps, and no thread waits for a time: the timer completes the futures, and
 * what is answered before leaves nothing behind in it.
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
    spn_delayed_executor *later;
    spn_future *silent, *slow, *quick, *again, *abandoned;
    spn_timer *timer;
    void *value = NULL;
    int cause = 0;

    opts.tick_ns = SPN_MS(1);
    if (spn_timer_create(&timer, &opts) != SPN_OK ||
        spn_delayed_executor_create(&later, timer, spn_executor_direct(), SPN_MS(10)) !=
            SPN_OK ||
        spn_future_create(&silent, NULL) != SPN_OK ||
        spn_future_create(&slow, NULL) != SPN_OK ||
        spn_future_create(&quick, NULL) != SPN_OK)
        return 1;

    /* No answer within 20 ms is a failure; or what the cache has, after 5; or neither. */
    if (spn_future_or_timeout(silent, timer, SPN_MS(20)) != SPN_OK ||
        spn_future_complete_on_timeout(slow, timer, (void *)(uintptr_t)cached,
                                       SPN_MS(5)) != SPN_OK ||
        spn_future_or_timeout(quick, timer, SPN_SEC(3600)) != SPN_OK)
        return 1;
    (void)spn_future_complete(quick,
                              (void *)(uintptr_t)fresh); /* its hour is forgotten */

    /* A retry in 10 ms, and one that nobody wants any more. */
    if (spn_executor_submit(spn_delayed_executor_executor(later), retry, NULL,
                            &again) != SPN_OK ||
        spn_executor_submit(spn_delayed_executor_executor(later), retry, NULL,
                            &abandoned) != SPN_OK)
        return 1;
    (void)spn_future_cancel(abandoned, 0);

    if (spn_future_get(silent, NULL, SPN_SEC(10)) != SPN_EFAILED ||
        spn_future_error(silent, &cause, NULL, 0) != SPN_OK)
        return 1;
    printf("silent: %s\n", spn_status_text(cause));
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
    if (spn_timer_stop(timer, NULL) != SPN_OK ||
        spn_delayed_executor_destroy(later) != SPN_OK)
        return 1;
    return spn_timer_destroy(timer) == SPN_OK && cause == SPN_ETIMEDOUT ? 0 : 1;
}
