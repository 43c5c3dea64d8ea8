/* SPDX-License-Identifier: MIT */
/*
 * scheduled_takeover.c - reminders whose thread is stuck.
 *
 * The only thread of the scheduled pool waits for a printer.  Main notices, takes what is
 * due out of the queue, and runs it, but for what is not needed any more.  What is not due
 * stays in the queue.
 */
#include <spindle.h>

#include <stdio.h>

enum { REMINDERS = 4 };

static spn_latch *printing, *printed;

static int print_page(void *arg)
{
    (void)arg;
    spn_latch_count_down(printing);
    return spn_latch_await(printed, SPN_SEC(60));
}

static int remind(void *arg, void **result)
{
    printf("reminder: %s\n", (const char *)arg);
    *result = arg;
    return 0;
}

/* Runs what is due on this thread, but for `needless`; how many were due. */
static int64_t take_over(spn_scheduled *scheduled, const spn_future *needless)
{
    spn_task *due[REMINDERS];
    const int64_t count = spn_scheduled_drain(scheduled, due, REMINDERS);

    for (int64_t i = 0; i < count; i++)
        if (spn_future_of_task(due[i]) == needless)
            (void)spn_task_drop(due[i], SPN_ECANCELED);
        else
            (void)spn_task_run(due[i]); /* its future has the result */
    return count;
}

int main(void)
{
    static char rent[] = "rent", tax[] = "tax", birthday[] = "birthday";
    spn_scheduled_opts opts = spn_scheduled_opts_pool(1);
    spn_future *paid, *unpaid, *later;
    spn_scheduled *scheduled;
    int rc;

    opts.delayed_after_shutdown = 0; /* the birthday is far off */
    if (spn_latch_create(&printing, 1) != SPN_OK ||
        spn_latch_create(&printed, 1) != SPN_OK ||
        spn_scheduled_create(&scheduled, &opts) != SPN_OK ||
        spn_scheduled_call(scheduled, print_page, NULL, 0) != SPN_OK ||
        spn_latch_await(printing, SPN_SEC(60)) != SPN_OK)
        return 1;
    if (spn_scheduled_schedule(scheduled, remind, tax, 0, &paid) != SPN_OK ||
        spn_scheduled_schedule(scheduled, remind, rent, 0, &unpaid) != SPN_OK ||
        spn_scheduled_schedule(scheduled, remind, birthday, SPN_SEC(86400), &later) !=
            SPN_OK)
        return 1;
    rc = take_over(scheduled, paid) == 2 && /* the tax is paid by now */
                 spn_future_get_state(paid) == SPN_FUTURE_CANCELED &&
                 spn_future_get_state(unpaid) == SPN_FUTURE_SUCCEEDED &&
                 spn_future_get_state(later) == SPN_FUTURE_PENDING
             ? 0
             : 1;
    spn_latch_count_down(printed);
    if (spn_pool_close(spn_scheduled_pool(scheduled)) != SPN_OK)
        return 1;
    spn_future_unref(paid);
    spn_future_unref(unpaid);
    spn_future_unref(later);
    if (spn_scheduled_destroy(scheduled) != SPN_OK)
        return 1;
    spn_latch_destroy(printing);
    spn_latch_destroy(printed);
    return rc;
}
