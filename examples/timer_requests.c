/* SPDX-License-Identifier: MIT */
/*
 * timer_requests.c - a timeout per request, and a heart-beat while nothing else is sent.
 *
 * The timeout is part of the request, so scheduling allocates nothing.  Whoever comes
 * first decides: the answer, whose cancel says that the timeout will not run, or the
 * timeout.
 */
#include <stdio.h>

#include <spindle.h>

struct request {
    spn_timeout timeout; /* first, so that one is the other's address */
    int number;
    const char *outcome;
};

static spn_timer *timer;
static spn_latch *all_done;

static void finish(struct request *request, const char *outcome)
{
    request->outcome = outcome;
    (void)spn_latch_count_down(all_done);
}

/* On the timer's thread, unless the answer was faster. */
static int on_timeout(spn_timeout *timeout)
{
    finish((struct request *)(void *)timeout, "timed out");
    return 0;
}

/* On whatever thread the answer arrives. */
static void on_answer(struct request *request)
{
    if (spn_timer_cancel(timer, &request->timeout) == SPN_TIMEOUT_REMOVED)
        finish(request, "answered");
}

/* Nothing was sent for a period.  The peer is there, so ask less often from now on. */
static int beat(spn_timeout *timeout)
{
    return spn_timer_set_period(timer, timeout, SPN_MS(10));
    /* a failure would be counted and reported */
}

/* What is sent tells the peer as much as a beat: the next one is due a period later. */
static int send_request(struct request *request, spn_timeout *heartbeat,
                        int64_t timeout_ns)
{
    const int rc = spn_timer_schedule(timer, &request->timeout, on_timeout, timeout_ns);

    return rc == SPN_OK ? spn_timer_again(timer, heartbeat) : rc;
}

int main(void)
{
    struct request requests[6] = { { .number = 0 } };
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_period every = SPN_PERIOD_INIT;
    spn_timer_stats stats = SPN_TIMER_STATS_INIT;
    spn_timeout heartbeat = SPN_TIMEOUT_INIT, *left;
    int64_t beat_ms;
    int answered = 0;

    opts.tick_ns = SPN_MS(1);
    if (spn_timer_create(&timer, &opts) != SPN_OK ||
        spn_latch_create(&all_done, 6) != SPN_OK)
        return 1;
    every.period_ns = SPN_MS(5);
    if (spn_timer_schedule_periodic(timer, &heartbeat, beat, every.period_ns, &every) !=
        SPN_OK)
        return 1;
    for (int i = 0; i < 6; i++) {
        requests[i].number = i;
        if (send_request(&requests[i], &heartbeat,
                         i % 2 == 0 ? SPN_MS(20) : SPN_SEC(60)) != SPN_OK)
            return 1;
    }
    beat_ms = spn_timer_remaining(timer, &heartbeat) / SPN_MS(1) + 1;
    printf("the next beat in %lld ms at most\n", (long long)beat_ms);
    for (int i = 1; i < 6; i += 2)
        on_answer(&requests[i]); /* the others are never answered */
    if (spn_latch_await(all_done, SPN_SEC(10)) != SPN_OK)
        return 1;
    for (int i = 0; i < 6; i++) {
        printf("request %d: %s\n", i, requests[i].outcome);
        if (spn_timeout_state(&requests[i].timeout) !=
            (i % 2 == 0 ? SPN_TIMEOUT_EXPIRED : SPN_TIMEOUT_CANCELLED))
            return 1;
        answered += requests[i].outcome[0] == 'a';
    }

    /* What is still pending comes back: here the heart-beat. */
    if (spn_timer_stop(timer, &left, NULL) != SPN_OK ||
        spn_timeout_pop(&left) != &heartbeat || spn_timeout_pop(&left) != NULL)
        return 1;
    if (spn_timer_get_stats(timer, &stats) != SPN_OK)
        return 1;
    printf("fired %llu, cancelled %llu, at most %lld us late\n",
           (unsigned long long)stats.fired, (unsigned long long)stats.cancelled,
           (long long)(stats.late_max_ns / 1000));
    spn_latch_destroy(all_done);
    return spn_timer_destroy(timer) == SPN_OK && answered == 3 ? 0 : 1;
}
