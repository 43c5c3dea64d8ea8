/* SPDX-License-Identifier: MIT */
/*
 * future_chain.c - work in stages: each runs when the one before is done, and a
 * failure goes past them to the one that handles failures.
 */
#include <stdio.h>
#include <stdlib.h>

#include <spindle.h>

/* A thread that runs what the executor has been given. */
static int worker(void *executor)
{
    return spn_manual_executor_run_all(executor, NULL);
}

static int read_number(void *arg, void **result)
{
    const char *text = arg;
    char *rest;
    const long number = strtol(text, &rest, 10);

    if (*rest != '\0')
        return spn_future_fail(-22, "not a number");
    *result = (void *)number;
    return 0;
}

static int square(void *arg, void *value, void **result)
{
    const long number = (long)value;

    (void)arg;
    *result = (void *)(number * number);
    return 0;
}

static int explain(void *arg, const spn_outcome *outcome, void **result)
{
    printf("%s: %s (%d)\n", (const char *)arg, outcome->message, outcome->code);
    *result = (void *)-1L;
    return 0;
}

static long compute(spn_executor *executor, spn_manual_executor *tasks, char *text)
{
    spn_future *number = NULL, *squared = NULL, *safe = NULL;
    spn_thread *thread = NULL;
    void *value = NULL;
    long answer = -2;

    if (spn_future_supply_async(executor, read_number, text, &number) == SPN_OK &&
        spn_future_then(number, square, NULL, &squared) == SPN_OK &&
        spn_future_exceptionally(squared, explain, text, &safe) == SPN_OK &&
        spn_thread_create(&thread, NULL, worker, tasks) == SPN_OK) {
        if (spn_future_get(safe, &value, SPN_SEC(5)) == SPN_OK &&
            spn_thread_join(thread, SPN_FOREVER, NULL) == SPN_OK)
            answer = (long)value;
    }
    spn_thread_unref(thread);
    spn_future_unref(safe);
    spn_future_unref(squared);
    spn_future_unref(number);
    return answer;
}

int main(void)
{
    char good[] = "12", bad[] = "a dozen";
    spn_manual_executor *tasks;
    long squared, failed;

    if (spn_manual_executor_create(&tasks) != SPN_OK)
        return 1;
    squared = compute(spn_manual_executor_executor(tasks), tasks, good);
    failed = compute(spn_manual_executor_executor(tasks), tasks, bad);
    printf("%s squared is %ld\n", good, squared);
    if (spn_manual_executor_destroy(tasks) != SPN_OK)
        return 1;
    return squared == 144 && failed == -1 ? 0 : 1;
}
