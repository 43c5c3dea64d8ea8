/* SPDX-License-Identifier: MIT */
/*
 * future_task.c - after "Future", "线程使用" of the notes on thread pools (document 002): a
 * FutureTask runs in a bare thread, and another thread gets its value.
 *
 *     FutureTask<String> task = new FutureTask<>(() -> "Hello World");
 *     new Thread(task).start();
 *     System.out.println(task.get());
 */
#include <spindle.h>

#include <stdio.h>

/* Callable.call(): 0 and a result, or another number, the code of the failure. */
static int call(void *arg, void **result)
{
    (void)arg;
    *result = "Hello World";
    return 0;
}

/* A future is a FutureTask and a Runnable: whoever runs it completes it. */
static int run(void *task)
{
    return spn_future_run(task) == 1 ? 0 : SPN_ESTATE;
}

int main(void)
{
    spn_future *task;
    spn_thread *thread;
    void *message = NULL;
    int rc;

    if (spn_future_create_task(&task, call, NULL, NULL) != SPN_OK ||
        spn_thread_create(&thread, NULL, run, task) != SPN_OK)
        return 1;

    rc = spn_future_get(task, &message, SPN_FOREVER); /* waits, as task.get() does */
    if (rc == SPN_OK)
        printf("%s\n", (const char *)message);

    if (spn_thread_join(thread, SPN_FOREVER, NULL) != SPN_OK)
        return 1;
    spn_thread_unref(thread);
    spn_future_unref(task);
    return rc == SPN_OK ? 0 : 1;
}
