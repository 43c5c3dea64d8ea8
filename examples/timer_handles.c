/* SPDX-License-Identifier: MIT */
/*
 * timer_handles.c - timeouts that the library owns: retries with a growing delay.
 *
 * A job belongs to the timer until it has one of three ends, and each end frees it: it
 * succeeds (on_time), it is cancelled (on_gone), or stop gives it back (main).  A job that
 * fails schedules its own handle again, which allocates nothing.
 */
#include <spindle.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { JOBS = 12, SUCCEEDING = JOBS / 3 };

struct job {
    int failures; /* to come */
    int64_t delay_ns;
};

static spn_timer *timer;
static spn_latch *succeeded;
static atomic_int tries, cancelled;
static spn_timeout_handle
    *last; /* of the job that succeeded last, for main to ask about */

/* On the timer's thread, when it is time to try, and only then. */
static void on_time(spn_timeout_handle *handle, void *arg)
{
    struct job *job = arg;

    atomic_fetch_add(&tries, 1);
    if (job->failures-- > 0) {
        job->delay_ns *= 2;
        if (spn_timeout_handle_again(handle, job->delay_ns) == SPN_OK)
            return;
    }
    free(job);
    spn_timeout_handle_unref(last);
    last = spn_timeout_handle_ref(handle);
    (void)spn_latch_count_down(succeeded);
}

/* On the timer's thread, in place of on_time, after a cancel. */
static void on_gone(void *arg, int reason)
{
    free(arg);
    atomic_fetch_add(&cancelled, reason == SPN_ECANCELED);
}

static spn_timeout_handle *start_job(int failures, int64_t delay_ns)
{
    spn_timeout_handle *handle;
    struct job *job = malloc(sizeof *job);

    if (job == NULL)
        return NULL;
    job->failures = failures;
    job->delay_ns = delay_ns;
    if (spn_timer_new_timeout(timer, on_time, on_gone, job, delay_ns, &handle) ==
        SPN_OK)
        return handle;
    free(job); /* nobody was called */
    return NULL;
}

int main(void)
{
    spn_timeout_handle *handles[JOBS], *handle;
    spn_timer_opts opts = SPN_TIMER_OPTS_INIT;
    spn_timeout_handle_list left;
    int returned = 0;

    opts.tick_ns = SPN_MS(1);
    if (spn_timer_create(&timer, &opts) != SPN_OK ||
        spn_latch_create(&succeeded, SUCCEEDING) != SPN_OK)
        return 1;
    for (int i = 0; i < JOBS; i++) {
        handles[i] = start_job(2, i < SUCCEEDING ? SPN_MS(1) : SPN_SEC(60));
        if (handles[i] == NULL)
            return 1;
    }
    for (int i = SUCCEEDING; i < 2 * SUCCEEDING; i++)
        if (spn_timeout_handle_cancel(handles[i]) != SPN_TIMEOUT_REMOVED)
            return 1; /* on_time will not be called, on_gone will */
    for (int i = 0; i < JOBS; i++)
        spn_timeout_handle_unref(handles[i]); /* the timer has its own */
    if (spn_latch_await(succeeded, SPN_SEC(10)) != SPN_OK)
        return 1;

    /* For the rest neither on_time nor on_gone is called: the jobs are ours again. */
    if (spn_timer_stop(timer, NULL, &left) != SPN_OK)
        return 1;
    for (; (handle = spn_timeout_handle_take(&left)) != NULL; returned++) {
        free(spn_timeout_handle_arg(handle));
        spn_timeout_handle_unref(handle);
    }
    printf("tries: %d, cancelled: %d, returned by stop: %d\n", tries, cancelled,
           returned);
    spn_latch_destroy(succeeded);
    if (spn_timer_destroy(timer) != SPN_OK ||
        spn_timeout_handle_state(last) != SPN_TIMEOUT_EXPIRED) /* outlives the timer */
        return 1;
    spn_timeout_handle_unref(last);
    return tries == 3 * SUCCEEDING && cancelled == SUCCEEDING && returned == SUCCEEDING
               ? 0
               : 1;
}
